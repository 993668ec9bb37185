"""CUDA kernels that take the place of array bodies on a GPU.

One tape entry is then also one launch, or two.

The override of `fused.layer_norm` is the `layer_norm` of this file. The array body and
its vjp have counterparts of the same form here, `forward` and `rule`, which launch the
kernels of `layer_norm.cu`. A call takes the override if all its arrays are float32
(targets int64), if their sizes are supported, and if their namespace can compile CUDA.
Otherwise the array body runs, and says what was wrong with the call. Backward uses the
rules of whichever ran forward.

Nothing here waits for the GPU, and no sum depends on the order in which blocks run: you
get the same bits every time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from .. import Override, Switch

# files of this folder; the others need the first one
SOURCES = (
    "warp linear layer_norm rmc_gates attention softmax_cross_entropy adam counters"
).split()
FOLDER = Path(__file__).parent
WARP = 32
SHARED = 48 * 1024  # bytes of shared memory that any GPU gives a block unasked
WIDEST_NORM = SHARED // (2 * 4)  # its backward keeps two numbers a column there
PARTIAL_BLOCKS = 512  # blocks that share the rows of layer_norm's backward
_LARGEST = 2**31 - 1  # elements of an array: the kernels count in int

_on = Switch(True)


def off() -> AbstractContextManager[None]:
    """Run the array bodies on a GPU too, in all threads, inside the block."""
    return _on.held(False)


def usable(*arrays: Any, indices: Collection[int] = ()) -> bool:
    """Whether kernels are on and take all these arrays of a GPU (None aside): float32,
    and int64 at the positions in `indices`. Ask `backend.kernels`.
    """
    for k, a in enumerate(arrays):
        dtype = np.int64 if k in indices else np.float32
        fits = a is None or getattr(a, "dtype", None) == dtype
        if not fits or (a is not None and not 0 < a.size <= _LARGEST):
            return False
    return _on.value


def _contiguous(xp, a):
    """The array as kernels read it, which ignore strides. (CuPy's function alone would
    make a 1-d array of a 0-d one.)
    """
    return a if a is None or a.flags.c_contiguous else xp.ascontiguousarray(a)


OVERRIDES: dict[str, Override] = {}  # by the names of the fused primitives

# decorator: two launchers in the place of array bodies
override = functools.partial(Override, OVERRIDES, _contiguous)


@functools.cache
def _module(xp):
    """All kernels, compiled once, which takes seconds; CuPy keeps them on disk."""
    return xp.RawModule(code=source(), options=("-std=c++17",))


@functools.cache
def _kernel(xp, name):
    return _module(xp).get_function(name)


def source() -> str:
    """All kernels as one text of CUDA C++."""
    files = [FOLDER / f"{name}.cu" for name in SOURCES]
    return "\n".join([file.read_text(encoding="utf-8") for file in files])


def _launch(xp, name, blocks, threads, *args, shared=0):
    """Run a kernel in `blocks` blocks of `threads` threads with `shared` bytes each.

    A kernel knows the types of its arguments only from us: Python's numbers go as int
    and float, arrays as pointers.
    """
    typed = []
    for a in args:
        if isinstance(a, (int, np.integer)):
            a = np.int32(a)
        typed.append(np.float32(a) if isinstance(a, float) else a)
    _kernel(xp, name)((blocks,), (threads,), tuple(typed), shared_mem=shared)


def _grid_of_warps(rows, warps=4):
    """(blocks, threads of a block) that give each row a warp."""
    return -(-rows // warps), WARP * warps


def _grid_of_threads(count, threads=256):
    """(blocks, threads of a block) that give each element a thread."""
    return -(-count // threads), threads


# --- linear.cu ------------------------------------------------------------------------


def bias_relu(xp, y, bias, relu: bool) -> None:
    """y (..., width) + bias, then a ReLU if asked for, in place."""
    sizes = y.size, y.shape[-1], int(relu)
    _launch(xp, "bias_relu", *_grid_of_threads(y.size), y, bias, *sizes)


def relu_backward(xp, g, y, out=None):
    """g where the ReLU's result y is positive, 0 elsewhere; `out` may be g."""
    out = xp.empty_like(y) if out is None else out
    g = _contiguous(xp, g)
    _launch(xp, "relu_backward", *_grid_of_threads(y.size), g, y, out, y.size)
    return out


_ROWS_OF_A_BLOCK = 2048  # that a block of column_sums adds up, or more


def column_sums(xp, matrix, *outs, add: bool = True) -> None:
    """Add the sums of a matrix's columns to one vector, or one half to each of two.
    With `add=False` the sums replace what was there.
    """
    rows, columns = matrix.shape
    slices = min(-(-rows // _ROWS_OF_A_BLOCK), 64)
    if slices > 1:  # first for slices of the rows
        partial = xp.empty((slices, columns), matrix.dtype)
        _sum_columns(xp, _contiguous(xp, matrix), [partial], columns, slices, False)
        matrix, rows = partial, slices
    width = columns // len(outs)
    _sum_columns(xp, _contiguous(xp, matrix), outs, width, 1, add)


def _sum_columns(xp, matrix, outs, width, slices, add):
    rows, columns = matrix.shape
    warps = max(1, min(-(-rows // slices), 32))
    to = outs[0], outs[-1]
    sizes = rows, columns, width, slices, int(add)
    grid = -(-columns // WARP) * slices, WARP * warps
    shared = warps * WARP * 4
    _launch(xp, "column_sums", *grid, matrix, *to, *sizes, shared=shared)


# --- layer_norm.cu --------------------------------------------------------------------


@override
def layer_norm(xp, x, gain, offset, residual=None, *, epsilon=1e-5):
    """`fused.layer_norm` in one launch; backward in two."""
    y, stats = xp.empty_like(x), xp.empty((2, x.size // x.shape[-1]), x.dtype)
    normalise(xp, x, None, residual, gain, offset, y, stats, epsilon)
    return y, (x, residual, gain, stats)


def normalise(xp, x, bias, residual, gain, offset, y, stats, epsilon=1e-5) -> None:
    """Layer norm of x + bias + residual, written to y; mean and scale go to `stats`.

    x, y (..., width), bias (width,) or None, stats (2, rows). The residual is None or
    like x; if x is (B, N, width), it may also be [M; x'], of which the slots count.
    """
    sizes = _norm_sizes(x, bias, residual)
    arrays = x, _or(bias, x), _or(residual, x), gain, offset, y, *stats
    grid = _grid_of_warps(sizes[0])
    _launch(xp, "layer_norm_forward", *grid, *arrays, *sizes, float(epsilon))


def normalise_backward(
    xp, g, x, bias, residual, gain, stats, gx, partial, below=None, relu=False
) -> None:
    """Write the gradient of x, bias and residual, gx; and partial (blocks, 2 * width).

    `column_sums` turns `partial` into the gradients of gain and offset. `below`
    receives the gradient before the ReLU that gave x, if `relu`, else gx once more.
    """
    width = x.shape[-1]
    warps = _norm_warps(width)
    sizes = *_norm_sizes(x, bias, residual), int(below is not None), int(relu)
    arrays = g, x, _or(bias, x), _or(residual, x), gain, *stats, gx, _or(below, gx)
    grid = (len(partial), WARP * warps)
    shared = warps * 2 * width * 4
    args = *arrays, partial, *sizes
    _launch(xp, "layer_norm_backward", *grid, *args, shared=shared)


def norm_blocks(rows: int, width: int) -> int:
    """The rows of `partial`."""
    return min(-(-rows // _norm_warps(width)), PARTIAL_BLOCKS)


def _or(array, other):
    """`array`, or `other` for None: a kernel needs an array even if it reads none."""
    return other if array is None else array


def _norm_sizes(x, bias, residual):
    """The shapes and the residual's layout, as the kernels are told."""
    width = x.shape[-1]
    rows = x.size // width
    group = rows
    stride = 0
    if residual is not None and x.ndim == 3:
        group = x.shape[1]
        stride = _stride(residual)
    return rows, width, int(bias is not None), int(residual is not None), group, stride


@layer_norm.vjp
def layer_norm_vjp(xp, needs, g, x, residual, gain, stats):
    width = x.shape[-1]
    gx, sums = xp.empty_like(x), xp.empty((2, width), x.dtype)
    partial = xp.empty((norm_blocks(x.size // width, width), 2 * width), x.dtype)
    normalise_backward(xp, g, x, None, residual, gain, stats, gx, partial)
    if needs[1] or needs[2]:
        column_sums(xp, partial, *sums, add=False)
    return gx, sums[0], sums[1], gx


@layer_norm.fits
def layer_norm_fits(x, gain, offset, residual=None, epsilon=1e-5):
    return epsilon >= 0 and x.shape[-1] <= WIDEST_NORM


def _norm_warps(width):
    """Warps a block of the backward, up to 8: each needs room for 2 * width floats."""
    return min(8, WIDEST_NORM // width)


def _stride(x):
    """Elements from one example to the next."""
    return x.size // len(x)


# --- attention.cu ---------------------------------------------------------------------

_ATTENTION_THREADS = 128


@override
def attention(xp, qkv, mask=None, *, num_heads, key_size, num_queries=None, trace=None):
    """`fused.attention` without a mask in one launch; backward in one."""
    (batch, rows, _), queries, value_size = _attention_sizes(
        qkv, num_heads, key_size, num_queries
    )
    out = xp.empty((batch, queries, num_heads * value_size), qkv.dtype)
    weights = xp.empty((batch, num_heads, queries, rows), qkv.dtype)
    attend(xp, qkv, out, weights, key_size)
    if trace is not None:
        trace["attention"] = weights
    return out, (qkv, weights, key_size)


def attend(xp, qkv, out, weights, key_size) -> None:
    """Attention, written to out (B, Q, H V) and weights (B, H, Q, R)."""
    arrays = qkv, out, weights
    _launch_attention(xp, "attention_forward", arrays, qkv, weights, key_size, 0)


def attend_backward(xp, g, qkv, weights, key_size, gqkv) -> None:
    """The gradient of qkv, written to gqkv."""
    arrays = (g, qkv, weights, gqkv)
    queries = weights.shape[2]
    _launch_attention(xp, "attention_backward", arrays, qkv, weights, key_size, queries)


def _launch_attention(xp, name, arrays, qkv, weights, key_size, gradient_rows):
    _, heads, queries, rows = weights.shape
    sizes = rows, queries, key_size, qkv.shape[2] // heads - 2 * key_size
    shared = _attention_shared(gradient_rows, *sizes)
    args = *arrays, heads, *sizes, 1 / math.sqrt(key_size)
    _launch(xp, name, len(qkv) * heads, _ATTENTION_THREADS, *args, shared=shared)


@attention.vjp
def attention_vjp(xp, needs, g, qkv, weights, key_size):
    gqkv = xp.empty_like(qkv)
    attend_backward(xp, g, qkv, weights, key_size, gqkv)
    return gqkv, None


@attention.fits
def attention_fits(
    qkv, mask=None, num_heads=None, key_size=None, num_queries=None, trace=None
):
    counts = num_heads, key_size, 1 if num_queries is None else num_queries
    if not all([isinstance(n, (int, np.integer)) and n > 0 for n in counts]):
        return False
    if mask is not None or qkv.shape[2] % num_heads:
        return False
    (_, rows, _), queries, value_size = _attention_sizes(
        qkv, num_heads, key_size, num_queries
    )
    shared = _attention_shared(queries, rows, queries, key_size, value_size)
    return queries <= rows and value_size > 0 and shared <= SHARED


def _attention_sizes(qkv, num_heads, key_size, num_queries):
    """The shape of qkv, the number of rows that ask, and the size of a value."""
    rows = qkv.shape[1]
    queries = rows if num_queries is None else num_queries
    return qkv.shape, queries, qkv.shape[2] // num_heads - 2 * key_size


def _attention_shared(gradient_rows, rows, queries, key_size, value_size):
    """Bytes of shared memory for the rows of q|k|v, the weights and, backward, g."""
    qkv = rows * (2 * key_size + value_size | 1)
    return 4 * (qkv + queries * rows + gradient_rows * (value_size | 1))


# --- rmc_gates.cu ---------------------------------------------------------------------


@override
def rmc_gates(xp, *arrays, input_bias=0.0, forget_bias=1.0, trace=None):
    """`fused.rmc_gates` in one launch; backward in one."""
    from_memory, memory = arrays[1], arrays[3]
    biases = (float(input_bias), float(forget_bias))
    kept = None
    if trace is not None:
        shape = 2, *memory.shape[:2], from_memory.shape[-1] // 2
        kept = xp.empty(shape, memory.dtype)
        trace["input_gate"], trace["forget_gate"] = kept
    new = xp.empty_like(memory)
    update(xp, arrays, new, biases, kept=kept)
    return new, (*arrays, biases)


def update(xp, arrays, new, biases, kept=None, squashed=None) -> None:
    """The gated update, written to `new`; if asked for, also the gates and tanh(new).

    arrays: those of `rmc_gates`. memory and new are (B, N, F) like the candidate, or
        [M; x'], of which only the slots count.
    """
    _, from_memory, candidate, memory = arrays
    _, slots, width = candidate.shape
    gates = from_memory.shape[-1] // 2
    i, f = (new, new) if kept is None else kept  # not written
    sizes = candidate.size, slots, width, gates, _stride(memory), _stride(new)
    asked = int(kept is not None), int(squashed is not None)
    args = *arrays, new, i, f, _or(squashed, new), *sizes, *biases, *asked
    _launch(xp, "rmc_gates_forward", *_grid_of_threads(candidate.size), *args)


def update_backward(xp, g, later, arrays, biases, into) -> None:
    """The gradients of `update` with respect to its four `arrays`, written to `into`.

    g: what flows into the new memory; None for nothing. `later`: (gresidual, gjoined,
    gsquashed, tanh(new)) of the step after this one, whose kernel has left its own part
    in that of the memory: see rmc_gates.cu; None if there is no such step. The one of
    from_input is not written for one gate a slot.
    """
    _, from_memory, candidate, memory = arrays
    batch, slots, width = candidate.shape
    some = from_memory
    gresidual, gjoined, gsquashed, squashed = later or (some, memory, some, some)
    flowing = _or(g, some), gresidual, gjoined, gsquashed, squashed
    flags = int(g is not None), int(later is not None)
    sizes = slots, width, _stride(memory), _stride(gjoined), *flags
    if from_memory.shape[-1] == 2:
        rows = batch * slots
        args = *flowing, *arrays, *into[1:], rows, *sizes, *biases
        _launch(xp, "rmc_gates_backward_memory", *_grid_of_warps(rows), *args)
        return
    warps = min(slots, 8)
    grid = (batch * -(-width // WARP), WARP * warps)
    shared = warps * 2 * WARP * 4
    args = *flowing, *arrays, *into, *sizes, *biases
    _launch(xp, "rmc_gates_backward_unit", *grid, *args, shared=shared)


@rmc_gates.vjp
def rmc_gates_vjp(xp, needs, g, *saved):
    *arrays, biases = saved
    gx, gz, gc, gm = into = [xp.empty_like(a) for a in arrays]
    update_backward(xp, g, None, arrays, biases, into)
    return gz if gz.shape[-1] == 2 else gx, gz, gc, gm


@rmc_gates.fits
def rmc_gates_fits(from_input, from_memory, candidate, memory, **static):
    return from_memory.shape[-1] in (2, 2 * memory.shape[-1])


# --- softmax_cross_entropy.cu ---------------------------------------------------------


@override
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


# --- adam.cu --------------------------------------------------------------------------


_JUDGES = 256  # threads of a block, and the most blocks that share the squares


def judge(xp, gradient, valid, updates, scale, max_norm) -> tuple[Any, Any, Any]:
    """Clip as `Optimizer._apply`, but leave the gradient: (norm, finite, factor).

    Three 0-d arrays; the factor scales and clips. `valid` (bool) and `updates`, which
    counts the step if it can be taken, are 0-d arrays too.
    """
    blocks = min(-(-gradient.size // _JUDGES), _JUDGES)
    partial = xp.empty(blocks, gradient.dtype)
    norm, factor = xp.empty((2, 1), gradient.dtype)
    finite = xp.empty((), bool)
    shared = _JUDGES // WARP * 4
    several = gradient, partial, gradient.size
    _launch(xp, "squares", blocks, _JUDGES, *several, shared=shared)
    limit = math.inf if max_norm is None else float(max_norm)
    args = partial, valid, norm, finite, updates, factor, blocks, float(scale), limit
    _launch(xp, "judge", 1, _JUDGES, *args, shared=shared)
    return norm.reshape(()), finite, factor


def adam(xp, arrays, step, beta1, beta2, epsilon) -> None:
    """One update of the flat arrays (data, gradient, both moments), in place.

    step: the rate, whether it is finite (bool), how many updates there were, and the
        factor of the gradient: arrays of one number, which the host does not read.
    """
    size = arrays[0].size
    beta1 = float(beta1)
    beta2 = float(beta2)
    constants = beta1, 1 - beta1, beta2, 1 - beta2, float(epsilon)
    args = *arrays, *step, size, *constants
    _launch(xp, "adam", *_grid_of_threads(size), *args)


# --- counters.cu ----------------------------------------------------------------------

_FLOATS, _NUMBERS = 4, 8  # that one launch adds up


def add_up(xp, totals, values: list[tuple[Any, int]]) -> None:
    """totals[place] += value for each (value, place): 0-d arrays, float32 or int64."""
    floats = [pair for pair in values if pair[0].dtype == np.float32]
    numbers = [pair for pair in values if pair[0].dtype == np.int64]
    while floats or numbers:
        few, floats = floats[:_FLOATS], floats[_FLOATS:]
        some, numbers = numbers[:_NUMBERS], numbers[_NUMBERS:]
        few += [_nothing(xp, np.float32)] * (_FLOATS - len(few))
        some += [_nothing(xp, np.int64)] * (_NUMBERS - len(some))
        arrays, places = zip(*few, *some, strict=True)
        _launch(xp, "add_up", 1, 1, totals, *arrays, *places)


@functools.cache
def _nothing(xp, dtype):
    return xp.zeros((), dtype), -1


def keep_largest(xp, totals, total, count, place: int) -> None:
    """Keep the pair of larger mean in totals[place:place + 2]; total, count int64."""
    _launch(xp, "keep_largest", 1, 1, totals, total, count, place)


def count_step(xp, finite, steps, skipped, first_skipped) -> None:
    """One more step, which was skipped unless `finite`: 0-d arrays, in place."""
    _launch(xp, "count_step", 1, 1, finite, steps, skipped, first_skipped)


# last, for it is made of the kernels above
from . import memory as memory  # noqa: E402
