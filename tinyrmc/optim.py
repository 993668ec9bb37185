"""Optimizers over one flat buffer, and learning-rate schedules.

An optimizer moves its parameters into one contiguous array and their gradients into
another; each Parameter then holds views. So clearing all gradients is one memset, their
norm one dot product, an update a handful of passes, and workers or machines add up
whole gradients at once. A step whose gradient is not finite changes nothing, and says
so with a flag that stays on the device: nothing here waits for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from . import kernels
from .backend import namespace
from .engine import Parameter


def _require(within: bool, name: str, value, wanted: str) -> None:
    if not within:
        raise ValueError(f"{name} must be {wanted}, not {value!r}")


class Optimizer:
    """The flat buffers and the common part of a step.

    `data` and `gradient` hold all parameters and all gradients, in order.

    Args:
        parameters: all of one dtype and one array library; each belongs to one
            optimizer. learning_rate: used by `step` unless it is given another.
            allocate: allocate(count, dtype) makes the two buffers, zeroed; given where
            other processes shall see them.
    """

    slots: tuple[str, ...] = ()  # names of the flat state arrays a subclass keeps

    def __init__(
        self,
        parameters: Iterable[Parameter],
        learning_rate: float = 1e-3,
        allocate: Callable | None = None,
    ):
        if isinstance(parameters, Parameter):
            raise TypeError(
                "an optimizer takes a list of Parameters; write [parameter]"
            )
        if hasattr(parameters, "parameters"):
            raise TypeError(
                f"an optimizer takes Parameters, not a {type(parameters).__name__}; "
                "write module.parameters()"
            )
        self.parameters, self.learning_rate = list(parameters), learning_rate
        if not all(isinstance(p, Parameter) for p in self.parameters):
            raise TypeError(
                "an optimizer takes Parameters, and one of these is something else; "
                "wrap arrays as Parameter(array)"
            )
        _require(
            0 < learning_rate < math.inf,
            "learning_rate",
            learning_rate,
            "positive and finite",
        )
        if not self.parameters:
            raise ValueError("an optimizer needs at least one Parameter")
        if len({p.id for p in self.parameters}) < len(self.parameters):
            raise ValueError(
                "a Parameter is given twice; module.parameters() lists each once"
            )
        if len({p.dtype for p in self.parameters}) > 1:
            raise TypeError(
                "parameters of several dtypes "
                f"({', '.join(sorted({str(p.dtype) for p in self.parameters}))}); "
                "use module.astype"
            )
        if len(libraries := {namespace(p.data).__name__ for p in self.parameters}) > 1:
            raise TypeError(
                "parameters of several array libraries "
                f"({', '.join(sorted(libraries))}); move them with module.to(xp)"
            )
        first = self.parameters[0].data
        self.xp, self.dtype = namespace(first), first.dtype
        count, allocate = (
            sum(p.size for p in self.parameters),
            allocate or self.xp.zeros,
        )
        self.data, self.gradient = (
            allocate(count, self.dtype),
            allocate(count, self.dtype),
        )
        start = 0
        for p in self.parameters:
            end = start + p.size
            self.data[start:end] = p.data.reshape(-1)
            p.bind(
                self.data[start:end].reshape(p.shape),
                self.gradient[start:end].reshape(p.shape),
                start,
            )
            start = end
        self._views = [p.data for p in self.parameters]
        self.updates = self.xp.zeros(
            (), self.dtype
        )  # steps taken so far, on the device
        for name in self.slots:
            setattr(self, name, self.xp.zeros_like(self.data))
        self._scratch = self.xp.empty_like(self.data)

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        self.gradient[...] = 0

    def step(
        self,
        learning_rate: float | None = None,
        max_norm: float | None = None,
        scale: float = 1.0,
        valid=True,
    ):
        """One update with the gradient times `scale`, its L2 norm clipped at
        `max_norm`. Returns (norm before clipping, finite flag).

        Both are 0-d arrays, as `scale` and `valid` may be. Where the flag is False,
        because the norm is not finite or `valid` is False, parameters and state stay.
        `gradient` is scratch: scaled and clipped in place, or zeroed.
        """
        xp, g = self.xp, self.gradient
        if any(
            p.data is not view
            for p, view in zip(self.parameters, self._views, strict=True)
        ):
            raise RuntimeError(
                "a Parameter has moved to another optimizer's buffer or another "
                "array library since; step that optimizer, or make a new one"
            )
        rate = self.learning_rate if learning_rate is None else learning_rate
        _require(0 <= rate < math.inf, "learning_rate", rate, "finite and not negative")
        _require(
            max_norm is None or 0 < max_norm < math.inf,
            "max_norm",
            max_norm,
            "positive and finite, or None for no clipping",
        )
        if hasattr(scale, "shape") or scale != 1.0:
            g *= scale
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # what is not finite is dealt with, not warned of
            norm = xp.sqrt(xp.asarray(xp.dot(g, g)))
            finite = xp.logical_and(xp.isfinite(norm), valid)
            if max_norm is not None:
                g *= (max_norm / xp.maximum(norm, max_norm)).astype(self.dtype)
        xp.copyto(g, 0, where=xp.logical_not(finite))
        self.updates += finite
        self._update(self._scalar(finite, rate, 0), finite)
        for p in self.parameters:
            p.version += 1
        return norm, finite

    def _update(self, rate, finite):
        """Change `data` by the clean `gradient`; where `finite` is False rate is 0,
        gradient is 0, and the state must not move.
        """
        raise NotImplementedError

    def _keep(self, decay, finite):
        """`decay`, or 1 for a step that is not applied, as a 0-d array."""
        return self._scalar(finite, decay, 1)

    def _scalar(self, condition, x, y):
        return self.xp.where(condition, self.dtype.type(x), self.dtype.type(y))

    def state(self) -> dict[str, np.ndarray]:
        """The arrays that resuming needs, by name: the live ones, not copies."""
        return {name: getattr(self, name) for name in ("updates", *self.slots)}

    def load_state(self, arrays: dict[str, np.ndarray]) -> None:
        """Take back what `state` gave. ValueError if an array does not fit."""
        for name, own in self.state().items():
            if name not in arrays:
                raise ValueError(f"optimizer state {name!r} is missing from the arrays")
            if arrays[name].shape != own.shape:
                raise ValueError(
                    f"optimizer state {name!r} has shape {own.shape}, the array "
                    f"{arrays[name].shape}"
                )
            own[...] = self.xp.asarray(arrays[name])


class SGD(Optimizer):
    """data -= rate * v, with v = momentum * v + gradient."""

    slots = ("velocity",)

    def __init__(self, parameters, learning_rate=1e-2, momentum=0.0, allocate=None):
        _require(0 <= momentum < 1, "momentum", momentum, "in [0, 1)")
        super().__init__(parameters, learning_rate, allocate)
        self.momentum = momentum

    def _update(self, rate, finite):
        self.velocity *= self._keep(self.momentum, finite)
        self.velocity += self.gradient
        self.data -= rate * self.velocity


class RMSProp(Optimizer):
    """data -= rate * gradient / sqrt(v + epsilon), with v the running mean of squared
    gradients.
    """

    slots = ("second_moment",)

    def __init__(
        self, parameters, learning_rate=1e-4, decay=0.9, epsilon=1e-10, allocate=None
    ):
        _require(0 <= decay < 1, "decay", decay, "in [0, 1)")
        _require(0 < epsilon < math.inf, "epsilon", epsilon, "positive and finite")
        super().__init__(parameters, learning_rate, allocate)
        self.decay, self.epsilon = decay, epsilon

    def _update(self, rate, finite):
        xp, scratch = self.xp, self._scratch
        self.second_moment *= self._keep(self.decay, finite)
        xp.multiply(self.gradient, self.gradient, out=scratch)
        scratch *= 1 - self.decay
        self.second_moment += scratch
        xp.add(self.second_moment, self.epsilon, out=scratch)
        xp.sqrt(scratch, out=scratch)
        xp.divide(self.gradient, scratch, out=scratch)
        scratch *= rate
        self.data -= scratch


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015) with bias correction: data -= rate * m^ / (sqrt(v^) +
    epsilon).
    """

    slots = ("first_moment", "second_moment")

    def __init__(
        self,
        parameters,
        learning_rate=1e-3,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-8,
        allocate=None,
    ):
        _require(0 <= beta1 < 1, "beta1", beta1, "in [0, 1)")
        _require(0 <= beta2 < 1, "beta2", beta2, "in [0, 1)")
        _require(0 < epsilon < math.inf, "epsilon", epsilon, "positive and finite")
        super().__init__(parameters, learning_rate, allocate)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def _update(self, rate, finite):
        xp, g, m, v, scratch = (
            self.xp,
            self.gradient,
            self.first_moment,
            self.second_moment,
            self._scratch,
        )
        if kernels.usable(xp, self.data):  # kernels/adam.cu
            return kernels.adam(
                xp,
                self.data,
                g,
                m,
                v,
                rate,
                finite,
                self.updates,
                self.beta1,
                self.beta2,
                self.epsilon,
            )
        m *= self._keep(self.beta1, finite)
        xp.multiply(g, 1 - self.beta1, out=scratch)
        m += scratch
        v *= self._keep(self.beta2, finite)
        xp.multiply(g, g, out=scratch)
        scratch *= 1 - self.beta2
        v += scratch
        xp.sqrt(v, out=scratch)
        scratch /= xp.sqrt(self._bias_correction(self.beta2))
        scratch += self.epsilon
        xp.divide(m, scratch, out=scratch)
        scratch *= rate / self._bias_correction(self.beta1)
        self.data -= scratch

    def _bias_correction(self, beta):
        """1 - beta^t, a 0-d array; written so that beta near 1 does not cost the first
        steps four digits.
        """
        steps = self.xp.maximum(self.updates, 1)
        return -self.xp.expm1(steps * (math.log(beta) if beta else -math.inf)).astype(
            self.dtype
        )


def schedule(
    peak: float, steps: int, warmup: int = 0, decay: float = 0.0, floor: float = 0.0
) -> Callable[[int], float]:
    """Warm-up, plateau, decay: rate(step) for step 0 .. steps - 1.

    Linear from peak / warmup up to `peak` in `warmup` steps, constant, then along half
    a cosine to `floor` * peak in the last fraction `decay` of all steps. decay=0:
    constant to the end; decay=1: a cosine schedule.
    """
    start = steps - round(decay * steps)

    def rate(step: int) -> float:
        if step < warmup:
            return peak * (step + 1) / warmup
        if step < start or start >= steps:
            return peak
        progress = min(1.0, (step - start) / (steps - start))
        return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))

    return rate
