"""The heap: what the losses are there, that no gradient leads out, and how a training gets near it."""

import math

import pytest
import torch
from conftest import labels, unit

from hypo import separation_loss, update_prototypes, variation_loss
from hypo.config import configure
from hypo.geometry.heap import by_spread, pushes, unrelated
from hypo.sphere import to_sphere
from hypo.training.trace import first_steps


@pytest.mark.parametrize("temperature", [0.05, 0.1, 1.0])
def test_losses_of_the_heap(temperature):
    heap = by_spread([1.0], temperature, draws=1).iloc[0]
    assert heap["variation"] == pytest.approx(math.log(10)) == heap["fresh"]
    assert heap["separation"] == pytest.approx(1 / temperature)
    point, y, domains = unit(1, 16).expand(30, -1), labels(30, 5), labels(30, 3, seed=1)
    hard = ((y[:, None] != y) & (domains[:, None] == domains)).sum(dim=1)
    found = variation_loss(point, y, point[:5], temperature, domains).item()
    assert found == pytest.approx((5 + hard).double().log().mean().item())


@pytest.mark.parametrize("domains", [None, labels(64, 3, seed=2)])
def test_no_gradient_along_the_sphere_leads_out_of_the_heap(domains):
    for push in pushes(*unrelated(1.0)[:3], 0.1, domains=domains).values():
        assert push.length < 1e-9


def test_near_the_heap_gradients_are_in_proportion_to_the_distance_and_to_one_over_tau():
    near, nearer = by_spread([0.99, 0.9999], 0.1)[["variation_push", "separation_push"]].to_numpy()
    assert near / nearer == pytest.approx(10, rel=0.1)
    warm = by_spread([0.99], 1.0)[["variation_push", "separation_push"]].to_numpy()[0]
    assert near / warm == pytest.approx(10, rel=0.05)


def test_the_heap_has_the_highest_total_of_embeddings_that_know_no_class():
    for temperature in (0.1, 1.0):
        states = by_spread([1.0, 0.9, 0.5, 0.1], temperature, batches=15, draws=4)
        assert states["total"].is_monotonic_decreasing
        assert (states["fresh"] >= math.log(10) - 0.01).all()
        assert (states["variation"].iloc[1:] < math.log(10)).all()


def test_to_second_order_only_what_differs_by_class_changes_the_variation_loss():
    classes, each, dim, tau, size = 5, 8, 12, 0.1, 1e-3
    y = torch.arange(classes * each) % classes
    centre = torch.eye(dim, dtype=torch.float64)[0]
    delta, m = (size * unit(n, dim, seed=n) for n in (classes * each, classes))
    delta[:, 0] = m[:, 0] = 0  # along the sphere
    loss = variation_loss(to_sphere(centre + delta), y, to_sphere(centre + m), tau)
    expected = -((delta * (m[y] - m.mean(0))).sum(1)).mean() / tau
    assert (loss - math.log(classes)).item() == pytest.approx(expected.item(), rel=0.02)


def test_the_separation_loss_pushes_together_and_the_variation_loss_does_not():
    found = by_spread([0.5, 0.2], 0.1)
    assert (found["separation_together"] > 5 * found["variation_together"]).all()
    assert found["separation_together"].is_monotonic_increasing


def test_a_push_is_the_gradient_along_the_sphere():
    given = unrelated(0.5)
    z = given.z.clone().requires_grad_()
    loss = separation_loss(update_prototypes(given.before, z, given.y, 0.95), 0.1)
    turned = torch.autograd.grad(loss, z)[0]
    radial = (turned * given.z).sum(1, keepdim=True) * given.z
    along = len(z) * (turned - radial).norm(dim=1)
    found = pushes(given.z, given.y, given.before, 0.1)["separation"]
    assert found.length == pytest.approx(along.square().mean().sqrt().item())
    assert 0 < found.together < 1


def test_the_gradient_before_normalising_is_at_right_angles_and_falls_with_the_length():
    h, mu, y = unit(6, 8).requires_grad_(), unit(3, 8, seed=1), labels(6, 3)
    short = torch.autograd.grad(variation_loss(to_sphere(h), y, mu, 0.1), h)[0]
    long = torch.autograd.grad(variation_loss(to_sphere(5 * h), y, mu, 0.1), h)[0] / 5  # by the chain rule, at 5 h
    assert (short * h).sum(1).abs().max() < 1e-12
    assert torch.allclose(long, short / 5)


def test_unrelated_embeddings_meet_at_the_cosine_asked_for():
    for cosine in (1.0, 0.9, 0.3):
        z = unrelated(cosine, dim=512, batch=200).z
        assert ((z @ z.T).sum() - 200).item() / (200 * 199) == pytest.approx(cosine, abs=0.02)
    with pytest.raises(ValueError, match="1 is the heap"):
        unrelated(0.0)


def test_first_steps_are_watched_one_by_one():
    config = configure("digits", "hypo", "cartoon", "demo", 0, batch_size=16, dim=8, hard_negatives=False)
    found = first_steps(config, 3)
    assert found["temperature"].iloc[0] == pytest.approx(1) and found["temperature"].is_monotonic_decreasing
    assert found["facing"].isna().tolist() == [True, False, False]
    assert found[["embeddings", "prototypes"]].abs().max(axis=None) <= 1
    assert (found[["norm", "gradient"]] > 0).all(axis=None)


def test_a_larger_lambda_lengthens_the_steps():
    """With lambda = 4 at constant tau the head's output grows long, and not where the rate makes up for it."""

    def length(**settings):
        config = configure("digits", "hypo", "cartoon", "demo", 0, start_temperature=None, **settings)
        return first_steps(config, 20)["norm"].iloc[-1]

    usual = configure("digits", "hypo", "cartoon", "demo").lr
    assert min(length(weight=4.0), length(lr=4 * usual)) > 10 * length(weight=4.0, lr=usual / 4)
