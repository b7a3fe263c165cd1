"""Which held-out domains a page shows, read from the CSVs behind its figures and tables."""

from __future__ import annotations

import base64
import io
import re

import pandas as pd

BY_DOMAIN = {
    "embeddings": ("umap", "neighbours-by-domain"),
    "variation": ("variation", "variation-by-domain"),
    "bound": ("bound-by-domain",),
    "ablations": ("hard-pairs-by-domain", "hard-negatives-by-domain"),
}
"""Page -> its figures and tables that are of every held-out domain; a figure has one CSV for each, <name>-<domain>."""


def domains_shown(html: str, name: str) -> list[str]:
    """The held-out domains in <name>.csv and in every <name>-<domain>.csv of a page, in its order."""
    files = re.findall(rf'download="{name}(?:-\w+)?\.csv" href="data:text/csv;base64,([^"]+)"', html)
    frames = [pd.read_csv(io.BytesIO(base64.b64decode(file))) for file in files]
    return [*dict.fromkeys(domain for frame in frames if "held_out" in frame for domain in frame["held_out"])]
