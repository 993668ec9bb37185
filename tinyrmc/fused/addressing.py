"""The memory of a differentiable neural computer: finding, writing, what came next."""

from ..autograd import primitives as p
from ..backend import gemm, namespace, row_dots
from .table import fused, plus


@fused("B H W", "B N W", "B H")
def content_weights(xp, keys, memory, strengths, *, epsilon=1e-6):
    """Content addressing: how much each of H keys looks at each of N words. (B, H, N)

    For each key the softmax over the words of strength * cosine(key, word). cosine(k,
    m) = k . m / (|k| |m| + epsilon) with |k|^2 = k . k + epsilon, which is smooth where
    k or m is zero.
    """
    key_norms = xp.sqrt(row_dots(keys, keys) + epsilon)[..., None]  # (B, H, 1)
    word_norms = xp.sqrt(row_dots(memory, memory) + epsilon)[:, None]  # (B, 1, N)
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
    # d cosine / d |k| = -cosine * scale * |m|, and d |k| / d k = k / |k|; same for m.
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
    return plus(xp, written, memory * kept), (memory, weights, erase, values, kept)


@erase_and_write.vjp
def erase_and_write_vjp(xp, needs, g, memory, weights, erase, values, kept):
    gkept = g * memory
    heads = range(weights.shape[1])
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
    new = plus(xp, weights[..., None] * precedence[..., None, :], new)
    _clear_diagonals(xp, new)
    return new, (links, weights, precedence)


@temporal_links.vjp
def temporal_links_vjp(xp, needs, g, links, weights, precedence):
    g = g.copy()
    _clear_diagonals(xp, g)
    lost = g * links
    ones = xp.ones(g.shape[-1], g.dtype)
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
