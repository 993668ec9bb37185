"""The corpora, as far as they are known: `known.toml` has what their files are called,
where they come from, and their checksums.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SHORT = {"train": "train", "validation": "valid", "test": "test"}  # in file names
WHOLE = ""  # the part of a text whose parts are made here


@dataclasses.dataclass(frozen=True)
class Archive:
    """An official archive: name, checksum where known, and its addresses.

    Only one with a checksum, `kind:digits` as pooch wants it, is downloaded.
    """

    file: str
    hash: str | None = None
    urls: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Known:
    """A corpus, as far as it is known."""

    title: str
    rule: str  # how its text is cut into words and parts, said to the user
    remedy: str = ""  # what to do where nothing can be downloaded
    # paths below the data directory where its files may be, with {} for train, valid
    # and test; the first is the path inside the official archive
    layouts: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()  # what the file name of an archive may look like
    archives: tuple[Archive, ...] = ()  # those with published checksums
    # of the official text of each part; then the published counts, with <eos> where
    # the corpus has it
    hashes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tokens: Mapping[str, int] = dataclasses.field(default_factory=dict)
    vocabulary: int | None = None
    minimum_count: int = 1  # rarer words of the training text become <unk>


# A book of Project Gutenberg for each part: Pride and Prejudice, Crime and Punishment,
# Adventures of Huckleberry Finn.
BOOKS = {"train": 1342, "validation": 2554, "test": 76}


def _made(kind: type, table: Mapping[str, Any]) -> Any:
    """A Known or an Archive of a table of TOML, whose arrays become tuples."""
    lists = {name: x for name, x in table.items() if isinstance(x, list)}
    return kind(**{**table, **{name: tuple(x) for name, x in lists.items()}})


_tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
for _table in _tables.values():
    _table["archives"] = [_made(Archive, x) for x in _table.get("archives", ())]

BABI_SITE = "http://www.thespermwhale.com/jaseweston/babi/"
BABI = _tables.pop("babi")
BABI_ARCHIVES: dict[str, list[Archive]] = {"v1.2": BABI["archives"], "v1.1": []}
CORPORA: dict[str, Known] = {name: _made(Known, x) for name, x in _tables.items()}
