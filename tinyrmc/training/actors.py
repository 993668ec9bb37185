"""What a task's file imports of agents; `rl/actors.py` is behind it."""

from .rl.actors import ActingTask, LearningConfig

__all__ = ["ActingTask", "LearningConfig"]
