"""The one form in which every benchmark reaches training: decoded images with labels and domains."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A benchmark, decoded.

    name          the benchmark's registry name, or the folder's name (./name where the registry has that name)
    images        (N, H, W, 3) uint8, in memory or memory-mapped
    labels        (N,) int64 in [0, C)
    domains       (N,) int64 in [0, E)
    class_names   C names
    domain_names  E names, the paper's environments e
    fingerprint   hex digest of the content; equal exactly when pixels, labels, domains and names are
    groups        (N,) int64 or None; samples of one group never straddle two splits (digits: one writer)
    test_only     (N,) bool or None; samples that may never be trained or selected on (CIFAR-10's test images)
    notes         sentences a reader of any number made from this set should see ("3 unreadable images skipped")
    """

    name: str
    images: np.ndarray
    labels: np.ndarray
    domains: np.ndarray
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    fingerprint: str
    groups: np.ndarray | None = None
    test_only: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def __post_init__(self) -> None:
        n = len(self.labels)
        if self.images.dtype != np.uint8 or self.images.ndim != 4 or self.images.shape[3] != 3:
            raise ValueError(f"images must be uint8 of shape (N, H, W, 3), not {self.images.dtype} {self.images.shape}")
        for field in ("images", "domains", "groups", "test_only"):
            values = getattr(self, field)
            if values is not None and len(values) != n:
                raise ValueError(f"{field} has {len(values)} entries but labels has {n}; they must be parallel")
        for field, names in (("labels", self.class_names), ("domains", self.domain_names)):
            values = getattr(self, field)
            if n and not (values.min() >= 0 and values.max() < len(names)):
                raise ValueError(f"{field} must lie in 0..{len(names) - 1}, one for each of {', '.join(names)}")


def content_fingerprint(
    images: np.ndarray,
    labels: np.ndarray,
    domains: np.ndarray,
    class_names: tuple[str, ...],
    domain_names: tuple[str, ...],
) -> str:
    """SHA-256 over shape, pixels, labels, domains and names, as 64 hex digits."""
    return combined_fingerprint(pixel_digest(images), images.shape, labels, domains, class_names, domain_names)


def pixel_digest(images: np.ndarray) -> str:
    """SHA-256 of the pixels alone, which is the slow part: a cache computes it once."""
    return hashlib.sha256(np.ascontiguousarray(images, np.uint8).data).hexdigest()


def combined_fingerprint(
    pixels: str,
    shape: tuple[int, ...],
    labels: np.ndarray,
    domains: np.ndarray,
    class_names: tuple[str, ...],
    domain_names: tuple[str, ...],
) -> str:
    """`content_fingerprint` with the digest of the pixels given."""
    content = [pixels, shape, labels.tolist(), domains.tolist(), class_names, domain_names]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
