"""The solutions of chapter 15 against other ways to the same thing."""

import numpy as np
import pytest

from tinyrmc import Tape, fused
from tinyrmc import primitives as p
from tinyrmc.cores import LSTM, RelationalMemory
from tinyrmc.cores.core import select_state, state_arrays
from tinyrmc.course.exercises import acting as ex
from tinyrmc.training.rl import vtrace


@pytest.fixture
def rng():
    return np.random.default_rng(14)


def test_returns_are_sums_up_to_the_end(rng):
    T, gamma = 7, 0.8
    rewards, ended = rng.normal(size=(T, 3, 2)), rng.random((T, 3, 2)) < 0.3
    after = rng.normal(size=(3, 2))
    found = ex.returns(rewards, ended, gamma, after)
    for row in np.ndindex(3, 2):
        for t in range(T):
            expected, k = 0.0, t
            while k < T:
                expected += gamma ** (k - t) * rewards[(k, *row)]
                if ended[(k, *row)]:
                    break
                k += 1
            else:
                expected += gamma ** (T - t) * after[row]
            assert found[(t, *row)] == pytest.approx(expected)


def test_the_policy_gradient_is_that_of_the_tape(rng):
    logits, actions = 3 * rng.normal(size=(4, 5, 3)), rng.integers(3, size=(4, 5))
    advantages = rng.normal(size=(4, 5))
    with Tape() as tape:
        z = tape.watch(logits)
        log_pi, _ = fused.categorical(z, actions)
        total = p.sum(log_pi * advantages)
    found = ex.policy_gradient(logits, actions, advantages)
    np.testing.assert_allclose(found, tape.gradient(total, z), atol=1e-12)


def test_the_mean_of_log_pis_gradient_is_zero_whatever_the_baseline(rng):
    logits = rng.normal(size=4)
    pi = np.exp(logits) / np.exp(logits).sum()
    every = ex.policy_gradient(np.tile(logits, (4, 1)), np.arange(4), np.full(4, 7.0))
    np.testing.assert_allclose(pi @ every, 0, atol=1e-12)


@pytest.mark.parametrize("spread", [0.0, 1.0, 50.0])
def test_the_targets_are_those_of_the_package_and_v_minus_v_the_advantages(rng, spread):
    shape = 6, 4
    discounts = 0.9 * (rng.random(shape) < 0.8)
    rest = rng.normal(size=shape), rng.normal(size=shape), rng.normal(size=4)
    case = spread * rng.normal(size=shape), discounts, *rest
    targets, advantages = vtrace.targets(*case)
    found = ex.vtrace(*case)
    np.testing.assert_allclose(found, targets, atol=1e-12)
    np.testing.assert_allclose(found - case[3], advantages, atol=1e-12)


def test_where_the_actor_is_the_learner_the_targets_are_returns(rng):
    shape, gamma = (5, 3), 0.9
    rewards, values = rng.normal(size=(2, *shape))
    ended, after = rng.random(shape) < 0.3, rng.normal(size=3)
    found = ex.vtrace(np.zeros(shape), gamma * ~ended, rewards, values, after)
    np.testing.assert_allclose(found, ex.returns(rewards, ended, gamma, after))


@pytest.mark.parametrize("core", [LSTM(3, 4), RelationalMemory(3, 2, 4, 2)])
def test_a_state_begins_anew_as_the_packages_do(core, rng):
    begin = core.initial_state(5)
    x = rng.normal(size=(5, 2, 3)).astype(np.float32)
    _, state = core.unroll(x, begin)
    ended = np.array([True, False, False, True, False])
    theirs = state_arrays(select_state(ended, begin, state))

    def plain(part):
        return tuple(map(plain, part)) if isinstance(part, tuple) else part.data

    mine = state_arrays(ex.begin_anew(plain(state), ended, begin))
    for name, array in theirs.items():
        np.testing.assert_array_equal(mine[name], array)


def in_place(state, ended, begin):
    state[ended] = begin[ended]
    return state


def test_a_state_is_not_written_over():
    assert "it changes its argument state" in ex.begin_anew.judge(in_place).text
