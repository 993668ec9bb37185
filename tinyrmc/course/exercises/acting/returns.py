"""Chapter 21: what a step has brought in the end."""

from __future__ import annotations

import numpy as np

from ..exercise import each, exercise


def _trajectories(rng, gamma, often, *shape):
    rewards, ended = rng.normal(size=shape), rng.random(shape) < often
    return rewards, ended, gamma, rng.normal(size=shape[1:])


_BY_HAND, _ONCE = np.array([0.0, 1.0, 0.0, 2.0]), np.array([False, True, False, False])


@exercise(
    cases=each(
        _trajectories,  # two axes of levels; in the last gamma ** t is 0
        "0.9 0.3 6 4, 0.8 0.5 3 3, 0.95 0.3 5 2 3, 0.7 0.5 1 4, 1.0 0.3 4 2, "
        "0.0 0.3 4 3, 0.5 0.001 2000 1",
        first=[
            (_BY_HAND, _ONCE & False, 0.5, np.array(8.0)),
            (_BY_HAND, _ONCE, 0.5, np.array(8.0)),
        ],
        also=[
            (np.array([[1, 0], [0, 10], [0, -1]]), np.eye(3, 2) > 0, 0.5, np.arange(2))
        ],
    ),
    hints=[
        "Go from the last step to the first: a return is its own reward, and gamma "
        "times the return of the next step.",
        "After the last step comes `after`. Where a step has ended its episode, "
        "nothing comes after it: multiply by `~ended[t]`.",
        "later = after; then for t in reversed(range(len(rewards))): "
        "later = rewards[t] + gamma * ~ended[t] * later.",
    ],
    mistakes="""
        `if ended[t]` asks one level; for a whole batch multiply by ~ended[t]
            ~ended[t] * later -> (0 if ended[t] else later)
        you discount the step's own reward, too: that one counts in full
            rewards[t] + gamma -> gamma * rewards[t] + gamma
        your returns go on after an end: rewards of the next episode count
            ~ended[t] * ->
        `after` counts although the last step has ended its episode
            ~ended[t] -> (~ended[t] | (t + 1 == len(ended)))
        you lose the reward of the step that ends an episode
            rewards[t] + gamma -> ~ended[t] * rewards[t] + gamma
        you leave `after` out: the trajectory stops there, the episode does not
            later = np.zeros(rewards.shape), after -> later = np.zeros(rewards.shape), 0
        you put the returns into an array of integers, as np.zeros_like makes it for
        rewards that are integers: fractions are cut off
            np.zeros(rewards.shape) -> np.zeros_like(rewards)
    """,
)
def returns(rewards, ended, gamma, after):
    """G_t = r_t + gamma G_{t+1}, and r_t alone where step t has ended its episode.

    rewards (T, ...), those of each step; ended (T, ...), bool; a number gamma; after
    (...), what is still to come after the last step -> (T, ...).
    """
    found, later = np.zeros(rewards.shape), after
    for t in reversed(range(len(rewards))):
        later = rewards[t] + gamma * ~ended[t] * later
        found[t] = later
    return found
