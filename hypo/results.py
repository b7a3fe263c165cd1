"""What the pages of the benchmarks show: result cards, mistakes, the paper's tables with ours, and ranks."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from hypo import records
from hypo.config import configure
from hypo.publish import Table
from hypo.sphere import class_means
from hypo.suggest import one_of
from hypo.tables import NAMES, TABLES, as_text, beside, cells, facts, paper, registry_name

Folder = str | os.PathLike[str] | None

METHODS = {"erm": "ERM", "hypo": "HYPO"}
"""The two methods that the paper's figures compare, in their order."""
NOT_RUN = "paper; ours not run".replace(" ", "\N{NO-BREAK SPACE}")  # a table's rows stay one line high on a phone
SHOWN = 12  # classes of which a page shows the errors; a CSV has them all


class Note(str):
    """A sentence in the place of what cannot be shown; `code` in it as on a page."""

    def _repr_html_(self) -> str:
        return "<p>" + re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(self)) + "</p>"


# One run


def file_of(record: dict[str, Any], folder: Folder = None) -> Path:
    """The file of a record that was read from, or written to, `folder`."""
    return next(Path(folder or records.folder()).glob(f"*-{record['config_hash'][:8]}.json"))


def card(record: dict[str, Any], folder: Folder = None) -> Table:
    """The result card of a run; its CSV has the measures under each rule of selection."""
    (name, run), *rest = facts(record).items()
    measures = pd.DataFrame(record["final"]).drop("ood").rename_axis("measure")
    frame = pd.DataFrame(rest, columns=[name, run])
    return Table(frame, "result", records=[file_of(record, folder).name], numbers=measures)


def tested(record: dict[str, Any], folder: Folder = None) -> pd.DataFrame | None:
    """Each test image of a run, of the held-out domain if there is one; None if the record was kept without them.

    index       of the image in its ImageSet
    label       its class
    prediction  the class it was taken for
    margin      how much nearer it lies, in cosine, to the prototype of the prediction than to its own class's, > 0 for
                most mistakes; of methods without prototypes, to the class means of the in-distribution test images
    """
    path = file_of(record, folder)
    arrays = records.embeddings(path) if path.with_suffix(".npz").exists() else {}
    part = "ood_test" if record["config"]["held_out"] else "id_test"
    if f"{part}_prediction" not in arrays:
        return None
    z, y, prediction, index = (arrays[f"{part}_{name}"] for name in ("z", "y", "prediction", "index"))
    cosines = z.astype(np.float32) @ _prototypes(arrays, len(record["benchmark"]["classes"])).T  # (N, C)
    at = np.arange(len(y))
    margin = cosines[at, prediction] - cosines[at, y]
    return pd.DataFrame({"index": index, "label": y, "prediction": prediction, "margin": margin})


def _prototypes(arrays: dict[str, np.ndarray], num_classes: int) -> np.ndarray:
    """(C, d) unit vectors, float32."""
    if "prototypes" in arrays:
        return arrays["prototypes"].astype(np.float32)
    z = F.normalize(torch.from_numpy(arrays["id_test_z"]).float(), dim=1)
    return class_means(z, torch.from_numpy(arrays["id_test_y"]), num_classes).numpy()


def kept_without(record: dict[str, Any]) -> Note:
    """What is said where the predictions are needed and `tested` has none."""
    return Note(
        f"The record of this run was kept without its predictions: `{command(record['config'])} --force` makes it anew "
        "with them."
    )


def command(config: dict[str, Any]) -> str:
    """The command line of a run at its scale's defaults."""
    held_out = config["held_out"] or "none"
    words = {name: config[name] for name in ("benchmark", "algorithm")} | {"held-out": held_out}
    words |= {name: config[name] for name in ("scale", "seed")}
    return "hypo train " + " ".join(f"--{name} {value}" for name, value in words.items())


def confusion(outcome: pd.DataFrame, classes: list[str]) -> pd.DataFrame:
    """Number of images of each class (a row) that were taken for each class (a column)."""
    counts = np.zeros((len(classes), len(classes)), int)
    np.add.at(counts, (outcome["label"], outcome["prediction"]), 1)
    return pd.DataFrame(counts, pd.Index(classes, name="class"), classes)


def class_errors(record: dict[str, Any], folder: Folder = None) -> Table | Note:
    """Accuracy on each class, the worst first, and what it is most often taken for."""
    outcome = tested(record, folder)
    if outcome is None:
        return kept_without(record)
    counts = confusion(outcome, record["benchmark"]["classes"])
    total, right = counts.sum(axis=1), np.diag(counts)
    wrong = counts.mask(np.eye(len(counts), dtype=bool), 0)
    table = pd.DataFrame({"images": total, "wrong": total - right, "accuracy (%)": 100 * right / total})
    often = wrong.idxmax(axis=1) + " (" + wrong.max(axis=1).astype(str) + ")"
    table["most often taken for"] = often.where(table["wrong"] > 0, "")
    table = table.sort_values("accuracy (%)", kind="stable")
    caption = (
        f"Errors by class on {where(record)}" + f", the {SHOWN} worst of {len(table)}" * (len(table) > SHOWN) + "."
    )
    return Table(table.head(SHOWN), "class_errors", caption, [file_of(record, folder).name], table)


def where(record: dict[str, Any]) -> str:
    """The test images of a run, in words."""
    config, name = record["config"], record["benchmark"]["name"]
    part = config["held_out"].replace("_", " ") if config["held_out"] else "the clean test images"
    return f"{part} of {NAMES.get(name, name)}, {config['algorithm']} at {config['scale']} scale, seed {config['seed']}"


# The paper's tables with ours


def paper_table(benchmark: str, folder: Folder = None) -> Table | Note:
    """The paper's table of a benchmark, the best average first, with our runs at their scales' defaults."""
    numbers = _at_defaults(cells(benchmark, folder))
    if numbers.empty:
        return Note(f"No run of {NAMES[benchmark]} is recorded.")
    label = TABLES[benchmark]
    caption = [f"OOD accuracy in % with each domain of {NAMES[benchmark]} held out. {_reading(numbers)}"]
    if label:
        unranked = set(numbers["algorithm"]) - set(map(registry_name, paper(label)["algorithm"]))
        caption.insert(0, f"Tab. {label}, ranked by the printed average. {standing(label)}")
        caption += [f"{name.upper()} stands in Tab. pcl-swad and has no rank." for name in unranked & {"pcl"}]
    return _page_table(numbers, label or benchmark, " ".join(caption), ranks(label) if label else None)


def overall(folder: Folder = None) -> Table:
    """Tab. all: the average of each method on each data set, and ours."""
    benchmarks = [name for name in paper("all")["column"].unique() if name != "average"]
    own = [cells(name, folder).query("n > 0 and column == 'average'").assign(column=name) for name in benchmarks]
    numbers = _at_defaults(beside(paper("all"), pd.concat(own)))
    caption = "Tab. all: OOD accuracy in %, averaged over the held-out domains, ranked by the printed average. "
    caption += _reading(numbers, "None was run here with every domain held out.")
    return _page_table(numbers, "all", caption, ranks("all"), NAMES)


def rank_table() -> Table:
    """The rank of each method of Tab. all on each data set, by their average, and the mean of the ranks."""
    placed = ranks("all").xs("rank", axis=1, level=1)
    placed["mean rank"] = placed.drop(columns="average").mean(axis=1)
    placed.index = pd.Index(placed.index.map(printed_names("all")), name="method")
    placed = placed.sort_values("mean rank", kind="stable")
    caption = (
        "Ranks of the 19 methods in Tab. all, from its printed numbers: 1 is the best, equal numbers share a rank."
    )
    return Table(placed.rename(columns=NAMES | {"average": "by average"}), "ranks", caption)


def recent(folder: Folder = None) -> Table:
    """Tab. cifar10c: accuracy under Gaussian noise beside two recent methods."""
    ours = cells("cifar10", folder).query("n > 0 and column == 'gaussian_noise' and algorithm == 'hypo'")
    numbers = _at_defaults(beside(paper("cifar10c"), ours))
    caption = f"Tab. cifar10c: accuracy in % under Gaussian noise on CIFAR-10. {_reading(numbers)}"
    return _page_table(numbers, "cifar10c", caption, ranks("cifar10c", by="gaussian_noise"), decimals=2)


def corruption_table(folder: Folder = None) -> Table:
    """Tab. fullcorruption, a row a corruption: the paper's two methods, ours, and what HYPO gains over ERM in each."""
    numbers = _at_defaults(cells("cifar10", folder))
    frame = pd.DataFrame(index=pd.Index(numbers.attrs["columns"], name="corruption"))
    for source, block in numbers.groupby("source", sort=False):
        short = source.removeprefix("ours, ") + f", n={block['n'].max():.0f}" * (source != "paper")
        for measure, mark in (("value", ""), ("difference", "difference, ")):
            values = block.pivot(index="column", columns="algorithm", values=measure).reindex(frame.index)
            for name in [name for name in METHODS if name in values and values[name].notna().any()]:
                frame[f"{METHODS[name]} ({mark}{short})"] = values[name]
            if measure == "value" and {*METHODS} <= {*values}:
                frame[f"gain ({short})"] = values["hypo"] - values["erm"]
    frame.index = frame.index.str.replace("_", " ")
    caption = (
        "Tab. fullcorruption: accuracy in % on CIFAR-10 under each corruption, ours as the mean over its five "
        f"severities (the paper does not say which it took); gain: HYPO less ERM, in points. {_reading(numbers)}"
    )
    return Table(frame, "fullcorruption", caption, numbers["files"], numbers, decimals=2)


def ranks(label: str, by: str = "average") -> pd.DataFrame:
    """The paper's table with ranks: index the registry's name; for each column its `value` and `rank`, 1 the best.

    Methods with the same number share the better rank. Sorted by column `by`.
    """
    printed = paper(label)
    printed.index = pd.Index(printed["algorithm"].map(registry_name), name="algorithm")
    values = printed.pivot(columns="column", values="value")[[*dict.fromkeys(printed["column"])]]
    values = values.loc[[*dict.fromkeys(printed.index)]].sort_values(by, ascending=False, kind="stable")
    placed = values.rank(ascending=False, method="min").astype(int)
    return pd.concat({"value": values, "rank": placed}, axis=1).swaplevel(axis=1)


def standing(label: str, algorithm: str = "hypo", column: str = "average") -> Note:
    """One sentence: the rank of a method in a column of the paper's table, and who is ahead of it."""
    placed, names = ranks(label, by=column)[column], printed_names(label)
    own = placed.loc[one_of("method", algorithm, names)]
    ahead = [f"{names[name]} {row['value']:.1f}" for name, row in placed.iterrows() if row["rank"] < own["rank"]]
    behind = f", behind {', '.join(ahead)}" if ahead else ""
    return Note(f"{names[algorithm]}'s {own['value']:.1f} is {ordinal(int(own['rank']))} of {len(placed)}{behind}.")


def disagreements() -> Table:
    """Averages that the paper prints and that are not the mean of their printed row, to rounding."""
    rows = []
    for label in ("all", *filter(None, TABLES.values())):
        unit = 0.01 if label == "fullcorruption" else 0.1
        for algorithm, row in paper(label).groupby("algorithm", sort=False):
            average = row["column"] == "average"
            printed, mean = row.loc[average, "value"].item(), row.loc[~average, "value"].mean()
            if abs(printed - mean) > 0.501 * unit:
                cause = "rounding of the row" if abs(printed - mean) <= unit else "no rounding explains it"
                rows.append([f"Tab. {label}", algorithm, printed, mean, mean - printed, cause])
    columns = ["table", "method", "printed average", "mean of the row", "difference", "cause"]
    caption = "Printed averages that differ from the mean of the printed row by more than half of the last digit."
    return Table(pd.DataFrame(rows, columns=columns), "disagreements", caption, decimals=2)


def office_home_lead() -> Note:
    """The lead on Office-Home that the text prints, against the leads that Tab. officehome gives."""
    claim = paper("text").query("column == 'office_home'").iloc[0]
    averages, names = ranks("officehome")["average"]["value"], printed_names("officehome")
    lead = (averages["hypo"] - averages).round(1)
    cited = registry_name(claim["algorithm"].removeprefix("HYPO - "))
    meant = " and ".join(names[name] for name in lead.index[lead == claim["value"]])
    return Note(
        f"The text prints {claim['value']} points. By Tab. officehome HYPO leads {names[cited]} by {lead[cited]}; "
        f"{claim['value']} is its lead over {meant}."
    )


def printed_names(label: str) -> dict[str, str]:
    """The registry's name of each method in a table -> the paper's."""
    return {registry_name(name): name.removesuffix(" (Ours)") for name in paper(label)["algorithm"]}


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ..."""
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _at_defaults(numbers: pd.DataFrame) -> pd.DataFrame:
    """The paper's numbers and those of our runs that change nothing of their scale's defaults."""
    plain = numbers["source"].str.fullmatch(r"paper|ours, \w+ scale(, data \w+)?")
    kept = numbers[plain.astype(bool)]
    kept.attrs = numbers.attrs
    return kept


def _page_table(
    numbers: pd.DataFrame,
    name: str,
    caption: str,
    placed: pd.DataFrame | None,
    titles: dict[str, str] | None = None,
    decimals: int = 1,
) -> Table:
    """`as_text` with the rank in the last column, the best first, and a single line for a method that was not run.

    placed  of `ranks`, None for a table the paper does not have
    titles  column -> heading, where it is not the column's name
    """
    shown = as_text(numbers, decimals)
    absent = shown["source"] == "ours"
    not_run = (shown["source"] == "paper") & shown["method"].isin(shown.loc[absent, "method"])
    shown["source"] = shown["source"].mask(not_run, NOT_RUN)
    shown = shown[~absent]
    if placed is not None:
        last = numbers.attrs["columns"][-1]
        printed = numbers.query("source == 'paper' and column == @last").set_index("algorithm")["value"]
        key = shown["method"].map(registry_name)
        ranked = [f"{rank:.0f}" if rank == rank else "" for rank in key.map(placed[last]["rank"])]
        shown.insert(0, "rank", ranked)
        shown = shown.loc[key.map(printed).sort_values(ascending=False, kind="stable").index]
    again = shown["method"].duplicated()
    shown = shown.assign(**{column: shown[column].mask(again, "") for column in ("rank", "method") if column in shown})
    shown = shown.replace("^-", "\N{MINUS SIGN}", regex=True)
    titles = {column: column.replace("_", " ") for column in shown} | (titles or {})
    return Table(shown.rename(columns=titles), name, caption, numbers["files"], numbers)


def _reading(numbers: pd.DataFrame, nothing: str = "None of it was run here.") -> str:
    """How our numbers in a table are to be read, or that there are none."""
    scales = numbers["source"].str.extract(r"ours, (\w+) scale")[0].dropna().unique()
    if not len(scales):
        return nothing
    difference = "; the difference is ours less the paper's, in points" if numbers["difference"].notna().any() else ""
    text = "Ours: mean ± standard error over n seeds, selected on training-domain validation"
    return f"{text}, at {' and '.join(scales)} scale{difference}."


# Accuracy under corruptions


def under_corruptions(benchmark: str, folder: Folder = None) -> pd.DataFrame:
    """Accuracy in % of our runs at their scales' defaults: source, algorithm, seed, corruption, severity, value, files.

    source    the scale, and whether the corrupted images are "published" or "generated"
    severity  1 to 5, or 0 for corruption "clean": all test images as they are
    """
    rows = []
    for file, record in records.read_all(folder, benchmark=benchmark, held_out=None):
        config, final = record["config"], record["final"]["validation"]
        main = {name: config[name] for name in ("benchmark", "algorithm", "held_out", "scale", "seed")}
        if config == vars(configure(**main)):
            key = f"ours, {config['scale']} scale, {final['corruptions']}", config["algorithm"], config["seed"]
            rows += [
                (*key, corruption, int(severity), 100 * value, file)
                for corruption, by_severity in {"clean": {0: final["id_accuracy"]}, **final["ood"]}.items()
                for severity, value in by_severity.items()
            ]
    return pd.DataFrame(rows, columns=["source", "algorithm", "seed", "corruption", "severity", "value", "files"])


def over_seeds(runs: pd.DataFrame, by: str) -> pd.DataFrame:
    """Means of `under_corruptions` by source, algorithm and `by`: value, spread (standard error), n seeds, files."""
    key = ["source", "algorithm", by]
    seeds = runs.groupby([*key, "seed"], sort=False).agg(value=("value", "mean"), files=("files", "first"))
    groups = seeds.groupby(key, sort=False)
    numbers = groups["value"].agg(value="mean", spread="sem", n="count")
    return numbers.assign(files=groups["files"].agg(" ".join)).reset_index()
