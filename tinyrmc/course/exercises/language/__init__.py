"""Chapter 17: counts, perplexity, windows, the loss over all words, and sampling."""

from .counting import bigram, perplexity
from .loss import cross_entropy
from .reading import sample, windows

__all__ = [
    "bigram",
    "cross_entropy",
    "perplexity",
    "sample",
    "windows",
]
