"""Runs that go on as if they had never stopped, and NaNs that do no harm.

Also inside an epoch; runs with a carry are in test_carry.py. What is said to be equal
here is equal to the last bit, wall-clock fields aside, unless a tolerance is given.
"""

import dataclasses
import itertools
import os
import signal

import numpy as np
import pytest
from rankhelp import ALONE, all_well, on_ranks
from tinyruns import STEPS, TINY, fresh_directory
from tinytasks import (
    TRAIN,
    Config,
    Finite,
    Larger,
    PowerCut,
    assert_finishes,
    assert_goes_on,
    assert_same_arrays,
    forks,
    nth_farthest,
    poisoned,
    power_cut,
    relations,
    resumed,
    stop_at,
)

from tinyrmc.cli import train
from tinyrmc.errors import RunError
from tinyrmc.training import workers
from tinyrmc.training.loop import Interrupt, run_training
from tinyrmc.training.run import Run
from tinyrmc.training.streams import Samples
from tinyrmc.training.trainer import NonFinite

# --- Stopping and going on ------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=forks)])
@pytest.mark.parametrize("core", ["rmc", "rmc_paper", "lstm"])
def test_a_stopped_run_goes_on_as_if_it_had_never_stopped(
    core, workers, make_trainer, new_run
):
    def make():
        return make_trainer(relations(core), seed=3, workers=workers)

    reference, again, _, broken = assert_goes_on(make, new_run, 7)
    assert [line["step"] for line in broken.metrics()] == [5, 10, 12]
    state = {"updates", "first_moment", "second_moment"}
    assert {f"optimizer/{name}" for name in state} <= again.arrays().keys()
    # the ladder was climbed meanwhile
    assert again.task.state() == reference.task.state() != {"stage": 0}


class Counting(Larger):
    """Its state is one of NumPy's numbers."""

    seen = np.int64(0)

    def observe(self, step, metrics):
        self.seen = np.int64(step)

    def state(self):
        return {"seen": self.seen}

    def load_state(self, state):
        self.seen = state["seen"]


@forks
def test_processes_hear_of_a_state_in_numpys_numbers(make_trainer, new_run):
    trainer = make_trainer(Counting(Config(TRAIN)), workers=2)
    run = new_run()
    assert run_training(trainer, run) == "finished"
    assert run.load()[1]["task"] == {"seen": 10}


def test_a_run_may_be_stopped_again_and_again(make_trainer, new_run):
    broken = new_run()
    trainer = make_trainer(stop_at(relations(), 1, signal.SIGINT), seed=3)
    assert run_training(trainer, broken) == "SIGINT"
    for step in (2, 3, 3):
        task = stop_at(relations(), step, signal.SIGINT)
        trainer = resumed(make_trainer(task, 3), broken)
        assert run_training(trainer, broken) == "SIGINT"
    trainer = resumed(make_trainer(relations(), 3), broken)
    assert trainer.step == 9
    assert_finishes(trainer, broken, lambda: make_trainer(relations(), 3), new_run)


def test_a_run_that_was_killed_goes_back_to_its_checkpoint(make_trainer, new_run):
    """The lines written after the checkpoint are cut off and written again."""

    def make():  # which saves after each step
        return make_trainer(relations(checkpoint_minutes=1e-9), seed=3)

    broken, killed, steps = new_run(), make(), itertools.count(1)
    killed.task.after_update = lambda model: next(steps) == 7 and power_cut()
    with pytest.raises(PowerCut):
        run_training(killed, broken)
    broken.log({"step": 7, "loss": 0.0})
    trainer = resumed(make(), broken)
    assert trainer.step == 6
    assert_finishes(trainer, broken, make, new_run)


def test_another_number_of_workers_goes_on_to_rounding(make_trainer, new_run):
    run = new_run()
    run_training(make_trainer(stop_at(relations(), 7), seed=3), run)
    arrays, state = run.load()
    trainers = [
        make_trainer(relations(), seed=3, workers=workers) for workers in (1, 2)
    ]
    for trainer in trainers:
        trainer.restore(arrays, state)
        trainer.advance()
    one, two = (trainer.arrays() for trainer in trainers)
    for name, x in one.items():
        # Adam divides by the gradient's size: where that is tiny, rounding shows
        np.testing.assert_allclose(x, two[name], rtol=1e-3, atol=5e-5)


@pytest.mark.skipif(
    os.name != "posix", reason="elsewhere children keep their parent's number"
)
def test_a_run_whose_parent_has_gone_is_saved_and_stops(
    make_trainer, new_run, monkeypatch
):
    broken, parent = new_run(), os.getppid()
    monkeypatch.setenv(workers.PARENT, str(parent))
    task, steps = relations(), itertools.count(1)
    task.after_update = lambda model: (
        monkeypatch.setattr(os, "getppid", lambda: 1) if next(steps) == 7 else None
    )
    assert run_training(make_trainer(task, seed=3), broken) == "SIGHUP"
    monkeypatch.setattr(os, "getppid", lambda: parent)  # it is there: nothing stops
    trainer = resumed(make_trainer(relations(), 3), broken)
    assert trainer.step == 7
    assert_finishes(trainer, broken, lambda: make_trainer(relations(), 3), new_run)


def test_signals_are_as_before_when_a_run_is_over(make_trainer, new_run):
    numbers = signal.SIGINT, signal.SIGTERM
    before = [signal.getsignal(number) for number in numbers]
    run_training(make_trainer(stop_at(Larger(Config()), 2)), new_run())
    run_training(make_trainer(Larger(Config())), new_run())
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_second_ctrl_c_stops_at_once(make_trainer, new_run):
    task, run = Larger(Config()), new_run()

    def impatient(model):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    task.after_update = impatient
    # a background job inherits SIGINT ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_training(make_trainer(task), run)
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.load()[1]["step"] == 0  # the checkpoint from before the first step


@pytest.fixture
def usual_handlers():
    """Signals as a terminal's process has them: a background job ignores some."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    usual[signal.SIGHUP] = signal.SIG_DFL
    before = {number: signal.signal(number, usual[number]) for number in usual}
    yield usual
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_second_hangup_changes_nothing(make_trainer, new_run, usual_handlers):
    """A shell whose terminal closes sends one, and the kernel another."""
    for first in [signal.SIGHUP, signal.SIGTERM]:
        with fresh_directory():
            task, run, steps = Larger(Config()), new_run(), itertools.count(1)

            def hung_up(model):
                if next(steps) == 7:
                    for number in (first, signal.SIGHUP, signal.SIGHUP):
                        signal.raise_signal(number)

            task.after_update = hung_up
            assert run_training(make_trainer(task), run) == signal.Signals(first).name
            assert run.load()[1]["step"] == 7
            assert {n: signal.getsignal(n) for n in usual_handlers} == usual_handlers


def test_what_nohup_ignores_stays_ignored(usual_handlers):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interrupt() as interrupt:
        signal.raise_signal(signal.SIGHUP)
        assert not interrupt.number


def test_a_run_that_its_task_has_ended_is_finished(
    few_held_out_examples, empty_directory, monkeypatch, capsys
):
    """Before its last step, for instance because nothing improves any more."""
    monkeypatch.setattr(nth_farthest.Task, "finished", lambda self, step: step >= 7)
    assert train.main([*TINY, "--run", "ended"]) == 0
    last = Run.open("ended").metrics()[-1]
    assert last["step"] == 7 < STEPS and "test_accuracy" in last
    assert "7 steps" in capsys.readouterr().out
    assert train.main(["--resume", "ended"]) == 0
    assert "has finished already (7 steps)" in capsys.readouterr().out


# --- A finite set of examples ---------------------------------------------------------


def finite(last):
    task = Finite(Config(dataclasses.replace(TRAIN, steps=9)))
    task.last = last
    return task


@pytest.mark.parametrize("last", ["drop", "fill"])
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=forks)])
@pytest.mark.parametrize("stop", [3, 4, 7])
def test_a_run_goes_on_in_the_middle_of_an_epoch(
    stop, workers, last, make_trainer, new_run
):
    def make():
        return make_trainer(finite(last), seed=3, workers=workers)

    reference, *_ = assert_goes_on(make, new_run, stop)
    assert 0 < stop % reference.stream.steps_per_epoch or stop == 4


def test_a_stream_with_a_place_of_its_own_goes_on_from_there(make_trainer, new_run):
    class Counting(Samples):
        random_access, turns, step = False, 100, None

        def batch(self, step, start, stop):
            self.turns += step != self.step
            self.step = step
            return super().batch(self.turns, start, stop)

        def state(self):
            return {"turns": self.turns}

        def load_state(self, state):
            self.turns, self.step = state["turns"], None

    class Counted(Larger):
        def stream(self, model, seed):
            return Counting(self.draw, seed)

    assert_goes_on(lambda: make_trainer(Counted(Config()), seed=3), new_run, 7)


def test_epochs_are_the_same_for_workers_and_ranks(make_trainer):
    for last in ["drop", "fill"]:
        with fresh_directory():

            def gradients(ranks=ALONE, workers=1, processes=False):
                trainer = ranks.trainer(finite(last), 3, workers, processes=processes)
                found = []
                for _ in range(5):
                    trainer.advance()
                    found.append(trainer.optimizer.gradient.copy())
                trainer.close()
                return np.array(found)

            alone = gradients()
            others = [
                gradients(workers=2),
                gradients(workers=3, processes=workers.CAN_FORK),
            ]
            others += all_well(on_ranks(3, gradients))
            for ours in others:
                np.testing.assert_allclose(ours, alone, rtol=1e-3, atol=1e-5)


# --- Processes that are ended ---------------------------------------------------------


@forks
def test_workers_may_be_ended_between_any_two_steps(make_trainer):
    reference = make_trainer(relations(), workers=2)
    trainer = make_trainer(relations(), workers=2)
    for _ in range(4):
        reference.advance()
        trainer.advance()
        trainer.close()
    assert_same_arrays(trainer.arrays(), reference.arrays())


# --- What is not finite ---------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=forks)])
def test_a_step_that_is_not_finite_is_not_applied(workers, make_trainer):
    trainer = make_trainer(poisoned({3}), workers=workers)
    states = []
    for _ in range(5):
        states.append({name: x.copy() for name, x in trainer.arrays().items()})
        trainer.advance()
    states.append(trainer.arrays())
    assert_same_arrays(states[3], states[2])
    moments = [state["optimizer/first_moment"] for state in states]
    assert not np.array_equal(moments[2], moments[1])
    assert not np.array_equal(moments[5], moments[4])
    assert all(np.isfinite(x).all() for x in states[5].values())
    line = trainer.read()
    assert line["skipped_updates"] == 1 and line["step"] == 5
    assert trainer.state()["skipped"] == [1, 3]


def test_too_many_stop_the_run_and_the_last_checkpoint_is_kept(make_trainer, new_run):
    task = poisoned({4, 6, 7, 8}, nonfinite_limit=4)
    run = new_run(task)
    stopped = make_trainer(task, seed=3)
    with pytest.raises(NonFinite) as caught:
        run_training(stopped, run)
    said = str(caught.value)
    assert stopped.step == 10 and isinstance(caught.value, RunError)
    assert "stopped at step 10: 4 updates were skipped" in said
    assert "first at step 4" in said and "--train.learning-rate" not in said
    assert "'inputs' of the batch of step 4 holds NaN or infinity" in said
    assert "\n" not in said
    (line,) = run.metrics()
    assert (line["step"], line["skipped_updates"], line["loss"]) == (5, 1, None)
    arrays, _ = run.load()
    assert all(np.isfinite(x).all() for x in arrays.values())
    make_trainer(poisoned(()), seed=3).restore(*run.load())


def test_no_rate_is_blamed_for_a_first_loss(make_trainer, new_run):
    for bad, says in (
        ({1, 2}, "No update came before"),
        ({3, 4}, "a smaller --train.le"),
    ):
        task = poisoned(bad, nonfinite_limit=2)
        trainer = make_trainer(task, seed=3)
        trainer.stream.random_access = False  # batches cannot be looked at again
        with pytest.raises(NonFinite, match=f"at step {min(bad)}; .* {says}") as told:
            run_training(trainer, new_run(task))
        assert ("--train.learning-rate" in str(told.value)) == (bad == {3, 4})


def test_fewer_do_not_and_the_count_survives_a_checkpoint(make_trainer, new_run):
    run, whole = new_run(), new_run()
    task = stop_at(poisoned({4, 6}, nonfinite_limit=3), 7)
    assert run_training(make_trainer(task, seed=3), run) == "SIGTERM"
    again = resumed(make_trainer(poisoned({9}, nonfinite_limit=3), 3), run)
    with pytest.raises(NonFinite, match=r"3 updates were skipped.*first at step 4"):
        run_training(again, run)

    task = poisoned({4, 6}, nonfinite_limit=3)
    assert run_training(make_trainer(task, seed=3), whole) == "finished"
    lines = whole.metrics()
    assert lines[1]["skipped_updates"] == 2 and lines[-1]["test_accuracy"] >= 0


@pytest.mark.parametrize(
    "workers, processes", [(1, False), (2, False), pytest.param(2, True, marks=forks)]
)
def test_a_huge_learning_rate_is_stopped_without_a_warning(
    workers, processes, make_trainer, new_run
):
    """pytest turns any warning into an error, in whichever thread."""
    task = relations(steps=40, learning_rate=1e30, warmup_steps=0, nonfinite_limit=3)
    run = new_run(task)
    with pytest.raises(NonFinite, match=r"first at step \d+;"):
        run_training(make_trainer(task, workers=workers, processes=processes), run)
    arrays, _ = run.load()
    assert all(np.isfinite(x).all() for x in arrays.values())


def test_parameters_that_overflow_are_never_saved(make_trainer, new_run):
    """Each gradient is finite, but the step is not."""
    task = Larger(Config(dataclasses.replace(TRAIN, steps=1, optimizer="rmsprop")))
    task.learning_rate = lambda step: 3e38  # times 10 in RMSProp's first step
    run = new_run()
    with pytest.raises(NonFinite, match="at step 1: parameters are no longer finite"):
        run_training(make_trainer(task), run)
    arrays, state = run.load()
    assert state["step"] == 0 and all(np.isfinite(x).all() for x in arrays.values())
