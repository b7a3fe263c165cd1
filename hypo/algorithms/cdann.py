"""CDANN: features from which a discriminator that knows the class cannot tell the domain (Li et al., ECCV 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from hypo.algorithms.base import Algorithm
from hypo.algorithms.dann import DANN, mlp

if TYPE_CHECKING:
    from hypo.model import HypoNet


class CDANN(Algorithm):
    """min over encoder f and classifier, max over discriminator D of  H(y, W f) - lambda_p J(D).

    J(D)          mean over the pairs (e, c) in the batch of the mean of -log D(e | f_i, c) over the samples i of
                  domain e and class c
    D             two hidden layers on [f, one-hot of the class]: it compares domains within a class
    lambda_p      lambda (2 / (1 + exp(-10 p)) - 1) at progress p in [0, 1)

    Every class counts the same in every domain, so D learns nothing from how often classes occur where. Y. Li et al.,
    Deep domain generalization via conditional invariant adversarial networks, ECCV 2018. There each class has a
    discriminator of its own; here one takes the class as input.

    Avoids: weights by a class's count over all domains together, which leave class frequencies as a cue, and which
    count classes up to the largest label in the batch, so that the loss shrinks when others are missing.
    """

    Hyperparameters = DANN.Hyperparameters
    kind = "modules"
    sampling = "per_domain"
    defaults, optimisers, losses, fresh = DANN.defaults, DANN.optimisers, DANN.losses, DANN.fresh

    def build(self, net: HypoNet) -> None:
        super().build(net)
        inputs = self.feature_dim + self.num_classes
        self.discriminator = mlp(inputs, self.config.method.hidden, self.num_domains)

    def adversary(self, outputs: Tensor, y: Tensor, domains: Tensor) -> Tensor:
        """J(D) of features (N, k), classes (N,) and domains (N,)."""
        known = F.one_hot(y, self.num_classes).to(outputs)  # (N, C)
        each = F.cross_entropy(self.discriminator(torch.cat([outputs, known], dim=1)), domains, reduction="none")
        cells, cell, counts = (domains * self.num_classes + y).unique(return_inverse=True, return_counts=True)
        return (each / counts[cell]).sum() / len(cells)
