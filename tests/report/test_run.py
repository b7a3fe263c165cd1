"""What the pages of the benchmarks show of one run, by counting again; their figures; what a run costs."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made import run
from test_display import saved

from hypo import records, runs
from hypo.cli import _parser
from hypo.config import configure
from hypo.data.imageset import ImageSet
from hypo.figures.results import confusion_matrix
from hypo.notebook import cells
from hypo.notebook.page import begin
from hypo.report import cost
from hypo.report import run as report
from hypo.report.text import duration
from hypo.runs import Origin

BOOK = Path(__file__).resolve().parents[2] / "book"
PAGES = ["pacs", "office_home", "vlcs", "terra_incognita", "cifar10c", "imagenet100", "summary"]

# One run: four images of a dog or a house on the circle, prototypes at 0 and 90 degrees.

DEGREES = np.array([10, 80, 60, 70])
LABELS = np.array([0, 0, 0, 1])
PREDICTIONS = np.array([0, 1, 1, 1])


def at(degrees: np.ndarray) -> np.ndarray:
    return np.c_[np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))]


def kept(folder: Path, embeddings: bool = True, **changed) -> pd.Series:
    """A run written with the arrays above; None takes one away."""
    stored = {"prototypes": at(np.array([0, 90]))}
    outside = {"z": at(DEGREES), "y": LABELS, "prediction": PREDICTIONS, "index": np.array([3, 0, 2, 1])}
    inside = {"z": at(np.array([-20, 20, 70, 110])), "y": np.array([0, 0, 1, 1]), "prediction": np.zeros(4, int)}
    inside |= {"index": np.arange(4)}
    for part, arrays in (("id_test", inside), ("ood_test", outside)):
        stored |= {f"{part}_{name}": value for name, value in (arrays | {"domain": np.zeros(4, int)}).items()}
    stored = {name: array for name, array in (stored | changed).items() if array is not None}
    run(folder, embeddings=stored if embeddings else None)
    return runs.load(folder).iloc[0]


def four_images(fingerprint: str) -> ImageSet:
    pixels = np.repeat(np.arange(4, dtype=np.uint8), 32 * 32 * 3).reshape(4, 32, 32, 3)
    zeros = np.zeros(4, np.int64)
    return ImageSet("pacs", pixels, zeros, zeros, ("dog", "house"), ("cartoon",), fingerprint)


def test_the_margin_is_how_much_nearer_the_wrong_prototype_is(tmp_path):
    outcome = report.outcomes(kept(tmp_path))
    assert outcome["index"].tolist() == [3, 0, 2, 1]
    radians = np.deg2rad(DEGREES)
    expected = np.where(LABELS == PREDICTIONS, 0, np.sin(radians) - np.cos(radians))
    np.testing.assert_allclose(outcome["margin"], expected, atol=2e-3)  # kept in float16


def test_without_prototypes_the_class_means_of_the_in_distribution_images_serve(tmp_path):
    with_means = report.outcomes(kept(tmp_path / "means", prototypes=None))
    given = report.outcomes(kept(tmp_path / "given"))
    np.testing.assert_allclose(with_means["margin"], given["margin"], atol=2e-3)


def test_the_confusion_matrix_counts_every_image_and_is_the_csv_of_its_figure(tmp_path):
    own = kept(tmp_path)
    counts = report.confusion(report.outcomes(own), ("dog", "house"))
    assert counts.to_numpy().tolist() == [[1, 2], [0, 1]]
    figure = confusion_matrix(counts, "cartoons", [own["origins"]])
    shown = saved(figure.source).set_index("class")
    assert shown.to_numpy().tolist() == counts.to_numpy().tolist()
    assert "50.0% right" in figure.alt and "dog is taken for house, 2 times" in figure.alt


def test_errors_by_class_come_worst_first(tmp_path):
    own = kept(tmp_path)
    shown = report.class_errors(own, report.outcomes(own)).frame.head(2)
    assert shown.index.tolist() == ["dog", "house"]
    assert shown["wrong"].tolist() == [2, 0]
    assert shown["accuracy (%)"].tolist() == pytest.approx([100 / 3, 100])
    assert shown["most often taken for"].tolist() == ["house (2)", ""]


def test_the_surest_mistakes_come_first_and_right_images_not_at_all(tmp_path):
    own = kept(tmp_path)
    wrong = report.mistakes(own, report.outcomes(own))
    assert wrong["index"].tolist() == [0, 2]  # at 80 degrees, then at 60
    assert wrong["class"].tolist() == ["dog"] * 2 and wrong["prediction"].tolist() == ["house"] * 2


def detail(folder, monkeypatch, images: ImageSet | None) -> str:
    """What a page shows of the run in `folder`."""
    monkeypatch.setenv("HYPO_RECORDS", str(folder))
    page = begin({"held_out": "cartoon", "scale": "cpu"}, "pacs")
    monkeypatch.setattr(type(page), "images", lambda _: images)
    shown: list[Any] = []
    monkeypatch.setattr(cells, "display", shown.append)
    cells.one_run(page)
    return "".join(each._repr_html_() for each in shown)


def test_a_page_shows_card_confusions_errors_and_mistakes(tmp_path, monkeypatch):
    own = kept(tmp_path)
    html = detail(tmp_path, monkeypatch, four_images(own["fingerprint"]))
    for name in ("result.csv", "confusion.csv", "class-errors.csv", "mistakes.csv"):
        assert name in html


@pytest.mark.parametrize("images", [None, four_images("00" * 32)], ids=["absent", "other"])
def test_without_the_very_images_a_sentence_says_how_to_get_them(tmp_path, monkeypatch, images):
    kept(tmp_path)
    html = detail(tmp_path, monkeypatch, images)
    assert "<code>hypo data pacs</code>" in html and "mistakes.csv" not in html


def test_a_record_without_embeddings_says_which_command_makes_them(tmp_path, monkeypatch):
    own = kept(tmp_path, embeddings=False)
    assert report.without_embeddings(own).replace("`", "") in re.sub(
        "</?code>", "", detail(tmp_path, monkeypatch, None)
    )
    (command,) = re.findall("`hypo (.*?)`", report.without_embeddings(own))
    words = shlex.split(command)
    args = _parser(words).parse_args(words)
    assert (args.benchmark, args.held_out, args.scale, args.force) == ("pacs", "cartoon", "cpu", True)


def test_the_card_names_its_record_and_its_csv_has_every_rule(tmp_path):
    path = run(tmp_path, ood=0.75, rules={"oracle": {"ood_accuracy": 0.8}, "swad": {"ood_accuracy": 0.7}})
    own = runs.load(tmp_path).iloc[0]
    card = report.card(own)
    assert "HYPO on PACS, cpu scale, seed 0" in card and "75.0% on cartoon" in card
    assert "last epoch 75.0%, oracle 80.0%, SWAD 70.0%" in card and "failed" not in card
    shown = report.result(own)
    assert [*shown.records] == [(Origin(path.name, "pacs"),)]
    assert set(shown.numbers) == {"validation", "last", "oracle", "swad"}
    assert shown.numbers.loc["ood_accuracy", "oracle"] == 0.8
    run(tmp_path, seed=1, cosine=0.99)
    assert "failed to train" in report.card(runs.load(tmp_path).iloc[1])


def test_a_measure_that_only_one_rule_has_leaves_the_others_empty(tmp_path):
    run(tmp_path, rules={"validation": {"sinkhorn": 0.25}})
    ((_, record),) = records.read_all(tmp_path)
    for own in (runs.of(record, tmp_path), runs.load(tmp_path).iloc[0]):
        shown = report.result(own).numbers.loc["sinkhorn"]
        assert shown["validation"] == 0.25 and shown.drop("validation").isna().all()


# What a run costs


def test_passes_follow_from_counts_and_configuration():
    config = configure("pacs", "hypo", "cartoon", "paper")
    pool = 9991 - 2344
    assert cost.training_images(config) == pool - round(0.1 * pool)
    steps = cost.training_images(config) // 32
    assert cost.passes(config) == steps * 32 * 50 * 2
    assert cost.training_images(configure("cifar10", scale="paper")) == 45_000
    assert cost.training_images(configure("imagenet100", scale="paper")) == 117_000
    doubled = configure("pacs", "hypo", "cartoon", "paper", epochs=100, views=4)
    assert cost.passes(doubled) == 4 * cost.passes(config)


@pytest.mark.parametrize("benchmark", ["pacs", "office_home", "vlcs", "terra_incognita", "cifar10", "imagenet100"])
def test_cpu_time_comes_from_the_bench_and_none_is_made_up_for_gpus(benchmark):
    config = configure(benchmark, scale="cpu")
    name = "narrow ResNet-18 at 32" if benchmark == "cifar10" else "MobileNetV2 at 112"
    step = next(row["ours"] for row in cost.bench()["rows"] if row["case"].startswith(name))
    speed = cost.images_per_second(config)
    assert speed == pytest.approx(1000 * config.batch_size * config.views / step)
    shown = cost.table(benchmark)
    assert shown.frame.loc["time of a run", "paper scale"] == "not measured"
    assert shown.frame.loc["time of a run", "cpu scale"] == duration(cost.passes(config) / speed)
    passes = shown.frame.loc["passes of a run", "paper scale"]
    assert passes.removeprefix("at most ") == f"{cost.passes(configure(benchmark, scale='paper')):,}"


def test_durations():
    assert [duration(s) for s in (43, 720, 12_240, 181_440)] == ["43 s", "12 min", "3.4 h", "2.1 days"]


# The pages themselves


def source_of(page: str) -> str:
    found = json.loads((BOOK / f"{page}.ipynb").read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in found).replace(" \\\n ", "")


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_a_page_is_one_the_command_line_takes(page):
    commands = re.findall(r"^(?:torchrun --nproc-per-node=\d+ -m )?hypo (.+)$", source_of(page), re.MULTILINE)
    assert len(commands) >= 3 or page == "summary"
    for command in commands:
        words = shlex.split(command)
        args, unknown = _parser(words).parse_known_args(words)
        assert not unknown
        if args.command == "train":
            assert configure(args.benchmark, held_out=args.held_out, scale=args.scale)


def test_pages_of_domain_benchmarks_have_one_form():
    def calls(page: str) -> list[str]:
        found = json.loads((BOOK / f"{page}.ipynb").read_text())["cells"]
        code = ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"][1:]
        return [text.replace(page, "BENCHMARK") for text in code]

    first = [call for call in calls("pacs") if not re.search("controls|reasons", call)]  # there are none elsewhere
    for page in ("office_home", "vlcs", "terra_incognita"):
        assert [call for call in calls(page) if call in first] == first, "what is odd in a table may come beside it"
