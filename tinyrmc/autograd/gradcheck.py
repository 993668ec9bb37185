"""Gradients checked by the complex step, to the last digits.

For an analytic f, f(x + ihv) = f(x) + ih f'(x)v - O(h^2), so f'(x)v = Im f(x + ihv) /
h. Nothing is subtracted, so nothing cancels: with h = 1e-30 the directional derivative
is exact to rounding. One extra forward pass, with all inputs and parameters moved at
once, checks a whole unrolled network. A function that is not analytic (it takes the
modulus of a complex number, or its real part) has another slope there: a plain
difference, to a few digits, finds that out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backend.seeds import generator
from ..errors import check_number
from . import primitives
from .engine import Parameter, Tape, Tensor
from .nested import items, leaves, named_leaves, refilled

STEP = 1e-30
REAL_STEP = 1e-6  # of the plain difference


_ALONE = threading.RLock()  # held by a check: two would move the same parameters


@contextmanager
def _moved(parameters: Sequence[Parameter], moves: Iterable) -> Iterator[None]:
    """The parameters at data + move, with gradient buffers of that dtype. Afterwards
    they are as they were.
    """
    before = [(p.data, p.grad) for p in parameters]
    for parameter, move in zip(parameters, moves, strict=True):
        data = np.asarray(parameter.data + move)  # 0-d arrays must stay arrays
        parameter.bind(data, np.zeros_like(data))
    try:
        yield
    finally:
        for parameter, place in zip(parameters, before, strict=True):
            parameter.bind(*place)


def _direction(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random, with no component so small that an error in it could hide."""
    v = rng.uniform(0.1, 1.0, shape) * rng.choice([-1.0, 1.0], shape)
    return v / np.sqrt(max(v.size, 1))


def _holds_arrays(value: Any) -> bool:
    """Whether an input is a tuple or dict of arrays, and no list of numbers."""
    parts = [part for _, part in items(value)]
    return isinstance(value, dict) or any(
        isinstance(x, np.ndarray | Tensor) or _holds_arrays(x) for x in parts
    )


def _used(tape: Tape, result: Tensor) -> set[int]:
    """The ids of all values on the tape that a result depends on."""
    used = {result.id}
    for _, _, inputs, outputs, *_ in reversed(tape.entries):
        if any(id in used for id, _, _ in outputs):
            used |= {place[0] for place in inputs if place}
    return used


def _scalar(result: Any, rng: np.random.Generator) -> Any:
    """A function's result contracted with fixed random weights."""
    parts = [primitives.sum(r * _direction(rng, r.shape)) for r in leaves(result)]
    return sum(parts[1:], parts[0])


def _named(function: Any, inputs: Iterable, parameters: Any) -> dict:
    """All Parameters of a check, each once, by the names that messages give them."""
    numbered = [x for x in inputs if isinstance(x, Parameter)]
    named: list[tuple[Any, Parameter]] = []
    for owner in function, getattr(function, "__self__", function), parameters:
        if hasattr(owner, "named_parameters"):
            named += owner.named_parameters()
        elif isinstance(owner, Mapping):
            named += owner.items()
        elif owner is parameters:
            numbered += owner
    found: dict[str, Parameter] = {}
    for name, parameter in [*named, *enumerate(numbered)]:
        if not any(parameter is known for known in found.values()):
            label = f"parameter {name!r}"
            found[label + "'" * (label in found)] = parameter
    return found


class _Trial:
    """One gradient check: a loss, what moves in it, and two ways to its slope.

    `variables` are the inputs that move and then the parameters, by the names that
    messages give them; `directions` has a random one for each.
    """

    def __init__(self, function: Callable, inputs: Iterable, parameters, seed: int):
        self.function = function
        self.form = [x if _holds_arrays(x) else None for x in inputs]
        given: dict[str, Any] = {}
        for k, x in enumerate(inputs):
            given |= (
                named_leaves(x, f"input {k}") if self.form[k] else {f"input {k}": x}
            )
        self.inputs: list[Any] = [
            x if isinstance(x, Parameter) else np.asarray(x) for x in given.values()
        ]
        named = _named(function, self.inputs, parameters)
        self.parameters = list(named.values())
        self.moving = [
            k
            for k, x in enumerate(self.inputs)
            if x.dtype.kind in "fc" and not isinstance(x, Parameter)
        ]
        names = [*given]
        self.variables = {names[k]: self.inputs[k] for k in self.moving} | named
        for x in self.variables.values():
            if x.dtype != np.float64:
                raise TypeError(
                    f"gradcheck needs float64, got {x.dtype} of shape {x.shape}; "
                    "convert with .astype(np.float64)"
                )
        if not all(x.size for x in self.variables.values()) or not self.variables:
            raise ValueError("gradcheck needs numbers to move, in inputs or parameters")
        rng = generator(seed)
        self.directions = [_direction(rng, x.shape) for x in self.variables.values()]
        self.weights = rng.integers(2**32)

    def result(self, inputs: list) -> Any:
        """The function's result for these arrays, in the form that it was given."""
        return self.function(*refilled(self.form, inputs))

    def loss(self, inputs: list) -> Any:
        """The function's result as one number, by the same weights every time."""
        return _scalar(self.result(inputs), np.random.default_rng(self.weights))

    def tape_gradients(self) -> list[np.ndarray]:
        """The gradient with respect to each variable: this is what is on trial."""
        inputs = list(self.inputs)
        with Tape() as tape:
            for k in self.moving:
                inputs[k] = tape.watch(inputs[k])
            result = self.result(inputs)
            parts = leaves(result)
            for name, part in named_leaves(result, "result").items():
                if not isinstance(part, Tensor):
                    raise TypeError(
                        f"gradcheck needs results that are Tensors, and {name} is a "
                        f"{type(part).__name__}; was its .data taken?"
                    )
            if not any(part.size for part in parts):
                raise ValueError("gradcheck got a result without numbers to check")
            value = _scalar(result, np.random.default_rng(self.weights))
        wrt = [*(inputs[k] for k in self.moving), *self.parameters]
        used = _used(tape, value)
        for name, t in zip(self.variables, wrt, strict=True):
            if t.id not in used:
                raise AssertionError(
                    f"gradient check: the result does not depend on {name}; was it "
                    "detached? If it should not, leave it out"
                )
        return tape.gradient(value, wrt)

    def at(self, step: complex, directions: list) -> Any:
        """The loss a step along all directions at once."""
        inputs = list(self.inputs)
        moves = [step * v for v in directions]
        for k, move in zip(self.moving, moves, strict=False):
            # a Tensor, as on the tape: x * x of NumPy's own would make an array
            inputs[k] = Tensor(np.asarray(inputs[k] + move))
        with _moved(self.parameters, moves[len(self.moving) :]):
            return self.loss(inputs).data

    def complex_slope(self, directions: list) -> float:
        """The derivative along all directions at once: this is the witness."""
        return float(self.at(1j * STEP, directions).imag / STEP)

    def sides(self, step: float = REAL_STEP) -> tuple[float, float, float]:
        """The slopes below and above by plain differences, and how far off they are.
        What is stopped has its value of here everywhere.
        """
        stopped: list[np.ndarray] = []
        values = []
        for k in (0, -2, -1, 1, 2):
            kept = iter(stopped)

            def same(x: np.ndarray, k=k, kept=kept) -> np.ndarray:
                if k == 0:
                    stopped.append(x.copy())
                return x if k == 0 else next(kept, x)

            primitives.STOPPED[threading.get_ident()] = same
            try:
                values.append(float(self.at(k / 2 * step, self.directions)))
            finally:
                del primitives.STOPPED[threading.get_ident()]
        here, below, half_below, half_above, above = values
        left, right = (here - below) / step, (above - here) / step
        room = 1e-5 * max(abs(left), abs(right)) + 1e-14 * abs(here) / step
        # half a step would give about the same, but where higher derivatives decide
        room += abs((left + right) / 2 - (half_above - half_below) / step) * 2
        return left, right, room

    def require_analytic(self, exact: float, gradients: list) -> None:
        """ValueError if plain differences tell another slope. At a kink any slope
        between those of both sides will do.
        """
        left, right, room = self.sides()
        terms = zip(gradients, self.directions, strict=True)
        room += 1e-5 * sum(np.abs(g * v).sum() for g, v in terms)
        if not np.isfinite([left, right, exact, room]).all():
            return  # the comparison of both slopes says more
        if not min(left, right) - room <= exact <= max(left, right) + room:
            advice = self.kink() or (
                " Does it take the modulus of complex numbers, or their real part? For "
                "np.abs(x) you can write x * np.sign(x.real), for a norm "
                "np.sqrt(np.sum(x * x))"
            )
            raise ValueError(
                f"gradcheck cannot judge this: its complex step gives {exact:.6g}, a "
                f"difference {(left + right) / 2:.6g}.{advice}"
            )

    def kink(self) -> str:
        """A sentence if the slopes of both sides differ; "" if not."""
        left, right, room = self.sides()
        nearer, near, _ = self.sides(REAL_STEP / 2)
        if not abs(left - right) > room or (
            4 * abs(nearer - near) < 3 * abs(left - right)  # it bends
        ):
            return ""
        return (
            f"\nThe function has a kink here, as a tie of max is: its slope is "
            f"{left:.6g} on one side, {right:.6g} on the other; move the inputs a bit"
        )

    def compare(self, gradients: list, directions: list) -> tuple[float, float, float]:
        """(relative error, slope by the tape, slope by the complex step). The error is
        relative to the size of the terms that add up to the slope.
        """
        exact = self.complex_slope(directions)
        terms = [g * v for g, v in zip(gradients, directions, strict=True)]
        ours = float(sum(np.sum(term) for term in terms))
        size = max(sum(np.abs(term).sum() for term in terms), abs(exact), 1e-12)
        return abs(ours - exact) / size, ours, exact

    def one_by_one(self, gradients: list) -> dict[str, tuple[float, float, float]]:
        """`compare` for each variable moved alone."""
        alone = {}
        for only, name in enumerate(self.variables):
            directions = [(k == only) * v for k, v in enumerate(self.directions)]
            alone[name] = self.compare(gradients, directions)
        return alone


def gradcheck(
    function: Callable[..., Any],
    *inputs: Any,
    parameters: Sequence[Parameter] | Mapping[str, Parameter] | Any = (),
    seed: int = 0,
    tolerance: float = 1e-10,
) -> float:
    """Check `tape.backward` through function(*inputs) against the complex step.

    Returns the largest relative error. A result that is not a scalar is contracted with
    random weights. On NumPy only.

    Args:
        inputs: float64 arrays or Parameters, or tuples and dicts of these, such as a
            core's state; integer and bool arrays are passed on unchanged.
        parameters: further float64 Parameters that the function uses without being
            given them, or the Module that has them; `module.astype(np.float64)` makes
            such a copy of a network. A mapping names them in messages. If `function` is
            a Module, or a method of one, its own are checked too.
        seed: of the random directions and weights.
        tolerance: the largest relative error that passes.

    AssertionError names the worst argument, both numbers and the seed, or an argument
    that the result does not depend on, and says so where the function has a kink, such
    as a tie of `max`. TypeError: something is not float64, or not a
    Tensor. ValueError: there is nothing to check, or the complex step cannot: the
    function takes the modulus of complex numbers, or their real part.

    Meanwhile the parameters have other values, complex ones too, which another thread
    would see; afterwards they are as they were. A second check waits for the first.
    """
    check_number("gradcheck", "tolerance", tolerance, "[0, 1)")
    with _ALONE:
        return _checked(function, inputs, parameters, seed, tolerance)


def _checked(function, inputs, parameters, seed: int, tolerance: float) -> float:
    trial = _Trial(function, inputs, parameters, seed)
    gradients = trial.tape_gradients()
    error, _, exact = trial.compare(gradients, trial.directions)
    trial.require_analytic(exact, gradients)
    if error <= tolerance:
        return error
    alone = trial.one_by_one(gradients)
    worst = max(alone, key=lambda name: alone[name][0])
    error, ours, exact = alone[worst]
    raise AssertionError(
        f"gradient check failed, worst at {worst} of shape "
        f"{trial.variables[worst].shape}:\n"
        f"backward gives {ours!r}, the complex step {exact!r},\n"
        f"relative error {error:.2e} over tolerance {tolerance:.0e}, seed {seed}"
        f"{trial.kink()}"
    )
