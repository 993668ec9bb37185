"""Texts for language models, and stories for memory networks.

    python -m tinyrmc data              what is here, what is missing, what to do
    python -m tinyrmc data ptb          get, check and read the Penn Treebank
    python -m tinyrmc data --clear      delete what was kept of texts that were read

A corpus may lie in the data directory as its official archive, or unpacked: archives
are read as they are. What is not there is downloaded, and checked against its recorded
checksum. Then the text is read once, and kept as integers that training maps into
memory: in tinyrmc's folder among your caches, or where TINYRMC_CACHE says. Training
itself downloads nothing, and nothing is written where texts lie but downloads.

Books of Project Gutenberg are .txt files in the folder gutenberg of the data directory.
A book's number decides its part, so another book moves none of the others: of a
hundred, about 80 are for training, 10 for validation and 10 for testing. Three can be
enough, such as 1342 for training, 2554 for validation and 76 for testing.
"""

from __future__ import annotations

import functools
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from .. import corpora
from ..corpora import CORPORA, PARTS, CorpusError, MissingCorpus, cache
from ..corpora.known import BABI_ARCHIVES
from ..corpora.loading import (
    cached,
    command,
    data_directory,
    find,
    remedy,
)
from ..corpora.stories import TASKS, VERSIONS, Babi, babi, how_to_get
from ..errors import UsageError, counted, listed, nearest
from ..results.text import aligned, paragraph, terminal_width
from .commands import Parser, program

NAMES = (*CORPORA, "babi")
TITLES = {name: known.title for name, known in CORPORA.items()}
VARIANTS = [(version, each) for version, all_ in VERSIONS.items() for each in all_]
TITLES["babi"] = "bAbI, twenty kinds of stories with questions"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    listed = "\n".join(f"    {name:14}{title}" for name, title in TITLES.items())
    about = (__doc__ or "").strip()
    parser = Parser(program("data"), f"{about}\n\nCorpora:\n\n{listed}")
    add = parser.add_argument
    says = "which to get, check and read"
    add("corpora", nargs="*", metavar="[CORPUS ...]", help=says)
    says = "where texts are, and downloads go; without it, the folder that "
    says += "TINYRMC_DATA names, else tinyrmc's folder among your caches"
    add("--data-dir", type=Path, metavar="FOLDER", help=says)
    says = "delete the integers that are kept, with --data-dir those of the texts "
    says += "there; not the texts: they are read anew"
    add("--clear", action="store_true", help=says)
    options = parser.parse_args(argv)
    if options.clear:
        if options.corpora:
            raise UsageError("--clear deletes what is kept of all texts; name none")
        count, size = cache.clear(options.data_dir)
        told = f"deleted {counted(count, 'folder')} of integers, {size / 1e6:,.1f} MB"
        print(f"{told}, in {cache.user_directory() / 'texts'}")
        return 0
    for name in options.corpora:
        if name not in NAMES:
            raise UsageError(
                f"there is no corpus {name!r} (corpora: {', '.join(NAMES)})"
                f"{nearest(name, NAMES)}"
            )
    if not options.corpora:
        _list(options.data_dir)
    for k, name in enumerate(options.corpora):
        print(end="\n" if k else "")
        get = _get_babi if name == "babi" else functools.partial(_get, name)
        for note in get(options.data_dir):
            print(f"note: {note}", file=sys.stderr)
    return 0


# --- One corpus -----------------------------------------------------------------------


def _get(name: str, data_dir: Path | None) -> list[str]:
    """Find or download a corpus, read it, and say what it is; returns notes on it."""
    known = CORPORA[name]
    width = terminal_width()
    try:
        find(name, data_dir)
    except MissingCorpus as error:
        if not known.archives:
            raise
        _download(name, data_dir, error.missing)
    corpus = corpora.load(name, data_dir)
    print(f"{name}: {known.title}\nin {find(name, data_dir).place}\n")
    rows = [["", "tokens", "published"]]
    for part in PARTS:
        size = corpus.texts[part].size
        published = known.tokens.get(part)
        rows.append([part, _number(size), _number(published)])
    own = _number(len(corpus.vocabulary)), _number(known.vocabulary)
    rows.append(["vocabulary", *own])
    print(f"{aligned(rows, width)}\n\n{paragraph(known.rule, width)}")
    return [*corpus.notes]


def _get_babi(data_dir: Path | None) -> list[str]:
    """Find or download the stories, parse all, and say what they are; returns notes."""
    notes: list[str] = []
    here, missing = _stories(data_dir)
    lacks = [
        _incomplete(here[which]) if which in here else f"there is no {' '.join(which)}"
        for which in VARIANTS
        if BABI_ARCHIVES[which[0]] and (which not in here or here[which].missing)
    ]
    if lacks:
        try:
            _download("babi", data_dir, "; ".join(lacks) if here else "")
        except CorpusError as error:
            if not here:
                raise
            notes.append(str(error))
        here, missing = _stories(data_dir)
    print(f"babi: {TITLES['babi']}\n")
    rows = [["", "training questions", "test questions", "stories", "tasks"]]
    for which, tasks in here.items():
        train, test = (
            [tasks.stories(k, part) for k in TASKS if (k, part) in tasks.files]
            for part in ("train", "test")
        )
        counts = [sum(map(len, part)) for part in (train, test)]
        counts += [sum(found[-1].number + 1 for found in train + test)]
        counts += [len(tasks.complete)]
        rows.append([" ".join(which), *map(_number, counts)])
        if tasks.missing:
            notes.append(_incomplete(tasks))
        notes += tasks.notes
        if tasks.changed:
            changed = ", ".join(map(str, tasks.changed))
            says = "is not, byte for byte, what was published: task"
            notes.append(f"{tasks.place} {says} {changed}")
    print(aligned(rows, terminal_width()))
    return [*notes, *missing]


def _stories(data_dir: Path | None) -> tuple[dict[tuple[str, str], Babi], list[str]]:
    """The versions and variants that are here, and what to say of the others."""
    here = {}
    missing = []
    for which in VARIANTS:
        try:
            here[which] = babi(*which, data_dir)
        except MissingCorpus as error:
            missing.append(str(error))
    return here, missing


def _incomplete(tasks: Babi) -> str:
    return f"{tasks.place} has no {listed(tasks.missing)}"


def _download(name: str, data_dir: Path | None, missing: str) -> None:
    """missing: which of its files are not there, where others are."""
    says = f"{name} is not in {data_directory(data_dir)}"
    if missing:
        says = f"{name} is incomplete ({missing})"
    print(f"{says}; downloading it", file=sys.stderr)
    corpora.download(name, data_dir)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


# --- All of them ----------------------------------------------------------------------


def _list(data_dir: Path | None) -> None:
    """The texts of the data directory, what is missing, and what to do about it."""
    rows = [["corpus", "here", *PARTS, "vocabulary"]]
    width = terminal_width()
    advice = ""
    to_get: dict[str, None] = {}  # the names that the command takes
    for first, variant in [*((name, "") for name in CORPORA), *VARIANTS]:
        name = first
        kind = "babi" if variant else first
        sizes = [""] * 4
        archives = BABI_ARCHIVES[first] if variant else CORPORA[first].archives
        gets = bool(archives)
        try:
            if variant:
                name = f"babi {first} {variant}"
                tasks = babi(first, variant, data_dir)
                state, says = "yes", ""
                if tasks.missing:
                    state = "in part"
                    says = _incomplete(tasks)
            elif corpus := cached(name, data_dir):
                counts = [corpus.texts[part].size for part in PARTS]
                sizes = [_number(count) for count in [*counts, len(corpus.vocabulary)]]
                state = "yes"
                says = "; ".join(corpus.notes)
            else:
                find(name, data_dir)
                state = "not read yet"
                says = ""
                gets = True
        except MissingCorpus as error:
            state, says = "no", ""
            if error.missing:
                state = "in part"
                says = error.missing
                gets = True
            elif not gets:
                says = (how_to_get if variant else remedy)(first, data_dir)
        except CorpusError as error:
            state = "not usable"
            says = str(error)
        rows.append([name, state, *sizes])
        if gets and state in ("no", "in part", "not read yet"):
            to_get[kind] = None
        if says:  # wrapped, but not within paths
            wrapper = textwrap.TextWrapper(width, " " * 4, " " * 4)
            wrapper.break_long_words = wrapper.break_on_hyphens = False
            advice += f"\n{name}:\n{wrapper.fill(says)}\n"
    print(f"Texts in {data_directory(data_dir)}, in tokens with <eos>:\n")
    print(f"{aligned(rows, width)}\n{advice}", end="")
    if to_get:
        print("\nTo get what is missing, and read what has not been read:\n")
        print(f"    {command(' '.join(to_get), data_dir)}")
