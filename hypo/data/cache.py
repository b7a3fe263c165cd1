"""Decode a folder of images once, into a memory-mapped array that every later run reads.

For each (folder, size) the cache holds an array (N, size, size, 3) uint8 in .npy format and, written after it, a small
JSON file with its key and a digest of its pixels; an array without its JSON file counts as absent.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from tqdm import tqdm

from hypo.data.folders import Listing, shown
from hypo.data.imageset import ImageSet, combined_fingerprint, pixel_digest
from hypo.files import locked, whole_file

FORMAT = 1  # part of the key: raise it when decoding or the form of the files changes
NAMED = 5  # broken images that a note names
PASSING = (errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ESTALE)
"""Errors of the machine, which say nothing of the file."""


class Unread(ValueError):
    """A file that this machine could not read at this time."""


def decode(listing: Listing, size: int, cache_dir: Path, workers: int | None = None) -> ImageSet:
    """The images of `listing`, squashed to size x size pixels, from the cache in `cache_dir`; it is built if need be.

    A cache is valid for its key: a hash of the format, the size, and every file's relative path, length in bytes, and
    times of modification and of change in nanoseconds. Its pixels must also have the digest they were written with,
    which each process checks once. Without a valid one, those of the same folder and size are removed and a new one is
    built; its files appear whole or not at all, and memory use does not grow with N. Of several processes that want the
    same cache, one builds and the others wait and then read.

    Images that cannot be decoded are left out, counted and named in the notes; where the machine failed, and not the
    image, nothing is left out or kept. If the cache cannot be written, a
    RuntimeWarning says why and the images are decoded into memory: the same set, to be decoded again next time.

    workers: threads that decode, by default one for each core. (Pillow decodes and resizes without Python's lock, and
    threads, unlike processes, neither fork a running PyTorch nor ask for a guarded main module in the reader's script.)
    """
    if size < 1:
        raise ValueError(f"size must be at least 1 pixel, not {size}")
    workers = workers or os.cpu_count() or 1
    try:
        return _from_cache(listing, size, Path(cache_dir), workers)
    except OSError as error:
        warnings.warn(
            f"the image cache in {cache_dir} cannot be written ({error.strerror or error}), so {listing.root.name} is "
            "decoded into memory, now and each time; make room there or choose another cache folder",
            RuntimeWarning,
            stacklevel=2,
        )
    return _in_memory(listing, size, workers)


def load_image(path: Path, size: int) -> np.ndarray:
    """One image as (size, size, 3) uint8: upright, in RGB, squashed to a square by an antialiased bilinear filter.

    The colours are those of Pillow's `convert("RGB")`, as in the usual loaders of these benchmarks: grey is repeated,
    alpha dropped. Unlike them, 16-bit grey is scaled to 8 bits and an EXIF orientation is honoured (PACS has neither).
    A JPEG of four times the size or more is decoded at 1/2, 1/4 or 1/8 of its resolution, still twice the size or more.
    """
    with Image.open(path) as image:
        image.draft("RGB", (2 * size, 2 * size))
        ImageOps.exif_transpose(image, in_place=True)
        if image.mode.startswith("I;16"):
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        elif image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")
        return np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR))


def _from_cache(listing: Listing, size: int, folder: Path, workers: int) -> ImageSet:
    """Read the cache, or build it and read it; an OSError if neither can be done."""
    key = _key(listing, size)
    origin = hashlib.sha256(os.fsencode(listing.root)).hexdigest()[:8]
    stem = f"{listing.root.name}-{origin}-{size}px"
    array = folder / f"{stem}-{key[:16]}.npy"
    if cached := _read(listing, size, key, array):
        return cached
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / f"{stem}.lock", f"another process is building {stem}; waiting for it"):
        if cached := _read(listing, size, key, array):
            return cached
        for old in folder.iterdir():
            if old.name.startswith((f"{stem}-", f".{stem}-")):
                old.unlink()
        if shutil.disk_usage(folder).free < len(listing.paths) * size * size * 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _build(listing, size, key, array, workers)
        if cached := _read(listing, size, key, array):
            return cached
    raise OSError("it does not read back as it was written")


def _in_memory(listing: Listing, size: int, workers: int) -> ImageSet:
    images = np.empty((len(listing.paths), size, size, 3), np.uint8)
    keep = np.zeros(len(images), bool)
    for i, image in enumerate(_decoded(listing, size, workers)):
        if image is not None:
            images[i], keep[i] = image, True
    images = images if keep.all() else images[keep]
    return _image_set(listing, images, keep, pixel_digest(images))


def _build(listing: Listing, size: int, key: str, array: Path, workers: int) -> None:
    """Write the array and then its JSON file; the caller holds the lock."""
    keep = np.zeros(len(listing.paths), bool)
    pixels = hashlib.sha256()
    with whole_file(array) as file:
        _write_header(file, (len(keep), size, size, 3))
        for i, image in enumerate(_decoded(listing, size, workers)):
            if image is not None:
                file.write(image)
                pixels.update(image)
                keep[i] = True
        file.seek(0)
        _write_header(file, (int(keep.sum()), size, size, 3))
    broken = np.flatnonzero(~keep).tolist()
    with whole_file(array.with_suffix(".json")) as file:
        file.write(json.dumps({"key": key, "pixels": pixels.hexdigest(), "broken": broken}).encode())


def _read(listing: Listing, size: int, key: str, array: Path) -> ImageSet | None:
    """The cached set, or None if it is absent, truncated or of another key."""
    try:
        stored = json.loads(array.with_suffix(".json").read_bytes())
        if stored["key"] != key:
            return None
        keep = np.ones(len(listing.paths), bool)
        keep[stored["broken"]] = False
        images = np.load(array, mmap_mode="r")
        if images.shape != (keep.sum(), size, size, 3) or images.dtype != np.uint8:
            return None
        state = (array, *_state(array))
        if state not in _checked and pixel_digest(images) != stored["pixels"]:
            warnings.warn(f"the image cache {array.name} is damaged, so it is built anew", RuntimeWarning, stacklevel=2)
            return None
        _checked.add(state)
        return _image_set(listing, images, keep, stored["pixels"])
    except (OSError, EOFError, ValueError, TypeError, LookupError):
        return None


_checked: set[tuple] = set()
"""Arrays whose pixels this process compared with their digest, each with the state of its file."""


def _image_set(listing: Listing, images: np.ndarray, keep: np.ndarray, pixels: str) -> ImageSet:
    """The kept part of the listing with its images and their digest; what is left out is noted."""
    notes = listing.notes
    if broken := [path for path, kept in zip(listing.paths, keep, strict=True) if not kept]:
        more = f" and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
        count = f"{len(broken)} unreadable image{'s' if len(broken) > 1 else ''}"
        notes += (f"{count} skipped: {', '.join(map(shown, broken[:NAMED]))}{more}",)
    labels, domains = listing.labels[keep], listing.domains[keep]
    names = listing.class_names, listing.domain_names
    return ImageSet(
        name=listing.root.name,
        images=images,
        labels=labels,
        domains=domains,
        class_names=listing.class_names,
        domain_names=listing.domain_names,
        fingerprint=combined_fingerprint(pixels, images.shape, labels, domains, *names),
        notes=notes,
    )


def _decoded(listing: Listing, size: int, workers: int) -> Iterator[np.ndarray | None]:
    """The images in order, None for a broken one, a few for each worker in memory at a time."""
    paths = [listing.root / path for path in listing.paths]
    ahead, readable = 16 * workers, 0
    with (
        ThreadPoolExecutor(workers) as pool,
        tqdm(total=len(paths), desc=f"decoding {listing.root.name}", unit="image", disable=None) as bar,
    ):
        for start in range(0, len(paths), ahead):
            for image in pool.map(partial(_load_or_none, size=size), paths[start : start + ahead]):
                readable += image is not None
                bar.update()
                yield image
    if not readable:
        raise ValueError(
            f"none of the {len(paths)} images under {listing.root} can be decoded, the first is {listing.paths[0]}; "
            "replace them with whole image files"
        )


def _load_or_none(path: Path, size: int) -> np.ndarray | None:
    try:
        return load_image(path, size)
    except MemoryError:
        raise
    except Exception as error:  # a broken file may raise anything in Pillow's forty decoders
        if isinstance(error, OSError) and error.errno in PASSING:
            raise Unread(
                f"{path} cannot be read now ({error.strerror}), and no image is left out for that: try again"
            ) from error
        return None


def _key(listing: Listing, size: int) -> str:
    files = [(path, *_state(listing.root / path)) for path in listing.paths]
    return hashlib.sha256(json.dumps([FORMAT, size, files]).encode()).hexdigest()


def _state(path: Path) -> tuple[int, ...]:
    """Length in bytes, times of modification and of change (which nobody can set) in ns; () for a link to nowhere."""
    try:
        stat = path.stat()
    except OSError:
        return ()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _write_header(file, shape: tuple[int, ...]) -> None:
    """The .npy header; numpy pads it so that its length does not depend on N."""
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
