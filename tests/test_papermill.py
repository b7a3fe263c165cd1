"""papermill without an output path, as a reader types it."""

import subprocess
import sys
from pathlib import Path

import pytest

from hypo.notebook.papermill import with_output

pytestmark = pytest.mark.heavy

TOP = Path(__file__).resolve().parents[1]
QUIET = ["--engine", "hypo"]


@pytest.fixture
def book(tmp_path, monkeypatch):
    (tmp_path / "book").mkdir()
    for name in ("_toc.yml", "pacs.ipynb"):
        (tmp_path / "book" / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "output"),
    [
        ("book/pacs.ipynb", "_runs/pacs.running.ipynb"),
        ("book/pacs.ipynb -p held_out cartoon", "_runs/pacs-held_out=cartoon.running.ipynb"),
        ("-p held_out cartoon -p seed 1 book/pacs.ipynb", "_runs/pacs-held_out=cartoon-seed=1.running.ipynb"),
        (
            "--no-progress-bar -k python3 book/pacs.ipynb -r benchmark a/b",
            "_runs/pacs-benchmark=a_b_c14cdd.running.ipynb",
        ),
        ("-f own.yml book/pacs.ipynb", "_runs/pacs-own.yml.running.ipynb"),
        ("--log-level=INFO --cwd book book/pacs.ipynb", "_runs/pacs.running.ipynb"),
    ],
)
def test_a_page_gets_an_output_path_named_by_its_parameters(book, typed, output):
    words = typed.split()
    at = words.index("book/pacs.ipynb") + 1
    assert with_output(words) == [*words[:at], output, *words[at:], *QUIET]
    assert (book / "_runs").is_dir()


@pytest.mark.parametrize(
    "typed",
    [
        "book/missing.ipynb",
        "notes.txt",
        "--help-notebook book/pacs.ipynb",
        "--help",
        "",
    ],
)
def test_every_other_call_of_papermill_is_left_alone(book, typed):
    assert with_output(typed.split()) == typed.split()
    assert not (book / "_runs").exists()


@pytest.mark.parametrize("output", ["out.ipynb", "-"])
def test_an_output_path_and_an_engine_of_the_readers_stay(book, output):
    typed = ["book/pacs.ipynb", output, "-p", "held_out", "cartoon"]
    assert with_output(typed) == [*typed, *QUIET]
    assert with_output([*typed, "--engine=mine"]) == [*typed, "--engine=mine"]
    assert not (book / "_runs").exists()


def test_a_notebook_outside_a_book_is_left_alone(book):
    (book / "own.ipynb").touch()
    assert with_output(["own.ipynb"]) == ["own.ipynb"]


@pytest.mark.usefixtures("book")
def test_no_two_choices_of_parameters_share_a_name():
    typed = ["-p seed 3", "-p dim 3", "-p benchmark a/b", "-p benchmark a_b", "-p benchmark a.b", "-f a.b", "-y a/b"]
    typed += [f"-p benchmark {'x' * 100}/{name}" for name in "ab"]
    typed += [" ".join(f"-p parameter{i} {'x' * 30}{name}" for i in range(15)) for name in "ab"]
    names = [with_output(["book/pacs.ipynb", *words.split()])[1] for words in typed]
    assert len(set(names)) == len(typed) and max(map(len, names)) < 230


@pytest.mark.parametrize("stdin", [subprocess.DEVNULL, subprocess.PIPE], ids=["null", "pipe"])
def test_the_literal_command_writes_the_page_and_a_failure_leaves_it(tmp_path, stdin):
    import nbformat

    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "_toc.yml").touch()
    cell = nbformat.v4.new_code_cell("held_out = 'photo'", metadata={"tags": ["parameters"]})
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    code = "from pathlib import Path; assert not Path('broken').exists(); print(held_out)"
    page = nbformat.v4.new_notebook(cells=[cell, nbformat.v4.new_code_cell(code)], metadata=kernel)
    nbformat.write(page, tmp_path / "book" / "pacs.ipynb")
    command = [Path(sys.executable).with_name("papermill"), "book/pacs.ipynb", "-p", "held_out", "cartoon"]
    result = subprocess.run(command, cwd=tmp_path, stdin=stdin, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    whole = tmp_path / "_runs" / "pacs-held_out=cartoon.ipynb"
    assert nbformat.read(whole, as_version=4).cells[-1].outputs[0].text == "cartoon\n"
    before = whole.read_bytes()
    (tmp_path / "broken").touch()
    assert subprocess.run(command, cwd=tmp_path, stdin=stdin, capture_output=True).returncode == 1
    assert whole.read_bytes() == before
    assert {path.name for path in whole.parent.iterdir()} == {whole.name, "pacs-held_out=cartoon.failed.ipynb"}


def test_papermill_loads_nothing_heavy_through_the_entry_point():
    code = "import sys, hypo.notebook.papermill; sys.exit(bool({'torch', 'numpy', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=TOP, check=False).returncode == 0


def test_the_entry_point_names_this_module():
    import tomllib
    from importlib.metadata import EntryPoint

    ((name, value),) = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["entry-points"][
        "papermill.io"
    ].items()
    assert EntryPoint(name, value, "papermill.io").load().__module__ == with_output.__module__
