"""A core without a memory: the floor that shows what remembering is worth."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..autograd.engine import Tensor
from ..backend import Array
from ..errors import Seed, check_sizes
from ..nn import Linear
from .core import Core, State, Trace


class Feedforward(Core):
    """A linear layer with a ReLU, the same at each step: its state is empty.

    Weights start as a truncated normal with standard deviation 1 / sqrt(input_size),
    biases at zero.
    """

    any_weight = "linear.weight"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
    ):
        check_sizes("Feedforward", input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.output_size = hidden_size
        self.linear = Linear(input_size, hidden_size, relu=True, dtype=dtype, seed=seed)

    def initial_state(self, batch_size: int) -> tuple[()]:
        """Nothing, for a batch of any size."""
        check_sizes("Feedforward", batch_size=batch_size)
        return ()

    def __call__(
        self, inputs: Array | Tensor, state: State, trace: Trace = None
    ) -> tuple[Tensor, State]:
        """One step: inputs (B, input_size) -> output (B, hidden_size), no state."""
        self._check_inputs(inputs, None, self.input_size)
        return self.linear(inputs), ()
