"""Chapter 16: derivatives by hand, of a norm and of a weight that every step uses."""

from __future__ import annotations

from functools import partial

import numpy as np

from .exercise import Mistake, exercise, normal

# --- RMS norm, backwards --------------------------------------------------------------


def _mean(x):
    return x.mean(axis=-1, keepdims=True)


def _normed(x, epsilon):
    """(n, s) of RMS norm, each row for itself."""
    s = 1 / np.sqrt(_mean(x * x) + epsilon)
    return x * s, s


def _norm_gradient(g, x, gain, epsilon, *, mean=_mean, through_mean=0, sign=1):
    """The solution and, by its arguments, ways to get it wrong."""
    n, s = _normed(x, epsilon)
    h = g * gain
    return s * (h - through_mean * mean(h) - sign * n * mean(h * n))


def _scale_constant(g, x, gain, epsilon):
    return g * gain * _normed(x, epsilon)[1]


def _without_s(g, x, gain, epsilon):
    return rms_norm_gradient(g, x, gain, epsilon) / _normed(x, epsilon)[1]


def _x_for_n(g, x, gain, epsilon):
    _, s = _normed(x, epsilon)
    h = g * gain
    return s * (h - x * _mean(h * x))


def _gain_forgotten(g, x, gain, epsilon):
    return rms_norm_gradient(g, x, np.ones_like(gain), epsilon)


def _gain_last(g, x, gain, epsilon):
    return _gain_forgotten(g, x, gain, epsilon) * gain


def _over_the_batch(g, x, gain, epsilon):
    """As if the mean square were that of all rows together."""
    one_row = (g * gain).reshape(1, -1), x.reshape(1, -1)
    gradient = rms_norm_gradient(*one_row, np.ones(x.size), epsilon)
    return gradient.reshape(x.shape)


def _epsilon_outside(g, x, gain, epsilon):
    s = 1 / (np.sqrt(_mean(x * x)) + epsilon)
    n, h = s * x, g * gain
    return s * (h - n * _mean(h * n))


def _norms(rng):
    def case(*shape, scale=1.0, epsilon=1e-5):
        g, x, gain = normal(rng, shape, shape, shape[-1])
        return g, scale * (x + 1), gain, epsilon

    def with_a_row_of_zeros():
        g, gain = normal(rng, (2, 4), 4)
        return g, np.array([[0.0, 0, 0, 0], [1, -1, 1, -1]]), gain, 1e-2

    return [
        case(3, 5),
        case(4, 4),  # as many rows as columns
        case(2, 3, 6, epsilon=0.5),  # an epsilon that counts
        case(2, 8, scale=1e3),
        with_a_row_of_zeros(),
        case(3, 1),  # a row of one number
    ]


@exercise(
    cases=_norms,
    hints=[
        "Go back the way the row came: y to n, n to x. First h = g * gain; and compute "
        "s and n once more.",
        "In the sum of h * delta_n stands h * n * mean(n * delta_x). Sort it by "
        "delta_x: it becomes n * mean(h * n).",
        "s * (h - n * mean(h * n)). Means run over the last axis, keepdims=True.",
    ],
    mistakes=[
        Mistake(
            "you treat the scale s as a constant",
            _scale_constant,
        ),
        Mistake(
            "you subtract the mean of h as well, which belongs to layer norm",
            partial(_norm_gradient, through_mean=1),
        ),
        Mistake(
            "you add the part that comes through s, and do not subtract it",
            partial(_norm_gradient, sign=-1),
        ),
        Mistake(
            "you forget the factor s before the bracket",
            _without_s,
        ),
        Mistake(
            "you take x, not divided by its size, in place of n",
            _x_for_n,
        ),
        Mistake(
            "you multiply by the gain at the end, behind the norm, and not where it "
            "stands",
            _gain_last,
        ),
        Mistake(
            "you forget the gain",
            _gain_forgotten,
        ),
        Mistake(
            "you take sums in place of means",
            partial(_norm_gradient, mean=lambda x: x.sum(axis=-1, keepdims=True)),
        ),
        Mistake(
            "the mean square runs over all rows together",
            _over_the_batch,
        ),
        Mistake(
            "you add epsilon to the root, not to the mean square under it",
            _epsilon_outside,
        ),
        Mistake(
            "you forget the epsilon",
            lambda g, x, gain, epsilon: rms_norm_gradient(g, x, gain, 0.0),
        ),
    ],
    leading="g x",
    anysize="g",
)
def rms_norm_gradient(g, x, gain, epsilon):
    """d loss / d x of y = gain * x / sqrt(mean(x * x) + epsilon), given d loss / d y.

    g, x (..., F), gain (F,), epsilon a number -> (..., F).
    """
    s = 1 / np.sqrt(_mean(x * x) + epsilon)
    n = x * s
    h = g * gain
    return s * (h - n * _mean(h * n))


# --- the weight of all time steps -----------------------------------------------------


def _reshaped(x, g):
    return x.reshape(x.shape[-1], -1) @ g.reshape(-1, g.shape[-1])


@exercise(
    cases=lambda rng: [
        normal(rng, (4, 2, 3), (4, 2, 5)),
        normal(rng, (3, 3, 3), (3, 3, 3)),  # all sizes alike
        normal(rng, (1, 6, 2), (1, 6, 2)),
        (1e3 * rng.normal(size=(5, 1, 4)), rng.normal(size=(5, 1, 2))),
    ],
    hints=[
        "For one time step it is x[t].T @ g[t]. The same W serves all steps, so its "
        "gradients add up.",
        "A sum over time of sums over examples is one sum over T * B rows.",
        "x.reshape(-1, I).T @ g.reshape(-1, O), with I and O the last axes.",
    ],
    mistakes=[
        Mistake(
            "you count the last time step only",
            lambda x, g: x[-1].T @ g[-1],
        ),
        Mistake(
            "you average the steps' gradients instead of adding them",
            lambda x, g: weight_gradient(x, g) / len(x),
        ),
        Mistake(
            "you divide the sum by the number of rows, T * B",
            lambda x, g: weight_gradient(x, g) / (x.shape[0] * x.shape[1]),
        ),
        Mistake(
            "input and output have changed places",
            lambda x, g: weight_gradient(g, x),
        ),
        Mistake(
            "each time step keeps a gradient of its own",
            lambda x, g: x.swapaxes(1, 2) @ g,
        ),
        Mistake(
            "you reshape where you should transpose: the axes are mixed up",
            _reshaped,
        ),
        Mistake(
            "you sum x and g before you multiply them",
            lambda x, g: np.outer(x.sum(axis=(0, 1)), g.sum(axis=(0, 1))),
        ),
    ],
    anysize="g",
)
def weight_gradient(x, g):
    """d loss / d W of y = x @ W at all T steps at once, given g = d loss / d y.

    x (T, B, I), g (T, B, O) -> (I, O).
    """
    return x.reshape(-1, x.shape[-1]).T @ g.reshape(-1, g.shape[-1])
