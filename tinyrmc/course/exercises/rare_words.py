"""Chapter 18: Kneser and Ney's counts, one table for two uses, large vocabularies,
pieces of words.
"""

import collections
import itertools

import numpy as np

from .derived import by_complex_step
from .exercise import each, exercise, normal
from .experiments import Picture
from .language import parts_of_the_book


def _texts(rng):
    return [
        (rng.integers(5, size=60), 5),
        (rng.integers(4, size=12), 4),
        (np.array([0, 1, 2, 1, 2, 1, 2, 3, 0]), 4),  # 2 comes after 1 alone
        (rng.integers(3, size=200), 6),  # three words never occur
        (np.array([2, 0]), 3),  # a single pair
        (rng.integers(7, size=300), 7),
    ]


def _with_fallbacks(rng):
    discounts = 0.5, 0.75, 0.3, 0.9, 0.1, 0.0  # with 0 nothing is taken off
    return [
        (ids, V, discount, rng.dirichlet(np.ones(V)))
        for (ids, V), discount in zip(_texts(rng), discounts, strict=True)
    ]


@exercise(
    cases=_with_fallbacks,
    large=lambda rng: [
        (rng.integers(400, size=4000), 400, 0.75, np.full(400, 1 / 400))
    ],
    hints=[
        "Count the pairs as in chapter 17: np.add.at(counts, (ids[:-1], ids[1:]), 1).",
        "Row a saves D times the number of different words after a: "
        "discount * (counts > 0).sum(axis=1, keepdims=True).",
        "np.maximum(counts - discount, 0) + saved * fallback, divided by the row's sum "
        "of counts. A row without counts is the fallback itself: np.where.",
    ],
    mistakes="""
        you take D off counts of 0, too, which become negative
            np.maximum(counts - discount, 0) -> (counts - discount)
        what a row saves is D for each different word after it, not D once
            discount * (counts > 0).sum(axis=1, keepdims=True)
                -> discount * np.ones((V, 1))
        what a row saves is D for each *different* word after it, not for each word
            discount * (counts > 0).sum(axis=1, keepdims=True) -> discount * total
        rows and columns have changed places: row a is for what comes after a
            (ids[:-1], ids[1:]) -> (ids[1:], ids[:-1])
        a row without counts is 0; it is the fallback itself
            np.maximum(total, 1), fallback) -> np.maximum(total, 1), 0.0)
        a row without counts is 0 / 0; it is the fallback itself
            np.where(total > 0, shares / np.maximum(total, 1), fallback)
                -> shares / total
        what was saved goes to nobody: the rows add up to less than 1
            + saved * fallback ->
        the discount is written in
            discount, 0) + -> 0.5, 0) +
            saved = discount -> saved = 0.5
    """,
)
def discounted(ids, V, discount, fallback):
    """p(b | a) by counts from which a discount has gone to a fallback.

    ids (n,), words below V; a discount D from 0 to below 1; fallback f (V,), adding up
    to 1 -> (V, V), row a: (max(c(a b) - D, 0) + D n(a) f(b)) / c(a .), where n(a) is
    how many different words came after a; f where nothing did.
    """
    counts = np.zeros((V, V))
    np.add.at(counts, (ids[:-1], ids[1:]), 1)
    total = counts.sum(axis=1, keepdims=True)
    saved = discount * (counts > 0).sum(axis=1, keepdims=True)
    shares = np.maximum(counts - discount, 0) + saved * fallback
    return np.where(total > 0, shares / np.maximum(total, 1), fallback)


@exercise(
    cases=_texts,
    large=lambda rng: [(rng.integers(400, size=4000), 400)],
    hints=[
        "The sum over a of c(a .) p(b | a) is the sum of all max(c(a b) - D, 0), and "
        "D f(b) times the sum of all n(a). Rows without counts do not take part.",
        "max(c - D, 0) is c - D where a was before b at all, else 0. So the first sum "
        "is c(. b) - D times the number of different words before b.",
        "f(b) times the sum of all n(a) is the number of different words before b: "
        "(counts > 0).sum(axis=0), divided by its sum.",
    ],
    mistakes="""
        that is the unigram: a word counts as often as it came, not after how many
        different words
            (counts > 0).sum(axis=0) -> np.bincount(ids.astype(np.intp), minlength=V)
        that is how often each word came after anything; count the *different* words
        before it
            (counts > 0).sum(axis=0) -> counts.sum(axis=0)
        you count different words after b; count those before it
            (counts > 0).sum(axis=0) -> (counts > 0).sum(axis=1)
        these are counts: divide by their sum, so that they add up to 1
            before / before.sum() -> before / 1
        you divide by the number of words, so they do not add up to 1
            before / before.sum() -> before / V
    """,
)
def fallback(ids, V):
    """The fallback with which each word is expected as often as it came.

    ids (n,), words below V -> (V,), adding up to 1.
    """
    counts = np.zeros((V, V))
    np.add.at(counts, (ids[:-1], ids[1:]), 1)
    before = (counts > 0).sum(axis=0)
    return before / before.sum()


def _both_uses(rng, R, d, V):
    return rng.integers(V, size=R), *normal(rng, (R, d), (R, d), (R, V))


_both_step = by_complex_step(lambda E, ids, h: (E[ids], h @ E.T), "E", outputs=2)


@exercise(
    cases=each(_both_uses, "4 3 8, 9 2 4, 5 5 5, 3 2 1"),
    hints=[
        "What is used twice gets two gradients, which add up. As E' it is a factor of "
        "z = h E'.T: its gradient is dz.T @ h.",
        "As E, row w was read wherever ids is w: it gets the sum of these rows of dx.",
        "gradient[ids] += dx adds once for each different word. np.add.at(gradient, "
        "ids, dx) adds for each place.",
    ],
    mistakes="""
        a word that was read twice gets one of its gradients: x[ids] += adds once for
        each different word
            np.add.at(gradient, ids, dx) -> gradient[ids] += dx
        only what was read has a gradient; the table makes the logits, too
            dz.T @ h -> 0 * (dz.T @ h)
        only the logits have a gradient; the table is read, too
            np.add.at(gradient, ids, dx) ->
    """,
    exact=lambda ids, dx, h, dz: _both_step(
        dx, dz, np.zeros((dz.shape[1], h.shape[1])), ids, h
    ),
)
def tied_vjp(ids, dx, h, dz):
    """The gradient of a table E that is read, x = E[ids], and makes logits, z = h E.T.

    ids (R,); dx (R, d) that of x, dz (R, V) that of z; h (R, d) -> (V, d).
    """
    gradient = dz.T @ h
    np.add.at(gradient, ids, dx)
    return gradient


def _logits(rng, k, rest, scale, *leading):
    head = scale * rng.normal(size=(*leading, k + 1))
    return head, scale * rng.normal(size=(*leading, rest))


@exercise(
    cases=each(
        _logits,
        "3 5 1 4, 2 3 1 3, 1 1 1 2, 3 5 500 2",
        also=[(np.zeros((1, 4)), np.zeros((1, 2)))],
    ),
    hints=[
        "A rare word: first the head must say `rare`, then the tail this word. The "
        "probabilities multiply, so the logarithms add up.",
        "ln softmax(z) = z - ln sum exp(z), with each row's largest logit taken off "
        "first. You need it twice.",
        "The head's last column is no word; it is added to all of the tail.",
    ],
    mistakes="""
        your tail is not multiplied by the head's share for it
            first[..., -1:] + logs -> logs
        you multiply logarithms; probabilities multiply, so theirs add up
            -1:] + logs -> -1:] * logs
        the logits are put into one softmax, which needs all of them
            first = logs(head)
                -> return logs(np.concatenate([head[..., :-1], tail + head[..., -1:]],
                -1))
        you take the logarithm of finished shares: where one is 0, it is infinite
            return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
                -> return np.log(np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True))
        exp overflows: take each row's largest logit off first
            z = z - z.max(axis=-1, keepdims=True) ->
    """,
    leading="head tail",
    anysize="head tail",
)
def two_level(head, tail):
    """ln p of all words, where rare ones are chosen in two steps.

    head (..., k + 1): logits of the k frequent words and, last, of "a rare one"; tail
    (..., V - k): logits among the rare words -> (..., V), the frequent words first.
    """

    def logs(z):
        z = z - z.max(axis=-1, keepdims=True)
        return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))

    first = logs(head)
    parts = [first[..., :-1], first[..., -1:] + logs(tail)]
    return np.concatenate(parts, axis=-1)


@exercise(
    cases=lambda rng: [
        (np.sort(2000.0 // np.arange(1, 301) + rng.integers(3, size=300))[::-1],),
        (np.sort(rng.integers(1, 50, size=40))[::-1],),
        (np.array([90, 5, 1, 1, 1, 1, 1]),),
        (np.array([8, 1]),),
        (np.full(12, 3),),
        (np.array([20, 14, 12, 10, 9]),),  # another k with a tail that is one too long
    ],
    hints=[
        "With k words in the head: the head always takes k + 1 products, the tail "
        "V - k more, but only for the share of the text that is rare.",
        "np.cumsum(counts) says how much of the text the first k words cover. Make the "
        "cost for all k from 1 to V - 1 at once, and take np.argmin.",
    ],
    mistakes="""
        you are one off: the first k is 1
            = cheapest_head(counts) - 1
        the tail is paid at every word; only rare ones need it
            = 1
        the tail has V - k words: the others stand in the head
            rare * (V - k) -> rare * V
        your tail is one too long: "a rare one" is an answer of the head alone
            rare * (V - k) -> rare * (V - k + 1)
    """,
)
def cheapest_head(counts):
    """The k with the fewest products for each word of the text, on average.

    counts (V,), of each word, falling. With k words in the head it takes k + 1 products
    of a row with a row, and V - k more where the word is rare -> k, from 1 to V - 1.
    """
    V, k = len(counts), np.arange(1, len(counts))
    rare = 1 - np.cumsum(counts)[:-1] / counts.sum()
    return int(k[np.argmin(k + 1 + rare * (V - k))])


def text(part):
    """The book as `language.alice` has it: ten chapters to train on, two apart."""
    return parts_of_the_book()[part]


def _joined(symbols, pair):
    """The pieces of a word, a tuple, with a pair joined wherever it stands."""
    found, k = [], 0
    while k < len(symbols):
        both = symbols[k : k + 2] == pair
        found.append("".join(pair) if both else symbols[k])
        k += 2 if both else 1
    return tuple(found)


def cut_up(word, pairs):
    """The pieces of a word after these pairs have been joined, one after the other."""
    symbols = tuple(word)
    for pair in pairs:
        symbols = _joined(symbols, pair)
    return symbols


def _vocabularies(rng):
    drawn = {}
    for _ in range(30):
        length = int(rng.integers(1, 7))
        word = "".join(rng.choice([*"abcd"], size=length))
        drawn[word] = int(rng.integers(1, 20))
    return [
        ({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 6),
        ({"aaa": 4, "ab": 5}, 3),  # a a stands twice in aaa, and is joined once
        ({"ab": 3, "cd": 3}, 1),  # equally frequent: the first in the alphabet
        ({"cd": 3, "ab": 3}, 1),
        ({"abab": 1, "ba": 2}, 9),  # nothing is left to join
        (drawn, 12),
        ({"a": 7}, 2),
    ]


@exercise(
    cases=_vocabularies,
    hints=[
        "Keep each word as a tuple of its pieces, at first of its characters: "
        "{tuple('low'): 5}.",
        "Count the pairs of all words, each as often as its word came: "
        "itertools.pairwise(symbols).",
        "most = max(counts.values()); min(pair for pair in counts if counts[pair] == "
        "most) is the first in the alphabet.",
        "Then go through each word: where the next two pieces are the pair, put the "
        "joined one and go on behind both.",
    ],
    mistakes="""
        each different word counts once; count a pair as often as its word came
            counts[pair] += often -> counts[pair] += 1
        of equally frequent pairs you take the last in the alphabet
            best = min( -> best = max(
        of equally frequent pairs you take the one that was counted first
            best = min(pair for pair in counts if counts[pair] == most)
                -> best = counts.most_common(1)[0][0]
        you count a pair once in a word where it stands twice, as `a a` does in `aaa`
            in itertools.pairwise(symbols): -> in {*itertools.pairwise(symbols)}:
        the words stay as they are: join the pair before you count again
            {_joined(symbols, best): n for symbols, n in cut.items()} -> cut
        you give the joined pieces; the pairs are asked for
            found.append(best) -> found.append("".join(best))
    """,
)
def learn_pairs(words, count):
    """Byte-pair encoding: the pairs of neighbours to join, the most frequent first.

    words {text: how often it came}; count, how many pairs -> [(left, right), ...],
    fewer where nothing is left to join. After each pair, all words are joined by it,
    from the left. Of equally frequent pairs, the first in the alphabet.
    """
    cut, found = {tuple(word): often for word, often in words.items()}, []
    for _ in range(count):
        counts = collections.Counter()
        for symbols, often in cut.items():
            for pair in itertools.pairwise(symbols):
                counts[pair] += often
        if not counts:
            break
        most = max(counts.values())
        best = min(pair for pair in counts if counts[pair] == most)
        found.append(best)
        cut = {_joined(symbols, best): n for symbols, n in cut.items()}
    return found


def _cut_into_fewer(curves):
    """The first thing that no mean numbers of pieces would show, or nothing."""
    heights = [each.y[np.argsort(each.x)] for each in curves]
    if any(each.min() < 1 or (np.diff(each) > 1e-9).any() for each in heights):
        return "a word has a piece or more, and no more of them with more pairs"


picture = Picture("rare_words", cannot_be=_cut_into_fewer)
