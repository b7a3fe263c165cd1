"""A step of each method relative to ERM's: digits at demo scale, one batch in memory."""

from __future__ import annotations

from bench.timing import row, side_by_side
from bench.training import bare
from hypo.algorithms import ALGORITHMS
from hypo.config import configure
from hypo.data.benchmarks import load
from hypo.data.splits import split
from hypo.training.trainer import Trainer, choose_device


def run(quick: bool = False) -> list[dict]:
    images = load("digits")
    parts = split(images, "cartoon")
    reference = "erm"
    names = [name for name in ALGORITHMS if name != reference]
    trainers = [
        Trainer(configure("digits", name, "cartoon", "demo"), images, parts, choose_device())
        for name in (reference, *names)
    ]
    first, *others = side_by_side(*map(bare, trainers), rounds=1 if quick else 15)
    return [row(name, each * 1e3, first * 1e3, "ms") for name, each in zip(names, others, strict=True)]
