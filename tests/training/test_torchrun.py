"""`torchrun -m hypo train` on two processes: the same run as on one, and an end, not a hang, when a rank dies."""

import functools
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from PIL import Image
from torch import Tensor, nn

from hypo import distributed, records
from hypo.algorithms import ALGORITHMS, build
from hypo.algorithms.base import Algorithm
from hypo.config import configure
from hypo.training import checkpoint, engine, launch
from hypo.training.launch import process_group

pytestmark = pytest.mark.heavy

HERE = Path(__file__).resolve()
TORCHRUN = [
    sys.executable,
    "-m",
    "torch.distributed.run",
    "--nproc-per-node=2",
    "--standalone",
    "--local-addr=127.0.0.1",
]
FIELDS = {"scale": "demo", "held_out": "b", "precision": "float64", "size": 16, "width": 0.125, "dim": 8, "lr": 0.01}
FIELDS |= {"batch_size": 10, "epochs": 1, "views": 2, "evaluations": 2}
OTHERS = [name for name in ALGORITHMS if name != "hypo"]
OWN_STEP = {"mldg", "sharpdro"}  # several backward passes: their gradients are averaged after each
STRETCH = ("hypo", "dann", "groupdro", "mldg")  # a plain step, two optimisers, a state over ranks, a step of its own
UNEVEN = (7, 3)  # samples of the batch-norm check on each rank


TWO_GPUS = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="never run on GPUs: there are no two")


def environment(folder: Path, device: str = "cpu") -> dict[str, str]:
    outputs = {f"HYPO_{name.upper()}": str(folder / name) for name in ("records", "runs", "data")}
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
    return outputs | hidden | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[2])}


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 3 domains, 3 classes and 10 images of each."""
    folder, random = tmp_path_factory.mktemp("images") / "blobs", np.random.default_rng(0)
    for d, domain in enumerate("abc"):
        for c, label in enumerate("xyz"):
            (folder / domain / label).mkdir(parents=True)
            for i in range(10):
                image = random.integers(0, 160, (16, 16, 3))
                image[5 * c : 5 * c + 5, :, d] += 90
                Image.fromarray(image.astype(np.uint8)).save(folder / domain / label / f"{i}.png")
    return folder


def run_alone(
    benchmark: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, device: str = "cpu"
) -> dict[str, Any]:
    for name, value in environment(folder, device).items():
        monkeypatch.setenv(name, value)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    record = engine.run(str(benchmark), algorithm, **FIELDS)
    torch.set_num_threads(threads)
    return record


def assert_same_run(together: dict[str, Any], alone: dict[str, Any]) -> None:
    """The same configuration, and every number of the epochs and the result within 1e-5."""
    assert together["config_hash"] == alone["config_hash"]
    assert (together["environment"]["ranks"], alone["environment"]["ranks"]) == (2, 1)
    for part in ("epochs", "final"):
        found, expected = (list(leaves(record[part])) for record in (together, alone))
        assert len(expected) > 15 and [name for name, _ in found] == [name for name, _ in expected]
        for (name, a), (_, b) in zip(found, expected, strict=True):
            assert a == (pytest.approx(b, rel=1e-5, abs=1e-5) if isinstance(b, float) else b), name


def leaves(value: Any, name: str = ""):
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, f"{name}.{key}")
    else:
        yield name, value


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, TWO_GPUS])])
def test_two_processes_make_the_run_of_one(benchmark, tmp_path, monkeypatch, device):
    options = [f"--{name.replace('_', '-')}={str(value).lower()}" for name, value in FIELDS.items()]
    command = [*TORCHRUN, "-m", "hypo", "train", f"--benchmark={benchmark}", "--algorithm=hypo", *options]
    variables = os.environ | environment(tmp_path / "two", device)
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "two" / "records").glob("*.json")
    assert sum(line.startswith("epoch ") for line in done.stderr.splitlines()) == 2
    assert done.stdout.count("blobs") == 1
    alone = run_alone(benchmark, tmp_path / "one", monkeypatch, "hypo", device)
    assert_same_run(records.read(path), alone)
    (other,) = (tmp_path / "one" / "records").glob("*.json")
    for name, array in records.embeddings(other).items():
        np.testing.assert_allclose(records.embeddings(path)[name], array, atol=2e-3)  # stored in float16


def normalised(layer: nn.Module, x: Tensor, weight: Tensor) -> dict[str, list[Tensor]]:
    """Three steps of a batch norm and one in evaluation: what it gives by sample, gradients at the parameters, which
    add up over the ranks, and the running statistics, which are the same on all."""
    by_sample, gradients = [], []
    for step in range(3):
        inputs = (x + step * x.square()).requires_grad_()
        layer.zero_grad()
        outputs = layer(inputs)
        (outputs.tanh() * weight).sum().backward()
        by_sample += [outputs.detach(), inputs.grad]
        gradients += [layer.weight.grad.clone(), layer.bias.grad.clone()]
    layer.eval()
    by_sample.append(layer(x).detach())
    statistics = [layer.running_mean, layer.running_var, layer.num_batches_tracked]
    return {"by sample": by_sample, "gradients": gradients, "statistics": statistics}


def batch() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    layer = nn.Sequential(nn.BatchNorm2d(4, eps=1e-3, momentum=0.3)).double()
    with torch.no_grad():
        layer[0].weight.uniform_(0.5, 2)
        layer[0].bias.uniform_(-1, 1)
    return layer, torch.randn(sum(UNEVEN), 4, 3, 5, dtype=torch.float64), torch.rand(10, 4, 3, 5, dtype=torch.float64)


def noted(algorithm: Algorithm, overlap: Callable[..., None], folder: Path, device: torch.device) -> None:
    """`overlap`, leaving a file for each method that does."""
    overlap(algorithm, device)
    if algorithm.overlapped:
        (folder / f"overlaps-{algorithm.config.algorithm}").touch()


def in_rank(benchmark: str, folder: Path) -> None:
    """What each of two processes does in the tests below: batch norm, a run of each method with gradients averaged
    after backward, of some with gradients averaged during it, as on GPUs, and a run that would take hours."""
    warnings.simplefilter("error")
    os.environ |= environment(folder)
    engine.CHECKPOINT_SECONDS = 0.1
    with process_group():
        rank = distributed.rank()
        layer, x, weight = batch()
        layer = distributed.synchronise_batch_norm(layer, torch.device("cpu"))
        mine = slice(0, UNEVEN[0]) if rank == 0 else slice(UNEVEN[0], None)
        torch.save(normalised(layer[0], x[mine], weight[mine]), folder / f"norm-{rank}.pt")
        for algorithm in OTHERS:
            engine.run(benchmark, algorithm, **FIELDS)
        overlapped(benchmark, folder / "overlapped", STRETCH)
        os.environ |= environment(folder)
        (folder / f"pid-{rank}").write_text(str(os.getpid()))
        engine.run(benchmark, "hypo", **FIELDS | {"epochs": 10_000})


def overlapped(benchmark: str, folder: Path, algorithms: Iterable[str]) -> None:
    """A run of each of these methods with gradients averaged during backward, as on GPUs."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= environment(folder)
    distributed.OVERLAP_ON, Algorithm.overlap = ("cpu",), functools.partialmethod(noted, Algorithm.overlap, folder)
    for algorithm in algorithms:
        engine.run(benchmark, algorithm, **FIELDS)


@pytest.fixture(scope="module")
def broken(benchmark: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """Two processes of which one is killed as it trains: their folder, torchrun's code and its stderr."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [*TORCHRUN, str(HERE), str(benchmark), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not [*folder.glob("runs/*-hypo-*/step-*")] and process.poll() is None:
                time.sleep(0.05)
            assert process.poll() is None, process.stderr.read()
            os.kill(int((folder / "pid-1").read_text()), signal.SIGKILL)
            _, errors = process.communicate()
        finally:
            process.kill()
    return folder, process.returncode, errors


def test_a_rank_that_dies_ends_the_run_with_a_sentence(broken):
    _, code, errors = broken
    lines = [line for line in errors.splitlines() if line.startswith("hypo: ")]
    assert code != 0
    assert lines == [
        "hypo: rank 0 of 2 ends because another rank did; the same command goes on from the last checkpoint"
    ]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_method_is_the_same_on_two_processes(broken, benchmark, tmp_path, monkeypatch, algorithm):
    made = [*broken[0].glob(f"**/records/*-{algorithm}-*.json")]
    assert len(made) == (algorithm in OTHERS) + (algorithm in STRETCH)
    alone = run_alone(benchmark, tmp_path, monkeypatch, algorithm)
    for path in made:
        assert_same_run(records.read(path), alone)


@pytest.mark.slow
def test_every_method_is_the_same_with_gradients_averaged_during_backward(benchmark, tmp_path, monkeypatch):
    command = [*TORCHRUN, str(HERE), str(benchmark), str(tmp_path / "two"), *ALGORITHMS]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for algorithm in ALGORITHMS:
        (path,) = (tmp_path / "two" / "records").glob(f"*-{algorithm}-*.json")
        assert_same_run(records.read(path), run_alone(benchmark, tmp_path / "one", monkeypatch, algorithm))
    assert overlapping(tmp_path / "two") == {*ALGORITHMS} - OWN_STEP


def overlapping(folder: Path) -> set[str]:
    return {path.name.removeprefix("overlaps-") for path in folder.glob("overlaps-*")}


def test_gradients_are_averaged_during_backward_where_a_step_has_one(broken):
    assert overlapping(broken[0] / "overlapped") == {*STRETCH} - OWN_STEP


def test_a_checkpoint_of_such_a_run_is_like_any_other(broken, benchmark):
    (folder,) = broken[0].glob("runs/*-hypo-*/")
    plain = build(configure(str(benchmark), "hypo", **FIELDS), 3, 2)
    assert list(checkpoint.latest(folder)[1]["algorithm"]) == list(plain.state_dict())


def test_batch_norm_over_ranks_is_batch_norm_of_the_whole_batch(broken):
    layer, x, weight = batch()
    alone = normalised(layer[0], x, weight)
    ranks = [torch.load(broken[0] / f"norm-{rank}.pt", weights_only=True) for rank in range(2)]
    close = functools.partial(torch.testing.assert_close, rtol=1e-10, atol=1e-10)
    close([torch.cat(parts) for parts in zip(*(r["by sample"] for r in ranks), strict=True)], alone["by sample"])
    close([sum(parts) for parts in zip(*(r["gradients"] for r in ranks), strict=True)], alone["gradients"])
    for rank in ranks:
        close(rank["statistics"], alone["statistics"])


LOST = "hypo: rank 0 of 1 ends because another rank did; the same command goes on from the last checkpoint"


@pytest.mark.parametrize(
    "error, code, line",
    [
        (ValueError("lr must be above 0, not -1.0"), 2, "hypo: lr must be above 0, not -1.0"),
        (KeyError("a bug"), 1, "hypo: rank 0 of 1 failed: KeyError: 'a bug'"),
        (dist.DistBackendError("NCCL timed out"), 1, LOST),
        (RuntimeError("[gloo/transport/tcp/pair.cc:1] Connection closed by peer"), 1, LOST),
    ],
)
def test_what_went_wrong_is_said_once_by_the_first_rank_that_fails(error, code, line, monkeypatch, capsys):
    store, before = dist.HashStore(), signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(launch, "_device", lambda: None)
    monkeypatch.setattr(dist, "rendezvous", lambda *_, **__: iter([(store, 0, 1)]))
    monkeypatch.setattr(os, "_exit", sys.exit)
    for printed in (True, False):
        try:
            with pytest.raises(SystemExit) as end, process_group() as leads:
                assert leads
                raise error
        finally:
            dist.destroy_process_group()
            signal.signal(signal.SIGTERM, before)
        errors = capsys.readouterr().err.splitlines()
        assert end.value.code == code and errors[-1:] == ([line] if printed else [])
        assert len(errors) == printed or (printed and isinstance(error, KeyError) and "Traceback" in errors[0])


def test_without_torchrun_there_is_one_rank_and_no_group(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with process_group() as leads:
        assert leads and not dist.is_initialized()


def test_more_ranks_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="pass --nproc-per-node=1 to torchrun"):
        launch._device()


if __name__ == "__main__":
    images, into, *methods = sys.argv[1:]
    if methods:
        with process_group():
            overlapped(images, Path(into), methods)
    else:
        in_rank(images, Path(into))
