"""Settings compared run by run: the paper's ablations, its tables with SWAD and its sweeps, next to ours.

A setting is one of `hypo.runs`: fields of the configuration and a rule of selection. Differences are between runs with
the same data, scale, held-out domain, seed and split, and their intervals are stratified by held-out domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from hypo import paper, runs
from hypo.config import SCALES
from hypo.report import text
from hypo.report.table import Table, about
from hypo.runs import Setting
from hypo.suggest import one_of

BY = ["benchmark", "scale", "data"]
"""What one source of ours has in common."""


class Study(NamedTuple):
    """One table of the paper.

    variants   name here -> name as printed, and the setting that makes it
    contrasts  name of a difference -> the two variants, first minus second
    """

    benchmark: str
    variants: dict[str, tuple[str, Setting]]
    contrasts: dict[str, tuple[str, str]]


def _two(first: tuple[str, str, Setting], second: tuple[str, str, Setting], contrast: str) -> Study:
    """A study on PACS of two variants (name, name as printed, setting): what the second adds to the first."""
    variants = {name: (printed, setting) for name, printed, setting in (first, second)}
    return Study("pacs", variants, {contrast: (second[0], first[0])})


def _with_swad(benchmark: str) -> Study:
    swad: Setting = {"rule": "swad"}
    variants = {
        "ERM + SWAD": ("SWAD", {"algorithm": "erm"} | swad),
        "PCL + SWAD": ("PCL+SWAD", {"algorithm": "pcl"} | swad),
        "VNE + SWAD": ("VNE+SWAD", {"algorithm": "vne"} | swad),
        "HYPO + SWAD": ("HYPO+SWAD (Ours)", swad),
    }
    contrasts = {f"HYPO − {other}": ("HYPO + SWAD", f"{other} + SWAD") for other in ("ERM", "PCL", "VNE")}
    return Study(benchmark, variants, contrasts)


STUDIES = {
    "ablation-sep": _two(
        ("without separation loss", "Ours (w/o separation loss)", {"separation": False}),
        ("with separation loss", "Ours (w separation loss)", {}),
        "separation loss: with − without",
    ),
    "hard-negative": _two(
        ("without hard negatives", "Ours (w/o hard negative pairs)", {"hard_negatives": False}),
        ("with hard negatives", "Ours (w hard negative pairs)", {}),
        "hard negatives: with − without",
    ),
    "ema-lp": _two(
        ("learnable prototypes", "Ours (LP)", {"prototypes": "learnable"}),
        ("moving averages", "Ours (EMA)", {}),
        "prototypes: averages − learnable",
    ),
    "pcl-swad": Study(
        "pacs",
        {
            "PCL": ("PCL w/ SGD", {"algorithm": "pcl"}),
            "HYPO": ("HYPO w/ SGD (Ours)", {}),
            "PCL + SWAD": ("PCL w/ SWAD", {"algorithm": "pcl", "rule": "swad"}),
            "HYPO + SWAD": ("HYPO w/ SWAD (Ours)", {"rule": "swad"}),
        },
        {
            "HYPO − PCL": ("HYPO", "PCL"),
            "both with SWAD: HYPO − PCL": ("HYPO + SWAD", "PCL + SWAD"),
            "HYPO: with SWAD − without": ("HYPO + SWAD", "HYPO"),
        },
    ),
    "officehome-swad": _with_swad("office_home"),
    "vlcs-swad": _with_swad("vlcs"),
    "terra-swad": _with_swad("terra_incognita"),
}
"""Label of the paper's table -> what it compares."""

GRID = {"momentum": (0.5, 0.8, 0.9, 0.95, 0.99), "temperature": (0.05, 0.1, 0.2, 0.5, 0.9)}
"""Values of alpha and tau that are run here. The paper names 0.95 and 0.1, its defaults, and 0.9 for tau."""


def numbers(label: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The paper's numbers of a study and ours, one row per number, in percent or percentage points.

    row     a variant or a contrast; contrast: which of the two
    who     "paper" or "ours"; benchmark, scale, data (version of the images): where from
    column  the held-out domain, or "average" over all of them
    value   of a variant the mean over seeds (the average: over the seeds that have every domain); of a contrast the
            mean of paired differences (the average: over domains, where each has a pair)
    sd, low, high, n, failed, starts_at_first, files as of `summarise`; low and high are the interval of a contrast
    difference  ours minus the paper's, on its own benchmark only
    """
    study = STUDIES[one_of("study", label, STUDIES)]
    printed = paper.table(label)
    values = printed.set_index(["method", "column"])["value"]
    rows = {name: values[theirs] for name, (theirs, _) in study.variants.items()}
    rows |= {name: rows[a] - rows[b] for name, (a, b) in study.contrasts.items()}
    theirs = pd.concat([row.rename("value").reset_index().assign(row=name) for name, row in rows.items()])
    theirs = theirs.assign(
        who="paper", benchmark=study.benchmark, scale="", data="", n=0, failed=0, starts_at_first=0, files=""
    )
    like = ["pacs", "digits"] if study.benchmark == "pacs" else [study.benchmark]  # four styles for four domains
    here, columns = frame[frame["benchmark"].isin(like) & (frame["held_out"] != "")], paper.columns(printed)
    ours = pd.concat([*_variants(study, here, columns), *_contrasts(study, here, columns)])
    theirs = theirs.reindex(columns=[*ours, "who"])
    found = pd.concat([theirs, ours.assign(who="ours")] if len(ours) else [theirs], ignore_index=True)
    own = zip(found["row"], found["column"], strict=True)
    gaps = found["value"] - [rows[row].get(column, float("nan")) for row, column in own]
    comparable = (found["who"] == "ours") & (found["benchmark"] == study.benchmark)
    return found.assign(contrast=found["row"].isin(study.contrasts), difference=gaps.where(comparable))


def _variants(study: Study, frame: pd.DataFrame, columns: list[str]) -> Iterable[pd.DataFrame]:
    for name, (_, setting) in study.variants.items():
        single = runs.values(frame, setting, "ood_accuracy").assign(column=lambda each: each["held_out"])
        whole = runs.averages(single, columns, [*BY, "seed"])
        yield runs.summarise(pd.concat([single, whole]), [*BY, "column"]).assign(row=name)


def _contrasts(study: Study, frame: pd.DataFrame, columns: list[str]) -> Iterable[pd.DataFrame]:
    for name, (first, second) in study.contrasts.items():
        sides = [runs.values(frame, study.variants[side][1], "ood_accuracy") for side in (first, second)]
        single = runs.paired(*sides).assign(column=lambda pair: pair["held_out"])
        domains = single.groupby(BY)["held_out"].transform("nunique")
        whole = single[domains == len(columns)].assign(column="average")
        yield runs.summarise(pd.concat([single, whole]), [*BY, "column"]).assign(row=name)


def table(label: str, frame: pd.DataFrame | None = None) -> Table:
    """The paper's table and ours in rows of their own, each with the differences between variants."""
    found, study = numbers(label, runs.load() if frame is None else frame), STUDIES[label]
    columns = [*paper.columns(paper.table(label)), "average"]
    ours = found[found["who"] == "ours"]
    own = sorted(ours[BY].drop_duplicates().itertuples(index=False), key=lambda key: _order(study, *key))
    if study.benchmark not in {key.benchmark for key in own}:
        own.insert(0, (study.benchmark, "", ""))
    rows = []
    for who, key in [("paper", (study.benchmark, "", "")), *(("ours", key) for key in own)]:
        block = found[(found["who"] == who) & (found[BY] == [*key]).all(axis=1)]
        version = f"data {key[2][:8]}" if ours.groupby("benchmark")["data"].nunique().max() > 1 and key[2] else ""
        source = ", ".join(filter(None, [who, text.data(key[0]), key[1] and f"{key[1]} scale", version]))
        for name in [*study.variants, *study.contrasts]:
            line = block[block["row"] == name].set_index("column").reindex(columns)
            if name in study.contrasts and line["value"].isna().all():
                continue
            shown = text.difference if name in study.contrasts else text.cell
            cells = {column: shown(each) for column, each in zip(columns, line.itertuples(), strict=True)}
            rows.append({"variant": name, "numbers": source, "n": _span(line["n"])} | cells)
            if name in study.variants and line["difference"].notna().any():
                gaps = {column: text.number(gap, sign=True) for column, gap in line["difference"].items()}
                rows.append({"variant": f"{name}: ours − paper's", "numbers": source, "n": ""} | gaps)
    caption = (
        f"{paper.NUMBERS[label]}: OOD accuracy in % by held-out domain. Ours: mean ± standard deviation over n seeds. "
        "Differences are in points, over n pairs of runs that share domain, seed and split, with 95% intervals."
    )
    name, of = paper.NUMBERS[label].replace(" ", "-").lower(), about(ours["benchmark"], paper=True)
    shown = pd.DataFrame(rows).rename(columns=text.words)
    return Table(shown, name, caption, found["files"], found, labels=2, about=of)


def _span(counts: pd.Series) -> str:
    """The number of values behind a line: 3, or 3 to 12; nothing for the paper's."""
    ours = counts[counts > 0]
    return " to ".join(f"{n:.0f}" for n in sorted({ours.min(), ours.max()})) if len(ours) else ""


def _order(study: Study, benchmark: str, scale: str, _data: str) -> tuple[bool, int]:
    """The study's own benchmark before the digits, larger scales before smaller ones."""
    return benchmark != study.benchmark, -SCALES.index(scale)


def contrasts(labels: Sequence[str], frame: pd.DataFrame) -> pd.DataFrame:
    """The contrasts of several studies, one row for each source: the average where there is one, else the domain with
    the most pairs."""
    every = pd.concat([numbers(label, frame) for label in labels], ignore_index=True)
    rows = every[every["contrast"]].assign(first=lambda line: line["column"] == "average")
    rows = rows.sort_values(["first", "n"], ascending=False, kind="stable")
    chosen = rows.drop_duplicates(["row", "who", *BY]).drop(columns="first").sort_index(kind="stable")
    return chosen.reset_index(drop=True)


def gains(frame: pd.DataFrame, setting: Setting, what: str, algorithms: Iterable[str]) -> Table:
    """What a setting, called `what`, adds to each algorithm on each benchmark and held-out domain, in paired runs."""
    parts = []
    for name in algorithms:
        sides = [runs.values(frame, {"algorithm": name} | own, "ood_accuracy") for own in (setting, {})]
        parts.append(runs.paired(*sides).assign(algorithm=name))
    found = runs.summarise(pd.concat(parts), ["algorithm", *BY, "held_out"])
    shown = pd.DataFrame(
        {
            "method": found["algorithm"],
            "data": [text.data(name) for name in found["benchmark"]],
            "scale": found["scale"],
            "held out": [text.words(name) or "corruptions" for name in found["held_out"]],
            "gain (points)": [text.difference(line) for line in found.itertuples()],
            "n": found["n"],
        }
    )
    caption = (
        f"OOD accuracy with {what} minus that without, in points with 95% intervals, over runs of the same seed; "
        f"looked for: {text.listed([*algorithms])}. What is not listed was not run."
    )
    of = about(found["benchmark"])
    return Table(shown, "gains", caption, found["files"], found, labels=4, about=of)


def sweep(frame: pd.DataFrame, field: str) -> pd.DataFrame:
    """OOD accuracy of each run that changes nothing but `field`: KEYS, value, failed, files, and the field's value."""
    grid = sorted({*GRID[field], *frame.get(field, pd.Series(dtype=float)).dropna()})
    parts = [runs.values(frame, {field: value}, "ood_accuracy").assign(**{field: value}) for value in grid]
    return pd.concat(parts, ignore_index=True)


def sweep_table(single: pd.DataFrame, field: str, default: float, what: str) -> Table:
    """`sweep` by value: mean ± standard deviation, n, and the difference to the paper's setting in the same seeds."""
    grid, base = sorted({*GRID[field], *single[field]}), single[single[field] == default]
    pairs = [runs.paired(single[single[field] == value], base).assign(**{field: value}) for value in grid]
    alone, gaps = (runs.summarise(part, [field]).set_index(field).reindex(grid) for part in (single, pd.concat(pairs)))
    shown = pd.DataFrame(
        {
            field: [f"{value:g}, the paper's" if value == default else f"{value:g}" for value in grid],
            "accuracy (%)": [text.cell(line) for line in alone.itertuples()],
            "n": alone["n"].fillna(0).astype(int).to_numpy(),
            f"minus the accuracy at {default:g} (points)": [
                "" if line.Index == default else text.difference(line) for line in gaps.itertuples()
            ],
        }
    )
    caption = (
        f"{what}: OOD accuracy, mean ± standard deviation over n seeds; differences between runs of the same seed with "
        "95% intervals."
    )
    found = alone.join(gaps[["value", "low", "high"]].add_prefix("difference_")).reset_index()
    return Table(shown, f"{field}-by-value", caption, single["files"], found, about=about(single["benchmark"]))


def failures(frame: pd.DataFrame) -> str:
    """One sentence: which settings have runs that failed to train."""
    named = frame.assign(settings=[text.settings(own) for own in frame["changed"]])
    said = []
    for key, group in named.groupby(["benchmark", "held_out", "algorithm", "settings"], sort=False):
        if group["failed"].any():
            benchmark, held_out, *setting = key
            where = f"{text.data(benchmark)}, {text.words(held_out) or 'corruptions'}"
            said.append(f"{where}: {' '.join(filter(None, setting))} ({group['failed'].sum()} of {len(group)})")
    return f"Runs that failed to train: {'; '.join(said) or 'none'}."
