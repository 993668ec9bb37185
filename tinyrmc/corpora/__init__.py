"""Texts to learn from: finding them, checking them, and reading them as integers.

    corpus = corpora.load("ptb")               # from the data directory
    corpus.texts["train"], corpus.vocabulary   # (tokens,) int32 ids, and their words
    corpora.own("diary.txt")                   # a text of yours
    corpora.babi()                             # stories and questions

A text is read once and then memory-mapped. Nothing is downloaded unless you say so:
`python -m tinyrmc data ptb`, or `corpora.download("ptb")`.
"""

from .cache import kept
from .corpus import (
    PARTS,
    Corpus,
    CorpusError,
    MissingCorpus,
    Vocabulary,
    checksum,
    cut,
    from_texts,
    require_same,
)
from .generated import GENERATED_TASKS, GeneratedStories
from .known import CORPORA
from .loading import download, load
from .own import own, tokens_of
from .stories import Babi, Story, babi

__all__ = [
    "CORPORA",
    "GENERATED_TASKS",
    "PARTS",
    "Babi",
    "Corpus",
    "CorpusError",
    "GeneratedStories",
    "MissingCorpus",
    "Story",
    "Vocabulary",
    "babi",
    "checksum",
    "cut",
    "download",
    "from_texts",
    "kept",
    "load",
    "own",
    "require_same",
    "tokens_of",
]
