"""Answers to the puzzles, beyond the lists."""

import numpy as np

from tinyrmc.course.exercises import puzzles as z

f32 = np.float32


def spoilt(f):
    """Ways to be wrong that suit every result with numbers other than 0."""
    return [
        lambda *c: (f(*c) * 1.0).astype(f32) * f32(1.0000001) * f32(1 / 3) * 3.0,
        lambda *c: f(*c) + 1e-6,
        lambda *c: f(*c)[None],
        lambda *c: f(*c) + 1j,
    ]


def masks(f):
    """Ways to be wrong that suit every mask."""
    return [
        lambda *c: f(*c) * 1.0,
        lambda *c: f(*c).astype(int),
        lambda *c: np.where(f(*c), 0.0, -np.inf),
        lambda *c: ~f(*c),
        lambda *c: f(*c)[None],
        lambda *c: f(*c)[:, ::-1],
        lambda *c: np.zeros_like(f(*c)),
    ]


def own(
    seed,
    panel,
    *,
    of=lambda x, y: x[:, None] * y % 3 == 0,
    draw=None,
    shown=True,
    names=True,
    alone=False,
):
    """A learner's own puzzle."""
    rng = np.random.default_rng(seed)
    x, y = draw(rng) if draw else (rng.integers(9, size=5), np.arange(7))
    if shown:
        panel.imshow(of(x, y), cmap="Greys")
    if names:
        panel.set_xlabel("y")
        panel.set_ylabel("x")
    return of if alone else (of, (x, y))


def by_a_loop(x, y):
    return np.stack([x] * len(y)).T * 1.0 + y


def leaves_out(x, y):
    return y[:, None] < np.arange(9)


def as_it_came(x, y):
    return 1.0 * x


def square(rng):
    return rng.normal(size=(4, 4)), rng.normal(size=3)


WRONG = {
    z.my_puzzle: [
        lambda *c: own(*c, of=by_a_loop),
        lambda *c: own(*c, of=lambda x, y: x @ x + y @ y),
        lambda *c: own(*c, draw=lambda rng: (np.arange(3), np.arange(4))),
        lambda *c: own(*c, of=leaves_out),
        lambda *c: own(*c, of=as_it_came, draw=square),
        lambda *c: own(*c, shown=False),
        lambda *c: own(*c, names=False),
        lambda *c: own(*c, alone=True),
    ],
    z.ones: [*spoilt(z.ones), lambda n: np.arange(1, n + 1)],
    z.total: [
        lambda x: x.sum().astype(f32),
        lambda x: 2 * x.sum(),
        lambda x: -x.sum(),
        lambda x: np.clip(x, -30, 30).sum(),
        lambda x: x @ (x / x),
    ],
    z.identity: [*spoilt(z.identity), lambda n: np.eye(n, k=1)],
    z.one_hot: [
        *spoilt(z.one_hot),
        lambda b, C: np.eye(C)[b][::-1],
        lambda b, C: np.eye(b.max() + 1)[b],
    ],
    z.look_up: [*spoilt(z.look_up), lambda b, W: W[np.sort(b)]],
    z.causal_mask: [
        *masks(z.causal_mask),
        lambda T: np.arange(T) > np.arange(T)[:, None],
    ],
    z.padding_mask: [
        *masks(z.padding_mask),
        lambda n, T: np.arange(n.max()) < n[:, None] - (n > 2)[:, None],
    ],
    z.cumulative_sum: [
        *spoilt(z.cumulative_sum),
        lambda x: np.vstack([0 * x[:1], x.cumsum(axis=0)[:-1]]),
        lambda x: x.cumsum(axis=0),
        lambda x: np.clip(x, -30, 30).cumsum(axis=-2),
    ],
    z.changes: [
        *spoilt(z.changes),
        lambda x: np.diff(x, axis=0, prepend=0),
        lambda x: np.diff(x, axis=-1, prepend=0),
        lambda x: np.clip(np.diff(x, axis=-2, prepend=0), -30, 30),
    ],
    z.shuffle: [*spoilt(z.shuffle), lambda M, k: M[k], lambda M, k: M[..., ::-1, :]],
    z.unshuffle: [
        *spoilt(z.unshuffle),
        lambda M, k: M[np.argsort(k)],
        lambda M, k: M[..., k, :],
    ],
    z.ranks: [
        *spoilt(z.ranks)[1:],
        lambda x: (x < x[:, None]).sum(axis=0),
        lambda x: (abs(x) < abs(x)[:, None]).sum(axis=1),
    ],
    z.head_mask: [
        *masks(z.head_mask),
        lambda F, H: np.arange(F)[:, None] // H == np.arange(F) // (F // H),
    ],
    z.last_step: [*spoilt(z.last_step), lambda x, n: x[:, n - 1][:, 0]],
    z.gated: [
        *spoilt(z.gated),
        lambda M, f, i, new: M / (1 + np.exp(-f)) - np.tanh(new) / (1 + np.exp(-i)),
        lambda M, f, i, new: (
            M * np.exp(f) / (1 + np.exp(f)) + np.tanh(new) / (1 + np.exp(-i))
        ),
        lambda M, f, i, new: (
            M / (1 + np.exp(-np.clip(f, -10, 10))) + np.tanh(new) / (1 + np.exp(-i))
        ),
    ],
}


def ones(n):
    return np.where(np.arange(n) < n, 1.0, 0.0)


def total(x):
    return x @ np.where(x == x, 1, 0)


def total_by_a_matrix(x):
    return (x[None, :] @ (np.arange(x.shape[0])[:, None] * 0 + 1))[0, 0]


def identity(n):
    return 1 * (np.arange(n) == np.arange(n)[:, None])


def one_hot(labels, C):
    return (labels[:, np.newaxis] == np.arange(C)[None, :]) * 1.0


def look_up(labels, table):
    """The transposed product, transposed."""
    return (table.T @ ((np.arange(table.shape[0])[:, None] == labels) * 1.0)).T


def causal_mask(T):
    return np.arange(T)[:, None] - np.arange(T)[None] > -1


def padding_mask(lengths, T):
    return (lengths > np.arange(T)[:, None]).T


def cumulative_sum(x):
    return np.where(np.arange(x.shape[-2])[:, None] < np.arange(x.shape[-2]), 0, 1) @ x


def changes(x):
    return (
        np.where(
            np.arange(x.shape[-2])[:, None] == np.arange(x.shape[-2]),
            1.0,
            np.where(
                np.arange(x.shape[-2])[:, None] == 1 + np.arange(x.shape[-2]), -1, 0
            ),
        )
        @ x
    )


def shuffle(M, order):
    return (1.0 * (np.arange(M.shape[-2]) == order[:, None])) @ M


def unshuffle(M, order):
    return np.where(order[:, None] == np.arange(M.shape[-2]), 1.0, 0.0).T @ M


def ranks(x):
    return (0 * x + 1) @ np.where(x[:, None] < x, 1, 0)


def head_mask(F, H):
    return (np.arange(F) * H // F)[:, None] == np.arange(F) * H // F


def last_step(x, lengths):
    return (
        (lengths[:, None, None] == np.arange(x.shape[1])[None, None] + 1) * 1.0 @ x
    )[:, 0, :]


def gated(M, f, i, new):
    return (0.5 + 0.5 * np.tanh(f / 2)) * M + np.tanh(new) / (1 + np.exp(-i))


RIGHT = {
    z.my_puzzle: [own],
    z.ones: [ones],
    z.total: [total, total_by_a_matrix],
    z.identity: [identity],
    z.one_hot: [one_hot],
    z.look_up: [look_up],
    z.causal_mask: [causal_mask],
    z.padding_mask: [padding_mask],
    z.cumulative_sum: [cumulative_sum],
    z.changes: [changes],
    z.shuffle: [shuffle],
    z.unshuffle: [unshuffle],
    z.ranks: [ranks],
    z.head_mask: [head_mask],
    z.last_step: [last_step],
    z.gated: [gated],
}
