"""Chapter 7: gates, equations 3 to 6, and what they keep."""

from __future__ import annotations

import math

import numpy as np

from .exercise import exercise


@exercise(
    cases=lambda rng: [
        (rng.normal(size=5),),
        (3 * rng.normal(size=(2, 3, 3)),),
        (np.array([-1e3, -800.0, 0.0, 800.0, 1e3]),),
        (np.array([-np.inf, np.inf]),),
    ],
    hints=[
        "1 / (1 + exp(-x)) is right for all x, though NumPy warns where exp(-x) is "
        "too large to hold.",
        "Without the warning: the sigmoid is a tanh that was halved and raised. "
        "tanh(x / 2) runs from -1 to 1.",
    ],
    mistakes={
        "exp(x) is divided by 1 + exp(x): for large x both are infinite": lambda x: (
            np.exp(x) / (1 + np.exp(x))
        ),
        "the sign is the other way round: open where it should be shut": lambda x: (
            1 / (1 + np.exp(x))
        ),
        "it is a tanh, which runs from -1 to 1": np.tanh,
        "the x inside the tanh is not halved: it is too steep": lambda x: (
            (np.tanh(x) + 1) / 2
        ),
        "it is a softmax: gates do not share anything, each is open or shut by itself": lambda x: (
            np.exp(x - x.max(axis=-1, keepdims=True))
            / np.exp(x - x.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True)
        ),
    },
)
def sigmoid(x):
    """1 / (1 + exp(-x)) for every entry of an array of any shape and of numbers of any
    size.
    """
    return (np.tanh(x / 2) + 1) / 2


def _weights(rng, D, F, G):
    return rng.normal(size=(D, G)), rng.normal(size=(F, G)), rng.normal(size=G)


GATE_MISTAKES = {
    "the bias is left out": lambda x, h, W, U, b: x @ W + h @ U,
    "the sigmoid is taken already: equations 4 to 6 stop before it": lambda x, h, W, U, b: (
        sigmoid(x @ W + h @ U + b)
    ),
    "W and U have changed places": lambda x, h, W, U, b: x @ U + h @ W + b,
    "the input is left out": lambda x, h, W, U, b: h @ U + b,
    "h is left out": lambda x, h, W, U, b: x @ W + b,
    "W and U are transposed: here they are stored (in, out), and multiply from the "
    "right": lambda x, h, W, U, b: x @ W.T + h @ U.T + b,
}


@exercise(
    cases=lambda rng: [
        (rng.normal(size=3), rng.normal(size=4), *_weights(rng, 3, 4, 4)),
        (rng.normal(size=4), rng.normal(size=4), *_weights(rng, 4, 4, 4)),
        (rng.normal(size=1), rng.normal(size=2), *_weights(rng, 1, 2, 2)),
        (1e3 * rng.normal(size=3), rng.normal(size=3), *_weights(rng, 3, 3, 3)),
    ],
    hints=[
        "The paper's W x is x @ W here: x is a row, and W is stored (in, out).",
        "A sum of three rows, each with one number for every gate.",
    ],
    mistakes=GATE_MISTAKES,
)
def gate(x, h, W, U, b):
    """Equations 4 to 6 for one slot: W x + U h + b. x (D,), h (F,), W (D, G), U (F, G),
    b (G,) -> (G,).
    """
    return x @ W + h @ U + b


def _memory_cases(rng):
    def case(B, N, D, F, G):
        return (
            rng.normal(size=(B, D)),
            rng.normal(size=(B, N, F)),
            *_weights(rng, D, F, G),
        )

    return [
        case(2, 3, 4, 5, 5),
        case(4, 4, 4, 4, 4),
        case(3, 3, 2, 4, 4),
        case(1, 5, 3, 3, 3),
        case(3, 1, 2, 6, 6),
    ]


def _every_slot(x, h, W, U, b):
    return (x @ W)[:, None] + h @ U + b


@exercise(
    cases=_memory_cases,
    hints=[
        "h @ U has the shape (B, N, G), x @ W the shape (B, G): the slots are "
        "missing. Where?",
        "Every slot of an example gets the same from the input: an axis of length 1 "
        "between B and G broadcasts over the slots.",
        "(x @ W)[:, None] or np.expand_dims(x @ W, -2)",
    ],
    mistakes={
        "the input's part has no axis for the slots: where B = N, slot n gets the "
        "input of example n": lambda x, h, W, U, b: x @ W + h @ U + b,
        "all slots of an example are given the h of its first slot": lambda x, h, W, U, b: (
            _every_slot(x, np.broadcast_to(h[:, :1], h.shape), W, U, b)
        ),
        "all examples are given the input of the first": lambda x, h, W, U, b: (
            _every_slot(np.broadcast_to(x[:1], x.shape), h, W, U, b)
        ),
        "the bias is left out": lambda x, h, W, U, b: _every_slot(x, h, W, U, 0),
        "the sigmoid is taken already: equations 4 to 6 stop before it": lambda *arguments: (
            sigmoid(_every_slot(*arguments))
        ),
        "the input is left out": lambda x, h, W, U, b: h @ U + b,
        "W and U are transposed: here they are stored (in, out), and multiply from "
        "the right": lambda x, h, W, U, b: _every_slot(x, h, W.T, U.T, b),
    },
)
def gate_of_every_slot(x, h, W, U, b):
    """Equations 4 to 6 for a batch of memories: x (B, D), h (B, N, F), W (D, G), U (F,
    G), b (G,) -> (B, N, G).
    """
    return (x @ W)[:, None] + h @ U + b


def _history(rng):
    shut = np.full((4, 2), -np.inf)
    return [
        (rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), 0.0),
        (rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), 1.0),
        (rng.normal(size=(1, 2)), rng.normal(size=(1, 2)), 1.0),
        (rng.normal(size=(50, 2)), rng.normal(size=(50, 2)), 3.0),
        (
            -shut,
            shut,
            0.0,
        ),  # forget gate open, input gate shut: all is kept, and nothing written
        (
            np.array([[2.0], [-np.inf], [0.0]]),
            np.zeros((3, 1)),
            1.0,
        ),  # forget gate shut at one step: what was before is gone
    ]


def _past(f, i, forget_bias, keep=None, write=None, own=0, after=0.0):
    """The weights of the past and, by its arguments, ways to get them wrong: own=1
    counts a step's own forget gate to what it writes.
    """
    keep = sigmoid(f + forget_bias) + after if keep is None else keep
    write = sigmoid(i) if write is None else write
    steps = len(f)
    return np.stack(
        [keep.prod(axis=0)]
        + [write[t] * keep[t + 1 - own :].prod(axis=0) for t in range(steps)]
    )


def _steps_before(f, i, forget_bias):
    keep = sigmoid(f + forget_bias)
    return np.stack(
        [keep.prod(axis=0)]
        + [sigmoid(i[t]) * keep[:t].prod(axis=0) for t in range(len(f))]
    )


def _written_for_ever(f, i, forget_bias):
    return np.concatenate([sigmoid(f + forget_bias).prod(axis=0)[None], sigmoid(i)])


def _by_division(f, i, forget_bias):
    products = np.cumprod(sigmoid(f + forget_bias), axis=0)
    return np.concatenate([products[-1:], sigmoid(i) * products[-1:] / products])


@exercise(
    cases=_history,
    hints=[
        "Take T = 2 and put equation 7 for m_1 into equation 7 for m_2. What is c_1 "
        "multiplied with, what c_2, what m_0?",
        "What is written at step t meets the forget gates of all later steps, t + 1 "
        "to T, and not its own.",
        "Go backwards, with `left` = 1: the weight of c_t is left * sigmoid(i[t]), "
        "then left is multiplied by sigmoid(f[t] + forget_bias).",
    ],
    mistakes={
        "what is written at a step also meets the forget gate of that step": lambda f, i, b: (
            _past(f, i, b, own=1)
        ),
        "forget gate and input gate are swapped": lambda f, i, b: _past(i, f, b),
        "the forget bias is left out": lambda f, i, b: _past(f, i, 0),
        "the forget bias is added to the input gate, too": lambda f, i, b: _past(
            f, i + b, b
        ),
        "the forget bias is added after the sigmoid": lambda f, i, b: _past(
            f, i, 0, after=b
        ),
        "the forget gates of the steps before are multiplied, not those of the steps "
        "after": _steps_before,
        "what is written does not fade: the forget gates of later steps are left out": _written_for_ever,
        "the weight of the first memory is left out": lambda f, i, b: _past(f, i, b)[
            1:
        ],
        "products of gates are divided by each other: with a gate that is shut that "
        "is 0 / 0": _by_division,
        "the weights stand the wrong way round, the last step first": lambda f, i, b: (
            _past(f, i, b)[::-1]
        ),
        "there is no sigmoid": lambda f, i, b: _past(f, i, b, keep=f + b, write=i),
        "the input gate is not counted": lambda f, i, b: _past(
            f, i, b, write=np.ones_like(i)
        ),
        "the weight of the first memory stands at the end": lambda f, i, b: np.roll(
            _past(f, i, b), -1, axis=0
        ),
    },
)
def weights_of_the_past(f, i, forget_bias):
    """How much of everything is in the memory after T steps: f, i (T, F),
    pre-activations -> (T + 1, F).

    m_T = a_0 * m_0 + a_1 * c_1 + ... + a_T * c_T, if m_t = sigmoid(f_t + forget_bias) *
    m_{t-1} + sigmoid(i_t) * c_t; these are a_0 to a_T.
    """
    left, weights = np.ones(f.shape[1]), []
    for t in reversed(range(len(f))):
        weights.append(left * sigmoid(i[t]))
        left = left * sigmoid(f[t] + forget_bias)
    return np.stack([left, *reversed(weights)])


def _logit(share):
    return math.log(share / (1 - share))


@exercise(
    cases=lambda rng: [(0.5, 50), (0.9, 1), (0.01, 10), (0.5, 1), (0.99, 1000)],
    hints=[
        "With f = 0 the gate is sigmoid(b) at every step. What is left after T steps "
        "is the T-th power of it.",
        "So the gate must be the T-th root of the share. And for which b is "
        "sigmoid(b) = p? Solve p = 1 / (1 + exp(-b)) for b.",
        "b = log(p / (1 - p))",
    ],
    mistakes={
        "the number of steps is left out": lambda share, steps: _logit(share),
        "the gate is given, not what stands inside the sigmoid": lambda share, steps: (
            share ** (1 / steps)
        ),
        "the sign is the other way round": lambda share, steps: (
            -_logit(share ** (1 / steps))
        ),
        "the same amount is lost at every step, not the same part of what is left": lambda share, steps: (
            _logit(1 - (1 - share) / steps)
        ),
        "the logarithm of the gate is taken, not that of p / (1 - p)": lambda share, steps: (
            math.log(share ** (1 / steps))
        ),
    },
)
def forget_bias_for(share, steps):
    """The forget bias b with which, where f is 0, this share of a memory is left after
    so many steps: sigmoid(b) ** steps == share.
    """
    p = share ** (1 / steps)
    return math.log(p / (1 - p))
