"""Chapter 2: a tape."""

from __future__ import annotations

import numpy as np

from .attention import softmax
from .exercise import exercise


@exercise(
    cases=lambda rng: [
        (rng.normal(size=(2, 4)), rng.normal(size=(2, 3)), rng.normal(size=(3, 4))),
        (
            rng.normal(size=(3, 3)),
            rng.normal(size=(3, 3)),
            rng.normal(size=(3, 3)),
        ),  # square: a forgotten transpose fits
        (rng.normal(size=(1, 1)), rng.normal(size=(1, 5)), rng.normal(size=(5, 1))),
        (
            1e3 * rng.normal(size=(4, 2)),
            rng.normal(size=(4, 6)),
            1e3 * rng.normal(size=(6, 2)),
        ),
    ],
    hints=[
        "The gradient of a has the shape of a. Which product of g (I, J) and b (K, "
        "J), one of them transposed, gives (I, K)?",
        "y[i, j] is the sum over k of a[i, k] b[k, j]. So a[i, k] moves y[i, j] by "
        "b[k, j], for every j: sum g[i, j] b[k, j] over j.",
        "g @ b.T; and for b likewise, with a.T on the other side.",
    ],
    mistakes={
        "the factors are not transposed": lambda g, a, b: (g @ b, a @ g),
        "the two gradients have changed places": lambda g, a, b: (a.T @ g, g @ b.T),
        "both gradients come out transposed": lambda g, a, b: (b @ g.T, g.T @ a),
        "g has not been passed on: these are the derivatives of the sum of all "
        "entries": lambda g, a, b: (
            np.ones_like(g) @ b.T,
            a.T @ np.ones_like(g),
        ),
    },
)
def matmul_vjp(g, a, b):
    """The gradients of a (I, K) and b (K, J), where g (I, J) is that of a @ b -> (like
    a, like b).
    """
    return g @ b.T, a.T @ g


def _shares(rng):
    return [
        (rng.normal(size=4), softmax(rng.normal(size=4))),
        (rng.normal(size=(3, 3)), softmax(rng.normal(size=(3, 3)))),
        (rng.normal(size=(2, 3, 5)), softmax(rng.normal(size=(2, 3, 5)))),
        (
            1e3 * rng.normal(size=(2, 4)),
            np.array([[0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]]),
        ),
        (rng.normal(size=(3, 1)), np.ones((3, 1))),  # the only share is always 1
    ]


@exercise(
    cases=_shares,
    hints=[
        "The derivative of share y_j by score x_k is y_j (1 - y_k) where j = k, and "
        "-y_j y_k elsewhere.",
        "So x_k gets the sum over j of g_j y_j (delta_jk - y_k): g_k y_k, minus y_k "
        "times a sum that is the same for all k.",
        "That sum is (g * y).sum(axis=-1, keepdims=True).",
    ],
    mistakes={
        "every share is treated as if it stood alone, like a sigmoid": lambda g, y: (
            g * y * (1 - y)
        ),
        "what a score takes from the other shares is left out": lambda g, y: g * y,
        "the sum runs over all rows, not within each": lambda g, y: (
            g * y - y * (g * y).sum()
        ),
        "the axis of the sums is gone, so that broadcasting lays them along the "
        "columns (keepdims=True keeps it)": lambda g, y: (
            g * y - y * (g * y).sum(axis=-1)
        ),
        "the sum is of g alone, not of g times the shares": lambda g, y: (
            g * y - y * g.sum(axis=-1, keepdims=True)
        ),
    },
)
def softmax_vjp(g, y):
    """The gradient of x, where y = softmax(x) (..., n) over the last axis and g (...,
    n) is the gradient of y -> (..., n).
    """
    gy = g * y
    return gy - y * gy.sum(axis=-1, keepdims=True)


def _extra(g, shape):
    return tuple(range(g.ndim - len(shape)))


def _stretched(g, shape):
    return tuple(
        g.ndim - len(shape) + axis
        for axis, size in enumerate(shape)
        if size == 1 and g.shape[g.ndim - len(shape) + axis] != 1
    )


@exercise(
    cases=lambda rng: [
        (rng.normal(size=(3, 4)), (4,)),
        (rng.normal(size=(3, 4)), (3, 1)),
        (rng.normal(size=(3, 3)), (1, 3)),
        (rng.normal(size=(2, 3, 4)), (3, 1)),
        (rng.normal(size=(2, 3, 4)), ()),
        (rng.normal(size=(2, 1, 4)), (2, 1, 4)),
        (1e3 * rng.normal(size=(2, 3, 3)), (1, 3, 3)),
    ],
    hints=[
        "An entry that was used many times gets the sum of what all its copies get.",
        "Two kinds of axes have been made by broadcasting: those that stand in front "
        "of `shape`, and those where `shape` has a 1.",
        "g.sum(axis=...) takes a tuple of axes. The first kind goes away, the second "
        "stays as 1: keepdims=True.",
    ],
    mistakes={
        "only the axes in front are summed, not those that were stretched from 1": lambda g, shape: (
            g.sum(axis=_extra(g, shape))
        ),
        "the axes that were stretched from 1 are gone (keepdims=True keeps them)": lambda g, shape: (
            g.sum(axis=_extra(g, shape) + _stretched(g, shape))
        ),
        "all axes of size 1 are gone, also those that were 1 long before "
        "(keepdims=True keeps them)": lambda g, shape: g.sum(
            axis=_extra(g, shape)
            + tuple(
                len(_extra(g, shape)) + axis
                for axis, size in enumerate(shape)
                if size == 1
            )
        ),
        "the axes in front are kept as 1, where they should go (keepdims=True is for "
        "the others only)": lambda g, shape: g.sum(
            axis=_extra(g, shape) + _stretched(g, shape), keepdims=True
        ),
        "the copies are averaged, not added up": lambda g, shape: g.mean(
            axis=_extra(g, shape) + _stretched(g, shape)
        ).reshape(shape),
        "one copy's gradient is taken and the others are lost": lambda g, shape: g[
            tuple(
                0 if axis in _extra(g, shape) + _stretched(g, shape) else slice(None)
                for axis in range(g.ndim)
            )
        ].reshape(shape),
    },
)
def unbroadcast(g, shape):
    """The gradient of an array of `shape` that was broadcast to g.shape: g summed over
    the axes that this added or stretched -> shape.
    """
    extra = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(extra)))  # axes in front
    return g.sum(
        axis=tuple(axis for axis, size in enumerate(shape) if size == 1), keepdims=True
    )


def _recordings(rng):
    chain = [(1, [(0, 2.0)]), (2, [(1, -3.0)]), (3, [(2, 0.5)])]
    twice = [(1, [(0, 5.0)]), (2, [(1, 1.0), (1, 1.0)])]
    diamond = [(1, [(0, 2.0)]), (2, [(0, 3.0)]), (3, [(1, 10.0), (2, 100.0)])]
    unused = [
        (2, [(0, 7.0)]),
        (3, [(1, 4.0), (2, 4.0)]),
        (4, [(1, 9.0)]),
        (5, [(2, 6.0)]),
    ]
    doublings = [
        (k + 1, [(k, 1.0), (k, 1.0)]) for k in range(16)
    ]  # 65,536 paths, 16 entries: slow for whoever walks every path
    web = [
        (
            k,
            [
                (int(j), float(rng.normal()))
                for j in rng.choice(k, size=min(k, 3), replace=False)
            ],
        )
        for k in range(1, 20)
    ]
    return [
        (chain, 4),
        (twice, 3),
        (diamond, 4),
        (unused, 6),
        (doublings, 17),
        (web, 20),
    ]


def _walk(entries, count, pass_on):
    gradient = np.zeros(count)
    gradient[-1] = 1.0
    for output, inputs in entries:
        for value, derivative in inputs:
            pass_on(gradient, output, value, derivative)
    return gradient


def _add(gradient, output, value, derivative):
    gradient[value] += gradient[output] * derivative


def _replace(gradient, output, value, derivative):
    gradient[value] = gradient[output] * derivative


def _local(gradient, output, value, derivative):
    gradient[value] += derivative


@exercise(
    cases=_recordings,
    hints=[
        "Start with 0 for every value and 1 for the loss. When may an entry pass on "
        "what its output has got?",
        "Not before all uses of its output have paid in. All of them stand further "
        "down the list, so go through it from its end.",
        "For each input: gradient[input] += gradient[output] * derivative.",
    ],
    mistakes={
        "a value's later contribution replaces the earlier one, where it should be "
        "added": lambda entries, count: _walk(entries[::-1], count, _replace),
        "nothing stands on the loss to begin with, where its derivative by itself is "
        "1": lambda entries, count: np.zeros(count),
        "the list is walked from its beginning": lambda entries, count: _walk(
            entries, count, _add
        ),
        "what has arrived at the output is not multiplied on: the local derivatives "
        "alone are added up": lambda entries, count: _walk(
            entries[::-1], count, _local
        ),
    },
)
def backward(entries, count):
    """The derivative of the loss by every value.

    Values are numbered from 0 to count - 1 in the order they were made, the last is the
    loss.

    entries: a list of (output, [(input, derivative of the output by it), ...]), in the
        order they ran -> (count,).
    """
    gradient = np.zeros(count)
    gradient[count - 1] = 1.0
    for output, inputs in reversed(entries):
        for value, derivative in inputs:
            gradient[value] += gradient[output] * derivative
    return gradient
