"""The picture of what `make bench` measured."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hypo.figures import COLOURS, THEMES, Themed

HATCHES = ("", "///", "...", "xxx", "\\\\\\")


def ratios(rows: pd.DataFrame) -> Themed:
    """How many times better than the obvious way, on a log axis, with the aims that are set on it.

    rows  one per case: suite, case, ratio, aim ("" or ">= 3x")
    """
    aims = pd.to_numeric(rows["aim"].str.extract(r">= ([\d.]+)x")[0])

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        for i, (suite, cases) in enumerate(rows.reset_index(drop=True).groupby("suite", sort=False)):
            style = {"color": COLOURS[i], "hatch": HATCHES[i % 5], "edgecolor": ink, "lw": 0.6, "alpha": 0.85}
            axes.barh(cases.index, cases["ratio"] - 1, left=1, height=0.36, label=suite, **style)
        at = np.arange(len(rows))
        axes.vlines(aims, at - 0.25, at + 0.25, color=ink, lw=2.5)
        axes.axvline(1, color=ink, lw=1)
        for y, case, ratio in zip(at, rows["case"], rows["ratio"], strict=True):
            axes.text(max(ratio, 1) * 1.06, y, f"{ratio:.1f}", va="center", fontsize=9)
            axes.text(1.03, y - 0.2, case, va="bottom", fontsize=9)
        axes.set(
            xscale="log", xlabel="times the obvious way (thick line: the aim)", ylim=(len(rows) - 0.5, -0.9), yticks=[]
        )
        axes.set_xlim(right=2 * rows["ratio"].max())
        figure.legend(loc="outside upper center", ncols=2)

    alt = "Ratio of the obvious way's time or memory to the library's, for each case that was measured, on a log axis."
    size = (4.8, 1.4 + 0.36 * len(rows))
    return Themed(draw, alt, size, name="bench-ratios", numbers=rows.reset_index(drop=True))
