"""Answers on nth farthest and on looking inside, beyond the lists."""

import functools
import math

import numpy as np

from tinyrmc.course.exercises import looking_inside as k
from tinyrmc.course.exercises import nth_farthest as n


def rank(
    x, labels, q, ref, dist=lambda d: np.linalg.norm(d, axis=-1), dtype=float, kind=None
):
    d = dist((x - x[labels == ref]).astype(dtype))
    return labels[np.argsort(d, kind=kind)[q]]


def one_by_one(x, labels, q, ref, own=np.linalg.norm):
    found = []
    for vectors, names, number, m in zip(x, labels, q, ref, strict=True):
        order = sorted(
            range(len(names)), key=lambda t: (names[t] != m, own(vectors[t]))
        )
        found.append(names[order[number]])
    return np.array(found)


def by_norm(x, labels, q, ref, first=np.inf, sign=-1):
    """The order of the largest norms, with the reference's put to `first`."""
    own = np.where(labels == ref[:, None], first, np.sqrt((x * x).sum(-1)))
    order = np.argsort(sign * own, axis=1, kind="stable")
    return np.take_along_axis(labels, order, 1)[np.arange(len(q)), q]


def at_place(x, labels, q, ref):
    """By norm, with the reference at the time step `ref`, which is its label."""
    own, rows = np.linalg.norm(x, axis=-1), np.arange(len(q))
    own[rows, ref] = -1
    return labels[rows, own.argsort(axis=1)[rows, q]]


def felt(d, q, ref, e, seed, same=False, noise=lambda d, e, z: d * (1 + e * z)):
    rows, z = np.arange(len(q)), np.random.default_rng(seed).normal(size=d.shape)
    f = noise(d, e, z)
    f[rows, ref] = -1e9
    found = f.argsort(1)[:, q[0]] if same else f.argsort(1)[rows, q]
    return np.mean(found == d.argsort(1)[rows, q])


def probe(rows, wanted, ridge=0.0, score=None):
    half = len(rows) // 2
    x = np.column_stack([rows, np.ones(len(rows))])
    fit, y = x[:half], wanted[:half]
    W = np.linalg.pinv(fit.T @ fit + ridge * np.eye(x.shape[1])) @ fit.T @ y
    guess, sought = x[half:] @ W, wanted[half:]
    if score:
        return score(guess, sought)
    return 1 - np.mean((guess - sought) ** 2) / np.mean((sought - sought.mean(0)) ** 2)


def column_by_column(guess, sought):
    """The mean that scikit-learn's r2_score takes."""
    left = ((guess - sought) ** 2).mean(0) / sought.var(0)
    return (1 - left).mean()


def correlated_columns(guess, sought):
    pairs = zip(guess.T, sought.T, strict=True)
    return np.mean([np.corrcoef(*pair)[0, 1] ** 2 for pair in pairs])


def by_group(right, treated, group, skip=True):
    total = count = 0
    for g in set(group.tolist()):
        some = group == g
        one, other = right[some & treated], right[some & ~treated]
        if len(one) and (len(other) or not skip):
            total += len(one) * (one.mean() - (other.mean() if len(other) else 0))
            count += len(one)
    return total / count


def by_heads(y, H):
    """Gain or offset, as if it stood in the order of the release."""
    return y.reshape(H, 3, -1).swapaxes(0, 1).ravel()


def by_reshape(M, x, W_q, W_k, W_v, gain, offset, out=True, apart=True, back=True):
    """All heads at once: out of the stack, apart again, and back, with the exchange of
    rows and heads or without.
    """
    B, N, F = M.shape
    rows, H = np.concatenate([M, x[:, None]], axis=1), len(W_q)
    kinds = [rows[:, None] @ W for W in (W_q, W_k, W_v)]  # (B, H, N + 1, F / H)
    kinds = [y.swapaxes(1, 2) if out else y for y in kinds]
    all_kinds = np.concatenate([y.reshape(B, N + 1, F) for y in kinds], axis=-1)
    away = all_kinds - all_kinds.mean(axis=-1, keepdims=True)
    normed = gain * away / np.sqrt(away.var(axis=-1, keepdims=True) + 1e-5) + offset
    kinds = np.split(normed, 3, axis=-1)
    if apart:
        kinds = [y.reshape(B, N + 1, H, F // H).swapaxes(1, 2) for y in kinds]
    Q, K, V = (y.reshape(B, H, N + 1, F // H) for y in kinds)
    shares = np.exp(Q[:, :, :N] @ K.swapaxes(-1, -2) / math.sqrt(F // H))
    found = shares / shares.sum(axis=-1, keepdims=True) @ V
    return (found.swapaxes(1, 2) if back else found).reshape(M.shape)


def beside(rows, controls, wanted, best=max, score=probe, left=lambda c: 1 - c):
    share, control = score(rows, wanted), best([score(x, wanted) for x in controls])
    return share, control, (share - control) / left(control)


WRONG = {
    n.answer: [
        lambda *c: rank(*c, dtype=np.float16),
        lambda *c: rank(*c, dist=lambda d: abs(d).max(-1)),
        lambda *c: rank(*c, dist=lambda d: d.sum(-1)),
        lambda *c: rank(*c, dist=lambda d: d[:, 0] ** 2),
        lambda *c: rank(*c, dist=lambda d: abs(d).mean(-1)),
        lambda x, l, q, ref: rank(x / np.linalg.norm(x, axis=1, keepdims=True), l, q, ref),
        lambda x, l, q, ref: np.sort(l)[q],
    ],
    n.self_query_floor: [
        lambda k: (2 / k, 1 / (k - 1), math.log(k - 1)),
        lambda k: (1 / k + 1 / (k - 1), 1 / (k - 1), (k - 1) / k * math.log(k - 1)),
        lambda k: (2 / k, 1 / k, (k - 1) / k * math.log(k - 1)),
        lambda k: (1 / k, 1 / (k - 1), (k - 1) / k * math.log(k - 1)),
    ],
    n.rank_by_norm: [
        one_by_one,  # right, but it loops over the questions
        lambda *c: one_by_one(*c, own=lambda v: abs(v).sum()),
        lambda *c: one_by_one(*c, own=lambda v: v.sum()),
        lambda *c: one_by_one(*c, own=lambda v: abs(v).max()),
        by_norm,
        lambda *c: by_norm(*c, first=-1.0),
        at_place,
        lambda x, l, q, ref: l[np.arange(len(q)), np.linalg.norm(x, axis=1).argsort(1)[:, 0]],
        lambda x, l, q, ref: np.take_along_axis(l, q[:, None], 1)[:, 0],
    ],
    n.right_with_errors: [
        lambda *c: 1 - felt(*c),
        lambda *c: felt(*c, same=True),
        lambda *c: felt(*c, noise=lambda d, e, z: d + e * z),
        lambda *c: felt(*c, noise=lambda d, e, z: d * (1 + e * abs(z))),
        lambda *c: felt(*c, noise=lambda d, e, z: d * (1 + e * z / 2)),
    ],
    n.normed_attention: [
        lambda M, x, q, k, v, g, o: n.normed_attention(np, M, x, q, k, v, *(by_heads(y, len(q)) for y in (g, o))),
        lambda M, x, q, k, v, g, o: n.normed_attention(np, M, x, q, k, v, o, g),
        lambda M, x, q, k, v, g, o: n.normed_attention(np, M, x, q, k, v, g, -o),
        lambda M, x, q, k, v, g, o: n.normed_attention(np, M, x, q, k, v, g[::-1], o),
        lambda M, x, q, k, v, g, o: n.normed_attention(np, M, x, q, k, v, np.ones_like(g), o),
        *(functools.partial(by_reshape, **{one: False}) for one in ("out", "apart", "back")),
        functools.partial(by_reshape, out=False, apart=False, back=False),
    ],
    k.readable: [
        lambda *c: probe(*c, ridge=1.0),
        lambda rows, wanted: probe(rows, wanted, score=lambda a, b: 1 - ((a - b) ** 2).sum() / ((b - wanted[: len(wanted) // 2].mean(0)) ** 2).sum()),
        lambda *c: probe(*c, score=lambda a, b: np.corrcoef(a.ravel(), b.ravel())[0, 1]),
        lambda *c: probe(*c, score=column_by_column),
        lambda *c: probe(*c, score=lambda a, b: np.corrcoef(a.ravel(), b.ravel())[0, 1] ** 2),
        lambda *c: probe(*c, score=correlated_columns),
        lambda *c: probe(*c, score=lambda a, b: np.mean((a - b) ** 2)),
        lambda *c: probe(*c, score=lambda a, b: 1 - np.mean((a - b) ** 2) / np.mean(b**2)),
        lambda *c: probe(*c, score=lambda a, b: 1 - ((a - b) ** 2).mean(0) / b.var(0)),
    ],
    k.beyond_control: [
        lambda *c: beside(*c, best=lambda x: x[0]),
        lambda *c: beside(*c, best=np.median),
        lambda *c: beside(*c, left=lambda c: c),
        lambda *c: beside(*c, score=lambda x, y: max(probe(x, y), 0)),
        lambda rows, controls, y: beside(rows, [x[::-1] for x in controls], y),
        lambda *c: beside(*c)[2],
    ],
    k.matched: [
        lambda *c: by_group(*c, skip=False),
        lambda r, t, g: by_group(r, ~t, g),
        lambda r, t, g: by_group(~r, t, g),
        lambda r, t, g: 100 * by_group(r, t, g),
        lambda r, t, g: r[t].mean() - r.mean(),
    ],
    k.cut_among_slots: [
        lambda N, j: k.cut_among_slots(N, j).astype(float),
        lambda N, j: k.cut_among_slots(N, j).astype(int),
        lambda N, j: np.where(k.cut_among_slots(N, j), 0.0, -np.inf),
        lambda N, j: np.eye(N + j, dtype=bool) | (np.arange(N + j) >= N) | (np.arange(N + j) >= N)[:, None],
    ],
}  # fmt: skip

RIGHT = {
    n.answer: [
        lambda x, l, q, ref: int(rank(x, l, q, ref, dist=lambda d: (d * d).sum(-1))),
        lambda x, l, q, ref: sorted(range(len(x)), key=lambda t: math.dist(x[t], x[list(l).index(ref)]))[q] * 0 + rank(x, l, q, ref),
        lambda x, l, q, ref: rank(x, l, q, ref, kind="stable"),
    ],
    n.self_query_floor: [
        lambda k: np.array([2 / k, 1 / (k - 1), np.log(k - 1) * (1 - 1 / k)]),
        lambda k: [1 / k + (k - 1) / k / (k - 1), 1 / (k - 1), math.log(k - 1) - math.log(k - 1) / k],
    ],
    n.rank_by_norm: [
        lambda x, l, q, ref: np.take_along_axis(l, np.argsort((x * x).sum(-1) * (l != ref[:, None]), axis=1), 1)[np.arange(len(q)), q],
    ],
    n.right_with_errors: [
        felt,
        lambda *c: felt(*c[:-1], seed=c[-1] + 99),
        lambda *c: felt(*c, noise=lambda d, e, z: d + e * d * -z),
    ],
    n.normed_attention: [lambda *c: n.normed_attention.function(np, *c), by_reshape],
    k.readable: [
        probe,
        lambda rows, wanted: probe(2 * rows - 1, wanted),
    ],
    k.beyond_control: [beside, lambda *c: np.array(beside(*c))],
    k.matched: [by_group, lambda r, t, g: by_group(r.astype(int), t, g - 7)],
    k.cut_among_slots: [
        lambda N, j: np.logical_or(np.eye(N + j), np.arange(N + j) >= N),
        lambda N, j: [[a == b or b >= N for b in range(N + j)] for a in range(N + j)],
    ],
}  # fmt: skip
