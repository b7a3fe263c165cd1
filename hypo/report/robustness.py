"""Whether the main verdicts depend on single records: on runs that were made again, or that were trials of a search."""

from __future__ import annotations

import pandas as pd

from hypo import claims, runs
from hypo.report import text
from hypo.report.claims import brief
from hypo.report.search import SEARCH
from hypo.report.start import planned
from hypo.report.table import Table
from hypo.training.verify import kept

CLAIMS = ("pacs-erm", "pcl")
"""The claims whose verdict is tried: HYPO against ERM and against PCL on PACS."""


def cases(frame: pd.DataFrame) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """What is tried, with a place for a number of runs -> the runs to judge by, and those replaced or left out."""
    outcomes = {name: found["measures"]["ood_accuracy"][1] for name, found in kept().items()}
    again = frame["path"].map(lambda path: outcomes.get(path.stem)).astype(float)
    trials = frame["origins"].isin([origins for origins in planned(frame, *SEARCH)["origins"] if origins])
    accuracy = "validation.ood_accuracy"
    replaced = frame.assign(**{accuracy: again.fillna(frame[accuracy])})
    return {
        "by the records": (frame, frame[:0]),
        "with {} replaced by re-runs": (replaced, frame[again.notna()]),
        "without {} of the search": (frame[~trials], frame[trials]),
    }


def table(frame: pd.DataFrame | None = None) -> Table:
    """The verdict on each of CLAIMS in each of `cases`, and whether it is the one of the records as they are."""
    frame = runs.load() if frame is None else frame
    rows, numbers, origins, scales = [], [], [], {}
    for claim in (claim for claim in claims.load() if claim["id"] in CLAIMS):
        first = None
        for case, (judged, touched) in cases(frame).items():
            (line,) = claims.overall(claims.verdicts(judged, [claim])).itertuples()
            first = first or line
            count = len(first.origins) - len({*first.origins} - {*runs.together(touched["origins"])})
            name = case.format(f"{count} run{'' if count == 1 else 's'}")
            stays = "" if line is first else "stays" if line.outcome == first.outcome else "changes"
            row = {"claim": claim["claim"], "runs": name}
            end = {"outcome": line.outcome, "the verdict": stays}
            rows.append(row | {"difference": brief(line._replace(scale="")), "pairs": line.n} | end)
            numbers += [row | each.estimate._asdict() | end for each in line.evidence.findings]
            origins.append(line.origins)
            scales |= {f" at {line.scale} scale": None} if line.scale else {}
    caption = (
        f"Differences of OOD accuracy{text.listed([*scales])} with 95% intervals: from the records, with runs replaced "
        "by those of `hypo verify`, and without runs that were also trials of the search for rates."
    )
    return Table(pd.DataFrame(rows), "robustness", caption, origins, pd.DataFrame(numbers), labels=2)


def in_words(tried: Table) -> str:
    """A sentence for each claim of `table`: whether its verdict stays."""
    said = []
    for claim, own in tried.frame.groupby("claim", sort=False):
        first, *others = own.itertuples()
        changed = [f"{line.outcome} {line.runs}" for line in others if line.outcome != first.outcome]
        ends = f"it is {text.listed(changed)}" if changed else "it stays so in every case"
        said.append(f"“{claim.rstrip('.')}” is {first.outcome} {first.runs}; {ends}.")
    return " ".join(said)
