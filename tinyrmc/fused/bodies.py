"""Compiled bodies in the place of array bodies, on a CPU: what the extra `fast` brings.

    fused.use_compiled()         from here on, if Numba can be used
    fused.use_compiled(False)    NumPy again

`tinyrmc.train` says so by itself; `--no-compiled`, or TINYRMC_COMPILED=0 in the
environment, keeps NumPy. Each body is an override here, as each CUDA kernel is in
backend/gpu/.

Matrix products stay with `backend.gemm`; compiled.py does the rest. A call whose arrays
are not float32, or are empty, or with options that a body does not know, runs the array
body.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import numpy as np

from ..backend import Override, Switch, as_rows, gemm, readonly
from . import layers, relational, table

SWITCH = "TINYRMC_COMPILED"  # 0 in the environment: NumPy only
OLDEST = 0, 67  # the first Numba for Python 3.13 and NumPy 2.5

_found: list[ModuleType | None] = []  # compiled.py, once somebody has asked for it


def use_compiled(on: bool = True) -> str:
    """Let compiled bodies run from now on, or NumPy's; returns what `bodies` says.

    The first time they are compiled, which takes seconds; after that they are loaded
    from the user's caches. Without Numba NumPy's bodies stay, and if it is too old or
    broken, a line on stderr says so.
    """
    _asked.set(on)
    _install(_asked.value)  # again, for the environment may have changed
    return bodies()


def held_compiled(on: bool) -> AbstractContextManager[None]:
    """Inside the block, what `use_compiled` does: in all threads."""
    return _asked.held(on)


def _install(on: bool) -> None:
    # one step each, so that no thread sees a part of it
    if on and os.environ.get(SWITCH) != "0" and numba_bodies():
        table.compiled.update(OVERRIDES)
    else:
        table.compiled.clear()


_asked = Switch(False, _install)


def bodies() -> str:
    """The CPU's bodies: "numpy", or "numba" with its version."""
    return f"numba {sys.modules['numba'].__version__}" if table.compiled else "numpy"


def running(*arrays: Any) -> Any:
    """compiled.py, if bodies are on and all arrays are None or float32 on the host."""
    return numba_bodies() if table.compiled and _alike(arrays) else None


def _alike(arrays: Any) -> bool:
    for a in arrays:
        if a is not None:
            known = type(a) is np.ndarray and a.dtype == np.float32
            if not (known and a.flags.aligned):
                return False
    return True


def numba_bodies() -> Any:
    """compiled.py, or None if it cannot be used."""
    if not _found:
        try:
            import numba

            if numba.config.DISABLE_JIT:
                raise ImportError("NUMBA_DISABLE_JIT is set")
            if tuple(map(int, numba.__version__.split(".")[:2])) < OLDEST:
                oldest = ".".join(map(str, OLDEST))
                raise ImportError(f"Numba {numba.__version__} is older than {oldest}")
            from . import compiled

            _found.append(compiled)
        except Exception as error:  # whatever a broken installation raises
            _found.append(None)
            if getattr(error, "name", "") != "numba":  # else it is not installed
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                note = f"note: no compiled bodies, NumPy runs instead ({reason})"
                print(note, file=sys.stderr)
    return _found[0]


OVERRIDES: dict[str, Override] = {}  # by the names of the fused primitives


def body(fits: Callable[..., bool] = lambda *arrays, **static: True) -> Any:
    """Decorator: put a compiled body into OVERRIDES. `fits(*arrays, **static)` tells
    whether it knows the options of a call.
    """

    def condition(*arrays: Any, **static: Any) -> bool:
        if not _alike(arrays) or not all(a is None or a.size for a in arrays):
            return False
        return fits(*arrays, **static)

    def packed(xp: ModuleType, array: Any) -> Any:
        return array if array is None else np.ascontiguousarray(array)

    return lambda run: Override(OVERRIDES, packed, run, condition)


@body(lambda x, weight, bias=None, relu=False: bias is not None)
def linear(xp, x, weight, bias, *, relu=False):
    y = gemm(x, weight)
    numba_bodies().add_bias(as_rows(y), bias, bool(relu))
    return y, (x, weight, y if relu else None)


@linear.vjp
def linear_vjp(xp, needs, g, *saved):
    return layers.linear_vjp(xp, needs, g, *saved, _before_relu)


def _before_relu(xp, g, y):
    masked = np.empty_like(g)
    numba_bodies().before_relu(g.reshape(-1), y.reshape(-1), masked.reshape(-1))
    return masked


@body(lambda x, gain, offset, residual=None, epsilon=1e-5: epsilon > 0)
def layer_norm(xp, x, gain, offset, residual=None, *, epsilon=1e-5):
    y, z = np.empty_like(x), _rows_of_both(x, residual)
    stats = np.empty((len(z[0]), 2), np.float32)
    numba_bodies().norm(*z, gain, offset, as_rows(y), stats, epsilon)
    # what it was given, not its rows: that is what a tape guards
    return y, (x, residual, gain, stats)


@layer_norm.vjp
def layer_norm_vjp(xp, needs, g, x, residual, gain, stats):
    gx, sums = np.empty_like(x), np.empty((2, len(gain)), np.float32)
    z = _rows_of_both(x, residual)
    numba_bodies().norm_backward(as_rows(g), *z, gain, stats, as_rows(gx), sums)
    return gx, *sums, gx


def _rows_of_both(x, residual):
    return as_rows(x), numba_bodies().NOTHING[2] if residual is None else as_rows(
        residual
    )


@body(lambda qkv, mask=None, **static: mask is None)
def attention(xp, qkv, mask=None, *, num_heads, key_size, num_queries=None, trace=None):
    q, k, v = relational.heads(np, qkv, num_heads, key_size, num_queries)
    weights = gemm(q, np.swapaxes(k, -1, -2))  # (B, H, Q, R)
    numba_bodies().softmax(as_rows(weights), 1 / math.sqrt(key_size))
    if trace is not None:
        trace["attention"] = readonly(np, weights)
    return relational.attended(np, weights, v), (qkv, weights, num_heads, key_size)


@attention.vjp
def attention_vjp(xp, needs, g, *saved):
    return relational.attention_vjp(xp, needs, g, *saved, _softmax_backward)


def _softmax_backward(xp, gw, weights, scale):
    numba_bodies().softmax_backward(as_rows(gw), as_rows(weights), scale)


@body(lambda x, z, candidate, memory, **static: x.shape[-1] == 2 * memory.shape[-1])
def rmc_gates(xp, from_input, *others, input_bias=0.0, forget_bias=1.0, trace=None):
    from_memory, candidate, memory = others
    gates = from_memory.copy()
    squashed = candidate.copy()
    new = np.empty_like(memory)
    arrays = from_input, gates, squashed, memory, new
    numba_bodies().gates(*arrays, input_bias, forget_bias)
    if trace is not None:
        halves = np.split(readonly(np, gates), 2, axis=-1)
        trace["input_gate"], trace["forget_gate"] = halves
    return new, (gates, squashed, memory)


@rmc_gates.vjp
def rmc_gates_vjp(xp, needs, g, gates, squashed, memory):
    gx = np.empty((len(g), 1, gates.shape[-1]), np.float32)
    gz, gc, gm = (np.empty_like(a) for a in (gates, squashed, memory))
    numba_bodies().gates_backward(g, gates, squashed, memory, gx, gz, gc, gm)
    return gx, gz, gc, gm
