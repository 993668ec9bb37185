"""Answers on learning and the memory update, beyond the lists."""

import numpy as np

from tinyrmc import Tape, equations, fused, primitives
from tinyrmc.course.exercises import learning as a
from tinyrmc.course.exercises import memory as m
from tinyrmc.course.exercises import release as r

f32 = np.float32


def slopes(network, parameters, inputs, targets, shorten=lambda g: a.clip(g, 1.0)):
    with Tape() as tape:
        losses = fused.softmax_cross_entropy(network(inputs), targets)
        loss = primitives.mean(losses)
    gradients = tape.gradient(loss, parameters, strict=False)
    return float(loss.data), shorten(gradients)


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


def deep(w, x, bend=lambda x: x.relu(), until=2, first=0):
    for k in range(first, len(w), 2):
        x = x @ w[k] + w[k + 1]
        x = bend(x) if k + until < len(w) else x
    return x


def trained(w, slopes, rule, batch_of, steps, *, on=None, halve=1.0, back=0):
    losses = []
    for k in range(steps):
        loss, gs = slopes(w, *batch_of(k if on is None else on(k)))
        losses += [halve * loss]
        w = [
            rule(j - back, each, g)
            for j, (each, g) in enumerate(zip(w, gs, strict=True))
        ]
    return losses, w


def epochs(x, y, w, slopes, rate, n, seed, *, size=4, order=None, rest=True):
    rng, losses = np.random.default_rng(seed), []
    for _ in range(n):
        k = rng.permutation(len(x)) if order is None else order(len(x))
        x, y = x[k], y[k]
        for i in range(0, len(x) if rest else len(x) - size + 1, size):
            loss, gs = slopes(w, x[i : i + size], y[i : i + size])
            w = [each - rate * g for each, g in zip(w, gs, strict=True)]
            losses.append(loss)
    return losses, w


def rates(start, slopes, each_rate, steps, *, copy=True, rise=-1):
    found = []
    for rate in each_rate:
        w = [np.array(each) for each in start] if copy else start
        for _ in range(steps):
            w = [
                each + rise * rate * g for each, g in zip(w, slopes(w)[1], strict=True)
            ]
        found.append(slopes(w)[0])
    return found


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


def states(f, xs, x, h):
    """The state after each step."""
    found = []
    for y in xs:
        x, h = f(y, x, h)
        found.append((x, h))
    return found


def kept(f, rng, claim):
    """How near a memory stays to itself, against the forget bias."""
    x, M, h = rng.normal(size=(9, 16)), *rng.normal(size=(2, 9, 3, 16))
    found = []
    for bias in range(-4, 4):
        after, _ = f(x, M, h, forget_bias=bias)
        found.append((after * M).sum() / np.linalg.norm(after) / np.linalg.norm(M))
    return range(-4, 4), found, claim


def sig_exact(x):
    return np.exp(x) / (1 + np.exp(x))


WRONG = {
    a.logits: [
        lambda w, x: deep(w, x, until=4),
        lambda w, x: deep(w[:2], x),
        lambda w, x: deep(w, x).relu(),
        lambda w, x: deep(w, x, bend=lambda x: x * x),
        lambda w, x: deep(w, x).relu(),
        lambda w, x: deep(w, x).mean(),
    ],
    a.train: [
        lambda *c: trained(*c, halve=0.5),
        lambda *c: trained(*c, on=lambda k: k // 2),
        lambda w, s, r, b, n: trained(w, s, r, b, n + 1),
        lambda w, s, r, b, n: trained(w, s, lambda k, x, g: x - g, b, n),
        lambda w, s, r, b, n: (trained(w, s, r, b, n)[0][-1:], trained(w, s, r, b, n)[1]),
    ],
    a.train_in_epochs: [
        lambda *c: epochs(*c, size=1),
        lambda *c: epochs(*c, order=np.arange),
        lambda *c: epochs(*c, rest=False),
        lambda x, y, *c: epochs(x, x, *c),
        lambda *c: epochs(*c)[::-1],
    ],
    a.try_rates: [
        lambda *c: rates(*c)[::-1],
        lambda *c: rates(*c, rise=1),
        lambda s, f, r, n: rates(s, f, r, n - 1),
        lambda s, f, r, n: min(rates(s, f, r, n)),
    ],
    a.cross_entropy_vjp: [
        lambda g, z, t: ce(g, z, t, smooth=0.1),
        lambda g, z, t: ce(g, z, t, tiny=1e-8),
        lambda g, z, t: ce(g, z, t, clip=30.0),
        lambda g, z, t: ce(g, z, t).astype(f32),
    ],
    a.sgd: [
        lambda w, g, v, r, k: (w - r * (k * v + g), k * v + g, g),
        lambda w, g, v, r, k: [w - r * g, g],
        lambda w, g, v, r, k: (w + r * (k * v - g), k * v - g),
        lambda w, g, v, r, k: (w - r * (v * k - g), k * v - g),
    ],
    a.adam_step: [
        adam_in_place,
        lambda *c: adam(*c, eps=1e-7),
        lambda *c: adam(*c, eps=0),
        lambda w, g, mm, v, t, r, x, y: adam(w, g, mm, v, t, r, 0.9, 0.999),
    ],
    a.clip: [
        lambda gs, c: [g * min(1, c / size(gs, 1)) for g in gs],
        lambda gs, c: [g * min(1, c / max(size(gs), 1e-6)) / len(gs) for g in gs],
        lambda gs, c: [g * min(1, c / (size(gs) + 1e-12)) + 1e-7 for g in gs],
        lambda gs, c: [g / max(size(gs), c) for g in gs],
    ],
    m.update_memory: [
        lambda *c: update(*c, s=overflowing),
        lambda *c: update(*c, s=lambda x: sig(np.clip(x, -30, 30))),
        lambda *c: update(*c, s=lambda x: np.clip(sig(x), 1e-7, 1)),
        lambda *c: update(*c, s=np.tanh),
    ],
    m.read: [
        lambda f, xs, x, h: [f(y, x, h)[1] for y in xs][-1],
        lambda f, xs, x, h: states(f, xs[::-1], x, h)[-1][1],
        lambda f, xs, x, h: states(f, xs, x, h)[-1],
        lambda f, xs, x, h: states(f, xs, x, h)[-1][0],
        lambda f, xs, x, h: np.stack([each for _, each in states(f, xs, x, h)]),
    ],
    m.slopes: [
        lambda *c: slopes(*c, shorten=lambda g: a.clip(g, 2.0)),
        lambda *c: slopes(*c, shorten=lambda g: a.clip(g, 1.0)[::-1]),
        lambda *c: slopes(*c, shorten=lambda g: [x / max(1.0, size(g) ** 2) for x in g]),
        lambda *c: slopes(*c)[::-1],
        lambda *c: (slopes(*c)[0], slopes(*c)[1][:-1]),
    ],
    m.begin: [
        lambda first, B: np.broadcast_to(first, (B, *first.shape)),
        lambda first, B: np.tile(first, (B, 1)),
        lambda first, B: np.stack([np.roll(first, b, 0) for b in range(B)]) + 1e-8,
        lambda first, B: np.zeros((B, *first.shape)) + first[::-1],
    ],
    m.my_experiment: [
        lambda f, seed: (range(5), range(5), "rises"),
        lambda f, seed: kept(f, np.random.default_rng(), "rises"),
        lambda f, seed: kept(f, np.random.default_rng(seed), "neither"),
        lambda f, seed: kept(f, np.random.default_rng(seed), "rises")[1:],
    ],
    r.spread: [
        lambda x: float(x.std(-2).mean() / max(np.sqrt((x * x).mean()), 1e-30)),
        lambda x: float(np.sqrt(x.var(-2).mean()) / (np.sqrt((x * x).mean()) + 1e-6)),
        lambda x: float(np.sqrt(x.var(0).mean()) / max(np.sqrt((x * x).mean()), 1e-30)),
        lambda x: float(x.var(-2).mean() / max((x * x).mean(), 1e-30)),
    ],
    r.released_step: [
        lambda x, M, p: r.released_step(np, x, np.tanh(M), p),
        lambda x, M, p: r.released_step.function(np, x, M, p) + 1e-7,
        lambda x, M, p: r.released_step(np, x, M, p | {"forget_bias": 1.0}),
        lambda x, M, p: r.released_step(np, x, M, p | {"gain": p["attended_gain"]}),
        lambda x, M, p: r.released_step(np, x, M, p | {"W_i": p["W_f"], "W_f": p["W_i"]}),
    ],
    r.settles: [
        lambda f, i, b, c: sig(i) * c / (1 - sig(f + b) + 1e-12),
        lambda f, i, b, c: c * sig(i) * np.exp(f + b),
        lambda f, i, b, c: sig(i) * c * (1 + np.exp(min(f + b, 30))),
        lambda f, i, b, c: sig(i) * c * (1 + np.exp(-f - b)),
    ],
    m.step: [
        lambda *c: step(*c, s=overflowing),
        lambda *c: step(*c, see="att"),
        lambda *c: step(*c, see="mean"),
        lambda *c: step(*c, s=lambda x: np.clip(sig(x), 1e-6, 1)),
    ],
}  # fmt: skip


def epochs_of_the_untouched(inputs, targets, weights, slopes, rate, epochs, seed):
    """Each order is one of the examples as they were."""
    rng, losses = np.random.default_rng(seed), []
    for _ in range(epochs):
        order = list(rng.permutation(len(inputs)))
        while order:
            some, order = order[:4], order[4:]
            loss, by = slopes(weights, inputs[some], targets[some])
            weights = [w - rate * g for w, g in zip(weights, by)]
            losses.append(loss)
    return losses, weights


RIGHT = {
    a.logits: [deep],
    a.train: [trained, lambda *c: trained(*c, back=7)],
    a.train_in_epochs: [epochs, epochs_of_the_untouched],
    a.try_rates: [rates, lambda *c: rates(*c, copy=False)],
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
        lambda gs, c: [g * np.minimum(c / (size(gs) + 1e-6), 1) for g in gs],
        lambda gs, c: gs if size(gs) <= c else [g * (c / size(gs)) for g in gs],
        lambda gs, c: tuple(g / max(1, size(gs) / c) for g in gs),
    ],
    m.update_memory: [update, lambda f, i, o, c, b: sig(i) * c + o * sig(b + f)],
    m.read: [lambda f, xs, x, h: states(f, xs, x, h)[-1][1]],
    m.slopes: [
        lambda *c: slopes(*c),
        lambda *c: slopes(*c, shorten=lambda g: tuple(x / max(1.0, size(g)) for x in g)),
    ],
    m.begin: [
        lambda first, B: np.tile(first, (B, 1, 1)),
        lambda first, B: np.stack([first] * B),
    ],
    m.my_experiment: [
        lambda f, seed: kept(f, np.random.default_rng(seed), "rises"),
    ],
    r.spread: [
        lambda x: np.sqrt(x.var(axis=-2).mean() / (x * x).mean()) if x.any() else 0.0,
    ],
    r.released_step: [lambda x, M, p: r.released_step.function(np, x, M, p)],
    r.settles: [
        lambda f, i, b, c: c / (1 + np.exp(-i)) / sig_exact(-(f + b)),
        lambda f, i, b, c: np.float64(c) * sig(i) * (1 + np.exp(f + b)),
    ],
    m.step: [step, lambda *c: np.stack(step(*c)), lambda *c: list(step(*c))],
}  # fmt: skip
