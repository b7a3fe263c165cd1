"""HYPO's mathematics as pure functions on tensors: prototypes, the two losses, the simplex ETF.

Symbols of the paper, with the names used here:

    z_i in S^{d-1}    z           (N, d)  embeddings, unit vectors
    y_i               y           (N,)    int64 class of each sample, 0..C-1
    e_i               domains     (N,)    int64 domain (environment) of each sample
    mu_c in S^{d-1}   prototypes  (C, d)  one unit vector a class
    tau, alpha        temperature, momentum

Every public function checks its input first and refuses it with one sentence, and computes half precision in float32;
`f.__wrapped__` is the bare mathematics, for callers that have checked already.
"""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from hypo.contracts import checked, in_full

BLOCK = 1 << 26
"""Entries of an (N, N) or (C, C) array that are in memory at once; a larger one is made in blocks of rows, and made
again for the gradient."""

TINY = 1e-12


@checked
def update_prototypes(prototypes: Tensor, z: Tensor, y: Tensor, momentum: float) -> Tensor:
    """Exponential moving average of the prototypes over a batch, sample by sample (Algorithm 1).

    For i = 1..N in order:  mu_{y_i} <- Normalize(alpha mu_{y_i} + (1 - alpha) z_i)

    prototypes  (C, d)  mu before the batch
    z           (N, d)  embeddings; the result is differentiable in them, and in `prototypes`
    y           (N,)    classes; a class that is absent keeps its prototype
    momentum    alpha in [0, 1); the paper uses 0.95
    Returns     (C, d)  mu after the batch

    The order within a class matters, classes do not touch one another: step t advances, all at once, every
    class that has a t-th sample, so there are as many sequential steps as the largest class has samples. On a GPU
    they are one kernel (`hypo.kernels`). Differs from a mean over the class, which is another update.
    """
    return (_FusedEMA if _on_gpu(z) else _SequentialEMA).apply(prototypes, z, y, momentum)


def _on_gpu(z: Tensor) -> bool:
    """Whether the kernels of `hypo.kernels` can take z; torch brings what they need where there is CUDA on Linux."""
    return z.is_cuda and importlib.util.find_spec("triton") is not None


class _FusedEMA(torch.autograd.Function):
    """`_SequentialEMA` in two kernels."""

    @staticmethod
    def forward(ctx, prototypes: Tensor, z: Tensor, y: Tensor, momentum: float) -> Tensor:
        from hypo import kernels

        after, saved = kernels.forward(prototypes, z, y, momentum, TINY)
        ctx.save_for_backward(*saved)
        return after

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        from hypo import kernels

        return *kernels.backward(grad, ctx.saved_tensors), None, None


class _SequentialEMA(torch.autograd.Function):
    """The recursion of `update_prototypes`, and its adjoint run backwards over the stored prototypes."""

    @staticmethod
    def forward(ctx, prototypes: Tensor, z: Tensor, y: Tensor, momentum: float) -> Tensor:
        order, source, widths, last = (_to(part, z.device) for part in _schedule(y.cpu().numpy(), len(prototypes)))
        packed = (1 - momentum) * z[source]  # (N, d) samples in step order
        path = torch.empty_like(packed)  # (N, d) each prototype after each of its steps
        norms = packed.new_empty(len(packed), 1)
        mu = prototypes[order]  # (K, d) present classes, the most frequent first
        alpha = packed.new_tensor([momentum])
        may_vanish = abs(2 * momentum - 1) < 1e-3  # the norm of alpha mu + (1 - alpha) z is at least |2 alpha - 1|
        for sample, after, norm in zip(packed.split(widths), path.split(widths), norms.split(widths), strict=True):
            torch.mul(_first(mu, len(after)), alpha, out=after).add_(sample)
            torch.linalg.vector_norm(after, dim=1, keepdim=True, out=norm)
            if may_vanish:
                norm.clamp_min_(TINY)
            mu = after.div_(norm)
        ctx.save_for_backward(order, source, path, norms)
        ctx.widths, ctx.momentum = widths, momentum
        return prototypes.index_copy(0, order, path[last])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        order, source, path, norms = ctx.saved_tensors
        widths, momentum = ctx.widths, ctx.momentum
        towards = grad[order]  # (K, d) gradient at each class's current prototype
        tangents = torch.empty_like(path)  # (N, d) that gradient's part along the sphere, at each step
        rates = momentum / norms  # (N, 1)
        for after, rate, tangent in zip(*(reversed(x.split(widths)) for x in (path, rates, tangents)), strict=True):
            here = _first(towards, len(after))
            torch.addcmul(here, after, (here * after).sum(1, True), value=-1, out=tangent)
            torch.mul(tangent, rate, out=here)
        grad_z = torch.empty_like(path).index_copy_(0, source, tangents.mul_((1 - momentum) / norms))
        return grad.index_copy(0, order, towards), grad_z, None, None


def _first(rows: Tensor, k: int) -> Tensor:
    return rows if len(rows) == k else rows[:k]


def _schedule(y: np.ndarray, num_classes: int) -> tuple[np.ndarray, np.ndarray, list[int], np.ndarray]:
    """Lay a batch out by steps: step t holds the t-th sample of every class that has one.

    Returns  order   (K,)  the classes present, by falling count
             source  (N,)  sample index of each slot, step by step, classes in `order` within a step
             widths  (T,)  classes that take part in each step, never rising
             last    (K,)  slot of each class's last sample
    """
    counts = np.bincount(y, minlength=num_classes)
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    rank = np.empty(num_classes, np.int64)
    rank[order] = np.arange(len(order))
    by_class = np.argsort(y, kind="stable")
    step = np.arange(len(y)) - (np.cumsum(counts) - counts)[y[by_class]]
    widths = np.bincount(step)
    offset = np.cumsum(widths) - widths
    source = np.empty_like(by_class)
    source[offset[step] + rank[y[by_class]]] = by_class
    return order, source, widths.tolist(), offset[counts[order] - 1] + np.arange(len(order))


def _to(part: np.ndarray | list[int], device: torch.device) -> Tensor | list[int]:
    return part if isinstance(part, list) else torch.from_numpy(part).to(device, non_blocking=True)


@checked
def variation_loss(
    z: Tensor, y: Tensor, prototypes: Tensor, temperature: float, domains: Tensor | None = None
) -> Tensor:
    """Pull every sample to the prototype of its class (Section 4.1; with `domains`, the form of Appendix D).

    L_var = -1/N sum_i log  exp(z_i . mu_{y_i} / tau) / (sum_c exp(z_i . mu_c / tau) + H_i)
    H_i   = sum_j [y_j != y_i and e_j = e_i] exp(z_i . z_j / tau)  with `domains`, 0 without

    z (N, d), y (N,), prototypes (C, d), temperature tau > 0 (the paper: 0.1), domains (N,) or None.
    Returns a scalar. Differs from the released code, which multiplies by a further tau / 0.07.
    """
    if domains is None:
        return F.cross_entropy(z @ prototypes.T / temperature, y)
    rows = max(1, BLOCK // len(z))
    if rows >= len(z):
        return _with_negatives(z, y, domains, slice(None), prototypes, temperature) / len(z)
    sums = [
        checkpoint(_with_negatives, z, y, domains, slice(at, at + rows), prototypes, temperature, use_reentrant=False)
        for at in range(0, len(z), rows)
    ]
    return torch.stack(sums).sum() / len(z)


def _with_negatives(
    z: Tensor, y: Tensor, domains: Tensor, rows: slice, prototypes: Tensor, temperature: float
) -> Tensor:
    """The sum over `rows` (n of the N samples) of the loss with hard negatives; the largest array is (n, C + N)."""
    hard = (y[rows, None] != y) & (domains[rows, None] == domains)  # (n, N)
    negatives = (z[rows] @ z.T / temperature).masked_fill(~hard, -torch.inf)
    logits = torch.cat([z[rows] @ prototypes.T / temperature, negatives], dim=1)  # (n, C + N)
    return F.cross_entropy(logits, y[rows], reduction="sum")


@checked
def separation_loss(prototypes: Tensor, temperature: float) -> Tensor:
    """Push the prototypes apart (second term of the loss in Section 4.1).

    L_sep = 1/C sum_i log 1/(C-1) sum_{j != i} exp(mu_i . mu_j / tau)

    prototypes (C, d), temperature tau > 0 (the paper: 0.1). Returns a scalar, at least -1/(tau (C-1)) with
    equality exactly at the simplex ETF.
    """
    classes = len(prototypes)
    rows = max(1, BLOCK // classes)
    if rows >= classes:
        sums = _over_the_others(prototypes, 0, classes, temperature)
    else:
        given = [(prototypes, at, rows, temperature) for at in range(0, classes, rows)]
        sums = torch.cat([checkpoint(_over_the_others, *block, use_reentrant=False) for block in given])
    return (sums - math.log(classes - 1)).mean()


def _over_the_others(prototypes: Tensor, first: int, rows: int, temperature: float) -> Tensor:
    """(n,) log sum_{j != i} exp(mu_i . mu_j / tau) for n <= `rows` prototypes from the `first` on, through (n, C)."""
    similarity = prototypes[first : first + rows] @ prototypes.T / temperature
    similarity.diagonal(first).fill_(-torch.inf)
    return similarity.logsumexp(dim=1)


def to_sphere(h: Tensor) -> Tensor:
    """Normalise (N, d) vectors, z = h / ||h||; a zero vector becomes the first axis, with no gradient."""
    h = in_full(h)
    axis = F.one_hot(torch.zeros((), dtype=torch.int64, device=h.device), h.shape[-1]).to(h.dtype)
    return F.normalize(torch.where(h.abs().amax(dim=-1, keepdim=True) <= TINY, axis, h), dim=-1, eps=TINY)


@checked
def class_means(z: Tensor, y: Tensor, num_classes: int) -> Tensor:
    """Mean direction of each class, (num_classes, d) unit vectors: where to start prototypes from training features."""
    missing = sorted(set(range(num_classes)) - set(y.tolist()))
    if missing:
        raise ValueError(f"no sample of class {', '.join(map(str, missing))}: class_means needs one of every class")
    return to_sphere(class_sums(z, y, num_classes))


def class_sums(z: Tensor, y: Tensor, num_classes: int) -> Tensor:
    """Sum of the embeddings of each class, (num_classes, d); zero for a class that is absent."""
    return z.new_zeros(num_classes, z.shape[1]).index_add_(0, y, z)


def simplex_etf(num_classes: int, dim: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """The simplex equiangular tight frame: (C, d) unit vectors, every two of them at cosine -1/(C-1).

    It exists for 2 <= C <= d + 1, where it minimises `separation_loss` (Lemma in the appendix).
    """
    if num_classes < 2:
        raise ValueError(f"a simplex ETF needs at least 2 classes, not {num_classes}")
    if num_classes > dim + 1:
        raise ValueError(
            f"no simplex ETF of {num_classes} vectors fits into {dim} dimensions; take dim >= {num_classes - 1}"
        )
    corners = torch.eye(num_classes, dtype=torch.float64) - 1 / num_classes  # (C, C), rank C - 1
    basis = torch.linalg.eigh(corners).eigenvectors[:, 1:]  # (C, C - 1), orthogonal to the vector of ones
    vectors = F.normalize(corners @ basis, dim=1)
    return F.pad(vectors, (0, dim - num_classes + 1)).to(dtype)


@checked
def etf_gap(prototypes: Tensor) -> Tensor:
    """Largest distance of the cosine of two prototypes from the simplex ETF's, -1/(C-1); prototypes (C, d)."""
    classes = len(prototypes)
    distance = (prototypes @ prototypes.T + 1 / (classes - 1)).abs()
    return distance.masked_fill(torch.eye(classes, dtype=torch.bool, device=prototypes.device), 0).amax()
