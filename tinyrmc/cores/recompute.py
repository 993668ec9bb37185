"""Long sequences in little memory: forget the steps, and compute them again backward.

Backward needs what every step made, so the memory of `unroll` grows with T. After
`core.recompute(k)` it keeps the state before every k-th step alone, and backward goes
through k steps at a time: forward once more from that state, recording, then back
(Chen et al. 2016, "Training deep nets with sublinear memory cost"; gradient
checkpointing). That takes one more forward pass, and the memory of k steps and T / k
states instead of that of T steps. The numbers are the same to the bit; so are gradients
of inputs and states wherever the core computes k steps as it computes T; gradients of
parameters are sums over T, here added k by k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import primitives as p
from ..autograd.engine import Tape, Tensor, primitive, unrecorded
from ..autograd.nested import leaves, refilled


@primitive
def computed_again(xp, *arrays, results, run):
    """The results of run(inputs, ...), computed already, on no tape."""
    return tuple(results), (arrays, run)


@computed_again.vjp
def computed_again_vjp(xp, needs, g, arrays, run):
    # The arrays are what `run` takes, and then the parameters, which it knows itself.
    given = list(arrays[: run.takes])
    moving = [k for k in range(run.takes) if needs[k]]
    with Tape() as tape:
        for k in moving:
            given[k] = tape.watch(given[k])
        loss = pulled(run(*given), gradients=g)
    asked = [given[k] for k in moving] + run.parameters
    found = tape.gradient(loss, asked, strict=False)
    places = [*moving, *range(run.takes, len(arrays))]
    by_place = dict(zip(places, found, strict=True))
    return tuple(by_place.get(k) for k in range(len(arrays)))


@primitive
def pulled(xp, *arrays, gradients):
    """A number whose gradient with respect to each of the arrays is the one given."""
    return xp.zeros((), arrays[0].dtype), (gradients,)


@pulled.vjp
def pulled_vjp(xp, needs, g, gradients):
    return tuple(gradients)


class Segment:
    """Some steps of a core, as a function of arrays: inputs, and the state's parts."""

    def __init__(self, steps: Callable, parameters: list, form: Any):
        self.steps = steps
        self.parameters = parameters
        self.form = form
        self.takes = 1 + len(leaves(form))

    def __call__(self, inputs: Any, *parts: Any) -> list:
        """The outputs, and the parts of the last state."""
        outputs, state = self.steps(inputs, refilled(self.form, parts))
        return [*outputs, *leaves(state)]


def unroll_in_parts(core, every, inputs, state, lengths, is_first):
    """`core.unroll`, which keeps the state before every `every`-th step alone."""
    steps = inputs.shape[1]
    outputs = []
    places = list(range(every, steps, every))
    parts = p.split(inputs, places, axis=1)
    for start, part in zip([0, *places], parts, strict=True):
        length = part.shape[1]
        ends = begins = None
        if lengths is not None:
            ends = (lengths.astype(np.intp) - start).clip(0, length)
        if is_first is not None:
            begins = is_first[:, start : start + length]

        def some(x, before, ends=ends, begins=begins):
            return core._unroll(x, before, None, ends, begins)

        run = Segment(some, core.parameters(), state)
        given = [part, *leaves(state)]
        with unrecorded():
            made = run(*[x.data if isinstance(x, Tensor) else x for x in given])
        results = [x.data if isinstance(x, Tensor) else x for x in made]
        made = computed_again([*given, *run.parameters], results=results, run=run)
        outputs += made[:length]
        state = refilled(state, made[length:])
    return outputs, state
