"""CDANN: features from which a discriminator that knows the class cannot tell the domain (Li et al., ECCV 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from hypo.algorithms.adversarial import losses_of_both_sides, mlp, optimisers_of_both_sides
from hypo.algorithms.base import Algorithm, Batch, setting

if TYPE_CHECKING:
    from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    penalty: float = setting(1.0, "lambda, on the reversed gradient, which it grows to during training", at_least=0)
    hidden: int = setting(256, "hidden units of the discriminator", at_least=1)
    discriminator_lr: float = setting(1.0, "rate of the discriminator, times that of the classifier", above=0)


class CDANN(Algorithm):
    """min over encoder f and classifier, max over discriminator D of  H(y, W f) - lambda_p J(D).

    J(D)          mean over the pairs (e, c) in the batch of the mean of -log D(e | f_i, c) over the samples i of
                  domain e and class c
    D             two hidden layers on [f, one-hot of the class]: it compares domains within a class
    lambda_p      lambda (2 / (1 + exp(-10 p)) - 1) at progress p in [0, 1)

    Every class counts the same in every domain, so D learns nothing from how often classes occur where. Y. Li et al.,
    Deep domain generalization via conditional invariant adversarial networks, ECCV 2018. There each class has a
    discriminator of its own; here one takes the class as input.

    Avoids: weights by a class's count over all domains together, which leave class frequencies as a cue, and which
    count classes up to the largest label in the batch, so that the loss shrinks when others are missing.
    """

    Hyperparameters = Hyperparameters
    kind = "modules"
    sampling = "per_domain"

    @classmethod
    def defaults(cls, scale: str, benchmark: str, held_out: str | None) -> dict[str, Any]:  # noqa: ARG003
        """As for DANN, which from random weights never learns the classes at lambda = 1."""
        return {"penalty": 0.1} if scale == "demo" else {}

    def build(self, net: HypoNet) -> None:
        super().build(net)
        inputs = self.feature_dim + self.num_classes
        self.discriminator = mlp(inputs, self.config.method.hidden, self.num_domains)

    def optimisers(self) -> list[Optimizer]:
        return optimisers_of_both_sides(self, self.discriminator)

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        return losses_of_both_sides(self, batch, progress, self.adversary)

    def adversary(self, outputs: Tensor, y: Tensor, domains: Tensor) -> Tensor:
        """J(D) of features (N, k), classes (N,) and domains (N,)."""
        known = F.one_hot(y, self.num_classes).to(outputs)  # (N, C)
        each = F.cross_entropy(self.discriminator(torch.cat([outputs, known], dim=1)), domains, reduction="none")
        cells, cell, counts = (domains * self.num_classes + y).unique(return_inverse=True, return_counts=True)
        return (each / counts[cell]).sum() / len(cells)

    def fresh(self) -> list[nn.Module]:
        return [self.classifier, self.discriminator]
