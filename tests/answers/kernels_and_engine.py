"""Answers to the chapters on CUDA and on the engine, beyond the lists."""

import numpy as np

from tinyrmc import nn, primitives
from tinyrmc.autograd.engine import Parameter, Tape
from tinyrmc.course import held
from tinyrmc.course.exercises import capstone as ca
from tinyrmc.course.exercises import cuda as cu
from tinyrmc.course.exercises import engine_tour as et
from tinyrmc.course.exercises import going_fast as gf
from tinyrmc.course.simulator import launch


def place(cuda):
    return cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x


def element(
    cuda, y, x, bias, count, width, ends=True, column=lambda k, width: k % width
):
    if (k := place(cuda)) >= count and ends:
        return
    y[k] = max(x[k] + bias[column(k, width)], 0)


def all_by_one(cuda, y, x, bias, count, width):
    if place(cuda) == 0:
        for k in range(count):
            y[k] = max(x[k] + bias[k % width], 0)


def in_strides(cuda, y, x, bias, count, width):
    for k in range(place(cuda), count, cuda.gridDim.x * cuda.blockDim.x):
        y[k] = max(bias[k % width] + x[k], 0)


def read(cuda, y, x, stride):
    y[cuda.threadIdx.x] = x[cuda.threadIdx.x * stride]


def costs(stride, less=1, size=32):
    counts = launch(read, 1, size, np.zeros(size), np.zeros(size * stride), stride)
    return counts.transactions - less


def picture(panel, strides, cost=costs, draw="plot", names=("stride", "transactions")):
    getattr(panel, draw)(list(strides), [cost(each) for each in strides])
    panel.set(xlabel=names[0], ylabel=names[1])


def summed(cuda, y, x, count, edge=0.0, wait=True, most=1):
    here, at = cuda.threadIdx.x, place(cuda)
    held = cuda.shared.array(cuda.blockDim.x + 2)
    for cell in range(here, cuda.blockDim.x + 2, cuda.blockDim.x):
        k = at - here + cell - 1
        held[cell] = x[k] if 0 <= k < count else edge
    if wait:
        yield cuda.syncthreads()
    if at < count:
        total = 0.0
        for cell in range(here + 1 - most, here + 2 + most):
            total += held[cell]
        y[at] = total


def summed_without_a_guard(cuda, y, x, count):
    held = cuda.shared.array(cuda.blockDim.x + 2)
    held[cuda.threadIdx.x + 1] = x[place(cuda)]
    yield cuda.syncthreads()
    y[place(cuda)] = held[cuda.threadIdx.x + 1]


def from_global(cuda, y, x, count):
    if (at := place(cuda)) < count:
        y[at] = sum(x[k] for k in range(at - 1, at + 2) if 0 <= k < count)


def halved(cuda, held, value, combine, waits="abc", back=0):
    here, half = cuda.threadIdx.x, cuda.blockDim.x
    held[here] = value
    if "a" in waits:
        yield cuda.syncthreads()
    while half > 1:
        half //= 2
        if here < half:
            held[here] = combine(held[here + half], held[here])
        if "b" in waits:
            yield cuda.syncthreads()
    whole = held[back]
    if "c" in waits:
        yield cuda.syncthreads()
    return whole


def neighbours_first(cuda, held, value, combine):
    here, step = cuda.threadIdx.x, 1
    held[here] = value
    yield cuda.syncthreads()
    while step < cuda.blockDim.x:
        if here % (2 * step) == 0:
            held[here] = combine(held[here], held[here + step])
        yield cuda.syncthreads()
        step = 2 * step
    whole = held[0]
    yield cuda.syncthreads()
    return whole


def lost(cuda, held, value, combine):
    if cuda.threadIdx.x == 0:
        held[0] = 0.0
    yield cuda.syncthreads()
    held[0] = combine(held[0], value)
    yield cuda.syncthreads()
    return held[0]


def norm(cuda, y, x, gain, offset, width, epsilon, ddof=0, power=-0.5, columns=None):
    row, here = cuda.blockIdx.x, cuda.threadIdx.x
    held = cuda.shared.array(cuda.blockDim.x)
    mine = range(here, width, cuda.blockDim.x)
    total = yield from halved(cuda, held, sum(x[row, k] for k in mine), cu.add)
    mean = total / (columns or width)
    squares = sum((x[row, k] - mean) ** 2 for k in mine)
    squares = yield from halved(cuda, held, squares, cu.add)
    scale = (squares / max(width - ddof, 1) + epsilon) ** power
    for k in mine:
        y[row, k] = gain[k] * ((x[row, k] - mean) * scale) + offset[k]


def norm_from_the_first(cuda, y, x, gain, offset, width, epsilon):
    """Of what each number is more than its row's first, as the library's kernel does."""

    class Shifted:
        def __getitem__(self, at):
            return x[at] - first

    first = x[cuda.blockIdx.x, 0]
    yield from norm(cuda, y, Shifted(), gain, offset, width, epsilon)


def norm_by_one(cuda, y, x, gain, offset, width, epsilon):
    row = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        numbers = np.array([x[row, k] for k in range(width)])
        d = numbers - numbers.mean()
        for k in range(width):
            scale = 1 / np.sqrt(np.mean(d * d) + epsilon)
            y[row, k] = d[k] * scale * gain[k] + offset[k]


def norm_of_a_part(cuda, y, x, gain, offset, width, epsilon):
    """Right where a row has as many columns as a block has threads, or fewer."""
    row, here = cuda.blockIdx.x, cuda.threadIdx.x
    held = cuda.shared.array(cuda.blockDim.x)
    value = x[row, here] if here < width else 0.0
    mean = (yield from halved(cuda, held, value, cu.add)) / width
    square = (value - mean) ** 2 if here < width else 0.0
    scale = ((yield from halved(cuda, held, square, cu.add)) / width + epsilon) ** -0.5
    if here < width:
        y[row, here] = (value - mean) * scale * gain[here] + offset[here]


def tiled(cuda, out, a, b, rows, inner, columns, waits=2, tiles=None, turned=False):
    edge, x, y = cuda.blockDim.x, cuda.threadIdx.x, cuda.threadIdx.y
    row, column = cuda.blockIdx.y * edge + y, cuda.blockIdx.x * edge + x
    both = cuda.shared.array((2, edge, edge))
    total = 0.0
    for tile in range(-(-inner // edge) if tiles is None else tiles):
        k, m = tile * edge + x, tile * edge + y
        both[0, y, x] = a[row, k] if row < rows and k < inner else 0.0
        both[1, y, x] = b[m, column] if m < inner and column < columns else 0.0
        yield cuda.syncthreads()
        for k in range(edge):
            total += both[0, y, k] * (both[1, x, k] if turned else both[1, k, x])
        if waits > 1:
            yield cuda.syncthreads()
    if row < rows and column < columns:
        out[row, column] = total


def untiled(cuda, out, a, b, rows, inner, columns):
    row = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.y
    column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < rows and column < columns:
        out[row, column] = sum(a[row, k] * b[k, column] for k in range(inner))


def back(operations, watched, loss, some=any, needed=True, order=-1, once=True):
    tracked = {*watched}
    for output, inputs in operations:
        if some(each in tracked for each in inputs):
            tracked.add(output)
    wanted, found = {loss} & tracked, []
    for output, inputs in operations[::order]:
        if output in (wanted if needed else tracked):
            found += [output] * (1 if once else len(inputs))
            wanted |= {*inputs} & tracked
    return found


CHAINS = {
    "add 1": lambda y: y + 1.0,
    "tanh": primitives.tanh,
    "sin": primitives.sin,
}


def kept(panel, lengths, chains=CHAINS, count=None, legend=True, first=0):
    count = count or (lambda tape, x: held(tape) / x.data.nbytes)
    for name, operation in chains.items():
        heights = []
        for length in lengths:
            y = x = Parameter(np.zeros(10))
            with Tape() as tape:
                for _ in range(length + first):
                    y = operation(y)
            heights.append(count(tape, x))
        panel.plot(lengths, heights, "o", label=name if legend else None)
    panel.set_xlabel("operations")
    panel.set_ylabel("arrays")


def pair(value, back):
    return type("Pair", (), {"forward": staticmethod(value), "vjp": staticmethod(back)})


def sigmoid(xp, b):
    return 1 / (1 + xp.exp(-xp.clip(b, -500, 500)))


def gate_of(xp, needs, g, a, s, asked=True, both=lambda a, s: (s, a * s * (1 - s))):
    return tuple(
        g * each if need is not None or not asked else None
        for need, each in zip(needs, both(a, s))
    )


def value(xp, a, b, keep=lambda a, b, s: (a, s)):
    s = sigmoid(xp, b)
    return a * s, keep(a, b, s)


def parameters(module, kinds=(nn.Module, dict, list, tuple), tied=True, base=Parameter):
    found = []

    def look(x, way):
        if isinstance(x, base) and not (tied and any(x is y for _, y in found)):
            found.append((".".join(way), x))
        elif isinstance(x, kinds):
            parts = x if isinstance(x, dict) else None
            parts = vars(x) if isinstance(x, nn.Module) else parts
            parts = dict(enumerate(x)) if parts is None else parts
            for key in parts:
                look(parts[key], [*way, str(key)])

    look(module, [])
    return found


def cloud(panel, runs, baseline, those=lambda x: x, names=True, line=True, label=True):
    for k, (name, numbers) in enumerate(runs.items()):
        heights = those(np.asarray(numbers))
        panel.scatter(np.full(heights.shape, k), heights, label=name if label else None)
    if line:
        panel.hlines(baseline, 0, 1) if line == "short" else panel.axhline(baseline)
    if names:
        panel.set_xlabel("network")
        panel.set_ylabel("right answers")


def loaded(panel, room, passes, share=1 / 256, pieces=range(9), named=True):
    """By thought: where a piece fits, and where it does not."""
    sizes = [2**k for k in pieces]
    heights = [256 * share * (1 if size <= room else passes) for size in sizes]
    panel.bar(sizes, heights, width=0.5)
    panel.set(xlabel="blocks", ylabel="loads" if named else "")


WRONG = {
    gf.cost_of_pieces: [
        lambda *c: loaded(*c, share=1),
        lambda p, room, passes: loaded(p, room, 1),
        lambda p, room, passes: loaded(p, room - 1, passes),
        lambda p, room, passes: loaded(p, 32, passes),
        lambda *c: loaded(*c, pieces=range(8)),
        lambda *c: loaded(*c, named=False),
    ],
    ca.picture: [
        lambda *c: cloud(*c, those=lambda x: x.mean(keepdims=True)),
        lambda *c: cloud(*c, those=lambda x: x[:1]),
        lambda *c: cloud(*c, those=np.sort, names=False),
        lambda *c: cloud(*c, line=False),
        lambda *c: cloud(*c, label=False),
        lambda *c: cloud(*c, those=lambda x: 100 * x),
        lambda p, runs, baseline: cloud(p, runs, 0.5),
    ],
    cu.bias_relu: [
        all_by_one,
        lambda *c: element(*c, ends=False),
        lambda *c: element(*c, column=lambda k, width: k // width % width),
        lambda *c: element(*c, column=lambda k, width: 0),
        lambda cuda, y, x, *rest: y.__setitem__(0, 1.0),
    ],
    cu.cost_of_strides: [
        lambda p, s: picture(p, s, cost=lambda k: costs(k, less=0)),
        lambda p, s: picture(p, s, cost=lambda k: k),
        lambda p, s: picture(p, s, cost=lambda k: costs(k, size=64)),
        lambda p, s: picture(p, s, names=("stride", "")),
        lambda p, s: picture(p, s, names=(" ", "transactions")),
        lambda p, s: picture(p, range(1, 49)),
        lambda p, s: p.set(xlabel="stride", ylabel="transactions"),
    ],
    cu.neighbours: [
        from_global,
        summed_without_a_guard,
        lambda *c: summed(*c, wait=False),
        lambda *c: summed(*c, edge=1.0),
        lambda *c: summed(*c, most=0),
    ],
    cu.block_reduce: [
        lost,
        *(lambda *c, w=w: halved(*c, waits=w) for w in ("ab", "bc", "ac", "")),
        lambda *c: halved(*c, back=-1),
        lambda cuda, held, value, combine: halved(cuda, held, value, max),
    ],
    cu.layer_norm: [
        norm_by_one,
        norm_of_a_part,
        lambda *c: norm(*c, ddof=1),
        lambda *c: norm(*c, power=-1),
        lambda *c: norm(*c, columns=8),
        lambda *c: norm(*c[:-1], 0.0),
    ],
    cu.product: [
        untiled,
        lambda *c: tiled(*c, waits=1),
        lambda *c: tiled(*c, tiles=1),
        lambda *c: tiled(*c, turned=True),
    ],
    et.way_back: [
        lambda *c: back(*c, some=all),
        et.by_search,
        lambda *c: back(*c, needed=False),
        lambda *c: back(*c, order=1),
        lambda operations, watched, loss: [name for name, _ in operations[::-1]],
        lambda *c: back(*c, order=1, once=False),
        lambda *c: back(*c, once=False),
    ],
    et.kept_by_chains: [
        lambda *c: kept(*c, count=lambda tape, x: held(tape)),
        lambda *c: kept(*c, count=lambda tape, x: len(tape.entries)),
        lambda *c: kept(*c, first=1),
        lambda *c: kept(*c, legend=False),
        lambda *c: kept(*c, chains={"tanh": primitives.tanh}),
        lambda *c: kept(*c, chains=CHAINS | {"sin": primitives.tanh}),
    ],
    et.Gated: [
        pair(value, lambda *c: gate_of(*c, asked=False)),
        pair(value, lambda *c: gate_of(*c, both=lambda a, s: (s, a * (1 - s)))),
        pair(value, lambda *c: gate_of(*c, both=lambda a, s: (s, a))),
        pair(value, lambda *c: gate_of(*c)[::-1]),
        pair(lambda xp, a, b: (a / (1 + xp.exp(-b)), (b, a)), gate_of),
        pair(
            lambda xp, a, b: value(xp, a, b, keep=lambda *all: all),
            lambda xp, needs, g, a, b, s: gate_of(xp, needs, g, a, s),
        ),
        pair(lambda xp, a, b: a * sigmoid(xp, b), gate_of),
    ],
    et.named_parameters: [
        lambda m: parameters(m, tied=False),
        *(
            lambda m, k=k: parameters(m, kinds=k)
            for k in (nn.Module, (nn.Module, list))
        ),
        lambda m: [x for _, x in parameters(m)],
        lambda m: [*m.named_parameters()],
        lambda m: sorted(parameters(m), key=lambda pair: pair[0]),
        lambda m: [("." + name, x) for name, x in parameters(m)],
    ],
}

RIGHT = {
    gf.cost_of_pieces: [loaded],
    ca.picture: [cloud, lambda *c: cloud(*c, those=np.sort)],
    cu.bias_relu: [element, in_strides],
    cu.cost_of_strides: [
        picture,
        *(lambda p, s, d=d: picture(p, s, draw=d) for d in ("bar", "scatter", "step")),
        lambda p, s: (picture(p, s), p.axhline(32, color="0.8")),
        lambda p, s: picture(p, [*s][::-1]),
    ],
    cu.neighbours: [summed],
    cu.block_reduce: [halved, neighbours_first],
    cu.layer_norm: [norm, norm_from_the_first],
    cu.product: [tiled],
    et.way_back: [back, lambda *c: tuple(back(*c))],
    et.kept_by_chains: [kept],
    et.Gated: [
        pair(value, gate_of),
        pair(
            lambda xp, a, b: value(xp, a, b, keep=lambda a, b, s: (a * s, s)),
            lambda xp, needs, g, y, s: (
                g * s if needs[0] else None,
                g * y * (1 - s) if needs[1] else None,
            ),
        ),
    ],
    et.named_parameters: [parameters, lambda m: tuple(parameters(m))],
}
