"""The claims and what the records say of them, as text: for the pages, the README and the terminal."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from hypo import claims, paper, runs
from hypo.algorithms import ALGORITHMS
from hypo.claims import OUTCOMES, Evidence, Finding
from hypo.claims.checks import CHECKS
from hypo.claims.evidence import CONTRADICTED, INCONCLUSIVE, NOT_RUN, SUPPORTED
from hypo.config import SCALES
from hypo.data.benchmarks import CORRUPTED
from hypo.report import text
from hypo.report.table import Table
from hypo.runs import CONFIDENCE, MEASURES

READING = (
    "supported: the 95% interval excludes zero on the claimed side; contradicted: on the other side; inconclusive: it "
    "includes zero, or there is one seed only"
)
AHEAD_OF_ERM = {"kind": "compare", "measure": "ood_accuracy", "of": {}, "above": {"algorithm": "erm"}}


def section(where: list[str]) -> str:
    """The section of the paper that a claim is from: the first of its places that lies in one."""
    inside = (name for place in where for name in paper.SECTIONS if f"{place}.".startswith((f"{name}.", f"{name},")))
    return next(inside, "")


def said(found: pd.DataFrame) -> pd.DataFrame:
    """Rows of `hypo.claims.verdicts` with `evidence`, `rule`, `paper` and `on` (data and scale) as text."""
    by_id = {claim["id"]: claim for claim in claims.load()}
    return found.assign(
        evidence=[evidence(line) for line in found.itertuples()],
        rule=[rule(given) for given in found["rule"]],
        paper=[printed(by_id[name]) if name in by_id else "" for name in found["id"]],
        on=[where(line) for line in found.itertuples()],
    )


def verdicts(frame: pd.DataFrame | None = None, page: str | None = None) -> pd.DataFrame:
    """One row per claim, or per claim of one page: its outcome where the evidence is best, as of `claims.overall`."""
    wanted = [claim for claim in claims.load() if page in (None, claim["page"])]
    return claims.overall(claims.verdicts(frame, wanted))


def of_page(page: str, frame: pd.DataFrame | None = None) -> Table:
    """The claims that belong to a page, and what the records of the paper's own benchmarks say of them."""
    found = said(verdicts(frame, page))
    caption = (
        f"The paper's claims that belong to this page, on its own benchmarks ({READING}). [All claims](claims.html)."
    )
    return Table(found[["claim", "outcome", "on", "evidence"]], f"claims-{page}", caption, found["origins"], found)


def without_interval(page: str, frame: pd.DataFrame | None = None) -> str:
    """One sentence: which claims of a page rest on comparisons of one seed, which decide nothing; none if none does."""
    said = []
    for line in verdicts(frame, page).itertuples():
        found = line.evidence.findings
        if alone := sum(not finding.estimate.df for finding in found):
            said.append(f"{alone} of {len(found)} for “{line.claim.rstrip('.')}”")
    why = "A comparison over one seed has no interval and decides nothing, whatever the difference"
    return f"{why}; such are {text.listed(said)}." if said else ""


def on_digits(frame: pd.DataFrame | None = None) -> Table:
    """The rules of all claims that can be, applied to the digits."""
    found = said(claims.on_digits(frame))
    caption = (
        "The rules of the claims applied to the embedded digits. These are statements about digits and decide nothing "
        "about the paper's benchmarks."
    )
    shown = found[["claim", "outcome", "evidence"]].rename(
        columns={"claim": "rule of the claim, applied to the digits"}
    )
    return Table(shown, "claims-digits", caption, found["origins"], found)


def headlines(frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """The headline claims in short: claim, outcome, evidence, page, origins."""
    found = verdicts(frame)
    short, titles = (
        found[found["headline"]],
        {claim["id"]: claim.get("short", claim["claim"]) for claim in claims.load()},
    )
    short = short.assign(
        claim=short["id"].map(titles), evidence=[brief(line) for line in short.itertuples()]
    ).reset_index(drop=True)
    return short[["claim", "outcome", "evidence", "page", "origins"]]


def counted(frame: pd.DataFrame | None = None) -> str:
    """What became of all claims, by what decides them: one sentence whose numbers add up."""
    found = verdicts(frame)
    kinds, ran = found["rule"].map(lambda rule: rule["kind"]), found["outcome"] != NOT_RUN
    groups = (
        ("was", "were", "tested by runs", found[ran & ~kinds.isin(["all", "check"])]),
        ("is", "are", "made of other claims", found[ran & (kinds == "all")]),
        ("is", "are", "mathematics", found[ran & (kinds == "check")]),
        ("was", "were", NOT_RUN, found[~ran]),
    )
    parts = [
        f"{len(own)} {one if len(own) == 1 else several} {name}"
        + (f" ({tallied(_counts(own))})" if name != NOT_RUN else "")
        for one, several, name, own in groups
        if len(own)
    ]
    return f"Of all {len(found)} claims, {text.listed(parts)}."


def shared(frame: pd.DataFrame | None = None) -> str:
    """On how many comparisons the claims rest that runs decided, and how many share one: a sentence for each outcome
    that several claims have."""
    found, said = _tested(verdicts(frame)), []
    for outcome, name in ((CONTRADICTED, "contradicted"), (SUPPORTED, "that held")):
        own = found[found["outcome"] == outcome]
        by_comparison: dict[Any, dict[str, Finding]] = {}
        by_runs: dict[Any, set[str]] = {}
        for line in own.itertuples():
            for finding in line.evidence.findings:
                if finding.outcome == outcome:
                    by_comparison.setdefault(finding.comparison, {})[line.id] = finding
                    by_runs.setdefault(finding.origins, set()).add(line.id)
        if len(own) < 2:
            continue
        one = max(by_comparison.values(), key=len)
        files, alike = max(by_runs.items(), key=lambda item: len(item[1]))
        rest = [f"{len(one)} of these claims share one, {_quantity(next(iter(one.values())))}"] if len(one) > 1 else []
        rest += [f"{len(alike)} of these claims are about the same {len(files)} runs"] if len(alike) > len(one) else []
        number = len(by_comparison)
        count = f"{number} comparison{'s' if number > 1 else ''}"
        said.append(f"The {len(own)} {name} rest on {'; '.join([count, *rest])}.")
    return " ".join(said)


def by_chance(frame: pd.DataFrame | None = None) -> str:
    """What chance alone would decide: of one comparison, and of the claim whose rule asks for the most."""
    most = max(found.asked for found in claims.verdicts(frame)["evidence"])
    once = 1 - ((1 + CONFIDENCE) / 2) ** most
    return (
        "No interval is corrected for the number of comparisons, so some outcomes come by chance. Where no difference "
        f"is real, a comparison is decided all the same in {1 - CONFIDENCE:.0%} of cases. One comparison is enough to "
        f"contradict a claim that asks for {most}; were these independent, that would happen in {once:.0%}."
    )


def _tested(found: pd.DataFrame) -> pd.DataFrame:
    """The claims that runs on the paper's own benchmarks were made for, one by one; not those made of others."""
    return found[(found["data"] != "") & found["outcome"].isin([SUPPORTED, CONTRADICTED, INCONCLUSIVE])]


def _counts(found: pd.DataFrame) -> dict[str, int]:
    counts = found["outcome"].value_counts()
    return {outcome: int(counts[outcome]) for outcome in OUTCOMES if outcome in counts}


def tallied(counts: dict[str, int]) -> str:
    """How many claims have each outcome: 3 supported, 2 hold, 1 fails."""
    several = {"holds": "hold", "holds but says nothing here": "hold but say nothing here", "fails": "fail"}
    return ", ".join(f"{n} {outcome if n == 1 else several.get(outcome, outcome)}" for outcome, n in counts.items())


def against_erm(benchmark: str, frame: pd.DataFrame | None = None) -> str:
    """How HYPO did against ERM on a benchmark, at each scale that was run, and in the paper: a sentence or two."""
    frame = runs.load() if frame is None else frame
    corrupted = benchmark in CORRUPTED.values()
    here = frame[(frame["benchmark"] == benchmark) & ((frame["held_out"] == "") == corrupted)]
    name, said = text.data(benchmark), []
    for scale in reversed(SCALES):
        for finding in claims.judge({"rule": AHEAD_OF_ERM}, here[here["scale"] == scale]).findings:
            said.append(f"On {name} at {scale} scale {ordered(finding)}: {measured(finding)}")
    printed = paper.of_benchmark(benchmark).query("column == 'average'").set_index("algorithm")["value"]
    where = f"the paper's {paper.NUMBERS[paper.TABLES[benchmark]]}" if len(printed) else ""
    lead = text.number(printed["hypo"] - printed["erm"], sign=True) if len(printed) else ""
    if said:
        last = f"; {where} has {lead} points" if where else ""
        return " ".join([*(f"**{each}.**" for each in said[:-1]), f"**{said[-1]}{last}.**"])
    nothing = f"**HYPO and ERM were not compared on {name} here, so nothing is decided about it.**"
    return f"{nothing} On average {where} has {lead} points for HYPO over ERM." if where else nothing


def ordered(finding: Finding) -> str:
    """The order of HYPO and ERM by a finding of AHEAD_OF_ERM, or that it is open."""
    side = "above" if finding.estimate.value > 0 else "below"
    alone = f"HYPO's mean is {side} ERM's, but one seed decides nothing"
    undecided = alone if math.isnan(finding.estimate.low) else "HYPO cannot be told from ERM"
    decided = {"supported": "HYPO is ahead of ERM", "contradicted": "HYPO is behind ERM"}
    return decided.get(finding.outcome, undecided)


def finding(frame: pd.DataFrame | None = None) -> list[str]:
    """What came out, in two or three sentences: HYPO against ERM on real data, and what became of the claims."""
    frame = runs.load() if frame is None else frame
    found = verdicts(frame)
    kinds = {"supported": ("held", "held"), "contradicted": ("was", "were"), "inconclusive": ("is", "are")}
    ends = {"supported": "", "contradicted": " contradicted", "inconclusive": " undecided"}
    tested = _tested(found)
    counts = {outcome: int((tested["outcome"] == outcome).sum()) for outcome in kinds}
    if tested.empty:
        proven = int((found["outcome"] == "holds").sum())
        return [
            "No run on the paper's own benchmarks is recorded here, so nothing is decided that runs must decide. "
            f"Of its {len(found)} claims, {proven} are mathematics that holds, computed here."
        ]
    by_runs = [*dict.fromkeys(frame.loc[frame["benchmark"].isin(tested["data"]), "benchmark"])]
    sentences = [against_erm(benchmark, frame) for benchmark in by_runs]
    sums = [f"{counts[outcome]} {words[counts[outcome] != 1]}{ends[outcome]}" for outcome, words in kinds.items()]
    sentences.append(
        f"Of the paper's {len(found)} claims, {len(tested)} {'was' if len(tested) == 1 else 'were'} tested by runs on "
        f"real data: {text.listed(sums)}."
    )
    return sentences


def where(line: Any) -> str:
    """The data and scale behind a row of `verdicts`."""
    if not line.scale:
        return ""
    return f"{_parts(line)}, {line.scale} scale"


def _parts(line: Any) -> str:
    return text.data(line.data) if line.data else "the benchmarks of its parts"


def printed(claim: dict[str, Any]) -> str:
    """The paper's number that a claim is about, with its unit."""
    value = claims.printed(claim)
    if value is None:
        return ""
    if claim["paper"]["table"] == "quan":
        return f"{value:g}"
    difference = "less" in claim["paper"]
    unit = " points" if difference else "%"
    return text.number(value, 1 if round(value, 1) == value else 2, sign=difference) + unit


def rule(given: dict[str, Any]) -> str:
    """A rule as a sentence."""
    kind, side = given["kind"], "above" if "above" in given else "below"
    names = claims.many(given.get("measure", []))
    measure = text.measures(names)
    of = text.label(given.get("of", {}), last="and")
    if kind == "compare":
        several = len([*claims.settings(given[side])]) > 1
        each = ", each" if len([*claims.settings(given["of"])]) > 1 or len(names) > 1 else ""
        than = f"{'each of ' if several else ''}{text.label(given[side], last='and')}"
        return f"{measure} of {of}{each} {side} that of {than}, in paired runs, with {CONFIDENCE:.0%} confidence"
    if kind == "limit":
        return f"{measure} of {of} {side} {given[side]} with {CONFIDENCE:.0%} confidence"
    if kind == "near":
        return f"{measure} of {of} at paper scale: its whole interval is within {given['within']} of the printed number"
    if kind == "check":
        return CHECKS[given["name"]].rule
    return f"all of these hold:\n{_links(given['claims'])}" if kind == "all" else f"none. {given['reason']}"


def _links(names: list[str]) -> str:
    """Claims by what they say, one per line, each a link to its place on the page of claims."""
    said = {claim["id"]: claim["claim"].rstrip(".") for claim in claims.load()}
    return "\n".join(f"[{said.get(name, name)}](claims.html#{name})" for name in names)


def evidence(line: Any) -> str:
    """What was found for a row of `verdicts`, or the command that would find it."""
    found: Evidence = line.evidence
    if found.parts is not None:
        return "\n".join(f"{outcome}:\n{_links(names)}" for outcome, names in found.parts.items())
    if found.counts is not None:
        return _counted(found)
    if found.reason:
        return found.reason
    if not found.findings:
        return missing(found, line)
    if found.asked == 1:
        return measured(found.findings[0])
    deciding = tuple(finding for finding in found.findings if finding.outcome == found.outcome) or found.findings
    weakest = claims.weakest(deciding, above="above" in line.rule)
    outcomes = [finding.outcome for finding in found.findings] + ["not run"] * (found.asked - len(found.findings))
    counts = [f"{outcomes.count(each)} {each}" for each in OUTCOMES if each in outcomes]
    left_out = f"; left out, since it cannot be run: {', '.join(names)}" if (names := _unknown(found)) else ""
    return (
        f"of {found.asked} comparisons {', '.join(counts)}; weakest: {_quantity(weakest)} {measured(weakest)}{left_out}"
    )


def _quantity(finding: Finding) -> str:
    """What was measured: OOD accuracy of HYPO minus ERM."""
    than = "" if finding.than is None else f" minus {text.label(finding.than)}"
    return f"{text.measures([finding.measure])} of {text.label(finding.of)}{than}"


def _unknown(found: Evidence) -> list[str]:
    """Methods that a rule names and that are not registered."""
    names = [setting.get("algorithm", "hypo") for setting in found.missing]
    return [paper.method_name(name) for name in names if name not in ALGORITHMS]


def measured(finding: Finding) -> str:
    """An estimate with its unit, its interval and its runs: +1.2 points [−0.3, +2.7] (12 pairs: cartoon; 3 seeds)."""
    domains = ", ".join(text.words(domain) for domain in finding.domains)
    seeds = f"{finding.seeds} seed{'s' if finding.seeds > 1 else ''}{'' if finding.estimate.df else ', so no interval'}"
    marks = [domains, seeds]
    if finding.failed:
        marks.append(f"{finding.failed} of {finding.estimate.n} with a run that failed to train")
    if finding.starts_at_first:
        marks.append(f"SWAD averages from the first evaluation on in {finding.starts_at_first}")
    return f"{_estimate(finding)} ({_runs(finding)}: {'; '.join(filter(None, marks))})"


def brief(line: Any) -> str:
    """What was found for a row of `verdicts`, in a few words; nothing where nothing was run."""
    found: Evidence = line.evidence
    on = f"{_parts(line)}, {line.scale}: " if line.scale else ""
    if not line.n or found.parts is not None:
        return ""
    if found.counts is not None:
        return f"{on}in {found.counts[0]} of {found.counts[1]} {found.counts[2]}"
    if found.asked > 1:
        return f"{on}{len(found.findings)} of {found.asked} comparisons made"
    (only,) = found.findings
    return f"{on}{_estimate(only)}" + ("" if only.estimate.df else f" ({_runs(only)})")


def _estimate(finding: Finding) -> str:
    """The estimate with its unit, and its interval if it has one."""
    percent, lead = MEASURES[finding.measure].percent, finding.than is not None
    decimals, unit = (1, " points" if lead else "%") if percent else (3, "")
    value = text.number(finding.estimate.value, decimals, sign=lead) + unit
    return value + (text.interval(finding.estimate, decimals, sign=lead) if finding.estimate.df else "")


def _runs(finding: Finding) -> str:
    """How many pairs of runs, or runs, are behind it."""
    return f"{finding.estimate.n} {'run' if finding.than is None else 'pair'}{'s' if finding.estimate.n > 1 else ''}"


def _counted(found: Evidence) -> str:
    held, tried, places = found.counts
    said = f"holds in {held} of {tried} {places}"
    if found.tightest is None:
        return said
    row = found.tightest
    word = "fails most" if row["left"] > row["right"] else "nearest to failing"
    return (
        f"{said} on {found.n} model{'s' if found.n > 1 else ''}; {word}: {row['quantity']} is "
        f"{row['left']:.2g}, its bound {row['right']:.2g}, and no embedding exceeds {row['at_most']:g}"
    )


def missing(found: Evidence, line: Any) -> str:
    """How to make the first setting that has no run, how many others there are, and what is not implemented."""
    known = [setting for setting in found.missing if setting.get("algorithm", "hypo") in ALGORITHMS]
    parts, unknown = [], _unknown(found)
    if known:
        others = f", and {len(known) - 1} other setting{'s' if len(known) > 2 else ''}" if len(known) > 1 else ""
        parts.append(f"`{command(known[0], line)}`{others}")
    if unknown:
        parts.append(f"not implemented here: {', '.join(unknown)}")
    return "; ".join(parts) or "no two of these runs share domain, seed, data and split, or the measure is not stored"


def command(setting: dict[str, Any], line: Any) -> str:
    """The command that makes the runs of a setting for a row of `verdicts`."""
    changed = {field: value for field, value in setting.items() if field not in ("algorithm", "rule")}
    held_out = "none" if line.data in CORRUPTED.values() else "each"
    main = {"benchmark": line.data, "algorithm": setting.get("algorithm", "hypo"), "held_out": held_out}
    return text.command(main | {"scale": line.scale, "seed": "0,1,2"}, changed).replace("train", "sweep", 1)


def commands(given: dict[str, Any], line: Any) -> list[str]:
    """The commands that make every run which a rule compares."""
    sides = [given[side] for side in ("of", "above", "below") if isinstance(given.get(side), dict)]
    wanted = [setting for side in sides for setting in claims.settings(side)]
    known = [setting for setting in wanted if setting.get("algorithm", "hypo") in ALGORITHMS]
    return [*dict.fromkeys(command(setting, line) for setting in known)]


def artefacts(frame: pd.DataFrame | None = None) -> Table:
    """Every table and figure of the paper with its counterpart here: page, data and scale, records, and state.

    The records and the state are those of the claims that name the table or figure.
    """
    found, rows, origins = said(verdicts(frame)), [], []
    for number, shows, page in paper.ARTEFACTS.itertuples(index=False):
        own = found[[number in where for where in found["where"]]]
        records = runs.together(own["origins"])
        on = dict.fromkeys(own.loc[(own["n"] > 0) & (own["on"] != ""), "on"])
        state = tallied(_counts(own)) or "none: an illustration, drawn as the page is built"
        data = "; ".join(on) or ("none" if len(own) else "the digits")
        rows.append((number, shows, f"[{text.PAGES[page]}]({page}.html)", data, len(records), state))
        origins.append(records)
    columns = ["in the paper", "what it shows", "here", "our data and scale", "records", "claims about it"]
    caption = (
        "The paper's tables and figures, by their numbers in the PDF, with what is beside them here; the records and "
        "outcomes are of the claims that name them."
    )
    return Table(pd.DataFrame(rows, columns=columns), "artefacts", caption, origins)
