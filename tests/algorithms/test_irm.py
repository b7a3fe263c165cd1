"""IRM: the penalty is the squared slope of the risk at the dummy scale, from halves that share no image."""

from itertools import permutations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small import features, method, trainer
from torch import nn

from hypo.algorithms.base import Batch
from hypo.algorithms.irm import squared_slope
from hypo.algorithms.risks import annealed, shortened
from hypo.config import configure


def test_penalty_in_closed_form_on_a_linear_problem():
    """Two classes and logits (0, w x): the slope of sample i is -m_i / (1 + exp(m_i)), with its margin m_i."""
    w, x, y = 1.5, np.array([0.3, -1.2, 2.0, 0.7, -0.4, 1.1]), np.array([1, 0, 1, 0, 0, 1])
    margin = w * x * (2 * y - 1)
    slope = -margin / (1 + np.exp(margin))
    logits = torch.tensor(np.stack([np.zeros(6), w * x], axis=1))
    expected = slope[::2].mean() * slope[1::2].mean()
    assert squared_slope(logits, torch.tensor(y)).item() == pytest.approx(expected, rel=1e-12)


def test_slope_is_the_derivative_at_the_dummy_scale():
    random = torch.Generator().manual_seed(0)
    logits, y = torch.randn(8, 5, generator=random, dtype=torch.float64), torch.arange(8) % 5
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    halves = [F.cross_entropy(scale * logits[i::2], y[i::2]) for i in range(2)]
    first, second = (torch.autograd.grad(risk, scale)[0] for risk in halves)
    torch.testing.assert_close(squared_slope(logits, y), first * second, rtol=1e-12, atol=0)


def test_at_the_best_scale_it_is_zero():
    random = torch.Generator().manual_seed(0)
    logits, y = torch.randn(40, 3, generator=random, dtype=torch.float64), torch.arange(40) % 3
    logits[torch.arange(40), y] += 1
    low, high = 0.1, 10.0
    for _ in range(60):
        scale = torch.tensor((low + high) / 2, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(F.cross_entropy(scale * logits, y), scale)
        low, high = (scale.item(), high) if slope < 0 else (low, scale.item())
    twice = (low * logits).repeat_interleave(2, dim=0), y.repeat_interleave(2)  # the same in both halves
    assert squared_slope(*twice).item() == pytest.approx(0, abs=1e-20)
    assert squared_slope(3 * twice[0], twice[1]) > 1e-3


def test_over_all_halves_it_is_the_mean_product_of_two_samples_without_bias():
    random = torch.Generator().manual_seed(0)
    logits, y = torch.randn(4, 3, generator=random, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    slope = ((logits.softmax(1) * logits).sum(1) - logits[torch.arange(4), y]).numpy()
    orders = [list(order) for order in permutations(range(4))]
    found = np.mean([squared_slope(logits[order], y[order]).item() for order in orders])
    assert found == pytest.approx(np.mean([slope[i] * slope[j] for i in range(4) for j in range(4) if i != j]))
    assert found < slope.mean() ** 2  # which has the noise of the batch added


@pytest.mark.parametrize("images", [2, 3, 4, 5])
def test_views_of_an_image_are_in_one_half(images):
    """Only image k has a slope: were it in both halves, the product would not vanish."""
    for k in range(images):
        logits = torch.zeros(2 * images, 3, dtype=torch.float64)
        logits[[k, images + k], 0] = 2.0
        assert squared_slope(logits, torch.ones(2 * images, dtype=torch.int64), views=2) == 0


def test_one_image_of_a_domain_is_refused():
    with pytest.raises(ValueError, match="raise batch_size"):
        squared_slope(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64), views=2)


def test_loss_is_the_mean_risk_and_the_mean_penalty():
    algorithm = method("irm", penalty=7.0, anneal=0.25)
    algorithm.network = nn.Identity()
    outputs, y, domains = features(algorithm)
    logits = algorithm.logits(outputs)
    risk = sum(F.cross_entropy(logits[e::3], y[e::3]) for e in range(3)) / 3
    penalty = sum(squared_slope(logits[e::3], y[e::3]) for e in range(3)) / 3
    for progress, weight in ((0.0, 1.0), (0.24, 1.0), (0.25, 7.0), (0.9, 7.0)):
        terms = algorithm.losses(Batch(outputs, y, domains), progress)
        torch.testing.assert_close(terms["total"], risk + weight * penalty)
        assert annealed(progress, 7.0, 0.25) == weight


def test_the_gradient_is_divided_by_the_weight_and_no_longer_than_without_the_penalty():
    logits = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    risk, penalty = logits.square().sum(), (logits[0] - 3 * logits[1]).square()
    for penalised, weight, limited in ((100.0, 1.0, True), (100.0, 1e4, False), (0.0, 2.0, False), (-0.01, 1.0, False)):
        loss = risk + penalised * penalty
        expected = torch.autograd.grad(loss, logits, retain_graph=True)[0]
        found = shortened(loss, risk, logits, weight)
        gradient = torch.autograd.grad(found, logits, retain_graph=True)[0]
        assert found.item() == pytest.approx(loss.item(), rel=1e-14)
        length = (2 * logits).norm() if limited else expected.norm() / weight
        torch.testing.assert_close(gradient, expected * (length / expected.norm()))


@pytest.mark.parametrize("algorithm", ["irm", "vrex"])
def test_in_a_short_training_the_penalty_waits_longer(algorithm):
    """500 steps of the public implementations are seven epochs of PACS; a tenth at cpu scale would be half an epoch."""
    shares = {scale: configure("pacs", algorithm, "photo", scale).method.anneal for scale in ("demo", "cpu", "paper")}
    assert shares == {"demo": 0.5, "cpu": 0.5, "paper": 0.1}


def test_from_random_weights_the_penalty_is_weaker_and_vrex_keeps_its_own():
    def weights(algorithm):
        return [configure("pacs", algorithm, "photo", scale).method.penalty for scale in ("demo", "cpu", "paper")]

    assert weights("irm") == [10, 100, 100] and weights("vrex") == [10, 10, 10]


def test_a_flat_loss_has_no_gradient_and_no_nan():
    logits = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    risk = logits.square().sum()
    shortened(risk + 100 * risk, risk, logits, 1.0).backward()
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("algorithm, share", [("irm", "anneal"), ("vrex", "anneal"), ("eqrm", "burn_in")])
def test_momentum_starts_anew_once_and_a_resumed_run_knows(algorithm, share):
    run = trainer(algorithm, **{share: 0.1})
    before = 0
    while (run.step_count + 1) / run.total_steps < 0.1:
        run.step()
        before += 1
    run.step()
    assert before > 0
    again = trainer(algorithm, **{share: 0.1})
    again.load_state_dict(run.state_dict())
    momentum = {p: run.algorithm.steppers[0].state[p]["momentum_buffer"] for p in run.algorithm.parameters()}
    stale = {p: value.clone() for p, value in momentum.items()}
    run.step()
    again.step()
    decay = run.config.weight_decay
    for p, q in zip(run.algorithm.parameters(), again.algorithm.parameters(), strict=True):
        buffer = run.algorithm.steppers[0].state[p]["momentum_buffer"]
        assert torch.equal(buffer, again.algorithm.steppers[0].state[q]["momentum_buffer"])
        if stale[p].abs().max() > 1e-3:
            assert buffer is not momentum[p]  # a new one: the gradient alone
            assert (buffer - p.grad).abs().max() < 1.1 * decay * (p.abs().max() + 1)
    kept = {p: run.algorithm.steppers[0].state[p]["momentum_buffer"] for p in run.algorithm.parameters()}
    run.step()
    assert all(run.algorithm.steppers[0].state[p]["momentum_buffer"] is kept[p] for p in kept)
