"""The runs that a claim is judged on, what is measured of them, and what was found.

A setting is a dict of fields of a run's configuration; every other field is at its scale's default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from hypo import records, sphere
from hypo.config import SCALES, configure
from hypo.data.benchmarks import CORRUPTED
from hypo.data.corruptions import CORRUPTIONS
from hypo.geometry import intra_class_variation

STAND_IN = {"pacs": "digits", "cifar10": "digits"}
"""Benchmark -> what stands in for it at demo scale: four styles for four domains, the same 19 corruptions."""
MAIN = ("benchmark", "algorithm", "held_out", "scale", "seed")
HOW = ("accumulate", "precision", "compile")  # fields that say how a run is made, not what it is
POINTS = ("ood_accuracy", "id_accuracy", *(f"ood.{name}" for name in CORRUPTIONS))  # measures shown in percent


class Run(NamedTuple):
    """A record, with the defaults of its scale and what its configuration changes of them."""

    path: Path
    record: dict[str, Any]
    defaults: dict[str, Any]
    changed: dict[str, Any]


class Group(NamedTuple):
    """The runs on one benchmark at one scale, tested on a held-out domain or, `corrupted`, on corruptions."""

    benchmark: str
    scale: str
    corrupted: bool
    runs: list[Run]


class Evidence(NamedTuple):
    """What a rule found; `n` runs, pairs of runs or seeds, from these files."""

    verdict: str
    text: str
    n: int = 0
    files: frozenset[str] = frozenset()


def run_of(path: Path, record: dict[str, Any]) -> Run:
    """The record read from `path`, held against its scale's defaults."""
    config = record["config"]
    defaults = dataclasses.asdict(configure(**{field: config[field] for field in MAIN}))
    changed = {k: v for k, v in config.items() if k not in HOW and defaults.get(k, ...) != v}
    return Run(path, record, defaults, changed)


def groups(claim: dict[str, Any], runs: list[Run]) -> list[Group]:
    """What the claim is judged on: at demo scale the digits if they stand in for its benchmark, then its own data."""
    if "benchmark" not in claim:
        return [Group("", "", False, [])]
    own, corrupted = claim["benchmark"], claim["benchmark"] in CORRUPTED.values()
    scales = ["paper"] if claim["rule"]["kind"] == "near" else SCALES
    wanted = [(STAND_IN.get(own) if scale == "demo" else own, scale, corrupted) for scale in scales]
    return [Group(*key, [run for run in runs if _place(run.record["config"]) == key]) for key in wanted if key[0]]


def _place(config: dict[str, Any]) -> tuple[str, str, bool]:
    return config["benchmark"], config["scale"], config["held_out"] is None


def made_with(runs: list[Run], setting: dict[str, Any]) -> list[Run]:
    """The runs made with this setting and every other field at its default."""
    wanted = {"algorithm": "hypo"} | setting
    algorithm = wanted.pop("algorithm")
    return [
        run
        for run in runs
        if run.record["config"]["algorithm"] == algorithm
        and run.changed == {k: v for k, v in wanted.items() if run.defaults[k] != v}
    ]


def values(runs: list[Run], setting: dict[str, Any], measure: str) -> dict[tuple, tuple[float, str]]:
    """{(held-out domain, seed, data, split): (value in the unit that is shown, file)}; runs without it are left out."""
    found = {}
    for run in made_with(runs, setting):
        config, value = run.record["config"], _measure(run, measure)
        if value is not None:
            data = run.record["benchmark"]["fingerprint"], run.record["split"]["fingerprint"]
            key = config["held_out"] or "", config["seed"], *data
            found[key] = value * (100 if measure in POINTS else 1), run.path.name
    return found


def _measure(run: Run, measure: str) -> float | None:
    final = run.record["final"]["validation"]
    if measure in EMBEDDED:
        arrays = arrays_of(run.path)
        return None if arrays is None else EMBEDDED[measure](arrays)
    if not measure.startswith("ood."):
        return final[measure]
    by_severity = final["ood"].get(measure.removeprefix("ood."))
    return None if by_severity is None else float(np.mean([*by_severity.values()]))


def arrays_of(path: Path) -> dict[str, torch.Tensor] | None:
    """z (N, d) unit vectors in float64, y (N,), domains (N,), prototypes (C, d); None where none are stored."""
    if not path.with_suffix(".npz").exists():
        return None
    stored = records.embeddings(path)
    z, y = _unit(stored["id_test_z"]), torch.from_numpy(stored["id_test_y"])
    means = "prototypes" not in stored
    prototypes = sphere.class_means(z, y, int(y.max()) + 1) if means else _unit(stored["prototypes"])
    return {"z": z, "y": y, "domains": torch.from_numpy(stored["id_test_domain"]), "prototypes": prototypes}


def _unit(vectors: np.ndarray) -> torch.Tensor:
    return sphere.to_sphere(torch.from_numpy(vectors).double())


def _sinkhorn(arrays: dict[str, torch.Tensor]) -> float:
    """Mean Sinkhorn divergence between two domains' samples of a class."""
    return float(intra_class_variation(arrays["z"], arrays["y"], arrays["domains"])["sinkhorn"].mean())


def _hard_pairs(arrays: dict[str, torch.Tensor]) -> float:
    """How often the nearest sample of another class is of the same domain, less how often a random one is."""
    z, y, domains = arrays["z"], arrays["y"], arrays["domains"]
    other, same = y[:, None] != y, domains[:, None] == domains  # (N, N)
    nearest = (z @ z.T).masked_fill(~other, -2).argmax(dim=1)
    chance = (other & same).sum(dim=1) / other.sum(dim=1)
    return ((domains[nearest] == domains).double() - chance).mean().item()


EMBEDDED: dict[str, Callable[[dict[str, torch.Tensor]], float]] = {"sinkhorn": _sinkhorn, "hard_pairs": _hard_pairs}
"""Measures of stored embeddings."""
MEASURES = (*POINTS, "epsilon_hat", "separation", "etf_gap", *EMBEDDED)
"""What a rule can look at, always of the weights selected on validation."""
