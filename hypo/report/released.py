"""Where the paper and its released code differ, and what each difference changes, measured on recorded runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from hypo import runs
from hypo.report import text
from hypo.report.table import Table
from hypo.runs import KEYS, Setting
from hypo.sphere import class_means

BATCH = 64  # the released code averages accuracies of batches
ACROSS_SPLITS = [key for key in KEYS if key != "split"]
RELEASED_SPLIT = {"protocol": "released"}


class Effect(NamedTuple):
    """What a difference changes, and how: from runs to one row per run or pair, in points of accuracy."""

    what: str
    gaps: Callable[[pd.DataFrame], pd.DataFrame]


class Difference(NamedTuple):
    """One row: the matter, what the paper says, what its code does, the effects that are measured, and `on` which
    benchmark, where only one will do (or the digits under corruptions, for CIFAR-10)."""

    matter: str
    paper: str
    released: str
    effects: tuple[Effect, ...] = ()
    on: str = ""


def _lead(of: Setting, than: Setting, measure: str = "ood_accuracy") -> Effect:
    """A measure under a setting minus that under a second one; the splits of the two may differ."""
    return Effect(text.measures([measure]), lambda frame: runs.leads(frame, of, than, measure, on=ACROSS_SPLITS))


def _both(of: Setting, than: Setting) -> tuple[Effect, Effect]:
    return _lead(of, than), _lead(of, than, "id_accuracy")


def _batches(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean over batches of the fraction right in each, minus the fraction of samples right; the last batch is short."""
    reported = runs.values(frame, {}, "ood_accuracy")
    paths, gaps = dict(zip(frame["origins"], frame["path"], strict=True)), []
    for stored in (runs.embeddings(paths[run]) for run in reported["origins"]):
        tested = pd.DataFrame({"prediction": [], "label": []}) if stored is None else stored.of("ood_test").samples
        right = (tested["prediction"] == tested["label"]).to_numpy()
        parts = np.split(right, range(BATCH, len(right), BATCH))
        gaps.append(100 * (np.mean([part.mean() for part in parts]) - right.mean()) if len(right) else np.nan)
    return reported.assign(value=gaps).dropna(subset="value")


def _severity(severity: str) -> Effect:
    """Accuracy at one severity minus the mean over all five, over corruptions."""

    def gaps(frame: pd.DataFrame) -> pd.DataFrame:
        made = runs.made_with(frame, {})
        tables = [pd.DataFrame(ood) for ood in made["validation.ood"]]  # severity x corruption
        values = [100 * (table.loc[severity].mean() - table.to_numpy().mean()) for table in tables]
        return runs.values(made, {}, "ood_accuracy").assign(value=values)

    return Effect(f"severity {severity} alone minus all five", gaps)


DIFFERENCES = (
    Difference("scale of the variation term", "λ of 1, 2 or 4", "λ times τ/0.07 = 1.43", _both({"weight": 1.43}, {})),
    Difference("views of an image", "two augmentations", "one", _both({}, {"views": 2})),
    Difference(
        "hard negatives",
        "used with several training domains",
        "cannot be switched on: no domains reach the loss",
        _both({"hard_negatives": False}, {}),
    ),
    Difference(
        "training and validation",
        "10% set aside",
        "drawn twice, so nine tenths of it is trained on",
        (_lead(RELEASED_SPLIT, {}, "validation_accuracy"), _lead(RELEASED_SPLIT, {})),
    ),
    Difference(
        "choice of the epoch, CIFAR-10",
        "not stated",
        "the best on the test set",
        (_lead({"rule": "oracle"}, {}),),
        on="cifar10",
    ),
    Difference(
        "accuracy",
        "fraction of samples",
        "mean of the fractions of batches",
        (Effect("reported OOD accuracy", _batches),),
    ),
    Difference(
        "severity of the corruptions", "not stated", "all together", (_severity("1"), _severity("5")), on="cifar10"
    ),
    Difference(
        "start of the prototypes",
        "not stated",
        "class means of the validation images",
        _both({"prototype_start": "validation"}, {}),
    ),
    Difference("batch norm of ResNet-50", "not stated", "its scale and shift frozen"),
    Difference("learning rate on CIFAR-10", "0.5", "0.0005, with warm-up over 10 epochs of 500"),
)


def table(frame: pd.DataFrame, benchmark: str, scale: str) -> Table:
    """One row per difference and effect: what the paper and its code do, and the effect, released minus paper."""
    rows = []
    for matter, theirs, released, effects, on in DIFFERENCES:
        first, data = (matter, theirs, released), benchmark if benchmark == "digits" or not on else on
        here = frame[(frame["benchmark"] == data) & (frame["scale"] == scale)]
        here = here[(here["held_out"] == "") == bool(on)]
        for effect in effects:
            gaps = effect.gaps(here)
            found = runs.summarise(gaps.assign(held=_held_out(gaps, data)), ["held"])
            shown = [(line.held, text.difference(line), str(line.n), line.origins) for line in found.itertuples()]
            rows.append((*first, effect.what, *(shown[0] if shown else ("", text.NOT_RUN, "", ()))))
            first = ("", "", "")
        if not effects:
            rows.append((*first, "", "", "not measured", "", ()))
    columns = ["matter", "the paper", "its released code", "measured by", "held out", "effect (points)", "n", "origins"]
    found = pd.DataFrame(rows, columns=columns)
    caption = (
        f"HYPO on {text.data(benchmark)}, or on CIFAR-10 where a row says so: the released code's way minus the "
        "paper's, in points of accuracy with 95% intervals, over n runs or pairs of runs. Rows differ in their "
        "held-out domains, so effects of different rows are not compared. An effect whose interval includes 0 cannot "
        "be told from chance."
    )
    shown = found.drop(columns="origins")
    return Table(shown, f"released-code-{benchmark}", caption, found["origins"], found, labels=3)


def _held_out(gaps: pd.DataFrame, benchmark: str) -> str:
    """The held-out domains of runs on a benchmark: cartoon and sketch; none: corruptions of CIFAR-10."""
    domains = [text.words(domain) for domain in sorted({*gaps["held_out"]}) if domain]
    return text.listed(domains) or f"none: corruptions of {text.data(benchmark)}"


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
        place = text.data(run["benchmark"]), run["scale"], text.words(run["held_out"]), run["seed"]
        rows.append((*place, cosine.min(), cosine.mean(), *rates, run["origins"]))
    columns = ["data", "scale", "held out", "seed", "smallest cosine", "mean cosine", "by prototypes", "by class means"]
    return pd.DataFrame(rows, columns=[*columns, "origins"])


def drift_in_words(found: pd.DataFrame) -> str:
    """A sentence for each data set: what class means in place of prototypes would change, from the rows of `drift`."""
    said = []
    for data, own in found.groupby("data", sort=False):
        gain = own["by class means"] - own["by prototypes"]
        count = f"{len(own)} run{'s' if len(own) > 1 else ''}"
        said.append(
            f"On {data}, class means in place of prototypes change the accuracy by {text.number(gain.abs().max())} "
            f"points at most, and by {text.number(gain.mean(), sign=True)} on average over {count}."
        )
    return " ".join(said)
