"""The solutions of chapter 14 against other ways to the same thing, and wrong answers
that no list of mistakes has.
"""

import itertools

import numpy as np
import pytest

from tinyrmc import corpora
from tinyrmc.autograd.engine import TABLE, primitive
from tinyrmc.autograd.gradcheck import gradcheck
from tinyrmc.cores.memn2n import Encoding, MemN2N
from tinyrmc.course.exercises import memory_networks as ex


@pytest.fixture
def rng():
    return np.random.default_rng(13)


# --- What is right --------------------------------------------------------------------


def test_a_hop_is_the_one_of_the_paper_memory_by_memory(rng):
    u, m, c = (
        rng.normal(size=(2, 3)),
        rng.normal(size=(2, 5, 3)),
        rng.normal(size=(2, 5, 3)),
    )
    p, o = ex.hop(u, m, c)
    for b in range(2):
        e = [np.exp(sum(u[b, k] * m[b, i, k] for k in range(3))) for i in range(5)]
        shares = np.array(e) / sum(e)
        np.testing.assert_allclose(p[b], shares, rtol=1e-12)
        found = sum(shares[i] * c[b, i] for i in range(5))
        np.testing.assert_allclose(o[b], found, rtol=1e-12)


def test_the_gradient_of_a_hop_is_that_of_the_complex_step(rng):
    @primitive
    def look(xp, u, m, c):
        return ex.hop(u, m, c)[1], (u, m, c)

    @look.vjp
    def look_vjp(xp, needs, g, u, m, c):
        return ex.hop_backward(u, m, c, g)

    arrays = rng.normal(size=(2, 3, 4)), *rng.normal(size=(2, 2, 3, 6, 4))
    gradcheck(look, *arrays)
    del TABLE[look.name]  # it is no primitive of the package


@pytest.mark.parametrize(("J", "d"), [*itertools.product((1, 2, 7), (1, 3, 20))])
def test_a_position_encoding_is_the_package_s_and_a_constant_plus_rank_one(J, d):
    found = ex.position_encoding(J, d)
    encoding = Encoding("printed", 1.0)
    words = encoding.rows([range(J)], J).reshape(2, J)  # each word once
    theirs = words[0][:, None] + words[1][:, None] * encoding.along(d)
    np.testing.assert_allclose(found, theirs, atol=1e-12)


@pytest.mark.parametrize(("n", "N"), [*itertools.product((1, 3, 8), (1, 3, 5))])
def test_memories_are_the_latest_sentences_backward(n, N):
    told = list(range(1, n + 1))
    found = ex.newest_first(np.array(told), N).tolist()
    assert found == (list(reversed(told)) + N * [0])[:N]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_both_networks_are_the_package_s(rng, hops):
    bags = rng.integers(3, size=(4, 6, 9)).astype(float)
    asked = rng.integers(3, size=(4, 9)).astype(float)
    bag = {"slots": 0, "hops": hops, "std": 0.5, "dtype": np.float64}
    theirs = MemN2N(9, 5, **bag)
    found = ex.adjacent(list(theirs.tables.data[0]), bags, asked)
    np.testing.assert_allclose(theirs(bags, asked).data[0], found, rtol=1e-10)
    theirs = MemN2N(9, 5, tying="layerwise", **bag)
    A, C = theirs.tables.data[0]
    B, W, H = (x.data[0] for x in (theirs.questions, theirs.answers, theirs.H))
    found = ex.layerwise(A, C, B, W, H.T, hops, bags, asked)
    np.testing.assert_allclose(theirs(bags, asked).data[0], found, rtol=1e-10)


def test_a_linear_hop_is_one_matrix(rng):
    u, m, c = rng.normal(size=(2, 4)), *rng.normal(size=(2, 2, 7, 4))
    scores = np.einsum("bk,bik->bi", u, m)
    found = np.einsum("bi,bil->bl", scores, c)
    G = ex.association(m, c)
    np.testing.assert_allclose(np.einsum("bk,bkl->bl", u, G), found, rtol=1e-12)


def test_who_looks_at_the_facts_of_made_up_stories_hits_always():
    stories = corpora.GeneratedStories(50).stories(15, "train")
    N = max(len(story.sentences) for story in stories)
    counts = np.array([len(story.sentences) for story in stories])
    facts = [story.supporting for story in stories]
    p = np.zeros((50, 3, N))
    for row, story in zip(p, stories, strict=True):
        numbers = ex.newest_first(np.arange(1, len(story.sentences) + 1), N)
        row[0, np.flatnonzero(numbers == story.supporting[0] + 1)] = 1
        row[1, np.flatnonzero(numbers == story.supporting[1] + 1)] = 1
        others = set(range(len(story.sentences))) - set(story.supporting)
        row[2, np.flatnonzero(numbers == min(others) + 1)] = 1
    np.testing.assert_array_equal(ex.hits(p, counts, facts), [1, 1, 0])


def hop_by_einsum(u, m, c):
    s = np.einsum("...k,...ik->...i", u, m)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return [p, np.einsum("...i,...ik->...k", p, c)]


def backward_from_what_was_found(u, m, c, g):
    p, o = hop_by_einsum(u, m, c)
    gs = p * np.einsum("...k,...ik->...i", g, c - o[..., None, :])
    gu = np.einsum("...i,...ik->...k", gs, m)
    return gu, np.einsum("...i,...k->...ik", gs, u), np.einsum("...i,...k->...ik", p, g)


RIGHT = {
    "hop": hop_by_einsum,
    "hop_backward": backward_from_what_was_found,
    "position_encoding": lambda J, d: [
        [0.5 + 2 * (k / d - 0.5) * (j / J - 0.5) for k in range(1, d + 1)]
        for j in range(1, J + 1)
    ],
    "newest_first": lambda told, N: ([*reversed(told.tolist())] + [0] * N)[:N],
    "association": lambda m, c: np.einsum("...ik,...il->...kl", m, c),
    "hits": lambda p, counts, supporting: [
        sum(
            int(counts[b] - 1 - p[b, k].argmax()) in supporting[b]
            for b in range(len(p))
        )
        / len(p)
        for k in range(p.shape[1])
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_another_way_to_the_same_is_right(name):
    assert getattr(ex, name).judge(RIGHT[name]).state == "right"


# --- What is wrong --------------------------------------------------------------------

WRONG = {
    "hop": [
        lambda u, m, c: ex.hop(u.astype(np.float32), m, c),
        lambda u, m, c: ex.hop(u, m[..., ::-1, :], c),
        lambda u, m, c: ex.hop(np.tanh(u), m, c),
        lambda u, m, c: ex.hop(2 * u, m, c),
        lambda u, m, c: (ex.hop(u, m, c)[0], ex.hop(u, m, c)[1].sum(-1)),
        lambda u, m, c: (ex.hop(u, m, c)[0] ** 2, ex.hop(u, m, c)[1]),
    ],
    "hop_backward": [
        lambda u, m, c, g: ex.hop_backward(u, m, c, g / len(g)),
        lambda u, m, c, g: ex.hop_backward(u, m, c, 1 - g),
        lambda u, m, c, g: ex.hop_backward(u, m, c, g)[:2],
        lambda u, m, c, g: (g, *ex.hop_backward(u, m, c, g)[1:]),
        lambda u, m, c, g: (0 * u, *ex.hop_backward(u, m, c, g)[1:]),
    ],
    "position_encoding": [
        lambda J, d: ex.position_encoding(J, d)[:, ::-1],
        lambda J, d: ex.position_encoding(J, d) - 0.5,
        lambda J, d: 1 - ex.position_encoding(J, d),
        lambda J, d: ex.position_encoding(J, d).astype(np.float16),
        lambda J, d: ex.position_encoding(J + 1, d)[:J],
        lambda J, d: ex.position_encoding(J, d).round(1),
        lambda J, d: np.linspace(1, 0, J)[:, None] * np.ones(d),
    ],
    "newest_first": [
        lambda told, N: sorted(told.tolist())[:N] + [0] * (N - len(told)),
        lambda told, N: np.zeros(N),
        lambda told, N: ex.newest_first(told, N + 1),
        lambda told, N: ex.newest_first(np.roll(told, 1), N),
        lambda told, N: ex.newest_first(told[1:], N),
        lambda told, N: ex.newest_first(told, N)[None],
    ],
    "adjacent": [
        lambda t, m, q: ex.adjacent(t, m, (q > 0) * 1.0),
        lambda t, m, q: ex.adjacent(t, (m > 0) * 1.0, q),
        lambda t, m, q: ex.adjacent(t, m[..., :1, :], q),
        lambda t, m, q: ex.adjacent(t, m / 2, q),
        lambda t, m, q: ex.adjacent(t, m, q).argmax(-1),
        lambda t, m, q: ex.adjacent([t[0]] * len(t), m, q),
    ],
    "layerwise": [
        lambda A, C, B, W, H, K, m, q: ex.layerwise(A, C, B, W, H @ H, K, m, q),
        lambda A, C, B, W, H, K, m, q: ex.layerwise(A, C, B, W, 2 * H, K, m, q),
        lambda A, C, B, W, H, K, m, q: ex.layerwise(A, C, B, W, H, 3, m, q),
        lambda A, C, B, W, H, K, m, q: ex.layerwise(A, C, A, C, H, K, m, q),
        lambda A, C, B, W, H, K, m, q: ex.layerwise(A, C, B, W, np.tanh(H), K, m, q),
    ],
    "association": [
        lambda m, c: ex.association(m[..., 1:, :], c[..., 1:, :]),
        lambda m, c: ex.association(m, c - c.mean(axis=-2, keepdims=True)),
        lambda m, c: ex.association(m, c) / m.shape[-1],
        lambda m, c: np.triu(ex.association(m, c)),
        lambda m, c: ex.association(m[..., ::-1, :], c),
        lambda m, c: np.outer(m, c),
    ],
    "hits": [
        lambda p, n, facts: ex.hits(p[:, ::-1], n, facts),
        lambda p, n, facts: ex.hits(p, n + 1, facts),
        lambda p, n, facts: ex.hits(p, np.full_like(n, n.max()), facts),
        lambda p, n, facts: np.ones(p.shape[1]),
        lambda p, n, facts: ex.hits(p, n, facts)[None],
        lambda p, n, facts: ex.hits(p[1:], n[1:], facts[1:]) if len(p) > 1 else 0,
    ],
}  # fmt: skip
CASES = [(name, answer) for name, answers in WRONG.items() for answer in answers]


@pytest.mark.parametrize(("name", "answer"), CASES)
def test_other_wrong_answers_are_rejected_too(name, answer):
    assert getattr(ex, name).judge(answer).state == "wrong"


def spoiling(name):
    """The right answer, by a function that changes its first array in place."""

    def answer(*arguments):
        found = getattr(ex, name)(*arguments)
        first = next(
            each
            for given in arguments
            for each in (given if isinstance(given, list) else [given])
            if isinstance(each, np.ndarray)
        )
        first[...] = 0
        return found

    return answer


@pytest.mark.parametrize("name", sorted({*WRONG} - {"position_encoding"}))
def test_an_answer_that_spoils_what_it_is_given_is_told_so(name):
    verdict = getattr(ex, name).judge(spoiling(name))
    assert verdict.state == "wrong" and "it changes its argument" in verdict.text


@pytest.mark.parametrize("name", ex.__all__)
def test_there_are_about_twenty_mistakes_that_have_a_name(name):
    assert len(getattr(ex, name).mistakes) >= 18
