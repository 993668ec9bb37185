"""Chapter 22: how far it is, and what n steps and a value say of a return."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..acting import returns
from ..exercise import exercise


def _graphs(rng):
    def case(S, A, goals=1, often=0.0):
        following = rng.integers(S, size=(S, A))
        wins = np.zeros((S, A), bool)
        wins[rng.integers(S, size=goals), rng.integers(A, size=goals)] = True
        following[rng.random((S, A)) < often] = 0
        return following, wins

    corridor = np.array([[0, 1], [0, 2], [1, 3], [2, 3]])
    at_the_end = np.array([[0, 0], [0, 0], [0, 0], [0, 1]], bool)
    away = np.array([[1, 1], [1, 1], [0, 2]])  # from 0 and 1 nothing leads to the goal
    return [
        (corridor, at_the_end),
        case(8, 3),
        case(30, 4, goals=3),
        case(12, 2, goals=2, often=0.4),
        (away, np.array([[0, 0], [0, 0], [0, 1]], bool)),
        (np.zeros((1, 2), int), np.array([[False, True]])),
    ]


def _solved(following, wins, *, rounds=None, won=1.0, step=1.0, best=np.min):
    """The solution, with one piece replaced."""
    d = np.full(len(following), np.inf)
    for _ in range(rounds or len(d)):
        d = best(np.where(wins, won, step + d[following]), axis=1)
    return d


@exercise(
    cases=_graphs,
    hints=[
        "Write down what must hold: d(s) is 1 where a step wins, else 1 + d of where "
        "the best step leads.",
        "Begin with infinity everywhere, and set all d at once by that equation, again "
        "and again: d = np.where(wins, 1, 1 + d[following]).min(axis=1).",
        "After as many rounds as there are states nothing changes any more.",
    ],
    mistakes={
        "one round is not enough: distances spread by a step in each": partial(
            _solved, rounds=1
        ),
        "a step that wins is a step, too: its distance is 1": partial(_solved, won=0.0),
        "steps cost nothing": partial(_solved, step=0.0),
        "you take the worst step of each state, not the best": partial(
            _solved, best=np.max
        ),
    },
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


def _trajectories(rng):
    def case(shape, n, gamma=0.9, often=0.2):
        rewards, values = rng.normal(size=(2, *shape))
        ended = rng.random(shape) < often
        return rewards, values, ended, gamma, n, rng.normal(size=shape[1:])

    r, V = np.array([0.0, 1.0, 0.0, 2.0]), np.array([4.0, 3.0, 2.0, 1.0])
    never, once = np.zeros(4, bool), np.array([False, True, False, False])
    return [
        (r, V, never, 0.5, 2, np.array(8.0)),
        (r, V, once, 0.5, 2, np.array(8.0)),
        (r, V, never, 0.5, 1, np.array(8.0)),
        case((6, 4), 3),
        case((3, 3), 2, often=0.5),
        case((4, 2, 3), 3),
        case((5, 2), 20),  # more steps than there are: returns
        case((5, 3), 2, gamma=1.0),
    ]


def _looked(rewards, values, ended, gamma, n, after, *, cut=lambda e: ~e, last=None):
    found = values if last is None else last(values)
    for _ in range(n):
        following = np.concatenate([found[1:], np.asarray(after)[None]])
        found = rewards + gamma * cut(ended) * following
    return found


@exercise(
    cases=_trajectories,
    hints=[
        "With n = 0 it is the value itself. With n steps: the reward, and gamma times "
        "what the next step says with n - 1.",
        "All t at once: found = rewards + gamma * ~ended * (found of the next step), n "
        "times, where `after` stands behind the last step.",
    ],
    mistakes={
        "you look n + 1 steps ahead": lambda r, V, e, g, n, after: n_step(
            r, V, e, g, n + 1, after
        ),
        "you look one step ahead, whatever n is": lambda r, V, e, g, n, after: n_step(
            r, V, e, g, 1, after
        ),
        "you leave the values out": partial(_looked, last=np.zeros_like),
        "your rewards go on after an end": partial(_looked, cut=np.ones_like),
        "you take all rewards to the end of the trajectory": (
            lambda r, V, e, g, n, after: returns(r, e, g, after)
        ),
    },
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
    return [
        (*case[:3], case[3], lam, case[5])
        for case, lam in zip(
            _trajectories(rng), (0.5, 0.5, 0.0, 0.9, 0.8, 0.5, 1.0, 0.95), strict=True
        )
    ]


def _sums(rewards, values, ended, gamma, lam, after, *, fade=None, base=1.0, less=1.0):
    """The solution, with one piece replaced."""
    found, later = np.zeros(values.shape), 0.0
    following = np.concatenate([values[1:], np.asarray(after)[None]])
    for t in reversed(range(len(values))):
        goes_on = gamma * ~ended[t]
        surprise = rewards[t] + goes_on * following[t] - less * values[t]
        further = fade(gamma, lam, ended[t]) if fade else lam * goes_on
        later = surprise + further * later
        found[t] = base * values[t] + later
    return found


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
    mistakes={
        "surprises fade by lam alone; gamma belongs there, too": partial(
            _sums, fade=lambda gamma, lam, end: lam * ~end
        ),
        "surprises fade by gamma alone: those are returns": partial(
            _sums, fade=lambda gamma, lam, end: gamma * ~end
        ),
        "you add up surprises of the next episode": partial(
            _sums, fade=lambda gamma, lam, end: gamma * lam
        ),
        "you give the advantages; add the values": partial(_sums, base=0.0),
        "your surprises do not take the value off": partial(_sums, less=0.0),
        "you mix with lam^n, whose sum is not 1; 1 - lam belongs before it": (
            lambda r, V, e, g, lam, after: (
                gae(r, V, e, g, lam, after) / max(1 - lam, 0.01)
            )
        ),
    },
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
