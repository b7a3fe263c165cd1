"""The API page: docstrings as they are written, and one argument a line where a signature is long.

A paragraph with columns or indented lines is kept as it is; the others are prose.
"""

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

LINE = 40
"""Characters of a signature beyond which it is broken: what fits on a phone."""


def break_signatures(_app: Sphinx, config: Config) -> None:
    config.python_maximum_signature_line_length = LINE


def keep_columns(_app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    text = "\n".join(lines).strip("\n")
    lines.clear()
    for paragraph in text.split("\n\n"):
        columns = re.search(r"^ |\S {2,}\S", paragraph, re.MULTILINE)
        body = paragraph.splitlines()
        lines += [".. code-block:: text", "", *(f"    {line}" for line in body)] if columns else map(_prose, body)
        lines.append("")


def _prose(line: str) -> str:
    """Escape what is markup in reStructuredText, and make `names` literals."""
    parts = re.split(r"(`[^`]+`)", line)
    return "".join(f"`{part}`" if part.startswith("`") else re.sub(r"([\\*|_])", r"\\\1", part) for part in parts)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", break_signatures)
    app.connect("autodoc-process-docstring", keep_columns, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
