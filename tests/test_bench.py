"""The benchmarks run and what they print can be kept; their figures are for `make bench`."""

import json

import numpy as np
import pytest

from bench import corruptions, memory, openmp
from bench.timing import faster, row, side_by_side


def test_rows_are_plain_values_whatever_the_clock_gave():
    rows = [row("a", np.float64(2), np.float64(6), "s"), faster("b", np.float64(0.1), np.float64(0.2), aim=3)]
    first, second = json.loads(json.dumps(rows))
    assert first["ratio"] == 3 and first["met"] is None
    assert second == {"case": "b", "ours": 100, "obvious": 200, "unit": "ms", "ratio": 2, "aim": ">= 3x", "met": False}


def test_functions_are_timed_in_turns():
    turns = []
    times = side_by_side(lambda: turns.append("a"), lambda: turns.append("b"), rounds=3)
    assert turns == ["a", "a", "b", "b"] * 3 and len(times) == 2 and min(times) > 0


def test_a_function_is_timed_after_a_call_of_its_own():
    """Whatever the one before it left behind, as here a debt that the next call pays."""
    now = debt = 0.0

    def call(takes: float, leaves: float) -> None:
        nonlocal now, debt
        now, debt = now + takes + debt, leaves

    costly, plain = lambda: call(5.0, 5.0), lambda: call(1.0, 0.0)
    assert side_by_side(costly, plain, clock=lambda: now) == [10.0, 1.0]


def test_the_corruption_benchmark_covers_every_corruption():
    rows = corruptions.run(quick=True, sample=1)
    assert len(rows) == 20 and all(r["ours"] > 0 and r["obvious"] > 0 for r in rows)
    json.dumps(rows)


@pytest.mark.slow
def test_the_openmp_benchmark_compares_both_ways_of_waiting_quiet_and_busy():
    quiet, busy = openmp.run(quick=True)
    assert "quiet" in quiet["case"] and "busy" in busy["case"] and min(quiet["ours"], busy["obvious"]) > 0


@pytest.mark.slow
def test_the_memory_benchmark_compares_both_ways_of_keeping_it():
    (only,) = memory.run(quick=True)
    assert min(only["ours"], only["obvious"]) > 0
