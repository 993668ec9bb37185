"""Fused primitives: the few operations a recurrent memory spends its time in, each with
a derivative worked out by hand.

A fused primitive is one tape entry where a composition would be ten, and it saves the
least that its backward needs. Each one carries its own definition in basic primitives,
`op.reference(...)`: that is the text to read, the oracle in the tests, and, inside
`with reference():`, what runs instead.

All GEMMs go through `backend.gemm`; the rest of each body is NumPy's vocabulary on
`xp`, so the same lines run on CuPy. Where the head of a body names a kernel, that takes
the place of the body and its vjp on a GPU, if it supports the call.
"""

from __future__ import annotations

import math
from contextlib import contextmanager

import numpy as np

from . import kernels
from . import primitives as p
from .backend import gemm, namespace
from .engine import Primitive

_mode = {"reference": False}


class Fused(Primitive):
    """A primitive that can say what it means: `reference` is the same function composed
    of basic primitives.

    `kernel` takes the place of the array body and its vjp on a GPU: an override from
    kernels/, or None.
    """

    composed = None

    def __init__(self, forward, kernel=None, indices=(), hint=""):
        super().__init__(forward, indices, hint)
        self.kernel = kernel

    def override(self, xp, arrays, static):
        """The kernel, where there is one and it supports the call; else the array
        bodies.
        """
        return (
            self.kernel
            if self.kernel is not None
            and self.kernel.takes(xp, arrays, self.indices, static)
            else self
        )

    def reference(self, *args, **static):
        """The same values and gradients from basic primitives: slower, plainer."""
        return self.composed(*args, **static)

    def defined_by(self, composition):
        """Decorator that sets `reference`."""
        self.composed = composition
        return self

    def __call__(self, *args, **static):
        return (
            self.composed(*args, **static)
            if _mode["reference"]
            else super().__call__(*args, **static)
        )


def fused(forward=None, *, kernel=None, indices=(), hint=""):
    """Decorator: put a fused primitive into the table. See `Fused`."""
    return (
        Fused(forward, kernel, indices, hint)
        if forward
        else lambda f: Fused(f, kernel, indices, hint)
    )


@contextmanager
def reference():
    """Run every fused primitive as its reference composition, in all threads, until the
    end of the block.
    """
    before, _mode["reference"] = _mode["reference"], True
    try:
        yield
    finally:
        _mode["reference"] = before


def _rows(x):
    """x as a matrix, all axes but the last in one: a view where x is contiguous."""
    return x.reshape(-1, x.shape[-1])


def _plus(xp, fresh, b):
    """fresh + b, written over the array `fresh`, unless only b is complex, as in a
    complex step of b alone.
    """
    return xp.add(fresh, b, out=fresh if fresh.dtype == b.dtype else None)


def _column_sums(xp, rows):
    """The sum of a matrix over its rows, as a product with ones: three times as fast as
    `sum`.
    """
    return gemm(xp.ones(len(rows), rows.dtype), rows)


# --- linear ---------------------------------------------------------------------------


@fused(
    hint="weight is (in, out), its first axis as long as the last of x; bias is (out,)"
)
def linear(xp, x, weight, bias=None, *, relu=False):
    """x @ weight + bias, with an optional ReLU. x (..., in), weight (in, out), bias
    (out) or None.
    """
    y = gemm(x, weight)  # (..., out)
    if bias is not None:
        y = _plus(xp, y, bias)
    if relu:
        y = xp.maximum(
            y, xp.zeros(y.shape[-1], y.dtype), out=y
        )  # a row of zeros: NumPy is slow with a scalar here
    return y, (x, weight, y if relu else None)


@linear.vjp
def _(xp, needs, g, x, weight, y):
    if y is not None:
        g = g * (y > 0)
    rows = _rows(g)  # (R, out)
    return (
        gemm(g, weight.T) if needs[0] else None,
        gemm(_rows(x).T, rows) if needs[1] else None,
        _column_sums(xp, rows) if needs[2] else None,
    )


@linear.defined_by
def _(x, weight, bias=None, relu=False):
    y = p.matmul(x, weight)
    y = y if bias is None else y + bias
    return p.maximum(y, 0) if relu else y


# --- layer norm -----------------------------------------------------------------------


@fused(
    kernel=kernels.layer_norm,
    hint="gain and offset are as long as the last axis of x; the residual has the "
    "shape of x",
)
def layer_norm(xp, x, gain, offset, residual=None, *, epsilon=1e-5):
    """Layer normalisation of x + residual (or of x, residual None) over the last axis:
    each row for itself, biased variance.
    """
    z = x if residual is None else x + residual  # (..., F)
    width = z.shape[-1]
    averaging = xp.full(
        width, 1 / width, z.dtype
    )  # a mean as a product with this is several times faster than `mean`
    d = xp.subtract(
        z, gemm(z, averaging)[..., None], out=None if residual is None else z
    )
    scale = (
        1 / xp.sqrt(xp.einsum("...i,...i->...", d, d) / width + epsilon)[..., None]
    )  # (..., 1)
    d *= scale
    return _plus(xp, d * gain, offset), (d, scale, gain, residual is not None)


@layer_norm.vjp
def _(xp, needs, g, normed, scale, gain, has_residual):
    # With n = normed and h = g * gain: gx = scale * (h - mean(h) - n * mean(h * n)), the
    # projection of h off the constants and off n.
    weights = gain / normed.shape[-1]  # g @ weights is mean(h)
    gn = g * normed
    gx = g * gain
    gx -= gemm(g, weights)[..., None]
    ggain = _column_sums(xp, _rows(gn)) if needs[1] else None
    along = gemm(gn, weights)[..., None]
    gx -= xp.multiply(normed, along, out=gn)
    gx *= scale
    goffset = _column_sums(xp, _rows(g)) if needs[2] else None
    return (
        gx if needs[0] else None,
        ggain,
        goffset,
        gx if has_residual and needs[3] else None,
    )


@layer_norm.defined_by
def _(x, gain, offset, residual=None, epsilon=1e-5):
    z = x if residual is None else x + residual
    d = z - p.mean(z, axis=-1, keepdims=True)
    return d / p.sqrt(p.mean(d * d, axis=-1, keepdims=True) + epsilon) * gain + offset


# --- attention over a few slots -------------------------------------------------------


def _heads(xp, qkv, num_heads, key_size):
    """q (B, H, R, K), k (B, H, R, K), v (B, H, R, V) as views of qkv (B, R, H * (2K +
    V)), where each head's q|k|v lie side by side.
    """
    batch, rows, width = qkv.shape
    if width % num_heads or width // num_heads <= 2 * key_size:
        raise ValueError(
            f"{width} columns do not hold {num_heads} heads of q|k|v with key_size "
            f"{key_size}; need heads * (2 * key + value)"
        )
    split = xp.swapaxes(qkv.reshape(batch, rows, num_heads, width // num_heads), 1, 2)
    return (
        split[..., :key_size],
        split[..., key_size : 2 * key_size],
        split[..., 2 * key_size :],
    )


@fused(
    kernel=kernels.attention,
    indices=(1,),
    hint="qkv is (B, rows, heads * (2 * key_size + value_size)), q|k|v contiguous "
    "inside each head; a mask is bool and broadcasts to "
    "(B, heads, queries, rows)",
)
def attention(xp, qkv, mask=None, *, num_heads, key_size, num_queries=None, trace=None):
    """Multi-head dot-product attention (eq 1) from joint projections: softmax(q k^T /
    sqrt(K)) v, heads side by side.

    qkv (B, R, H * (2K + V)) -> (B, Q, H * V): the first `num_queries` rows ask
    (default: all R), all rows answer. The weights (B, H, Q, R) are put into the dict
    `trace` as "attention", if there is one. Where `mask`, bool and broadcastable to the
    weights, is False, they are zero, and the others of the row still sum to 1. A row
    that may attend to nothing is an error on NumPy; on a GPU, where looking would make
    the host wait, it is NaN.
    """
    q, k, v = _heads(xp, qkv, num_heads, key_size)
    q = q[:, :, :num_queries]
    weights = gemm(q, xp.swapaxes(k, -1, -2))  # (B, H, Q, R)
    weights *= 1 / math.sqrt(key_size)
    if mask is not None:
        _check_mask(mask, weights)
        xp.copyto(weights, -math.inf, where=~mask)
    # Over so few rows NumPy is many times faster with a maximum along the first axis, and
    # with a sum as a product.
    weights -= xp.max(xp.ascontiguousarray(xp.moveaxis(weights, -1, 0)), axis=0)[
        ..., None
    ]
    weights = xp.exp(weights, out=weights)
    weights /= gemm(weights, xp.ones(weights.shape[-1], weights.dtype))[..., None]
    if trace is not None:
        trace["attention"] = weights
    out = xp.empty(
        (qkv.shape[0], q.shape[2], num_heads, v.shape[-1]), weights.dtype
    )  # (B, Q, H, V)
    gemm(weights, v, out=xp.swapaxes(out, 1, 2))
    return out.reshape(*out.shape[:2], -1), (qkv, weights, num_heads, key_size)


@attention.vjp
def _(xp, needs, g, qkv, weights, num_heads, key_size):
    q, k, v = _heads(xp, qkv, num_heads, key_size)
    queries = weights.shape[2]
    g = xp.swapaxes(g.reshape(*g.shape[:2], num_heads, -1), 1, 2)  # (B, H, Q, V)
    gw = gemm(g, xp.swapaxes(v, -1, -2))  # (B, H, Q, R)
    gw -= xp.einsum("...i,...i->...", gw, weights)[..., None]
    gw *= weights
    gw *= 1 / math.sqrt(key_size)
    gqkv = xp.empty(qkv.shape, gw.dtype)
    gq, gk, gv = _heads(
        xp, gqkv, num_heads, key_size
    )  # views: the three gradients are written where they belong
    gemm(gw, k, out=gq[:, :, :queries])
    gq[:, :, queries:] = 0
    gemm(xp.swapaxes(gw, -1, -2), q[:, :, :queries], out=gk)
    gemm(xp.swapaxes(weights, -1, -2), g, out=gv)
    return gqkv, None


def _check_mask(mask, weights):
    if mask.dtype != bool:
        raise TypeError(f"the mask is {mask.dtype}, not bool")
    if isinstance(mask, np.ndarray) and not mask.any(axis=-1).all():
        raise ValueError("the mask leaves a row nothing to attend to")


@attention.defined_by
def _(qkv, mask=None, num_heads=None, key_size=None, num_queries=None, trace=None):
    batch, rows, width = qkv.shape
    split = p.swapaxes(
        p.reshape(qkv, (batch, rows, num_heads, width // num_heads)), 1, 2
    )  # (B, H, R, 2K + V)
    q, k, v = (
        split[:, :, :num_queries, :key_size],
        split[..., key_size : 2 * key_size],
        split[..., 2 * key_size :],
    )
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
    kernel=kernels.rmc_gates,
    hint="the gates have 2F columns ('unit') or 2 ('memory'); candidate and memory "
    "are (B, N, F)",
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

    Pre-activations: from_input (B, 1, G) + from_memory (B, N, G), input gate in the
    first half of the columns, forget gate in the second; G = 2F, or 2 for one scalar
    gate a slot. i = sigmoid(. + input_bias), f = sigmoid(. + forget_bias). candidate
    and memory (B, N, F). The gates are put into the dict `trace`, if there is one.
    """
    half = from_input.shape[-1] // 2
    from_input = xp.concatenate(
        [from_input[..., :half] + input_bias, from_input[..., half:] + forget_bias],
        axis=-1,
    )  # small: one row
    gates = _sigmoid(xp, from_input + from_memory)  # (B, N, G)
    i, f = gates[..., :half], gates[..., half:]
    if trace is not None:
        trace["input_gate"], trace["forget_gate"] = i, f
    squashed = xp.tanh(candidate)
    return _plus(xp, i * squashed, f * memory), (gates, squashed, memory)


@rmc_gates.vjp
def _(xp, needs, g, gates, squashed, memory):
    half = gates.shape[-1] // 2
    i, f = gates[..., :half], gates[..., half:]
    gz = xp.empty(gates.shape, g.dtype)
    if half == g.shape[-1]:
        xp.multiply(g, squashed, out=gz[..., :half])
        xp.multiply(g, memory, out=gz[..., half:])
    else:  # one gate a slot: it moved all F units
        gz[..., 0] = xp.einsum("...i,...i->...", g, squashed)
        gz[..., 1] = xp.einsum("...i,...i->...", g, memory)
    slope = gates * gates
    gz *= xp.subtract(gates, slope, out=slope)
    gc = None
    if needs[2]:
        slope = squashed * squashed
        gc = g * i
        gc *= xp.subtract(1, slope, out=slope)
    return gz, gz, gc, g * f if needs[3] else None


@rmc_gates.defined_by
def _(
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
    i, f = p.sigmoid(z[..., :half] + input_bias), p.sigmoid(z[..., half:] + forget_bias)
    if trace is not None:
        trace["input_gate"], trace["forget_gate"] = i.data, f.data
    return i * p.tanh(candidate) + f * memory


@fused(hint="z is (B, 4 * hidden), the cell (B, hidden)")
def lstm_gates(xp, z, cell, *, forget_bias=1.0):
    """The LSTM's element-wise half: pre-activations z (B, 4H) in the order i, j, f, o
    and cell (B, H) -> hidden, cell.

    c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j);  h' = sigmoid(o) tanh(c').
    """
    size = cell.shape[-1]
    i, f = (
        _sigmoid(xp, z[..., :size] + 0),
        _sigmoid(xp, z[..., 2 * size : 3 * size] + forget_bias),
    )
    j, o = xp.tanh(z[..., size : 2 * size]), _sigmoid(xp, z[..., 3 * size :] + 0)
    new = f * cell + i * j
    squashed = xp.tanh(new)
    return (o * squashed, new), (i, j, f, o, cell, squashed)


@lstm_gates.vjp
def _(xp, needs, g, i, j, f, o, cell, squashed):
    gh, gnew = g
    gnew = gnew + gh * o * (1 - squashed * squashed)
    gz = xp.concatenate(
        [
            gnew * j * (i - i * i),
            gnew * i * (1 - j * j),
            gnew * cell * (f - f * f),
            gh * squashed * (o - o * o),
        ],
        axis=-1,
    )
    return gz, gnew * f if needs[1] else None


@lstm_gates.defined_by
def _(z, cell, forget_bias=1.0):
    size = cell.shape[-1]
    i, j, f, o = (z[..., k * size : (k + 1) * size] for k in range(4))
    new = p.sigmoid(f + forget_bias) * cell + p.sigmoid(i) * p.tanh(j)
    return p.sigmoid(o) * p.tanh(new), new


# --- the memory of a differentiable neural computer -----------------------------------


@fused(hint="keys (B, H, W), memory (B, N, W), strengths (B, H)")
def content_weights(xp, keys, memory, strengths, *, epsilon=1e-6):
    """Content addressing: for each of H keys the softmax, over N words of memory, of
    strength * cosine(key, word). (B, H, N)

    cosine(k, m) = k . m / (|k| |m| + epsilon) with |k|^2 = k . k + epsilon, which is
    smooth where k or m is zero.
    """
    key_norms = xp.sqrt(xp.einsum("bhw,bhw->bh", keys, keys) + epsilon)[
        ..., None
    ]  # (B, H, 1)
    word_norms = xp.sqrt(xp.einsum("bnw,bnw->bn", memory, memory) + epsilon)[
        :, None
    ]  # (B, 1, N)
    scale = 1 / (key_norms * word_norms + epsilon)  # (B, H, N)
    cosine = gemm(keys, xp.swapaxes(memory, -1, -2)) * scale
    weights = cosine * strengths[..., None]
    weights = xp.exp(weights - xp.max(weights, axis=-1, keepdims=True))
    weights /= xp.sum(weights, axis=-1, keepdims=True)
    return weights, (
        keys,
        memory,
        strengths,
        key_norms,
        word_norms,
        scale,
        cosine,
        weights,
    )


@content_weights.vjp
def _(
    xp, needs, g, keys, memory, strengths, key_norms, word_norms, scale, cosine, weights
):
    gw = g * weights
    gw -= weights * xp.sum(gw, axis=-1, keepdims=True)  # of strength * cosine
    gcosine = gw * strengths[..., None]
    gdot = gcosine * scale
    # d cosine / d |k| = -cosine * scale * |m|, and d |k| / d k = k / |k|; the same for m.
    along = gdot * cosine
    of_keys = (
        xp.sum(along * word_norms, axis=-1, keepdims=True) / key_norms
    )  # (B, H, 1)
    of_words = (xp.sum(along * key_norms, axis=1, keepdims=True) / word_norms)[
        :, 0, :, None
    ]  # (B, N, 1)
    gmemory = None
    if needs[1]:
        gmemory = gemm(xp.swapaxes(gdot, -1, -2), keys)
        gmemory -= of_words * memory
    return gemm(gdot, memory) - of_keys * keys, gmemory, xp.sum(gw * cosine, axis=-1)


@content_weights.defined_by
def _(keys, memory, strengths, epsilon=1e-6):
    key_norms = p.sqrt(p.sum(p.square(keys), axis=-1, keepdims=True) + epsilon)
    word_norms = p.swapaxes(
        p.sqrt(p.sum(p.square(memory), axis=-1, keepdims=True) + epsilon), -1, -2
    )
    cosine = p.matmul(keys, p.swapaxes(memory, -1, -2)) / (
        key_norms * word_norms + epsilon
    )
    return p.softmax(p.expand_dims(strengths, -1) * cosine)


@fused(hint="memory (B, N, W), weights (B, H, N), erase and values (B, H, W)")
def erase_and_write(xp, memory, weights, erase, values):
    """Every word loses what the H heads erase and gains what they write: memory *
    prod_h (1 - w_h e_h^T) + sum_h w_h v_h^T. (B, N, W)
    """
    lost = [
        _outer(weights[:, h], erase[:, h]) for h in range(weights.shape[1])
    ]  # each (B, N, W)
    kept = _kept(xp, lost)
    return _plus(xp, gemm(xp.swapaxes(weights, 1, 2), values), memory * kept), (
        memory,
        weights,
        erase,
        values,
        kept,
    )


@erase_and_write.vjp
def _(xp, needs, g, memory, weights, erase, values, kept):
    gkept, heads = g * memory, range(weights.shape[1])
    gweights, gerase = (
        gemm(values, xp.swapaxes(g, 1, 2)),
        xp.empty(erase.shape, g.dtype),
    )
    for h in heads:
        others = [
            _outer(weights[:, k], erase[:, k]) for k in heads if k != h
        ]  # a product without one factor: dividing fails at zero
        glost = gkept * _kept(xp, others) if others else gkept
        gweights[:, h] -= gemm(glost, erase[:, h, :, None])[..., 0]
        gerase[:, h] = -gemm(weights[:, h, None], glost)[:, 0]
    return g * kept if needs[0] else None, gweights, gerase, gemm(weights, g)


@erase_and_write.defined_by
def _(memory, weights, erase, values):
    columns, rows = (
        p.expand_dims(weights, -1),
        p.expand_dims(erase, -2),
    )  # (B, H, N, 1), (B, H, 1, W)
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


@fused(hint="links (B, H, N, N), weights and precedence (B, H, N)")
def temporal_links(xp, links, weights, precedence):
    """How much word i was written right after word j: L_ij <- (1 - w_i - w_j) L_ij +
    w_i p_j, the diagonal zero. (B, H, N, N)

    weights w are those of this write, precedence p says how much each word was written
    last before it; one set of links for each head.
    """
    new = ((1 - weights)[..., None] - weights[..., None, :]) * links
    new = _plus(xp, weights[..., None] * precedence[..., None, :], new)
    _clear_diagonals(xp, new)
    return new, (links, weights, precedence)


@temporal_links.vjp
def _(xp, needs, g, links, weights, precedence):
    g = g.copy()
    _clear_diagonals(xp, g)
    lost, ones = g * links, xp.ones(g.shape[-1], g.dtype)
    gweights = (
        gemm(g, precedence[..., None])[..., 0] - gemm(lost, ones) - gemm(ones, lost)
    )
    gprecedence = gemm(weights[..., None, :], g)[..., 0, :]
    if needs[0]:
        g *= (1 - weights)[..., None] - weights[..., None, :]
    return g if needs[0] else None, gweights, gprecedence


@temporal_links.defined_by
def _(links, weights, precedence):
    w_i, w_j, p_j = (
        p.expand_dims(weights, -1),
        p.expand_dims(weights, -2),
        p.expand_dims(precedence, -2),
    )
    others = 1 - namespace(w_i.data).eye(weights.shape[-1], dtype=weights.dtype)
    return ((1 - w_i - w_j) * links + w_i * p_j) * others


def _clear_diagonals(xp, matrices):
    """Zeros on the diagonal of each matrix of a stack (..., N, N), in place."""
    k = xp.arange(matrices.shape[-1])
    matrices[..., k, k] = 0


# --- loss -----------------------------------------------------------------------------


@fused(
    kernel=kernels.softmax_cross_entropy,
    indices=(1,),
    hint="targets are integers from 0 to the number of classes, one for each row of "
    "logits",
)
def softmax_cross_entropy(xp, logits, targets):
    """-log softmax(logits)[target] in nats, one value a row: logits (..., C), integer
    targets (...) -> (...).

    Takes logits: a softmax before this one would flatten the gradients. A target out of
    range is an error on NumPy. On a GPU, looking would
    make the host wait: the kernel gives its row a loss and a gradient of NaN, with
    which an optimizer refuses the step; this array body wraps it silently.
    """
    if targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"targets of shape {targets.shape} for logits of shape {logits.shape}"
        )
    if isinstance(targets, np.ndarray) and targets.size and targets.min() < 0:
        raise ValueError(
            f"target {targets.min()} is negative; leave padding out with a weight of "
            "zero, not with a label of its own"
        )
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    chosen = xp.take_along_axis(shifted, targets[..., None], axis=-1)[..., 0]
    prob = xp.exp(shifted)
    total = xp.sum(prob, axis=-1)
    prob /= total[..., None]
    return xp.log(total) - chosen, (prob, targets)


@softmax_cross_entropy.vjp
def _(xp, needs, g, prob, targets):
    hot = targets[..., None] == xp.arange(prob.shape[-1])
    return (prob - hot) * g[..., None], None


@softmax_cross_entropy.defined_by
def _(logits, targets):
    shifted = logits - p.max(logits, axis=-1, keepdims=True)
    xp = namespace(shifted.data)
    hot = targets[..., None] == xp.arange(logits.shape[-1])
    return p.log(p.sum(p.exp(shifted), axis=-1)) - p.sum(shifted * hot, axis=-1)
