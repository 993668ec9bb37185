"""Equations 1-9 against everything that can contradict them.

Arithmetic by hand, a transcription in scalar loops, and three independent ways to a
derivative (our tape, HIPS autograd, the complex step) through the core unrolled over
time.
"""

import math
import sys

import autograd
import autograd.numpy as hips
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from turns import in_turn

import tinyrmc
from tinyrmc import Parameter, Tape, equations, optim, primitives
from tinyrmc.cli import train
from tinyrmc.cores import CoreConfig, build_core, registry

B, T, N, H, K, V = 3, 5, 4, 2, 3, 4
F = H * V
FORGET_BIAS = 1.0
SETTINGS = [  # rows of input n, width of a gate G
    pytest.param(1, F, id="unit gating"),
    pytest.param(1, 1, id="memory gating"),
    pytest.param(2, F, id="two input rows"),
]


def random_parameters(n=1, G=F, seed=0):
    """Every array `step` needs, by name, in one flat dict.

    An engine differentiates with respect to these.
    """
    random = np.random.default_rng(seed)
    shapes = {"W_q": (H, F, K), "W_k": (H, F, K), "W_v": (H, F, V)}
    shapes |= {"mlp_weight_1": (F, 6), "mlp_bias_1": (6,)}
    shapes |= {"mlp_weight_2": (6, F), "mlp_bias_2": (F,)}
    shapes |= {"gain": (F,), "offset": (F,)}
    for name in "fio":
        shapes |= {f"W_{name}": (n * F, G), f"U_{name}": (F, G), f"b_{name}": (G,)}
    return {
        name: random.standard_normal(shape) / math.sqrt(shape[-1])
        for name, shape in shapes.items()
    }


def as_step_wants(flat):
    """The dict of `equations.step` from a flat one."""
    parameters = {
        name: value for name, value in flat.items() if not name.startswith("mlp")
    }
    layers = [
        (flat[f"mlp_weight_{layer}"], flat[f"mlp_bias_{layer}"]) for layer in (1, 2)
    ]
    return {**parameters, "mlp": layers, "forget_bias": FORGET_BIAS}


def random_inputs(n=1, seed=1):
    """Inputs (T, B, F) or (T, B, n, F), and the first state (m, h)."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((T, B, F) if n == 1 else (T, B, n, F))
    return x, (random.standard_normal((B, N, F)), random.standard_normal((B, N, F)))


def unrolled(xp, flat, inputs, state):
    """The outputs h of every step, and the last state."""
    outputs = []
    for x in inputs:
        h, state = equations.step(xp, x, state, as_step_wants(flat))
        outputs.append(h)
    return outputs, state


def scalar_loss(xp, flat, inputs, state):
    """A number that depends on every output and on the last memory.

    Each entry has its own weight.
    """
    outputs, (m, _) = unrolled(xp, flat, inputs, state)
    probes = np.random.default_rng(2).standard_normal((len(outputs) + 1, *m.shape))
    loss = 0.0
    for value, probe in zip([*outputs, m], probes, strict=True):
        loss = loss + xp.sum(value * probe)
    return loss


def our_gradient(function, flat):
    """The value of function(primitives, Parameters) and its gradient, by our tape."""
    parameters = {name: Parameter(value) for name, value in flat.items()}
    with Tape() as tape:
        loss = function(primitives, parameters)
    tape.backward(loss)
    return float(loss.data), {
        name: parameter.grad for name, parameter in parameters.items()
    }


def hips_gradient(function, flat):
    """The same by HIPS autograd, which shares no code with us."""
    value, gradient = autograd.value_and_grad(lambda flat: function(hips, flat))(flat)
    return float(value), gradient


def relative_error(actual, expected):
    return np.max(np.abs(actual - expected)) / np.max(np.abs(expected))


# By hand ------------------------------------------------------------------------------


def test_layer_norm_by_hand():
    x = np.array([[1.0, 2, 3, 6]])  # mean 3, squared distances 4, 1, 0, 9 with mean 7/2
    normal = (x - 3) / math.sqrt(3.5)
    normed = equations.layer_norm(np, x, np.ones(4), np.zeros(4), epsilon=0.0)
    assert_allclose(normed, normal, rtol=1e-14)
    scaled = equations.layer_norm(np, x, np.full(4, 2.0), np.ones(4), epsilon=0.0)
    assert_allclose(scaled, 2 * normal + 1, rtol=1e-14)
    constant = equations.layer_norm(np, np.full((2, 4), 7.0), np.ones(4), np.zeros(4))
    # epsilon keeps a row without variance finite
    assert_array_equal(constant, np.zeros((2, 4)))


def test_sigmoid_is_the_logistic_function_to_its_ends():
    x = np.linspace(-20, 20, 41)
    assert_allclose(equations.sigmoid(np, x), 1 / (1 + np.exp(-x)), rtol=1e-7)
    with np.errstate(all="raise"):
        ends = equations.sigmoid(np, np.array([-np.inf, -1e4, 0, 1e4, np.inf]))
    assert_array_equal(ends, [0, 0, 0.5, 1, 1])


# Against a transcription in scalars ---------------------------------------------------


def sigma(a):
    return 1 / (1 + math.exp(-a))


def dot(a, b):
    return math.fsum(p * q for p, q in zip(a, b, strict=True))


def apply(x, W):
    """x W for one row, in the paper's words.

    Each entry is the dot product of x with a column of W.
    """
    return [dot(x, column) for column in zip(*W, strict=True)]


def attend_one_slot(m, rows, W_q, W_k, W_v):
    """Eq 2 for one slot and one head: its row of M~."""
    query = apply(m, W_q)
    keys, values = ([apply(z, W) for z in rows] for W in (W_k, W_v))
    scores = [math.exp(dot(query, key) / math.sqrt(len(query))) for key in keys]
    total = math.fsum(scores)
    weights = [score / total for score in scores]
    return [dot(weights, [v[j] for v in values]) for j in range(V)]


def process_one_row(z, p):
    """g_psi(z) for one row of M~."""
    (W_1, b_1), (W_2, b_2) = p["mlp"]
    hidden = [max(a + b, 0.0) for a, b in zip(apply(z, W_1), b_1, strict=True)]
    y = [a + b + c for a, b, c in zip(apply(hidden, W_2), b_2, z, strict=True)]
    mean = math.fsum(y) / F
    deviation = math.sqrt(math.fsum((a - mean) ** 2 for a in y) / F + 1e-5)
    return [
        g * (a - mean) / deviation + b
        for a, g, b in zip(y, p["gain"], p["offset"], strict=True)
    ]


def step_in_scalars(x, m, h, p):
    """Eqs 2-8 for one example, with no arrays anywhere.

    x is a list of n rows, m and h are lists of N rows.
    """
    new_m, new_h = [], []
    x_vector = [a for row in x for a in row]
    for m_i, h_i in zip(m, h, strict=True):
        attended = []
        for head in range(H):
            attended += attend_one_slot(
                m_i, m + x, p["W_q"][head], p["W_k"][head], p["W_v"][head]
            )
        candidate = process_one_row(attended, p)
        gates = {}
        for name in "fio":
            from_x, from_h = apply(x_vector, p[f"W_{name}"]), apply(h_i, p[f"U_{name}"])
            a = [
                u + v + w
                for u, v, w in zip(from_x, from_h, p[f"b_{name}"], strict=True)
            ]
            gates[name] = a * F if len(a) == 1 else a
        f, i, o = gates["f"], gates["i"], gates["o"]
        m_t = [
            sigma(f[j] + FORGET_BIAS) * m_i[j] + sigma(i[j]) * candidate[j]
            for j in range(F)
        ]
        new_m.append(m_t)
        new_h.append([sigma(o[j]) * math.tanh(m_t[j]) for j in range(F)])
    return new_m, new_h


@in_turn("n, G", SETTINGS)
def test_step_equals_its_transcription_in_scalars(n, G):
    parameters = as_step_wants(random_parameters(n, G))
    inputs, (m, h) = random_inputs(n)
    output, (new_m, new_h) = equations.step(np, inputs[0], (m, h), parameters)
    assert output is new_h
    for b in range(B):
        rows = inputs[0][b].reshape(n, F).tolist()
        expected_m, expected_h = step_in_scalars(
            rows, m[b].tolist(), h[b].tolist(), parameters
        )
        assert_allclose(new_m[b], expected_m, rtol=1e-12, atol=1e-14)
        assert_allclose(new_h[b], expected_h, rtol=1e-12, atol=1e-14)


# Gates, slots and the trace -----------------------------------------------------------


@in_turn("n, G", SETTINGS)
def test_trace_shows_what_the_step_used(n, G):
    parameters = as_step_wants(random_parameters(n, G))
    inputs, (m, h) = random_inputs(n)
    trace = {}
    output, (new_m, _) = equations.step(np, inputs[0], (m, h), parameters, trace)
    assert set(trace) == {"attention", "input_gate", "forget_gate", "output_gate"}
    assert [weights.shape for weights in trace["attention"]] == [(B, N, N + n)] * H
    rows = np.concatenate([m, inputs[0].reshape(B, n, F)], axis=1)
    heads = [
        weights @ rows @ W_v
        for weights, W_v in zip(trace["attention"], parameters["W_v"], strict=True)
    ]
    attended = np.concatenate(heads, axis=-1)
    candidate = equations.g_psi(
        np, attended, parameters["mlp"], parameters["gain"], parameters["offset"]
    )
    assert_allclose(
        new_m, trace["forget_gate"] * m + trace["input_gate"] * candidate, rtol=1e-12
    )
    assert_allclose(output, trace["output_gate"] * np.tanh(new_m), rtol=1e-12)
    untraced, _ = equations.step(np, inputs[0], (m, h), parameters)
    assert np.array_equal(output, untraced)


# Derivatives, three ways --------------------------------------------------------------


@in_turn("n, G", SETTINGS)
def test_gradients_agree_between_our_engine_hips_and_the_complex_step(n, G):
    """With respect to the parameters, the inputs and the first state."""
    flat, (inputs, (m, h)) = random_parameters(n, G), random_inputs(n)
    flat |= {"m": m, "h": h, **{f"x_{t}": x for t, x in enumerate(inputs)}}

    def loss(xp, flat):
        inputs = [flat[f"x_{t}"] for t in range(T)]
        return scalar_loss(xp, flat, inputs, (flat["m"], flat["h"]))

    our_value, ours = our_gradient(loss, flat)
    hips_value, by_hips = hips_gradient(loss, flat)
    assert our_value == pytest.approx(hips_value, rel=1e-12)
    assert our_value == pytest.approx(loss(np, flat), rel=1e-12)
    random = np.random.default_rng(3)
    for name, value in flat.items():
        assert relative_error(ours[name], by_hips[name]) < 1e-12, name
        direction = ours[name] / np.linalg.norm(
            ours[name]
        ) + 0.1 * random.standard_normal(value.shape)
        moved = {**flat, name: value + 1e-30j * direction}
        assert loss(np, moved).imag / 1e-30 == pytest.approx(
            np.sum(ours[name] * direction), rel=1e-12
        ), name


# What trains --------------------------------------------------------------------------

SMALL = (
    *("nth_farthest quick --model.mem-slots 4 --model.head-size 8").split(),
    *("--model.num-heads 2 --data.objects 3 --train.batch-size 16").split(),
    *("--train.evaluate-every 1000 --train.log-every 1000").split(),
)


def trained(folder, *words):
    """The parameters of a small network after a run of the command line."""
    train.main([*SMALL, "--run", str(folder), *words])
    parameters = tinyrmc.load(folder).named_parameters()
    return {name: np.array(value.data) for name, value in parameters}


def test_an_edit_of_equation_7_changes_what_plain_training_learns(
    tmp_path, monkeypatch
):
    words = "--train.steps", "2", "--workers", "2", "--plain"
    before = trained(tmp_path / "before", *words)

    def edited(xp, f, i, m, candidate, forget_bias):
        return m + equations.sigmoid(xp, i) * candidate

    monkeypatch.setattr(equations, "update_memory", edited)
    after = trained(tmp_path / "after", *words)
    assert any(np.abs(after[name] - before[name]).max() > 1e-6 for name in before)


@in_turn("core", registry.names())
@pytest.mark.slow
def test_plain_and_fused_learn_the_same(core):
    random = np.random.default_rng(3)
    inputs, targets = random.standard_normal((8, 3, 5)), random.standard_normal((8, 3))

    def learned():
        sizes = {"mem_slots": 3, "head_size": 4, "num_heads": 2, "hidden_size": 6}
        model = build_core(CoreConfig(core, **sizes), 5, seed=0).astype(np.float64)
        optimizer = optim.Adam(model.parameters(), 0.01)
        for _ in range(10):
            with Tape() as tape:
                outputs, _ = model.unroll(inputs, model.initial_state(8))
                found = primitives.stack([x[:, 0] for x in outputs], axis=1)
                loss = primitives.mean(primitives.square(found - targets))
            optimizer.zero_grad()
            tape.backward(loss)
            optimizer.step()
        return [np.array(p.data) for p in model.parameters()]

    fused = learned()
    with tinyrmc.plain():
        plain = learned()
    for ours, theirs in zip(fused, plain, strict=True):
        assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    assert (
        any((a != b).any() for a, b in zip(fused, plain, strict=True))
        or core == "entnet"
        or sys.platform == "emscripten"  # whose NumPy has but one way to sum
    )


@pytest.mark.slow
def test_a_plain_run_goes_on_plain(tmp_path):
    words = "--train.steps", "4", "--workers", "1", "--plain"
    whole = trained(tmp_path / "whole", *words)
    part = tmp_path / "part"
    train.main([*SMALL, "--run", str(part), *words, "--max-minutes", "1e-9"])
    assert train.main(["--resume", str(part)]) == 0
    for name, value in tinyrmc.load(part).named_parameters():
        assert_array_equal(value.data, whole[name])
