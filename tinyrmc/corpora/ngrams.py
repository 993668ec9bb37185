"""Counting as a language model: the floor that a network has to beat.

An n-gram model says how likely a word is after the n - 1 words before it, from how
often that happened in the training text, and saves some probability for what never did.
Interpolated modified Kneser-Ney smoothing (Kneser and Ney 1995; Chen and Goodman 1998,
section 4.1.6) takes a discount D(c) off each count c, and gives what it saved to the
model that sees one word less:

    p(w | h) = (c(h w) - D(c(h w))) / c(h .) + saved(h) p(w | h')

h' is h without its first word; below unigrams all words are equally likely. Only the
longest n-grams use plain counts. For the shorter ones c(h w) says after how many
different words h w occurred: "francisco" is frequent, but comes after "san" alone.

Texts are arrays of integers, as corpora have them. Nothing loops over tokens: an n-gram
is a pair (number of its context, last word), and `np.unique` numbers the pairs.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..errors import check_sizes


@dataclasses.dataclass
class _Order:
    """The model of n-grams of one length, each numbered by its place in `keys`.

    The context of an n-gram is one of a word less, and has that one's number.
    """

    keys: np.ndarray  # context * vocabulary size + word of each, in rising order
    discounted: np.ndarray  # its count less the discount
    total: np.ndarray  # of each context: the sum of its counts; 0 if nothing followed
    saved: np.ndarray  # of each context: the share that the discounts have left over


class KneserNey:
    """An interpolated model with modified Kneser-Ney smoothing, fitted to `ids`.

    Args:
        ids: the training text, integers from 0 to vocabulary_size - 1, (N,).
        vocabulary_size: how many words there are, seen or not.
        order: words of the longest n-grams; 5 looks at four words before.
        boundary: the id of the end of a sentence. With it a context does not reach
            back over one, and a text begins as if after one: each sentence stands
            alone, as in the published figures for the Penn Treebank. Without it (None)
            a context is whatever stands before.

    ValueError if an argument is out of range, or a text is empty.
    """

    def __init__(
        self,
        ids: np.ndarray,
        vocabulary_size: int,
        order: int = 5,
        boundary: int | None = None,
    ):
        check_sizes("KneserNey", order=order)
        self.vocabulary_size, self.order = vocabulary_size, order
        self.boundary = boundary
        text, reach = self._prepared(ids)
        keys = np.arange(vocabulary_size, dtype=np.int64)
        counts = _bincount(text[reach >= 0], minlength=vocabulary_size)
        contexts, numbers = 1, text  # numbers: of the n-gram that ends at each token
        self.orders: list[_Order] = []
        for n in range(1, order + 1):
            alone = _bincount(numbers[reach == n - 1], minlength=len(keys))
            if n == order:
                self.orders.append(self._fitted(keys, counts, contexts))
                break
            there = np.flatnonzero(reach >= n)
            longer, first, own, occurrences = np.unique(
                numbers[there - 1] * vocabulary_size + text[there],
                return_index=True,
                return_inverse=True,
                return_counts=True,
            )
            # after how many different words each n-gram stood; if after none, how often
            words_before = _bincount(numbers[there[first]], minlength=len(keys))
            self.orders.append(self._fitted(keys, words_before + alone, contexts))
            contexts = len(keys)
            keys = longer
            counts = occurrences
            numbers = np.full(len(text), -1, np.int64)
            numbers[there] = own

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """ln p of each word of a text after the words before it, (N,)."""
        text, reach = self._prepared(ids)
        p = np.full(len(text), 1 / self.vocabulary_size)
        numbers = text
        for n, model in enumerate(self.orders, start=1):
            there = np.flatnonzero(reach >= n - 1)
            context = np.zeros_like(there)
            if n > 1:
                there = there[numbers[there - 1] >= 0]
                context = numbers[there - 1]
            followed = model.total[context] > 0
            there, context = there[followed], context[followed]
            keys = context * self.vocabulary_size + text[there]
            place = np.searchsorted(model.keys, keys).clip(max=len(model.keys) - 1)
            seen = model.keys[place] == keys
            own = np.where(seen, model.discounted[place], 0) / model.total[context]
            p[there] = own + model.saved[context] * p[there]
            if n > 1:
                numbers = np.full(len(text), -1, np.int64)
                numbers[there[seen]] = place[seen]
        return np.log(p[len(text) - len(ids) :])

    def perplexity(self, ids: np.ndarray) -> float:
        """exp of the mean of -ln p over a text."""
        return float(np.exp(-self.log_probabilities(ids).mean()))

    def _prepared(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The text, and how many words of context there are for each token: at most
        order - 1, and -1 for a boundary put in front.
        """
        ids = np.asarray(ids)
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids):
            raise ValueError(
                f"KneserNey: a text is a row of integers, not {ids.dtype}{[*ids.shape]}"
            )
        low = ids.min()
        high = ids.max()
        most = self.vocabulary_size - 1
        if not 0 <= low <= high <= most:
            raise ValueError(
                f"KneserNey: ids are from {low} to {high}, not 0 to {most}"
            )
        text = ids.astype(np.int64)
        reach = np.arange(len(text))
        if self.boundary is not None:
            text = np.concatenate([[self.boundary], text])
            place = np.arange(len(text))
            ends = np.maximum.accumulate(np.where(text == self.boundary, place, 0))
            reach = np.concatenate([[-1], place[1:] - ends[:-1]])
        return text, np.minimum(reach, self.order - 1)

    def _fitted(self, keys, counts, contexts: int) -> _Order:
        """The model of n-grams that came `counts` times, in `contexts` contexts."""
        context = keys // self.vocabulary_size
        discount = _discounts(counts)[np.minimum(counts, 3)]
        total = _bincount(context, counts, contexts)
        saved = _bincount(context, discount, contexts) / np.maximum(total, 1)
        return _Order(keys, counts - discount, total, saved)


def _bincount(numbers: np.ndarray, *arguments: Any, **words: Any) -> np.ndarray:
    """np.bincount, which takes no wider integers than the machine's own: 32 bits in a
    browser, too few for the keys of n-grams but enough for their numbers.
    """
    return np.bincount(numbers.astype(np.intp, copy=False), *arguments, **words)


def _discounts(counts: np.ndarray) -> np.ndarray:
    """The discounts of counts of 0, 1, 2, and 3 or more; (4,).

    Chen and Goodman's estimates from how many n-grams have the counts 1 to 4; 1/2, 1
    and 3/2 for a text that is too small for them.
    """
    n = _bincount(np.minimum(counts, 5), minlength=6)
    if n[1:4].all():
        y = n[1] / (n[1] + 2 * n[2])
        estimates = [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)]
        if min(estimates) > 0:
            return np.array([0, *estimates])
    return np.array([0, 0.5, 1, 1.5])
