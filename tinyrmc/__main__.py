"""`tinyrmc COMMAND ...` and `python -m tinyrmc COMMAND ...`: all commands by one name.

`tinyrmc train nth_farthest` is `python -m tinyrmc.train nth_farthest`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import __version__
from .cli.commands import asked_by_shell, complete, run_main
from .errors import UsageError, nearest

# the command `train` is `main` of `tinyrmc.cli.train`, imported only when asked
COMMANDS = {
    "train": "train a network on a task, or go on with a run",
    "evaluate": "test a trained network on held-out examples",
    "plot": "draw learning curves, what a network attends to, or a level",
    "generate": "let a trained language model write",
    "play": "play a world in the terminal, with the arrow keys",
    "sweep": "train every combination of some settings",
    "report": "compare runs in one table",
    "data": "get the texts that language models learn from, and check them",
    "new": "write an example of a task or a core, to make your own",
    "progress": "your solved exercises, and a file of them to hand in",
    "grade": "grade the notebooks that learners have handed in",
    "assignment": "make an assignment for nbgrader of a chapter",
}


def usage() -> str:
    """The commands, a line each."""
    width = max(map(len, COMMANDS))
    lines = [f"    {name:{width}}  {text}\n" for name, text in COMMANDS.items()]
    return (
        "usage: tinyrmc COMMAND ...          (COMMAND --help: its words and flags)\n"
        f"       tinyrmc --version\n\n{''.join(lines)}\n"
        "To begin with: tinyrmc train nth_farthest"
    )


def main(argv: Sequence[str]) -> int:
    """Run the command that the first word names; returns its exit code."""
    if "_ARGCOMPLETE" in os.environ:
        argv = asked_by_shell()[0][1:]
        complete(argv, COMMANDS)
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0
    command, *words = argv
    if command == "--version":
        print(f"tinyrmc {__version__}")
        return 0
    if command not in COMMANDS:
        raise UsageError(
            f"unknown command {command!r} (commands: {', '.join(COMMANDS)})"
            f"{nearest(command, COMMANDS)}"
        )
    return importlib.import_module(f"tinyrmc.cli.{command}").main(words)


def run() -> NoReturn:
    """The program `tinyrmc`: a user's error is one line and exit code 2."""
    run_main(lambda: main(sys.argv[1:]))


if __name__ == "__main__":
    run()
