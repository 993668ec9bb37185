"""Chapter 16: going fast.

Batches in pieces, derivatives worked out by hand, sums that threads take together.
"""

from __future__ import annotations

import functools
from functools import partial

import numpy as np

from .exercise import Mistake, exercise, normal

# --- a batch in pieces ----------------------------------------------------------------


@functools.cache
def _at_most(size):
    """A `differentiate` that takes at most `size` examples at once.

    The loss is the squared error of the predictor x . (1, -2); the gradient is by its
    two weights.
    """

    def differentiate(examples):
        """examples (b, 3), rows of x and target; no target where that is NaN."""
        if len(examples) > size:
            raise ValueError(f"{len(examples)} examples at once; only {size} find room")
        known = examples[~np.isnan(examples[:, 2])]
        error = known[:, :2] @ np.array([1.0, -2.0]) - known[:, 2]
        return (error * error).sum(), len(known), 2 * error @ known[:, :2]

    return differentiate


def _pieces(differentiate, examples, size):
    """The losses, counts and gradients of all pieces, each stacked."""
    starts = range(0, len(examples), size)
    results = [differentiate(examples[start : start + size]) for start in starts]
    losses, counts, gradients = zip(*results, strict=True)
    return np.array(losses), np.array(counts), np.array(gradients)


def _mean_of_means(*case):
    losses, counts, gradients = _pieces(*case)
    return (losses / counts).mean(), (gradients / counts[:, None]).mean(axis=0)


def _by_examples(differentiate, examples, size):
    losses, _, gradients = _pieces(differentiate, examples, size)
    return losses.sum() / len(examples), gradients.sum(axis=0) / len(examples)


def _gradient_of_the_sum(*case):
    losses, counts, gradients = _pieces(*case)
    return losses.sum() / counts.sum(), gradients.sum(axis=0)


def _full_pieces_only(differentiate, examples, size):
    full = len(examples) // size * size
    return in_pieces(differentiate, examples[:full], size)


def _at_once(differentiate, examples, size):
    loss, count, gradient = differentiate(examples)
    return loss / count, gradient / count


def _batches(rng):
    def batch(count, *unknown):
        examples = rng.normal(size=(count, 3))
        examples[[*unknown], 2] = np.nan
        return examples

    def case(examples, size):
        return _at_most(size), examples, size

    return [
        case(batch(6), 4),  # pieces of four and two
        case(batch(12, 1, 2, 3, 11), 4),
        case(batch(5, 4), 2),  # a last piece without any target
        case(1e3 * batch(7, 0), 1),
        case(batch(3), 4),
    ]


@exercise(
    cases=_batches,
    hints=[
        "A mean is a sum divided by a count. Which of the two may you add up piece by "
        "piece, and when is it time to divide?",
        "Start three totals at zero; for start in range(0, len(examples), size) add "
        "what differentiate(examples[start : start + size]) gives.",
        "At the end, once: total_loss / total_count, total_gradient / total_count.",
    ],
    mistakes=[
        Mistake(
            "you take each piece's mean, and then the mean of these: a small piece "
            "counts as much as a large one",
            _mean_of_means,
        ),
        Mistake(
            "you divide the sums by the number of examples, though some have no target",
            _by_examples,
        ),
        Mistake(
            "your gradient is that of the sum: you do not divide it by the count",
            _gradient_of_the_sum,
        ),
        Mistake(
            "you leave out the last piece when it is shorter than the others",
            _full_pieces_only,
        ),
        Mistake(
            "you give all examples to `differentiate` at once",
            _at_once,
        ),
        Mistake(
            "loss and gradient have changed places",
            lambda *case: in_pieces(*case)[::-1],
        ),
    ],
)
def in_pieces(differentiate, examples, size):
    """The mean loss and its gradient (2,), from pieces of at most `size` examples.

    differentiate(piece), for at most `size` of the examples (B, 3), gives (sum of the
    piece's losses, their count, the gradient of that sum).
    """
    total_loss, total_count, total_gradient = 0.0, 0, 0.0
    for start in range(0, len(examples), size):
        piece = examples[start : start + size]
        loss, count, gradient = differentiate(piece)
        total_loss += loss
        total_count += count
        total_gradient = total_gradient + gradient
    return total_loss / total_count, total_gradient / total_count


# --- layer norm, backwards ------------------------------------------------------------


def _normed(x, epsilon):
    """(n, s) of layer norm, each row for itself."""
    d = x - _mean(x)
    s = 1 / np.sqrt(_mean(d * d) + epsilon)
    return d * s, s


def _mean(x):
    return x.mean(axis=-1, keepdims=True)


def _norm_gradient(
    g, x, gain, epsilon, *, through_mean=True, through_scale=True, average=_mean
):
    """The solution and, by its arguments, ways to get it wrong."""
    n, s = _normed(x, epsilon)
    h = g * gain
    return s * (h - through_mean * average(h) - through_scale * n * average(h * n))


def _without_s(g, x, gain, epsilon):
    return layer_norm_gradient(g, x, gain, epsilon) / _normed(x, epsilon)[1]


def _d_for_n(g, x, gain, epsilon):
    _, s = _normed(x, epsilon)
    d, h = x - _mean(x), g * gain
    return s * (h - _mean(h) - d * _mean(h * d))


def _gain_last(g, x, gain, epsilon):
    return _gain_forgotten(g, x, gain, epsilon) * gain


def _gain_forgotten(g, x, gain, epsilon):
    return layer_norm_gradient(g, x, np.ones_like(gain), epsilon)


def _down_the_columns(g, x, gain, epsilon):
    columns = (g * gain).swapaxes(0, -1), x.swapaxes(0, -1)
    gradient = layer_norm_gradient(*columns, np.ones(len(x)), epsilon)
    return gradient.swapaxes(0, -1)


def _over_the_batch(g, x, gain, epsilon):
    """As if mean and variance were those of all rows together."""
    one_row = (g * gain).reshape(1, -1), x.reshape(1, -1)
    gradient = layer_norm_gradient(*one_row, np.ones(x.size), epsilon)
    return gradient.reshape(x.shape)


def _epsilon_outside(g, x, gain, epsilon):
    s = 1 / (x.std(axis=-1, keepdims=True) + epsilon)
    n, h = s * (x - _mean(x)), g * gain
    return s * (h - _mean(h) - n * _mean(h * n))


def _norms(rng):
    def case(*shape, scale=1.0, epsilon=1e-5):
        g = rng.normal(size=shape)
        x = scale * rng.normal(size=shape) + 3
        return g, x, rng.normal(size=shape[-1]), epsilon

    def without_variance_in_a_row():
        g, gain = normal(rng, (2, 4), 4)
        return g, np.array([[2.0, 2, 2, 2], [1, -1, 1, -1]]), gain, 1e-2

    return [
        case(3, 5),
        case(4, 4),  # as many rows as columns
        case(2, 3, 6, epsilon=0.5),  # an epsilon that counts
        case(2, 8, scale=1e3),
        without_variance_in_a_row(),
        case(3, 1),  # a row of one number, which is always its own mean
    ]


@exercise(
    cases=_norms,
    hints=[
        "Go back the way the row came: y to n, n to d, d to x. First h = g * gain; and "
        "compute d, s, n once more.",
        "From n to d: s * (h - n * mean(h * n)). From d to x: what comes back, less "
        "its mean. Means run over the last axis, keepdims=True.",
        "mean(n) is 0, so the two together are s * (h - mean(h) - n * mean(h * n)).",
    ],
    mistakes=[
        Mistake(
            "you treat the mean as a constant",
            partial(_norm_gradient, through_mean=False),
        ),
        Mistake(
            "you treat the scale s as a constant",
            partial(_norm_gradient, through_scale=False),
        ),
        Mistake(
            "you treat both mean and scale as constants",
            partial(_norm_gradient, through_mean=False, through_scale=False),
        ),
        Mistake(
            "you forget the factor s before the bracket",
            _without_s,
        ),
        Mistake(
            "you take d, not divided by the standard deviation, in place of n",
            _d_for_n,
        ),
        Mistake(
            "you multiply by the gain at the end, behind the norm, and not where it "
            "stands",
            _gain_last,
        ),
        Mistake(
            "means run over the first axis, not over the last",
            _down_the_columns,
        ),
        Mistake(
            "you forget the gain",
            _gain_forgotten,
        ),
        Mistake(
            "you take sums in place of means",
            partial(_norm_gradient, average=lambda x: x.sum(axis=-1, keepdims=True)),
        ),
        Mistake(
            "mean and variance run over all rows together",
            _over_the_batch,
        ),
        Mistake(
            "you add epsilon to the standard deviation, not to the variance under the "
            "root",
            _epsilon_outside,
        ),
        Mistake(
            "you forget the epsilon",
            lambda g, x, gain, epsilon: layer_norm_gradient(g, x, gain, 0.0),
        ),
    ],
    leading="g x",
    anysize="g",
)
def layer_norm_gradient(g, x, gain, epsilon):
    """d loss / d x of y = layer_norm(x) * gain + offset, given g = d loss / d y.

    g, x (..., F), gain (F,), epsilon a number -> (..., F).
    """
    d = x - _mean(x)
    s = 1 / np.sqrt(_mean(d * d) + epsilon)
    n = d * s
    h = g * gain
    return s * (h - _mean(h) - n * _mean(h * n))


# --- the weight of all time steps -----------------------------------------------------


def _reshaped(x, g):
    return x.reshape(x.shape[-1], -1) @ g.reshape(-1, g.shape[-1])


@exercise(
    cases=lambda rng: [
        normal(rng, (4, 2, 3), (4, 2, 5)),
        normal(rng, (3, 3, 3), (3, 3, 3)),  # all sizes alike
        normal(rng, (1, 6, 2), (1, 6, 2)),
        (1e3 * rng.normal(size=(5, 1, 4)), rng.normal(size=(5, 1, 2))),
    ],
    hints=[
        "For one time step it is x[t].T @ g[t]. The same W serves all steps, so its "
        "gradients add up.",
        "A sum over time of sums over examples is one sum over T * B rows.",
        "x.reshape(-1, I).T @ g.reshape(-1, O), with I and O the last axes.",
    ],
    mistakes=[
        Mistake(
            "you count the last time step only",
            lambda x, g: x[-1].T @ g[-1],
        ),
        Mistake(
            "you average the steps' gradients instead of adding them",
            lambda x, g: weight_gradient(x, g) / len(x),
        ),
        Mistake(
            "you divide the sum by the number of rows, T * B",
            lambda x, g: weight_gradient(x, g) / (x.shape[0] * x.shape[1]),
        ),
        Mistake(
            "input and output have changed places",
            lambda x, g: weight_gradient(g, x),
        ),
        Mistake(
            "each time step keeps a gradient of its own",
            lambda x, g: x.swapaxes(1, 2) @ g,
        ),
        Mistake(
            "you reshape where you should transpose: the axes are mixed up",
            _reshaped,
        ),
        Mistake(
            "you sum x and g before you multiply them",
            lambda x, g: np.outer(x.sum(axis=(0, 1)), g.sum(axis=(0, 1))),
        ),
    ],
    anysize="g",
)
def weight_gradient(x, g):
    """d loss / d W of y = x @ W at all T steps at once, given g = d loss / d y.

    x (T, B, I), g (T, B, O) -> (I, O).
    """
    return x.reshape(-1, x.shape[-1]).T @ g.reshape(-1, g.shape[-1])


# --- a sum of 32 threads --------------------------------------------------------------

THREADS = 32
LANES = np.arange(THREADS)
STEPS = (16, 8, 4, 2, 1)


def _own(row):
    """What each thread adds up by itself."""
    return np.array([row[lane::THREADS].sum() for lane in LANES])


def _butterfly(held, *, partner=lambda held, step: held[LANES ^ step], steps=STEPS):
    """The exchanges, with any numbers of `partner` and any `steps`."""
    for step in steps:
        held = held + partner(held, step)
    return held


def _further_on(held, step):
    """The number of the thread `step` further on; the own one where there is none."""
    return held[np.where(LANES + step < THREADS, LANES + step, LANES)]


def _full_columns_only(row):
    return _butterfly(_own(row[: len(row) // THREADS * THREADS]))


def _halving(row):
    held = _own(row)
    for step in STEPS:
        held[:step] += held[step : 2 * step]
    return held


def _in_this_order():
    """A row whose 1s are lost in rounding when threads exchange, in whichever order of
    the steps, and not all when the row is added up from its beginning.
    """
    row = np.zeros(THREADS)
    row[[0, 8, 16, 24]] = 1.0, 1e16, -1e16, 1.0
    return (row,)


def _one_after_the_other(row):
    held = _own(row)
    for step in STEPS:
        for lane in LANES:
            held[lane] += held[lane ^ step]
    return held


@exercise(
    cases=lambda rng: [
        normal(rng, 32),
        normal(rng, 80),  # two columns for each thread, a third for half of them
        normal(rng, 5),  # threads without any column hold 0
        normal(rng, 1),
        (1e6 * rng.normal(size=256),),
        _in_this_order(),
    ],
    hints=[
        "First each thread for itself: thread k adds up row[k::32].sum(), the columns "
        "k, k + 32, k + 64, ...",
        "Then five exchanges, with steps of 16, 8, 4, 2 and 1: each thread adds what "
        "its partner holds. Thread k's partner is k ^ step.",
        "With lanes = np.arange(32): held = held + held[lanes ^ step].",
    ],
    mistakes=[
        Mistake(
            "the threads do not exchange what they hold",
            _own,
        ),
        Mistake(
            "you leave out the columns beyond the last full 32",
            _full_columns_only,
        ),
        Mistake(
            "each thread has one column alone, and you leave out what is beyond the "
            "32nd",
            lambda row: _butterfly(_own(row[:THREADS])),
        ),
        Mistake(
            "each thread adds its own number once more, not its partner's",
            lambda row: _butterfly(_own(row), partner=lambda held, step: held),
        ),
        Mistake(
            "the partner is the thread `step` further on: then only thread 0 has the "
            "whole sum",
            lambda row: _butterfly(_own(row), partner=_further_on),
        ),
        Mistake(
            "only the first `step` threads add what their partner holds: then only "
            "thread 0 has the whole sum",
            _halving,
        ),
        Mistake(
            "threads exchange one after the other: the second of two partners adds a "
            "number that has changed",
            _one_after_the_other,
        ),
        Mistake(
            "you add everything up at one place, and give the sum to all: no thread "
            "has all columns. (A sum in another order is rounded differently)",
            lambda row: np.full(THREADS, row.sum()),
        ),
        Mistake(
            "the last exchange, with a step of 1, is missing",
            lambda row: _butterfly(_own(row), steps=STEPS[:-1]),
        ),
    ],
)
def row_sum(row):
    """A row, summed up by 32 threads.

    row (F,), of any length -> (32,): what each thread holds in the end, which is the
    same.
    """
    lanes = np.arange(32)
    held = np.array([row[lane::32].sum() for lane in lanes])
    for step in (16, 8, 4, 2, 1):
        held = held + held[lanes ^ step]
    return held
