'''What an exercise is: a solution, cases to try an answer on, hints, common mistakes.

    @exercise(
        cases=lambda rng: [
            normal(rng, (3, 4)),
            (1e3 * rng.normal(size=(2, 5)),),
        ],
        hints=["Subtract the largest entry of each row first."],
        mistakes=[
            Mistake(
                "your softmax runs over the wrong axis",
                lambda x: special.softmax(x, axis=0),
            ),
        ],
    )
    def softmax(x):
        """What the learner is asked for, with shapes."""
        ...

makes `softmax` an `Exercise`. `softmax.check(answer)` compares an answer with the
solution on every case, entry by entry, in float64. It also compares a wrong answer with
the mistakes, and names the one that gives the same in every case.

Solutions carry no types: learners read them, and paste them into a notebook's cell.
'''

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import io
import re
import textwrap
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .. import kept
from ..compare import Wrong, compare, kind, short, unchanged

SEED = 2018
WIDTH = 88  # columns that a cell of a notebook shows without scrolling
LONGEST = 120  # characters of an argument that are shown

Function = Callable[..., Any]
MakeCases = Callable[[np.random.Generator], Sequence[tuple]]


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give."""

    what: str
    """ends the sentence "That is what you get when ..." """
    answer: Function
    """gives what the mistake gives"""


@dataclass(frozen=True)
class Case:
    """One call of an answer."""

    number: int
    """counted from 1"""
    arguments: dict[str, Any]
    """by name, in the order of the call"""

    def copies(self) -> list[Any]:
        """The arguments anew: a function may spoil what it is given."""
        return copy.deepcopy([*self.arguments.values()])

    def __str__(self) -> str:
        texts = [f"{name} {short(value)}" for name, value in self.arguments.items()]
        texts = [each[:LONGEST] + " ..." * (len(each) > LONGEST) for each in texts]
        line = f"in case {self.number}: {', '.join(texts)}"
        if len(line) <= WIDTH:
            return line
        return "\n  ".join([f"in case {self.number}:", *texts])


@dataclass(frozen=True)
class Verdict:
    """What `check` says about an answer."""

    state: Literal["right", "wrong", "not attempted"]
    text: str

    def __str__(self) -> str:
        return wrapped(f"{self.state}: {self.text}")


@dataclass(eq=False, repr=False)
class Exercise:
    """A function for the learner to write, and all that is known about it.

    Calling it calls the solution.
    """

    function: Function
    """the solution"""
    make_cases: MakeCases
    """makes the arguments of each case with a random generator"""
    hints: Sequence[str]
    """from the vaguest to the plainest"""
    mistakes: Sequence[Mistake]
    tolerance: float
    """of an entry's error, relative to the larger of 1 and the right entry"""
    hints_given: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)  # its name, text and signature

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def chapter(self) -> str:
        """The module that it is in, such as `attention` or `language`."""
        _, _, place = self.function.__module__.partition(".exercises.")
        return place.partition(".")[0]

    # What the learner calls

    def check(self, answer: Function) -> None:
        """Print whether `answer`, a function, does what it should."""
        verdict = self.judge(answer)
        print(verdict)
        self._remember(answer, verdict)

    def yours(self, answer: Function) -> Function:
        """`answer` if it is right, else the solution. It prints which of the two.

        For chapters that go on with what the learner has written.
        """
        verdict = self.judge(answer)
        if verdict.state == "right":
            print(f"{self.name}: yours is used from here on")
            self._remember(answer, verdict)
            return answer
        unwritten = verdict.state == "not attempted"
        why = "is not written yet" if unwritten else "is not right yet"
        print(f"{self.name} {why}: the solution is used from here on")
        return self

    def hint(self) -> None:
        """Print the next hint."""
        if self.hints_given == len(self.hints):
            print(f"No more hints; ex.{self.name}.solution() shows the solution.")
            return
        hint = self.hints[self.hints_given]
        self.hints_given += 1
        print(wrapped(f"hint {self.hints_given} of {len(self.hints)}: {hint}"))

    def solution(self) -> None:
        """Print the solution, below the private functions that it calls."""
        text = _source(self.function)
        called = dict.fromkeys(re.findall(r"\b_\w+", text))
        helpers = [self.function.__globals__.get(name) for name in called]
        texts = [_source(each) for each in helpers if inspect.isfunction(each)]
        print("\n\n".join([*texts, text]), end="")

    # What `check` is made of

    def cases(self) -> list[Case]:
        """The cases, always the same ones."""
        rng = np.random.default_rng([SEED, zlib.crc32(self.name.encode())])
        names = inspect.signature(self.function).parameters
        return [
            Case(number, dict(zip(names, arguments, strict=True)))
            for number, arguments in enumerate(self.make_cases(rng), 1)
        ]

    def judge(self, answer: Function) -> Verdict:
        """Try `answer` on every case, until one goes wrong."""
        if not callable(answer):
            return Verdict(
                "wrong",
                f"check takes the function itself, not {kind(answer)}: "
                f"check({self.name}), without its arguments",
            )
        cases = self.cases()
        for case in cases:
            try:
                self._try(answer, case)
            except NotImplementedError:
                return Verdict(
                    "not attempted",
                    "the function returns nothing yet (is a `return` missing?)",
                )
            except Wrong as problem:
                text = f"{problem}\n{case}"
                mistake = self.recognise(answer, cases)
                if mistake:
                    text += f"\nThat is what you get when {mistake.what}"
                return Verdict("wrong", text)
        return Verdict("right", f"{len(cases)} cases agree")

    def recognise(self, answer: Function, cases: Sequence[Case]) -> Mistake | None:
        """The mistake that gives what `answer` gives in every case, if there is one."""

        @functools.cache  # an answer may take long: call it once for each case
        def given(k: int) -> Any:
            return _outcome(answer, cases[k])

        always_raises = all(isinstance(given(k), Exception) for k in range(len(cases)))
        for mistake in self.mistakes:
            outcomes = (_outcome(mistake.answer, case) for case in cases)
            if all(
                _alike(given(k), outcome, self.tolerance, by_words=always_raises)
                for k, outcome in enumerate(outcomes)
            ):
                return mistake
        return None

    def _try(self, answer: Function, case: Case) -> None:
        """Wrong where `answer` does not give what the solution gives.

        NotImplementedError where it gives nothing at all.
        """
        arguments = case.copies()
        with np.errstate(all="ignore"):  # what overflows shows in the numbers
            try:
                found = answer(*arguments)
            except NotImplementedError:
                raise
            except Exception as problem:
                says = f": {problem}" if str(problem) else ""
                raise Wrong(f"it raises {type(problem).__name__}{says}") from problem
            expected = self.function(*case.copies())
        if found is None or found is Ellipsis:
            raise NotImplementedError
        for (name, before), after in zip(
            case.arguments.items(), arguments, strict=True
        ):
            if not unchanged(before, after):
                raise Wrong(
                    f"it changes its argument {name}, which others may still need"
                )
        compare(found, expected, self.tolerance)

    def _remember(self, answer: Function, verdict: Verdict) -> None:
        """Keep the text of a right answer; the solution itself does not count."""
        if verdict.state == "right" and answer not in (self, self.function):
            kept.keep(self.chapter, self.name, answer)


def exercise(
    *,
    cases: MakeCases,
    hints: Sequence[str],
    mistakes: Sequence[Mistake],
    tolerance: float = 1e-9,
) -> Callable[[Function], Exercise]:
    """Make the function below it the solution of an `Exercise`.

    `cases(rng)` gives a tuple of arguments for each case. Make some of them extreme,
    and some of them square, where a forgotten transpose does not show in the shapes.
    """
    return lambda function: Exercise(function, cases, hints, mistakes, tolerance)


def normal(rng: np.random.Generator, *shapes: int | tuple[int, ...]) -> tuple:
    """The arguments of a case: standard normal arrays of these shapes."""
    return tuple(rng.normal(size=shape) for shape in shapes)


def wrapped(text: str) -> str:
    """`text` in lines of at most 88 columns; where a line goes on, it is indented."""
    return "\n".join(
        textwrap.fill(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
        for line in text.splitlines()
    )


def _source(function: Function) -> str:
    """The text of a function, without the decorator that makes it an exercise."""
    text = inspect.getsource(function)
    (definition,) = ast.parse(text).body
    return "".join(text.splitlines(keepends=True)[definition.lineno - 1 :])


def _outcome(function: Function, case: Case) -> Any:
    """What a function returns, or the exception that it raises. It prints nothing."""
    with np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        try:
            return function(*case.copies())
        except Exception as problem:
            return problem


def _alike(found: Any, expected: Any, tolerance: float, by_words: bool) -> bool:
    """Whether two outcomes are the same.

    Exceptions are the same when their types are; `by_words`, their texts count too.
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
