"""Is a result the right one? If not, where does it differ, in words?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..autograd.engine import Tensor

NOTHING = 1e-200  # as good as 0, also where each entry counts by its own size
SMALL = 12  # entries of an array that is shown whole


class Wrong(Exception):
    """A result is not the expected one; the text says where."""


class Spoilt(Wrong):
    """An answer changes its argument, or may, whatever it returns."""


@dataclass(frozen=True)
class Demand:
    """Demands on a result."""

    tolerance: float = 1e-9
    """of an entry's error, relative to the larger of 1 and the right entry"""
    precise: bool = False
    """an error is relative to the right entry itself, and 0 must be 0"""
    form: bool = False
    """tuples must be tuples, and arrays arrays; else a list will do for either"""
    kinds: bool = True
    """numbers must be of the right kind; else 1.0 will do for 1 and for True"""
    parts: tuple[str, ...] = ()
    """what the parts of a tuple are called, where learners do not return one"""


def compare(
    found: Any, expected: Any, demand: Demand, where: str = "the result"
) -> None:
    """Raise `Wrong` unless `found` is `expected`.

    Both may be numbers, arrays, Tensors or texts, or tuples, lists and dicts of these.
    Shapes must agree; so must the kind of number, except that whole numbers and truth
    values may stand for real numbers. NaN agrees with NaN.
    """
    if isinstance(expected, str):
        if not isinstance(found, str) or found != expected:
            given = repr(found) if isinstance(found, (str, int, float)) else kind(found)
            raise Wrong(f"{where} is {given}, expected {expected!r}")
    elif isinstance(expected, (dict, tuple, list)):
        if isinstance(found, (np.ndarray, Tensor)) and np.ndim(numbers(found)):
            found = found if demand.form else tuple(numbers(found))
        if demand.form and isinstance(expected, tuple) > isinstance(found, tuple):
            raise Wrong(f"{where} should be a tuple, not {kind(found)}")
        names = () if isinstance(expected, dict) else demand.parts
        for key in _keys(found, expected, where):
            part = names[key] if names else f"{where}[{key!r}]"
            compare(found[key], expected[key], replace(demand, parts=()), part)
    else:
        _compare_arrays(found, numbers(expected), demand, where)


def agree(found: Any, expected: Any, demand: Demand) -> bool:
    """Whether `compare` finds nothing wrong."""
    try:
        compare(found, expected, demand)
    except Exception:  # what is not to be compared is not the same
        return False
    return True


def check_memory(found: Any, arguments: dict[str, Any], views: bool) -> None:
    """Raise `Spoilt` where writing into a result would fail, or change something else.

    views: the result may be a view of an argument.
    """
    for array in _arrays(found):
        repeats = any(
            step == 0 and size > 1
            for step, size in zip(array.strides, array.shape, strict=True)
        )
        if repeats or (not array.flags.writeable and not views):
            raise Spoilt(
                "the result is a read-only view, as np.broadcast_to makes it: nobody "
                "can write into it. Give an array of its own (np.tile, np.repeat, "
                ".copy())"
            )
        for name, argument in arguments.items():
            if not views and any(
                np.may_share_memory(array, each) for each in _arrays(argument)
            ):
                raise Spoilt(
                    f"the result is a view of the argument {name}: to write into one "
                    "would change the other. Give an array of its own"
                )


def _arrays(value: Any) -> Iterable[np.ndarray]:
    """All arrays in a value with more than one entry."""
    if isinstance(value, Tensor):
        value = value.data
    if isinstance(value, np.ndarray):
        if value.size > 1:
            yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _arrays(each)
    elif isinstance(value, dict):
        yield from _arrays(list(value.values()))


def unchanged(before: Any, after: Any) -> bool:
    """Whether an argument is still what it was before a call.

    Exactly so: to the last digit, the types and lengths included. Functions are not
    looked into.
    """
    if callable(before):
        return True
    if type(before) is not type(after):
        return False
    if isinstance(before, np.ndarray):
        return np.array_equal(before, after, equal_nan=before.dtype.kind in "fc")
    if isinstance(before, (tuple, list)):
        return len(before) == len(after) and all(map(unchanged, before, after))
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(
            unchanged(before[key], after[key]) for key in before
        )
    return bool(before == after)


def numbers(value: Any) -> np.ndarray:
    """`value`, which may be a Tensor, as an array of numbers.

    TypeError where its entries are no numbers, and whatever a foreign object raises
    when NumPy asks it for them.
    """
    if isinstance(value, int) and abs(value) >= 2**63:
        value = float(value)  # NumPy has no whole numbers of that size
    array = np.asarray(value.data if isinstance(value, Tensor) else value)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"not numbers: {array.dtype}")
    return array


# --- Words ----------------------------------------------------------------------------


def kind(value: Any) -> str:
    """The sort of thing it is: "a list", "an ndarray"."""
    name = type(value).__name__
    article = "an" if name.startswith((*"aeio", "nd")) else "a"
    return f"{article} {name}"


def short(value: Any) -> str:
    """A value in a few characters; of a larger array its shape and largest entry."""
    if isinstance(value, Tensor):
        value = value.data
    if isinstance(value, np.ndarray) and value.size <= SMALL:
        return whole(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fc":
            return f"of shape {value.shape}"
        return f"of shape {value.shape}, entries up to {np.nanmax(abs(value)):.3g}"
    if isinstance(value, list):
        return f"[{', '.join(map(short, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(short, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"with {', '.join(value)}"
    if isinstance(value, str):
        return repr(value)
    return getattr(value, "__name__", None) or str(value).replace("\n", "")


def whole(array: np.ndarray) -> str:
    """An array as Python writes lists, with four digits of each number."""

    def written(value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(written, value))}]"
        return f"{value:.4g}" if isinstance(value, (float, complex)) else str(value)

    return written(array.tolist())


# --- Comparing ------------------------------------------------------------------------


def _keys(found: Any, expected: dict | tuple | list, where: str) -> Iterable[Any]:
    """The keys of a dict, or the indices of a sequence, that both of them have."""
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            given = kind(found)
        elif set(found) != set(expected):
            given = str(sorted(map(str, found)))
        else:
            return expected
        wanted = ", ".join(map(str, expected))
        raise Wrong(f"{where} should have the keys {wanted}, not {given}")
    if not isinstance(found, (tuple, list)):
        given = kind(found)
    elif len(found) != len(expected):
        given = f"one of {len(found)}"
    else:
        return range(len(expected))
    raise Wrong(f"{where} should be a list of {len(expected)}, not {given}")


def _compare_arrays(
    found: Any, expected: np.ndarray, demand: Demand, where: str
) -> None:
    try:
        array = numbers(found)
    except Exception:  # a foreign array may raise anything when asked for its numbers
        raise Wrong(f"{where} is {kind(found)}, expected {short(expected)}") from None
    if demand.form and expected.ndim and isinstance(found, (tuple, list)):
        raise Wrong(f"{where} should be an array, not {kind(found)}")
    if array.shape != expected.shape:
        raise Wrong(f"{where} has the shape {array.shape}, expected {expected.shape}")
    errors = _errors(_wide(array), _wide(expected), demand.precise)
    wrong = ~(errors <= demand.tolerance)  # NaN is wrong, too
    if not wrong.any():
        if demand.kinds:
            _compare_kinds(array, expected, where)
        return

    first = np.unravel_index(np.argmax(wrong), wrong.shape)
    given, wanted = _told_apart(array[first], expected[first])
    place = f" at [{', '.join(map(str, first))}]" if first else ""
    text = f"{where} is {given}{place}, expected {wanted}"
    if wrong.size > 1:
        text += f"; {wrong.sum()} of {wrong.size} entries differ"
    if array.dtype in (np.float32, np.complex64) and errors[wrong].max() < 1e-4:
        text += f"; {array.dtype} holds too few digits"
    if demand.precise and (_errors(_wide(array), _wide(expected)) < 1e-9).all():
        text += (
            "; that is near, but each entry counts by its own size here: do you clip "
            "something, or add a small number?"
        )
    shown = whole(array), whole(expected)
    if 1 < wrong.size <= SMALL and shown[0] != shown[1]:
        text += f"\n  yours: {shown[0]}\n  right: {shown[1]}"
    raise Wrong(text)


def _compare_kinds(array: np.ndarray, expected: np.ndarray, where: str) -> None:
    """Wrong where the numbers are right but cannot be used as the expected ones."""
    given, wanted = array.dtype.kind, expected.dtype.kind
    if wanted == "b" != given:
        words = "truth values, True and False"
    elif wanted in "iu" and given in "fc":
        words = "whole numbers, which can count and index"
    elif wanted == "f" and given == "c":
        words = "real numbers"
    else:
        return
    raise Wrong(f"{where} holds {array.dtype}, expected {words}")


def _wide(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind == "c" else array.astype(float)


def _errors(
    found: np.ndarray, expected: np.ndarray, precise: bool = False
) -> np.ndarray:
    """The error of each entry, relative to the expected one.

    Unless it must be `precise`, relative to the largest of that, 1, and a
    ten-thousandth of the largest entry: a small sum of large numbers carries their
    rounding. NaN where only one of the two is not finite.
    """
    with np.errstate(all="ignore"):
        size = np.maximum(abs(expected), NOTHING)
        if not precise:
            largest = size.max(where=np.isfinite(size), initial=0.0)
            size = np.maximum(size, max(1.0, 1e-4 * largest))
        errors = abs(found - expected) / size
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    return np.where(same, 0.0, errors)


def _told_apart(found: np.generic, expected: np.generic) -> tuple[str, str]:
    """Two numbers, with as many digits as it takes to see that they differ."""
    if found.dtype.kind == expected.dtype.kind == "b":
        return str(found), str(expected)
    for digits in (6, 9, 12, 17):
        given, wanted = (
            f"{each if each.dtype.kind == 'c' else float(each):.{digits}g}"
            for each in (found, expected)
        )
        if given != wanted:
            break
    return "NaN (not a number)" if np.isnan(found) else given, wanted
