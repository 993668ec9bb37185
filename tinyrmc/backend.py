"""Which array library does an array belong to?

The engine never asks "am I on a GPU?". It asks the array in its hand for its namespace `xp` and calls NumPy's names on it. This module is
the only place that knows CuPy exists, and it never imports it unless a GPU is asked for: whoever holds a CuPy array has imported CuPy
already. A further backend (the tests use one) is registered by its array type.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager, suppress

import numpy as np

_NAMESPACES = {np.ndarray: np}  # array type -> module with NumPy's names


class DeviceError(RuntimeError):
    """A device was asked for that this machine or this installation does not have."""


def register(array_type: type, xp) -> None:
    """Make `xp` the namespace of all arrays of `array_type`."""
    _NAMESPACES[array_type] = xp


def namespace(array):
    """The module whose functions work on `array`: numpy, cupy or a registered one. TypeError for anything that is not an array."""
    xp = _NAMESPACES.get(type(array))
    return xp if xp is not None else _discover(type(array))


def _discover(array_type: type):
    """First sight of an array type: a subclass of a known one (np.memmap), or CuPy's. Remembers the answer."""
    for base in array_type.__mro__:
        if base in _NAMESPACES:
            register(array_type, _NAMESPACES[base])
            return _NAMESPACES[base]
    if array_type.__module__.partition(".")[0] == "cupy":
        register(array_type, sys.modules["cupy"])
        return sys.modules["cupy"]
    raise TypeError(f"{array_type.__name__} is not an array; pass a NumPy or CuPy array, a Tensor or a Python number")


def gemm(a, b):
    """Matrix product a @ b, the one door through which every GEMM of the project goes.

    A stack of matrices times one matrix (or vector) is a single large product here; `matmul` alone would run a small one per matrix.
    """
    xp = namespace(a)
    if b.ndim <= 2 < a.ndim:
        return xp.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], *b.shape[1:])
    return xp.matmul(a, b)


def device_namespace(device: str, local_rank: int = 0):
    """`xp` for "cpu" or "cuda". DeviceError, with the remedy, where there is no usable GPU.

    local_rank: which of the processes on this machine asks; where there are several they take the GPUs in turn.
    """
    if device == "cpu":
        return np
    if device != "cuda":
        raise DeviceError(f"unknown device {device!r}; choose cpu or cuda")
    try:
        import cupy
    except ImportError:
        raise DeviceError(
            "--device cuda needs CuPy, which is not installed; pip install 'tinyrmc[cuda12]' or 'tinyrmc[cuda13]', as your driver has it"
        ) from None
    if not cupy.is_available():
        raise DeviceError("--device cuda: CuPy finds no usable NVIDIA GPU or driver; run with --device cpu")
    if local_rank:
        cupy.cuda.Device(local_rank % cupy.cuda.runtime.getDeviceCount()).use()
    return cupy


def to_device(array, xp):
    """A host array as an array of `xp`; copies to the GPU when xp is CuPy, costs nothing on NumPy."""
    return xp.asarray(array)


def to_host(array) -> np.ndarray:
    """Any backend's array as a NumPy array. Waits for the device (syncs) when it is not one already."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def keep_freed_memory() -> None:
    """Ask the C library not to hand freed memory back to the system between operations.

    A step frees and allocates the same few hundred arrays again and again; returning their pages and faulting them in anew cost a third
    of the time of a training step here. glibc only; elsewhere nothing happens.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            library = ctypes.CDLL("libc.so.6")
            library.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD: how much may lie free at the top of the heap
            library.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD, at its largest: below it arrays come from the heap


@contextmanager
def blas_threads(count: int):
    """Run the body with `count` BLAS threads.

    Small matrices are up to 50 times slower on several threads, and workers that share a batch must not each start four of them. Setting
    OPENBLAS_NUM_THREADS after NumPy was imported does nothing, hence threadpoolctl.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=count, user_api="blas"):
        yield
