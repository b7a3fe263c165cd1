"""One run: its result card, and what it took for what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hypo import records, runs
from hypo.records import RULES
from hypo.report import text
from hypo.report.table import Table
from hypo.runs import MEASURES
from hypo.training.verify import distinct, kept, seed_spread

SHOWN = 12
"""Classes of which a page shows the errors; the CSV has them all."""


def facts(run: Any) -> dict[str, str]:
    """Summary of a run (a row of `hypo.runs.load`), by name: each number with its data, scale, seed and selection."""
    sizes, chosen = run["sizes"], {name: run[f"validation.{name}"] for name in ("epoch", "corruptions", "separation")}
    tested = text.words(run["held_out"]) or "corruptions" + (
        f" ({chosen['corruptions']})" if chosen["corruptions"] else ""
    )
    names = {"last": "last epoch", "oracle": "oracle", "swad": "SWAD"}
    others = [f"{names[rule]} {_percent(run[f'{rule}.ood_accuracy'])}" for rule in RULES if rule != "validation"]
    evaluated = run["evaluation_seconds"] / (run["seconds"] + run["evaluation_seconds"])
    span = run["swad.interval"]
    no_test = all(run[f"{rule}.id_accuracy"] == run[f"{rule}.validation_accuracy"] for rule in RULES)
    averaged = f"{text.epochs(span)}, {span['evaluations']} evaluation{'s' if span['evaluations'] != 1 else ''}"
    return {
        "run": f"{text.method_name(run['algorithm'])} on {text.data(run['benchmark'])}, {run['scale']} scale, "
        f"seed {run['seed']}",
        "model": f"{text.network(run['backbone'], run['size'], run['width'])}, {run['epochs']} epochs of "
        f"{sizes['train']:,} images",
        "selected": f"on training-domain validation ({sizes['validation']:,} images), epoch {chosen['epoch']:g}",
        "validation": _percent(run["validation.validation_accuracy"]),
        "in-distribution": _percent(run["validation.id_accuracy"])
        + (", the validation images" if no_test else f" of {sizes['id_test']:,}"),
        "OOD": f"{_percent(run['validation.ood_accuracy'])} on {tested}",
        "other rules": f"{', '.join(others)} (OOD; the oracle looks at the test images)",
        "SWAD averages": averaged + (", from the first one on" if span["starts_at_first"] else ""),
        "geometry": f"epsilon-hat {text.number(run['validation.epsilon_hat'], 3) or 'not measured'}, "
        f"separation {text.number(chosen['separation'], 3) or 'not measured'}",
        "cost": f"{run['seconds']:.0f} s of training, {run['images_per_second']:.0f} images/s; "
        f"{evaluated:.0%} of all time went into evaluations",
    } | ({"failed": "this run failed to train"} if run["failed"] else {})


def _percent(fraction: float | None) -> str:
    return "not tested" if fraction is None else f"{100 * fraction:.1f}%"


def card(run: Any) -> str:
    """`facts` in a few lines of plain text."""
    return "\n".join(f"{name:<16} {value}" for name, value in facts(run).items())


def result(run: Any) -> Table:
    """`facts` as a table; its CSV has the measures under each rule of selection."""
    (name, said), *rest = facts(run).items()
    names = [name.removeprefix("validation.") for name in run.index if name.startswith("validation.")]
    measures = {rule: [run[f"{rule}.{name}"] for name in names] for rule in RULES}
    numbers = pd.DataFrame(measures, pd.Index(names, name="measure")).drop("ood")
    frame = pd.DataFrame(rest, columns=[name, said])
    return Table(frame, "result", records=[run["origins"]], numbers=numbers)


def verified(frame: pd.DataFrame) -> Table:
    """Records whose run was made again by `hypo verify --keep`: one row per record and measure, and whether it agrees.

    frame  runs of any setting; what is kept of others is left out

    How far a measure may differ is computed from the records as they are. Where what was kept with the outcome allows
    otherwise, the row says so.
    """
    rows, numbers, origins = [], [], []
    by_name = {run["path"].stem: run for _, run in frame.iterrows()}
    for name, found in kept().items():
        if (own := by_name.get(name)) is None:
            continue
        record, then = records.read(own["path"]), found["spread"]
        same = found["agrees"] and then is None
        spread = None if same else seed_spread(record, own["path"].parent)
        for measure in distinct(record):
            before, now = found["measures"][measure]
            reach = spread and spread.reach[measure]
            agrees = same or (spread is not None and spread.holds(measure, before, now))
            outcome = "the same to the last bit" if same else "agrees" if agrees else "does not agree"
            if then and (abs(before - now) <= then[measure]) != agrees:
                did = "did not" if agrees else "did"
                outcome += f"; it {did} with the {text.number(100 * then[measure])} points allowed then"
            rows.append(
                {
                    "record": text.place(own),
                    "measure": MEASURES[measure].words,
                    "recorded (%)": text.number(100 * before),
                    "again (%)": text.number(100 * now),
                    "may differ by": text.number(None if reach is None else 100 * reach),
                    "from": "" if spread is None else f"{spread.runs} runs, df {spread.df}",
                    "outcome": outcome,
                }
            )
            values = {"recorded": before, "again": now, "may_differ_by": reach, "df": spread and spread.df}
            numbers.append({"record": name, "measure": measure} | values | {"agrees": agrees})
        origins.append(own["origins"])
    caption = (
        "Records whose run was made again from its first step. A measure may differ by Student's 95% interval for the "
        "difference of two runs: its variance is that of the seeds within a held-out domain, pooled over all domains "
        "that the setting was run with (df: degrees of freedom), the record's own run among them. Where validation and "
        "in-distribution test are the same images, they count once."
    )
    columns = ["record", "measure", "recorded (%)", "again (%)", "may differ by", "from", "outcome"]
    return Table(pd.DataFrame(rows, columns=columns), "verified", caption, origins, pd.DataFrame(numbers), labels=2)


def outcomes(run: Any) -> pd.DataFrame | None:
    """Each test image of a run, of the held-out domain if there is one; None where no embeddings are stored.

    index, label, prediction  the image in its ImageSet, its class, and the class it was taken for
    margin  how much nearer it lies, in cosine, to the prototype of the prediction than to that of its own class
    """
    stored = runs.embeddings(run["path"])
    if stored is None:
        return None
    part = stored.of("ood_test" if run["held_out"] else "id_test")
    cosines, at = part.z @ part.prototypes.T, np.arange(len(part.z))  # (N, C)
    tested = part.samples[["index", "label", "prediction"]]
    return tested.assign(margin=cosines[at, tested["prediction"]] - cosines[at, tested["label"]])


def without_embeddings(run: Any) -> str:
    """What is said in the place of something that needs stored embeddings."""
    again = text.command(run, run["changed"])
    return f"The record of this run was kept without its predictions: `{again} --force` makes it anew with them."


def confusion(outcome: pd.DataFrame, classes: tuple[str, ...]) -> pd.DataFrame:
    """Number of images of each class (row) that were taken for each class (column)."""
    counts = np.zeros((len(classes), len(classes)), int)
    np.add.at(counts, (outcome["label"], outcome["prediction"]), 1)
    return pd.DataFrame(counts, pd.Index(classes, name="class"), list(classes))


def class_errors(run: Any, outcome: pd.DataFrame) -> Table:
    """Accuracy on each class of `outcomes`, the worst first, and what it is most often taken for."""
    counts = confusion(outcome, run["classes"])
    total, right = counts.sum(axis=1), np.diag(counts)
    wrong = counts.mask(np.eye(len(counts), dtype=bool), 0)
    often = wrong.idxmax(axis=1) + " (" + wrong.max(axis=1).astype(str) + ")"
    found = pd.DataFrame({"images": total, "wrong": total - right, "accuracy (%)": 100 * right / total})
    found["most often taken for"] = often.where(found["wrong"] > 0, "")
    found = found.sort_values("accuracy (%)", kind="stable")
    worst = f", the {SHOWN} worst of {len(found)}" if len(found) > SHOWN else ""
    caption = f"Errors by class on {text.place(run)}{worst}."
    return Table(found.head(SHOWN), "class-errors", caption, [run["origins"]], found)


def mistakes(run: Any, outcome: pd.DataFrame) -> pd.DataFrame:
    """The wrong predictions of `outcomes`, largest margin first: index, class, prediction (by name), margin."""
    wrong = outcome[outcome["label"] != outcome["prediction"]].sort_values("margin", ascending=False, kind="stable")
    names = np.array(run["classes"])
    return pd.DataFrame({"index": wrong["index"], "class": names[wrong["label"]]}).assign(
        prediction=names[wrong["prediction"]], margin=wrong["margin"]
    )
