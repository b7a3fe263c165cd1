"""EQRM: a risk that most domains stay below (Eastwood et al., NeurIPS 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.algorithms.risks import batch_risks


@dataclass(frozen=True)
class Hyperparameters:
    quantile: float = setting(0.75, "alpha, the share of domains whose risk is to be below the loss", above=0, below=1)
    burn_in: float = setting(0.5, "share of the training that minimises the mean risk first", at_least=0, at_most=1)


class EQRM(Algorithm):
    """L = the alpha-quantile q of a kernel density of the risks R_e of the training domains.

    1/E sum_e Phi((q - R_e) / h) = alpha, with the normal distribution function Phi and the width h = 1.06 E^(-1/5)
    times the standard deviation of the R_e. For the first half of the training (2,500 of 5,000 steps) the loss is the
    mean risk; when it jumps, momentum starts anew. The falling learning rate stands for the authors' lower one.

    C. Eastwood et al.: Probable domain generalization via quantile risk minimization, NeurIPS 2022.
    Avoids: the gradient of the bisection instead of the quantile's, which is one of the smallest and the largest risk
    only, weighted by where the halving happened to end.
    """

    Hyperparameters = Hyperparameters
    kind = "state"
    sampling = "per_domain"
    jump = "burn_in"

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        risks = batch_risks(self, batch)  # (E,)
        quantile = kde_quantile(risks, self.config.method.quantile)
        total = quantile if progress >= self.config.method.burn_in else risks.mean()
        return {"total": total, "quantile": quantile, "risk": risks.mean()}


def kde_quantile(risks: Tensor, alpha: float) -> Tensor:
    """The alpha-quantile of a Gaussian kernel density of risks (E,), with its gradient.

    It is found by bisection, without a graph. One step of Newton's method from there changes its value no more, and
    has the gradient of the equation that it solves.
    """
    r = risks.double()
    h = 1.06 * len(r) ** -0.2 * (r.var() + 1e-12).sqrt()
    with torch.no_grad():
        tail = h * torch.special.ndtri(torch.tensor(alpha).to(h))
        low, high = r.min() + tail, r.max() + tail
        for _ in range(40):
            middle = (low + high) / 2
            below = torch.special.ndtr((middle - r) / h).mean() < alpha
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        density = torch.exp(-((low - r) / h).square() / 2).mean() / (h * math.sqrt(2 * math.pi))
    q = low - (torch.special.ndtr((low - r) / h).mean() - alpha) / density
    return q.to(risks.dtype)
