"""The sequential moving average of the prototypes as two kernels, for GPUs, where a launch costs more than its work.

One program per class walks through the samples of its class in order, with the prototype in registers: a call is a
handful of launches however many samples there are, and nothing is copied to the host. `hypo.sphere` has the same
recursion for CPUs. Triton comes with torch where there is CUDA; its interpreter runs these kernels on a CPU for tests.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _walk(mu, z, order, starts, momentum, smallest, path, norms, after, dim, WIDTH: tl.constexpr):
    """mu (C, d), z (N, d), order (N,) samples by class, starts (C + 1,) -> path (N, d), norms (N,), after (C, d)."""
    c = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    inside = at < dim
    alpha = tl.load(momentum)
    least = tl.load(smallest)
    state = tl.load(mu + c * dim + at, mask=inside, other=0.0)
    for slot in range(tl.load(starts + c), tl.load(starts + c + 1)):
        sample = tl.load(z + tl.load(order + slot) * dim + at, mask=inside, other=0.0)
        state = alpha * state + (1 - alpha) * sample
        norm = tl.maximum(tl.sqrt(tl.sum(state * state, axis=0)), least)
        state = state / norm
        tl.store(path + slot * dim + at, state, mask=inside)
        tl.store(norms + slot, norm)
    tl.store(after + c * dim + at, state, mask=inside)


@triton.jit
def _walk_back(grad, order, starts, momentum, path, norms, grad_z, grad_mu, dim, WIDTH: tl.constexpr):
    """The adjoint: grad (C, d) at the prototypes after the batch -> grad_z (N, d), grad_mu (C, d)."""
    c = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    inside = at < dim
    alpha = tl.load(momentum)
    first = tl.load(starts + c)
    end = tl.load(starts + c + 1)
    towards = tl.load(grad + c * dim + at, mask=inside, other=0.0)
    for step in range(end - first):
        slot = end - 1 - step
        state = tl.load(path + slot * dim + at, mask=inside, other=0.0)
        tangent = (towards - state * tl.sum(towards * state, axis=0)) / tl.load(norms + slot)
        tl.store(grad_z + tl.load(order + slot) * dim + at, (1 - alpha) * tangent, mask=inside)
        towards = alpha * tangent
    tl.store(grad_mu + c * dim + at, towards, mask=inside)


def forward(
    prototypes: Tensor, z: Tensor, y: Tensor, momentum: float, tiny: float
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The prototypes (C, d) after the batch, and what `backward` needs."""
    prototypes, z = prototypes.contiguous(), z.contiguous()
    classes, dim = prototypes.shape
    ordered, order = y.sort(stable=True)
    starts = torch.searchsorted(ordered, torch.arange(classes + 1, device=y.device))
    path, norms, after = torch.empty_like(z), z.new_empty(len(z)), torch.empty_like(prototypes)
    alpha, least = z.new_full((1,), momentum), z.new_full((1,), tiny)
    width = triton.next_power_of_2(dim)
    _walk[(classes,)](prototypes, z, order, starts, alpha, least, path, norms, after, dim, WIDTH=width)
    return after, (order, starts, alpha, path, norms)


def backward(grad: Tensor, saved: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Gradients at the prototypes before the batch (C, d) and at z (N, d)."""
    order, starts, alpha, path, norms = saved
    grad = grad.contiguous()
    grad_z, grad_mu = torch.empty_like(path), torch.empty_like(grad)
    classes, dim = grad.shape
    width = triton.next_power_of_2(dim)
    _walk_back[(classes,)](grad, order, starts, alpha, path, norms, grad_z, grad_mu, dim, WIDTH=width)
    return grad_mu, grad_z
