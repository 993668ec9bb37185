"""Chapter 12: counts, perplexity, windows, the softmax's loss, and sampling."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from .attention import softmax
from .exercise import Mistake, exercise


def _texts(rng):
    def shares(V):
        return rng.dirichlet(np.ones(V))

    return [
        (rng.integers(5, size=60), shares(5), 1.0),
        (rng.integers(4, size=4), shares(4), 0.5),
        (np.array([0, 1, 1, 1, 0, 1, 1, 2]), np.array([0.25, 0.5, 0.25]), 3.0),
        (rng.integers(3, size=200), shares(6), 30.0),  # three words never occur
        (np.array([2]), shares(3), 10.0),  # a text without any pair
    ]


def _pairs(before, after, V):
    """How often each word comes after each word (V, V)."""
    counts = np.zeros((V, V))
    np.add.at(counts, (before, after), 1)
    return counts


def _smoothed(counts, unigram, k):
    return (counts + k * unigram) / (counts.sum(axis=1, keepdims=True) + k)


def _of_pairs(pair):
    """The table from other pairs: pair(ids) -> (words before, words after)."""
    return lambda ids, unigram, k: _smoothed(
        _pairs(*pair(ids), len(unigram)), unigram, k
    )


def _with_counts(make):
    """The table made of the right counts in another way."""

    def answer(ids, unigram, k):
        return make(_pairs(ids[:-1], ids[1:], len(unigram)), ids, unigram, k)

    return answer


def _each_pair_once(ids, unigram, k):
    counts = np.zeros((len(unigram), len(unigram)))
    counts[ids[:-1], ids[1:]] += 1
    return _smoothed(counts, unigram, k)


def _all_ids_below(counts, ids, unigram, k):
    occurs = np.bincount(ids, minlength=len(unigram))
    return (counts + k * unigram) / (occurs[:, None] + k)


def _unigram_where_nothing_was_seen(counts, ids, unigram, k):
    rows = counts.sum(axis=1, keepdims=True)
    return np.where(rows > 0, counts / np.maximum(rows, 1), unigram)


def _half_and_half(counts, ids, unigram, k):
    return (_unigram_where_nothing_was_seen(counts, ids, unigram, k) + unigram) / 2


@exercise(
    cases=_texts,
    hints=[
        "First count: counts[a, b] is how often b comes right after a. The pairs are "
        "ids[:-1] and ids[1:], beside each other.",
        "counts[ids[:-1], ids[1:]] += 1 counts a pair once, however often it occurs. "
        "np.add.at(counts, (ids[:-1], ids[1:]), 1) counts them all.",
        "The sum of row a of the counts says how often anything came after a. Add k "
        "to it, and k times the unigram to the row.",
    ],
    mistakes=[
        Mistake(
            "you count a pair once, however often it occurs: x[i] += 1 adds once for "
            "each different i",
            _each_pair_once,
        ),
        Mistake(
            "rows and columns have changed places: row a is for what comes after a",
            _of_pairs(lambda ids: (ids[1:], ids[:-1])),
        ),
        Mistake(
            "your table stands on its side: counted and divided right, then transposed",
            lambda *case: bigram(*case).T,
        ),
        Mistake(
            "you divide by how often a occurs: the last word of the text occurs once "
            "more than it is followed",
            _with_counts(_all_ids_below),
        ),
        Mistake(
            "you divide by the number of all pairs, not of those that begin with a",
            _with_counts(lambda c, ids, u, k: (c + k * u) / (c.sum() + k)),
        ),
        Mistake(
            "you divide the columns, not the rows",
            _with_counts(lambda c, ids, u, k: (c + k * u) / (c.sum(axis=0) + k)),
        ),
        Mistake(
            "you add k to every count, not k times the unigram",
            _with_counts(
                lambda c, ids, u, k: _smoothed(c, np.ones(len(u)) / len(u), k * len(u))
            ),
        ),
        Mistake(
            "you leave the k below out: your rows sum to more than 1",
            _with_counts(
                lambda c, ids, u, k: (
                    (c + k * u) / np.maximum(c.sum(axis=1, keepdims=True), 1)
                )
            ),
        ),
        Mistake(
            "you do not divide at all",
            _with_counts(lambda c, ids, u, k: c + k * u),
        ),
        Mistake(
            "you take the unigram only where a word was never followed by anything",
            _with_counts(_unigram_where_nothing_was_seen),
        ),
        Mistake(
            "you take the mean of counts and unigram, whatever k is",
            _with_counts(_half_and_half),
        ),
        Mistake(
            "you let the first word come after the last",
            _of_pairs(lambda ids: (ids, np.roll(ids, -1))),
        ),
        Mistake(
            "your pairs do not overlap: every word but the first and the last is in "
            "two of them",
            _of_pairs(lambda ids: (ids[:-1:2], ids[1::2])),
        ),
        Mistake(
            "you pair each word with the next but one",
            _of_pairs(lambda ids: (ids[:-2], ids[2:])),
        ),
        Mistake(
            "you count a pair in both orders",
            _with_counts(lambda c, ids, u, k: _smoothed(c + c.T, u, k)),
        ),
    ],
)
def bigram(ids, unigram, k):
    """p(b | a) = (how often b comes after a + k p(b)) / (what comes after a + k).

    ids (n,), words as integers; unigram (V,), the p(b); a number k > 0
    -> (V, V), row a for what comes after a.
    """
    V = len(unigram)
    counts = np.zeros((V, V))
    np.add.at(counts, (ids[:-1], ids[1:]), 1)
    return (counts + k * unigram) / (counts.sum(axis=1, keepdims=True) + k)


def _right_words(rng):
    return [
        (np.array([0.5, 0.25, 0.125]),),
        (rng.uniform(0.01, 1, size=30),),
        (rng.uniform(0.01, 1, size=(3, 4)),),  # three lanes
        (rng.uniform(1e-4, 1e-2, size=500),),  # their product is 0 to the computer
        (np.array([1.0]),),
        (np.array([1e-250, 0.5]),),
        (np.array([0.5, 0.0, 0.5]),),  # what was held to be impossible has come
    ]


def _by_the_product(probabilities):
    return np.prod(probabilities) ** (-1 / probabilities.size)


def _by_lanes(probabilities):
    return np.exp(-np.log(probabilities).mean(axis=-1)).mean()


def _without_zeros(probabilities):
    return np.exp(-np.log(probabilities[probabilities > 0]).mean())


@exercise(
    cases=_right_words,
    hints=[
        "The product of many probabilities is too small to hold. The sum of their "
        "logarithms is not.",
        "The mean of ln p, its sign changed, and back from the logarithm with exp.",
    ],
    mistakes=[
        Mistake(
            "you multiply the probabilities: the product of some hundred is too small "
            "to hold",
            _by_the_product,
        ),
        Mistake(
            "you take the mean of the probabilities, not of their logarithms",
            lambda p: 1 / p.mean(),
        ),
        Mistake(
            "you take the mean of 1 / p, not of its logarithm",
            lambda p: (1 / p).mean(),
        ),
        Mistake(
            "you forget the minus: that is the mean probability, not the perplexity",
            lambda p: np.exp(np.log(p).mean()),
        ),
        Mistake(
            "you stop at the loss, in nats",
            lambda p: -np.log(p).mean(),
        ),
        Mistake(
            "you stop at the loss, in bits",
            lambda p: -np.log2(p).mean(),
        ),
        Mistake(
            "you take the natural logarithm and go back with a power of 2",
            lambda p: 2 ** -np.log(p).mean(),
        ),
        Mistake(
            "you take the logarithm to base 2 and go back with exp",
            lambda p: np.exp(-np.log2(p).mean()),
        ),
        Mistake(
            "you add the logarithms up and do not divide by their number",
            lambda p: np.exp(-np.log(p).sum()),
        ),
        Mistake(
            "you divide by the number of rows, not of words",
            lambda p: np.exp(-np.log(p).sum() / len(p)),
        ),
        Mistake(
            "you take the mean of each lane's own perplexity",
            _by_lanes,
        ),
        Mistake(
            "you leave out the words of probability 0: a model that is sure and wrong "
            "has an infinite perplexity",
            _without_zeros,
        ),
        Mistake(
            "you add something small to every probability",
            lambda p: np.exp(-np.log(p + 1e-9).mean()),
        ),
        Mistake(
            "you divide by one less than the number of words",
            lambda p: np.exp(-np.log(p).sum() / (p.size - 1)),
        ),
        Mistake(
            "you take the entropy, p times log p: each word of the text counts once",
            lambda p: np.exp(-(p * np.log(p)).sum()),
        ),
        Mistake(
            "you take the median",
            lambda p: np.exp(-np.median(np.log(p))),
        ),
    ],
)
def perplexity(probabilities):
    """exp of the mean of -ln p.

    probabilities (...), those that the model gave to the words that came -> a number.
    """
    return np.exp(-np.mean(np.log(probabilities)))


def _long_texts(rng):
    def case(n, lanes, T):
        return rng.permutation(n), lanes, T

    return [
        case(41, 4, 5),
        case(40, 4, 3),  # the tenth word of the last lane has no successor
        case(17, 4, 4),
        case(65, 4, 4),  # as many windows as lanes and steps
        case(30, 1, 7),
        case(23, 3, 1),
        case(100, 2, 30),
    ]


def _cut(ids, lanes, T, length):
    """Lanes of `length` words and the words after them, in windows."""
    inputs = ids[: lanes * length].reshape(lanes, length)
    targets = ids[1 : lanes * length + 1].reshape(lanes, length)

    def cut(lane):
        K = length // T
        return lane[:, : K * T].reshape(lanes, K, T).swapaxes(0, 1)

    return cut(inputs), cut(targets)


def _length(ids, lanes):
    return (len(ids) - 1) // lanes


def _row_by_row(ids, lanes, T):
    K = _length(ids, lanes) // T
    n = K * lanes * T
    return ids[:n].reshape(K, lanes, T), ids[1 : n + 1].reshape(K, lanes, T)


def _dealt_out(ids, lanes, T):
    length = _length(ids, lanes)
    both = ids[: lanes * length], ids[1 : lanes * length + 1]
    return tuple(
        each.reshape(length, lanes)[: length // T * T]
        .reshape(-1, T, lanes)
        .swapaxes(1, 2)
        for each in both
    )


def _end_of_the_lane(ids, lanes, T, inside_the_window):
    inputs, _ = _cut(ids, lanes, T, _length(ids, lanes))
    if inside_the_window:
        return inputs, np.roll(inputs, -1, axis=2)
    lane = inputs.swapaxes(0, 1).reshape(lanes, -1)
    targets = np.roll(lane, -1, axis=1).reshape(lanes, -1, T).swapaxes(0, 1)
    return inputs, targets


def _first_word_lost(ids, lanes, T):
    inputs, targets = _cut(ids, lanes, T, _length(ids, lanes))
    return inputs[:, :, :-1], targets[:, :, :-1]


def _step_by_step(ids, lanes, T):
    """A window for every word, the next one step further."""
    length = _length(ids, lanes)
    inputs, targets = _cut(ids, lanes, 1, length)
    starts = range(length - T + 1)

    def slide(x):
        return np.stack([x[s : s + T, :, 0].T for s in starts])

    return slide(inputs), slide(targets)


def _both(change):
    """Inputs and targets as they should be, and both changed."""
    return lambda *case: tuple(map(change, windows(*case)))


@exercise(
    cases=_long_texts,
    hints=[
        "The last word is no input, because nothing comes after it. So a lane has "
        "L = (n - 1) // lanes words.",
        "ids[: lanes * L].reshape(lanes, L) are the inputs of the lanes. Their targets "
        "stand one word further in the text: ids[1 : lanes * L + 1], reshaped alike.",
        "Cut the lanes to K T words, reshape them to (lanes, K, T), and swap the first "
        "two axes.",
    ],
    mistakes=[
        Mistake(
            "you cut the text row by row: then the second window of a lane does not go "
            "on where its first ended",
            _row_by_row,
        ),
        Mistake(
            "you deal the words out to the lanes like cards: a lane should be a piece "
            "of the text",
            _dealt_out,
        ),
        Mistake(
            "the targets are the inputs: a network that copies would be right",
            lambda *case: (windows(*case)[0],) * 2,
        ),
        Mistake(
            "the targets are the words before, not those after",
            lambda *case: windows(*case)[::-1],
        ),
        Mistake(
            "the last target of a window is the window's own first word",
            partial(_end_of_the_lane, inside_the_window=True),
        ),
        Mistake(
            "the last target of a lane is the lane's own first word",
            partial(_end_of_the_lane, inside_the_window=False),
        ),
        Mistake(
            "each window is one word short: its last target is in the next window",
            _first_word_lost,
        ),
        Mistake(
            "the lanes come first, then the windows: (lanes, K, T)",
            _both(lambda x: x.swapaxes(0, 1)),
        ),
        Mistake(
            "the steps come before the lanes: (K, T, lanes)",
            _both(lambda x: x.swapaxes(1, 2)),
        ),
        Mistake(
            "your windows overlap: each begins one word after the one before",
            _step_by_step,
        ),
        Mistake(
            "you leave the last window out",
            _both(lambda x: x[:-1]),
        ),
        Mistake(
            "you leave the first window out",
            _both(lambda x: x[1:]),
        ),
        Mistake(
            "the windows stand in the wrong order, the last one first",
            _both(lambda x: x[::-1]),
        ),
        Mistake(
            "the lanes are as long as n // lanes says: where that divides n, the last "
            "target lies beyond the text",
            lambda ids, lanes, T: _cut(ids, lanes, T, len(ids) // lanes),
        ),
        Mistake(
            "you take the inputs from the second word on",
            lambda ids, lanes, T: _cut(np.roll(ids, -1), lanes, T, _length(ids, lanes)),
        ),
        Mistake(
            "you cut the rest off at the beginning of the text, not at the end of the "
            "lanes",
            lambda ids, lanes, T: _cut(
                ids[(len(ids) - 1) % (lanes * T) :],
                lanes,
                T,
                (len(ids) - 1) // (lanes * T) * T,
            ),
        ),
    ],
)
def windows(ids, lanes, T):
    """The inputs and the targets of all windows, in order.

    ids (n,), a text; `lanes` pieces of it are read side by side, T words at a time
    -> inputs, targets, each (K, lanes, T), with as many windows K as are full.
    """
    L = (len(ids) - 1) // lanes
    K = L // T

    def cut(words):
        lane = words[: lanes * L].reshape(lanes, L)
        return lane[:, : K * T].reshape(lanes, K, T).swapaxes(0, 1)

    return cut(ids), cut(ids[1:])


def _scores(rng):
    def case(R, V, scale=1.0, offset=0.0):
        logits = scale * rng.normal(size=(R, V)) + offset * np.arange(R)[:, None]
        return logits, rng.integers(V, size=R)

    return [
        case(5, 7),
        case(4, 4),
        case(3, 3, scale=1e3),
        case(4, 5, offset=2e3),  # each row at a height of its own
        case(1, 6),
        (np.zeros((2, 4)), np.array([3, 0])),
    ]


def _hot(logits, targets):
    return np.eye(logits.shape[1])[targets]


def _losses(logits, targets):
    return cross_entropy(logits, targets)[0]


def _gradient(make):
    """The right losses; the gradient make(p, y)."""

    def answer(logits, targets):
        y = _hot(logits, targets)
        return _losses(logits, targets), make(softmax(logits), y)

    return answer


def _loss(make):
    """The right gradient; the losses make(losses)."""

    def answer(logits, targets):
        losses, gradient = cross_entropy(logits, targets)
        return make(losses), gradient

    return answer


def _shifted_by(shift):
    """What comes out if `shift`, not each row's largest, is taken off."""

    def answer(logits, targets):
        e = np.exp(logits - shift(logits))
        p = e / e.sum(axis=1, keepdims=True)
        y = _hot(logits, targets)
        return -np.log(p[np.arange(len(p)), targets]), p - y

    return answer


def _down_the_columns(logits, targets):
    p = softmax(logits.T).T
    y = _hot(logits, targets)
    return -np.log(p[np.arange(len(p)), targets]), p - y


def _twice(logits, targets):
    return cross_entropy(softmax(logits), targets)


def _one_off_in_all_rows(logits, targets):
    gradient = softmax(logits)
    gradient[:, targets] -= 1
    return _losses(logits, targets), gradient


def _log_of_the_softmax(logits, targets):
    p = softmax(logits)
    return -np.log(p[np.arange(len(p)), targets]), p - _hot(logits, targets)


def _never_zero(logits, targets):
    p = softmax(logits)
    return -np.log(p[np.arange(len(p)), targets] + 1e-9), p - _hot(logits, targets)


@exercise(
    cases=_scores,
    hints=[
        "Take each row's largest logit off the row first. That changes neither the "
        "loss nor the gradient, and exp no longer overflows.",
        "With the shifted logits z: loss = log(sum(exp(z))) - z[target]. The logarithm "
        "of a softmax that has become 0 would be infinite.",
        "The right word of each row is logits[np.arange(R), targets]. At the same "
        "places take 1 off the softmax, and you have the gradient.",
    ],
    mistakes=[
        Mistake(
            "your gradient is y - p: it shows downhill",
            _gradient(lambda p, y: y - p),
        ),
        Mistake(
            "you do not take the right word's 1 off: the gradient is p - y",
            _gradient(lambda p, y: p),
        ),
        Mistake(
            "your gradient is that of the mean loss; asked for is that of the sum",
            _gradient(lambda p, y: (p - y) / len(p)),
        ),
        Mistake(
            "your gradient is -1 / p, that by the probability, not by the logits",
            _gradient(lambda p, y: -y / p),
        ),
        Mistake(
            "your gradient is p (1 - p), the derivative of the softmax alone",
            _gradient(lambda p, y: p * (1 - p)),
        ),
        Mistake(
            "you multiply p - y with p (1 - p): that is the gradient of a squared "
            "error behind a sigmoid",
            _gradient(lambda p, y: (p - y) * p * (1 - p)),
        ),
        Mistake(
            "your gradient is that of the right words alone",
            _gradient(lambda p, y: (p - y) * y),
        ),
        Mistake(
            "you take 1 off in every row for the targets of all rows: write "
            "p[np.arange(R), targets] -= 1",
            _one_off_in_all_rows,
        ),
        Mistake(
            "exp overflows: take each row's largest logit off first",
            _shifted_by(lambda logits: 0.0),
        ),
        Mistake(
            "you take the largest logit of all rows off, and in lower rows every exp "
            "is 0",
            _shifted_by(np.max),
        ),
        Mistake(
            "you take the mean of each row off, and exp still overflows",
            _shifted_by(lambda logits: logits.mean(axis=1, keepdims=True)),
        ),
        Mistake(
            "your softmax runs down the columns",
            _down_the_columns,
        ),
        Mistake(
            "you take a softmax of the softmax",
            _twice,
        ),
        Mistake(
            "you take the logarithm of the finished softmax: where that is 0, the loss "
            "is infinite",
            _log_of_the_softmax,
        ),
        Mistake(
            "you add something small inside the logarithm",
            _never_zero,
        ),
        Mistake(
            "your losses have the wrong sign",
            _loss(np.negative),
        ),
        Mistake(
            "you give the mean of the losses, not one for each row",
            _loss(np.mean),
        ),
        Mistake(
            "you give the sum of the losses, not one for each row",
            _loss(np.sum),
        ),
        Mistake(
            "your losses are in bits, not in nats",
            _loss(lambda losses: losses / math.log(2)),
        ),
        Mistake(
            "you give the probabilities of the right words, not their -ln",
            _loss(lambda losses: np.exp(-losses)),
        ),
        Mistake(
            "losses and gradient have changed places",
            lambda *case: cross_entropy(*case)[::-1],
        ),
    ],
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
    total=0.0,
    rescale=True,
    highest=lambda z: z.max(axis=1),
    add=lambda old, new: old + new,
    end=lambda top, total: top + np.log(total),
):
    """The running sum and, by its arguments, ways to get it wrong."""
    top = first
    for start, stop in ranges(words, size):
        z = logits_of(start, stop)
        higher = np.maximum(top, highest(z))
        kept = total * np.exp(top - higher) if rescale else total
        total = add(kept, np.exp(z - higher[:, None]).sum(axis=1))
        top = higher
    return end(top, total)


def _by_rows(words, size):
    return [(k, k + size) for k in range(0, words - size + 1, size)] or [(0, words)]


def _one_in_two_blocks(words, size):
    starts = range(0, words, size)
    return [(k, min(k + size, words)) for k in starts if k + 1 < words] or [(0, 1)]


def _sum_of_logarithms(logits_of, words, size):
    return sum(
        np.log(np.exp(logits_of(*each)).sum(axis=1)) for each in _ranges(words, size)
    )


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
    mistakes=[
        Mistake(
            "you ask for all words at once",
            lambda logits_of, words, size: _without_the_highest(
                logits_of, words, words
            ),
        ),
        Mistake(
            "you do not scale the old sum down when a block brings a higher logit",
            partial(_running, rescale=False),
        ),
        Mistake(
            "you leave out the last block where it is shorter",
            partial(_running, ranges=_by_rows),
        ),
        Mistake(
            "you leave out a last block of one word",
            partial(_running, ranges=_one_in_two_blocks),
        ),
        Mistake(
            "you ask for words beyond the last",
            partial(
                _running,
                ranges=lambda words, size: [
                    (k, k + size) for k in range(0, words, size)
                ],
            ),
        ),
        Mistake(
            "you add up the logarithms of the blocks: the logarithm of a sum is no sum "
            "of logarithms",
            _sum_of_logarithms,
        ),
        Mistake(
            "you do not take the highest logit off, and exp overflows",
            _without_the_highest,
        ),
        Mistake(
            "you take the first block's highest logit off in all blocks",
            _highest_of_the_first,
        ),
        Mistake(
            "you take each block's own highest logit off and add up what is left",
            _highest_of_the_last,
        ),
        Mistake(
            "your highest logit begins at 0: where all are far below it, the sum is 0",
            partial(_running, first=0.0),
        ),
        Mistake(
            "your sum begins at 1",
            partial(_running, first=0.0, total=1.0),
        ),
        Mistake(
            "you take one highest logit for all rows",
            partial(_running, highest=lambda z: np.full(len(z), z.max())),
        ),
        Mistake(
            "you keep only the last block's sum",
            partial(_running, add=lambda old, new: new),
        ),
        Mistake(
            "you give the highest logit",
            partial(_running, end=lambda top, total: top),
        ),
        Mistake(
            "you do not add the highest logit back",
            partial(_running, end=lambda top, total: np.log(total)),
        ),
        Mistake(
            "you forget the logarithm",
            partial(_running, end=lambda top, total: top + total),
        ),
        Mistake(
            "you go back from the logarithm",
            partial(_running, end=lambda top, total: np.exp(top) * total),
        ),
    ],
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


def _draws(rng):
    few = np.log([0.5, 0.3, 0.2])
    many = 2 * rng.normal(size=40)
    cases = [(few, 1.0, u) for u in (0.1, 0.49, 0.51, 0.79, 0.81, 0.99)]
    cases += [(few, 2.0, 0.43), (few, 0.5, 0.6), (few, 0.25, 0.85), (few, 5.0, 0.37)]
    cases += [(many, t, u) for t in (0.3, 1.0, 1.7) for u in rng.uniform(size=3)]
    cases += [
        (many, 0, 0.95),
        (np.array([1.0, 3.0, 3.0, 2.0]), 0, 0.99),  # two are the likeliest
        (np.array([5.0, 9.0, 8.9]), 1e-3, 0.5),
        (np.array([1e3, 1e3, 0.0]), 1.0, 0.7),
        (np.array([-1e4, 0.0, 0.0]), 1.0, 0.0),  # the first has probability 0
        (np.array([-3.0, -1.0, -2.0]), 1.0, 0.3),
    ]
    return cases


def _chosen(p, u):
    return int(np.searchsorted(np.cumsum(p), u, side="right"))


def _at(scale):
    """A draw from softmax(scale(logits, temperature)), at temperature 0 the argmax."""

    def answer(logits, temperature, u):
        if temperature == 0:
            return int(np.argmax(logits))
        return _chosen(softmax(scale(logits, temperature)), u)

    return answer


def _from(shares):
    """A draw from the shares that shares(softmax, temperature) makes of it."""

    def answer(logits, temperature, u):
        if temperature == 0:
            return int(np.argmax(logits))
        return _chosen(shares(softmax(logits), temperature), u)

    return answer


def _first_that_reaches(logits, temperature, u):
    if temperature == 0:
        return int(np.argmax(logits))
    p = softmax(logits / temperature)
    return int(np.searchsorted(np.cumsum(p), u, side="left"))


def _overflowing(logits, temperature, u):
    if temperature == 0:
        return int(np.argmax(logits))
    e = np.exp(logits / temperature)
    return int(np.argmax(np.cumsum(e / e.sum()) > u))


def _sorted_first(logits, temperature, u):
    if temperature == 0:
        return int(np.argmax(logits))
    p = softmax(logits / temperature)
    return _chosen(np.sort(p)[::-1], u)


def _likeliest_first(logits, temperature, u):
    if temperature == 0:
        return int(np.argmax(logits))
    order = np.argsort(-logits, kind="stable")
    return int(order[_chosen(softmax(logits[order] / temperature), u)])


def _last_of_the_likeliest(logits, temperature, u):
    if temperature == 0:
        return int(len(logits) - 1 - np.argmax(logits[::-1]))
    return sample(logits, temperature, u)


@exercise(
    cases=_draws,
    hints=[
        "Divide the logits by the temperature, and take their softmax: its largest "
        "off first, because a small temperature makes them large.",
        "Lay the probabilities side by side on a line from 0 to 1: np.cumsum says "
        "where each ends. In whose piece does u lie?",
        "The first entry of the cumulative sum that is larger than u: "
        'np.searchsorted(np.cumsum(p), u, side="right").',
        "Temperature 0 cannot be divided by: np.argmax, before anything else.",
    ],
    mistakes=[
        Mistake(
            "you always take the likeliest word",
            lambda logits, temperature, u: int(np.argmax(logits)),
        ),
        Mistake(
            "you multiply with the temperature: a high one should make the choice "
            "freer, not stricter",
            _at(lambda z, t: z * t),
        ),
        Mistake(
            "you do not use the temperature",
            _at(lambda z, t: z),
        ),
        Mistake(
            "you divide the probabilities by the temperature, not the logits",
            _from(lambda p, t: p / t),
        ),
        Mistake(
            "you do not make the sum of the probabilities 1 again",
            _from(lambda p, t: p ** (1 / t)),
        ),
        Mistake(
            "you divide by the root of the temperature",
            _at(lambda z, t: z / math.sqrt(t)),
        ),
        Mistake(
            "you take the softmax of the softmax",
            _at(lambda z, t: softmax(z / t)),
        ),
        Mistake(
            "you divide by 0 at temperature 0: there the likeliest word is meant",
            lambda logits, t, u: _chosen(softmax(np.divide(logits, t)), u),
        ),
        Mistake(
            "at temperature 0 you draw as at temperature 1",
            lambda logits, t, u: _chosen(softmax(logits / (t or 1.0)), u),
        ),
        Mistake(
            "of several likeliest words you take the last, not the first",
            _last_of_the_likeliest,
        ),
        Mistake(
            "you take the first sum that reaches u, not the first above it: where u is "
            "0, that may be a word of probability 0",
            _first_that_reaches,
        ),
        Mistake(
            "exp overflows: take the largest logit off first",
            _overflowing,
        ),
        Mistake(
            "you give the place among the sorted probabilities, not the word",
            _sorted_first,
        ),
        Mistake(
            "you lay the words out by their probability, not in their own order",
            _likeliest_first,
        ),
        Mistake(
            "you lay the words out from the last to the first",
            lambda z, t, u: len(z) - 1 - sample(z[::-1], t, u),
        ),
        Mistake(
            "you are one word too far",
            lambda *case: sample(*case) + 1,
        ),
        Mistake(
            "you give the word's probability, not the word",
            lambda z, t, u: softmax(z / (t or 1e-9))[sample(z, t, u)],
        ),
        Mistake(
            "you take the word nearest to u from below: the piece before",
            lambda *case: sample(*case) - 1,
        ),
    ],
)
def sample(logits, temperature, u):
    """A word drawn with the probabilities softmax(logits / temperature).

    logits (V,); u, a number from 0 to below 1, evenly drawn: the word is the first
    whose cumulative probability is above u. Temperature 0 means the likeliest word,
    the first if there are several -> its number.
    """
    if temperature == 0:
        return int(np.argmax(logits))
    z = logits / temperature
    cumulative = np.cumsum(np.exp(z - z.max()))
    return int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
