"""Filters over stacks of images: arrays of shape (..., H, W) float32, one call for a whole batch."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from scipy import ndimage, sparse


def _separable(x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """rows (H, H) @ image @ columns.T (W, W), image by image: one product over the flattened stack would be quicker,
    but its last bit depends on the number of images."""
    return rows @ x @ columns.T


@lru_cache
def _gaussian_matrix(size: int, sigma: float, mode: str, truncate: float) -> np.ndarray:
    return ndimage.gaussian_filter1d(np.eye(size), sigma, axis=0, mode=mode, truncate=truncate).astype(np.float32)


def smooth(x: np.ndarray, sigma: float, mode: str = "nearest", truncate: float = 4) -> np.ndarray:
    """Gaussian filter with a standard deviation of sigma pixels; mode and truncate are scipy.ndimage's."""
    if truncate * sigma < 0.5:  # the kernel is one pixel
        return x
    return _separable(x, *(_gaussian_matrix(size, sigma, mode, truncate) for size in x.shape[-2:]))


def _pad(x: np.ndarray, reach: int, mode: str) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, 0), (reach, reach), (reach, reach)), mode=mode)


def correlate(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """x (n, C, H, W), kernel square with an odd side; the image is mirrored about its outermost pixels.

    Shifts are taken on the flattened stack: what runs over an edge lands in the margins, which are cut off at last.
    """
    height, width = x.shape[-2:]
    padded = _pad(x, len(kernel) // 2, "reflect")
    flat = padded.reshape(-1)
    total, term = np.zeros_like(flat), np.empty_like(flat)
    for top, left in np.argwhere(np.abs(kernel) > 1e-7):
        window = flat[top * padded.shape[-1] + left :]
        total[: len(window)] += np.multiply(window, np.float32(kernel[top, left]), out=term[: len(window)])
    return total.reshape(padded.shape)[..., :height, :width]


def streaks(x: np.ndarray, degrees: np.ndarray, radius: int, sigma: float) -> np.ndarray:
    """One-sided motion blur: the mean along a line of 2 * radius + 1 pixels from each pixel on, with Gaussian weights.

    x (n, C, H, W); degrees (n,) the line's direction, clockwise from rightwards; beyond the edge its pixel repeats.
    """
    weights = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2 * sigma**2))
    weights = (weights / weights.sum()).astype(np.float32)
    weights = weights[weights > 1e-7]
    reach = len(weights)
    windows = np.lib.stride_tricks.sliding_window_view(_pad(x, reach, "edge"), x.shape[2:], axis=(2, 3))
    windows = windows.transpose(0, 2, 3, 1, 4, 5)  # (n, top, left, C, H, W)
    direction = np.stack([np.sin(np.deg2rad(degrees)), np.cos(np.deg2rad(degrees))])
    image, total = np.arange(len(x)), np.zeros_like(x)
    for k, weight in enumerate(weights):
        top, left = np.ceil(k * direction - 0.5).astype(int) + reach
        shifted = windows[image, top, left]
        shifted *= weight
        total += shifted
    return total


def _zoom_matrix(size: int, zoom: float) -> np.ndarray:
    kept = int(np.ceil(size / zoom))
    top = (size - kept) // 2
    large = ndimage.zoom(np.eye(size)[top : top + kept], (zoom, 1), order=1)
    return large[(len(large) - size) // 2 :][:size].astype(np.float32)


def centre_zoom(x: np.ndarray, zoom: float) -> np.ndarray:
    """Enlarge the middle of each image linearly, to the same size."""
    return _separable(x, *(_zoom_matrix(size, zoom) for size in x.shape[-2:]))


@lru_cache(maxsize=8)
def _zoom_blur_operator(height: int, width: int, end: float) -> sparse.csr_array:
    zooms = np.arange(1, end, 0.01)
    total = sparse.eye_array(height * width, dtype=np.float32, format="csr")
    for zoom in zooms:
        total = total + sparse.kron(*(sparse.csr_array(_zoom_matrix(size, zoom)) for size in (height, width)), "csr")
    return (total / np.float32(len(zooms) + 1)).tocsr()


def zoom_blur(x: np.ndarray, end: float) -> np.ndarray:
    """Mean of x and its centre zooms by 1, 1.01, ... before `end`, as one sparse (H W, H W) matrix."""
    height, width = x.shape[-2:]
    pixels = np.ascontiguousarray(x.reshape(-1, height * width).T)
    return np.ascontiguousarray((_zoom_blur_operator(height, width, end) @ pixels).T).reshape(x.shape)


def edge_distance(edge: np.ndarray, most: int) -> np.ndarray:
    """Euclidean distance in pixels of each pixel to the nearest edge pixel, at most `most`; edge (n, C, H, W) bool.

    The minimum of (h - h')^2 + (w - w')^2 over the edge is one over columns of one over rows.
    """
    squared = np.where(edge.transpose(2, 3, 0, 1), 0, most**2).astype(np.int16, order="C")
    for _ in range(2):
        far = squared.copy()
        for k in range(1, min(most, len(far))):
            np.minimum(squared[k:], far[:-k] + np.int16(k * k), out=squared[k:])
            np.minimum(squared[:-k], far[k:] + np.int16(k * k), out=squared[:-k])
        squared = np.ascontiguousarray(squared.swapaxes(0, 1))
    return np.ascontiguousarray(np.sqrt(squared, dtype=np.float32).transpose(2, 3, 0, 1))


def sample(x: np.ndarray, rows: np.ndarray, columns: np.ndarray, *, repeat_edge: bool) -> np.ndarray:
    """Bilinear values of x (n, C, H, W) at (rows, columns), each (n, H, W) in pixels.

    Beyond the border the image is mirrored, with its outermost pixels repeated or not.
    """
    height, width = x.shape[-2:]
    scaled = [
        (2 * place + 1) / size - 1 if repeat_edge else 2 * place / (size - 1) - 1
        for place, size in ((columns, width), (rows, height))
    ]
    grid = torch.from_numpy(np.stack(scaled, axis=-1, dtype=np.float32, casting="same_kind"))
    values = torch.nn.functional.grid_sample(
        torch.from_numpy(x), grid, padding_mode="reflection", align_corners=not repeat_edge
    )
    return values.numpy()
