"""What a run is: one frozen dataclass, its defaults at each scale, and its hash."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypo.algorithms import ALGORITHMS
from hypo.suggest import one_of

SCALES = ("demo", "cpu", "paper")


@dataclass(frozen=True)
class Config:
    """Every choice that decides a number; symbols are the paper's."""

    benchmark: str  # a registry name, or a folder <domain>/<class>/<image>
    algorithm: str
    held_out: str | None  # the domain never trained on; None: tested on corruptions of the test images
    scale: str
    seed: int = 0
    # the network
    backbone: str = "resnet18"
    weights: str | None = None
    stem: str = "imagenet"
    width: float = 1.0
    dim: int = 128  # d
    size: int = 224  # pixels
    # optimisation: SGD with momentum, cosine to 0
    epochs: int = 50
    batch_size: int = 32  # images a step; each is seen in `views` augmentations
    lr: float = 5e-4
    head_lr: float = 1.0  # times lr, for the layers that start from random weights
    sgd_momentum: float = 0.9
    weight_decay: float = 1e-4
    warmup: float = 0.0  # epochs of linear warm-up
    # HYPO
    temperature: float = 0.1  # tau
    momentum: float = 0.95  # alpha
    weight: float = 1.0  # lambda
    prototypes: str = "ema"  # or "learnable"
    separation: bool = True  # the separation loss
    hard_negatives: bool = True  # same-domain negatives; off for the single-source benchmarks
    # data
    augmentation: str = "pacs"
    views: int = 2
    fraction: float = 0.1  # of the training domains, for validation
    protocol: str = "paper"  # or "released", which leaks: for measuring its effect
    corrupted_images: int | None = None  # test images that are corrupted; None: all
    # how it is run
    evaluations: int = 1  # an epoch, evenly spaced; what selection and SWAD look at
    swad: bool = False
    accumulate: int = 1  # parts a batch is passed through the network in; the loss is of the whole batch all the same
    precision: str = "auto"  # bfloat16 where the device is faster with it, float32 elsewhere; or one of these names
    compile: bool = False

    def __post_init__(self) -> None:
        import torchvision  # here, since `hypo --help` does without torch

        from hypo.data.augment import RECIPES
        from hypo.data.splits import PROTOCOLS

        one_of("scale", self.scale, SCALES)
        one_of("algorithm", self.algorithm, ALGORITHMS)
        one_of("prototypes", self.prototypes, ("ema", "learnable"))
        one_of("precision", self.precision, ("auto", "float32", "bfloat16", "float64"))
        for field in ("width", "lr", "head_lr", "temperature"):
            if not getattr(self, field) > 0:
                raise ValueError(f"{field} must be above 0, not {getattr(self, field)}")
        one_of("backbone", self.backbone, torchvision.models.list_models(module=torchvision.models))
        one_of("stem", self.stem, ("imagenet", "cifar"))
        one_of("protocol", self.protocol, PROTOCOLS)
        one_of("augmentation", self.augmentation, RECIPES)
        for field in ("warmup", "weight", "weight_decay", "seed"):
            if getattr(self, field) < 0:
                raise ValueError(f"{field} must not be negative, not {getattr(self, field)}")
        for field in ("momentum", "fraction", "sgd_momentum"):
            if not 0 <= getattr(self, field) < 1:
                raise ValueError(f"{field} must lie in [0, 1), not {getattr(self, field)}")
        if self.corrupted_images is not None and self.corrupted_images < 1:
            raise ValueError(f"corrupted_images must be at least 1, or none for all, not {self.corrupted_images}")
        for field in ("epochs", "batch_size", "views", "evaluations", "accumulate", "size", "dim"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, not {getattr(self, field)}")


FIELDS = {field.name: field for field in dataclasses.fields(Config)}

DEMO = {
    "backbone": "resnet18",
    "width": 0.25,
    "dim": 64,
    "size": 32,
    "epochs": 16,
    "batch_size": 64,
    "lr": 0.05,
    "views": 1,
    "augmentation": "digits",
    "corrupted_images": 200,
}
CPU = {
    "backbone": "mobilenet_v2",
    "weights": "IMAGENET1K_V1",
    "dim": 512,
    "size": 112,
    "epochs": 5,
    "batch_size": 64,
    "lr": 3e-3,
    "head_lr": 3.0,
    "views": 1,
}
CPU_ON_SPHERE = {"lr": 1e-3, "head_lr": 10.0}
"""For losses of cosines over tau, whose gradients are 1/tau times as large.

Both are the best of three pairs (lr, head_lr) by training-domain validation after one epoch of PACS, cartoon held out:
ERM 78% at (0.01, 3), 84% at (0.003, 3), 81% at (0.001, 10); HYPO 59%, 78% and 80%.
"""
CPU_CIFAR = {
    "backbone": "resnet18",
    "stem": "cifar",
    "width": 0.25,
    "dim": 128,
    "size": 32,
    "epochs": 10,
    "batch_size": 128,
    "lr": 0.1,
    "views": 1,
    "weight": 2.0,
    "augmentation": "cifar",
    "corrupted_images": 1000,
}
PAPER = {"backbone": "resnet50", "weights": "IMAGENET1K_V1", "dim": 512, "epochs": 50, "batch_size": 32, "lr": 5e-4}
PAPER_BY_BENCHMARK = {
    "cifar10": {
        "backbone": "resnet18",
        "weights": None,
        "stem": "cifar",
        "dim": 128,
        "size": 32,
        "epochs": 500,
        "batch_size": 512,
        "lr": 0.5,
        "weight": 2.0,
        "augmentation": "cifar",
    },
    "imagenet100": {"backbone": "resnet34", "dim": 128, "epochs": 10},
}
PACS_BY_DOMAIN = {
    "cartoon": {"lr": 5e-4, "weight": 4.0},
    "photo": {"lr": 1e-4, "weight": 1.0},
    "sketch": {"lr": 2e-3, "weight": 2.0},
    "art_painting": {"lr": 5e-4, "weight": 1.0},
}
"""Learning rate and lambda of the released PACS runs; the paper gives only what it searched."""


def configure(
    benchmark: str,
    algorithm: str = "hypo",
    held_out: str | None = None,
    scale: str = "demo",
    seed: int = 0,
    **overrides: Any,
) -> Config:
    """The configuration of a run: the scale's defaults for this benchmark, then `overrides`, each a field of Config."""
    for name in overrides:
        one_of("field", name, FIELDS)
    one_of("scale", scale, SCALES)
    defaults: dict[str, Any] = {}
    if scale == "demo":
        defaults |= DEMO
    elif scale == "cpu":
        defaults |= CPU_CIFAR if benchmark == "cifar10" else CPU
        if algorithm in ("hypo", "pcl") and benchmark != "cifar10":
            defaults |= CPU_ON_SPHERE
    else:
        defaults |= PAPER | PAPER_BY_BENCHMARK.get(benchmark, {})
        if benchmark == "pacs" and algorithm == "hypo":
            defaults |= PACS_BY_DOMAIN.get(held_out, {})
    if benchmark in ("cifar10", "imagenet100"):
        defaults["hard_negatives"] = False
    values = {name: typed(name, value) for name, value in overrides.items()}
    return Config(benchmark, algorithm, held_out, scale, seed, **(defaults | values))


def typed(name: str, value: Any) -> Any:
    """`value` as the type of the field, from the field's own type or from text; anything else is refused."""
    kind, _, optional = str(FIELDS[name].type).partition(" | ")
    if optional and (value is None or value == "none"):
        return None
    convert = {"str": str, "int": int, "float": float, "bool": bool}[kind]
    if isinstance(value, str) and kind == "bool" and value in ("true", "false"):
        return value == "true"
    try:
        if isinstance(value, bool) == (kind == "bool") and not (isinstance(value, str) and kind == "bool"):
            result = convert(value)
            if isinstance(value, str) or result == value:
                return result
    except (TypeError, ValueError):
        pass
    valid = "true or false" if kind == "bool" else {"str": "text", "int": "a whole number", "float": "a number"}[kind]
    raise ValueError(f"{name} must be {valid}{' or none' if optional else ''}, not {value!r}")


def identity(config: Config, fingerprint: str) -> dict[str, Any]:
    """The configuration as a record keeps it: a folder or a weights file goes by its name and content, not its path.

    fingerprint  of the folder's content; empty for a benchmark of the registry, even where a folder is named like it
    """
    fields = dataclasses.asdict(config)
    if fingerprint:
        fields["benchmark"] = f"{Path(config.benchmark).resolve().name}@{fingerprint[:8]}"
    if config.weights and Path(config.weights).is_file():
        digest = hashlib.sha256(Path(config.weights).read_bytes()).hexdigest()
        fields["weights"] = f"{Path(config.weights).name}@{digest[:8]}"
    return json.loads(json.dumps(fields))
