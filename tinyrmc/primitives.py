"""The table: every basic operation with its derivative beside it, under NumPy's names.

Read a pair as a line of calculus. The forward rule computes `out` and says what the
derivative will need (`saved`); the vjp takes g = d loss / d out and returns d loss / d
argument for each argument. Nothing here thinks about broadcasting (the tape undoes it),
about accumulation (the tape does it) or about which library computes (`xp`). All rules
are analytic: no abs, no var, no norm, so that the complex step of `checking.py` can
verify every one of them to the last digits.
"""

from __future__ import annotations

import math

from .backend import gemm, namespace
from .engine import TABLE, Tensor, primitive

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
def _(xp, needs, g):
    return g, g


@primitive(hint=BROADCAST)
def subtract(xp, a, b):
    """a - b"""
    return xp.subtract(a, b), ()


@subtract.vjp
def _(xp, needs, g):
    return g, -g if needs[1] else None


@primitive(hint=BROADCAST)
def multiply(xp, a, b):
    """a * b, elementwise."""
    return xp.multiply(a, b), (a, b)


@multiply.vjp
def _(xp, needs, g, a, b):
    return g * b if needs[0] else None, g * a if needs[1] else None


@primitive(hint=BROADCAST)
def divide(xp, a, b):
    """a / b, elementwise."""
    y = xp.divide(a, b)
    return y, (y, b)


@divide.vjp
def _(xp, needs, g, y, b):
    ga = g / b
    return ga, -ga * y if needs[1] else None


@primitive
def negative(xp, x):
    """-x"""
    return xp.negative(x), ()


@negative.vjp
def _(xp, needs, g):
    return -g


@primitive
def power(xp, x, *, exponent):
    """x ** exponent, for a Python number as exponent."""
    return xp.power(x, exponent), (x, exponent)


@power.vjp
def _(xp, needs, g, x, exponent):
    return g * (exponent * xp.power(x, exponent - 1)) if exponent else xp.zeros_like(x)


@primitive
def square(xp, x):
    """x * x"""
    return xp.multiply(x, x), (x,)


@square.vjp
def _(xp, needs, g, x):
    return 2 * g * x


@primitive
def sqrt(xp, x):
    """The non-negative square root."""
    y = xp.sqrt(x)
    return y, (y,)


@sqrt.vjp
def _(xp, needs, g, y):
    return 0.5 * g / y


@primitive
def exp(xp, x):
    """e to the x."""
    y = xp.exp(x)
    return y, (y,)


@exp.vjp
def _(xp, needs, g, y):
    return g * y


@primitive
def log(xp, x):
    """The natural logarithm."""
    return xp.log(x), (x,)


@log.vjp
def _(xp, needs, g, x):
    return g / x


@primitive
def sin(xp, x):
    """The sine, x in radians."""
    return xp.sin(x), (x,)


@sin.vjp
def _(xp, needs, g, x):
    return g * xp.cos(x)


@primitive
def cos(xp, x):
    """The cosine, x in radians."""
    return xp.cos(x), (x,)


@cos.vjp
def _(xp, needs, g, x):
    return -g * xp.sin(x)


@primitive
def tanh(xp, x):
    """The hyperbolic tangent."""
    y = xp.tanh(x)
    return y, (y,)


@tanh.vjp
def _(xp, needs, g, y):
    return g * (1 - y * y)


@primitive
def sigmoid(xp, x):
    """1 / (1 + e^-x), written with tanh: it never overflows, and sigmoid(+-inf) is
    exactly 1 and 0.
    """
    y = 0.5 * xp.tanh(0.5 * x) + 0.5
    return y, (y,)


@sigmoid.vjp
def _(xp, needs, g, y):
    return g * y * (1 - y)


@primitive
def softplus(xp, x):
    """log(1 + e^x), written so that it never overflows: about x for large x, about e^x
    for very negative x.
    """
    positive = xp.maximum(x, xp.zeros((), x.dtype))
    return positive + xp.log1p(xp.exp(x - 2 * positive)), (
        x,
    )  # x - 2 max(x, 0) is -|x|


@softplus.vjp
def _(xp, needs, g, x):
    return g * (0.5 * xp.tanh(0.5 * x) + 0.5)


@primitive
def clip(xp, x, *, a_min, a_max):
    """x held between the numbers a_min and a_max.

    No gradient where it is held, the bounds themselves included.
    """
    y = xp.clip(x, a_min, a_max)
    return y, ((y != a_min) & (y != a_max),)


@clip.vjp
def _(xp, needs, g, free):
    return g * free


@primitive(hint=BROADCAST)
def maximum(xp, a, b):
    """The larger of a and b.

    Where they are equal the gradient goes to b, so maximum(x, 0) is a ReLU with slope 0
    at 0.
    """
    return xp.maximum(a, b), (a > b if hasattr(a, "shape") else b < a,)


@maximum.vjp
def _(xp, needs, g, first):
    return g * first if needs[0] else None, g * ~first if needs[1] else None


@primitive(hint=BROADCAST)
def minimum(xp, a, b):
    """The smaller of a and b. Where they are equal the gradient goes to b."""
    return xp.minimum(a, b), (a < b if hasattr(a, "shape") else b > a,)


@minimum.vjp
def _(xp, needs, g, first):
    return g * first if needs[0] else None, g * ~first if needs[1] else None


@primitive(indices=(0,), hint=BROADCAST)
def where(xp, condition, x, y):
    """x where the condition (a bool array) holds, y elsewhere.

    An infinite value on the side not taken does no harm.
    """
    return xp.where(condition, x, y), (condition,)


@where.vjp
def _(xp, needs, g, condition):
    zero = xp.zeros((), g.dtype)
    return (
        None,
        xp.where(condition, g, zero) if needs[1] else None,
        xp.where(condition, zero, g) if needs[2] else None,
    )


# --- reductions -----------------------------------------------------------------------


def _keep(g, x_shape, axis, keepdims):
    """g with the reduced axes back at size 1, so that it broadcasts against x."""
    if keepdims or axis is None:
        return g.reshape((1,) * len(x_shape)) if axis is None else g
    axes = {a % len(x_shape) for a in (axis if isinstance(axis, tuple) else (axis,))}
    return g.reshape([1 if a in axes else size for a, size in enumerate(x_shape)])


@primitive
def sum(xp, x, *, axis=None, keepdims=False):
    """The sum over `axis` (an int, a tuple, or None for all)."""
    return xp.sum(x, axis=axis, keepdims=keepdims), (x.shape, axis, keepdims)


@sum.vjp
def _(xp, needs, g, shape, axis, keepdims):
    return xp.broadcast_to(_keep(g, shape, axis, keepdims), shape)


@primitive
def mean(xp, x, *, axis=None, keepdims=False):
    """The arithmetic mean over `axis`."""
    y = xp.mean(x, axis=axis, keepdims=keepdims)
    return y, (x.shape, x.size // y.size, axis, keepdims)


@mean.vjp
def _(xp, needs, g, shape, count, axis, keepdims):
    return xp.broadcast_to(_keep(g / count, shape, axis, keepdims), shape)


@primitive
def max(xp, x, *, axis=None, keepdims=False):
    """The maximum over `axis`. Equal maxima share the gradient."""
    y = xp.max(x, axis=axis, keepdims=keepdims)
    return y, (x, y, axis, keepdims)


@max.vjp
def _(xp, needs, g, x, y, axis, keepdims):
    winners = (x == _keep(y, x.shape, axis, keepdims)).astype(g.dtype)
    return winners * (
        _keep(g, x.shape, axis, keepdims) / xp.sum(winners, axis=axis, keepdims=True)
    )


@primitive
def softmax(xp, x, *, axis=-1):
    """exp(x) / sum(exp(x)) over `axis`, shifted by the maximum so that it cannot
    overflow. Shifting changes nothing, not even gradients.
    """
    y = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    y = y / xp.sum(y, axis=axis, keepdims=True)
    return y, (y, axis)


@softmax.vjp
def _(xp, needs, g, y, axis):
    gy = g * y
    return gy - y * xp.sum(gy, axis=axis, keepdims=True)


@primitive
def cumprod(xp, x, *, axis):
    """The products of the entries so far along `axis` (an int), each entry's own
    included.
    """
    y = xp.cumprod(x, axis=axis)
    return y, (x, y, axis)


@cumprod.vjp
def _(xp, needs, g, x, y, axis):
    # What x_i is multiplied with: the product before it, y_{i-1}, and the sum S_i = g_i +
    # x_{i+1} S_{i+1} of what comes after. Dividing by x_i instead would fail at zeros. The
    # recurrence is run by doubling: S_i += F_i S_{i+d} with F_i = x_{i+1} .. x_{i+d}, d = 1,
    # 2, 4, ...
    x, y, after = (xp.moveaxis(a, axis, 0) for a in (x, y, g))
    one = xp.ones_like(x[:1])
    factor, d = xp.concatenate([x[1:], xp.zeros_like(one)]), 1
    while d < len(x):
        after = xp.concatenate([after[:-d] + factor[:-d] * after[d:], after[-d:]])
        factor = xp.concatenate(
            [factor[:-d] * factor[d:], factor[-d:]]
        )  # those of the last d are zero already
        d *= 2
    return xp.moveaxis(after * xp.concatenate([one, y[:-1]]), 0, axis)


# --- products -------------------------------------------------------------------------


@primitive(
    hint="The last axis of a must be as long as the second-last of b (the only one, "
    "if b is a vector); the axes before broadcast."
)
def matmul(xp, a, b):
    """a @ b with NumPy's rules: vectors, matrices and stacks of matrices."""
    return gemm(a, b), (a, b)


@matmul.vjp
def _(xp, needs, g, a, b):
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
        return ga, gemm(a.reshape(-1, a.shape[-1]).T, g.reshape(-1, g.shape[-1]))
    return ga, gemm(xp.swapaxes(a, -1, -2), g)


# --- shapes ---------------------------------------------------------------------------


@primitive(hint="The new shape must hold as many elements; one size may be -1.")
def reshape(xp, x, *, shape):
    """The same elements, in the same order, under another shape."""
    return xp.reshape(x, shape), (x.shape,)


@reshape.vjp
def _(xp, needs, g, shape):
    return xp.reshape(g, shape)


@primitive
def transpose(xp, x, *, axes=None):
    """Axes permuted by `axes`, or reversed."""
    return xp.transpose(x, axes), (axes,)


@transpose.vjp
def _(xp, needs, g, axes):
    return xp.transpose(
        g, axes and sorted(range(len(axes)), key=lambda new: axes[new] % len(axes))
    )  # the inverse permutation


@primitive
def swapaxes(xp, x, *, axis1, axis2):
    """Two axes exchanged."""
    return xp.swapaxes(x, axis1, axis2), (axis1, axis2)


@swapaxes.vjp
def _(xp, needs, g, axis1, axis2):
    return xp.swapaxes(g, axis1, axis2)


@primitive
def expand_dims(xp, x, *, axis):
    """A new axis of size 1 at `axis`."""
    return xp.expand_dims(x, axis), (x.shape,)


@expand_dims.vjp
def _(xp, needs, g, shape):
    return g.reshape(shape)


@primitive
def squeeze(xp, x, *, axis=None):
    """Without the axes of size 1 (all, or `axis`)."""
    return xp.squeeze(x, axis), (x.shape,)


@squeeze.vjp
def _(xp, needs, g, shape):
    return g.reshape(shape)


@primitive(hint=BROADCAST)
def broadcast_to(xp, x, *, shape):
    """x stretched to `shape`, without copying."""
    return xp.broadcast_to(x, shape), ()


@broadcast_to.vjp
def _(xp, needs, g):
    return g


@primitive(
    hint="All arrays must agree in every axis but the one they are joined along."
)
def concatenate(xp, *arrays, axis=0):
    """The arrays of a list joined along an axis they have."""
    return xp.concatenate(arrays, axis=axis), (
        tuple(a.shape[axis] for a in arrays),
        axis,
    )


@concatenate.vjp
def _(xp, needs, g, sizes, axis):
    parts, start = [], 0
    for size in sizes:
        parts.append(
            xp.moveaxis(xp.moveaxis(g, axis, 0)[start : start + size], 0, axis)
        )  # views
        start += size
    return tuple(parts)


@primitive(hint="All arrays must have the same shape.")
def stack(xp, *arrays, axis=0):
    """The arrays of a list joined along a new axis."""
    return xp.stack(arrays, axis=axis), (axis,)


@stack.vjp
def _(xp, needs, g, axis):
    return tuple(xp.moveaxis(g, axis, 0))


@primitive
def split(xp, x, *, indices_or_sections, axis=0):
    """x cut along `axis` before each of the given places, or into so many equal parts,
    as a tuple. Backward joins them in one pass.
    """
    return tuple(xp.split(x, indices_or_sections, axis=axis)), (axis,)


@split.vjp
def _(xp, needs, g, axis):
    return xp.concatenate(g, axis=axis)


@primitive
def unstack(xp, x, *, axis=0):
    """The slices of x along `axis`, as a tuple.

    Over T time steps this costs O(T) backward, where T separate slices would cost
    O(T^2).
    """
    return tuple(xp.moveaxis(x, axis, 0)), (axis,)


@unstack.vjp
def _(xp, needs, g, axis):
    return xp.stack(g, axis=axis)


@primitive
def getitem(xp, x, *, key):
    """x[key] for integers, slices, ... and None. Rows by an integer array: `take`."""
    for part in key if isinstance(key, tuple) else (key,):
        integer = hasattr(part, "__index__") and getattr(part, "shape", ()) == ()
        if not (part is None or part is Ellipsis or isinstance(part, slice) or integer):
            raise TypeError(
                f"an index of type {type(part).__name__} is not basic; write "
                "primitives.take(x, indices, axis=...)"
            )
    return x[key], (x.shape, key)


@getitem.vjp
def _(xp, needs, g, shape, key):
    gx = xp.zeros(
        shape, g.dtype
    )  # allocates all of x; for many slices of one array use unstack
    gx[key] = g
    return gx


@primitive(
    indices=(1,),
    hint="Indices are integers from 0 (or negative, from the end) to the length of "
    "the axis.",
)
def take(xp, x, indices, *, axis=None):
    """The entries of x at integer `indices` along `axis` (None: of x flattened).

    An index used twice gets both gradients.
    """
    if (
        hasattr(indices, "dtype") and indices.dtype.kind not in "iu"
    ):  # NumPy would take a mask for zeros and ones
        raise TypeError(f"the indices are {indices.dtype}, not integers")
    return xp.take(x, indices, axis=axis), (x.shape, indices, axis)


@take.vjp
def _(xp, needs, g, shape, indices, axis):
    gx = xp.zeros(shape, g.dtype)
    if axis is None:
        xp.add.at(gx.reshape(-1), indices, g)
    else:
        axis %= len(shape)
        indices = xp.asarray(indices)
        rows = xp.moveaxis(
            g, tuple(range(axis, axis + indices.ndim)), tuple(range(indices.ndim))
        )
        xp.add.at(
            xp.moveaxis(gx, axis, 0), indices, rows
        )  # unbuffered: repeated indices accumulate
    return gx, None


@primitive(
    indices=(1,),
    hint="Indices are integers, with as many axes as x, and as long in each but the "
    "one they are taken along.",
)
def take_along_axis(xp, x, indices, *, axis=-1):
    """The entries of x at integer `indices` along `axis`, other ones for each row: what
    `argsort` gives, say. Nothing is broadcast.
    """
    if indices.dtype.kind not in "iu":
        raise TypeError(f"the indices are {indices.dtype}, not integers")
    if [*x.shape[:axis], *x.shape[axis:][1:]] != [
        *indices.shape[:axis],
        *indices.shape[axis:][1:],
    ]:
        raise ValueError(
            f"indices of shape {indices.shape} for rows along axis {axis} of shape "
            f"{x.shape}"
        )
    return xp.take_along_axis(x, indices, axis=axis), (x.shape, indices, axis)


@take_along_axis.vjp
def _(xp, needs, g, shape, indices, axis):
    rows, size = xp.moveaxis(indices, axis, -1), shape[axis]
    count = math.prod(rows.shape[:-1])
    flat = xp.zeros(count * size, g.dtype)
    places = size * xp.arange(count).reshape(*rows.shape[:-1], 1) + rows % size
    xp.add.at(
        flat, places.reshape(-1), xp.moveaxis(g, axis, -1).reshape(-1)
    )  # unbuffered: repeated indices accumulate
    return xp.moveaxis(flat.reshape(*rows.shape[:-1], size), -1, axis), None


# --- without a derivative -------------------------------------------------------------


def argsort(x, axis=-1):
    """The indices that sort an array or Tensor along `axis`, for `take_along_axis`;
    equal values keep their order. By the real part.
    """
    data = x.data if isinstance(x, Tensor) else x
    return namespace(data).argsort(data.real, axis=axis, kind="stable")


def stop_gradient(x):
    """x as a constant.

    Unlike `detach` it stops the complex step too, which is then no witness that a
    gradient is missing by mistake.
    """
    data = x.data if isinstance(x, Tensor) else x
    return Tensor(data.real.astype(data.dtype) if data.dtype.kind == "c" else data)


__all__ = list(TABLE)
