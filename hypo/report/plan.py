"""What the runs behind the paper's tables and figures take: operations, hours, disk and memory."""

from __future__ import annotations

import functools
import heapq
import json
import os
import signal
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode

from hypo import paper, records
from hypo.algorithms import method
from hypo.config import Config
from hypo.data.benchmarks import REGISTRY
from hypo.data.corruptions import CORRUPTIONS
from hypo.model import HypoNet
from hypo.report import cost, text
from hypo.report.table import COUNTS, DIGITS, MATHS, TIMES, Table
from hypo.sphere import BLOCK
from hypo.suggest import one_of
from hypo.training import evidence
from hypo.training.swad import OVERFIT_PATIENCE


class Device(NamedTuple):
    """A GPU: tera-operations per second by its data sheet in the precision that a run has on it, and the share of them
    that training a ResNet is assumed to reach. Nothing here was measured on one."""

    peak: float
    share: float
    precision: str


DEVICES = {
    "RTX 2080 Ti": Device(13.4, 0.50, "float32"),  # the paper's; it has no bfloat16
    "A100": Device(312.0, 0.20, "bfloat16"),
    "H100": Device(989.0, 0.12, "bfloat16"),
}
RESTART = 90.0  # seconds that a failure costs: half a minute since the last checkpoint, and a start


class Network(NamedTuple):
    """Of one image: operations forward, and forward and backward; bytes kept for backward in float32. Parameters, and
    the size of the features before the head."""

    forward: float
    both: float
    kept: float
    parameters: int
    features: int


@functools.cache
def network(backbone: str, dim: int, stem: str, width: float, size: int) -> Network:
    """Counted by torch.utils.flop_counter on tensors without memory; a multiplication and an addition are two."""
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage.nbytes()
        return tensor

    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        model = HypoNet(backbone, dim, None, stem, width)
        weights = {p.untyped_storage()._cdata for p in (*model.parameters(), *model.buffers())}
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            z = model(torch.empty(2, 3, size, size))  # batch norm needs two
        forward = counter.get_total_flops()
        z.sum().backward()
    stored = sum(n for storage, n in kept.items() if storage not in weights)
    count = sum(p.numel() for p in model.parameters())
    return Network(forward / 2, counter.get_total_flops() / 2, stored / 2, count, model.feature_dim)


def of(config: Config) -> Network:
    return network(config.backbone, config.dim, config.stem, config.width, config.size)


def test_images(config: Config) -> int:
    """Images that the measures at the end of a run look at, for one rule of selection."""
    spec = REGISTRY[config.benchmark]
    if config.held_out is not None:
        return spec.counts[config.held_out]
    clean = sum(spec.class_counts.get("test", spec.class_counts.get("val", ()))) or sum(spec.counts.values()) // 4
    kinds = 1 if config.benchmark == "imagenet100" else len(CORRUPTIONS)
    return clean + 5 * kinds * (config.corrupted_images or clean)


def operations(config: Config) -> float:
    """Floating-point operations of a run: the training, the evaluations during it, the measures at its end.

    Methods that pass a batch through the network more than once take more, by what `make bench` counted for them.
    """
    trained, share = cost.training_images(config), config.fraction
    validation = trained * share / (1 - share)
    looks = config.epochs * (config.evaluations * validation + 500) + len(records.RULES) * (
        validation + test_images(config)
    )
    return cost.passes(config) * of(config).both * factors().get(config.algorithm, 1.0) + looks * of(config).forward


def bench() -> list[dict]:
    """What `make bench` measured of growth, one row per case; nothing if it did not."""
    path = records.home() / "bench.json"
    return json.loads(path.read_text()).get("scale", {"rows": []})["rows"] if path.exists() else []


@functools.cache
def factors() -> dict[str, float]:
    """Method -> the operations of its step over ERM's."""
    return {each["method"]: each["ours"] / each["obvious"] for each in bench() if "method" in each}


def hours(config: Config, device: str) -> float:
    """Of a run on a GPU of DEVICES, at its stated share of the peak."""
    gpu = DEVICES[one_of("device", device, DEVICES)]
    return operations(config) / (gpu.peak * 1e12 * gpu.share) / 3600


def memory(config: Config, device: str) -> float:
    """Bytes on the GPU: what backward needs of a batch, and the weights, their gradients and SGD's momentum."""
    half = 0.5 if DEVICES[device].precision == "bfloat16" else 1.0
    return config.batch_size * config.views * of(config).kept * half / config.accumulate + 12 * of(config).parameters


def disk(config: Config) -> tuple[float, float]:
    """Bytes that a run leaves, its record with the test embeddings, and those of its checkpoints while it runs."""
    dim = config.dim if method(config.algorithm).spherical else of(config).features
    kept = REGISTRY[config.benchmark].counts.get(config.held_out, 0) or min(test_images(config), 10_000)
    weights = 4 * of(config).parameters
    states = 5 + OVERFIT_PATIENCE + 1  # the weights, SGD's momentum, two best, the open mean, the means of SWAD
    return kept * (2 * dim + 32) + 600 * config.epochs * config.evaluations, 2 * states * weights


def cached(config: Config) -> float:
    """Bytes of the decoded images, which all runs of a benchmark share."""
    spec = REGISTRY[config.benchmark]
    return 3 * config.size**2 * spec.images


def makespan(lengths: Sequence[float], slots: int, failures: float = 0.0, seed: int = 0) -> float:
    """Hours until all runs are done by the workflow's rule: whatever is free takes the next run of the plan.

    lengths   hours of each run, in the order of the plan
    failures  per GPU and hour, at random; the run goes on from its last checkpoint on the same GPU after RESTART
    """
    draw = np.random.default_rng(seed)
    free = [0.0] * slots
    for length in lengths:
        start, done = heapq.heappop(free), 0.0
        end = start
        while done < length:
            until_failure = draw.exponential(1 / failures) if failures else float("inf")
            worked = min(until_failure, length - done)
            done += worked
            end += worked + (RESTART / 3600 if done < length else 0.0)
        heapq.heappush(free, end)
    return max(free)


def table(
    names: Sequence[str] = (),
    scale: str = "paper",
    device: str = "A100",
    jobs: int = 1,
    root: str | os.PathLike[str] | None = None,
) -> Table:
    """What each table and figure takes by itself, and what all of them take together, where runs are shared."""
    one_of("device", device, DEVICES)
    path = evidence.paper_plan()
    every = evidence.plan(path, root, names, scale)
    groups = evidence.by_heading(every, path, names, scale)
    order = [*paper.ARTEFACTS["number"]]
    rows = {heading: _row(groups[heading], every, device, jobs) for heading in sorted(groups, key=order.index)}
    rows["all together"] = _row(every, every, device, jobs)
    numbers = pd.DataFrame(rows).T.rename_axis("artefact")
    shown = pd.DataFrame(
        {
            "runs": numbers["runs"].map("{:,.0f}".format),
            "to make": numbers["to_make"].map("{:,.0f}".format),
            "EFLOP": numbers["operations"].map(lambda n: f"{n / 1e18:,.1f}"),
            "hours": numbers["hours"].map(_hours),
            f"hours, {jobs} at a time": numbers["elapsed"].map(_hours),
            "memory, GB": numbers["memory"].map(lambda n: f"{n / 1e9:.1f}"),
            "records, GB": numbers["records"].map(lambda n: f"{n / 1e9:.2f}"),
            "images, GB": numbers["cache"].map(lambda n: f"{n / 1e9:.1f}"),
        }
    )
    gpu = DEVICES[device]
    speed = (
        f"Hours are of one {device} at {gpu.share:.0%} of {gpu.peak:g} tera-operations a second ({gpu.precision}), a "
        "stated speed: nothing was run on a GPU."
        if scale == "paper"
        else "Hours are of one thread, by the median of recorded runs of the same kind, and not known without any."
    )
    caption = (
        f"What the runs behind the paper's tables and figures take at {scale} scale. {speed} Hours and operations are "
        "of the runs to make. Memory is the largest of a run on the GPU, images the cache that runs share. Tables "
        "share runs, so the last row is less than the sum."
    )
    return Table(shown, f"plan-{scale}", caption, numbers=numbers.reset_index(), also=(COUNTS,))


def on_devices(scale: str = "paper") -> Table:
    """GPU-hours of all runs on each GPU, and the time on 1, 8 and 64 of them, with and without failures."""
    configs = [evidence.configured(planned.settings) for planned in evidence.plan(evidence.paper_plan(), scale=scale)]
    rows = []
    for device, gpu in DEVICES.items():
        lengths = [hours(config, device) for config in configs]
        row = {"GPU": device, "peak": gpu.peak, "share": gpu.share, "hours": sum(lengths)}
        for slots in (1, 8, 64):
            for failures in (0.0, 1 / 24, 1.0):
                row[slots, failures] = makespan(lengths, slots, failures)
        rows.append(row | {"longest": max(lengths)})
    numbers = pd.DataFrame(rows)
    shown = {
        "GPU": numbers["GPU"],
        "GPU-hours": numbers["hours"].map(_hours),
        "longest run": numbers["longest"].map(_hours),
    }
    for slots in (1, 8, 64):
        usual, daily, hourly = (numbers[slots, rate].map(_hours) for rate in (0.0, 1 / 24, 1.0))
        shown[f"on {slots}"] = usual + " (" + daily + ", " + hourly + ")"
    stated = "; ".join(f"{name} {gpu.share:.0%} of {gpu.peak:g} TFLOP/s" for name, gpu in DEVICES.items())
    caption = (
        f"Hours for all {len(configs):,} runs. In brackets with a failure per GPU and day, and per GPU and hour, which "
        f"costs {RESTART:g} s each. Simulated: whatever GPU is free takes the next run. Stated speeds: {stated}."
    )
    numbers.columns = [name if isinstance(name, str) else f"on_{name[0]}_failures_{name[1]:.3f}" for name in numbers]
    return Table(pd.DataFrame(shown), "plan-devices", caption, numbers=numbers, also=(COUNTS,))


def workflow_log(part: str) -> dict:
    """What tests/workflow_log.py kept of workflows that it killed: "tables", or "slurm"."""
    return json.loads((records.home() / "workflow.json").read_text())[part]


def killed_and_completed() -> Table:
    """The starts of a workflow that was killed, one row each."""
    log = workflow_log("tables")
    starts = pd.DataFrame(
        {
            "start": at,
            "seconds": each["seconds"],
            "ended": "all runs recorded" if each["code"] == 0 else signal.Signals(-each["code"]).name,
            "begun": len(each["begun"]),
            "recorded": len(each["recorded"]),
            "cut_off": len({*each["begun"]} - {*each["recorded"]}),
            "again": len(each["again"]),
        }
        for at, each in enumerate(log["starts"], 1)
    )
    names = {"cut_off": "runs cut off", "again": "runs begun that had a record"}
    shown = starts.rename(columns=names | {"begun": "runs begun", "recorded": "runs recorded", "ended": "ended by"})
    settings = ", ".join(f"{name} {value}" for name, value in log["settings"].items())
    tables = [number.removeprefix("Table ") for number in paper.ARTEFACTS["number"] if number in log["tables"]]
    caption = (
        f"Tables {text.listed(tables)} at demo scale, each run in a small form ({settings}): {log['runs']} runs, two "
        f"at a time, by Snakemake {log['snakemake']}. A kill at a random moment ends all processes. Made: "
        f"{starts['recorded'].sum()} records in {starts['begun'].sum()} jobs, of which {starts['cut_off'].sum()} were "
        "cut off by a kill."
    )
    return Table(shown, "workflow-killed", caption, numbers=starts, decimals=0, also=(DIGITS,))


def on_slurm() -> Table:
    """The jobs of the test on Slurm, as its controller logged them."""
    log = workflow_log("slurm")
    jobs = pd.DataFrame({"job": job, "run": name} for job, name in log["jobs"].items())
    events = pd.DataFrame(log["events"]).astype({"job": str}).pivot_table(index="job", columns="what", values="seconds")
    frame = jobs.merge(events.reset_index(), on="job")[["job", "run", "submitted", "started", "killed", "completed"]]
    caption = (
        f"Jobs of Slurm {log['slurm']} on this machine's loopback, in seconds since the first was submitted. A job was "
        "killed, then the workflow; a second workflow submitted what had no record."
    )
    return Table(frame, "workflow-slurm", caption, decimals=0, labels=2, also=(TIMES,))


def loss_growth() -> Table:
    """Time and memory of a call of the loss as measured, by samples and classes."""
    rows = pd.DataFrame([each for each in bench() if "kept" in each])
    shown = pd.DataFrame(
        {
            "samples N": rows["samples"].map("{:,}".format),
            "classes C": rows["classes"].map("{:,}".format),
            "seconds": (rows["ours"] / 1e3).map("{:.2f}".format),
            "of them matrix products": (rows["obvious"] / 1e3).map("{:.2f}".format),
            "kept for backward, GB": (rows["kept"] / 1e9).map("{:.2f}".format),
            "4 (N C + C²) bytes, GB": (_entries(rows["samples"], rows["classes"]) / 1e9).map("{:.2f}".format),
        }
    )
    caption = (
        "A call of HypoLoss and its backward at d = 128: processor seconds of one thread, and what is kept between the "
        "two. The last column is one float32 for each pair of a sample and a class and each pair of classes."
    )
    return Table(shown, "loss-growth", caption, numbers=rows, labels=2, also=(TIMES,))


def largest_loss() -> Table:
    """How many samples fit beside the prototypes of C classes, on GPUs of 11 and 80 GB."""
    rows = []
    for classes in (1_000, 10_000, 100_000, 1_000_000):
        room = {f"{size} GB": (size * 1e9 / 3 / 4 - min(classes**2, BLOCK)) / classes for size in (11, 80)}
        rows.append({"classes": f"{classes:,}"} | {size: f"{n:,.0f}" for size, n in room.items()})
    caption = (
        "Samples of a batch for which three arrays of float32, logits, their softmax and its gradient, fit into the "
        "memory of a GPU: N C for the variation loss, and C² for the separation loss, or a block of it."
    )
    return Table(pd.DataFrame(rows), "loss-limits", caption, also=(MATHS,))


def _entries(samples: pd.Series, classes: pd.Series) -> pd.Series:
    return 4.0 * (samples * classes + classes**2)


def _row(runs: Iterable[evidence.Planned], every: list[evidence.Planned], device: str, jobs: int) -> dict[str, float]:
    runs = [*{id(planned): planned for planned in runs}.values()]
    todo = [planned for planned in runs if planned.record is None]
    configs = [evidence.configured(planned.settings) for planned in todo]
    if any(config.scale != "paper" for config in configs):
        seconds = [evidence.seconds(planned, every) for planned in todo]
        lengths = [float("nan") if took is None else took / 3600 for took in seconds]
    else:
        lengths = [hours(config, device) for config in configs]
    images = {(config.benchmark, config.size): cached(config) for config in configs}
    return {
        "runs": len(runs),
        "to_make": len(todo),
        "operations": sum(map(operations, configs)),
        "hours": sum(lengths),
        "elapsed": float("nan") if pd.isna(sum(lengths)) else makespan(lengths, jobs),
        "memory": max((memory(config, device) for config in configs), default=0.0),
        "records": sum(disk(config)[0] for config in configs),
        "checkpoint": max((disk(config)[1] for config in configs), default=0.0),
        "cache": sum(images.values()),
    }


def _hours(number: float) -> str:
    return "not known" if pd.isna(number) else f"{number:,.1f}"
