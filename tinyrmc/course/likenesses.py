"""The likenesses that `diagnosis.py` looks for: what may have been done to a result, to
an argument, to a part of the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from .cases import Case

Change = Callable[[Any], Any]
Pairs = Sequence[tuple[np.ndarray, np.ndarray]]  # found and right
AXES = {-1: "last axis", -2: "last axis but one", 0: "first axis", None: "whole array"}


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _like(x: np.ndarray, part: Any) -> np.ndarray:
    return np.broadcast_to(part, x.shape)


def _at(axis: int, part: slice) -> Change:
    """x[part] along an axis."""
    return lambda x: x[(slice(None),) * (axis % x.ndim) + (part,)]


def _first_everywhere(axis: int, part: slice) -> Change:
    return lambda x: _like(x, _at(axis, part)(x))


def _averaged(axis: int) -> Change:
    return lambda x: _like(x, x.mean(axis=axis, keepdims=True))


def _over(function: Callable[..., Any], axis: int | None, **options: Any) -> Change:
    return lambda x: function(x, axis=axis, **options)


def _shifted(shift: int, axis: int) -> Change:
    return lambda x: np.roll(x, shift, axis)


def _alone(axis: int, part: slice) -> Change:
    return lambda x: _at(axis, part)(x).squeeze(axis)


def _divided_by(of: Callable[..., Any], axis: int) -> Change:
    return lambda x: x / of(x, axis=axis, keepdims=True)


def _centred(axis: int | None) -> Change:
    return lambda x: x - x.mean(axis=axis, keepdims=True)


def _by_length(axis: int, power: float) -> Change:
    return lambda x: x * x.shape[axis] ** power


def _turned(axes: tuple[int, ...]) -> Change:
    """The last axes in this order."""
    to = [axis - len(axes) for axis in axes]
    return lambda x: np.moveaxis(x, range(x.ndim - len(axes), x.ndim), to)


def _reductions() -> Iterator[tuple[str, Change]]:
    """(words, reduction) for sums, means and the like over each axis."""
    ways: dict[str, Any] = {
        "summed": np.sum,
        "averaged": np.mean,
        "reduced to its largest entry": np.max,
        "reduced to the index of its largest entry": np.argmax,
    }
    for words, reduce in ways.items():
        for axis, name in AXES.items():
            over = "" if axis is None else f" over its {name}"

            yield f"{words}{over}", _over(reduce, axis)


def _moved() -> Iterator[tuple[str, Change]]:
    """(words, change) for axes and places that are exchanged."""
    yield "transposed (its last two axes are exchanged)", lambda x: x.swapaxes(-1, -2)
    yield "transposed (its axes are turned around)", lambda x: np.asarray(x).T
    yield "in another order of axes (the first two)", lambda x: x.swapaxes(0, 1)
    for order in permutations(range(4)):
        for count in (3, 4):
            axes = order[:count]
            if sorted(axes) == list(range(count)):
                yield f"in another order of axes: {axes}", _turned(axes)
    for axis in (-1, -2, 0):
        name = AXES[axis]
        yield f"the wrong way round along its {name}", _over(np.flip, axis)
        for shift in (1, -1):
            yield f"shifted by one place along its {name}", _shifted(shift, axis)


def _cuts() -> Iterator[tuple[str, Change]]:
    """(words, change) for entries that are missing or copied."""
    for axis in (-1, -2, 0):
        name = AXES[axis]
        yield f"without the first entry of its {name}", _at(axis, slice(1, None))
        yield f"without the last entry of its {name}", _at(axis, slice(None, -1))
        for part in (slice(0, 1), slice(-1, None)):
            which = "first" if part.start == 0 else "last"
            yield f"cut to the {which} entry of its {name}", _at(axis, part)
            yield (
                f"like the {which} entry of its {name} everywhere",
                _first_everywhere(axis, part),
            )
            yield (
                f"the {which} entry of its {name} alone",
                _alone(axis, part),
            )
        yield f"averaged over its {name}, and that everywhere", _averaged(axis)
    yield "zero above its diagonal", np.tril
    yield "zero below its diagonal", np.triu
    yield "zero but for its diagonal", lambda x: x * np.eye(*x.shape[-2:])


def _pointwise() -> Iterator[tuple[str, Change]]:
    """(words, change) for functions of each entry."""
    yield "negated (its sign is turned around)", lambda x: -x
    yield "subtracted from 1", lambda x: 1 - x
    yield "inverted: True for False", lambda x: ~x
    yield "without its sign (an absolute value)", abs
    yield "squared", np.square
    yield "under a root", np.sqrt
    yield "turned over (1 divided by it)", lambda x: 1 / x
    yield "in an exponential", np.exp
    yield "in a logarithm", np.log
    yield "in a tanh", np.tanh
    yield "in a sigmoid", _sigmoid
    yield "cut off at 0 (a ReLU)", lambda x: np.maximum(x, 0)
    yield "cut off at 1", lambda x: np.minimum(x, 1)
    yield "cut off at 0 and 1", lambda x: np.clip(x, 0, 1)
    yield "rounded", np.round
    yield "cut down to whole numbers", np.trunc
    yield "reduced to its sign", np.sign
    yield "with 1 too much", lambda x: x + 1
    yield "with 1 too little", lambda x: x - 1


def _along() -> Iterator[tuple[str, Change]]:
    """(words, change) for functions along an axis that keep the shape."""
    yield "in a softmax over its last axis", _softmax
    for axis in (-1, -2, 0):
        name = AXES[axis]
        for words, of in (("sums", np.sum), ("norms", np.linalg.norm)):
            yield (
                f"divided by its {words} over the {name}",
                _divided_by(of, axis),
            )
        yield (
            f"without its mean over the {name}",
            _centred(axis),
        )
        yield f"a running sum along its {name}", _over(np.cumsum, axis)
        yield (
            f"a running product along its {name}",
            _over(np.cumprod, axis),
        )
        yield f"sorted along its {name}", _over(np.sort, axis)
    yield "divided by its sum", lambda x: x / x.sum()
    yield "without its mean", lambda x: x - x.mean()


# (what is said of a text, what would turn it into the right one)
OF_TEXTS: list[tuple[str, Change]] = [
    ("you give the right number, but not as a text", str),
    (
        "you give the right number with a point; it is whole",
        lambda x: str(int(float(x))),
    ),
    ("there are blanks around the right text", lambda x: x.strip()),
    ("your text stands the wrong way round", lambda x: x[::-1]),
    ("you give the characters one by one, not a text", "".join),
    ("you write zeros before the number", lambda x: str(int(x))),
    ("your number is 1 too large", lambda x: str(int(x) - 1)),
    ("your number is 1 too small", lambda x: str(int(x) + 1)),
]

# (what is said of a result, what turns the right one into it)
OF_RESULTS: list[tuple[str, Change]] = [
    (f"{{what}} is the right one {words}", change)
    for changes in (_pointwise(), _moved(), _cuts(), _along(), _reductions())
    for words, change in changes
] + [
    ("{what} is 0 everywhere", np.zeros_like),
    ("{what} is 1 everywhere", np.ones_like),
    ("{what} has one axis of length 1 too many at the end", lambda x: x[..., None]),
    ("{what} has one axis of length 1 too many in front", lambda x: x[None]),
    ("{what} has one axis of length 1 too many", lambda x: np.expand_dims(x, 1)),
    ("{what} has lost an axis of length 1", np.squeeze),
    ("{what} is flat: its numbers are right, its axes are gone", np.ravel),
    ("{what} is there for each of several rows, all alike", lambda x: _like(x, x[:1])),
]  # fmt: skip

# (what is said of a result, what would turn it into the right one)
UNFINISHED: list[tuple[str, Change]] = [
    (f"a step is missing: the right result is yours {words}", change)
    for changes in (_pointwise(), _along(), _reductions(), _cuts())
    for words, change in changes
]


# --- Arguments ------------------------------------------------------------------------


def _array(change: Change) -> Change:
    """`change` for arrays of numbers alone."""

    def only(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            raise TypeError
        return change(x)

    return only


def _scalar(change: Change) -> Change:
    def only(x: Any) -> Any:
        if isinstance(x, bool) or not isinstance(x, (int, float)):
            raise TypeError
        return change(x)

    return only


def _listed(change: Change) -> Change:
    def only(x: Any) -> Any:
        if not isinstance(x, (list, tuple)):
            raise TypeError
        return change(x)

    return only


def _of_arrays() -> Iterator[tuple[str, Change]]:
    yield "you leave {name} out: it plays no part", lambda x: x * 0
    yield "{name} is 1 everywhere: its values play no part", np.ones_like
    for changes in (_pointwise(), _moved(), _cuts(), _along()):
        for words, change in changes:
            yield f"you take {{name}} {words}", change
    yield "you take {name} twice as large", lambda x: 2 * x
    yield "you take {name} half as large", lambda x: x / 2
    for axis in (-1, -2):
        length = f"the length of its {AXES[axis]}"
        for words, power in (("", 1.0), ("the root of ", 0.5)):
            yield f"you divide {{name}} by {words}{length}", _by_length(axis, -power)
            yield f"you multiply {{name}} by {words}{length}", _by_length(axis, power)


# (what is said of an argument, what changes it)
OF_ARGUMENTS: list[tuple[str, Change]] = [
    *((words, _array(change)) for words, change in _of_arrays()),
    ("you leave {name} out, as if it were 0", _scalar(lambda x: 0 * x)),
    ("you leave {name} out, as if it were 1", _scalar(lambda x: 0 * x + 1)),
    ("you take {name} one too large", _scalar(lambda x: x + 1)),
    ("you take {name} one too small", _scalar(lambda x: x - 1)),
    ("you take {name} negated", _scalar(lambda x: -x)),
    ("you take 1 minus {name}", _scalar(lambda x: 1 - x)),
    ("you take {name} twice", _scalar(lambda x: 2 * x)),
    ("you take half of {name}", _scalar(lambda x: x / 2)),
    ("you square {name}", _scalar(lambda x: x * x)),
    ("you take the root of {name}", _scalar(lambda x: x**0.5)),
    ("you turn {name} over, 1 divided by it", _scalar(lambda x: 1 / x)),
    ("you take {name} from its end", _listed(lambda x: x[::-1])),
    ("you leave out the first of {name}", _listed(lambda x: x[1:])),
    ("you leave out the last of {name}", _listed(lambda x: x[:-1])),
    ("you take the first of {name} only", _listed(lambda x: x[:1])),
    ("you take the last of {name} only", _listed(lambda x: x[-1:])),
    ("all of {name} are like the first", _listed(lambda x: x[:1] * len(x))),
    ("all of {name} are like the last", _listed(lambda x: x[-1:] * len(x))),
]


# --- Factors and addends --------------------------------------------------------------


def _sizes(case: Case, right: np.ndarray) -> dict[str, float]:
    """Numbers that a result may be off by: lengths of axes, and plain arguments."""
    sizes: dict[str, float] = {"the number of its entries": right.size}
    for name, value in case.arguments.items():
        if isinstance(value, np.ndarray):
            for k in range(1, value.ndim + 1):
                sizes[f"{name}.shape[{-k}]"] = value.shape[-k]
            if value.ndim:
                sizes[f"len({name})"] = len(value)
                sizes[f"{name}.size"] = value.size
        elif isinstance(value, (int, float)):
            sizes[name] = value
        elif isinstance(value, (list, tuple)):
            sizes[f"len({name})"] = len(value)
    return sizes


def _explained(
    numbers: Sequence[float], pairs: Pairs, cases: Sequence[Case]
) -> Iterator[tuple[str, str]]:
    """The sizes that explain the numbers in every case: (words to fill, name)."""
    sizes = [_sizes(case, right) for case, (_, right) in zip(cases, pairs, strict=True)]
    forms: dict[str, Callable[[float], float]] = {
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
    for name in [name for name in sizes[0] if all(name in each for each in sizes)]:
        for words, form in forms.items():
            try:
                wanted = [form(each[name]) for each in sizes]
            except (ZeroDivisionError, ValueError, OverflowError):
                continue
            if np.iscomplexobj(wanted):
                continue
            if np.allclose(numbers, wanted, rtol=1e-7, atol=1e-12):
                yield words, name


def _real(pairs: Pairs) -> bool:
    """Whether all of them are real numbers, and those that are found are finite."""
    return all(
        found.dtype.kind != "c" != right.dtype.kind and np.isfinite(found).all()
        for found, right in pairs
    )


def _one_number(values: np.ndarray) -> float | None:
    """The number that all finite values are; None if they differ, or there is none."""
    values = values[np.isfinite(values)]
    if not values.size or not np.allclose(values, values[0], rtol=1e-6, atol=1e-12):
        return None
    return float(values[0])


def _ratios(found: np.ndarray, right: np.ndarray) -> np.ndarray:
    """NaN where there is no ratio, inf where the right entry alone is 0."""
    found, right = (np.asarray(each, dtype=float) for each in (found, right))
    both = (abs(found) < 1e-12) & (abs(right) < 1e-12)
    return np.where(both, np.nan, found / right)


def factors(pairs: Pairs, cases: Sequence[Case], what: str) -> Iterator[str]:
    """A result is the right one times a number, or each row is."""
    if not _real(pairs):
        return
    ratios = [_ratios(*pair) for pair in pairs]
    if any(np.isinf(each).any() for each in ratios):
        return
    known = [
        (_one_number(each), pair, case)
        for each, pair, case in zip(ratios, pairs, cases, strict=True)
        if np.isfinite(each).any()
    ]
    numbers = [number for number, _, _ in known if number is not None]
    if known and len(numbers) == len(known):
        if np.allclose(numbers, 1, rtol=1e-3):
            return  # a matter of digits
        if np.allclose(numbers, numbers[0], rtol=1e-7, atol=0):
            yield f"{what} is {numbers[0]:.4g} times the right one"
        chosen = [pair for _, pair, _ in known], [case for _, _, case in known]
        for words, name in _explained(numbers, *chosen):
            yield f"{what} is the right one times {words.format(name)}"
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
        low, high = (
            reduce(filled, axis=axis)
            for reduce in (np.fmin.reduce, np.fmax.reduce)
        )  # fmt: skip
    close = np.isclose(low, high, rtol=1e-6, atol=1e-12) | np.isnan(low)
    return bool(close.all() and not np.isinf(values).any())


def addends(pairs: Pairs, cases: Sequence[Case], what: str) -> Iterator[str]:
    """A result is the right one plus a number, or each row is."""
    if not _real(pairs):
        return
    gaps = [found.astype(float) - right.astype(float) for found, right in pairs]
    numbers = [_one_number(each) for each in gaps]
    if all(number is not None for number in numbers):
        shown = [number for number in numbers if number is not None]
        if np.allclose(shown, shown[0], rtol=1e-7, atol=1e-12):
            yield f"{what} is off by {shown[0]:.4g}, everywhere"
        for words, name in _explained(np.abs(shown).tolist(), pairs, cases):
            yield f"{what} is off by {words.format(name)}"
        if _tell(pairs):
            yield f"{what} is off by a number, another one in each case"
    yield from _off_by_an_argument(gaps, cases, what)
    if not _tell(pairs):
        return
    for axis, name in ((-1, "row"), (-2, "column")):
        if all(_constant_along(each, axis) for each in gaps):
            yield (
                f"each {name} of {what} is off by a number of its own: is something "
                "subtracted or added there that should not be?"
            )


def _off_by_an_argument(
    gaps: Sequence[np.ndarray], cases: Sequence[Case], what: str
) -> Iterator[str]:
    for name in cases[0].arguments:
        for sign, words in ((1, "plus"), (-1, "minus")):
            try:
                if all(
                    np.allclose(gap, sign * case.arguments[name], atol=1e-9)
                    for gap, case in zip(gaps, cases, strict=True)
                ):
                    yield f"{what} is the right one {words} {name}"
            except (TypeError, ValueError):  # of another shape, or no number
                continue


def same_numbers(pairs: Pairs, what: str) -> Iterator[str]:
    """The entries are right but in the wrong places; or an axis is missing."""
    right = [each for _, each in pairs]
    if max((each.size for each in right), default=0) > 3 and all(
        one.size == other.size
        and np.allclose(np.sort(one, axis=None), np.sort(other, axis=None), atol=1e-9)
        for one, other in pairs
    ):
        yield f"{what} has the right numbers, in the wrong places"
    ndim = {each.ndim for each in right}
    if len(ndim) != 1:
        return
    for axis in range(max(ndim)):
        where = f"axis {axis} (counted from 0)"
        if all(
            one.shape == other.shape[:axis] + other.shape[axis + 1 :]
            for one, other in pairs
        ):
            yield f"{where} is missing in {what}"
        if all(
            other.shape[axis] != one.shape[axis] if one.ndim == other.ndim else False
            for one, other in pairs
        ):
            yield f"{where} of {what} has the wrong length"


# --- Some entries, some digits, some cases --------------------------------------------


def places(pairs: Pairs, tolerance: float, what: str) -> Iterator[str]:
    """Some entries are right: which are wrong?"""
    wrong = [
        ~(abs(found - right) <= tolerance * np.maximum(1, abs(right)))
        & ~(np.isnan(found) & np.isnan(right))
        & (found != right)
        for found, right in ((f.astype(complex), r.astype(complex)) for f, r in pairs)
    ]
    if all(mask.ndim >= 2 for mask in wrong):
        diagonal = [
            np.broadcast_to(np.eye(*mask.shape[-2:]) > 0, mask.shape) for mask in wrong
        ]
        if all(not (m & ~d).any() for m, d in zip(wrong, diagonal, strict=True)):
            yield f"only the diagonal of {what} is wrong"
        if all(not (m & d).any() for m, d in zip(wrong, diagonal, strict=True)):
            yield f"only the diagonal of {what} is right"
    for axis in (0, -1, -2):
        yield from _one_end(wrong, axis, what)


def _one_end(wrong: Sequence[np.ndarray], axis: int, what: str) -> Iterator[str]:
    long = [np.moveaxis(m, axis, 0) for m in wrong if m.ndim >= abs(axis) and m.ndim]
    long = [mask for mask in long if len(mask) > 1]
    if not long or len(long) < len([m for m in wrong if m.any()]):
        return
    name = AXES[axis]
    for end, place in ((0, "first"), (-1, "last")):
        others = [np.delete(mask, end, axis=0) for mask in long]
        if not any(mask.any() for mask in others):
            yield f"only the {place} entry along the {name} of {what} is wrong"
        if not any(mask[end].any() for mask in long) and all(
            each.any() for other in others if other.any() for each in other
        ):
            yield f"only the {place} entry along the {name} of {what} is right"


def truths(pairs: Pairs, what: str) -> Iterator[str]:
    """Truth values: all the same, the opposite, turned around."""
    for truth in (True, False):
        if all((found == truth).all() for found, _ in pairs):
            yield f"{what} is {truth} whatever comes"
    for words, change in (
        ("the opposite of the right one", np.logical_not),
        ("the right one transposed", np.transpose),
        ("the right one the wrong way round", np.flip),
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
    worst = 0.0
    for found, right in pairs:
        ok = np.isfinite(right)
        if not np.array_equal(ok, np.isfinite(found)):
            return
        if ok.any():
            errors = abs(found - right)[ok] / max(1.0, abs(right[ok]).max())
            worst = max(worst, float(errors.max()))
    if worst < 1e-3:
        yield (
            f"{what} is right, but to {-int(np.floor(np.log10(worst + 1e-300))) - 1} "
            "digits only: is there float32 in it, a small number that you add, or a "
            "difference of numbers that are nearly the same?"
        )


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
OF_CASES: list[tuple[str, Callable[[Sequence[Any]], bool]]] = [
    ("numbers are not finite", _floats(lambda x: not np.isfinite(x).all())),
    ("numbers are large", _floats(lambda x: abs(x).max() > 500)),
    ("numbers are large", _floats(lambda x: abs(x).max() > 50)),
    ("numbers are tiny", _floats(lambda x: abs(x).max() < 1e-2)),
    ("numbers are complex", _any(lambda x: x.dtype.kind == "c")),
    *OF_STACKS,
    ("there are no leading axes", lambda a: all(x.ndim < 3 for x in _arrays(a))),
    ("an axis has the length 1", _any(lambda x: 1 in x.shape)),
    ("an array has no axis", _any(lambda x: x.ndim == 0)),
    ("an array is empty", _any(lambda x: x.size == 0)),
    ("an array has more than one axis", _any(lambda x: x.ndim > 1)),
    ("arrays are not square", lambda a: any(len(set(x.shape)) > 1 for x in _arrays(a))),
    ("arrays are square", lambda a: all(len(set(x.shape)) < 2 for x in _arrays(a))),
    ("there are integers", _any(lambda x: x.dtype.kind in "iu")),
    ("something is True", _any(lambda x: x.dtype.kind == "b" and x.any())),
    ("there are tuples", lambda a: any(isinstance(x, tuple) for x in a)),
    ("there are no tuples", lambda a: not any(isinstance(x, tuple) for x in a)),
]
