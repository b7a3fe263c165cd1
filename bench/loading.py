"""How fast PACS reaches the model from the decoded cache, against opening and transforming image by image."""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2

from bench.timing import faster, row
from hypo.data.augment import RECIPES, augment, step_generator
from hypo.data.benchmarks import locate
from hypo.data.cache import decode
from hypo.data.folders import Listing, scan
from hypo.data.imageset import ImageSet

SIZE = 112  # pixels
BATCH = 64


def run(quick: bool = False) -> list[dict]:
    """For PACS under the data root; no row if it is not there.

    An epoch is timed by the clock with torch's usual threads, and in processor time of a single one. The obvious
    epoch, Pillow and torchvision image by image, has one thread, which suits it best; it is extrapolated from a sample.
    """
    folder = locate("pacs")
    if folder is None:
        print("loading: skipped, there is no PACS under the data root")
        return []
    listing = scan(folder)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as cache, ProcessPoolExecutor(1, get_context("spawn")) as fresh:
            build, peak = fresh.submit(_build, listing, Path(cache)).result()
            images = decode(listing, SIZE, Path(cache))
            file_size = sum(path.stat().st_size for path in Path(cache).iterdir())
            clocks, count = (time.perf_counter, time.process_time), 30 if quick else 600
            obvious, obvious_single = (_plain_epoch(listing, count, clock) for clock in clocks)
            single = _cached_epoch(images, time.process_time)
            torch.set_num_threads(threads)
            epoch = _cached_epoch(images, time.perf_counter)
    finally:
        torch.set_num_threads(threads)
    in_memory = images.images.nbytes
    return [
        faster(f"PACS epoch of augmented batches, {SIZE} px", epoch, obvious, aim=5, unit="s", scale=1),
        row("PACS epoch: processor time, one thread", single, obvious_single, "s"),
        row(f"PACS cache of {file_size / 1e6:.0f} MB: time to build (obvious: one epoch)", build, obvious, "s"),
        row("PACS cache: memory to build (obvious: all in memory)", max(peak, 2**20) / 1e6, in_memory / 1e6, "MB"),
    ]


def _build(listing: Listing, folder: Path) -> tuple[float, int]:
    """Seconds to build the cache and bytes by which this process's peak grew meanwhile; to run in a fresh process."""
    unit = 1 if sys.platform == "darwin" else 1024
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    decode(listing, SIZE, folder)
    return time.perf_counter() - start, unit * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def _cached_epoch(images: ImageSet, clock: Callable[[], float]) -> float:
    """Seconds for one pass in random order."""
    start = clock()
    order = np.random.default_rng(0).permutation(len(images))
    for step, at in enumerate(range(0, len(images), BATCH)):
        batch = torch.from_numpy(images.images[order[at : at + BATCH]]).permute(0, 3, 1, 2)
        augment(batch, "pacs", step_generator(0, 0, step))
    return clock() - start


def _plain_epoch(listing: Listing, count: int, clock: Callable[[], float]) -> float:
    """Seconds to open and transform every image, one after the other, extrapolated from a sample of all domains."""
    transform = plain_transform(SIZE)
    sample = np.linspace(0, len(listing.paths) - 1, count).astype(int)
    start = clock()
    for i in sample:
        transform(Image.open(listing.root / listing.paths[i]).convert("RGB"))
    return (clock() - start) * len(listing.paths) / count


def plain_transform(size: int) -> v2.Compose:
    """The training transform of the released PACS runs for one Pillow image."""
    r = RECIPES["pacs"]
    return v2.Compose(
        [
            v2.RandomResizedCrop(size, r.area, r.ratio),
            v2.RandomHorizontalFlip(r.flip),
            v2.ColorJitter(r.brightness, r.contrast, r.saturation, r.hue),
            v2.RandomGrayscale(r.greyscale),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(r.mean, r.std),
        ]
    )
