"""What the pages of the benchmarks show, from records made for the purpose and by counting again."""

import dataclasses
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_publish import saved
from test_records import a_record
from test_tables import PACS, run

from hypo import records, results
from hypo.cli import _parser
from hypo.config import configure
from hypo.cost import bench, cost, duration, images_per_second, passes, training_images
from hypo.data.corruptions import CORRUPTIONS
from hypo.data.imageset import ImageSet
from hypo.figures.results import (
    clean_and_noisy,
    confusion_matrix,
    corruption_bars,
    methods,
    severities,
    wrong_images,
)
from hypo.tables import paper

BOOK = Path(__file__).resolve().parents[1] / "book"
PAGES = ["pacs", "office_home", "vlcs", "terra_incognita", "cifar10c", "imagenet100", "summary"]
NOT_RUN = "paper; ours not run"

# One run: four images of a dog or a house on the circle, prototypes at 0 and 90 degrees.

DEGREES = np.array([10, 80, 60, 70])
LABELS = np.array([0, 0, 0, 1])
PREDICTIONS = np.array([0, 1, 1, 1])


def at(degrees: np.ndarray) -> np.ndarray:
    return np.c_[np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))]


def kept(folder: Path, **changed) -> dict:
    """A record written with the arrays above; None takes one away."""
    arrays = {"ood_test_z": at(DEGREES), "ood_test_y": LABELS, "ood_test_prediction": PREDICTIONS}
    arrays |= {"ood_test_index": np.array([3, 0, 2, 1]), "prototypes": at(np.array([0, 90]))}
    arrays = {name: array for name, array in (arrays | changed).items() if array is not None}
    return records.read(records.write(a_record(), arrays, folder))


def four_images(fingerprint: str = "ab" * 32) -> ImageSet:
    pixels = np.repeat(np.arange(4, dtype=np.uint8), 32 * 32 * 3).reshape(4, 32, 32, 3)
    zeros = np.zeros(4, np.int64)
    return ImageSet("pacs", pixels, zeros, zeros, ("dog", "house"), ("cartoon",), fingerprint)


def test_the_margin_is_how_much_nearer_the_wrong_prototype_is(tmp_path):
    outcome = results.tested(kept(tmp_path), tmp_path)
    assert outcome["index"].tolist() == [3, 0, 2, 1]
    radians = np.deg2rad(DEGREES)
    expected = np.where(LABELS == PREDICTIONS, 0, np.sin(radians) - np.cos(radians))
    np.testing.assert_allclose(outcome["margin"], expected, atol=2e-3)  # kept in float16


def test_without_prototypes_the_class_means_of_the_in_distribution_images_serve(tmp_path):
    means = {"id_test_z": at(np.array([-20, 20, 70, 110])), "id_test_y": np.array([0, 0, 1, 1])}
    with_means = results.tested(kept(tmp_path / "means", prototypes=None, **means), tmp_path / "means")
    given = results.tested(kept(tmp_path / "given"), tmp_path / "given")
    np.testing.assert_allclose(with_means["margin"], given["margin"], atol=2e-3)


def test_the_confusion_matrix_counts_every_image_and_is_the_csv_of_its_figure(tmp_path):
    record = kept(tmp_path)
    counts = results.confusion(results.tested(record, tmp_path), ["dog", "house"])
    assert counts.to_numpy().tolist() == [[1, 2], [0, 1]]
    figure = confusion_matrix(record, tmp_path)
    pd.testing.assert_frame_equal(saved(figure.source).set_index("class"), counts, check_names=False)
    assert "50.0% right" in figure.alt and "dog is taken for house, 2 times" in figure.alt


def test_errors_by_class_come_worst_first(tmp_path):
    shown = results.class_errors(kept(tmp_path), tmp_path).frame
    assert shown.index.tolist() == ["dog", "house"]
    assert shown["wrong"].tolist() == [2, 0]
    assert shown["accuracy (%)"].tolist() == pytest.approx([100 / 3, 100])
    assert shown["most often taken for"].tolist() == ["house (2)", ""]


def test_the_surest_mistakes_come_first_and_right_images_not_at_all(tmp_path):
    gallery = wrong_images(kept(tmp_path), four_images(), folder=tmp_path)
    ((name, images, captions),) = gallery.rows
    assert name == "dog" and captions == ["house", "house"]
    assert images[:, 0, 0, 0].tolist() == [0, 2]  # at 80 degrees, then at 60
    html = gallery._repr_html_()
    assert html.count('alt="dog, taken for house"') == 2
    assert saved(html)["index"].tolist() == [0, 2]


@pytest.mark.parametrize("images", [None, four_images("00" * 32)], ids=["absent", "other"])
def test_without_the_very_images_a_sentence_says_how_to_get_them(tmp_path, images):
    note = wrong_images(kept(tmp_path), images, folder=tmp_path)
    assert "<code>hypo data pacs</code>" in note._repr_html_()


def test_a_record_without_predictions_says_which_command_makes_them(tmp_path):
    record = kept(tmp_path, ood_test_prediction=None)
    for shown in (confusion_matrix, results.class_errors, lambda r, folder: wrong_images(r, None, folder=folder)):
        note = shown(record, folder=tmp_path)
        (command,) = re.findall("`hypo (.*?)`", note)
        args = _parser().parse_args(shlex.split(command))
        assert (args.benchmark, args.held_out, args.scale, args.force) == ("pacs", "cartoon", "demo", True)


def test_the_card_names_its_record_and_its_csv_has_every_rule(tmp_path):
    record = a_record(**dataclasses.asdict(configure("pacs", "hypo", "cartoon", "cpu")))
    record["final"] = {rule: measures | {"separation": 0.5} for rule, measures in record["final"].items()}
    path = records.write(record, folder=tmp_path)
    html = results.card(records.read(path), tmp_path)._repr_html_()
    assert "hypo on pacs, cpu scale, seed 0" in html and "75.0% on cartoon" in html and path.name in html
    table = saved(html).set_index("measure")
    assert set(table) == {"validation", "last", "oracle"} and float(table.loc["ood_accuracy", "oracle"]) == 0.8


# The paper's tables with ours


def test_a_method_that_was_not_run_takes_one_line_and_says_so(tmp_path):
    shown = results.paper_table("pacs", tmp_path).frame
    assert len(shown) == 20  # PCL is in another table of the paper
    assert shown["source"].str.replace("\N{NO-BREAK SPACE}", " ").unique().tolist() == [NOT_RUN]
    assert shown["average"].astype(float).is_monotonic_decreasing
    assert dict(zip(shown["method"], shown["rank"], strict=True))["PCL"] == ""


def test_ours_stand_below_the_papers_with_scale_seeds_and_difference(tmp_path):
    for seed, accuracy in enumerate((0.82, 0.83, 0.84)):
        run(tmp_path, accuracy, seed=seed)
    run(tmp_path, 0.6, scale="paper")
    run(tmp_path, 0.1, settings={"temperature": 0.5})  # not the defaults: another page's
    run(tmp_path, 0.2, "digits", scale="demo")
    table = results.paper_table("pacs", tmp_path)
    lines = table.frame.head(5)[["rank", "method", "source", "cartoon", "photo"]].to_numpy().tolist()
    assert lines == [
        ["1", "HYPO", "paper", "82.3", "98.0"],
        ["", "", "ours, cpu scale, n=3", "83.0 ± 0.6", "not run"],
        ["", "", "difference, cpu scale", "+0.7", ""],
        ["", "", "ours, paper scale, n=1", "60.0", "not run"],
        ["", "", "difference, paper scale", "−22.3", ""],
    ]
    assert len(table.frame) == 20 + 4
    html = table._repr_html_()
    assert "4 records" in html and "digits-" not in html
    assert saved(html).query("n == 3")["value"].tolist() == pytest.approx([83.0])


def test_digits_have_a_table_of_their_own_and_no_rank(tmp_path):
    assert results.paper_table("digits", tmp_path) == "No run of the embedded digits is recorded."
    for domain in PACS:
        run(tmp_path, 0.7, "digits", "erm", domain, scale="demo")
    table = results.paper_table("digits", tmp_path)
    assert table.frame["average"].tolist() == ["70.0"] and "rank" not in table.frame
    assert "the embedded digits" in table.caption and "difference" not in table.caption


def test_ranks_are_one_more_than_the_number_of_better_methods():
    placed = results.ranks("all")
    for column in ("pacs", "office_home", "vlcs", "average"):
        values = placed[column]["value"]
        assert placed[column]["rank"].tolist() == [1 + int((values > value).sum()) for value in values]
    shown = results.rank_table().frame
    assert shown["mean rank"].is_monotonic_increasing and len(shown) == 19


@pytest.mark.parametrize("label", ["pacs", "officehome", "vlcs", "terra", "all"])
def test_standing_names_all_that_are_ahead(label):
    averages = paper(label).query("column == 'average'").set_index("algorithm")["value"]
    ahead = averages[averages > averages["HYPO (Ours)"]]
    sentence = results.standing(label)
    assert f" {results.ordinal(1 + len(ahead))} of {len(averages)}" in sentence
    assert all(f"{name} {value:.1f}" in sentence for name, value in ahead.items())
    assert ("behind" in sentence) == (len(ahead) > 0) == (label == "vlcs")


def test_standing_of_a_misspelt_method_names_the_nearest():
    with pytest.raises(ValueError, match="unknown method 'coral2': did you mean coral"):
        results.standing("all", "coral2")
    with pytest.raises(ValueError, match="unknown method 'hipo': did you mean hypo"):
        methods("hipo")


def test_ordinals():
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 111)
    assert " ".join(map(results.ordinal, numbers)) == "1st 2nd 3rd 4th 11th 12th 13th 21st 111th"


def test_disagreements_are_computed():
    found = {tuple(row[:2]): row[2:4] for row in results.disagreements().frame.to_numpy().tolist()}
    assert found.keys() == {("Tab. all", "ERM"), ("Tab. officehome", "GVRT")}
    assert found["Tab. all", "ERM"] == pytest.approx([76.7, (85.5 + 67.6 + 77.5) / 3])
    assert results.office_home_lead().endswith("leads CORAL by 3.0; 1.6 is its lead over GVRT.")


def test_the_overall_table_takes_an_average_only_with_every_domain(tmp_path):
    for domain in PACS[:3]:
        run(tmp_path, 0.8, held_out=domain)
    assert len(results.overall(tmp_path).frame) == 19
    run(tmp_path, 0.9, held_out=PACS[3])
    first = results.overall(tmp_path).frame.head(3)[["source", "PACS", "VLCS"]].to_numpy().tolist()
    assert first[1:] == [["ours, cpu scale, n=1", "82.5", "not run"], ["difference, cpu scale", "−5.5", ""]]


# Corruptions


def corrupted_runs(folder: Path, benchmark: str, scale: str) -> None:
    """Two seeds of ERM and HYPO: accuracy falls by 0.1 a severity; HYPO is 0.04 ahead, and seed 1 0.02."""
    for algorithm, gain in (("erm", 0), ("hypo", 0.04)):
        for seed in (0, 1):
            ood = {
                name: {str(s): 0.9 - 0.1 * s + gain + 0.02 * seed - 0.001 * place for s in range(1, 6)}
                for place, name in enumerate(CORRUPTIONS)
            }
            run(folder, ood, benchmark, algorithm, None, scale, seed)


def test_bars_hold_the_papers_numbers_and_ours(tmp_path):
    corrupted_runs(tmp_path, "cifar10", "cpu")
    corrupted_runs(tmp_path, "digits", "demo")
    figure = corruption_bars("cifar10", tmp_path)
    numbers = saved(figure.source).set_index(["source", "algorithm", "corruption"])
    assert len(numbers) == 4 * 19 and "digits-" not in figure.source and "4 records" in figure.source
    assert numbers.loc[("paper", "erm", "glass_blur"), "value"] == 56.99
    (ours,) = set(numbers.index.get_level_values("source")) - {"paper"}
    assert ours.startswith("ours, cpu scale")
    for place, name in enumerate(CORRUPTIONS):
        own = numbers.loc[(ours, "hypo", name)]
        assert (own["value"], own["spread"], own["n"]) == pytest.approx((60 + 4 + 1 - 0.1 * place, 1, 2))
    alone = saved(corruption_bars("digits", tmp_path).source)
    assert alone["source"].str.startswith("ours, demo scale").all() and len(alone) == 2 * 19


def test_accuracy_by_severity_averages_the_corruptions(tmp_path):
    corrupted_runs(tmp_path, "cifar10", "cpu")
    numbers = saved(severities("cifar10", tmp_path).source).query("algorithm == 'erm'")
    assert numbers["severity"].tolist() == [1, 2, 3, 4, 5]
    assert numbers["value"].tolist() == pytest.approx([91 - 10 * s - 0.1 * np.mean(range(19)) for s in range(1, 6)])


def test_clean_and_noisy_compares_two_tests(tmp_path):
    corrupted_runs(tmp_path, "digits", "demo")
    numbers = saved(clean_and_noisy("digits", tmp_path).source)
    place = CORRUPTIONS.index("gaussian_noise")
    means = numbers.query("algorithm == 'erm'").set_index("corruption")["value"]
    assert means.to_dict() == pytest.approx({"clean": 87.5, "gaussian_noise": 61 - 0.1 * place})


def test_without_runs_the_papers_bars_stand_alone_and_the_rest_says_so(tmp_path):
    assert set(saved(corruption_bars("cifar10", tmp_path).source)["source"]) == {"paper"}
    for shown in (corruption_bars("digits", tmp_path), severities("cifar10", tmp_path), clean_and_noisy("imagenet100")):
        assert "No run on corruptions of" in shown


def test_the_corruption_table_has_gains_and_differences(tmp_path):
    assert list(results.corruption_table(tmp_path).frame) == ["ERM (paper)", "HYPO (paper)", "gain (paper)"]
    corrupted_runs(tmp_path, "cifar10", "cpu")
    frame = results.corruption_table(tmp_path).frame
    assert len(frame) == 20 and frame["gain (cpu scale, n=2)"].tolist() == pytest.approx([4] * 20)
    assert frame.loc["gaussian noise", "gain (paper)"] == pytest.approx(85.21 - 78.09)
    ours, theirs = frame["HYPO (cpu scale, n=2)"], frame["HYPO (paper)"]
    assert frame["HYPO (difference, cpu scale, n=2)"].tolist() == pytest.approx((ours - theirs).tolist())


def test_the_recent_methods_are_ranked_beside_ours(tmp_path):
    corrupted_runs(tmp_path, "cifar10", "cpu")
    shown = results.recent(tmp_path).frame
    assert shown["method"].tolist() == ["HYPO", "", "", "SharpDRO", "EQRM"]
    assert shown["source"].iloc[1] == "ours, cpu scale, n=2" and shown["gaussian noise"].iloc[0] == "85.21"


def test_the_figure_of_all_methods_has_their_numbers():
    table = saved(methods().source).set_index("algorithm")
    for line in paper("all").itertuples():
        assert table.loc[results.registry_name(line.algorithm), line.column] == line.value


# What a run costs


def test_passes_follow_from_counts_and_configuration():
    config = configure("pacs", "hypo", "cartoon", "paper")
    pool = 9991 - 2344
    assert training_images(config) == pool - round(0.1 * pool)
    steps = training_images(config) // 32
    assert passes(config) == steps * 32 * 50 * 2
    assert training_images(configure("cifar10", scale="paper")) == 45_000
    assert training_images(configure("imagenet100", scale="paper")) == 117_000
    doubled = configure("pacs", "hypo", "cartoon", "paper", epochs=100, views=4)
    assert passes(doubled) == 4 * passes(config)


@pytest.mark.parametrize("benchmark", ["pacs", "office_home", "vlcs", "terra_incognita", "cifar10", "imagenet100"])
def test_cpu_time_comes_from_the_bench_and_none_is_made_up_for_gpus(benchmark):
    config = configure(benchmark, scale="cpu")
    name = "narrow ResNet-18 at 32" if benchmark == "cifar10" else "MobileNetV2 at 112"
    step = next(row["ours"] for row in bench()["rows"] if row["case"].startswith(name))
    assert images_per_second(config) == pytest.approx(1000 * config.batch_size * config.views / step)
    table = cost(benchmark)
    assert table.frame.loc["time of a run", "paper scale"] == "not measured"
    assert table.frame.loc["time of a run", "cpu scale"] == duration(passes(config) / images_per_second(config))
    raw = saved(table._repr_html_()).set_index("scale")
    assert raw.loc["paper", "passes_of_a_run"] == passes(configure(benchmark, scale="paper"))


def test_durations():
    assert [duration(s) for s in (43, 720, 12_240, 181_440)] == ["43 s", "12 min", "3.4 h", "2.1 days"]


# The pages themselves


def source_of(page: str) -> str:
    cells = json.loads((BOOK / f"{page}.ipynb").read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_a_page_is_one_the_command_line_takes(page):
    commands = re.findall(r"^(?:torchrun --nproc-per-node=\d+ -m )?hypo (.+)$", source_of(page), re.MULTILINE)
    assert len(commands) >= 3 or page == "summary"
    for command in commands:
        args, unknown = _parser().parse_known_args(shlex.split(command))
        assert not unknown
        if args.command == "train":
            assert configure(args.benchmark, held_out=args.held_out, scale=args.scale)


def test_pages_of_domain_benchmarks_have_one_form():
    def calls(page: str) -> list[str]:
        cells = json.loads((BOOK / f"{page}.ipynb").read_text())["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"][1:]
        return [text.replace(page, "BENCHMARK") for text in code]

    first = calls("pacs")
    for page in ("office_home", "vlcs", "terra_incognita"):
        assert calls(page) == first[: len(calls(page))]
