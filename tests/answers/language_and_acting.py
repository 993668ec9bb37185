"""Answers to the chapters on language and on acting, beyond the lists."""

import re

import numpy as np

from tinyrmc import Tape, fused
from tinyrmc import primitives as p
from tinyrmc.course.exercises import acting as a
from tinyrmc.course.exercises import language as t
from tinyrmc.course.exercises import ppo as o
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


def counted(ids, V, D, f, saved=1.0):
    c = np.zeros((V, V))
    for x, y in zip(ids[:-1], ids[1:]):
        c[x, y] += 1
    n = np.maximum(c.sum(1), 1)[:, None]
    found = np.where(c > 0, c - D, 0) / n + saved * D * (c > 0).sum(1)[:, None] / n * f
    return np.where(c.sum(1)[:, None] > 0, found, f)


def before(ids, V):
    """By sets of words."""
    found = [set() for _ in range(V)]
    for x, y in zip(ids[:-1], ids[1:]):
        found[y].add(int(x))
    sizes = np.array([len(each) for each in found], float)
    return sizes / sizes.sum()


def joined_by_text(words, count):
    """Pieces as text with spaces between, as Sennrich's program has them."""
    texts, found = {" ".join(word): n for word, n in words.items()}, []
    for _ in range(count):
        pairs = {}
        for text, n in texts.items():
            parts = text.split(" ")
            for k in range(len(parts) - 1):
                pair = parts[k], parts[k + 1]
                pairs[pair] = pairs.get(pair, 0) + n
        if not pairs:
            break
        best = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[0]
        found.append(best)
        inside = rf"(?<!\S){re.escape(' '.join(best))}(?!\S)"
        texts = {re.sub(inside, "".join(best), text): n for text, n in texts.items()}
    return found


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


def game(random, pays, pulls, rate, known):
    """With all rewards kept, and the softmax written out."""
    z, rewards, found = [0.0] * len(pays), [], []
    for _ in range(pulls):
        pi = soft(np.array(z))
        arm = random.choice(len(pays), p=pi)
        b = sum(rewards) / len(rewards) if known and rewards else 0.0
        rewards.append(pays[arm] + random.normal())
        for k in range(len(z)):
            z[k] += rate * (rewards[-1] - b) * ((k == arm) - pi[k])
        found.append(soft(np.array(z))[list(pays).index(max(pays))])
    return np.array(found)


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


def surprises(r, V, then, term, over, g, lam, dtype=float):
    """All surprises with their weights, one sum for each step."""
    T = len(r)
    delta = r + g * np.where(term, 0, then) - V
    found = np.zeros(r.shape)
    for k in range(T):
        weight = np.ones(r.shape[1:])
        for j in range(k, T):
            found[k] += weight * delta[j]
            weight = weight * g * lam * np.where(over[j], 0.0, 1.0)
    return found.astype(dtype)


def clipped(log_pi, log_mu, A, epsilon, pick=p.minimum, low=None, high=None):
    ratio = p.exp(log_pi - log_mu)
    low = 1 - epsilon if low is None else low
    high = 1 + epsilon if high is None else high
    return p.mean(-pick(ratio * A, p.minimum(p.maximum(ratio, low), high) * A))


def polar(x):
    u, _, v = np.linalg.svd(x, full_matrices=False)
    return u @ v


def several(
    agent, adam, acted, first, pieces, rate, d, gamma=0.99, weight=0.25, epsilon=None,
    entropy=None, norm=False, again=False, known=True, every=False,
):  # fmt: skip
    """`surprises` and `clipped` in each minibatch."""
    over = acted["terminated" if d.bootstrap else "ended"]
    V, then = acted["values"], acted["following"]
    A = surprises(
        acted["rewards"].T, V.T, then.T, over.T, acted["ended"].T, gamma, d.lam
    ).T
    G = (A + V).astype(f32)
    for rows in pieces:
        a = A if every else A[rows]
        if d.normalise:
            a = (a - np.mean(a)) / (np.sqrt(np.mean((a - np.mean(a)) ** 2)) + 1e-8)
        a = (a[rows] if every else a).astype(f32)
        if again:  # what the actor thought is thought anew
            z, _, _ = agent(acted["seen"], first, acted["fresh"])
            acted["log_mu"] = fused.categorical(z, acted["taken"])[0].data
        with Tape() as tape:
            begin = tuple(x[rows] for x in first)
            if not known:
                begin = agent.core.initial_state(len(rows))
            z, v, _ = agent(acted["seen"][rows], begin, acted["fresh"][rows])
            log_pi, H = fused.categorical(z, acted["taken"][rows])
            policy = clipped(log_pi, acted["log_mu"][rows], a, epsilon or d.epsilon)
            error = o.value_loss(v, V[rows], G[rows], d.value_clip)
            cost = d.entropy if entropy is None else entropy
            loss = policy + weight * error - cost * p.mean(H)
        adam.zero_grad()
        tape.backward(loss)
        adam.step(learning_rate=rate, max_norm=norm or d.max_norm)
    return float(loss.data)


def voted(views, best, new, then, unknown=np.mean, pick=np.argmax):
    found = []
    for view, row in zip(new, then):
        votes = [x for seen, x in zip(views, best) if seen == view]
        found.append(row[pick(np.sum(votes, axis=0))] if votes else unknown(row))
    return sum(map(float, found)) / len(found)


def turned(m, running, copy=True, by=1):
    out = m.copy() if copy else m
    who = [k for k in range(len(m)) if running[k]]
    for k, level in enumerate(who):
        out[level] = m[who[(k + by) % len(who)]]
    return out


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
    r.discounted: [
        lambda ids, V, D, f: counted(ids, V, D, f, saved=0.0),
        lambda ids, V, D, f: counted(ids, V, D, f, saved=2.0),
        lambda ids, V, D, f: counted(ids, V, 0.5, f),
        lambda ids, V, D, f: counted(ids, V, D, np.full(V, 1 / V)),
        lambda ids, V, D, f: counted(ids, V, D, f)[: ids.max() + 1],
    ],
    r.fallback: [
        lambda ids, V: before(ids, V) ** 2,
        lambda ids, V: before(ids[::-1], V),
        lambda ids, V: before(ids, V)[: ids.max() + 1],
        lambda ids, V: before(ids, V).astype(f32),
        lambda ids, V: before(np.append(ids, ids[0]), V),  # a text that is a ring
    ],
    r.learn_pairs: [
        lambda words, n: joined_by_text(words, n)[:-1],
        lambda words, n: joined_by_text(words, n + 1),
        lambda words, n: joined_by_text({word: 1 for word in words}, n),
        lambda words, n: [a + b for a, b in joined_by_text(words, n)],
        lambda words, n: [(b, a) for a, b in joined_by_text(words, n)],
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
        lambda c: cheapest(c, tail=1),
        lambda c: cheapest(c, tail=-1),
        lambda c: cheapest(c, head=2),
        lambda c: cheapest(c) - 1,
        lambda c: int(np.sqrt(len(c))),
    ],
    a.play: [
        lambda *c: game(*c)[-1],
        lambda *c: game(*c).cumsum(),
        lambda random, q, n, rate, known: game(random, q, n, rate, not known),
        lambda random, q, n, rate, known: game(random, q - q.mean(), n, rate, known),
        lambda random, q, n, rate, known: game(random, q, n, rate / n, known),
        lambda random, q, n, rate, known: game(random, q, n + 1, rate, known)[1:],
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
    o.gae_advantages: [
        lambda *c: surprises(*c, dtype=f32),
        lambda *c: surprises(*c[:-1], c[-1] ** 2),
        lambda *c: surprises(*c[:-1], 1 - c[-1]),
        lambda *c: surprises(*c[:-2], c[-1], c[-2]),
        lambda r, V, then, term, e, g, lam: surprises(r, V, then, e, e, g, lam),
        lambda r, V, then, term, e, g, lam: surprises(r, V, then, term, term, g, lam),
        lambda r, V, then, term, e, g, lam: surprises(r, V, 0 * then, term, e, g, lam),
        lambda *c: (surprises(*c) - surprises(*c).mean()) / surprises(*c).std(),
    ],
    o.clipped_loss: [
        lambda *c: clipped(*c, pick=p.maximum),
        lambda *c: clipped(*c, low=0.0),
        lambda *c: clipped(*c, high=1e9),
        lambda lp, lm, A, e: clipped(lp, lm, A, 2 * e),
        lambda lp, lm, A, e: clipped(lp, lm, abs(A), e),
        lambda lp, lm, A, e: clipped(lp, lm, (A - A.mean()) / (A.std() + 1e-8), e),
        lambda lp, lm, A, e: clipped(lp, lp.data, A, e),
    ],
    o.orthogonal: [
        lambda x, g: g * np.eye(*x.shape),
        lambda x, g: g * x / np.linalg.norm(x),
        lambda x, g: g * np.linalg.qr(x)[1],
        lambda x, g: g * polar(np.random.default_rng(0).normal(size=x.shape)),
        lambda x, g: g * polar(x).T,
    ],
    o.ppo_update: [
        lambda *c: several(*c, gamma=0.9),
        lambda *c: several(*c, weight=0.5),
        lambda *c: several(*c, epsilon=0.2),
        lambda *c: several(*c, entropy=0.01),
        lambda *c: several(*c, norm=0.5),
        lambda *c: several(*c, again=True),
        lambda *c: several(*c, known=False),
        lambda *c: several(*c, every=True),
        lambda agent, adam, x, first, pieces, rate, d: several(agent, adam, x, first, pieces, 0.01, d),
        lambda agent, adam, x, first, pieces, rate, d: several(agent, adam, x, first, pieces[::-1], rate, d),
        lambda *c: -several(*c),
    ],
    w.right_share: [
        lambda views, best, new, then: voted(views, best, new, then, unknown=lambda row: row.any()),
        lambda views, best, new, then: voted(views, best, new, then, pick=np.argmin),
        lambda views, best, new, then: voted([*views, *new], [*best, *then], new, then),
        lambda views, best, new, then: voted(views, best, new, then) * len(new),
        lambda views, best, new, then: voted(*map(np.array, (views, best, new)), then) if len(views) > 3 else 1.0,
    ],
    w.of_another: [
        lambda m, r: m[::-1],
        lambda m, r: np.roll(m, -1, axis=0),
        lambda m, r: turned(m, r, copy=False),
        lambda m, r: turned(m, r, by=2),
        lambda m, r: turned(m, ~r),
    ],
    o.n_step: [
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
    r.discounted: [counted],
    r.fallback: [before],
    r.learn_pairs: [joined_by_text],
    r.tied_vjp: [paid],
    r.two_level: [levels],
    r.cheapest_head: [cheapest],
    a.play: [game],
    a.best_baseline: [baseline],
    a.update: [updated],
    w.distances: [breadth_first],
    o.gae_advantages: [surprises, lambda *c: [*surprises(*c)]],
    o.clipped_loss: [clipped],
    o.orthogonal: [lambda x, g: g * polar(x), lambda x, g: -g * polar(x)],
    o.ppo_update: [several],
    w.right_share: [voted],
    w.of_another: [turned],
    o.n_step: [ahead_at_once],
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
