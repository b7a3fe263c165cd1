"""VREx: the same risk in every training domain (Krueger et al., ICML 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.algorithms.risks import risk_and_penalty


@dataclass(frozen=True)
class Hyperparameters:
    penalty: float = setting(10.0, "lambda, on the variance of the domains' risks", at_least=0)
    anneal: float = setting(0.1, "share of the training during which lambda is 1", at_least=0, at_most=1)


class VREx(Algorithm):
    """L = m + lambda 1/E sum_e (R_e - m)^2 with the risk R_e of each of the E training domains, and their mean m.

    lambda is 1 for the first tenth of the training (500 of 5,000 steps), the first half of a short one; when it jumps,
    momentum starts anew. The gradient is never longer at the logits than the risk's, as for IRM.

    D. Krueger et al.: Out-of-distribution generalization via risk extrapolation (REx), ICML 2021.
    Avoids: torch.var as it comes, which divides by E - 1 and so doubles the penalty for two domains; the last domain's
    risk logged as the loss; and L / lambda, made for Adam: SGD would descend the risk at a lambda-th of its rate. IRM
    divides all the same, since its penalty dominates: its gradient is many times as long as the risk's, not so here.
    """

    Hyperparameters = Hyperparameters
    kind = "state"
    sampling = "per_domain"
    jump = "anneal"

    @classmethod
    def defaults(cls, scale: str, benchmark: str, held_out: str | None) -> dict[str, Any]:  # noqa: ARG003
        """A tenth of a short training is half an epoch."""
        return {} if scale == "paper" else {"anneal": 0.5}

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        return risk_and_penalty(
            self, batch, progress, "variance", lambda risks, *_: risks.var(correction=0), divided=False
        )
