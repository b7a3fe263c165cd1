"""VNE: the entropy is that of the eigenvalues of the features' autocorrelation."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small import features, learns, method

from hypo.algorithms.vne import von_neumann_entropy


@pytest.mark.parametrize("n, d", [(20, 6), (6, 20), (8, 8)])
def test_entropy_is_that_of_the_eigenvalues(n, d):
    x = np.random.default_rng(0).normal(size=(n, d))
    z = x / np.sqrt((x**2).sum(axis=1, keepdims=True))
    values = np.linalg.eigvalsh(z.T @ z / n)
    assert values.sum() == pytest.approx(1)
    values = values[values > 1e-12]
    expected = -(values * np.log(values)).sum()
    assert von_neumann_entropy(torch.tensor(x)).item() == pytest.approx(expected, rel=1e-9)
    assert von_neumann_entropy(torch.tensor(7 * x)).item() == pytest.approx(expected, rel=1e-9)


def test_one_line_has_none_and_all_directions_alike_have_the_most():
    line = torch.tensor([[1.0, 2.0], [-3.0, -6.0], [0.5, 1.0]], dtype=torch.float64)
    assert von_neumann_entropy(line).item() == pytest.approx(0, abs=1e-12)
    assert von_neumann_entropy(torch.eye(5, dtype=torch.float64)).item() == pytest.approx(math.log(5))
    assert von_neumann_entropy(torch.eye(5, 9, dtype=torch.float64)).item() == pytest.approx(math.log(5))


def test_gradient():
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(von_neumann_entropy, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_is_finite_where_eigenvalues_vanish(dtype):
    x = torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 0]], dtype=dtype, requires_grad=True)
    von_neumann_entropy(x).backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("weight", [0.5, -0.5])
def test_loss_is_cross_entropy_less_the_entropy(weight):
    algorithm = method("vne", entropy_weight=weight)
    outputs, y, domains = features(algorithm)
    expected = F.cross_entropy(algorithm.logits(outputs), y) - weight * von_neumann_entropy(outputs)
    torch.testing.assert_close(algorithm.loss(outputs, y, domains)["total"], expected)


def test_it_learns_and_the_weight_raises_or_lowers_the_entropy():
    up, down = (learns("vne", entropy_weight=weight, batch_size=54, epochs=24).algorithm for weight in (0.3, -0.3))
    images = torch.randn(32, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert von_neumann_entropy(up.eval().encode(images)) > von_neumann_entropy(down.eval().encode(images)) + 0.1
