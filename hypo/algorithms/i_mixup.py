"""I-Mixup: images and labels mixed between training domains (Wang et al., 2020; Xu et al., 2020; Yan et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Beta

from hypo.algorithms.base import Algorithm, Batch, setting
from hypo.distributed import rank, whole_batch, world


@dataclass(frozen=True)
class Hyperparameters:
    concentration: float = setting(0.2, "a, of the Beta(a, a) that the shares are drawn from", above=0)


class IMixup(Algorithm):
    """L = 1/N sum_i s_i l(x_i', y_i) + (1 - s_i) l(x_i', y_j), with x_i' = s_i x_i + (1 - s_i) x_j and cross-entropy l.

    j is a sample of the domain that follows i's in a random cycle of the training domains; the share s is drawn from
    Beta(a, a), one for each pair of domains and step. Predictions are of images that are not mixed.

    Y. Wang, H. Li, A. C. Kot: Heterogeneous domain generalization via domain mixup, ICASSP 2020; M. Xu et al.:
    Adversarial domain adaptation with domain mixup, AAAI 2020; S. Yan et al.: Improve unsupervised domain adaptation
    with mixup training, 2020. H. Zhang et al., ICLR 2018, mix any two images.
    Avoids: a pass of the network for each pair of domains, in which batch norm sees but that pair; and shares from
    NumPy's generator, which differ after a resume.
    """

    Hyperparameters = Hyperparameters
    kind = "inputs"
    sampling = "per_domain"

    def losses(self, batch: Batch, progress: float) -> dict[str, Tensor]:  # noqa: ARG002
        images, y, domains = whole_batch(*batch)
        share = Beta(*2 * (self.config.method.concentration,)).sample((self.num_domains,)).to(images)[domains]  # (N,)
        partner = partners(domains, self.num_domains)
        mine = slice(rank() * len(y) // world(), (rank() + 1) * len(y) // world())
        mixed = torch.lerp(images[partner[mine]], images[mine], share[mine, None, None, None])
        outputs, _, _ = whole_batch(self.encode(mixed), y[mine])
        return {"total": mixed_cross_entropy(self.logits(outputs), y, y[partner], share)}


def partners(domains: Tensor, num_domains: int) -> Tensor:
    """(N,) for each sample the place of one from the next domain in a random cycle; as many samples in each domain."""
    cycle = torch.randperm(num_domains).tolist()
    places = torch.stack([(domains == e).nonzero()[:, 0] for e in cycle])  # (E, N / E)
    partner = torch.empty_like(domains)
    partner[places] = places.roll(-1, dims=0)
    return partner


def mixed_cross_entropy(logits: Tensor, y: Tensor, other: Tensor, share: Tensor) -> Tensor:
    """Mean of share l(y) + (1 - share) l(other): the cross-entropy with labels mixed as the images are."""
    mine, others = (F.cross_entropy(logits, labels, reduction="none") for labels in (y, other))
    return (share * mine + (1 - share) * others).mean()
