"""Prototypes without a network: where the separation loss leads (Lemma J.1), and a likelihood of labels given them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import torch
from scipy.stats import vonmises_fisher

from hypo import sphere
from hypo.sphere import etf_gap, to_sphere


def vmf_likelihood(z: np.ndarray, y: np.ndarray, prototypes: np.ndarray, temperature: float) -> float:
    """Mean negative log-likelihood of the classes in a mixture of von Mises-Fisher distributions (Section 4.2).

    -1/N sum_i log p(y_i | z_i),  p(c | z) = p(z | c) / sum_j p(z | j),  p(z | c) = Z_d(kappa) exp(kappa mu_c . z)

    z (N, d), y (N,), prototypes (C, d), kappa = 1 / temperature. The densities are SciPy's, with their constant Z_d.
    """
    log_density = np.stack([vonmises_fisher(mu, 1 / temperature).logpdf(z) for mu in prototypes])  # (C, N)
    return -(log_density[y, np.arange(len(y))] - np.logaddexp.reduce(log_density, axis=0)).mean()


def spread_prototypes(
    num_classes: int, dim: int, temperature: float = 0.1, steps: int = 400, seed: int = 0
) -> tuple[np.ndarray, pd.DataFrame]:
    """Minimise `separation_loss` over C free unit vectors from random directions; under a second.

    This is the setting of the separation lemma: no network and no data. Each step is one of gradient descent with
    momentum, whose rate falls along a cosine, followed by a projection back onto the sphere.

    Returns prototypes (C, d), and one row per step from 0: separation, etf_gap, and the smallest, mean and largest
    cosine of two of them.
    """
    random = torch.randn(num_classes, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    mu = to_sphere(random).requires_grad_()
    rate, velocity = 0.3 * num_classes * temperature**2, torch.zeros_like(mu)
    apart = ~torch.eye(num_classes, dtype=torch.bool)
    rows = []
    for step in range(steps + 1):
        loss = sphere.separation_loss(mu, temperature)
        reached = mu.detach().clone()
        cosines = (reached @ reached.T)[apart]
        rows.append(
            [loss.item(), etf_gap(reached).item(), *(f(cosines).item() for f in (torch.min, torch.mean, torch.max))]
        )
        velocity = 0.8 * velocity + torch.autograd.grad(loss, mu)[0]
        falling = rate * (1 + math.cos(math.pi * step / (steps + 1))) / 2
        mu = to_sphere(reached - falling * velocity).requires_grad_()
    columns = ["separation", "etf_gap", "smallest", "mean", "largest"]
    return reached.numpy(), pd.DataFrame(rows, columns=columns).rename_axis("step")


def least_largest_cosine(num_classes: int, dim: int) -> float:
    """A value that the largest cosine of C unit vectors in d dimensions cannot be below.

    -1/(C-1) up to C = d + 1, where the simplex ETF has it, and 0 beyond (Rankin); on the sphere in space, for
    C >= 3, also (cot^2 w - 1) / 2 with w = pi C / (6 (C - 2)) (Fejes Toth). No set attains it for every C.
    """
    bound = -1 / (num_classes - 1) if num_classes <= dim + 1 else 0.0
    if dim == 3 and num_classes >= 3:
        bound = max(bound, (np.tan(np.pi * num_classes / (6 * (num_classes - 2))) ** -2 - 1) / 2)
    return bound
