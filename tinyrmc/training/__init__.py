"""What a task gives, and the one loop that trains it."""

from .loop import run_training
from .task import HELD_OUT_SEED, PIECE, Samples, Task, Totals, TrainConfig
from .trainer import NonFinite, Trainer

__all__ = [
    "HELD_OUT_SEED",
    "PIECE",
    "NonFinite",
    "Samples",
    "Task",
    "Totals",
    "TrainConfig",
    "Trainer",
    "run_training",
]
