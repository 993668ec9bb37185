"""The cores that came after the RMC: Transformer, linear attention, delta, SSM, STM.

Each equals its equations, written out here in loops over examples, heads and steps; all
steps at once equal the steps; nobody sees the future.
"""

import math

import numpy as np
from numpy.testing import assert_allclose
from turns import in_turn

from tinyrmc import Tape, Tensor, gradcheck
from tinyrmc import primitives as p
from tinyrmc.autograd.nested import leaves, refilled
from tinyrmc.backend import to_host
from tinyrmc.cores import (
    STM,
    DeltaNet,
    LinearAttention,
    SelectiveSSM,
    Transformer,
)

MAKE = {
    "transformer": lambda **own: Transformer(5, 4, 2, layers=2, window=6, **own),
    "unturned": lambda **own: Transformer(5, 3, 2, 2, 30, positions="none", **own),
    "linear": lambda **own: LinearAttention(5, 4, 2, layers=2, chunk=4, **own),
    "decaying": lambda **own: LinearAttention(5, 4, 2, decay=True, chunk=4, **own),
    "delta": lambda **own: DeltaNet(5, 4, 2, layers=2, chunk=4, **own),
    "gated": lambda **own: DeltaNet(5, 4, 2, gated=True, conv=1, chunk=4, **own),
    "ssm": lambda **own: SelectiveSSM(5, 4, 2, layers=2, state_size=3, **own),
    "stm": lambda **own: STM(5, 3, 4, 6, 7, **own),
}
every = in_turn("name", MAKE)
BLOCKS = in_turn("name", [name for name in MAKE if name != "stm"])


def made(name, dtype=np.float64, seed=0):
    """A core whose parameters are all some way from where they start."""
    core, rng = MAKE[name](dtype=dtype, seed=seed), np.random.default_rng(seed)
    for parameter in core.parameters():
        moved = parameter.data + 0.3 * rng.standard_normal(parameter.shape)
        parameter.data = moved.astype(dtype)
    return core


# --- The equations, written out -------------------------------------------------------


def softplus(x):
    return math.log1p(math.exp(x))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def norm(x, layer):
    x = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    return layer.gain.data * x + layer.offset.data


def attend(mixer, rows):
    """Softmax attention of every step over the window behind it."""
    W, size = mixer.qkv.weight.data, rows.shape[1] // mixer.num_heads
    q, k, v = np.split(rows @ W, 3, axis=1)

    def turned(u, t):
        if not mixer.rotary:
            return u
        pairs = u[: size // 2] + 1j * u[size // 2 :]
        angles = [t / 10_000 ** (2 * j / size) for j in range(size // 2)]
        pairs = pairs * np.exp(1j * np.array(angles))
        return np.concatenate([pairs.real, pairs.imag])

    out = np.zeros_like(rows)
    for t in range(len(rows)):
        for h in range(mixer.num_heads):
            own = slice(h * size, (h + 1) * size)
            seen = range(max(0, t - mixer.window), t + 1)
            scores = [turned(q[t, own], t) @ turned(k[s, own], s) for s in seen]
            weights = np.exp(np.array(scores) / math.sqrt(size))
            weights /= weights.sum()
            out[t, own] = sum(a * v[s, own] for a, s in zip(weights, seen, strict=True))
    return out @ mixer.out.weight.data


def kept(mixer, row, h):
    if mixer.decay is None:
        return 1.0
    layer = mixer.decay.linear
    x = row @ layer.weight.data[:, h] + layer.bias.data[h]
    return math.exp(-math.exp(mixer.decay.rate.data[h]) * softplus(x))


def sum_up(mixer, rows):
    """Linear attention as the sum over all pairs of steps that it stands for."""
    size = rows.shape[1] // mixer.num_heads
    q, k, v = np.split(rows @ mixer.qkv.weight.data, 3, axis=1)
    phi = np.where(q > 0, q + 1, np.exp(q)), np.where(k > 0, k + 1, np.exp(k))
    out = np.zeros_like(rows)
    for h in range(mixer.num_heads):
        own = slice(h * size, (h + 1) * size)
        keeps = [kept(mixer, row, h) for row in rows]
        for t in range(len(rows)):
            weights = [
                phi[0][t, own] @ phi[1][s, own] * math.prod(keeps[s + 1 : t + 1])
                for s in range(t + 1)
            ]
            found = sum(w * v[s, own] for s, w in enumerate(weights))
            out[t, own] = found / (sum(weights) + 1e-6)
    return out @ mixer.out.weight.data


def correct(mixer, rows):
    """The delta rule, with the matrix I - beta k k^T."""
    size = rows.shape[1] // mixer.num_heads
    q, k, v = np.split(rows @ mixer.qkv.weight.data, 3, axis=1)
    out = np.zeros_like(rows)
    for h in range(mixer.num_heads):
        own, S = slice(h * size, (h + 1) * size), np.zeros((size, size))
        for t, row in enumerate(rows):
            key, query = silu(k[t, own]), silu(q[t, own])
            key, query = (u / math.sqrt(u @ u) for u in (key, query))
            b = row @ mixer.beta.weight.data[:, h] + mixer.beta.bias.data[h]
            b = sigmoid(b)
            S = kept(mixer, row, h) * (np.eye(size) - b * np.outer(key, key)) @ S
            S = S + b * np.outer(key, v[t, own])
            out[t, own] = query @ S
    return out @ mixer.out.weight.data


def select(mixer, rows):
    """The state space, unit by unit and number by number."""
    units, size = mixer.A_log.shape
    out, h = np.zeros_like(rows), np.zeros((units, size))
    for t, row in enumerate(rows):
        z, x, B, C = np.split(row @ mixer.projection.weight.data, mixer.cuts)
        x = silu(x)
        for f in range(units):
            layer = mixer.duration
            lasts = softplus(row @ layer.weight.data[:, f] + layer.bias.data[f])
            for n in range(size):
                A = -math.exp(mixer.A_log.data[f, n])
                h[f, n] = math.exp(lasts * A) * h[f, n] + lasts * B[n] * x[f]
            y = h[f] @ C + mixer.through.data[f] * x[f]
            out[t, f] = y * silu(z[f])
    return out @ mixer.out.weight.data


def convolve(mixer, rows):
    weight, out = mixer.weight.data, np.zeros_like(rows)
    for t in range(len(rows)):
        for j in range(len(weight)):
            if t - j >= 0:
                out[t] += weight[len(weight) - 1 - j] * rows[t - j]
    return out


MIXING = dict(
    Attention=attend,
    Sum=sum_up,
    Delta=correct,
    Selective=select,
    ShortConvolution=convolve,
)


def written_out(core, inputs):
    """The outputs of one example's steps (T, input_size), in loops."""
    layer = core.input_projection
    x = inputs @ layer.weight.data + layer.bias.data
    for block in core.blocks:
        n = np.array([norm(row, block["norm"]) for row in x])
        for mixer in block["mix"]:
            n = MIXING[type(mixer).__name__](mixer, n)
        x = x + n
        one, two = block["mlp"].layers
        n = np.array([norm(row, block["mlp_norm"]) for row in x])
        n = np.maximum(n @ one.weight.data + one.bias.data, 0)
        x = x + n @ two.weight.data + two.bias.data
    return np.array([norm(row, core.norm) for row in x])


def stm_written_out(core, inputs):
    """The same for the two memories, number by number where the paper has sums."""
    (M,), (R,) = (x.data for x in core.initial_state(1))
    D, K, outputs = core.mem_size, core.mem_slots, []
    a1, a2, a3 = core.alphas.data

    def of(layer, x):
        return x @ layer.weight.data + layer.bias.data

    for x in inputs:
        x1, x2, x3 = of(core.item, x), of(core.key, x), np.exp(of(core.choice, x))
        x3 = x3 / x3.sum()
        gates = of(core.gate_inputs, x1) + of(core.gate_memory, np.tanh(M))
        opens = sigmoid(gates[:, :D] + core.gate_biases.data[0])
        keeps = sigmoid(gates[:, D:] + core.gate_biases.data[1])
        M = keeps * M + opens * np.tanh(np.outer(x1, x1))
        r = sum(x3[k] * x2[d] * R[k, d] for k in range(K) for d in range(D))
        qkv = of(core.qkv, M + a2 * np.outer(r, x2)).reshape(-1)
        q, k, v = np.split(norm(qkv, core.qkv_norm).reshape(D, 3 * K).T, 3)
        S = np.zeros((K, D, D))
        for j in range(K):
            for i in range(K):
                S[j] += np.outer(np.tanh(q[j] * k[i]), v[i])
        R = a1 * R + S
        M = M + a3 * of(core.to_items, S.reshape(K * D, D).T)
        told = [of(core.of_relation, R[j].reshape(-1)) for j in range(K)]
        outputs.append(of(core.of_relations, np.concatenate(told)))
    return np.array(outputs)


@every
def test_it_is_its_equations_written_out(xp, name):
    core, rng = made(name), np.random.default_rng(1)
    x = rng.standard_normal((2, 11, 5))
    loops = stm_written_out if name == "stm" else written_out
    expected = [loops(core, example) for example in x]
    core.to(xp)
    for trace in None, []:  # all steps at once, and one after the other
        outputs, _ = core.unroll(xp.asarray(x), core.initial_state(2), trace)
        found = to_host(p.stack(outputs, axis=1).data)
        assert_allclose(found, expected, 1e-9, 1e-11)


# --- All steps at once ----------------------------------------------------------------

LENGTHS = np.array([0, 15, 7, 10])
FRESH = np.random.default_rng(3).random((4, 15)) < 0.25
ENDS = [(None, None), (LENGTHS, None), (None, FRESH), (LENGTHS, FRESH)]


def both_ways(core, xp, dtype, lengths, is_first):
    """Outputs, states and gradients of all steps at once, and of one by one; they begin
    with a state that has seen three steps.
    """
    rng, results = np.random.default_rng(2), []
    x = xp.asarray(rng.standard_normal((4, 15, 5)).astype(dtype))
    weights = xp.asarray(rng.standard_normal((4, 15, core.output_size)).astype(dtype))
    given = [None if ends is None else xp.asarray(ends) for ends in (lengths, is_first)]
    counts = xp.arange(15) < (15 if lengths is None else given[0][:, None])
    counts = xp.broadcast_to(counts, (4, 15))[..., None]
    for trace in None, []:
        with Tape() as tape:
            seen = tape.watch(x)
            _, state = core.unroll(seen[:, :3], core.initial_state(4))
            outputs, state = core.unroll(seen, state, trace, *given)
            outputs = p.where(counts, p.stack(outputs, axis=1), 0.0)
            loss = p.sum(outputs * weights)
            for k, leaf in enumerate(leaves(state)):
                loss = loss + 0.1 * (k + 1) * p.sum(leaf)
        found = [outputs, *leaves(state)]
        found += tape.gradient(loss, [seen, *core.parameters()], strict=False)
        results.append([x.data if isinstance(x, Tensor) else x for x in found])
    return results


@BLOCKS
@in_turn("lengths, is_first", ENDS)
def test_all_steps_at_once_are_the_steps(xp, name, lengths, is_first):
    if xp is not np and (lengths is None) != (is_first is None):
        return  # the stand-in is slow
    kinds = (np.float64, 1e-11), (np.float32, 1e-5)
    for dtype, tolerance in kinds if xp is np else kinds[1:]:
        core = made(name, dtype).to(xp)
        ours, theirs = both_ways(core, xp, dtype, lengths, is_first)
        for one, other in zip(ours, theirs, strict=True):
            assert one.dtype == other.dtype == dtype
            one, other = to_host(one), to_host(other)
            scale = max(1.0, np.abs(other).max())
            assert np.abs(one - other).max() <= tolerance * scale


def test_long_sequences_of_like_keys_lose_no_digits():
    """Of equal inputs all keys are equal: the chunk's system is as bad as it gets."""
    x = np.repeat(np.random.default_rng(0).standard_normal((1, 300, 5)), 2, axis=0)
    x[1] = x[1, :1]
    for core in made("delta", np.float32), made("linear", np.float32):
        exact = core.astype(np.float64)
        expected, _ = exact.unroll(x, exact.initial_state(2), [])
        found, _ = core.unroll(x.astype(np.float32), core.initial_state(2))
        for ours, theirs in zip(found, expected, strict=True):
            assert_allclose(ours.data, theirs.data, 0, 1e-4)


def test_a_window_slides_over_a_sequence_many_times_its_length(xp):
    core = Transformer(5, 4, window=3, dtype=np.float64, seed=1).to(xp)
    x = xp.asarray(np.random.default_rng(0).standard_normal((1, 300, 5)))
    outputs, state = core.unroll(x, core.initial_state(1))  # in pieces of 128 queries
    for t in (127, 128, 130, 256, 299):  # at each border of the pieces, and at the end
        seen = x[:, t - 3 : t + 1]  # all that step t sees
        last, same = core.unroll(seen, core.initial_state(1))
        assert_allclose(to_host(outputs[t].data), to_host(last[-1].data), 1e-10, 1e-12)
    for ours, theirs in zip(leaves(state), leaves(same), strict=True):
        assert_allclose(to_host(ours.data), to_host(theirs.data), 1e-12)
    shorter, _ = core.unroll(x[:, -3:], core.initial_state(1))
    assert abs(to_host(outputs[-1].data - shorter[-1].data)).max() > 1e-3


def test_how_fast_the_heads_forget_at_first():
    delta = DeltaNet(5, 4, 8, gated=True, dtype=np.float64, seed=0)
    decay = delta.blocks[0]["mix"][-1].decay
    decay.linear.weight.data[...] = 0
    lives = -math.log(2) / decay(np.zeros((1, 32))).data[0]
    assert_allclose(lives, [2, 4, 8, 16, 32, 64, 128, 256], 1e-12)
    ssm = SelectiveSSM(5, 400, state_size=4, dtype=np.float64, seed=0)
    mixer = ssm.blocks[0]["mix"][-1]
    lasts = np.array([softplus(b) for b in mixer.duration.bias.data])
    assert 1e-3 <= lasts.min() < 1.2e-3 and 0.08 < lasts.max() <= 0.1
    assert_allclose(np.exp(mixer.A_log.data), np.ones((400, 1)) * [1, 2, 3, 4], 1e-12)


@every
def test_nobody_sees_the_future(name):
    core, rng = made(name), np.random.default_rng(4)
    x = rng.standard_normal((2, 12, 5))
    changed = x.copy()
    changed[:, 7:] = rng.standard_normal((2, 5, 5))
    for trace in None, []:
        before, after = (
            p.stack(core.unroll(given, core.initial_state(2), trace)[0], axis=1).data
            for given in (x, changed)
        )
        assert_allclose(before[:, :7], after[:, :7], 1e-12, 1e-13)
        assert (abs(before[:, 7:] - after[:, 7:]).max(axis=(0, 2)) > 1e-3).all()


@every
def test_gradients_are_the_complex_steps(name):
    """Of inputs, states and parameters, over more than one chunk, with ends."""
    core, rng = made(name), np.random.default_rng(5)
    start = core.unroll(rng.standard_normal((4, 6, 5)), core.initial_state(4))[1]
    # which steps there are is no number that anything depends on
    fixed = [leaf.ndim == 2 for leaf in leaves(start)]
    moving = [
        x.data for x, still in zip(leaves(start), fixed, strict=True) if not still
    ]

    for lengths, is_first in ENDS:

        def outputs(x, *arrays):
            given = iter(arrays)
            parts = (x.detach() if x.ndim == 2 else next(given) for x in leaves(start))
            state = refilled(start, parts)
            found, last = core.unroll(x, state, None, lengths, is_first)
            last = [leaf for leaf in leaves(last) if leaf.ndim > 2]
            return (p.stack(found), *last)

        x = rng.standard_normal((4, 15, 5))
        used = [q for n, q in core.named_parameters() if not n.startswith("first_")]
        if is_first is not None:  # a state begins again
            used = core.parameters()
        gradcheck(outputs, x, *moving, parameters=used, tolerance=1e-9)


def test_what_learns_to_write_can_replace_what_it_wrote():
    """The delta rule at beta = 1: the new value at a key, the old at one at a right
    angle; linear attention has the sum of both.
    """
    memory = DeltaNet(4, 4, conv=1, dtype=np.float64, seed=0).blocks[0]["mix"][0]
    memory.beta.bias.data = np.full(1, 40.0)
    memory.qkv.weight.data = np.zeros((4, 12))
    rng = np.random.default_rng(0)
    W_k, W_v = rng.standard_normal((2, 4, 4))
    memory.qkv.weight.data = np.concatenate([W_k, W_k, W_v], axis=1)
    memory.out.weight.data = np.eye(4)
    memory.beta.weight.data = np.zeros((4, 1))
    state = (np.zeros((1, 1, 4, 4)),)
    for x in rng.standard_normal((6, 1, 4)):
        answer, state = memory(x, state)
        assert_allclose(answer.data, x @ W_v, 1e-10)
