"""The Recurrent Entity Network and the bank of LSTM cells against slow ones.

And their gradients, what must hold, and errors.
"""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import unrolled
from turns import in_turn

from tinyrmc import EntNet, EntNetBank, Tape, gradcheck
from tinyrmc import primitives as p
from tinyrmc.backend import to_host
from tinyrmc.cores.entnet import normalised, prelu

T, B, INPUT, N, F = 10, 2, 3, 4, 5
KINDS = {
    "EntNet": lambda dtype=np.float32: EntNet(INPUT, N, F, dtype=dtype, seed=0),
    "EntNetBank": lambda dtype=np.float32: EntNetBank(INPUT, N, F, dtype=dtype, seed=0),
}
both = in_turn("kind", KINDS)


def random_core(kind, seed=0):
    """In float64, all parameters random."""
    core, rng = KINDS[kind](np.float64), np.random.default_rng(seed)
    for parameter in core.parameters():
        parameter.data = rng.standard_normal(parameter.shape)
    return core


def arrays_of(kind, seed=0):
    """Inputs (T, B, INPUT) and the arrays of a state, each (B, N, F)."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((T, B, INPUT)), [
        rng.standard_normal((B, N, F)) for _ in range(1 + (kind == "EntNetBank"))
    ]


def expected(xp, kind, P, inputs, parts):
    if kind == "EntNet":
        return oracles.entnet(xp, P, inputs, *parts)
    return oracles.entnet_bank(xp, P, 1.0, inputs, parts)


def packed(parts):
    """A state of its arrays."""
    return tuple(parts) if len(parts) > 1 else parts[0]


@both
def test_equals_the_oracle_over_10_steps(xp, kind):
    core, (inputs, parts) = random_core(kind), arrays_of(kind)
    P = {name: parameter.data for name, parameter in core.named_parameters()}
    outputs, _ = unrolled(
        core.to(xp), xp.asarray(inputs), packed([xp.asarray(part) for part in parts])
    )
    ours, theirs = (
        [to_host(o.data) for o in outputs],
        expected(np, kind, P, inputs, parts),
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


# --- the Recurrent Entity Network -----------------------------------------------------


@given(st.integers(0, 1000), st.sampled_from([0.01, 1.0, 100.0]))
def test_slots_have_length_one(seed, size):
    core, (inputs, (slots,)) = random_core("EntNet", seed), arrays_of("EntNet", seed)
    for x in inputs:
        _, slots = core(size * x, slots)
        np.testing.assert_allclose(np.square(slots.data).sum(-1), 1, rtol=1e-12)


def test_it_starts_from_its_keys_which_are_learned(xp):
    core = EntNet(INPUT, N, F, seed=0).to(xp)
    with Tape() as tape:
        start = core.initial_state(B)
        loss = p.sum(start * 2.0)
    assert start.shape == (B, N, F)
    for b in range(B):
        np.testing.assert_array_equal(to_host(start.data)[b], to_host(core.keys.data))
    tape.backward(loss)
    assert (core.keys.grad == 2 * B).all()


def test_a_gate_opens_where_the_input_has_to_do_with_slot_or_key():
    core = random_core("EntNet")
    core.encoder.weight.data = 0 * core.encoder.weight.data
    core.encoder.bias.data = s = np.array([30.0, 0.0, 0.0, 0.0, 0.0])
    core.keys.data = np.array([s, 0 * s, -s, 0 * s]) / 10
    slots = np.array([[0 * s, s, 0 * s, -s]]) / 10
    core(np.zeros((1, INPUT)), slots, trace := [])
    np.testing.assert_allclose(trace[0]["gates"], [[1, 1, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(trace[0]["answers"].sum(-1), 1, rtol=1e-12)


def test_a_slot_without_length_stays_and_has_a_gradient(xp):
    rows = np.array([[0.0, 0.0], [3.0, 4.0], [1e-8, 0.0]])
    with Tape() as tape:
        x = tape.watch(xp.asarray(rows))
        y = normalised(x)
        loss = p.sum(y * xp.asarray([1.0, 2.0]))
    assert to_host(y.data).tolist() == [[0, 0], [0.6, 0.8], [1e-8, 0]]
    expected = [[1, 2], [0.2 - 0.6 * 0.44, 0.4 - 0.8 * 0.44], [1, 2]]
    gradient = to_host(tape.gradient(loss, x))
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


def test_prelu(xp):
    slope = xp.asarray([0.5, 2.0, -1.0])
    assert to_host(
        prelu(xp.asarray([[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]]), slope).data
    ).tolist() == [[1, 2, 3], [-0.5, -4, 3]]
    gradcheck(prelu, np.array([[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]]), to_host(slope))
    assert (EntNet(INPUT, N, F, seed=0).slope.data == 1).all()


# --- the bank -------------------------------------------------------------------------


def test_the_cells_differ_from_the_start_and_are_summed():
    core = EntNetBank(INPUT, N, F, dtype=np.float64, seed=0)
    inputs, _ = arrays_of("EntNetBank")
    output, (hidden, _) = core(inputs[0], core.initial_state(B))
    np.testing.assert_allclose(output.data, hidden.data.sum(1), rtol=1e-14)
    for j in range(1, N):
        assert np.abs(hidden.data[:, j] - hidden.data[:, 0]).max() > 0.05


# --- both -----------------------------------------------------------------------------


def test_parameters_have_stable_names_and_start_as_sonnets():
    names = {
        kind: {name: q.shape for name, q in make().named_parameters()}
        for kind, make in KINDS.items()
    }
    square = {f"{name}.weight": (F, F) for name in "UVWH"}
    assert names["EntNet"] == {
        "encoder.weight": (INPUT, F),
        "encoder.bias": (F,),
        "keys": (N, F),
        **square,
        "slope": (F,),
    }
    bank_names = {"W": (INPUT, 4 * F), "U": (F, 4 * F), "keys": (N, 4 * F)}
    assert names["EntNetBank"] == bank_names
    bank, entnet = EntNetBank(40, 50, 60, seed=0), EntNet(40, 50, 100, seed=0)
    starts = (bank.W, 0.1), (bank.U, 0.1), (bank.keys, 1.0), (entnet.keys, 0.1)
    for parameter, std in starts:
        assert np.abs(parameter.data).max() <= 2 * std * (1 + 1e-6)
        assert parameter.data.std() == pytest.approx(0.88 * std, rel=0.05)
