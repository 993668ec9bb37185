"""Files that are written whole or not at all, read only if they are regular, and
checked for what they should say; and the error that tells why one cannot be used.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

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


Count = typing.NewType("Count", int)


class Expected(dict[str, Any]):
    """What an object in JSON should say: {its key: a type}, as `misfit` takes them.

    Keys that it does not name may say anything.

    needed: the keys that must be there.
    """

    def __init__(self, expected: Mapping[str, Any], needed: tuple[str, ...] = ()):
        super().__init__(expected)
        self.needed = needed


def misfit(value: Any, expected: Any, where: str = "") -> str | None:
    """Where a value from JSON does not fit a type, in words; None if it fits.

    expected: int, `Count` (not negative), float, str, bool, None, Any, a Literal, a
        union of these, list[...], dict[str, ...], a tuple as dataclasses have it, or an
        `Expected`. Whole numbers pass as float, and True is not a number.
    """
    if isinstance(expected, Expected):
        return _object_misfit(value, expected, where)
    origin, inner = typing.get_origin(expected), typing.get_args(expected)
    if origin in (typing.Union, types.UnionType):
        found = [misfit(value, each, where) for each in inner]
        return None if None in found else found[0]
    if origin is typing.Literal:
        fits = any(value == each and type(value) is type(each) for each in inner)
        return None if fits else _says(where, value)
    if origin in (list, tuple) and isinstance(value, list | tuple):
        return _list_misfit(value, origin, inner, where)
    if origin is dict and isinstance(value, dict):
        return _object_misfit(value, Expected(dict.fromkeys(value, inner[1])), where)
    return None if _is_plain(value, expected) else _says(where, value)


def _is_plain(value: Any, expected: Any) -> bool:
    """Whether a value is of a simple type, which is not made of others."""
    if expected in (None, types.NoneType, Any):
        return value is None or expected is Any
    if isinstance(value, bool):
        return expected is bool
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        return False  # it would end in an OverflowError somewhere
    if expected is float:
        return isinstance(value, int | float)
    if expected in (int, Count):
        return isinstance(value, int) and (expected is int or value >= 0)
    return expected in (str, Path, list, dict) and isinstance(
        value, str if expected is Path else expected
    )


def _list_misfit(value: Sequence, origin: Any, inner: tuple, where: str) -> str | None:
    """As `misfit`, of the items of a list, or of a tuple that will be one."""
    if origin is tuple and inner[-1] is not Ellipsis:
        kinds = list(inner)
    else:
        kinds = [inner[0]] * len(value)
    if len(kinds) != len(value):
        return _says(where, value)
    found = (misfit(x, kind, where) for x, kind in zip(value, kinds, strict=True))
    return next(filter(None, found), None)


def _object_misfit(value: Any, expected: Expected, where: str) -> str | None:
    """As `misfit`, of the values of an object."""
    if not isinstance(value, dict):
        return _says(where, value)
    for name in expected.needed:
        if name not in value:
            return f"it has no {f'{where}.{name}' if where else name}"
    found = (
        misfit(value[name], kind, f"{where}.{name}" if where else name)
        for name, kind in expected.items()
        if name in value
    )
    return next(filter(None, found), None)


def _says(where: str, value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, list | dict) else str(value)
    text = text if len(text) <= 40 else f"{text[:36]} ..."
    return f"{where or 'it'} cannot be {text}"


# --- Writing --------------------------------------------------------------------------


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
