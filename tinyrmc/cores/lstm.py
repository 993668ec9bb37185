"""The long short-term memory with Sonnet's conventions, the paper's main baseline: one
layer, and several with skip connections.
"""

from __future__ import annotations

import numpy as np

from .. import primitives as p
from ..backend import namespace
from ..engine import Parameter
from ..fused import lstm_gates
from ..nn import Linear, check_array, check_number, check_sizes, truncated_normal
from .core import Core


class LSTM(Core):
    """One LSTM layer. z = [x, h] W + b in the order i, j, f, o;

        c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j),    h' = sigmoid(o)
                                                                 tanh(c').

    State (h, c), each (B, hidden_size), starting at zero; output h'. Weights and, as in
    Sonnet, the bias too start as a truncated normal with standard deviation 1 /
    sqrt(input_size + hidden_size). Raises ValueError or TypeError naming the argument.
    """

    def __init__(
        self, input_size, hidden_size, forget_bias=1.0, dtype=np.float32, seed=0
    ):
        check_sizes("LSTM", input_size=input_size, hidden_size=hidden_size)
        rng = np.random.default_rng(seed)
        self.input_size, self.hidden_size, self.forget_bias = (
            input_size,
            hidden_size,
            check_number("LSTM", "forget_bias", forget_bias),
        )
        self.gates = Linear(
            input_size + hidden_size, 4 * hidden_size, dtype=dtype, seed=rng
        )
        self.gates.bias = Parameter(
            truncated_normal(
                rng, 4 * hidden_size, (input_size + hidden_size) ** -0.5, dtype
            )
        )

    @property
    def output_size(self) -> int:
        """Width of the output."""
        return self.hidden_size

    def initial_state(self, batch_size):
        """(h, c) of zeros, each (B, hidden_size)."""
        check_sizes("LSTM", batch_size=batch_size)
        like = self.gates.weight.data
        zeros = namespace(like).zeros((batch_size, self.hidden_size), like.dtype)
        return zeros, zeros

    def __call__(self, inputs, state, trace=None):
        """One step: inputs (B, input_size), state (h, c) -> output (B, hidden_size),
        next (h, c). `trace` receives an empty dict.
        """
        check_array(
            "LSTM",
            "inputs",
            inputs,
            (None, self.input_size),
            self.gates.weight.dtype,
            "see input_size",
        )
        for array in state:  # a wrong one may broadcast and go unnoticed
            shape = (inputs.shape[0], self.hidden_size)
            check_array(
                "LSTM",
                "a state",
                array,
                shape,
                self.gates.weight.dtype,
                "see initial_state",
            )
        hidden, cell = lstm_gates(
            self.gates(p.concatenate([inputs, state[0]], axis=1)),
            state[1],
            forget_bias=self.forget_bias,
        )
        if trace is not None:
            trace.append({})
        return hidden, (hidden, cell)


class DeepLSTM(Core):
    """LSTM layers as the paper stacks them (Sonnet's DeepRNN with skip connections, the
    deep LSTM of Graves).

    The first layer sees the input, every further one the input and the output of the
    layer below; the output is that of all layers side by side, (B, layers *
    hidden_size). State ((h, c), ...), one pair a layer. Parameters
    `layers.{k}.gates.weight`, ... Args as for `LSTM`.
    """

    def __init__(
        self, input_size, hidden_size, layers, forget_bias=1.0, dtype=np.float32, seed=0
    ):
        check_sizes(
            "DeepLSTM", input_size=input_size, hidden_size=hidden_size, layers=layers
        )
        rng = np.random.default_rng(seed)
        sizes = [input_size] + [input_size + hidden_size] * (layers - 1)
        self.layers = [
            LSTM(size, hidden_size, forget_bias, dtype, rng) for size in sizes
        ]
        self.input_size, self.hidden_size = input_size, hidden_size

    @property
    def output_size(self) -> int:
        """Width of the output."""
        return len(self.layers) * self.hidden_size

    def initial_state(self, batch_size):
        """A pair (h, c) of zeros for each layer, each (B, hidden_size)."""
        return tuple(layer.initial_state(batch_size) for layer in self.layers)

    def __call__(self, inputs, state, trace=None):
        """One step: inputs (B, input_size) -> output (B, layers * hidden_size), next
        state. `trace` receives an empty dict.
        """
        if len(state) != len(self.layers):
            raise ValueError(
                f"DeepLSTM expects a state of {len(self.layers)} pairs (h, c), got "
                f"{len(state)}; see initial_state"
            )
        outputs, after, seen = [], [], inputs
        for layer, before in zip(self.layers, state, strict=True):
            below, pair = layer(seen, before)
            outputs.append(below)
            after.append(pair)
            seen = p.concatenate([inputs, below], axis=1)
        if trace is not None:
            trace.append({})
        return p.concatenate(outputs, axis=1), tuple(after)
