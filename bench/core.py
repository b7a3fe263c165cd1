"""HypoLoss: update + losses + backward against Algorithm 1 as a plain loop, its growth, and its share of a step."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.timing import faster, row, side_by_side
from hypo import HypoLoss, HypoNet
from hypo.sphere import separation_loss, variation_loss

SIZES = {(64, 7, 512): 3, (64, 65, 512): 3, (1024, 10, 128): 20, (512, 100, 128): 3}


def batch(n: int, classes: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    h = torch.randn(n, dim, generator=random).requires_grad_()
    y = torch.randint(classes, (n,), generator=random)
    return h, y, F.normalize(torch.randn(classes, dim, generator=random), dim=1)


def ours(h: Tensor, y: Tensor, prototypes: Tensor) -> Callable[[], None]:
    criterion = HypoLoss(len(prototypes), h.shape[1])
    criterion.reset_prototypes(prototypes)

    def step() -> None:
        h.grad = None
        criterion(F.normalize(h, dim=1), y).total.backward()

    return step


def plain_loop(h: Tensor, y: Tensor, prototypes: Tensor, momentum: float = 0.95) -> Callable[[], None]:
    """The same step with one prototype update a sample, unchecked; rows kept apart, the kindest form of the loop."""

    def step() -> None:
        h.grad = None
        z = F.normalize(h, dim=1)
        rows = list(prototypes)
        for sample, c in zip(z.unbind(), y.tolist(), strict=True):
            rows[c] = F.normalize(momentum * rows[c] + (1 - momentum) * sample, dim=0)
        mu = torch.stack(rows)
        loss = variation_loss.__wrapped__(z, y, mu.detach(), 0.1) + separation_loss.__wrapped__(mu, 0.1)
        loss.backward()

    return step


def share_of_a_step(rounds: int) -> dict:
    model, (_, y, prototypes) = HypoNet("resnet18", dim=128, stem="cifar"), batch(64, 10, 128)
    criterion = HypoLoss(10, 128)
    criterion.reset_prototypes(prototypes)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(64, 3, 32, 32).to(memory_format=torch.channels_last)

    def train() -> None:
        optimiser.zero_grad()
        criterion(model(images), y).total.backward()
        optimiser.step()

    loss, whole = side_by_side(ours(*batch(64, 10, 128)), train, rounds=rounds)
    share = f"HypoLoss in a step of CIFAR's ResNet-18 (64 images, 32 px): {100 * loss / whole:.2f}%"
    return row(share, loss * 1e3, whole * 1e3, "ms", "< 2%", loss / whole < 0.02)


def run(quick: bool = False) -> list[dict]:
    rounds = 2 if quick else 15
    rows = []
    for size, aim in SIZES.items():
        times = side_by_side(ours(*batch(*size)), plain_loop(*batch(*size)), rounds=rounds)
        rows.append(faster(f"HypoLoss step, (N, C, d) = {size}", *times, aim=aim))
    lengths = (1024, 2048) if quick else (1024, 2048, 4096, 8192)
    times = side_by_side(*(ours(*batch(n, 10, 128)) for n in lengths), rounds=rounds)
    exponent = math.log(times[-1] / times[0]) / math.log(lengths[-1] / lengths[0])
    case = f"HypoLoss step, time ~ N^{exponent:.2f} for N = {lengths[0]}..{lengths[-1]}"
    rows.append(
        row(case, times[-1] * 1e3, times[0] * 1e3 * lengths[-1] / lengths[0], "ms", "N^1.1 or less", exponent <= 1.1)
    )
    rows.append(share_of_a_step(2 if quick else 4))
    return rows
