"""Runs that are killed, found damaged or asked for twice end as the undisturbed run does."""

import functools
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from helpers import (
    SMALL,
    die_beside_rename,
    die_in_write,
    one_thread,  # noqa: F401
    outcome,
    run,
    same,
    small_digits,
    small_runs,
    start,
)

from hypo.config import configure
from hypo.data.splits import split
from hypo.training import checkpoint, engine
from hypo.training.trainer import Trainer

pytestmark = pytest.mark.heavy

KILLS = [4, pytest.param(20, marks=pytest.mark.slow)]
VARIANTS = {"plain": {}, "swad": {"evaluations": 2}}


def kill_until_done(folder: Path, chance: random.Random, **arguments) -> int:
    """Start a run again and again, each time with a death of another kind; how often it was killed until it ended."""
    kills = 0
    while True:
        number = chance.randint(1, 2)
        death = [
            functools.partial(die_in_write, number, chance.random()),
            functools.partial(die_beside_rename, number, chance.random() < 0.5),
            None,  # at any moment, unless the process is done by then: so it comes last
        ][kills % 3]
        process = start(folder, death, **arguments)
        if death is None:
            time.sleep(chance.uniform(0.1, 0.6))
            process.kill()
        process.join()
        if process.exitcode == 0:
            return kills
        assert process.exitcode == -signal.SIGKILL, (folder / "log").read_text()
        kills += 1


@pytest.mark.parametrize("least", KILLS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_run_ends_as_the_uninterrupted_one(tmp_path, variant, least):
    chance, arguments = random.Random(variant), VARIANTS[variant]
    (tmp_path / "whole").mkdir()
    start(tmp_path / "whole", **arguments).join()
    expected = outcome(tmp_path / "whole")
    kills = []
    while sum(kills) < least:
        folder = tmp_path / f"killed-{len(kills)}"
        folder.mkdir()
        kills.append(kill_until_done(folder, chance, **arguments))
        assert same(outcome(folder), expected)
    assert "resumed at step" in "".join(path.read_text() for path in tmp_path.glob("killed-*/log"))
    print(f"{sum(kills)} kills over {len(kills)} runs of {expected['checkpoint']['step']} steps")


def test_two_processes_make_one_run_and_return_one_record(tmp_path):
    both = [start(tmp_path, epochs=1) for _ in range(2)]
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    first, second = (json.loads(path.read_text()) for path in tmp_path.glob("returned-*.json"))
    assert first == second
    assert len([*(tmp_path / "records").glob("*.json")]) == 1
    log = (tmp_path / "log").read_text()
    assert log.count("epoch 1/1") == 1
    assert log.count("another process is at this run") == 1


def test_a_waiting_process_takes_over_from_a_killed_one(tmp_path):
    leader = start(tmp_path, functools.partial(die_beside_rename, 2, True))
    while not [*tmp_path.glob("runs/*/step-*")]:
        time.sleep(0.01)
    heir = start(tmp_path)
    leader.join()
    heir.join()
    assert (leader.exitcode, heir.exitcode) == (-signal.SIGKILL, 0)
    assert "resumed at step" in (tmp_path / "log").read_text()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run stopped in its second epoch, with a checkpoint of each of the last two steps."""
    step = Trainer.step

    def interrupted(trainer: Trainer) -> dict[str, float]:
        if trainer.step_count == 8:
            raise KeyboardInterrupt
        return step(trainer)

    with pytest.MonkeyPatch.context() as patch:
        folder = small_runs(tmp_path_factory.mktemp("stopped"), patch)
        patch.setattr(Trainer, "step", interrupted)
        patch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
        patch.setattr(engine, "CHECKPOINT_PAUSE", 0.0)
        with pytest.raises(KeyboardInterrupt):
            run(**VARIANTS["swad"])
    return folder


@pytest.fixture
def half_run(stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of that run's checkpoints, a copy for each test, and `run` goes on there."""
    small_runs(tmp_path, monkeypatch)
    (folder,) = Path(shutil.copytree(stopped / "runs", tmp_path / "runs")).iterdir()
    return folder


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The record of the undisturbed run."""
    with pytest.MonkeyPatch.context() as patch:
        small_runs(tmp_path_factory.mktemp("expected"), patch)
        return run(**VARIANTS["swad"])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "a bit flipped": flip,
    "truncated": lambda path: os.truncate(path, path.stat().st_size - 1),
    "empty": lambda path: path.write_bytes(b""),
    "digest missing": lambda path: path.rename(path.with_name("step-000000008.pt")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_checkpoint_before_a_damaged_one_is_used(half_run, damage):
    newest = checkpoint.latest(half_run)[0]
    DAMAGES[damage](newest)
    with pytest.warns(UserWarning, match="step-000000008.* is damaged"):
        path, state = checkpoint.latest(half_run)
    assert path.name.startswith("step-000000007-")
    assert state["step"] == 7


@pytest.mark.filterwarnings("ignore:the checkpoint step:UserWarning")
@pytest.mark.parametrize("damaged, lines", [(0, "step 8 of 18"), (1, "step 7 of 18"), (2, None)])
def test_a_run_goes_on_from_what_is_left(half_run, expected, capsys, damaged, lines):
    for path in sorted(half_run.glob("step-*"), reverse=True)[:damaged]:
        flip(path)
    (half_run / ".step-000000009.tmp").write_bytes(b"of a killed process")
    record = run(**VARIANTS["swad"])
    error = capsys.readouterr().err
    assert f"resumed at {lines}" in error if lines else "resumed" not in error
    assert (record["epochs"], record["final"]) == (expected["epochs"], expected["final"])
    assert not half_run.exists()


def test_a_run_whose_data_changed_starts_over(half_run, expected, capsys):
    path, state = checkpoint.latest(half_run)
    checkpoint.save(half_run, 9, state | {"split": "another"}, path)
    assert run(**VARIANTS["swad"])["final"] == expected["final"]
    assert "resumed" not in capsys.readouterr().err


def test_a_checkpoint_holds_the_whole_state(half_run):
    newest = max(half_run.glob("step-*"))
    state = torch.load(newest, weights_only=True)
    assert state["step"] == 8
    assert {"network.backbone.conv1.weight", "criterion.prototypes", "criterion.started"} <= {*state["algorithm"]}
    assert all("momentum_buffer" in entry for entry in state["optimisers"][0]["state"].values())
    assert {"losses", "means", "open"} == {*state["swad"]}
    assert state["random"].dtype == torch.uint8
    assert {*state["best"]} == {"validation", "oracle"}
    assert state["sums"]["steps"] == 2
    config = configure("digits", held_out="cartoon", **SMALL, **VARIANTS["swad"])
    trainer = Trainer(config, small_digits(), split(small_digits(), "cartoon"), torch.device("cpu"))
    trainer.load_state_dict(state)
    assert same(trainer.state_dict(), state)


def test_a_checkpoint_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Content, then name, then the old ones go: the order that a power cut cannot upset."""
    events = []

    def noting(what, function):
        return lambda *args, **options: (events.append(what(*args)), function(*args, **options))[1]

    old = [checkpoint.save(tmp_path, step, {}) for step in (1, 2)]
    monkeypatch.setattr(os, "fsync", noting(lambda f: f"sync {Path(f'/proc/self/fd/{f}').resolve().name}", os.fsync))
    monkeypatch.setattr(Path, "replace", noting(lambda path, _: f"rename {path.name}", Path.replace))
    monkeypatch.setattr(Path, "unlink", noting(lambda path, **_: f"remove {path.name}", Path.unlink))
    checkpoint.save(tmp_path, 3, {})
    assert [event.split()[0] for event in events[:3]] == ["sync", "rename", "sync"]
    assert events[2] == f"sync {tmp_path.name}" and f"remove {old[1].name}" in events[3:]


def test_all_checkpoints_but_the_reserve_are_removed(tmp_path):
    """Also those of later steps, which were passed over as damaged."""
    reserve = checkpoint.save(tmp_path, 4, {})
    (tmp_path / "step-000000006-0123456789abcdef.pt").write_bytes(b"damaged")
    (tmp_path / "step-000000009-0123456789abcdef.pt").write_bytes(b"damaged")
    new = checkpoint.save(tmp_path, 7, {}, reserve)
    assert {*tmp_path.iterdir()} == {reserve, new}
