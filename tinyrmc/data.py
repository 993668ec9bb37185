"""Texts for language models, and stories for memory networks.

    python -m tinyrmc.data              what is here, what is missing, what to do
    python -m tinyrmc.data ptb          get, check and read the Penn Treebank

A corpus may lie in the data directory as its official archive, or unpacked: archives
are read as they are. What is not there is downloaded, checked against its recorded
checksum. Then the text is read once, and kept as integers that training maps into
memory. Training itself downloads nothing.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from . import corpora
from .commands import Parser, program, run_main
from .corpora import CORPORA, PARTS, Corpus, CorpusError, MissingCorpus
from .corpora.corpus import IncompleteCorpus
from .corpora.finding import command, data_directory, find, remedy
from .corpora.loading import cached
from .corpora.stories import ARCHIVES, TASKS, VERSIONS, Babi, babi, how_to_get
from .errors import UsageError, nearest
from .results.text import aligned, paragraph, terminal_width

NAMES = (*CORPORA, "babi")
TITLES = {name: known.title for name, known in CORPORA.items()}
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
    if options.vocabulary_size is not None and options.vocabulary_size < 2:
        raise UsageError(
            f"--vocabulary-size must be at least 2, got {options.vocabulary_size}"
        )
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
    parser.add_argument(
        "corpora",
        nargs="*",
        metavar="[CORPUS ...]",
        help="which to get, check and read",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="FOLDER",
        help="where texts are and come to; without it, the folder that TINYRMC_DATA "
        "names, else tinyrmc's folder among your caches",
    )
    parser.add_argument(
        "--vocabulary-size",
        type=int,
        metavar="WORDS",
        help="at most so many words, <eos> and <unk> among them; the most frequent "
        "ones of the training text stay, the others become <unk> (default: all)",
    )
    return parser


# --- One corpus -----------------------------------------------------------------------


def _get(name: str, data_dir: Path | None, vocabulary_size: int | None) -> None:
    """Find or download a corpus, read it, and say what it is."""
    try:
        find(name, data_dir)
    except MissingCorpus:
        if not CORPORA[name].archives:
            raise
        _download(name, data_dir)
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
    try:
        babi(data_dir=data_dir)
    except MissingCorpus:
        _download("babi", data_dir)
    print(f"babi: {TITLES['babi']}\n")
    rows = [["", "", "training questions", "test questions", "stories", "tasks"]]
    notes = []
    for version, variant in _variants():
        try:
            tasks = babi(version, variant, data_dir)
        except MissingCorpus as error:
            notes.append(str(error))
            continue
        rows.append([version, variant, *_counts(tasks)])
        if tasks.missing:
            notes.append(f"{tasks.place} has no {', '.join(tasks.missing)}")
        if not tasks.official:
            notes.append(f"{tasks.place} is not, byte for byte, what was published")
    print(aligned(rows, terminal_width(), keys=2))
    _warn(notes)


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


def _download(name: str, data_dir: Path | None) -> None:
    folder = data_directory(data_dir)
    print(f"{name} is not in {folder}; downloading it", file=sys.stderr)
    corpora.download(name, data_dir)


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _warn(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def _variants() -> list[tuple[str, str]]:
    return [(version, each) for version, all_ in VERSIONS.items() for each in all_]


# --- All of them ----------------------------------------------------------------------


def _list(data_dir: Path | None) -> None:
    """What is in the data directory, what is missing, and what to do about it."""
    rows = [["corpus", "here", *PARTS, "vocabulary"]]
    advice: dict[str, str] = {}
    for name in CORPORA:
        state, corpus, to_do = _state(name, data_dir)
        sizes = [_number(corpus.texts[part].size) if corpus else "" for part in PARTS]
        words = _number(len(corpus.vocabulary)) if corpus else ""
        rows.append([name, state, *sizes, words])
        if to_do:
            advice[name] = to_do
    for version, variant in _variants():
        name = f"babi {version} {variant}"
        state, to_do = _state_of_babi(version, variant, data_dir)
        rows.append([name, state, "", "", "", ""])
        if to_do:
            advice[name] = to_do
    width = terminal_width()
    print(f"Texts in {data_directory(data_dir)}, in tokens with <eos>:\n")
    print(aligned(rows, width))
    for name, to_do in advice.items():
        if to_do != COMMAND:
            print(f"\n{name}:\n{_indented(to_do, width)}")
    if names := [name.split()[0] for name in advice if advice[name] == COMMAND]:
        print("\nTo get what is missing, and read what has not been read:\n")
        print(f"    {command(' '.join(dict.fromkeys(names)), data_dir)}")


COMMAND = "the command gets it"


def _indented(words: str, width: int) -> str:
    """Wrapped, but not within paths."""
    return textwrap.fill(
        words,
        width,
        initial_indent=" " * 4,
        subsequent_indent=" " * 4,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _state(name: str, data_dir: Path | None) -> tuple[str, Corpus | None, str]:
    """(whether it is here, its integers if it has been read, what to do)."""
    by_command = bool(CORPORA[name].archives)
    try:
        corpus = cached(name, data_dir)
    except IncompleteCorpus:
        return "in part", None, COMMAND
    except MissingCorpus:
        return "no", None, COMMAND if by_command else remedy(name, data_dir)
    except CorpusError as error:
        return "not as it is", None, str(error)
    return ("yes", corpus, "") if corpus else ("not read yet", None, COMMAND)


def _state_of_babi(
    version: str, variant: str, data_dir: Path | None
) -> tuple[str, str]:
    try:
        tasks = babi(version, variant, data_dir)
    except MissingCorpus:
        by_command = bool(ARCHIVES[version])
        return "no", COMMAND if by_command else how_to_get(version, data_dir)
    except CorpusError as error:
        return "not as it is", str(error)
    if tasks.missing:
        return "in part", f"{tasks.place} has no {', '.join(tasks.missing)}"
    return "yes", ""


if __name__ == "__main__":
    run_main(lambda: main(sys.argv[1:]))
