"""What a task gives to the training loop.

A task file defines a class `Task`. Give it `presets`, `build`, `draw` and `loss`; the
rest has sensible defaults. Three things stand apart:

- this file: what learning needs, and when the loop asks for it;
- `presentation.py`: what command lines, reports and pictures ask for;
- `streams.py`, `texts.py` and `schedules.py`: pieces to build a task from.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .. import optim
from ..autograd.engine import Parameter
from ..backend import to_device
from ..config import check_values
from ..nn import Module
from .checks import check_result, telling
from .discovery import TaskError
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
    lower: the metrics for which lower is better.
    splits: the sets of held-out examples, a word each: `("validation", "test")`. The
        first is watched while a run trains, and guides it; all are measured at its end,
        and the last gives its result. Metrics are named after their set:
        `validation_loss`.
    test_examples: how many held-out examples there are, in each set. Where the sets
        differ in size, override `examples`.
    phases: the names in `state` of what the loss depends on: where one changes, the GPU
        captures another CUDA graph of the step. None: all of it.
    carries: whether `loss` hands a carry from step to step, such as the state of a
        recurrent network in the middle of a long text.
    apart: whether, of several ranks, one learns while the others act (`apart.py`).
    """

    headline: str = "accuracy"
    lower: tuple[str, ...] = ("loss", "perplexity")
    splits: tuple[str, ...] = ("test",)
    test_examples: int = 10_240
    phases: tuple[str, ...] | None = None
    carries: bool = False
    apart: bool = False

    def __init_subclass__(cls, **keywords: Any):
        super().__init_subclass__(**keywords)
        ours = cls.__mro__[: cls.__mro__.index(Task)]
        if cls.headline in cls.lower and not any("success" in vars(k) for k in ours):
            cls.success = None

    def __init__(self, config: Any):
        check_values(config)
        self.config = config

    # --- What is learnt ---------------------------------------------------------------

    @abc.abstractmethod
    def build(self, seed: np.random.SeedSequence) -> Module:
        """A new network."""
        raise NotImplementedError

    def draw(self, rng: np.random.Generator, count: int) -> Batch:
        """`count` fresh examples as a dict of example-first arrays.

        A task whose examples are a finite set gives `stream` and `held_out` instead.
        """
        raise TaskError(
            f"{type(self).__name__} has no method draw; write it, or both stream and "
            "held_out"
        )

    def prepare(
        self, model, batch: Batch, carry: Batch | None
    ) -> tuple[Batch, Batch | None]:
        """What `loss` gets for a batch and a carry; called before recording begins.

        By default, these two unchanged. Here a network may have a say in what it learns
        from: an agent acts.
        """
        return batch, carry

    @abc.abstractmethod
    def loss(self, model, batch: Batch, carry: Batch | None) -> tuple:
        """(sum of the losses as a Tensor, their count, {metric: (sum, count)}, carry).

        The loop divides the sum by the count once, after adding up all pieces of the
        batch: give sums, not means. A piece that is masked throughout may count 0, but
        not a whole batch.

        It draws nothing: random numbers come with the batch. What it drew on the host,
        a CUDA graph would repeat in every step.

        The carry is what the next step gets for the same rows: a dict of arrays, one
        row an example, detached (give a Tensor's `.data`); put nested states into one
        dict. None: the next step starts afresh. A piece of the batch has the same rows
        in every step, so row k of each batch must go on where row k of the last one
        stopped: it is a lane of the text. See `carries`.
        """
        raise NotImplementedError

    def carried(self, model) -> Batch:
        """What one example may carry, as arrays (1, ...). A checkpoint's must have the
        same shapes and dtypes; names that are not in here are not compared.
        """
        return {}

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

    def place(self, step: int) -> dict:
        """Where a curriculum or a phase stands, for a line of metrics: its "rung"."""
        return {}

    def observe(self, step: int, metrics: dict) -> None:
        """Called with each line of metrics: moves a curriculum, a phase, the rate.

        Every `evaluate_every` steps the line has the metrics on the first of the
        `splits` too, as `test_*` if that is `test`.
        """

    def finished(self, step: int) -> bool:
        """Whether a run is over after this many steps; asked before each step."""
        return step >= self.config.train.steps

    @property
    def text_checksum(self) -> int | None:
        """The checksum of what is read from files; None if nothing is.

        `state` should keep it as "text": runs on different texts then count as
        different, and none goes on with another text.
        """
        return None

    def state(self) -> dict:
        """What `observe` has changed, as JSON can hold it."""
        return {}

    def load_state(self, state: dict) -> None:
        """Take back what `state` gave."""

    # --- How it is tested -------------------------------------------------------------

    def examples(self, split: str) -> int:
        """How many held-out examples there are in a set."""
        return self.test_examples

    # Where there are several sets, `held_out` and `evaluate` are told which is meant.

    def held_out(self, split: str | None = None) -> Stream:
        """The examples to test on: the first `examples` of the batch of step 0."""
        place = self.splits.index(split) if split else 0
        return Samples(self.draw, HELD_OUT_SEED + place)

    def evaluate(
        self, model, worker: int = 0, workers: int = 1, xp=np, split: str | None = None
    ) -> Sums:
        """{metric: (sum, count)} over a worker's pieces of the held-out examples.

        split: one of `splits`; None: the first. Records no tape.
        """
        split = split or self.splits[0]
        held_out, totals = self.held_out(*self.naming(split)), Totals()
        pieces = pieces_of(self.examples(split), self.config.train.piece(xp), workers)
        for start, stop in pieces[worker::workers]:
            batch = move_batch(xp, held_out.batch(0, start, stop))
            with telling(stop - start):
                total, count, metrics = self.measure(model, batch)
            totals.add({"loss": (total.data, count), **metrics})
        return totals.sums

    def measure(self, model, batch: Batch) -> tuple:
        """What `evaluate` adds up: (sum, count, metrics), as from `loss`.

        A task may test differently from how it trains.
        """
        return check_result(self, self.loss(model, batch, None))[:3]

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """What is reported of the means of metrics, in training and on held-out sets.

        For what is not a mean itself: the perplexity is exp(mean loss), which is not
        the mean of the perplexities of batches.
        """
        return means

    # --- What follows from that -------------------------------------------------------

    @property
    def watched(self) -> str:
        """The name of the headline on the set that is watched: "test_accuracy"."""
        return f"{self.splits[0]}_{self.headline}"

    @property
    def result(self) -> str:
        """The name of the headline on the set that gives a run's result."""
        return f"{self.splits[-1]}_{self.headline}"

    def cells(self) -> dict[str, str]:
        """{cell: the metric to compare it with}: the published results for a run.

        A run that stands for several cells, such as a network for many tasks, has its
        own.
        """
        cell = self.cell()
        return {} if cell is None else {cell: self.result}

    def naming(self, split: str) -> tuple[str, ...]:
        """The arguments that name a set: none where there is one set alone."""
        return (split,) if len(self.splits) > 1 else ()

    def named(self, split: str, sums: Sums) -> dict[str, float]:
        """What `evaluate` has given of a set, as a line of metrics names it.

        Waits for the device.
        """
        means = self.summary(Totals(sums).means())
        return {f"{split}_{name}": value for name, value in means.items()}

    def held_out_metrics(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Those metrics of a line that are on held-out examples."""
        splits = tuple(f"{split}_" for split in self.splits)
        return {name: line[name] for name in line if name.startswith(splits)}

    def lower_is_better(self, metric: str) -> bool:
        """Whether less is better, of a metric such as "loss" or "test_loss"."""
        split, _, name = metric.partition("_")
        return (name if split in self.splits else metric) in self.lower


def move_batch(xp, batch: Batch) -> Batch:
    """A host batch as arrays of `xp`; on NumPy the batch itself."""
    return batch if xp is np else {name: to_device(x, xp) for name, x in batch.items()}
