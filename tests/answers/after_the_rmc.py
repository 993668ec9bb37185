"""Answers to the chapter on memories after the RMC, beyond the lists."""

import itertools

import numpy as np

from tinyrmc.course.exercises import after_the_rmc as a

f32 = np.float32
e = np.einsum


def T(x):
    return np.swapaxes(x, -1, -2)


def unit(u, tiny=0.0, axis=-1):
    return u / (np.sqrt((u * u).sum(axis, keepdims=True)) + tiny)


def all_at_once(q, k, v, a, strict=False, divided=False):
    """The square of all steps by all, with the decays between them."""
    size = q.shape[-2]
    left = np.zeros((*a.shape[:-1], size, size))
    for t, s in itertools.product(range(size), repeat=2):
        if s <= t - strict:
            left[..., t, s] = a[..., s + 1 : t + 1].prod(-1)
    if divided:  # products of decays, which may be 0
        whole = np.cumprod(a, axis=-1)
        left = np.tril(whole[..., :, None] / whole[..., None, :])
    o = (q @ T(k) * left) @ v
    return o, T(k * left[..., -1, :, None]) @ v


def stepped(q, k, v, a, fade=lambda S, a, new: a * S + new, axis=-2):
    S = np.zeros((*q.shape[:-2], q.shape[-1], v.shape[-1]))
    found = []
    for t in range(q.shape[-2]):
        new = e("...d,...e->...de", k[..., t, :], v[..., t, :])
        S = fade(S, a[..., t, None, None], new)
        found.append(e("...d,...de->...e", q[..., t, :], S))
    return np.stack(found, axis=axis), S


def corrected(S, q, k, v, beta, tiny=0.0, after=True, far=1.0):
    """With the matrix I - beta k k^T."""
    q, k = unit(q, tiny), far * unit(k, tiny)
    away = np.eye(k.shape[-1]) - beta[..., None, None] * e("...i,...j->...ij", k, k)
    new = away @ S + e("...i,...j->...ij", k, v) * beta[..., None, None]
    return e("...d,...de->...e", q, new if after else S), new


def in_a_loop(S, q, k, v, beta=None, look=True):
    found = []
    for t in range(q.shape[-2]):
        u = v[..., t, :]
        if beta is not None:
            there = e("...d,...de->...e", k[..., t, :], S)
            u = beta[..., t, None] * (u - there * look)
        S = S + k[..., t, :, None] * u[..., None, :]
        found.append(e("...d,...de->...e", q[..., t, :], S))
    return np.stack(found, axis=-2), S


def chunked(S, q, k, v, mask=np.tril, at=lambda S, new: S, whole=1.0):
    new = e("...cd,...ce->...de", k, v)
    scores = e("...td,...sd->...ts", q, k)
    return q @ at(S, new) + mask(scores) @ v, whole * S + new


def solved(S, q, k, v, beta, weigh=None, read=None, power=None):
    b = beta[..., None] if weigh is None else weigh(beta)
    L = np.tril(b * e("...td,...sd->...ts", k, k), -1)
    right = b * (v - k @ S)
    if power is None:
        u = np.linalg.inv(np.eye(L.shape[-1]) + L) @ right
    else:  # a series, which ends, for L has zeros on its diagonal
        u, term = right, right
        for _ in range(power):
            term = -(L @ term)
            u = u + term
    return chunked(S, q, k, u if read is None else read(u, v))


def spaced(
    h, x, D, A, B, C, keeps=np.exp, write=None, read=lambda h, C: h @ C[..., None]
):
    new = e("...f,...n->...fn", D * x if write is None else write(D, x), B)
    h = keeps(e("...f,fn->...fn", D, A)) * h + new
    return read(h, C)[..., 0], h


def measured(store, panel, seed, d=12, pairs=(2, 4, 8, 16, 32), mark=True, line=None):
    """The squared error that is left, of the sum."""
    rng, errors = np.random.default_rng(seed), []
    for n in pairs:
        keys, values = rng.normal(size=(40, n, d)), rng.normal(size=(40, n, 5))
        lost = [
            np.mean((unit(k) @ store(k, v, rule="sum") - v) ** 2)
            for k, v in zip(keys, values)
        ]
        errors.append(np.mean(lost))
    panel.semilogx(pairs, errors if line is None else line(errors))
    if mark:
        panel.vlines(d, 0, 1) if mark == "vlines" else panel.axvline(d + (mark - 1))
    panel.set(xlabel="pairs", ylabel="squared error")
    return [*pairs], errors, "rises"


def invented(store, panel, seed):
    """Numbers that have nothing to do with what `store` returns."""
    store(np.eye(4), np.eye(4))
    drawn = sorted(np.random.default_rng(seed).random(5))
    panel.plot(range(5), drawn)
    panel.axvline(4)
    panel.set(xlabel="pairs", ylabel="error")
    return [*range(5)], drawn, "rises"


def newest(store, panel, seed, d=6, pairs=(2, 4, 8, 16, 32)):
    """The error of the newest pair, which is nothing but rounding."""
    rng, errors = np.random.default_rng(seed), []
    for n in pairs:
        k, v = rng.normal(size=(n, d)), rng.normal(size=(n, 5))
        errors.append(np.mean(((unit(k) @ store(k, v))[-1] - v[-1]) ** 2))
    panel.plot(pairs, errors)
    panel.axvline(d)
    panel.set(xlabel="pairs", ylabel="squared error")
    return [*pairs], errors, "stays"


WRONG = {
    a.fading: [
        lambda q, k, v, a: all_at_once(q, k, v, a, strict=True),
        lambda q, k, v, a: all_at_once(q, k, v, a, divided=True),
        lambda q, k, v, a: stepped(q, k, v, a, fade=lambda S, a, new: a * S + a * new),
        lambda q, k, v, a: stepped(q, k, v, a, fade=lambda S, a, new: a * S + (1 - a) * new),
        lambda q, k, v, a: stepped(q, k, v, a, axis=0),
        lambda q, k, v, a: tuple(x.astype(f32) for x in stepped(q, k, v, a)),
        lambda q, k, v, a: stepped(q, k, v, a)[0],
    ],
    a.delta_step: [
        lambda *c: corrected(*c, after=False),
        lambda *c: corrected(*c, far=2.0),
        lambda *c: corrected(*c, tiny=0.1),
        lambda S, q, k, v, b: corrected(S, q, k, v, b**2),
        lambda S, q, k, v, b: corrected(S, q, k, v, np.ones_like(b)),
        lambda S, q, k, v, b: corrected(S, q, k, v, b)[::-1],
    ],
    a.sum_in_chunk: [
        lambda *c: chunked(*c, mask=lambda s: s),
        lambda *c: chunked(*c, mask=lambda s: np.tril(s, -1)),
        lambda *c: chunked(*c, mask=lambda s: s * np.eye(s.shape[-1])),
        lambda *c: chunked(*c, at=lambda S, new: S + new),
        lambda *c: chunked(*c, whole=0.0),
        in_a_loop,
    ],
    a.delta_in_chunk: [
        lambda *c: solved(*c, power=0),
        lambda *c: solved(*c, power=1),
        lambda *c: solved(*c, weigh=lambda b: 1.0),
        lambda *c: solved(*c, weigh=lambda b: b[..., None] ** 2),
        lambda *c: solved(*c, read=lambda u, v: v),
        in_a_loop,
    ],
    a.selective_step: [
        lambda *c: spaced(*c, keeps=lambda z: 1 + z),
        lambda *c: spaced(*c, keeps=lambda z: 1 / (1 + np.exp(-z))),
        lambda *c: spaced(*c, write=lambda D, x: x),
        lambda *c: spaced(*c, write=lambda D, x: (1 - D) * x),
        lambda h, x, D, A, B, C: spaced(h, x, D, A, C, B),
    ],
    a.my_experiment: [
        lambda store, panel, seed: measured(store, panel, 0),
        lambda store, panel, seed: measured(store, panel, seed, mark=False),
        invented,
        lambda store, panel, seed: measured(store, panel, seed, mark=3),
        lambda store, panel, seed: measured(store, panel, seed, line=np.sqrt),
        lambda store, panel, seed: measured(lambda k, v, **_: 0 * k.T @ v, panel, seed),
    ],
}  # fmt: skip

RIGHT = {
    a.fading: [stepped, all_at_once, lambda *c: [x.tolist() for x in stepped(*c)]],
    a.delta_step: [corrected, lambda *c: corrected(*c, tiny=1e-6)],
    a.sum_in_chunk: [chunked, lambda *c: chunked(*c, mask=lambda s: np.where(np.tri(s.shape[-1]), s, 0))],
    a.delta_in_chunk: [
        solved,
        lambda *c: solved(*c, weigh=lambda b: b[..., None] + 0.0),
    ],
    a.selective_step: [spaced, lambda *c: spaced(*c, read=lambda h, C: (h * C[..., None, :]).sum(-1, keepdims=True))],
    a.my_experiment: [measured, newest, lambda s, panel, seed: measured(s, panel, seed, d=20)],
}  # fmt: skip
