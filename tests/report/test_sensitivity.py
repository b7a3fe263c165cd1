"""The order of methods under each rule of selection."""

import pytest
from made import run
from scipy import stats

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


def test_a_method_counts_with_its_own_seeds_and_is_left_out_where_it_lacks_a_domain(tmp_path):
    """More seeds of HYPO and ERM than of the others must not drop the others."""
    of(tmp_path, 0, 1, swad=False)
    for name in ("hypo", "erm", "pcl"):
        run(tmp_path, algorithm=name, held_out="photo", ood=0.99)  # of seed 0 only
    run(tmp_path, algorithm="pcl", ood=0.81)
    run(tmp_path, algorithm="coral", ood=0.1)
    found = sensitivity.by_rule("pacs", runs.load(tmp_path)).query("rule == 'last'").set_index("row")
    assert found["n"].to_dict() == {"hypo": 1, "erm": 1, "pcl": 1, sensitivity.LEAD: 3}
    assert found.loc["hypo", "value"] == pytest.approx(87) and found.loc["pcl", "value"] == pytest.approx(90)


def test_the_spread_is_that_over_seeds_and_not_over_domains(tmp_path):
    for seed in (0, 1):
        for held_out, ood in (("cartoon", 0.6), ("photo", 0.9)):
            run(tmp_path, held_out=held_out, seed=seed, ood=ood + 0.02 * seed)
    found = sensitivity.by_rule("pacs", runs.load(tmp_path))
    assert (found["n"] == 2).all() and found["sd"].tolist() == pytest.approx([2**0.5] * 3)


def test_the_orders_of_many_methods_are_compared_by_rank(tmp_path):
    names = ["erm", "pcl", "coral", "mmd", "irm"]
    run(tmp_path, ood=0.8, rules={"swad": {"ood_accuracy": 0.1}})
    for place, name in enumerate(names):
        run(tmp_path, algorithm=name, ood=0.7 - 0.1 * place)
    said = sensitivity.order("pacs", runs.load(tmp_path))
    assert "the order of 6 methods depends on the rule" in said and "+1.00 for last epoch" in said
    assert (
        f"{stats.spearmanr([8, 7, 6, 5, 4, 3], [1, 7, 6, 5, 4, 3]).statistic:+.2f} for SWAD".replace("-", "−") in said
    )
    assert said.endswith("HYPO is 1st (epoch chosen on validation), 1st (last epoch) and 6th (SWAD).")


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


def test_runs_without_a_valley_are_counted_by_method(tmp_path):
    for algorithm, valleys in (("hypo", (True, True)), ("pcl", (True, False))):
        for seed, valley in enumerate(valleys):
            run(tmp_path, algorithm=algorithm, seed=seed, interval={"valley": valley})
    frame = runs.load(tmp_path)
    said = sensitivity.valleys(frame, frame.iloc[0], frame.iloc[0])
    assert "1 has no valley (" in said and "HYPO 0 of 2" in said and "PCL 1 of 2" in said
