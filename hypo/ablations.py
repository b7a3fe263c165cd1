"""Settings held against one another run by run: the paper's ablations, its sweeps and its tables with SWAD, and ours.

A setting is a dict of fields of a run's configuration; every other field is at its scale's default, the algorithm being
hypo. Differences are between runs with the same scale, held-out domain, seed, data and split.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from hypo import records, tables
from hypo.claims.runs import STAND_IN, Run, run_of, values
from hypo.config import SCALES
from hypo.publish import Table
from hypo.suggest import one_of

Setting = dict[str, Any]
KEYS = ["scale", "column", "seed", "data", "split"]
NAN = float("nan")


class Study(NamedTuple):
    """One table of the paper.

    variants   name here -> name as printed, and the setting that makes it
    contrasts  name of a difference -> the two variants, first less second
    """

    benchmark: str
    variants: dict[str, tuple[str, Setting]]
    contrasts: dict[str, tuple[str, str]]


def _with_swad(benchmark: str) -> Study:
    variants = {
        "ERM + SWAD": ("SWAD", {"algorithm": "erm", "swad": True}),
        "PCL + SWAD": ("PCL+SWAD", {"algorithm": "pcl", "swad": True}),
        "VNE + SWAD": ("VNE+SWAD", {"algorithm": "vne", "swad": True}),
        "HYPO + SWAD": ("HYPO+SWAD (Ours)", {"swad": True}),
    }
    contrasts = {f"HYPO − {other}": ("HYPO + SWAD", f"{other} + SWAD") for other in ("ERM", "PCL", "VNE")}
    return Study(benchmark, variants, contrasts)


STUDIES = {
    "ablation-sep": Study(
        "pacs",
        {
            "without separation loss": ("Ours (w/o separation loss)", {"separation": False}),
            "with separation loss": ("Ours (w separation loss)", {}),
        },
        {"separation loss: with − without": ("with separation loss", "without separation loss")},
    ),
    "hard-negative": Study(
        "pacs",
        {
            "without hard negatives": ("Ours (w/o hard negative pairs)", {"hard_negatives": False}),
            "with hard negatives": ("Ours (w hard negative pairs)", {}),
        },
        {"hard negatives: with − without": ("with hard negatives", "without hard negatives")},
    ),
    "ema-lp": Study(
        "pacs",
        {
            "learnable prototypes": ("Ours (LP)", {"prototypes": "learnable"}),
            "moving averages": ("Ours (EMA)", {}),
        },
        {"prototypes: averages − learnable": ("moving averages", "learnable prototypes")},
    ),
    "pcl-swad": Study(
        "pacs",
        {
            "PCL": ("PCL w/ SGD", {"algorithm": "pcl"}),
            "HYPO": ("HYPO w/ SGD (Ours)", {}),
            "PCL + SWAD": ("PCL w/ SWAD", {"algorithm": "pcl", "swad": True}),
            "HYPO + SWAD": ("HYPO w/ SWAD (Ours)", {"swad": True}),
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


def read(folder: str | os.PathLike[str] | None = None) -> list[Run]:
    """Every run that is recorded."""
    return [run_of(Path(folder or records.folder()) / name, record) for name, record in records.read_all(folder)]


def at(runs: list[Run], benchmark: str, scale: str, held_out: str | None = None) -> list[Run]:
    """The runs on a benchmark at a scale, of every held-out domain or of one."""
    wanted = benchmark, scale
    some = [run for run in runs if (run.record["benchmark"]["name"], run.record["config"]["scale"]) == wanted]
    return [run for run in some if held_out in (None, run.record["config"]["held_out"])]


def at_defaults(algorithm: str, runs: list[Run] | None = None) -> pd.DataFrame:
    """Runs of an algorithm at their scale's defaults: benchmark, scale, held_out, seed, id, ood, epsilon_hat, file."""
    chosen = [run for run in (read() if runs is None else runs) if not run.changed]
    rows = [
        {name: run.record["config"][name] for name in ("benchmark", "scale", "held_out", "seed")}
        | {short: final[name] for short, name in (("id", "id_accuracy"), ("ood", "ood_accuracy"))}
        | {"epsilon_hat": final["epsilon_hat"], "file": run.path.name}
        for run in chosen
        for final in [run.record["final"]["validation"]]
        if run.record["config"]["algorithm"] == algorithm
    ]
    return pd.DataFrame(rows, columns=["benchmark", "scale", "held_out", "seed", "id", "ood", "epsilon_hat", "file"])


def fallen(runs: list[Run], below: float = 0.5) -> str:
    """One sentence: which settings have runs that did not come off, with validation accuracy under `below`."""
    counts: dict[str, list[bool]] = {}
    for run in runs:
        config = run.record["config"]
        words = [config["algorithm"], *(f"{field}={value}" for field, value in run.changed.items())]
        place = f"{config['benchmark']}, {config['held_out'] or 'corruptions'}: {' '.join(words)}"
        counts.setdefault(place, []).append(run.record["final"]["validation"]["validation_accuracy"] < below)
    shown = [f"{place} ({sum(failed)} of {len(failed)})" for place, failed in counts.items() if any(failed)]
    listed = "; ".join(shown) or "none"
    return f"Runs under {below:.0%} validation accuracy, whose differences are about failing to train: {listed}."


def accuracies(runs: list[Run], benchmark: str, setting: Setting) -> pd.DataFrame:
    """OOD accuracy in percent of each run with this setting: KEYS (column: the held-out domain), value, files."""
    rows = [
        (scale, *key, value, file)
        for scale in SCALES
        for key, (value, file) in values(at(runs, benchmark, scale), setting, "ood_accuracy").items()
        if key[0]  # a domain was held out
    ]
    return pd.DataFrame(rows, columns=[*KEYS, "value", "files"])


def differences(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """`accuracies` of the first less those of the second, of the runs that both have."""
    both = first.merge(second, on=KEYS, suffixes=("", "_second"))
    value, files = both["value"] - both["value_second"], both["files"] + " " + both["files_second"]
    return both[KEYS].assign(value=value, files=files)


def summary(single: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """Mean, standard error (NaN for one) and number of seeds by scale and column, "average" being over all columns.

    Only seeds that have every column take part in the average.
    """
    columns = [*columns]
    whole = single[single["column"].isin(columns)].groupby(["scale", "seed"], sort=False)
    averages = [
        {"scale": scale, "column": "average", "value": rows["value"].mean(), "files": " ".join(rows["files"])}
        for (scale, _), rows in whole
        if sorted(rows["column"]) == sorted(columns)
    ]
    every = pd.concat([single, pd.DataFrame(averages, columns=["scale", "column", "value", "files"])])
    grouped = every.groupby(["scale", "column"], sort=False)
    parts = {
        "value": ("value", "mean"),
        "spread": ("value", "sem"),
        "n": ("value", "size"),
        "files": ("files", " ".join),
    }
    return grouped.agg(**parts).reset_index()


def cells(label: str, runs: list[Run]) -> pd.DataFrame:
    """The numbers behind `table`, one a line, in percent or percentage points.

    row     a variant or a contrast
    source  "paper, <data>" or "ours, <data>, <scale> scale"; "ours, <data>" where nothing was run
    column  the held-out domain, or "average" over all of them; empty on the lines that say that a source was looked for
    value, spread (standard error over seeds), n, difference (ours less the paper's, on its data only), files
    """
    study = STUDIES[one_of("table", label, STUDIES)]
    paper = tables.paper(label).set_index(["algorithm", "column"])["value"]
    columns = [*dict.fromkeys(column for _, column in paper.index)]
    printed = {name: paper[theirs] for name, (theirs, _) in study.variants.items()}
    printed |= {name: printed[a] - printed[b] for name, (a, b) in study.contrasts.items()}
    rows = [
        (name, f"paper, {tables.NAMES[study.benchmark]}", column, numbers[column], NAN, 0, NAN, "")
        for name, numbers in printed.items()
        for column in columns
    ]
    for data in filter(None, (study.benchmark, STAND_IN.get(study.benchmark))):
        ours = _ours(study, data, runs, [column for column in columns if column != "average"])
        scales = [scale for scale in SCALES if (ours["scale"] == scale).any()]
        for line in ours.itertuples():
            gap = line.value - printed[line.row].get(line.column, NAN) if data == study.benchmark else NAN
            source = _source(data, line.scale)
            rows.append((line.row, source, line.column, line.value, line.spread, line.n, gap, line.files))
        sources = [_source(data, scale) for scale in scales] or [_source(data)]
        rows += [(name, source, "", NAN, NAN, 0, NAN, "") for source in sources for name in study.variants]
    table = pd.DataFrame(rows, columns=["row", "source", "column", "value", "spread", "n", "difference", "files"])
    table.attrs = {"columns": columns, "variants": [*study.variants], "contrasts": [*study.contrasts]}
    return table


def _source(data: str, scale: str | None = None) -> str:
    return f"ours, {tables.NAMES[data]}" + (f", {scale} scale" if scale else "")


def _ours(study: Study, data: str, runs: list[Run], columns: list[str]) -> pd.DataFrame:
    """`summary` of each variant and contrast on one data set, named in the column `row`."""
    single = {name: accuracies(runs, data, setting) for name, (_, setting) in study.variants.items()}
    single |= {name: differences(single[a], single[b]) for name, (a, b) in study.contrasts.items()}
    return pd.concat([summary(values, columns).assign(row=name) for name, values in single.items()])


def table(label: str, runs: list[Run]) -> Table:
    """The paper's table of this label and ours in rows of their own, each with the differences between variants."""
    numbers = cells(label, runs)
    columns, variants, contrasts = (numbers.attrs[key] for key in ("columns", "variants", "contrasts"))
    rows = []
    for source, block in numbers.groupby("source", sort=False):
        lines = {name: line.set_index("column").reindex(columns) for name, line in block.groupby("row", sort=False)}
        for name in variants:
            rows.append(_row(name, source, lines[name], "" if source.startswith("paper") else "not run"))
            if lines[name]["difference"].notna().any():
                gap = lines[name].assign(value=lines[name]["difference"], spread=NAN)
                rows.append(_row(f"{name}: ours − paper's", source, gap, sign=True))
        rows += [_row(name, source, lines[name], sign=True) for name in contrasts if name in lines]
    frame = pd.DataFrame(rows).rename(columns=lambda name: name.replace("_", " "))
    caption = (
        f"The paper's Table {label}: OOD accuracy in % by held-out domain. Ours: the weights chosen on training-domain "
        "validation, mean ± standard error over n seeds. Differences are in points; between variants of ours, over "
        "pairs of runs that share domain, seed and split."
    )
    return Table(frame, label, caption, [*numbers["files"]], numbers[numbers["value"].notna()])


def _row(name: str, source: str, line: pd.DataFrame, missing: str = "", sign: bool = False) -> dict[str, str]:
    counts = sorted({int(n) for n in line["n"].dropna() if n})
    shown = {
        column: _shown(value, spread, sign, missing) + f" (n={n:.0f})" * (len(counts) > 1 and n > 0)
        for column, value, spread, n in zip(line.index, line["value"], line["spread"], line["n"], strict=True)
    }
    return {"variant": name, "numbers": source, "n": str(counts[0]) if len(counts) == 1 else ""} | shown


def _shown(value: float, spread: float, sign: bool = False, missing: str = "") -> str:
    if value != value:
        return missing
    return f"{value:{'+' if sign else ''}.1f}".replace("-", "−") + (f" ± {spread:.1f}" if spread == spread else "")


def contrasts(labels: Sequence[str], runs: list[Run]) -> pd.DataFrame:
    """The lines of `cells` that are differences between variants, one for each source.

    Of the average where a source has one, else of the held-out domain that most runs have.
    """
    every = pd.concat([cells(label, runs) for label in labels], ignore_index=True)
    names = [name for label in labels for name in STUDIES[label].contrasts]
    rows = every[every["row"].isin(names)].assign(first=lambda line: line["column"] == "average")
    rows = rows.sort_values(["first", "n"], ascending=False, kind="stable").drop_duplicates(["row", "source"])
    return rows.drop(columns="first").sort_index(kind="stable").reset_index(drop=True)


def gains(runs: list[Run], benchmark: str, setting: Setting, algorithms: Iterable[str]) -> Table:
    """What a setting adds to each algorithm: its accuracy less that without it, by scale and held-out domain."""
    lines = []
    for name in algorithms:
        own = {"algorithm": name}
        paired = differences(accuracies(runs, benchmark, own | setting), accuracies(runs, benchmark, own))
        lines.append(summary(paired, []).assign(algorithm=name))
    numbers = pd.concat(lines)
    named = {"column": "held out", "value": "gain (points)", "spread": "standard error"}
    frame = numbers[["algorithm", "scale", *named, "n"]].rename(columns=named)
    setting_words = ", ".join(f"{field}={value}" for field, value in setting.items())
    caption = (
        f"{tables.NAMES[benchmark]}: OOD accuracy with {setting_words} less that without, over runs of the same seed; "
        f"looked for: {', '.join(algorithms)}. What is not listed was not run."
    )
    return Table(frame, f"gain-{'-'.join(setting)}-{benchmark}", caption, [*numbers["files"]])


def sweep(runs: list[Run], field: str, benchmark: str) -> pd.DataFrame:
    """`accuracies` at each value of `field`, those of GRID and any other that is recorded, in a column of its name."""
    grid = sorted({*GRID[field], *(run.record["config"][field] for run in runs)})
    parts = [accuracies(runs, benchmark, {field: value}).assign(**{field: value}) for value in grid]
    return pd.concat(parts, ignore_index=True)


def sweep_table(single: pd.DataFrame, field: str, default: float, what: str) -> Table:
    """`sweep` by value: mean ± standard error, n, and the difference to the paper's setting in the same seeds."""
    base, rows = single[single[field] == default], []
    for value in sorted({*GRID[field], *single[field]}):
        own = single[single[field] == value]
        gaps = differences(own, base)["value"] if value != default else pd.Series(dtype=float)
        row = {"value": own["value"].mean(), "spread": own["value"].sem(), "n": len(own)}
        rows.append({field: value} | row | {"difference": gaps.mean(), "difference_spread": gaps.sem()})
    numbers = pd.DataFrame(rows)
    shown = pd.DataFrame(
        {
            field: [f"{value:g}" + ", the paper's" * (value == default) for value in numbers[field]],
            "accuracy (%)": [_shown(r.value, r.spread, missing="not run") for r in numbers.itertuples()],
            "n": numbers["n"].astype(str),
            f"less that at {default:g} (points)": [
                _shown(r.difference, r.difference_spread, sign=True) for r in numbers.itertuples()
            ],
        }
    )
    caption = f"{what}: OOD accuracy, mean ± standard error over n seeds; differences between runs of the same seed."
    return Table(shown, f"{field}-by-value", caption, [*single["files"]], numbers)
