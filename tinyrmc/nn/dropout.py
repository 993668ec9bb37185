"""Dropout, with masks that depend on an example's own seed and on nothing else."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ..autograd.engine import Tensor, is_recording
from ..backend import Array, namespace
from ..errors import check_number, is_integer
from .layers import Module

_ODD = 0x9E3779B9  # 2^32 / the golden ratio: its multiples lie far apart


def _hash(xp, x):
    """A bijection of uint32 that looks random; x is written over."""
    for shift, factor in (16, 0x7FEB352D), (15, 0x846CA68B):
        x ^= xp.right_shift(x, np.uint32(shift))
        x *= np.uint32(factor)
    x ^= xp.right_shift(x, np.uint32(16))
    return x


class Noise:
    """The source of dropout's masks: one seed for each example.

        noise = Noise(batch["noise"])    # (B,) integers, drawn by the stream
        x = dropout(embedded, noise)     # the first mask
        y = dropout(hidden, noise)       # the next one

    Each use takes the next mask. The mask of an example depends on its own seed and on
    the number of the use: not on the other examples, the workers or the machine. NumPy
    and CuPy give the same bits, those of a hash (Wellons' `lowbias32`) of seed, use,
    row and column, computed where the seeds are.
    """

    def __init__(self, seeds: Array):
        if getattr(seeds, "ndim", None) != 1 or seeds.dtype.kind not in "iu":
            raise ValueError("Noise: seeds must be a one-dimensional array of integers")
        xp, seeds = namespace(seeds), seeds.astype(np.uint64)
        halves = seeds, xp.right_shift(seeds, np.uint64(32))  # low and high
        self.seeds = [half.astype(np.uint32) for half in halves]  # each (B,)
        self.uses = 0

    def draw(self, shape: tuple[int, ...], axis: int) -> Array:
        """Numbers from 0 to 65535, uint16 of this shape, for the next use. `axis` is
        that of the examples, never the last one.
        """
        xp = namespace(self.seeds[0])
        count, ndim = len(self.seeds[0]), len(shape)
        if not -ndim <= axis < ndim - 1 or axis == -1 or shape[axis] != count:
            raise ValueError(
                f"Dropout: axis {axis} of shape {shape} does not hold the examples of "
                f"{count} seeds; give the axis that does, not the last one"
            )
        axis %= ndim
        self.uses += 1
        low, high = self.seeds
        key = _hash(xp, low + np.uint32(self.uses * _ODD & 0xFFFFFFFF))
        key = _hash(xp, key ^ high)  # (B,)
        key = key.reshape([count if k == axis else 1 for k in range(ndim - 1)])
        others = [1 if k == axis else n for k, n in enumerate(shape[:-1])]
        rows = xp.arange(math.prod(others), dtype=np.uint32).reshape(others)
        key = _hash(xp, key + rows)  # of each row
        pairs = xp.arange(-(-shape[-1] // 2), dtype=np.uint32)
        bits = _hash(xp, key[..., None] + pairs * np.uint32(_ODD))
        return bits.view(np.uint16)[..., : shape[-1]]


class Dropout(Module):
    """Inverted dropout: each number is zero with probability `rate`.

        y = dropout(x, Noise(seeds))     # in training: masks of each example's seed
        y = dropout(x, rng)              # or of a NumPy Generator
        y = dropout(x)                   # in evaluation: x as it is

    What is kept is divided by 1 - rate, so the mean stays (to a ten-thousandth, at
    rates up to 0.9). Where a Tape records, noise must be given, or False if nothing
    shall be dropped there. It has no parameters.

    Args:
        rate: 0 <= rate < 1, in steps of 1/65536.
        axis: the axis of x that holds the examples, one for each seed of the noise: 0
            for (B, ...), 1 for (T, B, ...). The last axis cannot be it.
        shared: axes along which one mask serves all. shared=0 for (T, B, F) drops the
            same units at all time steps (the variational dropout of Gal and Ghahramani
            2016, the "locked" one of Merity et al. 2018); shared=-1 drops whole rows.
    """

    most = 65535 / 65536  # the highest rate

    def __init__(self, rate: float, axis: int = 0, shared: int | tuple[int, ...] = ()):
        self.rate = check_number("Dropout", "rate", rate, f"[0, {self.most}]")
        self.axis = axis
        self.shared = tuple(shared) if isinstance(shared, (tuple, list)) else (shared,)
        for name, number in ("axis", axis), *[("shared", each) for each in self.shared]:
            if not is_integer(number):
                raise TypeError(f"Dropout: {name} takes axes by number, not {number!r}")

    def __call__(
        self,
        x: Array | Tensor,
        noise: Noise | np.random.Generator | Literal[False] | None = None,
    ) -> Any:
        """x with some of its numbers zero. RuntimeError where a Tape records, and
        nobody says from where the noise shall come.
        """
        if self.rate == 0 or noise is False:
            return x
        if noise is None:
            if is_recording():
                raise RuntimeError(
                    f"Dropout({self.rate:g}) drops nothing here, where a Tape records; "
                    "give noise: nn.Noise(seeds) or a Generator, or False to leave it "
                    "out"
                )
            return x
        if not isinstance(noise, (Noise, np.random.Generator)):
            raise TypeError(
                "Dropout takes noise from nn.Noise, a Generator or False, not "
                f"{type(noise).__name__}"
            )
        if x.dtype.kind not in "fc":
            raise TypeError(
                f"Dropout: x is {x.dtype}; convert with .astype(np.float32)"
            )
        shape = list(x.shape)
        for axis in self.shared:
            shape[axis] = 1
        if isinstance(noise, Noise):
            numbers = noise.draw(tuple(shape), self.axis)
        else:  # drawn on the host
            drawn = noise.integers(65536, size=shape, dtype=np.uint16)
            numbers = namespace(x.data if isinstance(x, Tensor) else x).asarray(drawn)
        keep = numbers >= np.uint16(round(self.rate * 65536))
        return x * (keep * x.dtype.type(1 / (1 - self.rate)))
