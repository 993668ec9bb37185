"""Which exercises are solved, remembered from one visit to the next.

One file, progress.json, in the folder where this system keeps the data of programs, or
where TINYRMC_PROGRESS says. It holds the names of exercises and nothing else. Beside it
lies the folder `answers`, with the text of each right answer (`saved_answers.py`).
Nothing is sent anywhere. With TINYRMC_PROGRESS set to nothing, nothing is remembered.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import sys
import tempfile
from pathlib import Path

_complained = False


def file() -> Path | None:
    """Where solved exercises are noted, or would be; None where nothing shall be."""
    chosen = os.environ.get("TINYRMC_PROGRESS")
    if chosen is not None:
        return Path(chosen).expanduser() / "progress.json" if chosen else None
    home = Path.home()
    if sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    elif sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        folder = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return folder / "tinyrmc" / "progress.json"


def read() -> set[str]:
    """The solved exercises, "module.exercise". Empty where there is no such file."""
    place = file()
    try:
        found = json.loads(place.read_text(encoding="utf-8")) if place else []
        return {each for each in found if isinstance(each, str)}
    except (OSError, ValueError, TypeError):
        return set()


def solved(chapter: str, name: str) -> None:
    """Remember this exercise. Where nothing can be written, it says so, once."""
    global _complained
    place, before = file(), read()
    now = before | {f"{chapter}.{name}"}
    if place is None or now == before:
        return
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        # Whole, or not at all: two notebooks may be open.
        handle, new = tempfile.mkstemp(dir=place.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as written:
            written.write(json.dumps(sorted(now), indent=1) + "\n")
        os.replace(new, place)
    except OSError as problem:
        if not _complained:
            print(f"(your progress is not kept: {place}: {problem.strerror})")
        _complained = True


def forget() -> None:
    """Delete what is remembered of your progress, and your answers."""
    place = file()
    if place is None or not place.exists():
        print("Nothing is kept.")
        return
    place.unlink()
    for answer in (place.parent / "answers").glob("*.py"):
        answer.unlink()
    print(f"Deleted {place} and the answers beside it")


def exercises() -> dict[tuple[int, str], list[str]]:
    """The exercises of each chapter, by its number and the name of its module."""
    from . import exercises as package
    from .exercises.exercise import Exercise

    found = {}
    for _, name, _ in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{name}")
        number = re.match(r"Chapter (\d+)", module.__doc__ or "")
        if number:
            found[int(number[1]), name] = [
                each.name
                for each in vars(module).values()
                if isinstance(each, Exercise) and each.chapter == name
            ]
    return dict(sorted(found.items()))


def progress() -> None:
    """Print how many exercises of each chapter you have solved, and which come next.

    An exercise is solved once `check` or `yours` has found your own function right.
    """
    done, total, count = read(), 0, 0
    for (number, module), names in exercises().items():
        left = [each for each in names if f"{module}.{each}" not in done]
        right = len(names) - len(left)
        bar = "#" * right + "." * len(left)
        line = f"{number:3}  {module:16} {right:2} of {len(names):2}  {bar}"
        print(f"{line}  next: {left[0]}" if right and left else line)
        total, count = total + right, count + len(names)
    print(f"\n{total} of {count} exercises solved.")
    place = file()
    if place is None:
        print("TINYRMC_PROGRESS is empty, so nothing is kept for your next visit.")
    else:
        print(f"Kept on this machine alone, in\n  {place}")
        print("with what you wrote beside it; course.forget() deletes both.")
