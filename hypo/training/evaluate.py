"""What a trained network is worth: accuracies over samples, and the geometry of its embeddings."""

from __future__ import annotations

import dataclasses
import math
import os
import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hypo.algorithms.base import Algorithm
from hypo.data.augment import normalise
from hypo.data.benchmarks import corrupted
from hypo.data.corruptions import CORRUPTIONS
from hypo.data.imageset import ImageSet
from hypo.data.splits import Split
from hypo.geometry import epsilon_hat, mean_variation, prototype_separation
from hypo.geometry.neighbours import same_domain_excess
from hypo.sphere import class_means, etf_gap

CHUNK = 256
GRID = 2.0**-8  # of stored coordinates, exact in float16
SEEN_BY_ORACLE = 500  # test images that the oracle, which is shown and never used, looks at after an epoch


@torch.no_grad()
def outputs_of(algorithm: Algorithm, pixels: np.ndarray, device: torch.device, precision: torch.dtype) -> Tensor:
    """Outputs (n, k), float32 or wider, of uint8 images (n, H, W, 3), in evaluation mode.

    They pass in random chunks of nearly one size: in the order of a folder a chunk would be of one class or two, and a
    method that looks at its images together would take the class for the domain.
    """
    algorithm.eval()
    wide = torch.float64 if precision == torch.float64 else torch.float32
    order, parts = np.random.default_rng(0).permutation(len(pixels)), []
    for chunk in np.array_split(order, math.ceil(len(pixels) / CHUNK)):
        images = _normalised(algorithm, pixels[chunk], device, wide)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == torch.bfloat16):
            parts.append(algorithm.encode(images).to(wide))
    outputs = torch.cat(parts)
    outputs[torch.from_numpy(order).to(device)] = outputs.clone()
    return outputs


def _normalised(algorithm: Algorithm, pixels: np.ndarray, device: torch.device, dtype: torch.dtype) -> Tensor:
    """uint8 (n, H, W, 3) -> what the network takes, (n, 3, H, W)."""
    batch = torch.from_numpy(np.ascontiguousarray(pixels)).to(device).permute(0, 3, 1, 2)
    return normalise(batch, algorithm.config.augmentation).to(dtype)


def accuracy(algorithm: Algorithm, outputs: Tensor, labels: np.ndarray) -> float:
    """Fraction of samples classified right."""
    return (algorithm.predict(outputs).cpu().numpy() == labels).mean().item()


@torch.no_grad()
def mean_loss(algorithm: Algorithm, outputs: Tensor, labels: np.ndarray) -> float:
    """Cross-entropy of the classifier per sample. A method's own loss may be negative (HYPO's separation), which SWAD's
    tolerance, a multiple of it, cannot do with, and may depend on which samples share a batch."""
    return F.cross_entropy(algorithm.logits(outputs), torch.from_numpy(labels).to(outputs.device)).item()


def variation(algorithm: Algorithm, outputs: Tensor, labels: np.ndarray, domains: np.ndarray) -> dict[str, Any]:
    """How far apart domains hold a class, and whether the nearest sample of another class is of the same domain; None
    where the samples do not tell. A divergence that misses its tolerance by a little is good enough for a mean."""
    with torch.no_grad():
        z = F.normalize(algorithm.embed(outputs), dim=1)
    given = z, *(torch.from_numpy(each).to(z.device) for each in (labels, domains))
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        found = {"sinkhorn": mean_variation(*given), "hard_pairs": same_domain_excess(*given)}
    return {name: value if value is not None and math.isfinite(value) else None for name, value in found.items()}


def geometry(algorithm: Algorithm, outputs: Tensor, labels: np.ndarray) -> dict[str, float | None]:
    """epsilon-hat of the samples, separation and ETF gap of the prototypes (class means where a method has none; None
    where it has none and a class has no sample)."""
    y = torch.from_numpy(labels).to(outputs.device)
    with torch.no_grad():
        z = algorithm.embed(outputs)
        prototypes = algorithm.prototypes()
        if prototypes is None and len(y.unique()) < algorithm.num_classes:
            return dict.fromkeys(("epsilon_hat", "separation", "etf_gap"))
        if prototypes is None:
            prototypes = class_means(z, y, algorithm.num_classes)
        return {
            "epsilon_hat": epsilon_hat(z, y, prototypes).item(),
            "separation": prototype_separation(prototypes).item(),
            "etf_gap": etf_gap(prototypes).item(),
        }


def compact(kept: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Embeddings and prototypes (n, d) in fewer coordinates k <= d and coarser numbers, so that a record stays small.

    One rotation for all of them puts the directions in order of their share of the squared length; those behind the
    first 99.5% go, and coordinates are rounded to GRID. Cosines between test samples of PACS move by 0.002 on average
    and by 0.012 at most (ERM and HYPO, cartoon held out, seed 0).
    """
    names = [name for name in kept if name.endswith("_z") or name == "prototypes"]
    rows = np.concatenate([kept[name] for name in names])
    squares, directions = np.linalg.eigh(rows.T @ rows)
    share = np.cumsum(squares[::-1]) / squares.sum()
    basis = directions[:, ::-1][:, : np.searchsorted(share, 0.995) + 1]
    return kept | {name: (np.round(kept[name] @ basis / GRID) * GRID).astype(np.float16) for name in names}


def _evenly(count: int, limit: int | None) -> np.ndarray:
    """`limit` of `count` places, evenly spaced, so that they come from all over a set that is in some order."""
    return np.linspace(0, count, min(limit or count, count), endpoint=False).astype(int)


class Evaluator:
    """Evaluates an algorithm on the parts of a split; a part that is another part is not passed through twice."""

    def __init__(self, images: ImageSet, split: Split, device: torch.device, precision: torch.dtype) -> None:
        self.images, self.split, self.device, self.precision = images, split, device, precision
        self._validation_is_tested = np.array_equal(split.validation, split.id_test)
        """Whether the in-distribution test images are the validation images, as on PACS."""

    def outputs(self, algorithm: Algorithm, part: str, limit: int | None = None) -> Tensor:
        """Outputs (n, k) of a part, or of `limit` of its images, evenly spaced. No chunk mixes domains, since a method
        may look at the images of a domain together."""
        index = self._index(part, limit)
        result: Tensor | None = None
        for domain in np.unique(self.images.domains[index]):
            at = np.flatnonzero(self.images.domains[index] == domain)
            found = outputs_of(algorithm, self.images.images[index[at]], self.device, self.precision)
            result = found.new_empty(len(index), found.shape[1]) if result is None else result
            result[torch.from_numpy(at).to(self.device)] = found
        return result

    def _index(self, part: str, limit: int | None = None) -> np.ndarray:
        index = getattr(self.split, part)
        return index if limit is None else index[_evenly(len(index), limit)]

    def labels(self, part: str, limit: int | None = None) -> np.ndarray:
        return self.images.labels[self._index(part, limit)]

    def classes(self, part: str) -> Tensor:
        """(n,) classes of a part, on the device."""
        return torch.from_numpy(self.labels(part)).to(self.device)

    def sample(self, algorithm: Algorithm, part: str) -> Tensor:
        """Normalised images (n, 3, S, S), evenly spaced in a part, that fit one pass."""
        wide = torch.float64 if self.precision == torch.float64 else torch.float32
        return _normalised(algorithm, self.images.images[self._index(part, CHUNK)], self.device, wide)

    def during(self, algorithm: Algorithm, tests: bool) -> dict[str, dict[str, float | None]]:
        """What is looked at as training goes on: validation accuracy, loss, and how close together the prototypes are;
        with `tests` the accuracy on some test images, for the oracle only."""
        outputs = self.outputs(algorithm, "validation")
        seen: dict[str, dict[str, float | None]] = {
            "validation": {
                "accuracy": accuracy(algorithm, outputs, self.labels("validation")),
                "loss": mean_loss(algorithm, outputs, self.labels("validation")),
                "cosine": self._cosine(algorithm, outputs) if algorithm.spherical else None,
            }
        }
        for part in ("id_test", "ood_test"):
            wanted = tests and len(getattr(self.split, part))
            if wanted and part == "id_test" and self._validation_is_tested:
                some = _evenly(len(outputs), SEEN_BY_ORACLE)
                rate = accuracy(algorithm, outputs[some], self.labels(part)[some])
            else:
                rate = self._accuracy(algorithm, part, SEEN_BY_ORACLE) if wanted else None
            seen[part] = {"accuracy": rate}
        return seen

    @torch.no_grad()
    def _cosine(self, algorithm: Algorithm, outputs: Tensor) -> float | None:
        """Mean cosine between two prototypes, or means of the classes there are where a method has none."""
        mu = algorithm.prototypes()
        if mu is None:
            present, y = self.classes("validation").unique(return_inverse=True)
            if len(present) < 2:
                return None
            mu = class_means(algorithm.embed(outputs), y, len(present))
        return 1 - prototype_separation(mu).item()

    def _accuracy(self, algorithm: Algorithm, part: str, limit: int | None = None) -> float:
        return accuracy(algorithm, self.outputs(algorithm, part, limit), self.labels(part, limit))

    def final(
        self, algorithm: Algorithm, root: str | os.PathLike | None
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All metrics of chosen weights, and the test embeddings."""
        kept: dict[str, np.ndarray] = {}
        outputs = self.outputs(algorithm, "validation")
        metrics: dict[str, Any] = {
            "validation_accuracy": accuracy(algorithm, outputs, self.labels("validation")),
            "corruptions": None,
        }
        if not self._validation_is_tested:
            outputs = self.outputs(algorithm, "id_test")
        metrics["id_accuracy"] = accuracy(algorithm, outputs, self.labels("id_test"))
        metrics |= geometry(algorithm, outputs, self.labels("id_test"))
        metrics |= variation(algorithm, outputs, self.labels("id_test"), self.images.domains[self.split.id_test])
        self._keep(kept, algorithm, "id_test", outputs)
        if len(self.split.ood_test):
            outputs = self.outputs(algorithm, "ood_test")
            held_out = self.images.domain_names[self.images.domains[self.split.ood_test[0]]]
            metrics["ood_accuracy"] = accuracy(algorithm, outputs, self.labels("ood_test"))
            metrics["ood"] = {held_out: metrics["ood_accuracy"]}
            self._keep(kept, algorithm, "ood_test", outputs)
        else:
            metrics["ood"], metrics["corruptions"] = self._on_corruptions(algorithm, root)
            rates = [rate for by_severity in metrics["ood"].values() for rate in by_severity.values()]
            metrics["ood_accuracy"] = float(np.mean(rates))
        if (prototypes := algorithm.prototypes()) is not None:
            kept["prototypes"] = prototypes.cpu().double().numpy()
        return metrics, kept

    def _on_corruptions(
        self, algorithm: Algorithm, root: str | os.PathLike | None
    ) -> tuple[dict[str, dict[str, float]], str]:
        """Accuracy under each corruption at each severity, on in-distribution test images (evenly spaced among them,
        where not all are wanted), and whether these are all "published" or some "generated"."""
        images, limit = self.images, algorithm.config.corrupted_images
        chosen = self.split.id_test[_evenly(len(self.split.id_test), limit)]
        picked = {field: getattr(images, field)[chosen] for field in ("images", "labels", "domains")}
        clean = dataclasses.replace(images, **picked, test_only=None, groups=None)
        table: dict[str, dict[str, float]] = {}
        sources = set()
        for name in ("gaussian_noise",) if images.name == "imagenet100" else CORRUPTIONS:
            table[name] = {}
            for severity in range(1, 6):
                pixels, labels, source = corrupted(images.name, name, severity, root, clean)
                kept = _evenly(len(pixels), limit)
                pixels, labels = pixels[kept], labels[kept]
                outputs = outputs_of(algorithm, pixels, self.device, self.precision)
                table[name][str(severity)] = accuracy(algorithm, outputs, labels)
                sources.add(source)
        return table, "generated" if "generated" in sources else "published"

    def _keep(self, kept: dict[str, np.ndarray], algorithm: Algorithm, part: str, outputs: Tensor) -> None:
        with torch.no_grad():
            z = F.normalize(algorithm.embed(outputs), dim=1)
        kept[f"{part}_z"] = z.cpu().double().numpy()
        kept[f"{part}_y"] = self.labels(part)
        kept[f"{part}_domain"] = self.images.domains[getattr(self.split, part)]
        kept[f"{part}_index"] = getattr(self.split, part)
        kept[f"{part}_prediction"] = algorithm.predict(outputs).cpu().numpy()
