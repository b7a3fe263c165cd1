"""Losses and measures at the edges: finite or one sentence, and the same value however the work is cut up."""

import random

import numpy as np
import ot
import pytest
import torch
from conftest import labels, unit
from own_folder import QUICK, folder_of

import hypo
from hypo import HypoLoss, records, separation_loss, sphere, update_prototypes, variation_loss
from hypo.geometry import epsilon_hat, etf_gap, intra_class_variation, neighbours, prototype_separation
from hypo.geometry.neighbours import hard_negatives, mixing, purity

TEMPERATURES = [1e-3, 1e-2, 0.1, 1.0, 10.0]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def clouds(kind: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """z (24, 8), y, domains of a kind that is hard to compute with."""
    z, y, domains = unit(24, 8, dtype=torch.float64), labels(24, 4), labels(24, 2, seed=1)
    if kind == "one sample of each class":
        z, y, domains = z[:4], torch.arange(4), domains[:4]
    if kind == "duplicates":
        z = z[:1].expand(24, -1).clone()
    if kind == "opposites":
        z[1::2] = -z[::2]
    return z.to(dtype), y, domains


@pytest.mark.parametrize("kind", ["random", "one sample of each class", "duplicates", "opposites"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("prototypes", ["ema", "learnable"])
def test_losses_and_gradients_are_finite(kind, dtype, prototypes):
    z, y, domains = clouds(kind, dtype)
    z.requires_grad_()
    for tau in TEMPERATURES:
        for hard in (None, domains):
            criterion = HypoLoss(4, 8, temperature=tau, prototypes=prototypes)
            criterion = criterion.double() if dtype == torch.float64 else criterion
            terms = criterion(z, y, hard)
            assert all(term.isfinite() for term in terms), (tau, terms)
            (gradient,) = torch.autograd.grad(terms.total, z)
            assert gradient.isfinite().all(), tau


def many(n: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return unit(n, 8).to(dtype), labels(n, 4), labels(n, 2, seed=1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_functions_compute_half_precision_in_float32(dtype):
    mu, same = unit(4, 8, seed=3).to(dtype), unit(1, 8).expand(1000, -1).to(dtype)
    z, y, domains = many(200, dtype)
    crowd, classes, _ = many(100_000, dtype)
    calls = [
        (variation_loss, z, y, mu, 1e-3, domains),
        (variation_loss, crowd, classes, mu, 0.1),
        (separation_loss, same, 1e-3),
        (prototype_separation, same),
        (etf_gap, same),
        (epsilon_hat, z, y, mu),
        (update_prototypes, mu, -mu, torch.arange(4), 0.5),
        (hypo.class_means, z, y, 4),
    ]
    for function, *given in calls:
        found = function(*given)
        full = (x.float() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in given)
        assert found.dtype == torch.float32 and found.isfinite().all(), function.__name__
        assert found.equal(function.__wrapped__(*full)), function.__name__


def test_prototypes_in_float32_go_with_embeddings_in_half_precision():
    z, y, domains = many(24, torch.float16)
    mu = update_prototypes(unit(4, 8, seed=3).half(), z, y, 0.95)
    assert variation_loss(z, y, update_prototypes(mu, z, y, 0.95), 0.1, domains).isfinite()


@pytest.mark.parametrize("kind", ["random", "duplicates", "opposites"])
@pytest.mark.parametrize("regularisation", [1e-3, 0.05, 1.0])
@pytest.mark.filterwarnings("ignore:.*divergences missed the tolerance:RuntimeWarning")
def test_measures_are_finite_and_sinkhorn_reports_its_error(kind, regularisation):
    z, y, domains = clouds(kind, torch.float64)
    found = intra_class_variation(z, y, domains, regularisation)
    assert np.isfinite(found[["sinkhorn", "marginal_error"]].to_numpy()).all() and (found["sinkhorn"] >= 0).all()
    if kind == "random" and regularisation == 1e-3:  # as good as unregularised
        for row in found.itertuples():
            a, b = (z[(y == row[1]) & (domains == e)].numpy() for e in (row.domain_a, row.domain_b))
            exact = ot.emd2([], [], ot.dist(a, b))
            assert row.sinkhorn == pytest.approx(exact, abs=0.02)
    mu = unit(4, 8, seed=3)
    assert epsilon_hat(z, y, mu).isfinite() and etf_gap(mu).isfinite()


@pytest.mark.parametrize("rows", [1, 7, 24])
def test_hard_negatives_in_blocks_have_the_same_value_and_gradient(monkeypatch, rows):
    z, y, domains = clouds("random", torch.float64)
    z.requires_grad_()
    mu = unit(4, 8, seed=3).requires_grad_()
    whole = variation_loss(z, y, mu, 0.1, domains)
    expected = torch.autograd.grad(whole, [z, mu])
    monkeypatch.setattr(sphere, "BLOCK", rows * len(z))
    parts = variation_loss(z, y, mu, 0.1, domains)
    torch.testing.assert_close(parts, whole)
    for ours, theirs in zip(torch.autograd.grad(parts, [z, mu]), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_neighbours_in_blocks_are_the_same(monkeypatch):
    z, y, domains = unit(200, 5).numpy(), labels(200, 3).numpy(), labels(200, 2, seed=1).numpy()
    whole = purity(z, y), mixing(z, y, domains), hard_negatives(z, y, domains)
    monkeypatch.setattr(neighbours, "BLOCK", 7 * 200)
    assert (purity(z, y), mixing(z, y, domains)) == pytest.approx(whole[:2])
    parts = hard_negatives(z, y, domains)
    assert (parts[["same", "other"]] == whole[2][["same", "other"]]).all(axis=None)
    np.testing.assert_allclose(parts, whole[2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_neighbours_in_half_precision_are_those_of_the_rounded_points(dtype):
    z, y, domains = unit(200, 5).to(dtype), labels(200, 3), labels(200, 2, seed=1)
    rounded = z.float().numpy(), y.numpy(), domains.numpy()
    assert purity(z, y) == purity(*rounded[:2]) and mixing(z, y, domains) == mixing(*rounded)
    assert neighbours.silhouette(z, y) == neighbours.silhouette(*rounded[:2])
    assert hard_negatives(z, y, domains).equals(hard_negatives(*rounded))
    assert purity(z.float().numpy().astype(np.float16), y) == pytest.approx(purity(*rounded[:2]), abs=0.02)


def test_neighbours_that_are_not_there_are_one_sentence():
    z, y = unit(5, 3).numpy(), np.zeros(5, int)
    with pytest.raises(ValueError, match="k must be at least 1 and below the number of samples, 5, not 10"):
        purity(z, y)
    with pytest.raises(ValueError, match="no negatives: all samples are of one class"):
        hard_negatives(z, y, y)


def test_ten_thousand_classes():
    mu, z, y = unit(10_000, 16, dtype=torch.float32), unit(64, 16, seed=1, dtype=torch.float32), labels(64, 10_000)
    assert variation_loss(z, y, mu, 0.1).isfinite() and update_prototypes(mu, z, y, 0.95).isfinite().all()
    assert separation_loss(mu, 0.1).isfinite()


def test_a_reproduction_made_twice_gives_the_same_records_but_for_times(tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "mine")
    monkeypatch.setenv("HYPO_DATA", str(tmp_path / "data"))
    made = []
    for place in ("first", "second"):
        monkeypatch.setenv("HYPO_RECORDS", str(tmp_path / place))
        monkeypatch.setenv("HYPO_RUNS", str(tmp_path / place / "runs"))
        random.seed(place)
        torch.manual_seed(len(made))
        for algorithm in ("erm", "hypo"):
            hypo.run(folder, algorithm, "street", **QUICK)
            hypo.run("digits", algorithm, "cartoon", scale="demo", epochs=1)
        made.append({path.name: record for path, record in records.read_all(tmp_path / place)})
    for record in (record for each in made for record in each.values()):
        del record["cost"], record["digest"]
    assert made[0] == made[1] and len(made[0]) == 4
