"""The Differentiable Neural Computer as its authors released it.

Graves et al. 2016, Nature 538: a network with a memory beside it. A controller, an LSTM
say, sees the input and what was read a step before. From its output one linear layer
makes the interface, everything that the heads want: what to write, where, what to
forget, what to look for. The memory is a matrix of N words. A head is a weighting over
them, in the simplex: not negative, sum at most 1. There are three ways to find a word:

    by content      the word most like a key: `content_weights`
    by vacancy      the word least in use, for writing: `update_usage`, `allocation`
    by time         the word written after, or before, the one just read:
                    `temporal_links`, `follow_links`

The functions below are the equations, in the order in which a step computes them;
`DNC.__call__` is the step. The three large ones are in `fused/addressing.py`, each with
its plain definition. Shapes: B examples, N words of W numbers, R read heads, H write
heads.

Where the paper and the released program differ, this follows the program: strengths are
softplus, not oneplus = 1 + softplus (`strength`); no gradient flows from usage into the
write weightings it counts; usage is kept `EPSILON` above zero in the allocation; and
everything that leaves the controller and the core is clipped (`clip`; 20 there, none in
the paper). The interface is the program's, with its columns in another order. The
program has no feed-forward controller: here it is a stack of ReLU layers.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from .. import nn
from ..autograd import primitives as p
from ..autograd.engine import Tensor
from ..backend import namespace
from ..backend.seeds import Seed, generator
from ..config import check_least, check_values, check_within
from ..errors import check_choice, check_number, counted
from ..fused import content_weights, erase_and_write, temporal_links
from .config import CoreConfig
from .core import Core, Inputs, State, Step, Trace, map_state
from .lstm import LAYER, DeepLSTM
from .registry import register_core

EPSILON = 1e-6


def _product(factors):
    """The product of (B, K, N) over its K rows, exact also where some are zero."""
    return functools.reduce(operator.mul, p.unstack(factors, axis=1))


def update_usage(usage, write, read, free) -> Tensor:
    """The usage of each word, in [0, 1].

    u' = (u + (1 - u) (1 - prod_h (1 - w_h))) prod_r (1 - f_r w_r): what was written in
    the last step is in use, unless it was read in the last step and is now declared
    free. usage (B, N), write (B, H, N) and read (B, R, N) weightings of the last step,
    free gates (B, R) of this one. No gradient flows into `write`.
    """
    written = 1 - _product(1 - p.stop_gradient(write))
    retained = _product(1 - p.expand_dims(free, -1) * read)
    return (usage + (1 - usage) * written) * retained


def allocation(usage) -> Tensor:
    """A weighting that points at the word least in use. (B, N)

    a_(k) = (1 - u_(k)) u_(1) .. u_(k-1), with the words in ascending order of usage u
    (B, N). The gradient flows through the values, not through the order, which jumps.
    """
    usage = EPSILON + (1 - EPSILON) * usage
    order = p.argsort(usage)
    ascending = p.take_along_axis(usage, order)
    one = namespace(order).ones((usage.shape[0], 1), usage.dtype)
    before = p.cumprod(p.concatenate([one, ascending[:, :-1]], axis=1), axis=1)
    return p.take_along_axis((1 - ascending) * before, p.argsort(order))


def allocations(usage, gates) -> Tensor:
    """A word to write to for each write head in turn, (B, H, N).

    What one head takes is in use for the next. gates (B, H): how much each head will
    write, times how much of that goes to its allocation.
    """
    weightings = [allocation(usage)]
    for gate in p.unstack(p.expand_dims(gates, -1), axis=1)[:-1]:  # (B, 1)
        usage = usage + (1 - usage) * gate * weightings[-1]
        weightings.append(allocation(usage))
    return p.stack(weightings, axis=1)


def follow_links(links, read) -> Tensor:
    """Where last step's read weightings lead, (B, R, 2 H, N): along each head's links
    back in time, L^T w, then forward, L w.
    """
    read = p.expand_dims(read, 1)  # (B, 1, R, N)
    ways = [read @ links, read @ p.swapaxes(links, -1, -2)]  # each (B, H, R, N)
    return p.swapaxes(p.concatenate(ways, axis=1), 1, 2)


class DNC(Core):
    """A Differentiable Neural Computer; see the module's text.

    The state starts at zero. It is (memory (B, N, W), usage (B, N), links (B, H, N, N),
    precedence (B, H, N), write (B, H, N) and read (B, R, N) weightings, words read (B,
    R W), the controller's state). The output (B, output_size) is a linear function of
    the controller's output and of the words read.

    Args:
        input_size, mem_slots, word_size: width of an input, N, W.
        hidden_size, layers: units of a layer of the controller, and how many layers it
            has (LSTM layers with skip connections).
        read_heads, write_heads: R, H.
        controller: "lstm" or "feedforward".
        strength: "softplus" (the released program) or "oneplus" (the paper).
        clip: bound on the controller's output and state, and on the output; None: no
            bound.
        output_size: None for hidden_size.
        forget_bias: of the LSTM.
    """

    any_weight = "interface.weight"
    mem_slots: int
    word_size: int
    read_heads: int
    write_heads: int

    def __init__(
        self,
        input_size: int,
        mem_slots: int,
        word_size: int,
        hidden_size: int,
        read_heads: int = 1,
        write_heads: int = 1,
        layers: int = 1,
        controller: Literal["lstm", "feedforward"] = "lstm",
        strength: Literal["softplus", "oneplus"] = "softplus",
        clip: float | None = 20.0,
        output_size: int | None = None,
        forget_bias: float = 1.0,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        output_size = hidden_size if output_size is None else output_size
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "layers": layers}
        sizes |= {"mem_slots": mem_slots, "word_size": word_size}
        sizes |= {"read_heads": read_heads, "write_heads": write_heads}
        self._set_sizes(**sizes, output_size=output_size)
        check_choice("DNC", "controller", controller, "lstm", "feedforward")
        check_choice("DNC", "strength", strength, "softplus", "oneplus")
        if clip is not None:
            check_number("DNC", "clip", clip, "(0, inf]")
        self.strength, self.clip = strength, clip
        R = read_heads
        H = write_heads
        W = word_size
        self._parts: dict[str, tuple[int, ...]] = {  # in the order of the columns
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
        columns = [math.prod(shape) for shape in self._parts.values()]
        self._cuts = list(itertools.accumulate(columns))[:-1]

        make: dict[str, Any] = {"dtype": dtype, "seed": generator(seed)}
        read = read_heads * word_size  # numbers read in a step, R W
        seen = input_size + read
        width = hidden_size
        self.controller: DeepLSTM | nn.MLP
        if controller == "lstm":
            self.controller = DeepLSTM(seen, hidden_size, layers, forget_bias, **make)
            width = self.controller.output_size
        else:
            hidden = [hidden_size] * layers
            self.controller = nn.MLP(seen, hidden, activate_final=True, **make)
        self.interface = nn.Linear(width, sum(columns), **make)
        self.output = nn.Linear(width + read, output_size, **make)

    def _shapes(self, batch: int) -> list[tuple[int, ...]]:
        """The shapes of the state, all but the controller's."""
        B = batch
        N = self.mem_slots
        W = self.word_size
        R, H = self.read_heads, self.write_heads
        memory = (B, N, W)
        usage = (B, N)
        links = (B, H, N, N)
        words = (B, R * W)
        precedence = (B, H, N)
        write = (B, H, N)
        read = (B, R, N)
        return [memory, usage, links, precedence, write, read, words]

    def initial_state(self, batch_size: int) -> State:
        """An empty memory, for a batch."""
        zeros = [self.zeros(*shape) for shape in self._shapes(batch_size)]
        if isinstance(self.controller, Core):
            return *zeros, self.controller.initial_state(batch_size)
        return *zeros, ()

    def __call__(self, inputs: Inputs, state: State, trace: Trace = None) -> Step:
        """One step: inputs (B, input_size), state -> output (B, output_size), state.

        `trace` receives the step's weightings "write" (B, H, N) and "read" (B, R, N),
        "usage" (B, N), "allocation_gates" and "write_gates" (B, H), "free_gates" (B,
        R), and "read_modes" (B, R, 2 H + 1): back, forward, content.
        """
        self._check_inputs(inputs, None, self.input_size)
        *arrays, _ = state
        for array, shape in zip(arrays, self._shapes(inputs.shape[0]), strict=True):
            self._check_state(array, *shape)
        memory, usage, links, precedence, write, read, words, controller = state
        seen = p.concatenate([inputs, words], axis=1)
        if isinstance(self.controller, Core):
            hidden, controller = self.controller(seen, controller)
            controller = map_state(self._clipped, controller)
        else:
            hidden = self.controller(seen)
        hidden = self._clipped(hidden)
        interface = self._interface(hidden)

        usage = update_usage(usage, write, read, interface["free_gates"])
        write = self._address_writing(memory, usage, interface)
        memory = erase_and_write(memory, write, interface["erase"], interface["values"])

        links = temporal_links(links, write, precedence)
        precedence = (1 - p.sum(write, axis=-1, keepdims=True)) * precedence + write
        read = self._address_reading(memory, links, read, interface)
        words = p.reshape(read @ memory, (inputs.shape[0], -1))  # (B, R W)

        if trace is not None:
            names = "allocation_gates", "write_gates", "free_gates", "read_modes"
            looked_at = {"write": write, "read": read, "usage": usage}
            looked_at |= {name: interface[name] for name in names}
            trace.append({name: tensor.data for name, tensor in looked_at.items()})
        output = self._clipped(self.output(p.concatenate([hidden, words], axis=1)))
        state = memory, usage, links, precedence, write, read, words, controller
        return output, state

    def _clipped(self, x):
        return x if self.clip is None else p.clip(x, a_min=-self.clip, a_max=self.clip)

    def _interface(self, hidden) -> dict[str, Tensor]:
        """The words to the heads, by name: (B, heads, columns) and (B, heads)."""
        parts = p.split(self.interface(hidden), self._cuts, axis=1)
        interface = {
            name: p.reshape(part, (-1, *shape))
            for (name, shape), part in zip(self._parts.items(), parts, strict=True)
        }
        for name in ("erase", "allocation_gates", "write_gates", "free_gates"):
            interface[name] = p.sigmoid(interface[name])
        for name in ("write_strengths", "read_strengths"):
            interface[name] = p.softplus(interface[name])
            if self.strength == "oneplus":
                interface[name] = interface[name] + 1
        interface["read_modes"] = p.softmax(interface["read_modes"])
        return interface

    def _address_writing(self, memory, usage, interface):
        """w = g_w (g_a a + (1 - g_a) c): gates g, allocation a, content c. (B, H, N)"""
        a = allocations(usage, interface["allocation_gates"] * interface["write_gates"])
        c = content_weights(
            interface["write_keys"], memory, interface["write_strengths"]
        )
        g_a = p.expand_dims(interface["allocation_gates"], -1)
        g_w = p.expand_dims(interface["write_gates"], -1)
        return g_w * (g_a * a + (1 - g_a) * c)

    def _address_reading(self, memory, links, read, interface):
        """w = sum_m pi_m (way m), (B, R, N): back and forward in time, by content."""
        c = content_weights(interface["read_keys"], memory, interface["read_strengths"])
        ways = [follow_links(links, read), p.expand_dims(c, 2)]
        shares = p.expand_dims(interface["read_modes"], -1)  # (B, R, 2 H + 1, 1)
        return p.sum(shares * p.concatenate(ways, axis=2), axis=2)


# --- By name --------------------------------------------------------------------------


@dataclass(frozen=True)
class DNCConfig:
    """The settings of the Differentiable Neural Computer alone. It has model.mem_slots
    words, and its controller is model.layers x hidden_size.
    """

    common: ClassVar = ()

    word_size: int = 64
    """numbers W in a word of memory, unless model.total_units decides that"""
    read_heads: int = 4
    """read heads R"""
    write_heads: int = 1
    """write heads"""
    controller: Literal["lstm", "feedforward"] = "lstm"
    """LSTM layers with skip connections, or ReLU layers without a memory"""
    strength: Literal["softplus", "oneplus"] = "softplus"
    """how sharply a key selects: softplus (the released program) or oneplus, at least 1
    (the paper)
    """
    clip: float | None = 20.0
    """bound on the controller's output and state, and the core's output; None: none"""

    def __post_init__(self):
        check_values(self, "model.dnc")
        check_least("model.dnc", self, "word_size", "read_heads", "write_heads")
        check_within("model.dnc", self, "(0, inf]", "clip")


def _size(c: CoreConfig, core: Any) -> str:
    layers = f"{c.layers} layers of " if c.layers > 1 and c.uses("layers") else ""
    return (
        f", {counted(c.mem_slots, 'word')} x {core.word_size}, {core.read_heads} read "
        f"and {core.write_heads} write heads, {c.own.controller} controller of "
        f"{layers}{c.hidden_size} units"
    )


@register_core(
    "dnc",
    config=DNCConfig,
    used=(*LAYER, "mem_slots", "layers", "forget_bias"),
    size=_size,
    colour="#009E73",
)
def _dnc(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    """the Differentiable Neural Computer"""
    own = vars(c.own) | {"hidden_size": c.hidden_size, "layers": c.layers}
    if c.total_units is not None:
        own["word_size"] = c.slot_size
    own["forget_bias"] = c.forget_bias
    return DNC(input_size, c.mem_slots, **own, seed=seed)
