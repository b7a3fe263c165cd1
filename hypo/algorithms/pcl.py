"""Proxy-based contrastive learning (Yao et al., CVPR 2022): class proxies are the positives, samples the negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hypo.algorithms import base
from hypo.distributed import whole_batch
from hypo.model import HypoNet
from hypo.sphere import to_sphere

if TYPE_CHECKING:
    from hypo.config import Config

SCALE = 12.0
WEIGHT = 1.0


class Algorithm(base.Algorithm):
    """Cross-entropy of a linear classifier, plus WEIGHT times the proxy-contrastive loss.

    v_i = p(f_i) / ||.||, w_c = q(proxy c) / ||.||; the proxies are the classifier's weights, p and q two projections;

    L = -1/N sum_i log  exp(s v_i . w_{y_i}) / (sum_c exp(s v_i . w_c) + sum_j [y_j != y_i] exp(s v_i . v_j))
    with s = SCALE
    """

    def __init__(self, config: Config, num_classes: int) -> None:
        super().__init__(config, num_classes)
        net = HypoNet(config.backbone, config.dim, config.weights, config.stem, config.width)
        self.network = net.backbone
        features = net.feature_dim
        self.classifier = nn.Linear(features, num_classes)
        self.project = nn.Sequential(nn.Linear(features, features), nn.ReLU(), nn.Linear(features, config.dim))
        self.project_proxies = nn.Linear(features, config.dim)

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        v, y_all, _ = whole_batch(to_sphere(self.project(outputs)), y)
        w = to_sphere(self.project_proxies(self.classifier.weight))
        other = y_all[:, None] != y_all
        negatives = (SCALE * v @ v.T).masked_fill(~other, -torch.inf)
        contrastive = F.cross_entropy(torch.cat([SCALE * v @ w.T, negatives], dim=1), y_all)
        entropy = F.cross_entropy(self.logits(outputs), y)
        return {"total": entropy + WEIGHT * contrastive, "entropy": entropy, "contrastive": contrastive}

    def logits(self, outputs: Tensor) -> Tensor:
        return self.classifier(outputs)

    def embed(self, outputs: Tensor) -> Tensor:
        return to_sphere(self.project(outputs))

    def fresh(self) -> list[nn.Module]:
        return [self.classifier, self.project, self.project_proxies]
