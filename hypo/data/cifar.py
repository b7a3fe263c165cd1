"""CIFAR-10 from torchvision's archive or from arrays, and CIFAR-10-C from its arrays; no pickle of theirs runs code."""

from __future__ import annotations

import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from hypo.data.imageset import ImageSet
from hypo.suggest import sentence

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
BATCHES = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}
PER_SEVERITY = 10_000


def cifar10(found: Path) -> ImageSet:
    """The 60,000 images in one domain, clean; the test images, last, are `test_only`.

    found   cifar-10-python.tar.gz, its folder cifar-10-batches-py, or a folder of {train,test}_{images,labels}.npy
            (images (N, 32, 32, 3) uint8, labels (N,))
    """
    try:
        return _read(found)
    except Exception as error:  # a damaged archive, pickle or array may raise anything
        why = sentence(error) or type(error).__name__
        raise ValueError(f"{found} cannot be read ({why}); run `hypo data cifar10` anew") from error


def _read(found: Path) -> ImageSet:
    from hypo.data.imageset import content_fingerprint

    train_images, train_labels, test_images, test_labels = _arrays(found)
    images = np.concatenate([train_images, test_images])
    labels = np.concatenate([train_labels, test_labels]).astype(np.int64)
    domains = np.zeros(len(labels), np.int64)
    return ImageSet(
        name="cifar10",
        images=images,
        labels=labels,
        domains=domains,
        class_names=CLASSES,
        domain_names=("clean",),
        fingerprint=content_fingerprint(images, labels, domains, CLASSES, ("clean",)),
        test_only=np.arange(len(labels)) >= len(train_labels),
    )


def cifar10c(folder: Path, name: str, severity: int) -> tuple[np.ndarray, np.ndarray]:
    """The published images (10000, 32, 32, 3) uint8 and labels (10000,) int64 of one corruption and severity."""
    images, labels = (_npy(folder / f"{stem}.npy") for stem in (name, "labels"))
    if images.dtype != np.uint8 or images.shape != (5 * PER_SEVERITY, 32, 32, 3) or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{folder / name}.npy must be uint8 (50000, 32, 32, 3) beside labels.npy (50000,), not {images.dtype} "
            f"{images.shape} beside {labels.shape}: fetch CIFAR-10-C anew with `hypo data cifar10c`"
        )
    block = slice((severity - 1) * PER_SEVERITY, severity * PER_SEVERITY)
    return np.array(images[block]), labels[block].astype(np.int64)


def is_cifar10(path: Path) -> bool:
    """Whether `path` is one of the three forms that `cifar10` reads."""
    if path.name.endswith(".tar.gz"):
        return path.is_file()
    batches = [path / batch for batches in BATCHES.values() for batch in batches]
    return all(p.is_file() for p in batches) or all((path / f"{stem}.npy").is_file() for stem in ARRAYS)


def _arrays(found: Path) -> tuple[np.ndarray, ...]:
    if (found / "train_images.npy").is_file():
        return tuple(_npy(found / f"{stem}.npy") for stem in ARRAYS)
    if found.is_dir():
        return _batches(lambda batch: (found / batch).open("rb"))
    with tarfile.open(found) as archive:
        return _batches(lambda batch: archive.extractfile(f"cifar-10-batches-py/{batch}"))


def _npy(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a readable array ({error}); replace it") from error


def _batches(open_batch: Callable[[str], IO[bytes]]) -> tuple[np.ndarray, ...]:
    """Images (N, 32, 32, 3) and labels (N,) of the training batches, then of the test batch."""
    arrays = []
    for batches in BATCHES.values():
        contents = []
        for batch in batches:
            with open_batch(batch) as file:
                contents.append(_ArraysOnly(file, encoding="bytes").load())
        planes = np.concatenate([content[b"data"] for content in contents])  # (N, 3072): red, green, blue planes
        arrays += [
            planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1),
            np.concatenate([content[b"labels"] for content in contents]),
        ]
    return tuple(arrays)


_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


class _ArraysOnly(pickle._Unpickler):
    """Unpickles numbers, strings, lists, dicts and numpy arrays; a pickle that names anything else is refused.

    Python's own unpickler, not the compiled one, which makes room for any number that five damaged bytes give a thing:
    16 GB for 2^30.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise ValueError(
                f"the CIFAR-10 files name {module}.{name}, which is no array: delete them and run `hypo data cifar10`"
            )
        return _ALLOWED[module, name]
