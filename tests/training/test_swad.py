"""SWAD against Algorithm 1 of its paper and against averaging a recorded trajectory of weights."""

import io
from fractions import Fraction

import pytest
import torch
from helpers import SMALL, same, small_digits
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hypo.algorithms import ALGORITHMS
from hypo.config import configure
from hypo.sphere import class_means
from hypo.training import engine
from hypo.training.evaluate import Evaluator, mean_loss, outputs_of
from hypo.training.swad import OPTIMUM_PATIENCE, OVERFIT_PATIENCE, Swad, interval


def algorithm_1(losses: list[int], n_s: int, n_e: int, r: Fraction) -> tuple[int | None, int]:
    """t_s and t_e of the paper's Algorithm 1, counted from 1; t_s is None where it finds none."""
    loss = dict(enumerate(losses, start=1))
    t_s, t_e, threshold = None, len(losses), None
    for i in range(1, len(losses) + 1):
        if threshold is None:
            if i >= n_s and loss[i - n_s + 1] == min(loss[i - k] for k in range(n_s)):
                t_s = i - n_s + 1
                threshold = r / n_s * sum(loss[i - k] for k in range(n_s))
        elif i >= n_e and threshold < min(loss[i - k] for k in range(n_e)):
            t_e = i - n_e
            break
    return t_s, t_e


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=40),
    st.integers(2, 5),
    st.integers(1, 7),
    st.sampled_from([Fraction(1), Fraction(9, 8), Fraction(5, 4), Fraction(3, 2)]),
)
def test_interval_is_that_of_algorithm_1(losses, n_s, n_e, r):
    t_s, t_e = algorithm_1(losses, n_s, n_e, r)
    expected = (len(losses) - 1, len(losses) - 1) if t_s is None else (t_s - 1, t_e - 1)
    assert interval([float(loss) for loss in losses], n_s, n_e, float(r)) == expected


@pytest.mark.parametrize(
    "losses, expected",
    [
        ([5, 4, 3, 2, 1], (4, 4)),  # never three in a row with the first the lowest: the last alone
        ([5, 4, 3, 3.1, 3.2, 3.1], (2, 5)),  # a valley with no way out
        ([5, 2, 2, 2, 2], (1, 4)),  # equal losses count as lowest
        ([5, 1, 1, 1] + [1.3] * 6, (1, 9)),  # at the tolerance, not above it
        ([5, 1, 1, 1] + [1.31] * 6, (1, 3)),  # above it six times in a row: ends before them
        ([5, 1, 1, 1] + [1.31] * 5, (1, 8)),  # five times are one too few
        ([5, 1, 1, 1] + [1.31] * 5 + [1.2] + [1.31] * 6, (1, 9)),  # and an interruption starts the count anew
        ([1, 1.1, 1.2] + [9] * 6 + [0.1] * 9, (0, 2)),  # what comes after the end does not count
        ([3], (0, 0)),
    ],
)
def test_interval_of_curves_made_by_hand(losses, expected):
    assert interval(losses) == expected


@pytest.mark.parametrize("benchmark, last", [("pacs", 9), ("vlcs", 3)])
def test_on_vlcs_the_valley_ends_at_the_authors_lower_tolerance(benchmark, last):
    swad = Swad(benchmark)
    for loss, state in zip([5, 1, 1, 1] + [1.25] * 6, weights(10, 0), strict=True):
        swad.step(state)
        swad.evaluated(loss)
    assert swad.found() == (1, last, True)


def weights(steps: int, seed: int) -> list[dict[str, Tensor]]:
    """A trajectory of state dicts."""
    values = torch.randn(steps, 2, 3, generator=torch.Generator().manual_seed(seed)).cumsum(0)
    return [{"w": value[0], "running_mean": value[1], "batches": torch.tensor(i)} for i, value in enumerate(values)]


CURVES = {
    "falling": [1 - i / 50 for i in range(30)],
    "valley to the end": [3, 2, 1, *[1 + i / 100 for i in range(27)]],
    "over soon": [3, 1, 1.1, 1.1, *[2] * 26],
    "over late": [3, 2, 1, *[1.1] * 15, *[2] * 12],
    "over at the last": [3, 2, 1, *[1.1] * 21, *[2] * 6],
    "from the first": [1, *[1.2] * 29],
}


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("seed", range(3))
def test_average_is_that_of_every_step_in_the_valley_and_little_is_kept(curve, seed):
    losses = CURVES[curve]
    counts = torch.randint(1, 5, (len(losses),), generator=torch.Generator().manual_seed(seed)).tolist()
    trajectory = weights(sum(counts), seed)
    swad, step = Swad(), 0
    for i, loss in enumerate(losses):
        for _ in range(counts[i]):
            swad.step(trajectory[step])
            step += 1
        swad.evaluated(loss)
        start, end = interval(losses[: i + 1])
        valley = trajectory[sum(counts[:start]) : sum(counts[: end + 1])]
        average = swad.average()
        for name in ("w", "running_mean"):
            torch.testing.assert_close(average[name], torch.stack([w[name] for w in valley]).mean(0))
        assert average["batches"] == valley[-1]["batches"]
        started = start + OPTIMUM_PATIENCE - 1 <= i
        assert len(swad.means) <= (1 + OVERFIT_PATIENCE if started else OPTIMUM_PATIENCE - 1)


@pytest.mark.parametrize("curve", ["falling", "valley to the end", "over late"])
def test_saved_at_any_step_and_loaded_it_goes_on_bit_for_bit(curve):
    losses, trajectory = CURVES[curve], weights(60, seed=5)

    def advance(swad: Swad, first: int, last: int) -> Swad:
        for step in range(first, last):
            swad.step(trajectory[step])
            if step % 2:
                swad.evaluated(losses[step // 2])
        return swad

    whole = advance(Swad(), 0, 60)
    for stop in range(1, 60, 4):
        file = io.BytesIO()
        torch.save(advance(Swad(), 0, stop).state_dict(), file)
        file.seek(0)
        resumed = Swad()
        resumed.load_state_dict(torch.load(file, weights_only=True))
        assert same(advance(resumed, stop, 60).state_dict(), whole.state_dict())
        assert same(resumed.average(), whole.average())


def test_a_state_taken_before_does_not_change_as_training_goes_on():
    swad = Swad()
    swad.step({"w": torch.ones(2)})
    state = swad.state_dict()
    swad.step({"w": torch.zeros(2)})
    swad.evaluated(1.0)
    again = Swad()
    again.load_state_dict(state)
    again.evaluated(1.0)
    assert again.average()["w"].tolist() == [1, 1] and swad.average()["w"].tolist() == [0.5, 0.5]


def test_step_copies_the_weights_it_is_given():
    w, swad = torch.ones(2), Swad()
    swad.step({"w": w})
    w.zero_()
    swad.evaluated(1.0)
    assert swad.average()["w"].tolist() == [1, 1]


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_run_ends_with_averaged_weights_and_prototypes_recomputed_with_them(algorithm, tmp_path, monkeypatch):
    taken, losses = [], []

    class Recorder(Swad):
        def step(self, weights):
            taken.append({name: value.clone() for name, value in weights.items()})
            super().step(weights)

        def evaluated(self, validation_loss):
            losses.append(validation_loss)
            super().evaluated(validation_loss)

    monkeypatch.setattr("hypo.training.trainer.Swad", Recorder)
    fields = SMALL | {"size": 16, "precision": "float64", "lr": 0.01, "epochs": 2, "evaluations": 4}
    config = configure("digits", algorithm, "cartoon", **fields)
    images = small_digits()
    ends_with, true_final = [], Evaluator.final

    def watched(evaluator, algorithm, root):
        ends_with.append({name: value.clone() for name, value in algorithm.state_dict().items()})
        return true_final(evaluator, algorithm, root)

    monkeypatch.setattr(Evaluator, "final", watched)
    record, _, _ = engine.train(config, images, tmp_path)
    final = ends_with[0]
    assert min(losses) >= 0
    start, end = interval(losses)
    found = record["final"]["swad"]["interval"]
    at = [entry["epoch"] for entry in record["epochs"]]
    assert (found["first"], found["last"]) == (at[start], at[end])
    assert found["starts_at_first"] == (start == 0) and found["evaluations"] == end - start + 1
    ends = [round(epoch * len(taken) / 2) for epoch in at]
    valley = taken[ends[start - 1] if start else 0 : ends[end]]
    network = [name for name, value in final.items() if value.is_floating_point() and "prototypes" not in name]
    for name in network:
        torch.testing.assert_close(final[name], torch.stack([w[name] for w in valley]).mean(0))
    if algorithm == "hypo":
        trainer, train = _trainer(config, images, final)
        z = outputs_of(trainer.algorithm, images.images[train], torch.device("cpu"), torch.float64)
        means = class_means(z, torch.from_numpy(images.labels[train]), 5)
        torch.testing.assert_close(final["criterion.prototypes"], means)
        assert mean_loss(trainer.algorithm, z, images.labels[train]) >= 0


def _trainer(config, images, state):
    parts = engine.split(images, config.held_out, config.seed, config.fraction)
    trainer = engine.Trainer(config, images, parts, torch.device("cpu"))
    trainer.algorithm.load_state_dict(state)
    return trainer, parts.train
