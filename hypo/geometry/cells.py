"""Embeddings by class and domain."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from hypo.contracts import check

Cell = tuple[int, int]
"""(class, domain)."""


def split(z: Tensor, y: Tensor, domains: Tensor) -> dict[Cell, Tensor]:
    """Embeddings (n, d), in float64 and detached, of each class in each domain that has it, in order."""
    check(z=z, y=y, domains=domains, num_classes=max(2, int(y.max()) + 1 if y.numel() else 2))
    keys = torch.stack([y, domains], dim=1).unique(dim=0).tolist()
    return {(c, e): z[(y == c) & (domains == e)].detach().double() for c, e in keys}


def domain_pairs(cells: dict[Cell, Tensor]) -> list[tuple[Cell, Cell]]:
    """Every two cells of one class."""
    pairs = [(p, q) for p, q in combinations(cells, 2) if p[0] == q[0]]
    if not pairs:
        raise ValueError("no class is found in two domains, so nothing varies; give samples of at least 2 domains")
    return pairs


def class_pairs(cells: dict[Cell, Tensor]) -> list[tuple[Cell, Cell]]:
    """Every two cells of one domain."""
    pairs = [(p, q) for p, q in combinations(cells, 2) if p[1] == q[1]]
    if not pairs:
        raise ValueError("no domain has two classes to compare; give samples of at least 2 classes in one domain")
    return pairs
