"""Chapter 19: one hop and its gradient, sentences as memories, many hops, and what they
look at.
"""

from .looking import hits
from .one_hop import hop, hop_backward
from .sentences import newest_first, position_encoding
from .several_hops import adjacent, association, layerwise

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
