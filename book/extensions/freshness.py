"""Read every page again, and execute it, when the library, its packages or the data it is computed from changed."""

import hashlib
from pathlib import Path

from sphinx.application import Sphinx

TOP = Path(__file__).resolve().parents[2]
SOURCES = ("hypo/**/*", "data/paper/**/*", "data/records/**/*", "data/*.yml", "data/*.json", "constraints.txt")


def digest() -> str:
    """One digest over the sources, names and contents."""
    total = hashlib.sha256()
    found = sorted(
        p for pattern in SOURCES for p in TOP.glob(pattern) if p.is_file() and p.parent.name != "__pycache__"
    )
    for path in found:
        total.update(str(path.relative_to(TOP)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("sources_digest", digest(), rebuild="env")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
