"""Memories that forget, a chunk of steps at a time: what several cores have in common.

A memory S_t = a_t S_{t-1} + (what is written at step t) holds, at the end of C steps,
what was there before times a_1 ... a_C, and of step s what is left after it, times
a_{s+1} ... a_C. With these factors at hand, all C steps are a few products of matrices.
They are made of sums of logarithms, since products of small numbers vanish and cannot
be divided out again.
"""

from __future__ import annotations

import math

import numpy as np

from ..autograd import primitives as p
from ..autograd.engine import Parameter, Tensor
from ..backend import Array, namespace
from ..nn import Linear, Module


class Decay(Module):
    """The share that each of H heads keeps: log a = -exp(A) softplus(n w_a + b).

    At first exp(A) is 1, and b such that the first head keeps half of what it holds for
    2 steps, the last one for 256, and each between them for a fixed factor more.
    """

    def __init__(self, units, num_heads, dtype, seed):
        self.linear = Linear(units, num_heads, dtype=dtype, seed=seed)
        lives = 2.0 ** np.linspace(1, 8, num_heads)  # half-lives, in steps
        self.linear.bias.data = np.log(np.expm1(math.log(2) / lives)).astype(dtype)
        self.rate = Parameter(np.zeros(num_heads, dtype))

    def __call__(self, n: Tensor) -> Tensor:
        """log a, never positive, (..., H)."""
        return -p.exp(self.rate) * p.softplus(self.linear(n))


def decays(log: Tensor, episodes: Array | None) -> tuple[Tensor, ...]:
    """The shares that are left of what was written: log a (B, H, c, C) -> four factors.

    Between the steps of a chunk (B, H, c, C, C), row t of column s, zero where s > t;
    from the state before the chunk to each step, and from each step to the chunk's end,
    (B, H, c, C, 1); and over all of a chunk, (B, H, c, 1, 1). Nothing is left of what
    belongs to an episode (B, T) that is over.
    """
    xp, (*_, count, size) = namespace(log.data), log.shape
    total = p.cumsum(log, axis=-1)  # (B, H, c, C)
    whole = total[..., -1:]
    later = xp.arange(size)[:, None] >= xp.arange(size)
    exponents = [
        p.expand_dims(total, -1) - p.expand_dims(total, -2),
        p.expand_dims(total, -1),
        p.expand_dims(whole - total, -1),
        p.expand_dims(whole, -1),
    ]
    if episodes is None:
        masks = [later, None, None, None]
    else:
        more = xp.repeat(episodes[:, -1:], count * size - episodes.shape[1], axis=1)
        ids = xp.concatenate([episodes, more], axis=1)
        ids = ids.reshape(len(ids), 1, count, size)
        first = xp.zeros((len(ids), 1, 1, 1), ids.dtype)
        before = xp.concatenate([first, ids[:, :, :-1, -1:]], 2)
        end = ids[..., -1:]
        same = ids[..., :, None] == ids[..., None, :]
        others = (ids == before, ids == end, before == end)
        masks = [same & later, *(mask[..., None] for mask in others)]
    return tuple(
        p.exp(x if mask is None else p.where(mask, x, -math.inf))
        for x, mask in zip(exponents, masks, strict=True)
    )


def in_chunks(x: Tensor, size: int) -> Tensor:
    """x (B, T, H, ...) as (B, H, c, C, ...), with zeros after the last step."""
    batch, steps, heads, *rest = x.shape
    more = -steps % size
    x = p.pad(x, [(0, 0), (0, more), *[(0, 0)] * (x.ndim - 2)]) if more else x
    return p.reshape(p.swapaxes(x, 1, 2), (batch, heads, -1, size, *rest))


def from_chunks(x: Tensor, steps: int) -> Tensor:
    """Back again: (B, H, c, C, V) -> (B, T, H V)."""
    batch, heads, _, _, size = x.shape
    x = p.swapaxes(p.reshape(x, (batch, heads, -1, size)), 1, 2)[:, :steps]
    return p.reshape(x, (batch, steps, heads * size))
