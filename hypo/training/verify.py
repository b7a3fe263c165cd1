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
    """What came out again: whether it agrees, in a sentence, each of `distinct` as it was and as it is now, how far
    apart each may be (None where it is the same to the last bit, or no other seed tells), and what it was run with."""

    agrees: bool
    sentence: str
    measures: dict[str, tuple[float, float]]
    spread: dict[str, float] | None
    environment: dict[str, Any]


class Spread(NamedTuple):
    """How far two runs of a setting may be apart, by measure, and what that is pooled over: runs, domains and the
    degrees of freedom that they leave."""

    reach: dict[str, float]
    runs: int
    domains: int
    df: int

    def __str__(self) -> str:
        places = f" in {self.domains} held-out domains" if self.domains > 1 else ""
        freedom = f"{self.df} degree{'s' if self.df > 1 else ''} of freedom"
        return f"the spread of the seeds ({self.runs} runs{places}, {freedom})"

    def holds(self, measure: str, before: float, now: float) -> bool:
        """Whether a measure as recorded and as it is now are no further apart."""
        return abs(before - now) <= self.reach[measure]


def verify(
    path: Path,
    root: str | os.PathLike[str] | None = None,
    benchmark: str | os.PathLike[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> Verdict:
    """Train the run of the record at `path` anew, from its first step, and compare; nothing is stored.

    benchmark, weights  where the reader's own folder or weights file lies, whose path no record keeps; by default under
                        its name in the working folder, weights first under <data root>/weights

    Bit for bit where processor, threads and versions are the same; else each accuracy must lie within `seed_spread`.
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
    measures = {name: (before[name], now[name]) for name in distinct(record)}
    environment = again["environment"] | {"kernels": torch.backends.cpu.get_cpu_capability()}
    if again["final"] == record["final"] and again["epochs"] == record["epochs"]:
        same = "the same to the last bit, at every epoch and under every rule of selection"
        return Verdict(True, same, measures, None, environment)
    spread = seed_spread(record, path.parent)
    if spread is None:
        alone = "not the same to the last bit, and there are no other seeds to judge the gap by"
        return Verdict(False, alone, measures, None, environment)
    wide = [name.replace("_", " ") for name, values in measures.items() if not spread.holds(name, *values)]
    sentence = f"outside {spread}: {', '.join(wide)}" if wide else f"not to the last bit, and within {spread}"
    return Verdict(not wide, sentence, measures, spread.reach, environment)


def distinct(record: dict[str, Any]) -> list[str]:
    """The measures of a record that are compared, each once: where the images of the in-distribution test are those of
    validation, the two are equal under every rule of selection and count as one."""
    final = record["final"]
    once = all(own["id_accuracy"] == own["validation_accuracy"] for own in final.values())
    known = [name for name in MEASURES if final["validation"][name] is not None]
    return [name for name in known if not (once and name == "id_accuracy")]


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


def seed_spread(record: dict[str, Any], folder: Path) -> Spread | None:
    """How far two runs of this setting may be apart at 95%, from its seeds in `folder`, the record's own among them.

    reach = t_df(0.975) sqrt(2) s      s^2 = sum_d (n_d - 1) s_d^2 / df      df = sum_d (n_d - 1)

    n_d, s_d: number and standard deviation of the seeds with domain d held out. s is taken to be one for all domains:
    three seeds of one domain have 2 degrees of freedom, and a reach that few results exceed. None where df is 0.
    """
    names, seeds = distinct(record), {}
    for _, other in records.read_all(folder):
        if _setting(other) == _setting(record):
            values = [other["final"]["validation"][name] for name in names]
            seeds.setdefault(other["config"]["held_out"], []).append(values)
    domains = [np.array(values, float) for values in seeds.values() if len(values) > 1]  # each (n_d, measures)
    df = sum(len(values) - 1 for values in domains)
    if not df:
        return None
    squares = sum(((values - values.mean(0)) ** 2).sum(0) for values in domains)  # (measures,)
    reach = stats.t.ppf(0.975, df) * np.sqrt(2 * squares / df)
    return Spread(dict(zip(names, map(float, reach), strict=True)), sum(map(len, domains)), len(domains), df)


def _setting(record: dict[str, Any]) -> dict[str, Any]:
    """What runs have in common whose seeds are pooled: all but the seed and which domain is held out, if one is."""
    rest = {name: value for name, value in record["identity"].items() if name not in ("seed", "held_out")}
    return rest | {"tested on a domain": record["config"]["held_out"] is not None}
