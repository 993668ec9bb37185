"""Run directories: configuration, metrics, checkpoints, a lock, and their machine."""

from .files import load_arrays, save_arrays, under
from .machine import environment
from .run import Run

__all__ = ["Run", "environment", "load_arrays", "save_arrays", "under"]
