"""The first steps of a training on the sphere, watched one by one."""

from __future__ import annotations

import pandas as pd
import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from hypo.config import Config
from hypo.data.benchmarks import load
from hypo.data.splits import split
from hypo.geometry import prototype_separation
from hypo.sphere import to_sphere
from hypo.training.trainer import Trainer


def first_steps(config: Config, steps: int) -> pd.DataFrame:
    """Train HYPO on the CPU as `hypo.run` would, stop after `steps` steps, and keep nothing.

    Returns one row per step: temperature; embeddings and prototypes, the mean cosine of two of them; facing, the cosine
    between the mean embedding and the mean prototype it met; norm, the mean length of the head's output before it is
    normalised; gradient, the norm of the gradient of all weights; total, variation and separation, the losses.
    """
    images = load(config.benchmark, size=config.size)
    parts = split(images, config.held_out, config.seed, config.fraction, config.protocol)
    trainer = Trainer(config, images, parts, torch.device("cpu"))
    algorithm, passed = trainer.algorithm, []
    algorithm.network.head.register_forward_hook(lambda _module, _features, output: passed.append(output.detach()))
    rows = []
    for _ in range(steps):
        met = algorithm.prototypes().clone() if rows else None  # (C, d); they start within the first step
        terms = trainer.step()
        h = passed[-1]  # (N, d)
        z = to_sphere(h)
        rows.append(
            {
                "temperature": algorithm.criterion.temperature,
                "embeddings": _mean_cosine(z),
                "prototypes": _mean_cosine(algorithm.prototypes()),
                "facing": float("nan") if met is None else torch.cosine_similarity(z.mean(0), met.mean(0), dim=0).item(),
                "norm": h.norm(dim=1).mean().item(),
                "gradient": get_total_norm(p.grad for p in algorithm.parameters() if p.grad is not None).item(),
                **terms,
            }
        )
    return pd.DataFrame(rows).rename_axis("step")


def _mean_cosine(unit_vectors: Tensor) -> float:
    return 1 - prototype_separation(unit_vectors).item()
