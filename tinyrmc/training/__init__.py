"""Training: what a task gives, and the one loop that trains it.

For a task's file: `Task` and `TrainConfig`; the streams `Samples` and `Epochs`, or a
`Stream` of its own; `staircase` and `Plateau` for the learning rate. For a program that
trains: `Trainer`, a step at a time, or `run_training`, a whole run, with a `Listener`.

Read on in this order: `task.py`, `testing.py`, `trainer.py`, `loop.py`, `run.py`.
"""

from .discovery import TaskError
from .loop import Listener, run_training
from .pieces import MetricAccumulator
from .schedules import Plateau, staircase
from .streams import Batch, Epochs, Samples, Stream
from .task import Task
from .telling import Curve, HeatMap, Table
from .testing import HELD_OUT_SEED
from .train_config import MICRO_BATCH, TrainConfig
from .trainer import NonFinite, Trainer

__all__ = [
    "HELD_OUT_SEED",
    "MICRO_BATCH",
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
