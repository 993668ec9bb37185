"""Every operation that takes axes, counts or shapes, against NumPy's own refusals: one
table of operations, one of values.
"""

import operator
import tracemalloc

import numpy as np
import pytest

from tinyrmc import Tensor
from tinyrmc import primitives as p

X = np.arange(24.0).reshape(2, 3, 4)
ZEROS = np.zeros((2, 3, 4), int)
VALUES = [
    *(0, 1, 2, 3, 4, 5, -1, -2, -3, -4, -5, 10**20, np.int64(1), np.int8(-1)),
    *(
        1.0,
        1.5,
        np.float64(1),
        True,
        np.True_,
        "0",
        None,
        np.array(1),
        np.array([0, 1]),
    ),
    *((), (0,), (0, 1), (1, 0), (0, 0), (0, -3), (0, 5), (1.0,), (np.int64(2),)),
    *([], [0], [0, 1], [2, 1], [1.5], (2, 3, 4), (0, 1, 2), (2, -1, 0), (-1, -1)),
    *((6, -1), (-2, 12), (5, 2, 3, 4), ((1, 2), (0, 0), (3, 0)), [[1], [2], [3]]),
    *((0, 3), (3, 3), (4, 0), (0, np.int64(0)), ([0, 1], [0, 1]), ([0], [0, 1])),
    *((-4, -1), ((0, 1), (0, 5)), ([2, 2], [2, 2]), range(2)),
]
CALLS = {  # a call with such a value, of our functions or NumPy's
    **{
        f"{name} axis": lambda f, a, name=name: getattr(f, name)(X, axis=a)
        for name in "sum mean max min prod var std cumsum cumprod sort flip".split()
    },
    "argsort axis": lambda f, a: f.argsort(X, axis=a),
    "squeeze axis": lambda f, a: f.squeeze(X[:, :1], axis=a),
    "expand_dims axis": lambda f, a: f.expand_dims(X, axis=a),
    "roll axis": lambda f, a: f.roll(X, 1, axis=a),
    "roll shift": lambda f, a: f.roll(X, a, axis=0),
    "roll shifts": lambda f, a: f.roll(X, a, axis=(0, 1)),
    "roll flat": lambda f, a: f.roll(X, a),
    "concatenate axis": lambda f, a: f.concatenate([X, X], axis=a),
    "stack axis": lambda f, a: f.stack([X, X], axis=a),
    "split axis": lambda f, a: f.split(X, 2, axis=a),
    "split places": lambda f, a: f.split(X, a, axis=2),
    "unstack axis": lambda f, a: f.unstack(X, axis=a),
    "take axis": lambda f, a: f.take(X, np.array([0, 1]), axis=a),
    "take_along_axis axis": lambda f, a: f.take_along_axis(X, ZEROS, axis=a),
    "repeat axis": lambda f, a: f.repeat(X, 2, axis=a),
    "repeat count": lambda f, a: f.repeat(X, a, axis=1),
    "repeat flat": lambda f, a: f.repeat(X, a),
    "tile": lambda f, a: f.tile(X, a),
    "tensordot axes": lambda f, a: f.tensordot(X, X, axes=a),
    "tensordot first": lambda f, a: f.tensordot(X, X, axes=(a, 1)),
    "tensordot second": lambda f, a: f.tensordot(X, X, axes=(2, a)),
    "swapaxes": lambda f, a: f.swapaxes(X, a, 1),
    "moveaxis source": lambda f, a: f.moveaxis(X, a, 1),
    "moveaxis both": lambda f, a: f.moveaxis(X, a, a),
    "trace offset": lambda f, a: f.trace(X, a),
    "trace axis": lambda f, a: f.trace(X, 0, a, 1),
    "tril": lambda f, a: f.tril(X, a),
    "triu": lambda f, a: f.triu(X, a),
    "transpose": lambda f, a: f.transpose(X, a),
    "reshape": lambda f, a: f.reshape(X, a),
    "broadcast_to": lambda f, a: f.broadcast_to(X[0], a),
    "pad": lambda f, a: f.pad(X, a),
    "var ddof": lambda f, a: f.var(X, ddof=a),
    "std ddof": lambda f, a: f.std(X, ddof=a),
}
REFUSED = TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError


class ByNumPy:
    """NumPy's functions, and two that it lacks."""

    def __getattr__(self, name):
        return getattr(np, name)

    def split(self, *given, **named):
        return tuple(np.split(*given, **named))

    def unstack(self, x, axis):
        return tuple(np.moveaxis(x, operator.index(axis), 0))


def result(call, functions, value):
    """The arrays that a call gives, or None if it is refused."""
    with np.errstate(all="ignore"):
        try:
            found = call(functions, value)
        except REFUSED:
            return None
    found = found if isinstance(found, tuple) else (found,)
    return [x.data if isinstance(x, Tensor) else np.asarray(x) for x in found]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", CALLS)
def test_what_numpy_refuses_is_refused_and_all_else_is_the_same(name):
    call, taken = CALLS[name], 0
    for value in VALUES:
        ours, theirs = (result(call, f, value) for f in (p, ByNumPy()))
        if ours is None:
            continue  # we may refuse more: truth values, floats, axis=None
        if name.startswith("tensordot") and (value is True or hasattr(value, "ndim")):
            continue  # Python's integers by `index`, and ours
        taken += 1
        assert theirs is not None, f"{name} takes {value!r}, and NumPy does not"
        assert len(ours) == len(theirs), f"{name} {value!r}"
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, err_msg=f"{name} {value!r}")
    assert taken > 1  # for every name takes something


def test_counts_and_axes_of_numpy_s_own_integers():
    for number in 0, 1, 2, 3:  # each name takes one of them
        for value in np.int8(number), np.int64(number), np.array(number):
            for name in set(CALLS) - {"transpose", "split places"} - STRICT:
                mine = result(CALLS[name], p, value)
                if result(CALLS[name], p, number) is not None:
                    assert mine is not None, f"{name} refuses {value!r}"


STRICT = {"var ddof", "std ddof", "tensordot first", "tensordot second"}


def test_einsum_takes_no_more_memory_than_numpy_s_order():
    """Arrays that from left to right, or all at once, would have an axis more."""
    rng = np.random.default_rng(0)
    cases = {
        "ki,k,kj,k->ij": [(50, 300), (50,), (50, 300), (50,)],
        "bi,bj,bk,ijk->b": [(64, 40), (64, 40), (64, 40), (40, 40, 40)],
    }
    for subscripts, shapes in cases.items():
        operands = [rng.normal(size=shape) for shape in shapes]
        tracemalloc.start()
        try:
            found = p.einsum(subscripts, *operands)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        expected = np.einsum(subscripts, *operands, optimize=True)
        np.testing.assert_allclose(found.data, expected, atol=1e-9)
        assert most < 5e6, subscripts


def test_one_number_is_repeated_as_a_vector():
    for axis in (0, -1, None):
        assert p.repeat(np.array(2.0), 3, axis=axis).data.tolist() == [2.0] * 3
    with pytest.raises(REFUSED):
        p.repeat(np.array(2.0), 3, axis=1)
