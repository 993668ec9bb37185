"""Which dtypes and arguments the engine takes, what it refuses and in which words, and how a Tensor prints."""

import numpy as np
import pytest

from tinyrmc import Parameter, Tape, Tensor, fused
from tinyrmc import primitives as p


def assert_two_lines(caught):
    assert str(caught.value).count("\n") <= 1, str(caught.value)


# --- dtypes ----------------------------------------------------------------------------------------------------------------

F32 = np.ones(3, np.float32)


@pytest.mark.parametrize("number", [2, 2.5, True, np.float64(2.5), np.float32(2.5), np.int64(2), np.bool_(True)], ids=repr)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "minimum"])
def test_numbers_do_not_widen_float32(name, number):
    operation = getattr(p, name)
    with Tape() as tape:
        x = tape.watch(F32)
        left, right = operation(x, number), operation(number, x)
        loss = p.sum(left + right)
    assert left.dtype == right.dtype == np.float32
    assert tape.gradient(loss, x).dtype == np.float32


def test_operators_keep_float32():
    x = Tensor(F32)
    for result in x + 1, 1 - x, np.float64(2) * x, x / np.float64(3), -x, x[0] * 2.0, F32 + x, F32 - x, F32 * x, F32 / x, x @ F32, F32 @ x:
        assert type(result) is Tensor
        assert result.dtype == np.float32


@pytest.mark.parametrize("first", [np.float32, np.float64])
def test_mixed_floats_are_refused(first):
    second = {np.float32: np.float64, np.float64: np.float32}[first]
    message = rf"add: argument 1 has dtype {second.__name__}, the others {first.__name__}; convert one with \.astype"
    with pytest.raises(TypeError, match=message) as caught:
        p.add(np.ones(3, first), np.ones(3, second))
    assert_two_lines(caught)
    with pytest.raises(TypeError, match="layer_norm: argument 2 has dtype"):
        fused.layer_norm(np.ones((2, 3), first), np.ones(3, first), np.ones(3, second))
    with pytest.raises(TypeError, match="add: argument 1"):
        p.add(np.ones(3, first), np.ones((), second))  # 0-d arrays are arrays


def test_a_wide_static_number_is_refused():
    with pytest.raises(TypeError, match="power: float32 arguments gave a float64 result"):
        p.power(F32, np.float64(2.0))


def test_integers_serve_only_as_indices():
    with pytest.raises(TypeError, match=r"multiply: argument 1 has dtype int64; integers serve only as indices, convert with \.astype"):
        p.multiply(F32, np.arange(3))
    assert p.take(F32, np.array([0, 1])).dtype == np.float32
    assert fused.softmax_cross_entropy(np.ones((2, 3), np.float32), np.array([0, 2])).dtype == np.float32


def test_masks_are_welcome():
    mask = np.array([True, False, True])
    assert (F32 * Tensor(mask)).dtype == np.float32
    assert p.multiply(mask, F32).dtype == np.float32
    assert p.where(mask, F32, 0.0).dtype == np.float32
    with Tape() as tape:
        x = tape.watch(F32)
        loss = p.sum(x * mask)
    assert tape.gradient(loss, x).tolist() == [1.0, 0.0, 1.0]


def test_float64_and_complex128_mix_but_not_across_precisions():
    assert p.add(np.ones(2), np.ones(2, np.complex128)).dtype == np.complex128
    assert p.add(np.ones(2, np.complex64), np.ones(2, np.float32)).dtype == np.complex64
    for wrong in (np.float32, np.complex128), (np.float64, np.complex64):
        with pytest.raises(TypeError, match="argument 1 has dtype complex"):
            p.add(*[np.ones(2, dtype) for dtype in wrong])


@pytest.mark.parametrize("value", [[1.0, 2.0], (1.0, 2.0), "a", {1: 2}], ids=["list", "tuple", "str", "dict"])
def test_what_is_not_an_array_is_refused_by_name(value):
    kind = type(value).__name__
    for call in lambda: p.add(F32, value), lambda: Tensor(F32) + value, lambda: p.concatenate([F32, value]):
        with pytest.raises(TypeError, match=rf": argument 1: {kind} is not an array; pass a NumPy or CuPy array") as caught:
            call()
        assert_two_lines(caught)


# --- The texts of errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: p.add(np.ones((2, 3)), F32[:2]), TypeError, r"add: argument 1 has dtype float32"),
        (lambda: p.add(np.ones((2, 3)), np.ones(4)), ValueError, r"add\(float64\[2, 3\], float64\[4\]\): .*\nShapes must broadcast"),
        (lambda: p.matmul(np.ones((2, 3)), np.ones((2, 3))), ValueError, r"matmul\(float64\[2, 3\], float64\[2, 3\]\): .*\nThe last axis"),
        (lambda: p.matmul(np.ones(3), 2.0), TypeError, r"matmul\(float64\[3\], 2\.0\): "),
        (lambda: p.reshape(np.ones(6), (4, 2)), ValueError, r"reshape\(float64\[6\]\): .*\nThe new shape must hold as many elements"),
        (lambda: p.sum(np.ones(3), axis=1), IndexError, r"sum\(float64\[3\]\): axis 1 is out of bounds"),
        (lambda: p.sum(3.0), TypeError, r"sum\(3\.0\): "),
        (lambda: p.concatenate([np.ones((2, 3)), np.ones((2, 4))]), ValueError, r"concatenate\(.*\nAll arrays must agree"),
        (lambda: p.concatenate(np.ones(3)), TypeError, r"concatenate: the first argument is a list .*concatenate\(\[a, b\]"),
        (lambda: p.concatenate([]), ValueError, r"concatenate\(\): need at least one array"),
        (lambda: p.stack([np.ones(2), np.ones(3)]), ValueError, r"stack\(float64\[2\], float64\[3\]\): .*\nAll arrays must have"),
        (lambda: p.multiply(np.ones(3)), TypeError, r"multiply: takes 2 array arguments, got 1"),
        (lambda: p.add(np.ones(3), np.ones(3), np.ones(3)), TypeError, r"add: takes 2 array arguments; got 3 positional arguments"),
        (lambda: p.sum(np.ones(3), 0, True, None), TypeError, r"sum: takes 1 array argument, axis, keepdims; got 4 positional"),
        (lambda: p.sum(np.ones(3), axes=0), TypeError, r"sum: 'axes' is not a static argument \(those are: axis, keepdims\)"),
        (lambda: p.add(np.ones(3), b=np.ones(3)), TypeError, r"add: 'b' is not a static argument \(those are: none\); .* go by position"),
        (lambda: p.power(np.ones(3), Tensor(np.ones(3))), TypeError, r"power: 'exponent' is not a static argument"),
        (lambda: Tensor(F32)[np.array([0, 1])], TypeError, r"getitem.*type ndarray is not basic; write primitives\.take"),
        (lambda: Tensor(F32)[[0, 1]], TypeError, r"getitem.*type list is not basic; write primitives\.take"),
        (lambda: Tensor(F32)[7], IndexError, r"getitem\(float32\[3\]\): index 7 is out of bounds"),
        (lambda: p.negative(np.ones(2, bool)), TypeError, r"negative\(bool\[2\]\): "),
        (lambda: fused.linear(np.ones((2, 3)), np.ones((4, 5))), ValueError, r"linear\(float64\[2, 3\], float64\[4, 5\], None\): .*\nweig"),
        (lambda: fused.layer_norm(np.ones((2, 3)), np.ones(4), np.ones(3)), ValueError, r"layer_norm\(.*\ngain and offset are as long"),
        (lambda: fused.attention(np.ones((1, 2, 7)), num_heads=2, key_size=1), ValueError, r"attention\(.*7 columns do not hold 2 .*\nqkv"),
        (lambda: fused.softmax_cross_entropy(np.ones((2, 3)), np.ones(3, int)), ValueError, r"softmax_cross_entropy\(.*\ntargets are"),
    ],
)  # fmt: skip
def test_errors_name_the_operation_the_arguments_and_the_remedy(call, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call()
    assert_two_lines(caught)


def test_numpys_own_kinds_of_error_are_explained_too(monkeypatch):
    """NumPy's casting errors cannot be built from a text; the message must survive all the same."""
    monkeypatch.setattr(p.tanh, "forward", lambda xp, x: (np.add(x, 1j, out=x), ()))
    with pytest.raises(TypeError, match=r"tanh\(float64\[3\]\): Cannot cast ufunc 'add' output"):
        p.tanh(np.ones(3))


def add_in_place(t):
    t += 1


def set_item(t):
    t[0] = 1


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (bool, r"no truth or number value; read it on purpose: float\(t\.data\)"),
        (float, r"no truth or number value"),
        (int, r"no truth or number value"),
        (lambda t: range(9)[t], r"no truth or number value"),
        (lambda t: 1 if t else 2, r"no truth or number value"),
        (list, r"not a sequence; write primitives\.unstack\(t\)"),
        (len, r"not a sequence; .* t\.shape\[0\]"),
        (lambda t: t == np.ones(3), r"not compared; compare arrays: t\.data == u\.data"),
        (lambda t: t > 0, r"not compared; compare arrays"),
        (lambda t: t**2, r"has no \*\*; write primitives\.power\(t, exponent\)"),
        (np.asarray, r"does not turn into a NumPy array by itself; write t\.data"),
        (lambda t: np.array(t, dtype=float, copy=True), r"does not turn into a NumPy array by itself; write t\.data"),
        (set_item, r"immutable; build a new one with primitives\.where or concatenate"),
        (add_in_place, r"immutable; write t = t \+ u instead of t \+= u"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [Tensor, Parameter])
def test_tensors_refuse(kind, use, message):
    with pytest.raises(TypeError, match=f"{kind.__name__} .*{message}"):
        use(kind(np.ones(3)))


def test_methods_that_are_not_there_are_named_with_what_is():
    tensor = Tensor(np.ones(3))
    for name in ("sum", "mean", "reshape"):
        with pytest.raises(AttributeError, match=rf"Tensor has no '{name}'; write primitives\.{name}\(t\)"):
            getattr(tensor, name)
    with pytest.raises(AttributeError, match=r"Tensor has no 'T'; it has data, shape"):
        tensor.T  # noqa: B018
    assert tensor in {tensor} and not hasattr(tensor, "item")


def test_numpy_functions_do_not_swallow_tensors():
    with pytest.raises(TypeError):
        np.exp(Tensor(np.ones(3)))


# --- Printing --------------------------------------------------------------------------------------------------------------


def test_repr():
    assert repr(Tensor(np.array(1.5))) == "Tensor(1.5, shape=(), dtype=float64)"
    assert repr(Tensor(np.array([1, 1 / 3], np.float32))) == "Tensor([1.    , 0.3333], shape=(2,), dtype=float32)"
    large = repr(Tensor(np.ones((1000, 1000))))
    assert len(large) < 300
    assert large.endswith("shape=(1000, 1000), dtype=float64)")
    weight = Parameter(np.zeros(2))
    assert repr(weight) == f"Parameter([0., 0.], shape=(2,), dtype=float64, id={weight.id})"
    with Tape() as tape:
        assert repr(tape.watch(np.zeros(1))) == "Tensor([0.], shape=(1,), dtype=float64, id=1)"


def test_attributes():
    tensor = Tensor(np.ones((2, 3), np.float32))
    assert (tensor.shape, tensor.dtype, tensor.ndim, tensor.size) == ((2, 3), np.float32, 2, 6)
