"""Empirical risk minimisation: cross-entropy over the pooled domains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor, nn

from hypo.algorithms import base
from hypo.model import HypoNet
from hypo.sphere import to_sphere

if TYPE_CHECKING:
    from hypo.config import Config


class Algorithm(base.Algorithm):
    """Outputs are the backbone's features (N, f); a linear classifier follows, and the features are the embedding."""

    def __init__(self, config: Config, num_classes: int) -> None:
        super().__init__(config, num_classes)
        net = HypoNet(config.backbone, config.dim, config.weights, config.stem, config.width)
        self.network = net.backbone
        self.classifier = nn.Linear(net.feature_dim, num_classes)

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        return {"total": F.cross_entropy(self.logits(outputs), y)}

    def logits(self, outputs: Tensor) -> Tensor:
        return self.classifier(outputs)

    def embed(self, outputs: Tensor) -> Tensor:
        return to_sphere(outputs)

    def fresh(self) -> list[nn.Module]:
        return [self.classifier]
