"""Chapter 22: V-trace, what to learn from the actions of an older policy."""

from __future__ import annotations

import numpy as np

from ..exercise import each, exercise


def _acted(rng, spread, gamma, often, *shape):
    discounts = gamma * (rng.random(shape) >= often)
    rewards, values = rng.normal(size=(2, *shape))
    log_rhos = spread * rng.normal(size=shape)
    return log_rhos, discounts, rewards, values, rng.normal(size=shape[1:])


_BY_HAND = (  # so short that it is shown
    np.log([0.5, 2.0, 0.25, 1.0]),
    np.full(4, 0.5),
    np.array([0.0, 1.0, 0.0, 2.0]),
    np.array([1.0, 2.0, 0.0, 1.0]),
    np.array(4.0),
)
_WHOLE = np.array([[1, 0], [0, 3], [0, -1]])


@exercise(
    cases=each(
        _acted,  # in the first the policy that acted is the one that learns
        "0 0.9 0.2 5 4, 1 0.9 0.2 6 4, 1 0.9 0.5 3 3, 1 0.9 0.2 4 2 3, 1 0.9 0.2 1 3, "
        "1e3 0.9 0.2 5 2, 1 1.0 0.0 4 2, 1 0.0 0.2 3 2",
        first=[_BY_HAND],
        also=[(_WHOLE / 2, np.full((3, 2), 0.5), _WHOLE, _WHOLE + 1, np.array([2, 1]))],
    ),
    hints=[
        "c = np.minimum(1, np.exp(log_rhos)) is all you need of the ratios. The value "
        "of what comes after step t is values[t + 1], and `after` for the last step.",
        "Go from the last step to the first. Keep v - V of the step that follows, "
        "which is 0 at first.",
        "further = c[t] * (rewards[t] + discounts[t] * next_value - values[t]) + "
        "discounts[t] * c[t] * further. Then v is values[t] + further.",
    ],
    mistakes="""
        you do not cut the ratios off at 1
            np.minimum(np.exp(log_rhos), 1) -> np.exp(log_rhos)
        your surprises have no ratio
            c[t] * (surprise + discounts[t] * further)
                -> surprise + discounts[t] * c[t] * further
        you hand surprises on without the ratio of the steps between
            c[t] * (surprise + discounts[t] * further)
                -> c[t] * surprise + discounts[t] * further
        you keep the ratios from falling below 1, not from rising above it
            np.minimum -> np.maximum
        you take the logarithms for the ratios
            np.exp(log_rhos) -> log_rhos
        you leave `after` out: the trajectory stops there, the episode does not
            0.0, after -> 0.0, 0 * after
        you give only what comes on top of the values
            values[t] + further -> further
    """,
)
def vtrace(log_rhos, discounts, rewards, values, after):
    """V-trace's targets v of the values.

    log_rhos (T, ...), log pi(a) - log mu(a) of each step; discounts (T, ...), 0 where
    the step has ended its episode; rewards and values (T, ...); after (...), the value
    of what comes after the last step -> (T, ...).
    """
    c = np.minimum(np.exp(log_rhos), 1)
    targets, further, next_value = np.zeros(values.shape), 0.0, after
    for t in reversed(range(len(values))):
        surprise = rewards[t] + discounts[t] * next_value - values[t]
        further = c[t] * (surprise + discounts[t] * further)
        targets[t] = values[t] + further
        next_value = values[t]
    return targets
