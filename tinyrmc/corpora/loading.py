"""A corpus by its name, from the cache or from its files."""

from __future__ import annotations

import gzip
import hashlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

from . import cache
from .corpus import PARTS, Corpus, CorpusError, DamagedCorpus, Pieces, cut
from .files import Text, digest_of, read_whole, readable, strings
from .finding import (
    Found,
    data_directory,
    find,
    part_of,
    require_known,
    user_directory,
)
from .known import CORPORA, WHOLE, Archive
from .words import book, newswire, prose

LARGEST_BOOK = 256 << 20  # bytes, all in memory at once


def load(
    name: str, data_dir: str | Path | None = None, vocabulary_size: int | None = None
) -> Corpus:
    """The corpus of this name, memory-mapped. The first time, its text is read.

    data_dir: where its files or an archive of it are; None: $TINYRMC_DATA, else
        tinyrmc's folder among the user's caches
    vocabulary_size: at most this many words, <eos> and <unk> among them; the rarest
        become <unk>. None: all

    MissingCorpus, with the command that gets it, if it is not there; CorpusError if it
    cannot be read, or has the name of an official archive and is not it.
    """
    corpus = cached(name, data_dir, vocabulary_size)
    if corpus is not None:
        return corpus
    found, folder = _places(name, data_dir, vocabulary_size)
    check_archives(found.paths, CORPORA[name].archives)
    cache.write(
        folder,
        lambda notes: _pieces(name, found, notes),
        f"{name} ({found.place})",
        CORPORA[name].minimum_count,
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
    return cache.read(_places(name, data_dir, vocabulary_size)[1], name)


def check_quickly(name: str, data_dir: str | Path | None = None) -> None:
    """DamagedCorpus if an archive of this corpus is damaged, as far as its size and the
    directory of a zip tell. MissingCorpus if there is none.
    """
    paths = find(name, data_dir).paths
    check_archives(paths, CORPORA[name].archives, quickly=True)


def cache_directory(data_dir: str | Path | None = None) -> Path:
    """Where integers are kept: in the data directory, or among the user's caches."""
    folder = data_directory(data_dir)
    if folder.exists() and not _writable(folder):
        folder = user_directory()
    return folder / "tinyrmc-cache"


def _writable(folder: Path) -> bool:
    """Whether one may write there. Nothing stops root, but a folder that is read-only
    for all is not meant to be written by root either.
    """
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & 0o222)


def check_archives(
    paths: list[Path], official: tuple[Archive, ...], quickly: bool = False
) -> None:
    """DamagedCorpus for a file that has an official archive's name but is not it.

    quickly: look at sizes, and whether a zip has its directory, but read nothing
    """
    for path in paths:
        named = [archive for archive in official if archive.file == path.name]
        size = path.stat().st_size
        sized = [archive for archive in named if archive.size in (None, size)]
        if named and not sized:
            raise _not_official(path, f"{size:,} bytes, not {named[0].size:,}")
        if quickly:
            if path.suffix == ".zip":
                with readable(path), zipfile.ZipFile(path):
                    pass
            continue
        for kind, _, digits in [(a.hash or "").partition(":") for a in sized]:
            if kind and digest_of(path, kind) != digits:
                raise _not_official(path, f"its {kind} checksum differs")


def _not_official(path: Path, why: str) -> DamagedCorpus:
    stem, dot, ending = path.name.partition(".")
    return DamagedCorpus(
        f"{path} is not the official archive: {why}; delete it and fetch it again. If "
        f"you made it yourself, give it another name, such as {stem}-mine{dot}{ending}"
    )


def _places(
    name: str, data_dir: str | Path | None, vocabulary_size: int | None
) -> tuple[Found, Path]:
    found = find(name, data_dir)
    settings = [name, CORPORA[name].minimum_count, vocabulary_size]
    code = cache.key(settings, found.paths)
    return found, cache_directory(data_dir) / f"{name}-{code}"


# --- Words, piece by piece ------------------------------------------------------------


def _pieces(name: str, found: Found, notes: list[str]) -> Pieces:
    notes += found.notes
    if name == "gutenberg":
        return _books(found)
    if name == "gigaword":
        return _newswire(found)
    return _official(name, found, notes)


def _official(name: str, found: Found, notes: list[str]) -> Pieces:
    """Texts of words between spaces. A text that is not the published one is noted."""
    known = CORPORA[name]
    for part, text in found.texts:
        kind, _, digits = known.hashes[part].partition(":")
        digest = hashlib.new(kind)
        with text.open() as (file, title, size):
            pieces = strings(file, title, (digest,))
            if part == WHOLE:
                yield from _split(pieces, size)
            else:
                yield from ((part, cut(piece)) for piece in pieces)
        if digest.hexdigest() != digits:
            published = known.sizes.get(part)
            sizes = f" ({size:,} bytes, not {published:,})" if published else ""
            # kept, so without the folder, which may be moved
            notes.append(f"{Path(title).name} is not the published text{sizes}")


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


def _books(found: Found) -> Pieces:
    for part, text in found.texts:
        with text.open() as (file, name, _):
            yield part, cut(prose(book(read_whole(file, name, LARGEST_BOOK), name)))


def _newswire(found: Found) -> Pieces:
    for _, text in found.texts:
        for name, story in _stories(text):
            yield part_of(name, training=98, validation=1), cut(prose(story))


def _stories(text: Text) -> Iterator[tuple[str, str]]:
    with text.open() as (file, name, _):
        if text.path.suffix == ".gz":
            with readable(text.path), gzip.open(file) as unpacked:
                yield from newswire(unpacked, name)
        else:
            data = read_whole(file, name, LARGEST_BOOK)
            yield text.path.stem, book(data, name)
