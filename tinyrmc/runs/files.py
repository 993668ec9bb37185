"""Files that are written whole or not at all, read only if they are regular, and
checked for what they should say; and the error that tells why one cannot be used.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import types
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

    expected: int, `Count` (not negative), float, str, bool, None, Any, a union of
        these, list[...], dict[str, ...], a tuple as dataclasses have it, or an
        `Expected`. Whole numbers pass as float, and True is not a number.
    """
    wrong = _wrong(value, expected, where)
    return None if wrong is None else _says(*wrong)


MISSING = object()  # in the place of a value that should be there

Wrong = tuple[str, Any] | None  # (where it is, the value that does not fit)


def _wrong(value: Any, expected: Any, where: str) -> Wrong:
    """What does not fit. It becomes words only if nothing else accepts the value."""
    if isinstance(expected, Expected):
        return _wrong_object(value, expected, where)
    origin, inner = typing.get_origin(expected), typing.get_args(expected)
    if origin in (typing.Union, types.UnionType):
        found = [_wrong(value, each, where) for each in inner]
        return None if None in found else found[0]
    if origin in (list, tuple) and isinstance(value, list | tuple):
        return _wrong_list(value, origin, inner, where)
    if origin is dict and isinstance(value, dict):
        return _wrong_object(value, Expected(dict.fromkeys(value, inner[1])), where)
    return None if _is_plain(value, expected) else (where, value)


def _is_plain(value: Any, expected: Any) -> bool:
    """Whether a value is of a simple type, which is not made of others."""
    if expected in (None, types.NoneType, Any):
        return value is None or expected is Any
    if isinstance(value, bool):
        return expected is bool
    if overflows(value):
        return False
    if expected is float:
        return isinstance(value, int | float)
    if expected in (int, Count):
        return isinstance(value, int) and (expected is int or value >= 0)
    return expected in (str, list, dict) and isinstance(value, expected)


def _wrong_list(value: Sequence, origin: Any, inner: tuple, where: str) -> Wrong:
    """As `_wrong`, of the items of a list, or of a tuple that will be one."""
    if origin is tuple and inner[-1] is not Ellipsis:
        kinds = list(inner)
    else:
        kinds = [inner[0]] * len(value)
    if len(kinds) != len(value):
        return where, value
    found = (_wrong(x, kind, where) for x, kind in zip(value, kinds, strict=True))
    return next(filter(None, found), None)


def _wrong_object(value: Any, expected: Expected, where: str) -> Wrong:
    """As `_wrong`, of the values of an object."""
    if not isinstance(value, dict):
        return where, value
    inside = f"{where}." if where else ""
    for name in expected.needed:
        if name not in value:
            return inside + name, MISSING
    found = (
        _wrong(value[name], kind, inside + name)
        for name, kind in expected.items()
        if name in value
    )
    return next(filter(None, found), None)


def _says(where: str, value: Any) -> str:
    if value is MISSING:
        return f"it has no {where}"
    text = json.dumps(value) if not isinstance(value, list | dict) else str(value)
    text = text if len(text) <= 40 else f"{text[:36]} ..."
    return f"{where or 'it'} cannot be {text}"


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
