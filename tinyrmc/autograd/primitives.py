"""The table: every basic operation with its derivative beside it, under NumPy's names.

Read a pair as a line of calculus. The forward rule computes `out` and says what the
derivative will need (`saved`). The vjp takes g = d loss / d out, and returns d loss / d
argument for each argument; `needs` says which of them anyone asks for. Nothing here
thinks about broadcasting (the tape undoes it), about accumulation (the tape does it) or
about which library computes (`xp`). All rules are analytic: no abs, no var, no norm. So
the complex step of `gradcheck.py` can verify each of them to the last digits.

All rules have the same two types, which `engine.Primitive` states, so they carry no
annotations. The file is long because it is the table, and a table belongs together.
"""

from __future__ import annotations

import contextlib
import math
from operator import index

import numpy as np

from ..backend import Array, as_rows, gemm, joined, sorting, stacked
from .engine import TABLE, Tensor, primitive
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


@primitive
def power(xp, x, *, exponent):
    """x ** exponent, for a Python number as exponent."""
    if getattr(exponent, "shape", ()) != ():
        raise TypeError("the exponent is an array; write exp(exponent * log(x))")
    return xp.power(x, exponent), (x, exponent)


@power.vjp
def power_vjp(xp, needs, g, x, exponent):
    return g * (exponent * xp.power(x, exponent - 1)) if exponent else xp.zeros_like(x)


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
def sin(xp, x):
    """The sine, x in radians."""
    return xp.sin(x), (x,)


@sin.vjp
def sin_vjp(xp, needs, g, x):
    return g * xp.cos(x)


@primitive
def cos(xp, x):
    """The cosine, x in radians."""
    return xp.cos(x), (x,)


@cos.vjp
def cos_vjp(xp, needs, g, x):
    return -g * xp.sin(x)


@primitive
def tanh(xp, x):
    """The hyperbolic tangent."""
    y = xp.tanh(x)
    return y, (y,)


@tanh.vjp
def tanh_vjp(xp, needs, g, y):
    return g * (1 - y * y)


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
    if x.dtype.kind == "c":  # a complex step: the real part decides
        below = False if a_min is None else x.real < a_min
        above = False if a_max is None else x.real > a_max
        number = x.dtype.type
        y = x if a_min is None else xp.where(below, number(a_min), x)
        y = y if a_max is None else xp.where(above, number(a_max), y)
    else:
        y = xp.clip(x, a_min, a_max)
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


def _chosen(xp, needs, g, first):
    """g for the argument that was chosen, 0 for the other, even where g is infinite."""
    zero = xp.zeros((), g.dtype)
    return (
        xp.where(first, g, zero) if needs[0] else None,
        xp.where(first, zero, g) if needs[1] else None,
    )


@maximum.vjp
def maximum_vjp(xp, needs, g, first):
    return _chosen(xp, needs, g, first)


@primitive(hint=BROADCAST)
def minimum(xp, a, b):
    """The smaller of a and b. Where they are equal the gradient goes to b."""
    return xp.minimum(a, b), (a < b if hasattr(a, "shape") else b > a,)


@minimum.vjp
def minimum_vjp(xp, needs, g, first):
    return _chosen(xp, needs, g, first)


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
    return None, *_chosen(xp, needs[1:], g, condition)


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
    F, d = xp.concatenate([x[1:], xp.zeros_like(one)]), 1
    while d < len(x):
        S = xp.concatenate([S[:-d] + F[:-d] * S[d:], S[-d:]])
        F = xp.concatenate([F[:-d] * F[d:], F[-d:]])  # the last d are zero already
        d *= 2
    return xp.moveaxis(S * xp.concatenate([one, y[:-1]]), 0, axis)


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
    axes = axes and tuple(axes)  # a list could change later
    return xp.transpose(x, axes), (axes,)


@transpose.vjp
def transpose_vjp(xp, needs, g, axes):
    if axes:  # the inverse permutation
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
def expand_dims(xp, x, *, axis):
    """A new axis of size 1 at `axis`."""
    return xp.expand_dims(x, axis), (x.shape,)


@expand_dims.vjp
def expand_dims_vjp(xp, needs, g, shape):
    return g.reshape(shape)


@primitive
def squeeze(xp, x, *, axis=None):
    """Without the axes of size 1 (all, or `axis`)."""
    return xp.squeeze(x, axis), (x.shape,)


@squeeze.vjp
def squeeze_vjp(xp, needs, g, shape):
    return g.reshape(shape)


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
    rows, start, parts = xp.moveaxis(g, axis, 0), 0, []
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
        if places != sorted(places) or min(places, default=0) < 0:
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
    slices = xp.moveaxis(x, axis, 0)
    if not len(slices):
        raise ValueError(f"axis {axis} has length 0: there is nothing to take apart")
    return tuple(slices), (axis,)


@unstack.vjp
def unstack_vjp(xp, needs, g, axis):
    return stacked(xp, g, axis)


@primitive
def getitem(xp, x, *, key):
    """x[key] for integers, slices, ... and None. For an integer array use `take`."""
    key = tuple(map(_basic, key if isinstance(key, tuple) else (key,)))
    return x[key], (x.shape, key)


def _basic(part):
    """A part of an index as nobody can change it: a 0-d array becomes an integer."""
    if part is None or part is Ellipsis:
        return part
    if isinstance(part, slice):
        ends = part.start, part.stop, part.step
        return slice(*(None if end is None else index(end) for end in ends))
    # a bool is a mask, not 0 or 1
    if not isinstance(part, bool) and getattr(part, "shape", ()) == ():
        with contextlib.suppress(TypeError):
            return index(part)
    raise TypeError(
        f"an index of type {type(part).__name__} is not basic; write "
        "primitives.take(x, indices, axis=...)"
    )


@getitem.vjp
def getitem_vjp(xp, needs, g, shape, key):
    gx = xp.zeros(shape, g.dtype)  # all of x; for many slices of one array use unstack
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
    hint="Indices are integers, with as many axes as x, and as long in each but the "
    "one they are taken along.",
)
def take_along_axis(xp, x, indices, *, axis=-1):
    """The entries of x at integer `indices` along `axis`, different ones for each row.
    `argsort` gives such indices. Nothing is broadcast.
    """
    _one_axis(axis)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"the indices are {indices.dtype}, not integers")
    others, given = ([*a.shape[:axis], *a.shape[axis:][1:]] for a in (x, indices))
    if others != given:
        raise ValueError(
            f"indices of shape {indices.shape} for rows along axis {axis} of shape "
            f"{x.shape}"
        )
    return xp.take_along_axis(x, indices, axis=axis), (x.shape, indices, axis)


@take_along_axis.vjp
def take_along_axis_vjp(xp, needs, g, shape, indices, axis):
    # Rows one after the other in a flat array; `add.at` is unbuffered, as in `take`.
    columns, size = xp.moveaxis(indices, axis, -1), shape[axis]
    columns = columns.astype(np.int64, copy=False)  # 8 bits cannot hold the size
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
    data = x.data if isinstance(x, Tensor) else x
    return sorting(data.real, axis)


def stop_gradient(x: Array | Tensor) -> Tensor:
    """x as a constant.

    Unlike `detach` it stops the complex step too: `gradcheck` then sees no difference
    where a gradient is missing on purpose, nor where it is missing by mistake.
    """
    data = x.data if isinstance(x, Tensor) else x
    return Tensor(data.real.astype(data.dtype) if data.dtype.kind == "c" else data)


__all__ = list(TABLE)
