"""What a step hands on to the next, such as the state of a network inside a text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..backend import to_host
from ..errors import RunError
from .discovery import TaskError
from .streams import Batch

Pieces = list[tuple[int, int]]  # (start, stop) of each piece of a batch


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

    def __init__(self, pieces: Pieces, step: int = 0):
        super().__init__()
        self.pieces, self._first = pieces, step
        self._due: dict[int, int] = {}  # piece number -> the step that takes it up

    def before(self, number: int, step: int) -> Batch | None:
        """What a piece takes up in this step; None where it starts afresh.

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
            raise TaskError(
                "loss() must give a carry of the same names for all pieces of a step, "
                "or None for all"
            )
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
        joined, examples = self.joined(numbers), self.pieces[-1][1]
        rows = [np.arange(*self.pieces[number]) for number in numbers]
        whole = {}
        for name, x in joined.items():
            whole[name] = np.zeros((examples, *x.shape[1:]), x.dtype)
            whole[name][np.concatenate(rows)] = x
        return whole
