"""Answers on learning, the memory update and nth farthest, beyond the lists."""

import math

import numpy as np

from tinyrmc import equations
from tinyrmc.course.exercises import learning as a
from tinyrmc.course.exercises import memory as m
from tinyrmc.course.exercises import nth_farthest as n

f32 = np.float32


def soft(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def ce(g, z, t, tiny=0.0, smooth=0.0, clip=None):
    z = z if clip is None else np.clip(z, -clip, clip)
    y = np.eye(z.shape[1])[t] * (1 - smooth) + smooth / z.shape[1]
    return g[:, None] * (soft(z) - y + tiny)


def adam(
    w, g, m_, v, t, rate, b1, b2, eps=1e-8, decay=0.0, power=0.5, square=np.square
):
    m_ = b1 * m_ + (1 - b1) * g
    v = b2 * v + (1 - b2) * square(g)
    step = m_ / (1 - b1**t) / ((v / (1 - b2**t)) ** power + eps)
    return w - rate * (step + decay * w), m_, v


def adam_in_place(w, g, m_, v, t, rate, b1, b2):
    m_ += (1 - b1) * (g - m_)
    v += (1 - b2) * (g * g - v)
    return w - rate * m_ / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + 1e-8), m_, v


def size(gs, p=2):
    return sum((abs(g) ** p).sum() for g in gs) ** (1 / p)


def overflowing(x):
    return np.exp(x) / (1 + np.exp(x))


def sig(x):
    return 1 / (1 + np.exp(-x))


def update(f, i, old, new, b, s=sig):
    return s(f + b) * old + s(i) * new


def step(x, old, h, p, s=sig, see="h", show=None, cand=None, attend=None, k=1.0):
    att = (
        attend(old, x, p)
        if attend
        else equations.multi_head_attention(np, old, x, p["W_q"], p["W_k"], p["W_v"])
    )
    c = equations.g_psi(np, att, p["mlp"], p["gain"], p["offset"])
    c = cand(c, old) if cand else c
    seen = {"h": h, "m": old, "att": att, "mean": 0 * h + h.mean(1, keepdims=True)}[see]
    f, i, o = (
        (x @ p["W_" + j])[:, None] + seen @ p["U_" + j] + k * p["b_" + j] for j in "fio"
    )
    new = s(f + p["forget_bias"]) * old + s(i) * c
    return new, (show(o, new) if show else s(o) * np.tanh(new))


def rank(
    x, labels, q, ref, dist=lambda d: np.linalg.norm(d, axis=-1), dtype=float, kind=None
):
    d = dist((x - x[labels == ref]).astype(dtype))
    return labels[np.argsort(d, kind=kind)[q]]


def coded(x, labels, q, ref, N, order="xlnm", hot=None):
    hot = np.eye(N) if hot is None else hot
    parts = {
        "x": x,
        "l": hot[labels],
        "n": np.tile(hot[q], (len(x), 1)),
        "m": np.tile(hot[ref], (len(x), 1)),
    }
    return np.concatenate([parts[k] for k in order], axis=1)


WRONG = {
    a.cross_entropy_vjp: [
        lambda g, z, t: ce(g, z, t, smooth=0.1),
        lambda g, z, t: ce(g, z, t, tiny=1e-8),
        lambda g, z, t: ce(g, z, t, clip=30.0),
        lambda g, z, t: ce(g, z, t).astype(f32),
        lambda g, z, t: ce(g, z, t).sum(0),
        lambda g, z, t: ce(abs(g), z, t),
        lambda g, z, t: ce(g, -z, t),
        lambda g, z, t: ce(g, z, 0 * t),
        lambda g, z, t: ce(g[::-1], z, t),
        lambda g, z, t: ce(g.mean() + 0 * g, z, t),
        lambda g, z, t: g[:, None] * (z - np.eye(z.shape[1])[t]),
        lambda g, z, t: g[:, None] * (soft(z, axis=None) - np.eye(z.shape[1])[t]),
        lambda g, z, t: g[:, None] * np.eye(z.shape[1])[t] * (1 - soft(z)),
        lambda g, z, t: 2 * ce(g, z, t),
        lambda g, z, t: ce(g, z, t).T,
        lambda g, z, t: ce(g / g.sum() if g.sum() else g, z, t),
    ],
    a.sgd: [
        lambda w, g, v, r, k: (w - r * (k * v + g), k * v + g, g),
        lambda w, g, v, r, k: [w - r * g, g],
        lambda w, g, v, r, k: (w + r * (k * v - g), k * v - g),
        lambda w, g, v, r, k: (w - r * (v * k - g), k * v - g),
        lambda w, g, v, r, k: (w - r * k * (v + g), k * (v + g)),
        lambda w, g, v, r, k: (w - (k * v + g), k * v + g),
        lambda w, g, v, r, k: (w * (1 - r) - r * (k * v + g), k * v + g),
        lambda w, g, v, r, k: (w - r * np.sign(k * v + g), k * v + g),
        lambda w, g, v, r, k: ((w - r * (k * v + g)).astype(f32), k * v + g),
        lambda w, g, v, r, k: (w - r * (k * v + g) + 1e-8, k * v + g),
        lambda w, g, v, r, k: (np.subtract(w, r * (k * v + g), out=w), k * v + g),
        lambda w, g, v, r, k: (-r * (k * v + g), k * v + g),
        lambda w, g, v, r, k: (w - r * (r * v + g), r * v + g),
        lambda w, g, v, r, k: (w - r * (k * v + g), r * (k * v + g)),
        lambda w, g, v, r, k: (w - r * (k * v + g).mean(), k * v + g),
    ],
    a.adam_step: [
        adam_in_place,
        lambda *c: adam(*c, eps=1e-7),
        lambda *c: adam(*c, eps=0),
        lambda *c: adam(*c, eps=1e-10),
        lambda *c: adam(*c, decay=0.01),
        lambda *c: adam(*c, power=1.0),
        lambda *c: adam(*c, square=abs),
        lambda *c: adam(*c)[::-1],
        lambda *c: tuple(x.astype(f32) for x in adam(*c)),
        lambda *c: (adam(*c)[0], adam(*c)[2], adam(*c)[1]),
        lambda *c: (adam(*c)[0] - c[0], *adam(*c)[1:]),
        lambda w, g, mm, v, t, r, x, y: adam(w, g, mm, v, t, r / t**0.5, x, y),
        lambda w, g, mm, v, t, r, x, y: adam(w, g, mm, v, t - 1 or 1, r, x, y),
        lambda w, g, mm, v, t, r, x, y: adam(w, g, mm, v, t, r, 1 - x, 1 - y),
        lambda w, g, mm, v, t, r, x, y: adam(w, -g, mm, v, t, r, x, y),
        lambda w, g, mm, v, t, r, x, y: adam(w, g, mm, v, t, r, 0.9, 0.999),
        lambda w, g, mm, v, t, r, x, y: (adam(w, g, mm, np.maximum(v, 0), t, r, x, y)[0], mm, v),
    ],
    a.clip: [
        lambda gs, c: [g * min(1, c / size(gs, 1)) for g in gs],
        lambda gs, c: [g * min(1, c / max(size(gs), 1e-6)) / len(gs) for g in gs],
        lambda gs, c: [g * min(1, c / (size(gs) + 1e-12)) + 1e-7 for g in gs],
        lambda gs, c: [np.minimum(g, c) for g in gs],
        lambda gs, c: [g * (c / size(gs)) if size(gs) < c else g for g in gs],
        lambda gs, c: [g * (size(gs) / c) if size(gs) > c else g for g in gs],
        lambda gs, c: [g * (c / size(gs)) ** 0.5 if size(gs) > c else g for g in gs],
        lambda gs, c: [g * min(1, c / np.sqrt(np.mean(np.concatenate([x.ravel() for x in gs]) ** 2) + 1e-30)) for g in gs],
        lambda gs, c: np.concatenate([g.ravel() * min(1, c / max(size(gs), c)) for g in gs]),
        lambda gs, c: [g * (c / max(size(gs), c)) for g in gs][::-1],
        lambda gs, c: [g * (c / max(size(gs), c)) for g in gs][0],
        lambda gs, c: [(g * (c / max(size(gs), c))).astype(f32) for g in gs],
        lambda gs, c: [g * (c / max(size(gs[:1]), c)) for g in gs],
        lambda gs, c: [np.multiply(g, c / max(size(gs), c), out=g) for g in gs],
        lambda gs, c: [-g * (c / max(size(gs), c)) for g in gs],
        lambda gs, c: ([g * (c / max(size(gs), c)) for g in gs], size(gs)),
        lambda gs, c: [g / max(size(gs), c) for g in gs],
    ],
    m.update_memory: [
        lambda *c: update(*c, s=overflowing),
        lambda *c: update(*c, s=lambda x: sig(np.clip(x, -30, 30))),
        lambda *c: update(*c, s=lambda x: np.clip(sig(x), 1e-7, 1)),
        lambda *c: update(*c, s=np.tanh),
        lambda *c: update(*c, s=lambda x: np.clip(0.25 * x + 0.5, 0, 1)),
        lambda *c: update(*c).astype(f32),
        lambda f, i, o, c, b: update(f, i, o, c, -b),
        lambda f, i, o, c, b: update(f, i, o, c, b) - o,
        lambda f, i, o, c, b: update(f, i, o, c - o, b),
        lambda f, i, o, c, b: sig(f + b) * o + (1 - sig(i)) * c,
        lambda f, i, o, c, b: sig(f + b) * o - sig(i) * c,
        lambda f, i, o, c, b: sig(f + b) * np.tanh(o) + sig(i) * c,
        lambda f, i, o, c, b: update(f.mean(-1, keepdims=True), i, o, c, b),
        lambda f, i, o, c, b: update(f, i, o, c, b)[..., :-1],
        lambda f, i, o, c, b: sig(f + b) * (o + sig(i) * c),
        lambda f, i, o, c, b: np.add(sig(f + b) * o, sig(i) * c, out=o),
    ],
    m.output: [
        lambda o, x: overflowing(o) * np.tanh(x),
        lambda o, x: sig(np.clip(o, -20, 20)) * np.tanh(x),
        lambda o, x: sig(o) * np.clip(x, -1, 1),
        lambda o, x: sig(o) + np.tanh(x),
        lambda o, x: sig(o) * (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
        lambda o, x: (sig(o) * np.tanh(x)).astype(f32),
        lambda o, x: sig(o) * np.tanh(x / 2),
        lambda o, x: sig(o) * np.maximum(x, 0),
        lambda o, x: np.tanh(o) * np.tanh(x),
        lambda o, x: (1 - sig(o)) * np.tanh(x),
        lambda o, x: sig(-o) * np.tanh(-x),
        lambda o, x: (sig(o), np.tanh(x)),
        lambda o, x: (sig(o) * np.tanh(x)).sum(-1, keepdims=True),
        lambda o, x: sig(o + 1) * np.tanh(x),
        lambda o, x: sig(o) * np.tanh(x) + 1e-8,
    ],
    m.memory_gate: [
        lambda x, h, w, u, b: overflowing((x @ w)[:, None, None] + (h @ u)[..., None] + b),
        lambda x, h, w, u, b: sig((x @ w)[:, None] + h @ u + b),
        lambda x, h, w, u, b: sig((x @ w)[:, None, None] + (h @ u)[..., None] - b),
        lambda x, h, w, u, b: np.repeat(m.memory_gate(x, h, w, u, b), h.shape[-1], -1),
        lambda x, h, w, u, b: m.memory_gate(x, h, w, u, b).swapaxes(1, 2),
        lambda x, h, w, u, b: m.memory_gate(x, h[:, ::-1], w, u, b),
        lambda x, h, w, u, b: m.memory_gate(0 * x, h, w, u, b),
        lambda x, h, w, u, b: m.memory_gate(x, h, w, u, b).astype(f32),
        lambda x, h, w, u, b: m.memory_gate(x[:1], h, w, u, b),
        lambda x, h, w, u, b: m.memory_gate(x, h, w, u, b) / m.memory_gate(x, h, w, u, b).sum(1, keepdims=True),
        lambda x, h, w, u, b: soft((x @ w)[:, None, None] + (h @ u)[..., None] + b, axis=1),
        lambda x, h, w, u, b: 1 - m.memory_gate(x, h, w, u, b),
        lambda x, h, w, u, b: m.memory_gate(x, h, w, u, b).clip(1e-7, 1 - 1e-7),
        lambda x, h, w, u, b: m.memory_gate(x, h, w, u, b) > 0.5,
        lambda x, h, w, u, b: m.memory_gate(x, h, w, u, 2 * b),
        lambda x, h, w, u, b: m.memory_gate(x, h, w, u, 0.5),
    ],
    m.step: [
        lambda *c: step(*c, s=overflowing),
        lambda *c: step(*c, see="att"),
        lambda *c: step(*c, see="mean"),
        lambda *c: step(*c, k=0.0),
        lambda *c: step(*c, k=-1.0),
        lambda *c: step(*c, s=np.tanh),
        lambda *c: step(*c, s=lambda x: np.clip(sig(x), 1e-6, 1)),
        lambda *c: step(*c, cand=lambda q, old: q + old),
        lambda *c: step(*c, cand=lambda q, old: np.maximum(q, 0)),
        lambda *c: step(*c, show=lambda o, new: sig(o) * np.tanh(new).mean(1, keepdims=True)),
        lambda *c: step(*c, show=lambda o, new: np.tanh(sig(o) * new)),
        lambda *c: step(*c, show=lambda o, new: o * np.tanh(new)),
        lambda *c: step(*c)[0],
        lambda *c: (*step(*c), c[1]),
        lambda *c: tuple(x.astype(f32) for x in step(*c)),
        lambda x, old, h, p: step(x, old, 0 * h, p),
        lambda x, old, h, p: step(0 * x, old, h, p),
        lambda x, old, h, p: step(x, old, h, p | {"W_k": p["W_q"]}),
        lambda x, old, h, p: step(x, old, h, p | {"gain": p["offset"], "offset": p["gain"]}),
        lambda x, old, h, p: step(x, old, h, p, attend=lambda M, y, q: equations.multi_head_attention(
            np, M, M[:, 0], q["W_q"], q["W_k"], q["W_v"])),
    ],
    m.first_memory: [
        lambda B, N, F: np.broadcast_to(np.eye(N, F), (B, N, F)),
        lambda B, N, F: np.tile(np.eye(N, F), (B, 1, 1)) + 1e-10,
        lambda B, N, F: np.tile(np.eye(N, F), (N, 1, 1)),
        lambda B, N, F: np.tile(np.eye(N, F), (B, 1)),
        lambda B, N, F: [np.eye(N)] * B,
        lambda B, N, F: np.tile(np.eye(N, F)[::-1], (B, 1, 1)),
        lambda B, N, F: np.tile(np.tri(N, F), (B, 1, 1)),
        lambda B, N, F: np.random.default_rng(0).normal(size=(B, N, F)),
        lambda B, N, F: np.tile(np.eye(N, F, 1), (B, 1, 1)),
        lambda B, N, F: np.tile(np.eye(max(N, F)), (B, 1, 1)),
        lambda B, N, F: np.tile(np.eye(N, F) / N**0.5, (B, 1, 1)),
        lambda B, N, F: np.eye(B * N, F).reshape(B, N, F),
        lambda B, N, F: np.tile(2 * np.eye(N, F) - 1, (B, 1, 1)),
        lambda B, N, F: np.stack([np.eye(N, F) * (k == 0) for k in range(B)]),
    ],
    n.answer: [
        lambda *c: rank(*c, dtype=np.float16),
        lambda *c: rank(*c, dist=lambda d: abs(d).max(-1)),
        lambda *c: rank(*c, dist=lambda d: d.sum(-1)),
        lambda *c: rank(*c, dist=lambda d: abs(d.sum(-1))),
        lambda *c: rank(*c, dist=lambda d: d[:, 0] ** 2),
        lambda *c: rank(*c, dist=lambda d: (d**3).sum(-1)),
        lambda *c: rank(*c, dist=lambda d: abs(d).mean(-1)),
        lambda x, l, q, ref: rank(x, l, len(x) - 1 - q, ref),
        lambda x, l, q, ref: rank(x, l, min(q + 1, len(x) - 1), ref),
        lambda x, l, q, ref: rank(x, l, q, l[0]),
        lambda x, l, q, ref: rank(x, l, q, l[-1]),
        lambda x, l, q, ref: float(rank(x, l, q, ref)),
        lambda x, l, q, ref: int(np.flatnonzero(l == rank(x, l, q, ref))[0]),
        lambda x, l, q, ref: ref,
        lambda x, l, q, ref: np.array([rank(x, l, q, ref)]),
        lambda x, l, q, ref: rank(x / np.linalg.norm(x, axis=1, keepdims=True), l, q, ref),
        lambda x, l, q, ref: np.sort(l)[q],
        lambda x, l, q, ref: rank(x, l, q, ref) + 1,
    ],
    n.encode: [
        lambda *c: coded(*c, order="xnml"),
        lambda *c: coded(*c, order="nmxl"),
        lambda *c: coded(*c, order="xln"),
        lambda *c: coded(*c, order="xlnmm"),
        lambda *c: coded(*c).T,
        lambda *c: coded(*c).ravel(),
        lambda *c: coded(*c)[None],
        lambda *c: coded(*c).astype(f32),
        lambda *c: coded(*c)[::-1],
        lambda x, l, q, ref, N: coded(x, l, q, ref, N, hot=np.eye(N)[::-1]),
        lambda x, l, q, ref, N: coded(x, l, q, ref, N, hot=2 * np.eye(N) - 1),
        lambda x, l, q, ref, N: coded(x, l, (q + 1) % N, ref, N),
        lambda x, l, q, ref, N: coded(x, np.sort(l), q, ref, N),
        lambda x, l, q, ref, N: np.vstack([coded(x, l, 0, 0, N), coded(x, l, q, ref, N)[:1]]),
        lambda x, l, q, ref, N: coded(0 * x, l, q, ref, N),
        lambda x, l, q, ref, N: list(zip(x, np.eye(N)[l])),
        lambda x, l, q, ref, N: coded(x, l, q, l[-1], N),
    ],
    n.self_query_floor: [
        lambda N: (2 / N, 1 / (N - 1), math.log(N - 1)),
        lambda N: (1 / N + 1 / (N - 1), 1 / (N - 1), (N - 1) / N * math.log(N - 1)),
        lambda N: (2 / N, 1 / N, (N - 1) / N * math.log(N - 1)),
        lambda N: (1 / N, 1 / (N - 1), (N - 1) / N * math.log(N - 1)),
        lambda N: (2 / N, 1 / (N - 1), math.log(N) / N),
        lambda N: (2 / N, 1 / (N - 1), math.log((N - 1) / N + 1)),
        lambda N: (2 / N, 1 / (N - 1), 1 / N * math.log(N - 1)),
        lambda N: (2 / N, 1 / (N - 1)),
        lambda N: (1 / (N - 1), 2 / N, (N - 1) / N * math.log(N - 1)),
        lambda N: (2 / N, 1 / (N - 1), (N - 1) / N * math.log10(N - 1)),
        lambda N: (round(2 / N, 3), round(1 / (N - 1), 3), (N - 1) / N * math.log(N - 1)),
        lambda N: (2 // N, 1 // (N - 1), (N - 1) / N * math.log(N - 1)),
        lambda N: (2 / N, 1 / (N - 1), math.exp((N - 1) / N * math.log(N - 1))),
        lambda N: {"all": 2 / N, "others": 1 / (N - 1), "loss": (N - 1) / N * math.log(N - 1)},
        lambda N: tuple(float(f32(x)) for x in n.self_query_floor(N)),
    ],
    n.accuracy_without_self: [
        lambda x, y, s: (x == y)[~s].sum(),
        lambda x, y, s: (x == y)[~s].sum() / len(x),
        lambda x, y, s: (x == y)[~s].mean() * 100,
        lambda x, y, s: np.mean(x[~s]) - np.mean(y[~s]),
        lambda x, y, s: (x == y).mean() - s.mean(),
        lambda x, y, s: (x == y)[~s],
        lambda x, y, s: ((x == y) & ~s).sum() / ((x == y).sum() + 1e-9),
        lambda x, y, s: ((x == y) & ~s).sum() / ((~s).sum() + 1),
        lambda x, y, s: ((x == y).mean() - s.mean()) / (1 - s.mean() + 1e-12),
        lambda x, y, s: float(f32((x == y)[~s].mean())),
        lambda x, y, s: abs(x - y)[~s].mean(),
        lambda x, y, s: (x == y)[~s].mean() > 0.5,
        lambda x, y, s: [(x == y)[~s].mean(), (x == y)[s].mean()],
        lambda x, y, s: round((x == y)[~s].mean(), 2),
        lambda x, y, s: (x[~s] == y[: (~s).sum()]).mean(),
    ],
    n.cut_among_slots: [
        lambda N, k: n.cut_among_slots(N, k).astype(float),
        lambda N, k: n.cut_among_slots(N, k).astype(int),
        lambda N, k: np.where(n.cut_among_slots(N, k), 0.0, -np.inf),
        lambda N, k: np.broadcast_to(np.arange(N + k) >= N, (N + k, N + k)) | np.eye(N + k, dtype=bool) | (np.arange(N + k) >= N)[:, None],
        lambda N, k: np.ones((N + k, N + k), bool),
        lambda N, k: np.eye(N + k, dtype=bool),
        lambda N, k: np.tri(N + k, dtype=bool),
        lambda N, k: n.cut_among_slots(N, 1) if k > 1 else n.cut_among_slots(N, k)[:, ::-1],
        lambda N, k: n.cut_among_slots(N, k)[:, :N],
        lambda N, k: np.eye(N, N + k, dtype=bool) | (np.arange(N + k) >= N),
        lambda N, k: n.cut_among_slots(k, N),
        lambda N, k: n.cut_among_slots(N, k)[None],
        lambda N, k: n.cut_among_slots(N, k) & ~np.eye(N + k, dtype=bool),
        lambda N, k: n.cut_among_slots(N, k) & n.cut_among_slots(N, k).T,
        lambda N, k: np.eye(N + k, dtype=bool) | (np.arange(N + k) > N),
        lambda N, k: np.eye(N + k, dtype=bool) | (np.arange(N + k) <= N),
    ],
}  # fmt: skip

RIGHT = {
    a.cross_entropy_vjp: [
        ce,
        lambda g, z, t: np.einsum("r,rc->rc", g, soft(z) - (t[:, None] == np.arange(z.shape[1]))),
    ],
    a.sgd: [
        lambda w, g, v, r, k: np.stack([w - r * (k * v + g), k * v + g]),
        lambda w, g, v, r, k: [w - r * k * v - r * g, g + k * v],
    ],
    a.adam_step: [adam, lambda *c: np.stack(adam(*c)), lambda *c: list(adam(*c))],
    a.clip: [
        lambda gs, c: gs if size(gs) <= c else [g * (c / size(gs)) for g in gs],
        lambda gs, c: tuple(g / max(1, size(gs) / c) for g in gs),
    ],
    m.update_memory: [update, lambda f, i, o, c, b: sig(i) * c + o * sig(b + f)],
    m.output: [lambda o, x: np.tanh(x) / (1 + np.exp(-o)), lambda o, x: np.tanh(x) * m.sigmoid(o)],
    m.memory_gate: [
        lambda x, h, w, u, b: sig(np.einsum("bf,f->b", x, w)[:, None] + np.einsum("bnf,f->bn", h, u) + b)[..., None],
        lambda x, h, w, u, b: sig((x @ w[:, None])[:, None] + h @ u[:, None] + b),
    ],
    m.step: [step, lambda *c: np.stack(step(*c)), lambda *c: list(step(*c))],
    m.first_memory: [
        lambda B, N, F: np.repeat(np.eye(N, F)[None], B, axis=0),
        lambda B, N, F: np.stack([np.eye(N, F)] * B),
        lambda B, N, F: np.zeros((B, N, F)) + np.eye(N, F),
        lambda B, N, F: np.array([[[float(i == j) for j in range(F)] for i in range(N)] for _ in range(B)]),
        lambda B, N, F: np.broadcast_to(np.eye(N, F), (B, N, F)).copy(),
        lambda B, N, F: np.tile(np.eye(N, F, dtype=f32), (B, 1, 1)),
    ],
    n.answer: [
        lambda x, l, q, ref: int(rank(x, l, q, ref, dist=lambda d: (d * d).sum(-1))),
        lambda x, l, q, ref: sorted(range(len(x)), key=lambda k: math.dist(x[k], x[list(l).index(ref)]))[q] * 0 + rank(x, l, q, ref),
        lambda x, l, q, ref: rank(x, l, q, ref, kind="stable"),
    ],
    n.encode: [
        coded,
        lambda x, l, q, ref, N: np.array([[*r, *np.eye(N)[k], *np.eye(N)[q], *np.eye(N)[ref]] for r, k in zip(x, l)]),
        lambda x, l, q, ref, N: coded(x, l, q, ref, N, hot=np.eye(N, dtype=int)),
    ],
    n.self_query_floor: [
        lambda N: np.array([2 / N, 1 / (N - 1), np.log(N - 1) * (1 - 1 / N)]),
        lambda N: [1 / N + (N - 1) / N / (N - 1), 1 / (N - 1), math.log(N - 1) - math.log(N - 1) / N],
    ],
    n.accuracy_without_self: [
        lambda x, y, s: np.average(x == y, weights=~s),
        lambda x, y, s: float(np.mean(x[~s] == y[~s])),
        lambda x, y, s: ((x == y) & ~s).sum() / (~s).sum(),
    ],
    n.cut_among_slots: [
        lambda N, k: np.logical_or(np.eye(N + k), np.arange(N + k) >= N),
        lambda N, k: [[i == j or j >= N for j in range(N + k)] for i in range(N + k)],
        lambda N, k: np.block([[np.eye(N, dtype=bool), np.ones((N, k), bool)], [np.eye(k, N, -k * 9, dtype=bool), np.ones((k, k), bool)]]),
    ],
}  # fmt: skip
