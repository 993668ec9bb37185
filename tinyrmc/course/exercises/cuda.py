"""Chapter 25: a sum that 32 threads take together."""

from __future__ import annotations

import numpy as np

from .exercise import exercise, normal


def _in_this_order():
    """A row whose 1s are lost in rounding when threads exchange, in whichever order of
    the steps, and not all when the row is added up from its beginning.
    """
    row = np.zeros(32)
    row[[0, 8, 16, 24]] = 1.0, 1e16, -1e16, 1.0
    return (row,)


@exercise(
    cases=lambda rng: [
        normal(rng, 32),
        normal(rng, 80),  # two columns for each thread, a third for half of them
        normal(rng, 5),  # threads without any column hold 0
        normal(rng, 1),
        (1e6 * rng.normal(size=256),),
        _in_this_order(),
        (np.r_[1e16, 1.0, np.zeros(30), -1e16],),  # thread 0 has both large numbers
    ],
    hints=[
        "First each thread for itself: thread k adds up row[k::32].sum(), the columns "
        "k, k + 32, k + 64, ...",
        "Then five exchanges, with steps of 16, 8, 4, 2 and 1: each thread adds what "
        "its partner holds. Thread k's partner is k ^ step.",
        "With lanes = np.arange(32): held = held + held[lanes ^ step].",
    ],
    mistakes="""
        the threads do not exchange what they hold
            (16, 8, 4, 2, 1) -> ()
        only the first `step` threads add what their partner holds: then only thread 0
        has the whole sum
            held = held + held[lanes ^ step] -> held[:step] += held[step : 2 * step]
        threads exchange one after the other: the second of two partners adds a number
        that has changed
            held = held + held[lanes ^ step]
                -> for lane in lanes: held[lane] += held[lane ^ step]
        you add everything up at one place, and give the sum to all: no thread has all
        columns. (A sum in another order is rounded differently)
            = np.full(32, row.sum())
    """,
)
def row_sum(row):
    """A row, summed up by 32 threads.

    row (F,), of any length -> (32,): what each thread holds in the end, which is the
    same.
    """
    lanes = np.arange(32)
    held = np.array([row[lane::32].sum() for lane in lanes])
    for step in (16, 8, 4, 2, 1):
        held = held + held[lanes ^ step]
    return held
