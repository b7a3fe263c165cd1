"""The plan of the runs behind the book, and a record that is run again."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from helpers import run, small_runs
from made import a_record
from made import run as made_run
from own_folder import QUICK, folder_of
from scipy import stats

from hypo import records, runs
from hypo.config import configure
from hypo.report.run import verified
from hypo.runs import MEASURES
from hypo.training import engine, evidence, verify

TOP = Path(__file__).resolve().parents[2]
PLAN = """
- what: first
  why: a test
  runs: {benchmark: digits, scale: demo, held_out: [photo, sketch], algorithm: erm, seed: [0, 1],
         epochs: 1, dim: 8, width: 0.05, batch_size: 512}
- what: second
  why: another
  runs: {benchmark: digits, scale: demo, held_out: photo, algorithm: hypo,
         epochs: 1, dim: 8, width: 0.05, batch_size: 512}
  also:
    - {temperature: [0.1, 0.5]}
    - {separation: false}
- what: again
  why: what the first has already
  runs: {benchmark: digits, scale: demo, held_out: photo, algorithm: erm,
         epochs: 1, dim: 8, width: 0.05, batch_size: 512}
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RECORDS", "RUNS", "DATA"):
        monkeypatch.setenv(f"HYPO_{name}", str(tmp_path / name))
    return tmp_path


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yml"
    path.write_text(PLAN)
    return path


def test_a_plan_is_every_combination_once_in_its_order(plan):
    """All of the first seed before the second: a table without spread comes before half a table with it."""
    runs = evidence.plan(plan)
    assert [planned.what for planned in runs] == ["first"] * 4 + ["second"] * 3
    assert [(p.settings["held_out"], p.settings["seed"]) for p in runs[:4]] == [
        ("photo", 0),
        ("sketch", 0),
        ("photo", 1),
        ("sketch", 1),
    ]
    assert [p.settings.get("temperature") for p in runs[4:]] == [0.1, 0.5, None]


def test_each_run_of_the_plan_is_a_command_that_means_it(plan):
    for planned in evidence.plan(plan):
        words = evidence.command(planned.settings)[1:]
        given = {
            name.removeprefix("--").replace("-", "_"): text for name, text in zip(words[::2], words[1::2], strict=True)
        }
        assert configure(**given) == configure(**planned.settings)


def test_the_committed_plan_can_be_read_and_holds_the_main_table():
    runs = evidence.plan()
    main = [
        p.settings for p in runs if p.settings["benchmark"] == "pacs" and not set(p.settings) & {"lr", "temperature"}
    ]
    for algorithm in ("hypo", "erm", "pcl"):
        for held_out in ("art_painting", "cartoon", "photo", "sketch"):
            wanted = {"algorithm": algorithm, "held_out": held_out, "scale": "cpu"}
            seeds = [s["seed"] for s in main if wanted.items() <= s.items() and "head" not in s]
            assert {0, 1, 2} <= {*seeds} or (held_out == "cartoon" and {1, 2} <= {*seeds})


def test_a_misspelt_key_of_the_plan_gets_a_sentence(tmp_path):
    (tmp_path / "plan.yml").write_text(yaml.safe_dump([{"what": "x", "why": "y", "run": {}}]))
    with pytest.raises(ValueError, match="did you mean runs"):
        evidence.plan(tmp_path / "plan.yml")


@pytest.mark.heavy
def test_what_is_missing_is_made_and_what_is_there_is_not(tmp_path, capsys):
    runs = {"benchmark": str(folder_of(tmp_path / "images")), "held_out": "street", "algorithm": "erm"}
    runs |= QUICK | {"scale": "cpu", "backbone": "resnet18", "weights": "none"}
    plan = tmp_path / "plan.yml"
    plan.write_text(yaml.safe_dump([{"what": "first", "why": "a test", "runs": runs}]))
    assert "first: 0 of 1 recorded" in evidence.listing(evidence.by_heading(evidence.plan(plan), plan))
    assert evidence.make(2, evidence.plan(plan)) == 0
    (path,) = records.folder().glob("*.json")
    made = path.stat().st_mtime_ns
    assert evidence.make(2, evidence.plan(plan)) == 0
    assert path.stat().st_mtime_ns == made
    assert "1 of 1 runs are recorded, 0 to make" in capsys.readouterr().out
    assert evidence.listing(evidence.by_heading(evidence.plan(plan), plan)).startswith("first: 1 of 1 recorded")


def test_a_run_under_two_headings_counts_under_both_and_is_listed_once(tmp_path):
    runs = {"benchmark": "digits", "held_out": "photo", "algorithm": "erm", "scale": "demo", "seed": 7}
    plan = tmp_path / "plan.yml"
    groups = [{"what": "one", "why": "", "runs": runs}, {"what": "more", "why": "", "runs": runs | {"seed": [7, 8]}}]
    plan.write_text(yaml.safe_dump(groups))
    lines = evidence.listing(evidence.by_heading(evidence.plan(plan), plan)).splitlines()
    assert [line.partition(",")[0] for line in lines if " of " in line] == [
        "one: 0 of 1 recorded",
        "more: 0 of 2 recorded",
        "2 of 2 left",
    ]
    assert "1 to make listed above" in lines[2] and sum("--seed 7" in line for line in lines) == 1


def test_the_time_of_a_run_is_guessed_from_others_by_the_cost_of_their_methods(plan, monkeypatch):
    """ERM took 100 s and 10 s of evaluation; a step of HYPO costs twice as much, and evaluation is the same."""
    every = evidence.plan(plan)
    monkeypatch.setattr(evidence, "step_costs", lambda: {"hypo": 2.0})
    cost = {"seconds": 100.0, "evaluation_seconds": 10.0}
    fields = evidence.configured(every[0].settings).fields()
    made = [every[0]._replace(record={"config": fields, "cost": cost}), *every[1:]]
    assert [evidence.seconds(planned, made) for planned in (every[1], every[4])] == [110.0, 210.0]
    monkeypatch.setattr(evidence, "step_costs", dict)
    assert evidence.seconds(every[4], made) == 110.0 and evidence.seconds(every[4], every) is None


def test_what_is_left_is_told_in_hours_at_the_pace_of_the_runs_made(plan, monkeypatch, capsys):
    """Runs of the first kind take twice as long as recorded ones; of the second none is recorded."""
    every = evidence.plan(plan)
    monkeypatch.setattr(evidence, "seconds", lambda planned, _: 3600.0 if planned.what == "first" else None)
    monkeypatch.setattr(evidence, "_run", lambda *_: (0, 7200.0, ""))
    assert evidence.make(2, every) == 0
    begin, *lines = capsys.readouterr().out.splitlines()
    assert "7 to make, about 2.0 h and 3 whose time is not known; Ctrl-C" in begin
    assert lines[0].endswith("120 min; 6 left, about 3.0 h and 3 whose time is not known")
    assert lines[-1].endswith("120 min; 0 left") and "left, " not in lines[3]


@pytest.mark.heavy
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupt_ends_the_runs(plan, tmp_path, how):
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # ignored in the background
    code += "from pathlib import Path; from hypo.training.evidence import make, plan; "
    code += f"make(2, plan(Path({str(plan)!r})))"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", code], cwd=TOP, **quiet) as process:
        while not [*(tmp_path / "RUNS").glob("*.lock")] and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(how)
        assert process.wait() != 0
    assert len([*records.folder().glob("*.json")]) < 7


def test_a_run_on_the_same_machine_is_verified_to_the_last_bit(tmp_path, monkeypatch):
    small_runs(tmp_path, monkeypatch)
    monkeypatch.setattr(verify, "load", engine.load)
    record = run(epochs=1)
    (path,) = records.folder().glob("*.json")
    verdict = verify.verify(path)
    assert verdict.agrees and "to the last bit" in verdict.sentence
    assert verdict.measures["ood_accuracy"][0] == record["final"]["validation"]["ood_accuracy"]
    monkeypatch.setattr(verify, "log", lambda: tmp_path / "verified.json")
    assert verify.kept() == {} and verify.keep(path, verdict).is_file()
    shown = verified(runs.load()).frame
    assert {*shown["outcome"]} == {"the same to the last bit"} and shown["record"].str.contains("HYPO").all()
    assert [*shown["measure"]] == [MEASURES[name].words for name in verdict.measures]


def test_another_result_is_judged_by_the_spread_of_the_seeds(tmp_path, monkeypatch):
    small_runs(tmp_path, monkeypatch)
    monkeypatch.setattr(verify, "load", engine.load)
    run(epochs=1)
    (path,) = records.folder().glob("*.json")
    train = engine.train

    def otherwise(*arguments):
        record, *rest = train(*arguments)
        final = record["final"]["validation"]
        record = json.loads(json.dumps(record))
        record["final"]["validation"]["ood_accuracy"] = min(1.0, final["ood_accuracy"] + 0.4)
        return record, *rest

    monkeypatch.setattr(verify, "train", otherwise)
    verdict = verify.verify(path)
    assert not verdict.agrees and "no other seeds" in verdict.sentence

    def reach(points):
        return lambda *_: verify.Spread(dict.fromkeys(verify.MEASURES, points), 12, 4, 8)

    monkeypatch.setattr(verify, "seed_spread", reach(0.5))
    verdict = verify.verify(path)
    assert verdict.agrees and "(12 runs in 4 held-out domains, 8 degrees of freedom)" in verdict.sentence
    monkeypatch.setattr(verify, "seed_spread", reach(0.01))
    verdict = verify.verify(path)
    assert not verdict.agrees and verdict.sentence.endswith("of freedom): ood accuracy")


def seeds_of(folder, values, **more):
    """Records of one setting: held-out domain -> OOD accuracies, one per seed; the paths."""
    return [
        made_run(folder, held_out=domain, seed=seed, ood=value, **more)
        for domain, accuracies in values.items()
        for seed, value in enumerate(accuracies)
    ]


def test_the_spread_is_pooled_over_the_domains_of_a_setting_and_over_nothing_else(tmp_path):
    values = {"cartoon": (0.5, 0.53, 0.52), "photo": (0.9, 0.94), "sketch": (0.3,)}
    path, *_ = seeds_of(tmp_path, values)
    seeds_of(tmp_path, {"cartoon": (0.1, 0.9)}, algorithm="erm")
    seeds_of(tmp_path, {"cartoon": (0.1, 0.9)}, settings={"momentum": 0.5})
    found = verify.seed_spread(records.read(path), tmp_path)
    several = [(domain, value) for domain, own in values.items() for value in own]
    expected = runs.estimate([value for _, value in several], [domain for domain, _ in several])
    assert (found.runs, found.domains, found.df) == (5, 2, expected.df)  # one seed of sketch says nothing
    assert found.reach["ood_accuracy"] == pytest.approx(stats.t.ppf(0.975, expected.df) * 2**0.5 * expected.sd)
    assert found.reach["validation_accuracy"] == 0
    assert found.holds("ood_accuracy", 0.5, 0.5 + 0.99 * found.reach["ood_accuracy"])
    assert not found.holds("ood_accuracy", 0.5, 0.5 - 1.01 * found.reach["ood_accuracy"])


def test_a_setting_with_one_seed_in_each_domain_has_no_spread(tmp_path):
    path, *_ = seeds_of(tmp_path, {"cartoon": (0.5,), "photo": (0.9,)})
    assert verify.seed_spread(records.read(path), tmp_path) is None


def test_a_domain_and_corruptions_are_no_seeds_of_one_setting(tmp_path):
    path, *_ = seeds_of(tmp_path, {"cartoon": (0.5, 0.6)}, benchmark="digits", scale="demo")
    noise = {"gaussian_noise": {"1": 0.1}}
    for seed in range(3):
        made_run(tmp_path, "digits", "hypo", None, "demo", seed, ood=noise, ood_accuracy=seed / 10)
    assert verify.seed_spread(records.read(path), tmp_path).runs == 2


def test_validation_and_test_on_the_same_images_are_one_measure():
    same, other = a_record(id_accuracy=0.9), a_record(id_accuracy=0.875)
    assert verify.distinct(same) == ["validation_accuracy", "ood_accuracy"]
    assert verify.distinct(other) == [*verify.MEASURES]
    same["final"]["swad"]["id_accuracy"] = 0.5  # equal once by accident
    assert verify.distinct(same) == [*verify.MEASURES]


def test_the_table_judges_what_was_kept_by_the_records_and_says_where_that_was_otherwise(tmp_path, monkeypatch):
    path, *_ = seeds_of(tmp_path, {"cartoon": (0.5, 0.5), "photo": (0.9, 0.96)}, id_accuracy=0.9)
    measures = {"validation_accuracy": (0.9, 0.88), "id_accuracy": (0.9, 0.88), "ood_accuracy": (0.5, 0.55)}
    then = dict.fromkeys(measures, 0.03)
    kept = verify.Verdict(False, "", measures, then, {})._asdict()
    monkeypatch.setattr(verify, "log", lambda: tmp_path / "kept" / "verified.json")
    (tmp_path / "kept").mkdir()
    verify.log().write_text(json.dumps({path.stem: kept, "of another folder": kept}))
    shown = verified(runs.load(tmp_path)).frame.set_index("measure")
    assert [*shown.index] == ["validation accuracy", "OOD accuracy"]  # the test on the same images is left out
    assert shown.loc["validation accuracy", "outcome"] == "does not agree; it did with the 3.0 points allowed then"
    assert shown.loc["OOD accuracy", "outcome"] == "agrees; it did not with the 3.0 points allowed then"
    assert {*shown["from"]} == {"4 runs, df 2"}
