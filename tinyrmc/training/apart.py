"""A learner and its actors: IMPALA's division of labour, on the ranks of a run.

    mpiexec -n 4 python -m mpi4py -m tinyrmc.train box_world paper

Rank 0 learns, the others act. In each step the actors play on with the parameters they
have, while the learner learns from the oldest trajectory in its queue, whose length is
the agent's lag. Then it takes its update, the parameters go to the actors and the
trajectories to the queue. The actors copy the parameters bit for bit, since a GPU and a
CPU would round an update differently.

So this is what one process with this lag does, only side by side: the same numbers, and
the same checkpoints. What IMPALA leaves to chance, how far actors are behind, is fixed
here. With a lag of 0 there is nothing to do side by side; then all ranks act and learn
(`trainer.py`).

It is meant for a learner on a GPU, with actors on the CPU. On a CPU, where learning
takes twice as long as acting, ranks that all act and learn are faster: two ranks on two
Intel cores took 20 s for 80 updates of BoxWorld's `quick` with a lag of 0, and 26 s
with a lag of 1.

Trajectories go to the learner alone, which keeps the queue and saves it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.engine import Tape
from ..backend import to_host
from ..runs.arrays import under
from .checks import check_result
from .ranks import Ranks
from .rl.actors import ActingTask, queued, through
from .streams import Batch
from .task import move_batch
from .totals import Sums, Totals
from .trainer import Trainer, added_up
from .workers import Shares, pieces_of


class Apart(Trainer):
    """A Trainer whose ranks part: the first learns, the others act.

    Arguments as for `Trainer`. Needs an `ActingTask` with a lag, and two ranks or more.
    `workers` is how many share an actor's part. The learner, by itself, is on the
    `device`; actors are on the CPU.
    """

    task: ActingTask

    def __init__(
        self,
        task: ActingTask,
        seed: int = 0,
        workers: int | None = 1,
        device: str = "cpu",
        processes: bool | None = None,
        ranks: Ranks | None = None,
        prefetch: bool | None = None,
        graph: bool | None = None,
    ):
        if ranks is None or ranks.size < 2 or not task.apart:
            raise ValueError("Apart needs two ranks or more, and a task with a lag")
        self.learns, self.lag = ranks.rank == 0, task.config.agent.lag
        self.begun, self.queue = False, Batch()  # whole batches, (B, lag, ...)
        device = device if self.learns else "cpu"
        super().__init__(task, seed, workers, device, processes, ranks, prefetch, graph)

    def _share_out(self, workers, processes):
        """The pieces of a batch go to the actors' workers."""
        super()._share_out(1 if self.learns else workers, processes)
        config, rank = self.task.config.train, self.ranks.rank
        self.counts: list[int] = self.ranks.each(lambda: self.workers.count)
        actors = [0, *self.counts[1:]]  # workers of each rank that act
        pieces = pieces_of(config.batch_size, config.piece(np), sum(actors))
        each = [
            Shares(pieces, sum(actors[:k]), count, sum(actors))
            for k, count in enumerate(actors)
        ]
        self.shares = each[rank]
        self.rows = [rows_of(shares) for shares in each]

    def _make_prefetcher(self, prefetch):
        return None

    # --- A step -----------------------------------------------------------------------

    def advance(self, note: Callable[[], object] = lambda: None) -> list:
        """One step, as a `Trainer` takes it."""
        if not self.begun:
            first = [self._act_ahead(k) for k in range(self.lag, 0, -1)]
            self.queue, self.begun = queued(first) if self.learns else {}, True
        replies, notes, played = self._take_turns("both", note)
        step = added_up(replies)
        self._take_notice(step, self._update(step))
        trajectory = self._gathered(played)
        if self.learns:
            self.queue = through(self.queue, trajectory)[1]
        self.step += 1
        return notes

    def _update(self, step: Totals):
        """The learner moves the parameters, which the others take.

        All of them know whether the step was finite. The actors' optimizers rest.
        """
        optimizer = self.optimizer
        packed = optimizer.packed(optimizer.data)
        whole = np.zeros(packed.size + 1, packed.dtype)
        if self.learns:
            finite = super()._update(step)
            whole[:-1] = to_host(optimizer.packed(optimizer.data))
            whole[-1] = to_host(finite)
        self.ranks.merge(whole)
        if not self.learns:
            optimizer.unpack(whole[:-1], optimizer.data)
            finite = whole[-1] != 0
        return finite

    def _alike(self) -> list:
        return super()._alike()[:1]

    def _act_ahead(self, ahead: int) -> Batch:
        """One of the trajectories with which the queue begins."""
        return self._gathered(self._take_turns("act", ahead=ahead)[2])

    def _take_turns(self, do, note=lambda: None, ahead=0):
        """(what the learner's workers reply, the ranks' notes, what our actors did)."""
        request = {
            "do": do,
            "ahead": ahead,
            "step": self.step,
            "task": self.task.state(),
        }
        played: list[Batch] = []

        def work():
            replies = self.workers.run(request)
            if self.learns:
                return replies
            played.extend(replies)
            return []

        replies, notes = zip(*self.ranks.each(lambda: (work(), note())), strict=True)
        return replies[0], list(notes), played

    def _share(self, worker: int, request: dict) -> Any:
        """A worker's part of a request: a learner learns, an actor acts."""
        do = request["do"]
        if do not in ("act", "both"):
            return super()._share(worker, request)
        if self.learns:
            return [] if do == "act" else self._learn()
        if self.workers.processes:
            self.task.load_state(request["task"])
        return self._act(worker, request["step"], request["ahead"])

    def _act(self, worker: int, step: int, ahead: int) -> Batch:
        """Play a worker's pieces on; the trajectories, one piece after the other."""
        parts, carried = [], {}
        for number in self.shares.of(worker):
            before = self.carry.before(number, step)
            batch = self.stream.batch(step, *self.shares.pieces[number])
            played = self.task.play(self.model, batch, before, ahead)
            parts.append(played[0])
            carried[number] = played[1]
        for number, after in carried.items():
            self.carry.keep(number, after, step if ahead else step + 1)
        names = parts[0] if parts else ()
        return {name: np.concatenate([x[name] for x in parts]) for name in names}

    def _learn(self) -> list[Sums]:
        """Add up the gradient of the oldest trajectories."""
        self._gradients[0][...] = 0
        replies = []
        for start, stop in self.shares.pieces:
            rows = {name: x[start:stop, 0] for name, x in self.queue.items()}
            batch = move_batch(self.xp, rows)
            with Tape() as tape:
                result = self.task.loss(self.model, batch, None)
            loss, count, metrics, _ = check_result(self.task, result)
            tape.backward(loss, into=self._views[0])
            replies.append(self._plain(Totals({"loss": (loss.data, count), **metrics})))
        return replies

    def _gathered(self, parts: list[Batch]) -> Batch:
        """The whole batch, on the learner, from the parts of all actors' workers.

        Elsewhere nothing.
        """
        own = [part for part in parts if part]
        told = self.ranks.each(
            lambda: [
                [k, x.dtype.str, x.shape[1:]]
                for part in own[:1]
                for k, x in part.items()
            ]
        )[1]
        counts = [*map(len, self.rows)]
        order = np.argsort([row for rows in self.rows for row in rows])
        whole = {}
        for name, dtype, shape in told:
            none = np.zeros((0, *shape), dtype)
            ours = np.concatenate([none, *(part[name] for part in own)])
            found = self.ranks.gather(ours, counts)
            if self.learns:
                whole[name] = found[order]
        return whole

    # --- Testing, and going on --------------------------------------------------------

    def state(self) -> dict:
        return super().state() | {"workers": self.counts[1]}

    def _evaluate(self, worker: int, split: str) -> Sums:
        """All ranks play held-out levels."""
        number = sum(self.counts[: self.ranks.rank]) + worker
        return self._plain(Totals(self._sums(split, number, sum(self.counts))))

    def _whole_carry(self) -> Batch:
        """The whole carry, on the learner, which saves it."""

        def ours():
            self._fetch_carry()
            workers = range(0 if self.learns else self.workers.count)
            return [self.carry.joined(self.shares.of(worker)) for worker in workers]

        whole = self._gathered(self.ranks.together(ours))
        return whole | {f"queue/{name}": x for name, x in self.queue.items()}

    def _restore_carry(self, whole: dict) -> None:
        queue = under("queue/", whole)
        self.begun, self.queue = bool(queue), queue if self.learns else {}
        rest = {k: x for k, x in whole.items() if not k.startswith("queue/")}
        super()._restore_carry(rest)


def rows_of(shares: Shares) -> list[int]:
    """The rows of a batch that a rank's workers have, one worker after the other."""
    numbers = [n for worker in range(shares.workers) for n in shares.of(worker)]
    return [row for number in numbers for row in range(*shares.pieces[number])]
