"""Chapter 13: the task "nth farthest", its baselines, and the norm that it takes."""

import math
import re

import numpy as np

from ... import equations
from .exercise import each, exercise
from .experiments import Picture
from .recorded import recorded


def _questions(rng, k, D, N, n, scale=1, centre=0):
    labels = rng.permutation(N)[:k]
    x = centre + scale * rng.uniform(-1, 1, (k, D))
    return x, labels, n, int(labels[rng.integers(k)])


# 4.2 and 5 away, or 6 and 5 along the axes.
_CROOKED = np.array([[0.0, 0.0], [3.0, 3.0], [0.0, 5.0]])
# Distances that differ in the ninth digit, the farthest first.
_CLOSE = np.array([[0.0], [1 + 2e-9], [-1 - 1e-9], [1.0]])


@exercise(
    cases=each(
        _questions,  # the farthest, m itself, labels that no step has, close together
        "4 4 4 1, 5 2 5 2, 8 16 8 7, 6 3 6 0, 5 1 8 3, 7 4 7 4 1e-3 100",
        also=[
            (_CROOKED, np.array([2, 0, 1]), 1, 2),
            (_CLOSE, np.array([3, 1, 0, 2]), 1, 3),
        ],
    ),
    hints=[
        "Where is the vector that m labels? labels == m is True there alone.",
        "The distance of each vector from that one is a row of k numbers. Which time "
        "step comes n-th when you sort them?",
        "np.argsort(distance)[n] is a time step. What stands in `labels` there?",
    ],
    mistakes="""
        you give the time step, not the label that came with it
            labels[np.argsort(distance)[n]] -> np.argsort(distance)[n]
        you treat m as a time step, not as a label
            x[labels == m] -> x[m]
        you look m up in labels as if it were a time step; it is a label
            x[labels == m] -> x[labels[m]]
        your order begins with the farthest
            (distance) -> (-distance)
        you add up the distances along the axes; the Euclidean one is the root of the
        sum of their squares
            np.linalg.norm(x - x[labels == m], axis=-1)
                -> abs(x - x[labels == m]).sum(axis=-1)
        you take the norm of the whole array, one number: each row has its own,
        axis=-1
            , axis=-1 ->
    """,
)
def answer(x, labels, n, m):
    """The label of the vector that is n-th in Euclidean distance from vector m.

    m is the label of that vector, which is number 0 itself. x (k, D), labels (k,).
    """
    distance = np.linalg.norm(x - x[labels == m], axis=-1)  # (k,)
    return labels[np.argsort(distance)[n]]


@exercise(
    cases=lambda rng: [(4,), (8,), (3,), (2,), (1000,)],
    hints=[
        "With k vectors, one question in k asks for m itself. Of the others the answer "
        "is one of the k - 1 other vectors, each as often.",
        "All questions together: 1/k of them always right, (k - 1)/k of them right "
        "once in k - 1 times.",
        "The cross-entropy of a question is -log of the probability given to the right "
        "answer: 0 for the self query, log(k - 1) otherwise.",
    ],
    mistakes="""
        you spread the guesses over all vectors, m among them
            = (1 / k + (k - 1) / k ** 2, 1 / k, (k - 1) / k * math.log(k))
        you take the loss over the other questions alone
            = (2 / k, 1 / (k - 1), math.log(k - 1))
        in the loss you spread a guess over k labels, but m is not among them
            = (2 / k, 1 / (k - 1), (k - 1) / k * math.log(k))
        you guess among k labels where m is not asked for; m is not among them, so k - 1
        are left
            = (2 / k, 1 / k, (k - 1) / k * math.log(k - 1))
        no guess of yours is ever right; one in k - 1 of them is
            = (1 / k, 0.0, (k - 1) / k * math.log(k - 1))
    """,
)
def self_query_floor(k):
    """The worth of knowing the self query alone.

    -> (accuracy, accuracy without self queries, mean cross-entropy in nats).
    """
    return 2 / k, 1 / (k - 1), (k - 1) / k * math.log(k - 1)


def _batches(rng, B, k, D, N):
    labels = np.stack([rng.permutation(N)[:k] for _ in range(B)])
    m = labels[np.arange(B), rng.integers(k, size=B)]
    return rng.uniform(-1, 1, (B, k, D)), labels, rng.integers(k, size=B), m


@exercise(
    cases=each(_batches, "6 4 3 4, 4 4 4 4, 20 8 16 8, 1 3 1 3, 9 3 2 5"),
    large=each(_batches, "3000 4 2 4"),
    unlooped="over the questions",
    hints=[
        "np.linalg.norm(x, axis=-1) has the norms, (B, k). Give the reference a norm "
        "below all others: where labels == m[:, None].",
        "np.argsort(own, axis=1) has the time steps of each question in order. Which "
        "one does n ask for? Index with [np.arange(B), n].",
    ],
    mistakes="""
        the reference stands where its own norm puts it, not first
            -1.0 -> own
        you give the time step, not the label that came with it
            labels[rows, np.argsort(own, axis=1)[rows, n]]
                -> np.argsort(own, axis=1)[rows, n]
        you sort over the questions; the vectors of one question stand in a row, axis=1
            axis=1)[rows -> axis=0)[rows
        you treat m as a time step, not as a label
            labels == m[:, None] -> np.arange(labels.shape[1]) == m[:, None]
        your order begins with the farthest, and so with the largest norm
            argsort(own -> argsort(-own
        after the reference your order begins with the largest norm; n counts from the
        nearest
            [rows, n] -> [rows, -n]
    """,
)
def rank_by_norm(x, labels, n, m):
    """The labels that are n-th by the norms of their own vectors, m itself first.

    x (B, k, D), labels (B, k), n and m (B,) -> (B,).
    """
    own = np.linalg.norm(x, axis=-1)
    own = np.where(labels == m[:, None], -1.0, own)
    rows = np.arange(len(n))
    return labels[rows, np.argsort(own, axis=1)[rows, n]]


# --- An experiment: distances with errors ---------------------------------------------


def _felt(rng, k, error, seed, B=5_000):
    distance = 3 * np.linalg.norm(rng.uniform(-1, 1, (B, k, 4)), axis=-1)
    reference = rng.integers(k, size=B)
    distance[np.arange(B), reference] = 0.0
    return distance, rng.integers(k, size=B), reference, error, seed


@exercise(
    cases=each(_felt, "3 0.1 1, 4 0.3 2, 8 0.03 3, 4 1.5 4, 3 0.0 5"),
    hints=[
        "felt = distance * (1 + error * rng.normal(size=distance.shape)), and then "
        "felt[np.arange(B), reference] = -np.inf.",
        "The time step that is n-th, by felt and by true distances: np.argsort(..., "
        "axis=1)[np.arange(B), n]. How often are the two equal?",
    ],
    mistakes="""
        all distances of a question have the same error, so that their order stays
            size=distance.shape -> size=(len(n), 1)
        the reference is no longer first where an error is large
            -np.inf -> 0.0
    """,
    tolerance=0.03,
)
def right_with_errors(distance, n, reference, error, seed):
    """The share of questions answered right with distances that have errors.

    distance (B, k), n and reference (B,) -> a number.
    """
    rng, rows = np.random.default_rng(seed), np.arange(len(n))
    felt = distance * (1 + error * rng.normal(size=distance.shape))
    felt[rows, reference] = -np.inf
    answers = np.argsort(felt, axis=1)[rows, n]
    return (answers == np.argsort(distance, axis=1)[rows, n]).mean()


# --- The row that climbs --------------------------------------------------------------


def _heads(rng, B, N, F, H, scale=1):
    M, x = scale * rng.normal(size=(B, N, F)), scale * rng.normal(size=(B, F))
    W = [rng.normal(size=(H, F, F // H)) / math.sqrt(F) for _ in range(3)]
    return M, x, *W, 1 + 0.3 * rng.normal(size=3 * F), rng.normal(size=3 * F)


@recorded(
    cases=each(
        _heads,  # in the third as many examples as heads and slots
        "2 3 4 2, 2 4 4 1, 2 2 4 2, 1 3 6 3 30, 3 1 8 4",
    ),
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
    mistakes="""
        your rows stand in the order of the release, queries, keys and values of one
        head after the other's; here gain and offset have all queries first, then all
        keys, then all values
            for W in kinds for h in range(H) -> for h in range(H) for W in kinds
            part[h][..., :N, :], part[H + h], part[2 * H + h]
                -> part[3 * h][..., :N, :], part[3 * h + 1], part[3 * h + 2]
        you reshape the axis of the heads away where it stands, before that of the rows:
        exchange the two first (xp.swapaxes)
            [Z @ W[h] for W in kinds for h in range(H)]
                -> [np.stack([Z @ W[h] for h in range(H)], axis=-3).reshape(Z.shape)
                for W in kinds]
        a reshape alone cuts the heads apart; their axis stands behind that of the rows,
        and must be exchanged with it (xp.swapaxes)
            [normed[..., j * K : (j + 1) * K] for j in range(3 * H)]
                -> [x.reshape(-1, H, N + 1, K)[:, h] for x in np.split(normed, 3, -1)
                for h in range(H)]
        you reshape the results of the heads while their axis stands before that of the
        rows: exchange the two first (xp.swapaxes)
            return xp.concatenate(heads, axis=-1)
                -> return np.stack(heads, axis=-3).reshape(M.shape)
        you reshape the axis of the heads away and back, and never exchange it with that
        of the rows (xp.swapaxes)
            [Z @ W[h] for W in kinds for h in range(H)]
                -> [np.stack([Z @ W[h] for h in range(H)], axis=-3).reshape(Z.shape)
                for W in kinds]
            [normed[..., j * K : (j + 1) * K] for j in range(3 * H)]
                -> [x.reshape(-1, H, N + 1, K)[:, h] for x in np.split(normed, 3, -1)
                for h in range(H)]
            return xp.concatenate(heads, axis=-1)
                -> return np.stack(heads, axis=-3).reshape(M.shape)
        there is no norm: this is equation 2
            equations.layer_norm(xp, qkv, gain, offset) -> qkv
        queries, keys and values each have a norm of their own; one norm runs over all
        three together
            equations.layer_norm(xp, qkv, gain, offset)
                -> gain * xp.concatenate([equations.layer_norm(xp, x, 1.0, 0.0) for
                x in np.split(qkv, 3, axis=-1)], axis=-1) + offset
        the norm runs over the rows, so that slots mix outside of attention
            equations.layer_norm(xp, qkv, gain, offset)
                -> equations.layer_norm(xp, qkv.swapaxes(-1, -2), 1.0, 0.0).swapaxes(
                -1, -2) * gain + offset
        the norm is on [M; x], before the projections
            equations.append_rows(xp, M, x)
                -> equations.layer_norm(xp, equations.append_rows(xp, M, x), 1.0, 0.0)
            equations.layer_norm(xp, qkv, gain, offset) -> qkv * gain + offset
    """,
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


def _share_with_errors(k, D, errors):
    """The share answered right for each error, of 4,000 questions drawn here."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, (4000, k, D))
    n, reference = rng.integers(k, size=(2, 4000))
    away = x - x[np.arange(4000), reference][:, None]
    question = np.linalg.norm(away, axis=-1), n, reference
    return np.array([right_with_errors(*question, error, 8) for error in errors])


def _no_right_shares(curves):
    """The first thing in the curves that no distances with errors would give."""
    for curve in curves:
        sizes = re.findall(r"(\d+) *[x\u00d7] *(\d+)", curve.label)
        if len(sizes) != 1:
            return (
                "the name of each curve should say its vectors and dimensions, such as "
                f"3 x 2: {curve.label!r}"
            )
        right = _share_with_errors(*map(int, sizes[0]), curve.x)
        k = abs(curve.y - right).argmax()
        if abs(curve.y[k] - right[k]) > 0.06:  # draws of 1,000 questions differ by less
            return (
                f"at {curve.label} with an error of {curve.x[k]:.3g} your curve has "
                f"{curve.y[k]:.3g}, and of the check's questions {right[k]:.3g} are "
                "right: are the distances those from the reference?"
            )


picture = Picture("nth_farthest", curves=3, cannot_be=_no_right_shares)
