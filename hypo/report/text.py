"""Numbers as text: the one place where a number becomes what a reader sees."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

from hypo.data.benchmarks import REGISTRY
from hypo.paper import NAMES, method_name
from hypo.runs import MEASURES

NOT_RUN = "not run"
NETWORKS = {"mobilenet_v2": "MobileNetV2", "resnet18": "ResNet-18", "resnet34": "ResNet-34", "resnet50": "ResNet-50"}
"""Backbone -> its name in prose."""
SPELT = {"gaussian_noise": "Gaussian noise", "gaussian_blur": "Gaussian blur", "jpeg_compression": "JPEG compression"}
"""Names of the registry that are more than their words."""
PAGES = {
    "method": "The method",
    "etf": "How far apart prototypes can be",
    "pacs": "PACS",
    "cifar10c": "CIFAR-10-C",
    "office_home": "Office-Home",
    "vlcs": "VLCS",
    "terra_incognita": "Terra Incognita",
    "imagenet100": "ImageNet-100",
    "summary": "All benchmarks at a glance",
    "embeddings": "The embeddings",
    "variation": "Variation and separation",
    "bound": "The bound, lemma by lemma",
    "ablations": "Ablations",
    "tau_alpha": "Temperature and momentum",
    "swad": "With SWAD",
}
"""Page of the book that claims, tables and figures of the paper belong to -> its title."""


def number(value: float | None, decimals: int = 1, sign: bool = False) -> str:
    """A number with these decimals and a true minus sign; nothing for NaN.

    sign  say on which side of zero it lies, also where it is rounded to zero: −0.0 for −0.02, +0.0 for 0.02
    """
    if value is None or math.isnan(value):
        return ""
    shown = value + 0.0 if sign or round(value, decimals) else 0.0  # zero itself is never −0.0
    return f"{shown:{'+' if sign else ''}.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def cell(line: Any, decimals: int = 1, missing: str = NOT_RUN, own_n: bool = False) -> str:
    """A mean over seeds, value ± standard deviation; or the paper's number with its ±, if it prints one.

    line   value, sd, n, failed and starts_at_first, as attributes: a row of `hypo.runs.statistics.summarise`
    own_n  give the number of seeds too
    """
    if math.isnan(line.value):
        return missing
    around = "" if math.isnan(line.sd) else f" ± {number(line.sd, decimals)}"
    seeds = f" (n={line.n:.0f})" if own_n and line.n else ""
    return number(line.value, decimals) + around + seeds + marks(line)


def difference(line: Any, decimals: int = 1, missing: str = "") -> str:
    """A difference with its 95% interval, +1.2 [−0.3, +2.7]; that there is none, where a single seed gives none."""
    if math.isnan(line.value):
        return missing
    value = number(line.value, decimals, sign=True)
    if not line.n:  # the paper's
        return value
    around = " (no interval)" if math.isnan(line.low) else interval(line, decimals, sign=True)
    return value + around + marks(line)


def interval(line: Any, decimals: int = 1, sign: bool = False) -> str:
    """The 95% interval of an estimate in brackets, led by a space; what is missing where there is none."""
    if math.isnan(line.low):
        return " (one seed, no interval)"
    return f" [{number(line.low, decimals, sign)}, {number(line.high, decimals, sign)}]"


def marks(line: Any) -> str:
    """What a reader must know of the runs behind a number, each on a line of its own."""
    said = []
    if line.failed:
        said.append(f"\n{line.failed:.0f} of {line.n:.0f} failed to train")
    if line.starts_at_first:
        said.append(f"\nSWAD from the start in {line.starts_at_first:.0f} of {line.n:.0f}")
    return "".join(said)


def settings(changed: Mapping[str, Any]) -> str:
    """What differs from the scale's defaults, temperature=0.5, separation=false; nothing where nothing does."""
    return ", ".join(f"{field}={value_of(value)}" for field, value in changed.items())


def label(setting: Mapping[str, Any], last: str = "or") -> str:
    """A setting, or several where values are lists: ERM; HYPO with momentum 0.5 or 0.8; HYPO without hard negatives."""
    several = {field: value if isinstance(value, list) else [value] for field, value in setting.items()}
    algorithms = several.pop("algorithm", ["hypo"])
    rules = [
        f"with {rule.upper() if rule == 'swad' else rule}" for rule in several.pop("rule", []) if rule != "validation"
    ]
    chosen = [_with(field, values, last) for field, values in several.items()]
    return " ".join([listed([*map(method_name, algorithms)], last), *chosen, *rules])


def _with(field: str, values: list[Any], last: str) -> str:
    """Values of a field as part of a label: with momentum 0.5 or 0.8; without the separation loss."""
    if all(isinstance(value, bool) for value in values):
        name = {"separation": "the separation loss"}.get(field, words(field))
        return listed([f"{'with' if value else 'without'} {name}" for value in values], last)
    if field == "prototypes":
        kinds = {"ema": "moving averages as prototypes", "learnable": "learnable prototypes"}
        return f"with {listed([kinds[value] for value in values], last)}"
    return f"with {words(field)} {listed([*map(value_of, values)], last)}"


def value_of(value: Any) -> str:
    """A value as it is typed on the command line."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def measures(names: list[str]) -> str:
    """Measures of `hypo.runs` in words: ETF gap; accuracy under Gaussian noise and shot noise."""
    corruptions = [words(MEASURES[name].corruption) for name in names if MEASURES[name].corruption]
    kinds = [*dict.fromkeys(MEASURES[name].words for name in names)]
    return f"{listed(kinds)} under {listed(corruptions)}" if corruptions else listed(kinds)


def data(benchmark: str) -> str:
    """A benchmark by its name in prose; a folder by its own name."""
    return NAMES.get(benchmark, benchmark)


def words(name: str) -> str:
    """A name of the registry as words: art_painting -> art painting."""
    return SPELT.get(name, name.replace("_", " "))


def network(backbone: str, size: int, width: float = 1.0) -> str:
    """A network and the size of its images: MobileNetV2 at 112 px, narrow ResNet-18 at 32 px."""
    return f"{'narrow ' if width < 1 else ''}{NETWORKS.get(backbone, backbone)} at {size} px"


def epochs(span: Mapping[str, Any]) -> str:
    """The stretch of a run that SWAD averages: epochs 0.67 to 5."""
    first, last = (f"{span[end]:.2f}".rstrip("0").rstrip(".") for end in ("first", "last"))
    return f"epochs {first} to {last}"


def place(run: Any) -> str:
    """What a run was tested on, by which method, at which scale: for captions."""
    part = words(run["held_out"]) if run["held_out"] else "the clean test images"
    method = method_name(run["algorithm"])
    return f"{part} of {data(run['benchmark'])}, {method} at {run['scale']} scale, seed {run['seed']}"


def listed(items: list[str], last: str = "and") -> str:
    """a; a and b; a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}" if items else ""


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, ..."""
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def duration(seconds: float) -> str:
    """43 s, 12 min, 3.4 h or 2.1 days."""
    for unit, length in (("days", 86400), ("h", 3600)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def command(config: Mapping[str, Any], changed: Mapping[str, Any] | None = None) -> str:
    """The command line of a run: the main fields of its configuration, and what changes its scale's defaults.

    A reader's folder is known by its name alone, so the command has path/to/ before it, to be filled in.
    """
    main = {name: config[name] for name in ("benchmark", "algorithm", "held_out", "scale", "seed")}
    if main["benchmark"] not in REGISTRY:
        main["benchmark"] = f"path/to/{main['benchmark'].removeprefix('./')}"
    main["held_out"] = config["held_out"] or "none"
    options = main | dict(changed or {})
    words = [f"--{name.replace('_', '-')} {shlex.quote(value_of(value))}" for name, value in options.items()]
    return f"hypo train {' '.join(words)}"
