"""SharpDRO: a flat loss where the training domains that do worst are (Huang et al., CVPR 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.algorithms.mldg import moved
from hypo.algorithms.risks import batch_risks, equal_weights, exponentiated_gradient

if TYPE_CHECKING:
    from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    rho: float = setting(0.05, "length of the perturbation of the weights", above=0)
    eta: float = setting(0.01, "step of the exponentiated gradient on the domains' weights", at_least=0)


class SharpDRO(Algorithm):
    """L = mean_e R_e(theta) + sum_e q_e (R_e(theta + eps) - R_e(theta)).

    R_e           mean cross-entropy of the batch's samples of training domain e
    q (E,)        weights of the domains, as in GroupDRO: q_e <- q_e exp(eta R_e(theta)), then q sums to 1
    eps           rho g / ||g||, g = grad sum_e q_e R_e(theta): to first order the perturbation of length rho that
                  makes the second term, the sharpness, largest. No gradient goes through it

    Z. Huang et al., Robust generalization against photon-limited corruptions via worst-case sharpness minimization,
    CVPR 2023, where domains are severities of a corruption.

    Avoids: the gradient of sum_e q_e R_e(theta + eps) alone in place of the difference, which is not the sharpness's
    but a second risk's; eps along the unweighted risk; running statistics of batch norm taken at theta + eps; dropout
    drawn anew at theta + eps, which would pass for sharpness.
    """

    Hyperparameters = Hyperparameters
    kind = "step"
    sampling = "per_domain"

    def build(self, net: HypoNet) -> None:
        super().build(net)
        self.register_buffer("log_q", equal_weights(self.num_domains))

    def update(self, batch: Batch, progress: float) -> dict[str, Tensor]:  # noqa: ARG002
        parameters = list(self.parameters())
        with torch.random.fork_rng([batch.images.device] if batch.images.is_cuda else []):
            risks = batch_risks(self, batch)
        exponentiated_gradient(self.log_q, risks, self.config.method.eta)
        q = self.log_q.exp().to(risks)
        self.differentiate(q @ risks, keep_graph=True)
        weighted = [p.grad for p in parameters]
        self.differentiate(risks.mean())
        mean = [p.grad for p in parameters]
        with moved(self, perturbation(weighted, self.config.method.rho)):
            perturbed = q @ batch_risks(self, batch)
            self.differentiate(perturbed)
        for p, g, w in zip(parameters, mean, weighted, strict=True):
            if g is not None:
                p.grad.add_(g).sub_(w)
        self.step()
        sharpness = perturbed - q @ risks
        return {"total": risks.mean() + sharpness, "mean": risks.mean(), "sharpness": sharpness, "worst": risks.max()}


def perturbation(gradients: list[Tensor | None], rho: float) -> list[Tensor | None]:
    """rho g / ||g||, the norm being that of all gradients together."""
    norm = get_total_norm([g for g in gradients if g is not None])
    return [g if g is None else rho * g / norm.clamp_min(torch.finfo(norm.dtype).tiny) for g in gradients]
