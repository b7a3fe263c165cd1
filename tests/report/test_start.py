"""What the plan lists, next to what is recorded of it: failed runs by start, the trials of the search."""

import re

import pandas as pd
import pytest
from made import digits, run

from hypo import runs
from hypo.algorithms import ALGORITHMS, method
from hypo.config import configure
from hypo.report import start
from hypo.runs import together
from hypo.training.evidence import groups

STUDY = ("start study", "start study, more seeds")
CONSTANT, FALLING = "constant τ", "τ falls from 1"


def test_without_a_record_every_cell_says_so():
    frame = runs.load("no such folder")
    for made in (start.failures_by_start(frame, *STUDY), start.starts(frame, "hard_negatives=false", *STUDY)):
        assert (made.frame == "not run").all(axis=None) and not together(made.records)
    assert {*start.search_table(frame).frame.to_numpy().flat} == {"not run", ""}
    assert start.in_spite_of(frame, FALLING, *STUDY).endswith("nothing was run.")
    assert "nothing was run" in start.elsewhere(frame, "pacs", "cpu")


def test_failed_runs_are_counted_by_setting_and_start(tmp_path):
    for seed, cosine in enumerate((0.99, 0.2, 0.95)):
        settings = {"start_temperature": None, "hard_negatives": False}
        digits(tmp_path, 0.5, seed=seed, cosine=cosine, settings=settings, validation_accuracy=0.5 + 0.1 * seed)
    digits(tmp_path, 0.5, seed=0, settings={"hard_negatives": False}, validation_accuracy=0.8)
    digits(tmp_path, 0.5, seed=0, settings={"momentum": 0.5}, validation_accuracy=0.1, separation=0.9)
    digits(tmp_path, 0.5, seed=9, settings={"hard_negatives": False})  # a seed that is not planned
    digits(tmp_path, 0.5, seed=0, held_out="photo", settings={"hard_negatives": False})  # nor this style
    frame = runs.load(tmp_path)
    found = start.failures_by_start(frame, *STUDY)
    row = found.frame.loc["hard_negatives=false"]
    assert [*row] == ["2 of 3", "60.0 ± 10.0", "0 of 1", "80.0"]
    assert found.frame.loc["the defaults", f"{CONSTANT}: failed"] == "not run"
    assert len(together(found.records)) == 5
    other = start.starts(frame, "hard_negatives=false", *STUDY).frame
    assert other.loc[CONSTANT, "failed"] == "2 of 3" and other.loc[FALLING, "failed"] == "0 of 1"
    said = start.in_spite_of(frame, FALLING, *STUDY)
    assert (
        "momentum=0.5 in 1 of 1 (mean cosine of the prototypes 0.10, so this is not the heap)" in said
        and "hard_negatives" not in said
    )
    assert start.elsewhere(frame, "digits", "demo").count("of 3 runs with a constant τ failed") == 1


def test_five_seeds_of_both_starts_are_planned_for_each_ablation_of_the_paper():
    found = start.planned(runs.load("no such folder"), *STUDY)
    assert {*found["start"]} == {CONSTANT, FALLING}
    assert (found.groupby(["setting", "start"])["seed"].nunique() >= 5).all()
    wanted = ["separation=false", "hard_negatives=false", "prototypes=learnable", "weight=2.0", "weight=4.0"]
    wanted += [f"momentum={value}" for value in (0.5, 0.8, 0.9, 0.99)]
    wanted += [f"temperature={value}" for value in (0.05, 0.3, 0.5, 0.9)]
    assert {"", *wanted} <= {*found["setting"]}


RATES = sorted({(settings["lr"], settings["head_lr"]) for settings in groups()["search"]})


def searched(folder, **accuracies: dict[tuple[float, float], float]) -> pd.DataFrame:
    """Records of the search with these validation accuracies by method and pair of rates."""
    for algorithm, found in accuracies.items():
        for (lr, head_lr), accuracy in found.items():
            settings = {"lr": lr, "head_lr": head_lr}
            run(folder, "pacs", algorithm, "cartoon", settings=settings, validation_accuracy=accuracy, ood=0.123)
    return runs.load(folder)


def test_the_trial_with_the_highest_validation_accuracy_is_chosen(tmp_path):
    """Of equals the smaller rate, then the smaller factor; nothing while a trial is missing."""
    last = dict.fromkeys(RATES, 0.7) | {RATES[-1]: 0.9}
    frame = searched(tmp_path, hypo=last, erm=dict.fromkeys(RATES, 0.9), pcl=dict.fromkeys(RATES[1:], 0.9))
    trials = start.trials(frame)
    chosen = trials[trials["chosen"]].set_index("algorithm")
    assert [*chosen.index] == ["erm", "hypo"]
    assert tuple(chosen.loc["hypo", ["lr", "head_lr"]]) == RATES[-1]
    assert tuple(chosen.loc["erm", ["lr", "head_lr"]]) == RATES[0]
    said = start.search_in_words(frame)
    for (lr, head), name in ((RATES[-1], "HYPO"), (RATES[0], "ERM")):
        assert f"A rate of {lr:g}, with {head:g} times that for new layers, was chosen for {name}." in said
    assert re.search("Trials of [^.]*PCL[^.]* are missing", said)
    shown = start.search_table(frame).frame
    assert shown.loc["HYPO", "chosen"] == shown.columns[len(RATES) - 1] and shown.loc["PCL", "chosen"] == ""
    assert [*shown.loc["ERM"].iloc[: len(RATES)]] == ["90.0"] * len(RATES)


def test_the_search_shows_nothing_of_held_out_images(tmp_path):
    shown = start.search_table(searched(tmp_path, hypo={RATES[0]: 0.7}))
    text = shown.frame.to_csv() + shown.numbers.to_csv()
    assert "70.0" in text and "12.3" not in text and "0.123" not in text


def test_every_method_of_the_search_has_the_same_trials():
    found = start.trials(runs.load("no such folder"))
    pairs = {name: {*zip(own["lr"], own["head_lr"], strict=True)} for name, own in found.groupby("algorithm")}
    assert set(pairs) == set(ALGORITHMS) and len({frozenset(own) for own in pairs.values()}) == 1


def test_the_search_on_cifar10_has_one_rate_and_no_held_out_domain(tmp_path):
    cifar = ["search, CIFAR-10"]
    for settings, accuracy in (({"epochs": 20, "augmentation": "crops"}, 0.8), ({}, 0.9)):
        run(tmp_path, "cifar10", "erm", None, settings=settings, validation_accuracy=accuracy)
    made = start.search_table(runs.load(tmp_path), cifar)
    row = made.frame.loc["ERM"]
    assert (row["0.1"], row["chosen"]) == ("90.0", "0.1") and "corruptions not looked at" in made.caption
    assert {*row} == {"80.0", "90.0", "0.1", ""} and any("start_share=0.3" in name for name in made.frame)
    assert "A rate of 0.1 was chosen for ERM. Trials of HYPO are missing" in start.search_in_words(
        runs.load(tmp_path), cifar
    )


def test_trials_may_differ_in_more_than_rates(tmp_path, monkeypatch):
    """As lambda, which only HYPO has, or the augmentation."""
    usual = {"benchmark": "pacs", "scale": "cpu", "held_out": "cartoon", "seed": 0}
    trials = [{"algorithm": "erm"}, {"algorithm": "erm", "augmentation": "crops"}]
    trials += [{"algorithm": "hypo"}, {"algorithm": "hypo", "weight": 2.0}]
    monkeypatch.setattr(start, "groups", lambda: {"search": [usual | trial for trial in trials]})
    for trial, accuracy in zip(trials, (0.8, 0.9, 0.7, 0.6), strict=True):
        settings = {name: value for name, value in trial.items() if name != "algorithm"}
        run(tmp_path, algorithm=trial["algorithm"], validation_accuracy=accuracy, settings=settings)
    frame = runs.load(tmp_path)
    shown = start.search_table(frame, ["search"]).frame
    assert shown.loc["ERM", ["0.003 (× 3)", "0.003 (× 3), augmentation=crops"]].tolist() == ["80.0", "90.0"]
    assert shown.loc["HYPO", "0.003 (× 3), augmentation=crops"] == ""
    assert shown["chosen"].tolist() == ["0.003 (× 3), augmentation=crops", "0.003 (× 3)"]
    said = start.search_in_words(frame, ["search"])
    assert "new layers, and augmentation=crops was chosen for ERM" in said
    assert said.endswith("The defaults of the scale differ from that for ERM.")


@pytest.mark.parametrize(("headings", "held_out"), [(start.SEARCH, "sketch"), (["search, CIFAR-10"], None)])
def test_the_defaults_of_cpu_scale_are_the_winners_of_the_recorded_search(headings, held_out):
    trials = start.trials(runs.load(), headings)
    chosen = trials[trials["chosen"]].set_index("algorithm")
    assert held_out is None or {"hypo", "erm", "pcl"} <= {*chosen.index}
    (benchmark,) = {*trials["benchmark"]}
    usual = {name: configure(benchmark, name, held_out, "cpu", 3) for name in chosen.index}
    wrong = []
    for name, best in chosen.iterrows():
        if (usual[name].lr, usual[name].head_lr) != (best["lr"], best["head_lr"]):
            rates = f'{{"lr": {best["lr"]}, "head_lr": {best["head_lr"]}}}'
            file = f"{method(name).__module__.replace('.', '/')}.py"
            wrong.append(f"{file}: rates = {rates}" if held_out else f"hypo/config.py: CPU_CIFAR |= {rates}")
    assert not wrong, "the search chose other rates; write\n" + "\n".join(wrong)
