"""What methods share that compare the risks of the training domains: the risks, weights that follow them, penalties."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from hypo.algorithms.base import Algorithm, Batch
from hypo.distributed import whole_batch


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


def risk_and_penalty(
    algorithm: Algorithm, batch: Batch, progress: float, name: str, penalty: Callable[..., Tensor], divided: bool
) -> dict[str, Tensor]:
    """The mean of the domains' risks (E,) and, by this name, a penalty of (risks, logits, y, domains), annealed. The
    gradient is shortened, and that of L / lambda where it is to be `divided`."""
    method = algorithm.config.method
    outputs, y, domains = whole_batch(algorithm.encode(batch.images), batch.y, batch.domains)
    logits = algorithm.logits(outputs)
    risks = domain_risks(logits, y, domains, algorithm.num_domains)
    risk, value = risks.mean(), penalty(risks, logits, y, domains)
    weight = annealed(progress, method.penalty, method.anneal)
    total = shortened(risk + weight * value, risk, logits, max(1, weight) if divided else 1)
    return {"total": total, "risk": risk, name: value}


def annealed(progress: float, penalty: float, share: float) -> float:
    """The weight of a penalty: 1 for this share of the training, then its own."""
    return penalty if progress >= share else 1.0


def shortened(loss: Tensor, risk: Tensor, logits: Tensor, weight: float) -> Tensor:
    """`loss`, its gradient divided by `weight`, or by more where it would be longer at the logits than the risk's: with
    Adam, which the authors have, the length of a step does not depend on that of the gradient, but SGD diverges."""
    long, length = (torch.autograd.grad(term, logits, retain_graph=True)[0].norm() for term in (loss, risk))
    scaled = loss * (length / long.clamp(min=1e-12)).clamp(max=1 / weight)
    return scaled + (loss - scaled).detach()
