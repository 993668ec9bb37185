"""Finding tasks by name or by file.

A task is a Python file that defines a class `Task`. `load_task` takes

    nth_farthest        a built-in task, or one that another distribution adds
    path/to/lookup.py   a file anywhere: a word that ends in .py or holds a separator

Built-in tasks are the files of one folder: `tinyrmc/tasks/` in a wheel, `tasks/` beside
the package in a clone or an editable install. It is found from where this file lies,
never through the import path, so nobody else's `tasks` can be meant. Other
distributions add tasks with an entry point in the group `tinyrmc.tasks` that names a
package. A file that registers cores (cores/registry.py) is found by its path alone.

A file of your own may import the files beside it, as a script may.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from types import ModuleType
from typing import Any

from ..config import stored_path
from ..cores import registry
from ..corpora.files import original
from ..errors import NO_DOCSTRINGS, UserError, nearest

GROUP = "tinyrmc.tasks"

# what the modules' names begin with: no package is called that
PACKAGE = "tinyrmc_tasks"

# an environment variable: folders in which to look for a file that has moved
ELSEWHERE = "TINYRMC_TASKS"


class UnknownTask(UserError, LookupError):
    """A task does not exist, or its file cannot be imported."""


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
        own = {file.stem: file for file in sorted(folder.glob("[!_]*.py"))}
        for name, file in own.items():
            copied = original(name.replace("_", " ")).replace(" ", "_")
            if copied != name and copied in own:
                continue  # x_copy beside x
            if name.isidentifier() and file.is_file():  # ._x and x copy are none
                files.setdefault(name, file)
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
        known = ", ".join(files) or f"none in {FOLDER}"
        near = nearest(word, files)
        if Path(f"{word}.py").is_file():
            near = f"; did you mean the file {word}.py?"
        raise UnknownTask(f"unknown task {word!r} (tasks: {known}){near}")
    file = _whole(word)
    if file.suffix != ".py" or not file.is_file():
        raise UnknownTask(
            f"there is no file {word} of a task; `tinyrmc new NAME` writes an example "
            f"to begin with, and these have names: {', '.join(files)}"
        )
    if file in [each.parent.resolve() / each.name for each in files.values()]:
        return f"{PACKAGE}.{file.stem}", file
    return _own_name(file), file


def _whole(word: str) -> Path:
    path = Path(os.path.expanduser(word))
    return path.parent.resolve() / path.name


def _own_name(file: Path) -> str:
    """The name of the module of a file of one's own: another may have its stem."""
    digest = hashlib.sha256(str(file).encode()).hexdigest()
    return f"{PACKAGE}.{file.stem}_{digest[:8]}"


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
    name = config["task"]
    file = config.get("task_file")
    return name if file is None else _still_there("task_file", file, name)


def _still_there(what: str, file: str, name: str) -> str:
    path = Path(os.path.expanduser(file))
    if not path.is_absolute() or path.stem != name:
        raise UnknownTask(
            f"{what} {file!r} is not the absolute path of a file {name}.py; "
            "correct the run's config.json"
        )
    folders = os.environ.get(ELSEWHERE, "").split(os.pathsep)
    for place in [path, *(Path(folder, path.name) for folder in folders if folder)]:
        if place.is_file():
            return str(place.absolute())
    where = f"the folder that it is in now: {ELSEWHERE}=FOLDER before the command"
    if what == "core_file":
        where = f"it where it is now: --core FOLDER/{path.name}, in Python load_cores"
    raise UnknownTask(
        f"the run's {what.partition('_')[0]} is not in {file} any more; put the file "
        f"back, or name {where}"
    )


def load_task_of(config: dict) -> ModuleType:
    """The module of the task that a run's config.json names: see `word_of`."""
    return load_task(word_of(config))


def task_of(kind: type) -> str | None:
    """The word that names the task whose file defines a class; None if none does."""
    module = sys.modules.get(kind.__module__)
    own = kind.__module__.startswith(f"{PACKAGE}.") and hasattr(module, "Task")
    return getattr(module, "__file__", None) if own else None


def load_task(word: str) -> ModuleType:
    """The module of a task, by its name or its file; imported once.

    It defines `Task`. UnknownTask if there is none, or if importing it fails; then
    nothing is left of it.
    """
    name, file = find_task(word)
    if name in sys.modules:
        return sys.modules[name]
    with _importing("task", name, file) as module:
        kind = getattr(module, "Task", None)
        if not (getattr(kind, "presets", None) and hasattr(kind, "held_out")):
            raise ImportError("it defines no class Task(training.Task) with presets")
        for each in dir(kind):
            if getattr(getattr(kind, each), "__isabstractmethod__", False):
                raise ImportError(f"its class Task lacks {each}")
        if not (module.__doc__ or "").strip():
            if sys.flags.optimize > 1:
                raise ImportError(NO_DOCSTRINGS)
            raise ImportError(
                "it has no docstring, whose first line says what the task is"
            )
    return module


# the file that registered a core -> its cores
_brought: dict[Path, dict[str, registry.Entry]] = {}
_given: set[Path] = set()  # those of them that somebody has named, and no run


def load_cores(words: Iterable[str]) -> list[ModuleType]:
    """The modules of files that register cores, each imported once, for this process.
    Runs find them there, too, if theirs have moved: see `load_cores_of`.

    UnknownTask if there is no such file, if importing it fails, or if it registers
    none.
    """
    modules = []
    for word in words:
        file = _whole(word)
        if file.suffix != ".py" or not file.is_file():
            names = [each.name for each in file.parent.glob("*.py")]
            close = difflib.get_close_matches(file.name, names, 1)
            near = f"did you mean {close[0]}?" if close else "see register_core"
            raise UnknownTask(f"there is no Python file {word} with a core; {near}")
        modules += _load_cores([file])
        _given.add(file)
    return modules


def _load_cores(files: Iterable[Path]) -> list[ModuleType]:
    modules = []
    for file in files:
        name, before = _own_name(file), {**registry.cores()}
        known = _brought.get(file, {}) if name in sys.modules else {}
        with _importing("core", name, file) as module:
            for core, entry in known.items():  # another run's has its name by now
                registry.register_core(core, **vars(entry))
            now = registry.cores()
            own = {core for core in now if now[core] is not before.get(core)}
            # a task's file may have been loaded as such
            own |= {k for k, e in now.items() if e.build.__module__ == name}
            if not own:
                raise ImportError("it registers no core; see tinyrmc.register_core")
        _brought.pop(file, None)  # the last one read comes last
        _brought[file] = {core: now[core] for core in own}
        modules.append(module)
    return modules


def cores_of(config: Any) -> dict[str, list[str]]:
    """The entry of config.json for the cores of a task's configuration: "core_files",
    their files, if `load_cores` has brought some of them.
    """
    model = getattr(config, "model", None)
    used = {getattr(model, "core", None), *getattr(model, "settings", ())}
    files = core_files(used)
    return {"core_files": files} if files else {}


def core_files(names: Set, kinds: Iterable[type] = ()) -> list[str]:
    """The files that `load_cores` has brought with these cores, or these classes."""
    modules = {kind.__module__ for kind in kinds}
    last = {core: file for file, own in _brought.items() for core in own}
    used = {last[core] for core in names & last.keys()}
    return [stored_path(x) for x in _brought if x in used or _own_name(x) in modules]


def load_cores_of(config: dict) -> list[ModuleType]:
    """Import the files of cores that a run's config.json, or a module's file, names,
    or those in their `core_places`. They hold until a run is read that has others.
    """
    files = core_places(config).values()
    modules = _load_cores(files)
    for file in {*files} - _given:
        registry.yielding.update(_brought[file])
    return modules


def core_places(config: dict) -> dict[Path, Path]:
    """{file of cores that a run's config.json, or a module's file, names: the file that
    is read for it}. One that `load_cores` was given takes the place of one of its name,
    and of any other if it has all cores that are wanted. UnknownTask as in `word_of`.
    """
    model = config.get("config", {}).get("model")
    model = model if isinstance(model, dict) else {}  # what is wrong is said later
    wanted = {name for name, value in model.items() if isinstance(value, dict)}
    wanted |= {model["core"]} if isinstance(model.get("core"), str) else set()
    wanted |= {*config.get("cores", ())}
    wanted -= {*registry.cores()} - registry.added()
    having = [file for file in _given if wanted and wanted <= _brought[file].keys()]
    found = {}
    for file in map(Path, config.get("core_files", ())):
        given = [each for each in _given if each.name == file.name] or having
        place = given[0] if given else _still_there("core_file", str(file), file.stem)
        found[Path(os.path.expanduser(file)).resolve()] = _whole(str(place))
    return found


@contextlib.contextmanager
def _importing(what: str, name: str, file: Path) -> Iterator[ModuleType]:
    """The module of a file, just imported. UnknownTask for whatever fails then, or in
    the body; nothing is left of it.
    """
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # a file that ends in .py
    module = sys.modules.get(name) or importlib.util.module_from_spec(spec)
    new = name not in sys.modules
    before = {**registry.cores()}
    sys.modules[name] = module  # dataclasses look their module up here
    try:
        if new:
            if name == _own_name(file):
                _reach(file.parent)
            spec.loader.exec_module(module)
        yield module
    except (Exception, SystemExit) as error:  # a script may call sys.exit()
        if new:
            del sys.modules[name]
            registry.restore(before)
        place = place_of(error)
        line = f", line {place[1]}" if place else ""
        why = f" cannot be imported: {type(error).__name__}: {error}"
        if place and isinstance(error, (ValueError, TaskError)):  # mostly our own
            why = f": {error}"
        raise UnknownTask(f"{what} {file.stem!r} ({file}{line}){why}") from error


reached: list[str] = []  # folders of one's own files, whose files can be imported


def _reach(folder: Path) -> None:
    """Let files be imported from a folder, first of all. What another such folder has
    brought under the same names stays with those who have imported it.
    """
    for name, module in [*sys.modules.items()]:
        place = os.path.dirname(getattr(module, "__file__", None) or "")
        if os.path.basename(place) == name:  # a package
            place = os.path.dirname(place)
        if "." not in name and place in reached and place != str(folder):
            del sys.modules[name]
    if str(folder) in sys.path:
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))
    reached.append(str(folder))


# --- Errors in a task's code ----------------------------------------------------------


def place_of(error: BaseException) -> tuple[Path, int, str] | None:
    """(file, line, function) where an exception last passed through a task's code; None
    if it did not.
    """
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        beside = os.path.dirname(frame.f_code.co_filename) in reached
        if beside or frame.f_globals.get("__name__", "").startswith(f"{PACKAGE}."):
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
