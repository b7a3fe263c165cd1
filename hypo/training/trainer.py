"""The state of a run and its step."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import get_total_norm

from hypo.algorithms import base, build
from hypo.config import Config
from hypo.data.augment import augment, step_generator
from hypo.data.benchmarks import data_root
from hypo.data.imageset import ImageSet
from hypo.data.splits import Split
from hypo.distributed import average_gradients, mean_over_ranks, rank, synchronise_batch_norm, world
from hypo.training.evaluate import Evaluator
from hypo.training.swad import Swad


class TrainingError(ValueError):
    """A run that cannot go on, and what to do."""


def choose_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    return torch.device("cpu")


def choose_precision(config: Config, device: torch.device) -> torch.dtype:
    """bfloat16 where it is faster, which of the devices tried is a GPU that supports it; float32 elsewhere."""
    if config.precision != "auto":
        return getattr(torch, config.precision)
    return torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else torch.float32


def choose_layout(module: nn.Module) -> torch.memory_format:
    """channels_last, which is faster on CPUs and GPUs, but for networks too narrow for it: backward of a strided 1x1
    convolution of fewer than 8 channels in this layout writes past its memory on CPUs (torch 2.14)."""
    narrow = (
        isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1) and m.stride != (1, 1) and m.in_channels < 8
        for m in module.modules()
    )
    return torch.contiguous_format if any(narrow) else torch.channels_last


class Trainer:
    """The state of a run and its step; everything that a checkpoint holds is in `state_dict`."""

    def __init__(self, config: Config, images: ImageSet, parts: Split, device: torch.device, root: Any = None) -> None:
        torch.manual_seed(config.seed)
        self.config, self.images, self.parts, self.device = config, images, parts, device
        self.precision = choose_precision(config, device)
        self.algorithm = build(_with_local_weights(config, root), len(images.class_names)).to(device)
        if self.precision == torch.float64:
            self.algorithm.double()
        self.layout = choose_layout(self.algorithm)
        self.algorithm = synchronise_batch_norm(self.algorithm, device).to(memory_format=self.layout)
        if config.accumulate > 1 and type(self.algorithm).losses is not base.Algorithm.losses:
            raise TrainingError(f"{config.algorithm} has a step of its own; leave accumulate at 1")
        if config.compile:
            self.algorithm.network.compile()
        fresh = {p for module in self.algorithm.fresh() for p in module.parameters()}
        groups = [
            {"params": [p for p in self.algorithm.parameters() if (p in fresh) == new], "factor": factor}
            for new, factor in ((False, 1.0), (True, config.head_lr))
        ]
        self.optimiser = torch.optim.SGD(groups, config.lr, config.sgd_momentum, weight_decay=config.weight_decay)
        self.steps = len(parts.train) // config.batch_size
        if not self.steps:
            raise TrainingError(
                f"{len(parts.train)} training images are fewer than one batch of {config.batch_size}; lower batch_size"
            )
        if config.batch_size % world():
            raise TrainingError(f"batch_size {config.batch_size} must be a multiple of the {world()} ranks")
        self.evaluator = Evaluator(images, parts, device, self.precision)
        self.swad = Swad() if config.swad else None
        self.step_count, self.seconds, self.trained_images = 0, 0.0, 0
        self.sums: dict[str, float] = {}
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

    def batch(self, step: int) -> tuple[Tensor, Tensor, Tensor]:
        """This rank's part of the batch of a step: images (views * b, 3, S, S), classes and domains.

        All of it follows from (seed, epoch, step), so a resumed run sees what the uninterrupted one would have.
        """
        config = self.config
        epoch, position = divmod(step, self.steps)
        order = np.random.default_rng([config.seed, 1 + epoch]).permutation(self.parts.train)
        whole = order[position * config.batch_size : (position + 1) * config.batch_size]
        pixels = torch.from_numpy(np.ascontiguousarray(self.images.images[np.sort(whole)])).to(self.device)
        pixels = pixels.permute(0, 3, 1, 2)[torch.from_numpy(np.argsort(np.argsort(whole))).to(self.device)]
        y = torch.from_numpy(self.images.labels[whole]).to(self.device)
        domains = torch.from_numpy(self.images.domains[whole]).to(self.device)
        views = [
            augment(pixels, config.augmentation, step_generator(config.seed, epoch, position, view))
            for view in range(config.views)
        ]
        each = slice(rank() * config.views * len(y) // world(), (rank() + 1) * config.views * len(y) // world())
        images = torch.cat(views)[each].contiguous(memory_format=self.layout)
        images = images.double() if self.precision == torch.float64 else images
        return images, y.repeat(config.views)[each], domains.repeat(config.views)[each]

    def step(self) -> dict[str, float]:
        """One optimiser step."""
        self.algorithm.train()
        images, y, domains = self.batch(self.step_count)
        torch.manual_seed(int(np.random.SeedSequence([self.config.seed, 2, self.step_count]).generate_state(1)[0]))
        rate = self.learning_rate(self.step_count)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        self.optimiser.zero_grad()
        terms = mean_over_ranks(self._backward(images, y, domains))
        if not math.isfinite(terms["total"]):
            raise FloatingPointError(f"the loss is NaN or infinite ({terms['total']})")
        average_gradients(self.algorithm)
        self.optimiser.step()
        if not get_total_norm(self.algorithm.parameters()).isfinite():
            raise FloatingPointError("the weights are NaN or infinite")
        self.step_count += 1
        self.trained_images += self.config.batch_size * self.config.views
        if self.swad:
            self.swad.step(self.algorithm.state_dict())
        for name, value in terms.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.sums["steps"] = self.sums.get("steps", 0) + 1
        return terms

    def _backward(self, images: Tensor, y: Tensor, domains: Tensor) -> dict[str, Tensor]:
        mixed = torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == torch.bfloat16)
        if self.config.accumulate == 1:
            with mixed:
                terms = self.algorithm(images, y, domains)
            terms["total"].backward()
            return terms
        return self._backward_in_parts(images, y, domains, mixed)

    def _backward_in_parts(self, images: Tensor, y: Tensor, domains: Tensor, mixed: Any) -> dict[str, Tensor]:
        """The loss of the whole batch with the graph of one part in memory at a time.

        Outputs come first, without gradients; then the loss and its gradient at them; then each part passes again, with
        the same random numbers, and takes its share of that gradient back. Batch norm sees the parts, and its running
        statistics move in the second pass only.
        """
        network, seed = self.algorithm.network, torch.initial_seed()
        chunks = images.chunk(self.config.accumulate)
        outputs = []
        with torch.no_grad(), mixed:
            for part, chunk in enumerate(chunks):
                torch.manual_seed(seed + part)
                spare = {name: buffer.clone() for name, buffer in network.named_buffers()}
                outputs.append(functional_call(network, spare, chunk))
        whole = torch.cat(outputs).requires_grad_()
        with mixed:
            terms = self.algorithm.loss(whole, y, domains)
        terms["total"].backward()
        for part, (chunk, gradient) in enumerate(zip(chunks, whole.grad.split([len(c) for c in chunks]), strict=True)):
            torch.manual_seed(seed + part)
            with mixed:
                again = network(chunk)
            again.backward(gradient)
        return terms

    def due(self) -> bool:
        """Whether an evaluation follows the step just made."""
        done, before = (self.config.evaluations * step // self.steps for step in (self.step_count, self.step_count - 1))
        return done > before

    def evaluate(self) -> dict[str, Any]:
        """Evaluate, extend the history, and keep the weights that are the best so far."""
        seen = self.evaluator.during(self.algorithm)
        if not math.isfinite(seen["validation"]["loss"]):
            raise FloatingPointError(f"the validation loss is NaN or infinite ({seen['validation']['loss']})")
        steps = self.sums.pop("steps")
        entry = {
            "epoch": self.step_count / self.steps,
            "lr": self.learning_rate(self.step_count - 1),
            "train": {name: value / steps for name, value in self.sums.items()},
            **seen,
        }
        self.sums = {}
        self.history.append(entry)
        if self.swad:
            self.swad.evaluated(seen["validation"]["loss"])
        oracle = seen["id_test" if seen["ood_test"]["accuracy"] is None else "ood_test"]["accuracy"]
        for rule, score in (("validation", seen["validation"]["accuracy"]), ("oracle", oracle)):
            if rule not in self.best or score > self.best[rule]["score"]:
                weights = copy.deepcopy(self.algorithm.state_dict())
                self.best[rule] = {"score": score, "epoch": entry["epoch"], "weights": weights}
        return entry

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the run depends on; schedule and position in the epoch follow from the step."""
        return {
            "split": self.parts.fingerprint,
            "algorithm": self.algorithm.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "swad": self.swad.state_dict() if self.swad else None,
            "random": torch.get_rng_state(),
            "step": self.step_count,
            "seconds": self.seconds,
            "trained_images": self.trained_images,
            "sums": self.sums,
            "history": self.history,
            "best": self.best,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.algorithm.load_state_dict(state["algorithm"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.swad:
            self.swad.load_state_dict(state["swad"])
        torch.set_rng_state(state["random"])
        self.step_count, self.seconds = state["step"], state["seconds"]
        self.trained_images, self.sums = state["trained_images"], dict(state["sums"])
        self.history, self.best = list(state["history"]), dict(state["best"])


def _with_local_weights(config: Config, root: Any) -> Config:
    """Take published weights from <data root>/weights when their file lies there, so that nothing is downloaded."""
    if config.weights is None or Path(config.weights).is_file():
        return config
    known = torchvision.models.get_model_weights(config.backbone)
    if config.weights in known.__members__:
        local = data_root(root) / "weights" / Path(known[config.weights].url).name
        if local.is_file():
            return dataclasses.replace(config, weights=str(local))
    return config
