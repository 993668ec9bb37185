"""Batches drawn ahead by a process.

The same batches, the same bits, errors where they always were, and no process left
behind.

The GPU is the stand-in of fakecupy.py; what it cannot show is how fast this is.
"""

import dataclasses
import gc
import os
import signal

import fakecupy
import numpy as np
import pytest
from fakecupy import no_sync, only
from processes import alive, soon
from tinytasks import (
    TRAIN,
    Config,
    Finite,
    Larger,
    Text,
    assert_goes_on,
    assert_same_arrays,
    forks,
    relations,
    steps,
)

from tinyrmc.training.gpu.prefetch import AHEAD, Prefetcher
from tinyrmc.training.loop import run_training
from tinyrmc.training.streams import Samples, Stream

pytestmark = [forks, pytest.mark.slow]


@pytest.fixture
def cupy(monkeypatch):
    """The stand-in."""
    return fakecupy.installed(monkeypatch)


@pytest.fixture
def make_prefetcher():
    """A Prefetcher of a task, whose processes are ended when the test is over."""
    made = []

    def make(task, xp=np, pieces=((0, 50),)):
        made.append(Prefetcher(task.stream(None, 3), task, list(pieces), xp))
        return made[-1]

    yield make
    for each in made:
        each.close()


class Who(Larger):
    """The batch says which process has drawn it, in which call, and on which stage."""

    stage, calls = 0, 0

    def draw(self, rng, count):
        self.calls += 1
        told = np.array([os.getpid(), self.calls, self.stage])
        return super().draw(rng, count) | {"who": np.tile(told, (count, 1))}

    def state(self):
        return {"stage": self.stage}

    def load_state(self, state):
        self.stage = state["stage"]


def who():
    return Who(Config())


def drawn(task, step, start=0, stop=50):
    """A piece of a batch as it is drawn here, without who has drawn it."""
    return anonymous(task.stream(None, 3).batch(step, start, stop))


def anonymous(batch):
    return {name: x for name, x in batch.items() if name != "who"}


def child_of(drawing):
    return drawing._child.pid


# --- The same batches -----------------------------------------------------------------


@pytest.mark.parametrize("pieces", [[(0, 50)], [(0, 17), (17, 33), (33, 50)]])
def test_what_is_drawn_ahead_is_what_would_be_drawn_here(pieces, make_prefetcher):
    task = who()
    drawing, pids = make_prefetcher(task, pieces=pieces), set()
    for step in range(6):
        for number, piece in enumerate(pieces):
            batch = drawing.batch(step, number)
            assert_same_arrays(anonymous(batch), drawn(task, step, *piece))
            pids.add(int(batch["who"][0, 0]))
    assert pids == {os.getpid(), child_of(drawing)}  # the first one tells the size


def test_a_batch_is_there_before_it_is_asked_for(make_prefetcher):
    drawing = make_prefetcher(who())
    calls = [int(drawing.batch(step, 0)["who"][0, 1]) for step in range(8)]
    # the child goes on counting from the call that was made here
    assert calls == [*range(1, 9)]
    assert len(drawing._asked) == AHEAD
    assert drawing._child._pipe.poll(5)


def test_steps_may_be_asked_for_in_any_order(make_prefetcher):
    task = who()
    drawing = make_prefetcher(task)
    for step in (0, 1, 2, 7, 3, 4, 4, 5, 0):
        assert_same_arrays(anonymous(drawing.batch(step, 0)), drawn(task, step))


def test_what_was_drawn_under_another_state_is_thrown_away(make_prefetcher):
    task = who()
    drawing = make_prefetcher(task)
    for step in range(12):
        task.stage = step // 4
        batch = drawing.batch(step, 0)
        assert batch["who"][0, 2] == task.stage
    assert batch["who"][0, 0] == child_of(drawing)


# --- The same bits --------------------------------------------------------------------


TASKS = [
    lambda: relations(),
    lambda: relations(micro_batch_size=None),
    lambda: Finite(Config()),
    lambda: Text(Config()),
]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("make", TASKS)
def test_training_is_the_same_to_the_last_bit(make, device, cupy, make_trainer):
    pair = [
        make_trainer(make(), seed=4, device=device, prefetch=drawn) for drawn in (0, 1)
    ]
    for step in range(1, 11):
        for trainer in pair:
            trainer.advance()
        if step % 2 == 0:
            assert_same_arrays(*(trainer.arrays() for trainer in pair))
            lines = [trainer.read(test=True) for trainer in pair]
            assert lines[0] == lines[1]
    assert pair[1]._prefetcher._child and not pair[0]._prefetcher
    pair[1].close()


def test_a_gpus_batches_are_drawn_ahead_and_nothing_waits(cupy, make_trainer):
    task = Who(Config(dataclasses.replace(TRAIN, micro_batch_size=None)))
    trainer, pids = make_trainer(task, device="cuda"), []
    loss = task.loss

    def watched(model, batch, carry):
        pids.append(batch["who"]._array[0, 0])
        return loss(model, batch, carry)

    task.loss = watched
    for _ in range(4):
        with no_sync(), only(np.float32):
            trainer.advance()
    assert pids == [os.getpid(), *[child_of(trainer._prefetcher)] * 3]
    trainer.close()


@pytest.mark.parametrize(
    "words", [{}, {"workers": 2}, {"workers": 2, "prefetch": True}, {"prefetch": False}]
)
def test_on_a_cpu_workers_draw_for_themselves(words, make_trainer):
    assert make_trainer(who(), **words)._prefetcher is None


def test_a_stream_that_does_not_say_so_is_not_drawn_ahead(cupy, make_trainer):
    task = who()

    class Own(Stream):
        def __init__(self, samples):
            self.batch, self.state = samples.batch, samples.state
            self.load_state = samples.load_state

    task.stream = lambda model, seed: Own(Samples(task.draw, seed))
    trainer = make_trainer(task, device="cuda")
    trainer.advance()
    assert trainer._prefetcher is None


def test_a_run_that_is_stopped_goes_on_with_the_same_bits(cupy, make_trainer, new_run):
    assert_goes_on(lambda: make_trainer(relations(), 3, device="cuda"), new_run, 7)


# --- Errors ---------------------------------------------------------------------------


class Worn(Larger):
    """From some step on nothing can be drawn."""

    def stream(self, model, seed):
        stream = Samples(self.draw, seed)
        clean = stream.batch

        def batch(step, start, stop):
            if step >= 5:
                raise FileNotFoundError(f"the text ends at step {step}")
            return clean(step, start, stop)

        stream.batch = batch
        return stream


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_error_in_draw_comes_when_its_step_does(device, cupy, make_trainer):
    trainer = make_trainer(Worn(Config()), device=device, prefetch=True)
    steps(trainer, 5)
    pid = child_of(trainer._prefetcher)
    with pytest.raises(FileNotFoundError, match=r"^the text ends at step 5$") as caught:
        trainer.advance()
    assert any(entry.name == "batch" for entry in caught.traceback)
    assert trainer.step == 5 and not alive(pid)
    with pytest.raises(FileNotFoundError):
        trainer.advance()


def test_a_process_that_fails_alone_is_done_without(make_prefetcher):
    task, parent = who(), os.getpid()
    task.draw = lambda rng, count: (
        Who.draw(task, rng, count) if os.getpid() == parent else 1 / 0
    )
    drawing = make_prefetcher(task)
    for step in range(4):
        assert_same_arrays(anonymous(drawing.batch(step, 0)), drawn(task, step))
    assert drawing._given_up and drawing._child is None


@pytest.mark.parametrize("step", [1, 3])
def test_a_process_that_was_killed_is_done_without(step, make_prefetcher):
    task = who()
    drawing = make_prefetcher(task)
    for k in range(6):
        if k == step:
            pid = child_of(drawing)
            os.kill(pid, signal.SIGKILL)
            assert soon(lambda pid=pid: not alive(pid))
        assert_same_arrays(anonymous(drawing.batch(k, 0)), drawn(task, k))
    assert drawing._given_up


def test_after_an_interruption_no_answer_is_taken_for_another(
    make_prefetcher, monkeypatch
):
    task = who()
    drawing = make_prefetcher(task)
    for step in range(3):
        drawing.batch(step, 0)
    child = drawing._child

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(child, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        drawing.batch(3, 0)
    for step in range(3, 7):
        assert_same_arrays(anonymous(drawing.batch(step, 0)), drawn(task, step))
    assert not drawing._given_up and child_of(drawing) != child.pid


# --- Nothing is left behind -----------------------------------------------------------


@pytest.mark.parametrize("end", ["run", "close", "with", "forget", "restore"])
def test_no_process_is_left(end, cupy, make_trainer, new_run):
    trainer = make_trainer(who(), device="cuda")
    steps(trainer, 3)
    pid = child_of(trainer._prefetcher)
    assert alive(pid)
    if end == "run":
        run_training(trainer, new_run())
    elif end == "close":
        trainer.close()
    elif end == "restore":
        trainer.restore(trainer.arrays(), trainer.state())
    elif end == "with":
        with trainer:
            pass
    else:
        trainer._prefetcher = None
        gc.collect()
    assert not alive(pid)


# --- What goes through the pipe -------------------------------------------------------


def test_python_objects_are_drawn_here(make_prefetcher):
    task = who()
    task.draw = lambda rng, count: {"x": np.array([{}] * count)}
    drawing = make_prefetcher(task)
    for step in range(3):
        assert drawing.batch(step, 0)["x"].tolist() == [{}] * 50
    assert drawing._given_up and drawing._child is None
