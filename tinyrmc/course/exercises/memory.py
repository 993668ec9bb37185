"""Chapter 9: the memory update, equations 7 to 9, and the whole step."""

from __future__ import annotations

import numpy as np

from ... import equations
from .exercise import Mistake, exercise, normal
from .gates import sigmoid
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


def _bias_for_both(f, i, m, candidate, forget_bias):
    return update_memory(np, f, i + forget_bias, m, candidate, forget_bias)


def _bias_for_the_input_gate(f, i, m, candidate, forget_bias):
    return update_memory(np, f, i + forget_bias, m, candidate, 0)


def _bias_after_the_sigmoid(f, i, m, candidate, forget_bias):
    return (sigmoid(f) + forget_bias) * m + sigmoid(i) * candidate


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
        "sigmoid(f + forget_bias) * m + ... ; broadcasting does the rest, also where a "
        "slot has one gate only.",
    ],
    mistakes=[
        Mistake(
            "you use f and i as they are, without sigmoid and forget bias",
            lambda f, i, m, candidate, b: f * m + i * candidate,
        ),
        Mistake(
            "you use f and i as they are, without the sigmoid",
            lambda f, i, m, candidate, b: (f + b) * m + i * candidate,
        ),
        Mistake(
            "the forget and the input gate have changed places",
            lambda f, i, m, candidate, b: update_memory(np, i, f, m, candidate, b),
        ),
        Mistake(
            "the memory and the candidate have changed places",
            lambda f, i, m, candidate, b: update_memory(np, f, i, candidate, m, b),
        ),
        Mistake(
            "you leave out the forget bias",
            lambda f, i, m, candidate, b: update_memory(np, f, i, m, candidate, 0),
        ),
        Mistake(
            "you give the forget bias to the input gate",
            _bias_for_the_input_gate,
        ),
        Mistake(
            "you give the forget bias to both gates",
            _bias_for_both,
        ),
        Mistake(
            "you add the forget bias after the sigmoid, not before",
            _bias_after_the_sigmoid,
        ),
        Mistake(
            "your input gate is what the forget gate leaves, 1 - sigma(f + b), and not "
            "a gate of its own",
            _input_gate_of_what_is_left,
        ),
        Mistake(
            "you apply tanh to the candidate: the released code does that, equation 7 "
            "does not",
            lambda f, i, m, candidate, b: update_memory(
                np, f, i, m, np.tanh(candidate), b
            ),
        ),
    ],
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
        "sigmoid(o) * np.tanh(m)",
    ],
    mistakes=[
        Mistake(
            "you show the memory as it is, without tanh",
            lambda o, m: sigmoid(o) * m,
        ),
        Mistake(
            "you take tanh of the product, not of the memory alone",
            lambda o, m: np.tanh(sigmoid(o) * m),
        ),
        Mistake(
            "you use o as it is, without the sigmoid",
            lambda o, m: o * np.tanh(m),
        ),
        Mistake(
            "you leave out the output gate",
            lambda o, m: np.tanh(m),
        ),
        Mistake(
            "sigmoid and tanh have changed places",
            lambda o, m: np.tanh(o) * sigmoid(m),
        ),
    ],
    anysize="o",
)
def output(xp, o, m):
    """Equation 8: sigma(o) * tanh(m).

    o (B, N, G) with G = F or 1, m (B, N, F) -> (B, N, F).
    """
    return equations.sigmoid(xp, o) * xp.tanh(m)


def _gated_rows(rng):
    def case(B, N, F, scale=1.0):
        x = rng.normal(size=(B, F))
        h = scale * rng.normal(size=(B, N, F))
        return x, h, *normal(rng, F, F), 0.5

    return [
        case(2, 3, 4),
        case(4, 4, 4),
        case(1, 5, 2),
        case(3, 1, 6),
        case(2, 2, 3, scale=100.0),
    ]


def _parts(x, h, w, u):
    """What the input and the slots add to a gate: (B, 1, 1) and (B, N, 1)."""
    return (x @ w)[:, None, None], (h @ u)[..., None]


def _without_sigmoid(x, h, w, u, b):
    from_input, own = _parts(x, h, w, u)
    return from_input + own + b


def _own_part_averaged(x, h, w, u, b):
    from_input, own = _parts(x, h, w, u)
    own = np.broadcast_to(own.mean(axis=1, keepdims=True), own.shape)
    return sigmoid(from_input + own + b)


def _own_part_missing(x, h, w, u, b):
    from_input, own = _parts(x, h, w, u)
    return sigmoid(from_input + b + np.zeros_like(own))


@exercise(
    cases=_gated_rows,
    hints=[
        "A vector in place of a matrix: x @ w is one number for each example, h @ u "
        "one for each slot of each example.",
        "(B,) and (B, N) do not add up as they should. Which axes of length 1 make "
        "(B, 1, 1) and (B, N, 1) of them?",
        "sigmoid((x @ w)[:, None, None] + (h @ u)[..., None] + b)",
    ],
    mistakes=[
        Mistake(
            "the last axis is missing: (B, N) instead of (B, N, 1), which meets the "
            "units of a slot",
            lambda x, h, w, u, b: sigmoid((x @ w)[:, None] + h @ u + b),
        ),
        Mistake(
            "you add the input's numbers along the slots, not along the examples",
            lambda x, h, w, u, b: sigmoid((x @ w + h @ u + b)[..., None]),
        ),
        Mistake(
            "you make one gate for each unit, not for each slot: you do not sum the "
            "products with w and u",
            lambda x, h, w, u, b: sigmoid((x * w)[:, None] + h * u + b),
        ),
        Mistake(
            "you leave out the sigmoid",
            _without_sigmoid,
        ),
        Mistake(
            "you leave out the bias b",
            lambda x, h, w, u, b: memory_gate(x, h, w, u, 0.0),
        ),
        Mistake(
            "w and u have changed places",
            lambda x, h, w, u, b: memory_gate(x, h, u, w, b),
        ),
        Mistake(
            "all slots of an example have the same gate: you average the slots' own "
            "part",
            _own_part_averaged,
        ),
        Mistake(
            "you leave out the slots' own part",
            _own_part_missing,
        ),
    ],
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


def _gates_see_tanh_m(x, m, h, p):
    return finish(_candidate(m, x, p), x, m, np.tanh(m), p)


def _opened_twice(x, m, h, p):
    f, i, o = (sigmoid(each) for each in _gates(x, h, p))
    after = update_memory(np, f, i, m, _candidate(m, x, p), p["forget_bias"])
    return after, output(np, o, after)


def _without_the_input(x, m, h, p):
    no_rows = np.zeros((len(x), 0, x.shape[-1]))
    return _candidate(m, no_rows, p)


def _swapped(p):
    """The weights, those of the forget and of the input gate in each other's place."""
    swapped = dict(p)
    for letter in "WUb":
        swapped[f"{letter}_f"] = p[f"{letter}_i"]
        swapped[f"{letter}_i"] = p[f"{letter}_f"]
    return swapped


@recorded(
    cases=steps,
    hints=[
        "In the order of the equations: attention (2), g_psi of it, the "
        "pre-activations f, i, o (4 to 6), then m (7), from that h (8).",
        "The gates see x and the h of the step before; attention sees x and the m of "
        "the step before.",
        'f = equations.gate(np, x, h, p["W_f"], p["U_f"], p["b_f"]), and so on; '
        "`ex.update_memory` and `ex.output` are there.",
    ],
    mistakes=[
        Mistake(
            "your gates see m, not h",
            lambda x, m, h, p: step(np, x, m, m, p),
        ),
        Mistake(
            "the forget and the input gate have changed places",
            lambda x, m, h, p: step(np, x, m, h, _swapped(p)),
        ),
        Mistake(
            "you leave out the forget bias",
            lambda x, m, h, p: step(np, x, m, h, p | {"forget_bias": 0.0}),
        ),
        Mistake(
            "your forget bias is 1, whatever p says",
            lambda x, m, h, p: step(np, x, m, h, p | {"forget_bias": 1.0}),
        ),
        Mistake(
            "your gates see tanh(m), not h: the released code does that",
            _gates_see_tanh_m,
        ),
        Mistake(
            "you make h from the memory before the update",
            _showing(lambda o, before, after: output(np, o, before)),
        ),
        Mistake(
            "you make h without the tanh of equation 8",
            _showing(lambda o, before, after: sigmoid(o) * after),
        ),
        Mistake(
            "your h is the memory itself: the released code does that, equation 8 has "
            "a gate and a tanh",
            _showing(lambda o, before, after: after),
        ),
        Mistake(
            "you apply tanh to the candidate: the released code does that, equation 7 "
            "does not",
            _candidate_of(lambda x, m, h, p: np.tanh(_candidate(m, x, p))),
        ),
        Mistake(
            "you take the sigmoid twice: `update_memory` and `output` take "
            "pre-activations",
            _opened_twice,
        ),
        Mistake(
            "the slots of h attend, not those of m",
            _candidate_of(lambda x, m, h, p: _candidate(h, x, p)),
        ),
        Mistake(
            "the input is not among the rows that the slots look at",
            _candidate_of(_without_the_input),
        ),
        Mistake(
            "you write what attention brings without g_psi",
            _candidate_of(lambda x, m, h, p: _attended(m, x, p)),
        ),
        Mistake(
            "you return h and m in the wrong order",
            lambda *case: step(np, *case)[::-1],
        ),
    ],
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
    mistakes=[
        Mistake(
            "the memory is zero everywhere: all slots are equal",
            lambda batch_size, N, F: np.zeros((batch_size, N, F)),
        ),
        Mistake(
            "all slots are equal, whatever their value",
            lambda batch_size, N, F: np.ones((batch_size, N, F)),
        ),
        Mistake(
            "there is one matrix for all examples, without their axis",
            lambda batch_size, N, F: np.eye(N, F),
        ),
        Mistake(
            "the ones start again at the first column where the columns end: those "
            "slots have twins",
            lambda batch_size, N, F: _tiled(batch_size, np.eye(F)[np.arange(N) % F]),
        ),
        Mistake(
            "slots and units have changed places",
            lambda batch_size, N, F: _tiled(batch_size, np.eye(F, N)),
        ),
    ],
    precise=True,
)
def first_memory(batch_size, N, F):
    """The first memory of the released code -> (batch_size, N, F).

    For each example the identity, cut to F columns or padded with columns of zeros.
    """
    return np.tile(np.eye(N, F), (batch_size, 1, 1))
