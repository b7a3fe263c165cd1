"""Joining the processes that torchrun started into one run, and leaving it so that no process is left waiting."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NoReturn

import torch
import torch.distributed as dist

from hypo.suggest import sentence

TIMEOUT = timedelta(minutes=10)  # that one rank waits for another which neither answers nor ends


class _Stopped(BaseException):
    """SIGTERM, which torchrun sends to the other ranks when one has ended badly."""


@contextmanager
def process_group() -> Iterator[bool]:
    """Inside, this process is one of torchrun's ranks (gloo on the CPU, NCCL on GPUs); yields whether it is the first.

    An exception inside ends this rank with a sentence (printed by the first rank that fails, as others often fail for
    the same reason) and a code other than 0, upon which torchrun ends the others. Without torchrun nothing is done.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield True
        return
    store, rank, world = next(dist.rendezvous("env://", timeout=TIMEOUT))
    try:
        device = _device()
        dist.init_process_group(
            "gloo" if device is None else "nccl",
            store=store,
            rank=rank,
            world_size=world,
            timeout=TIMEOUT,
            device_id=device,
        )
        signal.signal(signal.SIGTERM, _stop)
        yield rank == 0
        dist.destroy_process_group()
    except KeyboardInterrupt:
        raise
    except (Exception, _Stopped) as error:
        _leave(error, f"rank {rank} of {world}", store)


def _device() -> torch.device | None:
    """This rank's GPU; None on a machine without one."""
    if not torch.cuda.is_available():
        return None
    local, ranks, gpus = int(os.environ["LOCAL_RANK"]), os.environ["LOCAL_WORLD_SIZE"], torch.cuda.device_count()
    if int(ranks) > gpus:
        raise ValueError(
            f"{ranks} ranks need a GPU each and there are {gpus}: pass --nproc-per-node={gpus} to torchrun, "
            "or set CUDA_VISIBLE_DEVICES to nothing to train on the CPU"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


def _stop(_number: int, _frame: object) -> NoReturn:
    raise _Stopped


def _leave(error: BaseException, who: str, store: dist.Store) -> NoReturn:
    """Say why and end this process at once: the usual clean-up would wait for the other ranks."""
    lost = isinstance(error, _Stopped | dist.DistError) or "gloo" in str(error)
    mistake = isinstance(error, ValueError | OSError)
    if lost:
        line = f"{who} ends because another rank did; the same command goes on from the last checkpoint"
    else:
        line = sentence(error) if mistake else f"{who} failed: {type(error).__name__}: {error}"
    if _first_to_fail(store):
        if not (lost or mistake):
            traceback.print_exception(error)
        print(f"hypo: {line}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(2 if mistake else 1)


def _first_to_fail(store: dist.Store) -> bool:
    try:
        return store.add("failed", 1) == 1
    except RuntimeError:  # torchrun, which holds the store, is gone
        return True
