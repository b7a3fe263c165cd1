"""Pictures of prototypes that spread out: the way to the simplex ETF, and what is reached beyond it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hypo.figures import COLOURS, THEMES, Themed
from hypo.figures.method import curves
from hypo.report.table import MATHS


def gap_over_steps(histories: Mapping[str, pd.DataFrame], name: str) -> Themed:
    """The gap to the simplex ETF over the steps of the optimisation, one line for each entry."""
    gaps = pd.concat({label: history["etf_gap"].clip(lower=1e-16) for label, history in histories.items()}, axis=1)
    alt = f"Largest distance of a cosine from the simplex ETF's over the steps, for {', '.join(histories)}."
    return curves(gaps.rename_axis("step"), [*histories], "largest cosine error", alt, name, log=True, also=(MATHS,))


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
    return Themed(draw, alt, (4.8, 4.2), name="cosines-by-classes", numbers=reached, also=(MATHS,))
