"""Accuracy under corruptions: ours by corruption and severity, next to the paper's Table 3 and Figure 2."""

from __future__ import annotations

from itertools import product

import pandas as pd

from hypo import paper, runs
from hypo.report import text
from hypo.report.table import PAPER, Table
from hypo.runs import CONFIDENCE, KEYS

METHODS = {"erm": "ERM", "hypo": "HYPO"}
"""The two methods that the paper's figures compare, in their order."""
MADE = {"generated": "generated here", "published": "as published"}
"""Source of corruptions -> words for it."""
ROWS = {"clean": "none (clean, in distribution)", "average": "average over corruptions"}
"""Rows of `table` that are no corruption -> their names."""


def single(benchmark: str, frame: pd.DataFrame | None = None, by_severity: bool = False) -> pd.DataFrame:
    """Accuracies in percent of ERM and HYPO at their scale's defaults: one row per run and column, as of `accuracies`.

    source  "paper", whose numbers have no seed, or "ours, <scale> scale, <published or generated corruptions>"
    method  by its name in the paper; column: the corruption, or "clean"
    """
    ours = runs.accuracies(_runs(benchmark, frame), by_severity=by_severity)
    source = "ours, " + ours["scale"] + " scale, " + ours["corruptions"].astype(object).fillna("not stated")
    parts = [ours.assign(source=source)] if len(ours) else []
    if benchmark in paper.TABLES:
        theirs = paper.of_benchmark(benchmark).query("column != 'average'")
        blank = dict.fromkeys(KEYS, "") | {"source": "paper", "severity": 0, "seed": 0, "failed": False}
        parts.append(theirs.assign(**blank, origins=[()] * len(theirs)))
    if not parts:
        return pd.DataFrame(columns=["source", "method", "column", "severity", "seed", "value", "failed", "origins"])
    every = pd.concat(parts[::-1], ignore_index=True)
    return every.assign(method=every["algorithm"].map(METHODS))


def _runs(benchmark: str, frame: pd.DataFrame | None) -> pd.DataFrame:
    frame = runs.load(at_defaults=True) if frame is None else frame
    return frame[(frame["benchmark"] == benchmark) & (frame["held_out"] == "") & frame["algorithm"].isin(METHODS)]


def table(frame: pd.DataFrame | None = None) -> Table:
    """Table 3, one row per corruption, below one of clean images: the paper's two methods, ours, and what HYPO gains
    over ERM in each, ours over paired seeds."""
    seeds = single("cifar10", frame).assign(starts_at_first=False).astype({"failed": bool})
    tests = [*dict.fromkeys(seeds.loc[seeds["source"] == "paper", "column"])]
    whole = runs.averages(seeds, tests, ["source", "method", *(key for key in KEYS if key != "held_out")])
    seeds = pd.concat([seeds, whole], ignore_index=True)
    sides = (seeds[seeds["method"] == METHODS[name]] for name in ("hypo", "erm"))
    gained = runs.paired(*sides, on=[*KEYS, "source", "column"]).assign(method="gain")
    found = runs.summarise(pd.concat([seeds, gained]), ["source", "method", "column"])
    found.loc[found["source"] == "paper", "n"] = 0
    cells: dict[str, dict[str, str]] = {}
    for source, method in product(dict.fromkeys(found["source"]), (*METHODS.values(), "gain")):
        own = found[(found["source"] == source) & (found["method"] == method)]
        as_text = text.difference if method == "gain" else text.cell
        if len(own):
            n = f", n={own['n'].max()}" if source != "paper" else ""
            cells[f"{method}, {source}{n}"] = {line.column: as_text(line, 2) for line in own.itertuples()}
    rows = [name for name in ("clean", *tests, "average") if name in {*found["column"]}]
    shown = pd.DataFrame(cells).reindex(rows).fillna("")
    shown.index = pd.Index([ROWS.get(name, text.words(name)) for name in rows], name="corruption")
    caption = (
        "Table 3: accuracy in % on CIFAR-10 under each corruption; the gain is HYPO minus ERM, in points. The paper "
        f"does not say which severities it took. {_ours(_runs('cifar10', frame))}{_by_chance(found, tests)}"
    )
    return Table(shown, "corruptions-cifar10", caption, found["origins"], found, also=(PAPER,))


def _ours(here: pd.DataFrame) -> str:
    """How our numbers are to be read: what they are means of, and how many images were corrupted, by whom."""
    if here.empty:
        return "None of it was run here."
    tested = []
    for _, run in here.drop_duplicates(["scale", "validation.corruptions", "corrupted_images"]).iterrows():
        every = run["sizes"]["id_test"]
        some = every if pd.isna(run["corrupted_images"]) else min(every, int(run["corrupted_images"]))
        made = MADE.get(run["validation.corruptions"], "of a source that is not stated")
        tested.append(f"at {run['scale']} scale {some:,} of the {every:,} test images are corrupted, {made}")
    return (
        "Ours: means over five severities ± standard deviation over n seeds, differences over n pairs with 95% "
        f"intervals; {'; '.join(tested)}. Clean accuracy is of all test images."
    )


def _by_chance(found: pd.DataFrame, tests: list[str]) -> str:
    """How many of our intervals exclude zero by chance, or nothing where there are none."""
    rows = found[(found["method"] == "gain") & found["column"].isin(tests) & found["low"].notna()]
    if rows.empty:
        return ""
    count = rows.groupby("source").size().max()
    return (
        f" Of {count} intervals at {CONFIDENCE:.0%} about {count * (1 - CONFIDENCE):.0f} would exclude zero by chance "
        "alone, if HYPO gained nothing under any corruption."
    )
