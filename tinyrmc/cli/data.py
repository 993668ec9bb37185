"""Texts for language models, and stories for memory networks.

    python -m tinyrmc data              what is here, what is missing, what to do
    python -m tinyrmc data ptb          get, check and read the Penn Treebank

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

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from .. import corpora
from ..corpora import CORPORA, PARTS, Corpus, CorpusError, MissingCorpus
from ..corpora.corpus import DamagedCorpus
from ..corpora.loading import (
    cached,
    check_archive,
    command,
    data_directory,
    find,
    remedy,
)
from ..corpora.stories import ARCHIVES, TASKS, VERSIONS, Babi, babi, how_to_get
from ..errors import UsageError, nearest
from ..text import aligned, paragraph, terminal_width
from .commands import Parser, program

NAMES = (*CORPORA, "babi")
TITLES = {name: known.title for name, known in CORPORA.items()}
VARIANTS = [(version, each) for version, all_ in VERSIONS.items() for each in all_]
TITLES["babi"] = "bAbI, twenty kinds of stories with questions"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    options = _parser().parse_args(argv)
    for name in options.corpora:
        if name not in NAMES:
            raise UsageError(
                f"there is no corpus {name!r} (corpora: {', '.join(NAMES)})"
                f"{nearest(name, NAMES)}"
            )
    if (size := options.vocabulary_size) is not None:
        if size < 2:
            raise UsageError(f"--vocabulary-size must be at least 2, got {size}")
        if {*options.corpora} <= {"babi"}:
            raise UsageError("--vocabulary-size is for a text; name one, such as ptb")
    if not options.corpora:
        _list(options.data_dir)
    for k, name in enumerate(options.corpora):
        print(end="\n" if k else "")
        if name == "babi":
            _get_babi(options.data_dir)
        else:
            _get(name, options.data_dir, options.vocabulary_size)
    return 0


def _parser() -> Parser:
    listed = "\n".join(f"    {name:14}{title}" for name, title in TITLES.items())
    about = (__doc__ or "").strip()
    parser = Parser(program("data"), f"{about}\n\nCorpora:\n\n{listed}")
    add, says = parser.add_argument, "which to get, check and read"
    add("corpora", nargs="*", metavar="[CORPUS ...]", help=says)
    says = "where texts are, and downloads go; without it, the folder that "
    says += "TINYRMC_DATA names, else tinyrmc's folder among your caches"
    add("--data-dir", type=Path, metavar="FOLDER", help=says)
    says = "at most this many words, <eos> and <unk> among them; the most frequent "
    says += "ones of the training text stay, the others become <unk> (default: all)"
    add("--vocabulary-size", type=int, metavar="WORDS", help=says)
    return parser


# --- One corpus -----------------------------------------------------------------------


def _get(name: str, data_dir: Path | None, vocabulary_size: int | None) -> None:
    """Find or download a corpus, read it, and say what it is."""
    try:
        find(name, data_dir)
    except MissingCorpus as error:
        if not CORPORA[name].archives:
            raise
        _download(name, data_dir, error.missing)
    corpus = corpora.load(name, data_dir, vocabulary_size)
    known, width = CORPORA[name], terminal_width()
    print(f"{name}: {known.title}\nin {find(name, data_dir).place}\n")
    rows = [["", "tokens", "published"]]
    rows += [
        [part, _number(corpus.texts[part].size), _number(known.tokens.get(part))]
        for part in PARTS
    ]
    rows.append(["vocabulary", _number(len(corpus.vocabulary)), ""])
    if vocabulary_size is None:
        rows[-1][-1] = _number(known.vocabulary)
    print(aligned(rows, width))
    print(f"\n{paragraph(known.rule, width)}")
    _warn(corpus.notes)


def _get_babi(data_dir: Path | None) -> None:
    """Find or download the stories, parse all, and say what they are."""
    here, missing = _stories(data_dir)
    lacks = [
        _incomplete(here[which]) if which in here else f"there is no {' '.join(which)}"
        for which in VARIANTS
        if ARCHIVES[which[0]] and (which not in here or here[which].missing)
    ]
    failed = []
    if lacks:
        try:
            _download("babi", data_dir, "; ".join(lacks) if here else "")
        except CorpusError as error:
            if not here:
                raise
            failed.append(str(error))
        here, missing = _stories(data_dir)
    print(f"babi: {TITLES['babi']}\n")
    rows = [["", "", "training questions", "test questions", "stories", "tasks"]]
    rows += [[*which, *_counts(tasks)] for which, tasks in here.items()]
    print(aligned(rows, terminal_width(), keys=2))
    changed = [
        f"{tasks.place} is not, byte for byte, what was published: task "
        + ", ".join(map(str, tasks.changed))
        for tasks in here.values()
        if tasks.changed
    ]
    parts = [_incomplete(tasks) for tasks in here.values() if tasks.missing]
    _warn([*failed, *parts, *missing, *changed])


def _stories(
    data_dir: Path | None,
) -> tuple[dict[tuple[str, str], Babi], list[str]]:
    """The versions and variants that are here, and what to say of the others."""
    here, missing = {}, []
    for which in VARIANTS:
        try:
            here[which] = babi(*which, data_dir)
        except MissingCorpus as error:
            missing.append(str(error))
    return here, missing


def _incomplete(tasks: Babi) -> str:
    names, more = tasks.missing[:4], len(tasks.missing) - 4
    others = f" and {more} more" if more > 0 else ""
    return f"{tasks.place} has no {', '.join(names)}{others}"


def _counts(tasks: Babi) -> list[str]:
    questions = {"train": 0, "test": 0}
    stories, whole = 0, set(TASKS)
    for task in TASKS:
        for part in questions:
            if (task, part) not in tasks.files:
                whole.discard(task)
                continue
            found = tasks.stories(task, part)
            questions[part] += len(found)
            stories += found[-1].number + 1
    return [_number(k) for k in (*questions.values(), stories, len(whole))]


def _download(name: str, data_dir: Path | None, missing: str = "") -> None:
    """missing: which of its files are not there, where others are."""
    says = f"{name} is not in {data_directory(data_dir)}"
    if missing:
        says = f"{name} is incomplete ({missing})"
    print(f"{says}; downloading it", file=sys.stderr)
    corpora.download(name, data_dir)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _warn(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


# --- All of them ----------------------------------------------------------------------


def _list(data_dir: Path | None) -> None:
    """The texts of the data directory, what is missing, and what to do about it."""
    rows = [["corpus", "here", *PARTS, "vocabulary"]]
    advice: dict[str, str] = {}  # what to say of a corpus
    to_get: list[str] = []  # the names that the command takes
    for name in CORPORA:
        state, corpus, advice[name], gets = _state(name, data_dir)
        sizes = [""] * 4
        if corpus:
            counts = [corpus.texts[part].size for part in PARTS]
            sizes = [_number(count) for count in [*counts, len(corpus.vocabulary)]]
        rows.append([name, state, *sizes])
        to_get += [name] * gets
    for which in VARIANTS:
        name = f"babi {' '.join(which)}"
        state, advice[name], gets = _state_of_babi(*which, data_dir)
        rows.append([name, state, "", "", "", ""])
        to_get += ["babi"] * gets
    width, margin = terminal_width(), " " * 4
    print(f"Texts in {data_directory(data_dir)}, in tokens with <eos>:\n")
    print(aligned(rows, width))
    for name, says in advice.items():
        if says:  # wrapped, but not within paths
            wrapper = textwrap.TextWrapper(width, margin, margin)
            wrapper.break_long_words = wrapper.break_on_hyphens = False
            print(f"\n{name}:\n{wrapper.fill(says)}")
    if to_get:
        print("\nTo get what is missing, and read what has not been read:\n")
        print(f"    {command(' '.join(dict.fromkeys(to_get)), data_dir)}")


def _state(name: str, data_dir: Path | None) -> tuple[str, Corpus | None, str, bool]:
    """(whether it is here, its integers if it has been read, what to say of it,
    whether the command gets or reads it).
    """
    by_command = bool(CORPORA[name].archives)
    try:
        corpus = cached(name, data_dir)
        if corpus is None:
            for path in find(name, data_dir).paths:
                check_archive(path, CORPORA[name].archives)
    except MissingCorpus as error:
        if error.missing:
            return "in part", None, error.missing, True
        return "no", None, "" if by_command else remedy(name, data_dir), by_command
    except DamagedCorpus as error:
        return "damaged", None, str(error), False
    except CorpusError as error:
        return "not usable", None, str(error), False
    if corpus is None:
        return "not read yet", None, "", True
    return "yes", corpus, "; ".join(corpus.notes), False


def _state_of_babi(
    version: str, variant: str, data_dir: Path | None
) -> tuple[str, str, bool]:
    try:
        tasks = babi(version, variant, data_dir)
    except MissingCorpus:
        by_command = bool(ARCHIVES[version])
        return "no", "" if by_command else how_to_get(version, data_dir), by_command
    except DamagedCorpus as error:
        return "damaged", str(error), False
    except CorpusError as error:
        return "not usable", str(error), False
    if tasks.missing:
        return "in part", _incomplete(tasks), bool(ARCHIVES[version])
    return "yes", "", False
