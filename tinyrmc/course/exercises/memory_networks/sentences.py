"""Chapter 19: where words stand in a sentence, and sentences in a story."""

from __future__ import annotations

import numpy as np

from ..exercise import exercise


def _sizes(rng):
    return [(4, 6), (6, 4), (5, 5), (1, 3), (3, 1), (1, 1), (2, 20), (11, 50)]


def _grid(J, d, first_word=1, first_unit=1):
    """j as a column and k as a row, counted from these."""
    j = np.arange(J)[:, None] + first_word
    return j, np.arange(d) + first_unit


def _formula(j, k, J, d):
    return (1 - j / J) - (k / d) * (1 - 2 * j / J)


def _with(make):
    """make(j, k, J, d), counted from 1, as an answer."""
    return lambda J, d: make(*_grid(J, d), J, d) + np.zeros((J, d))


def _counted_from(word, unit):
    return lambda J, d: _formula(*_grid(J, d, word, unit), J, d)


def _centred(j, k, J, d):
    return 1 + 4 * (k - (d + 1) / 2) * (j - (J + 1) / 2) / (d * J)


@exercise(
    cases=_sizes,
    hints=[
        "Make j a column, np.arange(1, J + 1)[:, None], and k a row, "
        "np.arange(1, d + 1). Broadcasting does the rest.",
        "Mind the brackets: from (1 - j / J) you subtract the product of (k / d) and "
        "(1 - 2 * j / J).",
    ],
    mistakes={
        "you count the words from 0; the paper counts from 1": _counted_from(0, 1),
        "you count the units from 0; the paper counts from 1": _counted_from(1, 0),
        "you count both words and units from 0; the paper counts from 1": _counted_from(
            0, 0
        ),
        "your matrix lies on its side: a row for each word, please": (
            lambda J, d: position_encoding(J, d).T
        ),
        "you add the second product; it is subtracted": _with(
            lambda j, k, J, d: (1 - j / J) + (k / d) * (1 - 2 * j / J)
        ),
        "the 2 in the last bracket is missing": _with(
            lambda j, k, J, d: (1 - j / J) - (k / d) * (1 - j / J)
        ),
        "the last bracket is missing: (1 - 2j/J) is multiplied as a whole": _with(
            lambda j, k, J, d: (1 - j / J) - k / d - 2 * j / J
        ),
        "J and d have changed places below the fractions": _with(
            lambda j, k, J, d: (1 - j / d) - (k / J) * (1 - 2 * j / d)
        ),
        "you divide without a remainder: // gives whole numbers": _with(
            lambda j, k, J, d: (1 - j // J) - (k // d) * (1 - 2 * j // J)
        ),
        "you write what the authors' program has, not what the paper prints": _with(
            _centred
        ),
    },
)
def position_encoding(J, d):
    """l_kj = (1 - j/J) - (k/d) (1 - 2j/J), for word j of J and unit k of d.

    Both are counted from 1 -> (J, d), row j for word j.
    """
    j, k = np.arange(1, J + 1)[:, None], np.arange(1, d + 1)
    return (1 - j / J) - (k / d) * (1 - 2 * j / J)


def _stories(rng):
    def case(n, N):
        return rng.integers(1, 40, size=n), N

    return [
        case(4, 7),
        case(5, 5),
        case(9, 4),
        case(1, 3),
        case(6, 1),
        case(1, 1),
        (np.array([3, 8, 3, 8, 3]), 6),  # a sentence may be told again
        (np.array([7, 2, 9]), 2),
        (np.arange(1, 61), 50),
        (np.array([5, 6], np.int32), 3),
    ]


def _filled(told, N):
    """`told`, then zeros, N in all; what is too much is cut off."""
    row = np.zeros(N, int)
    row[: len(told)] = told[:N]
    return row


def _zeros_before(told, N):
    newest = told[::-1][:N]
    return np.concatenate([np.zeros(N - len(newest), int), newest])


def _minus_one(told, N):
    newest = told[::-1][:N]
    return np.concatenate([newest, np.full(N - len(newest), -1)])


@exercise(
    cases=_stories,
    hints=[
        "told[::-1] has the newest sentence first. Its first N, [:N], are the latest "
        "N.",
        "Begin with np.zeros(N, int), and write the sentences over its beginning.",
    ],
    mistakes={
        "your oldest sentence comes first": lambda told, N: _filled(told[-N:], N),
        "your oldest sentence comes first, and of a long story you keep the "
        "beginning": (lambda told, N: _filled(told[:N], N)),
        "of a story that is too long you keep the beginning: cut after turning it "
        "around": (lambda told, N: _filled(told[:N][::-1], N)),
        "the row stands on its head: zeros come first, and the oldest sentence": (
            lambda told, N: newest_first(told, N)[::-1]
        ),
        "you give the story as it was told": lambda told, N: told,
        "you do not fill up with zeros": lambda told, N: told[::-1][:N],
        "you do not cut a long story": (
            lambda told, N: _filled(told[::-1], max(N, len(told)))
        ),
        "you fill up with -1; sentence 0 is the empty one": _minus_one,
        "you lose the newest sentence: told[-1] is the last one": (
            lambda told, N: _filled(told[:-1][::-1], N)
        ),
        "you keep one sentence too few of a long story: told[:-N:-1] has N - 1": (
            lambda told, N: _filled(told[:-N:-1], N)
        ),
        "the zeros come first, then the newest sentence: they belong at "
        "the end": _zeros_before,
    },
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
