"""Derivatives that learners might write, beyond the lists: WRONG ones, RIGHT ones."""

import math

import numpy as np

from tinyrmc.course.exercises import attention as a
from tinyrmc.course.exercises import gates as g
from tinyrmc.course.exercises import normalisation as n
from tinyrmc.course.exercises import tape as t
from tinyrmc.course.exercises import through_time as m

f32 = np.float32


def T(x):
    return np.swapaxes(x, -1, -2)


def sig(x):
    return (np.tanh(x / 2) + 1) / 2


def differences(forward, gr, inputs, places, h=1e-5):
    """Central differences in the place of derivatives."""
    found = []
    for place in places:
        x = inputs[place]
        by = np.zeros(x.shape)
        for k in np.ndindex(x.shape):
            ends = []
            for sign in (1, -1):
                z = x.copy()
                z[k] += sign * h
                moved = [*inputs[:place], z, *inputs[place + 1 :]]
                ends.append((gr * forward(*moved)).sum())
            by[k] = (ends[0] - ends[1]) / (2 * h)
        found.append(by)
    return tuple(found)


def stacks(gr, x, y, home=t.unbroadcast.function):
    return home(gr @ T(y), x.shape), home(T(x) @ gr, y.shape)


def one_leading_axis_only(gr, x, y):
    if gr.ndim == 2:
        return gr @ y.T, x.T @ gr
    by_x, by_y = gr @ T(y), T(x) @ gr
    by_x = by_x.sum(0) if x.ndim == 2 else by_x
    return by_x, by_y.sum(0) if y.ndim == 2 else by_y


def by_einsum(gr, x, y):
    by_x = np.einsum("...ij,...kj->...ik", gr, y)
    by_y = np.einsum("...ik,...ij->...kj", x, gr)
    return [t.unbroadcast(by_x, x.shape), t.unbroadcast(by_y, y.shape)]


def attend(gr, Q, K, V, d=None, keep=lambda A: A, sums=-1, scale=1.0):
    root = math.sqrt(d(Q, K, V) if d else Q.shape[-1])
    s = Q @ T(K) / root
    A = np.exp(s - s.max(-1, keepdims=True))
    A = keep(A / A.sum(-1, keepdims=True))
    gA = gr @ T(V)
    gS = A * (gA - (gA * A).sum(sums, keepdims=True)) * scale / root
    return gS @ K, T(gS) @ Q, T(A) @ gr


def attend_without_leading_axes(gr, Q, K, V):
    A = a.attention_weights(Q, K)
    gA = gr @ T(V)
    gS = A * (gA - (gA * A).sum(-1, keepdims=True)) / math.sqrt(Q.shape[-1])
    return gS @ K, gS.T @ Q, A.T @ gr


def attend_by_whole_jacobians(gr, Q, K, V):
    A = a.attention_weights(Q, K)
    J = A[..., None] * (np.eye(A.shape[-1]) - A[..., None, :])
    gS = np.einsum("...nd,...rd,...nrs->...ns", gr, V, J) / math.sqrt(Q.shape[-1])
    return gS @ K, T(gS) @ Q, np.einsum("...nr,...nd->...rd", A, gr)


def norm_grad(gr, x, gain, eps, ddof=0, mean=lambda x: x.mean(-1, keepdims=True)):
    d = x - mean(x)
    s = 1 / np.sqrt((d * d).sum(-1, keepdims=True) / max(x.shape[-1] - ddof, 1) + eps)
    k, h = d * s, gr * gain
    return s * (h - mean(h) - k * mean(h * k))


def norm_jacobian(gr, x, gain, eps):
    F = x.shape[-1]
    d = x - x.mean(-1, keepdims=True)
    s = 1 / np.sqrt((d * d).mean(-1, keepdims=True) + eps)
    k = d * s
    J = s[..., None] * (np.eye(F) - 1 / F - k[..., :, None] * k[..., None, :] / F)
    return np.einsum("...i,...ij->...j", gr * gain, J)


def affine(gr, x, h, W, U, b):
    gx = gr.sum(1)
    by_U = np.einsum("bnf,bng->fg", h, gr)
    return gx @ W.T, gr @ U.T, x.T @ gx, by_U, gx.sum(0)


def affine_in_a_loop(gr, x, h, W, U, b):
    by = [np.zeros_like(each) for each in (x, h, W, U, b)]
    for k in np.ndindex(gr.shape[:2]):
        by[0][k[0]] += W @ gr[k]
        by[1][k] += U @ gr[k]
        by[2] += np.outer(x[k[0]], gr[k])
        by[3] += np.outer(h[k], gr[k])
        by[4] += gr[k]
    return by


def gated(gr, f, i, old, c, bias, slope=lambda y: y * (1 - y), clip=np.inf):
    keep, take = (sig(np.clip(x, -clip, clip)) for x in (f + bias, i))
    return gr * old * slope(keep), gr * c * slope(take), gr * keep, gr * take


def equation_7(f, i, old, c, bias):
    return sig(f + bias) * old + sig(i) * c


def shown(gm, gh, f, i, o, old, c, bias, own=lambda y: 1 - y * y, gate=sig):
    after = equation_7(f, i, old, c, bias)
    y = np.tanh(after)
    gr = gm + gh * gate(o) * own(y)
    by_f, by_i, by_m, by_c = gated(gr, f, i, old, c, bias)
    return by_f, by_i, gh * y * sig(o) * (1 - sig(o)), by_m, by_c


def walk(vjp, xs, states, gr, start=0.0, first=0, keep=1.0, steps=None, clip=np.inf):
    gm, gh = start + np.zeros_like(gr[0]), start + np.zeros_like(gr[0])
    total = 0.0
    for k in range(len(xs) - 1, first - 1, -1)[:steps]:
        gm, gh, gw = vjp(xs[k], *states[k], gm, np.clip(gh + gr[k], -clip, clip))
        gm, gh = keep * gm, keep * gh
        total = total + gw
    return gm, gh, total


def windows(vjp, xs, states, gr, k):
    """A walk for each window."""
    total = 0.0
    for s in range(0, len(xs), k):
        total = total + walk(vjp, xs[s : s + k], states[s : s + k], gr[s : s + k])[2]
    return total


def windows_from_the_end(vjp, xs, states, gr, k):
    total, until = 0.0, len(xs)
    while until > 0:
        s = slice(max(until - k, 0), until)
        total = total + walk(vjp, xs[s], states[s], gr[s])[2]
        until -= k
    return total


def given_to_m(vjp, xs, states, gr):
    gm, gh, total = 0 * gr[0], 0 * gr[0], 0.0
    for x, state, given in list(zip(xs, states, gr, strict=True))[::-1]:
        gm, gh, gw = vjp(x, *state, gm + given, gh)
        total = total + gw
    return gm, gh, total


def walk_by_recursion(vjp, xs, states, gr):
    if not len(xs):
        return np.zeros_like(gr[0:1].sum(0)), np.zeros_like(gr[0:1].sum(0)), 0.0
    gm, gh, later = walk_by_recursion(vjp, xs[1:], states[1:], gr[1:])
    gm, gh, gw = vjp(xs[0], *states[0], gm, gh + gr[0])
    return gm, gh, gw + later


def each_output_by_itself(vjp, xs, states, gr):
    """One walk for each step's output, and the sum of all."""
    found = []
    for k in range(len(xs)):
        alone = np.zeros_like(gr)
        alone[k] = gr[k]
        found.append(walk(vjp, xs, states, alone))
    return tuple(sum(parts) for parts in zip(*found, strict=True))


def processed(gr, z, layers, gain):
    """The norm's gradient by its centred rows."""
    (W1, b1), (W2, b2) = layers
    before = z @ W1 + b1
    total = np.where(before > 0, before, 0) @ W2 + b2 + z
    away = total - total.mean(-1, keepdims=True)
    size = np.sqrt((away**2).mean(-1, keepdims=True) + 1e-5)
    own, y = gr * gain, away / size
    by = own - own.mean(-1, keepdims=True) - y * (own * y).mean(-1, keepdims=True)
    by = by / size
    return by + np.where(before > 0, by @ W2.T, 0) @ W1.T


def geometric(sizes, axis):
    return np.prod(sizes, axis) ** (1 / len(sizes))


def far(f, panel, *, biases=(0, 1, 4), seeds=4, scale="log", start=1, mean=geometric):
    found = {}
    for bias in biases:
        found[bias] = mean([f(bias, 7 + seed) for seed in range(seeds)], axis=0)
        panel.plot(np.arange(40) + start, found[bias], label=f"{bias}")
    panel.set_yscale(scale)
    panel.set_xlabel("steps")
    panel.set_ylabel("size")
    return found


def of_a_norm(grad):
    """Wrong ones of any norm, made of the right one."""
    return [
        lambda *c: grad(*c, ddof=1),
        lambda *c: grad(*c).astype(f32),
        lambda *c: grad(*c, mean=lambda x: x.mean(axis=1, keepdims=True)),
        lambda *c: grad(*c, mean=lambda x: x.mean(axis=-1)[:, None]),
        lambda gr, x, gain, eps: grad(gr, x, gain, 1e-5),
        lambda gr, x, gain, eps: grad(gr, x, gain, eps * eps),
        lambda gr, x, gain, eps: -grad(gr, x, gain, eps),
        lambda gr, x, gain, eps: grad(gr, x, gain, eps) + gr,
        lambda gr, x, gain, eps: grad(gr, x, 1 / gain, eps),
        lambda gr, x, gain, eps: grad(x, gr, gain, eps),
        lambda gr, x, gain, eps: grad(np.ones_like(gr), x, gain, eps),
        lambda gr, x, gain, eps: grad(gr, x, gain, eps).sum(-1),
        lambda gr, x, gain, eps: grad(gr, x, gain, eps) * x.shape[-1],
        lambda gr, x, gain, eps: grad(gr, x, gain, eps) + 1e-7,
        lambda gr, x, gain, eps: (
            np.stack([grad(a, y, gain, eps) for a, y in zip(gr, x, strict=True)])
            if x.ndim < 4
            else gr
        ),
    ]


WRONG = {
    t.stacks_vjp: [
        one_leading_axis_only,
        lambda *c: stacks(*c, home=lambda x, shape: x.sum(tuple(range(x.ndim - len(shape))))),
        lambda *c: stacks(*c, home=lambda x, shape: np.resize(x, shape)),
        lambda gr, x, y: stacks(np.ones_like(gr), x, y),
    ],
    a.attention_vjp: [
        attend_without_leading_axes,
        lambda *c: attend(*c, d=lambda Q, K, V: V.shape[-1]),
        lambda *c: attend(*c, d=lambda Q, K, V: K.shape[-2]),
        lambda *c: attend(*c, keep=lambda A: np.clip(A, 1e-6, 1)),
    ],
    n.layer_norm_gradient: [
        *of_a_norm(norm_grad),
        lambda gr, x, gain, eps: norm_grad(gr, x + 1, gain, eps + 1e-3),
    ],
    g.gate_vjp: [
        lambda gr, x, h, W, U, b: affine(gr, x, h, U, W, b) if W.shape == U.shape else (x, h, W, U, b),
        lambda *c: affine(*c)[:4],
        lambda *c: affine(*c)[::-1],
        lambda gr, *c: affine(np.ones_like(gr), *c),
    ],
    g.gated_vjp: [
        lambda *c: gated(*c, clip=5),
        lambda *c: gated(*c, clip=30),
        lambda *c: gated(*c, slope=lambda y: 0.25),
        lambda gr, f, i, old, c, b: gated(gr, f, i, old, c, 1.0),
        lambda gr, f, i, old, c, b: differences(
            equation_7, gr, (f, i, old, c, b), (0, 1, 2, 3)),
    ],
    m.state_vjp: [
        lambda gm, gh, f, i, o, *c: shown(gm, gh, f, i, np.clip(o, -30, 30), *c),
        lambda *c: shown(*c, own=lambda y: 1 - y),
        lambda *c: shown(*c, own=lambda y: 1 + y * y),
        lambda gm, gh, f, i, o, old, c, b: shown(gm, gh, f, i, o, old, c, 1.0),
    ],
    m.in_windows: [
        lambda *c: walk(*c[:4])[2],
        lambda *c: windows(*c[:4], c[4] + 1),
        lambda *c: windows(*c) / len(c[1]),
        windows_from_the_end,
        lambda *c: sum(windows(*c)),
    ],
    m.g_psi_vjp: [
        lambda gr, z, w, a_, b_: m.g_psi_vjp(gr, z, w, b_, a_),
        lambda gr, z, w, a_, b_: m.g_psi_vjp(gr, z, w, a_, b_) + gr,
        lambda gr, z, w, a_, b_: m.g_psi_vjp(gr, z, [(w[0][0], 0 * w[0][1]), w[1]], a_, b_),
        lambda gr, z, w, a_, b_: m.g_psi_vjp.function(gr, z, w, a_, b_).astype(f32),
    ],
    m.heads_vjp: [
        lambda gr, M, x, q, k, v: m.heads_vjp.function(gr, M, x, k, q, v),
        lambda gr, M, x, q, k, v: m.heads_vjp.function(gr, M, 0 * x, q, k, v),
        lambda gr, M, x, q, k, v: m.heads_vjp.function(gr[..., ::-1], M, x, q, k, v),
        lambda gr, M, x, q, k, v: m.heads_vjp.function(gr, M, x, q, k, v) + gr,
    ],
    m.step_vjp: [
        lambda x, M, h, gm, gh, p, s: m.step_vjp.function(x, h, M, gm, gh, p, s),
        lambda x, M, h, gm, gh, p, s: m.step_vjp.function(x, M, h, gm, gh, p | {"forget_bias": 1.0}, s),
        lambda x, M, h, gm, gh, p, s: m.step_vjp.function(x, M, h, gm, gh, p, 1 - s),
        lambda *c: m.step_vjp.function(*c)[:2],
    ],
    m.how_far: [
        lambda f, panel: far(f, panel, seeds=2),
        lambda f, panel: far(f, panel, biases=(0, 1)),
        lambda f, panel: far(f, panel, scale="linear"),
        lambda f, panel: far(f, panel, start=0),
        lambda f, panel: far(f, panel, mean=np.max),
        lambda f, panel: far(f, panel, mean=np.mean),
    ],
    m.through_time: [
        lambda *c: walk(*c, start=1.0),
        lambda *c: walk(*c, keep=0.99),
        lambda *c: walk(*c, steps=20),
        lambda *c: walk(*c, first=1) if len(c[1]) > 1 else walk(*c),
        given_to_m,
    ],
}  # fmt: skip

RIGHT = {
    t.stacks_vjp: [stacks, by_einsum],
    a.attention_vjp: [attend, attend_by_whole_jacobians, lambda *c: list(attend(*c))],
    n.layer_norm_gradient: [norm_grad, norm_jacobian],
    g.gate_vjp: [affine, affine_in_a_loop],
    g.gated_vjp: [gated, lambda *c: gated(*c, slope=lambda y: y - y * y)],
    m.state_vjp: [shown, lambda *c: np.stack(shown(*c))],
    m.in_windows: [windows],
    m.through_time: [walk, walk_by_recursion, each_output_by_itself],
    m.g_psi_vjp: [lambda gr, z, w, a_, b_: processed(gr, z, w, a_)],
    m.heads_vjp: [lambda *c: np.array(m.heads_vjp.function(*c).tolist())],
    m.step_vjp: [lambda *c: list(m.step_vjp.function(*c))],
    m.how_far: [
        far,
        lambda f, panel: far(f, panel, biases=(5, 2, 0, -3), mean=np.median),
    ],
}
