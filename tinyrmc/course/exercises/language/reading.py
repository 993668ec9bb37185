"""Chapter 17: reading a text in windows, and writing one."""

from __future__ import annotations

import numpy as np

from ..attention import softmax
from ..exercise import each, exercise


def _long_texts(rng, n, lanes, T):
    return rng.permutation(n), lanes, T


@exercise(
    cases=each(
        _long_texts,  # in the second the tenth word of the last lane has no successor
        "41 4 5, 40 4 3, 17 4 4, 65 4 4, 30 1 7, 23 3 1, 100 2 30",
    ),
    hints=[
        "The last word is no input, because nothing comes after it. So a lane has "
        "L = (n - 1) // lanes words.",
        "ids[: lanes * L].reshape(lanes, L) are the inputs of the lanes. Their targets "
        "stand one word further in the text: ids[1 : lanes * L + 1], reshaped alike.",
        "Cut the lanes to K T words, reshape them to (lanes, K, T), and swap the first "
        "two axes.",
    ],
    mistakes="""
        you cut the text row by row: then the second window of a lane does not go on
        where its first ended
            L = (len(ids) - 1) // lanes -> L = (len(ids) - 1) // lanes // T * T
            .reshape(lanes, L) ->
            lane[:, : K * T].reshape(lanes, K, T).swapaxes(0, 1)
                -> lane.reshape(K, lanes, T)
        a lane's last word has a target, too, the first word of the next lane: only the
        text's last word is no input
            L = (len(ids) - 1) // lanes -> L = len(ids) // lanes
            K = L // T -> K = (L - 1) // T
            def cut(words): -> def cut(words, first=0):
            .reshape(lanes, L) -> .reshape(lanes, L)[:, first:]
            cut(ids[1:]) -> cut(ids, 1)
        you leave out what does not fill a window before you cut lanes: first lanes, as
        long as they get, and then windows
            L = (len(ids) - 1) // lanes -> L = (len(ids) - 1) // (lanes * T) * T
        the lanes come first, then the windows: (lanes, K, T)
            .swapaxes(0, 1) ->
    """,
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
    mistakes="""
        rounding leaves the last sum a little below 1, and u may lie above it: no word
        has the number V
            np.exp(z - z.max()) -> softmax(z)
            u * cumulative[-1] -> u
            min(place, len(z) - 1) -> place
        you multiply by the temperature: a high one should make the choice freer, not
        stricter
            / temperature -> * temperature
        you divide the probabilities by the temperature, not the logits
            z = logits / temperature -> z = logits
            np.exp(z - z.max()) -> softmax(z) / temperature
            u * cumulative[-1] -> u
        you divide by 0 at temperature 0: take the likeliest word there
            if temperature == 0: -> if None:
            logits / temperature -> np.divide(logits, temperature)
            np.exp(z - z.max()) -> softmax(z)
            u * cumulative[-1] -> u
        you take the first sum that reaches u, not the first above it: where u is 0,
        that may be a word of probability 0
            "right" -> "left"
        exp overflows: take the largest logit off first
            np.exp(z - z.max()) -> np.exp(z) / np.exp(z).sum()
            u * cumulative[-1] -> u
    """,
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


def _shares(rng, mass, *shape):
    return softmax(2 * rng.normal(size=shape)), mass


_FEW = np.array([0.1, 0.4, 0.05, 0.25, 0.2])


@exercise(
    cases=each(
        _shares,
        "0.8 6, 0.8 4 4, 0.95 2 3 30",
        also=[
            *((_FEW, mass) for mass in (0.6, 0.9, 0.3, 1e-9, 1.0)),
            (np.array([0.25, 0.0, 0.75, 0.0]), 0.8),
        ],
    ),
    hints=[
        "Sort the words from the likeliest on: order = np.argsort(-p, axis=-1). "
        "np.take_along_axis(p, order, -1) are their shares in that order.",
        "A word stays if those before it do not have the mass yet: the cumulative sum "
        "without its own share is less than `mass`.",
        "Back to the words' own places: np.put_along_axis(keep, order, stays, -1) for "
        "an array `keep` of False. Then make each row's sum 1 again.",
    ],
    mistakes="""
        you stop one word too early: the word that reaches the mass stays
            np.cumsum(shares, axis=-1) - shares < mass
                -> np.cumsum(shares, axis=-1) <= mass
        you do not make the sum 1 again
            / found.sum(axis=-1, keepdims=True) ->
        your shares stand in sorted order; give each word its own
            np.put_along_axis(keep, order, stays, axis=-1) -> p, keep = shares, stays
        you add up the words as they stand, not from the likeliest on
            np.argsort(-p, axis=-1, kind="stable") -> np.indices(p.shape)[-1]
        you keep what is likelier than 1 - mass: it is the sum that counts
            np.where(keep, p, 0) -> np.where(p >= 1 - mass, p, 0)
    """,
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
