"""The paper's claims (data/claims.yml), the rule that decides each, and what the records say of it.

Evidence is kept apart by scale and by data. The embedded digits decide nothing about the paper's benchmarks: the same
rules are applied to them, and the result is a statement about digits (`on_digits`).
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from hypo import runs
from hypo.claims.evidence import NOT_RUN, OUTCOMES, Evidence, Finding
from hypo.claims.rules import combined, judge, weakest
from hypo.claims.statements import load, many, printed, settings
from hypo.config import SCALES
from hypo.data.benchmarks import CORRUPTED

DIGITS_LIKE = ("pacs", "cifar10")
"""Benchmarks whose rules can be applied to the digits: they have four styles for four domains, and the corruptions."""


def verdicts(frame: pd.DataFrame | None = None, claims: list[dict[str, Any]] | None = None) -> pd.DataFrame:
    """Evidence for each claim at each scale on the claim's own benchmark, one row each, in the order of the file.

    id, claim, where, page, note, headline  as in data/claims.yml; rule: the rule itself
    scale, data  cpu or paper and the benchmark; both empty for what needs no run
    outcome      one of OUTCOMES
    evidence     a `hypo.claims.Evidence`; n: number of values behind it; origins: the records
    """
    return _judged(frame, claims, [scale for scale in SCALES if scale != "demo"], digits=False)


def on_digits(frame: pd.DataFrame | None = None, claims: list[dict[str, Any]] | None = None) -> pd.DataFrame:
    """The same rules applied to the embedded digits, in the form of `verdicts`: statements about digits only."""
    return _judged(frame, claims, ["demo"], digits=True)


def _judged(frame: Any, claims: Any, scales: list[str], digits: bool) -> pd.DataFrame:
    frame, claims = runs.load() if frame is None else frame, load() if claims is None else claims
    parts = {part for claim in claims for part in claim["rule"].get("claims", ())} - {claim["id"] for claim in claims}
    others = [claim for claim in load() if claim["id"] in parts] if parts else []
    single = [claim for claim in (*claims, *others) if claim["rule"]["kind"] != "all"]
    found = {claim["id"]: _by_scale(claim, frame, scales, digits) for claim in single}
    for claim in claims:
        if claim["rule"]["kind"] == "all":
            names = claim["rule"]["claims"]
            present = [scale for scale in scales if any(scale in found[name] for name in names)]
            empty = Evidence(NOT_RUN)
            found[claim["id"]] = {
                scale: combined({name: found[name].get(scale, empty) for name in names}) for scale in present
            }
    rows = [
        {key: claim.get(key, "") for key in ("id", "claim", "where", "page", "note", "rule")}
        | {"headline": claim.get("headline", False), "scale": scale}
        | {"data": "digits" if digits else claim.get("benchmark", "") if scale else ""}
        | {"outcome": evidence.outcome, "evidence": evidence, "n": evidence.n}
        | {"origins": tuple(sorted(evidence.origins))}
        for claim in claims
        for scale, evidence in found[claim["id"]].items()
    ]
    columns = ["id", "claim", "where", "page", "note", "rule", "headline", "scale", "data", "outcome", "evidence", "n"]
    return pd.DataFrame(rows, columns=[*columns, "origins"])


def _by_scale(claim: dict[str, Any], frame: pd.DataFrame, scales: list[str], digits: bool) -> dict[str, Evidence]:
    """Evidence for one claim by scale; what needs no run has it under the empty scale, and none among the digits."""
    benchmark, kind = claim.get("benchmark"), claim["rule"]["kind"]
    if benchmark is None:
        return {} if digits else {"": judge(claim, frame[:0])}
    if digits and (benchmark not in DIGITS_LIKE or kind == "near"):
        return {}
    data = "digits" if digits else benchmark
    corrupted = benchmark in CORRUPTED.values()
    here = frame[(frame["benchmark"] == data) & ((frame["held_out"] == "") == corrupted)]
    absolute = kind == "near" or (kind == "limit" and "paper" in claim)
    wanted = ["paper"] if absolute and not digits else scales
    return {scale: judge(claim, here[here["scale"] == scale]) for scale in wanted}


def overall(table: pd.DataFrame) -> pd.DataFrame:
    """One row per claim of `verdicts`: at the largest scale with an interval, else with any run, else the first."""
    rows = []
    for _, own in table.groupby("id", sort=False):
        ran = own[own["outcome"] != NOT_RUN]
        judged = ran[[_has_interval(evidence) for evidence in ran["evidence"]]]
        rows.append(next(part for part in (judged, ran, own[own["n"] > 0], own[:1]) if len(part)).iloc[-1])
    return pd.DataFrame(rows).reset_index(drop=True)


def _has_interval(evidence: Evidence) -> bool:
    """False where every number is of a single seed, so that nothing can be told from chance."""
    return not evidence.findings or any(finding.estimate.df for finding in evidence.findings)
