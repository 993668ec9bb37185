"""Chapter 17: counts, perplexity, windows, the loss over all words, and sampling."""

from .counting import bigram, perplexity
from .loss import cross_entropy, log_sum_exp_in_blocks
from .reading import sample, windows

__all__ = [
    "bigram",
    "cross_entropy",
    "log_sum_exp_in_blocks",
    "perplexity",
    "sample",
    "windows",
]
