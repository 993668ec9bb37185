"""The long short-term memory with Sonnet's conventions, the paper's main baseline.

One layer, and several with skip connections; the plain recurrent network, and the GRU,
which have no memory cell; the ConvLSTM (Shi et al. 2015), which remembers in maps, the
baseline where an agent sees them (appendix A.3); and a core without a memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..autograd import primitives as p
from ..autograd.engine import Parameter, Tensor
from ..backend import Array
from ..backend.seeds import Seed, generator
from ..config import check_least, check_values
from ..errors import check_choice, check_number, check_sizes
from ..fused import linear, lstm, lstm_gates
from ..nn import Conv2d, Linear, truncated_normal
from .config import CoreConfig
from .core import Core, Inputs, State, Step, Steps, Trace
from .registry import register_core


class _OverTime(Core, at_once=True):
    """A core that computes all steps of a layer at once, rather than step by step."""

    def _unroll_at_once(self, inputs, state, lengths, is_first) -> Steps | None:
        """One product for the inputs' part of all steps, and for the weight's gradient.
        A single step, as when acting, is quicker by itself.
        """
        if is_first is not None and inputs.shape[1] == 1:
            return None
        self._check_inputs(inputs, None, None, self.input_size)
        seen = p.swapaxes(inputs, 0, 1)
        outputs, state = self.over_time(seen, state, lengths, is_first)
        return list(p.unstack(outputs)), state

    def over_time(self, inputs: Tensor, state: State, lengths, is_first) -> Step:
        """`unroll` with time first: inputs (T, B, input_size) -> (T, B, output_size),
        last state. `is_first` is still (B, T).
        """
        raise NotImplementedError


class Cells(Core):
    """LSTM cells of any form: the state is (h, c), two arrays (B, *state_shape) that
    start at zero.
    """

    state_shape: tuple[int, ...]

    def initial_state(self, batch_size: int) -> tuple[Array, Array]:
        """(h, c) of zeros."""
        shape = self.state_shape
        return self.zeros(batch_size, *shape), self.zeros(batch_size, *shape)

    def _checked(self, state: State, batch: int) -> State:
        for array in state if isinstance(state, tuple | list) else [state]:
            self._check_state(array, batch, *self.state_shape)
        return state


class LSTM(Cells, _OverTime, at_once=True):
    """One LSTM layer.

        z = [x, h] W + b, in the order i, j, f, o
        c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j)
        h' = sigmoid(o) tanh(c')

    The state is (h, c), each (B, hidden_size), starting at zero; the output is h'. The
    weights, and as in Sonnet the bias too, start as a truncated normal with standard
    deviation 1 / sqrt(input_size + hidden_size).
    """

    any_weight = "gates.weight"
    hidden_size: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        forget_bias: float = 1.0,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        self._set_sizes(input_size=input_size, hidden_size=hidden_size)
        self.output_size = hidden_size
        self.state_shape = (hidden_size,)
        self.forget_bias = check_number("LSTM", "forget_bias", forget_bias)
        rng = generator(seed)
        seen, gates = input_size + hidden_size, 4 * hidden_size
        self.gates = Linear(seen, gates, dtype=dtype, seed=rng)
        self.gates.bias = Parameter(truncated_normal(rng, gates, seen**-0.5, dtype))

    def __call__(self, inputs: Inputs, state: State, trace: Trace = None) -> Step:
        """One step: inputs (B, input_size), state (h, c) -> output (B, hidden_size)."""
        self._check_inputs(inputs, None, self.input_size)
        hidden, cell = self._checked(state, inputs.shape[0])
        z = self.gates(p.concatenate([inputs, hidden], axis=1))
        hidden, cell = lstm_gates(z, cell, forget_bias=self.forget_bias)
        return hidden, (hidden, cell)

    def _layers(self) -> Iterable[tuple]:
        width = self.hidden_size
        yield self.gates, Linear, (self.input_size + width, 4 * width)

    def over_time(self, inputs: Tensor, state: State, lengths, is_first) -> Step:
        """One entry on the tape for all steps."""
        self._checked(state, inputs.shape[1])
        weights = self.gates.weight, self.gates.bias
        begins = None if is_first is None else is_first.T
        outputs, *state = lstm(
            inputs, *weights, *state, lengths, begins, forget_bias=self.forget_bias
        )
        return outputs, tuple(state)


class DeepLSTM(_OverTime, at_once=True):
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
        *,
        seed: Seed,
    ):
        sizes = {"input_size": input_size, "hidden_size": hidden_size}
        self._set_sizes(**sizes, layers=layers)
        rng = generator(seed)
        widths = [input_size] + [input_size + hidden_size] * (layers - 1)
        self.layers = [
            LSTM(size, hidden_size, forget_bias, dtype, seed=rng) for size in widths
        ]
        self.output_size = layers * hidden_size

    def initial_state(self, batch_size: int) -> tuple[tuple[Array, Array], ...]:
        """A pair (h, c) of zeros for each layer, each (B, hidden_size)."""
        return tuple(layer.initial_state(batch_size) for layer in self.layers)

    def __call__(self, inputs: Inputs, state: State, trace: Trace = None) -> Step:
        """One step: inputs (B, input_size) -> output (B, layers * hidden_size)."""
        return self._through(lambda layer, *given: layer(*given), inputs, state)

    def _layers_known(self) -> bool:
        return all(type(layer) is LSTM and layer.is_known() for layer in self.layers)

    def over_time(self, inputs: Tensor, state: State, lengths, is_first) -> Step:
        """Layer after layer, each over all steps."""
        return self._through(LSTM.over_time, inputs, state, lengths, is_first)

    def _through(self, step, inputs, state, *how) -> Step:
        """The layers one above the other."""
        given = len(state) if isinstance(state, tuple | list) else state
        if given != len(self.layers):
            raise ValueError(
                f"DeepLSTM expects a state of {len(self.layers)} pairs (h, c), got "
                f"{given}; see initial_state"
            )
        outputs = []
        after = []
        seen = inputs
        for layer, before in zip(self.layers, state, strict=True):
            below, pair = step(layer, seen, before, *how)
            outputs.append(below)
            after.append(pair)
            seen = p.concatenate([inputs, below], axis=-1)
        return p.concatenate(outputs, axis=-1), tuple(after)


class _Layer(Core):
    """A core of one linear layer, `linear`, that sees the input and perhaps the state.

    Weights start as a truncated normal with standard deviation 1 / sqrt(numbers that a
    unit sees), biases at zero.
    """

    any_weight = "linear.weight"
    hidden_size: int
    gates: ClassVar[int] = 1  # columns of the weight for each unit
    recurrent: ClassVar[bool] = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        self._set_sizes(input_size=input_size, hidden_size=hidden_size)
        self.output_size = hidden_size
        seen, wide = input_size + hidden_size * self.recurrent, self.gates * hidden_size
        relu = not self.recurrent
        self.linear = Linear(seen, wide, relu=relu, dtype=dtype, seed=seed)


class RNN(_Layer, at_once=True):
    """The plain recurrent network of Elman (1990): h' = tanh([x, h] W + b).

    A floor for the other cores: it has no memory cell and no gates. The state is h (B,
    hidden_size), starting at zero; the output is h'.
    """

    def initial_state(self, batch_size: int) -> Array:
        """h of zeros, (B, hidden_size)."""
        return self.zeros(batch_size, self.hidden_size)

    def __call__(self, inputs: Inputs, state: State, trace: Trace = None) -> Step:
        """One step: inputs (B, input_size), state h -> output (B, hidden_size)."""
        self._check_inputs(inputs, None, self.input_size)
        if not self._layers_known():
            self._check_state(state, inputs.shape[0], self.hidden_size)
            hidden = self._called(inputs, state)
            return hidden, hidden
        ((row, weight),) = self._prepare_all(p.expand_dims(inputs, 1))
        return self._step(row, weight, state, trace)

    def _layers(self) -> Iterable[tuple]:
        seen = self.input_size + self.hidden_size
        yield self.linear, Linear, (seen, self.gates * self.hidden_size)

    def _called(self, inputs, hidden):
        """A step with another layer in the place of `linear`, which is called."""
        return p.tanh(self.linear(p.concatenate([inputs, hidden], axis=1)))

    def _prepare_all(self, inputs: Inputs) -> Iterable[tuple]:
        """x W_x + b of all steps at once, and W_h, for each step."""
        self._check_inputs(inputs, None, None, self.input_size)
        of_input, of_state = p.split(self.linear.weight, [self.input_size])
        rows = linear(p.swapaxes(inputs, 0, 1), of_input, self.linear.bias)
        return ((row, of_state) for row in p.unstack(rows))

    def _step(self, row, weight, hidden, trace):
        self._check_state(hidden, row.shape[0], self.hidden_size)
        hidden = p.tanh(row + linear(hidden, weight))
        return hidden, hidden


class GRU(RNN, at_once=True):
    """The gated recurrent unit (Cho et al. 2014), without a memory cell of its own.

        z, r = sigmoid([x, h] W + b)
        h' = z h + (1 - z) tanh([x, r h] V + c)

    The update gate z keeps what was, the reset gate r hides it from the candidate. The
    state is h (B, hidden_size), starting at zero; the output is h'. `linear` holds W
    and V side by side, in the order z, r, candidate.

    reset: "before" the product with V, as printed above, or "after" it, as in PyTorch
        and cuDNN: tanh(x V_x + c + r (h V_h + d)). d is `hidden_bias`, zero at first.
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
        reset: Literal["before", "after"] = "before",
    ):
        super().__init__(input_size, hidden_size, dtype, seed=seed)
        check_choice("GRU", "reset", reset, "before", "after")
        self.hidden_bias: Parameter | None = None
        if reset == "after":
            self.hidden_bias = Parameter(
                np.zeros(hidden_size, self.linear.weight.dtype)
            )

    def _step(self, row, weight, hidden, trace):
        self._check_state(hidden, row.shape[0], self.hidden_size)
        of_gates, of_candidate = p.split(weight, [2 * self.hidden_size], axis=1)
        of_inputs, candidate = p.split(row, [2 * self.hidden_size], axis=1)
        gates = p.sigmoid(of_inputs + linear(hidden, of_gates))
        keep, reset = p.split(gates, 2, axis=1)
        if self.hidden_bias is None:
            of_hidden = linear(reset * hidden, of_candidate)
        else:
            of_hidden = reset * linear(hidden, of_candidate, self.hidden_bias)
        candidate = p.tanh(candidate + of_hidden)
        hidden = candidate + keep * (hidden - candidate)
        return hidden, hidden

    def _called(self, inputs, hidden):
        both = self.linear(p.concatenate([inputs, hidden], axis=1))
        gates, _ = p.split(both, [2 * self.hidden_size], axis=1)
        keep, reset = p.split(p.sigmoid(gates), 2, axis=1)

        def candidate_of(x, h):
            return self.linear(p.concatenate([x, h], axis=1))[:, 2 * self.hidden_size :]

        if self.hidden_bias is None:
            candidate = candidate_of(inputs, reset * hidden)
        else:
            of_input = candidate_of(inputs, 0.0 * hidden)
            nothing = 0.0 * inputs
            alone = candidate_of(nothing, hidden) - candidate_of(nothing, 0.0 * hidden)
            candidate = of_input + reset * (alone + self.hidden_bias)
        candidate = p.tanh(candidate)
        return candidate + keep * (hidden - candidate)


class ConvLSTM(Cells):
    """An LSTM whose products are convolutions: each place sees its surroundings.

    z = conv([x, h], W) + b, and then as in `LSTM`. x is a map (B, height, width,
    in_channels), or the same numbers in a row (B, input_size). The state is (h, c),
    each (B, height, width, channels), starting at zero; the output is h' in a row, (B,
    height * width * channels). The convolution has a `kernel` x `kernel` window with
    "SAME" padding. As in Sonnet, there are no connections from the cell to the gates,
    weights start as a truncated normal and biases at zero.
    """

    any_weight = "gates.weight"
    channels: int

    def __init__(
        self,
        height: int,
        width: int,
        in_channels: int,
        channels: int = 64,
        kernel: int = 5,
        forget_bias: float = 1.0,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        self._set_sizes(height=height, width=width, in_channels=in_channels)
        self._set_sizes(channels=channels, kernel=kernel)
        self.input_shape = height, width, in_channels
        self.input_size = height * width * in_channels
        self.output_size = height * width * channels
        self.state_shape = height, width, channels
        self.forget_bias = check_number("ConvLSTM", "forget_bias", forget_bias)
        seen, gates = in_channels + channels, 4 * channels
        self.gates = Conv2d(seen, gates, kernel, "SAME", dtype=dtype, seed=seed)

    def __call__(self, inputs: Inputs, state: State, trace: Trace = None) -> Step:
        """One step: inputs (B, height, width, in_channels), state (h, c) -> output."""
        in_a_row = len(getattr(inputs, "shape", ())) == 2
        shape = (self.input_size,) if in_a_row else self.input_shape
        self._check_inputs(inputs, None, *shape, hint="see input_shape")
        batch = inputs.shape[0]
        hidden, cell = self._checked(state, batch)
        maps = p.reshape(inputs, (batch, *self.input_shape))
        z = self.gates(p.concatenate([maps, hidden], axis=-1))  # (B, H, W, 4 channels)
        hidden, cell = lstm_gates(z, cell, forget_bias=self.forget_bias)
        return p.reshape(hidden, (batch, self.output_size)), (hidden, cell)


class Feedforward(_Layer):
    """A linear layer with a ReLU, the same at each step: its state is empty. The floor
    that shows what remembering is worth.
    """

    recurrent = False

    def initial_state(self, batch_size: int) -> tuple[()]:
        """Nothing, for a batch of any size."""
        check_sizes("Feedforward", batch_size=batch_size)
        return ()

    def __call__(self, inputs: Inputs, state: State, trace: Trace = None) -> Step:
        """One step: inputs (B, input_size) -> output (B, hidden_size), no state."""
        self._check_inputs(inputs, None, self.input_size)
        return self.linear(inputs), ()


# --- By name --------------------------------------------------------------------------

LAYER = "total_units", "hidden_size"


def _size(c: CoreConfig, core: Any) -> str:
    layers = f"{c.layers} layers of " if c.layers > 1 and c.uses("layers") else ""
    return f" of {layers}{core.hidden_size} units"


@register_core(
    "lstm", used=(*LAYER, "layers", "forget_bias"), size=_size, colour="#D55E00"
)
def _lstm(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    """the main baseline"""
    if c.layers == 1:
        return LSTM(input_size, c.layer_units, c.forget_bias, seed=seed)
    return DeepLSTM(input_size, c.layer_units, c.layers, c.forget_bias, seed=seed)


@register_core("rnn", used=LAYER, size=_size, colour="#8C8C8C")
def _rnn(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    """a plain recurrent network without a memory"""
    return RNN(input_size, c.layer_units, seed=seed)


@register_core("gru", used=LAYER, size=_size, colour="#44AA99")
def _gru(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    """the gated recurrent unit (Cho et al. 2014)"""
    return GRU(input_size, c.layer_units, seed=seed)


@dataclass(frozen=True)
class ConvLSTMConfig:
    """The settings of the ConvLSTM alone."""

    common: ClassVar = ()

    channels: int = 64
    """numbers at each place of its map"""
    kernel: int = 5
    """height and width of its window"""

    def __post_init__(self):
        check_values(self, "model.conv_lstm")
        check_least("model.conv_lstm", self, "channels", "kernel")


def _map_size(c: CoreConfig, core: Any) -> str:
    (height, width, _), k = core.input_shape, c.own.kernel
    return (
        f" of {core.channels} channels on {height} x {width} places, {k} x {k} kernel"
    )


@register_core(
    "conv_lstm",
    config=ConvLSTMConfig,
    used=("forget_bias",),
    size=_map_size,
    where="maps",
    reads_maps=True,
    colour="#7F4F24",
)
def _conv_lstm(c: CoreConfig, input_size: Any, seed: Seed) -> Core:
    """an LSTM of convolutions, which remembers in maps (others read them in rows)"""
    if isinstance(input_size, int):
        numbers = f"vectors of {input_size} numbers; choose another core"
        raise ValueError(f"model.core conv_lstm reads maps, and here are {numbers}")
    height, width, channels = input_size
    sizes = height, width, channels, c.own.channels, c.own.kernel
    return ConvLSTM(*sizes, c.forget_bias, seed=seed)


@register_core("feedforward", used=LAYER, size=_size, where="maps", colour="#000000")
def _feedforward(c: CoreConfig, input_size: int, seed: Seed) -> Core:
    """a layer of hidden_size units, which remembers nothing"""
    return Feedforward(input_size, c.layer_units, seed=seed)
