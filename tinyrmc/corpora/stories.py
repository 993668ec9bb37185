"""The bAbI tasks: twenty kinds of short stories with questions (Weston et al. 2015).

    tasks = corpora.babi("v1.2", "en")
    tasks.stories(1, "train")[0]

A file has lines `ID sentence` and `ID question TAB answer TAB IDs of supporting facts`.
IDs begin at 1 with each story; questions take one too.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import re
from pathlib import Path, PurePosixPath

from ..errors import listed
from .corpus import CorpusError, MissingCorpus
from .files import decoded, entries, readable, ungzipped
from .known import BABI, BABI_SITE
from .loading import archives_in, command, data_directory, folders_called
from .words import MOST, plain, words_in

TASKS = range(1, 21)
PARTS = ("train", "test")
_WORD = re.compile(r"\w+")

VERSIONS = {"v1.2": ("en", "en-10k"), "v1.1": ("en",)}

# {(version, variant, part): the first 16 bits of the SHA-256 of each task's file}
_DIGESTS = {tuple(name.split()): digits for name, digits in BABI["digests"].items()}
_UNKNOWN = "????"


@dataclasses.dataclass(frozen=True)
class Story:
    """A question, and what has been told before it. Words are in lower case.

    answer: one class, even where it lists several things: football,apple
    supporting: which of the sentences answer it, counted from 0
    number: the story's number in its file; its questions follow each other
    """

    sentences: tuple[tuple[str, ...], ...]
    question: tuple[str, ...]
    answer: str
    supporting: tuple[int, ...]
    number: int


@dataclasses.dataclass(frozen=True)
class Babi:
    """The files of a version and variant; they are parsed when asked for."""

    version: str
    variant: str
    place: Path  # the folder or archive, for messages
    # {(task, "train" or "test"): (name, bytes)}
    files: dict[tuple[int, str], tuple[str, bytes]] = dataclasses.field(hash=False)
    remedy: str  # how to get what is missing
    copies: tuple[str, ...] = ()  # files of which another has the same text

    def stories(self, task: int, part: str) -> list[Story]:
        """The questions of a task 1 to 20, in the order of the file; part: "train" or
        "test". MissingCorpus if just this file is missing.
        """
        if task not in TASKS or part not in PARTS:
            raise CorpusError(
                f"bAbI has no {part!r} text of task {task!r}; tasks are 1 to 20, and "
                "texts train and test"
            )
        if (task, part) not in self.files:
            raise MissingCorpus(
                f"{self.place} has no {self.variant}/qa{task}_*_{part}.txt; "
                f"{self.remedy}"
            )
        name, data = self.files[task, part]
        return parse(decoded(data, name), name)

    @property
    def complete(self) -> list[int]:
        """The tasks that have both texts."""
        return [k for k in TASKS if all((k, part) in self.files for part in PARTS)]

    @property
    def missing(self) -> list[str]:
        """The files that are not there."""
        wanted = [(task, part) for task in TASKS for part in PARTS]
        absent = [key for key in wanted if key not in self.files]
        return [f"qa{task}_*_{part}.txt" for task, part in absent]

    @property
    def notes(self) -> list[str]:
        """Notes on these files that you should know, a sentence each."""
        texts = {key: _unwrapped(data) for key, (_, data) in self.files.items()}
        same = [k for k in self.complete if texts[k, "train"] == texts[k, "test"]]
        found = []
        if self.copies:
            found = [
                f"the same text as another file, and left out: {listed(self.copies)}"
            ]
        if same:
            which = ", ".join(map(str, same))
            found.append(f"the train and the test text are the same: task {which}")
        # of the published texts one says the same of itself: task 4 of en-10k
        most = "most stories of the test text stand in the train text"
        for task in sorted({*self.complete} & {*self.changed} - {*same}):
            learnt, asked = (_told(self.files[task, part][1]) for part in PARTS)
            if len(asked & learnt) > MOST * len(asked):
                found.append(f"{most}: task {task}")
        return found

    @functools.cached_property
    def changed(self) -> list[int]:
        """The tasks with a text that is not, byte for byte, the published one."""
        found = set()
        for (task, part), (_, data) in self.files.items():
            digests = _DIGESTS[self.version, self.variant, part]
            known = digests[4 * task - 4 : 4 * task]
            if known not in (_UNKNOWN, hashlib.sha256(data).hexdigest()[:4]):
                found.add(task)
        return sorted(found)


def babi(
    version: str = "v1.2", variant: str = "en", data_dir: str | Path | None = None
) -> Babi:
    """The bAbI tasks, from a folder or an archive in the data directory.

    version: v1.1 or v1.2, which differ in task 16
    variant: en, with 1,000 training questions a task, or en-10k (v1.2 only)

    MissingCorpus, with the command that gets them, if they are not there.
    """
    if variant not in VERSIONS.get(version, ()):
        known = [f"{v} {each}" for v, variants in VERSIONS.items() for each in variants]
        raise CorpusError(
            f"there is no bAbI {version} {variant} here; there are {', '.join(known)}"
        )
    remedy = how_to_get(version, data_dir)
    folder = data_directory(data_dir)
    best = Babi(version, variant, folder, {}, remedy)
    names, patterns = BABI["folders"][version], BABI["patterns"][version]
    folders = (place / variant for place in folders_called(folder, names))
    unpacked = filter(Path.is_dir, folders)
    for place in itertools.chain(unpacked, archives_in(folder, patterns)):
        files, copies = _read(place, variant)
        if len(files) > len(best.files):  # the first that has all, or else most
            best = Babi(version, variant, place, files, remedy, tuple(copies))
        if not best.missing:
            return best
    if not best.files:
        raise MissingCorpus(f"bAbI {version} {variant} is not in {folder}; {remedy}")
    return best


def how_to_get(version: str, data_dir: str | Path | None = None) -> str:
    """The way to get a version: a command, or what to do."""
    if version == "v1.1":  # no checksum of it is known, so it is not downloaded
        folder = data_directory(data_dir)
        return f"fetch {BABI_SITE}tasks_1-20_v1-1.tar.gz into {folder}"
    return f"get it with: {command('babi', data_dir)}"


Files = dict[tuple[int, str], tuple[str, bytes]]  # {(task, part): (name, content)}


def _read(place: Path, variant: str) -> tuple[Files, list[str]]:
    """The files of a folder or an archive, and the names of those that say the same as
    another of their task and part.
    """
    files: Files = {}
    copies = []
    with readable(place), contextlib.closing(entries(place)) as texts:
        for path, opened in texts:
            title = str(place.parent / path) if place.is_dir() else f"{place}:{path}"
            *_, folder, name = ("", *PurePosixPath(path).parts)
            found = re.fullmatch(r"qa(\d+)_.*(train|test)\.txt", name.lower())
            if not found or folder != variant or int(found[1]) not in TASKS:
                continue
            key = int(found[1]), found[2]
            with readable(Path(title)), opened() as file:
                data = ungzipped(file).read()
            other, told = files.setdefault(key, (title, data))
            if _unwrapped(told) != _unwrapped(data):
                raise CorpusError(
                    f"{other} and {title} are both the {key[1]} text of task {key[0]}, "
                    "and differ; leave one of them there"
                )
            if other != title:
                copies.append(f"{name} (as {PurePosixPath(other).name})")
    return files, copies


def _unwrapped(data: bytes) -> bytes:
    """A text without what may differ in a copy: its mark, and how lines end."""
    return data.removeprefix(codecs.BOM_UTF8).translate(None, b"\r\n \t")


def _told(data: bytes) -> set[bytes]:
    """The stories of a file, in small letters and as `_unwrapped` has them."""
    return {_unwrapped(x) for x in re.split(rb"[\r\n]+1 ", b"\n" + data.lower())[1:]}


def parse(text: str, name: str) -> list[Story]:
    """The questions of a file, each with the sentences before it. CorpusError, with the
    line, for what is not in the format.
    """
    stories: list[Story] = []
    number, last = -1, 0
    sentences: list[tuple[str, ...]] = []
    places: dict[int, int] = {}  # ID of a sentence -> its place in `sentences`
    lines = re.split(r"\r\n|\r|\n", text)
    while lines and not lines[-1].strip():
        lines.pop()
    for count, line in enumerate(lines, start=1):
        try:
            head, _, rest = line.partition(" ")
            if int(head) == 1:
                number = number + 1
                sentences = []
                places = {}
            elif int(head) != last + 1:
                raise ValueError("a line is missing")
            last = int(head)
            said, *answered = rest.split("\t")  # a question's answer, and its IDs
            words = tuple(words_in(said.lower(), _WORD))
            if not words or len(answered) > 2:
                raise ValueError("nothing is said, or too much is")
            if not answered:
                places[last] = len(sentences)
                sentences.append(words)
                continue
            answer = plain(answered[0]).strip().lower()
            if not answer:
                raise ValueError("nothing is answered")
            facts = tuple(places[int(k)] for k in "".join(answered[1:]).split())
        except (ValueError, KeyError):
            raise CorpusError(
                f"{name} line {count}: {line[:60]!r} is not a line of bAbI (the next "
                "ID, or 1, and a sentence, or a question TAB answer TAB IDs of earlier "
                "sentences)"
            ) from None
        stories.append(Story(tuple(sentences), words, answer, facts, number))
    if not stories:
        raise CorpusError(f"{name} has no questions; fetch it again")
    return stories
