"""What the engine and its tape take, what they refuse, and in which words.

And how a Tensor prints.
"""

import numpy as np
import pytest

from tinyrmc import Parameter, Tape, Tensor, fused, optim
from tinyrmc import primitives as p
from tinyrmc.autograd.engine import Primitive
from tinyrmc.backend import to_host


def single(xp):
    return xp.ones(3, np.float32)


def assert_two_lines(caught):
    assert str(caught.value).count("\n") <= 1, str(caught.value)


# --- dtypes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number",
    [2, 2.5, True, np.float64(2.5), np.float32(2.5), np.int64(2), np.bool_(True)],
    ids=repr,
)
@pytest.mark.parametrize(
    "name", ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
)
def test_numbers_do_not_widen_float32(xp, name, number):
    operation = getattr(p, name)
    with Tape() as tape:
        x = tape.watch(single(xp))
        left, right = operation(x, number), operation(number, x)
        loss = p.sum(left + right)
    assert left.dtype == right.dtype == np.float32
    assert tape.gradient(loss, x).dtype == np.float32


def test_operators_keep_float32(xp):
    a = single(xp)
    x = Tensor(a)
    for result in (
        x + 1,
        1 - x,
        np.float64(2) * x,
        x / np.float64(3),
        -x,
        x[0] * 2.0,
        a + x,
        a - x,
        a * x,
        a / x,
        x @ a,
        a @ x,
    ):
        assert type(result) is Tensor
        assert result.dtype == np.float32


@pytest.mark.parametrize("first", [np.float32, np.float64])
def test_mixed_floats_are_refused(xp, first):
    second = {np.float32: np.float64, np.float64: np.float32}[first]
    message = (
        rf"add: argument 1 has dtype {second.__name__}, the others {first.__name__}; "
        r"convert one with \.astype"
    )
    with pytest.raises(TypeError, match=message) as caught:
        p.add(xp.ones(3, first), xp.ones(3, second))
    assert_two_lines(caught)
    with pytest.raises(TypeError, match="layer_norm: argument 2 has dtype"):
        fused.layer_norm(xp.ones((2, 3), first), xp.ones(3, first), xp.ones(3, second))
    with pytest.raises(TypeError, match="add: argument 1"):
        p.add(xp.ones(3, first), xp.ones((), second))  # 0-d arrays are arrays


def test_a_wide_static_number_does_not_widen_float32(xp):
    squared = p.power(single(xp), np.float64(2.0))
    assert squared.dtype == np.float32
    assert (squared.data == single(xp) * single(xp)).all()
    assert len(p.split(single(xp), np.int64(1), axis=0)) == 1


def test_integers_serve_only_as_indices(xp):
    with pytest.raises(
        TypeError,
        match=r"multiply: argument 1 has dtype int64; integers serve only as indices, "
        r"convert with \.astype",
    ):
        p.multiply(single(xp), xp.arange(3))
    assert p.take(single(xp), xp.array([0, 1])).dtype == np.float32
    assert (
        fused.softmax_cross_entropy(xp.ones((2, 3), np.float32), xp.array([0, 2])).dtype
        == np.float32
    )


def test_masks_are_welcome(xp):
    mask, a = xp.array([True, False, True]), single(xp)
    assert (a * Tensor(mask)).dtype == np.float32
    assert p.multiply(mask, a).dtype == np.float32
    assert p.where(mask, a, 0.0).dtype == np.float32
    with Tape() as tape:
        x = tape.watch(a)
        loss = p.sum(x * mask)
    assert tape.gradient(loss, x).tolist() == [1.0, 0.0, 1.0]


def test_float64_and_complex128_mix_but_not_across_precisions(xp):
    assert p.add(xp.ones(2), xp.ones(2, np.complex128)).dtype == np.complex128
    assert p.add(xp.ones(2, np.complex64), xp.ones(2, np.float32)).dtype == np.complex64
    for wrong in (np.float32, np.complex128), (np.float64, np.complex64):
        with pytest.raises(TypeError, match="argument 1 has dtype complex"):
            p.add(*[xp.ones(2, dtype) for dtype in wrong])


@pytest.mark.parametrize(
    "value", [[1.0, 2.0], (1.0, 2.0), "a", {1: 2}], ids=["list", "tuple", "str", "dict"]
)
def test_what_is_not_an_array_is_refused_by_name(xp, value):
    kind = type(value).__name__
    a = single(xp)
    for call in (
        lambda: p.add(a, value),
        lambda: Tensor(a) + value,
        lambda: p.concatenate([a, value]),
    ):
        with pytest.raises(
            TypeError,
            match=rf": argument 1: {kind} is not an array; pass a NumPy or CuPy array",
        ) as caught:
            call()
        assert_two_lines(caught)


# --- The texts of errors --------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda xp: p.add(xp.ones((2, 3)), single(xp)[:2]),
            TypeError,
            r"add: argument 1 has dtype float32",
        ),
        (
            lambda xp: p.add(xp.ones((2, 3)), xp.ones(4)),
            ValueError,
            r"add\(float64\[2, 3\], float64\[4\]\): .*\nShapes must broadcast",
        ),
        (
            lambda xp: p.matmul(xp.ones((2, 3)), xp.ones((2, 3))),
            ValueError,
            r"matmul\(float64\[2, 3\], float64\[2, 3\]\): .*\nThe last",
        ),
        (
            lambda xp: p.matmul(xp.ones(3), 2.0),
            TypeError,
            r"matmul\(float64\[3\], 2\.0\): ",
        ),
        (
            lambda xp: p.reshape(xp.ones(6), (4, 2)),
            ValueError,
            r"reshape\(float64\[6\]\): .*\nThe new shape must hold as many elements",
        ),
        (
            lambda xp: p.sum(xp.ones(3), axis=1),
            IndexError,
            r"sum\(float64\[3\]\): axis 1 is out of bounds",
        ),
        (lambda xp: p.sum(3.0), TypeError, r"sum\(3\.0\): "),
        (
            lambda xp: p.concatenate([xp.ones((2, 3)), xp.ones((2, 4))]),
            ValueError,
            r"concatenate\(.*\nAll arrays must agree",
        ),
        (
            lambda xp: p.concatenate(xp.ones(3)),
            TypeError,
            r"concatenate: the first argument is a list .*concatenate\(\[a, b\]",
        ),
        (
            lambda xp: p.concatenate([]),
            ValueError,
            r"concatenate\(\): need at least one array",
        ),
        (
            lambda xp: p.stack([xp.ones(2), xp.ones(3)]),
            ValueError,
            r"stack\(float64\[2\], float64\[3\]\): .*\nAll arrays must have",
        ),
        (
            lambda xp: p.multiply(xp.ones(3)),
            TypeError,
            r"multiply: takes 2 array arguments, got 1",
        ),
        (
            lambda xp: p.add(xp.ones(3), "a"),
            TypeError,
            r"add: argument 1: str is not an array; .* array, a Tensor or a number",
        ),
        (
            lambda xp: p.add(xp.ones(3), xp.ones(3), xp.ones(3)),
            TypeError,
            r"add: takes 2 array arguments; got 3 positional arguments",
        ),
        (
            lambda xp: p.sum(xp.ones(3), 0, True, None),
            TypeError,
            r"sum: takes 1 array argument, axis, keepdims; got 4 positional",
        ),
        (
            lambda xp: p.sum(xp.ones(3), axes=0),
            TypeError,
            r"sum: 'axes' is not a static argument \(those are: axis, keepdims\)",
        ),
        (
            lambda xp: p.add(xp.ones(3), b=xp.ones(3)),
            TypeError,
            r"add: 'b' is not a static argument \(those are: none\); .* by position",
        ),
        (
            lambda xp: p.power(xp.ones(3), Tensor(xp.ones(3))),
            TypeError,
            r"power: 'exponent' is not a static argument",
        ),
        (
            lambda xp: Tensor(single(xp))[xp.array([0, 1])],
            TypeError,
            r"getitem.*type ndarray is not basic; write primitives\.take",
        ),
        (
            lambda xp: Tensor(single(xp))[[0, 1]],
            TypeError,
            r"getitem.*type list is not basic; write primitives\.take",
        ),
        (
            lambda xp: Tensor(single(xp))[7],
            IndexError,
            r"getitem\(float32\[3\]\): [iI]ndex 7 is out of bounds",
        ),
        (
            lambda xp: p.sum(xp.ones((2, 3)), 0, axis=1),
            TypeError,
            r"sum: 'axis' is given in order and by name",
        ),
        (
            lambda xp: p.unstack(xp.ones((3, 0)), axis=1),
            ValueError,
            r"unstack\(float64\[3, 0\]\): axis 1 has length 0",
        ),
        (
            lambda xp: p.exp(np.ones(3, ">f8")),
            TypeError,
            r"exp: >f8 arguments .*; convert such foreign bytes with .*np\.float64",
        ),
        (
            lambda xp: p.negative(xp.ones(2, bool)),
            TypeError,
            r"negative\(bool\[2\]\): ",
        ),
        (
            lambda xp: fused.linear(xp.ones((2, 3)), xp.ones((4, 5))),
            ValueError,
            r"linear\(float64\[2, 3\], float64\[4, 5\], None.* weight \(in, out\)",
        ),
        (
            lambda xp: fused.layer_norm(xp.ones((2, 3)), xp.ones(4), xp.ones(3)),
            ValueError,
            r"layer_norm\(.*must be x \(\.\.\., F\), gain \(F\), offset \(F\)",
        ),
        (
            lambda xp: fused.attention(xp.ones((1, 2, 7)), num_heads=2, key_size=1),
            ValueError,
            r"attention\(.*7 columns .*; need heads \* \(2 \* key \+ value\)$",
        ),
        (
            lambda xp: fused.softmax_cross_entropy(xp.ones((2, 3)), xp.ones(3, int)),
            ValueError,
            r"softmax_cross_entropy\(.*\ntargets are",
        ),
    ],
)
def test_errors_name_the_operation_the_arguments_and_the_remedy(
    xp, call, kind, message
):
    with pytest.raises(kind, match=message) as caught:
        call(xp)
    assert_two_lines(caught)


def test_numpys_own_kinds_of_error_are_explained_too(monkeypatch):
    """NumPy's casting errors cannot be built from a text.

    The message must survive all the same.
    """
    monkeypatch.setattr(p.tanh, "forward", lambda xp, x: (np.add(x, 1j, out=x), ()))
    with pytest.raises(
        TypeError, match=r"tanh\(float64\[3\]\): Cannot cast ufunc 'add' output"
    ):
        p.tanh(np.ones(3))


def add_in_place(t):
    t += 1


def set_item(t):
    t[0] = 1


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (bool, r"no truth or number value; read float\(t\.data\)"),
        (float, r"no truth or number value"),
        (int, r"no truth or number value"),
        (lambda t: range(9)[t], r"no truth or number value"),
        (lambda t: 1 if t else 2, r"no truth or number value"),
        (list, r"not a sequence; write primitives\.unstack\(t\)"),
        (len, r"not a sequence; .* t\.shape\[0\]"),
        (
            lambda t: t == np.ones(3),
            r"not compared; compare arrays: t\.data == u\.data",
        ),
        (lambda t: t > 0, r"not compared; compare arrays"),
        (lambda t: t**2, r"has no \*\*; write primitives\.power\(t, exponent\)"),
        (np.asarray, r"does not turn into a NumPy array by itself; write t\.data"),
        (
            lambda t: np.array(t, dtype=float, copy=True),
            r"does not turn into a NumPy array by itself; write t\.data",
        ),
        (set_item, r"immutable; build a new one with primitives\.where or concatenate"),
        (add_in_place, r"immutable; write t = t \+ u instead of t \+= u"),
    ],
)
@pytest.mark.parametrize("kind", [Tensor, Parameter])
def test_tensors_refuse(xp, kind, use, message):
    with pytest.raises(TypeError, match=f"{kind.__name__} .*{message}"):
        use(kind(xp.ones(3)))


def test_methods_that_are_not_there_are_named_with_what_is(xp):
    tensor = Tensor(xp.ones(3))
    for name in ("sum", "mean", "reshape"):
        with pytest.raises(
            AttributeError,
            match=rf"Tensor has no '{name}'; write primitives\.{name}\(t\)",
        ):
            getattr(tensor, name)
    with pytest.raises(AttributeError, match=r"Tensor has no 'T'; it has data, shape"):
        tensor.T  # noqa: B018
    assert tensor in {tensor} and not hasattr(tensor, "item")


def test_array_functions_do_not_swallow_tensors(xp):
    with pytest.raises(TypeError):
        xp.exp(Tensor(xp.ones(3)))


# --- Printing -------------------------------------------------------------------------


def test_repr(xp):
    assert repr(Tensor(xp.array(1.5))) == "Tensor(1.5, shape=(), dtype=float64)"
    assert (
        repr(Tensor(xp.array([1, 1 / 3], np.float32)))
        == "Tensor([1.    , 0.3333], shape=(2,), dtype=float32)"
    )
    large = repr(Tensor(xp.ones((1000, 1000))))
    assert len(large) < 300
    assert large.endswith("shape=(1000, 1000), dtype=float64)")
    weight = Parameter(xp.zeros(2))
    assert (
        repr(weight)
        == f"Parameter([0., 0.], shape=(2,), dtype=float64, id={weight.id})"
    )
    with Tape() as tape:
        assert (
            repr(tape.watch(xp.zeros(1)))
            == "Tensor([0.], shape=(1,), dtype=float64, id=1)"
        )


def test_attributes(xp):
    tensor = Tensor(xp.ones((2, 3), np.float32))
    assert (tensor.shape, tensor.dtype) == ((2, 3), np.float32)
    assert (tensor.ndim, tensor.size) == (2, 6)


# --- Misuse of a tape -----------------------------------------------------------------


def recorded(xp):
    with Tape() as tape:
        x = tape.watch(xp.ones(2))
        loss = p.sum(x * 2.0)
    return tape, loss, x


def test_second_backward_is_refused(xp):
    def backward(tape, loss, x):
        tape.backward(loss)

    def gradient(tape, loss, x):
        tape.gradient(loss, x)

    for first in backward, gradient:
        for second in backward, gradient:
            recording = recorded(xp)
            first(*recording)
            with pytest.raises(
                RuntimeError, match="this Tape is consumed; record again"
            ) as caught:
                second(*recording)
            assert_two_lines(caught)


def test_backward_inside_the_recording_is_refused(xp):
    with Tape() as tape:
        loss = p.sum(tape.watch(xp.ones(2)))
        with pytest.raises(
            RuntimeError, match="still recording; leave the with-block first"
        ):
            tape.backward(loss)


def test_backward_before_any_recording_is_refused(xp):
    with pytest.raises(RuntimeError, match="this Tape has recorded nothing"):
        Tape().backward(Tensor(xp.ones(())))


def test_non_scalar_loss_is_refused(xp):
    with Tape() as tape:
        x = tape.watch(xp.ones(2)) * 2.0
    with pytest.raises(
        ValueError,
        match=r"scalar loss, not shape \(2,\); reduce it with primitives\.sum or mean",
    ):
        tape.backward(x)


def test_a_loss_from_elsewhere_is_refused(xp):
    for loss in Tensor(xp.ones(())), xp.ones(()), 1.0, Parameter(xp.ones(())):
        tape, *_ = recorded(xp)
        with pytest.raises(
            RuntimeError,
            match="the loss does not depend on anything recorded on this Tape",
        ):
            tape.backward(loss)


def test_a_loss_of_another_tape_is_refused(xp):
    (tape, *_), (_, other, _) = recorded(xp), recorded(xp)
    with pytest.raises(
        RuntimeError, match="the loss does not depend on anything recorded on this Tape"
    ):
        tape.backward(other)


def test_nested_tapes_are_refused_and_the_outer_one_goes_on(xp):
    with Tape() as tape:
        x = tape.watch(xp.ones(2))
        with (
            pytest.raises(
                RuntimeError,
                match=r"already recording in this thread.*one tape per thread",
            ),
            Tape(),
        ):
            pass
        loss = p.sum(x * 2.0)
    assert tape.gradient(loss, x).tolist() == [2.0, 2.0]


def test_a_tape_records_once():
    with Tape() as tape:
        pass
    with pytest.raises(RuntimeError, match="already used; make a new one"), tape:
        pass


def test_an_exception_closes_the_tape():
    with pytest.raises(ZeroDivisionError), Tape():
        raise ZeroDivisionError
    with Tape():
        pass


def test_a_tensor_of_an_older_tape(xp):
    """An error on a new tape, for it would silently cut the gradient.

    A constant outside of tapes, and welcome when detached.
    """
    _, _, old = recorded(xp)
    assert p.sum(old).id == 0
    with Tape() as tape:
        new = tape.watch(xp.ones(2))
        with pytest.raises(
            RuntimeError,
            match=r"multiply: an argument was made on another Tape.*\.detach\(\)",
        ) as caught:
            new * old
        loss = p.sum(new * old.detach())
    assert tape.gradient(loss, new).tolist() == [1.0, 1.0]
    assert_two_lines(caught)


def test_a_parameter_changed_before_backward_is_refused(xp):
    def change(weight, optimizer):
        weight.data = 2 * weight.data

    for update in change, lambda weight, optimizer: optimizer.step():
        weight = Parameter(xp.ones(2))
        optimizer = optim.SGD([weight])
        with Tape() as tape:
            loss = p.sum(weight * weight)
        update(weight, optimizer)
        with pytest.raises(
            RuntimeError,
            match=r"Parameter of shape \(2,\) was changed after it was recorded; call "
            r"backward before the update",
        ):
            tape.backward(loss)


def test_what_a_call_was_told_may_change_before_backward(xp):
    """A counter that goes on, a list that is used again: the tape has its own copy."""
    count, axes, exponent = np.array(-1), [1, 0, 2], np.array(3.0)
    with Tape() as tape:
        x = tape.watch(xp.asarray([2.0, 3.0, 4.0]))
        cube = tape.watch(xp.asarray(np.arange(8.0).reshape(2, 2, 2)))
        total = p.sum(p.power(x, exponent))
        for factor in (1.0, 2.0, 3.0):
            count += 1
            total = total + factor * (x[count] + x[count : count + 1][0])
        total = total + p.sum(cube * p.transpose(cube, axes))
        exponent[...], axes[:] = 1.0, [2, 1, 0]
    of_x, of_cube = tape.gradient(total, [x, cube])
    assert of_x.tolist() == [3 * 4 + 2, 3 * 9 + 4, 3 * 16 + 6]
    turned = np.arange(8.0).reshape(2, 2, 2).transpose(1, 0, 2)
    assert to_host(of_cube).tolist() == (2 * turned).tolist()


@pytest.mark.parametrize("mask", [True, np.True_, np.array(True)], ids=repr)
def test_a_mask_is_no_basic_index(xp, mask):
    with Tape() as tape, pytest.raises(TypeError, match="is not basic; write"):
        tape.watch(xp.ones(3))[mask]


@pytest.mark.parametrize("value, fill", [(None, "0"), (2.5, "2.5")])
def test_what_is_no_array_is_told_how_to_fill_one(xp, value, fill):
    with pytest.raises(TypeError, match=rf"write parameter.grad\[...\] = {fill} to"):
        Parameter(xp.ones(2)).grad = value


def test_a_number_too_large_for_a_float_is_worded(xp):
    with Tape() as tape, pytest.raises((OverflowError, TypeError), match=r"^add"):
        tape.watch(xp.ones(2)) + 10**400


def test_wrt_that_the_loss_does_not_depend_on(xp):
    weight, other = Parameter(xp.ones(2)), Parameter(xp.ones((2, 3), np.float32))
    for stranger in other, Tensor(xp.ones((2, 3), np.float32)), recorded(xp)[2]:
        with Tape() as tape:
            loss = p.sum(weight * 2.0)
        with pytest.raises(
            KeyError, match=r"does not depend on wrt\[1\].*strict=False"
        ):
            tape.gradient(loss, [weight, stranger])
    with Tape() as tape:
        loss = p.sum(weight * 2.0)
    found, zeros = tape.gradient(loss, [weight, other], strict=False)
    assert found.tolist() == [2.0, 2.0]
    assert zeros.tolist() == [[0.0] * 3] * 2
    assert zeros.dtype == np.float32


def test_watch_refuses_integers(xp):
    with (
        Tape() as tape,
        pytest.raises(
            TypeError, match=r"floating-point array, not int64; convert with \.astype"
        ),
    ):
        tape.watch(xp.arange(3))


@pytest.mark.parametrize(
    "wrong",
    [lambda g: g.astype(np.float32), lambda g: g[:, :2]],
    ids=["dtype", "shape"],
)
def test_a_wrong_rule_is_named(xp, wrong, monkeypatch):
    rule = p.tanh.rule
    monkeypatch.setattr(p.tanh, "rule", lambda *args: wrong(rule(*args)))
    with Tape() as tape:
        x = tape.watch(xp.ones((2, 3)))
        loss = p.sum(p.tanh(x))
    with pytest.raises(
        TypeError,
        match=r"vjp of tanh, argument 0: .* the argument float64\[2, 3\]; the rule is "
        r"wrong",
    ):
        tape.gradient(loss, x)


@pytest.mark.parametrize(
    "rule, says",
    [
        (lambda *args: (None, None), "it gives 2 gradients for 1 arguments; give one"),
        (lambda *args: None, "argument 0: the gradient is None, but is wanted"),
        (p.tanh._without_rule, r"tanh has no derivative; give it one with @tanh\.vjp"),
    ],
    ids=["two", "none", "no rule"],
)
def test_gradients_that_are_missing_are_named(rule, says, monkeypatch):
    monkeypatch.setattr(p.tanh, "rule", rule)
    with Tape() as tape:
        x = tape.watch(np.ones((2, 3)))
        loss = p.sum(p.tanh(x))
    with pytest.raises(TypeError, match=says):
        tape.gradient(loss, x)


def test_a_primitive_s_name_is_taken_once():
    """Tensors call primitives by their names: a * b would be another function."""

    def multiply(xp, a, b):
        return a + b, ()

    with pytest.raises(ValueError, match="primitives has a primitive multiply, which"):
        Primitive(multiply)
    assert (Tensor(np.full(2, 3.0)) * 3.0).data.tolist() == [9.0, 9.0]
