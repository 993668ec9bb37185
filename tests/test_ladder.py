"""A ladder that opens by steps: the same for every core, to the step and to the bit."""

import dataclasses
import functools

import pytest
from tinytasks import assert_goes_on, observed

from tinyrmc import training
from tinyrmc.training.discovery import load_task

nth_farthest = load_task("nth_farthest")
SHARES = {"stages": ((3, 1), (3, 2)), "stage_shares": (0.5, 0.25)}


def by_steps(steps, every=100, core="rmc"):
    """A task with the smallest network that will do."""
    small = {"mem_slots": 2, "head_size": 2, "num_heads": 1, "hidden_size": 3}
    train = {"steps": steps, "log_every": every, "evaluate_every": steps // every}
    train["evaluate_every"] *= every
    preset = nth_farthest.FAIR
    config = dataclasses.replace(
        preset,
        model=dataclasses.replace(preset.model, core=core, **small),
        data=nth_farthest.DataConfig(4, 2, **SHARES),
        train=dataclasses.replace(preset.train, batch_size=8, **train),
    )
    return nth_farthest.Task(config)


def stages_told(task, accuracy, steps, every=100):
    """The stage that each line of a run tells of."""
    lines = range(every, steps + 1, every)
    return [observed(task, step, {"accuracy": accuracy})["stage"] for step in lines]


def test_rungs_open_for_every_core_alike():
    for accuracy in [0.0, 1.0, float("nan")]:
        told = stages_told(by_steps(800), accuracy, 800)
        assert told == ["3x1"] * 4 + ["3x2"] * 2 + ["4x2"] * 2
        # 450 and 675 steps: a stage ends with the first line after its own
        told = stages_told(by_steps(900), accuracy, 900)
        assert told == ["3x1"] * 5 + ["3x2"] * 2 + ["4x2"] * 2


def test_which_lines_are_of_the_task_itself():
    task = by_steps(400)
    told = stages_told(task, 0.5, 400)
    assert [task.is_final({"stage": stage}) for stage in told] == [False] * 3 + [True]


@pytest.fixture
def few_held_out(monkeypatch):
    monkeypatch.setattr(nth_farthest.Task, "test_examples", 20)


def test_the_last_line_says_on_which_rung_a_run_ended(
    make_trainer, new_run, few_held_out
):
    """Also one that ends between two lines."""
    run, usual = new_run(), nth_farthest.QUICK
    train = dataclasses.replace(
        usual.train, steps=5, batch_size=8, log_every=2, evaluate_every=4
    )
    task = nth_farthest.Task(dataclasses.replace(usual, train=train))
    assert training.run_training(make_trainer(task), run) == "finished"
    last = run.metrics()[-1]
    assert last["step"] == 5 and last["stage"] == "3x1" and not task.is_final(last)


def test_a_resumed_run_has_the_same_bits(make_trainer, new_run, few_held_out):
    """Broken off on the second stage, once in the middle of a line."""
    for stop, core in [(9, "rmc"), (14, "lstm")]:
        climbing = functools.partial(by_steps, 16, every=2, core=core)
        _, _, whole, _ = assert_goes_on(
            lambda climbing=climbing: make_trainer(climbing(), 3), new_run, stop
        )
        stages = [line["stage"] for line in whole.metrics() if "stage" in line]
        assert stages == ["3x1"] * 4 + ["3x2"] * 2 + ["4x2"] * 2
