"""MLDG: a step along (grad F(theta) + beta grad G(theta - alpha grad F(theta))) / (1 + beta)."""

import copy

import pytest
import torch
import torch.nn.functional as F
from small import method, trainer
from torch import nn

from hypo.algorithms.base import Batch
from hypo.algorithms.mldg import moved


class Line(nn.Module):
    """Images (N, 1) -> features (N, 1), times one weight."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight, dtype=torch.float64))

    def forward(self, x):
        return self.weight * x


def by_hand(beta: float, inner_rate: float, lr: float):
    """A network of one weight w with fixed logits (w x, 0), and one sample of class 0 in each of three domains: the
    risk of a domain is log(1 + exp(-w x)), its slope -x / (1 + exp(w x))."""
    algorithm = method("mldg", beta=beta, inner_rate=inner_rate, sgd_momentum=0.0, weight_decay=0.0)
    algorithm.network = Line(0.7)
    algorithm.classifier = nn.Linear(1, 2, bias=False).double().requires_grad_(False)
    algorithm.classifier.weight.copy_(torch.tensor([[1.0], [0.0]]))
    algorithm.steppers = [torch.optim.SGD(algorithm.network.parameters(), lr)]
    x = torch.tensor([[1.0], [-2.0], [3.0]], dtype=torch.float64)
    return algorithm.train(), Batch(x, torch.zeros(3, dtype=torch.int64), torch.arange(3))


@pytest.mark.parametrize("beta, inner_rate", [(1.0, 1.0), (0.5, 2.0), (0.0, 1.0), (1.0, 0.0)])
def test_two_steps_are_those_by_hand(beta, inner_rate):
    lr, x = 0.4, (1.0, -2.0, 3.0)
    algorithm, batch = by_hand(beta, inner_rate, lr)
    w = torch.tensor(0.7, dtype=torch.float64)

    def slope(w, e):
        return -x[e] / (1 + torch.exp(w * x[e]))

    for step in range(2):
        torch.manual_seed(step)
        left_out = int(torch.randint(3, ()))
        a, b = (e for e in range(3) if e != left_out)
        torch.manual_seed(step)
        terms = algorithm.update(batch, 0.0)
        first = (slope(w, a) + slope(w, b)) / 2
        inner = w - inner_rate * lr * first
        assert terms["outer"].item() == pytest.approx(torch.log1p(torch.exp(-inner * x[left_out])).item())
        w = w - lr * (first + beta * slope(inner, left_out)) / (1 + beta)
        torch.testing.assert_close(algorithm.network.weight.detach(), w)


def test_every_domain_is_left_out_at_times():
    algorithm, batch = by_hand(1.0, 0.0, 1e-9)
    torch.manual_seed(0)
    outer = {round(algorithm.update(batch, 0.0)["outer"].item(), 4) for _ in range(30)}
    assert len(outer) == 3


def test_inner_step_of_no_length_is_the_step_of_a_weighted_risk():
    """With batch norm, momentum and weight decay: a quarter for each inner domain, a half for the other."""
    run = trainer("mldg", inner_rate=0.0, precision="float64")
    algorithm, batch = run.algorithm.train(), run.batch(0)
    other = copy.deepcopy(algorithm)
    other.steppers = other.optimisers()
    torch.manual_seed(5)
    left_out = int(torch.randint(3, ()))
    torch.manual_seed(5)
    algorithm.update(batch, 0.0)
    each = F.cross_entropy(other.logits(other.network(batch.images)), batch.y, reduction="none")
    weights = torch.where(batch.domains == left_out, 0.5, 0.25) / (len(each) / 3)
    other.descend((weights * each).sum())
    for (name, found), expected in zip(algorithm.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(found, expected, msg=name)  # running statistics too: they moved once


def test_moved_weights_and_statistics_come_back():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    before = copy.deepcopy(module.state_dict())
    with moved(module, [torch.full_like(p, 0.1) for p in module.parameters()]):
        torch.testing.assert_close(module[0].weight.detach(), before["0.weight"] + 0.1)
        module(torch.randn(4, 1, 5, 5))
        assert module[1].num_batches_tracked == 1
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


@pytest.mark.parametrize("name", ["mldg", "sharpdro"])
def test_running_statistics_move_once_in_a_step_with_accumulated_parts_too(name):
    found, expected = (trainer(each, accumulate=2, precision="float64") for each in (name, "groupdro"))
    for run in (found, expected):
        run.step()
    expected = dict(expected.algorithm.network.named_buffers())
    for name, value in found.algorithm.network.named_buffers():
        torch.testing.assert_close(value, expected[name], msg=name)
