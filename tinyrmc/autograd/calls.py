"""Calls of a primitive: arguments are bound to its arrays and settings, one library and
one dtype are found, and an error is told again with what was given.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from types import ModuleType
from typing import Any

import numpy as np

from ..backend import NAMESPACES, namespace

# what a forward rule may raise, to be told again with an explanation
WORDED = ValueError, TypeError, IndexError, AttributeError, ArithmeticError
NOT_ARRAYS = bool, int, float, complex, type(None)


def signature(arrays: list[Parameter], statics: list[Parameter]) -> Signature:
    """How a primitive is called: arrays in order, the others in order or by name."""
    first = [p.replace(kind=p.POSITIONAL_ONLY) for p in arrays]
    optional = any(p.default is not p.empty for p in arrays)
    if not optional or all(p.default is not p.empty for p in statics):
        statics = [p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in statics]
    return Signature([p.replace(annotation=p.empty) for p in [*first, *statics]])


LISTS = "trace", "axis"  # one is there to be filled, the other NumPy refuses or takes


def bind(primitive: Any, args: tuple, static: dict) -> tuple[tuple, dict]:
    """Split a call into array arguments and static ones, as NumPy does."""
    name, arity = primitive.name, primitive.arity
    if primitive.variadic and (not args or not isinstance(args[0], (list, tuple))):
        raise TypeError(f"{name} takes a list of arrays: {name}([a, b], ...)")
    in_order = args[arity:]
    if len(in_order) > len(primitive.statics):
        arrays = f"{arity} array argument{'s' * (arity != 1)}"
        takes = ", ".join([arrays, *primitive.statics])
        raise TypeError(f"{name}: takes {takes}; got {len(args)} positional arguments")
    for key, value in zip(primitive.statics, in_order, strict=False):
        if key in static:
            raise TypeError(f"{name}: {key!r} is given in order and by name")
        static[key] = value
    for key, value in static.items():
        if key not in primitive.statics or hasattr(value, "tape"):
            known = ", ".join(primitive.statics) or "none"
            raise TypeError(
                f"{name}: {key!r} is not a static argument (those are: {known}); "
                "arrays and Tensors go by position"
            )
        if key in primitive.switches and value not in (False, True):
            raise TypeError(f"{name}: {key} is True or False, not {value!r}")
        bare = key in primitive.switches or getattr(value, "dtype", None) != np.bool_
        if getattr(value, "shape", None) == () and bare:  # np.True_ is no axis
            # NumPy's scalars would widen float32, and 0-d arrays can change later
            static[key] = value.item()
        elif isinstance(value, list) and name != "getitem" and key not in LISTS:
            # it could change, too
            static[key] = tuple(value)
    args = args[:arity]
    if primitive.variadic:
        return tuple(args[0]), static
    if len(args) < primitive.required:
        wanted = f"takes {primitive.required} array arguments, got {len(args)}"
        raise TypeError(f"{name}: {wanted}; {primitive.hint or 'see its docstring'}")
    return (*args, *[None] * (arity - len(args))), static


def common(primitive: Any, arrays: list) -> tuple[ModuleType, Any]:
    """The library and the dtype of a call's arrays; TypeError unless they agree.

    Numbers have no say, and indices none in the dtype. NumPy's scalars become Python's,
    in the list: they must not widen a float32 program.
    """
    xp = np
    dtype = None
    known = None
    lists = []
    for position, value in enumerate(arrays):
        kind = type(value)
        if kind is not known:
            if kind in (list, tuple) and position in primitive.indices:
                lists.append(position)  # take(t, [0, 1]), as in NumPy
                continue
            if isinstance(value, np.generic):
                arrays[position] = value.item()
                continue
            if isinstance(value, NOT_ARRAYS):
                continue
            own = NAMESPACES.get(kind) or namespace(value)
            if known is not None and own is not xp:
                raise TypeError(
                    f"{primitive.name}: argument {position} is a {own.__name__} array "
                    f"among {xp.__name__} ones; move it first"
                )
            xp, known = own, kind
        if value.dtype is not dtype and position not in primitive.indices:
            dtype = agreed(primitive.name, position, value.dtype, dtype)
    for position in lists:
        found = xp.asarray(arrays[position])
        arrays[position] = found if found.size else found.astype(np.intp)
    return xp, dtype


def agreed(name: str, position: int, own: np.dtype, dtype: Any) -> Any:
    """The dtype of a call, given one more array's and that of its arrays so far. A mask
    has no say. The complex step mixes float64 constants in.
    """
    if own.kind == "b":
        return dtype
    if own.kind not in "fc" or own.itemsize < 4:
        raise TypeError(
            f"{name}: argument {position} has dtype {own}, and arrays are floating "
            "point of 32 bits or more; convert with .astype"
        )
    if dtype is None or own == dtype:
        return own
    real, wide = sorted((dtype, own), key=lambda d: d.itemsize)
    if real.kind + wide.kind == "fc" and wide.itemsize == 2 * real.itemsize:
        return wide
    raise TypeError(
        f"{name}: argument {position} has dtype {own}, the others {dtype}; convert "
        "one with .astype"
    )


def widened(name: str, dtype: np.dtype, own: np.dtype) -> TypeError:
    """The error for a forward rule that has left the dtype of its arguments."""
    return TypeError(
        f"{name}: {dtype} arguments gave a {own} result; a constant has a wider dtype, "
        "or an array has another byte order, or the function is not analytic"
    )


def again(primitive: Any, error: Exception, xp: ModuleType, arrays: list, static: dict):
    """(rules, out, saved) of a call that failed, where what failed is the underflow of
    which NumPy was told to complain: e^-1000 is 0. Else the error, explained.
    """
    if isinstance(error, FloatingPointError) and "underflow" in str(error):
        try:
            with np.errstate(under="ignore"):
                rules = primitive.override(xp, arrays, static)
                return rules, *rules.forward(xp, *arrays, **static)
        except WORDED as other:
            error = other
    raise explained(primitive, error, arrays) from error


def explained(primitive: Any, error: Exception, arrays: list) -> Exception:
    """The error again, saying which operation, on what, and what to do. NumPy's own
    kinds of error cannot be made from a message: they become TypeErrors.
    """
    given = [
        f"{a.dtype}{list(a.shape)}" if hasattr(a, "shape") else repr(a) for a in arrays
    ]
    hint = "" if ";" in str(error) else primitive.hint  # a rule's own words may do
    if hint:  # a sentence of its own, or the end of this one
        hint = f"\n{hint}" if hint[0].isupper() else f";\n{hint}"
    message = f"{primitive.name}({', '.join(given)}): {error}"
    if isinstance(error, ArithmeticError):  # not because of shapes
        return type(error)(message)
    kinds = (kind for kind in (IndexError, ValueError) if isinstance(error, kind))
    return next(kinds, TypeError)(message + hint)
