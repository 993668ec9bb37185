"""The array library that an array belongs to.

The engine never asks "am I on a GPU?". It asks the array in its hand for its namespace
`xp`, and calls NumPy's names on that. Only this module, `gpu/` and `training/gpu/` know
that CuPy exists, and CuPy is imported only when you ask for a GPU. To add another
backend, register its array type, as the tests do.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from ..errors import UserError
from .switches import Switch as Switch
from .switches import blas_threads as blas_threads

Array: TypeAlias = Any  # NumPy's, CuPy's or a registered one: they share no type

# array type -> the module with NumPy's names for it
NAMESPACES: dict[type, ModuleType] = {np.ndarray: np}


class DeviceError(UserError, RuntimeError):
    """You asked for a device that this machine or this installation does not have."""


# --- Which library --------------------------------------------------------------------


def register(array_type: type, xp: ModuleType) -> None:
    """Make `xp` the namespace of all arrays of `array_type`."""
    NAMESPACES[array_type] = xp


def namespace(array: Array) -> ModuleType:
    """The module whose functions work on `array`: numpy, cupy or a registered one.
    TypeError for anything that is not an array.
    """
    xp = NAMESPACES.get(type(array))
    return xp if xp is not None else _discover(type(array))


def _discover(array_type: type) -> ModuleType:
    """The namespace of an array type seen for the first time; it is remembered.

    The type is a subclass of a known one, or CuPy's. Of NumPy's own subclasses only
    np.memmap behaves like a plain array.
    """
    bases = [base for base in array_type.__mro__ if base in NAMESPACES]
    if array_type.__module__.partition(".")[0] == "cupy":
        register(array_type, sys.modules["cupy"])
    elif not bases:
        raise TypeError(
            f"{array_type.__name__} is not an array; pass a NumPy or CuPy array"
        )
    elif bases[0] is np.ndarray and array_type is not np.memmap:
        raise TypeError(
            f"{array_type.__name__} is an array with rules of its own; pass "
            "np.asarray(x), or for a masked one x.filled(value) and the mask"
        )
    else:
        register(array_type, NAMESPACES[bases[0]])
    return NAMESPACES[array_type]


def compiles(xp: ModuleType) -> bool:
    """Whether arrays of `xp` lie on a GPU that it compiles CUDA for, as CuPy does."""
    return xp is not np and hasattr(xp, "RawModule")


def kernels(
    xp: ModuleType, *arrays: Array, indices: Collection[int] = ()
) -> ModuleType | None:
    """The package `gpu/`, if its kernels can work on all these arrays; else None. On
    NumPy it is never imported, and may be deleted.
    """
    if not compiles(xp):
        return None
    from . import gpu

    return gpu if gpu.usable(*arrays, indices=indices) else None


def readonly(xp: ModuleType, array: Array) -> Array:
    """The array for others to see: on NumPy a view that nobody can write into."""
    if xp is np:
        array = array.view()
        array.setflags(write=False)
    return array


FEW_ROWS = 40  # products of this many rows or fewer need special care


def gemm(a: Array, b: Array, out: Array | None = None, add: bool = False) -> Array:
    """Matrix product a @ b, written into `out` if you give one, or added to it.

    Every matrix product of the project comes through here. A stack of matrices times
    one matrix is a single large product; `matmul` alone would run a small one per
    matrix.
    """
    xp = namespace(a)
    if compiles(xp):
        from .gpu.products import products

        return products(xp)(a, b, out, add)
    if add:
        out += gemm(a, b)
        return out
    if b.ndim > 2 or a.ndim < 2 or out is not None:
        return xp.matmul(a, b, out=out)
    rows = as_rows(a)
    if xp is np and len(rows) <= FEW_ROWS and b.size >= 1 << 16 and b.flags.fnc:
        # OpenBLAS takes 1.5 times as long for these; transposed, they are fast
        product = (b.T @ np.ascontiguousarray(rows.T)).T
        product = np.ascontiguousarray(product)
    else:
        product = xp.matmul(rows, b)
    return product if a.ndim == 2 else product.reshape(*a.shape[:-1], *b.shape[1:])


def as_rows(x: Array) -> Array:
    """x as a matrix, all axes but the last merged: a view where x is contiguous."""
    return x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def column_sums(rows: Array, into: Array | None = None) -> Array:
    """The sum of a matrix over its rows, a new vector, or added to `into`."""
    xp = namespace(rows)
    if gpu := kernels(xp, rows, into):
        add = into is not None
        into = into if add else xp.empty(rows.shape[1], rows.dtype)
        gpu.column_sums(xp, rows, into, add=add)
        return into
    # a product with ones is three times as fast as `sum`
    sums = gemm(xp.ones(len(rows), rows.dtype), rows)
    return sums if into is None else xp.add(into, sums, out=into)


def row_dots(a: Array, b: Array) -> Array:
    """The dot product of each row of a with that of b: two (..., K) -> (...). CuPy's
    einsum would ask for a cuBLAS that no CUDA graph can capture.
    """
    xp = namespace(a)
    if compiles(xp):
        return xp.sum(a * b, axis=-1)
    return xp.einsum("...i,...i->...", a, b)


FEW_ARRAYS = 8  # with more, CuPy sends their addresses to the GPU


def joined(xp: ModuleType, arrays: Sequence[Array], axis: int = 0) -> Array:
    """xp.concatenate; on a GPU a few at a time, so that a CUDA graph can capture it."""
    while xp is not np and len(arrays) > FEW_ARRAYS:
        groups = range(0, len(arrays), FEW_ARRAYS)
        few = [arrays[k : k + FEW_ARRAYS] for k in groups]
        arrays = [xp.concatenate(group, axis=axis) for group in few]
    return xp.concatenate(arrays, axis=axis)


def stacked(xp: ModuleType, arrays: Sequence[Array], axis: int = 0) -> Array:
    """xp.stack, in the same way."""
    if xp is np:
        return xp.stack(arrays, axis=axis)
    return joined(xp, [xp.expand_dims(x, axis) for x in arrays], axis)


def add_rows(total: Array, ids: Array, rows: Array) -> None:
    """total[ids[k]] += rows[k] for every k, even where an id comes several times. total
    (V, d), integers ids (R,), rows (R, d). It gives the same bits every time.
    """
    xp = namespace(total)
    if xp is np:  # this loop is up to four times as fast as np.add.at and reduceat
        for id, row in zip(ids.tolist(), rows, strict=True):
            total[id] += row
        return
    # Bring the rows of one id side by side. Then give each the sum of its id's rows
    # from there on, by doubling: the sums of 1, 2, 4, ... rows.
    order = sorting(ids)
    ids = ids[order]
    rows = rows[order]
    step = 1
    while step < len(ids):
        same = (ids[step:] == ids[:-step])[:, None]
        further = xp.where(same, rows[step:], xp.zeros((), rows.dtype))
        rows = xp.concatenate([rows[:-step] + further, rows[-step:]])
        step *= 2
    # The first row of an id has the whole sum. The others turn to zeros, which may be
    # added in any order.
    again = xp.concatenate([xp.zeros_like(ids[:1], dtype=bool), ids[1:] == ids[:-1]])
    xp.add.at(total, ids, xp.where(again[:, None], xp.zeros((), rows.dtype), rows))


_COUNTED = 1 << 28  # the most comparisons held at once, a byte each


def sorting(x: Array, axis: int = -1) -> Array:
    """The indices that sort x along an axis; equal numbers keep their order.

    On a GPU by counting, for each number, how many come before it: CuPy's sort may wait
    for the GPU (cupy/cupy#9126), and no CUDA graph can capture that.
    """
    xp = namespace(x)
    if xp is np or x.size * x.shape[axis] > _COUNTED:
        return xp.argsort(x, axis=axis, kind="stable")
    x = xp.moveaxis(x, axis, -1)
    count = x.shape[-1]
    numbers = xp.arange(count)
    ours = x[..., :, None]
    others = x[..., None, :]
    first = (others == ours) & (numbers < numbers[:, None])
    ranks = xp.sum((others < ours) | first, axis=-1)
    order = xp.zeros_like(ranks)
    xp.put_along_axis(order, ranks, xp.broadcast_to(numbers, x.shape), axis=-1)
    return xp.moveaxis(order, -1, axis)


def to_host(array: Array) -> np.ndarray:
    """Any backend's array as a NumPy array. Waits for the device (syncs)."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


# --- Overrides ------------------------------------------------------------------------


class Override:
    """Two functions that stand in for a fused primitive's array body and its vjp: they
    launch kernels on a GPU, or are compiled for a CPU.

    It enters a `table` by its name. The functions get what `ready(xp, array)` makes of
    the arrays of a call, whose shapes fit each other. `condition`, set by the decorator
    `fits`, tells from the arguments whether they can serve it. It has a default for
    each static argument: if one is missing, it is the array body that says so.
    """

    backward: Callable[..., Any]

    def __init__(self, table: dict, ready: Callable, run: Callable, condition=None):
        self.ready, self.run = ready, run
        self.condition = condition or (lambda *arrays, **static: True)
        self.name = run.__name__
        table[self.name] = self

    def forward(self, xp: ModuleType, *arrays: Any, **static: Any) -> tuple:
        """(out, saved) of a call, as from a primitive's `forward`."""
        return self.run(xp, *[self.ready(xp, a) for a in arrays], **static)

    def rule(self, xp: ModuleType, needs: list, g: Any, *saved: Any) -> tuple:
        """The gradients of the arguments, as from a primitive's `rule`."""
        return self.backward(xp, needs, self.ready(xp, g), *saved)

    def vjp(self, backward: Callable) -> Callable:
        """Decorator that gives the override its vector-Jacobian product."""
        self.backward = backward
        return backward

    def fits(self, condition: Callable[..., bool]) -> Callable[..., bool]:
        """Decorator that sets the condition on the arguments."""
        self.condition = condition
        return condition


# --- GPUs -----------------------------------------------------------------------------


def device_namespace(device: str, local_rank: int = 0) -> ModuleType:
    """`xp` for "cpu" or "cuda"; DeviceError says what to do where no GPU can be used.

    local_rank: the number of this process on its machine; they take GPUs in turn.
    """
    if device == "cpu":
        return np
    if device != "cuda":
        raise DeviceError(f"unknown device {device!r}; choose cpu or cuda")
    try:
        import cupy

        if local_rank:
            count = cupy.cuda.runtime.getDeviceCount()
            cupy.cuda.Device(local_rank % count).use()
        # whether it can allocate, multiply and compile a kernel
        square = cupy.ones((2, 2), np.float32)
        (square @ square + square).get()
    except Exception as error:
        said = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        raise DeviceError(
            f"--device cuda needs CuPy and a GPU that it can compute on ({said}); see "
            "nvidia-smi and CUDA_VISIBLE_DEVICES, pip install 'tinyrmc[cuda12]' or "
            "'tinyrmc[cuda13]', the one whose CUDA version nvidia-smi shows (Volta and "
            "older GPUs need cuda12), or run with --device cpu"
        ) from error
    return cupy


def has_tf32(xp: ModuleType) -> bool:
    """Whether the current GPU has units for TF32; they came with Ampere, 8.0."""
    return xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)["major"] >= 8


def use_tf32(xp: ModuleType, on: bool) -> None:
    """Let matrix products on a GPU round their float32 operands to TF32, or stop it.

    TF32 has 10 bits of mantissa instead of 23: an operand is off by up to 5e-4.
    """
    from .gpu.products import use_tf32

    use_tf32(on)


def describe_gpu(xp: ModuleType) -> dict[str, Any]:
    """The GPU in use and the versions that its results depend on, for a record."""
    runtime = xp.cuda.runtime
    properties = runtime.getDeviceProperties(xp.cuda.Device().id)
    return {
        "gpu": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "cupy": xp.__version__,
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
    }
