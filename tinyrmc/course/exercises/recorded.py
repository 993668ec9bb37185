"""Exercises whose answer takes the array library as its first argument, xp.

Such an answer runs on NumPy and on the tape. Its values are checked on the one, its
gradient on the other.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..assembly import gradients
from ..cases import Case
from ..compare import Demand, Wrong, compare
from ..limits import at_most, line_of_error
from .exercise import (
    Exercise,
    Verdict,
    as_functions,
    check_signature,
    exercise,
    is_empty,
)

Function = Callable[..., Any]
LARGE = 100  # beyond, sigmoid and softmax are flat, and gradients are rounding errors


def recorded(**words: Any) -> Callable[[Function], Recorded]:
    """As `exercise`, for a solution f(xp, ...). Cases, and mistakes that are
    functions, are without xp.
    """

    def make(function: Function) -> Recorded:
        words["mistakes"] = as_functions(words["mistakes"], function, _without_xp)
        return Recorded(function, exercise(**words)(_without_xp(function)))

    return make


class Recorded(Exercise):
    """An exercise with xp; `plain` is the same without it, on NumPy."""

    def __init__(self, function: Function, plain: Exercise):
        vars(self).update(vars(plain))
        self.function, self.plain = function, plain
        self.mistakes = {what: _with_xp(f) for what, f in plain.mistakes.items()}
        functools.update_wrapper(self, function)

    def cases(self) -> list[Case]:
        """The cases, without xp."""
        return self.plain.cases()

    def case(self, number: int) -> tuple:
        """The arguments of case `number`, xp = NumPy first."""
        return np, *self.plain.case(number)

    def slow(self, answer: Function) -> str:
        """On NumPy."""
        if answer in (self, self.function):
            return ""
        return self.plain.slow(_without_xp(answer))

    def judge(self, answer: Function, explain: bool = True) -> Verdict:
        """First the values on NumPy, then the gradient on the tape."""
        if not callable(answer):
            return self.plain.judge(answer, explain)
        try:
            check_signature(answer, self.function, [np, *self.cases()[0].copies()])
        except Wrong as problem:
            return Verdict("wrong", str(problem))
        verdict = self.plain.judge(_without_xp(answer), explain)
        if verdict.state != "right":
            return verdict
        tried = [case for case in self.cases() if _is_ordinary(case.copies())]
        for case in tried:
            try:
                self._compare_gradients(answer, case)
            except Wrong as problem:
                says = f"its values are right on NumPy, but {problem}\n{case}"
                return Verdict("wrong", says)
        return Verdict(
            "right", f"{verdict.text}, and on the tape the gradients of {len(tried)}"
        )

    def _compare_gradients(self, answer: Function, case: Case) -> None:
        try:
            with at_most(None, None):
                found = gradients(answer, case.copies())
        except Wrong:
            raise
        except Exception as problem:
            says = f": {problem}" if str(problem) else ""
            if "takes no Tensor" in says:
                says = ": a function of np meets what xp has made; take it from xp"
            says += line_of_error(problem.__traceback__)
            raise Wrong(
                f"on the tape it raises {type(problem).__name__}{says}"
            ) from problem
        expected = gradients(self.function, case.copies())
        names = [n for key, x in case.arguments.items() for n, _ in _arrays(x, key)]
        for name, mine, right in zip(names, found, expected, strict=True):
            compare(mine, right, Demand(), f"on the tape the gradient of {name}")


def _without_xp(function: Function) -> Function:
    """f(xp, ...) on NumPy. One that is empty is not written yet."""

    @functools.wraps(function)
    def on_numpy(*arguments: Any) -> Any:
        found = function(np, *arguments)
        if found is None and is_empty(function):
            raise NotImplementedError
        return found

    first, *others = inspect.signature(function).parameters.values()
    if first.kind is not first.VAR_POSITIONAL:
        vars(on_numpy)["__signature__"] = inspect.Signature(others)
    return on_numpy


def _with_xp(function: Function) -> Function:
    return lambda xp, *arguments: function(*arguments)


def _arrays(value: Any, name: str) -> list[tuple[str, Any]]:
    """The arrays in an argument, each with its name, in the order of `gradients`."""
    if isinstance(value, dict):
        return [pair for key, each in value.items() for pair in _arrays(each, key)]
    if isinstance(value, (list, tuple)):
        return [pair for each in value for pair in _arrays(each, name)]
    return [(name, value)] if isinstance(value, np.ndarray) else []


def _is_ordinary(arguments: list[Any]) -> bool:
    """Whether all numbers are finite and not very large."""
    return all(
        np.isfinite(each).all() and abs(each).max() < LARGE
        for _, each in _arrays(arguments, "")
    )
