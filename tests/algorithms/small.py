"""A tiny run on a few digits, and a method alone, for the tests of single methods."""

import torch
from torch import Tensor
from training.helpers import small_digits

from hypo.algorithms import build
from hypo.algorithms.base import Algorithm
from hypo.config import Config, configure
from hypo.data.splits import split
from hypo.training.trainer import Trainer

CLASSES, DOMAINS = 5, 3


def config(algorithm: str, **fields) -> Config:
    tiny = {"width": 0.125, "dim": 8, "size": 16, "batch_size": 54, "epochs": 24, "lr": 0.02, "head_lr": 2.0}
    return configure("digits", algorithm, "cartoon", **tiny | fields)


def method(algorithm: str, **fields) -> Algorithm:
    """A method with random weights, in float64."""
    torch.manual_seed(0)
    return build(config(algorithm, **fields), CLASSES, DOMAINS).double()


def trainer(algorithm: str, **fields) -> Trainer:
    images = small_digits()
    return Trainer(config(algorithm, **fields), images, split(images, "cartoon"), torch.device("cpu"))


def learns(algorithm: str, **fields) -> Trainer:
    """Train to the end; check that new images of the training domains are classified better than by chance.

    The bound is twice chance; over six seeds every method was above three times chance.
    """
    run = trainer(algorithm, **{"batch_size": 18, "epochs": 12} | fields)
    for _ in range(run.total_steps):
        run.step()
    seen = run.evaluator.during(run.algorithm, tests=True)
    assert seen["id_test"]["accuracy"] > 2 / CLASSES
    return run


def features(algorithm: Algorithm, n: int = 24, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Random features (n, d) float64, classes, and domains in turns."""
    random = torch.Generator().manual_seed(seed)
    outputs = torch.randn(n, algorithm.feature_dim, generator=random, dtype=torch.float64)
    return outputs, torch.randint(CLASSES, (n,), generator=random), torch.arange(n) % DOMAINS
