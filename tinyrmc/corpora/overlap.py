"""How much of what a model is tested with stands in the text that it learns from.

A passage is eight words in a row, or 32 characters, without capitals and punctuation.
Of long texts a sample is compared, chosen by the passages themselves.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from .corpus import EOS
from .words import FACTOR, FEW, MOST, SHARED, SHINGLE, in_a_row

BLOCK = 1 << 20  # tokens that are compared at once
SAMPLE = 1 << 19  # tokens from which on a sample is compared
LETTERS = 32  # characters in a row that hardly two authors write


def repeated(
    paths: Mapping[str, Path], words: Sequence[str], counts: np.ndarray
) -> Iterator[str]:
    """A note for each part of which much stands in the train text: more than SHARED of
    the passages, or more than MOST of the lines, as far as a passage reaches.

    paths: the file of each part's tokens, int32 places in `words`
    counts: how often the train text has each word
    """
    named = np.array([any(map(str.isalnum, word)) for word in words])
    if 2 * counts[named].sum() < counts.sum():  # signs are what it is made of
        named[:] = True
    keys = [zlib.crc32(word.casefold().encode()) | 1 << 32 for word in words]
    ends = np.array([word == EOS for word in words])
    table = np.array(keys, np.uint64) * (named & ~ends)
    numbers = np.array([word.isdecimal() for word in words])
    long = any(len(word) > 1 for word in words if word != EOS)
    size = SHINGLE if long else LETTERS
    step = 1 + sum(path.stat().st_size // 4 for path in paths.values()) // SAMPLE
    learnt: list[np.ndarray] = []
    for part, path in paths.items():
        found: list[list[np.ndarray]] = [[], []]
        for start in range(0, path.stat().st_size // 4, BLOCK):
            # the next block has the last of these too
            count = BLOCK + 4 * size
            block = np.fromfile(path, np.int32, count, offset=4 * start)
            told = _passages(block, table, ends, numbers, size)
            for kept, each in zip(found, told, strict=True):
                kept.append(each[each % np.uint64(step) == 0])
        unique = [np.unique(np.concatenate(x)) for x in found]
        if part == "train":
            learnt = unique
            continue
        passages, lines = (
            np.isin(x, y, assume_unique=True).mean() if len(x) >= FEW else 0
            for x, y in zip(unique, learnt, strict=True)
        )
        if passages > SHARED or lines > MOST:
            most = max(passages, lines) > MOST
            share = "most sentences" if most else f"{passages:.0%} of the passages"
            yield f"{share} of the {part} text stand in the train text"


def _passages(
    ids: np.ndarray,
    table: np.ndarray,
    ends: np.ndarray,
    numbers: np.ndarray,
    size: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(a number for each passage of a text, and for each line's first `size` words).

    table: the number of each word, 0 for one that is left out; `numbers` are so at the
        beginning of lines if most lines begin with one
    """
    line = np.cumsum(ends[ids])
    heard = table[ids] != 0
    ids, line = ids[heard], line[heard]
    first = np.diff(line, prepend=-1) > 0
    if 2 * numbers[ids[first]].sum() > first.sum():
        bare = ~(first & numbers[ids])
        ids, line = ids[bare], line[bare]
    words = table[ids]
    if len(words) < size:
        return words[:0], words[:0]
    powers = np.array([pow(FACTOR, k, 1 << 64) for k in range(size)], np.uint64)
    begins = np.flatnonzero(np.diff(line[: 1 - size])) + 1
    places = begins[:, None] + np.arange(size)
    inside = line[places] == line[begins, None]
    lines = (words[places] * inside * powers).sum(1)[2 * inside.sum(1) >= size]
    return in_a_row(words, size), lines ^ lines >> np.uint64(31)
