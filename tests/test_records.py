"""A record is stored whole or not at all, comes back as it was, and is refused when it is not what a run wrote."""

import copy
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from hypo import records

TOP = Path(__file__).resolve().parents[1]


def a_record(ood: dict | None = None, **config) -> dict:
    """A small valid record; `config` replaces fields of its configuration."""
    measures = {
        "epoch": 2,
        "validation_accuracy": 0.9,
        "id_accuracy": 0.875,
        "ood_accuracy": 0.75,
        "ood": ood or {"cartoon": 0.75},
        "corruptions": None,
        "epsilon_hat": 0.125,
        "separation": None,
        "etf_gap": None,
    }
    main = {"benchmark": "pacs", "algorithm": "hypo", "held_out": "cartoon", "scale": "demo", "seed": 0, "lr": 0.1}
    interval = {"first": 1, "last": 2, "evaluations": 2, "starts_at_first": True, "valley": True}
    return {
        "config": main | config,
        "data": "ab" * 6,
        "identity": main | config | {"data": "ab" * 6},
        "benchmark": {
            "name": "pacs",
            "fingerprint": "ab" * 32,
            "classes": ["dog", "house"],
            "domains": ["art_painting", "cartoon", "photo", "sketch"],
            "notes": [],
        },
        "split": {
            "fingerprint": "cd" * 32,
            "protocol": "paper",
            "sizes": {"train": 90, "validation": 10, "id_test": 0, "ood_test": 40},
        },
        "selection": "validation",
        "epochs": [
            {
                "epoch": 1,
                "lr": 0.1,
                "train": {"total": 1.5, "variation": 1.0},
                "validation": {"accuracy": 0.5, "loss": 1.25, "cosine": None},
                "id_test": {"accuracy": 0.5},
                "ood_test": {"accuracy": 0.25},
            }
        ],
        "final": {
            "validation": measures,
            "last": measures | {"ood_accuracy": 0.7},
            "oracle": measures | {"ood_accuracy": 0.8},
            "swad": measures | {"ood_accuracy": 0.72, "interval": interval},
        },
        "cost": {"seconds": 12.5, "evaluation_seconds": 0.5, "images_per_second": 800.0, "peak_memory_mb": 512.0},
        "environment": {
            "device": "cpu",
            "threads": 1,
            "python": "3.11.7",
            "packages": {"torch": "2.14.1"},
            "precision": "float32",
            "ranks": 1,
            "accumulate": 1,
            "compile": False,
            "commit": "0" * 40,
            "dirty": False,
        },
    }


def edited(path: Path, change) -> Path:
    """The file at `path` after `change` of its parsed content."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


def sealed(path: Path, change) -> Path:
    """As `edited`, with a digest that fits the new content: the schema check alone can notice."""
    edited(path, change)
    content = json.loads(path.read_text())
    content.pop("digest", None)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return edited(path, lambda old: old.update(digest=hashlib.sha256(text.encode()).hexdigest()))


def test_a_record_comes_back_as_it_was_written(tmp_path):
    given = a_record()
    before = copy.deepcopy(given)
    path = records.write(given, folder=tmp_path)
    assert given == before
    back = records.read(path)
    assert {key: back[key] for key in given} == given
    assert back["schema"] == 3 and back["embeddings"] is None
    assert back["config_hash"] == records.identity_hash(given["identity"])
    assert [*tmp_path.iterdir()] == [path]


def test_hash_and_digest_are_sha256_of_the_canonical_json(tmp_path):
    config = {"b": 1, "a": [1.5, None], "ü": True}
    assert records.identity_hash(config) == hashlib.sha256('{"a":[1.5,null],"b":1,"ü":true}'.encode()).hexdigest()
    assert records.identity_hash(dict(reversed(config.items()))) == records.identity_hash(config)
    assert records.identity_hash(config | {"b": 2}) != records.identity_hash(config)
    path = records.write(a_record(), folder=tmp_path)
    stored = path.read_text()
    assert json.loads(sealed(path, dict.copy).read_text()) == json.loads(stored)


@pytest.mark.parametrize(
    "config, stem",
    [
        ({}, "pacs-cartoon-hypo-demo-s0"),
        ({"benchmark": "cifar10", "held_out": None, "seed": 3}, "cifar10-all-hypo-demo-s3"),
        ({"benchmark": "../my data/Birds (2)/", "held_out": "Real World"}, "birds_2-real_world-hypo-demo-s0"),
        ({"benchmark": "birds@12ab34cd", "scale": "cpu"}, "birds_12ab34cd-cartoon-hypo-cpu-s0"),
    ],
)
def test_the_file_name_says_which_run_it_is(tmp_path, config, stem):
    path = records.write(a_record(**config), folder=tmp_path)
    assert path.name == f"{stem}-{records.read(path)['config_hash'][:8]}.json"


def test_tuples_and_severities_are_stored_as_json_has_them(tmp_path):
    record = a_record(ood={"fog": {1: 0.9, 5: 0.5}}, betas=(0.9, 0.99))
    back = records.read(records.write(record, folder=tmp_path))
    assert back["final"]["validation"]["ood"] == {"fog": {"1": 0.9, "5": 0.5}}
    assert back["config"]["betas"] == [0.9, 0.99]
    assert back["config_hash"] == records.identity_hash(record["identity"])


def test_a_record_is_written_once_unless_forced(tmp_path):
    path = records.write(a_record(), {"z": np.ones((2, 2))}, tmp_path)
    stored = path.read_bytes()
    other = a_record()
    other["cost"]["seconds"] = 99.0
    with pytest.raises(FileExistsError, match="written once: run with force"):
        records.write(other, folder=tmp_path)
    assert path.read_bytes() == stored
    assert records.write(other, folder=tmp_path, force=True) == path
    assert records.read(path)["cost"]["seconds"] == 99.0
    with pytest.raises(FileNotFoundError, match="no embeddings"):  # those of the first run are not the second's
        records.embeddings(path)


def test_embeddings_are_kept_in_half_precision_and_labels_as_they_are(tmp_path):
    z, y = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32), np.arange(50)
    back = records.embeddings(records.write(a_record(), {"z": z, "y": y}, tmp_path))
    assert back["z"].dtype == np.float16
    assert np.array_equal(back["z"], z.astype(np.float16))
    assert back["y"].dtype == y.dtype
    assert np.array_equal(back["y"], y)


@pytest.mark.parametrize("crash", ["json", "npz"])
def test_a_failed_write_leaves_no_record_and_no_temporary(tmp_path, monkeypatch, crash):
    replace = Path.replace

    def fails(self, target):
        if Path(target).suffix == f".{crash}":
            raise OSError("No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="No space"):
        records.write(a_record(), {"z": np.ones((2, 2))}, tmp_path)
    assert all(path.suffix == ".npz" for path in tmp_path.iterdir())
    assert not [*records.read_all(tmp_path)]


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_forced_write_that_stops_leaves_the_old_record_with_its_arrays_or_the_new_one_with_its_own(
    tmp_path, monkeypatch, step
):
    path = records.write(a_record(), {"z": np.zeros((2, 2))}, tmp_path)
    other = a_record()
    other["cost"]["seconds"] = 99.0
    replace, left = Path.replace, iter(range(3))

    def stops(self, target):
        if next(left) == step:
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", stops)
    with pytest.raises(KeyboardInterrupt):
        records.write(other, {"z": np.ones((2, 2))}, tmp_path, force=True)
    monkeypatch.undo()
    new = records.read(path)["cost"]["seconds"] == 99.0
    assert new == (step == 2) and (records.embeddings(path)["z"] == new).all()
    records.write(other, {"z": np.ones((2, 2))}, tmp_path, force=True)
    assert (records.embeddings(path)["z"] == 1).all() and len([*tmp_path.iterdir()]) == 2


def test_arrays_that_a_killed_process_left_without_a_record_are_simply_replaced(tmp_path, monkeypatch):
    """Nothing waits beside them: a process killed once more, behind its record, would leave that file for good."""
    path = records.write(a_record(), {"z": np.zeros((2, 2))}, tmp_path)
    path.unlink()
    named, replace = [], Path.replace
    monkeypatch.setattr(
        Path, "replace", lambda self, target: (named.append(Path(target).name), replace(self, target))[1]
    )
    records.write(a_record(), {"z": np.ones((2, 2))}, tmp_path)
    assert named == [path.with_suffix(".npz").name, path.name]


def test_a_kill_while_records_are_written_leaves_only_whole_ones(tmp_path):
    code = (
        "import itertools, sys; sys.path.insert(0, 'tests'); from test_records import a_record, records\n"
        "for seed in itertools.count(): records.write(a_record(seed=seed), folder=sys.argv[1]); print(seed, flush=True)"
    )
    environment = os.environ | {"PYTHONPATH": str(TOP)}
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=TOP, env=environment, stdout=subprocess.PIPE, text=True
    )
    for _ in range(20):
        last = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert len([*records.read_all(tmp_path)]) >= last + 1


WRONG = {
    "'digest' is a required property": lambda r: r.pop("digest"),
    "'cost' is a required property": lambda r: r.pop("cost"),
    "final: 'oracle' is a required property": lambda r: r["final"].pop("oracle"),
    "config: 'seed' is a required property": lambda r: r["config"].pop("seed"),
    "('mood' was unexpected)": lambda r: r.update(mood="good"),
    "split.sizes: Additional properties": lambda r: r["split"]["sizes"].update(test=3),
    "epochs: {} is not of type 'array'": lambda r: r.update(epochs={}),
    "epochs.0.lr: '0.1' is not of type 'number'": lambda r: r["epochs"][0].update(lr="0.1"),
    "epochs.0.train.total: True is not of type 'number'": lambda r: r["epochs"][0]["train"].update(total=True),
    "config.seed: 2.5 is not of type 'integer'": lambda r: r["config"].update(seed=2.5),
    "final.last.ood_accuracy: 75": lambda r: r["final"]["last"].update(ood_accuracy=75),
    "final.last.ood.fog: {}": lambda r: r["final"]["last"].update(ood={"fog": {}}),
    "config.scale: 'huge' is not one of": lambda r: r["config"].update(scale="huge"),
    "config.held_out: 3 is not": lambda r: r["config"].update(held_out=3),
    "selection: 'validation' was expected": lambda r: r.update(selection="oracle"),
    "benchmark.notes.0: None is not of type 'string'": lambda r: r["benchmark"].update(notes=[None]),
    "environment.dirty: 0 is not": lambda r: r["environment"].update(dirty=0),
    "final.swad: 'interval' is a required property": lambda r: r["final"]["swad"].pop("interval"),
}
NO_DIGEST = "'digest' is a required property"


@pytest.mark.parametrize("sentence", WRONG)
def test_what_is_not_laid_out_as_a_record_is_refused(tmp_path, sentence):
    path = records.write(a_record(), folder=tmp_path)
    change = edited if sentence == NO_DIGEST else sealed
    change(path, WRONG[sentence])
    with pytest.raises(ValueError, match=f"^{re.escape(path.name)} is not a record: .*{re.escape(sentence)}"):
        records.read(path)
    with pytest.raises(ValueError, match=re.escape(path.name)):
        [*records.read_all(tmp_path)]


@pytest.mark.parametrize("sentence", [sentence for sentence in WRONG if sentence != NO_DIGEST])
def test_what_is_not_laid_out_as_a_record_is_not_written_either(tmp_path, sentence):
    record = a_record()
    WRONG[sentence](record)
    with pytest.raises(ValueError, match=f"^this record cannot be stored: .*{re.escape(sentence)}"):
        records.write(record, folder=tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["final"]["validation"].update(ood_accuracy=0.76),
        lambda r: r["config"].update(seed=1),
        lambda r: r["cost"].update(seconds=1),
        lambda r: r.update(digest="0" * 64),
    ],
)
def test_a_hand_edited_record_is_refused(tmp_path, change):
    path = records.write(a_record(), folder=tmp_path)
    edited(path, dict.copy)
    records.read(path)  # another layout of the same content is no edit
    edited(path, change)
    with pytest.raises(ValueError, match=f"{re.escape(path.name)} was edited by hand"):
        records.read(path)
    with pytest.raises(ValueError, match="was edited by hand"):
        [*records.read_all(tmp_path)]


def test_a_hash_that_is_not_the_configurations_is_an_edit_too(tmp_path):
    path = sealed(records.write(a_record(), folder=tmp_path), lambda content: content.update(config_hash="0" * 64))
    with pytest.raises(ValueError, match="was edited by hand"):
        records.read(path)


@pytest.mark.parametrize(
    "content, sentence",
    [
        ("{", "old.json is not JSON"),
        ("", "old.json is not JSON"),
        ('{"schema": NaN}', "old.json is not JSON"),
        (b"\xff\xfe", "old.json is not JSON"),
        ('{"schema": 0, "accuracy": 0.9}', "old.json is of schema 0, not 3: delete it and run again"),
        ('{"schema": 1}', "old.json is of schema 1, not 3"),
        ('{"schema": "\\n"}', "old.json is of schema '\\n', not 3"),
        ("[" * 100_000, "old.json is not JSON"),
        ("{}", "old.json is not a record: 'schema' is a required property"),
        ("[]", "old.json is not a record: [] is not of type 'object'"),
    ],
)
def test_files_that_are_no_records_are_refused_by_name(tmp_path, content, sentence):
    path = tmp_path / "old.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for reader in (records.read, lambda path: [*records.read_all(path.parent)]):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            reader(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32(1), Path("x")])
def test_a_value_without_a_form_in_json_is_refused(tmp_path, value):
    record = a_record()
    record["cost"]["seconds"] = value
    with pytest.raises(ValueError, match="no form in JSON"):
        records.write(record, folder=tmp_path)


@pytest.mark.parametrize(
    "text", ["/home/ann/PACS", "C:\\PACS", "d:/PACS", "\\\\server\\PACS", "2 images unreadable, such as /data/x.png"]
)
def test_an_absolute_path_is_refused_wherever_it_stands(tmp_path, text):
    note, config, key = a_record(), a_record(benchmark=text), a_record(ood={text: 0.5})
    note["benchmark"]["notes"] = [text]
    for record in (note, config, key):
        with pytest.raises(ValueError, match="holds an absolute path"):
            records.write(record, folder=tmp_path)
    assert not [*tmp_path.iterdir()]


def test_the_name_of_the_machine_is_refused_and_harmless_text_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "grace")
    record = a_record()
    record["benchmark"]["classes"] = ["grace", "house"]
    record["benchmark"]["notes"] = ["from https://example.org/a: 3 of 4 images/s, n / a", "shared/PACS", "graceful"]
    records.write(record, folder=tmp_path)
    record["environment"]["device"] = "grace"
    with pytest.raises(ValueError, match="holds this machine's name, grace"):
        records.storable(record)
    with pytest.raises(ValueError, match="holds this machine's name, grace"):
        records.write(record, folder=tmp_path, force=True)


@pytest.mark.parametrize("host", ["cpu", "float32", "hypo", "photo"])
def test_a_machine_may_be_called_like_a_word_of_every_record(tmp_path, monkeypatch, host):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    record = a_record(held_out="photo")
    record["environment"] |= {"device": "cpu", "precision": "float32"}
    assert records.read(records.write(record, folder=tmp_path))


def test_find_goes_by_the_whole_identity(tmp_path):
    path = records.write(a_record(), folder=tmp_path)
    wanted = a_record()["identity"]
    assert records.find(wanted, tmp_path) == records.read(path)
    assert records.find(wanted | {"lr": 0.2}, tmp_path) is None
    assert records.find(wanted, tmp_path / "nowhere") is None


def test_the_record_of_one_version_of_the_data_is_not_that_of_another(tmp_path):
    records.write(a_record(), folder=tmp_path)
    here = a_record()["identity"]
    assert records.find(here | {"data": "cd" * 6}, tmp_path) is None
    anywhere = {key: value for key, value in here.items() if key != "data"}
    assert records.find(anywhere, tmp_path)["data"] == here["data"]
    assert records.find(anywhere | {"seed": 1}, tmp_path) is None


def test_embeddings_are_those_the_record_was_written_with(tmp_path):
    path = records.write(a_record(), {"z": np.ones((2, 2)), "prediction": np.array([0, 1])}, tmp_path)
    other = records.write(a_record(seed=1), {"z": np.ones((2, 2)), "prediction": np.array([1, 1])}, tmp_path)
    other.with_suffix(".npz").replace(path.with_suffix(".npz"))
    with pytest.raises(ValueError, match="is not the file that pacs-cartoon"):
        records.embeddings(path)


def test_old_embeddings_stay_until_the_new_record_is_on_disk(tmp_path, monkeypatch):
    path = records.write(a_record(), {"z": np.ones((2, 2))}, tmp_path)
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("No space left on device")))
    with pytest.raises(OSError, match="No space"):
        records.write(a_record(), {"z": np.zeros((2, 2))}, tmp_path, force=True)
    assert records.embeddings(path)["z"].tolist() == [[1, 1], [1, 1]]


def test_outsiders_can_validate_records_against_the_published_schema(tmp_path):
    jsonschema.Draft202012Validator.check_schema(records.schema())
    path = records.write(a_record(), folder=tmp_path)
    jsonschema.validate(json.loads(path.read_text()), json.loads((TOP / "hypo" / "record.schema.json").read_text()))


def test_where_records_lie(tmp_path, monkeypatch):
    monkeypatch.delenv("HYPO_RECORDS", raising=False)
    assert records.folder() == TOP / "data" / "records"
    monkeypatch.setenv("HYPO_RECORDS", str(tmp_path))
    assert records.folder() == tmp_path
    path = records.write(a_record())
    assert path.parent == tmp_path
    assert len([*records.read_all()]) == 1
    monkeypatch.delenv("HYPO_RECORDS")
    monkeypatch.setattr(records, "__file__", str(tmp_path / "site-packages" / "hypo" / "records.py"))
    assert records.folder() == Path("data/records")
