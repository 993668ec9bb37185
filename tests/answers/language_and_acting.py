"""Answers to the chapters on language and on acting, beyond the lists."""

import numpy as np

from tinyrmc import Tape, fused
from tinyrmc import primitives as p
from tinyrmc.course.exercises import acting as a
from tinyrmc.course.exercises import language as t
from tinyrmc.course.exercises import rare_words as r
from tinyrmc.course.exercises import worlds as w

f32 = np.float32


def soft(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def table(ids, u, k, prior=None, add=lambda c: c, pairs=None):
    V = len(u)
    c = np.zeros((V, V))
    for x, y in pairs(ids) if pairs else zip(ids[:-1], ids[1:]):
        c[x, y] += 1
    c = add(c)
    return (c + k * (u if prior is None else prior)) / (c.sum(1, keepdims=True) + k)


def draw(
    z,
    T,
    u,
    pick=lambda p, u: min(int((np.cumsum(p) <= u).sum()), len(p) - 1),
    zero=np.argmax,
    dtype=float,
):
    if T == 0:
        return int(zero(z))
    return pick(soft((z / T).astype(dtype)), u)


def cut(ids, lanes, T, shift=1, drop=0, order=(1, 0, 2)):
    L = (len(ids) - 1) // lanes
    K = L // T
    x = ids[: lanes * L].reshape(lanes, L)[:, drop : K * T].reshape(lanes, -1, T)
    y = (
        np.roll(ids, -shift)[: lanes * L]
        .reshape(lanes, L)[:, drop : K * T]
        .reshape(lanes, -1, T)
    )
    return x.transpose(order), y.transpose(order)


def back(r, e, g, after, cut=None, dtype=float, first=None):
    out = np.zeros(r.shape, dtype)
    later = after if first is None else first
    for k in range(len(r) - 1, -1, -1):
        later = r[k] + g * later * (
            1 - e[k].astype(float) if cut is None else cut(e[k])
        )
        out[k] = later
    return out


def pg(z, x, adv, tiny=0.0, clip=None, pick=None):
    p = soft(z if clip is None else np.clip(z, -clip, clip))
    hot = np.eye(z.shape[-1])[x]
    return np.asarray(adv)[..., None] * (hot - p + tiny)


def vt(L, g, r, V, after, cap=1.0, low=0.0, lam=1.0, dtype=float):
    c = np.clip(np.exp(L), low, cap)
    nxt = np.concatenate([V[1:], np.asarray(after)[None]])
    d = c * (r + g * nxt - V)
    out, acc = np.zeros(V.shape, dtype), 0.0
    for k in reversed(range(len(V))):
        acc = d[k] + lam * g[k] * c[k] * acc
        out[k] = V[k] + acc
    return out


def anew(s, e, b, mask=None):
    if isinstance(s, tuple):
        return tuple(anew(x, e, y, mask) for x, y in zip(s, b))
    m = e.reshape(-1, *[1] * (s.ndim - 1)) if mask is None else mask(e, s)
    return np.where(m, b, s)


def anew_in_place(s, e, b):
    if isinstance(s, tuple):
        return tuple(anew_in_place(x, e, y) for x, y in zip(s, b))
    s[e] = b[e]
    return s


def anew_for_pairs(s, e, b):
    """Takes exactly one level of tuples."""
    if isinstance(s, tuple):
        return tuple(np.where(e[:, None], y, x) for x, y in zip(s, b))
    return anew(s, e, b)


def anew_stacked(s, e, b):
    found = anew(s, e, b)
    return np.stack(found) if isinstance(found, tuple) and found else found


def anew_in_a_list(s, e, b):
    found = anew(s, e, b)
    return list(found) if isinstance(found, tuple) else found


def top_p(p, mass, strict=True, whole=True):
    """By a threshold: the share of the last word that stays."""
    q = -np.sort(-p, axis=-1)
    before = np.cumsum(q, -1) - q
    count = (before < mass if strict else before <= mass).sum(-1, keepdims=True)
    least = np.take_along_axis(q, count - 1, -1)
    kept = np.where(p >= least, p, 0)
    return kept / kept.sum(-1, keepdims=True) if whole else kept


def read_on(
    model, adam, x, y, rates, random, turn=lambda x: x, off=t.numbers_of, steps=1
):
    state, losses = model.core.initial_state(x.shape[1]), []
    for k in turn(range(len(x))):
        with Tape() as tape:
            z, state = model(x[k], state, random)
            loss = p.sum(fused.softmax_cross_entropy(z, y[k].ravel())) * (1 / y[k].size)
        state = off(state)
        adam.zero_grad()
        tape.backward(loss)
        for _ in range(steps):
            adam.step(learning_rate=rates[k], max_norm=1.0)
        losses.append(float(loss.data))
    return losses


def counted(ids, V, D, axis=0, power=1.0, saved=1.0):
    c = np.zeros((V, V))
    for x, y in zip(ids[:-1], ids[1:]):
        c[x, y] += 1
    f = (c > 0).sum(axis) ** power
    f = f / f.sum()
    n = np.maximum(c.sum(1), 1)[:, None]
    found = np.where(c > 0, c - D, 0) / n + saved * D * (c > 0).sum(1)[:, None] / n * f
    return np.where(c.sum(1)[:, None] > 0, found, f)


def near(E, word, count, tiny=0.0, power=1.0):
    size = np.sqrt((E * E).sum(1)) ** power
    match = (E @ E[word]) / (size * size[word] + tiny)
    return [k for k in np.argsort(-match) if k != word][:count]


def paid(ids, dx, h, dz, sign=1.0):
    found = np.einsum("rv,rd->vd", dz, h)
    for k, row in zip(ids, dx):
        found[k] += sign * row
    return found


def levels(head, tail, shift=0.0, tiny=0.0):
    def logs(z):
        top = z.max(-1, keepdims=True)
        return z - top - np.log(np.exp(z - top).sum(-1, keepdims=True) + tiny)

    first = logs(head)
    return np.concatenate([first[..., :-1], first[..., -1:] + logs(tail) + shift], -1)


def cheapest(counts, head=1, tail=0, last=0):
    costs = []
    for k in range(1, len(counts) - last):
        rare = counts[k:].sum() / counts.sum()
        costs.append(k * head + 1 + rare * (len(counts) - k + tail))
    return 1 + int(np.argmin(costs)) if costs else 1


def baseline(pi, q, weight=lambda pi, a: ((np.eye(len(pi))[a] - pi) ** 2).sum()):
    each = [pi[k] * weight(pi, k) for k in range(len(pi))]
    return sum(x * y for x, y in zip(each, q)) / sum(each)


def updated(
    agent, adam, tr, first, rate, cost, gamma=0.99, through=False, norm=0.1, known=True
):
    n = tr["taken"].shape[1]
    begin = first if known else agent.core.initial_state(len(tr["taken"]))
    with Tape() as tape:
        z, V, _ = agent(tr["seen"], begin, tr["fresh"])
        G = back(tr["rewards"].T, tr["ended"].T, gamma, V.data[:, n]).T.astype(f32)
        log_pi, H = fused.categorical(z[:, :n], tr["taken"])
        A = G - (V[:, :n] if through else V.data[:, :n])
        loss = p.mean(0.25 * p.square(V[:, :n] - G) - log_pi * A - cost * H)
    adam.zero_grad()
    tape.backward(loss)
    adam.step(learning_rate=rate, max_norm=norm)
    return float(loss.data)


def breadth_first(follow, wins, start=1, skip=0):
    d = np.full(len(follow), np.inf)
    d[wins.any(1)] = start
    for k in range(start, start + len(d) - skip):
        d = np.where((d > k) & (d[follow] == k).any(1), k + 1, d)
    return d


def ahead(r, V, e, g, n, after, cut=True, short=False, dtype=float):
    T = len(r)
    found = np.zeros(r.shape, dtype)
    for k in range(T):
        total, factor = np.zeros(r.shape[1:]), np.ones(r.shape[1:])
        last = min(k + n, T)
        for j in range(k, last):
            total = total + factor * r[j]
            factor = factor * g * (1 - e[j] if cut else 1)
        found[k] = total + factor * (after if last == T else V[last]) * (not short)
    return found


def ahead_at_once(r, V, e, g, n, after):
    """Starts from the values, n times."""
    found = np.concatenate([V, np.asarray(after)[None]])
    for _ in range(n):
        found[:-1] = r + g * np.where(e, 0, found[1:])
    return found[:-1]


def mixed(r, V, e, g, lam, after, weight=None, dtype=float):
    """By the targets of n steps, one after the other."""
    T, found, left = len(r), 0.0, 1.0
    for n in range(1, T + 1):
        share = left if n == T else (1 - lam) * left
        found = found + share * ahead(r, V, e, g, n, after)
        left = left - share
    return np.asarray(found, dtype)


WRONG = {
    t.bigram: [
        lambda ids, u, k: table(ids, u, k),  # right, but it loops over the text
        lambda *c: table(*c, add=lambda n: (n > 0) * 1.0),
        lambda *c: table(*c, add=lambda n: n + 1e-6),
        lambda ids, u, k: table(ids, u, 1.0),
        lambda ids, u, k: table(ids, u, k)[: ids.max() + 1, : ids.max() + 1],
    ],
    t.perplexity: [
        lambda p: np.exp(-np.log(np.maximum(p, 1e-10)).mean()),
        lambda p: np.exp(-np.log(p + 1e-10).mean()),
        lambda p: np.exp(-np.log(p).mean(-1)),
        lambda p: np.exp(-np.log(p.astype(f32)).mean()),
        lambda p: np.exp(-np.nan_to_num(np.log(p), neginf=0).mean()),
        lambda p: 10 ** -np.log(p).mean(),
        lambda p: min(np.exp(-np.log(p).mean()), 1e100),
    ],
    t.windows: [
        lambda *c: cut(*c, shift=2),
        lambda *c: cut(*c, shift=0),
        lambda *c: cut(*c, order=(1, 2, 0)),
        lambda *c: cut(*c, order=(2, 0, 1)),
    ],
    t.sample: [
        lambda *c: draw(*c, zero=lambda z: z.max()),
        lambda *c: draw(*c, zero=lambda z: len(z) - 1),
        lambda *c: draw(*c, pick=lambda p, u: int(np.argmin(abs(np.cumsum(p) - u)))),
        lambda *c: draw(*c, pick=lambda p, u: int(np.argmin(abs(p - u)))),
        lambda *c: draw(*c, pick=lambda p, u: int(u * len(p))),
        lambda *c: draw(*c, pick=lambda p, u: int((np.cumsum(p) < u).sum())),
        lambda z, T, u: draw(z, T * T, u),
        lambda z, T, u: draw(z, max(T, 0.5), u),
        lambda z, T, u: draw(np.clip(z, -2, 2), T, u),
    ],
    t.nucleus: [
        lambda p, m: top_p(p, m, whole=False),
        lambda p, m: top_p(p, 1 - m),
        lambda p, m: top_p(p, m + 1e-12),
        lambda p, m: top_p(p, m / 2),
        lambda p, m: top_p(p, m).astype(f32),
        lambda p, m: np.where(p > p.mean(-1, keepdims=True), p, 0),
    ],
    t.one_epoch: [
        lambda *c: read_on(*c, turn=reversed),
        lambda *c: [t.Tensor(np.array(loss)) for loss in read_on(*c)],
        lambda *c: read_on(*c, off=lambda state: state),
        lambda *c: read_on(*c, steps=2),
        lambda *c: read_on(*c)[-1],
    ],
    r.kneser_ney: [
        lambda ids, V, D: counted(ids, V, D, axis=1),
        lambda ids, V, D: counted(ids, V, D, power=2.0),
        lambda ids, V, D: counted(ids, V, D, saved=0.0),
        lambda ids, V, D: counted(ids, V, 0.5),
        lambda ids, V, D: counted(ids, V, D)[: ids.max() + 1],
    ],
    r.nearest: [
        lambda E, k, n: near(E, k, n, power=0.0),
        lambda E, k, n: near(E, k, n)[::-1],
        lambda E, k, n: near(E, k, n, power=2.0),
        lambda E, k, n: np.argsort(-(E @ E[k]) / np.linalg.norm(E, axis=1))[:n],
    ],
    r.tied_vjp: [
        lambda *c: paid(*c, sign=-1.0),
        lambda *c: paid(*c, sign=0.5),
        lambda ids, dx, h, dz: paid(ids, dx, dx, dz),
        lambda ids, dx, h, dz: paid(ids, h, h, dz),
        lambda *c: paid(*c).T,
        lambda ids, dx, h, dz: paid(ids, dx, h, dz[:, : ids.max() + 1]),
    ],
    r.two_level: [
        lambda *c: levels(*c, tiny=1e-6),
        lambda *c: levels(*c, shift=-0.1),
        lambda h, t: levels(np.clip(h, -30, 30), t),
        lambda h, t: levels(h, t)[..., ::-1],
    ],
    r.cheapest_head: [
        lambda c: cheapest(c, tail=1) if len(c) > 20 else 1,
        lambda c: cheapest(c, head=2),
        lambda c: cheapest(c) - 1,
        lambda c: int(np.sqrt(len(c))),
    ],
    a.best_baseline: [
        lambda pi, q: baseline(pi, q, lambda pi, k: 1.0),
        lambda pi, q: baseline(pi, q, lambda pi, k: 1 - pi[k]),
        lambda pi, q: baseline(pi, q, lambda pi, k: (1 - pi[k]) ** 2),
        lambda pi, q: q.max(),
    ],
    a.update: [
        lambda *c: updated(*c, gamma=0.9),
        lambda *c: updated(*c, through=True),
        lambda *c: updated(*c, norm=1.0),
        lambda *c: updated(*c, known=False),
        lambda agent, adam, tr, first, rate, cost: updated(agent, adam, tr, first, 0.01, cost),
        lambda *c: -updated(*c),
    ],
    w.distances: [
        lambda f, x: breadth_first(f, x, start=0),
        lambda f, x: np.nan_to_num(breadth_first(f, x), posinf=len(f)),
        lambda f, x: breadth_first(f, x, skip=len(f) - 1),
        lambda f, x: breadth_first(f, x).min(),
    ],
    w.gae: [
        lambda *c: mixed(*c, dtype=f32),
        lambda r, V, e, g, lam, after: mixed(r, V, e, g, lam**2, after),
        lambda r, V, e, g, lam, after: mixed(r, V, e, g, 1 - lam, after),
        lambda r, V, e, g, lam, after: mixed(r, V, e, g, lam, 0 * after),
        lambda *c: mixed(*c).mean(0),
    ],
    w.n_step: [
        lambda *c: ahead(*c),  # right, but it loops over time
        lambda *c: ahead(*c, cut=False),
        lambda *c: ahead(*c, short=True),
        lambda *c: ahead(*c, dtype=f32),
        lambda r, V, e, g, n, after: ahead(r, V, e, 1.0, n, after),
        lambda r, V, e, g, n, after: ahead(r, V, e, g, n, 0 * after),
    ],
    a.returns: [
        lambda *c: back(*c, dtype=f32),
        lambda *c: back(*c, cut=lambda e: 1 - e * 0.5),
        lambda *c: back(*c) + 1e-8,
        lambda *c: back(*c).mean(0),
    ],
    a.policy_gradient: [
        lambda *c: pg(*c, tiny=1e-8),
        lambda *c: pg(*c, clip=30.0),
        lambda z, x, adv: pg(-z, x, adv),
        lambda z, x, adv: np.array([adv[k] * (np.eye(z.shape[-1])[x[k]] - soft(z[k])) for k in range(len(z))]),
        lambda z, x, adv: adv[:, None] * (np.eye(z.shape[-1])[x] - soft(z)),
    ],
    w.vtrace: [
        lambda *c: vt(*c, cap=2.0),
        lambda *c: vt(*c, low=0.1),
        lambda *c: vt(*c, lam=0.95),
        lambda *c: vt(*c, dtype=f32),
    ],
    a.begin_anew: [
        anew_in_place,
        anew_for_pairs,
        anew_stacked,
        anew_in_a_list,
        lambda s, e, b: anew(s, e, b, mask=lambda e, s: e[..., None]),
        lambda s, e, b: anew(s, e, b) if e.any() else b,
    ],
}  # fmt: skip

RIGHT = {
    t.bigram: [
        lambda ids, u, k: (np.bincount(ids[:-1] * len(u) + ids[1:], minlength=len(u) ** 2).reshape(len(u), -1) + k * u) / (np.bincount(ids[:-1], minlength=len(u))[:, None] + k),
    ],
    t.perplexity: [
        lambda p: 2 ** -np.log2(p).mean(),
        lambda p: np.exp(np.mean(-np.log(p.ravel()))),
        lambda p: float(np.exp(-np.log(p).sum() / p.size)),
    ],
    t.windows: [
        cut,
        lambda *c: [x.copy() for x in cut(*c)],
    ],
    t.sample: [
        draw,
        lambda z, T, u: np.int64(draw(z, T, u)),
        lambda z, T, u: draw(z, T, u, pick=lambda p, u: next((k for k in range(len(p)) if p[: k + 1].sum() > u), len(p) - 1)),
    ],
    t.nucleus: [top_p],
    t.one_epoch: [read_on],
    r.kneser_ney: [counted],
    r.nearest: [near, lambda E, k, n: np.array(near(E, k, n))],
    r.tied_vjp: [paid],
    r.two_level: [levels],
    r.cheapest_head: [cheapest],
    a.best_baseline: [baseline],
    a.update: [updated],
    w.distances: [breadth_first],
    w.gae: [mixed],
    w.n_step: [ahead_at_once],
    a.returns: [
        back,
        lambda r, e, g, after: back(r, e, g, after, cut=lambda x: np.where(x, 0.0, 1.0)),
    ],
    a.policy_gradient: [
        pg,
        lambda z, x, adv: np.expand_dims(adv, -1) * ((np.expand_dims(x, -1) == np.arange(z.shape[-1])) - soft(z)),
    ],
    w.vtrace: [vt, lambda *c: list(vt(*c))],
    a.begin_anew: [
        anew,
        lambda s, e, b: anew(s, e, b) if e.any() else s,
        lambda s, e, b: tuple(anew(x, e, y) for x, y in zip(s, b)) if isinstance(s, tuple) else np.stack([y if k else x for x, k, y in zip(s, e, b)]),
    ],
}  # fmt: skip
