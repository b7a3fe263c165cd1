"""Accuracy under corruptions: ours by corruption and severity, next to the paper's Table 3 and Figure 2."""

from __future__ import annotations

import pandas as pd

from hypo import paper, runs
from hypo.report import text
from hypo.report.benchmarks import numbers, reading
from hypo.report.table import Table, about

METHODS = {"erm": "ERM", "hypo": "HYPO"}
"""The two methods that the paper's figures compare, in their order."""
BY = ["source", "algorithm"]


def single(benchmark: str, frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """Accuracies in percent under corruptions of our runs at their scale's defaults: one row per run, column, severity.

    source  "ours, <scale> scale" and whether the corrupted images are "published" or "generated"; other columns are
            those of `hypo.runs.accuracies`, `held_out` left out
    """
    frame = runs.load(at_defaults=True) if frame is None else frame
    found = runs.accuracies(frame[(frame["benchmark"] == benchmark) & (frame["held_out"] == "")])
    source = "ours, " + found["scale"] + " scale, " + found["corruptions"].astype(object).fillna("not stated")
    return found.drop(columns="held_out").assign(source=source)


def by_corruption(benchmark: str, frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """The paper's numbers and ours by corruption, means over severities and seeds: BY, column, fields of Estimate."""
    ours = over_seeds(single(benchmark, frame).query("severity > 0"), "column")
    if benchmark not in paper.TABLES:
        return ours
    theirs = paper.of_benchmark(benchmark).query("column != 'average'").rename(columns={"spread": "sd"})
    theirs = theirs.assign(source="paper", n=0, files="")[
        ["source", "algorithm", "column", "value", "sd", "n", "files"]
    ]
    return pd.concat([theirs, ours] if len(ours) else [theirs], ignore_index=True)


def clean_and_noisy(benchmark: str, frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """Ours on the clean test images and under Gaussian noise (Figure 6, which prints no number)."""
    return over_seeds(single(benchmark, frame).query("column in ('clean', 'gaussian_noise')"), "column")


def by_severity(benchmark: str, frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """Ours by severity, the mean over all corruptions."""
    return over_seeds(single(benchmark, frame).query("severity > 0"), "severity")


def over_seeds(each: pd.DataFrame, by: str) -> pd.DataFrame:
    """`single` by source, algorithm and `by`: the mean of each seed, then `summarise` over seeds."""
    parts = {"value": ("value", "mean"), "failed": ("failed", "any"), "files": ("files", "first")}
    seeds = each.groupby([*BY, by, "seed"], sort=False).agg(**parts).reset_index()
    return runs.summarise(seeds, [*BY, by])


def table(frame: pd.DataFrame | None = None) -> Table:
    """Table 3, one row per corruption: the paper's two methods, ours, and what HYPO gains over ERM in each."""
    frame = runs.load(at_defaults=True) if frame is None else frame
    found = numbers("cifar10", frame)
    columns = [*dict.fromkeys(found["column"])]
    shown = pd.DataFrame(index=pd.Index([text.words(column) for column in columns], name="corruption"))
    for (who, scale), block in found.groupby(["who", "scale"], sort=False):
        source = f"{scale} scale, n={block['n'].max():.0f}" if who == "ours" else "paper"
        values, gaps = (
            block.pivot(index="column", columns="algorithm", values=measure).reindex(columns)
            for measure in ("value", "difference")
        )
        for name in [name for name in METHODS if name in values]:
            shown[f"{METHODS[name]} ({source})"] = values[name].to_numpy()
        if {*METHODS} <= {*values}:
            shown[f"gain ({source})"] = (values["hypo"] - values["erm"]).to_numpy()
        for name in [name for name in METHODS if who == "ours" and name in gaps]:
            shown[f"{METHODS[name]}, ours − paper's ({source})"] = gaps[name].to_numpy()
    caption = (
        "Table 3: accuracy in % on CIFAR-10 under each corruption, ours as the mean over its five severities (the "
        f"paper does not say which it took); gain: HYPO minus ERM, in points. {reading(found)}"
    )
    csv = found.drop(columns=["settings", "data"])
    of = about(["cifar10"] if (found["who"] == "ours").any() else [], paper=True)
    return Table(shown, "table-3", caption, found["files"], csv, decimals=2, about=of)
