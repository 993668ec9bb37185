"""Chapter 6: attention, equations 1 and 2."""

import math

import numpy as np

from .derived import by_complex_step, log_shares
from .exercise import each, exercise, normal
from .experiments import Picture
from .mended import mended
from .tape import taped
from .used import used


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
    mistakes="""
        you do not subtract the largest entry before the exponential: it overflows
            - x.max(axis=-1, keepdims=True) ->
        you make the whole array sum to 1, not each row
            axis=-1, keepdims=True ->
        you sum over the first axis, not over the last
            axis=-1 -> axis=0
        you subtract one maximum from all rows: a row far below it becomes 0 / 0
            x.max(axis=-1, keepdims=True) -> x.max()
        you clip x at 50: larger numbers that differ come out alike
            x - x.max(axis=-1, keepdims=True) -> np.clip(x, -50, 50)
        you clip x at 500: larger numbers that differ come out alike
            x - x.max(axis=-1, keepdims=True) -> np.clip(x, -500, 500)
        you clip x at 700: larger numbers that differ come out alike
            x - x.max(axis=-1, keepdims=True) -> np.clip(x, -700, 700)
        you cut x off at 500: larger numbers that differ come out alike
            x - x.max(axis=-1, keepdims=True) -> np.minimum(x, 500)
        you cut x off at 700: larger numbers that differ come out alike
            x - x.max(axis=-1, keepdims=True) -> np.minimum(x, 700)
        the sums lose their axis, so that they do not divide rows: keepdims=True keeps
        it
            e.sum(axis=-1, keepdims=True) -> e.sum(axis=-1)
    """,
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


def attention_weights(Q, K):
    """The shares of the keys: Q (..., N, d_k), K (..., R, d_k) -> (..., N, R)."""
    return softmax(Q @ np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1]))


@exercise(
    cases=lambda rng: [
        normal(rng, (3, 4), (5, 4), (5, 2)),
        normal(rng, (4, 4), (4, 4), (4, 4)),  # square: a forgotten transpose fits
        normal(rng, (2, 3, 8), (2, 6, 8), (2, 6, 3)),
        normal(rng, (1, 16), (2, 16), (2, 3)),
        (1e3 * rng.normal(size=(3, 5)), *normal(rng, (4, 5), (4, 3))),
    ],
    hints=[
        "Each entry of Q K^T is the dot product of a query with a key. Leading axes "
        "are examples or heads: swap the last two of K only.",
        "d_k is the last axis of Q and of K. Row i of the result is a mean of the rows "
        "of V with row i of the shares as weights: a matrix product.",
        "softmax(Q @ np.swapaxes(K, -1, -2) / math.sqrt(d_k)) @ V",
    ],
    mistakes="""
        you do not divide the scores by the square root of d_k
            / math.sqrt(d_k) ->
        you divide by d_k; it is its root that equation 1 divides by
            math.sqrt(d_k) -> d_k
        you multiply by the root of d_k; equation 1 divides by it
            / math.sqrt(d_k) -> * math.sqrt(d_k)
        you divide by the root of len(K): that is the number of keys, or of examples;
        d_k is the last axis
            Q.shape[-1] -> len(K)
        you divide behind the softmax; the scores are too large in front of it
            / math.sqrt(d_k)) @ V -> ) @ V / math.sqrt(d_k)
        you divide by the root of 8, whatever the width of a key
            math.sqrt(d_k) -> math.sqrt(8)
        you divide by the root of 64, whatever the width of a key
            math.sqrt(d_k) -> math.sqrt(64)
        you divide by the root of d_v, the width of a value
            Q.shape[-1] -> V.shape[-1]
        your softmax runs over the queries, not over the keys
            softmax(Q -> np.swapaxes(softmax(np.swapaxes(Q
            / math.sqrt(d_k)) -> / math.sqrt(d_k), -1, -2)), -1, -2)
        you leave out the softmax
            softmax(Q -> (Q
        K.T turns the axis of the examples around as well; swap only the last two
            np.swapaxes(K, -1, -2) -> K.T
        you average the keys, not the values
            @ V -> @ K
    """,
    leading="Q K V",
    anysize="Q",
    tolerance=1e-10,
)
def attention(Q, K, V):
    """Equation 1: A(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V.

    Q (..., N, d_k), K (..., R, d_k), V (..., R, d_v) -> (..., N, d_v).
    """
    d_k = Q.shape[-1]
    return softmax(Q @ np.swapaxes(K, -1, -2) / math.sqrt(d_k)) @ V


def _looking(queries_for, shares, K):
    """How they look who have the queries that an answer finds."""
    found = queries_for(shares, K)
    return None if found is None else attention_weights(np.asarray(found), K)


def _wanted(rng, N, R, d_k, sharp=1):
    return softmax(sharp * rng.normal(size=(N, R))), rng.normal(size=(R, d_k))


@used(
    _looking,
    cases=each(
        _wanted,
        "2 3 5, 3 3 3, 4 2 4 10, 1 4 16",
        also=[(np.full((2, 3), 1 / 3), 2 * np.eye(3))],
    ),
    hints=[
        "Walk back through equation 1. Which scores have these shares as their "
        "softmax? (There are many. Take the simplest.)",
        "The logarithms of the shares will do. They are to be Q K^T / sqrt(d_k).",
        "There are no more keys than a key is wide, so K @ np.linalg.pinv(K) is the "
        "identity: Q = sqrt(d_k) log(shares) @ np.linalg.pinv(K).T",
    ],
    mistakes="""
        you leave out the root: attention will divide by it
            math.sqrt(K.shape[1]) * ->
        you divide by the root, as attention will once more; undo it: multiply
            math.sqrt(K.shape[1]) * scores -> scores / math.sqrt(K.shape[1])
        you do not undo the exponential of the softmax
            np.log(shares) -> shares
        you multiply by the keys, which undoes a product with them only where they stand
        at right angles and have length 1
            np.linalg.pinv(K).T -> K
    """,
)
def queries_for(shares, K):
    """Queries that look at the keys K (R, d_k), R <= d_k, with these shares (N, R).

    shares are above 0, and each row has the sum 1 -> (N, d_k).
    """
    scores = np.log(shares)  # (N, R), their softmax is shares
    return math.sqrt(K.shape[1]) * scores @ np.linalg.pinv(K).T


# --- The way back ---------------------------------------------------------------------


def _attended(Q, K, V):
    """Equation 1 for complex numbers, too: the complex step goes through it."""
    scores = Q @ np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1])
    return np.exp(log_shares(scores)) @ V


def _attention_cases(rng, N, R, d_k, d_v, sharp=1, *leading):
    shapes = ((N, d_v), (N, d_k), (R, d_k), (R, d_v))
    g, Q, K, V = normal(rng, *[(*leading, *shape) for shape in shapes])
    return g, sharp * Q, K, V


@exercise(
    cases=each(
        _attention_cases,  # with a single key, and one where it is all but certain
        "2 3 5 4, 4 4 4 4, 3 3 2 2 1 2, 3 1 2 3, 2 3 3 2 300",
    ),
    hints=[
        "Name what forward makes on its way: the shares A (softmax of the scores), and "
        "the result A V. Then go back: result, shares, scores, queries and keys.",
        "The result is a product of A and V: V gets A^T g, and A gets g V^T. The "
        "scores get what the softmax's vjp makes of A's gradient and A.",
        "The scores are Q K^T / sqrt(d_k): Q gets (their gradient) K / sqrt(d_k), and "
        "K gets (their gradient)^T Q / sqrt(d_k).",
    ],
    mistakes="""
        you forget the root: the scores were divided by it, so their gradient is, too
            / math.sqrt(Q.shape[-1]) ->
        you leave out the softmax on the way back
            A * (by_A - (by_A * A).sum(axis=-1, keepdims=True)) -> by_A
        you multiply by the shares, and leave out what a score takes from the other
        shares
            - (by_A * A).sum(axis=-1, keepdims=True) ->
        you treat each share as if it stood alone, like a sigmoid
            A * (by_A - (by_A * A).sum(axis=-1, keepdims=True)) -> A * by_A * (1 - A)
        your root is that of d_v, the width of a value; scores are divided by that of
        d_k
            attention_weights(Q, K)
                -> softmax(Q @ np.swapaxes(K, -1, -2) / math.sqrt(V.shape[-1]))
            math.sqrt(Q.shape[-1]) -> math.sqrt(V.shape[-1])
        your sum in the softmax's vjp runs over the queries; it runs along each row of
        shares, axis=-1
            axis=-1 -> axis=-2
        the gradients of Q and K have changed places
            by_scores @ K, np.swapaxes(by_scores, -1, -2) @ Q
                -> np.swapaxes(by_scores, -1, -2) @ Q, by_scores @ K
    """,
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


@used(
    taped,
    cases=lambda rng: [
        normal(rng, (2, 3), (4, 3), (4, 2)),
        normal(rng, (3, 3), (3, 3), (3, 3)),
        normal(rng, (5, 1, 2), (5, 4, 2), (5, 4, 3)),
    ],
    hints=[
        "Compute the result with the arrays in the Nodes: Q.data, K.data, V.data.",
        "Q.tape.record(result, (Q, K, V), lambda g: ...). The function gives a tuple "
        "of three gradients, and attention_vjp does just that.",
    ],
    mistakes="""
        the gradients stand in another order than the Nodes
            attention_vjp(g, q, k, v) -> attention_vjp(g, q, k, v)[::-1]
        your vjp does not pass g on
            vjp(g, -> vjp(np.ones_like(g),
        you record gradients; record the function that makes them of g, lambda g: ...
            lambda g: attention_vjp(g, -> attention_vjp(attention(q, k, v),
    """,
)
def attend(Q, K, V):
    """Attention on the tape: three Nodes -> a Node."""
    q, k, v = Q.data, K.data, V.data
    return Q.tape.record(
        attention(q, k, v), (Q, K, V), lambda g: attention_vjp(g, q, k, v)
    )


# --- Equation 2 ----------------------------------------------------------------------


def append_rows(M, x):
    """[M; x], one more row: M (..., N, F), x (..., F) -> (..., N + 1, F)."""
    return np.concatenate([M, np.expand_dims(x, -2)], axis=-2)


def encode(M, x, W_q, W_k, W_v):
    """Equation 2 with one head: W_q, W_k (F, d_k), W_v (F, d_v) -> (..., N, d_v)."""
    Z = append_rows(M, x)
    return attention(M @ W_q, Z @ W_k, Z @ W_v)


def _memories(rng, N, F, H, d_k, d_v, *leading):
    M, x = normal(rng, (*leading, N, F), (*leading, F))
    return M, x, *normal(rng, (H, F, d_k), (H, F, d_k), (H, F, d_v))


@exercise(
    cases=each(
        _memories,  # in the third M @ W_q multiplies example b with head b
        "3 4 2 2 3, 5 6 3 4 2 2, 4 4 2 4 4 2, 3 3 3 3 3 3, 1 8 4 1 2 4",
    ),
    hints=[
        "Two of the three projections are made from [M; x], one from M alone: which? "
        "And x needs an axis for its row: np.expand_dims(x, -2).",
        "Equation 1 for each head, with W_q[h], W_k[h], W_v[h]. The rows must remain "
        "the slots, so the heads' results lie side by side, along the last axis.",
        "Z = np.concatenate([M, np.expand_dims(x, -2)], axis=-2), and for each h "
        "attention(M @ W_q[h], Z @ W_k[h], Z @ W_v[h])",
    ],
    mistakes="""
        you leave out the input: that is equation 1
            np.concatenate([M, np.expand_dims(x, -2)], axis=-2) -> M
        the input asks as well, so its row comes out, too: queries come from M alone
            (M @ W_q -> (Z @ W_q
        the input asks as well, and you drop the first row; its own is the last
            (M @ W_q -> (Z @ W_q
            Z @ W_v[h]) -> Z @ W_v[h])[..., 1:, :]
        you think of a single memory: with examples, x needs an axis for its row after
        theirs
            np.concatenate([M, np.expand_dims(x, -2)], axis=-2) -> np.vstack([M, x])
        you put the heads' results below each other, not side by side
            heads, axis=-1 -> heads, axis=-2
        you reshape the axis of the heads away where it stands, before the slots: move
        it after them first
            np.concatenate(heads, axis=-1)
                -> np.stack(heads, axis=-3).reshape(*M.shape[:-1], -1)
        you multiply by the matrices of all heads at once, though M has no axis for the
        heads: take one head after the other
            = encode(M, x, W_q, W_k, W_v)
    """,
    leading="M x",
)
def encode_with_heads(M, x, W_q, W_k, W_v):
    """Equation 2 with H heads side by side.

    M (..., N, F), x (..., F), W_q and W_k (H, F, d_k), W_v (H, F, d_v)
    -> (..., N, H * d_v).
    """
    Z = np.concatenate([M, np.expand_dims(x, -2)], axis=-2)  # (..., N + 1, F)
    heads = [
        attention(M @ W_q[h], Z @ W_k[h], Z @ W_v[h])  # (..., N, d_v)
        for h in range(len(W_q))
    ]
    return np.concatenate(heads, axis=-1)


# --- Debugging ------------------------------------------------------------------------


@mended(
    ("->nhd", "->hnd"),
    cases=lambda rng: [
        normal(rng, (3, 5), (2, 5, 4), (2, 5, 4), (2, 5, 6)),
        normal(rng, (4, 4), (4, 4, 4), (4, 4, 4), (4, 4, 4)),
        normal(rng, (5, 2), (3, 2, 1), (3, 2, 1), (3, 2, 2)),
    ],
    hints=[
        "With one head it is right. Which of the lines knows about more heads?",
        "In what order do the numbers of `heads` lie in memory, and in what order "
        "does the result want them?",
        "The heads' axis must stand beside that of d_v before reshape joins the two: "
        "np.moveaxis, np.swapaxes, or another order of letters in the einsum.",
    ],
    mistakes="""
        now the units of a slot lie head beside head; each head's units should stay
        together
            ->nhd -> ->ndh
        the slots lie along the last axis
            ->nhd -> ->dhn
    """,
    tolerance=1e-11,
)
def all_heads(M, W_q, W_k, W_v):
    """All heads of equation 1 at once: M (N, F), W_q and W_k (H, F, d_k),
    W_v (H, F, d_v) -> (N, H * d_v), the heads side by side.
    """
    Q, K, V = (np.einsum("nf,hfd->hnd", M, W) for W in (W_q, W_k, W_v))
    scores = np.einsum("hnd,hrd->hnr", Q, K) / math.sqrt(Q.shape[-1])
    heads = np.einsum("hnr,hrd->nhd", softmax(scores), V)
    return heads.reshape(len(M), -1)


@mended(
    ("np.tri(T)", "np.tri(T, k=1)"),
    cases=lambda rng: [
        normal(rng, (4, 4)),
        normal(rng, (2, 3, 3)),
        (10 * rng.normal(size=(2, 2, 5, 5)),),
        (np.zeros((1, 1)),),
        (3e3 * rng.normal(size=(6, 6)) - 2e4,),
    ],
    hints=[
        "Print np.tri(4, k=1) > 0. Row t says whom moment t may see.",
        "Moment t is to predict what comes at t + 1. It may see 0 to t.",
    ],
    mistakes="""
        a moment does not even see itself; the first then sees nobody
            np.tri(T) -> np.tri(T, k=-1)
        everybody sees the future alone: the mask is transposed
            np.tri(T) -> np.tri(T).T
        the future has the score 0, as good as any other; -inf is not at all
            -np.inf -> 0
    """,
)
def shares_of_the_past(scores):
    """The shares of moments that look back: scores (..., T, T) -> (..., T, T).

    Moment t sees itself and what was before.
    """
    T = scores.shape[-1]
    seen = np.tri(T) > 0
    return softmax(np.where(seen, scores, -np.inf))


def _no_largest_shares(curves):
    """The first thing that no largest shares would show, or nothing."""
    if any(each.y.min() <= 0 or each.y.max() > 1 + 1e-9 for each in curves):
        return "a share lies between 0 and 1"
    if min(each.x.max() for each in curves) < 256:
        return "draw widths up to 2048: with narrow keys the root changes little"
    last = [each.y[each.x.argmax()] for each in curves]
    if max(last) - min(last) < 0.2:
        return (
            "with the widest keys the largest share is about the same with the root "
            "and without; it is not, if the entries of queries and keys are of size 1"
        )


picture = Picture("attention", cannot_be=_no_largest_shares)
