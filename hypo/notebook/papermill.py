"""`papermill book/pacs.ipynb -p held_out cartoon`, with no output path: the executed page goes to _runs/.

papermill imports this module, an entry point, before it reads its arguments; so it must stay small.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PAIRS = ("-p", "--parameters", "-r", "--parameters_raw")
FLAGS = (
    *("-h", "--help", "--version", "--help-notebook", "--inject-input-path", "--inject-output-path", "--inject-paths"),
    *("--prepare-only", "--prepare-execute", "--request-save-on-cell-execute", "--progress-bar", "--log-output"),
    "--report-mode",
)


def with_output(arguments: list[str]) -> list[str]:
    """papermill's arguments, with an output path after the notebook when that is a page of a book and none is given."""
    places, values, at = [], [], 0
    while at < len(arguments):
        word = arguments[at]
        if word in PAIRS:
            values += arguments[at + 2 : at + 3]
            at += 3
        elif word == "-" or not word.startswith("-"):
            places.append(at)
            at += 1
        else:
            flag = "=" in word or word.replace("--no-", "--", 1) in FLAGS
            at += 1 if flag else 2
    if len(places) != 1 or "--help-notebook" in arguments:
        return arguments
    page = Path(arguments[places[0]])
    if page.suffix != ".ipynb" or not page.is_file() or not (page.parent / "_toc.yml").is_file():
        return arguments
    output = page.resolve().parents[1] / "_runs" / ("-".join([page.stem, *map(_slug, values)]) + ".ipynb")
    output.parent.mkdir(exist_ok=True)
    shown = output.relative_to(Path.cwd()) if output.is_relative_to(Path.cwd()) else output
    return [*arguments[: places[0] + 1], str(shown), *arguments[places[0] + 1 :]]


def _slug(value: str) -> str:
    return re.sub(r"[^\w.]+", "_", value)


class Refused:
    """The handler that papermill wants from an entry point; no path begins with its name, so it is never called."""


if "papermill" in Path(sys.argv[0]).parts[-2:] or Path(sys.argv[0]).stem == "papermill":
    sys.argv[1:] = with_output(sys.argv[1:])
