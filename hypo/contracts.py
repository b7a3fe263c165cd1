"""The input contract of the core: one sentence for what is wrong, what is valid and what to do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

SPHERE_TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 2e-2}
"""How far a norm may be from 1: rounding in half precision, 1e-3 otherwise."""

VECTORS = ("z", "prototypes")


class OffSphere(ValueError):
    """Vectors that should be unit vectors and are not."""


def checked(function: Callable) -> Callable:
    """Run `check` on those arguments of `function` that the contract knows, before the function itself.

    Unit vectors in half precision are passed on in float32, in which a sum over many samples, or an exponent at a low
    temperature, does not overflow; so the result is float32 too.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        check(**bound.arguments)
        for name in VECTORS:
            if name in bound.arguments:
                bound.arguments[name] = in_full(bound.arguments[name])
        return function(*bound.args, **bound.kwargs)

    return wrapper


def in_full(x: Tensor) -> Tensor:
    """Half precision in float32, any other as it is."""
    return x.float() if x.dtype in SPHERE_TOLERANCE else x


def check(
    z: Tensor | None = None,
    y: Tensor | None = None,
    prototypes: Tensor | None = None,
    temperature: float | None = None,
    momentum: float | None = None,
    domains: Tensor | None = None,
    num_classes: int | None = None,
) -> None:
    """Refuse, with a ValueError, what the mathematics of `hypo.sphere` does not hold for.

    z (N, d) and prototypes (C, d) unit vectors of one dtype (half precision counts as float32), y (N,) int64 in
    0..C-1, domains (N,) int64, temperature > 0, 0 <= momentum < 1, C >= 2.
    """
    if temperature is not None and not temperature > 0:
        raise ValueError(f"temperature must be above 0 (the paper uses 0.1), not {temperature}")
    if momentum is not None and not 0 <= momentum < 1:
        raise ValueError(f"momentum must be in [0, 1) (the paper uses 0.95), not {momentum}")
    if prototypes is not None:
        _on_sphere("prototypes", prototypes, "(C, d)")
        num_classes = len(prototypes)
    if num_classes is not None and num_classes < 2:
        raise ValueError(f"HYPO needs at least 2 classes to separate, not {num_classes}")
    if z is not None:
        _on_sphere("z", z, "(N, d)")
        if prototypes is not None and _kind(z) != _kind(prototypes):
            raise ValueError(
                f"z is {z.dtype} in {z.shape[1]} dimensions but prototypes are {prototypes.dtype} in "
                f"{prototypes.shape[1]}; give both the same dtype and dimension"
            )
        if y is not None:
            _parallel("y", y, z)
            lowest, highest = torch.stack(y.aminmax()).tolist()
            if not 0 <= lowest <= highest < num_classes:
                raise ValueError(
                    f"labels must be 0..{num_classes - 1}, found {lowest}..{highest}; "
                    "renumber them or raise num_classes"
                )
        if domains is not None:
            _parallel("domains", domains, z)


def _kind(x: Tensor) -> tuple[int, torch.dtype]:
    return x.shape[1], torch.float32 if x.dtype in SPHERE_TOLERANCE else x.dtype


def _on_sphere(name: str, x: Tensor, shape: str) -> None:
    if x.ndim != 2 or not x.is_floating_point() or not x.numel():
        raise ValueError(
            f"{name} must be a floating-point tensor {shape} that is not empty, not {x.dtype} {tuple(x.shape)}"
        )
    off = (torch.linalg.vector_norm(x.detach(), dim=1) - 1).abs().amax()
    if not off <= SPHERE_TOLERANCE.get(x.dtype, 1e-3):
        if not x.isfinite().all():
            raise OffSphere(f"{name} holds NaN or infinity; lower the learning rate or look for the step that made it")
        raise OffSphere(
            f"{name} must lie on the unit sphere but a norm is off by {off:.2g}; "
            "normalise first: torch.nn.functional.normalize(x, dim=1)"
        )


def _parallel(name: str, values: Tensor, z: Tensor) -> None:
    if values.dtype != torch.int64 or values.shape != z.shape[:1]:
        raise ValueError(
            f"{name} must be int64 of shape ({len(z)},), one for each row of z, "
            f"not {values.dtype} {tuple(values.shape)}"
        )
