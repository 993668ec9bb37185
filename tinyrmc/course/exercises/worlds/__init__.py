"""Chapter 27: shortest ways, how much a view tells, V-trace, and another's memory."""

import numpy as np

from ..exercise import each, exercise
from ..experiments import Picture


def _graphs(rng, S, A, goals=1, often=0):
    following = rng.integers(S, size=(S, A))
    wins = np.zeros((S, A), bool)
    wins[rng.integers(S, size=goals), rng.integers(A, size=goals)] = True
    following[rng.random((S, A)) < often] = 0
    return following, wins


_CORRIDOR = np.array([[0, 1], [0, 2], [1, 3], [2, 3]])
_AWAY = np.array([[1, 1], [1, 1], [0, 2]])  # from 0 and 1 nothing leads to the goal
# Longer than a hundred rounds; so short that a search from each state takes a second.
_LONG = np.clip(np.arange(120)[:, None] + [-1, 1], 0, 119)


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


def _seen(rng, views, n, new, A=4, all_new=0):
    """Moments with few views and mostly a shortest action; new ones have more views."""
    best = rng.integers(1, A, size=views + all_new)

    def shortest(seen):
        found = rng.random((len(seen), A)) < 0.3
        mostly = rng.random(len(seen)) < 0.8
        found[mostly, best[seen][mostly]] = True
        found[~found.any(axis=1), 0] = True
        return found

    seen = rng.integers(views, size=n)
    others = rng.integers(views + all_new, size=new)
    return seen.tolist(), shortest(seen), others.tolist(), shortest(others)


_LEFT, _RIGHT = [True, False, False], [False, False, True]
_TWICE = np.array([_LEFT, _LEFT, _RIGHT])
_WINDOWS = [b"wall", b"key", b"wall"]


@exercise(
    cases=each(
        _seen,
        "3 20 8, 5 30 17 4 2, 2 9 9 3, 40 60 35 4 20, 4 12 5 5",
        first=[([1, 1, 1], _TWICE, [1, 1, 2], _TWICE)],
        also=[(_WINDOWS, _TWICE, [b"key", b"gem"], _TWICE[1:])],
    ),
    hints=[
        "A dictionary: for each view, how often each action was a shortest one.",
        "votes[view] = votes.get(view, 0) + row for each view and its row; the rule "
        "takes votes[view].argmax().",
        "A new moment counts row[votes[view].argmax()], or, where the view is not in "
        "votes, row.mean(), the chance of any action.",
    ],
    mistakes="""
        a view that is new counts as wrong; any action by chance is right in a share of
        row.mean()
            else row.mean() -> else 0.0
        a view that is new takes the first action
            else row.mean() -> else row[0]
        you leave out the moments whose views are new
            else row.mean() -> else np.nan
            np.mean(right) -> np.nanmean(right)
        you judge on the moments that chose the rule
            zip(new_views, new_shortest, -> zip(views, shortest,
        the rule keeps the last moment of a view, not what is right most often
            votes.get(view, 0) + row -> 0 + row
        the rule keeps the first moment of a view
            votes[view] = votes.get(view, 0) + row
                -> votes[view] = votes.get(view, 0 + row)
        you choose anew for the new moments: the rule has to be made before them
            for view, row in zip(views, shortest,
                -> for view, row in zip(new_views, new_shortest,
    """,
)
def right_share(views, shortest, new_views, new_shortest):
    """The share of new moments in which a rule takes a shortest action.

    views: what is seen in each of n moments; shortest (n, A), whether each action is a
    shortest one there. The rule takes for each view the action that is one most often
    (of several the first), and any by chance where the view is new -> a number.
    """
    votes = {}
    for view, row in zip(views, shortest, strict=True):
        votes[view] = votes.get(view, 0) + row
    right = [
        row[votes[view].argmax()] if view in votes else row.mean()
        for view, row in zip(new_views, new_shortest, strict=True)
    ]
    return np.mean(right)


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


def _memories(rng, running, *shape):
    running = np.array(running, bool)
    return rng.normal(size=(len(running), *shape)), running


@exercise(
    cases=lambda rng: [
        (np.arange(8.0).reshape(4, 1, 2), np.array([True, False, True, True])),
        _memories(rng, [1, 1, 1], 2, 4),
        _memories(rng, [0, 1, 0, 1, 1, 0], 3, 2),
        _memories(rng, [1, 0, 1, 1], 4, 4),  # as many slots and units as levels
        _memories(rng, [0, 0, 1], 2, 3),  # one alone keeps its own
        _memories(rng, [0, 0, 0], 2, 3),
    ],
    hints=[
        "np.flatnonzero(running) are the numbers of the levels that run.",
        "np.roll(k, -1) puts each number where the one before it was, and the first "
        "one last.",
        "found = memory.copy(); found[k] = memory[np.roll(k, -1)].",
    ],
    mistakes="""
        levels that are over count as next: look among those that run
            found[k] = memory[np.roll(k, -1)]
                -> found[k] = np.roll(memory, -1, axis=0)[k]
        each gets the memory of the one before, not of the next
            np.roll(k, -1) -> np.roll(k, 1)
        the slots go round within a level: it keeps its own memory
            memory[np.roll(k, -1)] -> np.roll(memory[k], -1, axis=1)
        the last one keeps its own; it should get the first one's
            np.roll(k, -1) -> np.append(k[1:], k[-1:])
        you change the levels that are over, too
            k = np.flatnonzero(running) -> k = np.arange(len(running))
    """,
    views=True,
)
def of_another(memory, running):
    """Each running level with the memory of the next one that runs, the last with the
    first one's; the others keep their own.

    memory (B, N, F); running (B,), truth values -> (B, N, F).
    """
    found, k = memory.copy(), np.flatnonzero(running)
    found[k] = memory[np.roll(k, -1)]
    return found


def _no_shares(curves):
    """The first thing that no shares of shortest actions would show, or nothing."""
    if any(each.y.min() < 0 or each.y.max() > 1 for each in curves):
        return "a share lies between 0 and 1"
    if any((np.diff(each.x[np.argsort(each.x)]) % 2).any() for each in curves):
        return "a window has an odd number of cells across: you stand in its middle"
    low, high = sorted(curves, key=lambda each: each.y.sum())[:2]
    if low.x.shape == high.x.shape and (low.y > high.y + 0.02).any():
        return (
            "on the moments that chose it the rule is right at least as often as "
            "elsewhere; your curves cross. Is each judged on its own moments?"
        )


picture = Picture("worlds", points=4, cannot_be=_no_shares)
