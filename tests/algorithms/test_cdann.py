"""CDANN: the discriminator knows the class, and every class counts the same in every domain."""

import math

import pytest
import torch
from small import features, method
from torch.autograd import grad

from hypo.algorithms.base import Batch


def test_loss_is_the_mean_over_pairs_of_domain_and_class():
    algorithm = method("cdann")
    x, y, domains = features(algorithm, 40)
    y[y == 3] = 2  # a class that is missing
    cells = {}
    for i in range(len(x)):
        known = torch.zeros(5, dtype=torch.float64)
        known[y[i]] = 1
        scores = algorithm.discriminator(torch.cat([x[i], known])).tolist()
        loss = -math.log(math.exp(scores[domains[i]]) / sum(math.exp(s) for s in scores))
        cells.setdefault((domains[i].item(), y[i].item()), []).append(loss)
    expected = sum(sum(cell) / len(cell) for cell in cells.values()) / len(cells)
    assert algorithm.adversary(x, y, domains).item() == pytest.approx(expected, rel=1e-12)


def test_the_class_is_an_input_of_the_discriminator():
    algorithm = method("cdann")
    x, y, domains = features(algorithm)
    assert algorithm.adversary(x, y, domains) != algorithm.adversary(x, (y + 1) % 5, domains)


def test_class_frequencies_are_no_cue():
    """Class 0 is mostly of domain 0, class 1 of domains 1 and 2. A discriminator that sees the classes only is best
    when it guesses, which it is not by weights of the classes over all domains."""
    algorithm = method("cdann")
    y = torch.tensor([0] * 8 + [1] * 2 + [0] * 1 + [1] * 9 + [0] * 3 + [1] * 7)
    domains = torch.arange(3).repeat_interleave(10)
    last = algorithm.discriminator[-1]
    with torch.no_grad():
        last.weight.zero_(), last.bias.zero_()
    loss = algorithm.adversary(torch.zeros(30, algorithm.feature_dim, dtype=torch.float64), y, domains)
    assert loss.item() == pytest.approx(math.log(3))
    for gradient in grad(loss, [last.weight, last.bias]):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-12)


def test_encoder_gets_the_conditional_gradient_reversed():
    algorithm = method("cdann", penalty=2.0).train()
    random = torch.Generator().manual_seed(0)
    images = torch.randn(12, 3, 16, 16, generator=random, dtype=torch.float64)
    y, domains = torch.randint(5, (12,), generator=random), torch.arange(12) % 3
    encoder, adversary = list(algorithm.network.parameters()), list(algorithm.discriminator.parameters())
    found = grad(algorithm.losses(Batch(images, y, domains), 0.1)["adversary"], [*encoder, *adversary])
    own = grad(algorithm.adversary(algorithm.network(images), y, domains), [*encoder, *adversary])
    factor = 2.0 * (2 / (1 + math.exp(-1)) - 1)
    for i, (a, b) in enumerate(zip(found, own, strict=True)):
        torch.testing.assert_close(a, -factor * b if i < len(encoder) else b, rtol=1e-9, atol=1e-12)
