"""What README.md shows of the records, made anew: one figure, and the claims in short. `make readme` runs it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hypo import runs
from hypo.data.benchmarks import REGISTRY
from hypo.figures import COLOURS, MARKERS, THEMES, Themed
from hypo.report.claims import headlines
from hypo.report.corruptions import METHODS
from hypo.report.text import words

TOP = Path(__file__).resolve().parents[2]
PICTURE = Path("book/assets/readme.svg")
BEGIN, END = "<!-- claims:begin -->", "<!-- claims:end -->"


def picture(folder: str | os.PathLike[str] | None = None) -> Themed:
    """OOD accuracy of ERM and HYPO on each held-out style of the digits: runs as dots, their means as bars."""
    frame = runs.load(folder, at_defaults=True, benchmark="digits", algorithm=[*METHODS])
    frame = frame[frame["held_out"] != ""]
    percent = 100 * frame["validation.ood_accuracy"].astype(float)
    cells = dict([*percent.groupby([frame["algorithm"].map(METHODS), frame["held_out"]])])
    styles = [style for style in REGISTRY["digits"].domains if any(style == at for _, at in cells)]

    def draw(figure: Figure, theme: str) -> None:
        figure.add_artist(Rectangle((0, 0), 1, 1, transform=figure.transFigure, color="white", zorder=-1))
        axes, ink, names = figure.subplots(), THEMES[theme]["ink"], [*METHODS.values()]
        for (name, style), accuracy in cells.items():
            index, mean = names.index(name), accuracy.mean()
            at = styles.index(style) + 0.36 * index - 0.18
            axes.scatter([at] * len(accuracy), accuracy, s=34, color=COLOURS[index], marker=MARKERS[index], alpha=0.7)
            axes.hlines(mean, at - 0.1, at + 0.1, color=ink, lw=2)
            axes.text(at + 0.12, mean, f"{mean:.0f}", va="center", fontsize=9)
        for index, name in enumerate(names):
            axes.scatter([], [], s=34, color=COLOURS[index], marker=MARKERS[index], label=name)
        axes.set_xticks(range(len(styles)), [words(style) for style in styles])
        axes.set(ylim=(0, 100), xlabel="style held out of training", ylabel="accuracy on it (%)")
        axes.legend(title="Digits, demo scale", loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)

    means = [f"{name} on {words(style)} {cell.mean():.0f}" for (name, style), cell in cells.items()]
    said = "; ".join(means) or "no run is recorded"
    return Themed(draw, f"Accuracy in percent on held-out styles of the digits, mean over seeds: {said}.", (6.4, 3.6))


def section(alt: str, short: pd.DataFrame, counts: dict[str, int]) -> str:
    """What stands between the markers."""
    total = sum(counts.values())
    lines = [
        f"![{alt}]({PICTURE.as_posix()})",
        "",
        "*Each marker is a run on the embedded digits, each bar and number a mean over seeds.*",
        "",
        "## The paper's claims, in short",
        "",
        f"We found {total} claims in the paper: {', '.join(f'{n} {outcome}' for outcome, n in counts.items())}.",
        "A claim is supported when the 95% interval (Student's t, over runs that share held-out domain and seed)",
        "excludes zero on the claimed side, contradicted when it does so on the other side, inconclusive when it",
        "includes zero. Only the paper's own benchmarks decide; [the page of claims](book/claims.ipynb) lists all of",
        "them with their rules, the evidence at each scale, and what the same rules say about the digits. It is",
        "computed from [data/claims.yml](data/claims.yml) and the records.",
        "",
        "| claim | outcome | evidence | more |",
        "|---|---|---|---|",
    ]
    rows = [f"| {r.claim} | {r.outcome} | {r.evidence} | [{r.page}](book/{r.page}.ipynb) |" for r in short.itertuples()]
    return "\n".join([*lines, *rows])


def written(readme: str, between: str) -> str:
    """README.md with this between its markers."""
    if not (BEGIN in readme and END in readme.split(BEGIN)[1]):
        raise ValueError(f"README.md must hold {BEGIN} and, below it, {END}")
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{between}\n{END}", readme, flags=re.DOTALL)


def generate() -> dict[Path, bytes]:
    """File -> what it should hold, from the records as they are."""
    drawn = picture()
    readme = written((TOP / "README.md").read_text(encoding="utf-8"), section(drawn.alt, *headlines()))
    return {TOP / PICTURE: drawn.images["light"], TOP / "README.md": readme.encode()}


if __name__ == "__main__":
    for path, content in generate().items():
        path.write_bytes(content)
