"""DeltaNet (Schlag et al. 2021, Yang et al. 2024): a memory that writes what it lacks.

One block's `mix`, for the step's n (B, F), in each of H heads:

    q, k = normalised(silu(n W_q)), normalised(silu(n W_k))      of length 1
    v    = n W_v,  beta = sigmoid(n w_b + b)
    S    = a S'                             what is left of the memory before, (V, V)
    u    = beta (v - S^T k)                 what is missing at the key
    S    = S + k u^T
    mix  = (S^T q, the heads side by side) W_o

Linear attention writes k v^T on top of what is there, and keys that are alike blur. The
delta rule (Widrow and Hoff 1960) first looks up what the key finds, and writes the
difference: with beta = 1 and keys of length 1 it replaces the old value, and what lies
at right angles to k stays as it is. The same as a matrix: S = (I - beta k k^T) S' +
beta k v^T, one step of gradient descent on |S^T k - v|^2 / 2.

In DeltaNet a is 1. With `gated`, as in Gated DeltaNet (Yang et al. 2025), each head
also forgets at each step as it sees fit: `Decay` in chunks.py. Both programs
norm S^T q, and Gated DeltaNet has an output gate; these are left out here. Theirs have
a convolution and a SiLU for each of q, k and v, after the projections; the block has
one convolution for all, before them, and v no SiLU. Schlag et al. have no convolution,
map q and k to positive numbers, and divide each by its sum.

In chunks (Yang et al. 2024): inside a chunk of C steps, u_t needs u_s of all steps s
before it. With the memory S before the chunk, d_ts for what decay leaves of step s at
step t, and d_t for what it leaves of S,

    u_t + sum_{s<t} beta_t d_ts (k_t . k_s) u_s  =  beta_t (v_t - d_t S^T k_t)

is a triangular system of C rows. It is solved for both terms on the right before S is
known, for all chunks at once: U = U_v - U_k S. Then T / C steps of a memory remain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..autograd import primitives as p
from ..autograd.engine import Tensor
from ..backend.seeds import Seed
from ..config import check_least, check_values
from ..errors import check_switch
from ..fused import solve_lower
from ..nn import Linear
from .blocks import Blocks, Mixer, Times, register_blocks
from .chunks import Decay, decays, from_chunks, in_chunks
from .core import State, Step
from .entnet import normalised


class Delta(Mixer):
    """The memory of the delta rule: S (B, H, V, V), a row for each number of a key."""

    def __init__(self, units, num_heads, gated, chunk, dtype, seed):
        self.num_heads, self.chunk = num_heads, chunk
        self.qkv = Linear(units, 3 * units, bias=False, dtype=dtype, seed=seed)
        self.beta = Linear(units, num_heads, dtype=dtype, seed=seed)
        self.out = Linear(units, units, bias=False, dtype=dtype, seed=seed)
        self.decay = Decay(units, num_heads, dtype, seed) if gated else None
        size = units // num_heads
        self.shapes = ((num_heads, size, size),)

    def _projected(self, n: Tensor) -> tuple[Tensor, ...]:
        """q, k, v (..., H, V) and beta (..., H, 1)."""
        shape = *n.shape[:-1], self.num_heads, -1
        q, k, v = (p.reshape(x, shape) for x in p.split(self.qkv(n), 3, axis=-1))
        beta = p.expand_dims(p.sigmoid(self.beta(n)), -1)
        return normalised(p.silu(q)), normalised(p.silu(k)), v, beta

    def __call__(self, x: Tensor, state: State) -> Step:
        q, k, v, beta = self._projected(x)
        (memory,) = state
        if self.decay is not None:
            memory = p.exp(self.decay(x))[..., None, None] * memory
        found = (p.expand_dims(k, -2) @ memory)[..., 0, :]  # (B, H, V)
        missing = beta * (v - found)
        memory = memory + p.expand_dims(k, -1) * p.expand_dims(missing, -2)
        answer = (p.expand_dims(q, -2) @ memory)[..., 0, :]
        return self.out(p.reshape(answer, x.shape)), (memory,)

    def over_time(self, x: Tensor, state: State, times: Times) -> Step:
        """In chunks: c of C steps each."""
        q, k, v, beta = self._projected(x)
        beta, size = times.only_live(beta), min(self.chunk, times.steps)
        q, k, v, beta = (in_chunks(part, size) for part in (q, k, v, beta))
        log = times.xp.zeros((1, times.steps, 1), x.dtype)
        if self.decay is not None:
            log = times.only_live(self.decay(x))
        log = in_chunks(log, size)
        between, after, until, whole = decays(log, times.episodes)
        alike = p.swapaxes(k, -1, -2)  # (B, H, c, V, C)
        right = p.concatenate([beta * v, beta * after * k], axis=-1)
        solved = solve_lower(beta * between * (k @ alike), right)
        of_values, of_keys = p.split(solved, 2, axis=-1)  # U_v and U_k, (B, H, c, C, V)
        memory = state[0]
        before = []
        missing = []
        parts = of_values, of_keys, p.swapaxes(k * until, -1, -2), whole
        each = (p.unstack(part, axis=2) for part in parts)
        for own, others, keys, keeps in zip(*each, strict=True):
            before.append(memory)
            missing.append(own - others @ memory)
            memory = keeps * memory + keys @ missing[-1]
        here = (q @ alike * between) @ p.stack(missing, axis=2)
        found = here + (q * after) @ p.stack(before, axis=2)
        return self.out(from_chunks(found, times.steps)), (memory,)


class DeltaNet(Blocks, at_once=True):
    """Blocks with a memory that the delta rule writes.

    Args:
        input_size: width of an input.
        head_size, num_heads: V, H. A block is F = H V units wide, and its memory holds
            F V numbers.
        layers: blocks, one above the other.
        hidden_size: units inside the MLP; None: 4 F.
        conv: steps that the convolution sees; 1: no convolution.
        gated: whether the heads also forget (Gated DeltaNet).
        chunk: C, steps that are computed at once.
    """

    chunk: int

    def __init__(
        self,
        input_size: int,
        head_size: int,
        num_heads: int = 1,
        layers: int = 1,
        hidden_size: int | None = None,
        conv: int = 4,
        gated: bool = False,
        chunk: int = 32,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        self._set_sizes(chunk=chunk)
        check_switch("DeltaNet", "gated", gated)

        def make(units, rng):
            return Delta(units, num_heads, gated, chunk, dtype, rng)

        sizes = input_size, head_size, num_heads, layers, hidden_size, conv
        self._build(*sizes, make, dtype, seed)


# --- By name --------------------------------------------------------------------------


@dataclass(frozen=True)
class DeltaConfig:
    """The settings of the delta rule alone."""

    common: ClassVar = ()

    gated: bool = False
    """whether the heads also forget (Gated DeltaNet)"""
    conv: int = 4
    """steps that a convolution before the memory sees; 1: none"""
    chunk: int = 32
    """steps that are computed at once"""

    def __post_init__(self):
        check_values(self, "model.delta")
        check_least("model.delta", self, "conv", "chunk")


SAYS = "a memory that writes what it lacks, the delta rule (DeltaNet)"
register_blocks("delta", DeltaNet, DeltaConfig, SAYS, "#117733")
