"""Samples and prototypes: how close one is to the other, and prototypes to one another."""

from __future__ import annotations

from torch import Tensor

from hypo.contracts import checked


@checked
def epsilon_hat(z: Tensor, y: Tensor, prototypes: Tensor) -> Tensor:
    """How far samples are from their prototypes (Table 14): 1 minus the mean of mu_{y_j} . z_j.

    z (N, d), y (N,), prototypes (C, d)
    """
    return 1 - (z * prototypes[y]).sum(dim=1).mean()


@checked
def prototype_separation(prototypes: Tensor) -> Tensor:
    """How far prototypes are from one another, the mean of 1 - mu_i . mu_j over pairs i != j.

    0 when they coincide, 1 when orthogonal, C / (C - 1) at the simplex ETF. Differs from `inter_class_separation`, the
    paper's definition, which compares the distributions of classes.
    """
    classes = len(prototypes)
    gram = prototypes @ prototypes.T
    return 1 - (gram.sum() - gram.trace()) / (classes * (classes - 1))
