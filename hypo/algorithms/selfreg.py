"""SelfReg: samples of one class have close features and logits, whatever their domain (Kim et al., ICCV 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Beta

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.distributed import whole_batch

if TYPE_CHECKING:
    from hypo.model import HypoNet


@dataclass(frozen=True)
class Hyperparameters:
    concentration: float = setting(0.5, "a, of the Beta(a, a) that the share s is drawn from", above=0)
    feature_weight: float = setting(0.3, "on the distances of features; those of logits have 1", at_least=0)


class SelfReg(Algorithm):
    """L = l + min(1, l) (s D(a) + (1 - s) D(s a + (1 - s) b)) with the cross-entropy l, and s from Beta(a, a).

    a and b give each sample another of its class, at random. D is the mean squared distance of the logits to those of
    the other, plus `feature_weight` times that of the features f to the projection P(f) of the other's; for the second
    term, to the mixture of two others'. P is three linear layers with batch norm. min(1, l) has no gradient.

    D. Kim, Y. Yoo, S. Park, J. Kim, J. Lee: SelfReg: self-supervised contrastive regularization for domain
    generalization, ICCV 2021. Left out: their order of the domains, and the average of the weights (SWAD has one).
    Avoids: a projection that no optimiser was given, so that it stays as it started; and samples paired with
    themselves, at distance 0.
    """

    Hyperparameters = Hyperparameters
    kind = "modules"

    def build(self, net: HypoNet) -> None:
        super().build(net)
        d, hidden = self.feature_dim, 2 * self.feature_dim
        layers = [nn.Linear(d, hidden), nn.BatchNorm1d(hidden), nn.ReLU()]
        layers += [nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU()]
        self.project = nn.Sequential(*layers, nn.Linear(hidden, d), nn.BatchNorm1d(d))

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:  # noqa: ARG002
        share = Beta(*2 * (self.config.method.concentration,)).sample().item()
        random = torch.Generator().manual_seed(torch.randint(2**62, ()).item())  # dropout may draw as each rank likes
        outputs, y, _ = whole_batch(self.encode(batch.images), batch.y)
        return self.terms(outputs, y, others(y, random), others(y, random), share)

    def terms(self, outputs: Tensor, y: Tensor, a: Tensor, b: Tensor, share: float) -> dict[str, Tensor]:
        logits, projected = self.logits(outputs), self.project(outputs)
        entropy = F.cross_entropy(logits, y)

        def distance(logits_of_others: Tensor, projected_of_others: Tensor) -> Tensor:
            features = F.mse_loss(outputs, projected_of_others)
            return F.mse_loss(logits, logits_of_others) + self.config.method.feature_weight * features

        single = distance(logits[a], projected[a])
        mixed = distance(torch.lerp(logits[b], logits[a], share), torch.lerp(projected[b], projected[a], share))
        total = entropy + entropy.detach().clamp(max=1) * (share * single + (1 - share) * mixed)
        return {"total": total, "entropy": entropy, "single": single, "mixed": mixed}

    def fresh(self) -> list[nn.Module]:
        return [self.classifier, self.project]


def others(y: Tensor, random: torch.Generator) -> Tensor:
    """(N,) for each sample the place of the next one in a random cycle through its class; itself where it is alone."""
    place = torch.empty_like(y)
    for c in y.unique():
        members = (y == c).nonzero()[:, 0]
        cycle = members[torch.randperm(len(members), generator=random).to(y.device)]
        place[cycle] = cycle.roll(-1)
    return place
