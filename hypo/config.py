"""What a run is: one frozen dataclass, its defaults at each scale, and its identity."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import numbers
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypo.algorithms import ALGORITHMS, method
from hypo.algorithms.base import setting
from hypo.suggest import one_of

SCALES = ("demo", "cpu", "paper")
MAIN = ("benchmark", "algorithm", "held_out", "scale", "seed")


@dataclass(frozen=True)
class Config:
    """Every choice that decides a number; symbols are the paper's.

    A run's identity leaves out what has its default below, so a new field with a default changes no identity, and a
    default below never changes: a scale's default is what changes.
    """

    benchmark: str = setting("pacs", "a name of `hypo data`, or a folder <domain>/<class>/<image>")
    algorithm: str = setting("hypo", "the method; `hypo algorithms` lists them")
    held_out: str | None = setting(None, "the domain never trained on; none: tested on corruptions of the test images")
    scale: str = setting("demo", "demo, cpu or paper")
    seed: int = setting(0, "of the split, the start and the order of the images", at_least=0, below=2**32)
    # the network
    backbone: str = setting("resnet18", "a classification model of torchvision")
    weights: str | None = setting(None, "where the backbone starts: a torchvision weights name, a file, none: random")
    stem: str = setting("imagenet", "imagenet, or cifar for small images (ResNets)")
    width: float = setting(1.0, "times the number of channels", above=0)
    dim: int = setting(128, "d, the embedding size", at_least=2)
    size: int = setting(224, "height and width of the images in pixels", at_least=1)
    # optimisation: SGD with momentum, cosine to 0
    epochs: int = setting(50, "passes over the training images", at_least=1)
    batch_size: int = setting(32, "images a step; each is seen in `views` augmentations", at_least=2)
    lr: float = setting(5e-4, "learning rate at its highest", above=0)
    head_lr: float = setting(1.0, "times lr, for the layers that start from random weights", above=0)
    sgd_momentum: float = setting(0.9, "of SGD", at_least=0, below=1)
    weight_decay: float = setting(1e-4, "of SGD", at_least=0)
    warmup: float = setting(0.0, "epochs of linear warm-up", at_least=0)
    freeze: float = setting(0.0, "epochs in which only layers from random weights learn", at_least=0)
    # data
    augmentation: str = setting("pacs", "the recipe of random crops, flips and colours")
    views: int = setting(2, "augmentations of an image in a step", at_least=1)
    fraction: float = setting(0.1, "of the training domains, for validation", above=0, below=1)
    protocol: str = setting("paper", "paper, or released: a split that leaks, for measuring its effect")
    corrupted_images: int | None = setting(None, "test images that are corrupted; none: all", at_least=1)
    evaluations: int = setting(1, "an epoch, evenly spaced; what selection and SWAD look at", at_least=1)
    # how a run is carried out: recorded, no part of its identity
    accumulate: int = setting(
        1, "parts a batch passes the network in; the loss is of the whole batch", at_least=1, carried_out=True
    )
    precision: str = setting("auto", "auto, float32, bfloat16 (GPUs only) or float64", carried_out=True)
    compile: bool = setting(False, "whether torch compiles the network", carried_out=True)
    method: Any = None
    """The method's own hyperparameters, a dataclass of its file; its defaults when None."""

    def __post_init__(self) -> None:
        from hypo.data.augment import RECIPES
        from hypo.data.splits import PROTOCOLS

        one_of("scale", self.scale, SCALES)
        if self.method is None:
            object.__setattr__(self, "method", method(self.algorithm).Hyperparameters())
        one_of("precision", self.precision, ("auto", "float32", "bfloat16", "float64"))
        if self.backbone not in BACKBONES:
            import torchvision  # here, since it takes longer to import than all else

            one_of("backbone", self.backbone, torchvision.models.list_models(module=torchvision.models))
        one_of("stem", self.stem, ("imagenet", "cifar"))
        one_of("protocol", self.protocol, PROTOCOLS)
        one_of("augmentation", self.augmentation, RECIPES)
        for owner in (self, self.method):
            for field in dataclasses.fields(owner):
                _check_range(field, getattr(owner, field.name))
        for name in ("warmup", "freeze"):
            if getattr(self, name) > self.epochs:
                raise ValueError(f"{name} of {getattr(self, name):g} epochs is longer than the training: {self.epochs}")

    def fields(self) -> dict[str, Any]:
        """Every field that decides a number, the method's among them, by name."""
        own = {name: getattr(self, name) for name in GENERAL if name not in CARRIED_OUT}
        return own | dataclasses.asdict(self.method)


GENERAL = {field.name: field for field in dataclasses.fields(Config) if field.name != "method"}
"""The fields that every method has."""
CARRIED_OUT = frozenset(name for name, field in GENERAL.items() if field.metadata.get("carried_out"))

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
    "evaluations": 2,
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
    "evaluations": 3,
}
CPU_CIFAR = {
    "backbone": "resnet18",
    "stem": "cifar",
    "width": 0.25,
    "dim": 128,
    "size": 32,
    "epochs": 30,
    "batch_size": 128,
    "lr": 0.1,
    "weight_decay": 5e-4,
    "warmup": 1.0,
    "views": 1,
    "augmentation": "light",
    "corrupted_images": 1000,
    "evaluations": 2,
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
        "augmentation": "cifar",
    },
    "imagenet100": {"backbone": "resnet34", "dim": 128, "epochs": 10},
}

BACKBONES = {given["backbone"] for given in (DEMO, CPU, CPU_CIFAR, PAPER, *PAPER_BY_BENCHMARK.values())}
"""The scales' own, which are known to exist."""


def scale_defaults(scale: str, benchmark: str) -> dict[str, Any]:
    """Settings of a scale, whatever the method."""
    if scale == "demo":
        return DEMO
    if scale == "cpu":
        return CPU_CIFAR if benchmark == "cifar10" else CPU
    return PAPER | PAPER_BY_BENCHMARK.get(benchmark, {})


def method_defaults(algorithm: str, scale: str, benchmark: str, held_out: str | None) -> dict[str, Any]:
    """Settings of a method at a scale, which go before the scale's: its rates, where they were searched, and others."""
    kind = method(algorithm)
    rates = kind.rates if scale == "cpu" and benchmark != "cifar10" else {}
    return rates | kind.defaults(scale, benchmark, held_out)


def settings(algorithm: str) -> dict[str, dataclasses.Field]:
    """What can be set for a method: the general fields and its own hyperparameters, by name."""
    return GENERAL | {field.name: field for field in dataclasses.fields(method(algorithm).Hyperparameters)}


def configure(
    benchmark: str,
    algorithm: str = "hypo",
    held_out: str | None = None,
    scale: str = "demo",
    seed: int = 0,
    **overrides: Any,
) -> Config:
    """The configuration of a run: the scale's defaults, then the method's, then `overrides`, which go by name."""
    known, kind = settings(algorithm), method(algorithm)
    one_of("scale", scale, SCALES)
    benchmark = typed(GENERAL["benchmark"], os.fspath(benchmark) if isinstance(benchmark, os.PathLike) else benchmark)
    if not isinstance(held_out, str | None):
        raise ValueError(f"held_out must be text or none, not {held_out!r}")
    for name in overrides:
        one_of(f"setting of {algorithm}", name, [name for name in known if name not in MAIN])
    defaults = scale_defaults(scale, benchmark) | method_defaults(algorithm, scale, benchmark, held_out)
    chosen = defaults | {name: typed(known[name], value) for name, value in overrides.items()}
    general = {name: value for name, value in chosen.items() if name in GENERAL}
    own = kind.Hyperparameters(**{name: value for name, value in chosen.items() if name not in GENERAL})
    return Config(benchmark, algorithm, held_out, scale, typed(GENERAL["seed"], seed), **general, method=own)


def changed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a recorded configuration changes of the defaults of its scale; nothing: the run is at the defaults.

    A field that the record does not have yet counts as its dataclass default.
    """
    name = fields["algorithm"]
    if name not in ALGORITHMS:  # a reader's own method: its hyperparameters are not known here
        usual = {k: f.default for k, f in GENERAL.items()} | scale_defaults(fields["scale"], fields["benchmark"])
        general = [key for key in GENERAL if key in fields and key not in (*MAIN, *CARRIED_OUT)]
        return {key: fields[key] for key in general if fields[key] != usual[key]}
    usual = configure(*(fields[key] for key in MAIN)).fields()
    basis = {key: field.default for key, field in settings(name).items()}
    own = {key: fields.get(key, basis[key]) for key in usual if key not in MAIN}
    return {key: value for key, value in own.items() if value != usual[key]}


def identity(config: Config, data: str) -> dict[str, Any]:
    """What a run is known by: its main fields, whatever differs from its dataclass default, and its data's version.

    data  of `hypo.data.benchmarks.data_version`: "" for the embedded digits, else a part of the fingerprint

    A folder or a weights file goes by its name and content, not by its path.
    """
    basis = {name: field.default for name, field in settings(config.algorithm).items()}
    fields = {name: value for name, value in stored(config, data).items() if name in MAIN or value != basis[name]}
    return fields | {"data": data}


def stored(config: Config, data: str) -> dict[str, Any]:
    """`config.fields()` as a record keeps them: without a path of this machine."""
    from hypo.data.benchmarks import REGISTRY

    fields = config.fields()
    if config.benchmark not in REGISTRY:
        fields["benchmark"] = f"{Path(config.benchmark).resolve().name}@{data}"
    if config.weights and Path(config.weights).is_file():
        digest = hashlib.sha256(Path(config.weights).read_bytes()).hexdigest()
        fields["weights"] = f"{Path(config.weights).name}@{digest[:8]}"
    elif config.weights and os.sep in config.weights:
        raise ValueError(f"no weights file {config.weights}: give the path of one, a torchvision weights name, or none")
    return fields


def typed(field: dataclasses.Field, value: Any) -> Any:
    """`value` as the type of the field, from that type or from text; anything else is refused."""
    hint = field.type.__name__ if isinstance(field.type, type) else str(field.type)
    kind, _, optional = hint.partition(" | ")
    if optional and (value is None or (isinstance(value, str) and value.lower() == "none")):
        return None
    if kind == "bool" and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "str" and isinstance(value, str):
        return value
    if kind in ("int", "float") and isinstance(value, str | numbers.Real) and not isinstance(value, bool):
        try:
            number = float(value)
            if kind == "float" and math.isfinite(number):
                return number
            if kind == "int" and number == int(number):
                return int(value) if isinstance(value, str) else int(number)
        except (ValueError, OverflowError):
            pass
    valid = {"bool": "true or false", "str": "text", "int": "a whole number", "float": "a finite number"}[kind]
    raise ValueError(f"{field.name} must be {valid}{' or none' if optional else ''}, not {value!r}")


def _check_range(field: dataclasses.Field, value: Any) -> None:
    """Refuse a number outside the bounds that the field names."""
    if value is None or isinstance(value, str | bool) or not isinstance(value, numbers.Real):
        return
    bounds = field.metadata
    words = [
        f"{word} {_number(bounds[key])}"
        for key, word in (("above", "above"), ("at_least", "at least"), ("below", "below"), ("at_most", "at most"))
        if key in bounds
    ]
    inside = bounds.get("above", -math.inf) < value < bounds.get("below", math.inf) and bounds.get(
        "at_least", -math.inf
    ) <= value <= bounds.get("at_most", math.inf)
    if not inside:
        raise ValueError(f"{field.name} must be {' and '.join(words)}, not {_number(value)}")


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
