"""What an exercise is: a solution, cases to try an answer on, hints, and the mistakes
that people make.

    @exercise( cases=lambda rng: [(rng.normal(size=(3, 4)),), (1e3 * rng.normal(size=(2,
        5)),)], hints=["The largest entry of each row may be subtracted first."],
        mistakes={"the softmax runs over the wrong axis": lambda x: special.softmax(x,
        axis=0)},
    )
    def softmax(x):
        \"""What is asked for, with shapes: the learner reads this.\"""
        ...

makes `softmax` an `Exercise`. An answer is compared with the solution on every case,
entry by entry, in float64. One that is wrong is also compared with the mistakes: it is
told when it agrees with one of them on every case.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import io
import re
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...engine import Tensor

SEED = 2018
LONGEST = 120  # characters of an argument that are shown


class Verdict(NamedTuple):
    """What has been found about an answer."""

    state: str  # "right", "wrong" or "not attempted"
    text: str

    def __str__(self):
        return f"{self.state}: {self.text}"


class Wrong(Exception):
    """An answer differs from the solution; says where."""


class Exercise:
    """A function to be written by the learner, and everything that is known about it.

    Calling it calls the solution.
    """

    def __init__(
        self,
        solution: Callable,
        cases: Callable,
        hints: Sequence[str],
        mistakes: dict[str, Callable],
        tolerance: float,
    ):
        self.__name__, self.__doc__, self.__wrapped__ = (
            solution.__name__,
            solution.__doc__,
            solution,
        )
        self.hints, self.mistakes, self.tolerance = tuple(hints), mistakes, tolerance
        self._cases, self._hints_given = cases, 0

    def __call__(self, *arguments, **named):
        return self.__wrapped__(*arguments, **named)

    def cases(self) -> list[tuple]:
        """The arguments of each case, always the same."""
        return [
            *self._cases(
                np.random.default_rng([SEED, zlib.crc32(self.__name__.encode())])
            )
        ]

    def check(self, answer) -> None:
        """Print whether `answer`, a function, does what is asked."""
        print(self.judge(answer))

    def hint(self) -> None:
        """Print the next hint."""
        if self._hints_given == len(self.hints):
            print(f"No more hints; ex.{self.__name__}.solution() shows the solution.")
            return
        print(
            f"hint {self._hints_given + 1} of {len(self.hints)}: "
            f"{self.hints[self._hints_given]}"
        )
        self._hints_given += 1

    def solution(self) -> None:
        """Print the solution's text, below that of the private functions it calls."""
        text = inspect.getsource(self.__wrapped__)
        text = text[
            re.search("^def ", text, re.MULTILINE).start() :
        ]  # after the decorator
        private = {
            name: self.__wrapped__.__globals__.get(name)
            for name in re.findall(r"\b_\w+", text)
        }
        helpers = [
            inspect.getsource(each)
            for each in private.values()
            if inspect.isfunction(each)
        ]
        print("\n\n".join(each.rstrip() + "\n" for each in [*helpers, text]), end="")

    def judge(self, answer) -> Verdict:
        """What is to be said about `answer`."""
        if not callable(answer):
            return Verdict(
                "wrong",
                f"check takes the function itself, not {_kind(answer)}: "
                f"check({self.__name__}), without its arguments",
            )
        cases = self.cases()
        for number, case in enumerate(cases, 1):
            try:
                found = self._try(answer, case)
            except NotImplementedError:
                found = None
            except Wrong as problem:
                return Verdict(
                    "wrong",
                    f"{problem}, "
                    f"{self._describe(number, case)}{self._diagnosis(answer, cases)}",
                )
            if found is None:
                return Verdict(
                    "not attempted",
                    "the function returns nothing yet (is a `return` missing?)",
                )
        return Verdict("right", f"{len(cases)} cases agree")

    def _try(self, answer, case):
        """What `answer` gives; Wrong where that is not what the solution gives."""
        arguments = copy.deepcopy(case)
        with np.errstate(all="ignore"):  # what overflows shows in the numbers
            try:
                found = answer(*arguments)
            except NotImplementedError:
                raise
            except Exception as problem:
                says = f": {problem}" if str(problem) else ""
                raise Wrong(f"it raises {type(problem).__name__}{says}") from problem
            expected = self(*copy.deepcopy(case))
        if found is None or found is Ellipsis:
            return None
        for name, before, after in zip(self._names(), case, arguments, strict=True):
            if not _same(before, after):
                raise Wrong(
                    f"it changes its argument {name}, which others may still need"
                )
        compare(found, expected, self.tolerance)
        return found

    def _diagnosis(self, answer, cases) -> str:
        """The mistake that gives what `answer` gives, if there is one."""
        given = functools.cache(
            lambda number: _outcome(answer, cases[number])
        )  # once for each case: an answer may take long
        mute = all(isinstance(given(number), Exception) for number in range(len(cases)))
        for what, mistake in self.mistakes.items():
            made = (_outcome(mistake, case) for case in cases)
            if all(
                _agree(given(number), outcome, self.tolerance, by_words=mute)
                for number, outcome in enumerate(made)
            ):
                return f".\nThat is what comes out when {what}"
        return ""

    def _names(self):
        return [*inspect.signature(self.__wrapped__).parameters]

    def _describe(self, number, case) -> str:
        texts = (
            f"{name} {_short(value)}"
            for name, value in zip(self._names(), case, strict=True)
        )
        return f"in case {number}: " + ", ".join(
            text if len(text) <= LONGEST else f"{text[:LONGEST]} ..." for text in texts
        )


def exercise(
    *,
    cases: Callable,
    hints: Sequence[str],
    mistakes: dict[str, Callable],
    tolerance: float = 1e-9,
):
    """Makes the function below it the solution of an `Exercise`.

    cases       cases(rng) gives tuples of arguments, one for each case; some should be extreme
    hints       from the vaguest to the plainest
    mistakes    what went wrong, as in "... when the scores are not scaled" -> a function that does so
    tolerance   of the error of an entry, relative to the larger of 1 and the right entry
    """
    return lambda solution: Exercise(solution, cases, hints, mistakes, tolerance)


def compare(found, expected, tolerance: float, where: str = "") -> None:
    """Raise Wrong unless `found` is `expected`: numbers, arrays, texts, and tuples,
    lists and dicts of such.
    """
    where = where or "the result"
    if isinstance(expected, dict):
        if not isinstance(found, dict) or set(found) != set(expected):
            keys = sorted(map(str, found)) if isinstance(found, dict) else _kind(found)
            raise Wrong(
                f"{where} should have the keys {', '.join(map(str, expected))}, not "
                f"{keys}"
            )
        for key in expected:
            compare(found[key], expected[key], tolerance, f"{where}[{key!r}]")
    elif isinstance(expected, (tuple, list)):
        if not isinstance(found, (tuple, list)) or len(found) != len(expected):
            given = (
                f"{len(found)}" if isinstance(found, (tuple, list)) else _kind(found)
            )
            raise Wrong(f"{where} should be {len(expected)} things, not {given}")
        for k, (one, other) in enumerate(zip(found, expected, strict=True)):
            compare(one, other, tolerance, f"{where}[{k}]")
    elif isinstance(expected, str):
        if not isinstance(found, str) or found != expected:
            given = (
                repr(found) if isinstance(found, (str, int, float)) else _kind(found)
            )
            raise Wrong(f"{where} is {given}, expected {expected!r}")
    else:
        _compare_arrays(found, _numbers(expected), tolerance, where)


def _compare_arrays(found, expected, tolerance, where):
    try:
        found = _numbers(found)
    except Exception:  # whatever a foreign array says when NumPy asks for its numbers
        raise Wrong(f"{where} is {_kind(found)}, expected {_short(expected)}") from None
    if found.shape != expected.shape:
        raise Wrong(f"{where} has the shape {found.shape}, expected {expected.shape}")
    array, target = (
        each if each.dtype.kind == "c" else each.astype(float)
        for each in (found, expected)
    )
    with np.errstate(all="ignore"):
        error = abs(array - target) / np.maximum(1, abs(target))
    right = (
        (array == target)
        | ((error <= tolerance) & np.isfinite(target))
        | (np.isnan(array) & np.isnan(target))
    )
    if right.all():
        return
    first = np.unravel_index(np.argmin(right), right.shape)
    given, wanted = _told_apart(found[first], expected[first])
    entry = f" at [{', '.join(map(str, first))}]" if first else ""
    many = (
        f"; {(~right).sum()} of {right.size} entries differ" if right.size > 1 else ""
    )
    narrow = (
        f"; {found.dtype} holds too few digits"
        if found.dtype in (np.float32, np.complex64) and error[~right].max() < 1e-4
        else ""
    )
    raise Wrong(f"{where} is {given}{entry}, expected {wanted}{many}{narrow}")


def _told_apart(found, expected) -> tuple[str, str]:
    """Two numbers in words, with as many digits as it takes to see that they differ."""
    if found.dtype.kind == expected.dtype.kind == "b":
        return str(found), str(expected)
    for digits in (6, 9, 12, 17):
        given, wanted = (
            f"{each if each.dtype.kind == 'c' else float(each):.{digits}g}"
            for each in (found, expected)
        )
        if given != wanted:
            break
    return "NaN, not a number," if np.isnan(found) else given, wanted


def _numbers(value) -> np.ndarray:
    """`value` as an array of numbers; TypeError, ValueError or what its conversion
    raises where it is none.
    """
    array = np.asarray(value.data if isinstance(value, Tensor) else value)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"not numbers: {array.dtype}")
    return array


def _agree(found, expected, tolerance, by_words) -> bool:
    """Whether two outcomes are the same, or both are exceptions of a type, which must
    say the same where nothing else tells them apart.
    """
    if isinstance(found, Exception) or isinstance(expected, Exception):
        return type(found) is type(expected) and (
            not by_words or str(found) == str(expected)
        )
    try:
        compare(found, expected, tolerance)
    except Wrong:
        return False
    return True


def _outcome(function, case):
    """What a function gives, or the exception that it raises; what it prints has been
    seen when it was tried.
    """
    with np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        try:
            return function(*copy.deepcopy(case))
        except Exception as problem:
            return problem


def _same(before, after) -> bool:
    if callable(before):
        return True
    if type(before) is not type(after):
        return False
    if isinstance(before, np.ndarray):
        return np.array_equal(before, after, equal_nan=before.dtype.kind in "fc")
    if isinstance(before, (tuple, list)):
        return len(before) == len(after) and all(map(_same, before, after))
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(
            _same(before[key], after[key]) for key in before
        )
    return before == after


def _kind(value) -> str:
    name = type(value).__name__
    return f"{'an' if name.startswith((*'aeiou', 'nd')) else 'a'} {name}"  # an ndarray


def _short(value) -> str:
    """An argument in a few characters."""
    if isinstance(value, Tensor):
        value = value.data
    if isinstance(value, np.ndarray) and value.size > 4:
        largest = (
            f", entries up to {np.nanmax(abs(value)):.3g}"
            if value.dtype.kind in "fc"
            else ""
        )
        return f"of shape {value.shape}{largest}"
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"with {', '.join(value)}"
    return getattr(value, "__name__", None) or str(value).replace("\n", "")
