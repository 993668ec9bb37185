"""Whole steps captured as CUDA graphs: forward, backward, clipping and update.

The same operations in the same order as without, so the same bits. What the host gives
each step goes into arrays that stay where they are: the batch, and the learning rate.
There is a graph for each shape of the batch and each phase of the task, since a
curriculum may move the loss.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from .. import optim
from ..errors import UsageError
from ..kernels.graph import Graph, working_stream
from .streams import Batch
from .task import Task
from .totals import OnDevice, Sums, Totals

KEPT = 4  # graphs; each holds the memory of a whole step


def captured(trainer: Any, graph: bool | None) -> Captured | None:
    """What takes a Trainer's steps by graphs; None if they are taken as ever.

    `graph`: whether they must be; None: if they can. UsageError where they must, and
    cannot.
    """
    why = "" if graph is False else _obstacle(trainer)
    if graph and why:
        raise UsageError(f"--graph {why}")
    return None if graph is False or why else Captured(trainer, bool(graph))


class Steps:
    """The steps of one shape and phase: their batch, and their graph."""

    def __init__(self, xp: Any, stream: Any, batch: Batch):
        self.batch = {name: xp.empty(x.shape, x.dtype) for name, x in batch.items()}
        self.graph, self.warm, self.captured = Graph(xp, stream), False, False
        self.numbers: Sums = {}  # what each step adds up on the host


class Captured:
    """Takes a Trainer's steps by graphs.

    The first step of a kind is taken as ever, the second one in the graph's memory: so
    all kernels are there, and all memory too. The third one is captured. If that cannot
    be, it is a UsageError where graphs are `required`; else all steps are taken as ever
    from then on.
    """

    def __init__(self, trainer: Any, required: bool):
        self.trainer, self.required = trainer, required
        self.stream, self._possible = working_stream(trainer.xp), True
        self._seen: set[str] = set()  # kinds of steps
        self._steps: dict[str, Steps] = {}  # by kind; those last used come last

    def advance(self, batch: Batch) -> None:
        """One step of the Trainer on this batch."""
        steps = self._steps_of(batch)
        if steps is None:
            self.trainer.take_step(batch)
            return
        for name, x in batch.items():
            steps.batch[name][...] = x
        rate = self.trainer.task.learning_rate(self.trainer.step)
        self.trainer.optimizer.set_rate(rate)
        if steps.warm and (steps.captured or self._capture(steps)):
            steps.graph.replay()
            Totals.add(self.trainer.window, steps.numbers)
            return
        with steps.graph.memory():
            self.trainer.take_step(steps.batch)
        steps.warm = True

    def forget(self) -> None:
        """Capture anew: what the Trainer keeps has moved to other arrays."""
        self._steps.clear()

    def _steps_of(self, batch: Batch) -> Steps | None:
        """The steps of this batch's kind; None for the first one, or without graphs."""
        kind = self._kind(batch)
        if kind not in self._seen or not self._possible:
            self._seen.add(kind)
            return None
        steps = self._steps.pop(kind, None)
        steps = steps or Steps(self.trainer.xp, self.stream, batch)
        self._steps[kind] = steps
        while len(self._steps) > KEPT:
            del self._steps[next(iter(self._steps))]
        return steps

    def _kind(self, batch: Batch) -> str:
        """The shapes and the phase of a step."""
        task, shapes = self.trainer.task, {}
        for name, x in batch.items():
            shapes[name] = [x.dtype.str, *x.shape]
        state = task.state()
        names = state if task.phases is None else task.phases
        return json.dumps([shapes, {name: state[name] for name in names}])

    def _capture(self, steps: Steps) -> bool:
        """Capture a step, which is thereby asked for but not taken.

        False if that cannot be.
        """
        window = self.trainer.window
        before, window.sums = window.sums, {}
        try:
            steps.graph.capture(lambda: self.trainer.take_step(steps.batch))
            steps.numbers = window.sums
            sums = [x for pair in window.sums.values() for x in pair]
            if any(hasattr(x, "shape") for x in sums):
                raise TypeError("a metric is neither float32 nor int64 on the GPU")
        except Exception as error:  # CuPy and the driver have many kinds
            self._give_up(error)
            return False
        finally:
            window.sums = before
        steps.captured = True
        return True

    def _give_up(self, error: Exception) -> None:
        """UsageError, or the steps go on without graphs."""
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        if self.required:
            raise UsageError(
                f"--graph: this step cannot be captured ({why}); say --no-graph"
            ) from error
        self._possible = False
        self._steps.clear()
        print(f"note: steps go on without CUDA graphs ({why})", file=sys.stderr)


def _obstacle(trainer: Any) -> str:
    """The first thing that a graph could not repeat; "" if there is none."""
    task = trainer.task
    if not isinstance(trainer.window, OnDevice):
        return "needs --device cuda and its kernels"
    if trainer.ranks.size > 1:
        return "is for one process, and ranks exchange numbers in each step"
    if len(trainer.shares.pieces) > 1:
        return "needs the batch in one piece; leave --train.piece-size out"
    if task.carries or type(task).prepare is not Task.prepare:
        return f"cannot repeat a step of {type(task).__name__}, which carries or acts"
    adam = type(trainer.optimizer) is optim.Adam
    if not adam or task.config.train.clips != "whole":
        return "is for Adam, clipping the whole gradient if at all"
    return ""
