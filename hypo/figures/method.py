"""Pictures of the method: the sphere, the moving average, losses over epochs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hypo.figures import COLOURS, MARKERS, THEMES, Themed, plain
from hypo.report.table import DIGITS, MATHS


def sphere(
    z: np.ndarray, labels: np.ndarray, prototypes: np.ndarray, names: Sequence[str], title: str, alt: str
) -> Themed:
    """Embeddings z (N, 3) and prototypes (C, 3) on the unit sphere, seen as `TurningSphere` first shows them."""

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.add_subplot(projection="3d"), THEMES[theme]["ink"]
        turn, tilt = np.meshgrid(np.linspace(0, 2 * np.pi, 25), np.linspace(0, np.pi, 9))
        rings = np.cos(turn) * np.sin(tilt), np.sin(turn) * np.sin(tilt), np.cos(tilt)
        axes.plot_wireframe(*rings, color=THEMES[theme]["faint"], lw=0.4)
        for c, name in enumerate(names):
            axes.scatter(*z[labels == c].T, s=9, lw=0, color=COLOURS[c], marker=MARKERS[c])
            axes.quiver(0, 0, 0, *prototypes[c], color=ink, lw=1.1, arrow_length_ratio=0)
            axes.scatter(*prototypes[c], s=130, color=COLOURS[c], edgecolor=ink, lw=1.2)
            axes.text(*(1.02 * prototypes[c]), plain(name), color="white", weight="bold", ha="center", va="center")
        axes.view_init(elev=20, azim=35)
        axes.set_box_aspect((1, 1, 1), zoom=1.5)
        axes.set(title=title)
        axes.axis("off")

    kinds = np.repeat(["sample", "prototype"], [len(z), len(prototypes)])
    points = pd.DataFrame(np.concatenate([z, prototypes]).round(3), columns=["x", "y", "z"]).assign(kind=kinds)
    points.insert(0, "class", [names[c] for c in [*labels, *range(len(names))]])
    name = f"sphere-{title.replace(' ', '-')}"
    return Themed(draw, alt, (2.3, 2.5), raster=True, name=name, numbers=points, also=(DIGITS,))


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
    return Themed(draw, alt, (4.6, 2.7), name="moving-average", numbers=steps, also=(MATHS,))


def curves(
    history: pd.DataFrame,
    columns: Sequence[str],
    ylabel: str,
    alt: str,
    name: str = "",
    log: bool = False,
    also: tuple[str, ...] = (DIGITS,),
) -> Themed:
    """Lines over the rows of `history`, one per column, each with a dash of its own."""

    def draw(figure: Figure, _theme: str) -> None:
        axes = figure.subplots()
        for i, column in enumerate(columns):
            axes.plot(history.index, history[column], label=column, ls=("-", "--", ":", "-.")[i % 4])
        axes.set(xlabel=history.index.name, ylabel=ylabel, yscale="log" if log else "linear")
        figure.legend(loc="outside upper center", ncols=1 if max(map(len, columns)) > 10 else 4)

    given = name or "-".join(columns).replace(" ", "-")
    return Themed(draw, alt, (4.6, 3.4), name=given, numbers=history[list(columns)], also=also)
