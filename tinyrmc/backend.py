"""Which array library does an array belong to?

The engine never asks "am I on a GPU?". It asks the array in its hand for its namespace
`xp` and calls NumPy's names on it. This module is the only place that knows CuPy
exists, and it never imports it unless a GPU is asked for: whoever holds a CuPy array
has imported CuPy already. A further backend (the tests use one) is registered by its
array type.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import contextmanager, suppress

import numpy as np

from .errors import UserError

NAMESPACES = {np.ndarray: np}  # array type -> module with NumPy's names
_EXTRAS = "'tinyrmc[cuda12]' or 'tinyrmc[cuda13]'"


class DeviceError(UserError, RuntimeError):
    """A device was asked for that this machine or this installation does not have."""


def register(array_type: type, xp) -> None:
    """Make `xp` the namespace of all arrays of `array_type`."""
    NAMESPACES[array_type] = xp


def namespace(array):
    """The module whose functions work on `array`: numpy, cupy or a registered one.

    TypeError for anything that is not an array.
    """
    xp = NAMESPACES.get(type(array))
    return xp if xp is not None else _discover(type(array))


def _discover(array_type: type):
    """First sight of an array type: a subclass of a known one (np.memmap), or CuPy's.

    Remembers the answer.
    """
    for base in array_type.__mro__:
        if base in NAMESPACES:
            register(array_type, NAMESPACES[base])
            return NAMESPACES[base]
    if array_type.__module__.partition(".")[0] == "cupy":
        register(array_type, sys.modules["cupy"])
        return sys.modules["cupy"]
    raise TypeError(
        f"{array_type.__name__} is not an array; pass a NumPy or CuPy array, a "
        "Tensor or a Python number"
    )


def gemm(a, b, out=None):
    """Matrix product a @ b, the one door through which every GEMM of the project goes;
    written into `out`, if there is one.

    A stack of matrices times one matrix (or vector) is a single large product here;
    `matmul` alone would run a small one per matrix.
    """
    xp = namespace(a)
    if b.ndim <= 2 < a.ndim and out is None:
        return xp.matmul(a.reshape(-1, a.shape[-1]), b).reshape(
            *a.shape[:-1], *b.shape[1:]
        )
    return xp.matmul(a, b, out=out)


def device_namespace(device: str, local_rank: int = 0):
    """`xp` for "cpu" or "cuda".

    DeviceError, with the remedy, where there is no usable GPU.

    local_rank: which of the processes on this machine asks; where there are several
        they take the GPUs in turn.
    """
    if device == "cpu":
        return np
    if device != "cuda":
        raise DeviceError(f"unknown device {device!r}; choose cpu or cuda")
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise DeviceError(
                f"--device cuda: CuPy needs {error.name}, which is not installed; "
                f"pip install {_EXTRAS}"
            ) from error
        remedy = f"pip install {_EXTRAS}, the one whose CUDA version nvidia-smi shows"
        raise DeviceError(
            f"--device cuda needs CuPy, which is not installed; {remedy}"
        ) from None
    except ImportError as error:
        raise DeviceError(
            f"--device cuda: {_wheel()} cannot be imported ({_first_line(error)}); "
            f"reinstall it with {_EXTRAS}"
        ) from error
    if not cupy.is_available():
        raise DeviceError(f"--device cuda: {_why_unavailable(cupy)}")
    if local_rank:
        cupy.cuda.Device(local_rank % cupy.cuda.runtime.getDeviceCount()).use()
    try:
        square = cupy.ones((2, 2), np.float32)
        (
            square @ square + square
        ).get()  # an allocation, a product by cuBLAS and a kernel compiled on the spot
    except Exception as error:
        raise DeviceError(
            f"--device cuda: the GPU is there, but {_wheel()} cannot compute on it "
            f"({_first_line(error)}); install CuPy with the CUDA "
            f"libraries it needs, {_EXTRAS}, or run with --device cpu"
        ) from error
    return cupy


def _wheel() -> str:
    """CuPy under the name it was installed by, `cupy-cuda13x 14.2.0`, which says the
    CUDA version it is made for.
    """
    from importlib import metadata

    names = metadata.packages_distributions().get("cupy", [])
    return (
        " and ".join(f"{name} {metadata.version(name)}" for name in sorted(set(names)))
        or "CuPy"
    )


def _first_line(error) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0]


def _why_unavailable(cupy) -> str:
    """What is missing when CuPy finds no GPU, and the remedy.

    CUDA's versions are numbers: 12090 is 12.9, and no driver is 0.
    """
    driver, runtime = (
        cupy.cuda.runtime.driverGetVersion(),
        cupy.cuda.runtime.runtimeGetVersion(),
    )
    found, wanted = (
        f"{version // 1000}.{version % 1000 // 10}" for version in (driver, runtime)
    )
    if not driver:
        return (
            f"{_wheel()} finds no NVIDIA driver; install one, or run with --device cpu"
        )
    if driver // 1000 < runtime // 1000:
        swap = (
            f"pip uninstall {_wheel().split()[0]} and pip install 'tinyrmc[cuda12]', "
            "or "
            if driver // 1000 == 12
            else ""
        )
        return (
            f"{_wheel()} is made for CUDA {wanted}, the NVIDIA driver goes up to "
            f"{found}; {swap}install a newer driver"
        )
    return (
        f"{_wheel()} finds a driver for CUDA {found} but no GPU; see nvidia-smi and "
        "CUDA_VISIBLE_DEVICES, or run with --device cpu"
    )


def has_tf32(xp) -> bool:
    """Whether the current GPU has units for products in TF32: from Ampere on, compute
    capability 8.0. An earlier one ignores `use_tf32`.
    """
    return xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)["major"] >= 8


def use_tf32(xp, on: bool) -> None:
    """Let CuPy's matrix products round their float32 operands to TF32 (10 bits of
    mantissa instead of 23), or stop it.

    Each operand is then off by up to 5e-4 of itself; so may be the gradients of biases
    and the means that array bodies take, which are products too. The mode is that of
    cuBLAS in this thread on the current GPU, since CuPy's own switch, CUPY_TF32, does
    not reach products of stacks of matrices.
    """
    from cupy_backends.cuda.libs import cublas

    cublas.setMathMode(
        xp.cuda.device.get_cublas_handle(), 3 if on else 0
    )  # CUBLAS_TF32_TENSOR_OP_MATH, CUBLAS_DEFAULT_MATH


def describe_gpu(xp) -> dict:
    """The GPU in use and the versions that its results depend on, for a record."""
    runtime = xp.cuda.runtime
    properties = runtime.getDeviceProperties(xp.cuda.Device().id)
    return {
        "gpu": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "cupy": _wheel(),
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
    }


def to_device(array, xp):
    """A host array as an array of `xp`; copies to the GPU when xp is CuPy, costs
    nothing on NumPy.
    """
    return xp.asarray(array)


def to_host(array) -> np.ndarray:
    """Any backend's array as a NumPy array.

    Waits for the device (syncs) when it is not one already.
    """
    return array.get() if hasattr(array, "get") else np.asarray(array)


def page_lock(array: np.ndarray, xp) -> Callable[[], None] | None:
    """Keep a host array's pages in memory, so that a GPU can fetch from them by itself
    (`send`).

    Returns the function that undoes it: call it before the memory is freed. None on
    NumPy, and where the driver refuses because the system limits locked memory.
    """
    if xp is np:
        return None
    runtime, address = xp.cuda.runtime, array.ctypes.data
    try:
        runtime.hostRegister(address, array.nbytes, 0)
    except runtime.CUDARuntimeError:
        return None
    return lambda: runtime.hostUnregister(address)


def send(array: np.ndarray, xp):
    """A page-locked host array as an array of `xp`, without waiting. The GPU fetches it
    in its own time; until then the host array must not change (see `mark`).
    """
    there = xp.empty(array.shape, array.dtype)
    there.set(array, stream=xp.cuda.get_current_stream())
    return there


def mark(xp):
    """A mark at the end of the GPU's queue of work; its synchronize() waits until the
    GPU has reached it.
    """
    event = xp.cuda.Event(disable_timing=True)
    event.record()
    return event


def keep_freed_memory() -> None:
    """Ask the C library not to hand freed memory back to the system between operations.

    A step frees and allocates the same few hundred arrays again and again; returning
    their pages and faulting them in anew cost a third of the time of a training step
    here. glibc only; elsewhere nothing happens.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            library = ctypes.CDLL("libc.so.6")
            library.mallopt(
                -1, 1 << 30
            )  # M_TRIM_THRESHOLD: how much may lie free at the top of the heap
            library.mallopt(
                -3, 32 << 20
            )  # M_MMAP_THRESHOLD, at its largest: below it arrays come from the heap


@contextmanager
def blas_threads(count: int):
    """Run the body with `count` BLAS threads.

    Small matrices are up to 50 times slower on several threads, and workers that share
    a batch must not each start four of them. Setting OPENBLAS_NUM_THREADS after NumPy
    was imported does nothing, hence threadpoolctl.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=count, user_api="blas"):
        yield
