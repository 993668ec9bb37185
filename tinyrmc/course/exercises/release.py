"""Chapter 11: the paper against the release."""

import math

import numpy as np

from ... import equations
from . import memory
from .exercise import exercise
from .experiments import Picture
from .gates import sigmoid
from .recorded import recorded


@exercise(
    cases=lambda rng: [
        (rng.normal(size=(4, 6)),),
        (3 + rng.normal(size=(2, 5, 5)),),
        (np.zeros((3, 4)),),
        (np.tile(rng.normal(size=6), (3, 1)),),
        (1e6 * rng.normal(size=(2, 3, 4, 8)),),
        (np.eye(5),),
    ],
    hints=[
        "The slots lie along the last axis but one. How far is each from their mean?",
        "The root of the mean square of all that, divided by the root of the mean "
        "square of m; and 0 where m is 0.",
    ],
    mistakes="""
        you take the mean of the whole memory; each unit has its own
            m.mean(axis=-2, keepdims=True) -> m.mean()
        you take the mean over a slot's units; it is the mean slot that you need, over
        the last axis but one
            m.mean(axis=-2, keepdims=True) -> m.mean(axis=-1, keepdims=True)
        you do not divide by the size of the memory
            np.sqrt((m * m).mean()) -> 1.0
        you take the length of each slot and then the mean of the lengths; take the mean
        of all squares first, and one root in the end
            np.sqrt((away * away).mean()) / size
                -> np.linalg.norm(away, axis=-1).mean() / np.linalg.norm(m,
                axis=-1).mean()
        you take the length of each slot and then the mean of the lengths of what is
        left; take the mean of all squares first, and one root in the end
            np.sqrt((away * away).mean())
                -> np.linalg.norm(away, axis=-1).mean() / m.shape[-1] ** 0.5
        a memory of zeros is 0 / 0: say 0
            if size else 0.0 ->
    """,
)
def spread(m):
    """How far the slots of m (..., N, F) lie apart, as a share of their size.

    The root of the mean square of their distances from their mean, divided by that of
    m -> a number, 0 for zeros.
    """
    away = m - m.mean(axis=-2, keepdims=True)
    size = np.sqrt((m * m).mean())
    return float(np.sqrt((away * away).mean()) / size) if size else 0.0


def _steps(rng):
    cases = []
    for x, m, _, p in memory.steps(rng):
        F = m.shape[-1]
        p = {name: value for name, value in p.items() if not name.endswith("_o")}
        p["attended_gain"], p["attended_offset"] = rng.normal(size=(2, F))
        cases.append((x, m, p))
    return cases


@recorded(
    cases=_steps,
    hints=[
        "Take your step of chapter 10, and go through the table row by row. There is "
        "no h, and nothing to show: the new memory is all that you return.",
        "After attention: my.layer_norm(xp, m + attended, p['attended_gain'], "
        "p['attended_offset']), and g_psi of that.",
        "The gates get xp.tanh(m) in place of h. The candidate goes through xp.tanh "
        "before update_memory takes it.",
    ],
    mistakes="""
        you do not add the memory to what attention brings
            m + attended -> attended
        you leave out the norm after the attention
            equations.layer_norm(xp, m + attended, *gains) -> m + attended
        you add the memory after the norm; the norm is over the sum
            equations.layer_norm(xp, m + attended,
                -> m + equations.layer_norm(xp, attended,
        your gates see m itself, not tanh(m)
            xp.tanh(m) -> m
        you write the candidate without its tanh
            xp.tanh(candidate) -> candidate
        equation 7 keeps a share of m itself; tanh(m) is what the gates see
            f, i, m, candidate -> f, i, seen, candidate
        the gains and offsets of the two norms have changed places: attended_gain and
        attended_offset belong to the norm after attention
            gains = p["attended_gain"], p["attended_offset"]
                -> gains = p["gain"], p["offset"]
            p["gain"], p["offset"])
                -> p["attended_gain"], p["attended_offset"])
    """,
    anysize="x",
)
def released_step(xp, x, m, p):
    """One step of the release, without its norm on queries, keys and values.

    x (B, F), m (B, N, F), p the weights by name -> the new m (B, N, F).
    """
    attended = equations.multi_head_attention(xp, m, x, p["W_q"], p["W_k"], p["W_v"])
    gains = p["attended_gain"], p["attended_offset"]
    z = equations.layer_norm(xp, m + attended, *gains)
    candidate = equations.g_psi(xp, z, p["mlp"], p["gain"], p["offset"])
    seen = xp.tanh(m)
    f = equations.gate(xp, x, seen, p["W_f"], p["U_f"], p["b_f"])
    i = equations.gate(xp, x, seen, p["W_i"], p["U_i"], p["b_i"])
    candidate = xp.tanh(candidate)
    return equations.update_memory(xp, f, i, m, candidate, p["forget_bias"])


@exercise(
    cases=lambda rng: [
        (0.0, 0.0, 1.0, 1.0),
        (0.5, -2.0, 3.0, -0.7),
        (-3.0, 1.0, 0.0, 5.0),
        (30.0, 0.0, 10.0, 1.0),
        *[(*map(float, rng.normal(size=3)), float(c)) for c in rng.normal(size=2)],
    ],
    hints=[
        "Where it has settled, a step changes nothing: m = k m + w c, with k and w for "
        "the two gates. Solve for m.",
        "m = w c / (1 - k). But where k is nearly 1, 1 - k has lost its digits. What "
        "is 1 - sigmoid(a), as a formula in exp(a)?",
        "1 / (1 - sigmoid(a)) = 1 + exp(a)",
    ],
    mistakes="""
        1 minus a gate that is nearly 1 is 0, and you divide by it: write it with exp
            * (1 + math.exp(f + forget_bias))
                -> / np.float64(1 - sigmoid(f + forget_bias))
        1 minus a gate that is nearly 1 is 0, and nothing can be divided by it: write it
        with exp
            sigmoid(i) * c * (1 + math.exp(f + forget_bias))
                -> float(sigmoid(i) * c) / (1 - 1 / (1 + math.exp(-f - forget_bias)))
        you divide by the forget gate, not by what it takes away
            * (1 + math.exp(f + forget_bias)) -> / sigmoid(f + forget_bias)
        you leave out the input gate
            sigmoid(i) * c -> c
        the forget gate has its bias added before the sigmoid
            f + forget_bias -> f
    """,
    precise=True,
)
def settles(f, i, forget_bias, c):
    """Where m settles, if m = sigmoid(f + forget_bias) m + sigmoid(i) c at every step.

    Four numbers -> a number.
    """
    return sigmoid(i) * c * (1 + math.exp(f + forget_bias))


def _no_spreads(curves):
    """The first thing that no spreads of slots would show, or nothing."""
    if any((each.y < 0).any() for each in curves):
        return "a spread is a root of squares, so it is not below 0"
    if max(each.x.max() for each in curves) < 20:
        return "read more inputs, twenty at least: slots come together slowly"


picture = Picture("release", curves=3, cannot_be=_no_spreads)
