"""The runs behind the book, from data/evidence.yml: what is missing is made, several at a time, and can be stopped."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hypo import records
from hypo.config import configure
from hypo.data.benchmarks import REGISTRY, locate
from hypo.suggest import one_of
from hypo.training.engine import recorded

KEYS = ("what", "why", "runs", "also")


class Planned(NamedTuple):
    """One run of the plan: its heading, its settings as for `hypo.run`, and its record if it was made."""

    what: str
    settings: dict[str, Any]
    record: dict[str, Any] | None


def plan(path: Path | None = None, root: str | os.PathLike[str] | None = None) -> list[Planned]:
    """Every run of the plan, in its order, each once."""
    path = records.home() / "evidence.yml" if path is None else path
    found: dict[str, Planned] = {}
    for group in yaml.safe_load(path.read_text(encoding="utf-8")):
        for key in group:
            one_of(f"key in {path.name}", key, KEYS)
        for settings in _settings(group):
            config = configure(**settings)
            known = str(sorted(config.fields().items(), key=str))
            if known not in found:
                found[known] = Planned(group["what"], settings, recorded(config, root))
    return [*found.values()]


def _settings(group: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for more in group.get("also", [{}]):
        given = {"seed": 0} | group["runs"] | more
        if given["held_out"] == "each":
            given["held_out"] = [*REGISTRY[given["benchmark"]].domains]
        values = [value if isinstance(value, list) else [value] for value in given.values()]
        for point in itertools.product(*values):
            settings = dict(zip(given, point, strict=True))
            yield settings | ({"held_out": None} if settings["held_out"] == "none" else {})


def command(settings: dict[str, Any]) -> list[str]:
    """The words of `hypo train` that make a run."""
    words = {name: "none" if value is None else str(value).lower() for name, value in settings.items()}
    return ["train", *(word for name, text in words.items() for word in (f"--{name.replace('_', '-')}", text))]


def seconds(planned: Planned, every: list[Planned]) -> float | None:
    """How long a run may take: the median of recorded ones of its benchmark, scale and backbone; None without any."""
    kind = configure(**planned.settings)
    times = [
        other.record["cost"]["seconds"] + other.record["cost"]["evaluation_seconds"]
        for other in every
        if other.record and _kind(other.record["config"]) == _kind(kind.fields())
    ]
    return statistics.median(times) if times else None


def _kind(fields: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(fields[name] for name in ("benchmark", "scale", "backbone", "epochs", "views"))


def make(jobs: int, root: str | os.PathLike[str] | None = None, path: Path | None = None) -> int:
    """Make what is missing, `jobs` runs at a time, one thread each; the number of runs that failed."""
    every = plan(path, root)
    missing = [planned for planned in every if planned.record is None]
    absent = {name for planned in missing if not _here(name := planned.settings["benchmark"], root)}
    for name in sorted(absent):
        print(f"{name} is not on this machine, so its runs are left out: `hypo data {name}` fetches it")
    todo = [planned for planned in missing if planned.settings["benchmark"] not in absent]
    print(f"{len(every) - len(missing)} of {len(every)} runs are recorded, {len(todo)} to make; Ctrl-C loses nothing")
    failed = 0
    with ThreadPoolExecutor(jobs) as pool, _children(pool) as children:
        results = [pool.submit(_run, planned, root, children) for planned in todo]
        for at, (planned, result) in enumerate(zip(todo, results, strict=True), 1):
            code, took, said = result.result()
            failed += code != 0
            outcome = f"{took / 60:.0f} min" if code == 0 else f"failed: {said}"
            print(f"{at}/{len(todo)} {planned.what}: hypo {' '.join(command(planned.settings))}: {outcome}", flush=True)
    return failed


def _here(benchmark: str, root: str | os.PathLike[str] | None) -> bool:
    return benchmark == "digits" or benchmark not in REGISTRY or locate(benchmark, root) is not None


@contextlib.contextmanager
def _children(pool: ThreadPoolExecutor) -> Iterator[set[subprocess.Popen]]:
    """Processes that are running; they are ended when this one is interrupted, and go on from a checkpoint later."""
    running: set[subprocess.Popen] = set()
    try:
        yield running
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in running.copy():
            process.terminate()
        raise


def _run(planned: Planned, root: Any, children: set[subprocess.Popen]) -> tuple[int, float, str]:
    words = [*command(planned.settings), *(["--root", os.fspath(root)] if root else [])]
    started = time.monotonic()
    environment = os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    politely = ["nice", "-n", "10"] if shutil.which("nice") else []
    process = subprocess.Popen(
        [*politely, sys.executable, "-m", "hypo", *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    children.add(process)
    errors = process.communicate()[1]
    children.discard(process)
    said = next(reversed([line for line in errors.splitlines() if line.strip()]), "")
    return process.returncode, time.monotonic() - started, said


def listing(root: str | os.PathLike[str] | None = None, path: Path | None = None) -> str:
    """The plan as text: for each heading how many runs are recorded, then the commands of those that are not."""
    every = plan(path, root)
    lines, total = [], 0.0
    for what, group in itertools.groupby(every, key=lambda planned: planned.what):
        runs = [*group]
        left = [planned for planned in runs if planned.record is None]
        known = [took for planned in left if (took := seconds(planned, every)) is not None]
        total += sum(known)
        guess = f", about {sum(known) / 3600:.1f} h of one thread" if known else ", time not known" if left else ""
        lines.append(f"{what}: {len(runs) - len(left)} of {len(runs)} recorded{guess}")
        lines += [f"  hypo {' '.join(command(planned.settings))}" for planned in left]
    left = sum(planned.record is None for planned in every)
    return "\n".join([*lines, f"{left} of {len(every)} left, about {total / 3600:.1f} h of one thread where known"])
