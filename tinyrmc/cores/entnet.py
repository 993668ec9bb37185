"""Two networks that go by the name of EntNet: the Recurrent Entity Network of Henaff et
al. (2017), "Tracking the World State with Recurrent Entity Networks", and what the RMC
paper's appendix calls so, a bank of 2 to 8 LSTM cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import nn
from ..autograd import primitives as p
from ..autograd.engine import Parameter, Tensor
from ..backend import Array
from ..backend.seeds import Seed, generator
from ..errors import check_number, counted
from ..fused import lstm_gates
from .config import CoreConfig
from .core import Core, Inputs, State, Step, Trace
from .lstm import Cells
from .registry import register_core
from .relational import UNITS

TINY = 1e-12


def prelu(x: Array | Tensor, slope: Array | Tensor) -> Tensor:
    """x where it is positive, slope * x where it is negative."""
    return p.maximum(x, 0) + slope * p.minimum(x, 0)


def normalised(h: Array | Tensor) -> Tensor:
    """Each row of h (..., F) divided by its length, unless that is below 1e-6."""
    square = p.sum(p.square(h), axis=-1, keepdims=True)
    return h / p.sqrt(p.where(square.data.real > TINY, square, 1.0))


class EntNet(Core):
    """The Recurrent Entity Network.

    One step, for slots h_j (F wide) with keys w_j and the encoded input s = x W_in + b:

        g_j = sigmoid(s . h_j + s . w_j)
        h_j <- normalise(h_j + g_j phi(h_j U + w_j V + s W))
        p_j = softmax(q . h_j),  u = sum_j p_j h_j
        output  phi(s + u H)

    The gate g_j says how much the input has to do with slot or key. phi is a PReLU.
    Normalising makes the old fade as the new is added. u is what the memory says of the
    question q = s.

    The slots start as their keys. The keys are learned, and so is phi's slope for each
    unit, 1 at first. Three things differ from the paper: its last layer R is left to
    the task, its encoder, a masked sum of words, is a linear layer, and q is the step's
    input, since the tasks show the question at every step. State (B, N, F); output
    (B, F).

    Args:
        input_size: width of an input.
        mem_slots, mem_size: N, F.
    """

    any_weight = "keys"
    mem_slots: int
    mem_size: int

    def __init__(
        self,
        input_size: int,
        mem_slots: int,
        mem_size: int,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        self._set_sizes(input_size=input_size, mem_slots=mem_slots, mem_size=mem_size)
        F = mem_size
        rng = generator(seed)
        self.output_size = F
        self.encoder = nn.Linear(input_size, F, dtype=dtype, seed=rng)
        self.keys = Parameter(nn.truncated_normal(rng, (mem_slots, F), F**-0.5, dtype))
        self.U = nn.Linear(F, F, bias=False, dtype=dtype, seed=rng)
        self.V = nn.Linear(F, F, bias=False, dtype=dtype, seed=rng)
        self.W = nn.Linear(F, F, bias=False, dtype=dtype, seed=rng)
        self.H = nn.Linear(F, F, bias=False, dtype=dtype, seed=rng)
        self.slope = Parameter(np.ones(F, dtype))

    def initial_state(self, batch_size: int) -> Tensor:
        """The keys, for each example: (B, N, F). Call this inside the Tape."""
        # of its own: `broadcast_to` shows the Parameter's
        return self.keys + self.zeros(batch_size, 1, 1)

    def __call__(self, inputs: Inputs, state: State, trace: Trace = None) -> Step:
        """One step: inputs (B, input_size), state (B, N, F) -> output (B, F), state.
        `trace` receives the step's "gates" and "answers", p, both (B, N).
        """
        self._check_inputs(inputs, None, self.input_size)
        self._check_state(state, inputs.shape[0], self.mem_slots, self.mem_size)
        s = p.expand_dims(self.encoder(inputs), 1)  # (B, 1, F)
        likeness = p.sum(s * (state + self.keys), axis=-1, keepdims=True)  # (B, N, 1)
        g = p.sigmoid(likeness)
        candidate = prelu(self.U(state) + self.V(self.keys) + self.W(s), self.slope)
        h = normalised(state + g * candidate)
        answers = p.softmax(p.sum(s * h, axis=-1, keepdims=True), axis=1)  # (B, N, 1)
        u = p.sum(answers * h, axis=1, keepdims=True)  # (B, 1, F)
        if trace is not None:
            trace.append({"gates": g.data[..., 0], "answers": answers.data[..., 0]})
        return prelu(s + self.H(u), self.slope)[:, 0], h


class EntNetBank(Cells):
    """A bank of J LSTM cells on the same input, with their outputs summed.

    This is the EntNet of the RMC paper. For cell j

        z_j = x W + h_j U + b_j
        c_j, h_j <- the LSTM's step with z_j (see `LSTM`)
        output sum_j h_j

    The paper says that the cells are LSTMs, how many, how wide, and that their states
    are summed. The rest is our choice, modelled on the network that it is named after:
    the cells share W and U, and each has a key, appended to its input, which amounts to
    a bias b_j of its own. Its standard deviation is 1 at first, or the cells would
    hardly differ. State (h, c), each (B, J, F), starting at zero; output (B, F).

    Args:
        input_size: width of an input.
        cells, hidden_size: J, and F, the units of a cell.
        forget_bias: as for `LSTM`.
    """

    any_weight = "W"
    cells: int
    hidden_size: int

    def __init__(
        self,
        input_size: int,
        cells: int,
        hidden_size: int,
        forget_bias: float = 1.0,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        self._set_sizes(input_size=input_size, cells=cells, hidden_size=hidden_size)
        self.output_size = hidden_size
        self.state_shape = (cells, hidden_size)
        self.forget_bias = check_number("EntNetBank", "forget_bias", forget_bias)
        dtype = nn.check_dtype("EntNetBank", dtype)
        rng = generator(seed)
        std = (input_size + hidden_size) ** -0.5

        def weight(rows, std):
            shape = rows, 4 * hidden_size
            return Parameter(nn.truncated_normal(rng, shape, std, dtype))

        self.W = weight(input_size, std)
        self.U = weight(hidden_size, std)
        self.keys = weight(cells, 1.0)

    def __call__(self, inputs: Inputs, state: State, trace: Trace = None) -> Step:
        """One step: inputs (B, input_size), state (h, c) -> output (B, F), state."""
        self._check_inputs(inputs, None, self.input_size)
        hidden, cell = self._checked(state, inputs.shape[0])
        from_input = p.expand_dims(p.matmul(inputs, self.W), 1)  # (B, 1, 4 F)
        z = from_input + p.matmul(hidden, self.U) + self.keys  # (B, J, 4 F)
        hidden, cell = lstm_gates(z, cell, forget_bias=self.forget_bias)
        return p.sum(hidden, axis=1), (hidden, cell)


# --- By name --------------------------------------------------------------------------


def _size(c: CoreConfig, core: Any) -> str:
    return f", {counted(c.mem_slots, 'slot')} x {core.mem_size} units"


@register_core("entnet", used=UNITS, size=_size, colour="#CC79A7")
def _entnet(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    """the Recurrent Entity Network"""
    return EntNet(input_size, c.mem_slots, c.slot_size, seed=seed)


def _bank_size(c: CoreConfig, core: Any) -> str:
    return f", {counted(c.mem_slots, 'cell')} of {core.hidden_size} units"


@register_core(
    "entnet_bank", used=(*UNITS, "forget_bias"), size=_bank_size, colour="#E69F00"
)
def _entnet_bank(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    """what the paper calls EntNet: LSTM cells with shared weights, summed"""
    return EntNetBank(input_size, c.mem_slots, c.slot_size, c.forget_bias, seed=seed)
