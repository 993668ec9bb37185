"""A corpus as a folder of integers that is memory-mapped.

    <data directory>/tinyrmc-cache/ptb-<key>/
        train.int32  validation.int32  test.int32      ids, nothing else
        corpus.json                                    words, counts, checksums, notes
        <name>.json                                    what was counted (see `kept`)

The key stands for the sizes and dates of the source files and for all settings: other
files, or other settings, have another folder. A folder is written beside its place,
then renamed. Everything in it has a checksum; what does not match its own is made
again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
import uuid
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

VERSION = 2
ABOUT = "corpus.json"
PARTIAL = ".partial-"
BLOCK = 1 << 22  # ids that are counted or renumbered at once: 16 MiB
# what reading a file may raise if it is not as it was written
NOT_WHOLE = OSError, ValueError, KeyError, TypeError, RecursionError


def key(settings: Any, paths: Sequence[Path]) -> str:
    """What tells one cached text from another."""
    stamps = [[p.name, p.stat().st_size, p.stat().st_mtime_ns] for p in paths]
    said = json.dumps([VERSION, settings, stamps])
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def read(folder: Path, name: str) -> Corpus | None:
    """The corpus that `write` put there, memory-mapped; None if it is not whole."""
    try:
        about = _get(folder / ABOUT)
        texts = {part: _mapped(folder, part, about["sums"][part]) for part in PARTS}
        counts = np.array(about["counts"], np.int64)
        vocabulary = Vocabulary(about["words"], counts)
        return Corpus(name, texts, vocabulary, tuple(about["notes"]), folder)
    except NOT_WHOLE:
        return None


def kept(corpus: Corpus, name: str, compute: Callable[[], Any]) -> Any:
    """What `compute` gives, kept as a JSON file of this name beside the integers.

    name: give it a number that changes whenever `compute` would give something else

    If the corpus is not kept anywhere, or its folder cannot be written, it is computed
    each time.
    """
    if corpus.folder is None:
        return compute()
    path = corpus.folder / f"{name}.json"
    with contextlib.suppress(*NOT_WHOLE):
        return _get(path)
    value = compute()
    partial = path.with_name(f"{PARTIAL}{uuid.uuid4().hex}")
    try:
        with contextlib.suppress(OSError):
            _put(partial, value)
            partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    return value


def _put(path: Path, value: Any) -> None:
    """Write what JSON can hold, with its checksum."""
    whole = {"checksum": zlib.crc32(json.dumps(value).encode()), "value": value}
    path.write_text(json.dumps(whole), encoding="utf-8")


def _get(path: Path) -> Any:
    """What `_put` wrote there. Raises one of NOT_WHOLE if the file is not whole."""
    _require_file(path)
    whole = json.loads(path.read_text(encoding="utf-8"))
    if whole["checksum"] != zlib.crc32(json.dumps(whole["value"]).encode()):
        raise ValueError(f"{path} is not whole")
    return whole["value"]


def _require_file(path: Path) -> None:
    """ValueError unless it is a plain file: a pipe or a device might never end."""
    if not path.is_file():
        raise ValueError(f"{path} is no file")


def _file(folder: Path, part: str) -> Path:
    return folder / f"{part}.int32"


def _mapped(folder: Path, part: str, checksum: int) -> np.ndarray:
    """The ids of a part; reads them all once, at some 4 GB a second."""
    _require_file(_file(folder, part))
    ids = np.memmap(_file(folder, part), np.int32, mode="r")
    if zlib.crc32(ids.data) != checksum:
        raise ValueError(f"{part} is not whole")
    return ids.view(np.ndarray)  # a plain array, for all who ask its type


def write(
    folder: Path,
    pieces: Callable[[list[str]], Pieces],
    where: str,
    minimum_count: int,
    vocabulary_size: int | None,
) -> None:
    """Write the texts of `pieces` as a folder of integers, whole or not at all.

    pieces: gets a list for notes, and yields the texts piece by piece
    where: what to name in messages

    Takes the memory of the vocabulary and of a piece. CorpusError where the disk is
    full, and where a part has no words.
    """
    with _beside(folder) as partial:
        notes: list[str] = []
        words, sizes = _number(partial, pieces(notes))
        require_words(sizes, where)
        counts = np.zeros(len(words), np.int64)
        for numbers in _blocks(partial, "train"):
            counts += np.bincount(numbers, minlength=len(words))
        table, vocabulary = order(words, counts, minimum_count, vocabulary_size)
        about = {
            "words": vocabulary.words,
            "counts": vocabulary.counts.tolist(),
            "sums": {part: _renumber(partial, part, table) for part in PARTS},
            "notes": notes,
        }
        _put(partial / ABOUT, about)


def _number(folder: Path, pieces: Pieces) -> tuple[list[str], dict[str, int]]:
    """Write first numbers; returns (the words in that order, how many in each part)."""
    numbering, sizes = Numbering(), dict.fromkeys(PARTS, 0)
    with contextlib.ExitStack() as stack:
        files = {
            part: stack.enter_context(open(_file(folder, part), "wb")) for part in PARTS
        }
        for part, words in pieces:
            files[part].write(numbering(words).data)
            sizes[part] += len(words)
    return numbering.words, sizes


def _blocks(folder: Path, part: str) -> Iterator[np.ndarray]:
    with open(_file(folder, part), "rb") as file:
        while (block := np.fromfile(file, np.int32, BLOCK)).size:
            yield block


def _renumber(folder: Path, part: str, table: np.ndarray) -> int:
    """First numbers become ids, in place; their checksum."""
    checksum = 0
    with open(_file(folder, part), "r+b") as file:
        while (block := np.fromfile(file, np.int32, BLOCK)).size:
            file.seek(-block.nbytes, os.SEEK_CUR)
            ids = table[block].data
            file.write(ids)
            checksum = zlib.crc32(ids, checksum)
    return checksum


@contextlib.contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A new folder that is renamed to `folder` when the body has gone well.

    CorpusError where that cannot be written; then nothing is left.
    """
    partial = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        if read(folder, "") is None:  # damaged; else another process was faster
            shutil.rmtree(folder, ignore_errors=True)
        partial = folder.parent / f"{PARTIAL}{uuid.uuid4().hex}"
        partial.mkdir()
        yield partial
        try:
            partial.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster
                raise
    except OSError as error:
        remedy = "free some space there, or give another --data-dir"
        raise CorpusError(unwritable(folder, error, remedy)) from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what processes that were killed left there more than a day ago."""
    for path in folder.glob(f"{PARTIAL}*"):
        with contextlib.suppress(OSError):  # another process did it
            if time.time() - path.stat().st_mtime > 24 * 60 * 60:
                shutil.rmtree(path)
