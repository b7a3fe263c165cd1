import math

import numpy as np
import oracles
import pytest
import torch
import torch.nn.functional as F
from conftest import labels, on_circle, unit
from hypothesis import given, settings
from hypothesis import strategies as st

from hypo import class_means, etf_gap, separation_loss, simplex_etf, sphere, update_prototypes, variation_loss
from hypo.sphere import _schedule, to_sphere

SIZES = {"n": st.integers(1, 40), "classes": st.integers(2, 8), "dim": st.integers(2, 9), "seed": st.integers(0, 2**20)}
MOMENTUM = st.sampled_from([0.0, 0.3, 0.5, 0.9, 0.95, 0.999])


def rotation(dim: int, seed: int = 0) -> torch.Tensor:
    return torch.linalg.qr(unit(dim, dim, seed=seed)).Q


# prototypes


@given(**SIZES, momentum=MOMENTUM, dtype=st.sampled_from([torch.float32, torch.float64]))
@settings(deadline=None, max_examples=150)
def test_update_is_algorithm_1_to_the_last_bit_and_so_is_its_gradient_to_rounding(
    n, classes, dim, seed, momentum, dtype
):
    mu, z, y = (
        unit(classes, dim, seed=seed, dtype=dtype),
        unit(n, dim, seed=seed + 1, dtype=dtype),
        labels(n, classes, seed),
    )
    direction = torch.randn(classes, dim, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    results = []
    for update in (update_prototypes, oracles.algorithm_1):
        inputs = [mu.clone().requires_grad_(), z.clone().requires_grad_()]
        after = update(*inputs, y, momentum)
        results.append((after.detach(), *torch.autograd.grad((after * direction).sum(), inputs)))
    (ours, *gradients), (theirs, *expected) = results
    assert torch.equal(ours, theirs)
    tolerance = {torch.float32: 2e-5, torch.float64: 1e-12}[dtype]
    for gradient, reference in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=tolerance, atol=tolerance * (1 + reference.abs().max()))


@pytest.mark.parametrize("n, classes, dim", [(1, 2, 2), (9, 3, 4), (12, 12, 3), (7, 5, 6)])
def test_update_gradcheck(n, classes, dim):
    mu, z, y = unit(classes, dim).requires_grad_(), unit(n, dim, seed=1).requires_grad_(), labels(n, classes)
    assert torch.autograd.gradcheck(lambda m, x: update_prototypes.__wrapped__(m, x, y, 0.7), (mu, z))


def test_update_on_a_circle_follows_the_bisector():
    after = update_prototypes(on_circle(0, 180), on_circle(90, 90), torch.tensor([0, 0]), momentum=0.5)
    torch.testing.assert_close(after, on_circle(67.5, 180))  # 0 -> 45 -> 67.5 degrees; class 1 is absent


def test_order_within_a_class_matters_and_between_classes_does_not():
    mu, z = on_circle(0, 180), on_circle(30, 120, 200, 250)
    y = torch.tensor([0, 0, 1, 1])
    swapped = update_prototypes(mu, z[[1, 0, 2, 3]], y, 0.8)
    interleaved = update_prototypes(mu, z[[2, 0, 3, 1]], y[[2, 0, 3, 1]], 0.8)
    original = update_prototypes(mu, z, y, 0.8)
    assert not torch.allclose(original[0], swapped[0])
    assert torch.equal(original[1], swapped[1])
    assert torch.equal(original, interleaved)


def test_momentum_zero_keeps_the_last_sample_of_each_class():
    z, y = unit(5, 3), torch.tensor([0, 1, 0, 1, 0])
    torch.testing.assert_close(update_prototypes(unit(3, 3, seed=2), z, y, 0.0)[:2], z[[4, 3]])


def test_opposite_sample_at_half_momentum_gives_no_nan_and_the_next_sample_takes_over():
    z = on_circle(180, 90).requires_grad_()
    after = update_prototypes(on_circle(0, 90), z, torch.tensor([0, 0]), momentum=0.5)
    torch.testing.assert_close(after[0], on_circle(90)[0])
    assert torch.autograd.grad(after.sum(), z)[0].isfinite().all()


@given(y=st.lists(st.integers(0, 6), min_size=1, max_size=60))
def test_schedule_takes_as_many_steps_as_the_largest_class_and_each_sample_once_in_order(y):
    y = np.array(y)
    order, source, widths, last = _schedule(y, 7)
    counts = np.bincount(y, minlength=7)
    assert len(widths) == counts.max() and sum(widths) == len(y)
    assert sorted(source) == list(range(len(y)))
    for c in range(7):
        slots = [i for i in source if y[i] == c]
        assert slots == sorted(slots)
    assert [source[slot] for slot in last] == [np.flatnonzero(y == c)[-1] for c in order]


def test_update_runs_on_every_device(device):
    mu, z, y = unit(5, 8), unit(30, 8, seed=1), labels(30, 5)
    there = update_prototypes(mu.to(device), z.to(device), y.to(device), 0.9)
    torch.testing.assert_close(there.cpu(), oracles.algorithm_1(mu, z, y, 0.9))


# losses


@given(**SIZES, tau=st.sampled_from([0.05, 0.1, 0.5, 2.0]), hard=st.booleans())
@settings(deadline=None, max_examples=100)
def test_losses_are_the_papers_sums(n, classes, dim, seed, tau, hard):
    mu, z, y = unit(classes, dim, seed=seed), unit(n, dim, seed=seed + 1), labels(n, classes, seed)
    domains = labels(n, 3, seed + 2) if hard else None
    assert variation_loss(z, y, mu, tau, domains).item() == pytest.approx(
        oracles.variation(z, y, mu, tau, domains), 1e-9
    )
    assert separation_loss(mu, tau).item() == pytest.approx(oracles.separation(mu, tau), 1e-9, 1e-9)


def test_loss_gradcheck():
    mu, z, y, e = unit(4, 5).requires_grad_(), unit(9, 5, seed=1).requires_grad_(), labels(9, 4), labels(9, 2, seed=3)
    assert torch.autograd.gradcheck(lambda z, m: variation_loss.__wrapped__(z, y, m, 0.3, e), (z, mu))
    assert torch.autograd.gradcheck(lambda m: separation_loss.__wrapped__(m, 0.3), (mu,))


@pytest.mark.parametrize("rows", [1, 3, 10])
def test_separation_in_blocks_is_that_of_the_whole_gradient_included(monkeypatch, rows):
    mu = unit(11, 5).requires_grad_()
    whole = separation_loss(mu, 0.1)
    expected = torch.autograd.grad(whole, mu)
    monkeypatch.setattr(sphere, "BLOCK", rows * len(mu))
    blocks = separation_loss(mu, 0.1)
    torch.testing.assert_close((blocks, *torch.autograd.grad(blocks, mu)), (whole, *expected))


def test_variation_on_a_circle():
    z, mu, y = on_circle(0, 90), on_circle(0, 90), torch.tensor([0, 1])
    assert variation_loss(z, y, mu, 1.0).item() == pytest.approx(math.log(1 + math.exp(-1)))
    same_domain = variation_loss(z, y, mu, 1.0, domains=torch.tensor([4, 4])).item()
    assert same_domain == pytest.approx(math.log(1 + 2 * math.exp(-1)))
    assert variation_loss(z, y, mu, 1.0, domains=torch.tensor([0, 1])).item() == pytest.approx(
        math.log(1 + math.exp(-1))
    )


def test_separation_on_a_circle():
    assert separation_loss(on_circle(0, 180), 0.1).item() == pytest.approx(-10)
    assert separation_loss(on_circle(0, 120, 240), 0.5).item() == pytest.approx(-1)


@given(**SIZES)
@settings(deadline=None, max_examples=50)
def test_renaming_the_classes_and_turning_the_sphere_change_no_loss(n, classes, dim, seed):
    mu, z, y, e = (
        unit(classes, dim, seed=seed),
        unit(n, dim, seed=seed + 1),
        labels(n, classes, seed),
        labels(n, 2, seed),
    )
    names = torch.randperm(classes, generator=torch.Generator().manual_seed(seed))
    turn = rotation(dim, seed)
    renamed = torch.empty_like(mu)
    renamed[names] = mu
    expected = [variation_loss(z, y, mu, 0.1, e), separation_loss(mu, 0.1)]
    torch.testing.assert_close([variation_loss(z, names[y], renamed, 0.1, e), separation_loss(renamed, 0.1)], expected)
    torch.testing.assert_close(
        [variation_loss(z @ turn, y, mu @ turn, 0.1, e), separation_loss(mu @ turn, 0.1)], expected
    )
    after = update_prototypes(mu, z, y, 0.9)
    torch.testing.assert_close(update_prototypes(renamed, z, names[y], 0.9)[names], after)
    torch.testing.assert_close(update_prototypes(mu @ turn, z @ turn, y, 0.9), after @ turn)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_temperatures_stay_finite(dtype):
    z = on_circle(0, 0, 180).to(dtype).requires_grad_()
    mu = on_circle(180, 0).to(dtype).requires_grad_()
    loss = variation_loss(z, torch.tensor([0, 1, 0]), mu, 0.01, torch.tensor([0, 0, 0])) + separation_loss(mu, 0.01)
    assert loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, (z, mu)))
    assert variation_loss(z[:1], torch.tensor([0]), mu, 0.01).item() == pytest.approx(200, rel=1e-5)


# the simplex ETF


@pytest.mark.parametrize("classes, dim", [(2, 2), (3, 2), (4, 3), (7, 512), (10, 9), (65, 512)])
def test_simplex_etf_has_the_cosines_of_its_definition(classes, dim):
    vectors = simplex_etf(classes, dim, dtype=torch.float64)
    gram = vectors @ vectors.T
    expected = torch.full_like(gram, -1 / (classes - 1)).fill_diagonal_(1)
    torch.testing.assert_close(gram, expected, rtol=0, atol=1e-12)
    assert etf_gap(vectors) < 1e-12
    assert separation_loss(vectors, 0.1).item() == pytest.approx(-10 / (classes - 1))


def test_etf_gap_is_the_largest_departure():
    assert etf_gap(on_circle(0, 120, 240)).item() == pytest.approx(0, abs=1e-12)
    assert etf_gap(on_circle(0, 90)).item() == pytest.approx(1)
    assert etf_gap(on_circle(0, 90, 180)).item() == pytest.approx(0.5)


def separate(classes: int, dim: int, tau: float) -> torch.Tensor:
    """Minimise the separation loss alone, from random directions."""
    free = unit(classes, dim).requires_grad_()
    optimiser = torch.optim.LBFGS([free], max_iter=500, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = separation_loss.__wrapped__(F.normalize(free, dim=1), tau)
        loss.backward()
        return loss

    optimiser.step(closure)
    return F.normalize(free.detach(), dim=1)


@pytest.mark.parametrize("classes, dim", [(2, 3), (3, 2), (4, 3), (7, 16), (10, 9), (10, 128)])
def test_separation_alone_reaches_the_simplex_etf(classes, dim):
    assert etf_gap(separate(classes, dim, tau=0.5)) < 1e-3


def test_beyond_d_plus_1_classes_there_is_no_etf_and_the_prototypes_spread_as_far_as_they_can():
    with pytest.raises(ValueError, match="no simplex ETF of 5 vectors fits into 3 dimensions; take dim >= 4"):
        simplex_etf(5, 3)
    spread = separate(6, 3, tau=0.05)  # six points in space: the octahedron, cosines 0 and -1 instead of -1/5
    cosines = (spread @ spread.T)[~torch.eye(6, dtype=torch.bool)]
    assert torch.minimum(cosines.abs(), (cosines + 1).abs()).max() < 1e-2
    assert etf_gap(spread).item() == pytest.approx(1 - 1 / 5, abs=1e-2)


# helpers and the input contract


def test_class_means_are_directions_of_the_means():
    means = class_means(on_circle(0, 90, 200), torch.tensor([0, 0, 1]), 2)
    torch.testing.assert_close(means, on_circle(45, 200))
    with pytest.raises(ValueError, match="no sample of class 1, 3"):
        class_means(on_circle(0, 90), torch.tensor([0, 2]), 4)


def test_to_sphere_maps_zero_to_a_unit_vector_without_gradient():
    h = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1e-20, 0.0]], requires_grad=True)
    z = to_sphere(h)
    torch.testing.assert_close(z, torch.tensor([[1.0, 0.0], [0.6, 0.8], [1.0, 0.0]]))
    z.sum().backward()
    assert h.grad.isfinite().all() and (h.grad[0] == 0).all()
    assert to_sphere(torch.tensor([[torch.nan, 1.0]])).isnan().any()


Z, MU, Y = unit(4, 3), unit(2, 3, seed=1), torch.tensor([0, 1, 0, 1])


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: variation_loss(2 * Z, Y, MU, 0.1), "z must lie on the unit sphere .* normalise first"),
        (lambda: variation_loss(Z * torch.nan, Y, MU, 0.1), "z holds NaN or infinity"),
        (lambda: variation_loss(Z, Y + 1, MU, 0.1), r"labels must be 0..1, found 1..2"),
        (lambda: variation_loss(Z, -Y, MU, 0.1), r"labels must be 0..1, found -1..0"),
        (lambda: variation_loss(Z, Y[:3], MU, 0.1), r"y must be int64 of shape \(4,\)"),
        (lambda: variation_loss(Z, Y.float(), MU, 0.1), "y must be int64"),
        (lambda: variation_loss(Z, Y, MU, 0.1, Y[:1]), r"domains must be int64 of shape \(4,\)"),
        (lambda: variation_loss(Z, Y, MU, 0), "temperature must be above 0"),
        (lambda: variation_loss(Z, Y, MU, float("nan")), "temperature must be above 0"),
        (lambda: variation_loss(Z[0], Y, MU, 0.1), r"z must be a floating-point tensor \(N, d\)"),
        (lambda: variation_loss(Z[:0], Y[:0], MU, 0.1), "not empty"),
        (lambda: variation_loss(Z.float(), Y, MU, 0.1), "same dtype"),
        (lambda: variation_loss(unit(4, 5), Y, MU, 0.1), "same dtype and dimension"),
        (lambda: separation_loss(MU[:1], 0.1), "at least 2 classes"),
        (lambda: separation_loss(MU, -1), "temperature must be above 0"),
        (lambda: separation_loss(3 * MU, 0.1), "prototypes must lie on the unit sphere"),
        (lambda: update_prototypes(MU, Z, Y, 1.0), r"momentum must be in \[0, 1\)"),
        (lambda: update_prototypes(MU, Z, Y, -0.1), r"momentum must be in \[0, 1\)"),
        (lambda: update_prototypes(MU, Z, 2 * Y, 0.9), "labels must be 0..1"),
        (lambda: simplex_etf(1, 3), "at least 2 classes"),
        (lambda: etf_gap(MU[:1]), "at least 2 classes"),
    ],
)
def test_bad_input_gets_one_sentence(call, says):
    with pytest.raises(ValueError, match=says) as error:
        call()
    assert "\n" not in str(error.value)
