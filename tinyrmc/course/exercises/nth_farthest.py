"""Chapter 9: the task "nth farthest", its inputs and its floors."""

from __future__ import annotations

import math

import numpy as np

from .exercise import exercise


def _questions(rng):
    def case(k, D, N, n, scale=1.0, centre=0.0):
        labels = rng.permutation(N)[:k]
        return (
            centre + scale * rng.uniform(-1, 1, (k, D)),
            labels,
            n,
            int(labels[rng.integers(k)]),
        )

    return [
        case(4, 4, 4, 1),
        case(5, 2, 5, 2),
        case(8, 16, 8, 7),  # the farthest
        case(6, 3, 6, 0),  # m itself
        case(5, 1, 8, 3),  # labels that no time step has
        (
            np.array([[0.0, 0.0], [3.0, 3.0], [0.0, 5.0]]),
            np.array([2, 0, 1]),
            1,
            2,
        ),  # 4.2 and 5 away, or 6 and 5 along the axes
        case(
            7, 4, 7, 4, scale=1e-3, centre=100.0
        ),  # all far from the origin, and close together
    ]


def _distances(x, labels, m):
    return np.linalg.norm(x - x[labels == m], axis=-1)


def _nth(distance, labels, n):
    return labels[np.argsort(distance)[n]]


def _without_m(x, labels, n, m):
    others = labels != m
    return _nth(_distances(x, labels, m)[others], labels[others], n)


@exercise(
    cases=_questions,
    hints=[
        "Where is the vector that m labels? labels == m is True there alone.",
        "The distance of each vector from that one is a row of k numbers. Which time "
        "step comes n-th when they are sorted?",
        "np.argsort(distance)[n] is a time step. What stands in `labels` there?",
    ],
    mistakes={
        "the time step is given, not the label that came with it": lambda x, labels, n, m: (
            np.argsort(_distances(x, labels, m))[n]
        ),
        "m is taken for a time step, not for a label": lambda x, labels, n, m: _nth(
            np.linalg.norm(x - x[m], axis=-1), labels, n
        ),
        "labels[m] is taken for the time step of m: it is the label of step m": lambda x, labels, n, m: (
            _nth(np.linalg.norm(x - x[labels[m]], axis=-1), labels, n)
        ),
        "the order begins with the farthest": lambda x, labels, n, m: _nth(
            -_distances(x, labels, m), labels, n
        ),
        "m itself is left out of the order": _without_m,
        "n is taken to count from 1": lambda x, labels, n, m: _nth(
            _distances(x, labels, m), labels, n - 1
        ),
        "the distance is given, not the label of the vector that has it": lambda x, labels, n, m: (
            np.sort(_distances(x, labels, m))[n]
        ),
        "norms are compared, the distances from the origin, not those from m": lambda x, labels, n, m: (
            _nth(np.linalg.norm(x, axis=-1), labels, n)
        ),
        "the norm runs over the vectors, not over the coordinates of each": lambda x, labels, n, m: (
            _nth(np.linalg.norm(x - x[labels == m], axis=0), labels, n)
        ),
        "distances are counted along the axes, not straight": lambda x, labels, n, m: (
            _nth(abs(x - x[labels == m]).sum(axis=-1), labels, n)
        ),
        "the vectors are ranked by their dot product with m, not by their distance "
        "from it": lambda x, labels, n, m: _nth(x @ x[labels == m][0], labels, n),
        "argsort is done twice: that is the rank of vector n, not the vector of rank "
        "n": lambda x, labels, n, m: _nth(
            np.argsort(_distances(x, labels, m)), labels, n
        ),
    },
)
def answer(x, labels, n, m):
    """The label of the vector that is number n in Euclidean distance from the one
    labelled m, itself number 0. x (k, D), labels (k,).
    """
    distance = np.linalg.norm(x - x[labels == m], axis=-1)  # (k,)
    return labels[np.argsort(distance)[n]]


def _sequences(rng):
    def case(k, D, N, n):
        labels = rng.permutation(N)[:k]
        return rng.uniform(-1, 1, (k, D)), labels, n, int(labels[-1]), N

    return [
        case(4, 4, 4, 2),
        case(4, 2, 4, 0),
        case(3, 1, 5, 2),
        case(8, 16, 8, 6),
        case(2, 3, 2, 1),
    ]


def _rows(x, label, n, m, last_only=False):
    question = np.tile(np.concatenate([n, m]), (len(x), 1))
    if last_only:
        question[:-1] = 0
    return np.concatenate([x, label, question], axis=1)


@exercise(
    cases=_sequences,
    hints=[
        "np.eye(N)[labels] is the one-hot vectors of all labels, one in each row.",
        "The question is the same at every time step: np.tile(row, (k, 1)) repeats a "
        "row k times.",
        "np.concatenate([x, ..., ..., ...], axis=1), in the order x, label, n, m.",
    ],
    mistakes={
        "the label stands before the vector": lambda x, labels, n, m, N: np.concatenate(
            [
                np.eye(N)[labels],
                _rows(x, np.empty((len(x), 0)), np.eye(N)[n], np.eye(N)[m]),
            ],
            axis=1,
        ),
        "m stands before n": lambda x, labels, n, m, N: _rows(
            x, np.eye(N)[labels], np.eye(N)[m], np.eye(N)[n]
        ),
        "the time step is written in the label's place": lambda x, labels, n, m, N: (
            _rows(x, np.eye(N)[np.arange(len(x))], np.eye(N)[n], np.eye(N)[m])
        ),
        "m is written as the time step of that vector, not as its label": lambda x, labels, n, m, N: (
            _rows(
                x,
                np.eye(N)[labels],
                np.eye(N)[n],
                np.eye(N)[int(np.argmax(labels == m))],
            )
        ),
        "the one-hot vectors are as long as there are vectors, not as there are "
        "labels": lambda x, labels, n, m, N: _rows(
            x, np.eye(len(x))[labels], np.eye(len(x))[n], np.eye(len(x))[m]
        ),
        "the question comes with the last vector only": lambda x, labels, n, m, N: (
            _rows(x, np.eye(N)[labels], np.eye(N)[n], np.eye(N)[m], last_only=True)
        ),
        "labels, n and m are written as numbers, not as one-hot vectors": lambda x, labels, n, m, N: (
            _rows(x, np.asarray(labels, float)[:, None], np.array([n]), np.array([m]))
        ),
    },
)
def encode(x, labels, n, m, N):
    """The inputs (x_t; l_t; n; m) of every time step, the last three one-hot of length
    N. x (k, D), labels (k,) -> (k, D + 3 N).
    """
    one_hot = np.eye(N)
    question = np.tile(np.concatenate([one_hot[n], one_hot[m]]), (len(x), 1))
    return np.concatenate([x, one_hot[labels], question], axis=1)


@exercise(
    cases=lambda rng: [(4,), (8,), (3,), (2,), (1000,)],
    hints=[
        "With N vectors, one question in N asks for m itself. Of the others the "
        "answer is one of the N - 1 other vectors, each as often.",
        "All questions together: 1/N of them always right, (N - 1)/N of them right "
        "once in N - 1 times.",
        "The cross-entropy of a question is -log of the probability given to the "
        "right answer: 0 for the self query, log(N - 1) otherwise.",
    ],
    mistakes={
        "the guesses are spread over all vectors, m among them": lambda N: (
            1 / N + (N - 1) / N**2,
            1 / N,
            (N - 1) / N * math.log(N),
        ),
        "the self query is not known either": lambda N: (1 / N, 1 / N, math.log(N)),
        "the loss is taken over the other questions alone": lambda N: (
            2 / N,
            1 / (N - 1),
            math.log(N - 1),
        ),
        "the accuracies are in percent: 0.25, not 25": lambda N: (
            200 / N,
            100 / (N - 1),
            (N - 1) / N * math.log(N - 1),
        ),
        "in the loss a guess is spread over N labels, but m is not among them": lambda N: (
            2 / N,
            1 / (N - 1),
            (N - 1) / N * math.log(N),
        ),
        "the sign of the loss is wrong: a logarithm of a probability is negative": lambda N: (
            2 / N,
            1 / (N - 1),
            -(N - 1) / N * math.log(N - 1),
        ),
        "the loss is in bits, with the logarithm to base 2": lambda N: (
            2 / N,
            1 / (N - 1),
            (N - 1) / N * math.log2(N - 1),
        ),
    },
)
def self_query_floor(N):
    """What knowing the self query alone is worth: (accuracy, accuracy without self
    queries, mean cross-entropy in nats).
    """
    return 2 / N, 1 / (N - 1), (N - 1) / N * math.log(N - 1)


def _answers(rng):
    def case(count, wrong, share):
        targets = rng.integers(8, size=count)
        answers = np.where(rng.random(count) < wrong, (targets + 1) % 8, targets)
        return answers, targets, rng.random(count) < share

    few = np.arange(6), np.array([0, 1, 2, 4, 5, 3]), np.arange(6) < 4
    two = np.array([3, 1]), np.array([3, 2]), np.array([False, True])
    return [case(100, 0.5, 0.25), case(40, 0.2, 0.5), case(60, 0.7, 0.9), few, two]


@exercise(
    cases=_answers,
    hints=[
        "Which answers are right is an array of booleans; its mean is an accuracy.",
        "right[~is_self]: those of the other questions.",
    ],
    mistakes={
        "the self queries count as wrong: they are to be left out": lambda answers, targets, is_self: (
            ((answers == targets) & ~is_self).mean()
        ),
        "the self queries are still among them": lambda answers, targets, is_self: (
            answers == targets
        ).mean(),
        "only the self queries are looked at": lambda answers, targets, is_self: (
            answers == targets
        )[is_self].mean(),
        "it is the share of wrong answers, not of right ones": lambda answers, targets, is_self: (
            (answers != targets)[~is_self].mean()
        ),
        "the self queries are counted as right": lambda answers, targets, is_self: (
            (answers == targets) | is_self
        ).mean(),
    },
)
def accuracy_without_self(answers, targets, is_self):
    """Which fraction of the answers is right, of the questions whose answer is not m
    itself. All (B,), is_self booleans -> a number.
    """
    return (answers == targets)[~is_self].mean()


def _own(N, n):
    return np.eye(N + n, dtype=bool)


def _columns_of_input(N, n):
    return np.tile(np.arange(N + n) >= N, (N + n, 1))


@exercise(
    cases=lambda rng: [(4, 1), (3, 3), (1, 1), (1, 2), (8, 5)],
    hints=[
        "Begin with the rows of input: which columns are theirs? They are True in "
        "every row.",
        "The diagonal is True too: np.eye(N + n, dtype=bool).",
        "Where either holds, attention is allowed: | joins two arrays of bool.",
    ],
    mistakes={
        "a row may not attend to itself": lambda N, n: _columns_of_input(N, n),
        "nobody may attend to the input": lambda N, n: _own(N, n),
        "True stands where attention is forbidden": lambda N, n: (
            ~(_own(N, n) | _columns_of_input(N, n))
        ),
        "rows and columns are swapped: the input may attend to everything": lambda N, n: (
            _own(N, n) | _columns_of_input(N, n).T
        ),
        "slots may hear of each other, but not of the input": lambda N, n: (
            _own(N, n) | ~_columns_of_input(N, n)
        ),
        "only slots ask; the rows of input ask too": lambda N, n: (
            _own(N, n) | _columns_of_input(N, n)
        )[:N],
        "the rows of input are taken to stand before the slots": lambda N, n: (
            _own(N, n) | _columns_of_input(N, n)[:, ::-1]
        ),
    },
)
def cut_among_slots(N, n):
    """A mask that lets every row attend to itself and to the input: (N + n, N + n),
    True where a row may attend to a column.
    """
    is_input = np.arange(N + n) >= N
    return np.eye(N + n, dtype=bool) | is_input
