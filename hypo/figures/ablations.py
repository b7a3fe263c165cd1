"""Pictures of what a setting changes: differences between variants, sweeps, hard negatives, SWAD's valley."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from hypo.figures import COLOURS, THEMES, Themed
from hypo.report.text import data, words
from hypo.training.swad import OPTIMUM_PATIENCE, OVERFIT_PATIENCE, TOLERANCE, interval

PAPER = {"marker": "D", "mfc": "none", "mew": 1.8, "ls": "none"}
"""How a number of the paper is drawn: an open diamond; ours are filled circles."""


def contrasts(cells: pd.DataFrame, name: str, alt: str) -> Themed:
    """Differences between variants, A − B in points: the paper's, open, and ours with their 95% interval, filled.

    cells  of `hypo.report.studies.contrasts`: row, who, benchmark, scale, column, value, low, high
    """
    rows = [*dict.fromkeys(cells["row"])][::-1]
    sources = [*dict.fromkeys(zip(cells["who"], cells["benchmark"], cells["scale"], strict=True))]

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        axes.axvline(0, color=THEMES[theme]["faint"], lw=1.2)
        offsets = np.linspace(0.18, -0.18, len(sources)) if len(sources) > 1 else [0.0]
        for i, ((who, benchmark, scale), offset) in enumerate(zip(sources, offsets, strict=True)):
            own = cells[(cells["who"] == who) & (cells["benchmark"] == benchmark) & (cells["scale"] == scale)]
            at = [rows.index(row) + offset for row in own["row"]]
            label = ", ".join(filter(None, [who, data(benchmark), scale and f"{scale} scale"]))
            label += f" ({words(own['column'].iloc[0])})"
            if who == "paper":
                axes.plot(own["value"], at, color=ink, ms=8, label=label, **PAPER)
                continue
            reach = [(own["value"] - own["low"]).fillna(0), (own["high"] - own["value"]).fillna(0)]
            axes.errorbar(own["value"], at, xerr=reach, fmt="o", ms=7, capsize=4, color=COLOURS[i - 1], label=label)
        axes.set_yticks(range(len(rows)), [row.replace(": ", ":\n") for row in rows])
        axes.set(xlabel="difference in OOD accuracy (points)", ylim=(-0.6, len(rows) - 0.4))
        axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=1)

    return Themed(draw, alt, (6.4, 1.6 + 0.8 * len(rows)), name=name, numbers=cells, records=cells["files"])


def sweep(
    single: pd.DataFrame,
    field: str,
    symbol: str,
    grid: Sequence[float],
    default: float,
    erm: float | None,
    paper: float | None,
    ours: str,
    name: str,
    alt: str,
) -> Themed:
    """OOD accuracy by the value of one field: means with their standard deviation over seeds, each run a dot.

    single   of `hypo.report.studies.sweep`, one row per run: `field`, value (percent), failed, files
    grid     values on the axis, evenly spaced; those without a run say so
    default  the paper's setting, marked
    erm      accuracy of ERM in percent, which does not depend on the field; None where it was not run
    paper    the number that the paper prints for its setting; None where it prints none, or on other data than its own
    ours     what our numbers are of
    """

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        of = [single.loc[single[field] == value, "value"].to_numpy() for value in grid]
        ran = [i for i, values in enumerate(of) if len(values)]
        axes.axvspan(grid.index(default) - 0.3, grid.index(default) + 0.3, color=ink, alpha=0.1, lw=0)
        for at, values in enumerate(of):
            axes.plot(np.full(len(values), at), values, "o", ms=4, mfc="none", color=ink, zorder=3)
            if not len(values):
                axes.text(
                    at, 0.5, "not run", transform=axes.get_xaxis_transform(), ha="center", va="center", rotation=90
                )
        means = np.array([of[i].mean() for i in ran])
        spread = np.array([of[i].std(ddof=1) if len(of[i]) > 1 else 0.0 for i in ran])
        if ran:
            label = f"ours, {ours}: mean ± standard deviation"
            axes.errorbar(ran, means, yerr=spread, fmt="o", ms=8, capsize=4, color=COLOURS[0], label=label)
        if erm is not None:
            axes.axhline(erm, color=COLOURS[1], ls="--", lw=1.5, label=f"ERM, {ours}")
        if paper is not None:
            axes.plot(grid.index(default), paper, color=ink, ms=9, label="paper: average of four domains", **PAPER)
        axes.plot([], [], "s", ms=9, color=ink, alpha=0.15, mew=0, label="the paper's setting")
        axes.set_xticks(range(len(grid)), [f"{value:g}" for value in grid])
        axes.set(xlabel=f"{symbol} (evenly spaced)", ylabel="OOD accuracy (%)", xlim=(-0.5, len(grid) - 0.5))
        axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1))

    numbers = single[[field, "held_out", "seed", "value", "failed", "files"]]
    numbers = numbers.rename(columns={"value": "ood_accuracy_percent"})
    return Themed(draw, alt, (5.2, 4.3), name=name, numbers=numbers, records=[*single["files"]])


def pairs(images: np.ndarray, frame: pd.DataFrame, name: str, alt: str, records: Sequence[str] = ()) -> Themed:
    """Pairs of images side by side, a row for each domain: the class of each above it, the cosine between them below.

    images  (P, 2, H, W, 3) uint8
    frame   one row per pair, those of a domain together: domain, class_a, class_b, cosine
    """
    domains = [*dict.fromkeys(frame["domain"])]
    width = frame.groupby("domain").size().max()

    def draw(figure: Figure, _theme: str) -> None:
        grid = figure.subplots(len(domains), width, squeeze=False)
        for axes in grid.flat:
            axes.axis("off")
        position = frame.groupby("domain").cumcount()
        for both, row, column in zip(images, frame.itertuples(), position, strict=True):
            axes, side = grid[domains.index(row.domain), column], images.shape[2]
            shown = np.full((side, 2 * side + side // 8, 4), 0, np.uint8)
            for start, image in zip((0, side + side // 8), both, strict=True):
                shown[:, start : start + side] = np.dstack([image, np.full((side, side), 255, np.uint8)])
            axes.imshow(shown, interpolation="nearest")
            domain = f"{row.domain.replace('_', ' ')}: " if column == 0 else ""
            axes.set_title(f"{domain}{row.class_a} | {row.class_b}", fontsize=9.5)
            axes.text(
                0.5, -0.06, f"cosine {row.cosine:.2f}", transform=axes.transAxes, ha="center", va="top", fontsize=9
            )

    size = (1.75 * width, 1.45 * len(domains))
    return Themed(draw, alt, size, raster=True, name=name, numbers=frame, records=records)


def valley(epochs: pd.DataFrame, name: str, alt: str, records: Sequence[str] = ()) -> Themed:
    """The validation loss of a run at each evaluation, and the stretch whose weights SWAD averages.

    epochs  one row per evaluation, in order: epoch, loss
    """
    at, losses = epochs["epoch"].to_numpy(), epochs["loss"].to_numpy()
    start, end = interval(losses.tolist())
    found = losses[start : start + OPTIMUM_PATIENCE]
    threshold = TOLERANCE * found.mean()

    def draw(figure: Figure, theme: str) -> None:
        axes, ink = figure.subplots(), THEMES[theme]["ink"]
        begins = at[start - 1] if start else 0
        axes.axvspan(begins, at[end], color=COLOURS[2], alpha=0.2, lw=0, label="weights averaged")
        axes.plot(at, losses, "o-", color=ink, ms=4, label="at each evaluation")
        axes.plot(
            at[start : start + len(found)],
            found,
            "o",
            ms=10,
            mfc="none",
            color=COLOURS[1],
            mew=2,
            label=f"$N_s$ = {OPTIMUM_PATIENCE} losses, the first their smallest",
        )
        axes.axhline(
            threshold,
            color=COLOURS[1],
            ls="--",
            lw=1.5,
            label=f"$r$ = {TOLERANCE} times their mean; $N_e$ = {OVERFIT_PATIENCE} above it end the valley",
        )
        axes.set(xlabel="epoch", ylabel="validation loss", ylim=(0, None))
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)

    inside = (np.arange(len(at)) >= start) & (np.arange(len(at)) <= end)
    return Themed(draw, alt, (6.4, 3.6), name=name, numbers=epochs.assign(averaged=inside), records=records)
