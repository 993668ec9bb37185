"""Debugging exercises: a function that runs, and a line in it that is wrong.

The chapter shows the function as it is, with what goes wrong, and the learner mends it
in its cell. As long as it does what it did, nothing has been attempted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .exercise import Exercise, Verdict, _alike, altered, exercise

Function = Callable[..., Any]
UNCHANGED = "it still does what it did: find the line"


def mended(broken: tuple[str, ...], **words: Any) -> Callable[[Function], Mended]:
    """As `exercise`, for a solution that mends what is `broken`: pieces of its text and
    what stands in their places.
    """
    return exercise(kind=Mended, broken=broken, **words)


@dataclass(eq=False, repr=False)
class Mended(Exercise):
    """An exercise that begins with a function that is wrong."""

    broken: Any = ()

    def __post_init__(self) -> None:
        super().__post_init__()
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
        return Verdict("not attempted", UNCHANGED)
