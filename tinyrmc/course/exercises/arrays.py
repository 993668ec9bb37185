"""Chapter 1: arrays."""

import numpy as np

from .exercise import each, exercise, normal
from .experiments import Picture


@exercise(
    cases=lambda rng: [
        normal(rng, (3, 5)),
        normal(rng, (4, 4)),  # square: means without their axis fit, but wrongly
        normal(rng, (2, 3, 4)),
        normal(rng, (3, 3, 3)),
        normal(rng, (5, 1)),
        (1e4 + rng.normal(size=(2, 2, 6)),),
    ],
    hints=[
        "The units of a slot lie along the last axis, axis=-1, whatever is in front.",
        "Give the means the shape (..., N, 1), so that each is stretched along its own "
        "slot: keepdims=True.",
    ],
    mistakes="""
        you take the mean over the slots, unit by unit, not within each slot
            axis=-1 -> axis=-2
        you count the axis from the front: of a batch, axis 0 holds the examples
            axis=-1 -> axis=0
        you count the axis from the front: of a batch, axis 1 holds the slots
            axis=-1 -> axis=1
        you take the mean of all entries, not one for each slot
            axis=-1, keepdims=True ->
        you subtract the sum of a slot, not its mean
            mean( -> sum(
        you also divide by the standard deviation; only the mean is asked for
            = (M - M.mean(axis=-1, keepdims=True)) / M.std(axis=-1, keepdims=True)
    """,
    leading="M",
    anysize="M",
)
def centred(M):
    """Every slot minus the mean of its own units: M (..., N, F) -> (..., N, F)."""
    return M - M.mean(axis=-1, keepdims=True)


@exercise(
    cases=lambda rng: [
        normal(rng, (3, 5)),
        normal(rng, (4, 4)),
        normal(rng, (2, 3, 5)),
        normal(rng, (3, 3, 3)),  # examples, slots and units alike in number
        normal(rng, (1, 7)),
        (np.ones((2, 3)) * 100 * rng.normal(size=3),),  # the same slot twice
    ],
    hints=[
        "Give the memory one more axis in two ways: broadcasting then pairs all slots.",
        "The differences have the shape (..., N, N, F): M[..., :, None, :] holds the "
        "one slot, M[..., None, :, :] the other.",
    ],
    mistakes="""
        you multiply slots, as M @ M.T does; a distance begins with a difference
            = M @ M.swapaxes(-1, -2)
        you add up the differences before you square them
            (differences**2).sum(axis=-1) -> differences.sum(axis=-1) ** 2
        you sum over the slots, not over the units
            sum(axis=-1) -> sum(axis=-2)
        you count the new axes from the front, so that a batch pairs examples, not slots
            M[..., :, None, :] - M[..., None, :, :] -> M[:, None] - M[None]
    """,
    leading="M",
    anysize="M",
)
def squared_distances(M):
    """How far every slot is from every other, squared: M (..., N, F) -> (..., N, N)."""
    differences = M[..., :, None, :] - M[..., None, :, :]  # (..., N, N, F)
    return (differences**2).sum(axis=-1)


@exercise(
    cases=each(
        lambda rng, B, N, F, H, K: normal(rng, (B, N, F), (H, F, K)),
        "2 3 4 5 6, 3 3 3 3 3, 1 4 2 3 2, 2 5 4 2 4, 4 1 6 1 2",
    ),
    hints=[
        "@ multiplies the last two axes, and broadcasts those before. Before them M "
        "has (B,) and W has (H,); the result needs (B, H).",
        "If M had the shape (B, 1, N, F), its leading axes (B, 1) and those of W, "
        "(H,), would make (B, H).",
        "M[:, None] has that shape.",
    ],
    mistakes="""
        M has no axis for the heads, so that example b meets head b alone
            [:, None] ->
        the heads stand before the examples
            M[:, None] @ W -> M[None] @ W[:, None]
    """,
    anysize="M",
)
def project(M, W):
    """Every slot of every example, multiplied by the matrix of every head.

    M (B, N, F), W (H, F, K) -> (B, H, N, K).
    """
    return M[:, None] @ W


def _questions(rng, B, N, D):
    return rng.normal(size=(B, N, D)), *rng.integers(N, size=(2, B))


@exercise(
    cases=each(_questions, "5 4 2, 3 3 3, 4 4 4, 1 6 1, 6 2 3"),
    large=each(_questions, "3000 4 2"),
    unlooped="over the examples",
    hints=[
        "First the points that are asked about, one for each example: two arrays of "
        "integers as an index, points[np.arange(B), m].",
        "Give them an axis for the slots, so that broadcasting subtracts them from all "
        "points of their example. Then (B, N) squared distances.",
        "argsort along the last axis puts the nearest first; of each row you want "
        "entry n.",
    ],
    mistakes="""
        you count from the farthest; 0 is m itself
            (away**2) -> (-(away**2))
        you sort the points by their distance from the origin, not from m
            - points[rows, m][:, None] ->
        you add up the differences without their squares
            (away**2) -> away
        you take the distances from point n, not from point m
            points[rows, m] -> points[rows, n]
        argsort runs over the examples, not over the points of each
            argsort(axis=-1) -> argsort(axis=0)
        `[:, m]` takes all of m for every example; pair them: `[np.arange(B), m]`
            = ((points[:, :, None] - points[:, None])**2).sum(axis=-1)[:, m].argsort(
                axis=-1)[np.arange(len(points)), n]
        `[:, m]` and `[:, n]` take all of m and n for every example; pair them:
        `[np.arange(B), m]`, and n likewise
            = ((points[:, :, None] - points[:, None])**2).sum(axis=-1)[:, m].argsort(
                axis=-1)[:, n]
        points[:, m] takes all of m for each example: points[np.arange(B), m] pairs them
            points[rows, m][:, None] -> points[:, m]
        you answer all questions for each example: the index of the rows is missing
            nearest_first[rows, n] -> nearest_first[:, n]
        you give the distances' ranks, not the points in their order
            argsort(axis=-1) -> argsort(axis=-1).argsort(axis=-1)
        you give distances, in their order; argsort gives the points
            nearest_first[rows, n] -> np.sort((away**2).sum(axis=-1))[rows, n]
    """,
)
def nth_from(points, m, n):
    """Which point is number n in distance from point m? Number 0 is m itself.

    points (B, N, D), m and n (B,) integers -> (B,) integers.
    """
    rows = np.arange(len(points))
    away = points - points[rows, m][:, None]  # (B, N, D)
    nearest_first = (away**2).sum(axis=-1).argsort(axis=-1)  # (B, N)
    return nearest_first[rows, n]


def _wide_slots(rng, B, N, H, V):
    return rng.normal(size=(B, N, H * V)), H


@exercise(
    cases=each(_wide_slots, "2 3 4 5, 3 3 3 3, 1 4 2 2, 2 5 1 3, 2 1 3 2, 2 4 3 1"),
    hints=[
        "Two steps: cut the last axis into two, then exchange two axes.",
        "x.reshape(B, N, H, V) cuts; .swapaxes(1, 2) exchanges slots and heads.",
    ],
    mistakes="""
        you reshape to (B, H, N, V) at once, which gives heads pieces of other heads
            (B, N, H, -1).swapaxes(1, 2) -> (B, H, N, -1)
        each head gets every H-th unit, not a block of neighbours
            (B, N, H, -1).swapaxes(1, 2) -> (B, N, -1, H).transpose(0, 3, 1, 2)
    """,
    views=True,
)
def split_heads(x, H):
    """Heads that lie side by side in the last axis get an axis of their own.

    x (B, N, H * V) -> (B, H, N, V).
    """
    B, N, _ = x.shape
    return x.reshape(B, N, H, -1).swapaxes(1, 2)


@exercise(
    cases=lambda rng: [
        (np.array([2, 0, 1]), 3),
        (rng.integers(4, size=(2, 5)), 4),
        (np.array([0, 0, 0]), 6),  # the labels do not tell how many there could be
        (np.array(3), 4),
        (np.array([], dtype=int), 2),
    ],
    hints=[
        "The rows of the identity matrix, np.eye(size), are the one-hot vectors.",
        "An array of integers as an index picks rows. The result has the shape of the "
        "integers, followed by that of a row.",
    ],
    mistakes="""
        one array as an index picks whole rows: rows[labels] = 1 fills them
            return np.eye(size)[labels]
                -> rows = 0 * np.eye(size)[labels]; rows[labels] = 1; return rows
        your result is as wide as the largest label needs, not as wide as size
            np.eye(size) -> np.eye(labels.max(initial=0) + 1)
        the labels run along the last axis, and their vectors stand in columns
            = np.moveaxis(np.eye(size)[labels], -1, 0)
    """,
    leading="labels",
    precise=True,
)
def one_hot(labels, size):
    """A 1 at the place of each label, 0 elsewhere.

    labels (...,), integers from 0 to size - 1 -> (..., size).
    """
    return np.eye(size)[labels]


def _no_distances(curves):
    """The first thing that no smallest and largest distances would show, or nothing."""
    low, high = sorted(curves, key=lambda each: each.y.sum())[:2]
    if min(low.y.min(), high.y.min()) < 0:
        return "a distance is never below 0"
    if np.mean(low.y == 0) >= 0.5:
        return "the smallest distance is mostly 0: leave out a slot from itself"
    if "larg" in low.label.lower() or "small" in high.label.lower():
        return "the smallest distances have the name of the largest"
    if low.y.shape == high.y.shape and (low.y > high.y).any():
        return "at one place the smallest distance is above the largest"


picture = Picture("arrays", cannot_be=_no_distances)
