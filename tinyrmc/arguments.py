"""What many constructors ask of their arguments, and where random numbers begin.

Each check names the owner, the argument and the value. None, NaN and truth values do
not count as numbers.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

Seed: TypeAlias = int | np.random.SeedSequence | np.random.Generator


def is_integer(value: Any) -> bool:
    """Whether a value is an integer, Python's or NumPy's, and not a truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_switch(value: Any) -> bool:
    """Whether a value is True or False, Python's or NumPy's."""
    return isinstance(value, (bool, np.bool_))


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


def check_number(owner: str, name: str, value: Any) -> float:
    """The value as a float, or a ValueError naming the argument. It may be infinite."""
    if not is_number(value):
        raise ValueError(f"{owner}: {name} must be a number, not {value!r}")
    return float(value)


def check_switch(owner: str, name: str, value: Any) -> bool:
    """The value, or a TypeError naming the argument unless it is True or False."""
    if not is_switch(value):
        raise TypeError(f"{owner}: {name} must be True or False, not {value!r}")
    return bool(value)


def check_seed(seed: Any) -> Any:
    """The seed.

    TypeError for None, with which NumPy would give other numbers every time, and for
    True and False.
    """
    if seed is None or is_switch(seed):
        raise TypeError(f"a seed must be an integer, such as 0, not {seed!r}")
    return seed


def generator(seed: Seed, *key: int) -> np.random.Generator:
    """A seed's random numbers; with a key, such as (step, block), those of one place.

    A Generator comes back as it is; it takes no key. TypeError as from `check_seed`.
    """
    if key:
        return np.random.default_rng(
            np.random.SeedSequence(check_seed(seed), spawn_key=key)
        )
    return np.random.default_rng(check_seed(seed))
