"""Every method trains, predicts, embeds and is stored; each loss is that of its formula; a new method is one file."""

import io
import math

import numpy as np
import pytest
import torch
from conftest import labels, unit
from helpers import same, small_digits
from torch import Tensor

import hypo
from hypo.algorithms import ALGORITHMS, base, build, pcl
from hypo.config import Config, configure
from hypo.data.splits import split
from hypo.loss import HypoLoss
from hypo.training import engine
from hypo.training.trainer import Trainer

VARIANTS = {
    "erm": {"algorithm": "erm"},
    "hypo": {"algorithm": "hypo"},
    "hypo, learnable prototypes": {"algorithm": "hypo", "prototypes": "learnable"},
    "hypo, no separation": {"algorithm": "hypo", "separation": False},
    "hypo, no hard negatives": {"algorithm": "hypo", "hard_negatives": False},
    "hypo, neither": {"algorithm": "hypo", "separation": False, "hard_negatives": False},
    "pcl": {"algorithm": "pcl"},
}
STEPS = 24


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def config(**fields) -> Config:
    tiny = {"width": 0.125, "dim": 8, "size": 16, "batch_size": 54, "epochs": STEPS, "lr": 0.005, "head_lr": 2.0}
    return configure("digits", **{"held_out": "cartoon", "weight": 2.0} | tiny | fields)


def small_trainer(**fields) -> Trainer:
    images = small_digits()
    return Trainer(config(**fields), images, split(images, "cartoon"), torch.device("cpu"))


@pytest.fixture(scope="module", params=VARIANTS)
def trained(request: pytest.FixtureRequest) -> tuple[Trainer, list[float]]:
    """A method after a few steps on real digits, and its loss at each."""
    trainer = small_trainer(**VARIANTS[request.param])
    return trainer, [trainer.step()["total"] for _ in range(STEPS)]


def outputs(algorithm: base.Algorithm, n: int = 40) -> tuple[Tensor, Tensor]:
    """Outputs of every other small digit, and classes."""
    images = small_digits()
    algorithm.eval()
    with torch.no_grad():
        pixels = torch.from_numpy(images.images[: 2 * n : 2]).permute(0, 3, 1, 2) / 255
        return algorithm.network(pixels), torch.from_numpy(images.labels[: 2 * n : 2])


def test_loss_falls(trained):
    _, losses = trained
    assert np.mean(losses[-4:]) < np.mean(losses[:4]) - 0.3


def test_state_comes_back_whole(trained):
    algorithm = trained[0].algorithm
    file = io.BytesIO()
    torch.save(algorithm.state_dict(), file)
    file.seek(0)
    torch.manual_seed(7)
    again = build(algorithm.config, 5)
    assert not same(outputs(again)[0], outputs(algorithm)[0])
    again.load_state_dict(torch.load(file, weights_only=True))
    x, _ = outputs(again)
    assert same(x, outputs(algorithm)[0])
    for function in ("logits", "predict", "embed"):
        assert torch.equal(getattr(again, function)(x), getattr(algorithm, function)(x))


def test_predictions_are_classes_and_embeddings_are_unit_vectors(trained):
    algorithm = trained[0].algorithm
    x, y = outputs(algorithm)
    predicted, z = algorithm.predict(x), algorithm.embed(x)
    assert predicted.dtype == torch.int64 and predicted.shape == y.shape
    assert algorithm.logits(x).shape == (len(y), 5) and torch.equal(predicted, algorithm.logits(x).argmax(1))
    torch.testing.assert_close(z.norm(dim=1), torch.ones(len(y)))
    prototypes = algorithm.prototypes()
    if algorithm.config.algorithm == "hypo":
        torch.testing.assert_close(prototypes.norm(dim=1), torch.ones(5))
        assert not prototypes.requires_grad and prototypes.shape[1] == z.shape[1]
        assert torch.equal(predicted, algorithm.criterion.predict(x))
    else:
        assert prototypes is None


def test_refit_recomputes_moving_average_prototypes_and_nothing_else(trained):
    algorithm = trained[0].algorithm
    before = {name: value.clone() for name, value in algorithm.state_dict().items()}
    x, y = outputs(algorithm, 60)
    algorithm.refit(x, y)
    after = {name: value.clone() for name, value in algorithm.state_dict().items()}
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    algorithm.load_state_dict(before)
    if algorithm.config.algorithm == "hypo" and algorithm.config.prototypes == "ema":
        assert changed == {"criterion.prototypes"}
        for c in range(5):
            mean = sum(x[i] for i in range(len(y)) if y[i] == c)
            torch.testing.assert_close(after["criterion.prototypes"][c], mean / mean.norm())
    else:
        assert not changed


def test_layers_that_start_from_random_weights_learn_head_lr_times_as_fast(trained):
    trainer, _ = trained
    algorithm = trainer.algorithm
    rate = {p: group["lr"] for group in trainer.optimiser.param_groups for p in group["params"]}
    base_rate = trainer.learning_rate(STEPS - 1)
    backbone = algorithm.network.backbone if algorithm.config.algorithm == "hypo" else algorithm.network
    slow = set(backbone.parameters())
    assert {p: base_rate * (1 if p in slow else 2.0) for p in algorithm.parameters()} == rate
    fresh = {p for module in algorithm.fresh() for p in module.parameters()}
    assert fresh == set(algorithm.parameters()) - slow != set()


def test_erm_is_cross_entropy():
    algorithm = build(config(algorithm="erm"), 5).double()
    x, y = torch.randn(9, 64, dtype=torch.float64), labels(9, 5)
    scores = algorithm.classifier(x).tolist()
    expected = 0.0
    for i, c in enumerate(y.tolist()):
        expected -= math.log(math.exp(scores[i][c]) / sum(math.exp(s) for s in scores[i])) / len(y)
    assert algorithm.loss(x, y, y)["total"].item() == pytest.approx(expected, rel=1e-12)


def test_pcl_is_its_formula():
    algorithm = build(config(algorithm="pcl"), 5).double()
    x, y = torch.randn(13, 64, dtype=torch.float64), labels(13, 5)
    terms = algorithm.loss(x, y, torch.zeros_like(y))
    v, w, s = algorithm.project(x), algorithm.project_proxies(algorithm.classifier.weight), pcl.SCALE
    v, w = ([row / row.norm() for row in rows] for rows in (v, w))
    expected = 0.0
    for i in range(len(y)):
        denominator = sum(torch.exp(s * v[i] @ proxy) for proxy in w)
        for j in range(len(y)):
            if y[j] != y[i]:
                denominator = denominator + torch.exp(s * v[i] @ v[j])
        expected -= torch.log(torch.exp(s * v[i] @ w[y[i]]) / denominator) / len(y)
    torch.testing.assert_close(terms["contrastive"], expected, rtol=1e-10, atol=0)
    torch.testing.assert_close(terms["entropy"], torch.nn.functional.cross_entropy(algorithm.logits(x), y))
    torch.testing.assert_close(terms["total"], terms["entropy"] + pcl.WEIGHT * terms["contrastive"])


@pytest.mark.parametrize("prototypes", ["ema", "learnable"])
def test_without_separation_only_the_variation_trains(prototypes):
    def gradients(separation: bool, total=None) -> tuple[list[Tensor], Tensor]:
        """At the embeddings, then at prototypes that are learnt; and the prototypes after the call."""
        algorithm = build(config(algorithm="hypo", prototypes=prototypes, separation=separation), 5).double()
        z = unit(20, 8).requires_grad_()
        terms = algorithm.loss(z, labels(20, 5), labels(20, 3, seed=1))
        (total(terms) if total else terms["total"]).backward()
        return [z.grad, *(p.grad for p in algorithm.criterion.parameters())], algorithm.prototypes()

    (off, after_off), (on, after_on) = gradients(False), gradients(True)
    variation, _ = gradients(True, lambda terms: 2.0 * terms["variation"])
    assert same(off, variation)
    assert (on[-1] - off[-1]).abs().max() > 1e-3
    assert torch.equal(after_on, after_off)


@pytest.mark.parametrize("hard", [True, False])
def test_domains_matter_only_with_hard_negatives(hard):
    z, y, domains = unit(20, 8), labels(20, 5), labels(20, 3, seed=1)
    algorithm = build(config(algorithm="hypo", hard_negatives=hard), 5).double()
    criterion = HypoLoss(5, 8, weight=2.0).double()
    expected = criterion(z, y, domains if hard else None)
    assert algorithm.loss(z, y, domains)["total"] == expected.total
    algorithm.eval(), criterion.eval()
    moved = algorithm.loss(z, y, domains.flip(0))["total"]
    assert (moved == criterion(z, y, domains if hard else None).total) != hard


def test_benchmarks_of_one_source_have_no_hard_negatives():
    assert not configure("cifar10").hard_negatives and not configure("imagenet100").hard_negatives


TOY = '''
import torch
from hypo.algorithms import erm


class Algorithm(erm.Algorithm):
    """Cross-entropy, and a penalty on the square of the logits; its step is its own."""

    def losses(self, images, y, domains):
        x = self.network(images)
        penalty = self.logits(x).square().mean()
        return {"total": self.loss(x, y, domains)["total"] + penalty, "penalty": penalty}
'''


def test_a_new_method_is_one_file_and_one_entry(tmp_path, monkeypatch):
    (tmp_path / "toy_method.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(ALGORITHMS, "toy", "toy_method")
    monkeypatch.setattr(engine, "load", lambda *_, **__: small_digits())
    for folder in ("HYPO_RECORDS", "HYPO_RUNS"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    tiny = {"width": 0.125, "size": 16, "batch_size": 16, "epochs": 1, "swad": True}
    record = hypo.run("digits", "toy", "cartoon", scale="demo", **tiny)
    assert record["config"]["algorithm"] == "toy" and record["epochs"][0]["train"]["penalty"] > 0
    with pytest.raises(ValueError, match="did you mean toy"):
        hypo.run("digits", "tuy", "cartoon", scale="demo")
    with pytest.raises(ValueError, match="leave accumulate at 1"):
        hypo.run("digits", "toy", "cartoon", scale="demo", accumulate=2, **tiny)
