"""Drawing a word: against the probabilities themselves."""

import itertools

import numpy as np

from tinyrmc.corpora import sampling

LOGITS = np.log(np.array([0.1, 0.4, 0.2, 0.3], np.float32))


def shares(count=20_000, **settings):
    """How often each of the four is drawn."""
    rng = np.random.default_rng(0)
    drawn = [sampling.draw(LOGITS, rng, **settings) for _ in range(count)]
    return np.bincount(drawn, minlength=4) / count


def test_each_is_drawn_as_often_as_it_should_be():
    for temperature, top_k in itertools.product((0.5, 1.0, 2.0), (0, 2, 3, 4, 9)):
        kept = np.argsort(LOGITS)[-top_k:]
        chances = np.zeros(4)
        chances[kept] = np.exp(LOGITS[kept] / temperature)
        expected = chances / chances.sum()
        found = shares(5000, temperature=temperature, top_k=top_k)
        np.testing.assert_allclose(found, expected, atol=0.03)
        assert (found[expected == 0] == 0).all()


def test_temperature_0_and_top_1_are_the_argmax():
    rng = np.random.default_rng(1)
    for _ in range(100):
        logits = rng.normal(size=50)
        for settings in ({"temperature": 0}, {"top_k": 1}, {"temperature": 1e-9}):
            assert sampling.draw(logits, rng, **settings) == logits.argmax()


def test_equals_of_the_last_one_are_kept():
    logits, rng = np.array([1.0, 2.0, 1.0, 0.0]), np.random.default_rng(0)
    drawn = {sampling.draw(logits, rng, top_k=2) for _ in range(300)}
    assert drawn == {0, 1, 2}


def test_what_has_no_chance_is_never_drawn_whatever_the_rounding():
    class Extreme:
        def __init__(self, place):
            self.place = place

        def random(self):
            return self.place

    logits = np.array([-np.inf, 0.3, -1e4, 0.2, -np.inf])
    for place, expected in ((0.0, 1), (np.nextafter(1, 0), 3)):
        assert sampling.draw(logits, Extreme(place)) == expected
    assert sampling.draw(logits[[4, 1, 3]], Extreme(0.0), top_k=1) == 1
    below = np.array([0.1, 0.3, 0.2])  # the first is not among the two largest
    assert sampling.draw(below, Extreme(0.0), top_k=2) == 1
    large = np.array([1e6, 1e6 - 1e3], np.float32)
    assert sampling.draw(large, Extreme(0.5)) == 0  # nothing overflows


def test_one_number_a_draw():
    rngs = [np.random.default_rng(0) for _ in range(4)]
    sampling.draw(LOGITS, rngs[0])
    sampling.draw(LOGITS, rngs[1], temperature=0)
    sampling.draw(LOGITS, rngs[2], top_k=2)
    rngs[3].random()
    assert len({rng.random() for rng in rngs}) == 1


def test_on_any_device(xp):
    there = xp.asarray(LOGITS)
    for seed in range(5):
        here, other = np.random.default_rng(seed), np.random.default_rng(seed)
        assert sampling.draw(there, here) == sampling.draw(LOGITS, other)
