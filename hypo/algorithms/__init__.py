"""The methods. Each lives in a file of its own as a class `Algorithm`; this is their registry.

An algorithm is a `torch.nn.Module` with

    network                      images (N, 3, H, W) -> outputs (N, k)
    loss(outputs, y, domains)    -> {"total": scalar, and every term worth logging}
    logits(outputs)              -> (N, C) of the classifier; its cross-entropy is the validation loss
    predict(outputs)             -> (N,) classes
    embed(outputs)               -> (N, d) unit vectors, for the geometry
    prototypes()                 -> (C, d) unit vectors those are compared with, or None: the class means are taken
    refit(outputs, y)            called with the training set's outputs after the weights changed other than by a step
    fresh()                      modules that start from random weights, which may learn faster (`head_lr`)

built from `Algorithm(config, num_classes)`. A method whose step is not "outputs of a batch, then a loss" overrides
`losses(images, y, domains)`, which is all that the engine calls.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypo.algorithms.base import Algorithm
    from hypo.config import Config

ALGORITHMS = {name: f"hypo.algorithms.{name}" for name in ("erm", "hypo", "pcl")}
"""Name -> module; a method of your own is one more entry."""


def build(config: Config, num_classes: int) -> Algorithm:
    """The algorithm that `config` names, for this many classes."""
    return import_module(ALGORITHMS[config.algorithm]).Algorithm(config, num_classes)
