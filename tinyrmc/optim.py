"""Optimizers over one flat buffer, and learning-rate schedules.

An optimizer moves its parameters into one contiguous array and their gradients into
another; each Parameter then holds views. So clearing all gradients is one memset, their
norm is one dot product, an update is a handful of passes, and workers or machines add
up whole gradients at once. A step whose gradient is not finite changes nothing, and
says so with a flag that stays on the device: nothing here waits for a GPU.

Each optimizer says its rule twice: `definition` is the formula, to read, the oracle in
the tests, and what runs inside `with plain():`; `_update` computes the same in place,
in few passes over the memory.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np

from .autograd.engine import Parameter
from .backend import (
    Array,
    compiles,
    joined,
    kernels,
    namespace,
    row_dots,
    to_host,
)
from .backend.stored import matching
from .errors import check_choice, check_number, check_sizes, listed
from .fused.bodies import running
from .fused.table import is_plain

# an update handles this many numbers at a time: its dozen passes stay in the cache
PART = 1 << 15

ALIGNED = 16  # bytes that a GPU's fastest products and kernels read at once

# who has a Parameter's arrays, by its id: the optimizer that was made last
_owners: weakref.WeakValueDictionary[int, Optimizer] = weakref.WeakValueDictionary()

Allocate = Callable[[int, np.dtype], Array]  # allocate(count, dtype): zeros


@dataclass(frozen=True)
class Group:
    """Parameters with a pace of their own, for any optimizer.

        optim.AdamW([optim.Group(core.parameters(), rate=0.1), *head.parameters()])

    rate: what the learning rate is multiplied by; 0 leaves the parameters as they are.
    weight_decay: for AdamW, instead of its own; None: as its own.
    """

    parameters: Iterable[Parameter]
    rate: float = 1.0
    weight_decay: float | None = None

    def __post_init__(self):
        check_number("Group", "rate", self.rate, "[0, inf)")
        if self.weight_decay is not None:
            check_number("Group", "weight_decay", self.weight_decay, "[0, 1)")
        check_order("Group", self.parameters)
        object.__setattr__(self, "parameters", [*self.parameters])


def check_order(owner: str, parameters: Any) -> None:
    """TypeError for a set: its order is another one in each run, and what an optimizer
    keeps of its parameters goes by their order.
    """
    if isinstance(parameters, Set):
        raise TypeError(f"{owner}: a set of parameters has no order; give a list")


class Optimizer:
    """The flat buffers, and all of a step but the rule that `_update` gives.

    `data` and `gradient` hold all parameters and all gradients, in order. `clip_by`
    says what `max_norm` bounds: the norm of the "whole" gradient, or that of each
    "matrix" by itself, the last two axes of a parameter.

    Args:
        parameters: all of one dtype and one array library, some in a `Group` if they
            shall learn at another pace; a Parameter belongs to one optimizer. Make it
            last: what a module gets later is not included.
        learning_rate: used by `step` unless you give it another.
        allocate: allocate(count, dtype) makes the two buffers, zeroed; for buffers that
            other processes must see.
        epsilon: added to a divisor; the dtype must have room for it.
        moments: names of arrays like `data`, zero at first, that belong to the state.
    """

    clip_by: Literal["whole", "matrix"] = "whole"

    def _lr(self, *_: float) -> NoReturn:
        raise AttributeError("an optimizer's rate is its learning_rate")

    lr = property(_lr, _lr)  # as elsewhere; set by mistake it would change nothing

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-3,
        allocate: Allocate | None = None,
        epsilon: float = 1.0,
        moments: tuple[str, ...] = (),
    ):
        own = type(self).__name__
        check_number(own, "learning_rate", learning_rate, "(0, inf)")
        check_order(own, parameters)
        given = parameters if isinstance(parameters, Iterable) else [parameters]
        groups = [x if isinstance(x, Group) else Group([x]) for x in given]
        self.parameters = [p for group in groups for p in group.parameters]
        self.learning_rate = learning_rate
        if not all(isinstance(p, Parameter) for p in self.parameters):
            raise TypeError("an optimizer takes Parameters; see module.parameters()")
        if not any(p.size for p in self.parameters):
            raise ValueError("an optimizer needs at least one Parameter, with numbers")
        if len({p.id for p in self.parameters}) < len(self.parameters):
            raise ValueError("a Parameter is given twice")
        kinds = {f"{namespace(p.data).__name__} {p.dtype}" for p in self.parameters}
        first = self.parameters[0].data
        self.xp, self.dtype = xp, dtype = namespace(first), first.dtype
        if len(kinds) > 1 or dtype.kind != "f":
            raise TypeError(
                "an optimizer takes real parameters of one kind, not "
                f"{', '.join(sorted(kinds))}; see module.astype and module.to"
            )
        check_number(own, "epsilon", epsilon, f"[{np.finfo(dtype).tiny}, inf)")
        # on a GPU each parameter begins at a multiple of 16 bytes, after a gap
        unit = ALIGNED // dtype.itemsize if compiles(xp) else 1
        self._places: list[slice] = []
        self._gaps = False
        count = 0
        for p in self.parameters:
            start = -(-count // unit) * unit
            self._gaps |= start > count
            count = start + p.size
            self._places.append(slice(start, count))
        owners = [group for group in groups for _ in group.parameters]
        grouped = [*zip(self._places, owners, strict=True)]
        self._paces = [(place, x.rate) for place, x in grouped if x.rate != 1]
        self._decays = [(place, x.weight_decay) for place, x in grouped]
        allocate = allocate or xp.zeros
        self.data, self.gradient = allocate(count, dtype), allocate(count, dtype)
        # from here on a Parameter's arrays are views of the two buffers
        of_data, of_gradient = self.views(self.data), self.views(self.gradient)
        for p in self.parameters:
            of_data[p.id][...] = p.data
            of_gradient[p.id][...] = p.grad
            p.bind(of_data[p.id], of_gradient[p.id])
            _owners[p.id] = self
        self._views = [p.data for p in self.parameters]
        if twins := _twins(self.parameters):
            warnings.warn(f"{own}: {twins}", stacklevel=3)
        self.updates = xp.zeros((), dtype)  # steps taken, on the device
        self.rate = xp.zeros((), dtype)  # on the device, too
        self._set = 0.0
        zeros = {name: xp.zeros_like(self.data) for name in moments}
        self._state = {"updates": self.updates, **zeros}
        self._parts = [slice(None)]
        if xp is np:
            self._parts = [slice(k, k + PART) for k in range(0, count, PART)]
        self._scratch = xp.empty_like(self.data[self._parts[0]])
        self._looked = False  # whether a step has looked for what no loss reaches
        self._told = False  # whether a step that was none has been warned of

    def views(self, flat: Array) -> dict[int, Array]:
        """Each parameter's place in an array like `gradient`, by its id: see `into`."""
        places = zip(self.parameters, self._places, strict=True)
        return {p.id: flat[place].reshape(p.shape) for p, place in places}

    def packed(self, flat: Array) -> Array:
        """An array like `data` without its gaps, or itself: as on every machine."""
        if flat.ndim == 0 or not self._gaps:
            return flat
        return joined(self.xp, [flat[place] for place in self._places])

    def unpack(self, packed: Array, flat: Array) -> None:
        """Copy an array such as `packed` gives into a flat one, with the gaps."""
        if flat.ndim == 0 or not self._gaps:
            flat[...] = packed
            return
        start = 0
        for place, p in zip(self._places, self.parameters, strict=True):
            flat[place] = packed[start : start + p.size]
            start += p.size

    def set_rate(self, learning_rate: float) -> None:
        """Let `rate`, on the device, be this learning rate: updates read it there."""
        if learning_rate != self._set:
            self.rate[...] = self._set = learning_rate

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        self._check_own()
        self.gradient[...] = 0

    def _check_own(self) -> None:
        """RuntimeError if a Parameter has moved away: our buffers are then nobody's."""
        views = zip(self.parameters, self._views, strict=True)
        for p in (p for p, view in views if p.data is not view):
            where = "another array, or array library"
            owner = _owners.get(p.id)
            if owner is not None and owner is not self:
                where = f"another optimizer's buffer ({owner!r}, the last made, wins)"
            raise RuntimeError(
                f"{type(self).__name__}: a Parameter {list(p.shape)} has moved to "
                f"{where}; make one optimizer of all parameters, and make it last"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(learning_rate={self.learning_rate})"

    def step(
        self,
        learning_rate: float | None = None,
        max_norm: float | None = None,
        scale: float | Array = 1.0,
        valid: bool | Array = True,
    ) -> tuple[Array, Array]:
        """One update; returns (norm before clipping, finite flag), both 0-d arrays.

        The gradient is multiplied by `scale`, then its L2 norm is clipped at `max_norm`
        (see `clip_by`). `scale` and `valid` may be 0-d arrays. The flag is False if the
        norm is not finite or `valid` is False: then parameters and state stay as they
        are, and a warning says so once. At the first step another one names matrices on
        which no loss has depended. (None comes on a GPU, where looking would make the
        host wait, nor if you give `valid`.) `gradient` is scratch: what it holds
        afterwards means nothing.
        """
        self._check_own()
        rate = self.learning_rate if learning_rate is None else learning_rate
        own = type(self).__name__
        largest = float(np.finfo(self.dtype).max)
        check_number(own, "learning_rate", rate, f"[0, {largest}]")
        if max_norm is not None:
            check_number(own, "max_norm", max_norm, "(0, inf)")
            max_norm = min(max_norm, largest)  # infinity / infinity is NaN
        check_choice(own, "clip_by", self.clip_by, "whole", "matrix")
        if valid is True and self.xp is np and not self._looked:
            self._looked = True
            if cut := self._unreached():
                says = f"{own}.step: no gradient has come to {cut}; was something "
                warnings.warn(f"{says}detached, as .data is?", stacklevel=2)
        self.set_rate(rate)
        # what is not finite is dealt with, not warned of, and half a step is none
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            before = [self.data[place].copy() for place, _ in self._paces]
            norm, finite = self._apply(max_norm, scale, valid)
            for (place, pace), old in zip(self._paces, before, strict=True):
                change = self.data[place] - old  # each rule is linear in the rate
                self.data[place] = old + change * self.dtype.type(pace)
        for p in self.parameters:
            p.version += 1
        if valid is True and self.xp is np and not finite and not self._told:
            self._told = True
            warnings.warn(
                f"{own}.step: the gradient's norm is {norm}, so nothing has changed. "
                "The flag that step returns says so each time, this warning only once",
                stacklevel=2,
            )
        return norm, finite

    def _unreached(self) -> str:
        """The matrices on which no loss has depended, though one has on others, in
        words; those whose rate is 0 do not count. Gains and biases may be there for a
        layer that does without them, and one that is cut off has a matrix, too.
        """
        frozen = [place for place, pace in self._paces if not pace]
        cut = []
        for k, (place, p) in enumerate(zip(self._places, self.parameters, strict=True)):
            known = p.reached or p.ndim < 2 or place in frozen
            if not known and not p.grad.any():
                cut.append(f"parameter {k}, {p.dtype}{list(p.shape)}")
        return listed(cut) if any(p.reached for p in self.parameters) else ""

    def _apply(self, max_norm: float | None, scale, valid) -> tuple[Array, Array]:
        """Clip, then update."""
        norm, finite = self._clip(max_norm, scale, valid)
        self.updates += finite
        if not is_plain():
            rate = self.xp.where(finite, self.rate, self.dtype.type(0))
            self._update(rate, finite)
            return norm, finite
        kept = [self.data, *(x for x in self._state.values() if x.ndim)]
        changed = self.definition(kept[0], self.gradient, *kept[1:])
        for old, new in zip(kept, changed, strict=True):
            self.xp.copyto(old, new, where=finite)
        return norm, finite

    def _clip(self, max_norm: float | None, scale, valid) -> tuple[Array, Array]:
        """Scale and clip the gradient: its norm before that, and whether it counts. One
        that does not becomes zero.
        """
        xp, g = self.xp, self.gradient
        if hasattr(scale, "shape") or scale != 1.0:
            g *= scale
        # no graph can capture the cuBLAS of `dot`
        dot = row_dots if compiles(xp) else xp.dot
        norm = xp.sqrt(xp.asarray(dot(g, g)))
        finite = xp.logical_and(xp.isfinite(norm), valid)
        parts = [] if max_norm is None else [(g, norm)]
        if parts and self.clip_by == "matrix":
            parts.clear()
            for p in self.parameters:
                axes = tuple(range(p.ndim))[-2:]
                squares = xp.sum(xp.square(p.grad), axis=axes, keepdims=True)
                parts.append((p.grad, xp.sqrt(squares)))
        for part, length in parts:
            part *= (max_norm / xp.maximum(length, max_norm)).astype(self.dtype)
        if xp is not np or not finite:  # looking costs nothing there
            xp.copyto(g, 0, where=xp.logical_not(finite))
        return norm, finite

    def definition(self, data: Array, g: Array, *moments: Array) -> list[Array]:
        """The rule: parameters, gradient and moments -> the next parameters and
        moments. `updates` counts this update, and `rate` is its learning rate.
        """
        raise NotImplementedError

    def _update(self, rate: Array, finite: Array) -> None:
        """Change `data` by the clean `gradient`, as `definition` does, in place.

        Where `finite` is False, rate and gradient are 0, and the state must not move:
        there each decay is 1.
        """
        raise NotImplementedError

    def state(self) -> dict[str, Array]:
        """The arrays that resuming needs, by name: on NumPy the live ones; and, as one
        list of integers, the "shapes" of all parameters, each after its length.
        """
        shapes = [n for p in self.parameters for n in (p.ndim, *p.shape)]
        arrays = {name: self.packed(x) for name, x in self._state.items()}
        marks = {name: self.xp.asarray(x) for name, x in self._marks().items()}
        return arrays | {"shapes": self.xp.asarray(shapes)} | marks

    def _marks(self) -> dict[str, int]:
        """Numbers by name that must be the same where a state is taken back."""
        return {}

    def load_state(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take back what `state` gave; ValueError and no change if it does not fit.

        It goes by the order and the shapes of the parameters, not by names. (Files of
        earlier versions have no shapes, nor the variant of an RMSProp.)
        """
        self._check_own()
        own = self.state()
        shapes = to_host(own.pop("shapes"))
        marks = {name: to_host(own.pop(name)) for name in self._marks()}
        aside = {"shapes", *marks}
        given = {name: arrays[name] for name in arrays if name not in aside}
        values = matching("optimizer state", given, own)
        if "shapes" in arrays:
            theirs = to_host(arrays["shapes"])
            if not np.array_equal(theirs, shapes):
                raise ValueError(
                    "optimizer state belongs to parameters of other shapes: "
                    f"{_unpacked(theirs)}, here {_unpacked(shapes)}"
                )
        for name, mark in marks.items():
            if name in arrays and not np.array_equal(to_host(arrays[name]), mark):
                raise ValueError(f"optimizer state belongs to another {name}")
        for name, value in values.items():
            self.unpack(self.xp.asarray(value), self._state[name])

    def __reduce__(self):
        name = type(self).__name__
        raise TypeError(f"{name} cannot be copied or pickled; see load_state")


def _unpacked(shapes: np.ndarray) -> str:
    """The shapes that `state` has packed, in words."""
    left = shapes.ravel().tolist()
    found = []
    while left:
        count = left.pop(0)
        found.append(str(left[:count]))
        left = left[count:]
    return " ".join(found)


def _twins(parameters: Sequence[Parameter]) -> str:
    """A warning if two matrices of random numbers are equal; "" if none are. What is
    constant, zeros and ones, in order or the same in each row was not drawn.
    """
    seen: dict[Any, int] = {}
    for k, p in enumerate(parameters):
        if p.ndim < 2 or p.size < 2:
            continue
        rows = to_host(p.data[:2])
        some = rows.ravel()[:16]
        steps = np.diff(some)
        ordered = (steps >= 0).all() or (steps <= 0).all()
        ordered |= len({*some.tolist()}) < 3
        if ordered or (len(rows) > 1 and (rows[0] == rows[1]).all()):
            continue
        first = seen.setdefault((p.shape, rows.tobytes()), k)
        if first < k and bool((p.data == parameters[first].data).all()):
            return (
                f"parameters {first} and {k}, {p.dtype}{list(p.shape)}, begin with the "
                "same random numbers, and may stay equal; give each layer a seed of "
                "its own, or all of them one np.random.default_rng(0)"
            )
    return ""


class SGD(Optimizer):
    """data -= rate * v, with v = momentum * v + gradient."""

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-2,
        momentum: float = 0.0,
        allocate: Allocate | None = None,
    ):
        check_number("SGD", "momentum", momentum, "[0, 1)")
        moments = ("velocity",) if momentum else ()
        super().__init__(parameters, learning_rate, allocate, moments=moments)
        self.momentum = momentum
        self.velocity = self._state.get("velocity")

    def definition(self, data, g, *velocity):
        v = g
        if velocity:
            v = self.momentum * velocity[0] + g
        return [data - self.rate * v, *([v] if velocity else [])]

    def _update(self, rate: Array, finite: Array) -> None:
        v = self.gradient
        number = self.dtype.type
        if self.velocity is not None:
            self.velocity *= self.xp.where(finite, number(self.momentum), number(1))
            self.velocity += self.gradient
            v = self.velocity
        for part in self._parts:
            data = self.data[part]
            scratch = self._scratch[: len(data)]
            self.xp.multiply(v[part], rate, out=scratch)
            data -= scratch


class RMSProp(Optimizer):
    """data -= rate * gradient / sqrt(v + epsilon).

    v is the running mean of squared gradients. Programs that say RMSProp differ in two
    things, and `variant` says whose it is:

        "keras"       sqrt(v + epsilon), v starts at 0
        "tensorflow"  sqrt(v + epsilon), v starts at 1: TensorFlow 1, and so IMPALA's
        "pytorch"     sqrt(v) + epsilon, v starts at 0
    """

    variants = "keras", "tensorflow", "pytorch"

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-4,
        decay: float = 0.9,
        epsilon: float = 1e-10,
        allocate: Allocate | None = None,
        variant: Literal["keras", "tensorflow", "pytorch"] = "keras",
    ):
        check_choice("RMSProp", "variant", variant, *self.variants)
        check_number("RMSProp", "decay", decay, "[0, 1)")
        moments = ("second_moment",)
        super().__init__(parameters, learning_rate, allocate, epsilon, moments)
        self.decay = decay
        self.epsilon = epsilon
        self.variant = variant
        self.second_moment = self._state["second_moment"]
        if variant == "tensorflow":
            self.second_moment[...] = 1

    def _marks(self) -> dict[str, int]:
        return {"variant": self.variants.index(self.variant)}

    def definition(self, data, g, v):
        sqrt = self.xp.sqrt
        v = self.decay * v + (1 - self.decay) * g * g
        pytorch = self.variant == "pytorch"
        root = sqrt(v) + self.epsilon if pytorch else sqrt(v + self.epsilon)
        return [data - self.rate * g / root, v]

    def _update(self, rate: Array, finite: Array) -> None:
        xp, number = self.xp, self.dtype.type
        keep = xp.where(finite, number(self.decay), number(1))
        whole = self.data, self.gradient, self.second_moment
        for part in self._parts:
            data, g, v = (array[part] for array in whole)
            scratch = self._scratch[: len(data)]
            v *= keep
            xp.multiply(g, g, out=scratch)
            scratch *= 1 - self.decay
            v += scratch
            if self.variant == "pytorch":
                xp.sqrt(v, out=scratch)
                scratch += self.epsilon
            else:
                xp.add(v, self.epsilon, out=scratch)
                xp.sqrt(scratch, out=scratch)
            xp.divide(g, scratch, out=scratch)
            scratch *= rate
            data -= scratch


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015) with bias correction.

    data -= rate * m^ / (sqrt(v^) + epsilon).

    Programs on TensorFlow 1, the paper's authors' among them, add epsilon to the root
    of v before its bias is corrected ("epsilon hat"): where gradients are tiny their
    first steps are shorter.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        allocate: Allocate | None = None,
    ):
        check_number("Adam", "beta1", beta1, "[0, 1)")
        check_number("Adam", "beta2", beta2, "[0, 1)")
        moments = "first_moment", "second_moment"
        super().__init__(parameters, learning_rate, allocate, epsilon, moments)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.first_moment = self._state["first_moment"]
        self.second_moment = self._state["second_moment"]

    def definition(self, data, g, m, v):
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * g * g
        m_hat = m / (1 - self.beta1**self.updates)
        v_hat = v / (1 - self.beta2**self.updates)
        step = m_hat / (self.xp.sqrt(v_hat) + self.epsilon)
        return [data - self.rate * step, m, v]

    def _apply(self, max_norm: float | None, scale, valid) -> tuple[Array, Array]:
        """Use the kernels where possible; the gradient then stays as it is."""
        xp = self.xp
        gpu = kernels(xp, self.data)
        known = not hasattr(scale, "shape") and self.clip_by == "whole"
        if gpu is None or not known or is_plain():
            return super()._apply(max_norm, scale, valid)
        if not hasattr(valid, "shape"):
            valid = xp.full((), valid)
        norm, finite, factor = gpu.judge(
            xp, self.gradient, valid, self.updates, scale, max_norm
        )
        arrays = self.data, self.gradient, self.first_moment, self.second_moment
        step = self.rate, finite, self.updates, factor
        gpu.adam(xp, arrays, step, self.beta1, self.beta2, self.epsilon)
        return norm, finite

    def _update(self, rate: Array, finite: Array) -> None:
        xp = self.xp
        moments = self.first_moment, self.second_moment
        number = self.dtype.type
        t = xp.maximum(self.updates, 1)

        def unbiased(beta):  # 1 - beta^t; a beta near 1 costs the first steps no digits
            logarithm = math.log(beta) if beta else -math.inf
            return -xp.expm1(t * logarithm).astype(self.dtype)

        keep_m = xp.where(finite, number(self.beta1), number(1))
        keep_v = xp.where(finite, number(self.beta2), number(1))
        # both corrections outside of the division, which costs a pass less
        correction = xp.sqrt(unbiased(self.beta2))
        rate = rate * correction / unbiased(self.beta1)
        epsilon = self.epsilon * correction
        if compiled := running(self.data):
            decays = keep_m, keep_v, 1 - self.beta1, 1 - self.beta2
            numbers = map(float, (*decays, rate, epsilon))
            compiled.adam(self.data, self.gradient, *moments, *numbers)
            return
        whole = self.data, self.gradient, *moments
        for part in self._parts:
            data, g, m, v = (array[part] for array in whole)
            scratch = self._scratch[: len(data)]
            m *= keep_m  # m = beta1 m + (1 - beta1) g
            xp.multiply(g, 1 - self.beta1, out=scratch)
            m += scratch
            v *= keep_v  # v = beta2 v + (1 - beta2) g^2
            xp.multiply(g, g, out=scratch)
            scratch *= 1 - self.beta2
            v += scratch
            xp.sqrt(v, out=scratch)  # data = data - rate m / (sqrt(v) + epsilon)
            scratch += epsilon
            xp.divide(m, scratch, out=scratch)
            scratch *= rate
            data -= scratch


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019).

    data -= rate * weight_decay * data, and then as `Adam`, whose arguments these are.
    Put parameters that shall not decay, such as biases, into a `Group` with another
    weight_decay.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-2,
        **others: Any,
    ):
        check_number("AdamW", "weight_decay", weight_decay, "[0, 1)")
        super().__init__(parameters, learning_rate, **others)
        self.weight_decay: float | Array = weight_decay
        own = [(place, x) for place, x in self._decays if x is not None]
        if own:  # one for each number
            self.weight_decay = self.xp.full_like(self.data, weight_decay)
            for place, decay in own:
                self.weight_decay[place] = decay

    _apply = Optimizer._apply  # the kernels do not decay

    def definition(self, data, g, m, v):
        decayed = data - self.rate * self.weight_decay * data
        return super().definition(decayed, g, m, v)

    def _update(self, rate: Array, finite: Array) -> None:
        self.data *= 1 - rate * self.weight_decay
        super()._update(rate, finite)


def schedule(
    peak: float, steps: int, warmup: int = 0, cosine_fraction: float = 0.0
) -> Callable[[int], float]:
    """Warm-up, plateau, decay: rate(step) for step 0 .. steps - 1.

    The rate rises linearly from peak / warmup to `peak` in `warmup` steps and stays
    there. In the last `cosine_fraction` of all steps it falls along half a cosine to 0.
    Where the two overlap, the lower rate holds, so it never jumps.
    """
    check_number("schedule", "peak", peak, "(0, inf)")
    check_sizes("schedule", steps=steps)
    check_sizes("schedule", least=0, warmup=warmup)
    check_number("schedule", "cosine_fraction", cosine_fraction, "[0, 1]")
    start = steps - round(cosine_fraction * steps)

    def rate(step: int) -> float:
        rising = peak * (step + 1) / warmup if step < warmup else peak
        if step < start or start >= steps:
            return rising
        progress = min(1.0, (step - start) / (steps - start))
        return min(rising, peak * 0.5 * (1 + math.cos(math.pi * progress)))

    return rate
