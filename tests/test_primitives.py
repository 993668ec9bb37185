"""Every row of the table, basic and fused, by one set of checks.

A new row needs cases in samplers.py, or nothing here is collected.
"""

import functools
import inspect
import pydoc

import numpy as np
import pytest
from conftest import LIBRARIES
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from samplers import (
    CASES,
    EVERY,
    LAYOUTS,
    Case,
    as_tuple,
    away_from_zero,
    check_gradient,
    direction,
    function_of,
    gradients,
    normal,
    output_weights,
    overlap,
    takes_a_list,
)

from tinyrmc import fused, primitives
from tinyrmc.autograd.engine import TABLE, Tape
from tinyrmc.autograd.gradients import DeferredMatmul
from tinyrmc.backend import compiles, to_host
from tinyrmc.fused import table

# What NumPy does not have, written down once more. (Its split gives a list, and its
# power has no name for the second argument.)
BY_HAND = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "softmax": lambda x, axis=-1: np.exp(x) / np.exp(x).sum(axis, keepdims=True),
    "logsumexp": lambda x, axis=None, keepdims=False: np.log(
        np.exp(x).sum(axis, keepdims=keepdims)
    ),
    "log_softmax": lambda x, axis=-1: x - np.log(np.exp(x).sum(axis, keepdims=True)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x / (1 + np.exp(-((8 / np.pi) ** 0.5) * (x + 0.044715 * x**3))),
    "split": lambda x, indices_or_sections, axis=0: tuple(
        np.split(x, indices_or_sections, axis)
    ),
    "relu": lambda x: np.maximum(x, 0),
    "pad": lambda x, pad_width, constant_values=0: np.pad(
        x, pad_width, constant_values=constant_values
    ),
    "tile": lambda x, reps: np.tile(x, reps),  # its names differ
    "getitem": lambda x, key: x[key],
    "reshape": lambda x, shape: np.reshape(x, shape),  # another name before NumPy 2.1
    "unstack": lambda x, axis=0: tuple(np.moveaxis(x, axis, 0)),
    "take_along_axis": lambda x, indices, axis=-1: np.take_along_axis(x, indices, axis),
    # NumPy's takes no indices wider than the machine's
    "take": lambda x, indices, axis=None: np.take(
        x, np.asarray(indices).astype(np.intp), axis
    ),
}


def arrays_in(value):
    """All arrays in nested tuples of anything."""
    if hasattr(value, "dtype"):
        return [value]
    parts = value if isinstance(value, (tuple, list)) else []
    return [a for part in parts for a in arrays_in(part)]


def computed(part):
    """A gradient that a rule has given, which may be deferred."""
    return part.computed() if isinstance(part, DeferredMatmul) else part


SHARED = {"minimum": "maximum", "expand_dims": "reshape", "squeeze": "reshape"}


def test_every_row_is_documented_and_has_a_derivative():
    for name in CASES:
        primitive = TABLE[name]
        assert primitive.rule is not None, f"{name} has no vjp"
        assert primitive.__doc__, f"{name} has no docstring"
        assert "needs" in inspect.signature(primitive.rule).parameters
        assert primitive.rule.__name__ == f"{SHARED.get(name, name)}_vjp"
        assert repr(primitive) == f"<primitive {name}>"


def test_signatures_are_those_of_numpy():
    """Arrays by position, the other arguments in order or by name."""
    for function, told in (
        (primitives.add, "(a, b, /)"),
        (primitives.sum, "(x, /, axis=None, keepdims=False)"),
        (primitives.concatenate, "(arrays, /, axis=0)"),
        (fused.linear, "(x, weight, bias=None, /, relu=False)"),
        (
            fused.attention,
            "(qkv, mask=None, /, *, num_heads, key_size, num_queries=None, trace=None)",
        ),
    ):
        assert str(inspect.signature(function)) == told
        assert function.__doc__.startswith(f"{function.name}{told}\n\n")
        assert function.name + told in pydoc.render_doc(function)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_and_gradients_whatever_the_layout(layout, xp=np):
    """The gradient is that of the complex step, the value that of a plain array."""
    for seed, case in enumerate(EVERY):
        there = case.map(xp.asarray).map(LAYOUTS[layout])
        if case.name != "power" or not compiles(xp):  # by logarithms in CuPy's complex
            check_gradient(there, seed)
        for output, plain in zip(as_tuple(there()), as_tuple(case()), strict=True):
            close(output, plain.data, case)


@pytest.mark.parametrize("xp", LIBRARIES[1:])
def test_values_and_gradients_on_a_device(xp):
    test_values_and_gradients_whatever_the_layout("gaps", xp)


def close(output, expected, case):
    """A result against an array on the host."""
    found, where = to_host(output.data), str(case)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14, err_msg=where)


def test_a_vjp_wrong_by_a_thousandth_is_caught(monkeypatch):
    """Proves that the check above can fail, for each argument of each primitive (but
    sign, whose slope is 0).
    """
    for name in CASES.keys() - {"sign"}:
        primitive, rule = TABLE[name], TABLE[name].rule
        for position in sorted({k for case in CASES[name] for k in case.floats}):
            wrong = off_by_a_thousandth(primitive, position)
            monkeypatch.setattr(primitive, "rule", wrong)
            assert any(fails(case) for case in CASES[name]), (name, position)
            monkeypatch.setattr(primitive, "rule", rule)


def off_by_a_thousandth(primitive, position):
    rule = primitive.rule

    def scaled(xp, needs, *args):
        if primitive.in_place and needs[position] is not None:
            total = needs[position]
            before = total.copy()
            rule(xp, needs, *args)
            total += 0.001 * (total - before)
            return None
        partials = as_tuple(rule(xp, needs, *args))
        return tuple(
            1.001 * computed(part) if k == position and part is not None else part
            for k, part in enumerate(partials)
        )

    return scaled


def fails(case):
    try:
        check_gradient(case)
    except AssertionError:
        return True
    return False


def test_gradients_belong_to_the_caller_and_nothing_is_mutated(xp, monkeypatch):
    seen = []  # (array that the rule met, its copy from before)
    for name in CASES:
        rule = TABLE[name].rule

        def spy(xp, needs, g, *saved, rule=rule):
            seen.extend((a, a.copy()) for a in arrays_in([g, *saved]))
            return rule(xp, needs, g, *saved)

        monkeypatch.setattr(TABLE[name], "rule", spy)
        for case in CASES[name]:
            case = case.map(xp.asarray).map(lambda a: a.copy())
            weights = output_weights(case)
            seen[:] = [(a, a.copy()) for a in [*arrays_in(case.arguments), *weights]]
            found = gradients(case, weights)
            # neither an input, nor a saved array, nor the seed has changed
            assert all(xp.array_equal(array, before) for array, before in seen), case
            for k, gradient in enumerate(found):
                others = [*(a for a, _ in seen), *found[:k]]
                assert not any(overlap(gradient, a) for a in others), case
                assert type(gradient) is xp.ndarray
                gradient += 1  # nor is it read-only


def test_dtype_and_shape_are_kept(xp, dtype=np.float32):
    for case in EVERY:
        case = case.map(xp.asarray)
        narrow = case.map(lambda a: a.astype(dtype) if a.dtype.kind == "f" else a)
        for output, other in zip(as_tuple(narrow()), as_tuple(case()), strict=True):
            assert (output.dtype, output.shape) == (dtype, other.shape), f"{narrow}"
            assert type(output.data) is xp.ndarray
        weights = output_weights(narrow)
        wide = gradients(case, [w.astype(np.float64) for w in weights])
        found = zip(case.floats, gradients(narrow, weights), wide, strict=True)
        for position, gradient, reference in found:
            where = f"{narrow}: argument {position}"
            assert gradient.dtype == dtype, where
            assert gradient.shape == case.arguments[position].shape, where
            gradient, reference = to_host(gradient), to_host(reference)
            scale = max(1.0, np.abs(reference).max(initial=0))
            difference = np.abs(gradient - reference).max(initial=0)
            assert difference <= 2e-5 * scale, where


def test_one_gradient_asked_for_is_the_same_as_all():
    """The rules skip what nobody needs; what they still return must not change."""
    for case in EVERY:
        weights = output_weights(case)
        found = zip(case.floats, gradients(case, weights), strict=True)
        for position, gradient in found:
            (alone,) = gradients(case, weights, watch=[position])
            np.testing.assert_array_equal(alone, gradient, str(case))


def in_order(function, case):
    """function(...) with the static arguments in order, after the arrays."""
    arrays = [list(case.arguments)] if takes_a_list(case.name) else case.arguments
    return function(*arrays, *case.static.values())


def test_value_is_numpys(xp):
    """NumPy's function of the same name, with the same arguments by name.

    And again with the static ones in order, where both allow it.
    """
    for case in EVERY:
        name = case.name
        if name not in primitives.__all__:
            continue
        function = BY_HAND.get(name) or getattr(np, name)
        expected = case(function=function)
        there = case.map(xp.asarray)
        outputs = as_tuple(there())
        for output, value in zip(outputs, as_tuple(expected), strict=True):
            assert output.shape == np.shape(value)
            close(output, value, case)
        if name not in ("split", "unstack") and not {"keepdims", "ddof"} & {
            *case.static
        }:
            ours = in_order(function_of(name), there)
            close(ours, in_order(function, case), case)


# Where the complex step sees a kink's side only, or a function is composed.
WITNESSED = {*"arccosh arcsin cumsum expm1 moveaxis pad power prod roll".split()}
WITNESSED |= {*primitives.COMPOSED}


def test_central_differences_agree():
    for case in EVERY:
        if case.name not in WITNESSED:
            continue
        weights = output_weights(case)
        function = BY_HAND.get(case.name) or getattr(np, case.name)
        for position, gradient in zip(
            case.floats, gradients(case, weights), strict=True
        ):
            x = case.arguments[position]
            v = direction(np.random.default_rng(1), x.shape)
            ahead, behind = (
                np.sum(case(case.replace(position, x + h * v), function) * weights[0])
                for h in (1e-6, -1e-6)
            )
            slope, ours = (ahead - behind) / 2e-6, np.sum(gradient * v)
            assert abs(slope - ours) <= 1e-6 * max(1, abs(ours)), case


# --- Shapes that nobody thought of ----------------------------------------------------

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=3)


def strided(xp, data, array):
    return LAYOUTS[data.draw(st.sampled_from(list(LAYOUTS)))](xp.asarray(array))


BINARY = "add", "subtract", "multiply", "divide", "maximum", "minimum", "where"


@given(data=st.data(), name=st.sampled_from(BINARY))
def test_binary_primitives_broadcast_any_two_shapes(xp, name, data):
    a, b = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3)
    ).input_shapes
    arrays = strided(xp, data, normal(*a)), strided(xp, data, away_from_zero(*b))
    if name == "where":
        arrays = xp.asarray(normal(*data.draw(st.sampled_from([a, b]))) > 0), *arrays
    check_gradient(Case(name, arrays))


@given(data=st.data())
def test_matmul_of_any_two_shapes(xp, data):
    both = hnp.mutually_broadcastable_shapes(
        signature=np.matmul.signature, max_dims=2, max_side=3
    )
    a, b = data.draw(both).input_shapes
    arrays = strided(xp, data, normal(*a)), strided(xp, data, normal(*b))
    check_gradient(Case("matmul", arrays))


@given(data=st.data(), name=st.sampled_from(["sum", "mean", "max"]))
def test_reductions_over_any_axes(xp, name, data):
    shape = data.draw(shapes)
    axis = data.draw(st.none() | hnp.valid_tuple_axes(len(shape)))
    static = {"axis": axis, "keepdims": data.draw(st.booleans())}
    check_gradient(Case(name, (strided(xp, data, normal(*shape)),), static))


@given(data=st.data())
def test_any_basic_index(xp, data):
    shape = data.draw(shapes)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    x = strided(xp, data, normal(*shape))
    case = Case("getitem", (x,), {"key": key})
    assert xp.array_equal(case().data, x[key])
    check_gradient(case)


@given(data=st.data())
def test_any_index_of_integer_arrays(xp, data):
    """With slices before, between and after them, as NumPy has it."""
    shape = data.draw(hnp.array_shapes(max_dims=4, max_side=3))
    arrays = data.draw(hnp.integer_array_indices(shape))
    basic = st.sampled_from([slice(None), slice(None, None, -1), 0])
    key = tuple(data.draw(st.just(each) | basic) for each in arrays)
    x = normal(*shape)
    case = Case("getitem", (x,), {"key": key}).map(xp.asarray)
    close(case(), x[key], case)
    check_gradient(case)


# --- Where there is no derivative, or no finite one, to compare with ------------------


def gradient(xp, function, *arrays):
    with Tape() as tape:
        watched = [tape.watch(xp.asarray(a, float)) for a in arrays]
        loss = primitives.sum(function(*watched))
    return tape.gradient(loss, watched)


def test_ties(xp):
    """maximum and minimum give the gradient to the second argument; max shares it.

    So maximum(x, 0) has slope 0 at 0.
    """
    for function in primitives.maximum, primitives.minimum:
        assert [float(g[0]) for g in gradient(xp, function, [2.0], [2.0])] == [0.0, 1.0]
        found = gradient(xp, lambda x, f=function: f(x, 0), [0.0, -0.0])[0]
        assert found.tolist() == [0.0, 0.0]
        assert gradient(xp, lambda x, f=function: f(0, x), [0.0])[0].tolist() == [1.0]
    assert gradient(xp, primitives.max, [3.0, 1.0, 3.0])[0].tolist() == [0.5, 0.0, 0.5]
    tied = gradient(xp, lambda x: primitives.max(x, axis=1), [[2.0, 2.0], [1.0, 0.0]])
    assert tied[0].tolist() == [[0.5, 0.5], [1.0, 0.0]]


def test_kinks_and_zeros(xp):
    """The values that docstrings promise where a derivative does not exist."""
    zero, p = [0.0, -0.0], primitives
    for function in p.abs, p.sign, p.relu:
        assert gradient(xp, function, zero)[0].tolist() == [0.0, 0.0]
    assert p.abs(xp.array([-2.0, 0.0, np.inf])).data.tolist() == [2.0, 0.0, np.inf]
    shared = gradient(xp, p.min, [3.0, 1.0, 1.0])[0]
    assert shared.tolist() == [0.0, 0.5, 0.5]
    halves = gradient(xp, p.logaddexp, [1.0], [1.0])
    assert [each.tolist() for each in halves] == [[0.5], [0.5]]
    of_base, of_exponent = gradient(xp, p.power, [0.0, 0.0], [0.0, 2.0])
    assert of_base.tolist() == of_exponent.tolist() == [0.0, 0.0]
    weights = xp.array([1.0, 10.0])
    first = gradient(xp, lambda x: p.sort(x) * weights, [2.0, 2.0])[0]
    assert first.tolist() == [1.0, 10.0]  # equal entries keep their order
    (of_zeros,) = gradient(xp, p.prod, [0.0, 0.0, 2.0])
    assert of_zeros.tolist() == [0.0, 0.0, 0.0]
    with np.errstate(divide="ignore", invalid="ignore"):
        assert np.isnan(to_host(gradient(xp, p.std, [1.0, 1.0])[0])).all()
    assert p.power(xp.ones(2, np.float32), 2.5).dtype == np.float32
    (of_exponent,) = gradient(xp, lambda x: p.power(2, x), [3.0])
    assert float(of_exponent[0]) == pytest.approx(8 * np.log(2))


def test_logaddexp_of_infinities(xp):
    """As NumPy has it; its gradients add up to 1, also behind a `where`."""
    inf = np.inf
    x, y = (v.ravel() for v in np.meshgrid([-inf, -3.0, 0.0, inf], [-inf, 0.0, inf]))
    found = primitives.logaddexp(xp.asarray(x), xp.asarray(y)).data
    one = xp.asarray(x, np.float32)  # beside a number
    for number in 1.0, 0, -inf, np.float64(1.0):
        mixed = primitives.logaddexp(one, number), primitives.logaddexp(number, one)
        for each in mixed:
            assert each.dtype == np.float32
            right = np.logaddexp(x, float(number))
            np.testing.assert_allclose(to_host(each.data), right, rtol=1e-6)
    np.testing.assert_allclose(to_host(found), np.logaddexp(x, y))
    with np.errstate(invalid="ignore"):  # their sum is the loss
        left, right = gradient(xp, primitives.logaddexp, x, y)
    np.testing.assert_allclose(to_host(left + right), 1)
    finite = np.isfinite(x) & np.isfinite(y)

    def behind(a, b):
        both = primitives.logaddexp(a, b)
        return primitives.where(xp.asarray(finite), both, 0.0)

    for found in gradient(xp, behind, x, y):
        assert (to_host(found)[~finite] == 0).all()


def test_what_einsum_refuses(xp):
    x = xp.ones((2, 2))
    for subscripts in "ii->i", "...i", "...ijk->i", "ij->k", "ij,jk->ik":
        with pytest.raises(ValueError, match=r"does not fit arrays of \[\(2, 2\)\]$"):
            primitives.einsum(subscripts, x)
    wide, tall = xp.ones((2, 3)), xp.ones((3, 2))
    # some of it would fit by chance
    for subscripts in "ij,ij->ij", "ij,kj", "ijk,ij", "...j,...k->...jk":
        with pytest.raises(ValueError, match=r"of \[\(2, 3\), \(3, 2\)\]$"):
            primitives.einsum(subscripts, wide, tall)


def test_nothing_overflows(xp):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        extreme = xp.array([1e4, 0.0, -1e4])
        assert primitives.softmax(extreme).data.tolist() == [1.0, 0.0, 0.0]
        assert primitives.sigmoid(extreme).data.tolist() == [1.0, 0.5, 0.0]
        assert gradient(xp, primitives.softmax, [1e4, -1e4])[0].tolist() == [0.0, 0.0]
        assert gradient(xp, primitives.sigmoid, [1e4, -1e4])[0].tolist() == [0.0, 0.0]
        ends = [np.inf, -np.inf]
        assert primitives.sigmoid(xp.array(ends)).data.tolist() == [1.0, 0.0]
        assert primitives.softplus(xp.array(ends)).data.tolist() == [np.inf, 0.0]
        assert gradient(xp, primitives.softplus, ends)[0].tolist() == [1.0, 0.0]


def test_cumprod_of_a_number(xp):
    """An array of one entry, as NumPy's."""
    assert primitives.cumprod(xp.array(3.0), axis=0).data.tolist() == [3.0]
    (found,) = gradient(xp, lambda x: primitives.cumprod(x * x, axis=0), 3.0)
    assert found.shape == () and float(found) == 6.0


def test_sigmoid_and_softplus_keep_their_digits_far_out(xp):
    """About e^x for very negative x, where 0.5 + 0.5 tanh(x / 2) has nothing left."""
    x = np.array([-80, -20, -15, -10, -1, 0, 1, 20, 80], np.float32)
    decay = np.exp(-x.astype(np.float64))
    sigmoid, softplus = 1 / (1 + decay), np.log1p(np.exp(x.astype(np.float64)))
    for function, value, slope in (
        (primitives.sigmoid, sigmoid, decay * sigmoid**2),
        (primitives.softplus, softplus, sigmoid),
    ):
        with Tape() as tape:
            watched = tape.watch(xp.asarray(x))
            result = function(watched)
            loss = primitives.sum(result)
        assert result.dtype == np.float32
        np.testing.assert_allclose(to_host(result.data), value, rtol=1e-6)
        found = to_host(tape.gradient(loss, watched))
        np.testing.assert_allclose(found, slope, rtol=1e-6)


def test_a_branch_that_is_not_taken_does_no_harm(xp):
    """There inf times 0 would be NaN."""

    def first(a, b):
        return primitives.where(xp.array([True, False]), a, b)

    taken, other = gradient(xp, first, [1.0, 2.0], [np.inf, 3.0])
    assert taken.tolist() == [1.0, 0.0]
    assert other.tolist() == [0.0, 1.0]
    x = [-1.0, 0.0, 4.0]
    for function, expected in (  # the slope of the root is infinite at 0
        (lambda x: primitives.maximum(x, 0.0), [0, 0, 0.25]),
        (lambda x: primitives.maximum(0.0, x), [0, np.inf, 0.25]),
        (lambda x: -primitives.minimum(-x, 0.0), [0, 0, 0.25]),
        (lambda x: primitives.clip(x, 0.0, 9.0), [0, 0, 0.25]),
        (lambda x: primitives.max(x, keepdims=True) - 4, [0, 0, np.inf]),
    ):
        with np.errstate(divide="ignore"):
            (found,) = gradient(xp, lambda x, f=function: primitives.sqrt(f(x + 0)), x)
        assert to_host(abs(found)).tolist() == expected


def test_the_shapes_that_fit_are_remembered_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(table, "MOST_SHAPES", 5)
    for rows in range(1, 20):
        fused.linear(np.ones((rows, 2)), np.ones((2, 3)))
        assert 1 <= len(fused.linear._fitting) <= 5
    with pytest.raises(ValueError, match="linear"):
        fused.linear(np.ones((3, 3)), np.ones((2, 3)))


def test_take_along_axis_takes_integers_of_any_width():
    for kind in np.uint8, np.int8, np.uint64:
        indices = np.array([[2], [100]], kind)

        def taken(x, indices=indices):
            return primitives.take_along_axis(x, indices)

        (found,) = gradient(np, taken, np.zeros((2, 300)))
        assert np.argwhere(found).tolist() == [[0, 2], [1, 100]]


def test_a_number_has_a_first_and_a_last_axis_as_in_numpy():
    for function in primitives.sum, primitives.max:
        for axis in 0, -1:
            call = functools.partial(function, axis=axis)
            assert gradient(np, call, 3.0)[0].tolist() == 1.0


def test_take_refuses_what_is_not_an_index(xp):
    for wrong in xp.array([1.0]), xp.array([True, False, True]):
        with pytest.raises(
            TypeError,
            match=rf"take\(float64\[3\], {wrong.dtype}\[.\]\): the indices are "
            rf"{wrong.dtype}, not integers",
        ):
            primitives.take(xp.ones(3), wrong)


def test_an_index_out_of_range_is_refused_or_wraps(xp):
    """NumPy looks; CuPy, which would have to wait to look, wraps."""
    if xp is np:
        with pytest.raises(IndexError, match=r"take\(float64\[3\], int(32|64)\[1\]\)"):
            primitives.take(np.ones(3), np.array([7]))
        return

    def taken(x):
        return primitives.take(x, xp.array([7, 1]))

    assert taken(xp.array([5.0, 6.0, 7.0])).data.tolist() == [6.0, 6.0]
    assert gradient(xp, taken, [5.0, 6.0, 7.0])[0].tolist() == [0.0, 2.0, 0.0]


def test_unstack_of_many_steps_costs_little():
    """Backward is one entry; T slices would each allocate the whole array.

    T = 400 steps of 100 KB.
    """
    x = np.ones((400, 100, 128))
    with Tape() as tape:
        leaf = tape.watch(x)
        total = primitives.sum(
            primitives.stack([row * 2.0 for row in primitives.unstack(leaf)])
        )
        entries = len(tape.entries)
    assert entries == 1 + 400 + 1 + 1
    assert (tape.gradient(total, leaf) == 2.0).all()
