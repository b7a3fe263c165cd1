"""HYPO: low variation around prototypes, high separation between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from hypo.algorithms import base
from hypo.loss import HypoLoss
from hypo.model import HypoNet
from hypo.sphere import class_means

if TYPE_CHECKING:
    from hypo.config import Config


class Algorithm(base.Algorithm):
    """Outputs are the embeddings (N, d); HypoLoss holds the prototypes."""

    def __init__(self, config: Config, num_classes: int) -> None:
        super().__init__(config, num_classes)
        self.network = HypoNet(config.backbone, config.dim, config.weights, config.stem, config.width)
        self.criterion = HypoLoss(
            num_classes, config.dim, config.temperature, config.momentum, config.weight, config.prototypes
        )

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        terms = self.criterion(outputs, y, domains if self.config.hard_negatives else None)
        total = terms.total if self.config.separation else self.config.weight * terms.variation
        return {"total": total, "variation": terms.variation, "separation": terms.separation}

    def logits(self, outputs: Tensor) -> Tensor:
        return outputs @ self.criterion.prototypes.to(outputs).T / self.config.temperature

    def embed(self, outputs: Tensor) -> Tensor:
        return outputs

    def prototypes(self) -> Tensor:
        return self.criterion.prototypes.detach()

    def refit(self, outputs: Tensor, y: Tensor) -> None:
        if self.config.prototypes == "ema":
            self.criterion.reset_prototypes(class_means(outputs, y, self.num_classes))

    def fresh(self) -> list[nn.Module]:
        return [self.network.head, self.criterion]
