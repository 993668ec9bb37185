"""Chapter 19: one hop and its gradient, sentences as memories, learning from them."""

import re

import numpy as np

from tinyrmc import Parameter, Tape, fused, nn, optim
from tinyrmc import primitives as p

from . import attention
from .derived import by_complex_step, log_shares
from .exercise import each, exercise, normal
from .experiments import Picture
from .used import used


def _questions(rng):
    """(u, m, c) of each case."""
    twice = rng.normal(size=(3, 4))
    return [
        normal(rng, 3, (5, 3), (5, 3)),
        normal(rng, 4, (4, 4), (4, 4)),  # square: a forgotten transpose fits
        normal(rng, (2, 3, 4), (2, 3, 6, 4), (2, 3, 6, 4)),
        normal(rng, (5, 5), (5, 5, 5), (5, 5, 5)),
        normal(rng, (2, 7), (2, 1, 7), (2, 1, 7)),  # a single memory
        # one example far above the other, and both far above what exp can do
        (np.array([[2e3], [1.0]]), 1 + rng.random((2, 4, 1)), *normal(rng, (2, 4, 1))),
        (rng.normal(size=4), twice, twice),  # memories that are their own contents
        (np.arange(3), np.array([[1, 1, 0], [0, 3, 1]]), np.eye(2, 3, dtype=int)),
    ]


@exercise(
    cases=_questions,
    hints=[
        "The match of memory i is the dot product of u and m_i. The softmax runs over "
        "the memories, which are the last axis of the scores.",
        "m @ u[..., None] has the shape (..., N, 1), whatever the leading axes are. "
        "[..., 0] takes the last axis away.",
        "attention.softmax is chapter 6's. The sum of p_i c_i is a product again: "
        "p[..., None, :] @ c.",
    ],
    mistakes="""
        you divide the match by the square root of d, as chapter 6 does: a memory
        network does not
            softmax(match) -> softmax(match / u.shape[-1] ** 0.5)
        you do not subtract the largest match before the exponential: it overflows
            attention.softmax(match)
                -> np.exp(match); p = p / p.sum(axis=-1, keepdims=True)
        you subtract one maximum from all examples: what is far below it becomes 0 / 0
            attention.softmax(match)
                -> np.exp(match - match.max()); p = p / p.sum(axis=-1, keepdims=True)
        your softmax runs over the first axis, not over the memories
            attention.softmax(match)
                -> np.exp(match - match.max(axis=0)); p = p / p.sum(axis=0)
        you average the memories m, not the contents c
            @ c) -> @ m)
        you add u to what was found: that comes after the hop
            return p, -> return p, u +
        you give o alone; p is wanted, too
            return p, -> return
    """,
    leading="u m c",
    anysize="u",
)
def hop(u, m, c):
    """Ask the memories: p = softmax(u . m_i), o = sum_i p_i c_i.

    u (..., d), m and c (..., N, d) -> p (..., N), o (..., d).
    """
    match = (m @ u[..., None])[..., 0]
    p = attention.softmax(match)
    return p, (p[..., None, :] @ c)[..., 0, :]


def _found(u, m, c):
    """o, of complex numbers too."""
    p = np.exp(log_shares((m @ u[..., None])[..., 0]))
    return (p[..., None, :] @ c)[..., 0, :]


_hop_step = by_complex_step(_found, "u m c")


@exercise(
    cases=lambda rng: [
        (u, m, c, rng.normal(size=u.shape)) for u, m, c in _questions(rng)
    ],
    hints=[
        "Go backward: o was made of p and c, p of the matches, the matches of u and m. "
        "First make p again.",
        "From o = sum_i p_i c_i: the gradient of c_i is p_i g, and that of p_i is the "
        "dot product of g and c_i; call it gp.",
        "Through the softmax: gs = p * (gp - sum(p * gp)), with the sum over the "
        "memories (keepdims=True).",
        "From the match u . m_i: the gradient of m_i is gs_i u, and that of u is the "
        "sum of gs_i m_i.",
    ],
    mistakes="""
        you leave out the sum in the softmax's gradient: what one memory gains, the
        others lose
            - (p * gp).sum(axis=-1, keepdims=True) ->
        you let the gradient pass the softmax unchanged
            p * (gp - (p * gp).sum(axis=-1, keepdims=True)) -> gp
        your softmax's gradient is p (1 - p): that is the diagonal alone
            gp - (p * gp).sum(axis=-1, keepdims=True) -> (1 - p) * gp
        the gradient of u is a sum of the memories m_i, not of the contents
            @ m) -> @ c)
        each c_i gets all of g; it has a share p_i in o
            p[..., None] * g -> np.ones_like(p)[..., None] * g
        the gradients of m and c have changed places
            gs[..., None] * u[..., None, :], p[..., None] * g[..., None, :]
                -> p[..., None] * g[..., None, :], gs[..., None] * u[..., None, :]
    """,
    leading="u m c g",
    anysize="g",
    exact=lambda u, m, c, g: _hop_step(g, u, m, c),
)
def hop_backward(u, m, c, g):
    """The gradients of u, m and c, when g is the gradient of o.

    u and g (..., d), m and c (..., N, d) -> like u, m and c. p has no gradient of its
    own: nothing else uses it.
    """
    p, _ = hop(u, m, c)
    gp = (c @ g[..., None])[..., 0]
    gs = p * (gp - (p * gp).sum(axis=-1, keepdims=True))
    gu = (gs[..., None, :] @ m)[..., 0, :]
    return gu, gs[..., None] * u[..., None, :], p[..., None] * g[..., None, :]


def _bags(rng, J, V, d, *leading):
    hot = np.eye(V)[rng.integers(V, size=(*leading, J))]  # (..., J, V)
    place = np.arange(1, J + 1)[:, None] / J - 0.5
    return hot.sum(axis=-2), (place * hot).sum(axis=-2), rng.normal(size=(V, d))


def _on_the_tape(answer, once, weighted, table):
    """The memories, and the gradient of the sum of their squares."""
    with Tape() as tape:
        rows = tape.watch(table)
        found = answer(once, weighted, rows)
        loss = p.sum(p.square(found))
    gradient = tape.gradient(loss, rows).copy()
    return found.data.copy(), gradient


@used(
    _on_the_tape,
    cases=each(_bags, "4 6 5, 5 5 5 3, 2 7 4 2 3, 1 6 1, 7 3 20 4"),
    hints=[
        "Multiply l out and sort by j: a constant, and something times j / J. Then "
        "write j / J as (j / J - 1/2) + 1/2.",
        "l_kj = 1/2 + 2 (k / d - 1/2) (j / J - 1/2). The first part is half a bag, "
        "once @ table; the second is a factor for each unit, times weighted @ table.",
        "k = np.arange(1, d + 1); 0.5 * (once @ table) + 2 * (k / d - 0.5) * "
        "(weighted @ table).",
    ],
    mistakes="""
        the constant is a half, not 1
            0.5 * (once -> (once
        the factor 2 is missing
            2 * (k -> (k
        you count the units from 0; the paper counts from 1
            np.arange(1, d + 1) -> np.arange(d)
        your factor has the wrong sign: the last units listen to the end of a sentence
            (k / d - 0.5) -> (0.5 - k / d)
    """,
)
def remembered(once, weighted, table):
    """Sentences with position encoding, from two counts of their words.

    once (..., V) counts each word, weighted (..., V) counts word j of J as j/J - 1/2;
    table (V, d), on the tape -> sum_j l_j * table[word j], (..., d), with
    l_kj = (1 - j/J) - (k/d) (1 - 2j/J), both counted from 1.
    """
    d = table.shape[-1]
    k = np.arange(1, d + 1)
    return 0.5 * (once @ table) + 2 * (k / d - 0.5) * (weighted @ table)


@exercise(
    cases=each(
        lambda rng, n, N: (rng.integers(1, 40, size=n), N),
        "4 7, 5 5, 9 4, 6 1",
        also=[
            (np.array([3, 8, 3, 8, 3]), 6),  # a sentence may be told again
            (np.array([5, 6], np.int32), 3),
        ],
    ),
    hints=[
        "told[::-1] has the newest sentence first. Its first N, [:N], are the latest "
        "N.",
        "Begin with np.zeros(N, int), and write the sentences over its beginning.",
    ],
    mistakes="""
        your oldest sentence comes first
            told[::-1][:N] -> told[-N:]
        of a story that is too long you keep the beginning: cut after turning it around
            told[::-1][:N] -> told[:N][::-1]
        you do not fill up with zeros
            = told[::-1][:N]
        the zeros come first, then the newest sentence: they belong at the end
            memories[: len(latest)] -> memories[N - len(latest) :]
    """,
    views=True,
)
def newest_first(told, N):
    """A story of n sentences as N memories, the newest first.

    told (n,), the numbers of the sentences in the order in which they are told, each at
    least 1. Of a long story the latest N are kept, a short one is filled up with 0
    -> (N,).
    """
    memories = np.zeros(N, int)
    latest = told[::-1][:N]
    memories[: len(latest)] = latest
    return memories


class Reading:
    """Questions to learn from and to test with, as counts of words.

    `arrays[part]` has, for each of S questions: once and weighted (S, N, W) of its N
    memories, the newest first; the same of the question, (S, W); and the number of the
    answer, (S,). The W columns are the V words and, behind them, the N ages: a memory
    counts its age as one word more.
    """

    def __init__(self, told, task, newest_first):
        self.stories = {part: told.stories(task, part) for part in ("train", "test")}
        learnt = self.stories["train"]
        texts = [t for s in learnt for t in (*s.sentences, s.question, (s.answer,))]
        self.words = sorted({word for text in texts for word in text})
        self.slots = max(len(story.sentences) for story in learnt)
        self.newest_first = newest_first
        self.arrays = {part: self.read(part) for part in self.stories}

    def count(self, text):
        """once and weighted (W,) of a text."""
        once, weighted = np.zeros((2, len(self.words) + self.slots))
        for j, word in enumerate(text, 1):
            number = self.words.index(word)
            once[number] += 1
            weighted[number] += j / len(text) - 0.5
        return once, weighted

    def read(self, part):
        stories = self.stories[part]
        S, N, W = len(stories), self.slots, len(self.words) + self.slots
        memories = np.zeros((2, S, N, W))
        for s, story in enumerate(stories):
            counted = [(np.zeros(W), np.zeros(W)), *map(self.count, story.sentences)]
            order = self.newest_first(np.arange(1, len(counted)), N)
            for age, number in enumerate(order):
                memories[:, s, age] = counted[number]
                memories[0, s, age, len(self.words) + age] = number > 0
        asked = np.array([self.count(s.question) for s in stories]).swapaxes(0, 1)
        answers = np.array([self.words.index(s.answer) for s in stories])
        return *memories, *asked, answers


class _Linear(nn.Module):
    """Two networks side by side: logits (2, B, 3) of arrays (B, 4) and (B,)."""

    def __init__(self, seed):
        weights = np.random.default_rng(seed).normal(size=(2, 4, 3))
        self.weights = Parameter(weights)

    def __call__(self, x, factor):
        return (x * factor[:, None]) @ self.weights


def _run(answer, inputs, targets, order, rate, seed):
    """The losses and the weights afterwards."""
    network = _Linear(seed)
    sgd = optim.SGD(network.parameters())
    losses = answer(network, sgd, inputs, targets, order, rate)
    return losses, network.weights.data


def _lessons(rng, S, size, rate=0.01, scale=1):
    inputs = scale * rng.normal(size=(S, 4)), rng.uniform(0.5, 2, size=S)
    order = rng.permutation(S)[:size]
    return inputs, rng.integers(3, size=S), order, rate, int(rng.integers(99))


@used(
    _run,
    cases=each(
        _lessons,  # 80 do not fill a batch; the last gradient is longer than 40
        "32 32, 96 96 0.003, 80 80, 200 64, 32 32 0.01 100",
    ),
    tolerance=1e-6,
    hints=[
        "for start in range(0, len(order) - 31, 32): "
        "batch = order[start : start + 32]. Then, on a tape, "
        "z = network(*(x[batch] for x in inputs)).",
        "All R copies have the same answers: np.broadcast_to(targets[batch], "
        "z.shape[:-1]). The loss is the sum of fused.softmax_cross_entropy(z, y).",
        "sgd.zero_grad(), tape.backward(loss), sgd.step(rate, max_norm=40.0).",
    ],
    mistakes="""
        you go through the questions as they stand, not in `order`
            order[start : start + 32] -> np.arange(start, start + 32)
        the gradients of all batches add up: sgd.zero_grad() is missing
            sgd.zero_grad() ->
        you take the mean of the losses; their sum is wanted
            p.sum( -> p.mean(
        nothing is clipped: max_norm=40.0
            , max_norm=40.0 ->
        the rate is written in: hand `rate` to sgd.step
            sgd.step(rate, -> sgd.step(0.01,
        you go on with a batch that is not full
            len(order) - 31 -> len(order)
    """,
)
def learn_stories(network, sgd, inputs, targets, order, rate):
    """One time through the questions in `order`, in batches of 32.

    network(*inputs of a batch) -> logits (R, B, V) of R copies; inputs a tuple of
    arrays (S, ...), targets (S,); order, numbers of questions. What does not fill a
    batch is left out. The loss is the sum over copies and questions; gradients are
    clipped at 40 -> the loss of each batch, a list.
    """
    losses = []
    for start in range(0, len(order) - 31, 32):
        batch = order[start : start + 32]
        with Tape() as tape:
            z = network(*(x[batch] for x in inputs))
            y = np.broadcast_to(targets[batch], z.shape[:-1])
            loss = p.sum(fused.softmax_cross_entropy(z, y))
        sgd.zero_grad()
        tape.backward(loss)
        sgd.step(rate, max_norm=40.0)
        losses.append(float(loss.data))
    return losses


def share_of_the_first(N, lengths, seed=0):
    """The mean share that a hop asked for the first of N memories gives it, for each
    length (L,) of them all: 200 draws of random directions of 20 units -> (L,).
    """
    directions = np.random.default_rng(seed).normal(size=(200, N, 20))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    cosines = np.einsum("bd,bnd->bn", directions[:, 0], directions)
    others = np.asarray(lengths)[:, None, None] ** 2 * (cosines[:, 1:] - 1)
    return (1 / (1 + np.exp(others).sum(axis=-1))).mean(axis=1)


def _no_hop(curves):
    """The first thing in exercise 2's curves that no hop would give; or nothing."""
    for N in (3, 10, 30):
        named = [x for x in curves if f"{N}" in re.findall(r"\d+", x.label)]
        if len(named) != 1:
            return f"the name of one curve should say N = {N}; {len(named)} do"
        (curve,) = named
        off = np.nan_to_num(abs(curve.y - share_of_the_first(N, curve.x)), nan=1)
        k = off.argmax()
        if off[k] > 0.04:  # twice 200 draws differ by less
            return (
                f"with {N} memories of length {curve.x[k]:.3g} your curve has "
                f"{curve.y[k]:.3g}, and a hop another share: are u and all memories of "
                "this length, and is u the first of them?"
            )


picture = Picture("one_hop", curves=3, cannot_be=_no_hop)
