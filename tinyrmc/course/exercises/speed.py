"""Chapter 15: going fast.

Batches in pieces, derivatives worked out by hand, sums that threads take together.
"""

from __future__ import annotations

import functools

import numpy as np

from .exercise import exercise


@functools.cache
def _at_most(size):
    """Squared errors of the predictor x .

    (1, -2), and their gradient by its two weights, for at most `size` examples at once.
    """

    def differentiate(
        examples,
    ):  # (b, 3), rows of x and target; no target where that is NaN
        if len(examples) > size:
            raise ValueError(f"{len(examples)} examples at once; only {size} find room")
        known = examples[~np.isnan(examples[:, 2])]
        error = known[:, :2] @ np.array([1.0, -2.0]) - known[:, 2]
        return (error * error).sum(), len(known), 2 * error @ known[:, :2]

    return differentiate


def _pieces(differentiate, examples, size, stop=None):
    """The three results of all pieces, each stacked."""
    starts = range(0, len(examples) if stop is None else stop, size)
    return map(
        np.array,
        zip(*[differentiate(examples[k : k + size]) for k in starts], strict=True),
    )


def _mean_of_means(*case):
    sums, counts, gradients = _pieces(*case)
    return (sums / counts).mean(), (gradients / counts[:, None]).mean(axis=0)


def _by_examples(differentiate, examples, size):
    sums, _, gradients = _pieces(differentiate, examples, size)
    return sums.sum() / len(examples), gradients.sum(axis=0) / len(examples)


def _gradient_of_the_sum(*case):
    sums, counts, gradients = _pieces(*case)
    return sums.sum() / counts.sum(), gradients.sum(axis=0)


def _full_pieces_only(differentiate, examples, size):
    sums, counts, gradients = _pieces(
        differentiate, examples, size, stop=len(examples) - size + 1
    )
    return sums.sum() / counts.sum(), gradients.sum(axis=0) / counts.sum()


def _exchanged(*case):
    loss, gradient = in_pieces(*case)
    return gradient, loss


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
        "A mean is a sum divided by a count. Which of the two may be added up piece "
        "by piece, and when is it time to divide?",
        "Start three totals at zero; for k in range(0, len(examples), size) add what "
        "differentiate(examples[k : k + size]) gives.",
        "At the end, once: total_loss / total_count, total_gradient / total_count.",
    ],
    mistakes={
        "each piece's mean is taken, and then the mean of these: a small piece "
        "counts as much as a large one": _mean_of_means,
        "the sums are divided by the number of examples, though some have no target": _by_examples,
        "the gradient is that of the sum: it is not divided by the count": _gradient_of_the_sum,
        "the last piece is left out when it is shorter than the others": _full_pieces_only,
        "all examples are given to `differentiate` at once": _at_once,
        "loss and gradient have changed places": _exchanged,
    },
)
def in_pieces(differentiate, examples, size):
    """The mean loss and its gradient (2,), from pieces of at most `size` of the
    examples (B, 3).

    differentiate(piece), of at most `size` examples, gives (sum of the piece's losses,
    their count, the gradient of that sum).
    """
    loss, count, gradient = 0.0, 0, 0.0
    for start in range(0, len(examples), size):
        piece_loss, piece_count, piece_gradient = differentiate(
            examples[start : start + size]
        )
        loss, count, gradient = (
            loss + piece_loss,
            count + piece_count,
            gradient + piece_gradient,
        )
    return loss / count, gradient / count


def _normed(x, epsilon):
    """(n, s) of layer norm, each row for itself."""
    d = x - x.mean(axis=-1, keepdims=True)
    s = 1 / np.sqrt((d * d).mean(axis=-1, keepdims=True) + epsilon)
    return d * s, s


def _mean(x):
    return x.mean(axis=-1, keepdims=True)


def _norm_gradient(
    g, x, gain, epsilon, through_mean=True, through_scale=True, average=_mean
):
    n, s = _normed(x, epsilon)
    h = g * gain
    return s * (h - through_mean * average(h) - through_scale * n * average(h * n))


def _without_s(g, x, gain, epsilon):
    return layer_norm_gradient(g, x, gain, epsilon) / _normed(x, epsilon)[1]


def _d_for_n(g, x, gain, epsilon):
    (_, s), d, h = _normed(x, epsilon), x - _mean(x), g * gain
    return s * (h - _mean(h) - d * _mean(h * d))


def _gain_last(g, x, gain, epsilon):
    return layer_norm_gradient(g, x, np.ones_like(gain), epsilon) * gain


def _down_the_columns(g, x, gain, epsilon):
    return layer_norm_gradient(
        (g * gain).swapaxes(0, -1), x.swapaxes(0, -1), np.ones(len(x)), epsilon
    ).swapaxes(0, -1)


def _epsilon_outside(g, x, gain, epsilon):
    s = 1 / (x.std(axis=-1, keepdims=True) + epsilon)
    n, h = s * (x - _mean(x)), g * gain
    return s * (h - _mean(h) - n * _mean(h * n))


def _over_the_batch(g, x, gain, epsilon):
    """As if mean and variance were those of all rows together."""
    flat = _norm_gradient(
        (g * gain).reshape(1, -1), x.reshape(1, -1), np.ones(x.size), epsilon
    )
    return flat.reshape(x.shape)


def _norms(rng):
    def case(*shape, scale=1.0, epsilon=1e-5):
        return (
            rng.normal(size=shape),
            scale * rng.normal(size=shape) + 3,
            rng.normal(size=shape[-1]),
            epsilon,
        )

    return [
        case(3, 5),
        case(4, 4),  # as many rows as columns
        case(2, 3, 6, epsilon=0.5),  # an epsilon that cannot be neglected
        case(2, 8, scale=1e3),
        (
            rng.normal(size=(2, 4)),
            np.array([[2.0, 2, 2, 2], [1, -1, 1, -1]]),
            rng.normal(size=4),
            1e-2,
        ),  # a row without any variance
        case(3, 1),  # a row of one number, which is always its own mean
    ]


@exercise(
    cases=_norms,
    hints=[
        "Go back the way the row came: y to n, n to d, d to x. First h = g * gain; "
        "and d, s, n have to be computed once more.",
        "From n to d: s * (h - n * mean(h * n)). From d to x: what comes back, less "
        "its mean. Means run over the last axis, keepdims=True.",
        "mean(n) is 0, so the two together are s * (h - mean(h) - n * mean(h * n)).",
    ],
    mistakes={
        "the mean is taken for a constant": lambda *case: _norm_gradient(
            *case, through_mean=False
        ),
        "the scale s is taken for a constant": lambda *case: _norm_gradient(
            *case, through_scale=False
        ),
        "mean and scale are both taken for constants": lambda *case: _norm_gradient(
            *case, through_mean=False, through_scale=False
        ),
        "the factor s before the bracket is forgotten": _without_s,
        "d, which is not divided by the standard deviation, stands where n should": _d_for_n,
        "the gain is multiplied at the end, behind the norm, and not where it stands": _gain_last,
        "means run over the first axis, not over the last": _down_the_columns,
        "the gain is forgotten": lambda g, x, gain, epsilon: _norm_gradient(
            g, x, np.ones_like(gain), epsilon
        ),
        "sums stand where means should": lambda *case: _norm_gradient(
            *case, average=lambda x: x.sum(axis=-1, keepdims=True)
        ),
        "mean and variance run over all rows together": _over_the_batch,
        "epsilon is added to the standard deviation, not to the variance under the "
        "root": _epsilon_outside,
        "the epsilon is forgotten": lambda g, x, gain, epsilon: _norm_gradient(
            g, x, gain, 0.0
        ),
    },
)
def layer_norm_gradient(g, x, gain, epsilon):
    """d loss / d x of y = layer_norm(x) * gain + offset, given g = d loss / d y. g, x
    (..., F), gain (F,), epsilon a number -> (..., F).
    """
    n, s = _normed(x, epsilon)
    h = g * gain
    return s * (h - _mean(h) - n * _mean(h * n))


@exercise(
    cases=lambda rng: [
        (rng.normal(size=(4, 2, 3)), rng.normal(size=(4, 2, 5))),
        (rng.normal(size=(3, 3, 3)), rng.normal(size=(3, 3, 3))),  # all sizes alike
        (rng.normal(size=(1, 6, 2)), rng.normal(size=(1, 6, 2))),
        (1e3 * rng.normal(size=(5, 1, 4)), rng.normal(size=(5, 1, 2))),
    ],
    hints=[
        "For one time step it is x[t].T @ g[t]. The same W serves all steps, so its "
        "gradients add up.",
        "A sum over time of sums over examples is one sum over T * B rows.",
        "x.reshape(-1, I).T @ g.reshape(-1, O), with I and O the last axes.",
    ],
    mistakes={
        "only the last time step counts": lambda x, g: x[-1].T @ g[-1],
        "the steps' gradients are averaged, not added": lambda x, g: (
            np.einsum("tbi,tbo->io", x, g) / len(x)
        ),
        "the sum is divided by the number of rows, T * B": lambda x, g: (
            weight_gradient(x, g) / (x.shape[0] * x.shape[1])
        ),
        "input and output have changed places": lambda x, g: np.einsum(
            "tbi,tbo->oi", x, g
        ),
        "each time step keeps a gradient of its own": lambda x, g: np.einsum(
            "tbi,tbo->tio", x, g
        ),
        "a reshape stands where a transpose should: the axes are mixed up": lambda x, g: (
            x.reshape(x.shape[-1], -1) @ g.reshape(-1, g.shape[-1])
        ),
        "x and g are summed before they are multiplied": lambda x, g: np.outer(
            x.sum(axis=(0, 1)), g.sum(axis=(0, 1))
        ),
    },
)
def weight_gradient(x, g):
    """d loss / d W of y = x @ W at all T steps at once, given g = d loss / d y. x (T,
    B, I), g (T, B, O) -> (I, O).
    """
    return x.reshape(-1, x.shape[-1]).T @ g.reshape(-1, g.shape[-1])


THREADS = 32
LANES = np.arange(THREADS)


def _own(row):
    """What each thread has added up by itself."""
    return np.array([row[lane::THREADS].sum() for lane in LANES])


def _butterfly(
    held, partner=lambda held, step: held[LANES ^ step], steps=(16, 8, 4, 2, 1)
):
    for step in steps:
        held = held + partner(held, step)
    return held


def _one_after_the_other(row):
    held = _own(row)
    for step in (16, 8, 4, 2, 1):
        for lane in LANES:
            held[lane] += held[lane ^ step]
    return held


def _halving(row):
    held = _own(row)
    for step in (16, 8, 4, 2, 1):
        held[:step] += held[step : 2 * step]
    return held


def _down(held, step):
    """The number of the thread `step` further on; the own one where there is no such
    thread.
    """
    return held[np.where(LANES + step < THREADS, LANES + step, LANES)]


@exercise(
    cases=lambda rng: [
        (rng.normal(size=32),),
        (
            rng.normal(size=80),
        ),  # two columns for each thread, and a third for half of them
        (rng.normal(size=5),),  # threads without any column hold 0
        (rng.normal(size=1),),
        (1e6 * rng.normal(size=256),),
    ],
    hints=[
        "First each thread for itself: thread k adds up the columns k, k + 32, k + "
        "64, ...: row[k::32].sum().",
        "Then five exchanges, with steps of 16, 8, 4, 2 and 1: each thread adds what "
        "its partner holds. Thread k's partner is k ^ step.",
        "With lanes = np.arange(32): held = held + held[lanes ^ step].",
    ],
    mistakes={
        "the threads do not exchange what they hold": _own,
        "columns beyond the last full 32 are left out": lambda row: _butterfly(
            _own(row[: len(row) // THREADS * THREADS])
        ),
        "each thread has one column alone, and what is beyond the 32nd is left out": lambda row: (
            _butterfly(_own(row[:THREADS]))
        ),
        "each thread adds its own number once more, not its partner's": lambda row: (
            _butterfly(_own(row), lambda held, step: held)
        ),
        "the partner is the thread `step` further on: then only thread 0 has the "
        "whole sum": lambda row: _butterfly(_own(row), _down),
        "only the first `step` threads add what their partner holds: then only "
        "thread 0 has the whole sum": _halving,
        "threads exchange one after the other: the second of two partners adds a "
        "number that has changed": _one_after_the_other,
        "the last exchange, with a step of 1, is missing": lambda row: _butterfly(
            _own(row), steps=(16, 8, 4, 2)
        ),
    },
)
def row_sum(row):
    """A row (F,), of any length, summed up by 32 threads -> (32,): what each of them
    holds in the end, which is the same.
    """
    lanes = np.arange(32)
    held = np.array([row[lane::32].sum() for lane in lanes])
    step = 16
    while step:
        held = held + held[lanes ^ step]
        step //= 2
    return held
