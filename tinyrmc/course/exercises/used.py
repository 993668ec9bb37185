"""Exercises whose answer is not compared as it is but by what a program makes of it:
classes, and functions that take a class's objects.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..cases import Case
from .exercise import UNWRITTEN, Exercise, Function, Verdict, exercise, is_empty


def used(
    run: Function, methods: Sequence[str] = (), **words: Any
) -> Callable[[Any], Used]:
    """As `exercise`, where run(answer, *case) is what is compared.

    methods: those of a class that the learner writes.
    """
    return exercise(kind=Used, run=run, methods=methods, **words)


@dataclass(eq=False, repr=False)
class Used(Exercise):
    """An exercise whose answer is run by a program."""

    run: Function = print
    methods: Sequence[str] = ()

    def called(self, answer: Any) -> Function:
        """The function of a case's arguments that `run` makes of an answer."""

        def use(*case: Any) -> Any:
            return self.run(answer, *case)

        functools.update_wrapper(use, answer, updated=())
        _, *others = inspect.signature(self.run).parameters.values()
        if others[0].kind is not others[0].VAR_POSITIONAL:  # else the answer's holds
            vars(use)["__signature__"] = inspect.Signature(others)
        return use

    def use(self, answer: Any = None) -> Function:
        """Use an answer, a function of a case's arguments, as `check` does.

        Without an answer: with the solution.
        """
        return self.called(answer or self.function)

    def yours(self, answer: Any) -> Any:
        """`answer` if it is right, else the solution; classes as they are."""
        found = super().yours(answer)
        return self.function if found is self else found

    def judge(self, answer: Any, explain: bool = True) -> Verdict:
        """The verdict once all that is asked for is written."""
        missing = [name for name in self.methods if _is_missing(answer, name)]
        if is_empty(answer) or (missing and len(missing) == len(self.methods)):
            if callable(answer):
                return UNWRITTEN
        if missing and isinstance(answer, type):
            return Verdict("wrong", f"not written yet: {', '.join(missing)}")
        return super().judge(answer, explain)

    def _how_to_get(self, case: Case, answer: Any) -> str:
        name, arguments = self.name, f"(*ex.{self.name}.case({case.number}))"
        return (
            f"\nTry it: ex.{name}.use({name}){arguments}; right is "
            f"ex.{name}.use(){arguments}"
        )


def _is_missing(answer: Any, name: str) -> bool:
    """Whether a class lacks a method, or has one without anything in it."""
    method = getattr(answer, name, None)
    return isinstance(answer, type) and (method is None or is_empty(method))
