"""Cells that several pages share: one run in detail, accuracy under corruptions, the claims of a page."""

from __future__ import annotations

from IPython.display import display

from hypo import runs
from hypo.display import Html, show
from hypo.figures import Themed
from hypo.figures import results as figures
from hypo.figures.data import captioned
from hypo.notebook.page import Page
from hypo.report import claims, corruptions, text
from hypo.report import run as report
from hypo.report.corruptions import METHODS


def one_run(page: Page) -> None:
    """Show a page's run: its card, which class was taken for which, and the most confident mistakes of each class."""
    if not page.ready:
        display(show(f"`{text.command(page.config.fields())}` makes a run once the images are here."))
        return
    run = page.run()
    display(show(report.result(run)))
    outcome = report.outcomes(run)
    if outcome is None:
        display(show(report.without_embeddings(run)))
        return
    display(figures.confusion_matrix(report.confusion(outcome, run["classes"]), text.place(run), [run["file"]]))
    display(show(report.class_errors(run, outcome)))
    wrong, images = report.mistakes(run, outcome), page.images()
    if images is None or images.fingerprint != run["fingerprint"]:
        name = run["benchmark"]
        display(show(f"To see mistakes, fetch the images of {text.data(name)}: `hypo data {name}`."))
    elif len(wrong):
        alt = f"The most confidently wrong images of each class on {text.place(run)}, under what they were taken for."
        shown = images.images[wrong["index"]], [*wrong["class"]], [*wrong["prediction"]]
        display(captioned(*shown, "mistakes", alt, wrong, [run["file"]]))


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
    every = corruptions.single(benchmark).query("severity > 0")
    means = every.groupby(["source", "method", "severity", "files"], sort=False)["value"].mean().reset_index()
    what = text.data(benchmark)
    return figures.dots(means, "method", what, "by-severity", "severity") if len(means) else _none(benchmark)


def _none(benchmark: str) -> Html:
    return show(f"No run on corruptions of {text.data(benchmark)} is recorded.")


def claims_of(page: str) -> Html:
    """The claims of a page and what the records say of them."""
    return show(claims.of_page(page))
