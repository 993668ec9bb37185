"""Chapter 10: a step, equations 7 to 9, and its training."""

import functools

import numpy as np

from ... import fused, nn
from ...autograd import primitives
from ...autograd.engine import Parameter, Tape, Tensor
from ..assembly import the_courses
from ..compare import Wrong
from ..step_network import StepNetwork
from .attention import attend
from .exercise import each, normal
from .learning import adam_rule, adam_step, clip, train
from .mended import mended
from .normalisation import norm
from .recorded import recorded
from .tape import taped
from .used import used
from .whole import SOUND, whole

my = the_courses()  # as a learner fetches them


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
            my.sigmoid(xp, f + forget_bias) -> f
            my.sigmoid(xp, i) -> i
        no sigmoid makes gates of f + forget_bias and of i
            my.sigmoid(xp, f + forget_bias) -> (f + forget_bias)
            my.sigmoid(xp, i) -> i
        i goes in as it is; its sigmoid is the input gate
            my.sigmoid(xp, i) -> i
        f + forget_bias goes in as it is; its sigmoid is the forget gate
            my.sigmoid(xp, f + forget_bias) -> (f + forget_bias)
        you give the forget bias to both gates
            xp, i) -> xp, i + forget_bias)
        the forget bias stands outside the sigmoid; add it to f
            f + forget_bias) -> f) + forget_bias
        your input gate is what the forget gate leaves, 1 - sigma(f + b), and not a gate
        of its own
            my.sigmoid(xp, i) -> (1 - keep)
    """,
    anysize="f i",
)
def update_memory(xp, f, i, m, candidate, forget_bias):
    """Equation 7: sigma(f + forget_bias) * m + sigma(i) * candidate.

    f, i (B, N, G) with G = F or 1; m, candidate (B, N, F); forget_bias a number
    -> (B, N, F).
    """
    keep = my.sigmoid(xp, f + forget_bias)
    return keep * m + my.sigmoid(xp, i) * candidate


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
    _steps, "2 3 4 2 4, 4 4 4 1 4 1 -2, 3 1 6 3 6, 2 5 4 2 1 1 3, 1 2 8 4 8 10"
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
            m = update_memory -> new = update_memory
            return m, -> return new,
        o goes into h as it is; its sigmoid is the output gate
            my.sigmoid(xp, o) -> o
        your o is made of the new memory; like f and i it sees the h of the step before
            xp, o) * -> xp, my.gate(xp, x, m, p["W_o"], p["U_o"], p["b_o"])) *
        your o is made of the tanh of the new memory; like f and i it sees the h of the
        step before
            xp, o) * -> xp, my.gate(xp, x, xp.tanh(m), p["W_o"], p["U_o"], p["b_o"])) *
        f and i go through the sigmoid twice: update_memory takes pre-activations
            (xp, f, i, m -> (xp, my.sigmoid(xp, f), my.sigmoid(xp, i), m
        you make h without the tanh of equation 8
            xp.tanh(m)  # eqs 8, 9 -> m
        you apply tanh to the candidate: the released code does that, equation 7 does
        not
            i, m, candidate -> i, m, xp.tanh(candidate)
        the slots of h attend, not those of m
            xp, m, x, -> xp, h, x,
        f and i have changed places in equation 7
            update_memory(xp, f, i, -> update_memory(xp, i, f,
        your candidate is what attention proposes; g_psi of that is what equation 7
        takes
            my.g_psi(xp, attended, p["mlp"], p["gain"], p["offset"]) -> attended
        you add the old memory to what attention proposes; equation 7 adds it
            my.g_psi(xp, attended, -> my.g_psi(xp, attended + m,
        queries and keys have changed places: W_q makes the queries, W_k the keys
            p["W_q"], p["W_k"] -> p["W_k"], p["W_q"]
        you add the forget bias to o, too
            my.sigmoid(xp, o) -> my.sigmoid(xp, o + p["forget_bias"])
    """,
    anysize="x h",
)
def step(xp, x, m, h, p):
    """One time step, equations 2 to 9.

    x (B, F), m and h (B, N, F), p the weights by name -> (new m, new h), each
    (B, N, F).
    """
    attended = my.multi_head_attention(xp, m, x, p["W_q"], p["W_k"], p["W_v"])  # eq 2
    candidate = my.g_psi(xp, attended, p["mlp"], p["gain"], p["offset"])
    f = my.gate(xp, x, h, p["W_f"], p["U_f"], p["b_f"])  # eq 4
    i = my.gate(xp, x, h, p["W_i"], p["U_i"], p["b_i"])  # eq 5
    o = my.gate(xp, x, h, p["W_o"], p["U_o"], p["b_o"])  # eq 6
    m = update_memory(xp, f, i, m, candidate, p["forget_bias"])  # eq 7
    return m, my.sigmoid(xp, o) * xp.tanh(m)  # eqs 8, 9


# --- On the tape of chapter 3 ---------------------------------------------------------


def reshape(x, shape):
    """The same numbers in another shape: a Node -> a Node."""
    before = x.data.shape
    return x.tape.record(x.data.reshape(shape), (x,), lambda g: (g.reshape(before),))


@used(
    lambda answer, x, k: taped(lambda node: answer(node, k), x),
    cases=lambda rng: [
        (rng.normal(size=(3, 4)), 1),
        (rng.normal(size=(2, 2, 2)), 0),
        (rng.normal(size=(4, 3, 5)), 3),
        (rng.normal(size=3), 2),
    ],
    hints=[
        "The result is x.data[k]. How does the loss change with the entries of x that "
        "are not in it?",
        "The gradient has x's shape: zeros, and in place k stands g.",
        "whole = np.zeros(x.data.shape); whole[k] = g; and the vjp gives (whole,).",
    ],
    mistakes="""
        your vjp gives g alone; it needs the shape of x, with zeros where nothing was
        taken from
            return (whole,) -> return (g,)
        g stands in the first place, not in place k
            whole[k] = g -> whole[0] = g
        g stands in every place; all but one of them were left out
            whole[k] = g -> whole[:] = g
    """,
    views=True,
)
def cut(x, k):
    """x[k] for a Node, entry k of its first axis -> a Node."""

    def vjp(g):
        whole = np.zeros(x.data.shape)
        whole[k] = g
        return (whole,)

    return x.tape.record(x.data[k], (x,), vjp)


@used(
    lambda answer, arrays, axis: taped(lambda *x: answer([*x], axis), *arrays),
    cases=lambda rng: [
        ([*normal(rng, (2, 3), (4, 3))], 0),
        ([*normal(rng, (2, 3), (2, 1), (2, 2))], 1),
        ([*normal(rng, (2, 4, 3), (2, 1, 3))], -2),
        ([*normal(rng, (2, 3, 2), (2, 3, 2), (2, 3, 2))], -1),
        ([*normal(rng, (3, 3), (3, 3))], 1),
        ([*normal(rng, (2, 2))], 0),
    ],
    hints=[
        "np.concatenate([x.data for x in nodes], axis) is the result. On the way back "
        "each gets its own piece of g: g must be cut at the borders.",
        "Where are the borders? The first array ends at its own length, the second at "
        "the sum of both, and so on: np.cumsum of the lengths, without the last.",
        "np.split(g, borders, axis) gives a list of pieces, and a vjp may return it.",
    ],
    mistakes="""
        each node gets all of g; it gets the piece that it has become
            np.split(g, borders, axis) -> [g for _ in nodes]
        you cut g into equal pieces; they are as long as the arrays were
            np.split(g, borders, axis) -> np.array_split(g, len(nodes), axis)
        the pieces go back in the inverse order
            np.split(g, borders, axis) -> np.split(g, borders, axis)[::-1]
        you cut along the first axis; it is `axis` along which they were put together
            np.split(g, borders, axis) -> np.split(g, borders, 0)
        your borders are the lengths themselves; a border is where a piece ends in g
            np.cumsum(lengths)[:-1] -> lengths[:-1]
    """,
)
def concatenate(nodes, axis):
    """np.concatenate of Nodes: a list of Nodes, along `axis` -> a Node."""
    lengths = [x.data.shape[axis] for x in nodes]
    borders = np.cumsum(lengths)[:-1]
    y = np.concatenate([x.data for x in nodes], axis)
    return nodes[0].tape.record(y, nodes, lambda g: np.split(g, borders, axis))


def _with_layers(answer, z, W1, b1, W2, b2, gain, offset):
    def on_nodes(z, W1, b1, W2, b2, gain, offset):
        return answer(z, [(W1, b1), (W2, b2)], gain, offset)

    return taped(on_nodes, z, W1, b1, W2, b2, gain, offset)


@used(
    _with_layers,
    cases=lambda rng: [
        normal(rng, (2, 3, 4), (4, 5), 5, (5, 4), 4, 4, 4),
        normal(rng, (3, 3), (3, 3), 3, (3, 3), 3, 3, 3),
        normal(rng, (1, 4, 2), (2, 6), 6, (6, 2), 2, 2, 2),
    ],
    hints=[
        "Two layers with a ReLU between them; z is added, and the norm comes last.",
        "hidden = (z @ W1 + b1).relu(), and norm(hidden @ W2 + b2 + z, gain, offset).",
    ],
    mistakes="""
        z is not added to what the two layers give
            + b2 + z -> + b2
        there is no ReLU between the layers
            (z @ W1 + b1).relu() -> z @ W1 + b1
        a ReLU follows the second layer, too
            hidden @ W2 + b2 + z -> (hidden @ W2 + b2).relu() + z
        you add z after the norm; in g_psi it is inside
            norm(hidden @ W2 + b2 + z, gain, offset)
                -> norm(hidden @ W2 + b2, gain, offset) + z
    """,
)
def g_psi_on_tape(z, layers, gain, offset):
    """g_psi of Nodes: z (B, N, F), layers [(W1, b1), (W2, b2)] -> a Node like z."""
    (W1, b1), (W2, b2) = layers
    hidden = (z @ W1 + b1).relu()
    return norm(hidden @ W2 + b2 + z, gain, offset)


@used(
    taped,
    cases=lambda rng: [
        normal(rng, (2, 3, 4), (2, 4), (2, 4, 2), (2, 4, 2), (2, 4, 2)),
        normal(rng, (3, 3, 3), (3, 3), (1, 3, 3), (1, 3, 3), (1, 3, 3)),
        normal(rng, (1, 2, 6), (1, 6), (3, 6, 4), (3, 6, 4), (3, 6, 2)),
    ],
    hints=[
        "rows = concatenate([m, ...], 1): the slots, and below them x as one more row, "
        "reshape(x, (B, 1, F)).",
        "For each head k: attend(m @ cut(W_q, k), rows @ cut(W_k, k), rows @ "
        "cut(W_v, k)).",
        "The heads stand side by side: concatenate(heads, -1).",
    ],
    mistakes="""
        your queries come from the input, too; only the slots look
            attend(m @ -> attend(rows @
        keys and values come from the slots alone: the input is missing
            rows = concatenate([m, reshape(x, (B, 1, F))], 1) -> rows = m
        all heads have the weights of the first
            cut(W_q, k), rows @ cut(W_k, k), rows @ cut(W_v, k)
                -> cut(W_q, 0), rows @ cut(W_k, 0), rows @ cut(W_v, 0)
        keys and values have changed places
            rows @ cut(W_k, k), rows @ cut(W_v, k)
                -> rows @ cut(W_v, k), rows @ cut(W_k, k)
    """,
)
def heads_on_tape(m, x, W_q, W_k, W_v):
    """Equation 2 of Nodes: m (B, N, F), x (B, F), weights (H, F, ...) -> a Node."""
    B, F = x.data.shape
    rows = concatenate([m, reshape(x, (B, 1, F))], 1)
    heads = [
        attend(m @ cut(W_q, k), rows @ cut(W_k, k), rows @ cut(W_v, k))
        for k in range(len(W_q.data))
    ]
    return concatenate(heads, -1)


def gate_on_tape(x, h, W, U, b):
    """Equations 4 to 6 of Nodes: x (B, F), h (B, N, F) -> a Node (B, N, G)."""
    return reshape(x @ W, (len(x.data), 1, -1)) + h @ U + b


def little_step_on_tape(x, m, h):
    """A step of Nodes, with a state like the core's."""
    B, F = x.data.shape
    after = m * h.tanh() + reshape(x, (B, 1, F))
    return after, (h + after).tanh()


def _read_on_tape(answer, xs, m, W_in, b_in, W_out, b_out):
    def on_nodes(m, W_in, b_in, W_out, b_out, *xs):
        p = {"W_in": W_in, "b_in": b_in, "W_out": W_out, "b_out": b_out}
        return answer(little_step_on_tape, [*xs], m, p)

    return taped(on_nodes, m, W_in, b_in, W_out, b_out, *xs)


def _readings(rng, T, B, D, N, F, C):
    xs, *others = normal(rng, (T, B, D), (B, N, F), (D, F), F, (N * F, C), C)
    return [*xs], *others


@used(
    _read_on_tape,
    cases=each(_readings, "3 2 3 2 4 2, 1 3 3 3 3 3, 4 1 2 3 2 1"),
    hints=[
        "Before the first step h is zeros: m.tape.watch(0 * m.data).",
        "For each x: its projection is x @ W_in + b_in, and step gives the new m and "
        "the new h.",
        "At the end lay the slots side by side: reshape(h, (B, -1)) @ W_out + b_out.",
    ],
    mistakes="""
        the memory does not go on: each step begins with the first one
            m, h = step(x @ -> _, h = step(x @
        h does not go on: each step begins with zeros
            m, h = step( -> m, last = step(
            reshape(h -> reshape(last
        the last layer sees the memory; it sees h, what the outside is shown
            reshape(h -> reshape(m
        the inputs go in backwards
            for x in xs -> for x in xs[::-1]
        the biases are missing
            + p["b_in"] ->
            + p["b_out"] ->
    """,
)
def read_on_tape(step, xs, m, p):
    """A network around a step, on the tape -> its answer to a sequence, a Node (B, C).

    step(x, m, h) -> new m, new h; xs a list of Nodes (B, D); m, the first memory, a
    Node (B, N, F); p Nodes by name: W_in (D, F), b_in (F,), W_out (N F, C), b_out (C,).
    """
    h = m.tape.watch(0 * m.data)
    for x in xs:
        m, h = step(x @ p["W_in"] + p["b_in"], m, h)
    return reshape(h, (len(h.data), -1)) @ p["W_out"] + p["b_out"]


# --- On the project's tape ------------------------------------------------------------


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
        "After the block: gradients = tape.gradient(loss, parameters, strict=False), "
        "and give clip(gradients, 1.0). The loss as a number is float(loss.data).",
    ],
    mistakes="""
        you do not clip
            clip(gradients, 1.0) -> gradients
        you add up the losses of the batch; asked for is their mean
            primitives.mean(losses) -> primitives.sum(losses)
        `backward` adds to `grad` at each call; tape.gradient begins anew
            tape.gradient(loss, parameters, strict=False)
                -> tape.backward(loss) or [each.grad for each in parameters]
        you clip each array by itself
            clip(gradients, 1.0) -> [clip([g], 1.0)[0] for g in gradients]
        you bring the gradients to a length of 1 always; only longer ones are cut
            clip(gradients, 1.0)
                -> [g / np.linalg.norm(np.concatenate([*map(np.ravel, gradients)]))
                for g in gradients]
        you clip number by number, which turns the step: all gradients together keep
        their direction
            clip(gradients, 1.0) -> [np.clip(g, -1, 1) for g in gradients]
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


# --- An experiment built whole --------------------------------------------------------


def learns(seed, steps, slopes, draw, width):
    """The loss of each step of training, and the network."""
    network = StepNetwork(step, width, 2, N=2, F=8, H=1, seed=seed)
    parameters = network.parameters()

    def at(weights, inputs, targets):
        for parameter, w in zip(parameters, weights, strict=True):
            parameter.data = w
        return slopes(network, parameters, inputs, targets)

    start = [parameter.data.copy() for parameter in parameters]
    rule = adam_rule(adam_step, 3e-2)
    losses, weights = train(
        start, at, rule, lambda t: draw(np.random.default_rng([seed, t]), 16), steps
    )
    for parameter, w in zip(parameters, weights, strict=True):
        parameter.data = w
    return losses, network


@used(
    whole(memory=True),
    cases=lambda rng: [(seed,) for seed in range(3)],
    hints=[
        "A task for a memory asks for something that is gone when the question comes. "
        "Is the first number positive? Did a number above 1 come? Which of two inputs "
        "was larger?",
        "learns(seed, steps, slopes, draw, width) trains on draw(np.random.default_rng("
        "[seed, t]), count) for t = 0, 1, ...; draw them once more for `trained`.",
        "The control is right(network, others, targets), where others = inputs.copy() "
        "and others[:, :-1] = np.roll(inputs[:, :-1], 1, axis=0).",
    ],
    mistakes="""
        you test on examples of the training: both come from the same rng
            default_rng([99, seed]), 400 -> default_rng([seed, 3]), 400
            draw(np.random.default_rng([seed, t]), 16) for
                -> draw(np.random.default_rng([seed, t]), 400) for
        you report the share of the training examples, not of those held out
            "right": right -> "right": float(np.mean(predict(trained[0]) == trained[1]))
        you report a guess as the control; ask the network, with other first inputs
            "control": control -> "control": 0.5
        the answer is among the inputs
            return inputs, targets -> inputs[:, -1, 0] = targets; return inputs, targets
        you conclude that it learns before it has left the guess
            "learns" if surely else "cannot tell" -> "learns"
            seed, 30, slopes -> seed, 20, lambda *case: (slopes(*case)[0],
                [0 * g for g in slopes(*case)[1]])
            [seed, t]), 16) for t in range(30) -> [seed, t]), 16) for t in range(20)
        the picture does not show what a guess gets
            panel.axhline(np.log(2), color="0.6") -> pass
    """,
    found=SOUND,
    seconds=300.0,  # five trainings, in a browser too
)
def my_task(seed, panel):
    """A task of one's own for a memory: data, training, test, picture; see `whole.py`.

    Draws into panel, an empty picture -> a dict with draw, trained, tested, predict,
    right, floor, control, losses, conclusion.
    """

    def draw(rng, count):
        """Is the first number positive? A mark beside it tells it from the others."""
        inputs = rng.normal(size=(count, 2, 2)).astype(np.float32)
        inputs[:, :, 1] = [1, 0]
        targets = (inputs[:, 0, 0] > 0).astype(int)
        return inputs, targets

    losses, network = learns(seed, 30, slopes, draw, 2)
    batches = [draw(np.random.default_rng([seed, t]), 16) for t in range(30)]
    trained = [np.concatenate(each) for each in zip(*batches, strict=True)]
    inputs, targets = draw(np.random.default_rng([99, seed]), 400)

    def predict(inputs):
        return network(inputs).data.argmax(axis=1)

    others = inputs.copy()
    others[:, :-1] = np.roll(inputs[:, :-1], 1, axis=0)
    right, control = (np.mean(predict(x) == targets) for x in (inputs, others))
    floor = max(np.mean(targets), np.mean(1 - targets))
    own, its = (p * (1 - p) / len(targets) for p in (right, control))
    errors = np.sqrt([own, own + its]) + 1e-3
    surely = (right - np.array([floor, control]) > 4 * errors).all()
    panel.plot(losses)
    panel.axhline(np.log(2), color="0.6")
    panel.set(xlabel="step", ylabel="loss")
    return {
        "draw": draw,
        "trained": trained,
        "tested": (inputs, targets),
        "predict": predict,
        "right": right,
        "floor": floor,
        "control": control,
        "losses": losses,
        "conclusion": "learns" if surely else "cannot tell",
    }
