"""The contract of a recurrent core: `output, state = core(inputs, state)`."""

from __future__ import annotations

from .. import primitives as p
from ..nn import Module


class Core(Module):
    """A recurrent network: `output, state = core(inputs, state)` is one step, and
    `core.initial_state(batch_size)` where it begins.

    A state is an array or a Tensor, example-first, or a (nested) tuple of such.
    """

    def unroll(self, inputs, state, trace=None, lengths=None):
        """T steps: inputs (B, T, ...) -> ([T outputs], last state).

        With `lengths`, integers (B,), the state of example b stays as it is after its
        first lengths[b] steps, so that the last state is that of each example's own
        end; its outputs after that are of no account. `trace` as for a single step.
        """
        if lengths is not None and (
            getattr(lengths, "shape", None) != inputs.shape[:1]
            or lengths.dtype.kind not in "iu"
        ):
            got = (
                f"{lengths.dtype}{list(lengths.shape)}"
                if hasattr(lengths, "shape")
                else repr(lengths)
            )
            raise ValueError(
                f"unroll: lengths must be an array of {inputs.shape[0]} integers, "
                f"one for each example, not {got}"
            )
        outputs = []
        for t, parts in enumerate(self._prepare_all(inputs)):
            output, after = self._step(*parts, state, trace)
            state = (
                after if lengths is None else select_state(lengths > t, after, state)
            )
            outputs.append(output)
        return outputs, state

    def _prepare_all(self, inputs):
        """For each of the T steps a tuple of what `_step` wants before the state.

        A core may compute here, for all steps at once, what needs no state.
        """
        return ((x,) for x in p.unstack(inputs, axis=1))

    def _step(self, inputs, state, trace):
        """One step from what `_prepare_all` has given."""
        return self(inputs, state, trace)


def select_state(mask, one, other):
    """The state `one` of the examples for which the mask (B,) holds, the state `other`
    of the rest.
    """
    if isinstance(one, (tuple, list)):
        return tuple(select_state(mask, *pair) for pair in zip(one, other, strict=True))
    return p.where(mask.reshape(-1, *[1] * (one.ndim - 1)), one, other)
