"""Gradients of norms, and the ways to get them wrong that all norms share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from .exercise import normal


def mean(x):
    return x.mean(axis=-1, keepdims=True)


@dataclass(frozen=True)
class Norm:
    """Layer norm, which takes the mean off each row first, or RMS norm, which does not.

    g, x (..., F), gain (F,), epsilon a number. The offset has no say in a gradient.
    """

    centred: bool

    def away(self, x):
        return x - mean(x) if self.centred else x

    def rows(self, x, epsilon):
        """(n, s), each row for itself; x may be complex."""
        d = self.away(x)
        s = 1 / np.sqrt(mean(d * d) + epsilon)
        return d * s, s

    def forward(self, x, gain, epsilon):
        return gain * self.rows(x, epsilon)[0]

    def gradient(self, g, x, gain, epsilon, *, of_mean=None, of_scale=1, average=mean):
        """The right one and, by its arguments, ways to get it wrong."""
        of_mean = self.centred if of_mean is None else of_mean
        n, s = self.rows(x, epsilon)
        h = g * gain
        return s * (h - of_mean * average(h) - of_scale * n * average(h * n))

    def without_s(self, g, x, gain, epsilon):
        return self.gradient(g, x, gain, epsilon) / self.rows(x, epsilon)[1]

    def with_d_for_n(self, g, x, gain, epsilon):
        d, s, h = self.away(x), self.rows(x, epsilon)[1], g * gain
        return s * (h - self.centred * mean(h) - d * mean(h * d))

    def without_gain(self, g, x, gain, epsilon):
        return self.gradient(g, x, np.ones_like(gain), epsilon)

    def gain_last(self, g, x, gain, epsilon):
        return self.without_gain(g, x, gain, epsilon) * gain

    def of_all_rows(self, g, x, gain, epsilon):
        """As if all rows together were one."""
        one_row = (g * gain).reshape(1, -1), x.reshape(1, -1)
        return self.gradient(*one_row, np.ones(x.size), epsilon).reshape(x.shape)

    def epsilon_outside(self, g, x, gain, epsilon):
        d, h = self.away(x), g * gain
        s = 1 / (np.sqrt(mean(d * d)) + epsilon)
        return s * (h - self.centred * mean(h) - s * d * mean(h * s * d))

    def mistakes(self):
        """Those that all norms share."""
        return {
            "you treat the scale s as a constant": partial(self.gradient, of_scale=0),
            "you forget the factor s before the bracket": self.without_s,
            "you take the row as it was before it was scaled, in place "
            "of n": self.with_d_for_n,
            "you multiply by the gain at the end, after the norm, and not where "
            "it stands": self.gain_last,
            "you forget the gain": self.without_gain,
            "you take sums in place of means": partial(
                self.gradient, average=lambda x: x.sum(axis=-1, keepdims=True)
            ),
            "your means run over all rows together": self.of_all_rows,
            "you forget the epsilon": (
                lambda g, x, gain, epsilon: self.gradient(g, x, gain, 0.0)
            ),
        }

    def cases(self, rng):
        """Arguments (g, x, gain, epsilon)."""

        def case(*shape, scale=1.0, epsilon=1e-5):
            g, x, gain = normal(rng, shape, shape, shape[-1])
            return g, scale * (x + 1), gain, epsilon

        g, gain = normal(rng, (2, 4), 4)
        unscaled = 2.0 * self.centred  # such a row comes out as zeros
        flat = np.array([[unscaled] * 4, [1, -1, 1, -1]])
        return [
            case(3, 5),
            case(4, 4),  # as many rows as columns
            case(2, 3, 6, epsilon=0.5),  # an epsilon that counts
            case(2, 8, scale=1e3),
            (g, flat, gain, 1e-2),
            case(3, 1),  # a row of one number, which is its own mean
        ]


LAYER_NORM, RMS_NORM = Norm(centred=True), Norm(centred=False)
