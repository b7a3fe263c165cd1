"""Cells that several pages share: one run in detail, accuracy under corruptions, the claims of a page."""

from __future__ import annotations

import shlex

import pandas as pd
from IPython.display import display

from hypo import runs
from hypo.data.benchmarks import REGISTRY
from hypo.data.imageset import ImageSet
from hypo.display import Html, show
from hypo.figures import Themed
from hypo.figures import results as figures
from hypo.figures.data import beside, captioned
from hypo.notebook.page import Page
from hypo.report import claims, corruptions, text
from hypo.report import run as report
from hypo.report.corruptions import METHODS
from hypo.runs import Origins


def one_run(page: Page) -> None:
    """A section on a page's run: its card, which class was taken for which, the most confident mistakes of each class.

    Where there is no run and none can be made, there is no section.
    """
    if not page.ready:
        return
    notebook = "cifar10c" if page.benchmark == "cifar10" else page.benchmark if page.benchmark in REGISTRY else "pacs"
    choice = {"held_out": page.config.held_out} if page.config.held_out else {"algorithm": "erm"}
    if page.config.benchmark not in REGISTRY:
        choice = {"benchmark": f"path/to/{page.benchmark.removeprefix('./')}"} | choice
    choice |= page.overrides
    words = " ".join(f"-p {name} {shlex.quote(text.value_of(value))}" for name, value in choice.items())
    told = (
        f"`papermill book/{notebook}.ipynb {words}` makes this page for other parameters. A run that is recorded "
        "is loaded, any other is trained. The result is the epoch chosen on validation images of the training domains. "
        "The oracle, chosen by looking at test images, shows what that choice costs and is used nowhere else."
    )
    for part in (_heading("One run in detail"), show(told), page):
        display(part)
    run = page.run()
    display(show(report.result(run)))
    outcome = report.outcomes(run)
    if outcome is None:
        display(show(report.without_embeddings(run)))
        return
    display(figures.confusion_matrix(report.confusion(outcome, run["classes"]), text.place(run), [run["origins"]]))
    display(show(report.class_errors(run, outcome)))
    wrong, images = report.mistakes(run, outcome), page.images()
    if images is None or images.fingerprint != run["fingerprint"]:
        name = run["benchmark"]
        display(show(f"To see mistakes, fetch the images of {text.data(name)}: `hypo data {name}`."))
    elif len(wrong):
        alt = f"The most confidently wrong images of each class on {text.place(run)}, under what they were taken for."
        shown = images.images[wrong["index"]], [*wrong["class"]], [*wrong["prediction"]]
        display(captioned(*shown, "mistakes", alt, wrong, [run["origins"]]))


def by_domain(benchmark: str) -> Themed | Html:
    """ERM and HYPO at the defaults on each held-out domain, each run a dot, at the largest scale; or nothing."""
    frame = runs.load(at_defaults=True, benchmark=benchmark, algorithm=[*METHODS])
    frame = frame[frame["held_out"] != ""]
    if frame.empty:
        return Html("")
    scale = next(each for each in ("paper", "cpu", "demo") if each in {*frame["scale"]})
    every = runs.accuracies(frame[frame["scale"] == scale])
    order = {name: place for place, name in enumerate(frame["domains"].iloc[0])}
    every = every.assign(method=every["algorithm"].map(METHODS)).sort_values("held_out", key=lambda c: c.map(order))
    return figures.dots(every, "method", f"{text.data(benchmark)}, {scale} scale", f"{benchmark}-by-domain")


def corruption_bars(benchmark: str, columns: list[str] | None = None) -> Themed | Html:
    """Figures 2 and 6: ERM and HYPO under each corruption, or in these columns; the paper's numbers and ours."""
    every = corruptions.single(benchmark)
    every = every[every["column"].isin(columns) if columns else every["column"] != "clean"]
    return figures.bars(every, benchmark, "by-corruption") if len(every) else _none(benchmark)


def severities(benchmark: str) -> Themed | Html:
    """Accuracy by severity, the mean over corruptions: each of our runs a dot."""
    every = corruptions.single(benchmark, by_severity=True).query("severity > 0")
    means = every.groupby(["source", "method", "severity", "origins"], sort=False)["value"].mean().reset_index()
    what = text.data(benchmark)
    return figures.dots(means, "method", what, "by-severity", "severity") if len(means) else _none(benchmark)


def by_severity(benchmark: str) -> None:
    """A section with `severities`; none where nothing was run."""
    if len(corruptions.single(benchmark, by_severity=True).query("severity > 0")):
        told = "The paper gives one number per corruption. Here are ours by severity, averaged over all 19 corruptions:"
        for part in (_heading("Accuracy by severity"), show(told), severities(benchmark)):
            display(part)


def hard_pairs(
    near: pd.DataFrame, images: ImageSet | None, by: str, name: str, caption: str, records: list[Origins]
) -> Themed | Html:
    """Pairs of `hypo.report.geometry.closest_pairs`: their images in rows by the column `by`; else a table."""
    if images is None:
        names = {"class_a": "class", "class_b": "nearest other class", "held_out": "held out"}
        listed = near[[*dict.fromkeys([by, "domain"]), "class_a", "class_b", "cosine"]]
        listed = listed.assign(**{column: listed[column].map(text.words) for column in {by, "domain"}})
        about = f"{caption} With the images here (`hypo data pacs`) the page shows them."
        return show(listed.rename(columns=names), name, about, records=records, decimals=2, numbers=near)
    both = beside(images.images[near[["index_a", "index_b"]].to_numpy()])
    captions = [f"{pair.class_a} | {pair.class_b}\n{pair.cosine:.2f}" for pair in near.itertuples()]
    return captioned(both, [*near[by]], captions, name, caption, near, records)


def _heading(title: str) -> Html:
    return Html(f'<h2 id="{title.lower().replace(" ", "-")}">{title}</h2>')


def _none(benchmark: str) -> Html:
    return show(f"No run on corruptions of {text.data(benchmark)} is recorded.")


def claims_of(page: str) -> Html:
    """The claims of a page and what the records say of them."""
    return show(claims.of_page(page))
