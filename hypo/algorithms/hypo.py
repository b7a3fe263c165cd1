"""HYPO: low variation around prototypes, high separation between them (Bai et al., ICLR 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.distributed import whole_batch
from hypo.loss import HypoLoss, falling_temperature
from hypo.sphere import class_sums, to_sphere
from hypo.suggest import one_of

if TYPE_CHECKING:
    from hypo.model import HypoNet
    from hypo.training.evaluate import Evaluator


@dataclass(frozen=True)
class Hyperparameters:
    """Symbols are the paper's."""

    temperature: float = setting(0.1, "tau", above=0)
    momentum: float = setting(0.95, "alpha, of the moving average", at_least=0, below=1)
    weight: float = setting(1.0, "lambda, on the variation term", at_least=0)
    prototypes: str = setting("ema", "ema: moving averages; learnable: a parameter")
    separation: bool = setting(True, "whether the separation loss is there")
    hard_negatives: bool = setting(True, "whether same-domain samples of other classes join the denominator")
    start_temperature: float | None = setting(None, "tau at the first step, which then falls; none: constant", above=0)
    start_share: float = setting(0.3, "share of the training over which tau falls, in equal ratios", above=0, at_most=1)
    head: str = setting("mlp", "what maps features to the sphere: mlp (two layers), or linear")
    prototype_start: str = setting("batch", "first prototypes: class means of the first batch, or of validation images")
    centre: bool = setting(False, "whether the head starts with zero mean output over training images")

    def __post_init__(self) -> None:
        one_of("prototypes", self.prototypes, ("ema", "learnable"))
        one_of("head", self.head, ("mlp", "linear"))
        one_of("prototype_start", self.prototype_start, ("batch", "validation"))


RELEASED_ON_PACS = {
    "cartoon": {"lr": 5e-4, "weight": 4.0},
    "photo": {"lr": 1e-4, "weight": 1.0},
    "sketch": {"lr": 2e-3, "weight": 2.0},
    "art_painting": {"lr": 5e-4, "weight": 1.0},
}
"""Learning rate and lambda of the released PACS runs; the paper gives only what it searched."""


class HYPO(Algorithm):
    """L = lambda L_var + L_sep of unit vectors z (N, d) and prototypes mu (C, d) on the sphere.

    L_var         -1/N sum_i log exp(mu_{y_i} . z_i / tau) / (sum_c exp(mu_c . z_i / tau) + hard negatives): those are
                  exp(z_j . z_i / tau) of the samples j of the same domain and another class
    L_sep         1/C sum_c log 1/(C - 1) sum_{c' != c} exp(mu_c . mu_c' / tau)
    mu            moving averages, mu_c <- (alpha mu_c + (1 - alpha) z) / ||.|| for one sample of class c after another

    H. Bai, Y. Ming, J. Katz-Samuels, Y. Li: HYPO: hyperspherical out-of-distribution generalization, ICLR 2024.
    Avoids: prototypes that are detached before the separation loss, which then trains nothing; and an average over
    the batch's samples of a class in place of one after another.
    """

    Hyperparameters = Hyperparameters
    kind = "state"
    spherical = True

    @classmethod
    def defaults(cls, scale: str, benchmark: str, held_out: str | None) -> dict[str, Any]:
        chosen: dict[str, Any] = {} if scale == "paper" else {"start_temperature": 1.0}
        if benchmark in ("cifar10", "imagenet100"):  # one source: nothing is of the same domain only
            chosen["hard_negatives"] = False
        if benchmark == "cifar10":
            chosen["weight"] = 2.0
            if scale == "cpu":
                chosen["start_share"] = 0.8  # from random weights, longer than on PACS
        elif scale == "paper" and benchmark == "pacs":
            chosen |= RELEASED_ON_PACS.get(held_out, {})
        return chosen

    def build(self, net: HypoNet) -> None:
        method = self.config.method
        if method.head == "linear":
            net.head = nn.Linear(self.feature_dim, self.config.dim)
        self.network = net
        self.criterion = HypoLoss(
            self.num_classes, self.config.dim, method.temperature, method.momentum, method.weight, method.prototypes
        )

    def prepare(self, evaluator: Evaluator) -> None:
        method = self.config.method
        if method.centre:
            _centre(self.network, evaluator.sample(self, "train"))
        if method.prototype_start == "validation":
            self.refit(evaluator.outputs(self, "validation"), evaluator.classes("validation"))

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        """Only the step sees the falling tau; predictions and the validation loss have the configured one."""
        method = self.config.method
        if method.start_temperature is not None:
            self.criterion.temperature = falling_temperature(
                progress, method.start_temperature, method.temperature, method.start_share
            )
        return self.loss(*whole_batch(self.encode(batch.images), batch.y, batch.domains))

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        method = self.config.method
        terms = self.criterion.terms(outputs, y, domains if method.hard_negatives else None)
        total = terms.total if method.separation else method.weight * terms.variation
        return {"total": total, "variation": terms.variation, "separation": terms.separation}

    def logits(self, outputs: Tensor) -> Tensor:
        return outputs @ self.criterion.prototypes.to(outputs).T / self.config.method.temperature

    def embed(self, outputs: Tensor) -> Tensor:
        return outputs

    def prototypes(self) -> Tensor:
        return self.criterion.prototypes.detach()

    def refit(self, outputs: Tensor, y: Tensor) -> None:
        if self.config.method.prototypes == "ema":
            seen = torch.bincount(y, minlength=self.num_classes)[:, None] > 0  # some are of the held-out domain only
            means = to_sphere(class_sums(outputs, y, self.num_classes))
            self.criterion.reset_prototypes(torch.where(seen, means, self.criterion.prototypes))

    def fresh(self) -> list[nn.Module]:
        return [self.network.head, self.criterion]


@torch.no_grad()
def _centre(net: HypoNet, images: Tensor) -> None:
    """Move the bias of the head's last layer so that its output has mean zero over `images`."""
    last = net.head if isinstance(net.head, nn.Linear) else net.head[-1]
    last.bias -= net.head(net.backbone(images)).mean(dim=0)
