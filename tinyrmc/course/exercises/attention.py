"""Chapter 6: attention, equation 1."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from .derived import by_complex_step, log_shares
from .exercise import exercise, normal


def softmax_that_overflows(x):
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


def _over_all(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def _over_columns(x):
    e = np.exp(x - x.max(axis=0, keepdims=True))
    return e / e.sum(axis=0, keepdims=True)


def _one_maximum(x):
    e = np.exp(x - x.max())
    return e / e.sum(axis=-1, keepdims=True)


def _sums_without_an_axis(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1)


def _nothing_keeps_its_axis(x):
    e = np.exp(x - x.max(axis=-1))
    return e / e.sum(axis=-1)


@exercise(
    cases=lambda rng: [
        normal(rng, 5),
        normal(rng, (3, 4)),
        normal(rng, (2, 3, 3)),  # square: nothing but the axis tells rows from columns
        (1e3 * rng.normal(size=(2, 6)),),
        (np.array([[0.0, -np.inf, 0.0]]),),
        (np.array([[1.0, 2.0], [-2e3, -2e3]]),),  # rows that are far apart
    ],
    hints=[
        "Exponentials first, then divide each row by its sum: what must `axis` and "
        "`keepdims` be?",
        "exp(1000) is infinite. exp(x - c) / sum exp(x - c) is the same for every c: "
        "which c makes the largest exponent 0?",
        "e = np.exp(x - x.max(axis=-1, keepdims=True)), and then?",
    ],
    mistakes={
        "you do not subtract the largest entry before the exponential: it "
        "overflows": softmax_that_overflows,
        "you make the whole array sum to 1, not each row": _over_all,
        "you make the whole array sum to 1, not each row, and large numbers overflow": (
            lambda x: np.exp(x) / np.exp(x).sum()
        ),
        "you sum over the first axis, not over the last": _over_columns,
        "you subtract one maximum from all rows: a row far below it becomes 0 "
        "/ 0": _one_maximum,
        "the sums lose their axis, so that they do not divide rows: keepdims=True "
        "keeps it": _sums_without_an_axis,
        "the sums lose their axis, which keepdims=True keeps, and large numbers "
        "overflow": (lambda x: np.exp(x) / np.exp(x).sum(axis=-1)),
        "maxima and sums lose their axis, so that they do not fit the rows: "
        "keepdims=True keeps it": _nothing_keeps_its_axis,
        "you do not divide the exponentials by their sum": (
            lambda x: np.exp(x - x.max(axis=-1, keepdims=True))
        ),
    },
    leading="x",
    anysize="x",
    precise=True,
    tolerance=1e-11,
)
def softmax(x):
    """exp(x_j) / sum_k exp(x_k) over the last axis: x (..., n) -> (..., n).

    For numbers of any size, -inf among them.
    """
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _scores(Q, K):
    return Q @ np.swapaxes(K, -1, -2)  # (..., N, R)


def _scaled(Q, K):
    return _scores(Q, K) / math.sqrt(Q.shape[-1])


def _over_queries(Q, K):
    columns = np.swapaxes(_scaled(Q, K), -1, -2)
    return np.swapaxes(softmax(columns), -1, -2)


@exercise(
    cases=lambda rng: [
        normal(rng, (3, 4), (5, 4)),
        normal(rng, (4, 4), (4, 4)),  # square: a forgotten transpose fits
        normal(rng, (2, 3, 8), (2, 6, 8)),
        normal(rng, (1, 16), (2, 16)),
        (100 * rng.normal(size=(3, 5)), 100 * rng.normal(size=(3, 5))),
    ],
    hints=[
        "Each entry of Q K^T is the dot product of a query with a key. Leading axes "
        "are examples: swap the last two of K only.",
        "What is d_k? It is an axis of both Q and K.",
        "softmax(Q @ np.swapaxes(K, -1, -2) / math.sqrt(d_k)): `ex.softmax` is there, "
        "if yours is not.",
    ],
    mistakes={
        "you do not divide the scores by the square root of d_k": (
            lambda Q, K: softmax(_scores(Q, K))
        ),
        "you divide the scores by d_k, not by its square root": (
            lambda Q, K: softmax(_scores(Q, K) / Q.shape[-1])
        ),
        "you divide the scores by the square root of the number of keys": (
            lambda Q, K: softmax(_scores(Q, K) / math.sqrt(K.shape[-2]))
        ),
        "your softmax runs over the queries, not over the keys": _over_queries,
        "queries and keys have changed places": (
            lambda Q, K: softmax(_scores(K, Q) / math.sqrt(Q.shape[-1]))
        ),
        "you do not transpose the keys": (
            lambda Q, K: softmax(Q @ K / math.sqrt(Q.shape[-1]))
        ),
        "K.T turns the axis of the examples around as well; swap only the last two": (
            lambda Q, K: softmax(Q @ K.T / math.sqrt(Q.shape[-1]))
        ),
        "you do not subtract the largest score of each row before the exponential: "
        "it overflows": (lambda Q, K: softmax_that_overflows(_scaled(Q, K))),
    },
    leading="Q K",
    anysize="Q",
    precise=True,
    tolerance=5e-11,
)
def attention_weights(Q, K):
    """How much each query looks at each key: softmax(Q K^T / sqrt(d_k)).

    Q (..., N, d_k), K (..., R, d_k) -> (..., N, R).
    """
    d_k = Q.shape[-1]
    return softmax(Q @ np.swapaxes(K, -1, -2) / math.sqrt(d_k))


@exercise(
    cases=lambda rng: [
        normal(rng, (3, 4), (5, 4), (5, 2)),
        normal(rng, (4, 4), (4, 4), (4, 4)),
        normal(rng, (2, 3, 8), (2, 6, 8), (2, 6, 8)),
        (1e3 * rng.normal(size=(3, 3)), *normal(rng, (3, 3), (3, 3))),
    ],
    hints=[
        "Row i of the result is a mean of the rows of V, weighted by row i of the "
        "weights.",
        "A matrix product does exactly that.",
    ],
    mistakes={
        "you transpose the weights before they meet V": (
            lambda Q, K, V: np.swapaxes(attention_weights(Q, K), -1, -2) @ V
        ),
        "you do not divide the scores by the square root of d_k": (
            lambda Q, K, V: softmax(_scores(Q, K)) @ V
        ),
        "you leave out the softmax": lambda Q, K, V: _scaled(Q, K) @ V,
        "you do not subtract the largest score of each row before the exponential: "
        "it overflows": (lambda Q, K, V: softmax_that_overflows(_scaled(Q, K)) @ V),
        "you average the keys, not the values": (
            lambda Q, K, V: attention_weights(Q, K) @ K
        ),
        "you take the width of the values as d_k; it is the width of the keys": (
            lambda Q, K, V: softmax(_scores(Q, K) / math.sqrt(V.shape[-1])) @ V
        ),
        "K.T turns the axis of the examples around as well; swap only the last two": (
            lambda Q, K, V: softmax(Q @ K.T / math.sqrt(Q.shape[-1])) @ V
        ),
    },
    leading="Q K V",
    anysize="Q",
)
def attention(Q, K, V):
    """Equation 1: A(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V.

    Q (..., N, d_k), K (..., R, d_k), V (..., R, d_v) -> (..., N, d_v).
    """
    return attention_weights(Q, K) @ V


def _attended(Q, K, V):
    """Equation 1 for complex numbers, too: the complex step goes through it."""
    scores = Q @ np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1])
    return np.exp(log_shares(scores)) @ V


def _attention_gradients(g, Q, K, V, *, root=None, softmax_vjp=None):
    """The solution and, by its arguments, ways to get it wrong."""
    root = math.sqrt(Q.shape[-1]) if root is None else root
    A = attention_weights(Q, K)
    by_A = g @ np.swapaxes(V, -1, -2)
    softmax_vjp = softmax_vjp or _through_softmax
    by_scores = softmax_vjp(by_A, A) / root
    return (
        by_scores @ K,
        np.swapaxes(by_scores, -1, -2) @ Q,
        np.swapaxes(A, -1, -2) @ g,
    )


def _through_softmax(g, A):
    return A * (g - (g * A).sum(axis=-1, keepdims=True))


def _values_untransposed(g, Q, K, V):
    by_Q, by_K, _ = _attention_gradients(g, Q, K, V)
    return by_Q, by_K, attention_weights(Q, K) @ g


def _keys_untransposed(g, Q, K, V):
    by_Q, _, by_V = _attention_gradients(g, Q, K, V)
    A = attention_weights(Q, K)
    by_scores = _through_softmax(g @ np.swapaxes(V, -1, -2), A)
    return by_Q, by_scores @ Q / math.sqrt(Q.shape[-1]), by_V


def _attention_cases(rng):
    def case(*leading, N, R, d_k, d_v, sharp=1.0):
        shapes = ((N, d_v), (N, d_k), (R, d_k), (R, d_v))
        g, Q, K, V = normal(rng, *[(*leading, *shape) for shape in shapes])
        return g, sharp * Q, K, V

    return [
        case(N=2, R=3, d_k=2, d_v=4),
        case(N=4, R=4, d_k=4, d_v=4),  # square: a forgotten transpose fits
        case(2, N=3, R=3, d_k=2, d_v=2),
        case(N=3, R=1, d_k=2, d_v=3),  # one key: its share is always 1
        case(N=2, R=3, d_k=3, d_v=2, sharp=300.0),  # all but certain
    ]


@exercise(
    cases=_attention_cases,
    hints=[
        "Name what forward makes on its way: the shares A (softmax of the scores), and "
        "the result A V. Then go back: result, shares, scores, queries and keys.",
        "The result is a product of A and V: V gets A^T g, and A gets g V^T. The "
        "scores get what the softmax's vjp makes of A's gradient and A.",
        "The scores are Q K^T / sqrt(d_k): Q gets (their gradient) K / sqrt(d_k), and "
        "K gets (their gradient)^T Q / sqrt(d_k).",
    ],
    mistakes={
        "you forget the root: the scores were divided by it, so their gradient is, "
        "too": partial(_attention_gradients, root=1.0),
        "you leave out the softmax on the way back": partial(
            _attention_gradients, softmax_vjp=lambda g, A: g
        ),
        "you multiply by the shares, and leave out what a score takes from the "
        "other shares": partial(_attention_gradients, softmax_vjp=lambda g, A: g * A),
        "you treat every share as if it stood alone, like a sigmoid": partial(
            _attention_gradients, softmax_vjp=lambda g, A: g * A * (1 - A)
        ),
        "the gradient of V lacks a transpose: a value gets from all who looked at "
        "it, A^T g": _values_untransposed,
        "the gradient of K lacks a transpose: a key gets from "
        "all queries": _keys_untransposed,
        "the gradients of Q and K have changed places": (
            lambda *case: tuple(_attention_gradients(*case)[k] for k in (1, 0, 2))
        ),
        "you do not pass g on: these are the derivatives of the sum of all entries": (
            lambda g, *case: _attention_gradients(np.ones_like(g), *case)
        ),
    },
    leading="g Q K V",
    anysize="g",
    tolerance=1e-11,  # central differences are right to 1e-10
    exact=by_complex_step(_attended, "Q K V"),
)
def attention_vjp(g, Q, K, V):
    """The gradients of Q, K and V, given g, the gradient of attention(Q, K, V).

    g (..., N, d_v), Q (..., N, d_k), K (..., R, d_k), V (..., R, d_v)
    -> (like Q, like K, like V).
    """
    A = attention_weights(Q, K)
    by_V = np.swapaxes(A, -1, -2) @ g
    by_A = g @ np.swapaxes(V, -1, -2)
    by_scores = A * (by_A - (by_A * A).sum(axis=-1, keepdims=True))
    by_scores = by_scores / math.sqrt(Q.shape[-1])
    return by_scores @ K, np.swapaxes(by_scores, -1, -2) @ Q, by_V


def _memories(rng):
    def case(N, F, H, d_k, d_v, scale=1.0):
        M = scale * rng.normal(size=(N, F))
        return M, *normal(rng, (H, F, d_k), (H, F, d_k), (H, F, d_v))

    return [
        case(3, 4, 2, 2, 2),
        case(5, 6, 3, 4, 2),
        case(4, 4, 1, 4, 4),
        case(2, 8, 4, 2, 2, scale=30.0),
    ]


def _every_head(M, W_q, W_k, W_v):
    return [attention(M @ W_q[h], M @ W_k[h], M @ W_v[h]) for h in range(len(W_q))]


def _side_by_side(M, W_q, W_k, W_v):
    return np.concatenate(_every_head(M, W_q, W_k, W_v), axis=-1)


def _below_each_other(heads):
    return np.concatenate(heads, axis=-2)


def _all_like_the_first(heads):
    return np.concatenate(heads[:1] * len(heads), axis=-1)


def _reshaped(heads):
    stacked = np.stack(heads, axis=-3)  # (..., H, N, d_v)
    return stacked.reshape(*stacked.shape[:-3], stacked.shape[-2], -1)


def joined_wrongly(every_head):
    """Mistakes in putting the results of heads together.

    `every_head` gives a list of them, each (..., N, d_v).
    """

    def joined(join):
        return lambda *case: join(every_head(*case))

    return {
        "you put the heads' results below each other, not side by side": joined(
            _below_each_other
        ),
        "you add up the heads' results": joined(sum),
        "all heads use the projections of the first": joined(_all_like_the_first),
        "you reshape the axis of the heads away where it stands, before the slots: "
        "move it after them first": joined(_reshaped),
    }


def _by_the_width_of_a_slot(M, W_q, W_k, W_v):
    F, d_k = W_q.shape[1:]
    return _side_by_side(M, W_q * math.sqrt(d_k / F), W_k, W_v)


@exercise(
    cases=_memories,
    hints=[
        "Each head has projections of its own, W_q[h], W_k[h], W_v[h], and does "
        "equation 1 for itself.",
        "[M~1 : M~2] is column-wise: the heads' results lie side by side, so that the "
        "rows remain the slots.",
        "np.concatenate([...], axis=-1)",
    ],
    mistakes={
        **joined_wrongly(_every_head),
        "you make queries with W_k and keys with W_q": (
            lambda M, W_q, W_k, W_v: _side_by_side(M, W_k, W_q, W_v)
        ),
        "you divide the scores by the square root of F, the width of a slot, not "
        "of d_k": _by_the_width_of_a_slot,
    },
)
def multi_head(M, W_q, W_k, W_v):
    """The slots of M look at each other with H heads.

    M (N, F), W_q and W_k (H, F, d_k), W_v (H, F, d_v) -> (N, H * d_v), the heads'
    results side by side.
    """
    heads = [
        attention(M @ W_q[h], M @ W_k[h], M @ W_v[h])  # (N, d_v)
        for h in range(len(W_q))
    ]
    return np.concatenate(heads, axis=-1)
