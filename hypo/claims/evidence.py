"""What a rule finds: the outcome, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from hypo.runs import Estimate, Origin, Setting

SUPPORTED, CONTRADICTED, INCONCLUSIVE, NOT_RUN = "supported", "contradicted", "inconclusive", "not run"
"""Of claims that runs decide: the 95% interval excludes zero on the claimed side; on the other side; it does not; or
there are no runs."""
HOLDS, EMPTY, FAILS = "holds", "holds but says nothing here", "fails"
"""Of mathematics: EMPTY where the bound exceeds what any embedding can reach."""
OUTCOMES = dict(zip((SUPPORTED, CONTRADICTED, INCONCLUSIVE, NOT_RUN, HOLDS, EMPTY, FAILS), "▲▼◆○■□✕", strict=True))
"""Outcome -> the shape that stands before its word."""


class Finding(NamedTuple):
    """One measured quantity: the measure of a setting, or its lead over another setting in paired runs.

    outcome   of this quantity alone
    estimate  stratified by held-out domain; accuracies and leads in percent or points
    domains, seeds  what the runs are of; failed, starts_at_first: how many of its values come from such runs
    """

    outcome: str
    measure: str
    of: Setting
    than: Setting | None
    estimate: Estimate
    domains: tuple[str, ...]
    seeds: int
    failed: int
    starts_at_first: int
    origins: frozenset[Origin]

    @property
    def comparison(self) -> tuple[Any, ...]:
        """What was measured, in which runs and under which rules of selection: however two claims name the settings,
        they rest on one comparison where this is the same."""
        sides = (side for side in (self.of, self.than) if side is not None)
        return self.measure, self.origins, *(side.get("rule", "validation") for side in sides)


class Evidence(NamedTuple):
    """What the runs of one benchmark at one scale say of a claim, or what a computation does.

    findings  what was measured
    asked     how many comparisons the rule asks for
    missing   settings without runs
    parts     of a claim made of others: outcome -> their ids
    counts    of a computation: in how many places it holds, of how many, and what a place is
    tightest  of a lemma: the row of `hypo.geometry.lemmas` that comes nearest to failing
    reason    why nothing can decide it
    """

    outcome: str
    findings: tuple[Finding, ...] = ()
    asked: int = 1
    missing: tuple[Setting, ...] = ()
    parts: dict[str, list[str]] | None = None
    counts: tuple[int, int, str] | None = None
    tightest: dict[str, Any] | None = None
    reason: str = ""
    origins: frozenset[Origin] = frozenset()
    n: int = 0


def together(outcomes: Iterable[str]) -> str:
    """The outcome of several that must all be supported: contradicted if one is, then not run, then inconclusive."""
    found = set(outcomes)
    return next((outcome for outcome in (CONTRADICTED, NOT_RUN, INCONCLUSIVE) if outcome in found), SUPPORTED)
