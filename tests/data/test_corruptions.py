"""hypo.corrupt against the plain per-image version of each formula, and what holds for every corruption."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from corruptions_reference import REFERENCE, to_uint8
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from sklearn.datasets import load_sample_images

from hypo.data import corruptions, filters, textures
from hypo.data.corruptions import CORRUPTIONS, corrupt

SEVERITIES = (1, 2, 3, 4, 5)
PLAIN = (
    "gaussian_blur",
    "defocus_blur",
    "zoom_blur",
    "brightness",
    "contrast",
    "saturate",
    "jpeg_compression",
    "pixelate",
)
RANDOM = tuple(name for name in CORRUPTIONS if name not in PLAIN)


def photo_patches(count: int, height: int = 32, width: int = 32) -> np.ndarray:
    photos = load_sample_images().images
    rng = np.random.default_rng(1)
    result = []
    for number in range(count):
        photo = photos[number % 2]
        top, left = rng.integers(photo.shape[0] - height), rng.integers(photo.shape[1] - width)
        result.append(photo[top : top + height, left : left + width])
    return np.stack(result)


@pytest.fixture(scope="module")
def patches() -> np.ndarray:
    return photo_patches(16)


def by_oracle(images: np.ndarray, name: str, severity: int, seed: int, first: int = 0) -> np.ndarray:
    constants = corruptions._TABLE[name][1][severity - 1]
    result = []
    for index, image in enumerate(images, start=first):

        def draw(*shape: int, index: int = index) -> np.ndarray:
            return corruptions._draw(f"{name}/{severity}/{seed}", range(index, index + 1), *shape)[0]

        result.append(to_uint8(REFERENCE[name](image / 255, draw, *constants)))
    return np.stack(result)


def assert_same(ours: np.ndarray, plain: np.ndarray) -> None:
    """At most one level apart, and equal in all but one of a thousand values: float32 against float64, truncated."""
    difference = np.abs(ours.astype(int) - plain)
    assert difference.max() <= 1
    assert np.mean(difference > 0) < 1e-3


def test_names_are_the_nineteen_of_cifar10_c():
    assert len(set(CORRUPTIONS)) == 19
    assert set(CORRUPTIONS) == set(REFERENCE)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_equals_the_plain_version(patches, name, severity):
    assert_same(corrupt(patches[:6], name, severity, seed=3), by_oracle(patches[:6], name, severity, seed=3))


@pytest.mark.parametrize("shape", [(9, 40), (45, 21), (8, 8)])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_equals_the_plain_version_at_any_size(name, shape):
    images = photo_patches(3, *shape)
    ours = corrupt(images, name, 4, first=7)
    assert ours.shape == images.shape
    assert_same(ours, by_oracle(images, name, 4, 0, first=7))


@pytest.mark.parametrize("value", [0, 128, 255])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_equals_the_plain_version_on_constant_images(name, value):
    images = np.full((2, 32, 32, 3), value, np.uint8)
    for severity in (2, 5):
        assert_same(corrupt(images, name, severity), by_oracle(images, name, severity, 0))


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_result_depends_on_the_index_and_not_on_the_batch(patches, name, monkeypatch):
    whole = corrupt(patches, name, 3, seed=5)
    assert np.array_equal(whole, corrupt(patches.copy(), name, 3, seed=5))
    assert np.array_equal(whole[:5], corrupt(patches[:5], name, 3, seed=5))
    assert np.array_equal(whole[4:11], corrupt(patches[4:11], name, 3, seed=5, first=4))
    assert np.array_equal(whole[9:10], corrupt(patches[9:10], name, 3, seed=5, first=9))
    monkeypatch.setattr(corruptions, "_CHUNK_VALUES", 3 * patches[0].size)
    assert np.array_equal(whole, corrupt(patches, name, 3, seed=5))


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(CORRUPTIONS),
    severity=st.sampled_from(SEVERITIES),
    seed=st.integers(-(2**70), 2**70),
    first=st.integers(0, 2**40),
    cut=st.integers(0, 6),
)
def test_any_cut_of_a_batch_gives_the_same_images(name, severity, seed, first, cut):
    images = photo_patches(6, 12, 16)
    whole = corrupt(images, name, severity, seed, first=first)
    parts = [corrupt(images[:cut], name, severity, seed, first=first)]
    parts.append(corrupt(images[cut:], name, severity, seed, first=first + cut))
    assert np.array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("shape", [(32, 32), (9, 40), (45, 21), (8, 8)])
@pytest.mark.parametrize("channels", [1, 3])
def test_filters_give_every_bit_whatever_the_batch(shape, channels):
    x = np.random.default_rng(0).random((100, channels, *shape), dtype=np.float32)
    degrees = np.linspace(-135, 45, 100)
    rows, columns = np.random.default_rng(1).uniform(-3, max(shape) + 3, (2, 100, *shape)).astype(np.float32)
    whole, kernel = slice(None), np.random.default_rng(2).random((5, 5))
    for function in (
        lambda part: filters.smooth(x[part], 0.7),
        lambda part: filters.smooth(x[part], 6.4, "reflect", 3),
        lambda part: filters.centre_zoom(x[part], 1.75),
        lambda part: filters.zoom_blur(x[part], 1.16),
        lambda part: filters.correlate(x[part], kernel),
        lambda part: filters.streaks(x[part], degrees[part], 8, 3),
        lambda part: filters.sample(x[part], rows[part], columns[part], repeat_edge=True),
        lambda part: filters.sample(x[part], rows[part], columns[part], repeat_edge=False),
    ):
        for part in (slice(0, 1), slice(3, 5), slice(20, 97)):
            assert np.array_equal(function(whole)[part], function(part))


@pytest.mark.parametrize("name", RANDOM)
def test_another_seed_or_index_is_another_draw(patches, name):
    one = corrupt(patches[:8], name, 5, seed=0)
    assert not np.array_equal(one, corrupt(patches[:8], name, 5, seed=1))
    assert not np.array_equal(one, corrupt(patches[:8], name, 5, seed=0, first=8))


@pytest.mark.parametrize("name", PLAIN)
def test_the_others_draw_nothing(patches, name):
    assert np.array_equal(corrupt(patches, name, 5, seed=0), corrupt(patches, name, 5, seed=1, first=3))


def test_streams_of_names_severities_seeds_and_indices_are_unrelated():
    keys = [f"{name}/{severity}/{seed}" for name in ("fog", "snow") for severity in (1, 2) for seed in (0, 1)]
    draws = np.concatenate([corruptions._draw(key, range(4), 4000) for key in keys]).astype(float)
    correlation = np.corrcoef(draws) - np.eye(len(draws))
    assert np.abs(correlation).max() < 0.08  # five standard deviations of 1 / sqrt(4000)
    assert abs(draws.mean() / 65535 - 0.5) < 0.005


def test_draws_never_change():
    digest = hashlib.sha256(corruptions._draw("fog/1/0", range(3), 1001).astype("<u2").tobytes()).hexdigest()
    assert digest[:16] == "341b51f62b1baac7"


# Exceptions to growth with severity, only asked to change the image: saturate fades at 1 and 2 and is stronger
# from 3 on; glass_blur, spatter and elastic_transform trade one kind of damage for another; snow has fewer but larger
# flakes from 3 on; frost darkens the image from 3 on by as much as it adds.
UNORDERED = ("saturate", "glass_blur", "spatter", "elastic_transform", "snow", "frost")


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_severity_raises_the_distance_to_the_clean_image(name):
    images = photo_patches(200)
    distance = [
        np.sqrt(np.mean((corrupt(images, name, severity).astype(float) - images) ** 2)) for severity in SEVERITIES
    ]
    assert min(distance) > 0.5
    if name not in UNORDERED:  # motion_blur's 3 and 4 have one sigma and differ by a tail of 1e-9: hence the hundredth
        assert all(after > 0.99 * before for before, after in pairwise(distance))


def test_noise_has_the_moments_of_its_distribution():
    grey = np.full((60, 32, 32, 3), 102, np.uint8)  # 0.4
    for name, deviation in (
        ("gaussian_noise", 0.08),
        ("speckle_noise", 0.12 * 0.4),
        ("shot_noise", np.sqrt(0.4 / 100)),
    ):
        values = (corrupt(grey, name, 3).astype(float) + 0.5) / 255
        assert abs(values.mean() - 0.4) < 0.002
        assert abs(values.std() - deviation) < 0.002
    values = corrupt(grey, "impulse_noise", 5)
    for extreme in (0, 255):
        assert abs(np.mean(values == extreme) - 0.035) < 0.002


def test_closed_forms_on_constant_images():
    grey = np.full((1, 16, 16, 3), 100, np.uint8)
    for name in ("gaussian_blur", "glass_blur", "defocus_blur", "motion_blur", "zoom_blur", "contrast", "pixelate"):
        assert np.array_equal(corrupt(grey, name, 5), grey), name
    assert np.array_equal(corrupt(grey, "elastic_transform", 5), grey)
    assert np.array_equal(corrupt(grey, "brightness", 1), grey + 12)  # 0.05 * 255 = 12.75
    assert np.array_equal(corrupt(grey, "saturate", 1), grey)
    assert np.all(corrupt(np.zeros_like(grey), "fog", 5) == 0)


def test_full_range_stays_in_range(patches):
    extreme = np.where(patches > 127, 255, 0).astype(np.uint8)
    for name in CORRUPTIONS:
        result = corrupt(extreme, name, 5)
        assert result.dtype == np.uint8
        assert_same(result[:2], by_oracle(extreme[:2], name, 5, 0))


def test_input_is_left_alone_and_may_be_strided_or_read_only(patches):
    mirrored = patches[:, :, ::-1]
    mirrored.setflags(write=False)
    before = mirrored.copy()
    for name in CORRUPTIONS:
        assert np.array_equal(corrupt(mirrored, name, 3), corrupt(before, name, 3))
    assert np.array_equal(mirrored, before)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_empty_batch(name):
    assert corrupt(np.empty((0, 32, 24, 3), np.uint8), name, 1).shape == (0, 32, 24, 3)


def test_edge_distance_is_the_euclidean_transform_cut_off():
    edge = np.random.default_rng(0).random((5, 1, 30, 40)) < 0.003
    edge[0] = False
    for image, ours in zip(edge[:, 0], filters.edge_distance(edge, 20)[:, 0], strict=True):
        plain = ndimage.distance_transform_edt(~image) if image.any() else np.full(image.shape, 20)
        np.testing.assert_allclose(ours, np.minimum(plain, 20), rtol=1e-6)


def test_frost_texture_is_bluish_periodic_and_of_high_contrast():
    red, green, blue = texture = textures.frost_texture()
    assert np.all((red <= green) & (green <= blue))
    assert texture.std() > 0.15
    for axis in (1, 2):
        steps = np.abs(np.diff(texture, axis=axis, append=np.take(texture, [0], axis)))
        seam = np.take(steps, -1, axis).mean()
        assert seam < 1.5 * steps.mean()


GOOD = np.zeros((1, 8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("images", "name", "severity", "options", "words"),
    [
        (GOOD.astype(np.float32), "fog", 1, {}, "uint8, not float32"),
        (GOOD.tolist(), "fog", 1, {}, "uint8, not list"),
        (GOOD[0], "fog", 1, {}, r"\(N, H, W, 3\)"),
        (GOOD[..., :1], "fog", 1, {}, r"\(N, H, W, 3\)"),
        (GOOD[:, :7], "fog", 1, {}, "at least 8"),
        (GOOD, "gausian_noise", 1, {}, "did you mean gaussian_noise"),
        (GOOD, "jpeg", 1, {}, "did you mean jpeg_compression"),
        (GOOD, None, 1, {}, "unknown corruption None"),
        (GOOD, "fog", 0, {}, "1, 2, 3, 4, 5, not 0"),
        (GOOD, "fog", 6, {}, "1, 2, 3, 4, 5, not 6"),
        (GOOD, "fog", 2.0, {}, "1, 2, 3, 4, 5, not 2.0"),
        (GOOD, "fog", 1, {"seed": 1.5}, "seed must be an integer, not 1.5"),
        (GOOD, "fog", 1, {"seed": None}, "seed must be an integer, not None"),
        (GOOD, "fog", 1, {"first": -1}, "first must be an integer of at least 0"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(images, name, severity, options, words):
    with pytest.raises(ValueError, match=words) as refusal:
        corrupt(images, name, severity, **options)
    assert "\n" not in str(refusal.value)


def test_numpy_integers_are_integers(patches):
    ours = corrupt(patches[:1], "fog", np.int64(2), np.uint8(3), first=np.int32(1))
    assert np.array_equal(ours, corrupt(patches[:1], "fog", 2, 3, first=1))
