"""Training on several ranks as if on one: the whole batch for the loss, for batch norm, and for the gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

OVERLAP_ON = ("cuda",)  # devices that compute while messages travel


def world() -> int:
    """How many ranks train together; 1 without torch.distributed."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if world() > 1 else 0


def whole_batch(z: Tensor, y: Tensor, domains: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
    """The batch of all ranks on every rank, in the order of the ranks, which may hold different numbers of samples.

    z (n, d) -> (N, d) with gradients, y (n,) -> (N,), domains (n,) -> (N,) or None.
    """
    if world() == 1:
        return z, y, domains
    sizes = _sizes(z.device, len(z), len(y), len(y if domains is None else domains))
    if any(len(set(of_rank)) > 1 for of_rank in sizes):
        raise ValueError(f"each rank needs one label and domain per embedding; their numbers by rank: {sizes}")
    lengths = [of_rank[0] for of_rank in sizes]
    marks = torch.stack([y] if domains is None else [y, domains], dim=1)  # (n, 1 or 2)
    marks = _Gather.apply(marks, lengths, True)
    return _Gather.apply(z, lengths, True), marks[:, 0], None if domains is None else marks[:, 1]


def rows_of_all(rows: Tensor) -> tuple[Tensor, slice]:
    """Rows (n, ...) of all ranks (N, ...), in the order of the ranks, and which of them are this rank's.

    For use inside the network, where each rank goes on with rows of its own choice: gradients of all ranks come back.
    `whole_batch` is for the loss, which all ranks compute alike.
    """
    if world() == 1:
        return rows, slice(0, len(rows))
    lengths = [length for (length,) in _sizes(rows.device, len(rows))]
    first = sum(lengths[: rank()])
    return _Gather.apply(rows, lengths, False), slice(first, first + len(rows))


def _sizes(device: torch.device, *mine: int) -> list[list[int]]:
    """These numbers of every rank, by rank."""
    every = torch.empty(world(), len(mine), dtype=torch.int64, device=device)
    dist.all_gather(list(every), torch.tensor(mine, device=device))
    return every.tolist()


class _Gather(torch.autograd.Function):
    """All ranks' rows, in order; backward adds up what all ranks made of this rank's. Where they compute `alike`, one
    loss of the whole batch, that sum is the world size times what this rank made of them, and nothing is sent."""

    @staticmethod
    def forward(ctx, rows: Tensor, lengths: list[int], alike: bool) -> Tensor:
        ctx.lengths, ctx.alike = lengths, alike
        padded = rows.new_zeros(max(lengths), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in lengths]
        dist.all_gather(parts, padded)
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        total = grad * len(ctx.lengths) if ctx.alike else _summed(grad)
        return total.split(ctx.lengths)[dist.get_rank()], None, None


def _summed(x: Tensor) -> Tensor:
    """The sum over ranks."""
    total = x.contiguous().clone()
    dist.all_reduce(total)
    return total


def mean_over_ranks(terms: dict[str, Tensor]) -> dict[str, Tensor]:
    """The mean over ranks of each scalar; for a mean over samples, in parts of one size, that of the whole batch."""
    values = torch.stack([term.detach() for term in terms.values()]).double()
    if world() > 1:
        dist.all_reduce(values)
        values /= world()
    return dict(zip(terms, values.unbind(), strict=True))


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Average the gradients over ranks in one message, once backward is done."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if world() == 1 or not gradients:
        return
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    flat /= world()
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def overlapping(network: nn.Module, device: torch.device) -> Callable[[Tensor], Tensor] | None:
    """The network, so called that its gradients are averaged over ranks while backward goes on; None where that gains
    nothing. It is a method of torch's wrapper: a module that keeps it has the same state dict as one that does not."""
    if world() == 1 or device.type not in OVERLAP_ON:
        return None
    return DistributedDataParallel(network, forward_sync_buffers=False, gradient_as_bucket_view=True).__call__


def synchronise_batch_norm(module: nn.Module, device: torch.device) -> nn.Module:
    """Batch norm over the batch of all ranks: torch's own on a GPU, `_SyncedBatchNorm` on a CPU, which torch lacks."""
    if world() == 1:
        return module
    if device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(module)
    for child in module.modules():
        if isinstance(child, nn.BatchNorm2d):
            child.__class__ = _SyncedBatchNorm
    return module


class _SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, x: Tensor) -> Tensor:
        return _summed(x)

    @staticmethod
    def backward(_ctx, grad: Tensor) -> Tensor:
        return _summed(grad)


class _SyncedBatchNorm(nn.BatchNorm2d):
    """nn.BatchNorm2d whose batch statistics are those of all ranks; (n, c, h, w) -> (n, c, h, w)."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        count = x.new_tensor([x.numel() / x.shape[1]])
        total = _SumOverRanks.apply(torch.cat([x.sum((0, 2, 3)), count]))
        mean = total[:-1] / total[-1].detach()
        centred = x - mean[:, None, None]
        variance = _SumOverRanks.apply(centred.square().sum((0, 2, 3))) / total[-1].detach()
        with torch.no_grad():
            n = total[-1]
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * n / (n - 1), self.momentum)
            self.num_batches_tracked += 1
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return centred * scale[:, None, None] + self.bias[:, None, None]
