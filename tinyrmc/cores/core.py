"""The contract of a recurrent core: `output, state = core(inputs, state)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ..autograd import primitives as p
from ..autograd.engine import Tensor
from ..backend import Array, namespace
from ..nn import Module, check_array

# An array or a Tensor, example-first, or a (nested) tuple of these.
State: TypeAlias = Any

# A list that each step appends a dict of arrays to, or None: then nothing is kept.
Trace: TypeAlias = list[dict[str, Array]] | None


class Core(Module):
    """A recurrent network: `output, state = core(inputs, state)` is one step.

    It begins with `core.initial_state(batch_size)`. Inputs are `core.input_size` wide,
    outputs `core.output_size`. A state is an array or a Tensor, example-first, or a
    (nested) tuple of these.
    """

    input_size: int

    @property
    def output_size(self) -> int:
        """Width of the output."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters."""
        raise NotImplementedError

    def initial_state(self, batch_size: int) -> State:
        """The state that a sequence begins with, for `batch_size` examples.

        A core may have learned it, as `EntNet` has: call this inside the Tape.
        """
        raise NotImplementedError

    def __call__(
        self, inputs: Array | Tensor, state: State, trace: Trace = None
    ) -> tuple[Tensor, State]:
        """One step: inputs (B, ...), state -> output (B, output_size), next state.

        `trace`, a list, receives one dict of arrays for the step, to look at.
        """
        raise NotImplementedError

    def unroll(
        self,
        inputs: Array | Tensor,
        state: State,
        trace: Trace = None,
        lengths: Array | None = None,
        fresh: Array | None = None,
    ) -> tuple[list[Tensor], State]:
        """T steps: inputs (B, T, ...) -> ([T outputs], last state).

        With `lengths`, integers (B,), the state of example b stays as it is after its
        first lengths[b] steps, so that the last state is the one at each example's own
        end. Ignore the outputs after that. With `fresh`, bool (B, T), the state of
        example b is the initial one again before each step t where fresh[b, t] holds:
        there an episode begins. `trace` as for a single step.
        """
        if inputs.shape[1:2] == (0,):
            raise ValueError(f"unroll: inputs {inputs.shape} have no steps")
        if trace is None and lengths is None and fresh is None:
            if (whole := self._unroll_at_once(inputs, state)) is not None:
                return whole
        if lengths is not None:
            check_lengths(lengths, *inputs.shape[:2])
        begin = None
        if fresh is not None:
            check_fresh(fresh, inputs.shape[:2])
            begin = self.initial_state(inputs.shape[0])
        outputs, renews = [], _renews(fresh, inputs.shape[1])
        for t, parts in enumerate(self._prepare_all(inputs)):
            before = state
            if fresh is not None and renews[t]:
                state = select_state(fresh[:, t], begin, state)
            output, state = self._step(*parts, state, trace)
            if lengths is not None:  # what has ended begins no new episode either
                state = select_state(lengths > t, state, before)
            outputs.append(output)
        return outputs, state

    def last_state(self, inputs: Array | Tensor, state: State, lengths: Array) -> State:
        """The last state that `unroll` would give with these lengths, for less work.

        The longest examples come first, and those that have ended drop out, an eighth
        of them at a time. On a device none do, since looking would mean waiting.
        """
        check_lengths(lengths, *inputs.shape[:2])
        if namespace(lengths) is not np:
            return self.unroll(inputs, state, lengths=lengths)[1]
        order = np.argsort(lengths)[::-1]
        inputs, lengths = p.take(inputs, order, axis=0), lengths[order]
        state = map_state(lambda x: p.take(x, order, axis=0), state)
        begin, ended = 0, []
        for end in np.unique(lengths[:: max(1, len(lengths) // 8)]).tolist():
            if end > begin:
                left = np.minimum(lengths, end) - begin
                seen = inputs[: len(left), begin:end]
                _, state = self.unroll(seen, state, lengths=left)
            going, begin = np.count_nonzero(lengths > end), end
            ended.append(_rows(state, slice(going, None)))
            lengths, state = lengths[:going], _rows(state, slice(going))
        whole = map_state(lambda *parts: p.concatenate(parts), *reversed(ended))
        back = np.argsort(order)
        return map_state(lambda x: p.take(x, back, axis=0), whole)

    def _unroll_at_once(
        self, inputs: Array | Tensor, state: State
    ) -> tuple[list[Tensor], State] | None:
        """The result of `unroll`, if the core knows a faster way than step by step."""
        return None

    def _prepare_all(self, inputs: Array | Tensor) -> Iterable[tuple]:
        """A tuple for each of the T steps: what `_step` takes before the state.

        A core may compute here, for all steps at once, what needs no state.
        """
        return ((x,) for x in p.unstack(inputs, axis=1))

    def _step(self, *arguments: Any) -> tuple[Tensor, State]:
        """One step: of what `_prepare_all` gave for it, the state and the trace."""
        return self(*arguments)

    def _check_inputs(
        self, inputs: Any, *shape: int | None, hint: str = "see input_size"
    ) -> None:
        """TypeError or ValueError unless these are inputs of this shape and precision.

        An axis of size None may have any length.
        """
        name = type(self).__name__
        check_array(name, "inputs", inputs, shape, self.dtype, hint)

    def _check_state(self, array: Any, *shape: int) -> None:
        """The same for one array of a state: a wrong one may broadcast unnoticed."""
        name = type(self).__name__
        check_array(name, "a state", array, shape, self.dtype, "see initial_state")


def check_lengths(lengths: Any, examples: int, steps: int) -> None:
    """ValueError unless there is one integer for each example.

    On NumPy they must also be from 0 to `steps`; on a GPU, looking would mean waiting.
    """
    shape = getattr(lengths, "shape", None)
    if shape != (examples,) or lengths.dtype.kind not in "iu":
        got = repr(lengths) if shape is None else f"{lengths.dtype}{list(shape)}"
        raise ValueError(
            f"unroll: lengths must be an array of {examples} integers, one for each "
            f"example, not {got}"
        )
    if isinstance(lengths, np.ndarray) and lengths.size:
        low, high = lengths.min(), lengths.max()
        if low < 0 or high > steps:
            raise ValueError(
                f"unroll: a length is {low if low < 0 else high}, and there are "
                f"{steps} steps"
            )


def check_fresh(fresh: Any, shape: tuple[int, ...]) -> None:
    """ValueError unless `fresh` holds a bool for each example and step."""
    if getattr(fresh, "shape", None) != shape or fresh.dtype != bool:
        got = f"{fresh.dtype}{list(fresh.shape)}" if hasattr(fresh, "dtype") else fresh
        raise ValueError(f"unroll: fresh must be bool {list(shape)}, not {got}")


def _renews(fresh: Array | None, steps: int) -> list[bool]:
    """The steps in which an example may begin anew. On a device these are all steps,
    since looking would mean waiting.
    """
    if fresh is None or namespace(fresh) is not np:
        return [fresh is not None] * steps
    return fresh.any(axis=0).tolist()


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
    if isinstance(states[0], (tuple, list)):
        parts = zip(*states, strict=True)
        return tuple(map_state(function, *part) for part in parts)
    return function(*states)


def state_arrays(state: State, name: str = "state") -> dict[str, Array]:
    """The arrays of a state by name, detached, so that a task can carry them on."""
    if isinstance(state, (tuple, list)):
        found: dict[str, Array] = {}
        for number, part in enumerate(state):
            found |= state_arrays(part, f"{name}.{number}")
        return found
    return {name: state.data if isinstance(state, Tensor) else state}


def state_of(arrays: Mapping[str, Array], like: State, name: str = "state") -> State:
    """The state that `state_arrays` took apart, put together again in the form of
    `like`.
    """
    if isinstance(like, (tuple, list)):
        parts = enumerate(like)
        return tuple(state_of(arrays, part, f"{name}.{k}") for k, part in parts)
    return arrays[name]
