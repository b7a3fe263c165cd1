"""Numbers on a page: a table, and the line below any table or figure that gives its CSV and names its records."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence

import pandas as pd


def source(name: str, numbers: pd.DataFrame | None, records: Sequence[str] = ()) -> str:
    """One line of HTML: a link that saves `numbers` as <name>.csv, and the records they were computed from."""
    parts = []
    if numbers is not None:
        keep_index = numbers.index.names != [None]
        encoded = base64.b64encode(numbers.to_csv(index=keep_index).encode()).decode()
        parts.append(f'<a download="{name}.csv" href="data:text/csv;base64,{encoded}">{name}.csv</a>')
    files = sorted(dict.fromkeys(" ".join(records).split()))
    if files:
        count = f"{len(files)} record{'s' * (len(files) > 1)}"
        listed = "<br>".join(map(html.escape, files))
        parts.append(f"<details><summary>{count}</summary>{listed}</details>")
    return f'<div class="hypo-source">{" ".join(parts)}</div>' if parts else ""


class Table:
    """A table as a page shows it, with its numbers one click away.

    frame    what is shown: text as it is, [text](page.html) as a link, floats with `decimals`, NaN as nothing
    name     of the CSV, without its ending
    caption  one sentence: what it holds, in which units, and where it comes from
    records  names of the record files behind it
    numbers  what the CSV holds, when that is more than `frame`
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        name: str,
        caption: str = "",
        records: Sequence[str] = (),
        numbers: pd.DataFrame | None = None,
        decimals: int = 1,
    ) -> None:
        self.frame, self.name, self.caption, self.decimals = frame, name, caption, decimals
        self.records, self.numbers = records, frame if numbers is None else numbers

    def _repr_html_(self) -> str:
        named = self.frame.index.names != [None]
        frame = self.frame.reset_index() if named else self.frame
        text = {column: not pd.api.types.is_numeric_dtype(frame[column]) for column in frame}
        kind = {column: ' class="text"' if text[column] else "" for column in frame}
        head = "".join(f"<th{kind[column]}>{_cell(column)}</th>" for column in frame)
        rows = "".join(
            "<tr>"
            + "".join(f"<td{kind[c]}>{_cell(v, self.decimals)}</td>" for c, v in zip(frame, row, strict=True))
            + "</tr>"
            for row in frame.itertuples(index=False, name=None)
        )
        caption = f"<caption>{_cell(self.caption)}</caption>" if self.caption else ""
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return f'<div class="hypo-table">{table}</div>{source(self.name, self.numbers, self.records)}'


def _cell(value: object, decimals: int = 1) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.{decimals}f}".replace("-", "−")
    if value is None:
        return ""
    return re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", r'<a href="\2">\1</a>', html.escape(str(value)))
