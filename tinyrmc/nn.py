"""Layers: parameters with names, and the functions that use them.

A `Module` is a plain object. Whatever Parameters, Modules, or lists and dicts of these
are found in its attributes are its parameters, in the order they were assigned; the
attribute path is the name (`blocks.0.qkv.weight`), and the name is the key in a
checkpoint. Weights are laid out (in, out). As in Sonnet they start as a normal
distribution of standard deviation 1 / sqrt(fan in), cut off at two standard deviations;
biases start at zero. All randomness comes from `seed`: an int, a SeedSequence, or a
Generator to share.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import numpy as np

from .backend import namespace, to_host
from .engine import Parameter, Tensor
from .fused import layer_norm, linear


def truncated_normal(rng, shape, std, dtype=np.float32) -> np.ndarray:
    """Normal values of standard deviation `std`, redrawn until all lie within two of
    them (TensorFlow's initializer, which Sonnet uses).
    """
    values = rng.standard_normal(shape)
    while (outside := np.abs(values) > 2).any():
        values[outside] = rng.standard_normal(int(outside.sum()))
    return (std * values).astype(dtype)


def check_sizes(owner: str, **sizes) -> None:
    """ValueError, naming the argument, unless every size is an integer of at least 1."""
    for name, value in sizes.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, np.integer))
            or value < 1
        ):
            raise ValueError(
                f"{owner}: {name} must be an integer of at least 1, not {value!r}"
            )


def check_dtype(owner: str, dtype) -> np.dtype:
    """The dtype, or a TypeError unless it is floating point or complex."""
    try:
        found = np.dtype(
            "O" if dtype is None else dtype
        )  # NumPy would take None for float64
    except TypeError:
        found = np.dtype("O")
    if found.kind not in "fc":
        raise TypeError(
            f"{owner}: dtype must be floating point (np.float32) or complex, not "
            f"{dtype if dtype is None else found}"
        )
    return found


def check_number(owner: str, name: str, value) -> float:
    """The value as a float (infinities allowed), or a ValueError naming the argument."""
    if (
        isinstance(value, (int, float, np.integer, np.floating))
        and not isinstance(value, bool)
        and value == value
    ):
        return float(value)
    raise ValueError(f"{owner}: {name} must be a number, not {value!r}")


def check_array(owner: str, what: str, value, shape: tuple, dtype, hint: str) -> None:
    """TypeError unless `value` is an array or Tensor of this precision, ValueError
    unless of this shape.

    A size None is of any length: the first one the batch, a second one time.
    """
    if not hasattr(value, "shape"):
        raise TypeError(
            f"{owner} expects {what} as an array or a Tensor, not "
            f"{type(value).__name__}; write np.asarray(x, np.{dtype})"
        )
    if value.dtype != dtype and (
        value.dtype.kind not in "fc"
        or np.finfo(value.dtype).dtype != np.finfo(dtype).dtype
    ):
        raise TypeError(
            f"{owner} has {dtype} parameters, {what} {value.dtype}; write "
            f"x.astype(np.{dtype})"
        )  # complex goes with real
    if len(value.shape) != len(shape) or any(
        want not in (None, size) for want, size in zip(shape, value.shape, strict=True)
    ):
        free = iter("BT")
        want = f"({', '.join(next(free) if size is None else str(size) for size in shape)})"
        raise ValueError(f"{owner} expects {what} {want}, got {value.shape}; {hint}")


class Module:
    """Something with parameters.

    Subclasses assign Parameters and Modules in `__init__` and define `__call__`.
    """

    def children(self) -> Iterator[tuple[str, object]]:
        """(name, value) of everything that may hold parameters."""
        return iter(vars(self).items())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """(name, Parameter) in a fixed order, each Parameter once however often it is
        tied.
        """
        seen = set()
        for name, parameter in _walk("", self):
            if parameter.id not in seen:
                seen.add(parameter.id)
                yield name, parameter

    def __repr__(self):
        return f"<{type(self).__name__} with {self.num_parameters:,} parameters>"

    def parameters(self) -> list[Parameter]:
        """All Parameters, in the order of `named_parameters`."""
        return [parameter for _, parameter in self.named_parameters()]

    @property
    def num_parameters(self) -> int:
        """How many trainable numbers there are."""
        return sum(parameter.size for parameter in self.parameters())

    def astype(self, dtype) -> Module:
        """A copy of this module with all parameters in another dtype: float64 or
        complex128, for checks.
        """
        other, dtype = copy.deepcopy(self), check_dtype(type(self).__name__, dtype)
        for parameter in other.parameters():
            parameter.bind(parameter.data.astype(dtype), parameter.grad.astype(dtype))
        return other

    def to(self, xp) -> Module:
        """This module, its parameters moved to the array library `xp` (numpy or cupy);
        make optimizers afterwards. Returns itself.
        """
        move = to_host if xp is np else xp.asarray
        for parameter in self.parameters():
            if namespace(parameter.data) is not xp:
                parameter.bind(move(parameter.data), move(parameter.grad))
        return self

    def load_parameters(self, arrays: dict[str, np.ndarray]) -> None:
        """Copy arrays by name into the parameters.

        ValueError names the first missing, unknown or misshapen one, and nothing is
        changed.
        """
        own = dict(self.named_parameters())
        for name in [*own, *arrays]:
            if name not in arrays:
                raise ValueError(f"parameter {name!r} is missing from the arrays")
            if name not in own:
                raise ValueError(f"parameter {name!r} is unknown to the model")
            if own[name].shape != arrays[name].shape:
                raise ValueError(
                    f"parameter {name!r} has shape {own[name].shape}, the array "
                    f"{arrays[name].shape}"
                )
        for name, parameter in own.items():
            parameter.data = namespace(parameter.data).asarray(
                arrays[name].astype(parameter.dtype)
            )


def _walk(prefix, value):
    if isinstance(value, Parameter):
        yield prefix, value
        return
    if isinstance(value, Module):
        items = value.children()
    elif isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return
    for name, child in items:
        yield from _walk(f"{prefix}.{name}" if prefix else str(name), child)


class Linear(Module):
    """x @ weight + bias over the last axis, with an optional ReLU. x (..., input_size)
    -> (..., output_size).
    """

    def __init__(
        self, input_size, output_size, bias=True, relu=False, dtype=np.float32, seed=0
    ):
        check_sizes("Linear", input_size=input_size, output_size=output_size)
        dtype = check_dtype("Linear", dtype)
        rng = np.random.default_rng(seed)
        self.weight = Parameter(
            truncated_normal(
                rng, (input_size, output_size), 1 / math.sqrt(input_size), dtype
            )
        )
        self.bias = Parameter(np.zeros(output_size, dtype)) if bias else None
        self.relu = relu

    def __call__(self, x) -> Tensor:
        return linear(x, self.weight, self.bias, relu=self.relu)


class LayerNorm(Module):
    """Layer normalisation over the last axis, each row for itself; `residual`, if
    given, is added to x first. Epsilon 1e-5, as released.
    """

    def __init__(self, size, dtype=np.float32):
        check_sizes("LayerNorm", size=size)
        self.gain = Parameter(np.ones(size, check_dtype("LayerNorm", dtype)))
        self.offset = Parameter(np.zeros(size, dtype))

    def __call__(self, x, residual=None) -> Tensor:
        return layer_norm(x, self.gain, self.offset, residual)


class MLP(Module):
    """Linear layers of the given output sizes with ReLUs between, and after the last if
    `activate_final`. Parameters `{l}.weight`, ...
    """

    def __init__(
        self, input_size, output_sizes, activate_final=False, dtype=np.float32, seed=0
    ):
        rng = np.random.default_rng(seed)
        sizes = [input_size, *output_sizes]
        last = len(output_sizes) - 1
        self.layers = [
            Linear(
                sizes[k],
                sizes[k + 1],
                relu=k < last or activate_final,
                dtype=dtype,
                seed=rng,
            )
            for k in range(len(output_sizes))
        ]

    def children(self):
        return ((str(k), layer) for k, layer in enumerate(self.layers))

    def __call__(self, x) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x
