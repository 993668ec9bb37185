"""Chapter 8: layer normalisation and the row-wise MLP, g_psi of equation 7."""

import itertools

import numpy as np

from ... import equations
from .derived import by_complex_step
from .exercise import each, exercise, named, normal
from .experiments import Picture
from .mended import mended
from .tape import taped
from .used import used

EPSILON = 1e-5


def mean(x):
    return x.mean(axis=-1, keepdims=True)


def rms_normed(x, gain, epsilon):
    """RMS norm: x (..., F), which may be complex, gain (F,), a number -> (..., F)."""
    return gain * x / np.sqrt(mean(x * x) + epsilon)


def layer_normed(x, gain, epsilon):
    """Layer norm, which takes the mean off first. An offset has no say in gradients."""
    return rms_normed(x - mean(x), gain, epsilon)


def _gradient_case(rng, scale, epsilon, *shape):
    g, x, gain = normal(rng, shape, shape, shape[-1])
    return g, scale * (x + 1), gain, epsilon


def gradient_cases(flat=0.0):
    """Arguments (g, x, gain, epsilon); a row of all `flat` comes out as zeros."""
    g, gain = np.array([[0.5, -2, 1, 0.3], [2, 1, -1, 0.1]]), np.array([1.0, -2, 3, 0])
    flat_row = g, np.array([[flat] * 4, [1, -1, 1, -1]]), gain, 1e-2
    return each(
        _gradient_case,  # in the third epsilon counts, in the last a number is its mean
        "1 1e-5 3 5, 1 1e-5 4 4, 1 0.5 2 3 6, 1e3 1e-5 2 8, 1 1e-5 3 1",
        also=[flat_row],
    )


def _rows(rng, scale, shift, *shape):
    x, F = shift + scale * rng.normal(size=shape), shape[-1]
    return x, 1 + rng.random(F), rng.normal(size=F)


@exercise(
    cases=each(
        _rows,
        "0.05 0 3 5, 1 0 2 4 4, 1 0 4 4 4, 1e-3 0 3 6, 1 1e5 3 6",
        also=[(np.full((2, 3), 7.0), np.ones(3), np.array([1.0, 2.0, 3.0]))],
    ),
    hints=[
        "First the mean of each row, with keepdims=True so that you can take it off "
        "the row; then the mean of the squares of what remains.",
        "d = x - x.mean(axis=-1, keepdims=True), and the variance is\n"
        "(d * d).mean(axis=-1, keepdims=True).",
        "gain * d / np.sqrt(variance + 1e-5) + offset",
    ],
    mistakes="""
        you take mean and variance of the whole array
            axis=-1, keepdims=True ->
        you take mean and variance over slots and units together, and so let each slot
        see the others
            axis=-1, keepdims=True -> axis=(-2, -1), keepdims=True
        mean and variance run over the slots, not over the units of a slot
            axis=-1 -> axis=-2
        you divide the sum of squares by F - 1, not by F
            (d * d).mean(axis=-1 -> x.var(ddof=1, axis=-1
        you do not subtract the mean
            x - x.mean(axis=-1, keepdims=True) -> x
        you take the variance as the mean square less the square of the mean: where the
        numbers are large and nearly equal, all digits of that difference are lost
            (d * d).mean(axis=-1, keepdims=True)
                -> (x * x).mean(axis=-1, keepdims=True)
                - x.mean(axis=-1, keepdims=True) ** 2
        you leave out epsilon: a row of equal numbers is then 0 / 0
            np.sqrt(variance + 1e-5) -> np.sqrt(variance)
        you add epsilon to the root, not to what is under it
            np.sqrt(variance + 1e-5) -> (np.sqrt(variance) + 1e-5)
        you divide the row by the variance, not by its root
            np.sqrt(variance -> (variance
    """,
    leading="x",
    anysize="x",
)
def layer_norm(x, gain, offset):
    """gain * (x - mean) / sqrt(variance + 1e-5) + offset over the last axis.

    x (..., F), gain and offset (F,) -> (..., F).
    """
    d = x - x.mean(axis=-1, keepdims=True)
    variance = (d * d).mean(axis=-1, keepdims=True)
    return gain * d / np.sqrt(variance + 1e-5) + offset


@exercise(
    cases=gradient_cases(flat=2.0),
    hints=[
        "Go back the way the row came: y to n, n to d, d to x. First u = g * gain; and "
        "compute d, s, n once more.",
        "From n to d: s * (u - n * mean(u * n)). From d to x: what comes back, less "
        "its mean. Means run over the last axis, keepdims=True.",
        "mean(n) is 0, so the two together are s * (u - mean(u) - n * mean(u * n)).",
    ],
    mistakes="""
        you treat both mean and scale as constants
            - mean(u) - n * mean(u * n) ->
        you treat the scale s as a constant
            - n * mean(u * n) ->
        mean(u) is a mean: with a sum it is F times as large
            - mean(u) -> - u.sum(axis=-1, keepdims=True)
        mean(u * n) is a mean: with a sum it is F times as large
            - n * mean(u * n) -> - n * (u * n).sum(axis=-1, keepdims=True)
        you forget the factor s before the bracket
            return s * -> return
        you take the row as it was before it was scaled, in place of n
            n = d * s -> n = d
        you multiply by the gain at the end, after the norm, and not where it stands
            g * gain -> g
            return s -> return gain * s
    """,
    leading="g x",
    anysize="g",
    exact=by_complex_step(layer_normed, "x"),
)
def layer_norm_gradient(g, x, gain, epsilon):
    """d loss / d x of y = layer_norm(x) * gain + offset, given g = d loss / d y.

    g, x (..., F), gain (F,), epsilon a number -> (..., F).
    """
    d = x - mean(x)
    s = 1 / np.sqrt(mean(d * d) + epsilon)
    n = d * s
    u = g * gain
    return s * (u - mean(u) - n * mean(u * n))


NORM_OF_ROWS, NORM_OF_ALL, SUM_OF_THE_OTHERS, RUNNING_SUM = named(
    norm_of_rows=lambda M: layer_norm(M, 1, 0),
    norm_of_all=lambda M: (M - M.mean()) / np.sqrt(M.var() + EPSILON),
    sum_of_the_others=lambda M: M.sum(axis=0) - M,
    running_sum=lambda M: np.cumsum(M, axis=0),
)


@exercise(
    cases=lambda rng: [
        (NORM_OF_ROWS, rng.normal(size=(4, 5)), 2, rng.normal(size=5)),
        (NORM_OF_ALL, rng.normal(size=(4, 4)), 1, rng.normal(size=4)),
        (SUM_OF_THE_OTHERS, rng.normal(size=(3, 3)), 0, 1e3 * rng.normal(size=3)),
        (RUNNING_SUM, rng.normal(size=(5, 2)), 2, rng.normal(size=2)),
        (RUNNING_SUM, rng.normal(size=(1, 3)), 0, -rng.random(size=3)),
    ],
    hints=[
        "Make two memories, one of them with slot number `slot` replaced by `row`; "
        "process both, and compare slot by slot.",
        "Replace the slot in a copy: M itself is not yours to change.",
        "abs(...).max(axis=-1) of the difference of the two results",
    ],
    mistakes="""
        you add up the changes of a slot's units
            max(axis=-1) -> sum(axis=-1)
        you look for the largest change in each unit, not in each slot
            max(axis=-1) -> max(axis=0)
        you do not make the changes positive, so that a fall counts as none
            abs(process -> (process
    """,
)
def who_notices(process, M, slot, row):
    """The largest change of each slot of process(M), when `row` replaces one slot.

    M (N, F), slot a number, row (F,) -> (N,).
    """
    changed = M.copy()
    changed[slot] = row
    return abs(process(changed) - process(M)).max(axis=-1)


def layers_of(rng, *sizes):
    """Weights and biases [(weight (in, out), bias (out,)), ...] from size to size."""
    return [
        (rng.normal(size=(inner, outer)) / np.sqrt(inner), rng.normal(size=outer))
        for inner, outer in itertools.pairwise(sizes)
    ]


def mlp(z, layers):
    """Linear layers with a ReLU between each two: z (..., F) -> (..., last out)."""
    return equations.mlp(np, z, layers)


def _g_psi_cases(rng, depth, scale, *shape):
    z, F = scale * rng.normal(size=shape), shape[-1]
    return z, layers_of(rng, *[F] * (depth + 1)), 1 + rng.random(F), rng.normal(size=F)


@exercise(
    cases=each(_g_psi_cases, "2 1 3 4, 2 1 2 4 4, 3 1 2 3 6, 2 1 2 5, 3 100 4 4"),
    hints=[
        "From the inside out. The MLP: z @ weight + bias for each layer, and "
        "np.maximum(..., 0) after each but the last. A loop over layers[:-1], then the "
        "last.",
        "Then z is added to what the MLP has made of it, then comes the norm of the "
        "sum. Take care not to lose the z that came in.",
        "layer_norm(mlp(z) + z, gain, offset), with ex.layer_norm if yours is missing",
    ],
    mistakes="""
        you do not add z to what the MLP makes of it
            + bias + z -> + bias
        you add z after the norm, not before
            + z, gain, offset) -> , gain, offset) + z
        the norm comes before the MLP, not after
            y = z -> y = layer_norm(z, gain, offset)
            return layer_norm(y @ weight + bias + z, gain, offset)
                -> return y @ weight + bias + z
        you add to the MLP's result what went into its last layer, not the z that came
        in: the name z means something else by then
            bias + z -> bias + y
        you put a ReLU after the last layer, too
            y @ weight + bias + z -> np.maximum(y @ weight + bias, 0) + z
        you use no ReLU: all layers together are then one matrix and one bias
            np.maximum(y @ hidden_weight + hidden_bias, 0)
                -> y @ hidden_weight + hidden_bias
    """,
    leading="z",
    anysize="z",
)
def g_psi(z, layers, gain, offset):
    """layer_norm(MLP(z) + z), row by row.

    z (..., N, F), layers from F to F, gain and offset (F,) -> (..., N, F).
    """
    *hidden, (weight, bias) = layers
    y = z
    for hidden_weight, hidden_bias in hidden:
        y = np.maximum(y @ hidden_weight + hidden_bias, 0)
    return layer_norm(y @ weight + bias + z, gain, offset)


@used(
    taped,
    cases=lambda rng: [
        normal(rng, (3, 4), 4, 4),
        normal(rng, (4, 4), 4, 4),
        normal(rng, (2, 3, 5), 5, 5),
    ],
    hints=[
        "y = n * gain + offset is a product and a sum. What do their factors get?",
        "The gain gets g * n, the offset g. Every row uses them; your tape's "
        "unbroadcast adds the rows up.",
        "n is layer_norm(x.data, 1.0, 0.0), and the gradient of x is "
        "layer_norm_gradient(g, x.data, gain.data, 1e-5).",
    ],
    mistakes="""
        gain and offset have changed places
            g * n, g -> g, g * n
        gain and offset get means over the rows; the gradients of all rows add up
            g * n, g -> (g * n).mean(axis=tuple(range(g.ndim - 1))),
                g.mean(axis=tuple(range(g.ndim - 1)))
        the gain gets what goes in, not the row that it multiplies
            g * n, g -> g, g
    """,
)
def norm(x, gain, offset):
    """Layer norm on the tape: Nodes x (..., F), gain and offset (F,) -> a Node."""
    n = layer_norm(x.data, 1.0, 0.0)

    def vjp(g):
        return layer_norm_gradient(g, x.data, gain.data, 1e-5), g * n, g

    return x.tape.record(n * gain.data + offset.data, (x, gain, offset), vjp)


# --- Debugging ------------------------------------------------------------------------


@mended(
    ("d = M - M", "d = M\n    d -= d"),
    cases=lambda rng: [
        (3 + rng.normal(size=(3, 4)),),
        (5 * rng.normal(size=(4, 4)) - 1,),
        (2 + rng.normal(size=(2, 3, 3)),),
    ],
    hints=[
        "d = M makes no copy, nor does M[:]. Both give the memory a second name.",
        "-= writes into the array itself. What does d = d - ... do?",
    ],
    mistakes="""
        now the mean is not taken off any more
            - M.mean(axis=-1, keepdims=True) ->
        you take off the mean of the whole memory; each slot has its own
            M.mean(axis=-1, keepdims=True) -> M.mean()
    """,
)
def norm_of_slots(M):
    """Each slot of M (..., F) with mean 0 and mean square 1 -> (..., F)."""
    d = M - M.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + EPSILON)


def _block_cases(rng, rows, F, depth):
    return *normal(rng, (rows, F), (rows, F)), [*normal(rng, *[(F, F)] * depth)]


@mended(
    ("g + by_product", "by_product"),
    cases=each(_block_cases, "2 3 2, 3 3 3, 1 2 5, 4 2 1"),
    hints=[
        "The last matrix gets the right gradient, all others do not: so the line that "
        "hands g on is wrong.",
        "z is used twice: in the product, and by the residual. What is used twice "
        "gets two gradients, which add up.",
    ],
    mistakes="""
        now the gradient goes past every block and through none
            + by_product @ W.T ->
        the gradients stand in the order of the walk, the last matrix first
            found[::-1] -> found
    """,
)
def blocks_back(g, z, weights):
    """The gradients of the weights of blocks z = z + tanh(z @ W).

    g (R, F) that of the last z; z (R, F) the first; weights a list of (F, F) -> a list.
    """
    inputs = [z]
    for W in weights:
        inputs.append(inputs[-1] + np.tanh(inputs[-1] @ W))
    found = []
    for z, W in zip(inputs[-2::-1], weights[::-1], strict=True):
        y = np.tanh(z @ W)
        by_product = g * (1 - y * y)
        found.append(z.T @ by_product)
        g = g + by_product @ W.T
    return found[::-1]


def _no_sizes(curves):
    """The first thing that no sizes of slots after two norms would show, or nothing."""
    by_row, jointly = sorted(curves, key=lambda each: -each.y[each.x.argmax()])[:2]
    if abs(by_row.y - 1).max() > 0.05:
        return (
            "a norm of each row leaves every slot with the size 1, whatever the "
            "others are: no curve shows that"
        )
    if jointly.y[jointly.x.argmax()] > 0.2:
        return (
            "with the largest factor the other slots come small out of a joint norm; "
            "here they do not. Go on to a factor of 1,000, and leave slot 0 out"
        )


picture = Picture("normalisation", cannot_be=_no_sizes)
