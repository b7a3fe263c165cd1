"""Entropic optimal transport between clouds with uniform weights, in float64, on the device of the tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor

ITERATIONS, BLOCK = 20_000, 10
RANGE = 200.0  # exp(-RANGE) and its square are far from the least float64


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """(n, m) from (n, d) and (m, d), by one matrix product."""
    return torch.addmm(a.square().sum(1)[:, None] + b.square().sum(1), a, b.T, alpha=-2).clamp_min_(0)


def transport(cost: Tensor, regularisation: float, tolerance: float) -> tuple[float, float]:
    """<P, C> of the plan P that minimises <P, C> + regularisation sum P log P, and the l2 error of its second marginal.

    P = diag(u) K diag(v), the first marginal exact. The regularisation falls by factors of 4 to its value, each time
    from the potentials (f, g) of the time before, so that K = exp((f + g - C) / regularisation) does not underflow
    where P has mass: products with K stand for the sums of exponentials of a log-domain solver. It starts no higher
    than the range of float64 asks for.
    """
    n, m = cost.shape
    f, g = cost.new_zeros(n, 1), cost.new_zeros(m)
    excess = cost.amax().item() / RANGE / regularisation
    steps = math.ceil(math.log(excess, 4)) if excess > 1 else 0
    for step in reversed(range(steps + 1)):
        level = regularisation * 4**step
        kernel = torch.exp((f + g - cost) / level)
        u, v, error = _scale(kernel, tolerance if step == 0 else 0.1 / m)
        f, g = f + level * u.log()[:, None], g + level * v.log()
    found = (u @ kernel.mul_(cost) @ v).item()
    return (
        (found, error) if math.isfinite(found) and math.isfinite(error) else _in_logs(cost, regularisation, tolerance)
    )


def _in_logs(cost: Tensor, regularisation: float, tolerance: float) -> tuple[float, float]:
    """`transport` by sums of exponentials, which are slower and do not overflow at any regularisation."""
    n, m = cost.shape
    scaled, g = cost / regularisation, cost.new_zeros(m)
    for _ in range(ITERATIONS):
        f = math.log(m) - torch.logsumexp(g - scaled, dim=1)
        plan = torch.exp(f[:, None] + g - scaled) / (n * m)  # the first marginal is exact
        sums = plan.sum(0)
        error = torch.linalg.vector_norm(sums - 1 / m).item()
        if error <= tolerance:
            break
        g = math.log(n) - torch.logsumexp(f[:, None] - scaled, dim=0)
    return (plan * cost).sum().item(), error


def _scale(kernel: Tensor, tolerance: float) -> tuple[Tensor, Tensor, float]:
    """u (n,) and v (m,) that give diag(u) K diag(v) uniform marginals: Sinkhorn's iteration, overrelaxed.

    The exponent omega is Young's optimum 2 / (1 + sqrt(1 - rho)) for the contraction rho of the plain iteration
    (omega = 1), which follows from how fast the error fell over the last block; an error that grew sets it back to 1.
    """
    n, m = kernel.shape
    u, v, omega, before = kernel.new_ones(n), kernel.new_ones(m), 1.0, math.inf
    for _ in range(0, ITERATIONS, BLOCK):
        for _ in range(BLOCK):
            v = v ** (1 - omega) / (m * (u @ kernel)) ** omega
            u = u ** (1 - omega) / (n * (kernel @ v)) ** omega
        exact = 1 / (n * (kernel @ v))
        error = torch.linalg.vector_norm(v * (exact @ kernel) - 1 / m).item()
        if error <= tolerance:
            break
        rate, before = (error / before) ** (1 / BLOCK), error
        if rate >= 1:
            omega = 1.0
        elif rate > omega - 1:
            omega = 2 / (1 + math.sqrt(1 - (rate + omega - 1) ** 2 / (rate * omega**2)))
    return exact, v, error


def self_transport(cost: Tensor, regularisation: float, tolerance: float) -> tuple[float, float]:
    """`transport` of a cloud to itself, where u = v: u moves to the geometric mean of itself and its Sinkhorn step.

    K is a Gaussian kernel, which is positive definite, so near the solution the error at least halves each time; and
    K u is at least u, so nothing underflows at any regularisation.
    """
    n = len(cost)
    kernel = torch.exp(cost / -regularisation)
    u = (n * kernel.sum(1)).rsqrt()
    for _ in range(ITERATIONS):
        sums = kernel @ u
        error = torch.linalg.vector_norm(u * sums - 1 / n).item()
        if error <= tolerance:
            break
        u = (u / (n * sums)).sqrt()
    return (u @ kernel.mul_(cost) @ u).item(), error
