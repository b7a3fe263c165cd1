"""Time to corrupt a CIFAR-sized test set in every way: hypo.corrupt on whole batches against a loop over images.

The loop is the oracle of the tests, which calls numpy, scipy, PIL and matplotlib once per image; where the oracle
reproduces hypo.corrupt's draws at a cost that nobody would pay, the loop draws from numpy's distributions instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.datasets import load_sample_images

from bench.timing import faster, row, seconds
from hypo.data.corruptions import _TABLE, CORRUPTIONS, corrupt
from tests.data.corruptions_reference import REFERENCE, to_uint8

_RNG = np.random.default_rng(0)


def _impulse_noise(x: np.ndarray, _: Callable, amount: float) -> np.ndarray:
    u = _RNG.random(x.shape)
    return np.where(u < amount / 2, 0, np.where(u > 1 - amount / 2, 1, x))


_LOOP = REFERENCE | {
    "gaussian_noise": lambda x, _, sigma: x + _RNG.normal(0, sigma, x.shape),
    "speckle_noise": lambda x, _, sigma: x + x * _RNG.normal(0, sigma, x.shape),
    "shot_noise": lambda x, _, rate: _RNG.poisson(x * rate) / rate,
    "impulse_noise": _impulse_noise,
}


def _patches(count: int, size: int = 32) -> np.ndarray:
    """(count, size, size, 3) uint8 crops of scikit-learn's two photographs."""
    photos = np.stack(load_sample_images().images)
    rng = np.random.default_rng(0)
    _, height, width, _ = photos.shape
    places = zip(*(rng.integers(high, size=count) for high in (2, height - size, width - size)), strict=True)
    return np.stack([photos[photo, top : top + size, left : left + size] for photo, top, left in places])


def _draw(*shape: int) -> np.ndarray:
    return _RNG.integers(65536, size=shape, dtype=np.uint16)


def run(quick: bool = False, sample: int = 20) -> list[dict]:
    """One row a corruption, and one of all; seconds for all severities, the loop's scaled up from `sample` images."""
    batch = _patches(200 if quick else 10_000)
    rows, totals = [], np.zeros(2)
    for name in CORRUPTIONS:
        corrupt(batch[:1], name, 1)
        times = np.zeros(2)
        for severity in (3,) if quick else (1, 2, 3, 4, 5):
            times += [seconds(partial(corrupt, batch, name, severity)), _loop(name, severity, batch, sample)]
        totals += times
        rows.append(row(f"{name}, {len(batch):,} images", *times, "s"))
    rows.append(faster(f"all 19, {len(batch):,} images of 32 px", *totals, aim=20, unit="s", scale=1))
    return rows


def _loop(name: str, severity: int, batch: np.ndarray, sample: int) -> float:
    def work() -> None:
        for image in batch[:sample]:
            to_uint8(_LOOP[name](image / 255, _draw, *_TABLE[name][1][severity - 1]))

    return seconds(work) * len(batch) / min(sample, len(batch))
