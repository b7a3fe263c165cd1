"""`python tests/workflow_log.py [tables] [slurm]`: kills workflows and keeps what came of it in data/workflow.json.

tables  every table of the paper on domain generalization at demo scale, two runs at a time, in a small form: one epoch
        of a small network, one held-out domain, one seed. The workflow is killed twice, at random moments and with all
        its processes, and completed.
slurm   the test on Slurm, and what its controller logged.

Snakemake is needed: pip install -c workflow/constraints.txt -e '.[workflow]'
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from test_workflow import SMALL, TOP, start, until

from hypo import records
from hypo.training import evidence

LOG = TOP / "data" / "workflow.json"
SETTINGS = SMALL | {"held_out": "photo", "seed": 0}
KILLS = 2
BEGUN = re.compile(r"wildcards: name=(\S+)")


def recorded() -> set[str]:
    return {path.stem for path in records.folder().glob("*.json")}


def tables(place: Path) -> dict[str, Any]:
    for name in ("RECORDS", "RUNS", "DATA"):
        os.environ[f"HYPO_{name}"] = str(place / name.lower())
    plan = evidence.paper_plan()
    headings = [
        heading
        for heading, runs in evidence.groups(plan).items()
        if heading.startswith("Table") and all(run["held_out"] for run in runs)
    ]
    expected = {run.name for run in evidence.plan(plan, names=headings, scale="demo", **SETTINGS)}
    words = [evidence.target(heading) for heading in headings]
    config = {"plan": str(plan), "scale": "demo", "settings": json.dumps(SETTINGS)}
    chance, starts = random.Random(), []
    for turn in range(KILLS + 1):
        before, began = recorded(), time.monotonic()
        said_before = (place / "log").stat().st_size if turn else 0
        process = start(place, *words, **config)
        if turn < KILLS:
            enough = len(before) + chance.randint(1, len(expected) // (KILLS + 1))
            until(lambda enough=enough: len(recorded()) >= enough, process)
            time.sleep(chance.uniform(0, 30))
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        time.sleep(1)  # until the killed runs are gone too
        begun = BEGUN.findall((place / "log").read_text()[said_before:])
        made = {"code": code, "seconds": round(time.monotonic() - began), "recorded": sorted(recorded() - before)}
        starts.append(made | {"begun": begun, "again": sorted(before & {*begun})})
        print(f"start {turn + 1}: exit code {code}, {len(begun)} runs begun, {len(recorded())} recorded", flush=True)
    lines = Counter()
    for path in (place / "runs" / "workflow" / "logs").iterdir():
        lines[path.stem] = path.read_text().count("recorded as")
    assert [each["code"] for each in starts] == [-signal.SIGKILL] * KILLS + [0], (place / "log").read_text()
    assert recorded() == expected == {*lines} and {*lines.values()} == {1}, lines
    assert not any(each["again"] for each in starts), starts
    return {"tables": headings, "settings": SETTINGS, "runs": len(expected), "starts": starts}


SLURM = {
    "submitted": r"submit_batch_job: JobId=(\d+)",
    "started": r"(?:Allocate|Started) JobId=(\d+)",  # by the scheduler, or its backfill
    "killed": r"REQUEST_KILL_JOB JobId=(\d+)",
    "completed": r"JobId=(\d+) WEXITSTATUS 0",
}


def slurm(place: Path) -> dict[str, Any]:
    command = ["-m", "pytest", "-n", "0", "-m", "slurm", "-p", "no:cacheprovider", f"--basetemp={place / 'test'}", "-q"]
    done = subprocess.run([sys.executable, *command, "tests/test_slurm.py"], cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
    (folder,) = (path for path in (place / "test").iterdir() if not path.is_symlink())
    return logged(folder)


def logged(folder: Path) -> dict[str, Any]:
    """What the controller said of the jobs of the test on Slurm that was run in `folder`."""
    submitted = re.findall(r"SLURM jobid (\d+) .*/([^/]+)/\d+\.log", (folder / "log").read_text())
    logs = {path.stem: path.read_text().count("recorded as") for path in (folder / "runs/workflow/logs").iterdir()}
    assert {*logs.values()} == {1}, logs
    said, first, events = (folder / "slurm" / "slurmctld.log").read_text(), None, []
    for stamp, line in re.findall(r"\[(\S+)\] (.*)", said):
        for what, pattern in SLURM.items():
            if found := re.search(pattern, line):
                at = datetime.fromisoformat(stamp)
                first = first or at
                events.append({"seconds": round((at - first).total_seconds()), "job": int(found[1]), "what": what})
    jobs = {int(job): name for job, name in submitted}
    return {"slurm": re.search(r"slurmctld version (\S+)", said)[1], "jobs": jobs, "events": events}


PARTS = {"tables": tables, "slurm": slurm}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=TOP, capture_output=True, text=True).stdout.strip()
        with tempfile.TemporaryDirectory() as place:
            found = PARTS[name](Path(place))
        kept = json.loads(LOG.read_text()) if LOG.exists() else {}
        kept[name] = {"commit": commit, "snakemake": version("snakemake")} | found
        LOG.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
