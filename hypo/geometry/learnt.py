"""Handwritten digits learnt on the sphere in three dimensions, epoch by epoch: the counterpart of Figure 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from torch import nn

from hypo.loss import HypoLoss
from hypo.sphere import etf_gap, to_sphere


@dataclass(frozen=True)
class Illustration:
    """What was learnt, epoch by epoch (T epochs, entry 0 is before training).

    labels      (N,)          the digit of each sample
    embeddings  (T + 1, N, 3) z
    prototypes  (T + 1, C, 3) mu
    history     one row per epoch: variation, separation, etf_gap, accuracy
    """

    labels: np.ndarray
    embeddings: np.ndarray
    prototypes: np.ndarray
    history: pd.DataFrame


def learn_sphere(
    classes: int = 4,
    epochs: int = 30,
    weight: float = 1.0,
    temperature: float = 0.1,
    seed: int = 0,
    momentum: float = 0.95,
) -> Illustration:
    """Train a small perceptron with HypoLoss at d = 3 on the digits 0..classes-1 of scikit-learn; about a second.

    Four classes are d + 1: the separation lemma then says that the prototypes end as the corners of a tetrahedron.
    """
    torch.manual_seed(seed)
    pixels, digits = load_digits(n_class=classes, return_X_y=True)
    x, y = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    criterion = HypoLoss(classes, 3, temperature=temperature, momentum=momentum, weight=weight)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    frames = []
    for epoch in range(epochs + 1):
        with torch.no_grad():
            z = to_sphere(network(x))
            if epoch == 0:
                criterion.reset_prototypes(to_sphere(torch.stack([z[y == c].mean(0) for c in range(classes)])))
            terms = criterion.eval()(z, y)
        accuracy = (criterion.predict(z) == y).float().mean()
        gap = etf_gap(criterion.prototypes)
        frames.append(
            (z.numpy(), criterion.prototypes.numpy().copy(), terms.variation, terms.separation, gap, accuracy)
        )
        criterion.train()
        for batch in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            criterion(to_sphere(network(x[batch])), y[batch]).total.backward()
            optimiser.step()
    embeddings, prototypes, *numbers = zip(*frames, strict=True)
    columns = ("variation", "separation", "etf_gap", "accuracy")
    history = pd.DataFrame({name: np.array(values, float) for name, values in zip(columns, numbers, strict=True)})
    return Illustration(digits, np.stack(embeddings), np.stack(prototypes), history.rename_axis("epoch"))
