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
from ..traced import each_in
from .exercise import Exercise, Function, Verdict, check_signature, exercise, is_empty

LARGE = 100  # beyond, sigmoid and softmax are flat, and gradients are rounding errors


def recorded(**words: Any) -> Callable[[Function], Recorded]:
    """As `exercise`, for a solution f(xp, ...). Cases are without xp."""
    return exercise(kind=Recorded, **words)


class Recorded(Exercise):
    """An exercise whose answer takes xp."""

    def called(self, answer: Function) -> Function:
        """An answer on NumPy. One that is empty is not written yet."""

        @functools.wraps(answer)
        def on_numpy(*arguments: Any) -> Any:
            found = answer(np, *arguments)
            if found is None and is_empty(answer):
                raise NotImplementedError
            return found

        first, *others = inspect.signature(answer).parameters.values()
        if first.kind is not first.VAR_POSITIONAL:
            vars(on_numpy)["__signature__"] = inspect.Signature(others)
        return on_numpy

    def case(self, number: int) -> tuple:
        """The arguments of case `number`, xp = NumPy first."""
        return np, *super().case(number)

    def judge(self, answer: Function, explain: bool = True) -> Verdict:
        """The values on NumPy, then gradients on the tape, once more in float32."""
        if callable(answer):
            try:
                check_signature(answer, self.function, [np, *self.cases()[0].copies()])
            except Wrong as problem:
                return Verdict("wrong", str(problem))
        verdict = super().judge(answer, explain)
        if verdict.state != "right":
            return verdict
        tried = self.on_tape()
        for case, demand in tried:
            try:
                self._compare_gradients(answer, case, demand)
            except Wrong as problem:
                says = f"its values are right on NumPy, but {problem}\n{case}"
                return Verdict("wrong", says)
        count = len(tried) - 1  # one of them twice
        return Verdict(
            "right", f"{verdict.text}, and on the tape the gradients of {count}"
        )

    def on_tape(self) -> list[tuple[Case, Demand]]:
        """The cases whose gradients are compared; the first once more in float32."""
        tried = [case for case in self.cases() if _is_ordinary(case.copies())]
        single, usual = each_in(_single, tried[0].arguments), self.demand.tolerance
        return [
            *((case, Demand(max(1e-9, usual))) for case in tried),
            (Case(tried[0].number, single, "in float32"), Demand(1e-3)),
        ]

    def _compare_gradients(self, answer: Function, case: Case, demand: Demand) -> None:
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
            compare(mine, right, demand, f"on the tape the gradient of {name}")


def _arrays(value: Any, name: str) -> list[tuple[str, Any]]:
    """The arrays in an argument, each with its name, in the order of `gradients`."""
    if isinstance(value, dict):
        return [pair for key, each in value.items() for pair in _arrays(each, key)]
    if isinstance(value, (list, tuple)):
        return [pair for each in value for pair in _arrays(each, name)]
    return [(name, value)] if isinstance(value, np.ndarray) else []


def _single(x: Any) -> Any:
    return x.astype(np.float32) if isinstance(x, np.ndarray) else x


def _is_ordinary(arguments: list[Any]) -> bool:
    """Whether all numbers are finite and not very large."""
    return all(
        np.isfinite(each).all() and abs(each).max() < LARGE
        for _, each in _arrays(arguments, "")
    )
