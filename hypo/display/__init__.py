"""Tables, sentences and the lines below them as HTML, for notebooks and the book."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pandas as pd

from hypo.claims import OUTCOMES
from hypo.report.table import Table, about
from hypo.report.text import NOT_RUN, number
from hypo.runs import Origins, together

LONG = 40
"""Characters beyond which a cell is a phrase or a sentence."""
FORMULA = re.compile(r"[=@\t\r]|[+-](?![-+±\d.,%\[\] ]*$)")
"""The start of text that a spreadsheet computes; a number with its sign and interval is none."""
PLAIN = "tex2jax_ignore mathjax_ignore"
"""Classes of what holds no formula: a name with dollar signs is text for MathJax too."""


@dataclass(frozen=True)
class Html:
    """What a notebook shows."""

    text: str

    def _repr_html_(self) -> str:
        return self.text


def show(what: Table | pd.DataFrame | str, name: str = "", caption: str = "", **more: Any) -> Html:
    """A table, a frame (with `name`, `caption` and other fields of Table), or a sentence with `code` in it."""
    if isinstance(what, str):
        return Html(f'<p class="{PLAIN}">{inline(what)}</p>')
    return Html(table(what if isinstance(what, Table) else Table(what, name, caption, **more)))


def table(given: Table) -> str:
    """A table with badges (not run, where nothing was) and caption; below it its CSV and the names of its records."""
    frame = given.frame.reset_index() if given.frame.index.names != [None] else given.frame
    kinds = {name: _kind(frame[name]) for name in frame}
    head = "".join(f"<th{kinds[name]}>{inline(str(name))}</th>" for name in frame)
    rows = "".join(
        "<tr>"
        + "".join(f"<td{kinds[n]}>{_cell(n, v, given.decimals)}</td>" for n, v in zip(frame, row, strict=True))
        + "</tr>"
        for row in frame.itertuples(index=False, name=None)
    )
    text = f"{badges(given.about or (NOT_RUN,))} {inline(given.caption)}".rstrip()
    shown = f"<table><caption>{text}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    below = source(given.name, given.frame if given.numbers is None else given.numbers, given.records)
    return f'<div class="hypo-table {PLAIN}">{shown}</div>{below}'


def _kind(column: pd.Series) -> str:
    """Text stands at the left; long text needs some width, or a narrow page makes its row a tall one."""
    if pd.api.types.is_numeric_dtype(column):
        return ""
    seen = (re.sub(r"\]\([^)]*\)", "", str(value)) for value in column)  # a link without its address
    long = any(len(line) > LONG for value in seen for line in value.split("\n"))
    return f' class="text{" long" if long else ""}"'


def badges(about: Iterable[str]) -> str:
    """What numbers are of, one badge each: real data, digits, the paper's numbers."""
    return " ".join(f'<span class="hypo-badge">{html.escape(name)}</span>' for name in about)


def source(
    name: str,
    numbers: pd.DataFrame | None,
    records: Iterable[Origins] = (),
    also: tuple[str, ...] | None = None,
) -> str:
    """One line: what it is of (a figure's badges), a link that saves `numbers` as <name>.csv, and the records."""
    origins = together(records)
    parts = [badges(about([origins], also))] if also is not None else []
    if numbers is not None:
        keep_index = numbers.index.names != [None]
        encoded = base64.b64encode(_saved(numbers).to_csv(index=keep_index).encode()).decode()
        file = html.escape(f"{name}.csv", quote=True)  # the name of a reader's folder may be in it
        parts.append(f'<a download="{file}" href="data:text/csv;base64,{encoded}">{file}</a>')
    if origins:
        count = f"{len(origins)} record{'s' if len(origins) > 1 else ''}"
        listed = "<br>".join(html.escape(origin.file) for origin in sorted(origins))
        parts.append(f"<details><summary>{count}</summary>{listed}</details>")
    return f'<div class="hypo-source {PLAIN}">{" ".join(parts)}</div>' if any(parts) else ""


def _saved(numbers: pd.DataFrame) -> pd.DataFrame:
    """A frame as its CSV holds it: records by the names of their files, and no text that a spreadsheet computes."""
    if "origins" in numbers:
        names = numbers["origins"].map(lambda own: " ".join(origin.file for origin in own), na_action="ignore")
        numbers = numbers.assign(origins=names).rename(columns={"origins": "files"})
    text = numbers.select_dtypes(exclude="number")
    saved = numbers.rename(index=_no_formula, columns=_no_formula)
    for name in text:
        if any(_no_formula(value) is not value for value in text[name]):
            saved[_no_formula(name)] = text[name].map(_no_formula).to_numpy()
    return saved


def _no_formula(value: Any) -> Any:
    """A name of a reader's folder that a spreadsheet would take for a formula, after the sign that makes it text."""
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value


def banner(*lines: str) -> str:
    """The box at the top of a page; `code` and **bold** in its lines."""
    return f'<div class="hypo-banner {PLAIN}">{"<br>".join(map(inline, lines))}</div>'


_literal: set[str] = set()


def literally(names: Iterable[str]) -> None:
    """From here on `inline` shows these names, which come from a reader's folders, as they are spelt."""
    _literal.update(name for name in names if len(name) > 1 and re.search(r"[*`\[]", name))


def inline(text: str) -> str:
    """Escaped text in which [words](page.html) is a link, `code` is code, **bold** is bold and a new line a break.

    A link leads to a page of the book and nowhere else. Names given to `literally` are text, whatever is in them.
    """
    names = sorted(_literal, key=len, reverse=True)
    for place, name in enumerate(names):
        text = text.replace(name, f"\0{place}\0")
    text = re.sub(r"\[([^\]]+)\]\((\w+\.html(?:#[\w-]+)?|#[\w-]+)\)", r'<a href="\2">\1</a>', html.escape(text))
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text).replace("\n", "<br>")
    return re.sub(r"\0(\d+)\0", lambda found: html.escape(names[int(found[1])]), text)


def _cell(column: object, value: object, decimals: int) -> str:
    if isinstance(value, float):
        return number(value, decimals)
    if column == "outcome" and value in OUTCOMES:
        return verdict(str(value))
    if value == NOT_RUN:
        return f'<span class="hypo-none">{NOT_RUN}</span>'
    return "" if value is None else _kept_together(inline(str(value)))


def _kept_together(text: str) -> str:
    """A mean with its deviation, an interval, and a count alone in its cell (3 of 5), each on one line if it fits."""
    if re.fullmatch(r"\d+ of \d+", text):
        return text.replace(" ", "\N{NO-BREAK SPACE}")
    text = text.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
    text = re.sub(r"(?<=\w)=(?=\w)", "=<wbr>", text)  # a setting, momentum=0.5, is broken there and not in a word
    return re.sub(r"\[[−+\d., ]+\]", lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def verdict(outcome: str) -> str:
    """An outcome as a word with a shape and a colour of its own."""
    return f'<span class="hypo-verdict" data-outcome="{outcome}">{OUTCOMES[outcome]} {outcome}</span>'


def asset(name: str) -> str:
    """A script or style sheet of this package or of the figures', as text."""
    home = files("hypo") / ("display" if name.startswith("claims") else "figures")
    return (home / name).read_text(encoding="utf-8")
