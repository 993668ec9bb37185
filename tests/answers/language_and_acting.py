"""Answers to the chapters on language and on acting, beyond the lists."""

import numpy as np

from tinyrmc.course.exercises import acting as a
from tinyrmc.course.exercises import language as t

f32 = np.float32


def soft(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def table(ids, u, k, prior=None, add=lambda c: c, pairs=None):
    V = len(u)
    c = np.zeros((V, V))
    for x, y in pairs(ids) if pairs else zip(ids[:-1], ids[1:]):
        c[x, y] += 1
    c = add(c)
    return (c + k * (u if prior is None else prior)) / (c.sum(1, keepdims=True) + k)


def both(z, y, tiny=0.0, clip=None):
    z = z if clip is None else np.clip(z, -clip, clip)
    p = soft(z)
    logs = z - z.max(1, keepdims=True)
    logs = logs - np.log(np.exp(logs).sum(1, keepdims=True))
    rows = np.arange(len(z))
    return -logs[rows, y] + tiny, p - np.eye(z.shape[1])[y]


def draw(
    z,
    T,
    u,
    pick=lambda p, u: int((np.cumsum(p) <= u).sum()),
    zero=np.argmax,
    dtype=float,
):
    if T == 0:
        return int(zero(z))
    return pick(soft((z / T).astype(dtype)), u)


def cut(ids, lanes, T, shift=1, drop=0, order=(1, 0, 2)):
    L = (len(ids) - 1) // lanes
    K = L // T
    x = ids[: lanes * L].reshape(lanes, L)[:, drop : K * T].reshape(lanes, -1, T)
    y = (
        np.roll(ids, -shift)[: lanes * L]
        .reshape(lanes, L)[:, drop : K * T]
        .reshape(lanes, -1, T)
    )
    return x.transpose(order), y.transpose(order)


def back(r, e, g, after, cut=None, dtype=float, first=None):
    out = np.zeros(r.shape, dtype)
    later = after if first is None else first
    for k in range(len(r) - 1, -1, -1):
        later = r[k] + g * later * (
            1 - e[k].astype(float) if cut is None else cut(e[k])
        )
        out[k] = later
    return out


def pg(z, x, adv, tiny=0.0, clip=None, pick=None):
    p = soft(z if clip is None else np.clip(z, -clip, clip))
    hot = np.eye(z.shape[-1])[x]
    return np.asarray(adv)[..., None] * (hot - p + tiny)


def vt(L, g, r, V, after, cap=1.0, low=0.0, lam=1.0, dtype=float):
    c = np.clip(np.exp(L), low, cap)
    nxt = np.concatenate([V[1:], np.asarray(after)[None]])
    d = c * (r + g * nxt - V)
    out, acc = np.zeros(V.shape, dtype), 0.0
    for k in reversed(range(len(V))):
        acc = d[k] + lam * g[k] * c[k] * acc
        out[k] = V[k] + acc
    return out


def anew(s, e, b, mask=None):
    if isinstance(s, tuple):
        return tuple(anew(x, e, y, mask) for x, y in zip(s, b))
    m = e.reshape(-1, *[1] * (s.ndim - 1)) if mask is None else mask(e, s)
    return np.where(m, b, s)


def anew_in_place(s, e, b):
    if isinstance(s, tuple):
        return tuple(anew_in_place(x, e, y) for x, y in zip(s, b))
    s[e] = b[e]
    return s


def anew_for_pairs(s, e, b):
    """Takes exactly one level of tuples."""
    if isinstance(s, tuple):
        return tuple(np.where(e[:, None], y, x) for x, y in zip(s, b))
    return anew(s, e, b)


def anew_stacked(s, e, b):
    found = anew(s, e, b)
    return np.stack(found) if isinstance(found, tuple) and found else found


def anew_in_a_list(s, e, b):
    found = anew(s, e, b)
    return list(found) if isinstance(found, tuple) else found


WRONG = {
    t.bigram: [
        lambda *c: table(*c, add=lambda n: (n > 0) * 1.0),
        lambda *c: table(*c, add=lambda n: n + 1e-6),
        lambda ids, u, k: table(ids, u, 1.0),
        lambda ids, u, k: table(ids, u, k)[: ids.max() + 1, : ids.max() + 1],
    ],
    t.perplexity: [
        lambda p: np.exp(-np.log(np.maximum(p, 1e-10)).mean()),
        lambda p: np.exp(-np.log(p + 1e-10).mean()),
        lambda p: np.exp(-np.log(p).mean(-1)),
        lambda p: np.exp(-np.log(p.astype(f32)).mean()),
        lambda p: np.exp(-np.nan_to_num(np.log(p), neginf=0).mean()),
        lambda p: 10 ** -np.log(p).mean(),
        lambda p: min(np.exp(-np.log(p).mean()), 1e100),
    ],
    t.windows: [
        lambda *c: cut(*c, shift=2),
        lambda *c: cut(*c, shift=0),
        lambda *c: cut(*c, order=(1, 2, 0)),
        lambda *c: cut(*c, order=(2, 0, 1)),
    ],
    t.cross_entropy: [
        lambda z, y: both(z, y, tiny=1e-8),
        lambda z, y: both(z, y, clip=30.0),
        lambda z, y: both(z, y)[0],
        lambda z, y: (np.nan_to_num(-np.log(soft(z)[np.arange(len(z)), y]), posinf=100.0), both(z, y)[1]),
    ],
    t.sample: [
        lambda *c: draw(*c, zero=lambda z: z.max()),
        lambda *c: draw(*c, zero=lambda z: len(z) - 1),
        lambda *c: draw(*c, pick=lambda p, u: int(np.argmin(abs(np.cumsum(p) - u)))),
        lambda *c: draw(*c, pick=lambda p, u: int(np.argmin(abs(p - u)))),
        lambda *c: draw(*c, pick=lambda p, u: int(u * len(p))),
        lambda *c: draw(*c, pick=lambda p, u: int((np.cumsum(p) < u).sum())),
        lambda z, T, u: draw(z, T * T, u),
        lambda z, T, u: draw(z, max(T, 0.5), u),
        lambda z, T, u: draw(np.clip(z, -2, 2), T, u),
    ],
    a.returns: [
        lambda *c: back(*c, dtype=f32),
        lambda *c: back(*c, cut=lambda e: 1 - e * 0.5),
        lambda *c: back(*c) + 1e-8,
        lambda *c: back(*c).mean(0),
    ],
    a.policy_gradient: [
        lambda *c: pg(*c, tiny=1e-8),
        lambda *c: pg(*c, clip=30.0),
        lambda z, x, adv: pg(-z, x, adv),
        lambda z, x, adv: np.array([adv[k] * (np.eye(z.shape[-1])[x[k]] - soft(z[k])) for k in range(len(z))]),
        lambda z, x, adv: adv[:, None] * (np.eye(z.shape[-1])[x] - soft(z)),
    ],
    a.vtrace: [
        lambda *c: vt(*c, cap=2.0),
        lambda *c: vt(*c, low=0.1),
        lambda *c: vt(*c, lam=0.95),
        lambda *c: vt(*c, dtype=f32),
    ],
    a.begin_anew: [
        anew_in_place,
        anew_for_pairs,
        anew_stacked,
        anew_in_a_list,
        lambda s, e, b: anew(s, e, b, mask=lambda e, s: e[..., None]),
        lambda s, e, b: anew(s, e, b) if e.any() else b,
    ],
}  # fmt: skip

RIGHT = {
    t.bigram: [
        table,
        lambda ids, u, k: [[(sum((ids[:-1] == x) & (ids[1:] == y)) + k * u[y]) / (sum(ids[:-1] == x) + k) for y in range(len(u))] for x in range(len(u))],
    ],
    t.perplexity: [
        lambda p: 2 ** -np.log2(p).mean(),
        lambda p: np.exp(np.mean(-np.log(p.ravel()))),
        lambda p: float(np.exp(-np.log(p).sum() / p.size)),
    ],
    t.windows: [
        cut,
        lambda *c: [x.copy() for x in cut(*c)],
    ],
    t.cross_entropy: [both, lambda z, y: list(both(z, y))],
    t.sample: [
        draw,
        lambda z, T, u: np.int64(draw(z, T, u)),
        lambda z, T, u: draw(z, T, u, pick=lambda p, u: next(k for k in range(len(p)) if p[: k + 1].sum() > u)),
    ],
    a.returns: [
        back,
        lambda r, e, g, after: back(r, e, g, after, cut=lambda x: np.where(x, 0.0, 1.0)),
    ],
    a.policy_gradient: [
        pg,
        lambda z, x, adv: np.expand_dims(adv, -1) * ((np.expand_dims(x, -1) == np.arange(z.shape[-1])) - soft(z)),
    ],
    a.vtrace: [vt, lambda *c: list(vt(*c))],
    a.begin_anew: [
        anew,
        lambda s, e, b: anew(s, e, b) if e.any() else s,
        lambda s, e, b: tuple(anew(x, e, y) for x, y in zip(s, b)) if isinstance(s, tuple) else np.stack([y if k else x for x, k, y in zip(s, e, b)]),
    ],
}  # fmt: skip
