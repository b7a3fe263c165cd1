"""One picture of the problem: domains that are trained on, one that is not, and what four answers do about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hypo.figures import COLOURS, THEMES, Themed, plain
from hypo.report.table import DIGITS

ANGLES = np.deg2rad([90, 210, 330])
"""Where three classes lie."""
DOMAINS = "os^"
"""Markers of three training domains."""


def problem(images: np.ndarray, domains: Sequence[str], held_out: str) -> Themed:
    """Images (4, H, W, 3) uint8 of one class in four domains; below them ERM, PCL, HYPO and SWAD as drawings."""

    def draw(figure: Figure, theme: str) -> None:
        figure.get_layout_engine().set(h_pad=0.09)
        top, bottom = figure.subplots(2, len(domains), height_ratios=(1, 1.7))
        for axes, image, name in zip(top, images, domains, strict=True):
            axes.imshow(image, interpolation="nearest")
            axes.set(xticks=(), yticks=())
            axes.set_title(plain(name.replace("_", " ")))
            axes.set_xlabel("only tested on" if name == held_out else "trained on")
            axes.spines[:].set_visible(name == held_out)
            axes.spines[:].set(color=COLOURS[1], lw=3)
        for axes, panel in zip(bottom, (_erm, _pcl, _hypo, _swad), strict=True):
            panel(axes, **THEMES[theme])

    alt = (
        f"Above, a digit in four styles: three are trained on, {held_out.replace('_', ' ')} is only tested on. Below, "
        "four drawings: ERM separates the classes by lines; PCL draws a sample to its proxy on a circle and away from "
        "samples of other classes; HYPO draws all samples of a class to one prototype and the prototypes apart; SWAD "
        "averages the weights along the valley of the validation loss."
    )
    return Themed(draw, alt, (6.4, 3.5), also=(DIGITS,))


def _samples(spread: float) -> np.ndarray:
    """(3 classes, 3 domains, 3 samples) angles on the circle."""
    domains = np.linspace(-spread, spread, 3)[:, None]
    return ANGLES[:, None, None] + domains + np.random.default_rng(0).normal(0, 0.07, (3, 3, 3))


def _on_circle(angles: np.ndarray, radius: float | np.ndarray = 1.0) -> np.ndarray:
    return np.stack([radius * np.cos(angles), radius * np.sin(angles)], axis=-1)


def _scatter(axes: Axes, points: np.ndarray, ink: str) -> None:
    """Points (3, 3, n, 2): a colour for each class, a marker for each domain."""
    for c, e in np.ndindex(3, 3):
        axes.scatter(*points[c, e].T, s=16, color=COLOURS[c], marker=DOMAINS[e], edgecolor=ink, lw=0.4, zorder=3)


def _frame(axes: Axes, title: str, text: str) -> None:
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.2, 1.25), aspect="equal", xticks=(), yticks=(), title=title, xlabel=text)
    axes.spines[:].set_visible(False)


def _circle(axes: Axes, faint: str, ink: str) -> np.ndarray:
    """A circle with three anchors on it; where they are."""
    axes.plot(*_on_circle(np.linspace(0, 2 * np.pi, 181)).T, color=faint, lw=1.2)
    anchors = _on_circle(ANGLES)
    axes.scatter(*anchors.T, s=110, marker="*", color=COLOURS[:3], edgecolor=ink, lw=0.8, zorder=5)
    return anchors


def _erm(axes: Axes, ink: str, faint: str) -> None:
    radius = np.random.default_rng(1).uniform(0.45, 1.2, (3, 3, 3))
    _scatter(axes, _on_circle(_samples(0.5), radius), ink)
    for end in _on_circle(ANGLES + np.pi / 3, 1.35):
        axes.plot([0, end[0]], [0, end[1]], color=faint, lw=2)
    _frame(axes, "ERM", "lines between\nclasses")


def _pcl(axes: Axes, ink: str, faint: str) -> None:
    anchors, points = _circle(axes, faint, ink), _on_circle(_samples(0.6))
    _scatter(axes, points, ink)
    one = points[0, 0, 0]
    for other in points[1:, :, 0].reshape(-1, 2):
        axes.plot(*np.stack([one, other]).T, color=ink, lw=0.8, ls=":")
    _arrow(axes, one, anchors[0], ink)
    _frame(axes, "PCL", "to the proxy, from\nother samples")


def _hypo(axes: Axes, ink: str, faint: str) -> None:
    anchors, points = _circle(axes, faint, ink), _on_circle(_samples(0.6))
    _scatter(axes, points, ink)
    for own, anchor in zip(points, anchors, strict=True):
        for one in own[[0, 2], 0]:
            _arrow(axes, one, anchor, ink)
    for a, b in ((0, 1), (1, 2), (2, 0)):
        _arrow(axes, 0.6 * anchors[a] + 0.1 * anchors[b], 0.1 * anchors[a] + 0.6 * anchors[b], ink, "<->")
    _frame(axes, "HYPO", "to the prototype,\nprototypes apart")


def _swad(axes: Axes, ink: str, **_: str) -> None:
    step = np.linspace(0, 1, 200)
    loss = 0.25 + np.exp(-9 * step) + np.maximum(0, step - 0.6) ** 2 * 3
    inside = (step > 0.3) & (step < 0.8)
    axes.fill_between(step[inside], 0, loss[inside], color=COLOURS[5], alpha=0.5, lw=0)
    axes.plot(step, loss, color=ink)
    axes.text(0.55, 0.1, "averaged", ha="center", va="center", fontsize=9)
    axes.set(title="SWAD", xlabel="steps", ylabel="validation loss", xticks=(), yticks=(), ylim=(0, 1.3), xlim=(0, 1))
    axes.set_box_aspect(1)


def _arrow(axes: Axes, start: np.ndarray, end: np.ndarray, colour: str, style: str = "->") -> None:
    look = {"arrowstyle": style, "color": colour, "lw": 1.4, "shrinkA": 0, "shrinkB": 6}
    axes.annotate("", end, start, arrowprops=look, zorder=4)
