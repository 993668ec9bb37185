"""Chapter 7: encoding new memories, equation 2; what holds for any attention."""

from __future__ import annotations

import numpy as np

from ... import equations
from .attention import attention, joined_wrongly, softmax
from .exercise import exercise, normal


def _row(x):
    return np.expand_dims(x, -2)  # (..., 1, F)


@exercise(
    cases=lambda rng: [
        normal(rng, (3, 4), 4),
        normal(rng, (2, 3, 4), (2, 4)),
        normal(rng, (3, 3, 3), (3, 3)),  # examples, slots and units alike in number
        (rng.normal(size=(4, 1, 2)), 1e6 * rng.normal(size=(4, 2))),
        normal(rng, (2, 3, 5, 6), (2, 3, 6)),
    ],
    hints=[
        "Before you can join it, x needs an axis of its own for the rows, with one "
        "row: where among the axes of M are the rows?",
        "The rows are the last axis but one. This puts a new axis there:\n"
        "np.expand_dims(x, -2) or x[..., None, :]",
        "np.concatenate([..., ...], axis=-2)",
    ],
    mistakes={
        "the input stands above the slots, not below them": (
            lambda M, x: np.concatenate([_row(x), M], axis=-2)
        ),
        "you add the input to every slot; give it a row of its own": (
            lambda M, x: M + _row(x)
        ),
        "you put the input beside every slot, column-wise": (
            lambda M, x: np.concatenate([M, 0 * M + _row(x)], axis=-1)
        ),
        "you join the rows along the first axis, which holds the examples where "
        "there are any": (lambda M, x: np.concatenate([M, x[None]])),
        "you think of a single memory: with examples, x needs an axis for its row "
        "after theirs": (lambda M, x: np.vstack([M, x])),
        "x has no axis for its row yet": lambda M, x: np.concatenate([M, x], axis=-2),
    },
    leading="M x",
    anysize="M x",
)
def append_rows(M, x):
    """[M; x]: the input as one more row below the slots.

    M (..., N, F), x (..., F) -> (..., N + 1, F).
    """
    return np.concatenate([M, x[..., None, :]], axis=-2)


def _memories(*sizes):
    """A memory, an input and projections for each (leading axes, N, F, H, d_k, d_v).

    H may be (), where there is one head without an axis.
    """

    def case(rng, leading, N, F, H, d_k, d_v):
        M, x = normal(rng, (*leading, N, F), (*leading, F))
        return M, x, *normal(rng, (*H, F, d_k), (*H, F, d_k), (*H, F, d_v))

    return lambda rng: [case(rng, *each) for each in sizes]


def _scores(M, Z, W_q, W_k):
    return M @ W_q @ np.swapaxes(Z @ W_k, -1, -2)


def _without_root(M, x, W_q, W_k, W_v):
    Z = append_rows(M, x)
    return softmax(_scores(M, Z, W_q, W_k)) @ Z @ W_v


def _all_ask(M, x, W_q, W_k, W_v):
    Z = append_rows(M, x)
    return attention(Z @ W_q, Z @ W_k, Z @ W_v)


def _x_is_added(M, x, W_q, W_k, W_v):
    Z = M + _row(x)
    return attention(M @ W_q, Z @ W_k, Z @ W_v)


@exercise(
    cases=_memories(
        ((), 3, 4, (), 2, 5),
        ((2,), 4, 4, (), 4, 4),
        ((3,), 3, 3, (), 3, 3),
        ((), 1, 2, (), 8, 2),
        ((2, 2), 5, 6, (), 3, 6),
    ),
    hints=[
        "You project three things. Two of them are made from [M; x], one from M alone: "
        "which?",
        "What looks has a query. In equation 2 the slots look, and they look at the "
        "slots and at the input.",
        "Z = append_rows(M, x), then attention(M @ ..., Z @ ..., Z @ ...); "
        "ex.append_rows and ex.attention are there, if yours are not.",
    ],
    mistakes={
        "the input looks as well: you make queries from [M; x], and the result has "
        "one row too many": _all_ask,
        "you leave out the input: that is equation 1": (
            lambda M, x, W_q, W_k, W_v: attention(M @ W_q, M @ W_k, M @ W_v)
        ),
        "you add the input to the slots instead of joining it to them": _x_is_added,
        "you make queries with W_k and keys with W_q": (
            lambda M, x, W_q, W_k, W_v: encode(M, x, W_k, W_q, W_v)
        ),
        "you do not divide the scores by the square root of d_k": _without_root,
    },
    leading="M x",
)
def encode(M, x, W_q, W_k, W_v):
    """Equation 2 with one head.

    M (..., N, F), x (..., F), W_q and W_k (F, d_k), W_v (F, d_v) -> (..., N, d_v).
    """
    Z = append_rows(M, x)
    return attention(M @ W_q, Z @ W_k, Z @ W_v)


def _every_head(M, x, W_q, W_k, W_v):
    heads = zip(W_q, W_k, W_v, strict=True)
    return [encode(M, x, *head) for head in heads]  # each (..., N, d_v)


@exercise(
    cases=_memories(
        ((), 3, 4, (2,), 2, 2),
        ((2,), 5, 6, (3,), 4, 2),
        ((2,), 4, 4, (2,), 4, 4),  # M @ W_q multiplies example b with head b
        ((3,), 3, 3, (3,), 3, 3),
        ((4,), 1, 8, (4,), 1, 2),
    ),
    hints=[
        "Equation 2 for each head, with W_q[h], W_k[h], W_v[h]. Along which axis do "
        "the heads' results lie when you put them together?",
        "The rows must remain the slots: the results lie side by side, along the last "
        "axis.",
    ],
    mistakes={
        **joined_wrongly(_every_head),
        "you multiply by the matrices of all heads at once, though M has no axis "
        "for the heads: take one head after the other": (lambda *case: encode(*case)),
    },
    leading="M x",
)
def encode_with_heads(M, x, W_q, W_k, W_v):
    """Equation 2 with H heads side by side.

    M (..., N, F), x (..., F), W_q and W_k (H, F, d_k), W_v (H, F, d_v)
    -> (..., N, H * d_v).
    """
    heads = [
        encode(M, x, W_q[h], W_k[h], W_v[h])  # (..., N, d_v)
        for h in range(len(W_q))
    ]
    return np.concatenate(heads, axis=-1)


# --- A function that is not known, only called ----------------------------------------


def right_attention(Q, K, V):
    """Equation 1."""
    return equations.attention(np, Q, K, V)


def attention_without_root(Q, K, V):
    """The scores are not divided by the square root of d_k."""
    return softmax(Q @ np.swapaxes(K, -1, -2)) @ V


def attention_to_the_least(Q, K, V):
    """The less a key resembles the query, the more it counts."""
    return equations.attention(np, -Q, K, V)


def plain_mean(Q, K, V):
    """All keys count the same."""
    return 0 * (Q @ np.swapaxes(K, -1, -2)) @ V + V.mean(axis=-2, keepdims=True)


@exercise(
    cases=lambda rng: [
        (right_attention, *normal(rng, (3, 2), (5, 2))),
        (attention_without_root, *normal(rng, (4, 4), (4, 4))),
        (attention_to_the_least, *normal(rng, (2, 3, 4), (2, 6, 4))),
        (plain_mean, *normal(rng, (3, 2), (1, 2))),
        (right_attention, *normal(rng, (2, 3), (3, 3))),  # as many keys as features
        (right_attention, *normal(rng, (3, 2), (3, 2))),  # as many keys as queries
    ],
    hints=[
        "The result is weights times values. You may choose the values: which matrix "
        "can you multiply by without changing anything?",
        "The identity, np.eye(...). How many rows do the values have?",
    ],
    mistakes={
        "you give the weights of equation 1, whatever the function": (
            lambda attention, Q, K: equations.attention_weights(np, Q, K)
        ),
        "your values are all 1: each entry is then the sum of a row of weights": (
            lambda attention, Q, K: attention(Q, K, np.ones((K.shape[-2],) * 2))
        ),
        "you give the keys as values": lambda attention, Q, K: attention(Q, K, K),
        "your identity has a row for each query instead of one for each key": (
            lambda attention, Q, K: attention(Q, K, np.eye(Q.shape[-2]))
        ),
        "you count the keys along the first axis, which holds the examples where "
        "there are any": (lambda attention, Q, K: attention(Q, K, np.eye(len(K)))),
    },
    leading="Q K",
)
def weights_behind(attention, Q, K):
    """The weights of a function attention(Q, K, V) = weights V, found by calling it.

    Q (..., N, d_k), K (..., R, d_k) -> (..., N, R).
    """
    return attention(Q, K, np.eye(K.shape[-2]))
