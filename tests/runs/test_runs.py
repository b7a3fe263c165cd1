"""One frame of all runs: what a row holds, what counts as failed, which runs were made with a setting."""

import numpy as np
import pytest
from made import PACS, a_record, arrays, digits, run

from hypo import CORRUPTIONS, records, runs
from hypo.runs import Origin


def test_a_row_has_the_configuration_what_it_changes_and_the_measures_of_every_rule(tmp_path):
    path = run(tmp_path, ood=0.5, rules={"oracle": {"ood_accuracy": 0.9}}, settings={"temperature": 0.5, "views": 2})
    (row,) = runs.load(tmp_path).to_dict("records")
    assert row["changed"] == {"temperature": 0.5, "views": 2} and not row["at_defaults"]
    assert (row["temperature"], row["momentum"], row["backbone"]) == (0.5, 0.95, "mobilenet_v2")
    assert (row["validation.ood_accuracy"], row["oracle.ood_accuracy"]) == (0.5, 0.9)
    assert row["domains"] == PACS and row["classes"][:2] == ("dog", "house")
    assert (row["origins"], row["path"], row["data"]) == ((Origin(path.name, "pacs"),), path, "ab" * 6)
    assert row["images_per_second"] == 800.0 and row["swad.interval"]["evaluations"] == 2


def test_at_the_defaults_is_one_definition(tmp_path):
    digits(tmp_path, 0.8)
    digits(tmp_path, 0.6, algorithm="erm", cosine=None)
    digits(tmp_path, 0.7, seed=1, settings={"separation": False})
    frame = runs.load(tmp_path)
    assert frame["at_defaults"].tolist() == [not own for own in frame["changed"]]
    assert sorted(runs.load(tmp_path, at_defaults=True)["algorithm"]) == ["erm", "hypo"]


def test_how_a_run_is_carried_out_is_no_change(tmp_path):
    record = a_record()
    record["environment"] |= {"accumulate": 4, "precision": "bfloat16", "compile": True}
    records.write(record, folder=tmp_path)
    assert runs.load(tmp_path)["at_defaults"].all()


def test_filters_take_a_value_or_several_and_a_misspelt_one_names_the_nearest(tmp_path):
    for seed in range(3):
        digits(tmp_path, 0.5, seed=seed)
    assert len(runs.load(tmp_path, seed=1)) == 1 and len(runs.load(tmp_path, seed=[0, 2])) == 2
    with pytest.raises(ValueError, match="unknown filter 'tempreture': did you mean temperature"):
        runs.load(tmp_path, tempreture=0.1)


def test_an_empty_folder_is_an_empty_frame_with_columns(tmp_path):
    frame = runs.load(tmp_path)
    assert frame.empty and {"benchmark", "changed", "failed", "origins"} <= {*frame}
    assert runs.values(frame, {"separation": False, "rule": "swad"}, "ood_accuracy").empty
    assert runs.accuracies(frame).empty


def test_a_copied_record_is_not_a_second_run(tmp_path):
    path = run(tmp_path)
    (tmp_path / "copy.json").write_bytes(path.read_bytes())
    assert len(runs.load(tmp_path)) == 1


@pytest.mark.parametrize(
    ("given", "failed"),
    [
        ({}, False),
        ({"cosine": 0.89}, False),
        ({"cosine": 0.91}, True),
        ({"cosine": 0.91, "algorithm": "pcl"}, False),  # predicts by a classifier
        ({"cosine": None, "algorithm": "erm"}, False),
        ({"validation_accuracy": 0.21}, False),  # ten classes
        ({"validation_accuracy": 0.19}, True),
        ({"ood": 0.01}, False),  # the held-out domain says nothing of the training
    ],
)
def test_failed_to_train_is_collapsed_prototypes_or_validation_near_chance(given, failed):
    record = a_record(**given)
    assert runs.failed_to_train(record) == failed


def test_a_run_may_be_in_the_heap_after_a_fifth_of_the_training_and_leave_it():
    """Or come to it later: where it was then and where it ends are two things."""

    def ends(*cosines):
        record = a_record()  # five epochs at cpu scale
        for each, cosine in zip(record["epochs"], cosines, strict=True):
            each["validation"] = each["validation"] | {"cosine": cosine}
        return runs.in_heap(record), runs.failed_to_train(record)

    assert ends(0.99, 0.2, 0.2, 0.2, 0.2) == (False, False)
    assert ends(0.99, 0.95, 0.8, 0.3, 0.2) == (True, False)
    assert ends(0.99, 0.95, 0.95, 0.95, 0.91) == (True, True)
    assert ends(0.2, 0.2, 0.2, 0.95, 0.95) == (False, True)
    assert ends(None, None, None, None, None) == (False, False)


def test_a_setting_means_every_other_field_at_its_default(tmp_path):
    digits(tmp_path, 0.5)
    digits(tmp_path, 0.6, settings={"temperature": 0.5})
    digits(tmp_path, 0.7, settings={"temperature": 0.5, "momentum": 0.5})
    digits(tmp_path, 0.8, algorithm="erm", cosine=None)
    frame = runs.load(tmp_path)

    def found(**setting):
        return runs.values(frame, setting, "ood_accuracy")["value"].tolist()

    assert found() == found(temperature=0.1) == found(momentum=0.95, separation=True) == [50.0]
    assert found(temperature=0.5) == [60.0] and found(temperature=0.5, momentum=0.5) == [70.0]
    assert found(algorithm="erm") == [80.0] and found(algorithm="vne") == found(momentum=0.5) == []


def test_a_rule_of_selection_is_part_of_a_setting(tmp_path):
    run(tmp_path, ood=0.5, rules={"swad": {"ood_accuracy": 0.6}}, interval={"starts_at_first": True})
    run(tmp_path, seed=1, ood=0.5, rules={"swad": {"ood_accuracy": 0.7}})
    frame = runs.load(tmp_path)
    assert runs.values(frame, {}, "ood_accuracy")["value"].tolist() == [50.0, 50.0]
    averaged = runs.values(frame, {"rule": "swad"}, "ood_accuracy")
    assert averaged["value"].tolist() == [60.0, 70.0] and averaged["starts_at_first"].tolist() == [True, False]
    assert not runs.values(frame, {}, "ood_accuracy")["starts_at_first"].any()


def test_accuracies_have_a_row_for_each_corruption_and_severity(tmp_path):
    ood = {name: {"1": 0.9, "5": 0.5 + place / 100} for place, name in enumerate(CORRUPTIONS)}
    run(tmp_path, "cifar10", held_out=None, ood=ood)
    run(tmp_path, "pacs", ood=0.25)
    assert len(runs.accuracies(runs.load(tmp_path), by_severity=True)) == 2 * 19 + 1 + 1
    found = runs.accuracies(runs.load(tmp_path))
    assert len(found) == 19 + 1 + 1
    assert found.query("column == 'cartoon'")["value"].tolist() == [25.0]
    assert found.query("column == 'clean'")["value"].tolist() == [87.5]
    frame = runs.load(tmp_path, benchmark="cifar10")
    for place, name in enumerate(CORRUPTIONS):
        assert runs.values(frame, {}, f"ood.{name}")["value"].tolist() == pytest.approx([70 + place / 2])


def test_embeddings_come_back_on_the_sphere_by_part(tmp_path):
    stored = {"prototypes": np.eye(4)[:2] * 5}
    for part, domain, n in (("id_test", 0, 3), ("ood_test", 1, 2)):
        kept = {"z": 3 * np.ones((n, 4)), "y": np.arange(n) % 2, "index": np.arange(n), "domain": np.full(n, domain)}
        stored |= {f"{part}_{name}": value for name, value in (kept | {"prediction": np.zeros(n, int)}).items()}
    found = runs.embeddings(run(tmp_path, embeddings=stored))
    np.testing.assert_allclose(found.z, 0.5)
    np.testing.assert_allclose(found.prototypes, np.eye(4)[:2])
    assert found.samples["part"].tolist() == ["id_test"] * 3 + ["ood_test"] * 2
    outside = found.of("ood_test")
    assert outside.samples[["label", "domain", "prediction"]].to_numpy().tolist() == [[0, 1, 0], [1, 1, 0]]
    assert outside.tensors()["z"].shape == (2, 4)
    assert runs.embeddings(run(tmp_path, seed=1)) is None


def test_without_prototypes_the_class_means_of_in_distribution_samples_serve(tmp_path):
    y = np.array([0, 0, 1, 1])
    angles = np.deg2rad([-20, 20, 70, 110])
    z = np.c_[np.cos(angles), np.sin(angles)]
    path = run(tmp_path, algorithm="erm", cosine=None, embeddings=arrays(z, y, np.zeros(4, int)))
    np.testing.assert_allclose(runs.embeddings(path).prototypes, np.eye(2), atol=2e-3)  # kept in float16


def test_a_measure_is_of_the_rule_that_is_asked_for_and_missing_where_it_was_not_taken(tmp_path):
    digits(tmp_path, 0.5, rules={"validation": {"sinkhorn": 0.25, "hard_pairs": 0.1}, "swad": {"sinkhorn": 0.75}})
    frame = runs.load(tmp_path)
    found = {rule: runs.values(frame, {"rule": rule}, "sinkhorn")["value"].tolist() for rule in records.RULES}
    assert found == {"validation": [0.25], "last": [], "oracle": [], "swad": [0.75]}
    digits(tmp_path, 0.5, seed=1)
    assert runs.values(runs.load(tmp_path), {}, "hard_pairs")["value"].tolist() == [0.1]


def test_a_misspelt_measure_names_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="unknown measure 'odd_accuracy': did you mean ood_accuracy"):
        runs.values(runs.load(tmp_path), {}, "odd_accuracy")
