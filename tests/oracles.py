"""Independent oracles: the same mathematics as the product, written another way, and slowly.

The cores are written for one example at a time, on Python lists of row vectors, with an attention loop over queries and heads; nothing is
batched, fused or left out. They take an array namespace `xp`, so that the same text is a plain number under numpy, a derivative under
`autograd.numpy` (HIPS autograd, which shares no code with us), and a directional derivative when it is given complex numbers.
"""

import autograd
import autograd.numpy as hips
import numpy as np

STEP = 1e-30  # of the complex step: f'(x) v = Im f(x + i STEP v) / STEP, exact to rounding


def logistic(xp, x):
    return 1 / (1 + xp.exp(-x))


def normalised(xp, row, gain, offset):
    """Layer normalisation of one row, with the biased variance as mean square minus squared mean."""
    mean = xp.sum(row) / len(row)
    variance = xp.sum(row * row) / len(row) - mean * mean
    return gain * (row - mean) / (variance + 1e-5) ** 0.5 + offset


def attended(xp, qkv, num_heads, key_size):
    """For every row of projections q|k|v, head after head: what that row hears from all rows."""
    width = qkv[0].shape[0] // num_heads
    heard = []
    for asking in range(len(qkv)):
        heads = []
        for head in range(num_heads):
            start = head * width
            query = qkv[asking][start : start + key_size]
            keys = xp.stack([row[start + key_size : start + 2 * key_size] for row in qkv])
            values = xp.stack([row[start + 2 * key_size : start + width] for row in qkv])
            shares = xp.exp(xp.dot(keys, query) / key_size**0.5)
            heads.append(xp.dot(shares, values) / xp.sum(shares))
        heard.append(xp.concatenate(heads))
    return heard


def relational_memory_step(xp, P, setting, x, memory):
    """The released core on one example: x, a list of input rows (input_size,); memory, a list of N slots (F,). Returns the next memory.

    P: arrays by parameter name. setting: num_heads, key_size, num_blocks, attention_mlp_layers, gate_style, activate_final, biases.
    """
    slots = len(memory)
    rows = [xp.dot(row, P["input_projection.weight"]) + P["input_projection.bias"] for row in x]
    z = list(memory) + rows
    for block in range(setting["num_blocks"]):
        own = {name.split(".", 2)[2]: value for name, value in P.items() if name.startswith(f"blocks.{block}.")}
        qkv = [xp.dot(row, own["qkv.weight"]) + own["qkv.bias"] for row in z]
        qkv = [normalised(xp, row, own["qkv_norm.gain"], own["qkv_norm.offset"]) for row in qkv]
        heard = attended(xp, qkv, setting["num_heads"], setting["key_size"])
        z = [normalised(xp, a + b, own["attention_norm.gain"], own["attention_norm.offset"]) for a, b in zip(z, heard, strict=True)]
        z = [normalised(xp, processed(xp, P, setting, row) + row, own["mlp_norm.gain"], own["mlp_norm.offset"]) for row in z]
    candidate = z[:slots]  # the input rows asked and were refined like all others; only now are they dropped
    if setting["gate_style"] is None:
        return candidate
    return [gated(xp, P, setting, xp.concatenate(rows), old, new) for old, new in zip(memory, candidate, strict=True)]


def processed(xp, P, setting, row):
    """The attention MLP on one row."""
    layers = setting["attention_mlp_layers"]
    for layer in range(layers):
        row = xp.dot(row, P[f"mlp.{layer}.weight"]) + P[f"mlp.{layer}.bias"]
        if layer + 1 < layers or setting["activate_final"]:
            row = xp.where(xp.real(row) > 0, row, 0.0 * row)
    return row


def gated(xp, P, setting, inputs, old, new):
    """One slot's update from all projected input rows side by side, the slot before, and its candidate."""
    pre = xp.dot(inputs, P["gate_inputs.weight"]) + P["gate_inputs.bias"]
    pre = pre + xp.dot(xp.tanh(old), P["gate_memory.weight"]) + P["gate_memory.bias"]
    half = pre.shape[0] // 2
    write = logistic(xp, pre[:half] + setting["input_bias"])
    keep = logistic(xp, pre[half:] + setting["forget_bias"])
    return write * xp.tanh(new) + keep * old


def relational_memory(xp, P, setting, inputs, memory):
    """Unrolled: inputs (T, B, input_size) or (T, B, n, input_size), memory (B, N, F) -> the memory after each step, (T, B, N, F)."""
    examples = []
    for b in range(memory.shape[0]):
        slots, steps = [memory[b, n] for n in range(memory.shape[1])], []
        for t in range(inputs.shape[0]):
            x = inputs[t, b]
            rows = [x] if len(x.shape) == 1 else [x[r] for r in range(x.shape[0])]
            slots = relational_memory_step(xp, P, setting, rows, slots)
            steps.append(xp.stack(slots))
        examples.append(xp.stack(steps))
    return xp.stack(examples, axis=1)


def lstm(xp, P, forget_bias, inputs, hidden, cell):
    """An LSTM gate by gate: inputs (T, B, D), hidden and cell (B, H) -> hidden (T, B, H) after each step, and the last cell."""
    size = hidden.shape[-1]
    wide = inputs.shape[-1]
    W, b = P["gates.weight"], P["gates.bias"]

    def pre(k, x, h):
        columns = slice(k * size, (k + 1) * size)
        return xp.dot(x, W[:wide, columns]) + xp.dot(h, W[wide:, columns]) + b[columns]

    steps = []
    for t in range(inputs.shape[0]):
        i, j, f, o = (pre(k, inputs[t], hidden) for k in range(4))
        cell = logistic(xp, f + forget_bias) * cell + logistic(xp, i) * xp.tanh(j)
        hidden = logistic(xp, o) * xp.tanh(cell)
        steps.append(hidden)
    return xp.stack(steps), cell


def hips_gradient(loss, arrays):
    """The gradients of loss(autograd.numpy, arrays) by name, by HIPS autograd."""
    return autograd.grad(lambda arrays: loss(hips, arrays))(arrays)


def slope(loss, arrays, directions):
    """The derivative of loss(numpy, arrays) along `directions`, by the complex step through the oracle itself."""
    return loss(np, {name: value + 1j * STEP * directions[name] for name, value in arrays.items()}).imag / STEP
