"""CUDA kernels that take the place of array bodies on a GPU.

What is one tape entry then also is one launch, or two.

`@fused(kernel=kernels.layer_norm)` at the head of an array body names its override. The
array body and its vjp have counterparts of the same form here, `forward` and `rule`.
Each launches kernels of `layer_norm.cu`, whose first lines say, in the body's notation,
what they compute. A call takes the override if all its arrays are float32 (targets
int64), if their sizes are supported, and if their namespace can compile CUDA, as CuPy
can. Otherwise the array body runs, and says what was wrong with the call. An override
may save something else than the body does, so backward runs with the rules that forward
ran with.

Nothing here waits for the GPU, and no sum depends on the order in which blocks run: you
get the same bits every time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

# files of this folder; the first one is for the others
SOURCES = (
    "warp",
    "layer_norm",
    "rmc_gates",
    "attention",
    "softmax_cross_entropy",
    "adam",
)
FOLDER = Path(__file__).parent
WARP = 32
SHARED = 48 * 1024  # bytes of shared memory that any GPU gives a block unasked
PARTIAL_BLOCKS = 512  # blocks that share the rows of layer_norm's backward
_LARGEST = 2**31 - 1  # elements of an array: the kernels count in int

_mode = {"on": True}


@contextmanager
def off() -> Iterator[None]:
    """Run the array bodies on a GPU too, in all threads, inside the block."""
    before, _mode["on"] = _mode["on"], False
    try:
        yield
    finally:
        _mode["on"] = before


def usable(xp: ModuleType, *arrays: Any, indices: Collection[int] = ()) -> bool:
    """Whether kernels can work on all these arrays (None aside).

    Kernels must be on, `xp` able to compile them, and the arrays of a size and dtype
    that they take: float32, and int64 at the positions in `indices`.
    """
    fit = [
        a is None or _plain(a, np.int64 if k in indices else np.float32)
        for k, a in enumerate(arrays)
    ]
    return _mode["on"] and hasattr(xp, "RawModule") and all(fit)


def _plain(a, dtype) -> bool:
    return getattr(a, "dtype", None) == dtype and 0 < a.size <= _LARGEST


def _contiguous(xp, a):
    """Kernels ignore strides, so we copy what lies otherwise in memory.

    The rest stays as it is: CuPy's function would make a 1-d array of a 0-d one.
    """
    return a if a is None or a.flags.c_contiguous else xp.ascontiguousarray(a)


class Override:
    """Two launchers that stand in for a fused primitive's array bodies.

    They are `forward` and `rule`, and get contiguous arrays. `condition`, set by the
    decorator `fits`, tells from the arguments whether the kernels support their shapes.
    It has a default for each static argument, so that the array body is the one to miss
    an argument, and says so.
    """

    condition: Callable[..., bool]
    launch_backward: Callable[..., Any]

    def __init__(self, launch_forward: Callable):
        self.launch_forward, self.name = launch_forward, launch_forward.__name__

    def __repr__(self) -> str:
        return f"<kernels of {self.name}>"

    def forward(self, xp: ModuleType, *arrays: Any, **static: Any) -> tuple:
        """(out, saved) of a call, as from a primitive's `forward`."""
        return self.launch_forward(xp, *[_contiguous(xp, a) for a in arrays], **static)

    def rule(self, xp: ModuleType, needs: list, g: Any, *saved: Any) -> tuple:
        """The gradients of the arguments, as from a primitive's `rule`."""
        return self.launch_backward(xp, needs, _contiguous(xp, g), *saved)

    def vjp(self, launch_backward: Callable) -> Callable:
        """Decorator that gives the override its vector-Jacobian product."""
        self.launch_backward = launch_backward
        return launch_backward

    def fits(self, condition: Callable[..., bool]) -> Callable[..., bool]:
        """Decorator that sets the condition on the arguments."""
        self.condition = condition
        return condition

    def takes(
        self, xp: ModuleType, arrays: list, indices: Collection[int], static: dict
    ) -> bool:
        """Whether a call with these arguments runs here.

        `indices` are the positions of the integer arrays.
        """
        if not usable(xp, *arrays, indices=indices):
            return False
        return self.condition(*arrays, **static)


@functools.cache
def _function(xp, name):
    """A kernel.

    The first one asked for compiles them all: seconds, once. CuPy loads them on each
    GPU in use and keeps them on disk.
    """
    return _module(xp).get_function(name)


@functools.cache
def _module(xp):
    return xp.RawModule(code=source(), options=("-std=c++17",))


def source() -> str:
    """All kernels as one text of CUDA C++."""
    files = [FOLDER / f"{name}.cu" for name in SOURCES]
    return "\n".join([file.read_text(encoding="utf-8") for file in files])


def _launch(xp, name, blocks, threads, *args, shared=0):
    """Run a kernel in so many blocks of so many threads.

    A kernel knows the types of its arguments only from us: Python's numbers go as int
    and float, arrays as pointers. Each block gets `shared` bytes of shared memory.
    """
    typed = tuple([_typed(a) for a in args])
    _function(xp, name)((blocks,), (threads,), typed, shared_mem=shared)


def _typed(a):
    if isinstance(a, (int, np.integer)):
        return np.int32(a)
    return np.float32(a) if isinstance(a, float) else a


def _grid_of_warps(rows, warps=4):
    """(blocks, threads of a block) that give each row a warp."""
    return -(-rows // warps), WARP * warps


def _grid_of_threads(count, threads=256):
    """(blocks, threads of a block) that give each element a thread."""
    return -(-count // threads), threads


# --- layer_norm.cu --------------------------------------------------------------------


@Override
def layer_norm(xp, x, gain, offset, residual=None, *, epsilon=1e-5):
    """`fused.layer_norm` in one launch; backward in two."""
    width = x.shape[-1]
    rows, added = x.size // width, x if residual is None else residual
    y, (mean, scale) = xp.empty_like(x), xp.empty((2, rows), x.dtype)
    arrays = x, added, gain, offset, y, mean, scale
    sizes = rows, width, int(residual is not None)
    args = *arrays, *sizes, float(epsilon)
    _launch(xp, "layer_norm_forward", *_grid_of_warps(rows), *args)
    return y, (x, residual, gain, mean, scale)


@layer_norm.vjp
def layer_norm_vjp(xp, needs, g, x, residual, gain, mean, scale):
    width = x.shape[-1]
    rows, added = x.size // width, x if residual is None else residual
    warps = _norm_warps(width)
    blocks = min(-(-rows // warps), PARTIAL_BLOCKS)
    gx, sums = xp.empty_like(x), xp.empty((2, width), x.dtype)
    partial = xp.empty((blocks, 2 * width), x.dtype)
    sizes = rows, width, int(residual is not None)
    args = g, x, added, gain, mean, scale, gx, partial, *sizes
    shared = warps * 2 * width * 4
    _launch(xp, "layer_norm_backward", blocks, WARP * warps, *args, shared=shared)
    if needs[1] or needs[2]:
        slices = min(blocks, 32)
        grid = -(-2 * width // WARP), WARP * slices
        args = partial, sums, blocks, 2 * width
        _launch(xp, "column_sums", *grid, *args, shared=slices * WARP * 4)
    return gx, sums[0], sums[1], gx


@layer_norm.fits
def layer_norm_fits(x, gain, offset, residual=None, epsilon=1e-5):
    if x.ndim == 0 or not gain.shape == offset.shape == x.shape[-1:]:
        return False
    if residual is not None and residual.shape != x.shape:
        return False
    return _norm_warps(x.shape[-1]) > 0


def _norm_warps(width):
    """Warps a block of the backward, up to 8: each needs room for 2 * width floats."""
    return min(8, SHARED // (2 * width * 4))


# --- attention.cu ---------------------------------------------------------------------

_ATTENTION_THREADS = 128


@Override
def attention(xp, qkv, mask=None, *, num_heads, key_size, num_queries=None, trace=None):
    """`fused.attention` without a mask in one launch; backward in one."""
    (batch, rows, _), queries, value_size = _attention_sizes(
        qkv, num_heads, key_size, num_queries
    )
    out = xp.empty((batch, queries, num_heads * value_size), qkv.dtype)
    weights = xp.empty((batch, num_heads, queries, rows), qkv.dtype)
    sizes = num_heads, rows, queries, key_size, value_size, 1 / math.sqrt(key_size)
    grid = batch * num_heads, _ATTENTION_THREADS
    shared = _attention_shared(0, rows, queries, key_size, value_size)
    args = qkv, out, weights, *sizes
    _launch(xp, "attention_forward", *grid, *args, shared=shared)
    if trace is not None:
        trace["attention"] = weights
    return out, (qkv, weights, sizes)


@attention.vjp
def attention_vjp(xp, needs, g, qkv, weights, sizes):
    gqkv = xp.empty_like(qkv)
    grid = weights.shape[0] * weights.shape[1], _ATTENTION_THREADS
    _, rows, queries, key_size, value_size, _ = sizes
    shared = _attention_shared(queries, rows, queries, key_size, value_size)
    args = g, qkv, weights, gqkv, *sizes
    _launch(xp, "attention_backward", *grid, *args, shared=shared)
    return gqkv, None


@attention.fits
def attention_fits(
    qkv, mask=None, num_heads=None, key_size=None, num_queries=None, trace=None
):
    counts = num_heads, key_size, 1 if num_queries is None else num_queries
    if not all([isinstance(n, (int, np.integer)) and n > 0 for n in counts]):
        return False
    if mask is not None or qkv.ndim != 3 or qkv.shape[2] % num_heads:
        return False
    (_, rows, _), queries, value_size = _attention_sizes(
        qkv, num_heads, key_size, num_queries
    )
    shared = _attention_shared(queries, rows, queries, key_size, value_size)
    return value_size > 0 and shared <= SHARED


def _attention_sizes(qkv, num_heads, key_size, num_queries):
    """The shape of qkv, the number of rows that ask, and the size of a value."""
    rows = qkv.shape[1]
    queries = rows if num_queries is None else min(num_queries, rows)
    return qkv.shape, queries, qkv.shape[2] // num_heads - 2 * key_size


def _attention_shared(gradient_rows, rows, queries, key_size, value_size):
    """Bytes of shared memory for the rows of q|k|v, the weights and the rows of g.

    Only the backward has `gradient_rows`, as many as queries.
    """
    qkv = rows * (2 * key_size + value_size | 1)
    return 4 * (qkv + queries * rows + gradient_rows * (value_size | 1))


# --- rmc_gates.cu ---------------------------------------------------------------------


@Override
def rmc_gates(
    xp,
    from_input,
    from_memory,
    candidate,
    memory,
    *,
    input_bias=0.0,
    forget_bias=1.0,
    trace=None,
):
    """`fused.rmc_gates` in one launch; backward in one."""
    batch, slots, width = memory.shape
    gates, new = from_memory.shape[-1] // 2, xp.empty_like(memory)
    arrays = from_input, from_memory, candidate, memory
    biases = float(input_bias), float(forget_bias)
    i = f = new  # without a trace not written
    if trace is not None:
        i, f = xp.empty((2, batch, slots, gates), memory.dtype)
        trace["input_gate"], trace["forget_gate"] = i, f
    sizes = memory.size, slots, width, gates
    args = *arrays, new, i, f, *sizes, *biases, int(trace is not None)
    _launch(xp, "rmc_gates_forward", *_grid_of_threads(memory.size), *args)
    return new, (*arrays, biases)


@rmc_gates.vjp
def rmc_gates_vjp(xp, needs, g, from_input, from_memory, candidate, memory, biases):
    batch, slots, width = memory.shape
    arrays = g, from_input, from_memory, candidate, memory
    gz, gc, gm = (xp.empty_like(a) for a in (from_memory, candidate, memory))
    if from_memory.shape[-1] == 2:
        rows = batch * slots
        args = *arrays, gz, gc, gm, rows, slots, width, *biases
        _launch(xp, "rmc_gates_backward_memory", *_grid_of_warps(rows), *args)
        return gz, gz, gc, gm
    gx, units = xp.empty_like(from_input), batch * width
    args = *arrays, gx, gz, gc, gm, units, slots, width, *biases
    _launch(xp, "rmc_gates_backward_unit", *_grid_of_threads(units), *args)
    return gx, gz, gc, gm


@rmc_gates.fits
def rmc_gates_fits(
    from_input,
    from_memory,
    candidate,
    memory,
    input_bias=0.0,
    forget_bias=1.0,
    trace=None,
):
    if memory.ndim != 3 or candidate.shape != memory.shape:
        return False
    batch, slots, width = memory.shape
    columns = from_memory.shape[-1]
    return (
        columns in (2, 2 * width)
        and from_memory.shape == (batch, slots, columns)
        and from_input.shape == (batch, 1, columns)
    )


# --- softmax_cross_entropy.cu ---------------------------------------------------------


@Override
def softmax_cross_entropy(xp, logits, targets):
    """`fused.softmax_cross_entropy` in one launch; backward in one."""
    losses = xp.empty(targets.shape, logits.dtype)
    grid = _grid_of_warps(targets.size)
    args = logits, targets, losses, targets.size, logits.shape[-1]
    _launch(xp, "softmax_cross_entropy_forward", *grid, *args)
    return losses, (logits, targets)


@softmax_cross_entropy.vjp
def softmax_cross_entropy_vjp(xp, needs, g, logits, targets):
    glogits = xp.empty_like(logits)
    grid = _grid_of_warps(targets.size)
    args = g, logits, targets, glogits, targets.size, logits.shape[-1]
    _launch(xp, "softmax_cross_entropy_backward", *grid, *args)
    return glogits, None


@softmax_cross_entropy.fits
def softmax_cross_entropy_fits(logits, targets):
    return targets.shape == logits.shape[:-1]


# --- adam.cu --------------------------------------------------------------------------


def adam(
    xp,
    data,
    gradient,
    first_moment,
    second_moment,
    rate,
    finite,
    updates,
    beta1,
    beta2,
    epsilon,
) -> None:
    """One update of flat arrays, in place.

    `rate`, `finite` (bool) and `updates` are 0-d arrays, which the host does not read.
    """
    arrays = data, gradient, first_moment, second_moment, rate, finite, updates
    beta1, beta2 = float(beta1), float(beta2)
    constants = beta1, 1 - beta1, beta2, 1 - beta2, float(epsilon)
    args = *arrays, data.size, *constants
    _launch(xp, "adam", *_grid_of_threads(data.size), *args)
