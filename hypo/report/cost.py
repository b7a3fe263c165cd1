"""What a run costs, computed from its configuration, the published counts of images and the measured speed."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from hypo import records
from hypo.config import Config, configure
from hypo.data.benchmarks import REGISTRY
from hypo.report import text
from hypo.report.table import COUNTS, TIMES, Table

SEEDS = 3  # the paper's number of runs
TIMED = {"mobilenet_v2": "MobileNetV2", "resnet18": "narrow ResNet-18"}
"""Backbone of cpu scale -> its name in `make bench`."""


def facts(benchmark: str) -> str:
    """One sentence with what is published of a benchmark: classes, images by domain, licence."""
    spec = REGISTRY[benchmark]
    by_domain = [f"{text.words(domain)} {count:,}" for domain, count in spec.counts.items()]
    images = f"{'at most ' if spec.at_most else ''}{spec.images:,} images" + (
        f" ({', '.join(by_domain)})" if by_domain else ""
    )
    return f"{text.data(benchmark)} has {spec.num_classes} classes and {images}. Licence: {spec.licence}."


def training_images(config: Config) -> int:
    """Images that a run trains on, from the published counts: without validation and the held-out domain."""
    spec = REGISTRY[config.benchmark]
    if spec.counts:
        pool = sum(count for domain, count in spec.counts.items() if domain != config.held_out)
    elif "train" in spec.class_counts:
        pool = sum(spec.class_counts["train"])
    else:  # ImageNet-100, of which only an upper limit is known
        pool = spec.images - sum(spec.class_counts["val"])
    return pool - round(config.fraction * pool)


def passes(config: Config) -> int:
    """Images that go forward and backward through the network in a run: whole batches x epochs x views."""
    steps = training_images(config) // config.batch_size
    return steps * config.batch_size * config.epochs * config.views


def images_per_second(config: Config) -> float | None:
    """Speed of training at cpu scale as `make bench` last measured it for this network; None where it did not."""
    if config.scale != "cpu":
        return None
    case = f"{TIMED.get(config.backbone)} at {config.size} px"
    steps = [row["ours"] / 1e3 for row in bench()["rows"] if row["case"].startswith(case)]
    return config.batch_size * config.views / steps[0] if steps else None


def bench() -> dict[str, Any]:
    """The whole training steps that `make bench` timed at cpu scale, in milliseconds, and the machine."""
    return json.loads((records.home() / "bench.json").read_text())["training"]


def table(benchmark: str, held_out: str | None = None) -> Table:
    """What a run of HYPO takes at the scales that use the benchmark's own images, and what a row of its table takes."""
    domains = REGISTRY[benchmark].domains
    tests = domains if len(domains) > 1 else (None,)
    held_out = held_out if held_out in domains else None  # a page on a reader's folder has domains of its own
    at_most = "at most " if REGISTRY[benchmark].at_most else ""
    shown = {}
    for scale in ("cpu", "paper"):
        config = configure(benchmark, "hypo", held_out, scale)
        one = passes(config)
        row = SEEDS * sum(passes(configure(benchmark, "hypo", domain, scale)) for domain in tests)
        speed = images_per_second(config)
        shown[f"{scale} scale"] = {
            "network": text.network(config.backbone, config.size, config.width),
            "training images": f"{at_most}{training_images(config):,}",
            "epochs × views": f"{config.epochs} × {config.views}",
            "passes of a run": f"{at_most}{one:,}",
            "time of a run": text.duration(one / speed) if speed else "not measured",
            "passes of a row": f"{at_most}{row:,}",
            "time of a row": text.duration(row / speed) if speed else "not measured",
        }
    without = f" without {text.words(held_out)}" if held_out else ""
    runs = f"{SEEDS} seeds" + (f" of {len(tests)} held-out domains" if len(tests) > 1 else "")
    caption = (
        f"What it takes to train HYPO on {text.data(benchmark)}{without}. A pass is one image forward and backward; a "
        f"row of the paper's table is {len(tests) * SEEDS} runs, {runs}. Times follow from the speed that `make bench` "
        f"measured on {bench()['machine']['cores']} cores, without evaluation; no GPU was timed here."
    )
    frame = pd.DataFrame(shown).rename_axis("cost")
    return Table(frame, f"cost-{benchmark}", caption, also=(COUNTS, TIMES))
