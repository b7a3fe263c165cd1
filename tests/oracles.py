"""Slow transcriptions of the paper's formulas, one loop for each sum, to check the library against."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def algorithm_1(prototypes: Tensor, z: Tensor, y: Tensor, momentum: float) -> Tensor:
    """The inner loop of Algorithm 1: one prototype moves at each sample."""
    rows = list(prototypes)
    for sample, c in zip(z.unbind(), y.tolist(), strict=True):
        rows[c] = F.normalize(momentum * rows[c] + (1 - momentum) * sample, dim=0)
    return torch.stack(rows)


def variation(z: Tensor, y: Tensor, prototypes: Tensor, tau: float, domains: Tensor | None = None) -> float:
    """Eq. loss, first term; Eq. hard_neg with domains."""
    z, mu, y = z.tolist(), prototypes.tolist(), y.tolist()
    e = None if domains is None else domains.tolist()
    total = 0.0
    for i in range(len(z)):
        denominator = sum(math.exp(dot(z[i], m) / tau) for m in mu)
        if e is not None:
            denominator += sum(math.exp(dot(z[i], z[j]) / tau) for j in range(len(z)) if y[j] != y[i] and e[j] == e[i])
        total -= math.log(math.exp(dot(z[i], mu[y[i]]) / tau) / denominator)
    return total / len(z)


def separation(prototypes: Tensor, tau: float) -> float:
    """Eq. loss, second term."""
    mu = prototypes.tolist()
    total = 0.0
    for i in range(len(mu)):
        total += math.log(sum(math.exp(dot(mu[i], mu[j]) / tau) for j in range(len(mu)) if j != i) / (len(mu) - 1))
    return total / len(mu)


def dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))
