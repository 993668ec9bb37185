"""Convolution of maps by a small kernel, in a few large products."""

import math

import numpy as np

from ..autograd import primitives as p
from ..backend import as_rows, column_sums, gemm
from .table import after_relu, fused, plus


@fused("... H W C", "height width C out", "out", hint="padding is 'VALID' or 'SAME'")
def conv2d(xp, x, weight, bias=None, *, padding="VALID", relu=False):
    """Convolution of maps by a small kernel, in steps of 1, with an optional ReLU.

    y[i, j] = sum_uv x[i + u, j + v] @ weight[u, v] + bias: x (..., H, W, C), weight (h,
    w, C, out), bias (out) or None -> (..., H - h + 1, W - w + 1, out). With "SAME"
    padding the result is as large as x: zeros stand around it, (h - 1) // 2 rows of
    them above and h // 2 below, and likewise for the columns, as in TensorFlow.

    A strip of the result, up to 8 places side by side, is one product: h rows of x, as
    they lie in memory, times a matrix that convolves such rows. That multiplies by some
    zeros, but copies no patches, and with few channels it is faster. A map no larger
    than what a strip sees is a single product.
    """
    maps, shape, strips = _plan(xp, x, weight, padding)
    y = xp.empty(shape, xp.result_type(maps, weight))
    matrices = {}
    for kind, seen, place in strips:
        if kind not in matrices:
            matrices[kind] = _as_matrix(xp, weight, *kind)
        gemm(_flat(maps[seen]), matrices[kind], out=_flat(y[place]))
    # bias and ReLU along whole maps: NumPy is slow with short rows
    y = _flat(y)
    if bias is not None:
        y = plus(xp, y, xp.tile(bias, shape[1] * shape[2]))
    if relu:
        y = xp.maximum(y, xp.zeros(y.shape[-1], y.dtype), out=y)
    y = y.reshape(*x.shape[:-3], *shape[1:])
    return y, (x, weight, padding, y if relu else None)


@conv2d.vjp
def conv2d_vjp(xp, needs, g, x, weight, padding, y):
    if y is not None:
        g = after_relu(xp, g, y)
    maps, shape, strips = _plan(xp, x, weight, padding)
    g, gmaps = g.reshape(shape), xp.zeros(maps.shape, g.dtype) if needs[0] else None
    matrices, gmatrices = {}, {}
    for kind, seen, place in strips:
        of_strip = _flat(g[place])
        if needs[0]:
            if kind not in matrices:
                matrices[kind] = _as_matrix(xp, weight, *kind)
            gmaps[seen] += gemm(of_strip, matrices[kind].T).reshape(gmaps[seen].shape)
        if needs[1]:
            product = gemm(_flat(maps[seen]).T, of_strip)
            gmatrices[kind] = product + gmatrices.get(kind, 0)
    gx = gweight = None
    if needs[0]:  # without the zeros around
        H, W = x.shape[-3:-1]
        top, left, _, _ = _zeros(weight, padding)
        whole = gmaps.shape[1:] == x.shape[-3:]
        inner = gmaps if whole else gmaps[:, top : top + H, left : left + W]
        gx = inner.reshape(x.shape)
    if needs[1]:
        gweight = xp.zeros(weight.shape, g.dtype)
        for (sizes, corner), gmatrix in gmatrices.items():
            for part, of_weight in _pairs(gmatrix, gweight, sizes, corner):
                of_weight += part
    return gx, gweight, column_sums(as_rows(g)) if needs[2] else None


_STRIP = 8  # places


def _plan(xp, x, weight, padding):
    """(maps, shape of the result, strips) of a convolution.

    The maps are x as (N, H, W, C), with zeros around them if need be. A strip is (kind
    of its matrix, what it sees of the maps, its place in the result): the arguments of
    `_as_matrix`, and two indices.
    """
    maps, (h, w, _, out) = x.reshape(-1, *x.shape[-3:]), weight.shape
    count, H, W, C = maps.shape
    top, left, down, across = _zeros(weight, padding)
    height, width = H + down - h + 1, W + across - w + 1
    if min(height, width) < 1:
        raise ValueError(f"a kernel of {h} x {w} in a map of {H} x {W}")
    shape = count, height, width, out
    if H * W <= h * (min(width, _STRIP) + w - 1):
        whole = (H, W, height, width), (top, left)
        return maps, shape, [(whole, np.s_[:], np.s_[:])]
    if down or across:
        inner = maps
        maps = xp.zeros((count, H + down, W + across, C), x.dtype)
        maps[:, top : top + H, left : left + W] = inner
    strips = []
    for i, j in np.ndindex(height, -(-width // _STRIP)):
        start = j * _STRIP
        end = min((j + 1) * _STRIP, width)
        seen = np.s_[:, i : i + h, start : end + w - 1]
        kind = (h, end - start + w - 1, 1, end - start), (0, 0)
        strips.append((kind, seen, np.s_[:, i, start:end]))
    return maps, shape, strips


def _flat(x):
    """x as a matrix, all axes but the first in one."""
    return x.reshape(len(x), math.prod(x.shape[1:]))


def _zeros(weight, padding):
    """(above, left, above and below, left and right): zeros around a map."""
    if padding not in ("VALID", "SAME"):
        raise ValueError(f"padding is {padding!r}, not 'VALID' or 'SAME'")
    if padding == "VALID":
        return 0, 0, 0, 0
    down, across = weight.shape[0] - 1, weight.shape[1] - 1
    return down // 2, across // 2, down, across


def _as_matrix(xp, weight, sizes, corner):
    """The convolution of one map (H, W, C) as a matrix (H W C, H' W' out).

    sizes: (H, W, H', W'). corner: rows and columns of padding above and to the left.
    """
    H, W, height, width = sizes
    C, out = weight.shape[2:]
    matrix = xp.zeros((H * W * C, height * width * out), weight.dtype)
    for part, of_weight in _pairs(matrix, weight, sizes, corner):
        part[...] = of_weight
    return matrix


def _pairs(matrix, weight, sizes, corner):
    """(part of the matrix, part of the weight) for each place of a result, as views.

    What would lie in the padding is left out.
    """
    H, W, height, width = sizes
    top, left = corner
    h, w, C, out = weight.shape
    matrix = matrix.reshape(H, W, C, height, width, out)
    for i, j in np.ndindex(height, width):
        y, x = i - top, j - left
        rows, columns = slice(max(y, 0), min(y + h, H)), slice(max(x, 0), min(x + w, W))
        u, v = (slice(s.start - o, s.stop - o) for s, o in ((rows, y), (columns, x)))
        yield matrix[rows, columns, :, i, j], weight[u, v]


@conv2d.defined_by
def conv2d_definition(x, weight, bias=None, padding="VALID", relu=False):
    h, w = weight.shape[:2]
    top, left, down, across = _zeros(weight, padding)
    around = (top, down - top), (left, across - left), (0, 0)
    x = p.pad(x, [*[(0, 0)] * (x.ndim - 3), *around])
    height, width = x.shape[-3] - h + 1, x.shape[-2] - w + 1
    y = 0.0 if bias is None else bias
    for u, v in np.ndindex(h, w):
        y = p.matmul(x[..., u : u + height, v : v + width, :], weight[u, v]) + y
    return p.maximum(y, 0) if relu else y
