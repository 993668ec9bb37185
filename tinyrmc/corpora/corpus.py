"""A text as integers: its words numbered, and the numbers of its three parts.

A reader gives a text as pieces, `(part, words)`. One pass numbers every word by its
first appearance; the training text is then counted, and a table turns those first
numbers into ids by falling count. So a text is read and cut into words once.
"""

from __future__ import annotations

import dataclasses
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from ..errors import UserError

EOS, UNK = "<eos>", "<unk>"
PARTS = ("train", "validation", "test")

Pieces = Iterable[tuple[str, list[str]]]


class CorpusError(UserError):
    """A text, or an archive of one, cannot be read or used."""


class MissingCorpus(CorpusError):
    """A text is not there; the message has the command that gets it.

    missing: where it is there in part, which of its files are not.
    """

    def __init__(self, message: str, missing: str = ""):
        super().__init__(message)
        self.missing = missing


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The words of a text; a word's id is its place in `words`.

    words: by falling count in the training text, ties by first appearance
    counts: (V,) int64, how often each is in the training text
    """

    words: list[str]
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        """{word: its id}."""
        return {word: k for k, word in enumerate(self.words)}

    @property
    def eos(self) -> int | None:
        """The id of <eos>, the end of a line or paragraph; None where there is none."""
        return self.ids.get(EOS)

    @property
    def unk(self) -> int | None:
        """The id of <unk>, which stands for all other words; None without it."""
        return self.ids.get(UNK)

    def encode(
        self, text: str | Iterable[str], unknown: Literal["error", "unk"] = "error"
    ) -> np.ndarray:
        """The ids of a text, cut as `cut` does it, or of words: (T,) int32. A letter
        and its accent may be one character or two.

        CorpusError for a word that is unknown, unless `unknown` is "unk" and there is
        an <unk> to stand for it.
        """
        words = cut(text) if isinstance(text, str) else list(text)
        other = self.unk if unknown == "unk" else None
        found = [self.ids.get(word) for word in words]
        for k, word in enumerate(words):
            if found[k] is None:
                forms = (unicodedata.normalize(form, word) for form in ("NFC", "NFD"))
                found[k] = next((self.ids[x] for x in forms if x in self.ids), other)
        if None in found:
            word = words[found.index(None)]
            raise CorpusError(
                f"{word!r} is not one of the vocabulary's {len(self):,} words; use "
                f"words of the training text{'' if self.unk is None else ', or <unk>'}"
            )
        return np.array(found, np.int32)

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The words with these ids."""
        return [self.words[int(k)] for k in ids]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A text of three parts, ready for a model.

    texts: {"train", "validation", "test": (tokens,) int32 ids}; read-only and
        memory-mapped where they come from the cache
    notes: what you should know about this copy of the text, a sentence each
    folder: where its integers are kept; None: nowhere
    unit: what its tokens are: what stands between "spaces", or as `own` has it
    """

    name: str
    texts: Mapping[str, np.ndarray]
    vocabulary: Vocabulary
    notes: tuple[str, ...] = ()
    folder: Path | None = None
    unit: str = "spaces"

    @cached_property
    def checksum(self) -> int:
        """A checksum of words and texts: by this a run knows what it learnt from."""
        texts = (self.texts[part] for part in PARTS)
        return checksum(self.vocabulary.words, texts)


def checksum(words: Iterable[str], arrays: Iterable[np.ndarray]) -> int:
    """The checksum of a vocabulary and of texts as integers, at some GB a second."""
    found = zlib.crc32("\n".join(words).encode())
    for array in arrays:
        found = zlib.crc32(np.ascontiguousarray(array).data, found)
    return found


def require_same(
    kept: int | None, own: int, remedy: str = "say with --data-dir where those are"
) -> None:
    """CorpusError unless a run has kept this checksum, or none."""
    if kept not in (None, own):
        raise CorpusError(
            f"the data here are not those that the run learnt from; {remedy}, or begin "
            "a new run"
        )


def from_texts(
    *,
    train: str,
    validation: str,
    test: str,
    name: str = "text",
    vocabulary_size: int | None = None,
    minimum_count: int = 1,
) -> Corpus:
    """A corpus made of three strings, in memory, cut into words as `cut` does it.

    vocabulary_size: as for `load`
    minimum_count: words seen fewer times in the training text become <unk> too

    CorpusError for a text without words.
    """
    numbering = Numbering()
    texts = {"train": train, "validation": validation}
    arrays = {part: numbering(cut(x)) for part, x in (texts | {"test": test}).items()}
    require_words({part: array.size for part, array in arrays.items()}, name)
    counts = np.bincount(arrays["train"], minlength=len(numbering))
    table, words = order([*numbering], counts, minimum_count, vocabulary_size)
    return Corpus(name, {part: table[array] for part, array in arrays.items()}, words)


def cut(text: str) -> list[str]:
    r"""The words between spaces, with <eos> for each line end: \n, \r\n or \r."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\n", f" {EOS} ").split()


class Numbering(dict[str, int]):
    """{word: its number, by first appearance}: 0, the next new one 1, and so on."""

    def __missing__(self, word: str) -> int:
        return self.setdefault(word, len(self))

    def __call__(self, words: Sequence[str]) -> np.ndarray:
        """The numbers of these words: (len(words),) int32."""
        return np.fromiter(map(self.__getitem__, words), np.int32, len(words))


def order(
    words: Sequence[str],
    counts: np.ndarray,
    minimum_count: int = 1,
    vocabulary_size: int | None = None,
) -> tuple[np.ndarray, Vocabulary]:
    """(table, vocabulary): the id of each word, from counts in the training text.

    words, counts: all words by first appearance, and how often the training text has
        each
    table: (len(words),) int32; words that are left out have the id of <unk>

    <eos> always stays, and <unk> has the count of all that it stands for. If the text
    has no <unk>, one is added only if some word needs it.
    """
    if vocabulary_size is not None and vocabulary_size < 2:
        raise CorpusError(
            f"the size of a vocabulary must be at least 2, a word and <unk> for all "
            f"others, not {vocabulary_size}"
        )
    seen = dict(zip(words, counts.tolist(), strict=True))
    least = max(minimum_count, 1)
    names = [w for w, n in seen.items() if n >= (1 if w == EOS else least) and w != UNK]
    names.sort(key=lambda word: (word != EOS, -seen[word]))
    with_unk = UNK in seen or len(names) < len(seen)
    if vocabulary_size is not None and len(names) + with_unk > vocabulary_size:
        del names[vocabulary_size - 1 :]
    kept = {word: seen[word] for word in names}
    if UNK in seen or len(kept) < len(seen):
        kept[UNK] = sum(seen.values()) - sum(kept.values())
    known = (word for word in {**seen, UNK: 0} if word in kept)
    ranked = sorted(known, key=lambda word: -kept[word])
    ids = {word: k for k, word in enumerate(ranked)}
    table = np.array([ids.get(word, ids.get(UNK)) for word in words], np.int32)
    return table, Vocabulary(ranked, np.array([kept[w] for w in ranked], np.int64))


def require_words(sizes: Mapping[str, int], where: str) -> None:
    """CorpusError if a part has no words."""
    for part in PARTS:
        if not sizes[part]:
            raise CorpusError(f"the {part} text of {where} is empty; it needs words")
