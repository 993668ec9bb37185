"""Independent oracles: the mathematics of the cores, written another way, and slowly.

The cores are written for one example at a time, on Python lists of row vectors, with an
attention loop over queries and heads; nothing is batched, fused or left out. They take
an array namespace `xp`, so that the same text is a plain number under numpy, a
derivative under `autograd.numpy` (HIPS autograd, which shares no code with us), and a
directional derivative when it is given complex numbers.
"""

import autograd
import autograd.numpy as hips
import numpy as np

# of the complex step: f'(x) v = Im f(x + i STEP v) / STEP, exact to rounding
STEP = 1e-30


def unrolled(core, inputs, state):
    """A core step by step, where it has a faster way: (outputs, the last state)."""
    outputs = []
    for x in inputs:
        output, state = core(x, state)
        outputs.append(output)
    return outputs, state


def logistic(xp, x):
    return 1 / (1 + xp.exp(-x))


def normalised(xp, row, gain, offset):
    """Layer normalisation of one row.

    The biased variance is the mean square minus the squared mean.
    """
    mean = xp.sum(row) / len(row)
    variance = xp.sum(row * row) / len(row) - mean * mean
    return gain * (row - mean) / (variance + 1e-5) ** 0.5 + offset


def attended(xp, qkv, num_heads, key_size):
    """Attend: each row of projections q|k|v hears all rows, head after head."""
    width = qkv[0].shape[0] // num_heads
    heard = []
    for asking in range(len(qkv)):
        heads = []
        for head in range(num_heads):
            start = head * width
            query = qkv[asking][start : start + key_size]
            of_keys = slice(start + key_size, start + 2 * key_size)
            of_values = slice(start + 2 * key_size, start + width)
            keys = xp.stack([row[of_keys] for row in qkv])
            values = xp.stack([row[of_values] for row in qkv])
            shares = xp.exp(xp.dot(keys, query) / key_size**0.5)
            heads.append(xp.dot(shares, values) / xp.sum(shares))
        heard.append(xp.concatenate(heads))
    return heard


def below(P, prefix):
    """The arrays whose names begin with the prefix, under the rest of their names."""
    return {
        name.removeprefix(prefix): value
        for name, value in P.items()
        if name.startswith(prefix)
    }


def linear(xp, P, name, row):
    return xp.dot(row, P[f"{name}.weight"]) + P[f"{name}.bias"]


def normed(xp, P, name, row):
    return normalised(xp, row, P[f"{name}.gain"], P[f"{name}.offset"])


def relational_memory_step(xp, P, setting, x, memory):
    """The released core on one example; returns the next memory.

    x: a list of input rows (input_size,).
    memory: a list of N slots (F,).
    P: arrays by parameter name.
    setting: num_heads, key_size, num_blocks, attention_mlp_layers, gate_style,
        activate_final, biases.
    """
    rows = [linear(xp, P, "input_projection", row) for row in x]
    z = list(memory) + rows
    for block in range(setting["num_blocks"]):
        own = below(P, f"blocks.{block}.")
        if setting.get("qkv_norm", True):
            rows_of = [linear(xp, own, "qkv", row) for row in z]
            qkv = [normed(xp, own, "qkv_norm", row) for row in rows_of]
        else:
            qkv = [xp.dot(row, own["qkv.weight"]) for row in z]
        heard = attended(xp, qkv, setting["num_heads"], setting["key_size"])
        z = [a + b for a, b in zip(z, heard, strict=True)]
        z = [normed(xp, own, "attention_norm", row) for row in z]
        z = [row + processed(xp, P, setting, row) for row in z]
        z = [normed(xp, own, "mlp_norm", row) for row in z]
    # The input rows asked and were refined like all others; only now do they go.
    candidate = z[: len(memory)]
    if setting["gate_style"] is None:
        return candidate
    side_by_side = xp.concatenate(rows)
    return [
        gated(xp, P, setting, side_by_side, old, new)
        for old, new in zip(memory, candidate, strict=True)
    ]


def processed(xp, P, setting, row):
    """The attention MLP on one row."""
    layers = setting["attention_mlp_layers"]
    for layer in range(layers):
        row = linear(xp, P, f"mlp.{layer}", row)
        if layer + 1 < layers or setting["activate_final"]:
            row = xp.where(xp.real(row) > 0, row, 0.0 * row)
    return row


def gated(xp, P, setting, inputs, old, new):
    """One slot's update.

    From all projected input rows side by side, the slot before, and its candidate.
    """
    pre = linear(xp, P, "gate_inputs", inputs)
    pre = pre + linear(xp, P, "gate_memory", xp.tanh(old))
    half = pre.shape[0] // 2
    write = logistic(xp, pre[:half] + setting["input_bias"])
    keep = logistic(xp, pre[half:] + setting["forget_bias"])
    return write * xp.tanh(new) + keep * old


def relational_memory(xp, P, setting, inputs, memory):
    """The memory after each step, (T, B, N, F).

    Inputs (T, B, input_size) or (T, B, n, input_size), first memory (B, N, F).
    """
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
    """An LSTM gate by gate: hidden (T, B, H) after each step, and the last cell.

    Inputs (T, B, D), first hidden and cell (B, H).
    """
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


def deep_lstm(xp, P, forget_bias, inputs, state):
    """Layer after layer, each over all time steps: (T, B, layers H).

    Inputs (T, B, D), a state of pairs (h, c).
    """
    outputs = []
    for layer, (hidden, cell) in enumerate(state):
        seen = xp.concatenate([inputs, *outputs[-1:]], axis=2)
        own = below(P, f"layers.{layer}.")
        output, _ = lstm(xp, own, forget_bias, seen, hidden, cell)
        outputs.append(output)
    return xp.concatenate(outputs, axis=2)


def softmax(xp, numbers):
    """Of a list of numbers, a list."""
    shares = [xp.exp(number) for number in numbers]
    total = sum(shares)
    return [share / total for share in shares]


def constant(value):
    """The number inside a box of HIPS autograd, which then is none of its variables."""
    return getattr(value, "_value", value)


def product(numbers):
    result = 1.0
    for number in numbers:
        result = result * number
    return result


def bounded(xp, row, bound):
    if bound is None:
        return row
    return xp.where(row > bound, bound, xp.where(row < -bound, -bound, row))


def dnc(xp, P, setting, inputs, state):
    """A Differentiable Neural Computer, one example at a time, word by word.

    Inputs (T, B, D) -> outputs (T, B, O).

    P: arrays by parameter name.
    setting: N, W, R, H, layers, controller, strength, clip.
    state: (memory, usage, links, precedence, write, read, words, controller), as the
        core has it.
    """
    examples = []
    for b in range(inputs.shape[1]):
        own = [part[b] for part in state[:7]]
        own[6] = xp.reshape(own[6], (setting["R"], setting["W"]))
        own.append([(h[b], c[b]) for h, c in state[7]])
        steps = []
        for t in range(inputs.shape[0]):
            output, own = dnc_step(xp, P, setting, inputs[t, b], own)
            steps.append(output)
        examples.append(xp.stack(steps))
    return xp.stack(examples, axis=1)


def dnc_step(xp, P, setting, x, state):
    """One example: input x (D,), state as in `dnc` without the batch.

    Returns the output and the next state.
    """
    memory, usage, links, precedence, write, read, words, controller = state
    seen = xp.concatenate([x, *words])
    hidden, controller = controlled(xp, P, setting, seen, controller)
    told = told_by(xp, P, setting, hidden)

    usage = usage_after(usage, write, read, told["free_gates"])
    write = write_weightings(xp, setting, told, memory, usage)
    memory = memory_after(memory, write, told["erase"], told["values"])
    pairs = list(zip(precedence, write, strict=True))
    links = [links_after(L, p, w) for L, (p, w) in zip(links, pairs, strict=True)]
    precedence = [[(1 - sum(w)) * p[n] + w[n] for n in range(len(w))] for p, w in pairs]
    read = read_weightings(xp, setting, told, memory, links, read)
    words = [
        sum(share * word for share, word in zip(weighting, memory, strict=True))
        for weighting in read
    ]

    output = linear(xp, P, "output", xp.concatenate([hidden, *words]))
    state = memory, usage, links, precedence, write, read, words, controller
    return bounded(xp, output, setting["clip"]), state


def memory_after(memory, write, erase, values):
    """Every word after all heads have erased from it, and then written to it."""
    after = []
    for n, word in enumerate(memory):
        kept = product(1 - w[n] * e for w, e in zip(write, erase, strict=True))
        written = sum(w[n] * value for w, value in zip(write, values, strict=True))
        after.append(word * kept + written)
    return after


def controlled(xp, P, setting, seen, state):
    """The controller's output for what it sees, and its next state.

    LSTM layers side by side, or ReLU layers without a state.
    """
    clip = setting["clip"]
    if setting["controller"] == "feedforward":
        for layer in range(setting["layers"]):
            seen = linear(xp, P, f"controller.{layer}", seen)
            seen = xp.where(seen > 0, seen, 0.0 * seen)
        return bounded(xp, seen, clip), []
    layers, after = [], []
    for layer, (h, c) in enumerate(state):
        below_and_before = xp.concatenate([seen, *layers[-1:], h])
        z = linear(xp, P, f"controller.layers.{layer}.gates", below_and_before)
        i, j, f, o = (z[k * len(h) : (k + 1) * len(h)] for k in range(4))
        c = logistic(xp, f + 1.0) * c + logistic(xp, i) * xp.tanh(j)
        h = logistic(xp, o) * xp.tanh(c)
        layers.append(h)
        after.append((bounded(xp, h, clip), bounded(xp, c, clip)))
    return bounded(xp, xp.concatenate(layers), clip), after


def told_by(xp, P, setting, hidden):
    """The interface: what the controller tells the heads, by name, one entry a head."""
    W, R, H = (setting[name] for name in "WRH")
    numbers = iter(linear(xp, P, "interface", hidden))

    def rows(count, width):
        return [xp.stack([next(numbers) for _ in range(width)]) for _ in range(count)]

    told = {
        "write_keys": rows(H, W),
        "write_strengths": [row[0] for row in rows(H, 1)],
        "erase": [logistic(xp, row) for row in rows(H, W)],
        "values": rows(H, W),
        "allocation_gates": [logistic(xp, row[0]) for row in rows(H, 1)],
        "write_gates": [logistic(xp, row[0]) for row in rows(H, 1)],
        "free_gates": [logistic(xp, row[0]) for row in rows(R, 1)],
        "read_keys": rows(R, W),
        "read_strengths": [row[0] for row in rows(R, 1)],
        "read_modes": [softmax(xp, list(row)) for row in rows(R, 1 + 2 * H)],
    }
    assert not list(numbers)
    return told


def content_weighting(xp, setting, memory, key, strength):
    """C(M, k, beta): the softmax over words of beta times the cosine with the key."""
    beta = xp.log(1 + xp.exp(strength)) + (setting["strength"] == "oneplus")
    scores = []
    for word in memory:
        lengths = (xp.dot(key, key) + 1e-6) ** 0.5 * (xp.dot(word, word) + 1e-6) ** 0.5
        scores.append(beta * xp.dot(key, word) / (lengths + 1e-6))
    return softmax(xp, scores)


def usage_after(usage, write, read, free_gates):
    """u = (u + w - u w) psi.

    In use is what was written a step ago, by any head, unless a head that read it has
    freed it.
    """
    after = []
    for n, u in enumerate(usage):
        written = 1 - product(1 - constant(w[n]) for w in write)
        by_head = zip(free_gates, read, strict=True)
        psi = product(1 - free * w[n] for free, w in by_head)
        after.append((u + written - u * written) * psi)
    return after


def allocation_weighting(usage):
    """a[n] = (1 - u[n]) times the usage of all words that are less in use.

    Of two in equal use the first is less.
    """
    u = [1e-6 + (1 - 1e-6) * number for number in usage]
    order = [(constant(number), n) for n, number in enumerate(u)]
    return [
        (1 - u[n]) * product(u[m] for m in range(len(u)) if order[m] < order[n])
        for n in range(len(u))
    ]


def write_weightings(xp, setting, told, memory, usage):
    """w = g_w (g_a a + (1 - g_a) c), head after head.

    What one head will write to by allocation is in use for the next.
    """
    weightings = []
    names = "write_keys", "write_strengths", "allocation_gates", "write_gates"
    heads = zip(*(told[name] for name in names), strict=True)
    for key, strength, g_a, g_w in heads:
        a = allocation_weighting(usage)
        c = content_weighting(xp, setting, memory, key, strength)
        weightings.append(
            [g_w * (g_a * a[n] + (1 - g_a) * c[n]) for n in range(len(a))]
        )
        usage = [u + (1 - u) * g_a * g_w * a[n] for n, u in enumerate(usage)]
    return weightings


def links_after(links, precedence, write):
    """L[i][j] = (1 - w[i] - w[j]) L[i][j] + w[i] p[j].

    How much word i was written right after word j; nothing links to itself.
    """

    def link(i, j):
        if i == j:
            return 0.0
        return (1 - write[i] - write[j]) * links[i][j] + write[i] * precedence[j]

    N = range(len(write))
    return [[link(i, j) for j in N] for i in N]


def read_weightings(xp, setting, told, memory, links, read):
    """Each head's mixture, by its read modes, of three kinds of ways.

    The ways back in time, L^T w, the ways forward, L w, and what its key finds.
    """
    N, weightings = range(len(memory)), []
    names = "read_keys", "read_strengths", "read_modes"
    heads = zip(*(told[name] for name in names), read, strict=True)
    for key, strength, modes, w in heads:
        back = [[sum(L[m][n] * w[m] for m in N) for n in N] for L in links]
        forward = [[sum(L[n][m] * w[m] for m in N) for n in N] for L in links]
        ways = [*back, *forward, content_weighting(xp, setting, memory, key, strength)]
        pairs = list(zip(modes, ways, strict=True))
        weightings.append([sum(mode * way[n] for mode, way in pairs) for n in N])
    return weightings


def entnet(xp, P, inputs, slots):
    """A Recurrent Entity Network, slot by slot.

    Inputs (T, B, D), slots (B, N, F) -> outputs (T, B, F).
    """

    def phi(x):
        return xp.where(x > 0, x, P["slope"] * x)

    examples = []
    for b in range(inputs.shape[1]):
        own, steps = [slots[b, j] for j in range(slots.shape[1])], []
        for t in range(inputs.shape[0]):
            s = linear(xp, P, "encoder", inputs[t, b])
            for j, key in enumerate(P["keys"]):
                gate = logistic(xp, xp.dot(s, own[j]) + xp.dot(s, key))
                candidate = xp.dot(own[j], P["U.weight"]) + xp.dot(key, P["V.weight"])
                candidate = candidate + xp.dot(s, P["W.weight"])
                h = own[j] + gate * phi(candidate)
                own[j] = h / xp.dot(h, h) ** 0.5
            answers = softmax(xp, [xp.dot(s, h) for h in own])
            u = sum(answer * h for answer, h in zip(answers, own, strict=True))
            steps.append(phi(s + xp.dot(u, P["H.weight"])))
        examples.append(xp.stack(steps))
    return xp.stack(examples, axis=1)


def entnet_bank(xp, P, forget_bias, inputs, state):
    """The cells one after the other, their outputs summed: (T, B, F).

    Each is an LSTM over all steps with its own bias.
    """
    (hidden, cell), total = state, 0.0
    weight = xp.concatenate([P["W"], P["U"]])
    for j in range(P["keys"].shape[0]):
        own = {"gates.weight": weight, "gates.bias": P["keys"][j]}
        outputs, _ = lstm(xp, own, forget_bias, inputs, hidden[:, j], cell[:, j])
        total = total + outputs
    return total


def hips_gradient(loss, arrays):
    """The gradients of loss(autograd.numpy, arrays) by name, by HIPS autograd."""
    return autograd.grad(lambda arrays: loss(hips, arrays))(arrays)


def slope(loss, arrays, directions):
    """The derivative of loss(numpy, arrays) along `directions`.

    By the complex step through the oracle itself.
    """
    moved = {name: a + 1j * STEP * directions[name] for name, a in arrays.items()}
    return loss(np, moved).imag / STEP
