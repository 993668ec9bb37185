"""The LSTM against an independent oracle, gate by gate and unrolled.

One layer and several; its start, interface and errors. And the plain network without a
memory cell.
"""

import numpy as np
import oracles
import pytest
from oracles import unrolled
from turns import in_turn

from tinyrmc import GRU, LSTM, DeepLSTM, Tape, backend, fused, gradcheck, primitives
from tinyrmc.autograd import gradients
from tinyrmc.backend import gemm, to_host
from tinyrmc.cores import RNN

T, B, INPUT, HIDDEN = 20, 3, 4, 5


def lstm_and_inputs(forget_bias=1.0, seed=0):
    rng = np.random.default_rng(seed)
    core = LSTM(INPUT, HIDDEN, forget_bias=forget_bias, dtype=np.float64, seed=seed)
    for parameter in core.parameters():
        parameter.data = rng.standard_normal(parameter.shape)
    inputs = rng.standard_normal((T, B, INPUT))
    hidden, cell = rng.standard_normal((2, B, HIDDEN))
    return core, inputs, hidden, cell


@in_turn("forget_bias", [1.0, 0.0, -2.5])
def test_equals_the_oracle_over_20_steps(xp, forget_bias):
    core, inputs, hidden, cell = lstm_and_inputs(forget_bias)
    P = {name: p.data for name, p in core.named_parameters()}
    expected, last = oracles.lstm(np, P, forget_bias, inputs, hidden, cell)
    outputs, (_, ours) = unrolled(
        core.to(xp), xp.asarray(inputs), (xp.asarray(hidden), xp.asarray(cell))
    )
    np.testing.assert_allclose(
        [to_host(output.data) for output in outputs], expected, rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(to_host(ours.data), last, rtol=1e-10, atol=1e-12)


def test_parameters_have_stable_names_and_a_truncated_normal_start():
    core = LSTM(40, 60, seed=0)
    assert [(name, p.shape) for name, p in core.named_parameters()] == [
        ("gates.weight", (100, 240)),
        ("gates.bias", (240,)),
    ]
    # the bias is drawn too, as in Sonnet
    for parameter, tolerance in (core.gates.weight, 0.03), (core.gates.bias, 0.2):
        # cut at two standard deviations of 1 / sqrt(100), which leaves 0.88 of one
        assert np.abs(parameter.data).max() <= 0.2 * (1 + 1e-6)
        assert parameter.data.std() == pytest.approx(0.088, rel=tolerance)
        assert abs(parameter.data.mean()) < 0.02


def test_unroll_is_one_product_for_all_inputs_and_one_for_the_weight(monkeypatch):
    """And a product for each step, forward and backward."""
    core, inputs, hidden, cell = lstm_and_inputs()
    shapes = []

    def counting(a, b, **where):
        if not where.get("add"):  # which comes back here for the product itself
            shapes.append((a.shape, b.shape))
        return gemm(a, b, **where)

    for module in fused.recurrent, gradients, backend, backend.cpu:
        monkeypatch.setattr(module, "gemm", counting)
    with Tape() as tape:
        outputs, _ = core.unroll(np.swapaxes(inputs, 0, 1), (hidden, cell))
        loss = primitives.sum(primitives.stack(outputs))
    tape.backward(loss)
    gates = 4 * HIDDEN
    assert shapes == [
        ((T, B, INPUT), (INPUT, gates)),
        *[((B, HIDDEN), (HIDDEN, gates))] * T,
        *[((B, gates), (gates, HIDDEN))] * T,
        ((INPUT + HIDDEN, T * B), (T * B, gates)),
        ((T * B,), (T * B, gates)),
    ]


@in_turn("lengths", [None, [T, 0, 7], [1, T, T - 1]])
def test_gradients_of_unroll_with_every_end_are_the_complex_steps(lengths):
    """Of outputs and last states, for inputs, first states and parameters."""
    core, inputs, state = deep_and_arrays(2)
    ends = None if lengths is None else np.array(lengths)

    def everything(inputs, *parts):
        pairs = (parts[:2], parts[2:])
        outputs, last = core.unroll(inputs, pairs, lengths=ends)
        return (*outputs, last)

    arrays = [array for pair in state for array in pair]
    batch_first = np.ascontiguousarray(np.swapaxes(inputs, 0, 1))
    gradcheck(everything, batch_first, *arrays, parameters=core.parameters())


def test_a_beginning_forgets_even_what_is_no_number(xp):
    """0 times NaN is NaN, and so is 0 times infinity."""
    core, inputs, *_ = lstm_and_inputs()
    core, steps = core.to(xp), xp.asarray(np.swapaxes(inputs, 0, 1))
    fresh = xp.asarray(np.arange(T) == [[0]] * B)

    def outputs_and_gradient(number):
        state = core.initial_state(B)
        for array in state:
            array[...] = number
        with Tape() as tape:
            outputs, _ = core.unroll(steps, state, is_first=fresh)
            loss = primitives.sum(outputs[-1])
        gradient = tape.gradient(loss, core.gates.weight)
        return to_host(outputs[-1].data), to_host(gradient)

    for number in np.nan, np.inf:
        for ours, theirs in zip(
            outputs_and_gradient(number), outputs_and_gradient(0), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_unroll_refuses_what_a_step_refuses(xp):
    x = xp.zeros((3, 2, 4), np.float32)
    for core in (
        LSTM(4, 5, seed=0).to(xp),
        DeepLSTM(4, 5, 2, seed=0).to(xp),
        RNN(4, 5, seed=0).to(xp),
    ):
        name, state = type(core).__name__, core.initial_state(3)
        with pytest.raises(ValueError, match=rf"^{name} expects inputs \(B, T, 4\)"):
            core.unroll(xp.zeros((3, 2, 5), np.float32), state)
        with pytest.raises(ValueError, match=r" expects a state \(3, 5\), got \(2"):
            core.unroll(x, core.initial_state(2))
        with pytest.raises(ValueError, match="lengths must be an array of 3 integers"):
            core.unroll(x, state, lengths=xp.ones(3))
        with pytest.raises(ValueError, match=r"is_first must be bool \[3, 2\]"):
            core.unroll(x, state, is_first=xp.ones((3, 1), bool))
    with pytest.raises(ValueError, match=r"^DeepLSTM expects a state of 2 pairs"):
        DeepLSTM(4, 5, 2, seed=0).to(xp).unroll(
            x, LSTM(4, 5, seed=0).to(xp).initial_state(3)[:1]
        )


# --- several layers -------------------------------------------------------------------


def deep_and_arrays(layers=3, seed=0):
    rng = np.random.default_rng(seed)
    core = DeepLSTM(INPUT, HIDDEN, layers, forget_bias=0.5, dtype=np.float64, seed=0)
    for parameter in core.parameters():
        parameter.data = rng.standard_normal(parameter.shape)
    inputs = rng.standard_normal((T, B, INPUT))
    state = [tuple(rng.standard_normal((2, B, HIDDEN))) for _ in range(layers)]
    return core, inputs, tuple(state)


@in_turn("layers", [1, 2, 3])
def test_several_layers_equal_the_oracle_over_20_steps(xp, layers):
    core, inputs, state = deep_and_arrays(layers)
    P = {name: q.data for name, q in core.named_parameters()}
    state_there = tuple((xp.asarray(h), xp.asarray(c)) for h, c in state)
    outputs, _ = unrolled(core.to(xp), xp.asarray(inputs), state_there)
    expected = oracles.deep_lstm(np, P, 0.5, inputs, state)
    assert outputs[0].shape == (B, core.output_size) == (B, layers * HIDDEN)
    np.testing.assert_allclose(
        [to_host(output.data) for output in outputs], expected, rtol=1e-10, atol=1e-12
    )


# --- without a memory cell ------------------------------------------------------------


def pytorch_gru(x, h, w_ih, w_hh, b_ih, b_hh):
    """A step as PyTorch documents it: gates in the order r, z, n, one row each."""
    (ir, iz, in_), (hr, hz, hn) = (
        np.split(rows @ w.T + b, 3, axis=1)
        for rows, w, b in ((x, w_ih, b_ih), (h, w_hh, b_hh))
    )
    r, z = 1 / (1 + np.exp(-ir - hr)), 1 / (1 + np.exp(-iz - hz))
    return (1 - z) * np.tanh(in_ + r * hn) + z * h


def test_a_gru_of_pytorch_s_weights_is_pytorch_s(xp):
    """As the table of weights in the library's README tells it."""
    rng = np.random.default_rng(0)
    shapes = {"weight_ih": (15, 4), "weight_hh": (15, 5), "bias_ih": 15, "bias_hh": 15}
    theirs = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    gru = GRU(4, 5, reset="after", dtype=np.float64, seed=0).to(xp)

    n = slice(10, 15)
    zrn = [*range(5, 10), *range(5), *range(10, 15)]
    both = np.concatenate([theirs["weight_ih"], theirs["weight_hh"]], axis=1)
    bias = theirs["bias_ih"] + theirs["bias_hh"]
    bias[n] = theirs["bias_ih"][n]
    own = {"linear.weight": both[zrn].T, "linear.bias": bias[zrn]}
    gru.load_parameters(own | {"hidden_bias": theirs["bias_hh"][n]})

    x, h = rng.normal(size=(3, 6, 4)), rng.normal(size=(3, 5))
    outputs, last = gru.unroll(xp.asarray(x), xp.asarray(h))
    state = xp.asarray(h)
    for t, output in enumerate(outputs):
        h = pytorch_gru(x[:, t], h, *theirs.values())
        np.testing.assert_allclose(to_host(output.data), h, atol=1e-12)
        stepped, state = gru(xp.asarray(x[:, t]), state)
        np.testing.assert_allclose(to_host(stepped.data), h, atol=1e-12)
    np.testing.assert_allclose(to_host(last.data), h, atol=1e-12)
    if xp is np:
        gradcheck(lambda x, h: gru.unroll(x, h)[0], x, h, parameters=gru)
    with pytest.raises(ValueError, match="GRU: reset must be 'before' or 'after'"):
        GRU(4, 5, seed=0, reset="late")
    assert [*GRU(4, 5, seed=0).arrays()] == ["linear.weight", "linear.bias"]


def test_the_plain_network_is_what_it_says(xp):
    """h' = tanh(x W_x + h W_h + b); gradients and `unroll` are in test_cores.py."""
    core, rng = RNN(INPUT, HIDDEN, np.float64, seed=2), np.random.default_rng(0)
    W, b = core.linear.weight.data.copy(), rng.standard_normal(HIDDEN)
    core.linear.bias.data = b
    inputs, hidden = rng.standard_normal((T, B, INPUT)), rng.random((B, HIDDEN))
    ours, last = unrolled(core.to(xp), xp.asarray(inputs), xp.asarray(hidden))
    assert last is ours[-1]
    for x, output in zip(inputs, ours, strict=True):
        hidden = np.tanh(x @ W[:INPUT] + hidden @ W[INPUT:] + b)
        np.testing.assert_allclose(to_host(output.data), hidden, rtol=1e-12)
