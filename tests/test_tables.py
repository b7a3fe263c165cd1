"""The printed tables: the paper's numbers, ours by scale, and what was not run, from records made for the purpose."""

import dataclasses
import math
import statistics

import pytest
from test_records import a_record

from hypo import records
from hypo.config import configure
from hypo.tables import TABLES, cells, compare, paper, registry_name, render

PACS = ("art_painting", "cartoon", "photo", "sketch")


def run(folder, accuracy, benchmark="pacs", algorithm="hypo", held_out="cartoon", scale="cpu", seed=0, **more):
    """Write the record of a run with this OOD accuracy: a number, or {corruption: {severity: number}}."""
    ood = accuracy if isinstance(accuracy, dict) else {held_out: accuracy}
    config = dataclasses.asdict(configure(benchmark, algorithm, held_out, scale, seed, **more.pop("settings", {})))
    record = a_record(ood=ood, **config)
    record["benchmark"] |= {"name": benchmark} | more
    return records.write(record, folder=folder)


def numbers(folder, name="pacs", **filters):
    """{(algorithm, source, column): (value, spread, n, difference)} of ours."""
    table = cells(name, folder, **filters)
    return {
        (line.algorithm, line.source, line.column): (line.value, line.spread, line.n, line.difference)
        for line in table[table["n"] > 0].itertuples()
    }


GOLDEN = """\
digits: OOD accuracy in % by held-out domain; the paper has no table of it; ours: the epoch chosen on
training-domain validation, mean ± standard error over n seeds.

                             art_painting           cartoon       photo      sketch     average
erm (ours, demo scale, n=1)       not run              50.0     not run     not run     not run
hypo (ours, demo scale)        70.0 (n=1)  81.0 ± 1.0 (n=2)  90.0 (n=1)  60.0 (n=1)  75.0 (n=1)
hypo (ours, cpu scale, n=1)       not run              99.0     not run     not run     not run

2 images skipped
"""


def test_the_printed_table_of_a_benchmark_that_the_paper_does_not_have(tmp_path):
    for domain, accuracy in zip(PACS, (0.7, 0.8, 0.9, 0.6), strict=True):
        run(tmp_path, accuracy, "digits", held_out=domain, scale="demo", notes=["2 images skipped"])
    run(tmp_path, 0.82, "digits", scale="demo", seed=1)
    run(tmp_path, 0.99, "digits", scale="cpu")
    run(tmp_path, 0.5, "digits", "erm", scale="demo")
    run(tmp_path, 0.1, "pacs", "erm", scale="demo")
    assert render(compare("digits", tmp_path)) == GOLDEN


GOLDEN_PACS = """\
VNE (paper)                            88.6        79.9     96.7     82.3     86.9
VNE (ours)                          not run     not run  not run  not run  not run
HYPO (paper)                           87.2        82.3     98.0     84.5     88.0
HYPO (ours, demo scale, n=1)        not run        60.0  not run  not run  not run
HYPO (difference, demo scale)                     -22.3
HYPO (ours, cpu scale, n=3)         not run  83.0 ± 0.6  not run  not run  not run
HYPO (difference, cpu scale)                       +0.7
PCL (paper)                            88.0        78.8     98.1     80.3     86.3
PCL (ours)                          not run     not run  not run  not run  not run
"""


def test_the_printed_table_of_pacs_has_the_papers_rows_ours_and_the_difference(tmp_path):
    for seed, accuracy in enumerate((0.82, 0.83, 0.84)):
        run(tmp_path, accuracy, seed=seed)
    run(tmp_path, 0.6, scale="demo")
    text = render(compare("pacs", tmp_path))
    assert text.endswith(GOLDEN_PACS)
    for algorithm in paper("pacs")["algorithm"].unique():
        assert text.count(f"\n{algorithm.removesuffix(' (Ours)')} (paper)  ") == 1


def test_a_cell_is_the_mean_and_standard_error_of_one_scale(tmp_path):
    cpu, demo = (0.81, 0.84, 0.86), (0.1, 0.3)
    for seed, accuracy in enumerate(cpu):
        run(tmp_path, accuracy, seed=seed)
    for seed, accuracy in enumerate(demo):
        run(tmp_path, accuracy, scale="demo", seed=seed)
    found = numbers(tmp_path)
    assert set(found) == {("hypo", f"ours, {scale} scale", "cartoon") for scale in ("cpu", "demo")}
    for scale, values in (("cpu", cpu), ("demo", demo)):
        percent = [100 * value for value in values]
        mean, error = statistics.mean(percent), statistics.stdev(percent) / math.sqrt(len(values))
        assert found["hypo", f"ours, {scale} scale", "cartoon"] == pytest.approx(
            (mean, error, len(values), mean - 82.3)
        )


def test_an_average_takes_the_seeds_that_have_every_domain(tmp_path):
    for seed, domains in ((0, PACS), (1, PACS), (2, PACS[:3])):
        for index, domain in enumerate(domains):
            run(tmp_path, 0.5 + 0.1 * index + 0.02 * seed, held_out=domain, seed=seed)
    value, spread, n, difference = numbers(tmp_path)["hypo", "ours, cpu scale", "average"]
    assert (value, n) == pytest.approx((66, 2))  # seeds 0 and 1: 65 and 67
    assert spread == pytest.approx(1)
    assert difference == pytest.approx(66 - 88.0)
    assert "n=3" not in compare("pacs", tmp_path).index[-1]


def test_the_result_is_the_epoch_chosen_on_validation_never_the_oracle(tmp_path):
    record = a_record(ood={"cartoon": 0.5})
    record["final"]["oracle"] = record["final"]["oracle"] | {"ood": {"cartoon": 0.9}}
    record["final"]["last"] = record["final"]["last"] | {"ood": {"cartoon": 0.8}}
    record["config"] = dataclasses.asdict(configure("pacs", "hypo", "cartoon", "cpu", 0))
    records.write(record, folder=tmp_path)
    assert numbers(tmp_path)["hypo", "ours, cpu scale", "cartoon"][0] == pytest.approx(50)


def test_other_settings_and_other_data_have_rows_of_their_own(tmp_path):
    run(tmp_path, 0.8)
    run(tmp_path, 0.7, settings={"swad": True})
    run(tmp_path, 0.6, settings={"temperature": 0.5, "swad": True})
    found = {source: cell[0] for (_, source, _), cell in numbers(tmp_path).items()}
    assert found == pytest.approx(
        {
            "ours, cpu scale": 80,
            "ours, cpu scale, swad=True": 70,
            "ours, cpu scale, temperature=0.5, swad=True": 60,
        }
    )
    assert len(numbers(tmp_path, swad=True)) == 2
    run(tmp_path, 0.9, seed=1, fingerprint="12345678" * 8)
    found = {source: cell[0] for (_, source, _), cell in numbers(tmp_path, swad=False).items()}
    assert found == pytest.approx({"ours, cpu scale, data abababab": 80, "ours, cpu scale, data 12345678": 90})


def test_a_copied_record_is_not_a_second_seed(tmp_path):
    path = run(tmp_path, 0.8)
    (tmp_path / "copy.json").write_bytes(path.read_bytes())
    assert numbers(tmp_path)["hypo", "ours, cpu scale", "cartoon"][2] == 1


def test_corruptions_are_averaged_over_severities(tmp_path):
    corruptions = [column for column in paper("fullcorruption")["column"].unique() if column != "average"]
    severities = {corruption: {"1": 0.9, "5": 0.5 + index / 100} for index, corruption in enumerate(corruptions)}
    run(tmp_path, severities, "cifar10", "erm", None)
    found = numbers(tmp_path, "cifar10")
    for index, corruption in enumerate(corruptions):
        assert found["erm", "ours, cpu scale", corruption][0] == pytest.approx(70 + index / 2)
    assert found["erm", "ours, cpu scale", "average"][0] == pytest.approx(74.5)
    assert found["erm", "ours, cpu scale", "average"][3] == pytest.approx(74.5 - 88.32)
    assert compare("cifar10", tmp_path).loc["CE (difference, cpu scale)", "average"] == "-13.82"


def test_every_number_names_its_records(tmp_path):
    paths = [run(tmp_path, 0.8, held_out=domain) for domain in PACS]
    table = cells("pacs", tmp_path).query("n > 0").set_index("column")["files"]
    assert table["sketch"] == paths[3].name
    assert set(table["average"].split()) == {path.name for path in paths}


@pytest.mark.parametrize("name", [*TABLES, *filter(None, TABLES.values())])
def test_every_table_fits_the_terminal_and_says_what_was_not_run(tmp_path, name):
    text = render(compare(name, tmp_path))
    assert max(map(len, text.splitlines())) <= 110
    assert not any(line.endswith(" ") for line in text.splitlines())
    benchmark = {label: benchmark for benchmark, label in TABLES.items()}.get(name, name)
    assert text.endswith(f"No run of {benchmark} is recorded.\n")
    assert (text.count("not run") > 0) == (name != "digits")


def test_long_settings_are_broken_over_lines(tmp_path):
    settings = {"temperature": 0.25, "momentum": 0.75, "weight": 4.0, "prototypes": "learnable", "lr": 0.125}
    run(tmp_path, 0.8, settings=settings)
    text = render(compare("pacs", tmp_path))
    assert max(map(len, text.splitlines())) <= 110
    for field, value in settings.items():
        assert f"{field}={value}" in text


def test_a_folder_of_ones_own_has_a_table_too(tmp_path):
    run(tmp_path, 0.8, "birds", held_out="ink", domains=["ink", "oil"])
    table = compare("birds", tmp_path)
    assert list(table) == ["ink", "oil", "average"]
    assert table.loc["hypo (ours, cpu scale, n=1)"].tolist() == ["80.0", "not run", "not run"]


def test_names_of_algorithms():
    printed = {"HYPO (Ours)": "hypo", "HYPO (ours)": "hypo", "CE": "erm", "ERM": "erm", "PCL w/ SGD": "pcl"}
    printed |= {"I-Mixup": "i_mixup", "GroupDRO": "groupdro", "VREx": "vrex"}
    assert {name: registry_name(name) for name in printed} == printed


def test_a_misspelt_name_or_filter_names_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="unknown table 'ofice_home': did you mean office_home"):
        compare("ofice_home", tmp_path)
    run(tmp_path, 0.8)
    with pytest.raises(ValueError, match="unknown filter 'tempreture': did you mean temperature"):
        compare("pacs", tmp_path, tempreture=0.1)
