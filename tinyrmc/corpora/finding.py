"""Where a corpus lies: its files, or an archive of it, below the data directory."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ..errors import nearest
from .cache import user_directory
from .corpus import PARTS, CorpusError, DamagedCorpus, MissingCorpus
from .files import Text, readable
from .known import CORPORA, SHORT, WHOLE, Archive, books_for

GIGAWORD = ("gigaword", "gigaword_eng_5", "LDC2011T07")  # what its folder may be called


def data_directory(data_dir: str | Path | None = None) -> Path:
    """`data_dir`, else $TINYRMC_DATA, else tinyrmc's folder among the user's caches.

    CorpusError if that is a file.
    """
    chosen = data_dir or os.environ.get("TINYRMC_DATA")
    folder = Path(chosen).expanduser() if chosen else user_directory()
    if folder.is_file():
        raise CorpusError(
            f"{folder} is a file, and texts are looked for in folders; give the folder "
            "that it is in"
        )
    return folder


@dataclasses.dataclass(frozen=True)
class Found:
    """Where a corpus is.

    place: the folder or archive, for messages
    texts: (part, text), in the order in which they are read; the part is WHOLE where
        parts are made from one text
    notes: what the user should know about them
    """

    place: Path
    texts: list[tuple[str, Text]]
    notes: tuple[str, ...] = ()

    @property
    def paths(self) -> list[Path]:
        """The files on disk, each once."""
        return [*dict.fromkeys(text.path for _, text in self.texts)]


def require_known(name: str) -> None:
    """CorpusError unless there is a corpus of this name."""
    if name not in CORPORA:
        raise CorpusError(
            f"there is no corpus {name!r} (corpora: {', '.join(CORPORA)})"
            f"{nearest(name, CORPORA)}"
        )


def find(name: str, data_dir: str | Path | None = None) -> Found:
    """Where a corpus is: unpacked, else in an archive. MissingCorpus if it is not."""
    folder = data_directory(data_dir)
    if name == "gutenberg":
        found = _books(folder)
    elif name == "gigaword":
        found = _newswire(folder)
    else:
        found = _official(name, folder, data_dir)
    if found is None:
        raise MissingCorpus(f"{name} is not in {folder}; {remedy(name, data_dir)}")
    return found


def remedy(name: str, data_dir: str | Path | None = None) -> str:
    """How to get a corpus: a command, or what to do."""
    if CORPORA[name].remedy:
        return CORPORA[name].remedy.format(folder=data_directory(data_dir) / name)
    return f"get it with: {command(name, data_dir)}"


def command(name: str, data_dir: str | Path | None = None) -> str:
    """The command that gets a corpus and reads it."""
    where = "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"
    return f"python -m tinyrmc data {name}{where}"


def check_archive(path: Path, official: tuple[Archive, ...]) -> None:
    """DamagedCorpus for an archive that was cut short, as far as its size and the
    directory of a zip tell. Its texts have checksums of their own.
    """
    size = path.stat().st_size
    sizes = [archive.size for archive in official if archive.file == path.name]
    if sizes and size not in sizes and None not in sizes:
        raise DamagedCorpus(
            f"{path} is not the official archive: {size:,} bytes, not {sizes[0]:,}; "
            "delete it and fetch it again, or rename it if you made it yourself"
        )
    if path.suffix == ".zip":
        with readable(path), zipfile.ZipFile(path):
            pass


# --- Texts with official files --------------------------------------------------------


def _official(name: str, folder: Path, data_dir: str | Path | None) -> Found | None:
    known, missing = CORPORA[name], ""
    for layout in known.layouts:
        paths = _layout(layout)
        roots = [(folder, paths), (folder / "data", paths)]
        if PurePosixPath(layout).parent.name == folder.absolute().name:
            names = {part: PurePosixPath(path).name for part, path in paths.items()}
            roots.append((folder, names))  # which is the one that the layout means
        for root, paths in roots:
            there = {k: root / x for k, x in paths.items() if (root / x).is_file()}
            if len(there) == len(paths):
                texts = [(part, Text(path)) for part, path in there.items()]
                return Found(texts[0][1].path.parent, texts)
            if there and not missing:
                lacks = [root / x for part, x in paths.items() if part not in there]
                named = " and no ".join(path.name for path in lacks)
                missing = f"{lacks[0].parent} has no {named}"
    if path := next(archives_in(folder, known.patterns), None):
        members = _layout(known.layouts[0])
        return Found(path, [(part, Text(path, x)) for part, x in members.items()])
    if missing:
        raise MissingCorpus(f"{name}: {missing}; {remedy(name, data_dir)}", missing)
    return None


def _layout(layout: str) -> dict[str, str]:
    """{part: its path}, or one path for all."""
    if "{}" not in layout:
        return {WHOLE: layout}
    return {part: layout.format(SHORT[part]) for part in PARTS}


def archives_in(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    """The files that match a pattern in `folder` and in its folder `data`."""
    for root in (folder, folder / "data"):
        for pattern in patterns:
            yield from sorted(path for path in root.glob(pattern) if path.is_file())


# --- Texts of many files --------------------------------------------------------------


def part_of(name: str, training: int, validation: int) -> str:
    """The part into which a text of this name falls, whatever other texts there are.

    The name's SHA-256, as a number, modulo 100: below `training` it is "train", in the
    next `validation` it is "validation", else "test".
    """
    k = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 100
    return PARTS[(k >= training) + (k >= training + validation)]


def _books(folder: Path) -> Found | None:
    """A folder of Project Gutenberg's .txt files, each in its part."""
    place = _first_folder(folder, ("gutenberg",))
    # a book: 1342 for pg1342.txt, 1342-0.txt and 1342-8.txt; else its file's name
    variants: dict[str, list[tuple[bool, bool, Path]]] = {}
    for path in place.rglob("*.txt*") if place else ():
        if path.is_file() and (named := re.search(r"\.txt(\.utf-?8)?$", path.name)):
            name = path.name[: named.start()]
            number = re.fullmatch(r"(?:pg)?(\d+)(?:-\d)?", name)
            # UTF-8 before other encodings of a book
            first = name.endswith("-8"), not name.endswith("-0"), path
            variants.setdefault(number[1] if number else name, []).append(first)
    if not (place and variants):
        return None
    split: dict[str, list[tuple[str, Text]]] = {part: [] for part in PARTS}
    for book in sorted(variants, key=lambda book: (len(book), book)):
        part = part_of(book, training=80, validation=10)
        split[part].append((part, Text(min(variants[book])[-1])))
    if empty := [part for part, texts in split.items() if not texts]:
        raise CorpusError(
            f"none of the books in {place} ({len(variants)} in all) is for "
            f"{' or '.join(empty)}: a book's number decides its part, and each part "
            f"needs one; add others, such as {books_for(empty)}"
        )
    extra = sum(map(len, variants.values())) - len(variants)
    said = f"{extra} files are other encodings of the same books, and left out"
    texts = [text for part in PARTS for text in split[part]]
    return Found(place, texts, (said,) if extra else ())


def _newswire(folder: Path) -> Found | None:
    """A folder of the LDC's .gz files, or else of .txt files."""
    place = _first_folder(folder, GIGAWORD)
    if place is None:
        if next(folder.rglob("*_eng_*.gz"), None) is None:
            return None
        place = folder
    paths = sorted(place.rglob("*.gz")) or sorted(place.rglob("*.txt"))
    texts = [(WHOLE, Text(path)) for path in paths if path.is_file()]
    return Found(place, texts) if texts else None


def _first_folder(folder: Path, names: tuple[str, ...]) -> Path | None:
    itself = [folder] if folder.absolute().name in names else []
    inside = [root / name for root in (folder, folder / "data") for name in names]
    return next((path for path in itself + inside if path.is_dir()), None)
