"""Chapter 19: one hop, forward and backward."""

from __future__ import annotations

import numpy as np

from ..attention import softmax
from ..derived import by_complex_step, log_shares
from ..exercise import exercise, normal


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
            softmax(match) -> np.exp(match); p = p / p.sum(axis=-1, keepdims=True)
        you subtract one maximum from all examples: what is far below it becomes 0 / 0
            softmax(match)
                -> np.exp(match - match.max()); p = p / p.sum(axis=-1, keepdims=True)
        your softmax runs over the first axis, not over the memories
            softmax(match) -> np.moveaxis(softmax(np.moveaxis(match, 0, -1)), -1, 0)
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
    p = softmax(match)
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
