"""Pictures of images: contact sheets, and images in groups with a caption each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hypo.figures import Themed, plain
from hypo.report.text import words
from hypo.runs import Origins


def contact_sheet(
    images: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    alt: str,
    cell: float = 0.62,
    also: tuple[str, ...] = (),
) -> Themed:
    """A grid of images (R, C, H, W, 3) uint8, each row and column named; pixels are shown as they are."""

    def draw(figure: Figure, _theme: str) -> None:
        height, width = images.shape[2:4]
        gap = max(1, height // 16)
        opaque = np.concatenate([images, np.full_like(images[..., :1], 255)], axis=-1)  # RGBA; the gaps are clear
        tiled = np.pad(opaque, ((0, 0), (0, 0), (0, gap), (0, gap), (0, 0)))
        axes = figure.subplots()
        axes.imshow(np.concatenate([np.concatenate([*row], axis=1) for row in tiled]), interpolation="nearest")
        for ticks, names, side in ((axes.set_xticks, columns, width), (axes.set_yticks, rows, height)):
            ticks(np.arange(len(names)) * (side + gap) + side / 2 - 0.5, [plain(words(name)) for name in names])
        axes.tick_params(length=0, top=True, bottom=False, labeltop=True, labelbottom=False)
        axes.spines[:].set_visible(False)

    size = (cell * len(columns) + 0.1 * max(map(len, rows)) + 0.3, cell * len(rows) + 0.35)
    return Themed(draw, alt, size, raster=True, also=also)


def captioned(
    images: np.ndarray,
    groups: Sequence[str],
    captions: Sequence[str],
    name: str,
    alt: str,
    numbers: pd.DataFrame,
    records: Sequence[Origins] = (),
    most: tuple[int, int] = (12, 5),
) -> Themed:
    """Images (N, H, W, 3) uint8 in rows by group, those of the first image first, each with its caption above it.

    most  groups, and images of a group, that are shown
    """
    named = pd.Series(groups)
    rows = [named.index[named == group][: most[1]] for group in named.unique()[: most[0]]]
    width, aspect = max(map(len, rows), default=1), images.shape[2] / images.shape[1] if len(images) else 1

    def draw(figure: Figure, _theme: str) -> None:
        grid = figure.subplots(len(rows), width, squeeze=False)
        for axes in grid.flat:
            axes.axis("off")
        for line, places in zip(grid, rows, strict=True):
            for axes, place in zip(line, places, strict=False):
                axes.imshow(images[place], interpolation="nearest")
                group = f"{named[place].replace('_', ' ')}: " if place == places[0] else ""
                axes.set_title(plain(f"{group}{captions[place]}"), fontsize=9)

    size = (width * (0.75 + 0.55 * aspect), 0.95 * max(len(rows), 1))
    return Themed(draw, alt, size, raster=True, name=name, numbers=numbers, records=records)


def beside(images: np.ndarray) -> np.ndarray:
    """Pairs of images (P, 2, H, W, 3) as one image each, (P, H, 2 W + W // 8, 3), with a white gap between the two."""
    gap = np.full_like(images[:, 0, :, : images.shape[3] // 8], 255)
    return np.concatenate([images[:, 0], gap, images[:, 1]], axis=2)
