"""What grows: the loss with classes and samples, a step with the method, memory with the images that are read.

Times are processor time of one thread, which other work on the machine does not lengthen.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from bench.core import batch, ours
from bench.timing import row
from hypo import kernels, sphere
from hypo.algorithms import ALGORITHMS
from hypo.config import configure
from hypo.data.benchmarks import load
from hypo.data.splits import split
from hypo.training.trainer import Trainer

LOSS = [(1024, 1000), (8192, 1000), (65536, 1000), (1024, 10_000), (8192, 10_000), (1024, 100_000)]
"""Samples and classes; d = 128."""
IMAGENET_100 = 126_000  # images at 224 px: 19 GB


def run(quick: bool = False) -> list[dict]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        sizes = [(256, 100), (512, 100)] if quick else LOSS
        rows = [operations_row(n) for n in (64, 1024, 8192)]
        rows += [loss_row(*size) for size in sizes]
        rows += method_rows(["erm", "hypo"] if quick else [*ALGORITHMS])
        rows.append(reading_row(200 if quick else IMAGENET_100))
    finally:
        torch.set_num_threads(threads)
    return rows


WITHOUT_WORK = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "as_strided",
    "view",
    "_unsafe_view",
    "reshape",
    "slice",
}
WITHOUT_WORK |= {
    "select",
    "detach",
    "alias",
    "t",
    "transpose",
    "expand",
    "unsqueeze",
    "squeeze",
    "_reshape_alias",
    "permute",
}
WITHOUT_WORK |= {
    "split",
    "split_with_sizes",
    "narrow",
    "lift_fresh",
    "item",
    "_local_scalar_dense",
    "unbind",
    "diagonal",
}
"""Operations of torch that start no kernel on a device."""


def operations(step: Callable[[], None]) -> int:
    """Operations on tensors of a call that a device would start a kernel for, counted by torch's profiler."""
    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()
    innermost = [event for event in profile.events() if event.name.startswith("aten::") and not event.cpu_children]
    return sum(event.name.removeprefix("aten::") not in WITHOUT_WORK for event in innermost)


class OneOperation:
    """In place of a kernel: any work of one operation, here a copy of its first argument into one of the others."""

    def __init__(self, target: int) -> None:
        self.target = target

    def __getitem__(self, _grid: tuple[int]) -> Callable[..., object]:
        return lambda *tensors, **_: tensors[self.target].copy_(tensors[0])


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Inside, the update takes the path of a GPU, with one operation in place of each of its two kernels."""
    forward, backward = (
        patch.object(kernels, "_walk", OneOperation(8)),
        patch.object(kernels, "_walk_back", OneOperation(7)),
    )
    with patch.object(sphere, "_on_gpu", lambda _: True), forward, backward:
        yield


def operations_row(n: int) -> dict:
    step = ours(*batch(n, 10, 128))
    scan = operations(step)
    with as_on_a_gpu():
        fused = operations(step)
    case = f"operations of a HypoLoss step, (N, C, d) = {(n, 10, 128)}, on a GPU, against the scan of CPUs"
    return row(case, fused, scan, "ops", "<= 100", fused <= 100)


def used(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def loss_row(n: int, classes: int, dim: int = 128) -> dict:
    """A call of HypoLoss and its backward against the matrix products in it alone; bytes kept between the two."""
    h, y, prototypes = batch(n, classes, dim)
    step, kept = ours(h, y, prototypes), []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.untyped_storage())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        step()
    held = sum({storage._cdata: storage.nbytes() for storage in kept}.values())
    kept.clear()
    block = max(1, sphere.BLOCK // classes)

    def products() -> None:
        for rows in (*h.detach().split(block), *prototypes.split(block)):
            logits = rows @ prototypes.T
            logits @ prototypes
            logits.T @ rows

    case = f"HypoLoss step, (N, C, d) = {(n, classes, dim)}, against its matrix products alone"
    more = {"samples": n, "classes": classes, "kept": held}
    return row(case, used(step) * 1e3, used(products) * 1e3, "ms") | more


def method_rows(names: list[str]) -> list[dict]:
    """Floating-point operations of a step of each method against ERM's, counted by torch on a small network."""
    images = load("digits")
    parts, counts = split(images, "cartoon"), {}
    for name in names:
        config = configure("digits", name, "cartoon", "demo", width=0.25, batch_size=33)
        trainer = Trainer(config, images, parts, torch.device("cpu"))
        trainer.step_count = trainer.total_steps // 2  # past any start-up of the method
        trainer.algorithm.prepare(trainer.evaluator)
        trainer.algorithm.train()
        drawn = trainer.batch(trainer.step_count)
        with FlopCounterMode(display=False) as counter:
            trainer.algorithm.update(drawn, 0.5)
        counts[name] = counter.get_total_flops()
    return [
        row(f"operations of a step of {name}, against ERM's", counts[name] / 1e9, counts["erm"] / 1e9, "GFLOP")
        | {"method": name}
        for name in names
    ]


def reading_row(images: int, size: int = 224) -> dict:
    """Random batches of 64 from a file of that many images through the memory map: what it adds to this process."""
    with tempfile.TemporaryDirectory() as folder:
        path, shape = Path(folder) / "images.npy", (images, size, size, 3)
        random = np.random.default_rng(0)
        block = random.integers(0, 256, (min(1000, images), size, size, 3), np.uint8)
        written = np.lib.format.open_memmap(path, "w+", np.uint8, shape)
        for at in range(0, images, len(block)):
            written[at : at + len(block)] = block[: images - at]
            written.flush()
        del written, block
        before = resident("RssAnon")
        mapped = np.load(path, mmap_mode="r")
        chosen = random.permutation(images)[: 64 * min(200, math.ceil(images / 64))]
        start, most = time.perf_counter(), 0
        for at in range(0, len(chosen), 64):
            batch = mapped[np.sort(chosen[at : at + 64])]
            batch.sum(dtype=np.int64)
            most = max(most, resident("RssAnon"))
            del batch
        speed = len(chosen) / (time.perf_counter() - start)
        added = max(most - before, 2**20)
    case = f"memory of this process to read {len(chosen):,} of {images:,} images of {size} px (obvious: load them)"
    whole = math.prod(shape)
    return row(case, added / 1e6, whole / 1e6, "MB") | {"images": images, "bytes": whole, "images_per_second": speed}


def resident(kind: str) -> int:
    """Bytes of this process in memory: RssAnon its own, RssFile pages of files, which the system may drop."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition(f"{kind}:")[2].split()[0])
