"""SharpDRO: the mean risk, and the sharpness of the domains that do worst."""

import copy
import math

import pytest
import torch
from small import method, trainer
from torch import nn
from torch.autograd import grad

from hypo.algorithms.base import Batch
from hypo.algorithms.risks import batch_risks
from hypo.algorithms.sharpdro import perturbation


class Linear(nn.Module):
    """Images (N, 2) -> one feature w . x."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.7, -0.3], dtype=torch.float64))

    def forward(self, x):
        return x @ self.weight[:, None]


X = torch.tensor([[1.0, 0.5], [-2.0, 1.0], [3.0, -1.0]], dtype=torch.float64)


def by_hand(rho: float, eta: float, lr: float):
    """Logits (w . x, 0) and one sample of class 0 in each domain: a risk is log(1 + exp(-w . x))."""
    algorithm = method("sharpdro", rho=rho, eta=eta)
    algorithm.network = Linear()
    algorithm.classifier = nn.Linear(1, 2, bias=False).double().requires_grad_(False)
    algorithm.classifier.weight.copy_(torch.tensor([[1.0], [0.0]]))
    algorithm.steppers = [torch.optim.SGD(algorithm.network.parameters(), lr)]
    return algorithm.train(), Batch(X, torch.zeros(3, dtype=torch.int64), torch.arange(3))


def risks(w: torch.Tensor) -> torch.Tensor:
    return torch.log1p(torch.exp(-X @ w))


def slopes(w: torch.Tensor) -> torch.Tensor:
    """(E, 2)"""
    return -X / (1 + torch.exp(X @ w))[:, None]


def test_steps_are_those_by_hand():
    rho, eta, lr = 0.3, 0.5, 0.2
    algorithm, batch = by_hand(rho, eta, lr)
    w, q = torch.tensor([0.7, -0.3], dtype=torch.float64), torch.ones(3, dtype=torch.float64) / 3
    for _ in range(3):
        q = q * torch.exp(eta * risks(w))
        q = q / q.sum()
        g = q @ slopes(w)
        perturbed = w + rho * g / math.hypot(*g)
        terms = algorithm.update(batch, 0.0)
        torch.testing.assert_close(terms["sharpness"].detach(), q @ (risks(perturbed) - risks(w)))
        torch.testing.assert_close(terms["total"].detach(), terms["sharpness"].detach() + risks(w).mean())
        w = w - lr * (slopes(w).mean(0) + q @ (slopes(perturbed) - slopes(w)))
        torch.testing.assert_close(algorithm.network.weight.detach(), w)
        torch.testing.assert_close(algorithm.log_q.exp(), q)


def test_the_perturbation_is_the_worst_of_its_length():
    """No other direction of the same length raises the linear part of the weighted risk more."""
    gradients = [torch.randn(3, 4, dtype=torch.float64), None, torch.randn(5, dtype=torch.float64)]
    step = perturbation(gradients, 0.05)
    assert step[1] is None
    flat, slope = (torch.cat([t.flatten() for t in ts if t is not None]) for ts in (step, gradients))
    assert flat.norm().item() == pytest.approx(0.05)
    others = 0.05 * nn.functional.normalize(torch.randn(1000, 17, dtype=torch.float64), dim=1)
    assert (others @ slope).max() < flat @ slope
    assert flat @ slope == pytest.approx(0.05 * slope.norm().item())


def test_no_gradient_gives_no_perturbation():
    assert torch.equal(perturbation([torch.zeros(3)], 0.05)[0], torch.zeros(3))


def test_the_step_is_along_the_gradient_of_the_loss_with_eps_constant():
    """On a network with batch norm, against autograd at both weights; running statistics move once."""
    run = trainer("sharpdro", rho=0.5, eta=1.0, precision="float64")
    algorithm, batch = run.algorithm.train(), run.batch(0)
    other = copy.deepcopy(algorithm)
    algorithm.update(batch, 0.0)
    parameters = list(other.parameters())
    at_theta = batch_risks(other, batch)
    moved_once = copy.deepcopy({name: value for name, value in other.named_buffers() if "running" in name})
    q = torch.softmax(at_theta.detach(), dim=0)
    first = grad(at_theta.mean() - q @ at_theta, parameters, retain_graph=True)
    weighted = grad(q @ at_theta, parameters)
    length = torch.cat([g.flatten() for g in weighted]).norm()
    with torch.no_grad():
        for p, g in zip(parameters, weighted, strict=True):
            p.add_(0.5 * g / length)
    second = grad(q @ batch_risks(other, batch), parameters)
    for p, a, b in zip(algorithm.parameters(), first, second, strict=True):
        torch.testing.assert_close(p.grad, a + b, rtol=1e-8, atol=1e-10)
    for name, value in algorithm.named_buffers():
        if "running" in name:
            torch.testing.assert_close(value, moved_once[name])


def test_dropout_is_the_same_at_both_weights():
    """Without a perturbation to speak of there is no sharpness, and the step is along the mean risk's gradient."""
    algorithm, batch = by_hand(1e-9, 0.5, 0.2)
    algorithm.network = nn.Sequential(Linear(), nn.Dropout(0.5))
    algorithm.steppers = [torch.optim.SGD(algorithm.network.parameters(), 0.2)]
    torch.manual_seed(1)
    (expected,) = grad(batch_risks(algorithm, batch).mean(), algorithm.network.parameters())
    torch.manual_seed(1)
    sharpness = algorithm.update(batch, 0.0)["sharpness"].item()
    assert sharpness == pytest.approx(0, abs=1e-8)
    torch.testing.assert_close(algorithm.network[0].weight.grad, expected, rtol=1e-6, atol=1e-8)


def test_weights_follow_the_worst_domain():
    algorithm, batch = by_hand(0.05, 1.0, 1e-9)
    for _ in range(20):
        algorithm.update(batch, 0.0)
    assert algorithm.log_q.argmax() == risks(algorithm.network.weight.detach()).argmax()
