"""CUDA kernels that take the place of array bodies on a GPU: what is one tape entry
then also is one launch, or two.

`@fused(kernel=kernels.layer_norm)` at the head of an array body names its override. The
array body and its vjp have two counterparts of the same form here, `forward` and
`rule`, and each launches kernels of `layer_norm.cu`, whose first lines say in the
body's notation what they compute. A call takes the override when all its arrays are
float32 (targets int64) and of sizes it supports, and when their namespace can compile
CUDA, as CuPy can; else the array body runs, and whatever was wrong with the call is
said there. What an override saves need not be what the body saves: backward runs with
the rules that forward ran with.

Nothing here waits for the GPU, and no sum depends on the order in which blocks run: the
same bits every time.
"""

from __future__ import annotations

import functools
import math
from contextlib import contextmanager
from pathlib import Path

import numpy as np

SOURCES = (
    "warp",
    "layer_norm",
    "rmc_gates",
    "attention",
    "softmax_cross_entropy",
    "adam",
)  # the first is for the others
FOLDER = Path(__file__).parent
WARP = 32
SHARED = (
    48 * 1024
)  # bytes of shared memory that every GPU gives a block without being asked
PARTIAL_BLOCKS = 512  # blocks that share the rows of layer_norm's backward
_LARGEST = 2**31 - 1  # elements of an array: the kernels count in int

_mode = {"on": True}


@contextmanager
def off():
    """Run the array bodies on a GPU too, in all threads, until the end of the block."""
    before, _mode["on"] = _mode["on"], False
    try:
        yield
    finally:
        _mode["on"] = before


def usable(xp, *arrays, indices=()) -> bool:
    """Whether kernels are on, `xp` can compile them, and all `arrays` (None aside) have
    the size and the dtype that kernels work on.

    The dtype is float32, and int64 at the positions in `indices`.
    """
    fit = [
        a is None or _plain(a, np.int64 if k in indices else np.float32)
        for k, a in enumerate(arrays)
    ]
    return _mode["on"] and hasattr(xp, "RawModule") and all(fit)


def _plain(a, dtype):
    return getattr(a, "dtype", None) == dtype and 0 < a.size <= _LARGEST


def _contiguous(xp, a):
    """Kernels ignore strides: whatever lies otherwise in memory is copied.

    (What need not be is not touched: 0-d would become 1-d.)
    """
    return a if a is None or a.flags.c_contiguous else xp.ascontiguousarray(a)


class Override:
    """Two launchers that stand in for a fused primitive's array bodies, `forward` and
    `rule`; each is given contiguous arrays.

    `condition`, set by the decorator `fits`, tells from the arguments whether the
    kernels support their shapes. It has a default for each static argument, so that one
    that is missing is missed by the array body, which says so.
    """

    def __init__(self, launch_forward):
        self.launch_forward, self.name = launch_forward, launch_forward.__name__

    def __repr__(self):
        return f"<kernels of {self.name}>"

    def forward(self, xp, *arrays, **static):
        """(out, saved) of a call, as from a primitive's `forward`."""
        return self.launch_forward(xp, *[_contiguous(xp, a) for a in arrays], **static)

    def rule(self, xp, needs, g, *saved):
        """The gradients of the arguments, as from a primitive's `rule`."""
        return self.launch_backward(xp, needs, _contiguous(xp, g), *saved)

    def vjp(self, launch_backward):
        """Decorator that gives the override its vector-Jacobian product."""
        self.launch_backward = launch_backward
        return self

    def fits(self, condition):
        """Decorator that sets the condition on the arguments."""
        self.condition = condition
        return self

    def takes(self, xp, arrays, indices, static) -> bool:
        """Whether a call with these arguments runs here; `indices` are the positions of
        the integer arrays.
        """
        return usable(xp, *arrays, indices=indices) and self.condition(
            *arrays, **static
        )


@functools.cache
def _function(xp, name):
    """A kernel, compiled when the first of them is asked for (seconds, once; CuPy loads
    it on each GPU in use, and keeps it on disk).
    """
    return _module(xp).get_function(name)


@functools.cache
def _module(xp):
    return xp.RawModule(code=source(), options=("-std=c++17",))


def source() -> str:
    """All kernels as one text of CUDA C++."""
    return "\n".join(
        [(FOLDER / f"{name}.cu").read_text(encoding="utf-8") for name in SOURCES]
    )


def _launch(xp, name, blocks, threads, *args, shared=0):
    """Run a kernel.

    A kernel knows its arguments' types only from us: Python's numbers go as int and
    float, arrays as pointers.
    """
    args = [
        np.int32(a)
        if isinstance(a, (int, np.integer))
        else np.float32(a)
        if isinstance(a, float)
        else a
        for a in args
    ]
    _function(xp, name)((blocks,), (threads,), tuple(args), shared_mem=shared)


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
    sizes = rows, width, int(residual is not None)
    _launch(
        xp,
        "layer_norm_forward",
        *_grid_of_warps(rows),
        x,
        added,
        gain,
        offset,
        y,
        mean,
        scale,
        *sizes,
        float(epsilon),
    )
    return y, (x, residual, gain, mean, scale)


@layer_norm.vjp
def _(xp, needs, g, x, residual, gain, mean, scale):
    width = x.shape[-1]
    rows, added = x.size // width, x if residual is None else residual
    warps = _norm_warps(width)
    blocks = min(-(-rows // warps), PARTIAL_BLOCKS)
    gx, partial, sums = (
        xp.empty_like(x),
        xp.empty((blocks, 2 * width), x.dtype),
        xp.empty((2, width), x.dtype),
    )
    arrays = g, x, added, gain, mean, scale, gx, partial
    sizes = rows, width, int(residual is not None)
    _launch(
        xp,
        "layer_norm_backward",
        blocks,
        WARP * warps,
        *arrays,
        *sizes,
        shared=warps * 2 * width * 4,
    )
    if needs[1] or needs[2]:
        slices = min(blocks, 32)
        _launch(
            xp,
            "column_sums",
            -(-2 * width // WARP),
            WARP * slices,
            partial,
            sums,
            blocks,
            2 * width,
            shared=slices * WARP * 4,
        )
    return gx, sums[0], sums[1], gx


@layer_norm.fits
def _(x, gain, offset, residual=None, epsilon=1e-5):
    fit = (
        x.ndim > 0
        and gain.shape == offset.shape == x.shape[-1:]
        and (residual is None or residual.shape == x.shape)
    )
    return fit and _norm_warps(x.shape[-1]) > 0


def _norm_warps(width):
    """Warps a block of the backward: as many as have room for 2 * width floats each, up
    to 8.
    """
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
    shared = _attention_shared(0, rows, queries, key_size, value_size)
    _launch(
        xp,
        "attention_forward",
        batch * num_heads,
        _ATTENTION_THREADS,
        qkv,
        out,
        weights,
        *sizes,
        shared=shared,
    )
    if trace is not None:
        trace["attention"] = weights
    return out, (qkv, weights, sizes)


@attention.vjp
def _(xp, needs, g, qkv, weights, sizes):
    gqkv, shared = xp.empty_like(qkv), _attention_shared(sizes[2], *sizes[1:5])
    blocks = weights.shape[0] * weights.shape[1]
    _launch(
        xp,
        "attention_backward",
        blocks,
        _ATTENTION_THREADS,
        g,
        qkv,
        weights,
        gqkv,
        *sizes,
        shared=shared,
    )
    return gqkv, None


@attention.fits
def _(qkv, mask=None, num_heads=None, key_size=None, num_queries=None, trace=None):
    if mask is not None:
        return False
    counts = num_heads, key_size, 1 if num_queries is None else num_queries
    if (
        not all([isinstance(n, (int, np.integer)) and n > 0 for n in counts])
        or qkv.ndim != 3
        or qkv.shape[2] % num_heads
    ):
        return False
    (_, rows, _), queries, value_size = _attention_sizes(
        qkv, num_heads, key_size, num_queries
    )
    return (
        value_size > 0
        and _attention_shared(queries, rows, queries, key_size, value_size) <= SHARED
    )


def _attention_sizes(qkv, num_heads, key_size, num_queries):
    rows = qkv.shape[1]
    return (
        qkv.shape,
        rows if num_queries is None else min(num_queries, rows),
        qkv.shape[2] // num_heads - 2 * key_size,
    )


def _attention_shared(gradient_rows, rows, queries, key_size, value_size):
    """Bytes of shared memory: the rows of q|k|v, the weights, and in the backward
    `gradient_rows` = queries rows of g.
    """
    return 4 * (
        rows * (2 * key_size + value_size | 1)
        + queries * rows
        + gradient_rows * (value_size | 1)
    )


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
    i, f = (
        (new, new)
        if trace is None
        else xp.empty((2, batch, slots, gates), memory.dtype)
    )  # where there is no trace, not written
    arrays = from_input, from_memory, candidate, memory
    biases, sizes = (
        (float(input_bias), float(forget_bias)),
        (memory.size, slots, width, gates),
    )
    _launch(
        xp,
        "rmc_gates_forward",
        *_grid_of_threads(memory.size),
        *arrays,
        new,
        i,
        f,
        *sizes,
        *biases,
        int(trace is not None),
    )
    if trace is not None:
        trace["input_gate"], trace["forget_gate"] = i, f
    return new, (*arrays, biases)


@rmc_gates.vjp
def _(xp, needs, g, from_input, from_memory, candidate, memory, biases):
    batch, slots, width = memory.shape
    arrays = g, from_input, from_memory, candidate, memory
    gz, gc, gm = (
        xp.empty_like(from_memory),
        xp.empty_like(candidate),
        xp.empty_like(memory),
    )
    if from_memory.shape[-1] == 2:
        _launch(
            xp,
            "rmc_gates_backward_memory",
            *_grid_of_warps(batch * slots),
            *arrays,
            gz,
            gc,
            gm,
            batch * slots,
            slots,
            width,
            *biases,
        )
        return gz, gz, gc, gm
    gx, units = xp.empty_like(from_input), batch * width
    _launch(
        xp,
        "rmc_gates_backward_unit",
        *_grid_of_threads(units),
        *arrays,
        gx,
        gz,
        gc,
        gm,
        units,
        slots,
        width,
        *biases,
    )
    return gx, gz, gc, gm


@rmc_gates.fits
def _(
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
    losses, classes = xp.empty(targets.shape, logits.dtype), logits.shape[-1]
    _launch(
        xp,
        "softmax_cross_entropy_forward",
        *_grid_of_warps(targets.size),
        logits,
        targets,
        losses,
        targets.size,
        classes,
    )
    return losses, (logits, targets)


@softmax_cross_entropy.vjp
def _(xp, needs, g, logits, targets):
    glogits, sizes = xp.empty_like(logits), (targets.size, logits.shape[-1])
    _launch(
        xp,
        "softmax_cross_entropy_backward",
        *_grid_of_warps(targets.size),
        g,
        logits,
        targets,
        glogits,
        *sizes,
    )
    return glogits, None


@softmax_cross_entropy.fits
def _(logits, targets):
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
    """One update of flat arrays in place; `rate`, `finite` (bool) and `updates` are 0-d
    arrays, which the host does not look at.
    """
    arrays = data, gradient, first_moment, second_moment, rate, finite, updates
    constants = (
        float(beta1),
        1 - float(beta1),
        float(beta2),
        1 - float(beta2),
        float(epsilon),
    )
    _launch(xp, "adam", *_grid_of_threads(data.size), *arrays, data.size, *constants)
