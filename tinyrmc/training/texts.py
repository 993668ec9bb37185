"""Texts, as language models are trained on them and tested on them.

A model is called as `losses, state = model(tokens, targets, state)`, on tokens (B, T)
and those after them, and it has `initial_state(B)`. The state is carried on, so that a
long text can be read window after window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..backend import namespace, to_device
from ..errors import UserError, generator
from .streams import BLOCK, Epochs, Stream, from_blocks

# --- Reading to learn -----------------------------------------------------------------


class BPTTBatches(Stream):
    """Windows of a text, read in several lanes at once, epoch after epoch.

    A batch has tokens (B, T) and targets (B, T), each target the token that follows;
    is_first (B,), whether an epoch begins; and noise (B,), the seed of each lane's
    dropout masks in this step.
    """

    random_access = True

    def __init__(self, text, lanes: int, window: int, seed: int):
        self.text, self.lanes, self.window, self.seed = text, lanes, window, seed
        self.length = (len(text) - 1) // lanes  # of a lane
        self.windows = self.length // window
        if not self.windows:
            raise UserError(
                f"the training text has {len(text):,} tokens, too few for {lanes} "
                f"lanes of {window} and the word after; take a smaller "
                "--train.batch-size or --data.window"
            )

    def batch(self, step, start, stop):
        """Lanes start .. stop - 1 of a step's windows."""
        epoch, place = divmod(step, self.windows)
        over = self.length - self.windows * self.window
        first = generator(self.seed, epoch).integers(over + 1) + place * self.window
        rows = np.arange(start, stop)[:, None] * self.length + first
        tokens = self.text[rows + np.arange(self.window + 1)]  # (B, T + 1)

        def seeds(block):
            rng = generator(self.seed, step, block)
            return {"noise": rng.integers(2**63, size=BLOCK)}

        return {
            "tokens": np.ascontiguousarray(tokens[:, :-1]),
            "targets": np.ascontiguousarray(tokens[:, 1:]),
            "is_first": np.full(stop - start, place == 0),
            **from_blocks(seeds, start, stop),
        }


def stretches(text, lanes: int, window: int, before: int, seed: int) -> Epochs:
    """Stretches of a text in a random order, each with what comes before it.

    A batch has tokens (B, T), targets (B, T), each the token that follows, and
    `before` (B, before), the tokens that come first. So a model that looks back no
    further needs no state from elsewhere. An epoch brings every place that has this
    much before it, once; but where the last stretch would be cut off, it begins a bit
    earlier, so that some places come twice.

    UserError if the text is too short for one stretch.
    """
    longest = before + window + 1
    if len(text) < longest:
        raise UserError(
            f"the training text has {len(text):,} tokens, too few for stretches of "
            f"{longest}; take less memory, or a smaller --data.window"
        )
    firsts = np.minimum(
        np.arange(before, len(text) - 1, window), len(text) - 1 - window
    )
    near = np.arange(-before, window + 1)
    parts = {
        "before": slice(before),
        "tokens": slice(before, -1),
        "targets": slice(before + 1, None),
    }

    def take(rows):
        words = text[firsts[rows, None] + near]
        return {name: np.ascontiguousarray(words[:, x]) for name, x in parts.items()}

    return Epochs(len(firsts), lanes, seed, take=take, last="fill")


# --- Reading to be tested -------------------------------------------------------------


class Text(NamedTuple):
    """A text to be predicted, as what is read and what follows."""

    tokens: np.ndarray
    targets: np.ndarray

    @classmethod
    def of(cls, ids, end: int | None):
        """Every id is a target; the first one follows the `end` of a sentence.

        Where there is no such token, the first id is not predicted.
        """
        if end is None:
            return cls(ids[:-1], ids[1:])
        return cls(np.concatenate([np.full(1, end, ids.dtype), ids[:-1]]), ids)


class Parts(NamedTuple):
    """Which places of a text are read side by side; arrays of one value a lane."""

    reading: np.ndarray  # the first place that is read
    counting: np.ndarray  # the first place that counts
    end: np.ndarray

    @classmethod
    def lanes(cls, length: int, lanes: int, context: int):
        """Equal parts, each of which first reads what comes before it."""
        bounds = length * np.arange(lanes + 1) // lanes
        return cls(np.maximum(bounds[:-1] - context, 0), bounds[:-1], bounds[1:])

    @classmethod
    def stretches(cls, length: int, size: int):
        """Parts of `size` places each, which know nothing of each other."""
        starts = np.arange(0, length, size)
        return cls(starts, starts, np.minimum(starts + size, length))

    def some(self, rows) -> Parts:
        """A selection of the lanes."""
        return Parts(*(x[rows] for x in self))


def score(model, text: Text, parts: Parts, window: int, **how: Any) -> Iterator[tuple]:
    """(places, losses, counted), window after window, each (B, T) of all parts.

    The losses, -log p of the tokens at these places, are where the model is; the other
    two are on the host. Over all windows, every place of a part is counted once. Every
    part begins with a fresh state, which is carried to its end. Records no tape. `how`
    goes to the model.
    """
    if not len(parts.end):  # with few lanes, some workers get none
        return
    xp = library(model)
    state = model.initial_state(len(parts.end))
    for first in range(0, int((parts.end - parts.reading).max(initial=0)), window):
        places = parts.reading[:, None] + first + np.arange(window)
        counted = (places >= parts.counting[:, None]) & (places < parts.end[:, None])
        within = np.minimum(places, len(text.tokens) - 1)
        tokens, targets = (to_device(x[within], xp) for x in text)
        losses, state = model(tokens, targets, state, **how)
        yield places, losses.data, counted


def total(model, text: Text, parts: Parts, window: int) -> tuple:
    """(the sum of the losses that count, where the model is; their number)."""
    xp, weight = library(model), next(iter(model.parameters()))
    sums, count = [xp.zeros((), weight.dtype)], 0
    for _, losses, counted in score(model, text, parts, window):
        sums.append(xp.sum(losses * to_device(counted, xp)))
        count += int(counted.sum())
    return xp.sum(xp.stack(sums)), count  # of sums of a few: float32 rounds little


def library(model) -> Any:
    """The array library that a model's parameters are in."""
    return namespace(next(iter(model.parameters())).data)


def perplexity(loss: float) -> float:
    """exp of a mean loss in nats; infinite where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf
