"""Work that a GPU is asked for once, and then does again and again: a CUDA graph.

A step of a few hundred small operations costs the host more than the GPU. Captured as a
graph it is one call. What a graph holds are addresses and numbers, not names:

    what changes from step to step must lie in arrays that stay where they are;
    what a step keeps must be changed in place, for a new array would be a new address;
    nothing may wait for the GPU, or come from the host;
    its memory comes from a pool of its own, from which nobody else gets anything.

CuPy refuses cuBLAS in a capture: see products.py.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from .. import Switch

_collecting = Switch(True, lambda on: gc.enable() if on else gc.disable())


def working_stream(xp: ModuleType) -> Any:
    """A stream that can be captured, one for each GPU, so that the work of two Trainers
    stays in order. It becomes the current one of this thread.
    """
    xp.cuda.Device().synchronize()  # waits for what was asked for elsewhere
    return _stream(xp, xp.cuda.Device().id).use()


@functools.cache
def _stream(xp: ModuleType, device: int) -> Any:
    return xp.cuda.Stream(non_blocking=True)


class Graph:
    """Work to be captured on a stream, and its memory."""

    def __init__(self, xp: ModuleType, stream: Any):
        self.xp, self.stream = xp, stream
        # this pool may need what the common one keeps for later (waits, once)
        xp.get_default_memory_pool().free_all_blocks()
        self._pool = xp.cuda.MemoryPool()
        # a pool of CuPy's that is merely dropped does not give back its memory
        weakref.finalize(self, self._pool.free_all_blocks).atexit = False
        self._graph: Any = None

    @contextmanager
    def memory(self) -> Iterator[None]:
        """Inside, new arrays lie in the graph's own memory."""
        with self.xp.cuda.using_allocator(self._pool.malloc):
            yield

    def capture(self, work: Callable[[], object]) -> None:
        """Record what `work` asks of the GPU, so that `replay` can do it. Do the work
        before, inside `memory`: loading its kernels cannot be captured.
        """
        gc.collect()
        # which might free what belongs to another graph in between
        with _collecting.held(False), self.memory():
            self.stream.begin_capture()
            try:
                work()
            finally:
                self._graph = self.stream.end_capture()
        self._graph.upload(self.stream)

    def replay(self) -> None:
        """Do the recorded work; the host does not wait."""
        self._graph.launch(self.stream)
