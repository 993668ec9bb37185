"""The one training loop, a step at a time.

A task says what is learnt: where batches come from, what the loss is, what to measure
(`Task`). The `Trainer` does the rest: each worker draws and differentiates its pieces
of the batch, the sum is divided by the count once, and the optimizer moves. What it
holds is what a checkpoint holds, so that going on from one gives the same bits as never
having stopped.

    trainer = Trainer(task, seed=0, workers=2)
    while not trainer.finished:
        trainer.advance()
        if trainer.step % 100 == 0:
            print(trainer.read(test=True))

`run_training` does this with a run directory, checkpoints and signals. Several ranks
train together by what `ranks.py` puts around it.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd.engine import Tape
from ..backend import device_namespace, kernels, to_host
from ..backend.cpu import keep_freed_memory
from ..backend.seeds import check_seed
from ..errors import RunError, unknown
from ..nn import Module
from .discovery import TaskError
from .machine import usable_cores
from .mistakes import (
    check_given,
    check_headline,
    check_own,
    check_result,
    check_sums,
    drawn_twice,
    known_before,
    mistake,
    not_finite,
    unreached,
)
from .networks import drawn_constants, load_network
from .pieces import Carry, MetricAccumulator, Shares, Sums, micro_batches
from .run import fitting, out_of_patience, take_back, under
from .streams import Batch, Stream, move_batch
from .task import Task
from .train_config import LARGEST
from .workers import CAN_FORK, GIL, Workers, shared_zeros

# Numbers that a step's forward pass computes for each worker. With fewer, sharing costs
# more than it saves.
WORTHWHILE = 300_000
# no machine gains from more workers, and few could hold them
MOST_WORKERS = max(256, 4 * (os.cpu_count() or 1))


class NonFinite(RunError):
    """Too many updates had to be skipped, or the parameters overflowed."""


class Trainer:
    """A run in memory: task, model, optimizer, stream, and how far they have come.

    As a context manager it ends the processes it has started.

    Args:
        workers: how many share a batch (see workers.py); None: as many as the work is
            worth, at most one a core. ValueError for less than one, and for more on a
            GPU, which one worker feeds.
        device: "cpu" or "cuda".
        processes: whether the workers are processes; by default where that is possible.
        prefetch: whether one worker has its batches drawn ahead by a process; by
            default on a GPU, if the stream has random access.
        graph: whether whole steps are captured as CUDA graphs; None: if they can be.
            `without_graphs` says why they cannot.
    """

    # rank, number of ranks, rank on this machine, cores it may use: see `RankTrainer`
    rank = 0
    ranks = 1
    local_rank = 0
    cores = 0
    # the sums of metrics over many steps; on a GPU one kernel a step adds up
    _accumulator: Any = MetricAccumulator

    def __init__(
        self,
        task: Task,
        seed: int = 0,
        workers: int | None = 1,
        device: str = "cpu",
        processes: bool | None = None,
        prefetch: bool | None = None,
        graph: bool | None = None,
    ):
        check_workers(workers, device)
        self.task, self.seed = task, seed
        self.xp = device_namespace(device, self.local_rank)
        keep_freed_memory()
        model_seed, data_seed = np.random.SeedSequence(check_seed(seed)).spawn(2)
        built = check_given(task, "build", task.build(model_seed), Module)
        self.model = built.to(self.xp)
        stream_seed = int(data_seed.generate_state(1, np.uint64)[0])
        stream = task.stream(self.model, stream_seed)
        self.stream = check_given(task, "stream", stream, Stream)

        # who computes what: workers, and the batch in pieces for those of all ranks
        if processes is None:
            processes = CAN_FORK and self.xp is np
        workers = workers or self._worthwhile_workers(processes)
        self.workers = Workers(workers, self._share, processes)
        config = task.config.train
        world_size = self.ranks * workers
        most = config.micro_batch(self.xp)
        pieces = micro_batches(config.batch_size, most, world_size)
        self.shares = Shares(pieces, self.rank * workers, workers, world_size)

        # the optimizer, and a flat gradient for each worker, which all of them see
        allocate = shared_zeros if self.workers.processes else self.xp.zeros
        self.optimizer = task.optimizer(self.model.parameters(), allocate)
        own = self.optimizer.gradient
        others = [allocate(own.size, own.dtype) for _ in range(workers - 1)]
        self._gradients = [own, *others]
        self._views = [self.optimizer.views(flat) for flat in self._gradients]

        self.step, self.seconds = 0, 0.0
        # [step, value] of the best evaluation, and how many were no better since
        self.best: list | None = None
        self.stale = 0
        self.carry = Carry(self.shares.pieces)
        self.window: MetricAccumulator = self._accumulator()  # since the last line
        # on the device: updates skipped, after which step the first one, and steps done
        self.skipped = self.xp.zeros((), np.int64)
        self.first_skipped = self.xp.full((), -1, np.int64)
        self._steps = self.xp.zeros((), np.int64)
        self._prefetcher: Any = None
        self._cuda_graph: Any = None
        self.without_graphs = ""
        self.notes: list[str] = []  # what `try_out` found
        if self.xp is not np or prefetch or graph:
            self._set_up_device(prefetch, graph)

    def _set_up_device(self, prefetch: bool | None, graph: bool | None) -> None:
        """Have batches drawn ahead, and steps captured as graphs, where that helps."""
        if kernels(self.xp):
            from .gpu.metrics import OnDevice

            self._accumulator = functools.partial(OnDevice, self.xp)
            self.window = self._accumulator()
        possible = self.workers.count == 1 and CAN_FORK and self.stream.random_access
        if possible and (self.xp is not np if prefetch is None else prefetch):
            from .gpu.prefetch import Prefetcher

            pieces = [self.shares.pieces[number] for number in self.shares.ours]
            self._prefetcher = Prefetcher(self.stream, self.task, pieces, self.xp)
        if graph or (graph is None and self.xp is not np):
            from .gpu.capture import cuda_graph

            self._cuda_graph, self.without_graphs = cuda_graph(self, bool(graph))

    def _worthwhile_workers(self, processes: bool) -> int:
        """The number of workers that a step's work is worth, by one more example.

        What the forward pass computes from the parameters alone does not count: every
        worker would. On a GPU one; threads that share a lock are worth two at most.
        """
        if self.xp is not np:
            return 1

        def numbers(examples):
            return sum(
                math.prod(shape)
                for _, _, _, outputs, _, _ in self._trial(examples)[0].entries
                for _, shape, _ in outputs
            )

        batch = self.task.config.train.batch_size
        one = numbers(1)
        each = one if batch == 1 else numbers(2) - one
        share = batch // self.ranks  # examples of a step
        cores = self.cores or len(usable_cores())
        cores = cores if processes or not GIL else min(2, cores)
        return max(1, min(cores, share, share * each // WORTHWHILE))

    def _trial(self, examples: int) -> tuple[Tape, int]:
        """The forward pass of this many examples, and the id of its loss; the stream
        stays where it is.

        TaskError if nothing can be learnt from it.
        """
        before = self.stream.state()
        batch = move_batch(self.xp, self.stream.batch(0, 0, examples))
        self.stream.load_state(before)
        batch, carry = self.task.prepare(self.model, batch, None)
        with Tape() as tape:
            loss, *_ = check_result(self.task, self.task.loss(self.model, batch, carry))
        if not loss.id:
            raise mistake(self.task, "detached")
        return tape, loss.id

    def try_out(self) -> None:
        """Find out now what would fail later: TaskError unless evaluation gives the
        headline, and for what is a mean beside a count; WorkerLost if there cannot be
        so many workers. What may be meant so goes into `notes`.

        Tries one held-out example of each set; but not if the task has its own
        `evaluate`, which may be unable to share out its examples so finely. Then
        `read` finds a headline that is missing.
        """
        task = self.task
        check_own(task, self.step)
        tape, loss = self._trial(1)
        self.notes = [*unreached(self.model, tape, loss)]
        if self.stream.random_access:
            self.notes += drawn_twice(self.stream)
            if type(task).prepare is Task.prepare:
                batch = move_batch(self.xp, self.stream.batch(0, 0, 2))
                self.notes += check_sums(task, self.model, batch)
        for part, examples in (task._parts or {}).items():
            self.notes += not_finite(examples, f"data({part!r})")
        if type(task).evaluate is Task.evaluate:
            if self.stream.random_access:
                self.notes += known_before(task, self.stream)
            found: dict[str, float] = {}
            for split in task.splits:
                pieces = task.examples(split)
                naming = task.naming(split)
                sums = task.evaluate(self.model, 0, pieces, self.xp, *naming)
                found |= task.named(split, sums)
            check_headline(task, found)
        if self.workers.processes:
            self.workers.start()
            # the first request forks them again, with the state of that moment
            self.workers.close()

    # --- A step -----------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether the run is over."""
        return self.task.finished(self.step) or out_of_patience(self.task, self.stale)

    def advance(self) -> None:
        """One step."""
        if self._cuda_graph:
            self._cuda_graph.advance(self._batch(self.step, 0, 0))
        else:
            self._conclude(self._ask("differentiate"))
        self.step += 1

    def agreed(self, *numbers: float) -> Sequence[float]:
        """These numbers; the largest of each where several ranks must agree on one."""
        return numbers

    def take_step(self, batch: Batch) -> None:
        """A step on this batch, in one piece by one worker; for a CUDA graph."""
        self._conclude([self._differentiate(0, self.step, batch)])

    def _ask(self, do: str, **more: str) -> list:
        """The replies of all workers."""
        request = {"do": do, "step": self.step, "task": self.task.state(), **more}
        return self.workers.run(request)

    def _share(self, worker: int, request: dict) -> Any:
        """A worker's part of a request.

        May run in another process, which has its own task, stream and carry, but sees
        the parameters and gradients.
        """
        if self.workers.processes:
            self.task.load_state(request["task"])
        if request["do"] == "evaluate":
            naming = self.task.naming(request["split"])
            number = self.shares.first + worker
            of = self.shares.world_size
            sums = self.task.evaluate(self.model, number, of, self.xp, *naming)
            return self._plain(MetricAccumulator(sums))
        if request["do"] == "carry":
            return self.carry.joined(self.shares.of(worker))
        return self._differentiate(worker, request["step"])

    def _differentiate(
        self, worker: int, step: int, given: Batch | None = None
    ) -> list[Sums]:
        """Add up the gradient of a worker's pieces of a step; the metrics of each.

        given: a batch to take instead of the stream's.
        """
        task = self.task
        into = self._views[worker]
        replies = []
        carried = {}
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
            sums = {"loss": (loss.data, count), **metrics}
            replies.append(self._plain(MetricAccumulator(sums)))
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

    def _plain(self, metrics: MetricAccumulator) -> Sums:
        """The sums as numbers, which can be sent to other processes.

        On a GPU they stay there, since nothing in a step may wait for it.
        """
        return metrics.plain() if self.xp is np else metrics.sums

    def _conclude(self, replies: list[list[Sums]]) -> None:
        """The update, from the gradients and the workers' replies; nothing waits.

        Where the loss or the gradient is not finite, no parameter moves.
        """
        step = MetricAccumulator()
        xp = self.xp
        task = self.task
        for number in range(sum(map(len, replies))):  # in the order of the pieces
            step.add(replies[number % len(replies)][number // len(replies)])
        for gradient in self._gradients[1:]:  # the workers', in order
            self.optimizer.gradient += gradient
        self._add_up_ranks()
        total, count = step.sums["loss"]
        config = task.config.train
        summed = config.objective == "sum"
        # on the GPU it goes unchecked: divided by 0, the step is skipped
        known = isinstance(count, int | float | np.number)
        if known and not summed and not 0 < count < math.inf:
            raise TaskError(
                f"{type(task).__name__}.loss() must give, beside the sum of its "
                "losses, how many it is the sum of: at least 1 in a whole batch, not "
                f"{count}"
            )
        norm, finite = self.optimizer.step(
            self.rate(),
            config.clip_norm,
            scale=1 if summed else 1 / count,
            valid=xp.isfinite(total),
        )
        task.after_update(self.model)
        step.add({"gradient_norm": (norm, 1)})
        self.window.add(step.sums)
        if "accuracy" in task.headline and task.headline in step.sums:
            best = f"best_batch_{task.headline}"
            self.window.keep_largest(best, *step.sums[task.headline], xp)
        if gpu := kernels(xp):
            gpu.count_step(xp, finite, self._steps, self.skipped, self.first_skipped)
            return
        known = xp.logical_or(finite, self.first_skipped >= 0)
        self.first_skipped = xp.where(known, self.first_skipped, self.step + 1)
        self.skipped += xp.logical_not(finite)

    def _add_up_ranks(self) -> None:
        """Where there are several, add up their gradients: see `RankTrainer`."""

    def rate(self) -> float:
        """The learning rate of this step. TaskError if it cannot be one."""
        rate = self.task.learning_rate(self.step)
        if rate is None or not 0 <= rate <= LARGEST:
            raise TaskError(
                f"{type(self.task).__name__}.learning_rate({self.step}) must give a "
                f"finite number that is not negative, not {rate}"
            )
        return rate

    # --- What a run tells -------------------------------------------------------------

    def read(self, test: bool = False, final: bool = True) -> dict:
        """The metrics since the last call, as a line for metrics.jsonl.

        The task observes it, if there was a batch. Waits for the device; NonFinite as
        in `require_finite`.

        test: add the metrics on held-out examples, as from `evaluate`: on the first set
            or, if the run is over and this is to be its `final` line, on all.
        """
        line = self._line()
        trained = bool(self.window.plain())
        self.window.clear()
        tested = {}
        if test:
            every = final and self.finished
            tested = self.evaluate(None if every else self.task.splits[:1])
            check_headline(self.task, tested)
            self._judge(tested[self.task.watched])
        line |= self.task.place(self.step) | tested
        if trained:
            self.task.observe(self.step, line)
        return line

    def _judge(self, value: float) -> None:
        """Notice whether an evaluation is the best so far."""
        lower = self.task.lower_is_better(self.task.watched)
        sign = -1 if lower else 1
        if self.best is not None and self.best[0] == self.step:  # it was told again
            return
        self.stale += 1
        if math.isfinite(value) and (
            not self.best or sign * value > sign * self.best[1]
        ):
            self.best = [self.step, value]
            self.stale = 0

    def _line(self) -> dict:
        skipped = self.require_finite()
        line = self.place() | self.means()
        line["learning_rate"] = self.task.learning_rate(max(0, self.step - 1))
        return line | ({"skipped_updates": skipped} if skipped else {})

    def place(self) -> dict:
        """The step that training has come to: the beginning of a line of metrics."""
        return {
            "step": self.step,
            "samples": self.step * self.task.config.train.batch_size,
            "seconds": round(self.seconds, 2),
        }

    def means(self) -> dict:
        """The metrics of the batches since the last line, as the task reports them.

        Empty where there was no batch.
        """
        means = self.window.means()
        return self.task.summary(means) if means else {}

    def evaluate(self, splits: Sequence[str] | None = None) -> dict:
        """The task's metrics on some sets of held-out examples, as `test_*`.

        None: on all sets.
        """
        found: dict[str, float] = {}
        for split in self.task.splits if splits is None else splits:
            metrics = MetricAccumulator()
            for reply in self._ask("evaluate", split=split):
                metrics.add(reply)
            found |= self.task.named(split, metrics.sums)
        return found

    def require_finite(self) -> int:
        """The number of skipped updates (waits for the device).

        NonFinite if there were too many, or if a parameter has overflowed.
        """
        skipped = int(self.skipped)
        wrong = ""
        if skipped >= self.task.config.train.nonfinite_limit:
            wrong = (
                f"{skipped} updates were skipped for a loss or gradient that is not "
                f"finite, first at step {int(self.first_skipped)}"
            )
        elif not self.xp.isfinite(self.optimizer.data).all():
            wrong = "parameters are no longer finite"
        if wrong:
            remedy = "Start again with a smaller --train.learning-rate."
            if self.first_skipped == 1:
                remedy = "No update came before: look at data, weights and loss."
            first = int(self.first_skipped)
            if first > 0 and self.stream.random_access:
                batch = self.stream.batch(
                    first - 1, 0, self.task.config.train.batch_size
                )
                for bad in not_finite(batch, f"the batch of step {first}")[:1]:
                    remedy = f"The data are to blame: {bad}."
            raise NonFinite(
                f"stopped at step {self.step}: {wrong}; the last good checkpoint is "
                f"kept. {remedy}"
            )
        return skipped

    # --- Going on ---------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays of a checkpoint, on the host, as they are now. Copies."""
        return self.weights() | _on_host(
            optimizer=self.optimizer.state(),
            carry=self._whole_carry() if self.task.carries else {},
        )

    def weights(self) -> dict[str, np.ndarray]:
        """The arrays that make the network, of `arrays`."""
        drawn = drawn_constants(self.model).items()
        return _on_host(
            parameters={name: p.data for name, p in self.model.named_parameters()},
            constants={name: constant.value for name, constant in drawn},
        )

    def _whole_carry(self) -> Batch:
        """The carry of a whole batch, example-first, zero where it is other ranks'.

        So another number of workers or ranks can cut it differently. Workers that are
        processes have theirs with them.
        """
        if self.workers.apart:
            request = {"do": "carry", "step": self.step, "task": self.task.state()}
            for worker, arrays in enumerate(self.workers.run(request)):
                self.carry.take(self.shares.of(worker), arrays, self.step)
        return self.carry.whole(self.shares.ours)

    def state(self) -> dict:
        """All else a checkpoint needs, as JSON can hold it."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "workers": self.workers.count,
            "ranks": self.ranks,
            "window": self.window.plain(),
            "skipped": [int(self.skipped), int(self.first_skipped)],
            "stream": self.stream.state(),
            "task": self.task.state(),
            "best": [self.best, self.stale],
        }

    def restore(self, arrays: dict, state: dict) -> None:
        """Go on from where `arrays` and `state` were taken.

        RunError if they are not of such a run.
        """
        with fitting("cannot be resumed", "; start a new run"):
            self.close()  # processes must start from the restored state
            # first of all: another text would not fit the parameters either
            take_back(self.task, state["task"])
            load_network(self.model, arrays)
            self.optimizer.load_state(under("optimizer/", arrays))
            self.step, self.seconds = state["step"], float(state["seconds"])
            self._restore_carry(under("carry/", arrays))
            self.best, self.stale = state.get("best", (None, 0))
            window = {name: (total, n) for name, (total, n) in state["window"].items()}
            self.window = self._accumulator(window)
            self.skipped[...], self.first_skipped[...] = state["skipped"]
            self._steps[...] = self.step
            if self._cuda_graph:
                self._cuda_graph.forget()
            take_back(self.stream, state["stream"])

    def _restore_carry(self, whole: dict) -> None:
        self.carry = Carry(self.shares.pieces, self.step)
        if not self.task.carries and (says := unknown(whole, ())):
            raise ValueError(f"what it carries {says}")
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


def _on_host(**parts: dict) -> dict[str, np.ndarray]:
    """Copies of arrays in C order, under the names of their parts."""
    return {
        f"{part}/{name}": np.array(to_host(x), order="C")
        for part, arrays in parts.items()
        for name, x in arrays.items()
    }


def check_workers(workers: int | None, device: str) -> None:
    """ValueError for a number of workers that cannot be."""
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise ValueError(f"workers={workers}: give a number from 1 to {MOST_WORKERS}")
    if workers not in (None, 1) and device == "cuda":
        raise ValueError(f"workers={workers}: a GPU is fed by one worker; give 1")
