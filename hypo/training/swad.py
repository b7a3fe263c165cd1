"""SWAD (Cha et al., NeurIPS 2021): average the weights of every step inside the valley of the validation loss."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import get_swa_multi_avg_fn

OPTIMUM_PATIENCE, OVERFIT_PATIENCE, TOLERANCE = 3, 6, 1.3  # N_s, N_e, r
OTHER_TOLERANCES = {"vlcs": 1.2}
"""Benchmarks for which the authors take another r."""
Mean = tuple[dict[str, Tensor], int]
"""A mean of state dicts, and how many steps it is of."""


def interval(
    losses: Sequence[float], n_s: int = OPTIMUM_PATIENCE, n_e: int = OVERFIT_PATIENCE, r: float = TOLERANCE
) -> tuple[int, int]:
    """First and last evaluation (0-based, inclusive) to average over, from the validation loss at each evaluation.

    The valley starts at t_s, the first evaluation whose loss is the smallest of itself and the n_s - 1 after it. It
    ends before the first n_e evaluations in a row after it that all exceed r times the mean of those n_s losses, else
    at the last one. If no start is found, the last evaluation alone is taken (Algorithm 1 then averages the whole run).
    The losses are positive and r >= 1.
    """
    start, threshold = None, 0.0
    for i in range(len(losses)):
        if start is None:
            if i >= n_s - 1 and losses[i - n_s + 1] == min(losses[i - n_s + 1 : i + 1]):
                start = i - n_s + 1
                threshold = r * sum(losses[start : i + 1]) / n_s
        elif i - n_e + 1 > start and min(losses[i - n_e + 1 : i + 1]) > threshold:
            return start, i - n_e
    return (len(losses) - 1 if start is None else start), len(losses) - 1


class Swad:
    """Averages weights densely: every step's, from the evaluation before the valley's first to the valley's last.

        swad.step(weights)           after each optimiser step, with a state dict
        swad.evaluated(loss)         after each evaluation
        swad.average()               a state dict, once there was an evaluation

    The steps between two evaluations make one mean. Before the valley starts only those that may become its first are
    kept, n_s - 1 of them; then one of all steps that are surely inside, and n_e that may turn out to lie behind it.

    Every floating-point entry is averaged, the running statistics of batch norm too (the paper's authors freeze those);
    whole-number entries are the last's. What a method takes from the training set, as HYPO its prototypes, is to be
    recomputed with the averaged network (`refit`).
    """

    def __init__(self, benchmark: str = "") -> None:
        self.r = OTHER_TOLERANCES.get(benchmark, TOLERANCE)
        self.losses: list[float] = []
        self.means: dict[int, Mean] = {}  # by the evaluation that ended it, in order
        self.open: Mean = {}, 0

    def step(self, weights: dict[str, Tensor]) -> None:
        """Take in the weights after an optimiser step."""
        mean, steps = self.open
        if not steps:
            self.open = {name: value.clone() for name, value in weights.items()}, 1
            return
        floats = [name for name, value in weights.items() if value.is_floating_point()]
        _average([mean[name] for name in floats], [weights[name] for name in floats], steps)
        mean |= {name: value.clone() for name, value in weights.items() if not value.is_floating_point()}
        self.open = mean, steps + 1

    def evaluated(self, validation_loss: float) -> None:
        """Close the mean of the steps since the evaluation before."""
        self.losses.append(validation_loss)
        last = len(self.losses) - 1
        weights, steps = self.open
        self.means[last] = {name: value.cpu() for name, value in weights.items()}, steps
        self.open = {}, 0
        start, end = interval(self.losses, r=self.r)
        oldest = min(start, last - OPTIMUM_PATIENCE + 2)
        self.means = {i: mean for i, mean in self.means.items() if oldest <= i <= end}
        inside = last - OVERFIT_PATIENCE
        if start < inside and inside in self.means:
            self.means[start] = _merged(self.means[start], self.means.pop(inside))

    def found(self) -> tuple[int, int, bool]:
        """First and last evaluation that is averaged, and whether they are a valley or, without one, the last alone."""
        start, end = interval(self.losses, r=self.r)
        return start, end, start + OPTIMUM_PATIENCE <= len(self.losses)

    def average(self) -> dict[str, Tensor]:
        """The mean over the steps of the valley, as found so far."""
        start, _ = interval(self.losses, r=self.r)
        return functools.reduce(_merged, (mean for i, mean in self.means.items() if i >= start))[0]

    def state_dict(self) -> dict[str, Any]:
        mean, steps = self.open
        return {
            "losses": list(self.losses),
            "means": dict(self.means),
            "open": ({name: value.clone() for name, value in mean.items()}, steps),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        mean, steps = state["open"]
        self.losses, self.means = list(state["losses"]), dict(state["means"])
        self.open = {name: value.clone() for name, value in mean.items()}, steps


_average = torch.no_grad()(get_swa_multi_avg_fn())
"""(means, values, n): each mean, of n values so far, takes in one more, in place."""


def _merged(a: Mean, b: Mean) -> Mean:
    """The mean over the steps of both, on the device of b."""
    (old, m), (new, n) = a, b
    share = n / (m + n)
    return {
        name: torch.lerp(old[name].to(value), value, share) if m and value.is_floating_point() else value.clone()
        for name, value in new.items()
    }, m + n
