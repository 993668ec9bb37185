"""A GPU to look into: CUDA's threads, run one after the other, in Python.

    def doubled(cuda, y, x, count):
        at = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        if at < count:
            y[at] = 2 * x[at]

    launch(doubled, 3, 4, y, x, 10)       # 3 blocks of 4 threads; returns Counts

`cuda` knows which thread is running, and has the names of Numba's `numba.cuda`. Arrays
are read and written one cell at a time. A thread that must wait for others hands over
with `yield`, as in `yield cuda.syncthreads()`: that word is ours, and no thread of the
operating system is needed, so kernels run in a browser, too.

On a GPU a mistake with memory mostly gives wrong numbers, now and then, without a word.
Here it raises a `Fault` that names the threads and the cell: an index out of bounds, a
cell that nobody has written, a race, a barrier that not all threads reach.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

WARP = 32  # threads that go through a kernel together
SEGMENT = 32  # numbers of 4 bytes that global memory delivers in one transaction
BANKS = 32  # of shared memory: each serves one cell at a time


class Fault(Exception):
    """A kernel does what CUDA does not allow."""


class OutOfBounds(Fault):
    """A thread reads or writes beyond an array."""


class Unwritten(Fault):
    """A thread reads a cell of shared memory that nobody has written."""


class Race(Fault):
    """Two threads use a cell, one of them writes, and nothing says who is first."""


class Stuck(Fault):
    """A thread waits for others that never come."""


class Pair(NamedTuple):
    """Two numbers, as CUDA's dim3 without z."""

    x: int
    y: int = 1


@dataclass(frozen=True)
class Counts:
    """The cost of a launch."""

    reads: int  # numbers read from global memory
    writes: int  # numbers written there
    transactions: int  # groups of 32 neighbouring numbers that warps moved for that
    shared: int  # reads and writes of shared memory
    conflicts: int  # times that a warp waited there: two cells lie in one bank
    barriers: int  # times that a block waited for all its threads
    longest: int  # reads and writes of the thread that has the most


class Thread:
    """One thread; what a kernel gets as `cuda`."""

    def __init__(self, block: Pair, thread: Pair, grid: Pair, threads: Pair, gpu: _Gpu):
        self.blockIdx, self.threadIdx = block, thread
        self.gridDim, self.blockDim = grid, threads
        self.shared = SimpleNamespace(array=self._shared)
        self.accesses: Counter[Any] = Counter()
        self.asked: Any = None  # what it has asked for and not yet waited for
        self._gpu, self._arrays = gpu, 0

    @property
    def number(self) -> int:
        """Its number in its block; warps are cut from these."""
        return self.threadIdx.y * self.blockDim.x + self.threadIdx.x

    def syncthreads(self) -> Any:
        """Wait for all threads of the block: `yield cuda.syncthreads()`."""
        self.asked = ("a barrier", None, 0)
        return self.asked

    def shfl_xor(self, value: Any, step: int) -> Any:
        """The value of the warp's thread `number ^ step`: `yield cuda.shfl_xor(..)`."""
        self.asked = ("a shuffle", value, step)
        return self.asked

    def must_not_wait(self) -> None:
        """Stuck where it goes on although it has asked to wait."""
        if self.asked:
            says = f"{self} asks for {self.asked[0]}, and does not wait"
            raise Stuck(f"{says}: write `yield` before the call")

    def _shared(self, shape: int | Sequence[int]) -> Memory:
        self._arrays += 1
        return self._gpu.shared_array(self._arrays, shape)

    def __str__(self) -> str:
        block, thread = (
            str(each.x) if size.y == 1 else f"({each.x}, {each.y})"
            for each, size in (
                (self.blockIdx, self.gridDim),
                (self.threadIdx, self.blockDim),
            )
        )
        return f"thread {thread} of block {block}"


class Memory:
    """An array as threads see it: one cell at a time, checked and counted."""

    def __init__(self, name: str, array: np.ndarray, gpu: _Gpu, shared: bool = False):
        self.array, self.shape, self.shared = array, array.shape, shared
        self._name, self._gpu = name, gpu
        # for each cell the threads that used it, and after which barrier
        self._used: dict[str, dict[int, dict[Thread, int]]] = {
            "reads": defaultdict(dict),
            "writes": defaultdict(dict),
        }

    def __getitem__(self, index: Any) -> Any:
        cell, name = self._use(index, "reads")
        if self.shared and cell not in self._used["writes"]:
            raise Unwritten(
                f"{self._gpu.now} reads {name}, which nobody has written: shared "
                "memory holds whatever was there before"
            )
        return self.array.flat[cell]

    def __setitem__(self, index: Any, value: Any) -> None:
        cell, name = self._use(index, "writes")
        if np.ndim(value):
            raise Fault(f"{self._gpu.now} writes a whole array to {name}")
        self.array.flat[cell] = value

    def _use(self, index: Any, does: str) -> tuple[int, str]:
        """The cell's number and name; Fault where it is not there, or in a race."""
        who, phase = self._gpu.now, self._gpu.phase
        where = index if isinstance(index, tuple) else (index,)
        name = f"{self._name}[{', '.join(map(str, where))}]"
        who.must_not_wait()
        whole = all(isinstance(k, (int, np.integer)) for k in where)
        if not whole or len(where) != self.array.ndim:
            raise Fault(
                f"{who} {does} {name}: one cell takes {self.array.ndim} whole "
                f"number{'s' * (self.array.ndim > 1)}"
            )
        if not all(0 <= k < n for k, n in zip(where, self.shape, strict=True)):
            size = " x ".join(map(str, self.shape))
            raise OutOfBounds(f"{who} {does} {name}, and {self._name} has {size} cells")
        cell = int(np.ravel_multi_index(where, self.shape))
        for did in ("writes",) if does == "reads" else ("writes", "reads"):
            for other, then in self._used[did].get(cell, {}).items():
                apart = other.blockIdx != who.blockIdx
                if other is not who and (apart or then == phase):
                    why = "blocks do not wait for each other"
                    why = why if apart else "no barrier stands between the two"
                    both = f"{who} {does} {name}, which {other} {did}"
                    raise Race(f"{both}, and {why}: either may be first")
        self._used[does][cell][who] = phase
        line = sys._getframe(2).f_lineno  # the kernel's
        who.accesses[self, does, line] += 1
        turn = who.accesses[self, does, line]
        warp = who.blockIdx, who.number // WARP
        self._gpu.groups[self, does, line, turn, warp].append(cell)
        return cell, name


Run = Generator[Any, Any, None]


class _Gpu:
    """One launch: who is running now, after how many barriers, and what it has cost."""

    def __init__(self) -> None:
        self.now: Thread
        self.phase = self.barriers = self.longest = 0
        self.groups: dict[Any, list[int]] = defaultdict(list)  # cells, by instruction

    def shared_array(self, number: int, shape: int | Sequence[int]) -> Memory:
        """A block's array of this number: all its threads get the same."""
        if number not in self.arrays:
            name = "shared" if number == 1 else f"shared array {number} "
            self.arrays[number] = Memory(name, np.empty(shape), self, shared=True)
        return self.arrays[number]

    def block(self, kernel: Callable[..., Any], threads: list[Thread], given: list):
        """Run a block: each thread up to the next barrier, then all go on."""
        self.arrays: dict[int, Memory] = {}
        runs = {thread: _run(kernel, thread, given) for thread in threads}
        while runs:
            waiting = []
            for first in range(0, len(threads), WARP):
                waiting += self.warp(threads[first : first + WARP], runs)
            self.phase += 1
            self.barriers += bool(waiting)
            places = {tuple(_lines(runs[thread])): thread for thread in waiting}
            if waiting and len(waiting) < len(threads):
                gone = next(each for each in threads if each not in runs)
                stuck(runs, waiting[0], "a barrier", gone, "has ended")
            if len(places) > 1:
                one, other, *_ = places.values()
                stuck(runs, one, "a barrier", other, "waits at another one")
        most = max(each.accesses.total() for each in threads)
        self.longest = max(self.longest, most)

    def warp(self, threads: list[Thread], runs: dict[Thread, Run]) -> list[Thread]:
        """Run a warp's threads, and exchange numbers, until all wait or have ended."""
        brought = dict.fromkeys(threads)
        while True:
            asked = {}
            for self.now in [each for each in threads if each in runs]:
                try:
                    given = runs[self.now].send(brought[self.now])
                except StopIteration:
                    del runs[self.now]
                    continue
                if given is None or given is not self.now.asked:
                    says = "a kernel yields cuda.syncthreads() or a shuffle, only these"
                    runs[self.now].throw(Stuck(says))
                asked[self.now], self.now.asked = given, None
            shuffling = [
                who for who, (what, *_) in asked.items() if what == "a shuffle"
            ]
            if not shuffling:
                return [*asked]
            for away in [each for each in threads if each not in shuffling]:
                does = "waits at a barrier" if away in asked else "has ended"
                stuck(runs, shuffling[0], "a shuffle", away, does)
            for self.now, (_, _, step) in asked.items():
                partner = self.now.number % WARP ^ step
                if partner >= len(threads):
                    says = f"its warp has {len(threads)} threads, none is {partner}"
                    runs[self.now].throw(Stuck(f"{self.now} asks beyond: {says}"))
                brought[self.now] = asked[threads[partner]][1]

    def counts(self) -> Counts:
        """The cost so far."""
        found: Counter[str] = Counter()
        for (memory, does, *_), cells in self.groups.items():
            if memory.shared:
                banks = Counter(cell % BANKS for cell in {*cells})
                found["shared"] += len(cells)
                found["conflicts"] += max(banks.values()) - 1
            else:
                found[does] += len(cells)
                found["transactions"] += len({cell // SEGMENT for cell in cells})
        names = ("reads", "writes", "transactions", "shared", "conflicts")
        kept = {name: found[name] for name in names}
        return Counts(**kept, barriers=self.barriers, longest=self.longest)


def _run(kernel: Callable[..., Any], thread: Thread, given: list) -> Run:
    """A thread's way through a kernel, which has a `yield` or has none."""
    run = kernel(thread, *given)
    if inspect.isgenerator(run):
        yield from run
    thread.must_not_wait()


def _lines(run: Any) -> list[int]:
    """The lines at which a thread waits, that of a helper it has called last."""
    lines = []
    while inspect.isgenerator(run) and run.gi_frame:
        lines.append(run.gi_frame.f_lineno)
        run = run.gi_yieldfrom
    return lines


def stuck(runs: dict[Thread, Run], who: Thread, at: str, other: Thread, does: str):
    """Stuck, raised in the line where a thread waits."""
    runs[who].throw(Stuck(f"{who} waits at {at} for {other}, which {does}"))


def launch(
    kernel: Callable[..., Any],
    grid: int | tuple[int, int],
    block: int | tuple[int, int],
    *arguments: Any,
) -> Counts:
    """Run `kernel(cuda, *arguments)` in `grid` blocks of `block` threads, numbers or
    pairs (x, y). Arrays are written in place. Fault where CUDA's rules are broken.
    """
    grid, block = (
        Pair(*each) if isinstance(each, tuple) else Pair(int(each))
        for each in (grid, block)
    )
    gpu, names = _Gpu(), [*inspect.signature(kernel).parameters][1:]
    names += [f"argument {k}" for k in range(len(names) + 1, len(arguments) + 1)]
    given = [
        Memory(name, each, gpu) if isinstance(each, np.ndarray) else each
        for name, each in zip(names, arguments, strict=False)
    ]
    for number in np.ndindex(grid.y, grid.x):
        places = [Pair(x, y) for y, x in np.ndindex(block.y, block.x)]
        at = Pair(*number[::-1])
        gpu.block(kernel, [Thread(at, k, grid, block, gpu) for k in places], given)
    return gpu.counts()
