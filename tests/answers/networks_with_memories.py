"""Answers to the chapter on memory networks, beyond the lists."""

import numpy as np

from tinyrmc.course.exercises import memory_networks as a

f32 = np.float32


def T(x):
    return np.swapaxes(x, -1, -2)


def soft(x, axis=-1, tiny=0.0, clip=None):
    z = x - x.max(axis=axis, keepdims=True)
    e = np.exp(z if clip is None else np.maximum(z, clip))
    return e / (e.sum(axis=axis, keepdims=True) + tiny)


def look(u, m, c, soft=soft):
    p = soft(np.einsum("...k,...ik->...i", u, m))
    return p, np.einsum("...i,...ik->...k", p, c)


def grads(u, m, c, g, gp=None, soft=soft):
    p = soft(np.einsum("...k,...ik->...i", u, m))
    q = np.einsum("...k,...ik->...i", g, c)
    s = p * (q - (p * q).sum(-1, keepdims=True)) if gp is None else gp(p, q)
    return (
        np.einsum("...i,...ik->...k", s, m),
        s[..., None] * u[..., None, :],
        p[..., None] * g[..., None, :],
    )


def code(
    J,
    d,
    word=lambda j, J: j / J,
    unit=lambda k, d: k / d,
    mix=lambda j, k: (1 - j) - k * (1 - 2 * j),
):
    j, k = np.arange(1, J + 1)[:, None], np.arange(1, d + 1)[None]
    return mix(word(j, J), unit(k, d)) + np.zeros((J, d))


def newest(told, N, pad=0, order=-1, first=0, dtype=int):
    out = np.full(N, pad, dtype)
    recent = told[::order][:N]
    out[first : first + len(recent)] = recent[: N - first]
    return out


def stack(tables, M, q, hops=None, look=look, last=None, begin=None):
    u = q @ tables[0 if begin is None else begin]
    for A, C in list(zip(tables[:-1], tables[1:]))[:hops]:
        _, o = look(u, M @ A, M @ C)
        u = u + o
    return u @ (tables[-1] if last is None else tables[last]).T


def turns(A, C, B, W, H, K, M, q, step=lambda u, o, H: u @ H.T + o, look=look):
    u = q @ B
    for _ in range(K):
        _, o = look(u, M @ A, M @ C)
        u = step(u, o, H)
    return u @ W.T


def hit(p, n, facts, number=lambda n, k: n - 1 - k, pick=np.argmax):
    out = np.zeros(p.shape[1])
    for b in range(len(p)):
        for k in range(p.shape[1]):
            out[k] += number(n[b], pick(p[b, k])) in facts[b]
    return out / len(p)


WRONG = {
    a.hop: [
        lambda u, m, c: look(u, m, c, soft=lambda s: soft(s, tiny=1e-6)),
        lambda u, m, c: look(u, m, c, soft=lambda s: soft(s, clip=-5.0)),
        lambda u, m, c: look(u, m, c, soft=lambda s: soft(np.clip(s, -20, 20))),
        lambda u, m, c: (soft(m @ u), soft(m @ u) @ c) if u.ndim == 1 else (soft(np.einsum("bk,bik->bi", u, m)), look(u, m, c)[1]),
    ],
    a.hop_backward: [
        lambda *c: grads(*c, soft=lambda s: soft(s, tiny=1e-6)),
        lambda *c: grads(*c, soft=lambda s: soft(s, axis=0)),
        lambda *c: grads(*c, gp=lambda p, q: p * (q - q.max(-1, keepdims=True))),
        lambda *c: grads(*c, gp=lambda p, q: p * (1 - p) * (q - q.mean())),
    ],
    a.position_encoding: [
        lambda J, d: code(J, d).astype(f32),
        lambda J, d: code(J, d, mix=lambda j, k: (1 - j) - k * (1 + 2 * j)),
        lambda J, d: code(J, d, mix=lambda j, k: (1 - j) * (1 - k)),
        lambda J, d: code(J, d, mix=lambda j, k: 1 - (j - k * (1 - 2 * j))),
    ],
    a.newest_first: [
        lambda told, N: newest(told, N, dtype=float),
        lambda told, N: newest(told, N, dtype=str),
        lambda told, N: newest(told, N, order=1),
        lambda told, N: list(told[::-1]) + [0] * (N - len(told)),
    ],
    a.adjacent: [
        lambda t, M, q: stack(t, M, q, hops=1),
        lambda t, M, q: stack(t, M, q, hops=2) if len(t) > 3 else stack(t, M, q) * 2,
        lambda t, M, q: stack(t, M, q, look=lambda u, m, c: look(u, m, c, soft=lambda s: soft(s, axis=0))),
        lambda t, M, q: stack(t, M, q, look=lambda u, m, c: look(u, m, c, soft=lambda s: np.exp(s) / np.exp(s).sum(-1, keepdims=True))),
        lambda t, M, q: np.stack([stack(t, x, y) for x, y in zip(M, q)]) if q.ndim == 2 else stack(t, M, q) * (q.ndim < 3),
    ],
    a.layerwise: [
        lambda *c: turns(*c, step=lambda u, o, H: (u + o) @ H),
        lambda *c: turns(*c, step=lambda u, o, H: u * np.diag(H) + o),
        lambda *c: turns(*c, step=lambda u, o, H: u @ H.T - o),
        lambda *c: turns(*c, step=lambda u, o, H: u @ np.linalg.inv(H).T + o),
    ],
    a.association: [
        lambda m, c: np.einsum("ik,il->kl", m, c),
        lambda m, c: np.einsum("bik,bil->bkl", m, c),
        lambda m, c: m.transpose(0, 2, 1) @ c if m.ndim == 3 else m.T @ c,
        lambda m, c: (T(m) @ c).astype(f32),
    ],
    a.hits: [
        lambda p, n, f: hit(p, n, f, number=lambda n, k: k % max(n, 1)),
        lambda p, n, f: hit(p, n, f, number=lambda n, k: abs(n - 1 - k)),
        lambda p, n, f: hit(p, n, f, number=lambda n, k: n - k),
        lambda p, n, f: hit(p, n, f, pick=np.argmin),
    ],
}  # fmt: skip

RIGHT = {
    a.hop: [look, lambda *c: list(look(*c))],
    a.hop_backward: [grads, lambda *c: [*grads(*c)]],
    a.position_encoding: [
        code,
        lambda J, d: code(J, d, mix=lambda j, k: (1 - k) - j * (1 - 2 * k)),
    ],
    a.newest_first: [
        newest,
        lambda told, N: np.concatenate([told[::-1][:N], np.zeros(max(N - len(told), 0), int)]),
        lambda told, N: np.pad(told[-N:][::-1], (0, max(N - len(told), 0))),
        lambda told, N: newest(told, N, dtype=np.int32),
    ],
    a.adjacent: [stack, lambda t, M, q: np.einsum("...d,vd->...v", stack([*t[:-1], t[-1]], M, q) @ np.eye(len(t[0])), np.eye(len(t[0])))],
    a.layerwise: [turns],
    a.association: [
        lambda m, c: np.einsum("...ik,...il->...kl", m, c),
        lambda m, c: (m[..., :, None] * c[..., None, :]).sum(-3),
        lambda m, c: np.moveaxis(m, -1, -2) @ c,
    ],
    a.hits: [hit, lambda p, n, f: hit(p, n, [set(x) for x in f])],
}  # fmt: skip
