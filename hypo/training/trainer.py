"""The state of a run and its step."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from hypo.algorithms import build
from hypo.algorithms.base import Batch
from hypo.config import Config
from hypo.contracts import OffSphere
from hypo.data.augment import augment, step_generator
from hypo.data.benchmarks import data_root
from hypo.data.imageset import ImageSet
from hypo.data.splits import Split
from hypo.distributed import mean_over_ranks, rank, synchronise_batch_norm, world
from hypo.training.evaluate import Evaluator
from hypo.training.swad import Swad

CHECK_STEPS = 10  # between two looks at loss and weights, for each of which a GPU is waited for


class TrainingError(ValueError):
    """A run that cannot go on, and what to do."""


def choose_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    return torch.device("cpu")


def choose_precision(config: Config, device: torch.device) -> torch.dtype:
    """bfloat16 where it is faster, which of the devices tried is a GPU that supports it; float32 elsewhere."""
    if config.precision == "bfloat16" and device.type == "cpu":
        raise TrainingError("bfloat16 is for GPUs: a CPU is slower with it, or dies of it; leave precision at auto")
    if config.precision != "auto":
        return getattr(torch, config.precision)
    return (
        torch.bfloat16
        if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        else torch.float32
    )


def choose_layout(module: nn.Module) -> torch.memory_format:
    """channels_last, which is faster on CPUs and GPUs, but for networks too narrow for it: backward of a strided 1x1
    convolution of fewer than 8 channels in this layout writes past its memory on CPUs (torch 2.14)."""
    narrow = (
        isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1) and m.stride != (1, 1) and m.in_channels < 8
        for m in module.modules()
    )
    return torch.contiguous_format if any(narrow) else torch.channels_last


class ReadAhead:
    """`read`, with the result for the step after the one asked for being made in a thread meanwhile."""

    def __init__(self, read: Callable[[int], tuple[Tensor, ...]]) -> None:
        self.read, self.thread = read, ThreadPoolExecutor(1)
        self.coming: dict[int, Future[tuple[Tensor, ...]]] = {}

    def __call__(self, step: int) -> tuple[Tensor, ...]:
        now = self.coming.pop(step, None)
        drawn = now.result() if now else self.read(step)
        self.coming = {step + 1: self.thread.submit(self.read, step + 1)}
        return drawn


class Terms(Mapping[str, float]):
    """Scalars on the device by name, each a number, which is waited for, when it is read."""

    def __init__(self, scalars: dict[str, Tensor]) -> None:
        self.scalars = scalars

    def __getitem__(self, name: str) -> float:
        return self.scalars[name].item()

    def __iter__(self) -> Iterator[str]:
        return iter(self.scalars)

    def __len__(self) -> int:
        return len(self.scalars)


class Trainer:
    """The state of a run and its step; everything that a checkpoint holds is in `state_dict`."""

    def __init__(self, config: Config, images: ImageSet, parts: Split, device: torch.device, root: Any = None) -> None:
        torch.manual_seed(config.seed)
        self.config, self.images, self.parts, self.device = config, images, parts, device
        self.precision = choose_precision(config, device)
        self.members = [parts.train[images.domains[parts.train] == e] for e in np.unique(images.domains[parts.train])]
        """Training images of each training domain, which a method sees counted 0..E-1."""
        self.algorithm = build(_with_local_weights(config, root), len(images.class_names), len(self.members)).to(device)
        if self.precision == torch.float64:
            self.algorithm.double()
        self.layout = choose_layout(self.algorithm)
        self.algorithm = synchronise_batch_norm(self.algorithm, device).to(memory_format=self.layout)
        if config.compile:
            self.algorithm.network.compile()
        self.algorithm.overlap(device)
        self.algorithm.steppers = self.algorithm.optimisers()
        self.steps = len(parts.train) // config.batch_size
        if not self.steps:
            raise TrainingError(
                f"{len(parts.train)} training images are fewer than one batch of {config.batch_size}; lower batch_size"
            )
        if config.batch_size < world() * len(self.members):
            raise TrainingError(
                f"batch_size {config.batch_size} is too small: {len(self.members)} domains, {world()} ranks; raise it"
            )
        if config.batch_size * config.views < 2 * world() * config.accumulate:
            raise TrainingError(
                f"accumulate {config.accumulate} leaves fewer than 2 images of a batch of {config.batch_size} to a "
                "part; lower it"
            )
        self.reader = ReadAhead(self.read) if device.type == "cuda" else None
        """Reads the next batch while a GPU works; a CPU has no time to spare."""
        self.evaluator = Evaluator(images, parts, device, self.precision)
        self.swad = Swad(config.benchmark)
        self.step_count, self.trained_images = 0, 0
        self.seconds, self.evaluation_seconds = 0.0, 0.0
        self.sums: dict[str, Any] = {}
        """Of each term over the steps since the last evaluation: tensors on the device, numbers once checked."""
        self.unchecked: list[Tensor] = []
        """Loss and norm of the weights (2,) of each step since the last check, on the device."""
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, dict[str, Any]] = {}

    @property
    def total_steps(self) -> int:
        return self.steps * self.config.epochs

    def learning_rate(self, step: int) -> float:
        """Linear warm-up, then half a cosine to 0 over the run."""
        warm = self.config.warmup * self.steps
        if step < warm:
            return self.config.lr * (step + 1) / warm
        return self.config.lr * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, self.total_steps - warm)))

    def chosen(self, step: int) -> np.ndarray:
        """The images of a step's batch, as the method's sampling has them; indices into the ImageSet, (b,).

        "per_domain" takes as many from each training domain, in turns, going through each at its own pace.
        """
        config = self.config
        if self.algorithm.sampling == "pooled":
            epoch, position = divmod(step, self.steps)
            order = np.random.default_rng([config.seed, 1 + epoch]).permutation(self.parts.train)
            return order[position * config.batch_size : (position + 1) * config.batch_size]
        share = config.batch_size // len(self.members)
        at = step * share + np.arange(share)
        drawn = []
        for domain, members in enumerate(self.members):
            rounds, places = np.divmod(at, len(members))
            orders = {r: np.random.default_rng([config.seed, 1 + r, domain]).permutation(members) for r in set(rounds)}
            drawn.append([orders[r][place] for r, place in zip(rounds, places, strict=True)])
        return np.array(drawn).T.reshape(-1)

    def batch(self, step: int) -> Batch:
        """This rank's part of the batch of a step, each image in `views` augmentations.

        All of it follows from (seed, step), so a resumed run sees what the uninterrupted one would have.
        """
        config, drawn = self.config, self.reader(step) if self.reader else self.read(step)
        epoch, position = divmod(step, self.steps)
        pixels, place, y, domains = (part.to(self.device, non_blocking=True) for part in drawn)
        pixels = pixels.permute(0, 3, 1, 2)[place]
        views = [
            augment(pixels, config.augmentation, step_generator(config.seed, epoch, position, view))
            for view in range(config.views)
        ]
        each = slice(rank() * config.views * len(y) // world(), (rank() + 1) * config.views * len(y) // world())
        images = torch.cat(views)[each].contiguous(memory_format=self.layout)
        images = images.double() if self.precision == torch.float64 else images
        return Batch(images, y.repeat(config.views)[each], domains.repeat(config.views)[each])

    def read(self, step: int) -> tuple[Tensor, ...]:
        """What a step's batch needs from memory or disk: distinct pixels, the place of each image, classes, domains."""
        whole = self.chosen(step)
        ordered, place = np.unique(whole, return_inverse=True)
        names = [self.images.domains[members[0]] for members in self.members]
        domains = np.searchsorted(names, self.images.domains[whole])
        parts = (np.ascontiguousarray(self.images.images[ordered]), place, self.images.labels[whole], domains)
        tensors = tuple(map(torch.from_numpy, parts))
        return tuple(part.pin_memory() for part in tensors) if self.device.type == "cuda" else tensors

    def step(self) -> Terms:
        """One step of the method; the terms of its loss."""
        if not self.step_count:
            self.algorithm.prepare(self.evaluator)
        self.algorithm.train()
        batch = self.batch(self.step_count)
        torch.manual_seed(int(np.random.SeedSequence([self.config.seed, 2, self.step_count]).generate_state(1)[0]))
        rate, frozen = self.learning_rate(self.step_count), self.step_count < self.config.freeze * self.steps
        for group in (group for optimiser in self.algorithm.steppers for group in optimiser.param_groups):
            group["lr"] = 0.0 if frozen and group["pretrained"] else rate * group["factor"]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == torch.bfloat16):
            try:
                terms = mean_over_ranks(self.algorithm.update(batch, self.step_count / self.total_steps))
            except (OffSphere, torch.linalg.LinAlgError):
                self.check()  # a step before this one may be to blame
                raise
        self.unchecked.append(torch.stack([terms["total"], get_total_norm(self.algorithm.parameters()).double()]))
        self.step_count += 1
        self.trained_images += self.config.views * len(self.chosen(self.step_count - 1))
        self.swad.step(self.algorithm.state_dict())
        for name, value in terms.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.sums["steps"] = self.sums.get("steps", 0) + 1
        if self.step_count % CHECK_STEPS == 0 or self.due():
            self.check()
        return Terms(terms)

    def check(self) -> None:
        """Wait for the device, and refuse a loss or weights that were NaN or infinite at any step since the last check.

        Evaluations and checkpoints begin with it, so none is ever of such weights.
        """
        seen = torch.stack(self.unchecked).tolist() if self.unchecked else []
        for step, (loss, norm) in enumerate(seen, self.step_count - len(seen) + 1):
            if not math.isfinite(loss):
                raise FloatingPointError(f"step {step}, the loss is NaN or infinite ({loss})")
            if not math.isfinite(norm):
                raise FloatingPointError(f"step {step}, the weights are NaN or infinite")
        self.unchecked = []
        self.sums = {name: value.item() if isinstance(value, Tensor) else value for name, value in self.sums.items()}

    def due(self) -> bool:
        """Whether an evaluation follows the step just made."""
        done, before = (self.config.evaluations * step // self.steps for step in (self.step_count, self.step_count - 1))
        return done > before

    def evaluate(self) -> dict[str, Any]:
        """Evaluate, extend the history, and keep the weights that are the best so far."""
        self.check()
        seen = self.evaluator.during(self.algorithm, tests=self.step_count % self.steps == 0)
        if not math.isfinite(seen["validation"]["loss"]):
            why = f"the validation loss is NaN or infinite ({seen['validation']['loss']})"
            raise FloatingPointError(f"step {self.step_count}, {why}")
        steps = self.sums.pop("steps")
        entry = {
            "epoch": self.step_count / self.steps,
            "lr": self.learning_rate(self.step_count - 1),
            "train": {name: value / steps for name, value in self.sums.items()},
            **seen,
        }
        self.sums = {}
        self.history.append(entry)
        self.swad.evaluated(seen["validation"]["loss"])
        held_out = len(self.parts.ood_test) > 0
        scores = {"validation": seen["validation"]["accuracy"]}
        scores["oracle"] = seen["ood_test" if held_out else "id_test"]["accuracy"]
        for rule, score in scores.items():
            if score is not None and (rule not in self.best or score > self.best[rule]["score"]):
                weights = copy.deepcopy(self.algorithm.state_dict())
                self.best[rule] = {"score": score, "epoch": entry["epoch"], "weights": weights}
        return entry

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the run depends on; schedule and position in the epoch follow from the step."""
        self.check()
        return {
            "split": self.parts.fingerprint,
            "algorithm": self.algorithm.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.algorithm.steppers],
            "swad": self.swad.state_dict(),
            "random": torch.get_rng_state(),
            "step": self.step_count,
            "seconds": self.seconds,
            "evaluation_seconds": self.evaluation_seconds,
            "trained_images": self.trained_images,
            "sums": self.sums,
            "history": self.history,
            "best": self.best,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.algorithm.load_state_dict(state["algorithm"])
        for optimiser, saved in zip(self.algorithm.steppers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.swad.load_state_dict(state["swad"])
        torch.set_rng_state(state["random"])
        self.step_count = state["step"]
        self.seconds, self.evaluation_seconds = state["seconds"], state["evaluation_seconds"]
        self.trained_images, self.sums, self.unchecked = state["trained_images"], dict(state["sums"]), []
        self.history, self.best = list(state["history"]), dict(state["best"])


def _with_local_weights(config: Config, root: Any) -> Config:
    """Take weights from <data root>/weights when their file lies there: published ones, so that nothing is downloaded,
    or those that a record knows as name@sha256."""
    if config.weights is None or Path(config.weights).is_file():
        return config
    import torchvision  # here, since it takes longer to import than all else

    from hypo.model import refuse_damaged

    known = torchvision.models.get_model_weights(config.backbone).__members__
    name, _, digest = config.weights.partition("@")
    if not digest and name not in known:
        return config
    local = data_root(root) / "weights" / (name if digest else Path(known[name].url).name)
    if digest and not (local.is_file() and hashlib.sha256(local.read_bytes()).hexdigest().startswith(digest)):
        raise TrainingError(f"no file {local} whose sha256 begins with {digest}: put those weights there")
    if not local.is_file():
        return config
    if not digest:
        refuse_damaged(local)
    return dataclasses.replace(config, weights=str(local))
