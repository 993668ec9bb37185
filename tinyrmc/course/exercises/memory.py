"""Chapter 10: the memory update, equations 7 to 9, and the whole step."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import equations
from .derived import by_complex_step
from .exercise import exercise, normal
from .gates import gated_vjp, keep_and_take, sigmoid, sigmoid_of_complex
from .recorded import recorded


def _updates(rng):
    def case(B, N, F, G, scale=1.0, forget_bias=1.0):
        f, i = scale * rng.normal(size=(2, B, N, G))
        m, candidate = rng.normal(size=(2, B, N, F))
        return f, i, m, candidate, forget_bias

    open_ = np.full((1, 2, 3), np.inf)
    m, candidate = rng.normal(size=(2, 1, 2, 3))
    # The candidate is so large that a gate that is nearly shut lets it through.
    keeps_m_to_the_last_digit = (open_, -open_, m, 1e20 * candidate, 0.0)
    return [
        case(2, 3, 4, 4),
        case(3, 3, 3, 3, forget_bias=-2.0),
        case(2, 4, 5, 1),
        case(1, 1, 6, 6, scale=1e3, forget_bias=3.0),
        keeps_m_to_the_last_digit,
    ]


def _input_gate_of_what_is_left(f, i, m, candidate, forget_bias):
    keep = sigmoid(f + forget_bias)
    return keep * m + (1 - keep) * candidate


@recorded(
    cases=_updates,
    hints=[
        "Two products and a sum: what you keep of the old memory, and what you take of "
        "the candidate.",
        "f and i are any numbers; sigmoid makes gates between 0 and 1 of them. Add the "
        "constant to f before that.",
        "my.sigmoid(xp, f + forget_bias) * m + ... ; broadcasting does the rest, also "
        "where a slot has one gate only.",
    ],
    mistakes={
        "you use f and i as they are, without sigmoid and forget bias": (
            lambda f, i, m, candidate, b: f * m + i * candidate
        ),
        "the forget and the input gate have changed places": (
            lambda f, i, m, candidate, b: update_memory(np, i, f, m, candidate, b)
        ),
        "the memory and the candidate have changed places": (
            lambda f, i, m, candidate, b: update_memory(np, f, i, candidate, m, b)
        ),
        "you leave out the forget bias": (
            lambda f, i, m, candidate, b: update_memory(np, f, i, m, candidate, 0)
        ),
        "you give the forget bias to both gates": (
            lambda f, i, m, candidate, forget_bias: update_memory(
                np, f, i + forget_bias, m, candidate, forget_bias
            )
        ),
        "your input gate is what the forget gate leaves, 1 - sigma(f + b), and not "
        "a gate of its own": _input_gate_of_what_is_left,
        "you apply tanh to the candidate: the released code does that, equation 7 "
        "does not": (
            lambda f, i, m, candidate, b: update_memory(
                np, f, i, m, np.tanh(candidate), b
            )
        ),
    },
    anysize="f i",
)
def update_memory(xp, f, i, m, candidate, forget_bias):
    """Equation 7: sigma(f + forget_bias) * m + sigma(i) * candidate.

    f, i (B, N, G) with G = F or 1; m, candidate (B, N, F); forget_bias a number
    -> (B, N, F).
    """
    keep = equations.sigmoid(xp, f + forget_bias)
    return keep * m + equations.sigmoid(xp, i) * candidate


@recorded(
    cases=lambda rng: [
        tuple(rng.normal(size=(2, 2, 3, 4))),
        normal(rng, (2, 4, 1), (2, 4, 5)),
        (1e3 * rng.normal(size=(1, 2, 2)), 1e3 * rng.normal(size=(1, 2, 2))),
        (np.array([[[-np.inf, 0.0, np.inf]]]), np.array([[[1.0, 1.0, 1.0]]])),
    ],
    hints=[
        "A gate between 0 and 1, times a memory that is pressed into (-1, 1).",
        "my.sigmoid(xp, o) * xp.tanh(m)",
    ],
    mistakes={
        "you show the memory as it is, without tanh": lambda o, m: sigmoid(o) * m,
        "you take tanh of the product, not of the memory alone": (
            lambda o, m: np.tanh(sigmoid(o) * m)
        ),
        "you use o as it is, without the sigmoid": lambda o, m: o * np.tanh(m),
        "you leave out the output gate": lambda o, m: np.tanh(m),
        "sigmoid and tanh have changed places": lambda o, m: np.tanh(o) * sigmoid(m),
    },
    anysize="o",
)
def output(xp, o, m):
    """Equation 8: sigma(o) * tanh(m).

    o (B, N, G) with G = F or 1, m (B, N, F) -> (B, N, F).
    """
    return equations.sigmoid(xp, o) * xp.tanh(m)


def _gated_rows(rng):
    def case(B, N, F, b=0.5, scale=1.0):
        x = rng.normal(size=(B, F))
        h = scale * rng.normal(size=(B, N, F))
        return x, h, *normal(rng, F, F), b

    return [
        case(2, 3, 4),
        case(4, 4, 4, b=-1.5),
        case(1, 5, 2, b=2.0),
        case(3, 1, 6),
        case(2, 2, 3, scale=100.0),
    ]


@exercise(
    cases=_gated_rows,
    hints=[
        "A vector in place of a matrix: x @ w is one number for each example, h @ u "
        "one for each slot of each example.",
        "(B,) and (B, N) do not add up as they should. Which axes of length 1 make "
        "(B, 1, 1) and (B, N, 1) of them?",
        "sigmoid((x @ w)[:, None, None] + (h @ u)[..., None] + b)",
    ],
    mistakes={
        "the last axis is missing: (B, N) instead of (B, N, 1), so your slots "
        "would meet the memory's units": (
            lambda x, h, w, u, b: sigmoid((x @ w)[:, None] + h @ u + b)
        ),
        "you add the input's numbers along the slots, not along the examples": (
            lambda x, h, w, u, b: sigmoid((x @ w + h @ u + b)[..., None])
        ),
        "you make one gate for each unit, not for each slot: you do not sum the "
        "products with w and u": (
            lambda x, h, w, u, b: sigmoid((x * w)[:, None] + h * u + b)
        ),
        "you leave out the sigmoid": (
            lambda x, h, w, u, b: (x @ w)[:, None, None] + (h @ u)[..., None] + b
        ),
        "you leave out the bias b": lambda x, h, w, u, b: memory_gate(x, h, w, u, 0.0),
        "w and u have changed places": lambda x, h, w, u, b: memory_gate(x, h, u, w, b),
    },
    anysize="x h",
)
def memory_gate(x, h, w, u, b):
    """A "memory" gate, one number in [0, 1] for each slot: sigma of x w + h u + b.

    x (B, F) the input, h (B, N, F), w and u (F,), b a number -> (B, N, 1).
    """
    return sigmoid((x @ w)[:, None, None] + (h @ u)[..., None] + b)


def _step_parameters(rng, F, H, G, forget_bias):
    def weight(*shape):
        return rng.normal(size=shape) / np.sqrt(shape[-2])

    p = {name: weight(H, F, F // H) for name in ("W_q", "W_k", "W_v")}
    p["mlp"] = [(weight(F, F), rng.normal(size=F)) for _ in range(2)]
    p["gain"], p["offset"] = normal(rng, F, F)
    for gate in "fio":
        p[f"W_{gate}"] = weight(F, G)
        p[f"U_{gate}"] = weight(F, G)
        p[f"b_{gate}"] = rng.normal(size=G)
    p["forget_bias"] = forget_bias
    return p


def steps(rng):
    def case(B, N, F, H, G, scale=1.0, forget_bias=1.0):
        p = _step_parameters(rng, F, H, G, forget_bias)
        x = scale * rng.normal(size=(B, F))
        m, h = scale * rng.normal(size=(2, B, N, F))
        return x, m, h, p

    one_gate_for_each_slot = case(2, 5, 4, 2, 1, forget_bias=3.0)
    return [
        case(2, 3, 4, 2, 4),
        case(4, 4, 4, 1, 4, forget_bias=-2.0),
        case(3, 1, 6, 3, 6),
        one_gate_for_each_slot,
        case(1, 2, 8, 4, 8, scale=10.0),
    ]


def _attended(M, x, p):
    return equations.multi_head_attention(np, M, x, p["W_q"], p["W_k"], p["W_v"])


def _candidate(M, x, p):
    attended = _attended(M, x, p)
    return equations.g_psi(np, attended, p["mlp"], p["gain"], p["offset"])


def _gates(x, h, p):
    return [
        equations.gate(np, x, h, p[f"W_{gate}"], p[f"U_{gate}"], p[f"b_{gate}"])
        for gate in "fio"
    ]


def finish(
    candidate, x, m, h, p, *, show=lambda o, before, after: output(np, o, after)
):
    """Equations 4 to 7 for this candidate; `show` makes h of the memory."""
    f, i, o = _gates(x, h, p)
    after = update_memory(np, f, i, m, candidate, p["forget_bias"])
    return after, show(o, m, after)


def _showing(show):
    """The step with another equation 8."""
    return lambda x, m, h, p: finish(_candidate(m, x, p), x, m, h, p, show=show)


def _candidate_of(candidate):
    """The step that writes another candidate(x, m, h, p)."""
    return lambda x, m, h, p: finish(candidate(x, m, h, p), x, m, h, p)


def _opened_twice(x, m, h, p):
    f, i, o = (sigmoid(each) for each in _gates(x, h, p))
    after = update_memory(np, f, i, m, _candidate(m, x, p), p["forget_bias"])
    return after, output(np, o, after)


@recorded(
    cases=steps,
    hints=[
        "In the order of the equations: attention (2), g_psi of it, the "
        "pre-activations f, i, o (4 to 6), then m (7), from that h (8).",
        "The gates see x and the h of the step before; attention sees x and the m of "
        "the step before.",
        'f = my.gate(xp, x, h, p["W_f"], p["U_f"], p["b_f"]), and so on; you have '
        "`my_update_memory` and `my_output` for the end.",
    ],
    mistakes={
        "your gates see m, not h": lambda x, m, h, p: step(np, x, m, m, p),
        "you leave out the forget bias": (
            lambda x, m, h, p: step(np, x, m, h, p | {"forget_bias": 0.0})
        ),
        "your gates see tanh(m), not h: the released code does that": (
            lambda x, m, h, p: finish(_candidate(m, x, p), x, m, np.tanh(m), p)
        ),
        "you make h from the memory before the update": _showing(
            lambda o, before, after: output(np, o, before)
        ),
        "you make h without the tanh of equation 8": _showing(
            lambda o, before, after: sigmoid(o) * after
        ),
        "your h is the memory itself: the released code does that, equation 8 has "
        "a gate and a tanh": _showing(lambda o, before, after: after),
        "you apply tanh to the candidate: the released code does that, equation 7 "
        "does not": _candidate_of(lambda x, m, h, p: np.tanh(_candidate(m, x, p))),
        "you take the sigmoid twice: `update_memory` and `output` take "
        "pre-activations": _opened_twice,
        "the slots of h attend, not those of m": _candidate_of(
            lambda x, m, h, p: _candidate(h, x, p)
        ),
        "you write what attention brings without g_psi": _candidate_of(
            lambda x, m, h, p: _attended(m, x, p)
        ),
        "you return h and m in the wrong order": lambda *case: step(np, *case)[::-1],
    },
    anysize="x h",
)
def step(xp, x, m, h, p):
    """One time step, equations 2 to 9.

    x (B, F), m and h (B, N, F), p the weights by name -> (new m, new h), each
    (B, N, F).
    """
    attended = equations.multi_head_attention(  # eq 2
        xp, m, x, p["W_q"], p["W_k"], p["W_v"]
    )
    candidate = equations.g_psi(xp, attended, p["mlp"], p["gain"], p["offset"])
    f = equations.gate(xp, x, h, p["W_f"], p["U_f"], p["b_f"])  # eq 4
    i = equations.gate(xp, x, h, p["W_i"], p["U_i"], p["b_i"])  # eq 5
    o = equations.gate(xp, x, h, p["W_o"], p["U_o"], p["b_o"])  # eq 6
    m = equations.update_memory(xp, f, i, m, candidate, p["forget_bias"])  # eq 7
    return m, equations.output(xp, o, m)  # eqs 8, 9


def _tiled(batch_size, matrix):
    return np.tile(matrix, (batch_size, 1, 1))


@exercise(
    cases=lambda rng: [(2, 3, 5), (1, 4, 4), (3, 5, 2), (2, 1, 3)],
    hints=[
        "np.eye takes the number of rows and of columns.",
        "The same matrix for every example: np.tile, or np.repeat of an array with a "
        "new first axis.",
    ],
    mistakes={
        "the memory is zero everywhere: all slots are equal": (
            lambda batch_size, N, F: np.zeros((batch_size, N, F))
        ),
        "there is one matrix for all examples, without their axis": (
            lambda batch_size, N, F: np.eye(N, F)
        ),
        "the ones start again at the first column where the columns end: those "
        "slots have twins": (
            lambda batch_size, N, F: _tiled(batch_size, np.eye(F)[np.arange(N) % F])
        ),
        "slots and units have changed places": (
            lambda batch_size, N, F: _tiled(batch_size, np.eye(F, N))
        ),
    },
    precise=True,
)
def first_memory(batch_size, N, F):
    """The first memory of the released code -> (batch_size, N, F).

    For each example the identity, cut to F columns or padded with columns of zeros.
    """
    return np.tile(np.eye(N, F), (batch_size, 1, 1))


# --- the way back ---------------------------------------------------------------------


def _state(f, i, o, m, candidate, forget_bias):
    """Equations 7 and 8, of complex numbers too."""
    after = keep_and_take(f, i, m, candidate, forget_bias)
    return after, sigmoid_of_complex(o) * np.tanh(after)


def _states(rng):
    def case(*shape, scale=1.0, forget_bias=1.0):
        g_m, g_h, m, candidate = normal(rng, shape, shape, shape, shape)
        f, i, o = scale * rng.normal(size=(3, *shape))
        return g_m, g_h, f, i, o, m, candidate, forget_bias

    return [
        case(2, 3),
        case(3, 3, forget_bias=-2.0),
        case(2, 2, 4, forget_bias=0.0),
        case(2, 3, scale=1e6, forget_bias=3.0),  # open or shut, to the last digit
        case(1, 1),
    ]


def _state_gradients(
    g_m,
    g_h,
    f,
    i,
    o,
    m,
    candidate,
    forget_bias,
    *,
    through_h=lambda g_h, show, after: g_h * show * (1 - np.tanh(after) ** 2),
    by_o=lambda g_h, show, after: g_h * np.tanh(after) * show * (1 - show),
):
    """The solution and, by its arguments, ways to get it wrong."""
    after = update_memory(np, f, i, m, candidate, forget_bias)
    show = sigmoid(o)
    g = g_m + through_h(g_h, show, after)
    by_f, by_i, by_m, by_candidate = gated_vjp(g, f, i, m, candidate, forget_bias)
    return by_f, by_i, by_o(g_h, show, after), by_m, by_candidate


@exercise(
    cases=_states,
    hints=[
        "The new memory is used twice: the next step gets it, and equation 8 shows it. "
        "So what is its whole gradient?",
        "It is g_m + g_h * sigmoid(o) * (1 - tanh(after) ** 2), where after is the new "
        "memory. Compute it once more with `update_memory`.",
        "With that sum, `gated_vjp` gives the gradients of f, i, m and candidate. And "
        "o gets g_h * tanh(after) times the slope of its sigmoid.",
    ],
    mistakes={
        "you leave out what comes back through h: the new memory is "
        "used twice": partial(_state_gradients, through_h=lambda *_: 0.0),
        "you leave out the slope of the tanh": partial(
            _state_gradients, through_h=lambda g_h, show, _: g_h * show
        ),
        "you add g_m and g_h first and send both through equation 8: g_m does not "
        "pass it": (
            lambda g_m, g_h, *others: _state_gradients(0 * g_m, g_m + g_h, *others)
        ),
        "you leave out the slope of the output gate's sigmoid": partial(
            _state_gradients, by_o=lambda g_h, _, after: g_h * np.tanh(after)
        ),
        "the gradients of m and of the candidate have changed places": (
            lambda *case: tuple(_state_gradients(*case)[k] for k in (0, 1, 2, 4, 3))
        ),
    },
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
    g = g_m + g_h * show * (1 - shown * shown)  # used twice, paid twice
    by_f, by_i, by_m, by_candidate = gated_vjp(g, f, i, m, candidate, forget_bias)
    return by_f, by_i, by_o, by_m, by_candidate


def little_step(x, m, h, w):
    """A step with a state like the core's: x, m, h (F,), w (3, F) -> new m, new h."""
    keep = 0.5 * (np.tanh(0.5 * (w[0] * h + 1)) + 1)
    after = keep * m + w[1] * x
    return after, w[2] * np.tanh(after)


class LittleVjp:
    """The vjp of `little_step` with weights w."""

    def __init__(self, w):
        self.w = w

    def __repr__(self):
        return "of a small step"

    def __call__(self, x, m, h, g_m, g_h):
        w = self.w
        keep = sigmoid(w[0] * h + 1)
        shown = np.tanh(keep * m + w[1] * x)
        g = g_m + g_h * w[2] * (1 - shown * shown)
        by_f = g * m * keep * (1 - keep)
        return g * keep, by_f * w[0], np.stack([by_f * h, g * x, g_h * shown])


def _sequences(rng):
    def case(T, F, scale=1.0):
        w, (m, h) = rng.normal(size=(3, F)), rng.normal(size=(2, F))
        xs, states = rng.normal(size=(T, F)), []
        for x in xs:
            states.append((m, h))
            m, h = little_step(x, m, h, w)
        return LittleVjp(w), xs, states, scale * rng.normal(size=(T, F))

    return [case(3, 2), case(4, 4), case(1, 3), case(30, 2), case(5, 3, scale=1e3)]


def _unrolled(xs, m, h, w):
    shown = []
    for x in xs:
        m, h = little_step(x, m, h, w)
        shown.append(h)
    return np.stack(shown)


def _by_complex_step(step_vjp, xs, states, g):
    return by_complex_step(_unrolled, "m h w")(g, xs, *states[0], step_vjp.w)


def _back(
    step_vjp,
    xs,
    states,
    g,
    *,
    order=-1,
    pass_m=1.0,
    pass_h=1.0,
    total=sum,
):
    """The solution and, by its arguments, ways to get it wrong."""
    g_m = g_h = np.zeros_like(g[0])
    weights = []
    for t in range(len(xs))[::order]:
        g_m, g_h, g_w = step_vjp(xs[t], *states[t], pass_m * g_m, pass_h * g_h + g[t])
        weights.append(g_w)
    return g_m, g_h, total(weights)


def _last_output_only(step_vjp, xs, states, g):
    last = np.zeros_like(g)
    last[-1] = g[-1]
    return _back(step_vjp, xs, states, last)


def _output_one_step_late(step_vjp, xs, states, g):
    late = np.concatenate([g[1:], np.zeros_like(g[:1])])
    g_m, g_h, g_w = _back(step_vjp, xs, states, late)
    return g_m, g_h + g[0], g_w


@exercise(
    cases=_sequences,
    hints=[
        "The walk of chapter 3 with a whole step in place of an entry: from the last "
        "step to the first. After the last step nobody needs m any more.",
        "h of step t is used twice: by the loss, which gives g[t], and by step t + 1. "
        "Add both before you call step_vjp. All steps use the same weights.",
        "g_m, g_h, g_w = step_vjp(xs[t], *states[t], g_m, g_h + g[t]); total += g_w. "
        "Begin with zeros like g[0].",
    ],
    mistakes={
        "you walk from the first step to the last": partial(_back, order=1),
        "only the last step's output gets a gradient from the loss": _last_output_only,
        "what the loss gives to h takes the place of what comes from the step after; "
        "add both": (
            lambda step_vjp, xs, states, g: _back(step_vjp, xs, states, g, pass_h=0.0)
        ),
        "you do not hand the memory's gradient on to the step before": partial(
            _back, pass_m=0.0
        ),
        "you add g[t] after step t, not before: it arrives one step "
        "too early": _output_one_step_late,
        "the weights keep what one step gives them, not the sum of all": partial(
            _back, total=lambda pieces: pieces[-1]
        ),
    },
    anysize="g",
    exact=_by_complex_step,
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
