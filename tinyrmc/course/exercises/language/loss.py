"""Chapter 17: the loss over all words, and its gradient."""

from __future__ import annotations

import numpy as np

from ..attention import softmax
from ..exercise import exercise
from ..learning import INSTEAD_OF_P_MINUS_Y, one_hot, scores


def _losses(logits, targets):
    return cross_entropy(logits, targets)[0]


def _gradient(make):
    """The right losses; the gradient make(p, y)."""

    def answer(logits, targets):
        y = one_hot(logits, targets)
        return _losses(logits, targets), make(softmax(logits), y)

    return answer


def _loss(make):
    """The right gradient; the losses make(losses)."""

    def answer(logits, targets):
        losses, gradient = cross_entropy(logits, targets)
        return make(losses), gradient

    return answer


def _shifted_by(shift):
    """Losses and gradient if `shift`, not each row's largest, is taken off."""

    def answer(logits, targets):
        e = np.exp(logits - shift(logits))
        p = e / e.sum(axis=1, keepdims=True)
        y = one_hot(logits, targets)
        return -np.log(p[np.arange(len(p)), targets]), p - y

    return answer


def _down_the_columns(logits, targets):
    p = softmax(logits.T).T
    y = one_hot(logits, targets)
    return -np.log(p[np.arange(len(p)), targets]), p - y


def _log_of_the_softmax(logits, targets):
    p = softmax(logits)
    return -np.log(p[np.arange(len(p)), targets]), p - one_hot(logits, targets)


def _never_zero(logits, targets):
    p = softmax(logits)
    return -np.log(p[np.arange(len(p)), targets] + 1e-9), p - one_hot(logits, targets)


@exercise(
    cases=scores,
    hints=[
        "Take each row's largest logit off the row first. That changes neither the "
        "loss nor the gradient, and exp no longer overflows.",
        "With the shifted logits z: loss = log(sum(exp(z))) - z[target]. The logarithm "
        "of a softmax that has become 0 would be infinite.",
        "The right word of each row is logits[np.arange(R), targets]. At the same "
        "places take 1 off the softmax, and you have the gradient.",
    ],
    mistakes={
        **{says: _gradient(make) for says, make in INSTEAD_OF_P_MINUS_Y.items()},
        "exp overflows: take each row's largest logit off first": _shifted_by(
            lambda logits: 0.0
        ),
        "you take the largest logit of all rows off, and in lower rows every exp "
        "is 0": _shifted_by(np.max),
        "your softmax runs down the columns": _down_the_columns,
        "you take a softmax of the softmax": (
            lambda logits, targets: cross_entropy(softmax(logits), targets)
        ),
        "you take the logarithm of the finished softmax: where that is 0, the loss "
        "is infinite": _log_of_the_softmax,
        "you add something small inside the logarithm": _never_zero,
        "you give the mean of the losses, not one for each row": _loss(np.mean),
        "losses and gradient have changed places": (
            lambda *case: cross_entropy(*case)[::-1]
        ),
    },
    anysize="logits",
)
def cross_entropy(logits, targets):
    """-ln softmax(logits)[target] of each row, and the gradient of their sum.

    logits (R, V), targets (R,) -> losses (R,), gradient (R, V).
    """
    z = logits - logits.max(axis=1, keepdims=True)
    rows = np.arange(len(z))
    e = np.exp(z)
    total = e.sum(axis=1)
    p = e / total[:, None]
    p[rows, targets] -= 1
    return np.log(total) - z[rows, targets], p
