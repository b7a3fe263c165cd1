"""How OpenMP's threads wait: asleep, as hypo has it, against awake, as torch leaves it; quiet and on a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.timing import printed, row

STEPS = """
import sys, time, torch, torchvision
torch.set_num_threads(int(sys.argv[1]))
network = torchvision.models.resnet18(num_classes=10).to(memory_format=torch.channels_last)
images = torch.randn(64, 3, 32, 32).to(memory_format=torch.channels_last)
for step in range(1 + int(sys.argv[2])):
    if step == 1:
        start = time.perf_counter()
    network(images).logsumexp(1).sum().backward()
print(time.perf_counter() - start)
"""


def run(quick: bool = False) -> list[dict]:
    cores, steps = os.cpu_count() or 1, 2 if quick else 20
    rows = []
    for name, busy in (("quiet", 0), (f"{cores} busy processes", cores)):
        with spinning(busy):
            asleep, awake = (milliseconds(policy, cores, steps) for policy in ("PASSIVE", None))
        rows.append(
            row(f"a step of ImageNet's ResNet-18 (64 images, 32 px) on {cores} threads, {name}", asleep, awake, "ms")
        )
    return rows


def milliseconds(policy: str | None, threads: int, steps: int) -> float:
    """A step in a process of its own, since OpenMP reads its policy once; `hypo` is not imported there."""
    return 1e3 * printed(STEPS, {"OMP_WAIT_POLICY": policy}, threads, steps) / steps


@contextmanager
def spinning(count: int) -> Iterator[None]:
    """Inside, so many processes do nothing but take a core."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
