"""The rules: what the runs of one benchmark at one scale say of a claim."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pandas as pd

from hypo import runs
from hypo.algorithms import ALGORITHMS
from hypo.claims.checks import CHECKS
from hypo.claims.evidence import CONTRADICTED, INCONCLUSIVE, NOT_RUN, SUPPORTED, Evidence, Finding, together
from hypo.claims.statements import many, printed, settings
from hypo.data.benchmarks import REGISTRY
from hypo.runs import Estimate, Setting


def judge(claim: dict[str, Any], frame: pd.DataFrame) -> Evidence:
    """What these runs, of one benchmark at one scale, say of a claim that is not made of others."""
    rule = claim["rule"]
    if rule["kind"] == "compare":
        return _compare(rule, frame)
    if rule["kind"] == "limit":
        return _limit(rule, frame)
    if rule["kind"] == "near":
        return _near(rule, frame, claim["benchmark"], printed(claim))
    if rule["kind"] == "check":
        return CHECKS[rule["name"]].run(frame)
    return Evidence(NOT_RUN, reason=rule["reason"])


def decided(low: float, high: float, above: bool) -> str:
    """The outcome of an interval that is claimed to lie above zero, or below it; NaN bounds decide nothing."""
    if low > 0 or high < 0:
        return SUPPORTED if (low > 0) == above else CONTRADICTED
    return INCONCLUSIVE


def _compare(rule: dict[str, Any], frame: pd.DataFrame) -> Evidence:
    """Every setting of `of` leads every setting of the other side in every measure, in paired runs.

    A method that cannot be run, GVRT, is left out if there are others: else it alone would keep a claim undecided.
    """
    above = "above" in rule
    others = settings(rule["above" if above else "below"])
    possible = [setting for setting in others if setting.get("algorithm", "hypo") in ALGORITHMS] or others
    combinations = [*itertools.product(many(rule["measure"]), settings(rule["of"]), possible)]
    found = [_lead(frame, measure, of, than, above) for measure, of, than in combinations]
    ran = tuple(finding for finding in found if finding is not None)
    outcome = together(NOT_RUN if finding is None else finding.outcome for finding in found)
    return _evidence(outcome, ran, _missing(frame, [*settings(rule["of"]), *others]), len(found))


def _lead(frame: pd.DataFrame, measure: str, of: Setting, than: Setting, above: bool) -> Finding | None:
    """How far `of` is ahead of `than`, over the pairs of runs that both have; None without a pair."""
    pairs = frame if frame.empty else runs.leads(frame, of, than, measure)
    if pairs.empty:
        return None
    lead = runs.estimate(pairs["value"], pairs["held_out"])
    return _finding(decided(lead.low, lead.high, above), measure, of, than, lead, pairs)


def _limit(rule: dict[str, Any], frame: pd.DataFrame) -> Evidence:
    """The mean of a measure stays above a number, or below it."""
    found = runs.values(frame, rule["of"], rule["measure"])
    if found.empty:
        return _evidence(NOT_RUN, (), _missing(frame, [rule["of"]]))
    mean, above = runs.estimate(found["value"], found["held_out"]), "above" in rule
    limit = rule["above" if above else "below"]
    outcome = decided(mean.low - limit, mean.high - limit, above)
    return _evidence(outcome, (_finding(outcome, rule["measure"], rule["of"], None, mean, found),))


def _near(rule: dict[str, Any], frame: pd.DataFrame, benchmark: str, number: float) -> Evidence:
    """The mean over the seeds that have every domain is within so much of the printed number."""
    found = runs.values(frame, rule["of"], rule["measure"]).assign(column=lambda each: each["held_out"])
    domains = REGISTRY[benchmark].domains
    columns = domains if len(domains) > 1 else ("",)
    whole = runs.averages(found, columns, ["benchmark", "scale", "data", "seed"])
    if whole.empty:
        return _evidence(NOT_RUN, (), _missing(frame, [rule["of"]]) or (rule["of"],))
    mean = runs.estimate(whole["value"])
    gap, within = (mean.low - number, mean.high - number), rule["within"]
    outcome = SUPPORTED if -within <= gap[0] and gap[1] <= within else INCONCLUSIVE
    if gap[0] > within or gap[1] < -within:
        outcome = CONTRADICTED
    return _evidence(outcome, (_finding(outcome, rule["measure"], rule["of"], None, mean, whole),))


def _finding(
    outcome: str, measure: str, of: Setting, than: Setting | None, mean: Estimate, values: pd.DataFrame
) -> Finding:
    domains = tuple(domain for domain in dict.fromkeys(values["held_out"]) if domain)
    marks = (int(values[name].sum()) for name in ("failed", "starts_at_first"))
    origins = frozenset().union(*values["origins"])
    return Finding(outcome, measure, of, than, mean, domains, values["seed"].nunique(), *marks, origins)


def _evidence(
    outcome: str, findings: tuple[Finding, ...], missing: tuple[Setting, ...] = (), asked: int = 1
) -> Evidence:
    origins = frozenset().union(*(finding.origins for finding in findings))
    n = max((finding.estimate.n for finding in findings), default=0)
    return Evidence(outcome, findings, asked, missing, origins=origins, n=n)


def _missing(frame: pd.DataFrame, wanted: list[Setting]) -> tuple[Setting, ...]:
    """Settings without a run, each once: a rule of selection needs no run of its own."""
    needed = [{field: value for field, value in setting.items() if field != "rule"} for setting in wanted]
    alone = [setting for place, setting in enumerate(needed) if setting not in needed[:place]]
    return tuple(setting for setting in alone if runs.made_with(frame, setting).empty)


def weakest(findings: tuple[Finding, ...], above: bool = True) -> Finding:
    """The finding that speaks least for the claim: the lead whose interval reaches furthest to the other side.

    A lead without an interval comes behind those with one, and by itself.
    """

    def reach(finding: Finding) -> tuple[bool, float]:
        low, value, high = finding.estimate.low, finding.estimate.value, finding.estimate.high
        alone = math.isnan(low)
        return alone, (value if alone else low) if above else -(value if alone else high)

    return min(findings, key=reach)


def combined(found: dict[str, Evidence]) -> Evidence:
    """Evidence for several claims at once, by id: all must be supported."""
    parts: dict[str, list[str]] = {}
    for name, evidence in found.items():
        parts.setdefault(evidence.outcome, []).append(name)
    origins = frozenset().union(*(evidence.origins for evidence in found.values()))
    n = sum(evidence.outcome != NOT_RUN for evidence in found.values())
    return Evidence(together(parts), parts=parts, origins=origins, n=n)
