"""Chapter 26: who owns a gradient, and a rule for the engine's table."""

from __future__ import annotations

import numpy as np

from .derived import by_complex_step
from .exercise import each, named, normal
from .mended import mended
from .used import used

KEPT = np.array([1.0, 2.0])  # what a forward pass has computed


BOTH, DOUBLED, MEAN_OF_TWO, OF_THE_FORWARD = named(
    both=lambda g: (g, g),
    doubled=lambda g: (2.0 * g,),
    mean_of_two=lambda g: (np.full(2, g / 2),),
    of_the_forward=lambda g: (KEPT.copy(),),
)


def _recordings(rng):
    """Entries (output, inputs, vjp); the loss is number 9, or 7."""
    sums = [(2, (0,), DOUBLED), (3, (0, 1), BOTH), (4, (3, 2), BOTH)]
    end = [(9, (4,), MEAN_OF_TWO)]
    twice = [(1, (0,), OF_THE_FORWARD), (2, (0,), OF_THE_FORWARD)]
    more = [(5, (1, 0), BOTH), (6, (4, 5), BOTH)]
    return [
        ([*sums, *end], 9, [0, 1]),
        ([(4, (0, 0), BOTH), (7, (4,), MEAN_OF_TWO)], 7, [0]),
        ([(9, (0,), MEAN_OF_TWO)], 9, [0]),
        ([*twice, (3, (1, 2), BOTH), (4, (0, 3), BOTH), *end], 9, [0]),
        ([*sums, *more, (9, (6,), MEAN_OF_TWO)], 9, [0, 1, 3]),
    ]


@mended(
    ("gradients[number] = gradients[number] + g", "gradients[number] += g"),
    cases=_recordings,
    hints=[
        "y = a + b has the vjp lambda g: (g, g): the same array, twice. Who else may "
        "hold an array that you write into?",
        "gradients[number] = gradients[number] + g makes a new array.",
    ],
    mistakes="""
        the last payment replaces those before it
            gradients[number] + g -> g
        you leave out all payments but the first
            = walk([(out, ins[:1], lambda g, f=f: f(g)[:1]) for out, ins, f in entries],
                loss, wanted)
    """,
    views=True,
)
def walk(entries, loss, wanted):
    """The gradients of the numbered values in `wanted`.

    entries: (number of the output, numbers of the inputs, vjp), in the order recorded.
    """
    gradients = {loss: np.ones(())}
    for output, inputs, vjp in reversed(entries):
        if output in gradients:
            for number, g in zip(inputs, vjp(gradients[output]), strict=True):
                if number in gradients:
                    gradients[number] = gradients[number] + g
                else:
                    gradients[number] = g
    return [gradients[number] for number in wanted]


def _by_rule(answer, g, x):
    """The engine's call, with all that the forward rule has saved."""
    y = np.sqrt((x * x).sum(axis=-1))
    return answer(np, (x,), g, x, y)


_of_length = by_complex_step(lambda x: np.sqrt((x * x).sum(axis=-1)), "x")


def _exact(g, x):
    nothing = ~x.any(axis=-1, keepdims=True)
    return np.where(nothing, 0.0, _of_length(g, x + nothing))


def _rows(rng, scale, *shape):
    return tuple(scale * x for x in normal(rng, shape[:-1], shape))


_WITH_A_SHORT_ROW = np.array([1.0, -2.0]), np.array([[3e-9, 4e-9], [3.0, 4.0]])
_WITH_A_ROW_OF_ZEROS = np.array([1.0, -2.0]), np.array([[3.0, 4.0], [0.0, 0.0]])


@used(
    _by_rule,
    cases=each(
        _rows,
        "1 2 3, 1 3 3, 1e3 2 2 5, 1 4 1",
        also=[_WITH_A_ROW_OF_ZEROS, _WITH_A_SHORT_ROW],
    ),
    hints=[
        "y^2 is the sum of x_k^2. Move one x_k a little: 2 y dy = 2 x_k dx_k.",
        "g and y lack the last axis: g[..., None]. Where y is 0, so is x: divide by 1 "
        "there, xp.where(y == 0, 1.0, y).",
    ],
    mistakes="""
        a row of zeros gives NaN: 0 / 0
            xp.where(y == 0, 1.0, y) -> y
        a row that is short but not 0 has a gradient like any other: only where y is 0
        divide by 1
            xp.where(y == 0, 1.0, y) -> xp.maximum(y, 1e-3)
        you add a small number to the length: for short rows that is not small
            xp.where(y == 0, 1.0, y) -> y + 1e-8
        you do not divide by the length
            g / length -> g
        you divide by the square of the length
            g / length -> g / length**2
    """,
    exact=_exact,
)
def length_vjp(xp, needs, g, x, y):
    """The gradient of x, where y is the length of each row.

    x (..., F), y and g (...) -> (..., F); zeros for a row of zeros.
    """
    length = xp.where(y == 0, 1.0, y)
    return (g / length)[..., None] * x
