"""The error patterns that `diagnosis.py` looks for: what may have been done to a
result, to an argument, to a part of the entries.

The words of a change follow "the right one,", "yours," and "you take x": each reads
well behind all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations, permutations
from typing import Any

import numpy as np

from .cases import Case

Change = Callable[[Any], Any]
Pairs = Sequence[tuple[np.ndarray, np.ndarray]]  # found and right
AXES = {-1: "last axis", -2: "last axis but one", 0: "first axis"}
FIRST_OR_LAST = ((0, "first"), (-1, "last"))

# --- Changes of an array --------------------------------------------------------------


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) if x.ndim else np.nan * x


def _divided_by_sums(x: np.ndarray, axis: int | None = None) -> np.ndarray:
    return x / x.sum(axis=axis, keepdims=True) if x.ndim else np.nan * x


def _less_mean(x: np.ndarray, axis: int | None = None) -> np.ndarray:
    return x - x.mean(axis=axis, keepdims=True)


def _everywhere(part: Change, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(part(x), x.shape)


def _times_length(x: np.ndarray, axis: int, power: float) -> np.ndarray:
    return x * x.shape[axis] ** power


def _in_order(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The last axes in this order."""
    n = len(axes)
    return np.moveaxis(x, range(x.ndim - n, x.ndim), [axis - n for axis in axes])


ENTRY_BY_ENTRY: list[tuple[str, Change]] = [
    ("negated", np.negative),
    ("subtracted from 1", lambda x: 1 - x),
    ("inverted (True for False)", lambda x: ~x if x.dtype.kind == "b" else None),
    ("without its sign (an absolute value)", np.abs),
    ("squared", np.square),
    ("with its root taken", np.sqrt),
    ("turned over (1 divided by it)", lambda x: 1 / x),
    ("with an exponential taken", np.exp),
    ("with a logarithm taken", np.log),
    ("with a tanh taken", np.tanh),
    ("with a sigmoid taken", lambda x: 1 / (1 + np.exp(-x))),
    ("cut off below 0 (a ReLU)", lambda x: np.maximum(x, 0)),
    ("cut off above 1", lambda x: np.minimum(x, 1)),
    ("rounded", np.round),
    ("cut down to whole numbers", np.trunc),
    ("reduced to its sign", np.sign),
    ("with 1 added", lambda x: x + 1),
    ("with 1 subtracted", lambda x: x - 1),
]


def _moved() -> Iterator[tuple[str, Change]]:
    yield "transposed (its last two axes exchanged)", lambda x: x.swapaxes(-1, -2)
    yield "with all its axes turned round (.T)", np.transpose
    yield "with its first two axes exchanged", lambda x: x.swapaxes(0, 1)
    for count in (3, 4):
        for axes in permutations(range(count)):
            order = ", ".join(str(axis - count) for axis in axes)
            words = f"with its axes in the order (..., {order})"
            yield words, partial(_in_order, axes=axes)
    for axis, name in AXES.items():
        yield f"the wrong way round along its {name}", partial(np.flip, axis=axis)
        for shift in (1, -1):
            shifted = partial(np.roll, shift=shift, axis=axis)
            yield f"shifted by one place along its {name}", shifted


def _cut() -> Iterator[tuple[str, Change]]:
    for axis, name in AXES.items():
        for end, which in FIRST_OR_LAST:
            entry = f"the {which} entry of its {name}"
            left = partial(np.take, indices=[end], axis=axis)
            yield f"without {entry}", partial(np.delete, obj=end, axis=axis)
            yield f"cut to {entry}", left
            yield f"with {entry} everywhere", partial(_everywhere, left)
            alone = partial(np.take, indices=end, axis=axis)
            yield f"cut to {entry}, without that axis", alone
        mean = partial(np.mean, axis=axis, keepdims=True)
        yield f"with its mean over the {name} everywhere", partial(_everywhere, mean)
    yield "with zeros above its diagonal", np.tril
    yield "with zeros below its diagonal", np.triu
    yield "with zeros beside its diagonal", lambda x: x * np.eye(*x.shape[-2:])


def _along() -> Iterator[tuple[str, Change]]:
    yield "with a softmax taken over its last axis", _softmax
    for axis, name in AXES.items():
        divided = partial(_divided_by_sums, axis=axis)
        yield f"divided by its sums over the {name}", divided
        yield f"less its mean over the {name}", partial(_less_mean, axis=axis)
        yield f"added up step by step along its {name}", partial(np.cumsum, axis=axis)
        yield f"sorted along its {name}", partial(np.sort, axis=axis)
    yield "divided by its sum", _divided_by_sums
    yield "less its mean", _less_mean


def _reduced() -> Iterator[tuple[str, Change]]:
    ways: dict[str, Any] = {
        "added up": np.sum,
        "averaged": np.mean,
        "reduced to its largest entry": np.max,
        "reduced to the index of its largest entry": np.argmax,
    }
    for words, reduce in ways.items():
        for axis, name in AXES.items():
            yield f"{words} over its {name}", partial(reduce, axis=axis)
        yield words, reduce


SHAPED_ALIKE = [*ENTRY_BY_ENTRY, *_moved(), *_cut(), *_along()]

# (what is said of a result, what turns the right one into it)
OF_RESULTS: list[tuple[str, Change]] = [
    ("{what} is 0 everywhere", np.zeros_like),
    *(
        (f"{{what}} is the right one, {words}", change)
        for words, change in [*SHAPED_ALIKE, *_reduced()]
    ),
    ("{what} is 1 everywhere", np.ones_like),
    ("{what} has one axis of length 1 too many at the end", lambda x: x[..., None]),
    ("{what} has one axis of length 1 too many in front", lambda x: x[None]),
    ("{what} has one axis of length 1 too many", lambda x: np.expand_dims(x, 1)),
    ("{what} has lost an axis of length 1", np.squeeze),
    ("{what} is flat: its numbers are right, its axes are gone", np.ravel),
]

# (what is said of a result, what would turn it into the right one)
UNFINISHED: list[tuple[str, Change]] = [
    (f"a step is missing or wrong: yours, {words}, is the right result", change)
    for words, change in [*ENTRY_BY_ENTRY, *_along(), *_reduced(), *_cut()]
]

# (what is said of a text, what would turn it into the right one)
OF_TEXTS: list[tuple[str, Change]] = [
    ("you give the right number, but not as a text", str),
    ("there are blanks around the right text", lambda x: x.strip()),
    ("your text stands the wrong way round", lambda x: x[::-1]),
    ("you give the characters one by one, not a text", "".join),
    ("you write zeros before the number", lambda x: str(int(x))),
]

# --- Changes of an argument -----------------------------------------------------------


def _of_arrays() -> Iterator[tuple[str, Change]]:
    yield "you leave {name} out: it plays no part", lambda x: x * 0
    yield "you take {name} as 1 everywhere: its values play no part", np.ones_like
    for words, change in SHAPED_ALIKE:
        yield f"you take {{name}} {words}", change
    yield "you take {name} twice as large", lambda x: 2 * x
    yield "you take {name} half as large", lambda x: x / 2
    for axis in (-1, -2):
        for words, power in (("", 1.0), ("the root of ", 0.5)):
            length = f"{words}the length of its {AXES[axis]}"
            times = partial(_times_length, axis=axis, power=power)
            over = partial(_times_length, axis=axis, power=-power)
            yield f"you divide {{name}} by {length}", over
            yield f"you multiply {{name}} by {length}", times


OF_NUMBERS: list[tuple[str, Change]] = [
    ("you take {name} one too large", lambda x: x + 1),
    ("you take {name} one too small", lambda x: x - 1),
    ("you take {name} negated", lambda x: -x),
    ("you take 1 minus {name}", lambda x: 1 - x),
    ("you take twice {name}", lambda x: 2 * x),
    ("you take half of {name}", lambda x: x / 2),
    ("you square {name}", lambda x: x * x),
    ("you take the root of {name}", lambda x: x**0.5),
    ("you take 1 divided by {name}", lambda x: 1 / x),
]
# Numbers that people write in where an argument should stand, alone or two of them.
WRITTEN: dict[type, tuple[float, ...]] = {
    int: (2, 3, 4, 8),
    float: (0.9, 0.99, 0.999, 0.5, 0.1, 0.01, 1e-3, 1e-5, 1e-6, 1e-8, 2.0, 3.0, 5.0),
}
TWO_WRITTEN = ((0.9, 0.999), (0.9, 0.99))
OF_LISTS: list[tuple[str, Change]] = [
    ("you go through {name} from its end", lambda x: x[::-1]),
    ("you leave out the first of {name}", lambda x: x[1:]),
    ("you leave out the last of {name}", lambda x: x[:-1]),
    ("you take all of {name} like the first", lambda x: x[:1] * len(x)),
]
OF_ARRAYS = [*_of_arrays()]


def of_argument(value: Any) -> Sequence[tuple[str, Change]]:
    """(what is said of an argument like this, what changes it)."""
    if isinstance(value, np.ndarray):
        return OF_ARRAYS
    if isinstance(value, (list, tuple)):
        return OF_LISTS
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return OF_NUMBERS if is_number else ()


def written_in(arguments: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(what is said of numbers that stand in the place of arguments, these numbers)."""
    kinds = {name: type(v) for name, v in arguments.items() if type(v) in WRITTEN}
    for name, kind in kinds.items():
        for left_out in (0, 1):
            words = f"you leave {name} out, as if it were {left_out}"
            yield words, {name: kind(left_out)}
        for number in WRITTEN[kind]:
            yield f"{number:g} is written in for {name}", {name: number}
    floats = [name for name, kind in kinds.items() if kind is float]
    for one, two in combinations(floats, 2):
        for numbers in TWO_WRITTEN:
            words = f"{numbers[0]:g} and {numbers[1]:g} are written in for {one} and "
            yield f"{words}{two}", dict(zip((one, two), numbers, strict=True))


# --- Factors and addends --------------------------------------------------------------

FORMS: dict[str, Callable[[float], float]] = {
    "{}": lambda n: n,
    "1 / {}": lambda n: 1 / n,
    "the root of {}": lambda n: n**0.5,
    "1 / the root of {}": lambda n: n**-0.5,
    "{} - 1": lambda n: n - 1,
    "1 / ({} - 1)": lambda n: 1 / (n - 1),
    "{0} / ({0} - 1)": lambda n: n / (n - 1),
    "({0} - 1) / {0}": lambda n: (n - 1) / n,
    "the square of {}": lambda n: n * n,
}


def _sizes(case: Case, right: np.ndarray) -> dict[str, float]:
    """Numbers that a result may be off by: lengths of axes, and plain arguments."""
    sizes: dict[str, float] = {"the number of its entries": right.size}
    for name, value in case.arguments.items():
        if isinstance(value, np.ndarray):
            for k in range(1, value.ndim + 1):
                sizes[f"{name}.shape[{-k}]"] = value.shape[-k]
            sizes[f"{name}.size"] = value.size
        elif isinstance(value, (int, float)):
            sizes[name] = value
        if isinstance(value, (list, tuple)) or np.ndim(value):
            sizes[f"len({name})"] = len(value)
    return sizes


def _explained(
    numbers: Sequence[float], pairs: Pairs, cases: Sequence[Case]
) -> Iterator[str]:
    """The sizes that explain the numbers in every case, in words."""
    sizes = [_sizes(case, right) for case, (_, right) in zip(cases, pairs, strict=True)]
    for name in [name for name in sizes[0] if all(name in each for each in sizes)]:
        for words, form in FORMS.items():
            try:
                wanted = [form(each[name]) for each in sizes]
            except (ZeroDivisionError, OverflowError):
                continue
            real = not np.iscomplexobj(wanted)
            if real and np.allclose(numbers, wanted, rtol=1e-7, atol=1e-12):
                yield words.format(name)


def _one_number(values: np.ndarray) -> float | None:
    """The number that all finite values are; None if they differ, or there is none."""
    values = values[np.isfinite(values)]
    if not values.size or not np.allclose(values, values[0], rtol=1e-6, atol=1e-12):
        return None
    return float(values[0])


def _real(pairs: Pairs) -> bool:
    """Whether all of them are real numbers, and those that are found are finite."""
    return all(
        found.dtype.kind != "c" != right.dtype.kind and np.isfinite(found).all()
        for found, right in pairs
    )


def _tell(pairs: Pairs) -> bool:
    """Whether there are enough wrong entries to see a pattern in."""
    wrong = [right for found, right in pairs if not np.allclose(found, right)]
    return sum(right.size > 2 and right.dtype.kind != "b" for right in wrong) > 1


def _constant_along(values: np.ndarray, axis: int) -> bool:
    """Whether values differ from row to row alone, and there are rows to tell it by."""
    if values.ndim < -axis or values.shape[axis] < 2:
        return values.ndim >= -axis
    with np.errstate(all="ignore"):
        filled = np.where(np.isfinite(values), values, np.nan)
        low = np.fmin.reduce(filled, axis=axis)
        high = np.fmax.reduce(filled, axis=axis)
    close = np.isclose(low, high, rtol=1e-6, atol=1e-12) | np.isnan(low)
    return bool(close.all() and not np.isinf(values).any())


def factors(pairs: Pairs, cases: Sequence[Case], what: str) -> Iterator[str]:
    """A result is the right one times a number, or each row is."""
    if not _real(pairs):
        return
    ratios = []  # NaN where there is none, inf where the right entry alone is 0
    for found, right in pairs:
        both = (abs(found) < 1e-12) & (abs(right) < 1e-12)
        ratios.append(np.where(both, np.nan, found.astype(float) / right))
    if any(np.isinf(each).any() for each in ratios):
        return
    known = [k for k, each in enumerate(ratios) if np.isfinite(each).any()]
    numbers = [_one_number(ratios[k]) for k in known]
    if known and None not in numbers:
        alike: Any = numbers
        if np.allclose(alike, 1, rtol=1e-3):
            return  # a matter of digits
        if np.allclose(alike, alike[0], rtol=1e-7, atol=0):
            yield f"{what} is {alike[0]:.4g} times the right one"
        chosen = [pairs[k] for k in known], [cases[k] for k in known]
        for words in _explained(alike, *chosen):
            yield f"{what} is the right one times {words}"
        if _tell(pairs):
            yield f"{what} is the right one times a number, another one in each case"
    if not _tell(pairs):
        return
    for axis, name in ((-1, "row"), (-2, "column")):
        if all(_constant_along(each, axis) for each in ratios):
            yield (
                f"each {name} of {what} is the right one times a number of its own: is "
                "a division missing, or one too many?"
            )


def addends(pairs: Pairs, cases: Sequence[Case], what: str) -> Iterator[str]:
    """A result is the right one plus a number, or each row is."""
    if not _real(pairs) or not all(np.isfinite(right).all() for _, right in pairs):
        return
    gaps = [found.astype(float) - right.astype(float) for found, right in pairs]
    numbers = [_one_number(each) for each in gaps]
    if None not in numbers:
        alike: Any = numbers
        if np.allclose(alike, alike[0], rtol=1e-7, atol=1e-12):
            yield f"{what} is off by {alike[0]:.4g}, everywhere"
        for words in _explained(np.abs(alike).tolist(), pairs, cases):
            yield f"{what} is off by {words}"
        if _tell(pairs):
            yield f"{what} is off by a number, another one in each case"
    for name in cases[0].arguments:
        for sign, words in ((1, "plus"), (-1, "minus")):
            try:
                if all(
                    np.allclose(gap, sign * np.asarray(case.arguments[name]))
                    for gap, case in zip(gaps, cases, strict=True)
                ):
                    yield f"{what} is the right one {words} {name}"
            except (TypeError, ValueError):  # of another shape, or no number
                continue
    if not _tell(pairs):
        return
    for axis, name in ((-1, "row"), (-2, "column")):
        if all(_constant_along(each, axis) for each in gaps):
            yield (
                f"each {name} of {what} is off by a number of its own: is something "
                "subtracted or added there that should not be?"
            )


# --- Places, digits, truth values -----------------------------------------------------


def same_numbers(pairs: Pairs, what: str) -> Iterator[str]:
    """The entries are right but in the wrong places; or an axis is missing."""
    if max((right.size for _, right in pairs), default=0) > 3 and all(
        one.size == other.size
        and np.allclose(np.sort(one, axis=None), np.sort(other, axis=None), atol=1e-9)
        for one, other in pairs
    ):
        yield f"{what} has the right numbers, in the wrong places"
    ndim = {right.ndim for _, right in pairs}
    if len(ndim) != 1:
        return
    shapes = [(found.shape, right.shape) for found, right in pairs]
    for axis in range(max(ndim)):
        where = f"axis {axis} (counted from 0)"
        if all(one == other[:axis] + other[axis + 1 :] for one, other in shapes):
            yield f"{where} is missing in {what}"
        if all(
            len(one) == len(other) and one[axis] != other[axis] for one, other in shapes
        ):
            yield f"{where} of {what} has the wrong length"


def places(pairs: Pairs, tolerance: float, what: str) -> Iterator[str]:
    """Some entries are right: which are wrong?"""
    wrong = [
        ~(abs(found - right) <= tolerance * np.nan_to_num(abs(right), posinf=1).clip(1))
        & ~(np.isnan(found) & np.isnan(right))
        & (found != right)
        for found, right in ((f.astype(complex), r.astype(complex)) for f, r in pairs)
    ]
    if all(mask.ndim >= 2 for mask in wrong):
        diagonal = [np.broadcast_to(np.eye(*m.shape[-2:]) > 0, m.shape) for m in wrong]
        if all(not (m & ~d).any() for m, d in zip(wrong, diagonal, strict=True)):
            yield f"only the diagonal of {what} is wrong"
        if all(not (m & d).any() for m, d in zip(wrong, diagonal, strict=True)):
            yield f"only the diagonal of {what} is right"
    for axis, name in AXES.items():
        long = [np.moveaxis(m, axis, 0) for m in wrong if m.ndim > max(axis, -axis - 1)]
        long = [mask for mask in long if len(mask) > 1]
        if not long or len(long) < sum(mask.any() for mask in wrong):
            continue
        for end, place in FIRST_OR_LAST:
            entry = f"only the {place} entry along the {name} of {what}"
            others = [np.delete(mask, end, axis=0) for mask in long]
            if not any(mask.any() for mask in others):
                yield f"{entry} is wrong"
            if not any(mask[end].any() for mask in long) and all(
                each.any() for other in others if other.any() for each in other
            ):
                yield f"{entry} is right"


def truths(pairs: Pairs, what: str) -> Iterator[str]:
    """Truth values: all the same, the opposite, turned around."""
    for truth in (True, False):
        if all((found == truth).all() for found, _ in pairs):
            yield f"{what} is {truth} whatever comes"
    for words, change in (
        ("the opposite of the right one", np.logical_not),
        ("the right one, transposed", np.transpose),
        ("the right one, the wrong way round", np.flip),
    ):
        if all(np.array_equal(found, change(right)) for found, right in pairs):
            yield f"{what} is {words}"
    if all(np.shape(found) == np.shape(right) for found, right in pairs):
        if not any((found & ~right).any() for found, right in pairs):
            yield f"{what} is False too often: where it is True it is right"
        if not any((right & ~found).any() for found, right in pairs):
            yield f"{what} is True too often: where it is False it is right"


def digits(pairs: Pairs, what: str) -> Iterator[str]:
    """A result is nearly right."""
    worst = 1e-300
    for found, right in pairs:
        ok = np.isfinite(right)
        if not np.array_equal(ok, np.isfinite(found)):
            return
        if ok.any():
            errors = abs(found - right)[ok] / max(1.0, abs(right[ok]).max())
            worst = max(worst, float(errors.max()))
    if worst < 1e-3:
        yield (
            f"{what} is right, but to {-int(np.floor(np.log10(worst))) - 1} digits "
            "only: is there float32 in it, a small number that you add, or a "
            "difference of numbers that are nearly the same?"
        )


# --- Which cases ----------------------------------------------------------------------


def _arrays(arguments: Sequence[Any]) -> list[np.ndarray]:
    found = []
    for each in arguments:
        if isinstance(each, np.ndarray):
            found.append(each)
        elif isinstance(each, (list, tuple)):
            found += _arrays(each)
    return found


def _any(test: Callable[[np.ndarray], Any]) -> Callable[[Sequence[Any]], bool]:
    return lambda arguments: any(bool(test(each)) for each in _arrays(arguments))


def _floats(test: Callable[[np.ndarray], Any]) -> Callable[[Sequence[Any]], bool]:
    return _any(lambda x: x.size and x.dtype.kind in "fc" and test(x))


# (what a case is like, whether it is)
OF_STACKS: list[tuple[str, Callable[[Sequence[Any]], bool]]] = [
    ("there are leading axes", _any(lambda x: x.ndim > 2)),
    ("there are two leading axes", _any(lambda x: x.ndim > 3)),
]
TELLING: list[tuple[str, Callable[[Sequence[Any]], bool]]] = [
    ("numbers are not finite", _floats(lambda x: not np.isfinite(x).all())),
    ("numbers are large", _floats(lambda x: abs(x).max() > 500)),
    ("numbers are large", _floats(lambda x: abs(x).max() > 50)),
    *OF_STACKS,
    ("an array has more than one axis", _any(lambda x: x.ndim > 1)),
]
OF_CASES: list[tuple[str, Callable[[Sequence[Any]], bool]]] = [
    *TELLING,
    ("there are no leading axes", lambda a: all(x.ndim < 3 for x in _arrays(a))),
    ("an axis has the length 1", _any(lambda x: 1 in x.shape)),
    ("an array has no axis", _any(lambda x: x.ndim == 0)),
]
