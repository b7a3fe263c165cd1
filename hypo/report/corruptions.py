"""Accuracy under corruptions: ours by corruption and severity, next to the paper's Table 3 and Figure 2."""

from __future__ import annotations

import pandas as pd

from hypo import paper, runs
from hypo.report import text
from hypo.report.table import PAPER, Table

METHODS = {"erm": "ERM", "hypo": "HYPO"}
"""The two methods that the paper's figures compare, in their order."""


def single(benchmark: str, frame: pd.DataFrame | None = None, by_severity: bool = False) -> pd.DataFrame:
    """Accuracies in percent of ERM and HYPO at their scale's defaults: one row per run and column, as of `accuracies`.

    source  "paper", whose numbers have no seed, or "ours, <scale> scale, <published or generated corruptions>"
    method  by its name in the paper; column: the corruption, or "clean"
    """
    frame = runs.load(at_defaults=True) if frame is None else frame
    of = frame[(frame["benchmark"] == benchmark) & (frame["held_out"] == "") & frame["algorithm"].isin(METHODS)]
    ours = runs.accuracies(of, by_severity=by_severity)
    source = "ours, " + ours["scale"] + " scale, " + ours["corruptions"].astype(object).fillna("not stated")
    parts = [ours.assign(source=source)] if len(ours) else []
    if benchmark in paper.TABLES:
        theirs = paper.of_benchmark(benchmark).query("column != 'average'")
        blank = {"source": "paper", "held_out": "", "severity": 0, "seed": 0, "failed": False}
        parts.append(theirs.assign(**blank, origins=[()] * len(theirs)))
    if not parts:
        return pd.DataFrame(columns=["source", "method", "column", "severity", "seed", "value", "failed", "origins"])
    every = pd.concat(parts[::-1], ignore_index=True)
    return every.assign(method=every["algorithm"].map(METHODS))


def table(frame: pd.DataFrame | None = None, benchmark: str = "cifar10") -> Table:
    """Table 3, one row per corruption: the paper's two methods, ours, and what HYPO gains over ERM in each."""
    seeds = single(benchmark, frame).query("column != 'clean'")
    found = runs.summarise(seeds, ["source", "method", "column"])
    shown = found.pivot(index="column", columns=["source", "method"], values="value")
    order = [(source, name) for source in dict.fromkeys(found["source"]) for name in METHODS.values()]
    shown = shown.loc[[*dict.fromkeys(found["column"])], [pair for pair in order if pair in shown]]
    shown.loc["average"] = shown.mean()
    for source in dict.fromkeys(shown.columns.get_level_values(0)):
        if {*METHODS.values()} <= {*shown[source]}:
            shown[source, "gain"] = shown[source]["HYPO"] - shown[source]["ERM"]
    n = found.groupby("source")["n"].max()
    shown = shown.sort_index(axis=1, level=0, sort_remaining=False, ascending=False)
    shown.columns = [f"{name}, {s}" + (f", n={n[s]}" if s != "paper" else "") for s, name in shown.columns]
    shown.index = pd.Index([text.words(name) for name in shown.index], name="corruption")
    caption = (
        f"{'Table 3: a' if benchmark == 'cifar10' else 'A'}ccuracy in % on {text.data(benchmark)} under each "
        "corruption; the gain is HYPO minus ERM, in points. The paper does not say which severities it took. "
        f"{'Ours: means over five severities and n seeds.' if any(found['origins']) else 'None of it was run here.'}"
    )
    also = (PAPER,) if benchmark == "cifar10" else ()
    return Table(shown, f"corruptions-{benchmark}", caption, found["origins"], found, decimals=2, also=also)
