"""Our numbers next to the paper's: by scale, with spread and difference, from records made for the purpose."""

import math
import re
import statistics

import pytest
from made import PACS, a_record, digits, run

from hypo import CORRUPTIONS, records, runs
from hypo.paper import TABLES, method_name, of_benchmark, table
from hypo.report import benchmarks
from hypo.report.named import named
from hypo.report.table import WIDTH, render
from hypo.report.text import ordinal
from hypo.runs import Origin, together

NAMES = [*TABLES, "digits", *(str(n) for n in range(1, 16)), "Table 4", "table11"]


def numbers(folder, name="pacs", **filters):
    """{(algorithm, scale, settings, column): row} of ours."""
    found = benchmarks.numbers(name, runs.load(folder, **filters)).query("who == 'ours'")
    return {(line.algorithm, line.scale, line.settings, line.column): line for line in found.itertuples()}


GOLDEN = """\
OOD accuracy in % on the digits, by held-out domain. Ours: mean ± standard deviation over n seeds, selected on
training-domain validation. An average is over the seeds that every column has.

                         average  art painting           cartoon       photo      sketch
ERM, demo scale, n=1     not run       not run              50.0     not run     not run
HYPO, demo scale      75.0 (n=1)    70.0 (n=1)  81.0 ± 1.4 (n=2)  90.0 (n=1)  60.0 (n=1)
HYPO, cpu scale, n=1     not run       not run              99.0     not run     not run
"""


def test_the_printed_table_of_a_benchmark_that_the_paper_does_not_have(tmp_path):
    for domain, accuracy in zip(PACS, (0.7, 0.8, 0.9, 0.6), strict=True):
        digits(tmp_path, accuracy, held_out=domain)
    digits(tmp_path, 0.82, seed=1)
    digits(tmp_path, 0.99, scale="cpu")
    digits(tmp_path, 0.5, algorithm="erm")
    run(tmp_path, algorithm="erm", ood=0.1)
    assert render(named("digits", runs.load(tmp_path))) == GOLDEN


GOLDEN_PACS = """\
HYPO 1 88.0 87.2 82.3 98.0 84.5
ours, demo scale, n=1 not run not run 60.0 not run not run
ours, cpu scale, n=3 not run not run 83.0 ± 1.0 not run not run
VNE 2 86.9 88.6 79.9 96.7 82.3
SagNet 3 86.3 87.4 80.7 97.1 80.0
PCL 86.3 88.0 78.8 98.1 80.3
"""


def test_the_printed_table_of_pacs_has_the_papers_rows_and_ours(tmp_path):
    for seed, accuracy in enumerate((0.82, 0.83, 0.84)):
        run(tmp_path, ood=accuracy, seed=seed)
    run(tmp_path, ood=0.6, scale="demo")
    text = render(named("pacs", runs.load(tmp_path)))
    assert GOLDEN_PACS in re.sub(" +", " ", text)
    names = [line.split("  ")[0] for line in text.splitlines()]
    methods = [method_name(each) for each in of_benchmark("pacs")["algorithm"].unique()]
    assert [names.count(method) for method in methods] == [1] * len(methods)


def test_a_cell_is_the_mean_and_standard_deviation_of_one_scale(tmp_path):
    cpu, demo = (0.81, 0.84, 0.86), (0.1, 0.3)
    for scale, values in (("cpu", cpu), ("demo", demo)):
        for seed, accuracy in enumerate(values):
            run(tmp_path, ood=accuracy, scale=scale, seed=seed)
    found = numbers(tmp_path)
    assert set(found) == {("hypo", scale, (), "cartoon") for scale in ("cpu", "demo")}
    for scale, values in (("cpu", cpu), ("demo", demo)):
        line = found["hypo", scale, (), "cartoon"]
        mean = 100 * statistics.mean(values)
        expected = (mean, 100 * statistics.stdev(values), len(values), mean - 82.3)
        assert (line.value, line.sd, line.n, line.difference) == pytest.approx(expected)


def test_an_average_takes_the_seeds_that_have_every_domain(tmp_path):
    for seed, domains in ((0, PACS), (1, PACS), (2, PACS[:3])):
        for index, domain in enumerate(domains):
            run(tmp_path, held_out=domain, seed=seed, ood=0.5 + 0.1 * index + 0.02 * seed)
    line = numbers(tmp_path)["hypo", "cpu", (), "average"]
    assert (line.value, line.n) == pytest.approx((66, 2))  # seeds 0 and 1: 65 and 67
    assert (line.sd, line.difference) == pytest.approx((2**0.5, 66 - 88.0))


def test_the_result_is_the_epoch_chosen_on_validation_never_the_oracle(tmp_path):
    other = {rule: {"ood": {"cartoon": 0.9}, "ood_accuracy": 0.9} for rule in ("oracle", "last", "swad")}
    run(tmp_path, ood=0.5, rules=other)
    assert numbers(tmp_path)["hypo", "cpu", (), "cartoon"].value == pytest.approx(50)


def test_other_settings_and_other_data_have_rows_of_their_own(tmp_path):
    run(tmp_path, ood=0.8)
    run(tmp_path, ood=0.7, settings={"separation": False})
    run(tmp_path, ood=0.6, settings={"temperature": 0.5, "separation": False})
    found = {settings: line.value for (_, _, settings, _), line in numbers(tmp_path).items()}
    changed = ("separation", False), ("temperature", 0.5)
    assert found == pytest.approx({(): 80, changed[:1]: 70, changed: 60})
    shown = benchmarks.table("pacs", runs.load(tmp_path)).frame["method"].tolist()
    assert "ours, cpu scale, separation=false, temperature=0.5, n=1" in shown
    run(tmp_path, ood=0.9, seed=1, data="12345678")
    own = runs.load(tmp_path, at_defaults=True)
    lines = benchmarks.numbers("pacs", own).query("who == 'ours'")
    assert dict(zip(lines["data"], lines["value"], strict=True)) == pytest.approx({"ab" * 6: 80, "12345678": 90})
    shown = benchmarks.table("pacs", own).frame["method"].tolist()
    assert {"ours, cpu scale, data abababab, n=1", "ours, cpu scale, data 12345678, n=1"} <= set(shown)


def test_a_run_that_failed_to_train_is_named_in_its_cell(tmp_path):
    run(tmp_path, ood=0.8)
    run(tmp_path, ood=0.2, seed=1, cosine=0.99)
    assert numbers(tmp_path)["hypo", "cpu", (), "cartoon"].failed == 1
    shown = benchmarks.table("pacs", runs.load(tmp_path)).frame
    assert shown["cartoon"].iloc[1] == "50.0 ± 42.4\n1 of 2 failed to train"
    assert "50.0 ± 42.4, 1 of 2 failed to train" in render(named("pacs", runs.load(tmp_path)))


def test_corruptions_are_averaged_over_severities(tmp_path):
    severities = {corruption: {"1": 0.9, "5": 0.5 + index / 100} for index, corruption in enumerate(CORRUPTIONS)}
    run(tmp_path, "cifar10", "erm", None, ood=severities)
    found = numbers(tmp_path, "cifar10")
    for index, corruption in enumerate(CORRUPTIONS):
        assert found["erm", "cpu", (), corruption].value == pytest.approx(70 + index / 2)
    average = found["erm", "cpu", (), "average"]
    assert (average.value, average.difference) == pytest.approx((74.5, 74.5 - 88.32))
    shown = benchmarks.table("cifar10", runs.load(tmp_path)).frame
    assert shown.loc[shown["method"] == "ours, cpu scale, n=1", "average"].tolist() == ["74.50"]


def test_every_number_names_its_records(tmp_path):
    paths = [run(tmp_path, held_out=domain) for domain in PACS]
    found = {key[-1]: line.origins for key, line in numbers(tmp_path).items()}
    assert found["sketch"] == (Origin(paths[3].name, "pacs"),)
    assert {origin.file for origin in found["average"]} == {path.name for path in paths}


@pytest.mark.parametrize("name", NAMES)
def test_every_table_fits_the_terminal_names_no_label_and_says_what_was_not_run(tmp_path, name):
    text = render(named(name, runs.load(tmp_path)))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert not any(line.endswith(" ") for line in text.splitlines())
    assert "Table" in text or name == "digits"
    assert not any(label in text for label in ("fullcorruption", "officehome", "ablation-sep", "Tab."))
    assert "not run" in text or "was run here" in " ".join(text.split())


def test_long_settings_are_broken_over_lines(tmp_path):
    settings = {"temperature": 0.25, "momentum": 0.75, "weight": 4.0, "prototypes": "learnable", "lr": 0.125}
    run(tmp_path, settings=settings)
    text = render(named("pacs", runs.load(tmp_path), every=True))
    assert max(map(len, text.splitlines())) <= WIDTH
    for field, value in settings.items():
        assert f"{field}={value}" in text


def test_by_its_name_a_table_has_the_usual_settings_and_counts_the_others(tmp_path):
    run(tmp_path, ood=0.8)
    run(tmp_path, ood=0.7, settings={"start_temperature": None})
    run(tmp_path, ood=0.6, settings={"lr": 0.01})
    run(tmp_path, ood=0.5, settings={"temperature": 0.5})
    for name in ("pacs", "table 4"):
        short, long = (named(name, runs.load(tmp_path), every=every) for every in (False, True))
        ours = [line for line in short.frame["method"] if line.startswith("ours")]
        assert ours == ["ours, cpu scale, n=1", "ours, cpu scale, constant τ, n=1"]
        assert len(long.frame) - len(short.frame) == 2
        assert "adds 2 runs" in short.caption and "--all" not in long.caption
    run(tmp_path, "birds", held_out="ink", domains=("ink", "oil"), settings={"lr": 0.01})
    assert "lr=0.01" in named("birds", runs.load(tmp_path)).frame["method"].iloc[0]


def test_a_table_has_other_settings_where_none_of_the_usual_ones_was_run(tmp_path):
    run(tmp_path, "digits", scale="demo", settings={"epochs": 2})
    run(tmp_path, ood=0.8)
    shown = named("digits", runs.load(tmp_path))
    assert "epochs=2" in shown.frame["method"].iloc[0] and "--all" not in shown.caption


def test_a_folder_of_ones_own_has_a_table_too(tmp_path):
    run(tmp_path, "birds", held_out="ink", domains=("ink", "oil"), ood=0.8)
    shown = named("birds", runs.load(tmp_path)).frame
    assert list(shown) == ["method", "average", "ink", "oil"]
    assert shown.iloc[0].tolist() == ["HYPO, cpu scale, n=1", "not run", "80.0", "not run"]


def test_notes_of_the_images_follow_their_numbers(tmp_path):
    record = a_record()
    record["benchmark"]["notes"] = ["2 images skipped"]
    records.write(record, folder=tmp_path)
    assert "2 images skipped" in benchmarks.table("pacs", runs.load(tmp_path)).caption


def test_a_misspelt_name_names_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="unknown table 'ofice_home': did you mean office_home"):
        named("ofice_home", runs.load(tmp_path))


# Pages


def test_a_page_shows_runs_at_the_defaults_only_the_best_average_first(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPO_RECORDS", str(tmp_path))
    for seed, accuracy in enumerate((0.82, 0.83, 0.84)):
        run(tmp_path, ood=accuracy, seed=seed)
    run(tmp_path, ood=0.6, scale="paper")
    run(tmp_path, ood=0.1, settings={"temperature": 0.5})
    digits(tmp_path, 0.2)
    found = benchmarks.table("pacs")
    lines = found.frame.head(3)[["method", "rank", "cartoon", "photo"]].to_numpy().tolist()
    assert lines == [
        ["HYPO", "1", "82.3", "98.0"],
        ["ours, cpu scale, n=3", "", "83.0 ± 1.0", "not run"],
        ["ours, paper scale, n=1", "", "60.0", "not run"],
    ]
    assert len(found.frame) == 20 + 2 and len(together(found.records)) == 4
    assert found.numbers.query("n == 3")["value"].tolist() == pytest.approx([83.0])
    assert found.about == ("the paper's numbers", "real data")
    averages = found.frame[~found.frame["method"].str.startswith("ours")]["average"].astype(float)
    assert averages.is_monotonic_decreasing and found.frame.columns[2] == "average"
    assert dict(zip(found.frame["method"], found.frame["rank"], strict=True))["PCL"] == ""


def test_digits_have_a_table_of_their_own_and_no_rank(tmp_path):
    for domain in PACS:
        digits(tmp_path, 0.7, algorithm="erm", held_out=domain)
    found = benchmarks.table("digits", runs.load(tmp_path))
    assert found.frame["average"].tolist() == ["70.0"] and "rank" not in found.frame
    assert found.about == ("digits",) and "paper" not in found.caption


@pytest.mark.parametrize("label", ["pacs", "officehome", "vlcs", "terra", "all"])
def test_standing_names_all_that_are_ahead(label):
    averages = table(label).query("column == 'average'").set_index("method")["value"]
    ahead = averages[averages > averages["HYPO (Ours)"]]
    sentence = benchmarks.standing(label)
    assert f" {ordinal(1 + len(ahead))} of {len(averages)}" in sentence
    assert all(f"{name} {value:.1f}" in sentence for name, value in ahead.items())
    assert ("behind" in sentence) == (len(ahead) > 0) == (label == "vlcs")


def test_standing_of_a_misspelt_method_names_the_nearest():
    with pytest.raises(ValueError, match="unknown method 'coral2': did you mean coral"):
        benchmarks.standing("all", "coral2")


def test_ordinals():
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 111)
    assert " ".join(map(ordinal, numbers)) == "1st 2nd 3rd 4th 11th 12th 13th 21st 111th"


def test_disagreements_are_computed():
    found = {tuple(row[:2]): row[2:4] for row in benchmarks.disagreements().frame.to_numpy().tolist()}
    assert found.keys() == {("Table 1", "ERM"), ("Table 5", "GVRT")}
    assert found["Table 1", "ERM"] == pytest.approx([76.7, (85.5 + 67.6 + 77.5) / 3])
    assert benchmarks.office_home_lead().endswith("leads CORAL by 3.0; 1.6 is its lead over GVRT.")


def test_the_summary_takes_an_average_only_with_every_domain(tmp_path):
    for domain in PACS[:3]:
        run(tmp_path, held_out=domain, ood=0.8)
    assert len(benchmarks.summary(runs.load(tmp_path)).frame) == 19
    run(tmp_path, held_out=PACS[3], ood=0.9)
    first = benchmarks.summary(runs.load(tmp_path)).frame.head(2)[["method", "PACS", "VLCS"]].to_numpy().tolist()
    assert first[1] == ["ours, cpu scale, n=1", "82.5", "not run"]


def test_ranks_are_shown_by_their_mean():
    shown = benchmarks.rank_table().frame
    assert shown["mean rank"].is_monotonic_increasing and len(shown) == 19
    assert math.isclose(shown.loc["HYPO", "mean rank"], (1 + 1 + 6) / 3)
