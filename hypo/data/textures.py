"""Procedural textures: the clouds of fog and the crystals of frost."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import ndimage, special


def plasma(noise: np.ndarray, decay: float) -> np.ndarray:
    """Diamond-square heights on a torus, each map scaled to [0, 1].

    noise  (S * S - 1, n) in [-1, 1], S a power of two; its weight falls by decay^2 at each halving of the step

    Returns (n, S, S) float32.
    """
    size = round(np.sqrt(len(noise) + 1))
    heights = np.zeros((size, size, noise.shape[1]), np.float32)
    step, amplitude = size, np.float32(1)
    while step > 1:
        half, cells = step // 2, (size // step) ** 2
        corners = heights[::step, ::step]
        bumps, noise = np.split(noise, [3 * cells])
        bumps = amplitude * bumps.reshape(3, *corners.shape)
        pairs = corners + np.roll(corners, -1, 1)
        middles = (pairs + np.roll(pairs, -1, 0)) / 4 + bumps[0]
        heights[half::step, half::step] = middles
        heights[::step, half::step] = (pairs + middles + np.roll(middles, 1, 0)) / 4 + bumps[1]
        pairs = corners + np.roll(corners, -1, 0)
        heights[half::step, ::step] = (pairs + middles + np.roll(middles, 1, 1)) / 4 + bumps[2]
        step, amplitude = half, amplitude / np.float32(decay**2)
    heights -= heights.min(axis=(0, 1))
    return (heights / heights.max(axis=(0, 1))).transpose(2, 0, 1)


@lru_cache(maxsize=1)
def frost_texture() -> np.ndarray:
    """(3, 256, 256) float32 in [0, 1], periodic: six-armed ice crystals with side branches, bluish white on dark."""
    size = 256
    rng = np.random.Generator(np.random.PCG64(20190327))
    warp = np.stack([ndimage.gaussian_filter(rng.standard_normal((size, size)), 6, mode="wrap") for _ in range(2)])
    ice = np.zeros((size, size))
    for crystals, reach in ((60, 45), (200, 22)):
        around = np.arange(-reach - 20, reach + 21)
        for centre, turn in zip(rng.integers(size, size=(crystals, 2)), rng.uniform(0, 60, crystals), strict=True):
            window = np.ix_(*((centre[:, None] + around) % size))
            dy, dx = around[:, None] + 40 * warp[0][window], around + 40 * warp[1][window]
            radius = np.hypot(dy, dx)
            angle = np.deg2rad((np.rad2deg(np.arctan2(dy, dx)) + turn) % 60 - 30)
            along, aside = radius * np.cos(angle), np.abs(radius * np.sin(angle))
            branch = np.cos(np.pi * (along - aside / np.sqrt(3)) / 4) ** 4
            crystal = np.maximum(np.exp(-((aside / 1.3) ** 2)), 0.6 * branch) * np.sqrt(
                np.clip(1 - radius / reach, 0, 1)
            )
            ice[window] = np.maximum(ice[window], crystal)
    cover = ndimage.gaussian_filter(rng.standard_normal((size, size)), 20, mode="wrap")
    ice *= 0.4 + 0.6 * special.ndtr(cover / cover.std())
    white, dark = np.array([[0.92, 0.98, 1.0], [0.08, 0.15, 0.24]])[..., None, None]
    return (ice * white + (1 - ice) * dark).astype(np.float32)
