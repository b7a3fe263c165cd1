"""Pictures of the first steps of a training."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from hypo.figures import Themed
from hypo.report.table import DIGITS


def first_steps(traces: Mapping[str, pd.DataFrame], column: str, label: str, log: bool = False) -> Themed:
    """One column of `hypo.training.trace.first_steps` over the steps, one line for each training."""

    def draw(figure: Figure, _theme: str) -> None:
        axes = figure.subplots()
        for i, (name, trace) in enumerate(traces.items()):
            axes.plot(trace.index, trace[column], label=name, ls=("-", "--", ":", "-.")[i % 4])
        axes.set(xlabel="step", ylabel=label, yscale="log" if log else "linear")
        figure.legend(loc="outside upper center", ncols=2)

    numbers = pd.concat({name: trace[column] for name, trace in traces.items()}, axis=1)
    ends = "; ".join(f"{name}: {own.iloc[0]:.3g} to {own.iloc[-1]:.3g}" for name, own in numbers.bfill().items())
    alt = f"The {label} over the first {len(numbers)} steps, first to last: {ends}."
    return Themed(draw, alt, (3.5, 3), name=f"first-steps-{column}", numbers=numbers, also=(DIGITS,))
