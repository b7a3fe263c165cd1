"""The embeddings of test images that are stored beside a record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hypo import records


class Embeddings(NamedTuple):
    """Test samples of a run and where they lie on the sphere.

    samples     one row per sample: part ("id_test" or "ood_test"), index (of the image in its ImageSet), label, domain
                (environment e), prediction; all but part are integers
    z           (N, d) float64 unit vectors
    prototypes  (C, d) float64 unit vectors; the class means of the in-distribution samples where a method has none, 0
                for a class without such a sample
    """

    samples: pd.DataFrame
    z: np.ndarray
    prototypes: np.ndarray

    def of(self, part: str) -> Embeddings:
        """The samples of one part of the split."""
        chosen = (self.samples["part"] == part).to_numpy()
        return Embeddings(self.samples[chosen].reset_index(drop=True), self.z[chosen], self.prototypes)

    def tensors(self) -> dict[str, Tensor]:
        """z (N, d), y (N,), domains (N,) and prototypes (C, d), as the functions of `hypo.geometry` take them."""
        y, domains = (torch.from_numpy(self.samples[name].to_numpy().copy()) for name in ("label", "domain"))
        return {"z": torch.from_numpy(self.z), "y": y, "domains": domains} | {
            "prototypes": torch.from_numpy(self.prototypes)
        }


def embeddings(path: str | os.PathLike[str] | None) -> Embeddings | None:
    """What is stored beside the record at `path`; None where it was kept without embeddings."""
    if path is None or not Path(path).with_suffix(".npz").exists():
        return None
    stored = records.embeddings(path)
    parts = [part for part in ("id_test", "ood_test") if f"{part}_z" in stored]
    samples = pd.concat([_samples(stored, part) for part in parts], ignore_index=True)
    z = _unit(np.concatenate([stored[f"{part}_z"] for part in parts]))
    if "prototypes" in stored:
        return Embeddings(samples, z, _unit(stored["prototypes"]))
    own = (samples["part"] == "id_test").to_numpy()
    sums = np.zeros((samples[["label", "prediction"]].to_numpy().max() + 1, z.shape[1]))
    np.add.at(sums, samples["label"][own], z[own])
    return Embeddings(samples, z, sums / np.linalg.norm(sums, axis=1, keepdims=True).clip(1e-12))


def _samples(stored: dict[str, np.ndarray], part: str) -> pd.DataFrame:
    names = {"index": "index", "label": "y", "domain": "domain", "prediction": "prediction"}
    return pd.DataFrame({"part": part} | {name: stored[f"{part}_{kept}"] for name, kept in names.items()})


def _unit(vectors: np.ndarray) -> np.ndarray:
    vectors = vectors.astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
