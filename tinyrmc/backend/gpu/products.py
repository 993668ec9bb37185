"""Matrix products on a GPU, by a cuBLAS handle of our own.

CuPy's call to cuBLAS cannot be captured in a CUDA graph, cannot add to what the result
holds, and rounds to TF32 by two switches, neither of which reaches all products. Ours
is a call of `cublasGemmEx`, or of `cublasGemmStridedBatchedEx` for a stack of products,
through ctypes: with a workspace of its own (without one cuBLAS allocates, and that
cannot be captured), and with a compute type that says outright what may be rounded.

cuBLAS counts by columns. A matrix that we store by rows is, to cuBLAS, its transpose;
so we ask for out^T = b^T a^T, and pass b first.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from types import ModuleType
from typing import Any

import numpy as np

Array = Any

WORKSPACE = 32 << 20  # bytes: what NVIDIA advises for Hopper; earlier GPUs need less
# dtype -> (cudaDataType_t, cublasComputeType_t, NumPy's type of alpha and beta)
TYPES = {
    np.dtype(np.float32): (0, 68),  # CUDA_R_32F, CUBLAS_COMPUTE_32F
    np.dtype(np.float64): (1, 70),
    np.dtype(np.complex64): (4, 68),
    np.dtype(np.complex128): (5, 70),
}
TF32 = 77  # CUBLAS_COMPUTE_32F_FAST_TF32
_P = ctypes.c_void_p
_N = ctypes.c_int
_L = ctypes.c_longlong
SIGNATURES = {
    "cublasCreate_v2": (_P,),
    "cublasSetStream_v2": (_P, _P),
    "cublasSetWorkspace_v2": (_P, _P, ctypes.c_size_t),
    "cublasGemmEx": (
        *(_P, _N, _N, _N, _N, _N, _P, _P, _N, _N, _P, _N, _N),
        *(_P, _P, _N, _N, _N, _N),
    ),
    "cublasGemmStridedBatchedEx": (
        *(_P, _N, _N, _N, _N, _N, _P, _P, _N, _N, _L, _P, _N, _N, _L),
        *(_P, _P, _N, _N, _L, _N, _N, _N),
    ),
}

_mode = {"tf32": False}


def use_tf32(on: bool) -> None:
    """Whether float32 operands may be rounded to TF32 from now on."""
    _mode["tf32"] = on


def products(xp: ModuleType) -> Products:
    """cuBLAS for the arrays of `xp` on the current GPU."""
    return _products(xp, xp.cuda.Device().id)


@functools.cache
def _products(xp: ModuleType, device: int) -> Products:
    return Products(xp)


def library(xp: ModuleType) -> ctypes.CDLL:
    """The cuBLAS that CuPy itself is linked with."""
    everywhere = ctypes.CDLL(None)
    if hasattr(everywhere, "cublasCreate_v2"):  # somebody has loaded it for all
        return everywhere
    xp.cuda.device.get_cublas_handle()  # with this CuPy loads it
    from cupy_backends.cuda.libs import cublas

    return ctypes.CDLL(cublas.__file__)


class Products:
    """The products of one GPU: `products(a, b, out, add)`."""

    def __init__(self, xp: ModuleType):
        self.xp, self._handle, self._stream = xp, _P(), None
        found = library(xp)
        self._call = {name: getattr(found, name) for name in SIGNATURES}
        for name, types in SIGNATURES.items():
            self._call[name].argtypes = types
        self._workspace = xp.empty(WORKSPACE, np.uint8)
        self._ask("cublasCreate_v2", ctypes.byref(self._handle))

    def _ask(self, name: str, *arguments: Any) -> None:
        if status := self._call[name](*arguments):
            raise RuntimeError(f"{name} of cuBLAS has failed with status {status}")

    def _follow_stream(self) -> None:
        """Work on the current stream. On a new one, a handle forgets its workspace."""
        stream = self.xp.cuda.get_current_stream().ptr
        if stream != self._stream:
            self._ask("cublasSetStream_v2", self._handle, stream)
            memory = self._workspace.data.ptr, self._workspace.nbytes
            self._ask("cublasSetWorkspace_v2", self._handle, *memory)
            self._stream = stream

    def __call__(
        self, a: Array, b: Array, out: Array | None = None, add: bool = False
    ) -> Array:
        """a @ b as in NumPy's matmul, or with `add` out + a @ b; written into `out`.

        A stack times one matrix is a single product. What cuBLAS cannot read where it
        lies is copied first.
        """
        xp = self.xp
        if a.dtype != b.dtype or a.dtype not in TYPES or not (a.size and b.size):
            product = xp.matmul(a, b)
            return product if out is None else _place(xp, product, out, add)
        shape = _shape(a, b)
        left = a.reshape(1, -1) if a.ndim == 1 else a
        right = b.reshape(-1, 1) if b.ndim == 1 else b
        if right.ndim == 2:
            left = left.reshape(-1, left.shape[-1])
        full = *left.shape[:-1], right.shape[-1]
        if left.ndim > 2 or right.ndim > 2:
            stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
            full = *stack, left.shape[-2], right.shape[-1]
        place = None if out is None else _view(out, full)
        if place is None:
            fresh = xp.empty(full, a.dtype)
            self._multiply(left, right, fresh, add=False)
            fresh = fresh.reshape(shape)
            return fresh if out is None else _place(xp, fresh, out, add)
        self._multiply(left, right, place, add)
        return out

    def _multiply(self, a: Array, b: Array, out: Array, add: bool) -> None:
        """One call of cuBLAS; `out` lies as `_view` has found it."""
        m, k = a.shape[-2:]
        n = b.shape[-1]
        stack = out.shape[:-2]
        count = math.prod(stack)
        (a, turn_a, row_a, next_a), (b, turn_b, row_b, next_b) = (
            self._operand(x, stack) for x in (a, b)
        )
        kind, compute = TYPES[out.dtype]
        if _mode["tf32"] and out.dtype == np.float32:
            compute = TF32
        scale = np.array([1, add], out.dtype)
        alpha = scale.ctypes.data
        beta = scale.ctypes.data + scale.itemsize
        self._follow_stream()
        ends = self._handle, turn_b, turn_a, n, m, k, alpha, b.data.ptr, kind, row_b
        row_out = _rows_apart(out)
        of_a, of_out = (a.data.ptr, kind, row_a), (out.data.ptr, kind, row_out)
        how = compute, -1  # cuBLAS chooses the algorithm
        if not stack:
            self._ask("cublasGemmEx", *ends, *of_a, beta, *of_out, *how)
            return
        stacked = next_b, *of_a, next_a, beta, *of_out, _apart(out), count
        self._ask("cublasGemmStridedBatchedEx", *ends, *stacked, *how)

    def _operand(self, x: Array, stack: tuple[int, ...]) -> tuple[Array, int, int, int]:
        """(matrices, whether cuBLAS must turn them, elements from one row, and from
        one matrix of the stack, to the next).
        """
        if x.ndim > 2 or stack:
            x = self.xp.broadcast_to(x, (*stack, *x.shape[-2:]))
        for turn, matrices in (0, x), (1, x.swapaxes(-1, -2)):
            if _regular(matrices):
                return x, turn, _rows_apart(matrices), _apart(matrices)
        x = self.xp.ascontiguousarray(x)
        return x, 0, _rows_apart(x), _apart(x)


def _shape(a: Array, b: Array) -> tuple[int, ...]:
    """The shape of a @ b."""
    if a.shape[-1] != b.shape[max(-2, -b.ndim)]:
        raise ValueError(f"{a.shape} @ {b.shape}: the inner sizes differ")
    if b.ndim <= 2:
        return (*a.shape[:-1], *b.shape[1:])
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (*stack, *a.shape[-2:-1], b.shape[-1])


def _view(out: Array, shape: tuple[int, ...]) -> Array | None:
    """`out` in this shape, as cuBLAS can write it; None if it cannot."""
    if out.shape != shape:
        if not out.flags.c_contiguous:
            return None
        out = out.reshape(shape)
    return out if _regular(out) else None


def _place(xp: ModuleType, product: Array, out: Array, add: bool) -> Array:
    if add:
        out += product
    else:
        out[...] = product
    return out


def _regular(x: Array) -> bool:
    """Whether each matrix lies row after row, and the stack in equal steps."""
    rows, columns = x.strides[-2:]
    together = x.shape[-1] == 1 or columns == x.itemsize
    apart = x.shape[-2] == 1 or rows >= x.shape[-1] * x.itemsize
    # the axes of the stack are one axis, or one matrix repeated
    axes = [(n, s) for n, s in zip(x.shape, x.strides[:-2], strict=False) if n > 1]
    steps = all(s == n * t for (_, s), (n, t) in itertools.pairwise(axes))
    return together and apart and steps


def _rows_apart(x: Array) -> int:
    """The leading dimension. cuBLAS checks it even where there is one row."""
    rows = x.strides[-2] // x.itemsize if x.shape[-2] > 1 else 0
    return max(rows, x.shape[-1])


def _apart(x: Array) -> int:
    axes = [s for n, s in zip(x.shape, x.strides[:-2], strict=False) if n > 1]
    return axes[-1] // x.itemsize if axes else 0
