"""Measuring two ways of doing the same thing side by side."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

Clock = Callable[[], float]


def seconds(function: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    start = clock()
    function()
    return clock() - start


def side_by_side(*functions: Callable[[], object], rounds: int = 5, clock: Clock = time.perf_counter) -> list[float]:
    """Best time of each function in seconds; they take turns, so that a busy moment hits them alike.

    Each is called once before it is timed: else one would always find the caches as the same other function left them.
    """

    def again(function: Callable[[], object]) -> float:
        function()
        return seconds(function, clock)

    return [min(times) for times in zip(*([again(f) for f in functions] for _ in range(rounds)), strict=True)]


def row(case: str, ours: float, obvious: float, unit: str, aim: str = "", met: bool | None = None) -> dict:
    """One line of the table; the ratio says how many times better than the obvious way."""
    return {
        "case": case,
        "ours": float(ours),
        "obvious": float(obvious),
        "unit": unit,
        "ratio": float(obvious / ours),
        "aim": aim,
        "met": None if met is None else bool(met),
    }


def faster(case: str, ours: float, obvious: float, aim: float, unit: str = "ms", scale: float = 1e3) -> dict:
    """A line with an aim on the ratio; times in seconds, shown times `scale` in `unit`."""
    return row(case, ours * scale, obvious * scale, unit, f">= {aim:g}x", obvious / ours >= aim)


def printed(code: str, settings: Mapping[str, str | None], *arguments: object) -> float:
    """The number that a process of its own prints, with these environment variables set, or unset where None."""
    environment = {name: value for name, value in (os.environ | dict(settings)).items() if value is not None}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
