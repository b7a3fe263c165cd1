"""Differences between settings are between runs that differ in nothing else, and what was not run says so."""

import math
import statistics

import pytest
from made import PACS, digits, run
from scipy import stats

from hypo import runs
from hypo.paper import table
from hypo.report import studies
from hypo.report.text import number

WITHOUT = {"settings": {"separation": False}}
CONTRAST = "separation loss: with − without"


def line(label, folder, row, benchmark, column):
    found = studies.numbers(label, runs.load(folder), None if benchmark == "pacs" else benchmark)
    own = found[(found["row"] == row) & (found["who"] == "ours")]
    return next(own[own["column"] == column].itertuples(), None)


def test_the_difference_is_paired_by_seed_and_domain(tmp_path):
    full, less = (0.80, 0.70, 0.75), (0.78, 0.69, 0.70)
    for seed in range(3):
        digits(tmp_path, full[seed], seed=seed)
        digits(tmp_path, less[seed], seed=seed, **WITHOUT)
    digits(tmp_path, 0.1, seed=3)  # no partner
    digits(tmp_path, 0.1, held_out="photo", **WITHOUT)  # no partner
    digits(tmp_path, 0.1, seed=0, settings={"separation": False, "temperature": 0.5})  # another setting
    found = line("ablation-sep", tmp_path, CONTRAST, "digits", "cartoon")
    gaps = [100 * (a - b) for a, b in zip(full, less, strict=True)]
    low, high = stats.ttest_1samp(gaps, 0).confidence_interval(0.95)
    assert (found.n, found.value, found.low, found.high) == pytest.approx((3, statistics.mean(gaps), low, high))
    alone = line("ablation-sep", tmp_path, "with separation loss", "digits", "cartoon")
    assert alone.n == 4 and alone.sd > found.sd
    assert line("ablation-sep", tmp_path, CONTRAST, "digits", "photo") is None


def test_the_average_of_a_contrast_is_stratified_by_domain_and_needs_them_all(tmp_path):
    gaps = {}
    for place, domain in enumerate(PACS):
        for seed in range(2):
            gaps[domain, seed] = 1.0 + 3 * place + 0.5 * seed
            digits(tmp_path, 0.5 + gaps[domain, seed] / 100, held_out=domain, seed=seed)
            if (domain, seed) != ("sketch", 1):
                digits(tmp_path, 0.5, held_out=domain, seed=seed, **WITHOUT)
    del gaps["sketch", 1]
    found = line("ablation-sep", tmp_path, CONTRAST, "digits", "average")
    own = runs.estimate([*gaps.values()], [domain for domain, _ in gaps])
    assert (found.value, found.low, found.high, found.n) == pytest.approx((own.value, own.low, own.high, 7))
    assert "over n = 1 to 2 pairs of runs" in studies.table("ablation-sep", runs.load(tmp_path), "digits").caption
    assert line("ema-lp", tmp_path, "prototypes: averages − learnable", "digits", "average") is None


def test_a_comparison_with_a_run_that_failed_says_so_in_its_cell(tmp_path):
    for seed in range(2):
        digits(tmp_path, 0.8, seed=seed)
        digits(tmp_path, 0.2 + 0.1 * seed, seed=seed, cosine=0.99 if seed else 0.1, **WITHOUT)
    shown = studies.table("ablation-sep", runs.load(tmp_path), "digits").frame.set_index("method")["cartoon"]
    assert shown[f"{CONTRAST}, demo scale, n=2"].endswith("]\n1 of 2 failed to train")
    assert shown["without separation loss, demo scale, n=2"].endswith("\n1 of 2 failed to train")
    assert "failed" not in shown["with separation loss, demo scale, n=2"]


def test_swad_is_a_rule_of_selection_and_a_valley_from_the_start_is_said(tmp_path):
    for seed in range(2):
        run(tmp_path, seed=seed, ood=0.7, rules={"swad": {"ood_accuracy": 0.75}}, interval={"starts_at_first": True})
    shown = studies.table("pcl-swad", runs.load(tmp_path)).frame
    ours = dict(
        zip(shown["method"].shift(), shown["cartoon"].where(shown["method"].str.startswith("ours")), strict=True)
    )
    assert ours["HYPO"] == "70.0 ± 0.0"
    assert ours["HYPO + SWAD"] == "75.0 ± 0.0\nSWAD from the start in 2 of 2"
    assert ours["HYPO: with SWAD − without"] == "+5.0 [+5.0, +5.0]\nSWAD from the start in 2 of 2"


def test_runs_on_corruptions_are_another_matter(tmp_path):
    digits(tmp_path, 0.8)
    digits(tmp_path, {"fog": {"1": 0.1}}, held_out=None)
    found = line("ema-lp", tmp_path, "moving averages", "digits", "cartoon")
    assert (found.value, found.n) == (80.0, 1)


def test_scales_are_never_mixed_and_only_the_papers_data_has_a_difference_to_it(tmp_path):
    run(tmp_path, ood=0.9)
    digits(tmp_path, 0.5)
    on_pacs = line("ema-lp", tmp_path, "moving averages", "pacs", "cartoon")
    on_digits = line("ema-lp", tmp_path, "moving averages", "digits", "cartoon")
    assert (on_pacs.value, on_pacs.n) == (pytest.approx(90), 1)
    assert on_pacs.difference == pytest.approx(90 - 82.3)
    assert on_digits.value == pytest.approx(50) and math.isnan(on_digits.difference)


def test_digits_never_stand_among_the_numbers_of_a_benchmark(tmp_path):
    digits(tmp_path, 0.5)
    for label in ("vlcs-swad", "ablation-sep"):
        assert studies.numbers(label, runs.load(tmp_path))["who"].unique().tolist() == ["paper"]
    alone = studies.table("ablation-sep", runs.load(tmp_path), "digits")
    assert alone.about == ("digits",) and alone.caption.startswith("As in Table 11")


def test_an_average_takes_the_seeds_that_have_every_domain(tmp_path):
    for seed, domains in ((0, PACS), (1, PACS[:2])):
        for at, domain in enumerate(domains):
            digits(tmp_path, 0.5 + 0.1 * at, held_out=domain, seed=seed)
    found = line("ema-lp", tmp_path, "moving averages", "digits", "average")
    assert (found.value, found.n) == (pytest.approx(65), 1)


@pytest.mark.parametrize(
    "label", [label for label in studies.STUDIES if label not in ("alpha", "tau", "controls", "batches")]
)
def test_every_printed_number_is_shown(label, tmp_path):
    study, printed = studies.STUDIES[label], table(label)
    shown = studies.table(label, runs.load(tmp_path)).frame.set_index("method")
    named = {theirs: name for name, (theirs, _) in study.variants.items() if theirs}
    assert set(named) == set(printed["method"])
    for line in printed.itertuples():
        assert shown.loc[named[line.method], line.column.replace("_", " ")] == number(line.value)


def test_a_contrast_is_of_the_average_where_there_is_one(tmp_path):
    digits(tmp_path, 0.8)
    digits(tmp_path, 0.7, **WITHOUT)
    found = studies.contrasts(["ablation-sep", "ema-lp"], runs.load(tmp_path), "digits")
    assert found["column"].tolist() == ["cartoon"] and found["value"].tolist() == pytest.approx([10])
    found = studies.contrasts(["ablation-sep", "ema-lp"], runs.load(tmp_path))
    assert found["column"].tolist() == ["average"] * 2
    assert found["value"].tolist() == pytest.approx([88.0 - 87.2, 88.0 - 86.7])


def test_a_sweep_changes_one_field(tmp_path):
    for seed, (low, base) in enumerate(((0.5, 0.6), (0.6, 0.8))):
        digits(tmp_path, base, seed=seed)
        digits(tmp_path, low, seed=seed, settings={"momentum": 0.5})
    digits(tmp_path, 0.1, settings={"momentum": 0.5, "temperature": 0.9})
    digits(tmp_path, 0.3, settings={"momentum": 0.7})
    single = studies.sweep(runs.load(tmp_path), "momentum")
    assert single.groupby("momentum")["value"].mean().to_dict() == pytest.approx({0.5: 50, 0.7: 30, 0.95: 60})
    shown = studies.table("alpha", runs.load(tmp_path), "digits").frame.set_index("method")["cartoon"]
    low, high = stats.ttest_1samp([-10, -20], 0).confidence_interval(0.95)
    expected = f"−15.0 [{number(low, sign=True)}, {number(high, sign=True)}]"
    assert shown["momentum 0.5 − 0.95, demo scale, n=2"] == expected
    assert not [name for name in shown.index if "0.99" in name], "what was not run has no line"
    assert studies.sweep(runs.load(tmp_path / "none"), "momentum").empty


def test_a_sweep_compares_the_same_domains_and_seeds_at_every_value(tmp_path):
    """The default has more runs than any other value, and easier ones: they are in no mean, and are counted."""
    for domain in ("cartoon", "photo"):
        for seed, base in enumerate((0.6, 0.9, 0.9)):
            run(tmp_path, held_out=domain, seed=seed, ood=base)
            run(tmp_path, algorithm="erm", held_out=domain, seed=seed, ood=base - 0.1)
        run(tmp_path, held_out=domain, ood=0.7, settings={"temperature": 0.5})
    run(tmp_path, held_out="sketch", ood=0.1, settings={"temperature": 0.5})
    frame = runs.load(tmp_path)
    single = studies.sweep(frame, "temperature")
    for value in (0.1, 0.5):
        own = single[single["temperature"] == value]
        assert {*zip(own["held_out"], own["seed"], strict=True)} == {("cartoon", 0), ("photo", 0)}
    assert single.groupby("temperature")["value"].mean().to_dict() == pytest.approx({0.1: 60, 0.5: 70})
    erm = studies.at_places(runs.values(frame, {"algorithm": "erm"}, "ood_accuracy"), single)
    assert erm["value"].tolist() == pytest.approx([50, 50])
    said = studies.like_for_like(single, "temperature", "τ")
    assert "cartoon and photo held out, seed 0." in said and "4 at τ = 0.1 and 1 at τ = 0.5" in said
    assert studies.like_for_like(studies.sweep(frame, "momentum"), "momentum", "α") == "", "one value is no comparison"
    run(tmp_path, held_out="art_painting", ood=0.5, settings={"temperature": 0.9})
    apart = studies.sweep(runs.load(tmp_path), "temperature")
    assert apart.empty and "no figure" in studies.like_for_like(apart, "temperature", "τ")


def test_a_misspelt_table_names_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="unknown study 'ablation-sepp': did you mean ablation-sep"):
        studies.numbers("ablation-sepp", runs.load(tmp_path))


def test_controls_are_ours_alone_and_a_constant_temperature_is_not_the_default(tmp_path):
    """Each contrast is between runs that differ in what its name says; what was not run has no line and no column."""
    assert studies.table("controls", runs.load(tmp_path)).frame.empty
    for seed in range(2):
        run(tmp_path, seed=seed, ood=0.70)
        run(tmp_path, seed=seed, ood=0.60, settings={"start_temperature": None})
        run(tmp_path, algorithm="erm", seed=seed, ood=0.75)
        run(tmp_path, algorithm="erm", seed=seed, ood=0.80, settings={"head": "mlp"})
    made = studies.table("controls", runs.load(tmp_path))
    shown = made.frame.set_index("method")["cartoon"].to_dict()
    assert [*made.frame] == ["method", "cartoon"] and made.about == ("real data",)
    assert {name.removesuffix(", cpu scale, n=2"): cell.split(" ")[0] for name, cell in shown.items()} == {
        "ERM": "75.0",
        "ERM behind HYPO's head": "80.0",
        "HYPO": "70.0",
        "HYPO with a constant τ": "60.0",
        "HYPO − ERM": "−5.0",
        "both behind HYPO's head: HYPO − ERM": "−10.0",
        "start: falling τ − constant τ": "+10.0",
        "constant τ: HYPO − ERM": "−15.0",
    }
