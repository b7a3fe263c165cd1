"""The variation map at PACS's sizes, against solving it pair by pair with POT's log-domain solver."""

from __future__ import annotations

import numpy as np
import ot
import torch
import torch.nn.functional as F
from torch import Tensor

from bench.timing import faster, seconds, side_by_side
from hypo import intra_class_variation
from hypo.geometry.variation import REGULARISATION, TOLERANCE

PACS = {
    "art_painting": (379, 255, 285, 184, 201, 295, 449),
    "photo": (189, 202, 182, 186, 199, 280, 432),
    "sketch": (772, 740, 753, 608, 816, 80, 160),
}
"""Images of each class (dog, elephant, giraffe, guitar, horse, house, person) in the domains of Fig. dist_comp."""


def embeddings(shrink: int = 1, dim: int = 512) -> tuple[Tensor, Tensor, Tensor]:
    """Clouds like a trained network's: around class means, moved by domain, spread over a few directions most."""
    random = torch.Generator().manual_seed(0)
    spread = torch.arange(1, dim + 1) ** -1.0
    parts = []
    means = F.normalize(torch.randn(len(PACS["photo"]), dim, generator=random), dim=1)
    for e, sizes in enumerate(PACS.values()):
        for c, size in enumerate(sizes):
            n = size // shrink
            shift = F.normalize(torch.randn(dim, generator=random), dim=0)
            noise = torch.randn(n, dim, generator=random) * spread / spread.norm()
            z = F.normalize(means[c] + 0.4 * shift + 0.7 * noise, dim=1)
            parts.append((z, torch.full((n,), c), torch.full((n,), e)))
    z, y, domains = (torch.cat(part) for part in zip(*parts, strict=True))
    return z, y, domains


def with_pot(a: np.ndarray, b: np.ndarray) -> float:
    """One divergence as POT's user would write it: three solves, each with its own cost."""

    def solve(x: np.ndarray, y: np.ndarray) -> float:
        options = {"method": "sinkhorn_log", "stopThr": TOLERANCE, "numItermax": 100_000}
        return ot.sinkhorn2([], [], ot.dist(x, y), REGULARISATION, **options)

    return solve(a, b) - (solve(a, a) + solve(b, b)) / 2


def run(quick: bool = False) -> list[dict]:
    z, y, domains = embeddings(shrink=16 if quick else 1)
    (ours,) = side_by_side(lambda: intra_class_variation(z, y, domains), rounds=1 if quick else 3)
    table = intra_class_variation(z, y, domains)
    work = table.n_a**2 + table.n_a * table.n_b + table.n_b**2  # entries of the three costs
    sample = table.index[:: 7 if quick else 4]
    values, spent = [], 0.0
    for pair in table.loc[sample].itertuples(index=False):
        c, e, other = pair[:3]
        a, b = (z[(y == c) & (domains == d)].double().numpy() for d in (e, other))
        spent += seconds(lambda a=a, b=b: values.append(with_pot(a, b)))
    obvious = spent * work.sum() / work[sample].sum()
    apart = np.abs(table.sinkhorn[sample] - values).max()
    case = f"variation map, {len(table)} pairs; POT on {len(sample)}, scaled; apart by {apart:.0e}"
    return [faster(case, ours, obvious, aim=10, unit="s", scale=1)]
