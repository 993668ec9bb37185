"""Chapter 20: where hops look, and whether they need what they see there."""

from __future__ import annotations

import numpy as np

from ..attention import softmax
from ..exercise import each, exercise


def _looks(rng, B, K, N, facts, full=False):
    counts = np.full(B, N) if full else rng.integers(facts, N + 1, size=B)
    p = softmax(2 * rng.normal(size=(B, K, N)))
    return p, counts, [tuple(rng.permutation(n)[:facts].tolist()) for n in counts]


@exercise(
    cases=each(
        _looks,
        "20 3 5 2, 30 2 8 1, 6 6 6 3 1, 12 4 4 4 1",
        first=[
            # one sentence each, and the hop looks past it
            (np.array([[[0.2, 0.8]], [[0.9, 0.1]]]), np.array([1, 1]), [(0,), (0,)]),
            # the strongest is no fact, though the facts together weigh more
            (np.array([[[0.4, 0.3, 0.3]]]), np.array([3]), [(0, 1)]),
        ],
    ),
    hints=[
        "p.argmax(axis=-1) is (B, K): the strongest memory of each hop, counted from "
        "the newest. `supporting` counts from the oldest.",
        "Of n sentences, the one told as number t (from 0) is memory n - 1 - t.",
        "Go through the questions: np.isin(looked, facts) says for each hop whether "
        "it looks at a fact. Then take the mean over the questions.",
    ],
    mistakes="""
        you compare a memory's number with a sentence's: memories count from the newest,
        supporting facts from the oldest
            told = n - 1 - shares -> told = shares
        you are one off: of n sentences, number t is memory n - 1 - t
            told = n - 1 - -> told = n -
        you count from the last slot; a story may have fewer sentences than there are
        slots
            n - 1 - -> len(shares.T) - 1 -
        the strongest hop of each memory is not the strongest memory of each hop: the
        memories are the last axis
            axis=-1 -> axis=0
        you count the questions; their share is asked for
            np.mean(right -> 1.0 * np.sum(right
    """,
)
def hits(p, counts, supporting):
    """How often the strongest memory of each hop is a supporting fact.

    p (B, K, N), the shares of K hops in N memories, the newest first; counts (B,), how
    many sentences each story has, at most N; supporting: for each question a tuple with
    the numbers of its facts, counted from 0 in the order of telling -> (K,), shares of
    the B questions. The strongest of all N memories counts: where that is one past the
    story's end, it is a miss.
    """
    right = []
    for shares, n, facts in zip(p, counts, supporting, strict=True):
        told = n - 1 - shares.argmax(axis=-1)  # (K,)
        right.append(np.isin(told, facts))
    return np.mean(right, axis=0)


class _Copies:
    """answers(looks): what two copies say, which depends on every look."""

    def __init__(self, rng, hops, questions):
        self.needs = rng.normal(size=(2, hops, questions, 4))
        self.bias = rng.normal(size=(2, questions, 4))

    def __repr__(self):
        return f"(2 copies, {self.needs.shape[1]} hops)"

    def __call__(self, looks):
        if len(looks) != self.needs.shape[1]:
            raise ValueError(f"{len(looks)} looks for {self.needs.shape[1]} hops")
        used = [k for k, look in enumerate(looks) if look(1.0) == 1.0]
        return (self.bias + self.needs[:, used].sum(axis=1)).argmax(axis=-1)


def sees(u):
    return u


def blind(u):
    return 0.0 * u


def _networks(rng, hops, questions):
    answers = _Copies(rng, hops, questions)
    targets = answers([sees] * hops)[0].copy()
    targets[::5] += 1
    return answers, [sees] * hops, blind, targets % 4


@exercise(
    cases=each(_networks, "3 40, 1 10, 2 25, 5 30"),
    hints=[
        "A copy of the list, list(looks), with `blind` at place k: then answers(...) "
        "gives the words (R, B), and != targets the errors.",
        "The mean over the questions, axis 1: a number for each copy. Row 0 is the "
        "whole network.",
    ],
    mistakes="""
        a hop stays blind while you go on: take a new copy of looks for each
            without = list(looks) -> without = list(looks); without[:k] = [blind] * k
        you leave the blind hop out; it stays, and sees nothing
            without[k] = blind -> del without[k]
        you count the right answers
            != -> ==
        you take the mean over the copies, too
            np.array(errors) -> np.mean(errors, axis=1)
    """,
)
def take_away(answers, looks, blind, targets):
    """The errors of a trained network as it is, and with one hop after the other blind.

    answers(looks) -> (R, B), the words that R copies say with these K functions in the
    hops; blind: a function that does not look; targets (B,) -> (K + 1, R), shares of
    wrong answers, row 0 of the whole network, row k with hop k blind.
    """
    errors = [np.mean(answers(looks) != targets, axis=1)]
    for k in range(len(looks)):
        without = list(looks)
        without[k] = blind
        errors.append(np.mean(answers(without) != targets, axis=1))
    return np.array(errors)
