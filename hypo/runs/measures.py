"""What can be measured of a run, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from hypo.data.corruptions import CORRUPTIONS
from hypo.runs.frame import Setting, made_with
from hypo.runs.statistics import KEYS, paired
from hypo.suggest import one_of


class Measure(NamedTuple):
    """Its name in words, whether it is an accuracy, which is given in percent, and under which corruption."""

    words: str
    percent: bool = False
    corruption: str | None = None


MEASURES = {
    "ood_accuracy": Measure("OOD accuracy", percent=True),
    "id_accuracy": Measure("in-distribution accuracy", percent=True),
    "validation_accuracy": Measure("validation accuracy", percent=True),
    "epsilon_hat": Measure("epsilon-hat"),
    "separation": Measure("mean distance between prototypes, 1 − cos,"),
    "etf_gap": Measure("ETF gap"),
    "sinkhorn": Measure("mean Sinkhorn divergence"),
    "hard_pairs": Measure("share of nearest other-class samples from the same domain, minus chance,"),
} | {f"ood.{name}": Measure("accuracy", percent=True, corruption=name) for name in CORRUPTIONS}


def column(domain: str) -> str:
    """A held-out domain as a column of a table, told apart from what else such a table has under that name."""
    return f"{domain} (domain)" if domain in ("average", "clean", "method", "numbers", "rank") else domain


def values(frame: pd.DataFrame, setting: Setting, measure: str) -> pd.DataFrame:
    """A measure of every run made with a setting that has it, accuracies in percent.

    Returns  one row per run: KEYS, value, failed, starts_at_first (under `rule: swad`, whether the average begins at
             the first evaluation; False under any other rule), origins (the record)
    """
    one_of("measure", measure, MEASURES)
    rule = setting.get("rule", "validation")
    made = made_with(frame, setting)
    starts = [rule == "swad" and span["starts_at_first"] for span in made["swad.interval"]]
    found = made[KEYS].assign(value=_measured(made, rule, measure), failed=made["failed"], origins=made["origins"])
    found["starts_at_first"] = starts
    kinds = {"value": float, "failed": bool, "starts_at_first": bool}
    return found.astype(kinds).dropna(subset="value").reset_index(drop=True)


def leads(
    frame: pd.DataFrame, of: Setting, than: Setting, measure: str = "ood_accuracy", on: Sequence[str] = KEYS
) -> pd.DataFrame:
    """How far `of` is ahead of `than` in each pair of runs that agree in `on`, as of `paired`."""
    return paired(*(values(frame, setting, measure) for setting in (of, than)), on=on)


def accuracies(frame: pd.DataFrame, rule: str = "validation", by_severity: bool = False) -> pd.DataFrame:
    """Every accuracy of every run on test data it was not trained on, in percent: one row per run and column.

    column    the held-out domain, the corruption, or "clean" (the uncorrupted test images of a run on corruptions)
    severity  1 to 5 of a corruption, one row each, `by_severity`; else 0, the value being the mean over severities
    settings  what the run changes of its scale's defaults, as sorted pairs
    and algorithm, KEYS, failed, origins of the run, corruptions ("published" or "generated")
    """
    rows = []
    for _, run in frame.iterrows():
        own = {name: run[name] for name in ("algorithm", *KEYS, "failed", "origins")}
        own["settings"] = tuple(sorted(run["changed"].items()))
        own["corruptions"] = run[f"{rule}.corruptions"]
        tested = {column(name) if run["held_out"] else name: rate for name, rate in run[f"{rule}.ood"].items()}
        if not run["held_out"]:
            tested = {"clean": run[f"{rule}.id_accuracy"]} | tested
        for name, result in tested.items():
            parts = result if isinstance(result, dict) else {0: result}
            parts = parts if by_severity else {0: np.mean([*parts.values()])}
            rows += [own | {"column": name, "severity": int(s), "value": 100 * v} for s, v in parts.items()]
    columns = ["algorithm", *KEYS, "failed", "origins", "settings", "corruptions", "column", "severity", "value"]
    return pd.DataFrame(rows, columns=columns)


def _measured(frame: pd.DataFrame, rule: str, measure: str) -> list[float | None]:
    """The measure of each run, None where it has none."""
    if corruption := MEASURES[measure].corruption:
        tested = [ood.get(corruption) for ood in frame[f"{rule}.ood"]]
        return [None if each is None else 100 * float(np.mean([*each.values()])) for each in tested]
    return [*frame[f"{rule}.{measure}"].astype(float) * (100 if MEASURES[measure].percent else 1)]
