"""Measures of neighbourhood against plain loops, and at configurations where the answer is known."""

import numpy as np
import pandas as pd
import pytest
from conftest import on_circle, unit
from test_tables import run

from hypo import neighbours, records
from hypo.neighbours import APART, MIXED, closest_pairs, hard_negatives, hard_share, in_words, mixing, purity, samples


def some(n=60, classes=3, domains=2, seed=0):
    rng = np.random.default_rng(seed)
    return unit(n, 5, seed=seed).numpy(), rng.integers(classes, size=n), rng.integers(domains, size=n)


def frame_of(y, e):
    names = pd.DataFrame({"class": y, "domain": e}).map(str)
    return names.assign(index=100 + np.arange(len(y)), part="id_test", prediction=None)


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
    assert neighbours.silhouette(z, np.array([0, 0, 1, 1])) == pytest.approx(expected)


def test_a_class_that_cannot_be_measured_is_named():
    z, _, e = some(20)
    with pytest.raises(ValueError, match="class 7 needs more than 30 samples, of two domains or more"):
        mixing(z, np.full(20, 7), e, k=30)


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
    table = hard_share(frame_of(y, e), z)
    nearer = (found["same_cosine"] > found["other_cosine"]).mean()
    assert table.loc["all", "nearest is of the same domain (%)"] == pytest.approx(100 * nearer)


def test_the_closest_pairs_are_of_one_domain_two_classes_and_no_two_alike():
    z, y, e = some()
    pairs = closest_pairs(frame_of(y, e), z, count=3)
    assert pairs["domain"].tolist() == ["0"] * 3 + ["1"] * 3
    for domain, own in pairs.groupby("domain"):
        a, b = own["index_a"] - 100, own["index_b"] - 100
        assert {*e[a], *e[b]} == {int(domain)}
        assert (y[a] != y[b]).all()
        assert len({frozenset(classes) for classes in zip(y[a], y[b], strict=True)}) == 3
        assert own["cosine"].is_monotonic_decreasing
        both = np.flatnonzero(e == int(domain))
        best = max(z[i] @ z[j] for i in both for j in both if y[i] != y[j])
        assert own["cosine"].iloc[0] == pytest.approx(best)


def test_samples_come_back_by_name_on_the_sphere(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPO_RECORDS", str(tmp_path))
    path = run(tmp_path, 0.5)
    stored = {}
    for part, domain, n in (("id_test", 0, 3), ("ood_test", 1, 2)):
        stored |= {f"{part}_z": 3 * np.ones((n, 4)), f"{part}_y": np.arange(n) % 2, f"{part}_index": np.arange(n)}
        stored[f"{part}_domain"] = np.full(n, domain)
    record = records.read(path)
    records.write({k: v for k, v in record.items() if k != "digest"}, stored, tmp_path, force=True)
    frame, z = samples(record)
    assert frame["class"].tolist() == ["dog", "house", "dog", "dog", "house"]
    assert frame["domain"].tolist() == ["art_painting"] * 3 + ["cartoon"] * 2
    assert frame["part"].tolist() == ["id_test"] * 3 + ["ood_test"] * 2
    assert frame["prediction"].isna().all()
    np.testing.assert_allclose(z, 0.5)


@pytest.mark.parametrize(("mixed", "apart"), [(True, True), (True, False), (False, True)])
def test_words_follow_the_numbers(mixed, apart):
    index = pd.MultiIndex.from_product([(APART, MIXED), ("training domains", "all domains")])
    values = pd.DataFrame({"ERM": 0.5, "HYPO": np.where(index.get_level_values(0) == APART, apart, mixed) * 0.8}, index)
    said = in_words(values)
    assert ("observation holds" in said) == mixed
    assert ("second holds" in said) == apart
