"""The Differentiable Neural Computer (Graves et al. 2016, Nature 538) as its authors
released it: a network with a memory beside it.

A controller, an LSTM say, sees the input and what was read a step before. From its
output one linear layer makes the interface, everything that the heads want: what to
write, where, what to forget, what to look for. The memory is a matrix of N words; a
head is a weighting over them, in the simplex (not negative, sum at most 1). There are
three ways to find a word:

    by content      the word most like a key                            `content_weights`
    by vacancy      the word least in use, for writing                  `update_usage`, `allocation`
    by time         the word written after (before) the one just read   `temporal_links`, `follow_links`

All of it is differentiable, so that the controller learns to use its memory as one
learns to use a computer. The functions below are the equations, in the order in which a
step computes them; `DNC.__call__` is the step. Three, the large ones, are in
`fused.py`, each with its plain definition. Shapes: B examples, N words of W numbers, R
read heads, H write heads.

Where the paper and the released program differ, this is the program: strengths are
softplus, not oneplus = 1 + softplus (`strength`); no gradient flows from usage into the
write weightings it counts; usage is kept `EPSILON` above zero in the allocation;
everything that leaves the controller and the core is clipped (`clip`; 20 there, none in
the paper). The interface is the program's in another order of columns. The program has
no feed-forward controller: here it is a stack of ReLU layers.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator

import numpy as np

from .. import nn
from .. import primitives as p
from ..backend import namespace
from ..fused import content_weights, erase_and_write, temporal_links
from .core import Core
from .lstm import DeepLSTM

CONTROLLERS = ("lstm", "feedforward")
STRENGTHS = ("softplus", "oneplus")
EPSILON = 1e-6


def _product(factors):
    """The product of (B, K, N) over its K rows, exact in value and gradient also where
    some are zero.
    """
    return functools.reduce(operator.mul, p.unstack(factors, axis=1))


def update_usage(usage, write, read, free):
    """How much each word is in use: u' = (u + (1 - u) (1 - prod_h (1 - w_h))) prod_r (1
    - f_r w_r), in [0, 1].

    What was written in the last step is in use; what was read in the last step, and is
    now declared free, is not. usage (B, N), write (B, H, N) and read (B, R, N)
    weightings of the last step, free gates (B, R) of this one. No gradient flows into
    `write`.
    """
    written = 1 - _product(1 - p.stop_gradient(write))
    retained = _product(1 - p.expand_dims(free, -1) * read)
    return (usage + (1 - usage) * written) * retained


def allocation(usage):
    """A weighting that points at the word least in use: a_(k) = (1 - u_(k)) u_(1) ..
    u_(k-1), words in ascending order of usage u (B, N).

    The gradient flows through the values, not through the order, which jumps.
    """
    usage = EPSILON + (1 - EPSILON) * usage
    order = p.argsort(usage)
    ascending = p.take_along_axis(usage, order)
    one = namespace(order).ones((usage.shape[0], 1), usage.dtype)
    before = p.cumprod(p.concatenate([one, ascending[:, :-1]], axis=1), axis=1)
    return p.take_along_axis((1 - ascending) * before, p.argsort(order))


def allocations(usage, gates):
    """For each write head in turn a word to write to, (B, H, N): what one head takes is
    in use for the next.

    gates (B, H): how much each head will write, of that how much to its allocation.
    """
    found = [allocation(usage)]
    for gate in p.unstack(p.expand_dims(gates, -1), axis=1)[:-1]:  # (B, 1)
        usage = usage + (1 - usage) * gate * found[-1]
        found.append(allocation(usage))
    return p.stack(found, axis=1)


def follow_links(links, read):
    """Where last step's read weightings lead, (B, R, 2 H, N): by each head's links back
    in time, L^T w, then by each forward, L w.
    """
    read = p.expand_dims(read, 1)  # (B, 1, R, N)
    ways = [read @ links, read @ p.swapaxes(links, -1, -2)]  # each (B, H, R, N)
    return p.swapaxes(p.concatenate(ways, axis=1), 1, 2)


class DNC(Core):
    """A Differentiable Neural Computer; see the module's text.

    State, all zero at first: (memory (B, N, W), usage (B, N), links (B, H, N, N),
    precedence (B, H, N), write (B, H, N) and read (B, R, N) weightings, words read (B,
    R W), the controller's state). Output (B, output_size), a linear function of the
    controller's output and of the words read.

    Args:
        input_size, mem_slots, word_size: width of an input, N, W. hidden_size,
        layers: units of a layer of the controller, and how many it has (LSTM layers
        with skip connections). read_heads, write_heads: R, H. controller: "lstm" or
        "feedforward". strength: "softplus" (the released program) or "oneplus" (the
        paper). clip: bound on the controller's output and state and on the output;
        None: no bound. output_size: None for hidden_size. forget_bias: of the LSTM.
        dtype, seed: of the parameters.
    Raises ValueError or TypeError naming the argument.
    """

    def __init__(
        self,
        input_size,
        mem_slots,
        word_size,
        hidden_size,
        read_heads=1,
        write_heads=1,
        layers=1,
        controller="lstm",
        strength="softplus",
        clip=20.0,
        output_size=None,
        forget_bias=1.0,
        dtype=np.float32,
        seed=0,
    ):
        output_size = hidden_size if output_size is None else output_size
        nn.check_sizes(
            "DNC",
            input_size=input_size,
            mem_slots=mem_slots,
            word_size=word_size,
            hidden_size=hidden_size,
            read_heads=read_heads,
            write_heads=write_heads,
            layers=layers,
            output_size=output_size,
        )
        if controller not in CONTROLLERS:
            raise ValueError(
                f"DNC: controller must be 'lstm' or 'feedforward', not {controller!r}"
            )
        if strength not in STRENGTHS:
            raise ValueError(
                f"DNC: strength must be 'softplus' or 'oneplus', not {strength!r}"
            )
        if clip is not None and not nn.check_number("DNC", "clip", clip) > 0:
            raise ValueError(f"DNC: clip must be positive or None, not {clip!r}")
        self.input_size, self.mem_slots, self.word_size, self.output_size = (
            input_size,
            mem_slots,
            word_size,
            output_size,
        )
        self.read_heads, self.write_heads, self.strength, self.clip = (
            read_heads,
            write_heads,
            strength,
            clip,
        )
        rng = np.random.default_rng(seed)
        make, seen = {"dtype": dtype, "seed": rng}, input_size + read_heads * word_size
        if controller == "lstm":
            self.controller = DeepLSTM(seen, hidden_size, layers, forget_bias, **make)
            width = self.controller.output_size
        else:
            self.controller, width = (
                nn.MLP(seen, [hidden_size] * layers, activate_final=True, **make),
                hidden_size,
            )
        R, H, W = read_heads, write_heads, word_size
        self._told = {  # what the interface tells the heads, and the shape of it
            "write_keys": (H, W),
            "write_strengths": (H,),
            "erase": (H, W),
            "values": (H, W),
            "allocation_gates": (H,),
            "write_gates": (H,),
            "free_gates": (R,),
            "read_keys": (R, W),
            "read_strengths": (R,),
            "read_modes": (R, 1 + 2 * H),
        }
        columns = [math.prod(shape) for shape in self._told.values()]
        self._cuts = list(itertools.accumulate(columns))[:-1]
        self.interface = nn.Linear(width, sum(columns), **make)
        self.output = nn.Linear(width + R * W, output_size, **make)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters."""
        return self.interface.weight.dtype

    def _shapes(self, batch):
        """The shapes of the state, all but the controller's."""
        B, N, W, R, H = (
            batch,
            self.mem_slots,
            self.word_size,
            self.read_heads,
            self.write_heads,
        )
        return (
            (B, N, W),
            (B, N),
            (B, H, N, N),
            (B, H, N),
            (B, H, N),
            (B, R, N),
            (B, R * W),
        )

    def initial_state(self, batch_size):
        """An empty memory, for a batch: zeros of the shapes of the state."""
        nn.check_sizes("DNC", batch_size=batch_size)
        like = self.interface.weight.data
        zeros = tuple(
            namespace(like).zeros(shape, like.dtype)
            for shape in self._shapes(batch_size)
        )
        return *zeros, self.controller.initial_state(batch_size) if isinstance(
            self.controller, Core
        ) else ()

    def __call__(self, inputs, state, trace=None):
        """One step: inputs (B, input_size), state -> output (B, output_size), next
        state.

        `trace`, a list, receives one dict of arrays for the step: "write" (B, H, N) and
        "read" (B, R, N), the weightings, and "usage" (B, N), "allocation_gates" and
        "write_gates" (B, H), "free_gates" (B, R), "read_modes" (B, R, 2 H + 1): back,
        forward, content.
        """
        self._check(inputs, state)
        memory, usage, links, precedence, write, read, words, controller = state
        hidden, controller = self._control(
            p.concatenate([inputs, words], axis=1), controller
        )
        i = self._interface(hidden)

        usage = update_usage(usage, write, read, i["free_gates"])
        write = self._address_writing(memory, usage, i)
        memory = erase_and_write(memory, write, i["erase"], i["values"])

        links = temporal_links(links, write, precedence)
        precedence = (1 - p.sum(write, axis=-1, keepdims=True)) * precedence + write
        read = self._address_reading(memory, links, read, i)
        words = p.reshape(read @ memory, (inputs.shape[0], -1))

        if trace is not None:
            gates = {
                name: i[name].data
                for name in (
                    "allocation_gates",
                    "write_gates",
                    "free_gates",
                    "read_modes",
                )
            }
            trace.append(
                {"write": write.data, "read": read.data, "usage": usage.data, **gates}
            )
        output = self._clipped(self.output(p.concatenate([hidden, words], axis=1)))
        return output, (
            memory,
            usage,
            links,
            precedence,
            write,
            read,
            words,
            controller,
        )

    def _check(self, inputs, state):
        nn.check_array(
            "DNC",
            "inputs",
            inputs,
            (None, self.input_size),
            self.dtype,
            "see input_size",
        )
        shapes = self._shapes(inputs.shape[0])
        if len(state) != len(shapes) + 1:
            raise ValueError(
                f"DNC expects a state of {len(shapes) + 1} parts, got {len(state)}; "
                "see initial_state"
            )
        for array, shape in zip(
            state, shapes, strict=False
        ):  # a wrong one may broadcast and go unnoticed
            nn.check_array(
                "DNC", "a state", array, shape, self.dtype, "see initial_state"
            )

    def _clipped(self, x):
        return x if self.clip is None else p.clip(x, a_min=-self.clip, a_max=self.clip)

    def _control(self, seen, state):
        """The controller's output and next state, clipped."""
        if not isinstance(self.controller, Core):
            return self._clipped(self.controller(seen)), ()
        hidden, state = self.controller(seen, state)
        return self._clipped(hidden), tuple(
            (self._clipped(h), self._clipped(c)) for h, c in state
        )

    def _interface(self, hidden):
        """What the heads are told, by name: vectors (B, heads, columns) and numbers (B,
        heads).
        """
        parts = p.split(self.interface(hidden), self._cuts, axis=1)
        i = {
            name: p.reshape(part, (-1, *shape))
            for (name, shape), part in zip(self._told.items(), parts, strict=True)
        }
        for name in ("erase", "allocation_gates", "write_gates", "free_gates"):
            i[name] = p.sigmoid(i[name])
        for name in ("write_strengths", "read_strengths"):
            i[name] = (
                p.softplus(i[name]) + 1
                if self.strength == "oneplus"
                else p.softplus(i[name])
            )
        i["read_modes"] = p.softmax(i["read_modes"])
        return i

    def _address_writing(self, memory, usage, i):
        """w = g_w (g_a a + (1 - g_a) c): gates g, allocation a, content c. (B, H, N)"""
        a = allocations(usage, i["allocation_gates"] * i["write_gates"])
        c = content_weights(i["write_keys"], memory, i["write_strengths"])
        g_a, g_w = (
            p.expand_dims(i["allocation_gates"], -1),
            p.expand_dims(i["write_gates"], -1),
        )
        return g_w * (g_a * a + (1 - g_a) * c)

    def _address_reading(self, memory, links, read, i):
        """w = sum_m pi_m (way m): back and forward in time by the links of each write
        head, and by content. (B, R, N)
        """
        c = content_weights(i["read_keys"], memory, i["read_strengths"])
        ways = p.concatenate(
            [follow_links(links, read), p.expand_dims(c, 2)], axis=2
        )  # (B, R, 2 H + 1, N)
        return p.sum(p.expand_dims(i["read_modes"], -1) * ways, axis=2)
