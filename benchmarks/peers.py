"""The same network in four libraries, one of them used in three ways: the step of "nth
farthest", from the same weights on the same batch.

The network is a core, then the head of four ReLU layers; the core is the released
Relational Memory Core with one block and unit gates, or a Differentiable Neural
Computer with one write head; the optimizer is Adam at a constant rate, unclipped.
`loss_of` says it once, in the vocabulary of a `Library`; each library answers with what
its users would write, its own fused operations where they are faster, and every one
gets the savings that ours has: what needs no memory is computed for all time steps at
once, and nobody asks on behalf of the input row, whose own result is never used.
Attention is two products and a softmax in all of them: on nine keys the fused attention
of PyTorch (scaled_dot_product_attention) made a step a tenth slower, compiled a sixth,
and that of JAX (jax.nn.dot_product_attention) a tenth slower at 64 units and neither
slower nor faster at 256.

A peer is `make(weights, inputs, targets, sizes) -> (step, moments)`. `step()` trains
once and returns the loss before the update, a scalar of the library's own; on a CPU all
is done by then. `moments()` gives Adam's first moment by name: after the first step
that is (1 - BETA1) times the gradient.
"""

from __future__ import annotations

import math
import tempfile

import numpy as np

from tinyrmc.training.workers import CAN_FORK, Workers, available_cores, pieces_of

RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
TORCH_PROCESSES = "PyTorch eager, processes"
# examples that one of them takes at a time, at most; in `large` more gain nothing, and
# 64 take 5 % longer
TORCH_PIECE = 256


def loss_of(lib, w, inputs, targets, sizes):
    """The mean cross-entropy in nats. w: parameters by name; inputs (B, T, D), targets
    (B,); sizes: the core and its own, as below.
    """
    core, *sizes = sizes
    x = {"rmc": relational_memory, "dnc": dnc}[core](lib, w, inputs, *sizes)
    for layer in range(4):
        x = lib.relu(lib.dense(x, w[f"head.{layer}.weight"], w[f"head.{layer}.bias"]))
    return lib.cross_entropy(
        lib.dense(x, w["head.4.weight"], w["head.4.bias"]), targets
    )


def relational_memory(lib, w, inputs, slots, heads, size):
    """The last memory, (B, N F): N slots of H heads, their width V = K."""
    width, batch = heads * size, len(inputs)

    def dense(x, name):
        return lib.dense(x, w[f"core.{name}.weight"], w[f"core.{name}.bias"])

    def norm(x, name):
        return lib.layer_norm(
            x, w[f"core.blocks.0.{name}.gain"], w[f"core.blocks.0.{name}.offset"]
        )

    rows = dense(inputs, "input_projection")  # (B, T, F)
    from_inputs = dense(rows, "gate_inputs") + w["core.gate_memory.bias"]  # (B, T, 2F)
    memory = lib.start(batch, slots, width)  # (B, N, F)
    for row, from_input in zip(
        lib.unstack(rows), lib.unstack(from_inputs), strict=True
    ):
        qkv = norm(
            dense(lib.concatenate([memory, row[:, None]], 1), "blocks.0.qkv"),
            "qkv_norm",
        )  # (B, N + 1, H 3V)
        qkv = lib.swapaxes(
            qkv.reshape(batch, slots + 1, heads, 3 * size), 1, 2
        )  # (B, H, N + 1, 3V)
        q, k, v = (
            qkv[:, :, :slots, :size],
            qkv[..., size : 2 * size],
            qkv[..., 2 * size :],
        )
        heard = lib.swapaxes(lib.attention(q, k, v), 1, 2).reshape(batch, slots, width)
        z = norm(memory + heard, "attention_norm")
        candidate = norm(z + dense(lib.relu(dense(z, "mlp.0")), "mlp.1"), "mlp_norm")
        gates = from_input[:, None] + lib.dense(
            lib.tanh(memory), w["core.gate_memory.weight"]
        )  # (B, N, 2F)
        write, keep = (
            lib.sigmoid(gates[..., :width]),
            lib.sigmoid(gates[..., width:] + 1.0),
        )
        memory = write * lib.tanh(candidate) + keep * memory
    return memory.reshape(batch, slots * width)


def dnc(lib, w, inputs, words, heads, size):
    """The last output, (B, O), from an empty memory: N words of W numbers, R read
    heads, one write head, one LSTM layer as controller.
    """
    batch, hidden_size = (
        len(inputs),
        w["core.controller.layers.0.gates.bias"].shape[0] // 4,
    )

    def dense(x, name):
        return lib.dense(x, w[f"core.{name}.weight"], w[f"core.{name}.bias"])

    def content(keys, strengths):  # (B, H, W), (B, H) -> (B, H, N)
        key_norms = lib.sqrt(lib.sum(keys * keys, -1) + 1e-6)[..., None]
        word_norms = lib.sqrt(lib.sum(memory * memory, -1) + 1e-6)[:, None]
        cosine = keys @ lib.swapaxes(memory, 1, 2) / (key_norms * word_norms + 1e-6)
        return lib.softmax(strengths[..., None] * cosine)

    def cut(x, widths):
        ends = np.cumsum(widths).tolist()
        return [
            x[:, end - width : end] for width, end in zip(widths, ends, strict=True)
        ]

    off_diagonal, zeros = 1 - lib.start(batch, words, words), lib.zeros
    memory, usage, links = (
        zeros(batch, words, size),
        zeros(batch, words),
        zeros(batch, words, words),
    )
    precedence, write, read = (
        zeros(batch, words),
        zeros(batch, words),
        zeros(batch, heads, words),
    )
    h, c, heard = (
        zeros(batch, hidden_size),
        zeros(batch, hidden_size),
        zeros(batch, heads * size),
    )
    for x in lib.unstack(inputs):
        i, j, f, o = cut(
            dense(lib.concatenate([x, heard, h], 1), "controller.layers.0.gates"),
            [hidden_size] * 4,
        )
        c = lib.sigmoid(f + 1.0) * c + lib.sigmoid(i) * lib.tanh(j)
        h, c = lib.clip(lib.sigmoid(o) * lib.tanh(c), -20, 20), lib.clip(c, -20, 20)
        key, strength, erase, value, g_a, g_w, free, keys, strengths, modes = cut(
            dense(h, "interface"),
            [size, 1, size, size, 1, 1, heads, heads * size, heads, 3 * heads],
        )
        g_a, g_w = lib.sigmoid(g_a), lib.sigmoid(g_w)  # (B, 1)

        kept = lib.product(1 - lib.sigmoid(free)[..., None] * read)  # (B, N)
        usage = (usage + (1 - usage) * lib.detach(write)) * kept
        used = 1e-6 + (1 - 1e-6) * usage
        order = lib.argsort(used)
        ascending = lib.take(used, order)
        before = lib.cumprod(
            lib.concatenate([lib.ones(batch, 1), ascending[:, :-1]], 1)
        )
        allocated = lib.take((1 - ascending) * before, lib.argsort(order))
        write = g_w * (
            g_a * allocated
            + (1 - g_a) * content(key[:, None], lib.softplus(strength))[:, 0]
        )  # (B, N)
        memory = (
            memory * (1 - write[..., None] * lib.sigmoid(erase)[:, None])
            + write[..., None] * value[:, None]
        )  # (B, N, W)

        links = (
            (1 - write[..., None] - write[:, None]) * links
            + write[..., None] * precedence[:, None]
        ) * off_diagonal  # (B, N, N)
        precedence = (1 - lib.sum(write, -1)[:, None]) * precedence + write
        found = content(keys.reshape(batch, heads, size), lib.softplus(strengths))
        modes = lib.softmax(modes.reshape(batch, heads, 3))[..., None]
        read = (
            modes[:, :, 0] * (read @ links)
            + modes[:, :, 1] * (read @ lib.swapaxes(links, 1, 2))
            + modes[:, :, 2] * found
        )  # (B, R, N)
        heard = (read @ memory).reshape(batch, heads * size)
    return lib.clip(dense(lib.concatenate([h, heard], 1), "output"), -20, 20)


class Library:
    """What `loss_of` needs, composed from a module `xp` with NumPy's names."""

    def __init__(self, xp):
        self.xp, self.tanh, self.sqrt, self.sum, self.clip = (
            xp,
            xp.tanh,
            xp.sqrt,
            xp.sum,
            xp.clip,
        )
        self.concatenate, self.swapaxes = xp.concatenate, xp.swapaxes

    def start(self, batch, slots, width):
        return np.broadcast_to(
            np.eye(slots, width, dtype=np.float32), (batch, slots, width)
        )

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
        y = (
            x.reshape(-1, x.shape[-1]) @ weight
        )  # one large product: NumPy's matmul would run one for each example
        return (y if bias is None else y + bias).reshape(*x.shape[:-1], weight.shape[1])

    def layer_norm(self, x, gain, offset):
        d = x - self.xp.mean(x, axis=-1, keepdims=True)
        return (
            d / self.xp.sqrt(self.xp.mean(d * d, axis=-1, keepdims=True) + 1e-5) * gain
            + offset
        )

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
        return self.xp.mean(
            self.xp.log(self.xp.sum(self.xp.exp(shifted), axis=-1))
            - self.xp.sum(shifted * hot, axis=-1)
        )


# --- PyTorch --------------------------------------------------------------------------


def _torch_parts(weights, sizes, device="cpu"):
    """(w, forward, optimizer, moments): the tensors by name, forward(w, x, y) being the
    mean loss, fused Adam, and a peer's `moments`.
    """
    import torch
    import torch.nn.functional as F

    class Torch(Library):
        relu, sigmoid, cross_entropy = (
            staticmethod(F.relu),
            staticmethod(torch.sigmoid),
            staticmethod(F.cross_entropy),
        )
        softplus, detach = staticmethod(F.softplus), staticmethod(torch.Tensor.detach)

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

    lib, w = (
        Torch(torch),
        {
            name: torch.tensor(value, device=device, requires_grad=True)
            for name, value in weights.items()
        },
    )
    optimizer = torch.optim.Adam(
        w.values(), lr=RATE, betas=(BETA1, BETA2), eps=EPSILON, fused=True
    )

    def forward(w, x, y):
        return loss_of(lib, w, x, y, sizes)

    return (
        w,
        forward,
        optimizer,
        lambda: {
            name: optimizer.state[parameter]["exp_avg"].cpu().numpy()
            for name, parameter in w.items()
        },
    )


def torch_eager(weights, inputs, targets, sizes, compiled=False, device="cpu"):
    """PyTorch, the whole batch at once."""
    import torch

    w, forward, optimizer, moments = _torch_parts(weights, sizes, device)
    x, y = torch.tensor(inputs, device=device), torch.tensor(targets, device=device)
    if compiled:
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
    """PyTorch eager in as many processes as cores, to be called with PyTorch on one
    thread.

    Each process differentiates its share of the batch in pieces, the gradients are
    summed by gloo, and each updates its own weights. What starts a step in all of them
    is what starts ours.
    """
    import torch
    import torch.distributed

    if not CAN_FORK:
        raise RuntimeError("no safe fork here")
    count = available_cores()
    w, forward, optimizer, moments = _torch_parts(weights, sizes)
    x, y, pieces = (
        torch.tensor(inputs),
        torch.tensor(targets),
        pieces_of(len(inputs), TORCH_PIECE, count),
    )
    lengths = [parameter.numel() for parameter in w.values()]
    gradient = torch.zeros(
        sum(lengths)
    )  # of all parameters, one after the other: one message
    for parameter, part in zip(w.values(), gradient.split(lengths), strict=True):
        parameter.grad = part.view_as(parameter)  # backward adds to it in place

    def share(worker, meeting):  # the part of the mean loss that is this process's
        if meeting:
            torch.distributed.init_process_group(
                "gloo", init_method=meeting, rank=worker, world_size=count
            )
            return 0.0
        gradient.zero_()
        total = 0.0
        for start, stop in pieces[worker::count]:
            loss = forward(w, x[start:stop], y[start:stop]) * ((stop - start) / len(x))
            loss.backward()
            total += loss.item()
        torch.distributed.all_reduce(gradient)
        optimizer.step()
        return total

    workers = Workers(count, share, processes=True)
    with tempfile.TemporaryDirectory() as folder:  # needed until all have met
        workers.run(f"file://{folder}/meeting")
    return lambda: sum(workers.run(None)), moments


# --- JAX ------------------------------------------------------------------------------


def jax_jit(weights, inputs, targets, sizes):
    """JAX: the whole step, Adam included, is one compiled function that may reuse the
    memory of what it replaces.
    """
    import jax
    import jax.numpy as jnp

    class Jax(Library):
        relu, sigmoid, softmax = (
            staticmethod(jax.nn.relu),
            staticmethod(jax.nn.sigmoid),
            staticmethod(jax.nn.softmax),
        )
        softplus, detach = (
            staticmethod(jax.nn.softplus),
            staticmethod(jax.lax.stop_gradient),
        )

        def start(self, batch, slots, width):
            return jnp.broadcast_to(jnp.eye(slots, width), (batch, slots, width))

        def cross_entropy(self, logits, targets):
            return -jnp.take_along_axis(
                jax.nn.log_softmax(logits), targets[:, None], 1
            ).mean()

    def train(w, m, v, count, x, y):
        loss, g = jax.value_and_grad(lambda w: loss_of(Jax(jnp), w, x, y, sizes))(w)
        count += 1
        m = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, g)
        v = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, g)
        rate = RATE / (1 - BETA1**count)
        w = jax.tree.map(
            lambda w, m, v: w - rate * m / (jnp.sqrt(v / (1 - BETA2**count)) + EPSILON),
            w,
            m,
            v,
        )
        return loss, (w, m, v, count)

    train = jax.jit(train, donate_argnums=(0, 1, 2, 3))
    w = {name: jnp.array(value) for name, value in weights.items()}
    state = (
        w,
        jax.tree.map(jnp.zeros_like, w),
        jax.tree.map(jnp.zeros_like, w),
        jnp.zeros(()),
    )
    x, y = jnp.array(inputs), jnp.array(targets)

    def step():
        nonlocal state
        loss, state = train(*state, x, y)
        jax.block_until_ready(state)
        return loss

    return step, lambda: {name: np.array(moment) for name, moment in state[1].items()}


# --- Libraries over NumPy -------------------------------------------------------------


def hips(weights, inputs, targets, sizes):
    """HIPS autograd, with Adam written out."""
    import autograd
    import autograd.numpy

    lib = Library(autograd.numpy)
    return _with_adam(
        weights,
        autograd.value_and_grad(lambda w: loss_of(lib, w, inputs, targets, sizes)),
    )


def mygrad(weights, inputs, targets, sizes):
    """MyGrad, without the checks on memory that its manual advises to turn off for
    speed, with Adam written out.
    """
    import mygrad as mg
    from mygrad import nnet

    class MyGrad(Library):
        relu, sigmoid = staticmethod(nnet.relu), staticmethod(nnet.sigmoid)
        softmax, cross_entropy = (
            staticmethod(nnet.softmax),
            staticmethod(nnet.softmax_crossentropy),
        )

    lib = MyGrad(mg)
    mg.turn_memory_guarding_off()

    def differentiate(weights):
        w = {name: mg.tensor(value, copy=False) for name, value in weights.items()}
        loss = loss_of(lib, w, inputs, targets, sizes)
        loss.backward()
        return loss.data, {name: tensor.grad for name, tensor in w.items()}

    return _with_adam(weights, differentiate)


def _with_adam(weights, differentiate):
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


# The peers by the names that the results carry, and the module that must be installed for
# each.
PEERS = {
    "PyTorch eager": (torch_eager, "torch"),
    TORCH_PROCESSES: (torch_processes, "torch"),
    "torch.compile": (torch_compiled, "torch"),
    "JAX jit": (jax_jit, "jax"),
    "HIPS autograd": (hips, "autograd"),
    "MyGrad": (mygrad, "mygrad"),
}
