"""Claims that a computation decides: pure mathematics, and the paper's lemmas on stored embeddings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch

from hypo import runs, sphere
from hypo.claims.evidence import EMPTY, FAILS, HOLDS, NOT_RUN, Evidence
from hypo.geometry import lemmas, prototypes

AGREES, REACHES = 1e-9, 1e-3


class Check(NamedTuple):
    """The rule as a sentence, and what it finds."""

    rule: str
    run: Callable[[pd.DataFrame], Evidence]


def _vmf(_frame: pd.DataFrame) -> Evidence:
    """The variation loss against the likelihood of the labels under SciPy's von Mises-Fisher densities."""
    generator, (n, classes, d) = torch.Generator().manual_seed(0), (200, 7, 16)
    z, mu = (sphere.to_sphere(torch.randn(k, d, generator=generator, dtype=torch.float64)) for k in (n, classes))
    y = torch.arange(n) % classes
    agree = []
    for tau in (0.05, 0.1, 0.5, 1.0):
        likelihood = prototypes.vmf_likelihood(z.numpy(), y.numpy(), mu.numpy(), tau)
        agree.append(abs(sphere.variation_loss(z, y, mu, tau).item() - likelihood) < AGREES)
    return _counted(agree, "temperatures")


def _etf(_frame: pd.DataFrame) -> Evidence:
    """The separation loss minimised over free prototypes from a random start, for several numbers of classes."""
    sizes = ((2, 2), (3, 2), (4, 3), (7, 16), (10, 64))
    return _counted([_above_least(*size) < REACHES for size in sizes], f"sizes (C, d) up to {sizes[-1]}")


@functools.cache
def _above_least(classes: int, dim: int, tau: float = 0.1) -> float:
    """How far the minimiser ends from a simplex, or its loss from that of one, whichever is more."""
    end = prototypes.spread_prototypes(classes, dim, tau)[1].iloc[-1]
    return max(end["etf_gap"], abs(end["separation"] + 1 / (tau * (classes - 1))))


def _counted(held: list[bool], places: str) -> Evidence:
    return Evidence(HOLDS if all(held) else FAILS, counts=(sum(held), len(held), places), n=len(held))


def _lemma(frame: pd.DataFrame, name: str) -> Evidence:
    """An inequality of the paper's proof on stored embeddings of HYPO, one run for each held-out domain."""
    made = runs.made_with(frame, {})
    kept = made["path"].map(lambda path: path.with_suffix(".npz").exists()).astype(bool)
    first = made[kept].sort_values("seed").drop_duplicates("held_out")  # mathematics needs no repetition
    if first.empty:
        return Evidence(NOT_RUN, reason="no run of HYPO with stored embeddings")
    found = [_sides(path) for path in first["path"]]
    rows = pd.concat([sides[sides["lemma"] == name] for sides in found], ignore_index=True)
    useful = (rows["right"] < rows["at_most"]).any()
    outcome = FAILS if not rows["holds"].all() else HOLDS if useful else EMPTY
    tightest = rows.loc[(rows["left"] / rows["right"].clip(lower=1e-300)).idxmax()].to_dict()
    counts, origins = (int(rows["holds"].sum()), len(rows), "places"), frozenset().union(*first["origins"])
    return Evidence(outcome, counts=counts, tightest=tightest, origins=origins, n=len(found))


@functools.cache
def _sides(path: Path) -> pd.DataFrame:
    """Both sides of every lemma on the embeddings stored beside a record."""
    return lemmas(**runs.embeddings(path).of("id_test").tensors())


CHECKS = {
    "vmf": Check(f"the two agree to {AGREES:g} on random embeddings, with kappa = 1 / tau", _vmf),
    "etf": Check(
        f"minimised from random starts, the loss comes within {REACHES:g} of its bound -1/(tau (C-1)), and every "
        "cosine within as much of the simplex ETF's",
        _etf,
    ),
} | {
    name: Check(
        f"{said} holds in every class and domain on the stored embeddings of HYPO", functools.partial(_lemma, name=name)
    )
    for name, said in (
        *((each, each) for each in ("Lemma C.2", "Lemma C.3", "Lemma C.4", "Theorem 6.1")),
        ("Lemma C.3, its proof", "the line in the proof of Lemma C.3"),
    )
}
