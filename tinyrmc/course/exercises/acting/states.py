"""Chapter 21: a new episode begins with a new state."""

from __future__ import annotations

import numpy as np

from ..exercise import exercise


def _states(rng):
    def case(ended, *shape):
        ended = np.array(ended, bool)
        state, begin = rng.normal(size=(2, len(ended), *shape))
        return state, ended, begin

    def pair(make, ended):
        (a, _, x), (b, _, y) = make(ended), make(ended)
        return (a, b), np.array(ended, bool), (x, y)

    def lstm(ended):
        return pair(lambda e: case(e, 2), ended)

    state, ended, begin = case([0, 1, 0], 2)
    broken = state.copy()
    broken[1] = np.inf, np.nan
    counts = np.array([[3, 4], [5, 6]]), np.array([True, False]), np.zeros((2, 2), int)
    return [
        case([0, 1, 0, 1], 3),
        case([1, 0, 0], 3),  # as many units as levels
        case([0, 1, 1], 3, 3),  # a memory of as many slots, too
        case([0, 1, 0, 0, 1], 2, 4),
        lstm([1, 0, 1, 0]),
        pair(lstm, [0, 0, 1]),
        case([0, 0, 0], 2),
        case([1], 4),
        (broken, ended, begin),  # what has overflowed must not stay
        counts,
        ((), np.array([True, False]), ()),  # a network without a memory
    ]


@exercise(
    cases=_states,
    hints=[
        "np.where(mask, begin, state) takes entries from one array or the other. Its "
        "mask must have the axes of the state: (B,) does not line up with (B, N, F).",
        "mask = ended.reshape(-1, 1, 1) for a state of three axes; for any state, "
        "ended.reshape(-1, *[1] * (state.ndim - 1)).",
        "If the state is a tuple, call the function itself for each of its parts, and "
        "make a tuple of what you get.",
    ],
    mistakes="""
        it is the other way round: the levels that go on lose their state
            mask, begin, state) -> mask, state, begin)
        all levels begin anew as soon as one has ended
            ended.reshape( -> (ended | ended.any()).reshape(
        `ended` goes along the last axis: it belongs to the first
            ended.reshape(-1, *[1] * (state.ndim - 1)) -> ended
        you give `ended` one more axis; a memory (B, N, F) needs two more
            ended.reshape(-1, *[1] * (state.ndim - 1)) -> ended[:, None]
        you put zeros there: a memory need not begin with zeros
            mask, begin, state) -> mask, 0, state)
        you give `ended` two more axes, however many the state has: one of two axes then
        gets a third
            ended.reshape(-1, *[1] * (state.ndim - 1)) -> ended[:, None, None]
        you multiply with 0 and 1: infinity times 0 is NaN, which never goes away
            np.where(mask, begin, state) -> (1 - mask) * state + mask * begin
    """,
    form=True,
    views=True,
)
def begin_anew(state, ended, begin):
    """The state; in the levels that have ended, what stands in `begin`.

    state: an array (B, ...), or a tuple of states; ended (B,), bool; begin: what the
    state is at the beginning, of the same form -> a state of the same form.
    """
    if isinstance(state, tuple):
        parts = zip(state, begin, strict=True)
        return tuple(begin_anew(part, ended, first) for part, first in parts)
    mask = ended.reshape(-1, *[1] * (state.ndim - 1))
    return np.where(mask, begin, state)
