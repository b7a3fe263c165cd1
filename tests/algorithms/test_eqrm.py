"""EQRM: the loss is the quantile of a kernel density of the risks, and so is its gradient."""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm
from small import features, method
from torch import nn

from hypo.algorithms.base import Batch
from hypo.algorithms.eqrm import kde_quantile
from hypo.algorithms.risks import domain_risks

RISKS = np.array([0.4, 1.3, 0.7, 2.0])


def quantile(risks: np.ndarray, alpha: float) -> float:
    width = 1.06 * len(risks) ** -0.2 * risks.std(ddof=1)
    return brentq(lambda q: norm.cdf(q, risks, width).mean() - alpha, -100, 100, xtol=1e-14)


@pytest.mark.parametrize("alpha", [0.02, 0.5, 0.75, 0.9, 0.999])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_quantile_is_that_of_the_kernel_density(alpha, count):
    found = kde_quantile(torch.tensor(RISKS[:count]), alpha).item()
    assert found == pytest.approx(quantile(RISKS[:count], alpha), rel=1e-9)


@pytest.mark.parametrize("alpha", [0.3, 0.75])
def test_gradient_is_the_quantiles_and_every_domain_has_its_share(alpha):
    risks = torch.tensor(RISKS, requires_grad=True)
    kde_quantile(risks, alpha).backward()
    for i, step in enumerate(1e-5 * np.eye(4)):
        expected = (quantile(RISKS + step, alpha) - quantile(RISKS - step, alpha)) / 2e-5
        assert risks.grad[i].item() == pytest.approx(expected, rel=1e-6)
    assert risks.grad.sum().item() == pytest.approx(1, rel=1e-9)  # it moves with the risks


def test_middle_risk_matters():
    risks = torch.tensor([0.0, 0.9, 1.0], dtype=torch.float64, requires_grad=True)
    kde_quantile(risks, 0.75).backward()
    assert risks.grad[1] > 0.2


def test_equal_risks_are_their_quantile():
    risks = torch.full((3,), 0.7, requires_grad=True)  # float32
    found = kde_quantile(risks, 0.75)
    found.backward()
    assert found.dtype == torch.float32 and found.item() == pytest.approx(0.7, abs=2e-6)
    torch.testing.assert_close(risks.grad, torch.full((3,), 1 / 3), atol=1e-3, rtol=0)


def test_loss_is_the_mean_risk_and_then_the_quantile():
    algorithm = method("eqrm", burn_in=0.25, quantile=0.9)
    algorithm.network = nn.Identity()
    outputs, y, domains = features(algorithm)
    risks = domain_risks(algorithm.logits(outputs), y, domains, 3).detach().numpy()
    for progress, expected in ((0.0, risks.mean()), (0.24, risks.mean()), (0.25, quantile(risks, 0.9))):
        total = algorithm.losses(Batch(outputs, y, domains), progress)["total"].item()
        assert total == pytest.approx(expected, rel=1e-9)
