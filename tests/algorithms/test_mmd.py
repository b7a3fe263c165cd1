"""MMD: the discrepancy is that of a double loop, and none between equal samples."""

import math
from itertools import combinations

import pytest
import torch
from small import features, method

from hypo.algorithms.mmd import BANDWIDTHS, squared_mmd


def double_loop(a: list[list[float]], b: list[list[float]]) -> float:
    def mean(us, vs):
        total = 0.0
        for u in us:
            for v in vs:
                square = sum((p - q) ** 2 for p, q in zip(u, v, strict=True))
                total += sum(math.exp(-s * square) for s in BANDWIDTHS)
        return total / (len(us) * len(vs))

    return mean(a, a) + mean(b, b) - 2 * mean(a, b)


def test_discrepancy_is_that_of_a_double_loop():
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randn(n, 4, generator=random, dtype=torch.float64) for n in (5, 7))
    assert squared_mmd(a, b).item() == pytest.approx(double_loop(a.tolist(), b.tolist()), rel=1e-12)
    assert squared_mmd(a, b) > 0.1 and squared_mmd(a, b).item() == pytest.approx(squared_mmd(b, a).item(), rel=1e-12)


def test_equal_samples_have_none_in_any_order_and_far_from_the_origin():
    a = 100 + torch.randn(64, 32, generator=torch.Generator().manual_seed(0))  # float32
    assert squared_mmd(a, a).item() == 0
    assert abs(squared_mmd(a, a.flip(0)).item()) < 1e-6


def test_far_samples_have_the_most():
    a, b = torch.zeros(3, 2, dtype=torch.float64), torch.full((4, 2), 1e3, dtype=torch.float64)
    assert squared_mmd(a, b).item() == pytest.approx(2 * len(BANDWIDTHS))


def test_gradient_is_finite_where_points_coincide():
    a, b = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True), torch.ones(3, 2, dtype=torch.float64)
    squared_mmd(a, b).backward()
    assert a.grad.isfinite().all() and (a.grad < 0).all()  # towards b


def test_loss_is_cross_entropy_and_the_mean_over_pairs_of_domains():
    algorithm = method("mmd", penalty=3.0)
    outputs, y, domains = features(algorithm)
    terms = algorithm.loss(outputs, y, domains)
    rows = [[outputs[i].tolist() for i in range(len(y)) if domains[i] == e] for e in range(3)]
    expected = sum(double_loop(rows[a], rows[b]) for a, b in combinations(range(3), 2)) / 3
    assert terms["discrepancy"].item() == pytest.approx(expected, rel=1e-10)
    assert terms["total"].item() == pytest.approx(terms["entropy"].item() + 3 * expected, rel=1e-10)
