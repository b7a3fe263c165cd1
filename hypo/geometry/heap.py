"""Embeddings that know nothing of their classes: the heap, a spread, and where the two losses push them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from hypo.geometry.alignment import prototype_separation
from hypo.sphere import class_means, separation_loss, to_sphere, update_prototypes, variation_loss


class Unrelated(NamedTuple):
    """A batch whose embeddings are independent of its classes, with the prototypes that such batches lead to.

    z (N, d), y (N,), before and after (C, d): the prototypes before this batch moves them, and after
    fresh (N, d): as many embeddings of the same kind, which no prototype has seen
    """

    z: Tensor
    y: Tensor
    before: Tensor
    after: Tensor
    fresh: Tensor


def unrelated(
    cosine: float,
    num_classes: int = 10,
    dim: int = 64,
    batch: int = 64,
    batches: int = 1,
    momentum: float = 0.95,
    seed: int = 0,
) -> Unrelated:
    """Batches of z = (e + s x) / ||.|| with one direction e and Gaussian x, whatever the class.

    cosine   of two such embeddings, about, in the mean: s is chosen for it; 1 is the heap
    batches  how many move the prototypes

    As in `HypoLoss`, each prototype starts at its class's mean, in a batch before these.
    """
    if not 0 < cosine <= 1:
        raise ValueError(f"the mean cosine of two embeddings must be in (0, 1], not {cosine}; 1 is the heap")
    random = torch.Generator().manual_seed(seed)
    centre = torch.eye(dim, dtype=torch.float64)[0]
    size = ((1 / cosine - 1) / dim) ** 0.5  # ||s x||^2 is 1 / cosine - 1 in the mean

    def draw() -> Tensor:
        return to_sphere(centre + size * torch.randn(batch, dim, dtype=torch.float64, generator=random))

    y = torch.arange(batch) % num_classes
    after = class_means(draw(), y, num_classes)
    for _ in range(batches):
        z, before = draw(), after
        after = update_prototypes(before, z, y, momentum)
    return Unrelated(z, y, before, after, draw())


class Push(NamedTuple):
    """Gradients along the sphere at the N embeddings of a batch, as one loss makes them.

    length    root mean square of N times the gradient at an embedding
    together  squared length of their mean, over the mean of their squared lengths: 1 when all embeddings are pushed
              one way, about 1 / N when each is pushed its own way, NaN without any gradient
    """

    length: float
    together: float


def pushes(
    z: Tensor, y: Tensor, prototypes: Tensor, temperature: float, momentum: float = 0.95, domains: Tensor | None = None
) -> dict[str, Push]:
    """What `HypoLoss` does to a batch z (N, d) that meets `prototypes` (C, d), for each of its two terms."""
    z = z.detach().requires_grad_()
    after = update_prototypes(prototypes, z, y, momentum)
    losses = {
        "variation": variation_loss(z, y, after.detach(), temperature, domains),
        "separation": separation_loss(after, temperature),
    }
    return {name: _push(z, torch.autograd.grad(loss, z, retain_graph=True)[0]) for name, loss in losses.items()}


def _push(z: Tensor, gradient: Tensor) -> Push:
    along = len(z) * (gradient - (gradient * z).sum(dim=1, keepdim=True) * z).detach()  # (N, d) without the radial part
    squares = along.square().sum(dim=1).mean()
    return Push(squares.sqrt().item(), (along.mean(dim=0).square().sum() / squares).item())


def by_spread(cosines: Sequence[float], temperature: float, batches: int = 1, draws: int = 10) -> pd.DataFrame:
    """What the losses are for `unrelated` batches at these mean cosines, and how they push; means over `draws` of them.

    Returns  indexed by the mean cosine of two embeddings: prototypes, the mean cosine of two of those; variation,
             separation and total as in a training step; fresh, the variation of embeddings no prototype has seen;
             variation_push, variation_together, separation_push, separation_together, of `pushes`
    """
    rows = []
    for cosine in cosines:
        drawn = [_state(unrelated(cosine, batches=batches, seed=seed), temperature) for seed in range(draws)]
        rows.append(pd.DataFrame(drawn).mean())
    return pd.DataFrame(rows, index=pd.Index(cosines, name="mean cosine"))


def _state(given: Unrelated, temperature: float) -> dict[str, float]:
    variation = variation_loss(given.z, given.y, given.after, temperature).item()
    separation = separation_loss(given.after, temperature).item()
    found = pushes(given.z, given.y, given.before, temperature)
    return {
        "prototypes": 1 - prototype_separation(given.after).item(),
        "variation": variation,
        "separation": separation,
        "total": variation + separation,
        "fresh": variation_loss(given.fresh, given.y, given.after, temperature).item(),
        **{f"{term}_push": push.length for term, push in found.items()},
        **{f"{term}_together": push.together for term, push in found.items()},
    }
