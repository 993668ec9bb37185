"""Chapter 23: derivatives by hand, of a norm and of a weight that every step uses."""

from __future__ import annotations

from functools import partial

import numpy as np

from .derived import by_complex_step
from .exercise import exercise, normal
from .norms import RMS_NORM, mean

# --- RMS norm, backwards --------------------------------------------------------------


def _without_keepdims(g, x, gain, epsilon):
    s = 1 / np.sqrt(np.mean(x * x, axis=-1) + epsilon)
    n = s * x
    h = g * gain
    return s * (h - n * np.mean(h * n, axis=-1))


def _mean_without_gain(g, x, gain, epsilon):
    n, s = RMS_NORM.rows(x, epsilon)
    return s * (g * gain - n * mean(g * n))


@exercise(
    cases=RMS_NORM.cases,
    hints=[
        "Go back the way the row came: y to n, n to x. First h = g * gain; and compute "
        "s and n once more.",
        "In the sum of h * delta_n stands h * n * mean(n * delta_x). Collect what "
        "multiplies delta_x: n * mean(h * n).",
        "s * (h - n * mean(h * n)). Means run over the last axis, keepdims=True.",
    ],
    mistakes={
        "you subtract the mean of h as well, which belongs to layer norm": partial(
            RMS_NORM.gradient, of_mean=1
        ),
        "you add the part that comes through s, and do not subtract it": partial(
            RMS_NORM.gradient, of_scale=-1
        ),
        "the means lose their axis, so that rows and means do not fit "
        "(keepdims=True keeps it)": _without_keepdims,
        "you take the mean of g * n; the gain counts there, too: h "
        "* n": _mean_without_gain,
        **RMS_NORM.mistakes(),
    },
    leading="g x",
    anysize="g",
    exact=by_complex_step(RMS_NORM.forward, "x"),
)
def rms_norm_gradient(g, x, gain, epsilon):
    """d loss / d x of y = gain * x / sqrt(mean(x * x) + epsilon), given d loss / d y.

    g, x (..., F), gain (F,), epsilon a number -> (..., F).
    """
    s = 1 / np.sqrt(mean(x * x) + epsilon)
    n = x * s
    h = g * gain
    return s * (h - n * mean(h * n))


# --- the weight of all time steps -----------------------------------------------------


_product_step = by_complex_step(lambda x, W: x @ W, "W")


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
    mistakes={
        "you count the last time step only": lambda x, g: x[-1].T @ g[-1],
        "you average the steps' gradients instead of adding them": (
            lambda x, g: weight_gradient(x, g) / len(x)
        ),
        "input and output have changed places": lambda x, g: weight_gradient(g, x),
        "each time step keeps a gradient of its own": lambda x, g: x.swapaxes(1, 2) @ g,
        "you reshape where you should transpose: the axes are mixed up": (
            lambda x, g: x.reshape(x.shape[-1], -1) @ g.reshape(-1, g.shape[-1])
        ),
    },
    anysize="g",
    exact=lambda x, g: _product_step(g, x, np.zeros((x.shape[-1], g.shape[-1]))),
)
def weight_gradient(x, g):
    """d loss / d W of y = x @ W at all T steps at once, given g = d loss / d y.

    x (T, B, I), g (T, B, O) -> (I, O).
    """
    return x.reshape(-1, x.shape[-1]).T @ g.reshape(-1, g.shape[-1])
