"""Chapter 20: several hops with shared tables, and what is left without the softmax."""

from __future__ import annotations

import numpy as np

from ..exercise import exercise, normal
from ..one_hop import hop
from ..recorded import recorded


def _found(u, m, c):
    return hop(u, m, c)[1]


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
