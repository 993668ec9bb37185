"""Batches drawn ahead, by a process of their own.

Drawing examples takes time, and a GPU would wait for it. So another process draws what
the next steps need, and sends it when its turn comes. CuPy copies it to the GPU without
waiting for the work that is under way there.

No result depends on this: a stream with random access depends on nothing but the step
and the state of the task. If that state changes, because a curriculum has moved, what
was drawn under the old one is thrown away. If drawing fails there, the batch is drawn
here, and the error is raised where it always was. On a CPU it does not pay: a second
process is better used as a second worker.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Iterator

import numpy as np

from ...config import json_text
from ..streams import Batch, Stream, move_batch
from ..task import Task
from ..workers import Child, WorkerError

AHEAD = 2  # pieces that are asked for before their turn comes


class Prefetcher:
    """The pieces of the batches that one worker needs, step after step, drawn ahead.

    Args:
        stream: one with random access.
        task: whose `state` the stream may depend on.
        pieces: (start, stop) of each of our pieces of a step's batch.
        xp: the library whose arrays are wanted.
    """

    def __init__(self, stream: Stream, task: Task, pieces: list[tuple[int, int]], xp):
        self.stream = stream
        self.task = task
        self.pieces = pieces
        self.xp = xp
        self._child: Child | None = None
        self._asked: deque[list] = deque()
        self._given_up = False

    def batch(self, step: int, number: int) -> Batch:
        """Piece `number` of ours of a step's batch, as arrays of `xp`."""
        piece = [step, number, json_text(self.task.state())]
        if self._child is not None:
            with self._giving_up():
                self._ask(self._child, piece)
                self._asked.popleft()
                sent = self._child.receive()
                return {name: self.xp.array(x) for name, x in sent.items()}
        batch = self._draw(step, number)
        if not self._given_up:
            with self._giving_up():
                self._child = Child(self._answer, "drawing")
                self._ask(self._child, self._after(piece))
        return move_batch(self.xp, batch)

    def close(self) -> None:
        """End the process; if another batch is asked for, a new one is started."""
        if self._child is not None:
            self._child.close()
        self._child = None
        self._asked.clear()

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        """If the process fails, draw here from now on, where its error comes up."""
        try:
            yield
        except (WorkerError, OSError, EOFError):
            self._given_up = True
            self.close()
        except BaseException:
            # an answer may be under way, which must not be taken for a later one
            self.close()
            raise

    def _ask(self, child: Child, piece: list) -> None:
        """Have this piece drawn, unless it is already asked for, and those after it."""
        while self._asked and self._asked[0] != piece:
            self._asked.popleft()
            with contextlib.suppress(WorkerError):  # and so is an error in it
                child.receive()
        while len(self._asked) <= AHEAD:
            if self._asked:
                piece = self._after(self._asked[-1])
            child.send(piece)
            self._asked.append(piece)

    def _after(self, piece: list) -> list:
        """The piece that comes next, if the task's state stays as it is."""
        step, number, state = piece
        ahead, number = divmod(number + 1, len(self.pieces))
        return [step + ahead, number, state]

    def _draw(self, step: int, number: int) -> Batch:
        batch = self.stream.batch(step, *self.pieces[number])
        return {name: np.asarray(x) for name, x in batch.items()}

    def _answer(self, piece: list) -> Batch:
        """In the process: draw a piece."""
        step, number, state = piece
        self.task.load_state(json.loads(state))
        return self._draw(step, number)
