"""Intra-class variation and inter-class separation, with the Sinkhorn divergence as the distance between cells."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hypo.geometry.cells import Cell, class_pairs, domain_pairs, split
from hypo.geometry.sinkhorn import self_transport, squared_distances, transport

REGULARISATION = 0.05
"""In units of the cost: 1/80 of the largest squared distance on the sphere, which is 4."""

TOLERANCE = 1e-6
"""On the l2 norm of the error of a marginal, which POT calls stopThr."""


def intra_class_variation(
    z: Tensor, y: Tensor, domains: Tensor, regularisation: float = REGULARISATION, tolerance: float = TOLERANCE
) -> pd.DataFrame:
    """How far apart two domains hold the same class (Def. intra-class variation, Figure 5).

    The distance between cells A (n, d) and B (m, d) is the debiased Sinkhorn divergence with POT's conventions,

        S(A, B) = max(0, OT(A, B) - (OT(A, A) + OT(B, B)) / 2)
        OT      = <P, C> with C_ij = ||x_i - x_j||^2 and P the plan that minimises <P, C> + regularisation sum P log P
                  under the weights 1 / n and 1 / m

    so OT is the cost of the regularised plan without its entropy: `ot.sinkhorn2`, and S is
    `ot.bregman.empirical_sinkhorn_divergence`. It tends to `ot.emd2`, the squared W2, as regularisation goes to 0.

    z (N, d), y (N,), domains (N,); regularisation in units of C. Computed in float64 on the device of z.
    Returns one row for each class and two domains that have it:
        class, domain_a, domain_b (a < b), sinkhorn, marginal_error (the largest of the three plans), n_a, n_b
    The paper's V is the largest entry of `sinkhorn`.
    """
    cells = split(z, y, domains)
    pairs = domain_pairs(cells)
    rows = pd.DataFrame([(c, a, b) for (c, a), (_, b) in pairs], columns=["class", "domain_a", "domain_b"])
    return rows.join(_divergences(cells, pairs, regularisation, tolerance))


def mean_variation(z: Tensor, y: Tensor, domains: Tensor) -> float | None:
    """The mean of `intra_class_variation` over classes and pairs of domains; None where no class is in two domains."""
    classes = torch.stack([y, domains], dim=1).unique(dim=0)[:, 0]
    if len(classes) == len(classes.unique()):
        return None
    return float(intra_class_variation(z, y, domains)["sinkhorn"].mean())


def inter_class_distances(
    z: Tensor, y: Tensor, domains: Tensor, regularisation: float = REGULARISATION, tolerance: float = TOLERANCE
) -> pd.DataFrame:
    """How far apart a domain holds two classes: `intra_class_variation` with classes and domains in each other's place.

    Returns one row for each domain and two classes it has:
        domain, class_a, class_b (a < b), sinkhorn, marginal_error, n_a, n_b
    """
    cells = split(z, y, domains)
    pairs = class_pairs(cells)
    rows = pd.DataFrame([(e, a, b) for (a, e), (b, _) in pairs], columns=["domain", "class_a", "class_b"])
    return rows.join(_divergences(cells, pairs, regularisation, tolerance))


def inter_class_separation(
    z: Tensor, y: Tensor, domains: Tensor, regularisation: float = REGULARISATION, tolerance: float = TOLERANCE
) -> float:
    """How far apart classes are in the domain where they are closest (Def. inter-class separation).

    I = 1/(C(C-1)) sum_{y != y'} min_e rho(P(phi^e | y), P(phi^e | y'))

    over the C classes that y holds. The paper leaves rho open; here it is the Sinkhorn divergence, as in
    `intra_class_variation`, so that the two can be held against one another. A domain that lacks one of two classes has
    no part in their minimum.
    """
    distances = inter_class_distances(z, y, domains, regularisation, tolerance)
    closest = distances.groupby(["class_a", "class_b"])["sinkhorn"].min()
    if len(closest) < math.comb(len(y.unique()), 2):
        raise ValueError("two classes share no domain, so their minimum over domains is empty; leave one of them out")
    return float(closest.mean())


def _divergences(
    cells: dict[Cell, Tensor], pairs: list[tuple[Cell, Cell]], regularisation: float, tolerance: float
) -> pd.DataFrame:
    """One row per pair: sinkhorn, marginal_error, n_a, n_b. A cell's transport to itself is solved once."""
    for name, value in (("regularisation", regularisation), ("tolerance", tolerance)):
        if not value > 0:
            raise ValueError(f"{name} must be above 0, not {value}; smaller is nearer to exact transport and slower")
    used = dict.fromkeys(cell for pair in pairs for cell in pair)
    own = {p: self_transport(squared_distances(cells[p], cells[p]), regularisation, tolerance) for p in used}
    rows = []
    for p, q in pairs:
        cost, error = transport(squared_distances(cells[p], cells[q]), regularisation, tolerance)
        (cost_p, error_p), (cost_q, error_q) = own[p], own[q]
        divergence = float(np.maximum(0.0, cost - (cost_p + cost_q) / 2))  # NaN stays NaN, where max() makes 0 of it
        rows.append((divergence, max(error, error_p, error_q), len(cells[p]), len(cells[q])))
    result = pd.DataFrame(rows, columns=["sinkhorn", "marginal_error", "n_a", "n_b"])
    if missed := int((~(result.marginal_error <= tolerance)).sum()):
        warnings.warn(
            f"{missed} of {len(pairs)} divergences missed the tolerance {tolerance:g} on a marginal (see "
            "marginal_error); raise the regularisation or the tolerance",
            RuntimeWarning,
            stacklevel=3,
        )
    return result
