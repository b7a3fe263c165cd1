"""MMD: the training domains' features have one distribution, as Gaussian kernels see it (Li et al., CVPR 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hypo.algorithms.base import Algorithm, setting
from hypo.algorithms.coral import over_pairs

BANDWIDTHS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)


@dataclass(frozen=True)
class Hyperparameters:
    penalty: float = setting(1.0, "gamma, on the maximum mean discrepancy", at_least=0)


class MMD(Algorithm):
    """L = cross-entropy + gamma mean over pairs of domains (a, b) of MMD^2(a, b).

    MMD^2 = mean k(a_i, a_j) + mean k(b_i, b_j) - 2 mean k(a_i, b_j), with k(u, v) = sum_s exp(-s ||u - v||^2),
    s = 0.001, 0.01, ..., 1000, of the features a (n, d) and b (m, d) of two training domains.

    H. Li, S. J. Pan, S. Wang, A. C. Kot: Domain generalization with adversarial feature learning, CVPR 2018. Their
    adversarial autoencoder is left out, as DomainBed leaves it out, whose numbers the tables copy.
    Avoids: distances as ||u||^2 - 2 u.v + ||v||^2, whose rounding errors the kernel of s = 1000 takes for distances.
    """

    Hyperparameters = Hyperparameters
    sampling = "per_domain"

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        entropy = F.cross_entropy(self.logits(outputs), y)
        discrepancy = over_pairs(squared_mmd, outputs, domains)
        total = entropy + self.config.method.penalty * discrepancy
        return {"total": total, "entropy": entropy, "discrepancy": discrepancy}


def squared_mmd(a: Tensor, b: Tensor) -> Tensor:
    """MMD^2 of two samples (n, d) and (m, d): at least 0, and 0 for equal samples."""
    return kernel(a, a).mean() + kernel(b, b).mean() - 2 * kernel(a, b).mean()


def kernel(a: Tensor, b: Tensor) -> Tensor:
    """(n, m) sums over the bandwidths of exp(-s ||a_i - b_j||^2)."""
    squares = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square()
    return sum(torch.exp(-s * squares) for s in BANDWIDTHS)
