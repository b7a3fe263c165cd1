"""No leak: what may be trained on, selected on and tested on, over random sets."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hypo.data.imageset import ImageSet
from hypo.data.splits import Split, split

PARTS = ("train", "validation", "id_test", "ood_test")


def image_set(labels, domains, groups=None, test_only=None) -> ImageSet:
    labels, domains = np.asarray(labels, np.int64), np.asarray(domains, np.int64)
    return ImageSet(
        name="random",
        images=np.zeros((len(labels), 1, 1, 3), np.uint8),
        labels=labels,
        domains=domains,
        class_names=tuple(f"class{i}" for i in range(labels.max() + 1)),
        domain_names=tuple(f"domain{i}" for i in range(domains.max() + 1)),
        fingerprint="content",
        groups=groups,
        test_only=test_only,
    )


@st.composite
def image_sets(draw) -> ImageSet:
    """Up to 4 domains of up to 4 classes; groups or none; test_only samples, whole test_only groups, or none."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(2, 300))
    domains, classes, groups = (draw(st.integers(1, most)) for most in (4, 4, 40))
    group = rng.integers(0, groups, n) if draw(st.booleans()) else None
    tested = {
        "none": None,
        "samples": rng.random(n) < 0.2,
        "groups": None if group is None else (rng.random(groups) < 0.3)[group],
    }[draw(st.sampled_from(["none", "samples", "groups"]))]
    return image_set(rng.integers(0, classes, n), rng.integers(0, domains, n), group, tested)


@st.composite
def splits(draw, protocol: str) -> tuple[ImageSet, str | None, float, Split]:
    images = draw(image_sets())
    held_out = draw(st.sampled_from([None, *images.domain_names]))
    fraction = draw(st.sampled_from([0.1, 0.1, 0.05, 0.3, 0.6]))
    try:
        return images, held_out, fraction, split(images, held_out, draw(st.integers(0, 9)), fraction, protocol)
    except ValueError as error:
        assert "\n" not in str(error)
        assume(False)


def cells(images: ImageSet, part: np.ndarray) -> np.ndarray:
    """(E, C): how many of a part are in each cell."""
    counts = np.zeros((len(images.domain_names), len(images.class_names)), int)
    np.add.at(counts, (images.domains[part], images.labels[part]), 1)
    return counts


def pool_of(images: ImageSet, held_out: str | None) -> set[int]:
    """What may be trained and selected on, sample by sample."""
    tests = np.zeros(len(images), bool) if images.test_only is None else images.test_only
    groups = np.arange(len(images)) if images.groups is None else images.groups
    tested = {groups[i] for i in range(len(images)) if tests[i]}
    names = [images.domain_names[d] for d in images.domains]
    return {i for i in range(len(images)) if names[i] != held_out and groups[i] not in tested}


@pytest.mark.parametrize("protocol", ["paper", "released"])
@settings(deadline=None)
@given(data=st.data())
def test_nothing_held_out_reaches_training_or_selection(protocol, data):
    images, held_out, _, s = data.draw(splits(protocol))
    allowed = pool_of(images, held_out)
    assert set(s.train) <= allowed
    if protocol == "paper" or held_out is not None:
        assert set(s.validation) <= allowed
    outside = {i for i, d in enumerate(images.domains) if images.domain_names[d] == held_out}
    tests = set() if images.test_only is None else set(np.flatnonzero(images.test_only))
    assert set(s.ood_test) == (outside & tests or outside)
    assert set(s.id_test) == (tests - outside or set(s.validation))


@settings(deadline=None)
@given(splits("paper"))
def test_training_and_validation_divide_the_pool(drawn):
    images, held_out, _, s = drawn
    assert len(s.train) and len(s.validation)
    assert not set(s.train) & set(s.validation)
    assert set(s.train) | set(s.validation) == pool_of(images, held_out)
    pool = cells(images, np.concatenate([s.train, s.validation]))
    assert (cells(images, s.train)[pool >= 2] >= 1).all()
    for name in PARTS:
        part = getattr(s, name)
        assert part.dtype == np.int64 and (np.diff(part) > 0).all()


@settings(deadline=None)
@given(splits("paper"))
def test_shares_are_within_rounding(drawn):
    """Stratified: each cell within 1 of its share, the total exact unless cells have nothing to spare."""
    images, _, fraction, s = drawn
    assume(images.groups is None)
    pool, taken = cells(images, np.concatenate([s.train, s.validation])), cells(images, s.validation)
    can_spare = np.minimum(fraction * pool, pool - 1)[pool > 0]
    assert (np.abs(taken - fraction * pool) <= 1)[pool > 1].all() and (taken[pool == 1] == 0).all()
    if (can_spare == (fraction * pool)[pool > 0]).all():
        assert taken.sum() == max(1, round(fraction * pool.sum()))


@settings(deadline=None)
@given(splits("paper"))
def test_no_group_straddles(drawn):
    images, _, _, s = drawn
    assume(images.groups is not None)
    train, validation = (set(images.groups[part]) for part in (s.train, s.validation))
    assert not train & validation
    if images.test_only is not None:
        tests = np.concatenate([s.id_test, s.ood_test])
        assert not (train | validation) & set(images.groups[tests[images.test_only[tests]]])


@pytest.mark.parametrize("size", [1, 7, 40])
def test_whole_groups_come_as_near_to_the_fraction_as_half_a_group(size):
    """4 domains x 10 classes, every group with all of them `size` times: 30 groups of equal size."""
    domains, groups, labels = (a.ravel() for a in np.meshgrid(range(4), range(30), np.tile(range(10), size)))
    s = split(image_set(labels, domains, groups), "domain2")
    assert len(s.validation) == 3 * (3 * 10 * size)


def test_a_single_large_enough_group_is_still_taken():
    s = split(image_set(np.tile([0, 1], 8), np.zeros(16), np.repeat([0, 1, 2], [6, 4, 6])), None, fraction=0.05)
    assert list(s.validation) == [6, 7, 8, 9]


@pytest.mark.parametrize("groups", [False, True])
def test_a_seed_repeats_and_another_differs(groups):
    rng = np.random.default_rng(0)
    images = image_set(rng.integers(0, 5, 400), rng.integers(0, 3, 400), rng.integers(0, 50, 400) if groups else None)
    first, again, other = (split(images, "domain1", seed) for seed in (0, 0, 1))
    assert all(np.array_equal(getattr(first, name), getattr(again, name)) for name in PARTS)
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert set(first.validation) != set(other.validation)
    assert split(replace(images, fingerprint="other"), "domain1").fingerprint != first.fingerprint


def test_equal_cells_too_small_for_a_sample_each_share_by_lot():
    """20 cells of 5: half of them give one, and which half depends on the seed, not on the order of domains."""
    domains, labels = (a.ravel() for a in np.meshgrid(range(4), np.tile(range(5), 5)))
    images = image_set(labels, domains)
    per_domain = sum(cells(images, split(images, None, seed).validation).sum(1) for seed in range(40))
    assert per_domain.sum() == 40 * 10 and (np.abs(per_domain - 100) < 30).all()


def test_released_validation_is_mostly_trained_on():
    rng = np.random.default_rng(0)
    images = image_set(rng.integers(0, 7, 6000), rng.integers(0, 4, 6000))
    s = split(images, "domain0", protocol="released")
    pool = len(pool_of(images, "domain0"))
    assert (
        s.protocol == "released" and len(s.train) == pool - len(s.validation) and len(s.validation) == round(pool / 10)
    )
    assert abs(np.isin(s.validation, s.train).mean() - 0.9) < 0.05
    assert split(images, "domain0", protocol="released").fingerprint == s.fingerprint


def test_released_without_a_held_out_domain_selects_on_the_test_set():
    images = image_set(np.tile([0, 1], 50), np.zeros(100), test_only=np.arange(100) >= 80)
    s = split(images, None, protocol="released")
    assert list(s.validation) == list(s.id_test) == list(range(80, 100)) and list(s.train) == list(range(80))
    paper = split(images, None)
    assert len(paper.train) == 72 and len(paper.validation) == 8 and list(paper.id_test) == list(range(80, 100))
    assert not len(paper.ood_test)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"held_out": "domian1"}, "did you mean '?domain1"),
        ({"protocol": "realeased"}, "did you mean '?released"),
        ({"fraction": 0.0}, "fraction must be between 0 and 1"),
        ({"fraction": 1.0}, "fraction must be between 0 and 1"),
        ({"held_out": None, "protocol": "released"}, "selects on the test images, but this set has none"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(arguments, sentence):
    images = image_set([0, 1] * 4, [0, 0, 1, 1] * 2)
    with pytest.raises(ValueError, match=sentence):
        split(images, **{"held_out": "domain1"} | arguments)


@pytest.mark.parametrize(
    ("images", "held_out", "sentence"),
    [
        (image_set([0, 1, 0], [0, 0, 0]), "domain0", "leaves 0 images to train on"),
        (image_set([0, 1, 0, 1], [0, 0, 1, 1]), "domain0", "a single image in each domain"),
        (
            image_set([0, 1, 0, 1], [0, 0, 0, 0], groups=np.zeros(4, np.int64)),
            None,
            "none of the 1 groups can be spared",
        ),
    ],
)
def test_sets_too_small_are_refused_in_a_sentence(images, held_out, sentence):
    with pytest.raises(ValueError, match=sentence):
        split(images, held_out)
