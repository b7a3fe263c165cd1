"""Records made for tests: small, valid by the schema, with the measures that a test asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hypo import records
from hypo.config import configure, identity, stored
from hypo.data.benchmarks import REGISTRY

PACS = ("art_painting", "cartoon", "photo", "sketch")
DATA = {"digits": ""}
"""Version of the data of a benchmark, where it is not FINGERPRINT's start."""
FINGERPRINT = "ab" * 32


def a_record(
    benchmark: str = "pacs",
    algorithm: str = "hypo",
    held_out: str | None = "cartoon",
    scale: str = "cpu",
    seed: int = 0,
    *,
    ood: float | dict[str, Any] = 0.75,
    data: str | None = None,
    cosine: float | None = 0.1,
    domains: tuple[str, ...] = PACS,
    rules: dict[str, dict[str, Any]] | None = None,
    settings: dict[str, Any] | None = None,
    interval: dict[str, Any] | None = None,
    **measures: Any,
) -> dict[str, Any]:
    """The content of a record, as `hypo.records.write` takes it.

    ood       accuracy on the held-out domain, or {corruption: {severity: accuracy}}
    data      version of the images
    cosine    of the prototypes on validation, at every evaluation
    rules     measures under a rule of selection other than validation: {"swad": {"ood_accuracy": 0.8}}
    settings  overrides of the configuration
    measures  of the weights selected on validation, and of every rule that does not say otherwise
    """
    config = configure(benchmark, algorithm, held_out, scale, seed, **(settings or {}))
    version = DATA.get(benchmark, FINGERPRINT[:12]) if data is None else data
    by_test = ood if isinstance(ood, dict) else {held_out: ood}
    flat = [rate for value in by_test.values() for rate in (value.values() if isinstance(value, dict) else [value])]
    usual = {
        "epoch": 2.0,
        "validation_accuracy": 0.9,
        "id_accuracy": 0.875,
        "ood_accuracy": float(np.mean(flat)),
        "ood": by_test,
        "corruptions": None if held_out else "generated",
        "epsilon_hat": 0.125,
        "separation": 0.5,
        "etf_gap": 0.25,
    } | measures
    final = {rule: usual | (rules or {}).get(rule, {}) for rule in records.RULES}
    span = {"first": 1.0, "last": 2.0, "evaluations": 2, "starts_at_first": False, "valley": True}
    final["swad"] |= {"interval": span | (interval or {})}
    evaluation = {
        "lr": 0.1,
        "train": {"total": 1.5},
        "validation": {"accuracy": 0.5, "loss": 1.25, "cosine": cosine},
        "id_test": {"accuracy": 0.5},
        "ood_test": {"accuracy": None if held_out is None else 0.25},
    }
    known = config.fields()["benchmark"] in REGISTRY
    return {
        "config": stored(config, version) if known else config.fields() | {"benchmark": f"{benchmark}@{version}"},
        "data": version,
        "identity": identity(config, version) if known else {"benchmark": f"{benchmark}@{version}", **_main(config)},
        "benchmark": {
            "name": benchmark,
            "fingerprint": (version + FINGERPRINT)[:64],
            "classes": ["dog", "house", *(f"class {i}" for i in range(2, 10))],
            "domains": list(domains),
            "notes": [],
        },
        "split": {
            "fingerprint": f"split {held_out} {seed} {config.protocol}",
            "protocol": config.protocol,
            "sizes": {"train": 90, "validation": 10, "id_test": 20, "ood_test": 40},
        },
        "selection": "validation",
        "epochs": [{"epoch": float(epoch)} | evaluation for epoch in range(1, config.epochs + 1)],
        "final": final,
        "cost": {"seconds": 12.5, "evaluation_seconds": 1.0, "images_per_second": 800.0, "peak_memory_mb": 512.0},
        "environment": {
            "device": "cpu",
            "threads": 1,
            "ranks": 1,
            "precision": "float32",
            "accumulate": 1,
            "compile": False,
            "python": "3.11.7",
            "packages": {"torch": "2.14.1"},
            "commit": "0" * 40,
            "dirty": False,
        },
    }


def _main(config: Any) -> dict[str, Any]:
    names = ("algorithm", "held_out", "scale", "seed")
    return {name: getattr(config, name) for name in names} | {"data": "folder"}


def run(folder: Path, *given: Any, embeddings: dict[str, np.ndarray] | None = None, **more: Any) -> Path:
    """Write `a_record` with these arguments and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    return records.write(a_record(*given, **more), embeddings, folder)


def digits(folder: Path, ood: float | dict[str, Any], **more: Any) -> Path:
    """A run on the embedded digits at demo scale."""
    return run(folder, **{"benchmark": "digits", "scale": "demo", "ood": ood} | more)


def arrays(z: np.ndarray, y: np.ndarray, domains: np.ndarray, prototypes: np.ndarray | None = None) -> dict[str, Any]:
    """Stored embeddings of the in-distribution test samples z (N, d); the predictions are right."""
    kept = {"z": z, "y": y, "domain": domains, "index": np.arange(len(y)), "prediction": y}
    named = {f"id_test_{name}": np.asarray(value) for name, value in kept.items()}
    return named if prototypes is None else named | {"prototypes": np.asarray(prototypes)}
