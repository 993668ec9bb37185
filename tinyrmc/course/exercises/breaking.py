"""Chapter 10: planted bugs, to be found and mended."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from ... import equations
from ... import primitives as p
from ...engine import Tape
from .exercise import exercise


def softmax(x, axis=-1):
    """The softmax of an array, along one axis."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _still_there(bugs: dict[str, str], function) -> dict:
    """The mistakes {what remains: function with these bugs} for every choice of some of
    the `bugs`, {flag of `function`: in words}.
    """

    def with_bugs(chosen):
        return lambda *arguments: function(*arguments, **dict.fromkeys(chosen, True))

    choices = itertools.chain.from_iterable(
        itertools.combinations(bugs, count) for count in range(1, len(bugs) + 1)
    )
    return {
        ", and ".join(bugs[name] for name in chosen): with_bugs(chosen)
        for chosen in choices
    }


# --- the loss -------------------------------------------------------------------------


def _scored(rng):
    def case(B, C, scale=1.0):
        return scale * rng.normal(size=(B, C)), rng.integers(C, size=B)

    return [
        case(3, 5),
        case(4, 4),
        case(1, 2),
        case(6, 8, scale=10.0),
        case(5, 3, scale=1e3),
    ]


def _at_targets(x, targets):
    return x[np.arange(len(targets)), targets]


def _naive_softmax(x):
    return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)


@exercise(
    cases=_scored,
    hints=[
        "Count the exponentials between the logits and the loss: how often is there "
        "a softmax?",
        "-log softmax(x)_k = log(sum_j exp(x_j)) - x_k. With x = the logits, not "
        "their softmax.",
        "With logits of 1000 exp overflows: subtract the largest of each row first.",
    ],
    mistakes={
        "the softmax is still taken twice": lambda logits, targets: cross_entropy(
            softmax(logits), targets
        ),
        "exp overflows, or a probability of 0 has the logarithm -inf": lambda logits, targets: (
            -np.log(_at_targets(_naive_softmax(logits), targets)).mean()
        ),
        "the softmax is still taken twice, and exp overflows": lambda logits, targets: (
            cross_entropy(_naive_softmax(logits), targets)
        ),
        "the largest logit is subtracted in the sum of exponentials, but not from "
        "the right class's logit": lambda logits, targets: (
            cross_entropy(logits, targets) - logits.max(axis=-1).mean()
        ),
        "the largest of all rows is subtracted: in the others all exponentials may "
        "vanish": lambda logits, targets: (
            np.log(np.exp(logits - logits.max()).sum(axis=-1))
            - _at_targets(logits - logits.max(), targets)
        ).mean(),
        "the losses of the examples are added up, not averaged": lambda logits, targets: (
            cross_entropy(logits, targets) * len(targets)
        ),
        "the sign is wrong: it grows with the probability of the right class": lambda logits, targets: (
            -cross_entropy(logits, targets)
        ),
    },
)
def cross_entropy(logits, targets):
    """The mean over the examples of -log softmax(logits)[target]. logits (B, C) of any
    size, targets (B,) integers -> a number.
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.mean(
        np.log(np.exp(shifted).sum(axis=-1)) - shifted[np.arange(len(targets)), targets]
    )


# --- attention ------------------------------------------------------------------------


def _attending(rng):
    def case(N, F, K, V):
        return (
            rng.normal(size=(N, F)),
            rng.normal(size=F),
            *(rng.normal(size=(F, width)) / np.sqrt(F) for width in (K, K, V)),
        )

    return [case(3, 4, 9, 2), case(4, 4, 4, 4), case(2, 6, 3, 6), case(1, 5, 2, 3)]


def _attend(
    M, x, W_q, W_k, W_v, upside_down=False, over_queries=False, deaf=False, width=None
):
    Z = np.concatenate([M, x[None]])
    scores = (
        M
        @ W_q
        @ ((M if deaf else Z) @ W_k).T
        / math.sqrt(width or W_k.shape[-1]) ** (-1 if upside_down else 1)
    )
    return softmax(scores, axis=0 if over_queries else 1) @ ((M if deaf else Z) @ W_v)


@exercise(
    cases=_attending,
    hints=[
        "There are three bugs. Run it on one slot, and ask of each line what it "
        "should be.",
        "Print the weights: what is the sum of each row? Then change x: does "
        "anything move? Then make the keys wider.",
        "a / d ** -0.5 is a * d ** 0.5.",
    ],
    mistakes=_still_there(
        {
            "upside_down": "the scores are still multiplied by the square root of d_k",
            "over_queries": "the softmax still runs over the queries",
            "deaf": "the input is still not among the rows that are looked at",
        },
        _attend,
    )
    | {
        "the scores are not scaled at all": lambda *case: _attend(*case, width=1),
        "the scores are divided by the root of the memory's width F, not of the keys'": lambda M, *others: (
            _attend(M, *others, width=M.shape[1])
        ),
    },
)
def attend(M, x, W_q, W_k, W_v):
    """Equation 2 with one head: M (N, F), x (F,), W_q and W_k (F, K), W_v (F, V) -> (N,
    V).
    """
    Z = np.concatenate([M, x[None]])  # (N + 1, F)
    scores = M @ W_q @ (Z @ W_k).T / math.sqrt(W_k.shape[-1])  # (N, N + 1)
    return softmax(scores, axis=1) @ (Z @ W_v)


# --- g_psi ----------------------------------------------------------------------------


def _processed(rng):
    def case(N, F, layers, scale=1.0):
        weights = [
            (rng.normal(size=(F, F)) / np.sqrt(F), rng.normal(size=F))
            for _ in range(layers)
        ]
        return (
            scale * rng.normal(size=(N, F)),
            weights,
            rng.normal(size=F),
            rng.normal(size=F),
        )

    return [case(3, 4, 2), case(4, 4, 3), case(2, 8, 2, scale=30.0), case(1, 6, 2)]


def _normalised(x, gain, offset, axis=-1, inside=0.0, outside=0.0):
    d = x - x.mean(axis=axis, keepdims=True)
    return (
        gain * d / (np.sqrt((d * d).mean(axis=axis, keepdims=True) + inside) + outside)
        + offset
    )


def _mlp(z, layers, relu=True):
    return (
        equations.mlp(np, z, layers)
        if relu
        else functools.reduce(lambda y, layer: y @ layer[0] + layer[1], layers, z)
    )


def _process(z, layers, gain, offset, shared=False, rectified=False, joint=False):
    y = z
    for number, (weight, bias) in enumerate(
        layers[:1] * len(layers) if shared else layers
    ):
        y = y @ weight + bias
        if rectified or number < len(layers) - 1:
            y = np.maximum(y, 0)
    if joint:
        return _normalised(y + z, gain, offset, axis=None, inside=1e-5)
    return equations.layer_norm(np, y + z, gain, offset)


@exercise(
    cases=_processed,
    hints=[
        "There are three bugs: two in the loop, one after it.",
        "Which of `layers` does the loop use? What can a ReLU after the last layer "
        "never put out? Over what is the mean taken?",
        "for number, (weight, bias) in enumerate(layers); axis=-1, keepdims=True in "
        "both means.",
    ],
    mistakes=_still_there(
        {
            "shared": "every layer still has the weights of the first",
            "rectified": "there is still a ReLU after the last layer",
            "joint": "mean and variance are still those of all slots together",
        },
        _process,
    )
    | {
        "z is not added to the MLP's result": lambda z, layers, gain, offset: (
            _normalised(_mlp(z, layers), gain, offset, inside=1e-5)
        ),
        "there is no ReLU between the layers either": lambda z, layers, gain, offset: (
            _normalised(_mlp(z, layers, relu=False) + z, gain, offset, inside=1e-5)
        ),
        "each unit is normalised over the slots, not each slot over its units": lambda z, layers, gain, offset: (
            _normalised(_mlp(z, layers) + z, gain, offset, axis=0, inside=1e-5)
        ),
        "epsilon is left out": lambda z, layers, gain, offset: _normalised(
            _mlp(z, layers) + z, gain, offset
        ),
        "epsilon is added to the root of the variance, not to the variance": lambda z, layers, gain, offset: (
            _normalised(_mlp(z, layers) + z, gain, offset, outside=1e-5)
        ),
    },
)
def process(z, layers, gain, offset):
    """g_psi of equation 7, layer_norm(MLP(z) + z): z (N, F), layers [(weight (F, F),
    bias (F,)), ...], gain, offset (F,) -> (N, F).

    A ReLU between each two layers; epsilon, which is added to the variance, is 1e-5.
    """
    y = z
    for number, (weight, bias) in enumerate(layers):
        y = y @ weight + bias
        if number < len(layers) - 1:
            y = np.maximum(y, 0)
    d = y + z - (y + z).mean(axis=-1, keepdims=True)
    return gain * d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) + offset


# --- through time ---------------------------------------------------------------------


def _keeps_a_half(x, m):
    return 0.5 * m + x


def _squashes(x, m):
    return p.tanh(m + x)


def _writes_by_a_gate(x, m):
    return p.sigmoid(x) * m - p.tanh(x)  # derivatives of both signs


def _forgets_all(x, m):
    return p.sin(x) + 0.0 * m


def _has_no_memory(x, m):
    return p.sin(x)  # earlier inputs are not on the way to the loss at all


def _sequences(rng):
    steps = (_keeps_a_half, _squashes, _writes_by_a_gate, _forgets_all, _has_no_memory)
    return [
        (step, rng.normal(size=(T, 3)), rng.normal(size=3))
        for step, T in zip(steps, (4, 5, 3, 2, 3), strict=True)
    ]


def _influence(
    step, inputs, memory, detached=False, squared=False, measure=np.linalg.norm
):
    with Tape() as tape:
        xs = [tape.watch(x) for x in inputs]
        for x in xs:
            memory = step(x, memory)
            memory, last = memory.detach() if detached else memory, memory
        loss = p.sum(last * last if squared else last)
    gradients = tape.gradient(loss, xs, strict=False)
    return np.array([measure(g) for g in gradients])


@exercise(
    cases=_sequences,
    hints=[
        "Which line takes the memory off the tape? Nothing behind it can be reached "
        "by a gradient.",
        "`.data` is a plain array, which the tape does not know. Keep the Tensor "
        "that `step` returns.",
    ],
    mistakes={
        "the memory is still cut from the tape after each step": lambda *case: (
            _influence(*case, detached=True)
        ),
        "the memory is not handed on: every step begins with the first one": lambda step, inputs, memory: (
            _influence(lambda x, _: step(x, memory), inputs, memory)
        ),
        "the sum of the squares is differentiated, not the sum": lambda *case: (
            _influence(*case, squared=True)
        ),
        "absolute values are added up, in place of the norm": lambda *case: _influence(
            *case, measure=lambda g: abs(g).sum()
        ),
        "the gradient's entries are added up as they are, in place of its norm": lambda *case: (
            _influence(*case, measure=np.sum)
        ),
        "the largest entry is taken, in place of the norm": lambda *case: _influence(
            *case, measure=lambda g: abs(g).max()
        ),
        "the root is missing: that is the square of the norm": lambda *case: _influence(
            *case, measure=lambda g: (g * g).sum()
        ),
    },
)
def influence(step, inputs, memory):
    """How far each input reaches: the norm of d sum(last memory) / d x_t for every t.

    step(x, memory) -> memory, on Tensors; inputs (T, F), memory (F,) -> (T,), zero for
    an input that has no influence.
    """
    with Tape() as tape:
        xs = [tape.watch(x) for x in inputs]
        for x in xs:
            memory = step(x, memory)
        loss = p.sum(memory)
    return np.array([np.linalg.norm(g) for g in tape.gradient(loss, xs, strict=False)])
