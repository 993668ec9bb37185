"""Errors the user can fix, a few words in them, and the few checks of arguments.

A command line prints the text of a `UserError` as one line and exits with code 2; what
becomes of other exceptions is told by `cli.commands.run_main`. Each check names the
owner, the argument and the value. None, NaN and truth values do not count as numbers.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

NO_DOCSTRINGS = (
    "Python leaves out all docstrings here, which help and course are made of; run it "
    "without -OO, and without PYTHONOPTIMIZE=2"
)


class UserError(Exception):
    """The base class: the text names the thing, the value and the remedy."""


class UsageError(UserError):
    """The words of a command line are wrong; `hint` says where to look."""

    def __init__(self, reason: str, hint: str = ""):
        super().__init__(f"{reason} ({hint})" if hint else reason)
        self.reason = reason


class RunError(UserError):
    """A run, or a file of one, cannot be read, written or used."""


class ConfigError(RunError):
    """A stored configuration does not fit the class it was made from."""


def why(error: OSError) -> str:
    """The system's words for an OSError; for one without a number, its own text."""
    return error.strerror or str(error) or type(error).__name__


def unwritable(path: object, error: OSError, remedy: str) -> str:
    """A message: the path, the reason, what to do."""
    return f"cannot write {path}: {why(error)}; {remedy}"


def counted(number: int, noun: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """a, b, c, d and 3 more."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def in_words(metric: str) -> str:
    """The name of a metric: held-out accuracy, for test_accuracy."""
    return re.sub("^test_", "held-out ", metric).replace("_", " ")


def nearest(word: str, known: Iterable[str]) -> str:
    """'; did you mean ...?', if some known word is near enough, else ''.

    Only the last part counts: of --model.core it is `core`.
    """
    own_part = {}
    for name in reversed(list(known)):
        own_part[name.rpartition(".")[2].lstrip("-")] = name
    asked = word.rpartition(".")[2].lstrip("-")
    close = difflib.get_close_matches(asked, own_part, n=1, cutoff=0.7)
    return f"; did you mean {own_part[close[0]]!r}?" if close else ""


def unknown(found: Iterable[str], known: Iterable[str]) -> str:
    """A message on the first unknown key of one of our files; "" if all are known. An
    unknown key might change what the others mean.
    """
    for name in found:
        if name not in known:
            return f"has a key {name!r} that is unknown here; upgrade tinyrmc"
    return ""


# --- Checks of arguments --------------------------------------------------------------


def is_integer(value: Any) -> bool:
    """Whether a value is an integer, Python's or NumPy's, and not a truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a real number that a float can hold. It may be infinite."""
    if not (is_integer(value) or isinstance(value, (float, np.floating))):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:
        return False


def check_sizes(owner: str, least: int = 1, **sizes: Any) -> None:
    """ValueError, naming the argument, unless all are integers of at least `least`."""
    for name, value in sizes.items():
        if not is_integer(value) or value < least:
            raise ValueError(
                f"{owner}: {name} must be an integer of at least {least}, not {value!r}"
            )


def inside(value: Any, interval: str) -> bool:
    """Whether a number is in an interval such as "[0, 1)", which has 0 and not 1."""
    low, high = map(float, interval[1:-1].split(","))
    ends = [low] * (interval[0] == "[") + [high] * (interval[-1] == "]")
    return low < value < high or value in ends


def check_number(owner: str, name: str, value: Any, within: str = "") -> float:
    """The value as a float; ValueError, naming the argument, unless it is a number
    `within` an interval. Without one it may be infinite.
    """
    if not (is_number(value) and inside(value, within or "[-inf, inf]")):
        wanted = f"a number in {within}" if within else "a number"
        raise ValueError(f"{owner}: {name} must be {wanted}, not {value!r}")
    return float(value)


def check_choice(owner: str, name: str, value: Any, *known: Any) -> None:
    """ValueError, naming the argument, unless the value is one of those known."""
    if value not in known:
        wanted = " or ".join(map(repr, known))
        raise ValueError(f"{owner}: {name} must be {wanted}, not {value!r}")


def check_switch(owner: str, name: str, value: Any) -> bool:
    """The value, or a TypeError naming the argument unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{owner}: {name} must be True or False, not {value!r}")
    return bool(value)
