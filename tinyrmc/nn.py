"""Layers: parameters with names, and the functions that use them.

A `Module` is a plain object. Its parameters are found in its attributes: Parameters,
Modules, and lists and dicts of these, in the order they were assigned. What other
objects hold, such as generators or closures, is not found. The path of attributes is
the name (`blocks.0.qkv.weight`), and the name is the key in a checkpoint. Weights are
laid out (in, out). As in Sonnet, they start as a normal distribution of standard
deviation 1 / sqrt(fan in), cut off at two standard deviations, and biases start at
zero. All randomness comes from `seed`: an int, a SeedSequence, or a Generator to share.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from types import ModuleType
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from .autograd.engine import Parameter, Tensor
from .backend import Array, matching, namespace, to_host
from .errors import Seed, check_number, check_sizes, check_switch, generator, is_integer
from .fused import conv2d, embedding, layer_norm, linear

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
        raise ValueError(
            f"truncated_normal: std must be finite and not negative, not {std!r}"
        )
    values = rng.standard_normal(shape)
    while (outside := np.abs(values) > 2).any():
        values[outside] = rng.standard_normal(int(outside.sum()))
    return (std * values).astype(dtype)


def check_dtype(owner: str, dtype: Any) -> np.dtype:
    """The dtype, or a TypeError unless it is floating point or complex.

    Half precision is refused too.
    """
    unknown = np.dtype("O")
    try:
        # NumPy would take None for float64
        checked = unknown if dtype is None else np.dtype(dtype)
    except TypeError:
        checked = unknown
    if checked.kind not in "fc":
        raise TypeError(
            f"{owner}: dtype must be floating point (np.float32) or complex, not "
            f"{dtype if dtype is None else checked}"
        )
    if checked.itemsize < 4:
        raise TypeError(
            f"{owner}: dtype must have 32 bits or more, not {checked}, in which sums "
            "and squares overflow; take np.float32"
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
    if value.dtype != dtype and not _same_precision(value.dtype, dtype):
        raise TypeError(
            f"{owner} has {dtype} parameters, {what} {value.dtype}; write "
            f"x.astype(np.{dtype})"
        )
    if len(value.shape) != len(shape) or any(
        want not in (None, size) for want, size in zip(shape, value.shape, strict=True)
    ):
        free = iter("BT")
        sizes = [next(free) if size is None else str(size) for size in shape]
        raise ValueError(
            f"{owner} expects {what} ({', '.join(sizes)}), got {value.shape}; {hint}"
        )


def _same_precision(one: np.dtype, other: np.dtype) -> bool:
    """Whether a complex dtype goes with a real one: float64 with complex128."""
    return one.kind in "fc" and np.finfo(one).dtype == np.finfo(other).dtype


# --- Modules --------------------------------------------------------------------------


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

        ValueError if two would share a name, TypeError if some are where no one looks
        for them.
        """
        names: set[str] = set()
        for name, parameter in _walk("", self, set()):
            if name in names:
                raise ValueError(
                    f"two parameters of this {type(self).__name__} are called "
                    f"{name!r}, the name in a checkpoint; rename an attribute or a key"
                )
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
        """A copy of this module with all parameters in another dtype.

        For checks: float64 or complex128.
        """
        other, dtype = copy.deepcopy(self), check_dtype(type(self).__name__, dtype)
        for parameter in other.parameters():
            if parameter.dtype.kind == "c" and dtype.kind == "f":
                raise TypeError(
                    f"{type(self).__name__} is {parameter.dtype}, and {dtype} cannot "
                    "hold its imaginary parts"
                )
            parameter.bind(parameter.data.astype(dtype), parameter.grad.astype(dtype))
        return other

    def to(self, xp: ModuleType) -> Self:
        """This module, its parameters moved to the array library `xp`.

        `xp` is numpy or cupy. Returns the module itself. Make optimizers afterwards.
        """
        move = to_host if xp is np else xp.asarray
        for parameter in self.parameters():
            if namespace(parameter.data) is not xp:
                parameter.bind(move(parameter.data), move(parameter.grad))
        return self

    def load_parameters(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy arrays by name into the parameters.

        ValueError names the first one that is missing, unknown, of another shape or of
        another kind; nothing has changed then. The precision may differ.
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
        _refuse_shared(type(value))
    elif isinstance(value, dict):
        children = value.items()
    elif isinstance(value, (list, tuple)):
        children = enumerate(value)
    else:
        _refuse_hidden(prefix, value)
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Parameter):
        yield prefix, value
    for name, child in children:
        yield from _walk(f"{prefix}.{name}" if prefix else str(name), child, seen)


def _refuse_shared(kind: type) -> None:
    """TypeError for a Parameter or Module that belongs to a class of Modules itself."""
    for base in kind.__mro__:
        for name, value in vars(base).items():
            if isinstance(value, (Parameter, Module)):
                raise TypeError(
                    f"{base.__name__}.{name} belongs to the class, so to all of its "
                    f"networks; assign self.{name} in __init__"
                )


def _refuse_hidden(name: str, value: Any) -> None:
    """TypeError for a holder of Parameters that is not a list, tuple or dict."""
    held: Any = ()
    if isinstance(value, (set, frozenset, deque, ValuesView)):
        held = value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = vars(value).values()
    elif isinstance(value, functools.partial):
        held = *value.args, *value.keywords.values()
    if any(isinstance(x, (Parameter, Module)) for x in held):
        raise TypeError(
            f"{name} is a {type(value).__name__}, which is not searched for "
            "parameters; use a list, a tuple, a dict or a Module"
        )


# --- Layers ---------------------------------------------------------------------------


class Linear(Module):
    """x @ weight + bias over the last axis, with an optional ReLU.

    x (..., input_size) -> (..., output_size).
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        bias: bool = True,
        relu: bool = False,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
    ):
        check_sizes("Linear", input_size=input_size, output_size=output_size)
        dtype = check_dtype("Linear", dtype)
        rng, std = generator(seed), 1 / math.sqrt(input_size)
        weight = truncated_normal(rng, (input_size, output_size), std, dtype)
        self.weight = Parameter(weight)
        bias = check_switch("Linear", "bias", bias)
        self.bias = Parameter(np.zeros(output_size, dtype)) if bias else None
        self.relu = check_switch("Linear", "relu", relu)

    def __call__(self, x: Array | Tensor) -> Tensor:
        return linear(x, self.weight, self.bias, relu=self.relu)


class Conv2d(Module):
    """Convolution of maps in steps of 1, with an optional ReLU.

    x (..., H, W, input_channels) -> (..., H', W', output_channels). With "VALID"
    padding H' is H - height + 1; with "SAME" it is H, and x has zeros around it, the
    extra ones of an even kernel below and to the right. See `fused.conv2d`.

    The parameters are `weight` (height, width, input_channels, output_channels) and
    `bias`. kernel: (height, width) of the kernel, or one number for both.
    """

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        kernel: int | tuple[int, int] = 2,
        padding: Literal["VALID", "SAME"] = "VALID",
        bias: bool = True,
        relu: bool = False,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
    ):
        sides = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        if len(sides) != 2:
            raise ValueError(f"Conv2d: kernel must be (height, width), not {kernel!r}")
        check_sizes(
            "Conv2d",
            input_channels=input_channels,
            output_channels=output_channels,
            **{"the kernel's height": sides[0], "the kernel's width": sides[1]},
        )
        if padding not in ("VALID", "SAME"):
            raise ValueError(
                f"Conv2d: padding must be 'VALID' or 'SAME', not {padding!r}"
            )
        dtype = check_dtype("Conv2d", dtype)
        shape = *sides, input_channels, output_channels
        rng, std = generator(seed), math.prod(shape[:3]) ** -0.5
        self.weight = Parameter(truncated_normal(rng, shape, std, dtype))
        bias = check_switch("Conv2d", "bias", bias)
        self.bias = Parameter(np.zeros(output_channels, dtype)) if bias else None
        self.padding, self.relu = padding, check_switch("Conv2d", "relu", relu)

    def __call__(self, x: Array | Tensor) -> Tensor:
        return conv2d(x, self.weight, self.bias, padding=self.padding, relu=self.relu)


class Embedding(Module):
    """A table of `count` vectors, one for each word: ids (...) -> (..., size).

    The parameter is `weight` (count, size). As in Sonnet's Embed, it starts as a
    truncated normal of standard deviation 1 / sqrt(size), unless you give `std`. See
    `fused.embedding` for ids out of range.
    """

    def __init__(
        self,
        count: int,
        size: int,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
        std: float | None = None,
    ):
        check_sizes("Embedding", count=count, size=size)
        dtype = check_dtype("Embedding", dtype)
        std = size**-0.5 if std is None else check_number("Embedding", "std", std)
        rng = generator(seed)
        self.weight = Parameter(np.zeros((count, size), dtype))
        # In parts: values are drawn in float64, and a vocabulary may be large.
        for part in np.split(self.weight.data, range(4096, count, 4096)):
            part[...] = truncated_normal(rng, part.shape, std, dtype)

    def __call__(self, ids: Array) -> Tensor:
        return embedding(self.weight, ids)


class LayerNorm(Module):
    """Layer normalisation over the last axis, each row by itself.

    `residual`, if you give it, is added to x first. Epsilon is 1e-5, as released.
    """

    def __init__(self, size: int, dtype: npt.DTypeLike = np.float32):
        check_sizes("LayerNorm", size=size)
        dtype = check_dtype("LayerNorm", dtype)
        self.gain = Parameter(np.ones(size, dtype))
        self.offset = Parameter(np.zeros(size, dtype))

    def __call__(
        self, x: Array | Tensor, residual: Array | Tensor | None = None
    ) -> Tensor:
        return layer_norm(x, self.gain, self.offset, residual)


class MLP(Module):
    """Linear layers of the given output sizes, with ReLUs between them.

    With `activate_final` there is a ReLU after the last one too. The parameters are
    `{l}.weight` and `{l}.bias`.
    """

    def __init__(
        self,
        input_size: int,
        output_sizes: Sequence[int],
        activate_final: bool = False,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
    ):
        rng, sizes = generator(seed), [input_size, *output_sizes]
        if len(sizes) == 1:
            raise ValueError("MLP: output_sizes must have at least one size, not []")
        check_switch("MLP", "activate_final", activate_final)
        self.layers = []
        for number, (size, next_size) in enumerate(itertools.pairwise(sizes), 1):
            relu = number < len(output_sizes) or activate_final
            layer = Linear(size, next_size, relu=relu, dtype=dtype, seed=rng)
            self.layers.append(layer)

    def children(self) -> Iterator[tuple[str, Any]]:
        yield from ((str(k), layer) for k, layer in enumerate(self.layers))
        yield from ((name, x) for name, x in super().children() if name != "layers")

    def __call__(self, x: Array | Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


# --- Dropout --------------------------------------------------------------------------


_ODD = 0x9E3779B9  # 2^32 / the golden ratio: its multiples lie far apart


def _hash(xp, x):
    """A bijection of uint32 that looks random; x is written over."""
    for shift, factor in (16, 0x7FEB352D), (15, 0x846CA68B):
        x ^= xp.right_shift(x, np.uint32(shift))
        x *= np.uint32(factor)
    x ^= xp.right_shift(x, np.uint32(16))
    return x


def _told(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None else f"{value.dtype}{list(shape)}"


class Noise:
    """Where the masks of dropout come from: one seed for each example.

        noise = Noise(batch["noise"])    # (B,) integers, drawn by the stream
        x = dropout(embedded, noise)     # the first mask
        y = dropout(hidden, noise)       # the next one

    Each use takes the next mask. The mask of an example depends on its own seed and on
    the number of the use, and on nothing else: not on the other examples, the workers
    or the machine. NumPy and CuPy give the same bits. They come from a hash (Wellons'
    `lowbias32`) of seed, use, row and column, in array arithmetic: it works where the
    seeds are, so a GPU waits for nothing.
    """

    def __init__(self, seeds: Array):
        if getattr(seeds, "ndim", None) != 1 or seeds.dtype.kind not in "iu":
            raise ValueError(
                "Noise: seeds must be a one-dimensional array of integers, one an "
                f"example, not {_told(seeds)}"
            )
        xp, seeds = namespace(seeds), seeds.astype(np.uint64)
        halves = seeds, xp.right_shift(seeds, np.uint64(32))  # low and high
        self.seeds = [half.astype(np.uint32) for half in halves]  # each (B,)
        self.uses = 0

    def draw(self, shape: tuple[int, ...], axis: int, rows: Array | None = None):
        """Numbers from 0 to 65535, uint16 of this shape, for the next use.

        `axis` is that of the examples, never the last one. `rows` is as for `Dropout`.
        """
        xp = namespace(self.seeds[0])
        count, ndim = len(self.seeds[0]), len(shape)
        if not -ndim <= axis < ndim - 1 or axis == -1 or shape[axis] != count:
            raise ValueError(
                f"Noise: axis {axis} of shape {shape} does not hold the examples of "
                f"{count} seeds; give Dropout the axis that does, not the last one"
            )
        axis %= ndim
        self.uses += 1
        low, high = self.seeds
        key = _hash(xp, low + np.uint32(self.uses * _ODD & 0xFFFFFFFF))
        key = _hash(xp, key ^ high)  # (B,)
        key = key.reshape([count if k == axis else 1 for k in range(ndim - 1)])
        if rows is None:
            others = [1 if k == axis else n for k, n in enumerate(shape[:-1])]
            rows = xp.arange(math.prod(others)).reshape(others)
        key = _hash(xp, key + rows.astype(np.uint32))  # of each row
        pairs = xp.arange(-(-shape[-1] // 2), dtype=np.uint32)
        bits = _hash(xp, key[..., None] + pairs * np.uint32(_ODD))
        return bits.view(np.uint16)[..., : shape[-1]]


class Dropout(Module):
    """Inverted dropout: each number is zero with probability `rate`.

    What is kept is divided by 1 - rate, so the mean stays (to a ten-thousandth, at
    rates up to 0.9). In evaluation `noise` is None, and x comes back as it is. It has
    no parameters.

    Args:
        rate: 0 <= rate < 1, in steps of 1/65536.
        axis: the axis of x that holds the examples, one for each seed of the noise: 0
            for (B, ...), 1 for (T, B, ...). The last axis cannot be it.
        shared: axes along which one mask serves all. shared=0 for (T, B, F) drops the
            same units at all time steps (the variational dropout of Gal and Ghahramani
            2016, the "locked" one of Merity et al. 2018); shared=-1 drops whole rows.
    """

    most = 65535 / 65536  # the highest rate

    def __init__(self, rate: float, axis: int = 0, shared: int | tuple[int, ...] = ()):
        rate = check_number("Dropout", "rate", rate)
        if not 0 <= rate <= self.most:
            raise ValueError(
                "Dropout: rate must be from 0 to below 1, in steps of 1/65536, not "
                f"{rate}"
            )
        self.rate, self.axis = rate, axis
        self.shared = tuple(shared) if isinstance(shared, (tuple, list)) else (shared,)
        for name, number in ("axis", axis), *[("shared", each) for each in self.shared]:
            if not is_integer(number):
                raise TypeError(f"Dropout: {name} takes axes by number, not {number!r}")

    def __call__(
        self, x: Array | Tensor, noise: Noise | None = None, rows: Array | None = None
    ) -> Array | Tensor:
        """x with some of its numbers zero.

        rows: integers that name the rows of x, of the shape of x without the last axis
            (or one that broadcasts to it). Rows of an example that have the same name
            get the same mask. With the words' ids and shared=-1 a word is dropped
            wherever it stands, the embedding dropout of Merity et al. (2018), here for
            each example by itself. By default each row has a name of its own.
        """
        if noise is None or self.rate == 0:
            return x
        if x.dtype.kind not in "fc":
            raise TypeError(
                f"Dropout: x is {x.dtype}, and what is kept is multiplied by "
                f"{1 / (1 - self.rate):.3g}; convert with .astype(np.float32)"
            )
        if rows is not None and rows.dtype.kind not in "iu":
            raise TypeError(
                f"Dropout: the names of rows are {rows.dtype}, not integers"
            )
        shape = list(x.shape)
        for axis in self.shared:
            if not -x.ndim <= axis < x.ndim:
                raise ValueError(
                    f"Dropout: x of shape {x.shape} has no axis {axis} that could "
                    "share a mask; give `shared` axes that x has"
                )
            shape[axis] = 1
        numbers = noise.draw(tuple(shape), self.axis, rows)
        keep = numbers >= np.uint16(round(self.rate * 65536))
        return x * (keep * x.dtype.type(1 / (1 - self.rate)))
