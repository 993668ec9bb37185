"""Run directories: configuration, metrics, checkpoints, a lock, and their machine."""

from .arrays import load_arrays, save_arrays, under
from .machine import environment
from .run import Onlooker, Run

__all__ = ["Onlooker", "Run", "environment", "load_arrays", "save_arrays", "under"]
