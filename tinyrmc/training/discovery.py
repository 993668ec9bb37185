"""Finding tasks.

A task is a file in the `tasks` folder beside this package, or in a package that another
distribution names.

The folder is found from where tinyrmc itself lies, never through the import path: a
clone, an editable install and a wheel all see the same tasks, a `tasks` folder of
somebody else's in the current directory is not looked at, and a file dropped in is a
task. Other distributions add theirs with an entry point in the group `tinyrmc.tasks`
that names a package.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.metadata
import importlib.util
import re
import sys
import traceback
from pathlib import Path

from ..errors import UserError, nearest

FOLDER = Path(__file__).resolve().parents[2] / "tasks"


GROUP = "tinyrmc.tasks"


# under a name of our own, so that nobody else's `tasks` package can be meant
PACKAGE = "tinyrmc_tasks"


class UnknownTask(UserError, LookupError):
    """No task of this name, or its file cannot be imported."""


class TaskError(UserError, TypeError):
    """What a task's own code has given is not what the training loop takes."""


def place_of(error: BaseException) -> tuple[Path, int, str] | None:
    """(file, line, function) where an exception has last passed through a task's own
    code; None if it has not.
    """
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if frame.f_globals.get("__name__", "").startswith(f"{PACKAGE}."):
            return Path(frame.f_code.co_filename), line, frame.f_code.co_name
    return None


def told(error: Exception) -> str:
    """An exception in words: where in a task's own code it comes from, if from there,
    of which kind it is, and its text.
    """
    text = f"{type(error).__name__}: {error}"
    if place := place_of(error):
        file, line, function = place
        text = (
            str(error) if isinstance(error, ValueError) else text
        )  # of which most are our own, and need no name
        text = f"{file.parent.name}/{file.name}, line {line}, in {function}: {text}"
    if "does not support ufuncs" in text:  # NumPy does not say what would
        text += (
            "; NumPy's own functions take no Tensors: write those of primitives, as "
            "in primitives.tanh(t) for np.tanh(t)"
        )
    return " ".join([text, *getattr(error, "__notes__", ())])


def task_files() -> dict[str, Path]:
    """Name -> file of every task: the built-in folder first, then other distributions',
    sorted within each.
    """
    folders = [FOLDER]
    for entry in importlib.metadata.entry_points(group=GROUP):
        with contextlib.suppress(
            ImportError
        ):  # a package that is gone must not take the others with it
            spec = importlib.util.find_spec(entry.value)
            folders += (
                [Path(folder) for folder in (spec.submodule_search_locations or [])]
                if spec
                else []
            )
    files: dict[str, Path] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.py")):
            if not file.name.startswith("_"):
                files.setdefault(file.stem, file)
    return files


def load_task(name: str):
    """The module of task `name`, imported once.

    It defines `Task`. UnknownTask if there is none, or if importing it fails.
    """
    files = task_files()
    if name not in files:
        raise UnknownTask(
            f"unknown task {name!r} (tasks: "
            f"{', '.join(files) or f'none in {FOLDER}'}){nearest(name, files)}"
        )
    qualified = f"{PACKAGE}.{name}"
    if qualified not in sys.modules:
        spec = importlib.util.spec_from_file_location(qualified, files[name])
        module = importlib.util.module_from_spec(spec)
        sys.modules[qualified] = module  # dataclasses look their module up here
        try:
            spec.loader.exec_module(module)
            if not getattr(getattr(module, "Task", None), "presets", None):
                raise ImportError("it defines no class Task with presets")
            if not (module.__doc__ or "").strip():
                raise ImportError(
                    "it has no docstring, whose first line says what the task is"
                )
        except Exception as error:
            del sys.modules[qualified]
            line = f", line {place[1]}" if (place := place_of(error)) else ""
            text = (
                f"task {name!r} ({files[name]}{line}) cannot be imported: "
                f"{type(error).__name__}: {error}{_declaration(error, module)}"
            )
            raise UnknownTask(text) from error
    return sys.modules[qualified]


def _declaration(error, module):
    """What to do about a keyword that a dataclass of the task's own does not take: it
    lacks the field.
    """
    unknown = re.search(
        r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error)
    )
    kind = getattr(module, unknown[1], None) if unknown else None
    if not dataclasses.is_dataclass(kind) or kind.__module__ != module.__name__:
        return ""
    declared = (
        "training.TrainConfig = field(default_factory=training.TrainConfig)"
        if unknown[2] == "train"
        else "int = 6"
    )
    return (
        f"; declare the field in the class, with its type, as in {unknown[2]}: "
        f"{declared}"
    )
