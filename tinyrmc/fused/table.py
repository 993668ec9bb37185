"""Fused primitives, and a few lines that several of their bodies share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import numpy as np

from ..autograd import calls
from ..autograd.engine import Primitive, Tensor
from ..backend import Switch, kernels

MOST_SHAPES = 1000  # how many checked shapes each operation remembers

_plain = Switch(False)

compiled: dict[str, Any] = {}  # the overrides that run on NumPy's arrays: see bodies.py


class Fused(Primitive):
    """A primitive that can say what it means.

    `reference` is the same function composed of basic primitives.

    `shapes` has a text for the shape of each array, such as "... in", "in out", "out".
    Axes with the same name have the same length, "4H" is four times as long as "H",
    "..." stands for any axes, the same for all arrays, and "_" for any length. A call
    that does not fit is refused: if it merely broadcast, it would give numbers, but
    wrong ones. `indices` may be a dict that says along which axis each one counts, such
    as {1: "V"}; then integers outside of it are refused too.
    """

    composed: Callable[..., Any]  # the composition

    def __init__(
        self,
        forward: Callable,
        shapes: Iterable[str],
        indices: Iterable[int] = (),
        hint: str = "",
    ):
        super().__init__(forward, indices, hint)
        names = list(inspect.signature(forward).parameters)[1:]  # all but xp
        self.shapes = dict(zip(names, map(str.split, shapes), strict=False))
        self.counted = dict(indices) if isinstance(indices, Mapping) else {}
        self._fitting: dict[tuple, dict] = {}  # shapes that passed: lengths of axes

    def _check(self, arrays: list) -> None:
        """An error for arrays whose shapes or indices do not fit."""
        shapes = tuple([getattr(array, "shape", None) for array in arrays])
        sizes = self._fitting.get(shapes)
        if sizes is None:
            sizes = {}
            for wanted, shape in zip(self.shapes.values(), shapes, strict=False):
                if shape is not None and not _fits(wanted, shape, sizes):
                    told = [
                        f"{n} ({', '.join(axes)})" for n, axes in self.shapes.items()
                    ]
                    raise ValueError(f"the shapes must be {', '.join(told)}")
            if len(self._fitting) >= MOST_SHAPES:
                self._fitting.clear()
            self._fitting[shapes] = sizes
        for position, axis in self.counted.items():
            ids = arrays[position]
            count = sizes.get(axis, 0)
            if ids.dtype.kind not in "iu":
                raise TypeError(f"indices are {ids.dtype}, not integers")
            if isinstance(ids, np.ndarray) and ids.size:  # a device would make us wait
                for index in ids.min(), ids.max():
                    if not 0 <= index < count:
                        raise IndexError(f"{index} is none of 0 .. {count - 1}")

    def override(self, xp: ModuleType, arrays: list, static: dict) -> Any:
        """The kernel, if there is one for this call; else the array body."""
        self._check(arrays)
        if xp is np:
            kernel = compiled.get(self.name)
        else:
            gpu = kernels(xp, *arrays, indices=self.indices)
            kernel = gpu and gpu.OVERRIDES.get(self.name)
        return kernel if kernel and kernel.condition(*arrays, **static) else self

    def reference(self, *args: Any, **static: Any) -> Any:
        """The same values and gradients from basic primitives: slower, plainer.

        It looks at no shapes: what a call refuses may broadcast here.
        """
        return self.composed(*args, **static)

    def defined_by(self, composition: Callable) -> Callable:
        """Decorator that sets `reference`."""
        self.composed = composition
        return composition

    def __call__(self, *args: Any, **static: Any) -> Any:
        if not _plain.value:
            return super().__call__(*args, **static)
        args, static = calls.bind(self, args, static)
        arrays = [a.data if isinstance(a, Tensor) else a for a in args]
        calls.common(self, arrays)
        try:
            self._check(arrays)
        except calls.WORDED as error:
            raise calls.explained(self, error, arrays) from None
        args = tuple(
            array if isinstance(a, (list, tuple)) else a
            for a, array in zip(args, arrays, strict=True)
        )
        return self.composed(*args, **static)


def _fits(wanted: list[str], shape: tuple[int, ...], sizes: dict) -> bool:
    """Whether a shape is as wanted, given the `sizes` by name so far; adds to them."""
    if wanted[0] == "...":
        wanted, free = wanted[1:], len(shape) - len(wanted) + 1
        if free < 0 or sizes.setdefault("...", shape[:free]) != shape[:free]:
            return False
        shape = shape[free:]
    if len(wanted) != len(shape):
        return False
    for name, size in zip(wanted, shape, strict=True):
        unit = name.lstrip("0123456789")
        times = int(name.removesuffix(unit) or 1)
        known = sizes.setdefault(unit, size // times) if unit else 1  # or a number
        if unit != "_" and size != times * known:
            return False
    return True


def fused(
    *shapes: str, indices: Iterable[int] = (), hint: str = ""
) -> Callable[[Callable], Fused]:
    """Decorator: put a fused primitive into the table. See `Fused`."""
    return lambda forward: Fused(forward, shapes, indices, hint)


def plain() -> AbstractContextManager[None]:
    """Inside the block fused primitives run as their references.

    In all threads, and in processes forked meanwhile. So every core is composed of
    basic primitives, and what `equations.py` says is what trains.
    """
    return _plain.held(True)


def is_plain() -> bool:
    """Whether we are inside `plain`."""
    return _plain.value


# --- what several bodies share --------------------------------------------------------


def plus(xp, fresh, b):
    """fresh + b, written over the array `fresh`.

    A new array if only b is complex, as in a complex step of b alone.
    """
    return xp.add(fresh, b, out=fresh if fresh.dtype == b.dtype else None)


def after_relu(xp, g, y):
    """g where the ReLU's result y is positive; chosen, since 0 * inf would be NaN."""
    return xp.where(y > 0, g, g.dtype.type(0))


def sigmoid(xp, x):
    """The logistic function of a scratch array, in place."""
    x *= 0.5
    x = xp.tanh(x, out=x)
    x *= 0.5
    x += 0.5
    return x


def check_mask(mask, of_heads=False):
    if mask.dtype != bool:
        raise TypeError(f"the mask is {mask.dtype}, not bool")
    if of_heads and mask.ndim == 3:
        raise ValueError("the mask's first of three axes: examples, or heads?")
    if isinstance(mask, np.ndarray) and not mask.any(axis=-1).all():
        raise ValueError("the mask leaves a row nothing to attend to")
