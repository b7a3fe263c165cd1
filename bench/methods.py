"""A step of each method beside one of ERM's: digits at demo scale, one batch in memory.

Processor time of one thread, which other processes on the machine change little.
"""

from __future__ import annotations

import time

import torch

from bench.timing import row, side_by_side
from bench.training import bare
from hypo.algorithms import ALGORITHMS
from hypo.config import configure
from hypo.data.benchmarks import load
from hypo.data.splits import split
from hypo.training.trainer import Trainer

REFERENCE = "erm"


def run(quick: bool = False) -> list[dict]:
    images, threads = load("digits"), torch.get_num_threads()
    parts = split(images, "cartoon")
    names = [REFERENCE, *(name for name in ALGORITHMS if name != REFERENCE)]
    configs = [configure("digits", name, "cartoon", "demo") for name in names]
    steps = [bare(Trainer(config, images, parts, torch.device("cpu"))) for config in configs]
    torch.set_num_threads(1)
    first, *others = side_by_side(*steps, rounds=1 if quick else 7, clock=time.process_time)
    torch.set_num_threads(threads)
    return [row(name, t * 1e3, first * 1e3, "ms", "none") for name, t in zip(names[1:], others, strict=True)]
