"""The picture of what `make bench` measured."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from hypo.figures import COLOURS, THEMES, Themed
from hypo.report.table import TIMES


def ratios(rows: pd.DataFrame) -> Themed:
    """How many times better than the obvious way, on a log axis, with the aims that are set on it.

    rows  one per case: suite, case, ratio, aim ("" or ">= 3x")
    """
    aims = pd.to_numeric(rows["aim"].str.extract(r">= ([\d.]+)x")[0])

    def draw(figure: Figure, theme: str) -> None:
        axes, ink, at = figure.subplots(), THEMES[theme]["ink"], range(len(rows))
        look = {"palette": [*COLOURS[: rows["suite"].nunique()]], "edgecolor": ink, "saturation": 1, "dodge": False}
        sns.barplot(rows, x="ratio", y="case", hue="suite", ax=axes, width=0.5, **look)
        axes.scatter(aims, at, marker="|", s=260, lw=2.5, color=ink, zorder=3)
        axes.axvline(1, color=ink, lw=1)
        for y, ratio in zip(at, rows["ratio"], strict=True):
            axes.text(max(ratio, 1) * 1.06, y, f"{ratio:.1f}", va="center", fontsize=9)
        axes.set(xscale="log", xlabel="times the obvious way", ylabel="")
        axes.set_xlim(right=2 * rows["ratio"].max())
        axes.get_legend().remove()
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3)

    alt = "Ratio of the obvious way's time or memory to the library's, for each case that was measured, on a log axis."
    size = (6.8, 1.4 + 0.3 * len(rows))
    return Themed(draw, alt, size, name="bench-ratios", numbers=rows.reset_index(drop=True), also=(TIMES,))
