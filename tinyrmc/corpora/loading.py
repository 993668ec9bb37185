"""A corpus by its name: found below the data directory, downloaded, read from its files
or from an archive of them, or mapped from the cache.

Only `download` reaches for the network.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import counted, listed, nearest, unwritable
from . import cache
from .corpus import PARTS, Corpus, CorpusError, MissingCorpus, Pieces, cut
from .files import Text, data_files, named_like, original, readable, strings
from .known import BABI_ARCHIVES, BOOKS, CORPORA, SHORT, WHOLE
from .words import FEW, MOST, SHINGLE, book, essence, newswire, prose, shingles

GIGAWORD = ("gigaword", "gigaword_eng_5", "LDC2011T07")  # what its folder may be called
SECONDS = 30  # without a byte, until a server counts as gone


def load(
    name: str, data_dir: str | Path | None = None, vocabulary_size: int | None = None
) -> Corpus:
    """The corpus of this name, memory-mapped. The first time, its text is read.

    data_dir: where its files or an archive of it are; None: $TINYRMC_DATA, else
        tinyrmc's folder among the user's caches
    vocabulary_size: at most this many words, <eos> and <unk> among them; the rarest
        become <unk>. None: all

    The integers are kept among the user's caches, or in $TINYRMC_CACHE. MissingCorpus,
    with the command that gets it, if it is not there; CorpusError if it cannot be read.
    """
    corpus = cached(name, data_dir, vocabulary_size)
    if corpus is None:
        found = find(name, data_dir)
        cache.write(
            _place(name, found, vocabulary_size),
            lambda notes: _pieces(name, found, notes),
            f"{name} ({found.place})",
            CORPORA[name].minimum_count,
            vocabulary_size,
            found.place,
        )
        corpus = cached(name, data_dir, vocabulary_size)
    if corpus is None:
        raise CorpusError(
            f"the files of {name} changed while they were read, or what was kept of "
            "them was deleted; try again"
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
    paths = dict.fromkeys(text.path for _, text in found.texts)  # each once
    return cache.place(name, settings, found.place, [*paths])


# --- Where a corpus lies --------------------------------------------------------------


def data_directory(data_dir: str | Path | None = None) -> Path:
    """`data_dir`, else $TINYRMC_DATA, else tinyrmc's folder among the user's caches.
    CorpusError if that is a file.
    """
    chosen = data_dir or os.environ.get("TINYRMC_DATA")
    folder = Path(chosen).expanduser() if chosen else cache.user_directory()
    if folder.is_file():
        raise CorpusError(f"{folder} is a file; give the folder that it is in")
    return folder


@dataclasses.dataclass(frozen=True)
class Found:
    """The place of a corpus."""

    place: Path  # the folder or archive, for messages
    # (part, text), in order; the part is WHOLE where parts are made from a text
    texts: list[tuple[str, Text]]
    notes: tuple[str, ...] = ()  # what the user should know about them


def require_known(name: str) -> None:
    """CorpusError unless there is a corpus of this name."""
    if name not in CORPORA:
        raise CorpusError(
            f"there is no corpus {name!r} (corpora: {', '.join(CORPORA)})"
            f"{nearest(name, CORPORA)}"
        )


def find(name: str, data_dir: str | Path | None = None) -> Found:
    """The place of a corpus, unpacked or else an archive; MissingCorpus without one."""
    folder = data_directory(data_dir)
    if name == "gutenberg":
        found = _books_of(folder)
    elif name == "gigaword":
        found = _newswire_of(folder)
    else:
        found = _official_in(name, folder, data_dir)
    if found is None:
        raise MissingCorpus(f"{name} is not in {folder}; {remedy(name, data_dir)}")
    return found


def remedy(name: str, data_dir: str | Path | None = None) -> str:
    """The way to get a corpus: a command, or what to do."""
    if CORPORA[name].remedy:
        return CORPORA[name].remedy.format(folder=data_directory(data_dir) / name)
    return f"get it with: {command(name, data_dir)}"


def command(name: str, data_dir: str | Path | None = None) -> str:
    """The command that gets a corpus and reads it."""
    where = "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"
    return f"python -m tinyrmc data {name}{where}"


def _official_in(name: str, folder: Path, data_dir: str | Path | None) -> Found | None:
    known = CORPORA[name]
    missing = ""
    for layout in known.layouts:
        roots = [folder, folder / "data"]
        if PurePosixPath(layout).parent.name == folder.absolute().name:
            roots.append(folder.absolute().parent)  # the folder that the layout names
        for root in roots:
            paths = {part: root / path for part, path in _layout(layout).items()}
            there = {
                part: found[0]
                for part, path in paths.items()
                if (found := named_like(path.name, path.parent))
            }
            if len(there) == len(paths):
                texts = [(part, Text(path)) for part, path in there.items()]
                return Found(texts[0][1].path.parent, texts)
            if there and not missing:
                lacks = [path for part, path in paths.items() if part not in there]
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


def archives_in(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """The files that match a pattern in `folder` and in its folder `data`."""
    for root in (folder, folder / "data"):
        for pattern in patterns:
            yield from named_like(pattern, root)


def part_of(name: str, training: int, validation: int) -> str:
    """The part into which a text of this name falls, whatever other texts there are:
    the name's SHA-256 modulo 100 is below `training`, in the next `validation`, or not.
    """
    k = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 100
    return PARTS[(k >= training) + (k >= training + validation)]


# a book's file: its name, then an ending; and a name with Project Gutenberg's number
_BOOK = re.compile(r"(.+?)\.txt(?:\.utf-?8)?", re.I)
_NUMBER = re.compile(r"(?:pg)?(\d+)(?:-\d)?(?:-images)?(?:\.txt(?:\.utf-?8)?)?", re.I)


def _books_of(folder: Path) -> Found | None:
    """A folder of Project Gutenberg's .txt files, each in its part."""
    place = next(folders_called(folder, ["gutenberg"]), None)
    # a book: 1342 for pg1342.txt, 1342-0.txt and 1342-8.txt; else its file's name
    variants: dict[str, list[tuple[bool, bool, bool, Path]]] = {}
    for path in data_files(place) if place else ():
        if ending := _BOOK.fullmatch(path.name):
            name = ending[1]
            number = _NUMBER.fullmatch(original(name))
            title = number[1] if number else os.path.relpath(path.parent / name, place)
            # a book before its copies, UTF-8 before its other encodings
            copied = original(name) != name
            rank = copied, name.endswith("-8"), not name.endswith("-0"), path
            variants.setdefault(title, []).append(rank)
    if not (place and variants):
        return None
    notes = _without_copies(variants, {k: min(x)[-1] for k, x in variants.items()})
    split: dict[str, list[tuple[str, Text]]] = {part: [] for part in PARTS}
    for title in sorted(variants, key=lambda title: (len(title), title)):
        part = part_of(title, training=80, validation=10)
        split[part].append((part, Text(min(variants[title])[-1])))
    if empty := [part for part, texts in split.items() if not texts]:
        advice = ", ".join(f"{BOOKS[part]} ({part})" for part in empty)
        raise CorpusError(
            f"none of the books in {place} ({len(variants)} in all) is for "
            f"{' or '.join(empty)}: a book's number decides its part, and each part "
            f"needs one; add others, such as {advice}"
        )
    others = [path.name for x in variants.values() for *_, path in sorted(x)[1:]]
    said = f"other files of the same books, and left out: {listed(others)}"
    texts = [text for part in PARTS for text in split[part]]
    return Found(place, texts, (*notes, said) if others else notes)


def _newswire_of(folder: Path) -> Found | None:
    """A folder of the LDC's .gz files, or else of .txt files."""
    place = next(folders_called(folder, GIGAWORD), None)
    named = ""
    if place is None:
        place, named = folder, "_eng_"  # among other files
    files = [path for path in data_files(place) if named in path.name.lower()]
    paths = [path for path in files if path.suffix.lower() == ".gz"]
    if not (paths or named):
        paths = [path for path in files if path.suffix.lower() == ".txt"]
    titles = {str(path.with_suffix("")): path for path in sorted(paths)}
    notes = _without_copies(titles, titles.copy())
    texts = [(WHOLE, Text(path)) for path in titles.values()]
    return Found(place, texts, notes) if texts else None


def _without_copies(
    titles: dict[str, Any], paths: Mapping[str, Path]
) -> tuple[str, ...]:
    """Take out what is called a copy of another title beside it; returns a note."""
    copies = []
    for title in paths:
        folder, name = os.path.split(title)
        if original(name) != name and os.path.join(folder, original(name)) in paths:
            copies.append(paths[title].name)
            del titles[title]
    return (f"called copies, and left out: {listed(copies)}",) if copies else ()


def folders_called(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """`folder` itself, and the folders in it and in its `data`, if called so, in small
    letters or capitals; those that are called just so come first.
    """
    like = [name.lower() for name in names]
    if folder.absolute().name.lower() in like:
        yield folder
    for root in filter(Path.is_dir, (folder, folder / "data")):
        with readable(root):
            inside = [path for path in root.iterdir() if path.name.lower() in like]
        inside.sort(
            key=lambda path: (like.index(path.name.lower()), path.name not in names)
        )
        yield from filter(Path.is_dir, inside)


# --- Words, piece by piece ------------------------------------------------------------


def _pieces(name: str, found: Found, notes: list[str]) -> Pieces:
    notes += found.notes
    texts = found.texts
    if name in ("gutenberg", "gigaword"):
        texts = _originals(texts, notes)
    doubtful: dict[str, list[str]] = {}  # books of which little is left, and others
    seen: set[int] = set()  # of newswire, some 80 bytes a document
    again = 0
    for part, text in texts:
        with text.open() as (file, title):
            if name not in ("gutenberg", "gigaword"):
                yield from _official(name, part, file, title, notes)
                continue
            if text.path.suffix.lower() == ".gz":
                for story, words in newswire(file.read(), title):
                    if len(words.split()) >= 2 * SHINGLE:  # no notice of a few words
                        before = len(seen)
                        seen.add(int.from_bytes(essence(words)[:8]))
                        if len(seen) == before:
                            again += 1
                            continue
                    yield part_of(story, training=98, validation=1), cut(prose(words))
                continue
            words, doubt = book(file.read(), title)
            if name == "gigaword":
                part = part_of(text.path.stem, training=98, validation=1)
                doubt = ""
            if doubt:
                doubtful.setdefault(doubt, []).append(text.path.name)
            yield part, cut(prose(words))
    notes += [f"{doubt}: {', '.join(names)}" for doubt, names in doubtful.items()]
    if again:
        documents = counted(again, "document")
        notes.append(f"the same text as an earlier one, and left out: {documents}")


def _originals(
    texts: Sequence[tuple[str, Text]], notes: list[str]
) -> list[tuple[str, Text]]:
    """The texts, each content once: that of the smallest number, else of the shortest
    name. The others are named in a note, and so are books of which more than half of
    the passages, of eight words, are in another, such as edited copies. Reads all: half
    of the time of a corpus.
    """

    def rank(text: Text) -> tuple[bool, int, int, Path]:
        number = _NUMBER.fullmatch(text.path.stem)
        name = text.path.name
        return not number, int(number[1]) if number else 0, len(name), text.path

    first: dict[bytes, Text] = {}
    copies: dict[Text, str] = {}
    found: dict[int, Text] = {}  # by passage, the first that has it
    sizes: dict[Text, int] = {}
    size = sum(text.path.stat().st_size for _, text in texts)
    for text in sorted((text for _, text in texts), key=rank):
        with text.open() as (file, title):
            data = file.read()
        if text.path.suffix.lower() == ".gz":
            letters = data.translate(None, b" \t\r\n")
            digest = hashlib.sha256(letters).digest() if letters else b""
        else:
            inside = book(data, title)[0]
            digest = essence(inside)
            numbers = shingles(inside, size).tolist()
            sizes[text] = len(numbers)
            shared = Counter(found[number] for number in numbers if number in found)
            for like, count in shared.most_common(1):
                least = min(sizes[text], sizes[like])
                if least >= FEW and count > MOST * least:
                    digest = b""
                    copies[text] = f"{text.path.name} (mostly as {like.path.name})"
            for number in numbers if text not in copies else ():
                found.setdefault(number, text)
        if digest and (like := first.setdefault(digest, text)) != text:
            copies[text] = f"{text.path.name} (as {like.path.name})"
    if copies:
        named = listed([*copies.values()])
        notes.append(f"the same text as another file, and left out: {named}")
    kept = [(part, text) for part, text in texts if text not in copies]
    if gone := {part for part, _ in texts} - {part for part, _ in kept}:
        raise CorpusError(
            f"nothing is left for {' and '.join(sorted(gone))}: {notes[-1]}; add others"
        )
    return kept


def _official(
    name: str, part: str, file: IO[bytes], title: str, notes: list[str]
) -> Pieces:
    """A text of words between spaces. One that is not the published one is noted."""
    kind, _, digits = CORPORA[name].hashes[part].partition(":")
    digest = hashlib.new(kind)
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
            stop = len(data)
            reach = end - start
            if reach <= 0:
                continue
            if reach < stop and (space := data.find(b" ", reach - 1)) >= 0:
                stop = space
            if stop > begin:
                yield part, data[begin:stop].decode().split()
                begin = stop
        start += len(data)


def download(name: str, data_dir: str | Path | None = None) -> Path:
    """Get the official archive of a corpus into the data directory; returns its path.

    It is written under another name, checked against the recorded checksum, and
    renamed. Addresses are tried in turn. CorpusError if none of them has it.
    """
    if name == "babi":
        archives = tuple(BABI_ARCHIVES["v1.2"])
    else:
        require_known(name)
        archives = CORPORA[name].archives
    if not archives:
        raise CorpusError(f"{name} has no archive; {remedy(name, data_dir)}")
    import pooch

    folder = data_directory(data_dir)
    failed = []
    new = not folder.exists()
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
            said = "no connection, or it was cut"
            if (response := getattr(error, "response", None)) is not None:
                said = f"{response.status_code} {response.reason}"
            failed.append(f"{url} ({said})")
    if new:
        with contextlib.suppress(OSError):  # something came after all
            folder.rmdir()
    raise CorpusError(
        f"cannot download {name} from {', nor from '.join(failed)}; try again, or "
        f"fetch {archives[0].file} by other means into {folder}"
    )
