"""Modules, and the layers that networks are made of.

A `Module` is a plain object. Its parameters are found in its attributes: Parameters,
Modules, and lists and dicts of these, in the order they were assigned. The path of
attributes is the name (`blocks.0.qkv.weight`), and the name is the key in a checkpoint.

Weights are laid out (in, out). As in Sonnet, they start as a normal distribution of
standard deviation 1 / sqrt(fan in), cut off at two standard deviations, and biases
start at zero. All randomness comes from `seed`: an int, a SeedSequence, or a Generator
to share. You always give one, since two layers of one seed begin alike:

    rng = np.random.default_rng(0)
    net = Sequential(Linear(16, 32, seed=rng), relu, Linear(32, 4, seed=rng))
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import itertools
import math
import operator
import reprlib
from collections import UserList, deque
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from types import ModuleType
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ..autograd import primitives as p
from ..autograd.engine import Parameter, Tensor
from ..backend import Array, namespace, to_host
from ..backend.seeds import Seed, generator
from ..backend.stored import matching
from ..config import first_difference
from ..errors import RunError, check_choice, check_number, check_sizes, check_switch
from ..fused import attention, conv2d, embedding, layer_norm, linear
from .settings import Config, encoded, settings_of, shown


class Module:
    """Something with parameters. A subclass assigns Parameters and Modules in
    `__init__` and defines `__call__`.
    """

    __slots__ = ("__dict__", "__weakref__", "_settings")  # which is no child

    __call__: Callable[..., Any]
    config: Any = Config()  # {name: value} of the settings that it was made with
    _written: ClassVar[dict[str, Any]]  # the methods that the class was written with

    def __init_subclass__(cls, **keywords: Any):
        super().__init_subclass__(**keywords)
        cls._written = _methods(cls)
        if "__init__" not in vars(cls):
            return
        init = cls.__init__
        signature = inspect.signature(init)

        @functools.wraps(init)
        def keeps(self, *values, **named):
            """Keep the arguments of the outermost call: see `settings.py`."""
            if not hasattr(self, "_settings"):
                self._settings = {}
                with contextlib.suppress(TypeError):  # `init` itself tells it better
                    bound = signature.bind(self, *values, **named)
                    bound.apply_defaults()
                    _, *given = bound.arguments.items()
                    kept = {k: v for k, v in given if k != "seed"}
                    for name, x in kept.items():  # the caller's own, who may change it
                        kept[name] = copy.copy(x) if type(x) in (list, dict) else x
                    self._settings = kept
            init(self, *values, **named)

        cls.__init__ = keeps  # type: ignore[method-assign]

    def children(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of everything that may hold parameters."""
        return iter(vars(self).items())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """(name, Parameter) in a fixed order; a tied Parameter comes once. ValueError
        if two share a name, TypeError if a set, deque, partial or dataclass holds some;
        other objects are not looked into.
        """
        names: set[str] = set()
        for name, parameter in walk("", self, set(), Parameter):
            if name in names:
                raise ValueError(f"two parameters are called {name!r}; rename one")
            names.add(name)
            yield name, parameter

    @reprlib.recursive_repr()  # a part may refer back to its owner
    def __repr__(self) -> str:
        return shown(self)

    def parameters(self) -> list[Parameter]:
        """All Parameters, in the order of `named_parameters`."""
        return [parameter for _, parameter in self.named_parameters()]

    @property
    def num_parameters(self) -> int:
        """The number of trainable numbers."""
        return sum(parameter.size for parameter in self.parameters())

    def astype(self, dtype: npt.DTypeLike) -> Self:
        """A copy with all parameters in another dtype, such as float64 for checks."""
        other, dtype = copy.deepcopy(self), check_dtype(type(self).__name__, dtype)
        for parameter in other.parameters():
            if parameter.dtype.kind == "c" and dtype.kind == "f":
                raise TypeError(f"{dtype} cannot hold {parameter.dtype} parameters")
            both = parameter.data, parameter.grad
            parameter.bind(*(x.astype(dtype) for x in both))
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

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of the parameters by name, on the host, in C order."""
        named = self.named_parameters()
        return {name: np.array(to_host(p.data), order="C") for name, p in named}

    def constants(self) -> dict[str, Constant]:
        """Arrays by name, drawn or computed once, that are no parameters."""
        return dict(walk("", self, set(), Constant))

    def load_parameters(self, source: Mapping[str, Array] | Module) -> None:
        """Copy parameters by name from arrays or from another module, such as
        `tinyrmc.load` gives; the precision may differ. ValueError says all that does
        not fit, and refuses a module with other settings (bare arrays have none);
        nothing has changed then.
        """
        constants: Mapping[str, Constant] = {}
        if isinstance(source, Module):
            differs = first_difference(made_as(source), made_as(self))
            if differs is not None:
                hint = "" if type(source) is type(self) else "; give the part that fits"
                raise ValueError(f"it has other settings: {differs}{hint}")
            constants, source = source.constants(), source.arrays()
        own = dict(self.named_parameters())
        for name, value in matching("parameter", source, own).items():
            own[name].data = namespace(own[name].data).asarray(value)
        for name, constant in constants.items():
            self.constants()[name].set(constant.value)


def _methods(kind: type) -> dict[str, Any]:
    """A class's own methods and properties, but `__init__`."""
    own = {k: x for k, x in vars(kind).items() if callable(x) or hasattr(x, "__get__")}
    return {name: x for name, x in own.items() if name != "__init__"}


Module._written = _methods(Module)


def is_a(module: Any, kind: Any) -> bool:
    """Whether it is a `kind` itself, and does what that was written to do: nobody has
    put another method in the place of one, on a class or on this object. Whatever runs
    in the place of a module asks this first.
    """
    if type(module) is not kind:
        return False
    held = [x for base in kind.__mro__[:-1] for x in vars(base).values()]
    before, names = _judged.get(kind, ([], None))
    if len(held) != len(before) or not all(map(operator.is_, held, before)):
        names = _as_written(kind)
        _judged[kind] = held, names
    return names is not None and names.isdisjoint(vars(module))


# By class: all that was in it and its bases when it was looked at, and what was found.
_judged: dict[type, tuple[list, set[str] | None]] = {}


def _as_written(kind: type) -> set[str] | None:
    """The names of the methods of a class; None if some are not as they were."""
    written = {base: vars(base).get("_written") for base in kind.__mro__}
    if any(own not in (None, _methods(base)) for base, own in written.items()):
        return None
    every = (each for own in written.values() for each in (own or {}).items())
    return {name for name, x in every if callable(x)}


def made_as(module: Module) -> dict[str, Any]:
    """The class of a module and of each one inside, with their settings and attributes,
    by name. The precision, and names that begin with _, do not count.
    """
    made: dict[str, Any] = {}
    for place, part in walk("", module, set(), Module):
        kind = {"class": type(part).__name__}
        for name, value in (kind | settings_of(part) | vars(part)).items():
            if name.startswith("_") or name == "dtype":
                continue
            if not any(walk("", value, set(), Module)):  # it comes by itself
                try:
                    told = encoded("", value)
                except RunError:  # of a function its name
                    told = getattr(value, "__name__", None)
                made[f"{place}.{name}".lstrip(".")] = told
    return made


class Constant:
    """An array of floating-point numbers that is no parameter. Each array library and
    precision gets its own copy, once.

    drawn: whether it was drawn, so that weights learnt with it need it: checkpoints
        hold it.
    """

    def __init__(self, value: np.ndarray, drawn: bool = False):
        self.drawn = drawn
        self.set(value)

    def set(self, value: np.ndarray) -> None:
        """Let it be a copy of another array, in C order."""
        self.value = np.array(value, order="C")
        self._copies: dict[tuple[str, str], Array] = {}

    def on(self, xp, dtype: npt.DTypeLike) -> Array:
        """The array as one of `xp`, in the precision of this dtype."""
        dtype = np.finfo(dtype).dtype
        key = xp.__name__, dtype.str
        if key not in self._copies:
            self._copies[key] = xp.asarray(self.value.astype(dtype, order="C"))
        return self._copies[key]


def walk(prefix: str, value: Any, seen: set, kind: Any) -> Iterator[tuple[str, Any]]:
    """(name, x) of all x of a kind below `value`, Parameters say, named from `prefix`
    on. `seen` has the ids of the objects visited so far; none is visited twice.
    """
    children: Any = ()
    if isinstance(value, Module):
        children = value.children()
        for base in type(value).__mro__:
            for own, x in vars(base).items():
                if isinstance(x, (Parameter, Module)):
                    raise TypeError(
                        f"{base.__name__}.{own} belongs to the class, so to all of its "
                        f"networks; assign self.{own} in __init__"
                    )
    elif isinstance(value, dict):
        _require_none_hidden(prefix, value)  # as a key
        children = value.items()
    elif isinstance(value, (list, tuple)):
        children = enumerate(value)
    elif not isinstance(value, kind):
        _require_none_hidden(prefix, value)
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, kind):
        yield prefix, value
    for name, child in children:
        yield from walk(f"{prefix}.{name}" if prefix else str(name), child, seen, kind)


Place: TypeAlias = list[str]  # of names, from a module to something inside


def ties(module: Module) -> list[tuple[Place, Place]]:
    """(place, first place) of each Parameter, Module and Constant that stands in
    several, and of each list, tuple or dict of such.
    """
    first: dict[int, Place] = {}
    found: list[tuple[Place, Place]] = []
    kinds = Parameter, Module, Constant

    def look(value: Any, path: Place) -> None:
        if id(value) in first:
            if any(walk("", value, set(), kinds)):
                found.append((path, first[id(value)]))
            return
        if isinstance(value, (*kinds, list, dict, tuple)):
            first[id(value)] = path
            for name, child in _inside(value):
                look(child, [*path, str(name)])

    look(module, [])
    return found


def tie(module: Module, place: Place, source: Place) -> None:
    """Let what stands in one place of a module stand in another, too. LookupError where
    that cannot be.
    """

    def at(path: Place) -> Any:
        value: Any = module
        for name in path:
            value = {str(k): x for k, x in _inside(value)}.get(name)
        return value

    value = at(source)
    holder = at(place[:-1])
    last = place[-1]
    if isinstance(holder, Sequential) and last.isdecimal():
        holder = holder.layers
    keys = {str(key): key for key, _ in _inside(holder)}
    if value is not None and isinstance(holder, Module):
        setattr(holder, last, value)
    elif value is not None and last in keys and not isinstance(holder, tuple):
        holder[keys[last]] = value
    else:
        raise LookupError(
            f"{'.'.join(place)}, which is also {'.'.join(source) or 'the whole'}, was "
            "put there later; give it to __init__"
        )


def _inside(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Module):
        return value.children()
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value if isinstance(value, (list, tuple)) else ()))


def _require_none_hidden(name: str, value: Any) -> None:
    """TypeError if a holder that is not searched has parameters: nobody would train
    them.
    """
    held: Any = ()
    if isinstance(value, (set, frozenset, deque, UserList, ValuesView)):
        held = value
    elif isinstance(value, Mapping):
        held = value if isinstance(value, dict) else [*value, *value.values()]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = [getattr(value, x.name, None) for x in dataclasses.fields(value)]
    elif isinstance(value, functools.partial):
        held = *value.args, *value.keywords.values()
    if any(isinstance(x, (Parameter, Module)) for x in held):
        what = "whose keys are" if isinstance(value, dict) else "which is"
        raise TypeError(
            f"{name} is a {type(value).__name__}, {what} not searched for "
            "parameters; use a list, a tuple, a dict by texts or a Module"
        )


class Linear(Module):
    """x @ weight + bias over the last axis, with an optional ReLU. x (..., input_size)
    -> (..., output_size).

    Cores use `weight` and `bias` for many steps at once; another layer in its place, or
    one that derives from it, such as an adapter of low rank, they call at each step.
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        bias: bool = True,
        relu: bool = False,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        check_sizes("Linear", input_size=input_size, output_size=output_size)
        dtype = check_dtype("Linear", dtype)
        rng = generator(seed)
        std = 1 / math.sqrt(input_size)
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
    padding H' is H - height + 1; with "SAME" it is H, see `fused.conv2d`. `weight` is
    (height, width, input_channels, output_channels).

    kernel: (height, width) of the kernel, or one number for both.
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
        *,
        seed: Seed,
    ):
        height, width = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        sizes = {"input_channels": input_channels, "output_channels": output_channels}
        check_sizes("Conv2d", **sizes, height=height, width=width)
        check_choice("Conv2d", "padding", padding, "VALID", "SAME")
        dtype = check_dtype("Conv2d", dtype)
        shape = height, width, input_channels, output_channels
        rng = generator(seed)
        std = math.prod(shape[:3]) ** -0.5
        self.weight = Parameter(truncated_normal(rng, shape, std, dtype))
        bias = check_switch("Conv2d", "bias", bias)
        self.bias = Parameter(np.zeros(output_channels, dtype)) if bias else None
        self.padding, self.relu = padding, check_switch("Conv2d", "relu", relu)

    def __call__(self, x: Array | Tensor) -> Tensor:
        return conv2d(x, self.weight, self.bias, padding=self.padding, relu=self.relu)


class Embedding(Module):
    """A table of `count` vectors, one for each word: ids (...) -> (..., size).

    As in Sonnet's Embed, `weight` (count, size) starts as a truncated normal of
    standard deviation 1 / sqrt(size), unless you give `std`.
    """

    def __init__(
        self,
        count: int,
        size: int,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
        std: float | None = None,
    ):
        check_sizes("Embedding", count=count, size=size)
        dtype = check_dtype("Embedding", dtype)
        std = size**-0.5 if std is None else std
        rng = generator(seed)
        self.weight = Parameter(np.zeros((count, size), dtype))
        # In parts: values are drawn in float64, and a vocabulary may be large.
        for part in np.split(self.weight.data, range(4096, count, 4096)):
            part[...] = truncated_normal(rng, part.shape, std, dtype)

    def __call__(self, ids: Array) -> Tensor:
        return embedding(self.weight, ids)


class LayerNorm(Module):
    """Layer normalisation over the last axis, each row by itself. `residual`, if you
    give it, is added to x first. Epsilon is 1e-5, as released.
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


class RMSNorm(Module):
    """Each row divided by the root of its mean square (Zhang and Sennrich 2019): gain *
    x / sqrt(mean(x^2) + epsilon) over the last axis. `residual`, if you give it, is
    added to x first.
    """

    def __init__(
        self, size: int, epsilon: float = 1e-6, dtype: npt.DTypeLike = np.float32
    ):
        check_sizes("RMSNorm", size=size)
        self.epsilon = check_number("RMSNorm", "epsilon", epsilon, "(0, inf)")
        self.gain = Parameter(np.ones(size, check_dtype("RMSNorm", dtype)))

    def __call__(
        self, x: Array | Tensor, residual: Array | Tensor | None = None
    ) -> Tensor:
        x = x if residual is None else p.add(x, residual)
        mean = p.mean(p.square(x), axis=-1, keepdims=True)
        return self.gain * (x / p.sqrt(mean + self.epsilon))


class MultiHeadAttention(Module):
    """Rows that look at each other (Vaswani et al. 2017): x (B, R, size) -> (B, R,
    output_size).

    H heads of softmax(q k^T / sqrt(K)) v, where q, k and v are linear in the rows; the
    heads side by side go through a last linear layer, `out`.

    Args:
        size: width of a row.
        num_heads: H.
        key_size, value_size: K and V; size / H, unless you give them.
        output_size: as size, unless you give it.
        causal: each row sees itself and those before it alone.
    """

    def __init__(
        self,
        size: int,
        num_heads: int,
        key_size: int | None = None,
        value_size: int | None = None,
        output_size: int | None = None,
        causal: bool = False,
        bias: bool = True,
        dtype: npt.DTypeLike = np.float32,
        *,
        seed: Seed,
    ):
        name = "MultiHeadAttention"
        check_sizes(name, size=size, num_heads=num_heads)
        if (key_size is None or value_size is None) and size % num_heads:
            raise ValueError(
                f"{name}: size {size} is no multiple of num_heads {num_heads}; give "
                "key_size and value_size"
            )
        K, V = (x or size // num_heads for x in (key_size, value_size))
        check_sizes(name, key_size=K, value_size=V)
        self.num_heads, self.key_size = num_heads, K
        self.causal, rng = check_switch(name, "causal", causal), generator(seed)
        more: dict[str, Any] = {"bias": bias, "dtype": dtype, "seed": rng}
        self.qkv = Linear(size, num_heads * (2 * K + V), **more)
        self.out = Linear(num_heads * V, output_size or size, **more)

    def __call__(
        self,
        x: Array | Tensor,
        context: Array | Tensor | None = None,
        mask: Array | None = None,
        trace: dict[str, Array] | None = None,
    ) -> Tensor:
        """context: rows (B, M, size) to look at in place of x.
        mask: bool, broadcasts to (B, H, R, R), or (B, H, R, M): who may look at whom.
        trace: a dict that receives the weights, (B, H, R, R or R + M), as "attention".
        """
        rows = x
        queries = x.shape[-2]
        xp = namespace(self.qkv.weight.data)
        if self.causal:
            if context is not None:
                raise ValueError("MultiHeadAttention: causal is for rows of one text")
            earlier = xp.tril(xp.ones((queries, queries), dtype=bool))
            mask = earlier if mask is None else mask & earlier
        if context is not None:  # all rows answer, so those of x are masked
            rows = p.concatenate([x, context], axis=1)
            others = context.shape[1]
            may = xp.ones((queries, others), dtype=bool) if mask is None else mask
            may = xp.broadcast_to(may, (*may.shape[:-1], others))
            own = xp.zeros((*may.shape[:-1], queries), dtype=bool)
            mask = xp.concatenate([own, may], axis=-1)
        sizes = {"num_heads": self.num_heads, "key_size": self.key_size}
        more = {"num_queries": queries, "trace": trace}
        return self.out(attention(self.qkv(rows), mask, **sizes, **more))


class Sequential(Module):
    """Layers, or any functions, one after the other: x -> layers[-1](... layers[0](x)).
    The parameters are `{l}.weight` and so on. It has a length and an order: `net[0]`,
    `net[:-1]`, `for layer in net`.
    """

    def __init__(self, *layers: Callable[..., Any]):
        for k, layer in enumerate(layers):
            if isinstance(layer, type):
                raise TypeError(
                    f"Sequential: layer {k} is the class {layer.__name__}; make one of "
                    f"it, such as {layer.__name__}(...)"
                )
            if not callable(layer):
                hint = "(*layers)" if isinstance(layer, (list, tuple)) else "(f, g)"
                raise TypeError(
                    f"Sequential: layer {k} is a {type(layer).__name__}, which cannot "
                    f"be called; write Sequential{hint}"
                )
        self.layers: list[Any] = [*layers]

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.layers)

    def __getitem__(self, place: int | slice) -> Any:
        """A layer; for a slice another Sequential of the same layers."""
        found = self.layers[place]
        return Sequential(*found) if isinstance(place, slice) else found

    def children(self) -> Iterator[tuple[str, Any]]:
        yield from ((str(k), layer) for k, layer in enumerate(self.layers))
        yield from ((name, x) for name, x in super().children() if name != "layers")

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class MLP(Sequential):
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
        *,
        seed: Seed,
    ):
        if not isinstance(output_sizes, tuple | list) or not output_sizes:
            raise ValueError(f"MLP: output_sizes must list sizes, not {output_sizes!r}")
        check_switch("MLP", "activate_final", activate_final)
        rng, layers, sizes = generator(seed), [], [input_size, *output_sizes]
        for number, (size, next_size) in enumerate(itertools.pairwise(sizes), 1):
            relu = number < len(output_sizes) or activate_final
            layer = Linear(size, next_size, relu=relu, dtype=dtype, seed=rng)
            layers.append(layer)
        super().__init__(*layers)


# --- Starting values, and checks of dtypes and shapes ---------------------------------


def truncated_normal(
    rng: np.random.Generator,
    shape: int | tuple[int, ...],
    std: float,
    dtype: npt.DTypeLike = np.float32,
) -> np.ndarray:
    """Normal values of standard deviation `std`, redrawn until all lie within two. This
    is TensorFlow's initializer, which Sonnet uses.
    """
    check_number("truncated_normal", "std", std, "[0, inf)")
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
            f"{type(value).__name__}; {hint or f'write np.asarray(x, np.{dtype})'}"
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
