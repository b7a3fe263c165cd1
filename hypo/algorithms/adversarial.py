"""What DANN and CDANN share: a discriminator of domains, whose gradient reaches the encoder reversed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from hypo.algorithms.base import Algorithm, Batch
from hypo.distributed import whole_batch


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """A network of two hidden layers."""
    layers = nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    return nn.Sequential(*layers)


def losses_of_both_sides(
    algorithm: Algorithm, batch: Batch, progress: float, adversary: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> dict[str, Tensor]:
    """The cross-entropy of the classes, plus `adversary` of (features, y, domains), which the discriminator descends
    and the encoder ascends, by a factor that grows to `penalty`."""
    outputs, y, domains = whole_batch(algorithm.encode(batch.images), batch.y, batch.domains)
    entropy = F.cross_entropy(algorithm.logits(outputs), y)
    outputs = reverse_gradient(outputs, algorithm.config.method.penalty * ramp(progress))
    against = adversary(outputs, y, domains)
    return {"total": entropy + against, "entropy": entropy, "adversary": against}


def optimisers_of_both_sides(algorithm: Algorithm, discriminator: nn.Module) -> list[Optimizer]:
    """One of encoder and classifier, and one of the discriminator, at `discriminator_lr` times its rate."""
    adversary = algorithm.sgd(discriminator)
    for group in adversary.param_groups:
        group["factor"] *= algorithm.config.method.discriminator_lr
    return [algorithm.sgd(algorithm.network, algorithm.classifier), adversary]


def ramp(progress: float) -> float:
    """From 0 at the start of training to nearly 1 at its half."""
    return 2 / (1 + math.exp(-10 * progress)) - 1


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
