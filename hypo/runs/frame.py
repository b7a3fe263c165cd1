"""What was run: every record as a row of one frame, and the rows that were made with a given setting."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from hypo import records
from hypo.algorithms import ALGORITHMS, method
from hypo.algorithms.base import Algorithm
from hypo.config import GENERAL, changed
from hypo.suggest import one_of

OTHERS = (
    *("data", "config_hash", "changed", "at_defaults", "in_heap", "failed", "classes", "domains", "notes"),
    *("fingerprint", "split", "sizes", "seconds", "images_per_second", "peak_memory_mb", "device", "threads"),
    *("origins", "path"),
)
"""Columns beside the configuration and the measures."""
MEASURED = [f"{rule}.{name}" for rule in records.RULES for name in (*records.MEASURES, "ood", "corruptions")]
COLLAPSED = 0.9  # mean cosine of two prototypes above which they count as one


class Origin(NamedTuple):
    """A record behind a number: the name of its file, and the benchmark that it is of."""

    file: str
    benchmark: str


Origins = tuple[Origin, ...]
Setting = dict[str, Any]
"""Fields of a configuration; every other field is at its scale's default, the algorithm being hypo. `rule` names a
rule of selection, "validation" where it is left out."""


def load(folder: str | os.PathLike[str] | None = None, **filters: Any) -> pd.DataFrame:
    """One row per recorded run whose columns have these values: column=value or column=[values].

    the fields of the configuration, by name; NaN where a method does not have the field
    held_out           "" for runs that are tested on corruptions
    data, fingerprint  version of the images (empty for the digits), and the whole fingerprint
    classes, domains   names, as tuples; notes, sizes: of the benchmark and of the parts of the split
    split              fingerprint of the split
    changed            what differs from the scale's defaults, as a dict; at_defaults: whether nothing does
    in_heap, failed    whether prototypes coincide after a fifth of the training; whether the run failed to train
    <rule>.<measure>   of each rule of selection, such as validation.ood_accuracy (a fraction), None where the record
                       has none; <rule>.ood is a dict
    seconds, ...       the cost; device, threads: what ran it
    origins            the record, as a tuple of one Origin; path: of its file
    """
    given = Path(folder) if folder is not None else records.folder()
    rows = [row(record, path) for path, record in records.read_all(given)]
    found = pd.DataFrame(
        rows, columns=None if rows else [*GENERAL, *OTHERS, *MEASURED, "swad.interval"]
    ).drop_duplicates("config_hash")
    for column, value in filters.items():
        one_of("filter", column, found)
        wanted = [*value] if isinstance(value, list | tuple | set) else [value]
        found = found[found[column].isin(wanted)]
    return found.reset_index(drop=True)


def row(record: dict[str, Any], path: Path | None = None) -> dict[str, Any]:
    """A record as a row of `load`."""
    config, benchmark = record["config"], record["benchmark"]
    different = changed(config)
    measures = dict.fromkeys(MEASURED) | {
        f"{rule}.{name}": value for rule, own in record["final"].items() for name, value in own.items()
    }
    return (
        config
        | {
            "benchmark": benchmark["name"],
            "held_out": config["held_out"] or "",
            "data": record["data"],
            "config_hash": record["config_hash"],
        }
        | {"changed": different, "at_defaults": not different}
        | {"in_heap": in_heap(record), "failed": failed_to_train(record)}
        | {"classes": tuple(benchmark["classes"]), "domains": tuple(benchmark["domains"])}
        | {"notes": tuple(benchmark["notes"]), "fingerprint": benchmark["fingerprint"]}
        | {"split": record["split"]["fingerprint"], "sizes": record["split"]["sizes"]}
        | measures
        | record["cost"]
        | {
            "device": record["environment"]["device"],
            "threads": record["environment"]["threads"],
            "origins": (Origin(path.name, benchmark["name"]),) if path else (),
            "path": path,
        }
    )


def of(record: dict[str, Any], folder: str | os.PathLike[str] | None = None) -> pd.Series:
    """The row of a record that was read from, or written to, `folder`."""
    given = Path(folder) if folder is not None else records.folder()
    return pd.Series(row(record, next(given.glob(f"*-{record['config_hash'][:8]}.json"), None)))


def in_heap(record: dict[str, Any]) -> bool:
    """Whether the prototypes coincide at the first evaluation after a fifth of the epochs; a run may leave later.

    They coincide when two of them have a mean cosine above COLLAPSED; methods without a loss on the sphere have none.
    """
    fifth = record["config"]["epochs"] / 5
    return _coincide([each for each in record["epochs"] if each["epoch"] > fifth][:1])


def failed_to_train(record: dict[str, Any]) -> bool:
    """Whether the selected weights are near chance on validation, or prototypes that a method predicts by coincide at
    the last evaluation.

    Near chance is an accuracy below 2 / C. Class means that coincide, as PCL's may, say nothing of its classifier.
    """
    name, chance = record["config"]["algorithm"], 1 / len(record["benchmark"]["classes"])
    by_prototypes = name not in ALGORITHMS or method(name).prototypes is not Algorithm.prototypes
    stuck = by_prototypes and _coincide(record["epochs"][-1:])
    return stuck or record["final"]["validation"]["validation_accuracy"] < 2 * chance


def _coincide(evaluations: list[dict[str, Any]]) -> bool:
    return any((each["validation"]["cosine"] or 0.0) > COLLAPSED for each in evaluations)


def made_with(frame: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """The runs with this setting and every other field at its scale's default."""
    wanted = {"algorithm": "hypo"} | {field: value for field, value in setting.items() if field != "rule"}
    fits = frame["changed"].map(lambda own: own.keys() <= wanted.keys()).astype(bool)
    for field, value in wanted.items():
        if field not in frame:
            fits &= False
        else:
            fits &= frame[field].isna() if value is None else frame[field] == value
    return frame[fits]
