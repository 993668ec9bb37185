"""Whole steps captured as CUDA graphs: forward, backward, clipping and update.

The same operations in the same order as without, so the same bits. What the host gives
each step goes into arrays that stay where they are: the batch, and the learning rate.
There is a graph for each shape of the batch and each state of the task, since a
curriculum may move the loss.
"""

from __future__ import annotations

import json
from typing import Any

from .. import optim
from ..errors import UsageError
from ..kernels.graph import Graph, working_stream
from .streams import Batch
from .task import Task
from .totals import OnDevice, Sums, Totals

WARM = 2  # steps before a capture: kernels are compiled in the first


class Steps:
    """The steps of one shape: their batch, and the graph once there is one."""

    def __init__(self, xp: Any, stream: Any, batch: Batch):
        self.batch = {name: xp.empty(x.shape, x.dtype) for name, x in batch.items()}
        self.graph, self.done = Graph(xp, stream), 0
        self.numbers: Sums = {}  # what each step adds up on the host


class Captured:
    """Takes a Trainer's steps by graphs.

    UsageError for a task whose steps cannot be captured.
    """

    def __init__(self, trainer: Any):
        _require_capturable(trainer)
        self.trainer, self.stream = trainer, working_stream(trainer.xp)
        self._steps: dict[str, Steps] = {}

    def advance(self, batch: Batch) -> None:
        """One step of the Trainer on this batch."""
        trainer, steps = self.trainer, self._of(batch)
        for name, x in batch.items():
            steps.batch[name][...] = x
        trainer.optimizer.set_rate(trainer.task.learning_rate(trainer.step))
        if steps.done < WARM:
            with steps.graph.memory():
                trainer.take_step(steps.batch)
        else:
            if steps.done == WARM:
                self._capture(steps)
            steps.graph.replay()
            Totals.add(trainer.window, steps.numbers)
        steps.done += 1

    def forget(self) -> None:
        """Capture anew: what the Trainer keeps has moved to other arrays."""
        self._steps.clear()

    def _of(self, batch: Batch) -> Steps:
        kinds = [[name, x.dtype.str, *x.shape] for name, x in batch.items()]
        key = json.dumps([kinds, self.trainer.task.state()])
        if key not in self._steps:
            self._steps[key] = Steps(self.trainer.xp, self.stream, batch)
        return self._steps[key]

    def _capture(self, steps: Steps) -> None:
        """Capture a step, which is thereby asked for but not taken."""
        window = self.trainer.window
        before, window.sums = window.sums, {}
        try:
            steps.graph.capture(lambda: self.trainer.take_step(steps.batch))
            steps.numbers = window.sums
        finally:
            window.sums = before
        if any(hasattr(x, "shape") for pair in steps.numbers.values() for x in pair):
            raise UsageError(
                "--graph: this task gives metrics that are neither float32 nor int64 "
                "on the GPU; leave --graph out"
            )


def _require_capturable(trainer: Any) -> None:
    """UsageError naming the first thing that a graph could not repeat."""
    task, why = trainer.task, None
    if not isinstance(trainer.window, OnDevice):
        why = "needs --device cuda and its kernels"
    elif trainer.ranks.size > 1:
        why = "is for one process, and ranks exchange numbers in each step"
    elif len(trainer.shares.pieces) > 1:
        why = "needs the batch in one piece; leave --train.piece-size out"
    elif task.carries or type(task).prepare is not Task.prepare:
        why = f"cannot repeat a step of {type(task).__name__}, which carries or acts"
    elif (
        type(trainer.optimizer) is not optim.Adam or task.config.train.clips != "whole"
    ):
        why = "is for Adam, clipping the whole gradient if at all"
    if why:
        raise UsageError(f"--graph {why}")
