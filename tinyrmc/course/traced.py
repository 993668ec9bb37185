"""Functions that you wrote for NumPy, run on the tape.

    gate(np, x, h, W, U, b)            an exercise's answer on plain arrays
    on_tape(gate)(primitives, ...)     the same function, while the tape records

NumPy lets an object answer for itself when its functions meet it: `__array_ufunc__` and
`__array_function__`, NEP 13 and NEP 18. A `Traced` answers with the operation of the
same name in `primitives`. It has the methods that learners use as well, such as
`x.mean(axis=-1)`, which a Tensor does not have.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import primitives
from ..autograd.engine import Tensor

# NumPy's names where ours differ.
RENAMED = {"amax": "max", "dot": "matmul", "float_power": "power"}


def on_tape(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(*arguments)`, written for NumPy, as f(xp, *arguments).

    Where xp is NumPy it is called as it is. Otherwise the Tensors among the arguments,
    also those in lists, tuples and dicts, reach it as `Traced`, and its result is
    Tensors again. TypeError where it uses what the tape cannot record.
    """

    @functools.wraps(function)
    def either(xp: Any, *arguments: Any) -> Any:
        if xp is np:
            return function(*arguments)
        return each_in(_tensor, function(*each_in(_traced, arguments)))

    return either


def each_in(change: Callable[[Any], Any], value: Any) -> Any:
    """`change` applied to what is in lists, tuples and dicts, and to a value itself."""
    if isinstance(value, dict):
        return {key: each_in(change, each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([each_in(change, each) for each in value])
    return change(value)


def _traced(value: Any) -> Any:
    return Traced(value) if isinstance(value, Tensor) else value


def _tensor(value: Any) -> Any:
    return value.tensor if isinstance(value, Traced) else value


def _values(value: Any) -> Any:
    return value.tensor.data if isinstance(value, Traced) else value


def _call(name: str, *arguments: Any, **settings: Any) -> Any:
    """The primitive of this name. TypeError if there is none."""
    name = RENAMED.get(name, name)
    rule = OWN.get(name) or getattr(primitives, name, None)
    if rule is None:
        raise TypeError(
            f"the tape has no derivative for np.{name}; sums, means, exp, tanh, @ and "
            "their like can be recorded"
        )
    dtypes: list[np.dtype] = []
    each_in(lambda x: dtypes.append(x.dtype) if isinstance(x, Traced) else 0, arguments)

    def fit(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and dtypes:
            return value.astype(dtypes[0])  # float32 stays float32
        return _tensor(value)

    return each_in(_traced, rule(*each_in(fit, arguments), **settings))


def _var(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    away = x - primitives.mean(x, axis=axis, keepdims=True)
    return primitives.mean(away * away, axis=axis, keepdims=keepdims)


def _einsum(subscripts: str, *arrays: Any) -> Any:
    """As a product with all axes and a sum; without "..." in it."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    letters = sorted({*inputs} - {","})
    if not arrow:
        output = "".join(each for each in letters if inputs.count(each) == 1)
    product = None
    for names, array in zip(inputs.split(","), arrays, strict=True):
        if "." in names or len({*names}) < len(names):
            raise TypeError(f"the tape cannot record np.einsum with {subscripts!r}")
        order = [names.index(each) for each in letters if each in names]
        missing = [k for k, each in enumerate(letters) if each not in names]
        array = primitives.expand_dims(primitives.transpose(array, order), missing)
        product = array if product is None else primitives.multiply(product, array)
    gone = tuple(k for k, each in enumerate(letters) if each not in output)
    left = [each for each in letters if each in output]
    total = primitives.sum(product, axis=gone) if gone else product
    return primitives.transpose(total, [left.index(each) for each in output])


# NumPy's functions that the table lacks, made from those that it has.
OWN: dict[str, Callable[..., Any]] = {
    "absolute": lambda x: primitives.where(x.data >= 0, x, -x),
    "reciprocal": lambda x: 1.0 / x,
    "var": _var,
    "std": lambda x, *axis, **how: primitives.sqrt(_var(x, *axis, **how)),
    "einsum": _einsum,
}
COMPARISONS = ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")
OF_VALUES = ("zeros_like", "ones_like", "full_like", "argmax", "argsort")


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """An array in the eyes of NumPy's functions, a Tensor on the tape."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    shape = property(lambda self: self.tensor.shape)
    dtype = property(lambda self: self.tensor.dtype)
    ndim = property(lambda self: self.tensor.ndim)
    size = property(lambda self: self.tensor.size)
    T = property(lambda self: _call("transpose", self))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any):
        if method != "__call__" or named.get("out") is not None:
            raise TypeError(
                f"the tape cannot record np.{ufunc.__name__}.{method}, or writing into "
                "an existing array; write y = x + 1, not x += 1"
            )
        if ufunc.__name__ in COMPARISONS:
            return ufunc(*(_values(each) for each in inputs))
        return _call(ufunc.__name__, *inputs)

    def __array_function__(
        self, function: Callable, types: Any, arguments: tuple, settings: dict
    ) -> Any:
        name = function.__name__
        if name in ("shape", "ndim", "size"):
            return getattr(arguments[0], name)
        if name in OF_VALUES:
            return function(*(_values(each) for each in arguments), **settings)
        return _call(name, *arguments, **settings)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "the tape cannot follow into an array that you fill entry by entry; make "
            "it with np.stack or np.concatenate"
        )

    def __getitem__(self, key: Any) -> Traced:
        return _call("getitem", self, key=key)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self):
        return iter([self[k] for k in range(len(self))])

    def reshape(self, *shape: Any) -> Traced:
        shape = shape[0] if len(shape) == 1 else shape
        return _call("reshape", self, shape=shape)

    def transpose(self, *axes: Any) -> Traced:
        axes = axes[0] if len(axes) == 1 else axes
        return _call("transpose", self, axes=axes or None)

    def copy(self) -> Traced:
        return self

    def astype(self, *_: Any, **__: Any) -> Traced:
        return self


def _method(name: str) -> Callable[..., Any]:
    return lambda self, *arguments, **named: _call(name, self, *arguments, **named)


for _name in ("sum", "mean", "max", "swapaxes", "squeeze", "clip", "var", "std", "dot"):
    setattr(Traced, _name, _method(_name))
for _name in ("add", "sub", "mul", "truediv", "pow", "matmul"):
    # `x += 1` makes a new array here, and x its name.
    setattr(Traced, f"__i{_name}__", getattr(Traced, f"__{_name}__"))
