"""What README.md shows of the records: the finding, one figure, and the main claims. `make readme` runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from hypo.display import Html
from hypo.figures import Themed
from hypo.notebook.cells import by_domain
from hypo.report.claims import counted, finding, headlines, shared

TOP = Path(__file__).resolve().parents[2]
PICTURE = Path("book/assets/readme.svg")
BEGIN, END = "<!-- claims:begin -->", "<!-- claims:end -->"


def picture() -> Themed:
    """ERM and HYPO on each held-out domain of PACS, or of the digits where no run on PACS is recorded."""
    drawn = by_domain("pacs")
    return by_domain("digits") if isinstance(drawn, Html) else drawn


def on_white(svg: bytes) -> bytes:
    """A picture with a ground of its own, so that it can be read on pages of any colour."""
    return re.sub(rb"(<svg [^>]*>)", rb'\1<rect width="100%" height="100%" fill="#ffffff"/>', svg, count=1)


def section(alt: str, sentences: list[str], short: pd.DataFrame, counts: str) -> str:
    """What stands between the markers."""
    lines = [
        "## What came out",
        "",
        *sentences,
        "",
        f"![{alt}]({PICTURE.as_posix()})",
        "",
        "*Each marker is one run, each bar and number the mean over seeds.*",
        "",
        "| main claims of the paper | outcome | evidence |",
        "|---|---|---|",
        *(f"| [{r.claim}](book/{r.page}.ipynb) | {r.outcome} | {r.evidence} |" for r in short.itertuples()),
        "",
        counts,
        "Supported means that the 95% interval excludes zero on the claimed side.",
        "[The page of claims](book/claims.ipynb) has every one with its rule and records, computed from",
        "[data/claims.yml](data/claims.yml).",
    ]
    return "\n".join(lines)


def written(readme: str, between: str) -> str:
    """README.md with this between its markers."""
    if not (BEGIN in readme and END in readme.split(BEGIN)[1]):
        raise ValueError(f"README.md must hold {BEGIN} and, below it, {END}")
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{between}\n{END}", readme, flags=re.DOTALL)


def generate() -> dict[Path, bytes]:
    """File -> what it should hold, from the records as they are."""
    drawn = picture()
    between = section(drawn.alt, [*finding(), *filter(None, [shared()])], headlines(), counted())
    readme = written((TOP / "README.md").read_text(encoding="utf-8"), between)
    return {TOP / PICTURE: on_white(drawn.images["light"]), TOP / "README.md": readme.encode()}


if __name__ == "__main__":
    for path, content in generate().items():
        path.write_bytes(content)
