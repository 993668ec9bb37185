"""What a task gives to the training loop.

A task file defines a class `Task`. Give it `presets`, `build`, `draw` and `loss`; the
rest has sensible defaults. Three things stand apart:

- this file: what learning needs, and when the loop asks for it;
- `presentation.py`: what command lines, reports and pictures ask for;
- `streams.py` and `schedules.py`: pieces to build a task from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import optim
from ..backend import to_device
from ..engine import Parameter
from ..nn import Module
from .checks import check_result, telling
from .presentation import Presentation
from .streams import BLOCK, Batch, Epochs, Samples, Stream
from .totals import Sums, Totals
from .train_config import PIECE, TrainConfig
from .workers import pieces_of

__all__ = [
    "BLOCK",
    "HELD_OUT_SEED",
    "PIECE",
    "Batch",
    "Epochs",
    "Samples",
    "Stream",
    "Task",
    "Totals",
    "TrainConfig",
]

# every run of a task is tested on the same examples, whatever its own seed
HELD_OUT_SEED = 2018


class Task(Presentation):
    """What learning needs of a task.

    Its `config` decides the result of a run, together with the seed. Everything that
    `observe` changes must be in `state`: workers in other processes, and runs that go
    on from a checkpoint, know of nothing else.

    headline: the metric that says how well a run does: its curve is drawn, and on the
        held-out examples it is `test_<headline>`. If it is an accuracy, each line of
        metrics also has that of the best single training batch since the line before,
        `best_batch_<headline>`.
    test_examples: how many held-out examples there are.
    carries: whether `loss` hands a carry from step to step, such as the state of a
        recurrent network in the middle of a long text.
    """

    headline: str = "accuracy"
    test_examples: int = 10_240
    carries: bool = False

    def __init__(self, config: Any):
        self.config = config

    # --- What is learnt ---------------------------------------------------------------

    def build(self, seed: np.random.SeedSequence) -> Module:
        """A new network."""
        raise NotImplementedError

    def draw(self, rng: np.random.Generator, count: int) -> Batch:
        """`count` fresh examples as a dict of example-first arrays.

        A task whose examples are a finite set gives `stream` and `held_out` instead.
        """
        raise NotImplementedError

    def loss(self, model, batch: Batch, carry: Batch | None) -> tuple:
        """(sum of the losses as a Tensor, their count, {metric: (sum, count)}, carry).

        The loop divides the sum by the count once, after adding up all pieces of the
        batch: give sums, not means.

        The carry is what the next step gets for the same rows: a dict of arrays, one
        row an example, detached (give a Tensor's `.data`); put nested states into one
        dict. None: the next step starts afresh. A piece of the batch has the same rows
        in every step, so row k of each batch must go on where row k of the last one
        stopped: it is a lane of the text. See `carries`.
        """
        raise NotImplementedError

    # --- How it is learnt -------------------------------------------------------------

    def stream(self, model, seed: int) -> Stream:
        """The source of training batches: `Samples`, `Epochs` or a `Stream`."""
        return Samples(self.draw, seed)

    def optimizer(
        self, parameters: Iterable[Parameter], allocate: Callable
    ) -> optim.Optimizer:
        """What turns gradients into updates; by default as `config.train` says.

        allocate: pass it on to the optimizer. Its buffers must lie where workers in
            other processes see them.
        """
        return self.config.train.make_optimizer(parameters, allocate)

    def learning_rate(self, step: int) -> float:
        """The rate of this step: warm-up, plateau, decay. `schedules.py` has others."""
        t = self.config.train
        return optim.schedule(t.learning_rate, t.steps, t.warmup_steps, t.decay)(step)

    def after_update(self, model) -> None:
        """Called after each update, for constraints on parameters."""

    def observe(self, step: int, metrics: dict) -> dict:
        """Called with each line of metrics: moves a curriculum, a phase, the rate.

        What it returns is added to the line. Every `evaluate_every` steps the line has
        the held-out metrics too, as `test_*`.
        """
        return {}

    def finished(self, step: int) -> bool:
        """Whether a run that has done so many steps is over: asked before each step."""
        return step >= self.config.train.steps

    def state(self) -> dict:
        """What `observe` has changed, as JSON can hold it."""
        return {}

    def load_state(self, state: dict) -> None:
        """Take back what `state` gave."""

    # --- How it is tested -------------------------------------------------------------

    def held_out(self) -> Stream:
        """The examples to test on: the first `test_examples` of the batch of step 0."""
        return Samples(self.draw, HELD_OUT_SEED)

    def evaluate(self, model, worker: int = 0, workers: int = 1, xp=np) -> Sums:
        """{metric: (sum, count)} over a worker's pieces of the held-out examples.

        Records no tape.
        """
        held_out, totals = self.held_out(), Totals()
        pieces = pieces_of(self.test_examples, self.config.train.piece(xp), workers)
        for start, stop in pieces[worker::workers]:
            batch = move_batch(xp, held_out.batch(0, start, stop))
            with telling(stop - start):
                total, count, metrics = self.measure(model, batch)
            totals.add({"loss": (total.data, count), **metrics})
        return totals.sums

    def measure(self, model, batch: Batch) -> tuple:
        """What `evaluate` adds up: (sum, count, metrics), as from `loss`.

        A task may test otherwise than it trains.
        """
        return check_result(self, self.loss(model, batch, None))[:3]


def move_batch(xp, batch: Batch) -> Batch:
    """A host batch as arrays of `xp`; on NumPy the batch itself."""
    return batch if xp is np else {name: to_device(x, xp) for name, x in batch.items()}
