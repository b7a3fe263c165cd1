"""The page of claims: one line per claim that opens to its rule, evidence, records and commands, with a filter."""

from __future__ import annotations

import html
from typing import Any

import pandas as pd

from hypo import claims
from hypo.display import Html, asset, inline, source, verdict
from hypo.paper import SECTIONS
from hypo.report.claims import commands, said, section
from hypo.report.text import PAGES


def listing(frame: pd.DataFrame | None = None) -> Html:
    """Every claim by section of the paper; `frame` as of `hypo.runs.load`. Without scripts the filter is not there."""
    every = claims.verdicts(frame)
    best, texts = claims.overall(every), said(every)
    parts = []
    for name, title in SECTIONS.items():
        own = best[[section(where) == name for where in best["where"]]]
        if len(own):
            lines = "".join(_claim(line, texts[texts["id"] == line.id]) for line in own.itertuples())
            parts.append(f'<section><h3 class="hypo-section">{name}: {title}</h3>{lines}</section>')
    saved = texts.drop(columns=["origins"])
    return Html(
        f'<div class="hypo-claims">{"".join(parts)}<p class="none" hidden>No claim has both.</p></div>'
        f"<script>{asset('claims.js')}</script>{source('claims', saved, texts['origins'], ())}"
    )


def _claim(line: Any, scales: pd.DataFrame) -> str:
    """A claim as a line that opens; `line` of `claims.overall`, `scales`: its rows of `said`."""
    first = scales.iloc[0]
    made = commands(line.rule, line)
    facts = {
        "In the paper": f"{'; '.join(line.where)}{f'; it prints {first.paper}' if first.paper else ''}",
        "Rule": first.rule,
        **{f"Evidence{f', {row.on}' if row.on else ''}": row.evidence for row in scales.itertuples() if row.n},
        "Commands": "\n".join(f"`{command}`" for command in made[:3])
        + (f"\nand {len(made) - 3} more, with other settings" if len(made) > 3 else ""),
        "Note": line.note,
        "Records": "\n".join(origin.file for origin in line.origins),
        "Page": f"[{PAGES[line.page]}]({line.page}.html)",
    }
    if line.evidence.reason:
        facts["Evidence"] = line.evidence.reason
    told = "".join(f"<dt>{html.escape(name)}</dt><dd>{inline(said)}</dd>" for name, said in facts.items() if said)
    return (
        f'<details id="{line.id}" data-outcome="{line.outcome}" data-page="{PAGES[line.page]}"><summary>'
        f"{verdict(line.outcome)} {inline(line.claim)}</summary><dl>{told}</dl></details>"
    )
