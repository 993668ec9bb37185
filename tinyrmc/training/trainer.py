"""The one training loop, a step at a time.

A task says what is learnt: where batches come from, what the loss is, what to measure
(`Task`). The `Trainer` does the rest: each worker of each rank draws and differentiates
its pieces of the batch, the sum is divided by the count once, and the optimizer moves.
What it holds is what a checkpoint holds, so that going on from one gives the same bits
as never having stopped.

    trainer = Trainer(task, seed=0, workers=2)
    while not trainer.finished:
        trainer.advance()
        if trainer.step % 100 == 0:
            print(trainer.read(test=True))

`run_training` does this with a run directory, checkpoints and signals.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.engine import Tape
from ..backend import device_namespace, kernels, to_host
from ..errors import RunError, check_seed
from ..runs.arrays import under
from .carry import Carry
from .checkpoints import UNFIT, finite_parameters
from .checks import (
    check_count,
    check_examples,
    check_headline,
    check_model,
    check_rate,
    check_references,
    check_result,
    check_state,
    check_stream,
    telling,
)
from .discovery import TaskError
from .ranks import Ranks
from .streams import Batch
from .task import Task, move_batch
from .totals import Sums, Totals, running_totals
from .workers import (
    CAN_FORK,
    GIL,
    Shares,
    Workers,
    available_cores,
    pieces_of,
    shared_zeros,
)

# Numbers that a step's forward pass computes for each worker. With fewer, sharing costs
# more than it saves.
WORTHWHILE = 300_000

REMEDY = "Start again with a smaller --train.learning-rate."


class NonFinite(RunError):
    """Too many updates had to be skipped, or the parameters overflowed."""


class Trainer:
    """A run in memory: task, model, optimizer, stream, and how far they have come.

    As a context manager it ends the processes it has started.

    Args:
        workers: how many share a batch, or with several ranks a rank's part of it (see
            workers.py); None: as many as the work is worth, at most one a core.
            ValueError for less than one, and for more on a GPU, which one worker feeds.
        device: "cpu" or "cuda".
        processes: whether the workers are processes; by default where that is possible.
        ranks: the processes that train together, each with a Trainer made alike (see
            ranks.py). All take every step; `advance`, `read`, `evaluate` and `arrays`
            wait for each other.
        prefetch: whether one worker has its batches drawn ahead by a process (see
            gpu/prefetch.py); by default on a GPU, if the stream has random access.
        graph: whether whole steps are captured as CUDA graphs (see gpu/capture.py);
            None: if they can be. `without_graphs` says why they cannot.
    """

    def __init__(
        self,
        task: Task,
        seed: int = 0,
        workers: int | None = 1,
        device: str = "cpu",
        processes: bool | None = None,
        ranks: Ranks | None = None,
        prefetch: bool | None = None,
        graph: bool | None = None,
    ):
        _check_workers(workers, device)
        self.ranks = ranks or Ranks()
        self.task, self.seed = task, seed
        self.xp = device_namespace(device, self.ranks.local_rank)
        model_seed, data_seed = np.random.SeedSequence(check_seed(seed)).spawn(2)
        self.model = check_model(task, task.build(model_seed)).to(self.xp)
        stream_seed = int(data_seed.generate_state(1, np.uint64)[0])
        self.stream = check_stream(task, task.stream(self.model, stream_seed))
        check_state(task)
        self._share_out(workers, processes)
        self._prefetcher = self._make_prefetcher(prefetch)
        self._make_buffers()
        self.step, self.seconds = 0, 0.0
        self.carry = Carry(self.shares.pieces)
        self.window = running_totals(self.xp)  # metrics since the last line
        # on the device: updates skipped, after which step the first one, and steps done
        self.skipped = self.xp.zeros((), np.int64)
        self.first_skipped = self.xp.full((), -1, np.int64)
        self._steps = self.xp.zeros((), np.int64)
        self._cuda_graph, self.without_graphs = None, ""
        if graph or (graph is None and self.xp is not np):
            from .gpu.capture import cuda_graph

            self._cuda_graph, self.without_graphs = cuda_graph(self, bool(graph))

    # --- Who computes what ------------------------------------------------------------

    def _share_out(self, workers: int | None, processes: bool | None) -> None:
        """Make the workers, and cut the batch into pieces for those of all ranks."""
        if processes is None:
            processes = CAN_FORK and self.xp is np
        workers = workers or self._worthwhile_workers(processes)
        self.workers = Workers(workers, self._share, processes)
        config = self.task.config.train
        size, everybody = config.piece(self.xp), self.ranks.size * workers
        pieces = pieces_of(config.batch_size, size, everybody)
        self.shares = Shares(pieces, self.ranks.rank * workers, workers, everybody)

    def _make_prefetcher(self, prefetch: bool | None) -> Any:
        possible = self.workers.count == 1 and CAN_FORK
        possible &= self.stream.random_access
        if prefetch is None:
            prefetch = self.xp is not np
        if not (prefetch and possible):
            return None
        from .gpu.prefetch import Prefetcher

        pieces = [self.shares.pieces[number] for number in self.shares.ours]
        return Prefetcher(self.stream, self.task, pieces, self.xp)

    def _make_buffers(self) -> None:
        """The optimizer, and a flat gradient for each worker, which all of them see."""
        allocate = shared_zeros if self.workers.processes else self.xp.zeros
        self.optimizer = self.task.optimizer(self.model.parameters(), allocate)
        own = self.optimizer.gradient
        others = range(self.workers.count - 1)
        self._gradients = [own, *(allocate(own.size, own.dtype) for _ in others)]
        self._views = [self.optimizer.views(flat) for flat in self._gradients]

    def _worthwhile_workers(self, processes: bool) -> int:
        """How many workers a step's work is worth, judged by that of one example.

        On a GPU one; threads that share a lock are worth two at most.
        """
        if self.xp is not np:
            return 1
        # examples of a step
        share = self.task.config.train.batch_size // self.ranks.size
        numbers = share * self._numbers_of_one_example()
        cores = self.ranks.cores if processes or not GIL else min(2, self.ranks.cores)
        return max(1, min(cores, share, numbers // WORTHWHILE))

    def _numbers_of_one_example(self) -> int:
        """How many numbers the forward pass computes for one more example.

        What it computes from the parameters alone does not count: every worker would.
        """
        one = self._numbers(1)
        return one if self.task.config.train.batch_size == 1 else self._numbers(2) - one

    def _numbers(self, examples: int) -> int:
        """How many numbers the forward pass of this many examples computes."""
        return sum(
            math.prod(shape)
            for _, _, _, outputs, _, _ in self._trial(examples).entries
            for _, shape, _ in outputs
        )

    def _trial(self, examples: int) -> Tape:
        """The forward pass of this many examples; the stream stays where it is.

        TaskError if nothing can be learnt from it.
        """
        before = self.stream.state()
        batch = move_batch(self.xp, self.stream.batch(0, 0, examples))
        self.stream.load_state(before)
        batch, carry = self.task.prepare(self.model, batch, None)
        with Tape() as tape, telling(examples):
            loss, *_ = check_result(self.task, self.task.loss(self.model, batch, carry))
        if not loss.id:
            raise TaskError(
                f"{type(self.task).__name__}.loss() gives a sum that depends on no "
                "parameter; was something detached, as .data is?"
            )
        return tape

    def require_metrics(self) -> None:
        """TaskError unless evaluation gives every metric that the task refers to.

        Tries it with one held-out example of each set; but not if the task has its own
        `evaluate`, which may be unable to share out its examples so finely. Then
        `read` finds a headline that is missing.
        """
        task = self.task
        if type(task).evaluate is not Task.evaluate:
            return
        found: dict[str, float] = {}
        for split in task.splits:
            sums = self._sums(split, 0, check_examples(task, split))
            found |= task.named(split, sums)
        self._trial(1)
        check_headline(task, found)
        check_references(task, found)

    # --- A step -----------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether the run is over."""
        return self.task.finished(self.step)

    def advance(self, note: Callable[[], object] = lambda: None) -> list:
        """One step; returns [note() of each rank].

        It asks for the notes when the gradient is computed, and sends them along with
        the losses. Ranks exchange one message a step, and one Allreduce adds up their
        gradients.
        """
        if self._cuda_graph:
            self._cuda_graph.advance(self._batch(self.step, 0, 0))
            notes = [note()]
        else:
            replies, notes = self._ask("differentiate", note)
            self._conclude(added_up(replies))
        self.step += 1
        return notes

    @property
    def repeatable(self) -> bool:
        """Whether a step that failed has left everything as it was before.

        Not if worker processes carry something on, or the stream has a place of its
        own; and other ranks may have gone on.
        """
        alone = not self.task.carries and self.ranks.size == 1
        return self.stream.random_access and alone

    def take_step(self, batch: Batch) -> None:
        """A step on this batch, in one piece by one worker; for `gpu/capture.py`."""
        self._conclude(added_up([self._differentiate(0, self.step, batch)]))

    def _conclude(self, step: Totals) -> None:
        """What follows once a step's gradients are there; `step`: its metrics."""
        self._add_up_gradients()
        self._take_notice(step, self._update(step))

    def _ask(
        self, do: str, note: Callable[[], object] = lambda: None, **more: str
    ) -> tuple[list, list]:
        """What every worker of every rank replies, and the ranks' notes."""
        request = {"do": do, "step": self.step, "task": self.task.state(), **more}
        replies, notes = zip(
            *self.ranks.each(lambda: (self.workers.run(request), note())), strict=True
        )
        return [reply for of_rank in replies for reply in of_rank], list(notes)

    def _share(self, worker: int, request: dict) -> Any:
        """A worker's part of a request.

        May run in another process, which has its own task, stream and carry, but sees
        the parameters and gradients.
        """
        if self.workers.processes:
            self.task.load_state(request["task"])
        if request["do"] == "evaluate":
            return self._evaluate(worker, request["split"])
        if request["do"] == "carry":
            return self.carry.joined(self.shares.of(worker))
        return self._differentiate(worker, request["step"])

    def _differentiate(
        self, worker: int, step: int, given: Batch | None = None
    ) -> list[Sums]:
        """Add up the gradient of a worker's pieces of a step; the metrics of each.

        given: a batch to take instead of the stream's.
        """
        task, into = self.task, self._views[worker]
        replies, carried = [], {}
        self._gradients[worker][...] = 0
        for place, number in enumerate(self.shares.of(worker)):
            before = self.carry.before(number, step) if task.carries else None
            batch = self._batch(step, place, number) if given is None else given
            batch, before = task.prepare(self.model, batch, before)
            with Tape() as tape:
                result = task.loss(self.model, batch, before)
            start, stop = self.shares.pieces[number]
            loss, count, metrics, after = check_result(task, result, stop - start)
            tape.backward(loss, into=into)
            replies.append(self._plain(Totals({"loss": (loss.data, count), **metrics})))
            carried[number] = after
        if task.carries:
            # all at once, so that a step that fails can be repeated
            for number, after in carried.items():
                self.carry.keep(number, after, step + 1)
        return replies

    def _batch(self, step: int, place: int, number: int) -> Batch:
        """A piece of a step's batch, the worker's `place`-th."""
        if self._prefetcher:
            return self._prefetcher.batch(step, place)
        return move_batch(self.xp, self.stream.batch(step, *self.shares.pieces[number]))

    def _plain(self, totals: Totals) -> Sums:
        """The sums as numbers, which can be sent to other processes.

        On a GPU they stay there, since nothing in a step may wait for it, unless other
        ranks must hear them.
        """
        return totals.plain() if self.xp is np or self.ranks.size > 1 else totals.sums

    def _add_up_gradients(self) -> None:
        """Add the workers' gradients to the optimizer's, in order; then all ranks'."""
        for gradient in self._gradients[1:]:
            self.optimizer.gradient += gradient
        if self.ranks.size > 1:  # which may have other devices
            whole = self.optimizer.packed(self.optimizer.gradient)
            self.ranks.sum(whole)
            self.optimizer.unpack(whole, self.optimizer.gradient)

    def _update(self, step: Totals):
        """Move the parameters; the flag tells whether loss and gradient were finite."""
        total, count = step.sums["loss"]
        config = self.task.config.train
        summed = config.objective == "sum"
        norm, finite = self.optimizer.step(
            check_rate(self.task, self.step),
            config.clip_norm,
            scale=1 if summed else 1 / check_count(self.task, count),
            valid=self.xp.isfinite(total),
        )
        self.task.after_update(self.model)
        step.add({"gradient_norm": (norm, 1)})
        return finite

    def _take_notice(self, step: Totals, finite) -> None:
        """Add a step's metrics to those of the next line; nothing waits."""
        xp, headline = self.xp, self.task.headline
        self.window.add(step.sums)
        if "accuracy" in headline and headline in step.sums:
            total, count = step.sums[headline]
            self.window.keep_largest(f"best_batch_{headline}", total, count, xp)
        if gpu := kernels(xp):
            gpu.count_step(xp, finite, self._steps, self.skipped, self.first_skipped)
            return
        known = xp.logical_or(finite, self.first_skipped >= 0)
        self.first_skipped = xp.where(known, self.first_skipped, self.step + 1)
        self.skipped += xp.logical_not(finite)

    # --- What a run tells -------------------------------------------------------------

    def read(self, test: bool = False) -> dict:
        """The metrics since the last call, as a line for metrics.jsonl.

        The task observes it. Waits for the device; NonFinite as in `require_finite`.

        test: add the metrics on held-out examples, as from `evaluate`: on the first set
            or, if the run is over, on all.
        """
        # rank 0's for all: curricula must move in step, and rounding may differ
        line = self.ranks.each(self._line)[0]
        self.window.clear()
        tested = {}
        if test:
            tested = self.evaluate(None if self.finished else self.task.splits[:1])
            check_headline(self.task, tested)
        line |= self.task.place(self.step) | tested
        self.task.observe(self.step, line)
        return line

    def _line(self) -> dict:
        skipped = self.require_finite()
        line = self.place() | self.means()
        line["learning_rate"] = self.task.learning_rate(self.step - 1)
        return line | ({"skipped_updates": skipped} if skipped else {})

    def place(self) -> dict:
        """How far training has come: the beginning of a line of metrics."""
        return {
            "step": self.step,
            "samples": self.step * self.task.config.train.batch_size,
            "seconds": round(self.seconds, 2),
        }

    def means(self) -> dict:
        """The metrics of the batches since the last line, as the task reports them.

        None where there was no batch.
        """
        means = self.window.means()
        return self.task.summary(means) if means else {}

    def evaluate(self, splits: Sequence[str] | None = None) -> dict:
        """The task's metrics on some sets of held-out examples, as `test_*`.

        None: on all sets.
        """
        found: dict[str, float] = {}
        for split in self.task.splits if splits is None else splits:
            totals = Totals()
            for reply in self._ask("evaluate", split=split)[0]:
                totals.add(reply)
            found |= self.task.named(split, totals.sums)
        return found

    def _evaluate(self, worker: int, split: str) -> Sums:
        """The sums of a worker's part of a set of held-out examples."""
        number, everybody = self.shares.first + worker, self.shares.everybody
        return self._plain(Totals(self._sums(split, number, everybody)))

    def _sums(self, split: str, number: int, everybody: int) -> Sums:
        naming = self.task.naming(split)
        return self.task.evaluate(self.model, number, everybody, self.xp, *naming)

    def require_finite(self) -> int:
        """The number of skipped updates (waits for the device).

        NonFinite if there were too many, or if a parameter has overflowed.
        """
        skipped = int(self.skipped)
        if skipped >= self.task.config.train.nonfinite_limit:
            raise NonFinite(
                f"stopped at step {self.step}: {skipped} updates were skipped for a "
                "loss or gradient that is not finite, first at step "
                f"{int(self.first_skipped)}; the last good checkpoint is kept. {REMEDY}"
            )
        if not self.xp.isfinite(self.optimizer.data).all():
            raise NonFinite(
                f"stopped at step {self.step}: parameters are no longer finite; the "
                f"last good checkpoint is kept. {REMEDY}"
            )
        return skipped

    def require_agreement(self) -> None:
        """RunError unless all ranks have the same parameters, to the last bit.

        The same step and state of the optimizer too. Waits for the device.
        """
        sums = self.ranks.each(self._checksum)

        def compare():
            if sums != [sums[0]] * len(sums):
                raise RunError(
                    f"the ranks' parameters differ at step {self.step} (nothing was "
                    "saved): they read different checkpoints, or round "
                    "differently; give all ranks the same files, NumPy and kind of "
                    "processor, then resume or start again"
                )

        self.ranks.together(compare)

    def _checksum(self) -> int:
        checksum = zlib.crc32(json.dumps([self.step, self.task.state()]).encode())
        for array in self._alike():
            checksum = zlib.crc32(to_host(array).tobytes(), checksum)
        return checksum

    def _alike(self) -> list:
        """What all ranks have alike: the parameters, and the optimizer's state."""
        optimizer = self.optimizer
        return [optimizer.packed(optimizer.data), *optimizer.state().values()]

    # --- Going on ---------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays of a checkpoint, on the host, as they are now.

        With a carry, ranks wait for each other. Copies.
        """
        parts = {
            "parameters": {name: p.data for name, p in self.model.named_parameters()},
            "optimizer": self.optimizer.state(),
            "carry": self._whole_carry() if self.task.carries else {},
        }
        return {
            f"{part}/{name}": np.array(to_host(x))
            for part, arrays in parts.items()
            for name, x in arrays.items()
        }

    def _fetch_carry(self) -> None:
        """Fetch the carry of workers that are processes; else it stays with them."""
        if not self.workers.apart:
            return
        request = {"do": "carry", "step": self.step, "task": self.task.state()}
        for worker, arrays in enumerate(self.workers.run(request)):
            self.carry.take(self.shares.of(worker), arrays, self.step)

    def _whole_carry(self) -> Batch:
        """The carry of a whole batch, example-first.

        So another number of workers or ranks can cut it differently.
        """

        def ours():
            self._fetch_carry()
            return self.carry.whole(self.shares.ours)

        whole = self.ranks.together(ours)
        for x in whole.values():
            self.ranks.merge(x)
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
        """Go on from where `arrays` and `state` were taken.

        RunError if they are not of such a run.
        """
        try:
            self._restore(arrays, state)
        except UNFIT as error:
            raise RunError(
                f"the checkpoint cannot be resumed: {error!s}; start a new run"
            ) from error

    def _restore(self, arrays: dict, state: dict) -> None:
        self.close()  # processes must start from the restored state
        # first of all: another text would not fit the parameters either
        self.task.load_state(state["task"])
        self.model.load_parameters(finite_parameters(arrays))
        self._restore_optimizer(under("optimizer/", arrays))
        self.step, self.seconds = state["step"], state["seconds"]
        self._restore_carry(under("carry/", arrays))
        self.window = running_totals(self.xp, state["window"])
        self.skipped[...], self.first_skipped[...] = state["skipped"]
        self._steps[...] = self.step
        if self._cuda_graph:
            self._cuda_graph.forget()
        self.stream.load_state(state["stream"])

    def _restore_optimizer(self, arrays: dict) -> None:
        own = self.optimizer.state()
        if arrays.keys() != own.keys():
            raise ValueError(
                f"its optimizer has the state {', '.join(arrays)}, and "
                f"{type(self.optimizer).__name__} has {', '.join(own)}"
            )
        self.optimizer.load_state(arrays)

    def _restore_carry(self, whole: dict) -> None:
        self.carry = Carry(self.shares.pieces, self.step)
        for name, x in self.task.carried(self.model).items() if whole else ():
            wanted = (self.shares.pieces[-1][1], *x.shape[1:]), x.dtype
            found = whole.get(name)
            if found is None or (found.shape, found.dtype) != wanted:
                raise ValueError(f"it should carry {name} as {x.dtype}{[*wanted[0]]}")
        for number in self.shares.ours:
            rows = slice(*self.shares.pieces[number])
            part = move_batch(self.xp, {name: x[rows] for name, x in whole.items()})
            self.carry.keep(number, part or None, self.step)

    def rest(self) -> None:
        """End the process that draws ahead; the next step starts another."""
        if self._prefetcher:
            self._prefetcher.close()

    def close(self) -> None:
        """End all processes; the next step starts others.

        What workers carried from step to step ends with them: take the `arrays` before.
        """
        self.workers.close()
        self.rest()

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def most_workers() -> int:
    """The most workers allowed: no machine gains from more, and few could hold them."""
    return max(256, 4 * available_cores())


def _check_workers(workers: int | None, device: str) -> None:
    if workers is not None and (type(workers) is not int or workers > most_workers()):
        raise ValueError(
            f"workers={workers}: give a whole number, at most {most_workers()} here"
        )
    if workers is not None and workers < 1:
        raise ValueError(
            f"workers={workers}: there must be at least one; leave workers out, or "
            "give 1 or more"
        )
    if workers not in (None, 1) and device == "cuda":
        raise ValueError(
            f"workers={workers} with device='cuda': a GPU is fed by one worker; leave "
            "workers out, or give 1"
        )


def added_up(replies: list[list[Sums]]) -> Totals:
    """The metrics of all pieces of a step, added in the order of the pieces."""
    step = Totals()
    for number in range(sum(map(len, replies))):
        step.add(replies[number % len(replies)][number // len(replies)])
    return step
