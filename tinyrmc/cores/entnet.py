"""Two networks that go by the name of EntNet: the Recurrent Entity Network, and what
the RMC paper put in its place.

`EntNet` is the network of Henaff et al. (2017), "Tracking the World State with
Recurrent Entity Networks": N slots with shared weights, each with a key, and a gate
that opens where the input has to do with slot or key. `EntNetBank` is the baseline of
the RMC paper's appendix, which resembles it: a bank of 2 to 8 LSTM cells whose states
are summed.
"""

from __future__ import annotations

import numpy as np

from .. import nn
from .. import primitives as p
from ..backend import namespace
from ..engine import Parameter
from ..fused import lstm_gates
from .core import Core

TINY = 1e-12


def prelu(x, slope):
    """x where it is positive, slope * x where it is negative."""
    return p.maximum(x, 0) + slope * p.minimum(x, 0)


def normalised(h):
    """Each row of h (..., F) divided by its length.

    A row shorter than 1e-6 has no direction worth keeping, and stays as it is.
    """
    square = p.sum(p.square(h), axis=-1, keepdims=True)
    return h / p.sqrt(p.where(square.data.real > TINY, square, 1.0))


class EntNet(Core):
    """The Recurrent Entity Network.

    One step, for slots h_j (F wide) with keys w_j and the encoded input s = x W_in + b:

        g_j = sigmoid(s . h_j + s . w_j)                          how much the input has to do with this slot
        h_j <- normalise(h_j + g_j phi(h_j U + w_j V + s W))      phi = PReLU; what is old fades as the new is added
        q . h_j -> softmax -> p_j;   u = sum_j p_j h_j            what the memory says of the question q = s
        output  phi(s + u H)

    The slots start as their keys, which are learned, as is phi's slope for each unit, 1
    at first. The paper's last layer R is the task's own; its encoder, a masked sum of
    words, is here a linear layer, since a step's input is a vector; and q, apart there,
    is the input of the step, since the tasks show the question with each. State (B, N,
    F); output (B, F).

    Args: input_size; mem_slots, mem_size: N, F; dtype, seed: of the parameters. Raises
        ValueError or TypeError naming the argument.
    """

    def __init__(self, input_size, mem_slots, mem_size, dtype=np.float32, seed=0):
        nn.check_sizes(
            "EntNet", input_size=input_size, mem_slots=mem_slots, mem_size=mem_size
        )
        rng = np.random.default_rng(seed)
        self.input_size, self.mem_slots, self.mem_size = input_size, mem_slots, mem_size
        self.encoder = nn.Linear(input_size, mem_size, dtype=dtype, seed=rng)
        self.keys = Parameter(
            nn.truncated_normal(rng, (mem_slots, mem_size), mem_size**-0.5, dtype)
        )
        self.U, self.V, self.W, self.H = (
            nn.Linear(mem_size, mem_size, bias=False, dtype=dtype, seed=rng)
            for _ in range(4)
        )
        self.slope = Parameter(np.ones(mem_size, dtype))

    @property
    def output_size(self) -> int:
        """Width of the output, F."""
        return self.mem_size

    def initial_state(self, batch_size):
        """The keys, for each example: (B, N, F)."""
        nn.check_sizes("EntNet", batch_size=batch_size)
        return p.broadcast_to(self.keys, (batch_size, self.mem_slots, self.mem_size))

    def __call__(self, inputs, state, trace=None):
        """One step: inputs (B, input_size), state (B, N, F) -> output (B, F), next
        state (B, N, F).

        `trace`, a list, receives one dict of arrays for the step: "gates" and
        "answers", p, both (B, N).
        """
        nn.check_array(
            "EntNet",
            "inputs",
            inputs,
            (None, self.input_size),
            self.keys.dtype,
            "see input_size",
        )
        nn.check_array(
            "EntNet",
            "a state",
            state,
            (inputs.shape[0], self.mem_slots, self.mem_size),
            self.keys.dtype,
            "see initial_state",
        )
        s = p.expand_dims(self.encoder(inputs), 1)  # (B, 1, F)
        g = p.sigmoid(
            p.sum(s * (state + self.keys), axis=-1, keepdims=True)
        )  # (B, N, 1)
        candidate = prelu(self.U(state) + self.V(self.keys) + self.W(s), self.slope)
        h = normalised(state + g * candidate)
        answers = p.softmax(p.sum(s * h, axis=-1, keepdims=True), axis=1)  # (B, N, 1)
        u = p.sum(answers * h, axis=1, keepdims=True)
        if trace is not None:
            trace.append({"gates": g.data[..., 0], "answers": answers.data[..., 0]})
        return prelu(s + self.H(u), self.slope)[:, 0], h


class EntNetBank(Core):
    """A bank of J LSTM cells on the same input, whose outputs are summed: the EntNet of
    the RMC paper. For cell j

        z_j = x W + h_j U + b_j;    c_j, h_j <- the LSTM's step with z_j (see `LSTM`);
                                    output sum_j h_j.

    The paper says that the cells are LSTMs, how many, how wide, and that their states
    are summed. Chosen here, after the network it is named for: the cells share W and U;
    each has a key, appended to its input, which amounts to a bias b_j of its own and is
    written so (of standard deviation 1 at first, or the cells would hardly differ); no
    further gate, since an LSTM has them; and of the two states the hidden ones are
    summed. State (h, c), each (B, J, F), starting at zero; output (B, F).

    Args: input_size; cells: J; hidden_size: F, units of a cell; forget_bias: as for
        `LSTM`; dtype, seed: of the parameters. Raises ValueError or TypeError naming
        the argument.
    """

    def __init__(
        self, input_size, cells, hidden_size, forget_bias=1.0, dtype=np.float32, seed=0
    ):
        nn.check_sizes(
            "EntNetBank", input_size=input_size, cells=cells, hidden_size=hidden_size
        )
        rng = np.random.default_rng(seed)
        self.input_size, self.cells, self.hidden_size = input_size, cells, hidden_size
        self.forget_bias, std = (
            nn.check_number("EntNetBank", "forget_bias", forget_bias),
            (input_size + hidden_size) ** -0.5,
        )
        dtype = nn.check_dtype("EntNetBank", dtype)
        self.W = Parameter(
            nn.truncated_normal(rng, (input_size, 4 * hidden_size), std, dtype)
        )
        self.U = Parameter(
            nn.truncated_normal(rng, (hidden_size, 4 * hidden_size), std, dtype)
        )
        self.keys = Parameter(
            nn.truncated_normal(rng, (cells, 4 * hidden_size), 1.0, dtype)
        )

    @property
    def output_size(self) -> int:
        """Width of the output, F."""
        return self.hidden_size

    def initial_state(self, batch_size):
        """(h, c) of zeros, each (B, J, F)."""
        nn.check_sizes("EntNetBank", batch_size=batch_size)
        zeros = namespace(self.W.data).zeros(
            (batch_size, self.cells, self.hidden_size), self.W.dtype
        )
        return zeros, zeros

    def __call__(self, inputs, state, trace=None):
        """One step: inputs (B, input_size), state (h, c) -> output (B, F), next (h, c).

        `trace` receives an empty dict.
        """
        nn.check_array(
            "EntNetBank",
            "inputs",
            inputs,
            (None, self.input_size),
            self.W.dtype,
            "see input_size",
        )
        for array in state:
            shape = (inputs.shape[0], self.cells, self.hidden_size)
            nn.check_array(
                "EntNetBank", "a state", array, shape, self.W.dtype, "see initial_state"
            )
        z = (
            p.expand_dims(p.matmul(inputs, self.W), 1)
            + p.matmul(state[0], self.U)
            + self.keys
        )  # (B, J, 4 F)
        hidden, cell = lstm_gates(z, state[1], forget_bias=self.forget_bias)
        if trace is not None:
            trace.append({})
        return p.sum(hidden, axis=1), (hidden, cell)
