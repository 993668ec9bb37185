"""What a task gives to the training loop, and what the loop asks of it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .. import optim
from ..backend import to_device, to_host
from ..nn import Module
from .discovery import TaskError
from .workers import pieces_of

# examples drawn from one random stream; a rank or a worker that needs some blocks draws
# only those
BLOCK = 64


# examples that one worker takes at a time on a CPU: more do not come faster, and hold
# more memory
PIECE = 128


HELD_OUT_SEED = (
    2018  # every run of a task is tested on the same examples, whatever its own seed
)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How to train; the same fields for every task."""

    steps: int = 10_000
    """optimizer steps"""
    batch_size: int = 256
    """examples a step"""
    learning_rate: float = 1e-3
    """peak learning rate of Adam"""
    warmup_steps: int = 200
    """steps over which the rate rises linearly to its peak"""
    decay: float = 0.0
    """fraction of all steps, at the end, over which the rate falls to zero along a
    cosine
    """
    clip_norm: float | None = 1.0
    """largest L2 norm of the gradient; None: not clipped"""
    piece_size: int | None = None
    """at most so many examples go through the network at once, the pieces being shared
    among the workers; None: 128, on a GPU the batch
    """
    log_every: int = 100
    """steps between lines of metrics.jsonl; a task's curriculum looks at each line"""
    evaluate_every: int = 500
    """steps between evaluations on the held-out set"""
    checkpoint_minutes: float = 2.0
    """minutes between checkpoints"""
    nonfinite_limit: int = 10
    """updates skipped for a loss or gradient that is not finite, after which the run
    stops
    """

    def __post_init__(self):
        for name in (
            "steps",
            "batch_size",
            "learning_rate",
            "log_every",
            "evaluate_every",
            "nonfinite_limit",
        ):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(
                    f"train.{name} must be positive, not {getattr(self, name)!r}"
                )
        for name in ("clip_norm", "piece_size"):
            value = getattr(self, name)
            if not (value is None or 0 < value < math.inf):
                raise ValueError(
                    f"train.{name} must be positive or None, not {value!r}"
                )
        if not self.checkpoint_minutes >= 0:
            raise ValueError(
                "train.checkpoint_minutes must not be negative, not "
                f"{self.checkpoint_minutes!r}"
            )
        if not 0 <= self.decay <= 1 or self.warmup_steps < 0:
            raise ValueError(
                "train.decay must be in [0, 1] and train.warmup_steps >= 0, not "
                f"{self.decay!r} and {self.warmup_steps!r}"
            )
        if self.evaluate_every % self.log_every:
            raise ValueError(
                f"train.evaluate_every ({self.evaluate_every}) must be a multiple of "
                f"train.log_every ({self.log_every})"
            )

    def piece(self, xp) -> int:
        """How many examples of `xp`'s arrays may go through the network at once."""
        return self.piece_size or (PIECE if xp is np else self.batch_size)


class Samples:
    """An endless stream of freshly drawn batches; batch `step` is the same whoever
    asks, in whatever parts, and however often.

    `draw(rng, count)` gives a batch, a dict of example-first NumPy arrays. Block b of
    step s comes from SeedSequence(seed, (s, b)). If there is `choose`, choose(rng) is
    called for each step, and what it returns is passed to `draw` as a third argument.
    """

    def __init__(self, draw: Callable, seed: int, choose: Callable | None = None):
        self.draw, self.seed, self.choose = draw, seed, choose

    def batch(self, step: int, start: int, stop: int) -> dict:
        """Examples start .. stop - 1 of this step's batch."""

        def stream(*key):
            return np.random.default_rng(
                np.random.SeedSequence(self.seed, spawn_key=key)
            )

        chosen = () if self.choose is None else (self.choose(stream(step)),)
        first, last = start // BLOCK, -(-stop // BLOCK)
        blocks = [
            self.draw(stream(step, block), BLOCK, *chosen)
            for block in range(first, last)
        ]
        inside = slice(start - first * BLOCK, stop - first * BLOCK)
        return {
            name: np.concatenate([block[name] for block in blocks])[inside]
            for name in blocks[0]
        }

    def state(self) -> dict:
        """What a checkpoint must keep: nothing, since the step says it all."""
        return {}

    def load_state(self, state: dict) -> None:
        """Take back what `state` gave."""


class Totals:
    """Running (sum, count) of each metric.

    The sums stay on the device until `means` is asked for (which waits for it).
    """

    def __init__(self, saved: dict | None = None):
        self.sums = dict(saved or {})

    def add(self, metrics: dict) -> None:
        """Add {name: (sum, count)}."""
        for name, (total, count) in metrics.items():
            before = self.sums.get(name, (0, 0))
            self.sums[name] = (before[0] + total, before[1] + count)

    def keep_largest(self, name: str, total, count, xp) -> None:
        """Let `name` be the pair with the largest mean so far.

        Compared crosswise, which is exact for integers; nothing waits.
        """
        most, of = self.sums.get(name, (0, 0))
        larger = (of == 0) | (total * of > most * count)
        if hasattr(larger, "shape"):
            self.sums[name] = (
                xp.where(larger, total, most),
                xp.where(larger, count, of),
            )
        else:  # ranks have exchanged plain numbers
            self.sums[name] = (total, count) if larger else (most, of)

    def means(self, prefix: str = "") -> dict[str, float]:
        """{prefix + name: mean}; NaN where nothing was counted."""
        return {
            prefix + name: float(to_host(total)) / float(to_host(count))
            if float(to_host(count))
            else float("nan")
            for name, (total, count) in self.sums.items()
        }

    def plain(self) -> dict:
        """The sums and counts as Python numbers, to the last bit: what JSON can hold
        (waits for the device).
        """
        return {
            name: tuple(to_host(x).item() for x in pair)
            for name, pair in self.sums.items()
        }


class Task:
    """What a task file defines.

    Subclass it as `Task`, give `presets`, `build`, `draw` and `loss`; the rest has
    sensible defaults.

    presets: {name: (one line of description, config)}; the first is the default. A
        config is a frozen dataclass with a field `train: TrainConfig` and whatever else
        the task needs; its fields and their docstrings are the command line.
    headline: the metric whose curve is drawn; evaluated on the held-out examples it is
        `test_<headline>`. If it is an accuracy, each line of metrics also has that of
        the best single training batch since the line before, `best_batch_<headline>`.
    success: the headline on the held-out examples with which a run counts as a success.
    test_examples: how many held-out examples there are.
    grids: {name: (one line of description, preset, {field: values})}: sweeps worth a
        name, such as a figure of the paper's.
    published: {cell: (what the paper reports, the words that train it)}: the paper's
        results, for `python -m tinyrmc.report`. The words follow the task's name on the
        command line: "paper --model.core lstm". See `cell`.
    carries: whether `loss` hands a carry from step to step (a recurrent state over a
        long text).
    """

    presets: dict = {}
    grids: dict = {}
    published: dict[str, tuple[str, str]] = {}
    headline = "accuracy"
    success = 0.9
    test_examples = 10_240
    carries = False

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        for name, preset in cls.presets.items():
            _check_preset(name, preset)

    def __init__(self, config):
        self.config = config

    def build(self, seed: np.random.SeedSequence) -> Module:
        """A new network."""
        raise NotImplementedError

    def draw(self, rng: np.random.Generator, count: int) -> dict:
        """`count` fresh examples as a dict of example-first arrays."""
        raise NotImplementedError

    def loss(self, model, batch: dict, carry: dict | None):
        """(sum of the losses as a Tensor, their count, {metric: (sum, count)}, carry
        for the next step or None).
        """
        raise NotImplementedError

    def stream(self, model, seed: int):
        """The source of training batches: something with `batch(step, start, stop)`,
        `state()` and `load_state(state)`.
        """
        return Samples(self.draw, seed)

    def evaluate(self, model, worker: int = 0, workers: int = 1, xp=np) -> dict:
        """{metric: (sum, count)} over the pieces of the held-out examples that are this
        worker's. Records no tape.
        """
        held_out, totals = Samples(self.draw, HELD_OUT_SEED), Totals()
        for start, stop in pieces_of(
            self.test_examples, self.config.train.piece(xp), workers
        )[worker::workers]:
            batch = move_batch(xp, held_out.batch(0, start, stop))
            with telling(stop - start):
                total, count, metrics = self.measure(model, batch)
            totals.add({"loss": (total.data, count), **metrics})
        return totals.sums

    def measure(self, model, batch: dict):
        """What `evaluate` adds up over the held-out examples: as from `loss`, without a
        carry. A task may test otherwise than it trains.
        """
        total, count, metrics, _ = checked(self, self.loss(model, batch, None))
        return total, count, metrics

    def learning_rate(self, step: int) -> float:
        """The rate of this step: warm-up, plateau, decay."""
        t = self.config.train
        return optim.schedule(t.learning_rate, t.steps, t.warmup_steps, t.decay)(step)

    def observe(self, step: int, metrics: dict) -> dict:
        """Called with each line of metrics; moves a curriculum, if there is one.

        What it returns is added to the line.
        """
        return {}

    def is_final(self, line: dict) -> bool:
        """Whether the training batches up to a line of metrics were of the task itself,
        not of what a curriculum begins with.
        """
        return True

    def after_update(self, model) -> None:
        """Called after each update, for constraints on parameters."""

    def state(self) -> dict:
        """What `observe` has changed, as JSON can hold it."""
        return {}

    def load_state(self, state: dict) -> None:
        """Take back what `state` gave."""

    def references(self) -> dict[str, dict[str, float]]:
        """{metric: {label: value}}: floors and published numbers, shown beside the
        metric and drawn in its curve.

        The metrics are those of the held-out examples: "test_accuracy", where `loss`
        gives "accuracy". A published number's label begins with "paper"; the others are
        what can be had without learning the task.
        """
        return {}

    def cell(self) -> str | None:
        """The name, in `published`, of the paper's result that this configuration's
        stands beside: what is tested, and which core.
        """
        return None

    def describe(self, model) -> str:
        """The network in a few words, for the first lines of a run."""
        return type(model).__name__

    def questions(self, batch: dict):
        """What the examples of a batch ask, as `analysis.Questions`; None where nothing
        can be said of them but whether they are right.
        """
        return None

    def pictures(self, model, folder: Path) -> list[Path]:
        """Draw what there is to see in a trained model into `folder`."""
        return []


def _check_preset(name, preset):
    """TaskError unless a preset is (description, config), and the config a dataclass
    that can be trained with.
    """
    pair = isinstance(preset, (tuple, list)) and len(preset) == 2
    kind = type(preset[1]) if pair else None
    if not dataclasses.is_dataclass(kind):
        got = (
            f"({', '.join(type(part).__name__ for part in preset)})"
            if pair
            else f"a {type(preset).__name__}"
        )
        raise TaskError(
            f"presets must be {{name: (description, config)}}, the config an "
            f"instance of a dataclass; {name!r} is {got}"
        )
    if "train" not in kind.__dataclass_fields__:
        declared = (
            "train: training.TrainConfig = field(default_factory=training.TrainConfig)"
        )
        raise TaskError(
            f"{kind.__name__}, the config of the preset {name!r}, has no field "
            f"train; declare it: {declared}"
        )
    _check_fields(preset[1])


def _check_fields(config):
    """TaskError if something in the class looks like a field and, without a type, is
    none.
    """
    kind = type(config)
    for name, value in vars(kind).items():
        if not (
            name.startswith("_")
            or name in kind.__dataclass_fields__
            or callable(value)
            or hasattr(value, "__get__")
        ):
            field, constant = (
                f"{name}: {of} = {value!r}"
                for of in (type(value).__name__, "typing.ClassVar")
            )
            raise TaskError(
                f"{kind.__name__}.{name} has no type, so it is no flag; write "
                f"{field}, or {constant} if it is no setting"
            )
    for field in dataclasses.fields(config):
        if dataclasses.is_dataclass(value := getattr(config, field.name)):
            _check_fields(value)


def checked(task, result):
    """What a task's `loss` has returned, or a TaskError."""
    loss = f"{type(task).__name__}.loss()"
    if not isinstance(result, tuple) or len(result) != 4:
        raise TaskError(
            f"{loss} must return (sum, count, metrics, carry), not {result!r}"
        )
    metrics = result[2]
    if not isinstance(metrics, dict) or not all(
        isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in metrics.values()
    ):
        raise TaskError(
            f"{loss} must give metrics as {{name: (sum, count)}}, not {metrics!r}"
        )
    return result


@contextlib.contextmanager
def telling(examples):
    """Adds to an exception that its shapes are of a single example, where somebody may
    look for a batch's.
    """
    try:
        yield
    except Exception as error:
        if examples == 1 and not isinstance(error, TaskError):
            error.add_note("(checked with one example drawn by the task)")
        raise


def move_batch(xp, batch):
    return batch if xp is np else {name: to_device(x, xp) for name, x in batch.items()}
