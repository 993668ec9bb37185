"""Chapter 4: attention, equation 1."""

from __future__ import annotations

import math

import numpy as np

from .exercise import exercise


def _rows(rng):
    return [
        (rng.normal(size=5),),
        (rng.normal(size=(3, 4)),),
        (
            rng.normal(size=(2, 3, 3)),
        ),  # as many rows as columns: nothing but the axis tells them apart
        (1e3 * rng.normal(size=(2, 6)),),
        (np.array([[0.0, -np.inf, 0.0]]),),
        (np.array([[1.0, 2.0], [-2e3, -2e3]]),),  # rows that are far apart
    ]


def _naive(x):
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


def _naive_sums_without_an_axis(x):
    return np.exp(x) / np.exp(x).sum(axis=-1)


def _nothing_keeps_its_axis(x):
    e = np.exp(x - x.max(axis=-1))
    return e / e.sum(axis=-1)


@exercise(
    cases=_rows,
    hints=[
        "Exponentials first, then each row divided by its sum: what must `axis` and "
        "`keepdims` be?",
        "exp(1000) is infinite. exp(x - c) / sum exp(x - c) is the same for every c: "
        "which c makes the largest exponent 0?",
        "e = np.exp(x - x.max(axis=-1, keepdims=True)), and then?",
    ],
    mistakes={
        "the largest entry is not subtracted before the exponential: it overflows": _naive,
        "the whole array is made to sum to 1, not each row": _over_all,
        "the whole array is made to sum to 1, not each row, and large numbers "
        "overflow": lambda x: np.exp(x) / np.exp(x).sum(),
        "the sum runs over the first axis, not over the last": _over_columns,
        "one maximum is subtracted from all rows: a row far below it becomes 0 / 0": _one_maximum,
        "the sums have lost their axis, so that they do not divide rows: "
        "keepdims=True keeps it": _sums_without_an_axis,
        "the sums have lost their axis, which keepdims=True keeps, and large numbers "
        "overflow": _naive_sums_without_an_axis,
        "maxima and sums have lost their axis, so that they do not fit the rows: "
        "keepdims=True keeps it": _nothing_keeps_its_axis,
        "the exponentials are not divided by their sum": lambda x: np.exp(
            x - x.max(axis=-1, keepdims=True)
        ),
    },
)
def softmax(x):
    """exp(x_j) / sum_k exp(x_k) over the last axis of x (..., n) -> (..., n), for
    numbers of any size, -inf among them.
    """
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _queries_and_keys(rng):
    return [
        (rng.normal(size=(3, 4)), rng.normal(size=(5, 4))),
        (
            rng.normal(size=(4, 4)),
            rng.normal(size=(4, 4)),
        ),  # all sizes alike: a forgotten transpose goes unnoticed by the shapes
        (rng.normal(size=(2, 3, 8)), rng.normal(size=(2, 6, 8))),
        (rng.normal(size=(1, 16)), rng.normal(size=(2, 16))),
        (100 * rng.normal(size=(3, 5)), 100 * rng.normal(size=(3, 5))),
    ]


def _scores(Q, K):
    return Q @ np.swapaxes(K, -1, -2)


@exercise(
    cases=_queries_and_keys,
    hints=[
        "Each entry of Q K^T is the dot product of a query with a key. Leading axes "
        "are examples: swap the last two of K only.",
        "What is d_k? It is an axis of both Q and K.",
        "softmax(Q @ np.swapaxes(K, -1, -2) / math.sqrt(d_k)): `ex.softmax` is "
        "there, if yours is not.",
    ],
    mistakes={
        "the scores are not divided by the square root of d_k": lambda Q, K: softmax(
            _scores(Q, K)
        ),
        "the scores are divided by d_k, not by its square root": lambda Q, K: softmax(
            _scores(Q, K) / Q.shape[-1]
        ),
        "the scores are multiplied by the square root of d_k": lambda Q, K: softmax(
            _scores(Q, K) * math.sqrt(Q.shape[-1])
        ),
        "the scores are divided by the square root of the number of keys": lambda Q, K: (
            softmax(_scores(Q, K) / math.sqrt(K.shape[-2]))
        ),
        "the softmax runs over the queries, not over the keys": lambda Q, K: (
            np.swapaxes(
                softmax(np.swapaxes(_scores(Q, K), -1, -2) / math.sqrt(Q.shape[-1])),
                -1,
                -2,
            )
        ),
        "queries and keys have changed places": lambda Q, K: softmax(
            _scores(K, Q) / math.sqrt(Q.shape[-1])
        ),
        "the keys are not transposed": lambda Q, K: softmax(
            Q @ K / math.sqrt(Q.shape[-1])
        ),
        "K.T turns the axis of the examples around as well; only the last two are to "
        "change places": lambda Q, K: softmax(Q @ K.T / math.sqrt(Q.shape[-1])),
        "the largest score of each row is not subtracted before the exponential: it "
        "overflows": lambda Q, K: _naive(_scores(Q, K) / math.sqrt(Q.shape[-1])),
        "the softmax is divided by the square root of d_k, not the scores": lambda Q, K: (
            softmax(_scores(Q, K)) / math.sqrt(Q.shape[-1])
        ),
    },
)
def attention_weights(Q, K):
    """How much each query looks at each key: softmax(Q K^T / sqrt(d_k)).

    Q (..., N, d_k), K (..., R, d_k) -> (..., N, R).
    """
    return softmax(_scores(Q, K) / math.sqrt(Q.shape[-1]))


@exercise(
    cases=lambda rng: [
        (rng.normal(size=(3, 4)), rng.normal(size=(5, 4)), rng.normal(size=(5, 2))),
        (rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), rng.normal(size=(4, 4))),
        (
            rng.normal(size=(2, 3, 8)),
            rng.normal(size=(2, 6, 8)),
            rng.normal(size=(2, 6, 8)),
        ),
        (
            1e3 * rng.normal(size=(3, 3)),
            rng.normal(size=(3, 3)),
            rng.normal(size=(3, 3)),
        ),
    ],
    hints=[
        "Row i of the result is a mean of the rows of V, weighted by row i of the "
        "weights.",
        "A matrix product does exactly that.",
    ],
    mistakes={
        "the weights are transposed before they meet V": lambda Q, K, V: (
            np.swapaxes(attention_weights(Q, K), -1, -2) @ V
        ),
        "the weights are not scaled by the square root of d_k": lambda Q, K, V: (
            softmax(_scores(Q, K)) @ V
        ),
        "there is no softmax": lambda Q, K, V: (
            _scores(Q, K) / math.sqrt(Q.shape[-1]) @ V
        ),
        "the weights go through a second softmax": lambda Q, K, V: (
            softmax(attention_weights(Q, K)) @ V
        ),
        "the largest score of each row is not subtracted before the exponential: it "
        "overflows": lambda Q, K, V: _naive(_scores(Q, K) / math.sqrt(Q.shape[-1])) @ V,
        "the keys are averaged, not the values": lambda Q, K, V: (
            attention_weights(Q, K) @ K
        ),
        "d_k is taken to be the width of the values; it is that of the keys": lambda Q, K, V: (
            softmax(_scores(Q, K) / math.sqrt(V.shape[-1])) @ V
        ),
        "K.T turns the axis of the examples around as well; only the last two are to "
        "change places": lambda Q, K, V: softmax(Q @ K.T / math.sqrt(Q.shape[-1])) @ V,
    },
)
def attention(Q, K, V):
    """Equation 1: A(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V. Q (..., N, d_k), K (...,
    R, d_k), V (..., R, d_v) -> (..., N, d_v).
    """
    return attention_weights(Q, K) @ V


def _memories(rng):
    def case(N, F, H, d_k, d_v, scale=1.0):
        return scale * rng.normal(size=(N, F)), *(
            rng.normal(size=(H, F, width)) for width in (d_k, d_k, d_v)
        )

    return [
        case(3, 4, 2, 2, 2),
        case(5, 6, 3, 4, 2),
        case(4, 4, 1, 4, 4),
        case(2, 8, 4, 2, 2, scale=30.0),
    ]


def _every_head(M, W_q, W_k, W_v):
    return [attention(M @ W_q[h], M @ W_k[h], M @ W_v[h]) for h in range(len(W_q))]


@exercise(
    cases=_memories,
    hints=[
        "Each head has projections of its own, W_q[h], W_k[h], W_v[h], and does "
        "equation 1 for itself.",
        "[M~1 : M~2] is column-wise: the heads' results lie side by side, so that "
        "the rows remain the slots.",
        "np.concatenate([...], axis=-1)",
    ],
    mistakes={
        "the heads' results are put below each other, not side by side": lambda *w: (
            np.concatenate(_every_head(*w), axis=0)
        ),
        "the heads' results are added up": lambda *w: sum(_every_head(*w)),
        "all heads use the projections of the first": lambda M, q, k, v: np.concatenate(
            _every_head(M, q[:1], k[:1], v[:1]) * len(q), axis=-1
        ),
        "the axis of the heads is reshaped away where it stands, before the slots: "
        "it must be moved behind them first": lambda *w: np.stack(
            _every_head(*w)
        ).reshape(len(w[0]), -1),
        "the heads' columns alternate instead of lying side by side": lambda *w: (
            np.stack(_every_head(*w), axis=-1).reshape(len(w[0]), -1)
        ),
        "queries are made with W_k and keys with W_q": lambda M, q, k, v: (
            np.concatenate(_every_head(M, k, q, v), axis=-1)
        ),
        "the scores are divided by the square root of F, the width of a slot, not by "
        "that of d_k": lambda M, q, k, v: np.concatenate(
            [
                softmax(_scores(M @ q[h], M @ k[h]) / math.sqrt(M.shape[-1]))
                @ (M @ v[h])
                for h in range(len(q))
            ],
            axis=-1,
        ),
    },
)
def multi_head(M, W_q, W_k, W_v):
    """M (N, F), whose slots look at each other with H heads: W_q, W_k (H, F, d_k), W_v
    (H, F, d_v) -> (N, H * d_v), heads side by side.
    """
    return np.concatenate(_every_head(M, W_q, W_k, W_v), axis=-1)
