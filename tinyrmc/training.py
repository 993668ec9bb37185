"""The one training loop.

A task says what is learnt: where batches come from, what the loss is, what to measure (`Task`). The `Trainer` does the rest, one step at a
time: each worker of each rank draws and differentiates its pieces of the batch, the sum is divided by the count once, and the optimizer
moves. What it holds is what a checkpoint holds, so that going on from one gives the same bits as never having stopped.

Randomness depends only on (seed, step, block of examples), never on who computes: see `Samples`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import signal
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from . import optim
from .backend import blas_threads, device_namespace, keep_freed_memory, to_device, to_host
from .discovery import TaskError, nearest
from .engine import Tape
from .nn import Module
from .parallel import CAN_FORK, GIL, Workers, orphaned, pieces_of, shared_zeros
from .ranks import Ranks
from .runs import Run, RunError, under

BLOCK = 64  # examples drawn from one random stream; a rank or a worker that needs some blocks draws only those
PIECE = 128  # examples that one worker takes at a time on a CPU: more do not come faster, and hold more memory
WORTHWHILE = 300_000  # numbers that a step's forward pass computes for each worker; with fewer, sharing costs more than it saves
HELD_OUT_SEED = 2018  # every run of a task is tested on the same examples, whatever its own seed


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
    """fraction of all steps, at the end, over which the rate falls to zero along a cosine"""
    clip_norm: float | None = 1.0
    """largest L2 norm of the gradient; None: not clipped"""
    piece_size: int | None = None
    """at most so many examples go through the network at once, the pieces being shared among the workers; None: 128, on a GPU the batch"""
    log_every: int = 100
    """steps between lines of metrics.jsonl; a task's curriculum looks at each line"""
    evaluate_every: int = 500
    """steps between evaluations on the held-out set"""
    checkpoint_minutes: float = 2.0
    """minutes between checkpoints"""
    nonfinite_limit: int = 10
    """updates skipped for a loss or gradient that is not finite, after which the run stops"""

    def __post_init__(self):
        for name in ("steps", "batch_size", "learning_rate", "log_every", "evaluate_every", "nonfinite_limit"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"train.{name} must be positive, not {getattr(self, name)!r}")
        for name in ("clip_norm", "piece_size"):
            value = getattr(self, name)
            if not (value is None or 0 < value < math.inf):
                raise ValueError(f"train.{name} must be positive or None, not {value!r}")
        if not self.checkpoint_minutes >= 0:
            raise ValueError(f"train.checkpoint_minutes must not be negative, not {self.checkpoint_minutes!r}")
        if not 0 <= self.decay <= 1 or self.warmup_steps < 0:
            raise ValueError(f"train.decay must be in [0, 1] and train.warmup_steps >= 0, not {self.decay!r} and {self.warmup_steps!r}")
        if self.evaluate_every % self.log_every:
            raise ValueError(f"train.evaluate_every ({self.evaluate_every}) must be a multiple of train.log_every ({self.log_every})")

    def piece(self, xp) -> int:
        """How many examples of `xp`'s arrays may go through the network at once."""
        return self.piece_size or (PIECE if xp is np else self.batch_size)


class NonFinite(RunError):
    """Too many updates had to be skipped, or the parameters overflowed."""


REMEDY = "Start again with a smaller --train.learning-rate."


class Samples:
    """An endless stream of freshly drawn batches; batch `step` is the same whoever asks, in whatever parts, and however often.

    `draw(rng, count)` gives a batch, a dict of example-first NumPy arrays. Block b of step s comes from SeedSequence(seed, (s, b)). If
    there is `choose`, choose(rng) is called for each step, and what it returns is passed to `draw` as a third argument.
    """

    def __init__(self, draw: Callable, seed: int, choose: Callable | None = None):
        self.draw, self.seed, self.choose = draw, seed, choose

    def batch(self, step: int, start: int, stop: int) -> dict:
        """Examples start .. stop - 1 of this step's batch."""

        def stream(*key):
            return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

        chosen = () if self.choose is None else (self.choose(stream(step)),)
        first, last = start // BLOCK, -(-stop // BLOCK)
        blocks = [self.draw(stream(step, block), BLOCK, *chosen) for block in range(first, last)]
        inside = slice(start - first * BLOCK, stop - first * BLOCK)
        return {name: np.concatenate([block[name] for block in blocks])[inside] for name in blocks[0]}

    def state(self) -> dict:
        """What a checkpoint must keep: nothing, since the step says it all."""
        return {}

    def load_state(self, state: dict) -> None:
        """Take back what `state` gave."""


class Totals:
    """Running (sum, count) of each metric. The sums stay on the device until `means` is asked for (which waits for it)."""

    def __init__(self, saved: dict | None = None):
        self.sums = dict(saved or {})

    def add(self, metrics: dict) -> None:
        """Add {name: (sum, count)}."""
        for name, (total, count) in metrics.items():
            before = self.sums.get(name, (0, 0))
            self.sums[name] = (before[0] + total, before[1] + count)

    def keep_largest(self, name: str, total, count, xp) -> None:
        """Let `name` be the pair with the largest mean so far. Compared crosswise, which is exact for integers; nothing waits."""
        most, of = self.sums.get(name, (0, 0))
        larger = (of == 0) | (total * of > most * count)
        if hasattr(larger, "shape"):
            self.sums[name] = (xp.where(larger, total, most), xp.where(larger, count, of))
        else:  # ranks have exchanged plain numbers
            self.sums[name] = (total, count) if larger else (most, of)

    def means(self, prefix: str = "") -> dict[str, float]:
        """{prefix + name: mean}; NaN where nothing was counted."""
        return {
            prefix + name: float(to_host(total)) / float(to_host(count)) if float(to_host(count)) else float("nan")
            for name, (total, count) in self.sums.items()
        }

    def plain(self) -> dict:
        """The sums and counts as Python numbers, to the last bit: what JSON can hold (waits for the device)."""
        return {name: tuple(to_host(x).item() for x in pair) for name, pair in self.sums.items()}


class Task:
    """What a task file defines. Subclass it as `Task`, give `presets`, `build`, `draw` and `loss`; the rest has sensible defaults.

    presets: {name: (one line of description, config)}; the first is the default. A config is a frozen dataclass with a field
        `train: TrainConfig` and whatever else the task needs; its fields and their docstrings are the command line.
    headline: the metric whose curve is drawn; evaluated on the held-out examples it is `test_<headline>`. If it is an accuracy, each line
        of metrics also has that of the best single training batch since the line before, `best_batch_<headline>`.
    success: the headline on the held-out examples with which a run counts as a success.
    test_examples: how many held-out examples there are.
    grids: {name: (one line of description, preset, {field: values})}: sweeps worth a name, such as a figure of the paper's.
    published: {cell: (what the paper reports, the words that train it)}: the paper's results, for `python -m tinyrmc.report`. The words
        follow the task's name on the command line: "paper --model.core lstm". See `cell`.
    carries: whether `loss` hands a carry from step to step (a recurrent state over a long text).
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
        """(sum of the losses as a Tensor, their count, {metric: (sum, count)}, carry for the next step or None)."""
        raise NotImplementedError

    def stream(self, model, seed: int):
        """The source of training batches: something with `batch(step, start, stop)`, `state()` and `load_state(state)`."""
        return Samples(self.draw, seed)

    def evaluate(self, model, worker: int = 0, workers: int = 1, xp=np) -> dict:
        """{metric: (sum, count)} over the pieces of the held-out examples that are this worker's. Records no tape."""
        held_out, totals = Samples(self.draw, HELD_OUT_SEED), Totals()
        for start, stop in pieces_of(self.test_examples, self.config.train.piece(xp), workers)[worker::workers]:
            batch = _to(xp, held_out.batch(0, start, stop))
            with _telling(stop - start):
                total, count, metrics = self.measure(model, batch)
            totals.add({"loss": (total.data, count), **metrics})
        return totals.sums

    def measure(self, model, batch: dict):
        """What `evaluate` adds up over the held-out examples: as from `loss`, without a carry. A task may test otherwise than it trains."""
        total, count, metrics, _ = _checked(self, self.loss(model, batch, None))
        return total, count, metrics

    def learning_rate(self, step: int) -> float:
        """The rate of this step: warm-up, plateau, decay."""
        t = self.config.train
        return optim.schedule(t.learning_rate, t.steps, t.warmup_steps, t.decay)(step)

    def observe(self, step: int, metrics: dict) -> dict:
        """Called with each line of metrics; moves a curriculum, if there is one. What it returns is added to the line."""
        return {}

    def is_final(self, line: dict) -> bool:
        """Whether the training batches up to a line of metrics were of the task itself, not of what a curriculum begins with."""
        return True

    def after_update(self, model) -> None:
        """Called after each update, for constraints on parameters."""

    def state(self) -> dict:
        """What `observe` has changed, as JSON can hold it."""
        return {}

    def load_state(self, state: dict) -> None:
        """Take back what `state` gave."""

    def references(self) -> dict[str, dict[str, float]]:
        """{metric: {label: value}}: floors and published numbers, shown beside the metric and drawn in its curve.

        The metrics are those of the held-out examples: "test_accuracy", where `loss` gives "accuracy".
        A published number's label begins with "paper"; the others are what can be had without learning the task.
        """
        return {}

    def cell(self) -> str | None:
        """The name, in `published`, of the paper's result that this configuration's stands beside: what is tested, and which core."""
        return None

    def describe(self, model) -> str:
        """The network in a few words, for the first lines of a run."""
        return type(model).__name__

    def questions(self, batch: dict):
        """What the examples of a batch ask, as `analysis.Questions`; None where nothing can be said of them but whether they are right."""
        return None

    def pictures(self, model, folder: Path) -> list[Path]:
        """Draw what there is to see in a trained model into `folder`."""
        return []


def _check_preset(name, preset):
    """TaskError unless a preset is (description, config), and the config a dataclass that can be trained with."""
    pair = isinstance(preset, (tuple, list)) and len(preset) == 2
    kind = type(preset[1]) if pair else None
    if not dataclasses.is_dataclass(kind):
        got = f"({', '.join(type(part).__name__ for part in preset)})" if pair else f"a {type(preset).__name__}"
        raise TaskError(f"presets must be {{name: (description, config)}}, the config an instance of a dataclass; {name!r} is {got}")
    if "train" not in kind.__dataclass_fields__:
        declared = "train: training.TrainConfig = field(default_factory=training.TrainConfig)"
        raise TaskError(f"{kind.__name__}, the config of the preset {name!r}, has no field train; declare it: {declared}")
    _check_fields(preset[1])


def _check_fields(config):
    """TaskError if something in the class looks like a field and, without a type, is none."""
    kind = type(config)
    for name, value in vars(kind).items():
        if not (name.startswith("_") or name in kind.__dataclass_fields__ or callable(value) or hasattr(value, "__get__")):
            field, constant = (f"{name}: {of} = {value!r}" for of in (type(value).__name__, "typing.ClassVar"))
            raise TaskError(f"{kind.__name__}.{name} has no type, so it is no flag; write {field}, or {constant} if it is no setting")
    for field in dataclasses.fields(config):
        if dataclasses.is_dataclass(value := getattr(config, field.name)):
            _check_fields(value)


def _checked(task, result):
    """What a task's `loss` has returned, or a TaskError."""
    loss = f"{type(task).__name__}.loss()"
    if not isinstance(result, tuple) or len(result) != 4:
        raise TaskError(f"{loss} must return (sum, count, metrics, carry), not {result!r}")
    metrics = result[2]
    if not isinstance(metrics, dict) or not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in metrics.values()):
        raise TaskError(f"{loss} must give metrics as {{name: (sum, count)}}, not {metrics!r}")
    return result


@contextlib.contextmanager
def _telling(examples):
    """Adds to an exception that its shapes are of a single example, where somebody may look for a batch's."""
    try:
        yield
    except Exception as error:
        if examples == 1 and not isinstance(error, TaskError):
            error.add_note("(checked with one example drawn by the task)")
        raise


def _to(xp, batch):
    return batch if xp is np else {name: to_device(x, xp) for name, x in batch.items()}


class Trainer:
    """A run in memory: task, model, optimizer, stream, and how far they have come.

    Args:
        workers: how many share a batch, or with several ranks a rank's part of it (see parallel.py); None: as many as the work is worth,
            one a core at most. ValueError for less than one, and for more on a GPU, which one worker feeds.
        device: "cpu" or "cuda".
        processes: whether the workers are processes; by default where that is possible.
        ranks: the processes that train together, each with a Trainer made alike (see ranks.py). All take every step; `advance`, `read`,
            `evaluate` and `arrays` wait for each other.
    """

    def __init__(
        self,
        task: Task,
        seed: int = 0,
        workers: int | None = 1,
        device: str = "cpu",
        processes: bool | None = None,
        ranks: Ranks | None = None,
    ):
        if workers is not None and workers < 1:
            raise ValueError(f"workers={workers}: there must be at least one; leave workers out, or give 1 or more")
        if workers not in (None, 1) and device == "cuda":
            raise ValueError(f"workers={workers} with device='cuda': a GPU is fed by one worker; leave workers out, or give 1")
        self.ranks = ranks or Ranks()
        self.task, self.seed, self.xp = task, seed, device_namespace(device, self.ranks.local_rank)
        model_seed, data_seed = np.random.SeedSequence(seed).spawn(2)
        self.model = task.build(model_seed).to(self.xp)
        self.stream = task.stream(self.model, int(data_seed.generate_state(1, np.uint64)[0]))
        if processes is None:
            processes = CAN_FORK and self.xp is np and not task.carries
        workers = workers or self._worthwhile_workers(processes)
        self.workers = Workers(workers, self._share, processes)
        self._first, self._everybody = self.ranks.rank * workers, self.ranks.size * workers  # our workers among those of all ranks
        allocate = shared_zeros if self.workers.processes else self.xp.zeros
        self.optimizer = optim.Adam(self.model.parameters(), allocate=allocate)
        buffer = self.optimizer.gradient
        self._gradients = [buffer, *(allocate(buffer.size, buffer.dtype) for _ in range(workers - 1))]  # one a worker
        self.step, self.seconds = 0, 0.0
        self.carry = {}  # piece number -> what the last step's loss handed on
        self.window = Totals()  # metrics since the last line
        self.skipped, self.first_skipped = self.xp.zeros((), np.int64), self.xp.full((), -1, np.int64)  # on the device

    def _worthwhile_workers(self, processes: bool) -> int:
        """How many workers a step's work is worth, judged by what one example computes; on a GPU one, and threads that share a lock two."""
        if self.xp is not np:
            return 1
        before = self.stream.state()
        example = self.stream.batch(0, 0, 1)
        self.stream.load_state(before)
        with Tape() as tape, _telling(1):
            self.task.loss(self.model, example, None)
        share = self.task.config.train.batch_size // self.ranks.size  # examples of a step
        numbers = share * sum(math.prod(shape) for _, _, _, outputs, _, _ in tape.entries for _, shape, _ in outputs)
        cores = self.ranks.cores if processes or not GIL else min(2, self.ranks.cores)
        return max(1, min(cores, share, numbers // WORTHWHILE))

    def require_metrics(self) -> None:
        """TaskError unless evaluation gives metrics, among them all that the task has references of. Tries it with one held-out example."""
        given = Totals(self.task.evaluate(self.model, 0, self.task.test_examples, self.xp)).means("test_")
        for name in self.task.references():
            if name not in given:
                what = f"{type(self.task).__name__}.references() names {name!r}, which evaluation does not give"
                raise TaskError(f"{what}; it gives {', '.join(given)}{nearest(name, given)}")

    def advance(self, note: Callable[[], object] = lambda: None) -> list:
        """One step; returns [note() of each rank], which it asks for when the gradient is computed and sends along with the losses.

        Ranks exchange one message a step, and one Allreduce adds up their gradients.
        """
        config, xp = self.task.config.train, self.xp
        replies, notes = self._ask("differentiate", note)
        step = Totals()
        for number in range(sum(map(len, replies))):  # in the order of the pieces
            step.add(replies[number % len(replies)][number // len(replies)])
        for gradient in self._gradients[1:]:
            self.optimizer.gradient += gradient
        self.ranks.sum(self.optimizer.gradient)
        total, count = step.sums["loss"]
        norm, finite = self.optimizer.step(self.task.learning_rate(self.step), config.clip_norm, scale=1 / count, valid=xp.isfinite(total))
        self.task.after_update(self.model)
        step.add({"gradient_norm": (norm, 1)})
        self.window.add(step.sums)
        if "accuracy" in (headline := self.task.headline) and headline in step.sums:
            self.window.keep_largest(f"best_batch_{headline}", *step.sums[headline], xp)
        self.first_skipped = xp.where(xp.logical_or(finite, self.first_skipped >= 0), self.first_skipped, self.step + 1)
        self.skipped += xp.logical_not(finite)
        self.step += 1
        return notes

    def _ask(self, do: str, note: Callable[[], object] = lambda: None) -> tuple[list, list]:
        """What every worker of every rank replies, and the ranks' notes."""
        request = {"do": do, "step": self.step, "task": self.task.state()}
        replies, notes = zip(*self.ranks.each(lambda: (self.workers.run(request), note())), strict=True)
        return [reply for of_rank in replies for reply in of_rank], list(notes)

    def _share(self, worker: int, request: dict) -> list | dict:
        """A worker's part of a request: the metrics of each of its pieces of a step, or of its part of the held-out examples.

        May run in another process, which has its own task and stream, but sees the parameters and gradients.
        """
        if self.workers.processes:
            self.task.load_state(request["task"])
        if request["do"] == "evaluate":
            return self._plain(Totals(self.task.evaluate(self.model, self._first + worker, self._everybody, self.xp)))
        gradient, replies = self._gradients[worker], []
        gradient[...] = 0
        for number, (start, stop) in list(enumerate(self._pieces()))[self._first + worker :: self._everybody]:
            batch = _to(self.xp, self.stream.batch(request["step"], start, stop))
            with Tape() as tape:
                result = self.task.loss(self.model, batch, self.carry.get(number))
            loss, count, metrics, carry = _checked(self.task, result)
            tape.backward(loss, into=gradient)
            if carry is not None:
                self.carry[number] = carry
            replies.append(self._plain(Totals({"loss": (loss.data, count), **metrics})))
        return replies

    def _pieces(self):
        """(start, stop) of each piece of a batch."""
        config = self.task.config.train
        return pieces_of(config.batch_size, config.piece(self.xp), self._everybody)

    def _plain(self, totals):
        """On a GPU the numbers stay there: nothing in a step may wait for it, unless other ranks must hear them."""
        return totals.plain() if self.xp is np or self.ranks.size > 1 else totals.sums

    def require_finite(self) -> int:
        """The number of skipped updates (waits for the device). NonFinite if there were too many, or if a parameter has overflowed."""
        skipped = int(self.skipped)
        if skipped >= self.task.config.train.nonfinite_limit:
            raise NonFinite(
                f"stopped at step {self.step}: {skipped} updates were skipped for a loss or gradient that is not finite, first at step "
                f"{int(self.first_skipped)}; the last good checkpoint is kept. {REMEDY}"
            )
        if not self.xp.isfinite(self.optimizer.data).all():
            raise NonFinite(f"stopped at step {self.step}: parameters are no longer finite; the last good checkpoint is kept. {REMEDY}")
        return skipped

    def require_agreement(self) -> None:
        """RunError unless step, parameters and optimizer state are the same on all ranks, to the last bit (waits for the device)."""
        sums = self.ranks.each(self._checksum)

        def compare():
            if sums != [sums[0]] * len(sums):
                raise RunError(
                    f"the ranks' parameters differ at step {self.step} (nothing was saved): they read different checkpoints, or round "
                    "differently; give all ranks the same files, NumPy and kind of processor, then resume or start again"
                )

        self.ranks.together(compare)

    def _checksum(self):
        checksum = zlib.crc32(json.dumps([self.step, self.task.state()]).encode())
        for array in (self.optimizer.data, *self.optimizer.state().values()):
            checksum = zlib.crc32(to_host(array).tobytes(), checksum)
        return checksum

    def read(self) -> dict:
        """The metrics since the last call, as a line for metrics.jsonl (waits for the device). NonFinite as in `require_finite`."""
        line = self.ranks.each(self._line)[0]  # curricula must move in step, and other ranks may round otherwise
        self.window = Totals()
        return line | self.task.observe(self.step, line)

    def _line(self):
        config, skipped = self.task.config.train, self.require_finite()
        line = {"step": self.step, "samples": self.step * config.batch_size, "seconds": round(self.seconds, 2)}
        line |= self.window.means() | {"learning_rate": self.task.learning_rate(self.step - 1)}
        return line | ({"skipped_updates": skipped} if skipped else {})

    def evaluate(self) -> dict:
        """The task's metrics on the held-out examples, as `test_*`."""
        totals = Totals()
        for reply in self._ask("evaluate")[0]:
            totals.add(reply)
        return totals.means("test_")

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays of a checkpoint, on the host (with a carry, ranks wait for each other)."""
        named = {f"parameters/{name}": p.data for name, p in self.model.named_parameters()}
        named |= {f"optimizer/{name}": x for name, x in self.optimizer.state().items()}
        return {name: to_host(x) for name, x in named.items()} | {f"carry/{name}": x for name, x in self._whole_carry().items()}

    def _whole_carry(self):
        """The carry of a whole batch: example-first, so that another number of workers or ranks can cut it otherwise."""
        pieces, whole = self._pieces(), {}
        for name, x in next(iter(self.carry.values()), {}).items():
            whole[name] = np.zeros((self.task.config.train.batch_size, *x.shape[1:]), x.dtype)
            for number, carry in self.carry.items():
                whole[name][slice(*pieces[number])] = to_host(carry[name])
            self.ranks.merge(whole[name])
        return whole

    def state(self) -> dict:
        """All else a checkpoint needs, as JSON can hold it."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "workers": self.workers.count,
            "ranks": self.ranks.size,
            "window": self.window.plain(),
            "skipped": [int(self.skipped), int(self.first_skipped)],
            "stream": self.stream.state(),
            "task": self.task.state(),
        }

    def restore(self, arrays: dict, state: dict) -> None:
        """Go on from where `arrays` and `state` were taken. RunError if they are not of such a run."""
        try:
            self._restore(arrays, state)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise RunError(f"the checkpoint cannot be resumed: {error!s}; start a new run") from error

    def _restore(self, arrays, state):
        self.workers.close()  # processes must start from the restored state
        self.model.load_parameters(under("parameters/", arrays))
        self.optimizer.load_state(under("optimizer/", arrays))
        carry = _to(self.xp, under("carry/", arrays))
        if carry:
            ours, pieces = range(self._first, self._first + self.workers.count), enumerate(self._pieces())
            self.carry = {k: {name: x[a:b] for name, x in carry.items()} for k, (a, b) in pieces if k % self._everybody in ours}
        self.step, self.seconds, self.window = state["step"], state["seconds"], Totals(state["window"])
        self.skipped[...], self.first_skipped[...] = state["skipped"]
        self.stream.load_state(state["stream"])
        self.task.load_state(state["task"])


class Interrupt:
    """Turns the first Ctrl-C or SIGTERM into a flag, so that a step is finished and saved; a second one stops at once.

    With several ranks it is left to mpiexec to stop at once, which passes on to all ranks, perhaps twice, what itself is sent. That nobody
    is left who waits for this process counts as a SIGHUP.
    """

    def __init__(self, ranks: Ranks):
        self._ranks, self._number = ranks, 0

    @property
    def number(self) -> int:
        """The number of a signal that has come to this rank, else 0."""
        return self._number or (signal.SIGHUP if orphaned() else 0)

    @property
    def signal(self) -> int:
        """The number of a signal that has come to any rank, else 0. All ranks ask together."""
        return self._ranks.largest(self.number)

    def __enter__(self):
        self._before = {s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _note(self, number, _):
        self._number = number
        if self._ranks.size == 1:
            self.__exit__()

    def __exit__(self, *_):
        for s, handler in self._before.items():
            signal.signal(s, handler)


def run_training(trainer: Trainer, run: Run, max_minutes: float | None = None, show: Callable[[dict], None] = lambda line: None) -> str:
    """Train until the configured steps are done, `max_minutes` have passed, or a signal comes; saves as it goes and at the end.

    Each line of metrics goes to the run and to `show`. Returns "finished", "time" or the signal's name. A run that ended in one of the
    first two ways is evaluated, and its last line holds `test_*`; a run whose steps are all done already is only evaluated. BLAS runs on
    one thread, the workers being the parallelism. Of several ranks one has the `Run`, the others an `Onlooker`.
    """
    keep_freed_memory()
    config, ranks, began, saved = trainer.task.config.train, trainer.ranks, time.monotonic(), 0.0
    before, lines = trainer.seconds, ranks.together(lambda: len(run.metrics()))

    def save():
        ranks.each(trainer.require_finite)  # so that a bad state never replaces a good one
        trainer.require_agreement()
        arrays, state = trainer.arrays(), {**trainer.state(), "lines": lines, "run": run.config}
        ranks.each(lambda: run.save(arrays, state))

    def log(line):
        ranks.each(lambda: run.log(line))
        show(line)

    def note():  # the ranks' largest count, for all must save and stop at the same step
        return time.monotonic() - began, interrupt.number

    if trainer.step == 0:
        save()  # a directory that cannot be written is better found now than in an hour
    tested = None  # the step of the last evaluation
    with blas_threads(1), Interrupt(ranks) as interrupt, np.errstate(all="ignore"):
        while trainer.step < config.steps:
            elapsed, stopped = map(max, zip(*trainer.advance(note), strict=True))
            trainer.seconds = before + elapsed
            if trainer.step % config.log_every == 0:
                line = trainer.read()
                if trainer.step % config.evaluate_every == 0:
                    line |= trainer.evaluate()
                    tested = trainer.step
                log(line)
                lines += 1
            over = max_minutes is not None and elapsed >= 60 * max_minutes
            if over or stopped or (ranks.size == 1 and interrupt.number):  # several hear of a late signal with the next step's notes
                break
            if elapsed - saved >= 60 * config.checkpoint_minutes:
                save()
                saved = elapsed
        save()
        if not interrupt.signal and tested != trainer.step:
            line = {"step": trainer.step, "samples": trainer.step * config.batch_size, "seconds": round(trainer.seconds, 2)}
            line |= trainer.window.means() | trainer.evaluate()
            log(line)
        if stopped := interrupt.signal:
            return signal.Signals(stopped).name
    return "finished" if trainer.step >= config.steps else "time"
