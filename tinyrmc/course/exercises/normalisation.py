"""Chapter 6: layer normalisation and the row-wise MLP, g_psi of equation 7."""

from __future__ import annotations

import itertools

import numpy as np

from .exercise import exercise

EPSILON = 1e-5


def _norm(x, gain, offset, axis=-1, ddof=0, inside=EPSILON, outside=0.0):
    """Layer normalisation and, by its arguments, many ways to get it wrong."""
    d = x - x.mean(axis=axis, keepdims=True)
    return (
        gain
        * d
        / (np.sqrt(x.var(axis=axis, keepdims=True, ddof=ddof) + inside) + outside)
        + offset
    )


def _by_squares(x, gain, offset):
    mean = x.mean(axis=-1, keepdims=True)
    variance = (x * x).mean(axis=-1, keepdims=True) - mean * mean
    return gain * (x - mean) / np.sqrt(variance + EPSILON) + offset


def _by_variance(x, gain, offset):
    return (
        gain
        * (x - x.mean(axis=-1, keepdims=True))
        / (x.var(axis=-1, keepdims=True) + EPSILON)
        + offset
    )


def _without_keepdims(x, gain, offset):
    return gain * (x - x.mean(axis=-1)) / np.sqrt(x.var(axis=-1) + EPSILON) + offset


def _rows(rng):
    def case(*shape, scale=1.0, shift=0.0):
        return (
            shift + scale * rng.normal(size=shape),
            1 + rng.random(shape[-1]),
            rng.normal(size=shape[-1]),
        )

    constant = np.full((2, 3), 7.0), np.ones(3), np.array([1.0, 2.0, 3.0])
    return [
        case(3, 5, scale=0.05),
        case(2, 4, 4),
        case(4, 4, 4),
        constant,
        case(3, 6, scale=1e-3),
        case(3, 6, shift=1e5),
    ]


@exercise(
    cases=_rows,
    hints=[
        "First the mean of each row, with keepdims=True so that it can be taken off "
        "the row; then the mean of the squares of what remains.",
        "d = x - x.mean(axis=-1, keepdims=True), and the variance is (d * "
        "d).mean(axis=-1, keepdims=True).",
        "gain * d / np.sqrt(variance + 1e-5) + offset",
    ],
    mistakes={
        "mean and variance are those of the whole array": lambda x, gain, offset: _norm(
            x, gain, offset, axis=None
        ),
        "mean and variance are those of a whole memory, slots and units jointly": lambda x, gain, offset: (
            _norm(x, gain, offset, axis=(-2, -1))
        ),
        "mean and variance run over the slots, not over the units of a slot": lambda x, gain, offset: (
            _norm(x, gain, offset, axis=-2)
        ),
        "mean and variance have lost their axis, so that they do not fit the rows: "
        "keepdims=True keeps it": _without_keepdims,
        "the sum of squares is divided by F - 1, not by F": lambda x, gain, offset: (
            _norm(x, gain, offset, ddof=1)
        ),
        "epsilon is left out: a row of equal numbers is then 0 / 0": lambda x, gain, offset: (
            _norm(x, gain, offset, inside=0)
        ),
        "epsilon is added to the root, not to what is under it": lambda x, gain, offset: (
            _norm(x, gain, offset, inside=0, outside=EPSILON)
        ),
        "the row is divided by the variance, not by its root": _by_variance,
        "gain and offset are left out": lambda x, gain, offset: _norm(x, 1, 0),
        "the offset is left out": lambda x, gain, offset: _norm(x, gain, 0),
        "the offset is added before the gain multiplies": lambda x, gain, offset: (
            _norm(x, 1, offset) * gain
        ),
        "the variance is the mean square minus the squared mean, two large numbers "
        "that agree in most of their digits": _by_squares,
    },
)
def layer_norm(x, gain, offset):
    """gain * (x - mean) / sqrt(variance + 1e-5) + offset over the last axis: x (...,
    F), gain and offset (F,) -> (..., F).
    """
    d = x - x.mean(axis=-1, keepdims=True)
    variance = (d * d).mean(axis=-1, keepdims=True)
    return gain * d / np.sqrt(variance + 1e-5) + offset


def norm_of_rows(M):
    return _norm(M, 1, 0)


def norm_of_all(M):
    return _norm(M, 1, 0, axis=None)


def mean_of_the_others(M):
    return M.sum(axis=0) - M


def running_sum(M):
    return np.cumsum(M, axis=0)


def _changes(process, M, slot, row):
    changed = M.copy()
    changed[slot] = row
    return process(changed) - process(M)


@exercise(
    cases=lambda rng: [
        (norm_of_rows, rng.normal(size=(4, 5)), 2, rng.normal(size=5)),
        (norm_of_all, rng.normal(size=(4, 4)), 1, rng.normal(size=4)),
        (mean_of_the_others, rng.normal(size=(3, 3)), 0, 1e3 * rng.normal(size=3)),
        (running_sum, rng.normal(size=(5, 2)), 2, rng.normal(size=2)),
        (running_sum, rng.normal(size=(1, 3)), 0, -rng.random(size=3)),
    ],
    hints=[
        "Two memories, one of them with slot number `slot` replaced by `row`; "
        "process both, and compare slot by slot.",
        "Replace the slot in a copy: M itself is not yours to change.",
        "abs(...).max(axis=-1) of the difference of the two results",
    ],
    mistakes={
        "the changes of a slot's units are added up": lambda process, M, slot, row: abs(
            _changes(process, M, slot, row)
        ).sum(axis=-1),
        "the largest change is looked for in each unit, not in each slot": lambda process, M, slot, row: (
            abs(_changes(process, M, slot, row)).max(axis=0)
        ),
        "the changes are not made positive, so that a fall counts as none": lambda process, M, slot, row: (
            _changes(process, M, slot, row).max(axis=-1)
        ),
        "the largest change of all slots is given, not that of each slot": lambda process, M, slot, row: (
            abs(_changes(process, M, slot, row)).max()
        ),
        "the memories are compared before they are processed, not after": lambda process, M, slot, row: (
            abs(_changes(lambda M: M, M, slot, row)).max(axis=-1)
        ),
        "the row is added to the slot and does not replace it": lambda process, M, slot, row: (
            abs(_changes(process, M, slot, M[slot] + row)).max(axis=-1)
        ),
    },
)
def who_notices(process, M, slot, row):
    """The largest change (N,) of each slot of process(M), M (N, F), when slot number
    `slot` of M is replaced by `row` (F,).
    """
    changed = M.copy()
    changed[slot] = row
    return abs(process(changed) - process(M)).max(axis=-1)


def _layers(rng, *sizes):
    return [
        (rng.normal(size=size) / np.sqrt(size[0]), rng.normal(size=size[1]))
        for size in itertools.pairwise(sizes)
    ]


def _mlp_cases(rng):
    return [
        (rng.normal(size=(3, 4)), _layers(rng, 4, 5, 2)),
        (rng.normal(size=(2, 4, 4)), _layers(rng, 4, 4, 4)),
        (rng.normal(size=(3, 3)), _layers(rng, 3, 3, 3, 3)),
        (
            rng.normal(size=(1, 6)),
            _layers(rng, 6, 1),
        ),  # one layer: a matrix and a bias, and no ReLU
        (1e3 * rng.normal(size=(2, 5)), _layers(rng, 5, 8, 8, 5)),
    ]


def _relu(x):
    return np.maximum(x, 0)


def _bent(z, layers, bend=_relu, last=False):
    """An MLP with another bend between its layers, and with one at the end too if
    `last`.
    """
    for number, (weight, bias) in enumerate(layers):
        z = z @ weight + bias
        if last or number < len(layers) - 1:
            z = bend(z)
    return z


def _bias_late(z, layers):
    for weight, bias in layers[:-1]:
        z = _relu(z @ weight) + bias
    return z @ layers[-1][0] + layers[-1][1]


@exercise(
    cases=_mlp_cases,
    hints=[
        "A layer is z @ weight + bias. The bias has one number for each column and "
        "broadcasts over the rows.",
        "np.maximum(z, 0) after every layer but the last.",
        "A loop over layers[:-1] with the ReLU, and the last layer after it.",
    ],
    mistakes={
        "there is a ReLU also after the last layer": lambda z, layers: _bent(
            z, layers, last=True
        ),
        "there is no ReLU: all layers together are then one matrix and one bias": lambda z, layers: (
            _bent(z, layers, lambda x: x)
        ),
        "every layer uses the weights of the first": lambda z, layers: _bent(
            z, [layers[0]] * len(layers)
        ),
        "the last layer is left out": lambda z, layers: _bent(
            z, layers[:-1], last=True
        ),
        "only the first two layers are used": lambda z, layers: _bent(
            z, [layers[0], layers[1]]
        ),
        "the weights are multiplied transposed": lambda z, layers: _bent(
            z, [(weight.T, bias) for weight, bias in layers]
        ),
        "the biases are left out": lambda z, layers: _bent(
            z, [(weight, 0) for weight, _ in layers]
        ),
        "the bias is added after the ReLU": _bias_late,
        "the ReLU stands before every layer, the first one too": lambda z, layers: (
            _bent(_relu(z), layers)
        ),
        "the absolute value is taken where the ReLU should be": lambda z, layers: _bent(
            z, layers, abs
        ),
    },
)
def mlp(z, layers):
    """Linear layers with a ReLU between each two: z (..., F), layers [(weight (in,
    out), bias (out,)), ...] -> (..., out of the last).
    """
    *hidden, (weight, bias) = layers
    for hidden_weight, hidden_bias in hidden:
        z = np.maximum(z @ hidden_weight + hidden_bias, 0)
    return z @ weight + bias


def _g_psi_cases(rng):
    def case(*shape, depth=2, scale=1.0):
        F = shape[-1]
        return (
            scale * rng.normal(size=shape),
            _layers(rng, *[F] * (depth + 1)),
            1 + rng.random(F),
            rng.normal(size=F),
        )

    return [
        case(3, 4),
        case(2, 4, 4),
        case(2, 3, 6, depth=3),
        case(1, 5),
        case(4, 4, depth=1, scale=100.0),
    ]


@exercise(
    cases=_g_psi_cases,
    hints=[
        "From the inside out: the MLP of z, then z added to it, then the norm of the "
        "sum.",
        "layer_norm(mlp(z, layers) + z, gain, offset); ex.mlp and ex.layer_norm are "
        "there, if yours are not.",
    ],
    mistakes={
        "z is not added to what the MLP makes of it": lambda z, layers, gain, offset: (
            layer_norm(mlp(z, layers), gain, offset)
        ),
        "z is added after the norm, not before": lambda z, layers, gain, offset: (
            layer_norm(mlp(z, layers), gain, offset) + z
        ),
        "the norm comes before the MLP, not after": lambda z, layers, gain, offset: (
            mlp(layer_norm(z, gain, offset), layers) + z
        ),
        "the norm is left out": lambda z, layers, gain, offset: mlp(z, layers) + z,
        "the norm is that of the whole memory, not that of each slot": lambda z, layers, gain, offset: (
            _norm(mlp(z, layers) + z, gain, offset, axis=(-2, -1))
        ),
        "the layers are run through in the wrong order": lambda z, layers, gain, offset: (
            layer_norm(mlp(z, layers[::-1]) + z, gain, offset)
        ),
    },
)
def g_psi(z, layers, gain, offset):
    """layer_norm(MLP(z) + z): z (..., N, F), layers from F to F, gain and offset (F,)
    -> (..., N, F).
    """
    return layer_norm(mlp(z, layers) + z, gain, offset)


@exercise(
    cases=lambda rng: [(1, 8, 2), (4, 64, 2), (8, 64, 2), (16, 5, 1), (3, 3, 3)],
    hints=[
        "How many numbers are there in one layer from F to F, its bias included? How "
        "many in gain and offset?",
        "Which of them is there once for each slot?",
    ],
    mistakes={
        "every slot has parameters of its own": lambda N, F, layers: (
            N * (layers * (F * F + F) + 2 * F)
        ),
        "gain and offset have a number for each unit of each slot": lambda N, F, layers: (
            layers * (F * F + F) + 2 * N * F
        ),
        "the biases of the layers are left out": lambda N, F, layers: (
            layers * F * F + 2 * F
        ),
        "gain and offset are left out": lambda N, F, layers: layers * (F * F + F),
        "the matrices alone are counted": lambda N, F, layers: layers * F * F,
        "the MLP reads all slots side by side, N F numbers": lambda N, F, layers: (
            layers * (N * F) * (N * F + 1) + 2 * F
        ),
    },
)
def g_psi_parameters(N, F, layers):
    """The number of trainable numbers in g_psi for a memory of N slots of width F and
    an MLP with so many layers, each from F to F.
    """
    return layers * (F * F + F) + 2 * F
