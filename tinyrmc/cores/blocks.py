"""The blocks that cores after the RMC are made of: one thing in them looks back.

    x = input W + b                     F = H V units, V for each of H heads
    for each layer:
        n = layer_norm(x)
        n = sum_j w_j * n_{t-j}         a convolution over the last `conv` steps
        x = x + mix(n)                  a `Mixer`: attention, or a memory with a rule
        x = x + MLP(layer_norm(x))      two linear layers with a ReLU between them
    output = layer_norm(x)

So these cores differ in `mix`, and in the convolution: the Transformer knows where
things stand and has none (conv = 1); the others have a short one, a number w_j for each
unit, as the programs of their authors do. A mixer knows one step, and all steps at
once. The step is the definition, and the tests hold the other against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..autograd import primitives as p
from ..autograd.engine import Parameter, Tensor
from ..backend import Array, namespace
from ..backend.seeds import Seed, generator
from ..errors import counted
from ..nn import MLP, LayerNorm, Linear, Module, truncated_normal
from ..nn.layers import is_a
from .config import CoreConfig, check_parts
from .core import Core, Inputs, State, Step, Steps
from .registry import register_core

Shape = tuple[int, ...]


class Times:
    """Marks of T steps at once: which of them count, and where sequences begin again.

    `lengths` and `is_first` are those of `Core.unroll`.
    """

    def __init__(self, xp: ModuleType, steps: int, lengths: Any, is_first: Any):
        self.xp = xp
        self.steps = steps
        self.lengths = lengths
        self.is_first = is_first

    @cached_property
    def live(self) -> Any:
        """Bool (B, T): steps that change the state. None: all of them do."""
        if self.lengths is None:
            return None
        return self.xp.arange(self.steps) < self.lengths[:, None]

    @cached_property
    def episodes(self) -> Any:
        """Integers (B, T): how often the sequence has begun again. The state from
        before belongs to number 0. None: nothing begins again.
        """
        if self.is_first is None:
            return None
        begins = self.is_first if self.live is None else self.is_first & self.live
        return self.xp.cumsum(begins, axis=1)

    def with_past(self, width: int) -> Array | None:
        """The episodes (B, width + T) of `width` steps before these, and of these."""
        if self.episodes is None:
            return None
        past = self.xp.zeros((len(self.episodes), width), self.episodes.dtype)
        return self.xp.concatenate([past, self.episodes], axis=1)

    def only_live(self, x: Tensor) -> Tensor:
        """x (B, T, ...) with zeros in the steps that do not count."""
        if self.live is None:
            return x
        return p.where(_like(self.live, x), x, 0.0)

    def last(self, x: Tensor, width: int) -> Tensor:
        """Of x (B, width + T, ...) the `width` steps before each sequence's end, with
        zeros in those that belong to an episode that is over.
        """
        ids = self.with_past(width)
        end = x[:, self.steps :]
        if self.lengths is not None:
            here = self.lengths.astype(np.intp)[:, None] + self.xp.arange(width)
            end = p.take_along_axis(x, _like(here, x), axis=1)
            ids = ids if ids is None else self.xp.take_along_axis(ids, here, axis=1)
        elif ids is not None:
            ids = ids[:, self.steps :]
        if ids is None or self.episodes is None:
            return end
        return p.where(_like(ids == self.episodes[:, -1:], x), end, 0.0)


def _like(array: Array, x: Tensor) -> Array:
    """An array (B, T) with as many axes as x."""
    return array.reshape(*array.shape, *[1] * (x.ndim - 2))


class Mixer(Module):
    """The part of a block that mixes time steps: inputs of F units, a state of arrays.

    `shapes`: those of the state's arrays for one example; they start at zero.
    """

    shapes: tuple[Shape, ...]

    def __call__(self, x: Tensor, state: State) -> Step:
        """One step: x (B, F), state -> (B, F), the next state."""
        raise NotImplementedError

    def over_time(self, x: Tensor, state: State, times: Times) -> Step:
        """All steps at once: x (B, T, F), state -> (B, T, F), the last state."""
        raise NotImplementedError


class ShortConvolution(Mixer):
    """y_t = sum_j w_j * x_{t-j} over the last `width` steps, unit by unit."""

    def __init__(self, units: int, width: int, dtype: npt.DTypeLike, seed: Seed):
        rng = generator(seed)
        std = width**-0.5
        self.weight = Parameter(truncated_normal(rng, (width, units), std, dtype))
        self.shapes = ((width - 1, units),)

    def __call__(self, x: Tensor, state: State) -> Step:
        past = p.concatenate([state[0], p.expand_dims(x, 1)], axis=1)  # (B, width, F)
        return p.sum(past * self.weight, axis=1), (past[:, 1:],)

    def over_time(self, x: Tensor, state: State, times: Times) -> Step:
        past, width = p.concatenate([state[0], x], axis=1), len(self.weight.data)
        ids = times.with_past(width - 1)
        terms = []
        for j, weight in enumerate(p.unstack(self.weight)):  # the oldest first
            seen = past[:, j : j + times.steps]
            if ids is not None:
                same = ids[:, j : j + times.steps] == times.episodes
                seen = p.where(same[..., None], seen, 0.0)
            terms.append(seen * weight)
        return sum(terms[1:], terms[0]), (times.last(past, width - 1),)


class Blocks(Core, at_once=True):
    """A core of `layers` blocks. A subclass makes its mixers and calls `_build`.

    The state is a tuple with a tuple of arrays for each layer: the mixer's, and with a
    convolution of more than one step the last conv - 1 inputs of that.
    """

    any_weight = "input_projection.weight"
    head_size: int
    num_heads: int
    layers: int
    conv: int

    def _build(
        self,
        input_size: int,
        head_size: int,
        num_heads: int,
        layers: int,
        hidden_size: int | None,
        conv: int,
        make: Callable[[int, np.random.Generator], Mixer],
        dtype: npt.DTypeLike,
        seed: Seed,
    ) -> None:
        """The layers, around mixers that `make` gives for F units and a Generator. The
        MLP has `hidden_size` units inside; None: 4 F.
        """
        self._set_sizes(input_size=input_size, head_size=head_size, num_heads=num_heads)
        units = head_size * num_heads
        rng = generator(seed)
        hidden = 4 * units if hidden_size is None else hidden_size
        self._set_sizes(layers=layers, hidden_size=hidden, conv=conv)
        self.output_size = units
        self.input_projection = Linear(input_size, units, dtype=dtype, seed=rng)
        self.blocks: list[dict[str, Any]] = []
        for _ in range(layers):
            block: dict[str, Any] = {"norm": LayerNorm(units, dtype)}
            block["mix"] = [make(units, rng)]
            if conv > 1:
                block["mix"].insert(0, ShortConvolution(units, conv, dtype, rng))
            block["mlp_norm"] = LayerNorm(units, dtype)
            block["mlp"] = MLP(units, [hidden, units], dtype=dtype, seed=rng)
            self.blocks.append(block)
        self.norm = LayerNorm(units, dtype)

    def initial_state(self, batch_size: int) -> State:
        """Zeros, for each layer."""
        return tuple(
            tuple(self.zeros(batch_size, *shape) for shape in _shapes(block))
            for block in self.blocks
        )

    def __call__(self, inputs: Inputs, state: State, trace: Any = None) -> Step:
        """One step: inputs (B, input_size), state -> output (B, F), the next state."""
        self._check_inputs(inputs, None, self.input_size)
        return self._through(lambda mixer, *given: mixer(*given), inputs, state)

    def _unroll_at_once(self, inputs, state, lengths, is_first) -> Steps | None:
        """Layer after layer, each over all steps; a single step is quicker alone."""
        if inputs.shape[1] == 1:
            return None
        self._check_inputs(inputs, None, None, self.input_size)
        xp = namespace(self._weight().data)
        times = Times(xp, inputs.shape[1], lengths, is_first)

        def mix(mixer, x, before):
            return mixer.over_time(x, before, times)

        outputs, state = self._through(mix, inputs, state)
        return list(p.unstack(outputs, axis=1)), state

    def _layers_known(self) -> bool:
        """Whether all modules inside are ours: they are called for all steps at once,
        and those of others may look at more than a row.
        """
        ours = f"{__package__.partition('.')[0]}."
        return all(
            type(part).__module__.startswith(ours) and is_a(part, type(part))
            for part in _parts(self)
        )

    def _through(self, mix: Callable[..., Step], inputs: Inputs, state: State) -> Step:
        """The layers one after the other, over one step or all."""
        given = len(state) if isinstance(state, tuple | list) else type(state).__name__
        if given != len(self.blocks):
            name = type(self).__name__
            raise ValueError(
                f"{name} expects a state of {len(self.blocks)} layers, got {given}; "
                "see initial_state"
            )
        x = self.input_projection(inputs)
        after = []
        for block, before in zip(self.blocks, state, strict=True):
            for array, shape in zip(before, _shapes(block), strict=True):
                self._check_state(array, inputs.shape[0], *shape)
            n, own = block["norm"](x), tuple(before[:0])
            for mixer in block["mix"]:
                count = len(own)
                n, new = mix(mixer, n, before[count : count + len(mixer.shapes)])
                own = (*own, *new)
            x = x + n
            x = x + block["mlp"](block["mlp_norm"](x))
            after.append(own)
        return self.norm(x), tuple(after)


def _shapes(block: dict[str, Any]) -> list[Shape]:
    return [shape for mixer in block["mix"] for shape in mixer.shapes]


def _parts(value: Any) -> Iterator[Module]:
    """All modules below a module, a list or a dict."""
    inside: Any = ()
    if isinstance(value, Module):
        inside = vars(value).values()
    elif isinstance(value, (list, tuple, dict)):
        inside = value.values() if isinstance(value, dict) else value
    for part in inside:
        if isinstance(part, Module):
            yield part
        yield from _parts(part)


# --- By name --------------------------------------------------------------------------

SIZES = "head_size", "num_heads", "total_units", "hidden_size", "layers"


def register_blocks(name: str, kind: Any, config: type, says: str, colour: str) -> None:
    """Enter such a core by its name: `register_core` for what they have in common.

    config: the dataclass of its own settings. says: what it is, in a few words.
    """

    def build(c: CoreConfig, input_size: int, seed: Seed) -> Blocks:
        units = c.total_units or c.num_heads * c.head_size
        sizes = {"head_size": units // c.num_heads, "num_heads": c.num_heads}
        sizes |= {"layers": c.layers, "hidden_size": c.hidden_size}
        return kind(input_size, **sizes, **vars(c.own), seed=seed)

    def size(c: CoreConfig, core: Any) -> str:
        layers = counted(core.layers, "layer")
        return f", {layers} of {core.output_size} units, {counted(c.num_heads, 'head')}"

    def whole_heads(c: CoreConfig) -> None:
        check_parts(c, c.num_heads, f"{c.num_heads} heads")

    build.__doc__ = says
    own: dict[str, Any] = {
        "used": SIZES,
        "size": size,
        "check": whole_heads,
        "colour": colour,
    }
    register_core(name, config=config, **own)(build)
