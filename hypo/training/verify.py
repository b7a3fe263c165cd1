"""Run a recorded configuration again and say whether the result agrees."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import stats

from hypo import records
from hypo.config import MAIN, configure, stored
from hypo.data.benchmarks import REGISTRY, data_root, data_version, load
from hypo.files import expanded, write_atomically
from hypo.training.engine import train

MEASURES = ("validation_accuracy", "id_accuracy", "ood_accuracy")


class Verdict(NamedTuple):
    """What came out again: whether it agrees, in a sentence, each measure as it was and as it is now, how far apart
    each may be (None where it is the same to the last bit, or no other seed tells), and what it was run with."""

    agrees: bool
    sentence: str
    measures: dict[str, tuple[float, float]]
    spread: dict[str, float] | None
    environment: dict[str, Any]


def verify(
    path: Path,
    root: str | os.PathLike[str] | None = None,
    benchmark: str | os.PathLike[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> Verdict:
    """Train the run of the record at `path` anew, from its first step, and compare; nothing is stored.

    benchmark, weights  where the reader's own folder or weights file lies, whose path no record keeps; by default under
                        its name in the working folder, weights first under <data root>/weights

    Bit for bit where processor, threads and versions are the same; else each accuracy must lie within the spread of the
    run's seeds: Student's 95% interval for the difference of two runs, from the other seeds of the same setting.
    """
    record = records.read(path)
    if path.with_suffix(".npz").exists():
        records.embeddings(path)  # refused when they are not the record's own
    fields = record["config"]
    usual = configure(*(fields[name] for name in MAIN)).fields()
    given = {name: fields[name] for name in MAIN}
    given |= {name: value for name, value in fields.items() if name in usual and value != usual[name]}
    if given["benchmark"] not in REGISTRY:
        given["benchmark"] = _found("benchmark", given["benchmark"], benchmark)
    elif benchmark is not None:
        raise ValueError(f"{path.name} is of {given['benchmark']}: leave --benchmark out, --root says where that lies")
    name, known, _ = (given.get("weights") or "").rpartition("@")
    if known and (weights is not None or not (data_root(root) / "weights" / name).is_file()):
        given["weights"] = _found("weights", given["weights"], weights)
    config = configure(**given)
    images = load(config.benchmark, size=config.size, root=root)
    if (here := data_version(config.benchmark, images)) != record["data"]:
        raise ValueError(
            f"{path.name} was made on version {record['data']} of the data, and here is {here}: restore it"
        )
    kept, here = fields["weights"], stored(config, record["data"])["weights"]
    if kept and kept.rpartition("@")[2] != here.rpartition("@")[2]:
        raise ValueError(f"{path.name} started from {kept}, and {here} is another file: restore it")
    with tempfile.TemporaryDirectory() as folder:
        again = train(config, images, Path(folder), root)[0]
    before, now = record["final"]["validation"], again["final"]["validation"]
    measures = {name: (before[name], now[name]) for name in MEASURES if before[name] is not None}
    environment = again["environment"] | {"kernels": torch.backends.cpu.get_cpu_capability()}
    if again["final"] == record["final"] and again["epochs"] == record["epochs"]:
        same = "the same to the last bit, at every epoch and under every rule of selection"
        return Verdict(True, same, measures, None, environment)
    spread = seed_spread(record, path.parent)
    if spread is None:
        alone = "not the same to the last bit, and there are no other seeds to judge the gap by"
        return Verdict(False, alone, measures, None, environment)
    wide = [name for name, (a, b) in measures.items() if abs(a - b) > spread[name]]
    if wide:
        return Verdict(False, f"outside the spread of the seeds: {', '.join(wide)}", measures, spread, environment)
    within = "not to the last bit, and within the spread of the seeds"
    return Verdict(True, within, measures, spread, environment)


def log() -> Path:
    """Where `keep` stores outcomes."""
    return records.home() / "verified.json"


def kept() -> dict[str, dict[str, Any]]:
    """The outcomes that `keep` stored: name of a record -> the fields of its Verdict."""
    return json.loads(log().read_text(encoding="utf-8")) if log().exists() else {}


def keep(path: Path, verdict: Verdict) -> Path:
    """Add the outcome for the record at `path` to data/verified.json, which the page of claims shows; the file."""
    known = dict(sorted((kept() | {path.stem: verdict._asdict()}).items()))
    write_atomically(log(), json.dumps(known, indent=1).encode() + b"\n")
    return log()


def _found(what: str, kept: str, given: str | os.PathLike[str] | None) -> str:
    """The path of what a record keeps as name@version: the given one, else that name in the working folder."""
    name = kept.rpartition("@")[0]
    place = expanded(given or name).absolute()
    if not place.exists():
        raise ValueError(f"{name}, the {what} of this record, is not at {place}: give its path with --{what}")
    return str(place)


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
