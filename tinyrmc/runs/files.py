"""Files that are written whole or not at all, read only if they are regular, and
checked for what they should say; and the error that tells why one cannot be used.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ..config import json_text, overflows
from ..errors import RunError, why


@contextlib.contextmanager
def explained(action: str, remedy: str) -> Iterator[None]:
    """An OSError of the body as a RunError: "cannot <action>: ...; <remedy>"."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot {action}: {why(error)}; {remedy}") from error


# --- Reading --------------------------------------------------------------------------


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """A regular file, open for reading.

    OSError for anything else: a pipe or a device might never end.
    """
    # without O_NONBLOCK, opening a pipe would wait for somebody to write to it
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        yield file


def read_whole(path: str | Path) -> bytes:
    """The bytes of a regular file. OSError as from `opened`."""
    with opened(path) as file:
        return file.read()


def from_json(text: bytes | str) -> Any:
    """What a JSON text says. ValueError for other text, or JSON nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


# --- Checking what a file says --------------------------------------------------------


class Count(int):
    """The kind of whole numbers that are not negative."""


def misfit(
    value: Any, kinds: Mapping[str, Any], needed: Sequence[str] = ()
) -> str | None:
    """What is wrong with a value from JSON that should be an object, in words; None if
    nothing is.

    kinds: {key: `Count`, float, str, bool, dict, list, None or a union of these}; whole
        numbers pass as float. Other keys may say anything.
    needed: the keys that must be there.
    """
    if not isinstance(value, dict):
        return f"it cannot be {_shown(value)}"
    for name in needed:
        if name not in value:
            return f"it has no {name}"
    for name, kind in kinds.items():
        if name in value:
            options = typing.get_args(kind) or (kind,)
            if not any(_is_of(value[name], each) for each in options):
                return f"{name} cannot be {_shown(value[name])}"
    return None


def _is_of(value: Any, kind: Any) -> bool:
    if kind is Count:
        return type(value) is int and value >= 0 and not overflows(value)
    if kind is float:
        return type(value) in (int, float) and not overflows(value)
    return isinstance(value, kind)


def _shown(value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, list | dict) else str(value)
    return text if len(text) <= 40 else f"{text[:36]} ..."


# --- Writing --------------------------------------------------------------------------


def as_json(path: str | Path, value: Any, indent: int | None = None) -> str:
    """The JSON text of what `path` is to hold; RunError for what JSON cannot say."""
    try:
        return json_text(value, indent)
    except (TypeError, ValueError, RecursionError) as error:
        says = " ".join(str(error).split())  # an array in it has lines of its own
        raise RunError(f"cannot write {path}: {says}") from error


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file of a run by these bytes, as `written_whole` does."""
    with written_whole(path) as file:
        file.write(data)


@contextlib.contextmanager
def written_whole(path: Path, previous: Path | None = None) -> Iterator[BinaryIO]:
    """A file beside `path`, open for writing; forced to disk and renamed once the body
    is done: the one way to replace a file of a run.

    previous: where a file that stands at `path` is moved to; without it, that file is
        replaced.

    RunError for what the disk refuses. Nothing is replaced if the body fails.
    """
    # Always the same name, so what a killed process left is overwritten.
    beside = path.with_name(f"{path.name}.partial")
    remedy = (
        "free some space there or make it writable (what was saved earlier is "
        "untouched)"
    )
    try:
        with explained(f"write {path}", remedy):
            with open(beside, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if previous is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.replace(path, previous)
            os.replace(beside, path)
    finally:
        with contextlib.suppress(OSError):  # gone already when all went well
            beside.unlink()
