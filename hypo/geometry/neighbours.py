"""Neighbourhood statistics of embeddings on the sphere, where nothing is projected.

Symbols: z (N, d) unit vectors, y (N,) classes, domains (N,) environments e; k neighbours; nearness is the cosine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from hypo.sphere import BLOCK

K = 10


def _on_arrays(function: Callable) -> Callable:
    """Take tensors too, of any precision; what is in half precision is computed in single."""

    def array(x: Any) -> Any:
        if isinstance(x, Tensor):
            x = (x.float() if x.is_floating_point() and x.itemsize < 4 else x).numpy(force=True)
        return x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype == np.float16 else x

    return functools.wraps(function)(lambda *args, **kwargs: function(*map(array, args), **kwargs))


@_on_arrays
def silhouette(z: np.ndarray, y: np.ndarray) -> float:
    """How clearly classes are apart: mean of (b - a) / max(a, b), a the mean distance 1 - z . z' to the own class and b
    that to the nearest other. 1 for tight classes far apart, 0 where they touch, negative where they overlap."""
    from sklearn.metrics import silhouette_score  # here, since no other measure needs it

    return float(silhouette_score(z, y, metric="cosine"))


@_on_arrays
def purity(z: np.ndarray, y: np.ndarray, k: int = K) -> float:
    """The share of the k nearest neighbours that are of the sample's class."""
    return float((y[_nearest(z, k)] == y[:, None]).mean())


@_on_arrays
def mixing(z: np.ndarray, y: np.ndarray, domains: np.ndarray, k: int = K) -> float:
    """How far the domains of a class are mixed: the share of other domains among a sample's k nearest of its own class,
    over the share if domains were dealt at random. 0 where each domain lies by itself, 1 where none can be told apart.

    A class needs more than k samples, and two domains.
    """
    shares, chances = [], []
    for c in np.unique(y):
        own, e = z[y == c], domains[y == c]
        if len(own) <= k or len(np.unique(e)) < 2:
            raise ValueError(f"class {c} needs more than {k} samples, of two domains or more; leave it out or lower k")
        shares.append(e[_nearest(own, k)] != e[:, None])
        sizes = np.bincount(np.unique(e, return_inverse=True)[1])[np.searchsorted(np.unique(e), e)]
        chances.append((len(e) - sizes) / (len(e) - 1))
    return float(np.concatenate(shares).mean() / np.concatenate(chances).mean())


@_on_arrays
def hard_negatives(z: np.ndarray, y: np.ndarray, domains: np.ndarray) -> pd.DataFrame:
    """The nearest sample of another class to each sample: in its own domain, and in the others.

    Columns: same, other (positions in z), same_cosine, other_cosine (-inf where there is none), chance (the share of
    the sample's negatives that are of its domain, which is how often `same` would be nearer if domains did not matter).
    """
    if len(np.unique(y)) < 2:
        raise ValueError("there are no negatives: all samples are of one class")
    parts = []
    for rows in _blocks(len(z)):
        cosine = z[rows] @ z.T
        negative, alike = y[rows, None] != y, domains[rows, None] == domains  # (n, N)
        columns: dict[str, np.ndarray] = {}
        for name, allowed in (("same", negative & alike), ("other", negative & ~alike)):
            among = np.where(allowed, cosine, -np.inf)
            columns[name], columns[f"{name}_cosine"] = among.argmax(axis=1), among.max(axis=1)
        parts.append(pd.DataFrame(columns | {"chance": (negative & alike).sum(axis=1) / negative.sum(axis=1)}))
    return pd.concat(parts, ignore_index=True)


@_on_arrays
def same_domain_excess(z: np.ndarray, y: np.ndarray, domains: np.ndarray) -> float | None:
    """How often the nearest sample of another class is of the same domain, minus how often a random one is.

    None where there is one class or one domain only.
    """
    if min(len(np.unique(y)), len(np.unique(domains))) < 2:
        return None
    found = hard_negatives(z, y, domains)
    return float(((found["same_cosine"] > found["other_cosine"]) - found["chance"]).mean())


def _nearest(z: np.ndarray, k: int) -> np.ndarray:
    """Positions (N, k) of the k others nearest to each sample, in no order."""
    if not 0 < k < len(z):
        raise ValueError(f"k must be at least 1 and below the number of samples, {len(z)}, not {k}")
    found = []
    for rows in _blocks(len(z)):
        cosine = z[rows] @ z.T
        cosine[np.arange(len(cosine)), np.arange(len(z))[rows]] = -np.inf
        found.append(np.argpartition(-cosine, k - 1, axis=1)[:, :k])
    return np.concatenate(found)


def _blocks(n: int) -> Iterator[slice]:
    """The rows of an (n, n) array in parts of at most BLOCK entries."""
    rows = max(1, BLOCK // n)
    return (slice(at, at + rows) for at in range(0, n, rows))
