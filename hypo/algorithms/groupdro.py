"""GroupDRO: the training domains that do worst count most (Sagawa et al., ICLR 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from hypo.algorithms.base import Algorithm, setting
from hypo.algorithms.risks import domain_risks, equal_weights, exponentiated_gradient

if TYPE_CHECKING:
    from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    eta: float = setting(0.01, "step of the exponentiated gradient on the domains' weights", at_least=0)


class GroupDRO(Algorithm):
    """L = sum_e q_e R_e, after q_e <- q_e exp(eta R_e) / sum_d q_d exp(eta R_d).

    R_e           mean cross-entropy of the batch's samples of training domain e
    q (E,)        weights of the domains, equal at first; no gradient goes through them

    S. Sagawa et al., Distributionally robust neural networks for group shifts, ICLR 2020, algorithm 1.

    Avoids: weights that are no part of the state until the first step, so that a stored model does not load, and
    weights that underflow to 0 and never come back: their logarithms are kept.
    """

    Hyperparameters = Hyperparameters
    kind = "state"
    sampling = "per_domain"
    rates: ClassVar = {"lr": 0.01, "head_lr": 3.0}

    def build(self, net: HypoNet) -> None:
        super().build(net)
        self.register_buffer("log_q", equal_weights(self.num_domains))

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        risks = domain_risks(self.logits(outputs), y, domains, self.num_domains)  # (E,)
        if self.training:
            exponentiated_gradient(self.log_q, risks, self.config.method.eta)
        return {"total": self.log_q.exp().to(risks) @ risks, "worst": risks.max(), "mean": risks.mean()}
