"""Forked processes that answer requests, and leave whenever their parent does.

A child is forked: it starts at once, with everything the parent has built. JSON and the
bytes of arrays pass through its pipe, never pickle; arrays made by `shared_zeros`
before the fork belong to both.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
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
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ..errors import UserError
from .discovery import described

# macOS has fork, but its system libraries do not survive one
CAN_FORK = sys.platform == "linux"


class WorkerError(UserError, RuntimeError):
    """A worker process failed or disappeared."""


def shared_zeros(count: int, dtype) -> np.ndarray:
    """A flat array of zeros in memory that processes forked later share."""
    dtype = np.dtype(dtype)
    memory = mmap.mmap(-1, max(1, count * dtype.itemsize))
    return np.frombuffer(memory, dtype, count)


# our ends of the pipes of all children, and these children
_pipes: weakref.WeakSet[Connection] = weakref.WeakSet()
_children: weakref.WeakSet[Child] = weakref.WeakSet()
_lock = threading.Lock()


class Child:
    """A process that answers requests, one after the other, until it is closed.

    It ends with `close`, with this object, and with the parent, however that ends.

    answer: answer(request) in the child. Requests and answers must be what JSON can
        hold (numbers come back bit for bit); an answer may also be a dict of arrays.
        What it changes stays in the child, except for arrays made by `shared_zeros`.
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
        self._pipe.send_bytes(json.dumps(request).encode())

    def receive(self) -> Any:
        """The next answer; waits for it.

        WorkerError with the child's words if it failed; EOFError or OSError if the
        process is gone.
        """
        reply = json.loads(self._pipe.recv_bytes())
        if not isinstance(reply, dict):
            return reply
        if "worker error" in reply:
            raise WorkerError(reply["worker error"])
        if "arrays follow" in reply:
            return {
                name: np.ndarray(shape, dtype, self._pipe.recv_bytes())
                for name, dtype, shape in reply["arrays follow"]
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
                messages = [json.dumps(failure).encode()]
            for message in messages:
                pipe.send_bytes(message)


def _packed(reply: Any) -> list:
    """An answer as messages: JSON; for arrays what they are, then the bytes of each."""
    if not _is_arrays(reply):
        return [json.dumps(reply).encode()]
    what = [[name, x.dtype.str, x.shape] for name, x in reply.items()]
    return [
        json.dumps({"arrays follow": what}).encode(),
        *(x.tobytes() for x in reply.values()),
    ]


def _is_arrays(reply: Any) -> bool:
    return isinstance(reply, dict) and any(
        isinstance(x, np.ndarray) for x in reply.values()
    )


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
