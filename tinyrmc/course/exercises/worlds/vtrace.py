"""Chapter 22: V-trace, what to learn from the actions of an older policy."""

from __future__ import annotations

import numpy as np

from ..exercise import exercise


def _acted(rng):
    def case(shape, spread=1.0, gamma=0.9, often=0.2):
        discounts = gamma * (rng.random(shape) >= often)
        rewards, values = rng.normal(size=(2, *shape))
        log_rhos = spread * rng.normal(size=shape)
        return log_rhos, discounts, rewards, values, rng.normal(size=shape[1:])

    by_hand = (  # so short that it is shown
        np.log([0.5, 2.0, 0.25, 1.0]),
        np.full(4, 0.5),
        np.array([0.0, 1.0, 0.0, 2.0]),
        np.array([1.0, 2.0, 0.0, 1.0]),
        np.array(4.0),
    )
    whole = np.array([[1, 0], [0, 3], [0, -1]])
    return [
        by_hand,
        case((5, 4), spread=0.0),  # the policy that acted is the one that learns
        case((6, 4)),
        case((3, 3), often=0.5),
        case((4, 2, 3)),  # two axes of levels
        case((1, 3)),
        case((5, 2), spread=1e3),
        case((4, 2), gamma=1.0, often=0.0),
        case((3, 2), gamma=0.0),
        (case((3, 2))[0], np.full((3, 2), 0.5), whole, whole + 1, np.array([2, 1])),
    ]


def _scan(rho=lambda x: np.minimum(x, 1), c=lambda x: np.minimum(x, 1), ratio=np.exp):
    """V-trace with other ratios of the surprise and of the trace."""

    def answer(log_rhos, discounts, rewards, values, after):
        rhos = ratio(log_rhos)
        following = np.concatenate([values[1:], np.asarray(after)[None]])
        surprises = rho(rhos) * (rewards + discounts * following - values)
        targets, later = np.zeros(values.shape), 0.0
        for t in reversed(range(len(values))):
            later = surprises[t] + discounts[t] * c(rhos)[t] * later
            targets[t] = values[t] + later
        return targets

    return answer


@exercise(
    cases=_acted,
    hints=[
        "c = np.minimum(1, np.exp(log_rhos)) is all you need of the ratios. The value "
        "of what comes after step t is values[t + 1], and `after` for the last step.",
        "Go from the last step to the first. Keep v - V of the step that follows, "
        "which is 0 at first.",
        "further = c[t] * (rewards[t] + discounts[t] * next_value - values[t]) + "
        "discounts[t] * c[t] * further. Then v is values[t] + further.",
    ],
    mistakes={
        "you do not cut the ratios off at 1": _scan(np.abs, np.abs),
        "your surprises have no ratio": _scan(rho=np.ones_like),
        "you hand surprises on without the ratio of the steps between": _scan(
            c=np.ones_like
        ),
        "you keep the ratios from falling below 1, not from rising above it": _scan(
            *2 * [lambda rhos: np.maximum(rhos, 1)]
        ),
        "you take the logarithms for the ratios": _scan(ratio=np.array),
        "you leave `after` out: the trajectory stops there, the episode does not": (
            lambda *case: vtrace(*case[:-1], 0 * case[-1])
        ),
        "you give only what comes on top of the values": (
            lambda logs, g, r, V, after: vtrace(logs, g, r, V, after) - V
        ),
    },
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
