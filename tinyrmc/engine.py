"""Reverse-mode automatic differentiation on a linear tape.

This module knows no mathematics.

The whole idea: while a `Tape` is open, every primitive that touches something tracked
appends one entry to a list: which rule to use, which values went in, which came out,
and what the rule wants to remember. Nothing can be used before it was made, so the list
is already in topological order, and walking it backwards meets every value only after
all of its uses. Backward is therefore a `pop` in a loop: no graph, no search, no
recursion, and each entry's memory is free the moment it has been used.

    with Tape() as tape:                       # the only switch that records
        loss = primitives.sum(x @ weight)      # `weight` is a Parameter
    tape.backward(loss)                        # adds d loss / d weight into weight.grad

Three rules keep it honest. Gradients are never written into while somebody else may
hold them (`_Gradients`). Broadcasting is undone in one place (`unbroadcast`). Every
dtype is checked: a float32 program that would turn into float64 stops and says where.
"""

from __future__ import annotations

import inspect
import itertools
import threading

import numpy as np

from .backend import NAMESPACES, namespace, to_host

_NUMBERS = (bool, int, float, complex)
_parameter_ids = itertools.count(
    -1, -1
)  # parameters live on every tape, so their ids are permanent and negative


class _Local(threading.local):
    tape = None  # the tape recording in this thread


_local = _Local()


class Tensor:
    """An array and its place on a tape.

    Immutable; made by primitives, by `tape.watch`, or as a constant by `Tensor(array)`.

    `data` is the array, `id` names it on `tape` (0: a constant). There are no methods:
    write `primitives.sum(x)`, as in NumPy `np.sum(x)`.
    """

    __slots__ = ("data", "id", "tape")
    __array_ufunc__ = None  # ndarray + Tensor asks the Tensor
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __init__(self, data, id=0, tape=None):
        self.data, self.id, self.tape = data, id, tape

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: self.data.dtype)
    ndim = property(lambda self: self.data.ndim)
    size = property(lambda self: self.data.size)

    def detach(self) -> Tensor:
        """The same array as a constant: nothing flows back through it."""
        return Tensor(self.data)

    def __getattr__(self, name):  # reached only by names that are not there
        remedy = (
            f"write primitives.{name}(t)"
            if name in TABLE
            else "it has data, shape, dtype, ndim, size and detach()"
        )
        raise AttributeError(f"{type(self).__name__} has no {name!r}; {remedy}")

    def __repr__(self):
        values = np.array2string(
            to_host(self.data),
            precision=4,
            threshold=50,
            edgeitems=2,
            separator=", ",
            prefix="Tensor(",
        )
        place = f", id={self.id}" if self.id else ""
        return (
            f"{type(self).__name__}({values}, shape={self.shape}, "
            f"dtype={self.dtype}{place})"
        )

    def __add__(self, other):
        return TABLE["add"](self, other)

    def __radd__(self, other):
        return TABLE["add"](other, self)

    def __sub__(self, other):
        return TABLE["subtract"](self, other)

    def __rsub__(self, other):
        return TABLE["subtract"](other, self)

    def __mul__(self, other):
        return TABLE["multiply"](self, other)

    def __rmul__(self, other):
        return TABLE["multiply"](other, self)

    def __truediv__(self, other):
        return TABLE["divide"](self, other)

    def __rtruediv__(self, other):
        return TABLE["divide"](other, self)

    def __matmul__(self, other):
        return TABLE["matmul"](self, other)

    def __rmatmul__(self, other):
        return TABLE["matmul"](other, self)

    def __neg__(self):
        return TABLE["negative"](self)

    def __getitem__(self, key):
        return TABLE["getitem"](self, key=key)

    def _refuse(message):
        def method(self, *_, **__):
            raise TypeError(f"{type(self).__name__} {message}")

        return method

    __bool__ = __float__ = __int__ = __index__ = _refuse(
        "has no truth or number value; read it on purpose: float(t.data) (waits for "
        "a GPU)"
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
    del _refuse


class Parameter(Tensor):
    """A trainable array with a gradient buffer `grad` of its own, zero at first, into
    which `tape.backward` adds.

    `Parameter(array)` copies, and stays where the array is, on the host or on a GPU.
    `parameter.data = array` copies into the existing memory, which may be a view of an
    optimizer's flat buffer, so shape and dtype must agree (ValueError, TypeError).
    """

    __slots__ = ("_data", "grad", "offset", "version")

    def __init__(self, data):
        try:
            xp = namespace(data)
        except TypeError:  # a list, a number
            xp = np
        data = xp.array(data)
        if data.dtype.kind not in "fc":
            raise TypeError(
                f"Parameter needs floating-point values, not {data.dtype}; write "
                "Parameter(np.asarray(x, np.float32))"
            )
        self.id, self.tape, self.version = next(_parameter_ids), None, 0
        self.bind(data, xp.zeros_like(data))

    def bind(self, data, grad, offset=None):
        """Live in these arrays from now on; `offset` is the first element's place in a
        flat buffer, if they are views of one.
        """
        self._data, self.grad, self.offset = data, grad, offset

    def __deepcopy__(self, memo):
        return Parameter(self._data)

    @property
    def data(self):
        return self._data

    @data.setter
    def data(self, value):
        if value.shape != self._data.shape:
            raise ValueError(
                f"Parameter of shape {self._data.shape} cannot take an array of "
                f"shape {value.shape}; reshape it first"
            )
        if value.dtype != self._data.dtype:
            raise TypeError(
                f"Parameter of dtype {self._data.dtype} cannot take {value.dtype}; "
                f"convert with .astype({self._data.dtype})"
            )
        self._data[...] = value
        self.version += (
            1  # a tape recorded before this change can no longer be differentiated
        )


TABLE: dict[str, Primitive] = {}  # every primitive by name


class Primitive:
    """One differentiable operation: a forward rule and its vector-Jacobian product
    (vjp).

    `forward(xp, *arrays, **static) -> (out, saved)`: out is an array, or a tuple of
    arrays; saved is the tuple that the vjp will want. `vjp(xp, needs, g, *saved)` ->
    one gradient (or None) per array argument. `needs[i]` is None where nobody asks; g
    is a tuple where out is one, with zeros for outputs that were not used. A gradient
    may have the broadcast shape: the tape sums it back.

    The public call takes arrays, Tensors and Python numbers, then the static arguments
    by name or in order, and returns Tensors. `indices`: positions of integer or mask
    arguments, which have no gradient and no say in the dtype. `hint`: what to do about
    bad shapes.
    """

    def __init__(self, forward, indices=(), hint=""):
        signature = list(inspect.signature(forward).parameters.values())[1:]
        arrays = [p for p in signature if p.kind is not p.KEYWORD_ONLY]
        self.variadic = any(
            p.kind is p.VAR_POSITIONAL for p in arrays
        )  # concatenate([a, b, ...])
        self.arity, self.required = (
            len(arrays),
            len([p for p in arrays if p.default is p.empty]),
        )
        self.statics = [p.name for p in signature if p.kind is p.KEYWORD_ONLY]
        self.forward, self.rule, self.indices, self.hint = (
            forward,
            None,
            frozenset(indices),
            hint,
        )
        self.name = self.__name__ = forward.__name__
        self.__doc__, self.__module__ = forward.__doc__, forward.__module__
        TABLE[self.name] = self

    def vjp(self, rule):
        """Decorator that gives this primitive its vector-Jacobian product."""
        self.rule = rule
        return self

    def __repr__(self):
        return f"<primitive {self.name}>"

    def __call__(self, *args, **static):
        if static or self.variadic or len(args) != self.arity:
            args, static = self._bind(args, static)
        tape, xp, dtype, known = _local.tape, np, None, None
        arrays, inputs, tracked = [], [], False
        for position, value in enumerate(args):
            node = 0
            if isinstance(value, Tensor):
                if value.id and tape is not None:
                    node, tracked = (
                        value.id if value.tape is tape else tape._place(value, self),
                        True,
                    )
                value = value.data
            elif isinstance(value, np.generic):
                value = (
                    value.item()
                )  # NumPy's scalars would widen a float32 program; Python's do not
            if type(value) is not known:
                if value is None or isinstance(value, _NUMBERS):
                    arrays.append(value)
                    inputs.append(None)
                    continue
                if known or (mine := NAMESPACES.get(type(value))) is None:
                    mine = self._namespace(xp if known else None, value, position)
                xp, known = mine, type(value)
            new = value.dtype
            if new is not dtype and position not in self.indices:
                dtype = (
                    new
                    if dtype is None and new.kind == "f"
                    else self._agree(dtype, new, position)
                )
            arrays.append(value)
            inputs.append((node, value.shape, new) if node else None)
        try:
            rules = self if xp is np else self.override(xp, arrays, static)
            out, saved = rules.forward(xp, *arrays, **static)
        except (ValueError, TypeError, IndexError, AttributeError) as error:
            raise self._explain(error, arrays) from error
        several = isinstance(out, tuple)
        outputs = out if several else (out,)
        first = outputs[0].dtype
        if first is not dtype and dtype is not None and first != dtype:
            raise TypeError(
                f"{self.name}: {dtype} arguments gave a {first} result; some "
                "constant has a wider dtype"
            )
        results, places = [], []
        for o in outputs:
            if isinstance(o, np.generic):
                o = np.asarray(o)
            if tracked:
                id = next(tape._ids)
                places.append((id, o.shape, o.dtype))
                results.append(Tensor(o, id, tape))
            else:
                results.append(Tensor(o))
        if tracked:
            tape.entries.append((rules, xp, inputs, places, saved, several))
        return tuple(results) if several else results[0]

    def override(self, xp, arrays, static):
        """Whose `forward` and `rule` serve this call on arrays that are not NumPy's:
        another's that has them, or our own.
        """
        return self

    def _bind(self, args, static):
        """Split a call into array arguments and static ones, NumPy's way."""
        if len(args) > self.arity:
            if len(args) > self.arity + len(self.statics):
                takes = ", ".join(
                    [
                        f"{self.arity} array argument{'s' * (self.arity != 1)}",
                        *self.statics,
                    ]
                )
                raise TypeError(
                    f"{self.name}: takes {takes}; got {len(args)} positional arguments"
                )
            static = {
                **dict(zip(self.statics, args[self.arity :], strict=False)),
                **static,
            }
            args = args[: self.arity]
        for name, value in static.items():
            if name not in self.statics or isinstance(value, Tensor):
                known = ", ".join(self.statics) or "none"
                raise TypeError(
                    f"{self.name}: {name!r} is not a static argument (those are: "
                    f"{known}); arrays and Tensors go by position"
                )
        if self.variadic:
            if len(args) != 1 or not isinstance(args[0], (list, tuple)):
                raise TypeError(
                    f"{self.name}: the first argument is a list of arrays or "
                    f"Tensors: {self.name}([a, b], ...)"
                )
            return args[0], static
        if len(args) < self.required:
            raise TypeError(
                f"{self.name}: takes {self.required} array arguments, got "
                f"{len(args)}; {self.hint or 'see its docstring'}"
            )
        return (*args, *[None] * (self.arity - len(args))), static

    def _namespace(self, xp, value, position):
        try:
            mine = namespace(value)
        except TypeError as error:
            raise TypeError(f"{self.name}: argument {position}: {error}") from None
        if xp is not None and mine is not xp:
            raise TypeError(
                f"{self.name}: argument {position} is a {mine.__name__} array among "
                f"{xp.__name__} ones; move it first"
            )
        return mine

    def _agree(self, dtype, new, position):
        """The dtype of a call so far, and of one more array: equal floats, masks, or a
        complex number with its own real part's dtype.
        """
        if new.kind == "b" or (
            dtype is not None and new == dtype
        ):  # NumPy holds float64 == None to be true
            return dtype
        if new.kind not in "fc":
            raise TypeError(
                f"{self.name}: argument {position} has dtype {new}; integers serve "
                "only as indices, convert with .astype"
            )
        if dtype is None:
            return new
        real, wide = sorted((dtype, new), key=lambda d: d.itemsize)
        if (
            (real.kind, wide.kind) == ("f", "c") and wide.itemsize == 2 * real.itemsize
        ):  # the complex step mixes float64 constants in
            return wide
        raise TypeError(
            f"{self.name}: argument {position} has dtype {new}, the others {dtype}; "
            "convert one with .astype"
        )

    def _explain(self, error, arrays):
        """The same kind of error (a TypeError, if not one of an index or a value),
        saying which operation, on what, and what to do.
        """
        seen = ", ".join(
            f"{a.dtype}{list(a.shape)}" if hasattr(a, "shape") else repr(a)
            for a in arrays
        )
        kind = next(
            (kind for kind in (IndexError, ValueError) if isinstance(error, kind)),
            TypeError,
        )  # NumPy's own kinds take other arguments
        return kind(
            f"{self.name}({seen}): {error}" + (f"\n{self.hint}" if self.hint else "")
        )


def primitive(forward=None, *, indices=(), hint=""):
    """Decorator: put a forward rule into the table. See `Primitive`."""
    return (
        Primitive(forward, indices, hint)
        if forward
        else lambda f: Primitive(f, indices, hint)
    )


def unbroadcast(g, shape):
    """Undo broadcasting: sum gradient `g` over the axes that broadcasting to g.shape
    added to `shape` or stretched from 1.
    """
    extra = g.ndim - len(shape)
    if extra > 0:
        g = g.sum(axis=tuple(range(extra)))
    stretched = tuple(
        [axis for axis, size in enumerate(shape) if size == 1 and g.shape[axis] != 1]
    )
    return g.sum(axis=stretched, keepdims=True) if stretched else g


def _fit(rules, position, shape, dtype, partial):
    """A rule's gradient for one argument, in that argument's own shape.

    TypeError if the rule is wrong.
    """
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
    """Gradients on their way back, by value id.

    Ownership: a first contribution is borrowed, since the rule that gave it may have
        handed the same array to somebody else (a + b gives both the same g); a second
        one is added out of place, which makes a sum of our own; from the third on we
        add in place. Parameters add straight into their buffers (`sinks`), which are
        ours from the start. What is in `keep` is remembered in `kept` when it is
        complete.
    """

    def __init__(self, sinks, keep=()):
        self.sinks, self.keep, self.pending, self.owned, self.kept = (
            sinks,
            keep,
            {},
            set(),
            {},
        )

    def add(self, id, g):
        held = self.pending.get(id)
        if held is None:
            if id in self.sinks:
                self.sinks[id] += g
            else:
                self.pending[id] = g
        elif id in self.owned:
            held += g
            self.pending[id] = (
                held  # a sum of 0-d arrays is a NumPy scalar, which += replaces
            )
        else:
            self.pending[id] = held + g
            self.owned.add(id)

    def collect(self, xp, outputs):
        """The finished gradients of an entry's outputs, zeros for those that were not
        used. None if the loss uses none of them.
        """
        found = [self.pop(id) for id, _, _ in outputs]
        if all(g is None for g in found):
            return None
        return tuple(
            [
                xp.zeros(shape, dtype) if g is None else g
                for g, (_, shape, dtype) in zip(found, outputs, strict=True)
            ]
        )

    def pop(self, id):
        g = self.pending.pop(id, None)
        if id in self.keep and g is not None:
            self.kept[id] = g
        return g


class Tape:
    """A recording of primitives in the order they ran.

    Used once: `backward` or `gradient` consumes it.

    Each thread has its own active tape; a second one inside the first is an error. An
    entry is (rules, xp, inputs, outputs, saved, several) with inputs and outputs as
    (id, shape, dtype): the tape holds arrays and numbers, never Tensors, so nothing
    forms a cycle and nothing is left for the garbage collector. `tape.entries` is the
    graph, to be printed. `rules` is the primitive, or the override whose `forward` ran
    in its place; what was saved is what that one's `rule` wants, so backward must go
    through the same.
    """

    def __init__(self):
        self.entries, self._parameters, self._ids, self._state = (
            [],
            {},
            itertools.count(1),
            "new",
        )

    def __enter__(self):
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

    def __exit__(self, *_):
        _local.tape, self._state = None, "recorded"

    def watch(self, array) -> Tensor:
        """A leaf for `array` (floating point; not copied), so that `gradient` can be
        asked for an input.
        """
        if namespace(array) and array.dtype.kind not in "fc":
            raise TypeError(
                f"watch needs a floating-point array, not {array.dtype}; convert "
                "with .astype"
            )
        return Tensor(array, next(self._ids), self)

    def _place(self, tensor, primitive):
        """The id under which this tape knows `tensor`.

        Meets parameters, refuses other tapes' tensors.
        """
        id = tensor.id
        if id < 0:
            if id not in self._parameters:
                self._parameters[id] = (tensor, tensor.version)
        elif tensor.tape is not self:
            raise RuntimeError(
                f"{primitive.name}: an argument was made on another Tape; cut it "
                "loose with .detach() to use it as a constant"
            )
        return id

    def backward(self, loss: Tensor, into=None) -> None:
        """Add d loss / d parameter into every Parameter on the tape: its own `grad`, or
        its place in the flat buffer `into`.

        `loss` is a scalar (shape ()) recorded on this tape. Accumulates: clear with
        `optimizer.zero_grad()` or `parameter.grad[...] = 0`.
        """
        if into is None:
            sinks = {id: p.grad for id, (p, _) in self._parameters.items()}
        else:
            if any(p.offset is None for p, _ in self._parameters.values()):
                raise ValueError(
                    "backward(into=...) needs parameters that live in an optimizer's "
                    "flat buffer; one here has no place in it"
                )
            sinks = {
                id: into[p.offset : p.offset + p.size].reshape(p.shape)
                for id, (p, _) in self._parameters.items()
            }
        self._walk(loss, _Gradients(sinks))

    def gradient(self, loss: Tensor, wrt, strict=True):
        """d loss / d w for one Tensor or Parameter, or a list of them, as new arrays
        that the caller owns.

        `wrt` may be parameters, watched inputs or any intermediate result. KeyError
        names the first that the loss does not depend on; with strict=False it gets
        zeros.
        """
        several = isinstance(wrt, (list, tuple))
        wanted = list(wrt) if several else [wrt]
        if not all(isinstance(t, Tensor) for t in wanted):
            raise TypeError(
                "gradient is taken with respect to Parameters and Tensors; write x = "
                "tape.watch(array) and use x"
            )
        gradients = _Gradients({}, keep={t.id for t in wanted})
        self._walk(loss, gradients)
        for t in wanted:
            gradients.pop(t.id)  # leaves: no entry has collected theirs
        kept, results = gradients.kept, []
        for position, t in enumerate(wanted):
            reached = t.id in kept and (t.id < 0 or t.tape is self)
            if strict and not reached:
                raise KeyError(
                    f"the loss does not depend on wrt[{position}] "
                    f"({type(t).__name__} of shape {t.shape}); pass strict=False for "
                    "zeros"
                )
            xp = namespace(t.data)
            results.append(xp.array(kept[t.id]) if reached else xp.zeros_like(t.data))
        return results if several else results[0]

    def _walk(self, loss, gradients):
        """Pop every entry, newest first, and pass its outputs' gradients on to its
        inputs.
        """
        self._check(loss)
        self._state, entries = "consumed", self.entries
        gradients.add(loss.id, namespace(loss.data).ones((), loss.dtype))
        while entries:
            rules, xp, inputs, outputs, saved, several = entries.pop()
            g = (
                gradients.collect(xp, outputs)
                if several
                else gradients.pop(outputs[0][0])
            )
            if g is None:
                continue
            partials = rules.rule(
                xp, inputs, g, *saved
            )  # what is None in inputs needs no gradient
            if not isinstance(partials, tuple):
                partials = (partials,)
            for position, (spec, partial) in enumerate(
                zip(inputs, partials, strict=True)
            ):
                if spec is not None:
                    id, shape, dtype = spec
                    if partial.shape != shape or partial.dtype is not dtype:
                        partial = _fit(rules, position, shape, dtype, partial)
                    gradients.add(id, partial)

    def _check(self, loss):
        if self._state != "recorded":
            remedies = {
                "new": "has recorded nothing; compute the loss inside `with Tape() as "
                "tape:`"
            }
            remedies |= {
                "recording": "is still recording; leave the with-block first",
                "consumed": "is consumed; record again",
            }
            raise RuntimeError(f"this Tape {remedies[self._state]}")
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
