"""The engine's refusals, of Tensors, Parameters and tapes, and their words."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backend import Array, namespace, to_host

# --- Tensors and Parameters -----------------------------------------------------------


def or_xp(ours: str) -> str:
    """Our function, and how one calls it where `primitives` goes by the name xp."""
    as_xp = ours.replace("primitives.", "xp.")
    return ours if as_xp == ours else f"{ours}, or {as_xp} in a function of xp"


UNLIKE_ARRAYS = {
    "__bool__ __int__ __index__": (
        "has no truth value and is no index; read t.item(), which waits for a GPU"
    ),
    "__array__": "does not turn into a NumPy array by itself; write t.data",
    "__iter__ __len__": (
        "is not a sequence; its length is t.shape[0], and what it is made of gives "
        f"{or_xp('primitives.unstack(t)')}"
    ),
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__": (
        "is not compared; compare arrays: t.data == u.data, or `is` for identity"
    ),
    "__setitem__ __iadd__ __isub__ __imul__ __itruediv__ __imatmul__ __ipow__": (
        "is immutable; write t = t + u, or make a new one by "
        f"{or_xp('primitives.where')}"
    ),
}


def unlike_an_array(kind: Any) -> Any:
    """Class decorator: what one does to arrays alone says what to write instead."""
    for names, message in UNLIKE_ARRAYS.items():
        for name in names.split():
            setattr(kind, name, refusing(f"a Tensor {message}"))
    return kind


def refusing(message: str) -> Callable:
    """A function or method that raises TypeError."""

    def refuse(*_, **__):
        raise TypeError(message)

    return refuse


OURS: set[str] = set()  # names that primitives.py has for NumPy's functions


def counterpart(name: str) -> str:
    """Our word for a name of NumPy's; "" if there is none."""
    if name in ("shape", "ndim", "size"):
        return f"t.{name}"
    if name == "backward":
        return "tape.backward"
    others = {"true_divide": "divide", "absolute": "abs", "T": "transpose"}
    others |= {"dot": "matmul", "ravel": "reshape", "flatten": "reshape"}
    name = others.get(name, name)
    return f"primitives.{name}" if name in OURS else ""


def no_function_of_numpy(tensor: Any, function: Any, *_: Any) -> Any:
    """TypeError for NumPy's function of a Tensor, naming ours."""
    name = function.__name__
    place = getattr(function, "__module__", None) or "numpy"
    ours = counterpart(name) if place == "numpy" else ""
    name = f"{place.replace('numpy', 'np')}.{name}"
    ours = ours or f"{name}(t.data), which has no gradient"
    raise TypeError(f"{name} takes no Tensor; write {or_xp(ours)}")


def no_attribute(tensor: Any, name: str) -> Any:
    """AttributeError for a name that a Tensor does not have, naming ours."""
    ours = counterpart(name)
    others = "" if name in ("T", "backward") else ", ..."  # a new shape, an axis
    remedy = or_xp(f"{ours}(t{others})") if ours else "t.data, which has no gradient"
    raise AttributeError(f"a Tensor has no {name!r}; write {remedy}")


class Ufuncs:
    """`__array_ufunc__` of Tensors: lets array + tensor be tensor.__radd__(array), and
    refuses np.exp(tensor). NumPy asks the class for it. CuPy asks the Tensor, where
    None has the same effect on array + tensor.
    """

    operators = {
        **{"add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__"},
        **{"divide": "__rtruediv__", "matmul": "__rmatmul__", "power": "__rpow__"},
    }

    def __get__(self, tensor: Any, kind: type) -> Any:
        return self._called if tensor is None else None

    def _called(self, tensor: Any, ufunc: Any, method: str, *inputs: Any, **more: Any):
        operator = self.operators.get(ufunc.__name__)
        if operator and more and method == "__call__":  # array += tensor has `out`
            raise TypeError(
                f"np.{ufunc.__name__} takes no {', '.join(more)} with a Tensor, which "
                "no array can hold; write a new one: array = array + tensor"
            )
        if operator and method == "__call__" and inputs[1] is tensor:
            return getattr(tensor, operator)(inputs[0])
        return no_function_of_numpy(tensor, ufunc)


def number(tensor: Any) -> Any:
    """The one number of a Tensor, as Python's own; TypeError if it holds several."""
    if tensor.size != 1:
        held = f"of shape {tensor.shape} holds {tensor.size} numbers"
        raise TypeError(f"a Tensor {held}, not one; reduce it, or read t.data")
    return to_host(tensor.data).item()


def formatted(tensor: Any, spec: str) -> str:
    """f"{loss:.3f}" for one number; without a format, as it prints itself."""
    return format(number(tensor), spec) if spec else repr(tensor)


def floating(what: str, value: Any) -> Array:
    """A copy of an array, or of numbers, in C order and the machine's byte order, as
    other programs take it; TypeError unless they are floating point.
    """
    numbers = isinstance(value, (list, tuple, float, int, complex, np.generic))
    array = (np if numbers else namespace(value)).array(value, order="C")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind not in "fc" or array.dtype.itemsize < 4:
        raise TypeError(
            f"{what} needs floating-point values of 32 bits or more, not "
            f"{array.dtype}; write np.asarray(x, np.float32)"
        )
    return array


def shown(tensor: Any) -> str:
    """A Tensor or Parameter as it prints itself."""
    look: Any = {"precision": 4, "threshold": 50, "edgeitems": 2, "separator": ", "}
    values = np.array2string(to_host(tensor.data), prefix="Tensor(", **look)
    id = f", id={tensor.id}" if tensor.id else ""
    name = type(tensor).__name__
    return f"{name}({values}, shape={tensor.shape}, dtype={tensor.dtype}{id})"


def check_fits(name: str, value: Any, own: Array) -> None:
    """An error unless a value can be copied into a Parameter's array."""
    if not hasattr(value, "shape"):
        fill = 0 if value is None else repr(value)
        raise TypeError(
            f"Parameter.{name} takes an array, not {type(value).__name__}; write "
            f"parameter.{name}[...] = {fill} to fill it"
        )
    if (value.shape, value.dtype) != (own.shape, own.dtype):
        kind = ValueError if value.shape != own.shape else TypeError
        raise kind(
            f"a Parameter {own.dtype}{list(own.shape)} cannot take {value.dtype}"
            f"{list(value.shape)}; reshape it, or convert it with .astype"
        )


# --- Tapes ----------------------------------------------------------------------------


def foreign(name: str, tensor: Any) -> RuntimeError:
    """The error for a Tensor that would silently be a constant on this tape."""
    where = "made on another Tape" if tensor.id else "computed in another thread"
    remedy = "write .detach() if you mean a constant"
    return RuntimeError(f"{name}: an argument was {where}; {remedy}")


def miscounted(name: str, given: int, wanted: int) -> TypeError:
    """The error for a rule that gives too few gradients, or too many."""
    return TypeError(
        f"vjp of {name}: it gives {given} gradients for {wanted} arguments"
    )


def check_opening(tape: Any, recording: Any) -> None:
    """RuntimeError unless a tape is new and the thread has no other."""
    if recording is not None:
        raise RuntimeError("a Tape is already recording in this thread; close it first")
    if tape._state != "new":
        raise RuntimeError("this Tape was already used; make a new one each time")


def borrow(borrowed: dict, array: Any, whose: str) -> None:
    """Remember some of what an array holds, so that backward can see if it changed. Not
    on a GPU, where looking would make the host wait.
    """
    if type(array) is np.ndarray and id(array) not in borrowed:
        borrowed[id(array)] = array, _glimpse(array), whose


def _glimpse(array: np.ndarray) -> bytes:
    """Some 64 numbers of an array; the odd step does not stay in one column."""
    return array.flat[:: array.size // 64 | 1].tobytes()


NOT_RECORDED = {  # the state of a tape that cannot be walked back -> what to do
    "new": "has recorded nothing; compute the loss inside `with Tape() as tape:`",
    "recording": "is still recording; leave the with-block first",
    "consumed": "is consumed; record again",
}


def check_backward(tape: Any, loss: Any, strict: bool = True) -> None:
    """An error unless the tape can be walked back from this loss, as recorded. A
    constant loss, which depends on nothing, passes if not `strict`.
    """
    if tape._state != "recorded":
        raise RuntimeError(f"this Tape {NOT_RECORDED[tape._state]}")
    id = getattr(loss, "id", 0)
    ours = id in tape._parameters or (id and loss.tape is tape)
    if not ours and (strict or id or not hasattr(loss, "tape")):
        raise RuntimeError("the loss does not depend on anything recorded on this Tape")
    if loss.shape != ():
        raise ValueError(
            f"backward needs a scalar loss, not shape {loss.shape}; reduce it with "
            "primitives.sum or mean"
        )
    for parameter, version in tape._parameters.values():
        if parameter.version != version:
            raise RuntimeError(
                f"a Parameter of shape {parameter.shape} was changed after it was "
                "recorded; call backward before the update"
            )
    for array, before, whose in tape._borrowed.values():
        if _glimpse(array) != before:
            raise RuntimeError(
                f"{whose}: an array {array.dtype}{list(array.shape)} was changed after "
                "it was recorded; fill another one, or call backward first"
            )


def consume(tape: Any) -> None:
    """Mark a tape as walked back; RuntimeError for the second of two threads."""
    with _looking:
        if tape._state != "recorded":
            raise RuntimeError(f"this Tape {NOT_RECORDED[tape._state]}")
        tape._state = "consumed"


_taken: list[tuple[int, list]] = []  # (thread, arrays) that backwards add into now
_looking = threading.Lock()  # held while `_taken` is read or changed
_adding = threading.RLock()  # held by a backward into the Parameters' own gradients


def _after_fork() -> None:
    """A forked process has no other threads, so nobody holds the lock there."""
    global _adding, _looking
    _adding, _looking = threading.RLock(), threading.Lock()
    _taken.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def alone(into: dict | None, parameters: list) -> Iterator[None]:
    """Hold the memory that backward adds into; two threads at once would lose what one
    adds. For the Parameters' own gradients a second one waits. With `into`, a second
    thread gets an error, and so does an `into` that lacks a buffer for one of the
    Parameters.
    """
    if into is None:
        with _adding, _holding([p.grad for p in parameters]):
            yield
        return
    for p in parameters:
        place = into.get(p.id)
        if place is None or (place.shape, place.dtype) != (p.shape, p.dtype):
            raise ValueError(
                f"backward(into=...) has no place for a Parameter {p.dtype}"
                f"{list(p.shape)}; give it to the optimizer too"
            )
        if _meets_itself(place):
            raise ValueError(
                f"backward(into=...): the place of a Parameter {p.dtype}"
                f"{list(p.shape)} is a view whose numbers share memory; give an array "
                "such as np.zeros makes"
            )
    with _holding([into[p.id] for p in parameters]):
        yield


@contextmanager
def _holding(arrays: list) -> Iterator[None]:
    """RuntimeError if another thread adds into some of this memory at the moment."""
    own = threading.get_ident(), arrays
    with _looking:
        for thread, others in _taken:
            if thread != own[0] and _overlap(arrays, others):
                raise RuntimeError(
                    "another thread is adding into this memory; give each its own "
                    "`into`, such as optimizer.views(np.zeros_like(optimizer.gradient))"
                )
        _taken.append(own)
    try:
        yield
    finally:
        with _looking:
            _taken[:] = [each for each in _taken if each is not own]


def _overlap(ours: list, theirs: list) -> bool:
    """Whether two lists of arrays share memory: sorted by where they begin, one of them
    begins before one of the other list ends.
    """
    places = [(*_place(x), which) for which in (0, 1) for x in (ours, theirs)[which]]
    ends = [0, 0]
    for start, end, which in sorted(places):
        if start < ends[1 - which]:
            return True
        ends[which] = max(ends[which], end)
    return False


def _meets_itself(array: Any) -> bool:
    """Whether two numbers of an array may stand in the same place."""
    if array.flags.c_contiguous:
        return False
    end = array.itemsize
    sizes = zip(array.strides, array.shape, strict=True)
    for stride, size in sorted((abs(x), n) for x, n in sizes if n > 1):
        if stride < end:
            return array.size > 0
        end = stride * (size - 1) + end
    return False


def _place(array: Any) -> tuple[int, int]:
    """Where the memory of an array begins and ends."""
    if isinstance(array, np.ndarray):
        return np.lib.array_utils.byte_bounds(array)
    return array.data.ptr, array.data.ptr + array.nbytes  # CuPy's are contiguous
