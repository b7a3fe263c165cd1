"""Records: one JSON file per run, written once when the run ends, with all that is needed to trust its numbers.

`record.schema.json` beside this file says what a record holds; any JSON Schema validator can read it. `final` holds the
same measures for each rule of selection: "validation", the weights with the best training-domain validation accuracy,
which is the result; "last"; "oracle", the best test accuracy, which is selection on the test data and shown as that
only; "swad", the average over the valley of the validation loss.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import re
import socket
import tempfile
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

import fastjsonschema
import jsonschema
import numpy as np

from hypo.files import expanded, write_atomically

VERSION = 3
RULES = ("validation", "last", "oracle", "swad")
MEASURES = (
    *("epoch", "validation_accuracy", "id_accuracy", "ood_accuracy"),
    *("epsilon_hat", "separation", "etf_gap", "sinkhorn", "hard_pairs"),
)
"""The single numbers of each rule; a record from before one was measured is without it."""


def home() -> Path:
    """data/ of the working copy that hypo runs from, else ./data."""
    checkout = Path(__file__).resolve().parents[1]
    return checkout / "data" if (checkout / "pyproject.toml").exists() else Path("data")


def folder() -> Path:
    """Where records lie: $HYPO_RECORDS, else data/records of the working copy, else ./data/records."""
    given = os.environ.get("HYPO_RECORDS")
    return expanded(given) if given else home() / "records"


@functools.cache
def schema() -> dict[str, Any]:
    """The JSON Schema of a record."""
    return json.loads(files("hypo").joinpath("record.schema.json").read_bytes())


def identity_hash(identity: dict[str, Any]) -> str:
    """Hex sha256 of a run's identity: the same for the same fields, whatever their order."""
    return _sha256(identity)


def name_of(identity: dict[str, Any]) -> str:
    """The name of a run's files, without an ending: what a reader looks for, and the start of the hash."""
    words = [identity["benchmark"], identity["held_out"] or "all", identity["algorithm"], identity["scale"]]
    slugs = [re.sub(r"\W+", "_", PurePath(word).name.lower()).strip("_") for word in words]
    slugs = [slug.encode()[:60].decode(errors="ignore") for slug in slugs]  # a file's name has 255 bytes at most
    return f"{'-'.join(slugs)}-s{identity['seed']}-{identity_hash(identity)[:8]}"


def write(
    record: dict[str, Any],
    embeddings: dict[str, np.ndarray] | None = None,
    folder: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> Path:
    """Store a record, with schema, hashes and digest added, and return its path.

    record      as the schema, less what is added here
    embeddings  arrays kept beside it as .npz, floating-point ones in float16; they are on disk before the record is
    folder      where to; `folder()` by default
    force       replace the record of an earlier run of the same identity, which is refused otherwise
    """
    path, content, arrays = prepared(record, embeddings, folder)
    if path.exists() and not force:
        raise FileExistsError(f"{path.name} exists and a record is written once: run with force to replace it")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".npz")
    place = _coming(path) if path.exists() else beside  # a record that is replaced keeps its own until then
    if arrays is not None:
        write_atomically(place, arrays)
    write_atomically(path, content)
    if arrays is None:
        beside.unlink(missing_ok=True)
    elif place != beside:
        place.replace(beside)
    return path


def _coming(path: Path) -> Path:
    """Where the arrays of a record wait that is about to replace another."""
    return path.with_suffix(".coming.npz")


def prepared(
    record: dict[str, Any],
    embeddings: dict[str, np.ndarray] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> tuple[Path, bytes, bytes | None]:
    """Path and content of a record and of the arrays beside it; whatever cannot be stored is refused here."""
    record = _as_json(record)
    arrays = None if embeddings is None else _npz(embeddings)
    added = {"config_hash": identity_hash(record.get("identity", {})), "embeddings": arrays and _hex(arrays)}
    record = {"schema": VERSION} | record | added | {"digest": ""}
    record["digest"] = _digest(record)
    _refuse(record)
    fields = ",\n".join(f"{json.dumps(name)}:{_compact(value)}" for name, value in record.items())  # one to a line
    content = f"{{\n{fields}\n}}\n".encode()
    return _folder(folder) / f"{name_of(record['identity'])}.json", content, arrays


def ready(part: dict[str, Any], folder: str | os.PathLike[str] | None = None) -> None:
    """Refuse before a run what `write` would refuse after it: a name in `part` of its record, or the folder."""
    storable(part)
    try:
        _folder(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=_folder(folder)) as file:
            file.write(b"whether it can be written to")
    except OSError as error:
        raise OSError(
            f"no record can be written to {_folder(folder)} ({error.strerror}): make room there, or set $HYPO_RECORDS "
            "to another folder"
        ) from error


def storable(part: dict[str, Any]) -> None:
    """Refuse a name or a value in `part` of a record that `write` would refuse."""
    _refuse(_as_json(part), part=True)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The record at `path`; a file that is not one, of another schema, or edited by hand is a ValueError."""
    path = Path(path)
    try:
        record = json.loads(path.read_bytes(), parse_constant=int)  # int() refuses NaN, as JSON does
    except (ValueError, RecursionError):  # of JSON that is nested too deep to be read
        raise ValueError(f"{path.name} is not JSON: restore it, or delete it and run again") from None
    if isinstance(record, dict) and record.get("schema", VERSION) != VERSION:
        raise ValueError(f"{path.name} is of schema {record['schema']!r}, not {VERSION}: delete it and run again")
    digest = _digest(record) if isinstance(record, dict) else ""
    if digest not in _sound or record.get("digest") != digest:
        if problem := _fault(record):
            raise ValueError(f"{path.name} is not a record: {problem}")
        if record["digest"] != digest or record["config_hash"] != identity_hash(record["identity"]):
            raise ValueError(f"{path.name} was edited by hand: restore it, or delete it and run again")
        _sound.add(digest)
    return record


_sound: set[str] = set()
"""Digests of records that were validated in this process, which takes ten times as long as reading one."""


def embeddings(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays stored beside the record at `path`; others than those it was written with are a ValueError."""
    path, arrays = Path(path), Path(path).with_suffix(".npz")
    found = [place.read_bytes() for place in (arrays, _coming(path)) if place.exists()]
    if not found:
        raise FileNotFoundError(f"{path.name} has no embeddings beside it: run it again with force to make them")
    known = read(path)["embeddings"]
    content = next((each for each in found if _hex(each) == known), None)
    if content is None:
        raise ValueError(
            f"{arrays.name} is not the file that {path.name} was written with: restore it, or run again with force"
        )
    with np.load(io.BytesIO(content)) as archive:
        return dict(archive)


def find(identity: dict[str, Any], folder: str | os.PathLike[str] | None = None) -> dict[str, Any] | None:
    """The record of the run with this identity, None when there is none. Without `data`, of any version of the data."""
    if "data" in identity:
        path = _folder(folder) / f"{name_of(identity)}.json"
        found = [read(path)] if path.exists() else []
        return next((record for record in found if record["config_hash"] == identity_hash(identity)), None)
    pattern = re.sub(r"-[0-9a-f]{8}$", "-*.json", name_of(identity))
    alike = (read(path) for path in sorted(_folder(folder).glob(pattern)))
    return next((r for r in alike if {k: v for k, v in r["identity"].items() if k != "data"} == identity), None)


def read_all(folder: str | os.PathLike[str] | None = None) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Path and record of every run."""
    return ((path, read(path)) for path in sorted(_folder(folder).glob("*.json")))


def _folder(given: str | os.PathLike[str] | None) -> Path:
    return folder() if given is None else Path(given)


def _sha256(value: Any) -> str:
    return _hex(_compact(value, sort_keys=True).encode())


def _compact(value: Any, sort_keys: bool = False) -> str:
    return json.dumps(value, sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False)


def _hex(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest(record: dict[str, Any]) -> str:
    return _sha256({key: value for key, value in record.items() if key != "digest"})


@functools.cache
def _valid() -> Callable[[Any], Any]:
    return fastjsonschema.compile(schema(), use_default=False)


def _as_json(record: dict[str, Any]) -> dict[str, Any]:
    """A record as it reads back: tuples become lists, and severities text."""
    try:
        text = json.dumps(record, allow_nan=False, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError as error:
        odd = error.object[max(0, error.start - 40) : error.end + 40]
        raise ValueError(f"this record cannot be stored, a name in it is no UTF-8 text: {odd!r}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"this record cannot be stored, a value in it has no form in JSON: {error}") from None
    return json.loads(text)


def _refuse(record: dict[str, Any], part: bool = False) -> None:
    names = {name for key in ("classes", "domains") for name in record.get("benchmark", {}).get(key, ())}
    problem = _fault(record, part) or _private(record, names) or _named(record.get("environment", {}))
    if problem:
        raise ValueError(f"this record cannot be stored: {problem}")


def _fault(record: Any, part: bool = False) -> str | None:
    """What is wrong with a record, or with a part of one, according to the schema; None when nothing is. Compiled code
    finds that something is, more than ten times as fast; jsonschema says what."""
    refused = None
    if not part:
        try:
            _valid()(record)
            return None
        except fastjsonschema.JsonSchemaValueException as error:
            refused = error.message
    expected = schema() | ({"required": []} if part else {})
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(expected).iter_errors(record))
    if error is None:
        return refused
    where = ".".join(map(str, error.absolute_path))
    return f"{where}: {error.message}" if where else error.message


def _private(value: Any, names: set[str]) -> str | None:
    """The sentence that refuses an absolute path anywhere in a record, None without one; `names` are of folders."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return next((found for item in value if (found := _private(item, names))), None)
    if (
        isinstance(value, str)
        and value not in names
        and re.search(r"(^|[\s'\"(=])(/[^\s/]|[A-Za-z]:[\\/]|\\\\)", value)
    ):
        return f"{value!r} holds an absolute path; give a name, or a path relative to the data"
    return None


def _named(environment: dict[str, Any]) -> str | None:
    """The sentence that refuses this machine's name as that of its device; any machine may be called cpu or float32."""
    host, device = socket.gethostname(), environment.get("device")
    return f"environment holds this machine's name, {host}; leave it out" if host == device != "cpu" else None


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    half = {name: array.astype(np.float16) if array.dtype.kind == "f" else array for name, array in arrays.items()}
    np.savez_compressed(buffer, allow_pickle=False, **half)
    return buffer.getvalue()
