"""`hypo algorithms`: one line per method, and one method explained."""

import dataclasses
import inspect
import json
import re

import pytest

from hypo import records
from hypo.algorithms import ALGORITHMS, method
from hypo.cli import main
from hypo.report import methods


@pytest.fixture(autouse=True)
def measured(tmp_path, monkeypatch):
    """A folder of data in which `make bench` measured CORAL only."""
    monkeypatch.setattr(records, "home", lambda: tmp_path)
    (tmp_path / "bench.json").write_text(
        json.dumps({"methods": {"rows": [{"case": "coral", "ours": 3, "obvious": 2}]}})
    )


def test_every_method_has_one_line_with_kind_cost_reference_and_hyperparameters(capsys):
    assert main(["algorithms"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*ALGORITHMS] and "cost on the digits" in header
    for name, line in zip(ALGORITHMS, lines, strict=True):
        assert f" {method(name).kind} " in line and re.search(r"[A-Z]\w+.*, (\w+ )*(19|20)\d\d ", line), line
        assert all(f"{f.name} " in line for f in dataclasses.fields(method(name).Hyperparameters))
        assert {"coral": "1.50 x ERM", "erm": "1.00 x ERM"}.get(name, "not measured") in line


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_method_is_explained(capsys, name):
    """Formula, reference with its year, the mistake it avoids (ERM has none), every hyperparameter with its default."""
    assert main(["algorithms", name]) == 0
    text = capsys.readouterr().out
    assert re.search(r"\bL = |min over", text) and re.search(r"\b(19|20)\d\d\b", inspect.getdoc(method(name)))
    assert ("Avoids: " in text) == (name != "erm")
    for field in dataclasses.fields(method(name).Hyperparameters):
        assert f"--{field.name.replace('_', '-')} " in text and field.metadata["help"] in text
    assert f"hypo train --algorithm {name}" in text


def test_a_misspelt_method_is_answered_with_the_nearest(capsys):
    assert main(["algorithms", "corral"]) == 2
    assert "did you mean coral?" in capsys.readouterr().err


def test_without_measurements_nothing_is_said_of_the_cost(tmp_path):
    (tmp_path / "bench.json").unlink()
    assert methods.relative_costs() == {} and methods.cost("mldg") == "not measured"
