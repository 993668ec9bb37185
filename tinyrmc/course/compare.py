"""Is a result the right one? If not, where does it differ, in words?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..engine import Tensor


class Wrong(Exception):
    """A result is not the expected one; the text says where."""


def compare(
    found: Any, expected: Any, tolerance: float, where: str = "the result"
) -> None:
    """Raise `Wrong` unless `found` is `expected`.

    Both may be numbers, arrays, Tensors or texts, or tuples, lists and dicts of these.
    Shapes must agree. Of numbers, an entry may be off by `tolerance` times the larger
    of 1 and the expected entry; NaN agrees with NaN.
    """
    if isinstance(expected, str):
        _compare_texts(found, expected, where)
    elif isinstance(expected, (dict, tuple, list)):
        for key in _keys(found, expected, where):
            compare(found[key], expected[key], tolerance, f"{where}[{key!r}]")
    else:
        _compare_arrays(found, numbers(expected), tolerance, where)


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
    array = np.asarray(value.data if isinstance(value, Tensor) else value)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"not numbers: {array.dtype}")
    return array


# --- Words ----------------------------------------------------------------------------


def kind(value: Any) -> str:
    """What sort of thing it is: "a list", "an ndarray"."""
    name = type(value).__name__
    article = "an" if name.startswith((*"aeiou", "nd")) else "a"
    return f"{article} {name}"


def short(value: Any) -> str:
    """A value in a few characters; of a larger array its shape and largest entry."""
    if isinstance(value, Tensor):
        value = value.data
    if isinstance(value, np.ndarray) and value.size > 4:
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


# --- Comparing ------------------------------------------------------------------------


def _compare_texts(found: Any, expected: str, where: str) -> None:
    if isinstance(found, str) and found == expected:
        return
    given = repr(found) if isinstance(found, (str, int, float)) else kind(found)
    raise Wrong(f"{where} is {given}, expected {expected!r}")


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
        given = str(len(found))
    else:
        return range(len(expected))
    raise Wrong(f"{where} should be {len(expected)} things, not {given}")


def _compare_arrays(
    found: Any, expected: np.ndarray, tolerance: float, where: str
) -> None:
    try:
        array = numbers(found)
    except Exception:  # a foreign array may raise anything when asked for its numbers
        raise Wrong(f"{where} is {kind(found)}, expected {short(expected)}") from None
    if array.shape != expected.shape:
        raise Wrong(f"{where} has the shape {array.shape}, expected {expected.shape}")
    errors = _errors(_wide(array), _wide(expected))
    wrong = ~(errors <= tolerance)  # NaN is wrong, too
    if not wrong.any():
        return

    first = np.unravel_index(np.argmax(wrong), wrong.shape)
    given, wanted = _told_apart(array[first], expected[first])
    place = f" at [{', '.join(map(str, first))}]" if first else ""
    text = f"{where} is {given}{place}, expected {wanted}"
    if wrong.size > 1:
        text += f"; {wrong.sum()} of {wrong.size} entries differ"
    if array.dtype in (np.float32, np.complex64) and errors[wrong].max() < 1e-4:
        text += f"; {array.dtype} holds too few digits"
    raise Wrong(text)


def _wide(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind == "c" else array.astype(float)


def _errors(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The error of each entry, relative to the larger of 1 and the expected one.

    NaN where only one of the two is not finite.
    """
    with np.errstate(all="ignore"):
        errors = abs(found - expected) / np.maximum(1, abs(expected))
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
    return "NaN, not a number," if np.isnan(found) else given, wanted
