"""Effects of the released code's ways are between runs that differ in nothing else, and are computed as they say."""

import dataclasses

import numpy as np
import pytest
from test_records import a_record

from hypo import ablations, fidelity, records
from hypo.config import configure


def run(folder, seed=0, embeddings=None, validation=0.8, identical=0.8, ood=0.5, oracle=0.5, held_out="cartoon", **own):
    record = a_record(**dataclasses.asdict(configure("digits", "hypo", held_out, "demo", seed, **own)))
    record["benchmark"]["name"] = "digits"
    final = {"validation_accuracy": validation, "id_accuracy": identical, "ood_accuracy": ood}
    record["final"]["validation"] = record["final"]["validation"] | final
    record["final"]["oracle"] = record["final"]["oracle"] | {"ood_accuracy": oracle}
    return records.write(record, embeddings, folder=folder)


def effects(folder, matter):
    (difference,) = [line for line in fidelity.DIFFERENCES if line.matter == matter]
    return difference.effect(ablations.at(ablations.read(folder), "digits", "demo"))


def test_released_less_paper_in_pairs(tmp_path):
    for seed, (one, two) in enumerate([(0.5, 0.6), (0.55, 0.57)]):
        run(tmp_path, seed, ood=one)
        run(tmp_path, seed, ood=two, views=2)
    run(tmp_path, 2, ood=0.1)
    ood, _ = effects(tmp_path, "views of an image")
    assert ood.gaps == pytest.approx([-10, -2]) and len(" ".join(ood.files).split()) == 4
    assert str(ood) == "OOD accuracy: −6.0 ± 4.0 (n = 2)"


def test_the_leak_is_validation_above_test(tmp_path):
    run(tmp_path, validation=0.8, identical=0.79)
    run(tmp_path, validation=0.99, identical=0.79, protocol="released")
    released, paper, _ = effects(tmp_path, "training and validation")
    assert released.gaps == pytest.approx([20]) and paper.gaps == pytest.approx([1])


def test_selection_on_the_test_set_is_the_oracle_less_the_result(tmp_path):
    run(tmp_path, ood=0.5, oracle=0.53)
    run(tmp_path, ood=0.5, oracle=0.9, temperature=0.5)
    (found,) = effects(tmp_path, "choice of the epoch, CIFAR-10")
    assert found.gaps == pytest.approx([3])


def test_batches_count_alike_however_short(tmp_path):
    y = np.zeros(fidelity.BATCH + 1, np.int64)
    prediction = y.copy()
    prediction[-1] = 1  # the only sample of the last batch is wrong
    run(tmp_path, embeddings={"ood_test_prediction": prediction, "ood_test_y": y})
    (found,) = effects(tmp_path, "accuracy")
    assert found.gaps == pytest.approx([50 - 100 * fidelity.BATCH / (fidelity.BATCH + 1)])


def test_what_was_not_run_or_cannot_be_says_so(tmp_path):
    table = fidelity.table(ablations.read(tmp_path), "digits", "demo")
    assert set(table["effect (points)"]) == {"not run", fidelity.UNMEASURED}


def test_drift_is_none_where_prototypes_are_the_class_means(tmp_path):
    z = np.eye(2)[[0, 0, 1, 1]]
    stored = {"id_test_z": z, "id_test_y": np.array([0, 0, 1, 1]), "id_test_domain": np.zeros(4, np.int64)}
    stored |= {"prototypes": np.eye(2), "ood_test_z": z, "ood_test_y": np.array([0, 0, 1, 0])}
    run(tmp_path, embeddings=stored)
    turned = stored | {"prototypes": np.eye(2)[::-1]}
    run(tmp_path, 1, embeddings=turned)
    found = fidelity.drift(ablations.read(tmp_path)).set_index("seed")
    assert found.loc[0, "least cosine"] == pytest.approx(1) and found.loc[1, "mean cosine"] == pytest.approx(0)
    assert found.loc[0, ["by prototypes", "by class means"]].tolist() == [75, 75]
    assert found.loc[1, ["by prototypes", "by class means"]].tolist() == [25, 75]


def test_collapse_compares_learning_rates_only(tmp_path):
    run(tmp_path)
    run(tmp_path, lr=0.1)
    run(tmp_path, lr=0.1, temperature=0.5)
    assert fidelity.collapses(ablations.read(tmp_path))["learning rate"].tolist() == ["0.05", "0.1"]
