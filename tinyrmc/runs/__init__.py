"""Run directories: configuration, metrics, checkpoints, a lock, and their machine."""

from .files import load_arrays, save_arrays, under
from .run import Run, environment

__all__ = ["Run", "environment", "load_arrays", "save_arrays", "under"]
