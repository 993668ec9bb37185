"""Batches drawn ahead, by a process of their own.

Drawing 1,600 examples of nth farthest takes 6 ms, and a GPU would wait for it. So
another process draws what the next steps need, into memory that both see: a ring of
slots, page-locked if there is a GPU, which then fetches a batch by itself.

No result depends on this: a stream with random access depends on nothing but the step
and the state of the task. If that state changes, because a curriculum has moved, what
was drawn under the old one is thrown away. If drawing fails there, the batch is drawn
here, and the error is raised where it always was. On a CPU it does not pay: a second
process is better used as a second worker.
"""

from __future__ import annotations

import contextlib
import functools
import json
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..streams import Batch, Stream
from ..task import Task, move_batch
from ..workers import Child, WorkerError, shared_zeros

SLOTS = 4  # pieces that the ring holds
DRAWN = 2  # of these are drawn ahead; the others a GPU may still be fetching
ALIGNED = 64  # bytes; each array begins at a multiple
PAGE = 4096  # bytes

Place = list  # [name, dtype, shape, offset] of an array in a slot


class Ring:
    """Slots of shared memory, into which a child writes batches and we read them.

    Args:
        size: bytes of a slot, at least.
        xp: the library whose arrays `read` gives.
    """

    def __init__(self, size: int, xp):
        self.size, self.xp = -(-size // PAGE) * PAGE, xp
        self._memory = shared_zeros(SLOTS * self.size, np.uint8)
        self._copied: list[Any] = [None] * SLOTS  # marks in the GPU's queue of work
        self._locked = False
        self._release: Callable[[], object] = lambda: None

    def lock(self) -> None:
        """Page-lock the memory, if there is a GPU; only after the child was forked.
        Nothing happens where the driver refuses, as the system limits locked memory.
        """
        if self.xp is np:
            return
        runtime, address = self.xp.cuda.runtime, self._memory.ctypes.data
        try:
            runtime.hostRegister(address, self._memory.nbytes, 0)
        except runtime.CUDARuntimeError:
            return
        unlock = functools.partial(runtime.hostUnregister, address)
        self._locked = True
        self._release = weakref.finalize(self, _unlock, unlock, self._copied)
        self._release.atexit = False  # the process's end unlocks it too

    def _slot(self, slot: int) -> np.ndarray:
        return self._memory[slot * self.size : (slot + 1) * self.size]

    def write(self, slot: int, batch: Batch) -> list[Place] | None:
        """Copy a host batch into a slot; where each array is, or None: too large."""
        places, end = layout(batch)
        if end > self.size:
            return None
        memory = self._slot(slot)
        for name, dtype, shape, offset in places:
            np.ndarray(shape, dtype, memory, offset)[...] = batch[name]
        return places

    def read(self, slot: int, places: list[Place]) -> Batch:
        """A batch as arrays of `xp`, which own their memory. From page-locked memory a
        GPU fetches them in its own time: `free` waits for it.
        """
        memory = self._slot(slot)
        views = {
            name: np.ndarray(shape, dtype, memory, offset)
            for name, dtype, shape, offset in places
        }
        if self.xp is np:
            return {name: x.copy() for name, x in views.items()}
        if not self._locked:
            return move_batch(self.xp, views)
        cuda, batch = self.xp.cuda, {}
        for name, x in views.items():
            batch[name] = self.xp.empty(x.shape, x.dtype)
            batch[name].set(x, stream=cuda.get_current_stream())
        self._copied[slot] = cuda.Event(disable_timing=True)
        self._copied[slot].record()
        return batch

    def free(self, slot: int) -> None:
        """Wait until the slot can be written again."""
        if self._copied[slot] is not None:
            self._copied[slot].synchronize()
            self._copied[slot] = None

    def close(self) -> None:
        """Unlock the memory."""
        self._release()


def layout(batch: Batch) -> tuple[list[Place], int]:
    """Where the arrays of a batch go in a slot, and how many bytes they take."""
    places, end = [], 0
    for name, x in batch.items():
        if x.dtype.hasobject:
            raise TypeError(f"the array {name!r} of a batch holds Python objects")
        offset = -(-end // ALIGNED) * ALIGNED
        places.append([name, x.dtype.str, x.shape, offset])
        end = offset + x.nbytes
    return places, end


def _unlock(unlock: Callable[[], None], copied: list) -> None:
    for mark in copied:
        if mark is not None:
            mark.synchronize()
    unlock()


class Prefetcher:
    """The pieces of the batches that one worker needs, step after step, drawn ahead.

    Args:
        stream: one with random access.
        task: whose `state` the stream may depend on.
        pieces: (start, stop) of each of our pieces of a step's batch.
        xp: the library whose arrays are wanted.
    """

    _ring: Ring

    def __init__(self, stream: Stream, task: Task, pieces: list[tuple[int, int]], xp):
        self.stream, self.task, self.pieces, self.xp = stream, task, pieces, xp
        self._child: Child | None = None
        self._asked: deque[tuple[list, int]] = deque()  # (piece, slot)
        self._turn = 0  # counts what was asked for
        self._given_up = False

    def batch(self, step: int, number: int) -> Batch:
        """Piece `number` of ours of a step's batch, as arrays of `xp`."""
        piece = [step, number, json.dumps(self.task.state())]
        if self._child is not None:
            with self._giving_up():
                self._ask(self._child, piece)
                _, slot = self._asked.popleft()
                places = self._child.receive()
                if places is not None:  # else no slot can hold it
                    return self._ring.read(slot, places)
        batch = self._draw(step, number)
        if not self._given_up:
            with self._giving_up():
                self._start(batch, piece)
        return move_batch(self.xp, batch)

    def close(self) -> None:
        """End the process; if another batch is asked for, a new one is started."""
        if self._child is not None:
            self._child.close()
            self._ring.close()
        self._child = None
        self._asked.clear()

    @contextlib.contextmanager
    def _giving_up(self) -> Iterator[None]:
        """If the process fails, draw here from now on, where its error comes up."""
        try:
            yield
        except (WorkerError, OSError, EOFError, TypeError):
            self._given_up = True
            self.close()
        except BaseException:
            # an answer may be under way, which must not be taken for a later one
            self.close()
            raise

    def _start(self, batch: Batch, piece: list) -> None:
        """Start the process, and let it draw what comes after this batch. A slot holds
        such a batch and half as much again.
        """
        self.close()
        self._ring = Ring(layout(batch)[1] * 3 // 2, self.xp)
        self._child = Child(self._answer, "drawing")
        self._ring.lock()
        self._ask(self._child, self._after(piece))

    def _ask(self, child: Child, piece: list) -> None:
        """Have this piece drawn, unless it is already asked for, and those after it."""
        while self._asked and self._asked[0][0] != piece:
            self._asked.popleft()
            with contextlib.suppress(WorkerError):  # and so is an error in it
                child.receive()
        while len(self._asked) <= DRAWN:
            if self._asked:
                piece = self._after(self._asked[-1][0])
            slot = self._turn % SLOTS
            self._ring.free(slot)
            child.send([piece, slot])
            self._asked.append((piece, slot))
            self._turn += 1

    def _after(self, piece: list) -> list:
        """The piece that comes next, if the task's state stays as it is."""
        step, number, state = piece
        if number + 1 < len(self.pieces):
            return [step, number + 1, state]
        return [step + 1, 0, state]

    def _draw(self, step: int, number: int) -> Batch:
        batch = self.stream.batch(step, *self.pieces[number])
        return {name: np.asarray(x) for name, x in batch.items()}

    def _answer(self, request: list) -> list[Place] | None:
        """In the process: draw a piece into a slot."""
        (step, number, state), slot = request
        self.task.load_state(json.loads(state))
        return self._ring.write(slot, self._draw(step, number))
