"""A table as a page, the README or a terminal shows it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from hypo.data.benchmarks import REGISTRY
from hypo.report.text import number
from hypo.runs import Origins

WIDTH, LABEL = 110, 40
"""Characters per line of `render`, of which the name of a row takes LABEL at most."""
PAPER, DIGITS, REAL, OWN = "the paper's numbers", "digits", "real data", "your own data"
MATHS, COUNTS, TIMES = "mathematics", "published counts", "timings"
"""What numbers can be of: the badges of tables and figures. The last three are of no data at all."""


@dataclass(frozen=True)
class Table:
    """Text and numbers to show, with all that stands behind them.

    frame    what is shown: text as it is, floats with `decimals`, NaN as nothing; a named index is a column
    name     of the CSV, without its ending
    caption  what it holds, in which units, and where it comes from
    records  the records behind it: a column `origins`, or the like
    numbers  what the CSV holds; `frame` where None
    labels   how many of the first columns name a row
    also     what the numbers are of beside what the records tell: PAPER; DIGITS where they were computed just now; or
             MATHS, COUNTS, TIMES
    """

    frame: pd.DataFrame
    name: str
    caption: str = ""
    records: Iterable[Origins] = ()
    numbers: pd.DataFrame | None = None
    decimals: int = 1
    labels: int = 1
    also: tuple[str, ...] = ()

    @property
    def about(self) -> tuple[str, ...]:
        """What the numbers are of."""
        return about(self.records, self.also)


def about(records: Iterable[Origins], also: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What numbers from these records are of."""
    kinds = {name: DIGITS if name == "digits" else REAL for name in REGISTRY}
    found = {kinds.get(origin.benchmark, OWN) for origins in records for origin in origins}
    return (*also, *(kind for kind in (REAL, DIGITS, OWN) if kind in found - {*also}))


def render(table: Table) -> str:
    """The table as plain text of at most WIDTH columns; one that is wider is broken into blocks of columns."""
    frame = table.frame.reset_index() if table.frame.index.names != [None] else table.frame
    text = frame.map(lambda value: _plain(value, table.decimals)).astype(str)
    names, others = list(text)[: table.labels], list(text)[table.labels :]
    rows = [textwrap.wrap("  ".join(filter(None, row)), LABEL) or [""] for row in text[names].to_numpy()]
    margin = max((len(line) for row in rows for line in row), default=0)
    widths = {name: max(len(name), *text[name].map(len), 7) for name in others} if len(text) else {}
    lines = textwrap.wrap(table.caption, WIDTH)
    for block in _blocks(widths, WIDTH - margin):
        lines += ["", " " * margin + "".join(f"  {name:>{widths[name]}}" for name in block)]
        for (first, *rest), (_, row) in zip(rows, text.iterrows(), strict=True):
            lines += [f"{first:<{margin}}" + "".join(f"  {row[name]:>{widths[name]}}" for name in block), *rest]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _plain(value: object, decimals: int) -> str:
    return number(value, decimals) if isinstance(value, float) else str(value).replace("\n", ", ")


def _blocks(widths: dict[str, int], room: int) -> list[list[str]]:
    """Columns in groups that each fit into so many characters."""
    blocks: list[list[str]] = []
    left = 0
    for name, width in widths.items():
        if not blocks or width + 2 > left:
            blocks.append([])
            left = room
        blocks[-1].append(name)
        left -= width + 2
    return blocks
