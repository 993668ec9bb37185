"""Chapter 22: n steps and a value, GAE, and PPO with its details."""

from __future__ import annotations

import collections
from dataclasses import dataclass

import numpy as np

from tinyrmc import Tape, fused, optim
from tinyrmc import primitives as p
from tinyrmc.autograd.engine import Parameter
from tinyrmc.cores import LSTM
from tinyrmc.training.rl.policy import log_probs, sample

from .acting import Agent
from .exercise import each, exercise
from .experiments import Picture, Report
from .language import numbers_of
from .used import used


def _trajectory(rng, n, gamma, often, *shape):
    rewards, values = rng.normal(size=(2, *shape))
    ended, after = rng.random(shape) < often, rng.normal(size=shape[1:])
    return rewards, values, ended, gamma, n, after


_R, _V = np.array([0.0, 1.0, 0.0, 2.0]), np.array([4.0, 3.0, 2.0, 1.0])
_ONCE = np.array([False, True, False, False])


@exercise(
    cases=each(
        _trajectory,  # in the last but one more steps than there are: returns
        "3 0.9 0.2 6 4, 2 0.9 0.5 3 3, 3 0.9 0.2 4 2 3, 20 0.9 0.2 5 2, 2 1.0 0.2 5 3",
        first=[
            (_R, _V, _ONCE & False, 0.5, 2, np.array(8.0)),
            (_R, _V, _ONCE, 0.5, 2, np.array(8.0)),
            (_R, _V, _ONCE & False, 0.5, 1, np.array(8.0)),
        ],
    ),
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


def _episodes(rng, gamma, lam, often, *shape):
    """Episodes that the rules end and others that a limit ends."""
    rewards, values, following = rng.normal(size=(3, *shape))
    ended = rng.random(shape) < often
    terminated = ended & (rng.random(shape) < 0.5)
    within = ~ended[:-1]  # what follows is the next moment's value
    following[:-1][within] = values[1:][within]
    return rewards, values, following, terminated, ended, gamma, lam


_FOLLOWING = np.array([3.0, 6.0, 1.0, 8.0])


@exercise(
    cases=each(
        _episodes,
        "0.9 0.8 0.4 6 4, 0.9 0.5 0.6 3 3, 0.95 0.9 0.4 4 2 3, 0.9 0.0 0.4 5 2, "
        "0.8 1.0 0.4 5 3, 1.0 0.95 0.4 5 3, 0.9 0.7 0.0 4 2",
        first=[
            (_R, _V, np.array([3.0, 2.0, 1.0, 8.0]), *[_ONCE & False] * 2, 0.5, 0.5),
            (_R, _V, _FOLLOWING, _ONCE, _ONCE, 0.5, 0.5),
            (_R, _V, _FOLLOWING, _ONCE & False, _ONCE, 0.5, 0.5),
        ],
    ),
    hints=[
        "Write the target of n steps as the value and n surprises. In how many of the "
        "targets does the surprise k steps away stand, and what are their weights "
        "together? A geometric series: lam^k.",
        "So A_t = sum_k (gamma lam)^k delta_{t+k}. Go backwards: "
        "later = delta + gamma * lam * ~ended[t] * later.",
        "delta = rewards[t] + gamma * ~terminated[t] * following[t] - values[t]: a "
        "limit of time ends the sum, not the value.",
    ],
    mistakes="""
        you put 0 in the place of the value where a limit has cut an episode off; only
        where the rules have ended it (`terminated`) does nothing follow
            ~terminated[t] * following -> ~ended[t] * following
        you count a value behind an end by the rules
            ~terminated[t] * following -> following
        you add up surprises of the next episode where a limit has cut one off
            ~ended[t] -> ~terminated[t]
        you add up surprises of the next episode
            lam * ~ended[t] * later -> lam * later
        surprises fade by lam alone; gamma belongs there, too
            gamma * lam * -> lam *
        surprises fade by gamma alone, as in a return
            gamma * lam * -> gamma *
        you take the next row's value; behind an end that is another episode's, and
        behind the last row there is none: `following` has what is right
            following[t] - values[t]
                -> (values[t + 1] if t + 1 < len(values) else following[t]) - values[t]
        you give the targets; the advantage is without the value
            found[t] = later -> found[t] = values[t] + later
        you go forwards: a surprise belongs to the steps before it
            reversed(range(len(values))) -> range(len(values))
    """,
)
def gae_advantages(rewards, values, following, terminated, ended, gamma, lam):
    """GAE: A_t = delta_t + gamma lam A_{t+1}, the second part only within an episode.

    delta_t = r_t + gamma V' - V_t. rewards, values (T, ...); following (T, ...), the
    value V' of what comes after each step, in the same episode; terminated, the rules
    have ended it, so nothing comes; ended, they or a limit of time have -> (T, ...).
    """
    found, later = np.zeros(rewards.shape), 0.0
    for t in reversed(range(len(values))):
        delta = rewards[t] + gamma * ~terminated[t] * following[t] - values[t]
        later = delta + gamma * lam * ~ended[t] * later
        found[t] = later
    return found


def _loss_and_slope(answer, log_pi, log_mu, advantages, epsilon):
    """The loss, and its gradient with respect to log_pi."""
    taken = Parameter(log_pi)
    with Tape() as tape:
        loss = answer(taken, log_mu, advantages, epsilon)
    if loss is None:
        return None
    tape.backward(loss)
    return float(loss.data), np.array(taken.grad)


def _ratios(rng, epsilon, spread, *shape):
    log_mu = np.log(rng.uniform(0.1, 0.9, size=shape))
    log_pi = log_mu + spread * rng.normal(size=shape)
    return log_pi, log_mu, rng.normal(size=shape), epsilon


_APART = np.log([0.5, 0.9, 1.1, 2.0] * 2)


@used(
    _loss_and_slope,
    cases=each(
        _ratios,
        "0.2 0.3 4 5, 0.1 0.5 3 3, 0.5 1.0 2 6, 0.3 0.0 3 2",  # in the last pi is mu
        first=[(_APART, 0 * _APART, np.repeat([1.0, -1.0], 4), 0.2)],
    ),
    parts=["your loss", "its gradient"],
    hints=[
        "log_pi is on the tape, the other two are numbers. The ratio is "
        "primitives.exp(log_pi - log_mu).",
        "primitives.clip(ratio, a_min=1 - epsilon, a_max=1 + epsilon), and "
        "primitives.minimum of the two products with the advantages.",
        "What shall become large gets a minus: -primitives.mean(...).",
    ],
    mistakes="""
        you take the larger of the two: then what is clipped always wins back what the
        clip has cost; the smaller one counts
            p.minimum( -> p.maximum(
        your ratio is mu / pi; it is the policy that learns over the one that acted
            p.exp(log_pi - log_mu) -> p.exp(log_mu - log_pi)
        log_mu is made of log_pi, so the ratio is always 1 and nothing is ever clipped:
        what counts is what the actor thought
            p.exp(log_pi - log_mu) -> p.exp(log_pi - log_pi.data)
        the lower limit is 1 - epsilon, not 1 / (1 + epsilon)
            a_min=1 - epsilon -> a_min=1 / (1 + epsilon)
        nothing is clipped
            p.clip(ratio, a_min=1 - epsilon, a_max=1 + epsilon) -> ratio
        you leave the minimum out: a ratio that has gone the wrong way must still be
        pulled back
            p.minimum(ratio * advantages, clipped * advantages) -> clipped * advantages
        you clip ln pi - ln mu; the ratio itself lies between 1 - epsilon and 1 +
        epsilon
            clipped = p.clip(ratio, a_min=1 - epsilon, a_max=1 + epsilon)
                -> clipped = p.exp(p.clip(log_pi - log_mu, a_min=-epsilon,
                a_max=epsilon))
        you clip the product; clip the ratio
            clipped * advantages)
                -> p.clip(ratio * advantages, a_min=1 - epsilon, a_max=1 + epsilon))
        your sign is the other way round: a loss becomes small
            -p.mean -> p.mean
        you take the sum; the mean is asked for
            -p.mean -> -p.sum
        epsilon is written in
            a_min=1 - epsilon, a_max=1 + epsilon -> a_min=0.8, a_max=1.2
        you normalise the advantages, which ppo_update does
            p.minimum(ratio * advantages, clipped * advantages)
                -> p.minimum(ratio * (b := (advantages - advantages.mean())
                / (advantages.std() + 1e-8)), clipped * b)
        the advantage multiplies ln pi, as in chapter 21; here it multiplies the ratio
            p.exp(log_pi - log_mu) -> log_pi
    """,
)
def clipped_loss(log_pi, log_mu, advantages, epsilon):
    """PPO's loss: -mean of min(rho A, clip(rho, 1 - epsilon, 1 + epsilon) A).

    rho = pi(a) / mu(a). log_pi (...), on the tape; log_mu and advantages (...), numbers
    -> a number on the tape.
    """
    ratio = p.exp(log_pi - log_mu)
    clipped = p.clip(ratio, a_min=1 - epsilon, a_max=1 + epsilon)
    return -p.mean(p.minimum(ratio * advantages, clipped * advantages))


def _products(answer, normal, gain):
    """Products of all rows or columns, the fewer, and onto what they project."""
    found = answer(normal.copy(), gain)
    if found is None:
        return None
    found = np.asarray(found)
    if found.shape != normal.shape:
        return found
    if found.shape[0] >= found.shape[1]:
        return found.T @ found, found @ found.T
    return found @ found.T, found.T @ found


@used(
    _products,
    cases=lambda rng: [
        (rng.normal(size=shape), gain)
        for shape, gain in [((4, 2), 1.0), ((2, 5), 2.0), ((3, 3), 0.01), ((6, 4), 1.5)]
    ],
    tolerance=1e-6,
    hints=[
        "np.linalg.qr(x) gives q, whose columns are orthonormal and span what those of "
        "x do, if x has at least as many rows as columns.",
        "A matrix with more columns than rows: take the transpose, and turn the result "
        "over.",
        "tall = normal if rows >= columns else normal.T; q, _ = np.linalg.qr(tall).",
    ],
    mistakes="""
        the gain is missing
            gain * (q -> (q
        you multiply by the root of the gain
            gain * (q -> gain**0.5 * (q
        q of a wide matrix is square: turn it over first, and the result back
            tall = normal if rows >= columns else normal.T -> tall = normal
            (q if rows >= columns else q.T) -> q
        your columns have length 1 but are not at right angles
            q, _ = np.linalg.qr(tall) -> q = tall / np.linalg.norm(tall, axis=0)
        you return r, not q
            q, _ = -> _, q =
    """,
)
def orthogonal(normal, gain):
    """A matrix like `normal` (n, m) whose columns, or its rows where these are fewer,
    are at right angles and of length `gain`, and span what those of `normal` do.
    """
    rows, columns = normal.shape
    tall = normal if rows >= columns else normal.T
    q, _ = np.linalg.qr(tall)
    return gain * (q if rows >= columns else q.T)


@dataclass(frozen=True)
class Details:
    """The parts of PPO; you can take each of them away."""

    lam: float = 0.95
    """lambda of GAE; 1: returns, 0: one step and a value"""
    bootstrap: bool = True
    """the value counts where a limit has cut an episode off"""
    epochs: int = 4
    """how often a trajectory is gone through"""
    minibatches: int = 4
    """pieces of each epoch, all steps of some levels each"""
    normalise: bool = True
    """advantages of a minibatch get mean 0 and standard deviation 1"""
    epsilon: float = 0.2
    """where the ratio is clipped; inf: never"""
    value_clip: float = np.inf
    """how far a value may move from the actor's; inf: anywhere"""
    entropy: float = 0.03
    """what a unit of entropy is worth"""
    max_norm: float | None = 0.5
    """where the norm of the gradient is clipped; None: never"""
    adam_epsilon: float = 1e-5
    """added to Adam's divisor"""
    orthogonal: bool = True
    """layers begin orthogonal, the policy's head at a hundredth"""
    anneal: bool = True
    """the rate falls to 0 along a straight line"""


def collect(agent, world, see, now, T, rng, begin_anew):
    """As `act`, with what PPO wants to know besides: arrays (B, T, ...).

    values: V of each moment; following: V of what came after it in the same episode,
    also where a limit of time has cut that off; terminated: the rules have ended it.
    """
    (levels, state, fresh), found = now, collections.defaultdict(list)
    B = len(fresh)
    begin = agent.core.initial_state(B)
    seen = see(world.observe(levels))
    logits, values, after = agent(seen[:, None], state)
    for _ in range(T):
        z, V = logits.data[:, 0], values.data[:, 0]
        taken = sample(z, rng.random(B, np.float32))
        noise = rng.random((B, world.noise), np.float32)
        outcome = world.step(levels, taken, noise, keep_final=True)
        final, over = see(world.observe(outcome.final)), outcome.ended
        step = {"seen": seen, "fresh": fresh, "taken": taken, "values": V}
        step |= {"log_mu": log_probs(z, taken), "rewards": outcome.reward}
        step |= {"terminated": outcome.terminated, "ended": over}
        last = values
        if over.any():
            _, last, _ = agent(final[:, None], after)
        state = begin_anew(numbers_of(after), over, begin)
        seen, fresh = see(world.observe(levels)), over
        logits, values, after = agent(seen[:, None], state)
        step["following"] = np.where(over, last.data[:, 0], values.data[:, 0])
        for name, x in step.items():
            found[name].append(x)
    arrays = {name: np.stack(x, axis=1) for name, x in found.items()}
    return arrays, (levels, state, fresh)


def rows_of(state, rows):
    """These levels of a state, an array or a tuple of states."""
    if isinstance(state, tuple):
        return tuple(rows_of(part, rows) for part in state)
    return state[rows]


def value_loss(values, old, targets, limit):
    """Mean of (V - G)^2, or of the larger one with V at most `limit` from the old."""
    found = p.square(values - targets)
    if np.isfinite(limit):
        near = old + p.clip(values - old, a_min=-limit, a_max=limit)
        found = p.maximum(found, p.square(near - targets))
    return p.mean(found)


def _run(answer, acted, first, pieces, rate, details):
    """The last loss, and the parameters of a tiny agent after its updates.

    What it has acted, `log_mu` and `values`, is made with the agent itself.
    """
    agent = Agent(lambda n, seed: LSTM(n, 4, seed=1), 3, 3, 4, seed=1)
    for parameter in agent.parameters():
        parameter.data[...] *= 2
    logits, values, _ = agent(acted["seen"], first, acted["fresh"])
    log_pi, _ = fused.categorical(logits, acted["taken"])
    V = values.data
    following = np.where(
        acted["ended"], acted["following"], np.roll(V, -1, axis=1)
    ).astype(np.float32)
    following[:, -1] = acted["following"][:, -1]
    acted = acted | {"log_mu": log_pi.data, "values": V, "following": following}
    adam = optim.Adam(agent.parameters(), epsilon=details.adam_epsilon)
    loss = answer(agent, adam, acted, first, pieces, rate, details)
    if loss is None:
        return None
    learnt = np.concatenate([each.data.ravel() for each in agent.parameters()])
    return float(loss), learnt.astype(float)


def _acted(rng, B, T, pieces, rate=0.01, often=0.4, **details):
    ended = rng.random((B, T)) < often
    acted = {
        "seen": rng.normal(size=(B, T, 3)).astype(np.float32),
        "fresh": np.concatenate([np.zeros((B, 1), bool), ended[:, :-1]], axis=1),
        "taken": rng.integers(3, size=(B, T)),
        "rewards": rng.normal(size=(B, T)).astype(np.float32),
        "terminated": ended & (rng.random((B, T)) < 0.5),
        "ended": ended,
        "following": rng.normal(size=(B, T)).astype(np.float32),
    }
    first = tuple(rng.normal(size=(2, B, 4)).astype(np.float32))
    return acted, first, pieces, rate, Details(**details)


def _halves(rng, B, epochs):
    return [
        piece for _ in range(epochs) for piece in np.array_split(rng.permutation(B), 2)
    ]


@used(
    _run,
    cases=lambda rng: [
        _acted(rng, 5, 6, _halves(rng, 5, 2)),
        _acted(rng, 4, 4, _halves(rng, 4, 3), 0.03, lam=0.7, epsilon=0.1),
        _acted(rng, 6, 3, _halves(rng, 6, 1), normalise=False, entropy=0.3),
        _acted(rng, 4, 7, _halves(rng, 4, 2), value_clip=0.1, max_norm=0.1),
        _acted(rng, 3, 5, [np.arange(3)] * 2, 0.02, max_norm=None, entropy=0.0),
        _acted(rng, 6, 4, _halves(rng, 6, 2), bootstrap=False),
    ],
    tolerance=1e-4,  # float32
    parts=["your loss", "what the agent has learnt"],
    hints=[
        "Once, before the loop: advantages with gae_advantages, whose arrays have time "
        "first, so .T goes in and out; targets are advantages + acted['values'].",
        "For each piece: its rows of everything, normalised advantages, and on a tape "
        "agent(seen[rows], rows_of(first, rows), fresh[rows]) and "
        "fused.categorical(logits, taken[rows]).",
        "clipped_loss(log_pi, log_mu[rows], part, epsilon) + 0.25 * value_loss(...) - "
        "entropy * primitives.mean(entropies); zero_grad, backward, step.",
    ],
    mistakes="""
        you normalise all advantages together; those of each minibatch by themselves
            targets = A + V -> targets = A + V; A = (A - A.mean()) / (A.std() + 1e-8)
                if details.normalise else A
            if details.normalise: -> if False:
        you normalise each step's advantages over the levels, not all of a minibatch
            part.mean()) / (part.std() + 1e-8)
                -> part.mean(axis=0)) / (part.std(axis=0) + 1e-8)
        you normalise each level's advantages by themselves, not all of a minibatch
            part.mean()) / (part.std() + 1e-8)
                -> part.mean(axis=1, keepdims=True)) / (part.std(axis=1,
                keepdims=True) + 1e-8)
        you normalise although details.normalise is off, or not although it is on
            if details.normalise: -> if not details.normalise:
        the targets of the value have normalised advantages in them; add the values to
        those before
            targets[rows], details.value_clip -> (part + V[rows]).astype(np.float32),
                details.value_clip
        log_mu is computed anew in each minibatch, so the ratio is always 1 and nothing
        is ever clipped: what counts is what the actor thought
            log_mu[rows], part -> log_pi.data, part
        you begin with the core's initial state: hand `first` to the agent, else the
        learner has forgotten what the actor still knew
            rows_of(first, rows) -> agent.core.initial_state(len(rows))
        the state does not begin anew where an episode does: hand `fresh` to the agent
            acted["fresh"][rows] -> None
        the states of the first levels go with the rows of others: rows_of(first, rows)
            rows_of(first, rows) -> rows_of(first, np.arange(len(rows)))
        a reward for entropy is subtracted from a loss
            - details.entropy -> + details.entropy
        you put 0 in the place of the value where a limit has cut an episode off
            acted["terminated"] if details.bootstrap else acted["ended"]
                -> acted["ended"]
        the gradients of all minibatches add up: adam.zero_grad() is missing
            adam.zero_grad() -> pass
        the rate is written in: hand `rate` to adam.step
            learning_rate=rate -> learning_rate=0.01
        epsilon is written in: hand details.epsilon to clipped_loss
            part, details.epsilon) -> part, 0.2)
        nothing is clipped: max_norm=details.max_norm
            , max_norm=details.max_norm ->
        you take one step, with the first minibatch alone
            in pieces: -> in pieces[:1]:
        the value is not clipped: hand details.value_clip to value_loss
            targets[rows], details.value_clip -> targets[rows], np.inf
        the value's part has the weight 1; a quarter is asked for
            0.25 * value_loss -> value_loss
    """,
)
def ppo_update(agent, adam, acted, first, pieces, rate, details):
    """PPO's steps of Adam on what `collect` has acted -> the last loss, a number.

    first: the core's state at the beginning; pieces: the levels (n,) of each minibatch,
    one after the other. The discount is 0.99. Once: GAE's advantages A, with `ended` in
    the place of `terminated` where bootstrap is off, and targets G = A + V. In each
    minibatch the loss is clipped_loss, with A normalised if the details say so, plus
    0.25 value_loss, minus the mean entropy times what it is worth.
    """
    over = acted["terminated"] if details.bootstrap else acted["ended"]
    times = acted["rewards"], acted["values"], acted["following"], over, acted["ended"]
    A = gae_advantages(*(x.T for x in times), 0.99, details.lam).T.astype(np.float32)
    V, log_mu = acted["values"], acted["log_mu"]
    targets = A + V
    for rows in pieces:
        part = A[rows]
        if details.normalise:
            part = (part - part.mean()) / (part.std() + 1e-8)
        with Tape() as tape:
            state = rows_of(first, rows)
            logits, values, _ = agent(acted["seen"][rows], state, acted["fresh"][rows])
            log_pi, entropies = fused.categorical(logits, acted["taken"][rows])
            loss = clipped_loss(log_pi, log_mu[rows], part, details.epsilon)
            of_value = value_loss(values, V[rows], targets[rows], details.value_clip)
            loss = loss + 0.25 * of_value - details.entropy * p.mean(entropies)
        adam.zero_grad()
        tape.backward(loss)
        adam.step(learning_rate=rate, max_norm=details.max_norm)
    return float(loss.data)


def _not_clipped(curves):
    """The first thing in the curves that PPO does not make large, or nothing."""
    for A in (1.0, -1.0):
        right = [
            np.minimum(each.x * A, np.clip(each.x, 0.8, 1.2) * A) for each in curves
        ]
        pairs = [*zip(curves, right, strict=True)]
        if any(np.allclose(each.y, y, atol=1e-6) for each, y in pairs):
            continue
        if any(np.allclose(each.y, -y, atol=1e-6) for each, y in pairs):
            return f"for A = {A:g} it shows the loss: what is made large is minus that"
        return (
            f"no curve is what is made large for A = {A:g}: the smaller one of rho A "
            "and clip(rho) A, with epsilon = 0.2"
        )


picture = Picture("ppo", cannot_be=_not_clipped)
experiment = Report("ppo")
