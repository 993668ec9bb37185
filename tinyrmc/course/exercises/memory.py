"""Chapter 10: a step, equations 7 to 9, and its training."""

from __future__ import annotations

import functools

import numpy as np

from ... import equations, fused, nn
from ...autograd import primitives
from ...autograd.engine import Parameter, Tape, Tensor
from ..compare import Wrong
from .exercise import each, normal
from .experiments import report
from .learning import clip
from .mended import mended
from .recorded import recorded
from .used import used


def _updates(rng, B, N, F, G, scale=1, forget_bias=1):
    f, i = scale * rng.normal(size=(2, B, N, G))
    return f, i, *rng.normal(size=(2, B, N, F)), forget_bias


# The candidate is so large that a gate that is nearly shut lets it through.
_OPEN, _M = np.full((1, 2, 3), np.inf), np.array([[[1.5, -1, 0.3], [2, 0.1, -3]]])
_KEEPS_M_TO_THE_LAST_DIGIT = _OPEN, -_OPEN, _M, 1e20 * (_M - 1.2), 0.0


@recorded(
    cases=each(
        _updates,
        "2 3 4 4, 3 3 3 3 1 -2, 2 4 5 1, 1 1 6 6 1e3 3",
        also=[_KEEPS_M_TO_THE_LAST_DIGIT],
    ),
    hints=[
        "Two products and a sum: what you keep of the old memory, and what you take of "
        "the candidate.",
        "f and i are any numbers; sigmoid makes gates between 0 and 1 of them. Add the "
        "constant to f before that.",
        "my.sigmoid(xp, f + forget_bias) * m + ... ; broadcasting does the rest, also "
        "where a slot has one gate only.",
    ],
    mistakes="""
        you use f and i as they are, without sigmoid and forget bias
            equations.sigmoid(xp, f + forget_bias) -> f
            equations.sigmoid(xp, i) -> i
        you give the forget bias to both gates
            xp, i) -> xp, i + forget_bias)
        the forget bias stands outside the sigmoid; add it to f
            f + forget_bias) -> f) + forget_bias
        your input gate is what the forget gate leaves, 1 - sigma(f + b), and not a gate
        of its own
            equations.sigmoid(xp, i) -> (1 - keep)
    """,
    anysize="f i",
)
def update_memory(xp, f, i, m, candidate, forget_bias):
    """Equation 7: sigma(f + forget_bias) * m + sigma(i) * candidate.

    f, i (B, N, G) with G = F or 1; m, candidate (B, N, F); forget_bias a number
    -> (B, N, F).
    """
    keep = equations.sigmoid(xp, f + forget_bias)
    return keep * m + equations.sigmoid(xp, i) * candidate


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


def _steps(rng, B, N, F, H, G, scale=1, forget_bias=1):
    p = _step_parameters(rng, F, H, G, forget_bias)
    return scale * rng.normal(size=(B, F)), *scale * rng.normal(size=(2, B, N, F)), p


# In the fourth each slot has one gate.
steps = each(
    _steps,
    "2 3 4 2 4, 4 4 4 1 4 1 -2, 3 1 6 3 6, 2 5 4 2 1 1 3, 1 2 8 4 8 10",
)


@recorded(
    cases=steps,
    hints=[
        "In the order of the equations: attention (2), g_psi of it, the "
        "pre-activations f, i, o (4 to 6), then m (7), from that h (8).",
        "The gates see x and the h of the step before; attention sees x and the m of "
        "the step before.",
        'f = my.gate(xp, x, h, p["W_f"], p["U_f"], p["b_f"]), and so on; you have '
        "`update_memory`; h is my.sigmoid(xp, o) * xp.tanh(m), of the new m.",
    ],
    mistakes="""
        your gates see m, not h
            xp, x, h, -> xp, x, m,
        you leave out the forget bias
            p["forget_bias"] -> 0.0
        your gates see tanh(m), not h: the released code does that
            xp, x, h, -> xp, x, xp.tanh(m),
        you make h from the memory before the update
            m = equations.update -> new = equations.update
            return m, -> return new,
        you make h without the tanh of equation 8
            equations.output(xp, o, m) -> equations.sigmoid(xp, o) * m
        you apply tanh to the candidate: the released code does that, equation 7 does
        not
            i, m, candidate -> i, m, xp.tanh(candidate)
        the slots of h attend, not those of m
            xp, m, x, -> xp, h, x,
    """,
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


def _tried(answer, inputs, targets):
    """An answer's result for a linear layer beside an idle parameter."""
    network = nn.Linear(inputs.shape[1], 3, dtype=np.float64, seed=1)
    parameters = [*network.parameters(), Parameter(np.ones(2))]
    _, found = (answer(network, parameters, inputs, targets) for _ in range(2))
    if isinstance(found, tuple) and isinstance(found[0], Tensor):
        raise Wrong("the loss is still on the tape; give a number, float(loss.data)")
    return found


@used(
    _tried,
    cases=lambda rng: [
        (3 * rng.normal(size=(5, 4)), rng.integers(3, size=5)),
        (20 * rng.normal(size=(2, 3)), rng.integers(3, size=2)),
        (0.1 * rng.normal(size=(8, 2)), rng.integers(3, size=8)),  # short enough
    ],
    hints=[
        "with Tape() as tape: the logits are network(inputs), the losses "
        "fused.softmax_cross_entropy(logits, targets).",
        "After the block: tape.gradient(loss, parameters, strict=False), and clip. The "
        "loss as a number is float(loss.data).",
    ],
    mistakes="""
        you do not clip
            clip(gradients, 1.0) -> gradients
        `backward` adds to `grad` at each call; tape.gradient begins anew
            tape.gradient(loss, parameters, strict=False)
                -> tape.backward(loss) or [each.grad for each in parameters]
        you clip each array by itself
            clip(gradients, 1.0) -> [clip([g], 1.0)[0] for g in gradients]
        the network runs before the tape records, so nothing leads back to its weights
            Tape() as tape -> (logits := network(inputs), Tape())[1] as tape
            network(inputs), targets -> logits, targets
    """,
)
def slopes(network, parameters, inputs, targets):
    """The mean loss, a number, and its gradients, together no longer than 1 -> a list.

    network(inputs) gives logits (B, C); targets (B,) are integers.
    """
    with Tape() as tape:
        losses = fused.softmax_cross_entropy(network(inputs), targets)
        loss = primitives.mean(losses)
    gradients = tape.gradient(loss, parameters, strict=False)
    return float(loss.data), clip(gradients, 1.0)


# --- Debugging ------------------------------------------------------------------------


def little_step(x, m, h, w):
    """A step with a state like the core's: x, m, h (F,), w (3, F) -> new m, new h."""
    keep = 0.5 * (np.tanh(0.5 * (w[0] * h + 1)) + 1)
    after = keep * m + w[1] * x
    return after, w[2] * np.tanh(after)


def of_small_step(function, w):
    """A function of a small step, with weights of its own."""
    bound = functools.partial(function, w=w)
    bound.__name__ = function.__name__
    return bound


@mended(
    ("m, h = step", "_, h = step"),
    cases=lambda rng: [
        (
            of_small_step(little_step, rng.normal(size=(3, F))),
            rng.normal(size=(T, F)),
            *normal(rng, F, F),
        )
        for T, F in ((3, 2), (4, 4), (1, 3), (12, 2))
    ],
    hints=[
        "What does a step return, and what of it reaches the next step?",
        "The state is a pair, (m, h). Both go on.",
    ],
    mistakes="""
        now the memory goes on, and h does not
            step(x, m, h) -> step(x, m, 0 * h)
        h stays what it was at first
            m, h = step -> m, _ = step
    """,
)
def read(step, xs, m, h):
    """The h that a core shows after it has read all inputs.

    step(x, m, h) -> new m, new h; xs (T, ...) -> the last h.
    """
    for x in xs:
        m, h = step(x, m, h)
    return h


@mended(
    ("+ first", "+ first[0]"),
    cases=lambda rng: [
        (rng.normal(size=(3, 4)), 2),
        (rng.normal(size=(4, 4)), 4),
        (np.eye(3, 5), 1),
    ],
    hints=[
        "Print the memory of one example. How many different rows does it have?",
        "Zeros of the shape (B, N, F) plus an array (N, F): it broadcasts over B.",
    ],
    mistakes="""
        now a slot's units are all alike
            + first -> + first[:, :1]
        all examples together have one memory, spread over them
            + first -> + np.resize(first, (B, 1, first.shape[1]))
    """,
)
def begin(first, B):
    """The first memory (N, F) for B examples -> (B, N, F)."""
    return np.zeros((B, *first.shape)) + first


WEIGHTS = _step_parameters(np.random.default_rng(4), 16, 2, 16, 1.0)
for _name in ("b_f", "b_i", "b_o", "offset"):
    WEIGHTS[_name] = 0 * WEIGHTS[_name]
WEIGHTS["gain"] = np.ones(16)
WEIGHTS["mlp"] = [(weight, 0 * bias) for weight, bias in WEIGHTS["mlp"]]


def fresh_step(x, m, h, forget_bias=1.0):
    """A step of a fresh core of 16 units: x (B, 16), m and h (B, N, 16) with any N."""
    return step(np, x, m, h, WEIGHTS | {"forget_bias": forget_bias})


@used(
    report("step"),
    cases=lambda rng: [(fresh_step, seed) for seed in range(3)],
    hints=[
        "What should a memory do? Keep something, tell slots apart, stay of moderate "
        "size. Each can be measured, after one step or after many.",
        "On what might it depend? On the number of steps or of slots, on the size of "
        "an input, on forget_bias.",
        "How like itself is a memory after a step, for several forget biases? The "
        "cosine is (after * m).sum(), divided by both lengths. 60 examples at once "
        "make the numbers steady: x (60, 16), m (60, N, 16).",
    ],
    mistakes="""
        your settings are too few to say anything
            (-3.0, -2.0, -1.0, 0.0, 1.0, -> (1.0,
        you conclude that it falls
            "rises" -> "falls"
    """,
)
def my_experiment(step, seed):
    """Measures something about a core at five settings or more.

    step(x, m, h, forget_bias=1.0) -> new m, new h, with x (B, 16), m, h (B, N, 16)
    -> settings, in growing order; what was measured at each; and the claim "rises",
    "falls", "stays" or "neither".
    """
    rng = np.random.default_rng(seed)
    x, (m, h) = rng.normal(size=(60, 16)), rng.normal(size=(2, 60, 4, 16))
    biases, alike = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0), []
    for bias in biases:  # the cosine between the memory before and after
        after, _ = step(x, m, h, forget_bias=bias)
        size = np.linalg.norm(after) * np.linalg.norm(m)
        alike.append((after * m).sum() / size)
    return biases, alike, "rises"
