"""Debugging exercises: a function that runs, and a line in it that is wrong.

The chapter shows the function as it is, with what goes wrong, and the learner mends it
in its cell. As long as it does what it did, nothing has been attempted, unless it has
one of the changes that people take for a mend: then `check` says why it is none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .exercise import Exercise, Function, Verdict, _alike, _source, altered, exercise

UNCHANGED = "it still does what it did: find the line"
NO_MEND = {
    ".detach(": "it takes the Tensor off the tape, as .data does",
    "list(": "the new list holds the same arrays, and who writes into them writes into "
    "those of the old list",
    "[:]": "of an array it is a view of the same numbers, of a list a new list of the "
    "same arrays",
    ".copy()": "the copy of a list holds the same arrays; copy what is written into",
}


def mended(broken: tuple[str, ...], **words: Any) -> Callable[[Function], Mended]:
    """As `exercise`, for a solution that mends `broken`: old, new, ... of its text."""
    return exercise(kind=Mended, broken=broken, **words)


@dataclass(eq=False, repr=False)
class Mended(Exercise):
    """An exercise that begins with a function that is wrong."""

    broken: Any = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.begun = _source(self.function)
        for old, new in zip(self.broken[::2], self.broken[1::2], strict=True):
            self.begun = self.begun.replace(old, new)
        self.broken = altered(self.function, *self.broken)

    def judge(self, answer: Function, explain: bool = True) -> Verdict:
        """`not attempted` while it gives what `broken` gives, in every case."""
        verdict = super().judge(answer, explain)
        if verdict.state != "wrong" or not callable(answer):
            return verdict
        for case in self.cases():
            outcomes = self._outcome(answer, case), self._outcome(self.broken, case)
            if not _alike(*outcomes, self.demand, by_words=False):
                return verdict
        try:
            text = inspect.getsource(answer)
        except (OSError, TypeError):
            return Verdict("not attempted", UNCHANGED)
        for piece, why in NO_MEND.items():
            if text.count(piece) > self.begun.count(piece):
                return Verdict("wrong", f"{piece} is no mend: {why}")
        return Verdict("not attempted", UNCHANGED)
