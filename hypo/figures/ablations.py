"""Pictures of what a setting changes: differences between variants, sweeps, hard negatives, SWAD's valley."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hypo.figures import COLOURS, THEMES, Themed, plain
from hypo.report.table import PAPER
from hypo.report.text import words
from hypo.runs import Origins
from hypo.training.swad import OPTIMUM_PATIENCE, OVERFIT_PATIENCE, TOLERANCE, interval

OPEN = {"marker": "D", "mfc": "none", "mew": 1.8, "ls": "none"}
"""How a number of the paper is drawn: an open diamond; ours are filled circles."""


def contrasts(cells: pd.DataFrame, name: str, alt: str) -> Themed:
    """Differences between variants, A − B in points: the paper's, open, and ours with their 95% interval, filled.

    cells  of `hypo.report.studies.contrasts`: row, who, scale, column, value, low, high
    """
    rows = [*dict.fromkeys(cells["row"])][::-1]
    sources = [*cells.groupby(["who", "scale"], sort=False)]

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        axes.axvline(0, color=THEMES[theme]["faint"], lw=1.2)
        offsets = np.linspace(0.18, -0.18, len(sources)) if len(sources) > 1 else [0.0]
        for i, (((who, scale), own), offset) in enumerate(zip(sources, offsets, strict=True)):
            at = [rows.index(row) + offset for row in own["row"]]
            label = f"{who}{f', {scale} scale' if scale else ''} ({words(own['column'].iloc[0])})"
            if who == "paper":
                axes.plot(own["value"], at, color=ink, ms=8, label=label, **OPEN)
                continue
            reach = [(own["value"] - own["low"]).fillna(0), (own["high"] - own["value"]).fillna(0)]
            axes.errorbar(own["value"], at, xerr=reach, fmt="o", ms=7, capsize=4, color=COLOURS[i], label=label)
        axes.set_yticks(range(len(rows)), [row.replace(": ", ":\n") for row in rows])
        axes.set(xlabel="difference in OOD accuracy (points)", ylim=(-0.6, len(rows) - 0.4))
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=1)

    also = (PAPER,) if (cells["who"] == "paper").any() else ()
    size = (6.4, 1.6 + 0.8 * len(rows))
    return Themed(draw, alt, size, name=name, numbers=cells, records=cells["origins"], also=also)


def sweep(
    single: pd.DataFrame,
    field: str,
    symbol: str,
    default: float,
    paper: float | None,
    erm: float | None,
    name: str,
    alt: str,
) -> Themed:
    """OOD accuracy by the values of a field that were run: each run a dot by held-out domain, their means circles.

    single   of `hypo.report.studies.sweep`, one row per run: `field`, held_out, value (percent), origins
    default  the paper's setting, marked where it was run
    paper    the number that the paper prints for its setting; None where it prints none, or on other data than its own
    erm      the mean accuracy of ERM in percent at the same places, which does not depend on the field; None where it
             was not run
    """
    grid = sorted({*single[field]})

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        drawn = single.assign(**{field: single[field].map("{:g}".format), "held out": single["held_out"].map(words)})
        place = {"x": field, "y": "value", "order": [f"{value:g}" for value in grid], "ax": axes}
        colours = [*COLOURS[: single["held_out"].nunique()]]
        sns.stripplot(drawn, hue="held out", jitter=False, s=5, palette=colours, **place)
        means = {"color": ink, "linestyle": "none", "marker": "o", "errorbar": None, "label": "mean"}
        sns.pointplot(drawn.groupby(field, as_index=False)["value"].mean(), **place, **means)
        if default in grid:
            at = grid.index(default)
            axes.axvspan(at - 0.3, at + 0.3, color=ink, alpha=0.1, lw=0, label="the default, the paper's value")
            if paper is not None:
                axes.plot(at, paper, color=ink, ms=9, label="the paper's number", **OPEN)
        if erm is not None:
            axes.axhline(erm, color=ink, ls="--", lw=1.5, label="ERM, mean")
        axes.set(xlabel=f"{symbol} (values that were run)", ylabel="OOD accuracy (%)")
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.45, 1), ncols=2)

    numbers = single[[field, "held_out", "seed", "value", "failed", "origins"]]
    numbers = numbers.rename(columns={"value": "ood_accuracy_percent"})
    also = () if paper is None else (PAPER,)
    return Themed(draw, alt, (4.6, 4.4), name=name, numbers=numbers, records=single["origins"], also=also)


def valley(epochs: pd.DataFrame, name: str, alt: str, records: Sequence[Origins] = ()) -> Themed:
    """The validation loss of a run at each evaluation, and the stretch whose weights SWAD averages.

    epochs  one row per evaluation, in order: epoch, loss
    """
    at, losses = epochs["epoch"].to_numpy(), epochs["loss"].to_numpy()
    start, end = interval(losses.tolist())
    found = losses[start : start + OPTIMUM_PATIENCE]

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        begins = at[start - 1] if start else 0
        axes.axvspan(begins, at[end], color=COLOURS[2], alpha=0.2, lw=0, label="weights averaged")
        axes.plot(at, losses, "o-", color=ink, ms=4, label="at each evaluation")
        ring = {"ls": "none", "marker": "o", "ms": 10, "mfc": "none", "mew": 2, "color": COLOURS[1]}
        label = f"$N_s$ = {OPTIMUM_PATIENCE} losses, the first their smallest"
        axes.plot(at[start : start + len(found)], found, label=label, **ring)
        label = f"$r$ = {TOLERANCE} times their mean; $N_e$ = {OVERFIT_PATIENCE} above it end the valley"
        axes.axhline(TOLERANCE * found.mean(), color=COLOURS[1], ls="--", lw=1.5, label=label)
        axes.set(xlabel="epoch", ylabel="validation loss", ylim=(0, None))
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)

    inside = (np.arange(len(at)) >= start) & (np.arange(len(at)) <= end)
    return Themed(draw, alt, (6.4, 3.6), name=name, numbers=epochs.assign(averaged=inside), records=records)


def learning_curves(rows: pd.DataFrame, where: str, name: str) -> Themed:
    """Accuracy on the held-out domain by epoch: the mean over seeds of each method, a style for each length of a run.

    rows  of `hypo.report.sensitivity.by_epoch`; where: the data in words
    """
    ends = rows[rows["epoch"] == rows["epochs"]].groupby(["method", "epochs"], sort=False)["value"].mean()

    def draw(figure: Figure, _theme: str) -> None:
        axes = figure.subplots()
        lengths = rows.assign(**{"epochs in all": rows["epochs"].astype(int).astype(str)})
        look = {"hue": "method", "style": "epochs in all", "palette": COLOURS[: rows["method"].nunique()]}
        sns.lineplot(lengths, x="epoch", y="value", errorbar=None, markers=True, ms=6, ax=axes, **look)
        axes.set(xlabel=f"epoch (tested on {plain(where)})", ylabel="OOD accuracy (%)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    said = "; ".join(f"{method} after {epochs:g} epochs, {mean:.0f}" for (method, epochs), mean in ends.items())
    alt = f"Accuracy in percent on {where} by epoch, means over seeds: {said}."
    return Themed(draw, alt, (6.4, 3.4), name=name, numbers=rows, records=rows["origins"])
