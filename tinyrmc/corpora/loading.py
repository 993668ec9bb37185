"""A corpus by its name, from the cache or from its files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import nearest
from . import cache
from .corpus import Corpus, CorpusError, cut
from .files import strings
from .finding import Found, data_directory, find
from .known import CORPORA


def load(
    name: str, data_dir: str | Path | None = None, vocabulary_size: int | None = None
) -> Corpus:
    """The corpus with this name, memory-mapped; the first time its text is read.

    data_dir: where its files or an archive of it are; None: $TINYRMC_DATA, else
        tinyrmc's folder among the user's caches
    vocabulary_size: at most so many words, <eos> and <unk> among them; the rarest
        become <unk>. None: all

    MissingCorpus, with the command that gets it, if it is not there.
    """
    if name not in CORPORA:
        raise CorpusError(
            f"there is no corpus {name!r} (corpora: {', '.join(CORPORA)})"
            f"{nearest(name, CORPORA)}"
        )
    found = find(name, data_dir)
    minimum = CORPORA[name].minimum_count
    code = cache.key([name, minimum, vocabulary_size], found.paths)
    folder = cache_directory(data_dir) / f"{name}-{code}"
    corpus = cache.read(folder, name)
    if corpus is None:
        where = f"{name} ({found.paths[0].parent})"
        cache.write(
            folder, lambda notes: _lines(found), where, minimum, vocabulary_size
        )
        corpus = cache.read(folder, name)
        assert corpus is not None
    return corpus


def cache_directory(data_dir: str | Path | None = None) -> Path:
    """Where integers are kept: in the data directory, or among the user's caches."""
    folder = data_directory(data_dir)
    if not os.access(folder, os.W_OK):
        import pooch

        folder = Path(pooch.os_cache("tinyrmc"))
    return folder / "tinyrmc-cache"


def _lines(found: Found) -> Iterator[tuple[str, list[str]]]:
    for part, text in found.texts.items():
        with text.open() as (file, name, _):
            for piece in strings(file, name):
                yield part, cut(piece)
