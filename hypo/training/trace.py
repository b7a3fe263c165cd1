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

    Returns one row per step, with the losses and
        temperature             of the step
        embeddings, prototypes  mean cosine of two of them
        facing                  cosine between the mean embedding and the mean prototype it met; NaN in the first step
        norm                    mean length of the head's output before it is normalised
        gradient                norm of the gradient of all weights
    """
    images = load(config.benchmark, size=config.size)
    parts = split(images, config.held_out, config.seed, config.fraction, config.protocol)
    trainer = Trainer(config, images, parts, torch.device("cpu"))
    algorithm, passed = trainer.algorithm, []
    algorithm.network.head.register_forward_hook(lambda _module, _features, output: passed.append(output.detach()))
    rows = []
    for _ in range(steps):
        met = algorithm.prototypes().mean(dim=0)
        terms = trainer.step()
        h = passed[-1]  # (N, d)
        z = to_sphere(h)
        rows.append(
            {
                "temperature": algorithm.criterion.temperature,
                "embeddings": _mean_cosine(z),
                "prototypes": _mean_cosine(algorithm.prototypes()),
                "facing": torch.cosine_similarity(z.mean(dim=0), met, dim=0).item() if rows else float("nan"),
                "norm": h.norm(dim=1).mean().item(),
                "gradient": get_total_norm(p.grad for p in algorithm.parameters() if p.grad is not None).item(),
                **terms,
            }
        )
    return pd.DataFrame(rows).rename_axis("step")


def _mean_cosine(unit_vectors: Tensor) -> float:
    return 1 - prototype_separation(unit_vectors).item()
