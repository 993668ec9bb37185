"""The norm on queries, keys and values: the paper's core with it against loops over
rows and heads, and the setting. test_memory.py has the released core without it.
"""

import numpy as np
import oracles
from numpy.testing import assert_allclose, assert_array_equal
from test_memory import INPUT, B, randomised
from turns import in_turn

from tinyrmc import PaperRelationalMemory, config, gradcheck
from tinyrmc.cores import CoreConfig, build_core

T = 5


def arrays(core):
    return {name: each.data for name, each in core.named_parameters()}


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


def normed_core_and_inputs():
    sizes = {"mem_slots": 3, "head_size": 4, "num_heads": 2, "key_size": 3}
    core = PaperRelationalMemory(
        INPUT, **sizes, dtype=np.float64, qkv_norm=True, seed=0
    )
    return randomised(core), np.random.default_rng(0).standard_normal((B, T, INPUT))


def test_the_papers_core_with_it_is_the_loop():
    core, inputs = normed_core_and_inputs()
    P, ours = arrays(core), core.unroll(inputs, core.initial_state(B))[0]
    for example in range(B):
        m, h = (array[example] for array in core.initial_state(B))
        for t in range(T):
            x = inputs[example, t] @ P["input_projection.weight"]
            x = x + P["input_projection.bias"]
            m, h = paper_by_rows(P, x, m, h, num_heads=2, key_size=3)
            assert_allclose(ours[t].data[example], h.ravel(), rtol=1e-11, atol=1e-11)


def test_its_gradients_are_exact():
    core, inputs = normed_core_and_inputs()

    def outputs(inputs):
        return tuple(core.unroll(inputs, core.initial_state(B))[0])

    gradcheck(outputs, inputs, parameters=core.parameters())


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
