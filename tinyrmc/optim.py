"""Optimizers over one flat buffer, and learning-rate schedules.

An optimizer moves its parameters into one contiguous array and their gradients into
another; each Parameter then holds views. So clearing all gradients is one memset, their
norm is one dot product, an update is a handful of passes, and workers or machines add
up whole gradients at once. A step whose gradient is not finite changes nothing, and
says so with a flag that stays on the device: nothing here waits for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import numpy as np

from . import gpu as kernels
from .autograd.engine import Parameter
from .backend import Array, converted, joined, namespace, row_dots
from .errors import is_integer, is_number, is_switch

# Numbers that an update goes through at a time on NumPy, so that its dozen passes find
# them in the processor's cache.
PART = 1 << 15

# Bytes that a GPU's fastest products and kernels read at once, from a multiple of 16.
ALIGNED = 16

CLIPS = "whole", "matrix"  # what a largest norm may bound

Allocate = Callable[[int, np.dtype], Array]  # allocate(count, dtype): zeros


def _require(within: bool, name: str, value: object, wanted: str) -> None:
    if not within:
        raise ValueError(f"{name} must be {wanted}, not {value!r}")


def _require_positive(name: str, value: float) -> None:
    within = is_number(value) and 0 < value < math.inf
    _require(within, name, value, "positive and finite")


def _require_decay(name: str, value: float) -> None:
    _require(is_number(value) and 0 <= value < 1, name, value, "in [0, 1)")


def _checked(parameters: Iterable[Parameter]) -> list[Parameter]:
    """The parameters as a list; an error if they cannot share one buffer."""
    if isinstance(parameters, Parameter):
        raise TypeError("an optimizer takes a list of Parameters; write [parameter]")
    if hasattr(parameters, "parameters"):
        raise TypeError(
            f"an optimizer takes Parameters, not a {type(parameters).__name__}; "
            "write module.parameters()"
        )
    checked = list(parameters)
    if not all(isinstance(p, Parameter) for p in checked):
        raise TypeError(
            "an optimizer takes Parameters, and one of these is something else; "
            "wrap arrays as Parameter(array)"
        )
    if not checked:
        raise ValueError("an optimizer needs at least one Parameter")
    for p in checked:
        _check_dtype(p.dtype)
    if not any(p.size for p in checked):
        raise ValueError("an optimizer needs numbers, and these Parameters are empty")
    if len({p.id for p in checked}) < len(checked):
        raise ValueError(
            "a Parameter is given twice; module.parameters() lists each once"
        )
    dtypes = sorted({str(p.dtype) for p in checked})
    if len(dtypes) > 1:
        raise TypeError(
            f"parameters of several dtypes ({', '.join(dtypes)}); use module.astype"
        )
    libraries = sorted({namespace(p.data).__name__ for p in checked})
    if len(libraries) > 1:
        raise TypeError(
            f"parameters of several array libraries ({', '.join(libraries)}); move "
            "them with module.to(xp)"
        )
    return checked


def _check_dtype(dtype: np.dtype) -> None:
    """TypeError unless gradients of this dtype are real and have room to be squared."""
    if dtype.kind != "f":
        raise TypeError(f"an optimizer takes real parameters, not {dtype}")
    if dtype.itemsize < 4:
        raise TypeError(
            f"an optimizer needs float32 or wider: in {dtype} squares of gradients "
            "overflow or become zero; use Parameter(x.astype(np.float32))"
        )


def _check_room(epsilon: float, dtype: np.dtype) -> None:
    """ValueError unless this dtype has room for epsilon."""
    least = float(np.finfo(dtype).tiny)
    wanted = f"at least {least:.1e}, the least that {dtype} holds"
    _require(epsilon >= least, "epsilon", epsilon, wanted)


class Optimizer:
    """The flat buffers and the common part of a step.

    `data` and `gradient` hold all parameters and all gradients, in order. `clips` says
    what `max_norm` bounds: the norm of the "whole" gradient, or that of each "matrix"
    by itself. The last two axes of a parameter are a matrix; further axes hold several.

    Args:
        parameters: all of one dtype and one array library; a Parameter belongs to one
            optimizer. One that a module gets later, in place of another or beside it,
            is not included, so make the optimizer last.
        learning_rate: used by `step` unless you give it another.
        allocate: allocate(count, dtype) makes the two buffers, zeroed; for buffers that
            other processes must see.
        epsilon: of an update that divides by the root of a mean of squares; the dtype
            must have room for it.
    """

    clips: Literal["whole", "matrix"] = "whole"

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-3,
        allocate: Allocate | None = None,
        epsilon: float | None = None,
    ):
        _require_positive("learning_rate", learning_rate)
        self.parameters, self.learning_rate = _checked(parameters), learning_rate
        first = self.parameters[0].data
        self.xp, self.dtype = namespace(first), first.dtype
        self._largest = float(np.finfo(first.dtype).max)
        if epsilon is not None:
            _check_room(epsilon, first.dtype)
        count = self._lay_out()
        allocate = allocate or self.xp.zeros
        self.data = allocate(count, self.dtype)
        self.gradient = allocate(count, self.dtype)
        self._move_in()
        self.updates = self.xp.zeros((), self.dtype)  # steps taken, on the device
        self.rate, self._set = self.xp.zeros((), self.dtype), 0.0  # on the device
        parts = [slice(None)]
        if self.xp is np:
            parts = [slice(k, k + PART) for k in range(0, count, PART)]
        self._parts = parts
        self._scratch = self.xp.empty_like(self.data[parts[0]])

    def _lay_out(self) -> int:
        """Choose a place in the buffers for each parameter; returns their length.

        On a GPU each begins at a multiple of 16 bytes, with a gap before it if need be.
        """
        unit = ALIGNED // self.dtype.itemsize if kernels.compiles(self.xp) else 1
        self._places, end, self._gaps = list[slice](), 0, False
        for p in self.parameters:
            start = -(-end // unit) * unit
            self._gaps |= start > end
            end = start + p.size
            self._places.append(slice(start, end))
        return end

    def _move_in(self) -> None:
        """Copy the parameters and their gradients into the two buffers.

        From then on both are views of these.
        """
        for p, place in zip(self.parameters, self._places, strict=True):
            self.data[place] = p.data.reshape(-1)
            self.gradient[place] = p.grad.reshape(-1)
            data, grad = (
                flat[place].reshape(p.shape) for flat in (self.data, self.gradient)
            )
            p.bind(data, grad, place.start, self.gradient)
        self._views = [p.data for p in self.parameters]

    def packed(self, flat: Array) -> Array:
        """An array laid out like `data`, without its gaps: the same on every machine.

        The array itself if there are none.
        """
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
        if any(p.data is not view for p, view in views):
            raise RuntimeError(
                "a Parameter has moved to another optimizer's buffer or another "
                "array library since; use that optimizer, or make a new one"
            )

    def step(
        self,
        learning_rate: float | None = None,
        max_norm: float | None = None,
        scale: float | Array = 1.0,
        valid: bool | Array = True,
    ) -> tuple[Array, Array]:
        """One update; returns (norm before clipping, finite flag), both 0-d arrays.

        The gradient is multiplied by `scale`, then its L2 norm is clipped at
        `max_norm` (see `clips`). `scale` and `valid` may be 0-d arrays. The flag is
        False if the norm is not finite or `valid` is False: then parameters and state
        stay as they are. `gradient` is scratch: what it holds afterwards means nothing.
        """
        self._check_own()
        for name, number in ("scale", scale), ("valid", valid):
            shape = getattr(number, "shape", ())
            _require(shape == (), name, shape, "a number or an array of shape ()")
        for name, number in ("learning_rate", learning_rate), ("max_norm", max_norm):
            _require(not is_switch(number), name, number, "a number")
        _require(self.clips in CLIPS, "clips", self.clips, f"one of {CLIPS}")
        is_bool = isinstance(valid, bool) or str(getattr(valid, "dtype", "")) == "bool"
        _require(is_bool, "valid", valid, "True or False")
        rate = self.learning_rate if learning_rate is None else learning_rate
        limit = self._largest
        _require(0 <= rate <= limit, "learning_rate", rate, "finite and not negative")
        _require(
            max_norm is None or 0 < max_norm < math.inf,
            "max_norm",
            max_norm,
            "positive and finite, or None for no clipping",
        )
        max_norm = max_norm and min(max_norm, limit)  # infinity / infinity is NaN
        norm, finite = self._apply(rate, max_norm, scale, valid)
        for p in self.parameters:
            p.version += 1
        return norm, finite

    def _apply(self, rate: float, max_norm, scale, valid) -> tuple[Array, Array]:
        """`step`, after its checks."""
        self.set_rate(rate)
        norm, finite = self._clean(scale, max_norm, valid)
        self.updates += finite
        none = self.dtype.type(0)
        self._update(self.xp.where(finite, self.rate, none), finite)
        return norm, finite

    def _clean(self, scale, max_norm: float | None, valid) -> tuple[Array, Array]:
        """Scale and clip the gradient, or zero it if the step cannot be taken."""
        xp, g = self.xp, self.gradient
        if hasattr(scale, "shape") or scale != 1.0:
            g *= scale
        # what is not finite is dealt with here, not warned of
        with np.errstate(over="ignore", invalid="ignore"):
            # no graph can capture the cuBLAS of `dot`
            dot = row_dots if kernels.compiles(xp) else xp.dot
            norm = xp.sqrt(xp.asarray(dot(g, g)))
            finite = xp.logical_and(xp.isfinite(norm), valid)
            if max_norm is not None:
                self._clip(norm, max_norm)
        if xp is not np or not finite:  # looking costs nothing there
            xp.copyto(g, 0, where=xp.logical_not(finite))
        return norm, finite

    def _clip(self, norm: Array, max_norm: float) -> None:
        """Shorten the gradient of this norm, or each matrix of it, to `max_norm`."""
        parts = [(self.gradient, norm)]
        if self.clips == "matrix":
            matrices = [p.grad for p in self.parameters]
            parts = [(g, _norms(self.xp, g)) for g in matrices]
        for g, length in parts:
            g *= (max_norm / self.xp.maximum(length, max_norm)).astype(self.dtype)

    def _update(self, rate: Array, finite: Array) -> None:
        """Change `data` by the clean `gradient`.

        Where `finite` is False, rate and gradient are 0, and the state must not move.
        """
        raise NotImplementedError

    def _in_parts(self, *arrays: Array) -> Iterator[tuple[Array, ...]]:
        """(scratch, data, gradient, arrays): views of one part after the other."""
        whole = self.data, self.gradient, *arrays
        for part in self._parts:
            views = [array[part] for array in whole]
            yield self._scratch[: len(views[0])], *views

    def _keep(self, decay: float, finite: Array) -> Array:
        """`decay`, or 1 for a step that is not applied, as a 0-d array."""
        return self._scalar(finite, decay, 1)

    def _scalar(self, condition: Array, x: float, y: float) -> Array:
        return self.xp.where(condition, self.dtype.type(x), self.dtype.type(y))

    def state(self) -> dict[str, Array]:
        """The arrays that resuming needs, by name, `packed`.

        On NumPy they are the live ones, not copies.
        """
        return {name: self.packed(x) for name, x in self._state().items()}

    def _state(self) -> dict[str, Array]:
        """The live arrays of `state`."""
        return {"updates": self.updates}

    def load_state(self, arrays: dict[str, np.ndarray]) -> None:
        """Take back what `state` gave.

        ValueError if an array is missing, unknown or does not fit; then nothing has
        changed.
        """
        self._check_own()
        state, values = self.state(), {}
        if unknown := arrays.keys() - state.keys():
            raise ValueError(
                f"optimizer state {min(unknown)!r} is unknown to {type(self).__name__}"
            )
        for name, own in state.items():
            if name not in arrays:
                raise ValueError(f"optimizer state {name!r} is missing from the arrays")
            if arrays[name].shape != own.shape:
                raise ValueError(
                    f"optimizer state {name!r} has shape {own.shape}, the array "
                    f"{arrays[name].shape}"
                )
            what = f"optimizer state {name!r}"
            values[name] = converted(what, arrays[name], own.dtype)
        for name, value in values.items():
            self.unpack(self.xp.asarray(value), self._state()[name])

    def __reduce__(self):
        raise TypeError(
            f"{type(self).__name__} cannot be copied or pickled, since its buffers are "
            "those of its Parameters; make one for the copies, and use load_state"
        )


def _norms(xp, g: Array) -> Array:
    """The L2 norm of each matrix of g, with axes of length 1."""
    axes = tuple(range(g.ndim))[-2:]
    return xp.sqrt(xp.sum(xp.square(g), axis=axes, keepdims=True))


class SGD(Optimizer):
    """data -= rate * v, with v = momentum * v + gradient."""

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-2,
        momentum: float = 0.0,
        allocate: Allocate | None = None,
    ):
        _require_decay("momentum", momentum)
        super().__init__(parameters, learning_rate, allocate)
        self.momentum = momentum
        self.velocity = self.xp.zeros_like(self.data) if momentum else None

    def _state(self) -> dict[str, Array]:
        velocity = {} if self.velocity is None else {"velocity": self.velocity}
        return super()._state() | velocity

    def _update(self, rate: Array, finite: Array) -> None:
        if self.velocity is None:  # v is the gradient itself
            for scratch, data, g in self._in_parts():
                self.xp.multiply(g, rate, out=scratch)
                data -= scratch
            return
        self.velocity *= self._keep(self.momentum, finite)
        self.velocity += self.gradient
        self.data -= rate * self.velocity


class RMSProp(Optimizer):
    """data -= rate * gradient / sqrt(v + epsilon).

    v is the running mean of squared gradients. Programs that say RMSProp differ in two
    things, and `variant` says whose it is:

        "keras"       sqrt(v + epsilon), v starts at 0
        "tensorflow"  sqrt(v + epsilon), v starts at 1: TensorFlow 1, and so IMPALA's
        "pytorch"     sqrt(v) + epsilon, v starts at 0
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-4,
        decay: float = 0.9,
        epsilon: float = 1e-10,
        allocate: Allocate | None = None,
        variant: Literal["keras", "tensorflow", "pytorch"] = "keras",
    ):
        variants = "keras", "tensorflow", "pytorch"
        _require(variant in variants, "variant", variant, f"one of {variants}")
        _require_decay("decay", decay)
        _require_positive("epsilon", epsilon)
        super().__init__(parameters, learning_rate, allocate, epsilon)
        self.decay, self.epsilon, self.variant = decay, epsilon, variant
        self.second_moment = self.xp.zeros_like(self.data)
        if variant == "tensorflow":
            self.second_moment[...] = 1

    def _state(self) -> dict[str, Array]:
        return super()._state() | {"second_moment": self.second_moment}

    def _update(self, rate: Array, finite: Array) -> None:
        xp, keep = self.xp, self._keep(self.decay, finite)
        for scratch, data, g, v in self._in_parts(self.second_moment):
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
    of v before its bias is corrected ("epsilon hat"). That makes their first steps
    shorter where gradients are tiny: at a gradient of 1e-5 and epsilon 1e-8 the first
    step is 0.97 of the rate there and 1.00 here; after a thousand steps hardly any
    difference is left.
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
        _require_decay("beta1", beta1)
        _require_decay("beta2", beta2)
        _require_positive("epsilon", epsilon)
        super().__init__(parameters, learning_rate, allocate, epsilon)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.first_moment = self.xp.zeros_like(self.data)
        self.second_moment = self.xp.zeros_like(self.data)

    def _state(self) -> dict[str, Array]:
        moments = {
            "first_moment": self.first_moment,
            "second_moment": self.second_moment,
        }
        return super()._state() | moments

    def _apply(self, rate: float, max_norm, scale, valid) -> tuple[Array, Array]:
        """Use kernels/adam.cu where possible; the gradient then stays as it is."""
        xp, plain = self.xp, not hasattr(scale, "shape") and self.clips == "whole"
        if not (plain and kernels.usable(xp, self.data)):
            return super()._apply(rate, max_norm, scale, valid)
        if not hasattr(valid, "shape"):
            valid = xp.full((), valid)
        self.set_rate(rate)
        norm, finite, factor = kernels.judge(
            xp, self.gradient, valid, self.updates, scale, max_norm
        )
        moments, betas = (
            (self.first_moment, self.second_moment),
            (self.beta1, self.beta2),
        )
        step = self.rate, finite, self.updates, factor
        arrays = self.data, self.gradient, *moments, *step
        kernels.adam(xp, *arrays, *betas, self.epsilon)
        return norm, finite

    def _update(self, rate: Array, finite: Array) -> None:
        xp, g, moments = self.xp, self.gradient, (self.first_moment, self.second_moment)
        keep_m, keep_v = (self._keep(b, finite) for b in (self.beta1, self.beta2))
        # both corrections outside of the division, which costs a pass less
        correction = xp.sqrt(self._bias_correction(self.beta2))
        rate = rate * correction / self._bias_correction(self.beta1)
        epsilon = self.epsilon * correction
        for scratch, data, g, m, v in self._in_parts(*moments):
            m *= keep_m
            xp.multiply(g, 1 - self.beta1, out=scratch)
            m += scratch
            v *= keep_v
            xp.multiply(g, g, out=scratch)
            scratch *= 1 - self.beta2
            v += scratch
            xp.sqrt(v, out=scratch)
            scratch += epsilon
            xp.divide(m, scratch, out=scratch)
            scratch *= rate
            data -= scratch

    def _bias_correction(self, beta: float) -> Array:
        """1 - beta^t, a 0-d array.

        Written so that a beta near 1 does not cost the first steps four digits.
        """
        steps = self.xp.maximum(self.updates, 1)
        logarithm = math.log(beta) if beta else -math.inf
        return -self.xp.expm1(steps * logarithm).astype(self.dtype)


def schedule(
    peak: float, steps: int, warmup: int = 0, decay: float = 0.0, floor: float = 0.0
) -> Callable[[int], float]:
    """Warm-up, plateau, decay: rate(step) for step 0 .. steps - 1.

    The rate rises linearly from peak / warmup to `peak` in `warmup` steps and stays
    there. In the last fraction `decay` of all steps it falls along half a cosine to
    `floor` * peak. decay=0 is constant to the end, decay=1 a cosine schedule. Where
    warm-up and decay overlap, the lower rate holds, so it never jumps.
    """
    _require_positive("peak", peak)
    for name, count, least in ("steps", steps, 1), ("warmup", warmup, 0):
        wanted = f"an integer of at least {least}"
        _require(is_integer(count) and count >= least, name, count, wanted)
    for name, part in ("decay", decay), ("floor", floor):
        within = is_number(part) and 0 <= part <= 1
        _require(within, name, part, "a fraction, from 0 to 1")
    start = steps - round(decay * steps)

    def rate(step: int) -> float:
        rising = peak * (step + 1) / warmup if step < warmup else peak
        if step < start or start >= steps:
            return rising
        progress = min(1.0, (step - start) / (steps - start))
        falling = floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress))
        return min(rising, peak * falling)

    return rate
