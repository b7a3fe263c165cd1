"""IRM: one classifier that is optimal in every training domain at once (Arjovsky et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.algorithms.risks import risk_and_penalty


@dataclass(frozen=True)
class Hyperparameters:
    penalty: float = setting(100.0, "lambda, on the squared slopes", at_least=0)
    anneal: float = setting(0.1, "share of the training during which lambda is 1", at_least=0, at_most=1)


class IRM(Algorithm):
    """L = mean_e R_e + lambda mean_e D_e, with the risk R_e(s) of domain e when the logits are multiplied by s.

    D_e is an estimate of the square of the slope dR_e/ds at s = 1, which is 0 where no rescaled classifier does better:
    the product of the slopes of two halves of the domain's images. lambda is 1 for the first tenth of the training (500
    of 5,000 steps), the first half of a short one; when it jumps, momentum starts anew.
    The gradient is that of L / lambda where lambda is above 1, and never longer at the logits than the risk's.

    M. Arjovsky, L. Bottou, I. Gulrajani, D. Lopez-Paz: Invariant risk minimization, 2019 (IRMv1).
    Avoids: the square of one slope, whose mean has the noise of the batch added; and halves that share images, as every
    other row does when an image is there in two augmentations. It does not descend L itself: the authors' code
    descends L / lambda, and with the noise of a batch longer steps raise L. VREx descends L, since its penalty does not
    dominate: in one short run of each, its gradient was about as long as the risk's, and here many times as long.
    """

    Hyperparameters = Hyperparameters
    kind = "state"
    sampling = "per_domain"
    jump = "anneal"

    @classmethod
    def defaults(cls, scale: str, benchmark: str, held_out: str | None) -> dict[str, Any]:  # noqa: ARG003
        """A tenth of a short training is half an epoch, and where lambda counts the risk hardly falls any more.

        From random weights it even rose at lambda = 100, in two runs on the digits; at 10 it fell on, slowly. Likely
        the slopes of halves of a few images are mostly noise while the risk is high; that was not measured.
        """
        if scale == "demo":
            return {"anneal": 0.5, "penalty": 10.0}
        return {"anneal": 0.5} if scale == "cpu" else {}

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        def penalty(_risks: Tensor, logits: Tensor, y: Tensor, domains: Tensor) -> Tensor:
            each = [domains == e for e in range(self.num_domains)]
            return torch.stack([squared_slope(logits[e], y[e], self.config.views) for e in each]).mean()

        return risk_and_penalty(self, batch, progress, "penalty", penalty, divided=True)


def squared_slope(logits: Tensor, y: Tensor, views: int = 1) -> Tensor:
    """Estimate of (dR/ds)^2 at s = 1 from logits (n, C) of one domain, n = views times the images, view by view.

    The slope of a sample's cross-entropy is sum_c p_c z_c - z_y, with its logits z and p = softmax(z).
    """
    images = len(y) // views
    if images < 2:
        raise ValueError("irm compares two halves of each domain's images and has one: raise batch_size")
    slope = (logits.softmax(dim=1) * logits).sum(dim=1) - logits.gather(1, y[:, None])[:, 0]  # (n,)
    odd = torch.arange(len(y), device=y.device) % images % 2 == 1
    return slope[odd].mean() * slope[~odd].mean()
