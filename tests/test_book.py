"""The book's set-up, tried on little books: the real pages are built by `make book`."""

import difflib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

TOP = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((TOP / "book").glob("*.ipynb"))
COMMAND = [Path(sys.executable).with_name("jupyter-book"), "build", "book/"]
MANY = 4
"""With one more, these are more pages than are made at a time anywhere, so that kernels are forked."""
OPENMP = ("torch", "torchvision", "sklearn", "ot", "umap", "numba")
"""Packages that load OpenMP, or import one that does."""


def write(top: Path, **pages: list[str]) -> None:
    """A book at `top` with the real configuration: of each page its title, some mathematics and these code cells."""
    shutil.copy(TOP / "_config.yml", top)
    (top / "book").mkdir(exist_ok=True)
    shutil.copy(TOP / "book" / "references.bib", top / "book")
    for part in ("assets", "extensions"):
        shutil.copytree(TOP / "book" / part, top / "book" / part, dirs_exist_ok=True)
    root, *others = pages
    contents = ["format: jb-book", f"root: {root}", "chapters:" if others else "", *(f"- file: {p}" for p in others)]
    (top / "book" / "_toc.yml").write_text("\n".join(contents))
    for name, cells in pages.items():
        prose = nbformat.v4.new_markdown_cell(f"# Page {name}\n\n$$\\boldsymbol\\mu$$")
        notebook = nbformat.v4.new_notebook(
            cells=[prose, *map(nbformat.v4.new_code_cell, cells)],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(notebook, top / "book" / f"{name}.ipynb")


def environment() -> dict[str, str]:
    """This process's, less the number of threads: pages choose it themselves."""
    return {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | {"NO_COLOR": "1"}


def build(top: Path) -> subprocess.CompletedProcess:
    return subprocess.run(COMMAND, cwd=top, capture_output=True, text=True, env=environment())


def shown(top: Path, page: str) -> str:
    return (top / "_build" / "html" / f"{page}.html").read_text().replace("&#39;", "'")


def until(condition: Callable[[], object]) -> None:
    """Wait for it, however long a busy machine takes."""
    while not condition():
        time.sleep(0.05)


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    """A book of two pages, one of which fails in its second cell; and its build."""
    top = tmp_path_factory.mktemp("broken")
    bad = ["before = 1", "\n# the cell\nbefore / 0", "after = 2"]
    write(top, good=["print('made once'); open('../made', 'a').write('x')"], bad=bad)
    return top, build(top)


@pytest.mark.pages
def test_a_build_with_a_broken_cell_ends_with_page_cell_and_sentence(broken):
    top, result = broken
    assert result.returncode != 0
    assert result.stderr.strip().splitlines()[-4:] == [
        "The book is not built: 1 of 2 pages failed.",
        "page   book/bad.ipynb (traceback in _build/reports/bad.txt)",
        "cell   # the cell",
        "error  ZeroDivisionError: division by zero",
    ]
    report = (top / "_build" / "reports" / "bad.txt").read_text()
    assert "before / 0" in report and "\x1b" not in report
    assert "Traceback" not in result.stdout + result.stderr
    assert not (top / "_build" / "html" / "bad.html").exists()


@pytest.mark.pages
def test_the_build_says_how_far_it_is_and_nothing_of_its_kernels(broken):
    _, result = broken
    assert "executing 2 pages" in result.stdout
    assert re.findall(r"page (\d) of 2: (?:good took|bad FAILED after) \d+ s", result.stdout) == ["1", "2"]
    assert "encryption" not in result.stdout + result.stderr


@pytest.mark.pages
def test_what_was_executed_before_the_failure_is_kept(broken):
    top, _ = broken
    write(top, good=["print('made once'); open('../made', 'a').write('x')"], bad=["1 / 1"])
    result = build(top)
    assert result.returncode == 0, result.stderr
    assert "executing 1 pages" in result.stdout
    assert (top / "made").read_text() == "x" and "made once" in shown(top, "good")


@pytest.mark.pages
def test_pages_load_nothing_from_elsewhere_and_follow_the_library(tmp_path):
    (tmp_path / "hypo").mkdir()
    (tmp_path / "hypo" / "core.py").write_text("VALUE = 'first'\n")
    threads = "import os; print('threads', os.environ['OMP_NUM_THREADS'])"
    show = f"import sys; sys.path.insert(0, {str(tmp_path / 'hypo')!r}); from core import VALUE; VALUE"
    write(tmp_path, page=[show, threads])
    result = build(tmp_path)
    assert result.returncode == 0, result.stderr
    html = shown(tmp_path, "page")
    assert "'first'" in html and "threads 1" in html
    loaded = re.findall(r'<(?:script|img|link rel="(?:stylesheet|preload|icon)")[^>]*?(?:src|href)="([^"]+)"', html)
    assert any("mathjax/tex-svg-full.js" in address for address in loaded)
    assert not [address for address in loaded if re.match(r"(https?:)?//", address)]

    page = tmp_path / "_build" / "html" / "page.html"
    written = page.stat().st_mtime_ns
    assert build(tmp_path).returncode == 0
    assert page.stat().st_mtime_ns == written, "nothing changed, nothing is made anew"

    source = tmp_path / "book" / "page.ipynb"
    source.write_text(source.read_text().replace("# Page page", "# Another title"))
    again = build(tmp_path)
    assert again.returncode == 0 and "executing" not in again.stdout, "prose is no reason to execute"
    assert "Another title" in shown(tmp_path, "page") and "'first'" in shown(tmp_path, "page")

    (tmp_path / "hypo" / "core.py").write_text("VALUE = 'second'\n")
    assert build(tmp_path).returncode == 0
    assert "'second'" in shown(tmp_path, "page")


@pytest.mark.pages
@pytest.mark.parametrize("forks", [True, False], ids=["forks", "no room for the socket of forks"])
def test_one_page_leaves_nothing_to_the_next(forks, tmp_path, monkeypatch):
    if not forks:
        (tmp_path / (40 * "long")).mkdir()
        monkeypatch.setenv("TMPDIR", str(tmp_path / (40 * "long")))
    look = "import os, sys; print('imported', 'hypo.report.claims' in sys.modules, 'in', os.path.basename(os.getcwd()))"
    look += "\nimport hypo; print('left', hasattr(hypo, 'left'), 'LEFT' in os.environ, 'threads', torch_threads())"
    define = "def torch_threads():\n    import torch\n    return torch.get_num_threads()"
    leave = "import os, hypo; hypo.left = 1; os.environ['LEFT'] = '1'"
    write(tmp_path, dies=["import os; os._exit(3)"], **{f"page{k}": [define, look, leave] for k in range(MANY)})
    result = build(tmp_path)
    assert result.returncode == 1
    said = result.stderr.strip().splitlines()
    assert said[-4] == f"The book is not built: 1 of {MANY + 1} pages failed." and "died" in said[-1].lower()
    for k in range(MANY):
        kept = (tmp_path / "_build" / "pages" / f"page{k}.json").read_text()
        assert f"imported {forks and sys.platform == 'linux'} in book" in kept
        assert "left False False threads 1" in kept


@pytest.mark.pages
@pytest.mark.parametrize(
    ("ending", "others"), [(signal.SIGKILL, 0), (signal.SIGKILL, MANY), (signal.SIGINT, MANY)], ids=str
)
def test_a_build_that_was_ended_leaves_no_kernel_and_can_be_repeated(ending, others, tmp_path):
    note = "import os, pathlib, time; pathlib.Path('../kernel').write_text(str(os.getpid()))"
    wait = "while not pathlib.Path('../go').exists(): time.sleep(0.05)"
    write(tmp_path, page=[note, wait, "print('all of it')"], **{f"other{k}": ["1"] for k in range(others)})
    listen = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731 - off in a shell's background
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(COMMAND, cwd=tmp_path, env=environment(), preexec_fn=listen, **silent)
    until(lambda: (tmp_path / "kernel").exists() and (tmp_path / "kernel").read_text())
    process.send_signal(ending)
    assert process.wait() != 0
    until(lambda: not alive(int((tmp_path / "kernel").read_text())))
    (tmp_path / "go").touch()
    result = build(tmp_path)
    assert result.returncode == 0, result.stderr
    assert "all of it" in shown(tmp_path, "page")


REAL = ("api.md", "embeddings.ipynb", "faults.ipynb", "intro.ipynb", "your_data.ipynb")
"""Pages with tables, figures, a projection with a seed, random tensors, a training and the library's own signatures."""
TIMES = re.compile(r"[\d,.]+(%| )(images/s|(s|min|h) of training| of all time)")


@pytest.mark.pages
@pytest.mark.slow
def test_a_book_built_twice_has_the_same_pages_but_for_times(tmp_path):
    first, second = tmp_path / "first", tmp_path / "at another place"
    first.mkdir()
    write(first, root=["print(sorted({*'abc'}))"])
    for name in REAL:
        shutil.copy(TOP / "book" / name, first / "book")
    chapters = "".join(f"- file: {Path(name).stem}\n" for name in REAL)
    (first / "book" / "_toc.yml").write_text(f"format: jb-book\nroot: root\nchapters:\n{chapters}")
    shutil.copytree(first, second)
    made = []
    for top in (first, second):
        result = build(top)
        assert result.returncode == 0, result.stderr
        site = top / "_build" / "html"
        assert {path.relative_to(site).name for path in site.glob("*.html")} >= {f"{Path(n).stem}.html" for n in REAL}
        made.append(
            {path.relative_to(site): TIMES.sub(r"\2", path.read_text()).splitlines() for path in site.rglob("*.html")}
        )
    assert made[0].keys() == made[1].keys()
    differences = [
        line for page, text in made[0].items() for line in difflib.unified_diff(text, made[1][page], str(page), n=0)
    ]
    assert not differences, "\n".join(differences)


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and is not yet waited for does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return bool(state.strip()) and not state.startswith("Z")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_notebooks_are_stored_bare(path):
    notebook = json.loads(path.read_text())
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
    tagged = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) <= 1
    for cell in tagged:
        for line in "".join(cell["source"]).splitlines():
            assert re.fullmatch(r"\w+ = [^()]+", line), f"parameters are literals only: {line}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)
def test_notebooks_import_hypo_before_anything_that_loads_openmp(path):
    cells = [cell["source"] for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    source = "\n".join("".join(lines) for lines in cells)
    imported = re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE)
    first = next((name for name in imported if name in ("hypo", *OPENMP)), "hypo")
    assert first == "hypo", f"{path.name} imports {first} first, so its threads spin: move that import to a later cell"
