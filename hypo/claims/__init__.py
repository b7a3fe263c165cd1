"""The paper's claims (data/claims.yml) and what the records say of each: reproduced, not reproduced or not run.

Evidence is kept apart by scale and by data. At demo scale the digits stand in for PACS and CIFAR-10: a verdict from
them is by analogy, and named so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hypo import records
from hypo.claims.rules import VERDICTS, combined, judge
from hypo.claims.runs import Evidence, groups, run_of
from hypo.claims.statements import describe, load, shown

DIGITS = " (digits)"  # marks a verdict by analogy

__all__ = ["load", "overall", "summary", "verdicts"]


def verdicts(folder: str | os.PathLike[str] | None = None, claims: list[dict[str, Any]] | None = None) -> pd.DataFrame:
    """Evidence and verdict of each claim at each scale, one a line, in the order of the file.

    id, claim, where, page, note, headline   as in data/claims.yml
    rule      the rule as a sentence
    paper     the number that the paper prints, as text
    scale     demo, cpu or paper; empty for what needs no run
    data      what the evidence comes from: "digits" stands in for the claim's own benchmark
    evidence  what was found, or the command that would find it
    n         number of runs, pairs of runs or seeds behind it
    verdict   reproduced, not reproduced or not run
    files     the records it was made from
    """
    claims = load() if claims is None else claims
    runs = [run_of(Path(folder or records.folder()) / name, record) for name, record in records.read_all(folder)]
    found: dict[str, dict[tuple[str, str], Evidence]] = {}  # by claim, then by (scale, data)
    parts = {part for claim in claims if claim["rule"]["kind"] == "all" for part in claim["rule"]["claims"]}
    others = [claim for claim in load() if claim["id"] in parts - {claim["id"] for claim in claims}] if parts else []
    for claim in [*claims, *others]:
        if claim["rule"]["kind"] != "all":
            found[claim["id"]] = {(group.scale, group.benchmark): judge(claim, group) for group in groups(claim, runs)}
    for claim in claims:
        if claim["rule"]["kind"] == "all":
            found[claim["id"]] = combined([found[part] for part in claim["rule"]["claims"]], claim["rule"]["claims"])
    rows = [
        {key: claim.get(key, "") for key in ("id", "claim", "where", "page", "note")}
        | {"headline": claim.get("headline", False), "rule": describe(claim["rule"]), "paper": shown(claim)}
        | {"scale": scale, "data": data, "evidence": evidence.text, "n": evidence.n, "verdict": evidence.verdict}
        | {"files": " ".join(sorted(evidence.files))}
        for claim in claims
        for (scale, data), evidence in found[claim["id"]].items()
    ]
    return pd.DataFrame(rows)


def overall(table: pd.DataFrame) -> pd.DataFrame:
    """One line a claim of `verdicts`: the verdict at the largest scale that has one, on the claim's own data if any.

    A verdict that rests on the digits only reads "reproduced (digits)" or "not reproduced (digits)".
    """
    lines = []
    for _, rows in table.groupby("id", sort=False):
        judged = rows[rows["verdict"] != "not run"]
        own = judged[judged["data"] != "digits"]
        some = rows[rows["n"] > 0]
        line = next(part for part in (own, judged, some, rows) if len(part)).iloc[-1].copy()
        by_analogy = line["verdict"] != "not run" and line["data"] == "digits"
        line["verdict"] += DIGITS * by_analogy
        lines.append(line)
    return pd.DataFrame(lines).reset_index(drop=True)


def summary(folder: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """The headline claims in short: claim, verdict, evidence, page; `attrs["counts"]` counts the verdicts on all."""
    table = overall(verdicts(folder))
    short = table[table["headline"]].copy()
    source = short["data"] + ", " + short["scale"] + " scale: "
    short["evidence"] = np.where(short["n"] > 0, source.where(short["scale"] != "", "") + short["evidence"], "")
    short = short[["claim", "verdict", "evidence", "page"]].reset_index(drop=True)
    counts = table["verdict"].value_counts().to_dict()
    named = [verdict + data for verdict in VERDICTS for data in ("", DIGITS)]
    short.attrs["counts"] = {verdict: counts[verdict] for verdict in named if verdict in counts}
    return short
