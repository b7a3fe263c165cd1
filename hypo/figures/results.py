"""Pictures of results: confusions, mistakes, bars of the paper's numbers and ours, accuracy by severity, ranks."""

from __future__ import annotations

import base64
import html
import io
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from hypo.data.imageset import ImageSet
from hypo.figures import COLOURS, MARKERS, THEMES, Themed
from hypo.publish import source
from hypo.results import (
    METHODS,
    SHOWN,
    Folder,
    Note,
    confusion,
    file_of,
    kept_without,
    over_seeds,
    printed_names,
    ranks,
    tested,
    under_corruptions,
    where,
)
from hypo.suggest import one_of
from hypo.tables import CELL, NAMES, TABLES, beside, paper

FILL = {"erm": COLOURS[4], "hypo": COLOURS[0]}
"""Light and dark, so that the two are told apart without colour."""
OURS = "///"
"""The hatching of our bars; the paper's are plain."""


def confusion_matrix(record: dict[str, Any], folder: Folder = None) -> Themed | Note:
    """Which class (row) was taken for which (column), in % of the row; a figure in each cell up to 20 classes."""
    outcome = tested(record, folder)
    if outcome is None:
        return kept_without(record)
    classes = record["benchmark"]["classes"]
    counts = confusion(outcome, classes)
    shares = (100 * counts.div(counts.sum(axis=1), axis=0)).fillna(0).to_numpy()
    written = len(classes) <= 20

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        blue = np.broadcast_to(to_rgb(COLOURS[0]), (*shares.shape, 3))
        axes.imshow(np.dstack([blue, (shares / 100) ** 0.7]))
        for (row, column), share in np.ndenumerate(shares) if written else ():
            if share >= 0.5:
                colour = "white" if share > 60 else ink
                axes.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=9.5, color=colour)
        ticks = range(len(classes)) if written else ()
        axes.set_xticks(ticks, classes if written else (), rotation=90 if max(map(len, classes)) > 2 else 0)
        axes.set_yticks(ticks, classes if written else ())
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        order = "" if written else ", in alphabetical order"
        axes.set(xlabel=f"taken for{order}", ylabel=f"class{order}")

    wrong = counts.mask(np.eye(len(counts), dtype=bool), 0)
    row, column = np.unravel_index(wrong.to_numpy().argmax(), wrong.shape)
    right = 100 * (outcome["label"] == outcome["prediction"]).mean()
    alt = (
        f"Confusion matrix on {where(record)}: {right:.1f}% right; most often {classes[row]} is taken for "
        f"{classes[column]}, {wrong.iloc[row, column]} times."
    )
    side = 0.41 * len(classes) if written else 4.2
    margin = 0.45 + 0.085 * max(map(len, classes)) * written
    name = file_of(record, folder).name
    return Themed(draw, alt, (side + margin, side + margin), name="confusion", numbers=counts, records=[name])


class Gallery:
    """Rows of images under what each was taken for.

    rows       (name, images (n, H, W, 3) uint8, captions) of each
    reference  the line of `hypo.publish.source`
    """

    def __init__(self, rows: list[tuple[str, np.ndarray, list[str]]], reference: str) -> None:
        self.rows, self.reference = rows, reference

    def _repr_html_(self) -> str:
        rows = "".join(
            '<div style="display:flex;flex-wrap:wrap;align-items:center;gap:0.3rem;margin:0.3rem 0">'
            f'<strong style="min-width:4.2em">{html.escape(name)}</strong>'
            + "".join(
                _captioned(image, f"{name}, taken for {caption}", caption) for image, caption in zip(*rest, strict=True)
            )
            + "</div>"
            for name, *rest in self.rows
        )
        return rows + self.reference


def _captioned(image: np.ndarray, alt: str, caption: str) -> str:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "webp", lossless=True)
    alt, pixels = html.escape(alt, quote=True), ";image-rendering:pixelated" * (len(image) < 64)
    return (
        '<figure style="margin:0;text-align:center;font-size:0.75em">'
        f'<img class="dark-light" style="width:clamp(48px,13vw,80px){pixels}" alt="{alt}" '
        f'src="data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}">'
        f'<figcaption style="margin:0">{html.escape(caption)}</figcaption></figure>'
    )


def wrong_images(
    record: dict[str, Any], images: ImageSet | None, per_class: int = 5, folder: Folder = None
) -> Gallery | Note:
    """The most confidently wrong test images of each class, under what they were taken for; the worst classes first.

    images  the benchmark as it was trained on; None where it is not on this machine
    """
    outcome, benchmark = tested(record, folder), record["benchmark"]
    if outcome is None:
        return kept_without(record)
    if images is None or images.fingerprint != benchmark["fingerprint"]:
        name = benchmark["name"]
        return Note(f"The images of {NAMES.get(name, name)} are needed to show them: `hypo data {name}` fetches them.")
    wrong = outcome[outcome["label"] != outcome["prediction"]].sort_values("margin", ascending=False, kind="stable")
    classes, rows = np.array(benchmark["classes"]), []
    for label in wrong["label"].value_counts().index[:SHOWN]:
        shown = wrong[wrong["label"] == label].head(per_class)
        rows.append((classes[label], images.images[shown["index"]], [*classes[shown["prediction"]]]))
    numbers = wrong.assign(label=classes[wrong["label"]], prediction=classes[wrong["prediction"]])
    return Gallery(rows, source("mistakes", numbers, [file_of(record, folder).name]))


def corruption_bars(benchmark: str, folder: Folder = None) -> Themed | Note:
    """Fig. c10_corr: ERM and HYPO under each corruption; the paper's numbers, on CIFAR-10, and ours."""
    ours = over_seeds(under_corruptions(benchmark, folder).query("severity > 0"), "corruption")
    if TABLES[benchmark]:
        printed = beside(paper(TABLES[benchmark]), pd.DataFrame(columns=CELL)).query("column != 'average'")
        ours = pd.concat([printed.rename(columns={"column": "corruption"})[[*ours]], *([ours] if len(ours) else [])])
    return _bars(ours, benchmark, "c10_corr", "under each of 19 corruptions")


def clean_and_noisy(benchmark: str, folder: Folder = None) -> Themed | Note:
    """Fig. imagenet-100: ERM and HYPO on clean test images and under Gaussian noise; ours, as it prints no number."""
    runs = under_corruptions(benchmark, folder).query("corruption in ('clean', 'gaussian_noise')")
    return _bars(over_seeds(runs, "corruption"), benchmark, "clean_and_noisy", "clean and under Gaussian noise")


def _bars(numbers: pd.DataFrame, benchmark: str, name: str, tests: str) -> Themed | Note:
    """Groups of bars by corruption, ours hatched, with the gain of HYPO over ERM; what was not run is named.

    numbers  as of `over_seeds`, or with source "paper"
    tests    what the groups are, in words
    """
    numbers = numbers[numbers["algorithm"].isin(METHODS)]
    if numbers.empty:
        return _none(benchmark)
    groups, sources = ([*dict.fromkeys(numbers[column])] for column in ("corruption", "source"))
    values = numbers.set_index(["source", "algorithm", "corruption"]).sort_index()
    pairs = [(kind, algorithm) for kind in sources for algorithm in METHODS]
    series = [pair for pair in pairs if pair in values.index]
    thick = 0.8 / len(series)

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        for place, (kind, algorithm) in enumerate(series):
            own = values.loc[kind, algorithm].reindex(groups)
            at = np.arange(len(groups)) + (place - (len(series) - 1) / 2) * thick
            look = {"color": FILL[algorithm], "hatch": "" if kind == "paper" else OURS, "edgecolor": ink, "lw": 0.6}
            axes.barh(at, own["value"], thick, label=_legend(algorithm, kind, own["n"]), **look)
            axes.errorbar(own["value"], at, xerr=own["spread"].fillna(0), fmt="none", ecolor=ink, lw=1)
            if algorithm == "hypo" and (kind, "erm") in series:
                gain = own["value"] - values.loc[kind, "erm"].reindex(groups)["value"]
                for y, points in zip(at - thick / 2, gain, strict=True):
                    axes.text(101, y, f"{points:+.1f}" if points == points else "", va="center", fontsize=8.5)
        for kind, algorithm in [pair for pair in pairs if pair not in series]:
            axes.plot([], [], " ", label=f"{METHODS[algorithm]}, {kind}: not run")
        axes.set_yticks(range(len(groups)), [group.replace("_", " ") for group in groups])
        axes.set_xticks(range(0, 101, 20))
        axes.set(xlim=(0, 112), ylim=(len(groups) - 0.4, -0.6))
        axes.set_xlabel(f"accuracy on {NAMES[benchmark]} (%); gain of HYPO in points")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper center", ncols=2 if sources == ["paper"] else 1)

    size = (5.2, 0.8 + 0.2 * len(pairs) + len(groups) * (0.1 + 0.16 * len(series)))
    means = [f"{METHODS[a]}, {kind}, {values.loc[(kind, a), 'value'].mean():.1f}%" for kind, a in series]
    alt = f"Bars of accuracy on {NAMES[benchmark]} {tests}; means: {'; '.join(means)}."
    return Themed(draw, alt, size, name=name, numbers=numbers.drop(columns="files"), records=numbers["files"])


def severities(benchmark: str, folder: Folder = None) -> Themed | Note:
    """Accuracy by severity, the mean over the 19 corruptions, with standard errors: our runs."""
    numbers = over_seeds(under_corruptions(benchmark, folder).query("severity > 0"), "severity")
    if numbers.empty:
        return _none(benchmark)
    lines = [*numbers.groupby(["source", "algorithm"], sort=False)]

    def draw(figure: Figure, _theme: str) -> None:
        axes = figure.subplots()
        for place, ((kind, algorithm), own) in enumerate(lines):
            look = {"marker": MARKERS[place % 10], "ls": ("-", "--", ":", "-.")[place % 4], "capsize": 3}
            look |= {"color": FILL.get(algorithm, COLOURS[place % 10]), "label": _legend(algorithm, kind, own["n"])}
            axes.errorbar(own["severity"], own["value"], own["spread"].fillna(0), **look)
        for algorithm in [name for name in METHODS if name not in {*numbers["algorithm"]}]:
            axes.plot([], [], " ", label=f"{METHODS[algorithm]}: not run")
        axes.set(xlabel="severity", ylabel=f"accuracy on {NAMES[benchmark]} (%)", xticks=range(1, 6))
        axes.legend()

    ends = [f"{a}, {kind}, {own['value'].iloc[0]:.1f}% to {own['value'].iloc[-1]:.1f}%" for (kind, a), own in lines]
    alt = f"Accuracy on {NAMES[benchmark]} from severity 1 to 5: {'; '.join(ends)}."
    drawn = numbers.drop(columns="files")
    return Themed(draw, alt, (5.2, 3.4), name="by_severity", numbers=drawn, records=numbers["files"])


def _legend(algorithm: str, kind: str, counts: pd.Series) -> str:
    seeds = "" if kind == "paper" else f", n={counts.max():.0f}"
    return f"{METHODS.get(algorithm, algorithm)}, {kind}{seeds}"


def _none(benchmark: str) -> Note:
    return Note(f"No run on corruptions of {NAMES[benchmark]} is recorded.")


def methods(algorithm: str = "hypo") -> Themed:
    """The methods of Tab. all by average, with the data sets it is over; `algorithm` is marked."""
    values, names = ranks("all").xs("value", axis=1, level=1), printed_names("all")
    marked = values.index.get_loc(one_of("method", algorithm, names))

    def draw(figure: Figure, theme: str) -> None:
        axes, ink, faint = figure.subplots(), THEMES[theme]["ink"], THEMES[theme]["faint"]
        at, data = np.arange(len(values)), values.drop(columns="average")
        axes.axhspan(marked - 0.45, marked + 0.45, color=faint, alpha=0.4, lw=0)
        axes.hlines(at, data.min(axis=1), data.max(axis=1), color=faint, lw=1)
        for place, column in enumerate(data):
            axes.plot(data[column], at, ls="", marker=MARKERS[place], ms=5, label=NAMES[column])
        axes.plot(values["average"], at, ls="", marker="|", ms=13, mew=3, color=ink, label="average")
        for y, average in enumerate(values["average"]):
            axes.text(90, y, f"{average:.1f}", va="center", fontsize=9.5, weight="bold" if y == marked else "normal")
        axes.set_yticks(at, [names[name] for name in values.index])
        axes.get_yticklabels()[marked].set_weight("bold")
        axes.set(ylim=(len(at) - 0.4, -0.6), xlim=(None, 93))
        axes.set_xlabel("OOD accuracy (%), the paper's; average at the right")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper center", ncols=4, columnspacing=1, handletextpad=0.3)

    (best, second), averages = values.index[:2], values["average"]
    alt = (
        f"The {len(values)} methods of Tab. all by average: {names[best]} leads with {averages[best]:g}, then "
        f"{names[second]} with {averages[second]:g}."
    )
    return Themed(draw, alt, (5.2, 6.2), name="methods", numbers=values)
