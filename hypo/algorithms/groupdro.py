"""GroupDRO: the training domains that do worst count most (Sagawa et al., ICLR 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.distributed import whole_batch

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

    def build(self, net: HypoNet) -> None:
        super().build(net)
        self.register_buffer("log_q", equal_weights(self.num_domains))

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        risks = domain_risks(self.logits(outputs), y, domains, self.num_domains)  # (E,)
        if self.training:
            exponentiated_gradient(self.log_q, risks, self.config.method.eta)
        return {"total": self.log_q.exp().to(risks) @ risks, "worst": risks.max(), "mean": risks.mean()}


def domain_risks(logits: Tensor, y: Tensor, domains: Tensor, num_domains: int) -> Tensor:
    """(E,) mean cross-entropy of each domain's samples."""
    each = F.cross_entropy(logits, y, reduction="none")
    return torch.stack([each[domains == e].mean() for e in range(num_domains)])


def batch_risks(algorithm: Algorithm, batch: Batch) -> Tensor:
    """(E,) mean cross-entropy of each domain's samples in the batch of all ranks, which passes the network."""
    outputs, y, domains = whole_batch(algorithm.encode(batch.images), batch.y, batch.domains)
    return domain_risks(algorithm.logits(outputs), y, domains, algorithm.num_domains)


def equal_weights(num_domains: int) -> Tensor:
    """log q (E,) of equal weights."""
    return torch.zeros(num_domains).log_softmax(dim=0)


def exponentiated_gradient(log_q: Tensor, risks: Tensor, eta: float) -> None:
    """Move log q (E,) in place: q_e goes up by a factor exp(eta R_e), then q sums to 1."""
    log_q.copy_(torch.log_softmax(log_q + eta * risks.detach(), dim=0))
