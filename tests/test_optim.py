"""Optimizers against the textbook, one number at a time.

And flat buffers, bad gradients, resuming, schedules.
"""

import itertools
import math
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from samplers import overlap

from tinyrmc import LSTM, Parameter, Tape, nn, optim, plain, primitives
from tinyrmc.backend import compiles, namespace, to_host
from tinyrmc.nn import Linear
from tinyrmc.optim import SGD, Adam, AdamW, RMSProp, schedule

SHAPES = [(2, 3), (), (4,)]
ALL = [
    pytest.param(lambda p: Adam(p, 0.02), id="Adam"),
    pytest.param(lambda p: AdamW(p, 0.02, 0.3), id="AdamW"),
    pytest.param(lambda p: RMSProp(p, 0.02), id="RMSProp"),
    pytest.param(lambda p: SGD(p, 0.02, momentum=0.9), id="SGD with momentum"),
    pytest.param(lambda p: SGD(p, 0.02), id="SGD"),
]


def parameters(xp, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    return [
        Parameter(xp.asarray(rng.standard_normal(shape).astype(dtype)))
        for shape in SHAPES
    ]


def gradients(steps, seed=1):
    """One list of arrays a step.

    Their size varies over decades, and some numbers have no gradient at times.
    """
    rng = np.random.default_rng(seed)

    def one(shape):
        size = 10 ** rng.uniform(-3, 1)
        return rng.standard_normal(shape) * size * (rng.random(shape) < 0.8)

    return [[one(shape) for shape in SHAPES] for _ in range(steps)]


def put(params, arrays):
    """The arrays as these parameters' gradients."""
    for parameter, array in zip(params, arrays, strict=True):
        parameter.grad[...] = namespace(parameter.data).asarray(array)


def flat(arrays):
    return np.concatenate([np.ravel(to_host(a)) for a in arrays])


def packed(optimizer):
    """The optimizer's data, without the gaps that a GPU has."""
    return optimizer.packed(optimizer.data)


def snapshot(optimizer):
    """The optimizer's data and state, as copies on the host."""
    return {
        name: np.array(to_host(value))
        for name, value in {"data": packed(optimizer), **optimizer.state()}.items()
    }


def assert_same_values(one, two):
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name, strict=True)


# --- the textbook ---------------------------------------------------------------------


def textbook_sgd(w, grads, rates, momentum=0.0):
    v = 0.0
    for g, rate in zip(grads, rates, strict=True):
        v = momentum * v + g
        w = w - rate * v
    return w


def textbook_rmsprop(w, grads, rates, decay=0.9, epsilon=1e-10, variant="keras"):
    s = 1.0 if variant == "tensorflow" else 0.0
    for g, rate in zip(grads, rates, strict=True):
        s = decay * s + (1 - decay) * g**2
        if variant == "pytorch":
            w = w - rate * g / (math.sqrt(s) + epsilon)
        else:
            w = w - rate * g / math.sqrt(s + epsilon)
    return w


def textbook_adam(w, grads, rates, beta1=0.9, beta2=0.999, epsilon=1e-8):
    m = v = 0.0
    for t, (g, rate) in enumerate(zip(grads, rates, strict=True), 1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        w = w - rate * (m / (1 - beta1**t)) / (math.sqrt(v / (1 - beta2**t)) + epsilon)
    return w


def textbook_adamw(w, grads, rates, weight_decay=1e-2, **others):
    """Loshchilov and Hutter: w shrinks by itself, what Adam adds stays."""
    steps, before = [], 0.0
    for t in range(1, len(grads) + 1):
        moved = textbook_adam(0.0, grads[:t], rates[:t], **others)
        steps.append(moved - before)
        before = moved
    for step, rate in zip(steps, rates, strict=True):
        w = w * (1 - rate * weight_decay) + step
    return w


TEXTBOOKS = [
    (AdamW, textbook_adamw, {}),
    (AdamW, textbook_adamw, {"weight_decay": 0.5, "beta1": 0.5, "epsilon": 1e-2}),
    (SGD, textbook_sgd, {}),
    (SGD, textbook_sgd, {"momentum": 0.9}),
    (RMSProp, textbook_rmsprop, {}),
    (RMSProp, textbook_rmsprop, {"decay": 0.99, "epsilon": 1e-3}),
    (RMSProp, textbook_rmsprop, {"epsilon": 0.1, "variant": "keras"}),
    (RMSProp, textbook_rmsprop, {"epsilon": 0.1, "variant": "tensorflow"}),
    (RMSProp, textbook_rmsprop, {"epsilon": 0.1, "variant": "pytorch"}),
    (Adam, textbook_adam, {}),
    (Adam, textbook_adam, {"beta1": 0.5, "beta2": 0.9, "epsilon": 1e-2}),
]


@pytest.mark.parametrize(
    ("dtype", "body"),
    [(np.float32, nullcontext), (np.float64, nullcontext), (np.float64, plain)],
)
def test_twenty_steps_equal_the_textbook(xp, dtype, body):
    tolerance, grads = 1e-12 if dtype == np.float64 else 2e-5, gradients(20)
    rates = [0.01 * (1 + k % 3) for k in range(20)]
    columns = np.stack([flat(arrays) for arrays in grads], axis=1).tolist()
    for make, textbook, constants in TEXTBOOKS:
        params = parameters(xp, dtype)
        start = flat([p.data for p in params]).astype(np.float64).tolist()
        optimizer = make(params, 123.0, **constants)
        for arrays, rate in zip(grads, rates, strict=True):
            put(params, arrays)
            with body():
                optimizer.step(rate)
        expected = [
            textbook(w, column, rates, **constants)
            for w, column in zip(start, columns, strict=True)
        ]
        found, where = flat([p.data for p in params]), f"{make.__name__} {constants}"
        np.testing.assert_allclose(found, expected, tolerance, tolerance, where)
        assert {a.dtype for p in params for a in (p.data, p.grad)} == {np.dtype(dtype)}
        assert optimizer.updates == 20


@pytest.mark.parametrize("make", [Adam, RMSProp])
def test_an_update_in_parts_is_the_update_to_the_bit(make, monkeypatch):
    rng = np.random.default_rng(0)
    start, gradients = rng.standard_normal(1000), rng.standard_normal((3, 1000))
    found = []
    for part in 1, 7, 1000, 1 << 15:
        monkeypatch.setattr(optim, "PART", part)
        parameter = Parameter(start.astype(np.float32))
        optimizer = make([parameter])
        for g in gradients:
            optimizer.gradient[...] = g
            optimizer.step()
        found.append(parameter.data.copy())
    assert all(np.array_equal(found[0], other) for other in found)
    assert not np.array_equal(found[0], start.astype(np.float32))


def test_adam_where_its_digits_or_its_moments_are_few(xp):
    parameter = Parameter(xp.zeros(5, np.float32))
    optimizer, g = Adam([parameter]), np.array([1e-6, -0.3, 2.0, 1e3, 0.0], np.float32)
    parameter.grad[...] = xp.asarray(g)
    optimizer.step(1.0)
    expected = [textbook_adam(0.0, [x], [1.0]) for x in g.tolist()]
    np.testing.assert_allclose(to_host(parameter.data), expected, rtol=1e-6)
    parameter = Parameter(xp.ones(1))
    optimizer = Adam([parameter], beta1=0.0, beta2=0.0)
    parameter.grad[...] = 2.0
    optimizer.step(0.25)
    # the sign of the gradient, times the rate
    np.testing.assert_allclose(to_host(parameter.data), [0.75], rtol=1e-8)


@pytest.mark.parametrize("make", ALL)
def test_a_step_uses_the_optimizers_own_rate_unless_given_another(xp, make):
    results = []
    for arguments in [(), (0.02,), (0.04,)]:
        params = parameters(xp)
        optimizer = make(params)
        put(params, gradients(1)[0])
        optimizer.step(*arguments)
        results.append(flat([packed(optimizer)]))
    np.testing.assert_array_equal(results[0], results[1])
    start = flat([p.data for p in parameters(xp)])
    np.testing.assert_allclose(results[2] - start, 2 * (results[0] - start), rtol=1e-9)


# --- flat buffers ---------------------------------------------------------------------


@pytest.mark.parametrize("make", ALL)
def test_data_and_gradients_are_views_of_one_buffer_each(xp, make):
    params = parameters(xp)
    before = [p.data.copy() for p in params]
    optimizer, start = make(params), 0
    unit = 2 if compiles(xp) else 1  # float64: 16 bytes
    for parameter, data in zip(params, before, strict=True):
        # the move kept the values
        np.testing.assert_array_equal(to_host(parameter.data), to_host(data))
        assert parameter.data.shape == parameter.grad.shape == data.shape
        start = -(-start // unit) * unit
        place = slice(start, start + data.size)
        for view, whole in [
            (parameter.data, optimizer.data),
            (parameter.grad, optimizer.gradient),
        ]:
            assert overlap(view, whole[place])
        optimizer.gradient[place] = start + 1
        assert (parameter.grad == start + 1).all()
        start += data.size
    assert optimizer.data.size == optimizer.gradient.size == start
    optimizer.zero_grad()
    assert not any(p.grad.any() for p in params)
    params[0].data = xp.zeros((2, 3))
    assert not optimizer.data[:6].any()
    buffer = optimizer.data
    put(params, gradients(1)[0])
    optimizer.step()
    assert optimizer.data is buffer  # updated in place
    assert all(overlap(p.data, buffer) for p in params)
    assert optimizer.data[:6].any()


def test_buffers_can_be_allocated_elsewhere(xp):
    made = []

    def allocate(count, dtype):
        made.append(xp.zeros(count, dtype))
        return made[-1]

    params = parameters(xp, np.float32)
    optimizer = Adam(params, allocate=allocate)
    data, gradient = made
    assert optimizer.data is data and optimizer.gradient is gradient
    for p in params:
        assert overlap(p.data, data) and overlap(p.grad, gradient)


# --- scale and clip -------------------------------------------------------------------


def test_scale_then_clip_by_the_global_norm(xp):
    """`ratio` is max_norm as a fraction of the norm."""
    for scale, ratio in itertools.product((1.0, 0.125, 4.0), (0.5, 2.0, None)):
        params, arrays = parameters(xp), gradients(1)[0]
        start, g = flat([p.data for p in params]), scale * flat(arrays)
        norm = math.sqrt(sum(x * x for x in g.tolist()))
        optimizer = SGD(params, 0.5)
        put(params, arrays)
        max_norm = None if ratio is None else ratio * norm
        returned, finite = optimizer.step(max_norm=max_norm, scale=scale)
        # after scaling, before clipping
        assert float(returned) == pytest.approx(norm, rel=1e-12)
        assert bool(finite) and returned.shape == finite.shape == ()
        moved, shrink = start - to_host(packed(optimizer)), min(ratio or 1, 1)
        np.testing.assert_allclose(moved, 0.5 * shrink * g, rtol=1e-9, atol=1e-15)


def test_what_float32_would_take_for_infinity_makes_no_nan(xp):
    optimizer = Adam([Parameter(xp.ones(2, np.float32))])
    optimizer.gradient[...] = 0.5
    norm, finite = optimizer.step(max_norm=1e39)
    assert bool(finite) and float(norm) == pytest.approx(0.5**0.5)
    assert abs(1 - float(optimizer.data[0])) == pytest.approx(1e-3, rel=1e-3)
    with pytest.raises(ValueError, match="learning_rate must be a number in"):
        optimizer.step(1e39)


def test_what_a_step_cannot_mean_is_refused(xp):
    optimizer = Adam([Parameter(xp.ones(2))])
    for name, bad in (
        *(("learning_rate", bad) for bad in (-1.0, math.inf, math.nan, True, "1")),
        *(("max_norm", bad) for bad in (0.0, -1.0, math.inf, math.nan, np.True_)),
    ):
        with pytest.raises(ValueError, match=f"{name} must be"):
            optimizer.step(**{name: bad})
    optimizer.clip_by = "Matrix"
    with pytest.raises(ValueError, match=r"clip_by must be .* not 'Matrix'"):
        optimizer.step(max_norm=1.0)
    assert optimizer.updates == 0 and optimizer.data.tolist() == [1.0, 1.0]


def test_bad_constants_are_named_before_anything_moves():
    bad = None, math.nan, math.inf, "1", True, -0.1
    fractions = *bad, 1, 1.5
    for make, name, values, wanted in (
        *((make, "learning_rate", (0, *bad), r".*\(0, inf\)") for make in (Adam, SGD)),
        *((Adam, name, fractions, r".* in \[0, 1\)") for name in ("beta1", "beta2")),
        (SGD, "momentum", fractions, r".* in \[0, 1\)"),
        (RMSProp, "decay", fractions, r".* in \[0, 1\)"),
        (RMSProp, "variant", ("torch",), "'keras' or 'tensorflow' or"),
        (RMSProp, "epsilon", (0, *bad[1:]), r".*, inf\)"),
        (Adam, "epsilon", (0, *bad[1:]), r".*, inf\)"),
        (AdamW, "weight_decay", fractions, r".* in \[0, 1\)"),
    ):
        for value in values:
            parameter = Parameter(np.ones(2))
            data = parameter.data
            with pytest.raises(ValueError, match=f"{name} must be {wanted}.*, not "):
                make([parameter], **{name: value})
            assert parameter.data is data
    for make in Adam, RMSProp:
        make([Parameter(np.ones(2))], epsilon=1e-50)  # float64 holds it
        with pytest.raises(ValueError, match=r"in \[1\.17\d*e-38"):
            make([Parameter(np.ones(2, np.float32))], epsilon=1e-50)


def test_an_optimizer_whose_parameters_have_moved_on_says_so(xp):
    weight = Parameter(xp.ones(3))
    first = Adam([weight])
    second = Adam([weight])
    state = first.state()
    for call in first.step, first.zero_grad, lambda: first.load_state(state):
        with pytest.raises(RuntimeError, match=r"optimizer's buffer \(Adam\(.*wins"):
            call()
    second.zero_grad()
    second.step()


def test_only_parameters_of_one_kind_are_taken(xp):
    one = Parameter(xp.ones(2))
    for kind, wrong, message in (
        (TypeError, one, "not a sequence"),
        (TypeError, Linear(2, 2, seed=0), r"takes Parameters; see module\.parameters"),
        (TypeError, [np.ones(3)], r"takes Parameters; see module\.parameters"),
        (TypeError, {Parameter(np.ones(3))}, "a set of parameters has no order"),
        (ValueError, [], "at least one Parameter"),
        (ValueError, [Parameter(xp.ones(0))], "at least one Parameter, with numbers"),
        (ValueError, [one, one], "given twice"),
        (TypeError, [Parameter(np.ones(2, complex))], "real parameters of one kind"),
        (TypeError, [one, Parameter(xp.ones(2, np.float32))], r"one kind.*module\.as"),
    ):
        with pytest.raises(kind, match=message):
            Adam(wrong)
    if xp is not np:
        with pytest.raises(TypeError, match=r"cupy float64, numpy float64.*module\.to"):
            Adam([one, Parameter(np.ones(2))])


def test_each_parameter_is_clipped_whatever_its_axes(xp):
    params = [Parameter(xp.ones(shape)) for shape in ((), (4,), (2, 2), (3, 2, 2))]
    optimizer = SGD(params, 1.0)
    optimizer.clip_by = "matrix"
    for p in params:
        p.grad = xp.full(p.shape, -6.0)
    optimizer.step(max_norm=2.0)
    moved = [np.unique(to_host(p.data)).tolist() for p in params]
    assert moved == [[3.0], [2.0], [2.0], [2.0]]


def test_clipping_a_zero_gradient_is_harmless(xp):
    params = parameters(xp)
    optimizer = SGD(params, 0.5)
    start = optimizer.data.copy()
    norm, finite = optimizer.step(max_norm=1.0)
    assert norm == 0 and finite
    assert xp.array_equal(optimizer.data, start)


# --- steps that are not taken ---------------------------------------------------------


BAD = [
    *itertools.product((np.float32, np.float64), (np.nan, np.inf, -np.inf, "invalid")),
    (np.float32, 1e30),
    (np.float64, 1e200),  # finite, but their squares are not
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:.*so nothing has changed")
@pytest.mark.parametrize("make", ALL)
def test_a_bad_gradient_changes_nothing_and_leaves_no_trace(xp, make):
    """Two runs, one with bad steps strewn in: equal at the end, to the last digit.

    The first step is bad too.
    """
    bodies = nullcontext, plain
    for (dtype, bad), max_norm, body in itertools.product(BAD, (None, 1.0), bodies):
        runs = []
        for disturbed in (False, True):
            params = parameters(xp, dtype)
            optimizer = make(params)
            for k, arrays in enumerate(gradients(4)):
                if disturbed and k % 2 == 0:
                    before = snapshot(optimizer)
                    put(params, arrays)
                    valid = bad != "invalid"
                    if valid:
                        params[2].grad[1] = bad
                    with body():
                        norm, finite = optimizer.step(max_norm=max_norm, valid=valid)
                    assert not bool(finite)
                    assert bool(xp.isfinite(norm)) != valid
                    assert_same_values(snapshot(optimizer), before)
                    optimizer.zero_grad()
                put(params, arrays)
                with body():
                    _, finite = optimizer.step(max_norm=max_norm)
                assert bool(finite)
            runs.append(snapshot(optimizer))
        assert_same_values(*runs)
        assert runs[0]["updates"] == 4


# --- resuming -------------------------------------------------------------------------


@pytest.mark.parametrize("make", ALL)
def test_state_and_load_state_continue_bit_for_bit(xp, make, dtype=np.float32):
    grads = gradients(10)

    def advance(optimizer, params, some):
        for arrays in some:
            put(params, arrays)
            optimizer.step(max_norm=1.0)

    params = parameters(xp, dtype)
    optimizer = make(params)
    advance(optimizer, params, grads[:5])
    saved = snapshot(optimizer)
    advance(optimizer, params, grads[5:])

    others = parameters(xp, dtype, seed=7)
    resumed = make(others)
    advance(resumed, others, grads[3:4])  # has a state of its own to forget
    resumed.unpack(xp.asarray(saved.pop("data")), resumed.data)
    given = {name: xp.array(value) for name, value in saved.items()}
    resumed.load_state(given)
    assert_same_values(
        {name: to_host(value) for name, value in resumed.state().items()}, saved
    )
    assert not any(
        overlap(value, given[name]) for name, value in resumed.state().items()
    )
    advance(resumed, others, grads[5:])
    assert_same_values(snapshot(resumed), snapshot(optimizer))


def test_state_has_stable_names_and_is_taken_back_whole(xp):
    for make, names in (
        (Adam, ["updates", "first_moment", "second_moment", "shapes"]),
        (RMSProp, ["updates", "second_moment", "shapes", "variant"]),
        (SGD, ["updates", "shapes"]),
        (partial(SGD, momentum=0.5), ["updates", "velocity", "shapes"]),
    ):
        optimizer = make(parameters(xp, np.float32))
        state = optimizer.state()
        assert list(state) == names
        assert state.pop("shapes").tolist() == [
            n for q in optimizer.parameters for n in (q.ndim, *q.shape)
        ]
        state.pop("variant", None)
        for name, value in state.items():
            assert value.dtype == np.float32
            assert value.shape == (() if name == "updates" else packed(optimizer).shape)
    state = {name: to_host(value) for name, value in state.items()}
    for wrong, message in (
        ({"updates": state["updates"]}, "'velocity' is missing from the arrays"),
        (state | {"momentum": np.ones(3)}, "'momentum' is unknown"),
        (state | {"velocity": np.ones(3)}, r"'velocity' has shape .*the array \(3,\)"),
        (state | {"updates": np.array(1j)}, "'updates' is float32, the array complex"),
        (state | {"shapes": np.array([1, 35])}, r"belongs .*other shapes: \[35\]"),
    ):
        with pytest.raises(ValueError, match=f"optimizer state {message}"):
            optimizer.load_state(wrong)
    assert optimizer.updates == 0


def test_the_state_of_another_rmsprop_is_refused(xp):
    """They start and divide in other ways. Older states do not say whose they are."""
    made = [RMSProp([Parameter(xp.ones(2))], variant=x) for x in RMSProp.variants]
    for one, other in itertools.product(made, made):
        if one is other:
            one.load_state(one.state())
            continue
        with pytest.raises(ValueError, match="belongs to another variant"):
            one.load_state(other.state())
        earlier = {name: x for name, x in other.state().items() if name != "variant"}
        one.load_state(earlier)


def test_a_state_of_other_shapes_is_refused_although_there_are_as_many_numbers(xp):
    for theirs in ((3, 2), (2,)), ((6,), (2,)), ((2,), (2, 3)), ((2, 3, 1), (2,)):
        state = Adam([Parameter(xp.ones(shape)) for shape in theirs]).state()
        adam = Adam([Parameter(xp.ones(shape)) for shape in ((2, 3), (2,))])
        with pytest.raises(ValueError, match=r"other shapes: .*, here \[2, 3\] \[2\]"):
            adam.load_state(state)
        earlier = {name: x for name, x in state.items() if name != "shapes"}
        adam.load_state(earlier)  # a file of a version that did not keep them


def test_the_last_optimizer_of_a_parameter_wins_and_the_others_say_so():
    weight, other = Parameter(np.ones(3)), Parameter(np.ones(2))
    first, last = Adam([weight, other], 0.5), SGD([other])
    with pytest.raises(RuntimeError, match=r"Adam: a Parameter \[2\] has .*buffer"):
        first.step()
    last.step()
    other.bind(np.ones(2), np.ones(2))
    with pytest.raises(RuntimeError, match=r"SGD: .*another array, or array library;"):
        last.step()


def test_a_step_that_changes_nothing_is_told_once():
    weight = Parameter(np.ones(3))
    for kind in SGD, RMSProp, Adam:
        optimizer = kind([weight])
        weight.grad[...] = np.nan
        with pytest.warns(UserWarning, match=f"{kind.__name__}.step: .* norm is nan"):
            optimizer.step()
        for valid in True, False:
            weight.grad[...] = np.inf
            assert not optimizer.step(valid=valid)[1]  # any warning is an error here
        weight.grad[...] = np.nan
        assert not kind([weight]).step(valid=np.True_)[1]  # by someone who has looked
        weight.grad[...] = 1.0


def test_parameters_that_no_loss_reaches_are_named_once():
    """Not those whose gradient is zero, or that shall stay as they are."""
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)

    def stepped(cut, adam, steps=2, **how):
        for _ in range(steps):
            with Tape() as tape:
                hidden = core(x)
                loss = primitives.sum(
                    primitives.square(head(hidden.data if cut else hidden))
                )
            adam.zero_grad()
            tape.backward(loss)
            adam.step(**how)

    core, head = nn.Linear(3, 2, seed=0), nn.Linear(2, 1, seed=1)
    both = core.parameters() + head.parameters()
    says = r"Adam.step: no gradient has come to parameter 0, float32\[3, 2\]; was som"
    with pytest.warns(UserWarning, match=says) as told:
        stepped(True, optim.Adam(both))
    assert len(told) == 1
    core, head = nn.Linear(3, 2, seed=0), nn.Linear(2, 1, seed=1)
    frozen = optim.Group(core.parameters(), rate=0)
    stepped(True, optim.Adam([frozen, *head.parameters()]))  # else an error here
    core, head = nn.Linear(3, 2, seed=0), nn.Linear(2, 1, seed=1)
    head.weight.data = np.zeros((2, 1), np.float32)  # so all gradients of core are 0
    stepped(False, optim.Adam(core.parameters() + head.parameters()))
    core, head = nn.Linear(3, 2, seed=0), nn.Linear(2, 1, seed=1)
    stepped(True, optim.Adam(core.parameters() + head.parameters()), valid=np.True_)
    spare = nn.LayerNorm(2)  # without a matrix
    stepped(False, optim.Adam(both := core.parameters() + spare.parameters()))
    assert not both[-1].reached
    adam = optim.Adam(nn.Linear(3, 2, seed=0).parameters())
    adam.parameters[0].grad = np.ones((3, 2), np.float32)  # by hand
    adam.step()


def test_equal_random_parameters_are_told_once_and_others_are_not(xp):
    def layers(*seeds, kind=nn.Linear, sizes=(4, 5)):
        made = [kind(*sizes, seed=seed) for seed in seeds]
        return [x for layer in made for x in layer.to(xp).parameters()]

    for twins in (
        layers(0, 0),
        layers(0, 1, 2, 1),
        layers(0, 0, kind=nn.Conv2d),
        layers(3, 3, kind=nn.Embedding),
        layers(3, 3, kind=LSTM),
        layers(0, 0, sizes=(2, 2)),
    ):
        with pytest.warns(UserWarning, match=r"SGD: parameters .* same random numbers"):
            SGD(twins)
    shared = np.random.default_rng(0)
    SGD(layers(shared, shared, 7, 8))
    ramp = np.arange(12.0).reshape(3, 4)
    for alike in np.zeros((3, 4)), np.eye(3, 4), ramp, -ramp, np.tile(ramp[0], (3, 1)):
        SGD([Parameter(xp.asarray(alike)), Parameter(xp.asarray(alike))])


def test_a_gradient_from_before_the_optimizer_counts_and_one_can_be_assigned(xp):
    weight = Parameter(xp.ones(3, np.float32))
    weight.grad[...] = 2
    optimizer = SGD([weight], 1.0)
    assert optimizer.gradient.tolist() == [2, 2, 2]
    optimizer.step()
    assert weight.data.tolist() == [-1, -1, -1]
    weight.grad = xp.array([1, 2, 3], np.float32)
    assert optimizer.gradient.tolist() == [1, 2, 3]


# --- schedules ------------------------------------------------------------------------


def test_a_rate_of_another_name_is_told():
    adam = optim.Adam([Parameter(np.ones(2))])
    with pytest.raises(AttributeError, match="rate is its learning_rate"):
        adam.lr = 0.1
    assert not hasattr(adam, "lr") and adam.learning_rate == 1e-3


def test_schedule_warms_up_stays_and_decays():
    rate = schedule(peak=2.0, steps=100, warmup=10, cosine_fraction=0.4)
    assert [rate(k) for k in range(10)] == pytest.approx(
        [0.2 * (k + 1) for k in range(10)]
    )
    assert [rate(k) for k in range(10, 61)] == [2.0] * 51
    assert rate(80) == pytest.approx(1.0)  # half way down the cosine
    assert rate(70) == pytest.approx(1 + math.cos(math.pi / 4))
    assert rate(100) == rate(1000) == 0
    assert 0 < rate(99) < 0.01
    down = [rate(k) for k in range(60, 101)]
    assert down == sorted(down, reverse=True) and len(set(down)) == 41


def test_schedule_without_its_parts():
    constant = schedule(3.0, 10)
    assert [constant(k) for k in (0, 5, 9, 10, 50)] == [3.0] * 5
    cosine = schedule(1.0, 10, cosine_fraction=1.0)
    assert [cosine(k) for k in range(11)] == pytest.approx(
        [(1 + math.cos(math.pi * k / 10)) / 2 for k in range(11)]
    )
    assert schedule(1.0, 10, warmup=4)(3) == 1.0


def test_a_warm_up_that_overlaps_the_decay_does_not_jump():
    for warmup, decay in itertools.product((30, 60, 99, 100, 300), (0.5, 1.0)):
        rate = schedule(1.0, 100, warmup, decay)
        rates = [rate(k) for k in range(101)]
        steepest = max(1 / warmup, math.pi / 2 / (100 * decay)) + 1e-12
        assert max(abs(b - a) for a, b in itertools.pairwise(rates)) <= steepest
        assert rates[0] == 1 / warmup and rates[100] == 0


@pytest.mark.parametrize("kind", [optim.SGD, optim.RMSProp, optim.Adam, optim.AdamW])
def test_groups_learn_as_if_each_had_an_optimizer_of_its_own(xp, kind):
    rng, shapes = np.random.default_rng(0), [(3, 2), (2,), (4,)]
    values = [rng.standard_normal(shape) for shape in shapes]

    def parameters():
        return [Parameter(xp.asarray(value)) for value in values]

    ours, alone = parameters(), parameters()
    paces = 1.0, 0.1, 0.0
    first, *others = [
        optim.Group([p], rate=pace) for p, pace in zip(ours, paces, strict=True)
    ]
    together = kind([*first.parameters, *others], learning_rate=0.1)
    apart = [kind([p], learning_rate=0.1) for p in alone]
    for _ in range(5):
        for one, other in zip(ours, alone, strict=True):
            one.grad[...] = other.grad[...] = xp.asarray(rng.standard_normal(one.shape))
        together.step()
        for optimizer, pace in zip(apart, paces, strict=True):
            optimizer.step(0.1 * pace)
    for one, other in zip(ours, alone, strict=True):
        np.testing.assert_allclose(
            to_host(one.data), to_host(other.data), rtol=1e-10, atol=1e-14
        )
    assert (to_host(ours[2].data) == values[2]).all()  # a rate of 0 leaves it
    assert (to_host(ours[1].data) != values[1]).all()


def test_a_group_has_a_decay_of_its_own(xp):
    value = np.array([1.0, -2.0])
    ours = [Parameter(xp.asarray(value)) for _ in range(3)]
    alone = [Parameter(xp.asarray(value)) for _ in range(3)]
    groups = [ours[0], optim.Group(ours[1:2], weight_decay=0.0), optim.Group(ours[2:])]
    together = optim.AdamW(groups, 0.1, weight_decay=0.3)
    apart = [
        optim.AdamW([p], 0.1, weight_decay=w)
        for p, w in zip(alone, (0.3, 0, 0.3), strict=True)
    ]
    for each in (*ours, *alone):
        each.grad[...] = xp.asarray(np.array([0.5, 1.0]))
    together.step()
    for optimizer in apart:
        optimizer.step()
    for one, other in zip(ours, alone, strict=True):
        np.testing.assert_allclose(to_host(one.data), to_host(other.data), rtol=1e-12)
    assert (to_host(ours[1].data) != to_host(ours[0].data)).all()
    with pytest.raises(ValueError, match=r"Group: rate must be a number in \[0, inf\)"):
        optim.Group(ours, rate=-1)
