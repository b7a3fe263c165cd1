"""RSC: classify without the features that the classifier relies on most (Huang et al., ECCV 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hypo.algorithms.base import Algorithm, setting


@dataclass(frozen=True)
class Hyperparameters:
    muted_features: float = setting(1 / 3, "share of the features that are muted", at_least=0, below=1)
    muted_samples: float = setting(1 / 3, "share of the batch in which they are", at_least=0, at_most=1)


class RSC(Algorithm):
    """L = cross-entropy of the features f * m with the mask m (N, d) of zeros and ones.

    The gradient of the true class's logit at the features is its row of the classifier, W_y: a sample would lose the
    third of its features where that is largest. The third of the batch whose probability of the true class falls most
    thereby does lose them; the others keep all.

    Z. Huang, H. Wang, E. P. Xing, D. Huang: Self-challenging improves cross-domain generalization, ECCV 2020. Half of
    the time they mute places of the feature map instead of channels, which only some networks have: left out.
    Avoids: thresholds at a percentile, which mute all that ties with it: the whole batch when no probability falls.
    """

    Hyperparameters = Hyperparameters

    def loss(self, outputs: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        entropy = F.cross_entropy(self.logits(outputs), y)
        total = F.cross_entropy(self.logits(outputs * self.mask(outputs, y)), y)
        return {"total": total, "entropy": entropy}

    @torch.no_grad()
    def mask(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(N, d), 0 where a feature is muted and 1 elsewhere."""
        method, (n, d) = self.config.method, outputs.shape
        largest = self.classifier.weight[y].topk(round(method.muted_features * d), dim=1).indices
        muted = torch.ones_like(outputs).scatter_(1, largest, 0.0)
        fall = self.probability(outputs, y) - self.probability(outputs * muted, y)
        most = fall.topk(round(method.muted_samples * n)).indices
        mask = torch.ones_like(outputs)
        mask[most] = muted[most]
        return mask

    def probability(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(N,) of the true class."""
        return self.logits(outputs).softmax(dim=1).gather(1, y[:, None])[:, 0]
