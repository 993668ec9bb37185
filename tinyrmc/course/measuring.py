"""Two tools with which chapters measure: a clock, and what a tape holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.engine import Tape
from .chapter import fast


def least(rounds: int, **functions: Callable[[], Any]) -> dict[str, float]:
    """The least seconds that each function takes. They take turns; and because a
    disturbance can only add, the least is the best guess.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(fast(rounds, 2)):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - began)
    return {name: min(each) for name, each in times.items()}


def held(tape: Tape) -> int:
    """Bytes of all arrays that a tape keeps for backward, parameters among them. Each
    array counts once.
    """
    arrays = {}
    for *_, saved, _ in tape.entries:
        for array in saved:
            while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
                array = array.base  # a view keeps the whole array
            if isinstance(array, np.ndarray):
                arrays[id(array)] = array.nbytes
    return sum(arrays.values())
