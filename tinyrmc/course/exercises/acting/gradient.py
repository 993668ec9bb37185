"""Chapter 21: how the logits should move, and what to expect of a reward."""

from __future__ import annotations

import numpy as np

from ..attention import softmax
from ..derived import by_complex_step, log_shares
from ..exercise import each, exercise


def _choices(rng, A, scale, *leading):
    logits = scale * rng.normal(size=(*leading, A))
    return logits, rng.integers(A, size=leading), rng.normal(size=leading)


_FAR_APART = np.array([[1e3, 0.0, -1e3], [-5e3, -5e3, -5e3]])
_FORBIDDEN = np.array([[0.0, -np.inf, 1.0], [-np.inf, 2.0, 2.0]])
_FOUR_TIMES_TWO = np.array([[1.0, -0.5], [0.2, 3.0], [-1.0, 0.0], [2.0, 2.0]])


def _log_pi(logits, actions):
    places = np.asarray(actions)[..., None]
    return np.take_along_axis(log_shares(logits), places, axis=-1)[..., 0]


_log_pi_step = by_complex_step(_log_pi, "logits")


@exercise(
    cases=each(
        _choices,
        "4 1 5, 3 1 3 3, 5 3 2 4",  # and as many steps and levels as actions
        first=[(np.zeros((2, 3)), np.array([1, 2]), np.array([1.0, -2.0]))],
        also=[
            (_FAR_APART, np.array([1, 0]), np.array([2.0, 1.0])),
            (_FORBIDDEN, np.array([2, 1]), np.array([1.0, -1.0])),
            (np.array([0.3, -1.0, 2.0]), np.array(2), np.array(-0.5)),  # no axis
            (_FOUR_TIMES_TWO, np.array([0, 1, 1, 0], np.uint8), np.zeros(4)),
        ],
    ),
    hints=[
        "The softmax over the last axis, its largest logit taken off first, is pi.",
        "np.eye(A)[actions] has a 1 at the action that was taken, whatever axes there "
        "are. Take pi off it.",
        "Each row is multiplied by its own advantage: advantages[..., None] has an "
        "axis of length 1 for the actions.",
    ],
    mistakes="""
        your sign is the other way round: that makes good actions rarer
            hot - pi -> pi - hot
        the advantage multiplies the whole of [a] - pi, not only [a]
            (hot - pi) -> hot - pi
        you do not take pi off: the gradient of log pi(a) is [a] - pi
            (hot - pi) -> hot
        you divide by the number of steps: the task asks for the gradient of the sum
            None] * (hot - pi) -> None] * (hot - pi) / advantages.size
        the advantages go along the actions: write advantages[..., None]
            [..., None] * -> *
        your softmax runs over the first axis: the actions are the last
            axis=-1, keepdims=True -> axis=0
        exp overflows: take each row's largest logit off first
            - logits.max(axis=-1, keepdims=True) ->
    """,
    leading="logits actions advantages",
    anysize="logits",
    exact=lambda logits, actions, g: _log_pi_step(g, logits, actions),
)
def policy_gradient(logits, actions, advantages):
    """The gradient of the sum of advantage * log pi(action) with respect to the logits.

    logits (..., A), of pi = softmax(logits); actions (...), integers; advantages (...)
    -> (..., A).
    """
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    pi = e / e.sum(axis=-1, keepdims=True)
    hot = np.eye(logits.shape[-1])[actions]
    return advantages[..., None] * (hot - pi)


def _bandits(rng, A, scale=1):
    return softmax(scale * rng.normal(size=A)), 10 + rng.normal(size=A)


@exercise(
    cases=each(
        _bandits,
        "4, 6 2",
        first=[
            (np.full(3, 1 / 3), np.array([10.0, 11.0, 12.0])),
            (np.array([0.9, 0.1]), np.array([1.0, 5.0])),
        ],
        also=[(np.array([0.25, 0.75]), np.array([3.0, 3.0]))],
    ),
    hints=[
        "The mean of the gradient does not depend on b, so only the mean of its square "
        "does: sum_a pi_a (q_a - b)^2 |[a] - pi|^2. Set its derivative to 0.",
        "A mean of the q_a, where arm a has the weight pi_a |[a] - pi|^2.",
        "((np.eye(len(pi)) - pi) ** 2).sum(axis=1) are the squared lengths.",
    ],
    mistakes="""
        you take the expected reward; a rare arm moves the logits farther
            = (pi * q).sum()
        you count the own arm's logit alone, (1 - pi)^2; the other logits move, too
            sizes = -> sizes = (1 - pi) ** 2  #
        you weight with the length, not with its square
            .sum(axis=1) -> .sum(axis=1) ** 0.5
        you leave the probabilities out
            pi * sizes -> sizes
    """,
)
def best_baseline(pi, q):
    """The baseline b with the least variance of (r - b) grad ln pi(a), one pull.

    pi (A,), the probabilities of a softmax; q (A,), what each arm pays, without noise;
    the gradient is with respect to the logits -> a number.
    """
    sizes = ((np.eye(len(pi)) - pi) ** 2).sum(axis=1)
    return (pi * sizes * q).sum() / (pi * sizes).sum()
