"""The one way a number comes into being: train, select on training-domain validation, evaluate, record."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from tqdm import tqdm

from hypo import records
from hypo.config import Config, configure, identity
from hypo.data.benchmarks import REGISTRY, load, locate
from hypo.data.imageset import ImageSet
from hypo.data.splits import split
from hypo.distributed import rank, world
from hypo.training import checkpoint
from hypo.training.evaluate import outputs_of
from hypo.training.trainer import Trainer, TrainingError, choose_device

CHECKPOINT_SECONDS = 60.0
PACKAGES = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "pandas")


def run(
    benchmark: str = "pacs",
    algorithm: str = "hypo",
    held_out: str | None = "cartoon",
    scale: str | None = None,
    seed: int = 0,
    *,
    force: bool = False,
    root: str | os.PathLike[str] | None = None,
    **overrides: Any,
) -> dict[str, Any]:
    """The record of a run: the stored one when this configuration was run before, else of a run made now.

    benchmark  a name of `hypo data`, or a folder <domain>/<class>/<image>
    held_out   the domain never trained on; None tests on corruptions (as single-source benchmarks always do)
    scale      "demo" (always the embedded digits), "cpu" or "paper"; None takes the largest that this machine and the
               data on it are ready for
    force      train anew
    overrides  fields of `hypo.config.Config`

    Killed at any moment, the same call goes on where the last checkpoint was. Two processes that ask for the same run
    train it once.
    """
    benchmark, scale = _resolve(benchmark, scale, root)
    if benchmark in REGISTRY and len(REGISTRY[benchmark].domains) < 2:
        held_out = None
    config = configure(benchmark, algorithm, held_out, scale, seed, **overrides)
    fields = identity(config, "") if benchmark in REGISTRY else None
    if fields and not force and (found := records.find(records.config_hash(fields))):
        return found
    images = load(config.benchmark, size=config.size, root=root)
    fields = fields or identity(config, images.fingerprint)
    digest = records.config_hash(fields)
    folder = runs_folder() / f"{images.name}-{held_out or 'all'}-{algorithm}-{scale}-s{seed}-{digest[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    with _sole_owner(folder):
        if not force and (found := records.find(digest)):
            return found
        if force and rank() == 0:
            for old in folder.glob("step-*"):
                old.unlink()
        _meet()
        record, embeddings, _ = train(config, images, folder, root)
        record["config"] = fields
        if rank() == 0:
            path = records.write(record, embeddings, force=force)
            for old in folder.glob("step-*"):
                old.unlink()
            record = records.read(path)
    return record


def _resolve(benchmark: str, scale: str | None, root: str | os.PathLike[str] | None) -> tuple[str, str]:
    """The benchmark and scale to run: a named benchmark that is not on disk falls back to the embedded digits."""
    present = benchmark not in REGISTRY or benchmark == "digits" or locate(benchmark, root) is not None
    if scale is None:
        scale = "demo" if benchmark == "digits" or not present else "paper" if torch.cuda.is_available() else "cpu"
    if scale == "demo" and benchmark in REGISTRY and benchmark != "digits":
        say(f"{benchmark}: demo scale runs on the embedded digits, and the record says so")
        benchmark = "digits"
    return benchmark, scale


def runs_folder() -> Path:
    """Where checkpoints of unfinished runs lie: $HYPO_RUNS, else _runs/ beside the records."""
    return Path(os.environ.get("HYPO_RUNS") or records.folder().parents[1] / "_runs")


@contextlib.contextmanager
def _sole_owner(folder: Path) -> Iterator[None]:
    """Hold the run's lock; another process that wants it waits here."""
    with (folder / "lock").open("w") as lock:
        if rank() == 0:
            fcntl.flock(lock, fcntl.LOCK_EX)
        _meet()
        yield


def _meet() -> None:
    if world() > 1:
        dist.barrier()


def say(line: str) -> None:
    """One line to stderr, from the first rank only."""
    if rank() == 0:
        print(line, file=sys.stderr, flush=True)


def train(
    config: Config, images: ImageSet, folder: Path, root: str | os.PathLike[str] | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, Tensor]]:
    """Train from the last checkpoint in `folder`, or from the start; the record's content, embeddings and weights."""
    device = choose_device()
    parts = split(images, config.held_out, config.seed, config.fraction, config.protocol)
    trainer = Trainer(config, images, parts, device, root)
    if found := checkpoint.latest(folder):
        trainer.load_state_dict(found[1])
        say(f"resumed at step {trainer.step_count} of {trainer.total_steps} from {found[0].name}")
    _fit(trainer, folder)
    finals, embeddings = _finish(trainer, root)
    record = {
        "benchmark": {
            "name": images.name,
            "fingerprint": images.fingerprint,
            "classes": list(images.class_names),
            "domains": list(images.domain_names),
            "notes": list(images.notes),
        },
        "split": {
            "fingerprint": parts.fingerprint,
            "protocol": parts.protocol,
            "sizes": {part: len(getattr(parts, part)) for part in ("train", "validation", "id_test", "ood_test")},
        },
        "selection": "validation",
        "epochs": trainer.history,
        "final": finals,
        "cost": {
            "seconds": trainer.seconds,
            "images_per_second": trainer.trained_images / max(trainer.seconds, 1e-9),
            "peak_memory_mb": _peak_memory(device),
        },
        "environment": _environment(device, trainer.precision),
    }
    return record, embeddings, trainer.algorithm.state_dict()


def _fit(trainer: Trainer, folder: Path) -> None:
    """Step, evaluate and checkpoint until the last step."""
    bar = tqdm(
        total=trainer.total_steps,
        initial=trainer.step_count,
        unit="step",
        disable=rank() > 0 or not sys.stderr.isatty(),
        dynamic_ncols=True,
    )
    saved, moment = time.monotonic(), time.monotonic()
    while trainer.step_count < trainer.total_steps:
        try:
            terms = trainer.step()
        except (FloatingPointError, ValueError) as error:
            if isinstance(error, TrainingError) or not ("NaN" in str(error) or "became" in str(error)):
                raise
            good = checkpoint.latest(folder)
            kept = f"the last good checkpoint is {good[0].name}" if good else "there was no checkpoint yet"
            raise TrainingError(
                f"training failed at step {trainer.step_count + 1}: {error}; {kept}, lower lr (now {trainer.config.lr})"
            ) from error
        now = time.monotonic()
        trainer.seconds, moment = trainer.seconds + now - moment, now
        speed = trainer.trained_images / trainer.seconds
        bar.set_postfix(
            {name: f"{value:.3f}" for name, value in terms.items()} | {"images/s": f"{speed:.0f}"}, refresh=False
        )
        bar.update()
        if trainer.due():
            entry = trainer.evaluate()
            line = f"epoch {entry['epoch']:g}/{trainer.config.epochs}"
            line += "".join(f"  {name} {value:.3f}" for name, value in entry["train"].items())
            line += f"  validation {100 * entry['validation']['accuracy']:.1f}%  {speed:.0f} images/s"
            bar.write(line, file=sys.stderr) if not bar.disable else say(line)
        if rank() == 0 and (trainer.due() or time.monotonic() - saved > CHECKPOINT_SECONDS):
            checkpoint.save(folder, trainer.step_count, trainer.state_dict())
            saved = time.monotonic()
        moment = time.monotonic()
    bar.close()


def _finish(trainer: Trainer, root: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metrics by each selection rule. The weights left in the algorithm are those chosen on validation."""
    algorithm = trainer.algorithm
    candidates = {"last": (trainer.config.epochs, copy.deepcopy(algorithm.state_dict()))}
    for rule, best in trainer.best.items():
        candidates[rule] = (best["epoch"], best["weights"])
    if trainer.swad:
        candidates["validation"] = (trainer.config.epochs, trainer.swad.average())
    finals, embeddings = {}, {}
    for rule in ("last", "oracle", "validation"):
        epoch, weights = candidates[rule]
        algorithm.load_state_dict(weights)
        if trainer.swad and rule == "validation":
            train_outputs = outputs_of(
                algorithm, trainer.images.images[trainer.parts.train], trainer.device, trainer.precision
            )
            algorithm.refit(
                train_outputs, torch.from_numpy(trainer.images.labels[trainer.parts.train]).to(trainer.device)
            )
        metrics, embeddings = trainer.evaluator.final(algorithm, root)
        finals[rule] = {"epoch": float(epoch), **metrics}
    return finals, embeddings


def _peak_memory(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _environment(device: torch.device, precision: torch.dtype) -> dict[str, Any]:
    top = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str | None:
        result = subprocess.run(["git", *arguments], cwd=top, capture_output=True, text=True, check=False)
        return result.stdout.strip() if result.returncode == 0 else None

    return {
        "device": torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"cpu, {torch.get_num_threads()} threads",
        "ranks": world(),
        "precision": str(precision).removeprefix("torch."),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "commit": git("rev-parse", "HEAD"),
        "dirty": bool(git("status", "--porcelain", "--", "hypo")),
    }
