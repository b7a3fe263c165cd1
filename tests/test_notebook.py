"""Parameters of a page: what is refused, which scale is taken, what the banner says."""

from pathlib import Path

import numpy as np
import pytest
from made import PACS, arrays, run

from hypo.config import configure
from hypo.notebook import page as notebook


@pytest.fixture(autouse=True)
def nothing_here(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPO_RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("HYPO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HYPO_RUNS", str(tmp_path / "runs"))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"held_ot": "cartoon"}, "unknown parameter 'held_ot': did you mean held_out?"),
        ({"held_out": "carton"}, "unknown held_out domain of pacs 'carton': did you mean cartoon?"),
        ({"algorithm": "hipo"}, "unknown algorithm 'hipo': did you mean hypo?"),
        ({"scale": "cup"}, "unknown scale 'cup': did you mean cpu?"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"temperature": 0}, "temperature must be above 0, not 0"),
    ],
)
def test_a_bad_parameter_is_one_sentence(given, sentence):
    with pytest.raises(notebook.ParameterError) as error:
        notebook.begin({"held_out": "cartoon", **given}, "pacs")
    assert str(error.value).startswith(sentence)
    (line,) = error.value._render_traceback_()
    assert line == f"ParameterError: {error.value}"


def test_names_that_are_no_parameters_are_not_looked_at():
    page = notebook.begin({"np": np, "_": 3, "LIMIT": 2, "held_out": "photo", "begin": notebook.begin}, "pacs")
    assert page.config.held_out == "photo"


def test_without_data_or_record_the_digits_stand_in_for_pacs_and_the_banner_says_so():
    page = notebook.begin({"held_out": "sketch"}, "pacs")
    assert page.demo and page.ready and page.config == configure("digits", "hypo", "sketch", "demo")
    banner = page._repr_html_()
    assert "demo scale" in banner and "is of the embedded digits, not of PACS" in banner
    assert "<code>hypo data pacs</code>" in banner


def test_nothing_stands_in_for_a_benchmark_that_the_digits_are_not_like():
    page = notebook.begin({"held_out": "real_world"}, "office_home")
    assert not page.ready and not page.demo and "No run on Office-Home is recorded here." in page._repr_html_()
    with pytest.raises(
        notebook.ParameterError, match="demo scale is of the digits, and this page is about office_home"
    ):
        notebook.begin({"held_out": "real_world", "scale": "demo"}, "office_home")


def test_a_recorded_run_on_the_benchmark_is_shown_where_its_data_is_not(tmp_path):
    path = run(tmp_path / "records", "pacs", "erm", "photo", "cpu", 2, ood=0.5)
    page = notebook.begin({"held_out": "photo", "algorithm": "erm", "seed": 2}, "pacs")
    assert page.config.scale == "cpu" and page.recorded and not page.demo
    assert page.images() is None
    own = page.run()
    assert (own["validation.ood_accuracy"], own["path"]) == (0.5, path)
    assert [origin.file for origin in own["origins"]] == [path.name]
    assert notebook.begin({"held_out": "photo", "algorithm": "erm", "seed": 3}, "pacs").config.scale == "demo"
    assert notebook.begin({"held_out": "photo", "algorithm": "erm", "seed": 2, "scale": "demo"}, "pacs").demo


def test_other_domains_are_shown_where_every_method_is_recorded_with_its_embeddings(tmp_path):
    kept = arrays(np.eye(2), np.arange(2), np.zeros(2, int))
    for domain, algorithm, embeddings in (
        *((domain, algorithm, kept) for domain in ("sketch", "art_painting") for algorithm in ("erm", "hypo")),
        ("photo", "hypo", kept),
        *(("cartoon", algorithm, None) for algorithm in ("erm", "hypo")),
    ):
        run(tmp_path / "records", "pacs", algorithm, domain, embeddings=embeddings)
    before = sorted((tmp_path / "records").iterdir())
    page = notebook.begin({"held_out": "sketch"}, "pacs")
    every = page.by_held_out("erm", "hypo")
    assert [*every] == ["sketch", "art_painting"], "the page's own first; no ERM on photo, no embeddings on cartoon"
    assert all(own[name]["held_out"] == domain for domain, own in every.items() for name in ("erm", "hypo"))
    assert [*page.by_held_out("hypo")] == ["sketch", "art_painting", "photo"]
    assert sorted((tmp_path / "records").iterdir()) == before, "nothing is trained for another domain"


@pytest.mark.parametrize("held_out", PACS)
def test_the_committed_records_have_embeddings_of_every_domain_of_pacs(held_out, monkeypatch):
    monkeypatch.setenv("HYPO_RECORDS", str(Path(__file__).resolve().parents[1] / "data" / "records"))
    page = notebook.begin({"held_out": held_out, "scale": None, "seed": 0}, "pacs")
    assert page.config.scale == "cpu" and page.recorded
    every = page.by_held_out("erm", "hypo")
    assert next(iter(every)) == held_out and {*every} == {*PACS}
