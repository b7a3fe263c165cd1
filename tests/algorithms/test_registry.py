"""What holds for every method: exact resume, steps in parts, learning, and an engine that names none of them."""

import ast
import inspect
import io
from itertools import chain
from pathlib import Path

import pytest
import torch
from small import learns, trainer
from torch import nn
from training.helpers import one_thread, same  # noqa: F401

from hypo import config, distributed, records
from hypo.algorithms import ALGORITHMS, base, method
from hypo.training import engine
from hypo.training.trainer import Trainer

VARIANTS = {name: (name, {}) for name in ALGORITHMS} | {"hypo, learnable": ("hypo", {"prototypes": "learnable"})}
every_method = pytest.mark.parametrize("name, fields", VARIANTS.values(), ids=VARIANTS)


def advance(run: Trainer, until: int) -> None:
    """Step and evaluate, as the engine does."""
    while run.step_count < until:
        run.step()
        if run.due():
            run.evaluate()


@every_method
def test_a_resumed_run_ends_as_the_uninterrupted_one_to_the_bit(name, fields):
    """Stopped within an epoch, and before the loss of the methods that have two of them jumps."""
    whole, resumed = (trainer(name, epochs=3, evaluations=1, **fields) for _ in range(2))
    advance(whole, 3)
    file = io.BytesIO()
    torch.save(whole.state_dict(), file)
    advance(whole, whole.total_steps)
    file.seek(0)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert (resumed.step_count, resumed.total_steps, len(resumed.history)) == (3, 6, 1)
    advance(resumed, resumed.total_steps)
    assert same(resumed.state_dict(), whole.state_dict())


def normalise_each_sample(module: nn.Module) -> None:
    """Put group norm in the place of batch norm, which sees the parts of a batch."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, nn.GroupNorm(1, child.num_features).double())
        else:
            normalise_each_sample(child)


@every_method
def test_a_step_in_parts_is_that_of_the_whole_batch_unless_the_method_says_why_not(name, fields):
    size = {"precision": "float64", "batch_size": 24}
    whole, parts = (trainer(name, accumulate=n, **size, **fields) for n in (1, 4))
    for run in (whole, parts):
        normalise_each_sample(run.algorithm)
        run.algorithm.steppers = run.algorithm.optimisers()
    gaps = []
    for _ in range(2):
        gaps.append(parts.step()["total"] - whole.step()["total"])
        gradients = [[p.grad for p in run.algorithm.parameters() if p.grad is not None] for run in (whole, parts)]
        gaps += [(a - b).abs().max().item() for a, b in zip(*gradients, strict=True)]
    agrees = max(map(abs, gaps)) < 1e-9
    assert agrees == ("`accumulate`" not in inspect.getdoc(method(name)))


SLOW = {name: {"epochs": 20} for name in ("arm", "mixstyle", "vrex")} | {"irm": {"batch_size": 54, "epochs": 24}}
"""What methods that learn more slowly need; IRM halves each domain's images."""


@pytest.mark.heavy
@every_method
def test_it_learns(name, fields):
    learns(name, **fields | SLOW.get(name, {}))


def named(node: ast.AST) -> set[str]:
    """Names of methods and of their classes that code (no docstring) has as a word or in a comparison."""
    constants = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
    words = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    words |= {alias.name for each in ast.walk(node) if isinstance(each, ast.ImportFrom) for alias in each.names}
    classes = {method(name).__name__ for name in ALGORITHMS}
    compared = {
        each.value
        for compare in ast.walk(node)
        if isinstance(compare, ast.Compare)
        for each in ast.walk(compare)
        if isinstance(each, ast.Constant)
    }
    return (constants & (ALGORITHMS.keys() - {"hypo"})) | (compared & ALGORITHMS.keys()) | (words & classes)


def test_the_engine_names_no_method():
    """Apart from the default of `hypo.run`. The check itself finds what it looks for."""
    for file in chain(
        Path(engine.__file__).parent.glob("*.py"), map(inspect.getfile, (base, config, distributed, records))
    ):
        assert not named(ast.parse(Path(file).read_text())), file
    for line in ('if algorithm == "hypo": pass', 'rates = {"erm": 3}', "isinstance(x, CORAL)", "from a import DANN"):
        assert named(ast.parse(line))
