"""A selective state space (Mamba, Gu and Dao 2023), in its simplest form.

One block's `mix`, for the step's n (B, F), with N numbers of state for each unit:

    x     = silu(n W_x)                     (F) what goes in
    D     = softplus(n W_d + b_d)           (F) how long the step lasts for each unit
    B, C  = n W_B, n W_C                    (N) where it is written, where it is read
    h     = exp(D A) * h' + (D x) B^T       (F, N) the state; A = -exp(A_log)
    y     = h C + G * x                     (F)
    mix   = (y * silu(n W_z)) W_o

h' = A h + B x is a linear differential equation. Over a step that lasts D it becomes
the third line (the paper's equation 4; B by Euler's rule, as in its program). A long
step writes much and forgets much, a short one leaves the state as it is. D, B and C
depend on the input: that is what "selective" means, and what the state spaces before it
(S4) had not, which could not choose what to keep.

Beside linear attention, C is the query, B the key and D x the value. The keys are
common to all units, which are heads of one number each; and every number of a state
decays at a speed of its own. So no product of matrices does a chunk of steps at once.
Two steps h -> a h + b are one such step again, so Mamba's program can do many at once
by a parallel scan; here the scan goes through them one by one, number by number
(`fused.linear_scan`). Mamba-2 (Dao and Gu 2024) gives each head one speed, and is
linear attention with a decay.

Here the block is as for the other cores, and x, D, B, C and z all come from its n,
after one convolution. Mamba has no MLP, and is twice as wide inside for it; there D, B
and C come from x, after its convolution and SiLU, D through a narrower layer, and no
convolution reaches z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..autograd import primitives as p
from ..autograd.engine import Parameter, Tensor
from ..backend.seeds import Seed
from ..config import check_least, check_values
from ..fused import linear_scan
from ..nn import Linear
from .blocks import Blocks, Mixer, Times, register_blocks
from .core import State, Step


class Selective(Mixer):
    """The state space: h (B, F, N).

    At first A is -1, -2, ..., -N for each unit (S4D-real), and the steps of the units
    last from 0.001 to 0.1, as in the authors' program; G is 1.
    """

    def __init__(self, units, state_size, dtype, seed):
        sizes = units, units, state_size, state_size  # z, x, B, C
        self.cuts = np.cumsum(sizes)[:-1].tolist()
        self.projection = Linear(units, sum(sizes), bias=False, dtype=dtype, seed=seed)
        self.duration = Linear(units, units, dtype=dtype, seed=seed)
        lasts = np.exp(seed.uniform(np.log(1e-3), np.log(0.1), units))
        self.duration.bias.data = np.log(np.expm1(lasts)).astype(dtype)
        speeds = np.log(np.arange(1, state_size + 1)) * np.ones((units, 1))
        self.A_log = Parameter(speeds.astype(dtype))
        self.through = Parameter(np.ones(units, dtype))
        self.out = Linear(units, units, bias=False, dtype=dtype, seed=seed)
        self.shapes = ((units, state_size),)

    def _projected(self, n: Tensor, times: Times | None) -> tuple[Tensor, ...]:
        """z, x (..., F), C (..., N), and what a step keeps and adds, (..., F, N)."""
        z, x, B, C = p.split(self.projection(n), self.cuts, axis=-1)
        x, duration = p.silu(x), p.softplus(self.duration(n))
        if times is not None:  # a step that lasts no time changes nothing
            duration = times.only_live(duration)
        keeps = p.exp(p.expand_dims(duration, -1) * -p.exp(self.A_log))
        adds = p.expand_dims(duration * x, -1) * p.expand_dims(B, -2)
        return z, x, C, keeps, adds

    def _answer(self, h: Tensor, z: Tensor, x: Tensor, C: Tensor) -> Tensor:
        y = (h @ p.expand_dims(C, -1))[..., 0] + self.through * x
        return self.out(y * p.silu(z))

    def __call__(self, x: Tensor, state: State) -> Step:
        z, x, C, keeps, adds = self._projected(x, None)
        h = keeps * state[0] + adds
        return self._answer(h, z, x, C), (h,)

    def over_time(self, x: Tensor, state: State, times: Times) -> Step:
        z, x, C, keeps, adds = self._projected(x, times)
        if (ids := times.with_past(1)) is not None:
            begins = ids[:, 1:] != ids[:, :-1]
            keeps = p.where(begins[..., None, None], 0.0, keeps)
        rows = (times.steps, -1)
        scanned = (p.reshape(p.swapaxes(part, 0, 1), rows) for part in (keeps, adds))
        h = linear_scan(*scanned, p.reshape(state[0], (-1,)))  # (T, B F N)
        h = p.reshape(h, (times.steps, *state[0].shape))
        return self._answer(p.swapaxes(h, 0, 1), z, x, C), (h[-1],)


class SelectiveSSM(Blocks, at_once=True):
    """Blocks with a selective state space.

    Args:
        input_size: width of an input.
        head_size, num_heads: a block is F = head_size num_heads units wide; it has no
            heads otherwise.
        layers: blocks, one above the other.
        state_size: N, numbers of state for each unit.
        hidden_size: units inside the MLP; None: 4 F.
        conv: steps that the convolution sees; 1: no convolution.
    """

    state_size: int

    def __init__(
        self,
        input_size: int,
        head_size: int,
        num_heads: int = 1,
        layers: int = 1,
        state_size: int = 16,
        hidden_size: int | None = None,
        conv: int = 4,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        self._set_sizes(state_size=state_size)

        def make(units, rng):
            return Selective(units, state_size, dtype, rng)

        sizes = input_size, head_size, num_heads, layers, hidden_size, conv
        self._build(*sizes, make, dtype, seed)


# --- By name --------------------------------------------------------------------------


@dataclass(frozen=True)
class SSMConfig:
    """The settings of the state space alone."""

    common: ClassVar = ()

    state_size: int = 16
    """numbers of state N for each unit"""
    conv: int = 4
    """steps that a convolution before the state space sees; 1: none"""

    def __post_init__(self):
        check_values(self, "model.ssm")
        check_least("model.ssm", self, "state_size", "conv")


SAYS = "a selective state space, Mamba's in its simplest form (Gu and Dao 2023)"
register_blocks("ssm", SelectiveSSM, SSMConfig, SAYS, "#AA4499")
