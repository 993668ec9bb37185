"""Chapter 20: many hops, a start without the softmax, and what the hops need."""

import numpy as np

from . import attention, one_hop
from .exercise import each, exercise, normal
from .experiments import Picture, Report
from .recorded import recorded


def _found(u, m, c):
    return one_hop.hop(u, m, c)[1]


def _linear(u, m, c):
    return (u[..., None, :] @ np.swapaxes(m, -1, -2) @ c)[..., 0, :]


def bag(counts, table):
    """The sum of the words' rows, read-only as what stands on the tape."""
    rows = counts @ table
    rows.flags.writeable = False
    return rows


def tagged(counts, table):
    """The same for pairs, of which the second part counts half."""
    return counts[0] @ table + counts[1] @ table / 2


def _networks(rng):
    def case(looks, V, d, N, *lead, scale=0.5):
        tables = [scale * rng.normal(size=(V, d)) for _ in range(len(looks) + 1)]
        memories = rng.integers(3, size=(*lead, N, V))
        return bag, looks, tables, memories, rng.integers(3, size=(*lead, V))

    pairs = rng.integers(3, size=(2, 4, 5)), rng.integers(3, size=(2, 5))
    tables = [*rng.normal(size=(3, 5, 3)) / 2]
    return [
        case([_found], 5, 3, 4),
        case([_found] * 3, 6, 4, 5),
        case([_found, _linear, _linear], 4, 4, 4, 4),
        case([_linear, _found], 5, 2, 3, 2, 3),
        (tagged, [_found, _found], tables, *pairs),
    ]


@exercise(
    cases=_networks,
    hints=[
        "u begins as embed(question, tables[0]).",
        "Hop k looks with looks[k](u, m, c). Its memories are embed(memories, "
        "tables[k]), its contents embed(memories, tables[k + 1]): A^(k+1) = C^k.",
        "After each hop: u = u + o.",
    ],
    mistakes="""
        u += o writes into what `embed` has given; on the tape nobody can: u = u + o
            u = u + -> u +=
        the question has the last table; B is the first hop's A
            tables[0] -> tables[-1]
        memories and contents have the same table in each hop
            tables[k + 1] -> tables[k]
        the next hop asks with what was found alone: u + o goes on
            u = u + look -> u = look
    """,
)
def adjacent(embed, looks, tables, memories, question):
    """K hops with adjacent tying: B = A^1, A^(k+1) = C^k.

    embed(memories, table) -> (..., N, d), embed(question, table) -> (..., d); looks: K
    functions, o = look(u, m, c); tables: K + 1 of them -> u at last, (..., d).
    """
    u = embed(question, tables[0])
    for k, look in enumerate(looks):
        m, c = embed(memories, tables[k]), embed(memories, tables[k + 1])
        u = u + look(u, m, c)
    return u


@recorded(
    cases=lambda rng: [
        normal(rng, (5, 3), (5, 3)),
        normal(rng, (4, 4), (4, 4)),
        normal(rng, (2, 3, 6, 2), (2, 3, 6, 2)),
        normal(rng, (3, 3, 3), (3, 3, 3)),
        normal(rng, (1, 4), (1, 4)),
        (1e6 * rng.normal(size=(3, 2)), 1e-6 * rng.normal(size=(3, 2))),
    ],
    hints=[
        "Write the sum out: o = sum_i (u . m_i) c_i. Entry l of o is a sum over i and "
        "k of u_k m_ik c_il. What stands between u_k and o_l?",
        "G_kl = sum_i m_ik c_il: a sum over the memories of products of a memory and "
        "its content. A matrix product does that.",
        "xp.swapaxes(m, -1, -2) @ c",
    ],
    mistakes="""
        your matrix lies on its side: u comes from the left, so memories make the rows
            xp.swapaxes(m, -1, -2) @ c -> xp.swapaxes(c, -1, -2) @ m
        you multiply memories with contents, not units with units: (N, N)
            xp.swapaxes(m, -1, -2) @ c -> m @ xp.swapaxes(c, -1, -2)
        m.T turns the leading axes around as well; swap only the last two
            xp.swapaxes(m, -1, -2) -> m.T
        the products of the memories are not added up: (N, d, d)
            xp.swapaxes(m, -1, -2) @ c -> m[..., :, None] * c[..., None, :]
    """,
    leading="m c",
    anysize="m",
)
def association(xp, m, c):
    """A hop without its softmax as one matrix: sum_i (u . m_i) c_i = u G, for every u.

    xp: NumPy or the tape's primitives; m and c (..., N, d) -> G (..., d, d).
    """
    return xp.swapaxes(m, -1, -2) @ c


def _looks(rng, B, K, N, facts, full=False):
    counts = np.full(B, N) if full else rng.integers(facts, N + 1, size=B)
    p = attention.softmax(2 * rng.normal(size=(B, K, N)))
    return p, counts, [tuple(rng.permutation(n)[:facts].tolist()) for n in counts]


@exercise(
    cases=each(
        _looks,
        "20 3 5 2, 30 2 8 1, 6 6 6 3 1, 12 4 4 4 1",
        first=[
            # one sentence each, and the hop looks past it
            (np.array([[[0.2, 0.8]], [[0.9, 0.1]]]), np.array([1, 1]), [(0,), (0,)]),
            # the strongest is no fact, though the facts together weigh more
            (np.array([[[0.4, 0.3, 0.3]]]), np.array([3]), [(0, 1)]),
        ],
    ),
    hints=[
        "p.argmax(axis=-1) is (B, K): the strongest memory of each hop, counted from "
        "the newest. `supporting` counts from the oldest.",
        "Of n sentences, the one told as number t (from 0) is memory n - 1 - t.",
        "Go through the questions: np.isin(looked, facts) says for each hop whether "
        "it looks at a fact. Then take the mean over the questions.",
    ],
    mistakes="""
        you compare a memory's number with a sentence's: memories count from the newest,
        supporting facts from the oldest
            told = n - 1 - shares -> told = shares
        you look at the story's own sentences alone; the strongest of all N counts
            shares.argmax -> shares[:, :n].argmax
        you are one off: of n sentences, number t is memory n - 1 - t
            told = n - 1 - -> told = n -
        you count from the last slot; a story may have fewer sentences than there are
        slots
            n - 1 - -> len(shares.T) - 1 -
        the strongest hop of each memory is not the strongest memory of each hop: the
        memories are the last axis
            axis=-1 -> axis=0
        you count the questions; their share is asked for
            np.mean(right -> 1.0 * np.sum(right
    """,
)
def hits(p, counts, supporting):
    """How often the strongest memory of each hop is a supporting fact.

    p (B, K, N), the shares of K hops in N memories, the newest first; counts (B,), how
    many sentences each story has, at most N; supporting: for each question a tuple with
    the numbers of its facts, counted from 0 in the order of telling -> (K,), shares of
    the B questions. The strongest of all N memories counts: where that is one past the
    story's end, it is a miss.
    """
    right = []
    for shares, n, facts in zip(p, counts, supporting, strict=True):
        told = n - 1 - shares.argmax(axis=-1)  # (K,)
        right.append(np.isin(told, facts))
    return np.mean(right, axis=0)


class _Copies:
    """answers(looks): what two copies say, which depends on every look."""

    def __init__(self, rng, hops, questions):
        self.needs = rng.normal(size=(2, hops, questions, 4))
        self.bias = rng.normal(size=(2, questions, 4))

    def __repr__(self):
        return f"(2 copies, {self.needs.shape[1]} hops)"

    def __call__(self, looks):
        if len(looks) != self.needs.shape[1]:
            raise ValueError(f"{len(looks)} looks for {self.needs.shape[1]} hops")
        used = [k for k, look in enumerate(looks) if look(1.0) == 1.0]
        return (self.bias + self.needs[:, used].sum(axis=1)).argmax(axis=-1)


def sees(u):
    return u


def blind(u):
    return 0.0 * u


def _copies_with_targets(rng, hops, questions):
    answers = _Copies(rng, hops, questions)
    targets = answers([sees] * hops)[0].copy()
    targets[::5] += 1
    return answers, [sees] * hops, blind, targets % 4


@exercise(
    cases=each(_copies_with_targets, "3 40, 1 10, 2 25, 5 30"),
    hints=[
        "A copy of the list, list(looks), with `blind` at place k: then answers(...) "
        "gives the words (R, B), and != targets the errors.",
        "The mean over the questions, axis 1: a number for each copy. Row 0 is the "
        "whole network.",
    ],
    mistakes="""
        a hop stays blind while you go on: take a new copy of looks for each
            without = list(looks) -> without = list(looks); without[:k] = [blind] * k
        you leave the blind hop out; it stays, and sees nothing
            without[k] = blind -> del without[k]
        you count the right answers
            != -> ==
        you take the mean over the copies, too
            np.array(errors) -> np.mean(errors, axis=1)
    """,
)
def take_away(answers, looks, blind, targets):
    """The errors of a trained network as it is, and with one hop after the other blind.

    answers(looks) -> (R, B), the words that R copies say with these K functions in the
    hops; blind: a function that does not look; targets (B,) -> (K + 1, R), shares of
    wrong answers, row 0 of the whole network, row k with hop k blind.
    """
    errors = [np.mean(answers(looks) != targets, axis=1)]
    for k in range(len(looks)):
        without = list(looks)
        without[k] = blind
        errors.append(np.mean(answers(without) != targets, axis=1))
    return np.array(errors)


picture = Picture("memory_networks")
experiment = Report("memory_networks")
