'''What an exercise is: a solution, cases to try an answer on, hints, common mistakes.

    @exercise(
        cases=lambda rng: [
            normal(rng, (3, 4)),
            (1e3 * rng.normal(size=(2, 5)),),
        ],
        hints=["Subtract the largest entry of each row first."],
        mistakes="""
        you sum over the first axis, not over
        the last
            sum(axis=-1 -> sum(axis=0
        you take the sigmoid of each
            = 1 / (1 + np.exp(-x))
        """,
    )
    def softmax(x):
        """The task for the learner, with shapes."""
        ...

makes `softmax` an `Exercise`. `softmax.check(answer)` compares an answer with the
solution on every case, entry by entry, in float64. It also compares a wrong answer with
the mistakes, and names the one that gives the same in every case; if there is none,
`diagnosis.py` looks for a result that is transposed, shifted, scaled and the like.

A mistake is a sentence and, further in, what changes the solution's text, a line for
each: old -> new. (Where there is no room, the line goes on still further in.) Or there
is another expression to return: = expression.

What an exercise promises beyond its cases, say with a word of `exercise`: leading axes,
numbers of any size, zeros that are exact, little work. The machinery makes the cases
for it. With `words`, an answer must also be a single line, which may use these alone.

Solutions carry no types: learners read them, and paste them into a notebook's cell.
'''

from __future__ import annotations

import ast
import contextlib
import copy
import dis
import functools
import inspect
import io
import operator
import re
import sys
import textwrap
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from .. import diagnosis, record, saved_answers
from ..cases import WIDTH, Case, Make, all_cases
from ..compare import Demand, Spoilt, Wrong, agree, check_memory, compare, unchanged
from ..compare import kind as kind_of
from ..limits import OTHERS, TooLong, at_most, line_of_error
from ..oneline import one_line

SEED = 2018
_judged: list[str] = []  # the exercises whose answers are running now
SLOW = 20  # times as long as the solution
# and at least these seconds, in a browser, where Python is slower, more
FELT = 0.2 if sys.platform == "emscripten" else 0.05
LARGE = (64, 16)  # leading axes to take the time with
UNLOOPED = 200  # lines that an answer without a loop may run

Function = Callable[..., Any]
Mistake = Function | Sequence[str]  # old, new, old, new, ...


class Missing(Exception):
    """An answer is not written yet."""


@dataclass(frozen=True)
class Verdict:
    """The words of `check` about an answer."""

    state: Literal["right", "wrong", "not attempted"]
    text: str
    case: Case | None = None  # the one that goes wrong

    def __str__(self) -> str:
        return wrapped(f"{self.state}: {self.text}")


UNWRITTEN = Verdict(
    "not attempted", "the function returns nothing yet (is a `return` missing?)"
)


@dataclass(eq=False, repr=False)
class Exercise:
    """A function for the learner to write, and all that is known about it.

    Calling it calls the solution.
    """

    function: Function
    """the solution"""
    make_cases: Make
    """makes the arguments of each case with a random generator"""
    hints: Sequence[str]
    """from the vaguest to the plainest"""
    mistakes: Any
    """wrong answers that people give, by what ends "That is what you get when ..." """
    demand: Demand = field(default_factory=Demand)
    """what a result must be like"""
    leading: Sequence[str] = ()
    """arguments that may have any leading axes"""
    anysize: Sequence[str] = ()
    """arguments that may be of any size"""
    views: bool = False
    """a result may be a view of an argument"""
    lines: int | None = None
    """the most lines that an answer may run in one case"""
    seconds: float | None = None
    """the most seconds that one case may take, where it needs more than others"""
    memory: int | None = None
    """the most bytes that one case may take at one time"""
    exact: Function | None = None
    """gives the right result in another way than the solution, and is the judge"""
    found: str = ""
    """what every right answer comes to, where answers differ: see `Used`"""
    words: Sequence[str] | None = None
    """an answer is one line that names nothing but these and its arguments"""
    large: Make | None = None
    """makes arguments as large as those of a training step; else, where `leading` axes
    are promised, those of the first case are repeated"""
    unlooped: str = ""
    """what an answer must not loop over, such as "over time": with `large` arguments
    it would run many lines"""
    hints_given: int = field(default=0, init=False)
    seed: int = field(default=SEED, init=False)
    """of the cases; a teacher who grades has another"""

    def __post_init__(self) -> None:
        self.mistakes = as_functions(self.mistakes, self.function)
        functools.update_wrapper(self, self.function, updated=())  # name, signature

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        caller = sys._getframe(1).f_code.co_filename
        if self.name in _judged and not caller.startswith(OTHERS):
            raise Wrong(f"it calls ex.{self.name}, which is the solution")
        return self.function(*arguments, **named)

    def called(self, answer: Function) -> Function:
        """The function of a case's arguments that is compared, of an answer."""
        return answer

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
        if answer is self or answer is self.function:
            print(f"not attempted: ex.{self.name} is the solution; check takes yours")
            return
        verdict = self.judge(answer)
        print(verdict)
        if verdict.state == "right" and (slow := self.slow(answer)):
            print(wrapped(f"But it is slow: {slow}."))
        self._remember(answer, verdict)

    def yours(self, answer: Function) -> Function:
        """`answer` if it is right, else the solution. It prints which of the two.

        For chapters that go on with what the learner has written.
        """
        verdict = self.judge(answer, explain=False)
        if verdict.state == "right":
            self._remember(answer, verdict)
            if slow := self.slow(answer):
                why = f"{self.name}: yours is right but slow, {slow}"
                print(wrapped(f"{why}; the solution is used from here on"))
                return self
            print(f"{self.name}: yours is used from here on")
            return self.with_arrays(answer)
        unwritten = verdict.state == "not attempted"
        why = "is not written yet" if unwritten else "is not right yet"
        print(f"{self.name} {why}: the solution is used from here on")
        return self

    def with_arrays(self, answer: Function) -> Function:
        """A right answer, whose lists become arrays where the solution gives arrays."""
        first = self.cases()[0]
        mine, right = (self._outcome(each, first) for each in (answer, self.function))
        if arrayed(mine, right) is mine:
            return answer
        return functools.wraps(answer)(lambda *case: arrayed(answer(*case), right))

    def case(self, number: int) -> tuple:
        """The arguments of case `number`, counted from 1, to try an answer on.

        f(*ex.f.case(3)) is what you give, ex.f(*ex.f.case(3)) what is right.
        """
        cases = self.cases()
        if number not in range(1, len(cases) + 1):
            raise ValueError(f"no case {number}: there are 1 to {len(cases)}")
        return tuple(cases[number - 1].copies())

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
        known = vars(sys.modules[self.function.__module__])
        helpers = [known.get(name) for name in called]
        texts = [_source(each) for each in helpers if inspect.isfunction(each)]
        print("\n\n".join([*texts, text]), end="")

    # What `check` is made of

    def cases(self) -> list[Case]:
        """The cases, always the same ones for one seed."""
        seeds = [self.seed, zlib.crc32(self.name.encode())]
        return all_cases(
            self.make_cases,
            [*inspect.signature(self.called(self.function)).parameters],
            lambda k: np.random.default_rng([*seeds, k] if k else seeds),
            self.leading,
            self.anysize,
        )

    def judge(self, answer: Function, explain: bool = True) -> Verdict:
        """Try `answer` on every case, until one goes wrong.

        explain: also look for what is wrong, which takes many calls of the solution.
        """
        if not callable(answer):
            return Verdict(
                "wrong",
                f"check takes the function itself, not {kind_of(answer)}: "
                f"check({self.name}), without its arguments",
            )
        cases, tried = self.cases(), self.called(answer)
        for case in cases:
            try:
                self._try(tried, case)
            except Missing:
                return UNWRITTEN
            except Wrong as problem:
                text = f"{problem}\n{case}{self._how_to_get(case, answer)}"
                explain = explain and not isinstance(problem, (TooLong, Spoilt))
                why = self.explain(tried, case, cases) if explain else ""
                return Verdict("wrong", f"{text}\n{why}" if why else text, case)
        if self.words is not None:
            but = ""
            try:
                alone = one_line(answer, self.words)
                but = "its line alone is wrong: "
                for case in cases:
                    self._try(alone, case)
            except Wrong as problem:
                return Verdict("wrong", f"its numbers are right, but {but}{problem}")
        if self.unlooped and (line := self._line_of_loop(tried)):
            why = f"its numbers are right, but it loops {self.unlooped}{line}"
            return Verdict("wrong", why)
        judge = " with the complex step" if self.exact else ""
        return Verdict("right", self.found or f"{len(cases)} cases agree{judge}")

    def slow(self, answer: Function) -> str:
        """Says what a slow answer would cost in training; "" for a fast one."""
        arguments = self._large()
        if arguments is None or answer in (self, self.function):
            return ""
        seconds = []
        for function in map(self.called, (self.function, answer)):
            given = copy.deepcopy(arguments)
            with np.errstate(all="ignore"):
                began = time.process_time()  # other programs do not count
                function(*given)
                seconds.append(time.process_time() - began)
        ours, theirs = seconds
        if theirs < max(SLOW * ours, FELT):
            return ""
        sizes = " and ".join(str(np.shape(each)) for each in arguments if np.ndim(each))
        return (
            f"{theirs:.2g} s for arrays {sizes}, where the solution takes "
            f"{1e3 * ours:.2g} ms: each step of a training would call it"
        )

    def _line_of_loop(self, answer: Function) -> str:
        """Where an answer has run too many lines with large arguments; or ""."""
        try:
            with np.errstate(all="ignore"), at_most(UNLOOPED, None):
                answer(*self._large() or ())
        except TooLong as problem:
            return "\n" + str(problem).partition("\n")[2]
        return ""

    def _large(self) -> list[Any] | None:
        """The arguments to take the time with."""
        if self.large is not None:
            return [*self.large(np.random.default_rng(SEED))[0]]
        if not self.leading:
            return None
        first = self.cases()[0].arguments
        return [
            np.tile(each, (*LARGE, *[1] * each.ndim)) if name in self.leading else each
            for name, each in first.items()
        ]

    def explain(self, answer: Function, failed: Case, cases: list[Case]) -> str:
        """A sentence on what may be wrong: one of the mistakes, or what a result has in
        common with the right one. "" if nothing is found.

        Where two mistakes meet, they may not agree with any in all cases. Then the
        cases up to the first that fails count, and the sentence says so.
        """
        if not failed.about:  # what is made of a case may fail for another reason
            cases = [case for case in cases if not case.about]
        if self.found:  # each case takes long, and its words tell enough
            cases = [failed]
        given = []
        for case in cases:  # each only once
            given.append(self._outcome(answer, case))
            if isinstance(given[-1], TooLong):
                return ""
        if mistake := self.recognise(given, cases):
            return f"That is what you get when {mistake}"
        if self.found:  # it has said what is wrong
            return ""
        right = self.called(self.function)
        if says := diagnosis.diagnose(right, given, cases, self.demand):
            return says
        until = cases.index(failed) + 1 if failed in cases else len(cases)
        single = (bool, int, str, np.bool_, np.integer, Exception)  # tells too little
        by_chance = isinstance(given[until - 1], single) or self.demand.tolerance > 1e-3
        if until < len(cases) and not by_chance:
            mistake = self.recognise(given[:until], cases[:until], kinds=True)
            if mistake:
                where = "case 1" if until == 1 else f"cases 1 to {until}"
                return f"In {where} that is what you get when {mistake}"
        return ""

    def recognise(
        self, given: Sequence[Any], cases: Sequence[Case], kinds: bool = False
    ) -> str | None:
        """The mistake that gives what an answer has `given` in every case."""
        always_raises = all(isinstance(each, Exception) for each in given)
        demand = replace(self.demand, kinds=kinds)
        for what, mistake in self.mistakes.items():
            outcomes = (self._outcome(self.called(mistake), case) for case in cases)
            if all(
                _alike(found, outcome, demand, by_words=always_raises)
                for found, outcome in zip(given, outcomes, strict=False)
            ):
                return what
        return None

    def _try(self, answer: Function, case: Case) -> None:
        """Wrong where `answer` does not give what the solution gives.

        Missing where there is nothing in it.
        """
        arguments, right = case.copies(), self.called(self.function)
        check_signature(answer, right, arguments)
        with np.errstate(all="ignore"):  # what overflows shows in the numbers
            _judged.append(self.name)
            try:
                found = self._call(answer, arguments, first=case.number == 1)
            finally:
                _judged.pop()
            expected = self.found or (self.exact or right)(*case.copies())
        named = dict(zip(case.arguments, arguments, strict=True))
        for name, after in named.items():
            before = case.arguments[name]
            if not unchanged(before, after):
                why = "which others may still need: work on a copy"
                if agree(after, before, Demand()):
                    why = (
                        "if only by rounding: x + h - h is not quite x. Keep the old "
                        "number and put it back, or work on a copy"
                    )
                raise Spoilt(f"it changes its argument {name}, {why}")
        compare(found, expected, self.demand)
        check_memory(arrayed(found, expected), named, self.views)

    def _call(self, answer: Function, arguments: list[Any], first: bool) -> Any:
        """The result of `answer`. Wrong if it raises, or returns nothing.

        Missing if it is in the first case that it has no answer.
        """
        try:
            with at_most(self.lines, self.memory, self.seconds):
                found = answer(*arguments)
        except Wrong:
            raise
        except NotImplementedError as problem:
            if first:
                raise Missing from None
            raise Wrong("it raises NotImplementedError") from problem
        except Exception as problem:
            says = f": {problem}" if str(problem) else ""
            where = line_of_error(problem.__traceback__)
            tips = [tip for key, tip in REMEDIES.items() if key in str(problem)]
            if tips:  # a puzzle, which has `words`, forbids what TURN recommends
                tip = tips[0].replace(TURN if self.words else "", "")
                where += f"\n({tip})"
            raise Wrong(f"it raises {type(problem).__name__}{says}{where}") from problem
        if found is None:
            if is_empty(answer):
                raise Missing
            where = "" if first else " in one of its branches"
            raise Wrong(f"it returns nothing: is a `return` missing{where}?")
        if found is Ellipsis:
            if first:
                raise Missing
            raise Wrong("it returns `...`, which stands for what you should write")
        return found

    def _outcome(self, function: Function, case: Case) -> Any:
        """The result of a function, or the exception it raises. It prints nothing."""
        with np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
            try:
                with at_most(self.lines, None, self.seconds):
                    return function(*case.copies())
            except Exception as problem:
                return problem

    def _how_to_get(self, case: Case, answer: Function) -> str:
        arguments = f"(*ex.{self.name}.case({case.number}))"
        mine = getattr(answer, "__name__", self.name)
        mine = mine if mine.isidentifier() else self.name
        return f"\nTry it: {mine}{arguments}; right is ex.{self.name}{arguments}"

    def _remember(self, answer: Function, verdict: Verdict) -> None:
        """Note that this one is solved, and keep its text for later chapters.

        The solution itself does not count.
        """
        if verdict.state == "right" and answer not in (self, self.function):
            record.solved(self.chapter, self.name)
            if why := saved_answers.save(self.chapter, self.name, answer):
                print(wrapped(f"(Later chapters will not have yours: {why}.)"))


def exercise(
    *,
    cases: Make,
    hints: Sequence[str],
    mistakes: str | Mapping[str, Mistake],
    tolerance: float = 1e-9,
    precise: bool = False,
    form: bool = False,
    leading: str = "",
    anysize: str = "",
    words: str | None = None,
    parts: Sequence[str] = (),
    kind: type[Exercise] = Exercise,
    **promises: Any,
) -> Callable[[Function], Any]:
    """Make the function below it the solution of an `Exercise`.

    `cases(rng)` gives a tuple of arguments for each case. Make some of them extreme,
    and some of them square, where a forgotten transpose does not show in the shapes.
    Begin with a case without leading axes and with numbers of size one: cases for
    `leading` and `anysize`, both names with a space between, are made of the first.
    See `Demand` for tolerance, precise, form and parts, `Exercise` for the others.
    """
    return lambda function: kind(
        function,
        cases,
        hints,
        mistakes,
        Demand(tolerance, precise, form, parts=tuple(parts)),
        leading.split(),
        anysize.split(),
        words=None if words is None else words.split(),
        **promises,
    )


def normal(rng: np.random.Generator, *shapes: int | tuple[int, ...]) -> tuple:
    """The arguments of a case: standard normal arrays of these shapes."""
    return tuple(rng.normal(size=shape) for shape in shapes)


def each(
    case: Function, sizes: str, first: Sequence[tuple] = (), also: Sequence[tuple] = ()
) -> Make:
    """Cases of one kind: case(rng, 3, 4) and case(rng, 2, 5, 0.1) of "3 4, 2 5 0.1".

    Others, which are not drawn, stand `first` or `also` at the end.
    """
    rows = [
        [ast.literal_eval(size) for size in row.split()] for row in sizes.split(",")
    ]
    return lambda rng: [*first, *(case(rng, *row) for row in rows), *also]


def named(**functions: Function) -> list[Function]:
    """Short functions as arguments of cases, which say their names."""
    for name, function in functions.items():
        function.__name__ = name
    return [*functions.values()]


def arrayed(found: Any, right: Any) -> Any:
    """`found`, with arrays for lists and tuples where `right` has arrays."""
    if isinstance(found, (list, tuple)) and isinstance(right, (tuple, np.ndarray)):
        if isinstance(right, np.ndarray):
            return np.array(found)
        parts = tuple(map(arrayed, found, right))
        return found if all(map(operator.is_, found, parts)) else parts
    return found


def wrapped(text: str) -> str:
    """`text` in lines of at most 88 columns; where a line goes on, it is indented."""
    return "\n".join(
        textwrap.fill(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False)
        for line in text.splitlines()
    )


TURN = "; .swapaxes(-1, -2) turns a stack of matrices over"
AT = (
    "@ wants the last axis of the left one as long as the last axis but one of the "
    f"right one{TURN}"
)
REMEDIES = {  # what to do about exceptions that many people meet
    "truth value of an array": (
        "if, and, or, max and min decide once for a whole array; np.where, &, |, "
        "np.maximum and np.minimum decide entry by entry"
    ),
    "only integer": "what stands in the brackets are floats; an index is an integer",
    "not aligned": AT,
    "matmul: Input operand": AT,
    "could not be broadcast": "axes that meet must be equal or 1: compared from the "
    "last one on, in einsum letter by letter; keepdims=True keeps an axis of 1, and "
    "[:, None] or [..., None] makes one",
    "numpy boolean": "tables of truths cannot be subtracted; write 1.0 * before each",
    "and 'Value'": "make the number a Value, too: begin a sum with Value(0.0, tape); "
    "Python's own begins with the number 0",
    "does not support ufuncs": "Nodes have methods: m.tanh(), not np.tanh(m)",
    "object has no attribute 'data'": "a Value or a Node should stand there",
    "'float' object has no attribute 'ndim'": "an array should stand there; of the "
    "loss itself it is np.ones(loss.data.shape)",
    "support item assignment": "leave what you were given; make a new list",
    "Node object at": "this node has got no gradient: it needs zeros of its shape",
}


def _source(function: Function) -> str:
    """The text of a function, without the decorator that makes it an exercise."""
    text = inspect.getsource(function)
    (definition,) = ast.parse(text).body
    return "".join(text.splitlines(keepends=True)[definition.lineno - 1 :])


def as_functions(
    mistakes: str | Mapping[str, Mistake], solution: Any
) -> dict[str, Function]:
    """The mistakes, where those that change the solution's text are functions, too."""
    if isinstance(mistakes, str):
        mistakes = in_pieces(mistakes)
    return {
        what: each if callable(each) else altered(solution, *each)
        for what, each in mistakes.items()
    }


def in_pieces(mistakes: str) -> dict[str, tuple[str, ...]]:
    """Mistakes that stand in a text, as sentences and pieces to replace."""
    found = {}
    pattern = r"((?:^\S.*\n)+)((?:^ .*(?:\n|$))+)"
    for sentence, changes in re.findall(pattern, inspect.cleandoc(mistakes), re.M):
        lines = re.sub(r"\n {8,}", " ", changes).splitlines()
        pieces = [_pieces(line.strip()) for line in lines]
        found[" ".join(sentence.split())] = sum(pieces, ())
    return found


def _pieces(change: str) -> tuple[str, ...]:
    if change.startswith("= "):
        return (change.removeprefix("= "),)
    old, _, new = change.partition(" ->")
    return old, new.strip()


def altered(solution: Any, *pieces: str) -> Function:
    """The solution with pieces replaced: old, new, ... A single one is its result."""

    @functools.cache
    def made() -> Any:
        name, text = solution.__name__, _source(solution)
        if len(pieces) == 1:  # which may call the solution
            name = "mistake"
            text = f"def mistake{inspect.signature(solution)}: return {pieces[0]}"
        for old, new in zip(pieces[::2], pieces[1::2], strict=False):
            if old not in text:
                raise ValueError(f"{solution.__name__} does not contain {old!r}")
            text = text.replace(old, new)
        names = dict(vars(sys.modules[solution.__module__]))
        exec(compile(text, inspect.getfile(solution), "exec"), names)
        return names[name]

    return lambda *arguments: made()(*arguments)


def check_signature(answer: Function, solution: Function, arguments: list) -> None:
    """Wrong where `answer` does not take as many arguments as it is given."""
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        right = inspect.signature(solution)
        raise Wrong(
            f"it takes the arguments {signature}; it should take {right}"
        ) from None


def is_empty(answer: Function) -> bool:
    """Whether a function does nothing, as one that nobody has written yet.

    One that returns a constant such as 0 or "none" does something.
    """
    code = getattr(answer, "__code__", None)
    idle = ("RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST")
    return code is not None and all(
        each.opname in idle
        and ("CONST" not in each.opname or each.argval in (None, ...))
        for each in dis.get_instructions(code)
    )


def _alike(found: Any, expected: Any, demand: Demand, by_words: bool) -> bool:
    """Whether two outcomes are the same.

    Exceptions are the same when their types are; `by_words`, their texts count too.
    """
    if isinstance(found, Exception) or isinstance(expected, Exception):
        return type(found) is type(expected) and (
            not by_words or str(found) == str(expected)
        )
    return agree(found, expected, demand)
