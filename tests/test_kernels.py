"""The kernels for GPUs are Algorithm 1: in Triton's interpreter on any machine, compiled where there is a GPU."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import oracles
import pytest
import torch
from conftest import labels, unit
from torch.autograd import grad

from hypo import HypoLoss, sphere, update_prototypes

CASES = [(40, 5, 9, 0.95), (7, 3, 4, 0.0), (12, 2, 8, 0.5), (30, 6, 16, 0.999), (9, 20, 3, 0.3), (6, 2, 4, 1e-9)]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}
pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="torch came without Triton")


def assert_is_algorithm_1(n: int, classes: int, dim: int, momentum: float, dtype: torch.dtype, device: str) -> None:
    inputs = [unit(classes, dim, dtype=dtype).to(device), unit(n, dim, seed=1, dtype=dtype).to(device)]
    inputs = [tensor.requires_grad_() for tensor in inputs]
    y = labels(n, classes).to(device)
    direction = unit(classes, dim, seed=2, dtype=dtype).to(device)
    ours, expected = (update(*inputs, y, momentum) for update in (update_prototypes, oracles.algorithm_1))
    options = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    torch.testing.assert_close(ours, expected, **options)
    for mine, theirs in zip(*(grad((after * direction).sum(), inputs) for after in (ours, expected)), strict=True):
        torch.testing.assert_close(mine, theirs, **options)


def in_the_interpreter() -> None:
    """What the test below runs in a process of its own, since Triton reads its setting when it is imported."""
    sphere._on_gpu = lambda _: True
    for case in CASES:
        assert_is_algorithm_1(*case, torch.float64, "cpu")
    assert_is_algorithm_1(*CASES[0], torch.float32, "cpu")
    z = torch.tensor([[-1.0, 0.0], [0.0, 1.0]], requires_grad=True)  # the first cancels the prototype
    after = update_prototypes(torch.eye(2), z, torch.tensor([0, 0]), 0.5)
    torch.testing.assert_close(after, torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    assert grad(after.sum(), z)[0].isfinite().all()


def test_the_kernels_are_algorithm_1_with_its_gradients():
    tests = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {tests!r}); import test_kernels; test_kernels.in_the_interpreter()"
    environment = {"TRITON_INTERPRET": "1", "PYTHONPATH": str(Path(tests).parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="never run on a GPU: there is none")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", [*CASES, (1024, 10, 128, 0.95), (65536, 1000, 128, 0.95)])
def test_the_compiled_kernels_are_algorithm_1(case, dtype):
    assert_is_algorithm_1(*case, dtype, "cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="never run on a GPU: there is none")
def test_a_call_of_the_loss_takes_few_launches_whatever_the_batch():
    launches = []
    for n in (64, 4096):
        criterion = HypoLoss(10, 128).cuda()
        z, y = unit(n, 128, dtype=torch.float32).cuda().requires_grad_(), labels(n, 10).cuda()
        criterion(z, y).total.backward()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            criterion(z, y).total.backward()
        launches.append(sum(event.count for event in profile.key_averages()))
    assert max(launches) < 150 and abs(launches[1] - launches[0]) < 30
