"""Memory of what compares every sample with every other: in blocks of rows, against one (N, N) array."""

from __future__ import annotations

import multiprocessing
import resource
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import torch

from bench.timing import row


def run(quick: bool = False) -> list[dict]:
    """Peak memory with N samples; the obvious way's is that of one float32 (N, N) array, which is not made."""
    n = 2000 if quick else 100_000
    rows = []
    for name, measure in (("loss with hard negatives", _loss), ("nearest negatives of each sample", _nearest)):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            grown = fresh.submit(measure, n).result()
        rows.append(row(f"{name}, N = {n:,} (obvious: one array)", max(grown, 2**20) / 1e6, 4 * n * n / 1e6, "MB"))
    return rows


def _grown(function, *arguments) -> int:
    """Bytes by which this process's peak grew in a call; to run in a fresh process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    function(*arguments)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def _samples(n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(n, 32, generator=generator), dim=1)
    return z, torch.randint(10, (n,), generator=generator), torch.randint(4, (n,), generator=generator)


def _loss(n: int) -> int:
    from hypo import variation_loss

    z, y, domains = _samples(n)
    mu = torch.nn.functional.normalize(torch.eye(10, 32), dim=1)
    with torch.no_grad():
        return _grown(variation_loss, z, y, mu, 0.1, domains)


def _nearest(n: int) -> int:
    from hypo.geometry.neighbours import hard_negatives

    z, y, domains = (np.asarray(part) for part in _samples(n))
    return _grown(hard_negatives, z, y, domains)
