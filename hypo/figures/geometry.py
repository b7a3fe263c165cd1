"""Pictures of the geometry: heatmaps of the variation, and both sides of an inequality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hypo.figures import COLOURS, THEMES, Row, Themed


def heatmaps(maps: Mapping[str, pd.DataFrame], records: Sequence[str] = ()) -> Row:
    """Sinkhorn divergence by class (columns) and pair of domains (rows), one map per method, on one colour scale.

    maps  title -> class, pair, sinkhorn
    """
    top = max(frame["sinkhorn"].max() for frame in maps.values())

    def heatmap(title: str, frame: pd.DataFrame) -> Themed:
        grid = frame.pivot(index="pair", columns="class", values="sinkhorn")
        grid = grid.loc[list(dict.fromkeys(frame["pair"])), list(dict.fromkeys(frame["class"]))]

        def draw(figure: Figure, _theme: str) -> None:
            axes = figure.subplots()
            image = axes.imshow(grid, cmap="cividis", vmin=0, vmax=top, aspect="auto")
            for (row, column), value in np.ndenumerate(grid.to_numpy()):
                light = value > 0.55 * top
                text = f"{value:.2f}".lstrip("0")
                axes.text(
                    column, row, text, ha="center", va="center", fontsize=7.5, color="black" if light else "white"
                )
            slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
            axes.set_xticks(range(grid.shape[1]), grid.columns, parse_math=False, **slanted)
            axes.set_yticks(range(grid.shape[0]), [pair.replace(" – ", "\n") for pair in grid.index], parse_math=False)
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            axes.set_title(title)
            bar = figure.colorbar(image, ax=axes, orientation="horizontal", fraction=0.06, pad=0.03, aspect=40)
            bar.set_label("Sinkhorn divergence (squared distance)")
            bar.outline.set_visible(False)

        alt = (
            f"Heatmap, {title}: Sinkhorn divergence for {grid.shape[1]} classes and {grid.shape[0]} pairs of training "
            f"domains, from {grid.min().min():.2f} to {grid.max().max():.2f}, on average {grid.to_numpy().mean():.2f}."
        )
        name = f"variation-{title.split()[0].lower()}"
        return Themed(draw, alt, (3.5, 3.4), name=name, numbers=frame, records=records)

    return Row(*(heatmap(title, frame) for title, frame in maps.items()))


def both_sides(nearest: pd.DataFrame, name: str, records: Sequence[str] = ()) -> Themed:
    """Left (dot) and right side (bar) of each inequality, in units of what its left side can be at most."""
    shown = nearest[nearest["at_most"].notna()].reset_index(drop=True)

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        at = np.arange(len(shown))[::-1]
        right, left = shown["right"] / shown["at_most"], shown["left"] / shown["at_most"]
        positive = np.concatenate([left[left > 0], right[right > 0]])
        floor = 10 ** np.floor(np.log10(max(positive.min(), 1e-5)))
        axes.barh(
            at,
            right - floor,
            left=floor,
            height=0.5,
            color=COLOURS[5],
            edgecolor=ink,
            lw=0.8,
            label="right side: the bound",
        )
        axes.scatter(
            left.clip(floor), at, s=46, color=COLOURS[1], edgecolor=ink, lw=0.8, zorder=3, label="left side: measured"
        )
        axes.axvline(1, color=ink, lw=1.4, ls="--", label="the most it can be")
        axes.set_xscale("log")
        axes.set_yticks(
            at, [f"{lemma}\n{quantity}" for lemma, quantity in zip(shown["lemma"], shown["quantity"], strict=True)]
        )
        axes.tick_params(axis="y", length=0, labelsize=8)
        axes.set_xlabel("in units of the most the left side can be")
        axes.legend(loc="lower center", bbox_to_anchor=(0.3, 1), ncols=1)

    useful = int((shown["right"] < shown["at_most"]).sum())
    alt = (
        f"Both sides of {len(shown)} inequalities on a log axis: the bound says more than the trivial one in {useful}."
    )
    return Themed(draw, alt, (6.4, 0.52 * len(shown) + 1.6), name=name, numbers=nearest, records=records)
