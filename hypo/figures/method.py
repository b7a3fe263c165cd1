"""Pictures of the method: the sphere, the moving average, losses over epochs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hypo.figures import COLOURS, MARKERS, THEMES, Themed


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
    kinds = np.repeat(["sample", "prototype"], [len(z), len(prototypes)])
    points = pd.DataFrame(np.concatenate([z, prototypes]).round(3), columns=["x", "y", "z"])
    points.insert(0, "class", [names[c] for c in [*labels, *range(len(names))]])
    return Themed(
        lambda figure, theme: _draw_sphere(figure.subplots(), z, labels, prototypes, names, title, theme),
        alt,
        (2.3, 2.5),
        raster=True,
        name=f"sphere-{title.replace(' ', '-')}",
        numbers=points.assign(kind=kinds),
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
    steps = pd.DataFrame(path.round(6), columns=["x", "y"]).rename_axis("step")
    return Themed(draw, alt, (4.6, 2.7), name="moving-average", numbers=steps)


def curves(history: pd.DataFrame, columns: Sequence[str], ylabel: str, alt: str) -> Themed:
    """Lines over the epochs, one per column, each with a dash of its own."""

    def draw(figure: Figure, _theme: str) -> None:
        axes = figure.subplots()
        for i, column in enumerate(columns):
            axes.plot(history.index, history[column], label=column, ls=("-", "--", ":", "-.")[i])
        axes.set(xlabel=history.index.name, ylabel=ylabel)
        axes.legend()

    return Themed(draw, alt, (4.6, 3), name="-".join(columns), numbers=history[list(columns)])
