"""Learning rates for `Task.learning_rate`, beside `optim.schedule`.

def learning_rate(self, step):  # halved every 25 epochs
    return staircase(0.01, every=25)(self.epochs.epoch(step))

def learning_rate(self, step):  # falls when the held-out loss does not
    return self.plateau.scale * super().learning_rate(step)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from ..errors import check_choice, check_number, check_sizes


def staircase(
    peak: float, every: float, factor: float = 0.5
) -> Callable[[float], float]:
    """rate(k) = peak * factor ** floor(k / every); k may count steps or epochs."""
    return lambda k: peak * factor ** (k // every)


class Plateau:
    """A factor on the learning rate, `scale`, that falls when a metric stalls.

    A task calls `observe` from its own, adds `state` to its own, and multiplies its
    rate by `scale`. A run that is resumed then goes on with the same rate.

    Args:
        metric: its name in a line of metrics. Lines without it are passed over, so a
            held-out metric counts once an evaluation. Take one of the set that is
            watched while training: "validation_loss" for a task with that set.
        factor: what `scale` is multiplied by.
        patience: after how many values in a row without an improvement.
        threshold: an improvement is a change by more than this fraction of the value
            to be improved on. MemN2N's language model has 1e-4.
        against: what must be improved on: the best value so far, or the last one.
        larger: whether larger values are better, as for an accuracy.
    """

    def __init__(
        self,
        metric: str = "test_loss",
        factor: float = 0.5,
        patience: int = 1,
        threshold: float = 0.0,
        against: Literal["best", "last"] = "best",
        larger: bool = False,
    ):
        check_number("Plateau", "factor", factor, "(0, 1)")
        check_sizes("Plateau", patience=patience)
        check_choice("Plateau", "against", against, "best", "last")
        self.metric = metric
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.against = against
        self.larger = larger
        self.scale = 1.0
        self.reference: float | None = None  # what must be improved on
        self.stalled = 0  # values in a row without an improvement

    def observe(self, metrics: Mapping[str, Any]) -> bool:
        """Take notice of a line of metrics; returns whether `scale` has fallen."""
        if self.metric not in metrics:
            return False
        value = metrics[self.metric]
        improved = math.isfinite(value)  # NaN never improves
        if self.reference is not None:
            gain = value - self.reference if self.larger else self.reference - value
            improved = gain > self.threshold * abs(self.reference)
        if improved or (self.against == "last" and math.isfinite(value)):
            self.reference = value
        self.stalled = 0 if improved else self.stalled + 1
        if self.stalled < self.patience:
            return False
        self.scale = self.scale * self.factor
        self.stalled = 0
        return True

    def state(self) -> dict:
        """The state that a checkpoint keeps."""
        return {name: getattr(self, name) for name in ("scale", "reference", "stalled")}

    def load_state(self, state: dict) -> None:
        """Take back what `state` gave."""
        for name in self.state():
            setattr(self, name, state[name])
