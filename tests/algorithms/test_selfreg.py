"""SelfReg: pairs are of one class and never a sample with itself; the projection learns."""

import numpy as np
import pytest
import torch
from small import features, method, trainer

from hypo.algorithms.selfreg import others


def test_others_are_of_the_class_and_each_sample_is_one_once():
    y = torch.tensor([0, 2, 0, 2, 2, 0, 4, 0, 2, 0])
    found = set()
    for seed in range(30):
        place = others(y, torch.Generator().manual_seed(seed))
        assert torch.equal(y[place], y) and sorted(place.tolist()) == list(range(len(y)))
        assert [i for i, j in enumerate(place.tolist()) if i == j] == [6]  # alone in its class
        found |= {(i, j) for i, j in enumerate(place.tolist()) if y[i] == 0}
    assert len(found) == 5 * 4  # every pair comes up


@pytest.mark.parametrize("sharpness", [1.0, 30.0])
def test_loss_is_its_formula(sharpness):
    """With a cross-entropy below 1 (sharp logits) and above it."""
    algorithm = method("selfreg", feature_weight=0.3)
    outputs, y, _ = features(algorithm, n=10)
    with torch.no_grad():
        algorithm.classifier.weight.mul_(sharpness)
        if sharpness > 1:
            y = algorithm.predict(outputs)
    a, b = (others(y, torch.Generator().manual_seed(seed)) for seed in (1, 2))
    share = 0.3
    terms = algorithm.terms(outputs, y, a, b, share)
    f, z, p = (x.detach().numpy() for x in (outputs, algorithm.classifier(outputs), algorithm.project(outputs)))
    entropy = np.mean([np.log(np.exp(z[i]).sum()) - z[i][y[i]] for i in range(10)])
    single = mixed = 0.0
    for i in range(10):
        single += np.mean((z[i] - z[a[i]]) ** 2) / 10 + 0.3 * np.mean((f[i] - p[a[i]]) ** 2) / 10
        z_mixed, p_mixed = share * z[a[i]] + (1 - share) * z[b[i]], share * p[a[i]] + (1 - share) * p[b[i]]
        mixed += np.mean((z[i] - z_mixed) ** 2) / 10 + 0.3 * np.mean((f[i] - p_mixed) ** 2) / 10
    expected = entropy + min(1, entropy) * (share * single + (1 - share) * mixed)
    assert (entropy < 1) == (sharpness > 1)
    assert terms["single"].item() == pytest.approx(single, rel=1e-10)
    assert terms["mixed"].item() == pytest.approx(mixed, rel=1e-10)
    assert terms["total"].item() == pytest.approx(expected, rel=1e-10)


def test_the_factor_on_the_distances_is_a_constant_of_the_gradient():
    """With a cross-entropy below 1, where min(1, l) is l."""
    algorithm = method("selfreg")
    outputs, _, _ = features(algorithm, n=10)
    with torch.no_grad():
        algorithm.classifier.weight.mul_(30)
    y, outputs = algorithm.predict(outputs), outputs.requires_grad_()
    a, b = (others(y, torch.Generator().manual_seed(seed)) for seed in (1, 2))
    terms = algorithm.terms(outputs, y, a, b, 0.3)
    factor = terms["entropy"].item()
    assert factor < 1
    expected = terms["entropy"] + factor * (0.3 * terms["single"] + 0.7 * terms["mixed"])
    for learnt in (outputs, algorithm.classifier.weight):
        gradients = [torch.autograd.grad(total, learnt, retain_graph=True)[0] for total in (terms["total"], expected)]
        torch.testing.assert_close(*gradients)


def test_equal_logits_and_projections_of_a_class_cost_nothing():
    algorithm = method("selfreg")
    algorithm.project = torch.nn.Identity()
    y = torch.arange(10) % 5
    outputs = features(algorithm, n=5)[0][y]
    terms = algorithm.terms(outputs, y, *(others(y, torch.Generator().manual_seed(seed)) for seed in (1, 2)), 0.4)
    assert terms["single"] == 0 and terms["mixed"].item() == pytest.approx(0, abs=1e-25)


def test_projection_learns():
    run = trainer("selfreg")
    before = [p.clone() for p in run.algorithm.project.parameters()]
    run.step()
    run.step()
    after = list(run.algorithm.project.parameters())
    assert all(not torch.equal(p, q) for p, q in zip(before[::4], after[::4], strict=True))


def test_a_step_repeats_with_the_seed_of_torch():
    run = trainer("selfreg")
    batch, totals = run.batch(0), []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        totals.append(run.algorithm.losses(batch, 0.0)["total"].item())
    assert totals[0] == totals[1] != totals[2]
