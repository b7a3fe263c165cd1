"""The statistics of repeated runs, each defined once.

Seeds are the repetitions; held-out domains are a fixed set, the strata. A frame of single values has the columns
`held_out` (the stratum, "" where the runs are tested on corruptions), `seed`, `value` and `origins` (the records).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from hypo.runs.frame import Origins

CONFIDENCE = 0.95
KEYS = ["benchmark", "scale", "held_out", "seed", "data", "split"]
"""What two runs have in common that are a pair."""


class Estimate(NamedTuple):
    """A mean and how well it is known.

    value      mean over strata of the mean over seeds
    sd         standard deviation over seeds, pooled within strata; NaN when no stratum has two seeds
    low, high  95% interval of Student's t around `value`; NaN likewise
    n          number of values
    df         degrees of freedom, the sum over strata of (number of seeds - 1)
    """

    value: float
    sd: float
    low: float
    high: float
    n: int
    df: int


def estimate(values: Sequence[float], strata: Sequence[str] | None = None) -> Estimate:
    """The mean over strata of the mean over seeds, with Student's interval; without strata, the mean over seeds.

    value = 1/D sum_d m_d              m_d, s_d, n_d: mean, standard deviation and number of values in stratum d
    sd^2  = sum_d (n_d - 1) s_d^2 / df     df = sum_d (n_d - 1)
    low, high = value -+ t_df(0.975) sd sqrt(sum_d 1/n_d) / D
    """
    series = pd.Series(values, dtype=float).reset_index(drop=True)
    groups = series.groupby(np.zeros(len(series)) if strata is None else np.asarray(strata))
    sizes = groups.size()
    value, n, df = groups.mean().mean(), len(series), int((sizes - 1).sum())
    if df < 1:
        return Estimate(value, np.nan, np.nan, np.nan, n, 0)
    sd = np.sqrt(((series - groups.transform("mean")) ** 2).sum() / df)
    margin = stats.t.ppf((1 + CONFIDENCE) / 2, df) * sd * np.sqrt((1 / sizes).sum()) / len(sizes)
    return Estimate(value, sd, value - margin, value + margin, n, df)


def least_lead(sd: float, df: int, strata: int, at_once: int = 1) -> float:
    """How far apart two means over `strata`, of one value in each, must lie for the 95% interval of their difference to
    exclude 0, if values of either spread by `sd` within a stratum, known with `df`: t_df(0.975) sd sqrt(2 / strata).

    at_once  comparisons that are to hold together with 95%, by Bonferroni's inequality
    """
    return float(stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / at_once, df) * sd * np.sqrt(2 / strata))


class Correlation(NamedTuple):
    """Spearman's rank correlation of n pairs, and its 95% interval; NaN where n or the ranks give none."""

    value: float
    low: float
    high: float
    n: int


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> Correlation:
    """Spearman's rho of pairs of numbers, with the interval of Bonett and Wright (Psychometrika, 2000).

    low, high = tanh(artanh(rho) -+ z(0.975) sqrt((1 + rho^2 / 2) / (n - 3))), for n > 3 and -1 < rho < 1
    """
    n = len(first)
    if min(len(set(first)), len(set(second))) < 2:
        return Correlation(np.nan, np.nan, np.nan, n)
    rho = float(stats.spearmanr(first, second).statistic)
    if n < 4 or abs(rho) > 1 - 1e-12:
        return Correlation(rho, np.nan, np.nan, n)
    margin = stats.norm.ppf((1 + CONFIDENCE) / 2) * np.sqrt((1 + rho**2 / 2) / (n - 3))
    return Correlation(rho, *(float(np.tanh(np.arctanh(rho) + side)) for side in (-margin, margin)), n)


def together(origins: Iterable[Origins]) -> Origins:
    """The records behind several numbers, each once."""
    return tuple(dict.fromkeys(itertools.chain.from_iterable(origins)))


def averages(single: pd.DataFrame, columns: Sequence[str], keys: Sequence[str]) -> pd.DataFrame:
    """The average over `columns` of each seed that has all of them; a seed that lacks one has no average.

    single   one row per value: `keys`, which identify a seed of a setting, `column`, `value`, `origins`, and
             `failed` and `starts_at_first` where they are known
    Returns  one row per complete seed: `keys`, column = "average", value, origins (all), failed, starts_at_first (any)
    """
    wanted = single[single["column"].isin(columns)]
    groups = wanted.groupby(list(keys), sort=False, dropna=False)
    complete = wanted[groups["column"].transform("nunique") == len(columns)]
    parts = {"value": ("value", "mean"), "origins": ("origins", together)}
    parts |= {name: (name, "any") for name in ("failed", "starts_at_first") if name in single}
    found = complete.groupby(list(keys), sort=False, dropna=False).agg(**parts).reset_index()
    return found.assign(column="average", held_out="")


def paired(first: pd.DataFrame, second: pd.DataFrame, on: Sequence[str] = KEYS) -> pd.DataFrame:
    """Differences, first minus second, between the runs that agree in `on`; a run without a partner is left out.

    Returns  one row per pair: `on`, value, failed (whether either failed to train), starts_at_first (likewise), origins
    """
    both = first.merge(second, on=list(on), suffixes=("", "_second"))
    parts = {name: both[name] | both[f"{name}_second"] for name in ("failed", "starts_at_first")}
    origins = both["origins"] + both["origins_second"]
    return both[list(on)].assign(value=both["value"] - both["value_second"], **parts, origins=origins)


def summarise(single: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """`estimate` of single values by the columns `by`, stratified by `held_out`.

    Returns  one row per group, in order of appearance: `by`, the fields of Estimate, failed and starts_at_first (how
             many of the n values come from such runs), origins
    """
    rows = []
    for key, group in single.groupby(list(by), sort=False, dropna=False):
        marks = {name: int(group[name].sum()) if name in group else 0 for name in ("failed", "starts_at_first")}
        found = estimate(group["value"], group.get("held_out"))._asdict()
        rows.append(dict(zip(by, key, strict=True)) | found | marks | {"origins": together(group["origins"])})
    return pd.DataFrame(rows, columns=[*by, *Estimate._fields, "failed", "starts_at_first", "origins"])
