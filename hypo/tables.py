"""The paper's tables beside ours: the printed number, our mean ± standard error over seeds, and the difference."""

from __future__ import annotations

import dataclasses
import os
import re
import textwrap
from typing import Any

import pandas as pd

from hypo import records
from hypo.config import SCALES, configure
from hypo.suggest import one_of

TABLES = {
    "pacs": "pacs",
    "office_home": "officehome",
    "vlcs": "vlcs",
    "terra_incognita": "terra",
    "cifar10": "fullcorruption",
    "digits": None,
}
"""Benchmark -> label of the paper's table of it."""

NAMES = {
    "pacs": "PACS",
    "office_home": "Office-Home",
    "vlcs": "VLCS",
    "terra_incognita": "Terra Incognita",
    "cifar10": "CIFAR-10",
    "imagenet100": "ImageNet-100",
    "digits": "the embedded digits",
}
"""Benchmark -> its name in prose."""

WIDTH = 110  # characters a line of `render`
NAN = float("nan")
CELL = ["algorithm", "source", "column", "value", "spread", "n", "difference", "files"]


def paper(label: str) -> pd.DataFrame:
    """The numbers that the paper prints under `label`, one a line: data/paper/<label>.csv, described beside it."""
    folder = records.home() / "paper"
    files = {path.stem: path for path in sorted(folder.glob("*.csv"))}
    if not files:
        raise FileNotFoundError(f"the paper's numbers are not at {folder}: work in a clone of the repository")
    return pd.read_csv(files[one_of("table", label, files)])


def registry_name(printed: str) -> str:
    """The registry's name of an algorithm from the paper's: HYPO (Ours) -> hypo, CE -> erm, I-Mixup -> i_mixup."""
    name = _label(printed)
    return "erm" if name == "CE" else re.sub(r"\W+", "_", name.lower())


def cells(name: str, folder: str | os.PathLike[str] | None = None, **filters: Any) -> pd.DataFrame:
    """The numbers behind `compare`, one a line, accuracies in percent.

    algorithm   the registry's name
    source      "paper", or "ours, <scale> scale" with the settings that are not the scale's defaults
    column      the held-out domain or the corruption (the mean over its severities), or "average" over all of them
    value       the paper's number, or the mean over seeds; an average is over the seeds that have every column
    spread      the paper's ±, or the standard error over seeds, NaN when there is one seed
    n           number of seeds, 0 for the paper's
    difference  ours less the paper's, in percentage points
    files       the records it was made from
    """
    benchmark, runs = _runs(name, folder, filters)
    printed = _printed(benchmark)
    domains = [domain for _, record in runs for domain in record["benchmark"]["domains"]]
    columns = list(dict.fromkeys(domains if printed.empty else printed["column"][printed["column"] != "average"]))
    expected = {(registry_name(line.algorithm), line.column): line.value for line in printed.itertuples()}
    rows = []
    for key, seeds in _by_seed(runs, columns).groupby(["algorithm", "source", "column"], sort=False):
        value, (algorithm, _, column) = seeds["value"].mean(), key
        difference = value - expected.get((algorithm, column), NAN)
        rows.append([*key, value, seeds["value"].sem(), len(seeds), difference, _names(seeds["files"])])
    notes = dict.fromkeys(note for _, record in runs for note in record["benchmark"]["notes"])
    table = beside(printed, pd.DataFrame(rows, columns=CELL))
    table.attrs |= {"benchmark": benchmark, "columns": [*columns, "average"], "notes": [*notes]}
    return table


def beside(printed: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Numbers of `paper` and, below them, numbers of ours, all in the form of `cells`."""
    rows = [
        [registry_name(line.algorithm), "paper", line.column, line.value, line.spread, 0, NAN, ""]
        for line in printed.itertuples()
    ]
    table = pd.DataFrame([*rows, *ours[CELL].itertuples(index=False)], columns=CELL)
    labels = {registry_name(algorithm): _label(algorithm) for algorithm in printed["algorithm"]}
    table.attrs = {"columns": [*dict.fromkeys(printed["column"])], "labels": labels}
    return table


def as_text(numbers: pd.DataFrame, decimals: int = 1) -> pd.DataFrame:
    """`cells` as text ready to be shown, one line a method and source: columns method, source, and those of the table.

    Below ours stands the difference; a method that was not run has a line that says so. A line never mixes scales,
    settings or data.
    """
    columns, labels = numbers.attrs["columns"], numbers.attrs["labels"]
    rows = []
    for algorithm in dict.fromkeys([*labels, *sorted(set(numbers["algorithm"]))]):
        label = labels.get(algorithm, algorithm)
        block = numbers[numbers["algorithm"] == algorithm]
        for source, line in block.groupby("source", sort=False):
            line = line.set_index("column").reindex(columns)
            counts = line["n"].dropna().unique()
            count = f", n={counts[0]:.0f}" if len(counts) == 1 and counts[0] else ""
            shown = [_show(cell, decimals, own_n=len(counts) > 1) for cell in line.itertuples()]
            rows.append([label, source + count, *shown])
            if line["difference"].notna().any():
                differences = [f"{x:+.{decimals}f}" if x == x else "" for x in line["difference"]]
                rows.append([label, source.replace("ours", "difference", 1), *differences])
        if set(block["source"]) <= {"paper"}:
            rows.append([label, "ours", *["not run"] * len(columns)])
    return pd.DataFrame(rows, columns=["method", "source", *columns])


def compare(name: str, folder: str | os.PathLike[str] | None = None, **filters: Any) -> pd.DataFrame:
    """The paper's table of a benchmark with ours below each of its rows, as text ready to be shown.

    name     a benchmark of TABLES or one found among the records, or the label of the paper's table of it
    folder   where the records lie; `hypo.records.folder()` by default
    filters  only runs whose configuration has these values: field=value or field=[values]

    A row never mixes scales, settings or data. `attrs` of the result holds its title and notes.
    """
    numbers = cells(name, folder, **filters)
    benchmark = numbers.attrs["benchmark"]
    shown = as_text(numbers, decimals=2 if benchmark == "cifar10" else 1)
    table = shown.set_index(shown.pop("method") + " (" + shown.pop("source") + ")")
    nothing = [] if (numbers["n"] > 0).any() else [f"No run of {benchmark} is recorded."]
    table.attrs = {"title": _title(benchmark), "notes": numbers.attrs["notes"] + nothing}
    return table


def render(table: pd.DataFrame) -> str:
    """`compare`'s table as plain text of at most WIDTH columns; one too wide is broken into blocks of columns."""
    labels = [textwrap.wrap(label, WIDTH // 2 - 8, subsequent_indent="    ") for label in table.index]
    margin = max((len(line) for label in labels for line in label), default=0)
    widths = {name: max(len(name), *table[name].map(len), 7) for name in table}
    blocks, room = [[]], WIDTH - margin
    for name, width in widths.items():
        if blocks[-1] and width + 2 > room:
            blocks, room = [*blocks, []], WIDTH - margin
        blocks[-1].append(name)
        room -= width + 2
    lines = textwrap.wrap(table.attrs["title"], WIDTH)
    for block in blocks if len(table) else ():
        lines += ["", " " * margin + "".join(f"  {name:>{widths[name]}}" for name in block)]
        for (first, *rest), (_, row) in zip(labels, table.iterrows(), strict=True):
            lines += [f"{first:<{margin}}" + "".join(f"  {row[name]:>{widths[name]}}" for name in block), *rest]
    for note in table.attrs["notes"]:
        lines += ["", *textwrap.wrap(note, WIDTH)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def facts(record: dict[str, Any]) -> dict[str, str]:
    """What a run came to, by name: each number with its data, scale, seed and selection rule."""
    config, cost, chosen = record["config"], record["cost"], record["final"]["validation"]
    name, sizes = record["benchmark"]["name"], record["split"]["sizes"]
    tested = config["held_out"] or "corruptions" + (f" ({chosen['corruptions']})" if chosen["corruptions"] else "")
    return {
        "run": f"{config['algorithm']} on {name}, {config['scale']} scale, seed {config['seed']}",
        "model": f"{config['backbone']} at {config['size']} px, {config['epochs']} epochs of {sizes['train']:,} images",
        "selected": f"on training-domain validation ({sizes['validation']:,} images), epoch {chosen['epoch']:g}",
        "validation": f"{100 * chosen['validation_accuracy']:.1f}%",
        "in-distribution": f"{100 * chosen['id_accuracy']:.1f}% of {sizes['id_test']:,}",
        "OOD": f"{100 * chosen['ood_accuracy']:.1f}% on {tested}",
        "not selected": ", ".join(
            f"{rule} epoch {100 * record['final'][rule]['ood_accuracy']:.1f}% OOD" for rule in ("last", "oracle")
        ),
        "geometry": f"epsilon-hat {chosen['epsilon_hat']:.3f}, separation {chosen['separation']:.3f}",
        "cost": f"{cost['seconds']:.0f} s of training, {cost['images_per_second']:.0f} images/s",
    }


def card(record: dict[str, Any]) -> str:
    """`facts` in a few lines of plain text."""
    return "\n".join(f"{name:<16} {value}" for name, value in facts(record).items())


def _label(printed: str) -> str:
    return re.sub(r" \(ours\)| w/ SGD", "", printed, flags=re.IGNORECASE)


def _runs(name: str, folder: Any, filters: dict[str, Any]) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """The benchmark that `name` means and its records that pass the filters, with their file names."""
    found = records.read_all(folder, **filters)
    labels = {label: benchmark for benchmark, label in TABLES.items() if label}
    valid = dict.fromkeys([*TABLES, *labels, *(record["benchmark"]["name"] for _, record in found)])
    benchmark = labels.get(name, one_of("table", name, valid))
    return benchmark, [(file, record) for file, record in found if record["benchmark"]["name"] == benchmark]


def _printed(benchmark: str) -> pd.DataFrame:
    """What the paper prints of a benchmark; PCL's row on PACS stands in its table with SWAD."""
    label = TABLES.get(benchmark)
    if label is None:
        return pd.DataFrame(columns=["algorithm", "column", "value", "spread"])
    if label != "pacs":
        return paper(label)
    return pd.concat([paper(label), paper("pcl-swad").query("algorithm == 'PCL w/ SGD'")])


def _by_seed(runs: list[tuple[str, dict[str, Any]]], columns: list[str]) -> pd.DataFrame:
    """Accuracy in percent by algorithm, source, seed and column, "average" being for seeds that have every column."""
    keys, sources = ["algorithm", "source", "seed"], _sources(runs)
    rows = [
        (config["algorithm"], sources[file], config["seed"], column, 100 * _over_severities(value), file)
        for file, record in sorted(runs, key=lambda run: SCALES.index(run[1]["config"]["scale"]))
        for config, ood in [(record["config"], record["final"]["validation"]["ood"])]
        for column, value in ood.items()
        if column in columns
    ]
    table = pd.DataFrame(rows, columns=[*keys, "column", "value", "files"]).drop_duplicates([*keys, "column"])
    averages = [
        (*key, "average", seed["value"].mean(), _names(seed["files"]))
        for key, seed in table.groupby(keys, sort=False)
        if len(seed) == len(columns)
    ]
    return pd.DataFrame([*table.itertuples(index=False), *averages], columns=table.columns)


def _over_severities(accuracy: float | dict[str, float]) -> float:
    return sum(accuracy.values()) / len(accuracy) if isinstance(accuracy, dict) else accuracy


def _names(files: pd.Series) -> str:
    return " ".join(dict.fromkeys(" ".join(files).split()))


def _sources(runs: list[tuple[str, dict[str, Any]]]) -> dict[str, str]:
    """File -> the scale, what its configuration changes of the scale's defaults, and the data where these differ."""
    main = ("benchmark", "algorithm", "held_out", "scale", "seed")
    sources, data = {}, {}
    for file, record in runs:
        config = record["config"]
        defaults = dataclasses.asdict(configure(**{field: config[field] for field in main}))
        changed = [f"{field}={value}" for field, value in config.items() if defaults.get(field, ...) != value]
        sources[file] = ", ".join([f"ours, {config['scale']} scale", *changed])
        data.setdefault(sources[file], set()).add(record["benchmark"]["fingerprint"])
    return {
        file: sources[file] + f", data {record['benchmark']['fingerprint'][:8]}" * (len(data[sources[file]]) > 1)
        for file, record in runs
    }


def _show(cell: Any, decimals: int, own_n: bool) -> str:
    if cell.value != cell.value:
        return "not run"
    spread = f" ± {cell.spread:.{decimals}f}" if cell.spread == cell.spread else ""
    return f"{cell.value:.{decimals}f}{spread}" + f" (n={cell.n:.0f})" * own_n


def _title(benchmark: str) -> str:
    columns = "corruption (mean over severities)" if benchmark == "cifar10" else "held-out domain"
    label = TABLES.get(benchmark)
    theirs = f"paper: its Table {label}" if label else "the paper has no table of it"
    difference = "; difference: ours less the paper's, in points" if label else ""
    return (
        f"{benchmark}: OOD accuracy in % by {columns}; {theirs}; ours: the epoch chosen on training-domain validation, "
        f"mean ± standard error over n seeds{difference}."
    )
