"""Checkpoints that survive a kill at any moment: written whole or not at all, verified when read, one in reserve.

A checkpoint is one file, step-<step>-<digest of its content>.pt, which `torch.load(..., weights_only=True)` reads. As
the digest is in the name, file and digest appear together, by one rename.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path
from typing import Any

import torch

from hypo.files import write_atomically


def save(folder: Path, step: int, state: dict[str, Any], reserve: Path | None = None) -> Path:
    """Store `state` (tensors and plain values); once it is on disk, remove every other checkpoint but `reserve`."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getbuffer()
    path = folder / f"step-{step:09d}-{_digest(content)}.pt"
    write_atomically(path, content)
    for old in folder.glob("step-*.pt"):
        if old not in (path, reserve):
            old.unlink()
    return path


def latest(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest checkpoint whose content is what was written; a damaged one is passed over with a warning."""
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        content = path.read_bytes()
        if path.stem.endswith(f"-{_digest(content)}"):
            return path, torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        warnings.warn(f"the checkpoint {path.name} is damaged; the one before it is used", stacklevel=2)
    return None


def newest(folder: Path) -> Path | None:
    """The file of `latest`, found without loading it: there may be no memory left."""
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        with path.open("rb") as file:
            if path.stem.endswith(f"-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"):
                return path
    return None


def clear(folder: Path) -> None:
    """Remove all checkpoints, whole or half-written."""
    for path in (*folder.glob("step-*.pt"), *folder.glob(".step-*.tmp")):
        path.unlink(missing_ok=True)


def _digest(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
