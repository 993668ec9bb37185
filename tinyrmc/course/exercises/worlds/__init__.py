"""Chapter 22: shortest ways, n steps and a value, and V-trace."""

from .ahead import distances, gae, n_step
from .vtrace import vtrace

__all__ = ["distances", "gae", "n_step", "vtrace"]
