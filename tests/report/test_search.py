"""The trials of a search, which of them is chosen, and what the choice rests on."""

import re

import pandas as pd
import pytest
from made import run

from hypo import runs
from hypo.algorithms import ALGORITHMS, method
from hypo.config import configure
from hypo.report import search, start
from hypo.training.evidence import groups

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
    trials = search.trials(frame)
    chosen = trials[trials["chosen"]].set_index("algorithm")
    assert [*chosen.index] == ["erm", "hypo"]
    assert tuple(chosen.loc["hypo", ["lr", "head_lr"]]) == RATES[-1]
    assert tuple(chosen.loc["erm", ["lr", "head_lr"]]) == RATES[0]
    said = search.search_in_words(frame)
    for (lr, head), name in ((RATES[-1], "HYPO"), (RATES[0], "ERM")):
        assert f"Chosen for {name}: a rate of {lr:g}, {head:g} times that for new layers." in said
    assert re.search("Trials of [^.]*PCL[^.]* are missing", said)
    assert said.endswith("The chosen trial is ahead of the next by, in points: 0.0 for ERM and 20.0 for HYPO.")
    shown = search.search_table(frame).frame
    assert shown.loc["HYPO", "chosen"] == shown.columns[len(RATES) - 1] and shown.loc["PCL", "chosen"] == ""
    assert [*shown.loc["ERM"].iloc[: len(RATES)]] == ["90.0"] * len(RATES)


def test_the_search_shows_nothing_of_held_out_images(tmp_path):
    shown = search.search_table(searched(tmp_path, hypo={RATES[0]: 0.7}))
    text = shown.frame.to_csv() + shown.numbers.to_csv()
    assert "70.0" in text and "12.3" not in text and "0.123" not in text


def test_every_method_of_the_search_has_the_same_trials():
    found = search.trials(runs.load("no such folder"))
    pairs = {name: {*zip(own["lr"], own["head_lr"], strict=True)} for name, own in found.groupby("algorithm")}
    assert set(pairs) == set(ALGORITHMS) and len({frozenset(own) for own in pairs.values()}) == 1


def test_without_a_record_every_trial_is_not_run():
    frame = runs.load("no such folder")
    assert {*search.search_table(frame).frame.to_numpy().flat} == {"not run", ""}
    assert search.made_again(frame) == "No chosen trial was made again."


def test_the_trials_on_pacs_differ_in_rates_alone():
    """As the page says: neither lambda nor the number of epochs is searched."""
    fields = start.planned(runs.load("no such folder"), *search.SEARCH)
    for _, own in fields.groupby("algorithm"):
        every = pd.DataFrame([*own["fields"]])
        assert {*every.columns[every.nunique(dropna=False) > 1]} == {"lr", "head_lr"}


def test_trials_on_cifar10_are_named_by_what_tells_them_apart(tmp_path):
    """Which is not the rate: it is the same in all of them."""
    cifar = ["search, CIFAR-10"]
    first = {"epochs": 20, "augmentation": "crops"}
    for settings, accuracy in ((first, 0.8), ({}, 0.9)):
        run(tmp_path, "cifar10", "erm", None, settings=settings, validation_accuracy=accuracy)
    made = search.search_table(runs.load(tmp_path), cifar)
    row, names = made.frame.loc["ERM"], ("20 epochs, crops", "30 epochs, light crops")
    assert [row[name] for name in names] == ["80.0", "90.0"] and row["chosen"] == names[1]
    assert "corruptions not looked at" in made.caption and "rate" not in made.caption
    assert [*made.frame][2:4] == [f"{names[0]}, τ falls over 30%", f"{names[1]}, τ falls over 80%"]
    said = search.search_in_words(runs.load(tmp_path), cifar)
    assert f"Chosen for ERM: {names[1]}. Trials of HYPO are missing" in said
    for settings, accuracy in ((first | {"start_share": 0.3}, 0.7), ({}, 0.8)):
        run(tmp_path, "cifar10", "hypo", None, settings=settings, validation_accuracy=accuracy)
    said = search.search_in_words(runs.load(tmp_path), cifar)
    assert f"Chosen for ERM: {names[1]}. Chosen for HYPO: {names[1]}, τ falls over 80%. What was chosen is" in said
    assert "rate" not in said


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (0.85, "which is below the 88.0% of the second best (0.001 (× 10)). The same run moved by 5.0 points"),
        (0.89, "which is not below the 88.0% of the second best (0.001 (× 10)). The same run moved by 1.0 points"),
    ],
)
def test_a_chosen_trial_that_was_made_again_is_held_against_the_second_best(tmp_path, monkeypatch, now, said):
    frame = searched(tmp_path, hypo=dict(zip(RATES, (0.88, 0.9, 0.7), strict=True)))
    trials = search.trials(frame)
    (best,) = trials[trials["chosen"]].itertuples()
    kept = {best.origins[0].file.removesuffix(".json"): {"measures": {"validation_accuracy": [0.9, now]}}}
    monkeypatch.setattr(search, "kept", lambda: kept)
    found = search.made_again(frame)
    assert (
        found.startswith("HYPO's chosen trial (0.003 (× 3)) has a validation accuracy of 90.0%; made again")
        and said in found
    )
    assert ("within noise" in found) == (now < 0.88)
    monkeypatch.setattr(search, "kept", lambda: {"another": {}})
    assert search.made_again(frame) == "No chosen trial was made again."


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
    shown = search.search_table(frame, ["search"]).frame
    assert shown.loc["ERM", ["augmentation pacs", "crops"]].tolist() == ["80.0", "90.0"]
    assert shown.loc["HYPO", ["crops", "weight=1.0", "weight=2.0"]].tolist() == ["", "70.0", "60.0"]
    assert shown["chosen"].tolist() == ["crops", "weight=1.0"]
    said = search.search_in_words(frame, ["search"])
    assert "Chosen for ERM: crops. Chosen for HYPO: weight=1.0." in said
    assert "The defaults of the scale differ from that for ERM." in said


@pytest.mark.parametrize(("headings", "held_out"), [(search.SEARCH, "sketch"), (["search, CIFAR-10"], None)])
def test_the_defaults_of_cpu_scale_are_the_winners_of_the_recorded_search(headings, held_out):
    trials = search.trials(runs.load(), headings)
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
