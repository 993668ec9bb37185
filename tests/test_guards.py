"""What the guards of a step cost is measured with all of them, and without any."""

import candidates
import guards
import numpy as np
import pytest

from tinyrmc import Parameter, Tape, fused
from tinyrmc import primitives as p
from tinyrmc.training.trainer import Trainer


@pytest.fixture
def trainer():
    return Trainer(candidates.make_task(candidates.Work(8, 2, 16, 2)), workers=1)


def refill():
    """An array that backward needs is another by then."""
    x, w = np.ones((2, 3), np.float32), Parameter(np.ones((3, 4), np.float32))
    with Tape() as tape:
        loss = p.sum(p.matmul(x, w))
    x.fill(5)
    tape.backward(loss)


def broadcast():
    """A gain for each number of a row, which has one."""
    fused.layer_norm(*(np.ones(n, np.float32) for n in ((2, 1), 5, 5)))


def write():
    """A result is overwritten."""
    with Tape() as tape:
        p.sum(tape.watch(np.ones(3, np.float32))).data[...] = 0


@pytest.mark.parametrize("wrong", [refill, broadcast, write])
def test_what_is_turned_off_is_off_and_then_on_again(wrong, trainer):
    with guards.turned_off(trainer):
        wrong()
    with pytest.raises((RuntimeError, ValueError)):
        wrong()


def test_a_step_is_the_same_without_its_guards(trainer):
    with guards.turned_off(trainer):
        for _ in range(3):
            trainer.advance()
    other = Trainer(candidates.make_task(candidates.Work(8, 2, 16, 2)), workers=1)
    for _ in range(3):
        other.advance()
    np.testing.assert_array_equal(trainer.optimizer.data, other.optimizer.data)


def test_what_is_measured():
    found = guards.measured(steps=3, batch=8)
    assert found["steps"] == 3
    low, high = found["interval"]
    assert 0 < low <= found["ratio"] <= high


def test_the_interval_has_the_median():
    values = np.random.default_rng(0).normal(size=(200, 101))
    ends = np.array([guards.interval(each) for each in values])
    assert 0.9 < ((ends[:, 0] <= 0) & (ends[:, 1] >= 0)).mean() <= 1
