"""Seeds, and the random numbers that they give: the same ones whenever you ask."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Seed: TypeAlias = int | np.random.SeedSequence | np.random.Generator


def check_seed(seed: Any) -> Any:
    """The seed.

    TypeError for None, with which NumPy would give other numbers every time, and for
    True and False.
    """
    if seed is None or isinstance(seed, bool | np.bool_):
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
