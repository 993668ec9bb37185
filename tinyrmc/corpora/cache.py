"""A corpus as a folder of integers that is memory-mapped.

    <the user's caches>/tinyrmc/texts/ptb-<key>-<key>/
        train.int32  validation.int32  test.int32      ids, nothing else
        corpus.json                                    words, counts, checksums, notes
        source.txt                                     the path of the text
        <name>.json                                    what was counted (see `kept`)

The keys stand for the place and settings, and for sizes and dates of the source files:
of one place the newest is kept, and of places that are gone none. A folder is written
beside its place, then renamed; what does not match its checksum is made again. Where
texts lie nothing is written: that may be somebody else's archive.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import unwritable
from .corpus import (
    PARTS,
    Corpus,
    CorpusError,
    Numbering,
    Pieces,
    Vocabulary,
    order,
    require_words,
)
from .overlap import repeated

VERSION = 9  # one more wherever texts are read otherwise
ABOUT = "corpus.json"
SOURCE = "source.txt"
PARTIAL = ".partial-"
BLOCK = 1 << 22  # ids that are counted or renumbered at once: 16 MiB
DAY = 24 * 60 * 60
# what reading a file may raise if it is not as it was written
NOT_WHOLE = OSError, ValueError, KeyError, TypeError, RecursionError


def user_directory() -> Path:
    """tinyrmc's folder among the user's caches, or the one that TINYRMC_CACHE names."""
    if chosen := os.environ.get("TINYRMC_CACHE"):
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("tinyrmc"))


def place(name: str, settings: Any, where: Path, paths: Sequence[Path]) -> Path:
    """The folder of a corpus that is read from these files with these settings: its
    name has a key of `where` they are, then one of their sizes and dates.
    """
    stats = [(path.absolute(), path.stat()) for path in paths]
    # the last says of a file whose date was put back that it was written again
    times = ("st_size", "st_mtime_ns", "st_ctime_ns")
    stamps = [[str(path), *(getattr(stat, x) for x in times)] for path, stat in stats]
    keys = [settings, str(where.absolute())], [VERSION, stamps]
    one, two = (hashlib.sha256(json.dumps(x).encode()).hexdigest()[:16] for x in keys)
    return user_directory() / "texts" / f"{name}-{one}-{two}"


def clear(below: Path | None = None) -> tuple[int, int]:
    """Delete all integers that are kept, or those of the texts `below` a folder;
    returns how many folders, and their bytes. CorpusError where that fails. Texts and
    downloads stay, and so does what others may be writing now.
    """
    count = size = 0
    for folder in sorted((user_directory() / "texts").glob("*")):
        ours = re.fullmatch(r"[a-z0-9-]+(-[0-9a-f]{16}){1,2}", folder.name)
        partial = folder.name.startswith(PARTIAL) and _left(folder) and not below
        if folder.is_symlink() or not folder.is_dir() or not (ours or partial):
            continue
        if below:
            told = ""
            with contextlib.suppress(*NOT_WHOLE):
                told = _regular(folder / SOURCE).read_text(encoding="utf-8")
            if not told or not Path(told).is_relative_to(below.absolute()):
                continue
        files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        try:
            shutil.rmtree(folder)
        except OSError as error:
            remedy = "make it writable, or delete it by hand"
            raise CorpusError(unwritable(folder, error, remedy)) from error
        count, size = count + 1, size + sum(files)
    return count, size


def read(folder: Path, name: str) -> Corpus | None:
    """The corpus that `write` put there, memory-mapped; None if it is not whole. Reads
    all ids once.
    """
    try:
        about = _get(folder / ABOUT)
        texts = {}
        for part in PARTS:
            ids = np.memmap(_regular(folder / f"{part}.int32"), np.int32, mode="r")
            if zlib.crc32(ids.data) != about["sums"][part]:
                return None
            texts[part] = ids.view(np.ndarray)  # for all who ask its type
        if len(about) != 4 or len(about["sums"]) != len(PARTS):  # of another version
            return None
        words = Vocabulary(about["words"], np.array(about["counts"], np.int64))
        return Corpus(name, texts, words, tuple(about["notes"]), folder)
    except NOT_WHOLE:
        return None


def kept(corpus: Corpus, name: str, compute: Callable[[], Any]) -> Any:
    """The result of `compute`, kept as a JSON file of this name beside the integers.

    Give the name a number that changes whenever `compute` would give something else.
    Where nothing can be kept it is computed each time.
    """
    if corpus.folder is None:
        return compute()
    path = corpus.folder / f"{name}.json"
    with contextlib.suppress(*NOT_WHOLE):
        return _get(path)
    value = compute()
    with contextlib.suppress(OSError):  # what is broken off has another checksum
        path.unlink(missing_ok=True)  # a pipe there would wait for a reader
        _put(path, value)
    return value


def _put(path: Path, value: Any) -> None:
    """Write what JSON can hold, with its checksum."""
    whole = {"checksum": zlib.crc32(json.dumps(value).encode()), "value": value}
    path.write_text(json.dumps(whole), encoding="utf-8")


def _get(path: Path) -> Any:
    """The value that `_put` wrote there; raises one of NOT_WHOLE if it is not whole."""
    whole = json.loads(_regular(path).read_text(encoding="utf-8"))
    if len(whole) > 2 or whole["checksum"] != zlib.crc32(
        json.dumps(whole["value"]).encode()
    ):
        raise ValueError(f"{path} is not whole")
    return whole["value"]


def _regular(path: Path) -> Path:
    """The path, if a regular file is there; OSError for a pipe, which might wait."""
    if not path.is_file():
        raise FileNotFoundError(path)
    return path


def write(
    folder: Path,
    pieces: Callable[[list[str]], Pieces],
    where: str,
    minimum_count: int,
    vocabulary_size: int | None,
    source: Path,
) -> None:
    """Write the texts of `pieces` as a folder of integers, whole or not at all.

    pieces: gets a list for notes, and yields the texts piece by piece
    where: what to name in messages
    source: the folder or file of the text; integers of those that are gone are deleted

    Takes the memory of the vocabulary and of a piece. CorpusError where the disk is
    full, and where a part has no words.
    """

    def blocks(file) -> Iterator[np.ndarray]:
        while (block := np.fromfile(file, np.int32, BLOCK)).size:
            yield block

    with _beside(folder) as partial:
        notes: list[str] = []
        numbering = Numbering()
        sizes = dict.fromkeys(PARTS, 0)
        told = dict.fromkeys(PARTS, 0)  # checksums before rare words become one
        paths = {part: partial / f"{part}.int32" for part in PARTS}
        with contextlib.ExitStack() as stack:
            files = {k: stack.enter_context(open(x, "wb")) for k, x in paths.items()}
            for part, piece in pieces(notes):
                numbers = numbering(piece).data
                files[part].write(numbers)
                sizes[part] += len(piece)
                told[part] = zlib.crc32(numbers, told[part])
        require_words(sizes, where)
        words = [*numbering]
        counts = np.zeros(len(words), np.int64)
        with open(paths["train"], "rb") as file:
            for block in blocks(file):
                counts += np.bincount(block, minlength=len(words))
        notes += repeated(paths, words, counts)
        table, vocabulary = order(words, counts, minimum_count, vocabulary_size)
        sums = dict.fromkeys(PARTS, 0)
        for part, path in paths.items():
            with open(path, "r+b") as both:
                for block in blocks(both):  # first numbers become ids, in place
                    both.seek(-block.nbytes, os.SEEK_CUR)
                    ids = table[block].data
                    both.write(ids)
                    sums[part] = zlib.crc32(ids, sums[part])
        for one, other in itertools.combinations(PARTS, 2):
            if (told[one], sizes[one]) == (told[other], sizes[other]):
                notes.append(f"the {one} and the {other} text are the same")
        about = {"words": vocabulary.words, "counts": vocabulary.counts.tolist()}
        _put(partial / ABOUT, about | {"sums": sums, "notes": notes})
        (partial / SOURCE).write_text(str(source.absolute()), encoding="utf-8")


def _left(partial: Path) -> bool:
    """Whether what was begun a day ago will not be gone on with."""
    with contextlib.suppress(FileNotFoundError):  # another process has just done it
        return time.time() - partial.stat().st_mtime > DAY
    return False


@contextlib.contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A new folder that is renamed to `folder` when the body has gone well. CorpusError
    where that cannot be written; then nothing is left.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for old in folder.parent.glob(f"{PARTIAL}*"):  # of processes that were killed
            with contextlib.suppress(OSError):  # another process did it
                if _left(old):
                    shutil.rmtree(old)
        if read(folder, "") is None:  # damaged; else another process was faster
            shutil.rmtree(folder, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder.parent) as beside:
            partial = Path(beside) / folder.name
            partial.mkdir()
            yield partial
            try:
                partial.rename(folder)
            except OSError:
                if not folder.exists():  # else another process was faster
                    raise
            # of an earlier state of these files; who has it mapped keeps it
            for old in folder.parent.glob(f"{folder.name[:-16]}*"):
                if old != folder:
                    shutil.rmtree(old, ignore_errors=True)
            for told in folder.parent.glob(f"*/{SOURCE}"):
                with contextlib.suppress(*NOT_WHOLE):
                    if not os.path.lexists(_regular(told).read_text(encoding="utf-8")):
                        shutil.rmtree(told.parent, ignore_errors=True)
    except OSError as error:
        remedy = "free some space there, or name another folder in TINYRMC_CACHE"
        raise CorpusError(unwritable(folder, error, remedy)) from error
