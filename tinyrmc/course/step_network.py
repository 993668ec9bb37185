"""A network made of the step that you wrote, for chapters to train."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import nn
from ..autograd import primitives as p
from ..autograd.engine import Parameter, Tensor
from ..backend import Array
from ..backend.seeds import generator
from ..cores import PaperRelationalMemory

Step = Callable[..., tuple[Any, Any]]


class StepNetwork(nn.Module):
    """A core whose every step is `step(xp, x, m, h, p)`, and a head on its last h.

    `core` draws the weights, as for the paper's form, and the first memory; its own
    step is not used. p has them under the names of `equations.step`, and beside them
    `qkv_gain` (3 F,), ones, and `qkv_offset` (3 F,), zeros, for a norm over queries,
    keys and values.

    Args:
        inputs: width of an input vector.
        outputs: number of answers.
        N, F, H: slots, units of a slot, heads; H divides F.
        hidden: widths of the head's hidden layers.
    """

    def __init__(
        self,
        step: Step,
        inputs: int,
        outputs: int,
        N: int,
        F: int,
        H: int,
        hidden: tuple[int, ...] = (),
        seed: int = 0,
        dtype: npt.DTypeLike = np.float32,
    ):
        rng = generator(seed)
        self.step = step
        self.core = PaperRelationalMemory(inputs, N, F // H, H, seed=rng, dtype=dtype)
        self.qkv_gain = Parameter(np.ones(3 * F, dtype))
        self.qkv_offset = Parameter(np.zeros(3 * F, dtype))
        self.head = nn.MLP(N * F, [*hidden, outputs], dtype=dtype, seed=rng)

    def weights(self) -> dict[str, Any]:
        """All Parameters by name: those of the step; `W_in`, `b_in`, which project the
        inputs; and, of a head without hidden layers, `W_out` and `b_out`.
        """
        ways = {"in": self.core.input_projection, "out": self.head.layers[0]}
        around: dict[str, Any] = {}
        for name, layer in ways.items():
            around |= {f"W_{name}": layer.weight, f"b_{name}": layer.bias}
        normed = {"qkv_gain": self.qkv_gain, "qkv_offset": self.qkv_offset}
        return self.core.equation_parameters() | normed | around

    def __call__(self, inputs: Array) -> Tensor:
        """inputs (B, T, D) -> logits (B, outputs)."""
        weights = self.weights()
        m, h = self.core.initial_state(len(inputs))
        xs = self.core.input_projection(inputs)  # (B, T, F)
        for x in p.unstack(xs, axis=1):
            m, h = self.step(p, x, m, h, weights)
        return self.head(p.reshape(h, (h.shape[0], -1)))
