"""Gradients on their way back: brought to shape, added up, and some computed late."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from ..backend import Array, column_sums, compiles, gemm, namespace

# A value as the tape knows it: (id, shape, dtype).
Place: TypeAlias = tuple[int, tuple[int, ...], np.dtype]

# A product over so many rows is about as efficient as one over more.
ENOUGH_ROWS = 256


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: the gradient `g` summed down to `shape`. The sum runs over the
    axes that broadcasting from `shape` to g.shape has added, or has stretched from 1.
    """
    extra = g.ndim - len(shape)
    if extra > 0:
        g = g.sum(axis=tuple(range(extra)))
    stretched = tuple(
        [axis for axis, size in enumerate(shape) if size == 1 and g.shape[axis] != 1]
    )
    return g.sum(axis=stretched, keepdims=True) if stretched else g


class DeferredMatmul:
    """A gradient that is still to be computed: x^T g, of this `shape` and `dtype`.

    It belongs to a weight by which rows x (R, in) were multiplied; g (R, out) is the
    gradient of the result. If x is None, it is the sum of the rows of g: the gradient
    of a bias. Nobody may write into x or g any more.
    """

    __slots__ = ("dtype", "g", "shape", "x")

    def __init__(self, x: Array | None, g: Array):
        self.x, self.g = x, g
        self.shape = g.shape[1:]
        self.dtype = g.dtype
        if x is not None:
            self.shape = *x.shape[1:], *self.shape

    def computed(self, into: Array | None = None) -> Array:
        """The gradient itself, a new array; or added to the array `into`."""
        if self.x is None:
            return column_sums(self.g, into)
        return gemm(self.x.T, self.g, out=into, add=into is not None)


def fitted(rules: Any, position: int, place: Place, g: Any) -> Array:
    """A rule's gradient for one argument, in that argument's own shape. TypeError if
    the rule is wrong.
    """
    _, shape, dtype = place
    given = g
    if isinstance(g, DeferredMatmul):
        g = g.computed()
    if getattr(g, "ndim", -1) >= len(shape) and g.shape != shape:
        g = unbroadcast(g, shape)
    if getattr(g, "shape", None) != shape or g.dtype != dtype:
        shaped = hasattr(given, "shape")
        got = f"{given.dtype}{list(given.shape)}" if shaped else repr(given)
        raise TypeError(
            f"vjp of {rules.name}, argument {position}: the gradient is {got}, the "
            f"argument {dtype}{list(shape)}; the rule is wrong"
        )
    return g


class Gradients:
    """The gradients so far, by the id of the value they belong to.

    Who owns which array? The first contribution is borrowed: the rule that gave it may
    have handed the same array to others (a + b gives both the same g). The second is
    added out of place, which makes a sum of our own. From the third on we add in place.
    The values in `sinks` have arrays of their own from the start, to be added to.

    Products wait in `deferred` until they have ENOUGH_ROWS, or until the gradient is
    asked for: then they are computed as one.
    """

    def __init__(self, sinks: dict[int, Array], keep: Iterable[int] = ()):
        self.sinks = sinks
        self.keep = set(keep)  # gradients that stay here when they are complete
        self.pending: dict[int, Array] = {}
        self.owned: set[int] = set()
        self.reached: set[int] = set()  # those of the sinks that got something
        self.deferred: dict[int, tuple[int, list[DeferredMatmul]]] = {}  # with rows

    def add(self, id: int, g: Array | DeferredMatmul) -> None:
        """One more contribution to the gradient of a value."""
        if isinstance(g, DeferredMatmul):
            rows, products = self.deferred.get(id, (0, []))
            rows += len(g.g)
            products.append(g)
            self.deferred[id] = rows, products
            # on a GPU, joining is as much work as the products
            if rows >= ENOUGH_ROWS or compiles(namespace(g.g)):
                self.flush(id)
            return
        total = self.pending.get(id)
        if id in self.sinks:
            self.sinks[id] += g
            self.reached.add(id)
        elif total is None:
            self.pending[id] = g
        elif id in self.owned:
            total += g
            self.pending[id] = total  # += replaces a NumPy scalar, a sum of 0-d arrays
        else:
            self.pending[id] = total + g
            self.owned.add(id)

    def total(self, xp: ModuleType, id: int, shape, dtype) -> Array:
        """The array of a value's gradient, for a rule to add to in place."""
        if id in self.sinks:
            self.reached.add(id)
            return self.sinks[id]
        if id not in self.owned:
            total = xp.zeros(shape, dtype)
            if id in self.pending:
                total += self.pending[id]
            self.pending[id] = total
            self.owned.add(id)
        return self.pending[id]

    def flush(self, id: int) -> None:
        """Compute what was deferred for one value, as one product, and add it."""
        product, *others = products = self.deferred.pop(id)[1]
        if others:  # their rows are copied into one array
            join = namespace(product.g).concatenate
            x = None if product.x is None else join([p.x for p in products])
            product = DeferredMatmul(x, join([p.g for p in products]))
        if id in self.sinks:
            product.computed(into=self.sinks[id])
            self.reached.add(id)
        else:
            self.add(id, product.computed())

    def pop(self, id: int) -> Array | None:
        """The finished gradient of one value; None if the loss does not use it."""
        if id in self.deferred:
            self.flush(id)
        return self.pending.get(id) if id in self.keep else self.pending.pop(id, None)

    def collect(self, xp: ModuleType, outputs: list[Place], zeros: bool) -> Any:
        """The finished gradients of outputs; None if the loss uses none of them."""
        gradients = [self.pop(id) for id, _, _ in outputs]
        if all(g is None for g in gradients):
            return None
        if zeros:
            for k, (_, shape, dtype) in enumerate(outputs):
                if gradients[k] is None:
                    gradients[k] = xp.zeros(shape, dtype)
        return tuple(gradients)
