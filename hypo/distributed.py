"""Gathering a batch over ranks, with gradients."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def gather(z: Tensor, y: Tensor, domains: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """The whole batch on every rank, in the order of the ranks; ranks may hold different numbers of samples.

    z (n, d) -> (N, d) with gradients, y (n,) -> (N,), domains (n,) -> (N,) or None.
    """
    mine = torch.tensor([len(z), len(y), len(y if domains is None else domains)], device=z.device)
    sizes = mine.new_empty(dist.get_world_size(), len(mine))
    dist.all_gather(list(sizes), mine)
    lengths = sizes[:, 0].tolist()
    if (sizes != sizes[:, :1]).any():
        raise ValueError(f"each rank needs one label and domain per embedding; their numbers by rank: {sizes.tolist()}")
    marks = torch.stack([y] if domains is None else [y, domains], dim=1)  # (n, 1 or 2)
    marks = _Gather.apply(marks, lengths)
    return _Gather.apply(z, lengths), marks[:, 0], None if domains is None else marks[:, 1]


class _Gather(torch.autograd.Function):
    """All ranks' rows, in order. Backward needs no communication: each rank computes the same loss of the whole
    batch, so the sum over ranks of the gradients at its rows is the world size times its own."""

    @staticmethod
    def forward(ctx, rows: Tensor, lengths: list[int]) -> Tensor:
        ctx.lengths = lengths
        padded = rows.new_zeros(max(lengths), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in lengths]
        dist.all_gather(parts, padded)
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        return grad.split(ctx.lengths)[dist.get_rank()] * len(ctx.lengths), None
