"""Effects of the released code's ways are between runs that differ in nothing else, and are computed as they say."""

import numpy as np
import pytest
from made import digits, run

from hypo import runs
from hypo.report import released
from hypo.report.text import NOT_RUN
from hypo.runs import together


def effects(folder, matter):
    (difference,) = [line for line in released.DIFFERENCES if line.matter == matter]
    return [effect.gaps(runs.load(folder)) for effect in difference.effects]


def test_released_minus_paper_in_pairs(tmp_path):
    for seed, (one, two) in enumerate([(0.5, 0.6), (0.55, 0.57)]):
        digits(tmp_path, one, seed=seed)
        digits(tmp_path, two, seed=seed, settings={"views": 2})
    digits(tmp_path, 0.1, seed=2)
    ood, _ = effects(tmp_path, "views of an image")
    assert ood["value"].tolist() == pytest.approx([-10, -2]) and len(together(ood["origins"])) == 4
    shown = released.table(runs.load(tmp_path), "digits", "demo").frame
    line = shown[shown["matter"] == "views of an image"].iloc[0]
    assert line["effect (points)"].startswith("−6.0 [−56.8, +44.8]") and line["n"] == "2"


def test_the_leak_is_in_the_validation_accuracy_and_splits_may_differ(tmp_path):
    """On PACS the in-distribution test images are those of validation, so it is not told by a difference of the two."""
    run(tmp_path, ood=0.5, validation_accuracy=0.8, id_accuracy=0.8)
    run(tmp_path, ood=0.6, validation_accuracy=0.99, id_accuracy=0.99, settings={"protocol": "released"})
    leak, ood = effects(tmp_path, "training and validation")
    assert leak["value"].tolist() == pytest.approx([19]) and ood["value"].tolist() == pytest.approx([10])


def test_severities_are_those_of_cifar10_beside_pacs(tmp_path):
    run(tmp_path, "cifar10", held_out=None, ood={"fog": {"1": 0.9, "3": 0.5, "5": 0.1}})
    shown = released.table(runs.load(tmp_path), "pacs", "cpu").frame.set_index("measured by")
    line = shown.loc["severity 1 alone minus all five"]
    assert line["effect (points)"].startswith("+40.0") and line["held out"] == "none: corruptions of CIFAR-10"


def test_the_choice_of_the_epoch_on_cifar10_is_measured_there(tmp_path):
    run(tmp_path, ood=0.5, rules={"oracle": {"ood_accuracy": 0.9}})
    chosen = ("choice of the epoch, CIFAR-10", "effect (points)")
    assert released.table(runs.load(tmp_path), "pacs", "cpu").frame.set_index("matter").loc[chosen] == NOT_RUN
    ood = {"fog": {"1": 0.5, "5": 0.5}}
    run(tmp_path, "cifar10", held_out=None, ood=ood, rules={"oracle": {"ood_accuracy": 0.52}})
    line = released.table(runs.load(tmp_path), "pacs", "cpu").frame.set_index("matter").loc[chosen[0]]
    assert line["effect (points)"].startswith("+2.0") and line["n"] == "1"


def test_each_row_names_the_domains_of_its_own_pairs(tmp_path):
    for domain in ("cartoon", "sketch"):
        run(tmp_path, held_out=domain)
        run(tmp_path, held_out=domain, settings={"hard_negatives": False})
    run(tmp_path, settings={"views": 2})
    shown = released.table(runs.load(tmp_path), "pacs", "cpu").frame.set_index("matter")["held out"]
    assert (shown["hard negatives"], shown["views of an image"]) == ("cartoon and sketch", "cartoon")
    assert shown["start of the prototypes"] == "", "not run"


def test_selection_on_the_test_set_is_the_oracle_minus_the_result(tmp_path):
    digits(tmp_path, 0.5, rules={"oracle": {"ood_accuracy": 0.53}})
    digits(tmp_path, 0.5, rules={"oracle": {"ood_accuracy": 0.9}}, settings={"temperature": 0.5})
    (found,) = effects(tmp_path, "choice of the epoch, CIFAR-10")
    assert found["value"].tolist() == pytest.approx([3])


def stored(z, y, ood_y, ood_prediction, prototypes):
    n = len(ood_y)
    inside = {"z": z, "y": y, "domain": np.zeros(len(y), int), "index": np.arange(len(y)), "prediction": y}
    outside = {"z": np.resize(z, (n, z.shape[1])), "y": ood_y, "domain": np.ones(n, int), "index": np.arange(n)}
    outside |= {"prediction": ood_prediction}
    parts = (("id_test", inside), ("ood_test", outside))
    return {f"{part}_{name}": value for part, kept in parts for name, value in kept.items()} | {
        "prototypes": prototypes
    }


def test_batches_count_alike_however_short(tmp_path):
    y = np.zeros(released.BATCH + 1, np.int64)
    prediction = y.copy()
    prediction[-1] = 1  # the only sample of the last batch is wrong
    digits(tmp_path, 0.5, embeddings=stored(np.eye(2), np.array([0, 1]), y, prediction, np.eye(2)))
    digits(tmp_path, 0.5, seed=1)
    (found,) = effects(tmp_path, "accuracy")
    assert found["value"].tolist() == pytest.approx([50 - 100 * released.BATCH / (released.BATCH + 1)])


def test_severities_are_against_the_mean_of_all(tmp_path):
    ood = {"fog": {"1": 0.9, "3": 0.5, "5": 0.1}, "snow": {"1": 0.7, "3": 0.5, "5": 0.3}}
    digits(tmp_path, ood, held_out=None)
    mild, worst = effects(tmp_path, "severity of the corruptions")
    assert (*mild["value"], *worst["value"]) == pytest.approx((30, -30))


def test_what_was_not_run_or_cannot_be_says_so(tmp_path):
    shown = released.table(runs.load(tmp_path), "digits", "demo").frame
    assert set(shown["effect (points)"]) == {NOT_RUN, "not measured"}


def test_drift_is_none_where_prototypes_are_the_class_means(tmp_path):
    z, y = np.eye(2)[[0, 0, 1, 1]], np.array([0, 0, 1, 1])
    ood_y = np.array([0, 0, 1, 0])
    digits(tmp_path, 0.5, embeddings=stored(z, y, ood_y, ood_y, np.eye(2)))
    digits(tmp_path, 0.5, seed=1, embeddings=stored(z, y, ood_y, ood_y, np.eye(2)[::-1]))
    found = released.drift(runs.load(tmp_path)).set_index("seed")
    assert found.loc[0, "smallest cosine"] == pytest.approx(1) and found.loc[1, "mean cosine"] == pytest.approx(0)
    assert found.loc[0, ["by prototypes", "by class means"]].tolist() == [75, 75]
    assert found.loc[1, ["by prototypes", "by class means"]].tolist() == [25, 75]


def test_drift_in_words_has_the_largest_change_and_the_mean_with_its_sign(tmp_path):
    z, y, ood_y = np.eye(2)[[0, 0, 1, 1]], np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0])
    digits(tmp_path, 0.5, embeddings=stored(z, y, ood_y, ood_y, np.eye(2)))
    digits(tmp_path, 0.5, seed=1, embeddings=stored(z, y, ood_y, ood_y, np.eye(2)[::-1]))  # 25% and 75%
    said = released.drift_in_words(released.drift(runs.load(tmp_path)))
    assert said.startswith("On the digits,") and "by 50.0 points at most, and by +25.0 on average over 2 runs" in said
