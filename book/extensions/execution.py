"""Execute the pages side by side before Sphinx reads them, and keep what they showed until something behind it changes.

A page is executed again when its code, the library, the records or the packages changed (see `freshness`). What each
page showed is kept in _build/pages, one file per page, written whole or not at all, so a killed build can be repeated.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kernels
import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

AT_MOST = 4
"""Pages at a time: one for each core, but no more than this, since a page can take a gigabyte of memory."""
A_DAY = 24 * 3600
"""Seconds for what can only be slow on a busy machine: a kernel that starts, an output that arrives."""

logger = logging.getLogger(__name__)


@dataclass
class Page:
    """A notebook, the key of what it showed last, and how far its execution has come."""

    name: str
    path: Path
    notebook: NotebookNode
    key: str
    cell: NotebookNode | None = None
    outputs: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None


def prepare(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """Have the outputs of every notebook that is about to be read, executing those of which none are kept."""
    paths = {name: Path(env.doc2path(name)) for name in docnames}
    pages = [read(name, path, app.config.sources_digest) for name, path in paths.items() if path.suffix == ".ipynb"]
    kept = Path(app.outdir).parent / "pages"
    waiting = [page for page in pages if not restore(page, kept)]
    if waiting:
        in_a_thread(execute_all(waiting, kept))
    failed = [page for page in waiting if page.error]
    if failed:
        report(failed, len(pages), Path(app.outdir).parent / "reports")
        raise SystemExit(1)
    app.executed_pages = {page.name: page.outputs for page in pages}


def show(app: Sphinx, docname: str, source: list[str]) -> None:
    """Hand Sphinx the page with its outputs."""
    if docname in app.executed_pages:
        notebook = nbformat.reads(source[0], as_version=4)
        for cell, shown in zip(code_cells(notebook), app.executed_pages[docname], strict=True):
            cell.update(nbformat.from_dict(shown))
        source[0] = nbformat.writes(notebook)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def read(name: str, path: Path, sources: str) -> Page:
    """A page and its key; the prose between the cells is no part of it."""
    notebook = nbformat.read(path, as_version=4)
    cells = [(cell.source, cell.metadata.get("tags", [])) for cell in code_cells(notebook)]
    key = hashlib.sha256(json.dumps([sources, notebook.metadata.get("kernelspec"), cells]).encode()).hexdigest()
    return Page(name, path, notebook, key)


def restore(page: Page, kept: Path) -> bool:
    """Whether the page's outputs are kept; they are taken if so."""
    try:
        stored = json.loads((kept / f"{page.name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if stored["key"] == page.key:
        page.outputs = stored["outputs"]
    return stored["key"] == page.key


def keep(page: Page, kept: Path) -> None:
    """Write the page's outputs where `restore` finds them."""
    target = kept / f"{page.name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}.part")
    partial.write_text(json.dumps({"key": page.key, "outputs": page.outputs}), encoding="utf-8")
    partial.replace(target)


def in_a_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run it in a thread of its own, where nbclient cannot take Ctrl-C for itself: here it ends the build at once."""
    with ThreadPoolExecutor(1) as thread:
        try:
            thread.submit(asyncio.run, work).result()
        except KeyboardInterrupt:
            print("\nInterrupted; the pages that were executed are kept.", file=sys.stderr)
            os._exit(130)  # as after a kill, each kernel sees within a second that it is alone, and ends


async def execute_all(pages: list[Page], kept: Path) -> None:
    """Execute pages side by side, with a line for each as it ends; one that fails does not keep the others from it."""
    at_a_time = min(AT_MOST, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    manager = kernels.manager() if len(pages) > at_a_time else AsyncKernelManager
    logger.info("executing %d pages, %d at a time", len(pages), at_a_time)
    limit, ended = asyncio.Semaphore(at_a_time), 0

    async def one(page: Page) -> None:
        nonlocal ended
        async with limit:
            start = time.monotonic()
            await execute(page, manager)
        if not page.error:
            keep(page, kept)
        ended += 1
        how = "FAILED after" if page.error else "took"
        logger.info("page %d of %d: %s %s %.0f s", ended, len(pages), page.name, how, time.monotonic() - start)

    await asyncio.gather(*map(one, pages))


async def execute(page: Page, manager: type[AsyncKernelManager]) -> None:
    """Run the page's cells in a kernel of its own, with one thread and all the time they need."""

    def begin(cell: NotebookNode, cell_index: int) -> None:  # noqa: ARG001 - nbclient passes both by name
        page.cell = cell

    client = NotebookClient(
        page.notebook,
        kernel_manager_class=manager,
        timeout=None,
        startup_timeout=A_DAY,
        iopub_timeout=A_DAY,
        on_cell_execute=begin,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],  # its warnings are about the kernel, not about the page
        resources={"metadata": {"path": str(page.path.parent)}},
    )
    try:
        await client.async_execute(env=dict(os.environ))
    except (CellExecutionError, RuntimeError) as error:  # a cell failed, or the kernel died
        page.error = error
    page.outputs = [
        {"execution_count": cell.execution_count, "outputs": cell.outputs} for cell in code_cells(page.notebook)
    ]


def report(failed: list[Page], total: int, reports: Path) -> None:
    """Say what went wrong in three lines a page, and leave the tracebacks in files."""
    reports.mkdir(parents=True, exist_ok=True)
    lines = ["", f"The book is not built: {len(failed)} of {total} pages failed."]
    for page in failed:
        traceback = reports / f"{page.name}.txt"
        traceback.write_text(re.sub(r"\x1b\[[0-9;]*m", "", str(page.error)), encoding="utf-8")
        by_cell = isinstance(page.error, CellExecutionError)
        sentence = f"{page.error.ename}: {page.error.evalue}" if by_cell else str(page.error)
        lines += [
            f"page   {relative(page.path)} (traceback in {relative(traceback)})",
            f"cell   {first_line(page.cell.source if page.cell else 'none yet: the kernel did not start')}",
            f"error  {first_line(sentence)}",
        ]
    print("\n".join(lines), file=sys.stderr)


def relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def setup(app: Sphinx) -> dict[str, bool]:
    app.executed_pages = {}
    app.connect("env-before-read-docs", prepare)
    app.connect("source-read", show)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
