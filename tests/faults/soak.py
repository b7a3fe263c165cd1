"""A soak: random small runs on one folder, each disturbed at random, until the time is over; then an account of every
run that was asked for: it is complete and as in a folder where nothing happens, or it was stopped and said why.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from training.helpers import TINTS, die_beside_rename, same, start
from trials import can_mount, damage, die_at_record, small_disk

from hypo import records

ASKED = "asked for"
WHOLE = "complete and right when the time was over"
LATER = "stopped by the last fault, complete and right when asked for once more"
ROOM = "4g"
"""For an hour's records and the checkpoints of the runs that were stopped; 600 runs filled 1g."""
Remount = Callable[[str], None] | None


class Run:
    """A run that was asked for: its settings, the name of its record, and whether a process said that it is done."""

    def __init__(self, seed: int, chance: random.Random, references: Path) -> None:
        self.settings = {
            "seed": seed,
            "algorithm": chance.choice(["erm", "hypo", "pcl"]),
            "held_out": chance.choice([*TINTS]),
            "epochs": chance.randint(1, 3),
        }
        self.done = False
        undisturbed = start(references, **self.settings)
        undisturbed.join()
        record = json.loads((references / f"returned-{undisturbed.pid}.json").read_text())
        self.record = f"{records.name_of(record['identity'])}.json"


def signalled(number: int, place: Path, run: Run, chance: random.Random, _disk: Remount) -> list[BaseProcess]:
    process = start(place, **run.settings)
    process.join(chance.uniform(0.02, 1.5))
    if process.is_alive():
        os.kill(process.pid, number)
    return [process]


def full_disk(place: Path, run: Run, chance: random.Random, disk: Remount) -> list[BaseProcess]:
    used = shutil.disk_usage(place / "disk").used
    disk(f"size={used // 1024 + chance.randint(8, 400)}k")
    process = start(place, **run.settings)
    process.join()
    disk(f"size={ROOM}")
    return [process]


def damaged_checkpoint(place: Path, run: Run, chance: random.Random, _disk: Remount) -> list[BaseProcess]:
    process = start(place, functools.partial(die_beside_rename, chance.randint(1, 3), True), **run.settings)
    process.join()
    for path in place.glob(f"runs/{Path(run.record).stem}/step-*.pt"):
        damage(path, chance)
    return [process]


def killed_in_record(place: Path, run: Run, chance: random.Random, _disk: Remount) -> list[BaseProcess]:
    death = functools.partial(die_at_record, chance.choice([".npz", ".json"]), chance.random() < 0.5)
    return [start(place, death, **run.settings)]


def two_processes(place: Path, run: Run, chance: random.Random, _disk: Remount) -> list[BaseProcess]:
    both = [start(place, **run.settings) for _ in range(2)]
    if chance.random() < 0.5:
        both[0].join(chance.uniform(0.02, 1.0))
        both[0].kill()
    return both


FAULTS = {
    "SIGKILL": functools.partial(signalled, signal.SIGKILL),
    "SIGTERM": functools.partial(signalled, signal.SIGTERM),
    "a full disk": full_disk,
    "SIGKILL after a checkpoint, which is then damaged": damaged_checkpoint,
    "SIGKILL inside the writing of a record": killed_in_record,
    "two processes on one run, one of them killed or not": two_processes,
}


def soak(place: Path, chance: random.Random, until: float, counts: dict[str, Counter[str]]) -> None:
    """Disturb until the time is over, and account for every run.

    counts  added to: faults, by their names; kills, by signal, of processes that were still at work; runs, by outcome
    """
    references = place / "references"
    references.mkdir()
    disk = small_disk(place / "disk", ROOM) if can_mount() else contextlib.nullcontext((place / "disk").mkdir())
    with disk as remount:
        for name in ("records", "runs"):
            (place / "disk" / name).mkdir()
            (place / name).symlink_to(place / "disk" / name)
        asked: list[Run] = []
        while time.monotonic() < until:
            if not asked or chance.random() < 0.3:
                asked.append(Run(len(asked), chance, references))
                counts["runs"][ASKED] += 1
            run = chance.choice(asked[-5:])
            fault = chance.choice([name for name in FAULTS if remount or name != "a full disk"])
            processes = FAULTS[fault](place, run, chance, remount)
            counts["faults"][fault] += 1
            for process in processes:
                process.join()
                if process.exitcode < 0:
                    counts["kills"][signal.Signals(-process.exitcode).name] += 1
                run.done |= _ended(process, place)
        for run in asked:
            counts["runs"][_accounted(run, place, references)] += 1
        left = [path.name for path in (*(place / "records").iterdir(), *(place / "runs").iterdir())]
        expected = [name for run in asked for name in (run.record, run.record.replace(".json", ".npz"))]
        assert sorted(left) == sorted(expected), "other files were left than those of the runs that were asked for"


def _ended(process: BaseProcess, place: Path) -> bool:
    """Whether the process finished its run; one that did not was killed by us, or said why in one sentence."""
    if process.exitcode in (-signal.SIGKILL, -signal.SIGTERM):
        return False
    said = (place / "log").read_text().strip().splitlines()[-1]
    full = "No space left on device" in said and "make room" in said
    assert process.exitcode == 0 or (process.exitcode == 1 and full), f"ended with {process.exitcode}: {said}"
    return process.exitcode == 0


def _accounted(run: Run, place: Path, references: Path) -> str:
    here, told = place / "records" / run.record, WHOLE
    if not here.exists():
        assert not run.done, f"the record of a finished run is lost: {run.record}"
        told = LATER
    again = start(place, **run.settings)
    again.join()
    assert again.exitcode == 0, (place / "log").read_text().strip().splitlines()[-1]
    assert same(_kept(here), _kept(references / "records" / run.record)), f"a wrong number in {run.record}"
    return told


def _kept(path: Path) -> dict[str, Any]:
    """A record and its embeddings, less what may differ from one run to the same run again."""
    record = records.read(path)
    del record["cost"], record["digest"], record["embeddings"]
    del record["environment"]["dirty"], record["environment"]["commit"]
    return {"record": record, **{name: torch.from_numpy(array) for name, array in records.embeddings(path).items()}}
