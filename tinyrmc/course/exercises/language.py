"""Chapter 17: counts, perplexity, windows, a training loop, and writing."""

import re

import numpy as np

from tinyrmc import Tape, corpora, fused, nn, optim, primitives
from tinyrmc import primitives as p
from tinyrmc.autograd.engine import Parameter, Tensor
from tinyrmc.cores import LSTM

from ..chapter import book
from . import attention
from .exercise import each, exercise
from .experiments import Picture
from .used import used


def cut(text):
    """A line for each paragraph, with a space between words."""
    paragraphs = re.split(r"\n\s*\n", text.lower().replace("_", ""))
    found = [
        re.findall(r"[a-z]+(?:['-][a-z]+)*|--|[^\w\s]", each) for each in paragraphs
    ]
    return "".join(" ".join(words) + "\n" for words in found if words)


def parts_of_the_book():
    """The book's first ten chapters to train on, the eleventh and the twelfth apart."""
    parts = book().split("CHAPTER ")[1:]
    return {"train": "".join(parts[:10]), "validation": parts[10], "test": parts[11]}


def alice():
    """The parts of the book as a corpus; words that come only once are unknown."""
    parts = {name: cut(text) for name, text in parts_of_the_book().items()}
    return corpora.from_texts(**parts, name="alice", minimum_count=2)


@exercise(
    cases=lambda rng: [
        (rng.integers(5, size=60), rng.dirichlet(np.ones(5)), 1.0),
        (rng.integers(4, size=4), rng.dirichlet(np.ones(4)), 0.5),
        (np.array([0, 1, 1, 1, 0, 1, 1, 2]), np.array([0.25, 0.5, 0.25]), 3.0),
        # three words never occur
        (rng.integers(3, size=200), rng.dirichlet(np.ones(6)), 30.0),
        (np.array([2]), rng.dirichlet(np.ones(3)), 10.0),  # a text without any pair
    ],
    large=lambda rng: [(rng.integers(50, size=3000), rng.dirichlet(np.ones(50)), 1.0)],
    unlooped="over the text",
    hints=[
        "First count: counts[a, b] is how often b comes right after a. The pairs are "
        "ids[:-1] and ids[1:], beside each other.",
        "counts[ids[:-1], ids[1:]] += 1 counts a pair once, however often it occurs. "
        "np.add.at(counts, (ids[:-1], ids[1:]), 1) counts them all.",
        "The sum of row a of the counts says how often anything came after a. Add k "
        "to it, and k times the unigram to the row.",
    ],
    mistakes="""
        you count a pair once, however often it occurs: x[i] += 1 adds once for each
        different i
            np.add.at( -> np.ndarray.__setitem__(
        rows and columns have changed places: row a is for what comes after a
            (ids[:-1], ids[1:]) -> (ids[1:], ids[:-1])
        you divide by how often a occurs: the last word of the text occurs once more
        than it is followed
            counts.sum(axis=1, keepdims=True)
                -> np.bincount(ids.astype(np.intp), minlength=V)[:, None]
        you add k to every count, not k times the unigram
            k * unigram -> k
            keepdims=True) + k -> keepdims=True) + k * V
        you leave out the k in the denominator: your rows sum to more than 1
            counts.sum(axis=1, keepdims=True) + k
                -> np.maximum(counts.sum(axis=1, keepdims=True), 1)
    """,
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


@exercise(
    cases=lambda rng: [
        (np.array([0.5, 0.25, 0.125]),),
        (rng.uniform(0.01, 1, size=30),),
        (rng.uniform(0.01, 1, size=(3, 4)),),  # three lanes
        (rng.uniform(1e-4, 1e-2, size=500),),  # their product is 0 to the computer
        (np.array([1.0]),),
        (np.array([1e-250, 0.5]),),
        (np.array([0.5, 0.0, 0.5]),),  # what was held to be impossible has come
    ],
    hints=[
        "The product of many probabilities is too small to hold. The sum of their "
        "logarithms is not.",
        "Take the mean of ln p, change its sign, and undo the logarithm with exp.",
    ],
    mistakes="""
        you multiply the probabilities: the product of some hundred is too small to hold
            = np.prod(probabilities) ** (-1 / probabilities.size)
        you take the mean of the probabilities, not of their logarithms
            = 1 / probabilities.mean()
        you take the mean of 1 / p, not of its logarithm: one rare word then counts for
        more than all others
            = np.mean(1 / probabilities)
        you take the natural logarithm and go back with a power of 2
            np.exp( -> 2.0 ** (
        you stop at the loss, in nats
            np.exp ->
        you take the logarithm to the base 2 and go back with a power of e
            np.log -> np.log2
        you divide by the number of rows, not of words
            np.mean(np.log(probabilities))
                -> np.log(probabilities).sum() / len(probabilities)
        you add something small to every probability
            np.log(probabilities) -> np.log(probabilities + 1e-9)
    """,
    leading="probabilities",
)
def perplexity(probabilities):
    """exp of the mean of -ln p.

    probabilities (...), those that the model gave to the words that came -> a number.
    """
    return np.exp(-np.mean(np.log(probabilities)))


@exercise(
    cases=each(
        lambda rng, n, lanes, T: (rng.permutation(n), lanes, T),
        # in the second the tenth word of the last lane has no successor
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
            np.exp(z - z.max()) -> attention.softmax(z)
            u * cumulative[-1] -> u
            min(place, len(z) - 1) -> place
        you multiply by the temperature: a high one should make the choice freer, not
        stricter
            / temperature -> * temperature
        you divide the probabilities by the temperature, not the logits
            z = logits / temperature -> z = logits
            np.exp(z - z.max()) -> attention.softmax(z) / temperature
            u * cumulative[-1] -> u
        you divide by 0 at temperature 0: take the likeliest word there
            if temperature == 0: -> if None:
            logits / temperature -> np.divide(logits, temperature)
            np.exp(z - z.max()) -> attention.softmax(z)
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
    return attention.softmax(2 * rng.normal(size=shape)), mass


_FEW = np.array([0.1, 0.4, 0.05, 0.25, 0.2])


@exercise(
    cases=each(
        _shares,
        "0.8 6, 0.8 4 4, 0.95 2 3 30",
        also=[
            *((_FEW, mass) for mass in (0.6, 0.9, 0.3, 1e-9, 1.0)),
            (np.array([0.125, 0.0, 0.5, 0.25, 0.125]), 0.75),  # two reach it exactly
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
    unlooped="over the rows",
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


class LanguageModel(nn.Module):
    """Word vectors, a core as wide as they are, and a softmax over all V words."""

    def __init__(self, V, core, tied=True, dropout=0.3, seed=0):
        random, d = np.random.default_rng(seed), core.output_size
        self.core, self.dropout = core, dropout
        self.read = nn.Embedding(V, d, seed=random)  # E, of size 1 / sqrt(d)
        self.write = self.read if tied else nn.Embedding(V, d, seed=random)  # E'
        self.bias = Parameter(np.zeros(V, np.float32))

    def __call__(self, ids, state, random=None):
        """ids (B, T) -> logits (B T, V), state. With `random` numbers are dropped."""
        d = self.core.output_size
        x = self.drop(self.read(ids) * d**0.5, random)  # (B, T, d)
        outputs, state = self.core.unroll(x, state)
        h = self.drop(primitives.stack(outputs, axis=1), random)  # (B, T, d)
        h = primitives.reshape(h, (-1, d))
        return h @ primitives.transpose(self.write.weight) + self.bias, state

    def drop(self, x, random):
        """Each number becomes 0 with the probability `dropout`."""
        if random is None or not self.dropout:
            return x
        kept = random.random(x.shape) >= self.dropout
        return x * (kept / (1 - self.dropout)).astype(np.float32)


def lstm(V, seed, **more):
    """An LSTM of 64 units that reads and writes V words."""
    return LanguageModel(V, LSTM(64, 64, seed=seed), seed=seed, **more)


def numbers_of(state):
    """A state of plain arrays: where the next window begins, without its past."""
    if isinstance(state, (tuple, list)):
        return tuple(map(numbers_of, state))
    return state.data if isinstance(state, Tensor) else state


def _run(answer, inputs, targets, rates, dropout):
    """The losses, and the parameters afterwards, of a tiny network."""
    core = LSTM(4, 4, seed=1)
    model = LanguageModel(int(inputs.max()) + 1, core, dropout=dropout, seed=1)
    for parameter in model.parameters():
        parameter.data[...] *= 4  # so that a state matters
    adam = optim.Adam(model.parameters())
    losses = answer(model, adam, inputs, targets, rates, np.random.default_rng(2))
    learnt = np.concatenate([each.data.ravel() for each in model.parameters()])
    return np.array(losses, float), learnt.astype(float)


def _lessons(rng, K, lanes, T, dropout=0):
    ids = rng.permutation(np.arange(K * lanes * T + 1) % 6)
    inputs, targets = (x.reshape(K, lanes, T) for x in (ids[:-1], ids[1:]))
    return inputs, targets, rng.uniform(0.01, 0.1, size=K), dropout


@used(
    _run,
    cases=each(_lessons, "1 2 3, 4 2 3, 3 1 5, 3 3 2 0.5"),
    tolerance=1e-4,  # float32
    hints=[
        "Before the loop: a fresh state, model.core.initial_state(lanes). In the loop: "
        "`with Tape() as tape:` logits, the next state, and the loss.",
        "logits are (B T, V), so the targets are y.reshape(-1). The loss is "
        "primitives.mean(fused.softmax_cross_entropy(logits, y.reshape(-1))).",
        "After the tape: state = numbers_of(state), adam.zero_grad(), "
        "tape.backward(loss), adam.step(learning_rate=rate, max_norm=1.0).",
    ],
    mistakes="""
        you add up the losses of a window's words: their mean is the loss
            p.mean( -> p.sum(
        each window begins with a fresh state: carry it over
            state = numbers_of(state)
                -> state = model.core.initial_state(inputs.shape[1])
        the gradients of all steps add up: adam.zero_grad() is missing
            adam.zero_grad() ->
        every step has the first rate
            rate=rate -> rate=rates[0]
        nothing is dropped: hand `random` to the model
            model(x, state, random) -> model(x, state)
        nothing is clipped: max_norm=1.0
            , max_norm=1.0 ->
    """,
)
def one_epoch(model, adam, inputs, targets, rates, random):
    """One time through all windows of a text, with a step of Adam after each.

    model(ids (B, T), state, random) -> logits (B T, V), state; inputs and targets
    (K, B, T), integers; rates (K,), that of each step -> the loss of each window, its
    words' mean cross-entropy, a list. The state is carried from window to window;
    gradients are clipped at 1.
    """
    state, losses = model.core.initial_state(inputs.shape[1]), []
    for x, y, rate in zip(inputs, targets, rates, strict=True):
        with Tape() as tape:
            logits, state = model(x, state, random)
            loss = p.mean(fused.softmax_cross_entropy(logits, y.reshape(-1)))
        state = numbers_of(state)
        adam.zero_grad()
        tape.backward(loss)
        adam.step(learning_rate=rate, max_norm=1.0)
        losses.append(float(loss.data))
    return losses


def _no_perplexities(curves):
    """The first thing that no perplexities of a bigram would show, or nothing."""
    heights = [each.y[np.argsort(each.x)] for each in curves]
    if any((each < 1).any() for each in heights):
        return "a perplexity is never below 1"
    if not any((np.diff(each) > 0).all() for each in heights):
        return (
            "on the training text the perplexity rises with k all the way; no curve "
            "does"
        )
    if not any(0 < each.argmin() < len(each) - 1 for each in heights):
        return (
            "on the validation text the lowest perplexity lies somewhere between 0.1 "
            "and 1000; no curve has it there"
        )


picture = Picture("language", cannot_be=_no_perplexities)
