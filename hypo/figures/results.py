"""Pictures of results: confusions, mistakes, bars of the paper's numbers and ours, accuracy by severity, ranks."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from hypo.display import source
from hypo.figures import COLOURS, MARKERS, THEMES, Themed
from hypo.paper import NAMES
from hypo.report.corruptions import METHODS
from hypo.report.text import number, words

FILL = {"erm": COLOURS[4], "hypo": COLOURS[0]}
"""Light and dark, so that the two are told apart without colour."""
OURS = "///"
"""The hatching of our bars; the paper's are plain."""


def confusion_matrix(counts: pd.DataFrame, where: str, records: Sequence[str] = ()) -> Themed:
    """Which class (row) was taken for which (column), in % of the row; a figure in each cell up to 20 classes.

    counts  of `hypo.report.run.confusion`
    where   the test images in words
    """
    classes, shares = list(counts), (100 * counts.div(counts.sum(axis=1), axis=0)).fillna(0).to_numpy()
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
        names = {"labels": classes if written else (), "parse_math": False}  # a folder's name is no formula
        axes.set_xticks(ticks, **names, rotation=90 if max(map(len, classes)) > 2 else 0)
        axes.set_yticks(ticks, **names)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        order = "" if written else ", in alphabetical order"
        axes.set(xlabel=f"taken for{order}", ylabel=f"class{order}")

    wrong = counts.mask(np.eye(len(counts), dtype=bool), 0)
    row, column = np.unravel_index(wrong.to_numpy().argmax(), wrong.shape)
    right = 100 * np.trace(counts) / counts.to_numpy().sum()
    alt = (
        f"Confusion matrix on {where}: {right:.1f}% right; most often {classes[row]} is taken for {classes[column]}, "
        f"{wrong.iloc[row, column]} times."
    )
    side = 0.41 * len(classes) if written else 4.2
    margin = 0.45 + (0.085 * max(map(len, classes)) if written else 0)
    return Themed(draw, alt, (side + margin, side + margin), name="confusion", numbers=counts, records=records)


class Gallery:
    """The most confidently wrong images of each class, the class with the most mistakes first.

    wrong      of `hypo.report.run.mistakes`: class, prediction, margin, largest margin first
    images     (N, H, W, 3) uint8, one for each row of `wrong`
    per_class  images shown of a class; classes: how many classes are shown
    """

    def __init__(
        self,
        wrong: pd.DataFrame,
        images: np.ndarray,
        records: Sequence[str] = (),
        per_class: int = 5,
        classes: int = 12,
    ) -> None:
        names = wrong["class"].to_numpy()
        self.rows = []
        for name in wrong["class"].value_counts().index[:classes]:
            places = np.flatnonzero(names == name)[:per_class]
            self.rows.append((name, images[places], [*wrong["prediction"].iloc[places]]))
        self.source = source("mistakes", wrong, records)

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
        return rows + self.source


def _captioned(image: np.ndarray, alt: str, caption: str) -> str:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "webp", lossless=True)
    alt, pixels = html.escape(alt, quote=True), ";image-rendering:pixelated" if len(image) < 64 else ""
    return (
        '<figure style="margin:0;text-align:center;font-size:0.75em">'
        f'<img class="dark-light" style="width:clamp(48px,13vw,80px){pixels}" alt="{alt}" '
        f'src="data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}">'
        f'<figcaption style="margin:0">{html.escape(caption)}</figcaption></figure>'
    )


def bars(numbers: pd.DataFrame, benchmark: str, name: str, tests: str) -> Themed:
    """ERM and HYPO in groups of bars by `column`, ours hatched, with the gain of HYPO; what was not run is named.

    numbers  of `hypo.report.corruptions.by_corruption`, at least one row
    tests    what the groups are, in words
    """
    numbers = numbers[numbers["algorithm"].isin(METHODS)]
    groups, sources = ([*dict.fromkeys(numbers[column])] for column in ("column", "source"))
    values = numbers.set_index(["source", "algorithm", "column"]).sort_index()
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
            axes.errorbar(own["value"], at, xerr=own["sd"].fillna(0), fmt="none", ecolor=ink, lw=1)
            if algorithm == "hypo" and (kind, "erm") in series:
                gain = own["value"] - values.loc[kind, "erm"].reindex(groups)["value"]
                for y, points in zip(at - thick / 2, gain, strict=True):
                    axes.text(101, y, number(points, sign=True), va="center", fontsize=8.5)
        for kind, algorithm in [pair for pair in pairs if pair not in series]:
            axes.plot([], [], " ", label=f"{METHODS[algorithm]}, {kind}: not run")
        axes.set_yticks(range(len(groups)), [words(group) for group in groups])
        axes.set_xticks(range(0, 101, 20))
        axes.set(xlim=(0, 112), ylim=(len(groups) - 0.4, -0.6))
        axes.set_xlabel(f"accuracy on {NAMES[benchmark]} (%); gain of HYPO in points")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper center", ncols=2 if sources == ["paper"] else 1)

    size = (5.2, 0.8 + 0.2 * len(pairs) + len(groups) * (0.1 + 0.16 * len(series)))
    means = [f"{METHODS[a]}, {kind}, {values.loc[(kind, a), 'value'].mean():.1f}%" for kind, a in series]
    alt = f"Bars of accuracy on {NAMES[benchmark]} {tests}; means: {'; '.join(means)}."
    return Themed(draw, alt, size, name=name, numbers=numbers.drop(columns="files"), records=numbers["files"])


def severities(numbers: pd.DataFrame, benchmark: str) -> Themed:
    """Accuracy by severity, the mean over corruptions, with the standard deviation over seeds: our runs.

    numbers  of `hypo.report.corruptions.by_severity`, at least one row
    """
    lines = [*numbers.groupby(["source", "algorithm"], sort=False)]

    def draw(figure: Figure, _theme: str) -> None:
        axes = figure.subplots()
        for place, ((kind, algorithm), own) in enumerate(lines):
            look = {"marker": MARKERS[place % 10], "ls": ("-", "--", ":", "-.")[place % 4], "capsize": 3}
            look |= {"color": FILL.get(algorithm, COLOURS[place % 10]), "label": _legend(algorithm, kind, own["n"])}
            axes.errorbar(own["severity"], own["value"], own["sd"].fillna(0), **look)
        for algorithm in [name for name in METHODS if name not in {*numbers["algorithm"]}]:
            axes.plot([], [], " ", label=f"{METHODS[algorithm]}: not run")
        axes.set(xlabel="severity", ylabel=f"accuracy on {NAMES[benchmark]} (%)", xticks=range(1, 6))
        axes.legend()

    ends = [f"{a}, {kind}, {own['value'].iloc[0]:.1f}% to {own['value'].iloc[-1]:.1f}%" for (kind, a), own in lines]
    alt = f"Accuracy on {NAMES[benchmark]} from severity 1 to 5: {'; '.join(ends)}."
    drawn = numbers.drop(columns="files")
    return Themed(draw, alt, (5.2, 3.4), name="by-severity", numbers=drawn, records=numbers["files"])


def _legend(algorithm: str, kind: str, counts: pd.Series) -> str:
    seeds = "" if kind == "paper" else f", n={counts.max():.0f}"
    return f"{METHODS.get(algorithm, algorithm)}, {kind}{seeds}"


def methods(ranks: pd.DataFrame, names: dict[str, str], algorithm: str = "hypo") -> Themed:
    """The methods of Table 1 by average, with the benchmarks it is over; `algorithm` is marked.

    ranks  of `hypo.paper.ranks`; names: algorithm -> method as printed
    """
    values = ranks.xs("value", axis=1, level=1)
    marked = values.index.get_loc(algorithm)

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
        f"The {len(values)} methods of Table 1 by average: {names[best]} leads with {averages[best]:g}, then "
        f"{names[second]} with {averages[second]:g}."
    )
    return Themed(draw, alt, (5.2, 6.2), name="methods", numbers=values)
