"""What methods share: a network, a linear classifier, and a step that descends one loss of one batch.

A method overrides as little as makes it that method:

    Hyperparameters            its own, a frozen dataclass of `setting`s
    defaults(...)              settings that suit it at a scale, on a benchmark
    rates                      lr and head_lr at cpu scale, where the search chose others than the scale's
    loss(outputs, y, domains)  -> {"total": scalar, and every term worth logging}, of the outputs of a whole batch
    losses(batch, progress)    when the loss is not one of outputs only, or follows a schedule
    update(batch, progress)    when a step is not "one loss, one descent"
    optimisers()               when one SGD is not enough
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.checkpoint import checkpoint

from hypo.distributed import average_gradients, overlapping, whole_batch
from hypo.sphere import to_sphere

if TYPE_CHECKING:
    from hypo.config import Config
    from hypo.model import HypoNet
    from hypo.training.evaluate import Evaluator


class Batch(NamedTuple):
    """What a step sees: images (N, 3, S, S), classes y (N,), and training domains (N,) counted 0..E-1."""

    images: Tensor
    y: Tensor
    domains: Tensor


def setting(default: Any, explanation: str, **metadata: Any) -> Any:
    """A dataclass field with a sentence that `hypo train --help` shows."""
    return dataclasses.field(default=default, metadata={"help": explanation} | metadata)


@dataclasses.dataclass(frozen=True)
class NoHyperparameters:
    """Of a method that has none."""


class Algorithm(nn.Module):
    """A backbone and a linear classifier on its features, which most methods train by a loss of their own.

    config        what the run is; `config.method` holds the method's hyperparameters
    num_classes   C
    num_domains   E, the number of training domains

    The outputs (N, k) of `encode` are what losses, predictions and embeddings are made of.
    """

    Hyperparameters: ClassVar[type] = NoHyperparameters
    kind: ClassVar[str] = "loss"
    """What is its own: a "loss", one with "state" or a schedule, trained "modules", "inputs", a "network", a "step"."""
    sampling: str = "pooled"
    """"pooled": batches from all training domains together; "per_domain": as many samples from each, taking turns."""
    jump: ClassVar[str | None] = None
    """Which hyperparameter says after what share of the training the loss jumps, and momentum starts anew, if any."""
    rates: ClassVar[dict[str, float]] = {}
    """lr and head_lr at cpu scale, as the search on validation chose them; empty: the scale's own. CIFAR-10, which that
    search did not see, keeps the scale's."""
    needs_batch: ClassVar[bool] = False
    """Whether a prediction depends on the other images that are passed with an image, which are of one domain."""
    spherical: ClassVar[bool] = False
    """Whether the loss is one of cosines over a temperature: such methods can collapse, and it is watched for."""

    def __init__(self, config: Config, num_classes: int, num_domains: int) -> None:
        super().__init__()
        self.config, self.num_classes, self.num_domains = config, num_classes, num_domains
        from hypo.model import HypoNet  # here, since torchvision takes longer to import than all else

        net = HypoNet(config.backbone, config.dim, config.weights, config.stem, config.width)
        self.feature_dim = net.feature_dim
        self.build(net)
        if self.sampling == "per_domain" and num_domains < 2:
            raise ValueError(
                f"{config.algorithm} draws as many images of each training domain and needs at least two, not "
                f"{num_domains}: bring more domains, or choose a method that pools them"
            )

    def build(self, net: HypoNet) -> None:
        """Take from `net` what the method needs: the backbone alone, or with the head onto the sphere."""
        self.network: nn.Module = net.backbone
        self.classifier = nn.Linear(self.feature_dim, self.num_classes)

    @classmethod
    def defaults(cls, scale: str, benchmark: str, held_out: str | None) -> dict[str, Any]:  # noqa: ARG003
        """Settings that suit the method; they go before the scale's."""
        return {}

    # Training

    def encode(self, images: Tensor) -> Tensor:
        """Outputs (N, k); in training, of one part of the batch after the other where `accumulate` asks for it.

        The graph of a part is made anew when its gradient is needed, so one part's is in memory at a time while the
        loss is that of the whole batch. Batch norm sees the parts; its running statistics move once. A step passes the
        network only through here, where its gradients may be tied to those of other ranks.
        """
        parts = self.config.accumulate if self.training else 1
        if parts == 1:
            return (self.overlapped if self.training and self.overlapped else self.network)(images)
        outputs = [
            checkpoint(
                self.network, part, use_reentrant=False, context_fn=lambda: (nullcontext(), unmoved(self.network))
            )
            for part in images.tensor_split(parts)
        ]
        return torch.cat(outputs)

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError(f"{type(self).__name__} must define loss, losses or update")

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:  # noqa: ARG002
        """The loss of the batch of all ranks; `progress` is the share of training done, in [0, 1)."""
        return self.loss(*whole_batch(self.encode(batch.images), batch.y, batch.domains))

    def update(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        """One step; the terms of the loss, to be logged."""
        if self.jump is not None and progress >= getattr(self.config.method, self.jump):
            self.restart_once()
        terms = self.losses(batch, progress)
        self.descend(terms["total"])
        return terms

    def descend(self, loss: Tensor) -> None:
        """A step of every optimiser along the gradient of `loss`, averaged over ranks."""
        self.differentiate(loss)
        self.step()

    def differentiate(self, loss: Tensor, keep_graph: bool = False) -> None:
        """Leave the gradient of `loss`, averaged over ranks, in the parameters' `grad`."""
        for optimiser in self.steppers:
            optimiser.zero_grad()
        with torch.autocast(loss.device.type, enabled=False):
            loss.backward(retain_graph=keep_graph)
        averaged = set(self.network.parameters()) if self.overlapped else ()
        average_gradients(p for p in self.parameters() if p not in averaged)

    overlapped: Callable[[Tensor], Tensor] | None = None
    """The network in training, if backward averages its gradients; what is outside of it is averaged afterwards."""

    def overlap(self, device: torch.device) -> None:
        """Average the network's gradients during backward from now on, if a step is one pass and one backward."""
        if type(self).update is Algorithm.update and self.config.accumulate == 1:
            self.overlapped = overlapping(self.network, device)

    def step(self) -> None:
        """A step of every optimiser along what is in the parameters' `grad`."""
        for optimiser in self.steppers:
            optimiser.step()

    def restart_once(self) -> None:
        """Forget the momentum; the optimiser's state, which a resumed run has too, knows whether that was done."""
        for optimiser in self.steppers:
            if not optimiser.param_groups[0].get("restarted"):
                optimiser.state.clear()
                optimiser.param_groups[0]["restarted"] = True

    def optimisers(self) -> list[Optimizer]:
        """Made once, when training starts; `steppers` holds them."""
        return [self.sgd(self)]

    def sgd(self, *modules: nn.Module) -> SGD:
        """SGD over the parameters of `modules`, with `head_lr` times the rate for layers from random weights."""
        config, fresh = self.config, {p for module in self.fresh() for p in module.parameters()}
        mine = [p for module in modules for p in module.parameters()]
        groups = [
            {"params": [p for p in mine if p not in fresh], "factor": 1.0, "pretrained": True},
            {"params": [p for p in mine if p in fresh], "factor": config.head_lr, "pretrained": False},
        ]
        return SGD(groups, config.lr, config.sgd_momentum, weight_decay=config.weight_decay)

    steppers: list[Optimizer]

    def fresh(self) -> list[nn.Module]:
        """Modules that start from random weights, which may learn faster (`head_lr`)."""
        return [self.classifier]

    def prepare(self, evaluator: Evaluator) -> None:
        """Called once before the first step; `evaluator` gives outputs of parts of the split."""

    def refit(self, outputs: Tensor, y: Tensor) -> None:
        """Called with the training set's outputs after the weights changed other than by a step, as SWAD does."""

    # Evaluation

    def logits(self, outputs: Tensor) -> Tensor:
        """(N, C) of the classifier; their cross-entropy is the validation loss."""
        return self.classifier(outputs)

    def predict(self, outputs: Tensor) -> Tensor:
        """(N,) classes."""
        return self.logits(outputs).argmax(dim=1)

    def embed(self, outputs: Tensor) -> Tensor:
        """(N, d) unit vectors, for the geometry."""
        return to_sphere(outputs)

    def prototypes(self) -> Tensor | None:
        """(C, d) unit vectors that embeddings are compared with, or None: the class means are taken."""
        return None


class unmoved:
    """Inside, buffers of the network may move; afterwards they are what they were. May be entered again and again, as
    a part of the batch is when two gradients are taken of one pass."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    def __enter__(self) -> None:
        self.before = [buffer.clone() for buffer in self.network.buffers()]

    def __exit__(self, *_: object) -> None:
        with torch.no_grad():
            for buffer, value in zip(self.network.buffers(), self.before, strict=True):
                buffer.copy_(value)
