"""PCL: class proxies are the positives, samples of other classes the negatives (Yao et al., CVPR 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.distributed import whole_batch
from hypo.loss import falling_temperature
from hypo.sphere import to_sphere

if TYPE_CHECKING:
    from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    """The published values."""

    scale_factor: float = setting(12.0, "s on the cosines, 1 / tau", above=0)
    contrast: float = setting(1.0, "weight of the proxy-contrastive loss", at_least=0)
    start_temperature: float | None = setting(None, "1 / s at first, which then falls; none: constant", above=0)
    start_share: float = setting(0.3, "share of the training over which 1 / s falls", above=0, at_most=1)


class PCL(Algorithm):
    """Cross-entropy of a linear classifier, plus `contrast` times the proxy-contrastive loss.

    v_i = p(f_i) / ||.||, w_c = q(proxy c) / ||.||; the proxies are the classifier's weights, p and q two projections;

    L = -1/N sum_i log  exp(s v_i . w_{y_i}) / (sum_c exp(s v_i . w_c) + sum_j [y_j != y_i] exp(s v_i . v_j))

    X. Yao et al.: PCL: proxy-based contrastive learning for domain generalization, CVPR 2022.
    Avoids: a mask by value, which with the pairs of one class drops every negative whose cosine is below 0; and
    negatives of one rank's part of the batch only.
    """

    Hyperparameters = Hyperparameters
    kind = "modules"
    spherical = True

    @classmethod
    def defaults(cls, scale: str, benchmark: str, held_out: str | None) -> dict[str, Any]:  # noqa: ARG003
        return {} if scale == "paper" else {"start_temperature": 1.0}

    def build(self, net: HypoNet) -> None:
        super().build(net)
        features, dim = self.feature_dim, self.config.dim
        self.project = nn.Sequential(nn.Linear(features, features), nn.ReLU(), nn.Linear(features, dim))
        self.project_proxies = nn.Linear(features, dim)

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        method, s = self.config.method, self.config.method.scale_factor
        if method.start_temperature is not None:
            s = 1 / falling_temperature(progress, method.start_temperature, 1 / s, method.start_share)
        return self._loss(*whole_batch(self.encode(batch.images), batch.y)[:2], s)

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        return self._loss(outputs, y, self.config.method.scale_factor)

    def _loss(self, outputs: Tensor, y: Tensor, s: float) -> dict[str, Tensor]:
        v = to_sphere(self.project(outputs))
        w = to_sphere(self.project_proxies(self.classifier.weight))
        other = y[:, None] != y
        negatives = (s * v @ v.T).masked_fill(~other, -torch.inf)
        contrastive = F.cross_entropy(torch.cat([s * v @ w.T, negatives], dim=1), y)
        entropy = F.cross_entropy(self.logits(outputs), y)
        total = entropy + self.config.method.contrast * contrastive
        return {"total": total, "entropy": entropy, "contrastive": contrastive}

    def embed(self, outputs: Tensor) -> Tensor:
        return to_sphere(self.project(outputs))

    def fresh(self) -> list[nn.Module]:
        return [self.classifier, self.project, self.project_proxies]
