"""Pictures of the geometry: heatmaps of the variation, and both sides of an inequality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from hypo.figures import COLOURS, THEMES, Row, Themed, legible, plain
from hypo.paper import method_name
from hypo.report.text import listed, words
from hypo.runs import Origins


def heatmaps(maps: Mapping[str, pd.DataFrame], where: str, records: Sequence[Origins] = ()) -> Row:
    """Sinkhorn divergence by class (rows) and pair of domains (columns), one map per method, on one colour scale.

    maps   method -> class, pair, sinkhorn
    where  the benchmark, in words
    """
    top = max(frame["sinkhorn"].max() for frame in maps.values())

    def heatmap(method: str, frame: pd.DataFrame) -> Themed:
        title = f"{method_name(method)} on {where}"
        grid = _grid(frame)

        def draw(figure: Figure, _theme: str) -> None:
            axes = figure.subplots()
            bar = {"orientation": "horizontal", "label": "Sinkhorn divergence", "pad": 0.02, "aspect": 30}
            look = {"cmap": "cividis", "cbar_kws": bar, "xticklabels": False, "yticklabels": False}
            sns.heatmap(grid, vmin=0, vmax=top, annot=True, fmt=".2f", ax=axes, **look)
            legible(axes)
            pairs = [plain(pair.replace(" – ", "\n")) for pair in grid]
            axes.set_xticks(np.arange(grid.shape[1]) + 0.5, pairs, rotation=0)
            axes.set_yticks(np.arange(len(grid)) + 0.5, [plain(name) for name in grid.index], rotation=0)
            axes.tick_params(length=0)
            axes.set(xlabel="", ylabel="", title=title)

        alt = (
            f"Heatmap, {title}: Sinkhorn divergence for {grid.shape[0]} classes and {grid.shape[1]} pairs of training "
            f"domains, from {grid.min().min():.2f} to {grid.max().max():.2f}, on average {grid.to_numpy().mean():.2f}."
        )
        size = (3.7, 1.6 + 0.32 * len(grid))
        return Themed(draw, alt, size, name=f"variation-{method}", numbers=frame, records=records)

    return Row(*(heatmap(method, frame) for method, frame in maps.items()))


def small_heatmaps(
    maps: Mapping[str, Mapping[str, pd.DataFrame]], name: str, records: Mapping[str, Sequence[Origins]]
) -> Row:
    """`heatmaps` for every held-out domain, small: the methods side by side, all maps on one colour scale.

    maps     held-out domain -> method -> class, pair, sinkhorn
    name     of the CSVs, before the domain's
    records  held-out domain -> the records behind its maps
    """
    top = max(frame["sinkhorn"].max() for own in maps.values() for frame in own.values())

    def small(domain: str, own: Mapping[str, pd.DataFrame]) -> Themed:
        grids = {method_name(method): _grid(frame) for method, frame in own.items()}
        classes = [plain(name) for name in next(iter(grids.values())).index]

        def draw(figure: Figure, _theme: str) -> None:
            figure.suptitle(f"{plain(words(domain))} held out", fontsize=11)
            for axes, (method, grid) in zip(figure.subplots(1, len(grids), sharey=True), grids.items(), strict=True):
                look = {"cmap": "cividis", "cbar": False, "annot": True, "fmt": ".2f", "annot_kws": {"size": 7.5}}
                sns.heatmap(grid, vmin=0, vmax=top, ax=axes, xticklabels=False, yticklabels=False, **look)
                legible(axes)
                pairs = [plain(pair.replace(" – ", "\n")) for pair in grid]
                axes.set_xticks(np.arange(grid.shape[1]) + 0.5, pairs, rotation=90, fontsize=8)
                axes.set_yticks(np.arange(len(grid)) + 0.5, classes, rotation=0)
                axes.tick_params(length=0)
                axes.set(xlabel="", ylabel="", title=method)

        means = [f"{grid.to_numpy().mean():.2f} under {method}" for method, grid in grids.items()]
        alt = f"Heatmaps with {words(domain)} held out: the Sinkhorn divergence is on average {listed(means)}."
        numbers = pd.concat([frame.assign(held_out=domain, method=method) for method, frame in own.items()])
        size = (3.6, 1.9 + 0.2 * len(classes))
        return Themed(draw, alt, size, name=f"{name}-{domain}", numbers=numbers, records=records[domain])

    return Row(*(small(domain, own) for domain, own in maps.items()))


def _grid(frame: pd.DataFrame) -> pd.DataFrame:
    """Divergences by class (rows) and pair of domains (columns), both in the order of the frame."""
    grid = frame.pivot(index="class", columns="pair", values="sinkhorn")
    return grid.loc[[*dict.fromkeys(frame["class"])], [*dict.fromkeys(frame["pair"])]]


def both_sides(nearest: pd.DataFrame, name: str, records: Sequence[Origins] = ()) -> Themed:
    """Left (dot) and right side (bar) of each inequality, in units of what its left side can be at most.

    The names stand above the bars, so that a phone can show them. A left side of zero has no place on a log axis: an
    arrow at its end stands for it.
    """
    shown = nearest[nearest["at_most"].notna()].reset_index(drop=True)

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        at = np.arange(len(shown))[::-1]
        right, left = shown["right"] / shown["at_most"], shown["left"] / shown["at_most"]
        positive = np.concatenate([left[left > 0], right[right > 0]])
        floor = 10 ** np.floor(np.log10(max(positive.min(), 1e-5)))
        edge = {"edgecolor": ink, "lw": 0.8}
        axes.barh(at, right - floor, 0.4, floor, color=COLOURS[5], label="right side: the bound", **edge)
        seen, dot = left >= floor, {"s": 46, "color": COLOURS[1], "zorder": 3, **edge}
        axes.scatter(left[seen], at[seen], label="left side: measured", **dot)
        if not seen.all():
            least = np.full((~seen).sum(), floor)
            label = f"left side: {'zero' if left[~seen].max() <= 0 else f'below {floor:g}'}, off the axis"
            axes.scatter(least, at[~seen], marker="<", clip_on=False, label=label, **dot)
        axes.vlines(np.ones(len(at)), at - 0.34, at + 0.26, color=ink, lw=1.6, label="the most it can be")
        axes.set_xscale("log")
        axes.set(yticks=[], ylim=(-0.4, len(at) - 0.2), xlabel="in units of the most the left side can be")
        for y, line in zip(at, shown.itertuples(), strict=True):
            axes.text(floor, y + 0.28, f"{line.lemma}: {line.quantity}", va="bottom", fontsize=9.5)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=1)

    useful = int((shown["right"] < shown["at_most"]).sum())
    alt = (
        f"Both sides of {len(shown)} inequalities on a log axis: the bound says more than the trivial one in {useful}. "
        f"The left side is zero in {(shown['left'] <= 0).sum()}, which the axis cannot show."
    )
    return Themed(draw, alt, (4.4, 0.52 * len(shown) + 1.6), name=name, numbers=nearest, records=records)
