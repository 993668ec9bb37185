"""State a step hands to the next.

It stays with the worker whose piece it belongs to, whether thread or process, and comes
back for a checkpoint.

What is said to be equal here is equal to the last bit, wall-clock fields aside, unless
a tolerance is given.
"""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
from tinytasks import (
    KINDS,
    TRAIN,
    BPTTBatches,
    Config,
    Larger,
    RunningSum,
    Text,
    assert_goes_on,
    assert_same_arrays,
    forks,
    relations,
    steps,
    stop_at,
    timeless,
)

from tinyrmc import Tape, optim
from tinyrmc.errors import RunError
from tinyrmc.training.discovery import TaskError
from tinyrmc.training.loop import run_training
from tinyrmc.training.pieces import Carry
from tinyrmc.training.workers import WorkerError, Workers

TASKS = [RunningSum, Text]


def totals(trainer, count):
    """The sums (B, 1) of `RunningSum` after so many steps, added up here."""
    drawn = [trainer.stream.batch(step, 0, 50)["x"] for step in range(count)]
    return np.sum(drawn, axis=0, dtype=np.float64)


# --- A language model -----------------------------------------------------------------


def test_windows_of_a_text_are_learnt_with_the_state_carried_on(make_trainer):
    """Beside a plain loop: differentiate a window, detach the state, go on."""
    train = dataclasses.replace(
        TRAIN, micro_batch_size=None, optimizer="sgd", cosine_fraction=0.0
    )
    task = Text(Config(dataclasses.replace(train, warmup_steps=0, learning_rate=0.5)))
    trainer = steps(make_trainer(task, seed=1), 8)

    model = task.build(None)
    sgd = optim.SGD(model.parameters(), learning_rate=0.5)
    state, lanes = model.core.initial_state(50), BPTTBatches(50, window=3)
    for step in range(8):
        batch = lanes.batch(step, 0, 50)
        carry = dict(zip(("hidden", "cell"), state, strict=True)) if step else None
        with Tape() as tape:
            total, count, _, after = task.loss(model, batch, carry)
            mean = total / count
        tape.backward(mean)
        sgd.step(max_norm=1.0)
        sgd.zero_grad()
        state = after["hidden"], after["cell"]
    np.testing.assert_allclose(trainer.optimizer.data, sgd.data, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(trainer.arrays()["carry/cell"], state[1], rtol=1e-4)
    forgetful = Text(task.config)
    forgetful.loss = lambda model, batch, carry: task.loss(model, batch, None)
    other = steps(make_trainer(forgetful, seed=1), 8)
    assert np.abs(other.optimizer.data - sgd.data).max() > 1e-3


# --- The same bits from every kind of worker ------------------------------------------


@forks
def test_processes_and_threads_give_the_same_bits(make_trainer):
    """With a carry and without."""
    makes = [functools.partial(kind, Config()) for kind in TASKS]
    for make, workers in itertools.product([relations, *makes], [2, 3]):
        words = {"seed": 4, "workers": workers}
        pair = [make_trainer(make(), **words, processes=k) for k in (False, True)]
        for step in range(1, 8):
            for trainer in pair:
                trainer.advance()
            assert_same_arrays(pair[0].optimizer.state(), pair[1].optimizer.state())
            if step % 3 == 0:
                arrays = [trainer.arrays() for trainer in pair]
                assert_same_arrays(*arrays)
                carries = any(name.startswith("carry/") for name in arrays[0])
                assert carries == pair[0].task.carries
                lines = [trainer.read(test=True) for trainer in pair]
                assert timeless(lines[:1]) == timeless(lines[1:])


# --- Going on -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize(
    "workers, processes", [(1, False), (2, False), pytest.param(3, True, marks=forks)]
)
def test_a_run_goes_on_in_the_middle_of_its_text(
    kind, workers, processes, make_trainer, new_run
):
    def make():
        return make_trainer(kind(Config()), 3, workers, processes=processes)

    assert_goes_on(make, new_run, 7)


def test_a_carry_goes_to_the_right_examples_when_it_is_cut_otherwise(
    make_trainer, new_run
):
    for before, after in [(5, 2), (1, 3), (3, 1)]:
        for processes in KINDS:
            run = new_run()
            words = {"seed": 3, "processes": processes}
            first = make_trainer(
                stop_at(RunningSum(Config()), 7), workers=before, **words
            )
            run_training(first, run)
            again = make_trainer(RunningSum(Config()), workers=after, **words)
            again.restore(*run.load())
            assert again.shares != first.shares
            np.testing.assert_array_equal(
                again.arrays()["carry/total"], first.arrays()["carry/total"]
            )
            steps(again, 5)
            np.testing.assert_allclose(
                again.arrays()["carry/total"], totals(again, 12), rtol=1e-5, atol=1e-5
            )


class Chapters(RunningSum):
    """The state is let go of after every third step."""

    def loss(self, model, batch, carry):
        *result, arrays = super().loss(model, batch, carry)
        chapter = carry["chapter"] + 1 if carry else np.ones(len(batch["x"]))
        arrays = arrays | {"chapter": chapter}
        return *result, None if chapter[0] == 3 else arrays


def test_a_carry_may_end(make_trainer):
    for processes in KINDS:
        for stop in [2, 3, 4]:

            def trainer():
                return make_trainer(
                    Chapters(Config()), 3, workers=2, processes=processes
                )

            first = steps(trainer(), stop)
            arrays, state = first.arrays(), first.state()
            assert ("carry/total" in arrays) == (stop != 3)
            again = trainer()
            again.restore(arrays, state)
            for _ in range(4):
                assert_same_arrays(again.arrays(), first.arrays())
                first.advance()
                again.advance()
            seen = make_trainer(Chapters(Config()), 3, workers=2, processes=processes)
            means = [steps(seen, 1).read()["seen"] for _ in range(7)]
            assert means == [0, 1, 1, 0, 1, 1, 0]


# --- What is lost is not made up ------------------------------------------------------


LOST = r"step 3 cannot go on where the last one stopped.*is for step \d.*checkpoint"


@forks
@pytest.mark.parametrize("saved", [False, True])
def test_a_carry_that_ended_with_its_process_is_not_taken_for_none(saved, make_trainer):
    trainer = steps(make_trainer(RunningSum(Config()), workers=2), 3)
    arrays, state = trainer.arrays(), trainer.state()
    reference = steps(make_trainer(RunningSum(Config()), workers=2), 4).arrays()
    if saved:  # at this very step: what it carries is here
        trainer.workers.close()
        assert_same_arrays(steps(trainer, 1).arrays(), reference)
        return
    trainer = steps(make_trainer(RunningSum(Config()), workers=2), 3)
    trainer.workers.close()
    with pytest.raises((RunError, WorkerError), match=LOST):
        trainer.advance()
    trainer.restore(arrays, state)
    assert_same_arrays(steps(trainer, 1).arrays(), reference)


class Hurried(RunningSum):
    """Somebody presses Ctrl-C in the middle of the fourth step."""

    calls = 0

    def loss(self, *words):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return super().loss(*words)


def test_a_step_that_was_interrupted_can_be_repeated(make_trainer):
    trainer = make_trainer(Hurried(Config()))
    trainer.task.at = 3 * len(trainer.shares.pieces) + 3
    with pytest.raises(KeyboardInterrupt):
        steps(trainer, 4)
    assert trainer.step == 3
    reference = steps(make_trainer(RunningSum(Config())), 6)
    assert_same_arrays(steps(trainer, 3).arrays(), reference.arrays())


def test_a_step_that_some_threads_have_done_is_not_done_again(make_trainer):
    trainer = make_trainer(RunningSum(Config()), workers=2, processes=False)
    steps(trainer, 3)
    trainer._share(1, {"do": "differentiate", "step": 3})
    with pytest.raises(RunError, match=LOST):
        trainer.advance()


# --- What a task gives ----------------------------------------------------------------


def carrying(make, carries=True):
    """The task `Larger` with a carry."""
    task = Larger(Config())
    loss = Larger.loss
    task.loss = lambda model, batch, carry: (
        *loss(task, model, batch, None)[:3],
        make(model, batch),
    )
    task.carries = carries
    return task


def test_a_carry_that_cannot_be_is_refused(make_trainer):
    for make, says in [
        (lambda model, b: b["inputs"], r"loss\(\) must return a dict, not a ndarray"),
        (
            lambda model, b: {"h": model(b["inputs"])},
            r"the carry 'h' of Larger.loss\(\) is a Tensor .*, of a Tensor its .data",
        ),
        (lambda model, b: {"h": b["inputs"][1:]}, r"a ndarray \[\d+, 2\]; .* row for"),
        (lambda model, b: {"h": b["inputs"].T}, r"a ndarray \[2, \d+\]; .* row for"),
        (lambda model, b: {"h": 3.0}, r"a float \[\]; .* a row for each"),
        (
            lambda model, b: {"h": b["inputs"]} if len(b["inputs"]) == 13 else None,
            "must carry the same names for all pieces of a step",
        ),
    ]:
        trainer = make_trainer(carrying(make))
        with pytest.raises(TaskError, match=says):
            trainer.advance()
            trainer.arrays()


def test_a_task_must_say_that_it_carries(make_trainer):
    trainer = make_trainer(carrying(lambda model, b: {"h": b["inputs"]}, False))
    with pytest.raises(TaskError, match="gives a carry; say carries = True, or give"):
        trainer.advance()


# --- Arrays through a pipe ------------------------------------------------------------


ARRAYS = {
    "half": np.arange(6, dtype=np.float16).reshape(2, 3),
    "truth": np.array([True, False]),
    "none": np.zeros((0, 4), np.float32),
    "one": np.array(2**62 + 1),
    "complex/names": np.array([1 + 2j]),
    "strided": np.arange(12.0).reshape(3, 4)[::2, ::3],
    "large": np.random.default_rng(0).normal(size=(1000, 300)),
    "odd": np.array([np.nan, -0.0, 1e-320]),
    "text": np.array(["ab", "c"]),
}


def test_arrays_come_back_bit_for_bit():
    for processes in KINDS:

        def share(worker, request):
            return ARRAYS | {"worker": np.full(2, worker)}

        workers = Workers(3, share, processes)
        for _ in range(2):
            for worker, reply in enumerate(workers.run(0)):
                assert_same_arrays(reply, share(worker, 0))
        workers.close()


def test_a_carry_is_joined_and_cut_again():
    pieces = [(0, 3), (3, 5), (5, 9), (9, 10)]
    carry, numbers = Carry(pieces, step=4), [0, 2]
    x = np.arange(20.0).reshape(10, 2)
    carry.take(numbers, {"x": np.concatenate([x[0:3], x[5:9]])}, 4)
    np.testing.assert_array_equal(carry.before(2, 4)["x"], x[5:9])
    assert carry.before(1, 4) is None
    whole = carry.whole(numbers)["x"]
    np.testing.assert_array_equal(
        whole[[0, 1, 2, 5, 6, 7, 8]], x[[0, 1, 2, *range(5, 9)]]
    )
    assert not whole[[3, 4, 9]].any() and whole.shape == x.shape
    with pytest.raises(RunError, match="what piece 2 carries is for step 4"):
        carry.before(2, 5)
    with pytest.raises(RunError, match="what piece 1 carries is for step 4"):
        carry.before(1, 5)
    carry.keep(0, None, 5)
    assert carry.before(0, 5) is None and 0 not in carry
