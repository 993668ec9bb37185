"""Chapter 2: a tape."""

from __future__ import annotations

import numpy as np

from .attention import softmax
from .derived import by_complex_step, log_shares
from .exercise import exercise, normal


@exercise(
    cases=lambda rng: [
        normal(rng, (2, 4), (2, 3), (3, 4)),
        normal(rng, (3, 3), (3, 3), (3, 3)),  # square: a forgotten transpose fits
        normal(rng, (1, 1), (1, 5), (5, 1)),
        (
            1e3 * rng.normal(size=(4, 2)),
            rng.normal(size=(4, 6)),
            1e3 * rng.normal(size=(6, 2)),
        ),
    ],
    hints=[
        "The gradient of a has the shape of a. Which product of g and b, one of them "
        "transposed, gives (I, K)? g is (I, J), b is (K, J).",
        "y[i, j] is the sum over k of a[i, k] b[k, j]. So a[i, k] moves y[i, j] by "
        "b[k, j], for every j: sum g[i, j] b[k, j] over j.",
        "g @ b.T; and for b likewise, with a.T on the other side.",
    ],
    mistakes={
        "you do not transpose the factors": lambda g, a, b: (g @ b, a @ g),
        "you do not transpose a, in the gradient of b": (
            lambda g, a, b: (g @ b.T, a @ g)
        ),
        "you do not transpose b, in the gradient of a": (
            lambda g, a, b: (g @ b, a.T @ g)
        ),
        "the two gradients have changed places": lambda g, a, b: (a.T @ g, g @ b.T),
        "you do not pass g on: these are the derivatives of the sum of all entries": (
            lambda g, a, b: (np.ones_like(g) @ b.T, a.T @ np.ones_like(g))
        ),
    },
    anysize="g",
    exact=by_complex_step(lambda a, b: a @ b, "a b"),
)
def matmul_vjp(g, a, b):
    """The gradients of a and b, given g, the gradient of a @ b.

    g (I, J), a (I, K), b (K, J) -> (like a, like b).
    """
    return g @ b.T, a.T @ g


_softmax_step = by_complex_step(lambda x: np.exp(log_shares(x)), "x")


def _shares(rng):
    def case(*shape):
        g, x = normal(rng, shape, shape)
        return g, softmax(x)

    certain = np.array([[0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
    return [
        case(4),
        case(3, 3),
        case(2, 3, 5),
        (1e3 * rng.normal(size=(2, 4)), certain),
        (rng.normal(size=(3, 1)), np.ones((3, 1))),  # the only share is always 1
    ]


@exercise(
    cases=_shares,
    hints=[
        "The derivative of share y_j with respect to score x_k is y_j (1 - y_k) where "
        "j = k, and -y_j y_k elsewhere.",
        "So x_k gets the sum over j of g_j y_j (delta_jk - y_k): g_k y_k, minus y_k "
        "times a sum that is the same for all k.",
        "That sum is (g * y).sum(axis=-1, keepdims=True).",
    ],
    mistakes={
        "you treat every share as if it stood alone, like a sigmoid": (
            lambda g, y: g * y * (1 - y)
        ),
        "you leave out what a score takes from the other shares": lambda g, y: g * y,
        "you sum over the first axis; the shares of a row lie along the last, "
        "axis=-1": (lambda g, y: g * y - y * (g * y).sum(axis=0, keepdims=True)),
        "the sums lose their axis, so that broadcasting lays them along the "
        "columns (keepdims=True keeps it)": (
            lambda g, y: g * y - y * (g * y).sum(axis=-1)
        ),
        "you sum g alone, not g times the shares": (
            lambda g, y: g * y - y * g.sum(axis=-1, keepdims=True)
        ),
    },
    leading="g y",
    anysize="g",
    exact=lambda g, y: _softmax_step(g, np.log(y)),
)
def softmax_vjp(g, y):
    """The gradient of x, where y = softmax(x) over the last axis.

    g (..., n) is the gradient of y (..., n) -> (..., n).
    """
    gy = g * y
    return gy - y * gy.sum(axis=-1, keepdims=True)


def _in_front(g, shape):
    """The axes that broadcasting put before those of `shape`."""
    return tuple(range(g.ndim - len(shape)))


def _of_size_one(g, shape):
    """The axes of g where `shape` has a 1."""
    extra = g.ndim - len(shape)
    return tuple(extra + axis for axis, size in enumerate(shape) if size == 1)


def _stretched(g, shape):
    """The axes of g that broadcasting stretched from 1."""
    return tuple(axis for axis in _of_size_one(g, shape) if g.shape[axis] != 1)


def _copied(g, shape):
    """All axes along which g holds copies."""
    return _in_front(g, shape) + _stretched(g, shape)


def _aligned_from_the_left(g, shape):
    for axis, (one, other) in enumerate(zip(g.shape, shape, strict=False)):
        if one != other:
            g = g.sum(axis=axis, keepdims=True)
    return g.reshape(shape)


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
        "Broadcasting made two kinds of axes: those that stand in front of `shape`, "
        "and those where `shape` has a 1.",
        "g.sum(axis=...) takes a tuple of axes. The first kind goes away, the second "
        "stays as 1: keepdims=True.",
    ],
    mistakes={
        "you sum the axes in front only, not those that were stretched from 1": (
            lambda g, shape: g.sum(axis=_in_front(g, shape))
        ),
        "you always sum over the first axis; `shape` says which were stretched": (
            lambda g, shape: g.sum(axis=0)
        ),
        "the axes that were stretched from 1 are gone (keepdims=True keeps them)": (
            lambda g, shape: g.sum(axis=_copied(g, shape))
        ),
        "you keep the axes in front as 1, where they should go (keepdims=True is "
        "for the others only)": (
            lambda g, shape: g.sum(axis=_copied(g, shape), keepdims=True)
        ),
        "you compare the two shapes from the left; broadcasting aligns them from "
        "the right": _aligned_from_the_left,
        "you average the copies instead of adding them up": (
            lambda g, shape: g.mean(axis=_copied(g, shape)).reshape(shape)
        ),
    },
    views=True,
)
def unbroadcast(g, shape):
    """The gradient of an array of `shape` that was broadcast to g.shape.

    Sums g over the axes that broadcasting added or stretched -> (like shape).
    """
    in_front = tuple(range(g.ndim - len(shape)))
    g = g.sum(axis=in_front)
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return g.sum(axis=stretched, keepdims=True)


def _turned(x):
    """Each matrix of a stack transposed."""
    return np.swapaxes(x, -1, -2)


def _two_products(g, a, b):
    """The gradients of stacks that nothing has stretched."""
    return g @ _turned(b), _turned(a) @ g


def _brought_home(bring):
    """The two products, each brought to the shape of its argument in this way."""

    def gradients(g, a, b):
        pairs = zip(_two_products(g, a, b), (a, b), strict=True)
        return tuple(bring(product, x.shape) for product, x in pairs)

    return gradients


@exercise(
    cases=lambda rng: [
        normal(rng, (2, 4), (2, 3), (3, 4)),
        normal(rng, (5, 2, 4), (5, 2, 3), (3, 4)),  # a batch meets one matrix
        normal(rng, (4, 3, 3), (3, 3), (4, 3, 3)),  # one matrix meets a batch
        normal(rng, (3, 3, 3), (3, 3, 3), (3, 3, 3)),
        normal(rng, (2, 4, 3, 2), (2, 1, 3, 5), (4, 5, 2)),  # both are stretched
        normal(rng, (1, 2, 1, 1), (1, 1, 1, 3), (1, 2, 3, 1)),
    ],
    hints=[
        "Think of one pair of matrices first: that is `matmul_vjp`. For a stack, `@` "
        "does the same for each pair; only the transpose needs care.",
        "x.T turns all axes round. np.swapaxes(x, -1, -2) transposes each matrix of a "
        "stack and leaves the stack as it is.",
        "A matrix that met many others was used many times: its gradient is a sum. "
        "`unbroadcast(product, a.shape)` makes it.",
    ],
    mistakes={
        "you use .T, which turns all axes round, not only the last two": (
            lambda g, a, b: (g @ b.T, a.T @ g)
        ),
        "you do not add up over the axes along which an argument "
        "was stretched": _two_products,
        "you average over the copies of a matrix instead of adding "
        "them up": _brought_home(
            lambda g, shape: g.mean(axis=_copied(g, shape)).reshape(shape)
        ),
        "you sum the axes in front only, not those that were stretched "
        "from 1": _brought_home(lambda g, shape: g.sum(axis=_in_front(g, shape))),
        "you do not transpose the factors": lambda g, a, b: (g @ b, a @ g),
        "the two gradients have changed places": lambda *case: stacks_vjp(*case)[::-1],
    },
    leading="g a",
    anysize="g",
    exact=by_complex_step(lambda a, b: a @ b, "a b"),
)
def stacks_vjp(g, a, b):
    """The gradients of a and b, given g, the gradient of a @ b, for stacks of matrices.

    g (..., I, J), a (..., I, K), b (..., K, J); the leading axes of a and b broadcast
    -> (like a, like b).
    """
    by_a = g @ np.swapaxes(b, -1, -2)
    by_b = np.swapaxes(a, -1, -2) @ g
    return unbroadcast(by_a, a.shape), unbroadcast(by_b, b.shape)


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
    # 65,536 paths, 16 entries: slow if you walk every path.
    doublings = [(k + 1, [(k, 1.0), (k, 1.0)]) for k in range(16)]

    def inputs(k):
        chosen = rng.choice(k, size=min(k, 3), replace=False)
        return [(int(j), float(rng.normal())) for j in chosen]

    web = [(k, inputs(k)) for k in range(1, 20)]
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


def _add_unmultiplied(gradient, output, value, derivative):
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
        "a value's later contribution replaces the earlier one; add it": (
            lambda entries, count: _walk(entries[::-1], count, _replace)
        ),
        "the loss starts without a derivative; its derivative with respect to "
        "itself is 1": (lambda entries, count: np.zeros(count)),
        "you walk the list from its beginning": (
            lambda entries, count: _walk(entries, count, _add)
        ),
        "you do not multiply by what has arrived at the output: you add up the "
        "local derivatives alone": (
            lambda entries, count: _walk(entries[::-1], count, _add_unmultiplied)
        ),
    },
    lines=3000,
)
def backward(entries, count):
    """The derivative of the loss with respect to every value -> (count,).

    Values are numbered from 0 to count - 1 in the order they were made; the last one is
    the loss. `entries` is a list, in the order they ran, of
    (output, [(input, d output / d input), ...]).
    """
    gradient = np.zeros(count)
    gradient[count - 1] = 1.0
    for output, inputs in reversed(entries):
        for value, derivative in inputs:
            gradient[value] += gradient[output] * derivative
    return gradient
