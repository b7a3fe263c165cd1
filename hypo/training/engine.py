"""The one way a number comes into being: train, select on training-domain validation, evaluate, record."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import os
import platform
import resource
import shutil
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
from hypo.suggest import one_of
from hypo.training import checkpoint
from hypo.training.evaluate import outputs_of
from hypo.training.trainer import Trainer, TrainingError, choose_device

CHECKPOINT_SECONDS = 60.0
PACKAGES = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "pandas")


def run(
    benchmark: str | os.PathLike[str] = "pacs",
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
    force      train anew from the start, and replace the record
    overrides  fields of `hypo.config.Config`

    Killed at any moment, the same call goes on where the last checkpoint was. Two processes that ask for the same run
    train it once.
    """
    benchmark, scale = _resolve(os.fspath(benchmark), scale, root)
    if benchmark in REGISTRY and len(REGISTRY[benchmark].domains) < 2:
        held_out = None
    config = configure(benchmark, algorithm, held_out, scale, seed, **overrides)
    fields = identity(config, "") if benchmark in REGISTRY else None
    if fields and not force and (found := records.find(records.config_hash(fields))):
        return found
    images = load(config.benchmark, size=config.size, root=root)
    if held_out is not None:
        one_of("held_out domain", held_out, images.domain_names)
    fields = fields or identity(config, images.fingerprint)
    digest = records.config_hash(fields)
    folder = runs_folder() / f"{images.name}-{held_out or 'all'}-{algorithm}-{scale}-s{seed}-{digest[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    with _sole_owner(folder):
        if not force and (found := records.find(digest)):
            return found
        if force and rank() == 0:
            checkpoint.clear(folder)
        _meet()
        record, embeddings, _ = train(config, images, folder, root)
        record["config"] = fields
        if rank() == 0:
            path = records.write(record, embeddings, force=force)
            checkpoint.clear(folder)
            record = records.read(path)
    return record


def _resolve(benchmark: str, scale: str | None, root: str | os.PathLike[str] | None) -> tuple[str, str]:
    """The benchmark and scale to run: a named benchmark that is not on disk falls back to the embedded digits."""
    if benchmark not in REGISTRY:
        benchmark = str(Path(benchmark).expanduser())
    if scale is None:
        scale = choose_scale(benchmark, root)
    if scale == "demo" and benchmark in REGISTRY and benchmark != "digits":
        say(f"{benchmark}: demo scale runs on the embedded digits, and the record says so")
        benchmark = "digits"
    return benchmark, scale


def choose_scale(benchmark: str, root: str | os.PathLike[str] | None = None) -> str:
    """The largest scale this machine is ready for: paper with the data and a GPU, cpu with the data, else demo."""
    present = benchmark not in REGISTRY or (benchmark != "digits" and locate(benchmark, root) is not None)
    return "demo" if not present else "paper" if torch.cuda.is_available() else "cpu"


def runs_folder() -> Path:
    """Where checkpoints of unfinished runs lie: $HYPO_RUNS, else _runs/ of the working copy, else ./_runs."""
    given = os.environ.get("HYPO_RUNS")
    return Path(given).expanduser() if given else records.home().parent / "_runs"


@contextlib.contextmanager
def _sole_owner(folder: Path) -> Iterator[None]:
    """Hold the run's lock; another process that wants it waits here."""
    with (folder / "lock").open("w") as lock:
        if rank() == 0:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another process is at this run; waiting for it to end")
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
    environment = _environment(device, trainer.precision)
    good = None
    if (found := checkpoint.latest(folder)) and found[1]["split"] == parts.fingerprint:
        good = found[0]
        trainer.load_state_dict(found[1])
        say(f"resumed at step {trainer.step_count} of {trainer.total_steps} from {good.name}")
    _fit(trainer, folder, good)
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
        "environment": environment,
    }
    return record, embeddings, trainer.algorithm.state_dict()


def _fit(trainer: Trainer, folder: Path, good: Path | None) -> None:
    """Step, evaluate and checkpoint until the last step; `good` is the checkpoint to fall back on, if there is one."""
    bar = tqdm(
        total=trainer.total_steps,
        initial=trainer.step_count,
        unit="step",
        disable=rank() > 0 or not sys.stderr.isatty(),
        dynamic_ncols=True,
    )
    saved = time.monotonic()
    while trainer.step_count < trainer.total_steps:
        at, started = trainer.step_count + 1, time.monotonic()
        try:
            terms = trainer.step()
            trainer.seconds += time.monotonic() - started
            entry = trainer.evaluate() if trainer.due() else None
        except (FloatingPointError, ValueError) as error:
            if "NaN" not in str(error):
                raise
            found = checkpoint.latest(folder)
            kept = f"the last good checkpoint is {found[0].name}" if found else "there was no checkpoint yet"
            raise TrainingError(
                f"training failed at step {at}, {error}; {kept}; lower lr, now {trainer.config.lr:g}"
            ) from error
        speed = f"{trainer.trained_images / trainer.seconds:.0f}"
        bar.set_postfix({name: f"{value:.3f}" for name, value in terms.items()} | {"images/s": speed}, refresh=False)
        bar.update()
        if entry:
            line = f"epoch {entry['epoch']:g}/{trainer.config.epochs}"
            line += "".join(f"  {name} {value:.3f}" for name, value in entry["train"].items())
            line += f"  validation {100 * entry['validation']['accuracy']:.1f}%  {speed} images/s"
            bar.write(line, file=sys.stderr) if not bar.disable else say(line)
        if rank() == 0 and (entry or time.monotonic() - saved > CHECKPOINT_SECONDS):
            good = checkpoint.save(folder, trainer.step_count, trainer.state_dict(), good)
            saved = time.monotonic()
    bar.close()


def _finish(trainer: Trainer, root: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metrics by each selection rule. The weights left in the algorithm are those chosen on validation."""
    algorithm, images, train = trainer.algorithm, trainer.images, trainer.parts.train
    last = {"epoch": trainer.config.epochs, "weights": copy.deepcopy(algorithm.state_dict())}
    candidates = {"last": last, **trainer.best}
    if trainer.swad:
        algorithm.load_state_dict(trainer.swad.average())
        outputs = outputs_of(algorithm, images.images[train], trainer.device, trainer.precision)
        algorithm.refit(outputs, torch.from_numpy(images.labels[train]).to(trainer.device))
        candidates["validation"] = {"epoch": trainer.config.epochs, "weights": copy.deepcopy(algorithm.state_dict())}
    finals, measured, embeddings = {}, {}, {}
    for rule in ("last", "oracle", "validation"):
        epoch, averaged = float(candidates[rule]["epoch"]), trainer.swad is not None and rule == "validation"
        algorithm.load_state_dict(candidates[rule]["weights"])
        if (epoch, averaged) not in measured:
            measured[epoch, averaged] = trainer.evaluator.final(algorithm, root)
        metrics, embeddings = measured[epoch, averaged]
        finals[rule] = {"epoch": epoch, **metrics}
    return finals, embeddings


def _peak_memory(device: torch.device) -> float:
    """MB of the device's memory; of the process's on a CPU, where the kernel counts in KB but on macOS."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _environment(device: torch.device, precision: torch.dtype) -> dict[str, Any]:
    status = _git("status", "--porcelain", "--", "hypo")
    on_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else f"cpu, {torch.get_num_threads()} threads",
        "ranks": world(),
        "precision": str(precision).removeprefix("torch."),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if status is None else bool(status),
    }


def _git(*arguments: str) -> str | None:
    """What git says of the working copy that hypo runs from; None without git or a working copy."""
    top = Path(__file__).resolve().parents[2]
    if not (top / ".git").exists() or shutil.which("git") is None:
        return None
    result = subprocess.run(["git", *arguments], cwd=top, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else None
