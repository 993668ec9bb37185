"""Workers that share a batch.

A batch is cut into pieces, so that only a part's activations are in memory at once;
piece i belongs to worker i mod n. Each worker runs one tape at a time and adds into one
flat gradient buffer of its own, and the buffers are added in worker order: no locks, no
lost updates, and the same bits every time for a given number of workers, whether these
are threads or processes.

Processes are the faster kind on a CPU, because Python's lock lets only one thread at a
time run Python: a step at 4 slots x 64 units is a great many small NumPy calls. They
are forked, so they start at once and with everything the parent has built, and the flat
buffers lie in memory that all of them see; what passes through the pipes is a few
numbers as JSON. Threads serve where there is no safe fork (macOS, Windows) and for a
task that carries arrays from step to step; in a free-threaded Python they are as good
as processes. A GPU is fed by one worker.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import itertools
import json
import mmap
import multiprocessing

# its exit handler must be registered before ours, so as to run after it
import multiprocessing.util
import os
import signal
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..errors import UserError
from .discovery import told

CAN_FORK = (
    sys.platform == "linux"
)  # macOS has fork, but its system libraries do not survive one
# the variable in which a command that is of no use without its parent finds that one's
# process id
PARENT = "TINYRMC_PARENT"
GIL = getattr(
    sys, "_is_gil_enabled", lambda: True
)()  # False in a free-threaded Python, where threads are as good as processes


class WorkerError(UserError, RuntimeError):
    """A worker process failed or disappeared."""


def available_cores() -> int:
    """Cores this process may use."""
    return (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )


def orphaned() -> bool:
    """Whether the process that has started this one, and said in the variable PARENT
    that it will wait for it, has ended.

    The children of one that ended have another parent; on Windows they keep its number,
    so there nobody is an orphan.
    """
    parent = os.environ.get(PARENT)
    return parent is not None and os.name == "posix" and os.getppid() != int(parent)


def shared_zeros(count: int, dtype) -> np.ndarray:
    """A flat array of zeros in memory that processes forked later read and write too."""
    return np.frombuffer(
        mmap.mmap(-1, max(1, count * np.dtype(dtype).itemsize)), dtype, count
    )


def pieces_of(count: int, size: int, workers: int) -> list[tuple[int, int]]:
    """(start, stop) of the pieces of `count` examples: equal to within one, at most
    `size` long, and as many for each worker.
    """
    number = min(count, workers * -(-count // (size * workers)))
    bounds = [count * k // number for k in range(number + 1)]
    return list(itertools.pairwise(bounds))


class Workers:
    """`count` workers, the caller being worker 0, who all answer each request: reply =
    share(worker, request).

    share: with processes its replies, and the requests, must be what JSON can hold
        (numbers come back bit for bit); and what it changes in memory stays in its
        process, save for arrays made by `shared_zeros`.
    processes: fork the others when the first request comes; else they are threads.
    """

    def __init__(self, count: int, share: Callable, processes: bool = False):
        self.count, self.share, self.processes = count, share, processes and count > 1
        self._pool, self._children = None, []

    def run(self, request) -> list:
        """[share(worker, request) for each worker], computed side by side.

        WorkerError if a process failed.
        """
        if self.count == 1:
            return [self.share(0, request)]
        try:
            return (
                self._run_processes(request)
                if self.processes
                else self._run_threads(request)
            )
        except BaseException:
            # the others may still be answering: a later request must not take that for
            # its own answer
            self.close()
            raise

    def close(self) -> None:
        """End the other workers; a later request starts new ones."""
        if self._pool:
            self._pool.shutdown()
        for process, _ in self._children:
            # closing the pipe would not do: other processes forked since then have a
            # copy of its end
            process.kill()
        for process, pipe in self._children:
            process.join()
            pipe.close()
        self._pool, self._children = None, []
        atexit.unregister(self.close)

    def _run_threads(self, request):
        self._pool = self._pool or ThreadPoolExecutor(
            self.count - 1, thread_name_prefix="tinyrmc-worker"
        )
        ours = contextvars.copy_context  # NumPy's errstate is part of it
        others = [
            self._pool.submit(ours().run, self.share, worker, request)
            for worker in range(1, self.count)
        ]
        return [self.share(0, request), *(other.result() for other in others)]

    def _run_processes(self, request):
        if not self._children:
            self._fork()
        message = json.dumps(request).encode()
        replies = []
        try:
            for _, pipe in self._children:
                pipe.send_bytes(message)
            replies.append(self.share(0, request))
            for _, pipe in self._children:
                replies.append(json.loads(pipe.recv_bytes()))
        except (EOFError, OSError) as error:
            raise WorkerError(
                "a worker process disappeared (killed, or out of memory?): "
                f"{error!r}; resume with fewer --workers"
            ) from error
        for reply in replies[1:]:
            if isinstance(reply, dict) and "worker error" in reply:
                raise WorkerError(reply["worker error"])
        return replies

    def _fork(self):
        context = multiprocessing.get_context("fork")
        atexit.register(
            self.close
            # else multiprocessing would wait, at exit, for children that ignore its SIGTERM
        )
        for worker in range(1, self.count):
            ours, theirs = context.Pipe()
            inherited = [pipe for _, pipe in self._children] + [ours]
            process = context.Process(
                target=self._serve, args=(worker, theirs, inherited), daemon=True
            )
            # Python 3.12 warns of any thread at a fork; BLAS's are asleep, and know
            # about forks
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            theirs.close()
            self._children.append((process, ours))

    def _serve(self, worker, pipe, inherited):
        """A child's life: answer until the pipe ends, as it does when the parent closes
        it or dies in whatever way.
        """
        for other in inherited:
            # else our copy would keep a sibling's pipe open after the parent is gone
            other.close()
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
        ):  # a terminal sends these to everybody; the parent decides what follows
            signal.signal(number, signal.SIG_IGN)
        with contextlib.suppress(EOFError, OSError):
            while True:
                request = json.loads(pipe.recv_bytes())
                try:
                    reply = json.dumps(self.share(worker, request))
                except Exception as error:
                    reply = json.dumps(
                        {"worker error": f"worker {worker}: {told(error)}"}
                    )
                pipe.send_bytes(reply.encode())
