"""The cases of an exercise: those its author wrote, and those made from them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .compare import short, unchanged

WIDTH = 88  # columns that a cell of a notebook shows without scrolling
LONGEST = 160  # characters of an argument that are shown
LEAD = (2, 3)  # the leading axes of the cases that are stacked
LARGE = 3e3  # what numbers "of any size" are multiplied by: exp(3000) overflows

Make = Callable[[np.random.Generator], Sequence[tuple]]


@dataclass(frozen=True)
class Case:
    """One call of an answer."""

    number: int
    """counted from 1"""
    arguments: dict[str, Any]
    """by name, in the order of the call"""
    about: str = ""
    """what is special about a case that is made from another one"""

    def copies(self) -> list[Any]:
        """The arguments anew: a function may spoil what it is given."""
        return copy.deepcopy([*self.arguments.values()])

    def __str__(self) -> str:
        texts = [f"{name} {short(value)}" for name, value in self.arguments.items()]
        texts = [each[:LONGEST] + " ..." * (len(each) > LONGEST) for each in texts]
        head = f"in case {self.number}" + f", {self.about}" * bool(self.about)
        line = f"{head}: {', '.join(texts)}"
        return line if len(line) <= WIDTH else "\n  ".join([f"{head}:", *texts])


def all_cases(
    make: Make,
    names: Sequence[str],
    rng: Callable[[int], np.random.Generator],
    leading: Sequence[str] = (),
    anysize: Sequence[str] = (),
) -> list[Case]:
    """The author's cases, then those made from the first of them.

    names: of the arguments; rng(k) for k = 0, 1, .. gives independent generators.
    leading: arguments that may have any leading axes. Six cases like the first are
    stacked into one with two leading axes; all other arguments are the first one's.
    anysize: arguments that may be of any size; they come some thousand times as large.
    "The first" is the first that is drawn at random.
    """

    def named(arguments: tuple) -> dict[str, Any]:
        return dict(zip(names, arguments, strict=True))

    written = [named(each) for each in make(rng(0))]
    cases = [(each, "") for each in written]
    if leading:
        draws = [make(rng(k)) for k in range(1, 1 + math.prod(LEAD))]
        several = [named(each) for each in _first_drawn(draws)]
        stacks = {}
        for name in leading:
            stack = np.stack([each[name] for each in several])
            stacks[name] = stack.reshape(*LEAD, *stack.shape[1:])
        cases.append((several[0] | stacks, "with two leading axes"))
    if anysize:
        first = named(_first_drawn([make(rng(k)) for k in (1, 2)])[0])
        large = {name: first[name] * LARGE for name in anysize}
        cases.append((first | large, "with large numbers"))
    return [Case(number, *each) for number, each in enumerate(cases, 1)]


def _first_drawn(draws: Sequence[Sequence[tuple]]) -> list[tuple]:
    """From each draw, the first of the cases that differ from draw to draw."""
    for alike in zip(*draws, strict=True):
        if not unchanged(alike[0], alike[1]):
            return list(alike)
    return [cases[0] for cases in draws]
