"""The solutions of chapter 13 against other ways to the same thing."""

import numpy as np
import pytest

from tinyrmc import Tape, fused
from tinyrmc import primitives as p
from tinyrmc.corpora import sampling
from tinyrmc.course.exercises import language as ex


@pytest.fixture
def rng():
    return np.random.default_rng(12)


def test_a_bigram_is_counted_by_hand_and_its_rows_are_probabilities(rng):
    ids, unigram = np.array([0, 1, 0, 1, 0, 2]), np.array([0.5, 0.25, 0.25])
    found = ex.bigram(ids, unigram, 1.0)
    np.testing.assert_allclose(found[0], [0.5 / 4, 2.25 / 4, 1.25 / 4])
    np.testing.assert_allclose(found[1], [2.5 / 3, 0.25 / 3, 0.25 / 3])
    np.testing.assert_allclose(found[2], unigram)  # nothing comes after it
    shares = rng.dirichlet(np.ones(7))
    rows = ex.bigram(rng.integers(7, size=50), shares, 0.3).sum(axis=1)
    np.testing.assert_allclose(rows, 1)


def test_the_perplexity_of_equal_probabilities_is_the_number_of_choices():
    assert ex.perplexity(np.full((3, 5), 0.1)) == pytest.approx(10)
    assert ex.perplexity(np.array([1 / 2, 1 / 4, 1 / 8])) == pytest.approx(4)


@pytest.mark.parametrize(("n", "lanes", "T"), [(41, 4, 5), (40, 4, 3), (100, 7, 2)])
def test_the_windows_of_a_lane_are_a_piece_of_the_text(n, lanes, T):
    text = 10 * np.arange(n)
    inputs, targets = ex.windows(text, lanes, T)
    length = (n - 1) // lanes
    for lane in range(lanes):
        read = inputs[:, lane].reshape(-1)
        start = lane * length
        np.testing.assert_array_equal(read, text[start : start + length // T * T])
        np.testing.assert_array_equal(targets[:, lane].reshape(-1), read + 10)


def test_the_gradient_is_that_of_the_tape(rng):
    logits, targets = 5 * rng.normal(size=(6, 9)), rng.integers(9, size=6)
    with Tape() as tape:
        z = tape.watch(logits)
        losses = fused.softmax_cross_entropy(z, targets)
        total = p.sum(losses)
    found, gradient = ex.cross_entropy(logits, targets)
    np.testing.assert_allclose(found, losses.data, rtol=1e-12)
    np.testing.assert_allclose(gradient, tape.gradient(total, z), atol=1e-12)


@pytest.mark.parametrize("size", [1, 3, 10, 11])
def test_a_sum_in_blocks_is_the_sum(rng, size):
    logits = 100 * rng.normal(size=(4, 10))
    found = ex.log_sum_exp_in_blocks(lambda i, j: logits[:, i:j], 10, size)
    np.testing.assert_allclose(found, np.logaddexp.reduce(logits, axis=1), rtol=1e-12)


@pytest.mark.parametrize("temperature", [0, 0.3, 1.0, 2.0])
def test_a_word_is_drawn_as_the_package_draws_it(rng, temperature):
    for seed in range(50):
        logits = 3 * rng.normal(size=20)
        u = np.random.default_rng(seed).random()
        theirs = sampling.draw(logits, np.random.default_rng(seed), temperature)
        assert ex.sample(logits, temperature, u) == theirs
