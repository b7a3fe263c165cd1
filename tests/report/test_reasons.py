"""Each suspected reason is told from the runs it is about, with their number, and is left out where there are none."""

import numpy as np
import pytest
from made import PACS, run
from test_released import stored

from hypo import runs
from hypo.report import reasons


def told(folder):
    """Reason, without its link -> what was seen, and in how many runs."""
    shown = reasons.table(runs.load(folder)).frame
    names = [name.partition("]")[0].removeprefix("[") for name in shown["suspected"]]
    return {name: (seen, n) for name, seen, n in zip(names, shown["what was seen"], shown["runs"], strict=True)}


def test_nothing_is_told_without_runs(tmp_path):
    assert reasons.table(runs.load(tmp_path)).frame.empty


def test_failed_runs_are_counted_over_every_setting_of_hypo_on_pacs(tmp_path):
    run(tmp_path)
    run(tmp_path, settings={"momentum": 0.5}, cosine=0.99)
    run(tmp_path, algorithm="pcl", cosine=0.99)
    run(tmp_path, "digits", scale="demo", cosine=0.99)
    seen, n = told(tmp_path)["runs that fail to train"]
    assert seen.startswith("1 of 2 runs of HYPO, 1 of them at the defaults,") and n == 2


def test_the_largest_difference_by_class_means_is_shown_either_way(tmp_path):
    z, y, ood_y = np.eye(2)[[0, 0, 1, 1]], np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0])
    run(tmp_path, embeddings=stored(z, y, ood_y, ood_y, np.eye(2)))
    run(tmp_path, seed=1, embeddings=stored(z, y, ood_y, ood_y, np.eye(2)[::-1]))  # 25% and 75%
    seen, n = told(tmp_path)["prototypes that batch norm leaves behind"]
    assert "50.0 points at most" in seen and n == 2


@pytest.mark.parametrize(("best", "place"), [(0.003, "0.003, lies inside"), (0.01, "0.01, is at the edge of")])
def test_a_rate_at_the_edge_of_the_search_is_told_as_that(tmp_path, best, place):
    for algorithm in ("hypo", "erm"):
        for lr, factor in ((0.003, 3.0), (0.001, 10.0), (0.01, 3.0)):
            accuracy = 0.9 if lr == best else 0.8
            run(tmp_path, algorithm=algorithm, settings={"lr": lr, "head_lr": factor}, validation_accuracy=accuracy)
    seen, n = told(tmp_path)["the learning rate"]
    assert seen.startswith(f"ERM and HYPO: the chosen rate, {place}") and n == 6
    assert "3, is at the edge" in seen, "no smaller factor was tried"


def test_the_order_under_the_rules_is_of_the_defaults(tmp_path):
    for algorithm, ood, swad in (("erm", 0.8, 0.7), ("hypo", 0.7, 0.8)):
        for domain in PACS:
            run(tmp_path, algorithm=algorithm, held_out=domain, ood=ood, rules={"swad": {"ood_accuracy": swad}})
    run(tmp_path, ood=0.99, settings={"momentum": 0.5})
    seen, n = told(tmp_path)["the rule of selection"]
    assert "depends on the rule" in seen and n == 8


def test_a_control_is_shown_beside_the_unchanged_lead_in_the_same_places(tmp_path):
    for seed in range(2):
        for domain, ood in (("cartoon", 0.70), ("photo", 0.99)):
            run(tmp_path, held_out=domain, seed=seed, ood=ood)
            run(tmp_path, algorithm="erm", held_out=domain, seed=seed, ood=0.80)
        run(tmp_path, seed=seed, ood=0.85 + 0.001 * seed, settings={"start_temperature": None})
    found = told(tmp_path)
    seen, n = found["the start: a constant τ"]
    assert seen.startswith("HYPO is ahead of ERM: +5.0") and "(2 pairs: cartoon; 2 seeds)" in seen
    assert seen.endswith("with the same domains and seeds, −10.0 [−10.0, −10.0].") and n == 6
    assert not any(name.startswith(("the head", "the network", "the length")) for name in found), "not run"


def test_the_value_that_validation_prefers_is_told_of_runs_in_the_same_places(tmp_path):
    for seed in range(2):
        run(tmp_path, seed=seed, validation_accuracy=0.80, ood=0.9)
        run(tmp_path, seed=seed, validation_accuracy=0.85, ood=0.1, settings={"temperature": 0.3})
    run(tmp_path, seed=2, validation_accuracy=0.99)  # 0.3 has no such seed
    seen, n = told(tmp_path)["the value of τ"]
    assert seen.startswith("By validation accuracy 0.3 is ahead of 0.1: 85.0%, and 80.0% with the next best, 0.1")
    assert "(cartoon held out, 2 runs of each value)" in seen and n == 4
    assert "the value of α" not in told(tmp_path), "one value only"
