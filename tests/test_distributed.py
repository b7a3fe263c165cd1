"""Two real processes over gloo against one process on the same global batch."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from conftest import labels
from torch.nn.parallel import DistributedDataParallel

from hypo import HypoLoss
from hypo.distributed import rows_of_all

pytestmark = pytest.mark.heavy

STEPS, TOTAL, CLASSES, DIM = 3, 24, 5, 8
UNEVEN = [17, 7]
CASES = [("ema", [12, 12]), ("ema", UNEVEN), ("learnable", [12, 12])]


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, DIM)).double()


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = torch.randn(TOTAL, 6, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
    return x, labels(TOTAL, CLASSES, seed=step), labels(TOTAL, 3, seed=step + 10)


def train(model: torch.nn.Module, kind: str, part: slice) -> dict[str, torch.Tensor]:
    criterion = HypoLoss(CLASSES, DIM, momentum=0.8, weight=2.0, prototypes=kind).double()
    if isinstance(model, DistributedDataParallel) and kind == "learnable":
        criterion = DistributedDataParallel(criterion)
    optimiser = torch.optim.SGD([*model.parameters(), *criterion.parameters()], lr=0.1)
    losses, gradients = [], []
    for step in range(STEPS):
        x, y, domains = (tensor[part] for tensor in batch(step))
        optimiser.zero_grad()
        terms = criterion(F.normalize(model(x), dim=1), y, domains)
        terms.total.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        optimiser.step()
        losses.append(torch.stack(terms).detach())
    prototypes = getattr(criterion, "module", criterion).prototypes.detach()
    return {"losses": torch.stack(losses), "gradients": torch.stack(gradients), "prototypes": prototypes}


def partners(rows: torch.Tensor, order: torch.Tensor, mine: slice) -> torch.Tensor:
    """A loss for which this rank looks at rows of its own choice, of all that there are."""
    return (torch.arange(len(rows))[mine, None] * rows[order[mine]].square() * rows[mine]).sum()


def worker(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    for kind, cut in CASES:
        start = sum(cut[:rank])
        result = train(DistributedDataParallel(network()), kind, slice(start, start + cut[rank]))
        torch.save(result, Path(folder) / f"{kind}-{cut[0]}-{rank}.pt")
    x, _, _ = batch(0)
    own = x[: UNEVEN[0]] if rank == 0 else x[UNEVEN[0] :]
    own = own.clone().requires_grad_()
    rows, mine = rows_of_all(own)
    partners(rows, torch.randperm(TOTAL, generator=torch.Generator().manual_seed(3)), mine).backward()
    torch.save((rows.detach(), own.grad), Path(folder) / f"rows-{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the two processes computed in each case."""
    folder = tmp_path_factory.mktemp("ranks")
    mp.spawn(worker, (str(folder),), nprocs=2)
    return folder


@pytest.mark.parametrize("kind, cut", CASES)
def test_two_processes_equal_one(folder, kind, cut):
    alone = train(network(), kind, slice(None))
    ranks = [torch.load(folder / f"{kind}-{cut[0]}-{rank}.pt", weights_only=True) for rank in range(2)]
    assert torch.equal(ranks[0]["prototypes"], ranks[1]["prototypes"])
    for rank in ranks:
        for name, expected in alone.items():
            torch.testing.assert_close(rank[name], expected, rtol=1e-6, atol=1e-6)


def test_gradients_of_all_ranks_come_back_to_the_rows_that_they_looked_at(folder):
    x = batch(0)[0].requires_grad_()
    rows, mine = rows_of_all(x)
    assert rows is x and mine == slice(0, TOTAL)
    partners(rows, torch.randperm(TOTAL, generator=torch.Generator().manual_seed(3)), mine).backward()
    found = [torch.load(folder / f"rows-{rank}.pt", weights_only=True) for rank in range(2)]
    assert all(torch.equal(rows, x) for rows, _ in found)
    torch.testing.assert_close(torch.cat([gradient for _, gradient in found]), x.grad)
