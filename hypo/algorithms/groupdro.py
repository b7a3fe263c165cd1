"""GroupDRO: the training domains that do worst count most (Sagawa et al., ICLR 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hypo.algorithms.base import Algorithm, setting
from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    eta: float = setting(0.01, "step of the exponentiated gradient on the domains' weights", at_least=0)


class GroupDRO(Algorithm):
    """L = sum_e q_e R_e with the risk R_e of domain e; at each step q_e <- q_e exp(eta R_e), then q sums to 1."""

    Hyperparameters = Hyperparameters
    sampling = "per_domain"

    def build(self, net: HypoNet) -> None:
        super().build(net)
        self.register_buffer("q", torch.full((self.num_domains,), 1 / self.num_domains))

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        risks = domain_risks(self.logits(outputs), y, domains, self.num_domains)  # (E,)
        if self.training:
            self.q.copy_(torch.softmax(self.q.log() + self.config.method.eta * risks.detach(), dim=0))
        return {"total": self.q.to(risks) @ risks, "worst": risks.max(), "mean": risks.mean()}


def domain_risks(logits: Tensor, y: Tensor, domains: Tensor, num_domains: int) -> Tensor:
    """(E,) mean cross-entropy of each domain's samples."""
    each = F.cross_entropy(logits, y, reduction="none")
    return torch.stack([each[domains == e].mean() for e in range(num_domains)])
