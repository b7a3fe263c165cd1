"""A whole training step against the bare network's on one batch in memory, and against the released code's way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from bench.loading import plain_transform
from bench.timing import row, side_by_side
from hypo.config import configure
from hypo.data.benchmarks import load, locate
from hypo.data.folders import scan
from hypo.data.splits import split
from hypo.sphere import separation_loss, variation_loss
from hypo.training.trainer import Trainer, choose_device

CASES = {
    "pacs": ("cartoon", "MobileNetV2 at 112 px on PACS"),
    "cifar10": (None, "narrow ResNet-18 at 32 px on CIFAR-10"),
}


def bare(trainer: Trainer) -> Callable[[], None]:
    """Forward, backward and optimiser step on one batch that is there already."""
    batch = trainer.batch(0)

    def step() -> None:
        trainer.algorithm.train()
        trainer.algorithm.update(batch, 0.5)

    return step


def released_way(trainer: Trainer) -> Callable[[], None]:
    """The same step as a plain loop: each image opened and transformed, each prototype updated, one by one."""
    listing = scan(locate("pacs"))
    order = np.random.default_rng(0).permutation(trainer.parts.train)
    transform, algorithm = plain_transform(trainer.config.size), trainer.algorithm
    mu = algorithm.criterion.prototypes.clone()
    (optimiser,), method = algorithm.steppers, trainer.config.method

    def step() -> None:
        algorithm.train()
        optimiser.zero_grad()
        chosen = order[: trainer.config.batch_size]
        opened = [Image.open(listing.root / listing.paths[i]).convert("RGB") for i in chosen]
        z = algorithm.network(torch.stack([transform(image) for image in opened]))
        y = torch.from_numpy(trainer.images.labels[chosen])
        rows = list(mu)
        for sample, c in zip(z.unbind(), y.tolist(), strict=True):
            rows[c] = F.normalize(method.momentum * rows[c] + (1 - method.momentum) * sample, dim=0)
        after = torch.stack(rows)
        loss = variation_loss.__wrapped__(z, y, after.detach(), method.temperature)
        loss = loss + separation_loss.__wrapped__(after, method.temperature)
        loss.backward()
        optimiser.step()

    return step


def run(quick: bool = False) -> list[dict]:
    rows = []
    for benchmark, (held_out, title) in CASES.items():
        if locate(benchmark) is None:
            print(f"training: {benchmark} skipped, it is not under the data root")
            continue
        config = configure(benchmark, "hypo", held_out, "cpu", weights=None)
        images = load(benchmark, size=config.size)
        trainer = Trainer(config, images, split(images, held_out), choose_device())
        ways = [trainer.step, bare(trainer)] + ([released_way(trainer)] if benchmark == "pacs" else [])
        ours, alone, *released = side_by_side(*ways, rounds=1 if quick else 5)
        share = f"{title}: {100 * alone / ours:.0f}% of the bare network's speed"
        rows.append(row(share, ours * 1e3, alone * 1e3, "ms", ">= 90%", alone / ours >= 0.9))
        rows += [row(f"{title}: against the released code's way", ours * 1e3, t * 1e3, "ms") for t in released]
    return rows
