"""Debugging exercises: a function that runs, and a line in it that is wrong.

The chapter shows the function as it is, with what goes wrong, and the learner mends it
in its cell. As long as it does what it did, nothing has been attempted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .exercise import Exercise, Mistake, Verdict, _alike, as_functions, exercise

Function = Callable[..., Any]
UNCHANGED = "it still does what it did: find the line"


def mended(broken: Mistake, **words: Any) -> Callable[[Function], Mended]:
    """As `exercise`, for a solution that mends `broken`, a function or what stands
    differently in the solution's text.
    """

    def make(solution: Function) -> Mended:
        plain = exercise(**words)(solution)
        answer = Mended(plain.function, plain.make_cases, plain.hints, plain.mistakes)
        vars(answer).update(vars(plain))
        (answer.broken,) = as_functions({"": broken}, solution).values()
        return answer

    return make


class Mended(Exercise):
    """An exercise that begins with a function that is wrong."""

    broken: Function

    def judge(self, answer: Function, explain: bool = True) -> Verdict:
        """`not attempted` while it gives what `broken` gives."""
        verdict = super().judge(answer, explain)
        if verdict.state == "wrong" and callable(answer) and self._is_broken(answer):
            return Verdict("not attempted", UNCHANGED)
        return verdict

    def _is_broken(self, answer: Function) -> bool:
        """Whether an answer gives what `broken` gives, in every case."""
        return all(
            _alike(
                self._outcome(answer, case),
                self._outcome(self.broken, case),
                self.demand,
                by_words=False,
            )
            for case in self.cases()
        )
