"""The layers that networks are made of.

Weights are laid out (in, out). As in Sonnet, they start as a normal distribution of
standard deviation 1 / sqrt(fan in), cut off at two standard deviations, and biases
start at zero. All randomness comes from `seed`: an int, a SeedSequence, or a Generator
to share.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..autograd.engine import Parameter, Tensor
from ..backend import Array
from ..errors import Seed, check_number, check_sizes, check_switch, generator
from ..fused import conv2d, embedding, layer_norm, linear
from .module import Module, check_dtype, truncated_normal


class Linear(Module):
    """x @ weight + bias over the last axis, with an optional ReLU.

    x (..., input_size) -> (..., output_size).
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        bias: bool = True,
        relu: bool = False,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
    ):
        check_sizes("Linear", input_size=input_size, output_size=output_size)
        dtype = check_dtype("Linear", dtype)
        rng, std = generator(seed), 1 / math.sqrt(input_size)
        weight = truncated_normal(rng, (input_size, output_size), std, dtype)
        self.weight = Parameter(weight)
        bias = check_switch("Linear", "bias", bias)
        self.bias = Parameter(np.zeros(output_size, dtype)) if bias else None
        self.relu = check_switch("Linear", "relu", relu)

    def __call__(self, x: Array | Tensor) -> Tensor:
        return linear(x, self.weight, self.bias, relu=self.relu)


class Conv2d(Module):
    """Convolution of maps in steps of 1, with an optional ReLU.

    x (..., H, W, input_channels) -> (..., H', W', output_channels). With "VALID"
    padding H' is H - height + 1; with "SAME" it is H, see `fused.conv2d`. `weight` is
    (height, width, input_channels, output_channels).

    kernel: (height, width) of the kernel, or one number for both.
    """

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        kernel: int | tuple[int, int] = 2,
        padding: Literal["VALID", "SAME"] = "VALID",
        bias: bool = True,
        relu: bool = False,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
    ):
        height, width = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        sizes = {"input_channels": input_channels, "output_channels": output_channels}
        check_sizes("Conv2d", **sizes, height=height, width=width)
        if padding not in ("VALID", "SAME"):
            raise ValueError(f"Conv2d: padding is 'VALID' or 'SAME', not {padding!r}")
        dtype = check_dtype("Conv2d", dtype)
        shape = height, width, input_channels, output_channels
        rng, std = generator(seed), math.prod(shape[:3]) ** -0.5
        self.weight = Parameter(truncated_normal(rng, shape, std, dtype))
        bias = check_switch("Conv2d", "bias", bias)
        self.bias = Parameter(np.zeros(output_channels, dtype)) if bias else None
        self.padding, self.relu = padding, check_switch("Conv2d", "relu", relu)

    def __call__(self, x: Array | Tensor) -> Tensor:
        return conv2d(x, self.weight, self.bias, padding=self.padding, relu=self.relu)


class Embedding(Module):
    """A table of `count` vectors, one for each word: ids (...) -> (..., size).

    As in Sonnet's Embed, `weight` (count, size) starts as a truncated normal of
    standard deviation 1 / sqrt(size), unless you give `std`.
    """

    def __init__(
        self,
        count: int,
        size: int,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
        std: float | None = None,
    ):
        check_sizes("Embedding", count=count, size=size)
        dtype = check_dtype("Embedding", dtype)
        std = size**-0.5 if std is None else check_number("Embedding", "std", std)
        rng = generator(seed)
        self.weight = Parameter(np.zeros((count, size), dtype))
        # In parts: values are drawn in float64, and a vocabulary may be large.
        for part in np.split(self.weight.data, range(4096, count, 4096)):
            part[...] = truncated_normal(rng, part.shape, std, dtype)

    def __call__(self, ids: Array) -> Tensor:
        return embedding(self.weight, ids)


class LayerNorm(Module):
    """Layer normalisation over the last axis, each row by itself.

    `residual`, if you give it, is added to x first. Epsilon is 1e-5, as released.
    """

    def __init__(self, size: int, dtype: npt.DTypeLike = np.float32):
        check_sizes("LayerNorm", size=size)
        dtype = check_dtype("LayerNorm", dtype)
        self.gain = Parameter(np.ones(size, dtype))
        self.offset = Parameter(np.zeros(size, dtype))

    def __call__(
        self, x: Array | Tensor, residual: Array | Tensor | None = None
    ) -> Tensor:
        return layer_norm(x, self.gain, self.offset, residual)


class MLP(Module):
    """Linear layers of the given output sizes, with ReLUs between them.

    With `activate_final` there is a ReLU after the last one too. The parameters are
    `{l}.weight` and `{l}.bias`.
    """

    def __init__(
        self,
        input_size: int,
        output_sizes: Sequence[int],
        activate_final: bool = False,
        dtype: npt.DTypeLike = np.float32,
        seed: Seed = 0,
    ):
        rng, sizes = generator(seed), [input_size, *output_sizes]
        if len(sizes) == 1:
            raise ValueError("MLP: output_sizes must have at least one size, not []")
        check_switch("MLP", "activate_final", activate_final)
        self.layers = []
        for number, (size, next_size) in enumerate(itertools.pairwise(sizes), 1):
            relu = number < len(output_sizes) or activate_final
            layer = Linear(size, next_size, relu=relu, dtype=dtype, seed=rng)
            self.layers.append(layer)

    def children(self) -> Iterator[tuple[str, Any]]:
        yield from ((str(k), layer) for k, layer in enumerate(self.layers))
        yield from ((name, x) for name, x in super().children() if name != "layers")

    def __call__(self, x: Array | Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x
