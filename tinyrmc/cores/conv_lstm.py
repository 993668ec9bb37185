"""The convolutional long short-term memory (Shi et al. 2015), which remembers in maps.

The paper's baseline where an agent sees maps (appendix A.3).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..autograd import primitives as p
from ..autograd.engine import Tensor
from ..backend import Array
from ..errors import Seed, check_number, check_sizes
from ..fused import lstm_gates
from ..nn import Conv2d
from .core import Core, State, Trace


class ConvLSTM(Core):
    """An LSTM whose products are convolutions: each place sees its surroundings.

        z = conv([x, h], W) + b, in the order i, j, f, o
        c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j)
        h' = sigmoid(o) tanh(c')

    x is a map (B, height, width, in_channels), or the same numbers in a row (B,
    input_size). The state is (h, c), each (B, height, width, channels), starting at
    zero; the output is h' in a row, (B, height * width * channels). The convolution has
    a `kernel` x `kernel` window with "SAME" padding. As in Sonnet, there are no
    connections from the cell to the gates, weights start as a truncated normal and
    biases at zero.
    """

    any_weight = "gates.weight"

    def __init__(
        self,
        height: int,
        width: int,
        in_channels: int,
        channels: int = 64,
        kernel: int = 5,
        forget_bias: float = 1.0,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
    ):
        check_sizes(
            "ConvLSTM",
            height=height,
            width=width,
            in_channels=in_channels,
            channels=channels,
            kernel=kernel,
        )
        self.input_shape = height, width, in_channels
        self.input_size = height * width * in_channels
        self.channels, self.output_size = channels, height * width * channels
        self.forget_bias = check_number("ConvLSTM", "forget_bias", forget_bias)
        seen, gates = in_channels + channels, 4 * channels
        self.gates = Conv2d(seen, gates, kernel, "SAME", dtype=dtype, seed=seed)

    def initial_state(self, batch_size: int) -> tuple[Array, Array]:
        """(h, c) of zeros, each (B, height, width, channels)."""
        shape = *self.input_shape[:2], self.channels
        return self.zeros(batch_size, *shape), self.zeros(batch_size, *shape)

    def __call__(
        self, inputs: Array | Tensor, state: State, trace: Trace = None
    ) -> tuple[Tensor, State]:
        """One step: inputs (B, height, width, in_channels), state (h, c) -> output.

        Also returns the next (h, c).
        """
        in_a_row = len(getattr(inputs, "shape", ())) == 2
        shape = (self.input_size,) if in_a_row else self.input_shape
        self._check_inputs(inputs, None, *shape, hint="see input_shape")
        batch = inputs.shape[0]
        for array in state:
            self._check_state(array, batch, *self.input_shape[:2], self.channels)
        hidden, cell = state
        maps = p.reshape(inputs, (batch, *self.input_shape))
        z = self.gates(p.concatenate([maps, hidden], axis=-1))  # (B, H, W, 4 channels)
        hidden, cell = lstm_gates(z, cell, forget_bias=self.forget_bias)
        return p.reshape(hidden, (batch, self.output_size)), (hidden, cell)
