"""Claims that a computation decides: pure mathematics, and the paper's lemmas on stored embeddings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.special import ive

from hypo import sphere
from hypo.claims.runs import Evidence, Group, arrays_of, made_with
from hypo.geometry import lemmas

AGREES, REACHES = 1e-9, 1e-3


class Check(NamedTuple):
    """The rule as a sentence, and what it finds."""

    rule: str
    run: Callable[[Group], Evidence]


def _vmf(_group: Group) -> Evidence:
    """The variation loss against the likelihood of the labels under the density Z_d(kappa) exp(kappa mu . z)."""
    generator, (n, classes, d) = torch.Generator().manual_seed(0), (200, 7, 16)
    z = sphere.to_sphere(torch.randn(n, d, generator=generator, dtype=torch.float64))
    mu = sphere.to_sphere(torch.randn(classes, d, generator=generator, dtype=torch.float64))
    y = torch.arange(n) % classes
    gaps = []
    for tau in (0.05, 0.1, 0.5, 1.0):
        kappa, order = 1 / tau, d / 2 - 1
        log_z = order * np.log(kappa) - d / 2 * np.log(2 * np.pi) - np.log(ive(order, kappa)) - kappa
        log_density = log_z + kappa * z @ mu.T  # (N, C) log p(z | c)
        log_posterior = log_density - log_density.logsumexp(dim=1, keepdim=True)  # classes equally likely
        gaps.append((sphere.variation_loss(z, y, mu, tau) + log_posterior[torch.arange(n), y].mean()).abs().item())
    verdict = "reproduced" if max(gaps) < AGREES else "not reproduced"
    return Evidence(verdict, f"{sum(gap < AGREES for gap in gaps)} of {len(gaps)} temperatures agree", len(gaps))


def _etf(_group: Group) -> Evidence:
    """The separation loss minimised over free prototypes from a random start, for several numbers of classes."""
    tau, sizes, gaps = 0.1, ((2, 2), (3, 2), (4, 3), (7, 16), (10, 64)), []
    for classes, dim in sizes:
        free = torch.randn(classes, dim, generator=torch.Generator().manual_seed(classes), dtype=torch.float64)
        found = _minimise(lambda mu: sphere.separation_loss(mu, tau), free)
        excess = sphere.separation_loss(found, tau).item() + 1 / (tau * (classes - 1))
        gaps.append(max(sphere.etf_gap(found).item(), abs(excess)))
    verdict = "reproduced" if max(gaps) < REACHES else "not reproduced"
    reached = f"{sum(gap < REACHES for gap in gaps)} of {len(sizes)} sizes (C, d) end there, the largest {sizes[-1]}"
    return Evidence(verdict, reached, len(sizes))


def _minimise(loss: Callable[[torch.Tensor], torch.Tensor], start: torch.Tensor) -> torch.Tensor:
    """Unit vectors (C, d) that minimise `loss`, by L-BFGS on the vectors before they are normalised."""
    free = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([free], max_iter=500, line_search_fn="strong_wolfe")

    def step() -> torch.Tensor:
        optimiser.zero_grad()
        value = loss(sphere.to_sphere(free))
        value.backward()
        return value

    optimiser.step(step)
    return sphere.to_sphere(free.detach())


def _lemma(group: Group, name: str) -> Evidence:
    """An inequality of the paper's proof on the stored embeddings of HYPO's runs, wherever it applies."""
    models = {run.path: sides for run in made_with(group.runs, {}) if (sides := _sides(run.path)) is not None}
    if not models:
        return Evidence("not run", "no run of HYPO with stored embeddings")
    rows = pd.concat([sides[sides["lemma"] == name] for sides in models.values()], ignore_index=True)
    tightest = rows.loc[(rows["left"] / rows["right"]).idxmax()]
    text = (
        f"holds in {rows['holds'].sum()} of {len(rows)} places on {len(models)} model{'s' * (len(models) > 1)}; "
        f"tightest: {tightest['quantity']} is {tightest['left']:.2g}, the bound {tightest['right']:.2g}; in "
        f"{(rows['right'] < rows['at_most']).sum()} places the bound is below the most that any embedding can reach"
    )
    verdict = "reproduced" if rows["holds"].all() else "not reproduced"
    return Evidence(verdict, text, len(models), frozenset(path.name for path in models))


@functools.cache
def _sides(path: Path) -> pd.DataFrame | None:
    """Both sides of every lemma on the embeddings stored beside a record, None where there are none."""
    arrays = arrays_of(path)
    return None if arrays is None else lemmas(**arrays)


CHECKS = {
    "vmf": Check(f"the two agree to {AGREES:g} on random embeddings, with kappa = 1 / tau", _vmf),
    "etf": Check(
        f"minimised from random starts, the loss comes within {REACHES:g} of its bound -1/(tau (C-1)), and every "
        "cosine within as much of the simplex ETF's",
        _etf,
    ),
} | {
    name: Check(
        f"{name} holds in every class and domain on the stored embeddings of HYPO", functools.partial(_lemma, name=name)
    )
    for name in ("Lemma C.2", "Lemma C.3", "Lemma C.3, its proof", "Lemma C.4", "Theorem 6.1")
}
