"""A table by the name that a reader types: a benchmark, or the number of one of the paper's tables."""

from __future__ import annotations

import os

import pandas as pd

from hypo import paper, runs
from hypo.data.benchmarks import own_name
from hypo.files import expanded
from hypo.report import benchmarks, geometry, studies
from hypo.report.table import Table
from hypo.suggest import one_of


def named(name: str, frame: pd.DataFrame | None = None) -> Table:
    """The table of a benchmark with every run on it, or the paper's table of this number ("4", "Table 4") and ours; of
    a folder by its path."""
    frame = runs.load() if frame is None else frame
    labels = {number: label for label, number in paper.NUMBERS.items() if number.startswith("Table")}
    known = [*dict.fromkeys([*paper.TABLES, "digits", *frame["benchmark"]])]
    label = labels.get(f"Table {name.strip().lower().removeprefix('table').strip()}")
    if label is None and os.sep in name:  # the reader's folder
        name = own_name(expanded(name).resolve().name)
    if label is None:
        return benchmarks.table(one_of("table", name, [*known, *labels]), frame)
    by_label = {label: benchmark for benchmark, label in paper.TABLES.items()}
    if label in by_label:
        return benchmarks.table(by_label[label], frame)
    if label in studies.STUDIES:
        return studies.table(label, frame)
    at_defaults = frame[frame["at_defaults"].astype(bool)]
    other = {"all": benchmarks.summary, "quan": geometry.epsilon_table, "cifar10c": benchmarks.recent}
    return other[label](at_defaults)
