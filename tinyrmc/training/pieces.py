"""A batch in pieces: whose they are, what they hand on, what their metrics add up to.

A batch is cut so that only a piece's activations are in memory at once; piece i belongs
to worker i mod n, of the workers of all ranks. That depends on the size of the batch
and the number of workers alone, so it is the same in every step, and a piece can carry
something on from step to step: the state of a network in the middle of a text.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..backend import to_host
from ..errors import RunError
from .discovery import TaskError
from .streams import Batch

Sums = dict[str, tuple[Any, Any]]  # {metric: (sum, count)}, numbers or 0-d arrays


def micro_batches(count: int, size: int, workers: int) -> list[tuple[int, int]]:
    """(start, stop) of the pieces of `count` examples: equal to within one, at most
    `size` long, and as many for each worker.
    """
    number = min(count, workers * -(-count // (size * workers)))
    bounds = [count * k // number for k in range(number + 1)]
    return list(itertools.pairwise(bounds))


@dataclasses.dataclass(frozen=True)
class Shares:
    """The shares of the workers of all ranks in the pieces of a batch.

    pieces: (start, stop) of each piece.
    first: our first worker among those of all ranks.
    workers: how many workers are ours.
    world_size: how many workers there are.
    """

    pieces: list[tuple[int, int]]
    first: int = 0
    workers: int = 1
    world_size: int = 1

    def of(self, worker: int) -> range:
        """The numbers of the pieces of one of our workers."""
        return range(self.first + worker, len(self.pieces), self.world_size)

    @property
    def ours(self) -> list[int]:
        """The numbers of the pieces of all our workers, in the order of the batch."""
        return sorted(number for k in range(self.workers) for number in self.of(k))


class Carry(dict[int, Batch]):
    """Piece number -> the arrays that this piece handed on, one row an example.

    A worker that is a process keeps those of its own pieces, so nothing is sent in a
    step. The process that saves checkpoints has them fetched (`joined`, `take`).

    Each belongs to the one step that takes it up. That is checked, because what a
    killed process had is gone, and a step that was interrupted has moved some pieces
    and not others.

    Args:
        pieces: (start, stop) of all pieces of a batch.
        step: the next step; pieces that carry nothing start afresh there.
    """

    def __init__(self, pieces: list[tuple[int, int]], step: int = 0):
        super().__init__()
        self.pieces, self._first = pieces, step
        self._due: dict[int, int] = {}  # piece number -> the step that takes it up

    def before(self, number: int, step: int) -> Batch | None:
        """The carry of a piece for this step; None where it starts afresh.

        RunError if it belongs to another step.
        """
        due = self._due.get(number, self._first)
        if due != step:
            raise RunError(
                f"step {step} cannot go on where the last one stopped: what piece "
                f"{number} carries is for step {due} (a worker process has ended, or a "
                "step was interrupted); resume from the checkpoint"
            )
        return self.get(number)

    def keep(self, number: int, arrays: Batch | None, step: int) -> None:
        """Let a piece take this up in `step`."""
        self._due[number] = step
        self.pop(number, None)
        if arrays is not None:
            self[number] = arrays

    def joined(self, numbers: Sequence[int]) -> Batch:
        """The arrays of some pieces, one piece after the other, on the host.

        Empty if they carry nothing. Waits for the device.
        """
        carried = [self[number] for number in numbers if number in self]
        if len(carried) not in (0, len(numbers)) or len({*map(tuple, carried)}) > 1:
            raise TaskError("loss() must carry the same names for all pieces of a step")
        return {
            name: np.concatenate([to_host(arrays[name]) for arrays in carried])
            for name in (carried[0] if carried else ())
        }

    def take(self, numbers: Sequence[int], arrays: Batch, step: int) -> None:
        """Let some pieces take up, in `step`, what `joined` gave of them."""
        place = 0
        for number in numbers:
            start, stop = self.pieces[number]
            rows = slice(place, place + stop - start)
            place += stop - start
            part = {name: x[rows] for name, x in arrays.items()}
            self.keep(number, part or None, step)

    def whole(self, numbers: Sequence[int]) -> Batch:
        """The carry of a whole batch, on the host, zero outside of these pieces."""
        joined = self.joined(numbers)
        examples = self.pieces[-1][1]
        rows = [np.arange(*self.pieces[number]) for number in numbers]
        whole = {}
        for name, x in joined.items():
            whole[name] = np.zeros((examples, *x.shape[1:]), x.dtype)
            whole[name][np.concatenate(rows)] = x
        return whole


class MetricAccumulator:
    """Running (sum, count) of each metric: pieces, workers and ranks add up to it.

    The sums stay on the device until `means` or `plain`, which wait for it.
    """

    def __init__(self, saved: Mapping[str, Any] | None = None):
        self.sums: Sums = dict(saved or {})

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Add {name: (sum, count)}."""
        for name, (total, count) in metrics.items():
            if name in self.sums:  # adding to zero is an operation on a GPU
                before = self.sums[name]
                total, count = before[0] + total, before[1] + count
            self.sums[name] = (total, count)

    def clear(self) -> None:
        """Begin anew."""
        self.sums = {}

    def keep_largest(self, name: str, total, count, xp) -> None:
        """Let `name` be the pair with the largest mean so far.

        Compared crosswise, which is exact for integers; nothing waits.
        """
        most, of = self.sums.get(name, (0, 0))
        larger = (of == 0) | (total * of > most * count)
        if hasattr(larger, "shape"):
            total, count = xp.where(larger, total, most), xp.where(larger, count, of)
        elif not larger:  # ranks have exchanged plain numbers
            total, count = most, of
        self.sums[name] = (total, count)

    def means(self) -> dict[str, float]:
        """{name: mean}; NaN where nothing was counted."""
        return {
            name: float(total) / float(count) if count else float("nan")
            for name, (total, count) in self.plain().items()
        }

    def plain(self) -> Sums:
        """Sums and counts as Python numbers, to the last bit: what JSON can hold."""
        return {
            name: (to_host(total).item(), to_host(count).item())
            for name, (total, count) in self.sums.items()
        }
