"""Chapter 19: where words stand in a sentence, and sentences in a story."""

from __future__ import annotations

import numpy as np

from tinyrmc import Tape
from tinyrmc import primitives as p

from ..exercise import each, exercise
from ..used import used


def _bags(rng, J, V, d, *leading):
    hot = np.eye(V)[rng.integers(V, size=(*leading, J))]  # (..., J, V)
    place = np.arange(1, J + 1)[:, None] / J - 0.5
    return hot.sum(axis=-2), (place * hot).sum(axis=-2), rng.normal(size=(V, d))


def _on_the_tape(answer, once, weighted, table):
    """The memories, and the gradient of the sum of their squares."""
    with Tape() as tape:
        rows = tape.watch(table)
        found = answer(once, weighted, rows)
        loss = p.sum(p.square(found))
    return found.data.copy(), tape.gradient(loss, rows).copy()


@used(
    _on_the_tape,
    cases=each(_bags, "4 6 5, 5 5 5 3, 2 7 4 2 3, 1 6 1, 7 3 20 4"),
    hints=[
        "Multiply l out and sort by j: a constant, and something times j / J. Then "
        "write j / J as (j / J - 1/2) + 1/2.",
        "l_kj = 1/2 + 2 (k / d - 1/2) (j / J - 1/2). The first part is half a bag, "
        "once @ table; the second is a factor for each unit, times weighted @ table.",
        "k = np.arange(1, d + 1); 0.5 * (once @ table) + 2 * (k / d - 0.5) * "
        "(weighted @ table).",
    ],
    mistakes="""
        the constant is a half, not 1
            0.5 * (once -> (once
        the factor 2 is missing
            2 * (k -> (k
        you count the units from 0; the paper counts from 1
            np.arange(1, d + 1) -> np.arange(d)
        your factor has the wrong sign: the last units listen to the end of a sentence
            (k / d - 0.5) -> (0.5 - k / d)
    """,
)
def remembered(once, weighted, table):
    """Sentences with position encoding, from two counts of their words.

    once (..., V) counts each word, weighted (..., V) counts word j of J as j/J - 1/2;
    table (V, d), on the tape -> sum_j l_j * table[word j], (..., d), with
    l_kj = (1 - j/J) - (k/d) (1 - 2j/J), both counted from 1.
    """
    d = table.shape[-1]
    k = np.arange(1, d + 1)
    return 0.5 * (once @ table) + 2 * (k / d - 0.5) * (weighted @ table)


def _stories(rng, n, N):
    return rng.integers(1, 40, size=n), N


@exercise(
    cases=each(
        _stories,
        "4 7, 5 5, 9 4, 6 1",
        also=[
            (np.array([3, 8, 3, 8, 3]), 6),  # a sentence may be told again
            (np.array([5, 6], np.int32), 3),
        ],
    ),
    hints=[
        "told[::-1] has the newest sentence first. Its first N, [:N], are the latest "
        "N.",
        "Begin with np.zeros(N, int), and write the sentences over its beginning.",
    ],
    mistakes="""
        your oldest sentence comes first
            told[::-1][:N] -> told[-N:]
        of a story that is too long you keep the beginning: cut after turning it around
            told[::-1][:N] -> told[:N][::-1]
        you do not fill up with zeros
            = told[::-1][:N]
        the zeros come first, then the newest sentence: they belong at the end
            memories[: len(latest)] -> memories[N - len(latest) :]
    """,
    views=True,
)
def newest_first(told, N):
    """A story of n sentences as N memories, the newest first.

    told (n,), the numbers of the sentences in the order in which they are told, each at
    least 1. Of a long story the latest N are kept, a short one is filled up with 0
    -> (N,).
    """
    memories = np.zeros(N, int)
    latest = told[::-1][:N]
    memories[: len(latest)] = latest
    return memories
