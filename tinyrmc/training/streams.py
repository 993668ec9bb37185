"""Sources of the batches of training.

A stream gives any part of any step's batch: `batch(step, start, stop)`. Randomness
depends only on (seed, step, block of examples), never on who asks. So workers and ranks
each draw their own pieces, a resumed run sees the batches it would have seen, and
another process can draw a batch before its step comes.

`Samples` draws fresh examples forever; `Epochs` goes through a finite set again and
again. A task may give a stream of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend.seeds import generator
from ..errors import check_choice, check_sizes, check_switch
from .discovery import TaskError

# Examples drawn from one random stream. To get a few of them, you draw the whole block.
BLOCK = 64

Batch = dict[str, Any]  # arrays with one row an example, by name


def move_batch(xp, batch: Batch) -> Batch:
    """A host batch as arrays of `xp`; on NumPy the batch itself."""
    return batch if xp is np else {name: xp.asarray(x) for name, x in batch.items()}


class Stream:
    """A source of batches, as the training loop asks for them.

    random_access: whether `batch` depends on nothing but its arguments, what the stream
        was made of, and the task's `state`. Then another process may draw ahead. A
        stream that looks at the model, or keeps a place of its own, says False.
    """

    random_access = False

    def batch(self, step: int, start: int, stop: int) -> Batch:
        """Examples start .. stop - 1 of this step's batch.

        The same for everyone who asks, however the batch is cut.
        """
        raise NotImplementedError

    def state(self) -> dict:
        """The state that a checkpoint keeps, as JSON can hold it.

        Nothing, if the step says it all.
        """
        return {}

    def load_state(self, state: dict) -> None:
        """Take back what `state` gave."""


def from_blocks(make: Callable[[int], Batch], start: int, stop: int) -> Batch:
    """Examples start .. stop - 1, cut out of the blocks that hold them."""
    first, last = start // BLOCK, -(-stop // BLOCK)
    blocks = [make(block) for block in range(first, last)]
    inside = slice(start - first * BLOCK, stop - first * BLOCK)
    return {
        name: np.concatenate([block[name] for block in blocks])[inside]
        for name in blocks[0]
    }


def _whole(source: str, batch: Any, rows: int) -> Batch:
    """A task's batch; TaskError unless it is a dict of arrays of so many rows each.

    Blocks are joined array by array: another number of rows would go unnoticed, and
    pair one example's input with another one's target.
    """
    if not isinstance(batch, dict):
        raise TaskError(
            f"{source}() must return {{name: array}}, not a {type(batch).__name__}"
        )
    for name, x in batch.items():
        if (shape := np.shape(x))[:1] != (rows,):
            raise TaskError(
                f"the array {name!r} of {source}() has the shape {list(shape)}; it "
                f"must have a row for each of the {rows} examples asked for"
            )
    return batch


class Samples(Stream):
    """An endless stream of freshly drawn batches.

    Block b of step s is drawn from SeedSequence(seed, (s, b)).

    Args:
        draw: draw(rng, count) gives a batch, a dict of example-first NumPy arrays.
        choose: if there is one, choose(rng) is called once a step, and what it returns
            is passed to `draw` as a third argument.
    """

    random_access = True

    def __init__(self, draw: Callable, seed: int, choose: Callable | None = None):
        self.draw = draw
        self.seed = seed
        self.choose = choose

    def batch(self, step, start, stop):
        """Examples start .. stop - 1 of this step's batch."""
        chosen = []
        if self.choose is not None:
            chosen = [self.choose(generator(self.seed, step))]

        def block(number):
            rng = generator(self.seed, step, number)
            return _whole("draw", self.draw(rng, BLOCK, *chosen), BLOCK)

        return from_blocks(block, start, stop)


class Epochs(Stream):
    """A finite set of examples, epoch after epoch, each in an order of its own.

        Epochs({"story": stories, "answer": answers}, batch_size=32, seed=seed)
        Epochs(len(texts), batch_size=32, seed=seed, take=lambda rows: {...})

    Epoch e is shuffled by SeedSequence(seed, (e,)).

    Args:
        examples: the arrays, example-first, by name; or how many examples there are,
            of which `take` then gives those of an array of indices.
        last: what becomes of the examples that fill no whole batch. "drop": they are
            left out of this epoch (the next order leaves out others), as in the
            released program for bAbI. "fill": the first examples of the next epoch
            complete the batch, so that each epoch brings every example once. No batch
            is ever shorter: pieces, carries and a GPU's arrays keep their shapes.
        shuffle: False keeps the examples in their order, as for a held-out set.
        vary: vary(rng, batch) changes examples at random, for noise that only training
            has. It gets whole blocks, so that workers make no difference.
    """

    random_access = True

    def __init__(
        self,
        examples: Batch | int,
        batch_size: int,
        seed: int = 0,
        *,
        take: Callable[[np.ndarray], Batch] | None = None,
        last: str = "drop",
        shuffle: bool = True,
        vary: Callable[[np.random.Generator, Batch], Batch] | None = None,
    ):
        if isinstance(examples, dict):
            lengths = {name: len(x) for name, x in examples.items()}
            if len({*lengths.values()}) != 1:
                raise ValueError(
                    f"Epochs: every array needs one row an example: {lengths}"
                )
            take = functools.partial(_rows_of, examples)
            examples = next(iter(lengths.values()))
        if take is None:
            raise ValueError(
                f"Epochs: with a number of examples ({examples}) give `take` too, a "
                "function from indices to a batch"
            )
        self.count, self.take = examples, take
        check_choice("Epochs", "last", last, "drop", "fill")
        check_sizes("Epochs", batch_size=batch_size)
        if self.count < (batch_size if last == "drop" else 1):
            raise ValueError(
                f"Epochs: {self.count} examples do not fill a batch of {batch_size}; "
                'take a smaller batch, or last="fill"'
            )
        self.batch_size, self.seed = batch_size, seed
        self.last, self.vary = last, vary
        self.shuffle = check_switch("Epochs", "shuffle", shuffle)
        # the examples of an epoch that are used
        self.used = self.count - (self.count % batch_size if last == "drop" else 0)
        self._order = (-1, np.arange(self.count))  # of the epoch asked for last

    @property
    def steps_per_epoch(self) -> float:
        """Steps of an epoch: a whole number unless the last batch is filled up."""
        steps, rest = divmod(self.used, self.batch_size)
        return self.used / self.batch_size if rest else steps

    def epoch(self, step: int) -> int:
        """The epoch, from 0, of the first example of this step's batch."""
        return step * self.batch_size // self.used

    def batch(self, step, start, stop):
        """Examples start .. stop - 1 of this step's batch."""
        if self.vary is None:
            return self._taken(step, start, stop)

        def block(number):
            first = number * BLOCK
            end = min(first + BLOCK, self.batch_size)
            batch = self._taken(step, first, end)
            varied = self.vary(generator(self.seed, step, number), batch)
            return _whole("vary", varied, end - first)

        return from_blocks(block, start, stop)

    def _taken(self, step: int, start: int, stop: int) -> Batch:
        """Examples start .. stop - 1 of a batch, as they are."""
        return _whole("take", self.take(self._rows(step, start, stop)), stop - start)

    def _rows(self, step: int, start: int, stop: int) -> np.ndarray:
        """The numbers (stop - start,) of examples start .. stop - 1 of a batch."""
        place = step * self.batch_size + start
        parts = []
        end = place + stop - start
        while place < end:
            epoch, row = divmod(place, self.used)
            until = min(self.used, row + end - place)
            parts.append(self._shuffled(epoch)[row:until])
            place += until - row
        return np.concatenate(parts)

    def _shuffled(self, epoch: int) -> np.ndarray:
        """The order (count,) of an epoch; the last one asked for is remembered."""
        known, order = self._order
        if known != epoch and self.shuffle:
            order = generator(self.seed, epoch).permutation(self.count)
            self._order = (epoch, order)  # one assignment: other threads ask too
        return order


def _rows_of(arrays: Batch, rows: np.ndarray) -> Batch:
    return {name: x[rows] for name, x in arrays.items()}
