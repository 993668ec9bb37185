"""Reverse-mode automatic differentiation on a linear tape. It knows no mathematics.

The whole idea: while a `Tape` is open, every operation that touches something tracked
appends one entry to a list. The entry says which rule to use, which values went in,
which came out, and what the rule wants to remember. Nothing can be used before it is
made, so the list is already in topological order: walk it backwards, and you meet every
value only after all of its uses. Backward is therefore a `pop` in a loop. There is no
graph, no search and no recursion, and an entry's memory is free as soon as the entry
has been used.

    with Tape() as tape:                       # the only switch that records
        loss = primitives.sum(x @ weight)      # `weight` is a Parameter
    tape.backward(loss)                        # adds d loss / d weight into weight.grad

Three rules keep it honest. A gradient is never written into while someone else may hold
it (`_Gradients`). Broadcasting is undone in one place (`unbroadcast`). Every dtype is
checked: a float32 program that would turn into float64 stops and says where.

One freedom makes it fast. A rule may answer with a `Product`, which is still to be
computed. Then what all time steps of a recurrent network contribute to the gradient of
a weight is computed at once, by one large product instead of many small ones.

All of it is one file, because each part needs the others: the operators of a `Tensor`
call primitives, a `Primitive` returns Tensors and reports to the tape, and a `Tape`
walks back through what primitives did.
"""

from __future__ import annotations

import inspect
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeAlias, overload

import numpy as np

from .. import gpu as kernels
from ..backend import NAMESPACES, Array, column_sums, gemm, namespace, to_host
from ..backend import locked as _locked

# what a forward rule may raise, to be told again with an explanation
_WORDED = ValueError, TypeError, IndexError, AttributeError, ArithmeticError
_NOT_ARRAYS = (bool, int, float, complex, type(None))
# Parameters live on every tape, so their ids are permanent: -1, -2, ...
_parameter_ids = itertools.count(-1, -1)

# What a tape knows of a value: (id, shape, dtype). It holds no Tensors.
Place: TypeAlias = tuple[int, tuple[int, ...], np.dtype]


class _Local(threading.local):
    tape: Tape | None = None  # the tape recording in this thread

    def __init__(self) -> None:
        self.mark = object()  # marks each Tensor made in this thread on no tape


_local = _Local()


def _refuse(message: str) -> Any:
    """A method that raises TypeError with the class's name and this message."""

    def method(self, *_, **__):
        raise TypeError(f"{type(self).__name__} {message}")

    return method


class Tensor:
    """An array and its place on a tape. Immutable.

    Primitives make Tensors, and so does `tape.watch`; `Tensor(array)` is a constant.
    `data` is the array, `id` its name on `tape` (0: a constant). There are no methods:
    write `primitives.sum(x)`, as you write `np.sum(x)` in NumPy.
    """

    __slots__ = ("_data", "id", "tape")
    __array_ufunc__ = None  # array + tensor calls tensor.__radd__(array)
    __hash__ = object.__hash__

    def __init__(self, data: Array, id: int = 0, tape: Any = None):
        self._data, self.id, self.tape = data, id, tape

    @property
    def data(self) -> Array:
        return self._data

    @data.setter
    def data(self, value: Array) -> None:
        raise TypeError(
            "Tensor is immutable; make a new one, Tensor(array), or tape.watch(array)"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def dtype(self) -> np.dtype:
        return self._data.dtype

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def size(self) -> int:
        return self._data.size

    def detach(self) -> Tensor:
        """The same array as a constant: nothing flows back through it."""
        return Tensor(self._data)

    def __getattr__(self, name: str) -> Any:  # called only for names that are not there
        remedy = "it has data, shape, dtype, ndim, size and detach()"
        if name in TABLE:
            remedy = f"write primitives.{name}(t)"
        raise AttributeError(f"{type(self).__name__} has no {name!r}; {remedy}")

    def __reduce__(self):  # a copied constant belongs to no thread
        return type(self), (self._data, *((self.id, self.tape) if self.id else ()))

    def __repr__(self) -> str:
        name = type(self).__name__
        values = np.array2string(
            to_host(self.data),
            precision=4,
            threshold=50,
            edgeitems=2,
            separator=", ",
            prefix="Tensor(",
        )
        id = f", id={self.id}" if self.id else ""
        return f"{name}({values}, shape={self.shape}, dtype={self.dtype}{id})"

    def __add__(self, other) -> Tensor:
        return TABLE["add"](self, other)

    def __radd__(self, other) -> Tensor:
        return TABLE["add"](other, self)

    def __sub__(self, other) -> Tensor:
        return TABLE["subtract"](self, other)

    def __rsub__(self, other) -> Tensor:
        return TABLE["subtract"](other, self)

    def __mul__(self, other) -> Tensor:
        return TABLE["multiply"](self, other)

    def __rmul__(self, other) -> Tensor:
        return TABLE["multiply"](other, self)

    def __truediv__(self, other) -> Tensor:
        return TABLE["divide"](self, other)

    def __rtruediv__(self, other) -> Tensor:
        return TABLE["divide"](other, self)

    def __matmul__(self, other) -> Tensor:
        return TABLE["matmul"](self, other)

    def __rmatmul__(self, other) -> Tensor:
        return TABLE["matmul"](other, self)

    def __neg__(self) -> Tensor:
        return TABLE["negative"](self)

    def __getitem__(self, key) -> Tensor:
        return TABLE["getitem"](self, key=key)

    __bool__ = __float__ = __int__ = __index__ = _refuse(
        "has no truth or number value; read float(t.data), which waits for a GPU"
    )
    __array__ = _refuse("does not turn into a NumPy array by itself; write t.data")
    __iter__ = __len__ = _refuse(
        "is not a sequence; write primitives.unstack(t) for its rows, t.shape[0] for "
        "their number"
    )
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse(
        "is not compared; compare arrays: t.data == u.data, or `is` for identity"
    )
    __format__ = _refuse(
        "is not formatted as a number; write float(t.data), which waits for a GPU"
    )
    __pow__ = _refuse("has no **; write primitives.power(t, exponent), or t * t")
    __setitem__ = _refuse(
        "is immutable; build a new one with primitives.where or concatenate"
    )
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __imatmul__ = _refuse(
        "is immutable; write t = t + u instead of t += u"
    )


class Parameter(Tensor):
    """A trainable array, with a buffer `grad` into which `tape.backward` adds.

    `Parameter(array)` copies, and stays where the array is, on the host or on a GPU;
    `grad` starts at zero. `parameter.data = array` copies into the memory that is
    there, which may be a view of an optimizer's flat buffer, and so does
    `parameter.grad = array`. So shape (ValueError) and dtype (TypeError) must agree.

    A copy of a Parameter, and what comes out of a pickle, is a Parameter of its own,
    with a gradient of zero and in no optimizer's buffer.

    Between forward and backward a value must not change. `parameter.data = array` is
    always noticed; see `Tape` for `parameter.data[...] = array`.
    """

    __slots__ = ("_grad", "buffer", "offset", "version")

    def __init__(self, data: Array):
        numbers = isinstance(data, (list, tuple, float, int, complex, np.generic))
        xp = np if numbers else namespace(data)
        data = xp.array(data)
        if data.dtype.kind not in "fc":
            raise TypeError(
                f"Parameter needs floating-point values, not {data.dtype}; write "
                "Parameter(np.asarray(x, np.float32))"
            )
        self.id = next(_parameter_ids)
        self.tape = None
        self.version = 0
        self.bind(data, xp.zeros_like(data))

    def bind(
        self,
        data: Array,
        grad: Array,
        offset: int | None = None,
        buffer: Array | None = None,
    ) -> None:
        """Live in these arrays from now on.

        `buffer`: the flat array of an optimizer's gradients, if `grad` is a view of it;
        `offset`: where the first element stands there.
        """
        self._data, self._grad = data, grad
        self.offset, self.buffer = offset, buffer
        if buffer is not None:
            _buffers[id(buffer)] = buffer

    def __reduce__(self):  # how copy and pickle make another one
        return type(self), (self._data,)

    @property
    def data(self) -> Array:
        return self._data

    @data.setter
    def data(self, value: Array) -> None:
        self._copy("data", value, self._data)
        self.version += 1  # a tape recorded before this can no longer be walked back

    @property
    def grad(self) -> Array:
        return self._grad

    @grad.setter
    def grad(self, value: Array) -> None:
        self._copy("grad", value, self._grad)

    def _copy(self, name: str, value: Array, own: Array) -> None:
        if not hasattr(value, "shape"):
            fill = 0 if value is None else repr(value)
            raise TypeError(
                f"Parameter.{name} takes an array, not {type(value).__name__}; write "
                f"parameter.{name}[...] = {fill} to fill it"
            )
        if value.shape != own.shape:
            raise ValueError(
                f"Parameter of shape {own.shape} cannot take an array of shape "
                f"{value.shape}; reshape it first"
            )
        if value.dtype != own.dtype:
            raise TypeError(
                f"Parameter of dtype {own.dtype} cannot take {value.dtype}; convert "
                f"with .astype({own.dtype})"
            )
        own[...] = value


# the flat gradient buffers of optimizers by their id, as long as they live
_buffers: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()

TABLE: dict[str, Primitive] = {}  # every primitive by name


class Primitive:
    """One differentiable operation: a forward rule and its vector-Jacobian product.

    `forward(xp, *arrays, **static) -> (out, saved)`: `out` is an array, or a tuple of
    arrays; `saved` is the tuple of what the vjp will want. Arrays come by position,
    static arguments are keyword-only.

    `vjp(xp, needs, g, *saved)` -> one gradient (or None) for each array argument.
    `needs[i]` is None where nobody asks. `g` is a tuple where `out` is one, with zeros
    for outputs that were not used. A gradient may have the broadcast shape: the tape
    sums it back. It may also be a `Product`, which the tape computes later.

    `vjp_in_place` is for a rule whose gradients are too large to be made beside the
    arrays that take them. It returns nothing: `needs[i]` is the array to add to. Where
    there are several outputs, an unused one has None for a gradient.

    indices: positions of integer or mask arguments, which have no gradient and no say
        in the dtype.
    hint: what to do about bad shapes; the last line of an error.
    """

    in_place = False  # whether the rule adds its gradients itself

    def __init__(self, forward: Callable, indices: Iterable[int] = (), hint: str = ""):
        _, *signature = inspect.signature(forward).parameters.values()  # all but xp
        arrays = [p for p in signature if p.kind is not p.KEYWORD_ONLY]
        self.arity = len(arrays)
        self.required = len([p for p in arrays if p.default is p.empty])
        # concatenate([a, b, ...]) takes one list
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in arrays)
        statics = [p for p in signature if p.kind is p.KEYWORD_ONLY]
        self.statics = [p.name for p in statics]
        self.switches = {p.name for p in statics if isinstance(p.default, bool)}
        self.forward, self.indices, self.hint = forward, frozenset(indices), hint
        self.name = self.__name__ = forward.__name__
        self.__doc__, self.__module__ = forward.__doc__, forward.__module__
        self.rule: Callable[..., Any] = self._without_rule
        known = TABLE.get(self.name, self)
        if known.__module__ != self.__module__:
            raise ValueError(
                f"{known.__module__} has a primitive {self.name}, which Tensors use by "
                "its name; call yours something else"
            )
        TABLE[self.name] = self

    def vjp(self, rule: Callable) -> Callable:
        """Decorator that gives this primitive its vector-Jacobian product."""
        self.rule = rule
        return rule

    def vjp_in_place(self, rule: Callable) -> Callable:
        """Decorator like `vjp`, for a rule that adds its gradients in place."""
        self.rule, self.in_place = rule, True
        return rule

    def _without_rule(self, *_: Any) -> Any:
        raise TypeError(
            f"{self.name} has no derivative; give it one with @{self.name}.vjp"
        )

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __call__(self, *args: Any, **static: Any) -> Any:
        """Compute, and record if a tape is open and knows one of the arguments.

        Takes arrays, Tensors and Python numbers, then the static arguments by name or
        in order. Returns a Tensor, or a tuple of them. Every operation comes through
        here, so the steps are few: as four methods they take 0.6 microseconds longer
        than written in one piece, 0.2 % of a training step.
        """
        if static or self.variadic or len(args) != self.arity:
            args, static = self._bind(args, static)
        xp, dtype, arrays = self._unwrap(args)
        rules, out, saved = self._run(xp, dtype, arrays, static)
        tape = _local.tape
        inputs = None if tape is None else tape._find(args, self)
        if tape is None or inputs is None:
            return _constant(out, _local.mark if tape is None else None)
        return tape._record(rules, xp, inputs, out, saved)

    def override(self, xp: ModuleType, arrays: list, static: dict) -> Any:
        """The object whose `forward` and `rule` serve this call, anywhere but on NumPy.

        By default this one. A kernel for GPUs may take its place, see `fused.Fused`.
        """
        return self

    def _bind(self, args: tuple, static: dict) -> tuple[tuple, dict]:
        """Split a call into array arguments and static ones, as NumPy does."""
        if len(args) > self.arity:
            in_order = self._statics_in_order(args)
            if twice := in_order.keys() & static.keys():
                raise TypeError(
                    f"{self.name}: {min(twice)!r} is given in order and by name; give "
                    "it once"
                )
            static = in_order | static
            args = args[: self.arity]
        for name, value in static.items():
            if name not in self.statics or isinstance(value, Tensor):
                known = ", ".join(self.statics) or "none"
                raise TypeError(
                    f"{self.name}: {name!r} is not a static argument (those are: "
                    f"{known}); arrays and Tensors go by position"
                )
            if name in self.switches and value not in (False, True):
                raise TypeError(f"{self.name}: {name} is True or False, not {value!r}")
            if getattr(value, "shape", None) == ():
                # NumPy's scalars would widen float32, and 0-d arrays can change later
                static[name] = value.item()
        if self.variadic:
            if len(args) != 1 or not isinstance(args[0], (list, tuple)):
                raise TypeError(
                    f"{self.name}: the first argument is a list of arrays or "
                    f"Tensors: {self.name}([a, b], ...)"
                )
            return tuple(args[0]), static
        if len(args) < self.required:
            raise TypeError(
                f"{self.name}: takes {self.required} array arguments, got "
                f"{len(args)}; {self.hint or 'see its docstring'}"
            )
        return (*args, *[None] * (self.arity - len(args))), static

    def _statics_in_order(self, args: tuple) -> dict[str, Any]:
        """The static arguments that follow the arrays in order, by name."""
        values = args[self.arity :]
        if len(values) > len(self.statics):
            arrays = f"{self.arity} array argument{'s' * (self.arity != 1)}"
            takes = ", ".join([arrays, *self.statics])
            raise TypeError(
                f"{self.name}: takes {takes}; got {len(args)} positional arguments"
            )
        return dict(zip(self.statics, values, strict=False))

    def _unwrap(self, args: Iterable) -> tuple[ModuleType, np.dtype | None, list]:
        """The arrays in the arguments, their library and their dtype.

        There is one library and one dtype: TypeError if the arguments do not agree.
        Numbers (NumPy's scalars become Python's) and None pass, and have no say.
        Indices have no say in the dtype.
        """
        xp, dtype, known = np, None, None
        arrays = []
        for position, value in enumerate(args):
            if isinstance(value, Tensor):
                value = value._data
            elif isinstance(value, np.generic):
                value = value.item()  # a scalar of NumPy's would widen float32
            arrays.append(value)
            if type(value) is not known:
                if isinstance(value, _NOT_ARRAYS):
                    continue
                xp = self._namespace(xp if known else None, value, position)
                known = type(value)
            own = value.dtype
            if own is not dtype and position not in self.indices:
                dtype = self._agreed(dtype, own, position)
        return xp, dtype, arrays

    def _namespace(self, xp: ModuleType | None, array, position: int) -> ModuleType:
        """The library of one more array; TypeError unless it is `xp` (None: any)."""
        own = NAMESPACES.get(type(array))
        if own is None:
            try:
                own = namespace(array)
            except TypeError as error:
                raise TypeError(
                    f"{self.name}: argument {position}: {error}, a Tensor or a number"
                ) from None
        if xp is not None and own is not xp:
            raise TypeError(
                f"{self.name}: argument {position} is a {own.__name__} array among "
                f"{xp.__name__} ones; move it first"
            )
        return own

    def _agreed(self, dtype, own, position: int) -> np.dtype | None:
        """The dtype of a call, given that of its arrays so far and one more array's.

        They may be equal; the new one may be a mask; or one is complex and the other
        the dtype of its real part, since the complex step mixes float64 constants in.
        """
        if dtype is None and own.kind == "f":
            return own
        # dtype may be None, and NumPy takes `float64 == None` to be true
        if own.kind == "b" or (dtype is not None and own == dtype):
            return dtype
        if own.kind not in "fc":
            raise TypeError(
                f"{self.name}: argument {position} has dtype {own}; integers serve "
                "only as indices, convert with .astype"
            )
        if dtype is None:
            return own
        real, wide = sorted((dtype, own), key=lambda d: d.itemsize)
        kinds = real.kind + wide.kind
        if kinds == "fc" and wide.itemsize == 2 * real.itemsize:
            return wide
        raise TypeError(
            f"{self.name}: argument {position} has dtype {own}, the others {dtype}; "
            "convert one with .astype"
        )

    def _run(self, xp: ModuleType, dtype, arrays: list, static: dict) -> tuple:
        """(rules, out, saved): what the forward rule answers, and whose rule it is.

        TypeError if the rule has widened the dtype.
        """
        try:
            rules = self if xp is np else self.override(xp, arrays, static)
            out, saved = rules.forward(xp, *arrays, **static)
        except _WORDED as error:
            raise self._explained(error, arrays) from error
        own = out[0].dtype if isinstance(out, tuple) else out.dtype
        if own is not dtype and dtype is not None and own != dtype:
            reason = "some constant has a wider dtype"
            if dtype.kind == "c" and own.kind == "f":
                reason = "it is not analytic, so no complex step can differentiate it"
            elif not dtype.isnative:
                native = dtype.newbyteorder("=")
                reason = f"convert such foreign bytes with .astype(np.{native})"
            raise TypeError(
                f"{self.name}: {dtype} arguments gave a {own} result; {reason}"
            )
        return rules, out, saved

    def _explained(self, error: Exception, arrays: list) -> Exception:
        """The error again, saying which operation, on what, and what to do.

        An IndexError or ValueError stays one. All else becomes a TypeError: NumPy's own
        kinds cannot be made from a message alone.
        """
        kind: type[Exception] = TypeError
        if isinstance(error, IndexError):
            kind = IndexError
        elif isinstance(error, ValueError):
            kind = ValueError
        given = [
            f"{a.dtype}{list(a.shape)}" if hasattr(a, "shape") else repr(a)
            for a in arrays
        ]
        known = ";" in str(error)  # a rule's own words end in what to do
        hint = f"\n{self.hint}" if self.hint and not known else ""
        return kind(f"{self.name}({', '.join(given)}): {error}{hint}")


def _constant(out, mark):
    """A primitive's answer as a Tensor, or several, on no tape.

    `mark`: the thread's, if it has no tape.
    """
    if isinstance(out, tuple):
        return tuple([_constant(array, mark) for array in out])
    return Tensor(np.asarray(out) if isinstance(out, np.generic) else out, 0, mark)


@overload
def primitive(forward: Callable) -> Primitive: ...
@overload
def primitive(
    *, indices: Iterable[int] = (), hint: str = ""
) -> Callable[[Callable], Primitive]: ...
def primitive(forward=None, *, indices=(), hint=""):
    """Decorator: put a forward rule into the table. See `Primitive`."""
    if forward is None:
        return lambda f: Primitive(f, indices, hint)
    return Primitive(forward, indices, hint)


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: the gradient `g` summed down to `shape`.

    The sum runs over the axes that broadcasting from `shape` to g.shape has added, or
    has stretched from 1.
    """
    extra = g.ndim - len(shape)
    if extra > 0:
        g = g.sum(axis=tuple(range(extra)))
    stretched = tuple(
        [axis for axis, size in enumerate(shape) if size == 1 and g.shape[axis] != 1]
    )
    return g.sum(axis=stretched, keepdims=True) if stretched else g


# How many rows a value's products gather before they are computed. A product over this
# many is about as efficient as one over more, and memory stays bounded.
ENOUGH_ROWS = 256


class Product:
    """A gradient that is still to be computed: x^T g, of this `shape` and `dtype`.

    It belongs to a weight by which rows x (R, in) were multiplied; g (R, out) is the
    gradient of the result. If x is None, it is the sum of the rows of g: the gradient
    of a bias. Nobody may write into x or g any more.
    """

    __slots__ = ("dtype", "g", "shape", "x")

    def __init__(self, x: Array | None, g: Array):
        self.x, self.g = x, g
        self.shape, self.dtype = g.shape[1:], g.dtype
        if x is not None:
            self.shape = *x.shape[1:], *self.shape

    def computed(self, into: Array | None = None) -> Array:
        """The gradient itself, a new array; or added to the array `into`."""
        if self.x is None:
            return column_sums(self.g, into)
        return gemm(self.x.T, self.g, out=into, add=into is not None)


def _joined(products: list[Product]) -> Product:
    """The sum of several products as one, with the rows of all, which are copied."""
    if len(products) == 1:
        return products[0]
    join = namespace(products[0].g).concatenate
    x = None if products[0].x is None else join([p.x for p in products])
    return Product(x, join([p.g for p in products]))


def _miscounted(name: str, given: int, wanted: int) -> TypeError:
    return TypeError(
        f"vjp of {name}: it gives {given} gradients for {wanted} arguments; give one "
        "for each, None where it has none"
    )


def _fit(rules, position: int, shape, dtype, partial: Any) -> Any:
    """A rule's gradient for one argument, in that argument's own shape.

    TypeError if the rule is wrong.
    """
    if partial is None:
        raise TypeError(
            f"vjp of {rules.name}, argument {position}: the gradient is None, but is "
            "wanted; the rule is wrong"
        )
    if isinstance(partial, Product):
        partial = partial.computed()
    if partial.shape != shape:
        partial = unbroadcast(partial, shape)
    if partial.shape != shape or partial.dtype != dtype:
        got, want = f"{partial.dtype}{list(partial.shape)}", f"{dtype}{list(shape)}"
        raise TypeError(
            f"vjp of {rules.name}, argument {position}: the gradient is {got}, the "
            f"argument {want}; the rule is wrong"
        )
    return partial


class _Gradients:
    """Gradients on their way back, by the id of the value they belong to.

    Who owns which array? The first contribution is borrowed: the rule that gave it may
    have handed the same array to others (a + b gives both the same g). The second is
    added out of place, which makes a sum of our own. From the third on we add in place.
    Parameters add straight into their buffers (`sinks`), which are ours from the start.
    Gradients of the ids in `keep` are remembered in `kept` once they are complete.

    Products wait in `deferred`, by id, as (how many rows they have, the products). They
    are computed, as one, as soon as there are ENOUGH_ROWS, or when the gradient is
    asked for: for an inner value when its entry's turn comes, for a parameter at the
    end of backward.
    """

    def __init__(self, sinks: dict[int, Array], keep: Iterable[int] = ()):
        self.sinks, self.keep = sinks, set(keep)
        self.pending: dict[int, Array] = {}
        self.owned: set[int] = set()
        self.kept: dict[int, Array] = {}
        self.deferred: dict[int, tuple[int, list[Product]]] = {}

    def add(self, id: int, g: Array | Product) -> None:
        if isinstance(g, Product):
            self._defer(id, g)
            return
        total = self.pending.get(id)
        if total is None:
            if id in self.sinks:
                self.sinks[id] += g
            else:
                self.pending[id] = g
        elif id in self.owned:
            total += g
            self.pending[id] = total  # += replaces a NumPy scalar, a sum of 0-d arrays
        else:
            self.pending[id] = total + g
            self.owned.add(id)

    def total(self, xp: ModuleType, id: int, shape, dtype) -> Array:
        """The array of a value's gradient, for a rule to add to in place."""
        if id in self.sinks:
            return self.sinks[id]
        if id not in self.owned or id not in self.pending:
            total = xp.zeros(shape, dtype)
            if id in self.pending:
                total += self.pending[id]
            self.pending[id] = total
            self.owned.add(id)
        return self.pending[id]

    def _defer(self, id: int, product: Product) -> None:
        rows, products = self.deferred.get(id, (0, []))
        products.append(product)
        rows += len(product.g)
        self.deferred[id] = rows, products
        # on a GPU, joining is as much work as the products
        if rows >= ENOUGH_ROWS or kernels.compiles(namespace(product.g)):
            self.settle(id)

    def settle(self, id: int) -> None:
        """Compute what was deferred for one value, as one product, and add it."""
        product = _joined(self.deferred.pop(id)[1])
        if id in self.sinks:
            product.computed(into=self.sinks[id])
        else:
            self.add(id, product.computed())

    def settle_all(self) -> None:
        """`settle` for each value whose gradient somebody still wants."""
        for id in list(self.deferred):
            if id in self.sinks or id in self.keep:
                self.settle(id)

    def pop(self, id: int) -> Array | None:
        """The finished gradient of one value; None if the loss does not use it."""
        if id in self.deferred:
            self.settle(id)
        g = self.pending.pop(id, None)
        if id in self.keep and g is not None:
            self.kept[id] = g
        return g

    def collect(
        self, xp: ModuleType, outputs: list[Place], zeros: bool
    ) -> tuple[Array | None, ...] | None:
        """The finished gradients of several outputs, zeros or None for those not used.

        None if the loss uses none of them.
        """
        gradients = [self.pop(id) for id, _, _ in outputs]
        if all(g is None for g in gradients):
            return None
        if not zeros:
            return tuple(gradients)
        return tuple(
            [
                xp.zeros(shape, dtype) if g is None else g
                for g, (_, shape, dtype) in zip(gradients, outputs, strict=True)
            ]
        )


def _places_in(into: Array, parameters: list[Parameter]) -> dict[int, Array]:
    """The place of each Parameter's gradient in a flat array, by id.

    The array is laid out like the gradients of the optimizer that has all of them.
    """
    if not parameters:
        raise ValueError(
            "backward(into=...): the loss used no Parameter; make it from the model's"
        )
    home = parameters[0].buffer
    if home is None or any(p.buffer is not home for p in parameters):
        raise ValueError(
            "backward(into=...) needs parameters that live in one optimizer's flat "
            "buffer; one here does not, so give it to the optimizer too"
        )
    foreign = id(into) in _buffers and into is not home
    if foreign or into.shape != home.shape or into.dtype != home.dtype:
        owner = "another optimizer's buffer" if foreign else "the array"
        raise ValueError(
            f"backward(into=...): {owner}, {into.dtype}{list(into.shape)}, is not laid "
            f"out as {home.dtype}{list(home.shape)} of these parameters' optimizer"
        )
    starts = [(p, p.offset or 0) for p in parameters]
    return {p.id: into[k : k + p.size].reshape(p.shape) for p, k in starts}


_NOT_RECORDED = {  # the state of a tape that cannot be walked back -> what to do
    "new": "has recorded nothing; compute the loss inside `with Tape() as tape:`",
    "recording": "is still recording; leave the with-block first",
    "consumed": "is consumed; record again",
}


def _glimpse(array: np.ndarray) -> bytes:
    """Some 64 numbers of an array; the odd step does not stay in one column."""
    return array.flat[:: array.size // 64 | 1].tobytes()


_adding = threading.RLock()  # held by a backward into the Parameters' own gradients
_taken: set[int] = set()  # the ids of buffers that a backward adds into at the moment


@contextmanager
def _alone(into: Array | None) -> Iterator[None]:
    """Hold what backward adds into; two threads at once would lose what one adds.

    For the Parameters' own gradients a second thread waits. A buffer that is given is
    meant for one thread, so a second one that gives the same array gets an error. That
    another array shows the same memory goes unnoticed.
    """
    if into is None:
        with _adding:
            yield
        return
    if id(into) in _taken:
        raise RuntimeError(
            "backward(into=...): another thread is adding into this buffer; give each "
            "thread its own, and sum them afterwards"
        )
    _taken.add(id(into))
    try:
        yield
    finally:
        _taken.discard(id(into))


class Tape:
    """A recording of primitives in the order they ran.

    `backward` or `gradient` consumes it: a tape is used once. Each thread has its own
    active tape; opening a second one inside the first is an error.

    `tape.entries` is the graph, and you can print it. An entry is (rules, xp, inputs,
    outputs, saved, several):

        rules     the primitive, or the override whose `forward` ran in its place; what
                  it saved is for its own `rule`, so backward uses the same one
        inputs    (id, shape, dtype) of each argument, None for a constant
        outputs   the same for each result
        saved     what the forward rule returned for the vjp
        several   whether the primitive returned a tuple

    The tape holds arrays and numbers, never Tensors, so nothing forms a cycle and
    nothing is left for the garbage collector.

    It borrows what it needs for backward, and copies nothing but what you `watch`. So
    no array that you give it may change before backward. On NumPy most changes are
    noticed: the results' arrays are read-only, and of each Parameter, and each array
    that a rule has saved, backward compares some 64 numbers with those at the time of
    recording. They catch a buffer that you refill; a change of a few numbers in a large
    array may slip through, and on a GPU any change does, since looking would make the
    host wait.

    What is computed from Parameters on no tape is a constant for all tapes. If another
    thread computed it so, this thread's tape refuses it, unless you say with
    `.detach()` that you mean a constant.
    """

    def __init__(self) -> None:
        self.entries: list[tuple] = []
        self._parameters: dict[int, tuple[Parameter, int]] = {}  # with their versions
        # id -> (array, glimpse, whose): what must not change before backward
        self._borrowed: dict[int, tuple[np.ndarray, bytes, str]] = {}
        self._constants: list[np.ndarray] = []  # of the call that is being recorded
        self._ids = itertools.count(1)
        self._state = "new"

    __reduce__ = _refuse("cannot be copied or pickled; record again")

    def __enter__(self) -> Tape:
        if _local.tape is not None:
            raise RuntimeError(
                "a Tape is already recording in this thread; close it first (one "
                "tape per thread)"
            )
        if self._state != "new":
            raise RuntimeError(
                "this Tape was already used; make a new one for each recording"
            )
        _local.tape, self._state = self, "recording"
        return self

    def __exit__(self, *_: object) -> None:
        _local.tape, self._state = None, "recorded"

    def watch(self, array: Array) -> Tensor:
        """A leaf, so that you can ask `gradient` for an input.

        `array` is floating point, and is copied.
        """
        xp = namespace(array)
        if array.dtype.kind not in "fc":
            raise TypeError(
                f"watch needs a floating-point array, not {array.dtype}; convert "
                "with .astype"
            )
        return Tensor(_locked(xp, array.copy()), next(self._ids), self)

    def _find(self, args: Iterable, primitive: Primitive) -> list[Place | None] | None:
        """The places of a call's arguments, None for each constant.

        None if all are constants: then there is nothing to record.
        """
        places: list[Place | None] = []
        constants: list[np.ndarray] = []
        tracked = False
        for value in args:
            if isinstance(value, Tensor) and value.id:
                id = value.id if value.tape is self else self._place(value, primitive)
                array = value._data
                places.append((id, array.shape, array.dtype))
                tracked = True
                continue
            places.append(None)
            if isinstance(value, Tensor):
                if value.tape is not None and value.tape is not _local.mark:
                    raise RuntimeError(
                        f"{primitive.name}: an argument was computed in another "
                        "thread, which has no part in this Tape; write .detach() if "
                        "you mean a constant, or open the Tape in that thread"
                    )
                value = value._data
            if type(value) is np.ndarray:
                constants.append(value)
        self._constants = constants
        return places if tracked else None

    def _place(self, tensor: Tensor, primitive: Primitive) -> int:
        """The id under which this tape knows `tensor`.

        Takes note of a Parameter; refuses Tensors of other tapes.
        """
        id = tensor.id
        if isinstance(tensor, Parameter):
            if id not in self._parameters:
                self._parameters[id] = (tensor, tensor.version)
                self._borrow(tensor._data, "Parameter")
        elif tensor.tape is not self:
            raise RuntimeError(
                f"{primitive.name}: an argument was made on another Tape; cut it "
                "loose with .detach() to use it as a constant"
            )
        return id

    def _record(self, rules, xp: ModuleType, inputs: list, out, saved: tuple) -> Any:
        """Append one entry: this is all the recording there is.

        Returns what came out as a Tensor, or several, of this tape.
        """
        several = isinstance(out, tuple)
        tensors, places = [], []
        for array in out if several else (out,):
            if isinstance(array, np.generic):  # from a reduction
                array = np.asarray(array)
            id = next(self._ids)
            tensors.append(Tensor(_locked(xp, array), id, self))
            places.append((id, array.shape, array.dtype))
        self.entries.append((rules, xp, inputs, places, saved, several))
        for array in self._constants:
            if any(array is kept for kept in saved):
                self._borrow(array, rules.name)
        return tuple(tensors) if several else tensors[0]

    def _borrow(self, array: Array, whose: str) -> None:
        """Remember what the array holds, so that backward can see if it changed."""
        if type(array) is np.ndarray and id(array) not in self._borrowed:
            self._borrowed[id(array)] = array, _glimpse(array), whose

    def backward(self, loss: Tensor, into: Array | None = None) -> None:
        """Add d loss / d parameter into every Parameter on the tape.

        Each gradient goes into the parameter's own `grad`, or into its place in the
        flat buffer `into`. `loss` is a scalar (shape ()) recorded on this tape.
        Gradients accumulate: clear them with `optimizer.zero_grad()` or
        `parameter.grad[...] = 0`.
        """
        self._check(loss)
        parameters = [parameter for parameter, _ in self._parameters.values()]
        with _alone(into):
            if into is None:
                sinks = {p.id: p.grad for p in parameters}
            else:
                sinks = _places_in(into, parameters)
            self._walk(loss, _Gradients(sinks))

    def gradient(self, loss: Tensor, wrt, strict: bool = True) -> Any:
        """d loss / d wrt, as new arrays that the caller owns.

        `wrt` is one Tensor or Parameter, or a list of them; they may be parameters,
        watched inputs or any intermediate result. The answer is one array, or a list.
        KeyError names the first that the loss does not depend on; with strict=False
        that one gets zeros.
        """
        several = isinstance(wrt, (list, tuple))
        wanted = list(wrt) if several else [wrt]
        if not all(isinstance(t, Tensor) for t in wanted):
            raise TypeError(
                "gradient is taken with respect to Parameters and Tensors; write x = "
                "tape.watch(array) and use x"
            )
        self._check(loss)
        gradients = _Gradients({}, keep=[t.id for t in wanted])
        self._walk(loss, gradients)
        for t in wanted:
            gradients.pop(t.id)  # a leaf: no entry has collected its gradient
        results = []
        for position, t in enumerate(wanted):
            xp = namespace(t.data)
            if t.id in gradients.kept and (t.id < 0 or t.tape is self):
                results.append(xp.array(gradients.kept[t.id]))
            elif strict:
                raise KeyError(
                    f"the loss does not depend on wrt[{position}] "
                    f"({type(t).__name__} of shape {t.shape}); pass strict=False for "
                    "zeros"
                )
            else:
                results.append(xp.zeros_like(t.data))
        return results if several else results[0]

    def _walk(self, loss: Tensor, gradients: _Gradients) -> None:
        """Pop every entry, newest first.

        Each passes the gradients of its outputs on to its inputs.
        """
        self._state = "consumed"
        self._borrowed.clear()  # from here on only the entries hold arrays
        self._constants.clear()
        gradients.add(loss.id, namespace(loss.data).ones((), loss.dtype))
        while self.entries:
            rules, xp, inputs, outputs, saved, several = self.entries.pop()
            in_place = getattr(rules, "in_place", False)
            if several:
                g = gradients.collect(xp, outputs, zeros=not in_place)
            else:
                g = gradients.pop(outputs[0][0])
            if g is None:  # the loss does not depend on this entry
                continue
            if in_place:
                totals = [place and gradients.total(xp, *place) for place in inputs]
                rules.rule(xp, totals, g, *saved)
                continue
            partials = rules.rule(xp, inputs, g, *saved)  # inputs say what is needed
            if not isinstance(partials, tuple):
                partials = (partials,)
            if len(partials) != len(inputs):
                raise _miscounted(rules.name, len(partials), len(inputs))
            for position, (place, partial) in enumerate(
                zip(inputs, partials, strict=True)
            ):
                if place is not None:
                    id, shape, dtype = place
                    if (
                        partial is None
                        or partial.shape != shape
                        or partial.dtype is not dtype
                    ):
                        partial = _fit(rules, position, shape, dtype, partial)
                    gradients.add(id, partial)
        gradients.settle_all()

    def _check(self, loss: Tensor) -> None:
        if self._state != "recorded":
            raise RuntimeError(f"this Tape {_NOT_RECORDED[self._state]}")
        if not isinstance(loss, Tensor) or not (
            loss.id in self._parameters or (loss.id and loss.tape is self)
        ):
            raise RuntimeError(
                "the loss does not depend on anything recorded on this Tape; compute "
                "it inside `with Tape() as tape:`"
            )
        if loss.shape != ():
            raise ValueError(
                f"backward needs a scalar loss, not shape {loss.shape}; reduce it "
                "with primitives.sum or mean"
            )
        for parameter, version in self._parameters.values():
            if parameter.version != version:
                raise RuntimeError(
                    f"a Parameter of shape {parameter.shape} was changed after it "
                    "was recorded; call backward before the update"
                )
        for array, glimpse, whose in self._borrowed.values():
            if _glimpse(array) != glimpse:
                raise RuntimeError(
                    f"{whose}: an array {array.dtype}{list(array.shape)} was changed "
                    "after it was recorded; fill another one, or call backward first"
                )
