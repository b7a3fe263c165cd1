"""MTL: a classifier that sees the feature beside its domain's mean feature (Blanchard et al., JMLR 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hypo.algorithms.base import Algorithm, setting
from hypo.sphere import to_sphere

if TYPE_CHECKING:
    from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    ema: float = setting(0.99, "momentum of the moving average of a domain's mean feature", at_least=0, below=1)


class MTL(Algorithm):
    """L = cross-entropy of W [f_i, m_e] + b for each sample i of training domain e.

    f_i (k,)      the feature
    m_e (k,)      mean feature of the domain, a moving average over batches: the weighted mean of the batch means so
                  far, the one t steps ago with weight ema^t

    The gradient goes through the last batch's part of m_e. When evaluated, m is the mean of the images passed
    together, which are of one domain, known or not. G. Blanchard et al., Domain generalization by marginal transfer
    learning, JMLR 2021, whose kernel mean embedding is here that of the learnt features.

    Avoids: an embedding overwritten with Gaussian noise on its way to the classifier, momentum on the new mean
    instead of the old one, and an average that starts at 0 and is too small for hundreds of steps.
    """

    Hyperparameters = Hyperparameters
    kind = "network"
    sampling = "per_domain"
    needs_batch = True

    def build(self, net: HypoNet) -> None:
        super().build(net)
        self.classifier = nn.Linear(2 * self.feature_dim, self.num_classes)
        self.register_buffer("sums", torch.zeros(self.num_domains, self.feature_dim))
        self.register_buffer("weights", torch.zeros(()))

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        means = torch.stack([outputs[domains == e].mean(0) for e in range(self.num_domains)])  # (E, k)
        return {"total": F.cross_entropy(self.logits(beside(outputs, self.embeddings(means)[domains])), y)}

    def embeddings(self, means: Tensor) -> Tensor:
        """m (E, k), with this batch's means (E, k) taken in."""
        ema = self.config.method.ema
        sums = ema * self.sums + (1 - ema) * means
        weight = ema * self.weights + (1 - ema)
        if self.training:
            self.sums.copy_(sums.detach())
            self.weights.copy_(weight)
        return sums / weight

    def encode(self, images: Tensor) -> Tensor:
        """Features (N, k) in training; in evaluation, with their mean beside each (N, 2k)."""
        features = super().encode(images)
        return features if self.training else beside(features, features.mean(0).expand_as(features))

    def embed(self, outputs: Tensor) -> Tensor:
        return to_sphere(outputs[:, : self.feature_dim])


def beside(features: Tensor, embeddings: Tensor) -> Tensor:
    """(N, k) and (N, k) -> (N, 2k)."""
    return torch.cat([features, embeddings.to(features)], dim=1)
