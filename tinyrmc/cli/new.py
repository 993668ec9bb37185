"""Begin a task or a core of your own: a file to change.

    tinyrmc new lookup              writes lookup.py here, a whole task that learns
    tinyrmc new junction --world    the same for an agent in a world of its own
    tinyrmc new leaky --core        a core, for any task that has a choice of cores

They are the examples of `tasks/README.md` and `tasks/research.md`.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from ..cores.registry import NAME, cores
from ..errors import UsageError
from ..training.discovery import FOLDER, task_files
from .commands import Parser, program, python


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    about = "Write an example of a task, or of a core, into the current directory: a "
    about += "file to change."
    parser = Parser(program("new"), about)
    add = parser.add_argument
    says = "the name of the task or core; its file becomes NAME.py"
    add("name", metavar="NAME", help=says)
    kinds = parser.add_mutually_exclusive_group()
    says = "a world, and an agent that learns there"
    kinds.add_argument("--world", action="store_true", help=says)
    says = "a core: a memory of your own, for --model.core NAME"
    kinds.add_argument("--core", action="store_true", help=says)
    options = parser.parse_args(argv)
    name, train = options.name.removesuffix(".py"), f"{python()} -m tinyrmc.train"
    if options.core:
        file = write_example(name, kind="core")
        print(f"{file} is a core. Check its gradient, and train it, in a minute:\n")
        print(f"    {python()} {file}")
        print(f"    {train} recall --core {file} --model.core {name}\n")
        print("Change its step and its settings: the file says what each is for.")
        return 0
    file = write_example(name, kind="world" if options.world else "task")
    parts = "its data, its network, its loss"
    if options.world:
        parts = "its world, its agent"
    print(f"{file} is a task. It trains in half a minute:\n")
    print(f"    {train} {shlex.quote(str(file))}\n")
    print(f"Change {parts}: the file says what each is for.", flush=True)
    return 0


def example(kind: str, name: str = "") -> str:
    """The example of a "task", of one with a "world" of its own, or of a "core" of this
    name, as Python.
    """
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    lookup, junction = re.findall(r'(?s)```python\n(""".*?)```\n', text)
    if kind != "core":
        return junction if kind == "world" else lookup
    text = (FOLDER / "research.md").read_text(encoding="utf-8")
    (leaky,) = re.findall(r"(?s)```python\n# leaky.py\n(.*?)```\n", text)
    of_class = "".join(part.capitalize() for part in name.split("_"))
    return leaky.replace("leaky", name).replace("Leaky", of_class)


def write_example(name: str, folder: Path = Path(), kind: str = "task") -> Path:
    """Write an `example` as `folder/name.py`; returns the path.

    UsageError if the name is no identifier, if it is that of a task, of a core or of a
    module that Python finds, or if there is such a file already.
    """
    file = folder / f"{name}.py"
    if file.exists():
        raise UsageError(f"{file} exists already; choose another name")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} cannot name a Python module; take letters, digits and _, as in "
            "my_task"
        )
    spec = importlib.util.find_spec(name) if name not in sys.modules else None
    module = name in sys.modules or (spec is not None and spec.origin is not None)
    if module or name in task_files():  # a plain folder does not count
        raise UsageError(f"{name} is a module or a task already; choose another name")
    if kind == "core" and (name in cores() or not NAME.fullmatch(name)):
        raise UsageError(
            f"{name!r} cannot name a core: it takes small letters, digits and _, and "
            f"these are taken: {', '.join(cores())}"
        )
    try:
        file.write_text(example(kind, name), encoding="utf-8")
    except OSError:
        file.unlink(missing_ok=True)  # it may be half written
        raise
    return file
