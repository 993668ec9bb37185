"""N-gram models against the same formula, written with dicts and loops."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from tinyrmc.corpora.ngrams import KneserNey


class Slow:
    """Modified Kneser-Ney by the definition, one n-gram (a tuple) at a time."""

    def __init__(self, ids, vocabulary_size, order, boundary):
        self.size, self.order, self.boundary = vocabulary_size, order, boundary
        self.counts = [Counter() for _ in range(order + 1)]
        lefts = defaultdict(set)  # n-gram -> the words it stood after
        for t in range(len(ids)):
            context = self.context(ids, t)
            for n in range(1, min(order, len(context) + 1) + 1):
                gram = (*context[len(context) - n + 1 :], ids[t])
                left = context[len(context) - n :][:1] if n <= len(context) else t
                if n == order:
                    self.counts[n][gram] += 1
                elif left not in lefts[gram]:
                    lefts[gram].add(left)
                    self.counts[n][gram] += 1
        self.discounts = [None, *map(self.estimated, self.counts[1:])]

    def context(self, ids, t):
        """Up to order - 1 words before ids[t], as a tuple."""
        before = [*([] if self.boundary is None else [self.boundary]), *ids[:t]]
        if self.boundary is not None:
            last = max(k for k, word in enumerate(before) if word == self.boundary)
            before = before[last:]
        return tuple(before[max(0, len(before) - self.order + 1) :])

    def estimated(self, counts):
        n = Counter(counts.values())
        if all(n[k] for k in (1, 2, 3)):
            y = n[1] / (n[1] + 2 * n[2])
            found = [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)]
            if all(d > 0 for d in found):
                return 0, *found
        return 0, 0.5, 1, 1.5

    def probability(self, word, context):
        n = len(context) + 1
        shorter = self.probability(word, context[1:]) if context else 1 / self.size
        after = {g[-1]: c for g, c in self.counts[n].items() if g[:-1] == context}
        if not after:
            return shorter
        D, total = self.discounts[n], sum(after.values())
        saved = sum(D[min(c, 3)] for c in after.values()) / total
        c = after.get(word, 0)
        return (c - D[min(c, 3)]) / total + saved * shorter


def text(length, seed, words=8):
    """Words of unequal frequency, some of them often together. The last is rare."""
    random = np.random.default_rng(seed)
    drawn = random.integers(words, size=(2, length)).min(axis=0)
    return np.where(random.random(length) < 0.4, np.roll(drawn, 1) // 2, drawn)


SETTINGS = [
    (order, boundary, length)
    for order in (1, 2, 3, 5)
    for boundary in (None, 0)
    for length in (1, 40, 700)
]


def test_equals_the_definition():
    for order, boundary, length in SETTINGS:
        train, test = text(length, 1), text(60, 2)
        fast, slow = (f(train, 9, order, boundary) for f in (KneserNey, Slow))
        for ids in test, train[:50], np.array([8, 8, 3]):
            expected = [
                math.log(slow.probability(ids[t], slow.context(ids, t)))
                for t in range(len(ids))
            ]
            np.testing.assert_allclose(
                fast.log_probabilities(ids), expected, rtol=1e-10
            )
            assert fast.perplexity(ids) == pytest.approx(math.exp(-np.mean(expected)))


def test_discounts_are_estimated_where_the_text_allows_it():
    slow = Slow(text(700, 1), 9, 3, None)
    assert [d == (0, 0.5, 1, 1.5) for d in slow.discounts[1:]] != [True] * 3


def test_probabilities_sum_to_one_after_any_context():
    """Seen or not: every word in turn after each of some texts."""
    for boundary in [None, 0]:
        model = KneserNey(text(700, 1), 9, 4, boundary)
        contexts = [list(text(5, seed)) for seed in range(30)]
        for context in [[], [0], [8], [8, 8, 8], [1, 0, 2], *contexts]:
            last = [
                model.log_probabilities(np.array([*context, word]))[-1]
                for word in range(9)
            ]
            assert np.exp(last).sum() == pytest.approx(1, rel=1e-12)


def test_a_boundary_hides_what_stood_before_it():
    train = text(700, 1)
    model = KneserNey(train, 9, 4, 0)
    whole = model.log_probabilities(np.array([3, 1, 0, 2, 5, 1]))
    alone = model.log_probabilities(np.array([2, 5, 1]))
    np.testing.assert_array_equal(whole[3:], alone)
    through = KneserNey(train, 9, 4).log_probabilities(np.array([3, 1, 0, 2, 5, 1]))
    assert (through[3:] != alone).any()


def test_integers_of_any_size_are_the_same_text():
    train, test = text(700, 1), text(60, 2)
    expected = KneserNey(train, 60_000, 3).perplexity(test)
    for dtype in np.uint16, np.int32:
        model = KneserNey(train.astype(dtype), 60_000, 3)
        assert model.perplexity(test.astype(dtype)) == expected


def test_unigrams():
    """A longer text: discounts no longer matter, and words are independent."""
    random, shares = np.random.default_rng(3), np.array([0.5, 0.25, 0.125, 0.125])
    train, test = random.choice(4, (2, 200_000), p=shares)
    entropy = -(shares * np.log(shares)).sum()
    assert KneserNey(train, 4, order=1).perplexity(test) == pytest.approx(
        math.exp(entropy), rel=0.01
    )
    assert KneserNey(np.array([0, 0, 1]), 3, order=1).perplexity(np.array([2])) < 20


def test_what_is_refused():
    for ids, size, keywords, says in [
        ([], 3, {}, "a text is a row of integers, not float64"),
        ([[1, 2]], 3, {}, r"a text is a row of integers, not int[0-9]+\[1, 2\]"),
        ([0.5], 3, {}, "a text is a row of integers"),
        ([0, 3], 3, {}, "ids are from 0 to 3, not 0 to 2"),
        ([0, -1], 3, {}, "ids are from -1 to 0, not"),
        ([0], 3, {"order": 0}, "order must be an integer of at least 1, not 0"),
    ]:
        with pytest.raises(ValueError, match=f"^KneserNey: {says}"):
            KneserNey(np.array(ids), size, **keywords)
        if not keywords:
            with pytest.raises(ValueError, match=f"^KneserNey: {says}"):
                KneserNey(np.array([0]), size).perplexity(np.array(ids))
