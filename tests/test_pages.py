"""Notebooks run as a reader runs them: through papermill, with parameters of their own, in another folder.

With the parameters they are stored with, `make book` executes them, and tests/test_site.py walks what it built.
"""

import ast
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import papermill
import pytest
import yaml
from held_out import BY_DOMAIN, domains_shown
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync
from made import PACS
from own_folder import QUICK, folder_of
from papermill.exceptions import PapermillExecutionError

from hypo.config import settings
from hypo.paper import NUMBERS
from hypo.report.text import PAGES as TITLES

BOOK = Path(__file__).resolve().parents[1] / "book"
PAGES = sorted(BOOK.glob("*.ipynb"))
OTHERS = {"scale": "demo", "epochs": 1, "seed": 1, "algorithm": "erm", "dim": 2, "temperature": 0.2, "momentum": 0.5}
"""What is given to a page that has the parameter."""
OF_ITS_OWN = {
    "pacs": {"held_out": "sketch", "seed": 0},
    "cifar10c": {"seed": 0},
    "office_home": {"held_out": "clipart", "scale": None},
    "vlcs": {"held_out": "VOC2007", "scale": None},
    "terra_incognita": {"held_out": "location_38", "scale": None},
    "imagenet100": {"scale": None},
    "swad": {"algorithm": "hypo", "held_out": "sketch", "seed": 0},
    **{page: {"held_out": "sketch", "seed": 0} for page in ("bound", "embeddings", "variation")},
}
"""What is given to one page: of these the runs are on record, so that nothing is trained."""
A_DAY = 24 * 3600


def parameters(page: Path) -> dict[str, object]:
    """The page's parameters and the values it is stored with."""
    cells = [c for c in nbformat.read(page, as_version=4).cells if "parameters" in c.metadata.get("tags", [])]
    assert len(cells) <= 1
    nodes = [node for cell in cells for node in ast.parse(cell.source).body]
    return {node.targets[0].id: ast.literal_eval(node.value) for node in nodes}


def others(page: Path) -> dict[str, object]:
    """Other values for the page's parameters, as many as there are."""
    given = OTHERS | OF_ITS_OWN.get(page.stem, {})
    return {name: given[name] for name, stored in parameters(page).items() if given.get(name, stored) != stored}


@pytest.fixture(scope="module")
def kernel() -> Iterator[AsyncKernelManager]:
    """One kernel for all pages of this file: most of a page's time would be its imports."""
    manager, clients = AsyncKernelManager(kernel_name="python3"), []
    connect = manager.client
    manager.client = lambda: clients.append(connect()) or clients[-1]
    run_sync(manager.start_kernel)()
    yield manager
    for client in clients:
        client.stop_channels()
    run_sync(manager.shutdown_kernel)(now=True)


@pytest.fixture
def execute(kernel, tmp_path) -> Callable[..., nbformat.NotebookNode]:
    """`execute(page, **parameters)`: papermill, in a kernel that forgot the names of the page before. Runs that a page
    makes are of this test only; it reads a copy of the records, and no data but the digits."""
    places = {f"HYPO_{name.upper()}": str(tmp_path / name) for name in ("records", "runs", "data")}
    forget = f"%reset -f\nimport os\nos.environ |= {places}\nos.chdir({str(tmp_path)!r})"

    def run(page: Path, **given: object) -> nbformat.NotebookNode:
        notebook = nbformat.read(page, as_version=4)
        notebook.cells.insert(0, nbformat.v4.new_code_cell(forget))
        patient = {"start_timeout": A_DAY, "iopub_timeout": A_DAY, "km": kernel}
        return papermill.execute_notebook(notebook, tmp_path / page.name, given, progress_bar=False, **patient)

    return run


def test_the_table_of_contents_names_every_page():
    contents = yaml.safe_load((BOOK / "_toc.yml").read_text())
    chapters = [*contents.get("chapters", []), *(c for part in contents.get("parts", []) for c in part["chapters"])]
    listed = {contents["root"], *(chapter["file"] for chapter in chapters)}
    assert listed == {path.stem for path in [*PAGES, *BOOK.glob("*.md")]}


def test_pages_that_are_named_have_these_titles():
    for page, title in TITLES.items():
        first = nbformat.read(BOOK / f"{page}.ipynb", as_version=4).cells[0].source.partition("\n")[0]
        assert re.fullmatch(rf"# {title}( \(Figure \d\))?", first)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_parameters_are_settings_of_hypo(page):
    assert set(parameters(page)) <= set(settings("hypo"))


@pytest.mark.parametrize("page", [*PAGES, *BOOK.glob("*.md")], ids=lambda page: page.stem)
def test_a_page_names_tables_and_figures_by_their_numbers(page):
    text = page.read_text()
    assert not re.search(r"(Tab|Fig)\. [a-z]", text)
    if page.suffix == ".ipynb":
        text = "\n".join(cell.source for cell in nbformat.read(page, 4).cells if cell.cell_type == "markdown")
    words = {"all", "pacs", "vlcs", "umap", "alpha", "tau", "cifar10c", "terra", "hard-negative"}  # words of their own
    assert not [label for label in set(NUMBERS) - words if re.search(rf"(?<![\w-]){label}(?![\w-])", text)]


@pytest.mark.pages
@pytest.mark.parametrize("page", [page for page in PAGES if others(page)], ids=lambda page: page.stem)
def test_a_page_runs_with_other_parameters(page, execute, tmp_path):
    shutil.copytree(BOOK.parent / "data" / "records", tmp_path / "records")
    before = {path: path.read_bytes() for path in (tmp_path / "records").iterdir()}
    made = execute(page, **others(page))
    after = {path: path.read_bytes() for path in before if path.exists()}
    assert after == before, "a page may train what is not recorded, and leaves the records that are there as they are"
    html = "".join(output.get("data", {}).get("text/html", "") for c in made.cells for output in c.get("outputs", []))
    for name in BY_DOMAIN.get(page.stem, ()):
        first, *rest = domains_shown(html, name)
        assert first == others(page).get("held_out", "cartoon") and {first, *rest} == {*PACS}, name


@pytest.mark.pages
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"held_out": "carton"}, "unknown held_out domain of pacs 'carton': did you mean cartoon?"),
        ({"held_ot": "cartoon"}, "unknown parameter 'held_ot': did you mean held_out?"),
    ],
)
def test_a_bad_parameter_ends_a_page_with_one_sentence(given, sentence, execute):
    with pytest.raises(PapermillExecutionError) as error:
        execute(BOOK / "pacs.ipynb", **given)
    (line,) = error.value.traceback
    assert line.startswith(f"ParameterError: {sentence}") and "\n" not in line


@pytest.mark.pages
def test_the_page_of_a_benchmark_runs_on_a_folder_of_the_readers(execute, tmp_path):
    folder = folder_of(tmp_path / "my images")
    made = execute(BOOK / "pacs.ipynb", benchmark=str(folder), algorithm="erm", **QUICK)
    shown = "".join(str(output.get("data", "")) for cell in made.cells for output in cell.get("outputs", []))
    assert "my images has no domain cartoon; its first, indoors, is held out" in shown
    assert "OOD accuracy in % on my images, by held-out domain" in shown and "not of PACS" not in shown
