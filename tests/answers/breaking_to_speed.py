"""Answers to planted bugs, programs and the chapter on speed, beyond the lists."""

import math

import numpy as np

from tinyrmc import primitives as p
from tinyrmc.autograd.engine import Tape
from tinyrmc.course.exercises import breaking as b
from tinyrmc.course.exercises import engine_tour as et
from tinyrmc.course.exercises import going_fast as h
from tinyrmc.course.exercises import programs as g

from .backward import of_a_norm


def loss(logits, targets, shift="row", reduce=np.mean, tiny=0.0, smooth=0.0, clip=None):
    z = logits - {"row": logits.max(-1, keepdims=True), "none": 0}[shift]
    z = z if clip is None else np.clip(z, -clip, clip)
    logs = z - np.log(np.exp(z).sum(-1, keepdims=True) + tiny)
    y = np.eye(logits.shape[1])[targets] * (1 - smooth) + smooth / logits.shape[1]
    return reduce(-(y * logs).sum(-1))


def attend(M, x, q, k, v, rows=None, soft=b.softmax, root=None, add=0.0):
    Z = np.vstack([M, x]) if rows is None else rows(M, x)
    w = soft((M @ q) @ (Z @ k).T / math.sqrt(root or k.shape[1]))
    return w @ (Z @ v) + add


def process(z, layers, gain, offset, act=lambda x: np.maximum(x, 0), eps=1e-5, res=1.0):
    y = z
    for W, c in layers[:-1]:
        y = act(y @ W + c)
    y = y @ layers[-1][0] + layers[-1][1] + res * z
    d = y - y.mean(-1, keepdims=True)
    return gain * d / np.sqrt((d * d).mean(-1, keepdims=True) + eps) + offset


def one_tape_for_each_input(step, inputs, memory):
    found = []
    for k in range(len(inputs)):
        m = memory
        with Tape() as tape:
            x = tape.watch(inputs[k])
            for j, other in enumerate(inputs):
                m = step(x if j == k else other, m)
            loss = p.sum(m)
        found.append(np.linalg.norm(tape.gradient(loss, x, strict=False)))
    return np.array(found)


def influence(
    step, inputs, memory, norm=np.linalg.norm, cut=None, target=None, seed=1.0
):
    with Tape() as tape:
        xs = [tape.watch(x) for x in inputs]
        for t, x in enumerate(xs):
            memory = step(x, memory)
            if cut is not None and t == cut:
                memory = memory.detach()
        end = (target or p.sum)(memory) * seed
    return np.array([norm(d) for d in tape.gradient(end, xs, strict=False)])


def by_differences(step, inputs, memory, h=1e-6):
    def value(inputs):
        m = memory
        for x in inputs:
            m = step(x, m)
        return np.sum(
            m.data if hasattr(m, "data") and not isinstance(m, np.ndarray) else m
        )

    slopes = np.zeros(inputs.shape)
    for k in np.ndindex(inputs.shape):
        e = np.zeros(inputs.shape)
        e[k] = h
        slopes[k] = (value(inputs + e) - value(inputs - e)) / (2 * h)
    return np.linalg.norm(slopes, axis=1)


def doctor(network, rng, order=b.BUGS, else_="none"):
    """By other instruments, all of them at once."""
    M = network.begin()
    x, y = rng.normal(size=(2, network.inputs)).astype(np.float32)
    far = network.step(y, network.step(x, M)).data
    with Tape() as tape:
        first = tape.watch(x)
        end = p.sum(p.square(network.step(y, network.step(first, M))))
    gradient = tape.gradient(end, first, strict=False)
    louder = M.copy()
    louder[0] *= np.linspace(2, 3, M.shape[1], dtype=M.dtype)
    aside = network.apart(x, louder).data[1:] - network.apart(x, M).data[1:]
    z = np.full((1, 4), -500.0)
    z[0, 2] = 500.0
    tests = {
        "memory of zeros": np.allclose(far, far[:1], atol=1e-5),
        "memory cut off": not gradient.any(),
        "two softmaxes": network.loss(z, np.array([2])).data > 0.5,
        "wrong scale": network.attention(256).max(-1).mean() > 0.85,
        "joint norm": abs(aside).max() > 1e-5,
        "shared layer": len({network.count(k) for k in (2, 4)}) == 1,
    }
    return next((name for name in order if tests[name]), else_)


def run(part, more=0):
    if isinstance(part, int):
        return part
    name, *rest = part
    if name == "for":
        k, x, y = rest
        x, y = run(x, more), run(y, more)
        for _ in range(k + more):
            x += y
        return x
    if name in ("if>", "if<"):
        x, y, z, w = rest
        if run(y) > run(z) if name == "if>" else run(y) < run(z):
            return run(x, more)
        return run(w, more)
    x, y = (run(each, more) for each in rest)
    return x + y if name == "+" else x - y if name == "-" else x * y


def shallow(part, length):
    if isinstance(part, int):
        return str(part)
    values = [v if isinstance(v, int) else 0 for v in part[1:]]
    return g.evaluate((part[0], *values), length)


def without_return(program, length):
    value = run(program)
    if value >= 0:
        return str(value % 10 ** (length + 1))


def reading(step, inputs, lengths, state, end=lambda t, L: t < L, order=1, keep=True):
    first = state
    for t in range(inputs.shape[1])[::order]:
        new = step(inputs[:, t], state)
        state = np.where(end(t, lengths)[:, None], new, state if keep else first)
    return state


def one_by_one(step, inputs, lengths, state, last=lambda n: n):
    out = state.copy()
    for k, n in enumerate(lengths):
        for t in range(last(n)):
            out[k : k + 1] = step(inputs[k : k + 1, t], out[k : k + 1])
    return out


def in_place(step, inputs, lengths, state):
    for t in range(inputs.shape[1]):
        inside = t < lengths
        state[inside] = step(inputs[inside, t], state[inside])
    return state


def masked(x, y, n):
    counts = np.arange(y.shape[1]) < n[:, None]
    right = (x == y) & counts
    return right, counts


def pieces(d, examples, size, divide=lambda total, count: total / count, start=0):
    L, N, G = 0.0, 0, np.zeros(2)
    for k in range(start, len(examples), size):
        l, n, gr = d(examples[k : k + size])
        L, N, G = L + l, N + n, G + gr
    return divide(L, N), divide(G, N)


def rms_grad(gr, x, gain, eps, ddof=0, mean=lambda x: x.mean(-1, keepdims=True)):
    s = 1 / np.sqrt((x * x).sum(-1, keepdims=True) / max(x.shape[-1] - ddof, 1) + eps)
    return s * (gr * gain - s * x * mean(gr * gain * s * x))


def moved_by(row, step, M):
    rows = [step(M + np.eye(len(M))[:, [j]] * row) - step(M) for j in range(len(M))]
    return [[np.abs(row[i]).max() for row in rows] for i in range(len(M))]


def gather(f, V, n, join=np.concatenate):
    z = join([f(k, min(k + n, V)) for k in range(0, V, n)], axis=1)
    top = z.max(1)
    return top + np.log(np.exp(z - top[:, None]).sum(1))


def growing(f, V, n):
    z = f(0, min(n, V))
    for k in range(n, V, n):
        z = np.hstack([z, f(k, min(k + n, V))])
    return z.max(1) + np.log(np.exp(z - z.max(1, keepdims=True)).sum(1))


def two_sweeps(f, V, n, tiny=0.0, clip=None, dtype=float):
    parts = [(k, min(k + n, V)) for k in range(0, V, n)]
    top = np.max([f(*each).max(1) for each in parts], axis=0)
    total = 0
    for each in parts:
        z = (f(*each) - top[:, None]).astype(dtype)
        total = total + np.exp(z if clip is None else np.maximum(z, clip)).sum(1)
    return top + np.log(total + tiny)


def running(f, V, n):
    out = None
    for k in range(0, V, n):
        each = np.logaddexp.reduce(f(k, min(k + n, V)), axis=1)
        out = each if out is None else np.logaddexp(out, each)
    return out


def rows(x, gain, eps, y):
    for r, row in enumerate(x):
        y[r] = gain * row / np.sqrt(np.mean(row**2) + eps)


def number_by_number(x, gain, eps, y, F=None, root=math.sqrt):
    R, columns = x.shape
    for r in range(R):
        square = sum(x[r, c] ** 2 for c in range(columns)) / (F or columns)
        for c in range(columns):
            y[r, c] = gain[c] * x[r, c] / root(square + eps)


def pay(entries, loss, wanted, start=1.0, order=-1, join=lambda a, b: a + b):
    found = {loss: np.array(start)}
    for output, inputs, vjp in entries[::order]:
        if output in found:
            for k, g in zip(inputs, vjp(found[output])):
                found[k] = join(found[k], g) if k in found else g
    return [found.get(k, 0.0) for k in wanted]


WRONG = {
    et.walk: [
        lambda *c: pay(*c, start=0.0),
        lambda *c: pay(*c, order=1),
        lambda *c: pay(*c, join=np.maximum),
        lambda *c: pay(*c, join=lambda a, b: (a + b) / 2),
    ],
    et.length_vjp: [
        lambda xp, n, g, x, y: g[..., None] * np.sign(x),
        lambda xp, n, g, x, y: 2 * x * g[..., None],
        lambda xp, n, g, x, y: x * (g / (y + 1e-6))[..., None],
        lambda xp, n, g, x, y: x * (g / np.maximum(y, 1e-3))[..., None],
        lambda xp, n, g, x, y: g[..., None] * np.ones_like(x),
    ],
    h.rms_norm_rows: [
        rows,
        lambda *c: number_by_number(*c, F=1),
        lambda *c: number_by_number(*c, root=lambda v: v),
        lambda x, gain, eps, y: number_by_number(x, gain, eps, y.copy()),
        lambda x, gain, eps, y: number_by_number(x, gain, 0.0, y),
        lambda x, gain, eps, y: np.copyto(y, gain * x / np.sqrt((x * x).mean(1, keepdims=True) + eps)),
    ],
    h.log_sum_exp_in_blocks: [
        gather,
        growing,
        two_sweeps,
        lambda f, V, n: two_sweeps(f, V, n, tiny=1e-6),
        lambda f, V, n: two_sweeps(f, V, n, clip=-10.0),
    ],

    b.cross_entropy: [
        lambda z, t: loss(z, t, shift="none"),
        lambda z, t: loss(z, t, tiny=1e-7),
        lambda z, t: loss(z, t, clip=30.0),
        lambda z, t: -np.log(b.softmax(z)[np.arange(len(t)), t] + 1e-10).mean(),
        lambda z, t: np.nan_to_num(-np.log(b.softmax(z)[np.arange(len(t)), t])).mean(),
    ],
    b.attend: [
        lambda *c: attend(*c, rows=lambda M, x: np.vstack([x, M[1:]])),
        lambda *c: attend(*c, rows=lambda M, x: np.vstack([M, 0 * x])),
        lambda *c: attend(*c, rows=lambda M, x: M + x),
        lambda *c: attend(*c, soft=lambda s: b.softmax(s, axis=None)),
    ],
    b.process: [
        lambda *c: process(*c, eps=1e-6),
        lambda *c: process(*c, eps=0),
        lambda *c: process(*c, res=2.0),
        lambda *c: process(*c, res=-1.0),
    ],
    b.influence: [
        lambda *c: influence(*c) + 1e-10,
        lambda *c: np.maximum(influence(*c), 1e-12),
        lambda *c: influence(*c, norm=lambda d: np.linalg.norm(d) ** 2),
        by_differences,
    ],
    b.who_moves: [
        lambda f, M, r: moved_by(1, f, M),
        lambda f, M, r: moved_by(M, f, M),
        lambda f, M, r: np.eye(len(M)), lambda f, M, r: np.ones((len(M), len(M))),
        lambda f, M, r: b.who_moves.function(lambda x: f(x)[:, :1], M, r),
        lambda f, M, r: b.who_moves.function(f, M, r) + 1e-3,
        lambda f, M, r: b.who_moves.function(lambda M: M, M, r),
        lambda f, M, r: b.who_moves.function(f, M, r).sum(0),
    ],
    b.diagnose: [
        lambda n, r: doctor(n, r, order=b.BUGS[:-1]),
        lambda n, r: doctor(n, r, order=b.BUGS[1:]),
        lambda n, r: doctor(n, r, else_="joint norm"),
        lambda n, r: b.BUGS[0] if abs(n.begin()).max() < 1e-6 else "none",
        lambda n, r: doctor(n, r).title(),
    ],
    g.evaluate: [
        shallow,
        without_return,
        lambda q, n: str(run(q) % 10**n + 1),
        lambda q, n: str(run(q, more=1) % 10 ** (n + 1)),
        lambda q, n: str(run(q, more=-1) % 10 ** (n + 1)),
        lambda q, n: str(np.float32(run(q) % 10 ** (n + 1)).astype(int)),
    ],
    g.read: [
        in_place,
        lambda *c: reading(*c, end=lambda t, L: t <= L),
        lambda *c: reading(*c, end=lambda t, L: t != L),
        lambda *c: one_by_one(*c, last=lambda n: max(n, 1)),
    ],
    g.score: [
        lambda x, y, n: (masked(x, y, n)[0].sum() / n.sum(), (masked(x, y, n)[0].sum(1) >= n - 1).mean()),
        lambda x, y, n: masked(x, y, n)[0].sum() / n.sum(),
        lambda x, y, n: (masked(x, y, n)[0].sum(), masked(x, y, n)[0].all(1).sum()),
        lambda x, y, n: tuple(100 * v for v in g.score(x, y, n)),
    ],
    g.constant_answer: [
        lambda y, n, s: y.max(0),
        lambda y, n, s: y[0],
        lambda y, n, s: np.array([np.bincount(y[n >= t, t]).argmax() for t in range(y.shape[1])]),
        lambda y, n, s: np.array([np.bincount(y[n > t, t]).max() for t in range(y.shape[1])]),
        lambda y, n, s: np.eye(s)[g.constant_answer(y, n, s)],
    ],
    h.in_pieces: [
        lambda d, x, n: pieces(d, x, n, divide=lambda total, count: total / len(x)),
        lambda d, x, n: pieces(d, x, n, divide=lambda total, count: total),
        lambda d, x, n: pieces(d, x, n, divide=lambda total, count: total / (count + 1e-8)),
        lambda d, x, n: pieces(d, np.nan_to_num(x), n),
        lambda d, x, n: pieces(d, x[: len(x) // n * n], n),
    ],
    h.rms_norm_gradient: [
        *of_a_norm(rms_grad),
        lambda gr, x, gain, eps: rms_grad(gr, x - x.mean(-1, keepdims=True), gain, eps),
    ],
    h.weight_gradient: [
        lambda x, gr: np.einsum("tbi,tbo->oi", x, gr),
        lambda x, gr: np.einsum("tbi,tbo->bio", x, gr),
        lambda x, gr: np.einsum("tbi,sbo->io", x, gr),
        lambda x, gr: np.einsum("tbi,tco->io", x, gr),
        lambda x, gr: sum(a.T @ c for a, c in zip(x, gr)),  # right, but a product a step
        lambda x, gr: (x.swapaxes(1, 2) @ gr).sum(0),
    ],
}  # fmt: skip

RIGHT = {
    et.walk: [pay, lambda *c: pay(*c, join=np.add)],
    et.length_vjp: [
        lambda xp, n, g, x, y: np.einsum("...,...f->...f", g / np.maximum(y, 1e-300), x),
        lambda xp, n, g, x, y: np.nan_to_num(x / y[..., None]) * g[..., None],
    ],
    h.rms_norm_rows: [lambda x, gain, eps, y: number_by_number(x, gain, eps, y)],
    h.log_sum_exp_in_blocks: [running],
    b.cross_entropy: [
        loss,
        lambda z, t: (np.logaddexp.reduce(z, axis=1) - z[np.arange(len(t)), t]).mean(),
        lambda z, t: float(loss(z, t)),
    ],
    b.attend: [attend, lambda M, x, q, k, v: attend(M, x, q * k.shape[1] ** -0.5, k, v, root=1)],
    b.process: [process, lambda z, L, gain, offset: process(z, L, 1, 0) * gain + offset],
    b.influence: [influence, lambda *c: list(influence(*c)), one_tape_for_each_input],
    b.who_moves: [lambda f, M, r: moved_by(r.normal(size=M.shape[1]), f, M)],
    b.diagnose: [doctor],
    g.evaluate: [lambda q, n: str(run(q) % 10 ** (n + 1)), lambda q, n: f"{run(q) % 10 ** (n + 1):d}"],
    g.read: [one_by_one, reading, lambda f, x, n, s: reading(f, np.nan_to_num(x), n, s),
             lambda f, x, n, s: [a if k else b for a, k, b in zip(reading(f, x, n, s), n, s)]],
    g.score: [
        lambda x, y, n: np.array(g.score.function(x, y, n)),
        lambda x, y, n: [masked(x, y, n)[0].sum() / n.sum(), (masked(x, y, n)[0].sum(1) == n).mean()],
    ],
    g.constant_answer: [
        lambda y, n, s: [max(range(s), key=[*y[n > t, t]].count) for t in range(y.shape[1])],
        lambda y, n, s: ((y[..., None] == np.arange(s)) & (np.arange(y.shape[1]) < n[:, None])[..., None]).sum(0).argmax(1),
    ],
    h.in_pieces: [pieces, lambda d, x, n: list(pieces(d, x, n)), lambda d, x, n: pieces(d, x, 1)],
    h.rms_norm_gradient: [
        rms_grad,
        lambda gr, x, gain, eps: np.einsum("...i,...ij->...j", gr * gain, _jacobian(x, eps)),
    ],
    h.weight_gradient: [
        lambda x, gr: np.einsum("tbi,tbo->io", x, gr),
        lambda x, gr: np.tensordot(x, gr, axes=([0, 1], [0, 1])),
        lambda x, gr: np.vstack(x).T @ np.vstack(gr),
    ],
}  # fmt: skip


def _jacobian(x, eps):
    s = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    n = x * s
    F = x.shape[-1]
    return s[..., None] * (np.eye(F) - n[..., :, None] * n[..., None, :] / F)
