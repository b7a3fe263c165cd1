"""The geometry of recorded runs, with classes and domains by name: what the pages on variation and the bound show."""

from __future__ import annotations

from typing import Any

import pandas as pd

from hypo.claims.runs import arrays_of
from hypo.geometry import (
    epsilon_hat,
    etf_gap,
    inter_class_separation,
    intra_class_variation,
    lemmas,
    prototype_separation,
)
from hypo.results import file_of

Record = dict[str, Any]


def arrays(record: Record) -> dict[str, Any]:
    """z (N, d), y, domains (N,) and prototypes (C, d) of the in-distribution test samples of a run."""
    stored = arrays_of(file_of(record))
    if stored is None:
        raise FileNotFoundError(f"{file_of(record).name} was kept without embeddings: run it again with force")
    return stored


def variation(record: Record) -> pd.DataFrame:
    """Sinkhorn divergence between every two training domains for each class: class, pair, sinkhorn, n_a, n_b."""
    stored = arrays(record)
    found = intra_class_variation(stored["z"], stored["y"], stored["domains"])
    classes, domains = record["benchmark"]["classes"], record["benchmark"]["domains"]
    pairs = [f"{domains[a]} – {domains[b]}" for a, b in zip(found["domain_a"], found["domain_b"], strict=True)]
    named = found.assign(
        pair=[pair.replace("_", " ") for pair in pairs], **{"class": [classes[c] for c in found["class"]]}
    )
    return named[["class", "pair", "sinkhorn", "marginal_error", "n_a", "n_b"]]


def summary(record: Record) -> dict[str, float]:
    """The measures of a run that no choice of colours can change."""
    stored = arrays(record)
    z, y, domains, mu = stored["z"], stored["y"], stored["domains"], stored["prototypes"]
    found = intra_class_variation(z, y, domains)["sinkhorn"]
    separation = inter_class_separation(z, y, domains)
    return {
        "variation, mean over classes and pairs": found.mean(),
        "variation V, the largest": found.max(),
        "separation I": separation,
        "V / I": found.max() / separation,
        "mean variation / I": found.mean() / separation,
        "epsilon-hat": epsilon_hat(z, y, mu).item(),
        "distance between prototypes, 1 - cos": prototype_separation(mu).item(),
        "ETF gap": etf_gap(mu).item(),
    }


def sides(record: Record) -> pd.DataFrame:
    """Both sides of every inequality of the appendix on a run's samples, classes and domains by name."""
    found = lemmas(**arrays(record), temperature=record["config"]["temperature"])
    classes, domains = record["benchmark"]["classes"], record["benchmark"]["domains"]
    named = {"class": classes, "domain_a": domains, "domain_b": domains}
    return found.assign(
        **{column: ["" if pd.isna(i) else names[i] for i in found[column]] for column, names in named.items()}
    )


def tightest(found: pd.DataFrame) -> pd.DataFrame:
    """Of each inequality of `sides` the place where it comes nearest to failing, and how often it holds."""
    groups = found.assign(ratio=found["left"] / found["right"]).groupby(["lemma", "quantity"], sort=False)
    nearest = found.loc[groups["ratio"].idxmax()].reset_index(drop=True)
    held = groups["holds"].agg(["sum", "size"]).reset_index()
    return nearest.assign(
        holds=[f"{a} of {n}" for a, n in zip(held["sum"], held["size"], strict=True)],
        says=[
            "" if r < most or most != most else "nothing: always true"
            for r, most in zip(nearest["right"], nearest["at_most"], strict=True)
        ],
    )
