"""The judge of a derivative that a learner writes: the complex step of the forward.

    exact = by_complex_step(attention, "Q K V")
    exact(g, Q, K, V)      the gradients of Q, K and V, good to the last digits or so

It knows nothing of a backward formula: every entry is moved by 1e-30 i, and forward
says what becomes of it (chapter 4).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]
STEP = 1e-30  # its square is no number beside 1, and nothing is subtracted


def log_shares(x: np.ndarray) -> np.ndarray:
    """ln softmax over the last axis, of complex numbers too."""
    z = x - x.real.max(axis=-1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def by_complex_step(forward: Function, of: str, outputs: int = 1) -> Function:
    """f(g, *arguments), the gradients of the arguments whose names `of` lists.

    `forward` takes complex arrays. Of several outputs, the gradients come first, one
    argument each. One name gives an array, several a tuple.
    """
    order = [*inspect.signature(forward).parameters]
    places = [order.index(name) for name in of.split()]

    def gradients(*arguments: Any) -> Any:
        given, inputs = arguments[:outputs], arguments[outputs:]
        found = tuple(_gradient(forward, given, inputs, place) for place in places)
        return found if len(found) > 1 else found[0]

    return gradients


def _gradient(forward: Function, given: tuple, inputs: tuple, place: int) -> np.ndarray:
    """Of the sum of all outputs, each times what is `given` for it."""
    moved = [*inputs]
    moved[place] = np.array(inputs[place], complex)
    gradient = np.zeros(moved[place].shape)
    for entry in np.ndindex(gradient.shape):
        moved[place][entry] += 1j * STEP
        results = forward(*moved)
        results = results if isinstance(results, tuple) else (results,)
        pairs = zip(given, results, strict=True)
        gradient[entry] = sum((g * y.imag).sum() for g, y in pairs) / STEP
        moved[place][entry] = moved[place][entry].real
    return gradient
