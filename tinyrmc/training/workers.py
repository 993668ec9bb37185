"""Workers that share a batch: forked processes, or threads where there is no safe fork.

Each worker runs one tape at a time over its pieces of the batch (`pieces.py`) and adds
into one flat gradient buffer of its own, and the buffers are added in worker order: no
locks, no lost updates, and the same bits every time for a given number of workers,
whether these are threads or processes.

Processes are the faster kind on a CPU, because Python's lock lets only one thread at a
time run Python: a step at 4 slots x 64 units is a great many small NumPy calls. A child
is forked: it starts at once, with everything the parent has built. JSON and the bytes
of arrays pass through its pipe, never pickle; arrays made by `shared_zeros` before the
fork belong to both. Threads serve where there is no safe fork (macOS, Windows); in a
free-threaded Python they are as good as processes. Where neither can be had, as in a
browser, the shares are computed one after another. A GPU is fed by one worker.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import functools
import gc
import inspect
import json
import mmap
import multiprocessing

# its exit handler must be registered before ours, so as to run after it
import multiprocessing.util
import os
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import json_text
from ..errors import UserError, why
from .discovery import described

if TYPE_CHECKING:  # a browser lacks this module
    from multiprocessing.connection import Connection

# macOS has fork, but its system libraries do not survive one
CAN_FORK = sys.platform == "linux"
# False in a free-threaded Python, where threads are as good as processes
GIL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
# The variable that tells a command which process waits for it, for a command that is of
# no use without its parent.
PARENT = "TINYRMC_PARENT"
# The variables in which a launcher of MPI tells how many ranks it has started, and
# which one this is. PMIx tells only the latter.
LAUNCHERS = {
    "PMI_SIZE": "PMI_RANK",  # MPICH, Intel MPI, Microsoft MPI
    "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_RANK",  # Open MPI
    "SLURM_STEP_NUM_TASKS": "SLURM_PROCID",  # srun
}


class WorkerError(UserError, RuntimeError):
    """A worker process failed."""


class WorkerLost(WorkerError):
    """A worker process ended by itself, or could not be started."""


class LaunchError(UserError, RuntimeError):
    """The program was started on several ranks that cannot work together."""


def ranks_started() -> int:
    """The number of ranks that a launcher says it has started.

    If there are several, all but the first leave: the first says what is wrong.
    """
    size, rank = (
        max(int(os.environ.get(name, 0)) for name in names)
        for names in (LAUNCHERS, LAUNCHERS.values())
    )
    if size > 1 and rank > 0:
        raise SystemExit(0)
    return size


def orphaned() -> bool:
    """Whether the process that waits for this one has ended.

    That process has said so in the variable PARENT. Once it has ended, its children
    have another parent; on Windows they keep its number, so there nobody is an orphan.
    """
    parent = os.environ.get(PARENT)
    return parent is not None and os.name == "posix" and os.getppid() != int(parent)


@functools.cache
def can_thread() -> bool:
    """Whether this system can start a thread. If not, as in a browser, you are told."""
    thread = threading.Thread(target=int)
    try:
        thread.start()
    except RuntimeError:
        print("no threads here: the workers' shares are computed one after another")
        return False
    thread.join()
    return True


class Workers:
    """`count` workers, who all answer each request; the caller is worker 0.

    share: share(worker, request) gives a worker's reply. A method is held weakly: its
        object owns these workers, and when nobody else holds that object, it goes and
        their processes end. With processes, requests and replies are those of a
        `Child`, and what `share` changes in memory stays in its process, except for
        arrays made by `shared_zeros`.
    processes: fork the others when the first request comes; else they are threads.
    """

    def __init__(
        self, count: int, share: Callable[[int, Any], Any], processes: bool = False
    ):
        self.count = count
        self.processes = processes and count > 1
        method = inspect.ismethod(share)
        self._share = weakref.WeakMethod(share) if method else lambda: share
        self._pool: ThreadPoolExecutor | None = None
        self._children: list[Child] = []

    @property
    def apart(self) -> bool:
        """Whether other processes are at work, with a memory of their own."""
        return bool(self._children)

    def run(self, request: Any) -> list:
        """[share(worker, request) for each worker], computed side by side.

        WorkerError if a process failed, `WorkerLost` if it ended or cannot be started.
        """
        share = self._share()
        assert share is not None  # its owner, who is asking, still lives
        if self.count == 1 or not (self.processes or can_thread()):
            return [share(worker, request) for worker in range(self.count)]
        try:
            if self.processes:
                self.start()
                with _explained():
                    for child in self._children:
                        child.send(request)
                own = share(0, request)
                with _explained():
                    return [own, *(child.receive() for child in self._children)]
            self._pool = self._pool or ThreadPoolExecutor(
                self.count - 1, thread_name_prefix="tinyrmc-worker"
            )
            ours = contextvars.copy_context  # NumPy's errstate is part of it
            others = [
                self._pool.submit(ours().run, share, worker, request)
                for worker in range(1, self.count)
            ]
            return [share(0, request), *(other.result() for other in others)]
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

        def answering(worker):
            return lambda request: share()(worker, request)

        try:
            for worker in range(1, self.count):
                self._children.append(Child(answering(worker), f"worker {worker}"))
        except OSError as error:
            started = len(self._children)
            self.close()
            raise WorkerLost(
                f"cannot start worker {started + 2} of {self.count}: {why(error)}; "
                "give fewer --workers"
            ) from error

    def close(self) -> None:
        """End the other workers; a later request starts new ones."""
        if self._pool:
            self._pool.shutdown()
        for child in self._children:
            child.close()
        self._pool = None
        self._children = []


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """WorkerLost for what a pipe says when the process at its other end is gone."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise WorkerLost(
            "a worker process disappeared (killed, or out of memory?)"
        ) from error


# --- Forked processes that answer requests --------------------------------------------


def shared_zeros(count: int, dtype) -> np.ndarray:
    """A flat array of zeros in memory that processes forked later share."""
    dtype = np.dtype(dtype)
    memory = mmap.mmap(-1, max(1, count * dtype.itemsize))
    return np.frombuffer(memory, dtype, count)


# our ends of the pipes of all children, and these children
_pipes: weakref.WeakSet[Connection] = weakref.WeakSet()
_children: weakref.WeakSet[Child] = weakref.WeakSet()
_lock = threading.Lock()


def _after_fork() -> None:
    """Give a forked process a free lock: the one it copied may be held for ever."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Child:
    """A process that answers requests, one after the other, until it is closed.

    It ends with `close`, with this object, and with the parent, however that ends.

    answer: answer(request) in the child. Requests and answers must be what JSON can
        hold (numbers come back bit for bit); an answer may also be a dict of arrays.
    name: what to call it in the text of an error.
    """

    def __init__(self, answer: Callable[[Any], Any], name: str):
        context = multiprocessing.get_context("fork")
        # one at a time: a child must know of every pipe that it has inherited
        with _lock:
            self._pipe, theirs = context.Pipe()
            _pipes.add(self._pipe)
            process = context.Process(
                target=_live, args=(answer, name, theirs), daemon=True
            )
            # Python 3.12 warns of any thread at a fork. BLAS's are asleep, and know
            # about forks.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            theirs.close()
            _children.add(self)
        self.pid = process.pid
        self._ending = weakref.finalize(self, _end, os.getpid(), process, self._pipe)
        self._ending.atexit = False  # `_end_all` comes earlier

    def close(self) -> None:
        """End the process, whatever it is doing; safe to repeat."""
        # not by calling it, which does nothing once the interpreter shuts down
        if ending := self._ending.detach():
            _, end, arguments, _ = ending
            end(*arguments)

    def send(self, request: Any) -> None:
        """Ask for an answer. OSError if the process is gone."""
        self._pipe.send_bytes(json_text(request).encode())

    def receive(self) -> Any:
        """The next answer; waits for it.

        WorkerError with the child's words if it failed; EOFError or OSError if the
        process is gone.
        """
        reply = json.loads(self._pipe.recv_bytes())
        about = reply if isinstance(reply, dict) else {}
        if "worker error" in about:
            raise WorkerError(about["worker error"])
        if "arrays follow" in about:
            return {
                name: np.ndarray(shape, dtype, self._pipe.recv_bytes())
                for name, dtype, shape in about["arrays follow"]
            }
        return reply


def _live(answer: Callable[[Any], Any], name: str, pipe: Connection) -> None:
    """A child's life: answer until the pipe ends.

    The pipe ends when the parent closes it, or dies in whatever way.
    """
    # while we held copies of these ends, no pipe would end with the parent
    for other in _pipes:
        other.close()
    # a terminal sends these to everybody; the parent decides what follows
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()  # what the parent has built is its own to collect, a GPU's arrays too
    with contextlib.suppress(EOFError, OSError):
        while True:
            request = json.loads(pipe.recv_bytes())
            try:
                messages = _packed(answer(request))
            except Exception as error:
                failure = {"worker error": f"{name}: {described(error)}"}
                messages = [json_text(failure).encode()]
            for message in messages:
                pipe.send_bytes(message)


def _packed(reply: Any) -> list:
    """An answer as messages: JSON; for arrays what they are, then the bytes of each."""
    arrays = isinstance(reply, dict) and any(
        isinstance(x, np.ndarray) for x in reply.values()
    )
    if not arrays:
        return [json_text(reply).encode()]
    if objects := [name for name, x in reply.items() if x.dtype.hasobject]:
        raise TypeError(f"the array {objects[0]!r} holds Python objects")
    about = [[name, x.dtype.str, x.shape] for name, x in reply.items()]
    bodies = [x.tobytes() for x in reply.values()]
    return [json_text({"arrays follow": about}).encode(), *bodies]


def _end(parent: int, process: Any, pipe: Connection) -> None:
    if os.getpid() != parent:
        return  # a child's copy of what the parent will end
    # closing the pipe would not do: we would wait until the child's work is done
    process.kill()
    process.join()
    pipe.close()


@atexit.register
def _end_all() -> None:
    """Without this, multiprocessing would wait for children that ignore its SIGTERM."""
    for child in list(_children):
        child.close()
