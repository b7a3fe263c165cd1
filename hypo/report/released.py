"""Where the paper and its released code differ, and what each difference changes, measured on recorded runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from hypo import runs
from hypo.report import text
from hypo.report.table import Table, about
from hypo.runs import KEYS, Setting
from hypo.sphere import class_means

BATCH = 64  # the released code averages accuracies of batches
UNMEASURED = "not measured"
ACROSS_SPLITS = [key for key in KEYS if key != "split"]


class Effect(NamedTuple):
    """What a difference changes, in points of accuracy: one row per run or pair of runs, as of `hypo.runs.values`."""

    what: str
    gaps: pd.DataFrame


class Difference(NamedTuple):
    """One row: the matter, what the paper says, what its code does, and how the effect is measured (None: not)."""

    matter: str
    paper: str
    released: str
    effect: Callable[[pd.DataFrame], list[Effect]] | None


def _paired(released: Setting, paper: Setting) -> Callable[[pd.DataFrame], list[Effect]]:
    def effects(frame: pd.DataFrame) -> list[Effect]:
        return [_gap(frame, released, paper, measure) for measure in ("ood_accuracy", "id_accuracy")]

    return effects


def _gap(frame: pd.DataFrame, released: Setting, paper: Setting, measure: str) -> Effect:
    """Released minus paper, over runs that share held-out domain, seed and data; the split may differ."""
    sides = [runs.values(frame, setting, measure) for setting in (released, paper)]
    return Effect(runs.MEASURES[measure].words, runs.paired(*sides, on=ACROSS_SPLITS))


def _between(frame: pd.DataFrame, first: tuple[Setting, str], second: tuple[Setting, str]) -> pd.DataFrame:
    """A measure under a setting minus another of the same runs."""
    return runs.paired(*(runs.values(frame, setting, measure) for setting, measure in (first, second)))


def _leak(frame: pd.DataFrame) -> list[Effect]:
    """Validation accuracy minus accuracy on in-distribution test images nobody trained on, with each protocol."""
    effects = [
        Effect(
            f"validation above test accuracy, {name} split",
            _between(frame, (setting, "validation_accuracy"), (setting, "id_accuracy")),
        )
        for name, setting in (("released", {"protocol": "released"}), ("paper", {}))
    ]
    return [*effects, _gap(frame, {"protocol": "released"}, {}, "ood_accuracy")]


def _oracle(frame: pd.DataFrame) -> list[Effect]:
    gaps = _between(frame, ({"rule": "oracle"}, "ood_accuracy"), ({}, "ood_accuracy"))
    return [Effect("OOD accuracy", gaps)]


def _batches(frame: pd.DataFrame) -> list[Effect]:
    """Mean over batches of the fraction right in each, minus the fraction of samples right; the last batch is short."""
    reported = runs.values(frame[frame["held_out"] != ""], {}, "ood_accuracy")
    paths, gaps = frame.set_index("file")["path"], []
    for file in reported["files"]:
        stored = runs.embeddings(paths[file])
        if stored is None:
            gaps.append(np.nan)
            continue
        tested = stored.of("ood_test").samples
        right = (tested["prediction"] == tested["label"]).to_numpy()
        parts = np.split(right, range(BATCH, len(right), BATCH))
        gaps.append(100 * (np.mean([part.mean() for part in parts]) - right.mean()))
    return [Effect("reported OOD accuracy", reported.assign(value=gaps).dropna(subset="value"))]


def _severities(frame: pd.DataFrame) -> list[Effect]:
    """Accuracy at the mildest and the worst severity, minus the mean over all five, over corruptions."""
    made = runs.made_with(frame[frame["held_out"] == ""], {})
    tables = [pd.DataFrame(ood) for ood in made["validation.ood"]]  # severity x corruption
    every = runs.values(made, {}, "ood_accuracy")
    return [
        Effect(
            f"severity {s} only", every.assign(value=[100 * (t.loc[s].mean() - t.to_numpy().mean()) for t in tables])
        )
        for s in ("1", "5")
    ]


DIFFERENCES = (
    Difference("scale of the variation term", "λ of 1, 2 or 4", "λ times τ/0.07 = 1.43", _paired({"weight": 1.43}, {})),
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
    Difference(
        "start of the prototypes",
        "not stated",
        "class means of the validation images",
        _paired({"prototype_start": "validation"}, {}),
    ),
    Difference("batch norm of ResNet-50", "not stated", "its scale and shift frozen", None),
    Difference("learning rate on CIFAR-10", "0.5", "0.0005, with warm-up over 10 epochs of 500", None),
)


def table(frame: pd.DataFrame, benchmark: str, scale: str) -> Table:
    """One row per difference and effect: what the paper and its code do, and the effect, released minus paper."""
    here = frame[(frame["benchmark"] == benchmark) & (frame["scale"] == scale)]
    rows, files = [], []
    for line in DIFFERENCES:
        for effect in line.effect(here) if line.effect else [None]:
            rows.append((line.matter, line.paper, line.released, *_shown(effect)))
            files += [] if effect is None else [*effect.gaps["files"]]
    found = pd.DataFrame(
        rows, columns=["matter", "the paper", "its released code", "measured on", "effect (points)", "n"]
    )
    again = found["matter"].duplicated()
    shown = found.assign(**{column: found[column].mask(again, "") for column in found.columns[:3]})
    caption = (
        f"HYPO on {text.data(benchmark)}: the released code's way minus the paper's, in points of accuracy with 95% "
        "intervals, over n runs or pairs of runs. An effect whose interval includes 0 is none that was seen."
    )
    return Table(shown, "released-code", caption, files, found, labels=3, about=about([benchmark]))


def _shown(effect: Effect | None) -> tuple[str, str, str]:
    if effect is None:
        return "", UNMEASURED, ""
    if effect.gaps.empty:
        return effect.what, text.NOT_RUN, ""
    (line,) = runs.summarise(effect.gaps.assign(all=""), ["all"]).itertuples()
    return effect.what, text.difference(line), str(line.n)


def drift(frame: pd.DataFrame) -> pd.DataFrame:
    """How far the prototypes, averaged while batch norm used batch statistics, are from the class means of test images
    in evaluation mode, and what it costs to classify by the one or the other.

    Columns: data, scale, held out, seed, smallest and mean cosine over classes, OOD accuracy (%) by prototypes and by
    class means of the in-distribution test images (which a method may not use: a yardstick), file.
    """
    rows = []
    for _, run in runs.made_with(frame[frame["held_out"] != ""], {}).iterrows():
        stored = runs.embeddings(run["path"])
        if stored is None:
            continue
        inside, outside = stored.of("id_test").tensors(), stored.of("ood_test")
        means = class_means(inside["z"], inside["y"], len(stored.prototypes)).numpy()
        cosine = (means * stored.prototypes).sum(axis=1)
        rates = [
            100 * float(((outside.z @ anchors.T).argmax(axis=1) == outside.samples["label"]).mean())
            for anchors in (stored.prototypes, means)
        ]
        place = run["benchmark"], run["scale"], run["held_out"], run["seed"]
        rows.append((*place, cosine.min(), cosine.mean(), *rates, run["file"]))
    columns = ["data", "scale", "held out", "seed", "smallest cosine", "mean cosine", "by prototypes", "by class means"]
    return pd.DataFrame(rows, columns=[*columns, "file"])


def learning_rates(frame: pd.DataFrame) -> pd.DataFrame:
    """Runs with cartoon held out and seed 0 whose learning rates alone differ from the defaults, and the defaults."""
    own = frame["changed"].map(lambda changed: changed.keys() <= {"lr", "head_lr"}).astype(bool)
    chosen = frame[own & (frame["held_out"] == "cartoon") & (frame["seed"] == 0)]
    found = pd.DataFrame(
        {
            "data": chosen["benchmark"],
            "algorithm": chosen["algorithm"],
            "learning rate": [f"{lr:g}" for lr in chosen["lr"]],
            "of the head": [f"{lr:g}" for lr in chosen["lr"] * chosen["head_lr"]],
            "validation (%)": 100 * chosen["validation.validation_accuracy"].astype(float),
            "separation": chosen["validation.separation"].astype(float),
            "failed to train": chosen["failed"].map({True: "yes", False: "no"}),
            "file": chosen["file"],
        }
    )
    return found.sort_values(["data", "algorithm", "learning rate"], ignore_index=True)
