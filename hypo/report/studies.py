"""Settings compared run by run: the paper's ablations, its tables with SWAD and its sweeps, next to ours; and controls.

A setting is one of `hypo.runs`: fields of the configuration and a rule of selection. Differences are between runs with
the same data, scale, held-out domain, seed and split, and their intervals are stratified by held-out domain.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

import pandas as pd
import yaml

from hypo import paper, runs
from hypo.report import text
from hypo.report.benchmarks import beside, columns_of, lines, reading
from hypo.report.table import PAPER, Table
from hypo.runs import KEYS, Setting
from hypo.suggest import one_of

BY = ["benchmark", "scale", "data"]
"""What one source of ours has in common."""


class Study(NamedTuple):
    """One table or figure of the paper, or one of ours.

    title      "Table 11", or what ours is called
    variants   name here -> name as printed ("" where the paper prints none), and the setting that makes it
    contrasts  name of a difference -> the two variants, first minus second
    """

    title: str
    benchmark: str
    variants: dict[str, tuple[str, Setting]]
    contrasts: dict[str, tuple[str, str]]


STUDIES = {
    label: Study(
        given["title"] if "title" in given else paper.NUMBERS[label],
        given["benchmark"],
        {name: (each.get("printed", ""), each["setting"]) for name, each in given["variants"].items()},
        given["contrasts"],
    )
    for label, given in yaml.safe_load((files("hypo.report") / "studies.yml").read_text(encoding="utf-8")).items()
}
"""Label of the paper's table or figure, or of ours -> what it compares."""


def numbers(label: str, frame: pd.DataFrame, benchmark: str | None = None) -> pd.DataFrame:
    """The paper's numbers of a study and ours, one row per number, in percent or percentage points.

    benchmark  whose runs to take: the study's own where None, with the paper's numbers; else without them
    row        a variant or a contrast; who: "paper" or "ours"; scale, data (version of the images): where from
    column     the held-out domain, or "average" over all of them
    value      of a variant the mean over seeds (the average: over the seeds that have every domain); of a contrast the
               mean of paired differences (the average: over domains, where each has a pair)
    sd, low, high, n, failed, starts_at_first, origins as of `summarise`; difference: ours minus the paper's
    """
    study = STUDIES[one_of("study", label, STUDIES)]
    here = frame[(frame["benchmark"] == (benchmark or study.benchmark)) & (frame["held_out"] != "")]
    columns, parts = columns_of(study.benchmark, here), []
    for name, (_, setting) in study.variants.items():
        single = runs.values(here, setting, "ood_accuracy").assign(column=lambda each: each["held_out"])
        parts += [part.assign(row=name) for part in (single, runs.averages(single, columns, [*BY, "seed"]))]
    for name, sides in study.contrasts.items():
        single = runs.leads(here, *(study.variants[side][1] for side in sides)).assign(row=name)
        whole = single[single.groupby(BY)["held_out"].transform("nunique") == len(columns)]
        parts += [single.assign(column=single["held_out"]), whole.assign(column="average")]
    ours = runs.summarise(pd.concat(parts), ["row", "scale", "data", "column"])
    return beside(_printed(label, study) if benchmark is None else _printed(label, study)[:0], ours, "row")


def _any_printed(study: Study) -> bool:
    """Whether the paper prints a number of it; of Figure 7b it prints none, and some studies are ours."""
    return any(theirs for theirs, _ in study.variants.values())


def _printed(label: str, study: Study) -> pd.DataFrame:
    """What the paper prints of a study, its contrasts among it: row, column, value, spread."""
    table = paper.table(label) if _any_printed(study) else paper.table("alpha")[:0]
    values = table.set_index(["method", "column"])["value"]
    rows = {name: values[theirs] for name, (theirs, _) in study.variants.items() if theirs in values.index}
    known = {name: sides for name, sides in study.contrasts.items() if {*sides} <= {*rows}}
    rows |= {name: rows[a] - rows[b] for name, (a, b) in known.items()}
    long = [row.rename("value").reset_index().assign(row=name) for name, row in rows.items()]
    return pd.concat([pd.DataFrame(columns=["row", "column", "value"]), *long]).assign(spread=float("nan"))


def table(label: str, frame: pd.DataFrame | None = None, benchmark: str | None = None) -> Table:
    """The paper's numbers with ours below each line, then the differences between variants; `numbers` as text."""
    frame, study = runs.load() if frame is None else frame, STUDIES[label]
    found = numbers(label, frame, benchmark)
    names = {name: name for name in (*study.variants, *study.contrasts)}
    columns = ["average", *columns_of(study.benchmark, frame)]
    if (found["who"] == "ours").all():
        columns = [column for column in columns if column in {*found["column"]}]
    shown = lines(found, names, columns, "row", contrasts=study.contrasts).rename(columns=text.words)
    caption = (
        f"{'As in ' if benchmark and _any_printed(study) else ''}{study.title}: OOD accuracy in % on "
        f"{text.data(benchmark or study.benchmark)} by held-out domain. "
        f"{reading(found)}{_paired(found[found['row'].isin([*study.contrasts])])}"
    )
    name = "-".join([*study.title.lower().split(), *([benchmark] if benchmark else [])])
    also = (PAPER,) if (found["who"] == "paper").any() else ()
    return Table(shown, name, caption, found["origins"], found.drop(columns="settings"), also=also)


def _paired(found: pd.DataFrame) -> str:
    """How our differences are to be read, and over how many pairs of runs; nothing where there are none."""
    counts = found.loc[(found["who"] == "ours") & (found["column"] != "average"), "n"]
    if counts.empty:
        return ""
    n = " to ".join(dict.fromkeys(f"{count:.0f}" for count in (counts.min(), counts.max())))
    return (
        f" Differences are in points, over n = {n} pair{'' if n == '1' else 's'} of runs that share seed and split "
        f"for each held-out domain{'' if counts.max() == 1 else ', with 95% intervals'}."
    )


def contrasts(labels: Sequence[str], frame: pd.DataFrame, benchmark: str | None = None) -> pd.DataFrame:
    """The contrasts of several studies, one row for each source: the average where there is one, else the domain with
    the most pairs."""
    every = pd.concat([numbers(label, frame, benchmark) for label in labels], ignore_index=True)
    names = [name for label in labels for name in STUDIES[label].contrasts]
    rows = every[every["row"].isin(names)].assign(first=lambda line: line["column"] == "average")
    rows = rows.sort_values(["first", "n"], ascending=False, kind="stable")
    chosen = rows.drop_duplicates(["row", "who", "scale", "data"]).drop(columns=["first", "settings"])
    return chosen.sort_index(kind="stable").reset_index(drop=True)


def sweep(frame: pd.DataFrame, field: str, measure: str = "ood_accuracy") -> pd.DataFrame:
    """A measure of runs that change nothing but `field`, at the places that every value of it has in common.

    Returns  one row per run: KEYS, value, failed, origins, the field's value; left_out: how many runs with this value
             stand at a place (KEYS) that another value lacks, and are not among them
    """
    grid = sorted({*frame.get(field, pd.Series(dtype=float)).dropna()})
    parts = [runs.values(frame, {field: value}, measure).assign(**{field: value}) for value in grid]
    parts = [part for part in parts if len(part)]
    if not parts:
        return runs.values(frame[:0], {}, measure).assign(**{field: 0.0, "left_out": 0})
    shared = functools.reduce(lambda one, other: one.merge(other[KEYS]), parts)
    kept = [at_places(part, shared) for part in parts]
    gone = [len(part) - len(own) for part, own in zip(parts, kept, strict=True)]
    return pd.concat([own.assign(left_out=n) for own, n in zip(kept, gone, strict=True)], ignore_index=True)


def at_places(single: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Those of single values whose data, scale, held-out domain, seed and split (KEYS) are among those of `others`."""
    return single.merge(others[KEYS].drop_duplicates(), on=KEYS)


def like_for_like(single: pd.DataFrame, field: str, symbol: str) -> str:
    """A sentence or two for the caption of a sweep: which runs each value has, and how many are left out."""
    if single.empty:
        return f"No domain and seed was run with every value of {symbol}, so there is no figure of it."
    domains = text.listed([text.words(domain) for domain in dict.fromkeys(single["held_out"])])
    seeds = sorted({*single["seed"]})
    each = f"seed{'s' if len(seeds) > 1 else ''} {text.listed([*map(str, seeds)])}"
    gone = single.drop_duplicates(field).set_index(field)["left_out"]
    without = text.listed([f"{n} at {symbol} = {value:g}" for value, n in gone.items() if n])
    less = f" Left out, as not every value has them: {without}." if without else ""
    return f"Every value of {symbol} has the same runs: {domains} held out, {each}.{less}" if len(gone) > 1 else ""
