"""Reverse-mode automatic differentiation on a linear tape. It knows no mathematics.

While a `Tape` is open, every operation that touches something tracked appends one entry
to a list: its rule, what went in, what came out, and what the rule wants to remember.
Nothing can be used before it is made, so if you walk the list backwards, you meet every
value after all of its uses. There is no graph, no search and no recursion:

    gradients = {loss: 1}
    for rule, inputs, output, saved in reversed(entries):
        g = gradients[output]
        for value, partial in zip(inputs, rule(g, *saved)):
            gradients[value] = gradients.get(value, 0) + partial

`Tape._walk` is this loop. `calls.py` binds the arguments of an operation,
`gradients.py` adds up, and `guards.py` has the refusals.

    with Tape() as tape:                       # the only switch that records
        loss = primitives.sum(x @ weight)      # `weight` is a Parameter
    tape.backward(loss)                        # adds d loss / d weight into weight.grad
"""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np

from ..backend import Array, namespace, readonly
from . import calls, guards
from .gradients import Gradients, Place, fitted

TABLE: dict[str, Primitive] = {}  # every primitive by name


class _Local(threading.local):
    tape: Tape | None = None  # the tape recording in this thread

    def __init__(self) -> None:
        self.mark = object()  # marks each Tensor made in this thread on no tape


_local = _Local()


class Tape:
    """A recording of primitives in the order they ran; `backward` uses it up.

    `tape.entries` has them: (rules, xp, inputs, outputs, saved, several) are the
    primitive, or what ran in its place; the array library; (id, shape, dtype) of each
    argument, None for a constant; the same for each result; what the vjp will want; and
    whether there are several results. No array in it may change before backward, which
    sees most changes, not all. Each thread has its own tape; all else is a constant.
    """

    def __init__(self) -> None:
        self.entries: list[tuple] = []
        self._parameters: dict[int, tuple[Parameter, int]] = {}  # with their versions
        self._borrowed: dict[int, tuple] = {}  # what must not change: `guards.borrow`
        self._ids = itertools.count(1)
        self._state = "new"

    __reduce__ = guards.refusing("a Tape cannot be copied or pickled; record again")

    def __enter__(self) -> Tape:
        guards.check_opening(self, _local.tape)
        _local.tape = self
        self._state = "recording"
        return self

    def __exit__(self, *_: object) -> None:
        _local.tape, self._state = None, "recorded"

    def watch(self, array: Array) -> Tensor:
        """A copy of a floating-point array as a leaf, to ask `gradient` for it."""
        array = guards.floating("watch", array)
        return Tensor(readonly(namespace(array), array), next(self._ids), self)

    def _record(self, rules, xp, args, arrays, results, saved, several) -> list:
        """Append one entry, if an argument is tracked; the results as Tensors."""
        inputs: list[Place | None] = []
        for value, array in zip(args, arrays, strict=True):
            place = None
            if isinstance(value, Tensor):
                if isinstance(value, Parameter):
                    if value.id not in self._parameters:
                        self._parameters[value.id] = value, value.version
                        guards.borrow(self._borrowed, array, "Parameter")
                elif value.tape is not self and value.tape not in (None, _local.mark):
                    raise guards.foreign(rules.name, value)
                if value.id:
                    place = value.id, array.shape, array.dtype
            inputs.append(place)
        if not any(inputs):
            return [Tensor(array) for array in results]
        tensors, outputs = [], []
        for array in results:
            id = next(self._ids)
            tensors.append(Tensor(readonly(xp, array), id, self))
            outputs.append((id, array.shape, array.dtype))
        self.entries.append((rules, xp, inputs, outputs, saved, several))
        for place, array in zip(inputs, arrays, strict=True):
            if place is None and any(array is kept for kept in saved):
                guards.borrow(self._borrowed, array, rules.name)
        return tensors

    @np.errstate(under="ignore")  # a gradient too small for its dtype is 0
    def backward(self, loss: Tensor, into: dict[int, Array] | None = None) -> None:
        """Add d loss / d parameter, of a scalar, into every Parameter on the tape.

        It goes into the parameter's own `grad`, or into the array that `into` has for
        its id, such as `optimizer.views(buffer)`. Clear it with `zero_grad`.
        """
        guards.check_backward(self, loss)
        parameters = [parameter for parameter, _ in self._parameters.values()]
        with guards.alone(into, parameters):
            sinks = {p.id: p.grad for p in parameters} if into is None else into
            gradients = Gradients(sinks)
            self._walk(loss, gradients)
            for id in [id for id in gradients.deferred if id in sinks]:
                gradients.flush(id)
        for p in parameters:
            p.reached |= p.id in gradients.reached

    @np.errstate(under="ignore")
    def gradient(self, loss: Tensor, wrt, strict: bool = True) -> Any:
        """d loss / d wrt, as new arrays: one, or a list for a list of Tensors. KeyError
        names the first that the loss does not use; strict=False gives zeros.
        """
        wanted = list(wrt) if isinstance(wrt, (list, tuple)) else [wrt]
        if not all(isinstance(t, Tensor) for t in wanted):
            raise TypeError("gradient takes Tensors; use x = tape.watch(array)")
        guards.check_backward(self, loss, strict)
        gradients = Gradients({}, keep=[t.id for t in wanted])
        results = []
        self._walk(loss, gradients)
        for position, t in enumerate(wanted):
            xp = namespace(t.data)
            ours = t.id < 0 or t.tape is self
            g = gradients.pop(t.id) if ours else None
            if g is None and strict:
                raise KeyError(f"the loss does not use wrt[{position}]; see strict")
            results.append(
                xp.zeros(t.shape, t.dtype) if g is None else xp.array(g, order="C")
            )
        return results if isinstance(wrt, (list, tuple)) else results[0]

    def _walk(self, loss: Tensor, gradients: Gradients) -> None:
        """Pop every entry, newest first: its outputs' gradients go to its inputs."""
        guards.consume(self)
        self._borrowed.clear()  # from here on only the entries hold arrays
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
            if not isinstance(partials, (tuple, list)):
                partials = (partials,)
            if len(partials) != len(inputs):
                raise guards.miscounted(rules.name, len(partials), len(inputs))
            for position, place in enumerate(inputs):
                if place is not None:
                    id, shape, dtype = place
                    g = partials[position]
                    if getattr(g, "shape", None) != shape or g.dtype is not dtype:
                        g = fitted(rules, position, place, g)
                    gradients.add(id, g)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Inside the block, this thread's tape records nothing."""
    before = _local.tape
    _local.tape = None
    try:
        yield
    finally:
        if before is not None and before._state == "recording":  # not closed since
            _local.tape = before


def is_recording() -> bool:
    """Whether a tape records in this thread."""
    return _local.tape is not None


def _operators(name: str) -> Any:
    """The two methods that call a primitive by its name: a + b, and b + a."""
    return (
        lambda self, other: TABLE[name](self, other),
        lambda self, other: TABLE[name](other, self),
    )


@guards.unlike_an_array
class Tensor:
    """An array and its place on a tape. Immutable.

    `data` is the array, `id` its name on `tape` (0: a constant, as `Tensor(array)` is).
    There are no methods of mathematics: write `primitives.sum(x)`, as `np.sum(x)` in
    NumPy. `item()`, float(t) and f"{t:.3f}" are for one number, such as a loss.
    """

    __slots__ = ("_data", "id", "tape")
    __array_ufunc__ = guards.Ufuncs()  # array + tensor is tensor.__radd__(array)
    __array_function__ = guards.no_function_of_numpy
    __getattr__ = guards.no_attribute  # called only for names that are not there

    def __init__(self, data: Array, id: int = 0, tape: Any = None):
        self._data = data
        self.id = id
        self.tape = tape

    data = property(attrgetter("_data"))
    shape = property(attrgetter("_data.shape"))
    dtype = property(attrgetter("_data.dtype"))
    ndim = property(attrgetter("_data.ndim"))
    size = property(attrgetter("_data.size"))

    def detach(self) -> Tensor:
        """The same array as a constant: nothing flows back through it."""
        return Tensor(self._data)

    def item(self) -> Any:
        """The one number that it holds, as Python's own. Waits for a GPU (syncs)."""
        return guards.number(self)

    def __float__(self) -> float:
        return float(self.item())

    __format__ = guards.formatted

    def __reduce__(self):  # a copied constant belongs to no thread
        return type(self), (self._data, *((self.id, self.tape) if self.id else ()))

    __repr__ = guards.shown
    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("subtract")
    __mul__, __rmul__ = _operators("multiply")
    __truediv__, __rtruediv__ = _operators("divide")
    __matmul__, __rmatmul__ = _operators("matmul")
    __pow__, __rpow__ = _operators("power")

    def __neg__(self) -> Tensor:
        return TABLE["negative"](self)

    def __getitem__(self, key) -> Tensor:
        return TABLE["getitem"](self, key=key if isinstance(key, tuple) else (key,))


class Parameter(Tensor):
    """A trainable array, with a buffer `grad` into which `tape.backward` adds.

    `Parameter(array)` copies. Assigning to `data` and `grad` copies into the memory
    that is there, which may be part of an optimizer's flat buffer.
    """

    __slots__ = ("_grad", "reached", "version")
    _ids = itertools.count(-1, -1)  # on every tape, so permanent: -1, -2, ...

    def __init__(self, data: Array):
        data = guards.floating("Parameter", data)
        super().__init__(data, next(Parameter._ids))
        self._grad = namespace(data).zeros_like(data)
        self.version = 0  # how often the values have changed
        self.reached = False  # whether a loss has depended on it

    def bind(self, data: Array, grad: Array) -> None:
        """Live in these arrays from now on."""
        self._data, self._grad = data, grad

    def __reduce__(self):  # how copy and pickle make another one
        return type(self), (self._data,)

    @Tensor.data.setter
    def data(self, value: Array) -> None:
        guards.check_fits("data", value, self._data)
        self._data[...] = value
        self.version += 1  # a tape recorded before this can no longer be walked back

    def _fill_grad(self, value: Array) -> None:
        guards.check_fits("grad", value, self._grad)
        self._grad[...] = value

    grad = property(attrgetter("_grad"), _fill_grad)


class Primitive:
    """One differentiable operation: a forward rule and its vector-Jacobian product.

    `forward(xp, *arrays, **static) -> (out, saved)`: an array, or a tuple of them, and
    a tuple of what the vjp will want. Static arguments are keyword-only.

    `vjp(xp, needs, g, *saved)` -> a gradient for each array argument, or None where
    `needs[i]` is None: nobody asks. `g` is a tuple where `out` is one, zeros for what
    is not used. Never write into `g`: other arguments may share it. A gradient may have
    the broadcast shape, or be a `DeferredMatmul`. A `vjp_in_place` adds to `needs[i]`;
    there what is not used is None in `g`.

    indices: positions of integer or mask arguments; hint: what to do about bad shapes.
    """

    in_place = False  # whether the rule adds its gradients itself

    def __init__(self, forward: Callable, indices: Iterable[int] = (), hint: str = ""):
        _, *signature = inspect.signature(forward).parameters.values()  # all but xp
        arrays = [p for p in signature if p.kind is not p.KEYWORD_ONLY]
        statics = [p for p in signature if p.kind is p.KEYWORD_ONLY]
        self.arity = len(arrays)
        self.required = len([p for p in arrays if p.default is p.empty])
        self.variadic = any(p.kind is p.VAR_POSITIONAL for p in arrays)  # takes a list
        self.statics = [p.name for p in statics]
        self.switches = {p.name for p in statics if isinstance(p.default, bool)}
        self.forward, self.indices, self.hint = forward, frozenset(indices), hint
        self.name = self.__name__ = forward.__name__
        self.__signature__ = calls.signature(arrays, statics)
        self.__doc__ = f"{self.name}{self.__signature__}\n\n{forward.__doc__}"
        self.__module__ = forward.__module__
        self.rule: Callable[..., Any] = guards.refusing(
            f"{self.name} has no derivative; give it one with @{self.name}.vjp"
        )
        if TABLE.setdefault(self.name, self).__module__ != self.__module__:
            raise ValueError(f"{self.name} is a primitive of Tensors; rename yours")
        TABLE[self.name] = self

    def vjp(self, rule: Callable) -> Callable:
        """Decorator that gives this primitive its vector-Jacobian product."""
        self.rule = rule
        return rule

    def vjp_in_place(self, rule: Callable) -> Callable:
        """The same for a rule that adds its gradients in place."""
        self.in_place = True
        return self.vjp(rule)

    def __reduce__(self) -> str:  # where copy and pickle find it again
        return self.name

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __call__(self, *args: Any, **static: Any) -> Any:
        """A Tensor, or several: computed, and recorded if a tape is open."""
        if static or self.variadic or len(args) != self.arity:
            args, static = calls.bind(self, args, static)
        arrays = [a._data if isinstance(a, Tensor) else a for a in args]
        xp, dtype = calls.common(self, arrays)
        rules, out, saved = self._run(xp, dtype, arrays, static)
        several = isinstance(out, tuple)
        tape = _local.tape
        results = [*out] if several else [out]
        for k, array in enumerate(results):
            if isinstance(array, np.generic):  # from a reduction
                results[k] = np.asarray(array)
        if tape is None:
            tensors = [Tensor(array, 0, _local.mark) for array in results]
        else:
            tensors = tape._record(rules, xp, args, arrays, results, saved, several)
        return tuple(tensors) if several else tensors[0]

    def override(self, xp: ModuleType, arrays: list, static: dict) -> Any:
        """Whose `forward` and `rule` serve this call: see `Fused`."""
        return self

    def _run(self, xp: ModuleType, dtype, arrays: list, static: dict) -> tuple:
        """(rules, out, saved): what the forward rule answers, and whose rule it is."""
        try:
            rules = self.override(xp, arrays, static)
            out, saved = rules.forward(xp, *arrays, **static)
        except calls.WORDED as error:
            rules, out, saved = calls.again(self, error, xp, arrays, static)
        if type(saved) is not tuple:
            raise TypeError(f"{self.name}: write return out, (x,) or (), not {saved!r}")
        own = out[0].dtype if isinstance(out, tuple) else out.dtype
        if own is not dtype and dtype is not None and own != dtype:
            raise calls.widened(self.name, dtype, own)
        return rules, out, saved


def primitive(forward=None, *, indices: Iterable[int] = (), hint: str = "") -> Any:
    """Decorator: put a forward rule into the table. See `Primitive`."""
    if forward is None:
        return lambda forward: Primitive(forward, indices, hint)
    return Primitive(forward, indices, hint)
