"""Pictures of prototypes that part: the way to the simplex ETF, what is reached beyond it, and by trained networks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hypo.figures import COLOURS, MARKERS, THEMES, Themed

DASHES = ("-", "--", ":", "-.")


def gap_over_steps(histories: Mapping[str, pd.DataFrame], name: str) -> Themed:
    """The gap to the simplex ETF over the steps of the optimisation, one line for each entry."""

    def draw(figure: Figure, _theme: str) -> None:
        axes = figure.subplots()
        for i, (label, history) in enumerate(histories.items()):
            axes.plot(history.index, history["etf_gap"].clip(lower=1e-16), ls=DASHES[i % 4], label=label)
        axes.set(yscale="log", xlabel="step", ylabel="largest cosine error")
        figure.legend(loc="outside upper center", ncols=1 + (max(map(len, histories)) < 10) * 3)

    numbers = pd.concat({label: history["etf_gap"] for label, history in histories.items()}, axis=1)
    alt = f"Largest distance of a cosine from the simplex ETF's over the steps, for {', '.join(histories)}."
    return Themed(draw, alt, (4.6, 4), name=name, numbers=numbers)


def cosines_by_classes(reached: pd.DataFrame, dim: int) -> Themed:
    """The range of pairwise cosines reached for each number of classes, with what no set can be below.

    reached  indexed by the number of classes C: smallest, mean, largest, bound (on the largest)
    dim      d; the simplex ETF exists up to C = d + 1
    """

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        at = np.arange(len(reached))
        axes.vlines(at, reached["smallest"], reached["largest"], color=COLOURS[0], lw=2)
        for i, name in enumerate(("largest", "mean", "smallest")):
            axes.scatter(at, reached[name], s=42, marker="^ov"[i], color=COLOURS[i], label=name, zorder=3)
        axes.plot(at, -1 / (reached.index - 1), color=ink, lw=1, ls="--", label="simplex ETF, $-1/(C-1)$")
        axes.scatter(at, reached["bound"], s=260, marker="_", color=ink, label="bound on the largest", zorder=4)
        axes.axvspan(-0.5, (reached.index <= dim + 1).sum() - 0.5, color=COLOURS[5], alpha=0.15, lw=0)
        axes.text(-0.4, 0.92, "$C \\leq d + 1$", transform=axes.get_xaxis_transform(), fontsize=9.5)
        axes.set_xticks(at, reached.index)
        axes.set(xlim=(-0.5, len(at) - 0.5), xlabel="number of classes $C$", ylabel="cosine of two prototypes")
        figure.legend(loc="outside upper center", ncols=2)

    alt = (
        f"Smallest, mean and largest cosine of two prototypes in {dim} dimensions by number of classes: "
        f"they agree up to {dim + 1} classes and part beyond."
    )
    return Themed(draw, alt, (4.8, 4.2), name="cosines-by-classes", numbers=reached)


def trained_cosines(prototypes: Mapping[str, np.ndarray], records: list[str]) -> Themed:
    """The pairwise cosines of trained prototypes (C, d), one row for each entry, with the simplex ETF's as a bar."""
    cosines = {label: (mu @ mu.T)[np.triu_indices(len(mu), 1)] for label, mu in prototypes.items()}

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        for row, (label, values) in enumerate(cosines.items()):
            shift = np.linspace(-0.2, 0.2, len(values))
            axes.scatter(values, row + shift, s=22, marker=MARKERS[row % 10], color=COLOURS[row % 10], alpha=0.8, lw=0)
            axes.vlines(-1 / (len(prototypes[label]) - 1), row - 0.38, row + 0.38, color=ink, lw=2)
            axes.text(0, row - 0.42, label, transform=axes.get_yaxis_transform(), fontsize=9.5, va="bottom")
        axes.set(xlabel="cosine of two prototypes (bar: simplex ETF)", ylim=(len(cosines) - 0.5, -0.8), yticks=[])

    numbers = pd.DataFrame([(label, value) for label in cosines for value in cosines[label]], columns=["run", "cosine"])
    alt = f"Cosines of all pairs of trained prototypes against the simplex ETF's, for {'; '.join(cosines)}."
    return Themed(draw, alt, (4.8, 1 + 0.8 * len(cosines)), name="trained-cosines", numbers=numbers, records=records)
