"""RelationalMemory against independent oracles, unrolled over time.

And its interface, layout and errors.
"""

import itertools

import numpy as np
import oracles
import pytest
from oracles import unrolled
from turns import in_turn

from tinyrmc import PaperRelationalMemory, RelationalMemory, Tape, primitives
from tinyrmc.backend import to_host
from tinyrmc.cores.relational import identity_memory

T, B, INPUT = 8, 2, 3
DEFAULTS = {
    "mem_slots": 3,
    "num_heads": 2,
    "head_size": 3,
    "key_size": 2,
    "num_blocks": 1,
    "attention_mlp_layers": 2,
    "gate_style": "unit",
    "input_rows": None,
    "activate_final": False,
    "forget_bias": 1.0,
    "input_bias": 0.0,
}
ROWS = [None, 2, 1, 3]
# every gate style with every number of blocks and of heads; the other sizes take turns
SETTINGS = [
    {
        "gate_style": gate,
        "num_blocks": blocks,
        "num_heads": heads,
        "head_size": 2 if heads > 2 else 4,
        "key_size": 3 - k % 3,
        "mem_slots": 1 + (k + k // 4) % 4,
        "attention_mlp_layers": 1 + k % 3,
        "input_rows": ROWS[(k + k // 8) % 4],
        "activate_final": k % 5 < 2,
        "forget_bias": 1.0 - k % 3,
        "input_bias": 0.5 * (k % 2),
        "qkv_norm": k % 7 != 3,
    }
    for k, (gate, blocks, heads) in enumerate(
        itertools.product(["unit", "memory", None], [1, 2, 3], [1, 2, 3, 8])
    )
]


def full(setting):
    return {**DEFAULTS, **setting}


def randomised(core, seed=0):
    """The core with every parameter random, biases, gains and offsets too.

    Nothing may hide behind a zero or a one.
    """
    rng = np.random.default_rng(seed)
    for name, parameter in core.named_parameters():
        noise = rng.standard_normal(parameter.shape)
        fan_in = parameter.shape[0] if parameter.ndim > 1 else 4
        gain = name.endswith("gain")
        parameter.data = 1 + 0.3 * noise if gain else noise / np.sqrt(fan_in)
    return core


def core_and_arrays(setting, seed=0):
    """A randomised float64 core, with all it is run on.

    Its arrays by name, inputs for T steps, and a random first memory.
    """
    setting, rng = full(setting), np.random.default_rng(seed)
    core = randomised(
        RelationalMemory(INPUT, dtype=np.float64, **setting, seed=0), seed
    )
    rows = () if setting["input_rows"] is None else (setting["input_rows"],)
    inputs = rng.standard_normal((T, B, *rows, INPUT))
    memory = rng.standard_normal((B, setting["mem_slots"], core.mem_size))
    arrays = {name: p.data.copy() for name, p in core.named_parameters()}
    return core, arrays, inputs, memory


def probes(core):
    """A weight for every number the core puts out in T steps."""
    return np.random.default_rng(9).standard_normal(
        (T, B, core.mem_slots, core.mem_size)
    )


def gradients(xp, core, inputs, memory):
    """The loss by our tape on `xp`, and its gradients by parameter name.

    "memory" stands for the first memory. The core moves to `xp`.
    """
    names, parameters = zip(*core.to(xp).named_parameters(), strict=True)
    inputs, weights = xp.asarray(inputs), xp.asarray(probes(core))
    with Tape() as tape:
        first, loss = tape.watch(xp.asarray(memory)), 0.0
        outputs, _ = core.unroll(xp.swapaxes(inputs, 0, 1), first)
        for output, probe in zip(outputs, weights, strict=True):
            loss = loss + primitives.sum(output * probe.reshape(B, -1))
    found = tape.gradient(loss, [*parameters, first])
    return float(loss.data), dict(
        zip([*names, "memory"], map(to_host, found), strict=True)
    )


def oracle_loss(core, setting, inputs):
    """The same loss through the oracle.

    A function of xp and of arrays by name, with "memory".
    """

    def loss(xp, arrays):
        first = arrays["memory"]
        outputs = oracles.relational_memory(xp, arrays, full(setting), inputs, first)
        return xp.sum(outputs * probes(core))

    return loss


# --- RelationalMemory: values and gradients -------------------------------------------


@in_turn("setting", SETTINGS)
def test_equals_the_oracle_and_its_complex_step_over_8_steps(xp, setting):
    if xp is not np and setting not in SETTINGS[::4]:
        return  # the stand-in is slow
    core, arrays, inputs, memory = core_and_arrays(setting)
    expected = oracles.relational_memory(np, arrays, full(setting), inputs, memory)
    there, x, m = core.to(xp), xp.asarray(inputs), xp.asarray(memory)
    for outputs in (unrolled(there, x, m)[0], there.unroll(xp.swapaxes(x, 0, 1), m)[0]):
        ours = np.stack([to_host(output.data) for output in outputs])
        np.testing.assert_allclose(
            ours, expected.reshape(T, B, -1), rtol=1e-10, atol=1e-10
        )

    _, found = gradients(xp, core, inputs, memory)
    rng = np.random.default_rng(3)
    directions = {name: rng.choice([-1.0, 1.0], g.shape) for name, g in found.items()}
    exact = oracles.slope(
        oracle_loss(core, setting, inputs), {**arrays, "memory": memory}, directions
    )
    terms = np.concatenate(
        [(g * directions[name]).ravel() for name, g in found.items()]
    )
    assert abs(terms.sum() - exact) <= 1e-10 * np.abs(terms).sum()


# --- RelationalMemory: parameters -----------------------------------------------------


def test_parameters_have_the_documented_names_order_and_shapes():
    sizes = {"head_size": 4, "num_heads": 2, "key_size": 3, "input_rows": 6}
    core = RelationalMemory(5, 3, **sizes, num_blocks=2, attention_mlp_layers=3, seed=0)
    F, width = 8, 2 * (3 + 3 + 4)
    block = [
        ("qkv.weight", (F, width)),
        ("qkv.bias", (width,)),
        ("qkv_norm.gain", (width,)),
        ("qkv_norm.offset", (width,)),
        ("attention_norm.gain", (F,)),
        ("attention_norm.offset", (F,)),
        ("mlp_norm.gain", (F,)),
        ("mlp_norm.offset", (F,)),
    ]
    expected = [("input_projection.weight", (5, F)), ("input_projection.bias", (F,))]
    expected += [
        (f"blocks.{r}.{name}", shape) for r in range(2) for name, shape in block
    ]
    expected += [
        (f"mlp.{k}.{name}", shape)
        for k in range(3)
        for name, shape in [("weight", (F, F)), ("bias", (F,))]
    ]
    expected += [("gate_inputs.weight", (6 * F, 2 * F)), ("gate_inputs.bias", (2 * F,))]
    expected += [("gate_memory.weight", (F, 2 * F)), ("gate_memory.bias", (2 * F,))]
    assert [(name, p.shape) for name, p in core.named_parameters()] == expected
    assert core.num_parameters == sum(int(np.prod(shape)) for _, shape in expected)
    assert (core.mem_size, core.output_size) == (8, 24)


def test_weights_start_as_released():
    core = RelationalMemory(100, 2, 16, 4, num_blocks=2, seed=0)
    for name, parameter in core.named_parameters():
        kind, data = name.rsplit(".", 1)[1], parameter.data
        if kind == "weight":
            std = parameter.shape[0] ** -0.5
            assert np.abs(data).max() <= 2 * std * (1 + 1e-6), name
            if data.size > 1000:
                assert data.std() == pytest.approx(0.88 * std, rel=0.05), name
        else:
            assert (data == (1.0 if kind == "gain" else 0.0)).all(), name


@in_turn("make", [RelationalMemory, PaperRelationalMemory])
def test_weights_do_not_depend_on_the_number_of_slots(make):
    few, many = make(5, 2, 4, 2, seed=3), make(5, 9, 4, 2, seed=3)
    pairs = zip(few.named_parameters(), many.named_parameters(), strict=True)
    assert all(a == b and np.array_equal(p.data, q.data) for (a, p), (b, q) in pairs)


# --- RelationalMemory: state, gates, trace --------------------------------------------


@in_turn("slots, size", [(2, 5), (4, 4), (5, 3)])
def test_the_first_memory_is_the_identity_padded_or_cut(xp, slots, size):
    core = RelationalMemory(3, slots, size, seed=0).to(xp)
    state = core.initial_state(2)
    expected = np.zeros((slots, size), np.float32)
    for k in range(min(slots, size)):
        expected[k, k] = 1
    assert state.dtype == np.float32
    np.testing.assert_array_equal(to_host(state), [expected, expected])
    np.testing.assert_array_equal(identity_memory(slots, size, np.float32), expected)


def test_a_norm_over_all_rows_put_in_place_sees_them_all():
    core = RelationalMemory(3, 4, 5, 2, dtype=np.float64, seed=0)
    core.blocks[0]["qkv_norm"] = lambda x: (
        x - primitives.mean(x, axis=(-2, -1), keepdims=True)
    )
    inputs, state = np.random.default_rng(0).normal(size=(6, 3)), core.initial_state(6)
    (out, _), (own, _) = core(inputs, state), core(inputs, state.copy())
    np.testing.assert_allclose(to_host(out.data), to_host(own.data), rtol=1e-12)


@in_turn("blocks, gate_style", [(1, "unit"), (2, "memory"), (2, None)])
def test_products_of_a_memory_that_all_examples_share_are_made_once(blocks, gate_style):
    """They give the same outputs and gradients as a memory of each example's own."""
    sizes = {"num_blocks": blocks, "gate_style": gate_style}
    core = RelationalMemory(3, 4, 5, 2, **sizes, dtype=np.float64, seed=0)
    rng, found, work = np.random.default_rng(0), [], []
    inputs, weights = rng.normal(size=(6, 2, 3)), rng.normal(size=(6, core.output_size))
    shared = core.initial_state(6)
    for state in shared, shared.copy():
        with Tape() as tape:
            outputs, _ = core.unroll(inputs, state)
            loss = primitives.sum(outputs[1] * weights)
        made = [shape for entry in tape.entries for _, shape, _ in entry[3]]
        work.append(made.count((1, 4, 30)))  # q, k and v of one example
        found.append([x.data for x in outputs])
        found[-1] += tape.gradient(loss, core.parameters(), strict=False)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    assert work == [2, 0]  # with the norm


@in_turn("rows", [None, 1, 3])
@in_turn("gate_style, units", [("unit", 6), ("memory", 1), (None, None)])
def test_trace_hands_out_attention_and_gates(xp, gate_style, units, rows):
    core, _, inputs, memory = core_and_arrays(
        {"gate_style": gate_style, "input_rows": rows, "num_blocks": 2}
    )
    trace = []
    for x in inputs[:2]:
        core.to(xp)(xp.asarray(x), xp.asarray(memory), trace)
    assert len(trace) == 2
    assert {type(a) for seen in trace for a in seen.values()} == {xp.ndarray}
    trace = [{name: to_host(a) for name, a in seen.items()} for seen in trace]
    for seen in trace:
        assert set(seen) == (
            {"attention", "input_gate", "forget_gate"} if units else {"attention"}
        )
        assert seen["attention"].shape == (B, 2, 3, 3 + (rows or 1))
        assert (seen["attention"] >= 0).all()
        np.testing.assert_allclose(seen["attention"].sum(-1), 1, rtol=1e-12)
        for gate in set(seen) - {"attention"}:
            assert seen[gate].shape == (B, 3, units)
            assert ((seen[gate] > 0) & (seen[gate] < 1)).all()
    assert not np.array_equal(trace[0]["attention"], trace[1]["attention"])


@in_turn("gate_style", ["unit", "memory", None])
def test_trace_changes_neither_results_nor_the_tape(xp, gate_style):
    core, _, *arrays = core_and_arrays({"gate_style": gate_style, "num_blocks": 2})
    core, (inputs, memory) = core.to(xp), map(xp.asarray, arrays)

    def run(trace):
        for parameter in core.parameters():
            parameter.grad[...] = 0
        with Tape() as tape:
            output, state = core(inputs[0], memory, trace)
            output, _ = core(inputs[1], state, trace)
            loss = primitives.sum(output * output)
        entries = [entry[0].name for entry in tape.entries]
        tape.backward(loss)
        return entries, output.data, [p.grad.copy() for p in core.parameters()]

    entries, output, grads = run(None)
    traced_entries, traced_output, traced_grads = run([])
    assert traced_entries == entries
    assert xp.array_equal(traced_output, output)
    assert all(
        xp.array_equal(one, two) for one, two in zip(grads, traced_grads, strict=True)
    )


# --- RelationalMemory: bad arguments --------------------------------------------------

GOOD = {"input_size": 5, "mem_slots": 2, "head_size": 4}
