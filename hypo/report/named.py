"""A table by the name that a reader types: a benchmark, or the number of one of the paper's tables."""

from __future__ import annotations

import dataclasses
import os

import pandas as pd

from hypo import paper, runs
from hypo.data.benchmarks import own_name
from hypo.files import expanded
from hypo.report import benchmarks, geometry, studies
from hypo.report.table import Table
from hypo.suggest import one_of


def named(name: str, frame: pd.DataFrame | None = None, every: bool = False) -> Table:
    """The table of a benchmark (a folder: by its path), or the paper's table of this number ("4", "Table 4"), and ours.

    every  whether the table of a benchmark has every setting that was run, and not the `usual` ones alone; it has where
           none of these was run
    """
    frame = runs.load() if frame is None else frame
    labels = {number: label for label, number in paper.NUMBERS.items() if number.startswith("Table")}
    known = [*dict.fromkeys([*paper.TABLES, "digits", *frame["benchmark"]])]
    label = labels.get(f"Table {name.strip().lower().removeprefix('table').strip()}")
    if label is None and os.sep in name:  # the reader's folder
        name = own_name(expanded(name).resolve().name)
    by_label = {label: benchmark for benchmark, label in paper.TABLES.items()}
    if label is None or label in by_label:
        benchmark = by_label[label] if label else one_of("table", name, [*known, *labels])
        usual = benchmarks.usual(benchmark, frame)
        shown = frame if every or benchmark not in {*usual["benchmark"]} else usual
        made = benchmarks.table(benchmark, shown)
        if left := (frame["benchmark"] == benchmark).sum() - (shown["benchmark"] == benchmark).sum():
            more = f"`--all` adds {left} run{'s' if left > 1 else ''} with other settings."
            made = dataclasses.replace(made, caption=f"{made.caption} {more}")
        return made
    if label in studies.STUDIES:
        return studies.table(label, frame)
    at_defaults = frame[frame["at_defaults"].astype(bool)]
    other = {"all": benchmarks.summary, "quan": geometry.epsilon_table, "cifar10c": benchmarks.recent}
    return other[label](at_defaults)
