"""The LSTM: one step after its product, and a layer over all steps.

c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j)
h' = sigmoid(o) tanh(c')
"""

from ..autograd import primitives as p
from ..autograd.gradients import DeferredMatmul
from ..backend import as_rows, gemm, namespace
from ..backend.cpu import multiplier
from .table import fused, plus, sigmoid


@fused("... 4H", "... H")
def lstm_gates(xp, z, cell, *, forget_bias=1.0):
    """The LSTM's element-wise half.

    Pre-activations z (B, 4H) in the order i, j, f, o, and cell (B, H) -> hidden h' and
    cell c', each (B, H).
    """
    size = cell.shape[-1]
    i, j, f, o = (z[..., k * size : (k + 1) * size] for k in range(4))
    i = sigmoid(xp, i + 0)  # adding makes a copy, which `sigmoid` writes over
    j = xp.tanh(j)
    f = sigmoid(xp, f + forget_bias)
    o = sigmoid(xp, o + 0)
    new = f * cell + i * j
    squashed = xp.tanh(new)
    return (o * squashed, new), (i, j, f, o, cell, squashed)


@lstm_gates.vjp
def lstm_gates_vjp(xp, needs, g, i, j, f, o, cell, squashed):
    gh, gnew = g
    gnew = gnew + gh * o * (1 - squashed * squashed)
    gi = gnew * j * (i - i * i)
    gj = gnew * i * (1 - j * j)
    gf = gnew * cell * (f - f * f)
    go = gh * squashed * (o - o * o)
    gz = xp.concatenate([gi, gj, gf, go], axis=-1)
    return gz, gnew * f if needs[1] else None


@lstm_gates.defined_by
def lstm_gates_definition(z, cell, forget_bias=1.0):
    size = cell.shape[-1]
    i, j, f, o = (z[..., k * size : (k + 1) * size] for k in range(4))
    new = p.sigmoid(f + forget_bias) * cell + p.sigmoid(i) * p.tanh(j)
    return p.sigmoid(o) * p.tanh(new), new


@fused(
    *("T B in", "_ 4H", "4H", "B H", "B H", "B", "T B"),
    indices=(5, 6),
    hint="the weight has in + H rows",
)
def lstm(
    xp,
    inputs,
    weight,
    bias,
    hidden,
    cell,
    lengths=None,
    is_first=None,
    *,
    forget_bias=1.0,
):
    """An LSTM layer over all T steps: `lstm_gates` of [x, h] W + b, T times.

    inputs (T, B, in), weight (in + H, 4H), bias (4H,), first hidden and cell (B, H) ->
    the hidden states after each step (T, B, H), and the last hidden and cell (B, H).
    With `lengths`, integers (B,), the last ones of example b are those after its first
    lengths[b] steps. With `is_first`, bool (T, B), example b begins again with zeros
    before each step t where is_first[t, b] holds.

    The inputs' part of all pre-activations is one product, and so is the gradient of
    the weight. Only h W_h remains for each step. Long because it is one loop.
    """
    steps, batch, wide = inputs.shape
    size = cell.shape[-1]
    if len(weight) != wide + size:
        raise ValueError(f"a weight of {len(weight)} rows")
    # sigmoid(x) is (1 + tanh(x / 2)) / 2: with halves here, one tanh does all gates
    half = xp.full(4 * size, 0.5, bias.dtype)
    half[size : 2 * size] = 1
    scaled, shift = weight * half, bias * half
    shift[2 * size : 3 * size] += 0.5 * forget_bias
    z = plus(xp, gemm(inputs, scaled[:wide]), shift)  # (T, B, 4H)
    kind = xp.result_type(z, weight, hidden, cell)
    gates = xp.empty((steps, 4, batch, size), kind)
    hiddens = xp.empty((steps + 1, batch, size), kind)
    cells, squashed = xp.empty_like(hiddens), xp.empty((steps, batch, size), kind)
    hiddens[0], cells[0] = hidden, cell
    kept = None if is_first is None else xp.logical_not(is_first)[..., None]
    recurrent = scaled[wide:].astype(kind, copy=False)
    multiply = multiplier(recurrent, batch, steps)
    for t in range(steps):
        of_hidden = _by_gate(xp, multiply(_before(xp, hiddens, kept, t)))
        xp.add(_by_gate(xp, z[t]), of_hidden, out=gates[t])
        xp.tanh(gates[t], out=gates[t])
        i, j, f, o = gates[t]
        for gate in i, gates[t, 2:]:
            gate *= 0.5
            gate += 0.5
        new = xp.multiply(f, _before(xp, cells, kept, t), out=cells[t + 1])
        new += i * j
        xp.multiply(o, xp.tanh(new, out=squashed[t]), out=hiddens[t + 1])
    last = steps if lengths is None else xp.clip(lengths, 0, steps)
    ends = (last,) if lengths is None else (last, xp.arange(batch))
    saved = inputs, weight, gates, hiddens, cells, squashed, ends, kept
    return (hiddens[1:], hiddens[ends], cells[ends]), saved


def _by_gate(xp, z):
    """(B, 4H) as (4, B, H), a view."""
    return xp.swapaxes(z.reshape(len(z), 4, z.shape[1] // 4), 0, 1)


def _before(xp, states, kept, t):
    """The states (T + 1, B, H) as step t finds them: zeros where not `kept`.

    They are not multiplied, since 0 times NaN is NaN.
    """
    if kept is None:
        return states[t]
    return xp.where(kept[t], states[t], states.dtype.type(0))


@lstm.vjp
def lstm_vjp(xp, needs, g, inputs, weight, gates, hiddens, cells, squashed, ends, kept):
    """Long because it is one loop, from the last step to the first."""
    steps, batch, size = squashed.shape
    ghiddens, gcells = xp.zeros_like(hiddens), xp.zeros_like(cells)
    ghiddens[1:] = g[0]
    ghiddens[ends] += g[1]
    gcells[ends] += g[2]
    kind = gates.dtype
    gz = xp.empty((steps, batch, 4 * size), kind)
    of_gates, slopes = xp.empty_like(gates[0]), xp.empty_like(gates[0])
    recurrent = weight[-size:].T.astype(kind, copy=False)
    multiply = multiplier(recurrent, batch, steps)
    for t in reversed(range(steps)):
        gh = ghiddens[t + 1]
        gc = gcells[t + 1]
        i, j, f, o = gates[t]
        through = squashed[t] * squashed[t]
        xp.subtract(1, through, out=through)
        through *= o
        through *= gh
        gc += through
        xp.multiply(gc, j, out=of_gates[0])
        xp.multiply(gc, i, out=of_gates[1])
        xp.multiply(gc, _before(xp, cells, kept, t), out=of_gates[2])
        xp.multiply(gh, squashed[t], out=of_gates[3])
        xp.multiply(gates[t], gates[t], out=slopes)
        xp.subtract(gates[t], slopes, out=slopes)
        xp.subtract(1, j * j, out=slopes[1])
        xp.multiply(of_gates, slopes, out=_by_gate(xp, gz[t]))
        of_hidden = multiply(gz[t])
        gc *= f
        if kept is not None:
            of_hidden *= kept[t]
            gc *= kept[t]
        ghiddens[t] += of_hidden
        gcells[t] += gc
    rows = as_rows(gz)
    before = _before(xp, hiddens[:-1], kept, slice(None))
    seen = xp.concatenate([inputs, before], axis=-1)
    return (
        gemm(gz, weight[:-size].T) if needs[0] else None,
        DeferredMatmul(as_rows(seen), rows) if needs[1] else None,
        DeferredMatmul(None, rows) if needs[2] else None,
        ghiddens[0],
        gcells[0],
        None,
        None,
    )


@lstm.defined_by
def lstm_definition(
    inputs, weight, bias, hidden, cell, lengths=None, is_first=None, forget_bias=1.0
):
    hiddens, cells = [hidden], [cell]
    for t, x in enumerate(p.unstack(inputs)):
        if is_first is not None:
            new = is_first[t][:, None]
            hidden, cell = p.where(new, 0.0, hidden), p.where(new, 0.0, cell)
        z = p.matmul(p.concatenate([x, hidden], axis=1), weight) + bias
        hidden, cell = lstm_gates.reference(z, cell, forget_bias)
        hiddens.append(hidden)
        cells.append(cell)
    outputs = p.stack(hiddens[1:])
    if lengths is None:
        return outputs, hidden, cell
    xp = namespace(lengths)
    steps = len(cells) - 1
    here = xp.arange(steps + 1)[:, None] == xp.clip(lengths, 0, steps)  # (T + 1, B)

    def at_the_end(states):
        return p.sum(p.where(here[..., None], p.stack(states), 0.0), axis=0)

    return outputs, at_the_end(hiddens), at_the_end(cells)
