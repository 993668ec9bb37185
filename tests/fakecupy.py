"""A strict stand-in for CuPy: arrays that compute with NumPy but are as far from it as arrays on a GPU are.

Much of what would fail, wait or go silently wrong on a GPU raises here, in words that say so: NumPy arrays among device arrays, names
that NumPy has and CuPy (14.2) has not, `where=` in ufuncs, reading a value inside `no_sync()`, a float64 result inside `only(np.float32)`.
And what differs differs: reductions give 0-d arrays, integer indices out of range wrap.

`installed(monkeypatch)` puts it where `import cupy` looks.
"""

from __future__ import annotations

import contextlib
import operator
import sys
import types

import numpy as np

from tinyrmc import backend

MISSING = frozenset(
    "asmatrix block bmat busday_count busday_offset datetime_as_string datetime_data einsum_path errstate frompyfunc fromregex geomspace "
    "get_include getbufsize geterr geterrcall histogram_bin_edges info insert is_busday isnat matvec memmap nanpercentile nanquantile "
    "nested_iters polyder polydiv polyint setbufsize seterr seterrcall spacing unstack vecdot vecmat".split()
)
METHODS = frozenset(
    "all any argmax argmin argpartition argsort astype choose clip compress conj copy cumprod cumsum diagonal dot fill flatten max mean "
    "min partition prod ptp ravel repeat reshape round searchsorted sort squeeze std sum swapaxes take trace transpose var view".split()
)
COUNTING = frozenset("argwhere extract flatnonzero nonzero unique".split())  # the size of their result is read from the device
WRAPPING = {"take": 1, "take_along_axis": 1, "put_along_axis": 1}  # functions and the position of their integer indices

_rules = {"sync": True, "dtype": None}


class Refused(TypeError):
    """Something that CuPy would refuse, or that has no place where it was tried."""


@contextlib.contextmanager
def _rule(name, value):
    before, _rules[name] = _rules[name], value
    try:
        yield
    finally:
        _rules[name] = before


def no_sync():
    """Within the block, whatever would make the host wait for the device raises Refused."""
    return _rule("sync", False)


def only(dtype):
    """Within the block, a floating-point result of any other dtype raises Refused."""
    return _rule("dtype", np.dtype(dtype))


def _wait(what):
    if not _rules["sync"]:
        raise Refused(f"{what} makes the host wait for the device")


def _host(value):
    """The NumPy array inside; whatever else a CuPy function takes, as it is."""
    if isinstance(value, ndarray):
        return value._array
    if isinstance(value, np.ndarray):
        raise Refused(f"Unsupported type <class 'numpy.ndarray'>: a host array {value.dtype}{list(value.shape)} among device arrays")
    if isinstance(value, (list, tuple)):
        return type(value)(map(_host, value))
    return value


def _device(result):
    """NumPy's answer as CuPy would give it: every array and every scalar is an array on the device."""
    if isinstance(result, (np.ndarray, np.generic)):
        result = np.asarray(result)
        if _rules["dtype"] not in (None, result.dtype) and result.dtype.kind in "fc":
            raise Refused(f"a {result.dtype} result in a {_rules['dtype']} program")
        return ndarray(result)
    if isinstance(result, (list, tuple)):
        return type(result)(map(_device, result))
    return result


def _call(function, args, keywords):
    if keywords.get("where") is not None and function is not np.copyto:
        raise Refused(f"{function.__name__}: CuPy takes no where= here")
    return _device(function(*map(_host, args), **{name: _host(value) for name, value in keywords.items()}))


def _wrapped(indices, size):
    return indices % size if size and isinstance(indices, np.ndarray) and indices.dtype.kind in "iu" else indices


def _is_mask(part):
    return isinstance(part, ndarray) and part.dtype == bool


def _key(key, shape):
    """An index as NumPy shall see it: device arrays unpacked, integers out of range wrapped. Masks are counted, and that waits."""
    parts, axis = list(key) if isinstance(key, tuple) else [key], 0
    used = sum(part.ndim if _is_mask(part) else part is not None and part is not Ellipsis for part in parts)
    for number, part in enumerate(parts):
        if isinstance(part, list):
            _wait("an index that is a list")
            part = _device(np.asarray(part))
        if part is Ellipsis:
            axis += len(shape) - used
        elif part is not None:
            if _is_mask(part):
                _wait("a boolean mask as an index")
            parts[number] = _wrapped(_host(part), shape[axis] if axis < len(shape) else 0)
            axis += part.ndim if _is_mask(part) else 1
    return tuple(parts) if isinstance(key, tuple) else parts[0]


class ndarray:
    """An array on the pretended device."""

    __slots__ = ("_array",)
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
    flags = property(lambda self: self._array.flags)
    T = property(lambda self: ndarray(self._array.T))
    real = property(lambda self: ndarray(self._array.real))
    imag = property(lambda self: ndarray(self._array.imag))

    def __getattr__(self, name):
        if name not in METHODS:
            raise AttributeError(f"a CuPy array has no {name!r}, or the stand-in does not know it")
        method = getattr(self._array, name)
        return lambda *args, **keywords: _call(method, args, keywords)

    def get(self):
        _wait("get()")
        return self._array.copy()

    def set(self, array):
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
        raise Refused(f"numpy.{function.__name__} on a device array; call it on its namespace")

    def __bool__(self):
        _wait("bool()")
        return bool(self._array)

    def __float__(self):
        _wait("float()")
        return float(self._array)

    def __int__(self):
        _wait("int()")
        return int(self._array)

    def __index__(self):
        _wait("an index")
        return operator.index(self._array)

    def __len__(self):
        return len(self._array)

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def __repr__(self):
        return f"device {self._array!r}"

    def __getitem__(self, key):
        return _device(self._array[_key(key, self.shape)])

    def __setitem__(self, key, value):
        self._array[_key(key, self.shape)] = _host(value)

    def __neg__(self):
        return _device(-self._array)

    def __invert__(self):
        return _device(~self._array)


def _operators(name):
    infix = getattr(operator, name)

    def left(self, other):
        if not isinstance(other, ndarray) and getattr(type(other), "__array_ufunc__", self) is None:
            return NotImplemented  # a Tensor takes over
        return _device(infix(self._array, _host(other)))

    def right(self, other):
        return _device(infix(_host(other), self._array))

    def inplace(self, other):
        self._array = getattr(operator, f"i{name.strip('_')}")(self._array, _host(other))
        return self

    return left, right, inplace


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor"):
    _left, _right, _inplace = _operators(_name)
    _dunder = _name.strip("_")
    setattr(ndarray, f"__{_dunder}__", _left)
    setattr(ndarray, f"__r{_dunder}__", _right)
    setattr(ndarray, f"__i{_dunder}__", _inplace)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(ndarray, f"__{_name}__", _operators(_name)[0])


class _Ufunc:
    """A ufunc, with the two methods the engine may use."""

    def __init__(self, function):
        self.function, self.__name__ = function, function.__name__

    def __call__(self, *args, **keywords):
        return _call(self.function, args, keywords)

    def at(self, array, indices, values):
        self.function.at(array._array, _key(indices, array.shape), _host(values))

    def reduce(self, *args, **keywords):
        return _call(self.function.reduce, args, keywords)


class _CuPy(types.ModuleType):
    """The module: NumPy's names, for device arrays."""

    ndarray = ndarray

    def __getattr__(self, name):
        if name in MISSING or not hasattr(np, name):
            raise AttributeError(f"module 'cupy' has no attribute {name!r}")
        found = getattr(np, name)
        if isinstance(found, np.ufunc):
            return _Ufunc(found)
        if isinstance(found, types.ModuleType):
            raise AttributeError(f"the stand-in has no cupy.{name}: what it gives would be host arrays")
        if isinstance(found, type) or not callable(found):
            return found
        return lambda *args, **keywords: self._run(name, found, args, keywords)

    def _run(self, name, function, args, keywords):
        if name in COUNTING or (name == "where" and len(args) == 1):
            _wait(name)
        if name in ("array", "asarray", "ascontiguousarray") and isinstance(args[0], (np.ndarray, np.generic)):
            return _device(np.array(*args, **keywords))  # the one way from the host to the device
        if name in WRAPPING:
            position, axis = WRAPPING[name], keywords.get("axis", args[2] if len(args) > 2 else None)
            size = args[0].size if axis is None else args[0].shape[axis]
            args = [*args]
            args[position] = _device(_wrapped(np.asarray(_host(args[position])), size))
        return _call(function, args, keywords)

    @staticmethod
    def asnumpy(array):
        return array.get()

    @staticmethod
    def is_available():
        return True


cupy = _CuPy("cupy")
backend.register(ndarray, cupy)


def installed(monkeypatch):
    """Let `import cupy` find the stand-in until the test ends; returns it."""
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy
