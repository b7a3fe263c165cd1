"""Runs an experiment end to end: train, select on training-domain validation, evaluate, record."""

from __future__ import annotations

import contextlib
import copy
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from tqdm import tqdm

from hypo import records
from hypo.config import Config, configure, identity, stored
from hypo.contracts import OffSphere
from hypo.data.benchmarks import REGISTRY, data_version, load, locate, refuse_incomplete
from hypo.data.imageset import ImageSet
from hypo.data.splits import split
from hypo.distributed import rank, world
from hypo.files import expanded, locked
from hypo.suggest import one_of, sentence
from hypo.training import checkpoint
from hypo.training.evaluate import compact
from hypo.training.trainer import Trainer, TrainingError, choose_device

CHECKPOINT_SECONDS = 60.0  # between two checkpoints
CHECKPOINT_PAUSE = 20.0  # times what the last one took, if that is longer: they take a twentieth of the time at most
PACKAGES = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "pandas")


@contextlib.contextmanager
def _enough_memory(folder: Path | None = None) -> Iterator[None]:
    """Say of a run that needs more memory than there is which checkpoint is left, and what it could do with less."""
    try:
        yield
    except (MemoryError, RuntimeError, ImportError, OSError, SystemError) as error:
        if "torchvision::nms does not exist" in str(error):  # its compiled part was not loaded
            raise TrainingError(
                "torchvision cannot be loaded: there is not enough memory for it, or its version does not fit torch's; "
                "end other programs, or install both as constraints.txt has them"
            ) from error
        words = (
            "allocate memory",  # of torch, and the text of ENOMEM
            "failed to map segment",  # of a library that is loaded late
            "could not create a primitive",
            "could not execute a primitive",
            "Storage size calculation overflowed",
            "without exception set",  # of Python itself, where it has none for a MemoryError
            "without setting an exception",
        )
        ours = isinstance(error, MemoryError | torch.OutOfMemoryError) or any(word in str(error) for word in words)
        if not (ours or isinstance(error.__context__, MemoryError)):  # torch.save raises another while it cleans up
            raise
        traceback.clear_frames(error.__traceback__)  # what the run held
        left = f"{_left(folder)}; " if folder else ""
        raise TrainingError(
            f"there is not enough memory for this run; {left}raise accumulate, so that a batch passes in parts, or "
            "lower size"
        ) from error


@_enough_memory()
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
    given = {"benchmark": os.fspath(benchmark), "held_out": held_out, "scale": scale}
    settings = settled(given | {"algorithm": algorithm, "seed": seed} | overrides, root)
    benchmark, held_out, config = settings["benchmark"], settings["held_out"], configure(**settings)
    if not force and (found := recorded(config, root)):
        _clear_remains(runs_folder() / records.name_of(found["identity"]))
        for note in found["benchmark"]["notes"]:
            say(note)
        return found
    images = load(config.benchmark, size=config.size, root=root)
    if held_out is not None:
        one_of("held_out domain", held_out, images.domain_names)
    if benchmark in REGISTRY:
        refuse_incomplete(images)
    about = _about(config, images)
    known = about["identity"]
    folder = runs_folder() / records.name_of(known)
    with _sole_owner(folder):
        if not force and (found := records.find(known)):
            return found
        if rank() == 0:
            records.ready(about)
            if force:
                checkpoint.clear(folder)
        _meet()
        for note in images.notes:
            say(note)
        with _enough_memory(folder):
            record, embeddings, _ = train(config, images, folder, root)
        if rank() == 0:
            with _safe_in(folder):
                path = records.write(record, embeddings, force=force)
            for left in path.parent.glob(f".{path.stem}.*.tmp"):  # by a process that was killed in writing it
                left.unlink()
            say(f"recorded as {path.name}")
            checkpoint.clear(folder)
            record = records.read(path)
    return record


def recorded(config: Config, root: str | os.PathLike[str] | None = None) -> dict[str, Any] | None:
    """The record of this run on the data that is here; where the data is not here, on any version of it."""
    name = config.benchmark
    if name in REGISTRY and name != "digits" and locate(name, root) is None:
        return records.find({key: value for key, value in identity(config, "").items() if key != "data"})
    if name == "digits":
        return records.find(identity(config, ""))
    return records.find(identity(config, data_version(name, load(name, size=config.size, root=root))))


def settled(settings: dict[str, Any], root: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """The settings of a run with what this machine decides: benchmark and scale, and no held-out domain of one."""
    benchmark, scale = _resolve(settings["benchmark"], settings.get("scale"), root)
    asked, held_out = REGISTRY.get(settings["benchmark"]), settings.get("held_out")
    if asked and benchmark != settings["benchmark"] and held_out in {*asked.domains} - {*REGISTRY[benchmark].domains}:
        raise ValueError(
            f"{benchmark}, which stand in for {settings['benchmark']} at demo scale or where it is not here, "
            f"have no domain {held_out!r}: fetch it by `hypo data {settings['benchmark']}`, or hold out one of "
            f"{', '.join(REGISTRY[benchmark].domains)}"
        )
    single = benchmark in REGISTRY and len(REGISTRY[benchmark].domains) < 2
    return settings | {"benchmark": benchmark, "scale": scale} | ({"held_out": None} if single else {})


def _resolve(benchmark: str, scale: str | None, root: str | os.PathLike[str] | None) -> tuple[str, str]:
    """The benchmark and scale to run: a named benchmark that is not on disk falls back to the embedded digits."""
    if benchmark not in REGISTRY:
        benchmark = str(expanded(benchmark).absolute())
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
    return expanded(given) if given else records.home().parent / "_runs"


@contextlib.contextmanager
def _sole_owner(folder: Path) -> Iterator[None]:
    """Hold the run's lock; another process that wants it waits here. Of several ranks, the first holds it for all."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"no checkpoint can be written to {folder.parent} ({error.strerror}): set $HYPO_RUNS to another folder"
        ) from error
    waiting = "another process is at this run; waiting for it to end"
    with locked(_lock(folder), waiting) if rank() == 0 else nullcontext():
        _meet()
        folder.mkdir(exist_ok=True)
        try:
            yield
        finally:
            if rank() == 0:  # which may be writing its last checkpoint when the others are done
                with contextlib.suppress(OSError):  # it holds a checkpoint, or a file that is not ours
                    folder.rmdir()


def _lock(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _clear_remains(folder: Path) -> None:
    """Remove what a process left that was killed after it wrote its record, unless another is at this run."""
    if rank() == 0 and _lock(folder).exists():
        with contextlib.suppress(OSError), locked(_lock(folder), None):
            checkpoint.clear(folder)
            folder.rmdir()


@contextlib.contextmanager
def _safe_in(folder: Path) -> Iterator[None]:
    """Say of an error in writing a file which checkpoint is left."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{sentence(error)}; {_left(folder)}; make room, and the same command goes on") from error


def _left(folder: Path) -> str:
    found = checkpoint.newest(folder)
    return f"the last good checkpoint is {found.name}" if found else "there was no checkpoint yet"


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
    environment = _environment(config, device, trainer.precision)
    good = None
    if (found := checkpoint.latest(folder)) and found[1]["split"] == parts.fingerprint:
        good = found[0]
        trainer.load_state_dict(found[1])
        say(f"resumed at step {trainer.step_count} of {trainer.total_steps} from {good.name}")
    record = _about(config, images) | {
        "split": {
            "fingerprint": parts.fingerprint,
            "protocol": parts.protocol,
            "sizes": {part: len(getattr(parts, part)) for part in ("train", "validation", "id_test", "ood_test")},
        },
        "selection": "validation",
        "environment": environment,
    }
    records.storable(record)
    _fit(trainer, folder, good)
    finals, embeddings = _finish(trainer, root)
    cost = {
        "seconds": trainer.seconds,
        "evaluation_seconds": trainer.evaluation_seconds,
        "images_per_second": trainer.trained_images / max(trainer.seconds, 1e-9),
        "peak_memory_mb": _peak_memory(device),
    }
    return (
        record | {"epochs": trainer.history, "final": finals, "cost": cost},
        embeddings,
        trainer.algorithm.state_dict(),
    )


def _about(config: Config, images: ImageSet) -> dict[str, Any]:
    """The part of a record that is known before the run."""
    data = data_version(config.benchmark, images)
    return {
        "config": stored(config, data),
        "data": data,
        "identity": identity(config, data),
        "benchmark": {
            "name": images.name,
            "fingerprint": images.fingerprint,
            "classes": list(images.class_names),
            "domains": list(images.domain_names),
            "notes": list(images.notes),
        },
    }


def _fit(trainer: Trainer, folder: Path, good: Path | None) -> None:
    """Step, evaluate and checkpoint until the last step; `good` is the checkpoint to fall back on, if there is one."""
    bar = tqdm(
        total=trainer.total_steps,
        initial=trainer.step_count,
        unit="step",
        disable=rank() > 0 or not sys.stderr.isatty(),
        dynamic_ncols=True,
        mininterval=1,
    )
    saved, pause = time.monotonic(), CHECKPOINT_SECONDS
    while trainer.step_count < trainer.total_steps:
        at, started = trainer.step_count + 1, time.monotonic()
        try:
            terms = trainer.step()
            save = rank() == 0 and (time.monotonic() - saved > pause or at == trainer.total_steps)
            if save:
                trainer.check()
            stepped = time.monotonic()
            trainer.seconds += stepped - started
            entry = trainer.evaluate() if trainer.due() else None
            trainer.evaluation_seconds += time.monotonic() - stepped
        except (FloatingPointError, OffSphere, torch.linalg.LinAlgError) as error:
            known = isinstance(error, FloatingPointError)
            why = error if known else f"step {at}, the embeddings are NaN, infinite or all zero"
            raise TrainingError(
                f"training failed at {why}; {_left(folder)}; lower lr, now {trainer.config.lr:g}"
            ) from error
        except AssertionError as error:
            if trainer.step_count:
                raise
            size, backbone = trainer.config.size, trainer.config.backbone
            raise TrainingError(f"{backbone} takes no images of {size} px ({error}): choose another size") from error
        speed = f"{trainer.trained_images / trainer.seconds:.0f}"
        if bar.update():  # it was drawn, once a second: a GPU is waited for to tell the terms
            bar.set_postfix({name: f"{value:.3f}" for name, value in terms.items()} | {"images/s": speed})
        if entry:
            line = f"epoch {entry['epoch']:g}/{trainer.config.epochs}"
            line += "".join(f"  {name} {value:.3f}" for name, value in entry["train"].items())
            line += f"  validation {100 * entry['validation']['accuracy']:.1f}%  {speed} images/s"
            bar.write(line, file=sys.stderr) if not bar.disable else say(line)
        if save:
            before = time.monotonic()
            with _safe_in(folder):
                good = checkpoint.save(folder, trainer.step_count, trainer.state_dict(), good)
            saved = time.monotonic()
            pause = max(CHECKPOINT_SECONDS, CHECKPOINT_PAUSE * (saved - before))
    bar.close()


def _finish(trainer: Trainer, root: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Measures by each rule of selection. The weights left in the algorithm are those chosen on validation."""
    algorithm, evaluator = trainer.algorithm, trainer.evaluator
    weights = {"last": copy.deepcopy(algorithm.state_dict())}
    weights |= {rule: kept["weights"] for rule, kept in trainer.best.items()}
    epochs = {"last": float(trainer.config.epochs)} | {rule: kept["epoch"] for rule, kept in trainer.best.items()}
    first, last, valley = trainer.swad.found()
    algorithm.load_state_dict(trainer.swad.average())
    if algorithm.prototypes() is not None:
        algorithm.refit(evaluator.outputs(algorithm, "train"), evaluator.classes("train"))
    averaged = {
        "first": trainer.history[first]["epoch"],
        "last": trainer.history[last]["epoch"],
        "evaluations": last - first + 1,
        "starts_at_first": first == 0,
        "valley": valley,
    }
    finals = {"swad": {"epoch": averaged["last"], **evaluator.final(algorithm, root)[0], "interval": averaged}}
    measured: dict[float, tuple[dict[str, Any], dict[str, np.ndarray]]] = {}
    for rule in ("last", "oracle", "validation"):
        algorithm.load_state_dict(weights[rule])
        if epochs[rule] not in measured:
            measured[epochs[rule]] = evaluator.final(algorithm, root)
        finals[rule] = {"epoch": epochs[rule], **measured[epochs[rule]][0]}
    return {rule: finals[rule] for rule in records.RULES}, compact(measured[epochs["validation"]][1])


def _peak_memory(device: torch.device) -> float:
    """MB of the device's memory; of the process's on a CPU, where the kernel counts in KB but on macOS."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _environment(config: Config, device: torch.device, precision: torch.dtype) -> dict[str, Any]:
    status = _git("status", "--porcelain", "--", "hypo")
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "ranks": world(),
        "precision": str(precision).removeprefix("torch."),
        "accumulate": config.accumulate,
        "compile": config.compile,
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
