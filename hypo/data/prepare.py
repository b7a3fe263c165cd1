"""Lay a benchmark out under the data root: fetched from its sources, or made from an ImageNet folder on disk."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from hypo.data.benchmarks import CORRUPTED, REGISTRY, SYNSETS, TERRA_CLASSES, absent, data_root, locate
from hypo.data.download import building, fetch, intact, members, unpack
from hypo.files import expanded
from hypo.suggest import one_of


def prepare(name: str, root: str | os.PathLike[str] | None = None, source: str | os.PathLike[str] | None = None) -> str:
    """Make the benchmark `name` present under the root and say in one sentence what was done.

    source   for imagenet100 and imagenet100c, which nobody may pass on: the reader's ImageNet or ImageNet-C folder
    """
    spec, root = REGISTRY[one_of("benchmark", name, REGISTRY)], data_root(root)
    if name == "digits":
        return "digits is part of the package: there is nothing to fetch"
    if found := locate(name, root):
        return f"{name} is already at {found}"
    target = root / spec.folders[0]
    if source is not None and spec.sources:
        raise ValueError(f"{name} is fetched from its source: leave --from out")
    if source is None and not spec.sources:
        note = f" (without it, it is generated from {CORRUPTED[name]})" if name in CORRUPTED else ""
        raise ValueError(absent(name, root) + note)
    if source is not None:
        _take(name, expanded(source), target)
        return f"{name} is at {target}"
    archives = [fetch(s.url, _archive(root, s.file), bytes=s.bytes, md5=s.md5) for s in spec.sources]
    unpack(archives[-1], target, _terra(archives[0]) if name == "terra_incognita" else _places(name))
    if locate(name, root) is None:
        raise ValueError(f"{target} is there but is not a whole {name}: move it away and run `hypo data {name}` again")
    return f"{name} is at {target}; the download stays in {archives[-1].parent} until you delete it"


def _archive(root: Path, file: str) -> Path:
    """Where an archive is looked for and put: downloads/ under the root, or the root itself if it lies there."""
    return root / file if (root / file).exists() else root / "downloads" / file


def _places(name: str) -> Callable[[str], list[str]]:
    """Where a file of the benchmark's archive goes: from its domain's folder on, whatever folders are above that."""
    if name == "cifar10":
        return lambda member: [member]
    if name == "cifar10c":
        return lambda member: [PurePosixPath(member).name]
    domains = {_key(domain): domain for domain in REGISTRY[name].domains}

    def place(member: str) -> list[str]:
        parts = PurePosixPath(member).parts
        at = next((i for i, part in enumerate(parts) if _key(part) in domains), None)
        return [] if at is None or len(parts) != at + 3 else [f"{domains[_key(parts[at])]}/{parts[-2]}/{parts[-1]}"]

    return place


def _key(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _terra(annotations: Path) -> Callable[[str], list[str]]:
    """Where an image of the LILA archive goes: location_<id>/<class>/<image>, for the paper's locations and classes.

    An image with animals of two classes is in both class folders, as in the public loaders.
    """
    folders = defaultdict(set)
    with intact(annotations):
        for name, stream in members(annotations):
            if name.endswith(".json"):
                content = json.load(stream)
                category = {c["id"]: c["name"] for c in content["categories"]}
                image = {i["id"]: (f"location_{i['location']}", i["file_name"]) for i in content["images"]}
                for annotation in content["annotations"]:
                    location, file = image[annotation["image_id"]]
                    label = category[annotation["category_id"]]
                    if location in REGISTRY["terra_incognita"].domains and label in TERRA_CLASSES:
                        folders[file].add(f"{location}/{label}/{file}")
    return lambda member: sorted(folders.get(PurePosixPath(member).name, ()))


def _take(name: str, source: Path, target: Path) -> None:
    """Take the paper's 100 classes out of an ImageNet or ImageNet-C folder.

    Hard links where the file system allows, else copies: neither breaks when the source or the root moves.
    """
    from tqdm import tqdm

    if name == "imagenet100c" and (source / "gaussian_noise").is_dir():
        source = source / "gaussian_noise"
    splits, below = (("train", "val"), ".") if name == "imagenet100" else (tuple("12345"), "gaussian_noise")
    folders = [f"{split}/{synset}" for split in splits for synset in SYNSETS]
    missing = [folder for folder in folders if not (source / folder).is_dir()]
    if missing:
        raise ValueError(
            f"{source} lacks {len(missing)} of the {len(folders)} folders of {name}, the first being {missing[0]}: "
            f"point --from at a folder with {' and '.join(f'{s}/<synset>' for s in splits)}"
        )
    with building(target) as staging:
        for folder in tqdm(folders if staging else (), f"making {name}", unit=" folders", disable=None):
            made = staging / below / folder
            made.mkdir(parents=True)
            for image in (source / folder).iterdir():
                if image.is_file() and not image.name.startswith("."):
                    _link(image.resolve(), made / image.name)


def _link(image: Path, at: Path) -> None:
    try:
        os.link(image, at)
    except OSError:
        shutil.copyfile(image, at)
