"""The order of methods under each rule of selection."""

import pytest
from made import run

from hypo import runs
from hypo.figures.ablations import learning_curves
from hypo.report import sensitivity

SWAD = {"swad": {"ood_accuracy": 0.6, "ood": {"cartoon": 0.6}}}


def of(tmp_path, *seeds, swad):
    """HYPO 5 points and more ahead of ERM; with `swad` none is ahead under that rule."""
    for seed in seeds:
        run(tmp_path, seed=seed, ood=0.75 + 0.01 * seed, rules=SWAD if swad else None)
        run(tmp_path, algorithm="erm", seed=seed, ood=0.70, rules=SWAD if swad else None)
    return runs.load(tmp_path)


def test_each_rule_has_its_own_numbers_and_lead(tmp_path):
    found = sensitivity.by_rule("pacs", of(tmp_path, 0, 1, swad=True)).set_index(["row", "rule"])
    assert found.loc[("hypo", "validation"), "value"] == pytest.approx(75.5)
    assert found.loc[(sensitivity.LEAD, "last"), "value"] == pytest.approx(5.5)
    assert found.loc[(sensitivity.LEAD, "swad"), "value"] == pytest.approx(0)
    shown = sensitivity.table("pacs", of(tmp_path, 2, swad=True)).frame
    assert [*shown["method"]] == ["ERM", "HYPO", sensitivity.LEAD] and [*shown][2:] == [*sensitivity.RULES.values()]


def test_domains_and_seeds_of_hypo_and_erm_count_and_a_method_that_lacks_one_is_left_out(tmp_path):
    of(tmp_path, 0, 1, swad=False)
    run(tmp_path, held_out="photo", ood=0.99)
    for seed in (0, 1, 2):
        run(tmp_path, algorithm="pcl", seed=seed, ood=0.8 + 0.01 * seed)
    run(tmp_path, algorithm="coral", seed=0, ood=0.1)
    found = sensitivity.by_rule("pacs", runs.load(tmp_path)).query("rule == 'last'").set_index("row")
    assert set(found.index) == {"hypo", "erm", "pcl", sensitivity.LEAD} and (found["n"] == 2).all()
    assert found.loc["hypo", "value"] == pytest.approx(75.5) and found.loc["pcl", "value"] == pytest.approx(80.5)


def test_the_order_is_said_once_or_rule_by_rule(tmp_path):
    frame = of(tmp_path, 0, swad=False)
    assert "the same under every rule: HYPO, ERM." in sensitivity.order("pacs", frame)
    other = tmp_path / "other"
    run(other, ood=0.75, rules={"last": {"ood_accuracy": 0.5}})
    run(other, algorithm="erm", ood=0.7)
    assert "ERM, HYPO (last epoch)" in sensitivity.order("pacs", runs.load(other))
    assert "no order" in sensitivity.order("vlcs", frame) and sensitivity.by_rule("vlcs", frame).empty


def test_curves_are_of_runs_that_differ_in_length_alone(tmp_path):
    for algorithm, settings in (("hypo", {}), ("hypo", {"epochs": 7}), ("erm", {}), ("pcl", {}), ("hypo", {"lr": 0.5})):
        run(tmp_path, algorithm=algorithm, settings=settings)
    run(tmp_path, held_out="photo")
    frame = runs.load(tmp_path)
    found = sensitivity.by_epoch(frame[frame["held_out"] == "cartoon"].iloc[0], frame)
    usual = found["epochs"].min()
    assert found.groupby(["method", "epochs"]).size().to_dict() == {("ERM", 5): 5, ("HYPO", 5): 5, ("HYPO", 7): 7}
    assert usual == 5 and (found["value"] == 25).all() and found["origins"].nunique() == 3
    assert "HYPO after 7 epochs, 25" in learning_curves(found, "cartoon of PACS", "curves").alt
