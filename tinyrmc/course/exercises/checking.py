"""Chapter 4: checking gradients."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from .exercise import exercise, normal
from .mended import mended

# --- Functions to differentiate, all analytic -----------------------------------------


def waves(x):
    """The sum of the sines."""
    return np.sin(x).sum()


def cubes(x):
    """The sum of the cubes."""
    return (x**3).sum()


def neighbours(x):
    """The sum of the products of neighbouring entries."""
    return (x.reshape(-1)[1:] * x.reshape(-1)[:-1]).sum()


def lifted(x):
    """A small change on top of a million: what a subtraction loses."""
    return 1e6 + np.exp(x).sum()


def _entry_by_entry(difference, moved=np.eye):
    """A gradient made of `difference(f, x, step, ...)`, a step of 1 in one entry, or in
    those that `moved` says.
    """

    def gradient(f, x, *h):
        steps = moved(x.size).reshape(x.size, *x.shape)
        slopes = [difference(f, x, step, *h) for step in steps]
        return np.array(slopes).reshape(x.shape)

    return gradient


def _row_by_row(difference):
    """The same, but a step of 1 in all that x[i] names, which may be a whole row."""

    def gradient(f, x, *h):
        found = np.zeros(x.shape)
        for i in range(len(x)):
            step = np.zeros(x.shape)
            step[i] = 1
            found[i] = difference(f, x, step, *h)
        return found

    return gradient


def _imaginary(f, x, step):
    return f(x + 1e-30j * step).imag / 1e-30


def _difference(f, x, step, h=1e-5):
    return (f(x + h * step) - f(x - h * step)) / (2 * h)


@exercise(
    cases=lambda rng: [
        (waves, rng.normal(size=4), 1e-5),
        (cubes, rng.normal(size=(2, 3)), 0.1),  # so large that its error shows: h^2
        (neighbours, rng.normal(size=(3, 3)), 1e-4),
        (waves, np.array(0.3), 0.5),
        (cubes, 10 * rng.normal(size=3), 1e-3),
    ],
    hints=[
        "Each entry of x needs two calls of f: move that entry up and down, and leave "
        "all others where they were.",
        "`for place in np.ndindex(x.shape):` goes through all entries; a copy of x, or "
        "zeros with an h at `place`, moves one of them. (x[place] += h and then -= h "
        "need not give back the last digit: move a copy.)",
        "(f(x + step) - f(x - step)) / (2 * h): how far apart are the two points?",
    ],
    mistakes={
        "your second point is x itself: this is the "
        "forward difference": _entry_by_entry(
            lambda f, x, step, h: (f(x + h * step) - f(x)) / h
        ),
        "entries that have had their turn stay moved: begin each time with new "
        "zeros, or a new copy of x": _entry_by_entry(_difference, moved=np.tri),
        "you go along the first axis only, so that a whole row moves at once; "
        "np.ndindex(x.shape) goes through all entries": _row_by_row(_difference),
    },
    tolerance=1e-8,
)
def central_difference(f, x, h):
    """The gradient of f by central differences: (f(x + h) - f(x - h)) / 2h.

    f makes a number of an array; x (...) -> like x, one difference for each entry.
    """
    gradient = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[place] = h
        gradient[place] = (f(x + step) - f(x - step)) / (2 * h)
    return gradient


@exercise(
    cases=lambda rng: [
        (waves, rng.normal(size=4)),
        (cubes, rng.normal(size=(2, 3))),
        (neighbours, rng.normal(size=(3, 3))),
        (lifted, rng.normal(size=3)),
        (cubes, 1e3 * rng.normal(size=2)),
        (waves, np.array(-0.7)),
    ],
    hints=[
        "Move one entry by i h: x + 1j * step. Then the imaginary part of f, divided "
        "by h, is the derivative.",
        "There is no subtraction, so h may be as small as 1e-30.",
        "f(x + 1j * step).imag / h",
    ],
    mistakes={
        "you take the real part: that is the value of f, not "
        "its slope": _entry_by_entry(
            lambda f, x, step: f(x + 1e-30j * step).real / 1e-30
        ),
        "entries that have had their turn stay moved: begin each time with new "
        "zeros, or a new copy of x": _entry_by_entry(_imaginary, moved=np.tri),
        "your h is 1: the series needs an h so small that h * h is lost": (
            _entry_by_entry(lambda f, x, step: f(x + 1j * step).imag)
        ),
        "you go along the first axis only, so that a whole row moves at once; "
        "np.ndindex(x.shape) goes through all entries": _row_by_row(_imaginary),
    },
    tolerance=1e-12,
)
def complex_step(f, x):
    """The gradient of f by complex steps: Im f(x + ih) / h, with h = 1e-30.

    f makes a number of an array; x (...) -> like x, one step for each entry.
    """
    h = 1e-30
    gradient = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[place] = h
        gradient[place] = f(x + 1j * step).imag / h
    return gradient


def _complex(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def _divided_by_one_less(x):
    d = x - x.mean(axis=-1, keepdims=True)
    return (d * d).sum(axis=-1) / (x.shape[-1] - 1)


@exercise(
    cases=lambda rng: [
        normal(rng, (3, 5)),
        (_complex(rng, 4),),
        (_complex(rng, 2, 3, 3),),
        (1e3 * rng.normal(size=(2, 4)),),
        (1e5 + rng.normal(size=(2, 6)),),  # where a difference of squares is lost
        (_complex(rng, 3, 1),),
    ],
    hints=[
        "The mean of the squared distances from the mean, without absolute values: "
        "what is the square of d, written as a product?",
        "np.var takes |d|^2, which is not d * d where d is complex.",
    ],
    mistakes={
        "you square absolute values, as np.var does, so a complex step finds no "
        "slope": (lambda x: np.var(x, axis=-1)),
        "you divide the sum by n - 1": _divided_by_one_less,
        "you do not subtract the mean first": lambda x: (x * x).mean(axis=-1),
        "you do not keep the rows apart: this is the variance of all entries": (
            lambda x: np.square(x - x.mean()).mean()
        ),
    },
    leading="x",
    anysize="x",
)
def variance(x):
    """The mean squared distance from the mean over the last axis: (..., n) -> (...).

    For real and for complex numbers.
    """
    d = x - x.mean(axis=-1, keepdims=True)
    return (d * d).mean(axis=-1)


# --- Rules, right and wrong: vjp(g, x) is the gradient of x, g that of forward(x) -----


def tanh_rule(g, x):
    """Right."""
    return g * (1 - np.tanh(x) ** 2)


def tanh_rule_without_the_square(g, x):
    """Wrong."""
    return g * (1 - np.tanh(x))


def tanh_rule_off_by_a_millionth(g, x):
    """Wrong, by little."""
    return 1.000001 * tanh_rule(g, x)


def sin_rule(g, x):
    """Right."""
    return g * np.cos(x)


def sin_rule_wrong_in_the_last_entry(g, x):
    """Wrong in one place."""
    gradient = sin_rule(g, x)
    gradient[..., -1] *= 1.01
    return gradient


def sin_rule_off_by_a_billionth(g, x):
    """Wrong, by very little."""
    return (1 + 1e-9) * sin_rule(g, x)


def sin_rule_in_the_wrong_places(g, x):
    """Wrong, though the sum of all entries is right where g is 1."""
    return sin_rule(g, x)[..., ::-1]


def sin_rule_without_g(g, x):
    """Wrong, but where g is 1."""
    return sin_rule(1, x)


def lifted_sin(x):
    """A million, and small changes on top of it: what a subtraction loses."""
    return 1e6 + np.sin(x)


def exp_rule(g, x):
    """Right."""
    return g * np.exp(x)


def exp_rule_off_by_a_millionth(g, x):
    """Wrong, by little."""
    return 1.000001 * exp_rule(g, x)


def softmax_of(x):
    """A softmax that takes complex numbers, too."""
    e = np.exp(x - x.real.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_rule(g, x):
    """Right."""
    gy = g * softmax_of(x)
    return gy - softmax_of(x) * gy.sum(axis=-1, keepdims=True)


def tiny(x):
    """A function with slopes of about 1e-12."""
    return 1e-12 * np.sin(x)


def tiny_rule(g, x):
    """Right."""
    return 1e-12 * sin_rule(g, x)


def tiny_rule_with_the_wrong_sign(g, x):
    """Wrong by as much as it can be, and by next to nothing."""
    return -tiny_rule(g, x)


def squares(x):
    """The sum of the squares of each row, an array of another shape than x."""
    return (x * x).sum(axis=-1)


def squares_rule(g, x):
    """Right."""
    return 2 * g[..., None] * x


def flat(x):
    """Depends on nothing."""
    return 0 * x + 3


def zero_rule(g, x):
    """Wrong wherever anything depends on x, and right where nothing does."""
    return np.zeros(x.shape)


def _judge(
    forward, vjp, x, *, g=None, v=None, tolerance=1e-10, floor=0.0, ceiling=np.inf
):
    """The solution and, by its arguments, ways to get it wrong.

    `floor` and `ceiling` bound the size by which the difference is measured.
    """
    rng = np.random.default_rng(1)
    v = rng.normal(size=x.shape) if v is None else v
    g = rng.normal(size=forward(x).shape) if g is None else g
    exact = (g * forward(x + 1e-30j * v).imag).sum() / 1e-30
    terms = vjp(g, x) * v
    size = np.clip(max(abs(terms).sum(), abs(exact)), floor, ceiling)
    return abs(terms.sum() - exact) <= tolerance * size


@exercise(
    cases=lambda rng: [
        (np.tanh, tanh_rule, rng.normal(size=(3, 4))),
        (np.tanh, tanh_rule_without_the_square, rng.normal(size=(3, 4))),
        (np.tanh, tanh_rule_off_by_a_millionth, rng.normal(size=5)),
        (np.sin, sin_rule, rng.normal(size=6)),
        (np.sin, sin_rule_wrong_in_the_last_entry, rng.normal(size=(2, 6))),
        # Slopes of hundreds of millions: rounding is relative.
        (np.exp, exp_rule, 20 + rng.normal(size=8)),
        # And of 1e17: no absolute tolerance is large enough for all.
        (np.exp, exp_rule, 40 + rng.normal(size=(2, 3))),
        (np.exp, exp_rule_off_by_a_millionth, 40 + rng.normal(size=(2, 3))),
        (np.exp, exp_rule, np.array([-20.0, 0.0, 20.0, 40.0])),
        (tiny, tiny_rule, rng.normal(size=(2, 2))),
        # And none is small enough.
        (tiny, tiny_rule_with_the_wrong_sign, rng.normal(size=(2, 2))),
        (softmax_of, softmax_rule, rng.normal(size=(3, 3))),
        (softmax_of, zero_rule, rng.normal(size=(3, 3))),
        (squares, squares_rule, rng.normal(size=(2, 3))),  # another shape than x
        (flat, zero_rule, rng.normal(size=3)),  # nothing to divide by
        (np.tanh, tanh_rule, np.array(0.3)),  # no axis
        # Wrong where x is 0, and its own direction stands still.
        (np.sin, sin_rule_wrong_in_the_last_entry, np.array([0.5, 0.0])),
        (lifted_sin, sin_rule, rng.normal(size=4)),
        # A single number: no other entry hides the error.
        (np.sin, sin_rule_off_by_a_billionth, np.array([0.7])),
        (np.sin, sin_rule_in_the_wrong_places, rng.normal(size=4)),
        (np.sin, sin_rule_without_g, rng.normal(size=(2, 3))),
    ],
    hints=[
        "Draw a direction v for x and weights g for the result. Then two numbers must "
        "agree: the rule's gradient times v, and the slope of sum(g * forward(x)) "
        "along v.",
        "The slope comes from one complex step:\n"
        "(g * forward(x + 1e-30j * v).imag).sum() / 1e-30",
        "They agree when they differ by at most 1e-10 or so of the size of the terms "
        "that you add up, abs(vjp(g, x) * v).sum(). Draw both v and g at random, so "
        "that nothing cancels by design.",
    ],
    mistakes={
        "you take np.isclose as it is: with rtol=1e-5 a rule that is off by a "
        "millionth passes, with atol=1e-8 any rule with tiny slopes": partial(
            _judge, tolerance=1e-5, floor=1e-3
        ),
        "np.isclose adds atol=1e-8 to the tolerance that you give it, and any rule "
        "with tiny slopes passes: pass atol=0": partial(_judge, floor=100.0),
        "your g or v is 1 everywhere: shares always sum to 1, and all scores may move "
        "alike, so for a softmax you compare nothing but rounding": (
            lambda forward, vjp, x: _judge(forward, vjp, x, g=np.ones(forward(x).shape))
        ),
        "you do not measure the difference by the size of the numbers: a right "
        "rule with large slopes fails": partial(_judge, floor=1.0, ceiling=1.0),
    },
)
def rule_is_right(forward, vjp, x):
    """Whether vjp(g, x) is the gradient of x, where g is that of forward(x).

    x (...) -> True or False, and sure to the tenth digit.
    """
    rng, h = np.random.default_rng(0), 1e-30
    v = rng.normal(size=x.shape)
    g = rng.normal(size=forward(x).shape)
    exact = (g * forward(x + 1j * h * v).imag).sum() / h
    terms = vjp(g, x) * v
    return abs(terms.sum() - exact) <= 1e-10 * max(abs(terms).sum(), abs(exact))


# --- Debugging ------------------------------------------------------------------------


def _two_layers(weights, x, target, *, slope=lambda h: 1 - np.tanh(h) ** 2):
    """The chapter's first function, as it is unless `slope` mends it."""
    W1, b1, W2, b2 = weights
    h = np.tanh(x @ W1 + b1)
    error = h @ W2 + b2 - target
    g = 2 * error / error.size
    by_W2 = h.T @ g
    by_b2 = g.sum(axis=0)
    g = g @ W2.T * slope(h)
    return [x.T @ g, g.sum(axis=0), by_W2, by_b2]


def _layers(rng):
    def case(B, D, F, C):
        weights = [*normal(rng, (D, F), F, (F, C), C)]
        return weights, *normal(rng, (B, D), (B, C))

    return [case(4, 2, 5, 3), case(3, 3, 3, 3), case(1, 1, 2, 1)]


@mended(
    _two_layers,
    cases=_layers,
    hints=[
        "Which of the four gradients are right? The wrong line stands between those "
        "that are right and those that are not.",
        "What is h: what goes into the tanh, or what comes out of it?",
    ],
    mistakes={
        "the tanh has no slope any more": partial(_two_layers, slope=lambda h: 1.0),
        "your slope is that of a sigmoid; here h is a tanh": partial(
            _two_layers, slope=lambda h: h * (1 - h)
        ),
        "your slope is 1 - h; it is 1 - h * h": partial(
            _two_layers, slope=lambda h: 1 - h
        ),
    },
)
def two_layers_back(weights, x, target):
    """The gradients of the mean squared error of tanh(x @ W1 + b1) @ W2 + b2.

    weights [W1, b1, W2, b2], x (B, D), target (B, C) -> a list like weights.
    """
    W1, b1, W2, b2 = weights
    h = np.tanh(x @ W1 + b1)
    error = h @ W2 + b2 - target
    g = 2 * error / error.size
    by_W2 = h.T @ g
    by_b2 = g.sum(axis=0)
    g = g @ W2.T * (1 - h * h)
    by_W1 = x.T @ g
    by_b1 = g.sum(axis=0)
    return [by_W1, by_b1, by_W2, by_b2]


def _unrolled(w, u, xs, *, late=1, add=1, further=1):
    """The chapter's second function, as it is unless `late` is 0."""
    hs = [0.0]
    for x in xs:
        hs.append(math.tanh(w * hs[-1] + u * x))
    by_w = by_u = 0.0
    g = hs[-1]
    for t in reversed(range(len(xs))):
        g = g * (1 - hs[t + 1] ** 2)
        by_w = add * by_w + g * hs[t + late]
        by_u = by_u + g * xs[t]
        g = g * w * further
    return by_w, by_u


@mended(
    _unrolled,
    cases=lambda rng: [
        (0.7, -1.2, [0.5]),
        (1.3, 0.4, [*map(float, rng.normal(size=3))]),
        (-0.8, 0.9, [*map(float, rng.normal(size=6))]),
    ],
    hints=[
        "With a single step, what should the derivative with respect to w be? (The "
        "memory begins as 0.)",
        "hs has one entry more than xs: hs[t] goes into step t, hs[t + 1] comes out. "
        "Which of the two did w multiply?",
    ],
    mistakes={
        "you keep what one step says about w; all steps use it, so they add "
        "up": partial(_unrolled, late=0, add=0),
        "nothing goes further back than one step any more": partial(
            _unrolled, late=0, further=0
        ),
    },
)
def steps_back(w, u, xs):
    """The derivatives of h * h / 2 at the end, where each step is h = tanh(w h + u x).

    w, u numbers, xs a list of numbers -> (by w, by u).
    """
    hs = [0.0]
    for x in xs:
        hs.append(math.tanh(w * hs[-1] + u * x))
    by_w = by_u = 0.0
    g = hs[-1]
    for t in reversed(range(len(xs))):
        g = g * (1 - hs[t + 1] ** 2)
        by_w = by_w + g * hs[t]
        by_u = by_u + g * xs[t]
        g = g * w
    return by_w, by_u
