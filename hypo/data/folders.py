"""Any folder laid out as <domain>/<class>/<image> is a benchmark."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
LAYOUT = "lay the images out as <domain>/<class>/<image>, for example photo/dog/1.jpg"


@dataclass(frozen=True, eq=False)
class Listing:
    """What a folder holds, before any image is opened.

    root          the folder, absolute
    paths         N image paths relative to root, with forward slashes, sorted
    labels        (N,) int64 in [0, C)
    domains       (N,) int64 in [0, E)
    class_names   C names: the sorted union over the domains
    domain_names  E names, sorted
    notes         sentences on what is missing or left out
    """

    root: Path
    paths: tuple[str, ...]
    labels: np.ndarray
    domains: np.ndarray
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def scan(root: Path) -> Listing:
    """List the images under `root`, or refuse a folder of another shape with a ValueError.

    Names that start with a dot and files without an image's suffix are skipped. A domain or class without a single
    image is left out, a class that some domain lacks stays, and notes say so. Links are followed, so that a benchmark
    may be put together from links to other folders; as the depth is fixed, they cannot form a loop.
    """
    root = Path(root).resolve()
    if not root.is_dir():
        raise ValueError(f"{root} is not a folder; give the path of one and {LAYOUT}")
    folders = {domain.name: {c.name: _images(c) for c in _folders(domain)} for domain in _folders(root)}
    for name in (root.name, *folders, *(c for classes in folders.values() for c in classes)):
        if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
            raise ValueError(f"the folder {name!r} of {shown(str(root))} has a name that is no UTF-8 text; rename it")
    domain_names = tuple(sorted(d for d, classes in folders.items() if any(classes.values())))
    class_names = tuple(sorted({c for d in domain_names for c, images in folders[d].items() if images}))
    if not domain_names:
        raise ValueError(f"{root} holds no image two folders down; {LAYOUT}")
    if len(class_names) < 2:
        raise ValueError(f"{root} holds only one class, {class_names[0]}, and there must be two or more; {LAYOUT}")
    rows = sorted(
        (f"{domain}/{label}/{name}", class_names.index(label), domain_names.index(domain))
        for domain in domain_names
        for label, names in folders[domain].items()
        for name in names
    )
    paths, labels, domains = zip(*rows, strict=True)
    return Listing(
        root=root,
        paths=paths,
        labels=np.array(labels, np.int64),
        domains=np.array(domains, np.int64),
        class_names=class_names,
        domain_names=domain_names,
        notes=_notes(root, folders, class_names, domain_names),
    )


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _images(folder: Path) -> list[str]:
    """Names of the images in a folder; a link that leads nowhere counts, so that decoding names it as unreadable."""
    return [
        entry.name
        for entry in folder.iterdir()
        if entry.suffix.lower() in SUFFIXES and not entry.name.startswith(".") and not entry.is_dir()
    ]


def _notes(
    root: Path, folders: dict[str, dict[str, list[str]]], class_names: tuple[str, ...], domain_names: tuple[str, ...]
) -> tuple[str, ...]:
    lacking = {d: [c for c in class_names if not folders[d].get(c)] for d in domain_names}
    deeper = [f"{d}/{c}" for d in domain_names for c in folders[d] if _folders(root / d / c)]
    notes = [f"domain {shown(d)} has no image of {_and(missing)}" for d, missing in lacking.items() if missing]
    if empty := sorted({c for d in domain_names for c in folders[d]} - set(class_names)):
        notes.append(f"no domain has an image of {_and(empty)}, left out")
    if hollow := sorted(set(folders) - set(domain_names)):
        notes.append(f"{_and(hollow)} held no image two folders down and is no domain")
    for names in (domain_names, class_names):
        alike = [[*group] for _, group in itertools.groupby(sorted(names, key=_letters), _letters)]
        notes += [f"{_and(group)} differ in case or spaces only and count apart" for group in alike if len(group) > 1]
    if deeper:
        notes.append(f"folders inside a class folder are not read: {_and(deeper)} has some")
    return tuple(notes)


def _letters(name: str) -> str:
    return "".join(name.casefold().split())


def _and(names: Iterable[str]) -> str:
    return ", ".join(map(shown, names))


def shown(name: str) -> str:
    """A name or relative path as it can be printed and stored: what is no text, or looks like the start of an absolute
    path, as escapes."""
    odd = re.compile(r"""\\|[\s'"(=:](?=/)|:(?=\\)|[\x00-\x1f\x7f]""")
    return odd.sub(lambda found: f"\\x{ord(found[0]):02x}", name).encode("utf-8", "backslashreplace").decode()
