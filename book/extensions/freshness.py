"""Read, and so execute, every page again when the library or the data it is computed from has changed."""

import hashlib
from pathlib import Path

from sphinx.application import Sphinx

TOP = Path(__file__).resolve().parents[2]
SOURCES = (
    *(f"hypo/**/*.{kind}" for kind in ("py", "js", "css", "json")),
    "data/paper/**/*",
    "data/records/**/*",
    "data/*.yml",
    "data/*.json",
)


def digest() -> str:
    """One digest over the sources, names and contents."""
    total = hashlib.sha256()
    for path in sorted(p for pattern in SOURCES for p in TOP.glob(pattern) if p.is_file()):
        total.update(str(path.relative_to(TOP)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("sources_digest", digest(), rebuild="env")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
