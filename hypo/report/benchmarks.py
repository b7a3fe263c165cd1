"""Our numbers next to the paper's: its table of each benchmark, its summary over benchmarks, and ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from hypo import paper, runs
from hypo.config import SCALES
from hypo.report import text
from hypo.report.table import Table, about
from hypo.suggest import one_of

BY = ["algorithm", "scale", "settings", "data"]
"""What one line of ours has in common."""


def numbers(benchmark: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The paper's table of a benchmark and, below it, ours: one row per number, accuracies in percent.

    frame     runs, as of `hypo.runs.load`; those on other benchmarks are left out
    who       "paper" or "ours"
    algorithm, scale, settings (what differs from the scale's defaults, as pairs), data (version of the images)
    column    the held-out domain or the corruption (mean over its severities), or "average" over all of them
    value     the paper's number, or the mean over seeds; the average is over the seeds that have every column
    sd        the paper's ±, or the standard deviation over seeds; low, high, n, failed, files as of `summarise`
    difference  ours minus the paper's
    """
    printed = paper.of_benchmark(benchmark)
    single, columns = _single(frame[frame["benchmark"] == benchmark]), columns_of(benchmark, frame)
    every = pd.concat([single, runs.averages(single, columns, [*BY, "seed"])], ignore_index=True)
    return beside(printed, runs.summarise(every[every["column"].isin([*columns, "average"])], [*BY, "column"]))


def columns_of(benchmark: str, frame: pd.DataFrame) -> list[str]:
    """The columns of a benchmark's table but for the average: the paper's, else the domains of the runs."""
    own = frame.loc[frame["benchmark"] == benchmark, "domains"]
    domains = [runs.column(domain) for names in own for domain in names]
    return paper.columns(paper.of_benchmark(benchmark)) or [*dict.fromkeys(domains)]


def beside(printed: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Numbers of `hypo.paper.table`, and below them ours with their difference to the printed ones."""
    expected = printed.set_index(["algorithm", "column"])["value"].to_dict()
    keys = zip(ours["algorithm"], ours["column"], strict=True)
    gaps = ours["value"] - np.array([expected.get(key, np.nan) for key in keys], dtype=float)
    blank = {"who": "paper", "scale": "", "data": "", "sd": printed["spread"], "n": 0, "failed": 0, "files": ""}
    theirs = printed[["algorithm", "column", "value"]].assign(**blank, settings=[()] * len(printed), starts_at_first=0)
    ours = ours.assign(who="ours", difference=gaps)
    both = [theirs.reindex(columns=["who", *ours.columns.drop("who")]), ours]
    return pd.concat([part for part in both if len(part)] or both[:1], ignore_index=True)


def lines(found: pd.DataFrame, order: Iterable[str], columns: Sequence[str], decimals: int = 1) -> pd.DataFrame:
    """`numbers` as text, one line per method and source, ours below the paper's with the difference to it.

    order  algorithms in the order of their lines; others follow by name
    """
    versions = found.loc[found["who"] == "ours", "data"].nunique()
    rows = []
    for algorithm in dict.fromkeys([*order, *sorted(set(found["algorithm"]))]):
        block = found[found["algorithm"] == algorithm]
        block = block.sort_values(["scale", "settings"], key=_defaults_first, kind="stable")
        for (who, scale, settings, data), line in block.groupby(["who", "scale", "settings", "data"], sort=False):
            where = [f"{scale} scale" if scale else "", text.settings(dict(settings)), f"data {data[:8]}"]
            source = ", ".join(filter(None, where[:2] + where[2:] * (versions > 1 and who == "ours")))
            line = line.set_index("column").reindex(columns)
            counts = line["n"].dropna().unique()
            n = f", n={counts[0]:.0f}" if len(counts) == 1 and counts[0] else ""
            shown = [text.cell(each, decimals, own_n=len(counts) > 1) for each in line.itertuples()]
            name = paper.method_name(algorithm)
            rows.append([name, f"{who}, {source}{n}" if source else who, *shown])
            if line["difference"].notna().any():
                gaps = [text.number(each, decimals, sign=True) for each in line["difference"]]
                rows.append([name, f"ours − paper's, {source}", *gaps])
    return pd.DataFrame(rows, columns=["method", "numbers", *columns])


def table(benchmark: str, frame: pd.DataFrame | None = None) -> Table:
    """The paper's table of a benchmark, the best average first, with our runs below the methods that were run.

    frame  runs to show; where None those at their scale's defaults, and all on a reader's folder
    """
    if frame is None:
        frame = runs.load(at_defaults=True) if benchmark in paper.NAMES else runs.load()
    found, label = numbers(benchmark, frame), paper.TABLES.get(benchmark)
    caption = [f"OOD accuracy in % on {text.data(benchmark)}, by {_tests(benchmark)}."]
    if label:
        caption.insert(0, f"{paper.NUMBERS[label]}, ranked by the printed average. {standing(label)}")
    if benchmark == "pacs":
        caption.append("PCL's numbers are those of Table 2, which has no ranks.")
    caption.append(reading(found))
    caption += dict.fromkeys(note for notes in frame.loc[frame["benchmark"] == benchmark, "notes"] for note in notes)
    decimals = 2 if benchmark == "cifar10" else 1
    columns, placed = [*columns_of(benchmark, frame), "average"], paper.ranks(label) if label else None
    return ranked(found, benchmark, " ".join(caption), columns, placed, decimals)


def ranked(
    found: pd.DataFrame,
    name: str,
    caption: str,
    columns: Sequence[str],
    placed: pd.DataFrame | None = None,
    decimals: int = 1,
) -> Table:
    """`lines` with the rank of each method, the best first; its name and rank once only.

    columns  of the table; the last is the one that the ranks are of
    placed   of `hypo.paper.ranks`, None for numbers that the paper does not have
    """
    by = columns[-1]
    printed = found[(found["who"] == "paper") & (found["column"] == by)]
    order = printed.sort_values("value", ascending=False, kind="stable")["algorithm"]
    shown = lines(found, order, columns, decimals)
    if placed is not None:
        ranks = {paper.method_name(each): str(rank) for each, rank in placed[by]["rank"].items()}
        shown.insert(0, "rank", shown["method"].map(lambda name: ranks.get(name, "")))
    again = shown["method"].duplicated()
    for column in [column for column in ("rank", "method") if column in shown]:
        shown[column] = shown[column].mask(again, "")
    headings = {column: paper.NAMES.get(column, text.words(column)) for column in shown}
    if len(set(headings.values())) == len(headings):  # of the domains a_b and "a b", each keeps its own name
        shown = shown.rename(columns=headings)
    data = found.assign(settings=[text.settings(dict(pairs)) for pairs in found["settings"]])
    of = about([] if (found["who"] == "paper").all() else [name], paper=placed is not None)
    return Table(shown, name, caption, found["files"], data, labels=2 + (placed is not None), about=of)


def summary(frame: pd.DataFrame | None = None) -> Table:
    """Table 1: the average of each method on each benchmark, and ours."""
    frame = runs.load(at_defaults=True) if frame is None else frame
    own = [numbers(name, frame).query("who == 'ours' and column == 'average'").assign(column=name) for name in _all()]
    found = beside(paper.table("all"), pd.concat(own))
    caption = "Table 1: OOD accuracy in %, averaged over the held-out domains, ranked by the printed average. "
    return ranked(found, "table-1", caption + reading(found), [*_all(), "average"], paper.ranks("all"))


def rank_table() -> Table:
    """The rank of each method of Table 1 on each benchmark, by their average, and the mean of the ranks."""
    placed = paper.ranks("all").xs("rank", axis=1, level=1)
    placed["mean rank"] = placed[_all()].mean(axis=1)
    placed.index = pd.Index(placed.index.map(paper.names("all")), name="method")
    shown = placed.sort_values("mean rank", kind="stable").rename(columns=paper.NAMES | {"average": "by average"})
    caption = f"Ranks of the {len(shown)} methods of Table 1 by its printed numbers; equal numbers share a rank."
    return Table(shown, "ranks", caption, about=about([], paper=True))


def recent(frame: pd.DataFrame | None = None) -> Table:
    """Table 15: accuracy under Gaussian noise next to two recent methods."""
    frame = runs.load(at_defaults=True) if frame is None else frame
    ours = numbers("cifar10", frame).query("who == 'ours' and column == 'gaussian_noise' and algorithm == 'hypo'")
    found = beside(paper.table("cifar10c"), ours)
    caption = f"Table 15: accuracy in % under Gaussian noise on CIFAR-10. {reading(found)}"
    placed = paper.ranks("cifar10c", by="gaussian_noise")
    return ranked(found, "table-15", caption, ["gaussian_noise"], placed, decimals=2)


def standing(label: str, algorithm: str = "hypo", column: str = "average") -> str:
    """One sentence: the rank of a method in a column of the paper's table, and who is ahead of it."""
    placed, names = paper.ranks(label, by=column)[column], paper.names(label)
    own = placed.loc[one_of("method", algorithm, names)]
    ahead = [f"{names[name]} {row['value']:.1f}" for name, row in placed.iterrows() if row["rank"] < own["rank"]]
    behind = f", behind {text.listed(ahead)}" if ahead else ""
    return f"{names[algorithm]}'s {own['value']:.1f} is {text.ordinal(int(own['rank']))} of {len(placed)}{behind}."


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
    return Table(shown, "disagreements", caption, decimals=2, labels=2, about=about([], paper=True))


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
    said = "Ours: mean ± standard deviation over n seeds, selected on training-domain validation"
    if ours["difference"].notna().any():
        said += "; ours − paper's in points; a method without a line of ours was not run"
    return f"{said}."


def _defaults_first(values: pd.Series) -> pd.Series:
    return values.map(["", *SCALES].index if values.name == "scale" else len)


def _all() -> list[str]:
    return paper.columns(paper.table("all"))


def _tests(benchmark: str) -> str:
    return "corruption (mean over severities)" if benchmark == "cifar10" else "held-out domain"


def _single(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per run and column, the mean over severities; `settings` are what the run changes, as sorted pairs."""
    every = runs.accuracies(frame).query("column != 'clean'")
    every = every.assign(settings=[tuple(sorted(own.items())) for own in every["changed"]])
    keys = [*BY, "seed", "held_out", "column"]
    parts = {"value": ("value", "mean"), "failed": ("failed", "any"), "files": ("files", "first")}
    return every.groupby(keys, sort=False).agg(**parts).reset_index()
