"""Chapter 12: back through a step, and through time."""

from __future__ import annotations

import numpy as np

from .derived import by_complex_step
from .exercise import each, exercise, normal
from .gates import gated_vjp, keep_and_take, sigmoid, sigmoid_of_complex
from .memory import little_step, of_small_step, update_memory


def _state(f, i, o, m, candidate, forget_bias):
    """Equations 7 and 8, of complex numbers too."""
    after = keep_and_take(f, i, m, candidate, forget_bias)
    return after, sigmoid_of_complex(o) * np.tanh(after)


def _states(rng, scale, forget_bias, *shape):
    g_m, g_h, m, candidate = normal(rng, shape, shape, shape, shape)
    f, i, o = scale * rng.normal(size=(3, *shape))
    return g_m, g_h, f, i, o, m, candidate, forget_bias


@exercise(
    cases=each(
        _states,  # gates are open or shut, to the last digit, in the fourth
        "1 1 2 3, 1 -2 3 3, 1 0 2 2 4, 1e6 3 2 3, 1 1 1 1",
    ),
    hints=[
        "The new memory is used twice: the next step gets it, and equation 8 shows it. "
        "So what is its whole gradient?",
        "It is g_m + g_h * sigmoid(o) * (1 - tanh(after) ** 2), where after is the new "
        "memory. Compute it once more with `update_memory`.",
        "With that sum, `gated_vjp` gives the gradients of f, i, m and candidate. And "
        "o gets g_h * tanh(after) times the slope of its sigmoid.",
    ],
    mistakes="""
        you leave out what comes back through h: the new memory is used twice
            + g_h * show * (1 - shown * shown) ->
        you leave out the slope of the tanh
            * (1 - shown * shown) ->
        you add g_m and g_h first and send both through equation 8: g_m does not pass it
            g_m + g_h * show -> (g_m + g_h) * show
        you take the tanh of the memory before the update; h shows the new one
            np.tanh(after) -> np.tanh(m)
        o has seen tanh(m), not m: its gradient lacks the tanh
            g_h * shown -> g_h * after
        you leave out the slope of the output gate's sigmoid
            * show * (1 - show) ->
        the gradients of m and of the candidate have changed places
            by_o, by_m, by_candidate -> by_o, by_candidate, by_m
    """,
    leading="g_m g_h f i o m candidate",
    anysize="g_m g_h",
    precise=True,
    exact=by_complex_step(_state, "f i o m candidate", outputs=2),
)
def state_vjp(g_m, g_h, f, i, o, m, candidate, forget_bias):
    """The gradients of f, i, o, m and candidate, given those of the new m and new h.

    Equations 7 and 8. All arrays are alike, (..., F) -> five of the same shape.
    """
    after = update_memory(np, f, i, m, candidate, forget_bias)
    show, shown = sigmoid(o), np.tanh(after)
    by_o = g_h * shown * show * (1 - show)
    g = g_m + g_h * show * (1 - shown * shown)  # used twice: two gradients add up
    by_f, by_i, by_m, by_candidate = gated_vjp(g, f, i, m, candidate, forget_bias)
    return by_f, by_i, by_o, by_m, by_candidate


def little_vjp(x, m, h, g_m, g_h, w):
    """The vjp of `little_step`."""
    keep = sigmoid(w[0] * h + 1)
    shown = np.tanh(keep * m + w[1] * x)
    g = g_m + g_h * w[2] * (1 - shown * shown)
    by_f = g * m * keep * (1 - keep)
    return g * keep, by_f * w[0], np.stack([by_f * h, g * x, g_h * shown])


def _sequence(rng, T, F, scale=1):
    """A step's vjp, inputs, the states before them and gradients of what is shown."""
    w, (m, h) = rng.normal(size=(3, F)), rng.normal(size=(2, F))
    xs, states = rng.normal(size=(T, F)), []
    for x in xs:
        states.append((m, h))
        m, h = little_step(x, m, h, w)
    return of_small_step(little_vjp, w), xs, states, scale * rng.normal(size=(T, F))


def _unrolled(xs, m, h, w):
    shown = []
    for x in xs:
        m, h = little_step(x, m, h, w)
        shown.append(h)
    return np.stack(shown)


@exercise(
    cases=each(_sequence, "3 2, 4 4, 1 3, 30 2, 5 3 1e3"),
    hints=[
        "The walk of chapter 3 with a whole step in place of an entry: from the last "
        "step to the first. After the last step nobody needs m any more.",
        "h of step t is used twice: by the loss, which gives g[t], and by step t + 1. "
        "Add both before you call step_vjp. All steps use the same weights.",
        "g_m, g_h, g_w = step_vjp(xs[t], *states[t], g_m, g_h + g[t]); total += g_w. "
        "Begin with zeros like g[0].",
    ],
    mistakes="""
        you walk from the first step to the last
            reversed(range(len(xs))) -> range(len(xs))
        what the loss gives to h takes the place of what comes from the step after; add
        both
            g_h + g[t] -> g[t]
        you do not hand the memory's gradient on to the step before
            [t], g_m, -> [t], 0 * g_m,
        you add g[t] after step t, not before: it arrives one step too early
            g_h + g[t]) -> g_h); g_h = g_h + g[t]
        the weights keep what one step gives them, not the sum of all
            total + g_w -> g_w
    """,
    anysize="g",
    exact=lambda step_vjp, xs, states, g: by_complex_step(_unrolled, "m h w")(
        g, xs, *states[0], step_vjp.keywords["w"]
    ),
)
def through_time(step_vjp, xs, states, g):
    """Back-propagation through time -> the gradients of the first m, the first h and w.

    xs (T, ...), the inputs; states, T pairs (m, h), before each step; g (T, ...), what
    the loss gives to the h that each step shows.
    step_vjp(x, m, h, g_m, g_h) takes the gradients of a step's new m and new h, and
    gives those of its m, of its h and of the weights that all steps share.
    """
    g_m, g_h, total = np.zeros_like(g[0]), np.zeros_like(g[0]), 0.0
    for t in reversed(range(len(xs))):
        g_m, g_h, g_w = step_vjp(xs[t], *states[t], g_m, g_h + g[t])
        total = total + g_w
    return g_m, g_h, total


def _windows(rng, T, F, length):
    return *_sequence(rng, T, F), length


@exercise(
    cases=each(_windows, "5 2 2, 4 4 4, 3 3 1, 12 2 5, 6 3 3"),
    hints=[
        "It is the walk of through_time, but at some steps nothing is handed on to the "
        "step before.",
        "The first step of a window has t % length == 0. What it would hand back "
        "becomes zeros; what it says about the weights counts.",
    ],
    mistakes="""
        you cut nothing
            t % length == 0 -> False
        you cut one step late: the first window begins at step 0
            t % length == 0 -> t % length == 1 % length
        the last window is missing where it is shorter
            range(len(xs)) -> range(len(xs) // length * length)
        the weights keep what one step gives them, not the sum of all
            total + g_w -> g_w
    """,
)
def in_windows(step_vjp, xs, states, g, length):
    """The gradient of the weights, where nothing goes back past a window's first step.

    As `through_time`; windows of `length` steps begin at step 0 -> like the weights.
    """
    g_m, g_h, total = np.zeros_like(g[0]), np.zeros_like(g[0]), 0.0
    for t in reversed(range(len(xs))):
        g_m, g_h, g_w = step_vjp(xs[t], *states[t], g_m, g_h + g[t])
        total = total + g_w
        if t % length == 0:  # the state that this window began with is taken as given
            g_m, g_h = 0 * g_m, 0 * g_h
    return total
