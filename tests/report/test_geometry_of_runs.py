"""The geometry of a recorded run, by names, against the stored arrays; neighbourhoods against loops."""

import numpy as np
import pandas as pd
import pytest
import seaborn as sns
import torch
from conftest import unit
from made import arrays, digits, run
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from seaborn.utils import relative_luminance

from hypo import geometry, runs
from hypo.figures import legible
from hypo.figures.geometry import both_sides, heatmaps, small_heatmaps
from hypo.geometry.neighbours import hard_negatives
from hypo.report import geometry as report
from hypo.report.geometry import ALIKE, APART, MIXED, across, bounds, closest_pairs, hard_share, in_how_many, in_words
from hypo.runs import Origin
from hypo.sphere import to_sphere


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run with two classes in two of four domains, the embeddings of each cell about a direction of its own."""
    folder, random = tmp_path_factory.mktemp("records"), torch.Generator().manual_seed(0)
    y, domains = torch.arange(120) % 2, torch.arange(120) // 2 % 2 * 3
    centres = torch.randn(2, 4, 8, generator=random, dtype=torch.float64)
    z = to_sphere(centres[y, domains] + 0.5 * torch.randn(120, 8, generator=random, dtype=torch.float64))
    prototypes = to_sphere(torch.stack([z[y == c].mean(0) for c in range(2)]))
    run(folder, embeddings=arrays(z.numpy(), y.numpy(), domains.numpy(), prototypes.numpy()))
    return runs.load(folder).iloc[0]


def test_variation_names_classes_and_pairs(stored):
    found = report.variation(stored)
    assert found[["class", "pair"]].values.tolist() == [[c, "art painting – sketch"] for c in ("dog", "house")]
    kept = report.stored(stored).tensors()
    for c, value in enumerate(found["sinkhorn"]):
        own = kept["y"] == c
        plain = geometry.intra_class_variation(kept["z"][own], kept["y"][own], kept["domains"][own])
        np.testing.assert_allclose(value, plain["sinkhorn"].item())


def test_the_summary_is_scale_free_where_it_says_so(stored):
    found = report.variation_and_separation(stored)
    assert found["V / I"] == pytest.approx(found["variation V, the largest"] / found["separation I"])
    assert found["variation, mean over classes and pairs"] <= found["variation V, the largest"]


def test_the_tightest_place_of_an_inequality_has_the_largest_ratio(stored):
    sides = report.sides(stored)
    nearest = report.tightest(sides)
    assert not nearest.duplicated(["lemma", "quantity"]).any()
    for line in nearest.itertuples():
        own = sides[(sides["lemma"] == line.lemma) & (sides["quantity"] == line.quantity)]
        assert line.left / line.right == pytest.approx((own["left"] / own["right"]).max())
        assert line.holds == f"{own['holds'].sum()} of {len(own)}"
        assert (line.says != "") == bool(line.right >= line.at_most)
    assert set(sides["class"]) == {"", "dog", "house"} and set(sides["domain_b"]) == {"", "sketch"}


def test_heatmaps_share_one_scale_and_give_their_numbers(stored):
    low = report.variation(stored)
    row = heatmaps(
        {"erm": low, "hypo": low.assign(sinkhorn=low["sinkhorn"] / 2)}, "PACS", [(Origin("a.json", "pacs"),)]
    )
    html = row._repr_html_()
    assert "variation-erm.csv" in html and "variation-hypo.csv" in html and "a.json" in html
    erm, hypo = (figure.images["light"] for figure in row.figures)
    assert erm != hypo
    alone = heatmaps({"erm": low}, "PACS").figures[0].images["light"]
    assert alone == erm, "the larger map sets the scale of both"
    smaller = heatmaps({"hypo": low.assign(sinkhorn=low["sinkhorn"] / 2)}, "PACS").figures[0].images["light"]
    assert smaller != hypo


def test_small_heatmaps_share_one_scale_over_held_out_domains(stored):
    low = report.variation(stored)
    methods = {"erm": low, "hypo": low.assign(sinkhorn=low["sinkhorn"] / 2)}
    records = {domain: [(Origin(f"{domain}.json", "pacs"),)] for domain in ("photo", "cartoon")}
    row = small_heatmaps({"photo": methods, "cartoon": methods}, "variation", records)
    html = row._repr_html_()
    for domain, figure in zip(records, row.figures, strict=True):
        assert f'download="variation-{domain}.csv"' in html and f"{domain}.json" in html
        assert f"{domain} held out" in figure.alt and f"{low['sinkhorn'].mean():.2f} under ERM" in figure.alt
    doubled = {name: frame.assign(sinkhorn=2 * frame["sinkhorn"]) for name, frame in methods.items()}
    beside_larger = small_heatmaps({"photo": methods, "cartoon": doubled}, "variation", records)
    assert beside_larger.figures[0].images != row.figures[0].images, "the largest map of any domain sets the scale"


def test_every_number_of_a_heatmap_can_be_read_on_its_cell():
    axes, shares = Figure().subplots(), np.linspace(0, 1, 101).reshape(1, -1)
    shares[0, 50] = np.nan  # a cell without a number
    sns.heatmap(shares, annot=True, cmap="cividis", ax=axes)
    legible(axes)
    colours = np.delete(axes.collections[0].get_facecolors(), 50, axis=0)
    for text, colour in zip(axes.texts, colours, strict=True):
        darker, lighter = sorted(relative_luminance(each) for each in (to_rgb(text.get_color()), colour))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, "the contrast that WCAG asks for"


def test_bounds_are_those_of_each_run(stored):
    sides = report.sides(stored)
    worse = sides.assign(holds=sides["holds"] & (sides["lemma"] != "Lemma C.2"), right=2 * sides["right"])
    every = pd.concat([sides.assign(held_out="photo"), worse.assign(held_out="art_painting")], ignore_index=True)
    table = bounds(every)
    assert [*table.index] == ["photo", "art painting"]
    paper, least = sides[sides["lemma"] == "Theorem 6.1"], "Vˢᵘᵖ, from below"
    assert table[least].tolist() == [paper.loc[paper["quantity"] == least, "left"].item()] * 2
    assert table["the paper's bound"].tolist() == pytest.approx([paper["right"].min(), 2 * paper["right"].min()])
    assert (table[least] <= table["from above"]).all() and (table["sharper bound"] < table["the paper's bound"]).all()
    held, count = zip(*(map(int, cell.split(" of ")) for cell in table["inequalities that hold"]), strict=True)
    assert held[0] == count[0] == count[1] == held[1] + 1


def test_both_sides_says_how_many_bounds_are_worth_something(stored):
    nearest = report.tightest(report.sides(stored))
    figure = both_sides(nearest, "sides")
    bounded = nearest[nearest["at_most"].notna()]
    assert f"in {(bounded['right'] < bounded['at_most']).sum()}." in figure.alt
    assert figure.width <= 430, "a phone shows its words nearly as large as a page"


def test_a_left_side_of_zero_is_marked_and_said(stored):
    nearest = report.tightest(report.sides(stored))
    nearest["left"] = nearest["left"].clip(lower=1e-3)
    zero = nearest.assign(left=nearest["left"].where(nearest.index > 0, 0))
    plain, marked = (both_sides(each, "sides") for each in (nearest, zero))
    assert "is zero in 0," in plain.alt and "is zero in 1," in marked.alt
    assert b"off the axis" in marked.images["light"] and b"off the axis" not in plain.images["light"]


def test_a_run_without_embeddings_is_refused_with_a_sentence(tmp_path):
    run(tmp_path)
    with pytest.raises(FileNotFoundError, match="kept without embeddings: run it again with force"):
        report.stored(runs.load(tmp_path).iloc[0])


def test_samples_come_back_by_name(stored):
    found = report.stored(stored)
    frame = report.samples(stored, found)
    assert set(frame["class"]) == {"dog", "house"} and set(frame["domain"]) == {"art_painting", "sketch"}
    assert (frame["prediction"] == frame["class"]).all() and set(frame["part"]) == {"id_test"}


def test_epsilon_hat_is_stratified_by_domain_and_stands_below_the_papers(tmp_path):
    values = {("photo", 0): 0.1, ("photo", 1): 0.2, ("sketch", 0): 0.4, ("sketch", 1): 0.3}
    for (domain, seed), epsilon in values.items():
        run(tmp_path, held_out=domain, seed=seed, epsilon_hat=epsilon)
    own = runs.estimate([*values.values()], [domain for domain, _ in values])
    table = report.epsilon_table(runs.load(tmp_path))
    shown = table.frame.set_index("method")["PACS"]
    assert [*shown.index] == ["HYPO", "ours, cpu scale, n=4"] and shown.iloc[1] == f"{own.value:.2f} ± {own.sd:.2f}"
    assert table.numbers.query("who == 'ours'")["low"].tolist() == pytest.approx([own.low])


def test_trained_prototypes_are_gathered_by_benchmark_and_method(tmp_path):
    digits(tmp_path, 0.5, etf_gap=0.1)
    digits(tmp_path, 0.5, seed=1, etf_gap=0.3, embeddings=arrays(np.eye(2), np.arange(2), np.zeros(2, int), np.eye(2)))
    shown = report.trained_prototypes(runs.load(tmp_path)).frame
    assert shown["gap"].tolist() == pytest.approx([0.2]) and shown["runs"].tolist() == [2]
    assert shown["ETF's separation"].tolist() == pytest.approx([10 / 9])


# Neighbourhoods by name


def some(n=60, classes=3, domains=2, seed=0):
    rng = np.random.default_rng(seed)
    return unit(n, 5, seed=seed).numpy(), rng.integers(classes, size=n), rng.integers(domains, size=n)


def frame_of(y, e):
    names = pd.DataFrame({"class": y, "domain": e}).map(str)
    return names.assign(index=100 + np.arange(len(y)), part="id_test", prediction=None)


def test_the_share_of_hard_negatives_is_that_of_nearer_ones():
    z, y, e = some()
    found = hard_negatives(z, y, e)
    shown = hard_share(frame_of(y, e), z)
    nearer = (found["same_cosine"] > found["other_cosine"]).mean()
    assert shown.loc["all", "nearest is of the same domain (%)"] == pytest.approx(100 * nearer)


def test_the_words_on_hard_negatives_count_runs_and_name_what_is_below_chance():
    columns = [
        "nearest is of the same domain (%)",
        "by chance (%)",
        "cosine to the nearest, same domain",
        "other domains",
    ]
    one = pd.DataFrame(
        [[40, 30, 0.5, 0.6], [15, 21.3, 0.3, 0.5], [35, 25, 0.45, 0.55]], ["sketch", "photo", "all"], columns
    )
    two = pd.DataFrame([[40, 30, 0.7, 0.6], [20, 10, 0.7, 0.5]], ["sketch", "all"], columns)
    said = report.hard_share_in_words(pd.concat({"cartoon": one, "art_painting": two}, names=["held_out", "domain"]))
    assert "more often than by chance in 2 of 2 runs. Domain by domain it does so in 2 of 3 places" in said
    assert "not in photo with cartoon held out (15.0% against 21.3%)" in said
    assert "in 1 of 2 runs (with cartoon held out the cosine is 0.45 against 0.55)" in said


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


@pytest.mark.parametrize(("mixed", "apart"), [(True, True), (True, False), (False, True)])
def test_words_follow_the_numbers(mixed, apart):
    index = pd.MultiIndex.from_product([(APART, MIXED), ("training domains", "all domains")])
    values = pd.DataFrame({"ERM": 0.5, "HYPO": np.where(index.get_level_values(0) == APART, apart, mixed) * 0.8}, index)
    said = in_words(values)
    assert ("observation holds" in said) == mixed
    assert ("second holds" in said) == apart


def test_measures_of_every_held_out_domain_stand_in_one_row_each_and_are_counted():
    index = pd.MultiIndex.from_product(
        [("photo", "art_painting"), (APART, ALIKE, MIXED), ("training domains", "all domains")],
        names=["held_out", "measure", "samples"],
    )
    below = {("photo", APART, "all domains"): 0.1} | {(e, ALIKE, "all domains"): 0.2 for e in ("photo", "art_painting")}
    every = pd.DataFrame({"ERM": 0.5, "HYPO": [below.get(place, 0.8) for place in index]}, index)
    shown = across(every.xs("all domains", level="samples"), {APART: "apart", MIXED: "mixed"})
    assert [*shown.index] == ["photo", "art painting"]
    assert [*shown] == ["apart, ERM", "apart, HYPO", "mixed, ERM", "mixed, HYPO"]
    assert shown["apart, HYPO"].tolist() == [0.1, 0.8] and shown["mixed, ERM"].tolist() == [0.5, 0.5]
    said = in_how_many(every)
    assert "under ERM in 2 of 2" in said and "further apart in 1 of 2" in said and "same class in 0 of 2" in said
    assert "too few test images" in in_how_many(every[every.index.get_level_values("measure") != MIXED])
