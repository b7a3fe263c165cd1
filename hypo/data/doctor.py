"""Verify what lies under the data root, and say what it and the machine are ready for."""

from __future__ import annotations

import os
import platform
import shutil
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hypo.data.benchmarks import (
    CORRUPTED,
    REGISTRY,
    absent,
    data_root,
    differences,
    listed,
    locate,
    own_folder,
    per_class,
)
from hypo.data.folders import shown


@dataclass(frozen=True)
class Finding:
    """What was found of one benchmark: a sentence on what is there, and a sentence on each thing that is wrong."""

    summary: str
    problems: tuple[str, ...] = ()


def examine(benchmark: str, root: str | os.PathLike[str] | None = None) -> Finding:
    """Compare a benchmark's counts with the published ones and open every image of it once.

    benchmark   a name in REGISTRY, or the path of a folder laid out <domain>/<class>/<image>
    """
    if benchmark not in REGISTRY:
        return _folder(own_folder(benchmark), {}, {}, 0)
    if benchmark == "digits":
        return _digits()
    found = locate(benchmark, root)
    if found is None:
        return Finding("absent", (absent(benchmark, root),))
    if benchmark == "cifar10":
        return _cifar10(found)
    if benchmark == "cifar10c":
        return _cifar10c(found)
    spec = REGISTRY[benchmark]
    folder = found / "gaussian_noise" if benchmark == "imagenet100c" else found
    return _folder(folder, spec.counts, spec.class_counts, spec.num_classes, None if folder != found else benchmark)


def machine(root: str | os.PathLike[str] | None = None) -> dict[str, str]:
    """What a reader would be asked about the machine, by name."""
    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    root = data_root(root)
    mounted = next(folder for folder in (root.absolute(), *root.absolute().parents) if folder.exists())
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": ", ".join(gpus) or "CPU only",
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": f"{memory:.0f} GB",
        "free disk": f"{shutil.disk_usage(mounted).free / 1e9:.0f} GB",
        "data root": str(root),
    }


def scales(sound: Iterable[str], gpu: bool, unsound: Iterable[str] = ()) -> dict[str, str]:
    """Which scale runs with the benchmarks in `sound`, and on what, yes or no; `unsound` are what else was found."""
    real = [name for name in sound if name != "digits" and name not in CORRUPTED]
    named, faulty = ", ".join(real), ", ".join(unsound)
    missing = "no benchmark on disk; run `hypo data pacs` or `hypo data cifar10`"
    missing = f"{faulty} is not sound, see above" if faulty else missing
    return {
        "demo": "yes: digits, on any CPU",
        "cpu": f"yes: {named}" if real else f"no: {missing}",
        "paper": f"no: {missing}" if not real else f"yes: {named}" if gpu else "no: it needs a GPU",
    }


def _digits() -> Finding:
    from hypo.data.embedded import digits

    images = digits()
    counts = {d: int((images.domains == e).sum()) for e, d in enumerate(images.domain_names)}
    return Finding(_summary(len(images), counts), tuple(differences(counts, REGISTRY["digits"].counts)))


def _cifar10(found: Path) -> Finding:
    from hypo.data.cifar import CLASSES, cifar10

    try:
        images = cifar10(found)
    except ValueError as error:
        return Finding(f"unreadable at {found}", (str(error),))
    parts = {"train": images.labels[~images.test_only], "test": images.labels[images.test_only]}
    counts = {f"{part}/{c}": int((labels == i).sum()) for part, labels in parts.items() for i, c in enumerate(CLASSES)}
    published = per_class(REGISTRY["cifar10"].class_counts, CLASSES)
    return Finding(_summary(len(images), {p: len(x) for p, x in parts.items()}), tuple(differences(counts, published)))


def _cifar10c(found: Path) -> Finding:
    from hypo.data.cifar import cifar10c
    from hypo.data.corruptions import CORRUPTIONS

    problems, sound = [], 0
    for name in CORRUPTIONS:
        try:
            cifar10c(found, name, 5)
            sound += 1
        except ValueError as error:
            problems.append(str(error))
    return Finding(f"{sound} of {len(CORRUPTIONS)} corruptions of 50,000 images", tuple(problems))


def _folder(
    folder: Path,
    counts: Mapping[str, int],
    class_counts: Mapping[str, tuple[int, ...]],
    num_classes: int,
    benchmark: str | None = None,
) -> Finding:
    """Count and open the images of a folder; what is not published (empty mapping, 0) is not compared."""
    listing = listed(folder, REGISTRY[benchmark] if benchmark else None)
    table = np.zeros((len(listing.domain_names), len(listing.class_names)), int)
    np.add.at(table, (listing.domains, listing.labels), 1)
    per_domain = dict(zip(listing.domain_names, table.sum(1).tolist(), strict=True))
    problems = []
    if num_classes and num_classes != len(listing.class_names):
        problems.append(f"{len(listing.class_names)} classes instead of {num_classes}")
    else:
        cells = per_class(dict(zip(listing.domain_names, table.tolist(), strict=True)), listing.class_names)
        problems += differences(cells, per_class(class_counts, listing.class_names))
    problems += differences(per_domain, counts)
    broken = _broken([listing.root / path for path in listing.paths])
    problems += [f"{shown(str(path.relative_to(listing.root)))} cannot be opened ({why})" for path, why in broken]
    notes = "".join(f"; {note}" for note in listing.notes)
    return Finding(_summary(len(listing.paths), per_domain) + notes, tuple(problems))


def _broken(paths: list[Path]) -> list[tuple[Path, str]]:
    """The images that cannot be decoded, each with the reason; all cores take part."""
    from tqdm import tqdm

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        with warnings.catch_warnings(action="ignore"):  # of Pillow, on odd but readable files
            reasons = tqdm(pool.map(_why_broken, paths), "opening images", len(paths), unit=" images", disable=None)
            return [(path, why) for path, why in zip(paths, reasons, strict=True) if why]
    finally:
        pool.shutdown(cancel_futures=True)


def _why_broken(path: Path) -> str:
    from PIL import Image

    try:
        with Image.open(path) as image:
            image.convert("RGB")
    except Exception as error:  # a broken file may raise anything in Pillow's decoders
        return shown(str(error).replace(str(path), path.name))
    return ""


def _summary(total: int, counts: Mapping[str, int]) -> str:
    return f"{total:,} images: " + ", ".join(f"{name} {count:,}" for name, count in counts.items())
