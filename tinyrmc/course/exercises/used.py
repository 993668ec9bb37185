"""Exercises whose answer is not compared as it is but by what a program makes of it:
classes, and functions that take a class's objects.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..cases import Case
from .exercise import Exercise, Verdict, _source, as_functions, exercise, is_empty

Function = Callable[..., Any]


def used(
    run: Function, methods: Sequence[str] = (), **words: Any
) -> Callable[[Any], Used]:
    """As `exercise`, where run(answer, *case) is what is compared.

    methods: those of a class that the learner writes.
    """

    def make(solution: Any) -> Used:
        words["mistakes"] = as_functions(words["mistakes"], solution)
        inner = exercise(**words)(_use(run, solution))
        return Used(solution, inner, run, methods)

    return make


class Used(Exercise):
    """An exercise whose answer is run by a program."""

    def __init__(self, solution: Any, inner: Exercise, run: Function, methods):
        vars(self).update(vars(inner))
        self.function, self.inner, self.run = solution, inner, run
        self.methods = methods
        inner.mistakes = {what: _use(run, f) for what, f in inner.mistakes.items()}
        inner._how_to_get = self._how_to_get  # type: ignore[method-assign]
        functools.update_wrapper(self, solution, updated=())

    def use(self, answer: Any = None) -> Function:
        """Use an answer, a function of a case's arguments, as `check` does.

        Without an answer: with the solution.
        """
        return _use(self.run, answer or self.function)

    def cases(self) -> list[Case]:
        """The cases, always the same ones."""
        return self.inner.cases()

    def yours(self, answer: Any) -> Any:
        """`answer` if it is right, else the solution; classes as they are."""
        found = super().yours(answer)
        return self.function if found is self else found

    def solution(self) -> None:
        """Print the solution."""
        print(_source(self.function), end="")

    def slow(self, answer: Any) -> str:
        """The cost of what the program makes of it."""
        if answer in (self, self.function):
            return ""
        return self.inner.slow(_use(self.run, answer))

    def judge(self, answer: Any, explain: bool = True) -> Verdict:
        """The verdict of `inner`, once it is written."""
        missing = [name for name in self.methods if _is_missing(answer, name)]
        if is_empty(answer) or (missing and len(missing) == len(self.methods)):
            if callable(answer):
                return self.inner.judge(lambda *case: None)
        if missing and isinstance(answer, type):
            return Verdict("wrong", f"not written yet: {', '.join(missing)}")
        return self.inner.judge(
            _use(self.run, answer) if callable(answer) else answer, explain
        )

    def _how_to_get(self, case: Case, answer: Any) -> str:
        name, arguments = self.name, f"(*ex.{self.name}.case({case.number}))"
        return (
            f"\nTry it: ex.{name}.use({name}){arguments}; right is "
            f"ex.{name}.use(){arguments}"
        )


def _use(run: Function, answer: Any) -> Function:
    """The function of a case's arguments that `run` makes of an answer."""

    def use(*case: Any) -> Any:
        return run(answer, *case)

    functools.update_wrapper(use, answer, updated=())
    _, *others = inspect.signature(run).parameters.values()
    if others[0].kind is not others[0].VAR_POSITIONAL:  # then the answer's own holds
        vars(use)["__signature__"] = inspect.Signature(others)
    return use


def _is_missing(answer: Any, name: str) -> bool:
    """Whether a class lacks a method, or has one without anything in it."""
    method = getattr(answer, name, None)
    return isinstance(answer, type) and (method is None or is_empty(method))
