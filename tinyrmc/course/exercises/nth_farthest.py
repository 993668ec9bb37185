"""Chapter 10: the task "nth farthest", its inputs and its floors."""

from __future__ import annotations

import math

import numpy as np

from .exercise import Mistake, exercise


def _questions(rng):
    def case(k, D, N, n, scale=1.0, centre=0.0):
        labels = rng.permutation(N)[:k]
        x = centre + scale * rng.uniform(-1, 1, (k, D))
        return x, labels, n, int(labels[rng.integers(k)])

    # 4.2 and 5 away, or 6 and 5 along the axes.
    crooked = np.array([[0.0, 0.0], [3.0, 3.0], [0.0, 5.0]])
    return [
        case(4, 4, 4, 1),
        case(5, 2, 5, 2),
        case(8, 16, 8, 7),  # the farthest
        case(6, 3, 6, 0),  # m itself
        case(5, 1, 8, 3),  # labels that no time step has
        (crooked, np.array([2, 0, 1]), 1, 2),
        case(7, 4, 7, 4, scale=1e-3, centre=100.0),  # far away, and close together
    ]


def _from_m(x, labels, m):
    return x - x[labels == m]


def _distances(x, labels, m):
    return np.linalg.norm(_from_m(x, labels, m), axis=-1)


def _nth(distance, labels, n):
    return labels[np.argsort(distance)[n]]


def _ranked_by(distance):
    """The answer, with `distance(x, labels, m)` in place of the Euclidean one."""
    return lambda x, labels, n, m: _nth(distance(x, labels, m), labels, n)


def _without_m(x, labels, n, m):
    others = labels != m
    return _nth(_distances(x, labels, m)[others], labels[others], n)


def _from_step_m(x, labels, m):
    return np.linalg.norm(x - x[m], axis=-1)


def _from_the_step_at_label_m(x, labels, m):
    return np.linalg.norm(x - x[labels[m]], axis=-1)


@exercise(
    cases=_questions,
    hints=[
        "Where is the vector that m labels? labels == m is True there alone.",
        "The distance of each vector from that one is a row of k numbers. Which time "
        "step comes n-th when you sort them?",
        "np.argsort(distance)[n] is a time step. What stands in `labels` there?",
    ],
    mistakes=[
        Mistake(
            "you give the time step, not the label that came with it",
            lambda x, labels, n, m: np.argsort(_distances(x, labels, m))[n],
        ),
        Mistake(
            "you treat m as a time step, not as a label",
            _ranked_by(_from_step_m),
        ),
        Mistake(
            "you treat labels[m] as the time step of m: it is the label of step m",
            _ranked_by(_from_the_step_at_label_m),
        ),
        Mistake(
            "your order begins with the farthest",
            _ranked_by(lambda *case: -_distances(*case)),
        ),
        Mistake(
            "you leave m itself out of the order",
            _without_m,
        ),
        Mistake(
            "you count n from 1",
            lambda x, labels, n, m: answer(x, labels, n - 1, m),
        ),
        Mistake(
            "you give the distance, not the label of the vector that has it",
            lambda x, labels, n, m: np.sort(_distances(x, labels, m))[n],
        ),
        Mistake(
            "you compare norms, the distances from the origin, not those from m",
            _ranked_by(lambda x, labels, m: np.linalg.norm(x, axis=-1)),
        ),
        Mistake(
            "the norm runs over the vectors, not over the coordinates of each",
            _ranked_by(lambda *case: np.linalg.norm(_from_m(*case), axis=0)),
        ),
        Mistake(
            "you count distances along the axes, not straight",
            _ranked_by(lambda *case: abs(_from_m(*case)).sum(axis=-1)),
        ),
        Mistake(
            "you rank the vectors by their dot product with m, not by their distance "
            "from it",
            _ranked_by(lambda x, labels, m: x @ x[labels == m][0]),
        ),
        Mistake(
            "you use argsort twice: that is the rank of vector n, not the vector of "
            "rank n",
            _ranked_by(lambda *case: np.argsort(_distances(*case))),
        ),
    ],
)
def answer(x, labels, n, m):
    """The label of the vector that is n-th in Euclidean distance from vector m.

    m is the label of that vector, which is number 0 itself. x (k, D), labels (k,).
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


def _side_by_side(*columns):
    """These columns; one that is a single row is repeated at every time step."""
    k = len(columns[0])
    columns = [each if each.ndim == 2 else np.tile(each, (k, 1)) for each in columns]
    return np.concatenate(columns, axis=1)


def _label_first(x, labels, n, m, N):
    one_hot = np.eye(N)
    return _side_by_side(one_hot[labels], x, one_hot[n], one_hot[m])


def _m_before_n(x, labels, n, m, N):
    return encode(x, labels, m, n, N)


def _step_for_label(x, labels, n, m, N):
    return encode(x, np.arange(len(x)), n, m, N)


def _m_as_a_step(x, labels, n, m, N):
    return encode(x, labels, n, int(np.argmax(labels == m)), N)


def _as_long_as_the_vectors(x, labels, n, m, N):
    return encode(x, labels, n, m, len(x))


def _asked_at_the_end(x, labels, n, m, N):
    inputs = encode(x, labels, n, m, N)
    inputs[:-1, -2 * N :] = 0
    return inputs


def _plain_numbers(x, labels, n, m, N):
    return _side_by_side(x, labels[:, None], np.array([n]), np.array([m]))


@exercise(
    cases=_sequences,
    hints=[
        "np.eye(N)[labels] holds the one-hot vectors of all labels, one in each row.",
        "The question is the same at every time step: np.tile(row, (k, 1)) repeats a "
        "row k times.",
        "np.concatenate([x, ..., ..., ...], axis=1), in the order x, label, n, m.",
    ],
    mistakes=[
        Mistake(
            "the label stands before the vector",
            _label_first,
        ),
        Mistake(
            "m stands before n",
            _m_before_n,
        ),
        Mistake(
            "you write the time step in the label's place",
            _step_for_label,
        ),
        Mistake(
            "you write m as the time step of that vector, not as its label",
            _m_as_a_step,
        ),
        Mistake(
            "your one-hot vectors are as long as the number of vectors, not of labels",
            _as_long_as_the_vectors,
        ),
        Mistake(
            "the question comes with the last vector only",
            _asked_at_the_end,
        ),
        Mistake(
            "you write labels, n and m as numbers, not as one-hot vectors",
            _plain_numbers,
        ),
    ],
)
def encode(x, labels, n, m, N):
    """The inputs (x_t; l_t; n; m) of every time step, the last three one-hot.

    x (k, D), labels (k,), one-hot vectors of length N -> (k, D + 3 N).
    """
    one_hot = np.eye(N)
    question = np.concatenate([one_hot[n], one_hot[m]])
    questions = np.tile(question, (len(x), 1))
    return np.concatenate([x, one_hot[labels], questions], axis=1)


def _floor(N, *, accuracy=None, others=None, loss=None):
    """The solution, with some of its three numbers replaced."""
    right = self_query_floor(N)
    replaced = (accuracy, others, loss)
    return tuple(a if b is None else b for a, b in zip(right, replaced, strict=True))


def _guess_among_all(N):
    return 1 / N + (N - 1) / N**2, 1 / N, (N - 1) / N * math.log(N)


@exercise(
    cases=lambda rng: [(4,), (8,), (3,), (2,), (1000,)],
    hints=[
        "With N vectors, one question in N asks for m itself. Of the others the answer "
        "is one of the N - 1 other vectors, each as often.",
        "All questions together: 1/N of them always right, (N - 1)/N of them right "
        "once in N - 1 times.",
        "The cross-entropy of a question is -log of the probability given to the right "
        "answer: 0 for the self query, log(N - 1) otherwise.",
    ],
    mistakes=[
        Mistake(
            "you spread the guesses over all vectors, m among them",
            _guess_among_all,
        ),
        Mistake(
            "you do not even know the self query",
            lambda N: (1 / N, 1 / N, math.log(N)),
        ),
        Mistake(
            "you take the loss over the other questions alone",
            lambda N: _floor(N, loss=math.log(N - 1)),
        ),
        Mistake(
            "your accuracies are in percent: 0.25, not 25",
            lambda N: _floor(N, accuracy=200 / N, others=100 / (N - 1)),
        ),
        Mistake(
            "in the loss you spread a guess over N labels, but m is not among them",
            lambda N: _floor(N, loss=(N - 1) / N * math.log(N)),
        ),
        Mistake(
            "the sign of your loss is wrong: a logarithm of a probability is negative",
            lambda N: _floor(N, loss=-(N - 1) / N * math.log(N - 1)),
        ),
        Mistake(
            "your loss is in bits, with the logarithm to base 2",
            lambda N: _floor(N, loss=(N - 1) / N * math.log2(N - 1)),
        ),
    ],
)
def self_query_floor(N):
    """What knowing the self query alone is worth.

    -> (accuracy, accuracy without self queries, mean cross-entropy in nats).
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
    mistakes=[
        Mistake(
            "you count the self queries as wrong; leave them out",
            lambda answers, targets, is_self: ((answers == targets) & ~is_self).mean(),
        ),
        Mistake(
            "the self queries are still among them",
            lambda answers, targets, is_self: (answers == targets).mean(),
        ),
        Mistake(
            "you look at the self queries only",
            lambda answers, targets, is_self: (answers == targets)[is_self].mean(),
        ),
        Mistake(
            "you give the share of wrong answers, not of right ones",
            lambda answers, targets, is_self: (answers != targets)[~is_self].mean(),
        ),
        Mistake(
            "you count the self queries as right",
            lambda answers, targets, is_self: ((answers == targets) | is_self).mean(),
        ),
    ],
)
def accuracy_without_self(answers, targets, is_self):
    """The fraction of right answers to the questions whose answer is not m itself.

    answers, targets (B,), is_self (B,) booleans -> a number.
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
    mistakes=[
        Mistake(
            "a row may not attend to itself",
            lambda N, n: _columns_of_input(N, n),
        ),
        Mistake(
            "no row may attend to the input",
            lambda N, n: _own(N, n),
        ),
        Mistake(
            "you write True where attention is forbidden",
            lambda N, n: ~cut_among_slots(N, n),
        ),
        Mistake(
            "you swap rows and columns: the input may attend to everything",
            lambda N, n: cut_among_slots(N, n).T,
        ),
        Mistake(
            "slots may hear of each other, but not of the input",
            lambda N, n: _own(N, n) | ~_columns_of_input(N, n),
        ),
        Mistake(
            "only slots ask; the rows of input ask too",
            lambda N, n: cut_among_slots(N, n)[:N],
        ),
        Mistake(
            "you put the rows of input before the slots",
            lambda N, n: _own(N, n) | _columns_of_input(N, n)[:, ::-1],
        ),
    ],
)
def cut_among_slots(N, n):
    """A mask that lets every row attend to itself and to the input.

    -> (N + n, N + n), True where a row may attend to a column.
    """
    is_input = np.arange(N + n) >= N
    return np.eye(N + n, dtype=bool) | is_input
