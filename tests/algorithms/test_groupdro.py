"""GroupDRO: exponentiated gradient on the weights of the domains."""

import io
import math

import pytest
import torch
from small import features, method

from hypo.algorithms.risks import equal_weights, exponentiated_gradient


def cross_entropy(scores: list[float], c: int) -> float:
    return -math.log(math.exp(scores[c]) / sum(math.exp(s) for s in scores))


def test_steps_are_those_of_a_loop_by_hand():
    algorithm, eta = method("groupdro", eta=0.3).train(), 0.3
    q = [1 / 3] * 3
    for step in range(5):
        x, y, domains = features(algorithm, 12, seed=step)
        scores = algorithm.classifier(3 * x).tolist()
        risks = []
        for e in range(3):
            members = [i for i in range(12) if domains[i] == e]
            risks.append(sum(cross_entropy(scores[i], y[i]) for i in members) / len(members))
        q = [q[e] * math.exp(eta * risks[e]) for e in range(3)]
        q = [weight / sum(q) for weight in q]
        terms = algorithm.loss(3 * x, y, domains)
        assert terms["total"].item() == pytest.approx(sum(q[e] * risks[e] for e in range(3)), rel=1e-12)
        assert terms["worst"].item() == pytest.approx(max(risks)) and terms["mean"].item() == pytest.approx(
            sum(risks) / 3
        )
        torch.testing.assert_close(algorithm.log_q.exp(), torch.tensor(q, dtype=torch.float64), rtol=1e-12, atol=0)


def test_the_gradient_is_that_of_weighted_risks_with_constant_weights():
    algorithm = method("groupdro", eta=0.3).train()
    x, y, domains = features(algorithm)
    x.requires_grad_()
    algorithm.loss(x, y, domains)["total"].backward()
    each = torch.nn.functional.cross_entropy(algorithm.classifier(x), y, reduction="none")
    (expected,) = torch.autograd.grad((each * algorithm.log_q.exp()[domains]).sum() / 8, x)
    torch.testing.assert_close(x.grad, expected)


def test_no_weight_moves_in_evaluation_or_without_a_rate():
    for algorithm in (method("groupdro", eta=0.3).eval(), method("groupdro", eta=0.0).train()):
        algorithm.loss(*features(algorithm))
        torch.testing.assert_close(algorithm.log_q.exp(), torch.full((3,), 1 / 3, dtype=torch.float64))


def test_a_weight_comes_back_from_where_float32_is_zero():
    log_q = equal_weights(2)
    for risks in ([400.0, 0.0], [0.0, 400.0]):
        for _ in range(3):
            exponentiated_gradient(log_q, torch.tensor(risks), 1.0)
    torch.testing.assert_close(log_q.exp(), torch.full((2,), 0.5), rtol=1e-3, atol=0)


def test_weights_are_stored_with_the_model():
    algorithm, file = method("groupdro", eta=1.0).train(), io.BytesIO()
    algorithm.loss(*features(algorithm))
    torch.save(algorithm.state_dict(), file)
    file.seek(0)
    again = method("groupdro", eta=1.0)
    again.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(again.log_q, algorithm.log_q)
