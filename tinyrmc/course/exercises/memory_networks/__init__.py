"""Chapter 14: one hop and its gradient, sentences as memories, many hops, and what they
look at.
"""

from .hops import hop, hop_backward
from .looking import hits
from .network import adjacent, association, layerwise
from .sentences import newest_first, position_encoding

__all__ = [
    "adjacent",
    "association",
    "hits",
    "hop",
    "hop_backward",
    "layerwise",
    "newest_first",
    "position_encoding",
]
