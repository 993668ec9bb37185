"""Whole steps captured as CUDA graphs: forward, backward, clipping and update.

An agent's step is its whole update: it acts in its worlds first. These are array
programs whose random numbers come with the batch, and whose levels are part of the
carry, so a graph repeats them like everything else.

The same operations in the same order as without, so the same bits. What the host gives
each step goes into arrays that stay where they are: the batch, and the learning rate.
So does what a step hands on to the next, the carry: a graph takes it up from there and
puts it back. There is a graph for each shape of the batch and each phase of the task,
since a curriculum may move the loss.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

from ... import optim
from ...backend.gpu.graph import Graph, working_stream
from ...config import json_text
from ...errors import UsageError
from ..pieces import MetricAccumulator, Sums
from ..streams import Batch
from .metrics import OnDevice

KEPT = 4  # graphs; each holds the memory of a whole step

# their rate lies on the device
OPTIMIZERS = optim.Adam, optim.AdamW, optim.SGD, optim.RMSProp


def cuda_graph(trainer: Any, required: bool) -> tuple[CudaGraphs | None, str]:
    """(what takes a Trainer's steps by graphs, or None; why there is none, or "").
    UsageError where graphs are `required`, and cannot be.
    """
    why = _obstacle(trainer)
    if required and why:
        raise UsageError(f"--graph {why}")
    return (None, why) if why else (CudaGraphs(trainer, required), "")


class Steps:
    """The steps of one shape and phase: what they are given, and their graph."""

    def __init__(self, xp: Any, stream: Any, batch: Batch, carry: Batch):
        self.batch, self.carry = (
            {name: xp.empty(x.shape, x.dtype) for name, x in arrays.items()}
            for arrays in (batch, carry)
        )
        self.graph = Graph(xp, stream)
        self.warm = False
        self.captured = False
        self.numbers: Sums = {}  # what each step adds up on the host


class CudaGraphs:
    """Takes a Trainer's steps by graphs.

    The first step of a kind is taken as usual, the second one in the graph's memory,
    the third one is captured. If that fails, it is a UsageError where graphs are
    `required`; else all steps are taken as usual from then on. So are those of a kind
    whose graph had to make room for later ones.
    """

    def __init__(self, trainer: Any, required: bool):
        self.trainer, self.required = trainer, required
        self.stream = working_stream(trainer.xp)
        self._possible = True
        self._seen: set[str] = set()  # kinds of steps
        self._dropped: set[str] = set()
        self._steps: dict[str, Steps] = {}  # by kind; those last used come last

    def advance(self, batch: Batch) -> None:
        """One step of the Trainer on this batch."""
        self.stream.use()  # each thread has a current stream of its own
        before = self._carry
        try:
            self._advance(batch)
            return
        except self.trainer.xp.cuda.memory.OutOfMemoryError as error:
            # No parameter has changed: a step asks for memory before it changes any.
            self._hand_on(before, 0)
            if not self._possible:
                raise
            self._give_up(error)
        gc.collect()  # frees the memory of all graphs
        self.trainer.take_step(batch)

    def _advance(self, batch: Batch) -> None:
        steps = self._steps_of(batch)
        if steps is None:
            self.trainer.take_step(batch)
            return
        for name, x in batch.items():
            steps.batch[name][...] = x
        if (carry := self._carry) is not steps.carry:
            for name, x in carry.items():
                steps.carry[name][...] = x
        self.trainer.optimizer.set_rate(self.trainer.rate())
        if steps.warm and (steps.captured or self._capture(steps)):
            steps.graph.replay()
            MetricAccumulator.add(self.trainer.window, steps.numbers)
            self._hand_on(steps.carry, 1)
            return
        with steps.graph.memory():
            self._take_step(steps)
        steps.warm = True

    def forget(self) -> None:
        """Capture anew: what the Trainer keeps has moved to other arrays."""
        self._steps.clear()

    def _steps_of(self, batch: Batch) -> Steps | None:
        """The steps of this batch's kind; None for the first one, or without graphs."""
        kind = self._kind(batch)
        if kind in self._dropped or not self._possible:
            return None
        if kind not in self._seen:
            self._seen.add(kind)
            return None
        steps = self._steps.pop(kind, None)
        steps = steps or Steps(self.trainer.xp, self.stream, batch, self._carry)
        self._steps[kind] = steps
        if len(self._steps) > KEPT:
            oldest = next(iter(self._steps))
            del self._steps[oldest]
            self._dropped.add(oldest)
        return steps

    def _kind(self, batch: Batch) -> str:
        task = self.trainer.task
        state = task.state()
        names = state if task.phases is None else task.phases
        shapes = [_shapes(batch), _shapes(self._carry)]
        return json_text([shapes, {name: state[name] for name in names}])

    @property
    def _carry(self) -> Batch:
        """The carry of the one piece there is, which the next step takes up."""
        return self.trainer.carry.get(0, {})

    def _hand_on(self, carry: Batch, ahead: int) -> None:
        """Let the step that is `ahead` steps from here take this up."""
        if self.trainer.task.carries:
            self.trainer.carry.keep(0, carry or None, self.trainer.step + ahead)

    def _take_step(self, steps: Steps) -> None:
        """A step that takes its carry up where it puts back the next one."""
        # copies, for what it hands on may be part of what it has taken up
        self._hand_on({name: x.copy() for name, x in steps.carry.items()}, 0)
        self.trainer.take_step(steps.batch)
        after = self._carry
        if _shapes(after) == _shapes(steps.carry):
            for name, x in after.items():
                steps.carry[name][...] = x
            self._hand_on(steps.carry, 1)

    def _capture(self, steps: Steps) -> bool:
        """Record a step's work on the GPU without doing it; False if that fails."""
        window = self.trainer.window
        before = window.sums
        window.sums = {}
        try:
            steps.graph.capture(lambda: self._take_step(steps))
            steps.numbers = window.sums
            sums = [x for pair in window.sums.values() for x in pair]
            if any(hasattr(x, "shape") for x in sums):
                raise TypeError("a metric is neither float32 nor int64 on the GPU")
            if _shapes(self._carry) != _shapes(steps.carry):
                raise TypeError("the carry changes its shape")
        except Exception as error:  # CuPy and the driver have many kinds
            self._hand_on(steps.carry, 0)
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


def _shapes(arrays: Batch) -> dict[str, list]:
    return {name: [x.dtype.str, *x.shape] for name, x in arrays.items()}


def _obstacle(trainer: Any) -> str:
    """The first thing that a graph could not repeat; "" if there is none."""
    if not isinstance(trainer.window, OnDevice):
        return "needs --device cuda and its kernels"
    if trainer.ranks > 1:
        return "is for one process, and ranks exchange numbers in each step"
    if len(trainer.shares.pieces) > 1:
        return "needs the batch in one piece; leave --train.micro-batch-size out"
    if (kind := type(trainer.optimizer)) not in OPTIMIZERS:
        return f"knows the optimizers of optim.py, not {kind.__name__}"
    return ""
