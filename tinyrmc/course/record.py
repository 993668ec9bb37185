"""Memory of the solved exercises, from one visit to the next.

One file, progress.json, in the folder where this system keeps the data of programs, or
where TINYRMC_PROGRESS says. It holds the names of exercises and nothing else. Beside it
lies the folder `answers`, with the text of each right answer (`saved_answers.py`).
Nothing is sent anywhere. With TINYRMC_PROGRESS set to nothing, nothing is remembered.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ..backend.files import replace

_complained = False

# Modules of exercises, and where some of theirs were before.
OLDER = {
    "attention": ("encoding",),
    "checking": ("tape",),
    "invariants": ("encoding",),
    "looking_inside": ("nth_farthest",),
    "going_fast": ("by_hand", "cache_and_workers", "language"),
    "one_hop": ("memory_networks",),
    "ppo": ("worlds",),
    "through_time": ("memory",),
    "worlds": ("acting",),
}


def names(chapter: str, name: str) -> list[str]:
    """The names under which an exercise may be kept, its own first."""
    return [f"{each}.{name}" for each in (chapter, *OLDER.get(chapter, ()))]


def file() -> Path | None:
    """The file that notes solved exercises, or would; None where nothing is noted."""
    chosen = os.environ.get("TINYRMC_PROGRESS")
    if chosen is not None:
        return Path(chosen).expanduser() / "progress.json" if chosen else None
    home = Path.home()
    if sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    elif sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    elif sys.platform == "emscripten" and _has_drive():
        return Path("/drive/.tinyrmc/progress.json")
    else:
        folder = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return folder / "tinyrmc" / "progress.json"


def _has_drive() -> bool:
    """Whether there is what the browser itself keeps, which all chapters see. Where its
    worker is blocked, to ask is an error.
    """
    try:
        return Path("/drive").is_dir()
    except OSError:
        return False


def read() -> set[str]:
    """The solved exercises, "module.exercise". Empty where there is no such file."""
    place = file()
    try:
        found = json.loads(place.read_text(encoding="utf-8")) if place else []
        listed = found if isinstance(found, list) else []
        return {each for each in listed if isinstance(each, str)}
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
        replace(place, json.dumps(sorted(now), indent=1) + "\n")
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
