"""What lies next to what on the sphere: measures of embeddings as they are, which a map of them in the plane distorts.

Symbols: z (N, d) unit vectors, y (N,) classes, domains (N,) environments e; k neighbours; nearness is the cosine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import silhouette_score

from hypo import records
from hypo.results import file_of

K = 10
APART, ALIKE, MIXED = "classes apart (silhouette)", f"same class among the {K} nearest", "domains mixed within a class"


def samples(record: dict[str, Any]) -> tuple[pd.DataFrame, np.ndarray]:
    """The test samples of a run and their embeddings z (N, d), from the arrays stored beside its record.

    Columns: index (in the image set), class and domain (by name), part (id_test or ood_test), prediction (by name; None
    where a run did not keep it).
    """
    stored, named = records.embeddings(file_of(record)), record["benchmark"]
    parts, vectors = [], []
    for part in ("id_test", "ood_test"):
        kept = {name: stored.get(f"{part}_{name}") for name in ("index", "y", "domain", "prediction", "z")}
        columns = {
            "index": kept["index"],
            "class": np.array(named["classes"])[kept["y"]],
            "domain": np.array(named["domains"])[kept["domain"]],
            "part": part,
            "prediction": None if kept["prediction"] is None else np.array(named["classes"])[kept["prediction"]],
        }
        parts.append(pd.DataFrame(columns))
        vectors.append(kept["z"].astype(np.float64))
    z = np.concatenate(vectors)
    return pd.concat(parts, ignore_index=True), z / np.linalg.norm(z, axis=1, keepdims=True)


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


def measured(frame: pd.DataFrame, z: np.ndarray) -> dict[tuple[str, str], float]:
    """Every measure, by (measure, samples): of the training domains' test samples, and with the held-out domain's."""
    values = {}
    for which, chosen in (("training domains", frame["part"] == "id_test"), ("all domains", frame["part"] != "")):
        some, y, e = z[chosen], frame["class"][chosen].to_numpy(), frame["domain"][chosen].to_numpy()
        values[APART, which] = silhouette(some, y)
        values[ALIKE, which] = purity(some, y)
        values[MIXED, which] = mixing(some, y, e)
    return values


def in_words(values: pd.DataFrame) -> str:
    """What `measured`, a column a method, says of the paper's two observations on Fig. umap: one run, so no spread."""
    rows = {name: values.xs("all domains", level=1).loc[name] for name in (MIXED, APART)}
    higher = {name: row["HYPO"] > row["ERM"] for name, row in rows.items()}
    said = {name: f"({row['HYPO']:.2f} against {row['ERM']:.2f})" for name, row in rows.items()}
    return (
        f"The domains of a class are mixed {'more' if higher[MIXED] else 'less'} under HYPO than ERM {said[MIXED]}: "
        f"the paper's first observation {'holds' if higher[MIXED] else 'does not hold'} in this run. Its classes lie "
        f"{'further apart' if higher[APART] else 'closer together'} {said[APART]}: "
        f"the second {'holds' if higher[APART] else 'does not hold'}."
    )


def hard_negatives(z: np.ndarray, y: np.ndarray, domains: np.ndarray) -> pd.DataFrame:
    """The nearest sample of another class to each sample: in its own domain, and in the others.

    Columns: same, other (positions in z), same_cosine, other_cosine, chance (the share of the sample's negatives that
    are of its domain, which is how often `same` would be nearer if domains did not matter).
    """
    cosine = z @ z.T
    negative, alike = y[:, None] != y, domains[:, None] == domains  # (N, N)
    columns: dict[str, np.ndarray] = {}
    for name, allowed in (("same", negative & alike), ("other", negative & ~alike)):
        columns[name] = np.where(allowed, cosine, -np.inf).argmax(axis=1)
        columns[f"{name}_cosine"] = np.take_along_axis(cosine, columns[name][:, None], axis=1)[:, 0]
    return pd.DataFrame(columns | {"chance": (negative & alike).sum(axis=1) / negative.sum(axis=1)})


def closest_pairs(frame: pd.DataFrame, z: np.ndarray, count: int) -> pd.DataFrame:
    """The `count` closest pairs of different classes in each domain of `samples`, no two of the same two classes.

    Columns: domain, class_a, class_b, index_a, index_b, cosine; nearest first within a domain.
    """
    found = hard_negatives(z, frame["class"].to_numpy(), frame["domain"].to_numpy())
    a, b = frame.reset_index(drop=True), frame.iloc[found["same"]].reset_index(drop=True)
    pairs = pd.DataFrame({"domain": a["domain"], "class_a": a["class"], "class_b": b["class"]})
    pairs = pairs.assign(index_a=a["index"], index_b=b["index"], cosine=found["same_cosine"])
    pairs["classes"] = [tuple(sorted(both)) for both in zip(a["class"], b["class"], strict=True)]
    pairs = pairs.sort_values("cosine", ascending=False, kind="stable").drop_duplicates(["domain", "classes"])
    pairs = pairs.groupby("domain", sort=False).head(count).sort_values("domain", kind="stable")
    return pairs.drop(columns="classes").reset_index(drop=True)


def hard_share(frame: pd.DataFrame, z: np.ndarray) -> pd.DataFrame:
    """By domain, and over all: how often the nearest negative is of the sample's own domain, and the mean cosines."""
    found = hard_negatives(z, frame["class"].to_numpy(), frame["domain"].to_numpy())
    rows = pd.DataFrame(
        {
            "domain": frame["domain"].to_numpy(),
            "nearest is of the same domain (%)": 100.0 * (found["same_cosine"] > found["other_cosine"]),
            "by chance (%)": 100 * found["chance"],
            "cosine to the nearest, same domain": found["same_cosine"],
            "other domains": found["other_cosine"],
        }
    )
    return pd.concat([rows, rows.assign(domain="all")]).groupby("domain", sort=False).mean()


def _nearest(z: np.ndarray, allowed: np.ndarray, k: int) -> np.ndarray:
    """Positions (N, k) of the k nearest among those allowed (N, N), in no order."""
    return np.argpartition(-np.where(allowed, z @ z.T, -np.inf), k - 1, axis=1)[:, :k]
