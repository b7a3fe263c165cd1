"""Records: one JSON file per run, written once when the run ends, with all that is needed to trust its numbers.

A record is a dict laid out as SCHEMA. Accuracies are fractions of samples; `epsilon_hat`, `separation` and `etf_gap`
are those of `hypo.geometry`; null stands for what a run does not have, such as prototypes. `final` holds the same
measures at three epochs: "validation", the one with the best training-domain validation accuracy, which is the result;
"last"; and "oracle", the one with the best test accuracy, which is selection on the test data and shown as that only.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hypo.suggest import one_of

VERSION = 1
RULES = ("validation", "last", "oracle")
PARTS = ("train", "validation", "id_test", "ood_test")
MEASURES = {
    "epoch": "number",  # of the weights chosen; a fraction within an epoch
    "validation_accuracy": "fraction",
    "id_accuracy": "fraction or null",
    "ood_accuracy": "fraction or null",
    "ood": {...: "fraction or severities"},  # of each test domain, or of each corruption
    "corruptions": "published or generated or null",
} | dict.fromkeys(("epsilon_hat", "separation", "etf_gap"), "number or null")
EPOCH = {
    "epoch": "number",
    "lr": "number",
    "train": {...: "number"},  # the terms of the loss
    "validation": {"accuracy": "fraction", "loss": "number"},
    "id_test": {"accuracy": "fraction or null"},
    "ood_test": {"accuracy": "fraction or null"},
}
CONFIG = {"benchmark": "text", "algorithm": "text", "held_out": "text or null", "seed": "integer"}
COST = {"seconds": "number", "images_per_second": "number", "peak_memory_mb": "number or null"}
PROVENANCE = {"device": "text", "python": "text", "packages": {...: "text"}, "commit": "text or null"} | {
    "precision": "text",
    "ranks": "integer",
}
SCHEMA = {
    "schema": "integer",
    "config": CONFIG | {"scale": "demo or cpu or paper", ...: "anything"},
    "config_hash": "text",
    "benchmark": {"name": "text", "fingerprint": "text", "classes": ["text"], "domains": ["text"], "notes": ["text"]},
    "split": {"fingerprint": "text", "protocol": "text", "sizes": dict.fromkeys(PARTS, "integer")},
    "selection": "validation",
    "epochs": [EPOCH],
    "final": dict.fromkeys(RULES, MEASURES),
    "cost": COST,
    "environment": PROVENANCE | {"dirty": "flag or null"},
    "digest": "text",
}
"""{name: layout}, with `...` for every other name; [layout of each item]; or kinds of KINDS and literal words."""

KINDS = {
    "text": lambda value: isinstance(value, str),
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float) and math.isfinite(value),
    "fraction": lambda value: KINDS["number"](value) and 0 <= value <= 1,
    "severities": lambda value: isinstance(value, dict) and value != {} and all(map(KINDS["fraction"], value.values())),
    "flag": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "anything": lambda _: True,
}


def home() -> Path:
    """data/ of the working copy that hypo runs from, else ./data."""
    checkout = Path(__file__).resolve().parents[1]
    return checkout / "data" if (checkout / "pyproject.toml").exists() else Path("data")


def folder() -> Path:
    """Where records lie: $HYPO_RECORDS, else data/records of the working copy, else ./data/records."""
    given = os.environ.get("HYPO_RECORDS")
    return Path(given).expanduser() if given else home() / "records"


def config_hash(config: dict[str, Any]) -> str:
    """Hex sha256 of the configuration: the same for the same fields, whatever their order."""
    return _sha256(config)


def write(
    record: dict[str, Any],
    embeddings: dict[str, np.ndarray] | None = None,
    folder: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> Path:
    """Store a record, with schema, config_hash and digest added, and return its path.

    record      as SCHEMA, less the three fields that are added here
    embeddings  arrays kept beside it as .npz, floating-point ones in float16; they are on disk before the record is
    folder      where to; `folder()` by default
    force       replace the record of an earlier run of the same configuration, which is refused otherwise
    """
    try:
        record = json.loads(json.dumps(record, allow_nan=False))  # tuples become lists, and severities text
    except (TypeError, ValueError) as error:
        raise ValueError(f"this record cannot be stored, a value in it has no form in JSON: {error}") from None
    record = {"schema": VERSION} | record | {"config_hash": config_hash(record.get("config")), "digest": ""}
    record["digest"] = _digest(record)
    if problem := _fault(record, SCHEMA) or _private(record):
        raise ValueError(f"this record cannot be stored: {problem}")
    path = _folder(folder) / _name(record["config"], record["config_hash"])
    if path.exists() and not force:
        raise FileExistsError(f"{path.name} exists and a record is written once: run with force to replace it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".npz").unlink(missing_ok=True)
    if embeddings is not None:
        _replace(path.with_suffix(".npz"), _npz(embeddings))
    _replace(path, json.dumps(record, indent=1, ensure_ascii=False).encode() + b"\n")
    return path


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The record at `path`; a file that is not one, of another schema, or edited by hand is a ValueError."""
    path = Path(path)
    try:
        record = json.loads(path.read_bytes(), parse_constant=int)  # int() refuses NaN, as JSON does
    except ValueError:
        raise ValueError(f"{path.name} is not JSON: restore it, or delete it and run again") from None
    if isinstance(record, dict) and record.get("schema", VERSION) != VERSION:
        raise ValueError(f"{path.name} is of schema {record['schema']}, not {VERSION}: delete it and run again")
    if problem := _fault(record, SCHEMA):
        raise ValueError(f"{path.name} is not a record: {problem}")
    if record["digest"] != _digest(record) or record["config_hash"] != config_hash(record["config"]):
        raise ValueError(f"{path.name} was edited by hand: restore it, or delete it and run again")
    return record


def embeddings(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays stored beside the record at `path`."""
    arrays = Path(path).with_suffix(".npz")
    if not arrays.exists():
        raise FileNotFoundError(f"{Path(path).name} has no embeddings beside it: run it again with force to make them")
    with np.load(arrays) as archive:
        return dict(archive)


def find(config_hash: str, folder: str | os.PathLike[str] | None = None) -> dict[str, Any] | None:
    """The record of the configuration with this hash, None when there is none."""
    found = (read(path) for path in sorted(_folder(folder).glob(f"*-{config_hash[:8]}.json")))
    return next((record for record in found if record["config_hash"] == config_hash), None)


def read_all(folder: str | os.PathLike[str] | None = None, **filters: Any) -> list[tuple[str, dict[str, Any]]]:
    """File name and record of every run whose configuration has these values: field=value or field=[values]."""
    found = [(path.name, read(path)) for path in sorted(_folder(folder).glob("*.json"))]
    fields = {field: None for _, record in found for field in record["config"]}
    for field, value in filters.items() if found else ():
        one_of("filter", field, fields)
        wanted = [*value] if isinstance(value, list | tuple | set) else [value]
        found = [(name, record) for name, record in found if record["config"].get(field) in wanted]
    return found


def load(folder: str | os.PathLike[str] | None = None, **filters: Any) -> pd.DataFrame:
    """One row per record, `filters` as for `read_all`.

    Columns: the fields of the configuration; `<rule>.<measure>` for each rule of RULES and each single number of
    `final`, such as `validation.ood_accuracy`; the fields of `cost`; `file`.
    """
    final = {f"{rule}.{measure}": (rule, measure) for rule in RULES for measure in MEASURES if measure != "ood"}
    rows = [
        record["config"]
        | {column: record["final"][rule][measure] for column, (rule, measure) in final.items()}
        | record["cost"]
        | {"file": name}
        for name, record in read_all(folder, **filters)
    ]
    return pd.DataFrame(rows, columns=None if rows else [*CONFIG, "scale", *final, *COST, "file"])


def _folder(given: str | os.PathLike[str] | None) -> Path:
    return folder() if given is None else Path(given)


def _name(config: dict[str, Any], digest: str) -> str:
    parts = (config["benchmark"], config["held_out"] or "all", config["algorithm"], config["scale"])
    last = [re.split(r"[/\\]", part.rstrip("/\\"))[-1] for part in parts]  # a benchmark may be a path
    slugs = [re.sub(r"\W+", "_", part).strip("_").lower()[:40] for part in last]
    return "-".join([*slugs, f"s{config['seed']}", digest[:8]]) + ".json"


def _sha256(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _digest(record: dict[str, Any]) -> str:
    return _sha256({key: value for key, value in record.items() if key != "digest"})


def _fault(value: Any, layout: Any, where: str = "") -> str | None:
    """What is wrong with `value`, found at `where` in a record, according to `layout`; None when nothing is."""
    name = where or "the file"
    if isinstance(layout, str):
        valid = any(KINDS[kind](value) if kind in KINDS else value == kind for kind in layout.split(" or "))
        return None if valid else f"{name} must be {layout}, not {value!r}"
    if type(value) is not type(layout):
        return f"{name} must be a JSON {'object' if isinstance(layout, dict) else 'list'}, not {value!r}"
    if isinstance(layout, list):
        inside = ((item, layout[0], f"{where}[{index}]") for index, item in enumerate(value))
    else:
        if missing := [key for key in layout if key is not ... and key not in value]:
            return f"{name} lacks {', '.join(missing)}"
        if ... not in layout and (unknown := [key for key in value if key not in layout]):
            return f"{name} has the unknown {', '.join(unknown)}"
        inside = ((item, layout.get(key, layout.get(...)), f"{where}.{key}".lstrip(".")) for key, item in value.items())
    return next((fault for item in inside if (fault := _fault(*item))), None)


def _private(value: Any) -> str | None:
    """The sentence that refuses an absolute path or this machine's name anywhere in a record, None without one."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return next((found for item in value if (found := _private(item))), None)
    if isinstance(value, str) and re.search(r"(^|[\s'\"(=])(/[^\s/]|[A-Za-z]:[\\/]|\\\\)", value):
        return f"{value!r} holds an absolute path; give a name, or a path relative to the data"
    return f"{value!r} is this machine's name; leave it out" if value == socket.gethostname() else None


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    half = {name: array.astype(np.float16) if array.dtype.kind == "f" else array for name, array in arrays.items()}
    np.savez_compressed(buffer, allow_pickle=False, **half)
    return buffer.getvalue()


def _replace(path: Path, content: bytes) -> None:
    """Put `content` at `path` so that a kill at any moment leaves the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
