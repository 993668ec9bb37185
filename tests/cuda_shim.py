"""The part of CuPy that runs CUDA kernels, without a GPU.

`RawModule` compiles them with g++ and cuda_shim.h and runs them here. It is as strict
as a GPU is silent. A Python number where a kernel takes an `int` or a `float`, an array
of another dtype, one that is not contiguous, a grid or block that no GPU takes, a
shared memory that was not asked for: all raise Refused. Every array is lent to the
kernel as a copy with NaN on both sides. So reading beyond it spoils the result, and
writing beyond it, or into a `const` one, is noticed.
"""

import ctypes
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from fakecupy import Refused, cupy, did, ndarray, recorded

from tinyrmc.backend.gpu import products

GUARD = 64  # elements on either side of a lent array
POINTERS = {
    "float": np.float32,
    "double": np.float64,
    "bool": np.bool_,
    "long long": np.int64,
}
SCALARS = {"float": np.float32, "int": np.int32}
ERRORS = {
    1: "threads wait in different places, or for one that has ended",
    2: "wrote beyond its shared memory",
}
KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(([^)]*)\)')

shim = pytest.mark.skipif(
    shutil.which("g++") is None, reason="needs g++ to run CUDA kernels on a processor"
)
launches = []  # names of the kernels run so far
order = {"downwards": False}  # how the threads of a block take turns


class RawModule:
    """CUDA source, compiled when the first kernel is asked for."""

    def __init__(self, code, options=()):
        if not isinstance(options, tuple):
            raise Refused("options is a tuple")
        self.code, self.options, self.library = code, options, None
        self.signatures = {
            name: [_parameter(p) for p in parameters.split(",")]
            for name, parameters in KERNEL.findall(code)
        }

    def get_function(self, name):
        if name not in self.signatures:
            raise Refused(f"no kernel {name!r} in the module")
        self.library = self.library or self._compile()
        return Kernel(self.library, name, self.signatures[name])

    def _compile(self):
        calls = []
        for name, parameters in self.signatures.items():
            values = ", ".join(
                f"*({kind}{'*' * pointer}*)a[{k}]"
                for k, (kind, pointer, _) in enumerate(parameters)
            )
            calls.append(
                f'extern "C" void call_{name}(void** a) {{ {name}({values}); }}'
            )
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "kernels.cpp"), Path(folder, "kernels.so")
            source.write_text("\n".join(['#include "cuda_shim.h"', self.code, *calls]))
            flags = (
                "-std=c++20 -O1 -Wall -Werror -Wno-unknown-pragmas "
                "-ffp-contract=off -shared -fPIC"
            )
            command = ["g++", *flags.split(), "-I", str(Path(__file__).parent)]
            command += [str(source), "-o", str(library)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            if done.returncode:
                raise Refused(done.stderr)
            return ctypes.CDLL(str(library))


def _parameter(text):
    """(type, whether a pointer, whether const) of one parameter of a kernel."""
    text = text.replace("__restrict__ ", "")
    kind = re.fullmatch(r"\s*(const )?(.+?)(\*?) ?(\w+)\s*", text)
    return kind[2].strip(), bool(kind[3]), bool(kind[1])


class Kernel:
    """One kernel, with the call of CuPy's RawKernel."""

    def __init__(self, library, name, signature):
        call = getattr(library, f"call_{name}")
        self.run, self.entry = library.shim_run, ctypes.cast(call, ctypes.c_void_p)
        self.name, self.signature = name, signature

    def __call__(self, grid, block, args, *, shared_mem=0):
        for what, size, most in ("grid", grid, 2**31 - 1), ("block", block, 1024):
            if not (
                isinstance(size, tuple)
                and 1 <= len(size) <= 3
                and all(type(n) is int and n > 0 for n in size)
            ):
                raise Refused(
                    f"{self.name}: {what} {size!r} is not a tuple of one to three "
                    "positive integers"
                )
            if np.prod(size, dtype=object) > most:
                raise Refused(f"{self.name}: {what} {size!r} holds more than {most}")
        if not 0 <= shared_mem <= 48 * 1024:  # what every GPU has
            raise Refused(f"{self.name}: {shared_mem} bytes of shared memory")
        if not isinstance(args, tuple) or len(args) != len(self.signature):
            raise Refused(
                f"{self.name} takes a tuple of {len(self.signature)} arguments, not "
                f"{len(args)}"
            )
        lent = {}
        values = [self._value(k, argument, lent) for k, argument in enumerate(args)]
        pointers = (ctypes.c_void_p * len(values))(*[v.ctypes.data for v in values])
        three = [
            (ctypes.c_int * 3)(*size, *[1] * (3 - len(size))) for size in (grid, block)
        ]
        error = self.run(
            self.entry, pointers, *three, int(shared_mem), int(order["downwards"])
        )
        launches.append(self.name)
        if error:
            raise Refused(f"{self.name}: {ERRORS[error]}")
        for loan in lent.values():
            loan.back()
        did(self.name, lambda: self.again(grid, block, args, shared_mem))

    def again(self, grid, block, args, shared_mem):
        with recorded():
            self(grid, block, args, shared_mem=shared_mem)

    def _value(self, position, argument, lent):
        """A NumPy array that holds an argument as the kernel must see it.

        A number, or the address of a lent array.
        """
        kind, pointer, const = self.signature[position]
        where = f"{self.name}: argument {position}"
        if not pointer:
            if type(argument) is not SCALARS[kind]:
                raise Refused(
                    f"{where} is {argument!r}, a {type(argument).__name__}; the "
                    f"kernel takes a {kind}"
                )
            return np.array(argument)
        if (
            not isinstance(argument, ndarray)
            or argument.dtype != POINTERS[kind]
            or not argument.flags.c_contiguous
        ):
            raise Refused(
                f"{where}: the kernel takes a contiguous device array of {kind}, not "
                f"{argument!r}"
            )
        array = argument._array
        loan = lent.setdefault(array.ctypes.data, Loan(self.name, array))
        loan.written |= not const
        return np.array(loan.inside.ctypes.data, np.uint64)


class Loan:
    """A copy of an array with guards on both sides."""

    def __init__(self, kernel, array):
        self.kernel, self.array, self.written = kernel, array, False
        guard = np.nan if array.dtype.kind == "f" else 1
        # as far from a multiple of 16 bytes as the array itself
        spare = np.empty((array.size + 2 * GUARD) * array.itemsize + 16, np.uint8)
        start = (array.ctypes.data - spare.ctypes.data) % 16
        self.whole = spare[start : start + spare.size - 16].view(array.dtype)
        self.whole[:] = guard
        self.inside = self.whole[GUARD : GUARD + array.size]
        self.inside[:] = array.reshape(-1)
        self.before = self.whole.copy()

    def back(self):
        """Copy what the kernel has written into the array.

        Refused if it wrote where it must not.
        """
        inside = slice(GUARD, GUARD + self.array.size)
        if self.written:
            self.array[...] = self.inside.reshape(self.array.shape)
            self.before[inside] = self.inside
        floats = self.whole.dtype.kind == "f"
        if not np.array_equal(self.before, self.whole, equal_nan=floats):
            const = "into a const array or beyond it"
            where = "beyond an array" if self.written else const
            raise Refused(f"{self.kernel} wrote {where}")


# --- cuBLAS ---------------------------------------------------------------------------


NUMBERS = {0: np.float32, 1: np.float64, 4: np.complex64, 5: np.complex128}


class Function:
    """A function of a C library: it has a place for the types of its arguments."""

    argtypes: tuple = ()

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        if len(arguments) != len(self.argtypes):
            raise Refused(f"{self.function.__name__} got {len(arguments)} arguments")
        return self.function(*arguments)


class CuBLAS:
    """The cuBLAS of gpu/products.py, computed by NumPy where arrays lie.

    It counts by columns, as cuBLAS does. `asked` is the (name, compute type) of each.
    """

    def __init__(self):
        self.asked = []
        self.cublasCreate_v2 = Function(lambda handle: 0)
        self.cublasSetStream_v2 = Function(lambda handle, stream: 0)
        self.cublasSetWorkspace_v2 = Function(lambda handle, memory, size: 0)
        self.cublasGemmEx = Function(self._one)
        self.cublasGemmStridedBatchedEx = Function(self._stack)

    def _one(self, handle, turn_a, turn_b, m, n, k, alpha, a, kind, row_a, *rest):
        b, kind_b, row_b, beta, c, kind_c, row_c, compute, _ = rest
        places = (a, row_a, 0), (b, row_b, 0), (c, row_c, 0)
        self._do("GemmEx", (kind, kind_b, kind_c), compute, (turn_a, turn_b),
                 (m, n, k), (alpha, beta), places, 1)  # fmt: skip
        return 0

    def _stack(
        self, handle, turn_a, turn_b, m, n, k, alpha, a, kind, row_a, next_a, *rest
    ):
        b, kind_b, row_b, next_b, beta, c, kind_c, row_c, next_c, count, *ways = rest
        places = (a, row_a, next_a), (b, row_b, next_b), (c, row_c, next_c)
        self._do("GemmStridedBatchedEx", (kind, kind_b, kind_c), ways[0],
                 (turn_a, turn_b), (m, n, k), (alpha, beta), places, count)  # fmt: skip
        return 0

    def _do(self, name, kinds, compute, turns, sizes, scales, places, count):
        allowed = {0: (68, 77), 4: (68,)}.get(kinds[0], (70,))
        if len({*kinds}) > 1 or compute not in allowed:
            raise Refused(f"{name} of the types {kinds} computed as {compute}")
        dtype, (m, n, k) = np.dtype(NUMBERS[kinds[0]]), sizes
        shapes = (k, m) if turns[0] else (m, k), (n, k) if turns[1] else (k, n), (m, n)
        one, other = (_matrices(x, 1, 0, (1, 1), 1, dtype).item() for x in scales)
        a, b, c = (
            _matrices(*place, shape, count, dtype)
            for place, shape in zip(places, shapes, strict=True)
        )
        a = a.swapaxes(1, 2) if turns[0] else a
        b = b.swapaxes(1, 2) if turns[1] else b

        def compute_it():
            with np.errstate(all="ignore"):  # a GPU warns of nothing
                c[...] = one * (a @ b) + (other * c if other else 0)

        compute_it()
        self.asked.append((name, compute))
        did(f"cublas{name}", compute_it)


def _matrices(address, rows_apart, apart, shape, count, dtype):
    """A stack of matrices stored by columns, as a view of memory."""
    rows, columns = shape
    if rows_apart < rows:
        raise Refused(f"a leading dimension of {rows_apart} for {rows} rows")
    size = rows_apart * (columns - 1) + rows + apart * (count - 1)
    buffer = (ctypes.c_byte * (size * dtype.itemsize)).from_address(address)
    flat, strides = np.frombuffer(buffer, dtype), (apart, 1, rows_apart)
    strides = [n * dtype.itemsize for n in strides]
    return np.lib.stride_tricks.as_strided(flat, (count, rows, columns), strides)


def installed(monkeypatch):
    """Let the stand-in for CuPy compile CUDA and have cuBLAS; returns the cuBLAS."""
    cublas = CuBLAS()
    monkeypatch.setattr(cupy, "RawModule", RawModule, raising=False)
    monkeypatch.setattr(products, "library", lambda xp: cublas)
    products._products.cache_clear()
    return cublas
