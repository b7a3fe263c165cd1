"""A small folder of images, and the settings of a run on it that takes about a second."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

QUICK = {"scale": "demo", "epochs": 1, "batch_size": 8, "size": 16, "width": 0.125, "dim": 8, "evaluations": 1}
DOMAINS, CLASSES = ("indoors", "outdoors", "street"), ("cat", "dog", "hen")


def folder_of(
    place: Path, domains: Sequence[str] = DOMAINS, classes: Sequence[str] = CLASSES, per_class: int = 8
) -> Path:
    """Handwritten digits as <domain>/<class>/<image> under `place`."""
    scans, labels = load_digits(n_class=len(classes), return_X_y=True)
    rng = np.random.default_rng(0)
    for domain in domains:
        for label, name in enumerate(classes):
            (place / domain / name).mkdir(parents=True)
            for i in rng.choice(np.flatnonzero(labels == label), per_class, replace=False):
                pixels = np.uint8(scans[i].reshape(8, 8) * 15)
                Image.fromarray(pixels).resize((16, 16)).save(place / domain / name / f"{i}.png")
    return place


def words(**settings: object) -> list[str]:
    """Settings as words of `hypo train`."""
    return [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
