"""Chapter 17: what counting says of the next word, and how good that is."""

from __future__ import annotations

import numpy as np

from ..exercise import exercise


def _texts(rng):
    def shares(V):
        return rng.dirichlet(np.ones(V))

    return [
        (rng.integers(5, size=60), shares(5), 1.0),
        (rng.integers(4, size=4), shares(4), 0.5),
        (np.array([0, 1, 1, 1, 0, 1, 1, 2]), np.array([0.25, 0.5, 0.25]), 3.0),
        (rng.integers(3, size=200), shares(6), 30.0),  # three words never occur
        (np.array([2]), shares(3), 10.0),  # a text without any pair
    ]


@exercise(
    cases=_texts,
    hints=[
        "First count: counts[a, b] is how often b comes right after a. The pairs are "
        "ids[:-1] and ids[1:], beside each other.",
        "counts[ids[:-1], ids[1:]] += 1 counts a pair once, however often it occurs. "
        "np.add.at(counts, (ids[:-1], ids[1:]), 1) counts them all.",
        "The sum of row a of the counts says how often anything came after a. Add k "
        "to it, and k times the unigram to the row.",
    ],
    mistakes="""
        you count a pair once, however often it occurs: x[i] += 1 adds once for each
        different i
            np.add.at( -> np.ndarray.__setitem__(
        rows and columns have changed places: row a is for what comes after a
            (ids[:-1], ids[1:]) -> (ids[1:], ids[:-1])
        you divide by how often a occurs: the last word of the text occurs once more
        than it is followed
            counts.sum(axis=1, keepdims=True)
                -> np.bincount(ids.astype(np.intp), minlength=V)[:, None]
        you add k to every count, not k times the unigram
            k * unigram -> k
            keepdims=True) + k -> keepdims=True) + k * V
        you leave out the k in the denominator: your rows sum to more than 1
            counts.sum(axis=1, keepdims=True) + k
                -> np.maximum(counts.sum(axis=1, keepdims=True), 1)
    """,
)
def bigram(ids, unigram, k):
    """p(b | a) = (how often b comes after a + k p(b)) / (what comes after a + k).

    ids (n,), words as integers; unigram (V,), the p(b); a number k > 0
    -> (V, V), row a for what comes after a.
    """
    V = len(unigram)
    counts = np.zeros((V, V))
    np.add.at(counts, (ids[:-1], ids[1:]), 1)
    return (counts + k * unigram) / (counts.sum(axis=1, keepdims=True) + k)


@exercise(
    cases=lambda rng: [
        (np.array([0.5, 0.25, 0.125]),),
        (rng.uniform(0.01, 1, size=30),),
        (rng.uniform(0.01, 1, size=(3, 4)),),  # three lanes
        (rng.uniform(1e-4, 1e-2, size=500),),  # their product is 0 to the computer
        (np.array([1.0]),),
        (np.array([1e-250, 0.5]),),
        (np.array([0.5, 0.0, 0.5]),),  # what was held to be impossible has come
    ],
    hints=[
        "The product of many probabilities is too small to hold. The sum of their "
        "logarithms is not.",
        "Take the mean of ln p, change its sign, and undo the logarithm with exp.",
    ],
    mistakes="""
        you multiply the probabilities: the product of some hundred is too small to hold
            = np.prod(probabilities) ** (-1 / probabilities.size)
        you take the mean of the probabilities, not of their logarithms
            = 1 / probabilities.mean()
        you stop at the loss, in nats
            np.exp ->
        you take the logarithm to the base 2 and go back with a power of e
            np.log -> np.log2
        you divide by the number of rows, not of words
            np.mean(np.log(probabilities))
                -> np.log(probabilities).sum() / len(probabilities)
        you add something small to every probability
            np.log(probabilities) -> np.log(probabilities + 1e-9)
    """,
    leading="probabilities",
)
def perplexity(probabilities):
    """exp of the mean of -ln p.

    probabilities (...), those that the model gave to the words that came -> a number.
    """
    return np.exp(-np.mean(np.log(probabilities)))
