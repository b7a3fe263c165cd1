import copy

import oracles
import pytest
import torch
import torch.nn.functional as F
from conftest import labels, on_circle, unit

from hypo import HypoLoss, class_means


def started(classes: int = 4, dim: int = 6, **options) -> HypoLoss:
    criterion = HypoLoss(classes, dim, **options).double()
    criterion.reset_prototypes(unit(classes, dim, seed=9))
    return criterion


def test_a_call_is_one_iteration_of_algorithm_1(device):
    z, y, domains = unit(20, 6), labels(20, 4), labels(20, 3, seed=5)
    criterion = started(temperature=0.2, momentum=0.8, weight=2.0).to(device)
    terms = criterion(z.to(device), y.to(device), domains.to(device))
    mu = oracles.algorithm_1(unit(4, 6, seed=9), z, y, 0.8)
    torch.testing.assert_close(criterion.prototypes.cpu(), mu)
    assert terms.variation.item() == pytest.approx(oracles.variation(z, y, mu, 0.2, domains))
    assert terms.separation.item() == pytest.approx(oracles.separation(mu, 0.2))
    assert terms.total.item() == pytest.approx(2 * terms.variation.item() + terms.separation.item())


def test_separation_trains_the_network_and_variation_sees_the_prototypes_as_constants():
    network = torch.nn.Linear(5, 6).double()
    x, y = torch.randn(12, 5, dtype=torch.float64), labels(12, 4)
    criterion = started(momentum=0.8)
    before = criterion.prototypes.clone()

    z = F.normalize(network(x), dim=1)
    terms = criterion(z, y)
    separation = torch.autograd.grad(terms.separation, network.weight, retain_graph=True)[0]
    variation = torch.autograd.grad(terms.variation, network.weight)[0]

    z = F.normalize(network(x), dim=1)
    mu = oracles.algorithm_1(before, z, y, 0.8)
    gram = (mu @ mu.T / 0.1).masked_fill(torch.eye(4, dtype=torch.bool), -torch.inf)
    expected = torch.autograd.grad(gram.logsumexp(1).mean(), network.weight, retain_graph=True)[0]
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(separation, expected)

    constant = torch.autograd.grad(F.cross_entropy(z @ mu.detach().T / 0.1, y), network.weight, retain_graph=True)[0]
    through = torch.autograd.grad(F.cross_entropy(z @ mu.T / 0.1, y), network.weight)[0]
    torch.testing.assert_close(variation, constant)
    assert not torch.allclose(variation, through)


def test_separation_alone_spreads_the_prototypes_of_a_network():
    torch.manual_seed(0)
    images, y = torch.randn(32, 10), labels(32, 4)
    network = torch.nn.Linear(10, 8)
    criterion = HypoLoss(4, 8, weight=0.0, momentum=0.5)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.5)
    history = []
    for _ in range(60):
        optimiser.zero_grad()
        terms = criterion(F.normalize(network(images), dim=1), y)
        terms.total.backward()
        optimiser.step()
        history.append(terms.separation.item())
    assert history[-1] < history[0] - 1


def test_each_class_starts_at_its_mean_in_the_first_batch_that_has_it():
    criterion = HypoLoss(3, 2, momentum=0.9).double()
    z, y = on_circle(10, 50, 200), torch.tensor([0, 0, 1])
    criterion(z, y)
    expected = oracles.algorithm_1(on_circle(30, 200), z, y, 0.9)
    torch.testing.assert_close(criterion.prototypes[:2], expected)
    assert criterion.started.tolist() == [True, True, False]
    criterion(on_circle(300, 20), torch.tensor([2, 0]))
    torch.testing.assert_close(criterion.prototypes[2], on_circle(300)[0])
    torch.testing.assert_close(
        criterion.prototypes[0], oracles.algorithm_1(expected[:1], on_circle(20), torch.tensor([0]), 0.9)[0]
    )


def test_starting_from_training_features():
    z, y = unit(40, 6), labels(40, 4)
    criterion = HypoLoss(4, 6).double()
    criterion.reset_prototypes(class_means(z, y, 4))
    torch.testing.assert_close(criterion.prototypes, class_means(z, y, 4))
    criterion(z, y)
    torch.testing.assert_close(criterion.prototypes, oracles.algorithm_1(class_means(z, y, 4), z, y, 0.95))


@pytest.mark.parametrize("kind", ["ema", "learnable"])
def test_state_dict_carries_the_prototypes(kind):
    first, second = started(prototypes=kind), HypoLoss(4, 6, prototypes=kind).double()
    first(unit(10, 6), labels(10, 4))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.prototypes, second.prototypes)
    z, y = unit(10, 6, seed=3), labels(10, 4, seed=3)
    assert torch.equal(first(z, y).total, second(z, y).total)
    assert torch.equal(copy.deepcopy(first).prototypes, first.prototypes)


def test_ema_prototypes_are_a_buffer_and_learnable_ones_a_parameter_on_the_sphere():
    assert "prototypes" in dict(started().named_buffers()) and not list(started().parameters())
    criterion = started(prototypes="learnable")
    optimiser = torch.optim.SGD(criterion.parameters(), lr=5.0)
    z, y = unit(20, 6).requires_grad_(), labels(20, 4)
    for term in ("variation", "separation"):
        before = criterion.prototypes.detach().clone()
        optimiser.zero_grad()
        getattr(criterion(z, y), term).backward()
        optimiser.step()
        assert not torch.allclose(criterion.prototypes, before)
        torch.testing.assert_close(criterion.prototypes.norm(dim=1), torch.ones(4, dtype=torch.float64))


def test_evaluation_mode_leaves_the_prototypes():
    criterion = started().eval()
    before = criterion.prototypes.clone()
    terms = criterion(unit(10, 6), labels(10, 4))
    assert torch.equal(criterion.prototypes, before)
    assert terms.separation.item() == pytest.approx(oracles.separation(before, 0.1))


def test_two_calls_before_one_backward():
    criterion, z, y = started(), unit(10, 6).requires_grad_(), labels(10, 4)
    both = torch.autograd.grad(criterion(z, y).total + criterion(z, y).total, z)[0]
    criterion = started()
    one, two = (torch.autograd.grad(criterion(z, y).total, z)[0] for _ in range(2))
    torch.testing.assert_close(both, one + two)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_embeddings_are_lifted(dtype):
    z, y = unit(10, 6), labels(10, 4)
    criterion = HypoLoss(4, 6)
    criterion.reset_prototypes(unit(4, 6, seed=9).float())
    terms = criterion(z.to(dtype), y)
    assert terms.total.dtype == torch.float32
    assert terms.total.item() == pytest.approx(started()(z, y).total.item(), abs=0.05)


def test_predict_is_the_nearest_prototype():
    criterion = HypoLoss(3, 2)
    criterion.reset_prototypes(on_circle(0, 120, 240).float())
    assert criterion.predict(on_circle(50, 70, 170, 190, 350)).tolist() == [0, 1, 1, 2, 0]


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: HypoLoss(1, 8), "at least 2 classes"),
        (lambda: HypoLoss(3, 1), "dim must be at least 2"),
        (lambda: HypoLoss(3, 8, temperature=0), "temperature must be above 0"),
        (lambda: HypoLoss(3, 8, momentum=1), r"momentum must be in \[0, 1\)"),
        (lambda: HypoLoss(3, 8, weight=-1), "lambda"),
        (lambda: HypoLoss(3, 8, prototypes="learnble"), "did you mean learnable"),
        (lambda: started().reset_prototypes(unit(3, 6)), r"prototypes must be \(4, 6\)"),
        (lambda: started().reset_prototypes(torch.ones(4, 6)), "on the unit sphere"),
        (lambda: started()(3 * unit(10, 6), labels(10, 4)), "z must lie on the unit sphere"),
        (lambda: started()(unit(10, 6), labels(10, 4) + 3), "labels must be 0..3"),
    ],
)
def test_bad_input_gets_one_sentence(call, says):
    with pytest.raises(ValueError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_refused_input_leaves_the_prototypes():
    criterion = started()
    before = criterion.prototypes.clone()
    with pytest.raises(ValueError, match="labels"):
        criterion(unit(10, 6), labels(10, 4) + 3)
    assert torch.equal(criterion.prototypes, before)
