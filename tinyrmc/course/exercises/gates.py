"""Chapter 9: gates, equations 3 to 6, and what they keep."""

import math
import re

import numpy as np

from .derived import by_complex_step
from .exercise import each, exercise, normal
from .experiments import Picture
from .tape import LittleTape, of_node
from .used import used


@exercise(
    cases=lambda rng: [
        normal(rng, 5),
        (3 * rng.normal(size=(2, 3, 3)),),
        (np.array([-1e3, -800.0, 0.0, 800.0, 1e3]),),
        (np.array([-np.inf, np.inf]),),
    ],
    hints=[
        "1 / (1 + exp(-x)) is right for all x, though NumPy warns where exp(-x) is too "
        "large to hold.",
        "tanh(x / 2) runs from -1 to 1 and never warns. Add 1 and halve the sum, and "
        "you have the sigmoid.",
    ],
    mistakes="""
        you divide exp(x) by 1 + exp(x): for large x both are infinite
            = np.exp(x) / (1 + np.exp(x))
        you take a tanh, which runs from -1 to 1
            = np.tanh(x)
        you take a softmax: gates do not share anything, each is open or shut by itself
            = (e := np.exp(x - x.max(axis=-1, keepdims=True))) / e.sum(axis=-1,
                keepdims=True)
    """,
    leading="x",
    precise=True,
)
def sigmoid(x):
    """1 / (1 + exp(-x)) for every entry.

    x (...), numbers of any size -> (...).
    """
    return (np.tanh(x / 2) + 1) / 2


def _memory_cases(rng, B, N, D, F, G):
    return normal(rng, (B, D), (B, N, F), (D, G), (F, G), G)


@exercise(
    cases=each(
        _memory_cases,
        "2 3 4 5 5, 4 4 4 4 4, 2 3 4 4 2, 3 3 2 4 4, 1 5 3 3 3, 3 1 2 6 6",
    ),
    hints=[
        "h @ U has the shape (B, N, G), x @ W the shape (B, G): the slots are missing. "
        "Where?",
        "Every slot of an example gets the same from the input: an axis of length 1 "
        "between B and G broadcasts over the slots.",
        "(x @ W)[:, None] or np.expand_dims(x @ W, -2)",
    ],
    mistakes="""
        the input's part has no axis for the slots: where B = N, slot n gets the input
        of example n
            [:, None] ->
        you leave out the bias
            h @ U + b -> h @ U
    """,
    anysize="x h",
)
def gate_of_every_slot(x, h, W, U, b):
    """Equations 4 to 6 for a batch of memories.

    x (B, D), h (B, N, F), W (D, G), U (F, G), b (G,) -> (B, N, G).
    """
    return (x @ W)[:, None] + h @ U + b


def _affine_cases(rng, B, N, *sizes):
    return rng.normal(size=(B, N, sizes[-1])), *_memory_cases(rng, B, N, *sizes)


@exercise(
    cases=each(
        _affine_cases,  # in the second as many examples as slots, as gates as units
        "2 3 4 2 5, 3 3 3 3 3, 1 4 2 3 3, 3 1 2 3 1, 2 2 3 2 2",
    ),
    hints=[
        "Two products and a sum of three. Each weight is used by every slot of every "
        "example, and x by every slot of its own example: so they get sums.",
        "g_x = g.sum(axis=1) (B, G) is what the input's part x W gets. From there it "
        "is `stacks_vjp` with x and W.",
        "h gets g @ U.T. U gets the sum over examples and slots of h^T g: h and g with "
        "their first two axes made one, h.reshape(-1, F).T @ g.reshape(-1, G).",
    ],
    mistakes="""
        you average over the slots, where all that they give it adds up
            g.sum(axis=1) -> g.mean(axis=1)
        x gets a gradient from slot 0 alone; all slots use it
            g_x @ W.T -> g[:, 0] @ W.T
        the gradient of the bias still has its examples
            g_x.sum(axis=0) -> g_x
    """,
    anysize="g",
    exact=by_complex_step(
        lambda x, h, W, U, b: (x @ W)[:, None] + h @ U + b, "x h W U b"
    ),
)
def gate_vjp(g, x, h, W, U, b):
    """The gradients of x, h, W, U and b, given g, that of gate_of_every_slot(x, .., b).

    g (B, N, G), x (B, D), h (B, N, F), W (D, G), U (F, G), b (G,)
    -> (like x, like h, like W, like U, like b).
    """
    g_x = g.sum(axis=1)  # every slot gets the same input
    by_U = h.reshape(-1, h.shape[-1]).T @ g.reshape(-1, g.shape[-1])
    return g_x @ W.T, g @ U.T, x.T @ g_x, by_U, g_x.sum(axis=0)


def sigmoid_of_complex(x):
    """The sigmoid to the last digit, also where a gate is all but shut."""
    e = np.exp(np.where(x.real < 0, x, -x))  # at most 1: nothing overflows
    return np.where(x.real < 0, e, 1) / (1 + e)


def keep_and_take(f, i, m, candidate, forget_bias):
    """Equation 7, of complex numbers too."""
    keep = sigmoid_of_complex(f + forget_bias)
    return keep * m + sigmoid_of_complex(i) * candidate


def _updated(rng, scale, forget_bias, *shape):
    g, m, candidate = normal(rng, shape, shape, shape)
    return g, *scale * rng.normal(size=(2, *shape)), m, candidate, forget_bias


@exercise(
    cases=each(
        _updated,  # gates are open or shut, to the last digit, in the fourth
        "1 1 2 3, 1 -2 3 3, 1 0 2 2 4, 1e6 3 2 3, 1 1 1 1",
    ),
    hints=[
        "Four arguments, and each appears in one of the two products only. Start with "
        "m and the candidate: what multiplies them?",
        "f acts through its gate: g * m is the gradient of the gate, and the slope of "
        "the sigmoid takes it to f. The slope is gate * (1 - gate).",
        "keep = sigmoid(f + forget_bias): f gets g * m * keep * (1 - keep), m gets "
        "g * keep; i and the candidate likewise, with take = sigmoid(i).",
    ],
    mistakes="""
        you leave out the slope of the sigmoid
            * keep * (1 - keep) ->
            * take * (1 - take) ->
        you multiply by the gate, but not by 1 minus the gate
            * (1 - keep) ->
            * (1 - take) ->
        you take the slope of the forget gate at f, without the forget bias
            g * m * keep * (1 - keep) -> g * m * sigmoid(f) * (1 - sigmoid(f))
        the gradients of m and of the candidate have changed places
            g * keep, g * take -> g * take, g * keep
        the forget bias stands in the input gate; it belongs to the forget gate
            sigmoid(f + forget_bias), sigmoid(i) -> sigmoid(f), sigmoid(i + forget_bias)
    """,
    leading="g f i m candidate",
    anysize="g m candidate",
    precise=True,  # a gate that is shut passes nothing on
    exact=by_complex_step(keep_and_take, "f i m candidate"),
)
def gated_vjp(g, f, i, m, candidate, forget_bias):
    """The gradients of f, i, m and candidate, given g, that of the new memory, eq 7:

    sigmoid(f + forget_bias) * m + sigmoid(i) * candidate.
    All arrays are alike, (..., F) -> four of the same shape.
    """
    keep, take = sigmoid(f + forget_bias), sigmoid(i)
    by_f = g * m * keep * (1 - keep)
    by_i = g * candidate * take * (1 - take)
    return by_f, by_i, g * keep, g * take


_SHUT, _OPEN_SHUT_HALF = np.full((4, 2), -np.inf), np.array([[2.0], [-np.inf], [0.0]])


@exercise(
    cases=lambda rng: [
        (*normal(rng, (5, 3), (5, 3)), 0.0),
        (*normal(rng, (4, 4), (4, 4)), 1.0),
        (*normal(rng, (1, 2), (1, 2)), 1.0),
        (*normal(rng, (50, 2), (50, 2)), 3.0),
        (-_SHUT, _SHUT, 0.0),  # all is kept, and nothing written
        (_OPEN_SHUT_HALF, np.zeros((3, 1)), 1.0),  # shut once: the past is gone
    ],
    hints=[
        "Take T = 2 and put equation 7 for m_1 into equation 7 for m_2. What is c_1 "
        "multiplied by, what c_2, what m_0?",
        "What is written at step t meets the forget gates of all later steps, t + 1 to "
        "T, and not its own.",
        "Go backwards, with `left` = 1: the weight of c_t is left * sigmoid(i[t]); "
        "then multiply left by sigmoid(f[t] + forget_bias).",
    ],
    mistakes="""
        what a step writes also meets the forget gate of that step
            left * sigmoid(i[t]) -> left * sigmoid(i[t]) * sigmoid(f[t] + forget_bias)
        what you write does not fade: you leave out the forget gates of later steps
            left * sigmoid(i[t]) -> sigmoid(i[t])
        the forget bias stands in the input gate; it belongs to the forget gate
            sigmoid(i[t]) -> sigmoid(i[t] + forget_bias)
            sigmoid(f[t] + forget_bias) -> sigmoid(f[t])
        the forget bias stands in both gates; it belongs to the forget gate
            sigmoid(i[t]) -> sigmoid(i[t] + forget_bias)
        you divide products of gates by each other: with a gate that is shut that is 0 /
        0
            = np.stack([(P := np.cumprod(sigmoid(f + forget_bias), axis=0))[-1],
                *(sigmoid(i) * P[-1] / P)])
    """,
    precise=True,
)
def weights_of_the_past(f, i, forget_bias):
    """How much of everything is in the memory after T steps: the weights a_0 to a_T of

        m_T = a_0 * m_0 + a_1 * c_1 + ... + a_T * c_T,
        where m_t = sigmoid(f_t + forget_bias) * m_{t-1} + sigmoid(i_t) * c_t.

    f, i (T, F), pre-activations -> (T + 1, F).
    """
    left = np.ones(f.shape[1])
    weights = []
    for t in reversed(range(len(f))):
        weights.append(left * sigmoid(i[t]))
        left = left * sigmoid(f[t] + forget_bias)
    return np.stack([left, *reversed(weights)])


@exercise(
    cases=lambda rng: [
        (0.5, 50),
        (0.9, 1),
        (0.01, 10),
        (0.5, 1),
        (0.99, 1000),
        (0.1, 1),
    ],
    hints=[
        "With f = 0 the gate is sigmoid(b) at every step. What is left after T steps "
        "is the T-th power of it.",
        "So the gate must be the T-th root of the share. And for which b is sigmoid(b) "
        "= p? Solve p = 1 / (1 + exp(-b)) for b.",
        "b = log(p / (1 - p))",
    ],
    mistakes="""
        you lose the same amount at every step, not the same part of what is left
            = math.log((p := 1 - (1 - share) / steps) / (1 - p))
        you take the logarithm of the gate, not that of p / (1 - p)
            = math.log(share ** (1 / steps))
    """,
)
def forget_bias_for(share, steps):
    """The forget bias b that leaves this share of a memory after `steps` steps.

    Where f is 0: sigmoid(b) ** steps == share.
    """
    p = share ** (1 / steps)
    return math.log(p / (1 - p))


# --- An LSTM on the tape --------------------------------------------------------------


def squash(o):
    """The sigmoid of a Node."""
    y = sigmoid(o.data)
    return o.tape.record(y, (o,), lambda g: (g * y * (1 - y),))


def update(f, i, m, c, forget_bias):
    """Equation 7 of Nodes."""
    of = f.data, i.data, m.data, c.data
    y = keep_and_take(*of, forget_bias)
    return m.tape.record(y, (f, i, m, c), lambda g: gated_vjp(g, *of, forget_bias))


def _on_a_tape(answer, xs, m, h, p, forget_bias):
    """The last h, and the gradients of the mean of its square."""
    tape = LittleTape()
    named = {name: tape.watch(each) for name, each in p.items()}
    first = {"m": tape.watch(m), "h": tape.watch(h)}
    nodes = [tape.watch(x) for x in xs]
    return of_node(answer(nodes, *first.values(), named, forget_bias), first | named)


def _sequences(rng, T, B, D, F, forget_bias=1):
    p = {}
    for gate in "fioj":
        p[f"W_{gate}"], p[f"U_{gate}"], p[f"b_{gate}"] = normal(rng, (D, F), (F, F), F)
    xs, m, h = normal(rng, (T, B, D), (B, F), (B, F))
    return [*xs], m, h, p, forget_bias


@used(
    _on_a_tape,
    cases=each(_sequences, "3 2 3 4, 1 3 3 3 0, 6 1 2 3 3"),
    hints=[
        'For each x: four pre-activations, such as x @ p["W_f"] + h @ p["U_f"] + '
        'p["b_f"]. Then the new m, and from the new m the new h.',
        "update(f, i, m, j.tanh(), forget_bias) is the new m; squash(o) * m.tanh() is "
        "the new h.",
    ],
    mistakes="""
        you leave out the tanh of j
            j.tanh() -> j
        you show the memory before the update
            m = update( -> before, m = m, update(
            * m.tanh() -> * before.tanh()
        you show the memory without its tanh
            squash(o) * m.tanh() -> squash(o) * m
        the forget bias stands in the input gate; it belongs to the forget gate
            update(f, i, m -> update(i, f, m
            j.tanh(), forget_bias) -> j.tanh(), forget_bias)
        you return the memory m; what the LSTM shows is h
            return h -> return m
        the new memory does not reach the next step
            m = update( -> new = update(
            m.tanh() -> new.tanh()
    """,
)
def lstm(xs, m, h, p, forget_bias):
    """An LSTM, which is one slot without attention, on the tape.

    xs a list of Nodes (B, D), m and h Nodes (B, F), p a dict of Nodes: W_f (D, F),
    U_f (F, F), b_f (F,), and the same for i, o and j -> the last h.
    """
    for x in xs:
        f, i, o, j = (x @ p[f"W_{k}"] + h @ p[f"U_{k}"] + p[f"b_{k}"] for k in "fioj")
        m = update(f, i, m, j.tanh(), forget_bias)
        h = squash(o) * m.tanh()
    return h


def _not_what_is_left(curves):
    """The first thing in the curves that no forget gates would leave, or nothing."""
    for curve in curves:
        found = re.findall(r"-?\d+(?:\.\d+)?", curve.label)
        if len(found) != 1:
            return f"the name of each curve should say its forget bias: {curve.label!r}"
        right = sigmoid(np.array(float(found[0]))) ** curve.x
        k = abs(curve.y - right).argmax()
        if abs(curve.y[k] - right[k]) > 1e-6:
            return (
                f"with a forget bias of {found[0]} your curve has {curve.y[k]:.3g} "
                f"after {curve.x[k]:g} steps; forget gates leave another share of m_0. "
                "Does it begin with 1, after no step?"
            )


picture = Picture("gates", curves=3, cannot_be=_not_what_is_left)
