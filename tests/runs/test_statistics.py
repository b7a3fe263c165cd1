"""The statistics of repeated runs against plain loops, closed forms and SciPy's own tests."""

import math
import statistics

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hypo.runs import KEYS, Origin, averages, estimate, paired, summarise
from hypo.runs.statistics import least_lead

RECORD = (Origin("r.json", "pacs"),)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_mean_over_seeds_has_the_interval_of_a_one_sample_t_test(n):
    values = np.random.default_rng(n).normal(3, 2, size=n)
    found = estimate(values)
    assert (found.value, found.sd, found.n, found.df) == pytest.approx((values.mean(), values.std(ddof=1), n, n - 1))
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(expected))


def test_a_paired_difference_on_one_domain_is_scipys_related_t_test():
    a, b = np.random.default_rng(0).normal(size=(2, 5))
    found = estimate(a - b, ["cartoon"] * 5)
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert (found.low > 0 or found.high < 0) == (stats.ttest_rel(a, b).pvalue < 0.05)


def test_means_as_far_apart_as_the_least_lead_are_on_the_verge_of_scipys_independent_t_test():
    a, b = np.random.default_rng(1).normal(size=(2, 6))
    pooled = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    b += a.mean() - b.mean() + least_lead(pooled, 10, 6)
    assert stats.ttest_ind(a, b).pvalue == pytest.approx(0.05)


def test_strata_against_a_plain_loop():
    rng = np.random.default_rng(1)
    domains = {"photo": rng.normal(10, 1, 3), "sketch": rng.normal(-5, 1, 4), "cartoon": rng.normal(0, 1, 1)}
    values = [value for own in domains.values() for value in own]
    strata = [name for name, own in domains.items() for _ in own]
    found = estimate(values, strata)
    means = [statistics.fmean(own) for own in domains.values()]
    df = sum(len(own) - 1 for own in domains.values())
    pooled = sum((value - statistics.fmean(own)) ** 2 for own in domains.values() for value in own) / df
    error = math.sqrt(sum(pooled / len(own) for own in domains.values())) / len(domains)
    margin = stats.t.ppf(0.975, df) * error
    assert (found.value, found.sd, found.df, found.n) == pytest.approx((statistics.fmean(means), pooled**0.5, df, 8))
    assert (found.low, found.high) == pytest.approx((found.value - margin, found.value + margin))


def test_what_domains_differ_by_is_no_noise():
    shifted = estimate([0.0, 1.0, 100.0, 101.0], ["a", "a", "b", "b"])
    level = estimate([0.0, 1.0, 0.0, 1.0], ["a", "a", "b", "b"])
    assert shifted.high - shifted.low == pytest.approx(level.high - level.low)
    assert shifted.value == pytest.approx(50.5)


def test_equal_numbers_of_seeds_give_the_plain_mean_and_the_interval_covers_it_as_often_as_it_says():
    rng = np.random.default_rng(2)
    strata = np.repeat(["a", "b", "c", "d"], 3)
    offsets = np.repeat([5.0, -1.0, 0.0, 9.0], 3)
    samples = offsets + rng.normal(size=(2000, 12))
    covered = [(found := estimate(row, strata)).low <= offsets.mean() <= found.high for row in samples]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)
    assert estimate(samples[0], strata).value == pytest.approx(samples[0].mean())


@pytest.mark.parametrize(("values", "strata"), [([4.0], None), ([4.0, 8.0], ["a", "b"])])
def test_without_a_second_seed_there_is_no_interval(values, strata):
    found = estimate(values, strata)
    assert found.value == statistics.fmean(values) and found.df == 0
    assert math.isnan(found.low) and math.isnan(found.high) and math.isnan(found.sd)


def single(rows):
    return pd.DataFrame(rows, columns=["setting", "seed", "column", "value"]).assign(
        failed=False, origins=[RECORD] * len(rows)
    )


def test_an_average_is_of_the_seeds_that_have_every_column():
    rows = [("x", seed, column, 10.0 * seed + place) for seed in (0, 1) for place, column in enumerate("abc")]
    found = averages(single([*rows, ("x", 2, "a", 99.0), ("y", 0, "b", 1.0)]), ["a", "b", "c"], ["setting", "seed"])
    assert found[["setting", "seed", "value"]].to_numpy().tolist() == [["x", 0, 1.0], ["x", 1, 11.0]]
    assert set(found["column"]) == {"average"}


def test_an_average_counts_as_failed_when_one_of_its_runs_did():
    frame = single([("x", 0, "a", 1.0), ("x", 0, "b", 1.0), ("x", 1, "a", 1.0), ("x", 1, "b", 1.0)])
    frame["failed"] = [False, True, False, False]
    assert averages(frame, ["a", "b"], ["setting", "seed"])["failed"].tolist() == [True, False]


def keyed(values, failed=False):
    rows = [("pacs", "cpu", domain, seed, "d", "s", value) for (domain, seed), value in values.items()]
    return pd.DataFrame(rows, columns=[*KEYS, "value"]).assign(
        failed=failed, starts_at_first=False, origins=[RECORD] * len(rows)
    )


def test_pairs_share_every_key_and_the_rest_is_left_out():
    first = keyed({("photo", 0): 3.0, ("photo", 1): 5.0, ("sketch", 0): 1.0})
    second = keyed({("photo", 1): 1.0, ("photo", 0): 2.0, ("cartoon", 0): 9.0}, failed=True)
    found = paired(first, second)
    assert dict(zip(found["seed"], found["value"], strict=True)) == {0: 1.0, 1: 4.0}
    assert found["failed"].all() and set(found["origins"]) == {(*RECORD, *RECORD)}
    assert paired(first, second.assign(split="another")).empty
    assert len(paired(first, second.assign(split="another"), on=[key for key in KEYS if key != "split"])) == 2


def test_a_summary_counts_what_a_reader_must_know_of():
    frame = keyed({("photo", seed): float(seed) for seed in range(3)})
    frame["failed"] = [True, False, True]
    (line,) = summarise(frame, ["benchmark", "scale"]).itertuples()
    assert (line.value, line.n, line.failed, line.starts_at_first, line.origins) == (1.0, 3, 2, 0, RECORD)
    assert summarise(frame[:0], ["benchmark"]).empty
