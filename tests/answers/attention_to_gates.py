"""Answers to chapters on attention, encoding, norms and gates, beyond the lists."""

import math

import numpy as np

from tinyrmc.course.exercises import attention as a
from tinyrmc.course.exercises import encoding as e
from tinyrmc.course.exercises import gates as g
from tinyrmc.course.exercises import normalisation as n

f32 = np.float32


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


def loops_over_examples(Q, K):
    if Q.ndim == 2:
        return soft(scores(Q, K))
    return np.stack([soft(q @ k.T / math.sqrt(q.shape[1])) for q, k in zip(Q, K)])


def multi(M, W_q, W_k, W_v, d=None, axis=-1, join=np.concatenate, soft=soft):
    out = []
    for q, k, v in zip(W_q, W_k, W_v):
        s = (M @ q) @ T(M @ k) / math.sqrt(d or q.shape[-1])
        out.append(soft(s) @ (M @ v))
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


WRONG = {
    a.softmax: [
        lambda x: soft(x, clip=-30.0),
        lambda x: soft(x, clip=-700.0),
        lambda x: soft(x, tiny=1e-10),
        lambda x: soft(x, axis=-2 if x.ndim > 1 else -1),
        lambda x: soft(x, axis=1) if x.ndim > 1 else soft(x),
        lambda x: soft(np.nan_to_num(x, neginf=-100.0)),
    ],
    a.attention_weights: [
        loops_over_examples,
        lambda Q, K: soft(np.einsum("nd,rd->nr", Q, K) / math.sqrt(Q.shape[-1])),
        lambda Q, K: soft(np.einsum("bnd,brd->bnr", Q, K) / math.sqrt(Q.shape[-1])),
        lambda Q, K: soft(Q @ K.transpose(0, 2, 1) / math.sqrt(Q.shape[-1])) if Q.ndim > 2 else soft(scores(Q, K)),
        lambda Q, K: soft(scores(Q, K), clip=-30),
        lambda Q, K: soft(np.clip(scores(Q, K), -20, 20)),
    ],
    a.attention: [
        lambda Q, K, V: np.einsum("nr,rv->nv", soft(scores(Q, K)), V),
        lambda Q, K, V: np.einsum("bnr,brv->bnv", soft(scores(Q, K)), V),
        lambda Q, K, V: soft(scores(Q, K)) @ V[..., ::-1, :],
        lambda Q, K, V: np.exp(scores(Q, K)) / np.exp(scores(Q, K)).sum(-1, keepdims=True) @ V,
    ],
    a.multi_head: [
        lambda *c: multi(*c, axis=0),
        lambda *c: multi(*c, join=np.stack, axis=0),
        lambda *c: multi(*c, join=np.stack, axis=1),
        lambda M, q, k, v: multi(M, q, k, v, d=len(q)),
    ],
    e.append_rows: [
        lambda M, x: np.concatenate([M, x[:, None]], axis=1) if M.ndim == 3 else np.vstack([M, x]),
        lambda M, x: np.concatenate([M, x.reshape(*M.shape[:-2], 1, -1)], axis=1) if M.ndim > 2 else np.vstack([M, x]),
        lambda M, x: np.concatenate([M, 0 * x[..., None, :]], axis=-2),
        lambda M, x: np.concatenate([M, x[..., None, :], x[..., None, :]], axis=-2),
    ],
    e.encode: [
        lambda M, x, q, k, v: a.attention(M @ q, e.append_rows(M, x) @ k, np.concatenate([M, 0 * M[..., :1, :]], -2) @ v),
        lambda M, x, q, k, v: a.attention(M @ q, np.vstack([M, x]) @ k, np.vstack([M, x]) @ v) if M.ndim == 2 else
        np.stack([e.encode(m, y, q, k, v) for m, y in zip(M, x)])[..., ::1] * (1 if M.ndim == 3 else 0),
        lambda M, x, q, k, v: a.attention(M @ q, e.append_rows(M, x) @ k, e.append_rows(M, x) @ v)[..., ::-1],
        lambda M, x, q, k, v: e.encode(M, x, q, k, v) + M if M.shape[-1] == v.shape[-1] else e.encode(M, x, q, k, v) + 1,
    ],
    e.encode_with_heads: [
        lambda M, x, q, k, v: np.stack([e.encode(M, x, *h) for h in zip(q, k, v)]),
        lambda M, x, q, k, v: np.mean([e.encode(M, x, *h) for h in zip(q, k, v)], axis=0),
        lambda M, x, q, k, v: np.concatenate([e.encode(M, x, *h) for h in zip(q, k, v)], axis=1),
        lambda M, x, q, k, v: np.concatenate([e.encode(M, x, *h) for h in zip(q, k, v)], axis=2) if M.ndim > 2 else np.hstack([e.encode(M, x, *h) for h in zip(q, k, v)]),
    ],
    e.weights_behind: [
        lambda f, Q, K: f(Q, K, np.eye(len(Q))),
        lambda f, Q, K: f(Q, K, np.eye(max(K.shape))),
        lambda f, Q, K: T(f(Q, K, np.eye(K.shape[-2]))),
        lambda f, Q, K: np.stack([f(q, k, np.eye(len(k))) for q, k in zip(Q, K)]) if Q.ndim == 3 else f(Q, K, np.eye(len(K))),
    ],
    n.layer_norm: [
        lambda x, *c: norm(x, *c, eps=1e-6),
        lambda x, gain, offset: np.stack([norm(r, gain, offset) for r in x])[..., :] * (x.ndim < 4),
        lambda x, gain, offset: gain * (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) + offset,
        lambda x, gain, offset: gain * (x - x.mean(-1)[:, None]) / np.sqrt(x.var(-1)[:, None] + 1e-5) + offset,
    ],
    n.who_notices: [
        lambda f, M, s, row: abs(n._changes(f, M, s, row)).mean(-1),
        lambda f, M, s, row: abs(n._changes(f, M, s, row)),
        lambda f, M, s, row: abs(n._changes(f, M, s, row)).max(-1) > 0,
        lambda f, M, s, row: (n._changes(f, M, s, row) ** 2).sum(-1) ** 0.5,
    ],
    n.mlp: [
        lambda z, L: relu_mlp(z, L, act=np.tanh),
        lambda z, L: relu_mlp(z, L, act=lambda x: np.maximum(x, 0.01 * x)),
        lambda z, L: relu_mlp(z, L, act=lambda x: np.minimum(x, 0)),
        lambda z, L: relu_mlp(z, L, act=lambda x: np.clip(x, 0, 6)),
    ],
    n.g_psi: [
        lambda z, L, *c: norm(relu_mlp(z, L), *c) + z,
        lambda z, L, *c: norm(relu_mlp(z, L) - z, *c),
        lambda z, L, *c: norm(relu_mlp(z, L) + 2 * z, *c),
        lambda z, L, gain, offset: norm(relu_mlp(z, L) + z, offset, gain),
    ],
    n.g_psi_parameters: [
        lambda N, F, layers: layers * (F + 1) ** 2,
        lambda N, F, layers: layers * (F * F + F) + 2,
        lambda N, F, layers: layers * (F * F + F) + F,
        lambda N, F, layers: layers * (F * F + F + 2 * F),
    ],
    g.sigmoid: [
        overflowing,
        lambda x: 1 / (1 + np.exp(-np.clip(x, -30, 30))),
        lambda x: stable(x.astype(f32)),
        lambda x: np.array([1 / (1 + math.exp(-v)) for v in x]),
    ],
    g.gate: [
        lambda x, h, W, U, b: x @ W + h @ U - b,
        lambda x, h, W, U, b: (x @ W + h @ U + b)[None],
        lambda x, h, W, U, b: np.tanh(x @ W + h @ U + b),
        lambda x, h, W, U, b: np.clip(x @ W + h @ U + b, -30, 30),
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
        lambda x: np.exp(x - np.logaddexp.reduce(x, axis=-1)[..., None]),
        lambda x: np.exp(x - np.max(x, -1)[..., None]) / np.exp(x - np.max(x, -1)[..., None]).sum(-1)[..., None],
        np.vectorize(lambda r: np.exp(r - max(r)) / sum(np.exp(r - max(r))), signature="(n)->(n)"),
    ],
    a.attention_weights: [
        lambda Q, K: soft(np.einsum("...nd,...rd->...nr", Q, K) / np.sqrt(Q.shape[-1])),
        lambda Q, K: soft((Q * Q.shape[-1] ** -0.5) @ np.moveaxis(K, -1, -2)),
        lambda Q, K, scale=True: soft(scores(Q, K)),
    ],
    a.attention: [
        lambda Q, K, V: np.einsum("...nr,...rv->...nv", soft(scores(Q, K)), V),
        lambda Q, K, V: (soft(scores(Q, K))[..., None] * V[..., None, :, :]).sum(-2),
    ],
    a.multi_head: [
        multi,
        lambda M, q, k, v: np.hstack([multi(M, q[h : h + 1], k[h : h + 1], v[h : h + 1]) for h in range(len(q))]),
        lambda M, q, k, v: a.attention(M @ q, M @ k, M @ v).swapaxes(0, 1).reshape(len(M), -1),
    ],
    e.append_rows: [
        lambda M, x: np.concatenate((M, np.expand_dims(x, -2)), axis=-2),
        lambda M, x: np.insert(M, M.shape[-2], x, axis=-2),
    ],
    e.encode: [
        lambda M, x, q, k, v: a.attention(M @ q, e.append_rows(M @ k, x @ k), e.append_rows(M @ v, x @ v)),
        lambda M, x, q, k, v: soft(M @ q @ T(e.append_rows(M, x) @ k) / q.shape[-1] ** 0.5) @ e.append_rows(M, x) @ v,
    ],
    e.encode_with_heads: [
        lambda M, x, q, k, v: np.concatenate([e.encode(M, x, *h) for h in zip(q, k, v)], axis=-1),
        lambda M, x, q, k, v: np.moveaxis(np.stack([e.encode(M, x, *h) for h in zip(q, k, v)]), 0, -2).reshape(*M.shape[:-1], -1),
    ],
    e.weights_behind: [
        lambda f, Q, K: f(Q, K, np.identity(K.shape[-2])),
        lambda f, Q, K: np.concatenate([f(Q, K, c[:, None]) for c in np.eye(K.shape[-2])], axis=-1),
    ],
    n.layer_norm: [
        norm,
        lambda x, gain, offset: offset + gain * (x - x.mean(-1)[..., None]) / (x.var(-1)[..., None] + 1e-5) ** 0.5,
    ],
    n.who_notices: [
        lambda f, M, s, row: abs(f(np.where(np.arange(len(M))[:, None] == s, row, M)) - f(M)).max(1),
        lambda f, M, s, row: [max(abs(r)) for r in f(np.concatenate([M[:s], [row], M[s + 1 :]])) - f(M)],
    ],
    n.mlp: [relu_mlp, lambda z, L: relu_mlp(z, L, act=lambda x: x * (x > 0))],
    n.g_psi: [lambda z, L, gain, offset: norm(z + relu_mlp(z, L), gain, offset)],
    n.g_psi_parameters: [
        lambda N, F, layers: F * (layers * (F + 1) + 2),
        lambda N, F, layers: sum([F * F + F for _ in range(layers)]) + F + F,
    ],
    g.sigmoid: [stable, lambda x: 1 / (1 + np.exp(-x)), lambda x: np.exp(-np.logaddexp(0, -x))],
    g.gate: [
        lambda x, h, W, U, b: np.dot(x, W) + np.dot(h, U) + b,
        lambda x, h, W, U, b: np.concatenate([x, h]) @ np.concatenate([W, U]) + b,
        lambda x, h, W, U, b: W.T @ x + U.T @ h + b,
    ],
    g.gate_of_every_slot: [
        lambda x, h, W, U, b: np.einsum("bd,dg->bg", x, W)[:, None] + np.einsum("bnf,fg->bng", h, U) + b,
        lambda x, h, W, U, b: np.stack([x @ W + h[:, k] @ U + b for k in range(h.shape[1])], axis=1),
    ],
    g.weights_of_the_past: [
        past,
        lambda f, i, b: past(f, i, b, sig=lambda x: 1 / (1 + np.exp(-x))),
    ],
    g.forget_bias_for: [
        lambda share, steps: -math.log(share ** (-1 / steps) - 1),
        lambda share, steps: np.log(share ** (1 / steps)) - np.log1p(-(share ** (1 / steps))),
    ],
}  # fmt: skip
