"""A text of your own: a file, cut into words or characters, and into three parts.

    corpus = corpora.own("diary.txt")          # nine tenths to learn from
    corpus = corpora.own("diary.txt", (0.8, 0.1), "characters")

A line ends in <eos>. What comes just once in the training part becomes <unk>, so that a
network learns what to expect of words that it has never seen.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from . import cache
from .corpus import EOS, PARTS, UNK, Corpus, CorpusError, Pieces, cut
from .files import BLOCK, Text, decoded
from .words import UNSPACED, plain, words_in

Unit = Literal["words", "spaces", "characters"]
MINIMUM_COUNT = 2
SEEN = 1 << 20  # bytes by which `unit_of` judges a file

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*|[^\w\s]|\n")


def own(
    path: str | Path,
    split: tuple[float, float] = (0.9, 0.05),
    unit: Unit | None = None,
    vocabulary_size: int | None = None,
) -> Corpus:
    """The text of a file in UTF-8, also gzipped, as a corpus that is memory-mapped.

    split: the shares of it that are for training and, after those, for validation; the
        rest is for testing. Each begins where a line or a word does
    unit: "words" are letters and digits, also with ' and - inside, or one other mark;
        "spaces": what stands between spaces, for texts that are cut into words already;
        "characters". None: characters if the text has hardly a space, else words
    vocabulary_size: as for `load`

    The integers are kept as those of other corpora are. CorpusError for what is no
    text, and where a part has no words.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise CorpusError(f"{path} is a folder; name a text file in it")
    if not path.is_file():
        raise CorpusError(
            f"there is no text {path}; give its path, or its folder with --data-dir"
        )
    with Text(path).open() as (file, _):
        found = unit or unit_of(file.read(SEEN).decode(errors="replace"))
    if found not in get_args(Unit):
        raise CorpusError(f"{found!r} is none of {', '.join(get_args(Unit))}")
    settings = [MINIMUM_COUNT, vocabulary_size, found, list(split)]
    folder = cache.place("own", settings, path, [path])
    if (corpus := cache.read(folder, path.name)) is None:
        where = f"{path} (split {split[0]:g} {split[1]:g})"
        sizes = MINIMUM_COUNT, vocabulary_size, path
        cache.write(folder, lambda _: _pieces(path, split, found), where, *sizes)
        corpus = cache.read(folder, path.name)
    if corpus is None:
        raise CorpusError(
            f"{path} changed while it was read, or what was kept of it was deleted; "
            "try again"
        )
    if {*corpus.vocabulary.words} <= {EOS, UNK}:
        raise CorpusError(
            f"no word comes twice in the training part of {path}; give a longer text"
        )
    notes = corpus.notes
    if unit is None and found == "characters":
        notes += (f"{path.name} has hardly a space, so its tokens are characters",)
    return dataclasses.replace(corpus, unit=found, notes=notes)


def unit_of(text: str) -> Unit:
    """The best kind of tokens for a text, by the length of what stands between spaces:
    six characters in English, two in Chinese that is cut into words, a line in other
    Chinese.
    """
    pieces = text.split()
    letters = sum(map(len, pieces))
    unspaced = 2 * len(re.findall(UNSPACED, text)) > letters
    long = letters > len(pieces) * (4 if unspaced else 40)
    return "characters" if long else "words"


def tokens_of(text: str, unit: str) -> list[str]:
    """The tokens of a text, <eos> for each line end."""
    if unit == "spaces":
        return cut(text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    tokens = [*plain(text)] if unit == "characters" else words_in(text, _WORD)
    return [EOS if token == "\n" else token for token in tokens]


def _pieces(path: Path, split: tuple[float, float], unit: str) -> Pieces:
    """(part, tokens), some at a time."""
    with Text(path).open() as (file, title):
        text = decoded(file.read(), title)
    if not text.strip():
        raise CorpusError(f"{path} has no words in it")
    ends = [_boundary(text, share) for share in (split[0], sum(split))]
    bounds = zip([0, *ends], [*ends, len(text)], strict=True)
    for part, (start, end) in zip(PARTS, bounds, strict=True):
        for piece in _blocks(text[start:end]):
            yield part, tokens_of(piece, unit)


def _boundary(text: str, share: float) -> int:
    """The place where about this share of a text ends: after a line, else a word."""
    place = round(len(text) * share)
    near = place + len(text) // 100
    return text.find("\n", place, near) + 1 or text.find(" ", place, near) + 1 or place


def _blocks(text: str) -> Iterator[str]:
    """The text in pieces that end where a line or a word does, if one does."""
    start = 0
    while start < len(text):
        stop = start + BLOCK
        if stop < len(text):
            ends = text.rfind("\n", start, stop), text.rfind(" ", start, stop)
            stop = max(ends) + 1 or stop
        yield text[start:stop]
        start = stop
