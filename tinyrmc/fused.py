"""Fused primitives: where a recurrent memory spends its time, with derivatives by hand.

A fused primitive is one tape entry where a composition would be ten, and it saves the
least that its backward needs. Each one carries its own definition in basic primitives,
`op.reference(...)`. That is the text to read; it is the oracle in the tests; and inside
`with reference():` it runs instead.

All matrix products go through `backend.gemm`. The rest of each body is NumPy's
vocabulary on `xp`, so the same lines run on CuPy. Where the head of a body names a
kernel, that kernel takes the place of the body and its vjp on a GPU, if it supports the
call.

Like `primitives.py` this is one table, and one file, on purpose: an operation, its
derivative and its definition stand one under the other.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from . import kernels
from . import primitives as p
from .backend import (
    add_rows,
    as_rows,
    column_sums,
    gemm,
    multiplier,
    namespace,
    row_dots,
)
from .engine import Primitive, Product, Tensor
from .kernels.memory import all_steps

_mode = {"reference": False}


class Fused(Primitive):
    """A primitive that can say what it means.

    `reference` is the same function composed of basic primitives. `kernel`, an override
    from kernels/ or None, takes the place of the array body and its vjp on a GPU.

    `shapes` are the shapes of the arrays, a text for each, such as "... in", "in out",
    "out": what bears one name is of one length, "4H" four times as long as "H", "..."
    stands for any axes, the same for all, and "_" for any length. A call that does not
    fit is refused: what merely broadcasts would give numbers, and wrong ones.
    """

    composed: Callable[..., Any]  # the composition

    def __init__(
        self,
        forward: Callable,
        shapes: Iterable[str],
        kernel: kernels.Override | None = None,
        indices: Iterable[int] = (),
        hint: str = "",
    ):
        super().__init__(forward, indices, hint)
        self.kernel = kernel
        names = list(inspect.signature(forward).parameters)[1:]  # all but xp
        self.shapes = dict(zip(names, map(str.split, shapes), strict=False))
        self._fitting: set[tuple] = set()  # the shapes of calls that have passed

    def _run(self, xp: ModuleType, dtype, arrays: list, static: dict) -> tuple:
        shapes = tuple([getattr(array, "shape", None) for array in arrays])
        if shapes not in self._fitting:
            self._check_shapes(arrays, shapes)
            self._fitting.add(shapes)
        return super()._run(xp, dtype, arrays, static)

    def _check_shapes(self, arrays: list, shapes: tuple) -> None:
        """ValueError unless these are as `shapes` says; numbers and None pass."""
        sizes: dict[str, Any] = {}
        for wanted, shape in zip(self.shapes.values(), shapes, strict=False):
            if shape is not None and not _fits(wanted, shape, sizes):
                told = [f"{name} ({', '.join(x)})" for name, x in self.shapes.items()]
                error = ValueError(f"the shapes must be {', '.join(told)}")
                raise self._explained(error, arrays)

    def override(self, xp: ModuleType, arrays: list, static: dict) -> Any:
        """The kernel, if there is one and it supports the call; else the array body."""
        kernel = self.kernel
        if kernel is None or not kernel.takes(xp, arrays, self.indices, static):
            return self
        return kernel

    def reference(self, *args: Any, **static: Any) -> Any:
        """The same values and gradients from basic primitives: slower, plainer."""
        return self.composed(*args, **static)

    def defined_by(self, composition: Callable) -> Callable:
        """Decorator that sets `reference`."""
        self.composed = composition
        return composition

    def __call__(self, *args: Any, **static: Any) -> Any:
        if _mode["reference"]:
            return self.composed(*args, **static)
        return super().__call__(*args, **static)


def _fits(wanted: list[str], shape: tuple[int, ...], sizes: dict) -> bool:
    """Whether a shape is as wanted, given the `sizes` by name so far; adds to them."""
    if wanted[0] == "...":
        wanted, free = wanted[1:], len(shape) - len(wanted) + 1
        if free < 0 or sizes.setdefault("...", shape[:free]) != shape[:free]:
            return False
        shape = shape[free:]
    if len(wanted) != len(shape):
        return False
    for name, size in zip(wanted, shape, strict=True):
        unit = name.lstrip("0123456789")
        times = int(name.removesuffix(unit) or 1)
        if not unit:  # a number
            known = 1
        elif size % times or unit == "_":
            known = size // times if unit == "_" else -1
        else:
            known = sizes.setdefault(unit, size // times)
        if size != times * known:
            return False
    return True


class KernelOnly(Fused):
    """A fused primitive of one list of arrays that has no array body.

    Where its kernels do not take a call, its definition runs.
    """

    def __call__(self, arrays: Any, **static: Any) -> Any:  # type: ignore[override]
        xp, _, data = self._unwrap(arrays)
        if xp is np or self.override(xp, data, static) is self:
            return self.composed(arrays, **static)
        return super().__call__(arrays, **static)


def fused(
    *shapes: str,
    kernel: kernels.Override | None = None,
    indices: Iterable[int] = (),
    hint: str = "",
) -> Callable[[Callable], Fused]:
    """Decorator: put a fused primitive into the table. See `Fused`."""
    return lambda forward: Fused(forward, shapes, kernel, indices, hint)


@contextmanager
def reference() -> Iterator[None]:
    """Fused primitives run as their compositions, in all threads, inside the block."""
    before, _mode["reference"] = _mode["reference"], True
    try:
        yield
    finally:
        _mode["reference"] = before


def _plus(xp, fresh, b):
    """fresh + b, written over the array `fresh`.

    Not if only b is complex, as in a complex step of b alone.
    """
    return xp.add(fresh, b, out=fresh if fresh.dtype == b.dtype else None)


# --- linear ---------------------------------------------------------------------------


@fused("... in", "in out", "out")
def linear(xp, x, weight, bias=None, *, relu=False):
    """x @ weight + bias, with an optional ReLU.

    x (..., in), weight (in, out), bias (out) or None -> (..., out).
    """
    y = gemm(x, weight)  # (..., out)
    if bias is not None and kernels.usable(xp, y, bias):
        kernels.bias_relu(xp, y, bias, relu)
        return y, (x, weight, y if relu else None)
    if bias is not None:
        y = _plus(xp, y, bias)
    if relu:
        zeros = xp.zeros(y.shape[-1], y.dtype)  # NumPy is slow with a scalar here
        y = xp.maximum(y, zeros, out=y)
    return y, (x, weight, y if relu else None)


@linear.vjp
def linear_vjp(xp, needs, g, x, weight, y):
    if y is not None:
        usable = kernels.usable(xp, g, y)
        g = kernels.relu_backward(xp, g, y) if usable else g * (y > 0)
    rows = as_rows(g)  # (R, out)
    return (
        gemm(g, weight.T) if needs[0] else None,
        Product(as_rows(x), rows) if needs[1] else None,
        Product(None, rows) if needs[2] else None,
    )


@linear.defined_by
def linear_definition(x, weight, bias=None, relu=False):
    y = p.matmul(x, weight)
    y = y if bias is None else y + bias
    return p.maximum(y, 0) if relu else y


# --- convolution ----------------------------------------------------------------------


@fused("... H W C", "height width C out", "out", hint="padding is 'VALID' or 'SAME'")
def conv2d(xp, x, weight, bias=None, *, padding="VALID", relu=False):
    """Convolution of maps by a small kernel, in steps of 1, with an optional ReLU.

    y[i, j] = sum_uv x[i + u, j + v] @ weight[u, v] + bias: x (..., H, W, C), weight (h,
    w, C, out), bias (out) or None -> (..., H - h + 1, W - w + 1, out). With "SAME"
    padding the result is as large as x: zeros stand around it, (h - 1) // 2 rows of
    them above and h // 2 below, and so for the columns, as in TensorFlow.

    A strip of the result, up to 8 places side by side, is one product: that of h rows
    of x, as they lie in memory, and the convolution of such rows as a matrix. It
    multiplies by some zeros, and copies no patches. With few channels that is faster. A
    map no larger than what a strip sees is a single product.
    """
    maps, shape, strips = _plan(xp, x, weight, padding)
    y, matrices = xp.empty(shape, xp.result_type(maps, weight)), {}
    for kind, seen, place in strips:
        if kind not in matrices:
            matrices[kind] = _as_matrix(xp, weight, *kind)
        gemm(_flat(maps[seen]), matrices[kind], out=_flat(y[place]))
    # bias and ReLU along whole maps: NumPy is slow with short rows
    y = _flat(y)
    if bias is not None:
        y = _plus(xp, y, xp.tile(bias, shape[1] * shape[2]))
    if relu:
        y = xp.maximum(y, xp.zeros(y.shape[-1], y.dtype), out=y)
    y = y.reshape(*x.shape[:-3], *shape[1:])
    return y, (x, weight, padding, y if relu else None)


@conv2d.vjp
def conv2d_vjp(xp, needs, g, x, weight, padding, y):
    if y is not None:
        g = g * (y > 0)
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
    gx = _unpadded(gmaps, x, weight, padding) if needs[0] else None
    gweight = _from_matrices(xp, gmatrices, weight, g.dtype) if needs[1] else None
    return gx, gweight, column_sums(as_rows(g)) if needs[2] else None


_STRIP = 8  # places


def _plan(xp, x, weight, padding):
    """(maps, shape of the result, strips) of a convolution.

    The maps are x in a row (N, H, W, C), with zeros around if need be. A strip is (kind
    of its matrix, what it sees of the maps, its place in the result): the arguments of
    `_as_matrix`, and two indices.
    """
    if x.ndim < 3 or weight.ndim != 4 or x.shape[-1] != weight.shape[2]:
        raise ValueError("x and weight do not agree on the channels C")
    maps, (h, w, _, out) = x.reshape(-1, *x.shape[-3:]), weight.shape
    (count, H, W, C), (top, left, down, across) = maps.shape, _zeros(weight, padding)
    height, width = H + down - h + 1, W + across - w + 1
    if min(height, width) < 1:
        raise ValueError(f"a kernel of {h} x {w} in a map of {H} x {W}")
    shape = count, height, width, out
    if H * W <= h * (min(width, _STRIP) + w - 1):
        return maps, shape, [((H, W, padding), np.s_[:], np.s_[:])]
    if down or across:
        inner = maps
        maps = xp.zeros((count, H + down, W + across, C), x.dtype)
        maps[:, top : top + H, left : left + W] = inner
    strips = []
    for i, j in np.ndindex(height, -(-width // _STRIP)):
        start, end = j * _STRIP, min((j + 1) * _STRIP, width)
        seen = np.s_[:, i : i + h, start : end + w - 1]
        kind = h, end - start + w - 1, "VALID"
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


def _unpadded(maps, x, weight, padding):
    """The maps of `_plan` without zeros around, in the shape of x."""
    if maps.shape[1:] != x.shape[-3:]:
        top, left, _, _ = _zeros(weight, padding)
        maps = maps[:, top : top + x.shape[-3], left : left + x.shape[-2]]
    return maps.reshape(x.shape)


def _as_matrix(xp, weight, H, W, padding):
    """The convolution of one map (H, W, C) as a matrix (H W C, H' W' out)."""
    (h, w, C, out), (_, _, down, across) = weight.shape, _zeros(weight, padding)
    matrix = xp.zeros(
        (H, W, C, H + down - h + 1, W + across - w + 1, out), weight.dtype
    )
    for part, of_weight in _pairs(matrix, weight, padding):
        part[...] = of_weight
    return matrix.reshape(H * W * C, -1)


def _from_matrices(xp, gmatrices, weight, dtype):
    """The gradient of the weight from those of `_as_matrix`, by their kinds."""
    (h, w, C, out), gweight = weight.shape, xp.zeros(weight.shape, dtype)
    for (H, W, padding), gmatrix in gmatrices.items():
        _, _, down, across = _zeros(weight, padding)
        shape = H, W, C, H + down - h + 1, W + across - w + 1, out
        for part, of_weight in _pairs(gmatrix.reshape(shape), gweight, padding):
            of_weight += part
    return gweight


def _pairs(matrix, weight, padding):
    """(part of the matrix, part of the weight) of each place of a result, as views.

    The matrix is (H, W, C, H', W', out). What would lie in the padding is left out.
    """
    (h, w), (top, left, _, _) = weight.shape[:2], _zeros(weight, padding)
    (H, W), (height, width) = matrix.shape[:2], matrix.shape[3:5]
    for i, j in np.ndindex(height, width):
        y, x = i - top, j - left
        rows, columns = slice(max(y, 0), min(y + h, H)), slice(max(x, 0), min(x + w, W))
        u, v = (slice(s.start - o, s.stop - o) for s, o in ((rows, y), (columns, x)))
        yield matrix[rows, columns, :, i, j], weight[u, v]


@conv2d.defined_by
def conv2d_definition(x, weight, bias=None, padding="VALID", relu=False):
    h, w = weight.shape[:2]
    top, left, down, across = _zeros(weight, padding)
    xp = namespace(x.data if isinstance(x, Tensor) else x)
    for axis, before, both in (-3, top, down), (-2, left, across):
        around = [list(x.shape), list(x.shape)]
        around[0][axis], around[1][axis] = before, both - before
        above, below = (xp.zeros(shape, x.dtype) for shape in around)
        x = p.concatenate([above, x, below], axis=axis)
    height, width = x.shape[-3] - h + 1, x.shape[-2] - w + 1
    y = 0.0 if bias is None else bias
    for u, v in np.ndindex(h, w):
        y = p.matmul(x[..., u : u + height, v : v + width, :], weight[u, v]) + y
    return p.maximum(y, 0) if relu else y


# --- rows of a table ------------------------------------------------------------------


@fused("V d", "...", indices=(1,), hint="ids are integers from 0 to V - 1")
def embedding(xp, weight, ids):
    """The rows of weight (V, d) at integer `ids` (...): (..., d).

    Backward touches only the rows that were used. An id out of range is an error on
    NumPy. On a GPU, looking would make the host wait: there it wraps.
    """
    if ids.dtype.kind not in "iu":
        raise TypeError(f"the ids are {ids.dtype}, not integers")
    if isinstance(ids, np.ndarray) and ids.size:
        low, high = ids.min(), ids.max()
        if low < 0 or high >= len(weight):
            wrong = low if low < 0 else high
            raise IndexError(f"id {wrong} in a table of {len(weight)} rows")
    return xp.take(weight, ids, axis=0), (ids,)


@embedding.vjp_in_place
def embedding_vjp(xp, needs, g, ids):
    add_rows(needs[0], ids.reshape(-1), g.reshape(-1, g.shape[-1]))


@embedding.defined_by
def embedding_definition(weight, ids):
    return p.take(weight, ids, axis=0)


# --- layer norm -----------------------------------------------------------------------


@fused("... F", "F", "F", "... F", kernel=kernels.layer_norm)
def layer_norm(xp, x, gain, offset, residual=None, *, epsilon=1e-5):
    """Layer normalisation of x + residual, or of x alone, over the last axis.

    Each row is normalised by itself, with the biased variance. x and residual (..., F),
    gain and offset (F).
    """
    if not epsilon >= 0:
        raise ValueError(f"epsilon must not be negative, and is {epsilon}")
    z = x if residual is None else x + residual  # (..., F)
    width = z.shape[-1]
    # A mean as a product with this is several times faster than `mean`.
    averaging = xp.full(width, 1 / width, z.dtype)
    mean = gemm(z, averaging)[..., None]  # (..., 1)
    d = xp.subtract(z, mean, out=None if residual is None else z)
    variance = row_dots(d, d) / width
    scale = 1 / xp.sqrt(variance + epsilon)[..., None]  # (..., 1)
    d *= scale
    return _plus(xp, d * gain, offset), (d, scale, gain, residual is not None)


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
    d = z - p.mean(z, axis=-1, keepdims=True)
    return d / p.sqrt(p.mean(d * d, axis=-1, keepdims=True) + epsilon) * gain + offset


# --- attention over a few slots -------------------------------------------------------


def _heads(xp, qkv, num_heads, key_size):
    """q (B, H, R, K), k (B, H, R, K) and v (B, H, R, V) as views of qkv.

    qkv is (B, R, H * (2K + V)), where each head's q|k|v lie side by side.
    """
    batch, rows, width = qkv.shape
    if (
        min(num_heads, key_size) < 1
        or width % num_heads
        or width // num_heads <= 2 * key_size
    ):
        raise ValueError(
            f"{width} columns do not hold {num_heads} heads of q|k|v with key_size "
            f"{key_size}; need heads * (2 * key + value)"
        )
    heads = xp.swapaxes(qkv.reshape(batch, rows, num_heads, width // num_heads), 1, 2)
    end_q, end_k = key_size, 2 * key_size
    return heads[..., :end_q], heads[..., end_q:end_k], heads[..., end_k:]


@fused(
    "B rows columns",
    kernel=kernels.attention,
    indices=(1,),
    hint="qkv is (B, rows, heads * (2 * key_size + value_size)), q|k|v contiguous "
    "inside each head; a mask is bool and broadcasts to "
    "(B, heads, queries, rows): mask[:, None] is one for each example",
)
def attention(xp, qkv, mask=None, *, num_heads, key_size, num_queries=None, trace=None):
    """Multi-head dot-product attention (eq 1) from joint projections.

    softmax(q k^T / sqrt(K)) v, the heads side by side: qkv (B, R, H * (2K + V)) -> (B,
    Q, H * V). The first `num_queries` rows ask (default: all R), all rows answer. If
    you give a dict `trace`, the weights (B, H, Q, R) go into it as "attention".

    `mask` is bool and broadcasts to the weights. Where it is False they are zero, and
    the others of the row still sum to 1. A row that may attend to nothing is an error
    on NumPy; on a GPU, where looking would make the host wait, it is NaN.
    """
    q, k, v = _heads(xp, qkv, num_heads, key_size)
    if num_queries is not None and not 1 <= num_queries <= qkv.shape[1]:
        raise ValueError(f"{num_queries} queries of {qkv.shape[1]} rows")
    q = q[:, :, :num_queries]
    weights = gemm(q, xp.swapaxes(k, -1, -2))  # (B, H, Q, R)
    weights *= 1 / math.sqrt(key_size)
    if mask is not None:
        _check_mask(mask)
        if mask.ndim == 3:
            raise ValueError("the mask's first of three axes: examples, or heads?")
        xp.copyto(weights, -math.inf, where=~mask)
    # Over so few rows NumPy is many times faster with a maximum along the first axis,
    # and with a sum as a product.
    highest = xp.max(xp.ascontiguousarray(xp.moveaxis(weights, -1, 0)), axis=0)
    weights -= highest[..., None]
    weights = xp.exp(weights, out=weights)
    weights /= gemm(weights, xp.ones(weights.shape[-1], weights.dtype))[..., None]
    if trace is not None:
        trace["attention"] = weights
    shape = qkv.shape[0], q.shape[2], num_heads, v.shape[-1]  # (B, Q, H, V)
    out = xp.empty(shape, weights.dtype)
    gemm(weights, v, out=xp.swapaxes(out, 1, 2))
    return out.reshape(*out.shape[:2], -1), (qkv, weights, num_heads, key_size)


@attention.vjp
def attention_vjp(xp, needs, g, qkv, weights, num_heads, key_size):
    q, k, v = _heads(xp, qkv, num_heads, key_size)
    queries = weights.shape[2]
    g = xp.swapaxes(g.reshape(*g.shape[:2], num_heads, -1), 1, 2)  # (B, H, Q, V)
    gw = gemm(g, xp.swapaxes(v, -1, -2))  # (B, H, Q, R)
    gw -= row_dots(gw, weights)[..., None]
    gw *= weights
    gw *= 1 / math.sqrt(key_size)
    # The three gradients are views: they are written where they belong.
    gqkv = xp.empty(qkv.shape, gw.dtype)
    gq, gk, gv = _heads(xp, gqkv, num_heads, key_size)
    gemm(gw, k, out=gq[:, :, :queries])
    gq[:, :, queries:] = 0
    gemm(xp.swapaxes(gw, -1, -2), q[:, :, :queries], out=gk)
    gemm(xp.swapaxes(weights, -1, -2), g, out=gv)
    return gqkv, None


def _check_mask(mask):
    if mask.dtype != bool:
        raise TypeError(f"the mask is {mask.dtype}, not bool")
    if isinstance(mask, np.ndarray) and not mask.any(axis=-1).all():
        raise ValueError("the mask leaves a row nothing to attend to")


@attention.defined_by
def attention_definition(
    qkv, mask=None, num_heads=None, key_size=None, num_queries=None, trace=None
):
    batch, rows, width = qkv.shape
    heads = p.reshape(qkv, (batch, rows, num_heads, width // num_heads))
    heads = p.swapaxes(heads, 1, 2)  # (B, H, R, 2K + V)
    q = heads[..., :num_queries, :key_size]
    k, v = heads[..., key_size : 2 * key_size], heads[..., 2 * key_size :]
    scores = q @ p.swapaxes(k, -1, -2) / math.sqrt(key_size)  # (B, H, Q, R)
    weights = p.softmax(scores if mask is None else p.where(mask, scores, -math.inf))
    if trace is not None:
        trace["attention"] = weights.data
    out = p.swapaxes(weights @ v, 1, 2)  # (B, Q, H, V)
    return p.reshape(out, (batch, out.shape[1], -1))


# --- gates ----------------------------------------------------------------------------


def _sigmoid(xp, x):
    """The logistic function of a scratch array, in place."""
    x *= 0.5
    x = xp.tanh(x, out=x)
    x *= 0.5
    x += 0.5
    return x


@fused(
    "B 1 G",
    "B N G",
    "B N F",
    "B N F",
    kernel=kernels.rmc_gates,
    hint="the gates have 2F columns ('unit') or 2 ('memory')",
)
def rmc_gates(
    xp,
    from_input,
    from_memory,
    candidate,
    memory,
    *,
    input_bias=0.0,
    forget_bias=1.0,
    trace=None,
):
    """The gated memory update as released: i * tanh(candidate) + f * memory.

    Pre-activations are from_input (B, 1, G) + from_memory (B, N, G), with the input
    gate in the first half of the columns and the forget gate in the second; G = 2F, or
    2 for one scalar gate a slot. i = sigmoid(. + input_bias), f = sigmoid(. +
    forget_bias). candidate and memory (B, N, F) -> (B, N, F). If you give a dict
    `trace`, the gates go into it.
    """
    half = from_input.shape[-1] // 2
    if from_input.shape[-1] not in (2, 2 * memory.shape[-1]):
        raise ValueError(f"gates of {from_input.shape[-1]} columns")
    i, f = from_input[..., :half] + input_bias, from_input[..., half:] + forget_bias
    from_input = xp.concatenate([i, f], axis=-1)  # small: one row
    gates = _sigmoid(xp, from_input + from_memory)  # (B, N, G)
    i, f = gates[..., :half], gates[..., half:]
    if trace is not None:
        trace["input_gate"], trace["forget_gate"] = i, f
    squashed = xp.tanh(candidate)
    return _plus(xp, i * squashed, f * memory), (gates, squashed, memory)


@rmc_gates.vjp
def rmc_gates_vjp(xp, needs, g, gates, squashed, memory):
    half = gates.shape[-1] // 2
    i, f = gates[..., :half], gates[..., half:]
    gz = xp.empty(gates.shape, g.dtype)
    if half == g.shape[-1]:
        xp.multiply(g, squashed, out=gz[..., :half])
        xp.multiply(g, memory, out=gz[..., half:])
    else:  # one gate a slot: it moved all F units
        gz[..., 0] = row_dots(g, squashed)
        gz[..., 1] = row_dots(g, memory)
    slope = gates * gates
    gz *= xp.subtract(gates, slope, out=slope)
    gc = None
    if needs[2]:
        slope = squashed * squashed
        gc = g * i
        gc *= xp.subtract(1, slope, out=slope)
    return gz, gz, gc, g * f if needs[3] else None


@rmc_gates.defined_by
def rmc_gates_definition(
    from_input,
    from_memory,
    candidate,
    memory,
    input_bias=0.0,
    forget_bias=1.0,
    trace=None,
):
    z = from_input + from_memory
    half = z.shape[-1] // 2
    i = p.sigmoid(z[..., :half] + input_bias)
    f = p.sigmoid(z[..., half:] + forget_bias)
    if trace is not None:
        trace["input_gate"], trace["forget_gate"] = i.data, f.data
    return i * p.tanh(candidate) + f * memory


def _relational_memory(
    xp,
    *arrays,
    num_heads,
    key_size,
    input_bias=0.0,
    forget_bias=1.0,
    activate_final=False,
):
    """All T steps of a RelationalMemory with gates and one block: T memories (B, N, F).

    arrays: the first memory (B, N, F); the projected inputs (T, B, n, F) and their part
    of the gates, with all biases (T, B, 1, G); weight and bias of q|k|v, gain and
    offset of their norm, of the norm after attention, and of the one after the MLP; the
    memory's weight in the gates (F, G); weight and bias of each layer of the MLP.

    There is no array body, only kernels/memory.py. Where it does not take the call, the
    definition runs, an entry of the tape for each of its operations.
    """


_relational_memory.__name__ = "relational_memory"
relational_memory = KernelOnly(_relational_memory, (), all_steps)


@relational_memory.defined_by
def relational_memory_definition(
    arrays,
    num_heads=None,
    key_size=None,
    input_bias=0.0,
    forget_bias=1.0,
    activate_final=False,
):
    memory, rows, from_input, weight, bias, gain, offset, *others = arrays
    attention_norm, mlp_norm, (of_memory, *mlp) = others[:2], others[2:4], others[4:]
    layers, slots, memories = len(mlp) // 2, memory.shape[1], []
    for x, from_x in zip(p.unstack(rows), p.unstack(from_input), strict=True):
        z = linear(p.concatenate([memory, x], axis=1), weight, bias)  # of [M; x']
        qkv = layer_norm(z, gain, offset)
        sizes = {"num_heads": num_heads, "key_size": key_size, "num_queries": slots}
        z = layer_norm(attention(qkv, **sizes), *attention_norm, memory)
        refined = z
        for k in range(layers):
            relu = k < layers - 1 or activate_final
            refined = linear(refined, *mlp[2 * k : 2 * k + 2], relu=relu)
        candidate = layer_norm(refined, *mlp_norm, z)
        from_memory = p.matmul(p.tanh(memory), of_memory)
        biases = {"input_bias": input_bias, "forget_bias": forget_bias}
        memory = rmc_gates(from_x, from_memory, candidate, memory, **biases)
        memories.append(memory)
    return tuple(memories)


@fused("... 4H", "... H")
def lstm_gates(xp, z, cell, *, forget_bias=1.0):
    """The LSTM's element-wise half.

        c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j)
        h' = sigmoid(o) tanh(c')

    Pre-activations z (B, 4H) in the order i, j, f, o, and cell (B, H) -> hidden h' and
    cell c', each (B, H).
    """
    size = cell.shape[-1]
    i, j, f, o = (z[..., k * size : (k + 1) * size] for k in range(4))
    i = _sigmoid(xp, i + 0)  # adding makes a copy, which `_sigmoid` writes over
    j = xp.tanh(j)
    f = _sigmoid(xp, f + forget_bias)
    o = _sigmoid(xp, o + 0)
    new = f * cell + i * j
    squashed = xp.tanh(new)
    return (o * squashed, new), (i, j, f, o, cell, squashed)


@lstm_gates.vjp
def lstm_gates_vjp(xp, needs, g, i, j, f, o, cell, squashed):
    gh, gnew = g
    gnew = gnew + gh * o * (1 - squashed * squashed)
    gi = gnew * j * (i - i * i)
    gj = gnew * i * (1 - j * j)
    gf = gnew * cell * (f - f * f)
    go = gh * squashed * (o - o * o)
    gz = xp.concatenate([gi, gj, gf, go], axis=-1)
    return gz, gnew * f if needs[1] else None


@lstm_gates.defined_by
def lstm_gates_definition(z, cell, forget_bias=1.0):
    size = cell.shape[-1]
    i, j, f, o = (z[..., k * size : (k + 1) * size] for k in range(4))
    new = p.sigmoid(f + forget_bias) * cell + p.sigmoid(i) * p.tanh(j)
    return p.sigmoid(o) * p.tanh(new), new


@fused(
    *("T B in", "_ 4H", "4H", "B H", "B H", "B", "T B"),
    indices=(5, 6),
    hint="the weight has in + H rows",
)
def lstm(
    xp, inputs, weight, bias, hidden, cell, lengths=None, fresh=None, *, forget_bias=1.0
):
    """An LSTM layer over all T steps: `lstm_gates` of [x, h] W + b, T times.

    inputs (T, B, in), weight (in + H, 4H), bias (4H,), first hidden and cell (B, H) ->
    the hidden states after each step (T, B, H), and the last hidden and cell (B, H).
    With `lengths`, integers (B,), the last ones of example b are those after its first
    lengths[b] steps. With `fresh`, bool (T, B), example b begins again with zeros
    before each step t where fresh[t, b] holds.

    The inputs' part of all pre-activations is one product, and so is the gradient of
    the weight. Only h W_h remains for each step.
    """
    steps, batch, wide = inputs.shape
    size = cell.shape[-1]
    if len(weight) != wide + size:
        raise ValueError(f"a weight of {len(weight)} rows")
    if fresh is not None and fresh.dtype != bool:
        raise TypeError(f"fresh is {fresh.dtype}, not bool")
    if isinstance(lengths, np.ndarray) and ((lengths < 0) | (lengths > steps)).any():
        raise ValueError(f"lengths are from 0 to {steps}, not {lengths.tolist()}")
    # sigmoid(x) is (1 + tanh(x / 2)) / 2: with halves here, one tanh does all gates
    half = xp.full(4 * size, 0.5, bias.dtype)
    half[size : 2 * size] = 1
    scaled, shift = weight * half, bias * half
    shift[2 * size : 3 * size] += 0.5 * forget_bias
    z = _plus(xp, gemm(inputs, scaled[:wide]), shift)  # (T, B, 4H)
    kind = xp.result_type(z, weight, hidden, cell)
    gates = xp.empty((steps, 4, batch, size), kind)
    hiddens = xp.empty((steps + 1, batch, size), kind)
    cells, squashed = xp.empty_like(hiddens), xp.empty((steps, batch, size), kind)
    hiddens[0], cells[0] = hidden, cell
    kept = None if fresh is None else (~fresh).astype(kind)[..., None]  # (T, B, 1)
    recurrent = scaled[wide:].astype(kind, copy=False)
    multiply = multiplier(recurrent, batch, steps)
    for t in range(steps):
        of_hidden = _by_gate(xp, multiply(_before(hiddens, kept, t)))
        xp.add(_by_gate(xp, z[t]), of_hidden, out=gates[t])
        xp.tanh(gates[t], out=gates[t])
        i, j, f, o = gates[t]
        for gate in i, gates[t, 2:]:
            gate *= 0.5
            gate += 0.5
        new = xp.multiply(f, _before(cells, kept, t), out=cells[t + 1])
        new += i * j
        xp.multiply(o, xp.tanh(new, out=squashed[t]), out=hiddens[t + 1])
    last = steps if lengths is None else xp.clip(lengths, 0, steps)
    ends = (last,) if lengths is None else (last, xp.arange(batch))
    saved = inputs, weight, gates, hiddens, cells, squashed, ends, kept
    return (hiddens[1:], hiddens[ends], cells[ends]), saved


def _by_gate(xp, z):
    """(B, 4H) as (4, B, H), a view."""
    return xp.swapaxes(z.reshape(len(z), 4, -1), 0, 1)


def _before(states, kept, t):
    """What step t has of the states (T + 1, B, H): all, or zeros where `kept` is 0."""
    return states[t] if kept is None else states[t] * kept[t]


@lstm.vjp
def lstm_vjp(xp, needs, g, inputs, weight, gates, hiddens, cells, squashed, ends, kept):
    """Long because it is one loop, from the last step to the first."""
    steps, batch, size = squashed.shape
    ghiddens, gcells = xp.zeros_like(hiddens), xp.zeros_like(cells)
    ghiddens[1:] = g[0]
    ghiddens[ends] += g[1]
    gcells[ends] += g[2]
    kind = gates.dtype
    gz = xp.empty((steps, batch, 4 * size), kind)
    of_gates, slopes = xp.empty_like(gates[0]), xp.empty_like(gates[0])
    recurrent = weight[-size:].T.astype(kind, copy=False)
    multiply = multiplier(recurrent, batch, steps)
    for t in reversed(range(steps)):
        gh, gc, (i, j, f, o) = ghiddens[t + 1], gcells[t + 1], gates[t]
        through = squashed[t] * squashed[t]
        xp.subtract(1, through, out=through)
        through *= o
        through *= gh
        gc += through
        xp.multiply(gc, j, out=of_gates[0])
        xp.multiply(gc, i, out=of_gates[1])
        xp.multiply(gc, _before(cells, kept, t), out=of_gates[2])
        xp.multiply(gh, squashed[t], out=of_gates[3])
        xp.multiply(gates[t], gates[t], out=slopes)
        xp.subtract(gates[t], slopes, out=slopes)
        xp.subtract(1, j * j, out=slopes[1])
        xp.multiply(of_gates, slopes, out=_by_gate(xp, gz[t]))
        of_hidden = multiply(gz[t])
        gc *= f
        if kept is not None:
            of_hidden *= kept[t]
            gc *= kept[t]
        ghiddens[t] += of_hidden
        gcells[t] += gc
    rows = as_rows(gz)
    before = hiddens[:-1] if kept is None else hiddens[:-1] * kept
    seen = xp.concatenate([inputs, before], axis=-1)
    return (
        gemm(gz, weight[:-size].T) if needs[0] else None,
        Product(as_rows(seen), rows) if needs[1] else None,
        Product(None, rows) if needs[2] else None,
        ghiddens[0],
        gcells[0],
        None,
        None,
    )


@lstm.defined_by
def lstm_definition(
    inputs, weight, bias, hidden, cell, lengths=None, fresh=None, forget_bias=1.0
):
    hiddens, cells = [hidden], [cell]
    for t, x in enumerate(p.unstack(inputs)):
        if fresh is not None:
            new = fresh[t][:, None]
            hidden, cell = p.where(new, 0.0, hidden), p.where(new, 0.0, cell)
        z = p.matmul(p.concatenate([x, hidden], axis=1), weight) + bias
        hidden, cell = lstm_gates.reference(z, cell, forget_bias)
        hiddens.append(hidden)
        cells.append(cell)
    outputs = p.stack(hiddens[1:])
    if lengths is None:
        return outputs, hidden, cell
    xp, steps = namespace(lengths), len(cells) - 1
    here = xp.arange(steps + 1)[:, None] == xp.clip(lengths, 0, steps)  # (T + 1, B)

    def at_the_end(states):
        return p.sum(p.where(here[..., None], p.stack(states), 0.0), axis=0)

    return outputs, at_the_end(hiddens), at_the_end(cells)


# --- a hop of a memory network --------------------------------------------------------


@fused("R B d", "R W d", "R W d", "B M W", "B M", indices=(4,))
def memory_hop(xp, u, A, C, rows, mask=None, *, linear=False, trace=None):
    """What R memory networks find in the same memories: (R, B, d).

    Network r has memories m = rows A and contents c = rows C, which are not computed:
    sum_i p_i c_i with p = softmax_i(u . m_i), or p_i = u . m_i if `linear`. A dict
    `trace` receives p (B, R, M) as "weights". Where `mask` is False p is 0; it has no
    effect on a linear hop.
    """
    v = gemm(u, xp.swapaxes(A, 1, 2))  # (R, B, W)
    weights = gemm(xp.swapaxes(v, 0, 1), xp.swapaxes(rows, 1, 2))  # (B, R, M)
    if not linear:
        if mask is not None:
            _check_mask(mask)
            xp.copyto(weights, -math.inf, where=~mask[:, None])
        weights -= xp.max(weights, axis=-1, keepdims=True)
        weights = xp.exp(weights, out=weights)
        weights /= xp.sum(weights, axis=-1, keepdims=True)
    if trace is not None:
        trace["weights"] = weights
    found = xp.swapaxes(gemm(weights, rows), 0, 1)  # (R, B, W)
    return gemm(found, C), (u, A, C, rows, v, weights, found, linear)


@memory_hop.vjp
def memory_hop_vjp(xp, needs, g, u, A, C, rows, v, weights, found, linear):
    gfound = xp.swapaxes(gemm(g, xp.swapaxes(C, 1, 2)), 0, 1)  # (B, R, W)
    gw = gemm(gfound, xp.swapaxes(rows, 1, 2))  # (B, R, M)
    if not linear:
        gw -= row_dots(gw, weights)[..., None]
        gw *= weights
    gv = xp.swapaxes(gemm(gw, rows), 0, 1)  # (R, B, W)
    grows = None
    if needs[3]:
        grows = gemm(xp.swapaxes(gw, 1, 2), xp.swapaxes(v, 0, 1))
        grows += gemm(xp.swapaxes(weights, 1, 2), gfound)
    gA, gC = gemm(xp.swapaxes(gv, 1, 2), u), gemm(xp.swapaxes(found, 1, 2), g)
    return gemm(gv, A), gA, gC, grows, None


@memory_hop.defined_by
def memory_hop_definition(u, A, C, rows, mask=None, linear=False, trace=None):
    memories, contents = (p.matmul(rows, p.expand_dims(S, 1)) for S in (A, C))
    scores = p.sum(memories * p.expand_dims(u, 2), axis=-1)  # (R, B, M)
    weights = scores
    if not linear:
        weights = p.softmax(
            scores if mask is None else p.where(mask, scores, -math.inf)
        )
    if trace is not None:
        trace["weights"] = namespace(weights.data).swapaxes(weights.data, 0, 1)
    return p.sum(p.expand_dims(weights, -1) * contents, axis=2)


@fused(
    *("B T d", "B L d", "N d", "B L d", "N d", "B L"),
    indices=(5,),
    hint="L is N + T - 1",
)
def sliding_hop(xp, u, m, m_ages, c, c_ages, mask=None, *, trace=None):
    """What each of T words in a row finds in the N memories up to it: (B, T, d).

    Word t sees the memories t .. t + N - 1, the oldest first, so that neighbours share
    all but one: p_ti = softmax_i(u_t . (m_{t+i} + m_ages_i)), of which it takes
    sum_i p_ti (c_{t+i} + c_ages_i). Where `mask` is False p is 0. A dict `trace`
    receives p (B, T, N) as "weights".
    """
    if m.shape[1] != len(m_ages) + u.shape[1] - 1:
        raise ValueError(f"{m.shape[1]} words in a row")
    of_words = _windows(xp, gemm(u, xp.swapaxes(m, 1, 2)))  # (B, T, N)
    weights = _plus(xp, gemm(u, m_ages.T), of_words)
    if mask is not None:
        shape = *weights.shape[:2], mask.shape[1]
        seen = _windows(xp, xp.broadcast_to(mask[:, None], shape))
        _check_mask(seen)
        xp.copyto(weights, -math.inf, where=~seen)
    weights -= xp.max(weights, axis=-1, keepdims=True)
    weights = xp.exp(weights, out=weights)
    weights /= xp.sum(weights, axis=-1, keepdims=True)
    if trace is not None:
        trace["weights"] = weights
    spread = _spread(xp, weights)
    found = _plus(xp, gemm(spread, c), gemm(weights, c_ages))
    return found, (u, m, m_ages, c, c_ages, weights, spread)


@sliding_hop.vjp
def sliding_hop_vjp(xp, needs, g, u, m, m_ages, c, c_ages, weights, spread):
    gw = gemm(g, c_ages.T)
    gw += _windows(xp, gemm(g, xp.swapaxes(c, 1, 2)))
    gw -= row_dots(gw, weights)[..., None]
    gw *= weights
    gspread = _spread(xp, gw)
    gu = gemm(gspread, m)
    gu += gemm(gw, m_ages)
    gm = gemm(xp.swapaxes(gspread, 1, 2), u)
    gc = gemm(xp.swapaxes(spread, 1, 2), g)
    gm_ages, gc_ages = (
        Product(as_rows(gw), as_rows(u)),
        Product(as_rows(weights), as_rows(g)),
    )
    return gu, gm, gm_ages, gc, gc_ages, None


@sliding_hop.defined_by
def sliding_hop_definition(u, m, m_ages, c, c_ages, mask=None, trace=None):
    N, found, weights = m_ages.shape[0], [], []
    for t, query in enumerate(p.unstack(u, axis=1)):
        query = p.expand_dims(query, 1)  # (B, 1, d)
        scores = p.sum((m[:, t : t + N] + m_ages) * query, axis=-1)  # (B, N)
        if mask is not None:
            scores = p.where(mask[:, t : t + N], scores, -math.inf)
        weights.append(p.softmax(scores))
        contents = c[:, t : t + N] + c_ages
        found.append(p.sum(p.expand_dims(weights[-1], -1) * contents, axis=1))
    if trace is not None:
        trace["weights"] = p.stack(weights, axis=1).data
    return p.stack(found, axis=1)


def _windows(xp, whole):
    """Of each row t of (B, T, L) what stands at t .. t + L - T: (B, T, L - T + 1).

    In rows that are longer by one, these are the beginnings.
    """
    B, T, L = whole.shape
    flat = xp.concatenate(
        [whole.reshape(B, T * L), xp.zeros((B, T), whole.dtype)], axis=1
    )
    return flat.reshape(B, T, L + 1)[:, :, : L - T + 1]


def _spread(xp, windows):
    """The reverse: (B, T, N) -> (B, T, N + T - 1), with zeros elsewhere."""
    B, T, N = windows.shape
    flat = xp.zeros((B, T, N + T), windows.dtype)
    flat[:, :, :N] = windows
    return flat.reshape(B, -1)[:, :-T].reshape(B, T, N + T - 1)


# --- the memory of a differentiable neural computer -----------------------------------


@fused("B H W", "B N W", "B H")
def content_weights(xp, keys, memory, strengths, *, epsilon=1e-6):
    """Content addressing: how much each of H keys looks at each of N words. (B, H, N)

    For each key the softmax over the words of strength * cosine(key, word). cosine(k,
    m) = k . m / (|k| |m| + epsilon) with |k|^2 = k . k + epsilon, which is smooth where
    k or m is zero.
    """
    key_norms = xp.sqrt(row_dots(keys, keys) + epsilon)
    key_norms = key_norms[..., None]  # (B, H, 1)
    word_norms = xp.sqrt(row_dots(memory, memory) + epsilon)
    word_norms = word_norms[:, None]  # (B, 1, N)
    scale = 1 / (key_norms * word_norms + epsilon)  # (B, H, N)
    cosine = gemm(keys, xp.swapaxes(memory, -1, -2)) * scale
    weights = cosine * strengths[..., None]
    weights = xp.exp(weights - xp.max(weights, axis=-1, keepdims=True))
    weights /= xp.sum(weights, axis=-1, keepdims=True)
    norms = key_norms, word_norms
    return weights, (keys, memory, strengths, norms, scale, cosine, weights)


@content_weights.vjp
def content_weights_vjp(xp, needs, g, keys, memory, strengths, *saved):
    (key_norms, word_norms), scale, cosine, weights = saved
    gw = g * weights
    gw -= weights * xp.sum(gw, axis=-1, keepdims=True)  # of strength * cosine
    gcosine = gw * strengths[..., None]
    gdot = gcosine * scale
    # d cosine / d |k| = -cosine * scale * |m|, and d |k| / d k = k / |k|; so for m.
    along = gdot * cosine
    of_keys = xp.sum(along * word_norms, axis=-1, keepdims=True) / key_norms
    of_words = xp.sum(along * key_norms, axis=1, keepdims=True) / word_norms
    of_words = of_words[:, 0, :, None]  # (B, N, 1), as of_keys is (B, H, 1)
    gmemory = None
    if needs[1]:
        gmemory = gemm(xp.swapaxes(gdot, -1, -2), keys)
        gmemory -= of_words * memory
    return gemm(gdot, memory) - of_keys * keys, gmemory, xp.sum(gw * cosine, axis=-1)


@content_weights.defined_by
def content_weights_definition(keys, memory, strengths, epsilon=1e-6):
    key_norms = p.sqrt(p.sum(p.square(keys), axis=-1, keepdims=True) + epsilon)
    word_norms = p.sqrt(p.sum(p.square(memory), axis=-1, keepdims=True) + epsilon)
    dots = p.matmul(keys, p.swapaxes(memory, -1, -2))  # (B, H, N)
    cosine = dots / (key_norms * p.swapaxes(word_norms, -1, -2) + epsilon)
    return p.softmax(p.expand_dims(strengths, -1) * cosine)


@fused("B N W", "B H N", "B H W", "B H W")
def erase_and_write(xp, memory, weights, erase, values):
    """Every word loses what the H heads erase, and gains what they write. (B, N, W)

    memory * prod_h (1 - w_h e_h^T) + sum_h w_h v_h^T.
    """
    heads = range(weights.shape[1])
    lost = [_outer(weights[:, h], erase[:, h]) for h in heads]  # each (B, N, W)
    kept = _kept(xp, lost)
    written = gemm(xp.swapaxes(weights, 1, 2), values)
    return _plus(xp, written, memory * kept), (memory, weights, erase, values, kept)


@erase_and_write.vjp
def erase_and_write_vjp(xp, needs, g, memory, weights, erase, values, kept):
    gkept, heads = g * memory, range(weights.shape[1])
    gweights = gemm(values, xp.swapaxes(g, 1, 2))
    gerase = xp.empty(erase.shape, g.dtype)
    for h in heads:
        # the product without one factor: dividing by that factor fails at zero
        others = [_outer(weights[:, k], erase[:, k]) for k in heads if k != h]
        glost = gkept * _kept(xp, others) if others else gkept
        gweights[:, h] -= gemm(glost, erase[:, h, :, None])[..., 0]
        gerase[:, h] = -gemm(weights[:, h, None], glost)[:, 0]
    return g * kept if needs[0] else None, gweights, gerase, gemm(weights, g)


@erase_and_write.defined_by
def erase_and_write_definition(memory, weights, erase, values):
    columns = p.expand_dims(weights, -1)  # (B, H, N, 1)
    rows = p.expand_dims(erase, -2)  # (B, H, 1, W)
    for h in range(weights.shape[1]):
        memory = memory * (1 - columns[:, h] * rows[:, h])
    return memory + p.matmul(p.swapaxes(weights, 1, 2), values)


def _outer(a, b):
    """a_i b_j for each example: (B, I), (B, J) -> (B, I, J)."""
    return a[:, :, None] * b[:, None, :]


def _kept(xp, lost):
    """The product of 1 - each, written over the arrays of the list."""
    kept = xp.subtract(1, lost[0], out=lost[0])
    for other in lost[1:]:
        kept *= xp.subtract(1, other, out=other)
    return kept


@fused("B H N N", "B H N", "B H N")
def temporal_links(xp, links, weights, precedence):
    """How much word i was written right after word j. (B, H, N, N)

    L_ij <- (1 - w_i - w_j) L_ij + w_i p_j, with a zero diagonal. The weights w are
    those of this write; the precedence p says how much each word was the last one
    written before it. Each head has its own links.
    """
    new = ((1 - weights)[..., None] - weights[..., None, :]) * links
    new = _plus(xp, weights[..., None] * precedence[..., None, :], new)
    _clear_diagonals(xp, new)
    return new, (links, weights, precedence)


@temporal_links.vjp
def temporal_links_vjp(xp, needs, g, links, weights, precedence):
    g = g.copy()
    _clear_diagonals(xp, g)
    lost, ones = g * links, xp.ones(g.shape[-1], g.dtype)
    gained = gemm(g, precedence[..., None])[..., 0]
    gweights = gained - gemm(lost, ones) - gemm(ones, lost)
    gprecedence = gemm(weights[..., None, :], g)[..., 0, :]
    if needs[0]:
        g *= (1 - weights)[..., None] - weights[..., None, :]
    return g if needs[0] else None, gweights, gprecedence


@temporal_links.defined_by
def temporal_links_definition(links, weights, precedence):
    w_i, w_j = p.expand_dims(weights, -1), p.expand_dims(weights, -2)
    p_j = p.expand_dims(precedence, -2)
    others = 1 - namespace(w_i.data).eye(weights.shape[-1], dtype=weights.dtype)
    return ((1 - w_i - w_j) * links + w_i * p_j) * others


def _clear_diagonals(xp, matrices):
    """Zeros on the diagonal of each matrix of a stack (..., N, N), in place."""
    k = xp.arange(matrices.shape[-1])
    matrices[..., k, k] = 0


# --- loss -----------------------------------------------------------------------------


@fused(
    "... C",
    "...",
    kernel=kernels.softmax_cross_entropy,
    indices=(1,),
    hint="targets are integers from 0 to C - 1, one for each row of logits",
)
def softmax_cross_entropy(xp, logits, targets):
    """-log softmax(logits)[target] in nats, one value a row.

    logits (..., C), integer targets (...) -> (...). It takes logits: a softmax before
    this one would flatten the gradients. A target out of range is an error on NumPy. On
    a GPU, looking would make the host wait. There the kernel gives the row a loss and a
    gradient of NaN, with which an optimizer refuses the step; this array body wraps the
    target silently.
    """
    _refuse_negative(targets)
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    chosen = xp.take_along_axis(shifted, targets[..., None], axis=-1)[..., 0]
    prob = xp.exp(shifted)
    total = xp.sum(prob, axis=-1)
    prob /= total[..., None]
    return xp.log(total) - chosen, (prob, targets)


def _refuse_negative(targets):
    """On NumPy, where looking costs nothing."""
    if isinstance(targets, np.ndarray) and targets.size and targets.min() < 0:
        raise ValueError(
            f"target {targets.min()} is negative; leave padding out with a weight of "
            "zero, not with a label of its own"
        )


@softmax_cross_entropy.vjp
def softmax_cross_entropy_vjp(xp, needs, g, prob, targets):
    hot = targets[..., None] == xp.arange(prob.shape[-1])
    return (prob - hot) * g[..., None], None


@softmax_cross_entropy.defined_by
def softmax_cross_entropy_definition(logits, targets):
    shifted = logits - p.max(logits, axis=-1, keepdims=True)
    xp = namespace(shifted.data)
    hot = targets[..., None] == xp.arange(logits.shape[-1])
    chosen = p.sum(p.where(hot, shifted, 0.0), axis=-1)  # others may be -inf
    return p.log(p.sum(p.exp(shifted), axis=-1)) - chosen


# The rows and words of a tile of logits. Those kept until backward may take 64 MiB (in
# float32), or seven tenths of what the weight takes.
_TILE, _KEPT, _KEPT_OF_WEIGHT = 1024, 1 << 24, 0.7


@fused(
    *("... d", "V d", "...", "V"),
    indices=(2,),
    hint="targets are integers from 0 to V - 1, one for each row of x",
)
def linear_cross_entropy(xp, x, weight, targets, bias=None, *, block=_TILE, keep=None):
    """-log softmax(x weight^T + bias)[target] in nats, one value a row.

    x (..., d), weight (V, d), integer targets (...), bias (V,) or None -> (...). The
    weight is laid out as an embedding's, one row a word, so that both can be one and
    the same: then the weights are tied.

    The logits are made in tiles of `block` rows and words, so memory does not grow with
    rows x words. The first tiles are kept until backward, at most `keep` numbers: by
    default 64 MiB of them in float32, or 0.7 of what the weight takes. The other tiles
    are made again, and cost four matrix products in place of three. So a piece of up to
    0.7 d rows, whatever V is, takes the time of the plain algorithm.

    A target out of range is an error on NumPy. On a GPU, where looking would make the
    host wait, the row's loss is NaN, with which an optimizer refuses the step.
    """
    own = _checked_targets(targets, len(weight))
    rows = as_rows(x)  # (R, d)
    if keep is None:
        keep = max(_KEPT, int(_KEPT_OF_WEIGHT * weight.size))
    parts = [
        _row_losses(
            xp, rows[r], weight, own[r], bias, block, keep - r.start * len(weight)
        )
        for r in _tiles(len(rows), block)
    ]
    losses, top, total = (xp.concatenate([part[k] for part in parts]) for k in range(3))
    kept = [part[3] for part in parts]
    saved = x, weight, own, bias, top, total, kept, block
    return losses.reshape(targets.shape), saved


@linear_cross_entropy.vjp_in_place
def linear_cross_entropy_vjp(
    xp, needs, g, x, weight, targets, bias, top, total, kept, block
):
    # The gradient of the logits is g exp(logits - top) / total, and -g more at the
    # target. Rows are scaled after a product or before it, rather than whole tiles.
    gx, gweight, _, gbias = needs
    rows, g = as_rows(x), g.reshape(-1)
    products = []
    for r, tiles in zip(_tiles(len(rows), block), kept, strict=True):
        product = xp.take(weight, targets[r], axis=0) * -g[r, None]
        scale = g[r] / total[r]
        for k, w in enumerate(_tiles(len(weight), block)):
            if k < len(tiles):
                e, top_then = tiles[k]
                share = scale * xp.exp(top_then - top[r])
            else:
                e, share = _logits(xp, rows[r], weight, bias, w), scale
                e -= top[r, None]
                e = xp.exp(e, out=e)
            if gx is not None:
                product = product + gemm(e, weight[w]) * share[:, None]
            if gweight is not None:
                gweight[w] += gemm(e.T, rows[r] * share[:, None])
            if gbias is not None:
                gbias[w] += gemm(share, e)
        products.append(product)
    if gx is not None:
        gx += xp.concatenate(products).reshape(x.shape)
    if gweight is not None:
        add_rows(gweight, targets, rows * -g[:, None])
    if gbias is not None:
        add_rows(gbias[:, None], targets, -g[:, None])


@linear_cross_entropy.defined_by
def linear_cross_entropy_definition(
    x, weight, targets, bias=None, block=None, keep=None
):
    logits = p.matmul(x, p.transpose(weight))
    logits = logits if bias is None else logits + bias
    return softmax_cross_entropy_definition(logits, targets)


def _row_losses(xp, x, weight, targets, bias, block, room):
    """(losses, highest logit, sum of exp(logit - highest), kept tiles) of some rows.

    Tile after tile: where a higher logit comes, the sum so far is scaled down. A tile
    is kept as exp(logit - highest so far), with that highest; all of them have at most
    `room` numbers.
    """
    top, total, chosen, kept = -math.inf, 0.0, math.nan, []
    for w in _tiles(len(weight), block):
        e = _logits(xp, x, weight, bias, w)
        inside = (targets >= w.start) & (targets < w.stop)
        column = xp.where(inside, targets - w.start, 0)
        own = xp.take_along_axis(e, column[:, None], axis=-1)[:, 0]
        chosen = xp.where(inside, own, chosen)
        highest = xp.maximum(xp.max(e, axis=-1), top)
        e -= highest[:, None]
        e = xp.exp(e, out=e)
        total = total * xp.exp(top - highest) + xp.sum(e, axis=-1)
        top = highest
        room -= e.size
        if room >= 0:
            kept.append((e, top))
    return xp.log(total) - (chosen - top), top, total, kept


def _tiles(length, block):
    """Slices of `block`, the last one shorter. There is always one."""
    return [slice(k, min(k + block, length)) for k in range(0, max(length, 1), block)]


def _logits(xp, x, weight, bias, words):
    """The logits of some rows for the slice `words`."""
    logits = gemm(x, weight[words].T)
    return logits if bias is None else _plus(xp, logits, bias[words])


def _checked_targets(targets, words):
    """Targets as a row of int64, or an error: on NumPy also if one is out of range."""
    if targets.dtype.kind not in "iu":
        raise TypeError(f"the targets are {targets.dtype}, not integers")
    _refuse_negative(targets)
    if isinstance(targets, np.ndarray) and targets.size and targets.max() >= words:
        raise IndexError(f"target {targets.max()} is none of {words} words")
    return targets.reshape(-1).astype(np.int64)


# --- a policy ------------------------------------------------------------------------


@fused(
    "... A",
    "...",
    indices=(1,),
    hint="actions are integers from 0 to A - 1, one for each row of logits",
)
def categorical(xp, logits, actions):
    """log pi(action) and the entropy of pi = softmax(logits), in nats, of each row.

    logits (..., A), integer actions (...) -> two of shape (...). A policy gradient is
    that of sum(log pi(a) * advantage). A logit of -inf forbids an action. An
    action out of range is an error on NumPy; on a GPU, where looking would make the
    host wait, it wraps.
    """
    if isinstance(actions, np.ndarray) and actions.size and actions.min() < 0:
        raise IndexError(f"action {actions.min()} of {logits.shape[-1]}")
    logs = logits - xp.max(logits, axis=-1, keepdims=True)
    prob = xp.exp(logs)
    total = xp.sum(prob, axis=-1, keepdims=True)
    prob /= total
    logs -= xp.log(total)
    finite = xp.where(prob > 0, logs, xp.zeros((), logs.dtype))  # 0 log 0 is 0
    entropy = -row_dots(prob, finite)
    chosen = xp.take_along_axis(logs, actions[..., None], axis=-1)[..., 0]
    return (chosen, entropy), (prob, finite, entropy, actions)


@categorical.vjp
def categorical_vjp(xp, needs, g, prob, logs, entropy, actions):
    # d log pi(a) / dz = [a] - pi,  d entropy / dz = -pi (log pi + entropy)
    gchosen, gentropy = (each[..., None] for each in g)
    hot = actions[..., None] == xp.arange(prob.shape[-1])
    glogits = (logs + entropy[..., None]) * gentropy
    glogits += gchosen
    glogits *= prob
    return gchosen * hot - glogits, None


@categorical.defined_by
def categorical_definition(logits, actions):
    shifted = logits - p.max(logits, axis=-1, keepdims=True)
    logs = shifted - p.log(p.sum(p.exp(shifted), axis=-1, keepdims=True))
    hot = actions[..., None] == namespace(actions).arange(logits.shape[-1])
    chosen = p.sum(p.where(hot, logs, 0.0), axis=-1)
    prob = p.exp(logs)
    finite = p.where(prob.data.real > 0, logs, 0.0)  # 0 log 0 is 0
    return chosen, -p.sum(prob * finite, axis=-1)
