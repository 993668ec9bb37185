"""Acting: a policy's logits (..., A) and one uniform number make an action.

Array code for NumPy and CuPy: the randomness comes from outside, and nothing waits for
the device.
"""

from __future__ import annotations

from ...backend import Array, namespace


def sample(logits: Array, uniforms: Array) -> Array:
    """Actions (...) drawn with probability softmax(logits), integers.

    logits (..., A), uniforms (...) in [0, 1). The inverse of the distribution function:
    each action has a share of the interval, and the number falls on the share of the
    one that is drawn. An action whose probability is zero is never drawn.
    """
    xp = namespace(logits)
    shares = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    bounds = xp.cumsum(shares, axis=-1)  # not divided: the last one is what it is
    return xp.sum(bounds <= uniforms[..., None] * bounds[..., -1:], axis=-1)


def log_probs(logits: Array, actions: Array) -> Array:
    """log softmax(logits)[action], without a gradient: (..., A), (...) -> (...).

    What an actor writes down. `fused.categorical` is the same with a gradient.
    """
    xp = namespace(logits)
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    chosen = xp.take_along_axis(shifted, actions[..., None], axis=-1)[..., 0]
    return chosen - xp.log(xp.sum(xp.exp(shifted), axis=-1))
