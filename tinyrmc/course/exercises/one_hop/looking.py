"""Chapter 19: one hop, forward and backward."""

from __future__ import annotations

import math

import numpy as np

from ..attention import softmax, softmax_that_overflows
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


def _scores(u, m):
    return (m @ u[..., None])[..., 0]


def _mean(p, c):
    return (p[..., None, :] @ c)[..., 0, :]


def _one_maximum(s):
    e = np.exp(s - s.max())
    return e / e.sum(axis=-1, keepdims=True)


def _looking(shares=softmax, found=lambda p, u, m, c: _mean(p, c)):
    """A hop with other shares(scores), or something else found."""

    def answer(u, m, c):
        p = shares(_scores(u, m))
        return p, found(p, u, m, c)

    return answer


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
    mistakes={
        "you divide the match by the square root of d, as chapter 6 does: a memory "
        "network does not": lambda u, m, c: hop(u / math.sqrt(u.shape[-1]), m, c),
        "you do not subtract the largest match before the exponential: it "
        "overflows": _looking(softmax_that_overflows),
        "you subtract one maximum from all examples: what is far below it becomes "
        "0 / 0": _looking(_one_maximum),
        "your softmax runs over the first axis, not over the memories": _looking(
            lambda s: np.moveaxis(softmax(np.moveaxis(s, 0, -1)), -1, 0)
        ),
        "you average the memories m, not the contents c": _looking(
            found=lambda p, u, m, c: _mean(p, m)
        ),
        "you add u to what was found: that comes after the hop": _looking(
            found=lambda p, u, m, c: u + _mean(p, c)
        ),
        "you give o alone; p is wanted, too": (lambda u, m, c: hop(u, m, c)[1]),
    },
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


def _backward(
    of_match,
    of_u=lambda gs, p, m, c: _mean(gs, m),
    of_c=lambda gs, p, u, g: p[..., None] * g[..., None, :],
):
    """The backward pass of a hop and, by its arguments, ways to get it wrong."""

    def answer(u, m, c, g):
        p = softmax(_scores(u, m))
        gs = of_match(p, _scores(g, c))
        return of_u(gs, p, m, c), gs[..., None] * u[..., None, :], of_c(gs, p, u, g)

    return answer


def _through_softmax(p, gp):
    return p * (gp - (p * gp).sum(axis=-1, keepdims=True))


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
    mistakes={
        "you leave out the sum in the softmax's gradient: what one memory gains, "
        "the others lose": _backward(lambda p, gp: p * gp),
        "you let the gradient pass the softmax unchanged": _backward(lambda p, gp: gp),
        "your softmax's gradient is p (1 - p): that is the diagonal alone": _backward(
            lambda p, gp: p * (1 - p) * gp
        ),
        "the gradient of u is a sum of the memories m_i, not of the "
        "contents": _backward(_through_softmax, of_u=lambda gs, p, m, c: _mean(gs, c)),
        "each c_i gets all of g; it has a share p_i in o": _backward(
            _through_softmax,
            of_c=lambda gs, p, u, g: np.ones_like(p)[..., None] * g[..., None, :],
        ),
        "the gradients of m and c have changed places": (
            lambda *case: [hop_backward(*case)[k] for k in (0, 2, 1)]
        ),
    },
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
