"""The agents that a task's file imports; `rl/actors.py` is behind it."""

from .rl.actors import ActingTask, LearningConfig

__all__ = ["ActingTask", "LearningConfig"]
