"""The Transformer (Vaswani et al. 2017) as a core: its state is what it has read.

`mix`, for the step's n (B, F), in each of H heads:

    q, k, v = n W_q, n W_k, n W_v           (B, V) each
    a       = softmax(R(t) q . R(s) k_s / sqrt(V))    s: the last `window` steps, and t
    mix     = (sum_s a_s v_s, the heads side by side) W_o

Positions are rotary (Su et al. 2021): R(t) turns each pair of numbers (u_j, u_{j+V/2})
by the angle t / 10000^(2j/V). What a query and a key make of each other then depends on
the distance t - s alone. Learned positions have an end; these go on for ever, so that a
window can slide over a text, and a state be carried on. A state of keys and values is a
memory without a rule of writing: each layer keeps all for `window` steps, and then
nothing. (So L layers reach back L times as far.)
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..autograd import primitives as p
from ..autograd.engine import Tensor
from ..backend import Array, namespace
from ..backend.seeds import Seed
from ..config import check_least, check_values
from ..errors import check_choice
from ..nn import Constant, Linear
from .blocks import Blocks, Mixer, Times, register_blocks
from .core import State, Step

QUERIES = 128  # that are answered at once, of a long sequence


class Attention(Mixer):
    """Causal self-attention of H heads over a window that slides.

    State: keys and values (B, window, F), before they are turned, the newest last, and
    which of them there are (B, window): 1, or 0 where the sequence had not begun.
    """

    def __init__(self, units, num_heads, window, rotary, dtype, seed):
        self.num_heads = num_heads
        self.window = window
        self.rotary = rotary
        self.qkv = Linear(units, 3 * units, bias=False, dtype=dtype, seed=seed)
        self.out = Linear(units, units, bias=False, dtype=dtype, seed=seed)
        self.shapes = (window, units), (window, units), (window,)

    def __call__(self, x: Tensor, state: State) -> Step:
        """One step: as all steps, for one of them."""
        one = Times(namespace(x.data), 1, None, None)
        y, state = self.over_time(p.expand_dims(x, 1), state, one)
        return y[:, 0], state

    def over_time(self, x: Tensor, state: State, times: Times) -> Step:
        """QUERIES steps at a time, each of which sees the keys before it in reach."""
        xp = times.xp
        reach = self.window
        steps = times.steps
        q, *new = p.split(self.qkv(x), 3, axis=-1)  # (B, T, F) each
        pairs = zip(state, [*new, xp.ones(x.shape[:2], x.dtype)], strict=True)
        buffers = [p.concatenate([*pair], axis=1) for pair in pairs]
        ids, seen = times.with_past(reach), buffers[2].data.real > 0  # (B, window + T)
        # leave out what nobody has; on a GPU, looking would mean waiting
        first = int(seen.any(axis=0).argmax()) if xp is np else 0
        everyone = xp is np and seen[:, first:].all()
        places = range(QUERIES, steps, QUERIES)
        cut = (p.split(part, [*places], axis=1) for part in (q, *new))
        blocks, answers = [*zip(*cut, strict=True)], []
        for number, start in enumerate([0, *places]):
            oldest = max(0, start - reach) // QUERIES
            known = [block[1:] for block in blocks[oldest : number + 1]]
            base = reach + oldest * QUERIES
            stop = min(start + QUERIES, steps)
            if start < reach and first < reach:  # those from before, too
                known.insert(0, (state[0][:, first:], state[1][:, first:]))
                base = first
            # the key of step t is at t + window
            ahead = xp.arange(base, reach + stop) - xp.arange(start, stop)[:, None]
            may = (ahead >= 0) & (ahead <= reach)
            there = slice(base, reach + stop)
            if not everyone:
                may = may & seen[:, None, None, there]
            if ids is not None:
                own = ids[:, reach + start : reach + stop]
                may = may & (ids[:, None, None, there] == own[:, None, :, None])
            k, v = (p.concatenate([*part], axis=1) for part in zip(*known, strict=True))
            shift = reach + start - base
            answers.append(self._attend(blocks[number][0], k, v, may, shift))
        after = tuple(times.last(buffer, reach) for buffer in buffers)
        return self.out(p.concatenate(answers, axis=1)), after

    def _attend(self, q, k, v, may, shift) -> Tensor:
        """The answers (B, Q, F) to queries; that of row i is `shift` + i keys in."""
        q, k, v = (self._heads(x) for x in (q, k, v))  # (B, H, ..., V)
        xp = namespace(may)
        size = q.shape[-1]
        if self.rotary:
            turns = _turns(self.window + 2 * QUERIES, size).on(
                xp, q.dtype
            )  # (2, length, V / 2)
            q = rotated(q, turns[:, shift : shift + q.shape[2]])
            k = rotated(k, turns[:, : k.shape[2]])
        scores = q * (1 / math.sqrt(size)) @ p.swapaxes(k, -1, -2)  # (B, H, Q, ...)
        # added, which costs a third of `where` on arrays as large as these
        number = q.dtype.type
        weights = p.softmax(scores + xp.where(may, number(0), number(-math.inf)))
        answers = p.swapaxes(weights @ v, 1, 2)  # (B, Q, H, V)
        return p.reshape(answers, (*answers.shape[:2], -1))

    def _heads(self, x: Tensor) -> Tensor:
        return p.swapaxes(p.reshape(x, (*x.shape[:2], self.num_heads, -1)), 1, 2)


def rotated(x: Tensor, turns: Array) -> Tensor:
    """x (..., R, V), turned by angles of the cosines and sines (2, R, V / 2)."""
    cos, sin = turns
    one, other = p.split(x, 2, axis=-1)
    return p.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)


@functools.cache
def _turns(length: int, size: int) -> Constant:
    speeds = 10_000.0 ** (-np.arange(0, size, 2) / size)
    angles = np.arange(length)[:, None] * speeds
    return Constant(np.stack([np.cos(angles), np.sin(angles)]))


class Transformer(Blocks, at_once=True):
    """A Transformer's decoder: blocks of causal self-attention, pre-norm.

    Args:
        input_size: width of an input.
        head_size, num_heads: V, H. A block is F = H V units wide; V is even.
        layers: blocks, one above the other.
        window: how many steps before this one a step can see.
        hidden_size: units inside the MLP; None: 4 F.
        positions: "rotary", or "none".
    """

    window: int

    def __init__(
        self,
        input_size: int,
        head_size: int,
        num_heads: int = 1,
        layers: int = 1,
        window: int = 128,
        hidden_size: int | None = None,
        positions: Literal["rotary", "none"] = "rotary",
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        self._set_sizes(window=window)
        check_choice("Transformer", "positions", positions, "rotary", "none")

        def make(units, rng):
            rotary = positions == "rotary"
            return Attention(units, num_heads, window, rotary, dtype, rng)

        sizes = input_size, head_size, num_heads, layers, hidden_size, 1
        self._build(*sizes, make, dtype, seed)
        if positions == "rotary" and head_size % 2:
            raise ValueError(
                "Transformer: rotary positions turn pairs of numbers, so head_size "
                f"must be even, not {head_size}"
            )


# --- By name --------------------------------------------------------------------------


@dataclass(frozen=True)
class TransformerConfig:
    """The settings of the Transformer alone."""

    common: ClassVar = ()

    window: int = 128
    """how many steps before this one a step can see"""
    positions: Literal["rotary", "none"] = "rotary"
    """where things stand: rotary, how far back; none, nothing but that it is past"""

    def __post_init__(self):
        check_values(self, "model.transformer")
        check_least("model.transformer", self, "window")


SAYS = "causal self-attention over a window of past steps (Vaswani et al. 2017)"
register_blocks("transformer", Transformer, TransformerConfig, SAYS, "#332288")
