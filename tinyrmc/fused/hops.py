"""A hop of a memory network: sum_i p_i c_i with p = softmax_i(u . m_i)."""

import math

from ..autograd import primitives as p
from ..autograd.gradients import DeferredMatmul
from ..backend import as_rows, gemm, namespace, readonly, row_dots
from .table import check_mask, fused, plus


@fused("R B d", "R W d", "R W d", "B M W", "B M", indices=(4,))
def memory_hop(xp, u, A, C, rows, mask=None, *, linear=False, trace=None):
    """The outputs o of R memory networks with the same memories: (R, B, d).

    Network r has memories m = rows A and contents c = rows C, which are not computed:
    sum_i p_i c_i with p = softmax_i(u . m_i), or p_i = u . m_i if `linear`. A dict
    `trace` receives p (B, R, M) as "weights". Where `mask` is False p is 0; it has no
    effect on a linear hop.
    """
    v = gemm(u, xp.swapaxes(A, 1, 2))  # (R, B, W)
    weights = gemm(xp.swapaxes(v, 0, 1), xp.swapaxes(rows, 1, 2))  # (B, R, M)
    if not linear:
        if mask is not None:
            check_mask(mask)
            xp.copyto(weights, -math.inf, where=~mask[:, None])
        weights -= xp.max(weights, axis=-1, keepdims=True)
        weights = xp.exp(weights, out=weights)
        weights /= xp.sum(weights, axis=-1, keepdims=True)
    if trace is not None:
        trace["weights"] = readonly(xp, weights)  # backward needs them
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
    if mask is not None and not linear:
        check_mask(mask)
        scores = p.where(mask, scores, -math.inf)
    weights = scores if linear else p.softmax(scores)
    if trace is not None:
        trace["weights"] = namespace(weights.data).swapaxes(weights.data, 0, 1)
    return p.sum(p.expand_dims(weights, -1) * contents, axis=2)


@fused(
    *("B T d", "B L d", "N d", "B L d", "N d", "B L"),
    indices=(5,),
    hint="L is N + T - 1",
)
def sliding_hop(xp, u, m, m_ages, c, c_ages, mask=None, *, trace=None):
    """The outputs o for T words in a row, of the N memories up to each: (B, T, d).

    Word t sees the memories t .. t + N - 1, the oldest first, so that neighbours share
    all but one. With p_ti = softmax_i(u_t . (m_{t+i} + m_ages_i)) it finds
    sum_i p_ti (c_{t+i} + c_ages_i). Where `mask` is False p is 0. A dict `trace`
    receives p (B, T, N) as "weights".
    """
    if m.shape[1] != len(m_ages) + u.shape[1] - 1:
        raise ValueError(f"{m.shape[1]} words in a row")
    of_words = _windows(xp, gemm(u, xp.swapaxes(m, 1, 2)))  # (B, T, N)
    weights = plus(xp, gemm(u, m_ages.T), of_words)
    if mask is not None:
        shape = *weights.shape[:2], mask.shape[1]
        seen = _windows(xp, xp.broadcast_to(mask[:, None], shape))
        check_mask(seen)
        xp.copyto(weights, -math.inf, where=~seen)
    weights -= xp.max(weights, axis=-1, keepdims=True)
    weights = xp.exp(weights, out=weights)
    weights /= xp.sum(weights, axis=-1, keepdims=True)
    if trace is not None:
        trace["weights"] = readonly(xp, weights)  # backward needs them
    spread = _spread(xp, weights)
    found = plus(xp, gemm(spread, c), gemm(weights, c_ages))
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
    gm_ages = DeferredMatmul(as_rows(gw), as_rows(u))
    gc_ages = DeferredMatmul(as_rows(weights), as_rows(g))
    return gu, gm, gm_ages, gc, gc_ages, None


@sliding_hop.defined_by
def sliding_hop_definition(u, m, m_ages, c, c_ages, mask=None, trace=None):
    N = m_ages.shape[0]
    found = []
    weights = []
    for t, query in enumerate(p.unstack(u, axis=1)):
        query = p.expand_dims(query, 1)  # (B, 1, d)
        scores = p.sum((m[:, t : t + N] + m_ages) * query, axis=-1)  # (B, N)
        if mask is not None:
            check_mask(mask[:, t : t + N])
            scores = p.where(mask[:, t : t + N], scores, -math.inf)
        weights.append(p.softmax(scores))
        contents = c[:, t : t + N] + c_ages
        found.append(p.sum(p.expand_dims(weights[-1], -1) * contents, axis=1))
    if trace is not None:
        trace["weights"] = p.stack(weights, axis=1).data
    return p.stack(found, axis=1)


def _windows(xp, whole):
    """The places t .. t + L - T of each row t of (B, T, L): (B, T, L - T + 1).

    If the rows are laid out anew, each longer by one, these are their beginnings.
    """
    B, T, L = whole.shape
    more = xp.zeros((B, T), whole.dtype)
    flat = xp.concatenate([whole.reshape(B, T * L), more], axis=1)
    return flat.reshape(B, T, L + 1)[:, :, : L - T + 1]


def _spread(xp, windows):
    """The reverse: (B, T, N) -> (B, T, N + T - 1), with zeros elsewhere."""
    B, T, N = windows.shape
    flat = xp.zeros((B, T, N + T), windows.dtype)
    flat[:, :, :N] = windows
    return flat.reshape(B, T * (N + T))[:, :-T].reshape(B, T, N + T - 1)
