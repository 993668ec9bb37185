"""Chapter 19: several hops with shared tables, and what is left without the softmax."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..attention import softmax
from ..exercise import exercise, normal
from .one_hop import hop, scaled


def _bags(rng, leading, N, V):
    """Sentences and a question as word counts."""
    return rng.integers(3, size=(*leading, N, V)), rng.integers(3, size=(*leading, V))


def _stacks(rng):
    def case(K, V, d, N, leading=(), scale=0.5):
        tables = [scale * rng.normal(size=(V, d)) for _ in range(K + 1)]
        return tables, *_bags(rng, leading, N, V)

    same = rng.normal(size=(4, 3))
    return [
        case(1, 5, 3, 4),
        case(3, 6, 4, 5),
        case(2, 4, 4, 4, leading=(4,)),
        case(3, 5, 2, 3, leading=(2, 3)),
        case(2, 4, 3, 3, scale=20.0),
        ([same, same, same], *_bags(rng, (2,), 3, 4)),  # one table, three times
    ]


def _adjacent(
    pairs=pairwise,
    ask=lambda tables: tables[0],
    answer=lambda tables: tables[-1],
    look=hop,
    update=lambda u, o, q: u + o,
):
    """The network with adjacent tying and, by its arguments, ways to get it wrong."""

    def network(tables, memories, question):
        q = u = question @ ask(tables)
        for A, C in pairs(tables):
            _, o = look(u, memories @ A, memories @ C)
            u = update(u, o, q)
        return u @ answer(tables).T

    return network


@exercise(
    cases=_stacks,
    hints=[
        "A sentence as word counts, times a table, is the sum of its words' rows: "
        "memories @ tables[k] is (..., N, d).",
        "u begins as question @ tables[0]. Hop k has memories from tables[k] and "
        "contents from tables[k + 1].",
        "After each hop: u = u + o. The logits are u @ tables[-1].T.",
    ],
    mistakes={
        "the question has the last table; B is the first hop's A": _adjacent(
            ask=lambda tables: tables[-1]
        ),
        "the answer has the first table; W is the last hop's C": _adjacent(
            answer=lambda tables: tables[0]
        ),
        "all hops have the first two tables: that would be layer-wise": _adjacent(
            pairs=lambda tables: [tables[:2]] * (len(tables) - 1)
        ),
        "memories and contents have changed places": _adjacent(
            pairs=lambda t: zip(t[1:], t[:-1], strict=True)
        ),
        "memories and contents have the same table in each hop": _adjacent(
            pairs=lambda t: zip(t[:-1], t[:-1], strict=True)
        ),
        "each hop takes two tables of its own: a hop's A is the C of the one "
        "before": _adjacent(pairs=lambda t: zip(t[:-1:2], t[1::2], strict=True)),
        "the next hop asks with what was found alone: u + o goes on": _adjacent(
            update=lambda u, o, q: o
        ),
        "each hop adds what it found to the question, not to the u "
        "before it": _adjacent(update=lambda u, o, q: q + o),
        "you divide the match by the square root of d: a memory network "
        "does not": _adjacent(look=scaled),
        "you give probabilities: the logits stand before the last softmax": (
            lambda *case: softmax(adjacent(*case))
        ),
        "you give u, not the logits: the product with W is missing": (
            lambda tables, *case: _adjacent(answer=lambda t: np.eye(t[0].shape[1]))(
                tables, *case
            )
        ),
    },
    leading="memories question",
)
def adjacent(tables, memories, question):
    """K hops with adjacent tying: B = A^1, A^(k+1) = C^k, and W^T = C^K.

    tables: a list of K + 1 arrays (V, d), A^1, C^1 = A^2, .. C^K; memories (..., N, V)
    and question (..., V), word counts -> the logits W u^(K+1), (..., V).
    """
    u = question @ tables[0]
    for k in range(len(tables) - 1):
        _, o = hop(u, memories @ tables[k], memories @ tables[k + 1])
        u = u + o
    return u @ tables[-1].T


def _recurrent(rng):
    def case(K, V, d, N, leading=(), scale=0.5):
        A, C, B, W = (scale * rng.normal(size=(V, d)) for _ in range(4))
        return A, C, B, W, rng.normal(size=(d, d)), K, *_bags(rng, leading, N, V)

    A = rng.normal(size=(4, 3))
    return [
        case(1, 5, 3, 4),
        case(3, 6, 4, 5),
        case(2, 4, 4, 4, leading=(4,)),
        case(4, 5, 2, 3, leading=(2, 3)),
        case(2, 4, 3, 3, scale=20.0),
        (A, A, A, A, rng.normal(size=(3, 3)), 3, *_bags(rng, (2,), 3, 4)),
    ]


def _layerwise(step):
    """The network with layer-wise tying, and another step(u, o, H, q) of u."""

    def network(A, C, B, W, H, K, memories, question):
        q = u = question @ B
        for _ in range(K):
            _, o = hop(u, memories @ A, memories @ C)
            u = step(u, o, H, q)
        return u @ W.T

    return network


def _given(change):
    """The right network with other tables: change(A, C, B, W)."""
    return lambda A, C, B, W, *rest: layerwise(*change(A, C, B, W), *rest)


def _moved_before_each_hop(A, C, B, W, H, K, memories, question):
    u = question @ B
    for _ in range(K):
        u = u @ H.T
        _, o = hop(u, memories @ A, memories @ C)
        u = u + o
    return u @ W.T


@exercise(
    cases=_recurrent,
    hints=[
        "The memories and contents are the same in every hop: make them once.",
        "H u, for a column u, is u @ H.T for rows.",
        "K times: o from the hop, then u = u @ H.T + o. In the end u @ W.T.",
    ],
    mistakes={
        "H lies on its side: H u, for a column, is u @ H.T for a row": _layerwise(
            lambda u, o, H, q: u @ H + o
        ),
        "H multiplies the sum u + o; only u goes through it": _layerwise(
            lambda u, o, H, q: (u + o) @ H.T
        ),
        "H multiplies what was found, not u": _layerwise(
            lambda u, o, H, q: u + o @ H.T
        ),
        "H is missing": _layerwise(lambda u, o, H, q: u + o),
        "the next hop asks with what was found alone": _layerwise(lambda u, o, H, q: o),
        "H multiplies u before each hop looks: the hop asks with u, and H comes "
        "with the update": _moved_before_each_hop,
        "H always multiplies the question, not the u of the hop before": _layerwise(
            lambda u, o, H, q: q @ H.T + o
        ),
        "the question has the table A; with this tying it has its own, B": _given(
            lambda A, C, B, W: (A, C, A, W)
        ),
        "the answer has the table C; with this tying it has its own, W": _given(
            lambda A, C, B, W: (A, C, B, C)
        ),
        "memories and contents have changed tables": _given(
            lambda A, C, B, W: (C, A, B, W)
        ),
        "the contents have the table of the memories": _given(
            lambda A, C, B, W: (A, A, B, W)
        ),
        "you give probabilities: the logits stand before the last softmax": (
            lambda *case: softmax(layerwise(*case))
        ),
    },
    leading="memories question",
)
def layerwise(A, C, B, W, H, K, memories, question):
    """K hops with layer-wise tying: the same tables in each, and u <- H u + o.

    A, C, B and W (V, d), H (d, d), the number K of hops; memories (..., N, V) and
    question (..., V), word counts -> the logits W u^(K+1), (..., V).
    """
    u = question @ B
    m, c = memories @ A, memories @ C
    for _ in range(K):
        _, o = hop(u, m, c)
        u = u @ H.T + o
    return u @ W.T


def _turned(x):
    return np.swapaxes(x, -1, -2)


@exercise(
    cases=lambda rng: [
        normal(rng, (5, 3), (5, 3)),
        normal(rng, (4, 4), (4, 4)),
        normal(rng, (2, 3, 6, 2), (2, 3, 6, 2)),
        normal(rng, (3, 3, 3), (3, 3, 3)),
        normal(rng, (1, 4), (1, 4)),
        (1e6 * rng.normal(size=(3, 2)), 1e-6 * rng.normal(size=(3, 2))),
        (rng.integers(3, size=(4, 3)), rng.integers(3, size=(4, 3))),
    ],
    hints=[
        "Write the sum out: o = sum_i (u . m_i) c_i. Entry l of o is a sum over i and "
        "k of u_k m_ik c_il. What stands between u_k and o_l?",
        "G_kl = sum_i m_ik c_il: a sum over the memories of products of a memory and "
        "its content. A matrix product does that.",
        "np.swapaxes(m, -1, -2) @ c",
    ],
    mistakes={
        "your matrix lies on its side: u comes from the left, so memories make the "
        "rows": (lambda m, c: _turned(c) @ m),
        "you multiply memories with contents, not units with units: (N, N)": (
            lambda m, c: m @ _turned(c)
        ),
        "m.T turns the leading axes around as well; swap only the last two": (
            lambda m, c: m.T @ c
        ),
        "you take the mean over the memories; it is their sum": (
            lambda m, c: _turned(m) @ c / m.shape[-2]
        ),
        "you divide by the square root of d: a memory network does not": (
            lambda m, c: _turned(m) @ c / m.shape[-1] ** 0.5
        ),
        "the products of the memories are not added up: (N, d, d)": (
            lambda m, c: m[..., :, None] * c[..., None, :]
        ),
        "you give the diagonal, a vector": lambda m, c: (m * c).sum(axis=-2),
        "all examples share one matrix: leading axes stay": (
            lambda m, c: np.einsum("...ik,...il->kl", m, c)
        ),
        "the softmax is still there": lambda m, c: softmax(_turned(m)) @ c,
        "you add u itself, by the identity: this is o alone": (
            lambda m, c: _turned(m) @ c + np.eye(m.shape[-1])
        ),
    },
    leading="m c",
    anysize="m",
)
def association(m, c):
    """A hop without its softmax as one matrix: sum_i (u . m_i) c_i = u G, for every u.

    m and c (..., N, d) -> G (..., d, d).
    """
    return np.swapaxes(m, -1, -2) @ c
