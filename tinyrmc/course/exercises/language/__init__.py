"""Chapter 17: counts, perplexity, windows, a training loop, and writing."""

from .book import alice, cut
from .counting import bigram, perplexity
from .network import LanguageModel, lstm, numbers_of
from .reading import nucleus, sample, windows
from .training import one_epoch

__all__ = [
    "LanguageModel",
    "alice",
    "bigram",
    "cut",
    "lstm",
    "nucleus",
    "numbers_of",
    "one_epoch",
    "perplexity",
    "sample",
    "windows",
]
