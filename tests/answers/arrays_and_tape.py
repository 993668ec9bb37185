"""Answers to chapters 0 to 3 that no list of mistakes has: WRONG ones, RIGHT ones."""

import math

import numpy as np

from tinyrmc.course.exercises import arrays as a
from tinyrmc.course.exercises import checking as c
from tinyrmc.course.exercises import first as f
from tinyrmc.course.exercises import tape as t

f32 = np.float32


def with_loop(M):
    out = np.zeros_like(M)
    for k in range(len(M)):
        out[k] = M[k] - M[k].mean()
    return out


def walk_every_path(entries, count):
    uses = {}
    for output, inputs in entries:
        for value, derivative in inputs:
            uses.setdefault(value, []).append((output, derivative))

    def gradient(value):
        if value == count - 1:
            return 1.0
        return sum(d * gradient(output) for output, d in uses.get(value, []))

    return np.array([gradient(k) for k in range(count)])


def walk_down_every_path(entries, count):
    made = dict(entries)
    found = np.zeros(count)
    todo = [(count - 1, 1.0)]
    while todo:
        value, arrived = todo.pop()
        found[value] += arrived
        todo.extend((k, arrived * d) for k, d in made.get(value, []))
    return found


def remembered_paths(entries, count):
    uses, known = {}, {count - 1: 1.0}
    for output, inputs in entries:
        for value, derivative in inputs:
            uses.setdefault(value, []).append((output, derivative))

    def gradient(value):
        if value not in known:
            known[value] = sum(d * gradient(o) for o, d in uses.get(value, []))
        return known[value]

    return [gradient(k) for k in range(count)]


def by_a_matrix(entries, count):
    J = np.zeros((count, count))
    for output, inputs in entries:
        for value, derivative in inputs:
            J[value, output] += derivative
    return np.linalg.solve(np.eye(count) - J, np.eye(count)[-1])


def back(entries, count, start=1.0, power=1, skip=0, once=False, clip=None):
    g = np.zeros(count)
    g[-1] = start
    for output, inputs in entries[::-1][skip:]:
        for value, d in dict(inputs).items() if once else inputs:
            g[value] += g[output] * d**power
            if clip:
                g[value] = np.clip(g[value], -clip, clip)
    return g


def differences(f, x, h, forward=False):
    g = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[k] = h
        g[k] = (f(x + e) - f(x)) / h if forward else (f(x + e) - f(x - e)) / (2 * h)
    return g


def better_differences(f, x):
    """Error h^4: nearly ten digits."""
    return (4 * differences(f, x, 5e-4) - differences(f, x, 1e-3)) / 3


def complex_steps(f, x, h, part=np.imag):
    g = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        z = x.astype(complex)
        z[k] += 1j * h
        g[k] = part(f(z)) / h
    return g


def rule(
    forward, vjp, x, *, v=None, g=None, slope=None, close=None, seed=3, dtype=float
):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=x.shape).astype(dtype) if v is None else v(x)
    y = forward(x)
    g = rng.normal(size=np.shape(y)).astype(dtype) if g is None else g(y)
    slope = slope or (lambda f, x, v: f(x + 1e-30j * v).imag / 1e-30)
    exact = (g * slope(forward, x, v)).sum()
    terms = vjp(g, x) * v
    close = close or (lambda a, b, size: bool(abs(a - b) <= 1e-10 * size))
    return close(terms.sum(), exact, max(abs(terms).sum(), abs(exact)))


def central(f, x, v, h=1e-5):
    return (f(x + h * v) - f(x - h * v)) / (2 * h)


def richardson(f, x, v):
    return (4 * central(f, x, v, 5e-4) - central(f, x, v, 1e-3)) / 3


def entry_by_entry(forward, vjp, x):
    y = np.asarray(forward(x))
    g = np.random.default_rng(0).normal(size=y.shape)
    exact = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        z = x.astype(complex)
        z[k] += 1e-30j
        exact[k] = (g * forward(z).imag).sum() / 1e-30
    found = vjp(g, x)
    return np.allclose(found, exact, rtol=1e-10, atol=1e-12 * abs(exact).max())


WRONG = {
    f.mean_slot: [
        lambda M: M.mean(axis=0, keepdims=True),
        lambda M: M.mean(axis=0).astype(f32),
        lambda M: np.median(M, axis=0),
        lambda M: M.sum(axis=0) / M.shape[1],
    ],
    a.centred: [
        with_loop,
        lambda M: M - M.mean(axis=-1)[:, None],
        lambda M: M - M.mean(axis=-1)[:, :, None],
        lambda M: np.stack([m - m.mean(axis=1, keepdims=True) for m in M]),
    ],
    a.squared_distances: [
        lambda M: ((M[:, None] - M[None, :]) ** 2).sum(-1) if M.ndim == 2 else
        ((M[:, :, None] - M[:, None]) ** 2).sum(-1),
        lambda M: np.array([[((x - y) ** 2).sum() for x in M] for y in M]),
        lambda M: abs(M[..., :, None, :] - M[..., None, :, :]).sum(-1),
        lambda M: ((M[..., :, None, :] - M[..., None, :, :]) ** 2).mean(-1),
    ],
    a.project: [
        lambda M, W: np.einsum("bnf,hfk->hbnk", M, W),
        lambda M, W: np.einsum("bnf,hfk->bnhk", M, W),
        lambda M, W: np.einsum("bnf,hfk->bnk", M, W),
        lambda M, W: M[:, None] @ W[:1],
    ],
    a.split_heads: [
        lambda x, H: np.array(np.split(x, H, axis=-1)),
        lambda x, H: x.reshape(*x.shape[:2], H, -1).transpose(0, 2, 1, 3)[:, ::-1],
        lambda x, H: x.reshape(len(x), H, x.shape[1], -1, order="F"),
        lambda x, H: x.reshape(*x.shape[:2], H, -1).transpose(1, 2, 0, 3),
    ],
    a.one_hot: [
        lambda labels, size: np.eye(size)[labels.ravel()],
        lambda labels, size: (labels == np.arange(size)).astype(float),
        lambda labels, size: np.eye(size)[size - 1 - labels],
        lambda labels, size: np.array([np.eye(size)[k] for k in labels]),
    ],
    t.matmul_vjp: [
        lambda g, a, b: (g @ b.T, (a @ g.T).T),
        lambda g, a, b: (g @ b.T / len(a), a.T @ g),
        lambda g, a, b: (-(g @ b.T), -(a.T @ g)),
        lambda g, a, b: (g @ b.T,),
    ],
    t.softmax_vjp: [
        lambda g, y: y * (g - g.mean(-1, keepdims=True)),
        lambda g, y: g * y - y * (g * y).sum(axis=0, keepdims=True),
        lambda g, y: g * y - y * (g @ y.T) if y.ndim == 1 else
        g * y - y * np.diagonal(g @ y.swapaxes(-1, -2), 0, -2, -1)[..., None] * 2,
        lambda g, y: t.softmax_vjp(g, np.clip(y, 1e-7, 1)),
    ],
    t.unbroadcast: [
        lambda g, shape: g.sum(axis=0).reshape(shape) if len(shape) < g.ndim else g,
        lambda g, shape: g.reshape(-1, *shape).sum(axis=0) if g.size % max(
            math.prod(shape), 1) == 0 else g,
        lambda g, shape: np.resize(g, shape),
        lambda g, shape: t.unbroadcast(g, shape) if shape else g.sum(axis=0),
        lambda g, shape: t.unbroadcast(g, shape) if g.ndim == 2 else g,
    ],
    t.backward: [
        walk_every_path,
        walk_down_every_path,
        lambda e, n: back(e, n, once=True),
        lambda e, n: back(e, n, skip=1),
        lambda e, n: back([(o, i[:1]) for o, i in e], n),
    ],
    c.central_difference: [
        lambda f, x, h: differences(f, x, h, forward=True),
        lambda f, x, h: differences(f, x, h / 2),
        lambda f, x, h: differences(f, x, h).ravel(),
        lambda f, x, h: np.array([differences(f, x, h)[k] for k in range(len(x))]),
    ],
    c.complex_step: [
        better_differences,
        lambda f, x: differences(f, x, 1e-6),
        lambda f, x: complex_steps(f, x, 1e-30).ravel(),
        lambda f, x: np.array([f(x[k] + 1e-30j).imag / 1e-30 for k in range(len(x))]),
    ],
    c.variance: [
        lambda x: ((x - x.mean(-1, keepdims=True)) ** 2).sum(-1),
        lambda x: (abs(x - x.mean(-1, keepdims=True)) ** 2).mean(-1),
        lambda x: ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1).real,
        lambda x: np.array([((r - r.mean()) ** 2).mean() for r in x]),
    ],
    c.rule_is_right: [
        lambda f, r, x: rule(f, r, x, slope=central),
        lambda f, r, x: rule(f, r, x, slope=richardson),
        lambda f, r, x: rule(
            f, r, x, slope=central, close=lambda p, q, s: abs(p - q) < 1e-6 * s
        ),
        lambda f, r, x: rule(f, r, x, slope=richardson, close=lambda p, q, s: abs(p - q) < 1e-9 * s),
        lambda f, r, x: rule(f, r, x, g=np.ones_like),
        lambda f, r, x: rule(f, r, x, v=np.ones_like),
        lambda f, r, x: rule(f, r, x, v=np.ones_like, g=np.ones_like),
        lambda f, r, x: rule(f, r, x, v=lambda x: x),
        lambda f, r, x: rule(f, r, x, close=lambda p, q, s: p == q),
        lambda f, r, x: rule(f, r, x, close=lambda p, q, s: abs(p - q) < 1e-8 * s),
        lambda f, r, x: rule(f, r, x, close=lambda p, q, s: abs(p - q) < 1e-10),
        lambda f, r, x: float(c.rule_is_right(f, r, x)),
        lambda f, r, x: True,
        lambda f, r, x: rule(f, r, x, close=lambda p, q, s: p - q <= 1e-10 * s),
        lambda f, r, x: np.shape(r(np.ones_like(f(x)), x)) == x.shape,
    ],
}  # fmt: skip

RIGHT = {
    f.mean_slot: [
        lambda M: sum(M) / len(M),
        lambda M: np.ones(len(M)) / len(M) @ M,
        lambda M: [column.mean() for column in M.T],
    ],
    a.centred: [
        lambda M: M - M.mean(-1)[..., None],
        lambda M: M - np.expand_dims(M.sum(axis=-1) / M.shape[-1], -1),
        lambda M: M @ (np.eye(M.shape[-1]) - 1 / M.shape[-1]),
        lambda M, axis=-1: M - M.mean(axis, keepdims=True),
        lambda M: np.stack([m - m.mean(axis=-1, keepdims=True) for m in M]),
        np.vectorize(lambda m: m - m.mean(), signature="(n)->(n)"),
    ],
    a.squared_distances: [
        lambda M: np.linalg.norm(M[..., None, :] - M[..., None, :, :], axis=-1) ** 2,
        lambda M: np.square(np.expand_dims(M, -2) - np.expand_dims(M, -3)).sum(-1),
    ],
    a.project: [
        lambda M, W: np.einsum("bnf,hfk->bhnk", M, W),
        lambda M, W: np.matmul(np.expand_dims(M, 1), W[None]),
        lambda M, W: np.stack([M @ w for w in W], axis=1),
        lambda M, W: [[m @ w for w in W] for m in M],
    ],
    a.split_heads: [
        lambda x, H: np.stack(np.split(x, H, axis=-1), axis=1),
        lambda x, H: x.reshape(len(x), -1, H, x.shape[2] // H).transpose(0, 2, 1, 3),
        lambda x, H: [np.split(each, H, axis=-1) for each in x],
    ],
    a.one_hot: [
        lambda labels, size: (labels[..., None] == np.arange(size)) * 1.0,
        lambda labels, size: labels[..., None] == np.arange(size),
        lambda labels, size: np.eye(size, dtype=int)[labels],
        lambda labels, size: np.eye(size, dtype=f32)[labels],
        lambda labels, size: np.take(np.eye(size), labels, axis=0),
    ],
    t.matmul_vjp: [
        lambda g, a, b: [np.einsum("ij,kj->ik", g, b), np.einsum("ik,ij->kj", a, g)],
        lambda g, a, b: (np.dot(g, np.transpose(b)), np.dot(np.transpose(a), g)),
        lambda g, a, b: ((b @ g.T).T, (g.T @ a).T),
    ],
    t.softmax_vjp: [
        lambda g, y: y * (g - (g * y).sum(-1, keepdims=True)),
        lambda g, y: g * y - np.einsum("...i,...j,...j->...i", y, y, g),
        lambda g, y: y * (g - np.sum(g * y, axis=-1)[..., None]),
    ],
    t.unbroadcast: [
        lambda g, shape: g if g.shape == shape else t.unbroadcast(g, shape),
        lambda g, shape: g.sum(
            axis=tuple(
                k for k in range(g.ndim)
                if k < g.ndim - len(shape) or shape[k - g.ndim + len(shape)] == 1
            )
        ).reshape(shape),
    ],
    t.backward: [
        remembered_paths,
        by_a_matrix,
        lambda entries, count: back(entries, count).tolist(),
    ],
    c.central_difference: [
        differences,
        lambda f, x, h: differences(f, x, h).tolist(),
        lambda f, x, h: [differences(f, x, h)][0] * 1.0,
    ],
    c.complex_step: [
        lambda f, x: complex_steps(f, x, 1e-20),
        lambda f, x: complex_steps(f, x, 1e-100),
        lambda f, x: complex_steps(f, x, 1e-9),
    ],
    c.variance: [
        lambda x: np.square(x - np.mean(x, axis=-1)[..., None]).mean(axis=-1),
        lambda x: ((x - x.mean(-1, keepdims=True)) ** 2).sum(-1) / x.shape[-1],
    ],
    c.rule_is_right: [
        rule,
        lambda f, r, x: rule(f, r, x, seed=8),
        entry_by_entry,
        lambda f, r, x: np.isclose(*_both(f, r, x), rtol=1e-10, atol=0),
    ],
}  # fmt: skip


def _both(forward, vjp, x):
    """Positive directions and weights, so that next to nothing cancels."""
    rng = np.random.default_rng(11)
    v, g = rng.normal(size=x.shape), rng.normal(size=np.shape(forward(x)))
    return (vjp(g, x) * v).sum(), (g * forward(x + 1e-30j * v).imag).sum() / 1e-30
