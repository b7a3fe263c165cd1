"""`make faults`: every trial again and again, then the fuzzing; the log is data/faults.json.

--minutes M   of trials, 40 by default; 0: none
--examples N  that each fuzzing target is given, 6,500 by default, over 100,000 in all; 0: none
--soak M      instead of all that, random small runs with random faults for so many minutes, and an account of each
--short       every trial but those of pages once, some examples, ten seconds of the soak, no log: for `.ci/run`

Each of the three parts of the log holds for one version of the code: a call adds to a part of the same code, so that
several make a long one, and begins one of another code anew.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
LOG = TOP / "data" / "faults.json"
HELPERS = ("made", "own_folder", "test_book", "data/test_download", "training/helpers")
PAGES = ("SIGKILL or SIGTERM while a page is made", "SIGKILL or SIGTERM while a book is built")
TRIED = ("hypo/**/*.py", "hypo/*.json", "tests/faults/*.py", *(f"tests/{name}.py" for name in HELPERS))
BATCH = 500
MEMORY = Path("/dev/shm")
"""Where files are kept in memory, if anywhere: fuzzing writes hundreds of them a second."""

Log = dict[str, Any]


@functools.cache
def about() -> dict[str, str | None]:
    """What is tried, and with what: a digest of the code that is tried and that tries it, taken when this starts, and
    the commit that has this code; None for code that was changed since."""
    files = sorted(path for part in TRIED for path in TOP.glob(part))
    named = b"".join(f"{path.relative_to(TOP)}\0".encode() + path.read_bytes() for path in files)
    changed = _git("status", "--porcelain", "--", *(f":(glob){part}" for part in TRIED))
    commit = None if changed else _git("rev-parse", "HEAD")
    here = {"python": platform.python_version(), "system": platform.system()}
    return {"code": hashlib.sha256(named).hexdigest()[:16], "commit": commit or None} | here


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=TOP, capture_output=True, text=True, check=False).stdout.strip()


class Part:
    """A part of the log, to be added to; `keep` writes it."""

    def __init__(self, name: str, write: bool, **empty: Any) -> None:
        self.name, self.write = name, write
        old = self._all().get(name, {}) if write else {}
        same = old.get("code") == about()["code"]
        self.log: Log = old if same else about() | {"seconds": 0.0, "failures": []} | empty
        self.start = time.monotonic() - self.log["seconds"]

    @staticmethod
    def _all() -> Log:
        return json.loads(LOG.read_text()) if LOG.exists() else {}

    def keep(self) -> None:
        from hypo.files import locked, write_atomically

        self.log["seconds"] = round(time.monotonic() - self.start, 1)
        if self.write:
            with locked(LOG.with_name(".faults.lock"), "another process writes the log"):  # of another part
                write_atomically(LOG, json.dumps(self._all() | {self.name: self.log}, indent=1).encode() + b"\n")

    def failed(self, what: str, error: Exception) -> None:
        self.log["failures"].append(f"{what}: {type(error).__name__}: {error}"[:500])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--examples", type=int, default=6500)
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    parts = []
    with tempfile.TemporaryDirectory() as place:
        if options.soak or options.short:
            parts.append(_soak(Path(place), 60 * (options.soak or 1 / 6), options.short))
        if options.short or (options.minutes and not options.soak):
            parts.append(_trials(Path(place), options.minutes, options.short))
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        if options.examples and not options.soak:
            parts.append(_fuzz(Path(place), 30 if options.short else options.examples, options.short))
    for part in parts:
        for kind in ("faults", "kills", "runs", "inputs"):
            for name, told in part.get(kind, {}).items():
                print(f"{kind}: {name}: {told}")
        for failure in part["failures"]:
            print(f"FAILED  {failure}", file=sys.stderr)
    return int(any(part["failures"] for part in parts))


def _soak(place: Path, seconds: float, short: bool) -> Log:
    from soak import soak

    part = Part("soak", not short, faults={}, kills={}, runs={})
    (place / "soak").mkdir()
    counts = {name: Counter(part.log[name]) for name in ("faults", "kills", "runs")}
    chance = random.Random(f"soak {sum(counts['runs'].values())}")
    try:
        soak(place / "soak", chance, time.monotonic() + seconds, counts)
    except Exception as error:
        part.failed("soak", error)
    part.log |= counts
    part.keep()
    return part.log


def _trials(place: Path, minutes: float, short: bool) -> Log:
    from trials import TRIALS, expected

    part = Part("trials", not short, faults={})
    expected(place / "undisturbed")
    until = time.monotonic() + 60 * minutes
    chance = random.Random(sum(each["tried"] for each in part.log["faults"].values()))
    while True:
        for name, trial in TRIALS.items():
            if short and name in PAGES:
                continue
            each = part.log["faults"].setdefault(name, {"tried": 0, "outcomes": {}})
            with tempfile.TemporaryDirectory(dir=place) as folder:
                try:
                    times, told = trial(Path(folder), chance)
                except Exception as error:
                    times, told = 1, "FAILED"
                    part.failed(name, error)
            each["tried"] += times
            if times or not each["tried"]:
                each["outcomes"][told] = each["outcomes"].get(told, 0) + times
            part.keep()
        if short or time.monotonic() > until:
            return part.log


def _fuzz(place: Path, examples: int, short: bool) -> Log:
    import pytest
    import test_fuzz
    from hypothesis import seed

    part = Part("fuzzing", not short, inputs={})
    with pytest.MonkeyPatch.context() as patch:
        test_fuzz.Place.use(place, patch)
        for turn in range(-(-examples // BATCH)):
            for name, target in test_fuzz.TARGETS.items():
                each = part.log["inputs"].setdefault(name, {"tried": 0, "refused": 0})
                before = test_fuzz.TRIED[name], test_fuzz.REFUSED[name]
                try:
                    seed(each["tried"] + turn)(target(min(BATCH, examples)))()
                except Exception as error:
                    part.failed(name, error)
                each["tried"] += test_fuzz.TRIED[name] - before[0]
                each["refused"] += test_fuzz.REFUSED[name] - before[1]
                part.keep()
    return part.log


if __name__ == "__main__":
    sys.path[1:1] = [str(TOP), str(TOP / "tests")]
    sys.exit(main())
