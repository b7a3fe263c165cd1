"""Measures of neighbourhood against plain loops, and at configurations where the answer is known."""

import numpy as np
import pytest
from conftest import on_circle, unit

from hypo.geometry.neighbours import hard_negatives, mixing, purity, same_domain_excess, silhouette


def some(n=60, classes=3, domains=2, seed=0):
    rng = np.random.default_rng(seed)
    return unit(n, 5, seed=seed).numpy(), rng.integers(classes, size=n), rng.integers(domains, size=n)


def ranked(z, i, allowed):
    """Those allowed, nearest to i first."""
    return sorted(allowed, key=lambda j: -float(z[i] @ z[j]))


def test_purity_and_mixing_are_what_a_loop_counts():
    z, y, e = some()
    n, k = len(z), 4
    nearest = {i: ranked(z, i, [j for j in range(n) if j != i])[:k] for i in range(n)}
    assert purity(z, y, k) == pytest.approx(np.mean([y[j] == y[i] for i in range(n) for j in nearest[i]]))
    own = {i: [j for j in range(n) if j != i and y[j] == y[i]] for i in range(n)}
    share = np.mean([e[j] != e[i] for i in range(n) for j in ranked(z, i, own[i])[:k]])
    chance = np.mean([np.mean([e[j] != e[i] for j in own[i]]) for i in range(n)])
    assert mixing(z, y, e, k) == pytest.approx(share / chance)


def test_domains_that_lie_apart_do_not_mix_and_dealt_ones_do():
    z = on_circle(*np.linspace(0, 5, 20), *np.linspace(90, 95, 20)).numpy()
    y, apart = np.zeros(40, int), np.repeat([0, 1], 20)
    assert mixing(z, y, apart) == 0
    z = unit(4000, 2).numpy()
    assert mixing(z, np.zeros(4000, int), np.arange(4000) % 2) == pytest.approx(1, abs=0.03)


def test_silhouette_of_points_on_a_circle():
    z = on_circle(0, 10, 90, 100).numpy()
    near, far = 1 - np.cos(np.deg2rad(10)), [1 - np.cos(np.deg2rad(a)) for a in (90, 100, 80, 90)]
    outer, inner = np.mean(far[:2]), np.mean(far[2:])
    expected = np.mean([1 - near / outer, 1 - near / inner])
    assert silhouette(z, np.array([0, 0, 1, 1])) == pytest.approx(expected)


def test_a_class_that_cannot_be_measured_is_named():
    z, _, e = some(20)
    with pytest.raises(ValueError, match="class 7 needs more than 30 samples, of two domains or more"):
        mixing(z, np.full(20, 7), e, k=30)


def test_the_excess_is_the_share_of_a_loop_minus_chance():
    z, y, e = some()
    excess = []
    for i in range(len(z)):
        negatives = [j for j in range(len(z)) if y[j] != y[i]]
        nearest = max(negatives, key=lambda j: z[i] @ z[j])
        excess.append((e[nearest] == e[i]) - np.mean([e[j] == e[i] for j in negatives]))
    assert same_domain_excess(z, y, e) == pytest.approx(np.mean(excess))
    assert same_domain_excess(z, y, np.zeros_like(e)) is None and same_domain_excess(z, np.zeros_like(y), e) is None


def test_hard_negatives_are_what_a_loop_finds():
    z, y, e = some()
    found = hard_negatives(z, y, e)
    for i in range(len(z)):
        negatives = [j for j in range(len(z)) if y[j] != y[i]]
        same = [j for j in negatives if e[j] == e[i]]
        assert found.loc[i, "same"] == ranked(z, i, same)[0]
        assert found.loc[i, "other"] == ranked(z, i, set(negatives) - set(same))[0]
        assert found.loc[i, "same_cosine"] == pytest.approx(z[i] @ z[found.loc[i, "same"]])
        assert found.loc[i, "chance"] == pytest.approx(len(same) / len(negatives))
    alone = hard_negatives(z, y, np.zeros(len(z), int))
    assert (alone["other_cosine"] == -np.inf).all() and (alone["chance"] == 1).all()
