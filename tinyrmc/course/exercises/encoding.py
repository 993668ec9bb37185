"""Chapter 5: encoding new memories, equation 2, and what must hold for any attention
function.
"""

from __future__ import annotations

import math

import numpy as np

from ... import equations
from .attention import attention, softmax
from .exercise import exercise


def _row(x):
    return np.expand_dims(x, -2)


@exercise(
    cases=lambda rng: [
        (rng.normal(size=(3, 4)), rng.normal(size=4)),
        (rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 4))),
        (
            rng.normal(size=(3, 3, 3)),
            rng.normal(size=(3, 3)),
        ),  # as many examples as slots as units
        (rng.normal(size=(4, 1, 2)), 1e6 * rng.normal(size=(4, 2))),
        (rng.normal(size=(2, 3, 5, 6)), rng.normal(size=(2, 3, 6))),
    ],
    hints=[
        "Before it can be joined, x needs an axis of its own for the rows, with one "
        "row: where among the axes of M are the rows?",
        "The rows are the last axis but one. np.expand_dims(x, -2) or x[..., None, "
        ":] puts it there.",
        "np.concatenate([..., ...], axis=-2)",
    ],
    mistakes={
        "the input stands above the slots, not below them": lambda M, x: np.concatenate(
            [_row(x), M], axis=-2
        ),
        "the input is added to every slot and does not get a row of its own": lambda M, x: (
            M + _row(x)
        ),
        "the input is put beside every slot, column-wise": lambda M, x: np.concatenate(
            [M, np.broadcast_to(_row(x), M.shape)], axis=-1
        ),
        "the rows are joined along the first axis, which holds the examples where "
        "there are any": lambda M, x: np.concatenate([M, x[None]]),
        "it is made for a single memory: with examples, x needs an axis for its row "
        "behind theirs": lambda M, x: np.vstack([M, x]),
        "x has no axis for its row yet": lambda M, x: np.concatenate([M, x], axis=-2),
    },
)
def append_rows(M, x):
    """[M; x]: the input as one more row below the slots.

    M (..., N, F), x (..., F) -> (..., N + 1, F).
    """
    return np.concatenate([M, x[..., None, :]], axis=-2)


def _memories(*sizes):
    """Cases (leading axes, N, F, heads, d_k, d_v): a memory, an input and projections."""

    def cases(rng):
        return [
            (
                rng.normal(size=(*leading, N, F)),
                rng.normal(size=(*leading, F)),
                *(rng.normal(size=(*heads, F, width)) for width in (d_k, d_k, d_v)),
            )
            for leading, N, F, heads, d_k, d_v in sizes
        ]

    return cases


def _scores(M, Z, W_q, W_k):
    return M @ W_q @ np.swapaxes(Z @ W_k, -1, -2)


def _without_root(M, x, W_q, W_k, W_v):
    Z = append_rows(M, x)
    return softmax(_scores(M, Z, W_q, W_k)) @ Z @ W_v


def _all_ask(M, x, W_q, W_k, W_v):
    Z = append_rows(M, x)
    return attention(Z @ W_q, Z @ W_k, Z @ W_v)


def _slots_ask_x_alone(M, x, W_q, W_k, W_v):
    return attention(M @ W_q, _row(x) @ W_k, _row(x) @ W_v)


def _x_asks_for_all(M, x, W_q, W_k, W_v):
    Z = append_rows(M, x)
    return attention(np.broadcast_to(_row(x), M.shape) @ W_q, Z @ W_k, Z @ W_v)


def _swapped(M, x, W_q, W_k, W_v):
    Z = append_rows(M, x)
    return attention(M @ W_k, Z @ W_q, Z @ W_v)


@exercise(
    cases=_memories(
        ((), 3, 4, (), 2, 5),
        ((2,), 4, 4, (), 4, 4),
        ((3,), 3, 3, (), 3, 3),
        ((), 1, 2, (), 8, 2),
        ((2, 2), 5, 6, (), 3, 6),
    ),
    hints=[
        "Three things are projected. Two of them are made from [M; x], one from M "
        "alone: which?",
        "Whoever looks has a query. In equation 2 the slots look, and they look at "
        "the slots and at the input.",
        "Z = append_rows(M, x), then attention(M @ ..., Z @ ..., Z @ ...); "
        "ex.append_rows and ex.attention are there, if yours are not.",
    ],
    mistakes={
        "the input looks as well: queries are made from [M; x], and the result has a "
        "row too many": _all_ask,
        "the input looks as well, and then a slot's row is thrown away instead of "
        "the input's": lambda *w: _all_ask(*w)[..., 1:, :],
        "the input is left out: that is equation 1": lambda M, x, q, k, v: attention(
            M @ q, M @ k, M @ v
        ),
        "the slots look at the input alone and not at each other": _slots_ask_x_alone,
        "the input asks in the place of every slot": _x_asks_for_all,
        "the input is added to the slots, not joined to them": lambda M, x, q, k, v: (
            attention(M @ q, (M + _row(x)) @ k, (M + _row(x)) @ v)
        ),
        "queries are made with W_k and keys with W_q": _swapped,
        "the scores are not divided by the square root of d_k": _without_root,
    },
)
def encode(M, x, W_q, W_k, W_v):
    """Equation 2 with one head: M (..., N, F), x (..., F), W_q and W_k (F, d_k), W_v
    (F, d_v) -> (..., N, d_v).
    """
    Z = append_rows(M, x)
    return attention(M @ W_q, Z @ W_k, Z @ W_v)


def _every_head(M, x, W_q, W_k, W_v):
    return [
        encode(M, x, *head) for head in zip(W_q, W_k, W_v, strict=True)
    ]  # each (..., N, d_v)


def _reshaped(*arguments):
    heads = np.stack(_every_head(*arguments), axis=-3)  # (..., H, N, d_v)
    return heads.reshape(*heads.shape[:-3], heads.shape[-2], -1)


def _one_softmax(M, x, W_q, W_k, W_v):
    Z = append_rows(M, x)
    scores = sum(_scores(M, Z, q, k) for q, k in zip(W_q, W_k, strict=True))
    return np.concatenate(
        [softmax(scores / math.sqrt(W_q.shape[-1])) @ Z @ v for v in W_v], axis=-1
    )


@exercise(
    cases=_memories(
        ((), 3, 4, (2,), 2, 2),
        ((2,), 5, 6, (3,), 4, 2),
        (
            (2,),
            4,
            4,
            (2,),
            4,
            4,
            # as many examples as heads: M @ W_q multiplies example 0 with head 0, example 1
            # with head 1
        ),
        ((3,), 3, 3, (3,), 3, 3),
        ((4,), 1, 8, (4,), 1, 2),
    ),
    hints=[
        "Equation 2 for each head, with W_q[h], W_k[h], W_v[h]. What axis do the "
        "heads' results lie along, when they are put together?",
        "The rows must remain the slots: the results lie side by side, along the "
        "last axis.",
    ],
    mistakes={
        "the heads' results are put below each other, not side by side": lambda *w: (
            np.concatenate(_every_head(*w), axis=-2)
        ),
        "the heads' results are added up": lambda *w: sum(_every_head(*w)),
        "all heads use the projections of the first": lambda M, x, q, k, v: (
            np.concatenate(_every_head(M, x, q[:1], k[:1], v[:1]) * len(q), axis=-1)
        ),
        "the axis of the heads is reshaped away where it stands, before the slots: "
        "it must be moved behind them first": _reshaped,
        "the heads' columns alternate instead of lying side by side": lambda *w: (
            np.stack(_every_head(*w), axis=-1).reshape(*w[0].shape[:-1], -1)
        ),
        "the scores of all heads are added, and one softmax serves them all": _one_softmax,
    },
)
def encode_with_heads(M, x, W_q, W_k, W_v):
    """Equation 2 with H heads side by side: M (..., N, F), x (..., F), W_q, W_k (H, F,
    d_k), W_v (H, F, d_v) -> (..., N, H * d_v).
    """
    return np.concatenate(
        [encode(M, x, W_q[h], W_k[h], W_v[h]) for h in range(len(W_q))], axis=-1
    )


def right_attention(Q, K, V):
    return equations.attention(np, Q, K, V)


def attention_without_root(Q, K, V):
    return softmax(Q @ np.swapaxes(K, -1, -2)) @ V


def attention_to_the_least(Q, K, V):
    return equations.attention(np, -Q, K, V)


def plain_mean(Q, K, V):
    return 0 * (Q @ np.swapaxes(K, -1, -2)) @ V + V.mean(axis=-2, keepdims=True)


@exercise(
    cases=lambda rng: [
        (right_attention, rng.normal(size=(3, 2)), rng.normal(size=(5, 2))),
        (attention_without_root, rng.normal(size=(4, 4)), rng.normal(size=(4, 4))),
        (
            attention_to_the_least,
            rng.normal(size=(2, 3, 4)),
            rng.normal(size=(2, 6, 4)),
        ),
        (plain_mean, rng.normal(size=(3, 2)), rng.normal(size=(1, 2))),
        (
            right_attention,
            rng.normal(size=(2, 3)),
            rng.normal(size=(3, 3)),
        ),  # as many keys as features
        (
            right_attention,
            rng.normal(size=(3, 2)),
            rng.normal(size=(3, 2)),
        ),  # as many keys as queries
    ],
    hints=[
        "The result is weights times values. You may choose the values: with which "
        "does a product give back what it was multiplied with?",
        "The identity, np.eye(...). How many rows do the values have?",
    ],
    mistakes={
        "the weights are those of equation 1, whatever function is given": lambda attention, Q, K: (
            equations.attention_weights(np, Q, K)
        ),
        "the values are all 1: each entry is then the sum of a row of weights": lambda attention, Q, K: (
            attention(Q, K, np.ones((K.shape[-2],) * 2))
        ),
        "the keys are given as values": lambda attention, Q, K: attention(Q, K, K),
        "the identity has a row for each query instead of one for each key": lambda attention, Q, K: (
            attention(Q, K, np.eye(Q.shape[-2]))
        ),
        "the identity has a row for each feature of a key instead of one for each key": lambda attention, Q, K: (
            attention(Q, K, np.eye(K.shape[-1]))
        ),
        "the keys are counted along the first axis, which holds the examples where "
        "there are any": lambda attention, Q, K: attention(Q, K, np.eye(len(K))),
    },
)
def weights_behind(attention, Q, K):
    """The weights (..., N, R) of a function attention(Q, K, V) = weights V, for Q (...,
    N, d_k), K (..., R, d_k), found by calling it.
    """
    return attention(Q, K, np.eye(K.shape[-2]))
