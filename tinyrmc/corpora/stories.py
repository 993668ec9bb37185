"""The bAbI tasks: twenty kinds of short stories with questions (Weston et al. 2015).

    tasks = corpora.babi("v1.2", "en")
    tasks.stories(1, "train")[0]

A file has lines `ID sentence` and `ID question TAB answer TAB IDs of supporting facts`.
IDs begin at 1 with each story; questions take one too.
"""

from __future__ import annotations

import dataclasses
import functools
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

# The first 32 bits of the SHA-256 of the official files, tasks 1 to 20. Nobody has
# recorded that of the training text of task 3 of en-10k.
_TESTS = """
        55acf66c eff93fb9 17795c97 07f0ca18 ec825c1c b108b16f a74d1f2b 362a653c
        63590aff fde8f20e 46f3290d 6437718f 76a25b68 e3f0b198 32b77e11 4a11e553
        9e1e0250 d34f70eb 023e391f bd3bde37
"""
_DIGESTS = {
    ("v1.2", "en", "test"): _TESTS,
    ("v1.2", "en-10k", "test"): _TESTS,
    ("v1.2", "en", "train"): """
        c64ba9b1 a4978af5 a6e78019 c9370502 086cd59c 5a133115 dca03bd9 058604df
        0c3b8992 0b769168 9468de9a 45c2764b 533a391e b7561cbc e856ebfd 20121005
        20083bf5 18b7dcf5 dcb78835 29580ad5
    """,
    ("v1.2", "en-10k", "train"): """
        749ea9f7 d4074c0c unknown. 5d11b821 25069109 602f3791 4a250873 9518da2d
        5f8949f6 c5c0788b edfcd97f 39d58df3 c530fdf1 c322e081 0a86673f 27fef347
        8a383651 9e7c1510 6cfdc6f4 36f20f3b
    """,
    ("v1.1", "en", "train"): """
        c64ba9b1 a4978af5 a6e78019 c9370502 086cd59c 5a133115 dca03bd9 058604df
        0c3b8992 0b769168 9468de9a 45c2764b 533a391e b7561cbc e856ebfd a3448f8c
        20083bf5 18b7dcf5 dcb78835 29580ad5
    """,
    ("v1.1", "en", "test"): """
        55acf66c eff93fb9 17795c97 07f0ca18 ec825c1c b108b16f a74d1f2b 362a653c
        63590aff fde8f20e 46f3290d 6437718f 76a25b68 e3f0b198 32b77e11 d38f01e5
        9e1e0250 d34f70eb 023e391f bd3bde37
    """,
}
_UNKNOWN = "unknown."


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

    @functools.cached_property
    def changed(self) -> list[int]:
        """The tasks with a text that is not, byte for byte, the published one."""
        return [
            task for task in TASKS if any(self._changed(task, part) for part in PARTS)
        ]

    def _changed(self, task: int, part: str) -> bool:
        known = _DIGESTS[self.version, self.variant, part].split()[task - 1]
        if (task, part) not in self.files or known == _UNKNOWN:
            return False
        return hashlib.sha256(self.files[task, part][1]).hexdigest()[:8] != known

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

    Of several places the first that has all files is taken, else the one with most.

    MissingCorpus, with the command that gets them, if they are not there.
    """
    if variant not in VERSIONS.get(version, ()):
        known = [f"{v} {each}" for v, variants in VERSIONS.items() for each in variants]
        raise CorpusError(
            f"there is no bAbI {version} {variant} here; there are {', '.join(known)}"
        )
    folder = data_directory(data_dir)
    remedy = how_to_get(version, data_dir)
    best = None
    for place in _places(version, variant, folder):
        if not place.is_dir():
            check_archives([place], ARCHIVES[version])
        read = _in_folder(place) if place.is_dir() else _in_archive(place, variant)
        found = Babi(version, variant, place, _by_task(read), remedy)
        if not found.missing:
            return found
        if found.files and (best is None or len(found.files) > len(best.files)):
            best = found
    if best:
        return best
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


_Read = tuple[tuple[int, str], str, bytes]  # (task, part), name, content


def _in_folder(folder: Path) -> Iterator[_Read]:
    for path in sorted(folder.iterdir()):
        if (key := _task(path.name)) and path.is_file():
            with readable(path), open(path, "rb") as file:
                yield key, str(path), read_whole(file, str(path), LARGEST)


def _in_archive(path: Path, variant: str) -> Iterator[_Read]:
    with readable(path):
        for name, _, opened in entries(path):
            folder, _, last = name.rpartition("/")
            key = _task(last)
            if key and folder.rpartition("/")[2] == variant:
                title = f"{path}:{name}"
                with opened() as file:
                    yield key, title, read_whole(file, title, LARGEST)


def _by_task(read: Iterator[_Read]) -> dict[tuple[int, str], tuple[str, bytes]]:
    """{(task, part): (name, content)}; CorpusError for two files of one task."""
    files: dict[tuple[int, str], tuple[str, bytes]] = {}
    for (task, part), name, data in read:
        if (task, part) in files:
            raise CorpusError(
                f"{files[task, part][0]} and {name} are both the {part} text of task "
                f"{task}; leave one of them there"
            )
        files[task, part] = name, data
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
