"""The table: every basic operation with its derivative beside it, under NumPy's names.

Read a pair as a line of calculus. The forward rule computes `out` and says what the
derivative will need (`saved`). The vjp takes g = d loss / d out, and returns d loss / d
argument for each argument; `needs` says which of them anyone asks for. Nothing here
thinks about broadcasting (the tape undoes it), about accumulation (the tape does it) or
about which library computes (`xp`). All forward rules are analytic, but for the kinks
that their docstrings name, and there the real part decides (NumPy's abs and logaddexp
are not analytic, so ours are composed). So the complex step of `gradcheck.py` can
verify each of them to the last digits. What has no rule, at the end, is composed of
what has one.

All rules have the same two types, which `engine.Primitive` states, so they carry no
annotations. The file is long because it is the table, and a table belongs together.
"""

from __future__ import annotations

import contextlib
import math
import string
import threading
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple as axes_of

from ..backend import Array, as_rows, gemm, joined, namespace, sorting, stacked
from ..errors import check_number
from . import guards
from .engine import TABLE, Primitive, Tensor, primitive
from .gradients import DeferredMatmul

BROADCAST = (
    "Shapes must broadcast: align them from the right, with 1 where one is stretched "
    "(reshape or expand_dims)."
)

# --- elementwise ----------------------------------------------------------------------


@primitive(hint=BROADCAST)
def add(xp, a, b):
    """a + b"""
    return xp.add(a, b), ()


@add.vjp
def add_vjp(xp, needs, g):
    return g, g


@primitive(hint=BROADCAST)
def subtract(xp, a, b):
    """a - b"""
    return xp.subtract(a, b), ()


@subtract.vjp
def subtract_vjp(xp, needs, g):
    return g, -g if needs[1] else None


@primitive(hint=BROADCAST)
def multiply(xp, a, b):
    """a * b, elementwise."""
    return xp.multiply(a, b), (a, b)


@multiply.vjp
def multiply_vjp(xp, needs, g, a, b):
    return g * b if needs[0] else None, g * a if needs[1] else None


@primitive(hint=BROADCAST)
def divide(xp, a, b):
    """a / b, elementwise."""
    y = xp.divide(a, b)
    return y, (y, b)


@divide.vjp
def divide_vjp(xp, needs, g, y, b):
    ga = g / b
    return ga, -ga * y if needs[1] else None


@primitive
def negative(xp, x):
    """-x"""
    return xp.negative(x), ()


@negative.vjp
def negative_vjp(xp, needs, g):
    return -g


@primitive(hint=BROADCAST)
def power(xp, x, exponent):
    """x ** exponent. Where the exponent has a gradient x must not be negative; at x = 0
    that gradient is 0.
    """
    y = xp.power(x, exponent)
    return y, (x, exponent, y)


@power.vjp
def power_vjp(xp, needs, g, x, exponent, y):
    gx = ge = None
    if needs[0] and not hasattr(exponent, "shape"):
        gx = (
            g * (exponent * xp.power(x, exponent - 1)) if exponent else xp.zeros_like(g)
        )
    elif needs[0]:  # a power of 0 is constant, even at x = 0
        one = exponent.dtype.type(1)
        lower = xp.where(exponent == 0, one, exponent - one)
        gx = g * exponent * xp.power(x, lower)
    if needs[1] and not hasattr(x, "shape"):
        ge = g * y * (math.log(x) if x > 0 else 0.0 if x == 0 else math.nan)
    elif needs[1]:
        ge = g * y * xp.log(xp.where(x == 0, x.dtype.type(1), x))
    return gx, ge


@primitive
def square(xp, x):
    """x * x"""
    return xp.multiply(x, x), (x,)


@square.vjp
def square_vjp(xp, needs, g, x):
    return 2 * g * x


@primitive
def sqrt(xp, x):
    """The non-negative square root."""
    y = xp.sqrt(x)
    return y, (y,)


@sqrt.vjp
def sqrt_vjp(xp, needs, g, y):
    return 0.5 * g / y


@primitive
def exp(xp, x):
    """e to the x."""
    y = xp.exp(x)
    return y, (y,)


@exp.vjp
def exp_vjp(xp, needs, g, y):
    return g * y


@primitive
def log(xp, x):
    """The natural logarithm."""
    return xp.log(x), (x,)


@log.vjp
def log_vjp(xp, needs, g, x):
    return g / x


@primitive
def tanh(xp, x):
    """The hyperbolic tangent."""
    y = xp.tanh(x)
    return y, (y,)


@tanh.vjp
def tanh_vjp(xp, needs, g, y):
    return g * (1 - y * y)


def _unary(name: str, about: str, slope: Callable) -> Primitive:
    """A row for NumPy's function of this name; its derivative is slope(xp, x, y)."""

    def forward(xp, x):
        y = getattr(xp, name)(x)
        return y, (x, y)

    def vjp(xp, needs, g, x, y):
        return g * slope(xp, x, y)

    forward.__name__ = name
    forward.__doc__ = about
    vjp.__name__ = f"{name}_vjp"
    row = primitive(forward)
    row.vjp(vjp)
    return row


log1p = _unary("log1p", "log(1 + x), exact near 0.", lambda xp, x, y: 1 / (1 + x))
expm1 = _unary("expm1", "e^x - 1, exact near 0.", lambda xp, x, y: y + 1)
sin = _unary("sin", "The sine, x in radians.", lambda xp, x, y: xp.cos(x))
cos = _unary("cos", "The cosine, x in radians.", lambda xp, x, y: -xp.sin(x))
tan = _unary("tan", "The tangent, x in radians.", lambda xp, x, y: 1 + y * y)
sinh = _unary("sinh", "The hyperbolic sine.", lambda xp, x, y: xp.cosh(x))
cosh = _unary("cosh", "The hyperbolic cosine.", lambda xp, x, y: xp.sinh(x))
arcsin = _unary("arcsin", "The inverse of sin.", lambda xp, x, y: (1 - x * x) ** -0.5)
arccos = _unary(
    "arccos", "The inverse of cos.", lambda xp, x, y: -((1 - x * x) ** -0.5)
)
arctan = _unary("arctan", "The inverse of tan.", lambda xp, x, y: 1 / (1 + x * x))
arcsinh = _unary("arcsinh", "The inverse of sinh.", lambda xp, x, y: 1 / xp.cosh(y))
arccosh = _unary("arccosh", "The inverse of cosh.", lambda xp, x, y: 1 / xp.sinh(y))
arctanh = _unary("arctanh", "The inverse of tanh.", lambda xp, x, y: 1 / (1 - x * x))


@primitive
def sign(xp, x):
    """-1, 0 or 1. Its slope is 0, at 0 too."""
    return xp.sign(x.real).astype(x.dtype), ()


@sign.vjp
def sign_vjp(xp, needs, g):
    return xp.zeros_like(g)


def _decay(xp, x):
    """(e^-|x|, whether x is positive), for a complex step too."""
    positive = x.real > 0
    return xp.exp(xp.where(positive, -x, x)), positive


@primitive
def sigmoid(xp, x):
    """1 / (1 + e^-x), written so that it never overflows and keeps its digits. It is
    about e^x for very negative x; sigmoid(+-inf) is exactly 1 and 0.
    """
    small, positive = _decay(xp, x)
    return xp.where(positive, small.dtype.type(1), small) / (1 + small), (small,)


@sigmoid.vjp
def sigmoid_vjp(xp, needs, g, small):
    return g * small / (1 + small) ** 2  # y (1 - y), as exact on both sides


@primitive
def softplus(xp, x):
    """log(1 + e^x), written so that it never overflows. It is about x for large x, and
    about e^x for very negative x.
    """
    small, positive = _decay(xp, x)
    zero = small.dtype.type(0)
    return xp.where(positive, x, zero) + xp.log1p(small), (positive, small)


@softplus.vjp
def softplus_vjp(xp, needs, g, positive, small):
    return g * xp.where(positive, small.dtype.type(1), small) / (1 + small)


@primitive
def clip(xp, x, *, a_min, a_max):
    """x, but not below the number a_min nor above a_max. There is no gradient where a
    bound holds x, nor on the bounds themselves.
    """
    if not (a_min is None or a_max is None or a_min <= a_max):
        raise ValueError(f"the bounds {a_min} and {a_max} leave nothing between them")
    y = xp.clip(x.real, a_min, a_max)
    if x.dtype.kind == "c":  # a complex step: the real part decides
        y = xp.where(y == x.real, x, y)
    return y, ((y != a_min) & (y != a_max),)


@clip.vjp
def clip_vjp(xp, needs, g, free):
    return xp.where(free, g, xp.zeros((), g.dtype))


@primitive(hint=BROADCAST)
def maximum(xp, a, b):
    """The larger of a and b. Where they are equal the gradient goes to b, so that
    maximum(x, 0) is a ReLU with slope 0 at 0.
    """
    return xp.maximum(a, b), (a > b if hasattr(a, "shape") else b < a,)


@maximum.vjp
def maximum_vjp(xp, needs, g, first):
    """g for the argument that was chosen, 0 for the other, even where g is infinite."""
    zero = xp.zeros((), g.dtype)
    return (
        xp.where(first, g, zero) if needs[0] else None,
        xp.where(first, zero, g) if needs[1] else None,
    )


@primitive(hint=BROADCAST)
def minimum(xp, a, b):
    """The smaller of a and b. Where they are equal the gradient goes to b."""
    return xp.minimum(a, b), (a < b if hasattr(a, "shape") else b > a,)


minimum.vjp(maximum_vjp)


@primitive(indices=(0,), hint=BROADCAST)
def where(xp, condition, x, y):
    """x where the condition (a bool array) holds, y elsewhere. An infinite value on the
    side not taken does no harm.
    """
    if np.dtype(getattr(condition, "dtype", type(condition))).kind != "b":
        raise TypeError("the condition is not a bool array; write x > 0, or x != 0")
    return xp.where(condition, x, y), (condition,)


@where.vjp
def where_vjp(xp, needs, g, condition):
    return None, *maximum_vjp(xp, needs[1:], g, condition)


# --- reductions -----------------------------------------------------------------------


def _keep(g, x_shape, axis, keepdims):
    """g with the reduced axes back at size 1, so that it broadcasts against x."""
    if axis is None or not x_shape:
        return g.reshape((1,) * len(x_shape))
    if keepdims:
        return g
    axes = {a % len(x_shape) for a in (axis if isinstance(axis, tuple) else (axis,))}
    return g.reshape([1 if a in axes else size for a, size in enumerate(x_shape)])


@primitive
def sum(xp, x, *, axis=None, keepdims=False):
    """The sum over `axis` (an int, a tuple, or None for all)."""
    return xp.sum(x, axis=axis, keepdims=keepdims), (x.shape, axis, keepdims)


@sum.vjp
def sum_vjp(xp, needs, g, shape, axis, keepdims):
    return xp.broadcast_to(_keep(g, shape, axis, keepdims), shape)


@primitive
def mean(xp, x, *, axis=None, keepdims=False):
    """The arithmetic mean over `axis`."""
    y = xp.mean(x, axis=axis, keepdims=keepdims)
    count = x.size // (y.size or 1)
    return y, (x.shape, count, axis, keepdims)


@mean.vjp
def mean_vjp(xp, needs, g, shape, count, axis, keepdims):
    return xp.broadcast_to(_keep(g / count, shape, axis, keepdims), shape)


@primitive
def max(xp, x, *, axis=None, keepdims=False):
    """The maximum over `axis`. Equal maxima share the gradient."""
    y = xp.max(x, axis=axis, keepdims=keepdims)
    return y, (x, y, axis, keepdims)


@max.vjp
def max_vjp(xp, needs, g, x, y, axis, keepdims):
    winners = x == _keep(y, x.shape, axis, keepdims)
    count = xp.sum(winners.astype(g.dtype), axis=axis, keepdims=True)
    share = _keep(g, x.shape, axis, keepdims) / count
    return xp.where(winners, share, xp.zeros((), g.dtype))


@primitive
def prod(xp, x, *, axis=None, keepdims=False):
    """The product over `axis` (an int, a tuple, or None for all)."""
    return xp.prod(x, axis=axis, keepdims=keepdims), (x, axis, keepdims)


@prod.vjp
def prod_vjp(xp, needs, g, x, axis, keepdims):
    # The product of the others: all of them but zeros, if there is no other zero.
    zero = x == 0
    nothing = xp.zeros((), x.dtype)
    others = xp.where(zero, x.dtype.type(1), x)
    zeros = xp.sum(zero, axis=axis, keepdims=True) - zero
    product = xp.prod(others, axis=axis, keepdims=True) / others
    product = xp.where(zeros == 0, product, nothing)
    return _keep(g, x.shape, axis, keepdims) * product


@primitive
def softmax(xp, x, *, axis=-1):
    """exp(x) / sum(exp(x)) over `axis`. Shifted by the maximum so that it cannot
    overflow. Shifting changes nothing, not even gradients.
    """
    y = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    y = y / xp.sum(y, axis=axis, keepdims=True)
    return y, (y, axis)


@softmax.vjp
def softmax_vjp(xp, needs, g, y, axis):
    gy = g * y
    return gy - y * xp.sum(gy, axis=axis, keepdims=True)


@primitive
def logsumexp(xp, x, *, axis=None, keepdims=False):
    """log(sum(exp(x))) over `axis`, shifted by the maximum so that it cannot overflow.
    An infinite maximum is the result; those that have it share the gradient.
    """
    highest = xp.max(x.real, axis=axis, keepdims=True)
    finite = xp.isfinite(highest)
    shift = xp.where(finite, highest, highest.dtype.type(0))
    first = (x.real == highest).astype(x.dtype)
    weights = xp.where(finite, xp.exp(xp.where(finite, x - shift, 0 * first)), first)
    total = xp.sum(weights, axis=axis, keepdims=True)
    y = xp.where(finite, xp.log(total) + shift, highest)
    kept = y if keepdims else xp.squeeze(y, axis)
    return kept, (weights / total, axis, keepdims)


@logsumexp.vjp
def logsumexp_vjp(xp, needs, g, weights, axis, keepdims):
    return _keep(g, weights.shape, axis, keepdims) * weights


def _one_axis(axis):
    """TypeError for axis=None, by which NumPy means the flattened array."""
    if axis is None:
        raise TypeError("axis is None; reshape x to one axis first")


@primitive
def cumprod(xp, x, *, axis):
    """The running product along `axis` (an int): of each entry and all before it."""
    _one_axis(axis)
    x = x if x.ndim else x.reshape(1)  # as NumPy does
    y = xp.cumprod(x, axis=axis)
    return y, (x, y, axis)


@cumprod.vjp
def cumprod_vjp(xp, needs, g, x, y, axis):
    # The gradient of x_i is y_{i-1} S_i: the product before it, times the sum of what
    # comes after, S_i = g_i + x_{i+1} S_{i+1}. Dividing products by x_i instead would
    # fail at zeros. The recurrence runs by doubling, for d = 1, 2, 4, ...:
    # S_i += F_i S_{i+d} with F_i = x_{i+1} .. x_{i+d}.
    x, y, S = (xp.moveaxis(a, axis, 0) for a in (x, y, g))
    one = xp.ones_like(x[:1])
    F = xp.concatenate([x[1:], xp.zeros_like(one)])
    d = 1
    while d < len(x):
        S = xp.concatenate([S[:-d] + F[:-d] * S[d:], S[-d:]])
        F = xp.concatenate([F[:-d] * F[d:], F[-d:]])  # the last d are zero already
        d *= 2
    return xp.moveaxis(S * xp.concatenate([one, y[:-1]]), 0, axis)


@primitive
def cumsum(xp, x, *, axis):
    """The running sum along `axis` (an int): of each entry and all before it."""
    _one_axis(axis)
    return xp.cumsum(x if x.ndim else x.reshape(1), axis=axis), (x.shape, axis)


@cumsum.vjp
def cumsum_vjp(xp, needs, g, shape, axis):
    return xp.flip(xp.cumsum(xp.flip(g, axis), axis=axis), axis).reshape(shape)


# --- products -------------------------------------------------------------------------


@primitive(
    hint="The last axis of a must be as long as the second-last of b (the only one, "
    "if b is a vector); the axes before broadcast."
)
def matmul(xp, a, b):
    """a @ b with NumPy's rules: vectors, matrices and stacks of matrices."""
    return gemm(a, b), (a, b)


@matmul.vjp
def matmul_vjp(xp, needs, g, a, b):
    if a.ndim == 1 and b.ndim == 1:  # (K) @ (K) -> ()
        return g * b, g * a
    if a.ndim == 1:  # (K) @ (..., K, N) -> (..., N)
        return gemm(b, g[..., None])[..., 0], a[:, None] * g[..., None, :]
    if b.ndim == 1:  # (..., M, K) @ (K) -> (..., M)
        return g[..., None] * b, gemm(xp.swapaxes(a, -1, -2), g[..., None])[..., 0]
    ga = gemm(g, xp.swapaxes(b, -1, -2)) if needs[0] else None
    if not needs[1]:
        return ga, None
    if b.ndim == 2:  # a stack times one matrix: the sum over the stack is one GEMM
        return ga, DeferredMatmul(as_rows(a), as_rows(g))
    return ga, gemm(xp.swapaxes(a, -1, -2), g)


# --- shapes ---------------------------------------------------------------------------


@primitive(hint="The new shape must hold as many elements; one size may be -1.")
def reshape(xp, x, *, shape):
    """The same elements, in the same order, under another shape."""
    return xp.reshape(x, shape), (x.shape,)


@reshape.vjp
def reshape_vjp(xp, needs, g, shape):
    return xp.reshape(g, shape)


@primitive
def transpose(xp, x, *, axes=None):
    """Axes permuted by `axes`, or reversed."""
    return xp.transpose(x, axes), (axes,)


@transpose.vjp
def transpose_vjp(xp, needs, g, axes):
    if axes is not None:  # the inverse permutation
        axes = sorted(range(len(axes)), key=lambda new: axes[new] % len(axes))
    return xp.transpose(g, axes)


@primitive
def swapaxes(xp, x, *, axis1, axis2):
    """Two axes exchanged."""
    return xp.swapaxes(x, axis1, axis2), (axis1, axis2)


@swapaxes.vjp
def swapaxes_vjp(xp, needs, g, axis1, axis2):
    return xp.swapaxes(g, axis1, axis2)


@primitive
def moveaxis(xp, x, *, source, destination):
    """Axes moved from `source` to `destination` (ints, or lists of as many)."""
    return xp.moveaxis(x, source, destination), (source, destination)


@moveaxis.vjp
def moveaxis_vjp(xp, needs, g, source, destination):
    return xp.moveaxis(g, destination, source)


@primitive
def flip(xp, x, *, axis=None):
    """The entries in reverse order along `axis` (an int, a tuple, or None for all)."""
    axis = tuple(axis) if isinstance(axis, list) else axis  # which could change
    return xp.flip(x, axis), (axis,)


@flip.vjp
def flip_vjp(xp, needs, g, axis):
    return xp.flip(g, axis)


@primitive
def roll(xp, x, *, shift, axis=None):
    """The entries moved on by `shift` along `axis`, what falls off coming in again."""
    axis = tuple(axis) if isinstance(axis, list) else axis
    back = tuple(-s for s in shift) if isinstance(shift, tuple) else -shift
    return xp.roll(x, shift, axis), (back, axis)


@roll.vjp
def roll_vjp(xp, needs, g, back, axis):
    return xp.roll(g, back, axis)


@primitive
def pad(xp, x, *, pad_width, constant_values=0):
    """x with a constant around it: n, (before, after), or a pair for each axis."""
    width = np.broadcast_to(pad_width, (x.ndim, 2)).tolist()
    inside = tuple(slice(a, a + n) for (a, _), n in zip(width, x.shape, strict=True))
    return xp.pad(x, width, constant_values=constant_values), (inside,)


@pad.vjp
def pad_vjp(xp, needs, g, inside):
    return g[inside]


@primitive
def expand_dims(xp, x, *, axis):
    """A new axis of size 1 at `axis`."""
    return xp.expand_dims(x, axis), (x.shape,)


expand_dims.vjp(reshape_vjp)


@primitive
def squeeze(xp, x, *, axis=None):
    """Without the axes of size 1 (all, or `axis`)."""
    return xp.squeeze(x, axis), (x.shape,)


squeeze.vjp(reshape_vjp)


@primitive(hint=BROADCAST)
def broadcast_to(xp, x, *, shape):
    """x stretched to `shape`, without copying."""
    return xp.broadcast_to(x, shape), ()


@broadcast_to.vjp
def broadcast_to_vjp(xp, needs, g):
    return g


@primitive(
    hint="All arrays must agree in every axis but the one they are joined along."
)
def concatenate(xp, *arrays, axis=0):
    """The arrays of a list joined along an axis (an int) they have."""
    _one_axis(axis)
    sizes = [a.shape[axis] for a in arrays]
    return joined(xp, arrays, axis), (sizes, axis)


@concatenate.vjp
def concatenate_vjp(xp, needs, g, sizes, axis):
    rows = xp.moveaxis(g, axis, 0)
    start = 0
    parts = []
    for size in sizes:
        parts.append(xp.moveaxis(rows[start : start + size], 0, axis))  # a view
        start += size
    return tuple(parts)


@primitive(hint="All arrays must have the same shape.")
def stack(xp, *arrays, axis=0):
    """The arrays of a list joined along a new axis."""
    return stacked(xp, arrays, axis), (axis,)


@stack.vjp
def stack_vjp(xp, needs, g, axis):
    return tuple(xp.moveaxis(g, axis, 0))


@primitive
def split(xp, x, *, indices_or_sections, axis=0):
    """x cut along `axis`, as a tuple.

    `indices_or_sections`: the places to cut before, or the number of equal parts.
    Backward joins the parts in one pass.
    """
    if not isinstance(indices_or_sections, int):
        places = [int(place) for place in indices_or_sections]
        if places != sorted(places) or any(place < 0 for place in places):
            raise ValueError(f"the places {places} must rise from 0")
    return tuple(xp.split(x, indices_or_sections, axis=axis)), (axis,)


@split.vjp
def split_vjp(xp, needs, g, axis):
    return joined(xp, g, axis)


@primitive
def unstack(xp, x, *, axis=0):
    """The slices of x along `axis`, as a tuple. Over T time steps this costs O(T)
    backward, where T separate slices would cost O(T^2).
    """
    slices = xp.moveaxis(x, index(axis), 0)
    if not len(slices):
        raise ValueError(f"axis {axis} has length 0: there is nothing to take apart")
    return tuple(slices), (axis,)


@unstack.vjp
def unstack_vjp(xp, needs, g, axis):
    return stacked(xp, g, axis)


@primitive
def getitem(xp, x, *, key):
    """x[key] for integers, slices, ..., None, and arrays of integers, as in NumPy. An
    entry used twice gets both gradients.
    """
    key = key if isinstance(key, tuple) else (key,)
    key = tuple(_index(xp, part) for part in key)
    return x[key], (x.shape, key)


def _index(xp, part):
    """A part of an index as nobody can change it: a 0-d array becomes an integer."""
    if part is None or part is Ellipsis:
        return part
    if isinstance(part, slice):
        ends = part.start, part.stop, part.step
        return slice(*(None if end is None else index(end) for end in ends))
    if isinstance(part, list):
        part = xp.asarray(part)
        part = part if part.size else part.astype(np.intp)  # [] has no kind of its own
    kind = getattr(getattr(part, "dtype", None), "kind", "O")
    if kind in "iu" and part.shape and not isinstance(part, Tensor):
        return part.astype(np.intp)  # a copy
    # a bool is a mask, not 0 or 1
    if not isinstance(part, bool) and getattr(part, "shape", ()) == ():
        with contextlib.suppress(TypeError):
            return index(part)
    what, remedy = "not made of integers", "read t.data, or use .astype(int)"
    if kind == "b" or isinstance(part, bool):
        what, remedy = "a mask", "write primitives.where(mask, x, 0.0), or np.nonzero"
    raise TypeError(f"an index of type {type(part).__name__} is {what}; {remedy}")


@getitem.vjp
def getitem_vjp(xp, needs, g, shape, key):
    gx = xp.zeros(shape, g.dtype)  # all of x; for many slices of one array use unstack
    if any(hasattr(part, "shape") for part in key):
        xp.add.at(gx, key, g)  # unbuffered, as in `take`
    else:
        gx[key] = g
    return gx


@primitive(
    indices=(1,),
    hint="Indices are integers from 0 (or negative, from the end) to the length of "
    "the axis.",
)
def take(xp, x, indices, *, axis=None):
    """The entries of x at integer `indices` along `axis` (None: of x flattened). An
    index used twice gets both gradients.
    """
    # NumPy would take a mask for zeros and ones.
    kind = np.dtype(getattr(indices, "dtype", type(indices)))
    if kind.kind not in "iu":
        raise TypeError(f"the indices are {kind}, not integers")
    if hasattr(indices, "astype"):  # where integers have 32 bits, no wider ones will do
        indices = indices.astype(np.intp, copy=False)
    return xp.take(x, indices, axis=axis), (x.shape, indices, axis)


@take.vjp
def take_vjp(xp, needs, g, shape, indices, axis):
    gx = xp.zeros(shape, g.dtype)
    # `add.at` is unbuffered: repeated indices accumulate.
    if axis is None:
        xp.add.at(gx.reshape(-1), indices, g)
        return gx, None
    axis %= len(shape)
    indices = xp.asarray(indices)
    of_indices = tuple(range(axis, axis + indices.ndim))
    rows = xp.moveaxis(g, of_indices, tuple(range(indices.ndim)))
    xp.add.at(xp.moveaxis(gx, axis, 0), indices, rows)
    return gx, None


@primitive(
    indices=(1,),
    hint="Indices are integers, with as many axes as x, of which all but the one they "
    "are taken along broadcast.",
)
def take_along_axis(xp, x, indices, *, axis=-1):
    """The entries of x at integer `indices` along `axis`, different ones for each row.
    `argsort` gives such indices. The other axes broadcast.
    """
    _one_axis(axis)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"the indices are {indices.dtype}, not integers")
    indices = indices.astype(np.intp, copy=False)  # 8 bits cannot hold the size
    return xp.take_along_axis(x, indices, axis=axis), (x.shape, indices, axis)


@take_along_axis.vjp
def take_along_axis_vjp(xp, needs, g, shape, indices, axis):
    # Rows one after the other in a flat array; `add.at` is unbuffered, as in `take`.
    columns = xp.broadcast_to(indices, g.shape)
    size = shape[axis]
    columns = xp.moveaxis(columns, axis, -1)
    rows = math.prod(columns.shape[:-1])
    flat = xp.zeros(rows * size, g.dtype)
    starts = size * xp.arange(rows).reshape(*columns.shape[:-1], 1)
    places = starts + columns % size
    xp.add.at(flat, places.reshape(-1), xp.moveaxis(g, axis, -1).reshape(-1))
    return xp.moveaxis(flat.reshape(*columns.shape[:-1], size), -1, axis), None


# --- without a derivative -------------------------------------------------------------


def argsort(x: Array | Tensor, axis: int = -1) -> Array:
    """The indices that sort an array or Tensor along `axis`, for `take_along_axis`.
    Equal values keep their order. Complex numbers are sorted by their real part.
    """
    data = x.data if isinstance(x, Tensor) else _array(x)
    return sorting(data.real, axis)


# by thread, what takes the place of what is stopped while gradcheck moves the inputs
STOPPED: dict[int, Callable[[Array], Array]] = {}


def stop_gradient(x: Array | Tensor) -> Tensor:
    """x as a constant.

    Unlike `detach` it stops the complex step too: to `gradcheck` it is a constant.
    """
    data = x.data if isinstance(x, Tensor) else _array(x)
    if data.dtype.kind == "c":
        data = data.real.astype(data.dtype)
    stopped = STOPPED.get(threading.get_ident())
    return Tensor(stopped(data) if stopped else data)


# --- composed: their derivatives follow from the rows above ---------------------------

Values = Array | Tensor


def relu(x: Values) -> Tensor:
    """max(x, 0). Its slope at 0 is 0."""
    return maximum(x, 0.0)


def silu(x: Values) -> Tensor:
    """x sigmoid(x), also called swish (Ramachandran et al. 2017)."""
    return multiply(x, sigmoid(x))


def gelu(x: Values) -> Tensor:
    """x Phi(x), Phi the normal distribution, by the formula with tanh (Hendrycks and
    Gimpel 2016), which is within 5e-4 of it: "gelu_new" of GPT-2, JAX's default,
    PyTorch's approximate="tanh".
    """
    inner = multiply(x, 1 + 0.044715 * square(x))
    return 0.5 * multiply(x, 1 + tanh(math.sqrt(2 / math.pi) * inner))


def log_softmax(x: Values, axis: int = -1) -> Tensor:
    """log(softmax(x)) over `axis`, exact where softmax is 0."""
    return subtract(x, logsumexp(x, axis, True))


def abs(x: Values) -> Tensor:
    """The absolute value. Its slope at 0 is 0."""
    return multiply(x, sign(x))


def logaddexp(a: Values, b: Values) -> Tensor:
    """log(e^a + e^b), which never overflows. Where both are the same infinity it is
    that one, and both get half of the gradient.
    """
    x, y = (v.data.real if isinstance(v, Tensor) else v.real for v in (a, b))
    real = maximum(x, y).data
    xp = namespace(real)
    numbers = int, float, np.generic
    a, b = (xp.asarray(v, real.dtype) if isinstance(v, numbers) else v for v in (a, b))
    same = xp.isinf(x) & (x == y)
    infinite = where(same, a, 0.0) + where(same, b, 0.0)
    a, b = where(same, 0.0, a), where(same, 0.0, b)
    first = xp.asarray(x > y)
    larger, smaller = where(first, a, b), where(first, b, a)
    return larger + softplus(smaller - larger) + 0.5 * infinite


def min(x: Values, axis=None, keepdims: bool = False) -> Tensor:
    """The minimum over `axis`. Equal minima share the gradient."""
    return negative(max(negative(x), axis, keepdims))


def var(x: Values, axis=None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """The variance over `axis`: squared distances from the mean, over n - ddof."""
    check_number("var", "ddof", ddof)
    average = mean(square(subtract(x, mean(x, axis, True))), axis, keepdims)
    count = x.size // (average.size or 1)
    if ddof and not ddof < count:
        raise ValueError(f"var: ddof must be below the {count} entries, not {ddof}")
    return multiply(average, count / (count - ddof)) if ddof else average


def std(x: Values, axis=None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """The root of `var`. Its slope is NaN where all entries are equal."""
    return sqrt(var(x, axis, ddof, keepdims))


def sort(x: Values, axis: int = -1) -> Tensor:
    """The entries in rising order along `axis`. Equal ones keep their gradients."""
    return take_along_axis(x, argsort(x, axis), axis)


def outer(a: Values, b: Values) -> Tensor:
    """a[:, None] * b, for vectors."""
    return multiply(reshape(a, (-1, 1)), reshape(b, (1, -1)))


def trace(x: Values, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum of a diagonal, `offset` above the main one, over two axes."""
    square = moveaxis(x, (axis1, axis2), (-2, -1))
    return sum(triu(tril(square, offset), offset), (-2, -1))


def tril(x: Values, k: int = 0) -> Tensor:
    """The last two axes' lower triangle, up to the k-th diagonal; zeros elsewhere."""
    return where(_above(x, index(k) + 1), 0.0, x)


def triu(x: Values, k: int = 0) -> Tensor:
    """The last two axes' upper triangle, from the k-th diagonal; zeros elsewhere."""
    return where(_above(x, k), x, 0.0)


def _above(x: Values, k: int) -> Array:
    """The mask of what lies on or above the k-th diagonal."""
    xp = namespace(x.data if isinstance(x, Tensor) else x)
    return xp.arange(x.shape[-1]) - xp.arange(x.shape[-2])[:, None] >= np.intp(index(k))


def repeat(x: Values, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
    """Each entry along `axis` (None: of x flattened) several times in a row."""
    xp = namespace(x.data if isinstance(x, Tensor) else x)
    x = reshape(x, (1,)) if x.ndim == 0 else x
    count = x.size if axis is None else x.shape[axis]
    return take(x, xp.repeat(xp.arange(count), repeats), axis)


def tile(x: Values, reps: int | Sequence[int]) -> Tensor:
    """x itself several times along its last axes."""
    several: Any = reps if np.ndim(reps) else [reps]
    times = [index(count) for count in several]
    x = reshape(x, (*[1] * (len(times) - x.ndim), *x.shape))
    for axis, count in enumerate(times, -len(times)):
        x = concatenate([x] * count, axis) if count else take(x, [], axis)
    return x


def _array(x: Any) -> Any:
    """x itself; TypeError unless it is an array or a Tensor."""
    namespace(x.data if isinstance(x, Tensor) else x)
    return x


def vstack(arrays: Sequence[Values]) -> Tensor:
    """Arrays one under the other: vectors are rows."""
    rows = map(_array, arrays)
    return concatenate([x if x.ndim > 1 else reshape(x, (1, -1)) for x in rows])


def hstack(arrays: Sequence[Values]) -> Tensor:
    """Arrays side by side; vectors one after the other."""
    flat = [x if x.ndim else reshape(x, (1,)) for x in map(_array, arrays)]
    return concatenate(flat, axis=0 if flat[0].ndim == 1 else 1)


def tensordot(a: Values, b: Values, axes=2) -> Tensor:
    """Products summed over a's last `axes` and b's first, or over two lists of axes."""
    if not isinstance(axes, (tuple, list)):
        axes = range(-index(axes), 0), range(index(axes))
    first, second = axes
    a, b = _array(a), _array(b)
    ours, theirs = axes_of(first, a.ndim), axes_of(second, b.ndim)
    names = [*string.ascii_letters[: a.ndim + b.ndim]]
    for one, other in zip(ours, theirs, strict=True):
        names[a.ndim + other] = names[one]
    return einsum("".join([*names[: a.ndim], ",", *names[a.ndim :]]), a, b)


def einsum(subscripts: str, *operands: Values) -> Tensor:
    """Einstein's sums: axes are letters, and what "->" leaves out is summed over. Each
    product is one `matmul`, in the order of `numpy.einsum_path`. Axes under ... must be
    as long in all operands that have them. No letter twice in one operand: see `trace`.
    """
    operands = tuple(map(_array, operands))
    asked, subscripts = subscripts, _spelled(subscripts.replace(" ", ""), operands)
    given, arrow, out = subscripts.partition("->")
    if not arrow:  # letters used once, in alphabetical order
        out = "".join(sorted(c for c in {*given} - {","} if given.count(c) == 1))
    names, sizes = given.split(","), dict[str, int]()
    lengths = [n for x in operands for n in x.shape]
    fit = [*map(len, names)] == [x.ndim for x in operands] and {*out} <= {*given}
    for c, n in zip(given.replace(",", ""), lengths, strict=False):
        fit &= sizes.setdefault(c, n) == n
    if not fit or "." in given or any(len({*x}) < len(x) for x in [*names, out]):
        told = f"{asked!r} does not fit arrays of {[x.shape for x in operands]}"
        raise ValueError(f"einsum: {told}")
    left = [*zip(names, operands, strict=True)]  # what is still to be multiplied
    for places in _path(subscripts, [x.shape for x in operands]):
        ours, x = left[places[0]]
        others = [left[place] for place in places[1:]]
        left = [pair for k, pair in enumerate(left) if k not in places]
        while others:
            theirs, y = others.pop(0)
            later = {*out}.union(*(used for used, _ in [*left, *others]))
            ours, x = _product(ours, x, theirs, y, later, sizes)
        left.append((ours, x))
    ((ours, x),) = left
    return _arranged(x, ours, sizes, *out)


def _spelled(subscripts: str, operands: Sequence[Values]) -> str:
    """The same with letters for ..., whose last axis has the same one everywhere."""
    given, arrow, out = subscripts.partition("->")
    names, longest = given.split(","), ""
    if not arrow or "..." not in given or len(names) != len(operands):
        return subscripts
    spare = [c for c in string.ascii_letters if c not in subscripts]
    for k, x in enumerate(operands):
        if "..." in names[k]:
            axes = "".join(reversed(spare[: x.ndim - len(names[k]) + 3]))
            names[k] = names[k].replace("...", axes)
            longest = axes if len(axes) > len(longest) else longest
    return f"{','.join(names)}->{out.replace('...', longest)}"


def _path(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Which two operands to multiply, one pair after the other; each product goes
    last. (NumPy's usual limit of memory would leave the rest as one sum of many.)
    """
    if len(shapes) < 3:
        return [[0, 1]] if len(shapes) == 2 else []
    empty = [np.broadcast_to(np.float32(0), shape) for shape in shapes]
    path, _ = np.einsum_path(subscripts, *empty, optimize=("greedy", 1 << 62))
    return [sorted(each) for each in path[1:]]


def _product(ours: str, x: Values, theirs: str, y: Values, later: set, sizes: dict):
    """The letters and the product of two operands, summed over all but `later`."""
    batch = [c for c in ours if c in theirs and c in later]
    inner = [c for c in ours if c in theirs and c not in later]
    left = [c for c in ours if c not in theirs and c in later]
    right = [c for c in theirs if c not in ours and c in later]
    x = _arranged(x, ours, sizes, batch, left, inner)
    x = matmul(x, _arranged(y, theirs, sizes, batch, inner, right))
    ours = "".join([*batch, *left, *right])
    return ours, reshape(x, [sizes[c] for c in ours])


def _arranged(x: Values, names: str, sizes: dict, *groups: Sequence[str]) -> Tensor:
    """x with an axis for each group of letters, summed over the letters in none."""
    kept = [c for group in groups for c in group]
    x = sum(x, tuple(k for k, c in enumerate(names) if c not in kept))
    names = "".join(c for c in names if c in kept)
    x = transpose(x, [names.index(c) for c in kept])
    return reshape(x, [math.prod(sizes[c] for c in group) for group in groups])


COMPOSED = (
    "abs einsum gelu hstack log_softmax logaddexp min outer relu repeat silu sort std "
    "tensordot tile trace tril triu var vstack"
).split()
__all__ = [*TABLE, *COMPOSED]
guards.OURS.update(__all__)
