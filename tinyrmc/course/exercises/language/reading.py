"""Chapter 17: reading a text in windows, and writing one."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..attention import softmax
from ..exercise import exercise


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
    mistakes={
        "you cut the text row by row: then the second window of a lane does not go "
        "on where its first ended": _row_by_row,
        "you deal the words out to the lanes like cards: a lane should be a piece "
        "of the text": _dealt_out,
        "the targets are the inputs: a network that copies would be right": (
            lambda *case: (windows(*case)[0],) * 2
        ),
        "the targets are the words before, not those after": (
            lambda *case: windows(*case)[::-1]
        ),
        "the last target of a window is the window's own first word": partial(
            _end_of_the_lane, inside_the_window=True
        ),
        "the lanes come first, then the windows: (lanes, K, T)": _both(
            lambda x: x.swapaxes(0, 1)
        ),
        "the steps come before the lanes: (K, T, lanes)": _both(
            lambda x: x.swapaxes(1, 2)
        ),
        "the lanes are as long as n // lanes says: where that divides n, the last "
        "target lies beyond the text": (
            lambda ids, lanes, T: _cut(ids, lanes, T, len(ids) // lanes)
        ),
    },
    views=True,
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
        # the ten pieces end at 0.9999999999999999, and u is no smaller
        (np.zeros(10), 1.0, float(np.nextafter(1, 0))),
    ]
    return cases


def _chosen(p, u):
    place = np.searchsorted(np.cumsum(p), u, side="right")
    return int(min(place, len(p) - 1))


def _beyond_the_end(logits, temperature, u):
    if temperature == 0:
        return int(np.argmax(logits))
    p = softmax(logits / temperature)
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


@exercise(
    cases=_draws,
    hints=[
        "Divide the logits by the temperature, and take their softmax: its largest "
        "off first, because a small temperature makes them large.",
        "Lay the probabilities side by side on a line from 0 to 1: np.cumsum says "
        "where each ends. In whose piece does u lie?",
        "The first entry of the cumulative sum that is larger than u: "
        'np.searchsorted(np.cumsum(p), u, side="right"). Rounding may leave the last '
        "sum below u: no word has the number V.",
        "Temperature 0 cannot be divided by: np.argmax, before anything else.",
    ],
    mistakes={
        "rounding leaves the last sum a little below 1, and u may lie above it: no "
        "word has the number V": _beyond_the_end,
        "you always take the likeliest word": (
            lambda logits, temperature, u: int(np.argmax(logits))
        ),
        "you multiply by the temperature: a high one should make the choice "
        "freer, not stricter": _at(lambda z, t: z * t),
        "you do not use the temperature": _at(lambda z, t: z),
        "you divide the probabilities by the temperature, not the logits": _from(
            lambda p, t: p / t
        ),
        "you do not make the sum of the probabilities 1 again": _from(
            lambda p, t: p ** (1 / t)
        ),
        "you take the softmax of the softmax": _at(lambda z, t: softmax(z / t)),
        "you divide by 0 at temperature 0: take the likeliest word there": (
            lambda logits, t, u: _chosen(softmax(np.divide(logits, t)), u)
        ),
        "you take the first sum that reaches u, not the first above it: where u is "
        "0, that may be a word of probability 0": _first_that_reaches,
        "exp overflows: take the largest logit off first": _overflowing,
        "you give the place among the sorted probabilities, not "
        "the word": _sorted_first,
        "you are one word too far": lambda *case: sample(*case) + 1,
    },
)
def sample(logits, temperature, u):
    """A word drawn with the probabilities softmax(logits / temperature).

    logits (V,); u, a number from 0 to below 1, drawn uniformly: the word is the first
    whose cumulative probability is above u. Temperature 0 means the likeliest word,
    the first if there are several -> its number.
    """
    if temperature == 0:
        return int(np.argmax(logits))
    z = logits / temperature
    cumulative = np.cumsum(np.exp(z - z.max()))
    place = np.searchsorted(cumulative, u * cumulative[-1], side="right")
    return int(min(place, len(z) - 1))


def _shares(rng):
    def case(*shape, mass=0.8):
        return softmax(2 * rng.normal(size=shape)), mass

    few = np.array([0.1, 0.4, 0.05, 0.25, 0.2])
    return [
        case(6),
        (few, 0.6),
        (few, 0.9),
        (few, 0.3),  # one word has it all
        (few, 1e-9),
        (few, 1.0),
        case(4, 4),
        case(2, 3, 30, mass=0.95),
        (np.array([0.25, 0.0, 0.75, 0.0]), 0.8),
    ]


def _kept(few, p, mass):
    """Shares of the words that `few` keeps: few(before, after, mass), sorted sums."""
    order = np.argsort(-p, axis=-1, kind="stable")
    after = np.cumsum(np.take_along_axis(p, order, -1), axis=-1)
    before = after - np.take_along_axis(p, order, -1)
    keep = np.zeros(p.shape, bool)
    np.put_along_axis(keep, order, few(before, after, mass), -1)
    found = np.where(keep, p, 0)
    return found / found.sum(axis=-1, keepdims=True)


def _not_whole(p, mass):
    return np.where(nucleus(p, mass) > 0, p, 0)


def _as_sorted(p, mass):
    return -np.sort(-nucleus(p, mass), axis=-1)


def _as_they_stand(p, mass):
    found = np.where(np.cumsum(p, axis=-1) - p < mass, p, 0)
    return found / found.sum(axis=-1, keepdims=True)


def _above(p, mass):
    found = np.where(p >= 1 - mass, p, 0)
    return found / found.sum(axis=-1, keepdims=True)


@exercise(
    cases=_shares,
    hints=[
        "Sort the words from the likeliest on: order = np.argsort(-p, axis=-1). "
        "np.take_along_axis(p, order, -1) are their shares in that order.",
        "A word stays if those before it do not have the mass yet: the cumulative sum "
        "without its own share is less than `mass`.",
        "Back to the words' own places: np.put_along_axis(keep, order, stays, -1) for "
        "an array `keep` of False. Then make each row's sum 1 again.",
    ],
    mistakes={
        "you stop one word too early: the word that reaches the mass stays": partial(
            _kept, lambda before, after, mass: (after < mass) | (before == 0)
        ),
        "you keep one word more than it takes": partial(
            _kept,
            lambda before, after, mass: np.roll(before < mass, 1, -1) | (before == 0),
        ),
        "you do not make the sum 1 again": _not_whole,
        "your shares stand in sorted order; give each word its own": _as_sorted,
        "you add up the words as they stand, not from the likeliest on": _as_they_stand,
        "you keep what is likelier than 1 - mass: it is the sum that counts": _above,
    },
    leading="p",
)
def nucleus(p, mass):
    """The likeliest words that together have at least `mass`; the others get 0.

    p (..., V), shares with the sum 1; a number from above 0 to 1. As few words as it
    takes are kept -> (..., V), with the sum 1 again.
    """
    order = np.argsort(-p, axis=-1, kind="stable")
    shares = np.take_along_axis(p, order, axis=-1)
    stays = np.cumsum(shares, axis=-1) - shares < mass
    keep = np.zeros(p.shape, bool)
    np.put_along_axis(keep, order, stays, axis=-1)
    found = np.where(keep, p, 0)
    return found / found.sum(axis=-1, keepdims=True)
