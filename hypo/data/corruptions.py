"""The 19 corruptions of CIFAR-10-C at 5 severities, on whole batches of images.

Formulas and constants are those of Hendrycks & Dietterich, "Benchmarking Neural Network Robustness to Common
Corruptions and Perturbations" (ICLR 2019), in their 32-pixel form. Lengths (blur radii, shifts, the grain of fog, frost
and snow) are pixels whatever the image size, so a larger image is corrupted more finely.

Differs from the published archive, which was drawn without a seed and cannot be regenerated:
  frost       crops of a texture grown here, not of photographs
  spatter     water droplets end where wet meets dry pixels, not where a Canny detector finds an edge
  noise       normal and Poisson values are quantiles at 16-bit uniform draws, so normal ones end at 4.3 sigma
  snow        flakes are blurred at full precision instead of as an 8-bit image

In each function below x is (n, 3, H, W) float32 in [0, 1], the result has the same shape and may leave [0, 1], and
draw(*shape), called once, gives (n, *shape) uniform integers 0..65535, each image's from its own stream.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from hashlib import blake2b
from numbers import Integral

import numpy as np
import torch
from PIL import Image
from scipy import ndimage, special

from hypo.data import filters, textures
from hypo.suggest import one_of

Draw = Callable[..., np.ndarray]

_CHUNK_VALUES = 3 << 17  # values corrupted at a time: 128 CIFAR images, 1.5 MB as float32, so that work stays in cache
_SLACK = np.float32(2**-11)  # of a level, added before truncation: float32 rounding must not cost a level
_TINY = np.float32(1e-6)  # keeps 0 / 0 at 0


def corrupt(images: np.ndarray, name: str, severity: int, seed: int = 0, *, first: int = 0) -> np.ndarray:
    """Corrupt a batch of images.

    images    (N, H, W, 3) uint8, H and W at least 8, N may be 0
    name      one of CORRUPTIONS
    severity  1..5
    seed      any integer; another seed is another draw of the random corruptions
    first     index of images[0] in the set that it comes from

    Returns (N, H, W, 3) uint8. An image's result depends on its pixels, name, severity, seed and its index
    first + position, and on nothing else: corrupt(x, ...)[a:b] equals corrupt(x[a:b], ..., first=a) bit for bit.
    """
    _check(images, name, severity, seed, first)
    function, levels = _TABLE[name]
    result = np.empty(images.shape, np.uint8)
    size = max(1, _CHUNK_VALUES // max(1, images[:1].size))

    def work(start: int) -> None:
        part = slice(start, start + size)
        x = _to_unit(images[part].transpose(0, 3, 1, 2))
        draw = partial(_draw, f"{name}/{severity}/{seed}", range(first + start, first + start + len(x)))
        for channel, plane in enumerate(_to_uint8(function(x, draw, *levels[severity - 1])).transpose(1, 0, 2, 3)):
            result[part, ..., channel] = plane

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(work, range(0, len(images), size)))
    return result


def _check(images: np.ndarray, name: str, severity: int, seed: int, first: int) -> None:
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        kind = images.dtype if isinstance(images, np.ndarray) else type(images).__name__
        raise ValueError(f"images must be a numpy array of uint8, not {kind}; scale to 0..255 and convert first")
    if images.ndim != 4 or images.shape[3] != 3 or min(images.shape[1:3]) < 8:
        raise ValueError(f"images must have shape (N, H, W, 3) with H and W at least 8, not {images.shape}")
    one_of("corruption", name, CORRUPTIONS)
    if not isinstance(severity, Integral) or severity not in range(1, 6):
        raise ValueError(f"severity must be one of the integers 1, 2, 3, 4, 5, not {severity!r}")
    if not isinstance(seed, Integral):
        raise ValueError(f"seed must be an integer, not {seed!r}")
    if not isinstance(first, Integral) or first < 0:
        raise ValueError(f"first must be an integer of at least 0, the index of images[0], not {first!r}")


def _draw(key: str, indices: range, *shape: int) -> np.ndarray:
    """(len(indices), *shape) uniform integers 0..65535, each row from a random stream of the key and its index alone.

    Only raw words of PCG64 are used, whose values numpy keeps from version to version.
    """
    size = math.prod(shape)
    words = np.empty((len(indices), -(-size // 4)), "<u8")
    bits = np.random.PCG64(0)
    for row, index in zip(words, indices, strict=True):
        digest = blake2b(f"{key}/{index}".encode(), digest_size=32).digest()
        state, increment = (int.from_bytes(half, "little") for half in (digest[:16], digest[16:]))
        seeded = {"state": state, "inc": increment | 1}  # a new PCG64 for each index would cost five times as much
        bits.state = {"bit_generator": "PCG64", "state": seeded, "has_uint32": 0, "uinteger": 0}
        row[:] = bits.random_raw(len(row))
    return words.view("<u2")[:, :size].reshape(-1, *shape)


@lru_cache(maxsize=1)
def _normal_table() -> np.ndarray:
    return special.ndtri((np.arange(65536) + 0.5) / 65536).astype(np.float32)


def _normal(u: np.ndarray) -> np.ndarray:
    """Standard normal quantiles (u + 1/2) / 65536."""
    return np.take(_normal_table(), u, mode="clip")


def _uniform(u: np.ndarray, low: float, high: float) -> np.ndarray:
    """Quantiles (u + 1/2) / 65536 of the uniform distribution on [low, high]."""
    return np.float32(low) + np.float32((high - low) / 65536) * (u + np.float32(0.5))


def _to_unit(levels: np.ndarray) -> np.ndarray:
    return np.multiply(levels, np.float32(1 / 255), dtype=np.float32, order="C")


def _to_uint8(x: np.ndarray) -> np.ndarray:
    """Clip to [0, 1] and truncate to 0..255."""
    levels = x * np.float32(255)
    levels += _SLACK
    return np.clip(levels, 0, 255, out=levels).astype(np.uint8)


# Noise


def _gaussian_noise(x: np.ndarray, draw: Draw, sigma: float) -> np.ndarray:
    return x + np.float32(sigma) * _normal(draw(*x.shape[1:]))


def _speckle_noise(x: np.ndarray, draw: Draw, sigma: float) -> np.ndarray:
    return x + x * np.float32(sigma) * _normal(draw(*x.shape[1:]))


def _impulse_noise(x: np.ndarray, draw: Draw, amount: float) -> np.ndarray:
    """Each value becomes 0 with probability amount / 2, 1 with the same probability."""
    u, flips = draw(*x.shape[1:]), round(amount / 2 * 65536)
    return np.where(u < flips, np.float32(0), np.where(u >= 65536 - flips, np.float32(1), x))


def _shot_noise(x: np.ndarray, draw: Draw, rate: float) -> np.ndarray:
    """Poisson(rate x) / rate."""
    cell = _to_uint8(x).astype(np.int32) << 16
    cell |= draw(*x.shape[1:])
    return _to_unit(np.take(_poisson_table(rate), cell, mode="clip"))


@lru_cache(maxsize=1)
def _poisson_table(rate: float) -> np.ndarray:
    """(256 * 65536,) uint8: the level of count / rate, count being the quantile (u + 1/2) / 65536, by level and u."""
    counts = np.arange(int(rate + 10 * np.sqrt(rate)) + 20)
    values = _to_uint8(counts / rate)
    below = special.pdtr(counts, np.arange(256)[:, None] / 255 * rate)
    ends = np.clip(np.ceil(below * 65536 - 0.5), 0, 65536).astype(np.int64)
    ends[:, -1] = 65536
    return np.concatenate([np.repeat(values, np.diff(row, prepend=0)) for row in ends])


# Blur


def _gaussian_blur(x: np.ndarray, _: Draw, sigma: float) -> np.ndarray:
    return filters.smooth(x, sigma)


def _pick(a: np.ndarray, b: np.ndarray, second: np.ndarray) -> np.ndarray:
    """b where second is 1 and a where it is 0, all uint8, which wraps around; np.where takes three times as long."""
    return a + second * (b - a)


def _glass_blur(x: np.ndarray, draw: Draw, sigma: float, rounds: int) -> np.ndarray:
    """Blur, let each pixel take the colour of itself or of one of its three neighbours above and left, blur."""
    u = draw(rounds, 1, x.shape[2] - 2, x.shape[3] - 2).astype(np.uint8).swapaxes(0, 1)
    levels = _to_uint8(filters.smooth(x, sigma))
    for up, left in zip(u % 2, u // 2 % 2, strict=True):
        here = _pick(levels[..., 2:, 2:], levels[..., 1:-1, 2:], up)
        beside = _pick(levels[..., 2:, 1:-1], levels[..., 1:-1, 1:-1], up)
        levels[..., 2:, 2:] = _pick(here, beside, left)
    return filters.smooth(_to_unit(levels), sigma)


def _defocus_blur(x: np.ndarray, _: Draw, radius: float, sigma: float) -> np.ndarray:
    """Correlate with a disk of that radius, itself smoothed by a 3x3 Gaussian."""
    reach = int(radius) + 1
    squares = np.arange(-reach, reach + 1) ** 2
    disk = (squares[:, None] + squares <= radius**2).astype(float)
    bell = np.exp(-np.array([1, 0, 1]) / (2 * sigma**2))
    kernel = ndimage.convolve(disk / disk.sum(), np.outer(bell, bell) / bell.sum() ** 2, mode="constant")
    return filters.correlate(x, kernel)


def _motion_blur(x: np.ndarray, draw: Draw, radius: int, sigma: float) -> np.ndarray:
    return filters.streaks(x, _uniform(draw(), -45, 45), radius, sigma)


def _zoom_blur(x: np.ndarray, _: Draw, end: float) -> np.ndarray:
    return filters.zoom_blur(x, end)


# Weather


def _fog(x: np.ndarray, draw: Draw, weight: float, decay: float) -> np.ndarray:
    """Add weight * plasma, then scale so that the brightest value possible is the image's own."""
    height, width = x.shape[2:]
    size = 1 << (max(height, width) - 1).bit_length()
    plasma = textures.plasma(_uniform(draw(size * size - 1).T, -1, 1), decay)[:, None, :height, :width]
    brightest = x.max(axis=(1, 2, 3), keepdims=True)
    return (x + np.float32(weight) * plasma) * (brightest / (brightest + np.float32(weight)))


def _frost(x: np.ndarray, draw: Draw, keep: float, weight: float) -> np.ndarray:
    """keep * x + weight * a random crop of the frost texture."""
    texture, (height, width) = textures.frost_texture(), x.shape[2:]
    tiled = np.pad(texture, ((0, 0), (0, height), (0, width)), mode="wrap")
    crops = np.lib.stride_tricks.sliding_window_view(tiled, (3, height, width))[0]
    top, left = draw(2).T % texture.shape[-1]
    return np.float32(keep) * x + np.float32(weight) * crops[top, left]


def _snow(
    x: np.ndarray,
    draw: Draw,
    mean: float,
    deviation: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
    keep: float,
) -> np.ndarray:
    """Whiten the image a little and add flakes: enlarged, thresholded noise in streaks, and its half turn."""
    n, _, height, width = x.shape
    u = draw(height * width + 1)
    flakes = np.float32(mean) + np.float32(deviation) * _normal(u[:, 1:]).reshape(n, 1, height, width)
    flakes = filters.centre_zoom(flakes, zoom)
    flakes[flakes < threshold] = 0
    flakes = filters.streaks(np.minimum(flakes, 1), _uniform(u[:, 0], -135, -45), radius, sigma)
    grey = np.float32(0.299) * x[:, :1] + np.float32(0.587) * x[:, 1:2] + np.float32(0.114) * x[:, 2:]
    white = np.maximum(x, np.float32(1.5) * grey + np.float32(0.5))
    return np.float32(keep) * x + np.float32(1 - keep) * white + (flakes + flakes[..., ::-1, ::-1])


def _droplet_light(wet: np.ndarray) -> np.ndarray:
    """Levels 0..255: distance to the droplets' rims, equalised over its histogram and embossed; wet (n, 1, H, W)."""
    box = np.ones((3, 3))
    rim = wet & (filters.correlate(wet.astype(np.float32), box) < 8.5)
    depth = np.rint(filters.correlate(filters.edge_distance(rim, 20), box / 9)).astype(np.int32)
    image = np.arange(len(wet), dtype=np.int32).reshape(-1, 1, 1, 1)
    counts = np.bincount((image * 21 + depth).ravel(), minlength=len(wet) * 21).reshape(-1, 21)
    below = counts.cumsum(axis=1)
    least = below[image, depth.min(axis=(2, 3), keepdims=True)]
    level = np.rint(255 * (below[image, depth] - least) / np.maximum(below[:, -1:, None, None] - least, 1))
    emboss = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
    lit = np.clip(filters.correlate(level.astype(np.float32), emboss), 0, 255)
    return np.rint(filters.correlate(lit, box / 9))


def _spatter(
    x: np.ndarray,
    draw: Draw,
    mean: float,
    deviation: float,
    sigma: float,
    threshold: float,
    strength: float,
    mud: int,
) -> np.ndarray:
    """Blurred noise above the threshold is liquid: pale water that adds light, or brown mud that hides the image."""
    liquid = np.float32(mean) + np.float32(deviation) * _normal(draw(1, *x.shape[2:]))
    liquid = filters.smooth(liquid, sigma)
    wet = liquid > threshold
    if mud:
        cover = filters.smooth(wet.astype(np.float32), strength)
        cover[cover < 0.8] = 0
        return x + cover * (_to_unit(np.array([63, 42, 20]).reshape(3, 1, 1)) - x)
    light = wet * liquid * _droplet_light(wet)
    light *= np.float32(strength) / np.maximum(light.max(axis=(1, 2, 3), keepdims=True), _TINY)
    return x + light * _to_unit(np.array([175, 238, 238]).reshape(3, 1, 1))


# Colour


def _largest(x: np.ndarray) -> np.ndarray:
    return np.maximum(np.maximum(x[:, :1], x[:, 1:2]), x[:, 2:])


def _brightness(x: np.ndarray, _: Draw, shift: float) -> np.ndarray:
    """V + shift in HSV. Hue and saturation stay, so the channels scale together; black becomes grey."""
    value = _largest(x)
    brighter = np.minimum(value + np.float32(shift), 1)
    return np.where(value > 0, x * (brighter / np.maximum(value, _TINY)), brighter)


def _saturate(x: np.ndarray, _: Draw, scale: float, shift: float) -> np.ndarray:
    """S * scale + shift in HSV. Each channel's distance to V scales; greys have hue 0, which is red."""
    value = _largest(x)
    gap = value - x
    widest = _largest(gap)
    saturation = np.clip(np.float32(scale) * widest / np.maximum(value, _TINY) + np.float32(shift), 0, 1)
    red = np.array([0, 1, 1], np.float32).reshape(3, 1, 1)
    return value - value * saturation * np.where(widest > 0, gap / np.maximum(widest, _TINY), red)


def _contrast(x: np.ndarray, _: Draw, scale: float) -> np.ndarray:
    mean = x.mean(axis=(2, 3), keepdims=True)
    return (x - mean) * np.float32(scale) + mean


# Digital


def _jpeg_compression(x: np.ndarray, _: Draw, quality: int) -> np.ndarray:
    """The operators behind torchvision.io's encode_jpeg and decode_jpeg, whose wrappers warn and double the time."""
    import torchvision.io  # noqa: F401 - registers torch.ops.image; here, since it takes longer to import than all else

    codec, images = torch.ops.image, torch.from_numpy(_to_uint8(x))
    decoded = [codec.decode_jpeg(codec.encode_jpeg(image, quality), 0, False) for image in images]
    return _to_unit(torch.stack(decoded).numpy())


def _pixelate(x: np.ndarray, _: Draw, scale: float) -> np.ndarray:
    """Shrink with PIL's box filter, all rows of the batch and then all columns; enlarge to the nearest pixel."""
    height, width = x.shape[2:]
    low, narrow = int(height * scale), int(width * scale)
    rows = Image.fromarray(_to_uint8(x).reshape(-1, width))
    rows = np.asarray(rows.resize((narrow, rows.height), Image.Resampling.BOX)).reshape(-1, height, narrow)
    columns = Image.fromarray(rows.transpose(1, 0, 2).reshape(height, -1))
    small = np.asarray(columns.resize((columns.width, low), Image.Resampling.BOX)).reshape(low, -1, narrow)
    nearest = [(2 * np.arange(large) + 1) * few // (2 * large) for large, few in ((height, low), (width, narrow))]
    return _to_unit(small[nearest[0]][:, :, nearest[1]].transpose(1, 0, 2)).reshape(x.shape)


def _elastic_transform(x: np.ndarray, draw: Draw, alpha: float, sigma: float, affine: float) -> np.ndarray:
    """A random affine map that moves three points by up to `affine` pixels, then a smooth shift of each pixel."""
    n, _, height, width = x.shape
    arm = min(height, width) // 3
    corners = np.array([height // 2, width // 2]) + arm * np.array([[1, 1], [-1, 1], [-1, -1]])
    points = np.column_stack([corners, np.ones(3)])  # (3, 3) rows of (row, column, 1)
    u = draw(6 + 2 * height * width)
    moved = points + np.pad(_uniform(u[:, :6], -affine, affine).reshape(n, 3, 2), ((0, 0), (0, 0), (0, 1)))
    back = np.linalg.solve(moved, points)[..., :2].astype(np.float32)  # (n, 3, 2): from a pixel to where it comes from
    rows, columns = np.indices((height, width), dtype=np.float32)
    sources = (rows * a + columns * b + c for a, b, c in back.transpose(2, 1, 0)[..., None, None])
    x = filters.sample(x, *sources, repeat_edge=False)
    if alpha == 0:
        return x
    field = _uniform(u[:, 6:], -alpha, alpha).reshape(n, 2, height, width)
    field = filters.smooth(field, sigma, "reflect", 3)
    return filters.sample(x, rows + field[:, 0], columns + field[:, 1], repeat_edge=True)


_TABLE: dict[str, tuple[Callable[..., np.ndarray], tuple[tuple[float, ...], ...]]] = {
    "gaussian_noise": (_gaussian_noise, ((0.04,), (0.06,), (0.08,), (0.09,), (0.1,))),
    "shot_noise": (_shot_noise, ((500,), (250,), (100,), (75,), (50,))),
    "impulse_noise": (_impulse_noise, ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,))),
    "speckle_noise": (_speckle_noise, ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,))),
    "gaussian_blur": (_gaussian_blur, ((0.4,), (0.6,), (0.7,), (0.8,), (1,))),
    "glass_blur": (_glass_blur, ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))),
    "defocus_blur": (_defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
    "motion_blur": (_motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))),
    "zoom_blur": (_zoom_blur, ((1.06,), (1.11,), (1.16,), (1.21,), (1.26,))),
    "fog": (_fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    "frost": (_frost, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "snow": (
        _snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
    ),
    "spatter": (
        _spatter,
        (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
    ),
    "brightness": (_brightness, ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,))),
    "contrast": (_contrast, ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,))),
    "saturate": (_saturate, ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))),
    "jpeg_compression": (_jpeg_compression, ((80,), (65,), (58,), (50,), (40,))),
    "pixelate": (_pixelate, ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,))),
    "elastic_transform": (
        _elastic_transform,
        ((0, 0, 2.56), (1.6, 6.4, 2.24), (2.56, 1.92, 1.92), (3.2, 1.28, 1.6), (3.2, 0.96, 0.96)),
    ),
}
CORRUPTIONS = tuple(_TABLE)
