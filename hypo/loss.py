"""HypoLoss: the module that owns the prototypes. The mathematics is in `hypo.sphere`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from hypo.contracts import check
from hypo.distributed import whole_batch
from hypo.sphere import class_sums, separation_loss, to_sphere, update_prototypes, variation_loss
from hypo.suggest import one_of


class HypoTerms(NamedTuple):
    """What a call of `HypoLoss` returns: total = weight * variation + separation, each a scalar tensor."""

    total: Tensor
    variation: Tensor
    separation: Tensor


def falling_temperature(progress: float, start: float = 1.0, end: float = 0.1, share: float = 0.3) -> float:
    """tau at a share `progress` of the training: from `start` to `end` in equal ratios over the first `share` of it.

        criterion.temperature = falling_temperature(step / steps)      # before each call of a HypoLoss

    The gradients of both losses grow as 1 / tau. At tau = 0.1 the first steps can be so long that all embeddings flee
    together from the prototypes and end in one heap, where no gradient along the sphere is left; a high temperature
    keeps these steps short (of SGD; Adam's do not depend on the size of a gradient). This start is not the paper's,
    whose tau is constant.
    """
    if not (start > 0 and end > 0 and 0 < share <= 1 and 0 <= progress <= 1):
        raise ValueError(
            "a falling temperature needs start and end above 0, share in (0, 1] and progress in [0, 1], "
            f"not start {start}, end {end}, share {share}, progress {progress}"
        )
    return end * math.exp(max(0.0, 1 - progress / share) * math.log(start / end))


class HypoLoss(nn.Module):
    """The objective of HYPO (Section 4.1), L = lambda L_var + L_sep, and the prototypes it needs.

        criterion = HypoLoss(num_classes=7, dim=512)
        terms = criterion(z, y)          # z = model(images), unit vectors (N, d)
        terms.total.backward()

    num_classes  C >= 2
    dim          d, the embedding size; the paper: 128 for CIFAR-10 and ImageNet-100, 512 for the others
    temperature  tau; the paper: 0.1
    momentum     alpha of the moving average; the paper: 0.95. Not used by learnable prototypes
    weight       lambda on the variation term; the paper: 1, 2 or 4
    prototypes   "ema": a buffer, the moving average of the embeddings (Algorithm 1)
                 "learnable": a parameter kept on the sphere, trained by both terms (Table 13)

    With "ema" the separation term trains the network through the moving average, and the variation term sees
    the updated prototypes as constants. A call in training mode moves the prototypes; in `eval()` it does not.
    Prototypes start from `reset_prototypes`, or else each class starts at its mean in the first batch it is in.

    Under `torch.distributed` each rank passes its part of the batch; embeddings, labels and domains are gathered
    in the order of the ranks, so every rank sees the loss and the prototypes of the whole batch. Gradients are
    those of the whole batch once averaged over ranks, which is what DistributedDataParallel does.
    """

    prototypes: Tensor
    started: Tensor

    def __init__(
        self,
        num_classes: int,
        dim: int,
        temperature: float = 0.1,
        momentum: float = 0.95,
        weight: float = 1.0,
        prototypes: str = "ema",
    ) -> None:
        super().__init__()
        check(num_classes=num_classes, temperature=temperature, momentum=momentum)
        one_of("prototypes", prototypes, ("ema", "learnable"))
        if dim < 2:
            raise ValueError(f"dim must be at least 2 for a sphere to turn on, not {dim}")
        if not weight >= 0:
            raise ValueError(f"weight, the lambda on the variation term, must not be negative, not {weight}")
        self.num_classes, self.dim = num_classes, dim
        self.temperature, self.momentum, self.weight = temperature, momentum, weight
        self.learnable = prototypes == "learnable"
        directions = to_sphere(torch.randn(num_classes, dim, generator=torch.Generator().manual_seed(0)))
        if self.learnable:
            self.prototypes = nn.Parameter(directions)
            parametrize.register_parametrization(self, "prototypes", _OnSphere())
        else:
            self.register_buffer("prototypes", directions)
            self.register_buffer("started", torch.zeros(num_classes, dtype=torch.bool))

    def forward(self, z: Tensor, y: Tensor, domains: Tensor | None = None) -> HypoTerms:
        """z (N, d) unit vectors, y (N,) int64, domains (N,) int64 to add same-domain hard negatives (Appendix D)."""
        return self.terms(*whole_batch(z, y, domains))

    def terms(self, z: Tensor, y: Tensor, domains: Tensor | None = None) -> HypoTerms:
        """`forward` for a batch that was gathered from all ranks before."""
        if z.dtype in (torch.float16, torch.bfloat16):
            check(z=z)
            z = to_sphere(z)
        mu = self.prototypes  # (C, d)
        check(z=z, y=y, prototypes=mu, domains=domains)
        if self.learnable:
            anchors = mu
        else:
            if self.training:
                if not self.started.all():
                    mu = self._start(z.detach(), y)
                mu = update_prototypes.__wrapped__(mu, z, y, self.momentum)
                self.prototypes.copy_(mu.detach())
            anchors = mu.detach()
        variation = variation_loss.__wrapped__(z, y, anchors, self.temperature, domains)
        separation = separation_loss.__wrapped__(mu, self.temperature)
        return HypoTerms(self.weight * variation + separation, variation, separation)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> HypoLoss:
        """Move or convert; prototypes keep their precision under `half()`, in which their updates would round away."""

        def kept(x: Tensor) -> Tensor:
            moved = fn(x)
            return x.to(moved.device) if moved.dtype in (torch.float16, torch.bfloat16) else moved

        return super()._apply(kept, recurse)

    def _start(self, z: Tensor, y: Tensor) -> Tensor:
        """The prototypes, with each class that starts in this batch at its mean in it; (C, d)."""
        new = torch.bincount(y, minlength=self.num_classes).bool() & ~self.started
        self.started |= new
        return torch.where(new[:, None], to_sphere(class_sums(z, y, self.num_classes)), self.prototypes)

    @torch.no_grad()
    def reset_prototypes(self, prototypes: Tensor) -> None:
        """Start from these (C, d) unit vectors, e.g. `class_means(z, y, num_classes)` of training features."""
        check(prototypes=prototypes)
        if prototypes.shape != self.prototypes.shape:
            raise ValueError(
                f"prototypes must be {tuple(self.prototypes.shape)}, one unit vector per class, "
                f"not {tuple(prototypes.shape)}"
            )
        if self.learnable:
            self.prototypes = prototypes.to(self.prototypes)
        else:
            self.prototypes.copy_(prototypes)
            self.started.fill_(True)

    @torch.no_grad()
    def predict(self, z: Tensor) -> Tensor:
        """The class whose prototype is nearest, argmax_c z . mu_c; (N, d) -> (N,) int64."""
        return (z.to(self.prototypes.dtype) @ self.prototypes.T).argmax(dim=1)

    def extra_repr(self) -> str:
        kind = "learnable" if self.learnable else f"ema, momentum={self.momentum}"
        sizes = f"num_classes={self.num_classes}, dim={self.dim}"
        return f"{sizes}, temperature={self.temperature}, weight={self.weight}, {kind}"


class _OnSphere(nn.Module):
    """Keeps a parameter on the unit sphere: what is read is normalised, what is set is stored as it is."""

    def forward(self, directions: Tensor) -> Tensor:
        return to_sphere(directions)

    def right_inverse(self, prototypes: Tensor) -> Tensor:
        return prototypes
