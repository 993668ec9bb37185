"""The core in pieces, yours where you have written them.

    my = course.pieces(9)                  of chapters 6 to 9
    my.gate(np, x, h, W, U, b)             as equations.gate
    my.gate(primitives, x, h, W, U, b)     the same, recorded on the tape
    my.gate(own, x, h, W, U, b)            own.gate(x, h, W, U, b), of a SimpleNamespace
    my                                     shows which of them are yours
    course.vjps(9)                         the derivatives of chapters 3 to 9, likewise
    LittleTape = course.little_tape()      the tape of chapter 3, likewise
    train, clip = course.kept("learning", "train", "clip")    any answers, likewise

The pieces of chapters 6 to 9 have the names and arguments of `equations.py`, those of
chapter 10 the arguments that they have there. Each is what you wrote in its chapter, if
it gives right values on NumPy and a right gradient on the tape. Otherwise it is the
course's, and the table says why.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from .. import equations
from ..autograd import primitives
from ..autograd.engine import Tape
from . import saved_answers
from .compare import Demand, Wrong, compare
from .traced import each_in, on_tape

Function = Callable[..., Any]

# (name in equations.py, chapter, module of its exercises, exercise)
PIECES = (
    ("softmax", 6, "attention", "softmax"),
    ("attention", 6, "attention", "attention"),
    ("multi_head_attention", 6, "attention", "encode_with_heads"),
    ("layer_norm", 8, "normalisation", "layer_norm"),
    ("g_psi", 8, "normalisation", "g_psi"),
    ("sigmoid", 9, "gates", "sigmoid"),
    ("gate", 9, "gates", "gate_of_every_slot"),
)
TAKE_XP = [name for name, *_ in PIECES]
PARTS = ("attention_weights", "append_rows", "mlp", "output")  # the course's
WHOLE = (10, "memory", ("update_memory", "step"))
# The derivatives, each under the name of its exercise: (chapter, module, names)
BACKWARD = (
    (3, "tape", ("unbroadcast", "stacks_vjp")),
    (4, "checking", ("softmax_vjp",)),
    (6, "attention", ("attention_vjp",)),
    (8, "normalisation", ("layer_norm_gradient",)),
    (9, "gates", ("gate_vjp", "gated_vjp")),
    (12, "through_time", ("state_vjp", "through_time")),
)
THE_COURSES, YOURS, UNWRITTEN = "the course's", "yours", "none of yours is right yet"


@dataclass(frozen=True)
class Piece:
    """One function of the core, and whose it is."""

    name: str
    chapter: int
    function: Function
    whose: str
    why: str = ""

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"chapter {self.chapter}  {self.name:22} {self.whose}{why}"


class Pieces:
    """Functions by name, as attributes; shown as a table of whose they are."""

    def __init__(self, pieces: Iterable[Piece]):
        self._pieces = {piece.name: piece for piece in pieces}

    def __getattr__(self, name: str) -> Function:
        pieces = self.__dict__.get("_pieces", {})
        if name in PARTS and "attention" in pieces:
            return getattr(equations, name)
        if name not in pieces:
            raise AttributeError(f"no piece {name!r}; there are {', '.join(pieces)}")
        function = pieces[name].function
        return _or_its_own(name, function) if name in TAKE_XP else function

    def __iter__(self):
        return iter(self._pieces.values())

    def __repr__(self) -> str:
        return "\n".join(map(str, self))


def _or_its_own(name: str, function: Function) -> Function:
    """A piece f(xp, ...) that leaves it to an xp which is no module."""

    @functools.wraps(function)
    def piece(*arguments: Any, **named: Any) -> Any:
        library = arguments[0] if arguments else np
        if isinstance(library, SimpleNamespace):
            return getattr(library, name)(*arguments[1:], **named)
        return function(*arguments, **named)

    return piece


def the_courses() -> Pieces:
    """The course's pieces of chapters 6 to 9."""
    return Pieces(
        Piece(name, chapter, getattr(equations, name), THE_COURSES)
        for name, chapter, *_ in PIECES
    )


def pieces(last: int = WHOLE[0]) -> Pieces:
    """The pieces of chapters 6 to `last`; see the text of this module."""
    found = [_piece(*each) for each in PIECES if each[1] <= last]
    if last >= WHOLE[0]:  # these take xp themselves, and call `my` other pieces
        known = {"my": Pieces(found), "equations": equations}
        known["my_output"] = equations.output  # older steps call it
        found += _judged(*WHOLE, known)
    return Pieces(found)


def vjps(last: int = BACKWARD[-1][0]) -> Pieces:
    """The derivatives of chapters 3 to `last`: yours where they are right.

    They take NumPy's arrays, and no xp.
    """
    return Pieces(
        piece
        for chapter, module, names in BACKWARD
        if chapter <= last
        for piece in _judged(chapter, module, names, {})
    )


def little_tape() -> Any:
    """The tape of chapter 3, with your parts where these are right; it prints which."""
    module = exercises("tape")
    found = _judged(3, "tape", ("unbroadcast", "stacks_vjp", *module.METHODS), {})
    theirs = [piece for piece in found if piece.whose != YOURS]
    mine = ", ".join(piece.name for piece in found if piece.whose == YOURS)
    whose = YOURS if not theirs else f"{YOURS} are {mine}" if mine else THE_COURSES
    print(f"LittleTape: {whose}")
    for piece in theirs if mine else ():
        print(piece)
    methods = {p.name: p.function for p in found if p.name in module.METHODS}
    return module.tape_of(**methods)


def kept(module: str, *names: str, **known: Any) -> list[Any]:
    """Your answers to these exercises of a chapter, or the course's where yours are
    missing or wrong. It prints whose they are. Yours may call what is `known`.
    """
    number = re.findall(r"Chapter (\d+)", exercises(module).__doc__ or "")
    found = _judged(int(number[0]), module, names, known)
    print(*found, sep="\n")
    return [piece.function for piece in found]


def exercises(module: str) -> ModuleType:
    """The exercises of a chapter."""
    return importlib.import_module(f"tinyrmc.course.exercises.{module}")


def written(module: str, name: str, **known: Any) -> Function | None:
    """Your answer to an exercise, which may call your other answers of that chapter.

    Where you have not written one, the course's stands in. Your answer may also call
    what is `known`.
    """
    theirs = {
        key: value
        for key, value in vars(exercises(module)).items()
        if key not in known and hasattr(value, "judge") and key != name
    }
    calls: dict[str, Any] = {"ex": exercises(module), **theirs, **known}
    for other in theirs:
        calls[other] = saved_answers.answer(module, other, **calls) or calls[other]
    return saved_answers.answer(module, name, **calls)


def _piece(name: str, chapter: int, module: str, exercise: str) -> Piece:
    course, mine = getattr(equations, name), written(module, exercise)
    if mine is None:
        return Piece(name, chapter, course, THE_COURSES, UNWRITTEN)
    try:
        check(on_tape(mine), course, arguments(module, exercise))
    except Exception as problem:
        kind = "" if isinstance(problem, Wrong) else f"{type(problem).__name__}: "
        return Piece(name, chapter, course, THE_COURSES, f"{kind}{problem}")
    return Piece(name, chapter, on_tape(mine), YOURS)


def _judged(
    chapter: int, module: str, names: Sequence[str], known: dict[str, Any]
) -> list[Piece]:
    """Your answers to these exercises, or the course's where a check refuses them."""
    found = []
    for name in names:
        solution = getattr(exercises(module), name)
        mine = written(module, name, **known)
        verdict = solution.judge(mine, explain=False) if mine else None
        if mine and verdict and verdict.state == "right":
            piece = Piece(name, chapter, solution.with_arrays(mine), YOURS)
        else:
            why = verdict.text.splitlines()[0] if verdict else UNWRITTEN
            piece = Piece(name, chapter, solution.function, THE_COURSES, why)
        found.append(piece)
        known[name] = known[f"my_{name}"] = piece.function
    return found


def arguments(module: str, exercise: str) -> list[Any]:
    """Arguments to try a piece on, with leading axes if there may be any."""
    cases = getattr(exercises(module), exercise).cases()
    return next((c for c in cases if "leading" in c.about), cases[0]).copies()


def check(function: Function, right: Function, case: list[Any]) -> None:
    """Wrong where f(xp, *case) has other values than `right`, or another gradient.

    Values are compared on NumPy, gradients on the tape. Whatever `function` raises goes
    on to the caller.
    """
    compare(function(np, *case), right(np, *case), Demand())
    found, wanted = (gradients(each, case) for each in (function, right))
    for number, (mine, theirs) in enumerate(zip(found, wanted, strict=True), 1):
        compare(mine, theirs, Demand(), f"on the tape, the gradient of array {number}")


def gradients(function: Function, case: list[Any]) -> list[np.ndarray]:
    """The gradients of the arrays in a case, also those in lists and dicts.

    Each entry of what f(primitives, *case) returns counts with a weight of its
    own. Wrong if the tape has lost track of a result.
    """
    watched: list[Any] = []
    with Tape() as tape:

        def watch(value: Any) -> Any:
            if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
                return value
            watched.append(tape.watch(value))
            return watched[-1]

        results = function(primitives, *each_in(watch, case))
        results = results if isinstance(results, (list, tuple)) else [results]
        if not all(getattr(each, "id", 0) for each in results):
            raise Wrong("on the tape, its result is cut off from its arguments")
        rng, sums = np.random.default_rng(7), []
        for result in results:
            weights = rng.normal(size=result.shape).astype(result.dtype)
            sums.append(primitives.sum(primitives.multiply(result, weights)))
        loss = primitives.sum(primitives.stack(sums))
    return tape.gradient(loss, watched, strict=False)
