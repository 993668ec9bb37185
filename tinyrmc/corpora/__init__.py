"""Texts to learn from: finding them, checking them, and reading them as integers.

    corpus = corpora.load("ptb")               # from the data directory
    corpus.texts["train"], corpus.vocabulary   # (tokens,) int32 ids, and their words

Nothing is downloaded here: `python -m tinyrmc.data ptb` does that.
"""

from __future__ import annotations

from .corpus import Corpus, CorpusError, MissingCorpus, Vocabulary, from_texts
from .known import CORPORA
from .loading import load

__all__ = [
    "CORPORA",
    "Corpus",
    "CorpusError",
    "MissingCorpus",
    "Vocabulary",
    "from_texts",
    "load",
]
