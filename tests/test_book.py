"""The book's set-up, tried on books of one page: the real pages are built by `make book`."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

TOP = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((TOP / "book").glob("*.ipynb"))


def build(top: Path, *cells: nbformat.NotebookNode) -> subprocess.CompletedProcess:
    """Build a book of one notebook at `top` with the real configuration."""
    shutil.copy(TOP / "_config.yml", top)
    for part in ("assets", "extensions"):
        shutil.copytree(TOP / "book" / part, top / "book" / part, dirs_exist_ok=True)
    (top / "book" / "_toc.yml").write_text("format: jb-book\nroot: page\n")
    notebook = nbformat.v4.new_notebook(
        cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    )
    nbformat.write(notebook, top / "book" / "page.ipynb")
    return rebuild(top)


def rebuild(top: Path) -> subprocess.CompletedProcess:
    command = [Path(sys.executable).with_name("jupyter-book"), "build", "book/"]
    return subprocess.run(command, cwd=top, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})


def test_a_broken_cell_fails_the_build(tmp_path):
    result = build(tmp_path, nbformat.v4.new_markdown_cell("# Page"), nbformat.v4.new_code_cell("1 / 0"))
    assert result.returncode != 0
    assert "ZeroDivisionError" in result.stdout + result.stderr


def test_pages_load_nothing_from_elsewhere_and_follow_the_library(tmp_path):
    (tmp_path / "hypo").mkdir()
    (tmp_path / "hypo" / "core.py").write_text("VALUE = 'first'\n")
    show = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from hypo.core import VALUE; VALUE"
    math = nbformat.v4.new_markdown_cell("# Page\n\n$$\\boldsymbol\\mu$$")
    assert build(tmp_path, math, nbformat.v4.new_code_cell(show)).returncode == 0
    page = tmp_path / "_build" / "html" / "page.html"
    html = page.read_text()
    assert "'first'" in html.replace("&#39;", "'")
    loaded = re.findall(r'<(?:script|img|link rel="(?:stylesheet|preload|icon)")[^>]*?(?:src|href)="([^"]+)"', html)
    assert any("mathjax/tex-svg-full.js" in address for address in loaded)
    assert not [address for address in loaded if re.match(r"(https?:)?//", address)]

    written = page.stat().st_mtime_ns
    assert rebuild(tmp_path).returncode == 0
    assert page.stat().st_mtime_ns == written
    (tmp_path / "hypo" / "core.py").write_text("VALUE = 'second'\n")
    assert rebuild(tmp_path).returncode == 0
    assert "'second'" in page.read_text().replace("&#39;", "'")


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
