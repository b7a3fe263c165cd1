import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of what the tests start: they run side by side

import hypo  # noqa: F401 - before torch: it says how OpenMP's threads wait

# isort: split
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


class ByFile(LoadScopeScheduling):
    """Tests of a file share its fixtures in one process; pages, which take longest and share none, go one by one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return nodeid if file.endswith("test_pages.py") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log) -> ByFile:
    return ByFile(config, log)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def unit(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Random unit vectors."""
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype), dim=-1)


def labels(n: int, classes: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(classes, (n,), generator=torch.Generator().manual_seed(seed))


def on_circle(*degrees: float) -> torch.Tensor:
    """Unit vectors in the plane at these angles."""
    angles = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return torch.stack([angles.cos(), angles.sin()], dim=1)
