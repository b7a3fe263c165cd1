"""Differences between settings are between runs that differ in nothing else, and what was not run says so."""

import dataclasses
import math
import statistics

import pytest
from test_records import a_record

from hypo import ablations, records
from hypo.config import configure
from hypo.tables import paper

PACS = ("art_painting", "cartoon", "photo", "sketch")
WITHOUT = {"settings": {"separation": False}}


def run(folder, accuracy, benchmark="pacs", algorithm="hypo", held_out="cartoon", scale="cpu", seed=0, settings=None):
    """Write the record of a run with this OOD accuracy."""
    record = a_record(**dataclasses.asdict(configure(benchmark, algorithm, held_out, scale, seed, **(settings or {}))))
    record["benchmark"]["name"] = benchmark
    record["final"]["validation"] = record["final"]["validation"] | {"ood_accuracy": accuracy}
    return records.write(record, folder=folder)


def digits(folder, accuracy, **more):
    return run(folder, accuracy, "digits", scale="demo", **more)


def line(label, folder, row, source, column):
    cells = ablations.cells(label, ablations.read(folder))
    found = cells[(cells["row"] == row) & cells["source"].str.contains(source) & (cells["column"] == column)]
    return next(found.itertuples(), None)


def test_the_difference_is_paired_by_seed_and_domain(tmp_path):
    full, less = (0.80, 0.70, 0.75), (0.78, 0.69, 0.70)
    for seed in range(3):
        digits(tmp_path, full[seed], seed=seed)
        digits(tmp_path, less[seed], seed=seed, **WITHOUT)
    digits(tmp_path, 0.1, seed=3)  # no partner
    digits(tmp_path, 0.1, held_out="photo", **WITHOUT)  # no partner
    digits(tmp_path, 0.1, seed=0, settings={"separation": False, "temperature": 0.5})  # another setting
    found = line("ablation-sep", tmp_path, "separation loss: with − without", "digits", "cartoon")
    gaps = [100 * (a - b) for a, b in zip(full, less, strict=True)]
    assert found.n == 3
    assert found.value == pytest.approx(statistics.mean(gaps))
    assert found.spread == pytest.approx(statistics.stdev(gaps) / math.sqrt(3))
    alone = line("ablation-sep", tmp_path, "with separation loss", "digits", "cartoon")
    assert alone.n == 4 and alone.spread > found.spread
    assert line("ablation-sep", tmp_path, "separation loss: with − without", "digits", "photo") is None


def test_at_defaults_leaves_every_changed_setting_out(tmp_path):
    digits(tmp_path, 0.8)
    digits(tmp_path, 0.7, seed=1, settings={"swad": True})
    digits(tmp_path, 0.6, algorithm="erm")
    run(tmp_path, 0.9)
    found = ablations.at_defaults("hypo", ablations.read(tmp_path)).set_index("benchmark")
    assert found["ood"].to_dict() == {"digits": 0.8, "pacs": 0.9}
    assert all((tmp_path / name).exists() for name in found["file"])


def test_runs_that_failed_are_counted_by_setting(tmp_path):
    assert ablations.fallen(ablations.read(tmp_path)).endswith("train: none.")
    for seed in range(2):
        record = records.read(digits(tmp_path / "made", 0.1, seed=seed, **WITHOUT))
        record["final"]["validation"]["validation_accuracy"] = 0.1 if seed else 0.9
        records.write(
            {k: v for k, v in record.items() if k not in ("schema", "digest", "config_hash")}, folder=tmp_path
        )
    digits(tmp_path, 0.1)  # low on the held-out domain only
    found = ablations.fallen(ablations.read(tmp_path))
    assert found.endswith("train: digits, cartoon: hypo separation=False (1 of 2).")


def test_runs_on_corruptions_are_another_matter(tmp_path):
    digits(tmp_path, 0.8)
    digits(tmp_path, 0.1, held_out=None)
    assert ablations.accuracies(ablations.read(tmp_path), "digits", {})["value"].tolist() == [80.0]
    assert len(ablations.table("ema-lp", ablations.read(tmp_path)).frame)


def test_scales_are_never_mixed_and_only_the_papers_data_has_a_difference_to_it(tmp_path):
    run(tmp_path, 0.9)
    digits(tmp_path, 0.5)
    on_pacs = line("ema-lp", tmp_path, "moving averages", "PACS, cpu", "cartoon")
    on_digits = line("ema-lp", tmp_path, "moving averages", "digits", "cartoon")
    assert (on_pacs.value, on_pacs.n) == (pytest.approx(90), 1)
    assert on_pacs.difference == pytest.approx(90 - 82.3)
    assert on_digits.value == pytest.approx(50) and math.isnan(on_digits.difference)


def test_an_average_takes_the_seeds_that_have_every_domain(tmp_path):
    for seed, domains in ((0, PACS), (1, PACS[:2])):
        for at, domain in enumerate(domains):
            digits(tmp_path, 0.5 + 0.1 * at, held_out=domain, seed=seed)
    found = line("ema-lp", tmp_path, "moving averages", "digits", "average")
    assert (found.value, found.n) == (pytest.approx(65), 1)


@pytest.mark.parametrize("label", ablations.STUDIES)
def test_every_printed_number_is_shown_and_every_variant_is_run_or_not_run(label, tmp_path):
    study = ablations.STUDIES[label]
    table = ablations.table(label, ablations.read(tmp_path)).frame
    theirs = table[table["numbers"].str.startswith("paper")]
    shown = [f"{value:.1f}" for value in paper(label)["value"]]
    assert theirs[theirs["variant"].isin(study.variants)].iloc[:, 3:].to_numpy().ravel().tolist() == shown
    assert {theirs for theirs, _ in study.variants.values()} == set(paper(label)["algorithm"])
    ours = table[table["numbers"].str.startswith("ours")]
    assert set(ours["variant"]) == set(study.variants)
    assert set(ours.iloc[:, 3:].to_numpy().ravel()) == {"not run"}


def test_a_contrast_is_of_the_average_where_there_is_one(tmp_path):
    digits(tmp_path, 0.8)
    digits(tmp_path, 0.7, **WITHOUT)
    found = ablations.contrasts(["ablation-sep", "ema-lp"], ablations.read(tmp_path))
    assert found["column"].tolist() == ["average", "cartoon", "average"]
    assert found["value"].tolist() == pytest.approx([88.0 - 87.2, 10, 88.0 - 86.7])


def test_a_sweep_changes_one_field_and_lists_what_was_not_run(tmp_path):
    for seed, (low, base) in enumerate(((0.5, 0.6), (0.6, 0.8))):
        digits(tmp_path, base, seed=seed)
        digits(tmp_path, low, seed=seed, settings={"momentum": 0.5})
    digits(tmp_path, 0.1, settings={"momentum": 0.5, "temperature": 0.9})
    digits(tmp_path, 0.3, settings={"momentum": 0.7})
    runs = ablations.at(ablations.read(tmp_path), "digits", "demo", "cartoon")
    single = ablations.sweep(runs, "momentum", "digits")
    assert single.groupby("momentum")["value"].mean().to_dict() == pytest.approx({0.5: 55, 0.7: 30, 0.95: 70})
    table = ablations.sweep_table(single, "momentum", 0.95, "digits").frame.set_index("momentum")
    assert table.loc["0.5", "less that at 0.95 (points)"] == "−15.0 ± 5.0"
    assert table.loc["0.99", "accuracy (%)"] == "not run"
    assert table.loc["0.95, the paper's", "n"] == "2"


def test_gains_name_what_was_looked_for(tmp_path):
    digits(tmp_path, 0.6, algorithm="pcl")
    digits(tmp_path, 0.65, algorithm="pcl", settings={"swad": True})
    table = ablations.gains(ablations.read(tmp_path), "digits", {"swad": True}, ["erm", "pcl"])
    assert len(table.frame) == 1
    found = table.frame.iloc[0]
    assert (found["algorithm"], found["scale"], found["held out"], found["n"]) == ("pcl", "demo", "cartoon", 1)
    assert found["gain (points)"] == pytest.approx(5)
    assert "looked for: erm, pcl" in table.caption


def test_a_misspelt_table_names_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="unknown table 'ablation-sepp': did you mean ablation-sep"):
        ablations.cells("ablation-sepp", ablations.read(tmp_path))
