"""Begin a task of your own: a file to change.

    tinyrmc new lookup              writes lookup.py here, a whole task that learns
    tinyrmc new junction --world    the same for an agent in a world of its own

Both are the examples of `tasks/README.md`.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from ..training.discovery import FOLDER, task_files
from .commands import Parser, program, python


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    about = "Write an example of a task into the current directory: a file to change."
    parser = Parser(program("new"), about)
    add = parser.add_argument
    says = "the task's name; its file becomes NAME.py"
    add("name", metavar="NAME", help=says)
    says = "a world, and an agent that learns there"
    add("--world", action="store_true", help=says)
    options = parser.parse_args(argv)
    file = write_task(options.name.removesuffix(".py"), world=options.world)
    parts, takes = "its data, its network, its loss", "half a minute"
    if options.world:
        parts, takes = "its world, its agent", "ten seconds"
    print(f"{file} is a task. It trains in {takes}:\n")
    print(f"    {python()} -m tinyrmc.train {shlex.quote(str(file))}\n")
    print(f"Change {parts}: the file says what each is for.", flush=True)
    return 0


def example(world: bool) -> str:
    """The example of a task, or of one with a world of its own, as Python."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    lookup, junction = re.findall(r'(?s)```python\n(""".*?)```\n', text)
    return junction if world else lookup


def write_task(name: str, folder: Path = Path(), world: bool = False) -> Path:
    """Write an example as `folder/name.py`; returns the path.

    UsageError if the name is no identifier, if it is that of a task or of a module that
    Python finds, or if there is such a file already.
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
    try:
        file.write_text(example(world), encoding="utf-8")
    except OSError:
        file.unlink(missing_ok=True)  # it may be half written
        raise
    return file
