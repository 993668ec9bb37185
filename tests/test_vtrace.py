"""V-trace against its definition as a sum, and the returns that it becomes on policy.

The losses that are made of it, and the policy that acts.
"""

import math

import numpy as np
import oracles
from hypothesis import given
from hypothesis import strategies as st

from tinyrmc import Tape, fused
from tinyrmc import primitives as p
from tinyrmc.backend import to_host
from tinyrmc.training.rl import policy, vtrace

NAMES = "log_rhos discounts rewards values bootstrap".split()


def random_trajectory(seed, steps, batch, ends=0.2):
    rng = np.random.default_rng(seed)
    found = {name: rng.standard_normal((steps, batch)) for name in NAMES[:4]}
    found["discounts"] = 0.97 * (rng.random((steps, batch)) >= ends)
    return found | {"bootstrap": rng.standard_normal(batch)}


def as_a_sum(log_rhos, discounts, rewards, values, bootstrap, rho, pg_rho, lambda_=1):
    """Equation 1 of the paper: v_s as a sum over all later steps, one by one."""
    steps, batch = rewards.shape
    further = np.vstack([values, bootstrap])
    v = further.copy()
    for b in range(batch):
        for s in range(steps):
            for t in range(s, steps):
                ratio = math.exp(log_rhos[t, b])
                surprise = rewards[t, b] - further[t, b]
                surprise += discounts[t, b] * further[t + 1, b]
                term = min(rho, ratio) * surprise
                for k in range(s, t):
                    term *= discounts[k, b]
                    term *= lambda_ * min(1, math.exp(log_rhos[k, b]))
                v[s, b] += term
    q = rewards + discounts * (lambda_ * v[1:] + (1 - lambda_) * further[1:])
    return v[:-1], np.minimum(pg_rho, np.exp(log_rhos)) * (q - values)


@given(
    seed=st.integers(0, 999),
    steps=st.integers(1, 7),
    batch=st.integers(1, 3),
    lambda_=st.floats(0, 1),
    clips=st.tuples(*[st.floats(0.2, 4) | st.just(math.inf)] * 2),
)
def test_it_is_the_sum_of_the_paper(seed, steps, batch, lambda_, clips):
    """For any trajectory, any clips, any lambda."""
    given = random_trajectory(seed, steps, batch)
    before = {name: array.copy() for name, array in given.items()}
    ours = vtrace.targets(
        **given, clip_rho=clips[0], clip_pg_rho=clips[1], lambda_=lambda_
    )
    for mine, exact in zip(
        ours,
        as_a_sum(**given, rho=clips[0], pg_rho=clips[1], lambda_=lambda_),
        strict=True,
    ):
        assert mine.dtype == np.float64
        np.testing.assert_allclose(mine, exact, rtol=1e-12, atol=1e-12)
    for name, array in given.items():  # they stay as they are
        np.testing.assert_array_equal(array, before[name])


def test_ratios_beyond_all_numbers_are_clipped():
    given = random_trajectory(8, 3, 2) | {"log_rhos": np.full((3, 2), 1e5)}
    given["log_rhos"][1] = -np.inf
    with np.errstate(all="raise"):
        vs, advantages = vtrace.targets(**given)
    ones = given | {"log_rhos": np.array([[0.0] * 2, [-np.inf] * 2, [0.0] * 2])}
    np.testing.assert_array_equal(vs, vtrace.targets(**ones)[0])
    np.testing.assert_array_equal(vs[1], given["values"][1])
    assert (advantages[1] == 0).all()


# --- The losses -----------------------------------------------------------------------


def losses(logits, values, actions, mu, trajectory):
    """As the head of vtrace.py writes them."""
    found, entropies = fused.categorical(logits, actions)
    vs, advantages = vtrace.targets(found - mu, values=values, **trajectory)
    loss = p.sum(found * -advantages) - 0.01 * p.sum(entropies)
    return loss + 0.5 * 0.5 * p.sum(p.square(values - vs))


def plain_losses(hips, logits, values, actions, vs, advantages):
    probabilities = hips.exp(logits) / hips.sum(
        hips.exp(logits), axis=-1, keepdims=True
    )
    logs = hips.log(probabilities)
    chosen = hips.sum(logs * np.eye(logits.shape[-1])[actions], axis=-1)
    loss = hips.sum(-chosen * advantages)
    loss = loss + 0.01 * hips.sum(probabilities * logs)
    return loss + 0.5 * 0.5 * hips.sum((vs - values) ** 2)


def test_the_losses_have_the_gradients_of_constant_targets():
    """To the gradient, targets and advantages are numbers."""
    rng, given = np.random.default_rng(0), random_trajectory(2, 6, 3)
    logits, actions = rng.standard_normal((6, 3, 4)), rng.integers(0, 4, (6, 3))
    mu, values = given.pop("log_rhos"), given.pop("values")
    with Tape() as tape:
        watched = tape.watch(logits), tape.watch(values)
        loss = losses(*watched, actions, mu, given)
    ours = tape.gradient(loss, list(watched))
    log_rhos = policy.log_probs(logits, actions) - mu
    vs, advantages = vtrace.targets(log_rhos, values=values, **given)
    constants = {"vs": vs, "advantages": advantages}
    theirs = oracles.hips_gradient(
        lambda hips, P: plain_losses(hips, **P, actions=actions, **constants),
        {"logits": logits, "values": values},
    )
    np.testing.assert_allclose(ours[0], theirs["logits"], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(ours[1], theirs["values"], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(ours[1], 0.5 * (values - vs), rtol=1e-12)


def test_a_policy_that_is_sure(xp):
    for dtype in [np.float32, np.float64]:
        logits = xp.array([[1e4, 0, -1e4], [-1e4, 1e4, 1e4]], dtype)
        with np.errstate(over="raise", invalid="raise", divide="raise"), Tape() as tape:
            x = tape.watch(logits)
            found, entropy = fused.categorical(x, xp.array([1, 2]))
            loss = p.sum(found) + p.sum(entropy)
        np.testing.assert_allclose(to_host(found.data), [-1e4, -np.log(2)], rtol=1e-6)
        np.testing.assert_allclose(to_host(entropy.data), [0, np.log(2)], rtol=1e-6)
        (g,) = tape.gradient(loss, [x])
        np.testing.assert_allclose(to_host(g), [[-1, 1, 0], [0, -0.5, 0.5]], atol=1e-6)


# --- Acting ---------------------------------------------------------------------------


def test_actions_come_as_often_as_they_should(xp):
    """Of evenly spaced numbers each action gets its share, to one number."""
    for dtype in [np.float32, np.float64]:
        for count in [2, 3, 5]:
            logits = np.random.default_rng(count).standard_normal(count).astype(dtype)
            points, shares = 4096, np.exp(logits) / np.exp(logits).sum()
            uniforms = ((np.arange(points) + 0.5) / points).astype(dtype)
            rows = xp.tile(xp.asarray(logits), (points, 1))
            actions = to_host(policy.sample(rows, xp.asarray(uniforms)))
            assert (np.diff(actions) >= 0).all() and actions.dtype.kind == "i"
            found = np.bincount(actions, minlength=count) / points
            np.testing.assert_allclose(found, shares, atol=1.01 / points)


@given(seed=st.integers(0, 9999), dtype=st.sampled_from([np.float32, np.float64]))
def test_the_ends_of_the_interval_draw_what_is_possible(seed, dtype):
    """Also where rounding would put the last number on the last bound."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((64, 5)).astype(dtype) * 5
    logits[rng.random((64, 5)) < 0.5] = -1e4  # impossible: e^-1e4 is 0
    logits[:, rng.integers(5)] = 0
    for u in 0, np.nextafter(dtype(1), dtype(0)), dtype(rng.random() * 0.999):
        actions = policy.sample(logits, np.full(64, u, dtype))
        assert actions.min() >= 0 and actions.max() <= 4
        assert (logits[np.arange(64), actions] > -1e4).all()


def test_greedy_and_the_logarithms(xp):
    logits = xp.array([[[0.0, 2.0, 2.0], [1.0, 0.0, -1.0]]], np.float32)
    actions = xp.array([[2, 1]])
    found = policy.log_probs(logits, actions)
    assert found.dtype == np.float32 and type(found) is xp.ndarray
    exact = fused.categorical(logits, actions)[0]
    np.testing.assert_allclose(to_host(found), to_host(exact.data), rtol=1e-6)
