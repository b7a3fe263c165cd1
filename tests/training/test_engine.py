"""What `hypo.run` promises of a number: its record, its selection, its evaluation, and the step behind it."""

import copy
import dataclasses
import functools
import json
import re
import shutil
import socket
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import SMALL, one_thread, run, same, small_digits, small_runs  # noqa: F401
from PIL import Image
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import hypo
from hypo import runs
from hypo.algorithms import ALGORITHMS
from hypo.config import configure
from hypo.data.benchmarks import load
from hypo.data.corruptions import CORRUPTIONS
from hypo.data.splits import split
from hypo.geometry import mean_variation
from hypo.model import HypoNet
from hypo.training import engine, evaluate
from hypo.training.trainer import CHECK_STEPS, Trainer, TrainingError, choose_layout

CPU, DIGITS = torch.device("cpu"), small_digits()


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_runs(tmp_path, monkeypatch)


def trainer(**fields) -> Trainer:
    config = configure("digits", held_out="cartoon", **{**SMALL, **fields})
    return Trainer(config, DIGITS, split(DIGITS, config.held_out, config.seed), CPU)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps made from now on."""
    steps, step = [], Trainer.step
    monkeypatch.setattr(Trainer, "step", lambda trainer: (steps.append(trainer.step_count), step(trainer))[1])
    return steps


# The record


def test_a_run_is_made_once_and_made_anew_by_force(monkeypatch):
    steps = counted(monkeypatch)
    first = run(epochs=1)
    assert steps == [*range(6)]
    assert run(epochs=1) == first
    assert steps == [*range(6)]
    again = run(epochs=1, force=True)
    assert steps == [*range(6)] * 2
    assert (again["epochs"], again["final"]) == (first["epochs"], first["final"])
    assert run(epochs=1, seed=1)["final"] != first["final"]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ({"batchsize": 8}, "unknown setting of hypo 'batchsize': did you mean batch_size?"),
        ({"held_out": "cartoons"}, "unknown held_out domain 'cartoons': did you mean cartoon?"),
        ({"algorithm": "hyp"}, "unknown algorithm 'hyp': did you mean hypo?"),
        ({"batch_size": 1000}, "fewer than one batch of 1000; lower batch_size"),
    ],
)
def test_a_mistake_is_answered_by_a_sentence(small, arguments, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        run(**arguments)
    assert not [*small.glob("records/*")]


def test_a_domain_that_the_stand_in_lacks_is_answered_by_a_sentence():
    with pytest.raises(ValueError, match=r"digits, which stand in for vlcs .* have no domain 'SUN09': fetch it"):
        hypo.run("vlcs", held_out="SUN09", scale="demo")


def test_the_record_tells_nothing_of_the_machine(tmp_path, monkeypatch):
    """Of a benchmark given by its path, beside $HYPO_RECORDS and $HYPO_RUNS and the data root."""
    monkeypatch.setattr(engine, "load", load)
    for number in range(0, 120, 2):
        folder = tmp_path / "mine" / DIGITS.domain_names[DIGITS.domains[number]] / str(DIGITS.labels[number])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(DIGITS.images[number]).save(folder / f"{number}.png")
    fields = SMALL | {"epochs": 1, "batch_size": 8, "size": 16, "scale": "demo", "held_out": "photo"}
    record = hypo.run(tmp_path / "mine", root=tmp_path, **fields)
    assert re.fullmatch(r"mine@[0-9a-f]{12}", record["config"]["benchmark"])
    text = json.dumps(record)
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text
    assert socket.gethostname() not in text
    assert hypo.run(tmp_path / "mine", root=tmp_path, **fields) == record


def test_a_record_keeps_the_measures_of_its_embeddings():
    record = run(epochs=1)
    stored = runs.of(record)["path"]
    z, y, domains, _ = runs.embeddings(stored).of("id_test").tensors().values()
    chosen = record["final"]["validation"]
    assert chosen["sinkhorn"] == pytest.approx(mean_variation(z, y, domains), abs=0.02)  # stored in float16
    assert all({"sinkhorn", "hard_pairs"} <= {*final} for final in record["final"].values())


def test_checkpoints_of_unfinished_runs_lie_in_one_place(monkeypatch, tmp_path):
    assert engine.runs_folder() == tmp_path / "runs"
    monkeypatch.delenv("HYPO_RUNS")
    monkeypatch.setenv("HYPO_RECORDS", "records")
    assert engine.runs_folder().name == "_runs"


def test_a_run_needs_no_git(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    environment = run(epochs=1)["environment"]
    assert (environment["commit"], environment["dirty"]) == (None, None)


# Selection


def test_selection_rules():
    """validation: the first epoch of the best validation accuracy; oracle: of the best test accuracy; last."""
    record = run(epochs=4, evaluations=2)  # fewer test images than the oracle's share: it sees all of them
    entries, final = record["epochs"], record["final"]
    assert [entry["epoch"] for entry in entries] == [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4]
    chosen = max(entries, key=lambda entry: entry["validation"]["accuracy"])
    assert [entry["ood_test"]["accuracy"] is None for entry in entries] == [True, False] * 4
    oracle = max(entries[1::2], key=lambda entry: entry["ood_test"]["accuracy"])
    for rule, entry in {"validation": chosen, "oracle": oracle, "last": entries[-1]}.items():
        assert final[rule]["epoch"] == entry["epoch"]
        assert final[rule]["validation_accuracy"] == entry["validation"]["accuracy"]
        assert final[rule]["ood_accuracy"] == final[rule]["ood"]["cartoon"]
        assert entry["ood_test"]["accuracy"] in (None, final[rule]["ood_accuracy"])
    if chosen["ood_test"]["accuracy"] is not None:
        assert final["oracle"]["ood_accuracy"] >= final["validation"]["ood_accuracy"]


def test_the_weights_are_those_of_the_first_best_validation(tmp_path, monkeypatch):
    script, kept = [(0.2, 0.9), (0.6, 0.1), (0.6, 0.2), (0.4, 0.3)], []

    def scripted(_evaluator: evaluate.Evaluator, algorithm: nn.Module, tests: bool) -> dict:  # noqa: ARG001
        validation, test = script[len(kept)]
        kept.append(copy.deepcopy(algorithm.state_dict()))
        found = {"id_test": {"accuracy": test}, "ood_test": {"accuracy": test}}
        return {"validation": {"accuracy": validation, "loss": 1.0, "cosine": None}, **found}

    monkeypatch.setattr(evaluate.Evaluator, "during", scripted)
    record, _, weights = engine.train(
        configure("digits", held_out="cartoon", **SMALL | {"epochs": 4, "evaluations": 1}), DIGITS, tmp_path
    )
    assert {rule: measures["epoch"] for rule, measures in record["final"].items()} == {
        "validation": 2,
        "oracle": 1,
        "last": 4,
        "swad": 4,
    }
    assert same(weights, kept[1])
    assert not same(weights, kept[2])


@pytest.mark.heavy
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nothing_of_the_test_images_reaches_training_or_selection(tmp_path, algorithm):
    images = DIGITS
    hidden = images.test_only | (images.domains == images.domain_names.index("cartoon"))
    pixels = images.images.copy()
    pixels[hidden] = np.random.default_rng(0).integers(0, 256, pixels[hidden].shape, dtype=np.uint8)
    config = configure("digits", algorithm, "cartoon", **SMALL, evaluations=2)
    (tmp_path / "clean").mkdir()
    (tmp_path / "noisy").mkdir()
    clean = engine.train(config, images, tmp_path / "clean")
    noisy = engine.train(config, dataclasses.replace(images, images=pixels), tmp_path / "noisy")
    for entry, other in zip(clean[0]["epochs"], noisy[0]["epochs"], strict=True):
        assert [entry[part] for part in ("train", "validation")] == [other[part] for part in ("train", "validation")]
    for rule in ("validation", "swad"):
        assert clean[0]["final"][rule]["epoch"] == noisy[0]["final"][rule]["epoch"]
    assert clean[0]["final"]["swad"]["interval"] == noisy[0]["final"]["swad"]["interval"]
    assert same(clean[2], noisy[2])
    assert clean[0]["final"]["oracle"] != noisy[0]["final"]["oracle"]


def test_the_released_protocol_runs():
    record = run(epochs=1, protocol="released")
    assert record["split"]["protocol"] == "released"
    assert record["config_hash"] != run(epochs=1)["config_hash"]


@pytest.mark.parametrize("steps, evaluations", [(10, 1), (10, 2), (10, 3), (5, 4), (7, 7), (3, 5)])
def test_evaluations_are_evenly_spaced_and_the_last_is_at_the_end(steps, evaluations):
    state = SimpleNamespace(steps=steps, config=SimpleNamespace(evaluations=evaluations))
    due = [0]
    for step in range(1, 2 * steps + 1):
        state.step_count = step
        due += [step] if Trainer.due(state) else []
    assert len(due) == 1 + 2 * min(steps, evaluations)
    assert {steps, 2 * steps} <= {*due}
    gaps = [b - a for a, b in pairwise(due)]
    assert max(gaps) - min(gaps) <= 1


# Evaluation


def test_accuracy_is_over_samples(monkeypatch):
    """Whatever the chunks: 60 test images in chunks of 7 leave 4 for the last."""
    made = trainer()
    made.step()
    chosen = split(DIGITS, "cartoon").id_test
    right = 0
    for i in chosen:
        output = evaluate.outputs_of(made.algorithm, DIGITS.images[[i]], CPU, torch.float32)
        right += made.algorithm.predict(output).item() == DIGITS.labels[i]
    for chunk in (7, 256):
        monkeypatch.setattr(evaluate, "CHUNK", chunk)
        assert made.evaluator.during(made.algorithm, tests=True)["id_test"]["accuracy"] == right / len(chosen)
        assert made.evaluator.final(made.algorithm, None)[0]["id_accuracy"] == right / len(chosen)


def test_test_images_that_are_the_validation_images_pass_once(monkeypatch):
    """As on PACS; the digits have test images of their own."""
    images = dataclasses.replace(DIGITS, test_only=None)
    parts, algorithm = split(images, "cartoon"), trainer().algorithm
    assert np.array_equal(parts.id_test, parts.validation)
    passed, usual = [], evaluate.outputs_of

    def counted(algorithm, pixels, *more):
        passed.append(len(pixels))
        return usual(algorithm, pixels, *more)

    monkeypatch.setattr(evaluate, "outputs_of", counted)
    made = evaluate.Evaluator(images, parts, CPU, torch.float32)
    metrics, kept = made.final(algorithm, None)
    assert sum(passed) == len(parts.validation) + len(parts.ood_test)
    assert metrics["id_accuracy"] == metrics["validation_accuracy"] and len(kept["id_test_z"]) == len(parts.id_test)
    passed.clear()
    seen = made.during(algorithm, tests=True)
    assert sum(passed) == len(parts.validation) + min(len(parts.ood_test), evaluate.SEEN_BY_ORACLE)
    assert seen["id_test"]["accuracy"] == seen["validation"]["accuracy"]


def test_images_pass_in_chunks_of_all_classes_though_a_folder_sorts_them(monkeypatch):
    """300 images of three classes in chunks of 100: were they of one class each, its mean would pass for the domain's.
    None is left with few images, and outputs come back in the order of the images."""
    pixels, chunks = np.repeat(np.uint8([10, 20, 30]), 100)[:, None, None, None] * np.ones((1, 2, 2, 3), np.uint8), []

    class Looking(nn.Module):
        config = SimpleNamespace(augmentation="none")

        def encode(self, images: torch.Tensor) -> torch.Tensor:
            chunks.append(images)
            return images.flatten(1)

    monkeypatch.setattr(evaluate, "CHUNK", 149)
    outputs = evaluate.outputs_of(Looking(), pixels, CPU, torch.float32)
    assert [len(chunk) for chunk in chunks] == [100, 100, 100]
    for chunk in chunks:
        assert chunk[:, 0, 0, 0].unique(return_counts=True)[1].min() > 20
    torch.testing.assert_close(outputs, evaluate._normalised(Looking(), pixels, CPU, torch.float32).flatten(1))


def test_without_a_held_out_domain_corruptions_are_tested():
    record = run(held_out=None, epochs=1, corrupted_images=4)
    assert record["split"]["sizes"]["ood_test"] == 0
    for measures in record["final"].values():
        assert measures["corruptions"] == "generated"
        assert [*measures["ood"]] == [*CORRUPTIONS]
        rates = [rate for by_severity in measures["ood"].values() for rate in by_severity.values()]
        assert all([*by_severity] == [*"12345"] for by_severity in measures["ood"].values())
        assert measures["ood_accuracy"] == pytest.approx(np.mean(rates))


def test_some_corrupted_images_are_of_every_style(monkeypatch):
    """And those of a published set, which holds all test images, are the same ones."""
    parts, seen = split(DIGITS, None), []

    def published(_name, _corruption, severity, _root, clean):
        seen.append(clean)
        every = DIGITS.images[parts.id_test], DIGITS.labels[parts.id_test], "published"
        return every if severity > 1 else (clean.images, clean.labels, "generated")

    monkeypatch.setattr(evaluate, "corrupted", published)
    algorithm = trainer(corrupted_images=40).algorithm
    metrics, _ = evaluate.Evaluator(DIGITS, parts, CPU, torch.float32).final(algorithm, None)
    assert len(seen[0]) == 40 and len(np.unique(seen[0].domains)) == len(DIGITS.domain_names)
    assert all(len(set(by_severity.values())) == 1 for by_severity in metrics["ood"].values())


@pytest.mark.parametrize("marked", [True, False])
def test_no_training_image_is_among_the_corrupted(monkeypatch, marked):
    """Also where a set marks no test images of its own."""
    images = DIGITS if marked else dataclasses.replace(DIGITS, test_only=None)
    parts = split(images, None)
    seen = []

    def none_corrupted(_name, _corruption, _severity, _root, clean):
        seen.append(clean.images)
        return clean.images, clean.labels, "generated"

    monkeypatch.setattr(evaluate, "corrupted", none_corrupted)
    metrics, _ = evaluate.Evaluator(images, parts, CPU, torch.float32).final(trainer().algorithm, None)
    assert all(np.array_equal(pixels, images.images[parts.id_test]) for pixels in seen)
    assert not {*parts.id_test} & {*parts.train}
    assert metrics["ood_accuracy"] == pytest.approx(metrics["id_accuracy"])


# Failure


def test_a_learning_rate_that_explodes_ends_the_run(small):
    with pytest.raises(TrainingError, match=r"^training failed at step 1, .* NaN or infinite") as caught:
        run(lr=1e30)
    assert "there was no checkpoint yet; lower lr, now 1e+30" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not [*small.glob("records/*")]


def poison(monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    """From now on the images of this step, counted from 1, are NaN."""
    batch = Trainer.batch

    def poisoned(trainer: Trainer, step: int):
        whole = batch(trainer, step)
        return whole._replace(images=whole.images * (float("nan") if step == failing - 1 else 1))

    monkeypatch.setattr(Trainer, "batch", poisoned)


@pytest.mark.parametrize("algorithm", ["hypo", "erm"])
def test_nan_ends_the_run_with_the_step_and_the_last_good_checkpoint(small, monkeypatch, algorithm):
    poison(monkeypatch, 9)
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(engine, "CHECKPOINT_PAUSE", 0)
    with pytest.raises(TrainingError, match=r"^training failed at step 9, .*NaN") as caught:
        run(algorithm=algorithm)
    kept = max(small.glob("runs/*/step-*"))
    assert kept.name.startswith("step-000000008-")
    assert f"the last good checkpoint is {kept.name}" in str(caught.value)


def test_a_failure_that_is_found_later_is_told_by_the_step_that_failed(small, monkeypatch):
    poison(monkeypatch, 2)
    with pytest.raises(TrainingError, match=r"^training failed at step 2, the loss is NaN or infinite \(nan\); "):
        run(algorithm="erm", evaluations=1)
    assert not [*small.glob("runs/*/step-*")]


@pytest.mark.parametrize("use", [Trainer.evaluate, Trainer.state_dict])
def test_what_failed_unseen_is_neither_evaluated_nor_stored(monkeypatch, use):
    poison(monkeypatch, 2)
    made = trainer(algorithm="erm", evaluations=1)
    for _ in range(3):
        made.step()
    with pytest.raises(FloatingPointError, match=r"^step 2, the loss is NaN"):
        use(made)
    assert not made.best and not made.swad.means


def test_a_network_that_only_evaluation_finds_ruined_is_not_kept(small, monkeypatch):
    step = Trainer.step

    def ruining(trainer: Trainer) -> dict[str, float]:
        terms = step(trainer)
        trainer.algorithm.network.bn1.running_var.fill_(torch.nan)
        return terms

    monkeypatch.setattr(Trainer, "step", ruining)
    with pytest.raises(TrainingError, match=r"^training failed at step 3, .*NaN"):
        run(algorithm="erm")
    assert not [*small.glob("runs/*/step-*")]


# The step


class Reads(TorchDispatchMode):
    """Counts the numbers that are read from tensors; a GPU would be waited for at each."""

    count = 0

    def __torch_dispatch__(self, function, _types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **kwargs or {})


def test_nothing_is_read_from_the_device_between_two_checks(monkeypatch):
    made, reading, tolist = trainer(algorithm="erm", batch_size=4, evaluations=1), [], torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: (tensor.sum().item(), tolist(tensor))[1])  # seen so
    with Reads() as reads:
        for step in range(1, made.steps + 1):
            before = reads.count
            made.step()
            reading += [step] if reads.count > before else []
    assert reading == [*range(CHECK_STEPS, made.steps, CHECK_STEPS), made.steps]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="never run on a GPU: there is none")
def test_a_gpu_is_not_waited_for_between_two_checks():
    plain = trainer(algorithm="erm", batch_size=4, evaluations=1)
    made = Trainer(plain.config, plain.images, plain.parts, torch.device("cuda"))
    made.step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(2, CHECK_STEPS):
            made.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


class Mlp(nn.Module):
    """In the place of HypoNet, a network without batch norm."""

    def __init__(self, _backbone: str, dim: int, *_, dropout: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 16), nn.Tanh(), nn.Dropout(dropout))
        self.head, self.feature_dim = nn.Linear(16, dim), 16

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.head(self.body(images)), dim=1)


@pytest.mark.parametrize("prototypes", ["ema", "learnable"])
@pytest.mark.parametrize("parts", [4, 5])
def test_accumulation_changes_nothing_without_batch_norm(monkeypatch, prototypes, parts):
    monkeypatch.setattr("hypo.model.HypoNet", Mlp)
    whole, accumulated = (
        trainer(accumulate=n, prototypes=prototypes, precision="float64", views=2) for n in (1, parts)
    )
    for _ in range(3):
        expected, terms = whole.step(), accumulated.step()
        assert terms == pytest.approx(expected, abs=1e-6)
        for a, b in zip(whole.algorithm.parameters(), accumulated.algorithm.parameters(), strict=True):
            torch.testing.assert_close(b.grad, a.grad, rtol=0, atol=1e-6)  # float64: rounding is far below
        ours, theirs = (t.algorithm.prototypes() for t in (accumulated, whole))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_accumulation_with_batch_norm_has_the_loss_of_the_whole_batch():
    """Batch norm sees four parts, once each; the loss and the prototypes see one batch."""
    made = trainer(accumulate=4, precision="float64")
    oracle = copy.deepcopy(made.algorithm).train()
    images, y, domains = made.batch(0)
    outputs = torch.cat([oracle.network(part) for part in images.chunk(4)])
    oracle.criterion.temperature = made.config.method.start_temperature
    expected = oracle.loss(outputs, y, domains)
    expected["total"].backward()
    gradients = [p.grad for p in oracle.parameters()]
    assert made.step() == pytest.approx({name: value.item() for name, value in expected.items()}, abs=1e-9)
    for p, gradient in zip(made.algorithm.parameters(), gradients, strict=True):
        torch.testing.assert_close(p.grad, gradient, rtol=0, atol=1e-9)
    for (name, ours), theirs in zip(made.algorithm.named_buffers(), oracle.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, msg=lambda text, name=name: f"{name}: {text}")
    assert made.algorithm.network.backbone.bn1.num_batches_tracked == 4


def test_accumulation_drops_out_the_same_units_in_both_passes(monkeypatch):
    monkeypatch.setattr("hypo.model.HypoNet", lambda *args: Mlp(*args, dropout=0.5))
    made, outputs = trainer(accumulate=4), []
    made.algorithm.network.body.register_forward_hook(lambda _module, _inputs, output: outputs.append(output.detach()))
    made.step()
    assert len(outputs) == 8
    assert all(any(torch.equal(again, first) for first in outputs[:4]) for again in outputs[4:])  # the last part first
    assert not torch.equal(outputs[0], outputs[1])


def test_compile_compiles_the_network(monkeypatch):
    """With a backend that needs no C++ compiler, and no time."""
    monkeypatch.setattr("hypo.model.HypoNet", Mlp)
    compiled = []

    def backend(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        compiled.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    eager, optimised = trainer(), trainer(compile=True)
    assert same(optimised.step(), eager.step())
    assert same(optimised.state_dict()["algorithm"], eager.state_dict()["algorithm"])
    assert compiled


def test_narrow_networks_are_laid_out_so_that_they_train():
    assert choose_layout(HypoNet("resnet18", width=0.125)) == torch.channels_last
    assert choose_layout(HypoNet("resnet18", width=0.0625)) == torch.contiguous_format
    made = trainer(width=0.0625)
    for _ in range(3):
        made.step()


@pytest.mark.parametrize(("n", "d"), [(1, 3), (40, 2), (40, 24), (300, 128)])
def test_what_is_stored_of_embeddings_keeps_their_cosines(n, d):
    rng = np.random.default_rng(0)
    raw = {"id_test_z": rng.normal(size=(n, d)), "ood_test_z": rng.normal(size=(n, d)), "prototypes": np.eye(d)[:2]}
    kept = {name: z / np.linalg.norm(z, axis=1, keepdims=True) for name, z in raw.items()}
    stored = evaluate.compact(kept | {"id_test_y": np.arange(n)})
    before, after = (np.concatenate([arrays[name].astype(float) for name in kept]) for arrays in (kept, stored))
    after /= np.linalg.norm(after, axis=1, keepdims=True)
    assert after.shape[1] <= d and np.array_equal(stored["id_test_y"], np.arange(n))
    worst = np.abs(before @ before.T - after @ after.T)
    assert worst.mean() < 0.01 and worst.max() < 0.1  # a sample may lie along a direction that few others share


def test_weights_in_the_data_folder_are_known_by_name_and_content(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPO_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "weights").mkdir(parents=True)
    file = tmp_path / "data" / "weights" / "mine.pth"
    torch.save(trainer().algorithm.network.backbone.state_dict(), file)
    known = run(epochs=1, weights=str(file))["config"]["weights"]
    assert known.startswith("mine.pth@")
    (path,) = (tmp_path / "records").glob("*.json")
    before = path.stat().st_mtime_ns
    run(epochs=1, weights=known)
    assert [*(tmp_path / "records").glob("*.json")] == [path] and path.stat().st_mtime_ns == before
    run(epochs=1, weights=known, force=True)
    assert [*(tmp_path / "records").glob("*.json")] == [path] and path.stat().st_mtime_ns > before
    file.write_bytes(b"other weights")
    with pytest.raises(TrainingError, match=r"whose sha256 begins with .*: put those weights there"):
        run(epochs=1, weights=known, force=True)


def test_only_the_first_rank_removes_the_folder_that_it_may_still_write_to(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "rank", lambda: 1)
    with engine._sole_owner(tmp_path / "run"):
        pass
    assert (tmp_path / "run").is_dir()
    monkeypatch.setattr(engine, "rank", lambda: 0)
    with engine._sole_owner(tmp_path / "run"):
        pass
    assert not [*tmp_path.iterdir()]
