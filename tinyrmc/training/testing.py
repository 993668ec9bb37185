"""Tests of a task on held-out examples, the same in every run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .mistakes import check_result
from .pieces import MetricAccumulator, Sums, micro_batches
from .streams import Batch, Epochs, Samples, Stream, move_batch

# every run of a task is tested on the same examples, whatever its own seed
HELD_OUT_SEED = 2018


class Tested:
    """The words of a `Task` about its held-out examples, and what follows from them.

    headline: the metric that says how well a run does: its curve is drawn, and on the
        held-out examples it is `test_<headline>`. If it is an accuracy, each line of
        metrics also has that of the best single training batch since the line before,
        `best_batch_<headline>`.
    lower: the metrics for which lower is better.
    splits: the sets of held-out examples, a word each: `("validation", "test")`. The
        first is watched while a run trains, and guides it; all are measured at its end,
        and the last gives its result. Metrics are named after their set:
        `validation_loss`.
    test_examples: how many held-out examples there are, in each set. Where the sets
        differ in size, override `examples`.
    """

    headline: str = "accuracy"
    lower: tuple[str, ...] = ("loss", "perplexity")
    splits: tuple[str, ...] = ("test",)
    test_examples: int = 10_240
    config: Any
    draw: Any
    loss: Any
    _parts: dict[str, Batch] | None

    def examples(self, split: str) -> int:
        """The number of held-out examples in a set."""
        return _rows(self._parts[split]) if self._parts else self.test_examples

    def effort(self, split: str) -> float:
        """The cost of evaluating this set, in training examples: an estimate by which
        --max-minutes reserves time.
        """
        return self.examples(split)

    # Where there are several sets, `held_out` and `evaluate` are told which is meant.

    def held_out(self, split: str | None = None) -> Stream:
        """The examples to test on: the first `examples` of the batch of step 0."""
        if self._parts:
            part = self._parts[split or self.splits[0]]
            return Epochs(part, _rows(part), shuffle=False)
        place = self.splits.index(split) if split else 0
        return Samples(self.draw, HELD_OUT_SEED + place)

    def evaluate(
        self, model, worker: int = 0, workers: int = 1, xp=np, split: str | None = None
    ) -> Sums:
        """{metric: (sum, count)} over a worker's pieces of the held-out examples.

        split: one of `splits`; None: the first. Records no tape.
        """
        split = split or self.splits[0]
        held_out, found = self.held_out(*self.naming(split)), MetricAccumulator()
        pieces = micro_batches(
            self.examples(split), self.config.train.micro_batch(xp), workers
        )
        for start, stop in pieces[worker::workers]:
            batch = move_batch(xp, held_out.batch(0, start, stop))
            total, count, metrics = self.measure(model, batch)
            found.add({"loss": (total.data, count), **metrics})
        return found.sums

    def measure(self, model, batch: Batch) -> tuple:
        """The parts of an evaluation: (sum, count, metrics), as from `loss`.

        A task may test differently from how it trains.
        """
        return check_result(self, self.loss(model, batch, None))[:3]

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        """The reported metrics, of the means of all, in training and on held-out sets.

        For what is not a mean itself: the perplexity is exp(mean loss), which is not
        the mean of the perplexities of batches.
        """
        return means

    # --- What follows from that -------------------------------------------------------

    @property
    def watched(self) -> str:
        """The name of the headline on the set that is watched: "test_accuracy"."""
        return f"{self.splits[0]}_{self.headline}"

    @property
    def result(self) -> str:
        """The name of the headline on the set that gives a run's result."""
        return f"{self.splits[-1]}_{self.headline}"

    def naming(self, split: str) -> tuple[str, ...]:
        """The arguments that name a set: none where there is one set alone."""
        return (split,) if len(self.splits) > 1 else ()

    def named(self, split: str, sums: Sums) -> dict[str, float]:
        """The metrics of a set, as a line of metrics names it.

        Waits for the device.
        """
        means = self.summary(MetricAccumulator(sums).means())
        return {f"{split}_{name}": value for name, value in means.items()}

    def held_out_metrics(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics of a line that are on held-out examples."""
        splits = tuple(f"{split}_" for split in self.splits)
        return {name: line[name] for name in line if name.startswith(splits)}

    def lower_is_better(self, metric: str) -> bool:
        """Whether less is better, of a metric such as "loss" or "test_loss"."""
        split, _, name = metric.partition("_")
        return (name if split in self.splits else metric) in self.lower


def _rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))
