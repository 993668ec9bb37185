"""The same network in four libraries, one of them used in three ways: the step of "nth
farthest", from the same weights on the same batch.

The network is a core and a head of four ReLU layers. The core is the released
Relational Memory Core with one block and unit gates, or a Differentiable Neural
Computer with one write head. The optimizer is Adam at a constant rate, unclipped.

`loss_of` defines it once, in the vocabulary of a `Library`, and each library answers
with what its users would write: with its own fused operations where they are faster.
Every library gets the savings that ours has: what needs no memory is computed for all
time steps at once, and the input row asks nothing, since its result would never be
used. Attention is two products and a softmax in all of them: on nine keys, when tried
once, neither PyTorch's fused attention (scaled_dot_product_attention) nor JAX's
(jax.nn.dot_product_attention) made a step faster.

A peer is `make(weights, inputs, targets, sizes) -> (step, moments)`. `step()` trains
once and returns the loss before the update, a scalar of the library's own; on a CPU all
work is done by then. `moments()` gives Adam's first moment by name: after the first
step that is (1 - BETA1) times the gradient.
"""

from __future__ import annotations

import functools
import math
import tempfile

import numpy as np

from tinyrmc.training.machine import usable_cores
from tinyrmc.training.pieces import micro_batches
from tinyrmc.training.workers import CAN_FORK, Workers

RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
TORCH_PROCESSES = "PyTorch eager, processes"
# the most examples that one of these processes takes at a time: in `large`, larger
# pieces gain nothing, and pieces of 64 take longer
TORCH_PIECE = 256


# --- The network ----------------------------------------------------------------------


def loss_of(lib, w, inputs, targets, sizes):
    """The mean cross-entropy in nats. w: parameters by name; inputs (B, T, D), targets
    (B,); sizes: the core and its own, as below.
    """
    core, *sizes = sizes
    x = {"rmc": relational_memory, "dnc": dnc}[core](lib, w, inputs, *sizes)
    for layer in range(4):
        x = lib.relu(_dense(lib, w, x, f"head.{layer}"))
    return lib.cross_entropy(_dense(lib, w, x, "head.4"), targets)


def _dense(lib, w, x, name):
    return lib.dense(x, w[f"{name}.weight"], w[f"{name}.bias"])


def relational_memory(lib, w, inputs, slots, heads, size):
    """The last memory, (B, N F): N slots of H heads, their width V = K."""
    width, batch = heads * size, len(inputs)
    first = lib.start(batch, slots, width)
    *_, last = memories(lib, w, inputs, first, heads, size)
    return last.reshape(batch, slots * width)


def memories(lib, w, inputs, memory, heads, size, final=False, fresh=None):
    """The memory (B, N, F) after each time step, from a first one.

    final: a ReLU also after the MLP's last layer. fresh: bool (B, T), the steps before
    which the memory is the identity again.
    """
    batch, slots, width = memory.shape
    begin = None if fresh is None else lib.start(batch, slots, width)

    def dense(x, name):
        return _dense(lib, w, x, f"core.{name}")

    def norm(x, name):
        gain, offset = (
            w[f"core.blocks.0.{name}.{each}"] for each in ("gain", "offset")
        )
        return lib.layer_norm(x, gain, offset)

    def attend(memory, row):  # (B, N, F), (B, F) -> (B, N, F)
        asked = lib.concatenate([memory, row[:, None]], 1)
        qkv = norm(dense(asked, "blocks.0.qkv"), "qkv_norm")  # (B, N + 1, H 3V)
        qkv = qkv.reshape(batch, slots + 1, heads, 3 * size)
        qkv = lib.swapaxes(qkv, 1, 2)  # (B, H, N + 1, 3V)
        q, k = qkv[:, :, :slots, :size], qkv[..., size : 2 * size]
        heard = lib.attention(q, k, qkv[..., 2 * size :])  # (B, H, N, V)
        return lib.swapaxes(heard, 1, 2).reshape(batch, slots, width)

    rows = dense(inputs, "input_projection")  # (B, T, F)
    from_inputs = dense(rows, "gate_inputs") + w["core.gate_memory.bias"]  # (B, T, G)
    gates_each = from_inputs.shape[-1] // 2  # F with unit gates, else 1
    steps = zip(lib.unstack(rows), lib.unstack(from_inputs), strict=True)
    for t, (row, from_input) in enumerate(steps):
        if fresh is not None:
            memory = lib.where(fresh[:, t, None, None], begin, memory)
        z = norm(memory + attend(memory, row), "attention_norm")
        refined = dense(lib.relu(dense(z, "mlp.0")), "mlp.1")
        candidate = norm(z + (lib.relu(refined) if final else refined), "mlp_norm")
        from_memory = lib.dense(lib.tanh(memory), w["core.gate_memory.weight"])
        gates = from_input[:, None] + from_memory  # (B, N, G)
        write = lib.sigmoid(gates[..., :gates_each])
        keep = lib.sigmoid(gates[..., gates_each:] + 1.0)
        memory = write * lib.tanh(candidate) + keep * memory
        yield memory


def dnc(lib, w, inputs, words, heads, size):
    """The last output, (B, O), from an empty memory: N words of W numbers, R read
    heads, one write head, one LSTM layer as controller.
    """
    batch = len(inputs)
    hidden = w["core.controller.layers.0.gates.bias"].shape[0] // 4
    zeros = functools.partial(lib.zeros, batch)
    memory, links = zeros(words, size), zeros(words, words)
    usage, precedence, write = zeros(words), zeros(words), zeros(words)
    read, heard = zeros(heads, words), zeros(heads * size)
    h, c = zeros(hidden), zeros(hidden)
    off_diagonal = 1 - lib.start(batch, words, words)
    interface = [size, 1, size, size, 1, 1, heads, heads * size, heads, 3 * heads]
    for x in lib.unstack(inputs):
        h, c = _controller(lib, w, lib.concatenate([x, heard, h], 1), c)
        asked = _cut(_dense(lib, w, h, "core.interface"), interface)
        key, strength, erase, value, allocate, write_gate, free, *reading = asked

        kept = lib.product(1 - lib.sigmoid(free)[..., None] * read)  # (B, N)
        usage = (usage + (1 - usage) * lib.detach(write)) * kept
        found = _content(lib, memory, key[:, None], lib.softplus(strength))[:, 0]
        allocate = lib.sigmoid(allocate)  # (B, 1)
        write = allocate * _allocation(lib, usage) + (1 - allocate) * found
        write = lib.sigmoid(write_gate) * write  # (B, N)
        at = write[..., None]
        erased = memory * (1 - at * lib.sigmoid(erase)[:, None])
        memory = erased + at * value[:, None]  # (B, N, W)

        links = (1 - at - write[:, None]) * links + at * precedence[:, None]
        links = links * off_diagonal  # (B, N, N)
        precedence = (1 - lib.sum(write, -1)[:, None]) * precedence + write
        read = _read(lib, memory, links, read, *reading)  # (B, R, N)
        heard = (read @ memory).reshape(batch, heads * size)
    output = _dense(lib, w, lib.concatenate([h, heard], 1), "core.output")
    return lib.clip(output, -20, 20)


def _cut(x, widths):
    """Columns of x, (B, sum of widths), one piece after the other."""
    ends = np.cumsum(widths).tolist()
    return [x[:, end - width : end] for width, end in zip(widths, ends, strict=True)]


def _controller(lib, w, inputs, c):
    """One step of the LSTM: the clipped (h, c), (B, hidden) each."""
    gates = _dense(lib, w, inputs, "core.controller.layers.0.gates")
    i, j, f, o = _cut(gates, [c.shape[1]] * 4)
    c = lib.sigmoid(f + 1.0) * c + lib.sigmoid(i) * lib.tanh(j)
    h = lib.clip(lib.sigmoid(o) * lib.tanh(c), -20, 20)
    return h, lib.clip(c, -20, 20)


def _content(lib, memory, keys, strengths):
    """Where keys (B, R, W) are found in the memory, by cosine: (B, R, N)."""
    key_norms = lib.sqrt(lib.sum(keys * keys, -1) + 1e-6)[..., None]
    word_norms = lib.sqrt(lib.sum(memory * memory, -1) + 1e-6)[:, None]
    cosine = keys @ lib.swapaxes(memory, 1, 2) / (key_norms * word_norms + 1e-6)
    return lib.softmax(strengths[..., None] * cosine)


def _allocation(lib, usage):
    """Where the least used words are: (B, N)."""
    used = 1e-6 + (1 - 1e-6) * usage
    order = lib.argsort(used)
    ascending = lib.take(used, order)
    ones = lib.ones(len(used), 1)
    before = lib.cumprod(lib.concatenate([ones, ascending[:, :-1]], 1))
    return lib.take((1 - ascending) * before, lib.argsort(order))


def _read(lib, memory, links, read, keys, strengths, modes):
    """Where the heads read: backwards, forwards along the links, or by content."""
    batch, heads, _ = read.shape
    keys = keys.reshape(batch, heads, memory.shape[2])
    found = _content(lib, memory, keys, lib.softplus(strengths))
    modes = lib.softmax(modes.reshape(batch, heads, 3))[..., None]
    backward = modes[:, :, 0] * (read @ links)
    forward = modes[:, :, 1] * (read @ lib.swapaxes(links, 1, 2))
    return backward + forward + modes[:, :, 2] * found


class Library:
    """Parts for `loss_of`, composed from a module `xp` with NumPy's names."""

    def __init__(self, xp):
        self.xp = xp
        self.tanh, self.sqrt, self.sum, self.clip = xp.tanh, xp.sqrt, xp.sum, xp.clip
        self.concatenate, self.swapaxes = xp.concatenate, xp.swapaxes
        self.where = xp.where

    def start(self, batch, slots, width):
        eye = np.eye(slots, width, dtype=np.float32)
        return np.broadcast_to(eye, (batch, slots, width))

    def zeros(self, *shape):
        return np.zeros(shape, np.float32)

    def ones(self, *shape):
        return np.ones(shape, np.float32)

    def detach(self, x):
        return x

    def product(self, x):  # (B, K, N) -> (B, N)
        return self.xp.prod(x, axis=1)

    def argsort(self, x):  # of rows (B, N)
        return self.xp.argsort(x, axis=1, stable=True)

    def take(self, x, indices):  # from rows (B, N)
        return self.xp.take_along_axis(x, indices, 1)

    def cumprod(self, x):  # of rows (B, N)
        return self.xp.cumprod(x, axis=1)

    def softplus(self, x):
        return self.xp.logaddexp(x, 0 * x)

    def unstack(self, x):
        return [x[:, t] for t in range(x.shape[1])]

    def dense(self, x, weight, bias=None):
        # one large product: NumPy's matmul would run one for each example
        y = x.reshape(-1, x.shape[-1]) @ weight
        y = y if bias is None else y + bias
        return y.reshape(*x.shape[:-1], weight.shape[1])

    def layer_norm(self, x, gain, offset):
        d = x - self.xp.mean(x, axis=-1, keepdims=True)
        variance = self.xp.mean(d * d, axis=-1, keepdims=True)
        return d / self.xp.sqrt(variance + 1e-5) * gain + offset

    def attention(self, q, k, v):
        return self.softmax(q @ self.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])) @ v

    def softmax(self, x):
        e = self.xp.exp(x - self.xp.max(x, axis=-1, keepdims=True))
        return e / self.xp.sum(e, axis=-1, keepdims=True)

    def relu(self, x):
        return self.xp.maximum(x, 0)

    def sigmoid(self, x):
        return 0.5 * self.tanh(0.5 * x) + 0.5

    def cross_entropy(self, logits, targets):
        hot = (targets[:, None] == np.arange(logits.shape[-1])).astype(np.float32)
        shifted = logits - self.xp.max(logits, axis=-1, keepdims=True)
        normaliser = self.xp.log(self.xp.sum(self.xp.exp(shifted), axis=-1))
        return self.xp.mean(normaliser - self.xp.sum(shifted * hot, axis=-1))


# --- PyTorch --------------------------------------------------------------------------


def torch_library(device):
    """Long because the class is defined where PyTorch is imported: here."""
    import torch
    import torch.nn.functional as F

    class Torch(Library):
        relu = staticmethod(F.relu)
        sigmoid = staticmethod(torch.sigmoid)
        softplus = staticmethod(F.softplus)
        detach = staticmethod(torch.Tensor.detach)
        cross_entropy = staticmethod(F.cross_entropy)

        def start(self, batch, slots, width):
            return torch.eye(slots, width, device=device).expand(batch, slots, width)

        def zeros(self, *shape):
            return torch.zeros(shape, device=device)

        def ones(self, *shape):
            return torch.ones(shape, device=device)

        def product(self, x):
            return torch.prod(x, 1)

        def argsort(self, x):
            return torch.argsort(x, dim=1, stable=True)

        def take(self, x, indices):
            return torch.gather(x, 1, indices)

        def cumprod(self, x):
            return torch.cumprod(x, 1)

        def unstack(self, x):
            return x.unbind(1)

        def dense(self, x, weight, bias=None):
            return F.linear(x, weight.T, bias)

        def layer_norm(self, x, gain, offset):
            return F.layer_norm(x, gain.shape, gain, offset, 1e-5)

        def softmax(self, x):
            return F.softmax(x, -1)

    return Torch(torch)


def _torch_parts(weights, sizes, device="cpu", capturable=False):
    """(w, forward, optimizer, moments): the tensors by name, the mean loss forward(w,
    x, y), fused Adam (`capturable`: in a CUDA graph), and a peer's `moments`.
    """
    import torch

    lib = torch_library(device)
    w = {
        name: torch.tensor(value, device=device, requires_grad=True)
        for name, value in weights.items()
    }
    betas = (BETA1, BETA2)
    more = {"fused": True, "capturable": capturable}
    optimizer = torch.optim.Adam(w.values(), lr=RATE, betas=betas, eps=EPSILON, **more)

    def forward(w, x, y):
        return loss_of(lib, w, x, y, sizes)

    def moments():
        first = {name: optimizer.state[each]["exp_avg"] for name, each in w.items()}
        return {name: moment.cpu().numpy() for name, moment in first.items()}

    return w, forward, optimizer, moments


def torch_eager(weights, inputs, targets, sizes, compiled=False, device="cpu"):
    """PyTorch, the whole batch at once."""
    import torch

    w, forward, optimizer, moments = _torch_parts(weights, sizes, device)
    x, y = torch.tensor(inputs, device=device), torch.tensor(targets, device=device)
    if compiled:
        for parameter in w.values():  # else CUDA graphs copy the weights in each step
            torch._dynamo.mark_static_address(parameter)
        forward = torch.compile(forward)

    def step():
        optimizer.zero_grad()
        loss = forward(w, x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, moments


def torch_compiled(weights, inputs, targets, sizes):
    """PyTorch through torch.compile."""
    return torch_eager(weights, inputs, targets, sizes, compiled=True)


def torch_processes(weights, inputs, targets, sizes):
    """PyTorch eager in as many processes as cores.

    Each process differentiates its share of the batch in pieces, gloo sums the
    gradients, and each process updates its own weights. A step starts in all of them as
    ours does.
    """
    import torch

    count = len(usable_cores())
    w, forward, optimizer, moments = _torch_parts(weights, sizes)
    x, y = torch.tensor(inputs), torch.tensor(targets)
    pieces = micro_batches(len(inputs), TORCH_PIECE, count)
    # of all parameters, one after the other: one message
    lengths = [parameter.numel() for parameter in w.values()]
    gradient = torch.zeros(sum(lengths))
    for parameter, part in zip(w.values(), gradient.split(lengths), strict=True):
        parameter.grad = part.view_as(parameter)  # backward adds to it in place

    def step(worker):
        gradient.zero_()
        total = 0.0  # this process's part of the mean loss
        for start, stop in pieces[worker::count]:
            loss = forward(w, x[start:stop], y[start:stop]) * ((stop - start) / len(x))
            loss.backward()
            total += loss.item()
        torch.distributed.all_reduce(gradient)
        optimizer.step()
        return total

    return together(lambda worker: lambda: step(worker)), moments


def together(make):
    """step() -> the sum of what make(worker)() gives in as many processes as cores, in
    which gloo can add up; call it with PyTorch on one thread.
    """
    import torch.distributed

    if not CAN_FORK:
        raise RuntimeError("no safe fork here")
    count, steps = len(usable_cores()), {}

    def share(worker, address):
        if not address:
            return steps[worker]()
        torch.distributed.init_process_group(
            "gloo", init_method=address, rank=worker, world_size=count
        )
        steps[worker] = make(worker)
        return 0.0

    workers = Workers(count, share, processes=True)
    with tempfile.TemporaryDirectory() as folder:  # needed until all have met
        workers.run(f"file://{folder}/meeting")
    return lambda: sum(workers.run(None))


# --- JAX ------------------------------------------------------------------------------


def _jax_library():
    import jax
    import jax.numpy as jnp

    class Jax(Library):
        relu = staticmethod(jax.nn.relu)
        sigmoid = staticmethod(jax.nn.sigmoid)
        softmax = staticmethod(jax.nn.softmax)
        softplus = staticmethod(jax.nn.softplus)
        detach = staticmethod(jax.lax.stop_gradient)

        def start(self, batch, slots, width):
            return jnp.broadcast_to(jnp.eye(slots, width), (batch, slots, width))

        def cross_entropy(self, logits, targets):
            chosen = jnp.take_along_axis(
                jax.nn.log_softmax(logits), targets[:, None], 1
            )
            return -chosen.mean()

    return Jax(jnp)


def jax_jit(weights, inputs, targets, sizes):
    """JAX: the whole step, Adam included, is one compiled function that may reuse the
    memory of what it replaces.
    """
    import jax
    import jax.numpy as jnp

    lib = _jax_library()

    def train(w, m, v, count, x, y):
        loss, g = jax.value_and_grad(lambda w: loss_of(lib, w, x, y, sizes))(w)
        count += 1
        m = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, g)
        v = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, g)
        rate, scale = RATE / (1 - BETA1**count), 1 - BETA2**count

        def update(w, m, v):
            return w - rate * m / (jnp.sqrt(v / scale) + EPSILON)

        return loss, (jax.tree.map(update, w, m, v), m, v, count)

    train = jax.jit(train, donate_argnums=(0, 1, 2, 3))
    w = {name: jnp.array(value) for name, value in weights.items()}
    m, v = jax.tree.map(jnp.zeros_like, w), jax.tree.map(jnp.zeros_like, w)
    state = (w, m, v, jnp.zeros(()))
    x, y = jnp.array(inputs), jnp.array(targets)

    def step():
        nonlocal state
        loss, state = train(*state, x, y)
        jax.block_until_ready(state)
        return loss

    return step, lambda: {name: np.array(moment) for name, moment in state[1].items()}


# --- A library over NumPy -------------------------------------------------------------


def hips(weights, inputs, targets, sizes):
    """HIPS autograd, with Adam written out."""
    import autograd
    import autograd.numpy

    lib = Library(autograd.numpy)

    def loss(w):
        return loss_of(lib, w, inputs, targets, sizes)

    return _with_adam(weights, autograd.value_and_grad(loss))


def _with_adam(weights, differentiate):
    """(step, moments) from differentiate(w) -> (loss, gradient by name)."""
    w, count = {name: value.copy() for name, value in weights.items()}, 0
    m, v = ({name: np.zeros_like(value) for name, value in w.items()} for _ in range(2))

    def step():
        nonlocal count
        loss, gradient = differentiate(w)
        count += 1
        rate, scale = RATE / (1 - BETA1**count), 1 / (1 - BETA2**count)
        for name, g in gradient.items():
            m[name] += (1 - BETA1) * (g - m[name])
            v[name] += (1 - BETA2) * (g * g - v[name])
            w[name] -= rate * m[name] / (np.sqrt(scale * v[name]) + EPSILON)
        return loss

    return step, lambda: m


# by the names that the results carry, with the module that each needs
PEERS = {
    "PyTorch eager": (torch_eager, "torch"),
    TORCH_PROCESSES: (torch_processes, "torch"),
    "torch.compile": (torch_compiled, "torch"),
    "JAX jit": (jax_jit, "jax"),
    "HIPS autograd": (hips, "autograd"),
}
