"""A corpus as a folder of integers that is memory-mapped.

    <data directory>/tinyrmc-cache/ptb-<key>/
        train.int32  validation.int32  test.int32      ids, nothing else
        corpus.json                                    words, counts, sizes, notes
        <name>.json                                    what was counted (see `kept`)

The key stands for the sizes and dates of the source files and for all settings: other
files, or other settings, have another folder. A folder is written beside and renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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

VERSION = 1
ABOUT = "corpus.json"
PARTIAL = ".partial-"
BLOCK = 1 << 22  # ids that are counted or renumbered at once: 16 MiB


def key(settings: Any, paths: Sequence[Path]) -> str:
    """What tells one cached text from another."""
    stamps = [[p.name, p.stat().st_size, p.stat().st_mtime_ns] for p in paths]
    said = json.dumps([VERSION, settings, stamps])
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def read(folder: Path, name: str) -> Corpus | None:
    """The corpus that `write` put there, memory-mapped; None if it is not whole."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        texts = {part: _mapped(folder, part, about["sizes"][part]) for part in PARTS}
        counts = np.array(about["counts"], np.int64)
        vocabulary = Vocabulary(about["words"], counts)
        return Corpus(name, texts, vocabulary, tuple(about["notes"]), folder)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def kept(corpus: Corpus, name: str, compute: Callable[[], Any]) -> Any:
    """What `compute` gives, kept as a JSON file of this name beside the integers.

    name: give it a number that changes whenever `compute` would give something else

    Of a corpus that is nowhere kept, or where one may not write, it is computed each
    time.
    """
    if corpus.folder is None:
        return compute()
    path = corpus.folder / f"{name}.json"
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    value = compute()
    partial = path.with_name(f"{PARTIAL}{uuid.uuid4().hex}")
    try:
        with contextlib.suppress(OSError):
            partial.write_text(json.dumps(value), encoding="utf-8")
            partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    return value


def _file(folder: Path, part: str) -> Path:
    return folder / f"{part}.int32"


def _mapped(folder: Path, part: str, size: int) -> np.ndarray:
    ids = np.memmap(_file(folder, part), np.int32, mode="r")
    if ids.size != size:
        raise ValueError(f"{part} is not whole")
    return ids.view(np.ndarray)  # a plain array to all who ask for its type


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
        for part in PARTS:
            _renumber(partial, part, table)
        about = {
            "words": vocabulary.words,
            "counts": vocabulary.counts.tolist(),
            "sizes": sizes,
            "notes": notes,
        }
        (partial / ABOUT).write_text(json.dumps(about), encoding="utf-8")


def _number(folder: Path, pieces: Pieces) -> tuple[list[str], dict[str, int]]:
    """Write first numbers; (the words in that order, how many of each part)."""
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


def _renumber(folder: Path, part: str, table: np.ndarray) -> None:
    """First numbers become ids, in place."""
    with open(_file(folder, part), "r+b") as file:
        while (block := np.fromfile(file, np.int32, BLOCK)).size:
            file.seek(-block.nbytes, os.SEEK_CUR)
            file.write(table[block].data)


@contextlib.contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A new folder that is renamed to `folder` when the body has gone well.

    CorpusError where that cannot be written; then nothing is left.
    """
    partial = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        shutil.rmtree(folder, ignore_errors=True)  # damaged, or it would be used
        partial = folder.parent / f"{PARTIAL}{uuid.uuid4().hex}"
        partial.mkdir()
        yield partial
        try:
            partial.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster
                raise
    except OSError as error:
        raise CorpusError(
            f"cannot write {folder}: {error.strerror}; free some space there, or give "
            "another --data-dir"
        ) from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what processes that were killed left there more than a day ago."""
    for path in folder.glob(f"{PARTIAL}*"):
        with contextlib.suppress(OSError):  # another process did it
            if time.time() - path.stat().st_mtime > 24 * 60 * 60:
                shutil.rmtree(path)
