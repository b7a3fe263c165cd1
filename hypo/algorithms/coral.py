"""CORAL: the training domains' features have one mean and one covariance (Sun and Saenko, ECCV workshops 2016)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from hypo.algorithms.base import Algorithm, setting


@dataclass(frozen=True)
class Hyperparameters:
    penalty: float = setting(1.0, "gamma, on the difference of moments", at_least=0)


class CORAL(Algorithm):
    """L = cross-entropy + gamma mean over pairs (a, b) of ||m_a - m_b||^2 / d + ||C_a - C_b||_F^2 / d^2.

    m_e (d,) and C_e (d, d) are the mean and the unbiased covariance of the features of training domain e. B. Sun and
    K. Saenko, Deep CORAL: correlation alignment for deep domain adaptation, ECCV workshops 2016; the means are an
    addition of Gulrajani and Lopez-Paz, In search of lost domain generalization, ICLR 2021.

    Avoids: sums over the batch in place of covariances, whose penalty grows with the square of the batch size, and
    moments in half precision, where small differences of large numbers vanish.
    """

    Hyperparameters = Hyperparameters
    sampling = "per_domain"

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        entropy = F.cross_entropy(self.logits(outputs), y)
        moments = over_pairs(moment_distance, outputs, domains)
        return {"total": entropy + self.config.method.penalty * moments, "entropy": entropy, "moments": moments}


def over_pairs(distance: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, domains: Tensor) -> Tensor:
    """The mean over pairs of domains of the distance between their features, of (N, d) in all."""
    by_domain = [outputs[domains == e] for e in domains.unique()]
    return torch.stack([distance(a, b) for a, b in combinations(by_domain, 2)]).mean()


def moment_distance(a: Tensor, b: Tensor) -> Tensor:
    """||m_a - m_b||^2 / d + ||C_a - C_b||_F^2 / d^2 of two samples (n, d) and (m, d), in single precision or better."""
    if min(len(a), len(b)) < 2:
        raise ValueError("a covariance needs at least two samples of each domain in a batch: raise batch_size")
    a, b = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (a, b))
    with torch.autocast(a.device.type, enabled=False):
        return (a.mean(0) - b.mean(0)).square().mean() + (torch.cov(a.T) - torch.cov(b.T)).square().mean()
