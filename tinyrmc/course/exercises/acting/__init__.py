"""Chapter 21: returns, policy gradients, states that begin anew, and learning."""

from ..experiments import Report
from ..language import numbers_of
from .gradient import best_baseline, policy_gradient
from .players import Agent, Maze, act, one_hot, policy_loss, smooth
from .returns import returns
from .states import begin_anew
from .updating import update

experiment = Report("acting")

__all__ = [
    "Agent",
    "Maze",
    "act",
    "begin_anew",
    "best_baseline",
    "experiment",
    "numbers_of",
    "one_hot",
    "policy_gradient",
    "policy_loss",
    "returns",
    "smooth",
    "update",
]
