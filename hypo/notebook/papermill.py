"""`papermill book/pacs.ipynb -p held_out cartoon`, with no output path: the executed page goes to _runs/.

Its name has the parameters in it, pacs-held_out=cartoon.ipynb. It is <name>.running.ipynb until it is whole, and
<name>.failed.ipynb when it broke off, so that a page of that name stays as it was.

papermill imports this module, an entry point, before it reads its arguments; so it must stay small.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import re
import sys
from pathlib import Path

PAIRS = ("-p", "--parameters", "-r", "--parameters_raw")
MORE = ("-f", "--parameters_file", "-y", "--parameters_yaml", "-b", "--parameters_base64")
RUNNING, FAILED = ".running.ipynb", ".failed.ipynb"
LONGEST = 200
"""Bytes of a page's name before its ending; a file system takes 255 in all."""
FLAGS = [
    "-h",
    "--help",
    "--version",
    "--help-notebook",
    "--inject-input-path",
    "--inject-output-path",
    "--inject-paths",
    "--prepare-only",
    "--prepare-execute",
    "--request-save-on-cell-execute",
    "--progress-bar",
    "--log-output",
    "--report-mode",
]


def with_output(arguments: list[str]) -> list[str]:
    """papermill's arguments. A page of a book gets the engine whose kernel is quiet, and, if none is given, an output
    path."""
    places, values, at = [], [], 0
    while at < len(arguments):
        word = arguments[at]
        if word in PAIRS:
            values.append("=".join(map(_slug, arguments[at + 1 : at + 3])))
            at += 3
        elif word == "-" or not word.startswith("-"):
            places.append(at)
            at += 1
        else:
            flag = "=" in word or word.replace("--no-", "--", 1) in FLAGS
            if word.partition("=")[0] in MORE:
                values.append(_slug(word.partition("=")[2] if flag else "".join(arguments[at + 1 : at + 2])))
            at += 1 if flag else 2
    if not places or "--help-notebook" in arguments:
        return arguments
    page = Path(arguments[places[0]])
    if page.suffix != ".ipynb" or not page.is_file() or not (page.parent / "_toc.yml").is_file():
        return arguments
    if not any(word.startswith("--engine") for word in arguments):
        arguments = [*arguments, "--engine", "hypo"]
    if len(places) > 1:
        return arguments
    name = "-".join([page.stem, *values])
    if len(name.encode()) > LONGEST:
        name = f"{name.encode()[: LONGEST - 7].decode(errors='ignore')}_{_digest(name)}"
    output = page.resolve().parents[1] / "_runs" / (name + RUNNING)
    output.parent.mkdir(exist_ok=True)
    shown = output.relative_to(Path.cwd()) if output.is_relative_to(Path.cwd()) else output
    return [*arguments[: places[0] + 1], str(shown), *arguments[places[0] + 1 :]]


def _slug(value: str) -> str:
    """Text for a file's name; with a digest where something is lost, so that two values never share a name."""
    kept = re.sub(r"[^\w.]+", "_", value)[-40:]
    return kept if kept == value else f"{kept}_{_digest(value)}"


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode(errors="surrogateescape")).hexdigest()[:6]


def finish(running: Path) -> Path | None:
    """Give an executed page its name, <name>.failed.ipynb if it broke off; None where there is no page."""
    if not running.is_file():
        return None
    state = json.loads(running.read_bytes())["metadata"].get("papermill", {})
    broken = state.get("exception") or (state.get("start_time") and not state.get("end_time"))
    return running.replace(running.with_name(running.name.removesuffix(RUNNING) + (FAILED if broken else ".ipynb")))


def _finish(running: Path) -> None:
    if page := finish(running):
        print(f"The page is {page}", file=sys.stderr)


class Refused:
    """The handler that papermill wants from an entry point; no path begins with its name, so it is never called."""


if "papermill" in Path(sys.argv[0]).parts[-2:] or Path(sys.argv[0]).stem == "papermill":
    sys.argv[1:] = with_output(sys.argv[1:])
    for word in sys.argv[1:]:
        if word.endswith(RUNNING):
            Path(word).unlink(missing_ok=True)  # of a page that was killed
            atexit.register(_finish, Path(word).absolute())
