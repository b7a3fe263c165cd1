"""Neighbourhood statistics of embeddings on the sphere, where nothing is projected.

Symbols: z (N, d) unit vectors, y (N,) classes, domains (N,) environments e; k neighbours; nearness is the cosine.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.metrics import silhouette_score

K = 10


def silhouette(z: np.ndarray, y: np.ndarray) -> float:
    """How clearly classes are apart: mean of (b - a) / max(a, b), a the mean distance 1 - z . z' to the own class and b
    that to the nearest other. 1 for tight classes far apart, 0 where they touch, negative where they overlap."""
    return float(silhouette_score(z, y, metric="cosine"))


def purity(z: np.ndarray, y: np.ndarray, k: int = K) -> float:
    """The share of the k nearest neighbours that are of the sample's class."""
    return float((y[_nearest(z, ~np.eye(len(z), dtype=bool), k)] == y[:, None]).mean())


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
        shares.append(e[_nearest(own, ~np.eye(len(own), dtype=bool), k)] != e[:, None])
        chances.append((e[:, None] != e).sum(axis=1) / (len(e) - 1))
    return float(np.concatenate(shares).mean() / np.concatenate(chances).mean())


def hard_negatives(z: np.ndarray, y: np.ndarray, domains: np.ndarray) -> pd.DataFrame:
    """The nearest sample of another class to each sample: in its own domain, and in the others.

    Columns: same, other (positions in z), same_cosine, other_cosine (-inf where there is none), chance (the share of
    the sample's negatives that are of its domain, which is how often `same` would be nearer if domains did not matter).
    """
    cosine = z @ z.T
    negative, alike = y[:, None] != y, domains[:, None] == domains  # (N, N)
    columns: dict[str, np.ndarray] = {}
    for name, allowed in (("same", negative & alike), ("other", negative & ~alike)):
        among = np.where(allowed, cosine, -np.inf)
        columns[name], columns[f"{name}_cosine"] = among.argmax(axis=1), among.max(axis=1)
    return pd.DataFrame(columns | {"chance": (negative & alike).sum(axis=1) / negative.sum(axis=1)})


def _nearest(z: np.ndarray, allowed: np.ndarray, k: int) -> np.ndarray:
    """Positions (N, k) of the k nearest among those allowed (N, N), in no order."""
    return np.argpartition(-np.where(allowed, z @ z.T, -np.inf), k - 1, axis=1)[:, :k]
