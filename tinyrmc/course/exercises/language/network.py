"""The network of chapters 17 and 18, small enough to learn a book in a minute."""

from __future__ import annotations

import numpy as np

from tinyrmc import nn, primitives
from tinyrmc.autograd.engine import Parameter, Tensor
from tinyrmc.cores import LSTM


class LanguageModel(nn.Module):
    """Word vectors, a core as wide as they are, and a softmax over all V words."""

    def __init__(self, V, core, tied=True, dropout=0.3, seed=0):
        random, d = np.random.default_rng(seed), core.output_size
        self.core, self.dropout = core, dropout
        self.read = nn.Embedding(V, d, seed=random)  # E, of size 1 / sqrt(d)
        self.write = self.read if tied else nn.Embedding(V, d, seed=random)  # E'
        self.bias = Parameter(np.zeros(V, np.float32))

    def __call__(self, ids, state, random=None):
        """ids (B, T) -> logits (B T, V), state. With `random` numbers are dropped."""
        d = self.core.output_size
        x = self.drop(self.read(ids) * d**0.5, random)  # (B, T, d)
        outputs, state = self.core.unroll(x, state)
        h = self.drop(primitives.stack(outputs, axis=1), random)  # (B, T, d)
        h = primitives.reshape(h, (-1, d))
        return h @ primitives.transpose(self.write.weight) + self.bias, state

    def drop(self, x, random):
        """Each number becomes 0 with the probability `dropout`."""
        if random is None or not self.dropout:
            return x
        kept = random.random(x.shape) >= self.dropout
        return x * (kept / (1 - self.dropout)).astype(np.float32)


def lstm(V, seed, **more):
    """An LSTM of 64 units that reads and writes V words."""
    return LanguageModel(V, LSTM(64, 64, seed=seed), seed=seed, **more)


def numbers_of(state):
    """A state of plain arrays: where the next window begins, without its past."""
    if isinstance(state, (tuple, list)):
        return tuple(map(numbers_of, state))
    return state.data if isinstance(state, Tensor) else state
