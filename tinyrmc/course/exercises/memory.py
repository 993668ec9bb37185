"""Chapter 8: the memory update, equations 7 to 9, and the whole step."""

from __future__ import annotations

import numpy as np

from ... import equations
from .exercise import exercise


def sigmoid(x):
    return equations.sigmoid(np, x)


def _updates(rng):
    def case(B, N, F, G, scale=1.0, forget_bias=1.0):
        f, i = scale * rng.normal(size=(2, B, N, G))
        m, candidate = rng.normal(size=(2, B, N, F))
        return f, i, m, candidate, forget_bias

    shut = (
        np.full((1, 2, 3), np.inf),
        np.full((1, 2, 3), -np.inf),
        *rng.normal(size=(2, 1, 2, 3)),
        0.0,
    )  # keeps m to the last digit
    return [
        case(2, 3, 4, 4),
        case(3, 3, 3, 3, forget_bias=-2.0),
        case(2, 4, 5, 1),
        case(1, 1, 6, 6, scale=1e3, forget_bias=3.0),
        shut,
    ]


@exercise(
    cases=_updates,
    hints=[
        "Two products and a sum: what is kept of the old memory, and what is taken "
        "of the candidate.",
        "f and i are any numbers; sigmoid makes gates between 0 and 1 of them. The "
        "constant is added to f before that.",
        "sigmoid(f + forget_bias) * m + ... ; broadcasting does the rest, also where "
        "a slot has one gate only.",
    ],
    mistakes={
        "f and i are used as they are, without sigmoid and forget bias": lambda f, i, m, candidate, forget_bias: (
            f * m + i * candidate
        ),
        "f and i are used as they are, without the sigmoid": lambda f, i, m, candidate, forget_bias: (
            (f + forget_bias) * m + i * candidate
        ),
        "the forget and the input gate have changed places": lambda f, i, m, candidate, forget_bias: (
            sigmoid(i + forget_bias) * m + sigmoid(f) * candidate
        ),
        "the memory and the candidate have changed places": lambda f, i, m, candidate, forget_bias: (
            update_memory(f, i, candidate, m, forget_bias)
        ),
        "the forget bias is left out": lambda f, i, m, candidate, forget_bias: (
            sigmoid(f) * m + sigmoid(i) * candidate
        ),
        "the forget bias is given to the input gate": lambda f, i, m, candidate, forget_bias: (
            sigmoid(f) * m + sigmoid(i + forget_bias) * candidate
        ),
        "the forget bias is given to both gates": lambda f, i, m, candidate, forget_bias: (
            sigmoid(f + forget_bias) * m + sigmoid(i + forget_bias) * candidate
        ),
        "the forget bias is added after the sigmoid, not before": lambda f, i, m, candidate, forget_bias: (
            (sigmoid(f) + forget_bias) * m + sigmoid(i) * candidate
        ),
        "the input gate is what the forget gate leaves, 1 - sigma(f + b), and not a "
        "gate of its own": lambda f, i, m, candidate, b: (
            sigmoid(f + b) * m + (1 - sigmoid(f + b)) * candidate
        ),
        "tanh is applied to the candidate: the released code does that, equation 7 "
        "does not": lambda f, i, m, candidate, forget_bias: update_memory(
            f, i, m, np.tanh(candidate), forget_bias
        ),
    },
)
def update_memory(f, i, m, candidate, forget_bias):
    """Equation 7: sigma(f + forget_bias) * m + sigma(i) * candidate.

    f, i (B, N, G) with G = F or 1; m, candidate (B, N, F); forget_bias a number -> (B,
    N, F).
    """
    return sigmoid(f + forget_bias) * m + sigmoid(i) * candidate


@exercise(
    cases=lambda rng: [
        tuple(rng.normal(size=(2, 2, 3, 4))),
        (rng.normal(size=(2, 4, 1)), rng.normal(size=(2, 4, 5))),
        (1e3 * rng.normal(size=(1, 2, 2)), 1e3 * rng.normal(size=(1, 2, 2))),
        (np.array([[[-np.inf, 0.0, np.inf]]]), np.array([[[1.0, 1.0, 1.0]]])),
    ],
    hints=[
        "A gate between 0 and 1, times a memory that has been pressed into (-1, 1).",
        "sigmoid(o) * np.tanh(m)",
    ],
    mistakes={
        "the memory is shown as it is, without tanh": lambda o, m: sigmoid(o) * m,
        "tanh is taken of the product, not of the memory alone": lambda o, m: np.tanh(
            sigmoid(o) * m
        ),
        "o is used as it is, without the sigmoid": lambda o, m: o * np.tanh(m),
        "there is no output gate": lambda o, m: np.tanh(m),
        "sigmoid and tanh have changed places": lambda o, m: np.tanh(o) * sigmoid(m),
    },
)
def output(o, m):
    """Equation 8: sigma(o) * tanh(m). o (B, N, G) with G = F or 1, m (B, N, F) -> (B,
    N, F).
    """
    return sigmoid(o) * np.tanh(m)


def _gated_rows(rng):
    def case(B, N, F, scale=1.0):
        return (
            rng.normal(size=(B, F)),
            scale * rng.normal(size=(B, N, F)),
            rng.normal(size=F),
            rng.normal(size=F),
            0.5,
        )

    return [
        case(2, 3, 4),
        case(4, 4, 4),
        case(1, 5, 2),
        case(3, 1, 6),
        case(2, 2, 3, scale=100.0),
    ]


def _from_input(x, w):
    return (x @ w)[:, None, None]


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
        "the last axis is missing: (B, N) instead of (B, N, 1), which meets the "
        "units of a slot": lambda x, h, w, u, b: sigmoid((x @ w)[:, None] + h @ u + b),
        "the input's numbers are added along the slots, not along the examples": lambda x, h, w, u, b: (
            sigmoid((x @ w + h @ u + b)[..., None])
        ),
        "there is one gate for each unit, not for each slot: products with w and u "
        "are not summed": lambda x, h, w, u, b: sigmoid((x * w)[:, None] + h * u + b),
        "there is no sigmoid": lambda x, h, w, u, b: (
            _from_input(x, w) + (h @ u)[..., None] + b
        ),
        "the bias b is left out": lambda x, h, w, u, b: memory_gate(x, h, w, u, 0.0),
        "w and u have changed places": lambda x, h, w, u, b: memory_gate(x, h, u, w, b),
        "all slots of an example have the same gate: the slots' own part is averaged": lambda x, h, w, u, b: (
            sigmoid(
                _from_input(x, w)
                + (h @ u).mean(axis=1, keepdims=True)[..., None]
                + b
                + np.zeros((*h.shape[:2], 1))
            )
        ),
        "the slots' own part is left out": lambda x, h, w, u, b: sigmoid(
            _from_input(x, w) + b + np.zeros((*h.shape[:2], 1))
        ),
    },
)
def memory_gate(x, h, w, u, b):
    """A "memory" gate, one number in [0, 1] for each slot: sigma of x w + h u + b.

    x (B, F) the input, h (B, N, F), w and u (F,), b a number -> (B, N, 1).
    """
    return sigmoid((x @ w)[:, None, None] + (h @ u)[..., None] + b)


def _steps(rng):
    def case(B, N, F, H, G, scale=1.0, forget_bias=1.0):
        def weight(*shape):
            return rng.normal(size=shape) / np.sqrt(shape[-2])

        p = {name: weight(H, F, F // H) for name in ("W_q", "W_k", "W_v")}
        p |= {
            "mlp": [(weight(F, F), rng.normal(size=F)) for _ in range(2)],
            "gain": rng.normal(size=F),
            "offset": rng.normal(size=F),
        }
        for gate in "fio":
            p |= {
                f"W_{gate}": weight(F, G),
                f"U_{gate}": weight(F, G),
                f"b_{gate}": rng.normal(size=G),
            }
        return (
            scale * rng.normal(size=(B, F)),
            *(scale * rng.normal(size=(2, B, N, F))),
            {**p, "forget_bias": forget_bias},
        )

    many = case(2, 5, 4, 2, 1, forget_bias=3.0)  # a gate for each slot
    return [
        case(2, 3, 4, 2, 4),
        case(4, 4, 4, 1, 4, forget_bias=-2.0),
        case(3, 1, 6, 3, 6),
        many,
        case(1, 2, 8, 4, 8, scale=10.0),
    ]


def _candidate(attends, x, p, appended=True):
    x = x if appended else np.zeros((len(x), 0, x.shape[-1]))  # no rows of input
    attended = equations.multi_head_attention(
        np, attends, x, p["W_q"], p["W_k"], p["W_v"]
    )
    return equations.g_psi(np, attended, p["mlp"], p["gain"], p["offset"])


def _finish(candidate, x, m, h, p, shown=lambda o, before, after: output(o, after)):
    """Equations 4 to 7 for this candidate, and shown(o, memory before, memory after)
    for h.
    """
    f, i, o = (
        equations.gate(np, x, h, p[f"W_{gate}"], p[f"U_{gate}"], p[f"b_{gate}"])
        for gate in "fio"
    )
    after = update_memory(f, i, m, candidate, p["forget_bias"])
    return after, shown(o, m, after)


def _without_g_psi(x, m, h, p):
    return _finish(
        equations.multi_head_attention(np, m, x, p["W_q"], p["W_k"], p["W_v"]),
        x,
        m,
        h,
        p,
    )


def _opened_twice(x, m, h, p):
    f, i, o = (
        sigmoid(
            equations.gate(np, x, h, p[f"W_{gate}"], p[f"U_{gate}"], p[f"b_{gate}"])
        )
        for gate in "fio"
    )
    after = update_memory(f, i, m, _candidate(m, x, p), p["forget_bias"])
    return after, output(o, after)


def _swapped(p):
    return p | {
        f"{letter}_{one}": p[f"{letter}_{other}"]
        for letter in "WUb"
        for one, other in ("fi", "if")
    }


@exercise(
    cases=_steps,
    hints=[
        "In the order of the equations: attention (2), g_psi of it, the "
        "pre-activations f, i, o (4 to 6), then m (7), from that h (8).",
        "The gates see x and the h of the step before; attention sees x and the m of "
        "the step before.",
        'f = equations.gate(np, x, h, p["W_f"], p["U_f"], p["b_f"]), and so on; '
        "`ex.update_memory` and `ex.output` are there.",
    ],
    mistakes={
        "the gates see m, not h": lambda x, m, h, p: step(x, m, m, p),
        "the forget and the input gate have changed places": lambda x, m, h, p: step(
            x, m, h, _swapped(p)
        ),
        "the forget bias is left out": lambda x, m, h, p: step(
            x, m, h, p | {"forget_bias": 0.0}
        ),
        "the forget bias is 1, whatever p says": lambda x, m, h, p: step(
            x, m, h, p | {"forget_bias": 1.0}
        ),
        "the gates see tanh(m), not h: so it is in the released code": lambda x, m, h, p: (
            _finish(_candidate(m, x, p), x, m, np.tanh(m), p)
        ),
        "h is made from the memory before the update": lambda x, m, h, p: _finish(
            _candidate(m, x, p), x, m, h, p, lambda o, before, after: output(o, before)
        ),
        "h is made without the tanh of equation 8": lambda x, m, h, p: _finish(
            _candidate(m, x, p), x, m, h, p, lambda o, before, after: sigmoid(o) * after
        ),
        "h is the memory itself: so it is in the released code, equation 8 has a "
        "gate and a tanh": lambda x, m, h, p: _finish(
            _candidate(m, x, p), x, m, h, p, lambda o, before, after: after
        ),
        "tanh is applied to the candidate: the released code does that, equation 7 "
        "does not": lambda x, m, h, p: _finish(
            np.tanh(_candidate(m, x, p)), x, m, h, p
        ),
        "the sigmoid is taken twice: `update_memory` and `output` take "
        "pre-activations": _opened_twice,
        "the slots of h attend, not those of m": lambda x, m, h, p: _finish(
            _candidate(h, x, p), x, m, h, p
        ),
        "the input is not among the rows that are looked at": lambda x, m, h, p: (
            _finish(_candidate(m, x, p, appended=False), x, m, h, p)
        ),
        "what attention brings is written without g_psi": _without_g_psi,
        "h and m are returned in the wrong order": lambda x, m, h, p: step(x, m, h, p)[
            ::-1
        ],
    },
)
def step(x, m, h, p):
    """One time step, equations 2 to 9: x (B, F), m and h (B, N, F), p the weights by
    name -> (new m, new h), each (B, N, F).
    """
    attended = equations.multi_head_attention(
        np, m, x, p["W_q"], p["W_k"], p["W_v"]
    )  # eq 2
    candidate = equations.g_psi(np, attended, p["mlp"], p["gain"], p["offset"])
    f, i, o = (
        equations.gate(np, x, h, p[f"W_{gate}"], p[f"U_{gate}"], p[f"b_{gate}"])
        for gate in "fio"
    )  # eqs 4-6
    m = update_memory(f, i, m, candidate, p["forget_bias"])  # eq 7
    return m, output(o, m)  # eqs 8, 9


@exercise(
    cases=lambda rng: [(2, 3, 5), (1, 4, 4), (3, 5, 2), (2, 1, 3)],
    hints=[
        "np.eye takes the number of rows and of columns.",
        "The same matrix for every example: np.tile, or np.repeat of an array with a "
        "new first axis.",
    ],
    mistakes={
        "the memory is zero everywhere: all slots are equal": lambda batch_size, N, F: (
            np.zeros((batch_size, N, F))
        ),
        "all slots are equal, whatever their value": lambda batch_size, N, F: np.ones(
            (batch_size, N, F)
        ),
        "there is one matrix for all examples, without their axis": lambda batch_size, N, F: (
            np.eye(N, F)
        ),
        "the ones start again at the first column where the columns end: those slots "
        "have twins": lambda batch_size, N, F: np.tile(
            np.eye(F)[np.arange(N) % F], (batch_size, 1, 1)
        ),
        "slots and units have changed places": lambda batch_size, N, F: np.tile(
            np.eye(F, N), (batch_size, 1, 1)
        ),
    },
)
def first_memory(batch_size, N, F):
    """The released first memory (batch_size, N, F): for each example the identity, cut
    to F columns or padded with columns of zeros.
    """
    return np.tile(np.eye(N, F), (batch_size, 1, 1))
