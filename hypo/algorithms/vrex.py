"""V-REx: the same risk in every training domain (Krueger et al., ICML 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.algorithms.groupdro import domain_risks
from hypo.algorithms.irm import annealed, no_longer, restart_once
from hypo.distributed import whole_batch
from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    penalty: float = setting(10.0, "lambda, on the variance of the domains' risks", at_least=0)
    anneal: float = setting(0.1, "share of the training before lambda counts; 1 stands for it", at_least=0, at_most=1)


class VREx(Algorithm):
    """L = m + lambda 1/E sum_e (R_e - m)^2 with the risk R_e of each of the E training domains, and their mean m.

    lambda is 1 for the first tenth of the training (500 of 5,000 steps), the first half where the network starts from
    random weights; when it jumps, momentum starts anew. A step is kept as long as the risk's, as for IRM.

    D. Krueger et al.: Out-of-distribution generalization via risk extrapolation (REx), ICML 2021.
    Avoids: torch.var as it comes, which divides by E - 1 and so doubles the penalty for two domains; and the last
    domain's risk logged as the loss.
    """

    Hyperparameters = Hyperparameters
    sampling = "per_domain"

    @classmethod
    def defaults(cls, scale: str, benchmark: str, held_out: str | None) -> dict[str, Any]:  # noqa: ARG003
        return {"anneal": 0.5} if scale == "demo" else {}

    def build(self, net: HypoNet) -> None:
        super().build(net)
        self.register_buffer("jumped", torch.tensor(False))

    def update(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        restart_once(self, progress >= self.config.method.anneal)
        return super().update(batch, progress)

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        outputs, y, domains = whole_batch(self.encode(batch.images), batch.y, batch.domains)
        logits = self.logits(outputs)
        risks = domain_risks(logits, y, domains, self.num_domains)  # (E,)
        variance = risks.var(correction=0)
        weight = annealed(progress, self.config.method.penalty, self.config.method.anneal)
        return {
            "total": no_longer(risks.mean() + weight * variance, risks.mean(), logits),
            "risk": risks.mean(),
            "variance": variance,
        }
