"""Every row of the table, basic and fused, by one set of checks.

A new row needs cases in samplers.py, or nothing here is collected.
"""

import inspect

import autograd
import autograd.numpy as anp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from samplers import (
    CASES,
    LAYOUTS,
    Case,
    as_tuple,
    away_from_zero,
    check_gradient,
    gradients,
    normal,
    output_weights,
)

from tinyrmc import primitives
from tinyrmc.autograd.engine import TABLE, Product, Tape
from tinyrmc.backend import to_host
from tinyrmc.fused import KernelOnly

every_primitive = pytest.mark.parametrize("name", TABLE)
# without those whose derivative is that of their definition; their kernels, which run
# on a GPU alone, are in test_gpu_step.py
RULED = [name for name in TABLE if not isinstance(TABLE[name], KernelOnly)]
every_rule = pytest.mark.parametrize("name", RULED)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
# What NumPy does not have, written down once more. (Its split gives a list, and its
# power has no name for the second argument.)
BY_HAND = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "softmax": lambda x, axis=-1: np.exp(x) / np.exp(x).sum(axis, keepdims=True),
    "getitem": lambda x, key: x[key],
    "split": lambda x, indices_or_sections, axis=0: tuple(
        np.split(x, indices_or_sections, axis)
    ),
    "power": lambda x, exponent: np.power(x, exponent),
}


def arrays_in(value):
    """All arrays in nested tuples of anything."""
    if hasattr(value, "dtype"):
        return [value]
    parts = value if isinstance(value, (tuple, list)) else []
    return [a for part in parts for a in arrays_in(part)]


def computed(part):
    """A gradient that a rule has given, which may be deferred."""
    return part.computed() if isinstance(part, Product) else part


def test_every_row_is_documented_and_has_a_derivative():
    for name in RULED:
        primitive = TABLE[name]
        assert primitive.rule is not None, f"{name} has no vjp"
        assert primitive.__doc__, f"{name} has no docstring"
        assert "needs" in inspect.signature(primitive.rule).parameters
        assert primitive.rule.__name__ == f"{name}_vjp"
        assert repr(primitive) == f"<primitive {name}>"


@every_layout
@every_primitive
def test_gradient_is_the_complex_steps(xp, name, layout):
    for seed, case in enumerate(CASES[name]):
        check_gradient(case.map(xp.asarray).map(LAYOUTS[layout]), seed)


@every_layout
@every_primitive
def test_layout_changes_no_value(xp, name, layout):
    for case in CASES[name]:
        for here, there in zip(
            as_tuple(case()),
            as_tuple(case.map(xp.asarray).map(LAYOUTS[layout])()),
            strict=True,
        ):
            np.testing.assert_allclose(
                to_host(there.data), here.data, rtol=1e-13, atol=1e-14
            )


@every_rule
def test_a_vjp_wrong_by_a_thousandth_is_caught(name, monkeypatch):
    """Proves that the check above can fail.

    For each argument of each primitive by itself.
    """
    primitive, rule = TABLE[name], TABLE[name].rule
    for position in sorted({k for case in CASES[name] for k in case.floats}):

        def scaled(xp, needs, *args, position=position):
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

        monkeypatch.setattr(primitive, "rule", scaled)
        caught = 0
        for case in CASES[name]:
            try:
                check_gradient(case)
            except AssertionError:
                caught += 1
        assert caught, f"argument {position}"


@every_rule
def test_gradients_belong_to_the_caller_and_nothing_is_mutated(xp, name, monkeypatch):
    seen = []  # (array that the rule met, its copy from before)
    rule = TABLE[name].rule

    def spy(xp, needs, g, *saved):
        seen.extend((a, a.copy()) for a in arrays_in([g, *saved]))
        return rule(xp, needs, g, *saved)

    monkeypatch.setattr(TABLE[name], "rule", spy)
    for case in CASES[name]:
        case = case.map(xp.asarray).map(lambda a: a.copy())
        weights = output_weights(case)
        seen[:] = [(a, a.copy()) for a in [*arrays_in(case.arguments), *weights]]
        found = gradients(case, weights)
        for array, before in seen:
            assert xp.array_equal(array, before), (
                f"{case} mutated an input, a saved array or the seed"
            )
        for k, gradient in enumerate(found):
            for other in [*(a for a, _ in seen), *found[:k]]:
                assert not xp.shares_memory(gradient, other), (
                    f"{case}: gradient {k} shares memory"
                )
            assert type(gradient) is xp.ndarray
            gradient += 1  # nor is it read-only


@every_primitive
def test_forward_mutates_nothing(name):
    for case in CASES[name]:
        case = case.map(LAYOUTS["read-only"])  # an in-place write would raise
        before = [a.copy() for a in arrays_in(case.arguments)]
        case()
        for array, copy in zip(arrays_in(case.arguments), before, strict=True):
            np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_primitive
def test_dtype_and_shape_are_kept(xp, name, dtype):
    for case in CASES[name]:
        case = case.map(xp.asarray)
        narrow = case.map(lambda a: a.astype(dtype) if a.dtype.kind == "f" else a)
        exact = case()
        for output, other in zip(as_tuple(narrow()), as_tuple(exact), strict=True):
            assert (output.dtype, output.shape) == (dtype, other.shape), f"{narrow}"
            assert type(output.data) is xp.ndarray
        weights = output_weights(narrow)
        wide = gradients(case, [w.astype(np.float64) for w in weights])
        for position, gradient, reference in zip(
            case.floats, gradients(narrow, weights), wide, strict=True
        ):
            assert gradient.dtype == dtype, f"{narrow}"
            assert gradient.shape == case.arguments[position].shape
            gradient, reference = to_host(gradient), to_host(reference)
            scale = max(1.0, np.abs(reference).max(initial=0))
            assert np.abs(gradient - reference).max(initial=0) <= 2e-5 * scale, (
                f"{narrow}: argument {position}"
            )


@every_primitive
def test_one_gradient_asked_for_is_the_same_as_all(xp, name):
    """The rules skip what nobody needs; what they still return must not change."""
    for case in CASES[name]:
        case = case.map(xp.asarray)
        weights = output_weights(case)
        for position, gradient in zip(
            case.floats, gradients(case, weights), strict=True
        ):
            (alone,) = gradients(case, weights, watch=[position])
            np.testing.assert_array_equal(to_host(alone), to_host(gradient))


@every_primitive
def test_float64_constants_mix_with_complex128(xp, name):
    """The complex step may move one argument and leave the others real."""
    for case in CASES[name]:
        case = case.map(xp.asarray)
        plain = as_tuple(case())
        for position in case.floats:
            moved = case(
                case.replace(position, case.arguments[position].astype(np.complex128))
            )
            for output, real in zip(as_tuple(moved), plain, strict=True):
                assert output.dtype in (np.complex128, np.float64)
                np.testing.assert_allclose(
                    to_host(output.data), to_host(real.data), rtol=1e-12, atol=1e-14
                )
            assert as_tuple(moved)[0].dtype == np.complex128


def in_order(function, case):
    """function(...) with the static arguments in order, after the arrays."""
    variadic = TABLE[case.name].variadic
    arrays = [list(case.arguments)] if variadic else case.arguments
    return function(*arrays, *case.static.values())


@pytest.mark.parametrize("name", primitives.__all__)
def test_value_is_numpys(xp, name):
    """NumPy's function of the same name, with the same arguments by name.

    And again with the static ones in order, where both allow it.
    """
    function = BY_HAND.get(name) or getattr(np, name)
    for case in CASES[name]:
        expected = case(function=function)
        there = case.map(xp.asarray)
        for output, value in zip(as_tuple(there()), as_tuple(expected), strict=True):
            assert output.shape == np.shape(value)
            np.testing.assert_allclose(
                to_host(output.data), value, rtol=1e-13, atol=1e-14
            )
        if name not in ("split", "unstack") and "keepdims" not in case.static:
            ours = in_order(TABLE[name], there)
            theirs = in_order(function, case)
            np.testing.assert_allclose(
                to_host(ours.data), theirs, rtol=1e-13, atol=1e-14
            )


# HIPS has no vjp for these, or takes other arguments.
WITHOUT_HIPS = {"cumprod", "split", "take", "take_along_axis", "unstack"}
HIPS_CANNOT = {  # cases where its vjp is wrong; in the first, broadcasting stays
    "where": lambda case: any(
        np.shape(a) != np.shape(case().data) for a in case.arguments[1:]
    ),
    "broadcast_to": lambda case: case.arguments[0].ndim < len(case.static["shape"]),
    "transpose": lambda case: min(case.static["axes"] or (0,)) < 0,
}
IN_ORDER = {"power", "broadcast_to"}  # their second argument has another name there


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in primitives.__all__
        if hasattr(anp, name) and name not in WITHOUT_HIPS
    ],
)
def test_gradient_is_hips_autograds(name):
    """A second, independent witness beside the complex step."""
    for case in CASES[name]:
        if HIPS_CANNOT.get(name, lambda case: False)(case):
            continue
        weights = output_weights(case)

        def loss(*arguments, case=case, weight=weights[0]):
            function = getattr(anp, name)
            if name in IN_ORDER:
                value = function(*arguments, *case.static.values())
            else:
                value = case(arguments, function)
            return anp.sum(value * weight)

        for position, ours in zip(case.floats, gradients(case, weights), strict=True):
            theirs = autograd.grad(loss, position)(*case.arguments)
            where = f"{case}: argument {position}"
            np.testing.assert_allclose(ours, theirs, 1e-12, 1e-12, err_msg=where)


# --- Shapes that nobody thought of ----------------------------------------------------

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=3)


def strided(xp, data, array):
    return LAYOUTS[data.draw(st.sampled_from(list(LAYOUTS)))](xp.asarray(array))


@pytest.mark.parametrize(
    "name", ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
)
@given(data=st.data())
def test_binary_primitives_broadcast_any_two_shapes(xp, name, data):
    a, b = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3)
    ).input_shapes
    arrays = strided(xp, data, normal(*a)), strided(xp, data, away_from_zero(*b))
    check_gradient(Case(name, arrays))


@given(data=st.data())
def test_where_broadcasts_any_three_shapes(xp, data):
    c, a, b = data.draw(
        hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3)
    ).input_shapes
    condition = xp.asarray(normal(*c) > 0)
    x, y = strided(xp, data, normal(*a)), strided(xp, data, normal(*b))
    check_gradient(Case("where", (condition, x, y)))


@given(data=st.data())
def test_matmul_of_any_two_shapes(xp, data):
    both = hnp.mutually_broadcastable_shapes(
        signature=np.matmul.signature, max_dims=2, max_side=3
    )
    a, b = data.draw(both).input_shapes
    arrays = strided(xp, data, normal(*a)), strided(xp, data, normal(*b))
    check_gradient(Case("matmul", arrays))


@pytest.mark.parametrize("name", ["sum", "mean", "max"])
@given(data=st.data())
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
def test_any_permutation_of_axes(xp, data):
    shape = data.draw(shapes)
    axes = data.draw(st.permutations(range(len(shape))))
    check_gradient(
        Case("transpose", (strided(xp, data, normal(*shape)),), {"axes": tuple(axes)})
    )


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
        assert gradient(xp, lambda x, f=function: f(x, 0), [0.0, -0.0])[0].tolist() == [
            0.0,
            0.0,
        ]
        assert gradient(xp, lambda x, f=function: f(0, x), [0.0])[0].tolist() == [1.0]
    assert gradient(xp, primitives.max, [3.0, 1.0, 3.0])[0].tolist() == [0.5, 0.0, 0.5]
    assert gradient(xp, lambda x: primitives.max(x, axis=1), [[2.0, 2.0], [1.0, 0.0]])[
        0
    ].tolist() == [[0.5, 0.5], [1.0, 0.0]]


def test_nothing_overflows(xp):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        extreme = xp.array([1e4, 0.0, -1e4])
        assert primitives.softmax(extreme).data.tolist() == [1.0, 0.0, 0.0]
        assert primitives.sigmoid(extreme).data.tolist() == [1.0, 0.5, 0.0]
        assert gradient(xp, primitives.softmax, [1e4, -1e4])[0].tolist() == [0.0, 0.0]
        assert gradient(xp, primitives.sigmoid, [1e4, -1e4])[0].tolist() == [0.0, 0.0]
    assert primitives.sigmoid(xp.array([np.inf, -np.inf])).data.tolist() == [1.0, 0.0]


def test_softplus_keeps_the_digits_of_a_tiny_slope(xp):
    """Of very negative x it is e^x, where 1 + tanh(x / 2) has nothing left."""
    x = np.array([-80, -20, -10, -1, 0, 1, 20], np.float32)
    with Tape() as tape:
        watched = tape.watch(xp.asarray(x))
        loss = primitives.sum(primitives.softplus(watched))
    slope = 1 / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(to_host(tape.gradient(loss, watched)), slope, rtol=1e-6)


def test_where_keeps_an_infinite_side_out(xp):
    def first(a, b):
        return primitives.where(xp.array([True, False]), a, b)

    taken, other = gradient(xp, first, [1.0, 2.0], [np.inf, 3.0])
    assert taken.tolist() == [1.0, 0.0]
    assert other.tolist() == [0.0, 1.0]


def test_take_adds_up_repeated_indices(xp):
    assert gradient(
        xp, lambda x: primitives.take(x, xp.array([1, 1, 1, 0])), [5.0, 6.0, 7.0]
    )[0].tolist() == [1.0, 3.0, 0.0]


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint64])
def test_take_along_axis_takes_integers_of_any_width(kind):
    indices = np.array([[2], [100]], kind)
    taken = gradient(
        np, lambda x: primitives.take_along_axis(x, indices), np.zeros((2, 300))
    )[0]
    assert np.argwhere(taken).tolist() == [[0, 2], [1, 100]]


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", ["sum", "max"])
def test_a_number_has_a_first_and_a_last_axis_as_in_numpy(name, axis):
    function = getattr(primitives, name)
    assert gradient(np, lambda x: function(x, axis=axis), 3.0)[0].tolist() == 1.0


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
        with pytest.raises(
            IndexError,
            match=r"take\(float64\[3\], int64\[1\]\): index 7 is out of bounds",
        ):
            primitives.take(np.ones(3), np.array([7]))
    else:
        assert primitives.take(
            xp.array([5.0, 6.0, 7.0]), xp.array([7])
        ).data.tolist() == [6.0]
        assert gradient(
            xp, lambda x: primitives.take(x, xp.array([7, 1])), [5.0, 6.0, 7.0]
        )[0].tolist() == [0.0, 2.0, 0.0]


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
