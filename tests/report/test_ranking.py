"""Every method's average and rank next to the paper's, from records made for the purpose; and how two orders agree."""

import math

import numpy as np
import pytest
from made import PACS, digits, run
from scipy import stats

from hypo import paper, runs
from hypo.algorithms import ALGORITHMS, method
from hypo.figures.ranking import two_orders
from hypo.report import ranking
from hypo.runs.statistics import rank_correlation

METHODS = ("hypo", "erm", "coral", "irm", "cdann")


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    """Five methods on every domain of PACS, the better in the paper the better here but for HYPO, the worst here."""
    made = tmp_path_factory.mktemp("records")
    for place, name in enumerate(METHODS):
        for domain in PACS:
            for seed in (0, 1):
                accuracy = 0.5 if name == "hypo" else 0.8 - 0.02 * place + 0.01 * seed
                run(made, algorithm=name, held_out=domain, seed=seed, ood=accuracy)
    run(made, algorithm="mmd", held_out="cartoon", ood=0.9)
    digits(made, 0.6)
    return runs.load(made)


def test_the_interval_is_that_of_a_published_example():
    y = [21, 4, 9, 12, 35, 18, 10, 22, 24, 1, 6, 8, 13, 16, 19]  # of ci.spear in Bonett's R package statpsych
    x = [67, 28, 30, 28, 52, 40, 25, 37, 44, 10, 14, 20, 28, 40, 51]
    found = rank_correlation(x, y)
    assert found == pytest.approx((0.8699639, 0.5840951, 0.9638297, 15), abs=1e-6)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rho, random = 0.5, np.random.default_rng(0)
    truth = 6 / np.pi * np.arcsin(rho / 2)  # of a normal distribution
    samples = random.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=(300, 20))
    found = [rank_correlation(*sample.T) for sample in samples]
    assert 0.9 < np.mean([each.low <= truth <= each.high for each in found]) < 0.99


@pytest.mark.parametrize("given", [([1, 2, 3], [3, 1, 2]), ([1, 2, 3, 4], [4, 3, 2, 1]), ([1, 1, 1, 1], [1, 2, 3, 4])])
def test_what_has_no_interval_gets_none(given):
    found = rank_correlation(*given)
    assert math.isnan(found.low) and math.isnan(found.high)
    assert "[" not in ranking.correlation(found)


def test_runs_selected_before_their_loss_jumped_are_counted(tmp_path):
    """At cpu scale a run has five epochs, and the losses of IRM and EQRM jump after half of them."""
    for seed, epoch in enumerate((1.0, 2.5, 8 / 3)):
        run(tmp_path, algorithm="irm", seed=seed, epoch=epoch)
    run(tmp_path, algorithm="eqrm", epoch=3.0)
    run(tmp_path, algorithm="coral", epoch=1.0)
    said = ranking.before_the_jump("pacs", runs.load(tmp_path))
    assert said.endswith("from before that were selected in 2 of 3 runs of IRM and 0 of 1 run of EQRM.")
    assert not ranking.before_the_jump("digits", runs.load(tmp_path))


def test_pooled_batches_and_the_share_of_the_largest_domain_in_them():
    said = ranking.batches("pacs")
    pooled = [paper.method_name(name) for name in ALGORITHMS if method(name).sampling == "pooled"]
    assert all(name in said.partition(" take batches ")[0] for name in pooled)
    assert f"The other {len(ALGORITHMS) - len(pooled)} methods" in said
    low, high = 100 * 3929 / (9991 - 1670), 100 * 3929 / (9991 - 2344)  # without photos, without cartoons
    assert f"{low:.0f} to {high:.0f}% of the pooled images are of the domain sketch" in said


def test_validation_accuracy_stands_beside_the_average_over_domains(tmp_path):
    for domain, rates in zip(PACS, ((0.9, 0.8), (0.7,), (0.6,), (0.5,)), strict=True):
        for seed, rate in enumerate(rates):
            run(tmp_path, held_out=domain, seed=seed, validation_accuracy=rate)
    shown = ranking.table("pacs", runs.load(tmp_path)).frame.set_index("method")["validation, cpu scale"]
    assert shown["HYPO"] == "66.2" and not shown["ERM"]


def test_chance_is_named_where_there_are_many_comparisons(tmp_path):
    for name in ALGORITHMS:
        for seed, accuracy in enumerate((0.8, 0.7)):
            run(tmp_path, algorithm=name, seed=seed, ood=accuracy)
    said = ranking.comparisons("pacs", frame=runs.load(tmp_path))
    assert said.endswith(f"Of {len(ALGORITHMS) - 1} methods as good as HYPO, 1 would be called different by chance.")


def test_every_method_has_a_row_and_says_what_was_run(frame):
    shown = ranking.table("pacs", frame).frame.set_index("method")
    assert {*shown.index} == {paper.method_name(name) for name in {*ALGORITHMS, *paper.names("pacs")}}
    ours, ranks = shown["ours, cpu scale"], shown["our rank, cpu scale"]
    assert ours["ERM"] == "78.5 ± 0.7 (n=2)" and ranks["ERM"] == "1" and ranks["HYPO"] == "5"
    assert ours["MMD"] == "1 of 4 domains" and ours["VREx"] == "not run"
    assert ours["GVRT"] == "not run: needs a text for each image"
    assert shown.loc["EQRM", "the paper's"] == "none"
    for name, row in paper.ranks("pacs")["average"].iterrows():
        printed = shown.loc[paper.method_name(name)]
        assert (printed["the paper's"], printed["its rank"]) == (f"{row['value']:.1f}", f"{row['rank']:.0f}")


def test_the_agreement_is_spearmans(frame):
    said = ranking.agreement("pacs", frame)
    printed = paper.ranks("pacs")["average"]["value"]
    rho = stats.spearmanr([printed[name] for name in METHODS], [50, 78.5, 76.5, 74.5, 72.5]).statistic
    assert f"{rho:+.2f} [" in said.replace("−", "-")
    assert "5 were run" in said and "28.5 here" in said and "0.7 points" in said


@pytest.mark.parametrize(
    ("several", "words"),
    [
        (("hypo", "erm", "coral"), "the median over the 3 methods with several seeds"),
        (("erm",), "that of the one method with several seeds"),
        ((), "with one seed each, nothing is known"),
    ],
)
def test_the_spread_says_how_many_methods_have_several_seeds(frame, several, words):
    part = frame[(frame["seed"] == 0) | frame["algorithm"].isin(several)]
    assert "5 were run" in ranking.agreement("pacs", part) and words in ranking.agreement("pacs", part)


def test_a_comparison_with_one_seed_is_said_to_have_no_interval(frame):
    """HYPO is behind the four others by as much on every domain; of CORAL and IRM only one seed is taken."""
    part = frame[(frame["seed"] == 0) | frame["algorithm"].isin(["hypo", "erm", "cdann"])]
    said = ranking.comparisons("pacs", frame=part)
    assert said.startswith("**PACS at cpu scale**") and "HYPO is behind ERM and CDANN." in said
    leads = "CORAL (−26.0), MMD (−40.0) and IRM (−24.0)"
    assert f"With {leads} it shares one seed per domain, so its lead, in brackets, has no interval. Seeds of" in said
    spread = math.sqrt(8 * 0.5 / 12)  # two seeds a point apart in eight cells of ERM and CDANN, equal in HYPO's four
    assert f"by {spread:.1f} points (standard deviation within a domain)" in said
    alone, together = (stats.t.ppf(1 - 0.025 / n, 12) * spread / math.sqrt(2) for n in (1, 3))
    assert f"differ by {alone:.1f} points or more, or by {together:.1f} for all 3 comparisons together." in said
    other = ranking.comparisons("pacs", "erm", part)
    assert "ERM is ahead of HYPO" in other and "behind" not in other
    assert ranking.comparisons("vlcs", frame=part) == ""


def test_nothing_is_said_of_what_was_not_run(frame, tmp_path):
    assert ranking.agreement("vlcs", frame) == "**VLCS**: nothing was run."
    assert two_orders(ranking.standings("vlcs", frame), "vlcs") is None
    empty = ranking.table("pacs", runs.load(tmp_path)).frame.set_index("method")["ours"]
    assert {*empty.drop("GVRT")} == {"not run"}
    single = ranking.agreement("pacs", frame[frame["algorithm"] == "erm"])
    assert "one was run" in single and "no ranks" in single
    assert not ranking.standings("pacs", frame[frame["algorithm"] == "erm"])["rank"].any()


def test_the_digits_have_no_column_of_the_papers(frame):
    shown = ranking.table("digits", frame).frame
    assert not [name for name in shown if "paper" in name] and set(shown["method"]) >= {"HYPO", "ERM"}


def test_a_line_joins_the_two_places_of_each_method(frame):
    figure = two_orders(ranking.standings("pacs", frame), "pacs")
    assert "5 methods on PACS" in figure.alt and "HYPO leads in the paper, ERM here" in figure.alt
