"""hypo: a runnable companion to *HYPO: Hyperspherical Out-of-Distribution Generalization* (ICLR 2024)."""

import os
from importlib import import_module
from typing import Any

# OpenMP reads this once, when torch is loaded; every command, page and test imports hypo first. Threads that sleep
# while they wait cost little on a quiet machine; those that spin make a busy one crawl (bench/openmp.py measures both).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_HOME = {
    "CORRUPTIONS": "data.corruptions",
    "HypoLoss": "loss",
    "HypoNet": "model",
    "HypoTerms": "loss",
    "class_means": "sphere",
    "corrupt": "data.corruptions",
    "epsilon_hat": "geometry",
    "etf_gap": "sphere",
    "falling_temperature": "loss",
    "inter_class_separation": "geometry",
    "intra_class_variation": "geometry",
    "run": "training.engine",
    "separation_loss": "sphere",
    "simplex_etf": "sphere",
    "update_prototypes": "sphere",
    "variation_loss": "sphere",
}
"""The public names and the modules they live in; each is imported when first used, so that `hypo --help` is quick."""

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hypo' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(f"hypo.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
