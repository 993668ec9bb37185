"""The one training loop.

A task says what is learnt: where batches come from, what the loss is, what to measure
(`Task`). The `Trainer` does the rest, one step at a
time: each worker of each rank draws and differentiates its pieces of the batch, the sum
is divided by the count once, and the optimizer moves. What it holds is what a
checkpoint holds, so that going on from one gives the same bits as never having stopped.

Randomness depends only on (seed, step, block of examples), never on who computes: see
`Samples`.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable

import numpy as np

from .. import optim
from ..backend import device_namespace, to_host
from ..engine import Tape
from ..errors import RunError, nearest
from ..runs.arrays import under
from .discovery import TaskError
from .ranks import Ranks
from .task import Task, Totals, checked, move_batch, telling
from .workers import CAN_FORK, GIL, Workers, pieces_of, shared_zeros

# numbers that a step's forward pass computes for each worker; with fewer, sharing costs
# more than it saves
WORTHWHILE = 300_000


class NonFinite(RunError):
    """Too many updates had to be skipped, or the parameters overflowed."""


REMEDY = "Start again with a smaller --train.learning-rate."


class Trainer:
    """A run in memory: task, model, optimizer, stream, and how far they have come.

    Args:
        workers: how many share a batch, or with several ranks a rank's part of it (see
            parallel.py); None: as many as the work is worth, one a core at most.
            ValueError for less than one, and for more on a GPU, which one worker feeds.
        device: "cpu" or "cuda".
        processes: whether the workers are processes; by default where that is possible.
        ranks: the processes that train together, each with a Trainer made alike (see
            ranks.py). All take every step; `advance`, `read`, `evaluate` and `arrays`
            wait for each other.
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
            raise ValueError(
                f"workers={workers}: there must be at least one; leave workers out, "
                "or give 1 or more"
            )
        if workers not in (None, 1) and device == "cuda":
            raise ValueError(
                f"workers={workers} with device='cuda': a GPU is fed by one worker; "
                "leave workers out, or give 1"
            )
        self.ranks = ranks or Ranks()
        self.task, self.seed, self.xp = (
            task,
            seed,
            device_namespace(device, self.ranks.local_rank),
        )
        model_seed, data_seed = np.random.SeedSequence(seed).spawn(2)
        self.model = task.build(model_seed).to(self.xp)
        self.stream = task.stream(
            self.model, int(data_seed.generate_state(1, np.uint64)[0])
        )
        if processes is None:
            processes = CAN_FORK and self.xp is np and not task.carries
        workers = workers or self._worthwhile_workers(processes)
        self.workers = Workers(workers, self._share, processes)
        self._first, self._everybody = (
            self.ranks.rank * workers,
            self.ranks.size * workers,
        )  # our workers among those of all ranks
        allocate = shared_zeros if self.workers.processes else self.xp.zeros
        self.optimizer = optim.Adam(self.model.parameters(), allocate=allocate)
        buffer = self.optimizer.gradient
        self._gradients = [
            buffer,
            *(allocate(buffer.size, buffer.dtype) for _ in range(workers - 1)),
        ]  # one a worker
        self.step, self.seconds = 0, 0.0
        self.carry = {}  # piece number -> what the last step's loss handed on
        self.window = Totals()  # metrics since the last line
        self.skipped, self.first_skipped = (
            self.xp.zeros((), np.int64),
            self.xp.full((), -1, np.int64),
        )  # on the device

    def _worthwhile_workers(self, processes: bool) -> int:
        """How many workers a step's work is worth, judged by what one example computes;
        on a GPU one, and threads that share a lock two.
        """
        if self.xp is not np:
            return 1
        before = self.stream.state()
        example = self.stream.batch(0, 0, 1)
        self.stream.load_state(before)
        with Tape() as tape, telling(1):
            self.task.loss(self.model, example, None)
        share = (
            self.task.config.train.batch_size // self.ranks.size
        )  # examples of a step
        numbers = share * sum(
            math.prod(shape)
            for _, _, _, outputs, _, _ in tape.entries
            for _, shape, _ in outputs
        )
        cores = self.ranks.cores if processes or not GIL else min(2, self.ranks.cores)
        return max(1, min(cores, share, numbers // WORTHWHILE))

    def require_metrics(self) -> None:
        """TaskError unless evaluation gives metrics, among them all that the task has
        references of. Tries it with one held-out example.
        """
        given = Totals(
            self.task.evaluate(self.model, 0, self.task.test_examples, self.xp)
        ).means("test_")
        for name in self.task.references():
            if name not in given:
                what = (
                    f"{type(self.task).__name__}.references() names {name!r}, which "
                    "evaluation does not give"
                )
                raise TaskError(
                    f"{what}; it gives {', '.join(given)}{nearest(name, given)}"
                )

    def advance(self, note: Callable[[], object] = lambda: None) -> list:
        """One step; returns [note() of each rank], which it asks for when the gradient
        is computed and sends along with the losses.

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
        norm, finite = self.optimizer.step(
            self.task.learning_rate(self.step),
            config.clip_norm,
            scale=1 / count,
            valid=xp.isfinite(total),
        )
        self.task.after_update(self.model)
        step.add({"gradient_norm": (norm, 1)})
        self.window.add(step.sums)
        if "accuracy" in (headline := self.task.headline) and headline in step.sums:
            self.window.keep_largest(f"best_batch_{headline}", *step.sums[headline], xp)
        self.first_skipped = xp.where(
            xp.logical_or(finite, self.first_skipped >= 0),
            self.first_skipped,
            self.step + 1,
        )
        self.skipped += xp.logical_not(finite)
        self.step += 1
        return notes

    def _ask(
        self, do: str, note: Callable[[], object] = lambda: None
    ) -> tuple[list, list]:
        """What every worker of every rank replies, and the ranks' notes."""
        request = {"do": do, "step": self.step, "task": self.task.state()}
        replies, notes = zip(
            *self.ranks.each(lambda: (self.workers.run(request), note())), strict=True
        )
        return [reply for of_rank in replies for reply in of_rank], list(notes)

    def _share(self, worker: int, request: dict) -> list | dict:
        """A worker's part of a request: the metrics of each of its pieces of a step, or
        of its part of the held-out examples.

        May run in another process, which has its own task and stream, but sees the
        parameters and gradients.
        """
        if self.workers.processes:
            self.task.load_state(request["task"])
        if request["do"] == "evaluate":
            return self._plain(
                Totals(
                    self.task.evaluate(
                        self.model, self._first + worker, self._everybody, self.xp
                    )
                )
            )
        gradient, replies = self._gradients[worker], []
        gradient[...] = 0
        for number, (start, stop) in list(enumerate(self._pieces()))[
            self._first + worker :: self._everybody
        ]:
            batch = move_batch(self.xp, self.stream.batch(request["step"], start, stop))
            with Tape() as tape:
                result = self.task.loss(self.model, batch, self.carry.get(number))
            loss, count, metrics, carry = checked(self.task, result)
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
        """On a GPU the numbers stay there: nothing in a step may wait for it, unless
        other ranks must hear them.
        """
        return totals.plain() if self.xp is np or self.ranks.size > 1 else totals.sums

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
        """RunError unless step, parameters and optimizer state are the same on all
        ranks, to the last bit (waits for the device).
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

    def _checksum(self):
        checksum = zlib.crc32(json.dumps([self.step, self.task.state()]).encode())
        for array in (self.optimizer.data, *self.optimizer.state().values()):
            checksum = zlib.crc32(to_host(array).tobytes(), checksum)
        return checksum

    def read(self) -> dict:
        """The metrics since the last call, as a line for metrics.jsonl (waits for the
        device). NonFinite as in `require_finite`.
        """
        line = self.ranks.each(self._line)[
            0
        ]  # curricula must move in step, and other ranks may round otherwise
        self.window = Totals()
        return line | self.task.observe(self.step, line)

    def _line(self):
        config, skipped = self.task.config.train, self.require_finite()
        line = {
            "step": self.step,
            "samples": self.step * config.batch_size,
            "seconds": round(self.seconds, 2),
        }
        line |= self.window.means() | {
            "learning_rate": self.task.learning_rate(self.step - 1)
        }
        return line | ({"skipped_updates": skipped} if skipped else {})

    def evaluate(self) -> dict:
        """The task's metrics on the held-out examples, as `test_*`."""
        totals = Totals()
        for reply in self._ask("evaluate")[0]:
            totals.add(reply)
        return totals.means("test_")

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays of a checkpoint, on the host (with a carry, ranks wait for each
        other).
        """
        named = {
            f"parameters/{name}": p.data for name, p in self.model.named_parameters()
        }
        named |= {f"optimizer/{name}": x for name, x in self.optimizer.state().items()}
        return {name: to_host(x) for name, x in named.items()} | {
            f"carry/{name}": x for name, x in self._whole_carry().items()
        }

    def _whole_carry(self):
        """The carry of a whole batch: example-first, so that another number of workers
        or ranks can cut it otherwise.
        """
        pieces, whole = self._pieces(), {}
        for name, x in next(iter(self.carry.values()), {}).items():
            whole[name] = np.zeros(
                (self.task.config.train.batch_size, *x.shape[1:]), x.dtype
            )
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
        """Go on from where `arrays` and `state` were taken.

        RunError if they are not of such a run.
        """
        try:
            self._restore(arrays, state)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise RunError(
                f"the checkpoint cannot be resumed: {error!s}; start a new run"
            ) from error

    def _restore(self, arrays, state):
        self.workers.close()  # processes must start from the restored state
        self.model.load_parameters(under("parameters/", arrays))
        self.optimizer.load_state(under("optimizer/", arrays))
        carry = move_batch(self.xp, under("carry/", arrays))
        if carry:
            ours, pieces = (
                range(self._first, self._first + self.workers.count),
                enumerate(self._pieces()),
            )
            self.carry = {
                k: {name: x[a:b] for name, x in carry.items()}
                for k, (a, b) in pieces
                if k % self._everybody in ours
            }
        self.step, self.seconds, self.window = (
            state["step"],
            state["seconds"],
            Totals(state["window"]),
        )
        self.skipped[...], self.first_skipped[...] = state["skipped"]
        self.stream.load_state(state["stream"])
        self.task.load_state(state["task"])
