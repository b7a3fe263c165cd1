"""Our numbers next to the paper's: its table of each benchmark, its summary over benchmarks, and ranks."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np
import pandas as pd

from hypo import paper, runs
from hypo.config import SCALES
from hypo.report import text
from hypo.report.table import PAPER, Table
from hypo.suggest import one_of

BY = ["algorithm", "scale", "settings", "data"]
"""What one line of ours has in common."""
CONSTANT = {"start_temperature": None}
"""What makes the paper's own temperature, where a scale has another start."""


def numbers(benchmark: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The paper's table of a benchmark and, below it, ours: one row per number, accuracies in percent.

    frame     runs, as of `hypo.runs.load`; those on other benchmarks are left out
    who       "paper" or "ours"
    algorithm, scale, settings (what differs from the scale's defaults, as pairs), data (version of the images)
    column    the held-out domain or the corruption (mean over its severities), or "average" over all of them
    value     the paper's number, or the mean over seeds; the average is over the seeds that have every column
    sd        the paper's ±, or the standard deviation over seeds; low, high, n, failed, origins as of `summarise`
    difference  ours minus the paper's
    """
    single, columns = runs.accuracies(frame[frame["benchmark"] == benchmark]), columns_of(benchmark, frame)
    every = pd.concat([single, runs.averages(single, columns, [*BY, "seed"])], ignore_index=True)
    ours = runs.summarise(every[every["column"].isin([*columns, "average"])], [*BY, "column"])
    return beside(paper.of_benchmark(benchmark), ours)


def columns_of(benchmark: str, frame: pd.DataFrame) -> list[str]:
    """The columns of a benchmark's table but for the average: the paper's, else the domains of the runs."""
    own = frame.loc[frame["benchmark"] == benchmark, "domains"]
    domains = [runs.column(domain) for names in own for domain in names]
    return paper.columns(paper.of_benchmark(benchmark)) or [*dict.fromkeys(domains)]


def beside(printed: pd.DataFrame, ours: pd.DataFrame, row: str = "algorithm") -> pd.DataFrame:
    """The paper's numbers (`row`, column, value, spread), and below them ours with their difference to them."""
    keys = [row, "column"]
    expected = printed.set_index(keys)["value"].to_dict()
    gaps = ours["value"] - [expected.get(key, np.nan) for key in zip(*(ours[key] for key in keys), strict=True)]
    blank = {"who": "paper", "scale": "", "data": "", "n": 0, "failed": 0, "starts_at_first": 0}
    none = [()] * len(printed)
    theirs = printed[[*keys, "value"]].assign(**blank, sd=printed["spread"], settings=none, origins=none)
    settings = ours["settings"] if "settings" in ours else [()] * len(ours)
    ours = ours.assign(who="ours", difference=gaps, settings=settings)
    both = [theirs.reindex(columns=["who", *ours.columns.drop("who")]), ours]
    return pd.concat([part for part in both if len(part)] or both[:1], ignore_index=True)


def lines(
    found: pd.DataFrame,
    names: Mapping[str, str],
    columns: Sequence[str],
    row: str = "algorithm",
    decimals: int = 1,
    contrasts: Container[str] = (),
) -> pd.DataFrame:
    """`beside` as text: a line with the paper's numbers of each row, and below it a line for each source of ours.

    names      row -> its name, in the order of the lines
    contrasts  rows that are differences, which have an interval
    """
    versions, shown = found.loc[found["who"] == "ours", "data"].nunique(), []
    for key, name in names.items():
        block = found[found[row] == key].sort_values(["scale", "settings"], key=_defaults_first, kind="stable")
        printed = (block["who"] == "paper").any()
        for (who, scale, settings, data), line in block.groupby(["who", "scale", "settings", "data"], sort=False):
            line = line.set_index("column").reindex(columns)
            counts = line["n"].dropna().unique()
            n = f"n={counts[0]:.0f}" if len(counts) == 1 else ""
            version = f"data {data[:8]}" if versions > 1 else ""
            changed = "constant τ" if dict(settings) == CONSTANT else text.settings(dict(settings))
            source = ["ours" if printed else name, f"{scale} scale", changed, version, n]
            label = name if who == "paper" else ", ".join(filter(None, source))
            missing = "" if who == "paper" else text.NOT_RUN
            cells = [
                text.difference(each) if key in contrasts else text.cell(each, decimals, missing, len(counts) > 1)
                for each in line.itertuples()
            ]
            shown.append([label, *cells])
    return pd.DataFrame(shown, columns=["method", *columns])


def usual(benchmark: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The runs that the table of a benchmark is about: on a reader's folder all of them; on a benchmark of the paper
    those at their scale's defaults, and those with the paper's constant temperature."""
    if benchmark not in paper.NAMES:
        return frame
    return frame[frame["changed"].map(lambda changed: changed in ({}, CONSTANT)).astype(bool)]


def table(benchmark: str, frame: pd.DataFrame | None = None) -> Table:
    """The paper's table of a benchmark, the best average first, with our runs below the methods that were run.

    frame  runs to show; `usual` ones where None
    """
    frame = usual(benchmark, runs.load()) if frame is None else frame
    found, label = numbers(benchmark, frame), paper.TABLES.get(benchmark)
    tests = "corruption (mean over severities)" if benchmark == "cifar10" else "held-out domain"
    caption = [f"OOD accuracy in % on {text.data(benchmark)}, by {tests}."]
    if label:
        caption.insert(0, f"{paper.NUMBERS[label]}, ranked by the printed average. {standing(label)}")
    if benchmark == "pacs":
        caption.append("PCL's numbers are those of Table 2, which has no ranks.")
    caption.append(reading(found))
    notes = dict.fromkeys(note for notes in frame.loc[frame["benchmark"] == benchmark, "notes"] for note in notes)
    caption += [f"{note[:1].upper()}{note[1:]}." for note in notes]
    columns = ["average", *columns_of(benchmark, frame)]
    return _ranked(found, benchmark, " ".join(caption), columns, label, decimals=2 if benchmark == "cifar10" else 1)


def summary(frame: pd.DataFrame | None = None) -> Table:
    """Table 1: the average of each method on each benchmark, and ours."""
    frame, printed = runs.load(at_defaults=True) if frame is None else frame, paper.table("all")
    names = paper.columns(printed)
    own = [numbers(name, frame).query("who == 'ours' and column == 'average'").assign(column=name) for name in names]
    found = beside(printed, pd.concat(own))
    caption = "Table 1: OOD accuracy in %, averaged over the held-out domains, ranked by the printed average. "
    none = "No method was run here on every held-out domain of one of these benchmarks."
    caption += reading(found) if (found["who"] == "ours").any() else none
    return _ranked(found, "table-1", caption, ["average", *names], "all")


def recent(frame: pd.DataFrame | None = None) -> Table:
    """Table 15: accuracy under Gaussian noise next to two recent methods."""
    frame = runs.load(at_defaults=True) if frame is None else frame
    theirs, ours = (
        paper.table("cifar10c"),
        numbers("cifar10", frame).query("who == 'ours' and column == 'gaussian_noise'"),
    )
    found = beside(theirs, ours[ours["algorithm"].isin(theirs["algorithm"])])
    caption = f"Table 15: accuracy in % under Gaussian noise on CIFAR-10. {reading(found)}"
    return _ranked(found, "table-15", caption, ["gaussian_noise"], "cifar10c", decimals=2)


def _ranked(
    found: pd.DataFrame, name: str, caption: str, columns: list[str], label: str | None, decimals: int = 1
) -> Table:
    """`lines`, the best in the first of `columns` first, with the rank of each method in the paper's table `label`."""
    printed = found[(found["who"] == "paper") & (found["column"] == columns[0])]
    order = printed.sort_values("value", ascending=False, kind="stable")["algorithm"]
    names = {each: paper.method_name(each) for each in dict.fromkeys([*order, *sorted({*found["algorithm"]})])}
    shown = lines(found, names, columns, decimals=decimals)
    if label:
        placed = paper.ranks(label, by=columns[0])[columns[0]]["rank"]
        ranks = {paper.method_name(each): str(rank) for each, rank in placed.items()}
        shown.insert(1, "rank", [ranks.get(method, "") for method in shown["method"]])
    headings = {column: paper.NAMES.get(column, text.words(column)) for column in shown}
    if len(set(headings.values())) == len(headings):  # of the domains a_b and "a b", each keeps its own name
        shown = shown.rename(columns=headings)
    data = found.assign(settings=[text.settings(dict(pairs)) for pairs in found["settings"]])
    return Table(shown, name, caption, found["origins"], data, also=(PAPER,) if label else ())


def rank_table() -> Table:
    """The rank of each method of Table 1 on each benchmark, by their average, and the mean of the ranks."""
    placed, names = paper.ranks("all").xs("rank", axis=1, level=1), paper.columns(paper.table("all"))
    placed["mean rank"] = placed[names].mean(axis=1)
    placed.index = pd.Index(placed.index.map(paper.names("all")), name="method")
    shown = placed.sort_values("mean rank", kind="stable").rename(columns=paper.NAMES | {"average": "by average"})
    caption = f"Ranks of the {len(shown)} methods of Table 1 by its printed numbers; equal numbers share a rank."
    return Table(shown, "ranks", caption, also=(PAPER,))


def standing(label: str, algorithm: str = "hypo", column: str = "average") -> str:
    """One sentence: the rank of a method in a column of the paper's table, and who is ahead of it."""
    placed, names = paper.ranks(label, by=column)[column], paper.names(label)
    own = placed.loc[one_of("method", algorithm, names)]
    ahead = [f"{names[name]} {row['value']:.1f}" for name, row in placed.iterrows() if row["rank"] < own["rank"]]
    behind = f", behind {text.listed(ahead)}" if ahead else ""
    return f"{names[algorithm]} is {text.ordinal(int(own['rank']))} of {len(placed)} with {own['value']:.1f}{behind}."


def disagreements() -> Table:
    """Averages that the paper prints and that are not the mean of their printed row, to rounding."""
    found = paper.disagreements()
    shown = pd.DataFrame(
        {
            "table": found["label"].map(paper.NUMBERS),
            "method": found["method"].map(paper.short_name),
            "printed average": found["printed"],
            "mean of the row": found["mean"],
            "difference": found["mean"] - found["printed"],
            "cause": np.where(found["rounding"], "rounding of the row", "no rounding explains it"),
        }
    )
    caption = "Printed averages that differ from the mean of the printed row by more than half of the last digit."
    return Table(shown, "disagreements", caption, decimals=2, labels=2, also=(PAPER,))


def office_home_lead() -> str:
    """One sentence: the lead on Office-Home that the text prints, against the leads that Table 5 gives."""
    printed, cited, lead, meant = paper.lead_on_office_home()
    return (
        f"The text prints {printed} points. By Table 5 HYPO leads {cited} by {lead}; {printed} is its lead over "
        f"{text.listed(meant)}."
    )


def reading(found: pd.DataFrame) -> str:
    """How our numbers in a table are to be read, or that there are none."""
    ours = found[found["who"] == "ours"]
    if ours.empty:
        return "None of it was run here."
    alone = "" if len(ours) == len(found) else "; a method without a line of ours was not run"
    cells, averages = ours[ours["column"] != "average"], ours[ours["column"] == "average"]
    seeds = averages.merge(cells, on=[name for name in BY if name in ours], suffixes=("", "_of_cell"))
    fewer = " An average is over the seeds that every column has." if (seeds["n"] < seeds["n_of_cell"]).any() else ""
    return f"Ours: mean ± standard deviation over n seeds, selected on training-domain validation{alone}.{fewer}"


def _defaults_first(values: pd.Series) -> pd.Series:
    return values.map(["", *SCALES].index if values.name == "scale" else len)
