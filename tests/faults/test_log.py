"""The log of `make faults`: each part is of one version of the code, and the page says of which."""

import importlib.util
import json
from pathlib import Path

import nbformat
import pytest

from hypo import records

SPEC = importlib.util.spec_from_file_location("faults_log", Path(__file__).with_name("__main__.py"))
faults = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(faults)
PAGE = Path(__file__).parents[2] / "book" / "faults.ipynb"


@pytest.fixture
def code(tmp_path, monkeypatch):
    """What sets the version of the code, from which a log in `tmp_path` is written."""
    monkeypatch.setattr(faults, "LOG", tmp_path / "faults.json")

    def at(version: str) -> None:
        here = {"code": version, "commit": version * 40, "python": "3.11.7", "system": "Linux"}
        monkeypatch.setattr(faults, "about", lambda: here)

    return at


def a_part(name: str, failure: str = "", **counts: dict[str, object]) -> None:
    part = faults.Part(name, True, **{kind: {} for kind in counts})
    for kind, added in counts.items():
        for key, value in added.items():
            part.log[kind][key] = part.log[kind][key] + value if key in part.log[kind] else value
    if failure:
        part.failed(failure, ValueError("why"))
    part.keep()


def test_a_part_is_added_to_by_the_same_code_and_begun_anew_by_another(tmp_path, code):
    code("a")
    a_part("soak", runs={"asked for": 2})
    a_part("soak", "it", runs={"asked for": 3})
    code("b")
    a_part("trials", faults={})
    log = json.loads((tmp_path / "faults.json").read_text())
    assert log["soak"]["runs"] == {"asked for": 5} and log["soak"]["failures"] == ["it: ValueError: why"]
    assert (log["soak"]["code"], log["trials"]["code"]) == ("a", "b")
    a_part("soak", runs={"asked for": 1})
    log = json.loads((tmp_path / "faults.json").read_text())
    assert log["soak"]["runs"] == {"asked for": 1} and (log["soak"]["code"], log["soak"]["failures"]) == ("b", [])
    assert [path.name for path in tmp_path.iterdir()] == ["faults.json"]


def test_a_short_form_writes_no_log(tmp_path, code):
    code("a")
    faults.Part("soak", False).keep()
    assert not [*tmp_path.iterdir()]


def test_the_digest_is_of_all_that_is_tried_and_changed_code_has_no_commit(monkeypatch):
    tried = {path.relative_to(faults.TOP).as_posix() for part in faults.TRIED for path in faults.TOP.glob(part)}
    assert {"hypo/cli.py", "hypo/data/cache.py", "hypo/record.schema.json", "tests/made.py"} < tried
    assert all((faults.TOP / "tests" / f"{name}.py").is_file() for name in faults.HELPERS)
    said = {"status": "", "rev-parse": "c" * 40}
    monkeypatch.setattr(faults, "_git", lambda word, *_: said[word])
    assert faults.about.__wrapped__()["commit"] == "c" * 40
    said["status"] = " M hypo/cli.py"
    assert faults.about.__wrapped__()["commit"] is None


@pytest.mark.parametrize("second, said", [("a", "on one version of the code"), ("b", "on 2 versions of the code")])
def test_the_page_sums_the_log_and_says_of_how_many_versions_of_the_code(tmp_path, code, monkeypatch, second, said):
    code("a")
    tried = {"tried": 3, "outcomes": {"the same": 3}}
    a_part("trials", faults={"SIGKILL at any moment": tried, "a full disk": tried})
    code(second)
    a_part("soak", faults={"SIGTERM": 4}, kills={"SIGTERM": 2}, runs={"asked for": 1, "complete": 1})
    monkeypatch.setattr(records, "home", lambda: tmp_path)
    shown, names = [], {"display": lambda value: shown.append(value._repr_html_())}
    for cell in nbformat.read(PAGE, 4).cells:
        if cell.cell_type == "code":
            *lines, last = cell.source.rsplit("\nshow(", 1)
            exec("\n".join([*lines, f"display(show({last})"]), names)
    first, *tables = map(str, shown)
    assert "10 faults, 5 of them kills by SIGKILL or SIGTERM, and 0 fuzzed inputs" in first and said in first
    assert "commit aaaaaaaa" in tables[0] and f"commit {second * 8}" in tables[1] and "not run yet" in tables[2]


def test_the_outcomes_in_the_committed_log_add_up():
    """A kill that came too late is no trial, so what came of it is no outcome either."""
    for name, each in json.loads(faults.LOG.read_text())["trials"]["faults"].items():
        assert sum(each["outcomes"].values()) == each["tried"], name
