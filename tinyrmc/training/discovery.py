"""Finding tasks by name or by file.

A task is a Python file that defines a class `Task`. `load_task` takes

    nth_farthest        a built-in task, or one that another distribution adds
    path/to/recall.py   a file anywhere: a word that ends in .py or holds a separator

Built-in tasks are the files of one folder: `tinyrmc/tasks/` in a wheel, `tasks/` beside
the package in a clone or an editable install. It is found from where this file lies,
never through the import path, so nobody else's `tasks` can be meant. Other
distributions add tasks with an entry point in the group `tinyrmc.tasks` that names a
package.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from ..config import stored_path
from ..errors import UserError, nearest

GROUP = "tinyrmc.tasks"

# what the modules' names begin with: no package is called that
PACKAGE = "tinyrmc_tasks"

# an environment variable: folders in which to look for a task file that has moved
ELSEWHERE = "TINYRMC_TASKS"


class UnknownTask(UserError, LookupError):
    """There is no such task, or its file cannot be imported."""


class TaskError(UserError, TypeError):
    """The code of a task gave something that the training loop cannot take."""


# --- Where tasks are ------------------------------------------------------------------


def built_in_folder(package: Path) -> Path:
    """The folder of the built-in tasks, for a tinyrmc that lies at `package`.

    A folder beside the package counts only in a clone of this project: beside an
    installed package, in site-packages, `tasks` would belong to somebody else.
    """
    inside, beside = package / "tasks", package.parent / "tasks"
    project = package.parent / "pyproject.toml"
    if not inside.is_dir() and project.is_file():
        if 'name = "tinyrmc"' in project.read_text(encoding="utf-8").splitlines():
            return beside
    return inside


FOLDER = built_in_folder(Path(__file__).resolve().parents[1])


def task_files() -> dict[str, Path]:
    """Name -> file of every task that has a name: the built-in ones first, then those
    of other distributions, sorted within each. No name is given twice.
    """
    files: dict[str, Path] = {}
    for folder in [FOLDER, *_added_folders()]:
        for file in sorted(folder.glob("[!_]*.py")):
            files.setdefault(file.stem, file)
    return files


@functools.cache
def _added_folders() -> list[Path]:
    """The folders of the packages that other distributions name."""
    folders: list[Path] = []
    for entry in importlib.metadata.entry_points(group=GROUP):
        # a package that is gone must not take the others with it
        with contextlib.suppress(ImportError):
            spec = importlib.util.find_spec(entry.value)
            if spec is not None:
                folders += map(Path, spec.submodule_search_locations or ())
    return folders


# --- Tasks by name and by file --------------------------------------------------------


def find_task(word: str) -> tuple[str, Path]:
    """(the name of its module, its file) of a task, by its name or its file.

    UnknownTask if there is none. Symbolic links to folders are followed, but not the
    file itself if it is one: that may give the task its name.
    """
    files = task_files()
    if not (word.endswith(".py") or os.sep in word):
        if word in files:
            return f"{PACKAGE}.{word}", files[word]
        known, near = ", ".join(files) or f"none in {FOLDER}", nearest(word, files)
        if Path(f"{word}.py").is_file():
            near = f"; did you mean the file {word}.py?"
        raise UnknownTask(f"unknown task {word!r} (tasks: {known}){near}")
    path = Path(os.path.expanduser(word))
    file = path.parent.resolve() / path.name
    if file.suffix != ".py" or not file.is_file():
        raise UnknownTask(
            f"there is no file {word} of a task; `tinyrmc new NAME` writes an example "
            f"to begin with, and these have names: {', '.join(files)}"
        )
    name = f"{PACKAGE}.{file.stem}"
    if file not in [each.parent.resolve() / each.name for each in files.values()]:
        # the file of another task may have the same stem
        name += f"_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    return name, file


def stored(word: str) -> dict[str, str]:
    """A task in config.json: "task" is its name and, for a file that has no name of its
    own, "task_file" its absolute path, `~` for the home directory.
    """
    name, file = find_task(word)
    kept = {"task": file.stem}
    if name != f"{PACKAGE}.{file.stem}":
        kept["task_file"] = stored_path(file)
    return kept


def word_of(config: dict) -> str:
    """The word that names the task of a run on a command line: the inverse of `stored`.

    A file that has moved is looked for in the folders of the environment variable
    TINYRMC_TASKS. Only an absolute path is followed, so that a run directory from a
    stranger cannot bring the code with it. UnknownTask if the file is not there.
    """
    name, file = config["task"], config.get("task_file")
    if file is None:
        return name
    path = Path(os.path.expanduser(file))
    if not path.is_absolute() or path.stem != name:
        raise UnknownTask(
            f"task_file {file!r} is not the absolute path of a file {name}.py; "
            "correct the run's config.json"
        )
    folders = os.environ.get(ELSEWHERE, "").split(os.pathsep)
    for place in [path, *(Path(folder, path.name) for folder in folders if folder)]:
        if place.is_file():
            return str(place.absolute())
    raise UnknownTask(
        f"the run's task is not in {file} any more; put the file back, or name the "
        f"folder that it is in now: {ELSEWHERE}=FOLDER before the command"
    )


def load_task_of(config: dict) -> ModuleType:
    """The module of the task that a run's config.json names: see `word_of`."""
    return load_task(word_of(config))


def load_task(word: str) -> ModuleType:
    """The module of a task, by its name or its file; imported once.

    It defines `Task`. UnknownTask if there is none, or if importing it fails; then
    nothing is left of it.
    """
    name, file = find_task(word)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # a file that ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up here
    try:
        spec.loader.exec_module(module)
        kind = getattr(module, "Task", None)
        if not (getattr(kind, "presets", None) and hasattr(kind, "held_out")):
            raise ImportError("it defines no class Task(training.Task) with presets")
        for each in dir(kind):
            if getattr(getattr(kind, each), "__isabstractmethod__", False):
                raise ImportError(f"its class Task lacks {each}")
        if not (module.__doc__ or "").strip():
            raise ImportError(
                "it has no docstring, whose first line says what the task is"
            )
    except (Exception, SystemExit) as error:  # a script may call sys.exit()
        del sys.modules[name]
        place = place_of(error)
        line = f", line {place[1]}" if place else ""
        why = f" cannot be imported: {type(error).__name__}: {error}"
        if place and isinstance(error, (ValueError, TaskError)):  # mostly our own
            why = f": {error}"
        raise UnknownTask(f"task {file.stem!r} ({file}{line}){why}") from error
    return module


# --- Errors in a task's code ----------------------------------------------------------


def place_of(error: BaseException) -> tuple[Path, int, str] | None:
    """(file, line, function) where an exception last passed through a task's code; None
    if it did not.
    """
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if frame.f_globals.get("__name__", "").startswith(f"{PACKAGE}."):
            return Path(frame.f_code.co_filename), line, frame.f_code.co_name
    return None


def described(error: Exception) -> str:
    """An exception in words: its place in a task's code, if it has one, its kind and
    its text.
    """
    text = f"{type(error).__name__}: {error}"
    if place := place_of(error):
        file, line, function = place
        if isinstance(error, ValueError):  # mostly our own, which need no kind
            text = str(error)
        text = f"{file.parent.name}/{file.name}, line {line}, in {function}: {text}"
    return " ".join([text, *getattr(error, "__notes__", ())])
