"""The hand-ins of learners: folders, notebooks and zips of notebooks.

    FOLDER/anna.zip                     what "Download my work" gives
    FOLDER/ben/06_attention.ipynb       a folder for each learner, zips in it too
    FOLDER/carl_06_attention.ipynb      a notebook with a name before the chapter's
    FOLDER/dora.progress.json           the small file of `tinyrmc progress --out`

A file that cannot be read costs one line, and the others are graded.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import unicodedata
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ...errors import why
from .. import record
from ..overview import exercises
from ..proof import Refused, answers_of

MOST = 64 << 20  # bytes of one hand-in, unpacked
FILES = 2000
WORDS = 300  # characters of a learner's own that are shown
CHAPTER = re.compile(r"^(.*?[^ _-]|)[ _-]*\d\d_[a-z_]+(?:[ _-]*\(\d+\))?$")
KEPT = re.compile(r"(?:^|/)\.tinyrmc/answers/([a-z_]+\.\w+\.py)$")
IMPORT = re.compile(
    r"^[ \t]*from tinyrmc\.course\.exercises(?:\.([a-z_]+))? import "
    r"([^(\n]+|\([^()]*\))",
    re.MULTILINE,
)
CALL = re.compile(r"\b(\w+)\.(\w+)(?:\.(\w+))?\.(?:check|yours)\(")


class Unfit(Exception):
    """A file is none that can be graded; the text says why."""


@dataclass
class Book:
    """A notebook's code, and the exercises that it answers."""

    name: str
    cells: list[str]
    answers: set[tuple[str, str]] = field(default_factory=set)
    """(module, exercise)"""


@dataclass
class HandIn:
    """All that one learner has handed in."""

    learner: str
    books: list[Book] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    """(module.exercise.py, the text of an answer that was right before)"""
    problems: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How much there is to grade or to tell."""
        return len(self.books) + len(self.kept) + len(self.problems)

    def leave_out(self, name: str, problem: object) -> None:
        """Note why a file, or a part of it, is not graded."""
        self.problems.append(shown(f"{name}: {problem}"))


def shown(text: str) -> str:
    """A learner's own text in one line, without what would move a terminal's cursor."""
    line = "".join(letter if letter.isprintable() else "?" for letter in text)
    return line if len(line) <= WORDS else f"{line[: WORDS - 4]} ..."


def read(folder: Path) -> list[HandIn]:
    """The hand-ins in a folder, by the names of the learners."""
    found: dict[str, HandIn] = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        hidden = any(part.startswith(".") and part != ".tinyrmc" for part in inside)
        if hidden or "__MACOSX" in inside or not path.is_file() or path.is_symlink():
            continue
        if path.suffix not in (".ipynb", ".zip", ".json", ".py"):
            continue
        name = _learner(inside, folder.resolve().name)
        hand_in = found.setdefault(name, HandIn(name))
        file = "/".join(inside)
        try:
            if path.stat().st_size > MOST:
                raise Unfit(f"it has more than {MOST >> 20} MB")
            before = hand_in.size
            _add(hand_in, file, path.read_bytes())
            if path.suffix in (".zip", ".json") and hand_in.size == before:
                if path.name != "progress.json":  # beside answers, it names them
                    raise Unfit("it holds no answer that can be graded")
        except Unfit as problem:
            hand_in.leave_out(file, problem)
        except OSError as problem:
            hand_in.leave_out(file, why(problem))
    some = (each for each in found.values() if each.size)
    return sorted(some, key=lambda each: each.learner.lower())


def _learner(inside: tuple[str, ...], folder: str) -> str:
    """The learner of a file, by the folder it lies in, or by what its name begins
    with. An accent is one letter, though some systems write two.
    """
    name = inside[0]
    if name == ".tinyrmc":
        name = folder
    elif len(inside) == 1:
        name = PurePosixPath(name).stem.removesuffix(".progress")
        if chapter := CHAPTER.match(name):
            name = chapter[1]
    return shown(unicodedata.normalize("NFC", name).strip() or folder)


def _add(hand_in: HandIn, name: str, data: bytes) -> None:
    """Add one file to a hand-in; of a zip, the files in it."""
    if name.endswith(".zip"):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as packed:
                inside = packed.infolist()
                if sum(each.file_size for each in inside) > MOST or len(inside) > FILES:
                    raise Unfit(f"it unpacks to more than {MOST >> 20} MB")
                for each in inside:
                    if each.filename.endswith(".zip"):
                        says = "it is a zip in a zip: unpack the outer one"
                        hand_in.leave_out(f"{name}/{each.filename}", says)
                    elif not each.is_dir():
                        _add_each(hand_in, f"{name}/{each.filename}", packed, each)
        except (zipfile.BadZipFile, NotImplementedError, EOFError) as problem:
            raise Unfit(
                f"it is no zip file, or not the whole of one: {problem}"
            ) from None
    elif kept := KEPT.search(name):
        hand_in.kept.append((kept[1], _text(data)))
    elif name.endswith(".ipynb"):
        if not re.search(r"\.ipynb_checkpoints|\.before-\d+\.ipynb$", name):
            _add_notebook(hand_in, name, data)
    elif name.endswith(".json") and not name.endswith(".tinyrmc/progress.json"):
        try:
            hand_in.kept += answers_of(_text(data)).items()
        except Refused as problem:
            raise Unfit(str(problem)) from None


def _add_each(hand_in, name, packed, each) -> None:
    try:
        _add(hand_in, name, packed.read(each))
    except Exception as problem:  # a password, damage: zlib and zipfile raise anything
        hand_in.leave_out(name, problem)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Unfit("it is no text") from None


def _add_notebook(hand_in: HandIn, name: str, data: bytes) -> None:
    book = Book(name, cells_of(_text(data)))
    known = {module: {*names} for (_, module), names in exercises().items()}
    gone = set()
    for module, exercise in called("\n".join(book.cells)):
        if exercise in known.get(module, ()):
            book.answers.add((module, exercise))
        elif moved := _moved(module, exercise, known):
            book.answers.add((moved, exercise))
        else:
            gone.add(f"{module}.{exercise}")
    if gone:
        names = ", ".join(sorted(gone))
        says = "not graded, since this version of the course has no such exercise"
        hand_in.leave_out(name, f"{says}: {names}")
    if book.answers:
        hand_in.books.append(book)
    elif not gone:
        raise Unfit("it calls no `check`, so it is no chapter of this course")


def _moved(module: str, exercise: str, known: dict[str, set[str]]) -> str | None:
    """The module that has an exercise now, if chapters have exchanged theirs."""
    for new, old in record.OLDER.items():
        if module in old and exercise in known.get(new, ()):
            return new
    return None


def cells_of(text: str) -> list[str]:
    """The code cells of a notebook's file. Unfit if it is cut short or too old."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise Unfit(f"it is cut short, or no notebook: {problem}") from None
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        raise Unfit("it is no notebook: it names no version of its format")
    if notebook["nbformat"] != 4 or not isinstance(notebook.get("cells"), list):
        version = notebook["nbformat"]
        raise Unfit(
            f"it is in version {version!r} of the notebooks' format, not 4: open and "
            "save it with a Jupyter of today"
        )
    return [
        _source(cell)
        for cell in notebook["cells"]
        if isinstance(cell, dict) and cell.get("cell_type") == "code"
    ]


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    parts = source if isinstance(source, list) else [source]
    return "".join(map(str, parts))


def called(code: str) -> set[tuple[str, str]]:
    """(module, exercise) of each `check` and `yours` in a notebook's code."""
    aliases: dict[str, tuple[str, ...]] = {}
    for module, names in IMPORT.findall(code):
        for each in names.strip("()").split(","):
            name, _, alias = each.strip().partition(" as ")
            aliases[alias.strip() or name] = (module, name) if module else (name,)
    found = set()
    for head, *rest in CALL.findall(code):
        path = [*aliases.get(head, ()), *filter(None, rest)]
        if head in aliases and len(path) == 2:
            found.add((path[0], path[1]))
    return found


def load(module: str) -> Any:
    """A module of exercises."""
    return importlib.import_module(f"tinyrmc.course.exercises.{module}")
