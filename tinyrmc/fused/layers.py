"""Operations on each row by itself."""

import numpy as np

from .. import equations
from ..autograd import primitives as p
from ..autograd.gradients import DeferredMatmul
from ..backend import add_rows, as_rows, column_sums, gemm, kernels, row_dots
from .table import after_relu, fused, plus


@fused("... in", "in out", "out")
def linear(xp, x, weight, bias=None, *, relu=False):
    """x @ weight + bias, with an optional ReLU.

    x (..., in), weight (in, out), bias (out) or None -> (..., out).
    """
    y = gemm(x, weight)  # (..., out)
    if bias is not None and (gpu := kernels(xp, y, bias)):
        gpu.bias_relu(xp, y, bias, relu)
        return y, (x, weight, y if relu else None)
    if bias is not None:
        y = plus(xp, y, bias)
    if relu:
        zeros = xp.zeros(y.shape[-1], y.dtype)  # NumPy is slow with a scalar here
        y = xp.maximum(y, zeros, out=y)
    return y, (x, weight, y if relu else None)


@linear.vjp
def linear_vjp(xp, needs, g, x, weight, y, relu_backward=after_relu):
    if y is not None:
        gpu = kernels(xp, g, y)
        g = gpu.relu_backward(xp, g, y) if gpu else relu_backward(xp, g, y)
    rows = as_rows(g)  # (R, out)
    return (
        gemm(g, weight.T) if needs[0] else None,
        DeferredMatmul(as_rows(x), rows) if needs[1] else None,
        DeferredMatmul(None, rows) if needs[2] else None,
    )


@linear.defined_by
def linear_definition(x, weight, bias=None, relu=False):
    y = p.matmul(x, weight)
    y = y if bias is None else y + bias
    return p.maximum(y, 0) if relu else y


@fused("V d", "...", indices={1: "V"}, hint="ids are integers from 0 to V - 1")
def embedding(xp, weight, ids):
    """The rows of weight (V, d) at integer `ids` (...): (..., d).

    Backward touches only the rows that were used. An id out of range is an error on
    NumPy. On a GPU, looking would make the host wait, so there it wraps.
    """
    return xp.take(weight, ids.astype(np.intp, copy=False), axis=0), (ids,)


@embedding.vjp_in_place
def embedding_vjp(xp, needs, g, ids):
    add_rows(needs[0], ids.reshape(-1), g.reshape(-1, g.shape[-1]))


@embedding.defined_by
def embedding_definition(weight, ids):
    return p.take(weight, ids, axis=0)


@fused("... F", "F", "F", "... F")
def layer_norm(xp, x, gain, offset, residual=None, *, epsilon=1e-5):
    """Layer normalisation of x + residual, or of x alone, over the last axis.

    Each row is normalised by itself, with the biased variance. x and residual (..., F),
    gain and offset (F).
    """
    if not epsilon >= 0:
        raise ValueError(f"epsilon must not be negative, and is {epsilon}")
    z = x if residual is None else x + residual  # (..., F)
    width = z.shape[-1]
    # a sum as a product with ones is several times faster than `mean`
    ones = xp.ones(width, z.dtype)
    mean = gemm(z, ones) / width  # (...)
    d = xp.subtract(z, mean[..., None], out=None if residual is None else z)
    variance = row_dots(d, d) / width
    # A row that varies less than its mean is rounded is centred once more, from its
    # first number on, so that a constant row becomes exactly 0.
    flat = variance.real <= xp.square(width * np.finfo(z.dtype).eps * mean.real)
    if xp is not np or flat.any():  # on a GPU looking would mean waiting
        again = d - d[..., :1]
        again -= (gemm(again, ones) / width)[..., None]
        d = xp.where(flat[..., None], again, d)
        variance = row_dots(d, d) / width
    scale = 1 / xp.sqrt(variance + epsilon)[..., None]  # (..., 1)
    d *= scale
    return plus(xp, d * gain, offset), (d, scale, gain, residual is not None)


@layer_norm.vjp
def layer_norm_vjp(xp, needs, g, normed, scale, gain, has_residual):
    # With n = normed and h = g * gain: gx = scale * (h - mean(h) - n * mean(h * n)).
    # What h has along the constants and along n is taken away.
    weights = gain / normed.shape[-1]  # g @ weights is mean(h)
    gn = g * normed
    gx = g * gain
    gx -= gemm(g, weights)[..., None]
    ggain = column_sums(as_rows(gn)) if needs[1] else None
    along = gemm(gn, weights)[..., None]
    gx -= xp.multiply(normed, along, out=gn)
    gx *= scale
    goffset = column_sums(as_rows(g)) if needs[2] else None
    gresidual = gx if has_residual and needs[3] else None
    return gx if needs[0] else None, ggain, goffset, gresidual


@layer_norm.defined_by
def layer_norm_definition(x, gain, offset, residual=None, epsilon=1e-5):
    z = x if residual is None else x + residual
    return equations.layer_norm(p, z, gain, offset, epsilon)
