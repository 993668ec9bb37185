"""Chapter 19: one hop and its gradient, sentences as memories, learning from them."""

from .looking import hop, hop_backward
from .sentences import newest_first, remembered
from .stories import Reading
from .training import learn_stories

__all__ = [
    "Reading",
    "hop",
    "hop_backward",
    "learn_stories",
    "newest_first",
    "remembered",
]
