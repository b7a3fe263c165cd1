"""The order of the methods in the paper and here, side by side."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hypo.figures import COLOURS, THEMES, Themed
from hypo.paper import method_name
from hypo.report.table import PAPER
from hypo.report.text import data as name_of


def two_orders(standings: pd.DataFrame, benchmark: str, marked: str = "hypo") -> Themed | None:
    """A line for each method from its place in the paper to its place here; None where there are not two methods.

    standings  of `hypo.report.ranking.standings`; the scale with the most methods is drawn
    marked     the method whose line stands out
    """
    both = standings.dropna(subset=["paper", "value"])
    if len(both) < 2:
        return None
    scale = both["scale"].value_counts().index[0]
    both = both[both["scale"] == scale].drop_duplicates("algorithm")
    places = both[["paper", "value"]].rank(ascending=False, method="first").to_numpy()  # (n, 2)

    def draw(figure: Figure, theme: str) -> None:
        axes, ink, faint = figure.subplots(), THEMES[theme]["ink"], THEMES[theme]["faint"]
        for line, place in zip(both.itertuples(), places, strict=True):
            own = line.algorithm == marked
            axes.plot([0, 1], place, color=COLOURS[0] if own else faint, lw=3 if own else 1.5, marker="o", ms=5)
            look = {"va": "center", "color": ink, "fontsize": 9.5, "weight": "bold" if own else "normal"}
            name = method_name(line.algorithm)
            axes.text(-0.05, place[0], f"{name}  {line.paper:.1f}", ha="right", **look)
            axes.text(1.05, place[1], f"{line.value:.1f}  {name}", ha="left", **look)
        axes.set(xlim=(-0.75, 1.75), ylim=(len(both) + 0.5, 0.5), yticks=())
        axes.set_xticks([0, 1], ["the paper", f"ours, {scale} scale"])
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.spines[:].set_visible(False)

    best = [method_name(both["algorithm"].iloc[np.argmin(side)]) for side in places.T]
    alt = f"{len(both)} methods on {name_of(benchmark)} by average: {best[0]} leads in the paper, {best[1]} here."
    drawn = both.drop(columns="origins")
    size = (5.2, 0.6 + 0.27 * len(both))
    return Themed(draw, alt, size, name="two-orders", numbers=drawn, records=both["origins"], also=(PAPER,))
