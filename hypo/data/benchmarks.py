"""The benchmarks of the paper and the embedded one: what each holds, where it comes from, and how it is read."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hypo.data.imageset import ImageSet
from hypo.files import expanded
from hypo.suggest import one_of


@dataclass(frozen=True)
class Source:
    """One published file: name, url (https://... or drive:<Google Drive id>), size in bytes and md5 if published."""

    file: str
    url: str
    bytes: int | None = None
    md5: str | None = None


@dataclass(frozen=True)
class Benchmark:
    """What is known of a benchmark before it is on disk.

    domains       the paper's environments, by the names they have in an ImageSet
    num_classes   C
    licence       one phrase; each reader must read the terms at the source
    layout        where its files lie under the data root
    folders       the names of its folder under the root that are accepted; `hypo data` makes the first
    inside        what that folder must hold to count as the benchmark; the domains by default
    counts        folder in it -> published number of images, where one is published
    class_counts  folder in it -> published number of images of each class, in the order of the class names
    images        published total, or the most there can be where `at_most`
    at_most       whether the total is only known to be no more than that
    """

    domains: tuple[str, ...]
    num_classes: int
    licence: str
    layout: str
    images: int
    folders: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    at_most: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    class_counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()

    @property
    def total(self) -> str:
        """The number of images, as shown."""
        return f"{'<= ' if self.at_most else ''}{self.images:,}"


TERRA_CLASSES = ("bird", "bobcat", "cat", "coyote", "dog", "empty", "opossum", "rabbit", "raccoon", "squirrel")
IMAGENET_C_GAUSSIAN = (0.08, 0.12, 0.18, 0.26, 0.38)  # standard deviation at severities 1..5, pixels in [0, 1]
_SYNSETS = """
    n01498041 n01514859 n01582220 n01608432 n01616318 n01687978 n01776313 n01806567 n01833805 n01882714
    n01910747 n01944390 n01985128 n02007558 n02071294 n02085620 n02114855 n02123045 n02128385 n02129165
    n02129604 n02165456 n02190166 n02219486 n02226429 n02279972 n02317335 n02326432 n02342885 n02363005
    n02391049 n02395406 n02403003 n02422699 n02442845 n02444819 n02480855 n02510455 n02640242 n02672831
    n02687172 n02701002 n02730930 n02769748 n02782093 n02787622 n02793495 n02799071 n02802426 n02814860
    n02840245 n02906734 n02948072 n02980441 n02999410 n03014705 n03028079 n03032252 n03125729 n03160309
    n03179701 n03220513 n03249569 n03291819 n03384352 n03388043 n03450230 n03481172 n03594734 n03594945
    n03627232 n03642806 n03649909 n03661043 n03676483 n03724870 n03733281 n03759954 n03761084 n03773504
    n03804744 n03916031 n03938244 n04004767 n04026417 n04090263 n04133789 n04153751 n04296562 n04330267
    n04371774 n04404412 n04465501 n04485082 n04507155 n04536866 n04579432 n04606251 n07714990 n07745940
"""
SYNSETS = tuple(_SYNSETS.split())  # the paper's ImageNet-100

_LILA = "https://storage.googleapis.com/public-datasets-lila/caltechcameratraps"

REGISTRY: Mapping[str, Benchmark] = {
    "digits": Benchmark(
        domains=("photo", "art_painting", "cartoon", "sketch"),
        num_classes=10,
        licence="UCI optdigits by way of scikit-learn, CC BY 4.0",
        layout="part of the package",
        images=7_188,
        counts=dict.fromkeys(("photo", "art_painting", "cartoon", "sketch"), 1797),
    ),
    "cifar10": Benchmark(
        domains=("clean",),
        num_classes=10,
        licence="no licence stated; cite Krizhevsky 2009",
        layout="cifar10/cifar-10-batches-py, or cifar10/{train,test}_{images,labels}.npy",
        images=60_000,
        folders=("cifar10", "CIFAR10", "cifar-10", "."),
        class_counts={"train": (5000,) * 10, "test": (1000,) * 10},
        sources=(
            Source(
                "cifar-10-python.tar.gz",
                "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                170_498_071,
                "c58f30108f718f92721af3b95e74349a",
            ),
        ),
    ),
    "cifar10c": Benchmark(
        domains=("19 corruptions x 5",),
        num_classes=10,
        licence="CC BY 4.0 (Zenodo 2535967)",
        layout="CIFAR-10-C/<corruption>.npy and labels.npy",
        images=950_000,
        folders=("CIFAR-10-C", "cifar10c", "cifar-10-c"),
        inside=("labels.npy",),
        sources=(
            Source(
                "CIFAR-10-C.tar",
                "https://zenodo.org/records/2535967/files/CIFAR-10-C.tar",
                2_918_471_680,
                "56bf5dcef84df0e2308c6dcbcbbd8499",
            ),
        ),
    ),
    "pacs": Benchmark(
        domains=("art_painting", "cartoon", "photo", "sketch"),
        num_classes=7,
        licence="no licence stated; research use",
        layout="PACS/<domain>/<class>/<image>",
        images=9_991,
        folders=("PACS", "pacs", "PACS/kfold", "pacs/kfold", "kfold"),
        counts={"art_painting": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929},
        class_counts={  # dog, elephant, giraffe, guitar, horse, house, person
            "art_painting": (379, 255, 285, 184, 201, 295, 449),
            "cartoon": (389, 457, 346, 135, 324, 288, 405),
            "photo": (189, 202, 182, 186, 199, 280, 432),
            "sketch": (772, 740, 753, 608, 816, 80, 160),
        },
        sources=(Source("PACS.zip", "drive:1JFr8f805nMUelQWWmfnJR3y4_SYoN5Pd"),),
    ),
    "office_home": Benchmark(
        domains=("art", "clipart", "product", "real_world"),
        num_classes=65,
        licence="fair-use notice: non-commercial research only",
        layout="office_home/<domain>/<class>/<image>",
        images=15_588,
        folders=("office_home", "OfficeHomeDataset_10072016", "OfficeHome", "officehome", "office-home"),
        counts={"art": 2427, "clipart": 4365, "product": 4439, "real_world": 4357},
        sources=(
            Source(
                "OfficeHomeDataset_10072016.zip",
                "drive:1uY0pj7oFsjMxRwaD3Sxy0jgel0fsYXLC",
                md5="b1c14819770c4448fd5b6d931031c91c",
            ),
        ),
    ),
    "vlcs": Benchmark(
        domains=("Caltech101", "LabelMe", "SUN09", "VOC2007"),
        num_classes=5,
        licence="no licence stated; each part keeps its own terms",
        layout="VLCS/<domain>/<class>/<image>",
        images=10_729,
        folders=("VLCS", "vlcs"),
        counts={"Caltech101": 1415, "LabelMe": 2656, "SUN09": 3282, "VOC2007": 3376},
        class_counts={  # bird, car, chair, dog, person
            "Caltech101": (237, 123, 118, 67, 870),
            "LabelMe": (80, 1209, 89, 43, 1235),
            "SUN09": (21, 933, 1036, 31, 1261),
            "VOC2007": (330, 699, 428, 420, 1499),
        },
        sources=(
            Source("VLCS.tar.gz", "drive:1skwblH1_okBwxWxmRsp9_qi15hyPpxg8", md5="8870171eba660927d9668f4e515928e4"),
        ),
    ),
    "terra_incognita": Benchmark(
        domains=("location_38", "location_43", "location_46", "location_100"),
        num_classes=10,
        licence="CDLA-Permissive 1.0 (LILA)",
        layout="terra_incognita/location_<38, 43, 46, 100>/<class>/<image>",
        images=24_330,  # of the public loaders' layout; the paper prints 24,788
        folders=("terra_incognita", "TerraIncognita", "terra"),
        counts={"location_38": 9736, "location_43": 3970, "location_46": 5883, "location_100": 4741},
        sources=(
            Source("eccv_18_annotations.tar.gz", f"{_LILA}/eccv_18_annotations.tar.gz"),
            Source("eccv_18_all_images_sm.tar.gz", f"{_LILA}/eccv_18_all_images_sm.tar.gz"),
        ),
    ),
    "imagenet100": Benchmark(
        domains=("clean",),
        num_classes=100,
        licence="ImageNet's terms: non-commercial research, no copies passed on",
        layout="imagenet100/{train,val}/<synset>/<image>",
        images=135_000,
        at_most=True,  # at most 1,300 to train on and 50 to validate on per class
        folders=("imagenet100", "ImageNet100", "ImageNet-100"),
        inside=("train", "val"),
        class_counts={"val": (50,) * 100},
    ),
    "imagenet100c": Benchmark(
        domains=("gaussian_noise x 5",),
        num_classes=100,
        licence="CC BY 4.0 (Zenodo 2235448) over ImageNet's terms",
        layout="imagenet100c/gaussian_noise/<severity>/<synset>/<image>",
        images=25_000,
        folders=("imagenet100c", "ImageNet100-C", "ImageNet-100-C"),
        inside=("gaussian_noise",),
        class_counts=dict.fromkeys("12345", (50,) * 100),
    ),
}
CORRUPTED = {"cifar10c": "cifar10", "imagenet100c": "imagenet100"}
"""Test sets made from another benchmark's test images, published or generated."""


def data_root(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder benchmarks lie under: `root`, else $HYPO_DATA, else data/ of the working copy, else ./data."""
    if given := root or os.environ.get("HYPO_DATA"):
        return expanded(given)
    checkout = Path(__file__).resolve().parents[2]
    return checkout / "data" if (checkout / "pyproject.toml").exists() else Path("data")


def own_folder(path: str) -> Path:
    """The reader's own folder at `path`, or a ValueError that takes it for a misspelt path or benchmark."""
    folder = expanded(path)
    if not folder.is_dir():
        if os.sep in path:
            raise ValueError(
                f"{path} is not a folder: give one laid out <domain>/<class>/<image>, or a benchmark's name"
            )
        one_of("benchmark", path, REGISTRY)
    return folder


def own_name(name: str) -> str:
    """A reader's folder by its name; one that is called like a benchmark of the registry is ./name, and never it."""
    return f"./{name}" if _plain(name) in map(_plain, REGISTRY) else name


def _plain(name: str) -> str:
    """A name without case, spaces and signs: Real World and real_world are one, PACS and pacs too."""
    return re.sub("[^a-z0-9]", "", name.lower())


def locate(name: str, root: str | os.PathLike[str] | None = None) -> Path | None:
    """Where the registry's benchmark `name` lies under the root, None when it is absent or lacks a part."""
    from hypo.data.cifar import is_cifar10

    spec, root = REGISTRY[name], data_root(root)
    for folder in (root / f for f in spec.folders):
        if name == "cifar10":
            for form in (folder, folder / "cifar-10-batches-py", folder / "cifar-10-python.tar.gz"):
                if is_cifar10(form):
                    return form
        elif folder.is_dir() and {*(spec.inside or spec.domains)} <= {*_renamed(folder, spec).values()}:
            return folder
    return None


def absent(name: str, root: str | os.PathLike[str] | None = None) -> str:
    """One sentence: how to get the benchmark `name`, by command and by hand."""
    from hypo.data.download import browser_page

    spec, root = REGISTRY[name], data_root(root)
    if not spec.sources:
        return (
            f"{name} is not under {root}: run `hypo data {name} --from PATH` with PATH your "
            f"{'ImageNet' if name == 'imagenet100' else 'ImageNet-C'} folder, or make {root / spec.layout} by hand"
        )
    pages = " and ".join(browser_page(source.url) for source in spec.sources)
    return f"{name} is not under {root}: run `hypo data {name}`, or make {root / spec.layout} by hand from {pages}"


@functools.cache
def _digits() -> ImageSet:
    """Drawn once in a process, which takes four seconds, and kept as it is: its arrays cannot be written to."""
    from hypo.data.embedded import digits

    images = digits()
    for array in (images.images, images.labels, images.domains, images.groups, images.test_only):
        array.flags.writeable = False
    return images


def load(
    benchmark: str | os.PathLike[str], *, size: int | None = None, root: str | os.PathLike[str] | None = None
) -> ImageSet:
    """Read a benchmark: a name in REGISTRY, or the path of any folder laid out <domain>/<class>/<image>.

    size   height and width in pixels to which a folder's images are squashed, 224 (the paper's) by default;
           digits and cifar10 are 32 and nothing else
    root   see `data_root`; decoded images are cached in its folder cache/
    """
    name = os.fspath(benchmark)
    if name in CORRUPTED:
        raise ValueError(
            f"{name} is for testing only: load {CORRUPTED[name]} and use corrupted({name!r}, ...) beside it"
        )
    refuse_size(name, size)
    if name == "digits":
        return _digits()
    if name not in REGISTRY:
        images = _decode(own_folder(name), size, root)
        return dataclasses.replace(images, name=own_name(images.name))
    folder = locate(name, root)
    if folder is None:
        raise ValueError(absent(name, root))
    if name == "cifar10":
        from hypo.data.cifar import cifar10

        return cifar10(folder)
    images = dataclasses.replace(_decode(folder, size, root, REGISTRY[name]), name=name)
    return _train_and_val(images) if name == "imagenet100" else images


def data_version(benchmark: str, images: ImageSet) -> str:
    """What tells one version of a data set from another in a run's identity: "" for the embedded digits, which are
    code, else the start of the fingerprint."""
    return "" if benchmark == "digits" else images.fingerprint[:12]


def differences(counts: Mapping[str, int], published: Mapping[str, int]) -> list[str]:
    """A sentence on each count that is not the published one."""
    return [
        f"{what} has {counts.get(what, 0):,} images instead of the published {expected:,}"
        for what, expected in published.items()
        if counts.get(what, 0) != expected
    ]


def per_class(counts: Mapping[str, Iterable[int]], class_names: Iterable[str]) -> dict[str, int]:
    """{domain: counts in the order of the classes} -> {domain/class: count}."""
    return {f"{d}/{c}": n for d, row in counts.items() for c, n in zip(class_names, row, strict=True)}


def refuse_size(name: str, size: int | None) -> None:
    """Refuse a width in pixels that a benchmark's images do not come in."""
    if name in ("digits", "cifar10") and size not in (None, 32):
        demo = ", as at demo scale" if name == "digits" else ""
        raise ValueError(f"{name} is 32 pixels wide, not {size}: set size to 32{demo}")


def refuse_incomplete(images: ImageSet) -> None:
    """Refuse a benchmark of the registry whose counts are not the published ones: its numbers would be taken for those
    of the whole."""
    spec, names = REGISTRY[images.name], images.class_names
    parts = {d: images.labels[images.domains == e] for e, d in enumerate(images.domain_names)}
    if images.test_only is not None:
        parts["train"] = images.labels[~images.test_only]
        parts |= dict.fromkeys(("test", "val"), images.labels[images.test_only])
    table = {part: np.bincount(labels, minlength=len(names)).tolist() for part, labels in parts.items()}
    wrong = [f"it has {len(names)} classes instead of {spec.num_classes}"] if len(names) != spec.num_classes else []
    if not wrong:
        wrong = differences(per_class(table, names), per_class(spec.class_counts, names))
    wrong = wrong or differences({part: len(labels) for part, labels in parts.items()}, spec.counts)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise ValueError(
            f"{images.name} is incomplete: {wrong[0]}{more}; `hypo doctor {images.name}` lists all, `hypo data "
            f"{images.name}` fetches it, and the path of its folder trains on it as data of your own"
        )


def corrupted(
    benchmark: str,
    name: str,
    severity: int,
    root: str | os.PathLike[str] | None = None,
    images: ImageSet | None = None,
    domain: str | None = None,
) -> tuple[np.ndarray, np.ndarray, str]:
    """A benchmark's test images under one corruption: (N, H, W, 3) uint8, labels (N,) int64, and their source.

    The source is "published" when CIFAR-10-C or ImageNet-C (gaussian_noise) is on disk for the benchmark, else
    "generated", always from the same seed: by `hypo.corrupt`, or with ImageNet-C's own constants for imagenet100.

    images   the clean benchmark if it is loaded already; domain keeps the test images of that domain only
    """
    from hypo.data.cifar import cifar10c
    from hypo.data.corruptions import CORRUPTIONS, corrupt

    base = CORRUPTED.get(benchmark, benchmark)
    one_of("corruption", name, ("gaussian_noise",) if base == "imagenet100" else CORRUPTIONS)
    if severity not in range(1, 6):
        raise ValueError(f"severity must be 1, 2, 3, 4 or 5, not {severity}")
    published = {v: k for k, v in CORRUPTED.items()}.get(base)
    folder = published and locate(published, root)
    if base == "cifar10" and folder and (folder / f"{name}.npy").exists():
        return *cifar10c(folder, name, severity), "published"
    if base == "imagenet100" and folder:
        found = _decode(folder / name, images and images.images.shape[1], root)
        at = found.domains == found.domain_names.index(str(severity))
        return found.images[at], found.labels[at], "published"
    clean = images or load(base, root=root)
    at = np.ones(len(clean), bool) if clean.test_only is None else clean.test_only.copy()
    if domain is not None:
        at &= clean.domains == clean.domain_names.index(one_of("domain", domain, clean.domain_names))
    if base == "imagenet100":
        return _imagenet_gaussian(clean.images[at], severity), clean.labels[at], "generated"
    return corrupt(clean.images[at], name, severity, seed=0), clean.labels[at], "generated"


def _imagenet_gaussian(images: np.ndarray, severity: int) -> np.ndarray:
    """ImageNet-C's Gaussian noise on (N, H, W, 3) uint8: clip(x + c n) with x in [0, 1], c by severity, n normal."""
    noisy = np.empty_like(images)
    for i, image in enumerate(images):
        noise = np.random.default_rng([severity, i]).standard_normal(image.shape, np.float32)
        noisy[i] = 255 * np.clip(image / np.float32(255) + IMAGENET_C_GAUSSIAN[severity - 1] * noise, 0, 1)
    return noisy


def _renamed(folder: Path, spec: Benchmark) -> dict[str, str]:
    """Name on disk -> name in the registry ('Real World' -> real_world) for what the registry knows in `folder`."""
    known_as = {_plain(n): n for n in spec.inside or spec.domains}
    keys = {path.name: _plain(path.name) for path in folder.iterdir()}
    return {name: known_as[key] for name, key in keys.items() if key in known_as}


def listed(folder: Path, spec: Benchmark | None = None) -> Any:
    """The folder's `Listing`, with only the domains of `spec` and by their names there."""
    from hypo.data.folders import scan

    listing = scan(folder)
    if spec is None:
        return listing
    names = _renamed(folder, spec)
    kept = [i for i, d in enumerate(listing.domains) if listing.domain_names[d] in names]
    classes, labels = np.unique(listing.labels[kept], return_inverse=True)
    present, domains = np.unique(listing.domains[kept], return_inverse=True)
    return dataclasses.replace(
        listing,
        paths=tuple(listing.paths[i] for i in kept),
        labels=labels,
        domains=domains,
        class_names=tuple(listing.class_names[c] for c in classes),
        domain_names=tuple(names[listing.domain_names[d]] for d in present),
    )


def _decode(
    folder: Path, size: int | None, root: str | os.PathLike[str] | None, spec: Benchmark | None = None
) -> ImageSet:
    from hypo.data.cache import decode

    return decode(listed(folder, spec), 224 if size is None else size, data_root(root) / "cache")


def _train_and_val(images: ImageSet) -> ImageSet:
    """The folders train and val as one domain, clean, whose val images are for testing only."""
    digest = hashlib.sha256(f"one domain, val for testing: {images.fingerprint}".encode())
    return dataclasses.replace(
        images,
        domains=np.zeros(len(images), np.int64),
        domain_names=("clean",),
        test_only=images.domains == images.domain_names.index("val"),
        fingerprint=digest.hexdigest(),
    )
