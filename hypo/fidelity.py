"""Where the paper and its released code differ, and what each difference changes, measured on recorded runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hypo import records
from hypo.ablations import at, differences
from hypo.claims.runs import Run, arrays_of, made_with, values
from hypo.sphere import class_means

Setting = dict[str, Any]
BATCH = 64  # the released code averages accuracies of batches
UNMEASURED = "not measured"


class Effect(NamedTuple):
    """What a difference changes: in points of accuracy, the mean ± standard error over n runs or pairs of runs."""

    what: str
    gaps: list[float]
    files: list[str]

    def __str__(self) -> str:
        if not self.gaps:
            return "not run"
        error = f" ± {np.std(self.gaps, ddof=1) / len(self.gaps) ** 0.5:.1f}" if len(self.gaps) > 1 else ""
        mean = f"{np.mean(self.gaps):+.1f}".replace("-", "−")
        return f"{self.what}: {mean}{error} (n = {len(self.gaps)})"


class Difference(NamedTuple):
    """One row: the matter, what the paper says, what its code does, and how the effect is measured (None: not)."""

    matter: str
    paper: str
    released: str
    effect: Callable[[list[Run]], list[Effect]] | None


def _paired(released: Setting, paper: Setting) -> Callable[[list[Run]], list[Effect]]:
    def effects(runs: list[Run]) -> list[Effect]:
        return [
            _gaps(runs, released, paper, measure, what)
            for measure, what in (("ood_accuracy", "OOD accuracy"), ("id_accuracy", "in-distribution accuracy"))
        ]

    return effects


def _gaps(runs: list[Run], first: Setting, second: Setting, measure: str, what: str) -> Effect:
    """`measure` with the first setting less that with the second, over runs that share domain, seed and data."""
    tables = []
    for setting in (first, second):
        found = {key[:3]: value for key, value in values(runs, setting, measure).items()}  # the split may differ
        rows = [(*key, *value) for key, value in found.items()]
        frame = pd.DataFrame(rows, columns=["column", "seed", "data", "value", "files"])
        tables.append(frame.assign(scale="", split=""))
    paired = differences(*tables)
    return Effect(what, [*paired["value"]], [*paired["files"]])


def _leak(runs: list[Run]) -> list[Effect]:
    """Validation accuracy less accuracy on in-distribution test images nobody trained on, with each protocol."""
    shown = []
    for name, setting in (("released", {"protocol": "released"}), ("paper", {})):
        chosen = made_with(runs, setting)
        finals = [run.record["final"]["validation"] for run in chosen]
        gaps = [100 * (final["validation_accuracy"] - final["id_accuracy"]) for final in finals]
        shown.append(Effect(f"validation above test accuracy, {name} split", gaps, [run.path.name for run in chosen]))
    return [*shown, _gaps(runs, {"protocol": "released"}, {}, "ood_accuracy", "OOD accuracy")]


def _oracle(runs: list[Run]) -> list[Effect]:
    chosen = [run for run in runs if not run.changed]
    finals = [run.record["final"] for run in chosen]
    gaps = [100 * (final["oracle"]["ood_accuracy"] - final["validation"]["ood_accuracy"]) for final in finals]
    return [Effect("OOD accuracy", gaps, [run.path.name for run in chosen])]


def _batches(runs: list[Run]) -> list[Effect]:
    """Mean over batches of the fraction right in each, less the fraction of samples right; the last batch is short."""
    gaps, files = [], []
    for run in runs:
        stored = records.embeddings(run.path) if run.path.with_suffix(".npz").exists() else {}
        if "ood_test_prediction" in stored and not run.changed:
            right = stored["ood_test_prediction"] == stored["ood_test_y"]
            parts = np.split(right, range(BATCH, len(right), BATCH))
            gaps.append(100 * (np.mean([part.mean() for part in parts]) - right.mean()))
            files.append(run.path.name)
    return [Effect("reported OOD accuracy", gaps, files)]


def _severities(runs: list[Run]) -> list[Effect]:
    """Accuracy at the mildest and the worst severity, less the mean over all five, over corruptions."""
    chosen = [run for run in runs if run.record["config"]["held_out"] is None and not run.changed]
    tables = [pd.DataFrame(run.record["final"]["validation"]["ood"]) for run in chosen]  # severity x corruption
    files = [run.path.name for run in chosen]
    return [
        Effect(f"severity {s} only", [100 * (t.loc[s].mean() - t.to_numpy().mean()) for t in tables], files)
        for s in ("1", "5")
    ]


DIFFERENCES = (
    Difference(
        "scale of the variation term",
        "λ of 1, 2 or 4",
        "λ times τ/0.07 = 1.43",
        _paired({"weight": 1.43}, {}),
    ),
    Difference("views of an image", "two augmentations", "one", _paired({}, {"views": 2})),
    Difference(
        "hard negatives",
        "used with several training domains",
        "cannot be switched on: no domains reach the loss",
        _paired({"hard_negatives": False}, {}),
    ),
    Difference("training and validation", "10% set aside", "drawn twice, so nine tenths of it is trained on", _leak),
    Difference("choice of the epoch, CIFAR-10", "not stated", "the best on the test set", _oracle),
    Difference("accuracy", "fraction of samples", "mean of the fractions of batches", _batches),
    Difference("severity of the corruptions", "not stated", "all together", _severities),
    Difference("start of the prototypes", "not stated", "class means of the validation images", None),
    Difference("batch norm of ResNet-50", "not stated", "its scale and shift frozen", None),
    Difference("learning rate on CIFAR-10", "0.5", "0.0005, with warm-up over 10 epochs of 500", None),
)


def table(runs: list[Run], benchmark: str, scale: str) -> pd.DataFrame:
    """One row a difference and effect: matter, paper, released code, effect (released less paper), files."""
    here, rows = at(runs, benchmark, scale), []
    for line in DIFFERENCES:
        for effect in line.effect(here) if line.effect else [None]:
            files = " ".join(effect.files) if effect else ""
            shown = UNMEASURED if effect is None else str(effect)
            rows.append((line.matter, line.paper, line.released, shown, files))
    frame = pd.DataFrame(rows, columns=["matter", "the paper", "its released code", "effect (points)", "files"])
    repeated = frame["matter"].duplicated()
    return frame.assign(**{column: frame[column].where(~repeated, "") for column in frame.columns[:3]})


def drift(runs: list[Run]) -> pd.DataFrame:
    """How far the prototypes, averaged while batch norm used batch statistics, are from the class means of test images
    in evaluation mode, and what it costs to classify by the one or the other.

    Columns: data, scale, held_out, seed, least and mean cosine over classes, OOD accuracy (%) by prototypes and by
    class means of the in-distribution test images (which a method may not use: a yardstick), file.
    """
    rows = []
    for run in runs:
        config, arrays = run.record["config"], arrays_of(run.path)
        if arrays is None or config["algorithm"] != "hypo" or run.changed or not config["held_out"]:
            continue
        means = class_means(arrays["z"], arrays["y"], len(arrays["prototypes"]))
        cosine = (means * arrays["prototypes"]).sum(dim=1)
        stored = records.embeddings(run.path)
        z = stored["ood_test_z"].astype(np.float64)
        rates = [
            100 * float(((z @ anchors.numpy().T).argmax(axis=1) == stored["ood_test_y"]).mean())
            for anchors in (arrays["prototypes"], means)
        ]
        place = config["benchmark"], config["scale"], config["held_out"], config["seed"]
        rows.append((*place, cosine.min().item(), cosine.mean().item(), *rates, run.path.name))
    columns = ["data", "scale", "held out", "seed", "least cosine", "mean cosine", "by prototypes", "by class means"]
    return pd.DataFrame(rows, columns=[*columns, "file"])


def collapses(runs: list[Run]) -> pd.DataFrame:
    """Runs that differ from the defaults by their learning rates only, and the defaults: does training come off?"""
    rows = [
        (
            config["benchmark"],
            config["algorithm"],
            f"{config['lr']:g}",
            f"{config['lr'] * config['head_lr']:g}",
            100 * final["validation_accuracy"],
            final["separation"],
            run.path.name,
        )
        for run in runs
        for config, final in [(run.record["config"], run.record["final"]["validation"])]
        if set(run.changed) <= {"lr", "head_lr"} and config["held_out"] == "cartoon" and config["seed"] == 0
    ]
    columns = ["data", "algorithm", "learning rate", "of the head", "validation (%)", "separation", "file"]
    return pd.DataFrame(rows, columns=columns).sort_values(["data", "algorithm", "learning rate"], ignore_index=True)
