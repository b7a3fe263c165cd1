"""Batches that are read ahead are those that are read when they are needed."""

import threading

import pytest
import torch
from test_algorithms import small_trainer

from hypo.training.trainer import ReadAhead, Trainer


@pytest.mark.parametrize("algorithm", ["hypo", "coral"])  # pooled, and by domain
def test_reading_ahead_changes_neither_the_order_nor_the_random_numbers(algorithm):
    plain, ahead = small_trainer(algorithm=algorithm), small_trainer(algorithm=algorithm)
    ahead.reader = ReadAhead(ahead.read)
    state = torch.get_rng_state()
    steps = [0, 1, 2, 3, plain.steps, plain.steps + 1, 2]  # on into the next epoch, and back as after a resumption
    for step in steps:
        for mine, theirs in zip(ahead.batch(step), plain.batch(step), strict=True):
            assert torch.equal(mine, theirs)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_next_batch_is_read_in_another_thread_while_the_caller_goes_on():
    read_by, free = {}, threading.Event()

    def read(step: int) -> tuple[torch.Tensor, ...]:
        if threading.current_thread() is not threading.main_thread():
            free.wait()
        read_by[step] = threading.current_thread().name
        return (torch.tensor(step),)

    reader = ReadAhead(read)
    assert reader(0)[0] == 0 and [*read_by] == [0]  # back before step 1 is read
    free.set()
    assert [reader(step)[0].item() for step in (1, 2, 3)] == [1, 2, 3]
    here = threading.main_thread().name
    assert read_by[0] == here and here not in {read_by[step] for step in (1, 2, 3)}


def test_a_failure_in_the_thread_reaches_the_caller():
    def read(step: int) -> tuple[torch.Tensor, ...]:
        if step == 1:
            raise OSError("the disk is gone")
        return (torch.tensor(step),)

    reader = ReadAhead(read)
    reader(0)
    with pytest.raises(OSError, match="the disk is gone"):
        reader(1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="never run on a GPU: there is none")
def test_a_trainer_on_a_gpu_reads_ahead_into_pinned_memory():
    plain = small_trainer()
    trainer = Trainer(plain.config, plain.images, plain.parts, torch.device("cuda"))
    assert trainer.reader is not None
    assert all(part.is_pinned() for part in trainer.read(0))
    for step in range(3):
        for mine, theirs in zip(trainer.batch(step)[1:], plain.batch(step)[1:], strict=True):
            assert torch.equal(mine.cpu(), theirs)
