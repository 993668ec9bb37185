"""Chapter 4: checking gradients."""

import math

import numpy as np

from .derived import by_complex_step
from .exercise import each, exercise, named, normal
from .experiments import Picture
from .mended import mended

# --- Functions to differentiate, all analytic -----------------------------------------

WAVES, CUBES, NEIGHBOURS, LIFTED = named(
    waves=lambda x: np.sin(x).sum(),
    cubes=lambda x: (x**3).sum(),
    neighbours=lambda x: (x.reshape(-1)[1:] * x.reshape(-1)[:-1]).sum(),
    lifted=lambda x: 1e6 + np.exp(x).sum(),  # what a subtraction loses
)

OF_ENTRIES = """
        entries that have had their turn stay moved: begin each time with new zeros, or
        a new copy of x
            step = np.zeros(x.shape) ->
            gradient = np.zeros(x.shape)
                -> gradient, step = np.zeros(x.shape), np.zeros(x.shape)
        you go along the first axis only, so that a whole row moves at once;
        np.ndindex(x.shape) goes through all entries
            np.ndindex(x.shape) -> range(len(x))
"""


@exercise(
    cases=lambda rng: [
        (WAVES, rng.normal(size=4), 1e-5),
        (CUBES, rng.normal(size=(2, 3)), 0.1),  # so large that its error shows: h^2
        (NEIGHBOURS, rng.normal(size=(3, 3)), 1e-4),
        (WAVES, np.array(0.3), 0.5),
        (CUBES, 10 * rng.normal(size=3), 1e-3),
    ],
    hints=[
        "Each entry of x needs two calls of f: move that entry up and down, and leave "
        "all others where they were.",
        "`for place in np.ndindex(x.shape):` goes through all entries; a copy of x, or "
        "zeros with an h at `place`, moves one of them. (x[place] += h and then -= h "
        "need not give back the last digit: move a copy.)",
        "(f(x + step) - f(x - step)) / (2 * h): how far apart are the two points?",
    ],
    mistakes="""
        your second point is x itself: this is the forward difference
            f(x - step)) / (2 * h) -> f(x)) / h
    """
    + OF_ENTRIES,
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
        (WAVES, rng.normal(size=4)),
        (CUBES, rng.normal(size=(2, 3))),
        (NEIGHBOURS, rng.normal(size=(3, 3))),
        (LIFTED, rng.normal(size=3)),
        (CUBES, 1e3 * rng.normal(size=2)),
        (WAVES, np.array(-0.7)),
    ],
    hints=[
        "Move one entry by i h: x + 1j * step. Then the imaginary part of f, divided "
        "by h, is the derivative.",
        "There is no subtraction, so h may be as small as 1e-30.",
        "f(x + 1j * step).imag / h",
    ],
    mistakes="""
        you take the real part: that is the value of f, not its slope
            .imag -> .real
        your h is 1: the series needs an h so small that h * h is lost
            1e-30 -> 1.0
    """
    + OF_ENTRIES,
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
    mistakes="""
        you square absolute values, as np.var does, so a complex step finds no slope
            = np.var(x, axis=-1)
        you divide the sum by n - 1
            (d * d).mean(axis=-1) -> (d * d).sum(axis=-1) / (x.shape[-1] - 1)
        you do not subtract the mean first
            - x.mean(axis=-1, keepdims=True) ->
    """,
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


def softmax_of(x):
    """A softmax that takes complex numbers, too."""
    e = np.exp(x - x.real.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


TINY, LIFTED_SIN, SQUARES, FLAT = named(
    tiny=lambda x: 1e-12 * np.sin(x),
    lifted_sin=lambda x: 1e6 + np.sin(x),
    squares=lambda x: (x * x).sum(axis=-1),  # another shape than x
    flat=lambda x: 0 * x + 3,
)
TANH, SIN, EXP, SOFTMAX, TINY_RULE, SQUARES_RULE = named(
    tanh_rule=lambda g, x: g * (1 - np.tanh(x) ** 2),
    sin_rule=lambda g, x: g * np.cos(x),
    exp_rule=lambda g, x: g * np.exp(x),
    softmax_rule=lambda g, x: (
        softmax_of(x) * (g - (g * softmax_of(x)).sum(axis=-1, keepdims=True))
    ),
    tiny_rule=lambda g, x: 1e-12 * SIN(g, x),
    squares_rule=lambda g, x: 2 * g[..., None] * x,
)
NO_SQUARE, TANH_OFF, LAST_WRONG, SIN_OFF, MISPLACED, NO_G, EXP_OFF, NEGATED, ZERO = (
    named(
        tanh_rule_without_the_square=lambda g, x: g * (1 - np.tanh(x)),
        tanh_rule_off_by_a_millionth=lambda g, x: 1.000001 * TANH(g, x),
        sin_rule_wrong_in_the_last_entry=lambda g, x: (
            SIN(g, x) * np.where(np.arange(x.shape[-1]) == x.shape[-1] - 1, 1.01, 1)
        ),
        sin_rule_off_by_a_billionth=lambda g, x: (1 + 1e-9) * SIN(g, x),
        # The sum of all entries is right where g is 1.
        sin_rule_in_the_wrong_places=lambda g, x: SIN(g, x)[..., ::-1],
        sin_rule_without_g=lambda g, x: SIN(1, x),
        exp_rule_off_by_a_millionth=lambda g, x: 1.000001 * EXP(g, x),
        tiny_rule_with_the_wrong_sign=lambda g, x: -TINY_RULE(g, x),
        zero_rule=lambda g, x: np.zeros(x.shape),  # right where nothing depends on x
    )
)


@exercise(
    cases=lambda rng: [
        (np.tanh, TANH, rng.normal(size=(3, 4))),
        (np.tanh, NO_SQUARE, rng.normal(size=(3, 4))),
        (np.tanh, TANH_OFF, rng.normal(size=5)),
        (np.sin, SIN, rng.normal(size=6)),
        (np.sin, LAST_WRONG, rng.normal(size=(2, 6))),
        # Slopes of hundreds of millions: rounding is relative.
        (np.exp, EXP, 20 + rng.normal(size=8)),
        # And of 1e17: no absolute tolerance is large enough for all.
        (np.exp, EXP, 40 + rng.normal(size=(2, 3))),
        (np.exp, EXP_OFF, 40 + rng.normal(size=(2, 3))),
        (np.exp, EXP, np.array([-20.0, 0.0, 20.0, 40.0])),
        (TINY, TINY_RULE, rng.normal(size=(2, 2))),
        # And none is small enough.
        (TINY, NEGATED, rng.normal(size=(2, 2))),
        (softmax_of, SOFTMAX, rng.normal(size=(3, 3))),
        (softmax_of, ZERO, rng.normal(size=(3, 3))),
        (SQUARES, SQUARES_RULE, rng.normal(size=(2, 3))),  # another shape than x
        (FLAT, ZERO, rng.normal(size=3)),  # nothing to divide by
        (np.tanh, TANH, np.array(0.3)),  # no axis
        # Wrong where x is 0, and its own direction stands still.
        (np.sin, LAST_WRONG, np.array([0.5, 0.0])),
        (LIFTED_SIN, SIN, rng.normal(size=4)),
        # A single number: no other entry hides the error.
        (np.sin, SIN_OFF, np.array([0.7])),
        (np.sin, MISPLACED, rng.normal(size=4)),
        (np.sin, NO_G, rng.normal(size=(2, 3))),
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
    mistakes="""
        you take np.isclose as it is: with rtol=1e-5 a rule that is off by a millionth
        passes, with atol=1e-8 any rule with tiny slopes
            abs(terms.sum() - exact) <= 1e-10 * max(abs(terms).sum(), abs(exact))
                -> np.isclose(terms.sum(), exact)
        np.isclose adds atol=1e-8 to the tolerance that you give it, and any rule with
        tiny slopes passes: pass atol=0
            abs(terms.sum() - exact) <= 1e-10 * max(abs(terms).sum(), abs(exact))
                -> np.isclose(terms.sum(), exact, rtol=1e-10)
        your g or v is 1 everywhere: shares always sum to 1, and all scores may move
        alike, so for a softmax you compare nothing but rounding
            g = rng.normal(size= -> g = np.ones(
        you do not measure the difference by the size of the numbers: a right rule with
        large slopes fails
            * max(abs(terms).sum(), abs(exact)) ->
    """,
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


_softmax_step = by_complex_step(softmax_of, "x")


def _shares(rng, *shape):
    g, x = normal(rng, shape, shape)
    return g, softmax_of(x)


_CERTAIN = np.array([[0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])


@exercise(
    cases=each(
        _shares,
        "4, 3 3, 2 3 5, 3 1",  # in the last the only share is always 1
        also=[(np.array([[1e3, -2e3, 500.0, 0.0], [2.0, 3.0, -1e3, 5.0]]), _CERTAIN)],
    ),
    hints=[
        "The derivative of share y_j with respect to score x_k is y_j (1 - y_k) where "
        "j = k, and -y_j y_k elsewhere.",
        "So x_k gets the sum over j of g_j y_j (delta_jk - y_k): g_k y_k, minus y_k "
        "times a sum that is the same for all k.",
        "That sum is (g * y).sum(axis=-1, keepdims=True).",
    ],
    mistakes="""
        you treat every share as if it stood alone, like a sigmoid
            = g * y * (1 - y)
        you leave out what a score takes from the other shares
            = g * y
        you sum over the first axis; the shares of a row lie along the last, axis=-1
            axis=-1 -> axis=0
        the sums lose their axis, so that broadcasting lays them along the columns
        (keepdims=True keeps it)
            , keepdims=True ->
        you take a mean over the shares of a row; what they give adds up
            gy.sum( -> gy.mean(
        you sum g alone, not g times the shares
            gy.sum -> g.sum
    """,
    leading="g y",
    anysize="g",
    exact=lambda g, y: _softmax_step(g, np.log(y)),
)
def softmax_vjp(g, y):
    """The gradient of x, where y = softmax(x) over the last axis.

    g (..., n) is the gradient of y (..., n) -> (..., n).
    """
    gy = g * y
    return gy - y * gy.sum(axis=-1, keepdims=True)


# --- Debugging ------------------------------------------------------------------------


def _layers(rng, B, D, F, C):
    weights = [*normal(rng, (D, F), F, (F, C), C)]
    return weights, *normal(rng, (B, D), (B, C))


@mended(
    ("1 - hidden**2", "1 - np.tanh(hidden) ** 2"),
    cases=each(_layers, "4 2 5 3, 3 3 3 3, 1 1 2 1"),
    hints=[
        "Which of the four gradients are right? The wrong line stands between those "
        "that are right and those that are not.",
        "What is `hidden`: what goes into the tanh, or what comes out of it?",
    ],
    mistakes="""
        the tanh has no slope any more
            * (1 - hidden**2) ->
        your slope is that of a sigmoid; `hidden` is a tanh
            (1 - hidden**2) -> hidden * (1 - hidden)
    """,
)
def two_layers_back(weights, x, target):
    """The gradients of the mean squared error of tanh(x @ W1 + b1) @ W2 + b2.

    weights [W1, b1, W2, b2], x (B, D), target (B, C) -> a list like weights.
    """
    W1, b1, W2, b2 = weights
    hidden = np.tanh(x @ W1 + b1)
    error = hidden @ W2 + b2 - target
    g = 2 * error / error.size
    by_W2 = hidden.T @ g
    by_b2 = g.sum(axis=0)
    g = g @ W2.T * (1 - hidden**2)
    by_W1 = x.T @ g
    by_b1 = g.sum(axis=0)
    return [by_W1, by_b1, by_W2, by_b2]


@mended(
    ("g * ms[t]\n", "g * ms[t + 1]\n"),
    cases=lambda rng: [
        (0.7, -1.2, [0.5]),
        (1.3, 0.4, [*map(float, rng.normal(size=3))]),
        (-0.8, 0.9, [*map(float, rng.normal(size=6))]),
    ],
    hints=[
        "With a single step, what should the derivative with respect to w be? (The "
        "memory begins as 0.)",
        "ms has one entry more than xs: ms[t] goes into step t, ms[t + 1] comes out. "
        "Which of the two did w multiply?",
    ],
    mistakes="""
        you keep what one step says about w; all steps use it, so they add up
            by_w + g * ms[t] -> g * ms[t]
        your slope is that of the step before: ms[t + 1] comes out of step t
            1 - ms[t + 1] ** 2 -> 1 - ms[t] ** 2
    """,
)
def steps_back(w, u, xs):
    """The derivatives of m * m / 2 at the end, where each step is m = tanh(w m + u x).

    w, u numbers, xs a list of numbers -> (by w, by u).
    """
    ms = [0.0]
    for x in xs:
        ms.append(math.tanh(w * ms[-1] + u * x))
    by_w = by_u = 0.0
    g = ms[-1]
    for t in reversed(range(len(xs))):
        g = g * (1 - ms[t + 1] ** 2)
        by_w = by_w + g * ms[t]
        by_u = by_u + g * xs[t]
        g = g * w
    return by_w, by_u


def _no_errors(curves):
    """The first thing that no errors of three derivatives would show, or nothing."""
    at = [each.x.argmin() for each in curves]
    if max(each.x[k] for each, k in zip(curves, at, strict=True)) > 1e-12:
        return "draw steps h down to 1e-20: only there one sees what each way loses"
    if any((each.y < 0).any() for each in curves):
        return "an error is a distance, so it is not below 0: take abs(...)"
    lost = [each.y[k] > 1e-3 for each, k in zip(curves, at, strict=True)]
    if all(lost):
        return (
            "with the smallest h all are wrong; the complex step is not, if h is in "
            "the imaginary part alone"
        )
    if sum(lost) < 2:
        return "with the smallest h both differences have lost their digits; here not"


picture = Picture("checking", curves=3, cannot_be=_no_errors)
