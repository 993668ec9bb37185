"""Settings of the whole process that blocks of code change for a while.

A block that restores what it saw when it began leaves the setting wrong for good where
two threads overlap in it: the first one ends, and the second restores what the first
had set. A `Switch` keeps a list of those who hold it instead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Switch:
    """A setting that is the same in all threads. Its `value` is what the newest open
    block wants; where none is open, what it was made with, or `set` to.

    change: is called with each new value.
    """

    def __init__(self, value: Any, change: Callable[[Any], Any] | None = None):
        self.value, self._change = value, change
        # the usual value, and one of each open block, with the thread that opened it
        self._wanted: list[list[Any]] = [[value, None]]
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):  # a child has no thread that holds the lock
            os.register_at_fork(after_in_child=self._new_lock)

    def _new_lock(self) -> None:
        self._lock = threading.RLock()

    def set(self, value: Any) -> None:
        """Let this be the value, until the newest block that this thread has opened
        ends, or for good; open blocks of others come first.
        """
        with self._lock:
            here = threading.get_ident()
            own = [each for each in self._wanted if each[1] in (None, here)]
            own[-1][0] = value
            self._apply()

    @contextmanager
    def held(self, value: Any) -> Iterator[None]:
        """Inside the block this is the value, unless a later one wants another."""
        mine = [value, threading.get_ident()]
        try:
            with self._lock:
                self._wanted.append(mine)
                self._apply()
            yield
        finally:
            with self._lock:
                self._wanted = [each for each in self._wanted if each is not mine]
                self._apply()

    def _apply(self) -> None:
        value = self._wanted[-1][0]
        if value != self.value:
            self.value = value
            if self._change is not None:
                self._change(value)


_limits: list[Any] = []  # threadpoolctl's, of which the first knows how it was before


def _limit_blas(count: int | None) -> None:
    from threadpoolctl import threadpool_limits

    if count is not None:
        _limits.append(threadpool_limits(limits=count, user_api="blas"))
        return
    _limits[0].restore_original_limits()
    _limits.clear()


_threads = Switch(None, _limit_blas)


def blas_threads(count: int) -> Any:
    """Run the body with `count` BLAS threads, in all threads.

    Small matrices are much slower on several threads, and workers share a
    batch. Setting OPENBLAS_NUM_THREADS after NumPy was imported does nothing.
    """
    return _threads.held(count)
