"""A learner and its actors: IMPALA's division of labour, on the ranks of a run.

    mpiexec -n 4 python -m mpi4py -m tinyrmc.train box_world paper

Rank 0 learns, the others act. In each step the actors play on with the parameters they
have, while the learner learns from the oldest trajectory in its queue, as long as the
agent's lag. Then the gradient goes to the actors, the trajectories to the queue, and
every rank takes the same update.

So this is what one process with this lag does, only side by side: the same numbers, and
the same checkpoints. What IMPALA leaves to chance, how far actors are behind, is fixed
here. With a lag of 0 there is nothing to do side by side; then all ranks act and learn
(`trainer.py`).

It is meant for a learner on a GPU, with actors on the CPU. On a CPU, where learning
takes twice as long as acting, ranks that all act and learn are faster: two ranks on two
Intel cores took 20 s for 80 updates of BoxWorld's `quick` with a lag of 0, and 26 s
with a lag of 1.

Every rank keeps the whole queue, although only the learner needs it: trajectories are
small, and so each rank can save, restore and check what all have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine import Tape
from ..runs.arrays import under
from .actors import ActingTask, through
from .checks import check_result
from .ranks import Ranks
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
        ahead: bool | None = None,
        graph: bool | None = None,
    ):
        if ranks is None or ranks.size < 2 or not task.apart:
            raise ValueError("Apart needs two ranks or more, and a task with a lag")
        self.learns = ranks.rank == 0
        self.queue: Batch = {}  # whole batches, (B, lag, ...), on every rank
        device = device if self.learns else "cpu"
        super().__init__(task, seed, workers, device, processes, ranks, ahead, graph)

    def _share_out(self, workers, processes):
        """The pieces of a batch go to the actors' workers."""
        super()._share_out(1 if self.learns else workers, processes)
        config, rank = self.task.config.train, self.ranks.rank
        self.counts: list[int] = self.ranks.each(lambda: self.workers.count)
        everybody, first = sum(self.counts[1:]), sum(self.counts[1:rank])
        pieces = pieces_of(config.batch_size, config.piece(np), everybody)
        own = 0 if self.learns else self.workers.count
        self.shares = Shares(pieces, first, own, everybody)

    def _make_ahead(self, ahead):
        return None

    # --- A step -----------------------------------------------------------------------

    def advance(self, note: Callable[[], object] = lambda: None) -> list:
        """One step, as of a `Trainer`."""
        lag, begins = self.task.config.agent.lag, not self.queue
        if begins:
            played = self._take_turns("act")[2]
            self.queue = through({}, self._gathered(played), lag)[1]
        do = "learn" if begins else "both"
        replies, notes, played = self._take_turns(do, note)
        step = added_up(replies)
        self._add_up_gradients()
        finite = self._update(step)
        self._take_notice(step, finite)
        if not begins:
            self.queue = through(self.queue, self._gathered(played), lag)[1]
        self.step += 1
        return notes

    def _take_turns(self, do, note=lambda: None):
        """(what the learner's workers reply, the ranks' notes, what our actors did)."""
        request = {"do": do, "step": self.step, "task": self.task.state()}
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
        if do not in ("act", "learn", "both"):
            return super()._share(worker, request)
        if self.learns:
            return [] if do == "act" else self._learn()
        if self.workers.processes:
            self.task.load_state(request["task"])
        self._gradients[worker][...] = 0
        return {} if do == "learn" else self._act(worker, request["step"])

    def _act(self, worker: int, step: int) -> Batch:
        """Play a worker's pieces on; the trajectories, one piece after the other."""
        parts, carried = [], {}
        for number in self.shares.of(worker):
            before = self.carry.before(number, step)
            batch = self.stream.batch(step, *self.shares.pieces[number])
            trajectory, carried[number] = self.task.play(self.model, batch, before)
            parts.append(trajectory)
        for number, after in carried.items():
            self.carry.keep(number, after, step + 1)
        names = parts[0] if parts else ()
        return {name: np.concatenate([x[name] for x in parts]) for name in names}

    def _learn(self) -> list[Sums]:
        """Add up the gradient of the oldest trajectories."""
        gradient, replies = self._gradients[0], []
        gradient[...] = 0
        for start, stop in self.shares.pieces:
            rows = {name: x[start:stop, 0] for name, x in self.queue.items()}
            batch = move_batch(self.xp, rows)
            with Tape() as tape:
                result = self.task.loss(self.model, batch, None)
            loss, count, metrics, _ = check_result(self.task, result)
            tape.backward(loss, into=gradient)
            replies.append(self._plain(Totals({"loss": (loss.data, count), **metrics})))
        return replies

    def _gathered(self, played: list[Batch]) -> Batch:
        """The trajectories of all actors as a whole batch, on every rank."""
        rows = [self.shares.of(worker) for worker in range(len(played))]
        return self._whole(dict(zip(map(tuple, rows), played, strict=True)))

    def _whole(self, parts: dict[tuple[int, ...], Batch]) -> Batch:
        """Whole arrays of parts {numbers of pieces: rows} that actors have."""
        first = next(iter(parts.values()), {})
        told = self.ranks.each(
            lambda: [[name, x.dtype.str, x.shape[1:]] for name, x in first.items()]
        )[1]
        whole = {}
        for name, dtype, shape in told:
            whole[name] = np.zeros((self.shares.pieces[-1][1], *shape), dtype)
            for numbers, part in parts.items():
                pieces = [self.shares.pieces[number] for number in numbers]
                rows = np.concatenate([np.arange(*piece) for piece in pieces])
                whole[name][rows] = part[name]
            self.ranks.merge(whole[name])
        return whole

    # --- Testing, and going on --------------------------------------------------------

    def state(self) -> dict:
        return super().state() | {"workers": self.counts[1]}

    def _evaluate(self, worker: int, split: str) -> Sums:
        """All ranks play held-out levels."""
        number = sum(self.counts[: self.ranks.rank]) + worker
        return self._plain(Totals(self._sums(split, number, sum(self.counts))))

    def _whole_carry(self) -> Batch:
        def ours():
            self._fetch_carry()
            return self.carry.joined(self.shares.ours)

        joined = self.ranks.together(ours)
        parts = {tuple(self.shares.ours): joined} if joined else {}
        queue = {f"queue/{name}": x for name, x in self.queue.items()}
        return self._whole(parts) | queue

    def _restore_carry(self, whole: dict) -> None:
        self.queue = under("queue/", whole)
        rest = {k: x for k, x in whole.items() if not k.startswith("queue/")}
        super()._restore_carry(rest)
