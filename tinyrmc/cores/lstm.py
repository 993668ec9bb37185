"""The long short-term memory with Sonnet's conventions, the paper's main baseline.

One layer, and several with skip connections. And the plain recurrent network, which has
no memory cell.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..autograd import primitives as p
from ..autograd.engine import Parameter, Tensor
from ..backend import Array, namespace
from ..errors import Seed, check_number, check_sizes, generator
from ..fused import linear, lstm, lstm_gates
from ..nn import Linear, truncated_normal
from .core import Core, State, Trace, check_fresh, check_lengths


class LSTM(Core):
    """One LSTM layer.

        z = [x, h] W + b, in the order i, j, f, o
        c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j)
        h' = sigmoid(o) tanh(c')

    The state is (h, c), each (B, hidden_size), starting at zero; the output is h'. The
    weights, and as in Sonnet the bias too, start as a truncated normal with standard
    deviation 1 / sqrt(input_size + hidden_size). Raises ValueError or TypeError naming
    the argument.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        forget_bias: float = 1.0,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
    ):
        check_sizes("LSTM", input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.forget_bias = check_number("LSTM", "forget_bias", forget_bias)
        rng = generator(seed)
        seen, gates = input_size + hidden_size, 4 * hidden_size
        self.gates = Linear(seen, gates, dtype=dtype, seed=rng)
        self.gates.bias = Parameter(truncated_normal(rng, gates, seen**-0.5, dtype))

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters."""
        return self.gates.weight.dtype

    @property
    def output_size(self) -> int:
        """Width of the output."""
        return self.hidden_size

    def initial_state(self, batch_size: int) -> tuple[Array, Array]:
        """(h, c) of zeros, each (B, hidden_size)."""
        check_sizes("LSTM", batch_size=batch_size)
        xp = namespace(self.gates.weight.data)
        h, c = xp.zeros((2, batch_size, self.hidden_size), self.dtype)
        return h, c

    def __call__(
        self, inputs: Array | Tensor, state: State, trace: Trace = None
    ) -> tuple[Tensor, State]:
        """One step: inputs (B, input_size), state (h, c) -> output (B, hidden_size).

        Also returns the next (h, c). `trace` receives an empty dict.
        """
        self._check_inputs(inputs, None, self.input_size)
        for array in state:
            self._check_state(array, inputs.shape[0], self.hidden_size)
        hidden, cell = state
        z = self.gates(p.concatenate([inputs, hidden], axis=1))
        hidden, cell = lstm_gates(z, cell, forget_bias=self.forget_bias)
        if trace is not None:
            trace.append({})
        return hidden, (hidden, cell)

    def unroll(
        self,
        inputs: Array | Tensor,
        state: State,
        trace: Trace = None,
        lengths: Array | None = None,
        fresh: Array | None = None,
    ) -> tuple[list[Tensor], State]:
        """T steps: inputs (B, T, input_size) -> ([T outputs], last state).

        One entry on the tape: the inputs' part of all steps is one product, and so is
        the gradient of the weight. See `Core.unroll`.
        """
        if _acts(inputs, fresh):
            return super().unroll(inputs, state, trace, lengths, fresh)
        x = _time_first(self, inputs)
        outputs, state = self.over_time(x, state, lengths, fresh)
        if trace is not None:
            trace.extend({} for _ in range(inputs.shape[1]))
        return list(p.unstack(outputs)), state

    def over_time(
        self,
        inputs: Array | Tensor,
        state: State,
        lengths: Array | None = None,
        fresh: Array | None = None,
    ) -> tuple[Tensor, State]:
        """`unroll` with time first: inputs (T, B, input_size) -> (T, B, hidden_size).

        Also returns the last state. `fresh` is still (B, T).
        """
        steps, batch = inputs.shape[:2]
        for array in state:
            self._check_state(array, batch, self.hidden_size)
        if lengths is not None:
            check_lengths(lengths, batch, steps)
        if fresh is not None:
            check_fresh(fresh, (batch, steps))
            fresh = fresh.T
        gates, bias = self.gates, {"forget_bias": self.forget_bias}
        outputs, *state = lstm(
            inputs, gates.weight, gates.bias, *state, lengths, fresh, **bias
        )
        return outputs, tuple(state)


def _acts(inputs: Array | Tensor, fresh: Array | None) -> bool:
    """Whether this is a single step, as when acting, which is quicker by itself."""
    return fresh is not None and inputs.shape[1] == 1


def _time_first(core: Core, inputs: Array | Tensor) -> Tensor:
    """Inputs (B, T, input_size) of a core as (T, B, input_size), after a check."""
    core._check_inputs(inputs, None, None, core.input_size)
    return p.swapaxes(inputs, 0, 1)


class DeepLSTM(Core):
    """LSTM layers as the paper stacks them.

    This is Sonnet's DeepRNN with skip connections, the deep LSTM of Graves: the first
    layer sees the input, every further one the input and the output of the layer below,
    and the output joins those of all layers side by side, (B, layers * hidden_size).
    The state is ((h, c), ...), one pair a layer. Parameters `layers.{k}.gates.weight`,
    ... Arguments as for `LSTM`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        layers: int,
        forget_bias: float = 1.0,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
    ):
        check_sizes(
            "DeepLSTM", input_size=input_size, hidden_size=hidden_size, layers=layers
        )
        rng = generator(seed)
        sizes = [input_size] + [input_size + hidden_size] * (layers - 1)
        self.layers = [
            LSTM(size, hidden_size, forget_bias, dtype, rng) for size in sizes
        ]
        self.input_size, self.hidden_size = input_size, hidden_size

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters."""
        return self.layers[0].dtype

    @property
    def output_size(self) -> int:
        """Width of the output."""
        return len(self.layers) * self.hidden_size

    def initial_state(self, batch_size: int) -> tuple[tuple[Array, Array], ...]:
        """A pair (h, c) of zeros for each layer, each (B, hidden_size)."""
        return tuple(layer.initial_state(batch_size) for layer in self.layers)

    def __call__(
        self, inputs: Array | Tensor, state: State, trace: Trace = None
    ) -> tuple[Tensor, State]:
        """One step: inputs (B, input_size) -> output (B, layers * hidden_size).

        Also returns the next state. `trace` receives an empty dict.
        """
        self._check_pairs(state)
        outputs, after, seen = [], [], inputs
        for layer, before in zip(self.layers, state, strict=True):
            below, pair = layer(seen, before)
            outputs.append(below)
            after.append(pair)
            seen = p.concatenate([inputs, below], axis=1)
        if trace is not None:
            trace.append({})
        return p.concatenate(outputs, axis=1), tuple(after)

    def unroll(
        self,
        inputs: Array | Tensor,
        state: State,
        trace: Trace = None,
        lengths: Array | None = None,
        fresh: Array | None = None,
    ) -> tuple[list[Tensor], State]:
        """T steps: inputs (B, T, input_size) -> ([T outputs], last state).

        Layer after layer, each over all steps. See `Core.unroll`.
        """
        if _acts(inputs, fresh):
            return super().unroll(inputs, state, trace, lengths, fresh)
        self._check_pairs(state)
        seen = inputs = _time_first(self, inputs)
        outputs, after = [], []
        for layer, before in zip(self.layers, state, strict=True):
            below, pair = layer.over_time(seen, before, lengths, fresh)
            outputs.append(below)
            after.append(pair)
            seen = p.concatenate([inputs, below], axis=2)
        if trace is not None:
            trace.extend({} for _ in range(inputs.shape[0]))
        return list(p.unstack(p.concatenate(outputs, axis=2))), tuple(after)

    def _check_pairs(self, state: State) -> None:
        if len(state) != len(self.layers):
            raise ValueError(
                f"DeepLSTM expects a state of {len(self.layers)} pairs (h, c), got "
                f"{len(state)}; see initial_state"
            )


class RNN(Core):
    """The plain recurrent network of Elman (1990): h' = tanh([x, h] W + b).

    A floor for the other cores: it has no memory cell and no gates. The state is h (B,
    hidden_size), starting at zero; the output is h'. Weights start as a truncated
    normal with standard deviation 1 / sqrt(input_size + hidden_size), biases at zero.
    Raises ValueError or TypeError naming the argument.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
    ):
        check_sizes("RNN", input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        seen = input_size + hidden_size
        self.linear = Linear(seen, hidden_size, dtype=dtype, seed=seed)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters."""
        return self.linear.weight.dtype

    @property
    def output_size(self) -> int:
        """Width of the output."""
        return self.hidden_size

    def initial_state(self, batch_size: int) -> Array:
        """h of zeros, (B, hidden_size)."""
        check_sizes("RNN", batch_size=batch_size)
        xp = namespace(self.linear.weight.data)
        return xp.zeros((batch_size, self.hidden_size), self.dtype)

    def __call__(
        self, inputs: Array | Tensor, state: State, trace: Trace = None
    ) -> tuple[Tensor, State]:
        """One step: inputs (B, input_size), state h -> output (B, hidden_size).

        Also returns the next h, which is the output. `trace` receives an empty dict.
        """
        self._check_inputs(inputs, None, self.input_size)
        ((row, weight),) = self._prepare_all(p.expand_dims(inputs, 1))
        return self._step(row, weight, state, trace)

    def _prepare_all(self, inputs: Array | Tensor) -> Iterable[tuple]:
        """x W_x + b of all steps at once, and W_h, for each step."""
        of_input, of_state = p.split(self.linear.weight, [self.input_size])
        rows = linear(_time_first(self, inputs), of_input, self.linear.bias)
        return ((row, of_state) for row in p.unstack(rows))

    def _step(self, row, weight, hidden, trace):
        self._check_state(hidden, row.shape[0], self.hidden_size)
        hidden = p.tanh(row + linear(hidden, weight))
        if trace is not None:
            trace.append({})
        return hidden, hidden
