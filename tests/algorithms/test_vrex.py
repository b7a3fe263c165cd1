"""VREx: the penalty is the variance of the domains' risks."""

import math

import numpy as np
import pytest
import torch
from small import features, method
from torch import nn

from hypo.algorithms.base import Batch
from hypo.algorithms.risks import domain_risks


def test_loss_is_the_mean_and_the_variance_of_the_risks():
    algorithm = method("vrex", penalty=7.0, anneal=0.25)
    algorithm.network = nn.Identity()
    outputs, y, domains = features(algorithm)
    scores = algorithm.logits(outputs).tolist()
    each = [math.log(sum(math.exp(v) for v in row)) - row[c] for row, c in zip(scores, y.tolist(), strict=True)]
    risks = np.array([np.mean(each[e::3]) for e in range(3)])
    mean = risks.sum() / 3
    variance = sum((risk - mean) ** 2 for risk in risks) / 3
    for progress, weight in ((0.0, 1.0), (0.24, 1.0), (0.25, 7.0), (0.9, 7.0)):
        terms = algorithm.losses(Batch(outputs, y, domains), progress)
        assert terms["risk"].item() == pytest.approx(mean, rel=1e-12)
        assert terms["variance"].item() == pytest.approx(variance, rel=1e-10)
        assert terms["total"].item() == pytest.approx(mean + weight * variance, rel=1e-12)


@pytest.mark.parametrize("penalty", [2.0, 50.0])
def test_the_gradient_is_that_of_the_loss_and_no_longer_than_the_risks(penalty):
    """Not that of L / lambda: with SGD it would be another learning rate."""
    algorithm = method("vrex", penalty=penalty, anneal=0.0)
    algorithm.network = nn.Identity()
    algorithm.classifier = nn.Identity()  # outputs are logits
    logits = torch.randn(12, 5, dtype=torch.float64, requires_grad=True)
    y, domains = torch.arange(12) % 5, torch.arange(12) % 3
    risks = domain_risks(logits, y, domains, 3)
    (risk,) = torch.autograd.grad(risks.mean(), logits, retain_graph=True)
    (loss,) = torch.autograd.grad(risks.mean() + penalty * risks.var(correction=0), logits)
    (found,) = torch.autograd.grad(algorithm.losses(Batch(logits, y, domains), 0.5)["total"], logits)
    torch.testing.assert_close(found, loss * (risk.norm() / loss.norm()).clamp(max=1))


def test_equal_risks_have_no_penalty():
    algorithm = method("vrex")
    algorithm.network = nn.Identity()
    outputs, y, _ = features(algorithm, n=8)
    outputs, y = outputs.repeat_interleave(3, dim=0), y.repeat_interleave(3)
    terms = algorithm.losses(Batch(outputs, y, torch.arange(24) % 3), 0.5)
    assert terms["variance"].item() == pytest.approx(0, abs=1e-25)
