"""Chapter 20: many hops, a start without the softmax, and what the hops need."""

from ..experiments import Report
from .looking import hits, take_away
from .several_hops import adjacent, association

experiment = Report("memory_networks")

__all__ = ["adjacent", "association", "experiment", "hits", "take_away"]
