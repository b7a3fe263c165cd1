"""What the paper takes: counted operations against closed forms, the schedule against bounds, the tables as text."""

import itertools

import pytest

from hypo import cli
from hypo.config import configure
from hypo.report import cost, plan
from hypo.report.table import render
from hypo.sphere import BLOCK


@pytest.mark.parametrize(("dim", "width"), [(16, 1.0), (64, 0.5)])
def test_a_pass_backward_takes_twice_a_pass_forward_but_for_the_images(dim, width):
    net = plan.network("resnet18", dim, "cifar", width, 32)
    assert 2.9 < net.both / net.forward < 3.0


def test_operations_are_those_of_the_published_networks():
    """ResNet-50 at 224 px is known for 4.1 G multiplications with additions; the head adds 2048² + 2048 · 512."""
    net = plan.network("resnet50", 512, "imagenet", 1.0, 224)
    assert net.forward / 2 == pytest.approx(4.089e9 - 2048 * 1000 + 2048**2 + 2048 * 512, rel=2e-3)
    assert net.parameters == pytest.approx(25.56e6 - 2049 * 1000 + 2049 * 2048 + 2049 * 512, rel=2e-3)


def test_operations_grow_with_epochs_and_with_the_method(monkeypatch):
    config, longer = (configure("pacs", "erm", "cartoon", "paper", epochs=epochs) for epochs in (10, 20))
    monkeypatch.setattr(plan, "factors", dict)
    before = plan.operations(config)
    assert before > cost.passes(config) * plan.of(config).both
    assert 1.9 < plan.operations(longer) / before < 2.0
    monkeypatch.setattr(plan, "factors", lambda: {"erm": 3.0})
    assert 2.5 < plan.operations(config) / before < 3.0


def test_a_schedule_is_between_its_bounds_and_failures_lengthen_it():
    lengths = [3.0, 1.0, 2.0, 2.0, 1.0]
    assert plan.makespan(lengths, 1) == pytest.approx(sum(lengths))
    assert plan.makespan(lengths, 9) == pytest.approx(max(lengths))
    assert plan.makespan(lengths, 2) == pytest.approx(5.0)  # 3 and 1, 2, then 2 beside it, then 1
    usual, failing = (plan.makespan([10.0] * 40, 4, failures) for failures in (0.0, 2.0))
    expected = usual * (1 + 2.0 * plan.RESTART / 3600)
    assert failing == pytest.approx(expected, rel=0.05)
    assert plan.makespan([], 3) == 0


def test_the_plan_of_a_table_is_text_with_its_assumptions(capsys):
    assert cli.main(["plan", "table3", "figure2", "--device", "H100"]) == 0
    out = capsys.readouterr().out
    assert "12%" in out and "nothing was run on a GPU" in out
    rows = {line.split("  ")[0]: line.split() for line in out.splitlines()}
    assert rows["Table 3"][2:] == rows["Figure 2"][2:] == rows["all together"][2:]  # the same runs
    assert cli.main(["plan", "table3", "--device", "A10"]) == 2
    assert "did you mean A100" in capsys.readouterr().err


def test_hours_that_no_record_tells_are_not_known(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPO_RECORDS", str(tmp_path))
    table = plan.table(["table2"], "demo")
    assert "not known" in render(table) and table.numbers["hours"].isna().all()


def test_all_devices_take_the_runs_in_their_order_of_speed():
    numbers = plan.on_devices().numbers.set_index("GPU")
    assert numbers["hours"].is_monotonic_decreasing
    assert (numbers["on_64_failures_0.000"] >= numbers["longest"] - 1e-9).all()
    assert (numbers["on_1_failures_0.000"] - numbers["hours"]).abs().max() < 1e-6


def test_where_the_loss_stops_fitting():
    """Three arrays of a block of cosines, and of the logits of this many samples, are what a GPU of 11 GB holds."""
    samples = int(plan.largest_loss().frame.set_index("classes").loc["1,000,000", "11 GB"])
    assert 3 * 4 * (BLOCK + samples * 1_000_000) == pytest.approx(11e9, abs=3 * 4 * 1_000_000)


def test_the_log_of_killed_workflows_tells_of_each_run_once():
    starts = plan.killed_and_completed().numbers
    assert [*starts["ended"]] == ["SIGKILL", "SIGKILL", "all runs recorded"]
    assert (
        starts["recorded"].sum()
        == plan.workflow_log("tables")["runs"]
        == starts["begun"].sum() - starts["cut_off"].sum()
    )
    assert not starts["again"].any()
    begun = [{*each["begun"]} for each in plan.workflow_log("tables")["starts"]]
    for each, later in itertools.pairwise(begun):
        assert len(each & later) <= 2  # two runs at a time were cut off, and begun again


def test_on_slurm_one_job_was_killed_and_each_run_completed_once():
    jobs = plan.on_slurm().frame
    assert jobs["killed"].notna().sum() == 1 and not (jobs["killed"].notna() & jobs["completed"].notna()).any()
    assert sorted(jobs[jobs["completed"].notna()]["run"]) == sorted(jobs["run"].unique())
