"""MLDG: a step on some training domains that also helps on another (Li et al., AAAI 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hypo.algorithms.base import Algorithm, Batch, setting, unmoved
from hypo.algorithms.risks import batch_risks


@dataclass(frozen=True)
class Hyperparameters:
    beta: float = setting(1.0, "weight of the risk on the domain left out of the inner step", at_least=0)
    inner_rate: float = setting(1.0, "alpha, the inner step's rate, times the learning rate of the moment", at_least=0)


class MLDG(Algorithm):
    """L = (F(theta) + beta G(theta - alpha grad F(theta))) / (1 + beta), to first order.

    G             risk on one training domain, drawn anew at each step
    F             mean risk on the others
    alpha         `inner_rate` times the learning rate of each parameter at that step

    The step is along grad F(theta) + beta grad G(theta'), theta' = theta - alpha grad F(theta), over 1 + beta, so that
    a learning rate means what it means to other methods; second derivatives are left out, as is usual. D. Li et al.,
    Learning to generalize: meta-learning for domain generalization, AAAI 2018.

    Avoids: an inner step by a new Adam, which moves every weight by the rate whatever its gradient; and batch norm
    whose statistics move in a copy of the network that is thrown away. Both passes here normalise with all domains,
    as evaluation does; the first moves the running statistics, the second, at weights never kept, does not.
    """

    Hyperparameters = Hyperparameters
    kind = "step"
    sampling = "per_domain"

    def update(self, batch: Batch, progress: float) -> dict[str, Tensor]:  # noqa: ARG002
        method, parameters = self.config.method, list(self.parameters())
        left_out = int(torch.randint(self.num_domains, ()))  # the same on every rank
        others = [e for e in range(self.num_domains) if e != left_out]
        inner = batch_risks(self, batch)[others].mean()
        self.differentiate(inner)
        first = [p.grad for p in parameters]
        groups = [group for optimiser in self.steppers for group in optimiser.param_groups]
        alpha = {p: method.inner_rate * group["lr"] for group in groups for p in group["params"]}
        with moved(self, [g if g is None else -alpha[p] * g for p, g in zip(parameters, first, strict=True)]):
            outer = batch_risks(self, batch)[left_out]
            self.differentiate(outer)
        for p, g in zip(parameters, first, strict=True):
            if g is not None:
                p.grad.mul_(method.beta).add_(g).div_(1 + method.beta)
        self.step()
        return {"total": (inner + method.beta * outer) / (1 + method.beta), "inner": inner, "outer": outer}


@contextmanager
def moved(module: nn.Module, steps: Sequence[Tensor | None]) -> Iterator[None]:
    """Inside, parameters are moved by these steps; afterwards they and the buffers are, to the bit, what they were."""
    parameters = list(module.parameters())
    before = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        for parameter, step in zip(parameters, steps, strict=True):
            if step is not None:
                parameter.add_(step)
    try:
        with unmoved(module):
            yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, before, strict=True):
                parameter.copy_(value)
