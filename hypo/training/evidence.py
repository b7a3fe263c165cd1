"""The runs of a plan: those behind the book (data/evidence.yml), or behind the paper's tables (data/paper.yml).

What is missing is made, several runs at a time, and can be stopped at any moment: by the workflow where Snakemake is
installed, elsewhere from this process.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hypo import records
from hypo.config import Config, configure, identity
from hypo.data.benchmarks import REGISTRY, data_version, load, locate
from hypo.files import write_atomically
from hypo.suggest import one_of
from hypo.training.cost import step_costs
from hypo.training.engine import recorded, runs_folder, say

KEYS = ("what", "why", "runs", "also", "of")
LARGE_PAGES = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
}
"""Under Linux a run on the CPU is faster with them, and computes the same: tensors get the memory that others left, in
large pages, instead of new pages from the kernel (bench/memory.py measures it)."""


class Planned(NamedTuple):
    """One run of a plan.

    what      its heading
    settings  as for `hypo.run`
    record    of it, None if it was not made
    name      of its record's file without the ending; None where the data, which is part of the name, is not here
    """

    what: str
    settings: dict[str, Any]
    record: dict[str, Any] | None
    name: str | None


def paper_plan() -> Path:
    """The plan of the paper's tables and figures."""
    return records.home() / "paper.yml"


def groups(path: Path | None = None, scale: str | None = None, **overrides: Any) -> dict[str, list[dict[str, Any]]]:
    """Heading -> settings of its runs, in the order of the plan; a run may be under several headings.

    path       the plan, data/evidence.yml by default
    scale      of all runs, else the plan's, else paper; at demo scale they are of the digits
    overrides  settings laid over those of every run
    """
    path = records.home() / "evidence.yml" if path is None else path
    found: dict[str, list[dict[str, Any]]] = {}
    for group in yaml.safe_load(path.read_text(encoding="utf-8")):
        for key in group:
            one_of(f"key in {path.name}", key, KEYS)
        if "of" in group:
            parts = [found[one_of(f"heading in {path.name}", name, found)] for name in group["of"]]
            found[group["what"]] = [*itertools.chain.from_iterable(parts)]
        else:
            found[group["what"]] = [settings | overrides for settings in _settings(group, scale)]
    return found


def plan_of(names: Sequence[str]) -> Path:
    """The plan that has these headings: the book's, which is the default, or that of the paper's tables and figures."""
    own, printed = ([*map(target, groups(path))] for path in (None, paper_plan()))
    mine = [name for name in names if target(name) in own]
    if len(mine) == len(names):
        return records.home() / "evidence.yml"
    if mine:
        raise ValueError(f"{mine[0]} is a heading of the book's runs and not all other names are: give them apart")
    for name, word in zip(names, map(target, names), strict=True):
        if word != "paper" and not any(re.fullmatch(rf"{word}[a-z]?", other) for other in printed):
            one_of("table, figure or heading", name, [*printed, "paper", *own])
    return paper_plan()


def target(heading: str) -> str:
    """A heading as one word: Table 4 -> table4, Figure 7a -> figure7a, main table -> main_table."""
    return re.sub(r"\W+", "_", re.sub(r"\W+(?=\d)", "", heading.lower()))


def chosen(names: Sequence[str], found: dict[str, Any], plan: str) -> list[str]:
    """The headings that `names` stand for, in any spelling; `plan`, or no name at all, stands for all of them."""
    known = {target(heading): heading for heading in found}
    parts = {word: [h for t, h in known.items() if re.fullmatch(rf"{word}[a-z]?", t)] for word in map(target, names)}
    for word, given in zip(parts, names, strict=True):
        if word != plan and not parts[word]:
            one_of("table or figure", given, [*known, plan])
    every = not names or plan in parts
    return [heading for heading in found if every or any(heading in part for part in parts.values())]


def plan(
    path: Path | None = None,
    root: str | os.PathLike[str] | None = None,
    names: Sequence[str] = (),
    scale: str | None = None,
    **overrides: Any,
) -> list[Planned]:
    """Every run under the headings that `names` stand for, all by default, in their order and each once."""
    found: dict[str, Planned] = {}
    every = groups(path, scale, **overrides)
    versions: dict[tuple[str, int], str | None] = {}
    for heading in chosen(names, every, path.stem if path else "evidence"):
        for settings in every[heading]:
            config = configured(settings)
            if (known := _key(config)) not in found:
                data = (config.benchmark, config.size)
                if data not in versions:
                    versions[data] = _version(config, root)
                found[known] = _planned(heading, settings, config, versions[data], root)
    return [*found.values()]


def by_heading(
    every: Sequence[Planned],
    path: Path | None = None,
    names: Sequence[str] = (),
    scale: str | None = None,
    **overrides: Any,
) -> dict[str, list[Planned]]:
    """Heading -> its runs out of those of `plan` for the same arguments; a run may be under several headings."""
    known = {_key(configured(planned.settings)): planned for planned in every}
    found = groups(path, scale, **overrides)
    headings = chosen(names, found, path.stem if path else "evidence")
    return {heading: [known[_key(configured(each))] for each in found[heading]] for heading in headings}


def configured(settings: dict[str, Any]) -> Config:
    """The configuration of a run of the plan."""
    return _configured(tuple(settings.items()))


@functools.cache
def _configured(settings: tuple[tuple[str, Any], ...]) -> Config:
    return configure(**dict(settings))


def _key(config: Config) -> str:
    return str(sorted(config.fields().items(), key=str))


def _planned(heading: str, settings: dict[str, Any], config: Config, version: str | None, root: Any) -> Planned:
    if version is None:
        return Planned(heading, settings, recorded(config, root), None)
    known = identity(config, version)
    return Planned(heading, settings, records.find(known), records.name_of(known))


def _settings(group: dict[str, Any], scale: str | None) -> Iterator[dict[str, Any]]:
    for more in group.get("also", [{}]):
        given = {"seed": 0, "scale": "paper"} | group["runs"] | more | ({} if scale is None else {"scale": scale})
        names = given["benchmark"] if isinstance(given["benchmark"], list) else [given["benchmark"]]
        for benchmark in dict.fromkeys("digits" if given["scale"] == "demo" else name for name in names):
            each = given | {"benchmark": benchmark}
            if each["held_out"] == "each":
                each["held_out"] = [*REGISTRY[benchmark].domains]
            values = [value if isinstance(value, list) else [value] for value in each.values()]
            for point in itertools.product(*values):
                settings = dict(zip(each, point, strict=True))
                yield settings | ({"held_out": None} if settings["held_out"] == "none" else {})


def _version(config: Config, root: str | os.PathLike[str] | None) -> str | None:
    """The version of the data that a run would train on; None where it is not on this machine."""
    if config.benchmark == "digits":
        return ""
    if config.benchmark in REGISTRY and locate(config.benchmark, root) is None:
        return None
    return data_version(config.benchmark, load(config.benchmark, size=config.size, root=root))


def command(settings: dict[str, Any]) -> list[str]:
    """The words of `hypo train` that make a run."""
    words = {name: "none" if value is None else str(value) for name, value in settings.items()}
    return ["train", *(word for name, text in words.items() for word in (f"--{name.replace('_', '-')}", text))]


def seconds(planned: Planned, every: list[Planned]) -> float | None:
    """How long a run may take: the median over recorded ones of its benchmark, scale and backbone of what each would
    have taken with its method, by the costs of a step; None without any.

    Records do not say which processor they are from, so slow and fast machines are mixed.
    """
    kind, costs = configured(planned.settings), step_costs()
    alike = [other.record for other in every if other.record and _kind(other.record["config"]) == _kind(kind.fields())]
    factors = [costs.get(kind.algorithm, 1.0) / costs.get(record["config"]["algorithm"], 1.0) for record in alike]
    spent = [record["cost"] for record in alike]
    times = [f * cost["seconds"] + cost["evaluation_seconds"] for f, cost in zip(factors, spent, strict=True)]
    return statistics.median(times) if times else None


def _kind(fields: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(fields[name] for name in ("benchmark", "scale", "backbone", "epochs", "views"))


def make(jobs: int, every: Sequence[Planned], root: str | os.PathLike[str] | None = None) -> int:
    """Make what is missing of a plan, `jobs` runs at a time, one thread each; the number of runs that failed."""
    todo = here(every)
    guesses = [seconds(planned, every) for planned in todo]
    made = sum(planned.record is not None for planned in every)
    left = f"{len(todo)} to make{_how_long(guesses, jobs)}"
    print(f"{made} of {len(every)} runs are recorded, {left}; Ctrl-C loses nothing", flush=True)
    failed, spent, expected = 0, 0.0, 0.0
    with ThreadPoolExecutor(jobs) as pool, _children(pool) as children:
        results = [pool.submit(_run, planned, root, children) for planned in todo]
        for at, (planned, result) in enumerate(zip(todo, results, strict=True), 1):
            code, took, said = result.result()
            failed += code != 0
            if code == 0 and (guess := guesses[at - 1]):
                spent, expected = spent + took, expected + guess
            outcome = f"{took / 60:.0f} min" if code == 0 else f"failed: {said}"
            left = f"{len(todo) - at} left{_how_long(guesses[at:], jobs, spent / expected if expected else 1.0)}"
            words = " ".join(command(planned.settings))
            print(f"{at}/{len(todo)} {planned.what}: hypo {words}: {outcome}; {left}", flush=True)
    return failed


def _how_long(guesses: Sequence[float | None], jobs: int, pace: float = 1.0) -> str:
    """What runs will take, `jobs` at a time, each `pace` times its guess; nothing where there is none."""
    known = [guess for guess in guesses if guess is not None]
    if not known:
        return ""
    unknown = len(guesses) - len(known)
    more = f" and {unknown} whose time is not known" if unknown else ""
    return f", about {pace * sum(known) / jobs / 3600:.1f} h{more}"


def here(every: Sequence[Planned]) -> list[Planned]:
    """The runs that are missing and whose data is on this machine; a line to stderr names the data that is not."""
    missing = [planned for planned in every if planned.record is None]
    for name in sorted({planned.settings["benchmark"] for planned in missing if planned.name is None}):
        say(f"{name} is not on this machine, so its runs are left out: `hypo data {name}` fetches it")
    return [planned for planned in missing if planned.name is not None]


@contextlib.contextmanager
def _children(pool: ThreadPoolExecutor) -> Iterator[set[subprocess.Popen]]:
    """Processes that are running; they are ended when this one is interrupted, and go on from a checkpoint later."""
    running: set[subprocess.Popen] = set()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield running
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in running.copy():
            process.terminate()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(planned: Planned, root: Any, children: set[subprocess.Popen]) -> tuple[int, float, str]:
    words = [*command(planned.settings), *(["--root", os.fspath(root)] if root else [])]
    started = time.monotonic()
    environment = LARGE_PAGES | {"OMP_NUM_THREADS": "1"} | os.environ
    process = subprocess.Popen(
        [*_politely(), sys.executable, "-m", "hypo", *words],
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


def listing(headings: dict[str, list[Planned]]) -> str:
    """A plan by its headings as text: for each how many runs are recorded, then the commands of those that are not; a
    run under several headings has its command at the first."""
    every = [planned for what, group in headings.items() for planned in group if planned.what == what]
    lines, total = [], 0.0
    for what, group in headings.items():
        missing = [planned for planned in group if planned.record is None]
        left = [planned for planned in missing if planned.what == what]
        above = f", {len(missing) - len(left)} to make listed above" if len(missing) > len(left) else ""
        known = [took for planned in left if (took := seconds(planned, every)) is not None]
        total += sum(known)
        guess = f", about {sum(known) / 3600:.1f} h of one thread" if known else ", time not known" if left else ""
        lines.append(f"{what}: {len(group) - len(missing)} of {len(group)} recorded{above}{guess}")
        lines += [f"  hypo {' '.join(command(planned.settings))}" for planned in left]
    left = sum(planned.record is None for planned in every)
    return "\n".join([*lines, f"{left} of {len(every)} left, about {total / 3600:.1f} h of one thread where known"])


def snakefile() -> Path | None:
    """The workflow of the working copy where Snakemake is installed; None elsewhere: `make` does the same."""
    path = records.home().parent / "workflow" / "Snakefile"
    return path if path.exists() and importlib.util.find_spec("snakemake") else None


def by_workflow(
    jobs: int,
    path: Path,
    root: str | os.PathLike[str] | None = None,
    names: Iterable[str] = (),
    scale: str | None = None,
) -> int:
    """Make what is missing of the plan at `path` by Snakemake, `jobs` runs at a time; its exit code."""
    config = {"plan": str(path.resolve()), "scale": scale, "root": root and str(Path(root).resolve())}
    given = [f"{key}={json.dumps(value)}" for key, value in config.items() if value is not None]
    place = runs_folder().resolve() / "workflow"
    place.mkdir(parents=True, exist_ok=True)
    words = ["--snakefile", str(snakefile()), "--directory", str(place), "--cores", str(jobs)]
    words += [*map(target, names), "--config", *given]
    command = [*_politely(), sys.executable, "-m", "snakemake", *words]
    return subprocess.run(command, check=False, env=LARGE_PAGES | os.environ).returncode


def sweep(jobs: int, points: Sequence[dict[str, Any]], root: str | os.PathLike[str] | None = None) -> int:
    """Make the runs with these settings by Snakemake; its exit code."""
    also = [{name: "none" if value is None else value for name, value in point.items()} for point in points]
    path = runs_folder() / "workflow" / "sweep.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, yaml.safe_dump([{"what": "all", "why": "", "runs": {}, "also": also}]).encode())
    return by_workflow(jobs, path, root)


def _politely() -> list[str]:
    return ["nice", "-n", "10"] if shutil.which("nice") else []
