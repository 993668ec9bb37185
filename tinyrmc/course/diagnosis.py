"""Likenesses of a wrong result to the right one, for mistakes that nobody foresaw.

`diagnose` looks at the results of an answer in all cases. It asks in turn

- do they go wrong just where there are leading axes;
- are they what the solution gives with a usual number in the place of an argument;
- are they the right results with something done to them: transposed, shifted, summed,
  a logarithm taken; or off by a factor or an addend that the sizes explain;
- are they what the solution gives for other arguments: one turned around, transposed,
  left out, exchanged with another;
- are some entries right, and where; are some cases right, and which.

The first that holds in every case is named. It is a likeness, not a proof, and the
words say so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import numpy as np

from . import error_patterns
from .cases import Case
from .compare import Demand, agree, numbers

Function = Callable[..., Any]
Pair = tuple[Any, Any]  # what is found, and what is right
FROM_THE_END = "Do you count axes from the end (-1 is the last)?"


def diagnose(
    solution: Function, given: Sequence[Any], cases: Sequence[Case], demand: Demand
) -> str:
    """A sentence on what is wrong with the results `given` for `cases`; "" if unknown.

    given: what an answer returned in each case, or the exception that it raised.
    """
    demand = Demand(demand.tolerance, parts=demand.parts)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = [solution(*case.copies()) for case in cases]
        pairs = list(zip(given, right, strict=True))
        wrong = [not agree(*pair, demand) for pair in pairs]
        about = [case.about for case, off in zip(cases, wrong, strict=True) if off]
        made = ""  # where all that is wrong was made of another case
        if about and all(about):
            made = f"It is right except {' and '.join(dict.fromkeys(about))}. "
        stacks = _which_cases(wrong, cases, error_patterns.OF_STACKS)
        if stacks and not made:
            return f"{stacks}. {FROM_THE_END}"
        sound = [k for k, each in enumerate(given) if not isinstance(each, Exception)]
        pairs, of = [pairs[k] for k in sound], [cases[k] for k in sound]
        # Where chance is allowed for, much is alike.
        # Where most calls raise, the few results are alike by chance; and what is told
        # of them says nothing about an exception.
        first = given[wrong.index(True)] if any(wrong) else None
        told = 2 * len(sound) >= len(given) and not isinstance(first, Exception)
        if told and demand.tolerance < 1e-3 and not _silent(pairs, demand):
            likenesses = chain(
                _written_in(solution, pairs, of, demand),
                _of_parts(pairs, of, demand),
                _of_arguments(solution, pairs, of, demand),
            )
            for words in likenesses:
                return f"{made}It looks as if {words}"
    made += FROM_THE_END * bool(stacks)
    return made.strip() or _which_cases(wrong, cases, error_patterns.OF_CASES)


def _silent(pairs: Sequence[Pair], demand: Demand) -> bool:
    """Whether all numbers are right; a wrong kind of number is told already."""
    return all(agree(*pair, replace(demand, kinds=False)) for pair in pairs)


def _of_parts(pairs: list[Pair], cases: list[Case], demand: Demand) -> Iterator[str]:
    """Patterns of the result, or of the first part of it that is wrong."""
    if all(isinstance(right, str) for _, right in pairs):
        for words, change in error_patterns.OF_TEXTS:
            if _all([(right, found) for found, right in pairs], change, demand):
                yield words
        return
    if not all(isinstance(right, (tuple, list)) for _, right in pairs):
        if not any(isinstance(right, (str, dict)) for _, right in pairs):
            yield from _of_arrays(pairs, cases, demand, "your result")
        return
    count = len(pairs[0][1])
    if any(
        not isinstance(found, (tuple, list, np.ndarray))
        or not len(found) == len(right) == count
        for found, right in pairs
    ):
        for k in range(count):
            if all(agree(found, right[k], demand) for found, right in pairs):
                yield f"you give part [{k}] of the result alone"
        return
    if count > 1 and all(agree(tuple(f)[::-1], right, demand) for f, right in pairs):
        yield "the parts of your result stand in the wrong order"
    for k in range(count):
        of_part = [(found[k], right[k]) for found, right in pairs]
        if not _silent(of_part, demand):
            what = demand.parts[k] if demand.parts else f"part [{k}] of your result"
            yield from _of_arrays(of_part, cases, demand, what)
            return


def _of_arrays(
    pairs: Sequence[Pair], cases: Sequence[Case], demand: Demand, what: str
) -> Iterator[str]:
    """Patterns of arrays, found and right."""
    try:
        some = [(numbers(found), numbers(right)) for found, right in pairs]
    except Exception:  # no numbers, and a foreign object may raise anything
        return
    if all(right.dtype.kind == "b" for _, right in some):
        truths = [(found.astype(bool), right) for found, right in some]
        yield from error_patterns.truths(truths, what)
        return
    for words, change in error_patterns.OF_RESULTS:
        if _all(some, change, demand):
            yield words.format(what=what)
    alike = all(found.shape == right.shape for found, right in some)
    if alike:
        yield from error_patterns.digits(some, what)
    for words, change in error_patterns.UNFINISHED:
        if _all([(right, found) for found, right in some], change, demand):
            yield words.format(what=what)
    for name in cases[0].arguments:
        given = [case.arguments[name] for case in cases]
        if all(agree(f, x, demand) for (f, _), x in zip(some, given, strict=True)):
            yield f"{what} is the argument {name}"
    if alike:
        yield from error_patterns.factors(some, cases, what)
        yield from error_patterns.addends(some, cases, what)
        yield from error_patterns.places(some, demand.tolerance, what)
    yield from error_patterns.same_numbers(some, what)


def _all(pairs: Iterable[Pair], change: Function, demand: Demand) -> bool:
    """Whether `change` turns the second of each pair into the first."""
    for one, other in pairs:
        try:
            if not agree(one, change(other), demand):
                return False
        except Exception:  # some changes need an axis, or a number that is positive
            return False
    return True


def _given_by(
    solution: Function,
    pairs: Sequence[Pair],
    cases: Sequence[Case],
    demand: Demand,
    change: Function,
) -> bool:
    """Whether the solution gives what was found, for arguments changed by `change`."""
    told = 0  # cases in which the change makes a difference
    for (found, right), case in zip(pairs, cases, strict=True):
        named = dict(zip(case.arguments, case.copies(), strict=True))
        try:
            changed = solution(*(named | change(named)).values())
        except Exception:  # not every argument can be changed that way
            return False
        if not agree(found, changed, demand):
            return False
        told += not agree(right, changed, demand)
    return told > 1  # once may be chance: N may be d_k there


def _written_in(
    solution: Function, pairs: Sequence[Pair], cases: Sequence[Case], demand: Demand
) -> Iterator[str]:
    """Usual numbers with which the solution gives the same, whatever was asked for."""
    if all(isinstance(right, (bool, str, np.bool_)) for _, right in pairs):
        return  # these tell too little
    for words, put in error_patterns.written_in(cases[0].arguments):
        if _given_by(solution, pairs, cases, demand, lambda _, put=put: put):
            yield words


def _of_arguments(
    solution: Function, pairs: Sequence[Pair], cases: Sequence[Case], demand: Demand
) -> Iterator[str]:
    """Other arguments with which the solution gives the same."""

    def gives(change: Function) -> bool:
        return _given_by(solution, pairs, cases, demand, change)

    def exchanged(one: str, two: str) -> Function:
        return lambda named: {one: named[two], two: named[one]}

    def altered(name: str, alter: Function) -> Function:
        return lambda named: {name: alter(named[name])}

    first = cases[0].arguments
    for one, two in combinations(first, 2):
        if gives(exchanged(one, two)):
            yield f"{one} and {two} have changed places"
    for name, value in first.items():
        for words, alter in error_patterns.of_argument(value):
            if gives(altered(name, alter)):
                yield words.format(name=name)


# --- Which cases are wrong ------------------------------------------------------------


def _which_cases(
    wrong: Sequence[bool], cases: Sequence[Case], kinds: Sequence[tuple[str, Function]]
) -> str:
    """A sentence on what only the wrong cases have in common; or ""."""
    if all(wrong) or not any(wrong):  # not a matter of numbers
        return ""
    if (
        kinds is error_patterns.OF_CASES
        and min(sum(wrong), len(wrong) - sum(wrong)) < 2
    ):
        kinds = error_patterns.TELLING  # among many kinds one fits a single case
    for words, holds in kinds:
        if [holds([*case.arguments.values()]) for case in cases] == list(wrong):
            return f"It goes wrong where {words}, and is right elsewhere"
    return ""
