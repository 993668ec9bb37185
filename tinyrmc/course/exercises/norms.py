"""Parts that exercises on norms' gradients share: the forward, and cases."""

from __future__ import annotations

import numpy as np

from .exercise import each, normal


def mean(x):
    return x.mean(axis=-1, keepdims=True)


def rms_normed(x, gain, epsilon):
    """RMS norm: x (..., F), which may be complex, gain (F,), a number -> (..., F)."""
    return gain * x / np.sqrt(mean(x * x) + epsilon)


def layer_normed(x, gain, epsilon):
    """Layer norm, which takes the mean off first. An offset has no say in gradients."""
    return rms_normed(x - mean(x), gain, epsilon)


def _gradient_case(rng, scale, epsilon, *shape):
    g, x, gain = normal(rng, shape, shape, shape[-1])
    return g, scale * (x + 1), gain, epsilon


def gradient_cases(flat=0.0):
    """Arguments (g, x, gain, epsilon); a row of all `flat` comes out as zeros."""
    g, gain = np.array([[0.5, -2, 1, 0.3], [2, 1, -1, 0.1]]), np.array([1.0, -2, 3, 0])
    flat_row = g, np.array([[flat] * 4, [1, -1, 1, -1]]), gain, 1e-2
    return each(
        _gradient_case,  # in the third epsilon counts, in the last a number is its mean
        "1 1e-5 3 5, 1 1e-5 4 4, 1 0.5 2 3 6, 1e3 1e-5 2 8, 1 1e-5 3 1",
        also=[flat_row],
    )
