"""The embedded digits: what is drawn, who wrote it, and that a style never tells the class."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from hypo.data.embedded import STYLES, _draw, digits, writers
from hypo.data.imageset import content_fingerprint

SCANS, LABELS = load_digits(return_X_y=True)
SCANS = SCANS.reshape(-1, 8, 8) / 16
WRITERS = writers(LABELS)


@pytest.fixture(scope="module")
def benchmark():
    return digits()


def by_style(values):
    return np.asarray(values).reshape(4, 1797, *np.shape(values)[1:])


def accuracy(features, labels, train, test):
    """Fraction of test samples that a linear classifier of the training samples gets right."""
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(features[train], labels[train])
    return model.score(features[test], labels[test])


def edge_directions(images):
    """(N, S, S, 3) -> (N, 256): luminance gradients as 4 unsigned orientations on an 8 x 8 grid, unit length."""
    dy, dx = np.gradient(images.mean(axis=3), axis=(1, 2))
    orientation = np.floor(np.arctan2(dy, dx) % np.pi / np.pi * 4).astype(int) % 4
    energy = np.hypot(dy, dx)[..., None] * (orientation[..., None] == np.arange(4))
    pooled = energy.reshape(-1, 8, 4, 8, 4, 4).mean(axis=(2, 4)).reshape(len(images), -1)
    return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


def test_every_digit_is_drawn_in_every_style(benchmark):
    assert benchmark.domain_names == ("photo", "art_painting", "cartoon", "sketch")
    assert benchmark.class_names == tuple("0123456789")
    assert benchmark.images.shape == (4 * 1797, 32, 32, 3)
    assert benchmark.images.dtype == np.uint8
    assert benchmark.labels.dtype == benchmark.domains.dtype == benchmark.groups.dtype == np.int64
    assert benchmark.test_only.dtype == bool
    assert (by_style(benchmark.domains) == np.arange(4)[:, None]).all()
    assert (by_style(benchmark.labels) == LABELS).all()
    assert (by_style(benchmark.groups) == WRITERS).all()


@pytest.mark.heavy
def test_the_seed_alone_decides_every_pixel(benchmark):
    again, other = digits(seed=0), digits(seed=1)
    assert again.fingerprint == benchmark.fingerprint
    assert (again.images == benchmark.images).all()
    assert other.fingerprint != benchmark.fingerprint
    assert (by_style(other.images) != by_style(benchmark.images)).any(axis=(2, 3, 4)).all()
    with pytest.raises(ValueError, match="seed must be 0 or more"):
        digits(seed=-1)


def test_the_fingerprint_covers_pixels_labels_domains_and_names():
    images, labels, domains = np.zeros((2, 4, 4, 3), np.uint8), np.array([0, 1]), np.array([0, 0])
    content = (images, labels, domains, ("a", "b"), ("c", "d"))
    changes = [
        (0, images + np.uint8(1)),
        (0, images.reshape(2, 2, 8, 3)),
        (1, labels[::-1]),
        (2, 1 - domains),
        (3, ("ab", "")),
        (4, ("c", "e")),
    ]
    prints = {content_fingerprint(*content[:i], value, *content[i + 1 :]) for i, value in changes}
    assert len(prints | {content_fingerprint(*content)}) == 7
    assert content_fingerprint(*content) == content_fingerprint(images.copy(order="F"), *content[1:])


def test_a_writer_is_one_copy_of_the_form():
    form = list(LABELS[:130])
    assert form[:30] == 3 * list(range(10))
    assert (np.diff(WRITERS) >= 0).all()
    assert set(WRITERS) == set(range(14))
    for writer in range(14):
        copy = list(LABELS[writer == WRITERS])
        assert set(copy) == set(range(10))
        assert longest_common_subsequence(copy, form) >= len(copy) - 1 >= 120


def longest_common_subsequence(a, b):
    best = [0] * (len(b) + 1)
    for x in a:
        diagonal = 0
        for j, y in enumerate(b, start=1):
            diagonal, best[j] = best[j], diagonal + 1 if x == y else max(best[j], best[j - 1])
    return best[-1]


def test_no_two_forms_look_like_one_hand():
    """The evidence in the docstring of `writers`: half a form is nearest to its own other half, 28 times of 28."""
    start = np.searchsorted(WRITERS, WRITERS)
    halves = 2 * WRITERS + (np.arange(1797) - start >= 65)
    pixels = SCANS.reshape(-1, 64)
    squared = np.square(pixels).sum(1)[:, None] + np.square(pixels).sum(1) - 2 * pixels @ pixels.T
    gap = np.zeros((28, 28))
    for a, b in np.ndindex(28, 28):
        rows, columns = halves == a, halves == b
        gap[a, b] = np.mean(
            [squared[np.ix_(rows & (c == LABELS), columns & (c == LABELS))].min(axis=1).mean() for c in range(10)]
        )
    gap = gap + gap.T + np.diag(np.full(28, np.inf))
    assert (gap.argmin(axis=1) // 2 == np.arange(28) // 2).all()


def test_test_writers_are_never_trained_on(benchmark):
    test, rest = set(benchmark.groups[benchmark.test_only]), set(benchmark.groups[~benchmark.test_only])
    assert test == {10, 11, 12, 13}
    assert not test & rest
    assert benchmark.test_only.sum() == 4 * 510


def test_the_styles_look_different(benchmark):
    images = by_style(benchmark.images).astype(float)
    photo, art, cartoon, sketch = (images.max(-1) - images.min(-1)).mean(axis=(1, 2, 3))
    assert sketch == 0 < 30 < photo < art < cartoon
    assert np.median(images[3]) > 235, "white paper"
    flat = [share_of_commonest_colours(style[:100].astype(int)) for style in images[:3]]
    assert max(flat[:2]) < 0.05
    assert flat[2] > 0.6, "a cartoon is a few flat colours"
    assert np.mean(images[2].max(-1).min(axis=(1, 2)) < 10) > 0.99, "a cartoon is outlined in black"
    curvature = np.abs(np.diff(images.mean(-1), n=2, axis=3)).mean(axis=(1, 2, 3))
    assert curvature[0] < 0.5 * curvature[1], "a photo is smooth where a painting has strokes and canvas"


def share_of_commonest_colours(images):
    """Mean over images of the share of pixels that have one of the image's five commonest colours."""
    codes = (images @ [65536, 256, 1]).reshape(len(images), -1)
    return np.mean([np.sort(np.unique(row, return_counts=True)[1])[-5:].sum() / row.size for row in codes])


@pytest.mark.parametrize("style", STYLES)
def test_a_drawing_depends_on_no_other_digit(style):
    """Blanking every second scan leaves the other drawings as they were: random choices do not see what is drawn."""
    scans = SCANS[:320]
    blanked = scans * (np.arange(320) % 2)[:, None, None]
    drawn, redrawn = _draw(scans, style, seed=3), _draw(blanked, style, seed=3)
    assert (drawn[1::2] == redrawn[1::2]).all()
    assert (drawn[::2] != redrawn[::2]).any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("style", range(4), ids=list(STYLES))
def test_the_background_does_not_tell_the_class(benchmark, style):
    """A linear classifier of the corners' colours stays within four standard errors of chance."""
    images = by_style(benchmark.images)[style].astype(float)
    corners = images[:, [0, 1, 30, 31]][:, :, [0, 1, 30, 31]].reshape(1797, -1, 3)
    features = np.concatenate([corners.mean(axis=1), corners.std(axis=1)], axis=1)
    train = WRITERS % 2 == 0
    assert abs(accuracy(features, LABELS, train, ~train) - 0.1) < 4 * np.sqrt(0.09 / (~train).sum())


def test_digits_stay_recognisable(benchmark):
    """Linear on edge directions alone, a style's training writers say what its test writers wrote."""
    features, test = edge_directions(benchmark.images), benchmark.test_only
    for style in range(4):
        here = benchmark.domains == style
        assert accuracy(features, benchmark.labels, here & ~test, here & test) > 0.65
