"""The contract of a recurrent core: `output, state = core(inputs, state)`."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from ..autograd import primitives as p
from ..autograd.engine import Parameter, Tensor, is_recording
from ..autograd.nested import leaves, named_leaves, refilled
from ..backend import Array, namespace
from ..errors import check_sizes
from ..nn import LayerNorm, Module, check_array
from ..nn.layers import is_a
from .recompute import unroll_in_parts

# An array or a Tensor, example-first, or a (nested) tuple or dict of these.
State: TypeAlias = Any

# A list that receives, from a core with something to show, a dict of arrays a step.
# None: nothing is kept.
Trace: TypeAlias = list[dict[str, Array]] | None
Inputs: TypeAlias = Array | Tensor
Step: TypeAlias = tuple[Tensor, State]  # the output and the next state
Steps: TypeAlias = tuple[list[Tensor], State]
FASTER = "_unroll_at_once", "_prepare_all", "_step"  # ways that need `at_once`


class Core(Module):
    """A recurrent network: `output, state = core(inputs, state)` is one step.

    It begins with `core.initial_state(batch_size)`. Inputs are `core.input_size` wide,
    outputs `core.output_size`. `dtype` and `seed` are those of the parameters. Wrong
    arguments raise ValueError or TypeError naming them.

    A state is an array or Tensor whose first axis is the examples, (B, ...), or a tuple
    or dict (by texts) of such, which may be nested; a step returns the form that it was
    given.

    `unroll` calls the core step by step. A class that says `class Mine(Core,
    at_once=True)` has a faster way to the same numbers. What derives from it has not,
    unless it says so too: its steps may be others.
    """

    input_size: int
    output_size: int
    any_weight: ClassVar[str] = ""  # a parameter's name; "": the first, found each time
    at_once: ClassVar[bool] = False
    _recompute_every: int | None = None

    def __init_subclass__(cls, at_once: bool = False, **keywords: Any):
        super().__init_subclass__(**keywords)
        cls.at_once = at_once
        if not at_once and (ways := [name for name in FASTER if name in vars(cls)]):
            raise TypeError(
                f"{cls.__name__} has {ways[0]}, which takes the place of its steps; "
                f"write class {cls.__name__}(..., at_once=True), and tell in _layers "
                "which layers that counts on"
            )

    def is_known(self) -> bool:
        """Whether the faster ways of this class compute what its steps do: the class is
        the one that they were written for, and its layers are what they count on. All
        that runs in the place of steps or layers asks this first.
        """
        return self.at_once and is_a(self, type(self)) and self._layers_known()

    def _layers_known(self) -> bool:
        return all(says_all(*each) for each in self._layers())

    def _layers(self) -> Iterable[tuple]:
        """The arguments of `says_all` for each layer that a faster way does not call,
        or not once a step.
        """
        return ()

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters."""
        return self._weight().dtype

    def _weight(self) -> Parameter:
        """A parameter: all are of one dtype and one array library."""
        if self.any_weight:
            with contextlib.suppress(AttributeError):  # of a layer of another kind
                return operator.attrgetter(self.any_weight)(self)
        for _, parameter in self.named_parameters():
            return parameter
        raise ValueError(f"{type(self).__name__} has no parameters, so no dtype")

    def _set_sizes(self, **sizes: int) -> None:
        """Keep integers of at least 1 under their names; ValueError for others."""
        check_sizes(type(self).__name__, **sizes)
        vars(self).update(sizes)

    def zeros(self, batch_size: int, *shape: int) -> Array:
        """Zeros (B, ...) of the kind of the parameters, for a first state."""
        check_sizes(type(self).__name__, batch_size=batch_size)
        weight = self._weight().data
        return namespace(weight).zeros((batch_size, *shape), weight.dtype)

    def initial_state(self, batch_size: int) -> State:
        """The state that a sequence begins with. A core may have learned it, as
        `EntNet` has: call this inside the Tape.
        """
        raise NotImplementedError

    def __call__(self, inputs: Inputs, state: State, trace: Trace = None) -> Step:
        """One step: inputs (B, ...), state -> output (B, output_size), next state."""
        raise NotImplementedError

    def unroll(
        self,
        inputs: Inputs,
        state: State,
        trace: Trace = None,
        lengths: Array | None = None,
        is_first: Array | None = None,
    ) -> Steps:
        """T steps: inputs (B, T, ...) -> ([T outputs], last state).

        With `lengths`, integers (B,), the state of example b stays as it is after its
        first lengths[b] steps; ignore the outputs after that (see `last_output`). With
        `is_first`, bool (B, T), its state is the initial one again before each step
        where that holds. What is ignored must be finite, or the gradients are not.
        """
        steps = inputs.shape[1]
        every = self._recompute_every
        if not steps:
            raise ValueError(f"unroll: inputs {inputs.shape} have no steps")
        check_ends(inputs.shape[:2], lengths, is_first)
        if every is not None and every < steps and trace is None and is_recording():
            return unroll_in_parts(self, every, inputs, state, lengths, is_first)
        return self._unroll(inputs, state, trace, lengths, is_first)

    def recompute(self, every: int | None) -> Self:
        """Let `unroll` keep the state before every `every`-th step alone; backward
        computes the steps again from there, as recompute.py says. None: it keeps all
        steps. Returns the core.
        """
        if every is not None:
            check_sizes(type(self).__name__, every=every)
        self._recompute_every = every
        return self

    def _unroll(self, inputs, state, trace, lengths, is_first) -> Steps:
        """`unroll` of what has been checked."""
        prepare: Callable = functools.partial(Core._prepare_all, self)
        step: Callable = self
        if self.is_known():
            prepare, step = self._prepare_all, self._step
            if trace is None:
                whole = self._unroll_at_once(inputs, state, lengths, is_first)
                if whole is not None:
                    return whole
        if is_first is not None:
            begin = self.initial_state(inputs.shape[0])
            steps = inputs.shape[1]
            looks = isinstance(is_first, np.ndarray)  # a device would make us wait
            renews = is_first.any(axis=0).tolist() if looks else [True] * steps
        outputs = []
        for t, parts in enumerate(prepare(inputs)):
            before = state
            if is_first is not None and renews[t]:
                state = select_state(is_first[:, t], begin, state)
            given = step(*parts, state, trace)
            if not isinstance(given, (tuple, list)) or len(given) != 2:
                says = f"{type(self).__name__}: a step must give (output, state), not "
                raise TypeError(f"{says}a {type(given).__name__}")
            output, state = given
            if lengths is not None:  # what has ended begins no new episode either
                state = select_state(lengths > t, state, before)
            outputs.append(output)
        size = getattr(self, "output_size", output.shape[-1])
        if output.shape[-1] != size:  # else the layer that reads them would be blamed
            raise ValueError(
                f"{type(self).__name__} says output_size = {size}, and its outputs are "
                f"{list(output.shape)}; they must be (B, output_size)"
            )
        return outputs, state

    def last_output(self, inputs: Inputs, state: State, lengths: Array) -> Step:
        """Each example's output after its last step, (B, output_size), and its state.
        Where a length is 0 there is no step: zeros, and the state as it was.
        """
        outputs, state = self.unroll(inputs, state, lengths=lengths)
        xp = namespace(lengths)
        last = p.stack(outputs)[xp.maximum(lengths, 1) - 1, xp.arange(len(lengths))]
        return p.where(lengths[:, None] > 0, last, 0.0), state

    def last_state(self, inputs: Inputs, state: State, lengths: Array) -> State:
        """The last state that `unroll` would give with these lengths, for less work:
        examples that have ended drop out, an eighth of them at a time (on NumPy alone).
        """
        check_ends(inputs.shape[:2], lengths)
        if namespace(lengths) is not np:
            return self.unroll(inputs, state, lengths=lengths)[1]
        order = np.argsort(lengths)[::-1]
        inputs = p.take(inputs, order, axis=0)
        lengths = lengths[order]
        state = map_state(lambda x: p.take(x, order, axis=0), state)
        begin = 0
        ended = []
        for end in np.unique(lengths[:: max(1, len(lengths) // 8)]).tolist():
            if end > begin:
                left = np.minimum(lengths, end) - begin
                seen = inputs[: len(left), begin:end]
                _, state = self.unroll(seen, state, lengths=left)
            going = np.count_nonzero(lengths > end)
            begin = end
            ended.append(_rows(state, slice(going, None)))
            lengths = lengths[:going]
            state = _rows(state, slice(going))
        whole = map_state(lambda *parts: p.concatenate(parts), *reversed(ended))
        back = np.argsort(order)
        return map_state(lambda x: p.take(x, back, axis=0), whole)

    def _unroll_at_once(self, inputs, state, lengths, is_first) -> Steps | None:
        """The result of `unroll`, if the core knows a faster way than step by step."""
        return None

    def _prepare_all(self, inputs: Inputs) -> Iterable[tuple]:
        """For each of the T steps what `_step` takes before the state, all at once."""
        return ((x,) for x in p.unstack(inputs, axis=1))

    def _step(self, *arguments: Any) -> Step:
        """One step of what `_prepare_all` gave for it, the state and the trace."""
        return self(*arguments)

    def _check_inputs(
        self, inputs: Any, *shape: int | None, hint: str = "see input_size"
    ) -> None:
        """TypeError or ValueError unless these are inputs of this shape and precision;
        None stands for any length.
        """
        check_array(type(self).__name__, "inputs", inputs, shape, self.dtype, hint)

    def _check_state(self, array: Any, *shape: int) -> None:
        """The same for one array of a state: a wrong one may broadcast unnoticed."""
        name = type(self).__name__
        check_array(name, "a state", array, shape, self.dtype, "see initial_state")


def says_all(
    layer: Any, kind: Any, shape: tuple[int, ...], relu: bool = False, bias=True
) -> bool:
    """Whether the arrays of a layer say all that it does: it is a `kind` itself, of
    this shape, and has a bias and a ReLU, or not, as they are given.
    """
    if not is_a(layer, kind):
        return False
    if kind is LayerNorm:
        return bool(layer.gain.shape == shape)
    own = layer.weight.shape, layer.relu, layer.bias is not None
    same: bool = own == (shape, relu, bias)
    return same


def check_ends(
    shape: tuple[int, ...], lengths: Any = None, is_first: Any = None
) -> None:
    """ValueError for `lengths` or `is_first` that do not fit (examples, steps). Lengths
    are looked at on NumPy alone; on a GPU that would mean waiting.
    """
    examples, steps = shape
    if lengths is not None:
        kind = getattr(lengths, "dtype", np.dtype(object)).kind
        wrong = kind not in "iu" or lengths.shape != (examples,)
        looks = not wrong and isinstance(lengths, np.ndarray)
        if wrong or (looks and ((lengths < 0) | (lengths > steps)).any()):
            raise ValueError(
                f"unroll: lengths must be an array of {examples} integers from 0 to "
                f"{steps}, one for each example, not {lengths!r}"
            )
    if is_first is not None and (
        getattr(is_first, "shape", None) != shape or is_first.dtype != bool
    ):
        raise ValueError(
            f"unroll: is_first must be bool {list(shape)}, not {is_first!r}"
        )


def select_state(mask: Array, one: State, other: State) -> State:
    """The state `one` for examples where the mask (B,) holds, `other` for the rest."""
    return map_state(
        lambda x, y: p.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, y), one, other
    )


def _rows(state: State, rows: slice) -> State:
    """The state of some of the examples."""
    return map_state(lambda x: x[rows], state)


def map_state(function: Callable, *states: State) -> State:
    """The state that a function makes of each array of states of one form."""
    parts = zip(*(leaves(state) for state in states), strict=True)
    return refilled(states[0], (function(*each) for each in parts))


def state_arrays(state: State, name: str = "state") -> dict[str, Array]:
    """The arrays of a state by name, detached, so that a task can carry them on. Views,
    in any order: copy them by `numpy.ascontiguousarray` for programs that read raw
    bytes, such as safetensors.
    """
    found = named_leaves(state, name).items()
    return {key: x.data if isinstance(x, Tensor) else x for key, x in found}


def state_of(arrays: Mapping[str, Array], like: State, name: str = "state") -> State:
    """The state that `state_arrays` took apart, in the form of `like`."""
    return refilled(like, (arrays[key] for key in named_leaves(like, name)))
