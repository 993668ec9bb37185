"""Fused primitives against their references: the same values and gradients.

In both precisions and at the edges.
"""

import contextlib

import numpy as np
import pytest
from fakecupy import single
from hypothesis import given
from hypothesis import strategies as st
from samplers import (
    CASES,
    LAYOUTS,
    Case,
    as_tuple,
    check_gradient,
    gradients,
    output_weights,
)
from turns import in_turn

from tinyrmc import Parameter, Tape, Tensor, fused
from tinyrmc import primitives as p
from tinyrmc.autograd import gradients as of_tape
from tinyrmc.autograd.engine import TABLE
from tinyrmc.backend import to_host

FUSED = [
    name for name, primitive in TABLE.items() if isinstance(primitive, fused.Fused)
]
every_fused = in_turn("name", FUSED)


def assert_close(ours, theirs, tolerance, about):
    """Within `tolerance` of the largest element.

    Sums of many terms round relative to the terms, not to the result.
    """
    ours, theirs = to_host(ours), to_host(theirs)
    scale = max(1.0, np.abs(theirs).max(initial=0.0))
    assert np.abs(ours - theirs).max(initial=0.0) <= tolerance * scale, about


def assert_fused_is_its_reference(case, tolerance):
    reference, weights = TABLE[case.name].reference, output_weights(case)
    for ours, theirs in zip(
        as_tuple(case()), as_tuple(case(function=reference)), strict=True
    ):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        assert_close(ours.data, theirs.data, tolerance, f"{case}: value")
    for k, ours, theirs in zip(
        case.floats,
        gradients(case, weights),
        gradients(case, weights, function=reference),
        strict=True,
    ):
        assert ours.dtype == theirs.dtype
        assert_close(ours, theirs, tolerance, f"{case}: gradient of argument {k}")


EMPTY = [
    Case("attention", (np.zeros((0, 3, 12)),), {"num_heads": 2, "key_size": 2}),
    Case("lstm_gates", (np.zeros((0, 8)), np.zeros((0, 2)))),
    Case(
        "lstm",
        (
            *(np.zeros((4, 0, 3)), np.ones((5, 8)), np.ones(8)),
            *(np.zeros((0, 2)), np.zeros((0, 2))),
        ),
    ),
    Case(
        "rmc_gates", tuple(np.zeros((0, *s)) for s in ((1, 6), (2, 6), (2, 3), (2, 3)))
    ),
]


@in_turn("case", EMPTY)
def test_a_batch_of_no_examples(case):
    assert_fused_is_its_reference(case, 0)


@every_fused
def test_equals_its_reference_in_float32(xp, name):
    for case in CASES[name]:
        assert_fused_is_its_reference(case.map(single).map(xp.asarray), 2e-5)


@in_turn("layout", LAYOUTS)
@every_fused
def test_equals_its_reference_in_any_layout(xp, name, layout):
    for case in CASES[name]:
        assert_fused_is_its_reference(case.map(xp.asarray).map(LAYOUTS[layout]), 1e-12)


@every_fused
def test_static_arguments_in_order(xp, name):
    for case in CASES[name]:
        case = case.map(xp.asarray)
        if [*case.static] == TABLE[name].statics[: len(case.static)] and len(
            case.arguments
        ) == TABLE[name].arity:
            for function in TABLE[name], TABLE[name].reference:
                for ours, theirs in zip(
                    as_tuple(function(*case.arguments, *case.static.values())),
                    as_tuple(case()),
                    strict=True,
                ):
                    assert_close(ours.data, theirs.data, 1e-12, f"{case}")


sizes = st.integers(1, 4)


@given(
    batch=sizes,
    rows=sizes,
    heads=sizes,
    key=sizes,
    value=sizes,
    queries=sizes,
    seed=st.integers(0, 99),
)
def test_attention_of_any_size(xp, batch, rows, heads, key, value, queries, seed):
    random, queries = np.random.default_rng(seed), min(queries, rows)
    qkv = random.standard_normal((batch, rows, heads * (2 * key + value)))
    static = {"num_heads": heads, "key_size": key, "num_queries": queries}
    case = Case("attention", (xp.asarray(qkv),), static)
    assert case().shape == (batch, queries, heads * value)
    assert_fused_is_its_reference(case, 1e-12)
    check_gradient(case, seed)


@given(
    batch=sizes,
    rows=sizes,
    heads=sizes,
    queries=sizes,
    share=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_a_mask_is_attention_over_what_it_leaves(
    xp, batch, rows, heads, queries, share, seed
):
    """For each row that asks, a softmax over the rows it may attend to.

    And over nothing else.
    """
    random, key, value, queries = np.random.default_rng(seed), 2, 3, min(queries, rows)
    qkv = random.standard_normal((batch, rows, heads * 7))
    mask = random.random((batch, heads, queries, rows)) < share
    mask |= np.eye(queries, rows, dtype=bool)
    trace, static = {}, {"num_heads": heads, "key_size": key, "num_queries": queries}
    out = to_host(
        fused.attention(xp.asarray(qkv), xp.asarray(mask), **static, trace=trace).data
    )
    weights = to_host(trace["attention"])
    assert (weights[~mask] == 0).all()
    for b, h, q in np.ndindex(batch, heads, queries):
        may = np.flatnonzero(mask[b, h, q])
        own = qkv[b, :, 7 * h : 7 * h + 7]
        heard = np.exp(own[may, 2:4] @ own[q, :2] / np.sqrt(2))
        np.testing.assert_allclose(
            weights[b, h, q, may], heard / heard.sum(), rtol=1e-12
        )
        answer = out[b, q, value * h : value * (h + 1)]
        expected = heard @ own[may, 4:] / heard.sum()
        np.testing.assert_allclose(answer, expected, rtol=1e-10, atol=1e-12)
    case = Case("attention", (xp.asarray(qkv), xp.asarray(mask)), static)
    assert_fused_is_its_reference(case, 1e-12)
    check_gradient(case, seed)


def test_a_mask_that_forbids_nothing_changes_no_bit(xp):
    case = CASES["attention"][0].map(xp.asarray)
    assert xp.array_equal(
        case().data,
        fused.attention(*case.arguments, xp.ones((4, 4), bool), **case.static).data,
    )


@given(
    batch=sizes,
    slots=sizes,
    width=sizes,
    per_unit=st.booleans(),
    biases=st.tuples(*[st.floats(-3, 3)] * 2),
    seed=st.integers(0, 99),
)
def test_gates_of_any_size(xp, batch, slots, width, per_unit, biases, seed):
    random, columns = np.random.default_rng(seed), 2 * width if per_unit else 2
    gates, memory = (batch, slots, columns), (batch, slots, width)
    shapes = (batch, 1, columns), gates, memory, memory
    arrays = [xp.asarray(random.standard_normal(shape)) for shape in shapes]
    static = dict(zip(("input_bias", "forget_bias"), biases, strict=True))
    case = Case("rmc_gates", tuple(arrays), static)
    assert_fused_is_its_reference(case, 1e-12)
    check_gradient(case, seed)


# --- Reference mode -------------------------------------------------------------------


def entries_of(case):
    arguments = list(case.arguments)
    with Tape() as tape:
        for k in case.floats:
            arguments[k] = tape.watch(arguments[k])
        case(arguments)
    return [entry[0].name for entry in tape.entries]


@every_fused
def test_reference_mode_swaps_the_composition_in(xp, name):
    """One entry becomes several basic ones; values and gradients stay.

    Afterwards all is as before.
    """
    case = CASES[name][0].map(xp.asarray)
    weights = output_weights(case)
    before, values = gradients(case, weights), [o.data for o in as_tuple(case())]
    assert entries_of(case) == [name]
    with fused.plain():
        names, composed = entries_of(case), as_tuple(case())
        gradients_composed = gradients(case, weights)
    assert name not in names
    assert set(names) <= set(p.__all__)
    assert entries_of(case) == [name]
    for ours, theirs in zip(
        [*values, *before],
        [*(o.data for o in composed), *gradients_composed],
        strict=True,
    ):
        assert_close(ours, theirs, 1e-12, name)


def test_reference_mode_ends_with_its_block():
    case = CASES["linear"][0]
    with fused.plain():
        with fused.plain():
            pass
        assert entries_of(case) == ["matmul", "add"]
    with pytest.raises(KeyError), fused.plain():
        raise KeyError
    assert entries_of(case) == ["linear"]


# --- Edges ----------------------------------------------------------------------------


@in_turn("dtype", [np.float32, np.float64])
def test_logits_of_ten_thousand(xp, dtype):
    logits = xp.array([[1e4, 0, -1e4], [-1e4, 1e4, 1e4]], dtype)
    targets = xp.array([1, 2])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        case = Case("softmax_cross_entropy", (logits, targets))
        np.testing.assert_allclose(to_host(case().data), [1e4, np.log(2)], rtol=1e-6)
        (g,) = gradients(case, [xp.ones(2, dtype)])
        np.testing.assert_allclose(to_host(g), [[1, -1, 0], [0, 0.5, -0.5]], atol=1e-7)
        assert_fused_is_its_reference(case, 1e-6)
        # dot products of +-1e4
        qkv = xp.array([[[100.0, 100.0, 1.0], [100.0, -100.0, 2.0]]], dtype)
        case = Case("attention", (qkv,), {"num_heads": 1, "key_size": 1})
        assert case().data.tolist() == [[[1.0], [1.0]]]
        assert_fused_is_its_reference(case, 1e-6)
        extreme = xp.full((1, 2, 8), 1e4, dtype)
        for sign in 1, -1:
            z, memory = sign * extreme, extreme[..., :4]
            values = fused.rmc_gates(z[:, :1], z, memory, memory).data
            assert values.tolist() == [[[1e4 + 1 if sign > 0 else 0.0] * 4] * 2]


@in_turn("dtype", [np.float32, np.float64])
def test_layer_norm_of_a_constant_row_is_its_offset(xp, dtype):
    random = np.random.default_rng(0)
    for width in 1, 2, 7, 64, 1000, 1024, 3001:
        gain, offset = xp.ones(width, dtype), xp.arange(width, dtype=dtype)
        for value in 0.0, 100.3, -1 / 3, 1e-20, 12345678.9, 3e18:
            x = random.standard_normal((3, width)).astype(dtype)
            x[1] = value
            for residual in None, xp.zeros((3, width), dtype):
                for op in fused.layer_norm, fused.layer_norm.reference:
                    y = op(xp.asarray(x), gain, offset, residual).data
                    assert xp.array_equal(y[1], offset), (width, value, op)


@in_turn("name", "attention rmc_gates memory_hop sliding_hop".split())
def test_a_trace_cannot_be_written(name):
    """Backward needs these very arrays."""
    for function in getattr(fused, name), getattr(fused, name).reference:
        case, trace = CASES[name][0], {}
        with Tape() as tape:
            args = [tape.watch(case.arguments[0]), *case.arguments[1:]]
            function(*args, **case.static, trace=trace)
        for values in trace.values():
            with pytest.raises(ValueError, match="read-only"):
                values[...] = 0


def test_relu_has_slope_zero_at_zero(xp):
    arrays = xp.zeros((1, 2)), xp.ones((2, 3)), xp.zeros(3)
    gx, *_ = gradients(Case("linear", arrays, {"relu": True}), [xp.ones((1, 3))])
    assert (gx == 0).all()


def test_relu_stops_even_an_infinite_gradient(xp):
    """The slope of a square root at 0: 0 * inf would be NaN."""
    x, weight, bias = xp.ones((1, 1, 2)), xp.asarray([[-1.0, 1], [-1, 1]]), xp.zeros(2)
    for op, kernel in (fused.linear, weight), (fused.conv2d, weight[None, None]):
        parameters = [Parameter(array) for array in (kernel, bias)]
        with Tape() as tape:
            seen = tape.watch(x)
            loss = p.sum(p.sqrt(op(seen, *parameters, relu=True)))
        with np.errstate(divide="ignore"):
            found = tape.gradient(loss, [seen, *parameters])
        assert all(np.isfinite(to_host(gradient)).all() for gradient in found)


def test_traces_are_what_was_computed(xp):
    """Attention weights and gates in a trace are those of the reference.

    They cost no entry.
    """
    trace, composed = {}, {}
    for case in CASES["attention"][1], CASES["rmc_gates"][0]:
        arrays = case.map(xp.asarray).arguments
        operation = getattr(fused, case.name)
        operation(*arrays, **case.static, trace=trace)
        operation.reference(*arrays, **case.static, trace=composed)
    assert set(trace) == set(composed) == {"attention", "input_gate", "forget_gate"}
    assert trace["attention"].shape == (2, 2, 3, 4)  # (B, H, Q, R)
    np.testing.assert_allclose(to_host(trace["attention"].sum(-1)), 1, rtol=1e-14)
    for key, values in trace.items():
        assert type(values) is xp.ndarray
        np.testing.assert_allclose(to_host(values), to_host(composed[key]), rtol=1e-13)


@pytest.mark.parametrize(("tracked", "gemms"), [("weight", 1), ("x", 1), ("both", 2)])
def test_linear_makes_no_gradient_that_nobody_wants(xp, tracked, gemms, monkeypatch):
    """An input that is plain data costs no GEMM backward."""
    shapes = []
    for module in fused.layers, of_tape:
        monkeypatch.setattr(
            module, "gemm", lambda a, b, **_: shapes.append((a.shape, b.shape)) or a @ b
        )
    x, weight = xp.ones((4, 3)), xp.ones((3, 2))
    with Tape() as tape:
        if tracked in ("x", "both"):
            x = tape.watch(x)
        if tracked in ("weight", "both"):
            weight = tape.watch(weight)
        loss = p.sum(fused.linear(x, weight))
    assert shapes == [((4, 3), (3, 2))]
    tape.gradient(loss, [t for t in (x, weight) if isinstance(t, Tensor)])
    assert len(shapes) == 1 + gemms


def test_what_is_refused_is_refused_in_plain_mode_too():
    logits, weight, x = np.zeros((1, 3)), np.ones((4, 2)), np.ones((1, 2))
    qkv, heads = np.ones((1, 2, 8)), {"num_heads": 1, "key_size": 2}
    asked, stories = np.ones((1, 1, 2)), np.ones((1, 3, 2))
    calls = [
        (IndexError, "none of 0 .. 2", call, logits, [bad])
        for call in (fused.softmax_cross_entropy, fused.categorical)
        for bad in (-1, 3, 7)
    ]
    calls += [(IndexError, "none of 0 .. 3", fused.embedding, weight, [-1])]
    calls += [
        (IndexError, "none of 0 .. 3", fused.linear_cross_entropy, x, weight, [4]),
        (TypeError, "not integers", fused.softmax_cross_entropy, logits, [0.0]),
        (ValueError, "shapes must be", fused.linear, x, weight),
        (ValueError, "shapes must be", fused.layer_norm, x, np.ones(1), np.ones(2)),
        (TypeError, "others float64", fused.linear, x, single(weight.T)),
        (ValueError, "nothing to attend to", fused.attention, qkv, [[True], [False]]),
        (ValueError, "examples, or heads", fused.attention, qkv, [[[True] * 2] * 2]),
        (
            *(ValueError, "nothing to attend to", fused.memory_hop, asked),
            *(stories[:, :2], stories[:, :2], stories[..., :2], [[False] * 3]),
        ),
        (
            *(ValueError, "nothing to attend to", fused.sliding_hop, asked),
            *(stories, stories[0], stories, stories[0], [[False] * 3]),
        ),
    ]
    for kind, says, call, *values in calls:
        arrays = [np.asarray(each) for each in values]
        static = heads if call is fused.attention else {}
        for mode in contextlib.nullcontext, fused.plain:
            with mode(), pytest.raises(kind, match=says):
                call(*arrays, **static)


def test_a_negative_target_is_refused_where_looking_costs_nothing(xp):
    logits, targets = xp.zeros((2, 3)), xp.array([0, -1])
    if xp is np:
        with pytest.raises(IndexError, match=r"-1 is none .*;\n.* leave padding out"):
            fused.softmax_cross_entropy(logits, targets)
    else:  # it wraps
        losses = to_host(fused.softmax_cross_entropy(logits, targets).data)
        np.testing.assert_allclose(losses, np.log(3), rtol=1e-14)
