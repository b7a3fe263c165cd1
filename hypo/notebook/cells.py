"""Cells that several pages share: a run's mistakes, accuracy under corruptions, the claims of a page."""

from __future__ import annotations

from typing import Any

from IPython.display import display

from hypo.data.imageset import ImageSet
from hypo.display import Html, show
from hypo.figures import Themed
from hypo.figures import results as figures
from hypo.report import claims, corruptions, text
from hypo.report import run as report


def confusion_matrix(run: Any) -> Themed | Html:
    """Which class was taken for which, or what is needed to tell."""
    outcome = report.outcomes(run)
    if outcome is None:
        return show(report.without_embeddings(run))
    return figures.confusion_matrix(report.confusion(outcome, run["classes"]), text.place(run), [run["file"]])


def wrong_images(run: Any, images: ImageSet | None) -> figures.Gallery | Html:
    """The most confidently wrong test images of each class, under what they were taken for.

    images  the benchmark as it was trained on; None where it is not on this machine
    """
    outcome = report.outcomes(run)
    if outcome is None:
        return show(report.without_embeddings(run))
    if images is None or images.fingerprint != run["fingerprint"]:
        name = run["benchmark"]
        return show(f"The images of {text.data(name)} are needed to show them: `hypo data {name}` fetches them.")
    wrong = report.mistakes(run, outcome)
    return figures.Gallery(wrong, images.images[wrong["index"]], [run["file"]])


def corruption_bars(benchmark: str) -> Themed | Html:
    """Figure 2: ERM and HYPO under each corruption; the paper's numbers, on CIFAR-10, and ours."""
    found = corruptions.by_corruption(benchmark)
    return _bars(found, benchmark, "by-corruption", "under each corruption")


def clean_and_noisy(benchmark: str) -> Themed | Html:
    """Figure 6: ERM and HYPO on clean test images and under Gaussian noise; ours, since the paper prints no number."""
    return _bars(corruptions.clean_and_noisy(benchmark), benchmark, "clean-and-noisy", "clean and under Gaussian noise")


def _bars(found: Any, benchmark: str, name: str, tests: str) -> Themed | Html:
    return figures.bars(found, benchmark, name, tests) if len(found) else _none(benchmark)


def severities(benchmark: str) -> Themed | Html:
    """Accuracy by severity, the mean over corruptions: our runs."""
    found = corruptions.by_severity(benchmark)
    return figures.severities(found, benchmark) if len(found) else _none(benchmark)


def _none(benchmark: str) -> Html:
    return show(f"No run on corruptions of {text.data(benchmark)} is recorded.")


def claims_of(page: str) -> None:
    """Show the claims of a page on the paper's own benchmarks, and their rules applied to the digits where possible."""
    display(show(claims.of_page(page)))
    on_digits = claims.on_digits(page)
    if len(on_digits.frame):
        display(show(on_digits))
