"""The one style of every figure, drawn once for light and once for dark pages."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#b2df00", "#666666", "#a6611a")
"""Okabe and Ito's colour-blind safe set, lengthened; a class also has a marker of its own."""
MARKERS = "osD^vPX*<>"

THEMES = {"light": {"ink": "#1d2129", "faint": "#c3c8d0"}, "dark": {"ink": "#e8eaed", "faint": "#4a505a"}}
STYLE = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.prop_cycle": mpl.cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.labelsize": 10.5,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 2,
    "svg.hashsalt": "hypo",
}


class Themed:
    """A figure in both themes, shown by notebooks and by the book; `alt` is its alternative text."""

    def __init__(self, draw: Callable[[Figure, str], None], alt: str, size: tuple[float, float], raster: bool = False):
        self.alt = alt
        self.images = {theme: _render(draw, theme, size, "png" if raster else "svg") for theme in THEMES}
        self.kind = "image/png" if raster else "image/svg+xml"
        self.width = round(size[0] * 96)

    def _repr_html_(self) -> str:
        alt = html.escape(self.alt, quote=True)
        return "".join(
            f'<img class="hypo-figure only-{theme}" alt="{alt}" style="width:{self.width}px;max-width:100%" '
            f'src="data:{self.kind};base64,{base64.b64encode(image).decode()}">'
            for theme, image in self.images.items()
        )


class Row:
    """Figures side by side, one below the other where the page is narrow."""

    def __init__(self, *figures: Themed):
        self.figures = figures

    def _repr_html_(self) -> str:
        cells = "".join(f"<div>{figure._repr_html_()}</div>" for figure in self.figures)
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


def _project(points: np.ndarray, azimuth: float = 35, elevation: float = 20) -> np.ndarray:
    """Orthographic view of (N, 3) points: columns right, up, towards the reader."""
    a, e = np.deg2rad([azimuth, elevation])
    right = [-np.sin(a), np.cos(a), 0]
    up = [-np.sin(e) * np.cos(a), -np.sin(e) * np.sin(a), np.cos(e)]
    near = [np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)]
    return points @ np.array([right, up, near]).T


def sphere(
    z: np.ndarray, labels: np.ndarray, prototypes: np.ndarray, names: Sequence[str], title: str, alt: str
) -> Themed:
    """Embeddings z (N, 3) and prototypes (C, 3) on the unit sphere; what lies behind is drawn fainter."""
    return Themed(
        lambda figure, theme: _draw_sphere(figure.subplots(), z, labels, prototypes, names, title, theme),
        alt,
        (2.3, 2.5),
    )


def _draw_sphere(
    axes: Axes, z: np.ndarray, labels: np.ndarray, prototypes: np.ndarray, names: Sequence[str], title: str, theme: str
) -> None:
    faint, ink = THEMES[theme]["faint"], THEMES[theme]["ink"]
    turn = np.linspace(0, 2 * np.pi, 181)
    axes.plot(np.cos(turn), np.sin(turn), color=faint, lw=1.2)
    for ring in map(_project, _graticule(turn)):
        axes.plot(*ring[:, :2].T, color=faint, lw=0.5, alpha=0.4)
        axes.plot(*np.where(ring[:, 2:] > 0, ring[:, :2], np.nan).T, color=faint, lw=0.8)
    samples, centres = _project(z), _project(prototypes)
    for c, name in enumerate(names):
        own = samples[labels == c]
        for behind, alpha, level in ((True, 0.18, 2), (False, 0.65, 4)):
            here = own[(own[:, 2] < 0) == behind]
            axes.scatter(*here[:, :2].T, s=9, lw=0, color=COLOURS[c], marker=MARKERS[c], alpha=alpha, zorder=level)
        end, alpha, level = centres[c, :2], *((0.45, 3) if centres[c, 2] < 0 else (1, 5))
        axes.plot([0, end[0]], [0, end[1]], color=ink, lw=1.1, alpha=0.8 * alpha, zorder=level)
        axes.scatter(*end, s=130, color=COLOURS[c], edgecolor=ink, lw=1.2, alpha=alpha, zorder=level)
        axes.text(*end, name, color="white", weight="bold", fontsize=8, ha="center", va="center_baseline", zorder=level)
    axes.set(xlim=(-1.12, 1.12), ylim=(-1.12, 1.12), aspect="equal", title=title)
    axes.axis("off")


def _graticule(turn: np.ndarray) -> list[np.ndarray]:
    """Three parallels and four meridians of the unit sphere, each (len(turn), 3)."""
    cos, sin, one = np.cos(turn), np.sin(turn), np.ones_like(turn)
    parallels = [np.c_[cos * np.cos(t), sin * np.cos(t), one * np.sin(t)] for t in np.deg2rad([-45, 0, 45])]
    return parallels + [np.c_[cos * np.cos(t), cos * np.sin(t), sin] for t in np.deg2rad([0, 45, 90, 135])]


def moving_average(path: np.ndarray, z: np.ndarray) -> Themed:
    """A prototype on the circle (T + 1, 2) drawn to the samples z (T, 2) one after the other, numbered in order."""

    def draw(figure: Figure, theme: str) -> None:
        axes, ink, faint = figure.subplots(), THEMES[theme]["ink"], THEMES[theme]["faint"]
        turn = np.linspace(0, 2 * np.pi, 181)
        axes.plot(np.cos(turn), np.sin(turn), color=faint, lw=1)
        axes.scatter(*z.T, s=120, color=COLOURS[0], zorder=3)
        for i, sample in enumerate(z, 1):
            axes.text(
                *sample, str(i), color="white", weight="bold", fontsize=8, ha="center", va="center_baseline", zorder=4
            )
        for i, mu in enumerate(path):
            axes.plot([0, 0.86 * mu[0]], [0, 0.86 * mu[1]], color=COLOURS[1], lw=1 + 1.5 * (i in (0, len(path) - 1)))
            axes.text(*(0.92 * mu), f"$\\mu_{{{i}}}$", color=ink, fontsize=11, ha="center", va="center")
        axes.set(xlim=(-1.1, 1.1), ylim=(-0.12, 1.12), aspect="equal")
        axes.axis("off")

    alt = f"A prototype on the unit circle turns from its start towards {len(z)} numbered samples, one step for each."
    return Themed(draw, alt, (4.6, 2.7))


def curves(history: pd.DataFrame, columns: Sequence[str], ylabel: str, alt: str) -> Themed:
    """Lines over the epochs, one a column, each with a dash of its own."""

    def draw(figure: Figure, _theme: str) -> None:
        axes = figure.subplots()
        for i, column in enumerate(columns):
            axes.plot(history.index, history[column], label=column, ls=("-", "--", ":", "-.")[i])
        axes.set(xlabel=history.index.name, ylabel=ylabel)
        axes.legend()

    return Themed(draw, alt, (4.6, 3))


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

    runs    one row a run: held_out, id, ood (fractions)
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

    return Themed(draw, alt, (6.2, 3.6))
