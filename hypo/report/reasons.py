"""Why HYPO may be where it is against ERM: what the records say of each suspected reason, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from hypo import claims, runs
from hypo.report import sensitivity, text
from hypo.report.claims import AHEAD_OF_ERM, measured, ordered
from hypo.report.released import drift
from hypo.report.search import RATES, trials
from hypo.report.studies import STUDIES, at_places, sweep
from hypo.report.table import Table
from hypo.runs import Origins, Setting, together

BENCHMARK, SCALE = "pacs", "cpu"
METHODS = ("erm", "hypo", "pcl")
CHANGED = {
    "both behind HYPO's head: HYPO − ERM": "the head: ERM behind HYPO's",
    "both behind one linear layer: HYPO − ERM": "the head: HYPO behind one linear layer",
    "constant τ: HYPO − ERM": "the start: a constant τ",
    "ResNet-50: HYPO − ERM": "the network: ResNet-50",
    "15 epochs: HYPO − ERM": "the length: 15 epochs",
    "two views: HYPO − ERM": "the views: two of each image",
    "λ = 2: HYPO − ERM": "the weight: λ = 2",
    "λ = 4: HYPO − ERM": "the weight: λ = 4",
}
"""Contrast of the controls -> the reason that it tries."""
SWEPT = {
    "temperature": "[the value of τ](tau_alpha.html)",
    "momentum": "[the value of α](tau_alpha.html)",
    "weight": "the value of λ",
}
"""Field of HYPO's that was run with several values, and was not searched -> the reason that it may be."""
Reason = tuple[str, str, int, Origins]
"""The reason, what was seen, in how many runs, and their records."""


def table(frame: pd.DataFrame | None = None) -> Table:
    """What the runs on PACS at cpu scale say of each suspected reason; what has no run has no row."""
    frame = runs.load() if frame is None else frame
    here = frame[(frame["benchmark"] == BENCHMARK) & (frame["scale"] == SCALE)]
    found = [*_training(here), *_rates(frame), *_values(here), *_prototypes(here), *_rules(here), *_controls(here)]
    shown = pd.DataFrame(found, columns=["suspected", "what was seen", "runs", "origins"])
    caption = (
        f"Suspected reasons for the place of HYPO against ERM on {text.data(BENCHMARK)} at {SCALE} scale, and what the "
        "runs say of each. Where a lead is given, it is in points of OOD accuracy, with its 95% interval."
    )
    return Table(shown.drop(columns="origins"), "reasons", caption, shown["origins"], shown)


def _training(here: pd.DataFrame) -> Iterator[Reason]:
    own = here[here["algorithm"] == "hypo"]
    if len(own):
        usual = int(own["at_defaults"].sum())
        seen = f"{own['failed'].sum()} of {len(own)} runs of HYPO, {usual} of them at the defaults, failed to train."
        yield "[runs that fail to train](start.html)", seen, len(own), together(own["origins"])


def _rates(frame: pd.DataFrame) -> Iterator[Reason]:
    tried = trials(frame, ["search"])
    tried = tried[tried["algorithm"].isin(("erm", "hypo"))]
    best = tried[tried["chosen"]]
    for rates, own in best.groupby(RATES):
        lr, factor = (_inside(value, tried[field]) for value, field in zip(rates, RATES, strict=True))
        names = text.listed([*map(text.method_name, own["algorithm"])])
        seen = f"{names}: the chosen rate, {lr}; its factor for new layers, {factor}."
        behind = tried[tried["algorithm"].isin(own["algorithm"])]
        yield "[the learning rate](recipe.html)", seen, len(behind), together(behind["origins"])


def _inside(value: float, tried: pd.Series) -> str:
    place = "lies inside" if tried.min() < value < tried.max() else "is at the edge of"
    return f"{value:g}, {place} what was tried ({text.listed([f'{each:g}' for each in sorted({*tried})])})"


def _values(here: pd.DataFrame) -> Iterator[Reason]:
    """Which value the rule of the search would choose of each of HYPO's hyperparameters that the search left alone."""
    for field, reason in SWEPT.items():
        tried = sweep(here[here["algorithm"] == "hypo"], field, "validation_accuracy")
        means = tried.groupby(field)["value"].mean().sort_values(ascending=False)
        if len(means) < 2:
            continue
        (best, first), (next_best, second) = means.iloc[:2].items()
        domains = text.listed([text.words(domain) for domain in dict.fromkeys(tried["held_out"])])
        rest = text.listed([f"{value:g}" for value in sorted(means.index.drop(best))])
        seen = (
            f"By validation accuracy {best:g} is ahead of {rest}: {text.number(first)}%, and {text.number(second)}% "
            f"with the next best, {next_best:g} ({domains} held out, {len(tried) // len(means)} runs of each value)."
        )
        yield reason, seen, len(tried), together(tried["origins"])


def _prototypes(here: pd.DataFrame) -> Iterator[Reason]:
    found = drift(here)
    if len(found):
        gap = (found["by prototypes"] - found["by class means"]).abs().max()
        seen = f"By class means instead of prototypes the accuracy differs by {text.number(gap)} points at most."
        yield "[prototypes that batch norm leaves behind](fidelity.html)", seen, len(found), together(found["origins"])


def _rules(here: pd.DataFrame) -> Iterator[Reason]:
    own = here[here["at_defaults"].astype(bool) & here["algorithm"].isin(METHODS)]
    if {"hypo", "erm"} <= {*own["algorithm"]}:
        seen = sensitivity.order(BENCHMARK, own)
        yield "[the rule of selection](swad.html)", seen, len(own), together(own["origins"])


def _controls(here: pd.DataFrame) -> Iterator[Reason]:
    """HYPO against ERM with one thing changed, and as it was with the same held-out domains and seeds."""
    study = STUDIES["controls"]
    for contrast, reason in CHANGED.items():
        of, than = (study.variants[side][1] for side in study.contrasts[contrast])
        for changed in _against_erm(here, of, than):
            usual = at_places(runs.leads(here, {}, {"algorithm": "erm"}), runs.leads(here, of, than))
            before = runs.estimate(usual["value"], usual["held_out"])
            lead = text.number(before.value, sign=True) + text.interval(before, sign=True)
            unchanged = f"; unchanged, with the same domains and seeds, {lead}" if len(usual) else ""
            records = together([tuple(sorted(changed.origins)), *usual["origins"]])
            yield reason, f"{ordered(changed)}: {measured(changed)}{unchanged}.", len(records), records


def _against_erm(here: pd.DataFrame, of: Setting, than: Setting) -> tuple[claims.Finding, ...]:
    return claims.judge({"rule": AHEAD_OF_ERM | {"of": of, "above": than}}, here).findings
