"""Variation, separation, projections and the lemmas, against POT, scipy, closed forms and loops over the formulas."""

import itertools
import math

import numpy as np
import ot
import pytest
import torch
import torch.nn.functional as F
from conftest import labels, on_circle, unit
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from hypo import epsilon_hat, etf_gap, geometry, inter_class_separation, intra_class_variation, simplex_etf
from hypo.geometry import (
    inter_class_distances,
    lemmas,
    mean_variation,
    projected_supremum,
    projected_variation,
    projected_w1,
    prototype_separation,
    random_directions,
    sinkhorn,
)
from hypo.geometry.projections import _with_gradient

DIRAC = on_circle(0, 60), torch.tensor([0, 0]), torch.tensor([0, 1])


def around(n: int, classes: int = 3, domains: int = 3, dim: int = 6, seed: int = 0, spread: float = 0.6):
    """Samples around a mean for each class and domain; every class in every domain."""
    cells = torch.tensor(list(itertools.product(range(classes), range(domains))))
    y, e = cells[torch.cat([torch.arange(len(cells)), labels(n, len(cells), seed)])].T.contiguous()
    centre = unit(classes, dim, seed=seed)[y] + 0.5 * unit(classes, domains, dim, seed=seed + 1)[y, e]
    return F.normalize(centre + spread * unit(len(y), dim, seed=seed + 2), dim=1), y, e


def cell(z: torch.Tensor, y: torch.Tensor, domains: torch.Tensor, c: int, e: int) -> np.ndarray:
    return z[(y == c) & (domains == e)].numpy()


def pot(a: np.ndarray, b: np.ndarray, regularisation: float) -> float:
    options = {"method": "sinkhorn_log", "stopThr": 1e-9, "numIterMax": 5000}
    return ot.bregman.empirical_sinkhorn_divergence(a, b, regularisation, **options)


def rotated(z: torch.Tensor) -> torch.Tensor:
    return z @ torch.linalg.qr(unit(z.shape[1], z.shape[1], seed=9)).Q


# variation


@pytest.mark.parametrize("regularisation", [1.0, 0.3, 0.1])
def test_variation_is_the_divergence_of_pot(regularisation):
    z, y, domains = around(60, classes=2)
    table = intra_class_variation(z, y, domains, regularisation, tolerance=1e-10)
    assert list(table) == ["class", "domain_a", "domain_b", "sinkhorn", "marginal_error", "n_a", "n_b"]
    assert table.marginal_error.max() <= 1e-10
    assert [tuple(row[:3]) for row in table.itertuples(index=False)] == [
        (c, a, b) for c in (0, 1) for a, b in ((0, 1), (0, 2), (1, 2))
    ]
    for row in table.to_dict("records"):
        a, b = (cell(z, y, domains, row["class"], row[side]) for side in ("domain_a", "domain_b"))
        assert (row["n_a"], row["n_b"]) == (len(a), len(b))
        assert row["sinkhorn"] == pytest.approx(pot(a, b, regularisation), abs=1e-8)


@pytest.mark.parametrize("n, m", [(1, 1), (1, 5), (12, 12), (9, 20)])
@pytest.mark.parametrize("regularisation", [0.5, 0.05])
def test_transport_returns_the_cost_of_the_plan_without_its_entropy(n, m, regularisation):
    a, b = unit(n, 4), unit(m, 4, seed=1)
    cost = sinkhorn.squared_distances(a, b)
    np.testing.assert_allclose(cost, ot.dist(a.numpy(), b.numpy()), atol=1e-12)
    options = {"method": "sinkhorn_log", "stopThr": 1e-9, "numItermax": 20_000}
    plan = ot.sinkhorn([], [], cost.numpy(), regularisation, **options)
    value, error = sinkhorn.transport(cost.clone(), regularisation, 1e-10)
    assert value == pytest.approx((plan * cost.numpy()).sum(), abs=1e-7)
    assert error <= 1e-10
    own = sinkhorn.squared_distances(a, a)
    twice = [solve(own.clone(), regularisation, 1e-10)[0] for solve in (sinkhorn.transport, sinkhorn.self_transport)]
    assert twice[0] == pytest.approx(twice[1], abs=1e-8)


@pytest.mark.parametrize("n, m", [(12, 12), (9, 14)])
def test_variation_tends_to_exact_transport_as_the_regularisation_goes_to_zero(n, m):
    z, domains = unit(n + m, 3), torch.arange(n + m) // n
    domains.clamp_(max=1)
    y = torch.zeros(n + m, dtype=torch.int64)
    exact = ot.emd2([], [], ot.dist(z[:n].numpy(), z[n:].numpy()))
    regularisations = (0.3, 0.03, 0.003, 0.0003)
    away = [abs(intra_class_variation(z, y, domains, r, 1e-8).sinkhorn.item() - exact) for r in regularisations]
    assert away == sorted(away, reverse=True)
    assert away[0] > 0.01 * exact
    assert away[-1] < 1e-4 * exact


def test_a_regularisation_far_below_the_range_of_float64_still_gives_a_plan():
    cost = sinkhorn.squared_distances(unit(20, 3), unit(20, 3, seed=1))
    value, error = sinkhorn.transport(cost.clone(), 1e-5, 1e-4)
    assert error <= 1e-4
    assert value == pytest.approx(ot.emd2([], [], cost.numpy()), abs=1e-3)


def test_variation_of_two_points_is_their_squared_distance():
    assert intra_class_variation(*DIRAC).sinkhorn.item() == pytest.approx(1.0)  # the chord of 60 degrees


def test_variation_knows_no_order_of_domains_no_rotation_and_no_order_of_samples():
    z, y, domains = around(80)
    table = intra_class_variation(z, y, domains, tolerance=1e-9)
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(0))
    for other in (
        intra_class_variation(rotated(z), y, domains, tolerance=1e-9),
        intra_class_variation(z[order], y[order], domains[order], tolerance=1e-9),
        intra_class_variation(z, y, 2 - domains, tolerance=1e-9).iloc[[2, 1, 0, 5, 4, 3, 8, 7, 6]],
    ):
        np.testing.assert_allclose(other.sinkhorn, table.sinkhorn, atol=1e-7)


def test_variation_is_zero_between_identical_clouds_and_positive_between_others():
    z, y, _ = around(30, classes=2, domains=1)
    same = torch.cat([z, z]), torch.cat([y, y]), torch.arange(2).repeat_interleave(len(z))
    assert intra_class_variation(*same, tolerance=1e-10).sinkhorn.max() < 1e-8
    assert intra_class_variation(*around(60)).sinkhorn.min() > 0.01


def test_single_precision_suffices_and_gradients_are_left_alone():
    z, y, domains = around(60)
    single = intra_class_variation(z.float().requires_grad_(), y, domains)
    np.testing.assert_allclose(single.sinkhorn, intra_class_variation(z, y, domains).sinkhorn, atol=1e-5)


def test_domains_that_lack_a_class_have_no_row():
    z, y = on_circle(0, 10, 20, 200, 210), torch.tensor([0, 0, 0, 1, 1])
    table = intra_class_variation(z, y, torch.tensor([0, 1, 7, 1, 7]))
    assert table.iloc[:, :3].values.tolist() == [[0, 0, 1], [0, 0, 7], [0, 1, 7], [1, 1, 7]]


def test_a_plan_that_did_not_converge_says_so(monkeypatch):
    monkeypatch.setattr(sinkhorn, "ITERATIONS", sinkhorn.BLOCK)
    with pytest.warns(RuntimeWarning, match="9 of 9 divergences missed the tolerance 1e-14") as caught:
        table = intra_class_variation(*around(60), regularisation=0.02, tolerance=1e-14)
    assert caught[0].filename == __file__
    assert (table.marginal_error > 1e-14).all()


def test_variation_runs_where_the_embeddings_are(device):
    z, y, domains = around(60)
    there = intra_class_variation(z.to(device), y.to(device), domains.to(device))
    np.testing.assert_allclose(there.sinkhorn, intra_class_variation(z, y, domains).sinkhorn, atol=1e-7)


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"domains": torch.zeros(2, dtype=torch.int64)}, "no class is found in two domains"),
        ({"domains": torch.zeros(3, dtype=torch.int64)}, r"domains must be int64 of shape \(2,\)"),
        ({"y": torch.zeros(0, dtype=torch.int64)}, r"y must be int64 of shape \(2,\)"),
        ({"y": torch.tensor([-1, 0])}, "labels must be 0..1, found -1..0"),
        ({"z": torch.ones(2, 2)}, "z must lie on the unit sphere"),
        ({"regularisation": 0}, "regularisation must be above 0, not 0"),
        ({"tolerance": -1.0}, "tolerance must be above 0, not -1.0"),
    ],
)
def test_variation_refuses_what_it_cannot_measure(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        intra_class_variation(**dict(zip(("z", "y", "domains"), DIRAC, strict=True)) | change)


# separation


def test_separation_is_the_mean_over_classes_of_the_minimum_over_domains():
    z, y, domains = around(90, classes=4, domains=2)
    total = 0.0
    for c, k in itertools.permutations(range(4), 2):
        total += min(pot(cell(z, y, domains, c, e), cell(z, y, domains, k, e), 0.3) for e in range(2))
    ours = inter_class_separation(z, y, domains, regularisation=0.3, tolerance=1e-9)
    assert ours == pytest.approx(total / (4 * 3), abs=1e-7)
    distances = inter_class_distances(z, y, domains, regularisation=0.3)
    assert len(distances) == 2 * math.comb(4, 2)
    assert distances.sinkhorn.mean() > ours + 1e-3  # the minimum matters


def test_separation_of_points_is_their_squared_distance_in_the_closest_domain():
    z, y, domains = on_circle(0, 90, 0, 60), torch.tensor([0, 1, 0, 1]), torch.tensor([0, 0, 1, 1])
    assert inter_class_separation(z, y, domains) == pytest.approx(1.0)
    corners = simplex_etf(5, 4, dtype=torch.float64)
    assert inter_class_separation(corners, torch.arange(5), torch.zeros(5, dtype=torch.int64)) == pytest.approx(2.5)


def test_separation_refuses_classes_that_never_meet():
    with pytest.raises(ValueError, match="no domain has two classes"):
        inter_class_separation(on_circle(0, 90), torch.tensor([0, 1]), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="two classes share no domain"):
        inter_class_separation(on_circle(0, 90, 9), torch.tensor([0, 1, 2]), torch.tensor([0, 0, 1]))


def test_alignment_and_separation_of_prototypes():
    z, y, mu = unit(20, 5), labels(20, 4), unit(4, 5, seed=1)
    assert epsilon_hat(z, y, mu).item() == pytest.approx(1 - sum(float(z[i] @ mu[y[i]]) for i in range(20)) / 20)
    pairs = [1 - float(mu[i] @ mu[j]) for i in range(4) for j in range(4) if i != j]
    assert prototype_separation(mu).item() == pytest.approx(sum(pairs) / 12)
    assert prototype_separation(simplex_etf(4, 5)).item() == pytest.approx(4 / 3)
    assert geometry.etf_gap is etf_gap


# projections


@given(n=st.integers(1, 30), m=st.integers(1, 30), dim=st.integers(1, 6), seed=st.integers(0, 2**20))
@settings(deadline=None, max_examples=60)
def test_projected_w1_is_exact_for_clouds_of_any_sizes(n, m, dim, seed):
    a, b, beta = unit(n, dim, seed=seed), unit(m, dim, seed=seed + 1), random_directions(4, dim, seed)
    expected = [wasserstein_distance((a @ v).numpy(), (b @ v).numpy()) for v in beta]
    np.testing.assert_allclose(projected_w1(a, b, beta), expected, atol=1e-12)


def test_projected_w1_can_be_differentiated():
    inputs = [x.requires_grad_() for x in (unit(4, 3), unit(6, 3, seed=1), random_directions(2, 3))]
    assert torch.autograd.gradcheck(projected_w1, inputs)


@given(n=st.integers(1, 7), m=st.integers(1, 7), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_the_ascent_climbs_along_the_gradient(n, m, seed):
    a, b, beta = (unit(count, 4, seed=seed + k) for k, count in enumerate((n, m, 3)))
    value, gradient = _with_gradient(a, b, beta)
    at = beta.clone().requires_grad_()
    expected = projected_w1(a, b, at)
    torch.testing.assert_close(value, expected.detach(), atol=1e-12, rtol=0)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), at)[0], atol=1e-12, rtol=0)


def test_projected_variation_is_the_worst_class_and_pair_of_domains():
    z, y, domains = around(60)
    beta = random_directions(5, 6)
    expected = [
        max(
            wasserstein_distance(cell(z, y, domains, c, a) @ v, cell(z, y, domains, c, b) @ v)
            for c in range(3)
            for a, b in itertools.combinations(range(3), 2)
        )
        for v in beta.numpy()
    ]
    np.testing.assert_allclose(projected_variation(z, y, domains, beta), expected, atol=1e-12)


@pytest.mark.parametrize("dim", [2, 6, 50])
def test_ascent_lies_between_the_best_random_direction_and_w1_of_the_clouds(dim):
    z, y, domains = around(200, dim=dim)
    table = projected_supremum(z, y, domains)
    beta = random_directions(64, dim)
    for row in table.to_dict("records"):
        a, b = (cell(z, y, domains, row["class"], row[side]) for side in ("domain_a", "domain_b"))
        assert row["random"] == pytest.approx(projected_w1(torch.tensor(a), torch.tensor(b), beta).max().item())
        assert row["random"] <= row["ascended"] <= ot.emd2([], [], ot.dist(a, b, metric="euclidean")) + 1e-12
        assert row["ascended"] >= np.linalg.norm(a.mean(0) - b.mean(0)) - 1e-12
    assert table.ascended.max() >= projected_variation(z, y, domains, beta).max()


def test_ascent_finds_the_supremum_on_a_circle():
    angles = on_circle(*np.linspace(0, 180, 2000))
    for seed in range(5):
        z, y, domains = around(120, classes=2, domains=2, dim=2, seed=seed, spread=1.5)
        best = [
            projected_w1(*(torch.tensor(cell(z, y, domains, c, e)) for e in (0, 1)), angles).max().item()
            for c in (0, 1)
        ]
        np.testing.assert_allclose(projected_supremum(z, y, domains).ascended, best, rtol=2e-3)


def test_supremum_is_the_distance_of_points_and_of_translates():
    assert projected_supremum(*DIRAC, directions=1, restarts=0).ascended.item() == pytest.approx(1.0)
    a, shift = unit(12, 5), torch.tensor([[0.3, -0.2, 0.1, 0.0, 0.4]], dtype=torch.float64)
    ascended = geometry.projections._ascend(a, a + shift, random_directions(3, 5), steps=40)
    assert ascended == pytest.approx(shift.norm().item(), rel=1e-6)


def test_supremum_of_identical_clouds_is_zero_and_a_seed_repeats_itself():
    z, y, domains = around(60)
    assert projected_supremum(z, y, domains, seed=3).equals(projected_supremum(z, y, domains, seed=3))
    same = torch.cat([z, z]), torch.zeros(2 * len(z), dtype=torch.int64), torch.arange(2).repeat_interleave(len(z))
    assert projected_supremum(*same).ascended.item() == pytest.approx(0.0, abs=1e-12)


# lemmas


def sides(frame, lemma: str, quantity: str = "") -> list[tuple[float, float]]:
    chosen = frame[(frame.lemma == lemma) & frame.quantity.str.contains(quantity, regex=False)]
    assert len(chosen)
    return list(chosen[["left", "right"]].itertuples(index=False, name=None))


def test_sides_of_the_lemmas_are_their_formulas():
    z, y, domains = around(70)
    mu, tau, delta = unit(3, 6, seed=0), 0.2, 0.1
    frame = lemmas(z, y, domains, mu, temperature=tau, delta=delta, seed=4)
    points, m = z.tolist(), mu.tolist()
    dot = [sum(p * q for p, q in zip(points[i], m[y[i]], strict=True)) for i in range(len(points))]
    cells = list(itertools.product(range(3), range(3)))
    members = {(c, e): [i for i in range(len(points)) if y[i] == c and domains[i] == e] for c, e in cells}
    misaligned = {k: 1 - sum(dot[i] for i in members[k]) / len(members[k]) for k in cells}
    away = {k: [math.dist(points[i], m[k[0]]) for i in members[k]] for k in cells}
    ce, n = 9, len(points)
    gamma = 1 - sum(1 - misaligned[k] for k in cells) / ce
    epsilon = 1 - sum(dot) / n
    eta = (ce * gamma) ** (1 / 3)
    close = {"rel": 1e-9, "abs": 1e-9}

    assert sides(frame, "Lemma C.1") == [pytest.approx((gamma - epsilon, math.sqrt(2 * math.log(20) / n)), **close)]
    assert sides(frame, "Lemma C.2") == [pytest.approx((misaligned[k], ce * gamma), **close) for k in cells]
    tails = [sum(d >= eta for d in away[k]) / len(away[k]) for k in cells]
    assert sides(frame, "Lemma C.3", "P(‖z − μ‖ ≥ η)")[::2] == [
        pytest.approx((tail, 2 * ce * gamma / eta**2), **close) for tail in tails
    ]
    largest = [max(t * t * sum(d >= t for d in away[k]) / len(away[k]) for t in away[k]) for k in cells]
    assert sides(frame, "Lemma C.3", "sup over η") == [pytest.approx((v, 2 * ce * gamma), **close) for v in largest]
    spreads = [sum((d - sum(away[k]) / len(away[k])) ** 2 for d in away[k]) / len(away[k]) for k in cells]
    assert sides(frame, "Lemma C.3, its proof") == [
        pytest.approx(v, **close) for v in zip(largest, spreads, strict=True)
    ]

    w1 = projected_supremum(z, y, domains, seed=4)
    assert sides(frame, "Lemma C.4", "random") == [pytest.approx((v, 10 * eta)) for v in w1.random]
    assert sides(frame, "Lemma C.4", "ascended") == [pytest.approx((v, 10 * eta)) for v in w1.ascended]
    mean = {k: sum(away[k]) / len(away[k]) for k in cells}
    through = [mean[c, a] + mean[c, b] for c in range(3) for a, b in itertools.combinations(range(3), 2)]
    assert sides(frame, "Lemma C.4, sharper") == [
        pytest.approx(v) for v in zip(w1.ascended.tolist(), through, strict=True)
    ]
    with_estimation = 10 * (ce * (epsilon + math.sqrt(2 * math.log(2 / delta) / n))) ** (1 / 3)
    assert sides(frame, "Theorem 6.1") == [
        pytest.approx((w1.ascended.max(), 10 * eta)),
        pytest.approx((max(through), 10 * eta)),
        pytest.approx((w1.ascended.max(), with_estimation)),
    ]
    assert sides(frame, "Theorem 6.1, sharper") == [pytest.approx((max(through), 2 * math.sqrt(2 * ce * gamma)))]

    gram = [[sum(p * q for p, q in zip(a, b, strict=True)) for b in m] for a in m]
    loss = sum(math.log(sum(math.exp(gram[i][j] / tau) for j in range(3) if j != i) / 2) for i in range(3)) / 3
    whole = sum(map(sum, gram))
    assert sides(frame, "Lemma J.1, its proof") == [pytest.approx((whole / (tau * 6) - 1 / (tau * 2), loss))]
    assert sides(frame, "Lemma J.1") == [pytest.approx((-1 / (tau * 2), loss))]


PROVEN = ["Lemma C.2", "Lemma C.3", "Lemma C.4", "Lemma C.4, sharper", "Theorem 6.1, sharper", "Lemma J.1"]


@given(
    n=st.integers(1, 60), dim=st.integers(2, 8), spread=st.sampled_from([1e-6, 0.1, 1.0, 30.0]), seed=st.integers(0, 99)
)
@settings(deadline=None, max_examples=6)
def test_what_is_proven_holds_on_any_embeddings(n, dim, spread, seed):
    z, y, domains = around(n, dim=dim, seed=seed, spread=spread)
    frame = lemmas(z, y, domains, unit(3, dim, seed=seed))
    assert frame[frame.lemma.isin([*PROVEN, "Lemma J.1, its proof"])].holds.all()
    assert frame[(frame.lemma == "Theorem 6.1") & (frame.quantity == "Vˢᵘᵖ, from below")].holds.all()
    bounded = frame[frame.lemma.isin(["Lemma C.2", "Lemma C.3", "Lemma C.4"])]
    assert (bounded.left <= bounded.at_most + 1e-12).all()


def test_per_class_alignment_is_tight_when_one_cell_takes_all_the_misalignment():
    mu = on_circle(0, 180)
    z, y, domains = on_circle(40, 0, 180, 180), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    left, right = sides(lemmas(z, y, domains, mu), "Lemma C.2")[0]
    assert left == pytest.approx(right) == pytest.approx(1 - math.cos(math.radians(40)))


def test_the_line_with_the_variance_fails_where_samples_are_equally_far_from_their_prototype():
    mu = on_circle(0, 180)
    z, y, domains = on_circle(40, -40, 140, 220), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    frame = lemmas(z, y, domains, mu)
    assert not frame[frame.lemma == "Lemma C.3, its proof"].holds.any()
    assert frame[frame.lemma == "Lemma C.3"].holds.all()


def test_perfect_alignment_at_the_simplex_makes_every_side_meet():
    mu = simplex_etf(4, 6, dtype=torch.float64)
    y, domains = torch.arange(4).repeat(4), torch.arange(2).repeat_interleave(8)
    frame = lemmas(mu[y], y, domains, mu)
    assert frame.holds.all()
    assert sides(frame, "Theorem 6.1", "from below")[0] == pytest.approx((0, 0), abs=1e-4)
    for lemma in ("Lemma J.1", "Lemma J.1, its proof"):
        left, right = sides(frame, lemma)[0]
        assert left == pytest.approx(right)


def test_lemmas_count_only_cells_that_have_samples_and_refuse_a_delta_that_is_no_probability():
    mu = on_circle(0, 180)
    z, y, domains = on_circle(10, 20, 170), torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1])
    assert len(sides(lemmas(z, y, domains, mu), "Lemma C.2")) == 3
    with pytest.raises(ValueError, match="delta must be between 0 and 1"):
        lemmas(z, y, domains, mu, delta=0)


def test_the_mean_variation_is_of_the_classes_that_two_domains_have():
    z, y, e = around(40)
    found = intra_class_variation(z, y, e)["sinkhorn"]
    assert mean_variation(z, y, e) == pytest.approx(found.mean())
    assert mean_variation(z, y, torch.zeros_like(e)) is None and mean_variation(z, e, e) is None
