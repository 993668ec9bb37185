"""A corpus by its name: downloaded, read from its files, or mapped from the cache.

Only `download` reaches for the network.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ..errors import unwritable
from . import cache
from .corpus import PARTS, Corpus, CorpusError, Pieces, cut
from .files import strings
from .finding import (
    Found,
    check_archive,
    data_directory,
    find,
    part_of,
    remedy,
    require_known,
)
from .known import CORPORA, WHOLE
from .stories import ARCHIVES
from .words import book, newswire, prose, read_book

SECONDS = 30  # without a byte, until a server counts as gone


def load(
    name: str, data_dir: str | Path | None = None, vocabulary_size: int | None = None
) -> Corpus:
    """The corpus of this name, memory-mapped. The first time, its text is read.

    data_dir: where its files or an archive of it are; None: $TINYRMC_DATA, else
        tinyrmc's folder among the user's caches
    vocabulary_size: at most this many words, <eos> and <unk> among them; the rarest
        become <unk>. None: all

    The integers are kept among the user's caches, or in $TINYRMC_CACHE; nothing is
    written where the text is. MissingCorpus, with the command that gets it, if it is
    not there; CorpusError if it cannot be read.
    """
    corpus = cached(name, data_dir, vocabulary_size)
    if corpus is not None:
        return corpus
    found, known = find(name, data_dir), CORPORA[name]
    for path in found.paths:
        check_archive(path, known.archives)
    cache.write(
        _place(name, found, vocabulary_size),
        lambda notes: _pieces(name, found, notes),
        f"{name} ({found.place})",
        known.minimum_count,
        vocabulary_size,
    )
    corpus = cached(name, data_dir, vocabulary_size)
    if corpus is None:
        raise CorpusError(
            f"the files of {name} changed while they were read; try again"
        )
    return corpus


def cached(
    name: str, data_dir: str | Path | None = None, vocabulary_size: int | None = None
) -> Corpus | None:
    """The corpus of this name if its text has been read before, else None.

    MissingCorpus if its text is not there.
    """
    require_known(name)
    return cache.read(_place(name, find(name, data_dir), vocabulary_size), name)


def _place(name: str, found: Found, vocabulary_size: int | None) -> Path:
    settings = [name, CORPORA[name].minimum_count, vocabulary_size]
    return cache.place(name, settings, found.paths)


# --- Words, piece by piece ------------------------------------------------------------


def _pieces(name: str, found: Found, notes: list[str]) -> Pieces:
    notes += found.notes
    if name == "gutenberg":
        yield from _books(found, notes)
    elif name == "gigaword":
        for _, text in found.texts:
            with text.open() as (file, title):
                data = file.read()
            if text.path.suffix == ".gz":
                stories = [*newswire(data, title)]
            else:
                stories = [(text.path.stem, book(data, title))]
            for story, words in stories:
                yield part_of(story, training=98, validation=1), cut(prose(words))
    else:
        yield from _official(name, found, notes)


def _books(found: Found, notes: list[str]) -> Pieces:
    """Books of Project Gutenberg; those of which little or nothing is left are named,
    and those that say nowhere where they begin.
    """
    doubtful: dict[str, list[str]] = {}
    for part, text in found.texts:
        with text.open() as (file, title):
            read, doubt = read_book(file.read(), title)
        if doubt:
            doubtful.setdefault(doubt, []).append(text.path.name)
        yield part, cut(prose(read))
    notes += [f"{doubt}: {', '.join(names)}" for doubt, names in doubtful.items()]


def _official(name: str, found: Found, notes: list[str]) -> Pieces:
    """Texts of words between spaces. A text that is not the published one is noted."""
    for part, text in found.texts:
        kind, _, digits = CORPORA[name].hashes[part].partition(":")
        digest = hashlib.new(kind)
        with text.open() as (file, title):
            if part == WHOLE:
                size = file.seek(0, os.SEEK_END)
                file.seek(0)
                yield from _split(strings(file, title, digest), size)
            else:
                for piece in strings(file, title, digest):
                    yield part, cut(piece)
        if digest.hexdigest() != digits:
            # kept, so without the folder, which may be moved
            notes.append(f"{Path(title).name} is not the published text")


def _split(pieces: Iterator[str], size: int) -> Pieces:
    """text8 by its bytes: 93.3 %, 5.7 %, 1 %; a word goes to the part it begins in."""
    ends = [*(round(size * share) for share in (0.933, 0.99)), size]
    start = 0
    for data in map(str.encode, pieces):
        begin = 0
        for part, end in zip(PARTS, ends, strict=True):
            stop, reach = len(data), end - start
            if reach <= 0:
                continue
            if reach < stop and (space := data.find(b" ", reach - 1)) >= 0:
                stop = space
            if stop > begin:
                yield part, data[begin:stop].decode().split()
                begin = stop
        start += len(data)


# --- Downloads ------------------------------------------------------------------------


def download(name: str, data_dir: str | Path | None = None) -> Path:
    """Get the official archive of a corpus into the data directory; returns its path.

    It is written under another name, checked against the recorded checksum, and
    renamed. Addresses are tried in turn. CorpusError if none of them has it.
    """
    if name == "babi":
        archives = ARCHIVES["v1.2"]
    else:
        require_known(name)
        archives = CORPORA[name].archives
    if not archives:
        raise CorpusError(f"{name} has no archive; {remedy(name, data_dir)}")
    import pooch

    folder, failed = data_directory(data_dir), []
    bar = sys.stderr.isatty()  # a bar on a terminal alone
    get = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=SECONDS)
    for archive, url in [(each, url) for each in archives for url in each.urls]:
        try:
            found = pooch.retrieve(url, archive.hash, archive.file, folder, None, get)
            return Path(found)
        except ValueError:  # how pooch reports another checksum
            failed.append(f"{url} (what came has another checksum)")
        except OSError as error:
            if not hasattr(error, "request"):  # not from the network
                advice = "free some space there, or give another --data-dir"
                path = folder / archive.file
                raise CorpusError(unwritable(path, error, advice)) from error
            said, response = (
                "no connection, or it was cut",
                getattr(error, "response", None),
            )
            if response is not None:
                said = f"{response.status_code} {response.reason}"
            failed.append(f"{url} ({said})")
    raise CorpusError(
        f"cannot download {name} from {', nor from '.join(failed)}; try again, or "
        f"fetch {archives[0].file} by other means into {folder}"
    )
