"""DANN: the encoder ascends what the discriminator descends."""

import math

import pytest
import torch
import torch.nn.functional as F
from small import learns, method, trainer
from torch.autograd import grad

from hypo.algorithms.adversarial import ramp, reverse_gradient
from hypo.algorithms.base import Batch


def batch() -> Batch:
    random = torch.Generator().manual_seed(0)
    images = torch.randn(12, 3, 16, 16, generator=random, dtype=torch.float64)
    return Batch(images, torch.randint(5, (12,), generator=random), torch.arange(12) % 3)


def test_reversal_changes_the_gradient_only():
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y = reverse_gradient(x, 0.5)
    assert torch.equal(x, y)
    (y**3).sum().backward()
    torch.testing.assert_close(x.grad, -0.5 * 3 * x.detach() ** 2)


def test_the_ramp_goes_from_0_to_nearly_1():
    assert ramp(0) == 0 and ramp(0.5) > 0.98 and ramp(0.1) == pytest.approx((1 - math.exp(-1)) / (1 + math.exp(-1)))


@pytest.mark.parametrize("progress", [0.0, 0.1, 0.9])
def test_encoder_gets_the_reversed_gradient_and_discriminator_its_own(progress):
    algorithm = method("dann", penalty=2.0).train()
    images, y, domains = batch()
    algorithm.losses(Batch(images, y, domains), progress)["total"].backward()
    x = algorithm.network(images)
    classes, sides = F.cross_entropy(algorithm.classifier(x), y), F.cross_entropy(algorithm.discriminator(x), domains)
    factor = 2.0 * (2 / (1 + math.exp(-10 * progress)) - 1)
    encoder, adversary = list(algorithm.network.parameters()), list(algorithm.discriminator.parameters())
    for p, a, b in zip(
        encoder, grad(classes, encoder, retain_graph=True), grad(sides, encoder, retain_graph=True), strict=True
    ):
        torch.testing.assert_close(p.grad, a - factor * b, rtol=1e-9, atol=1e-12)
    for p, b in zip(adversary, grad(sides, adversary), strict=True):
        torch.testing.assert_close(p.grad, b, rtol=1e-9, atol=1e-12)


def test_the_discriminator_has_an_optimiser_of_its_own_that_steps():
    run = trainer("dann", discriminator_lr=3.0)
    algorithm = run.algorithm
    rest, adversary = (
        {p for group in optimiser.param_groups for p in group["params"]} for optimiser in algorithm.steppers
    )
    assert adversary == set(algorithm.discriminator.parameters()) and not rest & adversary
    assert rest | adversary == set(algorithm.parameters())
    before = {p: p.detach().clone() for p in algorithm.parameters()}
    run.step()
    moved = {p for p in before if not torch.equal(p, before[p])}
    assert adversary <= moved and set(algorithm.classifier.parameters()) <= moved
    rates = [[group["lr"] for group in optimiser.param_groups] for optimiser in algorithm.steppers]
    assert [rates[0], rates[1][-1]] == [[0.02, 0.04], pytest.approx(3 * 0.04)]


def test_it_learns_and_the_encoder_hides_the_domain():
    """Left alone by the encoder, the discriminator's loss falls well below that of a guess. Seen on six seeds: at most
    0.56 of it, and at least 0.89 with the reversed gradient."""
    idle, hidden = (
        learns("dann", penalty=penalty, batch_size=54, epochs=24).step()["adversary"] for penalty in (0.0, 1.0)
    )
    assert idle < 0.72 * math.log(3) < hidden
