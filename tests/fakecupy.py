"""A strict stand-in for CuPy, without a GPU.

Its arrays compute with NumPy, but are as far from it as arrays on a GPU are. Much of
what would fail, wait or go silently wrong on a GPU raises here, in words that say so:
NumPy arrays among device arrays, names and keywords that NumPy has and CuPy (14.2) does
not have, reading a value inside `no_sync()`, a float64 result inside
`only(np.float32)`. And what differs differs: reductions give 0-d arrays, integer
indices out of range wrap, nothing warns of a division by zero. Where CuPy is installed,
test_device.py compares the lists below with it.

`installed(monkeypatch)` puts it where `import cupy` looks; `device(array)` is `array`
there, `single(array)` in float32.
"""

from __future__ import annotations

import contextlib
import operator
import sys
import types

import numpy as np
import pytest

from tinyrmc import backend
from tinyrmc.cores import Core
from tinyrmc.cores.relational import _Memory

MISSING = frozenset(
    "False_ ScalarType True_ asmatrix block bmat busday_count busday_offset "
    "busdaycalendar bytes_ character clongdouble complex256 "
    "datetime64 datetime_as_string datetime_data einsum_path errstate flexible "
    "float128 frompyfunc fromregex geomspace get_include "
    "getbufsize geterr geterrcall histogram_bin_edges info insert is_busday isnat "
    "little_endian longdouble matrix matvec memmap "
    "nanpercentile nanquantile ndenumerate nditer nested_iters object_ polyder "
    "polydiv polyint recarray record sctypeDict setbufsize "
    "seterr seterrcall show_runtime spacing str_ test timedelta64 typecodes unstack "
    "vecdot vecmat void".split()
)
METHODS = frozenset(
    "all any argmax argmin argpartition argsort astype choose clip compress conj "
    "copy cumprod cumsum diagonal dot fill flatten max mean "
    "min nonzero partition prod ravel repeat reshape round searchsorted sort squeeze "
    "std sum swapaxes take trace transpose var view".split()
)
# of whichever function
REFUSED_KEYWORDS = frozenset(
    "correction device initial like ndmax stable subok where".split()
)
OTHER_KEYWORDS = {
    "argsort": {"order"},
    "reshape": {"shape"},
    "clip": {"min", "max"},
    "take": {"mode"},
    "einsum": {"out", "order", "casting"},
    "std": {"mean"},
    "var": {"mean"},
}
# what they return, or whether they raise, is read from the device
COUNTING = frozenset(
    "argwhere bincount choose compress delete extract flatnonzero interp nonzero "
    "place trim_zeros unique unique_counts "
    "unique_values".split()
)
# what some versions of CuPy wait for, so that it cannot be captured
SORTING = frozenset("argpartition argsort lexsort partition sort".split())
# functions that CuPy leaves to cuBLAS, and its limit of arrays to join without telling
# the device where they are
CUBLAS = frozenset("dot einsum inner matmul tensordot vdot".split())
JOINING, FEW = frozenset("concatenate stack".split()), 8
# functions that need no device array; all others take one first, or a list of them, or
# einsum's text
MAKING = frozenset(
    "arange array asarray ascontiguousarray broadcast_shapes can_cast empty eye "
    "finfo full identity isscalar linspace ones result_type "
    "zeros".split()
)
# Python's bool or int from NumPy, an array from CuPy
ON_THE_DEVICE = frozenset("allclose array_equal array_equiv count_nonzero".split())
# functions and the position of their integer indices
WRAPPING = {"take": 1, "take_along_axis": 1, "put_along_axis": 1}
# dtypes that ufunc.at knows
ADDABLE = frozenset("float16 float32 float64 int32 uint32 uint64".split())

_rules = {"sync": True, "dtype": None, "operations": None, "capture": None}


_captured: list[np.ndarray] = []  # arrays of all graphs: addresses must stay theirs


class Refused(TypeError):
    """Something that CuPy would refuse, or that has no place where it was tried."""


class CompileException(Exception):
    """A kernel that cannot be compiled.

    That is how CuPy finds out that indices are not integers.
    """


@contextlib.contextmanager
def _rule(name, value):
    before, _rules[name] = _rules[name], value
    try:
        yield
    finally:
        _rules[name] = before


def no_sync():
    """Within the block, making the host wait for the device raises Refused.

    Uploads do not: CuPy queues them.
    """
    return _rule("sync", False)


def rewrite(patch, kind, name, method):
    """Put a method into a class as if it had been written so: see `nn.layers.is_a`."""
    patch.setattr(kind, name, method)
    patch.setitem(kind._written, name, method)


@contextlib.contextmanager
def nothing_drops_out():
    """Within the block, the host's cores read programs as a device's do: those that
    have ended stay in the batch (`Core.last_state`). So both round alike.
    """

    def last_state(core, inputs, state, lengths):
        return core.unroll(inputs, state, lengths=lengths)[1]

    with pytest.MonkeyPatch.context() as patch:
        rewrite(patch, Core, "last_state", last_state)
        yield


def only(dtype):
    """Within the block, a floating-point result of any other dtype raises Refused."""
    return _rule("dtype", np.dtype(dtype))


@contextlib.contextmanager
def recorded():
    """Gives the list of the names of all operations of the device in the block."""
    with _rule("operations", []):
        yield _rules["operations"]


def did(name, again):
    """Note an operation of the device; again() does it once more, in a graph."""
    if _rules["operations"] is not None:
        _rules["operations"].append(name)
    if _rules["capture"] is not None:
        _rules["capture"].append(again)


def _note(name, function, args, keywords, result):
    """`did` for function(*args, **keywords), if it computes: views cost nothing."""
    results = result if isinstance(result, (list, tuple)) else [result]
    fresh = [r for r in results if isinstance(r, (np.ndarray, np.generic))]
    sources = [*args, *keywords.values(), getattr(function, "__self__", None)]
    sources = [s for s in sources if isinstance(s, np.ndarray)]
    writes = keywords.get("out") is not None or name in ("copyto", "put_along_axis")
    if not writes and any(np.may_share_memory(r, s) for r in fresh for s in sources):
        return
    if name in ("empty", "empty_like") or not (fresh or writes):
        return

    def again():
        with np.errstate(all="ignore"):
            new = function(*args, **keywords)
        if not writes:
            for old, value in zip(
                results, new if isinstance(new, (list, tuple)) else [new], strict=True
            ):
                old[...] = value

    did(name, again)


def _wait(what):
    if _rules["capture"] is not None:
        raise Refused(f"{what} while a stream is captured")
    if not _rules["sync"]:
        raise Refused(f"{what} makes the host wait for the device")


def _upload():
    if _rules["capture"] is not None:
        raise Refused("an upload while a stream is captured")
    did("upload", None)


def _refuse_cublas(name):
    if name in CUBLAS and _rules["capture"] is not None:
        raise Refused(f"{name}: cuBLAS while a stream is captured")


def _host(value):
    """The NumPy array inside; whatever else a CuPy function takes, as it is."""
    if isinstance(value, ndarray):
        return value._array
    if isinstance(value, np.ndarray):
        raise Refused(
            "Unsupported type <class 'numpy.ndarray'>: a host array "
            f"{value.dtype}{list(value.shape)} among device arrays"
        )
    if isinstance(value, (list, tuple)):
        return type(value)(map(_host, value))
    return value


def _operand(value):
    """`_host` of an operand, where CuPy takes arrays and numbers but no lists."""
    if isinstance(value, (list, tuple)):
        raise Refused(f"Unsupported type {type(value)} among device arrays")
    return _host(value)


def _device(result):
    """NumPy's answer as CuPy would give it.

    Every array and every scalar is an array on the device.
    """
    if isinstance(result, (np.ndarray, np.generic)):
        result = np.asarray(result)
        if _rules["dtype"] not in (None, result.dtype) and result.dtype.kind in "fc":
            raise Refused(f"a {result.dtype} result in a {_rules['dtype']} program")
        if _rules["capture"] is not None:
            _captured.append(result)
        return ndarray(result)
    if isinstance(result, (list, tuple)):
        return type(result)(map(_device, result))
    return result


def _call(name, function, args, keywords):
    """function(*args, **keywords) of device arrays, or Refused.

    `name` is CuPy's for it.
    """
    refused = REFUSED_KEYWORDS.difference(
        ["where"] if name == "copyto" else []
    ) | OTHER_KEYWORDS.get(name, set())
    for keyword in refused & keywords.keys():
        raise Refused(f"{name}() got an unexpected keyword argument '{keyword}='")
    if name in COUNTING or (name == "where" and len(args) == 1):
        _wait(name)
    if name in SORTING and _rules["capture"] is not None:
        _wait(name)
    _refuse_cublas(name)
    if name in JOINING and len(args[0]) > FEW:
        _upload()
    if name in WRAPPING:
        function = _wrapping(name, function, args, keywords)
    args = [_host(a) for a in args]
    keywords, out = {k: _host(v) for k, v in keywords.items()}, keywords.get("out")
    with np.errstate(all="ignore"):  # there are no floating-point warnings on a GPU
        result = function(*args, **keywords)
    if isinstance(result, np.generic):
        result = np.asarray(result)
    _note(name, function, args, keywords, result)
    result = _device(np.asarray(result) if name in ON_THE_DEVICE else result)
    return result if out is None else out


def _wrapping(name, function, args, keywords):
    """A function with integer indices, these wrapped into range at each call."""
    position = WRAPPING[name]
    axis = keywords.get("axis", args[2] if len(args) > 2 else None)
    indices = np.asarray(_operand(args[position]))
    if indices.dtype.kind not in "iu":
        raise CompileException(
            f"{name}: {indices.dtype} indices: expression must have integral or "
            "unscoped enum type"
        )
    size = args[0].size if axis is None else args[0].shape[axis]

    def wrapping(*args, **keywords):
        indices = np.asarray(_wrapped(np.asarray(args[position]), size))
        others = args[position + 1 :]
        return function(*args[:position], indices, *others, **keywords)

    return wrapping


def _wrapped(indices, size):
    integers = isinstance(indices, np.ndarray) and indices.dtype.kind in "iu"
    return indices % size if size and integers else indices


def _is_mask(part):
    return isinstance(part, ndarray) and part.dtype == bool


def _key(key, shape):
    """An index as NumPy must see it.

    Device arrays are unpacked, integers out of range wrapped. Masks are counted, and
    that waits.
    """
    parts, axis = list(key) if isinstance(key, tuple) else [key], 0
    used = sum(
        part.ndim if _is_mask(part) else part is not None and part is not Ellipsis
        for part in parts
    )
    for number, part in enumerate(parts):
        if isinstance(part, list):
            _wait("an index that is a list")
            part = _device(np.asarray(part))
        if part is Ellipsis:
            axis += len(shape) - used
        elif part is not None:
            if _is_mask(part):
                _wait("a boolean mask as an index")
            parts[number] = _wrapped(
                _host(part), shape[axis] if axis < len(shape) else 0
            )
            axis += part.ndim if _is_mask(part) else 1
    return tuple(parts) if isinstance(key, tuple) else parts[0]


class _Flags:
    """CuPy's view of an array's layout. Nothing is read-only there."""

    def __init__(self, flags):
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous
        self.owndata = flags.owndata


class ndarray:
    """An array on the pretended device."""

    __slots__ = ("__weakref__", "_array")
    __array_ufunc__ = None
    __array_priority__ = 100
    __hash__ = None

    def __init__(self, array):
        self._array = array

    shape = property(lambda self: self._array.shape)
    dtype = property(lambda self: self._array.dtype)
    ndim = property(lambda self: self._array.ndim)
    size = property(lambda self: self._array.size)
    nbytes = property(lambda self: self._array.nbytes)
    itemsize = property(lambda self: self._array.itemsize)
    strides = property(lambda self: self._array.strides)
    flags = property(lambda self: _Flags(self._array.flags))
    T = property(lambda self: ndarray(self._array.T))
    real = property(lambda self: ndarray(self._array.real))
    imag = property(lambda self: ndarray(self._array.imag))

    def __getattr__(self, name):
        if name not in METHODS:
            raise AttributeError(
                f"a CuPy array has no {name!r}, or the stand-in does not know it"
            )
        if name in WRAPPING:
            return lambda *args, **keywords: getattr(cupy, name)(
                self, *args, **keywords
            )
        method = getattr(self._array, name)
        return lambda *args, **keywords: _call(name, method, args, keywords)

    @property
    def data(self):
        """Where it lies, as CuPy tells it; a stand-in for cuBLAS looks there."""
        return types.SimpleNamespace(ptr=self._array.ctypes.data)

    def get(self):
        _wait("get()")
        return self._array.copy()

    def set(self, array, stream=None):
        if not isinstance(array, np.ndarray):
            raise Refused("Only numpy.ndarray can be set to cupy.ndarray")
        if (array.dtype, array.shape) != (self.dtype, self.shape):
            raise Refused(
                f"set() of {array.dtype}{list(array.shape)} into "
                f"{self.dtype}{list(self.shape)}"
            )
        _upload()
        self._array[...] = array

    def item(self):
        _wait("item()")
        return self._array.item()

    def tolist(self):
        _wait("tolist()")
        return self._array.tolist()

    def __array__(self, *_, **__):
        raise Refused("Implicit conversion to a NumPy array is not allowed; call get()")

    def __array_function__(self, function, *_):
        raise Refused(
            f"numpy.{function.__name__} on a device array; call it on its namespace"
        )

    def __bool__(self):
        _wait("bool()")
        return bool(self._array)

    def __float__(self):
        _wait("float()")
        return float(self._array)

    def __int__(self):
        _wait("int()")
        return int(self._array)

    def __complex__(self):
        _wait("complex()")
        return complex(self._array)

    def __len__(self):
        return len(self._array)

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def __format__(self, text):
        _wait("printing")
        return format(self._array, text)

    def __repr__(self):
        _wait("printing")
        return f"device {self._array!r}"

    def __getitem__(self, key):
        array, found = self._array, _key(key, self.shape)
        if isinstance(found, int):
            found = found, ...  # of one axis: a view, where NumPy gives a copy
        result = np.asarray(array[found])
        basic = isinstance(found, (int, slice, type(None), type(Ellipsis)))
        if not basic and not np.may_share_memory(result, array):

            def again():  # the indices may have changed, where they are arrays
                return array[_key(key, array.shape)]

            _note_result("getitem", again, (), result)
        return _device(result)

    def __setitem__(self, key, value):
        array, value = self._array, _operand(value)

        def put():
            array[_key(key, array.shape)] = value

        put()
        did("setitem", put)


def _note_result(name, function, args, result):
    """`did` for an operator, whose result is an array of its own."""

    def again():
        with np.errstate(all="ignore"):
            result[...] = function(*args)

    did(name, again)


def _computed(name, function, *args):
    _refuse_cublas(name)
    with np.errstate(all="ignore"):
        result = np.asarray(function(*args))
    _note_result(name, function, args, result)
    return _device(result)


def _unary(name):
    return lambda self: _computed(name, getattr(operator, name), self._array)


def _operators(name):
    infix = getattr(operator, name)

    def left(self, other):
        if (
            not isinstance(other, ndarray)
            and getattr(other, "__array_ufunc__", self) is None
        ):
            return NotImplemented  # a Tensor takes over
        return _computed(name, infix, self._array, _operand(other))

    def right(self, other):
        return _computed(name, infix, _operand(other), self._array)

    def inplace(self, other):
        change, args = getattr(operator, f"i{name.strip('_')}"), _operand(other)
        before = self._array
        with np.errstate(all="ignore"):
            self._array = change(before, args)
        did(name, lambda: change(before, args))
        return self

    return left, right, inplace


for _name in ("neg", "pos", "abs", "invert"):
    setattr(ndarray, f"__{_name}__", _unary(_name))
for _name in "add sub mul truediv floordiv mod pow matmul and_ or_ xor".split():
    _left, _right, _inplace = _operators(_name)
    _dunder = _name.strip("_")
    setattr(ndarray, f"__{_dunder}__", _left)
    setattr(ndarray, f"__r{_dunder}__", _right)
    if _name != "matmul":  # CuPy has no @=, so Python writes a new array
        setattr(ndarray, f"__i{_dunder}__", _inplace)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(ndarray, f"__{_name}__", _operators(_name)[0])


class _Ufunc:
    """A ufunc, with the two methods the engine may use."""

    def __init__(self, function):
        self.function, self.__name__ = function, function.__name__

    def __call__(self, *args, **keywords):
        return _call(self.__name__, self.function, list(map(_checked, args)), keywords)

    def at(self, array, indices, values):
        if array.dtype.name not in ADDABLE:
            raise Refused(
                f"scatter_{self.__name__} only supports "
                f"{', '.join(sorted(ADDABLE))}, not {array.dtype}"
            )
        there, values = array._array, _operand(values)

        def put():
            self.function.at(there, _key(indices, there.shape), values)

        put()
        did(f"{self.__name__}.at", put)

    def reduce(self, *args, **keywords):
        return _call(self.__name__, self.function.reduce, args, keywords)


def _checked(operand):
    _operand(operand)
    return operand


class CUDARuntimeError(RuntimeError):
    """The driver's refusal."""


class _Runtime:
    """Stand-in for cupy.cuda.runtime."""

    CUDARuntimeError = CUDARuntimeError
    driverGetVersion = staticmethod(lambda: 13000)
    runtimeGetVersion = staticmethod(lambda: 12090)
    getDeviceProperties = staticmethod(
        lambda device: {"name": b"Some GPU", "major": 9, "minor": 0}
    )


class _Graph:
    """The capture. Capturing has done it, too, so the first launch does not."""

    def __init__(self, operations):
        self.operations, self.launches = operations, 0

    def upload(self, stream):
        pass

    def launch(self, stream):
        self.launches += 1
        if self.launches > 1:
            for again in self.operations:
                again()


class _Stream:
    """A stream on which everything is done at once."""

    ptr = 0

    def __init__(self, non_blocking=False):
        self.non_blocking = non_blocking

    def use(self):
        _used[:] = [self]
        return self

    def begin_capture(self):
        if not self.non_blocking or _rules["capture"] is not None:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported")
        _rules["capture"] = []

    def end_capture(self):
        captured, _rules["capture"] = _rules["capture"], None
        return _Graph(captured)


_used = [_Stream()]  # the current one


class _Pool:
    """A pool of memory; `freed` counts those that have given back theirs."""

    malloc, freed = None, [0]

    def free_all_blocks(self):
        self.freed[0] += 1


class OutOfMemoryError(MemoryError):
    """A pool's error when the device has no more."""


class _CuPy(types.ModuleType):
    """The module: NumPy's names, for device arrays."""

    ndarray = ndarray
    cuda = types.SimpleNamespace(
        runtime=_Runtime,
        Device=lambda: types.SimpleNamespace(id=0, synchronize=lambda: None),
        Stream=_Stream,
        MemoryPool=_Pool,
        using_allocator=lambda malloc: contextlib.nullcontext(),
        get_current_stream=lambda: _used[-1],
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    )

    @staticmethod
    def get_default_memory_pool():
        return _Pool()

    def __getattr__(self, name):
        if name in MISSING or not hasattr(np, name):
            raise AttributeError(f"module 'cupy' has no attribute {name!r}")
        found = getattr(np, name)
        if isinstance(found, np.ufunc):
            return _Ufunc(found)
        if isinstance(found, types.ModuleType):
            raise AttributeError(
                f"the stand-in has no cupy.{name}: what it gives would be host arrays"
            )
        if isinstance(found, type) or not callable(found):
            return found
        return lambda *args, **keywords: self._run(name, found, args, keywords)

    def _run(self, name, function, args, keywords):
        first = args[0]
        if name in ("array", "asarray", "ascontiguousarray"):
            if isinstance(first, (np.ndarray, np.generic)):
                # the one way from the host to the device
                _upload()
                return _device(np.array(*args, **keywords))
        if name not in MAKING:
            if isinstance(first, (list, tuple)) and first:
                first = first[0]
            # CuPy asks its first argument for a method
            if not isinstance(first, (ndarray, np.ndarray, str)):
                raise AttributeError(
                    f"{type(first).__name__!r} object has no attribute {name!r}"
                )
        return _call(name, function, args, keywords)

    @staticmethod
    def asnumpy(array):
        return array.get()

    __version__ = "14.2.0"


cupy = _CuPy("cupy")
backend.register(ndarray, cupy)


def device(array):
    """A host array, or what makes one, as a device array."""
    return cupy.asarray(np.asarray(array))


def single(array):
    """A host array, in float32 if its numbers are floats."""
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def installed(monkeypatch):
    """Let `import cupy` find the stand-in until the test ends; returns it.

    Products are then made on the host as on the device: neither those of a few rows
    turned around, nor those of a shared memory once, which changes their last bits.
    """
    for module in backend, backend.cpu:
        monkeypatch.setattr(module, "FEW_ROWS", 0)
    first = _Memory.initial_state
    rewrite(monkeypatch, _Memory, "initial_state", lambda *x: first(*x).copy())
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy
