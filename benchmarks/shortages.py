"""Faults of the machine: a disk that is full, and streams that are full or closed.

Each is a function of a random generator and an empty folder, as faults.py takes them.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from spoiling import reading
from trials import (
    TASKS,
    Setting,
    Verdict,
    contents,
    go_on,
    judge,
    run,
    with_run,
    words_of,
)

# --- Disks ----------------------------------------------------------------------------


@contextlib.contextmanager
def tmpfs(folder: Path, size: int) -> Iterator[Callable[[int], object]]:
    """A file system of so many bytes in memory; gives what makes it larger."""

    def mount(how: str, size: int) -> None:
        words = [
            "mount",
            "-t",
            "tmpfs",
            "-o",
            f"{how}size={size}",
            "tmpfs",
            str(folder),
        ]
        subprocess.run(words, check=True, capture_output=True)

    mount("", size)
    try:
        yield lambda size: mount("remount,", size)
    finally:
        subprocess.run(["umount", "-l", folder], check=True, capture_output=True)


def can_mount() -> bool:
    """Whether we may mount a tmpfs."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tmpfs(Path(folder), 4096):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


def disks(rng: random.Random, folder: Path) -> Verdict:
    """The disk of a run, or that of its log, is full at some point."""
    task, small = rng.choice([*TASKS]), folder / "small"
    small.mkdir()
    words = [*words_of(task), "--run"]
    with tmpfs(small, rng.randrange(1, 40) * 4096 * rng.choice((1, 4))) as resize:
        if log := rng.random() < 0.3:
            _fill(small / "ballast")
            to_log = functools.partial(_to_file, small / "log")
            ended = run([*words, str(folder / "run")], folder, to_log)
        else:
            ended = run([*words, str(small / "run")], folder)
        outcome, why = judge(ended, same=True)
        if outcome != "traceback":
            resize(1 << 26)
            outcome, why = go_on(task, 1, folder if log else small)
    return outcome, f"{task}, {'log' if log else 'run'}: {why}"


def _fill(path: Path) -> None:
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def _to_file(path: Path) -> None:
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), 1)


# --- Streams --------------------------------------------------------------------------


def _closed(*numbers: int) -> None:
    """Close these streams."""
    for number in numbers:
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)


def _full(*numbers: int) -> None:
    for number in numbers:
        os.dup2(os.open("/dev/full", os.O_WRONLY), number)


def _ascii() -> None:
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), "ascii")


def _broken() -> None:
    read, written = os.pipe()
    os.close(read)
    os.dup2(written, 1)


def _limit(what: int, n: int) -> Setting:
    return functools.partial(resource.setrlimit, what, (n, n))


SETTINGS: dict[str, Setting] = {
    "no room for output": lambda: _full(1),
    "no room for errors": lambda: _full(2),
    "no room": lambda: _full(1, 2),
    "no reader": _broken,
    "no input": lambda: _closed(0),
    "no output": lambda: _closed(1),
    "no errors": lambda: _closed(2),
    "no streams": lambda: _closed(0, 1, 2),
    "ASCII": _ascii,
    **{f"{n} files": _limit(resource.RLIMIT_NOFILE, n) for n in (6, 12, 64)},
    **{
        f"files of {n} bytes": _limit(resource.RLIMIT_FSIZE, n)
        for n in (0, 100, 3000, 30_000)
    },
}
# under which nobody can hear why a command was refused
DEAF = ("no errors", "no streams", "no room for errors", "no room", "files of")


def streams(rng: random.Random, folder: Path) -> Verdict:
    """A command under one of the SETTINGS; what a run has must survive."""
    task, (name, setting) = rng.choice([*TASKS]), rng.choice([*SETTINGS.items()])
    with_run(task, "whole", folder)
    before = contents(folder)
    words = rng.choice(reading(task, "run"))
    if rng.random() < 0.3:
        words = [*words_of(task, rng.choice((1, 2))), "--run", "new"]
    ended = run(words, folder, setting)
    if name == "no reader" and ended.code == 141:
        ended = ended._replace(code=0)
    if name.startswith(DEAF) and ended.code == 2 and not ended.err:
        ended = ended._replace(err="error: which nobody could hear")
    after = contents(folder)
    changed = [p for p in before if after.get(p) != before[p] and "png" not in p]
    outcome, why = judge(ended, same=not changed, unchanged=not changed)
    why = why and f"{why}; changed: {changed}"
    return outcome, f"{' '.join(words)[:60]} with {name}: {why}"
