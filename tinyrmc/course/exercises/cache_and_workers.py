"""Chapter 24: a batch in pieces."""

from __future__ import annotations

import functools

import numpy as np

from .exercise import exercise


@functools.cache
def _at_most(size):
    """A `differentiate` that takes at most `size` examples at once.

    The loss is the squared error of the predictor x . (1, -2); the gradient is that
    of its two weights.
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


def _last_piece(differentiate, examples, size):
    last = (len(examples) - 1) // size * size
    return _at_once(differentiate, examples[last:], size)


def _gradients_of_means(*case):
    losses, counts, gradients = _pieces(*case)
    return losses.sum() / counts.sum(), (gradients / counts[:, None]).sum(axis=0)


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
        case(batch(2), 4),
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
    mistakes={
        "you take each piece's mean, and then the mean of these: a small piece "
        "counts as much as a large one": _mean_of_means,
        "you divide the sums by the number of examples, though some have "
        "no target": _by_examples,
        "your gradient is that of the sum: you do not divide it by "
        "the count": _gradient_of_the_sum,
        "you divide each piece's gradient by its own count before you "
        "add it": _gradients_of_means,
        "only the first piece counts: is the `return` inside the loop?": (
            lambda differentiate, examples, size: _at_once(
                differentiate, examples[:size], size
            )
        ),
        "only the last piece counts: add to totals, with +=": _last_piece,
        "you leave out the last piece when it is shorter than "
        "the others": _full_pieces_only,
        "you give all examples to `differentiate` at once": _at_once,
        "loss and gradient have changed places": lambda *case: in_pieces(*case)[::-1],
    },
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
