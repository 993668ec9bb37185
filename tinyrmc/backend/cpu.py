"""Fast paths of a processor's libraries: small products of OpenBLAS, and memory that
the C library keeps.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from . import FEW_ROWS, Array, gemm, namespace

# OpenBLAS's kernels for AVX-512 multiply small matrices as they lie in memory. All
# others are rearranged first, and for a few rows that takes as long as the product.
_SMALL_KERNELS = {"SkylakeX", "Cooperlake", "SapphireRapids"}
_SMALL = 1_000_000  # multiplications
_COLUMNS = 32  # in a block: a width for which these kernels are fast


@functools.cache
def _knows_small_products() -> bool:
    """Whether NumPy's BLAS has those kernels and uses them here."""
    from threadpoolctl import threadpool_info

    return any(x.get("architecture") in _SMALL_KERNELS for x in threadpool_info())


def multiplier(weight: Array, rows: int, times: int) -> Callable[[Array], Array]:
    """x -> x @ weight for x (rows, K) and weight (K, N), to be called `times` times.

    Where it pays, the weight is copied once, cut into blocks of columns where small
    products are fast. Each result may be overwritten by the next one.
    """
    # Measured: nothing is gained with more rows, with fewer of them in all, or with a
    # weight larger than the caches.
    pays = rows <= FEW_ROWS and rows * times >= 256 and weight.nbytes <= 8 << 20
    if namespace(weight) is not np or not pays:
        return lambda x: gemm(x, weight)
    size, width = weight.shape
    parts = 1  # a small product sums over a part of K
    while rows * size * _COLUMNS > parts * _SMALL:
        parts *= 2
    if size % parts or not _knows_small_products():
        ready = np.ascontiguousarray(weight)
        return lambda x: gemm(x, ready)
    count, length = -(-width // _COLUMNS), size // parts
    padded = np.zeros((size, count * _COLUMNS), weight.dtype)
    padded[:, :width] = weight
    cut = np.swapaxes(padded.reshape(parts, length, count, _COLUMNS), 1, 2)
    blocks = np.ascontiguousarray(cut)  # (parts, count, K / parts, 32)
    out = np.empty((parts, rows, count * _COLUMNS), weight.dtype)
    by_block = np.swapaxes(out.reshape(parts, rows, count, _COLUMNS), 1, 2)

    def multiply(x: Array) -> Array:
        each = np.swapaxes(x.reshape(rows, 1, parts, length), 0, 2)
        gemm(each, blocks, out=by_block)
        for part in out[1:]:
            out[0] += part
        return out[0, :, :width]

    return multiply


def keep_freed_memory() -> None:
    """Ask the C library to keep freed memory between operations (glibc only).

    A step frees and allocates the same few hundred arrays again and again. Giving their
    pages back to the system took a third of the time of a training step here.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            library = ctypes.CDLL("libc.so.6")
            # M_TRIM_THRESHOLD: how much may lie free at the top of the heap
            library.mallopt(-1, 1 << 30)
            # M_MMAP_THRESHOLD, at its largest: smaller arrays come from the heap
            library.mallopt(-3, 32 << 20)
