"""Linear attention (Katharopoulos et al. 2020): a sum of what was written, and its sum.

One block's `mix`, for the step's n (B, F), in each of H heads:

    q, k = phi(n W_q), phi(n W_k)           phi(u) = elu(u) + 1, so all are positive
    v    = n W_v
    S    = a S' + k v^T                     the memory (V, V); S' is the one before
    z    = a z' + k                         how much was written in each direction
    mix  = (S^T q / z^T q, the heads side by side) W_o

Softmax attention weighs the value v_s by exp(q . k_s), this by phi(q) . phi(k_s). Then
the sum over s no longer needs the query: it is S, of one size for ever, and the
Transformer has become a recurrent network. But nothing is ever taken out of a sum.

The decay a is 1 in that paper. With `decay`, each head lets go of the old at each step
as it sees fit: log a = -exp(A) softplus(n w_a + b), as in Mamba-2 (Dao and Gu 2024) and
Gated DeltaNet. The matrix memory of xLSTM (Beck et al. 2024), mLSTM, is this with gates
of its own: a is its forget gate, the key comes with an exponential input gate, and the
divisor is |z^T q|, and 1 at least.

In chunks (Hua et al. 2022): inside a chunk of C steps compare every query with every
key, as attention does; what came before the chunk is in S alone. So T / C steps of a
memory remain, all else is products of matrices. chunks.py has the powers of a for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..autograd import primitives as p
from ..autograd.engine import Tensor
from ..backend import namespace
from ..backend.seeds import Seed
from ..config import check_least, check_values
from ..errors import check_switch
from ..nn import Linear
from .blocks import Blocks, Mixer, Times, register_blocks
from .chunks import Decay, decays, from_chunks, in_chunks
from .core import State, Step

EPSILON = 1e-6  # as the authors' program has it, so that nothing is divided by zero


class Sum(Mixer):
    """The memory of linear attention: S, and z as its last column, (B, H, V, V + 1)."""

    def __init__(self, units, num_heads, decay, chunk, dtype, seed):
        self.num_heads, self.chunk = num_heads, chunk
        self.qkv = Linear(units, 3 * units, bias=False, dtype=dtype, seed=seed)
        self.out = Linear(units, units, bias=False, dtype=dtype, seed=seed)
        self.decay = Decay(units, num_heads, dtype, seed) if decay else None
        size = units // num_heads
        self.shapes = ((num_heads, size, size + 1),)

    def _projected(self, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """phi(q), phi(k) (..., H, V), and v with a one behind it (..., H, V + 1)."""
        shape = *n.shape[:-1], self.num_heads, -1
        q, k, v = (p.reshape(x, shape) for x in p.split(self.qkv(n), 3, axis=-1))
        one = namespace(n.data).ones((*v.shape[:-1], 1), v.dtype)
        return positive(q), positive(k), p.concatenate([v, one], axis=-1)

    def _answer(self, found: Tensor) -> Tensor:
        """S^T q / z^T q, from both side by side."""
        size = found.shape[-1] - 1
        return found[..., :size] / (found[..., size:] + EPSILON)

    def __call__(self, x: Tensor, state: State) -> Step:
        q, k, v = self._projected(x)
        (memory,) = state
        if self.decay is not None:
            memory = p.exp(self.decay(x))[..., None, None] * memory
        memory = memory + p.expand_dims(k, -1) * p.expand_dims(v, -2)
        found = (p.expand_dims(q, -2) @ memory)[..., 0, :]  # (B, H, V + 1)
        return self.out(p.reshape(self._answer(found), x.shape)), (memory,)

    def over_time(self, x: Tensor, state: State, times: Times) -> Step:
        """In chunks: c of C steps each."""
        (q, k, v), size = self._projected(x), min(self.chunk, times.steps)
        q, k, v = (in_chunks(part, size) for part in (q, times.only_live(k), v))
        log = times.xp.zeros((1, times.steps, 1), x.dtype)
        if self.decay is not None:
            log = times.only_live(self.decay(x))
        log = in_chunks(log, size)
        between, after, until, whole = decays(log, times.episodes)
        written = p.swapaxes(k * until, -1, -2) @ v  # (B, H, c, V, V + 1)
        memory = state[0]
        before = []
        kept = p.unstack(whole, axis=2)
        for keeps, new in zip(kept, p.unstack(written, axis=2), strict=True):
            before.append(memory)
            memory = keeps * memory + new
        here = (q @ p.swapaxes(k, -1, -2) * between) @ v
        found = here + (q * after) @ p.stack(before, axis=2)
        return self.out(from_chunks(self._answer(found), times.steps)), (memory,)


def positive(u: Tensor) -> Tensor:
    """elu(u) + 1: u + 1 above zero, e^u below."""
    return p.relu(u) + p.exp(p.minimum(0.0, u))


class LinearAttention(Blocks, at_once=True):
    """Blocks of linear attention.

    Args:
        input_size: width of an input.
        head_size, num_heads: V, H. A block is F = H V units wide, and its memory holds
            F (V + 1) numbers.
        layers: blocks, one above the other.
        hidden_size: units inside the MLP; None: 4 F.
        conv: steps that the convolution sees; 1: no convolution, as in the paper.
        decay: whether the heads forget.
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
        decay: bool = False,
        chunk: int = 32,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        self._set_sizes(chunk=chunk)
        check_switch("LinearAttention", "decay", decay)

        def make(units, rng):
            return Sum(units, num_heads, decay, chunk, dtype, rng)

        sizes = input_size, head_size, num_heads, layers, hidden_size, conv
        self._build(*sizes, make, dtype, seed)


# --- By name --------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearAttentionConfig:
    """The settings of linear attention alone."""

    common: ClassVar = ()

    decay: bool = False
    """whether the heads forget"""
    conv: int = 4
    """steps that a convolution before attention sees; 1: none, as in the paper"""
    chunk: int = 32
    """steps that are computed at once"""

    def __post_init__(self):
        check_values(self, "model.linear_attention")
        check_least("model.linear_attention", self, "conv", "chunk")


SAYS = "a sum of keys times values (Katharopoulos et al. 2020)"
register_blocks(
    "linear_attention", LinearAttention, LinearAttentionConfig, SAYS, "#88CCEE"
)
