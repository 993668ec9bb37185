"""The parts of a relational memory: attention over its slots, and gates."""

import math

from .. import equations
from ..autograd import primitives as p
from ..backend import gemm, readonly, row_dots
from .table import check_mask, fused, plus, sigmoid


def heads(xp, qkv, num_heads, key_size, num_queries=None):
    """q (B, H, Q, K), k (B, H, R, K) and v (B, H, R, V) as views of qkv.

    qkv is (B, R, H * (2K + V)), where each head's q|k|v lie side by side. The first
    `num_queries` rows ask; None: all R.
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
    if num_queries is not None and not 1 <= num_queries <= rows:
        raise ValueError(f"{num_queries} queries of {rows} rows")
    each = xp.swapaxes(qkv.reshape(batch, rows, num_heads, width // num_heads), 1, 2)
    q, k = each[:, :, :num_queries, :key_size], each[..., key_size : 2 * key_size]
    return q, k, each[..., 2 * key_size :]


@fused(
    "B rows columns",
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
    q, k, v = heads(xp, qkv, num_heads, key_size, num_queries)
    weights = gemm(q, xp.swapaxes(k, -1, -2))  # (B, H, Q, R)
    weights *= 1 / math.sqrt(key_size)
    if mask is not None:
        check_mask(mask, of_heads=True)
        xp.copyto(weights, -math.inf, where=~mask)
    # Over so few rows NumPy is many times faster with a maximum along the first axis,
    # and with a sum as a product.
    highest = xp.max(xp.ascontiguousarray(xp.moveaxis(weights, -1, 0)), axis=0)
    weights -= highest[..., None]
    weights = xp.exp(weights, out=weights)
    weights /= gemm(weights, xp.ones(weights.shape[-1], weights.dtype))[..., None]
    if trace is not None:
        trace["attention"] = readonly(xp, weights)  # backward needs them as they are
    return attended(xp, weights, v), (qkv, weights, num_heads, key_size)


def attended(xp, weights, v):
    """weights v, the heads side by side: (B, H, Q, R), (B, H, R, V) -> (B, Q, H V)."""
    batch, num_heads, queries, _ = weights.shape
    out = xp.empty((batch, queries, num_heads, v.shape[-1]), weights.dtype)
    gemm(weights, v, out=xp.swapaxes(out, 1, 2))
    return out.reshape(batch, queries, num_heads * v.shape[-1])


def _softmax_backward(xp, gw, weights, scale):
    """The gradient of the scores before their scale, in place of the weights' own."""
    gw -= row_dots(gw, weights)[..., None]
    gw *= weights
    gw *= scale


@attention.vjp
def attention_vjp(
    xp, needs, g, qkv, weights, num_heads, key_size, backward=_softmax_backward
):
    queries = weights.shape[2]
    q, k, v = heads(xp, qkv, num_heads, key_size, queries)
    g = g.reshape(*g.shape[:2], num_heads, v.shape[-1])
    g = xp.swapaxes(g, 1, 2)  # (B, H, Q, V)
    gw = gemm(g, xp.swapaxes(v, -1, -2))  # (B, H, Q, R)
    backward(xp, gw, weights, 1 / math.sqrt(key_size))
    # The three gradients are views: they are written where they belong.
    gqkv = xp.empty(qkv.shape, gw.dtype)
    gq, gk, gv = heads(xp, gqkv, num_heads, key_size)
    gemm(gw, k, out=gq[:, :, :queries])
    gq[:, :, queries:] = 0
    gemm(xp.swapaxes(gw, -1, -2), q, out=gk)
    gemm(xp.swapaxes(weights, -1, -2), g, out=gv)
    return gqkv, None


@attention.defined_by
def attention_definition(
    qkv, mask=None, num_heads=None, key_size=None, num_queries=None, trace=None
):
    batch, rows, width = qkv.shape
    heads = p.reshape(qkv, (batch, rows, num_heads, width // num_heads))
    heads = p.swapaxes(heads, 1, 2)  # (B, H, R, 2K + V)
    q = heads[..., :num_queries, :key_size]
    k, v = heads[..., key_size : 2 * key_size], heads[..., 2 * key_size :]
    if mask is None:
        weights = equations.attention_weights(p, q, k)  # (B, H, Q, R)
    else:
        check_mask(mask, of_heads=True)
        scores = q @ p.swapaxes(k, -1, -2) / math.sqrt(key_size)
        weights = equations.softmax(p, p.where(mask, scores, -math.inf))
    if trace is not None:
        trace["attention"] = weights.data
    out = p.swapaxes(weights @ v, 1, 2)  # (B, Q, H, V)
    return p.reshape(out, (batch, out.shape[1], num_heads * v.shape[-1]))


@fused(
    "B 1 G",
    "B N G",
    "B N F",
    "B N F",
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
    """Eq 7 with the released candidate: i * tanh(candidate) + f * memory.

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
    gates = sigmoid(xp, from_input + from_memory)  # (B, N, G)
    i, f = gates[..., :half], gates[..., half:]
    if trace is not None:
        trace["input_gate"], trace["forget_gate"] = readonly(xp, i), readonly(xp, f)
    squashed = xp.tanh(candidate)
    return plus(xp, i * squashed, f * memory), (gates, squashed, memory)


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
    i = z[..., :half] + input_bias
    f = z[..., half:]
    if trace is not None:
        trace["input_gate"] = equations.sigmoid(p, i).data
        trace["forget_gate"] = equations.sigmoid(p, f + forget_bias).data
    return equations.update_memory(p, f, i, memory, p.tanh(candidate), forget_bias)
