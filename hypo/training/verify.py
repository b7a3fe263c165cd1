"""Run a recorded configuration again and say whether the result agrees."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from hypo import records
from hypo.config import MAIN, configure
from hypo.data.benchmarks import data_version, load
from hypo.training.engine import train

MEASURES = ("validation_accuracy", "id_accuracy", "ood_accuracy")


class Verdict(NamedTuple):
    """What came out again: whether it agrees, in a sentence, and each measure as it was and as it is now."""

    agrees: bool
    sentence: str
    measures: dict[str, tuple[float, float]]


def verify(path: Path, root: str | os.PathLike[str] | None = None) -> Verdict:
    """Train the run of the record at `path` anew, from its first step, and compare; nothing is stored.

    Bit for bit where processor, threads and versions are the same; else each accuracy must lie within the spread of the
    run's seeds: Student's 95% interval for the difference of two runs, from the other seeds of the same setting.
    """
    record = records.read(path)
    fields = record["config"]
    usual = configure(*(fields[name] for name in MAIN)).fields()
    changed = {name: value for name, value in fields.items() if name in usual and value != usual[name]}
    config = configure(**{name: fields[name] for name in MAIN} | {n: v for n, v in changed.items() if n not in MAIN})
    images = load(config.benchmark, size=config.size, root=root)
    if (here := data_version(config.benchmark, images)) != record["data"]:
        raise ValueError(
            f"{path.name} was made on version {record['data']} of the data, and here is {here}: fetch that one"
        )
    with tempfile.TemporaryDirectory() as folder:
        again = train(config, images, Path(folder), root)[0]
    before, now = record["final"]["validation"], again["final"]["validation"]
    measures = {name: (before[name], now[name]) for name in MEASURES if before[name] is not None}
    if again["final"] == record["final"] and again["epochs"] == record["epochs"]:
        return Verdict(True, "the same to the last bit, at every epoch and under every rule of selection", measures)
    spread = seed_spread(record, path.parent)
    if spread is None:
        return Verdict(
            False, "not the same to the last bit, and there are no other seeds to judge the gap by", measures
        )
    wide = [name for name, (a, b) in measures.items() if abs(a - b) > spread[name]]
    if wide:
        return Verdict(False, f"outside the spread of the seeds: {', '.join(wide)}", measures)
    return Verdict(True, "not to the last bit, and within the spread of the seeds", measures)


def seed_spread(record: dict[str, Any], folder: Path) -> dict[str, float] | None:
    """For each measure, how far two runs of this setting may be apart at 95%, from the seeds recorded in `folder`."""
    alike = [other for _, other in records.read_all(folder) if _setting(other) == _setting(record)]
    if len(alike) < 2:
        return None
    reach = stats.t.ppf(0.975, len(alike) - 1) * 2**0.5
    values = {name: [other["final"]["validation"][name] for other in alike] for name in MEASURES}
    return {name: reach * float(np.std(each, ddof=1)) for name, each in values.items() if None not in each}


def _setting(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record["identity"].items() if name != "seed"}
