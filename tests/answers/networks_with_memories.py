"""Answers to the chapter on memory networks, beyond the lists."""

import numpy as np

from tinyrmc import Tape, fused
from tinyrmc import primitives as p
from tinyrmc.course.exercises import memory_networks as a
from tinyrmc.course.exercises import one_hop as o

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


def two_counts(once, weighted, table, a=0.5, b=2.0, c=0.5, first=1):
    d = table.shape[-1]
    along = np.array([b * (k / d - c) for k in range(first, d + first)])
    return along * (weighted @ table) + (once @ table) * a


def go_through(network, sgd, inputs, targets, order, rate, size=32, twice=False):
    losses = []
    for k in range(len(order) // size * (1 + twice)):
        some = order[k * size % len(order) :][:size]
        with Tape() as tape:
            z = network(*[x[some] for x in inputs])
            y = np.stack([targets[some]] * len(z.data))
            loss = p.sum(fused.softmax_cross_entropy(z, y))
        sgd.zero_grad()
        tape.backward(loss)
        sgd.step(rate, max_norm=40.0)
        losses.append(float(loss.data))
    return losses


def newest(told, N, pad=0, order=-1, first=0, dtype=int):
    out = np.full(N, pad, dtype)
    recent = told[::order][:N]
    out[first : first + len(recent)] = recent[: N - first]
    return out


def hops(embed, looks, tables, M, q, first=0, last=None, twice=False):
    u = embed(q, tables[first])
    rows = [embed(M, table) for table in tables]
    for look, m, c in list(zip(looks, rows[:-1], rows[1:]))[:last]:
        u = u + (1 + twice) * look(u, m, c)
    return u


def taken(answers, looks, blind, y, order=1, score=np.mean):
    found = []
    for k in range(-1, len(looks)):
        some = [blind if j == k else look for j, look in enumerate(looks)]
        found.append([score(row != y) for row in answers(some)])
    return np.array(found)[::order]


def hit(p, n, facts, number=lambda n, k: n - 1 - k, pick=np.argmax):
    out = np.zeros(p.shape[1])
    for b in range(len(p)):
        for k in range(p.shape[1]):
            out[k] += number(n[b], pick(p[b, k])) in facts[b]
    return out / len(p)


WRONG = {
    o.hop: [
        lambda u, m, c: look(u, m, c, soft=lambda s: soft(s, tiny=1e-6)),
        lambda u, m, c: look(u, m, c, soft=lambda s: soft(s, clip=-5.0)),
        lambda u, m, c: look(u, m, c, soft=lambda s: soft(np.clip(s, -20, 20))),
        lambda u, m, c: (soft(m @ u), soft(m @ u) @ c) if u.ndim == 1 else (soft(np.einsum("bk,bik->bi", u, m)), look(u, m, c)[1]),
    ],
    o.hop_backward: [
        lambda *c: grads(*c, soft=lambda s: soft(s, tiny=1e-6)),
        lambda *c: grads(*c, soft=lambda s: soft(s, axis=0)),
        lambda *c: grads(*c, gp=lambda p, q: p * (q - q.max(-1, keepdims=True))),
        lambda *c: grads(*c, gp=lambda p, q: p * (1 - p) * (q - q.mean())),
    ],
    o.remembered: [
        lambda *c: two_counts(*c, a=1.0, b=4.0),
        lambda *c: two_counts(*c, c=0.0),
        lambda *c: two_counts(*c, first=0),
        lambda *c: two_counts(*c, b=-2.0),
        lambda once, weighted, table: two_counts(weighted, once, table),
    ],
    o.learn_stories: [
        lambda *c: go_through(*c, size=16),
        lambda *c: go_through(*c, twice=True),
        lambda n, s, x, y, order, rate: go_through(n, s, x, y, np.sort(order), rate),
        lambda *c: np.array(go_through(*c)) / 32,
    ],
    o.newest_first: [
        lambda told, N: newest(told, N, dtype=float),
        lambda told, N: newest(told, N, dtype=str),
        lambda told, N: newest(told, N, order=1),
        lambda told, N: list(told[::-1]) + [0] * (N - len(told)),
    ],
    a.adjacent: [
        lambda *c: hops(*c, first=-1),
        lambda *c: hops(*c, last=1),
        lambda *c: hops(*c, twice=True),
        lambda e, looks, t, M, q: hops(e, looks[::-1], t, M, q),
        lambda e, looks, t, M, q: hops(e, looks, t[::-1], M, q),
    ],
    a.take_away: [
        lambda *c: taken(*c, order=-1),
        lambda *c: taken(*c, score=np.sum),
        lambda *c: taken(*c)[0],
        lambda *c: taken(*c) - taken(*c)[0],
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
    o.hop: [look, lambda *c: list(look(*c))],
    o.hop_backward: [grads, lambda *c: [*grads(*c)]],
    o.remembered: [two_counts],
    o.learn_stories: [go_through],
    o.newest_first: [
        newest,
        lambda told, N: np.concatenate([told[::-1][:N], np.zeros(max(N - len(told), 0), int)]),
        lambda told, N: np.pad(told[-N:][::-1], (0, max(N - len(told), 0))),
        lambda told, N: newest(told, N, dtype=np.int32),
    ],
    a.adjacent: [hops],
    a.take_away: [taken],
    a.association: [
        lambda m, c: np.einsum("...ik,...il->...kl", m, c),
        lambda m, c: (m[..., :, None] * c[..., None, :]).sum(-3),
        lambda m, c: np.moveaxis(m, -1, -2) @ c,
    ],
    a.hits: [hit, lambda p, n, f: hit(p, n, [set(x) for x in f])],
}  # fmt: skip
