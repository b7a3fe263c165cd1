"""Pictures of results: confusions, runs as dots, bars of the paper's numbers and ours, accuracy by severity, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from hypo.figures import COLOURS, MARKERS, THEMES, Themed, legible, plain
from hypo.paper import NAMES
from hypo.report.corruptions import METHODS
from hypo.report.table import PAPER
from hypo.report.text import number, words
from hypo.runs import Origins

FILL = dict(zip(METHODS.values(), COLOURS, strict=False))
"""The colours that `dots` gives the two; in a group of bars the first is above, so colour is not all that tells."""


def confusion_matrix(counts: pd.DataFrame, where: str, records: Sequence[Origins] = ()) -> Themed:
    """Which class (row) was taken for which (column), in % of the row; a figure in each cell up to 20 classes.

    counts  of `hypo.report.run.confusion`
    where   the test images in words
    """
    classes, shares = list(counts), 100 * counts.div(counts.sum(axis=1).clip(lower=1), axis=0)
    written = len(classes) <= 20

    def draw(figure: Figure, _theme: str) -> None:
        axes = figure.subplots()
        texts = shares.map(lambda share: f"{share:.0f}" if share >= 0.5 else "") if written else None
        look = {"cmap": "cividis", "vmin": 0, "vmax": 100, "square": True, "cbar": False}
        sns.heatmap(shares, annot=texts, fmt="", ax=axes, xticklabels=False, yticklabels=False, **look)
        legible(axes)
        if written:
            places, names = np.arange(len(classes)) + 0.5, [plain(name) for name in classes]
            axes.set_xticks(places, names, rotation=90 if max(map(len, classes)) > 2 else 0)
            axes.set_yticks(places, names)
        order = "" if written else ", in alphabetical order"
        axes.set(xlabel=f"taken for{order}", ylabel=f"class{order}")
        axes.tick_params(length=0)

    wrong = counts.mask(np.eye(len(counts), dtype=bool), 0)
    row, column = np.unravel_index(wrong.to_numpy().argmax(), wrong.shape)
    right = 100 * np.trace(counts) / counts.to_numpy().sum()
    alt = (
        f"Confusion matrix on {where}: {right:.1f}% right; most often {classes[row]} is taken for {classes[column]}, "
        f"{wrong.iloc[row, column]} times."
    )
    side = 0.41 * len(classes) + 0.5 + 0.085 * max(map(len, classes)) if written else 4.6
    return Themed(draw, alt, (side, side), name="confusion", numbers=counts, records=records)


def dots(
    rows: pd.DataFrame, hue: str, what: str, name: str, x: str = "held_out", chance: float | None = None
) -> Themed:
    """Accuracy by `x`: each run a dot, the mean over seeds a bar with its number.

    rows    one per run: `x`, value (percent), origins, and `hue`, by which dots have their colour and marker
    what    the data in words
    chance  the accuracy of guessing in percent, None to leave it out
    """
    places, kinds = ([*dict.fromkeys(rows[column])] for column in (x, hue))
    means = rows.groupby([hue, x], sort=False, observed=True)["value"].mean()
    label = words(x).replace("held out", "held out of training")

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        shift = {kind: 0.8 * ((i + 0.5) / len(kinds) - 0.5) for i, kind in enumerate(kinds)}
        for kind, colour, marker in zip(kinds, COLOURS, MARKERS, strict=False):
            own = rows[rows[hue] == kind]
            at = [places.index(place) + shift[kind] for place in own[x]]
            axes.scatter(
                at, own["value"], s=38, color=colour, marker=marker, edgecolor=ink, lw=0.6, alpha=0.85, label=kind
            )
        for (kind, place), mean in means.items():
            at = places.index(place) + shift[kind]
            axes.hlines(mean, at - 0.1, at + 0.1, color=ink, lw=2)
            axes.text(at + 0.12, mean, f"{mean:.0f}", va="center", fontsize=9)
        if chance is not None:
            axes.axhline(chance, color=ink, lw=1.2, ls=":", label="chance")
        axes.set_xticks(range(len(places)), [plain(words(str(place))) for place in places])
        lowest = min(rows["value"].min(), 100 if chance is None else chance)
        axes.set(ylim=(max(0, lowest - 8), min(104, rows["value"].max() + 6)), xlabel=label)
        axes.set_ylabel(f"accuracy on {plain(what)} (%)")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)

    said = "; ".join(f"{kind}, {words(x)} {words(str(place))}, {mean:.0f}" for (kind, place), mean in means.items())
    alt = f"Accuracy in percent on {what}, means over seeds: {said}."
    numbers = rows[[x, hue, "value", "origins"]]
    return Themed(draw, alt, (6.2, 3.6), name=name, numbers=numbers, records=rows["origins"])


def bars(seeds: pd.DataFrame, benchmark: str, name: str) -> Themed:
    """ERM and HYPO in groups of bars by `column`, ours hatched, with the gain of HYPO at the right, over the seeds that
    both have.

    seeds  of `hypo.report.corruptions.single`, at least one row
    """
    seeds = seeds.assign(series=seeds["method"] + ", " + seeds["source"])
    by_seed = seeds.pivot_table("value", ["source", "column", "seed"], "method").reindex(columns=[*METHODS.values()])
    gains = (by_seed["HYPO"] - by_seed["ERM"]).dropna().groupby(["source", "column"]).mean()
    groups = [*dict.fromkeys(seeds["column"])]
    series = seeds.drop_duplicates("series").set_index("series")

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        palette = [FILL[method] for method in series["method"]]
        place = {"x": "value", "y": "column", "order": groups, "hue": "series", "hue_order": [*series.index]}
        line = {"errorbar": "sd", "err_kws": {"color": ink, "linewidth": 1}, "edgecolor": ink, "linewidth": 0.6}
        sns.barplot(seeds, **place, **line, palette=palette, saturation=1, ax=axes)
        sources = [source for source in dict.fromkeys(seeds["source"]) if source in gains.index]
        for (place, source), (y, group) in product(enumerate(sources), enumerate(groups)):
            shift = (place + 0.5) / len(sources) - 0.5
            gain = gains.get((source, group))
            axes.text(101, y + 0.8 * shift, number(gain, sign=True), va="center", fontsize=8)
        axes.set_yticks(range(len(groups)), [words(group) for group in groups])
        axes.set(xlim=(0, 113), xticks=range(0, 101, 20), ylabel="")
        axes.set_xlabel(f"accuracy on {NAMES[benchmark]} (%); gain of HYPO in points")
        axes.get_legend().remove()
        ncols = 1 + (len(series) < 3)
        legend = figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=ncols)
        for bar, swatch, source in zip(axes.containers, legend.get_patches(), series["source"], strict=True):
            for patch in (*bar, swatch):
                patch.set_hatch("" if source == "paper" else "///")

    said = "; ".join(f"{each} {seeds.loc[seeds['series'] == each, 'value'].mean():.1f}%" for each in series.index)
    alt = f"Bars of accuracy on {NAMES[benchmark]} by test; means: {said}."
    size = (5.6, 1 + 0.2 * len(series) + len(groups) * (0.1 + 0.16 * len(series)))
    also = (PAPER,) if "paper" in {*seeds["source"]} else ()
    numbers = seeds[["source", "method", "column", "seed", "value", "failed", "origins"]]
    return Themed(draw, alt, size, name=name, numbers=numbers, records=seeds["origins"], also=also)


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
    return Themed(draw, alt, (5.2, 6.2), name="methods", numbers=values, also=(PAPER,))
