"""Pictures of the data: contact sheets of images, and what a shift of domain costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hypo.figures import COLOURS, THEMES, Themed


def contact_sheet(
    images: np.ndarray, rows: Sequence[str], columns: Sequence[str], alt: str, cell: float = 0.62
) -> Themed:
    """A grid of images (R, C, H, W, 3) uint8, each row and column named; pixels are shown as they are."""

    def draw(figure: Figure, _theme: str) -> None:
        height, width = images.shape[2:4]
        gap = max(1, height // 16)
        tiled = np.pad(images, ((0, 0), (0, 0), (0, gap), (0, gap), (0, 0)))
        sheet = tiled.transpose(0, 2, 1, 3, 4).reshape(len(rows) * (height + gap), len(columns) * (width + gap), 3)
        shown = np.pad(np.full((height, width), 255, np.uint8), ((0, gap), (0, gap)))
        opaque = np.tile(shown, (len(rows), len(columns)))
        axes = figure.subplots()
        axes.imshow(np.dstack([sheet, opaque]), interpolation="nearest")
        axes.set_xticks((np.arange(len(columns)) + 0.5) * (width + gap) - gap / 2 - 0.5, columns)
        axes.set_yticks(
            (np.arange(len(rows)) + 0.5) * (height + gap) - gap / 2 - 0.5, [r.replace("_", " ") for r in rows]
        )
        axes.tick_params(length=0, top=True, bottom=False, labeltop=True, labelbottom=False)
        axes.spines[:].set_visible(False)

    longest = max(map(len, rows))
    return Themed(draw, alt, (cell * len(columns) + 0.1 * longest + 0.3, cell * len(rows) + 0.35), raster=True)


def id_against_ood(runs: pd.DataFrame, chance: float, alt: str) -> Themed:
    """In-distribution and OOD accuracy for each held-out domain: means over seeds, each run a dot.

    runs    one row per run: held_out, seed, id, ood (fractions), file
    chance  the accuracy of guessing
    """

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        names = list(dict.fromkeys(runs["held_out"]))
        kinds = (("id", "in-distribution", COLOURS[5], ""), ("ood", "held-out style", COLOURS[1], "///"))
        for offset, (kind, label, colour, hatch) in zip((-0.19, 0.19), kinds, strict=True):
            values = [100 * runs.loc[runs["held_out"] == name, kind].to_numpy() for name in names]
            means = [v.mean() for v in values]
            at = np.arange(len(names)) + offset
            axes.bar(at, means, 0.36, label=label, color=colour, hatch=hatch, edgecolor=ink, lw=0.8, alpha=0.85)
            for x, mean, dots in zip(at, means, values, strict=True):
                axes.scatter(np.full(len(dots), x), dots, s=14, color=ink, zorder=3)
                axes.text(x, 3, f"{mean:.0f}", ha="center", color="black", fontsize=9.5, weight="bold")
        axes.axhline(100 * chance, color=ink, lw=1.2, ls=":", label="chance")
        axes.set_xticks(range(len(names)), [name.replace("_", " ") for name in names])
        axes.set(ylim=(0, 104), ylabel="accuracy (%)", xlabel="held-out style")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)

    numbers = runs.drop(columns="file")
    return Themed(draw, alt, (6.2, 3.6), name="id-against-ood", numbers=numbers, records=runs["file"])
