"""Your solved exercises, chapter by chapter."""

from __future__ import annotations

import importlib
import pkgutil
import re

from . import exercises as package
from . import record


def exercises() -> dict[tuple[int, str], list[str]]:
    """The exercises of each chapter, by its number and the name of its module."""
    found = {}
    for _, name, _ in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{name}")
        number = re.match(r"Chapter (\d+)", module.__doc__ or "")
        if number:
            found[int(number[1]), name] = [
                each.name
                for each in vars(module).values()
                if getattr(each, "chapter", "") == name and hasattr(each, "name")
            ]
    return dict(sorted(found.items()))


def progress() -> None:
    """Print how many exercises of each chapter you have solved, and which come next.

    An exercise is solved once `check` or `yours` has found your own function right.
    """
    done, total, count = record.read(), 0, 0
    for (number, module), names in exercises().items():
        left = [each for each in names if not done & {*record.names(module, each)}]
        right = len(names) - len(left)
        bar = "#" * right + "." * len(left)
        line = f"{number:3}  {module:16} {right:2} of {len(names):2}  {bar}"
        print(f"{line}  next: {left[0]}" if right and left else line)
        total, count = total + right, count + len(names)
    print(f"\n{total} of {count} exercises solved.")
    place = record.file()
    if place is None:
        print("TINYRMC_PROGRESS is empty, so nothing is kept for your next visit.")
    else:
        print(f"Kept on this machine alone, in\n  {place}")
        print("with what you wrote beside it; course.forget() deletes both.")
