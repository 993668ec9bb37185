"""Workers that share a batch.

A batch is cut into pieces, so that only a piece's activations are in memory at once;
piece i belongs to worker i mod n. Each worker runs one tape at a time and adds into one
flat gradient buffer of its own, and the buffers are added in worker order: no locks, no
lost updates, and the same bits every time for a given number of workers, whether these
are threads or processes.

Processes are the faster kind on a CPU, because Python's lock lets only one thread at a
time run Python: a step at 4 slots x 64 units is a great many small NumPy calls. The
flat buffers lie in memory that all of them see; what passes through the pipes is a few
numbers as JSON. A state carried from step to step stays with the worker whose piece it
belongs to. Threads serve where there is no safe fork (macOS, Windows); in a
free-threaded Python they are as good as processes. A GPU is fed by one worker.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import inspect
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakMethod

from ..errors import why
from ..runs.machine import usable_cores
from .children import CAN_FORK, Child, WorkerError, shared_zeros

__all__ = [
    "CAN_FORK",
    "GIL",
    "PARENT",
    "Shares",
    "WorkerError",
    "WorkerLost",
    "Workers",
    "available_cores",
    "orphaned",
    "pieces_of",
    "shared_zeros",
]

# The variable that tells a command which process waits for it, for a command that is of
# no use without its parent.
PARENT = "TINYRMC_PARENT"
# False in a free-threaded Python, where threads are as good as processes
GIL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


def available_cores() -> int:
    """How many cores this process may use."""
    return len(usable_cores())


def orphaned() -> bool:
    """Whether the process that waits for this one has ended.

    That process has said so in the variable PARENT. Once it has ended, its children
    have another parent; on Windows they keep its number, so there nobody is an orphan.
    """
    parent = os.environ.get(PARENT)
    return parent is not None and os.name == "posix" and os.getppid() != int(parent)


def pieces_of(count: int, size: int, workers: int) -> list[tuple[int, int]]:
    """(start, stop) of the pieces of `count` examples: equal to within one, at most
    `size` long, and as many for each worker.
    """
    number = min(count, workers * -(-count // (size * workers)))
    bounds = [count * k // number for k in range(number + 1)]
    return list(itertools.pairwise(bounds))


@dataclasses.dataclass(frozen=True)
class Shares:
    """Which pieces of a batch are whose, among the workers of all ranks.

    It depends on the size of the batch and the number of workers alone. So it is the
    same in every step, and a piece can carry something on from step to step.

    pieces: (start, stop) of each piece.
    first: our first worker among those of all ranks.
    workers: how many workers are ours.
    everybody: how many there are.
    """

    pieces: list[tuple[int, int]]
    first: int = 0
    workers: int = 1
    everybody: int = 1

    def of(self, worker: int) -> range:
        """The numbers of the pieces of one of our workers."""
        return range(self.first + worker, len(self.pieces), self.everybody)

    @property
    def ours(self) -> list[int]:
        """The numbers of the pieces of all our workers, in the order of the batch."""
        return sorted(number for k in range(self.workers) for number in self.of(k))


class Workers:
    """`count` workers, who all answer each request; the caller is worker 0.

    share: share(worker, request) gives a worker's reply. A method is held weakly: its
        object owns these workers, and when nobody else holds that object, it goes and
        their processes end. With processes, requests must be what JSON can hold, and
        replies too (numbers come back bit for bit), or dicts of arrays. What `share`
        changes in memory then stays in its process, except for arrays made by
        `shared_zeros`.
    processes: fork the others when the first request comes; else they are threads.
    """

    def __init__(
        self,
        count: int,
        share: Callable[[int, Any], Any],
        processes: bool = False,
    ):
        self.count, self.processes = count, processes and count > 1
        self._share = WeakMethod(share) if inspect.ismethod(share) else lambda: share
        self._pool: ThreadPoolExecutor | None = None
        self._children: list[Child] = []

    @property
    def share(self) -> Callable[[int, Any], Any]:
        """What gives a worker's reply."""
        share = self._share()
        assert share is not None  # its owner, who is asking, still lives
        return share

    @property
    def apart(self) -> bool:
        """Whether other processes are at work, with a memory of their own."""
        return bool(self._children)

    def run(self, request: Any) -> list:
        """[share(worker, request) for each worker], computed side by side.

        WorkerError if a process failed, `WorkerLost` if it ended or cannot be started.
        """
        if self.count == 1:
            return [self.share(0, request)]
        try:
            if self.processes:
                return self._run_processes(request)
            return self._run_threads(request)
        except BaseException:
            # the others may still be answering: a later request must not take that for
            # its own answer
            self.close()
            raise

    def start(self) -> None:
        """Start the others now, if they are processes; `WorkerLost` if that cannot be.

        They have everything as it is at this moment.
        """
        if not self.processes or self._children:
            return
        share = self._share
        try:
            for worker in range(1, self.count):
                answer = functools.partial(_answer, share, worker)
                self._children.append(Child(answer, f"worker {worker}"))
        except OSError as error:
            started = len(self._children)
            self.close()
            raise WorkerLost(
                f"cannot start worker {started + 2} of {self.count}: {why(error)}; "
                "give fewer --workers"
            ) from error

    def try_out(self) -> None:
        """Start the others and end them: WorkerLost if they cannot be started.

        The first request starts them anew, with everything as it then is.
        """
        self.start()
        self.close()

    def close(self) -> None:
        """End the other workers; a later request starts new ones."""
        if self._pool:
            self._pool.shutdown()
        for child in self._children:
            child.close()
        self._pool, self._children = None, []

    def _run_threads(self, request: Any) -> list:
        self._pool = self._pool or ThreadPoolExecutor(
            self.count - 1, thread_name_prefix="tinyrmc-worker"
        )
        ours = contextvars.copy_context  # NumPy's errstate is part of it
        others = [
            self._pool.submit(ours().run, self.share, worker, request)
            for worker in range(1, self.count)
        ]
        return [self.share(0, request), *(other.result() for other in others)]

    def _run_processes(self, request: Any) -> list:
        self.start()
        with _explained():
            for child in self._children:
                child.send(request)
        own = self.share(0, request)
        with _explained():
            return [own, *(child.receive() for child in self._children)]


def _answer(share: Callable[[], Any], worker: int, request: Any) -> Any:
    return share()(worker, request)


class WorkerLost(WorkerError):
    """A worker process ended by itself, or could not be started."""


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """WorkerLost for what a pipe says when the process at its other end is gone."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise WorkerLost(
            "a worker process disappeared (killed, or out of memory?)"
        ) from error
