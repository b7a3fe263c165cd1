"""ARM: each image is seen beside a context that its domain's images share (Zhang et al., NeurIPS 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.distributed import rows_of_all, whole_batch

if TYPE_CHECKING:
    from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    context_channels: int = setting(64, "channels of the context network's two hidden layers", at_least=1)


class ARM(Algorithm):
    """L = cross-entropy of h([x_i, c_e]), with c_e = mean of phi(x_j) over the batch's images j of the domain e of i.

    h             backbone and classifier, with one more input channel
    phi           context network, image (3, S, S) -> map (1, S, S): three convolutions of 5x5, the last of which starts
                  at 0
    c_e           the context, (1, S, S). When evaluated, it is of the images passed together, which are of one domain

    This is ARM with a contextual meta-learner. M. Zhang et al., Adaptive risk minimization: learning to adapt to
    domain shift, NeurIPS 2021.

    Avoids: a random context, which disturbs a pretrained network. Ours starts at 0, and the filters that read it are
    the mean of those for red, green and blue, so it gets a gradient from the first step on; with filters of 0 it would
    get none. Avoided too: contexts of images that merely lie together in the batch, whatever their domain.
    """

    Hyperparameters = Hyperparameters
    kind = "network"
    sampling = "per_domain"
    needs_batch = True

    @classmethod
    def defaults(cls, scale: str, benchmark: str, held_out: str | None) -> dict[str, Any]:  # noqa: ARG003
        """64 channels at full resolution cost more than a small backbone."""
        return {} if scale == "paper" else {"context_channels": 8}

    def build(self, net: HypoNet) -> None:
        from hypo.model import add_input_channel  # here, as in `base`

        super().build(net)
        add_input_channel(self.network)
        c = self.config.method.context_channels
        self.context = nn.Sequential(
            *(nn.Conv2d(3, c, 5, padding=2), nn.BatchNorm2d(c), nn.ReLU()),
            *(nn.Conv2d(c, c, 5, padding=2), nn.BatchNorm2d(c), nn.ReLU()),
            nn.Conv2d(c, 1, 5, padding=2),
        )
        nn.init.zeros_(self.context[-1].weight)
        nn.init.zeros_(self.context[-1].bias)

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:  # noqa: ARG002
        outputs = super().encode(self.in_context(batch.images, batch.domains))
        outputs, y, _ = whole_batch(outputs, batch.y, batch.domains)
        return {"total": F.cross_entropy(self.logits(outputs), y)}

    def encode(self, images: Tensor) -> Tensor:
        """Outputs (N, k) of images of one domain."""
        return super().encode(self.in_context(images, images.new_zeros(len(images), dtype=torch.int64)))

    def in_context(self, images: Tensor, domains: Tensor) -> Tensor:
        """(n, 3, S, S) -> (n, 4, S, S): each image, and the context of its domain in the batch of all ranks."""
        maps, _ = rows_of_all(self.context(images))  # (N, 1, S, S)
        owners, _ = rows_of_all(domains)
        contexts = torch.stack([maps[owners == e].mean(0) for e in range(int(owners.max()) + 1)])  # (E, 1, S, S)
        return torch.cat([images, contexts[domains].to(images)], dim=1)

    def fresh(self) -> list[nn.Module]:
        return [self.classifier, self.context]
