"""Answers to chapters on attention, its laboratory, norms and gates, beyond the lists."""

import math

import numpy as np

from tinyrmc.course.exercises import attention as a
from tinyrmc.course.exercises import gates as g
from tinyrmc.course.exercises import invariants as v
from tinyrmc.course.exercises import normalisation as n

f32 = np.float32


def changes(process, M, slot, row):
    changed = M.copy()
    changed[slot] = row
    return process(changed) - process(M)


def T(x):
    return np.swapaxes(x, -1, -2)


def soft(x, axis=-1, clip=None, tiny=0.0, dtype=None, base=np.e):
    z = x - x.max(axis=axis, keepdims=True)
    z = z if clip is None else np.maximum(z, clip)
    z = z if dtype is None else z.astype(dtype)
    top = np.power(base, z) if base != np.e else np.exp(z)
    return top / (top.sum(axis=axis, keepdims=True) + tiny)


def scores(Q, K):
    return Q @ T(K) / math.sqrt(Q.shape[-1])


def multi(M, W_q, W_k, W_v, d=None, axis=-1, join=np.concatenate, soft=soft):
    out = []
    for q, k, value in zip(W_q, W_k, W_v):
        s = (M @ q) @ T(M @ k) / math.sqrt(d or q.shape[-1])
        out.append(soft(s) @ (M @ value))
    return join(out, axis=axis)


def stable(x):
    return np.where(
        x >= 0, 1 / (1 + np.exp(-abs(x))), np.exp(-abs(x)) / (1 + np.exp(-abs(x)))
    )


def overflowing(x):
    return np.exp(x) / (np.exp(x) + 1)


def past(f, i, b, sig=g.sigmoid, dtype=float):
    keep, write = sig(f + b).astype(dtype), sig(i).astype(dtype)
    out = [keep.prod(0)]
    for t in range(len(f)):
        out.append(write[t] * keep[t + 1 :].prod(0))
    return np.stack(out)


def by_logarithms(f, i, b):
    logs = np.log(g.sigmoid(f + b) + 1e-10)
    later = np.cumsum(logs[::-1], 0)[::-1]
    later = np.concatenate([later, np.zeros_like(later[:1])])
    return np.exp(later) * np.concatenate([np.ones((1, f.shape[1])), g.sigmoid(i)])


def relu_mlp(z, layers, act=lambda x: np.maximum(x, 0)):
    for k, (W, b) in enumerate(layers):
        z = z @ W + b
        if k + 1 < len(layers):
            z = act(z)
    return z


def norm(x, gain, offset, eps=1e-5, dtype=None):
    d = x - x.mean(-1, keepdims=True)
    d = d if dtype is None else d.astype(dtype)
    return gain * d / np.sqrt((d**2).mean(-1, keepdims=True) + eps) + offset


def heads_in_a_row(M, *W):
    Q, K, V = (np.einsum("nf,hfd->hnd", M, w) for w in W)
    return a.attention(Q, K, V).reshape(len(M), -1)


def measured(A, rng, claim):
    """How sure attention is, against the number of units of a query."""
    found = []
    for wide in 2 ** np.arange(6):
        Q, K = 3 * rng.normal(size=(2, 50, 1, wide)), rng.normal(size=(2, 50, 9, wide))
        found.append(A(wide**0.5 * Q[0], K[0], np.eye(9)).max(-1).mean())
    return 2 ** np.arange(6), found, claim


def taped_norm(x, gain, offset, others):
    y = norm(x.data, 1, 0)
    return x.tape.record(
        y * gain.data + offset.data,
        (x, gain, offset),
        lambda g: (n.layer_norm_gradient(g, x.data, gain.data, 1e-5), *others(g, y)),
    )


def blocks(g, z, weights, hand_on):
    if not weights:
        return []
    W, *later = weights
    y = np.tanh(z @ W)
    # the gradient of this block's result, one later block after the other
    inputs, out = [z + y], g
    for w in later:
        inputs.append(inputs[-1] + np.tanh(inputs[-1] @ w))
    for each, w in zip(inputs[-2::-1], later[::-1], strict=True):
        out = hand_on(out, (out * (1 - np.tanh(each @ w) ** 2)) @ w.T)
    return [z.T @ (out * (1 - y * y)), *blocks(g, z + y, later, hand_on)]


WRONG = {
    a.softmax: [
        lambda x: soft(x, clip=-30.0),
        lambda x: soft(x, tiny=1e-10),
        lambda x: soft(x, axis=-2 if x.ndim > 1 else -1),
        lambda x: soft(x, axis=1) if x.ndim > 1 else soft(x),
        lambda x: soft(np.nan_to_num(x, neginf=-100.0)),
    ],
    a.attention: [
        lambda Q, K, V: np.einsum("nr,rv->nv", soft(scores(Q, K)), V),
        lambda Q, K, V: np.einsum("bnr,brv->bnv", soft(scores(Q, K)), V),
        lambda Q, K, V: soft(scores(Q, K)) @ V[..., ::-1, :],
        lambda Q, K, V: np.exp(scores(Q, K)) / np.exp(scores(Q, K)).sum(-1, keepdims=True) @ V,
    ],
    a.encode_with_heads: [
        lambda M, x, q, k, v: np.stack([a.encode(M, x, *h) for h in zip(q, k, v)]),
        lambda M, x, q, k, v: np.mean([a.encode(M, x, *h) for h in zip(q, k, v)], axis=0),
        lambda M, x, q, k, v: np.concatenate([a.encode(M, x, *h) for h in zip(q, k, v)], axis=1),
        lambda M, x, q, k, v: np.concatenate([a.encode(M, x, *h) for h in zip(q, k, v)], axis=2) if M.ndim > 2 else np.hstack([a.encode(M, x, *h) for h in zip(q, k, v)]),
    ],
    v.weights_behind: [
        lambda f, Q, K: f(Q, K, np.eye(len(Q))),
        lambda f, Q, K: f(Q, K, np.eye(max(K.shape))),
        lambda f, Q, K: T(f(Q, K, np.eye(K.shape[-2]))),
        lambda f, Q, K: np.stack([f(q, k, np.eye(len(k))) for q, k in zip(Q, K)]) if Q.ndim == 3 else f(Q, K, np.eye(len(K))),
    ],
    a.queries_for: [
        lambda A, K: math.sqrt(K.shape[1]) * np.log(A) @ np.linalg.pinv(K),
        lambda A, K: math.sqrt(len(K)) * np.log(A) @ np.linalg.pinv(K).T,
        lambda A, K: math.sqrt(K.shape[1]) * np.log2(A) @ np.linalg.pinv(K).T,
        lambda A, K: math.sqrt(K.shape[1]) * np.log(A + 1e-6) @ np.linalg.pinv(K).T,
        lambda A, K: np.log(A),
    ],
    a.attend: [
        lambda Q, K, V: Q.tape.record(a.attention(Q.data, K.data, V.data), (Q, K, V), lambda g: (g @ T(V.data), Q.data, V.data)),
        lambda Q, K, V: Q.tape.watch(a.attention(Q.data, K.data, V.data)),
        lambda Q, K, V: Q.tape.record(a.attention(Q.data, K.data, V.data), (Q, V), lambda g: a.attention_vjp(g, Q.data, K.data, V.data)[::2]),
        lambda Q, K, V: Q.tape.record(soft(scores(Q.data, K.data)), (Q, K, V), lambda g: (0 * Q.data, 0 * K.data, 0 * V.data)),
    ],
    a.all_heads: [
        lambda M, *W: heads_in_a_row(M, *W)[:, ::-1],
        lambda M, q, k, v: multi(M, q, k, v, d=len(q)),
        lambda *c: multi(*c, join=np.stack, axis=1),
        lambda *c: multi(*c, axis=0),
    ],
    a.shares_of_the_past: [
        lambda s: soft(np.tril(s)),
        lambda s: soft(np.where(np.tri(s.shape[-1]) > 0, s, -1e3)),
        lambda s: soft(np.where(np.tri(s.shape[-1]) > 0, s, 0.0)),
        lambda s: soft(s) * np.tri(s.shape[-1]),
        lambda s: soft(np.where(np.tri(len(s)) > 0, s, -np.inf)),
    ],
    v.size_of_the_scores: [
        lambda A, Q, K, V: (A(0 * Q, K, V), V.mean(0) + 0 * A(Q, K, V)),
        lambda A, Q, K, V: (A(np.tile(Q, 4), np.tile(K, 4), V), A(Q, K, V)),
        lambda A, Q, K, V: (A(np.tile(Q, 4), np.tile(K, 4), V), A(2 * Q, K, V)),
        lambda A, Q, K, V: (A(Q, K, V), A(Q, K, V)),
        # as many keys as a key is wide, or as values are, or as there are queries
        lambda A, Q, K, V: (A(np.eye(3), np.eye(3), np.eye(3)), soft(np.eye(3) / 3**0.5)),
        lambda A, Q, K, V: (A(np.ones((1, 2)), np.log([[1, 1], [2, 2]]), np.eye(2)), np.array([[1, 2.0**2**0.5]]) / (1 + 2.0**2**0.5)),
        lambda A, Q, K, V: (A(np.eye(4), np.log([[1.0] * 4, [2.0] * 4, [3.0] * 4]), np.eye(3)), np.tile(soft(np.log([1, 2, 3]) / 2), (4, 1))),
    ],
    v.order_means_nothing: [
        lambda A, Q, K, V: (A(Q, K[::-1], V[::-1]), A(Q, K, V)[::-1]),
        lambda A, Q, K, V: (A(Q, K, V), A(Q, K, V)),
        lambda A, Q, K, V: (A(Q[::-1], K[::-1], V[::-1])[::-1].sum(0), A(Q, K, V)[:1]),
        lambda A, Q, K, V: (A(Q[::-1], K, V[::-1]), A(Q, K, V)[::-1]),
        lambda A, Q, K, V: (A(Q[::-1], K[::-1], V[::-1]).sum(0), A(Q, K, V).sum(0)),
    ],
    v.my_experiment: [
        lambda A, seed: (np.arange(5), np.arange(5), "rises"),
        lambda A, seed: [[s, A(s * np.eye(3), np.eye(3), np.eye(3)).max(), "rises"] for s in range(5)],
        lambda A, seed: measured(A, np.random.default_rng(), "rises"),
        lambda A, seed: measured(A, np.random.default_rng(0), "rises"),
        lambda A, seed: measured(A, np.random.default_rng(seed), "stays"),
        lambda A, seed: measured(A, np.random.default_rng(seed), "rises")[:2],
    ],
    n.layer_norm: [
        lambda x, *c: norm(x, *c, eps=1e-6),
        lambda x, gain, offset: np.stack([norm(r, gain, offset) for r in x])[..., :] * (x.ndim < 4),
        lambda x, gain, offset: gain * (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) + offset,
        lambda x, gain, offset: gain * (x - x.mean(-1)[:, None]) / np.sqrt(x.var(-1)[:, None] + 1e-5) + offset,
    ],
    n.who_notices: [
        lambda f, M, s, row: abs(changes(f, M, s, row)).mean(-1),
        lambda f, M, s, row: abs(changes(f, M, s, row)),
        lambda f, M, s, row: abs(changes(f, M, s, row)).max(-1) > 0,
        lambda f, M, s, row: (changes(f, M, s, row) ** 2).sum(-1) ** 0.5,
    ],
    n.norm: [
        lambda x, w, b: taped_norm(x, w, b, lambda g, y: (g * y.sum(-1, keepdims=True), g)),
        lambda x, w, b: taped_norm(x, w, b, lambda g, y: (g * y, g * w.data)),
        lambda x, w, b: taped_norm(x, w, b, lambda g, y: (g * y / len(y), g / len(y))),
        lambda x, w, b: x.tape.watch(norm(x.data, w.data, b.data)),
    ],
    n.norm_of_slots: [
        lambda M: norm(M, 1, 0, eps=0.1),
        lambda M: norm(M, 1, 0, dtype=f32),
        lambda M: (M - M.mean(-2, keepdims=True)) / np.sqrt(((M - M.mean(-2, keepdims=True)) ** 2).mean(-1, keepdims=True) + 1e-5),
        lambda M: M - M.mean(-1, keepdims=True),
    ],
    n.blocks_back: [
        lambda g, z, L: blocks(g, z, L, lambda g, d: 2 * g + d),
        lambda g, z, L: blocks(g, z, L, lambda g, d: g - d),
        lambda g, z, L: blocks(g, z, L, lambda g, d: (g + d) / 2),
        lambda g, z, L: [each.T for each in blocks(g, z, L, lambda g, d: g + d)],
    ],
    n.g_psi: [
        lambda z, L, *c: norm(relu_mlp(z, L, act=np.tanh) + z, *c),
        lambda z, L, *c: norm(relu_mlp(z, L, act=lambda x: np.maximum(x, 0.01 * x)) + z, *c),
        lambda z, L, *c: norm(relu_mlp(z, L, act=lambda x: np.clip(x, 0, 6)) + z, *c),
        lambda z, L, *c: norm(relu_mlp(z, L), *c) + z,
        lambda z, L, *c: norm(relu_mlp(z, L) - z, *c),
        lambda z, L, *c: norm(relu_mlp(z, L) + 2 * z, *c),
        lambda z, L, gain, offset: norm(relu_mlp(z, L) + z, offset, gain),
    ],
    g.sigmoid: [
        overflowing,
        lambda x: 1 / (1 + np.exp(-np.clip(x, -30, 30))),
        lambda x: stable(x.astype(f32)),
        lambda x: np.array([1 / (1 + math.exp(-v)) for v in x]),
    ],
    g.gate_of_every_slot: [
        lambda x, h, W, U, b: np.repeat((x @ W)[:, None], h.shape[1], 1) + b,
        lambda x, h, W, U, b: (x @ W)[:, None] + h.mean(1, keepdims=True) @ U + b,
        lambda x, h, W, U, b: (x @ W)[:, None] + (h @ U)[:, ::-1] + b,
        lambda x, h, W, U, b: np.clip((x @ W)[:, None] + h @ U + b, -20, 20),
    ],
    g.weights_of_the_past: [
        by_logarithms,
        lambda f, i, b: past(f, i, b, sig=overflowing),
        lambda f, i, b: past(np.clip(f, -30, 30), np.clip(i, -30, 30), b),
        lambda f, i, b: past(f, i, b) + 1e-10,
    ],
    g.lstm: [
        lambda xs, m, h, w, b: g.lstm(xs[::-1], m, h, w, b),
        lambda xs, m, h, w, b: g.lstm(xs, h, m, w, b),
        lambda xs, m, h, w, b: g.lstm(xs, m, h, w, 1.0),
        lambda *c: np.add(g.lstm.function(*c), (h := g.lstm.function(*c)) - h),
        lambda xs, m, h, w, b: [g.lstm([x], m, h, w, b) for x in xs][-1],
        lambda xs, m, h, w, b: g.lstm(xs, m, h, w | {"b_j": w["b_i"]}, b),
    ],
    g.forget_bias_for: [
        lambda s, t: math.log(s ** (1 / t)),
        lambda s, t: -math.log(1 / s ** (1 / t) + 1),
        lambda s, t: math.log((1 - s ** (1 / t)) / s ** (1 / t)),
        lambda s, t: max(0.0, math.log(s ** (1 / t) / (1 - s ** (1 / t)))),
    ],
}  # fmt: skip

RIGHT = {
    a.softmax: [
        soft,
        lambda x: soft(x, clip=-700.0),
        lambda x: np.exp(x - np.logaddexp.reduce(x, axis=-1)[..., None]),
        lambda x: np.exp(x - np.max(x, -1)[..., None]) / np.exp(x - np.max(x, -1)[..., None]).sum(-1)[..., None],
        np.vectorize(lambda r: np.exp(r - max(r)) / sum(np.exp(r - max(r))), signature="(n)->(n)"),
    ],
    a.attention: [
        lambda Q, K, V: np.einsum("...nr,...rv->...nv", soft(scores(Q, K)), V),
        lambda Q, K, V: (soft(scores(Q, K))[..., None] * V[..., None, :, :]).sum(-2),
    ],
    a.encode_with_heads: [
        lambda M, x, q, k, v: np.concatenate([a.encode(M, x, *h) for h in zip(q, k, v)], axis=-1),
        lambda M, x, q, k, v: np.moveaxis(np.stack([a.encode(M, x, *h) for h in zip(q, k, v)]), 0, -2).reshape(*M.shape[:-1], -1),
    ],
    v.weights_behind: [
        lambda f, Q, K: f(Q, K, np.identity(K.shape[-2])),
        lambda f, Q, K: np.concatenate([f(Q, K, c[:, None]) for c in np.eye(K.shape[-2])], axis=-1),
    ],
    a.queries_for: [
        lambda A, K: math.sqrt(K.shape[1]) * (np.log(A) + 7) @ np.linalg.pinv(K).T,
        lambda A, K: math.sqrt(K.shape[1]) * (np.linalg.pinv(K) @ np.log(A).T).T,
        lambda A, K: [np.linalg.lstsq(K, K.shape[1] ** 0.5 * r, rcond=None)[0] for r in np.log(A)],
    ],
    a.attend: [
        lambda Q, K, V: Q.tape.record(a.attention(Q.data, K.data, V.data), [Q, K, V], lambda g: list(a.attention_vjp(g, Q.data, K.data, V.data))),
    ],
    a.all_heads: [
        multi,
        lambda M, q, k, v: np.swapaxes(a.attention(M @ q, M @ k, M @ v), 0, 1).reshape(len(M), -1),
    ],
    a.shares_of_the_past: [
        lambda s: soft(np.where(np.tril(np.ones(s.shape[-2:])) > 0, s, -np.inf)),
        lambda s: soft(s + np.where(np.tri(s.shape[-1]) > 0, 0, -np.inf)),
    ],
    v.size_of_the_scores: [
        lambda A, Q, K, V: (A(np.ones((1, 1)), np.log([[1.0], [3.0]]), np.eye(2))[0] + A(np.ones((1, 4)), np.log([[1.0], [3.0]]) * np.ones((2, 4)), np.eye(2))[0], np.array([0.25 + 0.1, 0.75 + 0.9])),
        lambda A, Q, K, V: (A(Q, K, np.eye(len(K))), soft(scores(Q, K))),
        lambda A, Q, K, V: (abs(A(Q, K, V) - soft(scores(Q, K)) @ V) < 1e-9, np.tile(True, (len(Q), V.shape[1]))),
    ],
    v.order_means_nothing: [
        lambda A, Q, K, V: (A(np.roll(Q, 1, 0), np.roll(K, 2, 0)[::-1], np.roll(V, 2, 0)[::-1]), np.roll(A(Q, K, V), 1, 0)),
    ],
    v.my_experiment: [
        lambda A, seed: measured(A, np.random.default_rng(seed), "rises"),
        lambda A, seed: (range(6), A(np.arange(6.0)[:, None], np.eye(1), np.eye(1))[:, 0], "stays"),
        lambda A, seed: (range(1, 7), [A(np.zeros((1, 2)), np.ones((k, 2)), np.ones((k, 1)))[0, 0] for k in range(1, 7)], "stays"),
    ],
    n.layer_norm: [
        norm,
        lambda x, gain, offset: offset + gain * (x - x.mean(-1)[..., None]) / (x.var(-1)[..., None] + 1e-5) ** 0.5,
    ],
    n.who_notices: [
        lambda f, M, s, row: abs(f(np.where(np.arange(len(M))[:, None] == s, row, M)) - f(M)).max(1),
        lambda f, M, s, row: [max(abs(r)) for r in f(np.concatenate([M[:s], [row], M[s + 1 :]])) - f(M)],
    ],
    n.norm: [
        lambda x, w, b: taped_norm(x, w, b, lambda g, y: ((g * y).reshape(-1, y.shape[-1]).sum(0), g)),
    ],
    n.norm_of_slots: [lambda M: norm(M, 1, 0)],
    n.blocks_back: [
        lambda g, z, L: blocks(g, z, L, lambda g, d: g + d),
        lambda g, z, L: np.array(blocks(g, z, L, lambda g, d: d + g)),
    ],
    n.g_psi: [lambda z, L, gain, offset: norm(z + relu_mlp(z, L), gain, offset)],
    g.sigmoid: [stable, lambda x: 1 / (1 + np.exp(-x)), lambda x: np.exp(-np.logaddexp(0, -x))],
    g.gate_of_every_slot: [
        lambda x, h, W, U, b: np.einsum("bd,dg->bg", x, W)[:, None] + np.einsum("bnf,fg->bng", h, U) + b,
        lambda x, h, W, U, b: np.stack([x @ W + h[:, k] @ U + b for k in range(h.shape[1])], axis=1),
    ],
    g.weights_of_the_past: [
        past,
        lambda f, i, b: past(f, i, b, sig=lambda x: 1 / (1 + np.exp(-x))),
    ],
    g.lstm: [g.lstm.function],
    g.forget_bias_for: [
        lambda share, steps: -math.log(share ** (-1 / steps) - 1),
        lambda share, steps: np.log(share ** (1 / steps)) - np.log1p(-(share ** (1 / steps))),
    ],
}  # fmt: skip
