"""A small benchmark, and runs on it in processes of their own that can be killed.

The processes are forked from a server that has imported all this already, so that each starts within milliseconds.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from tqdm import tqdm

from hypo import records
from hypo.data.imageset import ImageSet, content_fingerprint
from hypo.training import checkpoint, engine

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    ["hypo.training.engine", "hypo.algorithms.hypo", "sklearn.datasets", "torch._dynamo", "pytest"]
)
TINTS = {"photo": (1, 1, 1), "art_painting": (1, 0.6, 0.2), "cartoon": (0.2, 0.9, 1), "sketch": (0.5, 0.5, 0.9)}
SMALL = {"width": 0.125, "dim": 8, "batch_size": 16, "epochs": 3, "lr": 0.005}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """The small networks are slower on two threads than on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@functools.cache
def small_digits(size: int = 16, per_domain: int = 60, tested: int = 20) -> ImageSet:
    """Handwritten digits of classes 0..4, tinted by domain; the last `tested` of each domain are test images."""
    scans, labels = load_digits(n_class=5, return_X_y=True)
    scans = scans.reshape(-1, 8, 8)[: 4 * per_domain] / 16
    enlarged = np.kron(scans, np.ones((size // 8, size // 8)))
    domains = np.repeat(np.arange(4), per_domain)
    images = np.uint8(255 * enlarged[..., None] * np.array([*TINTS.values()])[domains][:, None, None])
    labels = labels[: 4 * per_domain].astype(np.int64)
    names = tuple("01234"), tuple(TINTS)
    return ImageSet(
        name="digits",
        images=images,
        labels=labels,
        domains=domains,
        class_names=names[0],
        domain_names=names[1],
        fingerprint=content_fingerprint(images, labels, domains, *names),
        test_only=np.tile(np.arange(per_domain) >= per_domain - tested, 4),
    )


def same(a: Any, b: Any) -> bool:
    """Whether two structures of tensors and plain values are the same, bit for bit."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def run(**arguments: Any) -> dict[str, Any]:
    """`hypo.run` at demo scale, smaller still."""
    return engine.run("digits", **{"scale": "demo", **SMALL, **arguments})


def small_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """From now on, runs of digits are of `small_digits` and leave their records and checkpoints in `folder`."""
    monkeypatch.setenv("HYPO_RECORDS", str(folder / "records"))
    monkeypatch.setenv("HYPO_RUNS", str(folder / "runs"))
    monkeypatch.setattr(engine, "load", lambda *_, **__: small_digits())
    monkeypatch.setattr(engine, "refuse_incomplete", lambda _: None)
    return folder


def start(folder: Path, before: Callable[[], None] | None = None, **arguments: Any) -> BaseProcess:
    """A process that makes a run on `small_digits` with its outputs in `folder`; `before` is called in it first."""
    process = SERVER.Process(target=_run, args=(folder, before, arguments))
    process.start()
    return process


def _run(folder: Path, before: Callable[[], None] | None, arguments: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    tqdm.set_lock(threading.RLock())  # its own is a semaphore, which outlives a killed process
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    small_runs(folder, pytest.MonkeyPatch())
    os.dup2(os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    engine.CHECKPOINT_SECONDS, engine.CHECKPOINT_PAUSE = 0.1, 0.0
    engine.train = functools.partial(_train_and_keep, engine.train, folder)
    if before:
        before()
    (folder / f"returned-{os.getpid()}.json").write_text(json.dumps(run(**arguments)))


def _train_and_keep(train: Callable, folder: Path, config: Any, images: ImageSet, checkpoints: Path, root: Any) -> Any:
    """`engine.train`, keeping in `folder` the weights it ends with and the last checkpoint, which `run` removes."""
    result = train(config, images, checkpoints, root)
    torch.save({"weights": result[2], "checkpoint": checkpoint.latest(checkpoints)[1]}, folder / "end.pt")
    return result


def outcome(folder: Path) -> dict[str, Any]:
    """All that a run left behind, less what may differ from one run to the same run again."""
    (path,) = (folder / "records").glob("*.json")
    record = records.read(path)
    del record["cost"], record["digest"], record["environment"]["dirty"], record["environment"]["commit"]
    end = torch.load(folder / "end.pt", weights_only=True)
    del end["checkpoint"]["seconds"], end["checkpoint"]["evaluation_seconds"]
    embeddings = {name: torch.from_numpy(array) for name, array in records.embeddings(path).items()}
    return {"record": record, "embeddings": embeddings, **end}


class _Dying(io.FileIO):
    """A file whose first write is cut off by SIGKILL after a share of its bytes."""

    share = 0.0

    def write(self, content: Any) -> int:
        super().write(content[: int(self.share * len(content))])
        return die()


def die(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_write(number: int, share: float) -> None:
    """From now on, be killed in the `number`-th write of a checkpoint, when this share of its bytes is written."""
    writes, true_open = itertools.count(1), Path.open
    _Dying.share = share

    def open_(path: Path, *args: Any, **kwargs: Any) -> Any:
        dying = path.name.startswith(".step-") and next(writes) == number
        return _Dying(path, "w") if dying else true_open(path, *args, **kwargs)

    Path.open = open_


def die_beside_rename(number: int, after: bool) -> None:
    """From now on, be killed at the `number`-th checkpoint, right before it gets its name or right after."""
    renames, true_replace = itertools.count(1), Path.replace

    def replace(path: Path, target: Path) -> Path:
        dying = path.name.startswith(".step-") and next(renames) == number
        if dying and not after:
            die()
        result = true_replace(path, target)
        return die() if dying else result

    Path.replace = replace
