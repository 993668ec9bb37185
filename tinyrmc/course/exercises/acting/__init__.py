"""Chapter 21: returns, policy gradients, V-trace, and states that begin anew."""

from .gradient import policy_gradient
from .returns import returns
from .states import begin_anew
from .targets import vtrace

__all__ = ["begin_anew", "policy_gradient", "returns", "vtrace"]
