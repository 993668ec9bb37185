"""Convolutions and the LSTM made of them, against plain loops."""

import typing

import numpy as np
import oracles
import pytest
from turns import in_turn

from tinyrmc import ConvLSTM, fused, gradcheck, nn
from tinyrmc.backend import to_host
from tinyrmc.cli.commands import Parser, add_flags, from_flags
from tinyrmc.config import hints_of
from tinyrmc.cores import CoreConfig, build_core, registry
from tinyrmc.cores.config import MapCoreConfig
from tinyrmc.cores.lstm import ConvLSTMConfig
from tinyrmc.errors import UsageError


def convolved(xp, x, weight, bias, padding):
    """Maps (N, H, W, C) place by place and number by number: lists of lists."""
    h, w = weight.shape[:2]
    down, across = (h - 1, w - 1) if padding == "SAME" else (0, 0)
    top, left = down // 2, across // 2
    height, width = x.shape[1] + down - h + 1, x.shape[2] + across - w + 1

    def at(n, i, j):
        total = bias
        for u in range(h):
            for v in range(w):
                row, column = i + u - top, j + v - left
                if 0 <= row < x.shape[1] and 0 <= column < x.shape[2]:
                    total = total + xp.dot(x[n, row, column], weight[u, v])
        return total

    def row(n, i):
        return xp.stack([at(n, i, j) for j in range(width)])

    maps = [[row(n, i) for i in range(height)] for n in range(x.shape[0])]
    return xp.stack([xp.stack(rows) for rows in maps])


# map, kernel: a whole map at once, strips, several strips side by side
MAPS = [
    ((5, 5), (2, 2)),
    ((4, 4), (2, 2)),
    ((3, 3), (5, 5)),
    ((2, 3), (1, 1)),
    ((6, 7), (3, 2)),
    ((1, 4), (2, 3)),
    ((3, 19), (2, 3)),
    ((9, 8), (4, 5)),
]
FITTING = [
    (size, kernel, padding)
    for size, kernel in MAPS
    for padding in ("VALID", "SAME")
    if padding == "SAME" or (size[0] >= kernel[0] and size[1] >= kernel[1])
]
every_map = in_turn("size, kernel, padding", FITTING)


def layer_and_maps(size, kernel, padding, relu=False):
    rng = np.random.default_rng(1)
    layer = nn.Conv2d(3, 4, kernel, padding, relu=relu, dtype=np.float64, seed=1)
    layer.bias.data = rng.standard_normal(4)
    return layer, rng.standard_normal((2, *size, 3))


@every_map
def test_it_is_the_sum_over_the_kernel(xp, size, kernel, padding):
    layer, x = layer_and_maps(size, kernel, padding)
    exact = convolved(np, x, layer.weight.data, layer.bias.data, padding)
    there = layer.to(xp)
    y = there(xp.asarray(x))
    assert type(y.data) is xp.ndarray
    np.testing.assert_allclose(to_host(y.data), exact, rtol=1e-12, atol=1e-13)
    with fused.plain():
        composed = there(xp.asarray(x))
    np.testing.assert_allclose(to_host(composed.data), exact, rtol=1e-12, atol=1e-13)


@every_map
def test_gradients_are_the_complex_steps(size, kernel, padding):
    layer, x = layer_and_maps(size, kernel, padding, relu=True)
    assert gradcheck(layer, x, parameters=dict(layer.named_parameters())) < 1e-10


def test_leading_axes_are_examples():
    layer, _ = layer_and_maps((5, 5), (2, 2), "VALID")
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 5, 3))
    y = layer(x).data
    assert y.shape == (2, 3, 4, 4, 4)
    np.testing.assert_allclose(y[1, 2], layer(x[1, 2]).data, rtol=1e-13, atol=1e-14)
    assert layer(x[:0]).shape == (0, 3, 4, 4, 4)


def test_the_start_is_that_of_a_linear_layer():
    layer = nn.Conv2d(64, 32, 5, seed=3)
    assert layer.weight.shape == (5, 5, 64, 32) and layer.weight.dtype == np.float32
    std = (25 * 64) ** -0.5
    values = layer.weight.data
    # a normal distribution cut off at two deviations has 0.88 of the deviation
    assert abs(values.std() / std - 0.88) < 0.01 and abs(values).max() <= 2 * std
    assert not layer.bias.data.any()
    assert nn.Conv2d(1, 1, bias=False, seed=0).bias is None
    assert nn.Conv2d(1, 1, (1, 3), seed=0).weight.shape == (1, 3, 1, 1)


# --- The core -------------------------------------------------------------------------

T, B, HEIGHT, WIDTH, INPUT, CHANNELS = 4, 2, 3, 2, 2, 3


def core_and_inputs(kernel=3, forget_bias=1.0):
    rng = np.random.default_rng(0)
    sizes = HEIGHT, WIDTH, INPUT, CHANNELS, kernel, forget_bias
    core = ConvLSTM(*sizes, dtype=np.float64, seed=0)
    for parameter in core.parameters():
        parameter.data = 0.5 * rng.standard_normal(parameter.shape)
    inputs = rng.standard_normal((B, T, HEIGHT, WIDTH, INPUT))
    hidden, cell = rng.standard_normal((2, B, HEIGHT, WIDTH, CHANNELS))
    return core, inputs, hidden, cell


def conv_lstm(xp, P, forget_bias, inputs, hidden, cell):
    """The core gate by gate: hidden (T, B, H, W, channels), and the last cell."""
    size, wide = hidden.shape[-1], inputs.shape[-1]
    W, b = P["gates.weight"], P["gates.bias"]

    def pre(k, x, h):
        own = slice(k * size, (k + 1) * size)
        of_input = convolved(xp, x, W[:, :, :wide, own], b[own], "SAME")
        return of_input + convolved(xp, h, W[:, :, wide:, own], 0.0 * b[own], "SAME")

    steps = []
    for t in range(inputs.shape[1]):
        i, j, f, o = (pre(k, inputs[:, t], hidden) for k in range(4))
        kept = oracles.logistic(xp, f + forget_bias) * cell
        cell = kept + oracles.logistic(xp, i) * xp.tanh(j)
        hidden = oracles.logistic(xp, o) * xp.tanh(cell)
        steps.append(hidden)
    return xp.stack(steps), cell


@in_turn("kernel", [1, 2, 3, 5])
@in_turn("forget_bias", [1.0, -2.5])
def test_it_equals_the_oracle_unrolled(xp, kernel, forget_bias):
    core, inputs, hidden, cell = core_and_inputs(kernel, forget_bias)
    P = {name: q.data for name, q in core.named_parameters()}
    expected, last = conv_lstm(np, P, forget_bias, inputs, hidden, cell)
    state = xp.asarray(hidden), xp.asarray(cell)
    outputs, (h, c) = core.to(xp).unroll(xp.asarray(inputs), state)
    for ours, exact in zip(outputs, expected, strict=True):
        rows = exact.reshape(B, -1)
        np.testing.assert_allclose(to_host(ours.data), rows, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(to_host(h.data), expected[-1], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(to_host(c.data), last, rtol=1e-11, atol=1e-13)


def test_its_gradients_are_the_complex_steps():
    core, inputs, hidden, cell = core_and_inputs()

    def outputs(inputs, hidden, cell):
        outputs, state = core.unroll(inputs, (hidden, cell))
        return (*outputs, *state)

    parameters = dict(core.named_parameters())
    gradcheck(outputs, inputs, hidden, cell, parameters=parameters, tolerance=1e-9)


def test_the_contract_of_a_core(xp):
    core = ConvLSTM(3, 3, 26, seed=0).to(xp)
    assert core.gates.weight.shape == (5, 5, 26 + 64, 4 * 64)
    assert (core.input_size, core.output_size) == (9 * 26, 9 * 64)
    state, trace = core.initial_state(2), []
    assert [part.shape for part in state] == [(2, 3, 3, 64)] * 2
    assert not any(to_host(part).any() for part in state)
    maps = np.random.default_rng(0).standard_normal((2, 3, 3, 26)).astype(np.float32)
    output, after = core(xp.asarray(maps), state, trace)
    assert output.shape == (2, 9 * 64) and output.dtype == np.float32
    assert [part.shape for part in after] == [(2, 3, 3, 64)] * 2 and trace == []
    in_a_row, _ = core(xp.asarray(maps.reshape(2, -1)), state)
    assert xp.array_equal(in_a_row.data, output.data)
    alone, _ = core(xp.asarray(maps[1:]), core.initial_state(1))
    ours, theirs = to_host(alone.data), to_host(output.data)[1:]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


# --- Its settings ---------------------------------------------------------------------


def test_a_map_has_all_cores_and_two_more():
    """Maps can be read with whatever reads vectors."""
    of_vectors, of_maps = (
        {*typing.get_args(hints_of(kind)["core"])}
        for kind in (CoreConfig, MapCoreConfig)
    )
    assert of_maps == of_vectors | {"conv_lstm", "feedforward"}
    assert of_maps <= {*registry.cores()}
    for name in sorted(of_maps):
        config = MapCoreConfig(name, head_size=2, hidden_size=4)
        core = build_core(config, (3, 3, 2), seed=0)
        assert core.input_size == 18
        x = np.zeros((2, 18), np.float32)
        output, _ = core(x, core.initial_state(2))
        assert output.shape == (2, core.output_size)


def test_its_flags():
    parser = Parser("prog", "")
    add_flags(parser, MapCoreConfig(), "model")
    words = "--core conv_lstm --conv-lstm.channels 8 --conv-lstm.kernel 3".split()
    found = from_flags(MapCoreConfig(), parser.parse_args(words))
    assert found == MapCoreConfig(
        "conv_lstm", settings={"conv_lstm": ConvLSTMConfig(8, 3)}
    )
    with pytest.raises(UsageError, match="did you mean 'conv_lstm'"):
        parser.parse_args(["--core", "conv_lst"])
