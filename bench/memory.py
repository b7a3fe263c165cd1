"""The memory of a step: kept in large pages, as in runs of a plan, against what the C library does by itself."""

from __future__ import annotations

from bench.timing import printed, row
from hypo.training.evidence import LARGE_PAGES

STEPS = """
import sys, time, torch, torchvision
torch.set_num_threads(1)
network = torchvision.models.mobilenet_v2(num_classes=7).to(memory_format=torch.channels_last)
images = torch.randn(64, 3, 112, 112).to(memory_format=torch.channels_last)
for step in range(2 + int(sys.argv[1])):
    if step == 2:
        start = time.process_time()
    network(images).logsumexp(1).sum().backward()
print(time.process_time() - start)
"""


def run(quick: bool = False) -> list[dict]:
    """In processor time, which includes what the kernel spends on pages."""
    steps = 1 if quick else 10
    kept, usual = (1e3 * printed(STEPS, way, steps) / steps for way in (LARGE_PAGES, dict.fromkeys(LARGE_PAGES)))
    return [row("a MobileNetV2 step (64 images, 112 px) on one thread", kept, usual, "ms")]
