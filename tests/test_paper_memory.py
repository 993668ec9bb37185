"""PaperRelationalMemory against the paper's equations, unrolled over time.

And its interface, layout and errors.
"""

import numpy as np
from oracles import unrolled
from test_memory import GOOD, INPUT, B, T, randomised
from turns import in_turn

from tinyrmc import PaperRelationalMemory, equations
from tinyrmc.backend import to_host

PAPER = [
    {},
    {"num_heads": 1, "key_size": 5, "attention_mlp_layers": 1},
    {"num_heads": 3, "attention_mlp_layers": 3, "forget_bias": 0.5},
]


def paper_core(setting, seed=0):
    setting = {"mem_slots": 3, "head_size": 4, "num_heads": 2, **setting}
    core = randomised(
        PaperRelationalMemory(INPUT, dtype=np.float64, seed=seed, **setting), seed
    )
    return core, np.random.default_rng(seed).standard_normal((T, B, INPUT))


@in_turn("initial_memory", ["random", "identity"])
@in_turn("setting", PAPER)
def test_paper_core_is_the_equations_in_a_loop(xp, setting, initial_memory):
    core, inputs = paper_core({**setting, "initial_memory": initial_memory})
    P = {name: p.data for name, p in core.named_parameters()}
    layers = setting.get("attention_mlp_layers", 2)
    symbols = {name: a for name, a in P.items() if name[:2] in ("W_", "U_", "b_")}
    mlp = [(P[f"mlp.{k}.weight"], P[f"mlp.{k}.bias"]) for k in range(layers)]
    symbols |= {"mlp": mlp, "forget_bias": setting.get("forget_bias", 1.0)}
    symbols |= {"gain": P["mlp_norm.gain"], "offset": P["mlp_norm.offset"]}
    state = core.initial_state(B)
    assert not state[1].any()
    expected = []
    for x in inputs:
        x = x @ P["input_projection.weight"] + P["input_projection.bias"]
        h, state = equations.step(np, x, state, symbols)
        expected.append(h.reshape(B, -1))
    core.to(xp)
    ours, _ = unrolled(core, xp.asarray(inputs), core.initial_state(B))
    np.testing.assert_allclose(
        [to_host(output.data) for output in ours], expected, rtol=1e-12, atol=1e-12
    )


def test_paper_parameters_have_stable_names():
    core = PaperRelationalMemory(5, 3, head_size=4, num_heads=2, key_size=3, seed=0)
    F = 8
    expected = [("input_projection.weight", (5, F)), ("input_projection.bias", (F,))]
    expected += [("W_q", (2, F, 3)), ("W_k", (2, F, 3)), ("W_v", (2, F, 4))]
    expected += [
        (f"mlp.{k}.{name}", shape)
        for k in range(2)
        for name, shape in [("weight", (F, F)), ("bias", (F,))]
    ]
    expected += [("mlp_norm.gain", (F,)), ("mlp_norm.offset", (F,))]
    expected += [
        (f"{letter}_{gate}", (F,) if letter == "b" else (F, F))
        for gate in "fio"
        for letter in "WUb"
    ]
    assert [(name, p.shape) for name, p in core.named_parameters()] == expected
    assert core.equation_parameters()["W_q"] is core.W_q


def test_paper_initial_memories():
    random = PaperRelationalMemory(**GOOD, seed=1)
    m, h = random.initial_state(3)
    np.testing.assert_array_equal(m[0], m[2])  # the same for every example
    np.testing.assert_array_equal(
        m, PaperRelationalMemory(**GOOD, seed=1).initial_state(3)[0]
    )
    assert not np.array_equal(
        m, PaperRelationalMemory(**GOOD, seed=2).initial_state(3)[0]
    )
    assert not np.array_equal(m[0, 0], m[0, 1])  # slots differ
    assert m.shape == h.shape == (3, 2, 4) and m.dtype == h.dtype == np.float32
    m, h = PaperRelationalMemory(
        **GOOD, initial_memory="identity", seed=0
    ).initial_state(3)
    np.testing.assert_array_equal(m[1], np.eye(2, 4))
    assert not h.any()


def test_paper_trace(xp):
    core, inputs = paper_core({})
    core, x, trace = core.to(xp), xp.asarray(inputs[0]), []
    state = core.initial_state(B)
    plain, _ = core(x, state)
    traced, (m, h) = core(x, state, trace)
    assert xp.array_equal(traced.data, plain.data)
    (seen,) = trace
    assert set(seen) == {"attention", "input_gate", "forget_gate", "output_gate"}
    assert {type(a) for a in seen.values()} == {xp.ndarray}
    assert seen["attention"].shape == (B, 2, 3, 4)
    np.testing.assert_allclose(to_host(seen["attention"].sum(-1)), 1, rtol=1e-12)
    np.testing.assert_allclose(
        to_host(h.data), to_host(seen["output_gate"] * xp.tanh(m.data)), rtol=1e-12
    )
