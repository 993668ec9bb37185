"""What a wrong result has in common with the right one, for mistakes nobody foresaw.

`diagnose` looks at the results of an answer in all cases. It asks in turn

- do they go wrong just where there are leading axes;
- are they what the solution gives for other arguments: one turned around, transposed,
  left out, exchanged with another;
- are they the right results with something done to them: transposed, shifted, summed,
  a logarithm taken;
- are they off by a factor or by an addend that the sizes explain;
- are some entries right, and where; are some cases right, and which.

The first that holds in every case is named. It is a likeness, not a proof, and the
words say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from ..autograd.engine import Tensor
from . import likenesses
from .cases import Case
from .compare import Demand, Wrong, compare

Function = Callable[..., Any]
Pair = tuple[Any, Any]  # what is found, and what is right


def diagnose(
    solution: Function, given: Sequence[Any], cases: Sequence[Case], demand: Demand
) -> str:
    """A sentence on what is wrong with the results `given` for `cases`; "" if unknown.

    given: what an answer returned in each case, or the exception that it raised.
    """
    same = _Same(Demand(demand.tolerance))
    with np.errstate(all="ignore"):
        right = [solution(*case.copies()) for case in cases]
        whole = [not isinstance(each, Exception) for each in given]
        made = _only_made_cases(given, right, cases, same)
        stacks = _which_cases(given, right, cases, same, likenesses.OF_STACKS)
        if stacks and not made:
            return stacks
        for words in _likenesses(solution, given, right, cases, whole, same):
            return f"{made}It looks as if {words}"
    return made.strip() or _which_cases(given, right, cases, same)


class _Same:
    """Whether two results are the same, in a word."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand

    def __call__(self, found: Any, expected: Any) -> bool:
        return self._agree(found, expected, self.demand)

    def in_numbers(self, found: Any, expected: Any) -> bool:
        """Whether the numbers are the same, of whatever kind they are."""
        return self._agree(found, expected, replace(self.demand, kinds=False))

    @staticmethod
    def _agree(found: Any, expected: Any, demand: Demand) -> bool:
        try:
            compare(found, expected, demand)
        except Wrong:
            return False
        except Exception:  # what is not to be compared is not the same
            return False
        return True


def _likenesses(
    solution: Function,
    given: Sequence[Any],
    right: Sequence[Any],
    cases: Sequence[Case],
    whole: Sequence[bool],
    same: _Same,
) -> Iterator[str]:
    """All that holds, the likeliest first; lazily."""
    if not any(whole):
        return
    pairs = [
        pair
        for pair, ok in zip(zip(given, right, strict=True), whole, strict=True)
        if ok
    ]
    sound = [case for case, ok in zip(cases, whole, strict=True) if ok]
    if _silent(pairs, same):
        return  # what comes back is right, but for the kind of number perhaps
    yield from _of_parts(pairs, sound, same)
    yield from _of_arguments(solution, [found for found, _ in pairs], sound, same)


def _silent(pairs: Sequence[Pair], same: _Same) -> bool:
    return all(same.in_numbers(found, right) for found, right in pairs)


def _of_parts(pairs: list[Pair], cases: list[Case], same: _Same) -> Iterator[str]:
    """What holds of the result, or of the one part of it that is wrong."""
    if all(isinstance(right, str) for _, right in pairs):
        for words, change in likenesses.OF_TEXTS:
            if _all([(right, found) for found, right in pairs], same, change):
                yield words
        return
    if not all(isinstance(right, (tuple, list)) for _, right in pairs):
        if not any(isinstance(right, (str, dict)) for _, right in pairs):
            yield from _of_arrays(pairs, cases, same, "your result")
        return
    count = len(pairs[0][1])
    if not all(_is_sequence(found, count) and len(right) == count
               for found, right in pairs):  # fmt: skip
        parts = [k for k in range(count) if all(same(f, r[k]) for f, r in pairs)]
        if parts:
            yield f"you give part [{parts[0]}] of the result alone"
        return
    if count > 1 and all(same(tuple(found)[::-1], right) for found, right in pairs):
        yield "the parts of your result stand in the wrong order"
    wrong = [
        k for k in range(count) if not all(same(f[k], right[k]) for f, right in pairs)
    ]
    for k in wrong:
        of_part = [(found[k], right[k]) for found, right in pairs]
        if _silent(of_part, same):
            continue  # of another kind, which is told already
        others = "; the other parts are right" if len(wrong) < count else ""
        for words in _of_arrays(of_part, cases, same, f"part [{k}] of your result"):
            yield words + others
        return


def _is_sequence(value: Any, count: int) -> bool:
    return isinstance(value, (tuple, list, np.ndarray)) and len(value) == count


def _plain(value: Any) -> np.ndarray | None:
    try:
        array = np.asarray(value.data if isinstance(value, Tensor) else value)
    except Exception:
        return None
    return array if array.dtype.kind in "biufc" else None


def _of_arrays(
    pairs: Sequence[Pair], cases: Sequence[Case], same: _Same, what: str
) -> Iterator[str]:
    """What holds of arrays, found and right."""
    arrays = [(_plain(found), _plain(right)) for found, right in pairs]
    if any(found is None or right is None for found, right in arrays):
        return
    some: list[tuple[np.ndarray, np.ndarray]] = arrays  # type: ignore[assignment]
    backwards = [(right, found) for found, right in some]
    if all(right.dtype.kind == "b" for _, right in some):
        truths = [(found.astype(bool), right) for found, right in some]
        yield from likenesses.truths(truths, what)
        return
    for words, change in likenesses.OF_RESULTS:
        if _all(some, same, change):
            yield words.format(what=what)
    for words, change in likenesses.UNFINISHED:
        if _all(backwards, same, change):
            yield words.format(what=what)
    for name in cases[0].arguments:
        given = [
            (found, case.arguments[name])
            for (found, _), case in zip(some, cases, strict=True)
        ]
        if all(same(*each) for each in given):
            yield f"{what} is the argument {name}"
    if any(found.shape != right.shape for found, right in some):
        yield from likenesses.same_numbers(some, what)
    else:
        yield from likenesses.factors(some, cases, what)
        yield from likenesses.addends(some, cases, what)
        yield from likenesses.digits(some, what)
        yield from likenesses.places(some, same.demand.tolerance, what)
        yield from likenesses.same_numbers(some, what)


def _all(pairs: Iterable[Pair], same: _Same, change: Function) -> bool:
    """Whether `change` turns the second of each pair into the first."""
    for one, other in pairs:
        try:
            if not same(one, change(other)):
                return False
        except Exception:  # some changes need an axis, or a number that is positive
            return False
    return True


def _of_arguments(
    solution: Function, given: Sequence[Any], cases: Sequence[Case], same: _Same
) -> Iterator[str]:
    """What holds if the solution is given other arguments."""

    def gives(change: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
        for found, case in zip(given, cases, strict=True):
            names, arguments = list(case.arguments), case.copies()
            try:
                changed = change(dict(zip(names, arguments, strict=True)))
                if not same(found, solution(*changed.values())):
                    return False
            except Exception:  # not every argument can be changed that way
                return False
        return True

    names = list(cases[0].arguments)
    for one, two in combinations(names, 2):
        if gives(_exchanged(one, two)):
            yield f"{one} and {two} have changed places"
    for name in names:
        for words, alter in likenesses.OF_ARGUMENTS:
            if gives(_altered(name, alter)):
                yield words.format(name=name)


def _exchanged(one: str, two: str) -> Function:
    return lambda named: {**named, one: named[two], two: named[one]}


def _altered(name: str, alter: Function) -> Function:
    return lambda named: {**named, name: alter(named[name])}


# --- Which cases are wrong ------------------------------------------------------------


def _which_cases(
    given: Sequence[Any],
    right: Sequence[Any],
    cases: Sequence[Case],
    same: _Same,
    kinds: Sequence[tuple[str, Function]] = likenesses.OF_CASES,
) -> str:
    """What only the wrong cases have in common; "" if there is no such thing."""
    wrong = [not same(*pair) for pair in zip(given, right, strict=True)]
    if all(wrong) or not any(wrong):  # not a matter of numbers
        return ""
    for words, holds in kinds:
        if [holds([*case.arguments.values()]) for case in cases] == wrong:
            return f"It goes wrong where {words}, and is right elsewhere"
    return ""


def _only_made_cases(
    given: Sequence[Any], right: Sequence[Any], cases: Sequence[Case], same: _Same
) -> str:
    """Says that only cases made from others go wrong, and what these have; or ""."""
    pairs = zip(given, right, cases, strict=True)
    made = [case.about for found, wanted, case in pairs if not same(found, wanted)]
    if not made or not all(made):
        return ""
    return f"It is right except {' and '.join(dict.fromkeys(made))}. "
