"""What the plan lists, next to what is recorded of it: runs in the heap and failed ones by start."""

import pytest
from made import digits, run

from hypo import records, runs
from hypo.config import configure
from hypo.report import start
from hypo.report.start import CONSTANT, FALLING
from hypo.runs import estimate, together

STUDY = ("start study", "start study, more seeds")
OTHERS = (*STUDY, "start study, other starts")
WITHOUT = {"hard_negatives": False}


def test_without_a_record_every_cell_says_so():
    frame = runs.load("no such folder")
    for made in (start.failures_by_start(frame, *STUDY), start.starts(frame, "hard_negatives=false", *STUDY)):
        assert (made.frame == "not run").all(axis=None) and not together(made.records)
    assert start.endings(frame, FALLING, *STUDY).endswith("nothing was run.")
    assert "nothing was run" in start.elsewhere(frame, "pacs", "cpu")
    assert "cannot be compared" in start.starts_in_words(frame, "hard_negatives=false", *OTHERS)


def left_late(folder, **more):
    """A run that is in the heap after a fifth of the training, and not at the end."""
    path = digits(folder, 0.5, cosine=0.95, **more)
    record = records.read(path)
    record["epochs"][-1]["validation"]["cosine"] = 0.2
    path.unlink()
    records.write(record, None, folder)


def test_runs_in_the_heap_and_failed_ones_are_counted_by_setting_and_start(tmp_path):
    constant = WITHOUT | {"start_temperature": None}
    digits(tmp_path, 0.5, seed=0, cosine=0.99, settings=constant, validation_accuracy=0.1)
    digits(tmp_path, 0.5, seed=1, cosine=0.2, settings=constant, validation_accuracy=0.7)
    left_late(tmp_path, seed=2, settings=constant, validation_accuracy=0.4)
    digits(tmp_path, 0.5, seed=0, settings=WITHOUT, validation_accuracy=0.8)
    digits(tmp_path, 0.5, seed=0, settings={"momentum": 0.5}, validation_accuracy=0.1, separation=0.9)
    digits(tmp_path, 0.5, seed=9, settings=WITHOUT)  # a seed that is not planned
    digits(tmp_path, 0.5, seed=0, held_out="photo", settings=WITHOUT)  # nor this style
    frame = runs.load(tmp_path)
    found = start.failures_by_start(frame, *STUDY)
    row = found.frame.loc["hard_negatives=false"]
    assert [*row] == ["2 of 3", "1 of 3", "40.0 ± 30.0", "0 of 1", "0 of 1", "80.0"]
    assert found.frame.loc["the defaults", f"{CONSTANT}: failed"] == "not run"
    assert len(together(found.records)) == 5
    other = start.starts(frame, "hard_negatives=false", *STUDY).frame
    assert other.loc[CONSTANT, "heap"] == "2 of 3" and other.loc[FALLING, "failed"] == "0 of 1"
    said = start.endings(frame, CONSTANT, *STUDY)
    assert "2 of 3 runs are in the heap after a fifth of the training. 1 of these 2 failed." in said
    assert said.endswith("One left the heap later and ends at a validation accuracy of 40.0%.")
    said = start.endings(frame, FALLING, *STUDY)
    assert "none of 2 runs are in the heap" in said and "hard_negatives" not in said
    assert said.endswith("momentum=0.5 in 1 of 1 (mean cosine of the prototypes 0.10).")
    assert "2 and 1 of 3 with a constant τ" in start.elsewhere(frame, "digits", "demo")


def test_prototypes_that_stay_together_may_still_tell_classes_apart(tmp_path):
    """A run of HYPO, which predicts by them, is counted as failed, one of PCL is not; the sentence has what each
    reaches."""
    together = {"cosine": 0.95, "separation": 0.05, "validation_accuracy": 0.8}
    digits(tmp_path, 0.5, algorithm="pcl", settings={"start_temperature": None}, **together)
    said = start.endings(runs.load(tmp_path), CONSTANT, "start study, rates")
    assert "None of these 1 failed. One stays there and tells classes apart all the same: 80.0% on validation." in said
    digits(tmp_path, 0.5, settings=WITHOUT | {"start_temperature": None, "lr": 0.1}, **together)
    said = start.endings(runs.load(tmp_path), CONSTANT, "start study, rates")
    assert "1 of the failed ends with prototypes close together and at 80.0% on validation" in said


def test_starts_are_compared_on_the_seeds_that_all_have(tmp_path):
    for seed, (usual, longer) in enumerate(((0.7, 0.74), (0.8, 0.82), (0.9, 0.99))):
        digits(tmp_path, 0.1, seed=seed, settings=WITHOUT, validation_accuracy=usual)
        digits(tmp_path, 0.9, seed=seed, settings=WITHOUT | {"start_share": 0.6}, validation_accuracy=longer)
        digits(tmp_path, 0.9, seed=seed, settings=WITHOUT | {"freeze": 1.0}, validation_accuracy=usual + 0.02)
        digits(tmp_path, 0.9, seed=seed, settings=WITHOUT | {"centre": True}, validation_accuracy=usual - 0.05)
    digits(tmp_path, 0.5, seed=3, settings=WITHOUT, validation_accuracy=0.1)  # more seeds of the default alone
    frame = runs.load(tmp_path)
    shown = start.starts(frame, "hard_negatives=false", *OTHERS).frame
    assert shown.loc[FALLING, ["failed", "validation (%)"]].tolist() == ["0 of 3", "80.0 ± 10.0"]
    lead = estimate([4.0, 2.0, 9.0])
    longer = f"{FALLING} over 60% of the training"
    interval = f"[\N{MINUS SIGN}{-lead.low:.1f}, +{lead.high:.1f}]"
    assert shown.loc[longer, "ahead of the default (points)"] == f"+5.0 {interval}"
    said = start.starts_in_words(frame, "hard_negatives=false", *OTHERS)
    assert (
        f"validation accuracy is 80.0%. 2 of the 3 other starts are ahead: {longer} by +5.0 points {interval};" in said
    )
    assert f"excludes zero for {FALLING}, backbone frozen for 1 epoch; all other leads are within" in said


def test_leads_within_the_spread_of_the_seeds_are_said_to_be(tmp_path):
    for seed, (usual, other) in enumerate(((0.7, 0.8), (0.8, 0.78))):
        digits(tmp_path, 0.1, seed=seed, settings=WITHOUT, validation_accuracy=usual)
        digits(tmp_path, 0.1, seed=seed, settings=WITHOUT | {"start_temperature": 2.0}, validation_accuracy=other)
    said = start.starts_in_words(runs.load(tmp_path), "hard_negatives=false", *OTHERS)
    assert "1 of the 1 other starts is ahead: τ falls from 2 by +4.0 points" in said
    assert said.endswith("Every one of these intervals includes zero, so all leads are within the spread of the seeds.")


def test_the_default_start_is_the_one_that_others_are_compared_with():
    found = start.planned(runs.load("no such folder"), *STUDY)
    assert {*found.loc[found["usual"], "start"]} == {FALLING}
    assert configure("digits", "hypo", "cartoon", "demo").method.start_share == 0.3


def test_on_pacs_two_starts_are_planned(tmp_path):
    """As the page says: none of the other starts is tried there."""
    run(tmp_path, "pacs", "hypo", "cartoon", settings={"start_temperature": None})
    found = start.planned(runs.load("no such folder"), *start.groups())
    assert {*found.loc[(found["benchmark"] == "pacs") & (found["algorithm"] == "hypo"), "start"]} == {CONSTANT, FALLING}
    said = start.planned_starts(runs.load(tmp_path), "pacs")
    assert f"{CONSTANT} (1 of " in said and f"{FALLING} (0 of " in said


def test_what_the_page_says_of_whole_runs_is_on_record():
    """A larger lambda always led into the heap at constant tau; with twice the rate more of these runs left it."""
    frame = runs.load()
    if frame.empty:
        pytest.skip("no record here")
    usual = start.planned(frame, *STUDY)
    usual = usual[usual["start"] == CONSTANT]
    assert usual[usual["setting"].isin(["weight=2.0", "weight=4.0"])]["in_heap"].all()
    fast = start.planned(frame, "start study, rates")
    fast = fast[(fast["start"] == CONSTANT) & (fast["setting"] == "lr=0.1, weight=4.0")]
    assert fast["in_heap"].all()
    assert fast["failed"].mean() < usual[usual["setting"] == "weight=4.0"]["failed"].mean()
    said = start.starts_in_words(frame, "hard_negatives=false", *OTHERS)
    ahead = said.split("are ahead: ")[1].split("The interval")[0]
    assert "over 60% of the training by" in ahead and "warm-up of 5 epochs by" in ahead


def test_five_seeds_of_both_starts_are_planned_for_each_ablation_of_the_paper():
    found = start.planned(runs.load("no such folder"), *STUDY)
    assert {*found["start"]} == {CONSTANT, FALLING}
    assert (found.groupby(["setting", "start"])["seed"].nunique() >= 5).all()
    wanted = ["separation=false", "hard_negatives=false", "prototypes=learnable", "weight=2.0", "weight=4.0"]
    wanted += [f"momentum={value}" for value in (0.5, 0.8, 0.9, 0.99)]
    wanted += [f"temperature={value}" for value in (0.05, 0.3, 0.5, 0.9)]
    assert {"", *wanted} <= {*found["setting"]}
