"""The benchmark that needs no download: real handwritten digits, drawn in four styles named like PACS's domains.

A drawing starts from ink (N, S, S), the 8 x 8 scan as a smooth surface in [0, 1] seen at S x S, and from its signed
distance to the pen's edge in pixels, so that a line of any width or a filled shape is one clipped ramp of it.
Random choices (placement, palette, light, paper) come from one stream per style and never see a label.
"""

from __future__ import annotations

import re

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits

from hypo.data.imageset import ImageSet, content_fingerprint

SIZE = 32  # S, pixels
TEST_WRITERS = 4  # the last forms, 510 of 1,797 scans
PARTS = 32  # drawn one after another, each small enough for the processor's cache
PIGMENTS = np.array(  # (8, 4, 3) RGB: in each palette two dark colours, then two light ones
    [
        [(27, 42, 78), (53, 88, 140), (232, 197, 71), (243, 227, 160)],
        [(107, 62, 18), (59, 74, 30), (224, 165, 38), (242, 208, 107)],
        [(46, 74, 63), (63, 93, 122), (169, 196, 176), (217, 184, 200)],
        [(43, 43, 63), (90, 46, 34), (224, 102, 47), (240, 168, 75)],
        [(31, 42, 58), (36, 64, 107), (216, 180, 90), (232, 220, 192)],
        [(75, 33, 64), (122, 46, 46), (229, 143, 101), (159, 191, 143)],
        [(58, 74, 42), (91, 58, 34), (217, 160, 102), (201, 209, 160)],
        [(90, 59, 32), (69, 81, 92), (240, 217, 160), (227, 181, 106)],
    ]
)


def digits(seed: int = 0) -> ImageSet:
    """The 1,797 digits of scikit-learn, each drawn in each style: 7,188 images of 32 x 32.

    Samples are ordered by style, then as in `load_digits`. `groups` is the writer (see `writers`), the same for the
    four drawings of a digit; `test_only` marks the last four writers. Trained on three styles, a model is tested on the
    fourth style of those writers (OOD) and on its three styles of the same writers (in-distribution), so the two
    figures differ by the style alone. How hard the styles are was set by eye and by ERM's accuracy (seed 0, every style
    held out in turn): that ERM loses on them is by design, how other methods compare with it is not.
    """
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, not {seed}; pass another seed to have the digits drawn anew")
    scans, labels = load_digits(return_X_y=True)
    scans = scans.reshape(-1, 8, 8) / 16
    images = np.concatenate([_draw(scans, style, seed) for style in STYLES])
    labels, groups = np.tile(labels.astype(np.int64), len(STYLES)), np.tile(writers(labels), len(STYLES))
    domains = np.repeat(np.arange(len(STYLES)), len(scans))
    names = tuple("0123456789"), tuple(STYLES)
    return ImageSet(
        name="digits",
        images=images,
        labels=labels,
        domains=domains,
        class_names=names[0],
        domain_names=names[1],
        fingerprint=content_fingerprint(images, labels, domains, *names),
        groups=groups,
        test_only=groups > groups.max() - TEST_WRITERS,
        notes=(
            "real handwritten digits in styles drawn by program; writers are inferred from the order of the labels",
        ),
    )


def writers(labels: np.ndarray) -> np.ndarray:
    """Who wrote each scan, inferred: labels (1797,) in the order of `load_digits` -> (1797,) int64 in 0..13.

    Known: the scans are the test part of UCI's optdigits, taken from a preprinted form that 13 people filled in; which
    scan is whose is not published. Read off the labels: they run through one form of 130 digits (0 to 9 three times,
    then a fixed string of 100) 14 times over, with at most 8 digits missing from a copy, so where copies begin is
    certain. Assumed: one copy, one writer. With 13 writers, somebody may have filled in two copies; which is unknown,
    and no two look alike: of the 28 half copies, each has its own other half as the nearest (distance between scans
    of a class). Should the last four copies share a writer with the first ten, it is at most one.
    """
    starts = [m.start() for m in re.finditer("0?123456789012345", "".join(map(str, labels)))]
    return np.searchsorted(starts, np.arange(len(labels)), side="right") - 1


def _photo(scans: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A rough object some way off under a lamp, with its cast shadow on a cluttered wall, by a noisy camera."""
    n = len(scans)
    ink = _place(scans, rng, height=(16, 22))
    shape = _ramp(_depth(ink))
    light = _directions(rng, n)
    material, wall, clutter = (
        _hsv(rng.choice([0.04, 0.09, 0.13, 0.3, 0.57], n) + rng.normal(0, 0.02, n), rng.uniform(0.1, 0.6, n), value)
        for value in _contrasting(rng, n)
    )
    scene = _over(wall, clutter, _ramp(3 * (_noise(rng, n, 2.5) - 0.6)))
    shadow = _shift(ndimage.gaussian_filter(shape, (0, 1, 1)), -3.5 * light)
    scene = scene * (1 - 0.6 * shadow)[..., None]
    slope = np.gradient(ndimage.gaussian_filter(ink, (0, 0.8, 0.8)), axis=(1, 2))
    relief = -(light[:, 0, None, None] * slope[0] + light[:, 1, None, None] * slope[1])
    grain = 0.15 * _noise(rng, n, 0.7)
    scene = _over(scene, material * (1 + 3 * relief + grain)[..., None], shape)
    lamp = 1 + 0.7 * _along(light) + 0.1 * _noise(rng, n, 1)
    scene = ndimage.gaussian_filter(scene * lamp[..., None], (0, 0.6, 0.6, 0))
    return scene + rng.normal(0, 0.03, scene.shape)


def _art_painting(scans: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Dabs of oil paint from one of eight palettes, laid along the digit's outline, on canvas."""
    n = len(scans)
    ink = _place(scans, rng, height=(21, 26), turn=20)
    palette = PIGMENTS[rng.integers(len(PIGMENTS), size=n)] / 255 + rng.normal(0, 0.04, (n, 4, 3))
    palette = np.where(rng.uniform(size=(n, 1, 1)) < 0.5, palette, palette[:, ::-1])
    colours = palette.transpose(1, 0, 2)[:, :, None, None]  # (4, N, 1, 1, 3): two for the ground, two for the figure
    ground = _over(colours[0], colours[1], _ramp(3 * _noise(rng, n, 2)))
    ground = _over(ground, colours[2], 0.6 * _ramp(4 * (_noise(rng, n, 1.5) - 1.2)))
    figure = _over(colours[3], colours[2], _ramp(3 * _noise(rng, n, 1.5)))
    figure = _over(figure, colours[1], 0.35 * _ramp(4 * (_noise(rng, n, 1) - 1.2)))
    scene = _over(ground, figure, _ramp(_depth(ink) + 0.3))
    dy, dx = np.gradient(ndimage.gaussian_filter(ink, (0, 1.5, 1.5)) + 0.15 * _noise(rng, n, 4), axis=(1, 2))
    bristles = rng.normal(0, 0.3, (n, SIZE, SIZE, 1))
    scene = _brush(np.concatenate([scene, bristles], axis=3), np.arctan2(dx, -dy))
    y, x = np.mgrid[:SIZE, :SIZE]
    canvas = 0.04 * np.sin(np.pi * 0.8 * x) * np.sin(np.pi * 0.8 * y)
    return scene[..., :3] * (1 + scene[..., 3:]) + canvas[..., None]


def _cartoon(scans: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Comic lettering: a flat bright face with a darker side, both outlined in black, on flat stripes or checks."""
    n = len(scans)
    face = _depth(_place(scans, rng, height=(25, 29), turn=15)) + rng.uniform(0.2, 0.6, (n, 1, 1))
    hue = rng.uniform(size=n)
    sky = _hsv(hue, rng.uniform(0.3, 0.9, n), rng.uniform(0.6, 1, n))
    pattern = _hsv(hue + rng.uniform(0.1, 0.5, n), rng.uniform(0.3, 0.9, n), rng.uniform(0.15, 1, n))
    fill = _hsv(hue + rng.uniform(0.4, 0.7, n), rng.uniform(0.8, 1, n), rng.uniform(0.85, 1, n))
    direction = _directions(rng, n)
    wave = rng.uniform(5, 20, (n, 1, 1)) / (2 * np.pi)  # pixels per radian
    stripes = np.cos(SIZE * _along(direction) / wave)
    checks = np.cos(SIZE * _along(direction[:, ::-1] * [1, -1]) / wave)
    scene = _over(sky, pattern, _ramp(wave * stripes * np.where(rng.uniform(size=(n, 1, 1)) < 0.5, checks, 1)))
    length = rng.uniform(0.4, 1.3, (n, 1))
    side = np.maximum.reduce([_shift(face, k * length * direction) for k in (1, 2, 3)])
    line = rng.uniform(1, 1.6, (n, 1, 1))
    scene = _over(scene, 0, _ramp(np.maximum(face, side) + line))
    scene = _over(scene, 0.5 * fill, _ramp(side))
    scene = _over(scene, 0, _ramp(face + line))
    return _over(scene, fill, _ramp(face))


def _sketch(scans: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A thin wavering pencil contour with a hatched shadow on white paper."""
    n = len(scans)
    depth = _depth(_place(scans, rng, height=(21, 26))) + 0.5 * _noise(rng, n, 3)
    line = _ramp(rng.uniform(0.5, 0.85, (n, 1, 1)) - np.abs(depth))
    light, across = _directions(rng, n), _directions(rng, n)
    shadow = _ramp(_shift(depth, -3 * light)) * (1 - _ramp(depth))
    stripes = 0.5 + 0.5 * np.sin(2 * np.pi * SIZE / rng.uniform(2.5, 4, (n, 1, 1)) * _along(across))
    graphite = np.maximum(line, rng.uniform(0, 0.5, (n, 1, 1)) * stripes * shadow)
    pressure = (
        rng.uniform(0.6, 0.9, (n, 1, 1)) * (1 + 0.25 * _noise(rng, n, 2)) * (1 + 0.15 * rng.normal(size=depth.shape))
    )
    paper = rng.uniform(0.94, 1, (n, 1, 1)) + 0.01 * rng.normal(size=depth.shape)
    return np.repeat((paper - pressure * graphite)[..., None], 3, axis=3)


STYLES = {"photo": _photo, "art_painting": _art_painting, "cartoon": _cartoon, "sketch": _sketch}


def _draw(scans: np.ndarray, style: str, seed: int) -> np.ndarray:
    """Scans (N, 8, 8) in [0, 1] drawn in one style: uint8 (N, S, S, 3)."""
    rng = np.random.default_rng([seed, *style.encode()])
    drawn = np.concatenate([STYLES[style](part, rng) for part in np.array_split(scans, PARTS)])
    return np.rint(255 * np.clip(drawn, 0, 1)).astype(np.uint8)


def _over(below: np.ndarray, above: np.ndarray, coverage: np.ndarray) -> np.ndarray:
    """Colour `above` laid over `below` (..., 3) with coverage (N, S, S) in [0, 1]."""
    return below + (above - below) * coverage[..., None]


def _ramp(distance: np.ndarray) -> np.ndarray:
    """Coverage in [0, 1] of a pixel whose centre lies `distance` pixels inside an edge."""
    return np.clip(distance + 0.5, 0, 1)


def _depth(ink: np.ndarray) -> np.ndarray:
    """Signed distance to the pen's edge (ink = 0.45) to first order, in pixels, positive inside: (N, S, S)."""
    dy, dx = np.gradient(ink, axis=(1, 2))
    return (ink - 0.45) / (np.hypot(dy, dx) + 0.02)


def _place(scans: np.ndarray, rng: np.random.Generator, height: tuple[float, float], turn: float = 10) -> np.ndarray:
    """Scans (N, 8, 8) as smooth ink (N, S, S): `height` pixels tall, turned by up to `turn` degrees, moved by 2 px."""
    n, fine, margin = len(scans), 4, 2
    cells = 8 + 2 * margin
    spline = ndimage.zoom(np.eye(cells), (fine, 1), mode="grid-constant", grid_mode=True)  # (48, 12)
    smooth = spline @ np.pad(scans, ((0, 0), (margin, margin), (margin, margin))) @ spline.T
    angle = np.deg2rad(rng.uniform(-turn, turn, n))
    step = fine * 8 / rng.uniform(*height, n)
    turned = step * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    grid = np.mgrid[:SIZE, :SIZE].reshape(2, 1, -1) - (SIZE - 1) / 2 + rng.uniform(-2, 2, (2, n, 1))
    at = np.einsum("ijn,jnp->inp", turned, grid) + (fine * cells - 1) / 2
    return np.clip(_sample(smooth, at.reshape(2, n, SIZE, SIZE)), 0, 1)


def _sample(fields: np.ndarray, at: np.ndarray) -> np.ndarray:
    """fields (N, H, W) read at positions `at` (2, N, S, S) in pixels, bilinear, nearest beyond the border."""
    index = np.broadcast_to(np.arange(len(fields))[:, None, None], at.shape[1:])
    return ndimage.map_coordinates(fields, [index, *at], order=1, mode="nearest")


def _shift(fields: np.ndarray, by: np.ndarray) -> np.ndarray:
    """fields (N, S, S) moved by (N, 2) pixels (down, right)."""
    return _sample(fields, np.mgrid[:SIZE, :SIZE][:, None] - by.T[..., None, None])


def _noise(rng: np.random.Generator, n: int, sigma: float) -> np.ndarray:
    """Gaussian fields (N, S, S) of zero mean and unit variance, smooth over sigma pixels."""
    fields = ndimage.gaussian_filter(rng.normal(size=(n, SIZE, SIZE)), (0, sigma, sigma), mode="wrap")
    return fields / fields.std()


def _directions(rng: np.random.Generator, n: int) -> np.ndarray:
    """Unit vectors (N, 2), uniform on the circle."""
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)


def _along(directions: np.ndarray) -> np.ndarray:
    """(N, S, S): how far each pixel lies along directions (N, 2) from the centre, in image widths."""
    return np.einsum("nk,kyx->nyx", directions, np.mgrid[:SIZE, :SIZE] / SIZE - 0.5)


def _contrasting(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Brightness (N,) of an object, its background and the clutter there, apart from the object on one side."""
    bright = rng.uniform(0.65, 0.95, n)
    dark, other = rng.uniform(0.15, 0.4, (2, n))
    flip = rng.uniform(size=n) < 0.5
    return np.where(flip, 1 - bright, bright), np.where(flip, 1 - dark, dark), np.where(flip, 1 - other, other)


def _hsv(hue: np.ndarray, saturation: np.ndarray, value: np.ndarray) -> np.ndarray:
    """One RGB colour per image, (N, 1, 1, 3), from hue (in turns), saturation and value, each (N,)."""
    whiteness = 1 - np.clip(np.abs((6 * hue[:, None] + [0, 4, 2]) % 6 - 3) - 1, 0, 1)
    return (value[:, None] * (1 - saturation[:, None] * whiteness))[:, None, None]


def _brush(fields: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """fields (N, S, S, K) smeared over 7 pixels along angle (N, S, S)."""
    image = np.arange(len(fields))[:, None, None]
    y, x = np.mgrid[:SIZE, :SIZE]
    down, right = np.sin(angle), np.cos(angle)
    flat, smeared = fields.reshape(-1, fields.shape[3]), np.zeros_like(fields)
    for t in range(-3, 4):
        row = np.clip(y + np.rint(t * down).astype(int), 0, SIZE - 1)
        column = np.clip(x + np.rint(t * right).astype(int), 0, SIZE - 1)
        smeared += flat.take((image * SIZE + row) * SIZE + column, axis=0)
    return smeared / 7
