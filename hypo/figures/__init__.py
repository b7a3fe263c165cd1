"""The one style of every figure, drawn once for light and once for dark pages."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Iterable
from importlib.resources import files

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from seaborn.utils import relative_luminance

from hypo.display import asset, source
from hypo.runs import Origins

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#b2df00", "#666666", "#a6611a")
"""Okabe and Ito's colour-blind safe set, lengthened; a class also has a marker of its own."""
MARKERS = "osD^vPX*<>"

THEMES = {"light": {"ink": "#1d2129", "faint": "#c3c8d0"}, "dark": {"ink": "#e8eaed", "faint": "#4a505a"}}
STYLE = mpl.rc_params_from_file(files("hypo.figures") / "figures.mplstyle", use_default_template=False)


class Themed:
    """A figure in both themes, shown by notebooks and by the book, with its numbers one click away.

    draw     draws on a Figure for a theme of THEMES
    alt      alternative text: what a reader sees in it
    size     inches
    raster   PNG at twice the screen's resolution instead of SVG: for images and thousands of points
    name     of the CSV, without its ending
    numbers  what is drawn, as the CSV holds it; None for pictures that show no numbers
    records  the records behind it: a column `origins`, or the like
    also     what it shows beside what the records tell, as of `hypo.report.table.Table`
    """

    def __init__(
        self,
        draw: Callable[[Figure, str], None],
        alt: str,
        size: tuple[float, float],
        raster: bool = False,
        name: str = "figure",
        numbers: pd.DataFrame | None = None,
        records: Iterable[Origins] = (),
        also: tuple[str, ...] = (),
    ) -> None:
        self.alt, self.source = alt, source(name, numbers, records, also)
        self.images = {theme: _render(draw, theme, size, "png" if raster else "svg") for theme in THEMES}
        self.kind = "image/png" if raster else "image/svg+xml"
        self.width, self.picture = round(size[0] * 96), " data-picture" if numbers is None else ""

    def _repr_html_(self) -> str:
        alt = html.escape(self.alt, quote=True)
        images = "".join(
            f'<img class="hypo-figure only-{theme}"{self.picture} alt="{alt}" '
            f'style="width:{self.width}px;max-width:100%" '
            f'src="data:{self.kind};base64,{base64.b64encode(image).decode()}">'
            for theme, image in self.images.items()
        )
        return images + self.source


def plain(name: str) -> str:
    """A folder's name as text of a figure: its dollar signs begin no formula."""
    return name.replace("$", r"\$")


def legible(axes: Axes) -> None:
    """The numbers in the cells of a heatmap of seaborn's in black or white, whichever has more contrast (WCAG)."""
    (mesh,) = axes.collections
    written = ~np.ma.getmaskarray(mesh.get_array()).ravel()
    for text, colour in zip(axes.texts, mesh.get_facecolors()[written], strict=False):
        above_black = relative_luminance(colour) + 0.05
        text.set_color("black" if above_black / 0.05 > 1.05 / above_black else "white")


class Row:
    """Figures side by side, one below the other where the page is narrow."""

    def __init__(self, *figures: Themed):
        self.figures = figures

    def _repr_html_(self) -> str:
        cells = "".join(
            f'<div style="max-width:{figure.width}px">{figure._repr_html_()}</div>' for figure in self.figures
        )
        return f'<div style="display:flex;flex-wrap:wrap;justify-content:center;gap:0.5rem">{cells}</div>'


def _render(draw: Callable[[Figure, str], None], theme: str, size: tuple[float, float], kind: str) -> bytes:
    ink = THEMES[theme]["ink"]
    ink_keys = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
    with mpl.rc_context({**STYLE, **dict.fromkeys(ink_keys, ink)}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure, theme)
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()
