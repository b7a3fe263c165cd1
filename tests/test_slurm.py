"""The workflow on a real Slurm: one controller and one node on this machine's loopback, started and ended here."""

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from test_workflow import PLAN, assert_each_run_was_recorded_once, place, start, until  # noqa: F401

from hypo import records

NEEDED = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo")
INSTALL = (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", "slurm-wlm", "munge"])
TOP = Path(__file__).resolve().parents[1]
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdLogFile={folder}/slurmd.log
SlurmctldLogFile={folder}/slurmctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MinJobAge=600
SchedulerParameters=sched_interval=1
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=gpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(os.geteuid() != 0, reason="a Slurm that starts jobs needs root"),
    pytest.mark.skipif(
        importlib.util.find_spec("snakemake_executor_plugin_slurm") is None,
        reason="Snakemake is not installed: pip install -c workflow/constraints.txt -e '.[workflow]'",
    ),
]


def install() -> None:
    """Debian's Slurm, where it is not installed yet and can be."""
    for command in INSTALL if lacking() and shutil.which("apt-get") else ():
        subprocess.run(
            command, env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, check=False
        )
    if lacking():
        pytest.skip(f"{', '.join(lacking())} not found, and `{' '.join(INSTALL[1])}` could not install them")


def lacking() -> list[str]:
    return [name for name in NEEDED if shutil.which(name) is None]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answer(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def slurm(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:  # noqa: F811
    """A Slurm with one idle node of two cores; its processes end with the test."""
    install()
    folder = place / "slurm"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    host = socket.gethostname().split(".")[0]
    ports = {"controller": free_port(), "node": free_port()}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, folder=folder, **ports))
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    (folder / "bin").mkdir()  # Snakemake clears SLURM_CONF in a job, where a cluster's own configuration is the default
    (folder / "bin" / "srun").write_text(
        f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun")} "$@"\n'
    )
    (folder / "bin" / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    subprocess.run(["mungekey", "--create", f"--keyfile={folder / 'munge.key'}"], check=True)
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    munge = [
        "munged",
        "--foreground",
        "--force",
        *(f"--{option}={folder}/munge.{end}" for option, end in files.items()),
    ]
    daemons = []
    try:
        with (folder / "said").open("w") as said:
            for command in (munge, ["slurmctld", "-D"], ["slurmd", "-D", "-N", host]):
                daemons.append(subprocess.Popen(command, stdout=said, stderr=said))
                if command is munge:
                    until((folder / "munge.socket").exists, daemons[0])
        until(lambda: answer("sinfo", "--noheader", "--format=%T").strip() == "idle", daemons[-1])
        assert all(daemon.poll() is None for daemon in daemons), (folder / "said").read_text()
        yield folder
    finally:
        answer("scancel", "--user=root")
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait()


def jobs(state: str) -> list[str]:
    return answer("squeue", "--noheader", "--format=%i", f"--states={state}").split()


@pytest.mark.usefixtures("slurm")
def test_a_sweep_on_slurm_survives_a_killed_job_and_a_killed_workflow(place):  # noqa: F811
    """A job is killed while it trains, later the workflow, whose other jobs go on; a second workflow completes all."""
    runs = PLAN[0]["runs"] | {"held_out": ["photo", "sketch"]}
    (place / "plan.yml").write_text(yaml.safe_dump([PLAN[0] | {"runs": runs}]))
    words = ["--profile", str(TOP / "workflow" / "profiles" / "slurm"), "--set-resources", "run:mem_mb=0"]
    words += ["run:cpus_per_task=1", "--latency-wait", "20"]
    first = start(place, *words)
    until(lambda: any((place / "runs").glob("*.lock")), first)
    cancelled = jobs("RUNNING")[:1]
    assert cancelled, (place / "log").read_text()
    answer("scancel", "--signal=KILL", "--full", *cancelled)
    until(lambda: any(records.folder().glob("*.json")), first)
    assert first.poll() is None, (place / "log").read_text()
    first.kill()
    first.wait()
    assert start(place, *words).wait() == 0, (place / "log").read_text()
    assert_each_run_was_recorded_once(place)
    while jobs("RUNNING,PENDING"):  # of the killed workflow; they find their record and end
        time.sleep(0.5)
    assert_each_run_was_recorded_once(place)
