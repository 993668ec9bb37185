"""The bAbI tasks: twenty kinds of short stories with questions (Weston et al. 2015).

    tasks = corpora.babi("v1.2", "en")
    tasks.stories(1, "train")[0]

A file has lines `ID sentence` and `ID question TAB answer TAB IDs of supporting facts`.
IDs begin at 1 with each story; questions take one too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from .corpus import CorpusError, MissingCorpus
from .files import decoded, entries, read_whole, readable
from .finding import archives_in, command, data_directory
from .known import Archive
from .loading import check_archives

TASKS = range(1, 21)
PARTS = ("train", "test")
LARGEST = 64 << 20  # bytes of a file: the largest has 5 million

VERSIONS = {"v1.2": ("en", "en-10k"), "v1.1": ("en",)}

_FOLDERS = {
    "v1.2": ("tasks_1-20_v1-2",),
    "v1.1": ("tasksv11", "tasks_1-20_v1-1"),
}
_PATTERNS = {
    "v1.2": (
        "tasks_1-20_v1-2*.tar.gz",
        "babi_tasks_1-20_v1-2*.tar.gz",  # Keras
        "babi-tasks-v1-2*.tar.gz",
        "babi.tar.gz",  # ParlAI
    ),
    "v1.1": ("tasks_1-20_v1-1*.tar.gz", "tasksv11*.tar.gz"),
}
_SITE = "http://www.thespermwhale.com/jaseweston/babi/"
ARCHIVES = {
    "v1.2": (
        Archive(
            "tasks_1-20_v1-2.tar.gz",
            15_719_851,
            "sha256:0364ebde659f14d11bc21744516c5ec49d3d06cb692733f66680771244998898",
            (f"{_SITE}tasks_1-20_v1-2.tar.gz",),
        ),
        Archive("tasks_1-20_v1-2.tar.gz", 11_745_123),  # an earlier one of that name
        Archive(
            "babi.tar.gz",
            hash="sha256:"
            "f7f0bee187efca0d81c3daac1b162cda4eb7f9505dee5ad6846eabbed3dbf92e",
            urls=("http://parl.ai/downloads/babi/babi.tar.gz",),
        ),
    ),
    "v1.1": (),
}
# no checksum of it is known, so nothing downloads it for you
_BY_HAND = {"v1.1": f"fetch {_SITE}tasks_1-20_v1-1.tar.gz into {{folder}}"}

# SHA-256 of the official files' own SHA-256s; for en-10k without the training text of
# task 3, which nobody has recorded
_DIGESTS = {
    ("v1.2", "en"): "88a54f67671b431d18708f67648a239c9761ebc00e6b74410a0f365541771fa7",
    ("v1.2", "en-10k"): (
        "831cd7fa5613c2e0cbacf8f636d383e89ae9254b61bc71c4dc9d8d95753a186c"
    ),
    ("v1.1", "en"): "f83eef37593bd8e5aa90d0b6d7f0b5987ec05a54065c83e8927e3f7d3cd07a87",
}
_UNRECORDED = {("v1.2", "en-10k"): (3, "train")}


@dataclasses.dataclass(frozen=True)
class Story:
    """A question, and what has been told before it. Words are in lower case.

    sentences: the words of each sentence, first to last
    question: its words
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
    """The files of a version and variant; they are parsed when asked for.

    place: the folder or archive, for messages
    files: {(task, "train" or "test"): (name, bytes)}
    """

    version: str
    variant: str
    place: Path
    files: dict[tuple[int, str], tuple[str, bytes]] = dataclasses.field(hash=False)
    remedy: str

    def stories(self, task: int, part: str) -> list[Story]:
        """The questions of a task 1 to 20, in the order of the file.

        part: "train" or "test"

        MissingCorpus if just this file is missing.
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
    def official(self) -> bool:
        """Whether the files are the published ones, byte for byte."""
        which = self.version, self.variant
        hashes = [
            hashlib.sha256(self.files[task, part][1]).digest()
            for task in TASKS
            for part in PARTS
            if (task, part) in self.files and (task, part) != _UNRECORDED.get(which)
        ]
        return hashlib.sha256(b"".join(hashes)).hexdigest() == _DIGESTS[which]

    @property
    def missing(self) -> list[str]:
        """The files that are not there."""
        wanted = [(task, part) for task in TASKS for part in PARTS]
        return [
            f"qa{k}_*_{part}.txt" for k, part in wanted if (k, part) not in self.files
        ]


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
    folder = data_directory(data_dir)
    remedy = how_to_get(version, data_dir)
    for place in _places(version, variant, folder):
        if place.is_dir():
            files = {k: _read(p) for k, p in _named(place.iterdir())}
        else:
            check_archives([place], ARCHIVES[version])
            files = _unpacked(place, variant)
        if files:
            return Babi(version, variant, place, files, remedy)
    raise MissingCorpus(f"bAbI {version} {variant} is not in {folder}; {remedy}")


def how_to_get(version: str, data_dir: str | Path | None = None) -> str:
    """How to get a version: a command, or what to do."""
    if version in _BY_HAND:
        return _BY_HAND[version].format(folder=data_directory(data_dir))
    return f"get it with: {command('babi', data_dir)}"


def _places(version: str, variant: str, folder: Path) -> Iterator[Path]:
    for name in _FOLDERS[version]:
        roots = [folder] if folder.absolute().name == name else []
        for root in (*roots, folder / name, folder / "data" / name):
            if (root / variant).is_dir():
                yield root / variant
    yield from archives_in(folder, _PATTERNS[version])


def _task(name: str) -> tuple[int, str] | None:
    found = re.fullmatch(r"qa(\d+)_.*(train|test)\.txt", name)
    return (int(found[1]), found[2]) if found and int(found[1]) in TASKS else None


def _named(paths):
    for path in sorted(paths):
        if (key := _task(path.name)) and path.is_file():
            yield key, path


def _read(path: Path) -> tuple[str, bytes]:
    with readable(path), open(path, "rb") as file:
        return str(path), read_whole(file, str(path), LARGEST)


def _unpacked(path: Path, variant: str) -> dict[tuple[int, str], tuple[str, bytes]]:
    files = {}
    with readable(path):
        for name, _, opened in entries(path):
            folder, _, last = name.rpartition("/")
            key = _task(last)
            if key and folder.rpartition("/")[2] == variant:
                title = f"{path}:{name}"
                with opened() as file:
                    files[key] = title, read_whole(file, title, LARGEST)
    return files


def parse(text: str, name: str) -> list[Story]:
    """The questions of a file, each with the sentences before it.

    CorpusError, with the line, for what is not in the format.
    """
    stories: list[Story] = []
    number, last = -1, 0
    sentences: list[tuple[str, ...]] = []
    places: dict[int, int] = {}  # ID of a sentence -> its place in `sentences`
    for count, line in enumerate(text.splitlines(), start=1):
        try:
            head, _, rest = line.partition(" ")
            if int(head) == 1:
                number, sentences, places = number + 1, [], {}
            elif int(head) != last + 1:
                raise ValueError("a line is missing")
            last = int(head)
            words, answer, supporting = _parts(rest)
            if answer is None:
                places[last] = len(sentences)
                sentences.append(words)
                continue
            facts = tuple(places[int(fact)] for fact in supporting.split())
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


def _parts(rest: str) -> tuple[tuple[str, ...], str | None, str]:
    """What follows an ID: words; the answer, None if they are no question; IDs."""
    said, *answered = rest.split("\t")
    words, answer = _words(said), answered[0].strip().lower() if answered else None
    if not words or answer == "" or len(answered) > 2:
        raise ValueError("nothing is said, asked or answered, or too much is")
    return words, answer, "".join(answered[1:])


def _words(sentence: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", sentence.lower()))
