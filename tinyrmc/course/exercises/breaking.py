"""Chapter 15: planted bugs, for you to find and mend."""

import itertools
import math

import numpy as np

from ... import fused, nn
from ...autograd import primitives as p
from ...autograd.engine import Parameter, Tape
from ...cores import RelationalMemory
from .exercise import each, in_pieces, named, normal
from .experiments import Picture
from .mended import mended
from .normalisation import layers_of
from .used import used


def softmax(x, axis=-1):
    """The softmax of an array, along one axis."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _still_there(bugs):
    """A mistake for every choice of some of the `bugs`, but for all of them: these are
    still there. bugs: {the bug in words: what stands differently in the solution}.
    """
    choices = itertools.chain.from_iterable(
        itertools.combinations(bugs, count + 1) for count in range(len(bugs) - 1)
    )
    return {", and ".join(some): sum(map(bugs.get, some), ()) for some in choices}


def _scored(rng, B, C, scale=1):
    return scale * rng.normal(size=(B, C)), rng.integers(C, size=B)


@mended(
    (
        "shifted = logits",
        "logits = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)\n"
        "    shifted = logits",
    ),
    cases=each(_scored, "3 5, 4 4, 1 2, 6 8 10, 5 3 1e3"),
    hints=[
        "Count the exponentials between the logits and the loss: how often is there a "
        "softmax?",
        "-log softmax(x)_k = log(sum_j exp(x_j)) - x_k. With x = the logits, not their "
        "softmax.",
        "With logits of 1000 exp overflows: subtract the largest of each row first.",
    ],
    mistakes="""
        you still take the softmax twice
            shifted = logits - -> logits = softmax(logits); shifted = logits -
        exp overflows, or a probability of 0 has the logarithm -inf
            logits.max(axis=-1, keepdims=True) -> 0
        you subtract the largest logit in the sum of exponentials, but not from the
        right class's logit
            of_targets = shifted -> of_targets = logits
        you subtract the largest of all rows: in the others all exponentials may vanish
            logits.max(axis=-1, keepdims=True) -> logits.max()
        you clip the probabilities away from 0: then no answer costs more than a certain
        loss, and the worst have no gradient. Take the logarithm of the softmax by hand
            = -np.mean(np.log(np.clip(softmax(logits), 1e-12, 1))[
                np.arange(len(targets)), targets])
        you add something small to the probabilities: then no answer costs more than a
        certain loss. Take the logarithm of the softmax by hand
            = -np.mean(np.log(softmax(logits) + 1e-12)[np.arange(len(targets)),
                targets])
    """,
    anysize="logits",
)
def cross_entropy(logits, targets):
    """The mean over the examples of -log softmax(logits)[target].

    logits (B, C) of any size, targets (B,) integers -> a number.
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    of_targets = shifted[np.arange(len(targets)), targets]  # (B,)
    return np.mean(np.log(np.exp(shifted).sum(axis=-1)) - of_targets)


def _attending(rng, N, F, K, V):
    M, x, *weights = normal(rng, (N, F), F, (F, K), (F, K), (F, V))
    return M, x, *(weight / np.sqrt(F) for weight in weights)


_OF_ATTENTION = in_pieces("""
    you still multiply the scores by the root of d_k
        / math.sqrt -> * math.sqrt
    the softmax still runs over the queries
        axis=1 -> axis=0
    the input is still not among the rows that the slots look at
        np.concatenate([M, x[None]]) -> M
""")


@mended(
    sum(_OF_ATTENTION.values(), ()),
    cases=each(_attending, "3 4 9 2, 4 4 4 4, 2 6 3 6, 1 5 2 3"),
    hints=[
        "There are three bugs. Run it on one slot, and ask of each line what it should "
        "be.",
        "Print the weights: what is the sum of each row? Then change x: does anything "
        "move? Then make the keys wider.",
        "a / d ** -0.5 is a * d ** 0.5.",
    ],
    mistakes=_still_there(_OF_ATTENTION)
    | in_pieces("""
        you divide the scores by the root of F, the memory's width, not of the keys'
        width
            W_k.shape[-1] -> W_k.shape[0]
        you divide the scores by the root of the values' width, not of the keys' width
            W_k.shape[-1] -> W_v.shape[-1]
        you divide the scores by the root of the width of query, key and value together,
        as the released code did at first; it is that of the keys' width
            W_k.shape[-1] -> 2 * W_k.shape[-1] + W_v.shape[-1]
    """),
)
def attend(M, x, W_q, W_k, W_v):
    """Equation 2 with one head.

    M (N, F), x (F,), W_q and W_k (F, K), W_v (F, V) -> (N, V).
    """
    Z = np.concatenate([M, x[None]])  # (N + 1, F)
    scores = M @ W_q @ (Z @ W_k).T / math.sqrt(W_k.shape[-1])  # (N, N + 1)
    return softmax(scores, axis=1) @ (Z @ W_v)


def _processed(rng, N, F, depth, scale=1):
    layers = layers_of(rng, *[F] * (depth + 1))
    return scale * rng.normal(size=(N, F)), layers, *normal(rng, F, F)


_OF_PROCESS = in_pieces("""
    every layer still has the weights of the first
        enumerate(layers) -> enumerate(layers[:1] * len(layers))
    there is still a ReLU after the last layer
        if number < len(layers) - 1 -> if 1
    you still take mean and variance of all slots together
        axis=-1, ->
""")


@mended(
    sum(_OF_PROCESS.values(), ()),
    cases=each(_processed, "3 4 2, 4 4 3, 2 8 2 30, 1 6 2"),
    hints=[
        "There are three bugs: two in the loop, one after it.",
        "Which of `layers` does the loop use? What can a ReLU after the last layer "
        "never put out? Over what do you take the mean?",
        "for number, (weight, bias) in enumerate(layers); axis=-1, keepdims=True in "
        "both means.",
    ],
    mistakes=_still_there(_OF_PROCESS),
    anysize="z",
)
def process(z, layers, gain, offset):
    """g_psi of equation 7: layer_norm(MLP(z) + z).

    z (N, F), layers [(weight (F, F), bias (F,)), ...], gain, offset (F,) -> (N, F).
    There is a ReLU between each two layers; epsilon, added to the variance, is 1e-5.
    """
    y = z
    for number, (weight, bias) in enumerate(layers):
        y = y @ weight + bias
        if number < len(layers) - 1:
            y = np.maximum(y, 0)
    y = y + z
    d = y - y.mean(axis=-1, keepdims=True)
    variance = (d * d).mean(axis=-1, keepdims=True)
    return gain * d / np.sqrt(variance + 1e-5) + offset


STEPS = named(
    keeps_a_half=lambda x, m: 0.5 * m + x,
    squashes=lambda x, m: p.tanh(m + x),
    writes_by_a_gate=lambda x, m: p.sigmoid(x) * m - p.tanh(x),  # slopes of both signs
    forgets_all=lambda x, m: p.sin(x) + 0.0 * m,
    has_no_memory=lambda x, m: p.sin(x),  # earlier inputs do not lead to the loss
)


def _sequences(rng, which, T):
    return STEPS[which], *normal(rng, (T, 3), 3)


@mended(
    (
        "memory = step(x, memory)",
        "last = step(x, memory)\n            memory = last.data",
        "p.sum(memory)",
        "p.sum(last)",
    ),
    cases=each(_sequences, "0 4, 1 5, 2 3, 3 2, 4 3"),
    hints=[
        "Which line takes the memory off the tape? No gradient reaches what came "
        "before it.",
        "`.data` is a plain array, which the tape does not know. Keep the Tensor that "
        "`step` returns.",
    ],
    mistakes="""
        you do not hand the memory on: every step begins with the first one
            memory = step(x, memory) -> last = step(x, memory)
            p.sum(memory) -> p.sum(last)
        the root is missing: that is the square of the norm
            np.linalg.norm(g) -> np.linalg.norm(g) ** 2
    """,
    precise=True,
)
def influence(step, inputs, memory):
    """How far each input reaches: the norm of d sum(last memory) / d x_t for every t.

    step(x, memory) -> memory, on Tensors; inputs (T, F), memory (F,) -> (T,), zero for
    an input that has no influence.
    """
    with Tape() as tape:
        xs = [tape.watch(x) for x in inputs]
        for x in xs:
            memory = step(x, memory)
        loss = p.sum(memory)
    gradients = tape.gradient(loss, xs, strict=False)
    return np.array([np.linalg.norm(g) for g in gradients])


MIXERS = named(
    each_for_itself=lambda M: (M.T - M.mean(axis=1)).T,
    jointly=lambda M: (M - M.mean()) / M.std(),
    hears_the_one_before=lambda M: M + np.eye(*M.shape) * np.tanh(np.roll(M, 1, 0)),
    forgets_the_first=lambda M: np.concatenate([0 * M[:1] + 1, M[1:]]),
    keeps_directions=lambda M: (M.T / np.linalg.norm(M, axis=1)).T,
)


def _slots(rng, which, N, F):
    return MIXERS[which], *normal(rng, (N, F)), N


def _what_moves(answer, step, M, seed):
    """Which numbers of an answer are not zero."""
    found = answer(step, M, np.random.default_rng(seed))
    return found if found is None or found is ... else np.abs(found) > 1e-4


@used(
    _what_moves,
    cases=each(_slots, "0 3 4, 1 4 4, 2 4 3, 3 3 2, 2 2 5, 4 3 3"),
    hints=[
        "before = step(M). For each j: changed = M.copy(), add a random row to "
        "changed[j], and compare step(changed) with before.",
        "np.linalg.norm(step(changed) - before, axis=1) has how far each slot moves: "
        "that is column j.",
    ],
    mistakes="""
        rows and columns have changed places: column j belongs to the slot that was
        changed
            found[:, j] -> found[j]
        you make the slot twice as large: a step that divides a row by its length does
        not see that, so add a random row
            += rng.normal(size=M.shape[1]) -> *= 2
        you add one number to all of a row: a norm takes its mean away again, so add a
        random row
            += rng.normal(size=M.shape[1]) -> += 1
        you compare with M, not with what `step` makes of M
            before, found = step(M) -> before, found = M
        the changes of other slots are still there: begin with a copy of M each time
            M.copy() -> M
            before, found = -> M = M.copy(); before, found =
    """,
)
def who_moves(step, M, rng):
    """How far slot i of the next memory moves (its norm) when slot j is changed.

    step(M) -> the next M, both (N, F) -> (N, N).
    """
    before, found = step(M), np.zeros((len(M), len(M)))
    for j in range(len(M)):
        changed = M.copy()
        changed[j] += rng.normal(size=M.shape[1])
        found[:, j] = np.linalg.norm(step(changed) - before, axis=1)
    return found


# --- The bugs, as they are put into a core --------------------------------------------


class LouderQueries(nn.Module):
    """The norm of a core's queries, keys and values; then a factor for all queries."""

    def __init__(self, core, factor):
        self.norm = core.blocks[0]["qkv_norm"]
        K, V = core.key_size, core.head_size
        is_query = np.tile(np.arange(2 * K + V) < K, core.num_heads)
        self.factors = np.where(is_query, factor, 1).astype(np.float32)

    def __call__(self, x):
        return self.norm(x) * self.factors


def scaled(core, power):
    """The core, with scores that are divided by d_k ** power."""
    core.blocks[0]["qkv_norm"] = LouderQueries(core, core.key_size ** (0.5 - power))
    return core


class JointNorm(nn.Module):
    """Normalises x (B, rows, size) over both axes; gains and offsets (rows, size)."""

    def __init__(self, rows, size):
        self.gain = Parameter(np.ones((rows, size), np.float32))
        self.offset = Parameter(np.zeros((rows, size), np.float32))

    def __call__(self, x, residual=None):
        x = x if residual is None else x + residual
        d = x - p.mean(x, axis=(-2, -1), keepdims=True)
        variance = p.mean(d * d, axis=(-2, -1), keepdims=True)
        return d / p.sqrt(variance + 1e-5) * self.gain + self.offset


def jointly(core):
    """The core, with a norm over all slots in the place of each of its norms."""
    block, N = core.blocks[0], core.mem_slots
    block["qkv_norm"] = JointNorm(N + 1, block["qkv_norm"].gain.size)  # and the input
    block["attention_norm"] = JointNorm(N, core.mem_size)
    block["mlp_norm"] = JointNorm(N, core.mem_size)
    return core


def shared_layer(core):
    """The core, whose MLP is its first layer, with the ReLU, once for each layer."""
    core.mlp = [core.mlp[0]] * len(core.mlp)
    return core


BUGS = (
    "memory of zeros",
    "memory cut off",
    "two softmaxes",
    "wrong scale",
    "joint norm",
    "shared layer",
)


def _as_it_is(given):
    return given


class Network:
    """A core and its loss with one of the six bugs, or with none.

    What you can do with it, on arrays of your own:

        network.begin()            the first memory (N, F)
        network.step(x, memory)    the next memory, x (I,) and memory (N, F), on Tensors
        network.apart(x, memory)   the same, with attention among the slots cut
        network.loss(z, targets)   the mean loss, z (B, C), targets (B,)
        network.attention(d_k)     the shares (B, H, N, N + 1) in a fresh network like
                                   it, whose keys have the width d_k
        network.count(layers)      how many parameters it has with so many layers
        network.inputs             I
    """

    def __init__(self, bug, seed, slots=4):
        # What a bug breaks, and not its name: `diagnose` is there to find that.
        self._seed, self._slots, self.inputs = seed, slots, 5
        self._change = {
            "wrong scale": lambda core: scaled(core, -0.5),
            "joint norm": jointly,
            "shared layer": shared_layer,
        }.get(bug, _as_it_is)
        self._first = {"memory of zeros": np.zeros_like}.get(bug, _as_it_is)
        self._hand_on = {"memory cut off": p.stop_gradient}.get(bug, _as_it_is)
        self._answer = {"two softmaxes": p.softmax}.get(bug, _as_it_is)
        self._core = self._make()

    def __repr__(self):
        return f"Network(?, {self._seed}, {self._slots})"

    def _make(self, d_k=4, layers=2):
        core = RelationalMemory(
            self.inputs,
            self._slots,
            head_size=4,
            num_heads=2,
            key_size=d_k,
            attention_mlp_layers=layers,
            seed=self._seed,
        )
        return self._change(core)

    def begin(self):
        return self._first(self._core.initial_state(1)[0])

    def step(self, x, memory, mask=None):
        x, memory = p.expand_dims(x, axis=0), p.expand_dims(memory, axis=0)
        _, memory = self._core(x, self._hand_on(memory), mask=mask)
        return p.reshape(memory, memory.shape[1:])

    def apart(self, x, memory):
        alone = np.eye(self._slots, self._slots + 1, dtype=bool)
        alone[:, -1] = True  # every slot sees itself and the input
        return self.step(x, memory, alone)

    def loss(self, z, targets):
        return p.mean(fused.softmax_cross_entropy(self._answer(z), targets))

    def attention(self, d_k):
        core, trace = self._make(d_k), []
        x = np.random.default_rng(self._seed).normal(size=(8, 2, self.inputs))
        core.unroll(x.astype(np.float32), core.initial_state(8), trace)
        return trace[-1]["attention"]

    def count(self, layers):
        return self._make(layers=layers).num_parameters


@used(
    lambda answer, bug, seed, slots: answer(
        Network(bug, seed, slots), np.random.default_rng(seed)
    ),
    cases=lambda rng: [
        (bug, seed, slots)
        for seed, slots in ((0, 4), (1, 3), (2, 6))
        for bug in (*BUGS, "none")
    ],
    hints=[
        "Go through the table of symptoms, row by row: each is one `if`, which returns "
        "the name of its bug. Behind all of them: return 'none'.",
        "np.ptp(M, axis=0).max() is 0 where all slots are equal. For the gradient your "
        "`influence` takes network.step, three inputs and the first memory.",
        "A loss of logits of 1000, all right, should be 0: z = 1000 * np.eye(3), "
        "targets np.arange(3).",
        "Compare network.attention(64).max(axis=-1).mean() with that of 1. For "
        "`who_moves`: step = lambda M: network.apart(x, M).data. Parameters: count(3) "
        "is not count(2).",
    ],
    mistakes="""
        you say "none" whatever the network does: measure the rows of the table, one
        after the other
            = "none"
        you never look at the first memory, or look only at its size
            np.ptp(first, axis=0).max() < 1e-6 -> False
        you never take the gradient of an early input
            influence(network.step, xs, first)[0] == 0 -> False
        you never ask how small the loss can get
            network.loss(1000 * np.eye(3), np.arange(3)).data > 0.1 -> False
        you never compare narrow keys with wide ones
            wide > 1.4 * narrow -> False
        a fresh network may be certain by chance, and narrow keys hide the wrong scale:
        compare one width with another
            wide > 1.4 * narrow -> narrow > 0.5
        you never change one slot and look at the others
            moved[~np.eye(len(first), dtype=bool)].max() > 1e-4 -> False
        with attention all slots move, whatever the norm is: cut it, with network.apart
            network.apart -> network.step
        you never count the parameters
            network.count(3) == network.count(2) -> False
        you find a bug everywhere: of some networks nothing is wrong
            return "none" -> return "shared layer"
    """,
)
def diagnose(network, rng):
    """Which of the six bugs a network has: the first column of the table, or "none".

    rng: a generator, for inputs of your own.
    """
    first = network.begin()
    if np.ptp(first, axis=0).max() < 1e-6:
        return "memory of zeros"
    xs = rng.normal(size=(3, network.inputs)).astype(np.float32)
    if influence(network.step, xs, first)[0] == 0:
        return "memory cut off"
    if network.loss(1000 * np.eye(3), np.arange(3)).data > 0.1:
        return "two softmaxes"
    narrow, wide = (network.attention(d_k).max(axis=-1).mean() for d_k in (1, 64))
    if wide > 1.4 * narrow:
        return "wrong scale"
    moved = who_moves(lambda M: network.apart(xs[0], M).data, first, rng)
    if moved[~np.eye(len(first), dtype=bool)].max() > 1e-4:
        return "joint norm"
    if network.count(3) == network.count(2):
        return "shared layer"
    return "none"


picture = Picture("breaking")
