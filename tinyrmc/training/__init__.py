"""Training: what a task gives, and the one loop that trains it.

For a task's file: `Task` and `TrainConfig`; the streams `Samples` and `Epochs`, or a
`Stream` of its own; `staircase` and `Plateau` for the learning rate. For a program that
trains: `Trainer`, a step at a time, or `run_training`, a whole run, with a `Listener`.

Read on in this order: `task.py`, `trainer.py`, `loop.py`.
"""

import importlib

from .discovery import TaskError
from .loop import Listener, run_training
from .pieces import MetricAccumulator
from .streams import Batch, Epochs, Samples, Stream
from .task import HELD_OUT_SEED, Task
from .train_config import PIECE, TrainConfig
from .trainer import NonFinite, Trainer

__all__ = [
    "HELD_OUT_SEED",
    "PIECE",
    "Batch",
    "Curve",
    "Epochs",
    "HeatMap",
    "Listener",
    "MetricAccumulator",
    "NonFinite",
    "Plateau",
    "Samples",
    "Stream",
    "Table",
    "Task",
    "TaskError",
    "TrainConfig",
    "Trainer",
    "run_training",
    "staircase",
]

# what only some tasks need
_SELDOM = {
    **dict.fromkeys(("Plateau", "staircase"), "schedules"),
    **dict.fromkeys(("Curve", "HeatMap", "Table"), "tables"),
}


def __getattr__(name):
    if name not in _SELDOM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_SELDOM[name]}", __name__), name)
