"""DANN: features from which a discriminator cannot tell the training domain (Ganin et al., JMLR 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.distributed import whole_batch
from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    penalty: float = setting(1.0, "lambda, on the reversed gradient once training has gone on for a while", at_least=0)
    hidden: int = setting(256, "hidden units of the discriminator", at_least=1)
    discriminator_lr: float = setting(1.0, "rate of the discriminator, times that of the classifier", above=0)


class DANN(Algorithm):
    """Cross-entropy of classes, plus that of a discriminator of domains, whose gradient is reversed at the features.

    The discriminator descends its own loss by an optimiser of its own; the encoder ascends it, times
    lambda (2 / (1 + exp(-10 p)) - 1) at progress p, so that it first learns the classes.
    """

    Hyperparameters = Hyperparameters
    sampling = "per_domain"

    def build(self, net: HypoNet) -> None:
        super().build(net)
        hidden = self.config.method.hidden
        self.discriminator = nn.Sequential(
            nn.Linear(self.feature_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        ).append(nn.Linear(hidden, self.num_domains))

    def optimisers(self) -> list[Optimizer]:
        adversary = self.sgd(self.discriminator)
        for group in adversary.param_groups:
            group["factor"] *= self.config.method.discriminator_lr
        return [self.sgd(self.network, self.classifier), adversary]

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        outputs, y, domains = whole_batch(self.encode(batch.images), batch.y, batch.domains)
        reversal = self.config.method.penalty * (2 / (1 + math.exp(-10 * progress)) - 1)
        entropy = F.cross_entropy(self.logits(outputs), y)
        adversary = F.cross_entropy(self.discriminator(reverse_gradient(outputs, reversal)), domains)
        return {"total": entropy + adversary, "entropy": entropy, "adversary": adversary}

    def fresh(self) -> list[nn.Module]:
        return [self.classifier, self.discriminator]


def reverse_gradient(x: Tensor, factor: float) -> Tensor:
    """x itself, whose gradient is -factor times what comes back."""
    return _Reverse.apply(x, factor)


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return -ctx.factor * gradient, None
