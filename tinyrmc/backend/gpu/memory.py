"""All steps of a RelationalMemory on a GPU, forward and backward.

Written step by step, a time step costs some seventy operations, most of them small: the
host is then slower to ask than the GPU to answer. Here it is ten launches and products
forward, and ten backward. They compute the same. But the arrays of all steps lie one
after the other, and so

    a new memory is written where the next step needs it, in [M; x'];
    a weight's gradient is one product over all steps, added in place;
    what biases, gains and offsets get is added up once for all steps;
    what flows back into a memory in four ways is added up inside the gates' kernel.

Letters as in `cores/relational.py`: T steps, B examples, N slots, n rows of input, R =
N + n, F wide; G columns of gates, D of q|k|v.
"""

from __future__ import annotations

from types import SimpleNamespace

from .. import as_rows, gpu
from .products import products


def _parameters(weights) -> SimpleNamespace:
    """The parameters by name; the MLP's as pairs of weight and bias."""
    names = "qkv bias gain offset gain_a offset_a gain_m offset_m gate".split()
    named = dict(zip(names, weights, strict=False))
    mlp = list(zip(weights[9::2], weights[10::2], strict=True))
    return SimpleNamespace(**named, mlp=mlp)


def relational_memory(
    xp,
    memory,
    rows,
    from_input,
    *weights,
    num_heads,
    key_size,
    input_bias=0.0,
    forget_bias=1.0,
    activate_final=False,
):
    """All T steps of a RelationalMemory with gates and one block: T memories (B, N, F).

    memory (B, N, F), the first one; rows (T, B, n, F), the projected inputs; from_input
    (T, B, 1, G), their part of the gates, with all biases. weights: weight and bias of
    q|k|v, gain and offset of their norm, of the norm after attention, and of the one
    after the MLP; the memory's weight in the gates (F, G); weight and bias of each
    layer of the MLP. Long because it names the arrays of all steps.
    """
    from_input, *weights = (gpu._contiguous(xp, a) for a in (from_input, *weights))
    w = _parameters(weights)
    steps, batch, more, width = rows.shape
    slots = memory.shape[1]
    total = slots + more
    columns = w.qkv.shape[1]

    def empty(*shape):
        return xp.empty((steps, batch, *shape), rows.dtype)

    s = SimpleNamespace(
        from_input=from_input,
        key_size=key_size,
        biases=(float(input_bias), float(forget_bias)),
        activate_final=activate_final,
        joined=xp.empty((steps + 1, batch, total, width), rows.dtype),  # [M; x']
        squashed=xp.empty((steps + 1, batch, slots, width), rows.dtype),  # tanh(M)
        qkv=empty(total, columns),
        normed=empty(total, columns),
        shares=empty(num_heads, slots, total),  # the weights of attention
        attended=empty(slots, width),
        z=empty(slots, width),  # layer_norm(M + attention)
        hidden=[empty(slots, width) for _ in w.mlp],
        candidate=empty(slots, width),
        gates=empty(slots, w.gate.shape[1]),
        stats=[xp.empty((steps, 2, batch * k), rows.dtype) for k in (total, slots)],
        stats_m=xp.empty((steps, 2, batch * slots), rows.dtype),
    )
    s.joined[0, :, :slots] = memory
    s.joined[:-1, :, slots:] = rows
    xp.tanh(memory, out=s.squashed[0])
    for t in range(steps):
        _step(xp, products(xp), w, s, t)
    return tuple([z[:, :slots] for z in s.joined[1:]]), (w, s)


def _step(xp, multiply, w, s, t) -> None:
    """One time step."""
    of_qkv, of_attended = (stats[t] for stats in s.stats)
    multiply(s.joined[t], w.qkv, out=s.qkv[t])
    gpu.normalise(xp, s.qkv[t], w.bias, None, w.gain, w.offset, s.normed[t], of_qkv)
    gpu.attend(xp, s.normed[t], s.attended[t], s.shares[t], s.key_size)
    gpu.normalise(
        xp, s.attended[t], None, s.joined[t], w.gain_a, w.offset_a, s.z[t], of_attended
    )
    x = s.z[t]
    last = len(w.mlp) - 1
    for k, (weight, bias) in enumerate(w.mlp):
        multiply(x, weight, out=s.hidden[k][t])
        x = s.hidden[k][t]
        if k < last or s.activate_final:
            gpu.bias_relu(xp, x, bias, relu=True)
    bias = None if s.activate_final else w.mlp[-1][1]  # else added in the norm
    candidate = s.candidate[t]
    gpu.normalise(xp, x, bias, s.z[t], w.gain_m, w.offset_m, candidate, s.stats_m[t])
    multiply(s.squashed[t], w.gate, out=s.gates[t])
    arrays = s.from_input[t], s.gates[t], candidate, s.joined[t]
    gpu.update(xp, arrays, s.joined[t + 1], s.biases, squashed=s.squashed[t + 1])


def relational_memory_vjp(xp, needs, g, w, s):
    g = [gpu._contiguous(xp, one) for one in g]
    steps, batch, slots, width = s.candidate.shape
    total, columns = s.qkv.shape[2:]

    def partial(width, rows):
        blocks = gpu.norm_blocks(batch * rows, width)
        return xp.empty((steps, blocks, 2 * width), s.qkv.dtype)

    d = SimpleNamespace(  # gradients, of all steps where a parameter wants them
        joined=xp.empty_like(s.joined[:-1]),
        qkv=xp.empty_like(s.qkv),
        hidden=[xp.empty_like(h) for h in s.hidden],
        gates=xp.empty_like(s.gates),
        from_input=xp.empty_like(s.from_input),
        partial=[partial(columns, total), partial(width, slots), partial(width, slots)],
        normed=xp.empty_like(s.normed[0]),
        attended=xp.empty_like(s.attended[0]),
        z=xp.empty_like(s.z[0]),
        candidate=xp.empty_like(s.candidate[0]),
        memory=xp.empty_like(s.candidate[0]),
        squashed=xp.empty_like(s.squashed[0]),
    )
    for t in reversed(range(steps)):
        _step_backward(xp, products(xp), w, s, d, g[t], t)
    _add_inputs(xp, needs, s, d)
    _add_weights(xp, needs[3:], s, d)


def _step_backward(xp, multiply, w, s, d, g, t) -> None:
    """One time step back. g: its memory's gradient from outside, or None."""
    later = None
    if t + 1 < len(s.qkv):
        later = d.attended, d.joined[t + 1], d.squashed, s.squashed[t + 1]
    arrays = s.from_input[t], s.gates[t], s.candidate[t], s.joined[t]
    into = d.from_input[t], d.gates[t], d.candidate, d.memory
    gpu.update_backward(xp, g, later, arrays, s.biases, into)
    multiply(d.gates[t], w.gate.T, out=d.squashed)
    bias = None if s.activate_final else w.mlp[-1][1]
    gpu.normalise_backward(
        *(xp, d.candidate, s.hidden[-1][t], bias, s.z[t], w.gain_m, s.stats_m[t]),
        *(d.z, d.partial[2][t], d.hidden[-1][t], s.activate_final),
    )
    for k in reversed(range(1, len(w.mlp))):
        below = d.hidden[k - 1][t]
        multiply(d.hidden[k][t], w.mlp[k][0].T, out=below)
        gpu.relu_backward(xp, below, s.hidden[k - 1][t], out=below)
    multiply(d.hidden[0][t], w.mlp[0][0].T, out=d.z, add=True)
    gpu.normalise_backward(
        *(xp, d.z, s.attended[t], None, s.joined[t], w.gain_a, s.stats[1][t]),
        *(d.attended, d.partial[1][t]),
    )
    gpu.attend_backward(xp, d.attended, s.normed[t], s.shares[t], s.key_size, d.normed)
    gpu.normalise_backward(
        *(xp, d.normed, s.qkv[t], w.bias, None, w.gain, s.stats[0][t]),
        *(d.qkv[t], d.partial[0][t]),
    )
    multiply(d.qkv[t], w.qkv.T, out=d.joined[t])


def _add_inputs(xp, needs, s, d) -> None:
    """The gradients of the first memory, the rows and their part of the gates."""
    memory, rows, from_input, *_ = needs
    slots = s.candidate.shape[2]
    if memory is not None:
        memory += d.memory + d.attended + d.joined[0, :, :slots]
        memory += d.squashed * (1 - s.squashed[0] * s.squashed[0])
    if rows is not None:
        rows += d.joined[:, :, slots:]
    if from_input is not None:
        of_slots = d.gates.shape[-1] == 2
        from_input += d.gates.sum(axis=2, keepdims=True) if of_slots else d.from_input


def _add_weights(xp, needs, s, d) -> None:
    """The gradients of the parameters, each over all steps at once."""
    into, multiply = _parameters(needs), products(xp)
    pairs = [(into.qkv, s.joined[:-1], d.qkv), (into.gate, s.squashed[:-1], d.gates)]
    for below, (weight, _), of_hidden in zip(
        [s.z, *s.hidden], into.mlp, d.hidden, strict=False
    ):
        pairs.append((weight, below, of_hidden))
    for out, x, g in pairs:
        if out is not None:
            multiply(as_rows(x).T, as_rows(g), out=out, add=True)
    norms = [(into.gain, into.offset), (into.gain_a, into.offset_a)]
    norms.append((into.gain_m, into.offset_m))
    for outs, partial in zip(norms, d.partial, strict=True):
        _add_sums(xp, as_rows(partial), outs)
    biases = into.bias, *[bias for _, bias in into.mlp]
    for bias, of_rows in zip(biases, [d.qkv, *d.hidden], strict=True):
        _add_sums(xp, as_rows(of_rows), [bias])


def _add_sums(xp, matrix, outs) -> None:
    """`column_sums`, where some of the vectors may be None."""
    width = matrix.shape[1] // len(outs)
    if any(out is None for out in outs):
        unwanted = xp.zeros(width, matrix.dtype)
        outs = [unwanted if out is None else out for out in outs]
    gpu.column_sums(xp, matrix, *outs)


def fits(core, rows: int) -> bool:
    """Whether the kernels support this RelationalMemory, with so many rows of input."""
    columns = core.blocks[0]["qkv"].weight.shape[1]
    qkv = SimpleNamespace(shape=(1, core.mem_slots + rows, columns))
    sizes = core.num_heads, core.key_size, core.mem_slots
    narrow = max(columns, core.mem_size) <= gpu.WIDEST_NORM
    return narrow and gpu.attention_fits(qkv, None, *sizes)
