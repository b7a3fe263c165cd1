"""Whatever reads bytes or words from outside, fed with damaged and hostile ones.

Each target either takes its input for what it is or refuses it in one sentence. Every function here is a test of a few
dozen examples; `make faults` calls the same functions with many more and counts them.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import pickle
import random
import tarfile
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from made import a_record
from PIL import Image

from hypo import cli, paper, records
from hypo.claims import statements
from hypo.config import GENERAL, configure, typed
from hypo.config import settings as fields_of
from hypo.data import cache, cifar, download
from hypo.model import _state_dict
from hypo.notebook.page import PLAIN, ParameterError, begin

EXAMPLES = 40
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)
TRIED: Counter[str] = Counter()
REFUSED: Counter[str] = Counter()
TARGETS: dict[str, Callable[[int], Callable[[], None]]] = {}
"""What is fuzzed -> the test that does it, given the number of examples."""


def fuzzed(what: str, **arguments: Any) -> Callable:
    """Make a test of a function that returns whether it took its input; its name in the log is `what`."""

    def decorate(check: Callable[..., bool]) -> Callable[[], None]:
        @functools.wraps(check)
        def counted(**drawn: Any) -> None:
            TRIED[what] += 1
            with warnings.catch_warnings(action="ignore"):
                REFUSED[what] += not check(**drawn)

        def test(examples: int) -> Callable[[], None]:
            quiet = {"database": None, "deadline": None, "phases": PHASES, "suppress_health_check": list(HealthCheck)}
            same = examples <= EXAMPLES  # short forms try the same examples everywhere
            return settings(max_examples=examples, derandomize=same, **quiet)(given(**arguments)(counted))

        TARGETS[what] = test
        return test(EXAMPLES)

    return decorate


class Place:
    """Where the examples write; none reads what another wrote."""

    folder = Path()

    @classmethod
    def use(cls, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        cls.folder = folder
        for name in ("RECORDS", "RUNS", "DATA"):
            monkeypatch.setenv(f"HYPO_{name}", str(folder / name.lower()))


def scratch() -> Path:
    return Place.folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    Place.use(tmp_path, monkeypatch)


def one_sentence(error: BaseException) -> None:
    assert str(error) and "\n" not in str(error).strip(), f"not a sentence: {error!r}"


Changes = list[tuple[str, int, bytes]]


def some_changes(number: int) -> Changes:
    chance = random.Random(number)
    kinds = ["flip", "cut", "insert", "zero"]
    return [
        (chance.choice(kinds), chance.randrange(1 << 20), chance.randbytes(chance.randrange(9)))
        for _ in range(chance.randint(1, 4))
    ]


damages = st.integers(0, 1 << 62).map(some_changes)  # one draw: to draw every part takes longer than what is tested


def damaged(content: bytes, changes: Changes) -> bytes:
    for kind, where, more in changes:
        at = where % max(1, len(content))
        if kind == "flip" and content:
            content = content[:at] + bytes([content[at] ^ (1 << where % 8)]) + content[at + 1 :]
        elif kind == "cut":
            content = content[:at]
        elif kind == "insert":
            content = content[:at] + more + content[at:]
        elif kind == "zero":
            content = content[:at] + bytes(len(more)) + content[at + len(more) :]
    return content


@functools.cache
def a_written_record() -> tuple[bytes, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        arrays = {"id_test_z": np.ones((4, 2)), "id_test_y": np.arange(4)}
        path = records.write(a_record("digits", scale="demo"), arrays, folder)
        return path.read_bytes(), path.with_suffix(".npz").read_bytes()


@fuzzed("record", changes=damages)
def test_a_damaged_record(changes):
    content, path = damaged(a_written_record()[0], changes), scratch() / "a.json"
    path.write_bytes(content)
    try:
        found = records.read(path)
    except ValueError as error:
        one_sentence(error)
        return False
    assert found == json.loads(a_written_record()[0]), "a changed record was taken for the one that was written"
    return True


@fuzzed(
    "record of any JSON",
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["schema", "config", "identity", "digest", "final", "a"]), inner, max_size=4
            )
        ),
        max_leaves=8,
    ),
)
def test_any_json(value):
    path = scratch() / "any.json"
    path.write_text(json.dumps(value))
    with pytest.raises(ValueError, match=r"any\.json is") as error:
        records.read(path)
    return bool(one_sentence(error.value))


@fuzzed("embeddings", changes=damages)
def test_damaged_embeddings(changes):
    record, arrays = a_written_record()
    (scratch() / "b.json").write_bytes(record)
    (scratch() / "b.npz").write_bytes(content := damaged(arrays, changes))
    try:
        records.embeddings(scratch() / "b.json")
    except ValueError as error:
        one_sentence(error)
        return False
    assert content == arrays
    return True


@functools.cache
def pictures() -> list[bytes]:
    picture = Image.effect_noise((24, 17), 60)
    kinds = [("PNG", "RGB"), ("JPEG", "CMYK"), ("JPEG", "L"), ("GIF", "P"), ("WEBP", "RGB"), ("BMP", "RGB")]
    kinds += [("TIFF", "I;16"), ("PNG", "LA"), ("PPM", "RGB")]
    found = []
    for kind, mode in kinds:
        deep = Image.fromarray(np.asarray(picture).astype(np.uint16) << 8)
        image = deep if mode == "I;16" else picture.convert(mode)
        image.save(buffer := io.BytesIO(), kind)
        found.append(buffer.getvalue())
    huge = bytearray(found[0])
    huge[16:24] = (60_000).to_bytes(4, "big") * 2  # a header that promises 60,000 x 60,000 pixels
    picture.crop((0, 0, 1, 1)).save(single := io.BytesIO(), "PNG")
    return [*found, bytes(huge), single.getvalue()]


@fuzzed("image", which=st.integers(0, 10), changes=damages | st.just([]))
def test_a_damaged_image(which, changes):
    path = scratch() / "x.png"
    path.write_bytes(damaged(pictures()[which], changes))
    found = cache._load_or_none(path, 8)
    assert found is None or (found.shape == (8, 8, 3) and found.dtype == np.uint8)
    return found is not None


KINDS = {  # of a member: in a tar, and its mode in a zip, which has no hard links
    "file": (tarfile.REGTYPE, 0o100644),
    "link": (tarfile.SYMTYPE, 0o120777),
    "hard link": (tarfile.LNKTYPE, 0o120777),
    "device": (tarfile.CHRTYPE, 0o020644),
}
names = st.sampled_from(
    [
        "a/b.png",
        "../out",
        "a/../../out",
        "/tmp/hypo-out",
        "..\\out",
        "C:\\out",
        "a//b",
        ".",
        "",
        "a/./b",
        "\0",
        "a" * 300,
    ]
) | st.text(max_size=6)


@fuzzed(
    "archive",
    files=st.lists(st.tuples(names, st.binary(max_size=20), st.sampled_from([*KINDS])), max_size=4),
    kind=st.sampled_from(["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"]),
    changes=damages | st.just([]),
)
def test_a_hostile_archive(files, kind, changes):
    place = Path(tempfile.mkdtemp(dir=scratch()))
    archive = place / f"a.{kind}"
    archive.write_bytes(damaged(packed(files, kind), changes))
    try:
        download.unpack(archive, place / "inside" / "out")
    except OSError as error:
        one_sentence(error)
        assert not (place / "inside" / "out").exists()
        taken = False
    else:
        taken = True
    assert {path.name for path in place.iterdir()} <= {archive.name, "inside"}
    if (place / "inside").exists():
        assert {path.name for path in (place / "inside").iterdir()} <= {"out"}
    assert not any(path.is_symlink() for path in place.rglob("*")) and not Path("/tmp/hypo-out").exists()
    return taken


def packed(files: list[tuple[str, bytes, str]], kind: str) -> bytes:
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content, what in files:
                info = zipfile.ZipInfo(name or "x")
                info.external_attr = KINDS[what][1] << 16
                archive.writestr(info, content)
        return buffer.getvalue()
    with tarfile.open(fileobj=buffer, mode=f"w:{kind.partition('.')[2]}") as archive:
        for name, content, what in files:
            info = tarfile.TarInfo(name)
            info.size = len(content) if what == "file" else 0
            info.type = KINDS[what][0]
            info.linkname = "" if what in ("file", "device") else "/etc/passwd"
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "LARGEST", 1 << 20)
    for kind in ("zip", "tar.gz"):
        content = io.BytesIO()
        if kind == "zip":
            with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("a", bytes(8 << 20))
        else:
            content = io.BytesIO(packed([("a", bytes(8 << 20), "file")], kind))
        (tmp_path / kind).write_bytes(content.getvalue())
        with pytest.raises(download.DownloadError, match="far more than its"):
            download.unpack(tmp_path / kind, tmp_path / "out")
        assert {path.name for path in tmp_path.iterdir()} <= {"zip", "tar.gz"}


@functools.cache
def some_weights() -> bytes:
    torch.save({"conv1.weight": torch.ones(2, 3), "fc.bias": torch.zeros(2)}, buffer := io.BytesIO())
    return buffer.getvalue()


@fuzzed("weights", changes=damages, plain=st.binary(max_size=60), which=st.booleans())
def test_damaged_weights(changes, plain, which):
    path = scratch() / "w.pth"
    path.write_bytes(damaged(some_weights(), changes) if which else plain)
    try:
        found = _state_dict("resnet18", path)
    except ValueError as error:
        one_sentence(error)
        return False
    assert all(isinstance(value, torch.Tensor) for value in found.values())
    return True


@functools.cache
def a_batch() -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3072), dtype=np.uint8)
    return pickle.dumps({b"data": pixels, b"labels": [0, 1]}, protocol=3)


@fuzzed("CIFAR-10 batch", changes=damages, which=st.sampled_from([*cifar.BATCHES["train"], "test_batch"]))
def test_a_damaged_pickle_runs_nothing(changes, which):
    folder = scratch() / "cifar-10-batches-py"
    folder.mkdir(exist_ok=True)
    for name in (*cifar.BATCHES["train"], "test_batch"):
        (folder / name).write_bytes(damaged(a_batch(), changes) if name == which else a_batch())
    try:
        found = cifar.cifar10(folder)
    except ValueError as error:
        one_sentence(error)
        assert "cannot be read" in str(error) and "run `hypo data cifar10` anew" in str(error)
        return False
    assert found.images.shape[1:] == (32, 32, 3) and found.images.dtype == np.uint8
    return True


values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=4)
    | st.sampled_from(["none", "true", "1e3", "inf", "nan", "-1", "0x1", "1_0", "٣", "10" * 200])
    | st.lists(st.integers(), max_size=2)
)


@fuzzed("field of a configuration", name=st.sampled_from(sorted(fields_of("hypo"))), value=values)
def test_any_value_of_a_field(name, value):
    field = fields_of("hypo")[name]
    try:
        found = typed(field, value)
    except ValueError as error:
        one_sentence(error)
        return False
    assert found is None or type(found).__name__ in str(field.type)
    return True


@fuzzed(
    "configuration",
    given_=st.dictionaries(st.sampled_from([*fields_of("hypo"), "lrr", "Epochs"]), values, max_size=4),
)
def test_any_configuration(given_):
    main = {"benchmark": "digits", "held_out": "photo"}
    try:
        found = configure(**main | {str(name): value for name, value in given_.items()})
    except ValueError as error:
        one_sentence(error)
        return False
    assert json.dumps(found.fields(), allow_nan=False)
    return True


@fuzzed(
    "parameters of a page",
    given_=st.dictionaries(
        st.sampled_from([*GENERAL, "temperature", "held_ot", "ben"]),
        values.filter(lambda value: isinstance(value, PLAIN)),
        max_size=4,
    ),
    about=st.sampled_from(["pacs", "cifar10", "digits"]),
)
def test_any_parameters_of_a_page(given_, about):
    try:
        page = begin(given_, about)
    except ParameterError as error:
        one_sentence(error)
        return False
    assert page._repr_html_()
    return True


@fuzzed(
    "words of the command line",
    typed_=st.lists(
        st.sampled_from(["data", "doctor", "table", "algorithms", "verify", "--root", "--from", "digits", "Table 4"])
        | st.text(max_size=6),
        max_size=4,
    ),
)
def test_any_words(typed_):
    typed_ = [word for word in typed_ if word not in ("train", "sweep", "evidence")]
    if typed_[:2] == ["doctor"] or "data" in typed_[:1]:
        typed_ = [word for word in typed_ if word not in ("pacs", "vlcs", "cifar10")]  # nothing is downloaded here
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = cli.main(typed_)
    except SystemExit as error:  # --help
        code = error.code or 0
    assert code in (0, 1, 2)
    return code == 0


@functools.cache
def claims() -> bytes:
    return (records.home() / "claims.yml").read_bytes()


@fuzzed("claims.yml", changes=damages)
def test_damaged_claims(changes):
    some = claims()[: 1 + changes[0][1] % 6000]
    return taken(damaged(some, changes))


def taken(content: bytes) -> bool:
    """Whether a file of claims with this content is read; it is, or it is refused in one sentence."""
    path = scratch() / "claims.yml"
    path.write_bytes(content)
    try:
        statements.load(path)
    except ValueError as error:
        one_sentence(error)
        return False
    return True


@fuzzed(
    "claims.yml of any YAML",
    value=st.recursive(
        st.none() | st.integers() | st.text(max_size=4) | st.sampled_from(["compare", "hypo", "pacs"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([*sorted(statements.KEYS | statements.OPTIONAL), "kind", "measure", "of"]),
                inner,
                max_size=6,
            )
        ),
        max_leaves=10,
    ),
)
def test_any_yaml(value):
    return taken(yaml.safe_dump(value).encode())


@functools.cache
def parsed_claims() -> list[dict[str, Any]]:
    return yaml.safe_load(claims())


@functools.cache
def places_in_claims() -> list[tuple[str | int, ...]]:
    """Where a value stands in data/claims.yml: its number in the list, its keys and numbers below."""

    def below(value: Any, at: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
        inner = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else [])
        return [at, *(place for key, item in inner for place in below(item, (*at, key)))]

    return below(parsed_claims(), ())[1:]


@fuzzed(
    "claims.yml with another value",
    where=st.integers(0, 1 << 20),
    value=st.recursive(
        st.none()
        | st.integers()
        | st.floats()
        | st.booleans()
        | st.text(max_size=4)
        | st.sampled_from(["hypo", "pacs"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    ),
)
def test_claims_with_another_value(where, value):
    first, *inner = places_in_claims()[where % len(places_in_claims())]
    changed = whole = [copy.deepcopy(parsed_claims()[first])]
    for key in (place := [0, *inner])[:-1]:
        changed = changed[key]
    changed[place[-1]] = value
    return taken(yaml.safe_dump(whole).encode())


def a_table(content: bytes, kind: str) -> bool:
    """Whether a CSV with this content is read; it is, with its columns, or refused in one sentence."""
    columns, optional = {"paper.csv": (paper.LISTED, "page"), "all.csv": (paper.PRINTED, "spread")}[kind]
    path = scratch() / kind
    path.write_bytes(content)
    try:
        found = paper.read(path, columns, optional)
    except ValueError as error:
        one_sentence(error)
        assert kind in str(error) and "restore it from the repository" in str(error)
        return False
    assert [*found] == [*columns] and len(found)
    assert np.isfinite(found.select_dtypes(float).fillna(0)).all(axis=None)
    assert all(
        pd.api.types.is_dtype_equal(found[name].dtype, pd.Series(dtype=of).dtype) for name, of in columns.items()
    )
    return True


@functools.cache
def csv_files() -> dict[str, bytes]:
    """The repository's two kinds."""
    lists, numbers = Path(paper.__file__).with_name("paper.csv"), records.home() / "paper" / "all.csv"
    return {path.name: path.read_bytes() for path in (lists, numbers)}


@fuzzed("CSV of the paper", changes=damages, kind=st.sampled_from(["paper.csv", "all.csv"]), rows=st.integers(1, 40))
def test_a_damaged_csv(changes, kind, rows):
    return a_table(damaged(b"".join(csv_files()[kind].splitlines(keepends=True)[:rows]), changes), kind)


cells = st.sampled_from(
    [",", "\n", "\r\n", '"', "1", "all", "nan", "inf", "-1e999", "9" * 400, "true", "\0", "\ufeff", "'"]
)


@fuzzed(
    "CSV of any bytes",
    head=st.booleans(),
    content=st.binary(max_size=60)
    | st.lists(cells | st.text(max_size=4), max_size=30).map(lambda c: "".join(c).encode()),
    kind=st.sampled_from(["paper.csv", "all.csv"]),
)
def test_any_csv(head, content, kind):
    return a_table(csv_files()[kind].split(b"\n")[0] * head + b"\n" * head + content, kind)
