"""The workflow: its targets are the paper's, a killed one goes on, and nothing is run twice."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hypo import cli, paper, records
from hypo.algorithms import ALGORITHMS
from hypo.config import configure
from hypo.training import evidence

TOP = Path(__file__).resolve().parents[1]
SMALL = {"epochs": 1, "dim": 8, "width": 0.1, "fraction": 0.9}
PLAN = [
    {
        "what": "Table 98",
        "why": "a test",
        "runs": {"benchmark": "digits", "scale": "demo", "held_out": ["photo", "sketch", "cartoon"], "algorithm": "erm"}
        | SMALL,
    },
    {"what": "Table 99", "why": "the same again", "of": ["Table 98"]},
]
installed = pytest.mark.skipif(
    importlib.util.find_spec("snakemake") is None,
    reason="Snakemake is not installed: pip install -c workflow/constraints.txt -e '.[workflow]'",
)


# the plan of the paper


def test_every_table_and_figure_of_the_paper_is_a_target():
    assert {*evidence.groups(evidence.paper_plan())} == {*paper.NUMBERS.values()}
    assert evidence.target("Table 4") == "table4" and evidence.target("Figure 7a") == "figure7a"


@pytest.mark.parametrize("label", [*paper.TABLES.values(), "pcl-swad", "officehome-swad", "vlcs-swad", "terra-swad"])
def test_a_table_runs_the_methods_that_it_prints(label):
    runs = evidence.groups(evidence.paper_plan())[paper.NUMBERS[label]]
    printed = {name.removesuffix("_swad").replace("_w", "").strip("_") for name in paper.names(label)}
    printed = {"erm" if name == "swad" else name for name in printed}
    assert {run["algorithm"] for run in runs} == printed & {*ALGORITHMS}
    assert printed - {*ALGORITHMS} <= {"gvrt"}
    columns = {*paper.columns(paper.table(label))}
    held_out = {run["held_out"] for run in runs}
    assert held_out == (columns if label != "fullcorruption" else {None})


def test_a_name_stands_for_its_heading_in_any_spelling():
    found = evidence.groups(evidence.paper_plan())
    assert evidence.chosen(["figure7", "Table 4"], found, "paper") == ["Table 4", "Figure 7a", "Figure 7b"]
    assert evidence.chosen(["paper"], found, "paper") == evidence.chosen([], found, "paper") == [*found]
    with pytest.raises(ValueError, match="did you mean table4"):
        evidence.chosen(["tabel4"], found, "paper")


def test_at_demo_scale_tables_share_the_runs_of_the_digits(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPO_RECORDS", str(tmp_path))
    runs = evidence.plan(evidence.paper_plan(), names=["table1", "table4", "table7"], scale="demo")
    assert {run.settings["benchmark"] for run in runs} == {"digits"}
    assert len({run.name for run in runs}) == len(runs) == len(evidence.groups(evidence.paper_plan())["Table 4"])


def test_the_name_of_a_record_is_known_before_the_run(monkeypatch):
    monkeypatch.setenv("HYPO_RECORDS", str(records.home() / "records"))
    made = [run for run in evidence.plan() if run.record and run.name]
    assert made
    for run in made:
        assert (records.folder() / f"{run.name}.json").exists()


# the workflow


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("RECORDS", "RUNS", "DATA"):
        monkeypatch.setenv(f"HYPO_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(TOP))
    (tmp_path / "plan.yml").write_text(yaml.safe_dump(PLAN))
    yield tmp_path
    while STARTED:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(STARTED.pop().pid, signal.SIGKILL)


STARTED: list[subprocess.Popen] = []


def start(place: Path, *words: str, instead: str = "", **config: str) -> subprocess.Popen:
    """The workflow on two cores, in a process group of its own.

    instead  what a job does in the place of `python -m hypo train`, as a shell script; its words are "$@"
    """
    given = {"plan": str(place / "plan.yml"), "gpus": "2"} | config
    command = [sys.executable, "-m", "snakemake"]
    if instead:
        (place / "instead").write_text(f"#!/bin/sh\n{instead}\n")
        (place / "instead").chmod(0o755)
        code = f"import runpy, sys; sys.executable = '{place / 'instead'}'"
        command = [sys.executable, "-c", f"{code}; runpy.run_module('snakemake', run_name='__main__')"]
    command += ["--snakefile", str(TOP / "workflow" / "Snakefile"), *words]
    command += ["--cores", "2", "--config", *(f"{key}={value}" for key, value in given.items())]
    with (place / "log").open("a") as log:
        STARTED.append(subprocess.Popen(command, cwd=place, stdout=log, stderr=log, start_new_session=True))
    return STARTED[-1]


def until(condition, process: subprocess.Popen) -> None:
    while not condition() and process.poll() is None:
        time.sleep(0.05)


def assert_each_run_was_recorded_once(place: Path) -> None:
    expected = {run.name for run in evidence.plan(place / "plan.yml")}
    assert {path.stem for path in records.folder().glob("*.json")} == expected
    for path, _ in records.read_all():
        said = (place / "runs" / "workflow" / "logs" / f"{path.stem}.log").read_text()
        assert said.count("recorded as") == 1


@installed
@pytest.mark.slow
def test_a_workflow_killed_twice_is_completed_and_nothing_is_run_twice(place):
    """Killed once while runs train, their processes with it, and once alone, so that its runs go on without it."""
    first = start(place)
    until(lambda: any((place / "runs").glob("*.lock")), first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    second = start(place)
    until(lambda: any(records.folder().glob("*.json")), second)
    made = {path: path.stat().st_mtime_ns for path in records.folder().glob("*.json")}
    second.kill()
    second.wait()
    assert start(place).wait() == 0, (place / "log").read_text()
    assert_each_run_was_recorded_once(place)
    assert {path: path.stat().st_mtime_ns for path in made} == made
    assert {path.name for path in (place / "runs" / "workflow").glob("gpu-*.lock")} == {"gpu-0.lock", "gpu-1.lock"}
    before = (place / "log").stat().st_size
    assert start(place, "table99").wait() == 0
    assert "Nothing to be done" in (place / "log").read_text()[before:]


def planned(place: Path, **runs: object) -> list[Path]:
    """Write a plan of runs; the records that they will have, and the log of each."""
    (place / "plan.yml").write_text(yaml.safe_dump([PLAN[0] | {"runs": PLAN[0]["runs"] | runs}]))
    return [records.folder() / f"{run.name}.json" for run in evidence.plan(place / "plan.yml")]


def said_of(record: Path, place: Path) -> str:
    return (place / "runs" / "workflow" / "logs" / f"{record.stem}.log").read_text()


@installed
@pytest.mark.heavy
def test_a_run_that_fails_is_tried_again_and_stops_no_other(place):
    good, bad = planned(place, held_out="photo", batch_size=[64, 9999])
    script = f'case "$*" in *" 9999 "*) echo failed; exit 1;; esac; echo made; touch {good}'
    assert start(place, instead=script).wait() != 0
    assert [*records.folder().glob("*.json")] == [good]
    assert (said_of(good, place), said_of(bad, place)) == ("made\n", "failed\n" * 3)


@installed
@pytest.mark.heavy
def test_a_record_that_another_workflow_made_meanwhile_stays(place):
    """The job is killed; when it is tried again the record is there, and the same file as before."""
    (record,) = planned(place, held_out="photo")
    script = f"echo tried; ls -i {record} && exit; touch {record}; kill -KILL $$"
    assert start(place, instead=script).wait() == 0, (place / "log").read_text()
    assert said_of(record, place).splitlines()[-2:] == ["tried", f"{record.stat().st_ino} {record}"]
    assert said_of(record, place).count("tried") == 2


@pytest.mark.usefixtures("place")
def test_without_snakemake_the_front_end_makes_the_runs_itself(monkeypatch, capsys):
    monkeypatch.setattr(evidence, "snakefile", lambda: None)
    made = []
    monkeypatch.setattr(evidence, "make", lambda jobs, every, root: made.append((jobs, len(every), root)) or 0)
    assert cli.main(["evidence", "table2", "--scale", "demo", "--jobs", "3"]) == 0
    assert made == [(3, 24, None)]
    assert cli.main(["evidence", "tabel2"]) == 2
    assert "did you mean table2" in capsys.readouterr().err


@pytest.mark.usefixtures("place")
def test_with_snakemake_the_front_end_hands_over(monkeypatch):
    handed = []
    monkeypatch.setattr(evidence, "snakefile", lambda: TOP / "workflow" / "Snakefile")
    monkeypatch.setattr(
        subprocess, "run", lambda words, **_: handed.append(words) or subprocess.CompletedProcess(words, 0)
    )
    assert cli.main(["evidence", "figure7", "--scale", "demo"]) == 0
    (words,) = handed
    assert {"figure7a", "figure7b", 'scale="demo"'} <= {*words} and "figure7" not in words


@pytest.mark.usefixtures("place")
def test_a_figure_without_runs_makes_none(monkeypatch, capsys):
    """Without a target Snakemake would make the whole plan."""
    monkeypatch.setattr(evidence, "snakefile", lambda: TOP / "workflow" / "Snakefile")
    monkeypatch.setattr(evidence, "by_workflow", lambda *_: pytest.fail("Snakemake was started"))
    assert cli.main(["evidence", "figure1", "--scale", "demo"]) == 0
    assert capsys.readouterr().out.startswith("0 of 0 runs")


def test_a_run_of_the_plan_has_settings_that_its_method_knows():
    for runs in evidence.groups(evidence.paper_plan(), "paper").values():
        for settings in runs:
            configure(**settings)
