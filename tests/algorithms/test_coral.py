"""CORAL: the distance of two samples' means and covariances."""

from itertools import combinations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small import features, method

from hypo.algorithms.coral import moment_distance


def sample(n: int, d: int, seed: int) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def formula(a: np.ndarray, b: np.ndarray) -> float:
    d = a.shape[1]
    mean = np.sum((a.mean(0) - b.mean(0)) ** 2) / d
    return mean + np.linalg.norm(np.cov(a, rowvar=False) - np.cov(b, rowvar=False), "fro") ** 2 / d**2


@pytest.mark.parametrize("n, m, d", [(5, 5, 3), (7, 12, 4), (2, 3, 6)])
def test_distance_is_the_formula_in_numpy(n, m, d):
    a, b = sample(n, d, 0), 2 * sample(m, d, 1) + 1
    assert moment_distance(a, b).item() == pytest.approx(formula(a.numpy(), b.numpy()), rel=1e-12)


def test_distance_is_zero_for_equal_moments_of_different_samples():
    """A sample turned by half a circle about its mean has the same mean and covariance."""
    a = sample(9, 4, 0)
    turned = 2 * a.mean(0) - a
    assert (a - turned).abs().max() > 1 and moment_distance(a, turned).item() == pytest.approx(0, abs=1e-28)
    assert moment_distance(a, a + 0.5).item() == pytest.approx(0.25)  # the means alone
    assert moment_distance(a, a.mean(0) + 2 * (a - a.mean(0))).item() > 1  # the covariances alone


def test_loss_adds_the_mean_over_pairs_of_domains():
    algorithm = method("coral", penalty=3.0)
    x, y, domains = features(algorithm)
    terms = algorithm.loss(x, y, domains)
    parts = [x[domains == e].numpy() for e in range(3)]
    expected = np.mean([formula(a, b) for a, b in combinations(parts, 2)])
    assert terms["moments"].item() == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(terms["entropy"], F.cross_entropy(algorithm.classifier(x), y))
    torch.testing.assert_close(terms["total"], terms["entropy"] + 3 * terms["moments"])


def test_half_precision_does_not_blur_the_moments():
    """Under autocast a product of matrices is of bfloat16; a covariance of it would be off by a hundredth."""
    a, b = (100 + sample(50, 8, seed).bfloat16() for seed in (0, 1))
    with torch.autocast("cpu", torch.bfloat16):
        found = moment_distance(a, b)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(formula(a.double().numpy(), b.double().numpy()), rel=1e-4)


def test_one_sample_of_a_domain_is_refused():
    with pytest.raises(ValueError, match="at least two samples of each domain"):
        moment_distance(sample(1, 3, 0), sample(5, 3, 1))
