"""Chapter 22: shortest ways, n steps and a value, and V-trace."""

from __future__ import annotations

import numpy as np

from ..exercise import each, exercise


def _graphs(rng, S, A, goals=1, often=0):
    following = rng.integers(S, size=(S, A))
    wins = np.zeros((S, A), bool)
    wins[rng.integers(S, size=goals), rng.integers(A, size=goals)] = True
    following[rng.random((S, A)) < often] = 0
    return following, wins


_CORRIDOR = np.array([[0, 1], [0, 2], [1, 3], [2, 3]])
_AWAY = np.array([[1, 1], [1, 1], [0, 2]])  # from 0 and 1 nothing leads to the goal
_LONG = np.clip(np.arange(300)[:, None] + [-1, 1], 0, 299)


def _at_the_end(following):
    """Only the last action of the last state wins."""
    wins = np.zeros(following.shape, bool)
    wins[-1, -1] = True
    return following, wins


@exercise(
    cases=each(
        _graphs,
        "8 3, 30 4 3, 12 2 2 0.4",
        first=[_at_the_end(_CORRIDOR)],
        also=[*map(_at_the_end, (_AWAY, _LONG, np.zeros((1, 2), int)))],
    ),
    hints=[
        "Write down what must hold: d(s) is 1 where a step wins, else 1 + d of where "
        "the best step leads.",
        "Begin with infinity everywhere, and set all d at once by that equation, again "
        "and again: d = np.where(wins, 1, 1 + d[following]).min(axis=1).",
        "After as many rounds as there are states nothing changes any more.",
    ],
    mistakes="""
        one round is not enough: distances spread by a step in each
            range(len(d)) -> range(1)
        you take the mean over the actions: the best one counts, so the minimum
            .min(axis=1) -> .mean(axis=1)
        some rounds are not enough: it takes as many as the longest way has steps
            range(len(d)) -> range(100)
        a step that wins is a step, too: its distance is 1
            where(wins, 1, -> where(wins, 0.0,
        you begin with 0: where no way leads to the end d only grows with each round,
        and is never inf
            np.inf -> 0.0
    """,
)
def distances(following, wins):
    """The least number of steps from each state until one wins; inf if none ever does.

    following (S, A), the state after each action; wins (S, A), whether the action wins
    -> (S,), the solution of d(s) = min over a of (1 if wins, else 1 + d(following)).
    """
    d = np.full(len(following), np.inf)
    for _ in range(len(d)):
        d = np.where(wins, 1, 1 + d[following]).min(axis=1)
    return d


def _trajectory(rng, n, gamma, often, *shape):
    rewards, values = rng.normal(size=(2, *shape))
    ended, after = rng.random(shape) < often, rng.normal(size=shape[1:])
    return rewards, values, ended, gamma, n, after


_R, _V = np.array([0.0, 1.0, 0.0, 2.0]), np.array([4.0, 3.0, 2.0, 1.0])
_ONCE = np.array([False, True, False, False])
_trajectories = each(
    _trajectory,  # in the last but one more steps than there are: returns
    "3 0.9 0.2 6 4, 2 0.9 0.5 3 3, 3 0.9 0.2 4 2 3, 20 0.9 0.2 5 2, 2 1.0 0.2 5 3",
    first=[
        (_R, _V, _ONCE & False, 0.5, 2, np.array(8.0)),
        (_R, _V, _ONCE, 0.5, 2, np.array(8.0)),
        (_R, _V, _ONCE & False, 0.5, 1, np.array(8.0)),
    ],
)


@exercise(
    cases=_trajectories,
    large=each(_trajectory, "3 0.9 0.2 2000 2"),
    unlooped="over time",
    hints=[
        "With n = 0 it is the value itself. With n steps: the reward, and gamma times "
        "what the next step says with n - 1.",
        "All t at once: found = rewards + gamma * ~ended * (found of the next step), n "
        "times, where `after` stands behind the last step.",
    ],
    mistakes="""
        you look n + 1 steps ahead
            range(n) -> range(n + 1)
        near the end `after` comes sooner than in n steps, and is discounted as often as
        there are steps left
            for _ in -> for k in
            np.asarray(after)[None] -> np.asarray(after)[None] * gamma**k
        your rewards go on after an end
            ~ended * following -> following
        you leave the values out
            found = values -> found = 0 * values
    """,
)
def n_step(rewards, values, ended, gamma, n, after):
    """n rewards, discounted, and then the value: r_t + .. + gamma^n V_{t+n}.

    rewards, values, ended (T, ...); after (...), the value behind the last step, which
    is also what counts where fewer than n steps are left; where step t has ended its
    episode nothing comes after it -> (T, ...).
    """
    found = values
    for _ in range(n):
        following = np.concatenate([found[1:], np.asarray(after)[None]])
        found = rewards + gamma * ~ended * following
    return found


def _mixed(rng):
    mixes = 0.5, 0.5, 0.0, 0.9, 0.8, 0.5, 1.0, 0.95
    pairs = zip(_trajectories(rng), mixes, strict=True)
    return [(*case[:4], lam, case[5]) for case, lam in pairs]


@exercise(
    cases=_mixed,
    hints=[
        "Write the target of n steps as the value and n surprises. In how many of the "
        "targets does the surprise k steps away stand, and what are their weights "
        "together? A geometric series: lam^k.",
        "So the mix is V_t + sum_k (gamma lam)^k delta_{t+k}. Go backwards: "
        "later = delta_t + gamma lam ~ended[t] later.",
        "delta_t = rewards[t] + gamma * ~ended[t] * V of the next step - values[t], "
        "where `after` stands behind the last.",
    ],
    mistakes="""
        surprises fade by lam alone; gamma belongs there, too
            lam * goes_on -> lam * ~ended[t]
        you add up surprises of the next episode
            lam * goes_on -> lam * gamma
        you give the advantages; add the values
            values[t] + later -> later
    """,
)
def gae(rewards, values, ended, gamma, lam, after):
    """The mix of the targets of n = 1, 2, .. steps, weights (1 - lam) lam^(n-1).

    What is left of the weights goes to the longest target there is. rewards, values,
    ended (T, ...); after (...), the value behind the last step -> (T, ...).
    """
    found, later, next_value = np.zeros(values.shape), 0.0, after
    for t in reversed(range(len(values))):
        goes_on = gamma * ~ended[t]
        surprise = rewards[t] + goes_on * next_value - values[t]
        later = surprise + lam * goes_on * later
        found[t] = values[t] + later
        next_value = values[t]
    return found


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
