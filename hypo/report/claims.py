"""The claims and what the records say of them, as text: for the pages, the README and the terminal."""

from __future__ import annotations

from typing import Any

import pandas as pd

from hypo import claims, paper
from hypo.algorithms import ALGORITHMS
from hypo.claims import OUTCOMES, Evidence, Finding
from hypo.claims.checks import CHECKS
from hypo.report import text
from hypo.report.table import Table
from hypo.runs import CONFIDENCE, MEASURES

READING = (
    "supported: the 95% interval excludes zero on the claimed side; contradicted: on the other side; inconclusive: it "
    "includes zero, or there is one seed only"
)


def verdicts(frame: pd.DataFrame | None = None, only: str | None = None, digits: bool = False) -> pd.DataFrame:
    """`hypo.claims.verdicts`, or `on_digits`, with evidence and rule as text; `only` the claims of one page."""
    wanted = [claim for claim in claims.load() if only in (None, claim["page"])]
    found = (claims.on_digits if digits else claims.verdicts)(frame, wanted)
    return found if digits else claims.overall(found)


def said(found: pd.DataFrame) -> pd.DataFrame:
    """Rows of `verdicts` with `evidence`, `rule`, `paper` and `on` (data and scale) as text."""
    by_id = {claim["id"]: claim for claim in claims.load()}
    return found.assign(
        evidence=[evidence(line) for line in found.itertuples()],
        rule=[rule(given) for given in found["rule"]],
        paper=[printed(by_id[name]) if name in by_id else "" for name in found["id"]],
        on=[where(line) for line in found.itertuples()],
    )


def of_page(page: str, frame: pd.DataFrame | None = None) -> Table:
    """The claims that belong to a page, and what the records of the paper's own benchmarks say of them."""
    found = said(verdicts(frame, page))
    caption = (
        f"The paper's claims that belong to this page, on its own benchmarks ({READING}). [All claims](claims.html)."
    )
    shown = found[["claim", "outcome", "on", "evidence"]]
    return Table(shown, f"claims-{page}", caption, found["files"], found, about=("real data",))


def on_digits(page: str | None = None, frame: pd.DataFrame | None = None) -> Table:
    """The rules of the claims of a page, or of all, applied to the digits."""
    found = said(verdicts(frame, page, digits=True))
    caption = (
        "The same rules applied to the embedded digits. These are statements about digits and decide nothing about the "
        "paper's benchmarks."
    )
    names = {"claim": "the paper's claim", "outcome": "on digits", "evidence": "evidence"}
    name = f"claims-{page}-digits" if page else "claims-digits"
    return Table(found[[*names]].rename(columns=names), name, caption, found["files"], found, about=("digits",))


def headlines(frame: pd.DataFrame | None = None) -> tuple[pd.DataFrame, dict[str, int]]:
    """The headline claims in short (claim, outcome, evidence, page), and how many of all claims have each outcome."""
    found = verdicts(frame)
    counts = found["outcome"].value_counts().to_dict()
    short = said(found[found["headline"]])
    lines = [
        f"{line.on}: {line.evidence}" if line.n and line.on else line.evidence if line.n else ""
        for line in short.itertuples()
    ]
    short = short.assign(evidence=lines)[["claim", "outcome", "evidence", "page"]].reset_index(drop=True)
    return short, {outcome: counts[outcome] for outcome in OUTCOMES if outcome in counts}


def where(line: Any) -> str:
    """The data and scale behind a row of `verdicts`."""
    if not line.scale:
        return ""
    return f"{text.data(line.data) if line.data else 'their benchmarks'}, {line.scale} scale"


def printed(claim: dict[str, Any]) -> str:
    """The paper's number that a claim is about, with its unit."""
    value = claims.printed(claim)
    if value is None:
        return ""
    if claim["paper"]["table"] == "quan":
        return f"{value:g}"
    difference = "less" in claim["paper"]
    return text.number(value, 1 if round(value, 1) == value else 2, sign=difference) + (
        " points" if difference else "%"
    )


def rule(given: dict[str, Any]) -> str:
    """A rule as a sentence."""
    kind, side = given["kind"], "above" if "above" in given else "below"
    measures = [MEASURES[name].words for name in claims.many(given.get("measure", []))]
    measure = ", ".join([*measures[:1], *(words.removeprefix("accuracy under ") for words in measures[1:])])
    of = text.label(given.get("of", {}))
    if kind == "compare":
        than = text.label(given[side])
        return f"{measure} of {of} {side} that of {than}, in paired runs, with {CONFIDENCE:.0%} confidence"
    if kind == "limit":
        return f"{measure} of {of} {side} {given[side]} with {CONFIDENCE:.0%} confidence"
    if kind == "near":
        return f"{measure} of {of} at paper scale within {given['within']} of the printed number, interval and all"
    if kind == "check":
        return CHECKS[given["name"]].rule
    return f"all of {', '.join(given['claims'])}" if kind == "all" else f"none: {given['reason']}"


def evidence(line: Any) -> str:
    """What was found for a row of `verdicts`, or the command that would find it."""
    found: Evidence = line.evidence
    if found.parts is not None:
        return "; ".join(f"{outcome}: {', '.join(names)}" for outcome, names in found.parts.items())
    if found.counts is not None:
        return _counted(found)
    if found.reason:
        return found.reason
    if not found.findings:
        return missing(found, line)
    several = line.rule["kind"] == "compare" and _combinations(line.rule) > 1
    if not several:
        return measured(found.findings[0])
    weakest = claims.weakest(found.findings, above="above" in line.rule)
    outcomes = [finding.outcome for finding in found.findings]
    counts = [f"{outcomes.count(each)} {each}" for each in OUTCOMES if each in outcomes]
    absent = _combinations(line.rule) - len(outcomes)
    counts += [f"{absent} not run"] if absent else []
    of = f"{MEASURES[weakest.measure].words} of {text.label(weakest.of)} minus {text.label(weakest.than)}"
    return f"of {_combinations(line.rule)} comparisons {', '.join(counts)}; weakest: {of} {measured(weakest)}"


def measured(finding: Finding) -> str:
    """An estimate with its unit, its interval and its runs: +1.2 points [−0.3, +2.7] (12 pairs: cartoon; 3 seeds)."""
    percent, lead = MEASURES[finding.measure].percent, finding.than is not None
    decimals, unit = (1, " points" if lead else "%") if percent else (3, "")
    value = text.number(finding.estimate.value, decimals, sign=lead) + unit
    domains = ", ".join(text.words(domain) for domain in finding.domains)
    seeds = f"{finding.seeds} seed{'s' if finding.seeds > 1 else ''}"
    runs_of = "; ".join(filter(None, [domains, seeds]))
    n = f"{finding.estimate.n} {'pair' if lead else 'run'}{'s' if finding.estimate.n > 1 else ''}"
    marks = f"; {finding.failed} of {finding.estimate.n} with a run that failed to train" if finding.failed else ""
    if finding.starts_at_first:
        marks += f"; SWAD averages from the first evaluation on in {finding.starts_at_first}"
    return f"{value}{text.interval(finding.estimate, decimals, sign=lead)} ({n}: {runs_of}{marks})"


def _counted(found: Evidence) -> str:
    held, tried, places = found.counts
    said = f"holds in {held} of {tried} {places}".rstrip(",")
    if found.tightest is None:
        return said
    row = found.tightest
    return (
        f"{said}; nearest to failing: {row['quantity']} is {row['left']:.2g}, its bound {row['right']:.2g}, and no "
        f"embedding exceeds {row['at_most']:g}"
    )


def missing(found: Evidence, line: Any) -> str:
    """How to make the first setting that has no run, how many others there are, and what is not implemented."""
    known = [setting for setting in found.missing if setting.get("algorithm", "hypo") in ALGORITHMS]
    unknown = [paper.method_name(setting["algorithm"]) for setting in found.missing if setting not in known]
    parts = []
    if known:
        changed = {field: value for field, value in known[0].items() if field not in ("algorithm", "rule")}
        held_out = "none" if line.data in ("cifar10", "imagenet100") else "each"
        main = {"benchmark": line.data, "algorithm": known[0].get("algorithm", "hypo"), "held_out": held_out}
        command = text.command(main | {"scale": line.scale, "seed": "0,1,2"}, changed).replace("train", "sweep", 1)
        others = f", and {len(known) - 1} other setting{'s' if len(known) > 2 else ''}" if len(known) > 1 else ""
        parts.append(f"`{command}`{others}")
    if unknown:
        parts.append(f"not implemented here: {', '.join(unknown)}")
    return "; ".join(parts) or "no two of these runs share domain, seed, data and split, or the measure is not stored"


def _combinations(given: dict[str, Any]) -> int:
    side = given["above"] if "above" in given else given["below"]
    total = len(claims.many(given["measure"]))
    for setting in (given["of"], side):
        for value in setting.values():
            total *= len(claims.many(value))
    return total
