"""`make faults`: every trial again and again, then the fuzzing, until the time is up; the log is data/faults.json.

--minutes M   how long (60 by default); a log of the same code is added to, so several calls make a long one
--examples N  that each fuzzing target is given in one call (7,000 by default: 100,000 in all)
--soak M      instead of all that, random small runs with random faults for so many minutes, and an account of each
--short       every trial but the page's once, a few hundred examples, ten seconds of the soak, no log: for `.ci/run`
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
LOG = TOP / "data" / "faults.json"
PAGE = "SIGKILL or SIGTERM while a page is made"
BATCH = 500


def code() -> str:
    """A digest of what is tried and of what tries it: a log holds for one version of both."""
    files = sorted([*(TOP / "hypo").rglob("*.py"), *(TOP / "tests" / "faults").glob("*.py")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def empty() -> dict[str, Any]:
    said = subprocess.run(["git", "rev-parse", "HEAD"], cwd=TOP, capture_output=True, text=True, check=False).stdout
    about = {"code": code(), "commit": said.strip() or None, "python": platform.python_version()}
    return about | {"system": platform.system(), "seconds": 0.0, "faults": {}, "fuzzed": {}, "failures": []}


def keep(log: dict[str, Any], write: bool) -> None:
    if write:
        LOG.write_text(json.dumps(log, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--examples", type=int, default=7000)
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    old = json.loads(LOG.read_text()) if LOG.exists() else {}
    log = old if old.get("code") == code() and not options.short else empty()
    started, before = time.monotonic(), log["seconds"]
    until = started + 60 * options.minutes

    def passed() -> float:
        log["seconds"] = round(before + time.monotonic() - started, 1)
        return log["seconds"]

    with tempfile.TemporaryDirectory() as place:
        if options.soak or options.short:
            _soak(Path(place) / "soak", log, 60 * (options.soak or 1 / 6))
        rounds = 0 if options.soak else 1 if options.short else 10**6
        tried = sum(each["tried"] for each in log["faults"].values())
        for turn in range(rounds):
            _round(Path(place), random.Random(f"{tried} {turn}"), log, options.short, until, passed)
            if time.monotonic() > started + 40 * options.minutes:  # a third of the time is for the fuzzing
                break
        if not options.soak:
            _fuzz(Path(place), log, 30 if options.short else options.examples, until)
        passed()
        keep(log, not options.short)
    for name, each in (log["faults"] | log["fuzzed"]).items():
        told = ", ".join(each["outcomes"]) if "outcomes" in each else f"{each['refused']:,} refused"
        print(f"{each['tried']:>7,}  {name}: {told}")
    for name, count in (log["soak"]["faults"] | log["soak"]["runs"] if "soak" in log else {}).items():
        print(f"{count:>7,}  soak: {name}")
    for failure in log["failures"]:
        print(f"FAILED  {failure}", file=sys.stderr)
    return int(bool(log["failures"]))


def _soak(place: Path, log: dict[str, Any], seconds: float) -> None:
    from soak import soak

    place.mkdir()
    each = log.setdefault("soak", {"seconds": 0.0, "faults": {}, "runs": {}})
    faults, runs = Counter(each["faults"]), Counter(each["runs"])
    started = time.monotonic()
    try:
        soak(place, random.Random(f"soak {sum(runs.values())}"), started + seconds, faults, runs)
    except Exception as error:
        log["failures"].append(f"soak: {type(error).__name__}: {error}"[:500])
    each |= {"seconds": round(each["seconds"] + time.monotonic() - started, 1), "faults": faults, "runs": runs}


def _round(
    place: Path, chance: random.Random, log: dict[str, Any], short: bool, until: float, passed: Callable[[], float]
) -> None:
    from trials import TRIALS, expected

    expected(place / "undisturbed")
    for name, trial in TRIALS.items():
        if time.monotonic() > until or (short and name == PAGE):
            continue
        each = log["faults"].setdefault(name, {"tried": 0, "outcomes": {}})
        with tempfile.TemporaryDirectory(dir=place) as folder:
            try:
                times, told = trial(Path(folder), chance)
            except Exception as error:
                times, told = 1, "FAILED"
                log["failures"].append(f"{name}: {type(error).__name__}: {error}"[:500])
        each["tried"] += times
        if times or not each["tried"]:
            each["outcomes"][told] = each["outcomes"].get(told, 0) + max(times, 1)
        passed()
        keep(log, not short)


def _fuzz(place: Path, log: dict[str, Any], examples: int, until: float) -> None:
    import pytest
    import test_fuzz
    from hypothesis import seed

    with pytest.MonkeyPatch.context() as patch:
        test_fuzz.Place.use(place, patch)
        for turn in range(-(-examples // BATCH)):
            for name, target in test_fuzz.TARGETS.items():
                if time.monotonic() > until:
                    return
                each = log["fuzzed"].setdefault(name, {"tried": 0, "refused": 0})
                before = test_fuzz.TRIED[name], test_fuzz.REFUSED[name]
                try:
                    seed(each["tried"] + turn)(target(min(BATCH, examples)))()
                except Exception as error:
                    log["failures"].append(f"{name}: {type(error).__name__}: {error}"[:500])
                each["tried"] += test_fuzz.TRIED[name] - before[0]
                each["refused"] += test_fuzz.REFUSED[name] - before[1]


if __name__ == "__main__":
    sys.path[1:1] = [str(TOP), str(TOP / "tests")]
    sys.exit(main())
