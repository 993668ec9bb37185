"""Gradients checked by the complex step, to the last digits.

For an analytic f, f(x + ihv) = f(x) + ih f'(x)v - O(h^2), so f'(x)v = Im f(x + ihv) /
h. There is no subtraction, hence no cancellation: with h = 1e-30 the directional
derivative is exact to rounding. One extra forward pass, all inputs and parameters moved
at once, checks a whole unrolled network. Run the same trick over `backward` and it
yields Hessian-vector products, without any code for second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from . import primitives
from .engine import Parameter, Tape, Tensor

STEP = 1e-30


@contextmanager
def _moved(parameters, directions):
    """The parameters at data + i * STEP * direction, with complex gradient buffers;
    afterwards as they were.
    """
    before = [(p.data, p.grad, p.offset) for p in parameters]
    for parameter, direction in zip(parameters, directions, strict=True):
        data = np.asarray(
            parameter.data + 1j * STEP * direction
        )  # 0-d arrays, too, stay arrays
        parameter.bind(data, np.zeros_like(data))
    try:
        yield
    finally:
        for parameter, place in zip(parameters, before, strict=True):
            parameter.bind(*place)


def _direction(rng, shape):
    """Random, with no component so small that an error in it could hide."""
    v = rng.uniform(0.1, 1.0, shape) * rng.choice([-1.0, 1.0], shape)
    return v / np.sqrt(max(v.size, 1))


def _tensors(result):
    """The Tensors of a result: one, or a nested tuple of them such as `output, (hidden,
    cell)`.
    """
    return (
        [t for part in result for t in _tensors(part)]
        if isinstance(result, (tuple, list))
        else [result]
    )


def _scalar(result, rng):
    """A function's result contracted with fixed random weights."""
    total = None
    for r in _tensors(result):
        part = primitives.sum(r * _direction(rng, r.shape)) if r.shape else r * 1.0
        total = part if total is None else total + part
    return total


def gradcheck(
    function: Callable,
    *inputs,
    parameters: Sequence[Parameter] | Mapping[str, Parameter] = (),
    seed: int = 0,
    tolerance: float = 1e-10,
) -> float:
    """Check `tape.backward` through function(*inputs) against the complex step; returns
    the largest relative error.

    `inputs` are float64 arrays (integer and bool arrays are passed on unchanged) or
    Parameters; `parameters` are further float64 Parameters that the function uses
    without being given them (`module.astype(np.float64)` makes such a copy of a
    network), by name if they are to be named (`dict(module.named_parameters())`). A
    result that is not a scalar is contracted with random weights. AssertionError names
    the worst argument, both numbers and the seed. TypeError: something is not float64.
    On NumPy only.
    """
    inputs = [x if isinstance(x, Parameter) else np.asarray(x) for x in inputs]
    given = [x for x in inputs if isinstance(x, Parameter)]
    names = [f"parameter {k}" for k in range(len(given) + len(parameters))]
    if isinstance(parameters, Mapping):
        names[len(given) :] = [f"parameter {name!r}" for name in parameters]
        parameters = parameters.values()
    parameters = [*given, *parameters]
    moving = [
        k
        for k, x in enumerate(inputs)
        if x.dtype.kind == "f" and not isinstance(x, Parameter)
    ]
    for x in [*(inputs[k] for k in moving), *parameters]:
        if x.dtype != np.float64:
            raise TypeError(
                f"gradcheck needs float64, got {x.dtype} of shape {x.shape}; convert "
                "with .astype(np.float64)"
            )
    rng = np.random.default_rng(seed)
    directions = [
        _direction(rng, x.shape) for x in [*(inputs[k] for k in moving), *parameters]
    ]
    weights = rng.integers(2**32)

    with Tape() as tape:
        watched = [tape.watch(x) if k in moving else x for k, x in enumerate(inputs)]
        loss = _scalar(function(*watched), np.random.default_rng(weights))
    if not loss.id:
        raise AssertionError(
            "gradient check: the result does not depend on any input or parameter; "
            "was something detached?"
        )
    gradients = tape.gradient(
        loss, [watched[k] for k in moving] + parameters, strict=False
    )

    def compare(directions):
        nudged = list(inputs)
        for place, v in zip(moving, directions, strict=False):
            nudged[place] = np.asarray(inputs[place] + 1j * STEP * v)
        with _moved(parameters, directions[len(moving) :]):
            exact = float(
                _scalar(function(*nudged), np.random.default_rng(weights)).data.imag
                / STEP
            )
        products = [np.sum(g * v) for g, v in zip(gradients, directions, strict=True)]
        ours, scale = (
            float(sum(products)),
            max(
                sum(
                    np.abs(g * v).sum()
                    for g, v in zip(gradients, directions, strict=True)
                ),
                abs(exact),
                1e-12,
            ),
        )
        return abs(ours - exact) / scale, ours, exact

    error = compare(directions)[0]
    if error <= tolerance:
        return error
    one_by_one = [
        compare([v if k == only else 0 * v for k, v in enumerate(directions)])
        for only in range(len(directions))
    ]
    only, (error, ours, exact) = max(enumerate(one_by_one), key=lambda item: item[1][0])
    name = [*(f"input {k}" for k in moving), *names][only]
    raise AssertionError(
        f"gradient check failed, worst at {name} of shape {directions[only].shape}:\n"
        f"backward gives {ours!r}, the complex step {exact!r},\n"
        f"relative error {error:.2e} over tolerance {tolerance:.0e}, seed {seed}"
    )


def hessian_vector_product(
    loss: Callable[[], Tensor],
    parameters: Sequence[Parameter],
    vectors: Sequence[np.ndarray],
) -> list[np.ndarray]:
    """H v for the Hessian H of a scalar `loss()` in float64 `parameters`, exact: the
    imaginary part of the gradient at data + ihv.

    `parameters` must be all those that `loss` uses, since real and complex ones do not
    mix; give zeros as `vectors` for the others.
    """
    parameters = list(parameters)
    with _moved(parameters, vectors):
        with Tape() as tape:
            value = loss()
        tape.backward(value)
        return [np.asarray(p.grad.imag / STEP) for p in parameters]
