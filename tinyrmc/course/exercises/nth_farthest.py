"""Chapter 13: the task "nth farthest", its inputs and its floors."""

from __future__ import annotations

import math

import numpy as np

from ... import equations
from . import memory
from .exercise import exercise
from .recorded import recorded


def _questions(rng):
    def case(k, D, N, n, scale=1.0, centre=0.0):
        labels = rng.permutation(N)[:k]
        x = centre + scale * rng.uniform(-1, 1, (k, D))
        return x, labels, n, int(labels[rng.integers(k)])

    # 4.2 and 5 away, or 6 and 5 along the axes.
    crooked = np.array([[0.0, 0.0], [3.0, 3.0], [0.0, 5.0]])
    # Distances that differ in the ninth digit, the farthest first.
    close = np.array([[0.0], [1 + 2e-9], [-1 - 1e-9], [1.0]])
    return [
        case(4, 4, 4, 1),
        case(5, 2, 5, 2),
        case(8, 16, 8, 7),  # the farthest
        case(6, 3, 6, 0),  # m itself
        case(5, 1, 8, 3),  # labels that no time step has
        (crooked, np.array([2, 0, 1]), 1, 2),
        case(7, 4, 7, 4, scale=1e-3, centre=100.0),  # far away, and close together
        (close, np.array([3, 1, 0, 2]), 1, 3),
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


@exercise(
    cases=_questions,
    hints=[
        "Where is the vector that m labels? labels == m is True there alone.",
        "The distance of each vector from that one is a row of k numbers. Which time "
        "step comes n-th when you sort them?",
        "np.argsort(distance)[n] is a time step. What stands in `labels` there?",
    ],
    mistakes={
        "you give the time step, not the label that came with it": (
            lambda x, labels, n, m: np.argsort(_distances(x, labels, m))[n]
        ),
        "you treat m as a time step, not as a label": _ranked_by(_from_step_m),
        "your order begins with the farthest": _ranked_by(
            lambda *case: -_distances(*case)
        ),
        "you leave m itself out of the order": _without_m,
        "you count n from 1": lambda x, labels, n, m: answer(x, labels, n - 1, m),
        "you give the distance, not the label of the vector that has it": (
            lambda x, labels, n, m: np.sort(_distances(x, labels, m))[n]
        ),
        "you compare norms, the distances from the origin, not those "
        "from m": _ranked_by(lambda x, labels, m: np.linalg.norm(x, axis=-1)),
        "the norm runs over the vectors, not over the coordinates of each": _ranked_by(
            lambda *case: np.linalg.norm(_from_m(*case), axis=0)
        ),
    },
)
def answer(x, labels, n, m):
    """The label of the vector that is n-th in Euclidean distance from vector m.

    m is the label of that vector, which is number 0 itself. x (k, D), labels (k,).
    """
    distance = np.linalg.norm(x - x[labels == m], axis=-1)  # (k,)
    return labels[np.argsort(distance)[n]]


def _sequences(rng):
    def case(k, D, N, n, at=-1):
        labels = rng.permutation(N)[:k]
        return rng.uniform(-1, 1, (k, D)), labels, n, int(labels[at]), N

    return [
        case(4, 4, 4, 2),
        case(4, 2, 4, 0),
        case(3, 1, 5, 2),
        case(8, 16, 8, 6),
        case(2, 3, 2, 1),
        case(5, 2, 6, 3, at=1),  # m is not the last label
    ]


def _asked_at_the_end(x, labels, n, m, N):
    inputs = encode(x, labels, n, m, N)
    inputs[:-1, -2 * N :] = 0
    return inputs


@exercise(
    cases=_sequences,
    hints=[
        "np.eye(N)[labels] holds the one-hot vectors of all labels, one in each row.",
        "The question is the same at every time step: np.tile(row, (k, 1)) repeats a "
        "row k times.",
        "np.concatenate([x, ..., ..., ...], axis=1), in the order x, label, n, m.",
    ],
    mistakes={
        "m stands before n": (lambda x, labels, n, m, N: encode(x, labels, m, n, N)),
        "your one-hot vectors are as long as the number of vectors, not of labels": (
            lambda x, labels, n, m, N: encode(x, labels, n, m, len(x))
        ),
        "the question comes with the last vector only": _asked_at_the_end,
    },
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
    mistakes={
        "you spread the guesses over all vectors, m among them": (
            lambda N: (1 / N + (N - 1) / N**2, 1 / N, (N - 1) / N * math.log(N))
        ),
        "you do not even know the self query": lambda N: (1 / N, 1 / N, math.log(N)),
        "you take the loss over the other questions alone": (
            lambda N: _floor(N, loss=math.log(N - 1))
        ),
        "in the loss you spread a guess over N labels, but m is not among them": (
            lambda N: _floor(N, loss=(N - 1) / N * math.log(N))
        ),
        "your loss is in bits, with the logarithm to base 2": (
            lambda N: _floor(N, loss=(N - 1) / N * math.log2(N - 1))
        ),
    },
)
def self_query_floor(N):
    """The worth of knowing the self query alone.

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
    mistakes={
        "you count the self queries as wrong; leave them out": (
            lambda answers, targets, is_self: ((answers == targets) & ~is_self).mean()
        ),
        "the self queries are still among them": (
            lambda answers, targets, is_self: (answers == targets).mean()
        ),
        "you look at the self queries only": (
            lambda answers, targets, is_self: (answers == targets)[is_self].mean()
        ),
        "you count the self queries as right": (
            lambda answers, targets, is_self: ((answers == targets) | is_self).mean()
        ),
    },
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
    mistakes={
        "a row may not attend to itself": lambda N, n: _columns_of_input(N, n),
        "no row may attend to the input": lambda N, n: _own(N, n),
        "you write True where attention is forbidden": (
            lambda N, n: ~cut_among_slots(N, n)
        ),
        "you swap rows and columns: the input may attend to everything": (
            lambda N, n: cut_among_slots(N, n).T
        ),
        "only slots ask; the rows of input ask too": (
            lambda N, n: cut_among_slots(N, n)[:N]
        ),
    },
)
def cut_among_slots(N, n):
    """A mask that lets every row attend to itself and to the input.

    -> (N + n, N + n), True where a row may attend to a column.
    """
    is_input = np.arange(N + n) >= N
    return np.eye(N + n, dtype=bool) | is_input


# --- The row that climbs --------------------------------------------------------------


def _heads(rng):
    def case(B, N, F, H, scale=1.0):
        M, x = scale * rng.normal(size=(B, N, F)), scale * rng.normal(size=(B, F))
        W = [rng.normal(size=(H, F, F // H)) / math.sqrt(F) for _ in range(3)]
        return M, x, *W, 1 + 0.3 * rng.normal(size=3 * F), rng.normal(size=3 * F)

    return [
        case(2, 3, 4, 2),
        case(2, 4, 4, 1),
        case(2, 2, 4, 2),  # as many examples as heads and slots
        case(1, 3, 6, 3, scale=30.0),
        case(3, 1, 8, 4),
    ]


def _projected(M, x, W_q, W_k, W_v):
    """Queries of all heads side by side, then keys, then values: (B, N + 1, 3 F)."""
    rows = equations.append_rows(np, M, x)
    return np.concatenate([rows @ W for kind in (W_q, W_k, W_v) for W in kind], axis=-1)


def _attended(qkv, M, H):
    """Equation 1 for H heads whose q, k and v stand side by side; the slots ask."""
    q, k, v = (np.split(kind, H, axis=-1) for kind in np.split(qkv, 3, axis=-1))
    heads = [
        equations.attention(np, q[head][..., : M.shape[-2], :], k[head], v[head])
        for head in range(H)
    ]
    return np.concatenate(heads, axis=-1)


def _with_norm(norm):
    """Equation 2 with norm(qkv, gain, offset) in place of the right one."""

    def answer(M, x, W_q, W_k, W_v, gain, offset):
        qkv = _projected(M, x, W_q, W_k, W_v)
        return _attended(norm(qkv, gain, offset, len(W_q)), M, len(W_q))

    return answer


def _norm(x, gain=1.0, offset=0.0):
    return equations.layer_norm(np, x, gain, offset)


def _in_parts(qkv, gain, offset, parts):
    normed = [_norm(part) for part in np.split(qkv, parts, axis=-1)]
    return gain * np.concatenate(normed, axis=-1) + offset


def _without_values(qkv, gain, offset, H):
    F = qkv.shape[-1] // 3
    normed = _norm(qkv[..., : 2 * F], gain[: 2 * F], offset[: 2 * F])
    return np.concatenate([normed, qkv[..., 2 * F :]], axis=-1)


def _over_rows(qkv, gain, offset, H):
    d = qkv - qkv.mean(axis=-2, keepdims=True)
    return gain * d / np.sqrt((d * d).mean(axis=-2, keepdims=True) + 1e-5) + offset


def _norm_of_rows_first(M, x, W_q, W_k, W_v, gain, offset):
    """The norm on [M; x], before the projections."""
    qkv = _projected(_norm(M), _norm(x), W_q, W_k, W_v)
    return _attended(gain * qkv + offset, M, len(W_q))


def _norm_of_the_result(M, x, W_q, W_k, W_v, gain, offset):
    attended = _attended(_projected(M, x, W_q, W_k, W_v), M, len(W_q))
    F = attended.shape[-1]
    return _norm(attended, gain[-F:], offset[-F:])


@recorded(
    cases=_heads,
    hints=[
        "First Z = [M; x]. Then Z @ W_q[h] for every head h, the same with W_k and "
        "W_v, and all of it side by side: xp.concatenate(list, axis=-1), (B, N + 1, "
        "3 F).",
        "One layer norm over each row of that, with gain and offset. Then cut it apart "
        "again: K = W_q.shape[-1], and number j of the 3 H parts is "
        "normed[..., j * K : (j + 1) * K].",
        "Queries are parts 0 to H - 1, of the slots alone: part[..., :N, :]. Keys are "
        "parts H to 2 H - 1, values the rest. Then equation 1 for each head.",
    ],
    mistakes={
        "there is no norm: this is equation 2": _with_norm(
            lambda qkv, gain, offset, H: qkv
        ),
        "queries, keys and values each have a norm of their own; one norm runs "
        "over all three together": _with_norm(
            lambda qkv, gain, offset, H: _in_parts(qkv, gain, offset, 3)
        ),
        "the norm runs over the rows, so that slots mix outside "
        "of attention": _with_norm(_over_rows),
        "only queries and keys are normalised, not the values": _with_norm(
            _without_values
        ),
        "you leave out gain and offset": _with_norm(
            lambda qkv, gain, offset, H: _norm(qkv)
        ),
        "the norm is on [M; x], before the projections": _norm_of_rows_first,
        "the norm is on what attention brings, not on queries, keys "
        "and values": _norm_of_the_result,
    },
)
def normed_attention(xp, M, x, W_q, W_k, W_v, gain, offset):
    """Equation 2, with one layer norm over the queries, keys and values of all heads.

    M (B, N, F), x (B, F), W_q, W_k, W_v (H, F, F / H), gain and offset (3 F,), in the
    order all queries, all keys, all values -> (B, N, F).
    """
    Z = equations.append_rows(xp, M, x)
    N = M.shape[-2]
    H, _, K = W_q.shape
    kinds = (W_q, W_k, W_v)
    qkv = xp.concatenate([Z @ W[h] for W in kinds for h in range(H)], axis=-1)
    normed = equations.layer_norm(xp, qkv, gain, offset)
    part = [normed[..., j * K : (j + 1) * K] for j in range(3 * H)]
    heads = [
        equations.attention(xp, part[h][..., :N, :], part[H + h], part[2 * H + h])
        for h in range(H)
    ]
    return xp.concatenate(heads, axis=-1)


def _normed_steps(rng):
    def weights(p, F):
        gain, offset = 1 + 0.3 * rng.normal(size=3 * F), rng.normal(size=3 * F)
        return p | {"qkv_gain": gain, "qkv_offset": offset}

    steps = memory.steps(rng)
    return [(x, m, h, weights(p, m.shape[-1])) for x, m, h, p in steps]


def _candidate(x, m, p):
    kinds = (p[name] for name in ("W_q", "W_k", "W_v"))
    attended = normed_attention(np, m, x, *kinds, p["qkv_gain"], p["qkv_offset"])
    return equations.g_psi(np, attended, p["mlp"], p["gain"], p["offset"])


@recorded(
    cases=_normed_steps,
    hints=[
        "Copy your step of chapter 10. One line of it changes: that of equation 2.",
        'normed_attention(xp, m, x, p["W_q"], p["W_k"], p["W_v"], p["qkv_gain"], '
        'p["qkv_offset"])',
    ],
    mistakes={
        "your step has no norm on queries, keys and values: it is that of chapter 10": (
            lambda x, m, h, p: memory.step(np, x, m, h, p)
        ),
        "your gates see a normalised input; the norm is for attention alone": (
            lambda x, m, h, p: memory.finish(_candidate(x, m, p), _norm(x), m, h, p)
        ),
        "you apply tanh to the candidate: the release does that, but here only one "
        "row of the table changes": (
            lambda x, m, h, p: memory.finish(np.tanh(_candidate(x, m, p)), x, m, h, p)
        ),
        "you return h and m in the wrong order": (
            lambda *case: normed_step(np, *case)[::-1]
        ),
    },
)
def normed_step(xp, x, m, h, p):
    """Equations 2 to 9, with a norm on queries, keys and values.

    As `step` of chapter 10; p also has qkv_gain and qkv_offset, (3 F,) each.
    """
    kinds = p["W_q"], p["W_k"], p["W_v"]
    attended = normed_attention(xp, m, x, *kinds, p["qkv_gain"], p["qkv_offset"])
    candidate = equations.g_psi(xp, attended, p["mlp"], p["gain"], p["offset"])
    f = equations.gate(xp, x, h, p["W_f"], p["U_f"], p["b_f"])
    i = equations.gate(xp, x, h, p["W_i"], p["U_i"], p["b_i"])
    o = equations.gate(xp, x, h, p["W_o"], p["U_o"], p["b_o"])
    m = equations.update_memory(xp, f, i, m, candidate, p["forget_bias"])
    return m, equations.output(xp, o, m)
