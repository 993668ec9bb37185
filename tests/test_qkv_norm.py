"""The norm on queries, keys and values: the paper's core with it, the released one
without it, each against loops over rows and heads.
"""

import fakecupy
import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_memory import DEFAULTS, INPUT, B, randomised
from turns import in_turn

from tinyrmc import PaperRelationalMemory, RelationalMemory, Tape, config, gradcheck
from tinyrmc import primitives as p
from tinyrmc.cores import CoreConfig, build_core

T = 5
PAPER = {"mem_slots": 3, "head_size": 4, "num_heads": 2, "key_size": 3}


def cores():
    """{form: a randomised core whose row is the other form's}"""
    sizes = {name: DEFAULTS[name] for name in PAPER}
    made = {
        "rmc": RelationalMemory(
            INPUT, **sizes, dtype=np.float64, qkv_norm=False, seed=0
        ),
        "rmc_paper": PaperRelationalMemory(
            INPUT, **PAPER, dtype=np.float64, qkv_norm=True, seed=0
        ),
    }
    return {form: randomised(core) for form, core in made.items()}


def arrays(core):
    return {name: each.data for name, each in core.named_parameters()}


def inputs_of(seed=0):
    return np.random.default_rng(seed).standard_normal((T, B, INPUT))


def unrolled(core, inputs, trace=None):
    state = core.initial_state(inputs.shape[1])
    outputs, _ = core.unroll(p.swapaxes(inputs, 0, 1), state, trace)
    return [output.data for output in outputs]


def test_the_released_core_without_it_is_the_oracle():
    core = cores()["rmc"]
    names = arrays(core)
    assert "blocks.0.qkv.weight" in names and "blocks.0.qkv.bias" not in names
    assert not any("qkv_norm" in name for name in names)
    inputs, memory = inputs_of(), core.initial_state(B)
    setting = {**DEFAULTS, "qkv_norm": False}
    expected = oracles.relational_memory(np, names, setting, inputs, memory)
    assert_allclose(
        unrolled(core, inputs), expected.reshape(T, B, -1), rtol=1e-11, atol=1e-11
    )


def paper_by_rows(P, x, m, h, num_heads, key_size):
    """One step of the paper's core with the norm, for one example: x (F,), m and h
    (N, F).
    """

    def of_head(head):
        return np.hstack([P[name][head] for name in ("W_q", "W_k", "W_v")])

    weight = np.hstack([of_head(head) for head in range(num_heads)])
    rows = [row @ weight + P["qkv_bias"] for row in [*m, x]]
    norm = P["qkv_norm.gain"], P["qkv_norm.offset"]
    qkv = [oracles.normalised(np, row, *norm) for row in rows]
    new_m, new_h = [], []
    for slot, heard in enumerate(oracles.attended(np, qkv, num_heads, key_size)[:-1]):
        hidden = np.maximum(heard @ P["mlp.0.weight"] + P["mlp.0.bias"], 0)
        refined = hidden @ P["mlp.1.weight"] + P["mlp.1.bias"] + heard
        norm = P["mlp_norm.gain"], P["mlp_norm.offset"]
        candidate = oracles.normalised(np, refined, *norm)
        f, i, o = (
            x @ P[f"W_{gate}"] + h[slot] @ P[f"U_{gate}"] + P[f"b_{gate}"]
            for gate in "fio"
        )
        keep, write = oracles.logistic(np, f + 1.0), oracles.logistic(np, i)
        new_m.append(keep * m[slot] + write * candidate)
        new_h.append(oracles.logistic(np, o) * np.tanh(new_m[-1]))
    return np.stack(new_m), np.stack(new_h)


def test_the_papers_core_with_it_is_the_loop():
    core = cores()["rmc_paper"]
    P, inputs = arrays(core), inputs_of()
    ours = unrolled(core, inputs)
    for example in range(B):
        m, h = (array[example] for array in core.initial_state(B))
        for t in range(T):
            x = inputs[t, example] @ P["input_projection.weight"]
            x = x + P["input_projection.bias"]
            m, h = paper_by_rows(P, x, m, h, num_heads=2, key_size=3)
            assert_allclose(ours[t][example], h.ravel(), rtol=1e-11, atol=1e-11)


@in_turn("form", ["rmc", "rmc_paper"])
def test_gradients_are_exact(form):
    core = cores()[form]

    def outputs(inputs):
        state = core.initial_state(B)
        return tuple(core.unroll(inputs, state)[0])

    gradcheck(outputs, inputs_of().swapaxes(0, 1), parameters=core.parameters())


@in_turn("form", ["rmc", "rmc_paper"])
def test_a_trace_tells_of_attention_and_gates(form):
    core, trace = cores()[form], []
    assert_array_equal(unrolled(core, inputs_of(), trace), unrolled(core, inputs_of()))
    assert len(trace) == T
    gates = {"input_gate", "forget_gate"}
    gates |= {"output_gate"} if form == "rmc_paper" else set()
    for step in trace:
        assert set(step) == {"attention", *gates}
        assert step["attention"].shape == (B, 2, 3, 4)
        assert_allclose(step["attention"].sum(-1), 1)
        assert all(0 < step[gate].min() <= step[gate].max() < 1 for gate in gates)


@in_turn("form", ["rmc", "rmc_paper"])
def test_on_a_device_the_same_without_waiting(form):
    """One entry on the tape for all steps has the norm; without it there are many."""

    def gradients(core, inputs):
        with Tape() as tape:
            outputs, _ = core.unroll(inputs, core.initial_state(B))
            loss = p.sum(p.square(outputs[-1]))
        tape.backward(loss)
        return [parameter.grad for parameter in core.parameters()]

    inputs = inputs_of().swapaxes(0, 1).astype(np.float32)
    core = cores()[form].astype(np.float32)
    expected = gradients(core, inputs)
    there = cores()[form].astype(np.float32).to(fakecupy.cupy)
    with fakecupy.no_sync(), fakecupy.only(np.float32):
        found = gradients(there, fakecupy.device(inputs))
    for ours, theirs in zip(found, expected, strict=True):
        assert_allclose(ours.get(), theirs, rtol=1e-4, atol=1e-5)


# --- The setting ----------------------------------------------------------------------


def normed(core):
    return any("qkv_norm" in name for name, _ in core.named_parameters())


@in_turn(
    "core, setting, has",
    [
        ("rmc", "usual", True),
        ("rmc", "layer", True),
        ("rmc", "none", False),
        ("rmc_paper", "usual", False),
        ("rmc_paper", "layer", True),
        ("rmc_paper", "none", False),
    ],
)
def test_the_setting_says_which_core_has_it(core, setting, has):
    assert normed(build_core(CoreConfig(core, qkv_norm=setting), 5, 0)) == has


@in_turn("core", ["rmc", "rmc_paper"])
def test_all_other_weights_begin_as_they_were(core):
    """The row is the only difference between two runs of one seed."""
    one, other = (
        arrays(build_core(CoreConfig(core, qkv_norm=setting), 5, 3))
        for setting in ("layer", "none")
    )
    added = {name for name in one if "qkv_" in name or name.endswith("qkv.bias")}
    assert added and one.keys() - other.keys() == added
    for name, array in other.items():
        assert_array_equal(one[name], array)


def test_runs_from_before_the_setting_can_be_read():
    written = config.to_json(CoreConfig("rmc_paper"))["config"]
    del written["qkv_norm"]
    read = config.from_json(CoreConfig, written)
    assert read == CoreConfig("rmc_paper") and read.qkv_norm == "usual"


def test_another_word_is_refused():
    with pytest.raises(ValueError, match=r"model\.qkv_norm must be one of usual, la"):
        CoreConfig(qkv_norm="batch")
    with pytest.raises(TypeError, match="qkv_norm must be True or False"):
        RelationalMemory(5, 3, 4, 2, qkv_norm="layer", seed=0)
