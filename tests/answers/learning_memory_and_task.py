"""Answers on learning and the memory update, beyond the lists."""

import math

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


def into(x, k, g):
    whole = 0 * x
    whole[k] += g
    return whole


def joined(nodes, axis):
    """Piece by piece, by slices."""
    y = np.concatenate([x.data for x in nodes], axis=axis)

    def vjp(g):
        g, pieces = np.moveaxis(g, axis, 0), []
        for x in nodes:
            n = x.data.shape[axis]
            pieces.append(np.moveaxis(g[:n], 0, axis))
            g = g[n:]
        return pieces

    return nodes[0].tape.record(y, tuple(nodes), vjp)


def heads(h, x, q, k, v, *, top=False, turn=1):
    row = m.reshape(x, (len(x.data), 1, -1))
    rows = joined([h, row], -2)
    if top:
        rows = joined([row, row], -2)
    found = [
        m.attend(h @ a_, rows @ b_, rows @ c_)
        for a_, b_, c_ in zip(
            *[[m.cut(w, j) for j in range(len(w.data))] for w in (q, k, v)]
        )
    ]
    return joined(
        found[::turn] if turn == 1 else [*found[:-1], found[-1] + found[-1]], 2
    )


def read(f, xs, old, p, *, first=None, bend=lambda x: x):
    h = old.tape.watch(np.zeros(old.data.shape)) if first is None else first
    for x in xs:
        old, h = f(bend(p["b_in"] + x @ p["W_in"]), old, h)
    return p["b_out"] + m.reshape(h, (h.data.shape[0], -1)) @ p["W_out"]


def task(learns, seed, panel, *, few=False, blind=False, seedless=False, told=None):
    """Which of two numbers was larger? The first one is gone when the second comes."""
    seed = 0 if seedless else seed

    def draw(rng, count):
        x = rng.normal(size=(count, 2, 1)).astype(f32)
        y = x[:, -1, 0] > 0 if blind else x[:, 0, 0] > x[:, 1, 0]
        return x, y.astype(int)

    losses, network = learns(seed, 30, m.slopes, draw, 1)
    rngs = [np.random.default_rng([seed, t]) for t in range(30)]
    x, y = (np.concatenate(z) for z in zip(*(draw(rng, 16) for rng in rngs)))
    test = draw(np.random.default_rng([4, 7, seed]), 100 if few else 500)

    def share(inputs):
        return float((network(inputs).data.argmax(1) == test[1]).mean())

    others = np.concatenate([np.roll(test[0][:, :-1], 1, 0), test[0][:, -1:]], 1)
    n, right, control = len(test[1]), share(test[0]), share(others)
    floor = max(test[1].mean(), 1 - test[1].mean())
    apart = (right - max(floor, control)) / np.sqrt(0.25 / n)
    panel.scatter(range(len(losses)), losses)
    panel.hlines([np.log(2)], 0, 30)
    panel.set_xlabel("steps")
    panel.set_ylabel("loss")
    return {
        "draw": draw, "trained": (x, y), "tested": test, "right": right, "floor": floor,
        "predict": lambda inputs: network(inputs).data.argmax(1), "control": control,
        "losses": losses, "conclusion": told or ("learns" if apart > 3 else "cannot tell"),
    }  # fmt: skip


def circle(
    seed,
    panel,
    *,
    size=600,
    test=None,
    report=None,
    floor=None,
    wide=False,
    told=None,
    level=True,
    swap=False,
    heap=False,
    steps=80,
    rate=0.03,
):
    """Is a point within a circle? Three kinds of answers, of unequal frequency."""

    def draw(rng, count):
        x = rng.uniform(-1, 1, (count, 2))
        y = np.digitize((x**2).sum(1), [0.5, 1.2])
        return (np.hstack([x, y[:, None]]) if wide else x), y

    few = draw(np.random.default_rng([seed, 0]), 600 if test else 50)
    rngs = [np.random.default_rng([seed, t]) for t in range(steps)]
    batches = [few if heap or test else draw(rng, 50) for rng in rngs]
    start = a.fresh_layers(np.random.default_rng(seed), 3 if wide else 2, 20, 3)
    losses, weights = trained(
        start, a.slopes, a.adam_rule(adam, rate), lambda t: batches[t], steps
    )
    tested = draw(
        (test or (lambda rng, s: np.random.default_rng([5, 5, s])))(None, seed), size
    )

    def predict(x):
        return a.answers(weights, x)

    right = float((predict(tested[0]) == tested[1]).mean())
    best = max((tested[1] == k).mean() for k in range(3))
    surely = right - best > 3 * np.sqrt(right * (1 - right) / size)
    xy = (losses, range(steps)) if swap else (range(steps), losses)
    panel.plot(*xy, label="loss")
    if level:
        panel.axhline(np.log(3), ls=":", label="guess")
    panel.set(xlabel="step", ylabel="loss")
    return {
        "draw": draw, "trained": [np.concatenate(z) for z in zip(*batches)],
        "tested": tested, "predict": predict, "losses": losses,
        "right": report(right) if report else right,
        "floor": floor(tested[1]) if floor else best,
        "conclusion": told or ("learns" if surely else "cannot tell"),
    }  # fmt: skip


def sig_exact(x):
    return np.exp(x) / (1 + np.exp(x))


def in_plain_floats(f, i, bias, c):
    def gate(x):
        return 1 / (1 + math.exp(-x))

    return gate(i) * c / (1 - gate(f + bias))


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
        lambda gs, c: [g * min(1, c / (size(gs) + 1e-12)) + 1e-5 for g in gs],
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
    m.cut: [
        lambda x, k: x.tape.record(x.data[k], (x,), lambda g: (np.stack([g] * len(x.data)),)),
        lambda x, k: x.tape.record(x.data[-1], (x,), lambda g: (np.concatenate([0 * x.data[1:], g[None]]),)),
        lambda x, k: x.tape.record(x.data[k : k + 1], (x,), lambda g: (into(x.data, k, g[0]),)),
        lambda x, k: x.data[k],
        lambda x, k: x.tape.record(x.data[k], (x,), lambda g: (into(x.data, k, 1.0),)),
    ],
    m.concatenate: [
        lambda x, axis: x[0].tape.record(np.concatenate([y.data for y in x], axis), x,
            lambda g: [g.sum() / y.data.size * np.ones(y.data.shape) for y in x]),
        lambda x, axis: x[0].tape.record(np.concatenate([y.data for y in x]), x,
            lambda g: np.split(g, np.cumsum([len(y.data) for y in x])[:-1])),
        lambda x, axis: x[0].tape.record(np.concatenate([y.data for y in x], axis), x[:1],
            lambda g: np.split(g, [x[0].data.shape[axis]], axis)[:1]),
        lambda x, axis: joined(x[::-1], axis),
    ],
    m.g_psi_on_tape: [
        lambda z, layers, *c: m.norm(deep([y for each in layers for y in each], z), *c),
        lambda z, layers, *c: m.norm(z + z, *c),
        lambda z, layers, a, b: m.g_psi_on_tape.function(z, layers, b, a),
        lambda z, layers, *c: m.g_psi_on_tape.function(z, layers[::-1], *c)
        if layers[0][0].data.shape == layers[1][0].data.shape else z,
    ],
    m.heads_on_tape: [
        lambda h, x, q, k, v: m.heads_on_tape.function(h, x, k, q, v),
        lambda h, x, q, k, v: m.heads_on_tape.function(h, x, q, k, v) + h,
        lambda h, x, q, k, v: heads(h, x, q, k, v, top=True),
        lambda h, x, q, k, v: heads(h, x, q, k, v, turn=-1),
    ],
    m.read_on_tape: [
        lambda f, xs, old, p: read(f, xs[:1], old, p),
        lambda f, xs, old, p: read(f, xs, old, p, first=old),
        lambda f, xs, old, p: read(f, xs, old, p, bend=lambda x: x.relu()),
        lambda f, xs, old, p: read(f, xs, old, p).tanh(),
    ],
    m.my_task: [
        lambda *c: task(m.learns, *c, few=True),
        lambda *c: task(m.learns, *c, blind=True, told="learns"),
        lambda *c: task(m.learns, *c, seedless=True),
        lambda *c: task(m.learns, *c, told="does not learn"),
    ],
    a.my_task: [
        lambda *c: circle(*c, size=50),
        lambda *c: circle(*c, test=lambda rng, seed: np.random.default_rng([seed, 0])),
        lambda *c: circle(*c, report=lambda right: max(right, 0.999)),
        lambda *c: circle(*c, floor=lambda y: 0.5),
        lambda *c: circle(*c, wide=True),
        lambda *c: circle(*c, told="learns", steps=20, rate=0.0),
        lambda *c: circle(*c, told="does not learn", steps=20, rate=0.0),
        lambda *c: circle(*c, level=False),
        lambda *c: circle(*c, swap=True),
        lambda seed, panel: circle(0, panel),
    ],
    r.spread: [
        lambda x: float(x.std(-2).mean() / max(np.sqrt((x * x).mean()), 1e-30)),
        lambda x: float(np.sqrt(x.var(-2).mean()) / (np.sqrt((x * x).mean()) + 1e-6)),
        lambda x: float(np.sqrt(x.var(0).mean()) / max(np.sqrt((x * x).mean()), 1e-30)),
        lambda x: float(x.var(-2).mean() / max((x * x).mean(), 1e-30)),
        lambda x: float(np.sqrt(x.var(-1).mean()) / max(np.sqrt((x * x).mean()), 1e-30)),
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
        in_plain_floats,
    ],
    m.step: [
        lambda *c: step(*c, s=overflowing),
        lambda *c: step(*c, see="att"),
        lambda *c: step(*c, see="mean"),
        lambda *c: step(*c, s=lambda x: np.clip(sig(x), 1e-6, 1)),
    ],
}  # fmt: skip


RIGHT = {
    a.logits: [deep],
    a.train: [trained, lambda *c: trained(*c, back=7)],
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
        lambda gs, c: gs if size(gs) <= c else [g * c / (size(gs) + 1e-6) for g in gs],
        lambda gs, c: [g * np.minimum(c / (size(gs) + 1e-8), 1) for g in gs],
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
    m.cut: [lambda x, k: x.tape.record(x.data[k].copy(), [x], lambda g: [into(x.data, k, g)])],
    m.concatenate: [joined],
    m.g_psi_on_tape: [
        lambda z, w, *c: m.norm(z + deep([w[0][0], w[0][1], w[1][0], w[1][1]], z), *c),
    ],
    m.heads_on_tape: [heads],
    m.read_on_tape: [read],
    m.my_task: [lambda *c: task(m.learns, *c)],
    a.my_task: [
        circle,
        lambda *c: circle(*c, told="cannot tell", steps=20, rate=0.0),
        lambda *c: circle(*c, heap=True),
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
