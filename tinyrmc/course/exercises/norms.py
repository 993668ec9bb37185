"""Parts that exercises on norms' gradients share: the forward, and cases."""

from __future__ import annotations

import numpy as np

from .exercise import normal


def mean(x):
    return x.mean(axis=-1, keepdims=True)


def rms_normed(x, gain, epsilon):
    """RMS norm: x (..., F), which may be complex, gain (F,), a number -> (..., F)."""
    return gain * x / np.sqrt(mean(x * x) + epsilon)


def layer_normed(x, gain, epsilon):
    """Layer norm, which takes the mean off first. An offset has no say in gradients."""
    return rms_normed(x - mean(x), gain, epsilon)


def gradient_cases(rng, flat=0.0):
    """Arguments (g, x, gain, epsilon); a row of all `flat` comes out as zeros."""

    def case(*shape, scale=1.0, epsilon=1e-5):
        g, x, gain = normal(rng, shape, shape, shape[-1])
        return g, scale * (x + 1), gain, epsilon

    g, gain = normal(rng, (2, 4), 4)
    return [
        case(3, 5),
        case(4, 4),  # as many rows as columns
        case(2, 3, 6, epsilon=0.5),  # an epsilon that counts
        case(2, 8, scale=1e3),
        (g, np.array([[flat] * 4, [1, -1, 1, -1]]), gain, 1e-2),
        case(3, 1),  # a row of one number, which is its own mean
    ]
