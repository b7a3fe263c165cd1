"""The 19 corruptions written plainly, one image at a time, with the ordinary libraries: the oracle of hypo.corrupt.

Each function takes x (H, W, 3) float64 in [0, 1], draw(*shape) that gives uniform integers 0..65535, and the constants
of one severity. Given the draws that hypo.corrupt makes for an image it uses the same numbers in the same places.
"""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from matplotlib.colors import hsv_to_rgb, rgb_to_hsv
from PIL import Image
from scipy import ndimage, special, stats

from hypo.data.textures import frost_texture

Draw = Callable[..., np.ndarray]


def to_uint8(x: np.ndarray) -> np.ndarray:
    """Clip and truncate, with the 2048th of a level that keeps 254.9999999 at 255."""
    return np.floor(np.clip(x * 255 + 2**-11, 0, 255)).astype(np.uint8)


def quantiles(u: np.ndarray) -> np.ndarray:
    return (u + 0.5) / 65536


def noise(draw: Draw, height: int, width: int, channels: int) -> np.ndarray:
    """(H, W, C) of the draws, which are made channel by channel, as quantiles."""
    return quantiles(draw(channels, height, width)).transpose(1, 2, 0)


def gaussian_noise(x, draw, sigma):
    return x + sigma * special.ndtri(noise(draw, *x.shape))


def speckle_noise(x, draw, sigma):
    return x + x * sigma * special.ndtri(noise(draw, *x.shape))


def shot_noise(x, draw, rate):
    return stats.poisson.ppf(noise(draw, *x.shape), x * rate) / rate


def impulse_noise(x, draw, amount):
    u = noise(draw, *x.shape)
    result = x.copy()
    result[u < amount / 2] = 0
    result[u > 1 - amount / 2] = 1
    return result


def gaussian_blur(x, _draw, sigma):
    return ndimage.gaussian_filter(x, sigma, axes=(0, 1), mode="nearest")


def glass_blur(x, draw, sigma, rounds):
    """In the published script's order, from the last pixel to the first, and with its effect: one pixel is copied."""
    x = to_uint8(gaussian_blur(x, draw, sigma))
    height, width, _ = x.shape
    for u in draw(rounds, height - 2, width - 2).astype(int):
        up, left = u % 2, u // 2 % 2
        for h in range(height - 1, 1, -1):
            for w in range(width - 1, 1, -1):
                x[h, w] = x[h - up[h - 2, w - 2], w - left[h - 2, w - 2]]
    return gaussian_blur(x / 255, draw, sigma)


def defocus_blur(x, _draw, radius, sigma):
    y = np.arange(-2, 3)
    disk = (y[:, None] ** 2 + y**2 <= radius**2).astype(float)
    bell = np.exp(-np.array([1, 0, 1]) / (2 * sigma**2))
    bell /= bell.sum()
    kernel = ndimage.convolve(disk / disk.sum(), np.outer(bell, bell))
    return np.stack([ndimage.correlate(x[..., c], kernel, mode="mirror") for c in range(3)], axis=-1)


def streaks(x, degrees, radius, sigma):
    """x (H, W, C); a one-sided Gaussian line from each pixel on."""
    height, width, _ = x.shape
    weights = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2 * sigma**2))
    total = np.zeros_like(x)
    for i, weight in enumerate(weights / weights.sum()):
        rows = np.arange(height) + int(np.ceil(i * np.sin(np.deg2rad(degrees)) - 0.5))
        columns = np.arange(width) + int(np.ceil(i * np.cos(np.deg2rad(degrees)) - 0.5))
        total += weight * x[np.clip(rows, 0, height - 1)[:, None], np.clip(columns, 0, width - 1)]
    return total


def motion_blur(x, draw, radius, sigma):
    return streaks(x, 90 * quantiles(draw()) - 45, radius, sigma)


def centre_zoom(x, zoom):
    """x (H, W, C) enlarged about its middle, same shape."""
    (height, width), kept = x.shape[:2], [int(np.ceil(size / zoom)) for size in x.shape[:2]]
    top, left = (height - kept[0]) // 2, (width - kept[1]) // 2
    large = ndimage.zoom(x[top : top + kept[0], left : left + kept[1]], (zoom, zoom, 1), order=1)
    top, left = (large.shape[0] - height) // 2, (large.shape[1] - width) // 2
    return large[top : top + height, left : left + width]


def zoom_blur(x, _draw, end):
    zooms = np.arange(1, end, 0.01)
    return (x + sum(centre_zoom(x, zoom) for zoom in zooms)) / (len(zooms) + 1)


def plasma(draw, size, decay):
    noise = 2 * quantiles(draw(size * size - 1)) - 1
    heights = np.zeros((size, size))
    step, amplitude = size, 1.0
    while step > 1:
        half, count = step // 2, size // step
        diagonal, straight = [(-1, -1), (-1, 1), (1, -1), (1, 1)], [(-1, 0), (1, 0), (0, -1), (0, 1)]
        for top, left, around in ((half, half, diagonal), (0, half, straight), (half, 0, straight)):
            y, x = np.arange(top, size, step)[:, None], np.arange(left, size, step)
            near = sum(heights[(y + half * dy) % size, (x + half * dx) % size] for dy, dx in around)
            heights[y, x] = near / 4 + amplitude * noise[: count**2].reshape(count, count)
            noise = noise[count**2 :]
        step, amplitude = half, amplitude / decay**2
    heights -= heights.min()
    return heights / heights.max()


def fog(x, draw, weight, decay):
    height, width, _ = x.shape
    size = 2 ** int(np.ceil(np.log2(max(height, width))))
    top = x.max()
    return (x + weight * plasma(draw, size, decay)[:height, :width, None]) * top / (top + weight)


def frost(x, draw, keep, weight):
    texture = frost_texture().transpose(1, 2, 0)
    top, left = draw(2).astype(int) % len(texture)
    rows = np.arange(top, top + x.shape[0]) % len(texture)
    columns = np.arange(left, left + x.shape[1]) % len(texture)
    return keep * x + weight * texture[np.ix_(rows, columns)]


def snow(x, draw, mean, deviation, zoom, threshold, radius, sigma, keep):
    u = quantiles(draw(x.shape[0] * x.shape[1] + 1))
    flakes = mean + deviation * special.ndtri(u[1:]).reshape(*x.shape[:2], 1)
    flakes = centre_zoom(flakes, zoom)
    flakes[flakes < threshold] = 0
    flakes = streaks(np.clip(flakes, 0, 1), 90 * u[0] - 135, radius, sigma)
    grey = (x @ [0.299, 0.587, 0.114])[..., None]
    x = keep * x + (1 - keep) * np.maximum(x, 1.5 * grey + 0.5)
    return x + flakes + np.rot90(flakes, 2)


def spatter(x, draw, mean, deviation, sigma, threshold, strength, mud):
    liquid = mean + deviation * special.ndtri(noise(draw, *x.shape[:2], 1)[..., 0])
    liquid = ndimage.gaussian_filter(liquid, sigma, mode="nearest")
    wet = liquid > threshold
    if mud:
        cover = ndimage.gaussian_filter(wet.astype(float), strength, mode="nearest")
        cover[cover < 0.8] = 0
        return x * (1 - cover[..., None]) + cover[..., None] * np.array([63, 42, 20]) / 255
    rim = wet & ~ndimage.binary_erosion(wet, np.ones((3, 3)), border_value=1)
    distance = np.minimum(ndimage.distance_transform_edt(~rim), 20) if rim.any() else np.full(wet.shape, 20.0)
    depth = np.rint(ndimage.uniform_filter(distance, 3, mode="mirror")).astype(int)
    below = np.cumsum(np.bincount(depth.ravel(), minlength=21))
    least = below[depth.min()]
    level = np.rint(255 * (below[depth] - least) / max(depth.size - least, 1))
    lit = np.clip(ndimage.correlate(level, [[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], mode="mirror"), 0, 255)
    light = np.where(wet, liquid, 0) * np.rint(ndimage.uniform_filter(lit, 3, mode="mirror"))
    light = light / max(light.max(), 1e-6) * strength
    return x + light[..., None] * np.array([175, 238, 238]) / 255


def brightness(x, _draw, shift):
    hsv = rgb_to_hsv(x)
    hsv[..., 2] = np.clip(hsv[..., 2] + shift, 0, 1)
    return hsv_to_rgb(hsv)


def saturate(x, _draw, scale, shift):
    hsv = rgb_to_hsv(x)
    hsv[..., 1] = np.clip(hsv[..., 1] * scale + shift, 0, 1)
    return hsv_to_rgb(hsv)


def contrast(x, _draw, scale):
    mean = x.mean(axis=(0, 1))
    return (x - mean) * scale + mean


def jpeg_compression(x, _draw, quality):
    file = io.BytesIO()
    Image.fromarray(to_uint8(x)).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file)) / 255


def pixelate(x, _draw, scale):
    height, width, _ = x.shape
    small = Image.fromarray(to_uint8(x)).resize((int(width * scale), int(height * scale)), Image.Resampling.BOX)
    return np.asarray(small.resize((width, height), Image.Resampling.BOX)) / 255


def elastic_transform(x, draw, alpha, sigma, affine):
    height, width, _ = x.shape
    arm = min(height, width) // 3
    y, x0 = height // 2, width // 2
    points = np.array([[y + arm, x0 + arm], [y - arm, x0 + arm], [y - arm, x0 - arm]], dtype=float)
    u = 2 * quantiles(draw(6 + 2 * height * width)) - 1
    moved = points + affine * u[:6].reshape(3, 2)
    back = np.linalg.solve(np.column_stack([moved, np.ones(3)]), points).T  # (2, 3)
    x = np.stack(
        [ndimage.affine_transform(x[..., c], back[:, :2], back[:, 2], order=1, mode="mirror") for c in range(3)],
        axis=-1,
    )
    shift = [
        alpha * ndimage.gaussian_filter(field, sigma, mode="reflect", truncate=3)
        for field in u[6:].reshape(2, height, width)
    ]
    where = np.indices((height, width)) + np.array(shift)
    return np.stack([ndimage.map_coordinates(x[..., c], where, order=1, mode="reflect") for c in range(3)], axis=-1)


REFERENCE: dict[str, Callable[..., np.ndarray]] = {
    function.__name__: function
    for function in (
        gaussian_noise,
        shot_noise,
        impulse_noise,
        speckle_noise,
        gaussian_blur,
        glass_blur,
        defocus_blur,
        motion_blur,
        zoom_blur,
        fog,
        frost,
        snow,
        spatter,
        brightness,
        contrast,
        saturate,
        jpeg_compression,
        pixelate,
        elastic_transform,
    )
}
