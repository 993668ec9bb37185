"""Chapter 17: the loss over all words, its gradient, and the sum in blocks."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..attention import softmax
from ..exercise import exercise
from ..learning import INSTEAD_OF_P_MINUS_Y, one_hot, scores


def _losses(logits, targets):
    return cross_entropy(logits, targets)[0]


def _gradient(make):
    """The right losses; the gradient make(p, y)."""

    def answer(logits, targets):
        y = one_hot(logits, targets)
        return _losses(logits, targets), make(softmax(logits), y)

    return answer


def _loss(make):
    """The right gradient; the losses make(losses)."""

    def answer(logits, targets):
        losses, gradient = cross_entropy(logits, targets)
        return make(losses), gradient

    return answer


def _shifted_by(shift):
    """Losses and gradient if `shift`, not each row's largest, is taken off."""

    def answer(logits, targets):
        e = np.exp(logits - shift(logits))
        p = e / e.sum(axis=1, keepdims=True)
        y = one_hot(logits, targets)
        return -np.log(p[np.arange(len(p)), targets]), p - y

    return answer


def _down_the_columns(logits, targets):
    p = softmax(logits.T).T
    y = one_hot(logits, targets)
    return -np.log(p[np.arange(len(p)), targets]), p - y


def _log_of_the_softmax(logits, targets):
    p = softmax(logits)
    return -np.log(p[np.arange(len(p)), targets]), p - one_hot(logits, targets)


def _never_zero(logits, targets):
    p = softmax(logits)
    return -np.log(p[np.arange(len(p)), targets] + 1e-9), p - one_hot(logits, targets)


@exercise(
    cases=scores,
    hints=[
        "Take each row's largest logit off the row first. That changes neither the "
        "loss nor the gradient, and exp no longer overflows.",
        "With the shifted logits z: loss = log(sum(exp(z))) - z[target]. The logarithm "
        "of a softmax that has become 0 would be infinite.",
        "The right word of each row is logits[np.arange(R), targets]. At the same "
        "places take 1 off the softmax, and you have the gradient.",
    ],
    mistakes={
        **{says: _gradient(make) for says, make in INSTEAD_OF_P_MINUS_Y.items()},
        "exp overflows: take each row's largest logit off first": _shifted_by(
            lambda logits: 0.0
        ),
        "you take the largest logit of all rows off, and in lower rows every exp "
        "is 0": _shifted_by(np.max),
        "your softmax runs down the columns": _down_the_columns,
        "you take a softmax of the softmax": (
            lambda logits, targets: cross_entropy(softmax(logits), targets)
        ),
        "you take the logarithm of the finished softmax: where that is 0, the loss "
        "is infinite": _log_of_the_softmax,
        "you add something small inside the logarithm": _never_zero,
        "you give the mean of the losses, not one for each row": _loss(np.mean),
        "losses and gradient have changed places": (
            lambda *case: cross_entropy(*case)[::-1]
        ),
    },
    anysize="logits",
)
def cross_entropy(logits, targets):
    """-ln softmax(logits)[target] of each row, and the gradient of their sum.

    logits (R, V), targets (R,) -> losses (R,), gradient (R, V).
    """
    z = logits - logits.max(axis=1, keepdims=True)
    rows = np.arange(len(z))
    e = np.exp(z)
    total = e.sum(axis=1)
    p = e / total[:, None]
    p[rows, targets] -= 1
    return np.log(total) - z[rows, targets], p


class _Logits:
    """logits_of(start, stop), which gives no more than `size` words at a time."""

    def __init__(self, logits, size):
        self.logits, self.size = logits, size

    def __repr__(self):
        return f"(rows {len(self.logits)})"

    def __call__(self, start, stop):
        words = self.logits.shape[1]
        if not 0 <= start < stop <= words:
            raise ValueError(f"no words from {start} to {stop}: there are {words}")
        if stop - start > self.size:
            raise ValueError(f"{stop - start} words at once, {self.size} are allowed")
        return self.logits[:, start:stop].copy()


def _blocks(rng):
    def case(logits, size):
        return _Logits(logits, size), logits.shape[1], size

    rising = 300.0 * np.arange(12) + rng.normal(size=(2, 12))
    heights = rng.normal(size=(3, 7)) + np.array([[0.0], [-2e3], [2e3]])
    return [
        case(rng.normal(size=(3, 12)), 4),
        case(rng.normal(size=(2, 10)), 4),  # the last block is shorter
        case(rng.normal(size=(4, 5)), 1),
        case(rng.normal(size=(1, 6)), 8),  # one block is enough
        case(rising, 4),
        case(rising[:, ::-1], 4),
        case(heights, 3),
        case(rng.normal(size=(3, 3)) - 2e3, 2),
        case(rng.normal(size=(3, 40_000)), 500),  # so many that all would take 1 MB
    ]


def _ranges(words, size):
    return [(k, min(k + size, words)) for k in range(0, words, size)]


def _running(
    logits_of,
    words,
    size,
    *,
    ranges=_ranges,
    first=-np.inf,
    rescale=True,
    add_back=True,
):
    """The running sum and, by its arguments, ways to get it wrong."""
    top, total = first, 0.0
    for start, stop in ranges(words, size):
        z = logits_of(start, stop)
        higher = np.maximum(top, z.max(axis=1))
        kept = total * np.exp(top - higher) if rescale else total
        total = kept + np.exp(z - higher[:, None]).sum(axis=1)
        top = higher
    return add_back * top + np.log(total)


def _by_rows(words, size):
    return [(k, k + size) for k in range(0, words - size + 1, size)] or [(0, words)]


def _without_the_highest(logits_of, words, size):
    total = sum(np.exp(logits_of(*each)).sum(axis=1) for each in _ranges(words, size))
    return np.log(total)


def _highest_of_the_first(logits_of, words, size):
    ranges = _ranges(words, size)
    top = logits_of(*ranges[0]).max(axis=1)
    total = sum(np.exp(logits_of(*each) - top[:, None]).sum(axis=1) for each in ranges)
    return top + np.log(total)


def _highest_of_the_last(logits_of, words, size):
    total = 0.0
    for start, stop in _ranges(words, size):
        z = logits_of(start, stop)
        top = z.max(axis=1)
        total = total + np.exp(z - top[:, None]).sum(axis=1)
    return top + np.log(total)


@exercise(
    cases=_blocks,
    hints=[
        "Twice through the blocks is right, too: first for the highest logit of each "
        "row, then for the sum. But once is enough.",
        "Keep two numbers for each row: `top`, the highest logit so far, and `total`, "
        "the sum of exp(logit - top) so far. Begin with -np.inf and 0.",
        "When a block brings a higher top, all that was summed is too large by the "
        "factor exp(new - old). So: total = total * exp(old - new) + the block's sum.",
        "The blocks are range(0, words, size); the last one stops at `words`.",
    ],
    mistakes={
        "you ask for all words at once": (
            lambda logits_of, words, size: _without_the_highest(logits_of, words, words)
        ),
        "you do not scale the old sum down when a block brings a higher logit": partial(
            _running, rescale=False
        ),
        "you leave out the last block where it is shorter": partial(
            _running, ranges=_by_rows
        ),
        "you ask for words beyond the last": partial(
            _running,
            ranges=lambda words, size: [(k, k + size) for k in range(0, words, size)],
        ),
        "you add up the logarithms of the blocks: the logarithm of a sum is no sum of "
        "logarithms": (
            lambda logits_of, words, size: sum(
                np.log(np.exp(logits_of(*each)).sum(axis=1))
                for each in _ranges(words, size)
            )
        ),
        "you do not take the highest logit off, and "
        "exp overflows": _without_the_highest,
        "you take the first block's highest logit off in "
        "all blocks": _highest_of_the_first,
        "you take each block's own highest logit off and add up what "
        "is left": _highest_of_the_last,
        "your highest logit begins at 0: where all are far below it, the sum "
        "is 0": partial(_running, first=0.0),
        "you do not add the highest logit back": partial(_running, add_back=False),
    },
    memory=200_000,
)
def log_sum_exp_in_blocks(logits_of, words, size):
    """ln of the sum of exp(logit) over all words, never with more than `size` of them.

    logits_of(start, stop) -> the logits (R, stop - start) of the words from `start` to
    before `stop`, at most `size`; `words` is their number V -> (R,).
    """
    top, total = -np.inf, 0.0
    for start in range(0, words, size):
        logits = logits_of(start, min(start + size, words))
        higher = np.maximum(top, logits.max(axis=1))
        block = np.exp(logits - higher[:, None]).sum(axis=1)
        total = total * np.exp(top - higher) + block
        top = higher
    return top + np.log(total)
