"""What holds parameters: their names, types and values.

A `Module` is a plain object. Its parameters are found in its attributes: Parameters,
Modules, and lists and dicts of these, in the order they were assigned. What other
objects hold, such as generators or closures, is not found. The path of attributes is
the name (`blocks.0.qkv.weight`), and the name is the key in a checkpoint.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from types import ModuleType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..autograd.engine import Parameter
from ..backend import matching, namespace, to_host


class Module:
    """Something with parameters.

    A subclass assigns Parameters and Modules in `__init__` and defines `__call__`.
    """

    __call__: Callable[..., Any]

    def children(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of everything that may hold parameters."""
        return iter(vars(self).items())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """(name, Parameter) in a fixed order; a tied Parameter comes once.

        ValueError if two share a name, TypeError if some are where no one looks.
        """
        names: set[str] = set()
        for name, parameter in _walk("", self, set()):
            if name in names:
                raise ValueError(f"two parameters are called {name!r}; rename one")
            names.add(name)
            yield name, parameter

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {self.num_parameters:,} parameters>"

    def parameters(self) -> list[Parameter]:
        """All Parameters, in the order of `named_parameters`."""
        return [parameter for _, parameter in self.named_parameters()]

    @property
    def num_parameters(self) -> int:
        """How many trainable numbers there are."""
        return sum(parameter.size for parameter in self.parameters())

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """A copy with all parameters in another dtype, such as float64 for checks."""
        other, dtype = copy.deepcopy(self), check_dtype(type(self).__name__, dtype)
        for parameter in other.parameters():
            if parameter.dtype.kind == "c" and dtype.kind == "f":
                raise TypeError(f"{dtype} cannot hold {parameter.dtype} parameters")
            parameter.bind(parameter.data.astype(dtype), parameter.grad.astype(dtype))
        return other

    def to(self, xp: ModuleType) -> Self:
        """Move the parameters to an array library, numpy or cupy; returns the module.

        Make optimizers afterwards.
        """
        move = to_host if xp is np else xp.asarray
        for parameter in self.parameters():
            if namespace(parameter.data) is not xp:
                parameter.bind(move(parameter.data), move(parameter.grad))
        return self

    def load_parameters(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy arrays by name into the parameters; the precision may differ.

        ValueError names the first that does not fit; nothing has changed then.
        """
        own = dict(self.named_parameters())
        for name, value in matching("parameter", arrays, own).items():
            own[name].data = namespace(own[name].data).asarray(value)


def _walk(prefix: str, value: Any, seen: set) -> Iterator[tuple[str, Parameter]]:
    """(name, Parameter) of all Parameters below `value`, named from `prefix` on.

    `seen` has the ids of the objects visited so far; none is visited twice.
    """
    children: Any
    if isinstance(value, Parameter):
        children = ()
    elif isinstance(value, Module):
        children = value.children()
        for base in type(value).__mro__:
            for own, x in vars(base).items():
                if isinstance(x, (Parameter, Module)):
                    raise TypeError(
                        f"{base.__name__}.{own} belongs to the class, so to all of its "
                        f"networks; assign self.{own} in __init__"
                    )
    elif isinstance(value, dict):
        children = value.items()
    elif isinstance(value, (list, tuple)):
        children = enumerate(value)
    else:
        if any(isinstance(x, (Parameter, Module)) for x in _hidden(value)):
            raise TypeError(
                f"{prefix} is a {type(value).__name__}, which is not searched for "
                "parameters; use a list, a tuple, a dict or a Module"
            )
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Parameter):
        yield prefix, value
    for name, child in children:
        yield from _walk(f"{prefix}.{name}" if prefix else str(name), child, seen)


def _hidden(value: Any) -> Iterable:
    """Objects in a holder that is not a list, tuple or dict."""
    if isinstance(value, (set, frozenset, deque, ValuesView)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return vars(value).values()
    if isinstance(value, functools.partial):
        return *value.args, *value.keywords.values()
    return ()


# --- Starting values, and checks of dtypes and shapes ---------------------------------


def truncated_normal(
    rng: np.random.Generator,
    shape: int | tuple[int, ...],
    std: float,
    dtype: npt.DTypeLike = np.float32,
) -> np.ndarray:
    """Normal values of standard deviation `std`, redrawn until all lie within two.

    This is TensorFlow's initializer, which Sonnet uses.
    """
    if not 0 <= std < math.inf:
        raise ValueError(f"truncated_normal: std must not be {std!r}")
    values = rng.standard_normal(shape)
    while (outside := np.abs(values) > 2).any():
        values[outside] = rng.standard_normal(int(outside.sum()))
    return (std * values).astype(dtype)


def check_dtype(owner: str, dtype: Any) -> np.dtype:
    """The dtype; TypeError unless it is floating point or complex, of 32 bits or more.

    In halves sums and squares overflow.
    """
    checked = np.dtype("O" if dtype is None else dtype)  # NumPy's None is float64
    if checked.kind not in "fc" or checked.itemsize < 4:
        raise TypeError(
            f"{owner}: dtype must be floating point of 32 bits or more, such as "
            f"np.float32, not {dtype if dtype is None else checked}"
        )
    return checked


def check_array(
    owner: str,
    what: str,
    value: Any,
    shape: Sequence[int | None],
    dtype: np.dtype,
    hint: str,
) -> None:
    """TypeError unless `value` is an array or Tensor of this precision.

    ValueError unless it has this shape. A size of None may have any length: the first
    None is the batch, a second one is time.
    """
    if not hasattr(value, "shape"):
        raise TypeError(
            f"{owner} expects {what} as an array or a Tensor, not "
            f"{type(value).__name__}; write np.asarray(x, np.{dtype})"
        )
    # float64 goes with complex128, for a complex step
    own = value.dtype
    if own.kind not in "fc" or np.finfo(own).dtype != np.finfo(dtype).dtype:
        raise TypeError(
            f"{owner} has {dtype} parameters, {what} {own}; write x.astype(np.{dtype})"
        )
    if len(value.shape) != len(shape) or any(
        want not in (None, size) for want, size in zip(shape, value.shape, strict=True)
    ):
        free = iter("BT")
        sizes = [next(free) if size is None else str(size) for size in shape]
        raise ValueError(
            f"{owner} expects {what} ({', '.join(sizes)}), got {value.shape}; {hint}"
        )
